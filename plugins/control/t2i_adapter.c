/* t2i_adapter.c - see t2i_adapter.h.
 *
 *   h = unshuffled hint, through conv_in unless the adapter is light
 *   each level: half the size (but the first), in_conv, resnets, out_conv of a light one -> a result
 *
 * A level's result is added where the level's last resnet (with attention) of the UNet ends, to the block and so to its
 * skip too. SDXL's first comes behind a downsample, and its last behind the middle. Neither x nor the timestep is
 * looked at: kiln computes the features once and keeps them from step to step.
 */
#include "t2i_adapter.h"

#include "kiln/kit.h"
#include "kiln/resize.h"

#include <stdio.h>

typedef struct {
    const t2i_config *config;
    const kiln_ops *ops;
    kiln_program *p;
    kiln_weights *w;
} recorder;

static int64_t dim(const recorder *r, kiln_t x, uint32_t i)
{
    int64_t all[KILN_MAX_RANK] = {0};
    return i < r->ops->shape(r->p, x, all, KILN_MAX_RANK) ? all[i] : 0;
}

static kiln_t conv(const recorder *r, const char *name, kiln_t x, int64_t out, int64_t kernel, int32_t stride)
{
    char full[100];
    int32_t pad = (int32_t)kernel / 2;
    kiln_conv2d options = {.size = sizeof options, .stride = {stride, stride}, .pad = {pad, pad, pad, pad}};
    snprintf(full, sizeof full, "%s.weight", name);
    kiln_t w = r->ops->weight(r->p, r->w, full, 4, KILN_DIMS(out, dim(r, x, 3), kernel, kernel));
    snprintf(full, sizeof full, "%s.bias", name);
    return r->ops->conv2d(r->p, x, w, r->ops->weight(r->p, r->w, full, 1, &out), &options);
}

/* ---- the hint ---- */

/* A few more rows (columns): the nearest ones once more, as ComfyUI scales a hint to what an adapter divides. */
static kiln_t stretched(const recorder *r, kiln_t x, uint32_t axis, int64_t to)
{
    enum { PARTS_MAX = 64 };
    kiln_t part[PARTS_MAX];
    uint32_t n = 0;
    int64_t from = dim(r, x, axis), first = 0;
    if (to == from) return x;
    for (int64_t i = 1; i <= to && n < PARTS_MAX; i++) {
        int64_t last = resize_nearest(i - 1, from, to);
        if (i < to && resize_nearest(i, from, to) == last + 1) continue;
        part[n++] = r->ops->slice(r->p, x, axis, first, last + 1 - first);
        first = i < to ? resize_nearest(i, from, to) : 0;
    }
    return r->ops->concat(r->p, part, n, axis);
}

/* [N,H*f,W*f,C] -> [N,H,W,C*f*f], channels as torch's PixelUnshuffle orders them: colour, row, column. */
static kiln_t unshuffle(const recorder *r, kiln_t x)
{
    int64_t f = r->config->factor, n = dim(r, x, 0), h = (dim(r, x, 1) + f - 1) / f, w = (dim(r, x, 2) + f - 1) / f,
            c = dim(r, x, 3);
    x = stretched(r, stretched(r, x, 1, h * f), 2, w * f);
    x = r->ops->reshape(r->p, x, 6, KILN_DIMS(n, h, f, w, f, c));
    x = r->ops->permute(r->p, x, (const uint32_t[]){0, 1, 3, 5, 2, 4});
    return r->ops->reshape(r->p, x, 4, KILN_DIMS(n, h, w, c * f * f));
}

/* ---- levels ---- */

/* An odd length gets its last row (column) once more: the mean over what is there, as torch's ceil_mode has it. */
static kiln_t make_even(const recorder *r, kiln_t x, uint32_t axis)
{
    int64_t n = dim(r, x, axis);
    if (n % 2 == 0) return x;
    return r->ops->concat(r->p, (kiln_t[]){x, r->ops->slice(r->p, x, axis, n - 1, 1)}, 2, axis);
}

/* The mean of each 2x2 cells. */
static kiln_t average_pool(const recorder *r, kiln_t x)
{
    x = make_even(r, make_even(r, x, 1), 2);
    int64_t n = dim(r, x, 0), h = dim(r, x, 1) / 2, w = dim(r, x, 2) / 2, c = dim(r, x, 3);
    x = r->ops->reshape(r->p, x, 4, KILN_DIMS(n * h, 2, w, 2 * c)); /* pairs of rows; pairs of columns as channels */
    x = r->ops->add(r->p, r->ops->slice(r->p, x, 1, 0, 1), r->ops->slice(r->p, x, 1, 1, 1));
    x = r->ops->add(r->p, r->ops->slice(r->p, x, 3, 0, c), r->ops->slice(r->p, x, 3, c, c));
    return r->ops->reshape(r->p, r->ops->affine(r->p, x, 0.25f, 0), 4, KILN_DIMS(n, h, w, c));
}

static int is_halved(const t2i_config *c, uint32_t level) { return c->kind == T2I_FULL_XL ? level == 2 : level > 0; }

static kiln_t record_level(const recorder *r, kiln_t x, uint32_t level)
{
    const t2i_config *c = r->config;
    char name[80];
    snprintf(name, sizeof name, "body.%u.down_opt.op", level);
    if (is_halved(c, level)) x = c->down_conv ? conv(r, name, x, dim(r, x, 3), 3, 2) : average_pool(r, x);
    snprintf(name, sizeof name, "body.%u.in_conv", level);
    if (c->in_kernel[level]) x = conv(r, name, x, c->inner[level], c->in_kernel[level], 1);
    for (uint32_t i = 0; i < c->resnets; i++) {
        snprintf(name, sizeof name, "body.%u.resnets.%u.block1", level, i);
        kiln_t h = r->ops->act(r->p, conv(r, name, x, c->inner[level], 3, 1), KILN_ACT_RELU);
        snprintf(name, sizeof name, "body.%u.resnets.%u.block2", level, i);
        x = r->ops->add(r->p, conv(r, name, h, c->inner[level], c->out_kernel, 1), x);
    }
    snprintf(name, sizeof name, "body.%u.out_conv", level);
    return c->kind == T2I_LIGHT ? conv(r, name, x, c->channels[level], 1, 1) : x;
}

static void name_place(const t2i_config *c, uint32_t level, char place[24])
{
    static const char *const xl[] = {"input.3", "input.5", "input.8", "middle"};
    if (c->kind == T2I_FULL_XL)
        snprintf(place, 24, "%s", level < COUNT(xl) ? xl[level] : "?");
    else
        snprintf(place, 24, "input.%u", c->unet_layers + level * (c->unet_layers + 1)); /* a downsample counts too */
}

void t2i_record(const t2i_config *c, const kiln_ops *ops, kiln_program *p, kiln_weights *w, kiln_t hint,
                const kiln_outputs *out)
{
    recorder r = {c, ops, p, w};
    char place[24];
    kiln_t h = unshuffle(&r, hint);
    if (c->kind != T2I_LIGHT) h = conv(&r, "conv_in", h, c->channels[0], 3, 1);
    for (uint32_t i = 0; i < c->levels; i++) {
        h = record_level(&r, h, i);
        name_place(c, i, place);
        out->add(out, place, h);
    }
}
