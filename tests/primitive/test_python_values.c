/* test_python_values.c - the nodes for texts and formulas, held against Python (tests/golden/texts.txt and
 * expressions.txt, written by scripts/golden/python_values.py), and what is said of formulas that are none. */
#include "node_kit.h"

#include "primitive.h"

#include <math.h>

static FILE *golden(const char *file)
{
    char path[600];
    snprintf(path, sizeof path, "%s/tests/golden/%s", test_root(), file);
    FILE *f = fopen(path, "r");
    if (!CHECK_MSG(f != NULL, "%s", path)) exit(1);
    return f;
}

static void unescape(char *text)
{
    char *to = text;
    for (const char *at = text; *at; at++) {
        if (*at == '\\' && at[1])
            at++, *to++ = *at == 'n' ? '\n' : *at == 't' ? '\t' : *at;
        else
            *to++ = *at;
    }
    *to = '\0';
}

static const kiln_node *const nodes[] = {&node_string_substring,  &node_string_trim,         &node_strip_whitespace,
                                         &node_string_length,     &node_truncate_text,       &node_case_converter,
                                         &node_text_to_lowercase, &node_text_to_uppercase,   &node_string_contains,
                                         &node_string_compare,    &node_add_text_prefix,     &node_add_text_suffix,
                                         &node_replace_text,      &node_json_extract_string, &node_resolution_selector};

static void check_text(const char *type, const char *settings, const char *wanted)
{
    const kiln_node *node = NULL;
    char is[400] = "";
    int b;
    int64_t i;
    for (size_t k = 0; k < sizeof nodes / sizeof nodes[0]; k++)
        if (strcmp(nodes[k]->type, type) == 0) node = nodes[k];
    if (!CHECK_MSG(node != NULL, "no node %s", type)) return;
    made m = node_with(node, settings, NULL, NULL, NULL);
    const char *text = value_api.get_string(m.out[0], NULL);
    if (text)
        snprintf(is, sizeof is, "%s", text);
    else if (value_api.get_bool(m.out[0], &b) == KILN_OK)
        snprintf(is, sizeof is, "%s", b ? "True" : "False");
    else if (value_api.get_int(m.out[0], &i) == KILN_OK)
        snprintf(is, sizeof is, "%lld", (long long)i);
    if (m.out[1] && value_api.get_int(m.out[1], &i) == KILN_OK)
        snprintf(is + strlen(is), sizeof is - strlen(is), "x%lld", (long long)i);
    CHECK_MSG(m.status == KILN_OK && strcmp(is, wanted) == 0, "%s(%s): '%s', not '%s' %s", type, settings, is, wanted,
              m.why.message);
    made_free(&m);
}

static void test_texts_as_python_has_them(void)
{
    char line[2000];
    int n = 0;
    FILE *f = golden("texts.txt");
    for (; fgets(line, sizeof line, f); n++) {
        line[strcspn(line, "\n")] = '\0';
        char *rest = line, *type = strsep(&rest, "\t"), *settings = strsep(&rest, "\t"), *wanted = rest;
        unescape(settings), unescape(wanted);
        check_text(type, settings, wanted);
    }
    fclose(f);
    CHECK(n > 500);
}

static kiln_value *number(const char *text)
{
    return strpbrk(text, ".e") ? value_api.new_float(NULL, atof(text)) : value_api.new_int(NULL, atoll(text));
}

static made computed(const char *expression, kiln_value *a, kiln_value *b)
{
    char settings[400];
    kiln_value *in[26] = {a, b};
    snprintf(settings, sizeof settings, "expression=%s", expression);
    return node_with_all(&node_math_expression, settings, in);
}

static void test_expressions_as_python_has_them(void)
{
    char line[2000];
    int n = 0;
    FILE *f = golden("expressions.txt");
    for (; fgets(line, sizeof line, f); n++) {
        line[strcspn(line, "\n")] = '\0';
        char *part[6], *rest = line;
        for (int i = 0; i < 6; i++) part[i] = strsep(&rest, "\t");
        kiln_value *a = number(part[1]), *b = number(part[2]);
        made m = computed(part[0], a, b);
        if (part[3][0] == '!') {
            CHECK_MSG(m.status == KILN_ERR_INVALID, "%s with %s, %s: %d", part[0], part[1], part[2], m.status);
        } else if (CHECK_MSG(m.status == KILN_OK, "%s: %s", part[0], m.why.message)) {
            double real = 0;
            int64_t whole = 0;
            int truth = 2;
            CHECK(value_api.get_float(m.out[0], &real) == KILN_OK && value_api.get_int(m.out[1], &whole) == KILN_OK &&
                  value_api.get_bool(m.out[2], &truth) == KILN_OK);
            CHECK_MSG(real == atof(part[3]) && whole == atoll(part[4]) && truth == (part[5][0] == 'T'),
                      "%s with %s, %s: %.17g, not %s", part[0], part[1], part[2], real, part[3]);
        }
        made_free(&m);
        value_unref(a), value_unref(b);
    }
    fclose(f);
    CHECK_EQ(n, 500);
}

static void test_what_is_no_formula(void)
{
    static const char *const wrong[][2] = {{"", "ends where a value"},
                                           {"a +", "ends where a value"},
                                           {"a b", "'b' is not expected"},
                                           {"(a", "')' is missing"},
                                           {"c", "nothing is wired to values.c"},
                                           {"values", "none of the inputs"},
                                           {"open(1)", "no function 'open'"},
                                           {"a.b", "'.b' is not expected"},
                                           {"1 / 0", "division by zero"},
                                           {"2 ** 64", "more than 64 bits"},
                                           {"99999999999999999999", "more than 64 bits"},
                                           {"9223372036854775807 + 1", "more than 64 bits"},
                                           {"1e308 * 10", "no number"},
                                           {"a if b", "'else' is missing"},
                                           {"max()", "does not take 0"},
                                           {"0x10", "is no number"},
                                           {"sqrt(-1)", "sqrt(-1) is no number"}};
    kiln_value *a = value_api.new_int(NULL, 4), *b = value_api.new_int(NULL, 2);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        made m = computed(wrong[i][0], a, b);
        refused(&m, KILN_ERR_INVALID, wrong[i][1]);
    }
    char deep[300];
    memset(deep, '(', sizeof deep - 1);
    deep[sizeof deep - 1] = '\0';
    made m = computed(deep, a, b);
    refused(&m, KILN_ERR_INVALID, "more than 64 levels");
    memset(deep, '-', sizeof deep - 1);
    m = computed(deep, a, b);
    refused(&m, KILN_ERR_INVALID, "more than 64 levels");
    value_unref(a), value_unref(b);
}

static const char *shown(kiln_value *v)
{
    static char text[1100];
    made m = node_run(&node_preview_any, NULL, v, NULL);
    snprintf(text, sizeof text, "%s", m.status == KILN_OK ? value_api.get_string(m.out[0], NULL) : m.why.message);
    made_free(&m);
    value_unref(v);
    return text;
}

static void test_values_are_shown_as_python_prints_them(void)
{
    static const struct {
        double f;
        const char *text;
    } row[] = {{0.1, "0.1"},
               {1, "1.0"},
               {1e16, "1e+16"},
               {123456789012345.0, "123456789012345.0"},
               {1e-5, "1e-05"},
               {-0.0001, "-0.0001"},
               {1.0 / 3, "0.3333333333333333"},
               {1e22, "1e+22"}};
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
        CHECK_STR(shown(value_api.new_float(NULL, row[i].f)), row[i].text);
    CHECK_STR(shown(value_api.new_int(NULL, -5)), "-5");
    CHECK_STR(shown(value_api.new_bool(NULL, 1)), "True");
    CHECK_STR(shown(value_api.new_string(NULL, "a\nb", 3)), "a\nb");
    static const float grey[24];
    CHECK_STR(shown(IMAGE_OF(1, 2, 3, 4, grey, NULL)), "a tensor of 1 x 2 x 3 x 4");
}

static void test_truth_and_numbers(void)
{
    kiln_value *list = value_api.new_list(NULL), *yes = value_api.new_bool(NULL, 1), *no = value_api.new_int(NULL, 0);
    int b = 2;
    made m = node_run(&node_and, NULL, list, NULL);
    CHECK(value_api.get_bool(m.out[0], &b) == KILN_OK && b == 1);
    made_free(&m);
    value_api.list_push(list, yes), value_api.list_push(list, no);
    m = node_run(&node_and, NULL, list, NULL);
    CHECK(value_api.get_bool(m.out[0], &b) == KILN_OK && b == 0);
    made_free(&m);
    m = node_run(&node_or, NULL, list, NULL);
    CHECK(value_api.get_bool(m.out[0], &b) == KILN_OK && b == 1);
    made_free(&m);
    m = node_run(&node_not, NULL, no, NULL);
    CHECK(value_api.get_bool(m.out[0], &b) == KILN_OK && b == 1);
    made_free(&m);
    value_unref(list), value_unref(yes), value_unref(no);
    static const struct {
        const char *text;
        int64_t whole;
        double real;
    } row[] = {{" 12 ", 12, 12}, {"-2.75", -2, -2.75}, {"1e3", 1000, 1000}};
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        kiln_value *v = value_api.new_string(NULL, row[i].text, strlen(row[i].text));
        int64_t whole = 0;
        double real = 0;
        m = node_run(&node_number_convert, NULL, v, NULL);
        CHECK(value_api.get_float(m.out[0], &real) == KILN_OK && value_api.get_int(m.out[1], &whole) == KILN_OK);
        CHECK(real == row[i].real && whole == row[i].whole);
        made_free(&m);
        value_unref(v);
    }
    kiln_value *v = value_api.new_string(NULL, "0x10", 4);
    m = node_run(&node_number_convert, NULL, v, NULL);
    refused(&m, KILN_ERR_INVALID, "'0x10' is no number");
    value_unref(v);
    m = node_with(&node_color_to_rgb_int, "color=#0a9299", NULL, NULL, NULL);
    int64_t rgb = 0;
    CHECK(value_api.get_int(m.out[0], &rgb) == KILN_OK && rgb == 0x0a9299);
    CHECK_STR(value_api.get_string(m.out[1], NULL), "#0a9299");
    made_free(&m);
    m = node_with(&node_color_to_rgb_int, "color=red", NULL, NULL, NULL);
    refused(&m, KILN_ERR_INVALID, "write it as #rrggbb");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_texts_as_python_has_them), CASE(test_expressions_as_python_has_them),
                                      CASE(test_what_is_no_formula), CASE(test_values_are_shown_as_python_prints_them),
                                      CASE(test_truth_and_numbers)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
