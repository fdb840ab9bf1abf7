/* guidance_by_frequency.c - see guidance_by_frequency.h.
 *
 * The low frequencies of a plane P are (C_h P C_w' - S_h P S_w') / (h w), C and S the cosines and sines of a turn's
 * part summed over the low frequencies: the real part of the transform there and back. Small matrices, so no fast
 * transform.
 */
#include "guidance_by_frequency.h"

#include "kiln/kit.h"

#include <math.h>
#include <stdlib.h>

/* Sums over the low frequencies of n places, by distance: real [n], imaginary [n]. */
static void sum_waves(int64_t n, int64_t cutoff, double *real, double *imaginary)
{
    const double turn = 2 * acos(-1);
    int64_t low = cutoff < n / 2 ? cutoff : n / 2;
    for (int64_t d = 0; d < n; d++) {
        real[d] = imaginary[d] = 0;
        for (int64_t k = -low; k < low; k++) {
            double at = turn * (double)(k * d % n) / (double)n;
            real[d] += cos(at) / (double)n, imaginary[d] += sin(at) / (double)n;
        }
    }
}

/* out [rows][n] = in [rows][n] with its last dimension folded with the wave */
static void fold(const double *in, const double *wave, int64_t rows, int64_t n, double *out)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < n; i++) {
            double sum = 0;
            for (int64_t k = 0; k < n; k++) sum += wave[(i - k + n) % n] * in[r * n + k];
            out[r * n + i] = sum;
        }
}

static void transpose(const double *in, int64_t rows, int64_t n, double *out)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < n; i++) out[i * rows + r] = in[r * n + i];
}

/* The waves of both sides, and working memory, all of it in `memory`. */
typedef struct {
    int64_t h, w;
    double *memory, *row[2], *column[2], *plane, *part, *turned, *low;
} filter;

static int filter_new(filter *f, int64_t h, int64_t w, int64_t cutoff)
{
    *f = (filter){.h = h, .w = w, .memory = calloc((size_t)(2 * h + 2 * w + 4 * h * w), sizeof(double))};
    if (!f->memory) return 0;
    f->row[0] = f->memory, f->row[1] = f->row[0] + w;
    f->column[0] = f->row[1] + w, f->column[1] = f->column[0] + h;
    f->plane = f->column[1] + h, f->part = f->plane + h * w;
    f->turned = f->part + h * w, f->low = f->turned + h * w;
    sum_waves(w, cutoff, f->row[0], f->row[1]);
    sum_waves(h, cutoff, f->column[0], f->column[1]);
    return 1;
}

/* f->low = the low frequencies of f->plane. */
static void find_low(filter *f)
{
    for (int i = 0; i < 2; i++) {
        fold(f->plane, f->row[i], f->h, f->w, f->part);
        transpose(f->part, f->h, f->w, f->turned);
        fold(f->turned, f->column[i], f->w, f->h, f->part);
        transpose(f->part, f->w, f->h, f->turned);
        for (int64_t k = 0; k < f->h * f->w; k++) f->low[k] = i ? f->low[k] - f->turned[k] : f->turned[k];
    }
}

/* One channel of one picture: p = n + what their difference becomes. */
static void scale_plane(const frequency_settings *s, filter *f, int64_t channels, float *p, const float *n)
{
    for (int64_t k = 0; k < f->h * f->w; k++) f->plane[k] = (double)p[k * channels] - (double)n[k * channels];
    find_low(f);
    for (int64_t k = 0; k < f->h * f->w; k++)
        p[k * channels] =
            (float)((double)n[k * channels] + s->scale_high * f->plane[k] + (s->scale_low - s->scale_high) * f->low[k]);
}

kiln_status guidance_frequencies(const frequency_settings *s, const kiln_guesses *g)
{
    const kiln_latents *l = g->latents;
    kiln_latent_shape d = l->shape(l, g->x);
    size_t plane = (size_t)(d.height * d.width * d.channels), planes = (size_t)(d.pictures * d.frames),
           count = l->count(l, g->x);
    filter f = {0};
    if (count != plane * planes)
        return g->fail(g, KILN_ERR_UNSUPPORTED, "FreSca knows no latents of several streams (video and audio)");
    float *p = calloc(2 * count, sizeof *p);
    kiln_status status = p && filter_new(&f, d.height, d.width, s->freq_cutoff) ? KILN_OK : KILN_ERR_NOMEM;
    if (status == KILN_OK) {
        l->download(l, g->positive, p), l->download(l, g->negative, p + count);
        for (size_t i = 0; i < planes; i++)
            for (int64_t c = 0; c < d.channels; c++)
                scale_plane(s, &f, d.channels, p + i * plane + c, p + count + i * plane + c);
        l->upload(l, g->positive, p);
    }
    free(f.memory);
    free(p);
    return status;
}
