/* wan_vae_family.c - how Wan's autoencoder is found and opened: what its layers are, the names say; how wide, the
 * shapes.
 *
 * It is read under the release's names and under diffusers'. Qwen-Image has the same one.
 */
#include "wan.h"

#include <stdlib.h>

enum { RELEASED, DIFFUSERS };
static const checkpoint_layout layouts[] = {
    {.prefix = "",
     .needs = {"encoder.downsamples.0.residual.0.gamma", "decoder.upsamples.0.residual.0.gamma",
               "decoder.middle.0.residual.0.gamma", "conv1.weight"},
     .kind = RELEASED},
    {.prefix = "",
     .needs = {"encoder.down_blocks.0.norm1.gamma", "decoder.up_blocks.0.resnets.0.norm1.gamma",
               "decoder.mid_block.attentions.0.norm.gamma", "quant_conv.weight"},
     .kind = DIFFUSERS},
};

static const checkpoint_layout *layout_of(const kiln_weights_api *w, const kiln_weights *set)
{
    return checkpoint_find(w, set, layouts, COUNT(layouts));
}

static int detect(const kiln_weights_api *w, const kiln_weights *set) { return layout_of(w, set) ? 95 : 0; }

/* One layer after the other, as the file's names have them; returns how many. */
static int read_layers(const kiln_weights_api *w, const kiln_weights *set, const char *list, wan_vae_layer *to)
{
    kiln_weight_info info;
    char at[48];
    for (int n = 0; n < WAN_LAYERS; n++) {
        NAME(at, "%s.%d.", list, n);
        to[n] = (wan_vae_layer){.resample = checkpoint_has(w, set, at, &info, "resample.1.weight")};
        if (!to[n].resample && !checkpoint_has(w, set, at, &info, "residual.2.weight")) return n;
        to[n].out = info.dim[0];
        to[n].in_time = checkpoint_has(w, set, at, &info, "time_conv.weight");
        to[n].shortcut = checkpoint_has(w, set, at, &info, "shortcut.weight");
    }
    return WAN_LAYERS;
}

/* Twos that the frames and the pixels of a cell are made of. */
static void count(const wan_vae_layer *l, int n, int64_t *time, int64_t *space)
{
    *time = *space = 1;
    for (int i = 0; i < n; i++) *time *= l[i].in_time ? 2 : 1, *space *= l[i].resample ? 2 : 1;
}

static kiln_status read_sizes(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, wan_vae *m)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    kiln_weight_info in, latent;
    int64_t time[2], space[2];
    m->n_down = read_layers(w, set, "encoder.downsamples", m->down);
    m->n_up = read_layers(w, set, "decoder.upsamples", m->up);
    count(m->down, m->n_down, &time[0], &space[0]), count(m->up, m->n_up, &time[1], &space[1]);
    if (checkpoint_has(w, set, "", &in, "encoder.conv1.weight")) m->first_down = in.dim[0];
    if (checkpoint_has(w, set, "", &in, "decoder.conv1.weight")) m->first_up = in.dim[0];
    if (!checkpoint_has(w, set, "", &latent, "conv2.weight") || latent.dim[0] != WAN_CHANNELS || time[0] != WAN_TIME ||
        time[1] != WAN_TIME || space[0] != WAN_FACTOR || space[1] != WAN_FACTOR)
        return host->fail(ctx, KILN_ERR_UNSUPPORTED,
                          "this is an autoencoder like Wan 2.1's, but a cell of its latents has %lld channels, %lld "
                          "frames and %lldx%lld pixels; %d, %d and %dx%d are supported",
                          (long long)(latent.rank ? latent.dim[0] : 0), (long long)time[0], (long long)space[0],
                          (long long)space[0], WAN_CHANNELS, WAN_TIME, WAN_FACTOR, WAN_FACTOR);
    return KILN_OK;
}

static const kiln_tile_advice tile = {
    .size = sizeof tile, .height = 32, .width = 32, .frames = 16, .overlap = 4, .frame_overlap = 2};

/* What the layers are is in the names, not in the shapes. */
static void fill(wan_vae *m)
{
    size_t n = (size_t)snprintf(m->family, sizeof m->family, "example-wan-vae/");
    for (int i = 0; i < m->n_down + m->n_up && n + 1 < sizeof m->family; i++) {
        const wan_vae_layer *l = i < m->n_down ? &m->down[i] : &m->up[i - m->n_down];
        m->family[n++] = l->in_time ? 't' : l->resample ? 's' : l->shortcut ? 'R' : 'r', m->family[n] = 0;
    }
    m->autoencoder = (kiln_autoencoder){.size = sizeof m->autoencoder,
                                        .family = m->family,
                                        .self = m,
                                        .latent = &wan_latent,
                                        .tile = &tile,
                                        .record_encode = wan_record_encode,
                                        .record_decode = wan_record_decode,
                                        .record_encode_part = wan_record_encode_part,
                                        .record_decode_part = wan_record_decode_part,
                                        .part_cells = 2,
                                        .architecture = "Wan 2.1 VAE",
                                        .save = wan_save_vae};
}

static kiln_value *open_vae(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    const kiln_model_api *models = host->ability(KILN_MODEL_ABILITY);
    const checkpoint_layout *at = layout_of(w, set);
    wan_vae *m = at ? calloc(1, sizeof *m) : NULL;
    if (!m) return NULL;
    kiln_weights *view = wan_vae_names(host, ctx, set, at->kind == DIFFUSERS);
    kiln_value *value = NULL;
    if (view && read_sizes(host, ctx, view, m) == KILN_OK) {
        fill(m);
        value = models->vae_new(ctx, &(kiln_vae){.size = sizeof(kiln_vae),
                                                 .autoencoder = &m->autoencoder,
                                                 .weights = view,
                                                 .owned = m,
                                                 .release = free});
    }
    w->unref(view);
    if (!value) free(m);
    return value;
}

const kiln_model_family wan_autoencoder_family = {.size = sizeof wan_autoencoder_family,
                                                  .kind = KILN_FAMILY_AUTOENCODER,
                                                  .name = "example-wan-vae",
                                                  .doc = "Wan 2.1's autoencoder, causal in time",
                                                  .detect = detect,
                                                  .open = open_vae};
