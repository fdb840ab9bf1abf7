/* span_weights.c - see span_weights.h.
 *
 * With w1 [n,i], w2 [m,n,3,3], w3 [o,m] and sk [o,i] (1x1 convolutions are matrices) and biases b1, b2, b3, bs:
 *
 *   W[o,i,y,x] = sum over m of w3[o,m] sum over n of w2[m,n,y,x] w1[n,i], + sk[o,i] in the middle
 *   B[o]       = sum over m of w3[o,m] (b2[m] + sum over n,y,x of w2[m,n,y,x] b1[n]), + b3[o] + bs[o]
 *
 * The first convolution sees a border of zeros, so its bias is there too, as the training has it.
 */
#include "span_weights.h"

#include "kiln/checkpoint.h"
#include "kiln/kit.h"

#include <stdlib.h>

enum { W1, W2, W3, SK, B1, B2, B3, BS, FACTORS };
enum { TAPS = 9, MIDDLE = 4, NAMED = 100 };

static int64_t dim_of(const kiln_weight_call *c, int f, uint32_t i)
{
    return c->factor[f].rank > i ? c->factor[f].dim[i] : 1;
}

/* ---- the weight: prepared [m][i * 9 taps] = w2 over w1 ---- */

static size_t weight_prepared(const kiln_weight_call *c) { return (size_t)dim_of(c, W2, 0) * c->columns; }

static void weight_prepare(const kiln_weight_call *c, float *to)
{
    int64_t inner = dim_of(c, W2, 1), in = dim_of(c, W1, 1);
    const float *w1 = c->factor[W1].data, *w2 = c->factor[W2].data;
    memset(to, 0, weight_prepared(c) * sizeof *to);
    for (int64_t m = 0; m < dim_of(c, W2, 0); m++)
        for (int64_t n = 0; n < inner; n++)
            for (int64_t i = 0; i < in; i++)
                for (int64_t t = 0; t < TAPS; t++)
                    to[(m * in + i) * TAPS + t] += w2[(m * inner + n) * TAPS + t] * w1[n * in + i];
}

static void weight_apply(const kiln_weight_call *c, float *w, size_t row, size_t rows, float *scratch)
{
    size_t middle = (size_t)dim_of(c, W3, 1), in = c->columns / TAPS;
    (void)scratch;
    for (size_t o = row; o < row + rows; o++, w += c->columns) {
        memset(w, 0, c->columns * sizeof *w);
        for (size_t i = 0; i < in; i++) w[i * TAPS + MIDDLE] = c->factor[SK].data[o * in + i];
        const kiln_weight_product sum = {.to = w,
                                         .a = c->factor[W3].data + o * middle,
                                         .b = c->prepared,
                                         .to_ld = c->columns,
                                         .b_ld = c->columns,
                                         .rows = 1,
                                         .columns = c->columns,
                                         .inner = middle,
                                         .factor = 1};
        c->add_product(&sum);
    }
}

/* ---- the bias: prepared [m] ---- */

static size_t bias_prepared(const kiln_weight_call *c) { return (size_t)dim_of(c, W2, 0); }

static void bias_prepare(const kiln_weight_call *c, float *to)
{
    int64_t inner = dim_of(c, W2, 1);
    for (int64_t m = 0; m < dim_of(c, W2, 0); m++) {
        to[m] = c->factor[B2].data[m];
        for (int64_t k = 0; k < inner * TAPS; k++)
            to[m] += c->factor[W2].data[m * inner * TAPS + k] * c->factor[B1].data[k / TAPS];
    }
}

static void bias_apply(const kiln_weight_call *c, float *b, size_t row, size_t rows, float *scratch)
{
    size_t middle = (size_t)dim_of(c, W3, 1);
    (void)scratch;
    for (size_t o = row; o < row + rows; o++, b++) {
        *b = c->factor[B3].data[o] + c->factor[BS].data[o];
        for (size_t m = 0; m < middle; m++) *b += c->factor[W3].data[o * middle + m] * c->prepared[m];
    }
}

static const kiln_weight_change changes[] = {
    {.size = sizeof *changes,
     .revision = 1,
     .name = "span-weight",
     .prepared = weight_prepared,
     .prepare = weight_prepare,
     .apply = weight_apply},
    {.size = sizeof *changes,
     .revision = 1,
     .name = "span-bias",
     .prepared = bias_prepared,
     .prepare = bias_prepare,
     .apply = bias_apply},
};

/* ---- which layers ---- */

static const char *const factors[FACTORS] = {"conv.0.weight", "conv.1.weight", "conv.2.weight", "sk.weight",
                                             "conv.0.bias",   "conv.1.bias",   "conv.2.bias",   "sk.bias"};

typedef struct {
    char name[NAMED], factor[FACTORS][NAMED];
    const char *of[FACTORS];
} layer;

typedef struct {
    const kiln_host *host;
    kiln_ctx *ctx;
    const kiln_weights_api *w;
    kiln_weights *set;
    layer *layer;
    kiln_weight_patch *patch;
    size_t n;
} folding;

static int is(const kiln_weight_info *t, uint32_t rank, int64_t a, int64_t b, int64_t side)
{
    return t->rank == rank && t->dim[0] == a && (rank < 2 || t->dim[1] == b) &&
           (rank < 4 || (t->dim[2] == side && t->dim[3] == side));
}

/* The shapes of one layer agree. `of` [FACTORS]. */
static int agree(const kiln_weight_info *target, const kiln_weight_info *of)
{
    int64_t in, out, inner = of[W1].dim[0], middle = of[W3].rank > 1 ? of[W3].dim[1] : 0;
    if (target->rank != 4 || of[W2].rank != 4 || of[W1].rank != 4 || inner < 1 || middle < 1) return 0;
    out = target->dim[0], in = target->dim[1];
    return is(target, 4, out, in, 3) && is(&of[W1], 4, inner, in, 1) && is(&of[W2], 4, middle, inner, 3) &&
           is(&of[W3], 4, out, middle, 1) && is(&of[SK], 4, out, in, 1) && is(&of[B1], 1, inner, 0, 0) &&
           is(&of[B2], 1, middle, 0, 0) && is(&of[B3], 1, out, 0, 0) && is(&of[BS], 1, out, 0, 0);
}

/* A patch of `target`, which is STEM.eval_conv.weight (or bias). */
static void add_patch(folding *f, const char *target, const char *stem, int bias)
{
    layer *l = &f->layer[f->n];
    snprintf(l->name, sizeof l->name, "%.90s", target);
    for (int i = 0; i < FACTORS; i++) {
        snprintf(l->factor[i], sizeof l->factor[i], "%.70s.%s", stem, factors[i]);
        l->of[i] = l->factor[i];
    }
    f->patch[f->n++] = (kiln_weight_patch){.size = sizeof *f->patch,
                                           .name = l->name,
                                           .strength = 1,
                                           .scale = 1,
                                           .from = f->set,
                                           .change = &changes[bias],
                                           .factor = l->of,
                                           .n_factor = FACTORS};
}

/* KILN_OK also when this layer is as it is in the file. */
static kiln_status fold_layer(folding *f, const kiln_weight_info *target)
{
    static const char ending[] = ".eval_conv.weight";
    kiln_weight_info of[FACTORS], bias;
    char stem[NAMED], name[NAMED];
    size_t length = strlen(target->name), end = sizeof ending - 1;
    int there = 0;
    if (length < end || length - end > 60 || strcmp(target->name + length - end, ending) != 0) return KILN_OK;
    snprintf(stem, sizeof stem, "%.*s", (int)(length - end), target->name);
    for (int i = 0; i < FACTORS; i++) there += checkpoint_has(f->w, f->set, "", &of[i], "%s.%s", stem, factors[i]);
    if (there == 0) return KILN_OK;
    snprintf(name, sizeof name, "%.70s.eval_conv.bias", stem);
    if (there < FACTORS || !checkpoint_has(f->w, f->set, "", &bias, "%s", name) || !agree(target, of) ||
        !is(&bias, 1, target->dim[0], 0, 0))
        return f->host->fail(f->ctx, KILN_ERR_INVALID,
                             "this upscaler: the convolutions of '%s', which are one, are not all there or do not fit "
                             "each other",
                             stem);
    add_patch(f, target->name, stem, 0);
    add_patch(f, name, stem, 1);
    return KILN_OK;
}

kiln_weights *span_folded(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    size_t n = w->count(set);
    folding f = {.host = host, .ctx = ctx, .w = w, .set = set};
    kiln_weight_info info = {.size = sizeof info};
    kiln_weights *out = NULL;
    f.layer = calloc(2 * n + 1, sizeof *f.layer), f.patch = calloc(2 * n + 1, sizeof *f.patch);
    kiln_status status =
        f.layer && f.patch ? KILN_OK : host->fail(ctx, KILN_ERR_NOMEM, "no memory for the upscaler's table");
    for (size_t i = 0; status == KILN_OK && i < n; i++)
        if (w->at(set, i, &info) == KILN_OK) status = fold_layer(&f, &info);
    if (status == KILN_OK) out = f.n ? w->patch(ctx, set, f.patch, f.n) : w->ref(set);
    free(f.layer);
    free(f.patch);
    return out;
}
