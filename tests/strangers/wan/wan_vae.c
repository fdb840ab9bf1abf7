/* wan_vae.c - Wan 2.1's autoencoder under its release's names. Convolutions look at the frames before, never at those
 * after; so a video goes through at once, or in parts of which each needs the last two frames that every convolution
 * saw before it. Results are the same numbers.
 *
 * The first frame is a cell of its own: it is neither doubled nor joined in time. What doubles frames begins behind it
 * as if nothing had been there, what joins them looks back at it.
 *
 * In parts, what each convolution saw last is a state, which the programs of all parts share.
 */
#include "wan.h"

#include <math.h>

enum { BACK = 2 };

enum { WHOLE = 0, FIRST = KILN_PART_FIRST, LATER = KILN_PART_LATER }; /* what is recorded */

typedef struct {
    const kiln_ops *o;
    kiln_program *p;
    kiln_weights *w;
    const wan_vae *m;
    uint32_t part;
    int step;         /* convolutions that look back, in the order of recording: their states' names */
    const char *side; /* "encoder" */
} walk;

static kiln_t weight(const walk *s, const char *name, const char *end, uint32_t rank, const int64_t *dim)
{
    char full[120];
    return s->o->weight(s->p, s->w, NAME(full, "%s.%s", name, end), rank, dim);
}

static int64_t size_of(const walk *s, kiln_t x, uint32_t axis)
{
    int64_t dim[KILN_MAX_RANK] = {0};
    s->o->shape(s->p, x, dim, KILN_MAX_RANK);
    return dim[axis];
}

static kiln_t slice_frames(const walk *s, kiln_t x, int64_t from, int64_t n)
{
    return s->o->slice(s->p, x, 1, from, n);
}
static kiln_t one_after(const walk *s, kiln_t a, kiln_t b) { return s->o->concat(s->p, (kiln_t[]){a, b}, 2, 1); }

/* [N,T,H,W,C] -> [N T,H,W,C], and back */
static kiln_t as_pictures(const walk *s, kiln_t x)
{
    int64_t d[5] = {0};
    s->o->shape(s->p, x, d, 5);
    return s->o->reshape(s->p, x, DIMS(d[0] * d[1], d[2], d[3], d[4]));
}
static kiln_t as_video(const walk *s, kiln_t x, int64_t videos)
{
    int64_t d[4] = {0};
    s->o->shape(s->p, x, d, 4);
    return s->o->reshape(s->p, x, DIMS(videos, videos ? d[0] / videos : 0, d[1], d[2], d[3]));
}

/* ---- what was seen before ---- */

/* x with the last `back` frames that this step saw in front of it, zeros before there were any; x's last ones are kept.
 * At once there is nothing to look back at: *missing frames of zeros are the convolution's to add. */
static kiln_t after_the_last(walk *s, kiln_t x, int64_t back, int64_t *missing)
{
    char name[48];
    int64_t d[5] = {0};
    *missing = s->part == WHOLE ? back : 0;
    NAME(name, "%s.%d", s->side, s->step++);
    if (s->part == WHOLE) return x;
    s->o->shape(s->p, x, d, 5);
    kiln_t state = s->o->state(s->p, name, s->o->dtype(s->p, x), DIMS(d[0], back, d[2], d[3], d[4]));
    kiln_t both = one_after(s, state, x), zero = s->o->constant_i32(s->p, (const int32_t[]){0}, DIMS(1));
    s->o->state_write(s->p, state, 1, zero, slice_frames(s, both, d[1], back));
    return both;
}

/* ---- layers ---- */

/* 1x1x1, or 3x3x3 and causal. */
static kiln_t convolve(walk *s, kiln_t x, const char *name, int64_t out, int32_t k)
{
    kiln_conv how = {.size = sizeof how, .rank = 3, .before = {0, k / 2, k / 2}, .after = {0, k / 2, k / 2}};
    const int64_t in = size_of(s, x, 4);
    int64_t missing = 0;
    if (k > 1) x = after_the_last(s, x, k - 1, &missing);
    how.before[0] = (int32_t)missing;
    return s->o->conv(s->p, x, weight(s, name, "weight", DIMS(out, in, k, k, k)), weight(s, name, "bias", DIMS(out)),
                      &how);
}

/* x / |x| sqrt(C) gain, then silu or nothing. */
static kiln_t norm(const walk *s, kiln_t x, const char *name, const char *expression)
{
    int64_t d[KILN_MAX_RANK] = {0};
    uint32_t rank = s->o->shape(s->p, x, d, KILN_MAX_RANK);
    const int64_t width = rank ? d[rank - 1] : 0;
    const kiln_norm how = {
        .size = sizeof how, .kind = KILN_NORM_L2, .eps = 1e-12f, .gain = weight(s, name, "gamma", DIMS(width))};
    const kiln_map root = {.size = sizeof root, .number = {(float)sqrt((double)width)}};
    x = s->o->normalize(s->p, x, &how);
    return s->o->map(s->p, expression, &x, 1, &root);
}
static kiln_t norm_silu(const walk *s, kiln_t x, const char *name) { return norm(s, x, name, "silu(a * p)"); }

static kiln_t residual(walk *s, kiln_t x, const char *at, const wan_vae_layer *l)
{
    char name[96];
    kiln_t h = l->shortcut ? convolve(s, x, NAME(name, "%s.shortcut", at), l->out, 1) : x;
    x = norm_silu(s, x, NAME(name, "%s.residual.0", at));
    x = convolve(s, x, NAME(name, "%s.residual.2", at), l->out, 3);
    x = norm_silu(s, x, NAME(name, "%s.residual.3", at));
    return s->o->add(s->p, convolve(s, x, NAME(name, "%s.residual.6", at), l->out, 3), h);
}

/* Each frame looks at itself. */
static kiln_t attention(const walk *s, kiln_t x, const char *at)
{
    const kiln_attention how = {.size = sizeof how, .heads = 1};
    char name[96];
    int64_t d[5] = {0};
    kiln_t part[3], y;
    s->o->shape(s->p, x, d, 5);
    const int64_t c = d[4];
    y = s->o->reshape(s->p, norm(s, x, NAME(name, "%s.norm", at), "a * p"), DIMS(d[0] * d[1], d[2] * d[3], c));
    NAME(name, "%s.to_qkv", at);
    y = s->o->linear(s->p, y, weight(s, name, "weight", DIMS(3 * c, c)), weight(s, name, "bias", DIMS(3 * c)));
    for (int i = 0; i < 3; i++) part[i] = s->o->slice(s->p, y, 2, i * c, c);
    y = s->o->attention(s->p, part[0], part[1], part[2], &how);
    NAME(name, "%s.proj", at);
    y = s->o->linear(s->p, y, weight(s, name, "weight", DIMS(c, c)), weight(s, name, "bias", DIMS(c)));
    return s->o->add(s->p, x, s->o->reshape(s->p, y, DIMS(d[0], d[1], d[2], d[3], c)));
}

/* ---- halving and doubling ---- */

/* A convolution over time alone; its weights are asked for even where there is nothing to convolve (x {0}). */
static kiln_t over_time(const walk *s, kiln_t x, const char *at, const int64_t out_in[2], const kiln_conv *how)
{
    char name[96];
    NAME(name, "%s.time_conv", at);
    kiln_t w = weight(s, name, "weight", DIMS(out_in[0], out_in[1], 3, 1, 1)),
           b = weight(s, name, "bias", DIMS(out_in[0]));
    return x.id ? s->o->conv(s->p, x, w, b, how) : x;
}

/* Every frame becomes two. */
static kiln_t double_frames(walk *s, kiln_t x, const char *at)
{
    int64_t d[5] = {0}, missing = 0;
    s->o->shape(s->p, x, d, 5);
    const int64_t t = d[1], c = d[4], sizes[2] = {2 * c, c};
    kiln_conv how = {.size = sizeof how, .rank = 3};
    kiln_t alone = s->part == WHOLE ? slice_frames(s, x, 0, 1) : (kiln_t){0}, y = {0};
    if (s->part == FIRST || (s->part == WHOLE && t == 1)) {
        s->step++;
        over_time(s, (kiln_t){0}, at, sizes, &how);
        return x;
    }
    const int64_t n = s->part == WHOLE ? t - 1 : t;
    y = after_the_last(s, s->part == WHOLE ? slice_frames(s, x, 1, n) : x, BACK, &missing);
    how.before[0] = (int32_t)missing;
    y = s->o->reshape(s->p, over_time(s, y, at, sizes, &how), DIMS(d[0] * n, d[2], d[3], 2, c));
    y = s->o->permute(s->p, y, (const uint32_t[]){0, 3, 1, 2, 4});
    y = s->o->reshape(s->p, y, DIMS(d[0], 2 * n, d[2], d[3], c));
    return alone.id ? one_after(s, alone, y) : y;
}

/* Two frames become one, which looks back at the one before. */
static kiln_t halve_frames(walk *s, kiln_t x, const char *at)
{
    int64_t missing;
    const int64_t c = size_of(s, x, 4), t = size_of(s, x, 1), sizes[2] = {c, c};
    const kiln_conv how = {.size = sizeof how, .rank = 3, .stride = {2, 1, 1}};
    kiln_t all = after_the_last(s, x, 1, &missing), none = {0};
    if (s->part == FIRST || (s->part == WHOLE && t == 1)) return over_time(s, none, at, sizes, &how), x;
    kiln_t y = over_time(s, all, at, sizes, &how);
    return s->part == WHOLE ? one_after(s, slice_frames(s, x, 0, 1), y) : y;
}

static kiln_t resample(walk *s, kiln_t x, const char *at, const wan_vae_layer *l)
{
    const int up = s->side[0] == 'd';
    const kiln_conv2d wider = {.size = sizeof wider, .pad = {1, 1, 1, 1}},
                      smaller = {.size = sizeof smaller, .stride = {2, 2}, .pad = {0, 0, 1, 1}};
    char name[96];
    const int64_t videos = size_of(s, x, 0), h = size_of(s, x, 2), w = size_of(s, x, 3), c = size_of(s, x, 4);
    if (up && l->in_time) x = double_frames(s, x, at);
    x = as_pictures(s, x);
    if (up) x = s->o->upsample_nearest(s->p, x, 2 * h, 2 * w);
    NAME(name, "%s.resample.1", at);
    x = s->o->conv2d(s->p, x, weight(s, name, "weight", DIMS(l->out, c, 3, 3)), weight(s, name, "bias", DIMS(l->out)),
                     up ? &wider : &smaller);
    x = as_video(s, x, videos);
    return !up && l->in_time ? halve_frames(s, x, at) : x;
}

/* ---- both sides ---- */

static kiln_t layers(walk *s, kiln_t x, const char *list, const wan_vae_layer *l, int n)
{
    char at[64];
    for (int i = 0; i < n; i++) {
        s->o->scope_push(s->p, NAME(at, "%s.%s.%d", s->side, list, i));
        x = l[i].resample ? resample(s, x, at, &l[i]) : residual(s, x, at, &l[i]);
        s->o->scope_pop(s->p);
    }
    return x;
}

static kiln_t middle(walk *s, kiln_t x)
{
    char at[64];
    const wan_vae_layer plain = {.out = size_of(s, x, 4)};
    x = residual(s, x, NAME(at, "%s.middle.0", s->side), &plain);
    x = attention(s, x, NAME(at, "%s.middle.1", s->side));
    return residual(s, x, NAME(at, "%s.middle.2", s->side), &plain);
}

static kiln_t head(walk *s, kiln_t x, int64_t out)
{
    char at[64];
    x = norm_silu(s, x, NAME(at, "%s.head.0", s->side));
    return convolve(s, x, NAME(at, "%s.head.2", s->side), out, 3);
}

static kiln_t decode(walk *s, kiln_t x)
{
    s->side = "decoder", s->step = 0;
    x = convolve(s, x, "conv2", WAN_CHANNELS, 1);
    x = middle(s, convolve(s, x, "decoder.conv1", s->m->first_up, 3));
    return head(s, layers(s, x, "upsamples", s->m->up, s->m->n_up), 3);
}

/* -> [N,t,h,w,2 C]: mean and log-variance */
static kiln_t encode(walk *s, kiln_t x)
{
    s->side = "encoder", s->step = 0;
    x = convolve(s, x, "encoder.conv1", s->m->first_down, 3);
    x = head(s, middle(s, layers(s, x, "downsamples", s->m->down, s->m->n_down)), 2 * WAN_CHANNELS);
    return convolve(s, x, "conv1", 2 * WAN_CHANNELS, 1);
}

/* ---- the table's functions ---- */

static walk begin(const kiln_autoencoder *a, const kiln_ops *o, kiln_program *p, kiln_weights *w, uint32_t part)
{
    return (walk){.o = o, .p = p, .w = w, .m = a->self, .part = part};
}

kiln_t wan_record_decode_part(const kiln_autoencoder *a, const kiln_ops *o, kiln_program *p, kiln_weights *w,
                              kiln_t latent, uint32_t part)
{
    walk s = begin(a, o, p, w, part);
    return decode(&s, latent);
}

kiln_t wan_record_decode(const kiln_autoencoder *a, const kiln_ops *o, kiln_program *p, kiln_weights *w, kiln_t latent)
{
    return wan_record_decode_part(a, o, p, w, latent, WHOLE);
}

void wan_record_encode_part(const kiln_autoencoder *a, const kiln_ops *o, kiln_program *p, kiln_weights *w,
                            kiln_t image, uint32_t part, kiln_latent_distribution *out)
{
    walk s = begin(a, o, p, w, part);
    kiln_t x = encode(&s, image), log_variance = o->slice(p, x, 4, WAN_CHANNELS, WAN_CHANNELS);
    out->mean = o->slice(p, x, 4, 0, WAN_CHANNELS);
    out->log_variance = o->map(p, "min(max(a, -30), 20)", &log_variance, 1, NULL);
}

void wan_record_encode(const kiln_autoencoder *a, const kiln_ops *o, kiln_program *p, kiln_weights *w, kiln_t image,
                       kiln_latent_distribution *out)
{
    wan_record_encode_part(a, o, p, w, image, WHOLE, out);
}
