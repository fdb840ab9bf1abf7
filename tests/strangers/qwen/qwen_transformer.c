/* qwen_transformer.c - Qwen-Image's transformer (Alibaba 2025) under diffusers' names, as a denoiser of kiln.
 *
 *   x = patches of 2x2 cells, one linear each, those of reference latents behind them; text = linear(rms(tokens))
 *   c = silu(mlp(sinusoid(1000 t)))
 *   a block: picture and text have weights of their own and one attention; shifts, scales and gates are linears of c
 * Queries and keys are normalised head by head and turned on three axes: which picture (0 is the one that is drawn),
 * row and column, counted from a picture's middle; text lies on the diagonal behind the largest of them. In the
 * attention text stands behind the pictures, so that of a shorter prompt in a batch the padding is what comes last and
 * is not read.
 */
#include "qwen.h"

#include "kiln/checkpoint.h"
#include "kiln/standard_sampling.h"

enum { LEVELS = 10000, PATCH = 2, CHANNELS = 16, CELLS = PATCH * PATCH * CHANNELS, SINUSOID = 256, AXES = 3 };
enum { PICTURES_MAX = 16 }; /* the one that is drawn, and references */

/* What open() makes and the MODEL owns. */
typedef struct {
    kiln_denoiser denoiser;
    kiln_standard_sampling sampling;
    kiln_input_spec input[3];
    double sigma[LEVELS];
    char family[80];
    int64_t heads, head, width, context, hidden, layers, axis[AXES];
    int clean; /* 1: references are shown as what they are, without noise: t = 0 */
} qwen;

/* Of Wan's autoencoder, which is Qwen-Image's too: (latent - mean) / deviation. */
static const double mean[CHANNELS] = {-0.7571, -0.7089, -0.9113, 0.1075,  -0.1745, 0.9653,  -0.1517, 1.5508,
                                      0.4134,  -0.0715, 0.5517,  -0.3632, -0.1922, -0.9497, 0.2503,  -0.2921};
static const double scale[CHANNELS] = {1 / 2.8184, 1 / 1.4541, 1 / 2.3275, 1 / 2.6558, 1 / 1.2196, 1 / 1.7708,
                                       1 / 2.6052, 1 / 2.0743, 1 / 3.2687, 1 / 2.1526, 1 / 2.8652, 1 / 1.5579,
                                       1 / 1.6382, 1 / 1.1253, 1 / 2.8251, 1 / 1.9160};
static const kiln_latent_scaling scaling = {sizeof scaling, CHANNELS, scale, mean};
const kiln_latent_format qwen_latent = {
    .size = sizeof qwen_latent, .channels = CHANNELS, .factor = 8, .scaling = &scaling, .patch = PATCH};

/* ---- the network ---- */

typedef struct {
    kiln_recording r;
    recorder w;
    const qwen *m;
    int64_t n, length, pictures;                       /* of the batch; tokens of text; pictures a sample has */
    int64_t rows[PICTURES_MAX], columns[PICTURES_MAX]; /* patches of each                                     */
    int64_t patches;                                   /* of all pictures                                     */
    kiln_t c, clean;                                   /* silu(c) [N,D]; of t = 0 for the references, or {0} */
    kiln_t cos, sin;                                   /* f32 [1,patches+L,1,head/2]                          */
    kiln_t keys;                                       /* i32 [N]: patches and the prompt's own tokens        */
} walk;

/* A stream: the pictures' or the text's. */
typedef struct {
    const char *modulation, *mlp, *q, *k, *v, *norm_q, *norm_k, *out;
} side;
static const side sides[2] = {
    {"img_mod.1", "img_mlp", "to_q", "to_k", "to_v", "norm_q", "norm_k", "to_out.0"},
    {"txt_mod.1", "txt_mlp", "add_q_proj", "add_k_proj", "add_v_proj", "norm_added_q", "norm_added_k", "to_add_out"}};

/* Part k of shifts, scales and gates [N,1,parts*D]. */
static kiln_t part_of(const walk *s, kiln_t modulation, int64_t k)
{
    return s->w.o->slice(s->w.p, modulation, 2, k * s->m->width, s->m->width);
}
static kiln_t norm(const walk *s, kiln_t x, kiln_t by_scale, kiln_t by_shift)
{
    const kiln_norm how = {
        .size = sizeof how, .kind = KILN_NORM_LAYER, .eps = 1e-6f, .scale = by_scale, .shift = by_shift};
    return s->w.o->normalize(s->w.p, x, &how);
}

/* A stream in a block. m: shift, scale and gate of the attention, the same of the MLP; clean: the references', or {0}.
 */
typedef struct {
    const side *of;
    kiln_t x, m, clean, h, q, k, v;
} stream;

static int64_t drawn(const walk *s) { return s->rows[0] * s->columns[0]; }

/* fn(x, y) with t's modulations from part k on; with those of its references behind what is drawn. */
typedef kiln_t modulated(const walk *s, kiln_t x, kiln_t y, kiln_t m, int64_t k);
static kiln_t modulate(const walk *s, const stream *t, kiln_t x, kiln_t y, int64_t k, modulated *fn)
{
    const kiln_ops *o = s->w.o;
    kiln_t part[2];
    if (!t->clean.id) return fn(s, x, y, t->m, k);
    for (int i = 0; i < 2; i++) {
        const int64_t first = i ? drawn(s) : 0, n = i ? s->patches - drawn(s) : drawn(s);
        part[i] = fn(s, o->slice(s->w.p, x, 1, first, n), y.id ? o->slice(s->w.p, y, 1, first, n) : y,
                     i ? t->clean : t->m, k);
    }
    return o->concat(s->w.p, part, 2, 1);
}
/* norm(x) times its scale and with its shift; x and its gate times y. */
static kiln_t shifted(const walk *s, kiln_t x, kiln_t y, kiln_t m, int64_t k)
{
    (void)y;
    return norm(s, x, part_of(s, m, k + 1), part_of(s, m, k));
}
static kiln_t gated(const walk *s, kiln_t x, kiln_t y, kiln_t m, int64_t k)
{
    return s->w.o->map(s->w.p, "a + b * c", (kiln_t[]){x, part_of(s, m, k), y}, 3, NULL);
}

static kiln_t joined(const walk *s, kiln_t pictures, kiln_t text)
{
    return s->w.o->concat(s->w.p, (kiln_t[]){pictures, text}, 2, 1);
}

static kiln_t modulation(const walk *s, const char *block, const side *of, kiln_t c)
{
    kiln_t m = qwen_linear(&s->w, c, 6 * s->m->width, "%s.%s", block, of->modulation);
    return s->w.o->reshape(s->w.p, m, 3, KILN_DIMS(s->n, 1, 6 * s->m->width));
}

static void enter(const walk *s, const char *block, stream *t)
{
    const int64_t width = s->m->width, head = s->m->head;
    t->m = modulation(s, block, t->of, s->c);
    if (s->clean.id && t->of == &sides[0]) t->clean = modulation(s, block, t->of, s->clean);
    t->h = modulate(s, t, t->x, (kiln_t){0}, 0, shifted);
    t->q = qwen_linear(&s->w, t->h, width, "%s.attn.%s", block, t->of->q);
    t->k = qwen_linear(&s->w, t->h, width, "%s.attn.%s", block, t->of->k);
    t->v = qwen_linear(&s->w, t->h, width, "%s.attn.%s", block, t->of->v);
    t->q = qwen_rms(&s->w, t->q, 1e-6f, head, "%s.attn.%s.weight", block, t->of->norm_q);
    t->k = qwen_rms(&s->w, t->k, 1e-6f, head, "%s.attn.%s.weight", block, t->of->norm_k);
}

static void leave(const walk *s, const char *block, stream *t, kiln_t attended)
{
    attended = qwen_linear(&s->w, attended, s->m->width, "%s.attn.%s", block, t->of->out);
    t->x = modulate(s, t, t->x, attended, 2, gated);
    kiln_t h = modulate(s, t, t->x, (kiln_t){0}, 3, shifted);
    h = qwen_linear(&s->w, h, s->m->hidden, "%s.%s.net.0.proj", block, t->of->mlp);
    h = qwen_linear(&s->w, s->w.o->act(s->w.p, h, KILN_ACT_GELU_TANH), s->m->width, "%s.%s.net.2", block, t->of->mlp);
    t->x = modulate(s, t, t->x, h, 5, gated);
}

/* What is drawn, what is drawn from, and the text, of which a shorter prompt's padding is no key. */
static kiln_t attention(const walk *s, const char *block, const stream *x, const stream *text)
{
    const kiln_ops *o = s->w.o;
    const kiln_attention_stream streams[] = {
        {sizeof *streams, "image", 0, drawn(s)},
        {sizeof *streams, "text", s->patches, s->length},
        {sizeof *streams, "reference", drawn(s), s->patches - drawn(s)}}; /* the last, where there are any */
    const kiln_rope rope = {
        .size = sizeof rope, .heads = (int32_t)s->m->heads, .interleaved = 1, .cos = s->cos, .sin = s->sin};
    const kiln_attention more = {.size = sizeof more, .key_length = s->keys};
    char place[48];
    kiln_attention_info a = {.size = sizeof a,
                             .heads = (int32_t)s->m->heads,
                             .place = NAME(place, "%s.attn", block),
                             .x = x->h,
                             .context = text->h,
                             .v = joined(s, x->v, text->v),
                             .more = &more,
                             .stream = streams,
                             .n_stream = s->pictures > 1 ? 3 : 2};
    a.q = o->rope(s->w.p, joined(s, x->q, text->q), &rope), a.k = o->rope(s->w.p, joined(s, x->k, text->k), &rope);
    if (s->pictures == 1) a.grid[0] = 1, a.grid[1] = s->rows[0], a.grid[2] = s->columns[0];
    return kiln_attention_at(&s->r, &a);
}

static void block(const walk *s, long long i, kiln_t *pictures, kiln_t *tokens)
{
    char name[40], at[40];
    stream x = {.of = &sides[0], .x = *pictures}, text = {.of = &sides[1], .x = *tokens};
    NAME(name, "transformer_blocks.%lld", i), NAME(at, "double.%lld", i);
    if (kiln_left_out(&s->r, at)) return;
    s->w.o->scope_push(s->w.p, at);
    enter(s, name, &x), enter(s, name, &text);
    kiln_t y = attention(s, at, &x, &text);
    leave(s, name, &x, s->w.o->slice(s->w.p, y, 1, 0, s->patches));
    leave(s, name, &text, s->w.o->slice(s->w.p, y, 1, s->patches, s->length));
    const kiln_place_info info = {.size = sizeof info, .place = at, .timestep_embedding = s->c, .input = *pictures};
    *pictures = kiln_place(&s->r, x.x, &info), *tokens = text.x;
    s->w.o->scope_pop(s->w.p);
}

/* ---- what goes in ---- */

/* By `thousand` times the timestep: 0 for what has no noise. */
static kiln_t condition(const walk *s, float thousand)
{
    const kiln_timestep_embedding how = {.size = sizeof how, .cos_first = 1};
    const kiln_map times = {.size = sizeof times, .dtype = KILN_F32, .number = {thousand}};
    kiln_t t = s->w.o->map(s->w.p, "a * p", &s->r.in->timestep, 1, &times);
    kiln_t c = s->w.o->timestep_embedding(s->w.p, t, SINUSOID, &how);
    c = qwen_linear(&s->w, c, s->m->width, "time_text_embed.timestep_embedder.linear_1");
    c = qwen_linear(&s->w, s->w.o->act(s->w.p, c, KILN_ACT_SILU), s->m->width,
                    "time_text_embed.timestep_embedder.linear_2");
    return s->w.o->act(s->w.p, c, KILN_ACT_SILU);
}

/* Where token t lies: text begins behind the largest picture's half. */
static void place_of(const walk *s, int64_t t, int64_t at[AXES])
{
    int64_t behind = 0;
    for (int64_t i = 0; i < s->pictures; i++) {
        const int64_t rows = s->rows[i], columns = s->columns[i], n = rows * columns;
        if (t < n) {
            at[0] = i, at[1] = t / columns - (rows - rows / 2), at[2] = t % columns - (columns - columns / 2);
            return;
        }
        t -= n;
        if (rows / 2 > behind) behind = rows / 2;
        if (columns / 2 > behind) behind = columns / 2;
    }
    at[0] = at[1] = at[2] = behind + t;
}

static double angle(const void *of, int64_t t, int64_t column)
{
    const walk *s = of;
    int64_t at[AXES];
    int axis = 0;
    place_of(s, t, at);
    while (2 * column >= s->m->axis[axis]) column -= s->m->axis[axis++] / 2;
    return (double)at[axis] * pow(10000, -2.0 * (double)column / (double)s->m->axis[axis]);
}

/* [n,H,W,C] -> [N,T,4C]: a patch has its numbers as [C,2,2]. A latent of one picture is every sample's. */
static kiln_t patches(walk *s, kiln_t x)
{
    const kiln_ops *o = s->w.o;
    int64_t dim[4] = {0}, rows, columns;
    o->shape(s->w.p, x, dim, 4);
    s->rows[s->pictures] = rows = dim[1] / PATCH, s->columns[s->pictures] = columns = dim[2] / PATCH;
    s->pictures++, s->patches += rows * columns;
    if (dim[1] % PATCH || dim[2] % PATCH)
        return o->fail(s->w.p,
                       "a reference latent of %lldx%lld cells, and the model takes patches of 2x2; scale the "
                       "picture to multiples of 16 pixels",
                       (long long)dim[2], (long long)dim[1]);
    x = o->reshape(s->w.p, x, 6, KILN_DIMS(dim[0], rows, PATCH, columns, PATCH, CHANNELS));
    x = o->permute(s->w.p, x, (const uint32_t[]){0, 1, 3, 5, 2, 4});
    x = o->reshape(s->w.p, x, 3, KILN_DIMS(dim[0], rows * columns, CELLS));
    return dim[0] == s->n ? x : o->expand(s->w.p, x, 3, KILN_DIMS(s->n, rows * columns, CELLS));
}
static kiln_t cells(const walk *s, kiln_t x)
{
    const kiln_ops *o = s->w.o;
    const int64_t rows = s->rows[0], columns = s->columns[0];
    x = o->reshape(s->w.p, x, 6, KILN_DIMS(s->n, rows, columns, CHANNELS, PATCH, PATCH));
    x = o->permute(s->w.p, x, (const uint32_t[]){0, 1, 4, 2, 5, 3});
    return o->reshape(s->w.p, x, 4, KILN_DIMS(s->n, rows * PATCH, columns * PATCH, CHANNELS));
}

/* What is drawn, and behind it what is drawn from. */
static kiln_t all_patches(walk *s)
{
    const kiln_denoise_inputs *in = s->r.in;
    kiln_t part[PICTURES_MAX] = {patches(s, in->x)}, reference;
    uint32_t n = 1;
    while ((reference = kiln_input_of(NULL, in->input, in->n_input, "references", n - 1)).id) {
        if (n == PICTURES_MAX) return s->w.o->fail(s->w.p, "more than %d reference latents", PICTURES_MAX - 1);
        part[n++] = patches(s, reference);
    }
    return n > 1 ? s->w.o->concat(s->w.p, part, n, 1) : part[0];
}

static kiln_t record(const kiln_denoiser *d, const kiln_ops *o, kiln_program *p, kiln_weights *weights,
                     const kiln_denoise_inputs *in)
{
    const qwen *m = d->self;
    walk s = {.r = {sizeof s.r, o, p, in}, .w = {o, p, weights}, .m = m};
    kiln_t tokens = kiln_input(in->input, in->n_input, "tokens"), length = kiln_input(in->input, in->n_input, "length");
    int64_t dim[4] = {0}, of_tokens[3] = {0};
    o->shape(p, in->x, dim, 4), o->shape(p, tokens, of_tokens, 3);
    s.n = dim[0], s.length = of_tokens[1], s.c = condition(&s, 1000);
    kiln_t x = qwen_linear(&s.w, all_patches(&s), m->width, "img_in");
    if (m->clean && s.pictures > 1) s.clean = condition(&s, 0);
    kiln_t text = qwen_linear(&s.w, qwen_rms(&s.w, tokens, 1e-6f, 0, "txt_norm.weight"), m->width, "txt_in");
    const int32_t before = (int32_t)s.patches;
    s.keys = o->map(p, "a + b", (kiln_t[]){length, o->constant_i32(p, &before, 1, KILN_DIMS(1))}, 2,
                    &(kiln_map){.size = sizeof(kiln_map), .dtype = KILN_I32});
    s.cos = qwen_table(&s.w, &s, angle, s.patches + s.length, m->head / 2, cos);
    s.sin = qwen_table(&s.w, &s, angle, s.patches + s.length, m->head / 2, sin);
    for (int64_t i = 0; i < m->layers; i++) block(&s, i, &x, &text);
    kiln_t out = qwen_linear(&s.w, s.c, 2 * m->width, "norm_out.linear"); /* scale, shift */
    out = o->reshape(p, out, 3, KILN_DIMS(s.n, 1, 2 * m->width));
    x = norm(&s, o->slice(p, x, 1, 0, drawn(&s)), part_of(&s, out, 0), part_of(&s, out, 1));
    return cells(&s, qwen_linear(&s.w, x, CELLS, "proj_out"));
}

static void list_places(const kiln_denoiser *d, void (*fn)(void *arg, const char *place, uint32_t kind), void *arg)
{
    char name[48];
    for (int64_t i = 0; i < ((const qwen *)d->self)->layers; i++) {
        fn(arg, NAME(name, "double.%lld.attn", (long long)i), KILN_PLACE_ATTENTION);
        fn(arg, NAME(name, "double.%lld", (long long)i), KILN_PLACE_BLOCK);
    }
}

/* ---- opening ---- */

#define NEEDS                                                                                                          \
    {                                                                                                                  \
        "txt_norm.weight", "transformer_blocks.0.attn.add_q_proj.weight", "transformer_blocks.0.img_mod.1.weight"      \
    }
static const checkpoint_layout layouts[] = {
    {.prefix = "transformer/", .config = "transformer/config.json", .needs = NEEDS},
    {.prefix = "model.diffusion_model.", .needs = NEEDS},
    {.prefix = "", .needs = NEEDS}};

static int detect(const kiln_weights_api *w, const kiln_weights *set)
{
    return checkpoint_find(w, set, layouts, COUNT(layouts)) ? 90 : 0;
}

/* 2511's file says by a tensor of no numbers what its configuration says in a folder. */
static const char clean_mark[] = "__index_timestep_zero__";

static kiln_status find_relatives(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, const char *prefix,
                                  qwen *m)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    kiln_weight_info info;
    m->clean = checkpoint_has(w, set, prefix, &info, "%s", clean_mark);
    if (!checkpoint_has(w, set, prefix, &info, "time_text_embed.addition_t_embedding.weight")) return KILN_OK;
    return host->fail(ctx, KILN_ERR_UNSUPPORTED, "this is Qwen-Image-Layered; Qwen-Image and Qwen-Image-Edit are done");
}

static kiln_status read_file(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set, const checkpoint_layout *at,
                             qwen *m)
{
    static const config_rule expected[] = {{"patch_size", "2"},
                                           {"in_channels", "64"},
                                           {"out_channels", "16"},
                                           {"guidance_embeds", "false"},
                                           {"use_additional_t_cond", "false"},
                                           {"use_layer3d_rope", "false"}};
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    kiln_weight_info info;
    TRY(find_relatives(host, ctx, set, at->prefix, m));
    config c = config_open(host, ctx, set, at->config ? at->config : "__metadata__/config");
    config_expect(&c, expected, COUNT(expected));
    m->clean |= config_bool(&c, "zero_cond_t", 0);
    if (checkpoint_has(w, set, at->prefix, &info, "txt_in.weight") && info.rank == 2)
        m->width = info.dim[0], m->context = info.dim[1];
    if (checkpoint_has(w, set, at->prefix, &info, "transformer_blocks.0.img_mlp.net.0.proj.weight"))
        m->hidden = info.dim[0];
    if (checkpoint_has(w, set, at->prefix, &info, "transformer_blocks.0.attn.norm_q.weight")) m->head = info.dim[0];
    while (checkpoint_has(w, set, at->prefix, &info, "transformer_blocks.%lld.img_mod.1.weight", (long long)m->layers))
        m->layers++;
    m->axis[0] = m->head / 8, m->axis[1] = m->axis[2] = m->head / 16 * 7; /* 16, 56, 56 of 128 */
    if (config_get(&c, "axes_dims_rope")) config_ints(&c, "axes_dims_rope", 0, 2, 1024, AXES, m->axis, AXES);
    m->heads = m->head ? m->width / m->head : 0;
    if (!c.failed && (!m->heads || m->heads * m->head != m->width || m->axis[0] + m->axis[1] + m->axis[2] != m->head ||
                      m->axis[0] % 2 || m->axis[1] % 2))
        CONFIG_FAIL(&c, KILN_ERR_INVALID, "%s: axes_dims_rope do not add up to a head's %lld columns, all even", c.path,
                    (long long)m->head);
    config_close(&c);
    return c.failed ? KILN_ERR_INVALID : KILN_OK;
}

static void fill(qwen *m)
{
    const kiln_input_spec input[] = {
        {.size = sizeof *input,
         .name = "tokens",
         .kind = KILN_INPUT_TOKENS,
         .batch = KILN_BATCH_PAD,
         .width = m->context,
         .doc = "Qwen2.5-VL's last hidden state"},
        {.size = sizeof *input, .name = "length", .kind = KILN_INPUT_LENGTHS, .of = "tokens"},
        {.size = sizeof *input,
         .name = "references",
         .key = "reference_latents",
         .kind = KILN_INPUT_LATENTS,
         .flags = KILN_INPUT_OPTIONAL | KILN_INPUT_OMITTED | KILN_INPUT_MODEL_SPACE,
         .width = CHANNELS,
         .doc = "pictures to draw from"}};
    memcpy(m->input, input, sizeof input);
    kiln_flow_sigmas(exp(1.15), LEVELS, m->sigma);
    kiln_standard_sampling_init(&m->sampling, &(kiln_sampling_row){.prediction = KILN_PREDICT_FLOW,
                                                                   .time = KILN_TIME_FLOW,
                                                                   .n_sigma = LEVELS,
                                                                   .sigma = m->sigma,
                                                                   .multiplier = 1,
                                                                   .shift = exp(1.15)});
    snprintf(m->family, sizeof m->family, "example-qwen-image/%lld.%lld.%lld.%lld%s", (long long)m->heads,
             (long long)m->axis[0], (long long)m->axis[1], (long long)m->axis[2], m->clean ? "/clean" : "");
    m->denoiser = (kiln_denoiser){.size = sizeof m->denoiser,
                                  .family = m->family,
                                  .self = m,
                                  .latent = &qwen_latent,
                                  .sampling = &m->sampling.base,
                                  .record = record,
                                  .places = list_places,
                                  KILN_ARRAY(input, m->input),
                                  .architecture = "Qwen-Image",
                                  .precisions = 1u << KILN_F32 | 1u << KILN_BF16};
}

static kiln_weights *view(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set, const char *prefix)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    char from[64];
    const kiln_weight_rule rule = KILN_RULE(.from = NAME(from, "%s*", prefix), .to = "*");
    kiln_weights *made = w->view(ctx, set, &rule, 1);
    kiln_weight_info info;
    float none[1];
    if (made && checkpoint_has(w, made, "", &info, "%s", clean_mark) && info.rank == 1 && info.dim[0] == 0)
        w->read_f32(ctx, made, clean_mark, none); /* so that it is none that nobody asked for */
    return made;
}

static kiln_value *open_model(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set)
{
    const kiln_model_api *models = host->ability(KILN_MODEL_ABILITY);
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    const checkpoint_layout *at = checkpoint_find(w, set, layouts, COUNT(layouts));
    qwen *m = at ? calloc(1, sizeof *m) : NULL;
    kiln_weights *own = m && read_file(host, ctx, set, at, m) == KILN_OK ? view(host, ctx, set, at->prefix) : NULL;
    kiln_value *value = NULL;
    if (own) {
        fill(m);
        value = models->model_new(
            ctx,
            &(kiln_model){
                .size = sizeof(kiln_model), .denoiser = &m->denoiser, .weights = own, .owned = m, .release = free});
    }
    if (!value) free(m);
    w->unref(own);
    return value;
}

const kiln_model_family qwen_denoiser_family = {.size = sizeof qwen_denoiser_family,
                                                .kind = KILN_FAMILY_DENOISER,
                                                .name = "example-qwen-image",
                                                .doc = "Qwen-Image and Qwen-Image-Edit",
                                                .detect = detect,
                                                .open = open_model};
