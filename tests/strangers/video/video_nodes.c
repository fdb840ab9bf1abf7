/* video_nodes.c - the toy's empty latent, frames -> VIDEO, VIDEO -> frames; and the plugin's table. */
#include "video.h"

static const kiln_port latent_out[] = {{.name = "LATENT", .type = "LATENT", .doc = "Zeros."}};
static const kiln_port video_port[] = {{.name = "video", .type = "VIDEO", .doc = "Frames with their rate."}};
static const kiln_port frames_port[] = {{.name = "images", .type = "IMAGE", .doc = "Frames in order."}};

/* ---- ExampleEmptyVideo ---- */

typedef struct {
    int64_t width, height, length, batch_size;
} empty_params;
static const kiln_param empty_param[] = {
    KIT_INT(empty_params, width, 32, 4, 1024, "Pixels; a quarter of it in cells."),
    KIT_INT(empty_params, height, 32, 4, 1024, "Pixels; a quarter of it in cells."),
    KIT_INT(empty_params, length, 9, 1, 1024, "Frames; one cell for the first, one for each four after it."),
    KIT_INT(empty_params, batch_size, 1, 1, 64, "Videos."),
};

static kiln_status empty_run(const kiln_call *c)
{
    const empty_params *p = c->params;
    kiln_value *samples;
    kiln_tensor t;
    TRY(kit_new_f32(
        c, 5, KILN_DIMS(p->batch_size, (p->length - 1) / TIME + 1, p->height / FACTOR, p->width / FACTOR, CHANNELS),
        &samples, &t));
    if (!kit_estimating(c)) memset(t.data, 0, kit_count(&t) * sizeof(float));
    return kit_latent(c, NULL, samples, &c->out[0]);
}
const kiln_node node_empty_video = {
    KIT_NODE("ExampleEmptyVideo", "Empty Video", "latent/video", "A latent of zeros for a video of this size."),
    KILN_ARRAY(out, latent_out),
    KIT_PARAMS(empty_params, empty_param),
    .run = empty_run,
};

/* ---- VIDEO ---- */

typedef struct {
    double frame_rate; /* 0: it is left out, which is no VIDEO */
} rate_params;
static const kiln_param rate_param[] = {KIT_FLOAT(rate_params, frame_rate, 8, 0, 240, 0.1, "Frames a second.")};

static kiln_status make_run(const kiln_call *c)
{
    const kiln_value_api *v = kit_values(c);
    double rate = ((const rate_params *)c->params)->frame_rate;
    c->out[0] = v->new_map(c->ctx);
    if (!c->out[0]) return KILN_ERR_NOMEM;
    if (rate > 0) TRY(kit_set(c, c->out[0], "frame_rate", v->new_float(c->ctx, rate)));
    return v->map_set(c->out[0], "images", c->in[0]);
}
const kiln_node node_make_video = {
    KIT_NODE("ExampleMakeVideo", "Make Video", "video", "Frames and their rate."),
    KILN_ARRAY(in, frames_port),
    KILN_ARRAY(out, video_port),
    KIT_PARAMS(rate_params, rate_param),
    .run = make_run,
};

static kiln_status frames_run(const kiln_call *c)
{
    c->out[0] = c->host->ref(kit_values(c)->map_get(c->in[0], "images"));
    return KILN_OK;
}
const kiln_node node_video_frames = {
    KIT_NODE("ExampleVideoFrames", "Video Frames", "video", "The frames of a video."),
    KILN_ARRAY(in, video_port),
    KILN_ARRAY(out, frames_port),
    .run = frames_run,
};

/* ---- the plugin ---- */

static kiln_status open_plugin(const kiln_host *host)
{
    const kiln_model_api *models = host->ability(KILN_MODEL_ABILITY);
    if (!models) return KILN_ERR_UNSUPPORTED;
    TRY(models->register_family(&video_denoiser_family));
    return models->register_family(&video_autoencoder_family);
}

KILN_PLUGIN_OPEN("org.example.video", "1.0.0", "MIT", open_plugin, &node_empty_video, &node_make_video,
                 &node_video_frames);
