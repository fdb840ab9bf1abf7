/* test_primitive.c - numbers and texts as nodes: what comes out is what was put in. */
#include "node_kit.h"

#include "primitive.h"

#include <math.h>

static void gives_text(const kiln_node *type, const char *settings, const char *wanted)
{
    made m = node_with(type, settings, NULL, NULL, NULL);
    size_t n = 0;
    if (CHECK_MSG(m.status == KILN_OK, "%s", m.why.message)) {
        CHECK_STR(value_api.get_string(m.out[0], &n), wanted);
        CHECK_EQ(n, strlen(wanted));
    }
    made_free(&m);
}

static void test_numbers(void)
{
    static const struct {
        const char *settings;
        int64_t value;
    } row[] = {{"value=0", 0},
               {"value=-7", -7},
               {"value=9223372036854775807", INT64_MAX},
               {"value=-9223372036854775807", -INT64_MAX}};
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        int64_t v = 1;
        made m = node_with(&node_primitive_int, row[i].settings, NULL, NULL, NULL);
        CHECK_EQ(value_api.get_int(m.out[0], &v), KILN_OK);
        CHECK_EQ(v, row[i].value);
        made_free(&m);
    }
    double d = 0;
    made m = node_with(&node_primitive_float, "value=-0.1", NULL, NULL, NULL);
    CHECK(value_api.get_float(m.out[0], &d) == KILN_OK && d == -0.1);
    made_free(&m);
    for (int i = 0; i < 2; i++) {
        int b = 2;
        m = node_with(&node_primitive_boolean, i ? "value=true" : "value=false", NULL, NULL, NULL);
        CHECK(value_api.get_bool(m.out[0], &b) == KILN_OK && b == i);
        made_free(&m);
    }
}

static void test_texts(void)
{
    gives_text(&node_primitive_string, "value=a red circle", "a red circle");
    gives_text(&node_primitive_multiline, "value=two\nlines", "two\nlines");
    gives_text(&node_primitive_string, "value=", "");
    gives_text(&node_string_concatenate, "string_a=a;string_b=b", "ab");
    gives_text(&node_string_concatenate, "string_a=a;string_b=b;delimiter=, ", "a, b");
    gives_text(&node_string_concatenate, "string_a=;string_b=", "");
    gives_text(&node_string_replace, "string=a cat and a catalogue;find=cat;replace=dog", "a dog and a dogalogue");
    gives_text(&node_string_replace, "string=aaaa;find=aa;replace=a", "aa");
    gives_text(&node_string_replace, "string=aaa;find=;replace=b", "aaa");
    gives_text(&node_string_replace, "string=abc;find=abcd;replace=", "abc");
    gives_text(&node_string_replace, "string=abab;find=ab;replace=", "");
}

/* 4 kB of text whose every letter becomes 8 kB: refused, not made. */
static void test_a_text_that_explodes_is_refused(void)
{
    struct {
        const char *text, *find, *replace;
    } params; /* of StringReplace, in the order of its rows */
    char small[4096], large[8192];
    memset(small, 'a', sizeof small), small[sizeof small - 1] = '\0';
    memset(large, 'b', sizeof large), large[sizeof large - 1] = '\0';
    params.text = small, params.find = "a", params.replace = large;
    made m = node_run(&node_string_replace, &params, NULL, NULL);
    refused(&m, KILN_ERR_INVALID, "16777216 is the most");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_numbers), CASE(test_texts), CASE(test_a_text_that_explodes_is_refused)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
