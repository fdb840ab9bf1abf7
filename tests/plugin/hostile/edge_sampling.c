/* edge_sampling.c - samplers at the edge of what kiln/sampler.h lets them do: many numbers kept across steps, a long
 * sampling that is refused with a sentence or without one, and one that is gone at its first step. What `kiln
 * check-plugin` has to say of each is in test_check_sampling_edges.sh.
 */
#include "kiln/kit.h"
#include "kiln/sampler.h"

#include <stdlib.h>

enum { MANY_NUMBERS, REFUSES_LONG, SILENT_WHEN_LONG, GONE, WAYS };

static kiln_status euler(const kiln_sampling *s, int way)
{
    kiln_latent *d = s->slot(s, "guess");
    double *kept = s->scalars(s, "kept", way == MANY_NUMBERS ? 64 : 1);
    if (!d || !kept) return KILN_ERR_NOMEM;
    if (way == GONE) abort();
    if (way == REFUSES_LONG && s->n > 100) return s->fail(s, KILN_ERR_UNSUPPORTED, "at most 100 steps");
    if (way == SILENT_WHEN_LONG && s->n > 100) return KILN_ERR_UNSUPPORTED;
    for (size_t i = s->first; i < s->n; i++) {
        TRY(s->denoise(s, s->x, s->sigma[i], d));
        double a = (s->sigma[i + 1] - s->sigma[i]) / s->sigma[i];
        s->lincomb(s, s->x, 2, (double[]){1 + a, -a}, (kiln_latent *[]){s->x, d});
        for (int k = 0; way == MANY_NUMBERS && k < 64; k++) kept[k] = s->sigma[i];
        TRY(s->step(s, i, d));
    }
    return KILN_OK;
}

static kiln_status many_numbers(const kiln_sampling *s) { return euler(s, MANY_NUMBERS); }
static kiln_status refuses_long(const kiln_sampling *s) { return euler(s, REFUSES_LONG); }
static kiln_status silent_when_long(const kiln_sampling *s) { return euler(s, SILENT_WHEN_LONG); }
static kiln_status gone(const kiln_sampling *s) { return euler(s, GONE); }

static const kiln_sampler row[WAYS] = {
    {sizeof(kiln_sampler), 0, "edge_many_numbers", "Euler's method.", "k-diffusion", 1, 1, .run = many_numbers},
    {sizeof(kiln_sampler), 0, "edge_refuses_long", "Euler's method.", "k-diffusion", 1, 1, .run = refuses_long},
    {sizeof(kiln_sampler), 0, "edge_silent_when_long", "Euler's method.", "k-diffusion", 1, 1, .run = silent_when_long},
    {sizeof(kiln_sampler), 0, "edge_gone", "Euler's method.", "k-diffusion", 1, 1, .run = gone},
};

static kiln_status open_plugin(const kiln_host *h)
{
    const kiln_sampler_api *api = h->ability(KILN_SAMPLER_ABILITY);
    if (!api) return KILN_ERR_UNSUPPORTED;
#ifdef ONLY
    return api->register_sampler(&row[ONLY]);
#else
    for (int i = 0; i < WAYS; i++) TRY(api->register_sampler(&row[i]));
    return KILN_OK;
#endif
}
KILN_PLUGIN_WITHOUT_NODES("org.example.edge-sampling", "1.0.0", "MIT", open_plugin);
