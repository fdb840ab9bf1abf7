/* self_attention_guidance.c - see self_attention_guidance.h.
 *
 * A cell is salient where the middle block attends to it more than to the mean: where its column of the negative
 * prompt's attention map, over all heads, sums up to more than 1. No op gives a map; attention to the columns of a unit
 * matrix does, as many columns at once as a head is wide. The blur is done on the host.
 */
#include "self_attention_guidance.h"

#include "program_math.h"

#include <math.h>
#include <stdlib.h>

enum { SCALE, BLUR, KERNEL = 9, HALF = KERNEL / 2 };

/* ---- in the network: what is attended to ---- */

/* Columns [first, first + D) of a unit matrix of T rows, for each of `heads` heads: [N,T,heads*D]. */
static kiln_t unit_columns(const kiln_recording *r, const kiln_attention_info *a, int64_t first)
{
    const kiln_ops *o = r->ops;
    int64_t tokens = program_dim(r, a->k, 1), width = program_dim(r, a->k, 2), d = width / a->heads;
    float *unit = calloc((size_t)(tokens * width), sizeof *unit);
    if (!unit) return o->fail(r->program, "out of memory");
    for (int64_t k = 0; k < d && first + k < tokens; k++)
        for (int32_t h = 0; h < a->heads; h++) unit[(first + k) * width + h * d + k] = 1;
    kiln_t one = o->constant(r->program, unit, 3, KILN_DIMS(1, tokens, width));
    free(unit);
    return o->add(r->program, o->affine(r->program, a->k, 0, 0), one); /* for each picture */
}

/* x [N,T,C] -> [N,1,C]: the sum over T. */
static kiln_t sum_rows(const kiln_recording *r, kiln_t x)
{
    const kiln_ops *o = r->ops;
    int64_t rows = program_dim(r, x, 1);
    kiln_t turned = o->permute(r->program, x, (const uint32_t[]){0, 2, 1});
    kiln_t mean = program_mean(r, turned);
    return o->permute(r->program, o->affine(r->program, mean, (float)rows, 0), (const uint32_t[]){0, 2, 1});
}

/* Of keys [first, first + D): how much is attended to each, over all queries, mean over heads: [N,D,1]. */
static kiln_t attended(const kiln_recording *r, const kiln_attention_info *a, int64_t first)
{
    const kiln_ops *o = r->ops;
    int64_t n = program_dim(r, a->k, 0), d = program_dim(r, a->k, 2) / a->heads;
    kiln_attention options = kiln_attention_options(a);
    kiln_t map = o->attention(r->program, a->q, a->k, unit_columns(r, a, first), &options);
    kiln_t by_head = o->reshape(r->program, sum_rows(r, map), 3, KILN_DIMS(n, a->heads, d));
    return program_mean(r, o->permute(r->program, by_head, (const uint32_t[]){0, 2, 1}));
}

static void at_middle(const kiln_hook *h, const kiln_recording *r, kiln_attention_info *a)
{
    const kiln_ops *o = r->ops;
    enum { PARTS = 64 };
    int64_t n = program_dim(r, a->k, 0), tokens = program_dim(r, a->k, 1), d = program_dim(r, a->k, 2) / a->heads;
    int64_t dim[KILN_MAX_RANK] = {0};
    kiln_t part[PARTS];
    uint32_t parts = 0, rank = o->shape(r->program, r->in->x, dim, KILN_MAX_RANK);
    if (rank != 4 || a->grid[0] > 1 || a->grid[1] * a->grid[2] != tokens || tokens > PARTS * d) {
        o->fail(r->program,
                "SelfAttentionGuidance wants the middle block's attention over the cells of pictures, at "
                "most %lld of them; '%s' has %lld tokens",
                (long long)(PARTS * d), a->place, (long long)tokens);
        return;
    }
    if (!attention_is_plain(r, a, "SelfAttentionGuidance")) return;
    for (int64_t first = 0; first < tokens; first += d) part[parts++] = attended(r, a, first);
    kiln_t all = o->slice(r->program, o->concat(r->program, part, parts, 1), 1, 0, tokens);
    all = o->reshape(r->program, all, 4, KILN_DIMS(n, a->grid[1], a->grid[2], 1));
    kiln_hook_output(h, r, "attended", o->upsample_nearest(r->program, all, dim[1], dim[2]));
}

/* ---- the blur ---- */

static int64_t reflected(int64_t i, int64_t n) { return i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i; }

static void fill_kernel(double sigma, float kernel[KERNEL])
{
    double sum = 0;
    for (int i = 0; i < KERNEL; i++) sum += exp(-0.5 * (i - HALF) * (i - HALF) / (sigma * sigma));
    for (int i = 0; i < KERNEL; i++) kernel[i] = (float)(exp(-0.5 * (i - HALF) * (i - HALF) / (sigma * sigma)) / sum);
}

static float blurred(const float *plane, const kiln_latent_shape *s, int64_t y, int64_t x, const float *kernel)
{
    double sum = 0;
    for (int i = 0; i < KERNEL; i++)
        for (int k = 0; k < KERNEL; k++) {
            int64_t at = reflected(y + i - HALF, s->height) * s->width + reflected(x + k - HALF, s->width);
            sum += (double)kernel[i] * (double)kernel[k] * (double)plane[at * s->channels];
        }
    return (float)sum;
}

/* out = guess, blurred where more than its share is attended to. */
static void blur_salient(const kiln_latent_shape *s, double sigma, const float *guess, const float *attended_to,
                         float *out)
{
    float kernel[KERNEL];
    int64_t plane = s->height * s->width;
    fill_kernel(sigma, kernel);
    for (int64_t i = 0; i < s->pictures * plane; i++)
        for (int64_t c = 0; c < s->channels; c++) {
            const float *of = guess + i / plane * plane * s->channels + c;
            out[i * s->channels + c] = attended_to[i] > 1
                                           ? blurred(of, s, i % plane / s->width, i % plane % s->width, kernel)
                                           : guess[i * s->channels + c];
        }
}

/* ---- guidance ---- */

/* x0 += scale (degraded - guess of x with what is blurred in the negative guess), in host memory of four latents. */
static kiln_status guide(const model_patch *p, const kiln_guesses *g, kiln_latent *attended_to, float *memory)
{
    const kiln_latents *l = g->latents;
    kiln_latent_shape s = l->shape(l, g->x);
    size_t n = l->count(l, g->x);
    float *negative = memory, *degraded = memory + n, *x0 = memory + 2 * n, *work = memory + 3 * n;
    kiln_further_guess asked = {.size = sizeof asked, .unconditional = 1, .x = g->x0};
    kiln_latent *other;
    l->download(l, g->negative, negative), l->download(l, attended_to, work), l->download(l, g->x0, x0);
    blur_salient(&s, p->number[BLUR], negative, work, degraded);
    l->download(l, g->x, work);
    for (size_t i = 0; i < n; i++) work[i] = degraded[i] + work[i] - negative[i];
    l->upload(l, g->x0, work); /* x0 has room for a latent until it is written */
    TRY(g->evaluate(g, &asked, &other));
    l->download(l, other, work);
    for (size_t i = 0; i < n; i++) x0[i] += (degraded[i] - work[i]) * (float)p->number[SCALE];
    l->upload(l, g->x0, x0);
    return KILN_OK;
}

static kiln_status apply_sag(void *self, const kiln_guesses *g)
{
    const model_patch *p = self;
    const kiln_latents *l = g->latents;
    kiln_latent_shape s = l->shape(l, g->x);
    kiln_latent *attended_to;
    if (s.height <= HALF || s.width <= HALF) return KILN_OK; /* a kernel does not fit, as in ComfyUI */
    TRY(g->output(g, &p->hook[0], "attended", 1, &attended_to));
    float *memory = calloc(4 * l->count(l, g->x), sizeof *memory);
    kiln_status status = memory ? guide(p, g, attended_to, memory) : KILN_ERR_NOMEM;
    free(memory);
    return status;
}

model_patch *sag_new(double scale, double blur_sigma)
{
    static const char *const gives[] = {"attended", NULL};
    model_patch *p = model_patch_new("SelfAttentionGuidance", (double[]){scale, blur_sigma}, 2);
    if (!p) return NULL;
    kiln_hook *h = model_patch_hook(p, "middle.*.attn1");
    h->before_attention = at_middle, h->output = gives;
    model_patch_guidance(p, KILN_GUIDANCE_UNCONDITIONAL, apply_sag);
    return p;
}
