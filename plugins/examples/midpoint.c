/* midpoint.c - a sampler from outside the tree: once this plugin is on the search path, KSampler's list has
 * "example_midpoint". Shows: registering a row, denoise, lincomb, slots.
 *
 * The explicit midpoint rule for dx/dsigma = (x - x0) / sigma in log sigma: half a step to sqrt(sigma * next), then the
 * whole step with the slope found there (Karras et al. 2022, section 3, with alpha = 1/2; the same as DPM-Solver-2).
 */
#include "kiln/sampler.h"

#include <math.h>
#include <stddef.h>

static kiln_status midpoint(const kiln_sampling *s)
{
    kiln_latent *d = s->slot(s, "midpoint.denoised"), *half = s->slot(s, "midpoint.half");
    if (!d || !half) return KILN_ERR_NOMEM;
    for (size_t i = s->first; i < s->n; i++) {
        double now = s->sigma[i], next = s->sigma[i + 1], middle = sqrt(now * next);
        kiln_status status = s->denoise(s, s->x, now, d);
        if (status) return status;
        if (next == 0) { /* the last step: an Euler step to sigma 0 gives the denoised latent itself */
            s->lincomb(s, s->x, 1, (double[]){1}, (kiln_latent *[]){d});
        } else {
            double a = (middle - now) / now, b = (next - now) / middle;
            s->lincomb(s, half, 2, (double[]){1 + a, -a}, (kiln_latent *[]){s->x, d});
            if ((status = s->denoise(s, half, middle, d))) return status;
            s->lincomb(s, s->x, 3, (double[]){1, b, -b}, (kiln_latent *[]){s->x, half, d});
        }
        if ((status = s->step(s, i, d))) return status;
    }
    return KILN_OK;
}

static const kiln_sampler row = {
    .size = sizeof row,
    .name = "example_midpoint",
    .doc = "The midpoint rule in log sigma.",
    .source = "Karras et al. 2022, arXiv:2206.00364",
    .order = 2,
    .evaluations = 2,
    .run = midpoint,
};

static kiln_status open_plugin(const kiln_host *host)
{
    const kiln_sampler_api *samplers = host->ability(KILN_SAMPLER_ABILITY);
    return samplers ? samplers->register_sampler(&row) : KILN_ERR_UNSUPPORTED;
}

extern KILN_EXPORT const kiln_plugin kiln_plugin_v1;
const kiln_plugin kiln_plugin_v1 = {
    .magic = KILN_MAGIC,
    .size = sizeof(kiln_plugin),
    .abi_major = KILN_ABI_MAJOR,
    .abi_minor = KILN_ABI_MINOR,
    .id = "org.example.midpoint",
    .version = "1.0.0",
    .license = "MIT",
    .open = open_plugin,
};
