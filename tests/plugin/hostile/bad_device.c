/* bad_device.c - samplers that are right on the host and wrong where latents are a device's: they reach for a latent's
 * memory behind kiln/latent.h, or keep what they need on the host. `kiln check-plugin --device` says what is in
 * test_check_device.sh. A latent looks as plugins/sampler/latent_space.h has it, which is nobody's to know.
 */
#include "kiln/kit.h"
#include "kiln/sampler.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    void *space;
    kiln_latent_shape shape;
    size_t more;
    float *data;
} seen;

enum { WELL, READS, WRITES, AGAIN, KEEPS, ONCE, FAILS };

/* NULL: a latent of check-plugin's own, which begins with the number of its pictures. */
static const seen *look(const kiln_latent *x)
{
    const seen *s = (const void *)x;
    return (uintptr_t)s->space < 4096 ? NULL : s;
}

static float first[4096]; /* x after the first step of any sampling in this process */
static int has_first, samplings;

/* Euler's method, and what is wrong with it. */
static kiln_status bad(const kiln_sampling *s, int way)
{
    const kiln_latents *l = s->latents;
    kiln_latent *d = s->slot(s, "guess");
    if (!d) return KILN_ERR_NOMEM;
    samplings += look(d) != NULL;
    float *mine = calloc(l->count(l, s->x), sizeof *mine);
    for (size_t i = s->first; mine && i < s->n; i++) {
        double ratio = s->sigma[i + 1] / s->sigma[i];
        kiln_status status = s->denoise(s, s->x, s->sigma[i], d);
        const seen *x = look(s->x);
        size_t n = l->count(l, d);
        if (status) return free(mine), status;
        if (way == KEEPS) l->download(l, d, mine), l->upload(l, d, mine);
        if (way == AGAIN && x && samplings > 1 && i == 3) *(volatile float *)(uintptr_t)8 = 0; /* as a GPU's address */
        s->lincomb(s, s->x, 2, (double[]){ratio, 1 - ratio}, (kiln_latent *[]){s->x, d});
        if (way == READS && x && i > 4) { /* the same sum, from what lies there now */
            memcpy(mine, x->data, n * sizeof *mine);
            l->upload(l, s->x, mine);
        }
        if (way == WRITES && x)
            for (size_t k = 0; k < n; k++) x->data[k] = x->data[k] > 2 ? 2 : x->data[k];
        if (way == ONCE && n <= 4096 && x) {
            if (!has_first) l->download(l, s->x, first), has_first = 1;
            if (i == 6 && samplings > 1) l->upload(l, s->x, first);
        }
        if (way == FAILS && x && samplings > 1 && i == 2)
            return free(mine), s->fail(s, KILN_ERR_INVALID, "this sampler has been used before");
        if ((status = s->step(s, i, d))) return free(mine), status;
    }
    free(mine);
    return mine ? KILN_OK : KILN_ERR_NOMEM;
}

#define WAY(name_, way)                                                                                                \
    static kiln_status run_##name_(const kiln_sampling *s) { return bad(s, way); }                                     \
    static const kiln_sampler name_ = {.size = sizeof(kiln_sampler),                                                   \
                                       .name = "device_" #name_,                                                       \
                                       .doc = "Euler's method.",                                                       \
                                       .order = 1,                                                                     \
                                       .evaluations = 1,                                                               \
                                       .run = run_##name_};
WAY(good, WELL)
WAY(reads, READS)
WAY(writes, WRITES)
WAY(again, AGAIN)
WAY(keeps, KEEPS)
WAY(once, ONCE)
WAY(fails, FAILS)

static kiln_status open_plugin(const kiln_host *host)
{
    static const kiln_sampler *const rows[] = {&good,
#ifndef ONLY_GOOD
                                               &reads, &writes, &again, &keeps,
                                               &once,  &fails
#endif
    };
    const kiln_sampler_api *api = host->ability(KILN_SAMPLER_ABILITY);
    for (size_t i = 0; api && i < sizeof rows / sizeof *rows; i++) TRY(api->register_sampler(rows[i]));
    return KILN_OK;
}

KILN_PLUGIN_WITHOUT_NODES("org.example.bad-device", "1.0.0", "MIT", open_plugin);
