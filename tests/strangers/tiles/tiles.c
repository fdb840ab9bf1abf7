/* tiles.c - a plugin that drives samplings itself (kiln/sampling.h): a guider over three conditionings, and a node with
 * a loop of its own that samples in tiles.
 *
 *   ExampleThreeWayGuider   none + image (image - none) + text (full - image): guidance by a picture and by a text
 * apart (Brooks et al. 2023, "InstructPix2Pix", eq. 3) ExampleTiledSampler     each step looks at the latent in tiles
 * of `tile` cells, moved on by some cells from step to step so that their seams are nowhere twice (Bar-Tal et al. 2023,
 * "MultiDiffusion", for the average of overlapping tiles). What it makes of the guesses uses every function of a
 *                           latent: norms, masks, other sizes, noise.
 *
 * Latents stay where programs run; only masks and the last step's numbers pass through the host.
 */
#include "kiln/kit.h"
#include "kiln/model.h"
#include "kiln/sampling.h"

#include <math.h>

/* ---- a guider over three conditionings ---- */

typedef struct {
    double text, image;
} scales;

static const kiln_param scale_param[] = {
    KIT_FLOAT(scales, text, 7.5, 0, 100, 0.1, "How strongly the text is followed."),
    {.name = "image_scale",
     .type = KILN_P_FLOAT,
     .offset = offsetof(scales, image),
     .def = 1.5,
     .max = 100,
     .step = 0.1,
     .doc = "How strongly the picture is followed."},
};

enum { FULL, IMAGE, NONE, SETS };

static uint32_t all_three(const void *params, double sigma)
{
    (void)params, (void)sigma;
    return 1 << FULL | 1 << IMAGE | 1 << NONE;
}

static kiln_status three_way(const kiln_guider_step *g, kiln_latent *out)
{
    const scales *s = g->params;
    const double by[SETS] = {s->text, s->image - s->text, 1 - s->image};
    g->latents->lincomb(g->latents, out, SETS, by, g->guess);
    return KILN_OK;
}

static const kiln_guider_model one_model[] = {{"model"}};
static const kiln_guider_set three_sets[] = {{"full", 0}, {"image", 0}, {"none", 0}};
static const kiln_guider three_way_row = {.size = sizeof three_way_row,
                                          .name = "example.three-way",
                                          .doc = "none + image (image - none) + text (full - image)",
                                          KILN_ARRAY(model, one_model),
                                          KILN_ARRAY(set, three_sets),
                                          .unconditional = NONE,
                                          KILN_ARRAY(param, scale_param),
                                          .params_size = sizeof(scales),
                                          .wants = all_three,
                                          .combine = three_way};

static const kiln_port guider_in[] = {
    {.name = "model", .type = "MODEL", .doc = "The denoiser."},
    {.name = "full", .type = "CONDITIONING", .doc = "Text and picture."},
    {.name = "image", .type = "CONDITIONING", .doc = "The picture alone."},
    {.name = "none", .type = "CONDITIONING", .doc = "Neither."},
};
static const kiln_port guider_out[] = {{.name = "GUIDER", .type = "GUIDER", .doc = "For SamplerCustomAdvanced."}};

static kiln_status guider_run(const kiln_call *c)
{
    const kiln_sampling_api *s = c->host->ability(KILN_SAMPLING_ABILITY);
    const kiln_value_api *v = kit_values(c);
    const scales *p = c->params;
    kiln_value *parts = v->new_map(c->ctx);
    kiln_status status = parts ? KILN_OK : KILN_ERR_NOMEM;
    for (uint32_t i = 0; status == KILN_OK && i < COUNT(guider_in); i++)
        status = v->map_set(parts, guider_in[i].name, c->in[i]);
    if (status == KILN_OK) status = kit_set(c, parts, "text", v->new_float(c->ctx, p->text));
    if (status == KILN_OK) status = kit_set(c, parts, "image_scale", v->new_float(c->ctx, p->image));
    if (status == KILN_OK) return s->guider_new(c, three_way_row.name, parts, &c->out[0]);
    c->host->unref(parts);
    return status;
}

static const kiln_node guider_node = {
    KIT_NODE("ExampleThreeWayGuider", "Three-Way Guider", "examples", "Guidance by a picture and by a text apart."),
    KILN_ARRAY(in, guider_in), KILN_ARRAY(out, guider_out), KIT_PARAMS(scales, scale_param), .run = guider_run};

/* ---- a loop of one's own, in tiles ---- */

typedef struct {
    int64_t tile, overlap;
    double cfg, most, smooth, churn;
    uint64_t seed;
} tiled_params;

static const kiln_param tiled_param[] = {
    KIT_INT(tiled_params, tile, 6, 2, 1024, "Cells along each side of a tile."),
    KIT_INT(tiled_params, overlap, 2, 0, 512, "Cells that a tile shares with the next."),
    KIT_FLOAT(tiled_params, cfg, 3, 0, 100, 0.1, "negative + cfg (positive - negative)."),
    KIT_FLOAT(tiled_params, most, 1000, 0, 1000, 0.01, "A guess with a larger norm is scaled down to it."),
    KIT_FLOAT(tiled_params, smooth, 0, 0, 1, 0.01, "How much of the guess is taken from a copy of half its size."),
    KIT_FLOAT(tiled_params, churn, 0, 0, 1, 0.01, "Fresh noise of each step, in shares of the level."),
    KIT_SEED(tiled_params, seed, "Of all noise."),
};
static const kiln_port tiled_in[] = {
    {.name = "model", .type = "MODEL", .doc = "The denoiser."},
    {.name = "positive", .type = "CONDITIONING", .doc = "What to draw."},
    {.name = "negative", .type = "CONDITIONING", .doc = "What not to draw."},
    {.name = "sigmas", .type = "SIGMAS", .doc = "The noise levels."},
    {.name = "latent_image", .type = "LATENT", .doc = "Where to begin."},
    {.name = "keep", .type = "MASK", .flags = KILN_PORT_OPTIONAL, .doc = "Cells that stay the given latent's: 1."},
};
static const kiln_port tiled_out[] = {{.name = "LATENT", .type = "LATENT", .doc = "The result."}};
enum { MODEL, POSITIVE, NEGATIVE, SIGMAS, LATENT_IMAGE, KEEP };

typedef struct {
    const kiln_call *call;
    const tiled_params *params;
    const kiln_sampling_api *api;
    kiln_session *session;
    const kiln_sampling *x;
    const kiln_latents *l;
    kiln_latent_shape shape;
    kiln_latent *given, *moved, *guess, *sum, *total, *fresh, *half, *keep; /* keep NULL: nothing is kept */
    kiln_latent *tile, *yes, *no, *weight;                                  /* of one tile */
} tiling;

/* A latent of the tile's size; 1 channel: its weights. */
static kiln_latent *new_tile(const tiling *t, int64_t channels)
{
    kiln_latent_shape s = t->shape;
    s.height = s.height < t->params->tile ? s.height : t->params->tile;
    s.width = s.width < t->params->tile ? s.width : t->params->tile;
    s.channels = channels;
    if (channels == 1) s.pictures = 1;
    return t->l->create(t->l, &s);
}

/* 1 in the middle, falling towards the edges over the overlap. */
static kiln_status fill_weight(const tiling *t)
{
    kiln_latent_shape s = t->l->shape(t->l, t->weight);
    double over = (double)t->params->overlap + 1;
    float *w = t->call->host->scratch(t->call->ctx, (size_t)(s.height * s.width) * sizeof *w, KILN_CPU);
    if (!w) return KILN_ERR_NOMEM;
    for (int64_t y = 0; y < s.height; y++)
        for (int64_t x = 0; x < s.width; x++) {
            double down = fmin(1, fmin((double)(y + 1), (double)(s.height - y)) / over);
            double across = fmin(1, fmin((double)(x + 1), (double)(s.width - x)) / over);
            w[y * s.width + x] = (float)(down * across);
        }
    t->l->upload(t->l, t->weight, w);
    return KILN_OK;
}

static kiln_status read_keep(tiling *t)
{
    kiln_tensor mask;
    kiln_latent_shape s = t->shape;
    s.channels = 1, s.pictures = 1;
    if (!t->call->in[KEEP]) return KILN_OK;
    TRY(kit_f32(t->call, t->call->in[KEEP], 3, "keep", &mask));
    if (mask.dim[0] != 1 || mask.dim[1] != s.height || mask.dim[2] != s.width)
        return t->call->host->fail(t->call->ctx, KILN_ERR_INVALID,
                                   "keep is a mask of %lldx%lld, the latent has %lldx%lld cells; scale it to them",
                                   (long long)mask.dim[2], (long long)mask.dim[1], (long long)s.width,
                                   (long long)s.height);
    if (!(t->keep = t->l->create(t->l, &s))) return KILN_ERR_NOMEM;
    t->l->upload(t->l, t->keep, mask.data);
    return KILN_OK;
}

static kiln_status make_latents(tiling *t)
{
    kiln_latent_shape cells = t->shape, half = t->shape;
    cells.channels = 1;
    half.height = (half.height + 1) / 2, half.width = (half.width + 1) / 2;
    t->given = t->x->slot(t->x, "given"), t->moved = t->l->create(t->l, NULL), t->guess = t->l->create(t->l, NULL);
    t->sum = t->l->create(t->l, NULL), t->fresh = t->l->create(t->l, NULL);
    t->total = t->l->create(t->l, &cells), t->half = t->l->create(t->l, &half);
    t->tile = new_tile(t, t->shape.channels), t->yes = new_tile(t, t->shape.channels);
    t->no = new_tile(t, t->shape.channels), t->weight = new_tile(t, 1);
    if (!t->given || !t->moved || !t->guess || !t->sum || !t->fresh || !t->total || !t->half || !t->tile || !t->yes ||
        !t->no || !t->weight)
        return KILN_ERR_NOMEM;
    TRY(fill_weight(t));
    return read_keep(t);
}

/* The guess for one tile of `moved`, into the sum. */
static kiln_status add_tile(const tiling *t, kiln_latent_place at, double sigma)
{
    kiln_model_evaluation e = {
        .size = sizeof e, .conditioning = t->call->in[POSITIVE], .x = t->tile, .place = at, .sigma = sigma};
    t->l->crop(t->l, t->tile, t->moved, at);
    TRY(t->api->evaluate(t->session, &e, t->yes));
    e.conditioning = t->call->in[NEGATIVE], e.unconditional = 1;
    TRY(t->api->evaluate(t->session, &e, t->no));
    t->l->add_difference(t->l, t->yes, t->no, t->params->cfg, t->yes, t->no);
    t->l->accumulate(t->l, t->sum, t->total, t->yes, t->weight, at);
    return KILN_OK;
}

/* Where tile i begins, the last one at the end. */
static int64_t begin_of(int64_t i, int64_t step, int64_t size, int64_t tile)
{
    return i * step + tile > size ? size - tile : i * step;
}

static int64_t tiles_of(int64_t step, int64_t size, int64_t tile)
{
    return tile >= size ? 1 : (size - tile + step - 1) / step + 1;
}

/* guess = x0 of the whole latent at sigma. */
static kiln_status guess_in_tiles(const tiling *t, double sigma, kiln_latent_place by)
{
    kiln_latent_shape tile = t->l->shape(t->l, t->tile);
    int64_t step = t->params->tile > t->params->overlap ? t->params->tile - t->params->overlap : 1;
    int64_t down = tiles_of(step, t->shape.height, tile.height), across = tiles_of(step, t->shape.width, tile.width);
    t->l->roll(t->l, t->moved, t->x->x, by);
    t->l->lincomb(t->l, t->sum, 0, NULL, NULL);
    t->l->lincomb(t->l, t->total, 0, NULL, NULL);
    for (int64_t i = 0; i < down * across; i++) {
        kiln_latent_place at = {begin_of(i / across, step, t->shape.height, tile.height),
                                begin_of(i % across, step, t->shape.width, tile.width)};
        TRY(add_tile(t, at, sigma));
    }
    t->l->divide(t->l, t->sum, t->total);
    t->l->roll(t->l, t->guess, t->sum, (kiln_latent_place){-by.y, -by.x});
    return KILN_OK;
}

/* What the user asked for besides: a limit to the norm, a smoother guess, cells that stay. */
static void shape_guess(const tiling *t)
{
    const tiled_params *p = t->params;
    double norm = t->l->norm(t->l, t->guess), scale = norm > p->most ? p->most / norm : 1;
    t->l->lincomb(t->l, t->guess, 1, &scale, (kiln_latent *[]){t->guess});
    if (p->smooth > 0) {
        t->l->resize(t->l, t->half, t->guess, KILN_RESIZE_AREA);
        t->l->resize(t->l, t->sum, t->half, KILN_RESIZE_BILINEAR);
        t->l->lincomb(t->l, t->guess, 2, (double[]){1 - p->smooth, p->smooth}, (kiln_latent *[]){t->guess, t->sum});
    }
    if (t->keep) t->l->blend(t->l, t->guess, t->given, t->guess, t->keep);
}

static kiln_status step(const tiling *t, size_t i)
{
    double now = t->x->sigma[i], next = t->x->sigma[i + 1], a = (next - now) / now;
    TRY(guess_in_tiles(t, now, (kiln_latent_place){3 * (int64_t)i, 5 * (int64_t)i}));
    shape_guess(t);
    t->l->lincomb(t->l, t->x->x, 2, (double[]){1 + a, -a}, (kiln_latent *[]){t->x->x, t->guess});
    if (next > 0 && t->params->churn > 0) {
        t->l->random(t->l, t->fresh, t->params->seed + 1 + i);
        t->l->lincomb(t->l, t->x->x, 2, (double[]){1, t->params->churn * next}, (kiln_latent *[]){t->x->x, t->fresh});
    }
    return t->x->step(t->x, i, t->guess);
}

/* x = the given latent and noise of the first level. A run that goes on after a stop has its x, and `given` in a slot.
 */
static kiln_status begin(const tiling *t)
{
    t->l->lincomb(t->l, t->given, 1, (double[]){1}, (kiln_latent *[]){t->x->x});
    t->l->random(t->l, t->fresh, t->params->seed);
    t->l->lincomb(t->l, t->x->x, 2, (double[]){1, t->x->sigma[0]}, (kiln_latent *[]){t->x->x, t->fresh});
    return KILN_OK;
}

static kiln_status loop(tiling *t)
{
    kiln_status status = make_latents(t);
    if (status == KILN_OK && t->x->first == 0) status = begin(t);
    for (size_t i = t->x->first; status == KILN_OK && i < t->x->n; i++) status = step(t, i);
    return status;
}

static kiln_status tiled_run(const kiln_call *c)
{
    const kiln_sampling_api *s = c->host->ability(KILN_SAMPLING_ABILITY);
    const kiln_value_api *v = kit_values(c);
    kiln_value *parts = v->new_map(c->ctx), *guider = NULL;
    const kiln_noise none = {.size = sizeof none, .none = 1};
    kiln_sampling_job job = {
        .size = sizeof job, .guider = &guider, .n_guider = 1, .latent = c->in[LATENT_IMAGE], .noise = &none};
    double *sigma;
    if (!parts || v->map_set(parts, "model", c->in[MODEL]) != KILN_OK ||
        v->map_set(parts, "conditioning", c->in[POSITIVE]) != KILN_OK) {
        c->host->unref(parts);
        return KILN_ERR_NOMEM;
    }
    TRY(s->guider_new(c, "basic", parts, &guider));
    tiling t = {.call = c, .params = c->params, .api = s};
    kiln_status status = s->sigmas_read(c, c->in[SIGMAS], c->in[MODEL], &sigma, &job.n);
    if (status == KILN_OK && job.n < 2)
        status = c->host->fail(c->ctx, KILN_ERR_INVALID, "sigmas: at least two levels are needed");
    job.sigma = sigma, job.n--;
    if (status == KILN_OK) status = s->open(c, &job, &t.session);
    if (status == KILN_OK) {
        t.x = s->view(t.session), t.l = t.x->latents, t.shape = t.l->shape(t.l, t.x->x);
        status = loop(&t);
        if (status == KILN_OK)
            status = s->finish(t.session, &c->out[0], NULL);
        else
            s->close(t.session, status);
    }
    c->host->unref(guider);
    return status;
}

static const kiln_node tiled_node = {
    KIT_NODE_FLAGS(KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_DEVICE | KILN_NODE_ESTIMATES, 1,
                   "ExampleTiledSampler", "Tiled Sampler", "examples", "Euler's method, evaluated in tiles."),
    KILN_ARRAY(in, tiled_in), KILN_ARRAY(out, tiled_out), KIT_PARAMS(tiled_params, tiled_param), .run = tiled_run};

/* ---- the plugin ---- */

static kiln_status open_plugin(const kiln_host *host)
{
    const kiln_sampling_api *s = host->ability(KILN_SAMPLING_ABILITY);
    return s ? s->register_guider(&three_way_row) : KILN_ERR_UNSUPPORTED;
}

KILN_PLUGIN_OPEN("org.example.tiles", "1.0.0", "MIT", open_plugin, &guider_node, &tiled_node);
