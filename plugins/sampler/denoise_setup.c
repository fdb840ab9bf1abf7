/* denoise_setup.c - what an evaluator reads before its first evaluation: the guider's models and their ranges, each
 * set's conditionings as each range has them, areas on both sides of the guidance. See denoise.h. */
#include "denoise.h"

#include "kiln/kit.h"
#include "model_guidance_run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const kiln_host *host_of(const evaluator *e) { return e->call->host; }

static double scale_at(const kiln_latent_scaling *s, uint32_t k) { return s->scale[s->n > 1 ? k : 0]; }
static double shift_at(const kiln_latent_scaling *s, uint32_t k) { return s->shift ? s->shift[s->n > 1 ? k : 0] : 0; }

/* Latents are in the first model's space: another one has to scale them alike. Both have as many channels. */
static kiln_status check_scaling(const evaluator *e, const char *name, const kiln_model *m)
{
    const kiln_latent_scaling *first =
        e->model[0]->latent ? e->model[0]->latent : e->model[0]->denoiser->latent->scaling;
    const kiln_latent_scaling *own = m->latent ? m->latent : m->denoiser->latent->scaling;
    for (uint32_t k = 0; k < (uint32_t)m->denoiser->latent->channels; k++)
        if (scale_at(own, k) != scale_at(first, k) || shift_at(own, k) != shift_at(first, k))
            return host_of(e)->fail(e->call->ctx, KILN_ERR_INVALID,
                                    "%s has latents scaled by %g (shift %g), %s by %g (shift %g); they have to be of "
                                    "one kind: take a model of "
                                    "the same family",
                                    name, scale_at(own, k), shift_at(own, k),
                                    e->by.row ? guider_model(e->by.row, 0)->name : "the first model",
                                    scale_at(first, k), shift_at(first, k));
    return KILN_OK;
}

kiln_status evaluator_check_latents(const evaluator *e, const char *name, const kiln_model *m)
{
    const kiln_latent_format *first = e->model[0]->denoiser->latent, *own = m->denoiser->latent;
    int32_t rank = own->rank ? own->rank : 4, wanted = first->rank ? first->rank : 4;
    if (m->denoiser->n_stream != e->model[0]->denoiser->n_stream)
        return host_of(e)->fail(e->call->ctx, KILN_ERR_INVALID,
                                "%s has latents of %u further streams, the first model of %u; they have to be of one "
                                "kind",
                                name, m->denoiser->n_stream, e->model[0]->denoiser->n_stream);
    if (own->channels == first->channels && rank == wanted) return check_scaling(e, name, m);
    if (rank != wanted)
        return host_of(e)->fail(e->call->ctx, KILN_ERR_INVALID,
                                "%s has latents of %d dimensions, %s of %d; they have to be of one kind", name, rank,
                                e->by.row ? guider_model(e->by.row, 0)->name : "the first model", wanted);
    return host_of(e)->fail(e->call->ctx, KILN_ERR_INVALID,
                            "%s has latents of %d channels, %s of %d; they have to be of one kind", name, own->channels,
                            e->by.row ? guider_model(e->by.row, 0)->name : "the first model", first->channels);
}

kiln_status evaluator_open(evaluator *e, const kiln_value *guider)
{
    const kiln_model_api *models = host_of(e)->ability(KILN_MODEL_ABILITY);
    TRY(guider_read(e->call, guider, &e->by));
    for (size_t i = 0; i < e->by.row->n_model; i++) {
        if (!(e->model[i] = models->model(e->call->ctx, e->by.model[i]))) return KILN_ERR_INVALID;
        TRY(evaluator_check_latents(e, guider_model(e->by.row, i)->name, e->model[i]));
    }
    e->counted = model_sampling_of(e->model[0]);
    return KILN_OK;
}

static const kiln_model_range *range_of(const kiln_model *m, size_t i)
{
    return (const kiln_model_range *)(const void *)((const char *)m->range + i * m->range->size);
}

/* What a run knows of itself. */
static void tell_facts(const evaluator *e, model_sampling *counted)
{
    const kiln_latent_shape *s = &e->space->shape;
    counted->facts.cells = s->frames * s->height * s->width;
    counted->facts.steps = e->steps;
}

/* The MODEL itself, then the models that take its place at lower levels. */
static kiln_status list_ranges(evaluator *e, const kiln_model *m, denoise_set *set)
{
    const kiln_model_api *models = host_of(e)->ability(KILN_MODEL_ABILITY);
    TRY(carried_hooks_model(e->call, &e->carried, m, &m));
    set->range[0] = (denoise_range){.model = m,
                                    .name = m->name      ? m->name
                                            : m->n_range ? "base"
                                                         : NULL,
                                    .below = INFINITY};
    set->n = 1;
    if (m->n_range >= DENOISE_RANGES)
        return host_of(e)->fail(e->call->ctx, KILN_ERR_INVALID, "a MODEL of %zu ranges; at most %d are possible",
                                m->n_range + 1, DENOISE_RANGES);
    for (size_t i = 0; i < m->n_range; i++) {
        const kiln_model_range *r = range_of(m, i);
        const kiln_model *other = models->model(e->call->ctx, r->model);
        if (!other) return KILN_ERR_INVALID;
        TRY(evaluator_check_latents(e, r->name, other));
        if (other->n_range)
            return host_of(e)->fail(e->call->ctx, KILN_ERR_INVALID,
                                    "the '%s' of a MODEL has ranges of its own, which nothing would evaluate; give it "
                                    "a MODEL without",
                                    r->name);
        TRY(carried_hooks_model(e->call, &e->carried, other, &other));
        set->range[set->n++] = (denoise_range){.model = other, .name = r->name, .below = r->below};
    }
    return KILN_OK;
}

/* An entry for a range that no model has would never act: a name that was mistyped. */
static kiln_status check_range_names(const evaluator *e, const denoise_set *s, const kiln_value *conditioning,
                                     const char *what)
{
    const kiln_value_api *v = kit_values(e->call);
    char names[200] = "";
    size_t n = v->kind(conditioning) == KILN_V_LIST ? v->count(conditioning) : 0;
    for (size_t i = 0, at = 0; i < s->n && at < sizeof names; i++)
        at += (size_t)snprintf(names + at, sizeof names - at, "%s'%.60s'", i ? ", " : "",
                               s->range[i].name ? s->range[i].name : "");
    for (size_t i = 0; i < n && s->n > 1; i++) {
        const char *range = v->get_string(v->map_get(v->list_at(conditioning, i), "model_range"), NULL);
        int known = !range;
        for (size_t k = 0; k < s->n && !known; k++) known = s->range[k].name && strcmp(s->range[k].name, range) == 0;
        if (!known)
            return host_of(e)->fail(
                e->call->ctx, KILN_ERR_INVALID,
                "%s: an entry of the conditioning is for the model's range '%s', and the ranges are "
                "%s",
                what, range, names);
    }
    return KILN_OK;
}

static kiln_status read_set(evaluator *e, int set, const kiln_value *conditioning, const char *name)
{
    denoise_set *s = &e->set[set];
    TRY(list_ranges(e, e->model[set < KILN_GUIDER_SETS && e->by.row ? guider_set(e->by.row, (size_t)set)->model : 0],
                    s));
    TRY(check_range_names(e, s, conditioning, name));
    for (size_t i = 0; i < s->n; i++) {
        denoise_range *r = &s->range[i];
        r->counted = model_sampling_of(r->model);
        tell_facts(e, &r->counted);
        condition_reading reading = {.call = e->call,
                                     .model = r->model,
                                     .range = r->name,
                                     .counted = r->counted,
                                     .shape = e->space->shape,
                                     .what = name,
                                     .unconditional = e->by.row ? set == e->by.row->unconditional : e->unconditional,
                                     .latent = e->latent,
                                     .seed = e->seed,
                                     .keys = &e->last->keys,
                                     .n_carried = e->carried.n,
                                     .schedules = &e->last->schedules,
                                     .lender = set > 0 && set < KILN_GUIDER_SETS ? e->by.conditioning[0] : NULL};
        TRY(conditions_read(&reading, conditioning, &r->given));
    }
    return KILN_OK;
}

/* The conditionings of the guidance that hangs on the first model. */
static kiln_status read_extra_sets(evaluator *e)
{
    int at = KILN_GUIDER_SETS;
    for (size_t i = 0; i < e->model[0]->n_guidance; i++) {
        const kiln_guidance *g = e->model[0]->guidance[i];
        if (g->flags & KILN_GUIDANCE_UNCONDITIONAL && e->by.row->unconditional >= 0)
            e->always |= 1u << e->by.row->unconditional;
        if (!g->conditioning) continue;
        if (at == DENOISE_SETS)
            return host_of(e)->fail(e->call->ctx, KILN_ERR_INVALID, "more than %d conditionings hang on the model",
                                    DENOISE_EXTRA);
        TRY(read_set(e, at, g->conditioning, "the model's own conditioning"));
        e->always |= 1u << at++;
    }
    return model_guidance_open(e);
}

/* Areas on both sides, range by range. */
static kiln_status oppose_sets(evaluator *e, int n)
{
    conditions *own[KILN_GUIDER_SETS];
    size_t ranges = 0;
    for (int i = 0; i < n; i++) ranges = e->set[i].n > ranges ? e->set[i].n : ranges;
    for (size_t r = 0; r < ranges; r++) {
        for (int i = 0; i < n; i++) own[i] = &e->set[i].range[r < e->set[i].n ? r : e->set[i].n - 1].given;
        TRY(conditions_oppose(e->call, own, (size_t)n, e->space->shape.height, e->space->shape.width));
    }
    return KILN_OK;
}

kiln_status evaluator_read_conditions(evaluator *e)
{
    int n = 0;
    e->areas = NULL;
    tell_facts(e, &e->counted);
    TRY(carried_hooks_collect(e->call, &e->by, e->model[0], &e->carried));
    if (!e->by.row) return read_set(e, 0, e->by.conditioning[0], "the conditioning");
    for (; n < (int)e->by.row->n_set; n++)
        TRY(read_set(e, n, e->by.conditioning[n], guider_set(e->by.row, (size_t)n)->name));
    e->always = 0;
    TRY(oppose_sets(e, n));
    return read_extra_sets(e);
}

kiln_status evaluator_open_pair(evaluator *e, const kiln_value *model, const kiln_value *conditioning,
                                int unconditional)
{
    const kiln_model_api *models = host_of(e)->ability(KILN_MODEL_ABILITY);
    if (!(e->model[0] = models->model(e->call->ctx, model))) return KILN_ERR_INVALID;
    e->by = (guider_parts){.conditioning = {conditioning}};
    e->unconditional = unconditional;
    e->counted = model_sampling_of(e->model[0]);
    return evaluator_read_conditions(e);
}
