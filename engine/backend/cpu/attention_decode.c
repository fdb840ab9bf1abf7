/* attention_decode.c - attention of one query a head: rows of keys and values are read once, in the order in which they
 * lie and in the type in which they are stored, by all heads. Keys are cut into chunks by their index alone, so that
 * there is work for every thread and a sum does not depend on how many keys there could be; a chunk's part is a
 * greatest score, a sum and a row for each column (a query of a head), and parts are joined in order.
 */
#include "backend/cpu/attention_decode.h"

#include <math.h>
#include <string.h>

enum { KEYS_OF_CHUNK = 4 * ATTEND_KEYS };

typedef struct {
    const cpu_kernel *c;
    const kernel_args *a;
} call;

static size_t lines(int64_t n) { return round_up((size_t)n, ATTEND_LINE); }
static size_t columns_all(const attention_plan *p) { return (size_t)(p->kv_heads * p->columns); }
static size_t chunks_of(const attention_plan *p)
{
    return p->Tk ? (size_t)((p->Tk + KEYS_OF_CHUNK - 1) / KEYS_OF_CHUNK) : 1;
}
static int64_t wider(const attention_plan *p) { return p->D > p->Dv ? p->D : p->Dv; }

/* Scratch: queries [image][column][D], parts, and a slot's own. A part: arranged sums [column][Dv], greatest scores and
 * sums of exponentials. */
static size_t query_floats(const attention_plan *p) { return columns_all(p) * lines(p->D); }
static size_t part_floats(const attention_plan *p)
{
    return round_up(columns_all(p) * (lines(p->Dv) + 2), ATTEND_LINE);
}
static float *query_at(const call *j, int64_t image)
{
    return (float *)j->a->scratch + (size_t)image * query_floats(j->c->plan);
}
static float *part_at(const call *j, size_t index)
{
    const attention_plan *p = j->c->plan;
    return query_at(j, p->images) + index * part_floats(p);
}

typedef struct { /* a slot's: scores of a block [column][key], and of one head of k, or one query of each,
                    [key][column]; zeros */
    float *scores, *turned, *zeros;
} buffers;

/* Scores, in whose place a column's sums are joined. */
static size_t score_floats(const attention_plan *p)
{
    size_t n = ATTEND_KEYS * (columns_all(p) + (size_t)(p->width + p->kv_heads));
    return n > lines(p->Dv) ? n : lines(p->Dv);
}
static size_t zero_floats(const attention_plan *p) { return (size_t)(p->kv_heads * wider(p)); }
static size_t slot_floats(const attention_plan *p) { return round_up(score_floats(p) + zero_floats(p), ATTEND_LINE); }
static buffers buffers_at(const call *j, unsigned slot)
{
    const attention_plan *p = j->c->plan;
    buffers b = {.scores = part_at(j, (size_t)p->images * chunks_of(p)) + slot * slot_floats(p)};
    b.turned = b.scores + ATTEND_KEYS * columns_all(p);
    b.zeros = b.scores + score_floats(p);
    memset(b.zeros, 0, zero_floats(p) * sizeof(float));
    return b;
}

/* ---- queries ---- */

/* Products of bf16 are exact, so such queries stay as they are. */
static int in_pairs(const cpu_kernel *c)
{
    return c->k->key_scores_bf16 && type_of(&c->op.in[ATTEND_Q]) == KILN_BF16 &&
           type_of(&c->op.in[ATTEND_K]) == KILN_BF16;
}

/* Column `index` of all images: its query, as key_scores() wants it. */
static kiln_status query_tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const attention_plan *p = j->c->plan;
    const operand_desc *q = &j->c->op.in[ATTEND_Q];
    int64_t image = (int64_t)index / p->heads, head = (int64_t)index % p->heads;
    float *row = buffers_at(j, slot).zeros;
    (void)e;
    for (int64_t t = 0; t < p->Tq; t++) {
        const char *from = place_of(q, j->a->in[ATTEND_Q], image * p->Tq + t, head * p->D);
        float *to = query_at(j, image) + (size_t)(head * p->Tq + t) * lines(p->D);
        if (in_pairs(j->c)) {
            memcpy(to, from, (size_t)p->D * sizeof(uint16_t));
            memset((uint16_t *)(void *)to + p->D, 0, (lines(p->D) - (size_t)p->D) * sizeof(uint16_t));
            continue;
        }
        j->c->k->load(row, from, type_of(q), (size_t)p->D);
        j->c->k->arrange(to, row, type_of(&j->c->op.in[ATTEND_K]), (size_t)p->D);
    }
    return KILN_OK;
}

/* ---- a block of keys ---- */

/* A key's or value's row as it is stored; zeros where nothing is. */
static const char *row_of(const attention_view *v, const buffers *b, uint32_t operand, int64_t key)
{
    int64_t row = attention_key_row(v, key);
    return row < 0 ? (const char *)b->zeros : place_of(&v->c->op.in[operand], v->a->in[operand], row, 0);
}

/* Some rows from `first` on; zeros from `end` on. */
static void set_of(const attention_view *v, const buffers *b, uint32_t operand, int64_t first, int64_t end,
                   const char **row, int64_t set)
{
    for (int64_t r = 0; r < set; r++)
        row[r] = first + r < end ? row_of(v, b, operand, first + r) : (const char *)b->zeros;
}
/* Rows of a set that are taken together, a multiple of `least`: what comes from the nearest cache then. */
static int64_t set_rows(const attention_view *v, uint32_t operand, int64_t least)
{
    enum { NEAR = 16384 };
    const operand_desc *d = &v->c->op.in[operand];
    int64_t row = (d->weight ? columns_of(d) : d->ld) * (int64_t)size_of(type_of(d)), n = row ? NEAR / row : least;
    return n > ATTEND_KEYS ? ATTEND_KEYS : n > least ? n / least * least : least;
}
/* Bytes from a set of rows to the one that is fetched meanwhile. */
static size_t set_bytes(const attention_view *v, uint32_t operand, size_t set)
{
    enum { LEAST = 4096 };
    const operand_desc *d = &v->c->op.in[operand];
    size_t row = (size_t)(d->weight ? columns_of(d) : d->ld) * size_of(type_of(d));
    return row ? round_up(LEAST, set * row) : 0;
}

/* One query a head: row after row. */
static void score_rows(const attention_view *v, const buffers *b, const float *q, int64_t first, int64_t n)
{
    const attention_plan *p = v->p;
    size_t D = (size_t)p->D, heads = (size_t)p->kv_heads, ldq = lines(p->D);
    for (int64_t i = 0; i < n; i++) {
        const char *row = row_of(v, b, ATTEND_K, first + i);
        float *to = b->turned + (size_t)i * heads;
        if (in_pairs(v->c))
            v->c->k->key_row_bf16(to, (const uint16_t *)(const void *)q, 2 * ldq, heads, row, D);
        else
            v->c->k->key_row(to, q, ldq, heads, row, type_of(&v->c->op.in[ATTEND_K]), D);
    }
    v->c->k->transpose(b->scores, ATTEND_KEYS, b->turned, heads, (size_t)n, heads);
}

static void score_sets(const attention_view *v, const buffers *b, const float *q, int64_t first, int64_t n)
{
    const attention_plan *p = v->p;
    uint32_t type = type_of(&v->c->op.in[ATTEND_K]);
    size_t D = (size_t)p->D, m = (size_t)p->columns, ldq = lines(p->D), ahead = set_bytes(v, ATTEND_K, ATTEND_KEY_SET);
    int64_t set = p->kv_heads == 1 ? ATTEND_KEYS : ATTEND_KEY_SET, now;
    for (int64_t i = 0; i < n; i += now) {
        const char *row[ATTEND_KEYS];
        const void *at[ATTEND_KEYS];
        now = (int64_t)round_up((size_t)min64(set, n - i), ATTEND_KEY_SET);
        set_of(v, b, ATTEND_K, first + i, first + n, row, now);
        for (size_t h = 0; h < (size_t)p->kv_heads; h++) {
            float *to = b->scores + h * m * ATTEND_KEYS + i;
            const float *own = q + h * m * ldq;
            for (int64_t r = 0; r < now; r++) at[r] = row[r] + h * D * size_of(type);
            if (in_pairs(v->c))
                v->c->k->key_scores_bf16(to, ATTEND_KEYS, (const uint16_t *)(const void *)own, 2 * ldq, m, at,
                                         (size_t)now, D, ahead);
            else
                v->c->k->key_scores(to, ATTEND_KEYS, own, ldq, m, at, (size_t)now, type, D, ahead);
        }
    }
}

static void make_scores(const attention_view *v, const buffers *b, const float *q, int64_t first, int64_t n)
{
    if (v->p->columns == 1)
        score_rows(v, b, q, first, n);
    else
        score_sets(v, b, q, first, n);
    for (size_t c = 0; c < columns_all(v->p); c++)
        for (int64_t i = n; i < ATTEND_KEYS; i++) b->scores[c * ATTEND_KEYS + (size_t)i] = -INFINITY;
}

static void add_values(const attention_view *v, const buffers *b, float *part, int64_t first, int64_t n)
{
    const attention_plan *p = v->p;
    uint32_t type = type_of(&v->c->op.in[ATTEND_V]);
    size_t Dv = (size_t)p->Dv, m = (size_t)p->columns, heads = (size_t)p->kv_heads, ld = lines(p->Dv);
    int64_t set = set_rows(v, ATTEND_V, ATTEND_VALUE_SET), now;
    size_t ahead = set_bytes(v, ATTEND_V, (size_t)set);
    for (int64_t i = 0; i < n && m == 1; i++)
        v->c->k->value_row(part, ld, b->scores + i, ATTEND_KEYS, heads, row_of(v, b, ATTEND_V, first + i), type, Dv);
    for (int64_t i = 0; i < n && m > 1; i += now) {
        const char *row[ATTEND_KEYS];
        const void *at[ATTEND_KEYS];
        now = (int64_t)round_up((size_t)min64(set, n - i), ATTEND_VALUE_SET);
        set_of(v, b, ATTEND_V, first + i, first + n, row, now);
        for (size_t h = 0; h < heads; h++) {
            for (int64_t r = 0; r < now; r++) at[r] = row[r] + h * Dv * size_of(type);
            v->c->k->value_sums(part + h * m * ld, ld, b->scores + h * m * ATTEND_KEYS + i, ATTEND_KEYS, m, at,
                                (size_t)now, type, Dv, ahead);
        }
    }
}

/* Is there nothing to do for attention_limit()? */
static int is_free(const attention_view *v, int64_t first, int64_t n)
{
    const op_desc *op = &v->c->op;
    const attention_attr *a = &op->attr.attention;
    int64_t low = v->offset, high = low + v->p->Tq - 1, last = first + n - 1;
    if (a->softcap > 0 || attention_has(op, ATTEND_MASK) || attention_has(op, ATTEND_TABLE)) return 0;
    if (v->key_position || v->q_segment) return 0;
    return (!a->causal || last <= low) && (!a->window || (high - a->left <= first && last - a->right <= low));
}

static void limit_scores(const attention_view *v, const attention_strip *s, const buffers *b, int64_t first, int64_t n)
{
    const attention_plan *p = v->p;
    size_t m = (size_t)p->columns, width = (size_t)p->width;
    for (int64_t kv = 0; kv < p->kv_heads; kv++) {
        attention_view own = *v;
        float *scores = b->scores + (size_t)kv * m * ATTEND_KEYS;
        own.kv = kv;
        memset(b->turned, 0, ATTEND_KEYS * width * sizeof(float));
        v->c->k->transpose(b->turned, width, scores, ATTEND_KEYS, m, (size_t)n);
        attention_limit(&own, s, b->turned, first, n);
        v->c->k->transpose(scores, ATTEND_KEYS, b->turned, width, (size_t)n, m);
    }
}

/* Keys [first, first + n), a block. */
static void attend_block(const attention_view *v, const attention_strip *s, const buffers *b, const float *q,
                         float *part, int64_t first, int64_t n)
{
    const attention_plan *p = v->p;
    const attention_attr *a = &v->c->op.attr.attention;
    size_t ld = lines(p->Dv), all = columns_all(p);
    float *max = part + all * ld, *sum = max + all, factor = a->softcap > 0 ? a->scale / a->softcap : a->scale * log2_e;
    make_scores(v, b, q, first, n);
    if (!is_free(v, first, n)) {
        for (size_t c = 0; c < all; c++) v->c->k->affine(b->scores + c * ATTEND_KEYS, factor, 0, (size_t)n);
        limit_scores(v, s, b, first, n);
        factor = 1;
    }
    for (size_t c = 0; c < all; c++) {
        float scale = v->c->k->softmax_keys(b->scores + c * ATTEND_KEYS, ATTEND_KEYS, factor, max + c, sum + c);
        if (scale != 1) v->c->k->affine(part + c * ld, scale, 0, ld); /* NOLINT: NaN too */
    }
    add_values(v, b, part, first, n);
}

static kiln_status chunk_tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const attention_plan *p = j->c->plan;
    size_t chunks = chunks_of(p), all = columns_all(p);
    int64_t begin = (int64_t)(index % chunks) * KEYS_OF_CHUNK;
    attention_view v = attention_view_of(j->c, j->a, (int64_t)(index / chunks), 0);
    attention_strip s = attention_strip_at(&v, 0, p->columns);
    buffers b = buffers_at(j, slot);
    float *part = part_at(j, index), *max = part + all * lines(p->Dv);
    int64_t low = v.key_position ? 0 : s.low, high = min64(v.key_position ? v.length : s.high, v.length);
    (void)e;
    memset(part, 0, part_floats(p) * sizeof *part);
    for (size_t i = 0; i < all; i++) max[i] = -INFINITY;
    for (int64_t first = begin; first < min64(begin + KEYS_OF_CHUNK, high); first += ATTEND_KEYS) {
        int64_t n = min64(ATTEND_KEYS, high - first);
        if (first + n <= low || !attention_sees(&v, &s, first, n)) continue;
        attend_block(&v, &s, &b, query_at(j, v.image), part, first, n);
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

/* Column head Tq + query; sums: room for it, arranged and not. */
static void join_column(const attention_view *v, const call *j, int64_t head, int64_t query, float *sums, float *row)
{
    const attention_plan *p = v->p;
    const operand_desc *out = &v->c->op.out;
    size_t chunks = chunks_of(p), first = (size_t)v->image * chunks, Dv = (size_t)p->Dv, ld = lines(p->Dv);
    size_t column = (size_t)(head * p->Tq + query), at = columns_all(p) * ld + column; /* its greatest score */
    double top = sink_of(v, head), total = 0;
    for (size_t i = 0; i < chunks; i++) {
        double own = (double)part_at(j, first + i)[at];
        if (own > top || isnan(own)) top = own;
    }
    if (sink_of(v, head) > -(double)INFINITY) total = exp2(sink_of(v, head) - top);
    memset(sums, 0, ld * sizeof *sums);
    for (size_t i = 0; i < chunks; i++) {
        const float *part = part_at(j, first + i);
        if (part[at] == -INFINITY) continue; /* it saw no key */
        double factor = exp2((double)part[at] - top);
        total += factor * (double)part[at + columns_all(p)];
        v->c->k->axpy(sums, part + column * ld, (float)factor, ld);
    }
    v->c->k->arrange_back(row, sums, type_of(&v->c->op.in[ATTEND_V]), Dv);
    v->c->k->affine(row, total > 0 || isnan(total) ? (float)(1 / total) : 0, 0, Dv);
    int64_t place = (v->image * p->Tq + query) * out->ld + head * p->Dv;
    v->c->k->store((char *)v->a->out + (size_t)place * size_of(out->dtype), out->dtype, row, Dv);
    if (v->c->op.n_more && v->a->more[0])
        ((float *)v->a->more[0])[(v->image * p->heads + head) * p->Tq + query] =
            total > 0 || isnan(total) ? (float)(top / (double)log2_e + log(total)) : -INFINITY;
}

static kiln_status join_tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const attention_plan *p = j->c->plan;
    int64_t head = (int64_t)index % p->heads;
    attention_view v = attention_view_of(j->c, j->a, (int64_t)index / p->heads, head / p->group);
    buffers b = buffers_at(j, slot);
    (void)e;
    for (int64_t t = 0; t < p->Tq; t++) join_column(&v, j, head, t, b.scores, b.zeros);
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
    TRY(tiles_run(a->pool, (size_t)(p->images * p->heads), query_tile, &j, e));
    TRY(tiles_run(a->pool, (size_t)p->images * chunks_of(p), chunk_tile, &j, e));
    return tiles_run(a->pool, (size_t)(p->images * p->heads), join_tile, &j, e);
}

/* Several queries go to attention.c, whatever their number: rows have equal bytes in every bucket of queries. */
int attention_decode_fits(const attention_plan *p) { return p->Tq == 1 && p->group <= ATTEND_STRIP; }

void attention_decode_prepare(cpu_kernel *c)
{
    const attention_plan *p = c->plan;
    size_t parts = (size_t)p->images * chunks_of(p);
    c->body = run;
    c->base.scratch_bytes =
        ((size_t)p->images * query_floats(p) + parts * part_floats(p) + cpu_slots() * slot_floats(p)) * sizeof(float);
    c->base.name = "attention:decode";
}
