/* test_pattern.c - what patterns cut, by hand, and which are refused. Whole tokenizers: test_goldens.c. */
#include "harness.h"

#include "pattern.h"

#include <stdio.h>
#include <string.h>

/* Matches in [], the rest as it is. */
static void check(const char *source, const char *text, const char *wanted)
{
    token_pool pool = {0};
    range_list l = {0};
    char why[300] = "", got[600] = "";
    pattern *p = pattern_new(&pool, source, strlen(source), why);
    if (CHECK_MSG(p != NULL, "%s", why)) CHECK_EQ(pattern_ranges(p, &pool, text, strlen(text), &l), 1);
    for (size_t i = 0, at = 0; i < l.n; at = l.item[i++].to) {
        const text_range *r = &l.item[i];
        CHECK(r->from == at && r->to > at);
        snprintf(got + strlen(got), sizeof got - strlen(got), r->is_match ? "[%.*s]" : "%.*s", (int)(r->to - r->from),
                 text + r->from);
    }
    CHECK_MSG(strcmp(got, wanted) == 0, "%s: '%s', wanted '%s'", source, got, wanted);
    token_pool_free(&pool);
}

static void test_what_patterns_match(void)
{
    check("a", "banana", "b[a]n[a]n[a]");
    check("ab|a", "aba", "[ab][a]");
    check("a|ab", "aba", "[a]b[a]"); /* the first that fits, not the longest */
    check("a+", "aabaaa", "[aa]b[aaa]");
    check("a{2}", "aaaaa", "[aa][aa]a");
    check("a{2,3}", "aaaaa", "[aaa][aa]");
    check("a{,2}b", "aaab", "a[aab]");
    check("a{x", "a{x", "[a{x]");
    check("a+?b", "aab", "[aab]");
    check("a?b?c", "bcac", "[bc][ac]");
    check("(?:ab)+", "ababa", "[abab]a");
    check("(ab|cd){1,2}e?", "abcdabe", "[abcd][abe]");
    check("a++ab", "aaab", "aaab");
    check("a+ab", "aaab", "[aaab]");
    check("[a-c]+", "abcd", "[abc]d");
    check("[^a-c]+", "abcd\n", "abc[d\n]");
    check("[a\\-\\]]+", "]a-b", "[]a-]b");
    check("\\s+(?!\\S)|\\s+", "a   b  ", "a[  ][ ]b[  ]");
    check("a(?=b)", "abac", "[a]bac");
    check("(?i:k|'s)", "kK\xe2\x84\xaa'S'\xc5\xbf", "[k][K][\xe2\x84\xaa]['S]['\xc5\xbf]");
    check("\\p{Lu}\\p{Ll}*", "AbC\xc3\x89\xc3\xa9", "[Ab][C][\xc3\x89\xc3\xa9]");
    check("\\P{L}+", "a1 b", "a[1 ]b");
    check("\\p{^L}+", "a1 b", "a[1 ]b");
    check("\\d", "1\xd9\xa3x", "[1][\xd9\xa3]x");
    check("\\w+", "a_1\xc2\xbd-", "[a_1\xc2\xbd]-");
    check("[\\w]+", "a_1\xc2\xbd-", "[a_1]\xc2\xbd-");
    check("^a|b$", "aab b", "[a]ab [b]");
    check(".", "a\nb", "[a]\n[b]");
    check("\\x61\\u0062\\x{63}", "abc", "[abc]");
    check("x*", "axxb", "a[xx]b"); /* nothing is no match */
}

static void test_refused_patterns(void)
{
    static const struct {
        const char *source, *wanted;
    } rows[] = {{"(", "without )"},
                {")", "without a group"},
                {"[a", "an end"},
                {"a**", "repeated repeat"},
                {"*a", "nothing to repeat"},
                {"(?<=a)b", "look-behind"},
                {"(?P<x>a)", "not known"},
                {"\\1", "escape"},
                {"\\p{Han}", "scripts"},
                {"\\p", "without {"},
                {"[b-a]", "from high to low"},
                {"[a&&b]", "class within"},
                {"[[:alpha:]]", "within"},
                {"a{5,2}", "count"},
                {"a{2000}", "count"},
                {"(a*)*", "may be empty"},
                {"(a|b?)+", "may be empty"},
                {"\\x{110000}", "code point"},
                {"(a)++", "possessive"},
                {"a\xff", "no character"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        token_pool pool = {0};
        char why[300] = "";
        CHECK_MSG(!pattern_new(&pool, rows[i].source, strlen(rows[i].source), why) && strstr(why, rows[i].wanted),
                  "%s: '%s' is wanted, got '%s'", rows[i].source, rows[i].wanted, why);
        token_pool_free(&pool);
    }
}

/* Groups in groups, repeats of repeats: refused before they are large. */
static void test_patterns_made_to_hurt(void)
{
    char source[4000] = "", why[300] = "";
    token_pool pool = {0};
    for (int i = 0; i < 100; i++) strcat(source, "(");
    CHECK(!pattern_new(&pool, source, strlen(source), why));
    CHECK_MSG(strstr(why, "too deep") != NULL, "%s", why);
    const char *large = "(((a{1,1000}b){1000}){1000}){1000}";
    CHECK(!pattern_new(&pool, large, strlen(large), why));
    CHECK_MSG(strstr(why, "too much") != NULL, "%s", why);
    token_pool_free(&pool);
}

/* A pattern has up to 2,000 classes. */
static void test_how_many_classes(void)
{
    static char source[4 * 2001 + 1];
    for (int n = 1999; n <= 2001; n++) {
        token_pool pool = {0};
        char why[300] = "";
        for (int i = 0; i < n; i++) memcpy(source + 4 * i, "[ab]", 4);
        const pattern *p = pattern_new(&pool, source, 4 * (size_t)n, why);
        CHECK_MSG(n <= 2000 ? p != NULL : !p && strstr(why, "too many classes"), "%d: %s", n, why);
        token_pool_free(&pool);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_what_patterns_match), CASE(test_refused_patterns),
                                      CASE(test_patterns_made_to_hurt), CASE(test_how_many_classes)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
