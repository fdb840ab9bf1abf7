/* check_sampler_device.c - see check_sampler_device.h. A small network is sampled as KSampler does it, through
 * kiln.sampling/1, once with the processor's programs and once with the device's. The sampler sees the session's own
 * functions but for three: step() keeps x as it stands then, download() and upload() are counted. Where both runs first
 * part is the step whose arithmetic went past kiln/latent.h.
 */
#include "cli/check_sampler_device.h"

#include "backend/runtime.h"
#include "base/memory_alloc.h"
#include "cli/check_guider.h"
#include "cli/sample_sampling.h"
#include "kiln/kit.h"
#include "kiln/sampling.h"
#include "kiln/standard_sampling.h"
#include "plugin/abilities.h"
#include "plugin/ctx.h"
#include "tensor/value.h"

#include <math.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { CHANNELS = 4, SIDE = 8, LEVELS = 1000, KEPT = 64 };

/* How far x on a device may be from x on the host, as a share of its size. Sums are rounded once from f64 on both
 * (kiln/latent.h), so what differs is the network, whose tanh may end in another digit. Of kiln's own samplers 44 are
 * within 2.7e-7 on the emulated CUDA device; dpm_adaptive, whose levels follow from what it measures, is 1.8e-5 away.
 * That times four, rounded up. */
#define DEVICE_ERROR 1e-4

/* One sampling of the two, as it went. */
typedef struct {
    const kiln_sampler *row;
    const void *options;
    const kiln_guider *guider; /* NULL: cfg */
    const void *settings;
    const double *sigma;
    size_t n;
    kiln_sampling seen;   /* by the sampler */
    kiln_latents latents; /* likewise */
    const kiln_sampling *real;
    struct {
        size_t step, count;
        float *x; /* [count] */
    } at[KEPT];
    size_t n_at, steps; /* step() was called; the first KEPT are in at */
    size_t copies;      /* latents that went over the link because the sampler asked for it */
} sampling;

/* What the signal handler and the functions that the sampler calls work on: one sampling at a time. */
static struct {
    sampling *now;
    const char *device; /* NULL: the host */
} trial;

/* ---- the network: tanh(x + what the conditioning says), an answer that lies between -1 and 1 ---- */

static kiln_t record(const kiln_denoiser *d, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                     const kiln_denoise_inputs *in)
{
    int64_t n[KILN_MAX_RANK] = {0};
    (void)d, (void)w;
    kiln_t token = ops->slice(p, kiln_input(in->input, in->n_input, "context"), 1, 0, 1);
    ops->shape(p, in->x, n, KILN_MAX_RANK);
    const int64_t dim[4] = {n[0], 1, 1, CHANNELS};
    return ops->act(p, ops->add(p, in->x, ops->reshape(p, token, 4, dim)), KILN_ACT_TANH);
}

static const double one = 1;
static const kiln_latent_scaling scaling = {.size = sizeof scaling, .n = 1, .scale = &one};
static const kiln_latent_format format = {
    .size = sizeof format, .channels = CHANNELS, .factor = 8, .scaling = &scaling};
static const kiln_input_spec input[] = {
    {.size = sizeof *input, .kind = KILN_INPUT_TOKENS, .name = "context", .key = "tokens", .width = CHANNELS}};

typedef struct {
    double sigma[LEVELS];
    kiln_standard_sampling sampling;
    kiln_denoiser denoiser;
} network;

static void network_init(network *w)
{
    kiln_discrete_sigmas("scaled_linear", 0.00085, 0.012, LEVELS, w->sigma);
    kiln_standard_sampling_init(
        &w->sampling, &(kiln_sampling_row){.prediction = KILN_PREDICT_X0, .n_sigma = LEVELS, .sigma = w->sigma});
    w->denoiser = (kiln_denoiser){.size = sizeof w->denoiser,
                                  .family = "check-plugin's",
                                  .latent = &format,
                                  .sampling = &w->sampling.base,
                                  KILN_ARRAY(input, input),
                                  .record = record};
}

/* ---- its values ---- */

static kiln_value *numbers(kiln_ctx *ctx, uint32_t rank, const int64_t *dim, const float *data)
{
    kiln_tensor t = {.size = sizeof t};
    kiln_value *v = engine_host.tensor_new(ctx, KILN_F32, KILN_CPU, rank, dim);
    if (!v || engine_host.view(ctx, v, &t) != KILN_OK) return value_unref(v), NULL;
    size_t n = 1;
    for (uint32_t i = 0; i < rank; i++) n *= (size_t)dim[i];
    memcpy(t.data, data, n * sizeof *data);
    return v;
}

/* Takes the item. */
static int put(kiln_value *map, const char *key, kiln_value *item)
{
    int done = map && item && value_api.map_set(map, key, item) == KILN_OK;
    value_unref(item);
    return done;
}

static kiln_value *conditioning(kiln_ctx *ctx, const float token[CHANNELS])
{
    kiln_value *list = value_api.new_list(ctx), *entry = value_api.new_map(ctx);
    int done = put(entry, "tokens", numbers(ctx, 3, (const int64_t[]){1, 1, CHANNELS}, token)) && list &&
               value_api.list_push(list, entry) == KILN_OK;
    value_unref(entry);
    return done ? list : (value_unref(list), NULL);
}

static kiln_value *model(kiln_ctx *ctx, const network *w)
{
    static const float none[1];
    const kiln_weight_tensor tensor = {
        .size = sizeof tensor, .dtype = KILN_F32, .rank = 1, .name = "none", .dim = (const int64_t[]){1}, .data = none};
    kiln_weights *set = weights_api.make(ctx, "check-plugin's network", &tensor, 1);
    kiln_value *v = set ? model_api.model_new(
                              ctx, &(kiln_model){.size = sizeof(kiln_model), .denoiser = &w->denoiser, .weights = set})
                        : NULL;
    weights_api.unref(set);
    return v;
}

/* Of one kind or another: all its models are the network, and each conditioning says something else. */
static int put_parts(kiln_ctx *ctx, const kiln_guider *row, const network *w, kiln_value *parts)
{
    for (uint32_t i = 0; i < row->n_model; i++)
        if (!put(parts, guider_model_at(row, i)->name, model(ctx, w))) return 0;
    for (uint32_t i = 0; i < row->n_set; i++) {
        const float at = (float)i * 0.25f, token[CHANNELS] = {0.5f - at, at - 0.25f, 0.75f - at, 0.125f + at};
        if (!put(parts, guider_set_at(row, i)->name, conditioning(ctx, token))) return 0;
    }
    return 1;
}

static kiln_value *guider_of_kind(const kiln_call *c, const kiln_sampling_api *api, const network *w)
{
    const sampling *r = trial.now;
    const kiln_param_table table = guider_settings(r->guider);
    kiln_value *parts = value_api.new_map(c->ctx), *out = NULL;
    if (!parts || params_api.to_map(c->ctx, &table, r->settings, parts) != KILN_OK ||
        !put_parts(c->ctx, r->guider, w, parts))
        return value_unref(parts), NULL;
    return api->guider_new(c, r->guider->name, parts, &out) == KILN_OK ? out : NULL;
}

static kiln_value *guider(const kiln_call *c, const kiln_sampling_api *api, const network *w)
{
    if (trial.now->guider) return guider_of_kind(c, api, w);
    kiln_value *parts = value_api.new_map(c->ctx), *out = NULL;
    int whole = put(parts, "model", model(c->ctx, w)) &&
                put(parts, "positive", conditioning(c->ctx, (const float[]){0.5f, -0.25f, 0.75f, 0.125f})) &&
                put(parts, "negative", conditioning(c->ctx, (const float[]){-0.5f, 0.25f, 0.25f, -0.625f})) &&
                put(parts, "cfg", value_api.new_float(c->ctx, 2));
    if (!whole) return value_unref(parts), NULL;
    return api->guider_new(c, "cfg", parts, &out) == KILN_OK ? out : NULL;
}

static kiln_value *empty_latent(kiln_ctx *ctx)
{
    static const float zeros[SIDE * SIDE * CHANNELS];
    kiln_value *map = value_api.new_map(ctx);
    if (put(map, "samples", numbers(ctx, 4, (const int64_t[]){1, SIDE, SIDE, CHANNELS}, zeros))) return map;
    value_unref(map);
    return NULL;
}

/* ---- what the sampler calls ---- */

static kiln_status step(const kiln_sampling *s, size_t i, const kiln_latent *denoised)
{
    sampling *r = trial.now;
    kiln_status status = r->real->step(s, i, denoised);
    const kiln_latents *l = r->real->latents;
    size_t n = l->count(l, s->x);
    r->steps++;
    if (r->n_at == KEPT) return status;
    r->at[r->n_at].step = i, r->at[r->n_at].count = n;
    if (!(r->at[r->n_at].x = mem_alloc(n * sizeof(float)))) return KILN_ERR_NOMEM;
    l->download(l, s->x, r->at[r->n_at++].x);
    return status;
}

static void download(const kiln_latents *l, const kiln_latent *x, float *data)
{
    trial.now->copies++;
    trial.now->real->latents->download(l, x, data);
}

static void upload(const kiln_latents *l, kiln_latent *x, const float *data)
{
    trial.now->copies++;
    trial.now->real->latents->upload(l, x, data);
}

/* ---- a sampling ---- */

static kiln_status sample(const kiln_call *c, const kiln_sampling_api *api, const kiln_sampling_job *job)
{
    sampling *r = trial.now;
    kiln_session *session;
    TRY(api->open(c, job, &session));
    r->real = api->view(session);
    r->seen = *r->real, r->latents = *r->real->latents;
    r->latents.download = download, r->latents.upload = upload;
    r->seen.step = step, r->seen.latents = &r->latents;
    kiln_status status = r->row->run(&r->seen);
    kiln_value *made = NULL;
    if (status == KILN_OK) { /* or what was noted */
        status = api->finish(session, &made, NULL);
        value_unref(made);
        return status;
    }
    api->close(session, status);
    return status;
}

static kiln_status run(const kiln_call *c)
{
    const kiln_sampling_api *api = c->host->ability(KILN_SAMPLING_ABILITY);
    network w;
    network_init(&w);
    kiln_value *of = guider(c, api, &w), *latent = empty_latent(c->ctx);
    const kiln_noise noise = {.size = sizeof noise, .seed = 7};
    const kiln_sampling_job job = {.size = sizeof job,
                                   .guider = &of,
                                   .n_guider = 1,
                                   .latent = latent,
                                   .sigma = trial.now->sigma,
                                   .n = trial.now->n,
                                   .sampler = trial.now->row,
                                   .options = trial.now->options,
                                   .noise = &noise};
    kiln_status status = of && latent ? sample(c, api, &job) : KILN_ERR_NOMEM;
    value_unref(of), value_unref(latent);
    return status;
}

static const kiln_node node = {.size = sizeof node, .type = "a sampling of check-plugin's", .run = run};

static kiln_status sample_on(sampling *r, const runtime_setting *where, const char *plugin, error *e)
{
    runtime *rt = runtime_new(where, e);
    if (!rt) return KILN_ERR_UNSUPPORTED;
    const call_environment env = {.runtime = rt, .pool = runtime_pool(rt)};
    trial.now = r;
    kiln_value *none = NULL;
    kiln_status status = ctx_call(&env, 0, "sampled", plugin, &node, NULL, NULL, NULL, &none, e);
    runtime_free(rt);
    return status;
}

/* Only functions of kiln/latent.h know where a latent's numbers are. */
static void on_fault(int number)
{
    check_counts lost = {0};
    check_found(&lost, 0, "crash",
                "on %s it crashed with SIG%s after %zu steps, and on the host it did not: a latent's numbers are the "
                "device's, and download() brings them",
                trial.device, sigabbrev_np(number), trial.now->steps);
    _exit(1);
}

static void watch_faults(void (*handler)(int))
{
    struct sigaction a = {.sa_handler = handler, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGSEGV, &a, NULL);
    sigaction(SIGBUS, &a, NULL);
}

/* ---- both ---- */

static double apart(const float *a, const float *b, size_t n)
{
    double distance = 0, size = 0;
    for (size_t i = 0; i < n; i++)
        distance += ((double)a[i] - b[i]) * ((double)a[i] - b[i]), size += (double)b[i] * b[i];
    return size > 0 ? sqrt(distance / size) : sqrt(distance);
}

static void compare(const sampling *here, const sampling *there, const char *device, check_counts *c)
{
    double most = 0;
    for (size_t i = 0; i < here->n_at && i < there->n_at; i++) {
        int shaped = here->at[i].count == there->at[i].count && here->at[i].step == there->at[i].step;
        double now = shaped ? apart(there->at[i].x, here->at[i].x, here->at[i].count) : 0;
        if (shaped && now <= DEVICE_ERROR) {
            most = fmax(most, now);
            continue;
        }
        check_found(c, shaped, "device", "told step() %zu with another size, or step %zu, on %s, and %zu on the host",
                    there->at[i].step, i, device, here->at[i].step);
        check_found(c, !shaped, "device",
                    "after step %zu x on %s is %.2g of its size away from x on the host, and %.0e is much: what is in "
                    "latents is changed and read by kiln/latent.h's functions alone, and nothing else is kept",
                    here->at[i].step, device, now, DEVICE_ERROR);
        return;
    }
    if (check_found(c, here->steps == there->steps, "device", "made %zu steps on %s, and %zu on the host", there->steps,
                    device, here->steps))
        check_holds(c, "device", "%zu steps on %s and on the host, never further apart than %.2g of x's size",
                    here->steps, device, most);
    check_found(c, there->copies < there->steps || there->steps < 2, "device-link",
                "brought %zu latents to the host or back in %zu steps; on a GPU each waits for all that was begun. "
                "Take lincomb() and its kin, slots and scalars",
                there->copies, there->steps);
}

/* Frees what they kept. */
static void beside_device(sampling *here, sampling *there, const char *plugin, const check_device *on, check_counts *c)
{
    error e = {0};
    trial.device = on->name;
    watch_faults(on_fault);
    kiln_status status = sample_on(
        there,
        &(runtime_setting){.backend = on->backend, .device_index = on->index, .threads = 1, .precision = KILN_F32},
        plugin, &e);
    watch_faults(SIG_DFL);
    if (check_found(c, status == KILN_OK, "device", "on %s, and not on the host, it failed after %zu steps: %s",
                    on->name, there->steps, e.message))
        compare(here, there, on->name, c);
}

static kiln_status on_host(sampling *here, const char *plugin, error *e)
{
    return sample_on(here, &(runtime_setting){.backend = backend_find("cpu"), .threads = 1, .precision = KILN_F32},
                     plugin, e);
}

static void sampling_free(sampling *s)
{
    for (size_t i = 0; i < KEPT; i++) mem_free(s->at[i].x);
}

void check_sampler_device(const sampling_plan *plan, const char *plugin, const check_device *on, check_counts *c)
{
    sampling here = {.row = plan->row, .options = plan->options, .sigma = plan->sigma, .n = plan->n}, there = here;
    error e = {0};
    if (!on) {
        check_left(c, "device equals host", "no device was asked for; --device NAME samples on it too");
        return;
    }
    if (!engine_host.ability(KILN_SAMPLING_ABILITY)) {
        check_left(c, "device equals host", "the plugin org.kiln.sampler is not there");
        return;
    }
    if (on_host(&here, plugin, &e) != KILN_OK)
        check_left(c, "device equals host", "on the host it failed: %s", e.message);
    else
        beside_device(&here, &there, plugin, on, c);
    sampling_free(&here), sampling_free(&there);
}

static const kiln_sampler *euler(void)
{
    for (size_t i = 0; i < sampler_api.sampler_count(); i++)
        if (strcmp(sampler_api.sampler_at(i)->name, "euler") == 0) return sampler_api.sampler_at(i);
    return NULL;
}

void check_guider_device(const kiln_guider *row, const void *settings, const char *plugin, const check_device *on,
                         check_counts *c)
{
    static const double sigma[] = {14.6, 7, 3, 1, 0.5, 0.2, 0.05, 0};
    sampling here = {.row = euler(), .guider = row, .settings = settings, .sigma = sigma}, there;
    error e = {0};
    here.n = sizeof sigma / sizeof *sigma - 1;
    if (!here.row || !engine_host.ability(KILN_SAMPLING_ABILITY)) {
        check_left(c, "a sampling", "the plugin org.kiln.sampler is not there");
        return;
    }
    there = here;
    if (check_found(c, on_host(&here, plugin, &e) == KILN_OK, "sampling",
                    "a sampling of a small network by euler failed after %zu steps: %s", here.steps, e.message)) {
        check_holds(c, "sampling", "%zu steps of a small network by euler, as KSampler takes them", here.steps);
        if (on) beside_device(&here, &there, plugin, on, c);
    }
    if (!on) check_left(c, "device equals host", "no device was asked for; --device NAME samples on it too");
    sampling_free(&here), sampling_free(&there);
}
