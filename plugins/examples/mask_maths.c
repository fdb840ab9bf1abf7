/* mask_maths.c - two masks become one. Shows: a choice (ENUM), an optional input, and refusing what makes no sense with
 * a sentence that names place and remedy.
 *
 * Masks are between 0 and 1, so the operations are those of fuzzy sets (Zadeh 1965): max, min, a (1 - b), |a - b|.
 */
#include "kiln/kit.h"

typedef enum { UNION, INTERSECTION, DIFFERENCE, EXCLUSIVE } operation;

typedef struct {
    int32_t operation;
} mask_params;

static const kiln_choice operations[] = {
    {"union", "in either", UNION},
    {"intersection", "in both", INTERSECTION},
    {"difference", "in a and not in b", DIFFERENCE},
    {"exclusive", "in one alone", EXCLUSIVE},
    {NULL, NULL, 0},
};
static const kiln_param param[] = {KIT_ENUM(mask_params, operation, operations, UNION, "What is kept.")};
static const kiln_port in[] = {
    {.name = "a", .type = "MASK", .doc = "The first."},
    {.name = "b", .type = "MASK", .flags = KILN_PORT_OPTIONAL, .doc = "The second; without it a comes back."},
};
static const kiln_port out[] = {{.name = "MASK", .type = "MASK", .doc = "Of their size."}};

static float combine(int32_t what, float a, float b)
{
    switch (what) {
    case INTERSECTION: return a < b ? a : b;
    case DIFFERENCE: return a * (1 - b);
    case EXCLUSIVE: return a < b ? b - a : a - b;
    default: return a > b ? a : b;
    }
}

static kiln_status run(const kiln_call *c)
{
    kiln_tensor a, b, to;
    TRY(kit_f32(c, c->in[0], 3, "a", &a));
    if (!c->in[1]) { /* not wired: an input may be handed on, with a reference of its own */
        c->out[0] = c->host->ref(c->in[0]);
        return KILN_OK;
    }
    TRY(kit_f32(c, c->in[1], 3, "b", &b));
    for (int i = 1; i < 3; i++)
        if (a.dim[i] != b.dim[i])
            return c->host->fail(c->ctx, KILN_ERR_INVALID,
                                 "a has %lld x %lld cells and b %lld x %lld; scale one of them first",
                                 (long long)a.dim[2], (long long)a.dim[1], (long long)b.dim[2], (long long)b.dim[1]);
    TRY(kit_new_f32(c, 3, a.dim, &c->out[0], &to));
    if (kit_estimating(c)) return KILN_OK;
    const float *x = a.data, *y = b.data;
    float *z = to.data;
    const size_t n = kit_count(&a), m = kit_count(&b); /* b may be one mask for all of a's */
    for (size_t i = 0; i < n; i++) {
        if (i % 1000000 == 0) TRY(c->host->progress(c->ctx, i, n, "masks"));
        z[i] = combine(((const mask_params *)c->params)->operation, x[i], y[i % m]);
    }
    return KILN_OK;
}

static const kiln_node mask_maths = {KIT_NODE("ExampleMaskMaths", "Mask maths", "examples", "Two masks become one."),
                                     KILN_ARRAY(in, in), KILN_ARRAY(out, out), KIT_PARAMS(mask_params, param),
                                     .run = run};

KILN_PLUGIN("org.example.mask-maths", "1.0.0", "MIT", &mask_maths);
