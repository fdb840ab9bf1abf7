/* latents_kit.h - kiln_latents over plain arrays, for guidance without a sampling: one shape, sums in double.
 */
#ifndef TESTS_MODEL_PATCH_LATENTS_KIT_H
#define TESTS_MODEL_PATCH_LATENTS_KIT_H

#include "golden_kit.h"
#include "kiln/denoiser.h"

enum { KIT_NUMBERS_MAX = 1024 };

struct kiln_latent {
    float v[KIT_NUMBERS_MAX];
};

static kiln_latent_shape kit_shape;
static size_t kit_more; /* numbers of a further stream */

static size_t kit_own(void) { return (size_t)(kit_shape.height * kit_shape.width * kit_shape.channels); }
static size_t kit_numbers(void) { return (size_t)kit_shape.pictures * kit_own(); }

static kiln_latent_shape latents_shape(const kiln_latents *l, const kiln_latent *x)
{
    return (void)l, (void)x, kit_shape;
}

static void latents_lincomb_each(const kiln_latents *l, kiln_latent *out, size_t n, const double *c,
                                 kiln_latent *const *x)
{
    (void)l;
    for (size_t i = 0; i < kit_numbers(); i++) {
        double sum = 0;
        for (size_t k = 0; k < n; k++) sum += c[i / kit_own() * n + k] * (double)x[k]->v[i];
        out->v[i] = (float)sum;
    }
}

static void latents_lincomb(const kiln_latents *l, kiln_latent *out, size_t n, const double *c, kiln_latent *const *x)
{
    (void)l;
    for (size_t i = 0; i < kit_numbers(); i++) {
        double sum = 0;
        for (size_t k = 0; k < n; k++) sum += c[k] * (double)x[k]->v[i];
        out->v[i] = (float)sum;
    }
}

static void latents_add_difference(const kiln_latents *l, kiln_latent *out, const kiln_latent *x, double t,
                                   const kiln_latent *a, const kiln_latent *b)
{
    (void)l;
    for (size_t i = 0; i < kit_numbers(); i++)
        out->v[i] = (float)((double)x->v[i] + t * ((double)a->v[i] - (double)b->v[i]));
}

static void latents_dot(const kiln_latents *l, const kiln_latent_dot *d, double *out)
{
    (void)l;
    memset(out, 0, (size_t)kit_shape.pictures * sizeof *out);
    for (size_t i = 0; i < kit_numbers(); i++) {
        double a = 0, b = 0;
        for (size_t k = 0; k < d->n; k++) a += d->a[k] * (double)d->x[k]->v[i], b += d->b[k] * (double)d->x[k]->v[i];
        out[i / kit_own()] += a * b;
    }
}

static void latents_download(const kiln_latents *l, const kiln_latent *x, float *data)
{
    (void)l;
    memcpy(data, x->v, kit_numbers() * sizeof *data);
}

static void latents_upload(const kiln_latents *l, kiln_latent *x, const float *data)
{
    (void)l;
    memcpy(x->v, data, kit_numbers() * sizeof *data);
}

static size_t latents_count(const kiln_latents *l, const kiln_latent *x)
{
    return (void)l, (void)x, kit_numbers() + kit_more;
}

static const kiln_latents kit_latents = {.size = sizeof kit_latents,
                                         .shape = latents_shape,
                                         .lincomb = latents_lincomb,
                                         .lincomb_each = latents_lincomb_each,
                                         .add_difference = latents_add_difference,
                                         .dot = latents_dot,
                                         .upload = latents_upload,
                                         .download = latents_download,
                                         .count = latents_count};

/* A golden of that name as a latent; its shape is the kit's from then on. */
static inline void latent_read(const kiln_weights *w, const char *name, kiln_latent *x)
{
    array a = golden(w, "%s", name);
    if (!CHECK_MSG(a.data && a.n <= KIT_NUMBERS_MAX && a.rank == 4, "%s is no golden latent", name)) return;
    kit_shape = (kiln_latent_shape){a.dim[0], 1, a.dim[1], a.dim[2], a.dim[3], 4};
    memcpy(x->v, a.data, a.n * sizeof *x->v);
    free(a.data);
}

static inline void latent_check(const kiln_weights *w, const char *name, const kiln_latent *x, double tolerance)
{
    array a = golden(w, "%s", name);
    if (CHECK_MSG(a.data != NULL, "%s: not in the golden", name))
        check_array(x->v, a.data, a.n, tolerance, name, __FILE__, __LINE__);
    free(a.data);
}

#endif
