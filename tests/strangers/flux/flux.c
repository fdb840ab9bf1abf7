/* flux.c - Flux.1 (Black Forest Labs 2024) under diffusers' names, as a denoiser of kiln.
 *
 *   x = patches of 2x2 cells, one linear each [N,T,D]; text = linear(tokens) [N,L,D]
 *   c = mlp(sinusoid(1000 t)) + mlp(sinusoid(1000 guidance)) + mlp(pooled)
 *   a double block: text and picture have weights of their own and one attention; a single block: both are one
 *   sequence, and attention and MLP stand beside one another
 * Queries and keys are normalised head by head and turned by three axes: none for text, a patch's row, its column.
 */
#include "flux.h"

#include "kiln/config.h"
#include "kiln/model.h"
#include "kiln/standard_sampling.h"

#include <stdarg.h>
#include <stdlib.h>

enum { LEVELS = 1000, PATCH = 2, CHANNELS = 16, SINUSOID = 256, AXES = 3 };

/* What open() makes and the MODEL owns. */
typedef struct {
    kiln_denoiser denoiser;
    kiln_standard_sampling sampling;
    kiln_input_spec input[3];
    double sigma[LEVELS];
    char family[80];
    int64_t heads, head, width, context, pooled, doubles, singles, axis[AXES];
    int guided;
} flux;

static const double scale = 0.3611, shift = 0.1159;
static const kiln_latent_scaling scaling = {sizeof scaling, 1, &scale, &shift};
static const kiln_latent_format latent = {
    .size = sizeof latent, .channels = CHANNELS, .factor = 8, .scaling = &scaling, .patch = PATCH};

/* ---- the network ---- */

typedef struct {
    kiln_recording r;
    const kiln_ops *o;
    kiln_program *p;
    const flux *m;
    kiln_weights *weights;
    int64_t n, rows, cols, length; /* pictures; patches down and across; tokens of text */
    kiln_t c;                      /* silu(c) [N,D], what modulations are linears of    */
    kiln_t cos, sin;               /* f32 [1,L+T,1,head/2] */
} walk;

__attribute__((format(printf, 4, 5))) static kiln_t linear(const walk *s, kiln_t x, int64_t out, const char *name, ...)
{
    char part[96], full[112];
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

/* Shifts, scales and gates of a block: part k of [N,1,parts*D]. */
static kiln_t part_of(const walk *s, kiln_t modulation, int64_t k)
{
    return s->o->slice(s->p, modulation, 2, k * s->m->width, s->m->width);
}
static kiln_t modulation(const walk *s, int64_t parts, const char *name)
{
    kiln_t m = linear(s, s->c, parts * s->m->width, "%s.linear", name);
    return s->o->reshape(s->p, m, 3, KILN_DIMS(s->n, 1, parts * s->m->width));
}
static kiln_t norm(const walk *s, kiln_t x, kiln_t by_scale, kiln_t by_shift)
{
    const kiln_norm how = {
        .size = sizeof how, .kind = KILN_NORM_LAYER, .eps = 1e-6f, .scale = by_scale, .shift = by_shift};
    return s->o->normalize(s->p, x, &how);
}
static kiln_t add_gated(const walk *s, kiln_t x, kiln_t gate, kiln_t y)
{
    return s->o->map(s->p, "a + b * c", (kiln_t[]){x, gate, y}, 3, NULL);
}

/* Queries, keys or values; with a norm those of each head are normalised. */
static kiln_t project(const walk *s, kiln_t x, const char *block, const char *to, const char *norm_name)
{
    char name[96];
    kiln_t y = linear(s, x, s->m->width, "%s.attn.%s", block, to);
    if (!norm_name) return y;
    kiln_norm how = {.size = sizeof how, .kind = KILN_NORM_RMS, .eps = 1e-6f, .group = s->m->head};
    how.gain = s->o->weight(s->p, s->weights, NAME(name, "%s.attn.%s.weight", block, norm_name), 1, &s->m->head);
    return s->o->normalize(s->p, y, &how);
}

static kiln_t joined(const walk *s, kiln_t text, kiln_t x) { return s->o->concat(s->p, (kiln_t[]){text, x}, 2, 1); }
static kiln_t text_of(const walk *s, kiln_t both) { return s->o->slice(s->p, both, 1, 0, s->length); }
static kiln_t picture_of(const walk *s, kiln_t both)
{
    return s->o->slice(s->p, both, 1, s->length, s->rows * s->cols);
}

/* q, k, v [N,L+T,D] */
static kiln_t attention(const walk *s, const char *block, kiln_attention_info a)
{
    char place[48];
    const kiln_rope rope = {
        .size = sizeof rope, .heads = (int32_t)s->m->heads, .interleaved = 1, .cos = s->cos, .sin = s->sin};
    const kiln_attention_stream streams[] = {{sizeof *streams, "text", 0, s->length},
                                             {sizeof *streams, "image", s->length, s->rows * s->cols}};
    a.size = sizeof a, a.heads = (int32_t)s->m->heads, a.place = NAME(place, "%s.attn", block);
    a.stream = streams, a.n_stream = COUNT(streams);
    a.q = s->o->rope(s->p, a.q, &rope), a.k = s->o->rope(s->p, a.k, &rope);
    return kiln_attention_at(&s->r, &a);
}

static kiln_t mlp(const walk *s, kiln_t x, const char *name)
{
    kiln_t h = s->o->act(s->p, linear(s, x, 4 * s->m->width, "%s.net.0.proj", name), KILN_ACT_GELU_TANH);
    return linear(s, h, s->m->width, "%s.net.2", name);
}

static kiln_t place(const walk *s, const char *block, kiln_t x, kiln_t before)
{
    const kiln_place_info info = {.size = sizeof info, .place = block, .timestep_embedding = s->c, .input = before};
    return kiln_place(&s->r, x, &info);
}

/* What is behind the attention, of text or picture. m: shift, scale, gate, and the same of the MLP. */
static kiln_t rest(const walk *s, kiln_t x, kiln_t attended, kiln_t m, const char *mlp_name)
{
    x = add_gated(s, x, part_of(s, m, 2), attended);
    return add_gated(s, x, part_of(s, m, 5), mlp(s, norm(s, x, part_of(s, m, 4), part_of(s, m, 3)), mlp_name));
}

static void double_block(const walk *s, long long i, kiln_t *text, kiln_t *x)
{
    char block[64], name[96], at[40];
    NAME(block, "transformer_blocks.%lld", i), NAME(at, "double.%lld", i);
    if (kiln_left_out(&s->r, at)) return;
    kiln_t m = modulation(s, 6, NAME(name, "%s.norm1", block)),
           n = modulation(s, 6, NAME(name, "%s.norm1_context", block));
    kiln_t h = norm(s, *x, part_of(s, m, 1), part_of(s, m, 0)), g = norm(s, *text, part_of(s, n, 1), part_of(s, n, 0));
    kiln_attention_info a = {.x = h, .context = h};
    a.q = joined(s, project(s, g, block, "add_q_proj", "norm_added_q"), project(s, h, block, "to_q", "norm_q"));
    a.k = joined(s, project(s, g, block, "add_k_proj", "norm_added_k"), project(s, h, block, "to_k", "norm_k"));
    a.v = joined(s, project(s, g, block, "add_v_proj", NULL), project(s, h, block, "to_v", NULL));
    kiln_t y = attention(s, at, a), before = *x;
    h = linear(s, picture_of(s, y), s->m->width, "%s.attn.to_out.0", block);
    g = linear(s, text_of(s, y), s->m->width, "%s.attn.to_add_out", block);
    *text = rest(s, *text, g, n, NAME(name, "%s.ff_context", block));
    *x = place(s, at, rest(s, *x, h, m, NAME(name, "%s.ff", block)), before);
}

static kiln_t single_block(const walk *s, long long i, kiln_t both)
{
    char block[64], name[96], at[40];
    NAME(block, "single_transformer_blocks.%lld", i), NAME(at, "single.%lld", i);
    if (kiln_left_out(&s->r, at)) return both;
    kiln_t m = modulation(s, 3, NAME(name, "%s.norm", block));
    kiln_t h = norm(s, both, part_of(s, m, 1), part_of(s, m, 0));
    kiln_attention_info a = {.x = h, .context = h};
    a.q = project(s, h, block, "to_q", "norm_q"), a.k = project(s, h, block, "to_k", "norm_k");
    a.v = project(s, h, block, "to_v", NULL);
    kiln_t beside = s->o->act(s->p, linear(s, h, 4 * s->m->width, "%s.proj_mlp", block), KILN_ACT_GELU_TANH);
    kiln_t y = s->o->concat(s->p, (kiln_t[]){attention(s, at, a), beside}, 2, 2);
    y = add_gated(s, both, part_of(s, m, 2), linear(s, y, s->m->width, "%s.proj_out", block));
    return place(s, at, y, both);
}

/* ---- what goes in ---- */

static kiln_t embedder(const walk *s, kiln_t x, const char *name)
{
    x = s->o->act(s->p, linear(s, x, s->m->width, "time_text_embed.%s_embedder.linear_1", name), KILN_ACT_SILU);
    return linear(s, x, s->m->width, "time_text_embed.%s_embedder.linear_2", name);
}

static kiln_t sinusoid(const walk *s, kiln_t x)
{
    const kiln_timestep_embedding how = {.size = sizeof how, .cos_first = 1};
    const kiln_map thousand = {.size = sizeof thousand, .dtype = KILN_F32, .number = {1000}};
    return s->o->timestep_embedding(s->p, s->o->map(s->p, "a * p", &x, 1, &thousand), SINUSOID, &how);
}

static kiln_t condition(const walk *s)
{
    const kiln_denoise_inputs *in = s->r.in;
    kiln_t c = s->o->add(s->p, embedder(s, sinusoid(s, in->timestep), "timestep"),
                         embedder(s, kiln_input(in->input, in->n_input, "pooled"), "text"));
    if (s->m->guided)
        c = s->o->add(s->p, c, embedder(s, sinusoid(s, kiln_input(in->input, in->n_input, "guidance")), "guidance"));
    return s->o->act(s->p, c, KILN_ACT_SILU);
}

/* The turn of column pair i of a head at place `t` of text and picture. */
static double angle(const walk *s, int64_t t, int64_t i)
{
    const int64_t at = t - s->length, where[AXES] = {0, at < 0 ? 0 : at / s->cols, at < 0 ? 0 : at % s->cols};
    int axis = 0;
    while (2 * i >= s->m->axis[axis]) i -= s->m->axis[axis++] / 2;
    return (double)where[axis] * pow(10000, -2.0 * (double)i / (double)s->m->axis[axis]);
}

static kiln_t table(const walk *s, double (*of)(double))
{
    const int64_t half = s->m->head / 2, places = s->length + s->rows * s->cols;
    float *data = malloc((size_t)(places * half) * sizeof *data);
    if (!data) return s->o->fail(s->p, "no memory for the positions");
    for (int64_t i = 0; i < places * half; i++) data[i] = (float)of(angle(s, i / half, i % half));
    kiln_t t = s->o->constant(s->p, data, 4, KILN_DIMS(1, places, 1, half));
    free(data);
    return t;
}

/* [N,H,W,C] -> [N,T,4C]: a patch has its numbers as [C,2,2]; and back. */
static kiln_t patches(const walk *s)
{
    kiln_t x = s->o->reshape(s->p, s->r.in->x, 6, KILN_DIMS(s->n, s->rows, PATCH, s->cols, PATCH, CHANNELS));
    x = s->o->permute(s->p, x, (const uint32_t[]){0, 1, 3, 5, 2, 4});
    return s->o->reshape(s->p, x, 3, KILN_DIMS(s->n, s->rows * s->cols, PATCH * PATCH * CHANNELS));
}
static kiln_t cells(const walk *s, kiln_t x)
{
    x = s->o->reshape(s->p, x, 6, KILN_DIMS(s->n, s->rows, s->cols, CHANNELS, PATCH, PATCH));
    x = s->o->permute(s->p, x, (const uint32_t[]){0, 1, 4, 2, 5, 3});
    return s->o->reshape(s->p, x, 4, KILN_DIMS(s->n, s->rows * PATCH, s->cols * PATCH, CHANNELS));
}

static kiln_t record(const kiln_denoiser *d, const kiln_ops *o, kiln_program *p, kiln_weights *weights,
                     const kiln_denoise_inputs *in)
{
    const flux *m = d->self;
    kiln_t tokens = kiln_input(in->input, in->n_input, "tokens");
    walk s = {.r = {sizeof s.r, o, p, in}, .o = o, .p = p, .m = m, .weights = weights};
    int64_t dim[4] = {0}, of_tokens[3] = {0};
    o->shape(p, in->x, dim, 4), o->shape(p, tokens, of_tokens, 3);
    s.n = dim[0], s.rows = dim[1] / PATCH, s.cols = dim[2] / PATCH, s.length = of_tokens[1];
    s.c = condition(&s), s.cos = table(&s, cos), s.sin = table(&s, sin);
    kiln_t x = linear(&s, patches(&s), m->width, "x_embedder"), text = linear(&s, tokens, m->width, "context_embedder");
    for (int64_t i = 0; i < m->doubles; i++) double_block(&s, i, &text, &x);
    x = joined(&s, text, x);
    for (int64_t i = 0; i < m->singles; i++) x = single_block(&s, i, x);
    kiln_t out = modulation(&s, 2, "norm_out"); /* scale, shift */
    x = norm(&s, picture_of(&s, x), part_of(&s, out, 0), part_of(&s, out, 1));
    return cells(&s, linear(&s, x, PATCH * PATCH * CHANNELS, "proj_out"));
}

static void list_places(const kiln_denoiser *d, void (*fn)(void *arg, const char *place, uint32_t kind), void *arg)
{
    const flux *m = d->self;
    char name[96];
    for (int64_t i = 0; i < m->doubles + m->singles; i++) {
        const char *kind = i < m->doubles ? "double" : "single";
        const long long at = i < m->doubles ? i : i - m->doubles;
        fn(arg, NAME(name, "%s.%lld.attn", kind, at), KILN_PLACE_ATTENTION);
        fn(arg, NAME(name, "%s.%lld", kind, at), KILN_PLACE_BLOCK);
    }
}

/* ---- opening ---- */

static int detect(const kiln_weights_api *w, const kiln_weights *set)
{
    kiln_weight_info info = {.size = sizeof info};
    return w->find(set, "transformer_blocks.0.attn.add_q_proj.weight", &info) == KILN_OK &&
                   w->find(set, "single_transformer_blocks.0.proj_mlp.weight", &info) == KILN_OK
               ? 90
               : 0;
}

static kiln_status read_config(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, flux *m)
{
    static const config_rule expected[] = {{"patch_size", "1"}, {"in_channels", "64"}};
    config c = config_open(host, ctx, set, "__metadata__/config");
    if (!c.root && !c.failed)
        CONFIG_FAIL(&c, KILN_ERR_INVALID,
                    "this Flux has no 'config' in its metadata, which says how wide its heads are");
    config_expect(&c, expected, COUNT(expected));
    m->heads = config_int(&c, "num_attention_heads", 24, 1, 1024);
    m->head = config_int(&c, "attention_head_dim", 128, 2, 1024);
    m->context = config_int(&c, "joint_attention_dim", 4096, 1, 1 << 16);
    m->pooled = config_int(&c, "pooled_projection_dim", 768, 1, 1 << 16);
    m->doubles = config_int(&c, "num_layers", 19, 0, 1000);
    m->singles = config_int(&c, "num_single_layers", 38, 0, 1000);
    m->guided = config_bool(&c, "guidance_embeds", 0);
    config_ints(&c, "axes_dims_rope", 0, 2, 1024, AXES, m->axis, AXES);
    m->width = m->heads * m->head;
    if (m->axis[0] + m->axis[1] + m->axis[2] != m->head)
        CONFIG_FAIL(&c, KILN_ERR_INVALID, "%s: axes_dims_rope do not add up to attention_head_dim", c.path);
    config_close(&c);
    return c.failed ? KILN_ERR_INVALID : KILN_OK;
}

static void fill(flux *m)
{
    const kiln_input_spec input[] = {
        {.size = sizeof *input, .name = "tokens", .kind = KILN_INPUT_TOKENS, .width = m->context, .doc = "T5's"},
        {.size = sizeof *input, .name = "pooled", .kind = KILN_INPUT_VECTOR, .width = m->pooled, .doc = "CLIP-L's"},
        {.size = sizeof *input,
         .name = "guidance",
         .kind = KILN_INPUT_SCALAR,
         .flags = KILN_INPUT_OPTIONAL,
         .fallback = 3.5,
         .doc = "how much the prompt counts"}};
    memcpy(m->input, input, sizeof input);
    kiln_flow_sigmas(exp(1.15), LEVELS, m->sigma);
    kiln_standard_sampling_init(&m->sampling, &(kiln_sampling_row){.prediction = KILN_PREDICT_FLOW,
                                                                   .time = KILN_TIME_FLOW,
                                                                   .n_sigma = LEVELS,
                                                                   .sigma = m->sigma,
                                                                   .multiplier = 1,
                                                                   .shift = exp(1.15)});
    snprintf(m->family, sizeof m->family, "example-flux/%lld.%lld.%lld.%lld", (long long)m->heads,
             (long long)m->axis[0], (long long)m->axis[1], (long long)m->axis[2]);
    m->denoiser = (kiln_denoiser){.size = sizeof m->denoiser,
                                  .family = m->family,
                                  .self = m,
                                  .latent = &latent,
                                  .sampling = &m->sampling.base,
                                  .record = record,
                                  .places = list_places,
                                  .input = m->input,
                                  .n_input = m->guided ? 3 : 2,
                                  .input_stride = sizeof *m->input};
}

static kiln_value *open_model(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set)
{
    const kiln_model_api *models = host->ability(KILN_MODEL_ABILITY);
    flux *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    kiln_value *value = NULL;
    if (read_config(host, ctx, set, m) == KILN_OK) {
        fill(m);
        value = models->model_new(
            ctx,
            &(kiln_model){
                .size = sizeof(kiln_model), .denoiser = &m->denoiser, .weights = set, .owned = m, .release = free});
    }
    if (!value) free(m);
    return value;
}

static const kiln_model_family family = {.size = sizeof family,
                                         .kind = KILN_FAMILY_DENOISER,
                                         .name = "example-flux",
                                         .doc = "Flux.1",
                                         .detect = detect,
                                         .open = open_model};

static kiln_status open_plugin(const kiln_host *host)
{
    const kiln_model_api *models = host->ability(KILN_MODEL_ABILITY);
    if (!models) return KILN_ERR_UNSUPPORTED;
    TRY(models->register_family(&t5_family));
    return models->register_family(&family);
}

KILN_PLUGIN_OPEN("org.example.flux", "1.0.0", "MIT", open_plugin, &loader_node, &encode_node);
