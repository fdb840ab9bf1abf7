/* test_dynamic_prompt.c - choices in texts: what they mean, how often each is taken, and what is refused. */
#include "harness.h"

#include "base/arena.h"
#include "base/str.h"
#include "workflow/dynamic_prompt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *wildcard(void *self, arena *a, const char *name, error *e)
{
    (void)self, (void)a;
    if (strcmp(name, "colour") == 0) return "# colours\nred\n\n  green \r\n0::never\nblue";
    if (strcmp(name, "a/b_c") == 0) return "__colour__ {x|x}";
    if (strcmp(name, "empty") == 0) return "# nothing\n\n";
    if (strcmp(name, "loop") == 0) return "a __loop__";
    return error_set(e, KILN_ERR_INVALID, "no file '%s.txt' for wildcards", name), NULL;
}

static const char *resolved(const char *text, uint64_t seed, int editor)
{
    static char out[2000];
    dynamic_source how = {.seed = seed, .editor = editor, .wildcard = editor ? NULL : wildcard};
    str s = {0};
    error e = {0};
    if (dynamic_prompt_resolve(text, &how, &s, &e) == KILN_OK)
        snprintf(out, sizeof out, "%.1900s", str_text(&s));
    else
        snprintf(out, sizeof out, "fault: %.1900s", e.message);
    str_free(&s);
    return out;
}

static void test_texts_without_choices_stay(void)
{
    static const char *const same[] = {"",        "a red circle", "(cat:1.2), [dog]", "50% off | half", "a_b __ c__d",
                                       "__x y__", "C:\\x",        "embedding:thing",  "$5 and $$",      "100__"};
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) CHECK_STR(resolved(same[i], 7, 0), same[i]);
}

/* A name has up to 197 characters, all of which are looked for; more are no name. */
static void test_the_longest_wildcard(void)
{
    for (int n = 190; n < 200; n++) {
        char name[204], text[210], wanted[300];
        memset(name, 'a', sizeof name), name[n] = '\0';
        snprintf(text, sizeof text, "__%s__", name);
        snprintf(wanted, sizeof wanted, "no file '%s.txt' for wildcards", name);
        const char *got = resolved(text, 7, 0);
        if (n <= 197)
            CHECK_MSG(strstr(got, wanted) != NULL, "%d: %s", n, got);
        else
            CHECK_STR(got, text);
    }
}

static void test_what_is_certain(void)
{
    static const char *const row[][2] = {
        {"a {red} cat", "a red cat"},
        {"{a|a|a}", "a"},
        {"x{}y", "xy"},
        {"\\{a\\|b\\}", "{a|b}"},
        {"{a\\|b}", "a|b"},
        {"\\_\\_colour__", "__colour__"},
        {"{{{deep}}}", "deep"},
        {"{0::no|1::yes|0::never}", "yes"},
        {"{2$$a|a}", "a, a"},
        {"{2$a|a}", "a, a"},
        {"{2$$ and $$a|a}", "a and a"},
        {"{3$$; $$a|a}", "a; a"},
        {"{0$$a|b}", ""},
        {"{1-1$$b}", "b"},
        {"{2$$-$${a|a}|{a|a}}", "a-a"},
        {"__a/b_c__", NULL},
        {"{5 apples|5 apples}", "5 apples"},
        {"{5\\$ bill|5\\$ bill}", "5$ bill"},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
        for (uint64_t seed = 0; seed < 5; seed++)
            if (row[i][1]) CHECK_STR(resolved(row[i][0], seed, 0), row[i][1]);
}

/* How often, of 3000 seeds, the text becomes `what`. */
static int times(const char *text, const char *what)
{
    int n = 0;
    for (uint64_t seed = 0; seed < 3000; seed++) n += strcmp(resolved(text, seed, 0), what) == 0;
    return n;
}

/* Of 3000 draws with chance p the number is within four deviations of its mean, sqrt(3000 p (1 - p)) each. */
static void test_each_is_taken_as_often_as_it_should(void)
{
    CHECK(abs(times("{a|b|c}", "b") - 1000) < 104);
    CHECK(abs(times("{3::a|b}", "a") - 2250) < 95);
    CHECK(abs(times("{0.5::a|0.5::b}", "b") - 1500) < 110);
    CHECK(abs(times("{a|b} {a|b}", "a b") - 750) < 95);
    CHECK(abs(times("{2$$a|b|c}", "c, a") - 500) < 82);
    CHECK_EQ(times("{2$$a|b}", "a, a"), 0);
    CHECK(abs(times("{1-2$$a|b}", "a") - 750) < 95);
    CHECK(abs(times("{a|{b|c}}", "c") - 750) < 95);
    CHECK(abs(times("__colour__", "green") - 1000) < 104);
    CHECK_EQ(times("__colour__", "never"), 0);
    CHECK(abs(times("__a/b_c__", "blue x") - 1000) < 104);
}

/* The words of a seed stay the same in later versions: they are in people's notes. */
static void test_a_seed_means_the_same_for_ever(void)
{
    char all[400] = "";
    for (uint64_t seed = 0; seed < 12; seed++)
        strcat(strcat(all, seed ? " " : ""), resolved("{red|green|blue|{2$$+$$x|y|z}}", seed, 0));
    CHECK_STR(all, "green blue red y+x blue x+y green green green red x+y green");
    CHECK_STR(resolved("{a|b|c|d} {a|b|c|d}", UINT64_MAX, 0), resolved("{a|b|c|d} {a|b|c|d}", UINT64_MAX, 0));
}

static void test_what_is_refused(void)
{
    static const char *const row[][2] = {{"a {b", "a '{' is not closed; write \\{ for the character"},
                                         {"{a|{b}", "not closed"},
                                         {"__colours__", "no file 'colours.txt' for wildcards"},
                                         {"__empty__", "the wildcard file empty.txt has no line to take"},
                                         {"__loop__", "more than 32 levels"},
                                         {"{3-1$$a|b}", "the larger number"}};
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        const char *is = resolved(row[i][0], 1, 0);
        CHECK_MSG(strncmp(is, "fault: ", 7) == 0 && strstr(is, row[i][1]), "%s: %s", row[i][0], is);
    }
}

static void test_as_the_editor_has_it(void)
{
    static const char *const row[][2] = {{"a // note\nb", "a \nb"},
                                         {"a /* x\ny */b", "a b"},
                                         {"{a} __colour__", "a __colour__"},
                                         {"{x", "x"},
                                         {"{2$$a}", "2$$a"},
                                         {"{3::a}", "3::a"},
                                         {"\\{a\\}", "{a}"},
                                         {"a \\n b", "a \\n b"},
                                         {"/* open", "/* open"}};
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) CHECK_STR(resolved(row[i][0], 3, 1), row[i][1]);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_texts_without_choices_stay),
                                      CASE(test_the_longest_wildcard),
                                      CASE(test_what_is_certain),
                                      CASE(test_each_is_taken_as_often_as_it_should),
                                      CASE(test_a_seed_means_the_same_for_ever),
                                      CASE(test_what_is_refused),
                                      CASE(test_as_the_editor_has_it)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
