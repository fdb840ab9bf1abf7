/* pair_evaluator.c - see pair_evaluator.h. A pair's conditioning is read when it is first asked for, and kept. */
#include "pair_evaluator.h"

#include "kiln/kit.h"
#include "sizeless.h"

#include <string.h>

typedef struct pair_evaluator {
    struct pair_evaluator *next;
    const kiln_value *model, *conditioning;
    int unconditional;
    evaluator by;
} pair_evaluator;

static pair_evaluator *find(const kiln_session *s, const kiln_model_evaluation *e, const kiln_value *model)
{
    pair_evaluator *p = s->pairs;
    while (p &&
           !(p->model == model && p->conditioning == e->conditioning && p->unconditional == (e->unconditional != 0)))
        p = p->next;
    return p;
}

static kiln_status add(kiln_session *s, const kiln_model_evaluation *e, const kiln_value *model, pair_evaluator **out)
{
    pair_evaluator *p = s->call->host->scratch(s->call->ctx, sizeof *p, KILN_CPU);
    if (!p) return KILN_ERR_NOMEM;
    *p = (pair_evaluator){.model = model, .conditioning = e->conditioning, .unconditional = e->unconditional != 0};
    p->by = (evaluator){.call = s->call,
                        .space = &s->space,
                        .last = &s->last,
                        .latent = s->job->latent,
                        .seed = s->job->noise->seed,
                        .frame_share = s->evaluator->frame_share,
                        .cell_share = s->evaluator->cell_share,
                        .steps = (int64_t)s->job->n,
                        .session = &s->api,
                        .number = s->job->n_guider};
    TRY(evaluator_open_pair(&p->by, model, e->conditioning, p->unconditional));
    TRY(evaluator_check_latents(s->evaluator, "the model that is to evaluate", p->by.model[0]));
    entry_keys_say(&s->last.keys, s->call->host);
    p->next = s->pairs;
    *out = s->pairs = p;
    return KILN_OK;
}

static int is_possible(const kiln_session *s, const kiln_model_evaluation *e, const kiln_latent *out)
{
    if (!s->job->n || !e->conditioning || e->x == out) return 0;
    const kiln_latent_shape *part = &e->x->shape, *whole = &s->space.shape;
    return e->x->space == &s->space && out->space == &s->space && memcmp(part, &out->shape, sizeof *part) == 0 &&
           part->pictures == whole->pictures && part->frames == whole->frames && part->channels == whole->channels &&
           e->place.y >= 0 && e->place.x >= 0 && e->place.y <= whole->height - part->height &&
           e->place.x <= whole->width - part->width;
}

kiln_status pair_evaluate(kiln_session *s, const kiln_model_evaluation *given, kiln_latent *out)
{
    kiln_model_evaluation copy, *e = &copy;
    TRY(s->space.failed);
    if (!KILN_READ(e, given, sigma)) return sizeless(s->call, "evaluate()", "kiln_model_evaluation");
    if (!is_possible(s, e, out))
        return s->call->host->fail(s->call->ctx, KILN_ERR_BUG,
                                   "an evaluation outside the picture, without a conditioning, or into its own input");
    const kiln_value *model = e->model ? e->model : s->evaluator->by.model[0];
    pair_evaluator *p = find(s, e, model);
    if (!p) TRY(add(s, e, model, &p));
    return evaluator_denoise(&p->by, e->x, e->place, e->sigma, out);
}

kiln_status pair_evaluators_resize(kiln_session *s)
{
    for (pair_evaluator *p = s->pairs; p; p = p->next) TRY(evaluator_read_conditions(&p->by));
    return KILN_OK;
}
