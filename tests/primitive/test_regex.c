/* test_regex.c - RegexMatch, RegexExtract and RegexReplace against Python (tests/golden/regex.txt, written by
 * scripts/golden/regex_nodes.py), and what is said of patterns and replacements that are none. */
#include "node_kit.h"

#include "primitive.h"

typedef struct {
    const char *text, *pattern;
    int32_t case_insensitive, multiline, dotall;
} match_params;
typedef struct {
    const char *text, *pattern;
    int32_t mode, case_insensitive, multiline, dotall;
    int64_t group_index;
} extract_params;
typedef struct {
    const char *text, *pattern, *replace;
    int32_t case_insensitive, multiline, dotall;
    int64_t count;
} replace_params;
enum { ALL_MATCHES = 1, ALL_GROUPS = 3, FIELDS = 8 };

static made matched(const char *pattern, const char *text, const char *flags)
{
    match_params p = {text, pattern, strchr(flags, 'I') != NULL, strchr(flags, 'M') != NULL,
                      strchr(flags, 'S') != NULL};
    return node_run(&node_regex_match, &p, NULL, NULL);
}

static made extracted(const char *pattern, const char *text, const char *flags, int32_t mode)
{
    extract_params p = {
        text, pattern, mode, strchr(flags, 'I') != NULL, strchr(flags, 'M') != NULL, strchr(flags, 'S') != NULL, 1};
    return node_run(&node_regex_extract, &p, NULL, NULL);
}

static made replaced(const char *pattern, const char *text, const char *flags, const char *with)
{
    replace_params p = {
        text, pattern, with, strchr(flags, 'I') != NULL, strchr(flags, 'M') != NULL, strchr(flags, 'S') != NULL, 0};
    return node_run(&node_regex_replace, &p, NULL, NULL);
}

static void says(made m, const char *wanted, char *const *field, const char *what)
{
    const char *is = m.status == KILN_OK ? value_api.get_string(m.out[0], NULL) : NULL;
    if (strcmp(wanted, "error") == 0 && m.status == KILN_ERR_INVALID) is = "error";
    CHECK_MSG(is && strcmp(is, wanted) == 0, "%s of '%s' in '%s' (%s): '%s', not '%s' %s", what, field[0], field[1],
              field[2], is ? is : "", wanted, m.why.message);
    made_free(&m);
}

static void check_line(char *const *field, int n)
{
    int is = 0;
    made m = matched(field[0], field[1], field[2]);
    if (n == 5) {
        CHECK_MSG(m.status == KILN_ERR_INVALID && strstr(m.why.message, "regex_pattern"), "'%s' is taken", field[0]);
        made_free(&m);
        return;
    }
    CHECK_MSG(m.status == KILN_OK && value_api.get_bool(m.out[0], &is) == KILN_OK && is == (field[4][0] == 'T'),
              "'%s' in '%s' (%s): %d %s", field[0], field[1], field[2], is, m.why.message);
    made_free(&m);
    says(extracted(field[0], field[1], field[2], ALL_MATCHES), field[5], field, "all matches");
    says(extracted(field[0], field[1], field[2], ALL_GROUPS), field[6], field, "all groups");
    says(replaced(field[0], field[1], field[2], field[3]), field[7], field, "what replaces");
}

/* Cuts a line at its tabs, and turns \n, \t and \\ into what they stand for. */
static int fields(char *line, char *field[FIELDS])
{
    int n = 0;
    char *to = line;
    field[n++] = line;
    for (const char *at = line; *at && *at != '\n'; at++) {
        if (*at == '\t') {
            *to++ = '\0';
            if (n < FIELDS) field[n++] = to;
        } else if (*at == '\\') {
            at++;
            *to++ = *at == 'n' ? '\n' : *at == 't' ? '\t' : *at;
        } else {
            *to++ = *at;
        }
    }
    *to = '\0';
    return n;
}

static void test_as_python(void)
{
    char path[600], line[4000], *field[FIELDS];
    size_t lines = 0;
    snprintf(path, sizeof path, "%s/tests/golden/regex.txt", test_root());
    FILE *f = fopen(path, "r");
    REQUIRE(f != NULL);
    while (fgets(line, sizeof line, f)) {
        int n = fields(line, field);
        CHECK(n == FIELDS || n == 5);
        check_line(field, n);
        lines++;
    }
    fclose(f);
    CHECK(lines > 2000);
}

static void fails_with(made m, const char *words)
{
    CHECK_MSG(m.status == KILN_ERR_INVALID && strstr(m.why.message, words), "not '%s' but: %s", words, m.why.message);
    made_free(&m);
}

static void test_what_is_said(void)
{
    fails_with(matched("a(?i)b", "", ""), "at '(?i)b': flags for the whole stand at its beginning");
    fails_with(matched("(?<n>a)", "", ""), "write a group with a name as (?P<name>...)");
    fails_with(matched("a**", "", ""), "at '*': what is repeated already");
    fails_with(matched("(a", "", ""), "'(a' is no regular expression: missing closing parenthesis");
    fails_with(matched("\\N{BULLET}", "", ""), "\\N{...} is not taken; write the letter itself");
    fails_with(matched("(?x) a", "", ""), "the flag x is not taken");
    fails_with(replaced("a", "a", "", "\\2"), "replace: at '\\2': the pattern has no such group");
    fails_with(replaced("a", "a", "", "\\g<x>"), "the pattern has no such group");
    fails_with(replaced("a", "a", "", "x\\"), "replace: at '\\': a backslash at the end");
    fails_with(matched("(a|aa|aaa|aaaa)+$", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", ""), "too many ways");
}

static void test_groups_and_counts(void)
{
    char *const none[] = {"", "", ""};
    extract_params p = {"k=v; k2=w", "(\\w+)=(\\w+)", 2, 1, 0, 0, 2};
    says(node_run(&node_regex_extract, &p, NULL, NULL), "v", none, "the first's second group");
    p.group_index = 7;
    says(node_run(&node_regex_extract, &p, NULL, NULL), "", none, "a group that is none");
    p.group_index = 0;
    says(node_run(&node_regex_extract, &p, NULL, NULL), "k=v", none, "group 0");
    replace_params q = {"aaaa", "a", "b", 1, 0, 0, 2};
    says(node_run(&node_regex_replace, &q, NULL, NULL), "bbaa", none, "two of four");
    says(replaced("(?P<one>.)(.)", "ab", "", "\\g<one>\\g<2>\\2\\101\\351."), "abbAé.", none, "groups and codes");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_as_python), CASE(test_what_is_said), CASE(test_groups_and_counts)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
