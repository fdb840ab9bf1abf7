/* network.c - see network.h. */
#include "network.h"

#include "kiln/kit.h"

#include <stdio.h>

enum { KEY_MAX = 4096 };

/* All that decides what is recorded. */
static kiln_status program_key(const kiln_call *c, const kiln_model *model, const network_batch *b, char key[KEY_MAX])
{
    const kiln_weights_api *w = c->host->ability(KILN_WEIGHTS_ABILITY);
    const char *identity = w->identity(c->ctx, model->weights);
    if (!identity) return KILN_ERR_IO;
    int at = snprintf(key, KEY_MAX, "%s:%s:%lldx%lldx%lld:%lld", model->denoiser->family, identity,
                      (long long)b->pictures, (long long)b->h, (long long)b->w, (long long)b->length);
    for (size_t i = 0; i < model->n_hook && at < KEY_MAX; i++)
        at += snprintf(key + at, (size_t)(KEY_MAX - at), ":%s", model->hook[i]->identity);
    return at < KEY_MAX ? KILN_OK : c->host->fail(c->ctx, KILN_ERR_INVALID, "too many hooks on this model");
}

static kiln_status record(const kiln_call *c, const kiln_model *model, const network_batch *b, kiln_program *p)
{
    const kiln_ops *ops = c->host->ability(KILN_OPS_ABILITY);
    kiln_denoise_inputs in = {.size = sizeof in, .hook = model->hook, .n_hook = model->n_hook};
    in.x = ops->input(p, "x", KILN_F32, 4, KILN_DIMS(b->pictures, b->h, b->w, b->channels));
    in.timestep = ops->input(p, "timestep", KILN_F32, 1, KILN_DIMS(b->pictures));
    in.context = ops->input(p, "context", KILN_F32, 3, KILN_DIMS(b->pictures, b->length, b->width));
    if (KILN_HAS(kiln_ops, ops, step_invariant)) ops->step_invariant(p, in.context);
    ops->output(p, "prediction", model->denoiser->record(model->denoiser, ops, p, model->weights, &in));
    return ops->plan(c->ctx, p, NULL);
}

kiln_status network_run(const kiln_call *c, const kiln_model *model, const network_batch *b, const network_data *d)
{
    const kiln_ops *ops = c->host->ability(KILN_OPS_ABILITY);
    kiln_program_options options = {.size = sizeof options, .name = "denoiser"};
    char key[KEY_MAX];
    int fresh = 0;
    TRY(program_key(c, model, b, key));
    kiln_program *p = ops->program_keep(c->ctx, key, &options, &fresh);
    if (!p) return KILN_ERR_NOMEM;
    kiln_status status = fresh ? record(c, model, b, p) : KILN_OK;
    if (status == KILN_OK) {
        const int64_t picture[4] = {b->pictures, b->h, b->w, b->channels},
                      tokens[3] = {b->pictures, b->length, b->width};
        kiln_bind in[3] = {KILN_BIND("x", kit_window(KILN_F32, d->device, d->x, 4, picture)),
                           KILN_BIND("timestep", kit_window(KILN_F32, KILN_CPU, d->timestep, 1, &b->pictures)),
                           KILN_BIND("context", kit_window(KILN_F32, KILN_CPU, d->tokens, 3, tokens))};
        kiln_bind out = KILN_BIND("prediction", kit_window(KILN_F32, d->device, d->prediction, 4, picture));
        status = ops->run(c->ctx, p, in, 3, &out, 1);
    }
    ops->program_free(p);
    return status;
}
