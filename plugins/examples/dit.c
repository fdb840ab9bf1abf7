/* dit.c - a model family from outside the tree: DiT, class-conditional (Peebles and Xie 2023, arXiv:2212.09748), under
 * the names of its authors' release. docs/writing-a-model.md walks through this file.
 *
 *   x = patches of the latent, one linear each, + positions                    [N,T,D]
 *   c = silu(mlp(sinusoid(timestep)) + table[class])                           [N,D]
 *   a block: x += gate attention(modulate(x)), x += gate mlp(modulate(x)); shifts, scales and gates are linears of c
 *   at last: linear(modulate(x)), patches back to cells; of the two halves of channels the learned variance is dropped
 *
 * Shapes: N pictures, T tokens of width D, patches of p x p cells.
 */
#include "kiln/kit.h"
#include "kiln/model.h"
#include "kiln/standard_sampling.h"

#include <stdarg.h>
#include <stdlib.h>

enum { LEVELS = 1000 };

/* What open() makes and the MODEL owns. The table that kiln sees comes first, and `self` of it points here. */
typedef struct {
    kiln_denoiser denoiser;
    kiln_standard_sampling sampling;
    double sigma[LEVELS];
    char family[40];
    int64_t width, channels, patch, out_channels, side, hidden, sinusoid, labels; /* side: tokens along an edge */
    uint32_t depth, heads;
} dit;

static const double scale = 0.18215; /* of Stable Diffusion's autoencoder, which DiT was trained with */
static const kiln_latent_scaling scaling = {sizeof scaling, 1, &scale, NULL};
static const kiln_latent_format latent = {.size = sizeof latent, .channels = 4, .factor = 8, .scaling = &scaling};

static const kiln_input_spec inputs[] = {
    {.size = sizeof *inputs, .name = "class", .kind = KILN_INPUT_IDS, .width = 1, .doc = "a row of the label table"}};

/* ---- the network ---- */

/* An evaluation while it is recorded. */
typedef struct {
    kiln_recording r;
    const kiln_ops *o;
    kiln_program *p;
    const dit *d;
    kiln_weights *weights;
    int64_t n, rows, cols; /* pictures; tokens down and across */
    kiln_t c;              /* [N,D] */
    uint32_t block;        /* the one that is being recorded, and what goes into it */
    kiln_t block_input;
} walk;

/* x [...,I] -> [...,out], by the weights of that name. */
static kiln_t linear(const walk *s, kiln_t x, int64_t out, const char *name, ...)
{
    char part[80], full[100];
    int64_t dim[KILN_MAX_RANK] = {0};
    uint32_t rank = s->o->shape(s->p, x, dim, KILN_MAX_RANK);
    va_list args;
    va_start(args, name);
    vsnprintf(part, sizeof part, name, args);
    va_end(args);
    snprintf(full, sizeof full, "%s.weight", part);
    kiln_t w = s->o->weight(s->p, s->weights, full, 2, KILN_DIMS(out, rank ? dim[rank - 1] : 0));
    snprintf(full, sizeof full, "%s.bias", part);
    return s->o->linear(s->p, x, w, s->o->weight(s->p, s->weights, full, 1, &out));
}

/* Part k of a modulation [N,1,nD], [N,1,D]: the same for all tokens of a picture. */
static kiln_t part_of(const walk *s, kiln_t modulation, int64_t k)
{
    return s->o->slice(s->p, modulation, 2, k * s->d->width, s->d->width);
}

/* norm(x) (1 + scale) + shift, with shift and scale parts k and k + 1. The norm has no weights of its own. */
static kiln_t modulate(const walk *s, kiln_t x, kiln_t modulation, int64_t k)
{
    kiln_t one_and_scale = s->o->affine(s->p, part_of(s, modulation, k + 1), 1, 1);
    kiln_t h = s->o->layer_norm(s->p, x, 1e-6f, (kiln_t){0}, (kiln_t){0});
    return s->o->add(s->p, s->o->mul(s->p, h, one_and_scale), part_of(s, modulation, k));
}

/* x at "block.N<what>", where controls and hooks act. */
static kiln_t place(const walk *s, const char *what, kiln_t x, const kiln_attention_info *attention)
{
    char name[48];
    snprintf(name, sizeof name, "block.%u%s", s->block, what);
    kiln_place_info info = {.size = sizeof info, .place = name, .timestep_embedding = s->c, .attention = attention};
    if (!*what) info.input = s->block_input;
    return kiln_place(&s->r, x, &info);
}

static kiln_t attention(const walk *s, kiln_t x)
{
    const dit *d = s->d;
    char name[48];
    snprintf(name, sizeof name, "block.%u.attn", s->block);
    kiln_attention_info a = {.size = sizeof a, .heads = (int32_t)d->heads, .place = name, .x = x, .context = x};
    a.q = linear(s, x, d->width, "blocks.%u.attn.q", s->block);
    a.k = linear(s, x, d->width, "blocks.%u.attn.k", s->block);
    a.v = linear(s, x, d->width, "blocks.%u.attn.v", s->block);
    a.grid[0] = 1, a.grid[1] = s->rows, a.grid[2] = s->cols;
    kiln_t h = kiln_attention_at(&s->r, &a);
    return linear(s, place(s, ".attn.out", h, &a), d->width, "blocks.%u.attn.proj", s->block);
}

/* x [N,T,D] -> [N,T,D] */
static kiln_t block(walk *s, uint32_t number, kiln_t x)
{
    char name[48];
    snprintf(name, sizeof name, "block.%u", number);
    s->block = number, s->block_input = x;
    if (kiln_left_out(&s->r, name)) return place(s, "", x, NULL);
    s->o->scope_push(s->p, name);
    kiln_t m = linear(s, s->c, 6 * s->d->width, "blocks.%u.adaLN_modulation.1", number);
    m = s->o->reshape(s->p, m, 3, KILN_DIMS(s->n, 1, 6 * s->d->width)); /* shift, scale, gate; shift, scale, gate */
    kiln_t h = attention(s, place(s, ".attn.in", modulate(s, x, m, 0), NULL));
    x = s->o->add(s->p, s->o->mul(s->p, h, part_of(s, m, 2)), x);
    h = linear(s, modulate(s, x, m, 3), s->d->hidden, "blocks.%u.mlp.fc1", number);
    h = linear(s, s->o->act(s->p, h, KILN_ACT_GELU_TANH), s->d->width, "blocks.%u.mlp.fc2", number);
    x = s->o->add(s->p, s->o->mul(s->p, place(s, ".mlp", h, NULL), part_of(s, m, 5)), x);
    x = place(s, "", x, NULL);
    s->o->scope_pop(s->p);
    return x;
}

/* c: what a timestep and a class are to every block. */
static kiln_t condition(const walk *s)
{
    const kiln_denoise_inputs *in = s->r.in;
    const dit *d = s->d;
    kiln_timestep_embedding how = {.size = sizeof how, .cos_first = 1};
    kiln_t t = linear(s, s->o->timestep_embedding(s->p, in->timestep, d->sinusoid, &how), d->width, "t_embedder.mlp.0");
    t = linear(s, s->o->act(s->p, t, KILN_ACT_SILU), d->width, "t_embedder.mlp.2");
    kiln_t table =
        s->o->weight(s->p, s->weights, "y_embedder.embedding_table.weight", 2, KILN_DIMS(d->labels, d->width));
    kiln_t y = s->o->embedding(s->p, table, kiln_input(in->input, in->n_input, "class")); /* [N,1,D] */
    y = s->o->reshape(s->p, y, 2, KILN_DIMS(s->n, d->width));
    return s->o->act(s->p, s->o->add(s->p, t, y), KILN_ACT_SILU);
}

/* A position for each token [1,T,D]: sines and cosines of its column, then of its row. The file has the table of the
 * size it was trained with; a smaller picture, or a part of one, gets what the formula gives. */
static kiln_t positions(const walk *s)
{
    const dit *d = s->d;
    const int64_t quarter = d->width / 4, dim[3] = {1, s->rows * s->cols, d->width};
    kiln_t whole = s->o->weight(s->p, s->weights, "pos_embed", 3, KILN_DIMS(1, d->side * d->side, d->width));
    if (s->rows == d->side && s->cols == d->side) return whole;
    float *table = malloc((size_t)(dim[1] * d->width) * sizeof *table);
    if (!table) return s->o->fail(s->p, "no memory for the positions");
    for (int64_t i = 0; i < dim[1] * d->width; i++) {
        int64_t token = i / d->width, k = i % d->width, part = k / quarter;
        double at = (double)(part < 2 ? token % s->cols : token / s->cols);
        double angle = at * pow(10000, -(double)(k % quarter) / (double)quarter);
        table[i] = (float)(part % 2 ? cos(angle) : sin(angle));
    }
    kiln_t made = s->o->constant(s->p, table, 3, dim); /* it is copied */
    free(table);
    return made;
}

/* Latent [N,H,W,C] -> tokens [N,T,D]: a convolution whose stride is its size. */
static kiln_t patches(const walk *s)
{
    const dit *d = s->d;
    int32_t size = (int32_t)d->patch;
    kiln_conv2d stride = {.size = sizeof stride, .stride = {size, size}};
    kiln_t w =
        s->o->weight(s->p, s->weights, "x_embedder.proj.weight", 4, KILN_DIMS(d->width, d->channels, size, size));
    kiln_t b = s->o->weight(s->p, s->weights, "x_embedder.proj.bias", 1, &d->width);
    kiln_t x = s->o->conv2d(s->p, s->r.in->x, w, b, &stride); /* [N,rows,cols,D] */
    return s->o->add(s->p, s->o->reshape(s->p, x, 3, KILN_DIMS(s->n, s->rows * s->cols, d->width)), positions(s));
}

/* Tokens [N,T,D] -> the predicted noise [N,H,W,C]. A token has its patch's numbers as [p,p,channels]. */
static kiln_t cells(const walk *s, kiln_t x)
{
    const dit *d = s->d;
    kiln_t m = linear(s, s->c, 2 * d->width, "final_layer.adaLN_modulation.1");
    m = s->o->reshape(s->p, m, 3, KILN_DIMS(s->n, 1, 2 * d->width));
    x = linear(s, modulate(s, x, m, 0), d->patch * d->patch * d->out_channels, "final_layer.linear");
    x = s->o->reshape(s->p, x, 6, KILN_DIMS(s->n, s->rows, s->cols, d->patch, d->patch, d->out_channels));
    x = s->o->slice(s->p, x, 5, 0, d->channels);                      /* without the variance */
    x = s->o->permute(s->p, x, (const uint32_t[]){0, 1, 3, 2, 4, 5}); /* [N,rows,p,cols,p,C] */
    return s->o->reshape(s->p, x, 4, KILN_DIMS(s->n, s->rows * d->patch, s->cols * d->patch, d->channels));
}

static kiln_t record(const kiln_denoiser *denoiser, const kiln_ops *o, kiln_program *p, kiln_weights *weights,
                     const kiln_denoise_inputs *in)
{
    const dit *d = denoiser->self;
    walk s = {.r = {sizeof s.r, o, p, in}, .o = o, .p = p, .d = d, .weights = weights};
    int64_t dim[4] = {0};
    o->shape(p, in->x, dim, 4);
    s.n = dim[0], s.rows = dim[1] / d->patch, s.cols = dim[2] / d->patch;
    if (dim[1] % d->patch || dim[2] % d->patch || !s.rows || !s.cols || s.rows > d->side || s.cols > d->side)
        return o->fail(
            p,
            "this DiT cuts a latent into patches of %lldx%lld cells and has positions for %lldx%lld of them, "
            "and the latent, or the area of it, has %lldx%lld cells; make width and height multiples of "
            "%lld pixels, %lld at most",
            (long long)d->patch, (long long)d->patch, (long long)d->side, (long long)d->side, (long long)dim[2],
            (long long)dim[1], (long long)(d->patch * latent.factor), (long long)(d->side * d->patch * latent.factor));
    s.c = condition(&s);
    kiln_t x = patches(&s);
    for (uint32_t i = 0; i < d->depth; i++) x = block(&s, i, x);
    return cells(&s, x);
}

/* The places that record() calls kiln_place() and kiln_attention_at() at, in that order. */
static void list_places(const kiln_denoiser *denoiser, void (*fn)(void *arg, const char *place, uint32_t kind),
                        void *arg)
{
    static const struct {
        const char *name;
        uint32_t kind;
    } parts[] = {{".attn.in", KILN_PLACE_POINT},
                 {".attn", KILN_PLACE_ATTENTION},
                 {".attn.out", KILN_PLACE_POINT},
                 {".mlp", KILN_PLACE_POINT},
                 {"", KILN_PLACE_BLOCK}};
    for (uint32_t i = 0; i < ((const dit *)denoiser->self)->depth; i++)
        for (size_t k = 0; k < COUNT(parts); k++) {
            char name[48];
            snprintf(name, sizeof name, "block.%u%s", i, parts[k].name);
            fn(arg, name, parts[k].kind);
        }
}

/* ---- saving ---- */

/* How ModelSave writes it: under the release's names, with q, k and v as one tensor again. */
static kiln_status save_tensor(const kiln_saving *s, kiln_weights *weights, const char *name)
{
    char letter[2], end[16], part[3][80], fused[80];
    unsigned block;
    kiln_weight_row row = {.size = sizeof row, .name = name, .from = weights, .tensor = &name, .n_tensor = 1};
    const char *const all[] = {part[0], part[1], part[2]};
    if (sscanf(name, "blocks.%u.attn.%1[qkv].%15s", &block, letter, end) != 3) return s->tensor(s, &row);
    if (letter[0] != 'q') return KILN_OK; /* they stand with q */
    for (int i = 0; i < 3; i++) snprintf(part[i], sizeof part[i], "blocks.%u.attn.%c.%s", block, "qkv"[i], end);
    snprintf(fused, sizeof fused, "blocks.%u.attn.qkv.%s", block, end);
    row.name = fused, row.tensor = all, row.n_tensor = 3;
    return s->tensor(s, &row);
}

static kiln_status save(const kiln_denoiser *denoiser, const kiln_model *m, const kiln_saving *s)
{
    const kiln_weights_api *w = s->host->ability(KILN_WEIGHTS_ABILITY);
    kiln_status status = KILN_OK;
    char heads[16];
    for (size_t i = 0; status == KILN_OK && i < w->count(m->weights); i++) {
        kiln_weight_info info = {.size = sizeof info};
        if (w->at(m->weights, i, &info) == KILN_OK) status = save_tensor(s, m->weights, info.name);
    }
    snprintf(heads, sizeof heads, "%u", ((const dit *)denoiser->self)->heads);
    return status == KILN_OK ? s->text(s, "num_heads", heads) : status;
}

/* ---- opening ---- */

/* The size of a dimension of a tensor; 0: there is no such tensor or dimension. */
static int64_t size_of(const kiln_weights_api *w, const kiln_weights *set, const char *name, uint32_t dimension)
{
    kiln_weight_info info = {.size = sizeof info};
    return w->find(set, name, &info) == KILN_OK && dimension < info.rank ? info.dim[dimension] : 0;
}

static int detect(const kiln_weights_api *w, const kiln_weights *set)
{
    int here = size_of(w, set, "x_embedder.proj.weight", 3) && size_of(w, set, "final_layer.linear.weight", 1) &&
               size_of(w, set, "y_embedder.embedding_table.weight", 1) &&
               size_of(w, set, "blocks.0.attn.qkv.weight", 1);
    return here ? 90 : 0;
}

static kiln_status read_sizes(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, dit *d)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    char name[48] = "blocks.0.attn.qkv.weight";
    d->width = size_of(w, set, "x_embedder.proj.weight", 0);
    d->channels = size_of(w, set, "x_embedder.proj.weight", 1);
    d->patch = size_of(w, set, "x_embedder.proj.weight", 2);
    d->sinusoid = size_of(w, set, "t_embedder.mlp.0.weight", 1);
    d->hidden = size_of(w, set, "blocks.0.mlp.fc1.weight", 0);
    d->labels = size_of(w, set, "y_embedder.embedding_table.weight", 0);
    while (d->side * d->side < size_of(w, set, "pos_embed", 1)) d->side++;
    while (size_of(w, set, name, 0)) snprintf(name, sizeof name, "blocks.%u.attn.qkv.weight", ++d->depth);
    if (d->patch) d->out_channels = size_of(w, set, "final_layer.linear.weight", 0) / (d->patch * d->patch);
    if (d->channels == latent.channels && d->out_channels >= d->channels && d->side && d->width % 4 == 0)
        return KILN_OK;
    return host->fail(
        ctx, KILN_ERR_UNSUPPORTED,
        "this DiT has %lld channels in, %lld out, %lldx%lld positions and tokens of %lld numbers; 4 channels "
        "in, at least 4 out, a pos_embed and a multiple of 4 are supported",
        (long long)d->channels, (long long)d->out_channels, (long long)d->side, (long long)d->side,
        (long long)d->width);
}

/* No tensor's shape says into how many heads a width is cut: a file may say it (num_heads in its __metadata__), and the
 * released sizes are known. */
static kiln_status read_heads(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, dit *d)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    const char *text = w->text(set, "__metadata__/num_heads", NULL);
    long heads = text ? strtol(text, NULL, 10) : d->width == 1152 ? 16 : d->width % 64 ? 0 : (long)(d->width / 64);
    if (heads < 1 || d->width % heads)
        return host->fail(ctx, KILN_ERR_INVALID,
                          "into how many heads are the %lld numbers of a token of this DiT cut? The file does not say "
                          "it: write \"num_heads\" into its __metadata__",
                          (long long)d->width);
    d->heads = (uint32_t)heads;
    return KILN_OK;
}

/* The release keeps q, k and v in one tensor. A view gives each its rows; all else has its name. */
static kiln_weights *view_of(const kiln_weights_api *w, kiln_ctx *ctx, kiln_weights *set, int64_t width)
{
    const kiln_weight_rule rules[] = {
        KILN_RULE(.from = "blocks.{}.attn.qkv.{}", .to = "blocks.{}.attn.q.{}", .row = 0, .rows = width, .more = 1),
        KILN_RULE(.from = "blocks.{}.attn.qkv.{}", .to = "blocks.{}.attn.k.{}", .row = width, .rows = width, .more = 1),
        KILN_RULE(.from = "blocks.{}.attn.qkv.{}", .to = "blocks.{}.attn.v.{}", .row = 2 * width, .rows = width),
        KILN_RULE(.from = "*", .to = "*"),
    };
    return w->view(ctx, set, rules, COUNT(rules));
}

static kiln_status fill(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, dit *d)
{
    if (read_sizes(host, ctx, set, d) != KILN_OK || read_heads(host, ctx, set, d) != KILN_OK) return KILN_ERR_INVALID;
    kiln_discrete_sigmas("linear", 0.0001, 0.02, LEVELS, d->sigma);
    kiln_standard_sampling_init(
        &d->sampling, &(kiln_sampling_row){.prediction = KILN_PREDICT_EPS, .n_sigma = LEVELS, .sigma = d->sigma});
    snprintf(d->family, sizeof d->family, "example-dit/%u", d->heads); /* all else is in the weights' shapes */
    d->denoiser =
        (kiln_denoiser){.size = sizeof d->denoiser, .family = d->family, .self = d, KILN_ARRAY(input, inputs)};
    d->denoiser.latent = &latent;
    d->denoiser.sampling = &d->sampling.base;
    d->denoiser.record = record, d->denoiser.places = list_places, d->denoiser.save = save;
    return KILN_OK;
}

static kiln_value *open_model(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    const kiln_model_api *models = host->ability(KILN_MODEL_ABILITY);
    kiln_weights *view = NULL;
    kiln_value *value = NULL;
    dit *d = calloc(1, sizeof *d);
    if (!d) return NULL;
    if (fill(host, ctx, set, d) == KILN_OK) view = view_of(w, ctx, set, d->width);
    kiln_model model = {.size = sizeof model, .denoiser = &d->denoiser, .weights = view, .owned = d, .release = free};
    if (view) value = models->model_new(ctx, &model);
    if (!value) free(d); /* model_new() has taken nothing then */
    w->unref(view);
    return value;
}

static const kiln_model_family family = {.size = sizeof family,
                                         .kind = KILN_FAMILY_DENOISER,
                                         .name = "example-dit",
                                         .doc = "DiT, a transformer on patches",
                                         .detect = detect,
                                         .open = open_model};

/* ---- DiTLabel: a class -> CONDITIONING ---- */

typedef struct {
    int64_t label;
} label_params;

static const kiln_port label_in[] = {{.name = "model", .type = "MODEL", .doc = "The DiT it is for."}};
static const kiln_port label_out[] = {
    {.name = "CONDITIONING", .type = "CONDITIONING", .doc = "What the sampler is steered by."}};
static const kiln_param label_param[] = {
    KIT_INT(label_params, label, -1, -1, INT32_MAX, "The class; -1 is none of them, for the negative.")};

/* [{class: i32 [1,1]}]. The table's last row was trained with the label left out. */
static kiln_status label_run(const kiln_call *c)
{
    const kiln_value_api *v = kit_values(c);
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_weights_api *w = c->host->ability(KILN_WEIGHTS_ABILITY);
    const kiln_model *m = models->model(c->ctx, c->in[0]);
    int64_t label = ((const label_params *)c->params)->label;
    if (!m) return KILN_ERR_INVALID;
    int64_t rows = size_of(w, m->weights, "y_embedder.embedding_table.weight", 0);
    if (!rows) return c->host->fail(c->ctx, KILN_ERR_INVALID, "this MODEL takes no class; load a DiT");
    if (label >= rows - 1)
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "label is %lld, and this model knows classes 0 to %lld",
                             (long long)label, (long long)(rows - 2));
    kiln_value *id = c->host->tensor_new(c->ctx, KILN_I32, KILN_CPU, 2, KILN_DIMS(1, 1));
    kiln_value *entry = v->new_map(c->ctx), *list = v->new_list(c->ctx);
    kiln_tensor t = {.size = sizeof t};
    kiln_status status = id && entry && list ? c->host->view(c->ctx, id, &t) : KILN_ERR_NOMEM;
    if (status == KILN_OK && !c->estimate) *(int32_t *)t.data = (int32_t)(label < 0 ? rows - 1 : label);
    if (status == KILN_OK) status = v->map_set(entry, "class", id);
    if (status == KILN_OK) status = v->list_push(list, entry);
    if (status == KILN_OK) c->out[0] = c->host->ref(list);
    c->host->unref(id), c->host->unref(entry), c->host->unref(list); /* each container has taken its own */
    return status;
}

static const kiln_node label_node = {KIT_NODE("DiTLabel", "DiT Label", "examples", "A class that a DiT shall draw."),
                                     KILN_ARRAY(in, label_in), KILN_ARRAY(out, label_out),
                                     KIT_PARAMS(label_params, label_param), .run = label_run};

static kiln_status open_plugin(const kiln_host *host)
{
    const kiln_model_api *models = host->ability(KILN_MODEL_ABILITY);
    return models ? models->register_family(&family) : KILN_ERR_UNSUPPORTED;
}

KILN_PLUGIN_OPEN("org.example.dit", "1.0.0", "MIT", open_plugin, &label_node);
