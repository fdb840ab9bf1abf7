/* attention_decode.c - attention of one query a head: rows of keys and values are read once, in the order in which they
 * lie and in the type in which they are stored, by all heads. Keys are cut into chunks by their index alone, so that
 * there is work for every thread and a sum does not depend on how many keys there could be; a chunk's part is a
 * greatest score, a sum and a row for each head, and parts are joined in order.
 */
#include "backend/cpu/attention_decode.h"

#include <math.h>
#include <string.h>

enum { KEYS_OF_CHUNK = 4 * ATTEND_KEYS, ROWS = 4 };

typedef struct {
    const cpu_kernel *c;
    const kernel_args *a;
} call;

/* A chunk's part: [heads][Dv] sums, then [kv heads][width] greatest scores and as many sums. */
static size_t columns_all(const attention_plan *p) { return (size_t)(p->kv_heads * p->width); }
static size_t part_floats(const attention_plan *p) { return (size_t)(p->heads * p->Dv) + 2 * columns_all(p); }
static size_t chunks_of(const attention_plan *p)
{
    return p->Tk ? (size_t)((p->Tk + KEYS_OF_CHUNK - 1) / KEYS_OF_CHUNK) : 1;
}
static float *part_at(const call *j, size_t index) { return (float *)j->a->scratch + index * part_floats(j->c->plan); }

typedef struct { /* a slot's: queries, scores of a block [kv heads][keys][width], a row of zeros */
    float *q, *scores, *zeros;
} buffers;

static int64_t wider(const attention_plan *p) { return p->D > p->Dv ? p->D : p->Dv; }
static size_t slot_floats(const attention_plan *p)
{
    return round_up((size_t)(p->heads * p->D + wider(p)) + ATTEND_KEYS * columns_all(p), 16);
}
static buffers buffers_at(const call *j, unsigned slot)
{
    const attention_plan *p = j->c->plan;
    size_t parts = (size_t)p->images * chunks_of(p);
    buffers b = {.q = (float *)j->a->scratch + round_up(parts * part_floats(p), 16) + slot * slot_floats(p)};
    b.scores = b.q + p->heads * p->D;
    b.zeros = b.scores + ATTEND_KEYS * columns_all(p);
    memset(b.zeros, 0, (size_t)wider(p) * sizeof(float));
    return b;
}

static void load_queries(const attention_view *v, float *to)
{
    const attention_plan *p = v->p;
    const attention_attr *a = &v->c->op.attr.attention;
    const operand_desc *q = &v->c->op.in[ATTEND_Q];
    size_t n = (size_t)(p->heads * p->D);
    v->c->k->load(to, place_of(q, v->a->in[ATTEND_Q], v->image, 0), type_of(q), n);
    v->c->k->affine(to, a->softcap > 0 ? a->scale / a->softcap : a->scale * log2_e, 0, n);
}

/* A key's or value's row as it is stored; NULL where nothing is. */
static const char *row_of(const attention_view *v, uint32_t operand, int64_t key)
{
    int64_t row = attention_key_row(v, key);
    return row < 0 ? NULL : place_of(&v->c->op.in[operand], v->a->in[operand], row, 0);
}

static void make_scores(const attention_view *v, const buffers *b, int64_t first, int64_t n)
{
    const attention_plan *p = v->p;
    uint32_t type = type_of(&v->c->op.in[ATTEND_K]);
    size_t D = (size_t)p->D, group = (size_t)p->group, width = (size_t)p->width;
    memset(b->scores, 0, ATTEND_KEYS * columns_all(p) * sizeof(float));
    for (int64_t i = 0; i < n; i++) {
        const char *row = row_of(v, ATTEND_K, first + i);
        for (size_t kv = 0; row && kv < (size_t)p->kv_heads; kv++)
            v->c->k->dots_stored(b->scores + (kv * ATTEND_KEYS + (size_t)i) * width, b->q + kv * group * D, D, group,
                                 row + kv * D * size_of(type), type, D);
    }
}

static void add_values(const attention_view *v, const buffers *b, float *part, int64_t first, int64_t n)
{
    const attention_plan *p = v->p;
    uint32_t type = type_of(&v->c->op.in[ATTEND_V]);
    size_t Dv = (size_t)p->Dv, group = (size_t)p->group, width = (size_t)p->width;
    for (int64_t i = 0; i < n; i += ROWS) {
        const char *row[ROWS];
        size_t rows = (size_t)min64(ROWS, n - i);
        for (size_t r = 0; r < rows; r++) row[r] = row_of(v, ATTEND_V, first + i + (int64_t)r);
        for (size_t kv = 0; kv < (size_t)p->kv_heads; kv++) {
            const void *at[ROWS];
            for (size_t r = 0; r < rows; r++)
                at[r] = row[r] ? row[r] + kv * Dv * size_of(type) : (const char *)b->zeros;
            v->c->k->weigh_stored(part + kv * group * Dv, Dv, group, b->scores + (kv * ATTEND_KEYS + (size_t)i) * width,
                                  width, at, rows, type, Dv);
        }
    }
}

/* Keys [first, first + n), a block. */
static void attend_block(const attention_view *v, const attention_strip *s, const buffers *b, float *part,
                         int64_t first, int64_t n)
{
    const attention_plan *p = v->p;
    size_t Dv = (size_t)p->Dv, width = (size_t)p->width;
    float *max = part + (size_t)p->heads * Dv, *sum = max + columns_all(p), scale[ATTEND_STRIP];
    make_scores(v, b, first, n);
    for (int64_t kv = 0; kv < p->kv_heads; kv++) {
        attention_view own = *v;
        size_t at = (size_t)kv * width;
        float *scores = b->scores + at * ATTEND_KEYS;
        own.kv = kv;
        attention_limit(&own, s, scores, first, n);
        if (v->c->k->softmax(scores, width, (size_t)n, width, max + at, sum + at, scale))
            for (int64_t g = 0; g < p->group; g++)
                v->c->k->affine(part + (size_t)(kv * p->group + g) * Dv, scale[g], 0, Dv);
    }
    add_values(v, b, part, first, n);
}

static kiln_status chunk_tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const attention_plan *p = j->c->plan;
    size_t chunks = chunks_of(p);
    int64_t begin = (int64_t)(index % chunks) * KEYS_OF_CHUNK;
    attention_view v = attention_view_of(j->c, j->a, (int64_t)(index / chunks), 0);
    attention_strip s = attention_strip_at(&v, 0, p->columns);
    buffers b = buffers_at(j, slot);
    float *part = part_at(j, index), *max = part + p->heads * p->Dv;
    int64_t low = v.key_position ? 0 : s.low, high = min64(v.key_position ? v.length : s.high, v.length), loaded = 0;
    (void)e;
    memset(part, 0, part_floats(p) * sizeof *part);
    for (size_t i = 0; i < columns_all(p); i++) max[i] = -INFINITY;
    for (int64_t first = begin; first < min64(begin + KEYS_OF_CHUNK, high); first += ATTEND_KEYS) {
        int64_t n = min64(ATTEND_KEYS, high - first);
        if (first + n <= low || !attention_sees(&v, &s, first, n)) continue;
        if (!loaded) load_queries(&v, b.q);
        loaded = 1;
        attend_block(&v, &s, &b, part, first, n);
    }
    return KILN_OK;
}

/* ---- parts become results ---- */

static double sink_of(const attention_view *v, int64_t head)
{
    const operand_desc *d = &v->c->op.in[ATTEND_SINKS];
    float sink = -INFINITY;
    if (attention_has(&v->c->op, ATTEND_SINKS))
        v->c->k->load(&sink, place_of(d, v->a->in[ATTEND_SINKS], 0, head), type_of(d), 1);
    return (double)(sink * log2_e);
}

static void join_head(const attention_view *v, const call *j, int64_t head, float *row)
{
    const attention_plan *p = v->p;
    const operand_desc *out = &v->c->op.out;
    size_t chunks = chunks_of(p), first = (size_t)v->image * chunks, Dv = (size_t)p->Dv;
    size_t at = (size_t)p->heads * Dv + (size_t)(v->kv * p->width + head % p->group); /* its greatest score */
    double top = sink_of(v, head), total = 0;
    for (size_t i = 0; i < chunks; i++) {
        double own = (double)part_at(j, first + i)[at];
        if (own > top || isnan(own)) top = own;
    }
    if (sink_of(v, head) > -(double)INFINITY) total = exp2(sink_of(v, head) - top);
    memset(row, 0, Dv * sizeof *row);
    for (size_t i = 0; i < chunks; i++) {
        const float *part = part_at(j, first + i);
        if (part[at] == -INFINITY) continue; /* it saw no key */
        double factor = exp2((double)part[at] - top);
        total += factor * (double)part[at + columns_all(p)];
        v->c->k->axpy(row, part + (size_t)head * Dv, (float)factor, Dv);
    }
    v->c->k->affine(row, total > 0 || isnan(total) ? (float)(1 / total) : 0, 0, Dv);
    v->c->k->store((char *)v->a->out + (size_t)(v->image * out->ld + head * p->Dv) * size_of(out->dtype), out->dtype,
                   row, Dv);
    if (v->c->op.n_more && v->a->more[0])
        ((float *)v->a->more[0])[v->image * p->heads + head] =
            total > 0 ? (float)(top / (double)log2_e + log(total)) : -INFINITY;
}

static kiln_status join_tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const attention_plan *p = j->c->plan;
    int64_t head = (int64_t)index % p->heads;
    attention_view v = attention_view_of(j->c, j->a, (int64_t)index / p->heads, head / p->group);
    (void)e;
    join_head(&v, j, head, buffers_at(j, slot).zeros);
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
    TRY(tiles_run(a->pool, (size_t)p->images * chunks_of(p), chunk_tile, &j, e));
    return tiles_run(a->pool, (size_t)(p->images * p->heads), join_tile, &j, e);
}

int attention_decode_fits(const attention_plan *p) { return p->Tq == 1 && p->group <= ATTEND_STRIP; }

void attention_decode_prepare(cpu_kernel *c)
{
    const attention_plan *p = c->plan;
    size_t parts = (size_t)p->images * chunks_of(p);
    c->body = run;
    c->base.scratch_bytes = (round_up(parts * part_floats(p), 16) + cpu_slots() * slot_floats(p)) * sizeof(float);
    c->base.name = "attention:decode";
}
