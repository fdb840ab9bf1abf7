/* autoencoder.c - videos <-> latents: the first frame is a cell of its own, every four after it are one, and a cell of
 * the latent knows only of those before it. The decoder has an input besides the latent, which nobody gives: it has its
 * row's fallback.
 *
 * Every weight is asked for whatever the video's length, so that kiln can name those of a file that nothing uses. A
 * cell is 4x4 pixels. Their colours lie beside one another as channels, which is reshaping; the rest is linear.
 */
#include "video.h"

typedef struct {
    const kiln_ops *o;
    kiln_program *p;
    kiln_weights *w;
    int64_t n, t, h, width; /* of the latent */
} recorder;

#define DIMS(...)                                                                                                      \
    (uint32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }

static kiln_t weight(const recorder *r, const char *name, int64_t in, int64_t out)
{
    return r->o->weight(r->p, r->w, name, DIMS(out, in));
}

static kiln_t linear(const recorder *r, kiln_t x, const char *name, int64_t in, int64_t out)
{
    return r->o->linear(r->p, x, weight(r, name, in, out), (kiln_t){0});
}

/* Neighbours in the frame: [N,T,H,W,D]. */
static kiln_t in_space(const recorder *r, kiln_t x, const char *name)
{
    const kiln_conv2d conv = {.size = sizeof conv, .stride = {1, 1}, .pad = {1, 1, 1, 1}};
    kiln_t y = r->o->reshape(r->p, x, DIMS(r->n * r->t, r->h, r->width, WIDTH));
    y = r->o->conv2d(r->p, r->o->act(r->p, y, KILN_ACT_SILU), r->o->weight(r->p, r->w, name, DIMS(WIDTH, WIDTH, 3, 3)),
                     (kiln_t){0}, &conv);
    return r->o->add(r->p, x, r->o->reshape(r->p, y, DIMS(r->n, r->t, r->h, r->width, WIDTH)));
}

/* The cell before in time; the first has itself. */
static kiln_t in_time(const recorder *r, kiln_t x, const char *name)
{
    kiln_t before[] = {r->o->slice(r->p, x, 1, 0, 1), r->t > 1 ? r->o->slice(r->p, x, 1, 0, r->t - 1) : (kiln_t){0}};
    kiln_t all = r->t > 1 ? r->o->concat(r->p, before, 2, 1) : before[0];
    return r->o->add(r->p, x, linear(r, all, name, WIDTH, WIDTH));
}

/* ---- decoding ---- */

/* [N,t,H,W,frames*BLOCK] -> [N,t*frames,4H,4W,3] */
static kiln_t spread(const recorder *r, kiln_t x, int64_t t, int64_t frames)
{
    x = r->o->reshape(r->p, x, DIMS(r->n * t, r->h, r->width, frames, FACTOR, FACTOR, 3));
    x = r->o->permute(r->p, x, (const uint32_t[]){0, 3, 1, 4, 2, 5, 6});
    return r->o->reshape(r->p, x, DIMS(r->n, t * frames, r->h * FACTOR, r->width * FACTOR, 3));
}

static kiln_t record_decode(const kiln_autoencoder *a, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                            kiln_t latent)
{
    int64_t dim[5];
    (void)a;
    ops->shape(p, latent, dim, 5);
    recorder r = {ops, p, w, dim[0], dim[1], dim[2], dim[3]};
    kiln_t sharpness = ops->reshape(p, ops->input(p, "sharpness", KILN_F32, 1, dim), DIMS(dim[0], 1, 1, 1, 1));
    kiln_t x = ops->mul(p, linear(&r, latent, "decoder.in", CHANNELS, WIDTH), sharpness);
    x = in_time(&r, in_space(&r, x, "decoder.space"), "decoder.time");
    kiln_t part[2], rest = weight(&r, "decoder.rest", WIDTH, TIME * BLOCK);
    part[0] = spread(&r, linear(&r, ops->slice(p, x, 1, 0, 1), "decoder.first", WIDTH, BLOCK), 1, 1);
    if (r.t == 1) return part[0];
    part[1] = spread(&r, ops->linear(p, ops->slice(p, x, 1, 1, r.t - 1), rest, (kiln_t){0}), r.t - 1, TIME);
    return ops->concat(p, part, 2, 1);
}

/* ---- encoding ---- */

/* [N,t*frames,4H,4W,3] -> [N,t,H,W,frames*BLOCK] */
static kiln_t gather(const recorder *r, kiln_t x, int64_t t, int64_t frames)
{
    x = r->o->reshape(r->p, x, DIMS(r->n * t, frames, r->h, FACTOR, r->width, FACTOR, 3));
    x = r->o->permute(r->p, x, (const uint32_t[]){0, 2, 4, 1, 3, 5, 6});
    return r->o->reshape(r->p, x, DIMS(r->n, t, r->h, r->width, frames * BLOCK));
}

static void record_encode(const kiln_autoencoder *a, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                          kiln_t image, kiln_latent_distribution *out)
{
    int64_t dim[5];
    (void)a;
    ops->shape(p, image, dim, 5);
    recorder r = {ops, p, w, dim[0], 1 + (dim[1] - 1) / TIME, dim[2] / FACTOR, dim[3] / FACTOR};
    kiln_t part[2], rest = weight(&r, "encoder.rest", TIME * BLOCK, WIDTH);
    part[0] = linear(&r, gather(&r, ops->slice(p, image, 1, 0, 1), 1, 1), "encoder.first", BLOCK, WIDTH);
    if (r.t > 1)
        part[1] = ops->linear(p, gather(&r, ops->slice(p, image, 1, 1, dim[1] - 1), r.t - 1, TIME), rest, (kiln_t){0});
    kiln_t x = r.t > 1 ? ops->concat(p, part, 2, 1) : part[0];
    x = linear(&r, in_time(&r, in_space(&r, x, "encoder.space"), "encoder.time"), "encoder.out", WIDTH, 2 * CHANNELS);
    out->mean = ops->slice(p, x, 4, 0, CHANNELS);
    out->log_variance = ops->slice(p, x, 4, CHANNELS, CHANNELS);
}

/* ---- the table ---- */

static const kiln_tile_advice tile = {
    .size = sizeof tile, .height = 32, .width = 32, .frames = 4, .overlap = 4, .frame_overlap = 1};
static const kiln_input_spec inputs[] = {
    {.size = sizeof *inputs,
     .name = "sharpness",
     .kind = KILN_INPUT_SCALAR,
     .flags = KILN_INPUT_OPTIONAL,
     .fallback = 1.5,
     .doc = "What the latent is multiplied with."},
};

static const kiln_autoencoder autoencoder = {
    .size = sizeof autoencoder,
    .family = "example-video-vae/1",
    .latent = &video_latent,
    .tile = &tile,
    .record_encode = record_encode,
    .record_decode = record_decode,
    KILN_ARRAY(input, inputs),
};

static int detect(const kiln_weights_api *w, const kiln_weights *set)
{
    kiln_weight_info info = {.size = sizeof info};
    return w->find(set, "decoder.rest", &info) == KILN_OK && w->find(set, "encoder.rest", &info) == KILN_OK ? 100 : 0;
}

static kiln_value *open_vae(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set)
{
    const kiln_model_api *models = host->ability(KILN_MODEL_ABILITY);
    return models->vae_new(ctx, &(kiln_vae){.size = sizeof(kiln_vae), .autoencoder = &autoencoder, .weights = set});
}

const kiln_model_family video_autoencoder_family = {.size = sizeof video_autoencoder_family,
                                                    .kind = KILN_FAMILY_AUTOENCODER,
                                                    .name = "example-video-vae",
                                                    .doc = "A toy that makes latents of videos",
                                                    .detect = detect,
                                                    .open = open_vae};
