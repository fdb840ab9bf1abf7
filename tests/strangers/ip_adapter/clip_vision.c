/* clip_vision.c - CLIP's vision encoder as transformers' CLIPVisionModelWithProjection stores it, a family of the kind
 * "vision".
 *
 *   tokens = [class, patches] + positions; norm; layers of (norm, attention, + ; norm, MLP, +); norm of token 0; linear
 *
 * Its value is a CLIP_VISION: a kiln_network with one input, "pixels" (preprocessed), one result, "image_embeds", and
 * the facts a node needs for preprocessing: image_size, mean, std.
 */
#include "ip_adapter.h"
#include "kiln/checkpoint.h"
#include "kiln/config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { NAME_LENGTH = 160 };

typedef struct {
    kiln_network network;
    kiln_input_spec input[1];
    int64_t width, layers, heads, size, patch, projection;
    float eps;
    const kiln_host *host; /* to drop the facts */
    kiln_value *facts;
    char family[120];
} vision;

typedef struct {
    const vision *v;
    const kiln_ops *ops;
    kiln_program *p;
    kiln_weights *w;
} recorder;

int64_t dim_at(const kiln_ops *ops, kiln_program *p, kiln_t x, uint32_t i)
{
    int64_t dim[KILN_MAX_RANK] = {0};
    return i < ops->shape(p, x, dim, KILN_MAX_RANK) ? dim[i] : 0;
}

/* ---- recording ---- */

static kiln_t vector(const recorder *r, const char *name, const char *part, int64_t n)
{
    char full[NAME_LENGTH];
    snprintf(full, sizeof full, "%.110s.%.40s", name, part);
    return r->ops->weight(r->p, r->w, full, 1, &n);
}

static kiln_t norm(const recorder *r, const char *name, kiln_t x)
{
    int64_t n = r->v->width;
    return r->ops->layer_norm(r->p, x, r->v->eps, vector(r, name, "weight", n), vector(r, name, "bias", n));
}

static kiln_t linear(const recorder *r, const char *name, kiln_t x, int64_t in, int64_t out)
{
    char full[NAME_LENGTH];
    snprintf(full, sizeof full, "%.120s.weight", name);
    return r->ops->linear(r->p, x, r->ops->weight(r->p, r->w, full, 2, KILN_DIMS(out, in)),
                          vector(r, name, "bias", out));
}

static kiln_t layer(const recorder *r, int64_t number, kiln_t x)
{
    const kiln_ops *o = r->ops;
    const vision *v = r->v;
    char base[80], part[NAME_LENGTH];
    kiln_weight_info info = {.size = sizeof info};
    kiln_attention how = {.size = sizeof how, .heads = (int32_t)v->heads};
    snprintf(base, sizeof base, "vision_model.encoder.layers.%lld", (long long)number);
#define PART(what) (snprintf(part, sizeof part, "%.79s.%s", base, what), part)
    kiln_t h = norm(r, PART("layer_norm1"), x);
    kiln_t q = linear(r, PART("self_attn.q_proj"), h, v->width, v->width);
    kiln_t k = linear(r, PART("self_attn.k_proj"), h, v->width, v->width);
    kiln_t value = linear(r, PART("self_attn.v_proj"), h, v->width, v->width);
    h = o->attention(r->p, q, k, value, &how);
    x = o->add(r->p, linear(r, PART("self_attn.out_proj"), h, v->width, v->width), x);
    int64_t inner = o->find(r->w, PART("mlp.fc1.bias"), &info) == KILN_OK ? info.dim[0] : 4 * v->width;
    h = o->act(r->p, linear(r, PART("mlp.fc1"), norm(r, PART("layer_norm2"), x), v->width, inner), KILN_ACT_QUICK_GELU);
    return o->add(r->p, linear(r, PART("mlp.fc2"), h, inner, v->width), x);
#undef PART
}

/* pixels [N,size,size,3] -> [N,1+patches,width]. No op repeats the class token for each picture: it is added to zeros.
 */
static kiln_t embed(const recorder *r, kiln_t pixels)
{
    const kiln_ops *o = r->ops;
    const vision *v = r->v;
    int64_t side = v->size / v->patch, n = dim_at(o, r->p, pixels, 0), patches = side * side;
    kiln_conv2d how = {.size = sizeof how, .stride = {(int32_t)v->patch, (int32_t)v->patch}};
    kiln_t w = o->weight(r->p, r->w, "vision_model.embeddings.patch_embedding.weight", 4,
                         KILN_DIMS(v->width, 3, v->patch, v->patch));
    kiln_t x = o->reshape(r->p, o->conv2d(r->p, pixels, w, (kiln_t){0}, &how), 3, KILN_DIMS(n, patches, v->width));
    kiln_t token = vector(r, "vision_model.embeddings", "class_embedding", v->width);
    token = o->add(r->p, o->affine(r->p, o->slice(r->p, x, 1, 0, 1), 0, 0), token);
    x = o->concat(r->p, (kiln_t[]){token, x}, 2, 1);
    return o->add(r->p, x,
                  o->weight(r->p, r->w, "vision_model.embeddings.position_embedding.weight", 2,
                            KILN_DIMS(patches + 1, v->width)));
}

static void record(const kiln_network *n, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                   const kiln_named_tensor *in, size_t n_in, const kiln_outputs *out)
{
    const vision *v = n->self;
    recorder r = {v, ops, p, w};
    kiln_t x = norm(&r, "vision_model.pre_layrnorm", embed(&r, kiln_input(in, n_in, "pixels")));
    for (int64_t i = 0; i < v->layers; i++) x = layer(&r, i, x);
    x = ops->slice(p, x, 1, 0, 1);
    x = norm(&r, "vision_model.post_layernorm", ops->reshape(p, x, 2, KILN_DIMS(dim_at(ops, p, x, 0), v->width)));
    kiln_t projection = ops->weight(p, w, "visual_projection.weight", 2, KILN_DIMS(v->projection, v->width));
    out->add(out, "image_embeds", ops->linear(p, x, projection, (kiln_t){0}));
}

/* ---- opening ---- */

static int detect(const kiln_weights_api *w, const kiln_weights *set)
{
    static const checkpoint_layout layout = {
        .prefix = "", .needs = {"vision_model.embeddings.class_embedding", "visual_projection.weight"}};
    return checkpoint_find(w, set, &layout, 1) ? 90 : 0;
}

static const config_rule expected[] = {{"hidden_act", "\"quick_gelu\""}, {"num_channels", "3"}};

static kiln_status read_config(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, vision *v)
{
    config c = config_open(host, ctx, set, "config.json");
    if (!c.root)
        CONFIG_FAIL(&c, KILN_ERR_INVALID, "a vision encoder needs the config.json beside its weights; give its folder");
    config_expect(&c, expected, COUNT(expected));
    v->width = config_int(&c, "hidden_size", 768, 1, 1 << 16);
    v->layers = config_int(&c, "num_hidden_layers", 12, 1, 1000);
    v->heads = config_int(&c, "num_attention_heads", 12, 1, 1000);
    v->size = config_int(&c, "image_size", 224, 1, 1 << 12);
    v->patch = config_int(&c, "patch_size", 32, 1, 1 << 12);
    v->projection = config_int(&c, "projection_dim", 512, 1, 1 << 16);
    v->eps = (float)config_number(&c, "layer_norm_eps", 1e-5, 0, 1);
    if (!c.failed && v->size % v->patch)
        CONFIG_FAIL(&c, KILN_ERR_INVALID, "%s: 'image_size' is no multiple of 'patch_size'", c.path);
    config_close(&c);
    return c.failed ? KILN_ERR_INVALID : KILN_OK;
}

/* A list of three numbers of preprocessor_config.json, or CLIP's own. */
static kiln_value *three_numbers(kiln_ctx *ctx, const config *c, const char *key, const double *otherwise)
{
    const kiln_value_api *v = c->host->ability(KILN_VALUE_ABILITY);
    const json_t *list = config_get(c, key);
    kiln_value *out = v->new_list(ctx);
    for (size_t i = 0; out && i < 3; i++) {
        const json_t *item = json_array_get(list, i);
        kiln_value *number = v->new_float(ctx, json_is_number(item) ? json_number_value(item) : otherwise[i]);
        v->list_push(out, number);
        c->host->unref(number);
    }
    return out;
}

static void release_vision(void *owned)
{
    vision *v = owned;
    v->host->unref(v->facts);
    free(v);
}

static kiln_status read_facts(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, vision *self)
{
    static const double mean[] = {0.48145466, 0.4578275, 0.40821073}, std[] = {0.26862954, 0.26130258, 0.27577711};
    const kiln_value_api *v = host->ability(KILN_VALUE_ABILITY);
    config c = config_open(host, ctx, set, "preprocessor_config.json");
    kiln_value *part[] = {v->new_int(ctx, self->size), three_numbers(ctx, &c, "image_mean", mean),
                          three_numbers(ctx, &c, "image_std", std)};
    static const char *const key[] = {"image_size", "mean", "std"};
    self->facts = v->new_map(ctx);
    for (size_t i = 0; i < COUNT(part); i++) {
        if (self->facts && part[i]) v->map_set(self->facts, key[i], part[i]);
        host->unref(part[i]);
    }
    config_close(&c);
    return c.failed ? KILN_ERR_INVALID : self->facts ? KILN_OK : KILN_ERR_NOMEM;
}

static kiln_value *open_vision(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set)
{
    const kiln_model_api *models = host->ability(KILN_MODEL_ABILITY);
    vision *v = calloc(1, sizeof *v);
    kiln_value *value = NULL;
    if (!v) return NULL;
    v->host = host;
    if (read_config(host, ctx, set, v) == KILN_OK && read_facts(host, ctx, set, v) == KILN_OK) {
        v->input[0] = (kiln_input_spec){.size = sizeof v->input[0],
                                        .kind = KILN_INPUT_IMAGE,
                                        .name = "pixels",
                                        .doc = "a picture of image_size, normalised",
                                        .width = 3};
        snprintf(v->family, sizeof v->family, "example-clip-vision/%lld.%lld.%lld.%lld.%g", (long long)v->layers,
                 (long long)v->heads, (long long)v->size, (long long)v->patch, (double)v->eps);
        v->network = (kiln_network){.size = sizeof v->network,
                                    .family = v->family,
                                    .self = v,
                                    KILN_ARRAY(input, v->input),
                                    .record = record,
                                    .facts = v->facts};
        kiln_net net = {
            .size = sizeof net, .network = &v->network, .weights = set, .owned = v, .release = release_vision};
        value = models->net_new(ctx, "CLIP_VISION", &net);
    }
    if (!value) release_vision(v);
    return value;
}

const kiln_model_family clip_vision_family = {.size = sizeof clip_vision_family,
                                              .kind = KILN_FAMILY_VISION,
                                              .name = "example-clip-vision",
                                              .doc = "CLIP's vision encoder with its projection",
                                              .detect = detect,
                                              .open = open_vision};
