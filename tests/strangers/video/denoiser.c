/* denoiser.c - a network over latents [N,T,H,W,C]: every cell looks at the text, at its neighbours in its frame, and at
 * itself in the other frames. Each frame has a timestep of its own, so that frames which are given (the noise mask
 * keeps them) are known to be clean.
 */
#include "video.h"

static const double scale[CHANNELS] = {0.5, 0.8, 1.25, 0.4, 1, 0.625},
                    shift[CHANNELS] = {0.1, -0.2, 0, 0.3, -0.1, 0.05};
static const kiln_latent_scaling scaling = {sizeof scaling, CHANNELS, scale, shift};
const kiln_latent_format video_latent = {.size = sizeof video_latent,
                                         .rank = 5,
                                         .channels = CHANNELS,
                                         .factor = FACTOR,
                                         .time_factor = TIME,
                                         .time_first = 1,
                                         .scaling = &scaling};

/* What is being recorded, and the video's size. */
typedef struct {
    const kiln_ops *o;
    kiln_program *p;
    kiln_weights *w;
    int64_t n, t, h, width;
} recorder;

#define DIMS(...)                                                                                                      \
    (uint32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }

static kiln_t weight(const recorder *r, const char *name, uint32_t rank, const int64_t *dim)
{
    return r->o->weight(r->p, r->w, name, rank, dim);
}

static kiln_t linear(const recorder *r, kiln_t x, const char *name, const char *bias, int64_t in, int64_t out)
{
    return r->o->linear(r->p, x, weight(r, name, DIMS(out, in)), weight(r, bias, DIMS(out)));
}

/* q of x, k and v of `context`; the result is added to x. */
static kiln_t attend(const recorder *r, kiln_t x, kiln_t context, const char *q, const char *k, const char *v,
                     int64_t width)
{
    const kiln_t none = {0};
    kiln_attention a = {.size = sizeof a, .heads = 2};
    kiln_t of = r->o->attention(r->p, r->o->linear(r->p, x, weight(r, q, DIMS(WIDTH, WIDTH)), none),
                                r->o->linear(r->p, context, weight(r, k, DIMS(WIDTH, width)), none),
                                r->o->linear(r->p, context, weight(r, v, DIMS(WIDTH, width)), none), &a);
    return r->o->add(r->p, x, of);
}

/* [N,T] -> [N,T,1,1,D], which the frames' cells add. */
static kiln_t embed_time(const recorder *r, kiln_t timestep)
{
    const kiln_timestep_embedding how = {.size = sizeof how, .cos_first = 1};
    kiln_t t = r->o->timestep_embedding(r->p, timestep, WIDTH, &how); /* [N,T,D] */
    t = r->o->act(r->p, linear(r, t, "time.0.weight", "time.0.bias", WIDTH, WIDTH), KILN_ACT_SILU);
    t = linear(r, t, "time.1.weight", "time.1.bias", WIDTH, WIDTH);
    return r->o->reshape(r->p, t, DIMS(r->n, r->t, 1, 1, WIDTH));
}

static kiln_t in_space(const recorder *r, kiln_t x)
{
    const kiln_conv2d conv = {.size = sizeof conv, .stride = {1, 1}, .pad = {1, 1, 1, 1}};
    kiln_t y = r->o->reshape(r->p, x, DIMS(r->n * r->t, r->h, r->width, WIDTH));
    y = r->o->act(r->p, y, KILN_ACT_SILU);
    y = r->o->conv2d(r->p, y, weight(r, "space.weight", DIMS(WIDTH, WIDTH, 3, 3)), weight(r, "space.bias", DIMS(WIDTH)),
                     &conv);
    return r->o->add(r->p, x, r->o->reshape(r->p, y, DIMS(r->n, r->t, r->h, r->width, WIDTH)));
}

/* Each cell of the picture is a sequence of T tokens. */
static kiln_t in_time(const recorder *r, kiln_t x)
{
    kiln_t y = r->o->permute(r->p, x, (const uint32_t[]){0, 2, 3, 1, 4});
    y = r->o->reshape(r->p, y, DIMS(r->n * r->h * r->width, r->t, WIDTH));
    y = r->o->layer_norm(r->p, y, 1e-5f, weight(r, "norm.weight", DIMS(WIDTH)), weight(r, "norm.bias", DIMS(WIDTH)));
    y = attend(r, y, y, "frames.q", "frames.k", "frames.v", WIDTH);
    y = r->o->reshape(r->p, y, DIMS(r->n, r->h, r->width, r->t, WIDTH));
    return r->o->add(r->p, x, r->o->permute(r->p, y, (const uint32_t[]){0, 3, 1, 2, 4}));
}

static kiln_t record(const kiln_denoiser *d, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                     const kiln_denoise_inputs *in)
{
    int64_t dim[5];
    (void)d;
    ops->shape(p, in->x, dim, 5);
    recorder r = {ops, p, w, dim[0], dim[1], dim[2], dim[3]};
    kiln_t x = linear(&r, in->x, "in.weight", "in.bias", CHANNELS, WIDTH); /* [N,T,H,W,D] */
    x = ops->add(p, x, embed_time(&r, in->timestep));
    x = ops->reshape(p, x, DIMS(r.n, r.t * r.h * r.width, WIDTH));
    x = attend(&r, x, kiln_input(in->input, in->n_input, "tokens"), "text.q", "text.k", "text.v", CONTEXT);
    x = ops->reshape(p, x, DIMS(r.n, r.t, r.h, r.width, WIDTH));
    x = in_time(&r, in_space(&r, x));
    return linear(&r, x, "out.weight", "out.bias", WIDTH, CHANNELS);
}

static const kiln_input_spec inputs[] = {
    {.size = sizeof *inputs, .name = "tokens", .kind = KILN_INPUT_TOKENS, .width = CONTEXT, .doc = "The text."},
};

static const kiln_denoiser denoiser = {
    .size = sizeof denoiser,
    .family = "example-video/1",
    .latent = &video_latent,
    .sampling = &video_flow,
    .timestep = KILN_TIMESTEP_FRAME,
    KILN_ARRAY(input, inputs),
    .record = record,
};

static int detect(const kiln_weights_api *w, const kiln_weights *set)
{
    kiln_weight_info info = {.size = sizeof info};
    return w->find(set, "frames.q", &info) == KILN_OK && w->find(set, "time.0.weight", &info) == KILN_OK ? 100 : 0;
}

static kiln_value *open_model(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set)
{
    const kiln_model_api *models = host->ability(KILN_MODEL_ABILITY);
    return models->model_new(ctx, &(kiln_model){.size = sizeof(kiln_model), .denoiser = &denoiser, .weights = set});
}

const kiln_model_family video_denoiser_family = {.size = sizeof video_denoiser_family,
                                                 .kind = KILN_FAMILY_DENOISER,
                                                 .name = "example-video",
                                                 .doc = "A toy that denoises videos",
                                                 .detect = detect,
                                                 .open = open_model};
