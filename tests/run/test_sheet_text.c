/* test_sheet_text.c - lettering of contact sheets: words stay whole, nothing is cut off or lost, letters beyond ASCII
 * are drawn, what no font has is a '?', and without Pango there are built-in letters. */
#include "base/memory_alloc.h"
#include "harness.h"
#include "run/sheet_text.h"

#include <stdlib.h>
#include <string.h>

enum { WIDE = 2000 };

/* Text as it is drawn; CHECKs that it keeps to its box. */
static text_image drawn(sheet_text *t, const char *text, size_t width, size_t lines)
{
    text_image m, only;
    CHECK(sheet_text_set(t, text, width, lines, 1, &m) == KILN_OK);
    CHECK(sheet_text_set(t, text, width, lines, 0, &only) == KILN_OK);
    CHECK(m.w <= width && m.w == only.w && m.h == only.h && !only.cover);
    return m;
}

static size_t ink(const text_image *m)
{
    size_t sum = 0;
    for (size_t i = 0; m->cover && i < m->w * m->h; i++) sum += m->cover[i];
    return sum;
}

static size_t ink_of(sheet_text *t, const char *text)
{
    text_image m = drawn(t, text, WIDE, 1);
    size_t sum = ink(&m);
    mem_free(m.cover);
    return sum;
}

static int open_text(sheet_text *t)
{
    *t = (sheet_text){.size = 15};
    sheet_text_open(t, NULL);
    return t->pango != NULL;
}

static void words_stay_whole(sheet_text *t)
{
    text_image one = drawn(t, "castle", WIDE, 1), two, cut;
    two = drawn(t, "castle meadow", one.w + one.w / 2, 3);
    CHECK(two.h > one.h && two.h <= 2 * one.h + 2 && two.w >= one.w);
    size_t apart = ink_of(t, "castle") + ink_of(t, "meadow");
    CHECK_MSG(labs((long)ink(&two) - (long)apart) * 50 <= (long)apart, "%zu of %zu", ink(&two), apart);
    cut = drawn(t, "castle castle castle castle castle castle castle castle castle", one.w + one.w / 2, 3);
    CHECK(cut.h <= 3 * one.h + 3 && cut.h > two.h);
    mem_free(one.cover), mem_free(two.cover), mem_free(cut.cover);
}

static void test_words_stay_whole(void)
{
    sheet_text t;
    if (!open_text(&t)) {
        test_skip("libpangocairo-1.0-0 or a font is not installed");
        return;
    }
    words_stay_whole(&t);
    text_image small = drawn(&t, "indivisible", 24, 3);
    CHECK(small.h > 0 && ink(&small) > 0);
    mem_free(small.cover);
    text_image lines = drawn(&t, "a\nb", WIDE, 3), blank = drawn(&t, "a b", WIDE, 3);
    CHECK(lines.h == blank.h && lines.w == blank.w);
    mem_free(lines.cover), mem_free(blank.cover);
    sheet_text_close(&t);
}

static void test_letters_beyond_ascii(void)
{
    sheet_text t;
    if (!open_text(&t)) {
        test_skip("libpangocairo-1.0-0 or a font is not installed");
        return;
    }
    CHECK(ink_of(&t, "ä") > ink_of(&t, "a"));
    CHECK(ink_of(&t, "Щ") > ink_of(&t, "?") && ink_of(&t, "λ") != ink_of(&t, "?") && !t.warned);
    text_image none = drawn(&t, "x\xf4\x8f\xbf\xbd", WIDE, 1), marked = drawn(&t, "x?", WIDE, 1);
    CHECK(t.warned && none.w == marked.w && none.h == marked.h && ink(&none) == ink(&marked));
    mem_free(none.cover), mem_free(marked.cover);
    sheet_text_close(&t);
}

static void test_without_pango(void)
{
    sheet_text t = {.size = 15};
    sheet_text_open(&t, "libnowhere.so.0");
    CHECK(!t.pango && t.told == 1);
    words_stay_whole(&t);
    CHECK_EQ(ink_of(&t, "ä"), ink_of(&t, "?"));
    CHECK_EQ(ink_of(&t, "a\xcc\x88"), ink_of(&t, "a?"));
    text_image dots = drawn(&t, "abcdefgh ijkl", 12 * 4, 1), head = drawn(&t, "ab..", WIDE, 1);
    CHECK(dots.w == head.w && ink(&dots) == ink(&head));
    mem_free(dots.cover), mem_free(head.cover);
    text_image nothing = drawn(&t, "abc", 5, 1);
    CHECK(nothing.w == 0 && nothing.h == 0);
    sheet_text_close(&t);
}

static void test_no_memory(void)
{
    sheet_text t;
    text_image m;
    int drew = 0;
    for (int64_t k = 0; k < 12 && !drew; k++) {
        t = (sheet_text){.size = 11};
        mem_fail_at(k, 0);
        sheet_text_open(&t, NULL);
        kiln_status status = sheet_text_set(&t, "Größe", WIDE, 3, 1, &m);
        mem_fail_at(-1, 0);
        CHECK(status == KILN_OK ? m.cover != NULL || m.w == 0 : status == KILN_ERR_NOMEM && !m.cover);
        mem_free(m.cover);
        sheet_text_close(&t);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_words_stay_whole), CASE(test_letters_beyond_ascii),
                                      CASE(test_without_pango), CASE(test_no_memory)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
