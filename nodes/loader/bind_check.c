/* bind_check.c - records each network of a value once at the smallest size there is and throws the program away: a
 * missing or misshapen tensor is reported now and not after a minute of sampling. Every tensor that a network asks for
 * is marked as used, so that what is left over can be named (unused.c).
 */
#include "bind_check.h"

#include "kiln/kit.h"
#include "kiln/model.h"

#include <stdio.h>
#include <string.h>

typedef struct {
    const kiln_call *call;
    const kiln_model_api *models;
    const kiln_ops *ops;
} recording;

typedef void record_fn(const recording *l, kiln_program *p, const kiln_value *v);

enum { INPUTS_MAX = 64, STREAMS_MAX = 8, ENCODERS_MAX = 8, TINY = 8 };

/* Results that a check does not look at. */
static void ignore(const kiln_outputs *out, const char *name, kiln_t t) { (void)out, (void)name, (void)t; }

/* A small number of cells that is a multiple of the network's patches. */
static int64_t tiny_cells(int32_t patch) { return patch > 1 ? (TINY + patch - 1) / patch * patch : TINY; }

/* The smallest shape of an input of this kind; returns the rank. */
static uint32_t tiny_shape(const kiln_input_spec *s, const kiln_latent_format *f, int64_t dim[5])
{
    int64_t width = s->width ? s->width : 1,
            cells = tiny_cells(f->patch) * (s->kind == KILN_INPUT_IMAGE && f->factor ? f->factor : 1);
    uint32_t rank = f->rank ? (uint32_t)f->rank : 4;
    switch (s->kind) {
    case KILN_INPUT_SCALAR:
    case KILN_INPUT_LENGTHS: return dim[0] = 1, 1;
    case KILN_INPUT_VECTOR:
    case KILN_INPUT_IDS: return dim[0] = 1, dim[1] = width, 2;
    case KILN_INPUT_TOKENS: return dim[0] = dim[1] = 1, dim[2] = width, 3;
    case KILN_INPUT_TABLE: return dim[0] = width, 1;
    default: break;
    }
    for (uint32_t i = 0; i + 1 < rank; i++) dim[i] = i == 0 ? 1 : cells;
    if (rank == 5) dim[1] = f->time_patch > 1 ? f->time_patch : 1;
    dim[rank - 1] = width;
    return rank;
}

/* The rows of a network's table of inputs. */
typedef struct {
    const kiln_input_spec *row;
    uint32_t n, stride;
    const kiln_latent_format *format; /* what their sizes follow from */
} input_rows;

/* One of each input, those that may be left out among them: so every weight is asked for. */
static size_t tiny_inputs(const recording *l, kiln_program *p, const input_rows *rows, kiln_named_tensor *out)
{
    size_t n = 0;
    for (uint32_t i = 0; i < rows->n && n < INPUTS_MAX; i++) {
        int64_t dim[5];
        kiln_input_spec s = kiln_input_spec_at(rows->row, rows->stride, i);
        int integers = s.kind == KILN_INPUT_IDS || s.kind == KILN_INPUT_LENGTHS;
        uint32_t rank = tiny_shape(&s, rows->format, dim);
        out[n++] = (kiln_named_tensor){
            .size = sizeof *out,
            .name = s.name,
            .tensor = l->ops->input(p, s.name, integers ? KILN_I32 : KILN_F32, rank, dim),
        };
    }
    return n;
}

/* The further streams of x, the first being there. */
static uint32_t tiny_streams(const recording *l, kiln_program *p, const kiln_denoiser *d, kiln_t stream[STREAMS_MAX])
{
    uint32_t n = 1;
    for (uint32_t i = 0; i < d->n_stream && n < STREAMS_MAX; i++) {
        const kiln_latent_format *f = (const void *)((const char *)d->stream + i * d->stream_stride);
        kiln_input_spec latent = {.kind = KILN_INPUT_LATENT, .width = f->channels};
        char name[32];
        int64_t dim[5];
        uint32_t rank = tiny_shape(&latent, f, dim);
        snprintf(name, sizeof name, "stream.%u", n);
        stream[n++] = l->ops->input(p, name, KILN_F32, rank, dim);
    }
    return n;
}

static kiln_t tiny_timestep(const recording *l, kiln_program *p, const kiln_denoiser *d, uint32_t rank,
                            const int64_t *x)
{
    int64_t dim[2] = {1, 1};
    for (uint32_t i = 1; d->timestep == KILN_TIMESTEP_TOKEN && i + 1 < rank; i++) dim[1] *= x[i];
    if (d->timestep == KILN_TIMESTEP_FRAME && rank == 5) dim[1] = x[1];
    return l->ops->input(p, "timestep", KILN_F32, d->timestep == KILN_TIMESTEP_PICTURE ? 1 : 2, dim);
}

static const char *dims_text(const int64_t *dim, uint32_t rank, char text[160])
{
    size_t n = (size_t)snprintf(text, 160, "[");
    for (uint32_t i = 0; i < rank && n < 130; i++)
        n += (size_t)snprintf(text + n, 160 - n, "%s%lld", i ? "," : "", (long long)dim[i]);
    snprintf(text + n, 160 - n, "]");
    return text;
}

/* It has x's shape, whose channels are the latent's here. */
static void check_prediction(const recording *l, kiln_program *p, const kiln_denoiser *d, kiln_t x, kiln_t made)
{
    int64_t dim[KILN_MAX_RANK] = {0}, want[KILN_MAX_RANK] = {0};
    char given[160], right[160];
    const uint32_t rank = l->ops->shape(p, x, want, KILN_MAX_RANK);
    const uint32_t has = made.id ? l->ops->shape(p, made, dim, KILN_MAX_RANK) : 0;
    if (has == rank && memcmp(dim, want, rank * sizeof *dim) == 0) return;
    l->ops->fail(p, "record() of '%.*s' gives %s, and a prediction has %s", (int)strcspn(d->family, "/"), d->family,
                 has ? dims_text(dim, has, given) : "nothing", dims_text(want, rank, right));
}

static void record_model(const recording *l, kiln_program *p, const kiln_value *v)
{
    const kiln_model *m = l->models->model(l->call->ctx, v);
    const kiln_denoiser *d = m->denoiser;
    kiln_named_tensor input[INPUTS_MAX];
    kiln_input_spec latent = {.kind = KILN_INPUT_LATENT, .width = d->latent->channels};
    kiln_t stream[STREAMS_MAX];
    const kiln_outputs out = {.size = sizeof out, .add = ignore};
    kiln_denoise_inputs in = {.size = sizeof in, .input = input, .stream = stream, .out = &out};
    int64_t dim[5];
    uint32_t rank = tiny_shape(&latent, d->latent, dim);
    in.x = stream[0] = l->ops->input(p, "x", KILN_F32, rank, dim);
    in.n_stream = tiny_streams(l, p, d, stream);
    in.timestep = tiny_timestep(l, p, d, rank, dim);
    in.n_input = tiny_inputs(l, p, &(input_rows){d->input, d->n_input, d->input_stride, d->latent}, input);
    check_prediction(l, p, d, in.x, d->record(d, l->ops, p, m->weights, &in));
}

static void record_clip(const recording *l, kiln_program *p, const kiln_value *v)
{
    const kiln_clip *c = l->models->clip(l->call->ctx, v);
    const kiln_outputs to = {.size = sizeof to, .add = ignore};
    kiln_combined combined[ENCODERS_MAX];
    char name[32];
    for (uint32_t i = 0; i < c->n_encoder && i < ENCODERS_MAX; i++) {
        const kiln_clip_encoder *e = kiln_clip_encoder_at(c, i);
        kiln_text_inputs in = {.size = sizeof in, .layer = e->layer ? e->layer : e->encoder->default_layer};
        kiln_text_features out = {.size = sizeof out};
        int64_t length = e->encoder->max_length ? e->encoder->max_length : e->encoder->min_length + 1;
        snprintf(name, sizeof name, "ids.%u", i);
        in.ids = l->ops->input(p, name, KILN_I32, 2, KILN_DIMS(1, length));
        snprintf(name, sizeof name, "end.%u", i);
        in.end = l->ops->input(p, name, KILN_I32, 1, KILN_DIMS(1));
        snprintf(name, sizeof name, "count.%u", i);
        if (e->encoder->flags & KILN_TEXT_COUNTED) in.count = l->ops->input(p, name, KILN_I32, 1, KILN_DIMS(1));
        e->encoder->record(e->encoder, l->ops, p, e->weights, &in, &out);
        combined[i] = (kiln_combined){
            .size = sizeof *combined, .name = e->name, .tokens = out.tokens, .pooled = out.pooled, .count = in.count};
    }
    if (c->combine && c->n_encoder <= ENCODERS_MAX) c->combine(c, l->ops, p, combined, c->n_encoder, &to);
}

static void record_decoder(const recording *l, kiln_program *p, const kiln_value *v)
{
    const kiln_vae *a = l->models->vae(l->call->ctx, v);
    kiln_input_spec latent = {.kind = KILN_INPUT_LATENT, .width = a->autoencoder->latent->channels};
    int64_t dim[5];
    uint32_t rank = tiny_shape(&latent, a->autoencoder->latent, dim);
    if (!a->autoencoder->record_decode) return;
    a->autoencoder->record_decode(a->autoencoder, l->ops, p, a->weights,
                                  l->ops->input(p, "latent", KILN_F32, rank, dim));
}

static void record_encoder(const recording *l, kiln_program *p, const kiln_value *v)
{
    const kiln_vae *a = l->models->vae(l->call->ctx, v);
    kiln_latent_distribution out = {.size = sizeof out};
    int64_t channels = a->autoencoder->image_channels ? a->autoencoder->image_channels : 3, dim[5];
    kiln_input_spec image = {.kind = KILN_INPUT_IMAGE, .width = channels};
    uint32_t rank = tiny_shape(&image, a->autoencoder->latent, dim);
    if (!a->autoencoder->record_encode) return;
    a->autoencoder->record_encode(a->autoencoder, l->ops, p, a->weights, l->ops->input(p, "image", KILN_F32, rank, dim),
                                  &out);
}

enum { PICTURE = 64 };

/* Pixels along a side of the pictures that a network of this kind is shown: what its facts say, else 64. */
static int32_t picture_size(const recording *l, const kiln_network *n)
{
    const kiln_value_api *v = kit_values(l->call);
    int64_t size = 0;
    if (n->facts && v->get_int(v->map_get(n->facts, "image_size"), &size) == KILN_OK && size > 0 && size <= 4096)
        return (int32_t)size;
    return PICTURE;
}

static void record_net(const recording *l, kiln_program *p, const kiln_net *net)
{
    const kiln_network *n = net->network;
    const kiln_latent_format pictures = {.size = sizeof pictures, .patch = picture_size(l, n)};
    const kiln_outputs out = {.size = sizeof out, .add = ignore};
    kiln_named_tensor input[INPUTS_MAX];
    size_t n_in = tiny_inputs(l, p, &(input_rows){n->input, n->n_input, n->input_stride, &pictures}, input);
    n->record(n, l->ops, p, net->weights, input, n_in, &out);
}

/* Channels of the latents that a control sees, 0: it does not say. */
static int32_t latent_channels(const recording *l, const kiln_network *n)
{
    const kiln_value_api *v = kit_values(l->call);
    int64_t channels = 0;
    if (KILN_HAS(kiln_network, n, facts) && n->facts &&
        v->get_int(v->map_get(n->facts, "latent_channels"), &channels) == KILN_OK && channels > 0 && channels <= 4096)
        return (int32_t)channels;
    return 0;
}

enum { PIXELS_A_CELL = 8 };

/* A control sees x and the timestep of the denoiser that it is for. */
static void record_control(const recording *l, kiln_program *p, const kiln_value *v)
{
    const kiln_net *net = l->models->net(l->call->ctx, v, "CONTROL_NET");
    const kiln_network *n = net->network;
    const kiln_latent_format latent = {
        .size = sizeof latent, .channels = latent_channels(l, n), .factor = PIXELS_A_CELL};
    const kiln_outputs out = {.size = sizeof out, .add = ignore};
    kiln_named_tensor input[INPUTS_MAX + 2];
    if (!latent.channels) return;
    size_t n_in = tiny_inputs(l, p, &(input_rows){n->input, n->n_input, n->input_stride, &latent}, input);
    input[n_in++] =
        (kiln_named_tensor){.size = sizeof *input,
                            .name = "x",
                            .tensor = l->ops->input(p, "x", KILN_F32, 4, KILN_DIMS(1, TINY, TINY, latent.channels))};
    input[n_in++] = (kiln_named_tensor){
        .size = sizeof *input, .name = "timestep", .tensor = l->ops->input(p, "timestep", KILN_F32, 1, KILN_DIMS(1))};
    n->record(n, l->ops, p, net->weights, input, n_in, &out);
}

static void record_vision(const recording *l, kiln_program *p, const kiln_value *v)
{
    record_net(l, p, l->models->net(l->call->ctx, v, "CLIP_VISION"));
}

static void record_upscaler(const recording *l, kiln_program *p, const kiln_value *v)
{
    record_net(l, p, l->models->net(l->call->ctx, v, "UPSCALE_MODEL"));
}

/* ---- all of them ---- */

enum { PROGRAMS_MAX = 2 };

static const struct {
    const char *kind, *type;
    record_fn *record[PROGRAMS_MAX];
    const char *name[PROGRAMS_MAX];
} rows[] = {
    {KILN_FAMILY_DENOISER, "MODEL", {record_model}, {"unet"}},
    {KILN_FAMILY_TEXT_ENCODER, "CLIP", {record_clip}, {"text encoder"}},
    {KILN_FAMILY_AUTOENCODER, "VAE", {record_decoder, record_encoder}, {"vae decode", "vae encode"}},
    {KILN_FAMILY_CONTROL, "CONTROL_NET", {record_control}, {"control"}},
    {KILN_FAMILY_VISION, "CLIP_VISION", {record_vision}, {"vision encoder"}},
    {KILN_FAMILY_UPSCALER, "UPSCALE_MODEL", {record_upscaler}, {"upscaler"}},
};

static kiln_status try_record(const recording *l, const kiln_value *v, const char *name, record_fn *record)
{
    kiln_program_options options = {.size = sizeof options, .name = name};
    const char *message = NULL;
    kiln_program *p = l->ops->program_new(l->call->ctx, &options);
    if (!p) return KILN_ERR_NOMEM;
    record(l, p, v);
    kiln_status status = l->ops->error(p, &message);
    if (status != KILN_OK)
        l->call->host->fail(l->call->ctx, status, "%s", message ? message : "the network cannot be recorded");
    l->ops->program_free(p);
    return status;
}

kiln_status bind_check(const kiln_call *c, const char *kind, const kiln_value *v)
{
    const recording l = {
        .call = c, .models = c->host->ability(KILN_MODEL_ABILITY), .ops = c->host->ability(KILN_OPS_ABILITY)};
    for (size_t i = 0; i < COUNT(rows); i++) {
        if (strcmp(rows[i].kind, kind) != 0) continue;
        const char *type = kit_values(c)->object_type(v);
        if (!type || strcmp(type, rows[i].type) != 0)
            return c->host->fail(c->ctx, KILN_ERR_INVALID, "a value of kind '%s' is a %s; this is %s%s", kind,
                                 rows[i].type, type ? "a " : "none", type ? type : "");
        for (size_t k = 0; k < PROGRAMS_MAX && rows[i].record[k]; k++)
            TRY(try_record(&l, v, rows[i].name[k], rows[i].record[k]));
    }
    return KILN_OK;
}
