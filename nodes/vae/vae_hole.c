/* vae_hole.c - see vae_hole.h. */
#include "vae_hole.h"

#include "kiln/kit.h"
#include "kiln/resize.h"

kiln_status vae_hole_mask(const kiln_call *c, const kiln_tensor *mask, const kiln_tensor *image, float **out)
{
    int64_t h = image->dim[1], w = image->dim[2];
    if (kit_count(mask) == 0 || (mask->dim[0] != 1 && mask->dim[0] != image->dim[0]))
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "%lld masks for %lld pictures; give one, or one for each",
                             (long long)mask->dim[0], (long long)image->dim[0]);
    *out = c->host->scratch(c->ctx, (size_t)(mask->dim[0] * h * w) * sizeof **out, KILN_CPU);
    if (!*out) return KILN_ERR_NOMEM;
    for (int64_t i = 0; i < mask->dim[0] && !kit_estimating(c); i++) {
        resize_source plane = {.data = (const float *)mask->data + i * mask->dim[1] * mask->dim[2],
                               .h = mask->dim[1],
                               .w = mask->dim[2],
                               .c = 1,
                               .row = mask->dim[2]};
        resize_plane(plane, *out + i * h * w, h, w, RESIZE_BILINEAR);
    }
    return KILN_OK;
}

/* Halves to even, as torch rounds. */
void vae_hole_round(const kiln_call *c, float *scaled, const kiln_tensor *mask, const kiln_tensor *image)
{
    int64_t n = kit_estimating(c) ? 0 : mask->dim[0] * image->dim[1] * image->dim[2];
    for (int64_t i = 0; i < n; i++) scaled[i] = rintf(scaled[i]);
}

kiln_status vae_hollow(const kiln_call *c, const kiln_tensor *image, const float *mask, int64_t masks,
                       kiln_tensor *made)
{
    int64_t cells = image->dim[1] * image->dim[2], channels = image->dim[3];
    float *data = c->host->scratch(c->ctx, kit_count(image) * sizeof *data, KILN_CPU);
    if (!data) return KILN_ERR_NOMEM;
    *made = *image;
    made->data = data;
    for (int64_t i = 0; i < image->dim[0] * cells && !kit_estimating(c); i++) {
        float keep = 1 - mask[i / cells % masks * cells + i % cells];
        const float *from = (const float *)image->data + i * channels;
        for (int64_t k = 0; k < channels; k++)
            data[i * channels + k] = k < 3 ? (from[k] - 0.5f) * keep + 0.5f : from[k];
    }
    return KILN_OK;
}
