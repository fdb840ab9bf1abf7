/* wan_nodes.c - what a workflow for Wan needs beside kiln's own nodes, and the plugin's table.
 *
 *   ExampleWanEmptyVideo    a latent of zeros for a video
 *   ExampleWanImageToVideo  conditionings for an image-to-video model: given frames before grey ones, encoded; and an
 * empty latent
 *   ExampleWanParts         a VAE whose parts of a video are of another length
 */
#include "wan.h"

#include <stddef.h>
#include <stdlib.h>

enum { GIVEN = 4 }; /* channels that say which frames are given: a cell's four */

static kiln_status check_length(const kiln_call *c, const char *what, int64_t length)
{
    if ((length - 1) % WAN_TIME == 0) return KILN_OK;
    const int64_t fewer = length - 1 - (length - 1) % WAN_TIME + 1;
    return c->host->fail(c->ctx, KILN_ERR_INVALID,
                         "%s is %lld, and a video of Wan has 4 n + 1 frames; make it %lld or %lld", what,
                         (long long)length, (long long)fewer, (long long)fewer + WAN_TIME);
}

/* A new f32 tensor, of zeros. */
static kiln_value *zeros(const kiln_call *c, const int64_t *dim)
{
    kiln_value *v;
    kiln_tensor t;
    if (kit_new_f32(c, 5, dim, &v, &t) != KILN_OK) return NULL;
    if (!kit_estimating(c)) memset(t.data, 0, kit_count(&t) * sizeof(float));
    return v;
}

/* ---- ExampleWanEmptyVideo ---- */

typedef struct {
    int64_t width, height, length, batch_size;
} empty_params;
static const kiln_port latent_out[] = {{.name = "LATENT", .type = "LATENT", .doc = "Zeros."}};
static const kiln_param empty_param[] = {
    KIT_INT(empty_params, width, 832, 16, 4096, "Pixels, a multiple of 16."),
    KIT_INT(empty_params, height, 480, 16, 4096, "Pixels, a multiple of 16."),
    KIT_INT(empty_params, length, 81, 1, 4097, "Frames, 4 n + 1."),
    KIT_INT(empty_params, batch_size, 1, 1, 64, "Videos."),
};

static kiln_status empty_check(const kiln_call *c)
{
    const empty_params *p = c->params;
    const int64_t side = WAN_FACTOR * WAN_PATCH;
    TRY(check_length(c, "length", p->length));
    if (p->width % side == 0 && p->height % side == 0) return KILN_OK;
    return c->host->fail(c->ctx, KILN_ERR_INVALID,
                         "width and height are %lldx%lld; Wan takes cells of %d pixels in patches of 2x2, so make them "
                         "multiples of %lld",
                         (long long)p->width, (long long)p->height, WAN_FACTOR, (long long)side);
}

static kiln_status empty_run(const kiln_call *c)
{
    const empty_params *p = c->params;
    TRY(empty_check(c)); /* a link may have brought a number */
    return kit_latent(c, NULL,
                      zeros(c, KILN_DIMS(p->batch_size, 1 + (p->length - 1) / WAN_TIME, p->height / WAN_FACTOR,
                                         p->width / WAN_FACTOR, WAN_CHANNELS)),
                      &c->out[0]);
}
static const kiln_node empty_node = {
    KIT_NODE("ExampleWanEmptyVideo", "Empty Wan Video", "latent/video", "A latent of zeros for a video."),
    KILN_ARRAY(out, latent_out), KIT_PARAMS(empty_params, empty_param), .run = empty_run, .check = empty_check};

/* ---- ExampleWanImageToVideo ---- */

typedef struct {
    int64_t length, batch_size;
} to_video_params;
enum { POSITIVE, NEGATIVE, VAE, START, SEEN };
static const kiln_port to_video_in[] = {
    {.name = "positive", .type = "CONDITIONING", .doc = "What the video should show."},
    {.name = "negative", .type = "CONDITIONING", .doc = "What it should not."},
    {.name = "vae", .type = "VAE", .doc = "Wan's."},
    {.name = "start_image", .type = "IMAGE", .doc = "The first frames, 4 n + 1, of the video's size."},
    {.name = "clip_vision_output",
     .type = "CLIP_VISION_OUTPUT",
     .flags = KILN_PORT_OPTIONAL,
     .doc = "What CLIP's vision encoder sees in the picture, where the model wants that."}};
static const kiln_port to_video_out[] = {{.name = "positive", .type = "CONDITIONING", .doc = "With the picture."},
                                         {.name = "negative", .type = "CONDITIONING", .doc = "With the picture."},
                                         {.name = "latent", .type = "LATENT", .doc = "Zeros, of the video's size."}};
static const kiln_param to_video_param[] = {
    KIT_INT(to_video_params, length, 81, 1, 4097, "Frames, 4 n + 1."),
    KIT_INT(to_video_params, batch_size, 1, 1, 64, "Videos."),
};

/* The given frames and grey ones. */
static kiln_status grey_behind(const kiln_call *c, const kiln_tensor *from, int64_t length, kiln_value **out)
{
    kiln_tensor to;
    TRY(check_length(c, "length", length));
    TRY(check_length(c, "the number of given frames", from->dim[0]));
    if (from->dim[0] > length)
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "%lld frames are given for a video of %lld",
                             (long long)from->dim[0], (long long)length);
    TRY(kit_new_f32(c, 4, KILN_DIMS(length, from->dim[1], from->dim[2], from->dim[3]), out, &to));
    if (kit_estimating(c)) return KILN_OK;
    memcpy(to.data, from->data, kit_count(from) * sizeof(float));
    for (size_t i = kit_count(from); i < kit_count(&to); i++) ((float *)to.data)[i] = 0.5f;
    return KILN_OK;
}

/* That video as a LATENT; `given`: how many of its frames are. */
static kiln_status encode_given(const kiln_call *c, int64_t length, kiln_value **latent, int64_t *given)
{
    const kiln_vae_api *vae = c->host->ability(KILN_VAE_ABILITY);
    kiln_tensor from;
    kiln_value *video = NULL;
    if (!vae) return c->host->fail(c->ctx, KILN_ERR_UNSUPPORTED, "the plugin org.kiln.vae is not there");
    TRY(kit_f32(c, c->in[START], 4, "start_image", &from));
    *given = from.dim[0];
    TRY(grey_behind(c, &from, length, &video));
    kiln_status status = vae->encode(c, c->in[VAE], video, latent);
    c->host->unref(video);
    return status;
}

/* [1,T,h,w,4]: 1 in the cells of given frames. */
static kiln_value *given_mask(const kiln_call *c, const kiln_tensor *like, int64_t frames)
{
    kiln_value *mask;
    kiln_tensor t;
    const int64_t cell = like->dim[2] * like->dim[3] * GIVEN;
    if (kit_new_f32(c, 5, KILN_DIMS(1, like->dim[1], like->dim[2], like->dim[3], GIVEN), &mask, &t) != KILN_OK)
        return NULL;
    for (int64_t i = 0; !kit_estimating(c) && i < like->dim[1] * cell; i++)
        ((float *)t.data)[i] = i / cell <= (frames - 1) / WAN_TIME;
    return mask;
}

static kiln_status give(const kiln_call *c, kiln_value *encoded, int64_t given)
{
    static const char *const key[] = {"given", "picture", "vision"};
    const kiln_value_api *v = kit_values(c);
    kiln_value *seen = c->in[SEEN] ? v->map_get(c->in[SEEN], "penultimate_hidden_states") : NULL;
    kiln_tensor t;
    TRY(kit_samples(c, encoded, &t));
    if (t.rank != 5 || t.dim[4] != WAN_CHANNELS)
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "vae: Wan's is wanted, with latents [N,T,H,W,%d]", WAN_CHANNELS);
    if (c->in[SEEN] && !seen)
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "clip_vision_output has no penultimate_hidden_states, which Wan looks at");
    kiln_value *const item[] = {given_mask(c, &t, given), v->map_get(encoded, "samples"), seen};
    kiln_status status = item[0] ? KILN_OK : KILN_ERR_NOMEM;
    for (int i = POSITIVE; status == KILN_OK && i <= NEGATIVE; i++)
        status = kit_entries_with(c, c->in[i], seen ? 3 : 2, key, item, &c->out[i]);
    c->host->unref(item[0]);
    TRY(status);
    const int64_t videos = ((const to_video_params *)c->params)->batch_size;
    return kit_latent(c, NULL, zeros(c, KILN_DIMS(videos, t.dim[1], t.dim[2], t.dim[3], WAN_CHANNELS)), &c->out[2]);
}

static kiln_status to_video_run(const kiln_call *c)
{
    kiln_value *encoded = NULL;
    int64_t given = 0;
    TRY(encode_given(c, ((const to_video_params *)c->params)->length, &encoded, &given));
    kiln_status status = give(c, encoded, given);
    c->host->unref(encoded);
    return status;
}
static const kiln_node to_video_node = {
    KIT_NODE_FLAGS(KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_DEVICE | KILN_NODE_ESTIMATES, 1,
                   "ExampleWanImageToVideo", "Wan Image To Video", "conditioning/video",
                   "Gives an image-to-video model the frames that it begins with."),
    KILN_ARRAY(in, to_video_in), KILN_ARRAY(out, to_video_out), KIT_PARAMS(to_video_params, to_video_param),
    .run = to_video_run};

/* ---- ExampleWanParts ---- */

typedef struct {
    int64_t cells;
} parts_params;
static const kiln_port vae_in[] = {{.name = "vae", .type = "VAE", .doc = "Wan's."}};
static const kiln_port vae_out[] = {{.name = "VAE", .type = "VAE", .doc = "With parts of that length."}};
static const kiln_param parts_param[] = {
    KIT_INT(parts_params, cells, 2, 0, 1024, "Cells in time that go through together; 0: all of them.")};

static kiln_status parts_run(const kiln_call *c)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_vae *of = models->vae(c->ctx, c->in[0]);
    if (!of) return KILN_ERR_INVALID;
    if (of->autoencoder->record_decode != wan_record_decode)
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "this VAE is of the family '%s', and no Wan's",
                             of->autoencoder->family);
    kiln_autoencoder *a = malloc(sizeof *a);
    if (!a) return KILN_ERR_NOMEM;
    *a = *of->autoencoder; /* our own, so as long as this header's */
    a->part_cells = ((const parts_params *)c->params)->cells;
    kiln_vae made = *of;
    made.autoencoder = a, made.owned = a, made.release = free, made.base = c->in[0];
    c->out[0] = models->vae_new(c->ctx, &made);
    if (!c->out[0]) free(a);
    return c->out[0] ? KILN_OK : KILN_ERR_NOMEM;
}

static const kiln_node parts_node = {
    KIT_NODE("ExampleWanParts", "Wan Parts", "examples", "How many cells in time a VAE takes together."),
    KILN_ARRAY(in, vae_in), KILN_ARRAY(out, vae_out), KIT_PARAMS(parts_params, parts_param), .run = parts_run};

/* ---- the plugin ---- */

static kiln_status open_plugin(const kiln_host *host)
{
    const kiln_model_api *models = host->ability(KILN_MODEL_ABILITY);
    if (!models) return KILN_ERR_UNSUPPORTED;
    TRY(models->register_family(&wan_denoiser_family));
    TRY(models->register_family(&wan_autoencoder_family));
    return models->register_family(&umt5_family);
}

KILN_PLUGIN_OPEN("org.example.wan", "1.0.0", "MIT", open_plugin, &empty_node, &to_video_node, &parts_node);
