/* qwen_vision.c - the vision tower of Qwen2.5-VL (Bai et al. 2025), and the node that shows it a picture.
 *
 *   patches of 14x14 pixels, the picture twice in time, one linear each; tokens in the order in which 2x2 are merged
 *   blocks: x += proj(attention(norm1 x)), x += mlp(norm2 x); most see a window of 112x112 pixels, some see all
 *   merger: 2x2 normalised tokens beside one another, two linears: rows of the text's width
 * A window is a segment: tokens keep their order, and see those of an equal number.
 */
#include "qwen.h"

enum { PIXELS = QWEN_PATCH * QWEN_PATCH, SIDE = QWEN_PATCH * QWEN_MERGE, PIXELS_MIN = 56 * 56, COLOURS = 3 };
enum { PIXELS_MAX = SIDE * SIDE * 1280, PROPORTION = 200 };

static const float norm_eps = 1e-6f;
static const float mean[COLOURS] = {0.48145466f, 0.4578275f, 0.40821073f};
static const float deviation[COLOURS] = {0.26862954f, 0.26130258f, 0.27577711f};

static int64_t sides(double pixels) { return (int64_t)pixels * SIDE; }

int qwen_smart_resize(int64_t h, int64_t w, int64_t *to_h, int64_t *to_w)
{
    const double rows = (double)h, columns = (double)w, area = rows * columns;
    if (h < 1 || w < 1 || h > PROPORTION * w || w > PROPORTION * h) return 0;
    *to_h = sides(rint(rows / SIDE)),
    *to_w = sides(rint(columns / SIDE)); /* of a half the even one, as Python has it */
    if (*to_h * *to_w > PIXELS_MAX) {
        double by = sqrt(area / PIXELS_MAX);
        *to_h = sides(fmax(1, floor(rows / by / SIDE))), *to_w = sides(fmax(1, floor(columns / by / SIDE)));
    } else if (*to_h * *to_w < PIXELS_MIN) {
        double by = sqrt(PIXELS_MIN / area);
        *to_h = sides(ceil(rows * by / SIDE)), *to_w = sides(ceil(columns * by / SIDE));
    }
    return 1;
}

typedef struct {
    recorder r;
    const qwen_vision *m;
    int64_t rows, columns, tokens; /* merged patches down and across; patches in all */
    kiln_t cos, sin;               /* f32 [1,T,1,head/2]                             */
    kiln_t window;                 /* i32 [1,T]                                      */
} tower;

/* Row and column of patch t: four after the other are merged. */
static void patch_at(const tower *s, int64_t t, int64_t at[2])
{
    int64_t merged = t / (QWEN_MERGE * QWEN_MERGE), part = t % (QWEN_MERGE * QWEN_MERGE);
    at[0] = merged / s->columns * QWEN_MERGE + part / QWEN_MERGE;
    at[1] = merged % s->columns * QWEN_MERGE + part % QWEN_MERGE;
}

static double angle(const void *of, int64_t t, int64_t column)
{
    const tower *s = of;
    int64_t at[2], quarter = s->m->width / s->m->heads / 4;
    patch_at(s, t, at);
    return (double)at[column / quarter] * pow(10000, -(double)(column % quarter) / (double)quarter);
}

static kiln_t windows(const tower *s)
{
    const int64_t side = s->m->window / QWEN_PATCH, across = (s->columns * QWEN_MERGE + side - 1) / side;
    int32_t *number = malloc((size_t)s->tokens * sizeof *number);
    if (!number) return s->r.o->fail(s->r.p, "no memory for the windows of %lld patches", (long long)s->tokens);
    for (int64_t t = 0, at[2]; t < s->tokens; t++) {
        patch_at(s, t, at);
        number[t] = (int32_t)(at[0] / side * across + at[1] / side);
    }
    kiln_t made = s->r.o->constant_i32(s->r.p, number, 2, KILN_DIMS(1, s->tokens));
    free(number);
    return made;
}

static int sees_all(const qwen_vision *m, int64_t block)
{
    for (size_t i = 0; i < m->n_full; i++)
        if (m->full[i] == block) return 1;
    return 0;
}

static kiln_t attention(const tower *s, kiln_t x, const char *name, int all)
{
    const recorder *r = &s->r;
    const kiln_rope rope = {.size = sizeof rope, .heads = (int32_t)s->m->heads, .cos = s->cos, .sin = s->sin};
    kiln_attention how = {.size = sizeof how, .heads = (int32_t)s->m->heads};
    kiln_t part[3], qkv = qwen_linear(r, x, 3 * s->m->width, "%s.attn.qkv", name);
    for (int i = 0; i < 3; i++) part[i] = r->o->slice(r->p, qkv, 2, i * s->m->width, s->m->width);
    if (!all) how.q_segment = how.k_segment = s->window;
    kiln_t q = r->o->rope(r->p, part[0], &rope), k = r->o->rope(r->p, part[1], &rope);
    return qwen_linear(r, r->o->attention(r->p, q, k, part[2], &how), s->m->width, "%s.attn.proj", name);
}

static kiln_t block(const tower *s, kiln_t x, long long i)
{
    const recorder *r = &s->r;
    char name[40], mlp[48];
    NAME(name, "visual.blocks.%lld", i), NAME(mlp, "%s.mlp", name);
    r->o->scope_push(r->p, name);
    kiln_t h = attention(s, qwen_rms(r, x, norm_eps, 0, "%s.norm1.weight", name), name, sees_all(s->m, i));
    x = r->o->add(r->p, x, h);
    x = r->o->add(r->p, x, qwen_mlp(r, qwen_rms(r, x, norm_eps, 0, "%s.norm2.weight", name), s->m->hidden, mlp));
    r->o->scope_pop(r->p);
    return x;
}

/* [1,H,W,3] -> [1,T,3*2*14*14]: scaled, cut to what a picture can be, normalised. In f32, as a picture is no
 * activation. */
static kiln_t patches(const tower *s, kiln_t x)
{
    const kiln_ops *o = s->r.o;
    kiln_program *p = s->r.p;
    const kiln_interpolate scale = {.size = sizeof scale,
                                    .mode = KILN_INTERPOLATE_BICUBIC,
                                    .antialias = 1,
                                    .h = s->rows * SIDE,
                                    .w = s->columns * SIDE};
    o->precision_push(p, KILN_F32);
    kiln_t colours[] = {o->interpolate(p, x, &scale), o->constant(p, mean, 1, KILN_DIMS(COLOURS)),
                        o->constant(p, deviation, 1, KILN_DIMS(COLOURS))};
    x = o->map(p, "(min(max(a, 0), 1) - b) / c", colours, 3, NULL);
    o->precision_pop(p);
    x = o->reshape(p, x, 7, KILN_DIMS(s->rows, QWEN_MERGE, QWEN_PATCH, s->columns, QWEN_MERGE, QWEN_PATCH, COLOURS));
    x = o->permute(p, x, (const uint32_t[]){0, 3, 1, 4, 6, 2, 5});
    x = o->reshape(p, x, 4, KILN_DIMS(s->tokens, COLOURS, 1, PIXELS));
    x = o->expand(p, x, 4, KILN_DIMS(s->tokens, COLOURS, QWEN_TIME, PIXELS));
    return o->reshape(p, x, 3, KILN_DIMS(1, s->tokens, COLOURS * QWEN_TIME * PIXELS));
}

kiln_t qwen_vision_record(const recorder *r, const qwen_vision *m, kiln_t image)
{
    tower s = {.r = *r, .m = m};
    const int64_t merged = QWEN_MERGE * QWEN_MERGE;
    int64_t dim[4] = {0}, h = 0, w = 0;
    r->o->shape(r->p, image, dim, 4);
    if (!qwen_smart_resize(dim[1], dim[2], &h, &w))
        return r->o->fail(r->p, "a picture of %lldx%lld pixels: its proportions are beyond 1:%d", (long long)dim[2],
                          (long long)dim[1], PROPORTION);
    s.rows = h / SIDE, s.columns = w / SIDE, s.tokens = s.rows * s.columns * merged;
    s.cos = qwen_table(r, &s, angle, s.tokens, m->width / m->heads / 2, cos);
    s.sin = qwen_table(r, &s, angle, s.tokens, m->width / m->heads / 2, sin);
    s.window = windows(&s);
    kiln_t x = qwen_linear(r, patches(&s, image), m->width, "visual.patch_embed.proj");
    for (int64_t i = 0; i < m->layers; i++) x = block(&s, x, i);
    x = qwen_rms(r, x, norm_eps, 0, "visual.merger.ln_q.weight");
    x = r->o->reshape(r->p, x, 3, KILN_DIMS(1, s.tokens / merged, merged * m->width));
    x = r->o->act(r->p, qwen_linear(r, x, merged * m->width, "visual.merger.mlp.0"), KILN_ACT_GELU);
    return qwen_linear(r, x, m->out, "visual.merger.mlp.2");
}

/* ---- ExampleQwenSee ---- */

static const kiln_port see_in[] = {{.name = "clip", .type = "CLIP", .doc = "Qwen2.5-VL."},
                                   {.name = "image", .type = "IMAGE", .doc = "One picture, of any size."}};
static const kiln_port see_out[] = {
    {.name = "picture", .type = "QWEN_PICTURE", .doc = "A map {image_embeds: f32 [T,D], rows, columns}."}};

/* By the CLIP's own weights, which may have LoRAs on them. */
static kiln_status look(const kiln_call *c, const qwen_clip *q, const kiln_tensor *image, kiln_tensor *out)
{
    const kiln_ops *ops = c->host->ability(KILN_OPS_ABILITY);
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_clip *clip = models->clip(c->ctx, c->in[0]);
    const kiln_program_options options = {
        .size = sizeof options, .name = "vision tower", .precisions = q->encoder.precisions};
    const recorder r = {
        .o = ops, .p = ops->program_new(c->ctx, &options), .weights = kiln_clip_encoder_at(clip, 0)->weights};
    if (!r.p) return KILN_ERR_NOMEM;
    kiln_t made = qwen_vision_record(&r, &q->vision, ops->input(r.p, "image", KILN_F32, 4, image->dim));
    ops->output(r.p, "rows", ops->reshape(r.p, made, 2, out->dim));
    kiln_status status = ops->plan(c->ctx, r.p, NULL);
    const kiln_bind in = KILN_BIND("image", *image), to = KILN_BIND("rows", *out);
    if (status == KILN_OK) status = ops->run(c->ctx, r.p, &in, 1, &to, 1);
    ops->program_free(r.p);
    return status;
}

static kiln_status check_picture(const kiln_call *c, const kiln_tensor *image, int64_t *h, int64_t *w)
{
    if (image->dim[0] != 1)
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "%lld pictures; the prompt's template has a place for one",
                             (long long)image->dim[0]);
    if (image->dim[3] != COLOURS)
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "the picture has %lld channels, and the encoder takes 3; SplitImageWithAlpha drops a "
                             "fourth",
                             (long long)image->dim[3]);
    if (qwen_smart_resize(image->dim[1], image->dim[2], h, w)) return KILN_OK;
    return c->host->fail(c->ctx, KILN_ERR_INVALID,
                         "a picture of %lldx%lld pixels: the encoder takes proportions up to 1:%d; cut it first",
                         (long long)image->dim[2], (long long)image->dim[1], PROPORTION);
}

static kiln_status see_run(const kiln_call *c)
{
    const kiln_value_api *v = kit_values(c);
    const qwen_clip *q = qwen_clip_of(c, c->in[0]);
    kiln_value *rows = NULL, *map;
    kiln_tensor image, to;
    int64_t h = 0, w = 0;
    if (!q) return KILN_ERR_INVALID;
    TRY(kit_f32(c, c->in[1], 4, "the picture", &image));
    TRY(check_picture(c, &image, &h, &w));
    TRY(kit_new_f32(c, 2, KILN_DIMS(h / SIDE * (w / SIDE), q->vision.out), &rows, &to));
    kiln_status status = look(c, q, &image, &to);
    map = status == KILN_OK ? v->new_map(c->ctx) : NULL;
    if (!map) return c->host->unref(rows), status == KILN_OK ? KILN_ERR_NOMEM : status;
    c->out[0] = map;
    TRY(kit_set(c, map, "image_embeds", rows));
    TRY(kit_set(c, map, "rows", v->new_int(c->ctx, h / SIDE)));
    return kit_set(c, map, "columns", v->new_int(c->ctx, w / SIDE));
}

const kiln_node qwen_see_node = {
    KIT_NODE_FLAGS(KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_DEVICE | KILN_NODE_ESTIMATES, 1, "ExampleQwenSee",
                   "Qwen: see a picture", "examples", "What the text encoder's vision tower makes of a picture."),
    KILN_ARRAY(in, see_in), KILN_ARRAY(out, see_out), .run = see_run};
