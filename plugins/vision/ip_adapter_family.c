/* ip_adapter_family.c - see ip_adapter_family.h. All sizes are in shapes; a resampler's heads are 64 wide, as in all
 * released files.
 */
#include "ip_adapter_family.h"

#include "kiln/checkpoint.h"
#include "kiln/kit.h"

#include <stdio.h>
#include <stdlib.h>

enum { HEAD = 64, DEPTH_MAX = 64, ATTENTIONS_MAX = 512, TOKENS_MAX = 4096, WIDTH_MAX = 1 << 16 };

typedef struct {
    const kiln_host *host;
    kiln_network network;
    ip_adapter_config config;
    kiln_input_spec input[1];
    kiln_value *facts;
    char architecture[100], family[120];
} adapter;

static void free_adapter(void *owned)
{
    adapter *self = owned;
    if (!self) return;
    self->host->unref(self->facts);
    free(self);
}

/* ---- which files ---- */

/* The attentions' first tensor under either of its names. */
static int is_adapter(const kiln_weights_api *w, const kiln_weights *set)
{
    kiln_weight_info info;
    return checkpoint_has(w, set, "", &info, "ip_adapter.1.to_k_ip.weight") ||
           checkpoint_has(w, set, "", &info, "adapter_modules.1.to_k_ip.weight");
}

static int is_known(const kiln_weights_api *w, const kiln_weights *set)
{
    static const char *const projection[] = {"image_proj.proj.weight", "image_proj.latents",
                                             "image_proj.proj.3.weight"};
    kiln_weight_info info;
    for (size_t i = 0; i < COUNT(projection); i++)
        if (checkpoint_has(w, set, "", &info, "%s", projection[i])) return is_adapter(w, set);
    return 0;
}

/* Adapters of other kinds, by a name that they alone have. */
static const struct {
    const char *name, *why;
} relatives[] = {
    {"ip_adapter.0.to_q_lora.down.weight", "it is a FaceID, which wants a face's identity from InsightFace"},
    {"adapter_modules.0.to_q_lora.down.weight", "it is a FaceID, which wants a face's identity from InsightFace"},
    {"image_proj.perceiver_resampler.proj_in.weight", "it is a FaceID, which wants a face's identity from InsightFace"},
    {"ip_adapter_proj_model.proj.weight", "it is for Flux, whose denoiser is not there"},
    {"image_proj.to_latents_from_mean_pooled_seq.1.weight",
     "its resampler begins with a mean, which no released one has"},
};

static const char *unsupported(const kiln_weights_api *w, const kiln_weights *set)
{
    kiln_weight_info info = {.size = sizeof info};
    for (size_t i = 0; i < COUNT(relatives); i++)
        if (w->find(set, relatives[i].name, &info) == KILN_OK) return relatives[i].why;
    if (is_adapter(w, set) && !is_known(w, set))
        return "its image_proj is none of those of IP-Adapter, Plus and full; FaceID's wants a face's identity from "
               "InsightFace";
    return NULL;
}

static int detect(const kiln_weights_api *w, const kiln_weights *set)
{
    if (unsupported(w, set)) return 1; /* claimed at low rank, so that open() can say why not */
    return is_known(w, set) ? 90 : 0;
}

/* ---- what the tensors show ---- */

typedef struct {
    const kiln_host *host;
    kiln_ctx *ctx;
    const kiln_weights_api *w;
    const kiln_weights *view;
    ip_adapter_config *out;
} reader;

#define REFUSE(r, ...) return (r)->host->fail((r)->ctx, KILN_ERR_UNSUPPORTED, "this IP-Adapter: " __VA_ARGS__)

static int64_t dim_of(const reader *r, const char *name, uint32_t rank, uint32_t i)
{
    kiln_weight_info info;
    return checkpoint_has(r->w, r->view, "", &info, "%s", name) && info.rank == rank ? info.dim[i] : 0;
}

/* How many are numbered 0, 1, ... or 1, 3, ...: one more than the highest, so that a missing one is found missing. */
static int64_t highest(const reader *r, const char *pattern)
{
    kiln_weight_info info = {.size = sizeof info};
    unsigned number = 0, n = 0;
    for (size_t i = 0; r->w->at(r->view, i, &info) == KILN_OK; i++)
        if (sscanf(info.name, pattern, &number) == 1 && number >= n) n = number + 1;
    return n;
}

static kiln_status read_resampler(const reader *r)
{
    ip_adapter_config *c = r->out;
    c->tokens = dim_of(r, "image_proj.latents", 3, 1), c->dim = dim_of(r, "image_proj.latents", 3, 2);
    c->features = dim_of(r, "image_proj.proj_in.weight", 2, 1);
    c->inner = dim_of(r, "image_proj.layers.0.0.to_q.weight", 2, 0);
    c->hidden = dim_of(r, "image_proj.layers.0.1.1.weight", 2, 0);
    c->depth = highest(r, "image_proj.layers.%9u.");
    c->heads = c->inner / HEAD;
    if (c->inner < HEAD || c->inner % HEAD)
        REFUSE(r, "its resampler's queries are %lld wide, and its heads are to be %d", (long long)c->inner, HEAD);
    if (c->depth < 1 || c->depth > DEPTH_MAX)
        REFUSE(r, "its resampler has %lld layers; 1 to %d are supported", (long long)c->depth, DEPTH_MAX);
    return KILN_OK;
}

static kiln_status read_projection(const reader *r)
{
    ip_adapter_config *c = r->out;
    if (dim_of(r, "image_proj.latents", 3, 0)) {
        c->kind = IP_ADAPTER_PLUS;
        return read_resampler(r);
    }
    if (dim_of(r, "image_proj.proj.0.weight", 2, 0)) {
        c->kind = IP_ADAPTER_FULL;
        c->features = dim_of(r, "image_proj.proj.0.weight", 2, 1);
        c->hidden = dim_of(r, "image_proj.proj.0.weight", 2, 0);
        return KILN_OK;
    }
    c->kind = IP_ADAPTER_EMBEDS;
    c->features = dim_of(r, "image_proj.proj.weight", 2, 1);
    int64_t all = dim_of(r, "image_proj.proj.weight", 2, 0);
    if (all % c->width) REFUSE(r, "%lld numbers are no tokens of %lld", (long long)all, (long long)c->width);
    c->tokens = all / c->width;
    return KILN_OK;
}

static kiln_status read_adapter(const reader *r)
{
    ip_adapter_config *c = r->out;
    c->width = dim_of(r, "ip_adapter.1.to_k_ip.weight", 2, 1);
    c->attentions = highest(r, "ip_adapter.%9u.to_") / 2; /* 1, 3, 5, ...: self-attentions stand between them */
    if (c->width < 1 || c->width > WIDTH_MAX) REFUSE(r, "ip_adapter.1.to_k_ip.weight is no matrix");
    TRY(read_projection(r));
    if (c->features < 1 || c->features > WIDTH_MAX || c->tokens > TOKENS_MAX ||
        (c->kind != IP_ADAPTER_FULL && c->tokens < 1))
        REFUSE(r, "its image_proj takes %lld numbers and makes %lld tokens", (long long)c->features,
               (long long)c->tokens);
    if (c->attentions < 1 || c->attentions > ATTENTIONS_MAX)
        REFUSE(r, "%lld cross-attentions; 1 to %d are supported", (long long)c->attentions, ATTENTIONS_MAX);
    return KILN_OK;
}

/* ---- the table ---- */

static void record(const kiln_network *n, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                   const kiln_named_tensor *in, size_t n_in, const kiln_outputs *out)
{
    const ip_adapter_config *c = &((const adapter *)n->self)->config;
    out->add(out, "tokens", ip_adapter_record(c, ops, p, w, kiln_input(in, n_in, ip_adapter_features(c))));
}

static void fill_table(adapter *self)
{
    static const char *const kinds[] = {[IP_ADAPTER_EMBEDS] = "IP-Adapter",
                                        [IP_ADAPTER_PLUS] = "IP-Adapter Plus",
                                        [IP_ADAPTER_FULL] = "IP-Adapter full"};
    static const struct {
        int64_t width, attentions;
        const char *name;
    } models[] = {{768, 16, " for SD1"}, {1024, 16, " for SD2"}, {2048, 70, " for SDXL"}};
    const ip_adapter_config *c = &self->config;
    const char *model = "";
    for (size_t i = 0; i < COUNT(models); i++)
        if (models[i].width == c->width && models[i].attentions == c->attentions) model = models[i].name;
    int n = snprintf(self->architecture, sizeof self->architecture, "%s%s, features of %lld", kinds[c->kind], model,
                     (long long)c->features);
    if (c->tokens)
        snprintf(self->architecture + n, sizeof self->architecture - (size_t)n, ", %lld tokens", (long long)c->tokens);
    snprintf(self->family, sizeof self->family, "ip-adapter/%u.%lld.%lld.%lld", c->kind, (long long)c->tokens,
             (long long)c->depth, (long long)c->heads);
    self->input[0] = (kiln_input_spec){.size = sizeof self->input[0],
                                       .kind = c->kind == IP_ADAPTER_EMBEDS ? KILN_INPUT_VECTOR : KILN_INPUT_TOKENS,
                                       .name = ip_adapter_features(c),
                                       .doc = "what a vision encoder makes of a picture",
                                       .width = c->features};
    self->network = (kiln_network){.size = sizeof self->network,
                                   .family = self->family,
                                   .self = self,
                                   KILN_ARRAY(input, self->input),
                                   .record = record,
                                   .facts = self->facts,
                                   .architecture = self->architecture};
}

static kiln_status fill_facts(kiln_ctx *ctx, adapter *self)
{
    const kiln_value_api *v = self->host->ability(KILN_VALUE_ABILITY);
    const ip_adapter_config *c = &self->config;
    const struct {
        const char *key;
        int64_t number;
    } item[] = {{"tokens", c->tokens}, {"token_width", c->width}, {"cross_attentions", c->attentions}};
    kiln_status status = (self->facts = v->new_map(ctx)) ? KILN_OK : KILN_ERR_NOMEM;
    for (size_t i = 0; i < COUNT(item) && status == KILN_OK; i++) {
        kiln_value *number = v->new_int(ctx, item[i].number);
        status = number ? v->map_set(self->facts, item[i].key, number) : KILN_ERR_NOMEM;
        self->host->unref(number);
    }
    return status;
}

const ip_adapter_config *ip_adapter_config_of(const kiln_net *net)
{
    return &((const adapter *)net->network->self)->config;
}

/* ---- are all tensors there? ---- */

static void ask_for_attentions(const adapter *self, const kiln_ops *o, kiln_program *p, kiln_weights *view)
{
    static const char *const parts[] = {"to_k_ip", "to_v_ip"};
    const kiln_weights_api *w = self->host->ability(KILN_WEIGHTS_ABILITY);
    const ip_adapter_config *c = &self->config;
    kiln_weight_info info;
    for (int64_t i = 0; i < c->attentions; i++) {
        int64_t inner = 0;
        char name[80];
        for (size_t k = 0; k < 2; k++) { /* both are as wide as the attention's own, whatever that is */
            snprintf(name, sizeof name, "ip_adapter.%lld.%s.weight", (long long)(2 * i + 1), parts[k]);
            memset(&info, 0, sizeof info), info.size = (uint32_t)sizeof info;
            if (!inner && w->find(view, name, &info) == KILN_OK && info.rank == 2) inner = info.dim[0];
            o->weight(p, view, name, 2, KILN_DIMS(inner ? inner : 1, c->width));
        }
    }
}

static void drop_output(const kiln_outputs *out, const char *name, kiln_t t) { (void)out, (void)name, (void)t; }

/* Records everything once and throws it away: KILN_OK, or a message that names the missing or misshapen tensor.
 * kiln.loading/1 does so for kinds of kiln's own. */
static kiln_status check(kiln_ctx *ctx, const adapter *self, kiln_weights *view)
{
    const kiln_ops *o = self->host->ability(KILN_OPS_ABILITY);
    const ip_adapter_config *c = &self->config;
    const kiln_outputs out = {.size = sizeof out, .add = drop_output};
    const kiln_program_options options = {.size = sizeof options, .name = "ip-adapter"};
    const char *message = NULL;
    kiln_program *p = o->program_new(ctx, &options);
    if (!p) return KILN_ERR_NOMEM;
    kiln_named_tensor in = {.size = sizeof in, .name = ip_adapter_features(c)};
    in.tensor = o->input(p, in.name, KILN_F32, c->kind == IP_ADAPTER_EMBEDS ? 2 : 3,
                         c->kind == IP_ADAPTER_EMBEDS ? KILN_DIMS(1, c->features) : KILN_DIMS(1, 2, c->features));
    record(&self->network, o, p, view, &in, 1, &out);
    ask_for_attentions(self, o, p, view);
    kiln_status status = o->error(p, &message);
    if (status != KILN_OK) self->host->fail(ctx, status, "%s", message ? message : "the IP-Adapter cannot be recorded");
    o->program_free(p);
    return status;
}

/* ---- opening ---- */

static kiln_weights *view_of(const kiln_weights_api *w, kiln_ctx *ctx, kiln_weights *set)
{
    static const kiln_weight_rule rules[] = {
        KILN_RULE(.from = "image_proj.*", .to = "image_proj.*"),
        KILN_RULE(.from = "ip_adapter.*", .to = "ip_adapter.*"),
        KILN_RULE(.from = "adapter_modules.*", .to = "ip_adapter.*"),
    };
    return w->view(ctx, set, rules, COUNT(rules));
}

static kiln_value *open_adapter(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    const kiln_model_api *models = host->ability(KILN_MODEL_ABILITY);
    const char *why = unsupported(w, set);
    if (!why && !is_known(w, set)) why = "none that this plugin knows is in it";
    if (why) {
        host->fail(ctx, KILN_ERR_UNSUPPORTED, "this IP-Adapter cannot be used: %s", why);
        return NULL;
    }
    kiln_weights *view = view_of(w, ctx, set);
    adapter *self = view ? calloc(1, sizeof *self) : NULL;
    kiln_value *value = NULL;
    if (self) self->host = host;
    if (self && read_adapter(&(reader){host, ctx, w, view, &self->config}) == KILN_OK &&
        fill_facts(ctx, self) == KILN_OK) {
        fill_table(self);
        if (check(ctx, self, view) == KILN_OK)
            value = models->net_new(ctx, IP_ADAPTER_TYPE,
                                    &(kiln_net){.size = sizeof(kiln_net),
                                                .network = &self->network,
                                                .weights = view,
                                                .owned = self,
                                                .release = free_adapter});
    }
    if (!value) free_adapter(self);
    w->unref(view);
    return value;
}

const kiln_model_family ip_adapter_family = {.size = sizeof ip_adapter_family,
                                             .kind = IP_ADAPTER_KIND,
                                             .name = "ip-adapter",
                                             .doc = "IP-Adapters: pictures as prompts for UNets",
                                             .detect = detect,
                                             .open = open_adapter};
