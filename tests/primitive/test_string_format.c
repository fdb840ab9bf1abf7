/* test_string_format.c - StringFormat held against Python's str.format (tests/golden/formats.txt, written by
 * scripts/golden/python_format.py), and what is said of texts that cannot be filled in. */
#include "node_kit.h"

#include "primitive.h"

static void unescape(char *text)
{
    char *to = text;
    for (const char *at = text; *at; at++) {
        if (*at == '\\' && at[1])
            at++, *to++ = *at == 'n' ? '\n' : *at == 't' ? '\t' : *at == 'r' ? '\r' : *at;
        else
            *to++ = *at;
    }
    *to = '\0';
}

static kiln_value *value_written(const char *text)
{
    switch (text[0]) {
    case 'i': return value_api.new_int(NULL, atoll(text + 2));
    case 'f': return value_api.new_float(NULL, atof(text + 2));
    case 'b': return value_api.new_bool(NULL, strcmp(text + 2, "True") == 0);
    default: return value_api.new_string(NULL, text + 2, strlen(text + 2));
    }
}

static made formatted(const char *text, kiln_value *a, kiln_value *b)
{
    const char *params[] = {text}; /* as its one parameter lies */
    kiln_value *in[26] = {a, b};
    return node_run_all(&node_string_format, params, in);
}

static void check_line(char *line)
{
    char *rest = line, *text = strsep(&rest, "\t"), *a = strsep(&rest, "\t"), *b = strsep(&rest, "\t"), *wanted = rest;
    unescape(text), unescape(a), unescape(b), unescape(wanted);
    kiln_value *x = value_written(a), *y = value_written(b);
    made m = formatted(text, x, y);
    const char *is = m.status == KILN_OK ? value_api.get_string(m.out[0], NULL) : NULL;
    if (wanted[0] == '!')
        CHECK_MSG(m.status == KILN_ERR_INVALID && m.why.message[0], "'%s' of %s, %s: '%s', not a fault", text, a, b,
                  is ? is : "");
    else
        CHECK_MSG(is && strcmp(is, wanted + 1) == 0, "'%s' of %s, %s: '%s', not '%s' %s", text, a, b, is ? is : "",
                  wanted + 1, m.why.message);
    made_free(&m);
    value_unref(x), value_unref(y);
}

static void test_what_python_makes(void)
{
    char path[600], line[8000];
    int n = 0;
    snprintf(path, sizeof path, "%s/tests/golden/formats.txt", test_root());
    FILE *f = fopen(path, "r");
    if (!CHECK_MSG(f != NULL, "%s", path)) exit(1);
    for (; fgets(line, sizeof line, f); n++) {
        line[strcspn(line, "\n")] = '\0';
        check_line(line);
    }
    fclose(f);
    CHECK(n > 2000);
}

static void test_what_is_said(void)
{
    static const char *const wrong[][2] = {
        {"{", "'{' is not closed; {{ is the character"},
        {"}", "'}' closes nothing; }} is the character"},
        {"{}", "values have names: write {a}"},
        {"{0}", "values have names: write {a}"},
        {"{c}", "nothing is wired to values.c"},
        {"{prompt}", "'prompt' is no name from a to z"},
        {"{a.real}", "values have no attributes here"},
        {"{a[0]}", "the number of a text's letter"},
        {"{b[7]}", "letter 7 of a text of 4"},
        {"{a!x}", "conversions are !s, !r and !a"},
        {"{a:.2}", "a precision goes not with whole numbers"},
        {"{b:d}", "a value of type str has no format 'd'"},
        {"{b:,}", "are for numbers"},
        {"{a:,x}", "',' goes not with 'x'"},
        {"{a:>>>5}", "is left over"},
        {"{a:5.}", "digits are missing behind the '.'"},
        {"{a:100001}", "more than 100000"},
        {"{a:{b:{a}}}", "within each other twice at most"},
        {"{a:c}{a:-c}", "a sign and '#' go not with 'c'"},
    };
    kiln_value *a = value_api.new_int(NULL, 65), *b = value_api.new_string(NULL, "text", 4);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        made m = formatted(wrong[i][0], a, b);
        refused(&m, KILN_ERR_INVALID, wrong[i][1]);
    }
    static const float grey[24];
    kiln_value *picture = IMAGE_OF(1, 2, 3, 4, grey, NULL), *letter = value_api.new_int(NULL, 0xd800);
    made m = formatted("{b} {a}", picture, b);
    refused(&m, KILN_ERR_INVALID, "what is wired to values.a is a tensor, and has no text");
    m = formatted("{a:c}", letter, b);
    refused(&m, KILN_ERR_INVALID, "half a letter");
    value_unref(a), value_unref(b), value_unref(picture), value_unref(letter);
}

/* Widths multiply: a text of 20 bytes asks for megabytes. */
static void test_a_text_does_not_grow_without_end(void)
{
    char many[800] = "";
    for (int i = 0; i < 60; i++) strcat(many, "{a:99999}");
    kiln_value *a = value_api.new_int(NULL, 1);
    made m = formatted(many, a, NULL);
    refused(&m, KILN_ERR_INVALID, "more than 1048576 bytes");
    value_unref(a);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_what_python_makes), CASE(test_what_is_said),
                                      CASE(test_a_text_does_not_grow_without_end)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
