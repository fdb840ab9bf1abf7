/* bad_guider.c - kinds of GUIDER that each break the contract of kiln/sampling.h in one way, beside one that does not
 * ("good"): what `kiln check-plugin` has to say of each is in test_check_guiders.sh. The last one looks into a latent
 * as engine/cli/sample_latents.h has it, which is nobody's to know.
 */
#include "kiln/kit.h"
#include "kiln/sampling.h"

#include <math.h>
#include <stdlib.h>

typedef struct {
    double cfg, high;
} settings;
static const kiln_param setting[] = {
    KIT_FLOAT(settings, cfg, 4, 0, 20, 0.1, "Scale of the guidance."),
    KIT_FLOAT(settings, high, 5, 0, 1000, 0.1, "Above this level the negative does not count."),
};

/* clang-format off */
#define WAYS(X) \
    X(good) X(wants_nothing) X(wants_unlisted) X(wants_changes) X(takes_unasked) X(counts_unasked) X(writes_guess) X(writes_x) \
    X(keeps_history) X(reads_out) X(leaves_rest) X(option_divides) X(deaf_to_guided) X(deaf_to_patch) X(deaf_to_memory) \
    X(refuses_ends) X(beyond_settings) X(writes_settings) X(shares) X(first_picture) X(whole_only) X(keeps_step) X(first_level) \
    X(aborts) X(exits) X(without_doc) X(writes_behind)
/* clang-format on */
#define NAME(way) WAY_##way,
enum { WAYS(NAME) WAY_COUNT };
enum { POSITIVE, NEGATIVE };

static double history, top, scale; /* where no other sampling may find them */
static int counter;

static double scale_at(const settings *p, double sigma) { return sigma <= p->high ? p->cfg : 1; }

static uint32_t wants(const void *params, double sigma, int way)
{
    const uint32_t both = 1u << POSITIVE | 1u << NEGATIVE;
    if (way == WAY_wants_nothing && sigma < 0.3) return 0;
    if (way == WAY_wants_unlisted) return both | 1u << 5;
    if (way == WAY_wants_changes) return ++counter % 3 ? both : 1u << POSITIVE;
    return scale_at(params, sigma) == 1 ? 1u << POSITIVE : both;
}

static kiln_status combine(const kiln_guider_step *g, kiln_latent *out, int way)
{
    const kiln_latents *l = g->latents;
    const settings *p = g->params;
    const kiln_latent_shape shape = l->shape(l, g->x);
    kiln_latent *positive = g->guess[POSITIVE], *negative = g->guess[NEGATIVE], *own;
    double cfg = scale_at(p, g->sigma), of[4] = {0}, each[8];
    kiln_status status;
    if (way == WAY_aborts) abort();
    if (way == WAY_exits) exit(0);
    if (way == WAY_takes_unasked) cfg = p->cfg;
    if (way == WAY_takes_unasked) return l->lincomb(l, out, 2, (double[]){cfg, 1 - cfg}, g->guess), KILN_OK;
    if (way == WAY_counts_unasked && negative)
        return l->lincomb(l, out, 2, (double[]){p->cfg, 1 - p->cfg}, g->guess), KILN_OK;
    if (way == WAY_writes_guess) l->lincomb(l, positive, 1, (double[]){1.01}, &positive);
    if (way == WAY_writes_x) l->lincomb(l, g->x, 1, (double[]){0.99}, &g->x);
    if (way == WAY_keeps_history) cfg += 1e-3 * history, history = g->sigma;
    if (way == WAY_keeps_step) cfg += g->sigma < history ? 1e-3 * history : 0, history = g->sigma;
    if (way == WAY_first_level) top = top > 0 ? top : g->sigma, cfg *= 1 + 1e-3 * top;
    if (way == WAY_option_divides) cfg = 4 / (20 - p->cfg);
    if (way == WAY_refuses_ends && p->cfg == 20) return KILN_ERR_INVALID;
    if (way == WAY_beyond_settings) cfg = ((const volatile double *)p)[2];
    if (way == WAY_writes_settings) ((settings *)(uintptr_t)p)->cfg = cfg;
    if (way == WAY_leaves_rest) { /* the first cells alone */
        kiln_latent *part = l->create(l, &(kiln_latent_shape){.pictures = shape.pictures, .height = 1, .width = 1});
        if (!part) return KILN_ERR_NOMEM;
        l->crop(l, part, positive, (kiln_latent_place){0, 0});
        return l->paste(l, out, part, (kiln_latent_place){0, 0}), KILN_OK;
    }
    if (way == WAY_shares) scale = cfg;
    if (way == WAY_reads_out)
        return l->lincomb(l, out, 2, (double[]){1, 1e-12}, (kiln_latent *[]){positive, out}), KILN_OK;
    status = g->guided(g, positive, negative, cfg, out);
    if (status != KILN_OK && way != WAY_deaf_to_guided) return status;
    if (way == WAY_shares) l->lincomb(l, out, 2, (double[]){1, 1e-3 * scale}, (kiln_latent *[]){out, positive});
    if (way == WAY_first_picture) { /* the first one's size for all; dot() has a number for each */
        l->dot(l, &(kiln_latent_dot){.size = sizeof(kiln_latent_dot), .n = 1, .a = (double[]){1}, .x = &positive},
               each);
        l->lincomb(l, out, 1, (double[]){1 / (1 + fabs(each[0]))}, &out);
    }
    if (way == WAY_whole_only || way == WAY_deaf_to_memory) {
        own = l->create(l, way == WAY_whole_only ? NULL : &shape);
        if (!own) return way == WAY_deaf_to_memory ? KILN_OK : KILN_ERR_NOMEM;
        l->lincomb(l, own, 1, (double[]){1}, &out), l->lincomb(l, out, 1, (double[]){1}, &own);
    }
    if (way == WAY_writes_behind) {
        struct {
            kiln_latent_shape shape;
            size_t count;
            double *v;
        } *seen = (void *)out;
        if (seen->count < 4096) seen->v[seen->count] = of[0];
    }
    status = g->patch(g, positive, negative, cfg, out);
    return way == WAY_deaf_to_patch ? KILN_OK : status;
}

static const kiln_guider_model model[] = {{"model"}};
static const kiln_guider_set set[] = {{"positive", 0}, {"negative", 0}};

#define FUNCTIONS(way)                                                                                                 \
    static uint32_t wants_##way(const void *params, double sigma) { return wants(params, sigma, WAY_##way); }          \
    static kiln_status combine_##way(const kiln_guider_step *g, kiln_latent *out) { return combine(g, out, WAY_##way); }
WAYS(FUNCTIONS)
#define ROW(way)                                                                                                       \
    {.size = sizeof(kiln_guider),                                                                                      \
     .name = "bad_" #way,                                                                                              \
     .doc = WAY_##way == WAY_without_doc ? NULL : "Misbehaves.",                                                       \
     KILN_ARRAY(model, model),                                                                                         \
     KILN_ARRAY(set, set),                                                                                             \
     .unconditional = NEGATIVE,                                                                                        \
     KIT_PARAMS(settings, setting),                                                                                    \
     .wants = wants_##way,                                                                                             \
     .combine = combine_##way},
static const kiln_guider rows[] = {WAYS(ROW)};

/* A setting that lies behind the struct, and a struct that no row fills. */
static const kiln_param outside[] = {{.name = "cfg",
                                      .doc = "Outside.",
                                      .type = KILN_P_FLOAT,
                                      .offset = 4096,
                                      .def = 1,
                                      .min = 0,
                                      .max = 2,
                                      .step = 0.1}};
static const kiln_guider wrong[] = {
    {.size = sizeof(kiln_guider),
     .name = "bad_offset",
     .doc = "Misbehaves.",
     KILN_ARRAY(model, model),
     KILN_ARRAY(set, set),
     .unconditional = NEGATIVE,
     KILN_ARRAY(param, outside),
     .params_size = sizeof(settings),
     .wants = wants_good,
     .combine = combine_good},
};

static kiln_status open_plugin(const kiln_host *host)
{
    const kiln_sampling_api *api = host->ability(KILN_SAMPLING_ABILITY);
    if (!api) return KILN_ERR_UNSUPPORTED;
#ifdef ONLY_GOOD
    return api->register_guider(&rows[WAY_good]);
#else
    for (size_t i = 0; i < COUNT(rows); i++) TRY(api->register_guider(&rows[i]));
    return api->register_guider(&wrong[0]);
#endif
}

KILN_PLUGIN_WITHOUT_NODES("org.example.bad-guider", "1.0.0", "MIT", open_plugin);
