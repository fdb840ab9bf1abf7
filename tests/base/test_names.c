/* test_names.c - what names and types of nodes may be made of. */
#include "base/names.h"
#include "harness.h"

#include <string.h>

static void test_names_and_types(void)
{
    static const struct {
        const char *text;
        int name, type;
    } row[] = {{"KSampler", 1, 1}, {"a.b+c-d_9", 1, 1}, {"Epsilon Scaling", 0, 1}, {"a b c", 0, 1},
               {" front", 0, 0},   {"back ", 0, 0},     {"two  blanks", 0, 0},     {" ", 0, 0},
               {"", 0, 0},         {"tab\there", 0, 0}, {"line\nend", 0, 0},       {"a/b", 0, 0},
               {"\xc3\xa9", 0, 0}, {"a: b", 0, 0},      {"\"quoted\"", 0, 0}};
    char longest[130];
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        CHECK_MSG(name_is_valid(row[i].text) == row[i].name, "'%s' as a name", row[i].text);
        CHECK_MSG(node_type_is_valid(row[i].text) == row[i].type, "'%s' as a type", row[i].text);
    }
    memset(longest, 'x', 129);
    longest[129] = '\0';
    CHECK(!name_is_valid(longest) && !node_type_is_valid(longest));
    longest[128] = '\0';
    CHECK(name_is_valid(longest) && node_type_is_valid(longest));
    CHECK(!name_is_valid(NULL) && !node_type_is_valid(NULL));
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_names_and_types)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
