/* vocabulary_statistics.c - see vocabulary_statistics.h. A tile is a row. It is read once: its numbers behind the soft
 * cap stay in the workspace, which the second cache holds, until their maximum is known.
 *
 * Vectors are the compiler's own, 16 numbers long whatever the processor has, and nothing is contracted: every
 * processor makes the same bits. Of a row that has a NaN the sums are NaN.
 */
#include "vocabulary_statistics.h"

#include <math.h>

#define INLINE static inline __attribute__((always_inline))

/* Handed on by their address: how they are passed by value depends on the processor that is compiled for. */
typedef float numbers __attribute__((vector_size(64)));
typedef int32_t integers __attribute__((vector_size(64)));
typedef uint16_t halves __attribute__((vector_size(32)));
typedef uint32_t words __attribute__((vector_size(64)));

enum { CHUNK = 64 }; /* blocks whose terms are summed up in f32 */

/* ---- rows ---- */

typedef struct {
    const kiln_tensor *x, *e; /* e NULL: nobody wants it */
    size_t row, n;
    float softcap, temperature; /* temperature 0: 1 */
    int plain;
    float *statistic, *block;
} row_job;

static double number_at(const kiln_tensor *x, size_t i)
{
    const uint32_t bits = x->dtype == KILN_BF16 ? (uint32_t)((const uint16_t *)x->data)[i] << 16 : 0;
    float f;
    memcpy(&f, &bits, sizeof f);
    return (double)(x->dtype == KILN_BF16 ? f : ((const float *)x->data)[i]);
}

static row_job job_at(const kiln_op_call *c, uint64_t row)
{
    const kiln_tensor *x = &c->in[0], *statistics = &c->out[0], *blocks = &c->out[1];
    const vocabulary_statistics_attributes *how = c->attributes;
    row_job j = {.x = x, .row = (size_t)row, .n = (size_t)x->dim[2], .softcap = how->softcap, .plain = how->plain != 0};
    const float t = (float)number_at(&c->in[1], 0);
    j.temperature = t > 0 ? t : 0;
    j.statistic = (float *)statistics->data + row * STATISTICS;
    j.block = blocks->data ? (float *)blocks->data + row * (uint64_t)blocks->dim[2] : NULL;
    j.e = c->n_out > 2 && c->out[2].data ? &c->out[2] : NULL;
    return j;
}

/* ---- vectors ---- */

#define SPLAT(x) ((numbers){0} + (x))

#define CHOOSE(which, yes, no) ((numbers)(((which) & (integers)(yes)) | (~(which) & (integers)(no))))

/* Of x <= 0 makes e^x; what is below -87 is taken for that, e^-87 being nothing beside the 1 that the largest one is.
 * 2^n times the power series of e^r, |r| <= ln 2 / 2; ln 2 in two parts, so that n times the first is exact. */
INLINE void to_exponential(numbers *to)
{
    const float round = 0x1.8p23f;
    const numbers x = CHOOSE(*to < -87.0f, SPLAT(-87.0f), *to);
    const numbers t = x * 0x1.715476p0f + round, n = t - round;
    const numbers r = x - n * 0x1.62e4p-1f - n * 0x1.7f7d1cp-20f;
    numbers y = r * (1 / 5040.0f) + 1 / 720.0f;
    y = y * r + 1 / 120.0f, y = y * r + 1 / 24.0f, y = y * r + 1 / 6.0f, y = y * r + 0.5f;
    y = y * r * r + r + 1.0f;
    *to = y * (numbers)(((integers)t << 23) + (127 << 23));
}

/* (1 - u) / (1 + u) with u = e^(-2|x|); near 0, where that cancels, the power series. */
INLINE void to_hyperbolic_tangent(numbers *to)
{
    const numbers x = *to, a = (numbers)((integers)x & INT32_MAX), square = x * x;
    const integers sign = (integers)x & INT32_MIN;
    numbers u = a * -2.0f;
    to_exponential(&u);
    const numbers far = (numbers)((integers)((1.0f - u) / (1.0f + u)) | sign);
    numbers near = square * (62 / 2835.0f) - 17 / 315.0f;
    near = near * square + 2 / 15.0f, near = near * square - 1 / 3.0f, near = near * square * x + x;
    *to = CHOOSE(a < 0.25f, near, far);
}

INLINE float sum_of(const numbers *x)
{
    float a[16], b[8], c[4];
    memcpy(a, x, sizeof a);
    for (int i = 0; i < 8; i++) b[i] = a[i] + a[i + 8];
    for (int i = 0; i < 4; i++) c[i] = b[i] + b[i + 4];
    return (c[0] + c[2]) + (c[1] + c[3]);
}

INLINE double exact_sum_of(const numbers *x)
{
    double sum = 0;
    for (int i = 0; i < 16; i++) sum += (double)(*x)[i];
    return sum;
}

/* `there` numbers of a row from place i on; behind them 0. */
INLINE void load(const row_job *j, size_t i, size_t there, numbers *to)
{
    const size_t at = j->row * j->n + i;
    numbers x = {0};
    if (j->x->dtype == KILN_BF16) {
        halves h = {0};
        memcpy(&h, (const uint16_t *)j->x->data + at, there * sizeof(uint16_t));
        *to = (numbers)(__builtin_convertvector(h, words) << 16);
    } else {
        memcpy(&x, (const float *)j->x->data + at, there * sizeof(float));
        *to = x;
    }
}

INLINE void store(const row_job *j, size_t i, size_t there, const numbers *x)
{
    const size_t at = j->row * j->n + i;
    const words w = (words)*x;
    const halves h = __builtin_convertvector((w + 0x7fff + (w >> 16 & 1)) >> 16, halves);
    if (j->e->dtype == KILN_F32)
        memcpy((float *)j->e->data + at, x, there * sizeof(float));
    else
        memcpy((uint16_t *)j->e->data + at, &h, there * sizeof(uint16_t));
}

/* ---- a row ---- */

INLINE void load_capped(const row_job *j, size_t i, size_t there, numbers *to)
{
    load(j, i, there, to);
    if (j->softcap <= 0) return;
    *to = *to * (1 / j->softcap);
    to_hyperbolic_tangent(to);
    *to = *to * j->softcap;
}

typedef struct {
    float value;
    int32_t place;
} maximum;

INLINE void take(maximum *m, float value, int32_t place)
{
    if (value > m->value || (value == m->value && place < m->place)) m->value = value, m->place = place;
}

/* Fills `kept`, whole blocks; returns the first maximum. */
INLINE maximum cap_all(const row_job *j, float *kept)
{
    const size_t whole = j->n / BLOCK * BLOCK;
    numbers x, most = SPLAT(-INFINITY);
    integers place = {0};
    maximum found = {-INFINITY, 0};
    for (size_t i = 0; i < whole; i += BLOCK) {
        load_capped(j, i, BLOCK, &x);
        const integers more = x > most;
        most = CHOOSE(more, x, most), place = (place & ~more) | (((integers){0} + (int32_t)i) & more);
        memcpy(kept + i, &x, sizeof x);
    }
    if (whole < j->n) {
        load_capped(j, whole, j->n - whole, &x);
        for (size_t i = 0; i < BLOCK; i++) kept[whole + i] = whole + i < j->n ? x[i] : -INFINITY;
    }
    for (int i = 0; i < BLOCK; i++) take(&found, most[i], place[i] + i);
    for (size_t i = whole; i < j->n; i++) take(&found, kept[i], (int32_t)i);
    return found;
}

INLINE void sum_all(const row_job *j, const float *kept, float largest)
{
    const float by = j->temperature > 0 ? 1 / j->temperature : 1, m = largest * by;
    double sum = 0, weighted = 0;
    for (size_t i = 0, b = 0; i < j->n;) {
        numbers terms = {0};
        for (size_t end = b + CHUNK; b < end && i < j->n; b++, i += BLOCK) {
            numbers l, e;
            memcpy(&l, kept + i, sizeof l);
            e = l = l * by - m;
            to_exponential(&e);
            const numbers term = e * l;
            terms = terms + CHOOSE(l < -87.0f, SPLAT(0), term);
            const float s = sum_of(&e);
            sum += (double)s;
            if (j->block) j->block[b] = s;
            if (!j->e) continue;
            if (i + BLOCK <= j->n)
                store(j, i, BLOCK, &e);
            else
                store(j, i, j->n - i, &e);
        }
        weighted += exact_sum_of(&terms);
    }
    j->statistic[STATISTIC_MAXIMUM] = m;
    j->statistic[STATISTIC_SUM] = (float)sum, j->statistic[STATISTIC_WEIGHTED] = (float)weighted;
}

/* At a temperature of 1. */
INLINE float logarithm_of_sum(const row_job *j, const float *kept, float largest)
{
    double sum = 0;
    for (size_t i = 0; i < j->n;) {
        numbers terms = {0};
        for (size_t end = i + CHUNK * BLOCK; i < end && i < j->n; i += BLOCK) {
            numbers x;
            memcpy(&x, kept + i, sizeof x);
            x = x - largest;
            to_exponential(&x);
            terms = terms + x;
        }
        sum += exact_sum_of(&terms);
    }
    return sum == 0 ? largest : (float)((double)largest + log(sum));
}

INLINE void whole_row(const row_job *job, float *kept)
{
    const row_job own = *job, *j = &own; /* no number that is stored can lie in it */
    const maximum most = cap_all(j, kept);
    sum_all(j, kept, most.value);
    j->statistic[STATISTIC_PLACE] = (float)most.place;
    j->statistic[STATISTIC_PLAIN] = j->plain ? logarithm_of_sum(j, kept, most.value) : 0;
}

/* ---- processors ---- */

static void row_plain(const row_job *j, float *kept) { whole_row(j, kept); }
#if defined __x86_64__
__attribute__((target("avx2"))) static void row_avx2(const row_job *j, float *kept) { whole_row(j, kept); }
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))) static void row_avx512(const row_job *j, float *kept)
{
    whole_row(j, kept);
}
#endif

static void tile(const kiln_op_call *c, uint64_t row, void *workspace)
{
    const row_job j = job_at(c, row);
#if defined __x86_64__
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        row_avx512(&j, workspace);
    else if (__builtin_cpu_supports("avx2"))
        row_avx2(&j, workspace);
    else
#endif
        row_plain(&j, workspace);
}

static uint64_t tiles(const kiln_op_call *c) { return (uint64_t)c->in[0].dim[1]; }

static size_t workspace_of(const kiln_op_call *c)
{
    return ((size_t)c->in[0].dim[2] + BLOCK - 1) / BLOCK * BLOCK * sizeof(float);
}

/* ---- the definition ---- */

static double capped_at(const row_job *j, size_t i)
{
    const double x = number_at(j->x, j->row * j->n + i), cap = (double)j->softcap;
    return cap > 0 ? cap * tanh(x / cap) : x;
}

static void put(const kiln_tensor *e, size_t i, double x)
{
    const float f = (float)x;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (e->dtype == KILN_F32)
        ((float *)e->data)[i] = f;
    else
        ((uint16_t *)e->data)[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static void define_row(const row_job *j)
{
    const double t = j->temperature > 0 ? (double)j->temperature : 1;
    double largest = -(double)INFINITY, sum = 0, weighted = 0, plain = 0, block = 0;
    size_t place = 0;
    for (size_t i = 0; i < j->n; i++)
        if (capped_at(j, i) > largest) largest = capped_at(j, i), place = i;
    for (size_t i = 0; i < j->n; i++) {
        const double x = capped_at(j, i), l = (x - largest) / t, e = exp(l);
        block += e, sum += e, weighted += e > 0 ? l * e : e, plain += exp(x - largest);
        if (j->block && (i % BLOCK == BLOCK - 1 || i + 1 == j->n)) j->block[i / BLOCK] = (float)block, block = 0;
        if (j->e) put(j->e, j->row * j->n + i, e);
    }
    j->statistic[STATISTIC_MAXIMUM] = (float)(largest / t), j->statistic[STATISTIC_SUM] = (float)sum;
    j->statistic[STATISTIC_WEIGHTED] = (float)weighted, j->statistic[STATISTIC_PLACE] = (float)place;
    j->statistic[STATISTIC_PLAIN] = j->plain ? (float)(largest + log(plain)) : 0;
}

static kiln_status reference(const kiln_op_call *c)
{
    for (uint64_t row = 0; row < tiles(c); row++) {
        const row_job j = job_at(c, row);
        define_row(&j);
    }
    return KILN_OK;
}

static kiln_status shape(const kiln_op_call *c, kiln_op_result *out)
{
    const kiln_tensor *x = &c->in[0], *t = &c->in[1];
    if (c->attribute_bytes != sizeof(vocabulary_statistics_attributes))
        return c->fail(c->engine, "its attributes are a soft cap and whether the plain sum is wanted");
    if (x->rank != 3 || x->dim[0] != 1 || x->dim[2] < 1 || x->dim[2] >= 1 << 24)
        return c->fail(c->engine, "logits must be [1,t,n] with n below 2^24; they have %u dimensions", x->rank);
    if (c->n_in < 2 || t->rank != 1 || t->dim[0] != 1) return c->fail(c->engine, "the temperature must be [1]");
    for (int i = 0; i < 3; i++) {
        out[i].rank = 3, out[i].dim[0] = 1, out[i].dim[1] = x->dim[1];
        out[i].dtype = i < 2 ? KILN_F32 : 0;
    }
    out[0].dim[2] = STATISTICS, out[1].dim[2] = (x->dim[2] + BLOCK - 1) / BLOCK, out[2].dim[2] = x->dim[2];
    return KILN_OK;
}

static const vocabulary_statistics_attributes with_cap = {.softcap = 30, .plain = 1}, without = {.softcap = 0};
static const int64_t odd[] = {1, 3, 1237}, one[] = {1, 1, 1}, few[] = {1, 2, 32}, single[] = {1};
#define EXAMPLE(name_, how_, dim_, low_, high_)                                                                        \
    {                                                                                                                  \
        .size = sizeof(kiln_op_example), .n_in = 2, .name = (name_), .attributes = &(how_),                            \
        .attribute_bytes = sizeof(how_), .in = {                                                                       \
            {.dtype = KILN_F32, .rank = 3, .dim = (dim_), .low = (low_), .high = (high_)},                             \
            {.dtype = KILN_F32, .rank = 1, .dim = single, .low = 0.4, .high = 1.5}                                     \
        }                                                                                                              \
    }
static const kiln_op_example examples[] = {
    EXAMPLE("odd sizes", with_cap, odd, -60, 60), EXAMPLE("no cap", without, odd, -5, 5),
    EXAMPLE("small logits", with_cap, few, -1e-3, 1e-3), EXAMPLE("one number", with_cap, one, -1, 1)};

const kiln_op_kind vocabulary_statistics_kind = {
    .size = sizeof vocabulary_statistics_kind,
    .version = 1,
    .name = "org.kiln.vocabulary-statistics",
    .doc = "Maximum, sums and exponentials of rows of logits behind a soft cap.",
    .n_in = 2,
    .n_out = 3,
    .types = 1u << KILN_F32 | 1u << KILN_BF16,
    .shape = shape,
    .reference = reference,
    .tiles = tiles,
    .workspace = workspace_of,
    .tile = tile,
    .relative = 2e-5, /* e^(l - m) with l and m of 60 in f32, whose half units are 1.9e-6 each, over temperatures */
    .absolute = 1e-6,
    KILN_ARRAY(example, examples),
};

/* ---- recording ---- */

vocabulary_statistics vocabulary_statistics_of(const text_recording *r, kiln_t logits, kiln_t temperature)
{
    const vocabulary_statistics_attributes how = {.softcap = r->m->softcap,
                                                  .plain = (uint32_t)r->m->family->plain_confidence};
    const kiln_t x[] = {logits, temperature};
    kiln_t more[2] = {{0}, {0}};
    vocabulary_statistics v;
    kiln_t all = td_ops->custom(r->p, &vocabulary_statistics_kind, x, 2, &how, sizeof how, more);
    for (int k = 0; k < STATISTICS; k++) v.statistic[k] = td_ops->slice(r->p, all, 2, k, 1);
    v.blocks = more[0], v.e = more[1];
    return v;
}
