/* smoothed_energy.c - see smoothed_energy.h. Blurring queries is linear along rows and along columns: a product with a
 * small constant each. As many cells as a side has (one more or less, so that there is a middle) are seen at most. */
#include "smoothed_energy.h"

#include "program_math.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* What a MODEL's patch is, and more. */
typedef struct {
    model_patch patch;
    smoothed_energy_settings by;
} seg_patch;

/* Where cell i is found when the side is mirrored at its ends. */
static int64_t mirrored(int64_t i, int64_t n)
{
    int64_t round = n > 1 ? 2 * (n - 1) : 1;
    i = (i % round + round) % round;
    return i < n ? i : round - i;
}

/* The blur of a side of n cells as a matrix; the caller frees it. `rows`: of the picture, which limit the kernel. */
static float *blur_matrix(int64_t n, int64_t rows, double sigma)
{
    float *out = calloc((size_t)(n * n), sizeof *out);
    int64_t wide = (int64_t)ceil(6 * sigma), most = rows - (rows % 2 - 1), size = wide + 1 - wide % 2;
    double sum = 0;
    if (size > most) size = most;
    for (int64_t k = 0; k < size; k++) sum += exp(-0.5 * pow(((double)k - (double)(size - 1) / 2) / sigma, 2));
    for (int64_t i = 0; out && i < n; i++)
        for (int64_t k = 0; k < size; k++)
            out[i * n + mirrored(i + k - size / 2, n)] +=
                (float)(exp(-0.5 * pow(((double)k - (double)(size - 1) / 2) / sigma, 2)) / sum);
    return out;
}

static float *mean_matrix(int64_t n)
{
    float *out = calloc((size_t)(n * n), sizeof *out);
    for (int64_t i = 0; out && i < n * n; i++) out[i] = 1 / (float)n;
    return out;
}

/* The last dimension of x, a side of n cells. */
static kiln_t blur_last(const kiln_recording *r, kiln_t x, int64_t n, int64_t rows, double sigma)
{
    float *by = sigma < 0 ? mean_matrix(n) : blur_matrix(n, rows, sigma);
    if (!by) return r->ops->fail(r->program, "out of memory");
    x = program_product(r, x, by, n, n);
    free(by);
    return x;
}

static void blur_queries(const kiln_hook *h, const kiln_recording *r, kiln_attention_info *a)
{
    const kiln_ops *o = r->ops;
    const smoothed_energy_settings *by = &((const seg_patch *)h->self)->by;
    int64_t n = program_dim(r, a->q, 0), tokens = program_dim(r, a->q, 1), width = program_dim(r, a->q, 2),
            rows = a->grid[1], columns = a->grid[2];
    if (!unet_blocks_have(&by->blocks, a->place)) return;
    if (a->grid[0] > 1 || rows * columns != tokens) {
        o->fail(r->program,
                "SmoothedEnergyGuidanceAdvanced blurs the cells of a picture, and '%s' attends to something "
                "else",
                a->place);
        return;
    }
    kiln_t q = o->reshape(r->program, a->q, 4, KILN_DIMS(n, rows, columns, width));
    q = blur_last(r, o->permute(r->program, q, (const uint32_t[]){0, 1, 3, 2}), columns, rows, by->blur_sigma);
    q = blur_last(r, o->permute(r->program, q, (const uint32_t[]){0, 2, 3, 1}), rows, rows, by->blur_sigma);
    a->q = o->reshape(r->program, o->permute(r->program, q, (const uint32_t[]){0, 3, 2, 1}), 3,
                      KILN_DIMS(n, tokens, width));
}

static kiln_status apply_seg(void *self, const kiln_guesses *g)
{
    const seg_patch *p = self;
    const kiln_hook *hooks[] = {&p->patch.hook[PATCH_HOOKS_MAX - 1]};
    kiln_further_guess asked = {.size = sizeof asked, .hook = hooks, .n_hook = 1};
    kiln_latent *smoothed;
    if (!(p->by.sigma_end < g->sigma) || (p->by.sigma_start >= 0 && g->sigma > p->by.sigma_start)) return KILN_OK;
    TRY(g->evaluate(g, &asked, &smoothed));
    return perturbed_guidance(&p->by.added, g, smoothed);
}

model_patch *smoothed_energy_new(const smoothed_energy_settings *s)
{
    const double number[] = {s->added.scale, s->blur_sigma,    s->sigma_start,
                             s->sigma_end,   s->added.rescale, s->added.mode};
    model_patch *p = model_patch_sized(sizeof(seg_patch), "SmoothedEnergyGuidanceAdvanced", number, COUNT(number));
    char blocks[UNET_BLOCKS_TEXT];
    if (!p) return NULL;
    ((seg_patch *)(void *)p)->by = *s;
    unet_blocks_print(&s->blocks, blocks);
    size_t n = strlen(p->identity);
    snprintf(p->identity + n, sizeof p->identity - n, "/%s", blocks);
    p->hook[PATCH_HOOKS_MAX - 1] =
        (kiln_hook){.size = sizeof(kiln_hook), .self = p, .identity = p->identity, .before_attention = blur_queries};
    model_patch_guidance(p, s->added.mode == RESCALE_SNF ? KILN_GUIDANCE_UNCONDITIONAL : 0, apply_seg);
    return p;
}
