/* wan_chunks.c - ExampleWanDecode and ExampleWanEncode: videos through Wan's autoencoder a few cells at a time. What
 * the convolutions saw before are states, which two programs share: that of the first frame and that of all others.
 *
 * VAEDecode and VAEEncode give the same numbers. A program of theirs is as long as the video; these have a few, however
 * long it is.
 */
#include "wan.h"

#include <stdlib.h>

typedef struct {
    int64_t cells; /* 0: the whole video at once */
} chunk_params;

/* A conversion at work. Decoding: cells in, frames out; encoding the other way round. */
typedef struct {
    const kiln_call *call;
    const kiln_ops *ops;
    const kiln_vae *vae;
    int decodes;
    int64_t h, w; /* of what goes in */
    kiln_program *program;
    wan_part part; /* of the program, and */
    int64_t t;     /* the frames or cells that go in */
    kiln_states *states;
} work;

/* ---- sizes ---- */

static int64_t frames_of(int64_t cells) { return 1 + (cells - 1) * WAN_TIME; }
static int64_t cells_of(int64_t frames) { return 1 + (frames - 1) / WAN_TIME; }

/* Of t cells (frames) that go in, how many frames (cells) come out. */
static int64_t made_of(const work *k, wan_part part, int64_t t)
{
    if (part == WAN_LATER) return k->decodes ? t * WAN_TIME : t / WAN_TIME;
    return k->decodes ? frames_of(t) : cells_of(t);
}

static int64_t side(const work *k, int64_t pixels_or_cells)
{
    return k->decodes ? pixels_or_cells * WAN_FACTOR : pixels_or_cells / WAN_FACTOR;
}

static int64_t in_channels(const work *k) { return k->decodes ? WAN_CHANNELS : 3; }
static int64_t out_channels(const work *k) { return k->decodes ? 3 : WAN_CHANNELS; }
static int64_t in_size(const work *k, int64_t t) { return t * k->h * k->w * in_channels(k); }
static int64_t out_size(const work *k, int64_t t) { return t * side(k, k->h) * side(k, k->w) * out_channels(k); }

/* ---- programs ---- */

/* Latents are those of a LATENT, pictures 0 to 1. */
static void record(const work *k)
{
    const wan_recording r = {k->ops, k->program, k->vae->weights, k->vae->autoencoder->self};
    kiln_t x = k->ops->input(k->program, "x", KILN_F32, DIMS(1, k->t, k->h, k->w, in_channels(k)));
    if (k->decodes) {
        x = wan_decode_part(&r, x, k->part);
        x = k->ops->map(k->program, "min(max(a / 2 + 0.5, 0), 1)", &x, 1, NULL);
    } else
        x = wan_encode_part(&r, k->ops->map(k->program, "a * 2 - 1", &x, 1, NULL), k->part);
    k->ops->output(k->program, "y", x);
}

static void close_program(work *k)
{
    if (k->program) k->ops->program_free(k->program);
    k->program = NULL;
}

static kiln_status open_program(work *k, wan_part part, int64_t t)
{
    static const char *const names[2][3] = {{"wan encode", "wan encode first", "wan encode later"},
                                            {"wan decode", "wan decode first", "wan decode later"}};
    const kiln_weights_api *w = k->call->host->ability(KILN_WEIGHTS_ABILITY);
    const char *identity = w->identity(k->call->ctx, k->vae->weights);
    const kiln_program_options options = {.size = sizeof options, .name = names[k->decodes][part]};
    char key[400];
    int fresh = 0;
    if (k->program && k->part == part && k->t == t) return KILN_OK;
    close_program(k);
    k->part = part, k->t = t;
    if (!identity) return KILN_ERR_IO;
    NAME(key, "%s:%s:%s:%lldx%lldx%lld", options.name, k->vae->autoencoder->family, identity, (long long)t,
         (long long)k->h, (long long)k->w);
    k->program = k->ops->program_keep(k->call->ctx, key, &options, &fresh);
    if (!k->program) return KILN_ERR_NOMEM;
    if (!fresh) return KILN_OK;
    record(k);
    return k->ops->plan(k->call->ctx, k->program, NULL);
}

static kiln_status run_part(work *k, wan_part part, int64_t t, float *x, float *y)
{
    TRY(open_program(k, part, t));
    const kiln_bind in =
        KILN_BIND("x", kit_window(KILN_F32, KILN_CPU, x, 5, KILN_DIMS(1, t, k->h, k->w, in_channels(k))));
    const kiln_bind out =
        KILN_BIND("y", kit_window(KILN_F32, KILN_CPU, y, 5,
                                  KILN_DIMS(1, made_of(k, part, t), side(k, k->h), side(k, k->w), out_channels(k))));
    return k->ops->run_with(k->call->ctx, k->program,
                            &(kiln_run){.size = sizeof(kiln_run),
                                        .states = part == WAN_AT_ONCE ? NULL : k->states,
                                        .in = &in,
                                        .out = &out,
                                        .n_in = 1,
                                        .n_out = 1});
}

/* One video of t cells (frames); x and y are NULL in an estimate. */
static kiln_status convert(work *k, int64_t t, float *x, float *y)
{
    const kiln_call *c = k->call;
    const int64_t cells = ((const chunk_params *)c->params)->cells, step = k->decodes ? cells : cells * WAN_TIME;
    if (!cells) return run_part(k, WAN_AT_ONCE, t, x, y);
    if (!(k->states = k->ops->states_new(c->ctx, "a video"))) return KILN_ERR_NOMEM;
    kiln_status status = run_part(k, WAN_FIRST, 1, x, y);
    int64_t made = 1;
    for (int64_t at = 1, n; status == KILN_OK && at < t; at += n) {
        n = step < t - at ? step : t - at;
        status = c->host->progress(c->ctx, (uint64_t)at, (uint64_t)t, "chunk");
        if (status == KILN_OK)
            status = run_part(k, WAN_LATER, n, kit_at(x, (size_t)in_size(k, at)), kit_at(y, (size_t)out_size(k, made)));
        made += made_of(k, WAN_LATER, n);
    }
    k->ops->states_free(k->states);
    k->states = NULL;
    return status;
}

/* Videos one after the other. */
static kiln_status convert_all(work *k, int64_t videos, int64_t t, const kiln_tensor *from, kiln_tensor *to)
{
    const int64_t made = made_of(k, WAN_AT_ONCE, t);
    kiln_status status = KILN_OK;
    for (int64_t i = 0; status == KILN_OK && i < videos; i++)
        status = convert(k, t, kit_at(from->data, (size_t)(i * in_size(k, t))),
                         kit_at(to->data, (size_t)(i * out_size(k, made))));
    close_program(k);
    return status;
}

/* ---- nodes ---- */

static kiln_status open_vae(const kiln_call *c, int decodes, work *k)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    static const char ours[] = "example-wan-vae/";
    *k = (work){.call = c, .ops = c->host->ability(KILN_OPS_ABILITY), .decodes = decodes};
    if (!(k->vae = models->vae(c->ctx, c->in[1]))) return KILN_ERR_INVALID;
    if (strncmp(k->vae->autoencoder->family, ours, sizeof ours - 1) == 0) return KILN_OK;
    return c->host->fail(c->ctx, KILN_ERR_INVALID,
                         "this VAE is of the family '%s', and only Wan's is causal in time as this node wants it; take "
                         "%s",
                         k->vae->autoencoder->family, decodes ? "VAEDecode" : "VAEEncode");
}

static kiln_status decode_run(const kiln_call *c)
{
    kiln_tensor from, to;
    work k;
    TRY(open_vae(c, 1, &k));
    TRY(kit_samples(c, c->in[0], &from));
    if (from.rank != 5 || from.dim[4] != WAN_CHANNELS)
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "the latent has %u dimensions and %lld channels; Wan's have 5 ([N,T,H,W,C], a video) and "
                             "%d",
                             from.rank, (long long)from.dim[from.rank - 1], WAN_CHANNELS);
    k.h = from.dim[2], k.w = from.dim[3];
    TRY(kit_new_f32(c, 4, KILN_DIMS(from.dim[0] * frames_of(from.dim[1]), side(&k, k.h), side(&k, k.w), 3), &c->out[0],
                    &to));
    return convert_all(&k, from.dim[0], from.dim[1], &from, &to);
}

static kiln_status encode_run(const kiln_call *c)
{
    kiln_tensor from, to;
    kiln_value *samples;
    work k;
    TRY(open_vae(c, 0, &k));
    TRY(kit_f32(c, c->in[0], 4, "the video", &from));
    k.h = from.dim[1], k.w = from.dim[2];
    if ((from.dim[0] - 1) % WAN_TIME)
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "the video has %lld frames; Wan's have 4 n + 1, such as %lld or %lld",
                             (long long)from.dim[0], (long long)frames_of(cells_of(from.dim[0])),
                             (long long)frames_of(cells_of(from.dim[0]) + 1));
    if (from.dim[3] != 3 || k.h % WAN_FACTOR || k.w % WAN_FACTOR)
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "the video's frames are %lldx%lld with %lld channels; width and height have to be "
                             "multiples of %d, channels 3",
                             (long long)k.w, (long long)k.h, (long long)from.dim[3], WAN_FACTOR);
    TRY(kit_new_f32(c, 5, KILN_DIMS(1, cells_of(from.dim[0]), side(&k, k.h), side(&k, k.w), WAN_CHANNELS), &samples,
                    &to));
    kiln_status status = convert_all(&k, 1, from.dim[0], &from, &to);
    if (status == KILN_OK) return kit_latent(c, NULL, samples, &c->out[0]);
    c->host->unref(samples);
    return status;
}

#define VAE                                                                                                            \
    {                                                                                                                  \
        .name = "vae", .type = "VAE", .doc = "Wan's."                                                                  \
    }
static const kiln_port decode_in[] = {{.name = "samples", .type = "LATENT", .doc = "Videos."}, VAE};
static const kiln_port decode_out[] = {{.name = "IMAGE", .type = "IMAGE", .doc = "Their frames, one after another."}};
static const kiln_port encode_in[] = {{.name = "pixels", .type = "IMAGE", .doc = "The frames of one video."}, VAE};
static const kiln_port encode_out[] = {{.name = "LATENT", .type = "LATENT", .doc = "The video."}};
static const kiln_param chunk_param[] = {
    KIT_INT(chunk_params, cells, 1, 0, 1024, "Cells in time that go through together; 0: all of them.")};

#define CHUNK_NODE(type_, title_, doc_)                                                                                \
    KIT_NODE_FLAGS(KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_DEVICE | KILN_NODE_ESTIMATES, 1, type_, title_,    \
                   "latent/video", doc_)
const kiln_node wan_decode_node = {
    CHUNK_NODE("ExampleWanDecode", "Wan Decode", "Latents of Wan to frames, a few cells at a time."),
    KILN_ARRAY(in, decode_in), KILN_ARRAY(out, decode_out), KIT_PARAMS(chunk_params, chunk_param), .run = decode_run};
const kiln_node wan_encode_node = {
    CHUNK_NODE("ExampleWanEncode", "Wan Encode", "Frames to latents of Wan, a few cells at a time."),
    KILN_ARRAY(in, encode_in), KILN_ARRAY(out, encode_out), KIT_PARAMS(chunk_params, chunk_param), .run = encode_run};
