/* test_pipeline.c - checkpoint to picture through the plugins as they ship (.so) against tests/golden/pipeline*.
 *
 * The nodes are called one by one as a run would call them, everything in f32. Tolerances: sampling at CFG 7 on a
 * random network multiplies the 3e-7 of one evaluation; measured below 2e-6 on the final latent, times four and rounded
 * up. The picture is held to 1/255 on average, the bound of the parity table; bytes are compared exactly elsewhere.
 */
#include "golden_kit.h"

#include "plugin/abilities.h"
#include "tensor/value.h"

#include <dlfcn.h>

#define CONDITIONING 1e-5
#define LATENT 1e-5
#define PICTURE (1.0 / 255)

/* ---- plugins ---- */

static const kiln_plugin *plugins[8];
static size_t n_plugin;

static void load_plugin(const char *name)
{
    char path[600];
    snprintf(path, sizeof path, "%s/plugins/kiln-%s.so", test_build(), name);
    void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const kiln_plugin *p = so ? dlsym(so, "kiln_plugin_v1") : NULL;
    if (!CHECK_MSG(p != NULL, "%s", dlerror())) return;
    registry_owner_set(name, NULL);
    if (p->open) CHECK_EQ(p->open(rig_host()), KILN_OK);
    registry_owner_set(NULL, NULL);
    plugins[n_plugin++] = p;
}

static const kiln_node *node_of(const char *type)
{
    for (size_t i = 0; i < n_plugin; i++)
        for (uint32_t k = 0; k < plugins[i]->n_node; k++)
            if (strcmp(plugins[i]->node[k]->type, type) == 0) return plugins[i]->node[k];
    CHECK_MSG(0, "no node %s", type);
    return NULL;
}

/* ---- one call: parameters by name, the rest as declared ---- */

typedef struct {
    const char *name, *text;
    double number;
} setting;

static void put(char *params, const kiln_param *p, const setting *s)
{
    double number = s ? s->number : p->def;
    const char *text = s ? s->text : p->def_str;
    switch (p->type) {
    case KILN_P_INT: memcpy(params + p->offset, &(int64_t){(int64_t)number}, 8); break;
    case KILN_P_SEED: memcpy(params + p->offset, &(uint64_t){(uint64_t)number}, 8); break;
    case KILN_P_FLOAT: memcpy(params + p->offset, &number, 8); break;
    case KILN_P_BOOL:
    case KILN_P_ENUM: memcpy(params + p->offset, &(int32_t){(int32_t)number}, 4); break;
    default: memcpy(params + p->offset, &text, sizeof text);
    }
}

static int call_node(const char *type, const setting *set, size_t n_set, kiln_value *const *in, kiln_value **out)
{
    static _Alignas(16) char params[1024];
    const kiln_node *node = node_of(type);
    error e = {0};
    if (!node || !CHECK(node->params_size <= sizeof params)) return 0;
    for (uint32_t i = 0; i < node->n_param; i++) {
        const setting *given = NULL;
        for (size_t k = 0; k < n_set; k++)
            if (strcmp(set[k].name, node->param[i].name) == 0) given = &set[k];
        put(params, &node->param[i], given);
    }
    rig_ctx(); /* the environment exists */
    kiln_status status = ctx_call(&rig_environment, 0, type, "test", node, NULL, params, in, out, &e);
    return CHECK_MSG(status == KILN_OK, "%s", e.message);
}

#define CALL(type, in, out, ...)                                                                                       \
    call_node(type, (const setting[]){__VA_ARGS__}, sizeof((const setting[]){__VA_ARGS__}) / sizeof(setting), in, out)

/* ---- values ---- */

static const kiln_value_api *values(void) { return rig_host()->ability(KILN_VALUE_ABILITY); }

static kiln_value *empty_latent(const int64_t dim[4])
{
    kiln_value *samples = rig_host()->tensor_new(rig_ctx(), KILN_F32, KILN_CPU, 4, dim), *map = values()->new_map(NULL);
    kiln_tensor t = {.size = sizeof t};
    rig_host()->view(rig_ctx(), samples, &t);
    memset(t.data, 0, (size_t)(dim[0] * dim[1] * dim[2] * dim[3]) * sizeof(float));
    values()->map_set(map, "samples", samples);
    rig_host()->unref(samples);
    return map;
}

static const float *floats_of(const kiln_value *v, size_t n)
{
    kiln_tensor t = {.size = sizeof t};
    size_t count = 1;
    if (!v || rig_host()->view(rig_ctx(), v, &t) != KILN_OK) return NULL;
    for (uint32_t i = 0; i < t.rank; i++) count *= (size_t)t.dim[i];
    return CHECK_EQ(count, n) ? t.data : NULL;
}

static void check_conditioning(const kiln_value *v, array wanted, const char *what)
{
    const float *got = floats_of(values()->map_get(values()->list_at(v, 0), "tokens"), wanted.n);
    if (CHECK(got != NULL)) check_array(got, wanted.data, wanted.n, CONDITIONING, what, __FILE__, __LINE__);
    free(wanted.data);
}

/* The golden's x is in model space: latent times 0.18215. Its rows are steps; the last one is the result. */
static void check_latent(const kiln_value *latent, array x)
{
    size_t n = x.n / (size_t)x.dim[0];
    const float *got = floats_of(values()->map_get(latent, "samples"), n);
    float *scaled = malloc(n * sizeof *scaled);
    for (size_t i = 0; got && i < n; i++) scaled[i] = got[i] * 0.18215f;
    if (CHECK(got != NULL)) check_array(scaled, x.data + x.n - n, n, LATENT, "latent", __FILE__, __LINE__);
    free(scaled);
    free(x.data);
}

static void check_picture(const kiln_value *image, array u8)
{
    const float *got = floats_of(image, u8.n);
    double off = 0;
    for (size_t i = 0; got && i < u8.n; i++) {
        double byte = (double)(int)(got[i] * 255.0f); /* truncated, as the golden */
        off += byte > (double)u8.data[i] ? byte - (double)u8.data[i] : (double)u8.data[i] - byte;
    }
    CHECK(got != NULL);
    CHECK_MSG(off / (double)u8.n / 255 <= PICTURE, "the picture is off by %.4f/255 on average", off / (double)u8.n);
    free(u8.data);
}

/* ---- the pipeline ---- */

static void draw(const char *model, const char *goldens, const char *prompt, const char *negative,
                 const setting *sampling, size_t n_sampling, const int64_t dim[4])
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", test_root(), model);
    kiln_weights *g = open_weights(goldens);
    kiln_value *part[3] = {NULL}, *text[2] = {NULL}, *latent = NULL, *image = NULL, *start = empty_latent(dim);
    REQUIRE(g);
    REQUIRE(CALL("CheckpointLoaderSimple", NULL, part, {.name = "ckpt_name", .text = path}));
    REQUIRE(CALL("CLIPTextEncode", &part[1], &text[0], {.name = "text", .text = prompt}));
    REQUIRE(CALL("CLIPTextEncode", &part[1], &text[1], {.name = "text", .text = negative}));
    check_conditioning(text[0], golden(g, "positive"), "positive");
    check_conditioning(text[1], golden(g, "negative"), "negative");
    kiln_value *const sampler_in[] = {part[0], text[0], text[1], start};
    REQUIRE(call_node("KSampler", sampling, n_sampling, sampler_in, &latent));
    check_latent(latent, golden(g, "interpolated.x"));
    kiln_value *const decode_in[] = {latent, part[2]};
    REQUIRE(CALL("VAEDecode", decode_in, &image, {.name = "none"}));
    check_picture(image, golden(g, "interpolated.u8"));
    kiln_value *const all[] = {part[0], part[1], part[2], text[0], text[1], latent, image, start};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) rig_host()->unref(all[i]);
    weights_unref(g);
}

static void test_pipeline_euler(void)
{
    static const setting sampling[] = {{.name = "seed", .number = 8566257},
                                       {.name = "steps", .number = 4},
                                       {.name = "cfg", .number = 7},
                                       {.name = "sampler_name", .text = "euler"},
                                       {.name = "scheduler", .text = "normal"},
                                       {.name = "denoise", .number = 1}};
    draw("tests/golden/tiny-sd1", "tests/golden/pipeline.safetensors", "a photo of a (cute:1.3) cat",
         "blurry, low quality", sampling, 6, KILN_DIMS(1, 8, 10, 4));
}

static void test_pipeline_euler_ancestral_karras_batch_of_two(void)
{
    static const setting sampling[] = {{.name = "seed", .number = 8566257},
                                       {.name = "steps", .number = 4},
                                       {.name = "cfg", .number = 7},
                                       {.name = "sampler_name", .text = "euler_ancestral"},
                                       {.name = "scheduler", .text = "karras"},
                                       {.name = "denoise", .number = 1}};
    draw("tests/golden/tiny-sd1", "tests/golden/pipeline_karras.safetensors", "a photo of a (cute:1.3) cat",
         "blurry, low quality", sampling, 6, KILN_DIMS(2, 6, 5, 4));
}

/* The model that ships, from prompt to bytes (the golden: scripts/golden/pipeline.py --model
 * workflows/models/shapes-sd1). */
static void test_pipeline_shapes_sd1(void)
{
    static const setting sampling[] = {{.name = "seed", .number = 7},
                                       {.name = "steps", .number = 8},
                                       {.name = "cfg", .number = 4},
                                       {.name = "sampler_name", .text = "euler"},
                                       {.name = "scheduler", .text = "normal"},
                                       {.name = "denoise", .number = 1}};
    draw("workflows/models/shapes-sd1", "tests/golden/shapes.safetensors", "a red circle above a blue square", "",
         sampling, 6, KILN_DIMS(1, 16, 16, 4));
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"tokenizer", "clip", "unet", "vae", "sampler", "loader"};
    const size_t n = sizeof names / sizeof names[0];
    for (size_t i = 0; i < n; i++) load_plugin(names[i]);
    if (n_plugin < n) {
        printf("FAIL plugins: %zu of %zu opened\n", n_plugin, n);
        return 1;
    }
    static const test_case cases[] = {CASE(test_pipeline_euler),
                                      CASE(test_pipeline_euler_ancestral_karras_batch_of_two),
                                      CASE(test_pipeline_shapes_sd1)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
