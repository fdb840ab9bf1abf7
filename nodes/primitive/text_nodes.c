/* text_nodes.c - what is done with texts: parts, case, comparisons, what stands around them. Names, inputs and results
 * are ComfyUI's, which are Python's: positions count code points, negative ones from the end.
 *
 * Case is changed letter by letter, by Unicode's full mappings; but a capital sigma always becomes the same small one.
 */
#include "code_points.h"
#include "primitive.h"
#include "special_case.h"

#include "kiln/kit.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static kiln_status publish(const kiln_call *c, kiln_value *value)
{
    c->out[0] = value;
    return value ? KILN_OK : KILN_ERR_NOMEM;
}
static kiln_status publish_text(const kiln_call *c, const char *text, size_t n)
{
    return publish(c, kit_values(c)->new_string(c->ctx, text, n));
}

static const kiln_port string_out[] = {{.name = "STRING", .type = "STRING", .doc = "The new text."}};
static const kiln_port boolean_out[] = {{.name = "BOOLEAN", .type = "BOOLEAN", .doc = "Whether it is so."}};
static const kiln_port contains_out[] = {{.name = "contains", .type = "BOOLEAN", .doc = "Whether it does."}};
static const kiln_port length_out[] = {{.name = "length", .type = "INT", .doc = "How many letters it has."}};

#define TEXT(struct_, field, name_, flags_, text)                                                                      \
    {                                                                                                                  \
        .name = name_, .type = KILN_P_STRING, .flags = KILN_PARAM_MULTILINE | flags_,                                  \
        .offset = offsetof(struct_, field), .def_str = "", .doc = text                                                 \
    }
#define STRING(struct_) TEXT(struct_, text, "string", KILN_PARAM_REQUIRED, "The text.")
#define TEXTS(struct_) TEXT(struct_, text, "texts", KILN_PARAM_REQUIRED, "The text; of a list each.")

/* ---- parts ---- */

#define WIDEST 9223372036854775807.0
typedef struct {
    const char *text;
    int64_t start, end;
} substring_params;
#define PLACE(field_, text_)                                                                                           \
    {                                                                                                                  \
        .name = #field_, .type = KILN_P_INT, .flags = KILN_PARAM_REQUIRED,                                             \
        .offset = offsetof(substring_params, field_), .min = -WIDEST, .max = WIDEST, .step = 1, .doc = text_           \
    }
static const kiln_param substring_param[] = {
    STRING(substring_params),
    PLACE(start, "The first letter, from 0; negative counts from the end."),
    PLACE(end, "The letter behind the last; negative counts from the end."),
};

static size_t clipped(int64_t at, size_t n)
{
    if (at < 0) at = at < -(int64_t)n ? 0 : at + (int64_t)n;
    return at > (int64_t)n ? n : (size_t)at;
}

static kiln_status substring_run(const kiln_call *c)
{
    const substring_params *p = c->params;
    size_t n = code_point_count(p->text), first = clipped(p->start, n), last = clipped(p->end, n);
    const char *from = code_point_at(p->text, first), *to = last > first ? code_point_at(from, last - first) : from;
    return publish_text(c, from, (size_t)(to - from));
}
const kiln_node node_string_substring = {
    KIT_NODE("StringSubstring", "Substring", "utils", "A part of a text."),
    KILN_ARRAY(out, string_out),
    KIT_PARAMS(substring_params, substring_param),
    .run = substring_run,
};

typedef struct {
    const char *text;
    int32_t mode;
} mode_params;
enum { BOTH, LEFT, RIGHT };
static const kiln_choice trim_choice[] = {
    {.name = "Both", .value = BOTH}, {.name = "Left", .value = LEFT}, {.name = "Right", .value = RIGHT}, {0}};
static const kiln_param trim_param[] = {STRING(mode_params), KIT_ENUM(mode_params, mode, trim_choice, BOTH, "Where.")};

static kiln_status trim(const kiln_call *c, const char *text, int32_t mode)
{
    const char *from = text, *to = text, *at = text;
    while (mode != RIGHT && code_point_is_space(code_point_next(&at))) from = at;
    for (at = from; *at;) {
        const char *before = at;
        if (!code_point_is_space(code_point_next(&at)) || mode == LEFT) to = at;
        (void)before;
    }
    return publish_text(c, from, to > from ? (size_t)(to - from) : 0);
}
static kiln_status trim_run(const kiln_call *c)
{
    const mode_params *p = c->params;
    return trim(c, p->text, p->mode);
}
const kiln_node node_string_trim = {
    KIT_NODE("StringTrim", "Trim", "utils", "A text without the blanks at its ends."),
    KILN_ARRAY(out, string_out),
    KIT_PARAMS(mode_params, trim_param),
    .run = trim_run,
};

typedef struct {
    const char *text;
} text_params;
static const kiln_param texts_param[] = {TEXTS(text_params)};
static const kiln_param length_param[] = {STRING(text_params)};

static kiln_status strip_run(const kiln_call *c) { return trim(c, ((const text_params *)c->params)->text, BOTH); }
const kiln_node node_strip_whitespace = {
    KIT_NODE("StripWhitespace", "Strip Whitespace", "utils", "A text without the blanks at its ends."),
    KILN_ARRAY(out, string_out),
    KIT_PARAMS(text_params, texts_param),
    .run = strip_run,
};

static kiln_status length_run(const kiln_call *c)
{
    size_t n = code_point_count(((const text_params *)c->params)->text);
    return publish(c, kit_values(c)->new_int(c->ctx, (int64_t)n));
}
const kiln_node node_string_length = {
    KIT_NODE("StringLength", "Length", "utils", "How many letters a text has."),
    KILN_ARRAY(out, length_out),
    KIT_PARAMS(text_params, length_param),
    .run = length_run,
};

typedef struct {
    const char *text;
    int64_t max_length;
} truncate_params;
static const kiln_param truncate_param[] = {
    TEXTS(truncate_params),
    KIT_INT(truncate_params, max_length, 77, 1, 10000, "Letters that stay."),
};
static kiln_status truncate_run(const kiln_call *c)
{
    const truncate_params *p = c->params;
    return publish_text(c, p->text, (size_t)(code_point_at(p->text, (size_t)p->max_length) - p->text));
}
const kiln_node node_truncate_text = {
    KIT_NODE("TruncateText", "Truncate Text", "utils", "The beginning of a text."),
    KILN_ARRAY(out, string_out),
    KIT_PARAMS(truncate_params, truncate_param),
    .run = truncate_run,
};

/* ---- case ---- */

enum { UPPER, LOWER, CAPITALISE, TITLE, LETTER_MAX = 6 };
static const kiln_choice case_choice[] = {{.name = "UPPERCASE", .value = UPPER},
                                          {.name = "lowercase", .value = LOWER},
                                          {.name = "Capitalize", .value = CAPITALISE, .doc = "The first letter."},
                                          {.name = "Title Case", .value = TITLE, .doc = "The first of each word."},
                                          {0}};
static const kiln_param case_param[] = {STRING(mode_params), KIT_ENUM(mode_params, mode, case_choice, UPPER, "How.")};

/* Python's: letters with case make words, whatever stands between them. */
static int has_case(int32_t code)
{
    utf8proc_category_t k = utf8proc_category(code);
    return k == UTF8PROC_CATEGORY_LU || k == UTF8PROC_CATEGORY_LL || k == UTF8PROC_CATEGORY_LT;
}

/* A letter's capitals where they are several; NULL: it has one. */
static const char *special(int32_t code, int title)
{
    size_t low = 0, high = sizeof special_case / sizeof special_case[0];
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (special_case[middle].code == code) return title ? special_case[middle].title : special_case[middle].upper;
        if (special_case[middle].code < code)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* Puts the letter in that case to `to`, at most LETTER_MAX bytes; returns how many. */
static size_t put_letter(int32_t code, int32_t mode, int begins, char *to)
{
    int capital = mode == UPPER || (mode != LOWER && begins);
    const char *several = capital ? special(code, mode != UPPER) : NULL;
    size_t n = several ? strlen(several) : 0;
    if (several) return memcpy(to, several, n), n;
    if (!capital && code == 0x130) return memcpy(to, "i\xcc\x87", 3), (size_t)3; /* a dot of its own stays */
    return code_point_put(mode == UPPER ? utf8proc_toupper(code)
                          : capital     ? utf8proc_totitle(code)
                                        : utf8proc_tolower(code),
                          to);
}

/* In scratch memory; NULL: none. *n: its bytes. */
static char *in_case(const kiln_call *c, const char *text, int32_t mode, size_t *n)
{
    char *to = c->host->scratch(c->ctx, strlen(text) * LETTER_MAX + 1, KILN_CPU);
    int begins = 1;
    *n = 0;
    for (const char *at = text; to && *at;) {
        int32_t code = code_point_next(&at);
        *n += put_letter(code, mode, begins, to + *n);
        begins = mode == TITLE && !has_case(code);
    }
    if (to) to[*n] = '\0';
    return to;
}

static kiln_status publish_case(const kiln_call *c, const char *text, int32_t mode)
{
    size_t n;
    const char *made = in_case(c, text, mode, &n);
    return made ? publish_text(c, made, n) : KILN_ERR_NOMEM;
}
static kiln_status case_run(const kiln_call *c)
{
    const mode_params *p = c->params;
    return publish_case(c, p->text, p->mode);
}
const kiln_node node_case_converter = {
    KIT_NODE("CaseConverter", "Case Converter", "utils", "A text in capital or small letters."),
    KILN_ARRAY(out, string_out),
    KIT_PARAMS(mode_params, case_param),
    .run = case_run,
};
static kiln_status lower_run(const kiln_call *c)
{
    return publish_case(c, ((const text_params *)c->params)->text, LOWER);
}
static kiln_status upper_run(const kiln_call *c)
{
    return publish_case(c, ((const text_params *)c->params)->text, UPPER);
}
const kiln_node node_text_to_lowercase = {
    KIT_NODE("TextToLowercase", "Text to Lowercase", "utils", "A text in small letters."),
    KILN_ARRAY(out, string_out),
    KIT_PARAMS(text_params, texts_param),
    .run = lower_run,
};
const kiln_node node_text_to_uppercase = {
    KIT_NODE("TextToUppercase", "Text to Uppercase", "utils", "A text in capital letters."),
    KILN_ARRAY(out, string_out),
    KIT_PARAMS(text_params, texts_param),
    .run = upper_run,
};

/* ---- comparisons ---- */

typedef struct {
    const char *text, *part;
    int32_t case_sensitive;
} contains_params;
#define SENSITIVE(struct_) KIT_BOOL(struct_, case_sensitive, 1, "Whether capital and small letters differ.")
static const kiln_param contains_param[] = {
    STRING(contains_params),
    TEXT(contains_params, part, "substring", KILN_PARAM_REQUIRED, "What is looked for."),
    SENSITIVE(contains_params),
};

/* The text itself, or in small letters; NULL: no memory. */
static const char *comparable(const kiln_call *c, const char *text, int32_t sensitive)
{
    size_t n;
    return sensitive ? text : in_case(c, text, LOWER, &n);
}

static kiln_status contains_run(const kiln_call *c)
{
    const contains_params *p = c->params;
    const char *a = comparable(c, p->text, p->case_sensitive), *b = comparable(c, p->part, p->case_sensitive);
    if (!a || !b) return KILN_ERR_NOMEM;
    return publish(c, kit_values(c)->new_bool(c->ctx, strstr(a, b) != NULL));
}
const kiln_node node_string_contains = {
    KIT_NODE("StringContains", "Contains", "utils", "Whether a text has another in it."),
    KILN_ARRAY(out, contains_out),
    KIT_PARAMS(contains_params, contains_param),
    .run = contains_run,
};

enum { STARTS, ENDS, EQUAL };
typedef struct {
    const char *a, *b;
    int32_t mode, case_sensitive;
} compare_params;
static const kiln_choice compare_choice[] = {{.name = "Starts With", .value = STARTS},
                                             {.name = "Ends With", .value = ENDS},
                                             {.name = "Equal", .value = EQUAL},
                                             {0}};
static const kiln_param compare_param[] = {
    TEXT(compare_params, a, "string_a", KILN_PARAM_REQUIRED, "The text."),
    TEXT(compare_params, b, "string_b", KILN_PARAM_REQUIRED, "What it is held against."),
    KIT_ENUM(compare_params, mode, compare_choice, STARTS, "How."),
    SENSITIVE(compare_params),
};
static kiln_status compare_run(const kiln_call *c)
{
    const compare_params *p = c->params;
    const char *a = comparable(c, p->a, p->case_sensitive), *b = comparable(c, p->b, p->case_sensitive);
    if (!a || !b) return KILN_ERR_NOMEM;
    size_t n = strlen(a), m = strlen(b);
    int is = p->mode == EQUAL ? strcmp(a, b) == 0 : n >= m && memcmp(a + (p->mode == ENDS ? n - m : 0), b, m) == 0;
    return publish(c, kit_values(c)->new_bool(c->ctx, is));
}
const kiln_node node_string_compare = {
    KIT_NODE("StringCompare", "Compare", "utils", "Whether a text begins or ends with another, or is the same."),
    KILN_ARRAY(out, boolean_out),
    KIT_PARAMS(compare_params, compare_param),
    .run = compare_run,
};

/* ---- around a text ---- */

typedef struct {
    const char *text, *more;
} join_params;
static const kiln_param prefix_param[] = {TEXTS(join_params), TEXT(join_params, more, "prefix", 0, "Before it.")};
static const kiln_param suffix_param[] = {TEXTS(join_params), TEXT(join_params, more, "suffix", 0, "Behind it.")};

static kiln_status join(const kiln_call *c, const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    char *to = c->host->scratch(c->ctx, n + m + 1, KILN_CPU);
    if (!to) return KILN_ERR_NOMEM;
    memcpy(to, a, n);
    memcpy(to + n, b, m);
    return publish_text(c, to, n + m);
}
static kiln_status prefix_run(const kiln_call *c)
{
    const join_params *p = c->params;
    return join(c, p->more, p->text);
}
static kiln_status suffix_run(const kiln_call *c)
{
    const join_params *p = c->params;
    return join(c, p->text, p->more);
}
const kiln_node node_add_text_prefix = {
    KIT_NODE("AddTextPrefix", "Add Text Prefix", "utils", "A text with another before it."),
    KILN_ARRAY(out, string_out),
    KIT_PARAMS(join_params, prefix_param),
    .run = prefix_run,
};
const kiln_node node_add_text_suffix = {
    KIT_NODE("AddTextSuffix", "Add Text Suffix", "utils", "A text with another behind it."),
    KILN_ARRAY(out, string_out),
    KIT_PARAMS(join_params, suffix_param),
    .run = suffix_run,
};
