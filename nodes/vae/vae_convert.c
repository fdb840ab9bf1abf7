/* vae_convert.c - see vae_convert.h.
 *
 * A program is recorded for a shape and kept by the engine, so that tiles and pictures of one size share it.
 */
#include "vae_convert.h"

#include "kiln/kit.h"
#include "kiln/precision.h"

#include <stdio.h>

enum { INPUTS_MAX = 16 };

/* ---- shapes ---- */

size_t vae_count(const vae_shape *s) { return (size_t)(s->n * s->frames * s->rows * s->columns * s->channels); }

int64_t vae_time_cells(const vae_converter *v, int64_t frames)
{
    if (v->rank < 5) return frames;
    if (v->part == KILN_PART_LATER) return frames / v->time_factor;
    return frames < v->time_first ? 0 : (frames - v->time_first) / v->time_factor + (v->time_first != 0);
}

int64_t vae_time_frames(const vae_converter *v, int64_t cells)
{
    if (v->rank < 5) return cells;
    if (v->part == KILN_PART_LATER) return cells * v->time_factor;
    return (cells - (v->time_first != 0)) * v->time_factor + v->time_first;
}

vae_shape vae_pixels(const vae_converter *v, const vae_shape *cells)
{
    int64_t rows = v->rank > 3 ? cells->rows * v->factor : 1;
    return (vae_shape){cells->n, vae_time_frames(v, cells->frames), rows, cells->columns * v->factor,
                       v->image_channels};
}

vae_shape vae_cells(const vae_converter *v, const vae_shape *pixels)
{
    int64_t rows = v->rank > 3 ? pixels->rows / v->factor : 1;
    return (vae_shape){pixels->n, vae_time_cells(v, pixels->frames), rows, pixels->columns / v->factor,
                       v->latent_channels};
}

vae_shape vae_shape_of(const vae_converter *v, const int64_t *dim)
{
    vae_shape s = {dim[0], 1, 1, dim[v->rank - 2], dim[v->rank - 1]};
    if (v->rank > 3) s.rows = dim[v->rank - 3];
    if (v->rank > 4) s.frames = dim[1];
    return s;
}

void vae_dims(const vae_converter *v, const vae_shape *s, int64_t dim[5])
{
    uint32_t n = 0;
    dim[n++] = s->n;
    if (v->rank > 4) dim[n++] = s->frames;
    if (v->rank > 3) dim[n++] = s->rows;
    dim[n++] = s->columns;
    dim[n] = s->channels;
}

int64_t vae_at_once(const vae_converter *v)
{
    const kiln_autoencoder *a = v->vae->autoencoder;
    return KILN_HAS(kiln_autoencoder, a, pictures) && a->pictures > 1 ? a->pictures : 1;
}

/* ---- opening ---- */

static kiln_status read_format(vae_converter *v)
{
    const kiln_autoencoder *a = v->vae->autoencoder;
    const kiln_latent_format *f = a->latent;
    v->rank = f->rank ? (uint32_t)f->rank : 4;
    v->factor = f->factor ? f->factor : 1;
    v->time_factor = f->time_factor ? f->time_factor : 1, v->time_first = f->time_first;
    v->latent_channels = f->channels, v->image_channels = a->image_channels ? a->image_channels : 3;
    if (v->rank < 3 || v->rank > 5 || v->factor < 1 || v->time_factor < 1 || v->time_first < 0 || f->channels < 1)
        return v->call->host->fail(v->call->ctx, KILN_ERR_BUG,
                                   "the VAE's family '%s' says its latents have %u dimensions, %lld pixels and %lld "
                                   "frames a cell, which cannot be",
                                   a->family, v->rank, (long long)v->factor, (long long)v->time_factor);
    return KILN_OK;
}

kiln_status vae_open(const kiln_call *c, const kiln_value *vae, int encode, vae_converter *out)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    *out = (vae_converter){.call = c, .ops = c->host->ability(KILN_OPS_ABILITY), .encode = encode};
    if (!(out->vae = models->vae(c->ctx, vae))) return KILN_ERR_INVALID;
    const kiln_autoencoder *a = out->vae->autoencoder;
    if (encode ? !a->record_encode : !a->record_decode)
        return c->host->fail(c->ctx, KILN_ERR_UNSUPPORTED, "this VAE only %s; take one that %s too",
                             encode ? "decodes" : "encodes", encode ? "encodes" : "decodes");
    return read_format(out);
}

void vae_close(vae_converter *v)
{
    if (v->program) v->ops->program_free(v->program);
    if (v->traced) v->ops->program_free(v->traced);
    v->program = v->traced = NULL;
}

/* ---- the decoder's further inputs ---- */

/* The shape of an input that nobody gives; 0: it has none. */
static uint32_t input_dims(const vae_converter *v, const kiln_input_spec *s, int64_t dim[5])
{
    vae_shape like = v->of;
    like.channels = s->kind == KILN_INPUT_MASK ? 1 : s->width;
    dim[0] = v->of.n, dim[1] = dim[2] = s->width;
    if (s->kind == KILN_INPUT_SCALAR) return 1;
    if (s->width < 1 && s->kind != KILN_INPUT_MASK) return 0;
    if (s->kind == KILN_INPUT_VECTOR) return 2;
    if (s->kind == KILN_INPUT_TOKENS) return dim[1] = 1, 3;
    if (s->kind != KILN_INPUT_LATENT && s->kind != KILN_INPUT_MASK) return 0;
    vae_dims(v, &like, dim);
    return v->rank;
}

/* The row's fallback everywhere. */
static kiln_status fill_input(vae_converter *v, const kiln_input_spec *s)
{
    const kiln_call *c = v->call;
    int64_t *dim = c->host->scratch(c->ctx, 5 * sizeof *dim, KILN_CPU);
    if (!dim) return KILN_ERR_NOMEM;
    uint32_t rank = v->n_bind < INPUTS_MAX - 1 ? input_dims(v, s, dim) : 0;
    if (!rank)
        return c->host->fail(c->ctx, KILN_ERR_BUG,
                             "input '%s' of the VAE's decoder has no shape that its fallback could fill, or is one of "
                             "more than %d",
                             s->name, INPUTS_MAX - 1);
    kiln_tensor t = kit_window(KILN_F32, KILN_CPU, NULL, rank, dim);
    float *data = c->host->scratch(c->ctx, kit_count(&t) * sizeof *data, KILN_CPU);
    if (!data) return KILN_ERR_NOMEM;
    for (size_t k = 0; k < kit_count(&t); k++) data[k] = (float)s->fallback;
    t.data = data;
    v->bind[v->n_bind++] = (kiln_bind)KILN_BIND(s->name, t);
    return KILN_OK;
}

/* Those of the program, made when it is opened. */
static kiln_status fill_inputs(vae_converter *v)
{
    const kiln_autoencoder *a = v->vae->autoencoder;
    v->n_bind = 0;
    v->bind = v->call->host->scratch(v->call->ctx, INPUTS_MAX * sizeof *v->bind, KILN_CPU);
    if (!v->bind) return KILN_ERR_NOMEM;
    for (uint32_t i = 0; !v->encode && i < a->n_input; i++) {
        kiln_input_spec s = kiln_input_spec_at(a->input, a->input_stride, i);
        if (!(s.flags & KILN_INPUT_OMITTED)) TRY(fill_input(v, &s));
    }
    return KILN_OK;
}

/* ---- the program ---- */

kiln_program_options vae_program_options(const vae_converter *v)
{
    const kiln_autoencoder *a = v->vae->autoencoder;
    return (kiln_program_options){.size = sizeof(kiln_program_options),
                                  .name = v->encode ? "vae encode" : "vae decode",
                                  .precision = v->precision,
                                  .precisions = KILN_HAS(kiln_autoencoder, a, precisions) ? a->precisions : 0};
}

kiln_latent_distribution vae_record(const vae_converter *v, const kiln_ops *ops, kiln_program *p, kiln_t x)
{
    const kiln_autoencoder *a = v->vae->autoencoder;
    kiln_latent_distribution d = {.size = sizeof d};
    if (v->part && v->encode)
        a->record_encode_part(a, ops, p, v->vae->weights, x, v->part, &d);
    else if (v->part)
        d.mean = a->record_decode_part(a, ops, p, v->vae->weights, x, v->part);
    else if (v->encode)
        a->record_encode(a, ops, p, v->vae->weights, x, &d);
    else
        d.mean = a->record_decode(a, ops, p, v->vae->weights, x);
    return d;
}

static kiln_status record(const vae_converter *v)
{
    int64_t dim[5];
    vae_dims(v, &v->of, dim);
    kiln_t x = v->ops->input(v->program, "x", KILN_F32, v->rank, dim);
    kiln_latent_distribution d = vae_record(v, v->ops, v->program, x);
    if (v->variance && !d.log_variance.id)
        return v->call->host->fail(v->call->ctx, KILN_ERR_UNSUPPORTED,
                                   "this VAE has no variance to draw from: its latent is what it says; take VAEEncode");
    v->ops->output(v->program, "y", d.mean);
    if (v->variance) v->ops->output(v->program, "variance", d.log_variance);
    return v->ops->plan(v->call->ctx, v->program, NULL);
}

static kiln_status open_program(vae_converter *v, const vae_shape *in)
{
    const kiln_weights_api *w = v->call->host->ability(KILN_WEIGHTS_ABILITY);
    const kiln_program_options options = vae_program_options(v);
    const char *identity;
    char key[700];
    int fresh = 0;
    if (v->program && v->of_part == v->part && memcmp(in, &v->of, sizeof *in) == 0) return KILN_OK;
    if (v->program) v->ops->program_free(v->program);
    v->program = NULL;
    v->of = *in, v->of_part = v->part;
    if (!(identity = w->identity(v->call->ctx, v->vae->weights))) return KILN_ERR_IO;
    snprintf(key, sizeof key, "%s%s%s:%s:%s:%lldx%lldx%lldx%lld", options.name, v->variance ? " variance" : "",
             v->part == KILN_PART_FIRST ? " first"
             : v->part                  ? " later"
                                        : "",
             v->vae->autoencoder->family, identity, (long long)in->n, (long long)in->frames, (long long)in->rows,
             (long long)in->columns);
    v->program = v->ops->program_keep(v->call->ctx, key, &options, &fresh);
    if (!v->program) return KILN_ERR_NOMEM;
    if (fresh) TRY(record(v));
    return fill_inputs(v);
}

kiln_status vae_fits(vae_converter *v, const vae_shape *in, int *fits)
{
    TRY(open_program(v, in));
    *fits = !KILN_HAS(kiln_ops, v->ops, fits) || v->ops->fits(v->call->ctx, v->program);
    return KILN_OK;
}

/* ---- what is not finite ---- */

int vae_goes_wider(vae_converter *v)
{
    if (v->precision || !v->program ||
        !kiln_goes_wider(v->call, v->encode ? "VAE's encoder" : "VAE's decoder", &v->precision,
                         kiln_precision_of(v->ops, v->program)))
        return 0;
    vae_close(v);
    memset(&v->tile, 0, sizeof v->tile);
    return 1;
}

kiln_status vae_not_finite(const vae_converter *v, const char *what)
{
    const kiln_host *host = v->call->host;
    return host->fail(v->call->ctx, KILN_ERR_INVALID,
                      "%s has values that are not finite, in f32 too; %s is broken, or the VAE's weights are: kiln "
                      "inspect --finite %.300s",
                      what, v->encode ? "the picture" : "the latent",
                      kiln_file_of(host->ability(KILN_WEIGHTS_ABILITY), v->vae->weights));
}

/* ---- a run ---- */

kiln_status vae_run(vae_converter *v, const vae_shape *in, float *x, float *y, float *variance)
{
    const kiln_call *c = v->call;
    vae_shape made = v->encode ? vae_cells(v, in) : vae_pixels(v, in);
    int64_t dim[5], out_dim[5];
    TRY(c->host->progress(c->ctx, v->done++, v->total, v->encode ? "encoding" : "decoding"));
    TRY(open_program(v, in));
    vae_dims(v, in, dim);
    vae_dims(v, &made, out_dim);
    v->bind[v->n_bind] = (kiln_bind)KILN_BIND("x", kit_window(KILN_F32, KILN_CPU, x, v->rank, dim));
    kiln_bind out[] = {KILN_BIND("y", kit_window(KILN_F32, KILN_CPU, y, v->rank, out_dim)),
                       KILN_BIND("variance", kit_window(KILN_F32, KILN_CPU, variance, v->rank, out_dim))};
    return v->ops->run_with(c->ctx, v->program,
                            &(kiln_run){.size = sizeof(kiln_run),
                                        .states = v->part ? v->states : NULL,
                                        .in = v->bind,
                                        .out = out,
                                        .n_in = v->n_bind + 1,
                                        .n_out = v->variance ? 2 : 1});
}
