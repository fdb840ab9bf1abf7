/* taesd_family.c - see taesd_family.h.
 *
 * What there is: one file with both halves (taesd_encoder.*, taesd_decoder.*), a folder of diffusers' AutoencoderTiny,
 * and the halves as they are published, in two files: taesd_encoder.safetensors and taesd_decoder.safetensors. One of
 * two opens the other as well, where that lies beside it. In the original's names the decoder's layers count one more,
 * since its tanh is a layer.
 *
 * Latents between nodes are unscaled, TAESD's are scaled as the denoiser's are. By how much is a vae_scale (and
 * vae_shift) in the file; else it follows from the name it was published under, since TAESD and TAESDXL have the same
 * tensors; else from the model beside it. It is not guessed.
 */
#include "taesd_family.h"

#include "kiln/checkpoint.h"
#include "kiln/config.h"
#include "kiln/kit.h"
#include "taesd_model.h"
#include "vae_kind.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENCODER, DECODER, HALVES };
enum { RULES = 48, RULE_NAME = 64, PATH_CAPACITY = 4096 };

/* A half's tensors in a file. */
typedef struct {
    const char *prefix;
    int half, first; /* first: the number of the layer that diffusers calls 0 */
} half_layout;

static const half_layout layouts[] = {
    {"vae/encoder.layers.", ENCODER, 0},
    {"vae/decoder.layers.", DECODER, 0},
    {"encoder.layers.", ENCODER, 0},
    {"decoder.layers.", DECODER, 0},
    {"taesd_encoder.", ENCODER, 0},
    {"taesd_decoder.", DECODER, 1},
    {"first_stage_model.taesd_encoder.", ENCODER, 0},
    {"first_stage_model.taesd_decoder.", DECODER, 1},
    {"", ENCODER, 0},
    {"", DECODER, 1},
};

/* The model whose latents it knows: width of the latent, scale and shift, and the beginning of the published name. */
typedef struct {
    const char *name, *architecture;
    int64_t channels;
    double scale, shift;
} taesd_kind;

static const taesd_kind kinds[] = {/* longer names first */
                                   {"taesdxl", "TAESDXL", 4, 0.13025, 0},
                                   {"taesd3", "TAESD3", 16, 1.5305, 0.0609},
                                   {"taef1", "TAEF1", 16, 0.3611, 0.1159},
                                   {"taesd", "TAESD", 4, 0.18215, 0}};

typedef struct {
    kiln_autoencoder autoencoder;
    taesd_config config[HALVES];
    kiln_weights *half[HALVES]; /* views in diffusers' names; NULL: there is none */
    kiln_weights_api api;
    kiln_latent_scaling scaling;
    kiln_latent_format latent;
    char family[160];
} taesd_self;

/* Nothing in it looks at the whole picture. */
static const kiln_tile_advice tile = {.size = sizeof tile, .height = 64, .width = 64, .overlap = 8};

/* ---- where the halves are ---- */

static int is_conv(const kiln_weight_info *i, int64_t in, int64_t out)
{
    return i->rank == 4 && i->dim[2] == 3 && i->dim[3] == 3 && (!in || i->dim[1] == in) && (!out || i->dim[0] == out);
}

/* The first and the last convolution, and a block: names that begin with a number are no rarity. */
static int has_half(const kiln_weights_api *w, const kiln_weights *set, const half_layout *l)
{
    kiln_weight_info first, block, last;
    int encodes = l->half == ENCODER;
    return checkpoint_has(w, set, l->prefix, &first, "%d.weight", l->first) && is_conv(&first, encodes ? 3 : 0, 0) &&
           checkpoint_has(w, set, l->prefix, &block, "%d.conv.4.weight", l->first + (encodes ? 1 : 2)) &&
           is_conv(&block, first.dim[0], first.dim[0]) &&
           checkpoint_has(w, set, l->prefix, &last, "%d.weight", l->first + (encodes ? 14 : 18)) &&
           is_conv(&last, first.dim[0], encodes ? 0 : 3);
}

static const half_layout *find_half(const kiln_weights_api *w, const kiln_weights *set, int half)
{
    for (size_t i = 0; i < COUNT(layouts); i++)
        if (layouts[i].half == half && has_half(w, set, &layouts[i])) return &layouts[i];
    return NULL;
}

static int detect(const kiln_weights_api *w, const kiln_weights *set)
{
    return find_half(w, set, ENCODER) || find_half(w, set, DECODER) ? 90 : 0;
}

/* ---- names ---- */

/* `set` in diffusers' names: layers of 0 to 18. */
static kiln_weights *view_of(const kiln_weights_api *w, kiln_ctx *ctx, kiln_weights *set, const half_layout *l)
{
    char text[RULES][2][RULE_NAME];
    kiln_weight_rule rule[RULES];
    size_t n = 0;
    for (int i = 0; i <= 18; i++, n++) {
        snprintf(text[n][0], RULE_NAME, "%s%d.*", l->prefix, i + l->first);
        snprintf(text[n][1], RULE_NAME, "%s.layers.%d.*", l->half == ENCODER ? "encoder" : "decoder", i);
        rule[n] = (kiln_weight_rule)KILN_RULE(.from = text[n][0], .to = text[n][1]);
    }
    return w->view(ctx, set, rule, n);
}

/* "DIR/x_decoder.safetensors" -> "DIR/x_encoder.safetensors", and the reverse. 0: the name is not of that kind. */
static int other_file(const char *path, int have, char *out, size_t size)
{
    static const char *const word[HALVES] = {"_encoder", "_decoder"};
    const char *name = strrchr(path, '/'), *at = NULL;
    for (const char *p = strstr(name ? name : path, word[have]); p; p = strstr(p + 1, word[have])) at = p;
    if (!at) return 0;
    int n = snprintf(out, size, "%.*s%s%s", (int)(at - path), path, word[1 - have], at + strlen(word[have]));
    return n > 0 && (size_t)n < size;
}

static int file_is_there(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (f) fclose(f);
    return f != NULL;
}

/* The half that this set lacks, from the file beside it; *out NULL: there is none. */
static kiln_status open_other(const kiln_weights_api *w, kiln_ctx *ctx, const kiln_weights *set, int have,
                              kiln_weights **out)
{
    char path[PATH_CAPACITY];
    kiln_weight_info info = {.size = sizeof info};
    *out = NULL;
    if (w->at(set, 0, &info) != KILN_OK || !other_file(info.file, have, path, sizeof path) || !file_is_there(path))
        return KILN_OK;
    kiln_weights *other = w->open(ctx, path);
    if (!other) return KILN_ERR_INVALID;
    const half_layout *l = find_half(w, other, 1 - have);
    *out = l ? view_of(w, ctx, other, l) : NULL;
    w->unref(other);
    return l && !*out ? KILN_ERR_INVALID : KILN_OK;
}

/* ---- the scale ---- */

/* A number in the file, or in a checkpoint's first stage, of one element whatever its shape. */
static int read_number(const kiln_weights_api *w, kiln_ctx *ctx, const kiln_weights *set, const char *name, double *out)
{
    kiln_weight_info info = {.size = sizeof info};
    float value = 0;
    int64_t n = 1;
    char staged[RULE_NAME];
    snprintf(staged, sizeof staged, "first_stage_model.%s", name);
    if (w->find(set, name, &info) != KILN_OK && w->find(set, name = staged, &info) != KILN_OK) return 0;
    for (uint32_t i = 0; i < info.rank; i++) n *= info.dim[i];
    if (n != 1 || w->read_f32(ctx, set, name, &value) != KILN_OK) return 0;
    *out = (double)value;
    return 1;
}

/* The name it was published under: of the file, of its folder, or of the repository that a snapshot is of. */
static const taesd_kind *kind_of_name(const char *file, int64_t channels)
{
    const char *end = file + strlen(file);
    for (int part = 0; part < 4 && end > file; part++) {
        const char *begin = end;
        while (begin > file && begin[-1] != '/') begin--;
        for (size_t k = 0; k < COUNT(kinds); k++) {
            size_t n = strlen(kinds[k].name);
            for (const char *p = begin; p + n <= end; p++) {
                int starts = p == begin || p[-1] == '-' || p[-1] == '_';
                if (starts && kinds[k].channels == channels && strncasecmp(p, kinds[k].name, n) == 0) return &kinds[k];
            }
        }
        end = begin > file ? begin - 1 : file;
    }
    return NULL;
}

static const taesd_kind *kind_of(const kiln_weights_api *w, const kiln_weights *set, int64_t channels)
{
    kiln_weight_info info = {.size = sizeof info};
    const taesd_kind *kind = w->at(set, 0, &info) == KILN_OK ? kind_of_name(info.file, channels) : NULL;
    if (kind || channels != 4) return kind;
    switch (vae_beside(w, set)) {
    case VAE_BESIDE_SD: return &kinds[3];
    case VAE_BESIDE_SDXL: return &kinds[0];
    default: return NULL;
    }
}

static kiln_status find_scale(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, int64_t channels,
                              taesd_self *self)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    taesd_config *c = &self->config[0];
    const taesd_kind *kind = kind_of(w, set, channels);
    if (read_number(w, ctx, set, "vae_scale", &c->scale)) {
        if (!(c->scale > 0)) return host->fail(ctx, KILN_ERR_INVALID, "its vae_scale is %g", c->scale);
        (void)read_number(w, ctx, set, "vae_shift", &c->shift);
        for (size_t k = 0; k < COUNT(kinds); k++) { /* what f32 has rounded is that number again */
            if (kinds[k].channels != channels || (float)kinds[k].scale != (float)c->scale) continue;
            self->autoencoder.architecture = kinds[k].architecture, c->scale = kinds[k].scale;
            if ((float)kinds[k].shift == (float)c->shift) c->shift = kinds[k].shift;
        }
        return KILN_OK;
    }
    if (!kind)
        return host->fail(ctx, KILN_ERR_UNSUPPORTED,
                          "nothing says whose latents of %lld channels this small autoencoder knows: TAESD's and "
                          "TAESDXL's files have the same tensors, TAESD3's and TAEF1's too. Give the file or its "
                          "folder the name it was published under (taesd, taesdxl, taesd3 or taef1), or write a "
                          "tensor vae_scale into it",
                          (long long)channels);
    c->scale = kind->scale, c->shift = kind->shift;
    self->autoencoder.architecture = kind->architecture;
    return KILN_OK;
}

/* ---- config ---- */

static const config_rule expected[] = {{"act_fn", "\"relu\""},
                                       {"upsample_fn", "\"nearest\""},
                                       {"num_encoder_blocks", "[1,3,3,3]"},
                                       {"num_decoder_blocks", "[3,3,3,1]"},
                                       {"upsampling_scaling_factor", "2"},
                                       {"latent_magnitude", "3"},
                                       {"scaling_factor", "1.0"},
                                       {"shift_factor", "0.0"},
                                       {"in_channels", "3"},
                                       {"out_channels", "3"}};

static kiln_status check_config(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, const half_layout *l)
{
    int inside = strncmp(l->prefix, "vae/", 4) == 0;
    config c = config_open(host, ctx, set, inside ? "vae/config.json" : "config.json");
    config_expect(&c, expected, COUNT(expected));
    config_close(&c);
    return c.failed ? KILN_ERR_INVALID : KILN_OK;
}

static void read_sizes(const kiln_weights_api *w, taesd_self *self, int half)
{
    kiln_weight_info info;
    taesd_config *c = &self->config[half];
    if (!self->half[half]) return;
    if (checkpoint_has(w, self->half[half], "", &info, "%s.layers.0.weight", half == ENCODER ? "encoder" : "decoder"))
        c->width = info.dim[0], c->latent_channels = half == DECODER ? info.dim[1] : 0;
    if (half == ENCODER && checkpoint_has(w, self->half[half], "", &info, "encoder.layers.14.weight"))
        c->latent_channels = info.dim[0];
}

/* ---- the table's functions ---- */

static void record_encode(const kiln_autoencoder *a, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                          kiln_t image, kiln_latent_distribution *out)
{
    const taesd_self *self = a->self;
    (void)w; /* the halves may be two files */
    taesd_recorder r = {&self->config[ENCODER], ops, p, self->half[ENCODER]};
    out->mean = taesd_record_encode(&r, image);
}

static kiln_t record_decode(const kiln_autoencoder *a, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                            kiln_t latent)
{
    const taesd_self *self = a->self;
    (void)w;
    taesd_recorder r = {&self->config[DECODER], ops, p, self->half[DECODER]};
    return taesd_record_decode(&r, latent);
}

/* ---- saving ---- */

/* In the names of one file with both halves, its decoder's layers counted from 1. */
static kiln_status put_layer(const kiln_saving *s, kiln_weights *from, int half, const kiln_weight_info *info)
{
    const char *begin = s->alone ? "" : "first_stage_model.", *word = half == ENCODER ? "encoder" : "decoder";
    char name[2 * RULE_NAME], rest[RULE_NAME];
    int layer = 0, at = 0;
    if (sscanf(info->name + strlen(word), ".layers.%d%n", &layer, &at) != 1 || !at ||
        snprintf(rest, sizeof rest, "%s", info->name + strlen(word) + (size_t)at) >= (int)sizeof rest)
        return s->host->fail(s->ctx, KILN_ERR_BUG, "'%.100s' is no layer", info->name);
    snprintf(name, sizeof name, "%staesd_%s.%d%s", begin, word, layer + (half == DECODER), rest);
    return s->tensor(
        s, &(kiln_weight_row){
               .size = sizeof(kiln_weight_row), .name = name, .from = from, .tensor = &info->name, .n_tensor = 1});
}

static kiln_status put_number(const kiln_saving *s, const char *name, double value)
{
    char full[RULE_NAME];
    const float number = (float)value;
    snprintf(full, sizeof full, "%s%s", s->alone ? "" : "first_stage_model.", name);
    return s->tensor(
        s, &(kiln_weight_row){.size = sizeof(kiln_weight_row), .dtype = KILN_F32, .name = full, .data = &number});
}

/* Both halves where there are both, from one file or two. */
static kiln_status save(const kiln_autoencoder *a, kiln_weights *weights, const kiln_saving *s)
{
    const taesd_self *self = a->self;
    (void)weights;
    for (int half = 0; half < HALVES; half++)
        for (size_t i = 0; self->half[half] && i < self->api.count(self->half[half]); i++) {
            kiln_weight_info info = {.size = sizeof info};
            if (self->api.at(self->half[half], i, &info) == KILN_OK) TRY(put_layer(s, self->half[half], half, &info));
        }
    TRY(put_number(s, "vae_scale", self->config[0].scale));
    return put_number(s, "vae_shift", self->config[0].shift);
}

/* ---- opening ---- */

static void release(void *owned)
{
    taesd_self *self = owned;
    for (int i = 0; self && i < HALVES; i++)
        if (self->half[i]) self->api.unref(self->half[i]);
    free(self);
}

static kiln_status find_halves(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set, taesd_self *self)
{
    const kiln_weights_api *w = &self->api;
    for (int i = 0; i < HALVES; i++) {
        const half_layout *l = find_half(w, set, i);
        if (!l) continue;
        TRY(check_config(host, ctx, set, l));
        if (!(self->half[i] = view_of(w, ctx, set, l))) return KILN_ERR_INVALID;
    }
    for (int i = 0; i < HALVES; i++)
        if (!self->half[i]) TRY(open_other(w, ctx, set, 1 - i, &self->half[i]));
    for (int i = 0; i < HALVES; i++) read_sizes(w, self, i);
    if (self->half[ENCODER] && self->half[DECODER] &&
        self->config[ENCODER].latent_channels != self->config[DECODER].latent_channels)
        return host->fail(ctx, KILN_ERR_INVALID, "its encoder makes latents of %lld channels, its decoder takes %lld",
                          (long long)self->config[ENCODER].latent_channels,
                          (long long)self->config[DECODER].latent_channels);
    return KILN_OK;
}

static kiln_status fill(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set, taesd_self *self)
{
    kiln_autoencoder *a = &self->autoencoder;
    TRY(find_halves(host, ctx, set, self));
    int64_t channels = self->config[self->half[DECODER] ? DECODER : ENCODER].latent_channels;
    TRY(find_scale(host, ctx, set, channels, self));
    self->config[1].scale = self->config[0].scale, self->config[1].shift = self->config[0].shift;
    taesd_config *c = &self->config[0];
    self->scaling = (kiln_latent_scaling){sizeof self->scaling, 1, &c->scale, &c->shift};
    self->latent = (kiln_latent_format){
        .size = sizeof self->latent, .channels = (int32_t)channels, .factor = 8, .scaling = &self->scaling};
    const char *encoder = self->half[ENCODER] ? self->api.identity(ctx, self->half[ENCODER]) : "";
    if (!encoder) return KILN_ERR_IO;
    snprintf(self->family, sizeof self->family, "taesd/%.9g/%.9g/%s", c->scale, c->shift, encoder);
    a->size = sizeof *a, a->family = self->family, a->self = self, a->latent = &self->latent, a->tile = &tile;
    a->record_encode = self->half[ENCODER] ? record_encode : NULL;
    a->record_decode = self->half[DECODER] ? record_decode : NULL;
    a->save = save;
    if (!a->architecture) a->architecture = "TAESD's kind";
    return KILN_OK;
}

static kiln_value *open_taesd(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    const kiln_model_api *models = host->ability(KILN_MODEL_ABILITY);
    taesd_self *self = calloc(1, sizeof *self);
    if (!self) return host->fail(ctx, KILN_ERR_NOMEM, "no memory for an autoencoder"), NULL;
    self->api = *w;
    kiln_value *value = NULL;
    if (fill(host, ctx, set, self) == KILN_OK)
        value = models->vae_new(ctx, &(kiln_vae){.size = sizeof(kiln_vae),
                                                 .autoencoder = &self->autoencoder,
                                                 .weights = self->half[self->half[DECODER] ? DECODER : ENCODER],
                                                 .owned = self,
                                                 .release = release});
    if (!value) release(self);
    return value;
}

const kiln_model_family taesd_family = {.size = sizeof taesd_family,
                                        .kind = KILN_FAMILY_AUTOENCODER,
                                        .name = "taesd",
                                        .doc = "TAESD, a small autoencoder (AutoencoderTiny)",
                                        .detect = detect,
                                        .open = open_taesd};
