/* preview.c - see preview.h. */
#include "preview.h"

#include "kiln/config.h"
#include "kiln/denoiser.h"
#include "kiln/kit.h"

enum { CHANNELS_MAX = 64 };

static int read_row(const json_t *row, float out[3])
{
    for (size_t k = 0; k < 3; k++) {
        if (json_array_size(row) != 3 || !json_is_number(json_array_get(row, k))) return 0;
        out[k] = (float)json_number_value(json_array_get(row, k));
    }
    return 1;
}

/* The model's own file; one with other things in it is none. */
static int read_own(preview *p, const kiln_weights_api *w, const kiln_weights *set, size_t channels)
{
    size_t n = 0;
    const char *text = set ? w->text(set, "vae/latent_rgb.json", &n) : NULL;
    json_t *root = text ? json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL) : NULL;
    const json_t *rows = json_object_get(root, "factors"), *bias = json_object_get(root, "bias");
    int ok = json_array_size(rows) == channels && (!bias || read_row(bias, p->bias));
    for (size_t i = 0; ok && i < channels; i++) ok = read_row(json_array_get(rows, i), p->factor[i]);
    json_decref(root);
    return ok;
}

void preview_begin(preview *p, const kiln_call *c, const kiln_model *m)
{
    const kiln_host *host = c->host;
    const kiln_latent_format *f = m->denoiser->latent;
    size_t channels = (size_t)f->channels;
    *p = (preview){.every = KILN_HAS(kiln_host, host, preview) ? host->preview_every(c->ctx) : 0};
    if (!p->every || channels > CHANNELS_MAX) return;
    p->has_colours = read_own(p, host->ability(KILN_WEIGHTS_ABILITY), m->weights, channels);
    if (p->has_colours || !KILN_HAS(kiln_latent_format, f, rgb) || !f->rgb) return;
    const float *bias = KILN_HAS(kiln_latent_format, f, rgb_bias) ? f->rgb_bias : NULL;
    for (size_t k = 0; k < 3; k++) p->bias[k] = bias ? bias[k] : 0;
    for (size_t i = 0; i < channels; i++) memcpy(p->factor[i], f->rgb[i], sizeof p->factor[i]);
    p->has_colours = 1;
}

static unsigned char byte_of(float v)
{
    v = (v + 1) * 127.5f;
    return (unsigned char)(v > 0 ? v < 255 ? v + 0.5f : 255 : 0); /* NaN: 0 */
}

static int reserve(preview *p, latent_space *s, size_t numbers, size_t bytes)
{
    const kiln_call *c = s->call;
    if (numbers > p->capacity) {
        p->latent = c->host->scratch(c->ctx, numbers * sizeof *p->latent, KILN_CPU);
        p->capacity = p->latent ? numbers : 0;
    }
    if (bytes > p->rgb_capacity) {
        p->rgb = c->host->scratch(c->ctx, bytes, KILN_CPU);
        p->rgb_capacity = p->rgb ? bytes : 0;
    }
    return p->latent && p->rgb;
}

void preview_step(preview *p, latent_space *s, const kiln_latent *x, size_t i, size_t n)
{
    if (!p->every || !p->has_colours || ((i + 1) % p->every != 0 && i + 1 != n)) return;
    kiln_latent_shape shape = x->shape;
    size_t cells = (size_t)(shape.height * shape.width), channels = (size_t)shape.channels;
    if (!reserve(p, s, latent_count(x), 3 * cells)) return;
    s->algebra.download(&s->algebra, x, p->latent);
    const float *cell = p->latent + (size_t)(shape.frames / 2) * cells * channels;
    uint8_t *to = p->rgb;
    for (size_t k = cells; k > 0; k--, cell += channels, to += 3)
        for (size_t rgb = 0; rgb < 3; rgb++) {
            float v = p->bias[rgb];
            for (size_t c = 0; c < channels; c++) v += cell[c] * p->factor[c][rgb];
            to[rgb] = byte_of(v);
        }
    s->call->host->preview(s->call->ctx, p->rgb, (uint32_t)shape.width, (uint32_t)shape.height);
}
