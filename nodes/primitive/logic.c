/* logic.c - truth values, conversions and what shows a value: ComfyNotNode, ComfyAndNode, ComfyOrNode,
 * ComfyNumberConvert, ColorToRGBInt, SeedNode, PreviewAny. Names and inputs are ComfyUI's. */
#include "code_points.h"
#include "primitive.h"
#include "python_text.h"

#include "kiln/kit.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const kiln_port boolean_out[] = {{.name = "BOOLEAN", .type = "BOOLEAN", .doc = "True or false."}};

static kiln_status publish(const kiln_call *c, uint32_t i, kiln_value *value)
{
    c->out[i] = value;
    return value ? KILN_OK : KILN_ERR_NOMEM;
}

/* Python's truth of a value: numbers other than 0, texts and lists that are not empty, and everything else. */
static int is_true(const kiln_value_api *v, const kiln_value *value)
{
    int b;
    double f;
    size_t n;
    if (v->get_bool(value, &b) == KILN_OK) return b;
    if (v->get_float(value, &f) == KILN_OK) return f != 0;
    if (v->get_string(value, &n)) return n > 0;
    uint32_t kind = v->kind(value);
    return kind == KILN_V_LIST || kind == KILN_V_MAP ? v->count(value) > 0 : kind != 0;
}

static const kiln_port values_in[] = {{.name = "values",
                                       .type = "*",
                                       .flags = KILN_PORT_LIST,
                                       .doc = "Truth values; numbers count when they are not 0."}};
static const kiln_port value_in[] = {{.name = "value", .type = "*", .doc = "A truth value, or what stands for one."}};

static kiln_status not_run(const kiln_call *c)
{
    const kiln_value_api *v = kit_values(c);
    return publish(c, 0, v->new_bool(c->ctx, !is_true(v, c->in[0])));
}
static kiln_status fold(const kiln_call *c, int stops_at)
{
    const kiln_value_api *v = kit_values(c);
    int is = !stops_at;
    for (size_t i = 0; is != stops_at && i < v->count(c->in[0]); i++) is = is_true(v, v->list_at(c->in[0], i));
    return publish(c, 0, v->new_bool(c->ctx, is));
}
static kiln_status and_run(const kiln_call *c) { return fold(c, 0); }
static kiln_status or_run(const kiln_call *c) { return fold(c, 1); }

#define LOGIC(type_, title_, doc_, in_, run_)                                                                          \
    {                                                                                                                  \
        KIT_NODE(type_, title_, "utils", doc_), KILN_ARRAY(in, in_), KILN_ARRAY(out, boolean_out), .run = run_         \
    }
const kiln_node node_not = LOGIC("ComfyNotNode", "Not", "The opposite of a truth value.", value_in, not_run);
const kiln_node node_and = LOGIC("ComfyAndNode", "And", "Whether all are true.", values_in, and_run);
const kiln_node node_or = LOGIC("ComfyOrNode", "Or", "Whether one is true.", values_in, or_run);

/* ---- numbers ---- */

static const kiln_port convert_in[] = {{.name = "value", .type = "*", .doc = "A number, a truth value, or a text."}};
static const kiln_port convert_out[] = {
    {.name = "FLOAT", .type = "FLOAT", .doc = "The number."},
    {.name = "INT", .type = "INT", .doc = "The same without what is behind the point."},
};

/* A text that is a number and nothing else. */
static int number_of_text(const char *text, double *out)
{
    char *end;
    while (isspace((unsigned char)*text)) text++;
    if (!*text || strpbrk(text, "xXnNpP")) return 0; /* strtod would take 0x10, nan and inf too */
    *out = strtod(text, &end);
    while (isspace((unsigned char)*end)) end++;
    return !*end && isfinite(*out);
}

static kiln_status convert_run(const kiln_call *c)
{
    const kiln_value_api *v = kit_values(c);
    const char *text = v->get_string(c->in[0], NULL);
    int64_t whole = 0;
    double number = 0;
    int b, is_whole = v->get_int(c->in[0], &whole) == KILN_OK;
    if (v->get_bool(c->in[0], &b) == KILN_OK)
        number = b;
    else if (text ? !number_of_text(text, &number) : v->get_float(c->in[0], &number) != KILN_OK)
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "value: %s%.60s%s is no number", text ? "'" : "",
                             text ? text : "what is wired here", text ? "'" : "");
    if (!is_whole && !(fabs(number) < 9.2e18))
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "value: %g is no whole number of 64 bits", number);
    TRY(publish(c, 0, v->new_float(c->ctx, number)));
    return publish(c, 1, v->new_int(c->ctx, is_whole ? whole : (int64_t)number));
}
const kiln_node node_number_convert = {
    KIT_NODE("ComfyNumberConvert", "Convert Number", "utils", "A number of what stands for one."),
    KILN_ARRAY(in, convert_in),
    KILN_ARRAY(out, convert_out),
    .run = convert_run,
};

typedef struct {
    const char *color;
} colour_params;
static const kiln_param colour_param[] = {{.name = "color",
                                           .type = KILN_P_STRING,
                                           .offset = offsetof(colour_params, color),
                                           .def_str = "#ffffff",
                                           .doc = "#rrggbb, as on the web; #rgb and #rrggbbaa too."}};
static const kiln_port colour_out[] = {
    {.name = "rgb_int", .type = "INT", .doc = "65536 red + 256 green + blue."},
    {.name = "hex", .type = "COLOR", .doc = "The colour as #rrggbb."},
    {.name = "alpha", .type = "FLOAT", .doc = "1 where the colour says nothing of it."},
};

/* The number of n hexadecimal digits; each stands twice when `doubled`. 0: there are others among them. */
static int hex(const char *at, size_t n, int doubled, uint32_t *out)
{
    *out = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isxdigit((unsigned char)at[i])) return 0;
        uint32_t digit =
            (uint32_t)(isdigit((unsigned char)at[i]) ? at[i] - '0' : tolower((unsigned char)at[i]) - 'a' + 10);
        *out = doubled ? *out << 8 | digit * 17 : *out << 4 | digit;
    }
    return 1;
}

static kiln_status colour_run(const kiln_call *c)
{
    const char *text = ((const colour_params *)c->params)->color, *at = text + (*text == '#');
    size_t n = strlen(at);
    uint32_t value = 0;
    char name[10];
    if ((n != 3 && n != 4 && n != 6 && n != 8) || !hex(at, n, n < 6, &value))
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "color: '%.40s' is no colour; write it as #rrggbb", text);
    double alpha = n == 4 || n == 8 ? (value & 255) / 255.0 : 1;
    if (n == 4 || n == 8) value >>= 8;
    snprintf(name, sizeof name, "#%06x", value & 0xffffff);
    TRY(publish(c, 0, kit_values(c)->new_int(c->ctx, value)));
    TRY(publish(c, 1, kit_values(c)->new_string(c->ctx, name, 7)));
    return publish(c, 2, kit_values(c)->new_float(c->ctx, alpha));
}
const kiln_node node_color_to_rgb_int = {
    KIT_NODE("ColorToRGBInt", "Color to RGB Int", "utils", "The number that stands for a colour."),
    KILN_ARRAY(out, colour_out),
    KIT_PARAMS(colour_params, colour_param),
    .run = colour_run,
};

typedef struct {
    int64_t seed;
} seed_params;
static const kiln_param seed_param[] = {{.name = "seed",
                                         .type = KILN_P_INT,
                                         .flags = KILN_PARAM_REQUIRED | KILN_PARAM_CONTROL,
                                         .offset = offsetof(seed_params, seed),
                                         .min = 0,
                                         .max = 9223372036854775807.0,
                                         .step = 1,
                                         .doc = "What comes out."}};
static const kiln_port seed_out[] = {{.name = "seed", .type = "INT", .doc = "The number."}};
static kiln_status seed_run(const kiln_call *c)
{
    return publish(c, 0, kit_values(c)->new_int(c->ctx, ((const seed_params *)c->params)->seed));
}
const kiln_node node_seed = {
    KIT_NODE_FLAGS(KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_ESTIMATES | KILN_NODE_CONSTANT, 1, "SeedNode",
                   "Seed", "utils", "A seed."),
    KILN_ARRAY(out, seed_out),
    KIT_PARAMS(seed_params, seed_param),
    .run = seed_run,
};

/* ---- PreviewAny ---- */

static const kiln_port any_in[] = {{.name = "source", .type = "*", .doc = "What is shown."}};
static const kiln_port any_out[] = {{.name = "STRING", .type = "STRING", .doc = "The same as a text."}};

void python_float(double f, char out[40])
{
    int digits = 1;
    if (!isfinite(f)) {
        snprintf(out, 40, "%s", isnan(f) ? "nan" : f > 0 ? "inf" : "-inf");
        return;
    }
    do snprintf(out, 40, "%.*e", digits - 1, f);
    while (strtod(out, NULL) != f && ++digits <= 17);
    int exponent = atoi(strchr(out, 'e') + 1);
    if (exponent < -4 || exponent >= 16) return;
    int behind = digits - 1 - exponent;
    snprintf(out, 40, "%.*f", behind > 1 ? behind : 1, f);
}

/* Of a tensor its size, of a list or map how many items: values that have no text of their own. */
static void describe(const kiln_call *c, const kiln_value *value, char *out, size_t capacity)
{
    const kiln_value_api *v = kit_values(c);
    kiln_tensor t;
    kit_tensor_clear(&t);
    size_t used = (size_t)snprintf(out, capacity, "a tensor of ");
    if (v->kind(value) == KILN_V_TENSOR && c->host->view(c->ctx, value, &t) == KILN_OK) {
        for (uint32_t i = 0; i < t.rank && used < capacity; i++)
            used += (size_t)snprintf(out + used, capacity - used, "%s%lld", i ? " x " : "", (long long)t.dim[i]);
        return;
    }
    const char *type = v->object_type(value);
    if (type)
        snprintf(out, capacity, "a %.100s", type);
    else
        snprintf(out, capacity, "%zu items", v->count(value));
}

static kiln_status preview_any_run(const kiln_call *c)
{
    const kiln_value_api *v = kit_values(c);
    const char *text = v->get_string(c->in[0], NULL);
    char made[300];
    int64_t whole;
    double f;
    int b;
    if (!text) {
        if (v->get_bool(c->in[0], &b) == KILN_OK)
            snprintf(made, sizeof made, "%s", b ? "True" : "False");
        else if (v->get_int(c->in[0], &whole) == KILN_OK)
            snprintf(made, sizeof made, "%lld", (long long)whole);
        else if (v->get_float(c->in[0], &f) == KILN_OK)
            python_float(f, made);
        else
            describe(c, c->in[0], made, sizeof made);
        text = made;
    }
    TRY(publish(c, 0, v->new_string(c->ctx, text, strlen(text))));
    if (kit_estimating(c)) return KILN_OK;
    c->host->draft(c->ctx, text);
    return KILN_OK;
}
const kiln_node node_preview_any = {
    KIT_NODE_FLAGS(KILN_NODE_OUTPUT | KILN_NODE_REENTRANT | KILN_NODE_ESTIMATES, 1, "PreviewAny", "Preview as Text",
                   "utils", "Prints what a value is: a number or text as it is, of others what they are. Not with -q."),
    KILN_ARRAY(in, any_in),
    KILN_ARRAY(out, any_out),
    .run = preview_any_run,
};
