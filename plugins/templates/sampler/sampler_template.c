/* my_plugin.c - a sampler: once this plugin is on the search path, KSampler's list has "my_plugin".
 *
 * It is Euler's method for dx/dsigma = (x - x0) / sigma (Karras et al. 2022, arXiv:2206.00364, section 3), to begin
 * with. The order it says is the order it is held to. */
#include "kiln/sampler.h"

static kiln_status run(const kiln_sampling *s)
{
    kiln_latent *guess = s->slot(s, "guess"); /* slots are kept in a saved state: what a step hands to the next */
    if (!guess) return KILN_ERR_NOMEM;
    for (size_t i = s->first; i < s->n; i++) {
        kiln_status status = s->denoise(s, s->x, s->sigma[i], guess); /* guess = x0, guidance and all */
        if (status) return status;
        double ratio = s->sigma[i + 1] / s->sigma[i];
        const double share[] = {ratio, 1 - ratio};
        kiln_latent *const part[] = {s->x, guess};
        s->lincomb(s, s->x, 2, share, part);                           /* x0 + (x - x0) next / sigma */
        if ((status = s->step(s, i, guess)) != KILN_OK) return status; /* progress, cancel, saved state */
    }
    return KILN_OK;
}

static const kiln_sampler sampler = {
    .size = sizeof sampler,
    .name = "my_plugin",
    .doc = "Euler's method.",
    .source = "Karras et al. 2022, arXiv:2206.00364",
    .order = 1,
    .evaluations = 1,
    .run = run,
};

static kiln_status open_plugin(const kiln_host *host)
{
    const kiln_sampler_api *samplers = (const kiln_sampler_api *)host->ability(KILN_SAMPLER_ABILITY);
    return samplers ? samplers->register_sampler(&sampler) : KILN_ERR_UNSUPPORTED;
}

KILN_PLUGIN_WITHOUT_NODES("org.example.my-plugin", "0.1.0", "MIT", open_plugin);
