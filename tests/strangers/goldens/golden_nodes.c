/* golden_nodes.c - a plugin for tests: latents, conditionings and pictures from the tensors of a .safetensors file, and
 * a node that holds a latent against one of them and reports on standard output: "golden NAME 3.2e-07", the largest
 * difference by the largest value. TestEntry takes what a conditioning has under a key. TestDump writes a latent's
 * bytes, TestBytes any tensor's, TestText prints a text. TestRoundTrip encodes and decodes.
 */
#include "kiln/autoencoder.h"
#include "kiln/files.h"
#include "kiln/kit.h"
#include "kiln/weights.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    const char *path, *name;
} tensor_params;

static const kiln_param tensor_param[] = {
    {.name = "file",
     .type = KILN_P_FILE,
     .flags = KILN_PARAM_REQUIRED,
     .offset = offsetof(tensor_params, path),
     .from = "input",
     .doc = "A .safetensors file."},
    {.name = "name",
     .type = KILN_P_STRING,
     .flags = KILN_PARAM_REQUIRED,
     .offset = offsetof(tensor_params, name),
     .doc = "Of the tensor."},
};

/* The tensor as a value, read when numbers are wanted. */
static kiln_value *tensor_of(const kiln_call *c)
{
    const kiln_weights_api *w = c->host->ability(KILN_WEIGHTS_ABILITY);
    const tensor_params *p = c->params;
    kiln_weight_info info = {.size = sizeof info};
    kiln_weights *set = w->open(c->ctx, p->path);
    kiln_value *value = NULL;
    kiln_tensor t;
    if (!set) return NULL;
    if (w->find(set, p->name, &info) != KILN_OK)
        c->host->fail(c->ctx, KILN_ERR_INVALID, "%s has no tensor '%s'", p->path, p->name);
    else if (kit_new_f32(c, info.rank, info.dim, &value, &t) == KILN_OK && !kit_estimating(c) &&
             w->read_f32(c->ctx, set, p->name, t.data) != KILN_OK)
        c->host->unref(value), value = NULL;
    w->unref(set);
    return value;
}

/* ---- TestLatent, TestImage, TestMask, TestTensor, TestConditioning ---- */

static const kiln_port latent_out[] = {{.name = "LATENT", .type = "LATENT", .doc = "The tensor as samples."}};
static const kiln_port image_out[] = {{.name = "IMAGE", .type = "IMAGE", .doc = "The tensor as it stands."}};
static const kiln_port mask_out[] = {{.name = "MASK", .type = "MASK", .doc = "The tensor as it stands."}};
static const kiln_port tensor_out[] = {{.name = "tensor", .type = "*", .doc = "The tensor as it stands."}};
static const kiln_port conditioning_out[] = {
    {.name = "CONDITIONING", .type = "CONDITIONING", .doc = "One entry with the tensor as tokens."}};

static kiln_status run_latent(const kiln_call *c)
{
    kiln_value *samples = tensor_of(c);
    return samples ? kit_latent(c, NULL, samples, &c->out[0]) : KILN_ERR_INVALID;
}

static kiln_status run_image(const kiln_call *c) { return (c->out[0] = tensor_of(c)) ? KILN_OK : KILN_ERR_INVALID; }

static kiln_status run_conditioning(const kiln_call *c)
{
    const kiln_value_api *v = kit_values(c);
    kiln_value *tokens = tensor_of(c), *map = v->new_map(c->ctx), *list = v->new_list(c->ctx);
    kiln_status status = tokens && map && list ? kit_set(c, map, "tokens", tokens) : KILN_ERR_INVALID;
    if (status == KILN_OK) status = v->list_push(list, map);
    c->host->unref(map);
    c->out[0] = list;
    return status;
}

static const kiln_node latent_node = {KIT_NODE("TestLatent", "Latent", "test", "A latent from a file."),
                                      KILN_ARRAY(out, latent_out), KIT_PARAMS(tensor_params, tensor_param),
                                      .run = run_latent};
static const kiln_node image_node = {KIT_NODE("TestImage", "Image", "test", "A picture from a file."),
                                     KILN_ARRAY(out, image_out), KIT_PARAMS(tensor_params, tensor_param),
                                     .run = run_image};
static const kiln_node mask_node = {KIT_NODE("TestMask", "Mask", "test", "A mask from a file."),
                                    KILN_ARRAY(out, mask_out), KIT_PARAMS(tensor_params, tensor_param),
                                    .run = run_image};
static const kiln_node tensor_node = {KIT_NODE("TestTensor", "Tensor", "test", "A tensor from a file."),
                                      KILN_ARRAY(out, tensor_out), KIT_PARAMS(tensor_params, tensor_param),
                                      .run = run_image};
static const kiln_node conditioning_node = {
    KIT_NODE("TestConditioning", "Conditioning", "test", "A conditioning from a file."),
    KILN_ARRAY(out, conditioning_out), KIT_PARAMS(tensor_params, tensor_param), .run = run_conditioning};

/* ---- TestBothEmbeds ---- */

static const kiln_port embeds_in[] = {
    {.name = "first", .type = "CLIP_VISION_OUTPUT", .doc = "Of one picture, or several."},
    {.name = "second", .type = "CLIP_VISION_OUTPUT", .doc = "The same."},
};
static const kiln_port embeds_out[] = {
    {.name = "CLIP_VISION_OUTPUT", .type = "CLIP_VISION_OUTPUT", .doc = "The pictures of both."}};

static kiln_status run_embeds(const kiln_call *c)
{
    const kiln_value_api *v = kit_values(c);
    kiln_tensor a, b, t;
    kiln_value *both;
    TRY(kit_f32(c, v->map_get(c->in[0], "image_embeds"), 2, "first", &a));
    TRY(kit_f32(c, v->map_get(c->in[1], "image_embeds"), 2, "second", &b));
    TRY(kit_new_f32(c, 2, (const int64_t[]){a.dim[0] + b.dim[0], a.dim[1]}, &both, &t));
    if (!kit_estimating(c)) {
        memcpy(t.data, a.data, kit_count(&a) * sizeof(float));
        memcpy(kit_at(t.data, kit_count(&a)), b.data, kit_count(&b) * sizeof(float));
    }
    c->out[0] = v->new_map(c->ctx);
    return kit_set(c, c->out[0], "image_embeds", both);
}

static const kiln_node embeds_node = {
    KIT_NODE("TestBothEmbeds", "Both", "test", "The embeddings of two lots of pictures, one below the other."),
    KILN_ARRAY(in, embeds_in), KILN_ARRAY(out, embeds_out), .run = run_embeds};

/* ---- TestEntry ---- */

typedef struct {
    const char *key;
} entry_params;
static const kiln_param entry_param[] = {{.name = "key",
                                          .type = KILN_P_STRING,
                                          .flags = KILN_PARAM_REQUIRED,
                                          .offset = offsetof(entry_params, key),
                                          .doc = "Of the first entry."}};
static const kiln_port entry_in[] = {{.name = "conditioning", .type = "CONDITIONING", .doc = "Of an encoder."}};

static kiln_status run_entry(const kiln_call *c)
{
    const kiln_value_api *v = kit_values(c);
    const char *key = ((const entry_params *)c->params)->key;
    kiln_value *item = v->map_get(v->list_at(c->in[0], 0), key);
    if (!item) return c->host->fail(c->ctx, KILN_ERR_INVALID, "the conditioning has no '%s'", key);
    c->out[0] = c->host->ref(item);
    return KILN_OK;
}

static const kiln_node entry_node = {KIT_NODE("TestEntry", "Entry", "test", "What a conditioning has under a key."),
                                     KILN_ARRAY(in, entry_in), KILN_ARRAY(out, tensor_out),
                                     KIT_PARAMS(entry_params, entry_param), .run = run_entry};

/* ---- TestGolden ---- */

static const kiln_port golden_in[] = {
    {.name = "value",
     .type = "*",
     .doc = "A LATENT, a CLIP_VISION_OUTPUT, a CONDITIONING (its tokens), or a tensor such as an IMAGE."}};

/* The tensor that a value is about. */
static const kiln_value *tensor_in(const kiln_call *c, const kiln_value *value)
{
    static const char *const key[] = {"samples", "image_embeds", "tokens"};
    const kiln_value_api *v = kit_values(c);
    const kiln_value *map = v->count(value) ? v->list_at(value, 0) : NULL, *found = NULL;
    for (size_t i = 0; i < COUNT(key) && !found; i++) found = v->map_get(map ? map : value, key[i]);
    return found ? found : value;
}

static double error_of(const float *got, const float *want, size_t n)
{
    double most = 0, largest = 1e-30;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)got[i] - (double)want[i]);
        most = d > most || isnan(d) ? d : most;
        largest = fmax(largest, fabs((double)want[i]));
    }
    return most / largest;
}

static kiln_status run_golden(const kiln_call *c)
{
    const tensor_params *p = c->params;
    const kiln_value *value = tensor_in(c, c->in[0]);
    kiln_value *golden = tensor_of(c);
    kiln_tensor got, want;
    if (!golden) return KILN_ERR_INVALID;
    kit_tensor_clear(&got), kit_tensor_clear(&want);
    kiln_status status = c->host->view(c->ctx, golden, &want);
    if (status == KILN_OK) status = kit_f32(c, value, want.rank, "what is held against a golden", &got);
    for (uint32_t i = 0; status == KILN_OK && i < want.rank; i++)
        if (got.dim[i] != want.dim[i])
            status = c->host->fail(c->ctx, KILN_ERR_INVALID, "golden '%s': dimension %u is %lld, not %lld", p->name, i,
                                   (long long)got.dim[i], (long long)want.dim[i]);
    if (status == KILN_OK) {
        printf("golden %s %.1e\n", p->name, error_of(got.data, want.data, kit_count(&want)));
        fflush(stdout);
    }
    c->host->unref(golden);
    return status;
}

static const kiln_node golden_node = {
    KIT_NODE_FLAGS(KILN_NODE_OUTPUT, 1, "TestGolden", "Golden", "test", "Holds a result against a file."),
    KILN_ARRAY(in, golden_in), KIT_PARAMS(tensor_params, tensor_param), .run = run_golden};

/* ---- TestDump ---- */

static const kiln_port dump_in[] = {{.name = "samples", .type = "LATENT", .doc = "To write: samples_00001_.f32."}};

static kiln_status run_dump(const kiln_call *c)
{
    const kiln_files_api *files = c->host->ability(KILN_FILES_ABILITY);
    kiln_tensor t;
    TRY(kit_samples(c, c->in[0], &t));
    kiln_file *f = files->create(c->ctx, KILN_FILES_OUTPUT, "samples", "f32");
    if (!f) return KILN_ERR_IO;
    TRY(files->write(f, t.data, kit_count(&t) * sizeof(float)));
    return files->commit(f, NULL);
}

static const kiln_node dump_node = {
    KIT_NODE_FLAGS(KILN_NODE_OUTPUT, 1, "TestDump", "Dump", "test", "Writes a latent's numbers as they are."),
    KILN_ARRAY(in, dump_in), .run = run_dump};

/* ---- TestBytes, TestText: a line of its own, whatever a progress line beside it has come to ---- */

typedef struct {
    const char *name;
} name_params;
static const kiln_param name_param[] = {{.name = "name",
                                         .type = KILN_P_STRING,
                                         .flags = KILN_PARAM_REQUIRED,
                                         .offset = offsetof(name_params, name),
                                         .doc = "Of the file, or of the line."}};
static const kiln_port bytes_in[] = {{.name = "value", .type = "*", .doc = "A tensor, or what TestGolden takes."}};
static const kiln_port text_in[] = {{.name = "text", .type = "STRING", .doc = "To print: \"text NAME ...\"."}};

static kiln_status run_bytes(const kiln_call *c)
{
    const kiln_files_api *files = c->host->ability(KILN_FILES_ABILITY);
    kiln_tensor t;
    TRY(kit_f32_between(c, tensor_in(c, c->in[0]), 1, KILN_MAX_RANK, "what is written", &t));
    kiln_file *f = files->create(c->ctx, KILN_FILES_OUTPUT, ((const name_params *)c->params)->name, "f32");
    if (!f) return KILN_ERR_IO;
    TRY(files->write(f, t.data, kit_count(&t) * sizeof(float)));
    return files->commit(f, NULL);
}

static kiln_status run_text(const kiln_call *c)
{
    const char *text = kit_values(c)->get_string(c->in[0], NULL);
    printf("\ntext %s %s\n", ((const name_params *)c->params)->name, text ? text : "");
    fflush(stdout);
    return KILN_OK;
}

static const kiln_node bytes_node = {
    KIT_NODE_FLAGS(KILN_NODE_OUTPUT, 1, "TestBytes", "Bytes", "test", "Writes a tensor's numbers as they are."),
    KILN_ARRAY(in, bytes_in), KIT_PARAMS(name_params, name_param), .run = run_bytes};
static const kiln_node text_node = {KIT_NODE_FLAGS(KILN_NODE_OUTPUT, 1, "TestText", "Text", "test", "Prints a text."),
                                    KILN_ARRAY(in, text_in), KIT_PARAMS(name_params, name_param), .run = run_text};

/* ---- TestRoundTrip: pictures through a VAE and back, by kiln.vae/1 ---- */

static const kiln_port trip_in[] = {{.name = "pixels", .type = "IMAGE", .doc = "Pictures, or a video's frames."},
                                    {.name = "vae", .type = "VAE", .doc = "That takes them."}};
static const kiln_port trip_out[] = {{.name = "IMAGE", .type = "IMAGE", .doc = "What is left of them."}};

static kiln_status run_trip(const kiln_call *c)
{
    const kiln_vae_api *vae = c->host->ability(KILN_VAE_ABILITY);
    kiln_value *latent = NULL;
    if (!vae) return c->host->fail(c->ctx, KILN_ERR_UNSUPPORTED, "nobody offers " KILN_VAE_ABILITY);
    TRY(vae->encode(c, c->in[1], c->in[0], &latent));
    kiln_status status = vae->decode(c, c->in[1], latent, &c->out[0]);
    c->host->unref(latent);
    return status;
}

static const kiln_node trip_node = {
    KIT_NODE_FLAGS(KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_DEVICE | KILN_NODE_ESTIMATES, 1, "TestRoundTrip",
                   "Round Trip", "test", "Encodes and decodes."),
    KILN_ARRAY(in, trip_in), KILN_ARRAY(out, trip_out), .run = run_trip};

KILN_PLUGIN("org.example.golden", "1.0.0", "MIT", &latent_node, &image_node, &mask_node, &tensor_node,
            &conditioning_node, &embeds_node, &entry_node, &golden_node, &dump_node, &bytes_node, &text_node,
            &trip_node);
