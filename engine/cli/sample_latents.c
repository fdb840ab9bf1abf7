/* sample_latents.c - see sample_latents.h. Every function looks at its operands first; one that is called with others
 * does nothing, as the engine does, and that is noted.
 */
#include "cli/sample_latents.h"

#include "cli/sample_values.h"
#include "kiln/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TERMS = 64, BEHIND = 8, GUARD = -777777 };

/* In (0, 1). */
static double uniform(uint64_t *state) { return sample_share(state) + 0x1p-54; }

double sample_gaussian(uint64_t *state)
{
    double radius = sqrt(-2 * log(uniform(state)));
    return radius * cos(6.283185307179586 * uniform(state));
}

static size_t count_of(kiln_latent_shape s)
{
    return (size_t)(s.pictures * s.frames * s.height * s.width * s.channels);
}

kiln_latent *sample_latent_new(kiln_latent_shape s)
{
    kiln_latent *l = calloc(1, sizeof *l);
    if (l) l->shape = s, l->count = count_of(s), l->v = calloc(l->count + BEHIND, sizeof *l->v);
    if (!l || !l->v) return free(l), NULL;
    for (size_t i = 0; i < BEHIND; i++) l->v[l->count + i] = (double)GUARD;
    return l;
}

int sample_latent_is_whole(const kiln_latent *l)
{
    for (size_t i = 0; i < BEHIND; i++)
        if (l->v[l->count + i] != (double)GUARD) return 0;
    return 1;
}

void sample_latent_free(kiln_latent *l)
{
    if (l) free(l->v);
    free(l);
}

static sample_latents *of(const kiln_latents *l) { return l->self; }

int sample_call_is(sample_latents *l, int fine)
{
    if (l->told != KILN_OK) l->after_stop++;
    if (!fine) l->bad_call = 1;
    if (l->between) l->between(l->self);
    return fine;
}

static int same_cells(const kiln_latent *a, const kiln_latent *b)
{
    return a->shape.frames == b->shape.frames && a->shape.height == b->shape.height && a->shape.width == b->shape.width;
}
int sample_same_shape(const kiln_latent *a, const kiln_latent *b)
{
    return a && b && same_cells(a, b) && a->shape.pictures == b->shape.pictures &&
           a->shape.channels == b->shape.channels;
}
/* One channel, for each picture or for all. */
static int is_mask(const kiln_latent *mask, const kiln_latent *x)
{
    return mask && same_cells(mask, x) && mask->shape.channels == 1 &&
           (mask->shape.pictures == 1 || mask->shape.pictures == x->shape.pictures);
}

static kiln_latent *create(const kiln_latents *l, const kiln_latent_shape *wanted)
{
    sample_latents *r = of(l);
    kiln_latent_shape s = r->shape;
    if (wanted) {
        if (wanted->pictures) s.pictures = wanted->pictures;
        if (wanted->frames) s.frames = wanted->frames;
        if (wanted->height) s.height = wanted->height;
        if (wanted->width) s.width = wanted->width;
        if (wanted->channels) s.channels = wanted->channels;
    }
    if (r->between) r->between(r->self);
    kiln_latent **more = r->memory++ == r->fail_memory ? NULL : realloc(r->made, (r->n_made + 1) * sizeof *r->made);
    if (!more) return NULL;
    r->made = more;
    kiln_latent *made = sample_latent_new(s);
    if (made) r->made[r->n_made++] = made;
    return made;
}

static kiln_latent_shape shape(const kiln_latents *l, const kiln_latent *x) { return x ? x->shape : of(l)->shape; }
static size_t count(const kiln_latents *l, const kiln_latent *x) { return x ? x->count : count_of(of(l)->shape); }

static int can_combine(sample_latents *r, const kiln_latent *out, size_t n, const double *a, kiln_latent *const *x)
{
    int fine = out && n <= TERMS && (!n || (a && x));
    for (size_t k = 0; k < n && fine; k++) fine = sample_same_shape(x[k], out);
    return sample_call_is(r, fine);
}

/* each: coefficients of its own for every picture. */
static void combine(sample_latents *r, kiln_latent *out, size_t n, const double *a, kiln_latent *const *x, int each)
{
    if (!can_combine(r, out, n, a, x)) return;
    const size_t picture = out->count / (size_t)out->shape.pictures;
    for (size_t i = 0; i < out->count; i++) {
        const size_t own = each ? i / picture * n : 0;
        double sum = 0;
        for (size_t k = 0; k < n; k++) sum += a[own + k] * x[k]->v[i];
        out->v[i] = sum;
    }
}

static void latents_lincomb(const kiln_latents *l, kiln_latent *out, size_t n, const double *a, kiln_latent *const *x)
{
    combine(of(l), out, n, a, x, 0);
}
static void lincomb_each(const kiln_latents *l, kiln_latent *out, size_t n, const double *a, kiln_latent *const *x)
{
    combine(of(l), out, n, a, x, 1);
}
static void add_difference(const kiln_latents *l, kiln_latent *out, const kiln_latent *x, double t,
                           const kiln_latent *a, const kiln_latent *b)
{
    if (!sample_call_is(of(l), sample_same_shape(out, x) && sample_same_shape(out, a) && sample_same_shape(out, b)))
        return;
    for (size_t i = 0; i < out->count; i++) out->v[i] = x->v[i] + t * (a->v[i] - b->v[i]);
}
static double square_root_of_mean(const kiln_latent *x)
{
    double sum = 0;
    for (size_t i = 0; i < x->count; i++) sum += x->v[i] * x->v[i];
    return sqrt(sum / (double)x->count);
}
static double latents_norm(const kiln_latents *l, const kiln_latent *x)
{
    return sample_call_is(of(l), x != NULL) ? square_root_of_mean(x) : 0;
}
static void dot(const kiln_latents *l, const kiln_latent_dot *d, double *out)
{
    if (!sample_call_is(of(l), d && d->n >= 1 && d->x) || !can_combine(of(l), d->x[0], d->n, d->a, d->x)) return;
    const size_t pictures = (size_t)d->x[0]->shape.pictures, picture = d->x[0]->count / pictures;
    for (size_t p = 0; p < pictures; p++) {
        const double shift = d->shift ? d->shift[p] : 0;
        double sum = 0;
        for (size_t i = p * picture; i < (p + 1) * picture; i++) {
            double a = shift, b = d->b ? shift : 1;
            for (size_t k = 0; k < d->n; k++) a += d->a[k] * d->x[k]->v[i], b += d->b ? d->b[k] * d->x[k]->v[i] : 0;
            sum += a * b;
        }
        out[p] = sum;
    }
}

static kiln_latent *unconst(const kiln_latent *l) { return (kiln_latent *)(uintptr_t)l; }
static int64_t planes(const kiln_latent *l) { return l->shape.pictures * l->shape.frames; }

/* The cell of x that lies (y, x) from a place, all channels; a plane is a picture's frame. */
static double *cell(kiln_latent *l, int64_t plane, int64_t y, int64_t x)
{
    return l->v + ((plane % planes(l) * l->shape.height + y) * l->shape.width + x) * l->shape.channels;
}

static void blend(const kiln_latents *l, kiln_latent *out, const kiln_latent *a, const kiln_latent *b,
                  const kiln_latent *mask)
{
    if (!sample_call_is(of(l), sample_same_shape(out, a) && sample_same_shape(out, b) && is_mask(mask, out))) return;
    for (size_t i = 0; i < out->count; i++) {
        double m = mask->v[i / (size_t)out->shape.channels % mask->count];
        out->v[i] = a->v[i] * m + b->v[i] * (1 - m);
    }
}

static int is_part(const kiln_latent *whole, const kiln_latent *part)
{
    return whole && part && part->shape.pictures == whole->shape.pictures &&
           part->shape.frames == whole->shape.frames && part->shape.channels == whole->shape.channels;
}
static int lies_in(const kiln_latent *whole, const kiln_latent *part, kiln_latent_place at)
{
    return is_part(whole, part) && at.y >= 0 && at.x >= 0 && at.y + part->shape.height <= whole->shape.height &&
           at.x + part->shape.width <= whole->shape.width;
}
static void move(kiln_latent *whole, kiln_latent *part, kiln_latent_place at, int out)
{
    const size_t row = (size_t)(part->shape.width * part->shape.channels) * sizeof(double);
    for (int64_t p = 0; p < planes(part); p++)
        for (int64_t y = 0; y < part->shape.height; y++) {
            double *big = cell(whole, p, at.y + y, at.x), *small = cell(part, p, y, 0);
            memcpy(out ? small : big, out ? big : small, row);
        }
}
static void crop(const kiln_latents *l, kiln_latent *out, const kiln_latent *x, kiln_latent_place from)
{
    if (sample_call_is(of(l), lies_in(x, out, from))) move(unconst(x), out, from, 1);
}
static void paste(const kiln_latents *l, kiln_latent *x, const kiln_latent *part, kiln_latent_place to)
{
    if (sample_call_is(of(l), lies_in(x, part, to))) move(x, unconst(part), to, 0);
}
/* One channel, as many pictures as x. */
static int is_total(const kiln_latent *total, const kiln_latent *x)
{
    return is_mask(total, x) && total->shape.pictures == x->shape.pictures;
}
static void accumulate(const kiln_latents *l, kiln_latent *sum, kiln_latent *total, const kiln_latent *part,
                       const kiln_latent *weight, kiln_latent_place to)
{
    if (!sample_call_is(of(l), lies_in(sum, part, to) && is_total(total, sum) && (!weight || is_mask(weight, part))))
        return;
    for (int64_t i = 0; i < planes(part) * part->shape.height * part->shape.width; i++) {
        const int64_t row = i / part->shape.width, p = row / part->shape.height, y = row % part->shape.height,
                      x = i % part->shape.width;
        const double *from = cell(unconst(part), p, y, x), w = weight ? cell(unconst(weight), p, y, x)[0] : 1;
        for (int64_t c = 0; c < part->shape.channels; c++) cell(sum, p, to.y + y, to.x + x)[c] += w * from[c];
        cell(total, p, to.y + y, to.x + x)[0] += w;
    }
}
static void divide(const kiln_latents *l, kiln_latent *x, const kiln_latent *total)
{
    if (!sample_call_is(of(l), x && is_total(total, x))) return;
    for (size_t i = 0; i < x->count; i++) {
        double by = total->v[i / (size_t)x->shape.channels];
        if (by != 0) x->v[i] /= by;
    }
}
static void upload(const kiln_latents *l, kiln_latent *x, const float *data)
{
    if (!sample_call_is(of(l), x && data)) return;
    for (size_t i = 0; i < x->count; i++) x->v[i] = (double)data[i];
}
static void download(const kiln_latents *l, const kiln_latent *x, float *data)
{
    if (!sample_call_is(of(l), x && data)) return;
    for (size_t i = 0; i < x->count; i++) data[i] = (float)x->v[i];
}
static void roll(const kiln_latents *l, kiln_latent *out, const kiln_latent *x, kiln_latent_place by)
{
    if (!sample_call_is(of(l), out != x && sample_same_shape(out, x))) return;
    const int64_t h = x->shape.height, w = x->shape.width;
    for (int64_t row = 0; row < planes(x) * h; row++)
        for (int64_t c = 0; c < w; c++)
            memcpy(cell(out, row / h, ((row % h + by.y) % h + h) % h, ((c + by.x) % w + w) % w),
                   cell(unconst(x), row / h, row % h, c), (size_t)x->shape.channels * sizeof(double));
}
/* By the nearest cell, whatever the method: it is not what is looked at here. */
void sample_scale(kiln_latent *out, const kiln_latent *x)
{
    const int64_t h = out->shape.height;
    for (int64_t row = 0; row < planes(x) * h; row++)
        for (int64_t c = 0; c < out->shape.width; c++)
            memcpy(cell(out, row / h, row % h, c),
                   cell(unconst(x), row / h, row % h * x->shape.height / h, c * x->shape.width / out->shape.width),
                   (size_t)x->shape.channels * sizeof(double));
}
static void latents_resize(const kiln_latents *l, kiln_latent *out, const kiln_latent *x, uint32_t method)
{
    if (sample_call_is(of(l), is_part(x, out) && method <= KILN_RESIZE_BISLERP)) sample_scale(out, x);
}
static void random_of(const kiln_latents *l, kiln_latent *out, uint64_t seed)
{
    if (!sample_call_is(of(l), out != NULL)) return;
    for (size_t i = 0; i < out->count; i++) out->v[i] = sample_gaussian(&seed);
}

static const kiln_latents functions = {
    .size = sizeof functions,
    .create = create,
    .shape = shape,
    .lincomb = latents_lincomb,
    .lincomb_each = lincomb_each,
    .add_difference = add_difference,
    .norm = latents_norm,
    .dot = dot,
    .blend = blend,
    .crop = crop,
    .accumulate = accumulate,
    .divide = divide,
    .upload = upload,
    .download = download,
    .paste = paste,
    .roll = roll,
    .resize = latents_resize,
    .random = random_of,
    .count = count,
};

void sample_latents_init(sample_latents *l, kiln_latent_shape s)
{
    *l = (sample_latents){.api = functions, .shape = s, .fail_memory = -1};
    l->api.self = l;
}

void sample_latents_free(sample_latents *l)
{
    for (size_t i = 0; i < l->n_made; i++) sample_latent_free(l->made[i]);
    free(l->made);
    l->made = NULL, l->n_made = 0;
}
