/* sample_guidance.c - see sample_guidance.h. Under set k the model guesses tanh(x (1 + k / 4) + k - 1/2), a number
 * between -1 and 1 that differs from set to set.
 */
#include "cli/sample_guidance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHANNELS = 4, SETS = KILN_GUIDER_SETS };

typedef struct {
    const guidance_plan *plan;
    guided *out;
    sample_latents latents;
    kiln_latent *x, *guess[SETS], *made;
    double *kept[SETS + 1]; /* as guesses and x were */
} rig;

/* ---- what a guider calls ---- */

static kiln_status called(rig *r, int fine)
{
    kiln_status status = sample_call_is(&r->latents, fine) ? KILN_OK : KILN_ERR_BUG;
    if (r->out->guided++ == r->plan->fail_guided) status = KILN_ERR_DEVICE;
    return status == KILN_OK ? KILN_OK : (r->latents.told = status);
}

static int is_pair(const kiln_latent *positive, const kiln_latent *negative, const kiln_latent *out)
{
    return sample_same_shape(positive, out) && (!negative || sample_same_shape(negative, out));
}

static kiln_status guide(const kiln_guider_step *g, kiln_latent *positive, kiln_latent *negative, double cfg,
                         kiln_latent *out)
{
    kiln_status status = called(g->self, is_pair(positive, negative, out));
    if (status != KILN_OK) return status;
    for (size_t i = 0; i < out->count; i++)
        out->v[i] = negative ? negative->v[i] + cfg * (positive->v[i] - negative->v[i]) : positive->v[i];
    return KILN_OK;
}

static kiln_status patch(const kiln_guider_step *g, kiln_latent *positive, kiln_latent *negative, double cfg,
                         kiln_latent *out)
{
    (void)cfg;
    return called(g->self, is_pair(positive, negative, out));
}

/* ---- before and after ---- */

static int draw_x(rig *r)
{
    const guidance_plan *p = r->plan;
    const size_t picture = r->x->count / (size_t)p->pictures;
    for (size_t i = 0; p->x && i < r->x->count; i++) r->x->v[i] = p->x->v[i];
    for (size_t n = 0; !p->x && n < (size_t)p->pictures; n++) {
        uint64_t state = p->seed + n;
        for (size_t i = 0; i < picture; i++) r->x->v[n * picture + i] = (1 + p->sigma) * sample_gaussian(&state);
    }
    return (r->kept[SETS] = malloc(r->x->count * sizeof(double))) != NULL;
}

static int make_guess(rig *r, uint32_t k)
{
    const int asked = r->out->wanted >> k & 1;
    const double set = r->plan->equal ? 0 : (double)k;
    if (!asked && !(r->plan->also >> k & 1)) return 1;
    kiln_latent *g = r->guess[k] = sample_latent_new(r->x->shape);
    if (!g || !(r->kept[k] = malloc(g->count * sizeof(double)))) return 0;
    for (size_t i = 0; i < g->count; i++)
        g->v[i] = tanh(r->x->v[i] * (1 + set / 4) + set - 0.5) + (asked ? 0 : r->plan->of_also);
    memcpy(r->kept[k], g->v, g->count * sizeof(double));
    return 1;
}

static int rig_ready(rig *r)
{
    const guidance_plan *p = r->plan;
    const kiln_latent_shape part = {p->pictures, 1, p->side, p->side, CHANNELS, 4};
    sample_latents_init(&r->latents, (kiln_latent_shape){p->pictures, 1, p->whole, p->whole, CHANNELS, 4});
    r->latents.fail_memory = p->fail_memory, r->latents.between = p->between, r->latents.self = p->self;
    r->x = sample_latent_new(part), r->made = sample_latent_new(part);
    if (!r->x || !r->made || !draw_x(r)) return 0;
    memcpy(r->kept[SETS], r->x->v, r->x->count * sizeof(double));
    for (size_t i = 0; i < r->made->count; i++) r->made->v[i] = p->before;
    for (uint32_t k = 0; k < p->row->n_set; k++)
        if (!make_guess(r, k)) return 0;
    return 1;
}

/* The bytes, so that a NaN is one. */
static int is_as_it_was(const rig *r, int k)
{
    const kiln_latent *l = k == SETS ? r->x : r->guess[k];
    return !l || memcmp(l->v, r->kept[k], l->count * sizeof(double)) == 0;
}

static int whole(const kiln_latent *l) { return !l || sample_latent_is_whole(l); }

static void look(rig *r)
{
    guided *o = r->out;
    o->bad_call = r->latents.bad_call, o->memory = r->latents.memory, o->wrote = -1;
    o->overran = !whole(r->x) || !whole(r->made);
    for (size_t i = 0; i < r->latents.n_made; i++) o->overran |= !whole(r->latents.made[i]);
    for (int k = SETS; k >= 0; k--) {
        if (!is_as_it_was(r, k)) o->wrote = k;
        if (k < SETS) o->overran |= !whole(r->guess[k]);
    }
    o->count = r->made->count, o->v = r->made->v, r->made->v = NULL;
    for (int k = 0; k < SETS && !o->first; k++)
        if (o->wanted >> k & 1) o->first = r->kept[k], r->kept[k] = NULL;
}

static void rig_free(rig *r)
{
    sample_latents_free(&r->latents);
    sample_latent_free(r->x), sample_latent_free(r->made);
    for (int k = 0; k < SETS; k++) sample_latent_free(r->guess[k]), free(r->kept[k]);
    free(r->kept[SETS]);
}

void guided_free(guided *o)
{
    free(o->v), free(o->first);
    *o = (guided){0};
}

int guidance_try(const guidance_plan *p, guided *out)
{
    const uint32_t known = (1u << p->row->n_set) - 1;
    rig r = {.plan = p, .out = out};
    *out = (guided){.wanted = p->row->wants(p->params, p->sigma) & known};
    int ready = rig_ready(&r);
    if (ready) {
        const kiln_guider_step step = {.size = sizeof step,
                                       .sampling = p->sampling,
                                       .latents = &r.latents.api,
                                       .params = p->params,
                                       .sigma = p->sigma,
                                       .x = r.x,
                                       .guess = r.guess,
                                       .n_guess = p->row->n_set,
                                       .self = &r,
                                       .guided = guide,
                                       .patch = patch};
        out->status = p->row->combine(&step, r.made);
        look(&r);
    }
    rig_free(&r);
    return ready;
}
