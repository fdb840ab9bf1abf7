/* gligen_family.c - see gligen_family.h. All sizes are in shapes. */
#include "gligen_family.h"

#include "gligen_names.h"
#include "kiln/checkpoint.h"
#include "kiln/kit.h"

#include <stdio.h>
#include <stdlib.h>

enum { WIDTH_MAX = 1 << 16, FREQUENCIES_MAX = 64, WAVES = 8, SD1_LAYERS = 16, CELLS = 8 };

static const char anchor[] = "position_net.linears.0.weight";

typedef struct {
    const kiln_host *host;
    kiln_network network;
    gligen_config config;
    kiln_input_spec input[1];
    char architecture[100], family[80];
} gligen;

/* ---- which files ---- */

/* What stands before "position_net." in the file; 0: there is none. */
static int find_prefix(const kiln_weights_api *w, const kiln_weights *set, char prefix[CHECKPOINT_NAME])
{
    kiln_weight_info info = {.size = sizeof info};
    for (size_t i = 0; w->at(set, i, &info) == KILN_OK; i++) {
        size_t n = strlen(info.name), a = sizeof anchor - 1;
        if (n < a || n - a >= CHECKPOINT_NAME || strcmp(info.name + n - a, anchor) != 0) continue;
        if (n > a && info.name[n - a - 1] != '.' && info.name[n - a - 1] != '/') continue;
        snprintf(prefix, CHECKPOINT_NAME, "%.*s", (int)(n - a), info.name);
        return 1;
    }
    return 0;
}

static int has_part(const kiln_weights_api *w, const kiln_weights *set, const char *part)
{
    kiln_weight_info info = {.size = sizeof info};
    for (size_t i = 0; w->at(set, i, &info) == KILN_OK; i++)
        if (strstr(info.name, part)) return 1;
    return 0;
}

/* Why a file with parts of a GLIGEN cannot be used; NULL: it can, or it is none. */
static const char *unsupported(const kiln_weights_api *w, const kiln_weights *set)
{
    char prefix[CHECKPOINT_NAME];
    int layers = has_part(w, set, ".fuser."), net = has_part(w, set, "position_net.");
    if (!layers && !net) return NULL;
    if (has_part(w, set, "position_net.linears_text.") || has_part(w, set, "position_net.linears_image."))
        return "its boxes have pictures beside the text, and kiln's node gives them text alone; take a text-box GLIGEN";
    if (net && !find_prefix(w, set, prefix))
        return "its grounding is not of boxes with text (perhaps of key points, edges or depth); take a text-box "
               "GLIGEN";
    if (!net) return "it has gated layers (*.fuser.*) and no position_net.*, so nothing says where a box is";
    if (!layers) return "it has position_net.* and no gated layers (*.fuser.*)";
    return NULL;
}

static int detect(const kiln_weights_api *w, const kiln_weights *set)
{
    char prefix[CHECKPOINT_NAME];
    if (unsupported(w, set)) return 1; /* claimed at low rank, so that open() can say why not */
    return find_prefix(w, set, prefix) && has_part(w, set, ".fuser.") ? 90 : 0;
}

/* ---- what the tensors show ---- */

typedef struct {
    const kiln_host *host;
    kiln_ctx *ctx;
    const kiln_weights_api *w;
    kiln_weights *set;
    gligen *self;
} reader;

#define REFUSE(r, ...)                                                                                                 \
    return (r)->host->fail((r)->ctx, KILN_ERR_UNSUPPORTED, "this GLIGEN cannot be used: " __VA_ARGS__)

static int64_t dim_of(const reader *r, const kiln_weights *set, const char *name, uint32_t rank, uint32_t i)
{
    kiln_weight_info info;
    return checkpoint_has(r->w, set, "", &info, "%s", name) && info.rank == rank ? info.dim[i] : 0;
}

/* Other names for the same tensors; of each gated layer those below its ".fuser". */
static kiln_status make_view(const reader *r, const gligen_layer_name *layer, size_t n, kiln_weights **out)
{
    static const int64_t one[] = {1};
    char prefix[CHECKPOINT_NAME];
    kiln_weight_rule *rule = calloc(3 * n + 1, sizeof *rule);
    char(*text)[2 * GLIGEN_NAME] = calloc(6 * n + 1, sizeof *text);
    if (rule && text && find_prefix(r->w, r->set, prefix)) {
        snprintf(text[0], sizeof *text, "%sposition_net.*", prefix);
        rule[0] = (kiln_weight_rule)KILN_RULE(.from = text[0], .to = "position_net.*");
        for (size_t i = 0; i < n; i++) {
            static const char *const tail[] = {"alpha_attn", "alpha_dense", "*"};
            for (size_t k = 0; k < COUNT(tail); k++) {
                char *from = text[6 * i + 2 * k + 1], *to = from + GLIGEN_NAME + 20;
                snprintf(from, GLIGEN_NAME + 20, "%s.%s", layer[i].name, tail[k]);
                snprintf(to, 60, "fuser.%zu.%s", i, tail[k]);
                rule[3 * i + k + 1] = (kiln_weight_rule)KILN_RULE(.from = from, .to = to);
                if (k < 2) rule[3 * i + k + 1].reshape = one, rule[3 * i + k + 1].reshape_rank = 1;
            }
        }
        *out = r->w->view(r->ctx, r->set, rule, 3 * n + 1);
    }
    int fine = rule && text;
    free(rule);
    free(text);
    if (*out) return KILN_OK;
    return fine ? KILN_ERR_INVALID : KILN_ERR_NOMEM;
}

static kiln_status read_layers(const reader *r, const kiln_weights *view, const gligen_layer_name *layer, size_t n)
{
    gligen_config *c = &r->self->config;
    char name[60];
    for (size_t i = 0; i < n; i++) {
        snprintf(c->place[i], sizeof c->place[i], "%s", layer[i].place);
        snprintf(name, sizeof name, "fuser.%zu.linear.weight", i);
        c->channels[i] = dim_of(r, view, name, 2, 0);
        if (i && strcmp(c->place[i], c->place[i - 1]) == 0)
            REFUSE(r, "'%s' and '%s' stand at one place", layer[i - 1].name, layer[i].name);
        if (c->channels[i] < 1 || c->channels[i] > WIDTH_MAX)
            REFUSE(r, "no tensor '%s.linear.weight' of two dimensions", layer[i].name);
        if (c->channels[i] % (c->width == 768 ? 8 : 64))
            REFUSE(r, "'%s' is %lld wide, which is no number of heads", layer[i].name, (long long)c->channels[i]);
    }
    c->n = n;
    return KILN_OK;
}

static kiln_status read_position_net(const reader *r, const kiln_weights *view)
{
    gligen_config *c = &r->self->config;
    c->hidden = dim_of(r, view, "position_net.linears.0.weight", 2, 0);
    c->width = dim_of(r, view, "position_net.linears.4.weight", 2, 0);
    c->text = dim_of(r, view, "position_net.null_positive_feature", 1, 0);
    int64_t waves = dim_of(r, view, "position_net.null_position_feature", 1, 0);
    c->frequencies = waves / WAVES;
    if (c->hidden < 1 || c->width < 1 || c->text < 1 || c->hidden > WIDTH_MAX || c->width > WIDTH_MAX ||
        c->text > WIDTH_MAX)
        REFUSE(r, "its position_net takes a text of %lld numbers and makes tokens of %lld", (long long)c->text,
               (long long)c->width);
    if (waves % WAVES || c->frequencies < 1 || c->frequencies > FREQUENCIES_MAX)
        REFUSE(r, "position_net.null_position_feature has %lld numbers; 8 for each of 1 to %d frequencies are wanted",
               (long long)waves, FREQUENCIES_MAX);
    return KILN_OK;
}

/* *view: a reference of the caller's, also on failure. */
static kiln_status read_file(const reader *r, kiln_weights **view)
{
    char strange[GLIGEN_NAME];
    gligen_layer_name *layer = calloc(GLIGEN_LAYERS_MAX, sizeof *layer);
    if (!layer) return KILN_ERR_NOMEM;
    size_t n = gligen_layer_names(r->w, r->set, layer, strange);
    kiln_status status = KILN_OK;
    if (*strange || !n)
        status =
            r->host->fail(r->ctx, KILN_ERR_UNSUPPORTED,
                          "this GLIGEN cannot be used: its gated layer '%s' is called as in no UNet of SD1", strange);
    if (status == KILN_OK) status = make_view(r, layer, n, view);
    if (status == KILN_OK) status = read_position_net(r, *view);
    if (status == KILN_OK) status = read_layers(r, *view, layer, n);
    free(layer);
    return status;
}

/* ---- the table ---- */

static void record(const kiln_network *n, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                   const kiln_named_tensor *in, size_t n_in, const kiln_outputs *out)
{
    const gligen_recorder r = {&((const gligen *)n->self)->config, w, ops, p};
    out->add(out, "tokens", gligen_tokens(&r, kiln_input(in, n_in, "boxes"), CELLS, CELLS));
}

static void fill_table(gligen *self)
{
    const gligen_config *c = &self->config;
    snprintf(self->architecture, sizeof self->architecture, "GLIGEN%s, boxes with a text of %lld, %zu gated layers",
             c->n == SD1_LAYERS && c->width == 768 ? " for SD1" : "", (long long)c->text, c->n);
    snprintf(self->family, sizeof self->family, "gligen/%lld.%lld.%zu", (long long)c->text, (long long)c->frequencies,
             c->n);
    self->input[0] = (kiln_input_spec){.size = sizeof self->input[0],
                                       .kind = KILN_INPUT_TOKENS,
                                       .name = "boxes",
                                       .doc = "a row for each of 30 boxes: is it one, its place, its text",
                                       .width = GLIGEN_ROW + c->text};
    self->network = (kiln_network){.size = sizeof self->network,
                                   .family = self->family,
                                   .self = self,
                                   KILN_ARRAY(input, self->input),
                                   .record = record,
                                   .architecture = self->architecture};
}

const gligen_config *gligen_config_of(const kiln_net *net) { return &((const gligen *)net->network->self)->config; }

/* Records everything once and throws it away: KILN_OK, or a message that names the missing or misshapen tensor. */
static kiln_status check(kiln_ctx *ctx, const gligen *self, kiln_weights *view)
{
    const kiln_ops *o = self->host->ability(KILN_OPS_ABILITY);
    const gligen_config *c = &self->config;
    const kiln_program_options options = {.size = sizeof options, .name = "gligen"};
    const char *message = NULL;
    kiln_program *p = o->program_new(ctx, &options);
    if (!p) return KILN_ERR_NOMEM;
    const gligen_recorder r = {c, view, o, p};
    kiln_t rows = o->input(p, "boxes", KILN_F32, 3, KILN_DIMS(1, GLIGEN_BOXES, GLIGEN_ROW + c->text));
    kiln_t tokens = gligen_tokens(&r, rows, CELLS, CELLS);
    for (size_t i = 0; i < c->n; i++)
        gligen_layer(&r, i, o->affine(p, o->input(p, c->place[i], KILN_F32, 3, KILN_DIMS(1, 2, c->channels[i])), 1, 0),
                     tokens);
    kiln_status status = o->error(p, &message);
    if (status != KILN_OK)
        self->host->fail(ctx, status, "this GLIGEN cannot be used: %s", message ? message : "it cannot be recorded");
    o->program_free(p);
    return status;
}

static kiln_value *open_gligen(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    const kiln_model_api *models = host->ability(KILN_MODEL_ABILITY);
    const char *why = unsupported(w, set);
    if (why) {
        host->fail(ctx, KILN_ERR_UNSUPPORTED, "this GLIGEN cannot be used: %s", why);
        return NULL;
    }
    gligen *self = calloc(1, sizeof *self);
    kiln_value *value = NULL;
    kiln_weights *view = NULL;
    if (self) self->host = host;
    if (self && read_file(&(reader){host, ctx, w, set, self}, &view) == KILN_OK) {
        fill_table(self);
        if (check(ctx, self, view) == KILN_OK)
            value = models->net_new(ctx, GLIGEN_TYPE,
                                    &(kiln_net){.size = sizeof(kiln_net),
                                                .network = &self->network,
                                                .weights = view,
                                                .owned = self,
                                                .release = free});
    }
    if (!value) free(self);
    w->unref(view);
    return value;
}

const kiln_model_family gligen_family = {.size = sizeof gligen_family,
                                         .kind = GLIGEN_KIND,
                                         .name = "gligen",
                                         .doc = "GLIGEN: boxes with texts for UNets of SD1",
                                         .detect = detect,
                                         .open = open_gligen};
