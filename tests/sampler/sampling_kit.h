/* sampling_kit.h - the sampling nodes called as a run calls them, on a network small enough to be written down:
 *
 *     p = tanh(x / 2 + c + [cos t, cos(t/100), sin t, sin(t/100)])    per cell of 4 channels, c the first token
 *
 * as scripts/golden/denoise.py has it. Latents are 2 pictures of 2x2 cells. Parameters are "name=value; name=value".
 */
#ifndef KILN_TESTS_SAMPLING_KIT_H
#define KILN_TESTS_SAMPLING_KIT_H

#include "harness.h"
#include "rig.h"

#include "kiln/standard_sampling.h"
#include "model_sampling.h"
#include "plugin/abilities.h"
#include "sampler_nodes.h"
#include "tensor/value.h"
#include "weights/weights.h"
#include "param/param.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELLS = 4, CHANNELS = 4, PICTURES = 2, NUMBERS = PICTURES * CELLS * CHANNELS };

extern const kiln_plugin kiln_plugin_v1;
static error call_why;

static inline const kiln_value_api *values(void) { return rig_host()->ability(KILN_VALUE_ABILITY); }
static inline void drop(kiln_value *v) { rig_host()->unref(v); }

/* ---- the network ---- */

static inline kiln_t network_record(const kiln_denoiser *d, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                                    const kiln_denoise_inputs *in)
{
    int64_t n[KILN_MAX_RANK] = {0};
    (void)d, (void)w;
    ops->shape(p, in->x, n, KILN_MAX_RANK);
    const int64_t beside[4] = {n[0], 1, 1, CHANNELS};
    kiln_timestep_embedding cos_first = {.size = sizeof cos_first, .cos_first = 1};
    kiln_t t = ops->reshape(p, ops->timestep_embedding(p, in->timestep, CHANNELS, &cos_first), 4, beside);
    kiln_t c = ops->reshape(p, ops->slice(p, kiln_input(in->input, in->n_input, "context"), 1, 0, 1), 4, beside);
    kiln_t x = ops->affine(p, in->x, 0.5f, 0);
    return ops->act(p, ops->add(p, ops->add(p, x, c), t), KILN_ACT_TANH);
}

static double training_table[1000];

static inline const double *table(void)
{
    double kept = 1;
    for (int i = 0; i < 1000; i++) {
        double root = sqrt(0.00085) + (sqrt(0.012) - sqrt(0.00085)) * i / 999;
        kept *= 1 - root * root;
        training_table[i] = sqrt((1 - kept) / kept);
    }
    return training_table;
}

static const double network_scale = 0.5, network_shift = 0.1;
static const kiln_latent_scaling network_scaling = {sizeof network_scaling, 1, &network_scale, &network_shift};
static const kiln_latent_format network_latent = {
    .size = sizeof network_latent, .channels = CHANNELS, .factor = 8, .scaling = &network_scaling};
static const kiln_input_spec network_input[] = {
    {.size = sizeof *network_input, .kind = KILN_INPUT_TOKENS, .name = "context", .key = "tokens", .width = CHANNELS}};
static kiln_standard_sampling network_sampling;
static kiln_denoiser network = {.size = sizeof network,
                                .family = "written-down",
                                .latent = &network_latent,
                                .sampling = &network_sampling.base,
                                KILN_ARRAY(input, network_input),
                                .record = network_record};

static inline kiln_value *network_model(void)
{
    const kiln_model_api *models = rig_host()->ability(KILN_MODEL_ABILITY);
    char path[600];
    error e = {0};
    snprintf(path, sizeof path, "%s/tests/golden/timestep.safetensors", test_root());
    kiln_weights *w = weights_open(path, &e); /* any set will do: the network asks for none of it */
    kiln_standard_sampling_init(
        &network_sampling, &(kiln_sampling_row){.prediction = KILN_PREDICT_EPS, .n_sigma = 1000, .sigma = table()});
    kiln_value *v =
        models->model_new(rig_ctx(), &(kiln_model){.size = sizeof(kiln_model), .denoiser = &network, .weights = w});
    if (!CHECK_MSG(v != NULL, "%s %s", rig_message(), e.message)) exit(1);
    weights_unref(w);
    return v;
}

/* ---- values ---- */

static inline kiln_value *tensor_value(uint32_t rank, const int64_t *dim, const float *data)
{
    kiln_tensor t = {.size = sizeof t};
    kiln_value *v = rig_host()->tensor_new(NULL, KILN_F32, KILN_CPU, rank, dim); /* with data in an estimate too */
    size_t n = 1;
    for (uint32_t i = 0; i < rank; i++) n *= (size_t)dim[i];
    if (!CHECK(v && rig_host()->view(NULL, v, &t) == KILN_OK)) exit(1);
    if (n) memcpy(t.data, data, n * sizeof *data);
    return v;
}

static inline kiln_value *map_of(const char *key, kiln_value *item)
{
    kiln_value *map = values()->new_map(NULL);
    CHECK_EQ(values()->map_set(map, key, item), KILN_OK);
    drop(item);
    return map;
}

/* sin(frequency i + phase), as the script's pattern() */
static inline void pattern(float *out, double frequency, double phase)
{
    for (int i = 0; i < NUMBERS; i++) out[i] = (float)sin(frequency * i + phase);
}

static inline kiln_value *latent_of(const float *samples)
{
    return map_of("samples", tensor_value(4, (const int64_t[]){PICTURES, 2, 2, CHANNELS}, samples));
}

static inline kiln_value *empty_latent(void)
{
    static const float zero[NUMBERS];
    return latent_of(zero);
}

/* NOISE that is a pattern and not a seed's. */
static inline kiln_value *pattern_noise(void)
{
    float data[NUMBERS];
    pattern(data, 1.7, 0.3);
    kiln_value *noise = map_of("samples", tensor_value(4, (const int64_t[]){PICTURES, 2, 2, CHANNELS}, data)),
               *seed = values()->new_int(NULL, 5);
    CHECK_EQ(values()->map_set(noise, "seed", seed), KILN_OK);
    drop(seed);
    return noise;
}

static inline kiln_value *conditioning_of(const float token[CHANNELS])
{
    kiln_value *list = values()->new_list(NULL),
               *entry = map_of("tokens", tensor_value(3, (const int64_t[]){1, 1, CHANNELS}, token));
    CHECK_EQ(values()->list_push(list, entry), KILN_OK);
    drop(entry);
    return list;
}

static inline kiln_value *positive(void) { return conditioning_of((const float[]){0.5f, -0.25f, 0.75f, 0.125f}); }
static inline kiln_value *negative(void) { return conditioning_of((const float[]){-0.5f, 0.25f, 0.25f, -0.625f}); }
static inline kiln_value *third(void) { return conditioning_of((const float[]){0, 0.5f, -0.5f, 0.25f}); }

static inline kiln_value *sigmas_of(size_t n, const double *sigma)
{
    float data[64];
    for (size_t i = 0; i < n; i++) data[i] = (float)sigma[i];
    return tensor_value(1, (const int64_t[]){(int64_t)n}, data);
}

static inline const float *floats_of(const kiln_value *v, size_t *n)
{
    kiln_tensor t = {.size = sizeof t};
    *n = 0;
    if (!v || rig_host()->view(rig_ctx(), v, &t) != KILN_OK) return NULL;
    *n = 1;
    for (uint32_t i = 0; i < t.rank; i++) *n *= (size_t)t.dim[i];
    return t.data;
}

static inline const float *samples_of(const kiln_value *latent)
{
    size_t n;
    const float *x = floats_of(values()->map_get(latent, "samples"), &n);
    if (!CHECK_EQ(n, NUMBERS)) exit(1);
    return x;
}

static inline int same_latent(const kiln_value *a, const kiln_value *b)
{
    size_t n = 0, m = 0;
    const float *x = floats_of(a ? values()->map_get(a, "samples") : NULL, &n),
                *y = floats_of(b ? values()->map_get(b, "samples") : NULL, &m);
    return x && y && n == m && memcmp(x, y, n * sizeof *x) == 0;
}

/* ---- calls ---- */

/* One setting into the node's struct, which may refuse it; the program ends when the node has no such parameter. */
static inline kiln_status call_set(const kiln_node *type, char *one, arena *strings, void *params, error *why)
{
    char *name = one + strspn(one, " "), *value = strchr(name, '=');
    uint32_t i = 0;
    if (!value) return KILN_OK;
    *value++ = '\0';
    while (i < type->n_param && strcmp(type->param[i].name, name) != 0) i++;
    if (!CHECK_MSG(i < type->n_param, "%s has no parameter '%s'", type->type, name)) exit(1);
    param_value written = param_written(value, 0);
    return param_put(&type->param[i], &written, &registry_names, strings, params, why);
}

/* Parameters, check() and run(), as a run calls them. The inputs stay the caller's. On failure outputs are NULL and
 * call_why says why. */
static inline kiln_status call(const kiln_node *type, const char *settings, kiln_value *const *in, kiln_value **out)
{
    static _Alignas(16) unsigned char params[512];
    arena strings = {0};
    char text[2048];
    if (!CHECK(type->params_size <= sizeof params)) exit(1);
    memset(params, 0, sizeof params);
    for (uint32_t i = 0; i < type->n_param; i++) (void)param_default(&type->param[i], &strings, params);
    snprintf(text, sizeof text, "%s", settings);
    rig_ctx(); /* the environment exists */
    call_why = (error){0};
    kiln_status status = KILN_OK;
    for (char *rest = text, *one; status == KILN_OK && (one = strsep(&rest, ";")) != NULL;)
        status = call_set(type, one, &strings, params, &call_why);
    const ctx_checking how = {.params = params, .wanted = UINT64_MAX, .env = &rig_environment};
    if (status == KILN_OK) status = ctx_check("test", "sampler", type, &how, &call_why);
    if (status == KILN_OK)
        status = ctx_call(&rig_environment, 0, "test", "sampler", type, NULL, params, in, out, &call_why);
    arena_free(&strings);
    return status;
}

/* The only output of a node that succeeds. */
static inline kiln_value *made(const kiln_node *type, const char *settings, kiln_value *a, kiln_value *b)
{
    kiln_value *in[4] = {a, b}, *out[2] = {NULL};
    CHECK_MSG(call(type, settings, in, out) == KILN_OK, "%s: %s", type->type, call_why.message);
    return out[0];
}

/* The call fails and says `part`. */
static inline int refused(const kiln_node *type, const char *settings, kiln_value *const *in, const char *part)
{
    kiln_value *out[2] = {NULL};
    int ok = CHECK_MSG(call(type, settings, in, out) != KILN_OK, "%s %s was accepted", type->type, settings);
    ok = ok && CHECK_MSG(strstr(call_why.message, part) != NULL, "%s: '%s' does not say '%s'", type->type,
                         call_why.message, part);
    drop(out[0]), drop(out[1]);
    return ok;
}

static inline void open_plugin(void)
{
    registry_owner_set("sampler", NULL);
    CHECK_EQ(kiln_plugin_v1.open(rig_host()), KILN_OK);
    registry_owner_set(NULL, NULL);
}

/* What a sampling is made of; what is NULL is the usual: pattern noise, empty latent, euler, 4 normal levels of the
 * model. */
typedef struct {
    kiln_value *model, *guider, *noise, *sampler, *sigmas, *latent;
} parts;

static inline kiln_value *cfg_guider(kiln_value *model, const char *settings)
{
    kiln_value *in[3] = {model, positive(), negative()}, *out[1] = {NULL};
    CHECK_EQ(call(&node_cfg_guider, settings, in, out), KILN_OK);
    drop(in[1]), drop(in[2]);
    return out[0];
}

/* Runs SamplerCustomAdvanced and takes all of `p`. */
static inline kiln_status sample(parts p, kiln_value *out[2])
{
    if (!p.guider) p.guider = cfg_guider(p.model, "cfg=3");
    if (!p.noise) p.noise = pattern_noise();
    if (!p.latent) p.latent = empty_latent();
    if (!p.sampler) p.sampler = made(&node_sampler_select, "sampler_name=euler", NULL, NULL);
    if (!p.sigmas) p.sigmas = made(&node_basic_scheduler, "scheduler=normal; steps=4", p.model, NULL);
    kiln_value *in[] = {p.noise, p.guider, p.sampler, p.sigmas, p.latent};
    kiln_status status = call(&node_sampler_custom_advanced, "", in, out);
    for (int i = 0; i < 5; i++) drop(in[i]);
    drop(p.model);
    return status;
}

#endif
