/* clip_vision_family.c - see clip_vision_family.h. The value is a CLIP_VISION, a kiln_network whose input is "pixels";
 * its facts say how pictures are prepared: image_size, mean, std.
 */
#include "clip_vision_family.h"

#include "clip_vision_names.h"
#include "clip_vision_settings.h"
#include "kiln/checkpoint.h"
#include "kiln/kit.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct {
    const kiln_host *host;
    kiln_network network;
    clip_vision_config config;
    clip_vision_colours colours;
    kiln_input_spec input[1];
    kiln_value *facts;
    char architecture[80], family[160];
} encoder;

static void free_encoder(void *owned)
{
    encoder *self = owned;
    if (!self) return;
    self->host->unref(self->facts);
    free(self);
}

/* ---- which files ---- */

#define TRANSFORMERS_NEEDS                                                                                             \
    {                                                                                                                  \
        "vision_model.embeddings.class_embedding", "vision_model.embeddings.patch_embedding.weight"                    \
    }
#define OPEN_CLIP_NEEDS                                                                                                \
    {                                                                                                                  \
        "class_embedding", "conv1.weight", "transformer.resblocks.0.attn.in_proj_weight"                               \
    }

static const struct {
    checkpoint_layout at;
    const char *processor;
} layouts[] = {
    {{.prefix = "image_encoder/",
      .config = "image_encoder/config.json",
      .needs = TRANSFORMERS_NEEDS,
      .kind = CLIP_VISION_TRANSFORMERS},
     "feature_extractor/preprocessor_config.json"},
    {{.prefix = "", .config = "config.json", .needs = TRANSFORMERS_NEEDS, .kind = CLIP_VISION_TRANSFORMERS},
     "preprocessor_config.json"},
    {{.prefix = "",
      .config = "config.json",
      .needs = {"embeddings.class_embedding", "embeddings.patch_embedding.weight", "pre_layrnorm.weight"},
      .kind = CLIP_VISION_BARE},
     "preprocessor_config.json"},
    {{.prefix = "visual.", .needs = OPEN_CLIP_NEEDS, .kind = CLIP_VISION_OPEN_CLIP}, NULL},
    {{.prefix = "embedder.model.visual.", .needs = OPEN_CLIP_NEEDS, .kind = CLIP_VISION_OPEN_CLIP}, NULL},
    {{.prefix = "conditioner.embedders.0.open_clip.model.visual.",
      .needs = OPEN_CLIP_NEEDS,
      .kind = CLIP_VISION_OPEN_CLIP},
     NULL},
    {{.prefix = "cond_stage_model.model.visual.", .needs = OPEN_CLIP_NEEDS, .kind = CLIP_VISION_OPEN_CLIP}, NULL},
};

/* Encoders of other kinds, by a name that they alone have. */
static const struct {
    const char *name, *why;
} relatives[] = {
    {"vision_model.embeddings.patch_embedding.bias", "it is SigLIP's, and only CLIP's are read"},
    {"vision_model.head.probe", "it is SigLIP's, and only CLIP's are read"},
    {"embeddings.cls_token", "it is DINO's, and only CLIP's are read"},
    {"layer.0.attention.o_proj.bias", "it is DINO's, and only CLIP's are read"},
    {"visual.trunk.pos_embed", "its pictures go through a network of timm's, and only CLIP's transformers are read"},
};

static const char *unsupported(const kiln_weights_api *w, const kiln_weights *set)
{
    kiln_weight_info info = {.size = sizeof info};
    for (size_t i = 0; i < COUNT(relatives); i++)
        if (w->find(set, relatives[i].name, &info) == KILN_OK) return relatives[i].why;
    return NULL;
}

/* Number of the layout; COUNT(layouts): none. */
static size_t find_layout(const kiln_weights_api *w, const kiln_weights *set)
{
    size_t i = 0;
    while (i < COUNT(layouts) && !checkpoint_find(w, set, &layouts[i].at, 1)) i++;
    return i;
}

static int detect(const kiln_weights_api *w, const kiln_weights *set)
{
    if (find_layout(w, set) < COUNT(layouts)) return 90;
    return unsupported(w, set) ? 1 : 0; /* claimed at low rank, so that open() can say why not */
}

/* ---- the table ---- */

static void record(const kiln_network *n, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                   const kiln_named_tensor *in, size_t n_in, const kiln_outputs *out)
{
    clip_vision_record(&((const encoder *)n->self)->config, ops, p, w, kiln_input(in, n_in, "pixels"), out);
}

static void name_architecture(const clip_vision_config *c, char text[80])
{
    static const struct {
        int64_t width, layers;
        const char *name;
    } known[] = {{768, 12, "B"}, {1024, 24, "L"}, {1280, 32, "H"}, {1408, 40, "g"}, {1664, 48, "bigG"}};
    for (size_t i = 0; i < COUNT(known); i++)
        if (known[i].width == c->width && known[i].layers == c->layers) {
            snprintf(text, 80, "CLIP vision %s/%lld%s", known[i].name, (long long)c->patch,
                     c->projector ? " with LLaVA's projector" : "");
            return;
        }
    snprintf(text, 80, "CLIP vision, %lld layers of %lld", (long long)c->layers, (long long)c->width);
}

static void fill_table(encoder *self)
{
    const clip_vision_config *c = &self->config;
    name_architecture(c, self->architecture);
    snprintf(self->family, sizeof self->family, "clip-vision/%lld.%lld.%lld.%lld.%u.%g.%d.%d", (long long)c->layers,
             (long long)c->heads, (long long)c->size, (long long)c->patch, c->act, (double)c->eps, c->projection > 0,
             c->projector > 0);
    self->input[0] = (kiln_input_spec){.size = sizeof self->input[0],
                                       .kind = KILN_INPUT_IMAGE,
                                       .name = "pixels",
                                       .doc = "a picture of image_size, normalised by mean and std",
                                       .width = 3};
    self->network = (kiln_network){.size = sizeof self->network,
                                   .family = self->family,
                                   .self = self,
                                   KILN_ARRAY(input, self->input),
                                   .record = record,
                                   .facts = self->facts,
                                   .architecture = self->architecture};
}

/* ---- facts ---- */

static kiln_value *three_numbers(const kiln_host *host, kiln_ctx *ctx, const double *number)
{
    const kiln_value_api *v = host->ability(KILN_VALUE_ABILITY);
    kiln_value *list = v->new_list(ctx);
    kiln_status status = list ? KILN_OK : KILN_ERR_NOMEM;
    for (size_t i = 0; i < 3 && status == KILN_OK; i++) {
        kiln_value *item = v->new_float(ctx, number[i]);
        status = item ? v->list_push(list, item) : KILN_ERR_NOMEM;
        host->unref(item);
    }
    if (status == KILN_OK) return list;
    host->unref(list);
    return NULL;
}

static kiln_status fill_facts(kiln_ctx *ctx, encoder *self)
{
    const kiln_value_api *v = self->host->ability(KILN_VALUE_ABILITY);
    const clip_vision_config *c = &self->config;
    const struct {
        const char *key;
        kiln_value *value;
    } item[] = {{"image_size", v->new_int(ctx, c->size)},
                {"patch_size", v->new_int(ctx, c->patch)},
                {"width", v->new_int(ctx, c->width)},
                {"layers", v->new_int(ctx, c->layers)},
                {"heads", v->new_int(ctx, c->heads)},
                {"projection", v->new_int(ctx, c->projection ? c->projection : c->width)},
                {"mean", three_numbers(self->host, ctx, self->colours.mean)},
                {"std", three_numbers(self->host, ctx, self->colours.std)}};
    self->facts = v->new_map(ctx);
    kiln_status status = self->facts ? KILN_OK : KILN_ERR_NOMEM;
    for (size_t i = 0; i < COUNT(item); i++) {
        if (status == KILN_OK)
            status = item[i].value ? v->map_set(self->facts, item[i].key, item[i].value) : KILN_ERR_NOMEM;
        self->host->unref(item[i].value);
    }
    return status;
}

/* ---- opening ---- */

static kiln_status fill(kiln_ctx *ctx, const clip_vision_source *from, encoder *self)
{
    TRY(clip_vision_settings_read(self->host, ctx, from, &self->config));
    TRY(clip_vision_colours_read(self->host, ctx, from, &self->colours));
    TRY(fill_facts(ctx, self));
    fill_table(self);
    return KILN_OK;
}

static kiln_value *open_encoder(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    const kiln_model_api *models = host->ability(KILN_MODEL_ABILITY);
    size_t i = find_layout(w, set);
    if (i == COUNT(layouts)) {
        const char *why = unsupported(w, set);
        host->fail(ctx, KILN_ERR_UNSUPPORTED, "this vision encoder cannot be used: %s",
                   why ? why : "none that this plugin knows is in it");
        return NULL;
    }
    kiln_weights *view = clip_vision_view(w, ctx, set, layouts[i].at.prefix, (clip_vision_names)layouts[i].at.kind);
    encoder *self = view ? calloc(1, sizeof *self) : NULL;
    kiln_value *value = NULL;
    if (self) self->host = host;
    const clip_vision_source from = {set, view, layouts[i].at.config, layouts[i].processor};
    if (self && fill(ctx, &from, self) == KILN_OK)
        value = models->net_new(ctx, "CLIP_VISION",
                                &(kiln_net){.size = sizeof(kiln_net),
                                            .network = &self->network,
                                            .weights = view,
                                            .owned = self,
                                            .release = free_encoder});
    if (!value) free_encoder(self);
    w->unref(view);
    return value;
}

const kiln_model_family clip_vision_family = {.size = sizeof clip_vision_family,
                                              .kind = KILN_FAMILY_VISION,
                                              .name = "clip-vision",
                                              .doc = "CLIP's vision encoders, of OpenAI's names and OpenCLIP's",
                                              .detect = detect,
                                              .open = open_encoder};
