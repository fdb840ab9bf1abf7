/* gligen_model.c - see gligen_model.h. A layer's heads are those of the UNets that such files were made for: 8 in all
 * where the text is SD1's, else each 64 wide.
 */
#include "gligen_model.h"

#include "kiln/kit.h"

#include <math.h>
#include <stdio.h>

enum { NAME = 80, SD1_TEXT = 768, SD1_HEADS = 8, HEAD = 64, COORDINATES = 4 };

#define EPS 1e-5f
#define TEMPERATURE 100.0

static int64_t dim_at(const gligen_recorder *r, kiln_t x, uint32_t i)
{
    int64_t dim[KILN_MAX_RANK] = {0};
    return i < r->ops->shape(r->p, x, dim, KILN_MAX_RANK) ? dim[i] : 0;
}

static kiln_t vector(const gligen_recorder *r, const char *base, const char *what, int64_t n)
{
    char name[NAME];
    snprintf(name, sizeof name, "%s%s", base, what);
    return r->ops->weight(r->p, r->weights, name, 1, &n);
}

static kiln_t linear(const gligen_recorder *r, const char *base, const char *what, kiln_t x, int64_t out, int bias)
{
    char name[NAME];
    snprintf(name, sizeof name, "%s%s.weight", base, what);
    kiln_t w = r->ops->weight(r->p, r->weights, name, 2, KILN_DIMS(out, dim_at(r, x, 2)));
    snprintf(name, sizeof name, "%s.bias", what);
    return r->ops->linear(r->p, x, w, bias ? vector(r, base, name, out) : (kiln_t){0});
}

/* ---- tokens ---- */

/* x1, y1, x2, y2 as shares of the picture [N,B,4] of height, width, y, x in cells [N,B,4]. */
static kiln_t corners(const gligen_recorder *r, kiln_t box, int64_t height, int64_t width)
{
    const kiln_ops *o = r->ops;
    float h = (float)height, w = (float)width;
    const float size[COORDINATES] = {w, h, w, h};
    kiln_t side[COORDINATES];
    for (int i = 0; i < COORDINATES; i++) side[i] = o->slice(r->p, box, 2, i, 1);
    kiln_t down = o->add(r->p, side[2], side[0]), right = o->add(r->p, side[3], side[1]);
    kiln_t all = o->concat(r->p, (kiln_t[]){side[3], side[2], right, down}, COORDINATES, 2);
    return o->map(r->p, "a / b", (kiln_t[]){all, o->constant(r->p, size, 1, KILN_DIMS(COORDINATES))}, 2, NULL);
}

/* For each band the four sines, then the four cosines: [N,B,frequencies*8]. */
static kiln_t fourier(const gligen_recorder *r, kiln_t box)
{
    const kiln_ops *o = r->ops;
    int64_t n = dim_at(r, box, 0), bands = r->config->frequencies;
    float band[64];
    for (int64_t i = 0; i < bands; i++) band[i] = (float)pow(TEMPERATURE, (double)i / (double)bands);
    kiln_t factor[] = {o->reshape(r->p, box, 4, KILN_DIMS(n, GLIGEN_BOXES, 1, COORDINATES)),
                       o->constant(r->p, band, 2, KILN_DIMS(bands, 1))};
    kiln_t phase = o->map(r->p, "a * b", factor, 2, NULL);
    kiln_t waves[] = {o->map(r->p, "sin(a)", &phase, 1, NULL), o->map(r->p, "cos(a)", &phase, 1, NULL)};
    return o->reshape(r->p, o->concat(r->p, waves, 2, 3), 3, KILN_DIMS(n, GLIGEN_BOXES, bands * 2 * COORDINATES));
}

/* x where there is a box (mask 1), else the learned vector of that name. */
static kiln_t or_nothing(const gligen_recorder *r, kiln_t x, kiln_t mask, const char *name)
{
    kiln_t nothing = vector(r, "position_net.", name, dim_at(r, x, 2));
    return r->ops->map(r->p, "a * b + (1 - b) * c", (kiln_t[]){x, mask, nothing}, 3, NULL);
}

kiln_t gligen_tokens(const gligen_recorder *r, kiln_t rows, int64_t height, int64_t width)
{
    const kiln_ops *o = r->ops;
    const gligen_config *c = r->config;
    o->precision_push(r->p, KILN_F32); /* the highest band turns a share of a cell into an angle of its own */
    kiln_t mask = o->slice(r->p, rows, 2, 0, 1), box = o->slice(r->p, rows, 2, 1, COORDINATES);
    kiln_t text = or_nothing(r, o->slice(r->p, rows, 2, GLIGEN_ROW, c->text), mask, "null_positive_feature");
    box = or_nothing(r, fourier(r, corners(r, box, height, width)), mask, "null_position_feature");
    kiln_t x = o->concat(r->p, (kiln_t[]){text, box}, 2, 2);
    x = o->act(r->p, linear(r, "position_net.", "linears.0", x, c->hidden, 1), KILN_ACT_SILU);
    x = o->act(r->p, linear(r, "position_net.", "linears.2", x, c->hidden, 1), KILN_ACT_SILU);
    x = linear(r, "position_net.", "linears.4", x, c->width, 1);
    o->precision_pop(r->p);
    return x;
}

/* ---- a layer ---- */

static kiln_t norm(const gligen_recorder *r, const char *base, const char *what, kiln_t x)
{
    char gamma[20], beta[20];
    int64_t n = dim_at(r, x, 2);
    snprintf(gamma, sizeof gamma, "%s.weight", what);
    snprintf(beta, sizeof beta, "%s.bias", what);
    return r->ops->layer_norm(r->p, x, EPS, vector(r, base, gamma, n), vector(r, base, beta, n));
}

static kiln_t gated(const gligen_recorder *r, const char *base, const char *gate, kiln_t x, kiln_t more)
{
    return r->ops->map(r->p, "a + tanh(c) * b", (kiln_t[]){x, more, vector(r, base, gate, 1)}, 3, NULL);
}

kiln_t gligen_layer(const gligen_recorder *r, size_t number, kiln_t x, kiln_t tokens)
{
    const kiln_ops *o = r->ops;
    int64_t t = dim_at(r, x, 1), c = dim_at(r, x, 2);
    char base[32];
    kiln_attention how = {.size = sizeof how, .heads = (int32_t)(r->config->width == SD1_TEXT ? SD1_HEADS : c / HEAD)};
    snprintf(base, sizeof base, "fuser.%zu.", number);
    o->scope_push(r->p, base);
    kiln_t both = o->concat(r->p, (kiln_t[]){x, linear(r, base, "linear", tokens, c, 1)}, 2, 1);
    both = norm(r, base, "norm1", both);
    kiln_t q = linear(r, base, "attn.to_q", o->slice(r->p, both, 1, 0, t), c, 0);
    kiln_t k = linear(r, base, "attn.to_k", both, c, 0), v = linear(r, base, "attn.to_v", both, c, 0);
    kiln_t h = linear(r, base, "attn.to_out.0", o->attention(r->p, q, k, v, &how), c, 1);
    x = gated(r, base, "alpha_attn", x, h);
    h = linear(r, base, "ff.net.0.proj", norm(r, base, "norm2", x), 8 * c, 1);
    x = gated(r, base, "alpha_dense", x, linear(r, base, "ff.net.2", o->geglu(r->p, h), c, 1));
    o->scope_pop(r->p);
    return x;
}
