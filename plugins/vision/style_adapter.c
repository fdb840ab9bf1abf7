/* style_adapter.c - see style_adapter.h.
 *
 *   x = [features, style_embedding]; norm; layers of (norm, attention, + ; norm, MLP, +); norm and projection of the
 *   style's own rows
 */
#include "style_adapter.h"

#include "kiln/checkpoint.h"
#include "kiln/kit.h"
#include "vision_recorder.h"

#include <stdio.h>
#include <stdlib.h>

#define EPS 1e-5f

enum { HEADS = 8, LAYERS_MAX = 64, NAME = 80 };

typedef struct {
    const kiln_host *host;
    kiln_network network;
    kiln_input_spec input[1];
    int64_t features, tokens, width, layers, inner;
    char architecture[100], family[80];
} style;

/* ---- recording ---- */

static kiln_t layer(const vision_recorder *r, const style *s, int64_t number, kiln_t x)
{
    const kiln_ops *o = r->ops;
    char name[NAME];
    kiln_attention how = {.size = sizeof how, .heads = HEADS};
#define PART(what) (snprintf(name, sizeof name, "layers.%lld.%s", (long long)number, what), name)
    kiln_t h = vision_norm(r, PART("ln_1"), x, EPS);
    kiln_t q = vision_linear(r, PART("attn.q"), h, s->features, 1),
           k = vision_linear(r, PART("attn.k"), h, s->features, 1);
    kiln_t v = vision_linear(r, PART("attn.v"), h, s->features, 1);
    h = vision_linear(r, PART("attn.out_proj"), o->attention(r->p, q, k, v, &how), s->features, 1);
    x = o->add(r->p, h, x);
    h = vision_linear(r, PART("mlp.c_fc"), vision_norm(r, PART("ln_2"), x, EPS), s->inner, 1);
    h = vision_linear(r, PART("mlp.c_proj"), o->act(r->p, h, KILN_ACT_QUICK_GELU), s->features, 1);
    return o->add(r->p, h, x);
#undef PART
}

static void record(const kiln_network *n, const kiln_ops *o, kiln_program *p, kiln_weights *w,
                   const kiln_named_tensor *in, size_t n_in, const kiln_outputs *out)
{
    const style *s = n->self;
    const vision_recorder r = {o, p, w};
    kiln_t x = kiln_input(in, n_in, STYLE_FEATURES);
    int64_t rows = vision_dim(&r, x, 1);
    kiln_t own = vision_tokens(&r, "style_embedding", x, s->tokens, s->features);
    x = vision_norm(&r, "ln_pre", o->concat(p, (kiln_t[]){x, own}, 2, 1), EPS);
    for (int64_t i = 0; i < s->layers; i++) x = layer(&r, s, i, x);
    x = vision_norm(&r, "ln_post", o->slice(p, x, 1, rows, s->tokens), EPS);
    out->add(out, "tokens", vision_linear(&r, "proj", x, s->width, 0));
}

/* ---- which files ---- */

static int has(const kiln_weights_api *w, const kiln_weights *set, const char *name, kiln_weight_info *info)
{
    return checkpoint_has(w, set, "", info, "%s", name);
}

static int is_redux(const kiln_weights_api *w, const kiln_weights *set)
{
    kiln_weight_info info;
    return has(w, set, "redux_down.weight", &info) || has(w, set, "redux_up.weight", &info);
}

static int detect(const kiln_weights_api *w, const kiln_weights *set)
{
    kiln_weight_info info;
    if (is_redux(w, set)) return 1; /* claimed at low rank, so that open() can say why not */
    return has(w, set, "style_embedding", &info) && has(w, set, "transformer_layes.0.ln_1.weight", &info) ? 90 : 0;
}

/* The release's names (sic), with q, k and v apart and the projection as a linear has it. */
static kiln_weights *view_of(const kiln_weights_api *w, kiln_ctx *ctx, kiln_weights *set, int64_t width)
{
    const kiln_weight_rule rules[] = {
#define LAYERS "transformer_layes.{}."
#define THIRD(what, n, more_)                                                                                          \
    KILN_RULE(.from = LAYERS "attn.in_proj_weight", .to = "layers.{}.attn." what ".weight", .row = (n)*width,          \
              .rows = width, .more = 1),                                                                               \
        KILN_RULE(.from = LAYERS "attn.in_proj_bias", .to = "layers.{}.attn." what ".bias", .row = (n)*width,          \
                  .rows = width, .more = (more_))
        THIRD("q", 0, 1),
        THIRD("k", 1, 1),
        THIRD("v", 2, 1),
        KILN_RULE(.from = LAYERS "attn.out_proj.{}", .to = "layers.{}.attn.out_proj.{}"),
        KILN_RULE(.from = LAYERS "mlp.{}.{}", .to = "layers.{}.mlp.{}.{}"),
        KILN_RULE(.from = LAYERS "{}.{}", .to = "layers.{}.{}.{}"),
        KILN_RULE(.from = "proj", .to = "proj.weight", .transpose = 1),
        KILN_RULE(.from = "ln_pre.{}", .to = "ln_pre.{}"),
        KILN_RULE(.from = "ln_post.{}", .to = "ln_post.{}"),
        KILN_RULE(.from = "style_embedding", .to = "style_embedding"),
#undef THIRD
#undef LAYERS
    };
    return w->view(ctx, set, rules, COUNT(rules));
}

static kiln_status read_shapes(const kiln_weights_api *w, kiln_ctx *ctx, const kiln_weights *set, style *s)
{
    kiln_weight_info info;
    char name[NAME];
    if (has(w, set, "style_embedding", &info) && info.rank == 3) s->tokens = info.dim[1], s->features = info.dim[2];
    if (has(w, set, "proj", &info) && info.rank == 2) s->width = info.dim[1];
    if (has(w, set, "transformer_layes.0.mlp.c_fc.weight", &info)) s->inner = info.dim[0];
    do snprintf(name, sizeof name, "transformer_layes.%lld.ln_1.weight", (long long)s->layers);
    while (s->layers <= LAYERS_MAX && has(w, set, name, &info) && ++s->layers);
    if (s->tokens > 0 && s->features > 0 && s->features % HEADS == 0 && s->width > 0 && s->inner > 0 &&
        s->layers <= LAYERS_MAX)
        return KILN_OK;
    return s->host->fail(
        ctx, KILN_ERR_UNSUPPORTED,
        "this style adapter: %lld tokens of %lld numbers that become %lld, in %lld layers, are no style "
        "adapter's with %d heads",
        (long long)s->tokens, (long long)s->features, (long long)s->width, (long long)s->layers, HEADS);
}

/* ---- the table ---- */

static void fill_table(style *s)
{
    snprintf(s->architecture, sizeof s->architecture, "T2I-Adapter style, features of %lld, %lld tokens of %lld",
             (long long)s->features, (long long)s->tokens, (long long)s->width);
    snprintf(s->family, sizeof s->family, "style-adapter/%lld", (long long)s->layers);
    s->input[0] = (kiln_input_spec){.size = sizeof s->input[0],
                                    .kind = KILN_INPUT_TOKENS,
                                    .name = STYLE_FEATURES,
                                    .doc = "what a vision encoder makes of a picture",
                                    .width = s->features};
    s->network = (kiln_network){.size = sizeof s->network,
                                .family = s->family,
                                .self = s,
                                KILN_ARRAY(input, s->input),
                                .record = record,
                                .architecture = s->architecture};
}

int64_t style_features(const kiln_net *net) { return ((const style *)net->network->self)->features; }
int64_t style_width(const kiln_net *net) { return ((const style *)net->network->self)->width; }

static void drop_output(const kiln_outputs *out, const char *name, kiln_t t) { (void)out, (void)name, (void)t; }

/* Records it once and throws it away: KILN_OK, or a message that names the missing or misshapen tensor. kiln.loading/1
 * does so for kinds of kiln's own. */
static kiln_status check(kiln_ctx *ctx, const style *s, kiln_weights *view)
{
    const kiln_ops *o = s->host->ability(KILN_OPS_ABILITY);
    const kiln_outputs out = {.size = sizeof out, .add = drop_output};
    const kiln_program_options options = {.size = sizeof options, .name = "style"};
    const char *message = NULL;
    kiln_program *p = o->program_new(ctx, &options);
    if (!p) return KILN_ERR_NOMEM;
    kiln_named_tensor in = {.size = sizeof in, .name = STYLE_FEATURES};
    in.tensor = o->input(p, in.name, KILN_F32, 3, KILN_DIMS(1, 2, s->features));
    record(&s->network, o, p, view, &in, 1, &out);
    kiln_status status = o->error(p, &message);
    if (status != KILN_OK) s->host->fail(ctx, status, "%s", message ? message : "it cannot be recorded");
    o->program_free(p);
    return status;
}

static kiln_value *open_style(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    const kiln_model_api *models = host->ability(KILN_MODEL_ABILITY);
    if (is_redux(w, set)) {
        host->fail(ctx, KILN_ERR_UNSUPPORTED,
                   "this style model cannot be used: it is Redux, for Flux, whose denoiser is not there");
        return NULL;
    }
    style *s = calloc(1, sizeof *s);
    kiln_value *value = NULL;
    if (s) s->host = host;
    kiln_weights *view = s && read_shapes(w, ctx, set, s) == KILN_OK ? view_of(w, ctx, set, s->features) : NULL;
    if (view) {
        fill_table(s);
        if (check(ctx, s, view) == KILN_OK)
            value = models->net_new(
                ctx, STYLE_TYPE,
                &(kiln_net){
                    .size = sizeof(kiln_net), .network = &s->network, .weights = view, .owned = s, .release = free});
    }
    if (!value) free(s);
    w->unref(view);
    return value;
}

const kiln_model_family style_adapter_family = {.size = sizeof style_adapter_family,
                                                .kind = STYLE_KIND,
                                                .name = "style-adapter",
                                                .doc = "T2I-Adapter's style adapter for SD1",
                                                .detect = detect,
                                                .open = open_style};
