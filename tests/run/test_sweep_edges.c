/* test_sweep_edges.c - sweeps a line a case: what `matrix`, --set, --over-file and --over make together, or the
 * sentence that refuses it; labels that are cut.
 */
#include "harness.h"

#include "base/file.h"
#include "run/sweep.h"
#include "workflow/yaml_tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEXT = 4000 };

static const char *bytes_of(const char *name, const char *text, size_t n)
{
    error e = {0};
    CHECK_EQ(file_write_whole(name, text, n, &e), KILN_OK);
    return name;
}

static const char *file_of(const char *name, const char *text) { return bytes_of(name, text, strlen(text)); }

/* Labels of rows with '|' between them, or the message. */
static const char *made(const char *matrix, const char *csv, size_t csv_size, const char *set, const char *const *over,
                        size_t n_over)
{
    static char text[TEXT];
    char label[300];
    error e = {0};
    arena memory = {0};
    yaml_node *root = NULL;
    sweep s = {0};
    const set_option sets[] = {{.name = "a", .value = "first"}, {.name = "a", .value = set}};
    text[0] = '\0';
    if (matrix && yaml_tree_read(&memory, "m", 0, matrix, strlen(matrix), &root, &e) != KILN_OK)
        snprintf(text, sizeof text, "no YAML: %s", e.message);
    else if (sweep_make(&s,
                        &(sweep_source){.matrix = root,
                                        .path = "flow.yaml",
                                        .over_file = csv ? bytes_of("rows.csv", csv, csv_size) : NULL,
                                        .over = over,
                                        .n_over = n_over,
                                        .set = sets,
                                        .n_set = set ? 2 : 0},
                        &e) != KILN_OK)
        snprintf(text, sizeof text, "%s", e.message);
    else
        for (size_t i = 0; i < s.n_row && strlen(text) < TEXT - 400; i++) {
            sweep_label(&s, i, label, sizeof label);
            strcat(strcat(text, i ? "|" : ""), label);
        }
    sweep_free(&s);
    arena_free(&memory);
    return text;
}

/* ---- a line a case ---- */

static const struct {
    const char *matrix, *csv, *set, *over, *wanted; /* wanted: what is made, or a part of the message behind '!' */
} cases[] = {
    {"{a: [1, 2]}", NULL, NULL, NULL, "a=1|a=2"},
    {"{a: [1, 2]}", NULL, "3", NULL, "a=3"},
    {"[{a: 1, b: 2}, {b: 3}]", NULL, NULL, NULL, "a=1 b=2|b=3"},
    {"[{a: 1, b: 2}, {b: 3}]", NULL, "9", NULL, "a=9 b=2|a=9 b=3"},
    {"[{b: 2}, {}]", NULL, "9", NULL, "b=2|"},
    {"[{a: 1}, {b: 3}]", NULL, NULL, "a=5",
     "!--over a=5: the workflow's `matrix` lists whole rows, so one of its names"},
    {"{a: [1, 2], b: [x]}", NULL, NULL, "a=7,8", "a=7 b=x|a=8 b=x"},
    {"{a: '1..3'}", NULL, NULL, NULL, "a=1..3"},
    {"{a: 1..3}", NULL, NULL, NULL, "a=1|a=2|a=3"},
    {"{a: ['1..3', 4]}", NULL, NULL, NULL, "a=1..3|a=4"},
    {"{a: {b: 1}}", NULL, NULL, NULL,
     "!flow.yaml:1:5: `matrix`: a name has a list of values, or a text such as 1..100"},
    {"{a: [[1]]}", NULL, NULL, NULL, "!flow.yaml:1:6: `matrix`: a value is a single one, not a list or map"},
    {"{a: [1, {b: 2}], c: [3]}", NULL, NULL, NULL, "!flow.yaml:1:9: `matrix`: a value is a single one"},
    {"{a: []}", NULL, NULL, NULL, "!`matrix`: a: there are no values"},
    {"{a: 1..x}", NULL, NULL, NULL, "!`matrix`: a: '1..x' is no range"},
    {"3", NULL, NULL, NULL, "!`matrix`: it is a map of name to a list of values, or a list of maps"},
    {"{}", NULL, NULL, NULL, "!`matrix`: it is a map of name to a list of values"},
    {"[]", NULL, NULL, NULL, "!`matrix`: it is a map of name to a list of values"},
    {"[3]", NULL, NULL, NULL, "!flow.yaml:1:2: `matrix`: a row is a map of name to value"},
    {"[{a: [1]}]", NULL, NULL, NULL, "!flow.yaml:1:6: `matrix`: a value is a single one"},
    {"[{}]", NULL, NULL, NULL, "!`matrix`: there are no rows"},
    {NULL, NULL, "3", "a=1,2", "!--over a and --set of the same name: which? Take one of them away"},
    {NULL, "a\n1\n", "3", NULL, "!rows.csv:1: 'a' also has a --set: which?"},
    {"{a: [1]}", "a\n1\n", NULL, NULL, "!rows.csv:1: 'a' already varies by the workflow's `matrix`"},
    {NULL, "b,a,b\n1,2,3\n", NULL, NULL, "!rows.csv:1: 'b' stands there twice"},
    {NULL, "b,,c\n1,2,3\n", NULL, NULL,
     "!rows.csv:1: column 2 has no name; the first line names what each column sets"},
    {NULL, "b;c\n1;2\n", NULL, NULL, "!rows.csv:1: 'b;c': names are separated by ';'; in kiln's CSV a ',' stands"},
    {NULL, "b;c,d\n1,2\n", NULL, NULL, "b;c=1 d=2"},
    {NULL, "b\n", NULL, NULL, "!rows.csv: there are no values"},
    {NULL, "b", NULL, NULL, "!rows.csv: there are no values"},
    {NULL, "", NULL, NULL, "!rows.csv: the file is empty"},
    {NULL,
     "\xef\xbb\xbf"
     "b\n1\n",
     NULL, NULL, "b=1"},
    {NULL, "\xef\xbb", NULL, NULL, "!is not a UTF-8 text"},
    {NULL, " b\t, c \r\n1, 2\r\n\r\n\n3,4", NULL, NULL, "b=1 c= 2|b=3 c=4"},
    {NULL, "b\r1\r2", NULL, NULL, "b=1|b=2"},
    {NULL, "b,c\n,\"\"\n\"x \"\"y\"\",\",2\n", NULL, NULL, "c=|b=x \"y\", c=2"},
    {NULL, "b,c\n\"1\n2\",3\n", NULL, NULL, "b=1\n2 c=3"},
    {NULL, "b,c\n1\n", NULL, NULL, "!rows.csv:2: 1 values under 2 names; a value with a comma goes in \"quotes\""},
    {NULL, "b\n\"1", NULL, NULL, "!rows.csv:2: a quote is not closed, or something follows it"},
    {NULL, "b\n\"1\"x\n", NULL, NULL, "!rows.csv:2: a quote is not closed, or something follows it"},
    {"{c: [5]}", "b\n1\n", NULL, "d=2,3", "c=5 b=1 d=2|c=5 b=1 d=3"},
    {NULL, "b\n1\n", NULL, "b=2", "!--over b=2: 'b' already varies by another --over or --over-file"},
    {NULL, NULL, NULL, "x=+1..2", "x=1|x=2"},
    {NULL, NULL, NULL, "x=.5..1..0.5", "x=0.5|x=1.0"},
    {NULL, NULL, NULL, "x=-0.3..-0.1..0.1", "x=-0.3|x=-0.2|x=-0.1"},
    {NULL, NULL, NULL, "x=1..1..5", "x=1"},
    {NULL, NULL, NULL, "x=1..2..0.25", "x=1.00|x=1.25|x=1.50|x=1.75|x=2.00"},
    {NULL, NULL, NULL, "x=1...3", "!the range '1...3' of decimals needs a step"},
    {NULL, NULL, NULL, "x=1..2..y", "!'1..2..y' is no range"},
    {NULL, NULL, NULL, "x=1.0.0..2", "x=1.0.0..2"},
    {NULL, NULL, NULL, "x=999999999999999999..1..0.1", "!has too many digits"},
    {NULL, NULL, NULL, "x=1..999999999999999999..0.1", "!has too many digits"},
    {NULL, NULL, NULL, "x=0.1..0.2..99999999999999999999", "!is no range"},
    {NULL, NULL, NULL, "x=0.1..0.2..999999999999999999", "!has too many digits"},
    {NULL, NULL, NULL, "x=..", "x=.."},
    {NULL, NULL, NULL, "x= \"a\" , b\t", "!a quote that is not closed before the next comma"},
    {NULL, NULL, NULL, "x=\"a\n\",b", "x=a\n|x=b"},
    {NULL, NULL, NULL, "x=a\r", "!a value with a line break goes in \"quotes\""},
    {NULL, NULL, NULL, "x=a,\nb", "!a value with a line break goes in \"quotes\""},
    {NULL, NULL, NULL, "x=what? [yes]", "x=what? [yes]"},
    {NULL, NULL, NULL, "x=a * b", "x=a * b"},
    {NULL, NULL, NULL, "x=no/such?.thing", "x=no/such?.thing"},
    {NULL, NULL, NULL, "x=no/such*.thing",
     "!no file here is called 'no/such*.thing'; a text with a * goes in \"quotes\""},
};

static void test_cases(void)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *over[] = {cases[i].over}, *wanted = cases[i].wanted;
        const char *is = made(cases[i].matrix, cases[i].csv, cases[i].csv ? strlen(cases[i].csv) : 0, cases[i].set,
                              over, cases[i].over != NULL);
        int fine = *wanted == '!' ? strstr(is, wanted + 1) != NULL : strcmp(is, wanted) == 0;
        CHECK_MSG(fine, "case %zu: '%s', wanted '%s'", i, is, wanted);
    }
    const char *is = made(NULL, "b\n1\0\n", 5, NULL, NULL, 0);
    CHECK_MSG(strstr(is, "is not a UTF-8 text"), "%s", is);
}

/* ---- limits ---- */

/* "{n0: [1], n1: [1], ...}", or a CSV's two lines. */
static const char *names(const char *before, const char *between, const char *each, size_t n, const char *after)
{
    static char text[TEXT];
    size_t used = (size_t)snprintf(text, sizeof text, "%s", before);
    for (size_t i = 0; i < n; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%sn%zu%s", i ? between : "", i, each);
    snprintf(text + used, sizeof text - used, "%s", after);
    return text;
}

static void test_limits(void)
{
    char csv[TEXT];
    const char *is;
    is = made(names("{", ", ", ": [1]", SWEEP_AXES_MAX, "}"), NULL, 0, NULL, NULL, 0);
    CHECK_MSG(strstr(is, "n0=1 ") && strstr(is, " n15=1"), "%s", is);
    is = made(names("{", ", ", ": [1]", SWEEP_AXES_MAX + 1, "}"), NULL, 0, NULL, NULL, 0);
    CHECK_MSG(strstr(is, "`matrix`: n16: more than 16 axes"), "%s", is);
    is = made(names("[{", ", ", ": 1", SWEEP_NAMES_MAX + 1, "}]"), NULL, 0, NULL, NULL, 0);
    CHECK_MSG(strstr(is, "`matrix`: more than 64 names"), "%s", is);
    snprintf(csv, sizeof csv, "%s", names("", ",", "", SWEEP_NAMES_MAX + 1, "\n"));
    is = made(NULL, csv, strlen(csv), NULL, NULL, 0);
    CHECK_MSG(strstr(is, "rows.csv:1: 65 names; at most 64 are allowed"), "%s", is);
    size_t used = (size_t)snprintf(csv, sizeof csv, "%s", names("", ",", "", 40, "\n"));
    for (size_t i = 0; i < 40; i++) used += (size_t)snprintf(csv + used, sizeof csv - used, i ? ",1" : "1");
    is = made(names("[{", ", ", "x: 1", 40, "}]"), csv, used, NULL, NULL, 0);
    CHECK_MSG(strstr(is, "the sweep varies 80 names; at most 64 are allowed"), "%s", is);
    const char *over[SWEEP_AXES_MAX + 1];
    char text[SWEEP_AXES_MAX + 1][8];
    for (size_t i = 0; i <= SWEEP_AXES_MAX; i++) snprintf(text[i], sizeof text[i], "n%zu=1", i), over[i] = text[i];
    is = made(NULL, NULL, 0, NULL, over, SWEEP_AXES_MAX + 1);
    CHECK_MSG(strstr(is, "--over n16: more than 16 axes"), "%s", is);
}

static void test_too_many_rows(void)
{
    size_t n = SWEEP_ROWS_MAX + 2;
    char *csv = malloc(2 * n + 3), *matrix = malloc(3 * n + 3);
    if (!CHECK(csv && matrix)) return;
    memcpy(csv, "b\n", 2), matrix[0] = '[';
    for (size_t i = 0; i < n; i++) memcpy(csv + 2 + 2 * i, "1\n", 2), memcpy(matrix + 1 + 3 * i, "{},", 3);
    memcpy(matrix + 3 * n, "]", 2);
    const char *is = made(NULL, csv, 2 * n + 2, NULL, NULL, 0);
    CHECK_MSG(strstr(is, "rows.csv: more than 100000 rows"), "%.200s", is);
    is = made(matrix, NULL, 0, NULL, NULL, 0);
    CHECK_MSG(strstr(is, "`matrix`: more than 100000 rows") || strstr(is, "no YAML"), "%.200s", is);
    free(csv), free(matrix);
}

/* ---- files ---- */

static void test_files(void)
{
    char over[800];
    const char *list[] = {over};
    snprintf(over, sizeof over, "x=@%s", file_of("lines", "one, two\r\n\n\nthree\n\"four\""));
    CHECK_STR(made(NULL, NULL, 0, NULL, list, 1), "x=one, two|x=three|x=\"four\"");
    CHECK_EQ(mkdir("d", 0700) | mkdir("d/f1", 0700) | mkdir("d/f2", 0700), 0);
    file_of("d/b.txt", ""), file_of("d/a.txt", "");
    list[0] = "x=d/?.txt";
    const char *is = made(NULL, NULL, 0, NULL, list, 1);
    CHECK_STR(is, "x=d/a.txt|x=d/b.txt");
    list[0] = "x=d/f*";
    is = made(NULL, NULL, 0, NULL, list, 1);
    CHECK_MSG(strchr(is, '|') != NULL, "%s", is); /* folders, where there is nothing else */
    file_of("d/f3", "");
    is = made(NULL, NULL, 0, NULL, list, 1);
    CHECK_MSG(strchr(is, '|') == NULL, "%s", is); /* a file goes before folders */
    file_of("d/\xff.png", "");
    list[0] = "x=d/*.png";
    is = made(NULL, NULL, 0, NULL, list, 1);
    CHECK_MSG(strstr(is, "has a name that is not UTF-8"), "%s", is);
    file_of("d/[q].txt", "");
    list[0] = "x=d/[q].txt"; /* a file of that very name */
    is = made(NULL, NULL, 0, NULL, list, 1);
    CHECK_MSG(strstr(is, "x=") && !strchr(is, '|'), "%s", is);
    list[0] = "x=@nowhere";
    is = made(NULL, NULL, 0, NULL, list, 1);
    CHECK_MSG(strstr(is, "nowhere"), "%s", is);
}

/* ---- labels ---- */

static void test_labels(void)
{
    sweep s;
    error e = {0};
    char text[100];
    const char *over[] = {"x=123456789012345678901234567890123456789\xc3\xa9rest,\xc3\xa9"};
    REQUIRE(sweep_make(&s, &(sweep_source){.over = over, .n_over = 1, .path = "f"}, &e) == KILN_OK);
    sweep_label(&s, 0, text, sizeof text); /* 40 bytes, and none of half a letter */
    CHECK_STR(text, "x=123456789012345678901234567890123456789...");
    sweep_label(&s, 1, text, 4);
    CHECK_STR(text, "x=");
    sweep_label(&s, 1, text, 5);
    CHECK_STR(text, "x=\xc3\xa9");
    sweep_point_value(&s, 0, 1, text, sizeof text);
    CHECK_STR(text, "\xc3\xa9");
    sweep_point_value(&s, 0, 1, text, 2);
    CHECK_STR(text, "");
    sweep_free(&s);
    REQUIRE(sweep_make(&s, &(sweep_source){.over_file = file_of("l.csv", "a\n\"\"\n1\n"), .path = "f"}, &e) == KILN_OK);
    sweep_point_value(&s, 0, 0, text, sizeof text);
    CHECK_STR(text, "");
    sweep_free(&s);
    REQUIRE(sweep_make(&s, &(sweep_source){.over_file = file_of("l.csv", "a,b\n,2\n1,\n"), .path = "f"}, &e) ==
            KILN_OK);
    set_option set[2];
    CHECK_EQ(sweep_settings(&s, 0, set), 1);
    CHECK_STR(set[0].name, "b");
    sweep_point_value(&s, 0, 0, text, sizeof text);
    CHECK_STR(text, "b=2");
    sweep_free(&s);
}

int main(int argc, char **argv)
{
    static const test_case all[] = {CASE(test_cases), CASE(test_limits), CASE(test_too_many_rows), CASE(test_files),
                                    CASE(test_labels)};
    if (chdir(test_folder()) != 0) return 1;
    return test_main(argc, argv, all, sizeof all / sizeof all[0]);
}
