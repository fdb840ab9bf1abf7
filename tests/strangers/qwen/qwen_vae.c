/* qwen_vae.c - Qwen-Image's autoencoder: Wan's (Alibaba 2025) on a single frame. Its convolutions are causal in time
 * and pad with zeros, so that of 3x3x3 taps one frame meets the last 3x3 alone: a view of the weights takes those, and
 * what is recorded has two dimensions. Names are diffusers'; a file with Wan's own is seen through a second view.
 */
#include "qwen.h"

#include "kiln/checkpoint.h"

enum { FACTOR = 8, COLOURS = 3, LEVELS_MAX = 8, RULES_MAX = 96, RULE_NAME = 64, BLOCKS = 2 };

extern const kiln_latent_format qwen_latent;

typedef struct {
    kiln_autoencoder table;
    int64_t levels, channels, first[2];       /* the latent's; of the first encoder level, of the last decoder's */
    int64_t down[LEVELS_MAX], up[LEVELS_MAX]; /* channels of each level                                          */
    int down_time[LEVELS_MAX], up_time[LEVELS_MAX]; /* 1: frames are halved or doubled there, of a video */
    char family[64];
} vae;

/* ---- layers ---- */

typedef struct {
    recorder r;
    const vae *m;
} walk;

static int64_t channels_of(const walk *s, kiln_t x)
{
    int64_t dim[4] = {0};
    s->r.o->shape(s->r.p, x, dim, 4);
    return dim[3];
}

static kiln_t conv(const walk *s, kiln_t x, int64_t out, const kiln_conv2d *how, const char *name)
{
    char full[128];
    kiln_t w = qwen_weight(&s->r, NAME(full, "%s.weight", name), 4, KILN_DIMS(out, channels_of(s, x), 3, 3));
    return s->r.o->conv2d(s->r.p, x, w, qwen_weight(&s->r, NAME(full, "%s.bias", name), 1, &out), how);
}
static const kiln_conv2d same = {.size = sizeof same, .pad = {1, 1, 1, 1}};
static const kiln_conv2d half = {.size = sizeof half, .stride = {2, 2}, .pad = {0, 0, 1, 1}};

/* x / |x| sqrt(C) gamma: an RMS norm; the smallest eps, for a cell of nothing but zeros. */
static kiln_t norm(const walk *s, kiln_t x, const char *name)
{
    return qwen_rms(&s->r, x, 1e-30f, 0, "%s.gamma", name);
}

static kiln_t residual(const walk *s, kiln_t x, int64_t out, const char *name)
{
    char part[96];
    kiln_t beside = channels_of(s, x) == out ? x : qwen_linear(&s->r, x, out, "%s.conv_shortcut", name);
    kiln_t h = s->r.o->act(s->r.p, norm(s, x, NAME(part, "%s.norm1", name)), KILN_ACT_SILU);
    h = conv(s, h, out, &same, NAME(part, "%s.conv1", name));
    h = s->r.o->act(s->r.p, norm(s, h, NAME(part, "%s.norm2", name)), KILN_ACT_SILU);
    return s->r.o->add(s->r.p, conv(s, h, out, &same, NAME(part, "%s.conv2", name)), beside);
}

/* Each cell attends to all, with one head. */
static kiln_t attention(const walk *s, kiln_t x, const char *name)
{
    const kiln_ops *o = s->r.o;
    const kiln_attention how = {.size = sizeof how, .heads = 1};
    char part[96];
    int64_t dim[4] = {0};
    kiln_t qkv[3];
    o->shape(s->r.p, x, dim, 4);
    kiln_t h =
        o->reshape(s->r.p, norm(s, x, NAME(part, "%s.norm", name)), 3, KILN_DIMS(dim[0], dim[1] * dim[2], dim[3]));
    h = qwen_linear(&s->r, h, 3 * dim[3], "%s.to_qkv", name);
    for (int i = 0; i < 3; i++) qkv[i] = o->slice(s->r.p, h, 2, i * dim[3], dim[3]);
    h = o->attention(s->r.p, qkv[0], qkv[1], qkv[2], &how);
    h = o->reshape(s->r.p, qwen_linear(&s->r, h, dim[3], "%s.proj", name), 4, dim);
    return o->add(s->r.p, x, h);
}

static kiln_t middle(const walk *s, kiln_t x, const char *part)
{
    char name[64];
    const int64_t width = channels_of(s, x);
    x = residual(s, x, width, NAME(name, "%s.mid_block.resnets.0", part));
    x = attention(s, x, NAME(name, "%s.mid_block.attentions.0", part));
    return residual(s, x, width, NAME(name, "%s.mid_block.resnets.1", part));
}

/* A convolution in time that a single frame does not meet: asked for, so that one that the file lacks is found. */
static void ask_for_time(const walk *s, const char *block, int64_t out, int64_t in)
{
    char name[96];
    qwen_weight(&s->r, NAME(name, "%s.time_conv.weight", block), 3, KILN_DIMS(out, in, 3));
    qwen_weight(&s->r, NAME(name, "%s.time_conv.bias", block), 1, &out);
}

/* ---- both ways ---- */

static kiln_t end(const walk *s, kiln_t x, int64_t out, const char *part)
{
    char name[40];
    x = s->r.o->act(s->r.p, norm(s, x, NAME(name, "%s.norm_out", part)), KILN_ACT_SILU);
    return conv(s, x, out, &same, NAME(name, "%s.conv_out", part));
}

static void record_encode(const kiln_autoencoder *a, const kiln_ops *o, kiln_program *p, kiln_weights *weights,
                          kiln_t image, kiln_latent_distribution *out)
{
    const vae *m = a->self;
    const walk s = {{o, p, weights}, m};
    const kiln_map clamped = {.size = sizeof clamped, .number = {-30, 20}};
    char name[64];
    int at = 0;
    kiln_t x = conv(&s, image, m->first[0], &same, "encoder.conv_in");
    for (int64_t level = 0; level < m->levels; level++) {
        for (int i = 0; i < BLOCKS; i++)
            x = residual(&s, x, m->down[level], NAME(name, "encoder.down_blocks.%d", at++));
        if (level + 1 == m->levels) break;
        x = conv(&s, x, m->down[level], &half, NAME(name, "encoder.down_blocks.%d.resample.1", at));
        NAME(name, "encoder.down_blocks.%d", at++);
        if (m->down_time[level]) ask_for_time(&s, name, m->down[level], m->down[level]);
    }
    x = end(&s, middle(&s, x, "encoder"), 2 * m->channels, "encoder");
    x = qwen_linear(&s.r, x, 2 * m->channels, "quant_conv");
    out->mean = o->slice(p, x, 3, 0, m->channels);
    kiln_t variance = o->slice(p, x, 3, m->channels, m->channels);
    out->log_variance = o->map(p, "min(max(a, p), q)", &variance, 1, &clamped);
}

static kiln_t record_decode(const kiln_autoencoder *a, const kiln_ops *o, kiln_program *p, kiln_weights *weights,
                            kiln_t latent)
{
    const vae *m = a->self;
    const walk s = {{o, p, weights}, m};
    char name[64];
    int64_t dim[4];
    kiln_t x = qwen_linear(&s.r, latent, m->channels, "post_quant_conv");
    x = middle(&s, conv(&s, x, m->up[0], &same, "decoder.conv_in"), "decoder");
    for (int level = 0; level < (int)m->levels; level++) {
        for (int i = 0; i <= BLOCKS; i++)
            x = residual(&s, x, m->up[level], NAME(name, "decoder.up_blocks.%d.resnets.%d", level, i));
        if (level + 1 == (int)m->levels) break;
        o->shape(p, x, dim, 4);
        x = o->upsample_nearest(p, x, 2 * dim[1], 2 * dim[2]);
        x = conv(&s, x, m->up[level] / 2, &same, NAME(name, "decoder.up_blocks.%d.upsamplers.0.resample.1", level));
        NAME(name, "decoder.up_blocks.%d.upsamplers.0", level);
        if (m->up_time[level]) ask_for_time(&s, name, 2 * m->up[level], m->up[level]);
    }
    return end(&s, x, COLOURS, "decoder");
}

/* ---- names ---- */

/* Rules whose names are made. */
typedef struct {
    kiln_weight_rule rule[RULES_MAX];
    char text[RULES_MAX][2][RULE_NAME];
    size_t n;
} rules;

__attribute__((format(printf, 3, 4))) static void to(rules *r, const char *from, const char *pattern, ...)
{
    va_list args;
    va_start(args, pattern);
    vsnprintf(r->text[r->n][1], RULE_NAME, pattern, args);
    va_end(args);
    snprintf(r->text[r->n][0], RULE_NAME, "%s", from);
    r->rule[r->n] = (kiln_weight_rule)KILN_RULE(.from = r->text[r->n][0], .to = r->text[r->n][1]);
    r->n++;
}

/* A residual block of Wan's has its layers by number. */
static void residual_rules(rules *r, const char *wan, const char *name)
{
    static const char *const part[][2] = {{"residual.0.{}", "norm1.{}"},
                                          {"residual.2.{}", "conv1.{}"},
                                          {"residual.3.{}", "norm2.{}"},
                                          {"residual.6.{}", "conv2.{}"},
                                          {"shortcut.{}", "conv_shortcut.{}"}};
    char from[RULE_NAME];
    for (size_t i = 0; i < COUNT(part); i++) to(r, NAME(from, "%s.%s", wan, part[i][0]), "%s.%s", name, part[i][1]);
}

static void wan_rules(rules *r, int levels)
{
    static const char *const whole[][2] = {{"conv1.{}", "quant_conv.{}"},
                                           {"conv2.{}", "post_quant_conv.{}"},
                                           {"{}.conv1.{}", "{}.conv_in.{}"},
                                           {"{}.head.0.{}", "{}.norm_out.{}"},
                                           {"{}.head.2.{}", "{}.conv_out.{}"},
                                           {"{}.middle.1.norm.{}", "{}.mid_block.attentions.0.norm.{}"},
                                           {"{}.middle.1.to_qkv.{}", "{}.mid_block.attentions.0.to_qkv.{}"},
                                           {"{}.middle.1.proj.{}", "{}.mid_block.attentions.0.proj.{}"}};
    char from[RULE_NAME], name[RULE_NAME];
    for (size_t i = 0; i < COUNT(whole); i++) to(r, whole[i][0], "%s", whole[i][1]);
    residual_rules(r, "{}.middle.0", "{}.mid_block.resnets.0"),
        residual_rules(r, "{}.middle.2", "{}.mid_block.resnets.1");
    residual_rules(r, "encoder.downsamples.{}", "encoder.down_blocks.{}");
    to(r, "encoder.downsamples.*", "encoder.down_blocks.*");
    for (int i = 0, every = BLOCKS + 2; i < levels * every - 1; i++) {
        const int level = i / every, at = i % every;
        if (at <= BLOCKS)
            residual_rules(r, NAME(from, "decoder.upsamples.%d", i),
                           NAME(name, "decoder.up_blocks.%d.resnets.%d", level, at));
        else
            to(r, NAME(from, "decoder.upsamples.%d.*", i), "decoder.up_blocks.%d.upsamplers.0.*", level);
    }
}

/* Convolutions of 3x3x3: the last in time, which goes to the end and is dropped there. */
static const uint32_t time_last[] = {0, 1, 3, 4, 2};
#define LAST_IN_TIME(name)                                                                                             \
    KILN_RULE(.from = (name), .to = (name), .slice_axis = 2, .slice = 2, .slices = 1, .permute = time_last,            \
              .permute_rank = 5)
static const kiln_weight_rule last_in_time[] = {LAST_IN_TIME("{}.conv_in.weight"),
                                                LAST_IN_TIME("{}.conv_out.weight"),
                                                LAST_IN_TIME("{}.mid_block.resnets.{}.conv1.weight"),
                                                LAST_IN_TIME("{}.mid_block.resnets.{}.conv2.weight"),
                                                LAST_IN_TIME("encoder.down_blocks.{}.conv1.weight"),
                                                LAST_IN_TIME("encoder.down_blocks.{}.conv2.weight"),
                                                LAST_IN_TIME("decoder.up_blocks.{}.resnets.{}.conv1.weight"),
                                                LAST_IN_TIME("decoder.up_blocks.{}.resnets.{}.conv2.weight"),
                                                KILN_RULE(.from = "*", .to = "*")};
static const kiln_weight_rule squeezed[] = {KILN_RULE(.from = "*", .to = "*", .squeeze = 1)};

enum { DIFFUSERS, WAN };
static const checkpoint_layout layouts[] = {
    {.prefix = "vae/",
     .config = "vae/config.json",
     .needs = {"encoder.down_blocks.0.conv1.weight", "post_quant_conv.weight", "decoder.conv_in.weight"}},
    {.prefix = "", .needs = {"encoder.down_blocks.0.conv1.weight", "post_quant_conv.weight", "decoder.conv_in.weight"}},
    {.prefix = "",
     .needs = {"encoder.downsamples.0.residual.2.weight", "decoder.upsamples.0.residual.2.weight", "conv2.weight"},
     .kind = WAN},
    {.prefix = "vae.",
     .needs = {"encoder.downsamples.0.residual.2.weight", "decoder.upsamples.0.residual.2.weight", "conv2.weight"},
     .kind = WAN}};

static int levels_of(const kiln_weights_api *w, const kiln_weights *set, const checkpoint_layout *at)
{
    const char *pattern =
        at->kind == WAN ? "encoder.downsamples.%d.residual.2.weight" : "encoder.down_blocks.%d.conv1.weight";
    kiln_weight_info info;
    char name[64];
    int levels = 0;
    while (levels < LEVELS_MAX) {
        snprintf(name, sizeof name, pattern, levels * (BLOCKS + 1));
        if (!checkpoint_has(w, set, at->prefix, &info, "%s", name)) break;
        levels++;
    }
    return levels;
}

/* One view over the other, of which each keeps the one below. */
static kiln_weights *over(const kiln_weights_api *w, kiln_ctx *ctx, kiln_weights *below, const kiln_weight_rule *rule,
                          size_t n)
{
    kiln_weights *made = below ? w->view(ctx, below, rule, n) : NULL;
    w->unref(below);
    return made;
}

static kiln_weights *view(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set, const checkpoint_layout *at,
                          int levels)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    char from[64];
    const kiln_weight_rule own = KILN_RULE(.from = NAME(from, "%s*", at->prefix), .to = "*");
    rules *r = calloc(1, sizeof *r);
    kiln_weights *made = r ? w->view(ctx, set, &own, 1) : NULL;
    if (made && at->kind == WAN) wan_rules(r, levels), made = over(w, ctx, made, r->rule, r->n);
    free(r);
    made = over(w, ctx, made, last_in_time, COUNT(last_in_time));
    return over(w, ctx, made, squeezed, COUNT(squeezed));
}

/* ---- opening ---- */

static int64_t rows_of(const kiln_weights_api *w, const kiln_weights *set, const char *pattern, int i)
{
    kiln_weight_info info;
    char name[96];
    snprintf(name, sizeof name, pattern, i);
    return checkpoint_has(w, set, "", &info, "%s", name) ? info.dim[0] : 0;
}

static kiln_status measure(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, vae *m)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    m->first[0] = rows_of(w, set, "encoder.conv_in.bias", 0), m->channels = rows_of(w, set, "post_quant_conv.bias", 0);
    for (int i = 0; i < (int)m->levels; i++) {
        m->down[i] = rows_of(w, set, "encoder.down_blocks.%d.conv1.bias", i * (BLOCKS + 1));
        m->up[i] = rows_of(w, set, "decoder.up_blocks.%d.resnets.0.conv1.bias", i);
        m->down_time[i] = rows_of(w, set, "encoder.down_blocks.%d.time_conv.bias", i * (BLOCKS + 1) + BLOCKS) > 0;
        m->up_time[i] = rows_of(w, set, "decoder.up_blocks.%d.upsamplers.0.time_conv.bias", i) > 0;
    }
    if (m->channels == qwen_latent.channels && 1 << (m->levels - 1) == FACTOR) return KILN_OK;
    return host->fail(
        ctx, KILN_ERR_UNSUPPORTED,
        "an autoencoder of %lld levels and %lld channels with the layers of Qwen-Image's, which has 4 and %d",
        (long long)m->levels, (long long)m->channels, qwen_latent.channels);
}

static const kiln_tile_advice tile = {.size = sizeof tile, .height = 64, .width = 64, .overlap = 8};

static void fill(vae *m)
{
    snprintf(m->family, sizeof m->family, "example-qwen-vae/%lld", (long long)m->levels);
    m->table = (kiln_autoencoder){.size = sizeof m->table,
                                  .family = m->family,
                                  .self = m,
                                  .latent = &qwen_latent,
                                  .tile = &tile,
                                  .record_encode = record_encode,
                                  .record_decode = record_decode,
                                  .architecture = "Qwen-Image's autoencoder"};
}

static int detect(const kiln_weights_api *w, const kiln_weights *set)
{
    return checkpoint_find(w, set, layouts, COUNT(layouts)) ? 80 : 0;
}

static kiln_value *open_vae(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set)
{
    const kiln_model_api *models = host->ability(KILN_MODEL_ABILITY);
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    const checkpoint_layout *at = checkpoint_find(w, set, layouts, COUNT(layouts));
    vae *m = at ? calloc(1, sizeof *m) : NULL;
    kiln_value *value = NULL;
    if (!m) return NULL;
    m->levels = levels_of(w, set, at);
    kiln_weights *own = view(host, ctx, set, at, (int)m->levels);
    if (own && measure(host, ctx, own, m) == KILN_OK) {
        fill(m);
        value = models->vae_new(
            ctx, &(kiln_vae){
                     .size = sizeof(kiln_vae), .autoencoder = &m->table, .weights = own, .owned = m, .release = free});
    }
    if (!value) free(m);
    w->unref(own);
    return value;
}

const kiln_model_family qwen_vae_family = {.size = sizeof qwen_vae_family,
                                           .kind = KILN_FAMILY_AUTOENCODER,
                                           .name = "example-qwen-vae",
                                           .doc = "Qwen-Image's autoencoder",
                                           .detect = detect,
                                           .open = open_vae};
