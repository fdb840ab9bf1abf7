/* sampling_api.c - see sampling_api.h. */
#include "sampling_api.h"

#include "guider_registry.h"
#include "kiln/kit.h"
#include "noise_value.h"
#include "options.h"
#include "pair_evaluator.h"
#include "sample_session.h"
#include "sample_state.h"
#include "sizeless.h"

#include <assert.h>

/* The description lives as long as the call: schedules ask it for timesteps. */
static kiln_status schedule_input(const kiln_call *c, const kiln_value *model, size_t steps, kiln_schedule_input *out)
{
    kiln_schedule_input full;
    model_sampling *counted = c->host->scratch(c->ctx, sizeof *counted, KILN_CPU);
    if (!counted) return KILN_ERR_NOMEM;
    TRY(sample_model_sampling(c, model, counted));
    TRY(model_sampling_schedule_input(c, counted, steps, &full));
    if (!KILN_WRITE(out, &full, sigma_at)) return sizeless(c, "schedule_input()", "kiln_schedule_input");
    return KILN_OK;
}

static kiln_status percent_to_sigma(const kiln_call *c, const kiln_value *model, double percent, double *sigma)
{
    model_sampling counted;
    TRY(sample_model_sampling(c, model, &counted));
    *sigma = model_sampling_percent_to_sigma(&counted, percent);
    return KILN_OK;
}

static const kiln_sampling *view(kiln_session *s)
{
    assert(s->api.size || s->job->n == 0);
    return &s->api;
}

/* The evaluation is of a part of the picture, by a guider of the job, into a latent of the part's shape. */
static int is_possible(const kiln_session *s, const kiln_evaluation *e, const kiln_latent *out)
{
    const kiln_latent_shape *part = &e->x->shape, *whole = &s->space.shape;
    return s->job->n && e->guider < s->job->n_guider && e->x != out && e->x->space == &s->space &&
           out->space == &s->space && memcmp(part, &out->shape, sizeof *part) == 0 &&
           part->pictures == whole->pictures && part->channels == whole->channels && e->place.y >= 0 &&
           e->place.x >= 0 && e->place.y <= whole->height - part->height && e->place.x <= whole->width - part->width;
}

static kiln_status denoise(kiln_session *s, const kiln_evaluation *given, kiln_latent *out)
{
    kiln_evaluation copy, *e = &copy;
    TRY(s->space.failed);
    if (!KILN_READ(e, given, sigma)) return sizeless(s->call, "denoise()", "kiln_evaluation");
    if (!is_possible(s, e, out))
        return s->call->host->fail(s->call->ctx, KILN_ERR_BUG,
                                   "an evaluation outside the picture, by a guider the job has not, or into its own "
                                   "input");
    return evaluator_denoise(&s->evaluator[e->guider], e->x, e->place, e->sigma, out);
}

static void close_session(kiln_session *s, kiln_status status)
{
    if (s->job->n) state_finish(s, status);
}

static kiln_status random_like_torch(const kiln_call *c, uint64_t seed, uint32_t rank, const int64_t *dim, float *out)
{
    torch_generator g;
    kiln_latent_shape shape = {.pictures = dim[0], .frames = 1, .height = 1, .width = 1, .channels = dim[rank - 1]};
    if (kit_estimating(c)) return KILN_OK;
    for (uint32_t i = 1; i + 1 < rank; i++) shape.width *= dim[i];
    size_t n = latent_shape_count(&shape);
    float *drawn = c->host->scratch(c->ctx, n * sizeof *drawn, KILN_CPU);
    if (!drawn) return KILN_ERR_NOMEM;
    torch_seed(&g, seed);
    torch_randn(&g, drawn, n);
    latent_pictures_last(&shape, shape.pictures, drawn, out);
    return KILN_OK;
}

const kiln_sampling_api sampling_api = {
    .size = sizeof(kiln_sampling_api),
    .register_guider = guider_register,
    .guider_count = guider_count,
    .guider_at = guider_at,
    .guider = guider_named,
    .guider_new = guider_new,
    .noise_new = noise_new,
    .noise_read = noise_read,
    .find_sampler = sample_find,
    .sampler_new = options_sampler,
    .sampler_read = options_read,
    .sigmas_read = sigmas_read,
    .sigmas_new = sigmas_new,
    .sigmas = sample_sigmas,
    .schedule_input = schedule_input,
    .percent_to_sigma = percent_to_sigma,
    .add_noise = sample_add_noise,
    .open = sample_open,
    .view = view,
    .run = sample_run,
    .denoise = denoise,
    .finish = sample_finish,
    .close = close_session,
    .evaluate = pair_evaluate,
    .random = random_like_torch,
};
