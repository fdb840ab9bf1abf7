/* string_format.c - StringFormat: Python's str.format over the values that are wired to a, b, c ... z.
 *
 *     "{a}:{b:>5}, {c!r:.{d}f} {{}}"      field, conversion, specification (python_format.h), fields within one; {{ is
 * a {
 *
 * Of what can stand behind a name only the number of a letter does, {a[0]}: values have no attributes here.
 */
#include "code_points.h"
#include "lettered_values.h"
#include "primitive.h"
#include "python_format.h"

#include "kiln/kit.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES = LETTERED_VALUES_N, LEVELS = 2 };

typedef struct {
    python_value value[NAMES];
    const char *unknown[NAMES]; /* the kind of a value that has no text */
    int given[NAMES];
} format_values;

/* Between braces: the name with what stands behind it, the conversion, the specification. */
typedef struct {
    const char *name, *name_end, *spec, *spec_end;
    char conversion; /* 0: none */
    int nested;      /* fields in the specification */
} field;

static void expand(python_made *to, const format_values *from, const char *at, const char *end, int levels);

/* ---- reading ---- */

static const char *read_spec(python_made *to, field *f, const char *at, const char *end)
{
    int open = 1;
    for (f->spec = at; at < end; at++) {
        if (*at == '{') open++, f->nested = 1;
        if (*at == '}' && --open == 0) return f->spec_end = at, at + 1;
    }
    python_wrong(to, "a '{' is not closed");
    return end;
}

/* From behind the '{' to behind the '}'. */
static const char *read_field(python_made *to, field *f, const char *at, const char *end)
{
    *f = (field){.name = at};
    while (at < end && *at != '}' && *at != ':' && *at != '!' && *at != '{')
        if (*at++ == '[')
            while (at < end && *at != ']') at++;
    f->name_end = at;
    if (at == end || *at == '{') {
        python_wrong(to, at == end ? "a '{' is not closed; {{ is the character" : "a '{' within a name");
        return end;
    }
    if (*at == '!') {
        f->conversion = at + 1 < end ? at[1] : '?';
        at += at + 1 < end ? 2 : 1;
        if (at < end && *at != ':' && *at != '}') python_wrong(to, "behind a conversion stands ':' or '}'");
    }
    if (at < end && *at == ':') return read_spec(to, f, at + 1, end);
    if (at < end) return at + 1;
    python_wrong(to, "a '{' is not closed; {{ is the character");
    return end;
}

/* ---- a field's value ---- */

/* {a[2]}: a text's third letter. */
static void take_letter(python_made *to, python_value *v, const char **at, const char *end)
{
    size_t index = 0, letters = 0;
    const char *from = ++*at;
    for (const char *next = v->text; next && next < v->text + v->bytes; letters++) code_point_next(&next);
    while (*at < end && isdigit((unsigned char)**at) && *at - from < 9) index = index * 10 + (size_t)(*(*at)++ - '0');
    if (v->kind != PYTHON_TEXT || *at == from || *at == end || **at != ']')
        python_wrong(to, "in [ ] stands the number of a text's letter");
    else if (index >= letters)
        python_wrong(to, "letter %zu of a text of %zu", index, letters);
    if (to->why[0]) return;
    ++*at;
    const char *begin = code_point_at(v->text, index), *behind = begin;
    code_point_next(&behind);
    v->text = begin, v->bytes = (size_t)(behind - begin);
}

static python_value value_of(python_made *to, const format_values *from, const field *f)
{
    size_t n = strcspn(f->name, ".[}:!{"), whole = (size_t)(f->name_end - f->name);
    python_value v = {.kind = PYTHON_TEXT, .text = "", .bytes = 0};
    if (n > whole) n = whole;
    int letter = n == 1 ? f->name[0] - 'a' : -1;
    if (n == 0 || strspn(f->name, "0123456789") == n)
        python_wrong(to, "values have names: write {a} and not {%.*s}", (int)(n < 40 ? n : 40), f->name);
    else if (letter < 0 || letter >= NAMES)
        python_wrong(to, "'%.*s' is no name from a to z; {{ is the character", (int)(n < 40 ? n : 40), f->name);
    else if (!from->given[letter])
        python_wrong(to, "nothing is wired to values.%c", f->name[0]);
    else if (from->unknown[letter])
        python_wrong(to, "what is wired to values.%c is %s, and has no text", f->name[0], from->unknown[letter]);
    else
        v = from->value[letter];
    for (const char *at = f->name + n; !to->why[0] && at < f->name_end;) {
        if (*at != '[')
            python_wrong(to, "'%.*s': values have no attributes here", (int)(whole < 60 ? whole : 60), f->name);
        else
            take_letter(to, &v, &at, f->name_end);
    }
    return v;
}

/* !s, !r and !a make a text of the value first. */
static void convert(python_made *to, python_made *text, python_value *v, char conversion)
{
    if (!conversion) return;
    if (conversion == 's')
        python_str(text, v);
    else if (conversion == 'r' || conversion == 'a')
        python_repr(text, v, conversion == 'a');
    else
        python_wrong(text, "conversions are !s, !r and !a");
    if (text->why[0]) python_wrong(to, "%s", text->why);
    *v = (python_value){.kind = PYTHON_TEXT, .text = text->data ? text->data : "", .bytes = text->n};
}

static void put_field(python_made *to, const format_values *from, const field *f, int levels)
{
    python_made text = {0}, spec = {0};
    python_value v = value_of(to, from, f);
    convert(to, &text, &v, f->conversion);
    if (f->nested) expand(&spec, from, f->spec, f->spec_end, levels - 1);
    if (spec.why[0]) python_wrong(to, "%s", spec.why);
    if (!to->why[0] && f->nested)
        python_format(to, &v, spec.data ? spec.data : "", spec.n);
    else if (!to->why[0])
        python_format(to, &v, f->spec ? f->spec : "", f->spec ? (size_t)(f->spec_end - f->spec) : 0);
    free(text.data);
    free(spec.data);
}

static void expand(python_made *to, const format_values *from, const char *at, const char *end, int levels)
{
    if (levels == 0) python_wrong(to, "fields stand within each other twice at most");
    while (at < end && !to->why[0]) {
        size_t n = 0;
        while (at + n < end && at[n] != '{' && at[n] != '}') n++;
        python_put(to, at, n);
        at += n;
        if (at == end) return;
        if (at + 1 < end && at[1] == *at) {
            python_put(to, at, 1);
            at += 2;
        } else if (*at == '}') {
            python_wrong(to, "a '}' closes nothing; }} is the character");
        } else {
            field f;
            at = read_field(to, &f, at + 1, end);
            if (!to->why[0]) put_field(to, from, &f, levels);
        }
    }
}

/* ---- the node ---- */

typedef struct {
    const char *f_string;
} format_params;
static const kiln_param format_param[] = {{.name = "f_string",
                                           .type = KILN_P_STRING,
                                           .flags = KILN_PARAM_MULTILINE | KILN_PARAM_REQUIRED,
                                           .offset = offsetof(format_params, f_string),
                                           .def_str = "",
                                           .doc = "The text, with {a}, {b:.2f}, {c:>8} where values stand, as Python's "
                                                  "str.format has them; {{ is a brace."}};
#define IN_TEXT(letter_) "`{" letter_ "}` in the text."
static const kiln_port format_in[] = {LETTERED_VALUES(IN_TEXT)};
static const kiln_port format_out[] = {{.name = "STRING", .type = "STRING", .doc = "The text."}};

static const char *kind_of(const kiln_call *c, const kiln_value *value)
{
    switch (kit_values(c)->kind(value)) {
    case KILN_V_TENSOR: return "a tensor";
    case KILN_V_LIST: return "a list";
    case KILN_V_MAP: return "a map";
    default: return "no number and no text";
    }
}

static void read_values(const kiln_call *c, format_values *to)
{
    const kiln_value_api *v = kit_values(c);
    for (int i = 0; i < NAMES; i++) {
        python_value *p = &to->value[i];
        int b;
        if (!(to->given[i] = c->in[i] != NULL)) continue;
        if (v->get_bool(c->in[i], &b) == KILN_OK)
            *p = (python_value){.kind = PYTHON_BOOL, .whole = b};
        else if (v->get_int(c->in[i], &p->whole) == KILN_OK)
            p->kind = PYTHON_INT;
        else if (v->get_float(c->in[i], &p->real) == KILN_OK)
            p->kind = PYTHON_FLOAT;
        else if ((p->text = v->get_string(c->in[i], NULL)))
            p->kind = PYTHON_TEXT, p->bytes = strlen(p->text);
        else
            to->unknown[i] = kind_of(c, c->in[i]);
    }
}

static kiln_status format_run(const kiln_call *c)
{
    const char *text = ((const format_params *)c->params)->f_string;
    python_made made = {0};
    format_values values = {.given = {0}};
    read_values(c, &values);
    expand(&made, &values, text, text + strlen(text), LEVELS);
    kiln_status status = KILN_OK;
    if (made.why[0])
        status = c->host->fail(c->ctx, KILN_ERR_INVALID, "'%.200s': %s", text, made.why);
    else if (!(c->out[0] = kit_values(c)->new_string(c->ctx, made.data ? made.data : "", made.n)))
        status = KILN_ERR_NOMEM;
    free(made.data);
    return status;
}
const kiln_node node_string_format = {
    KIT_NODE("StringFormat", "Format Text", "utils", "A text with values in it, as Python's str.format writes them."),
    KILN_ARRAY(in, format_in),
    KILN_ARRAY(out, format_out),
    KIT_PARAMS(format_params, format_param),
    .run = format_run,
};
