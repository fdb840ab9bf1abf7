/* parity.c - runs a model folder's text encoders, UNet and VAE through the real plugins on the inputs of a reference
 * file (scripts/parity_full.py says which), and writes what they made. What the model has and the reference has not is
 * left out.
 *
 *     parity PLUGINS MODEL REFERENCE GOT f32|bf16      KILN_PARITY_DEVICE=cuda: on another device than the processor
 */
#include "backend/choose.h"
#include "base/memory_alloc.h"
#include "plugin/abilities.h"
#include "plugin/catalog.h"
#include "plugin/ctx.h"
#include "rig.h"
#include "tensor/dtype.h"
#include "weights/safetensors_write.h"
#include "weights/weights.h"

#include <string.h>

enum { RESULTS_MAX = 16, INPUTS_MAX = 16 };

static struct {
    safetensors_source item[RESULTS_MAX];
    int64_t dim[RESULTS_MAX][KILN_MAX_RANK];
    char name[RESULTS_MAX][64];
    size_t n;
} results;

static kiln_weights *reference;

static int stop(const char *what, const char *why)
{
    fprintf(stderr, "parity: %s: %s\n", what, why);
    exit(1);
}

static kiln_tensor window(uint32_t dtype, uint32_t rank, const int64_t *dim, void *data)
{
    kiln_tensor t = {.size = sizeof t, .dtype = dtype, .device = KILN_CPU, .rank = rank, .dim = dim, .data = data};
    return t;
}

static int is_in_reference(const char *name)
{
    kiln_weight_info info = {.size = sizeof info};
    return weights_find(reference, name, &info) == KILN_OK;
}

/* A reference tensor as f32. */
static float *input(const char *name, kiln_weight_info *info)
{
    error e = {0};
    *info = (kiln_weight_info){.size = sizeof *info};
    if (weights_find(reference, name, info) != KILN_OK) stop(name, "is not in the reference");
    size_t n = info->bytes / dtype_size(info->dtype);
    float *data = mem_alloc(n * sizeof *data);
    if (info->dtype == KILN_F32 && weights_read_f32(reference, name, data, &e) == KILN_OK) return data;
    mem_free(data);
    return NULL;
}

/* A result of this name, unless the reference has none. */
static void output(const kiln_ops *ops, kiln_program *p, const char *name, kiln_t t)
{
    if (!is_in_reference(name)) return;
    size_t i = results.n++, count = 1;
    snprintf(results.name[i], sizeof results.name[i], "%s", name);
    uint32_t rank = ops->shape(p, t, results.dim[i], KILN_MAX_RANK);
    for (uint32_t k = 0; k < rank; k++) count *= (size_t)results.dim[i][k];
    results.item[i] = (safetensors_source){.name = results.name[i],
                                           .dtype = KILN_F32,
                                           .rank = rank,
                                           .dim = results.dim[i],
                                           .data = mem_alloc(count * sizeof(float))};
    ops->output(p, results.name[i], t);
}

static void run(const kiln_ops *ops, kiln_program *p, const kiln_bind *in, size_t n, size_t first)
{
    kiln_bind out[RESULTS_MAX];
    for (size_t i = first; i < results.n; i++)
        out[i - first] =
            (kiln_bind)KILN_BIND(results.item[i].name, window(KILN_F32, results.item[i].rank, results.item[i].dim,
                                                              (void *)(uintptr_t)results.item[i].data));
    if (ops->plan(&rig_call, p, NULL) != KILN_OK || ops->run(&rig_call, p, in, n, out, results.n - first) != KILN_OK)
        stop("program", rig_message());
    ops->program_free(p);
}

static kiln_value *open_model(kiln_weights *set, const char *kind)
{
    const kiln_model_family *f = model_api.detect(kind, set);
    kiln_value *v = f ? f->open(rig_host(), rig_ctx(), set) : NULL;
    if (!v) stop("model", f ? rig_message() : "no family knows it");
    return v;
}

static kiln_program *fresh(const kiln_ops *ops, const char *name)
{
    kiln_program *p =
        ops->program_new(rig_ctx(), &(kiln_program_options){.size = sizeof(kiln_program_options), .name = name});
    if (!p) stop(name, rig_message());
    return p;
}

/* The ids of `name` and where each row first ends: CLIP's end token is the highest of its tokens. */
static int32_t *tokens_of(const char *name, kiln_weight_info *info, int32_t **end)
{
    *info = (kiln_weight_info){.size = sizeof *info};
    if (weights_find(reference, name, info) != KILN_OK) stop(name, "is not in the reference");
    const char *stored = weights_map(reference, name, NULL);
    size_t count = (size_t)(info->dim[0] * info->dim[1]);
    int32_t *ids = mem_calloc(count, sizeof *ids);
    *end = mem_calloc((size_t)info->dim[0], sizeof **end);
    for (size_t i = 0; i < count; i++) {
        int64_t id;
        memcpy(&id, stored + 8 * i, 8);
        ids[i] = (int32_t)id;
    }
    for (int64_t n = 0; n < info->dim[0]; n++) {
        const int32_t *row = ids + n * info->dim[1];
        for (int64_t t = 1; t < info->dim[1]; t++)
            if (row[t] > row[(*end)[n]]) (*end)[n] = (int32_t)t;
    }
    return ids;
}

static void encode(const kiln_ops *ops, const kiln_clip_encoder *one)
{
    char ids_name[64], tokens_name[64], pooled_name[64];
    snprintf(ids_name, sizeof ids_name, "text.%s.ids", one->name);
    snprintf(tokens_name, sizeof tokens_name, "text.%s.tokens", one->name);
    snprintf(pooled_name, sizeof pooled_name, "text.%s.pooled", one->name);
    kiln_weight_info info;
    int32_t *end, *ids = tokens_of(ids_name, &info, &end);
    size_t first = results.n;
    kiln_program *p = fresh(ops, ids_name);
    kiln_text_inputs in = {.size = sizeof in,
                           .layer = one->layer ? one->layer : one->encoder->default_layer,
                           .ids = ops->input(p, "ids", KILN_I32, 2, info.dim),
                           .end = ops->input(p, "end", KILN_I32, 1, info.dim)};
    kiln_text_features f = {.size = sizeof f};
    one->encoder->record(one->encoder, ops, p, one->weights, &in, &f);
    output(ops, p, tokens_name, f.tokens);
    if (f.pooled.id) output(ops, p, pooled_name, f.pooled);
    run(ops, p,
        (kiln_bind[]){KILN_BIND("ids", window(KILN_I32, 2, info.dim, ids)),
                      KILN_BIND("end", window(KILN_I32, 1, info.dim, end))},
        2, first);
    mem_free(ids), mem_free(end);
}

static void text(const kiln_ops *ops, kiln_weights *set)
{
    kiln_value *v = open_model(set, KILN_FAMILY_TEXT_ENCODER);
    const kiln_clip *clip = model_api.clip(rig_ctx(), v);
    for (uint32_t i = 0; i < clip->n_encoder; i++) encode(ops, kiln_clip_encoder_at(clip, i));
    engine_host.unref(v);
}

/* Inputs of the network: those of the reference, by name. */
static struct {
    kiln_bind bind[INPUTS_MAX];
    kiln_weight_info info[INPUTS_MAX];
    kiln_named_tensor named[INPUTS_MAX];
    float *data[INPUTS_MAX];
    size_t n;
} given;

static kiln_t give(const kiln_ops *ops, kiln_program *p, const char *name)
{
    char full[64];
    size_t i = given.n++;
    snprintf(full, sizeof full, "unet.%s", name);
    given.data[i] = input(full, &given.info[i]);
    kiln_weight_info *info = &given.info[i];
    kiln_t t = ops->input(p, name, KILN_F32, info->rank, info->dim);
    given.bind[i] = (kiln_bind)KILN_BIND(name, window(KILN_F32, info->rank, info->dim, given.data[i]));
    given.named[i] = (kiln_named_tensor){.size = sizeof given.named[i], .name = name, .tensor = t};
    return t;
}

static void unet(const kiln_ops *ops, kiln_weights *set)
{
    kiln_value *v = open_model(set, KILN_FAMILY_DENOISER);
    const kiln_denoiser *d = model_api.model(rig_ctx(), v)->denoiser;
    size_t first = results.n;
    kiln_program *p = fresh(ops, "unet");
    kiln_denoise_inputs in = {.size = sizeof in, .x = give(ops, p, "x"), .timestep = give(ops, p, "t")};
    for (uint32_t i = 0; i < d->n_input; i++) {
        const kiln_input_spec *spec = (const void *)((const char *)d->input + i * d->input_stride);
        char full[64];
        snprintf(full, sizeof full, "unet.%s", spec->name);
        if (!(spec->flags & KILN_INPUT_OMITTED) || is_in_reference(full)) give(ops, p, spec->name);
    }
    in.input = given.named + 2, in.n_input = (uint32_t)given.n - 2;
    output(ops, p, "unet.out", d->record(d, ops, p, model_api.model(rig_ctx(), v)->weights, &in));
    run(ops, p, given.bind, given.n, first);
    for (size_t i = 0; i < given.n; i++) mem_free(given.data[i]);
    engine_host.unref(v);
}

static void vae(const kiln_ops *ops, kiln_weights *set)
{
    kiln_value *v = open_model(set, KILN_FAMILY_AUTOENCODER);
    const kiln_vae *m = model_api.vae(rig_ctx(), v);
    kiln_weight_info li, ii;
    float *latent = input("vae.latent", &li), *image = input("vae.image", &ii);
    size_t first = results.n;
    kiln_program *p = fresh(ops, "decode");
    output(ops, p, "vae.decode.out",
           m->autoencoder->record_decode(m->autoencoder, ops, p, m->weights,
                                         ops->input(p, "latent", KILN_F32, 4, li.dim)));
    run(ops, p, (kiln_bind[]){KILN_BIND("latent", window(KILN_F32, 4, li.dim, latent))}, 1, first);
    first = results.n;
    p = fresh(ops, "encode");
    kiln_latent_distribution d = {.size = sizeof d};
    m->autoencoder->record_encode(m->autoencoder, ops, p, m->weights, ops->input(p, "image", KILN_F32, 4, ii.dim), &d);
    output(ops, p, "vae.encode.mean", d.mean);
    run(ops, p, (kiln_bind[]){KILN_BIND("image", window(KILN_F32, 4, ii.dim, image))}, 1, first);
    mem_free(latent), mem_free(image);
    engine_host.unref(v);
}

int main(int argc, char **argv)
{
    error e = {0};
    if (argc != 6) return fprintf(stderr, "usage: parity PLUGINS MODEL REFERENCE GOT f32|bf16\n"), 2;
    rig_ctx();
    runtime_free(rig_runtime);
    runtime_setting setting = {.precision = dtype_from_name(argv[5])};
    const char *device = getenv("KILN_PARITY_DEVICE");
    if (backend_choose(device ? device : "cpu", &setting.backend, &setting.device_index, &e) != KILN_OK)
        stop("device", e.message);
    rig_runtime = runtime_new(&setting, &e);
    if (!rig_runtime) stop("runtime", e.message);
    rig_environment = (call_environment){.runtime = rig_runtime, .pool = runtime_pool(rig_runtime)};
    catalog *c = catalog_open(argv[1], &e);
    kiln_weights *set = weights_open(argv[2], &e);
    reference = weights_open(argv[3], &e);
    if (!c || !set || !reference) stop("cannot open", e.message);
    text(&ops_api, set);
    unet(&ops_api, set);
    vae(&ops_api, set);
    if (safetensors_write(argv[4], results.item, results.n, NULL, 0, &e) != KILN_OK) stop("result", e.message);
    for (size_t i = 0; i < results.n; i++) mem_free((void *)(uintptr_t)results.item[i].data);
    weights_unref(reference);
    weights_unref(set);
    catalog_close(c);
    return 0;
}
