/* clip_vision_settings.c - see clip_vision_settings.h. */
#include "clip_vision_settings.h"

#include "kiln/checkpoint.h"
#include "kiln/config.h"
#include "kiln/kit.h"

#include <stdio.h>
#include <stdlib.h>

enum { LAYERS_MAX = 512, WIDTH_MAX = 1 << 16, PICTURE_MAX = 4096, QUICK_LAYERS = 24 };

typedef struct {
    const kiln_host *host;
    kiln_ctx *ctx;
    const kiln_weights_api *w;
    const clip_vision_source *from;
    clip_vision_config *out;
} reader;

#define REFUSE(r, ...) return (r)->host->fail((r)->ctx, KILN_ERR_UNSUPPORTED, "this vision encoder: " __VA_ARGS__)

/* ---- what the tensors show ---- */

/* Dimension i of a tensor of that rank; 0: there is none. */
static int64_t dim_of(const reader *r, const char *name, uint32_t rank, uint32_t i)
{
    kiln_weight_info info;
    return checkpoint_has(r->w, r->from->view, "", &info, "%s", name) && info.rank == rank ? info.dim[i] : 0;
}

/* One more than the highest layer that a tensor names, so that a missing one is found to be missing. */
static int64_t count_layers(const reader *r)
{
    kiln_weight_info info = {.size = sizeof info};
    unsigned number = 0, n = 0;
    for (size_t i = 0; r->w->at(r->from->view, i, &info) == KILN_OK; i++)
        if (sscanf(info.name, "vision_model.encoder.layers.%9u.", &number) == 1 && number >= n) n = number + 1;
    return n;
}

static int64_t square_root(int64_t n)
{
    int64_t root = 0;
    while ((root + 1) * (root + 1) <= n) root++;
    return root * root == n ? root : 0;
}

static kiln_status read_shapes(const reader *r)
{
    static const char *const patches = "vision_model.embeddings.patch_embedding.weight";
    clip_vision_config *c = r->out;
    int64_t positions = dim_of(r, "vision_model.embeddings.position_embedding.weight", 2, 0);
    c->width = dim_of(r, patches, 4, 0), c->patch = dim_of(r, patches, 4, 2);
    c->inner = dim_of(r, "vision_model.encoder.layers.0.mlp.fc1.weight", 2, 0);
    c->projection = dim_of(r, "visual_projection.weight", 2, 0);
    c->projector = dim_of(r, "multi_modal_projector.linear_1.weight", 2, 0);
    c->layers = count_layers(r);
    if (c->width < 1 || c->width > WIDTH_MAX || c->patch < 1 || c->patch > PICTURE_MAX || c->inner < 1)
        REFUSE(r, "its patch embedding or its first MLP is missing or of no encoder's shape");
    if (dim_of(r, patches, 4, 1) != 3)
        REFUSE(r, "it looks at %lld colours; 3 are supported", (long long)dim_of(r, patches, 4, 1));
    if (c->layers < 1 || c->layers > LAYERS_MAX)
        REFUSE(r, "%lld layers; 1 to %d are supported", (long long)c->layers, LAYERS_MAX);
    int64_t side = positions <= PICTURE_MAX * PICTURE_MAX ? square_root(positions - 1) : 0;
    if (!side) REFUSE(r, "%lld positions are not those of a class token and a square of patches", (long long)positions);
    c->size = side * c->patch;
    if (c->size > PICTURE_MAX) REFUSE(r, "pictures of %lld pixels; %d at most", (long long)c->size, PICTURE_MAX);
    return KILN_OK;
}

/* ---- what they do not show ---- */

static const struct {
    const char *name;
    uint32_t act;
} acts[] = {{"quick_gelu", KILN_ACT_QUICK_GELU},
            {"gelu", KILN_ACT_GELU},
            {"gelu_pytorch_tanh", KILN_ACT_GELU_TANH},
            {"gelu_new", KILN_ACT_GELU_TANH}};

static int find_act(const char *name, uint32_t *act)
{
    for (size_t i = 0; name && i < COUNT(acts); i++)
        if (strcmp(acts[i].name, name) == 0) return *act = acts[i].act, 1;
    return 0;
}

/* Of the released ones L, H and bigG have 16 heads, and B has 12; of another width they have to be told. L is quick,
 * the larger ones are not. */
static void read_released(const reader *r)
{
    clip_vision_config *c = r->out;
    int large = c->width == 1024 || c->width == 1280 || c->width == 1408 || c->width == 1664;
    c->heads = large ? 16 : c->width == 768 ? 12 : 0;
    c->act = c->layers > QUICK_LAYERS ? KILN_ACT_GELU : KILN_ACT_QUICK_GELU;
    c->eps = 1e-5f;
}

/* A single file has no config.json. */
static kiln_status read_metadata(const reader *r)
{
    const char *heads = r->w->text(r->from->set, "__metadata__/num_attention_heads", NULL);
    const char *act = r->w->text(r->from->set, "__metadata__/hidden_act", NULL);
    if (heads) r->out->heads = strtol(heads, NULL, 10);
    if (act && !find_act(act, &r->out->act)) REFUSE(r, "its __metadata__ has hidden_act '%.40s'", act);
    return KILN_OK;
}

static void agree(config *c, const char *key, int64_t seen)
{
    int64_t said = config_int(c, key, seen, 0, INT32_MAX);
    if (said != seen)
        CONFIG_FAIL(c, KILN_ERR_INVALID, "%s: '%s' says %lld, and the weights have %lld", c->path, key, (long long)said,
                    (long long)seen);
}

/* A picture may have pixels that no patch covers. */
static void take_size(config *c, clip_vision_config *out)
{
    int64_t said = config_int(c, "image_size", out->size, 1, PICTURE_MAX);
    agree(c, "patch_size", out->patch);
    if (said / out->patch != out->size / out->patch)
        CONFIG_FAIL(c, KILN_ERR_INVALID, "%s: 'image_size' says %lld, and the weights have positions for %lld pixels",
                    c->path, (long long)said, (long long)out->size);
    out->size = said;
}

static void take_config(config *c, clip_vision_config *out)
{
    static const config_rule expected[] = {{"num_channels", "3"}};
    const char *act = config_text(c, "hidden_act", "quick_gelu");
    config_expect(c, expected, COUNT(expected));
    agree(c, "hidden_size", out->width);
    agree(c, "num_hidden_layers", out->layers);
    agree(c, "intermediate_size", out->inner);
    if (out->projection && config_get(c, "projection_dim")) agree(c, "projection_dim", out->projection);
    take_size(c, out);
    out->heads = config_int(c, "num_attention_heads", out->heads, 1, 1000);
    out->eps = (float)config_number(c, "layer_norm_eps", 1e-5, 0, 1);
    if (!find_act(act, &out->act))
        CONFIG_FAIL(c, KILN_ERR_UNSUPPORTED, "%s: 'hidden_act' is '%.40s'; quick_gelu and gelu are supported", c->path,
                    act);
}

/* config.json; of a whole CLIP the part about pictures. */
static kiln_status read_config(const reader *r)
{
    config c = config_open(r->host, r->ctx, r->from->set, r->from->config), part = c;
    if (c.root && config_get(&c, "vision_config")) part.root = json_object_get(c.root, "vision_config");
    if (c.root && !c.failed) take_config(&part, r->out);
    int failed = c.failed || part.failed;
    config_close(&c);
    return failed ? KILN_ERR_INVALID : KILN_OK;
}

kiln_status clip_vision_settings_read(const kiln_host *host, kiln_ctx *ctx, const clip_vision_source *from,
                                      clip_vision_config *out)
{
    const reader r = {host, ctx, (const kiln_weights_api *)host->ability(KILN_WEIGHTS_ABILITY), from, out};
    TRY(read_shapes(&r));
    read_released(&r);
    TRY(read_metadata(&r));
    if (from->config) TRY(read_config(&r));
    if (out->heads >= 1 && out->width % out->heads == 0) return KILN_OK;
    REFUSE(&r,
           "%lld heads do not divide a width of %lld; write \"num_attention_heads\" into its config.json or its "
           "__metadata__",
           (long long)out->heads, (long long)out->width);
}

/* ---- preprocessor_config.json ---- */

static void take_three(config *c, const char *key, double least, double out[3])
{
    const json_t *list = config_get(c, key);
    if (!list) return;
    for (size_t i = 0; i < 3; i++) {
        const json_t *item = json_array_get(list, i);
        double number = json_is_number(item) ? json_number_value(item) : NAN;
        if (json_array_size(list) != 3 || !(number >= least && number <= 1000))
            CONFIG_FAIL(c, KILN_ERR_INVALID, "%s: '%s' must be three numbers from %g on", c->path, key, least);
        else
            out[i] = number;
    }
}

kiln_status clip_vision_colours_read(const kiln_host *host, kiln_ctx *ctx, const clip_vision_source *from,
                                     clip_vision_colours *out)
{
    static const config_rule expected[] = {{"do_resize", "true"},
                                           {"do_center_crop", "true"},
                                           {"do_normalize", "true"},
                                           {"do_rescale", "true"},
                                           {"resample", "3"}};
    *out = (clip_vision_colours){{0.48145466, 0.4578275, 0.40821073}, {0.26862954, 0.26130258, 0.27577711}};
    if (!from->processor) return KILN_OK;
    config c = config_open(host, ctx, from->set, from->processor);
    config_expect(&c, expected, COUNT(expected));
    take_three(&c, "image_mean", -1000, out->mean);
    take_three(&c, "image_std", 1e-6, out->std);
    config_close(&c);
    return c.failed ? KILN_ERR_INVALID : KILN_OK;
}
