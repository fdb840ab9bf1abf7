/* What a text from outside looks like when it is printed: shown, never obeyed; and ours stays as it is. */
#include "base/memory_alloc.h"
#include "base/print.h"
#include "base/str.h"
#include "harness.h"

#include <stdlib.h>
#include <string.h>

/* What was printed by the last call; its return value is checked against it. */
static char *got;
static size_t got_size;

__attribute__((format(printf, 1, 2))) static const char *printed(const char *fmt, ...)
{
    va_list args;
    free(got);
    FILE *f = open_memstream(&got, &got_size);
    va_start(args, fmt);
    int n = print_textv(f, fmt, args);
    va_end(args);
    fclose(f);
    CHECK_EQ(n, got_size);
    return got;
}

static void test_what_is_foreign_is_shown(void)
{
    static const struct {
        const char *text, *shown;
    } row[] = {
        {"", ""},
        {"plain", "plain"},
        {"\x1b[31mred\x07", "\\x1b[31mred\\x07"},
        {"a\nb\tc\rd", "a\\nb\\tc\\rd"},
        {"\x7f\x01\x02\x1f", "\\x7f\\x01\\x02\\x1f"},
        {"\xc2\x9b"
         "31m\xc2\x80\xc2\x9f\xc2\xa0",
         "\\u009b31m\\u0080\\u009f\xc2\xa0"},
        {"\x9b"
         "31m\xff\xfe",
         "\\x9b31m\\xff\\xfe"},
        {"\xe2\x80\xae"
         "gnp.exe",
         "\\u202egnp.exe"},
        {"\xe2\x80\xaa\xe2\x81\xa6\xe2\x81\xa9", "\\u202a\\u2066\\u2069"},
        {"\xe2\x80\xa9\xe2\x81\xa5", "\xe2\x80\xa9\xe2\x81\xa5"},
        {"\xc0\x9b\xe0\x80\x9b", "\\xc0\\x9b\\xe0\\x80\\x9b"},
        {"\xed\xa0\x80", "\\xed\\xa0\\x80"},
        {"\xe4\xb8", "\\xe4\\xb8"},
        {"gr\xc3\xbc\xc3\x9f \xe4\xb8\xad\xe6\x96\x87 \xf0\x9f\x8e\xa8",
         "gr\xc3\xbc\xc3\x9f \xe4\xb8\xad\xe6\x96\x87 \xf0\x9f\x8e\xa8"},
        {"100%s \\x1b", "100%s \\x1b"},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        char escaped[200];
        CHECK_STR(printed("%s", row[i].text), row[i].shown);
        CHECK_EQ(text_escape(escaped, sizeof escaped, row[i].text, strlen(row[i].text)), strlen(row[i].shown));
        CHECK_STR(escaped, row[i].shown);
    }
}

static void test_what_is_ours_stays(void)
{
    CHECK_STR(printed("\r\033[K[%d/%d] %s\n", 1, 2, "\r\033[K\n"), "\r\033[K[1/2] \\r\\x1b[K\\n\n");
    CHECK_STR(printed("%s\n%s\n", "a\nb", "c"), "a\\nb\nc\n");
    /* A text with the very characters that mark ours. */
    CHECK_STR(printed("\n%s\t%s\n", "\1\2", "\2\1"), "\n\\x01\\x02\t\\x02\\x01\n");
    CHECK_STR(printed("\033%s\1", "\1\n\2\n"), "\033\\x01\\n\\x02\\n\1");
    CHECK_STR(printed("%-6s|%6s|%.2s\n", "a\x07", "\x1b", "\xe4\xb8\xad"), "a\\x07    |     \\x1b|\\xe4\\xb8\n");
    CHECK_STR(printed("%c%c\n", 0x1b, 'x'), "\\x1bx\n");
}

/* Every byte and pair of bytes: nothing below a space, no DEL, no C1, and valid UTF-8 comes out. */
static void test_all_pairs_of_bytes(void)
{
    for (unsigned a = 1; a < 256; a++)
        for (unsigned b = 1; b < 256; b++) {
            char text[] = {(char)a, (char)b, '\0'};
            const unsigned char *p = (const unsigned char *)printed("%s", text);
            int good = utf8_valid((const char *)p, got_size);
            for (uint32_t code = 0; *p && good;) {
                size_t n = utf8_sequence(p, strlen((const char *)p), &code);
                good = n > 0 && !text_is_control(code);
                p += n;
            }
            if (!good) CHECK_MSG(0, "bytes %02x %02x", a, b);
        }
}

static void test_long_texts(void)
{
    static char text[20001], want[40100];
    for (size_t size = 3900; size <= 20000; size += size < 4100 ? 1 : 997) {
        memset(text, 'x', size);
        text[size - 1] = '\n', text[size] = '\0';
        snprintf(want, sizeof want, "<%.*s\\n>\n", (int)size - 1, text);
        CHECK_MSG(strcmp(printed("<%s>\n", text), want) == 0, "of %zu bytes", size);
    }
    memset(text, 7, 10000);
    text[10000] = '\0';
    CHECK_EQ(strlen(printed("%s", text)), 40000);
    mem_fail_at(0, 1); /* an error has to be told when there is no memory, too */
    size_t cut = strlen(printed("error: %s\n", text));
    mem_fail_at(-1, 0);
    CHECK_MSG(cut > 3900 && cut < 16000 && strncmp(got, "error: \\x07", 11) == 0, "%zu bytes", cut);
}

static void test_escape_cuts_at_a_character(void)
{
    const char *text = "a\xc3\xbc\x1b\xf0\x9f\x8e\xa8z";
    static const char *const at[] = {
        "",
        "a",
        "a",
        "a\xc3\xbc",
        "a\xc3\xbc",
        "a\xc3\xbc",
        "a\xc3\xbc",
        "a\xc3\xbc\\x1b",
        "a\xc3\xbc\\x1b",
        "a\xc3\xbc\\x1b",
        "a\xc3\xbc\\x1b",
        "a\xc3\xbc\\x1b\xf0\x9f\x8e\xa8",
        "a\xc3\xbc\\x1b\xf0\x9f\x8e\xa8z",
    };
    for (size_t capacity = 1; capacity <= sizeof at / sizeof at[0]; capacity++) {
        char shown[32];
        memset(shown, '#', sizeof shown);
        CHECK_EQ(text_escape(shown, capacity, text, strlen(text)), strlen(at[capacity - 1]));
        CHECK_STR(shown, at[capacity - 1]);
        CHECK_EQ(shown[capacity], '#');
    }
}

/* JSON of any text is ASCII or valid UTF-8, without a control character in it. */
static void test_json(void)
{
    for (int ascii = 0; ascii < 2; ascii++) {
        str s = {0};
        const char *text = "\x1b\x07\x7f\xc2\x9b\x9b\xff\xe2\x80\xae\n\"\\\xc3\xbc";
        str_json(&s, text, strlen(text), ascii);
        CHECK_STR(str_text(&s), ascii ? "\"\\u001b\\u0007\\u007f\\u009b\\ufffd\\ufffd\\u202e\\n\\\"\\\\\\u00fc\""
                                      : "\"\\u001b\\u0007\\u007f\\u009b\\ufffd\\ufffd\\u202e\\n\\\"\\\\\xc3\xbc\"");
        str_free(&s);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_what_is_foreign_is_shown),   CASE(test_what_is_ours_stays),
        CASE(test_all_pairs_of_bytes),         CASE(test_long_texts),
        CASE(test_escape_cuts_at_a_character), CASE(test_json),
    };
    int status = test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
    free(got);
    return status;
}
