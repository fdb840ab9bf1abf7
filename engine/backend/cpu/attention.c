/* attention.c - softmax(q k^T scale + mask) v without the score matrix: for a block of queries of one head, keys are
 * taken 64 at a time, scores made, exponentiated against a running maximum and multiplied into the sums
 * (Dao et al., "FlashAttention", 2022; Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018).
 *
 * Everything is transposed: scores are [key][query] and sums [channel][query], up to 64 queries to a strip, so that
 * maxima and sums of the softmax are vectors, K and V are used as they lie, and no head size needs padding. Queries of
 * heads that share their keys share strips. Arithmetic is f32; K and V are widened block by block into scratch that
 * stays in cache. Where products of bf16 are the faster ones and Q, K and V are bf16, scores and sums are f32 and
 * exponentials are rounded to bf16 (attention_words.h). Blocks that no query sees are not read. A query that sees no
 * key gives 0, one with a score that is NaN gives NaN.
 */
#include "backend/cpu/attention_decode.h"
#include "backend/cpu/attention_packed.h"
#include "backend/cpu/attention_words.h"

#include "backend/attention_bias.h"
#include "base/memory_alloc.h"

#include <math.h>
#include <string.h>

enum { STRIPS = 8 };

typedef struct {
    const cpu_kernel *c;
    const kernel_args *a;
} call;

/* Rows of a strip's queries: channels, or words of two. */
static size_t query_rows(const attention_plan *p) { return (size_t)(p->way == ATTEND_BY_F32 ? p->D : p->words); }
static size_t longest_row(const attention_plan *p)
{
    return query_rows(p) > (size_t)p->Dv ? query_rows(p) : (size_t)p->Dv;
}

/* Floats of each buffer: whole lines. */
static size_t q_floats(const attention_plan *p) { return query_rows(p) * (size_t)p->width; }
static size_t sums_floats(const attention_plan *p) { return (size_t)(p->channels * p->width); }
static size_t keys_floats(const attention_plan *p) { return ATTEND_KEYS * query_rows(p); }
static size_t values_floats(const attention_plan *p)
{
    return round_up(p->way == ATTEND_BY_F32 ? (size_t)(ATTEND_KEYS * p->Dv) : attention_words_values(p), 16);
}

static attention_buffers buffers_at(const attention_plan *p, float *at)
{
    attention_buffers b;
    size_t n = (size_t)p->strips, width = (size_t)p->width;
    b.q = at, at += n * q_floats(p);
    b.sums = at, at += n * sums_floats(p);
    b.keys = at, at += keys_floats(p);
    b.values = at, at += values_floats(p);
    b.scores = at, at += ATTEND_KEYS * width;
    b.row = at, at += width * longest_row(p);
    b.max = at, at += n * width;
    b.sum = at;
    return b;
}
static size_t slot_size(const attention_plan *p)
{
    size_t n = (size_t)p->strips, width = (size_t)p->width;
    return round_up(n * (q_floats(p) + sums_floats(p)) + keys_floats(p) + values_floats(p) + ATTEND_KEYS * width +
                        width * longest_row(p) + 2 * n * width,
                    16);
}

/* What products become scores by, in base 2, or parts of the soft cap. */
static float score_scale(const attention_view *v)
{
    const attention_attr *a = &v->c->op.attr.attention;
    return a->softcap > 0 ? a->scale / a->softcap : a->scale * log2_e;
}

/* ---- in f32 ---- */

/* Keys or values first.. as dense f32; zeros where nothing is. */
static void load_keys(const attention_view *v, uint32_t operand, int64_t width, int64_t first, int64_t n, float *to)
{
    const operand_desc *d = &v->c->op.in[operand];
    for (int64_t i = 0; i < n; i++) {
        int64_t row = attention_key_row(v, first + i);
        if (row < 0)
            memset(to + i * width, 0, (size_t)width * sizeof *to);
        else
            v->c->k->load(to + i * width, place_of(d, v->a->in[operand], row, v->kv * width), type_of(d),
                          (size_t)width);
    }
}

/* Keys [first, first+n) against one strip. */
static void attend_strip(const attention_view *v, const attention_buffers *b, int64_t strip, const attention_strip *s,
                         int64_t first, int64_t n)
{
    const attention_plan *p = v->p;
    const cpu_kernels *k = v->c->k;
    size_t D = (size_t)p->D, Dv = (size_t)p->Dv, width = (size_t)p->width, at = (size_t)strip;
    float *sums = b->sums + at * Dv * width, scale[ATTEND_STRIP];
    k->gemm((size_t)n, width, D, b->keys, D, 1, b->q + at * D * width, width, b->scores, width, 0);
    attention_limit(v, s, b->scores, first, n);
    if (k->softmax(b->scores, width, (size_t)n, width, b->max + at * width, b->sum + at * width, scale))
        for (size_t i = 0; i < Dv; i++) k->mul(sums + i * width, scale, width);
    k->gemm(Dv, width, (size_t)n, b->values, 1, Dv, b->scores, width, sums, width, 1);
}

/* A sink is in the softmax from the first. */
static void start_sums(const attention_view *v, const attention_strip *s, float *max, float *sum)
{
    const operand_desc *d = &v->c->op.in[ATTEND_SINKS];
    if (!attention_has(&v->c->op, ATTEND_SINKS)) return;
    for (attention_run r = attention_run_at(v, s, 0); r.n; r = attention_run_at(v, s, r.at + r.n)) {
        float sink;
        v->c->k->load(&sink, place_of(d, v->a->in[ATTEND_SINKS], 0, r.head), type_of(d), 1);
        float first = sink * log2_e, base = v->p->way == ATTEND_BY_F32 ? first : ceilf(first);
        for (int64_t i = r.at; i < r.at + r.n; i++) max[i] = base, sum[i] = sink > -INFINITY ? exp2f(first - base) : 0;
    }
}

/* A run's queries as rows of `row` words or floats. */
static void copy_queries(const attention_view *v, const attention_run *r, float *rows, size_t row)
{
    const attention_plan *p = v->p;
    const operand_desc *q = &v->c->op.in[ATTEND_Q];
    for (int64_t i = 0; i < r->n; i++) {
        const char *from = place_of(q, v->a->in[ATTEND_Q], v->image * p->Tq + r->query + i, r->head * p->D);
        float *to = rows + (size_t)(r->at + i) * row;
        if (p->way == ATTEND_BY_F32)
            v->c->k->load(to, from, type_of(q), (size_t)p->D);
        else
            attention_words_row(p, (uint32_t *)(void *)to, from, (size_t)p->D);
    }
}

/* The block's queries, scaled, on their side; unused columns are 0. */
static void load_queries(const attention_view *v, const attention_buffers *b, const attention_strip *strips, int64_t n)
{
    const attention_plan *p = v->p;
    size_t width = (size_t)p->width, row = query_rows(p); /* words are moved as floats are */
    memset(b->sums, 0, (size_t)p->strips * sums_floats(p) * sizeof(float));
    memset(b->sum, 0, (size_t)p->strips * width * sizeof(float));
    for (size_t i = 0; i < (size_t)p->strips * width; i++) b->max[i] = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        const attention_strip *s = strips + i;
        float *q = b->q + (size_t)i * q_floats(p);
        start_sums(v, s, b->max + (size_t)i * width, b->sum + (size_t)i * width);
        if (attention_words_turn_queries(v, s, (uint32_t *)(void *)q)) continue;
        if (s->n < p->width) memset(q, 0, q_floats(p) * sizeof(float));
        for (attention_run r = attention_run_at(v, s, 0); r.n; r = attention_run_at(v, s, r.at + r.n))
            copy_queries(v, &r, b->row, row);
        if (p->way == ATTEND_BY_F32) v->c->k->affine(b->row, score_scale(v), 0, (size_t)(s->n * p->D));
        v->c->k->transpose(q, width, b->row, row, (size_t)s->n, row);
    }
}

/* ln of the softmax's sum. */
static void store_lse(const attention_view *v, const attention_run *r, const float *max, const float *sum)
{
    const attention_plan *p = v->p;
    float *to = v->a->more[0];
    if (!v->c->op.n_more || !to) return;
    to += (v->image * p->heads + r->head) * p->Tq + r->query;
    for (int64_t i = 0; i < r->n; i++)
        to[i] = sum[r->at + i] > 0 || isnan(sum[r->at + i])
                    ? (float)((double)max[r->at + i] / (double)log2_e + log((double)sum[r->at + i]))
                    : -INFINITY;
}

static void store_run(const attention_view *v, const attention_run *r, const float *rows)
{
    const attention_plan *p = v->p;
    const operand_desc *out = &v->c->op.out;
    for (int64_t i = 0; i < r->n; i++) {
        int64_t row = v->image * p->Tq + r->query + i;
        v->c->k->store((char *)v->a->out + (size_t)(row * out->ld + r->head * p->Dv) * size_of(out->dtype), out->dtype,
                       rows + (r->at + i) * p->Dv, (size_t)p->Dv);
    }
}

static void store_strip(const attention_view *v, const attention_buffers *b, const attention_strip *s, float *sums,
                        const float *sum)
{
    size_t Dv = (size_t)v->p->Dv, width = (size_t)v->p->width;
    float part[ATTEND_STRIP];
    for (size_t i = 0; i < width; i++) part[i] = sum[i] > 0 ? 1 / sum[i] : 0;
    if (attention_words_turn_results(v, s, sums, part, (uint32_t *)(void *)b->row)) return;
    for (size_t i = 0; i < Dv; i++) v->c->k->mul(sums + i * width, part, width);
    v->c->k->transpose(b->row, Dv, sums, width, Dv, width);
    for (attention_run r = attention_run_at(v, s, 0); r.n; r = attention_run_at(v, s, r.at + r.n))
        store_run(v, &r, b->row);
}

static void store_queries(const attention_view *v, const attention_buffers *b, const attention_strip *strips, int64_t n)
{
    size_t width = (size_t)v->p->width;
    for (int64_t i = 0; i < n; i++) {
        const attention_strip *s = strips + i;
        const float *max = b->max + (size_t)i * width, *sum = b->sum + (size_t)i * width;
        store_strip(v, b, s, b->sums + (size_t)i * sums_floats(v->p), sum);
        for (attention_run r = attention_run_at(v, s, 0); r.n; r = attention_run_at(v, s, r.at + r.n))
            store_lse(v, &r, max, sum);
    }
}

static void load_block(const attention_view *v, const attention_buffers *b, int64_t first, int64_t n)
{
    if (v->p->way != ATTEND_BY_F32) {
        attention_words_load(v, b, first, n);
        return;
    }
    load_keys(v, ATTEND_K, v->p->D, first, n, b->keys);
    load_keys(v, ATTEND_V, v->p->Dv, first, n, b->values);
}

/* Keys or values [first, end) into the second-level cache. Their rows lie far apart, so that no processor looks ahead.
 */
static void fetch_rows(const attention_view *v, uint32_t operand, int64_t width, int64_t first, int64_t end)
{
    const operand_desc *d = &v->c->op.in[operand];
    int64_t bytes = width * (int64_t)size_of(type_of(d));
    for (int64_t key = first; key < end; key++) {
        int64_t row = attention_key_row(v, key);
        if (row < 0) continue;
        const char *at = place_of(d, v->a->in[operand], row, v->kv * width);
        for (int64_t i = 0; i < bytes; i += CACHE_LINE) __builtin_prefetch(at + i, 0, SECOND_LEVEL);
        __builtin_prefetch(at + bytes - 1, 0, SECOND_LEVEL);
    }
}

/* What the next block is loaded from, a part of it beside each of n strips of this one. */
static void fetch_ahead(const attention_view *v, int64_t next, int64_t high, int64_t strip, int64_t n)
{
    int64_t keys = min64(ATTEND_KEYS, high - next);
    if (keys <= 0) return;
    int64_t first = next + keys * strip / n, end = next + keys * (strip + 1) / n;
    fetch_rows(v, ATTEND_K, v->p->D, first, end);
    fetch_rows(v, ATTEND_V, v->p->Dv, first, end);
}

/* Blocks of keys begin at multiples of ATTEND_KEYS, so that a sum does not depend on how many keys there could be. */
static void walk_keys(const attention_view *v, const attention_buffers *b, const attention_strip *strips, int64_t n)
{
    int64_t low = INT64_MAX, high = 0;
    for (int64_t s = 0; s < n; s++) {
        low = min64(low, strips[s].low);
        if (strips[s].high > high) high = strips[s].high;
    }
    if (v->key_position) low = 0, high = v->length;
    high = min64(high, v->length);
    for (int64_t k = low / ATTEND_KEYS * ATTEND_KEYS; k < high; k += ATTEND_KEYS) {
        int64_t count = min64(ATTEND_KEYS, high - k), loaded = 0;
        for (int64_t s = 0; s < n; s++) {
            if (!attention_sees(v, strips + s, k, count)) continue;
            if (!loaded) load_block(v, b, k, count);
            loaded = 1;
            fetch_ahead(v, k + ATTEND_KEYS, high, s, n);
            if (v->p->way == ATTEND_BY_F32)
                attend_strip(v, b, s, strips + s, k, count);
            else
                attention_words_attend(v, b, s, strips + s, k, count, score_scale(v));
        }
    }
}

static kiln_status tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const attention_plan *p = j->c->plan;
    (void)e;
    int64_t block = (int64_t)index % p->column_tiles, kv = (int64_t)index / p->column_tiles % p->kv_heads;
    int64_t first = block * p->strips * p->width, columns = min64(p->strips * p->width, p->columns - first);
    attention_view v = attention_view_of(j->c, j->a, (int64_t)index / p->column_tiles / p->kv_heads, kv);
    attention_buffers b = buffers_at(p, (float *)j->a->scratch + slot * p->slot_floats);
    attention_strip strips[STRIPS];
    int64_t n = 0;
    for (int64_t at = 0; at < columns; at += p->width)
        strips[n++] = attention_strip_at(&v, first + at, min64(p->width, columns - at));
    load_queries(&v, &b, strips, n);
    attention_words_begin(p);
    walk_keys(&v, &b, strips, n);
    attention_words_end(p);
    store_queries(&v, &b, strips, n);
    return KILN_OK;
}

static kiln_status run(const cpu_kernel *c, const kernel_args *a, error *e)
{
    const attention_plan *p = c->plan;
    call j = {c, a};
    for (int64_t i = 0; i < p->images; i++) {
        attention_view v = attention_view_of(c, a, i, 0);
        TRY(attention_check(&v, e));
    }
    return tiles_run(a->pool, (size_t)(p->images * p->kv_heads * p->column_tiles), tile, &j, e);
}

static void measure(const op_desc *op, attention_plan *p)
{
    const attention_attr *a = &op->attr.attention;
    int paged = attention_has(op, ATTEND_PAGES);
    p->images = op->in[ATTEND_Q].shape.dim[0], p->heads = a->heads;
    p->kv_heads = a->kv_heads ? a->kv_heads : a->heads, p->group = p->heads / p->kv_heads;
    p->Tq = op->in[ATTEND_Q].shape.dim[1], p->Tk = op->in[ATTEND_K].shape.dim[1];
    p->page = paged ? p->Tk : 0;
    if (paged) p->Tk *= op->in[ATTEND_PAGES].shape.dim[1];
    p->D = op->in[ATTEND_Q].shape.dim[2] / p->heads, p->Dv = op->in[ATTEND_V].shape.dim[2] / p->kv_heads;
    p->columns = p->group * p->Tq;
    p->width = p->columns < ATTEND_STRIP ? (int64_t)round_up((size_t)p->columns, 16) : ATTEND_STRIP;
    attention_words_plan(op, p);
    /* More strips in a block spare making K and V ready, fewer give every thread something to do. No bit depends on it.
     */
    int64_t strips = p->width ? (p->columns + p->width - 1) / p->width : 0, tasks = 4 * (int64_t)cpu_slots();
    p->strips = p->images * p->kv_heads * strips / tasks;
    p->strips = p->strips > STRIPS ? STRIPS : p->strips > 1 ? p->strips : 1;
    p->column_tiles = (strips + p->strips - 1) / p->strips;
    p->slot_floats = slot_size(p);
}

kiln_status cpu_prepare_attention(cpu_kernel *c, error *e)
{
    static const char *const names[] = {[ATTEND_BY_F32] = "attention:online",
                                        [ATTEND_BY_PAIRS] = "attention:pairs",
                                        [ATTEND_BY_TILES] = "attention:tiles"};
    const op_desc *op = &c->op;
    attention_plan *p = mem_calloc(1, sizeof *p);
    if (!p) return error_set(e, KILN_ERR_NOMEM, "out of memory for a kernel");
    c->plan = p, c->plan_free = mem_free, c->body = run;
    measure(op, p);
    for (int64_t i = 0; attention_has(op, ATTEND_TABLE) && i <= 2 * ATTEND_NEAR; i++)
        p->near[i] = (int32_t)bias_row(&op->attr.attention, op->in[ATTEND_TABLE].shape.dim[0], i - ATTEND_NEAR, 0);
    c->base.scratch_bytes = cpu_slots() * p->slot_floats * sizeof(float);
    c->base.flops = 2u * (uint64_t)(p->images * p->heads * p->Tq) * (uint64_t)(p->Tk * (p->D + p->Dv));
    c->base.name = names[p->way];
    if (attention_decode_fits(p))
        attention_decode_prepare(c);
    else if (attention_packed_fits(op, p))
        attention_packed_prepare(c);
    return KILN_OK;
}
