/* latent_space.c - see latent_space.h. */
#include "latent_space.h"

#include "kiln/bislerp.h"
#include "kiln/kit.h"
#include "kiln/resize.h"
#include "kiln/sampler.h"
#include "noise_source.h"
#include "sizeless.h"

#include <assert.h>
#include <math.h>

size_t latent_shape_count(const kiln_latent_shape *s)
{
    return (size_t)(s->pictures * s->frames * s->height * s->width * s->channels);
}

uint32_t latent_dims(const kiln_latent_shape *s, int64_t channels, int64_t dim[5])
{
    uint32_t n = 0;
    dim[n++] = s->pictures;
    if (s->rank > 4) dim[n++] = s->frames;
    if (s->rank > 3) dim[n++] = s->height;
    dim[n++] = s->width;
    dim[n++] = channels;
    return n;
}

static int same_shape(const kiln_latent *a, const kiln_latent *b)
{
    return memcmp(&a->shape, &b->shape, sizeof a->shape) == 0 && a->more == b->more;
}

size_t latent_more(const latent_space *s, const kiln_latent_shape *shape)
{
    return memcmp(shape, &s->shape, sizeof *shape) == 0 ? s->more : 0;
}

/* For lists of latents that are only read. */
static kiln_latent *unconst(const kiln_latent *x) { return (kiln_latent *)(uintptr_t)x; }

static latent_space *space_of(const kiln_latents *l) { return l->self; }

static void note(latent_space *s, kiln_status status)
{
    if (s->failed == KILN_OK) s->failed = status;
}

/* What callers of the public functions owe: latents of this sampling, shapes that go together. 0: the call is refused,
 * and the next function with a status says so. */
static int legal(latent_space *s, int ok)
{
    if (!ok)
        note(s,
             s->call->host->fail(s->call->ctx, KILN_ERR_BUG,
                                 "latents of another sampling, of shapes that do not go together, or more than %d of "
                                 "them were combined",
                                 KILN_MAX_TERMS));
    return ok;
}

/* ---- memory ---- */

float *latent_floats(const latent_space *s, size_t n)
{
    return s->call->host->scratch(s->call->ctx, n * sizeof(float), s->device);
}

kiln_status latent_init(latent_space *s, kiln_latent *x, const kiln_latent_shape *shape)
{
    *x = (kiln_latent){.space = s, .shape = *shape, .more = latent_more(s, shape)};
    x->data = latent_floats(s, latent_count(x));
    return x->data ? KILN_OK : KILN_ERR_NOMEM;
}

kiln_status latent_upload(latent_space *s, kiln_latent *x, const float *data)
{
    return s->ops->upload(s->call->ctx, x->data, data, latent_count(x));
}

kiln_status latent_download(latent_space *s, const kiln_latent *x, float *data)
{
    return s->ops->download(s->call->ctx, data, x->data, latent_count(x));
}

kiln_status latent_from_host(latent_space *s, kiln_latent *x, const kiln_latent_shape *shape, const float *data)
{
    TRY(latent_init(s, x, shape));
    return latent_upload(s, x, data);
}

static kiln_latent *create(const kiln_latents *l, const kiln_latent_shape *wanted)
{
    latent_space *s = space_of(l);
    kiln_latent_shape shape = s->shape;
    if (wanted && wanted->pictures) shape.pictures = wanted->pictures;
    if (wanted && wanted->frames) shape.frames = wanted->frames;
    if (wanted && wanted->height) shape.height = wanted->height;
    if (wanted && wanted->width) shape.width = wanted->width;
    if (wanted && wanted->channels) shape.channels = wanted->channels;
    kiln_latent *x = s->call->host->scratch(s->call->ctx, sizeof *x, KILN_CPU);
    if (!x || latent_init(s, x, &shape) != KILN_OK) return NULL;
    note(s, latent_combine(s, x, 0, NULL, NULL));
    return x;
}

static kiln_latent_shape shape_of(const kiln_latents *l, const kiln_latent *x)
{
    legal(space_of(l), x->space == space_of(l));
    return x->shape;
}

/* ---- sums ---- */

/* The sum over n elements from `at` on. */
static kiln_status combine_range(const latent_space *s, kiln_latent *out, size_t terms, const double *coefficient,
                                 kiln_latent *const *x, size_t at, size_t n)
{
    const float *from[KILN_MAX_TERMS];
    for (size_t k = 0; k < terms && k < KILN_MAX_TERMS; k++) {
        assert(x[k]->space == s && same_shape(x[k], out));
        from[k] = x[k]->data + at;
    }
    return s->ops->combine(s->call->ctx, out->data + at, n, (uint32_t)terms, coefficient, from);
}

kiln_status latent_combine(latent_space *s, kiln_latent *out, size_t n, const double *coefficient,
                           kiln_latent *const *x)
{
    return combine_range(s, out, n, coefficient, x, 0, latent_count(out));
}

kiln_status latent_copy(latent_space *s, kiln_latent *out, const kiln_latent *x)
{
    const double one = 1;
    assert(same_shape(out, x));
    return s->ops->combine(s->call->ctx, out->data, latent_count(out), 1, &one, (const float *[]){x->data});
}

static int can_combine(latent_space *s, const kiln_latent *out, size_t n, kiln_latent *const *x)
{
    int ok = out->space == s && n <= KILN_MAX_TERMS;
    for (size_t k = 0; ok && k < n; k++) ok = x[k]->space == s && same_shape(x[k], out);
    return legal(s, ok);
}

static void lincomb(const kiln_latents *l, kiln_latent *out, size_t n, const double *coefficient, kiln_latent *const *x)
{
    if (can_combine(space_of(l), out, n, x)) note(space_of(l), latent_combine(space_of(l), out, n, coefficient, x));
}

/* One picture of one stream of a latent. */
typedef struct {
    size_t picture, at, count;
} segment;

static size_t segments_of(const kiln_latent *x) { return 1 + (x->more ? x->space->n_stream : 0); }

/* i: stream by stream, picture by picture. */
static segment segment_at(const kiln_latent *x, size_t i)
{
    size_t pictures = (size_t)x->shape.pictures, stream = i / pictures, at = 0, count = latent_shape_count(&x->shape);
    for (size_t k = 0; k < stream; k++) at += count, count = latent_shape_count(&x->space->stream[k]);
    return (segment){i % pictures, at + i % pictures * (count / pictures), count / pictures};
}

static void lincomb_each(const kiln_latents *l, kiln_latent *out, size_t n, const double *coefficient,
                         kiln_latent *const *x)
{
    if (!can_combine(space_of(l), out, n, x)) return;
    for (size_t i = 0; i < (size_t)out->shape.pictures * segments_of(out); i++) {
        segment part = segment_at(out, i);
        note(space_of(l), combine_range(space_of(l), out, n, coefficient + part.picture * n, x, part.at, part.count));
    }
}

static void add_difference(const kiln_latents *l, kiln_latent *out, const kiln_latent *x, double t,
                           const kiln_latent *a, const kiln_latent *b)
{
    latent_space *s = space_of(l);
    kiln_difference d = {.size = sizeof d, .n = latent_count(out), .x = x->data, .a = a->data, .b = b->data, .t = t};
    if (can_combine(s, out, 3, (kiln_latent *const[]){unconst(x), unconst(a), unconst(b)}))
        note(s, s->ops->add_difference(s->call->ctx, &d, out->data));
}

static double norm(const kiln_latents *l, const kiln_latent *x)
{
    latent_space *s = space_of(l);
    double norm = 0;
    if (legal(s, x->space == s)) note(s, s->ops->norm(s->call->ctx, x->data, latent_count(x), &norm));
    return norm;
}

kiln_status latent_is_finite(latent_space *s, const kiln_latent *x, int *finite)
{
    double norm = 0;
    kiln_status status = s->ops->norm(s->call->ctx, x->data, latent_count(x), &norm);
    *finite = isfinite(norm);
    return status;
}

static void dot(const kiln_latents *l, const kiln_latent_dot *given, double *out)
{
    latent_space *s = space_of(l);
    const float *from[KILN_MAX_TERMS];
    kiln_latent_dot copy, *d = &copy;
    if (!KILN_READ(d, given, x)) {
        note(s, sizeless(s->call, "dot()", "kiln_latent_dot"));
        return;
    }
    if (!legal(s, d->n >= 1) || !can_combine(s, d->x[0], d->n, d->x)) return;
    size_t pictures = (size_t)d->x[0]->shape.pictures;
    for (size_t p = 0; p < pictures; p++) out[p] = 0;
    for (size_t i = 0; i < pictures * segments_of(d->x[0]); i++) {
        segment part = segment_at(d->x[0], i);
        double sum = 0;
        for (size_t k = 0; k < d->n; k++) from[k] = d->x[k]->data + part.at;
        kiln_dot one = {.size = sizeof one, .n = part.count, .terms = (uint32_t)d->n, .a = d->a, .b = d->b, .x = from};
        if (d->shift) one.shift = d->shift[part.picture];
        note(s, s->ops->dot(s->call->ctx, &one, &sum));
        out[part.picture] += sum;
    }
}

/* ---- masks and parts ---- */

/* One channel, cell by cell x's. */
static int goes_with(const latent_space *s, const kiln_latent *mask, const kiln_latent *x)
{
    return mask->space == s && mask->shape.channels == 1 && mask->shape.frames == x->shape.frames &&
           mask->shape.height == x->shape.height && mask->shape.width == x->shape.width;
}

/* The same for every picture. */
static int is_total(const latent_space *s, const kiln_latent *total, const kiln_latent *x)
{
    return goes_with(s, total, x) && total->shape.pictures == x->shape.pictures;
}

/* Pictures and channels of the whole; the vector op checks the place. */
static int is_part(const latent_space *s, const kiln_latent *whole, const kiln_latent *part)
{
    return whole->space == s && part->space == s && !whole->more && !part->more &&
           whole->shape.pictures == part->shape.pictures && whole->shape.frames == part->shape.frames &&
           whole->shape.channels == part->shape.channels;
}

static void blend(const kiln_latents *l, kiln_latent *out, const kiln_latent *a, const kiln_latent *b,
                  const kiln_latent *mask)
{
    latent_space *s = space_of(l);
    kiln_blend m = {.size = sizeof m,
                    .pictures = (size_t)out->shape.pictures,
                    .cells = (size_t)(out->shape.frames * out->shape.height * out->shape.width),
                    .channels = (size_t)out->shape.channels,
                    .masks = (size_t)mask->shape.pictures,
                    .a = a->data,
                    .b = b->data,
                    .mask = mask->data};
    if (!can_combine(s, out, 2, (kiln_latent *const[]){unconst(a), unconst(b)}) || !legal(s, goes_with(s, mask, out)))
        return;
    note(s, s->ops->blend(s->call->ctx, &m, out->data));
    size_t first = latent_shape_count(&out->shape);
    if (out->more && out != a)
        note(s, combine_range(s, out, 1, (double[]){1}, (kiln_latent *const[]){unconst(a)}, first, out->more));
}

static kiln_area area_of(const kiln_latent *whole, const kiln_latent *part, kiln_latent_place at)
{
    return (kiln_area){.size = sizeof(kiln_area),
                       .pictures = whole->shape.pictures * whole->shape.frames,
                       .height = whole->shape.height,
                       .width = whole->shape.width,
                       .channels = whole->shape.channels,
                       .y = at.y,
                       .x = at.x,
                       .h = part->shape.height,
                       .w = part->shape.width};
}

static void crop(const kiln_latents *l, kiln_latent *out, const kiln_latent *x, kiln_latent_place from)
{
    latent_space *s = space_of(l);
    kiln_area a = area_of(x, out, from);
    if (legal(s, is_part(s, x, out))) note(s, s->ops->crop(s->call->ctx, &a, x->data, out->data));
}

static void accumulate(const kiln_latents *l, kiln_latent *sum, kiln_latent *total, const kiln_latent *part,
                       const kiln_latent *weight, kiln_latent_place to)
{
    latent_space *s = space_of(l);
    kiln_area a = area_of(sum, part, to);
    kiln_part p = {.size = sizeof p, .data = part->data};
    if (weight) p.weight = weight->data, p.weights = weight->shape.pictures * weight->shape.frames;
    if (legal(s, is_part(s, sum, part) && is_total(s, total, sum) && (!weight || goes_with(s, weight, part))))
        note(s, s->ops->accumulate(s->call->ctx, &a, &p, sum->data, total->data));
}

static void divide(const kiln_latents *l, kiln_latent *x, const kiln_latent *total)
{
    latent_space *s = space_of(l);
    if (legal(s, x->space == s && !x->more && is_total(s, total, x)))
        note(s, s->ops->divide(s->call->ctx, x->data, total->data, latent_count(total), (size_t)x->shape.channels));
}

/* Working memory that is kept; NULL: there is none, which is noted. */
static float *spare(latent_space *s, int i, size_t n, uint32_t device)
{
    if (n > s->spare[i].capacity) {
        s->spare[i].data = s->call->host->scratch(s->call->ctx, n * sizeof(float), device);
        s->spare[i].capacity = s->spare[i].data ? n : 0;
    }
    if (!s->spare[i].data) note(s, KILN_ERR_NOMEM);
    return s->spare[i].data;
}

enum { SPARE_SUM, SPARE_WHERE, SPARE_PIECE, SPARE_HOST };

/* A latent of zeros in spare memory. */
static kiln_latent spare_zeros(latent_space *s, int i, const kiln_latent_shape *shape)
{
    kiln_latent x = {.space = s, .shape = *shape, .data = spare(s, i, latent_shape_count(shape), s->device)};
    if (x.data) note(s, latent_combine(s, &x, 0, NULL, NULL));
    return x;
}

/* What is pasted, and where, as a sum and its weights; then both are blended. */
static void paste(const kiln_latents *l, kiln_latent *x, const kiln_latent *part, kiln_latent_place to)
{
    latent_space *s = space_of(l);
    if (!legal(s, is_part(s, x, part))) return;
    kiln_latent_shape cells = x->shape;
    cells.channels = 1;
    kiln_latent sum = spare_zeros(s, SPARE_SUM, &x->shape), where = spare_zeros(s, SPARE_WHERE, &cells);
    if (!sum.data || !where.data) return;
    accumulate(l, &sum, &where, part, NULL, to);
    blend(l, x, &sum, x, &where);
}

/* The part of x from there on, of this size, to another place of out. */
static void move_part(latent_space *s, kiln_latent *out, const kiln_latent *x, const kiln_area *part,
                      kiln_latent_place to)
{
    kiln_latent_shape shape = x->shape;
    shape.height = part->h, shape.width = part->w;
    if (part->h == 0 || part->w == 0) return;
    kiln_latent piece = spare_zeros(s, SPARE_PIECE, &shape);
    if (!piece.data) return;
    crop(&s->algebra, &piece, x, (kiln_latent_place){part->y, part->x});
    paste(&s->algebra, out, &piece, to);
}

static void roll(const kiln_latents *l, kiln_latent *out, const kiln_latent *x, kiln_latent_place by)
{
    latent_space *s = space_of(l);
    int64_t h = x->shape.height, w = x->shape.width, dy = ((by.y % h) + h) % h, dx = ((by.x % w) + w) % w;
    if (!legal(s, out != x && x->space == s && out->space == s && same_shape(out, x) && !x->more)) return;
    for (int i = 0; i < 4; i++) { /* four parts: each lower or upper, right or left */
        int low = i & 1, right = i >> 1;
        kiln_area part = {.size = sizeof part,
                          .y = low ? 0 : h - dy,
                          .x = right ? 0 : w - dx,
                          .h = low ? h - dy : dy,
                          .w = right ? w - dx : dx};
        move_part(s, out, x, &part, (kiln_latent_place){low ? dy : 0, right ? dx : 0});
    }
}

/* ---- on the host ---- */

static void resize(const kiln_latents *l, kiln_latent *out, const kiln_latent *x, uint32_t method)
{
    latent_space *s = space_of(l);
    size_t from = latent_count(x), to = latent_count(out);
    int64_t planes = x->shape.pictures * x->shape.frames, w = x->shape.width, c = x->shape.channels;
    if (!legal(s, is_part(s, x, out) && method <= KILN_RESIZE_BISLERP)) return;
    float *data = spare(s, SPARE_HOST, from + to + (size_t)(x->shape.height * out->shape.width * c), KILN_CPU);
    if (!data) return;
    note(s, latent_download(s, x, data));
    for (int64_t p = 0; p < planes && !kit_estimating(s->call); p++) {
        resize_source src = {
            .data = data + (size_t)p * (from / (size_t)planes), .h = x->shape.height, .w = w, .c = c, .row = w * c};
        float *dst = data + from + (size_t)p * (to / (size_t)planes);
        if (method == KILN_RESIZE_BISLERP)
            bislerp_plane(src, data + from + to, dst, out->shape.height, out->shape.width);
        else
            resize_plane(src, dst, out->shape.height, out->shape.width, (int)method);
    }
    note(s, latent_upload(s, out, data + from));
}

static void random_noise(const kiln_latents *l, kiln_latent *out, uint64_t seed)
{
    latent_space *s = space_of(l);
    size_t n = latent_count(out);
    if (!legal(s, out->space == s)) return;
    float *data = spare(s, SPARE_HOST, 2 * n, KILN_CPU);
    if (!data) return;
    noise_stream stream;
    stream_seed(&stream, 0, seed, 0);
    if (!kit_estimating(s->call)) {
        stream_randn(&stream, data, n);
        latent_channels_last(out, data, data + n);
    }
    note(s, latent_upload(s, out, data + n));
}

/* [n,C,cells] -> [n,cells,C]. */
static void planes_last(const kiln_latent_shape *shape, int64_t n, const float *drawn, float *out)
{
    int64_t C = shape->channels, cells = shape->frames * shape->height * shape->width;
    for (int64_t b = 0; b < n; b++)
        for (int64_t k = 0; k < C; k++)
            for (int64_t i = 0; i < cells; i++) out[(b * cells + i) * C + k] = drawn[(b * C + k) * cells + i];
}

void latent_pictures_last(const kiln_latent_shape *shape, int64_t n, const float *drawn, float *out)
{
    planes_last(shape, n, drawn, out);
}

void latent_channels_last(const kiln_latent *like, const float *drawn, float *out)
{
    size_t at = latent_shape_count(&like->shape);
    planes_last(&like->shape, like->shape.pictures, drawn, out);
    for (size_t k = 0; like->more && k < like->space->n_stream; k++) {
        const kiln_latent_shape *stream = &like->space->stream[k];
        planes_last(stream, stream->pictures, drawn + at, out + at);
        at += latent_shape_count(stream);
    }
}

/* ---- to and from the host ---- */

static void upload(const kiln_latents *l, kiln_latent *x, const float *data)
{
    if (legal(space_of(l), x->space == space_of(l))) note(space_of(l), latent_upload(space_of(l), x, data));
}

static size_t count(const kiln_latents *l, const kiln_latent *x) { return (void)l, latent_count(x); }

static void download(const kiln_latents *l, const kiln_latent *x, float *data)
{
    if (legal(space_of(l), x->space == space_of(l))) note(space_of(l), latent_download(space_of(l), x, data));
}

void latent_keep(latent_space *s, kiln_latent *x)
{
    const double one = 1;
    if (!x->kept) x->kept = latent_floats(s, latent_count(x));
    note(s, x->kept ? s->ops->combine(s->call->ctx, x->kept, latent_count(x), 1, &one, (const float *[]){x->data})
                    : KILN_ERR_NOMEM);
}

kiln_status latent_kept(const latent_space *s, const kiln_latent *x, float *out)
{
    assert(x->kept);
    return s->ops->download(s->call->ctx, out, x->kept, latent_count(x));
}

kiln_status latent_space_init(latent_space *s, const kiln_call *call)
{
    const kiln_ops *ops = call->host->ability(KILN_OPS_ABILITY);
    if (!ops || !KILN_HAS(kiln_ops, ops, divide))
        return call->host->fail(call->ctx, KILN_ERR_UNSUPPORTED, "this kiln has no arithmetic on latents");
    *s = (latent_space){.call = call, .ops = ops, .device = ops->device(call->ctx)};
    s->algebra = (kiln_latents){.size = sizeof s->algebra,
                                .self = s,
                                .create = create,
                                .shape = shape_of,
                                .lincomb = lincomb,
                                .lincomb_each = lincomb_each,
                                .add_difference = add_difference,
                                .norm = norm,
                                .dot = dot,
                                .blend = blend,
                                .crop = crop,
                                .accumulate = accumulate,
                                .divide = divide,
                                .upload = upload,
                                .download = download,
                                .paste = paste,
                                .roll = roll,
                                .resize = resize,
                                .random = random_noise,
                                .count = count};
    return KILN_OK;
}
