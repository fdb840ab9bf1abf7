/* attention.c - softmax(q k^T scale + mask) v without the score matrix: for a block of queries of one head, keys are
 * taken 64 at a time, scores made, exponentiated against a running maximum and multiplied into the sums
 * (Dao et al., "FlashAttention", 2022; Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018).
 *
 * Everything is transposed: scores are [key][query] and sums [channel][query], 64 queries to a strip, so that
 * maxima and sums of the softmax are vectors, K and V are used as they lie, and no head size needs padding. All
 * arithmetic is f32, whatever the storage; K and V are widened block by block into scratch that stays in cache. A query
 * that sees no key gives 0.
 */
#include "backend/cpu/cpu.h"

#include "base/memory_alloc.h"

#include <math.h>
#include <string.h>

static const float log2_e = 1.44269504f; /* scores are kept in base 2 */
enum { KEYS = 64, STRIP = 64, STRIPS = 4 };

typedef struct {
    int64_t images, heads, Tq, Tk, D, strips, column_tiles; /* blocks of `strips` strips of queries */
    size_t slot_floats;
} attention_plan;

typedef struct {
    const cpu_kernel *c;
    const kernel_args *a;
} call;

typedef struct { /* one slot's scratch: q and sums [strip][D][STRIP], keys and values [KEYS][D] */
    float *q, *sums, *keys, *values, *scores, *row, *max, *sum;
} buffers;

static buffers buffers_at(const attention_plan *p, float *at)
{
    buffers b;
    size_t D = (size_t)p->D, n = (size_t)p->strips;
    b.q = at, at += n * D * STRIP;
    b.sums = at, at += n * D * STRIP;
    b.keys = at, at += KEYS * D;
    b.values = at, at += KEYS * D;
    b.scores = at, at += KEYS * STRIP;
    b.row = at, at += STRIP * D;
    b.max = at, at += n * STRIP;
    b.sum = at;
    return b;
}
static size_t slot_size(const attention_plan *p)
{
    size_t D = (size_t)p->D, n = (size_t)p->strips;
    return round_up(2 * n * D * STRIP + (2 * KEYS + STRIP) * D + KEYS * STRIP + 2 * n * STRIP, 16);
}

/* Rows [row, row+n) of one head of an operand, as dense f32. */
static void load_head(const call *j, uint32_t operand, int64_t row, int64_t n, int64_t head, float *to)
{
    const attention_plan *p = j->c->plan;
    const operand_desc *d = &j->c->op.in[operand];
    for (int64_t i = 0; i < n; i++)
        j->c->k->load(to + i * p->D, place_of(d, j->a->in[operand], row + i, head * p->D), type_of(d), (size_t)p->D);
}

/* Adds the mask to the scores of `query`, column `at`, and hides keys beyond it when causal. */
static void hide(const call *j, float *at, int64_t image, int64_t head, int64_t query, int64_t first, int64_t n)
{
    const op_desc *op = &j->c->op;
    if (op->n_in > 3 && op->in[3].dtype) {
        const operand_desc *m = &op->in[3];
        const int64_t *d = m->shape.dim;
        int64_t row = ((d[0] == 1 ? 0 : image) * d[1] + (d[1] == 1 ? 0 : head)) * d[2] + (d[2] == 1 ? 0 : query);
        float mask[KEYS];
        j->c->k->load(mask, place_of(m, j->a->in[3], row, first), type_of(m), (size_t)n);
        for (int64_t i = 0; i < n; i++) at[i * STRIP] += mask[i] * log2_e;
    }
    for (int64_t i = 0; op->attr.attention.causal && i < n; i++)
        if (first + i > query) at[i * STRIP] = -INFINITY;
}

/* Keys [first, first+n) against one strip of `queries` queries from `query` on. */
static void attend_strip(const call *j, const buffers *b, int64_t strip, int64_t image, int64_t head, int64_t query,
                         int64_t queries, int64_t first, int64_t n)
{
    const attention_plan *p = j->c->plan;
    const op_desc *op = &j->c->op;
    const cpu_kernels *k = j->c->k;
    size_t D = (size_t)p->D;
    float *sums = b->sums + (size_t)strip * D * STRIP, scale[STRIP];
    k->gemm((size_t)n, STRIP, D, b->keys, D, 1, b->q + (size_t)strip * D * STRIP, STRIP, b->scores, STRIP, 0);
    for (int64_t i = 0; (op->attr.attention.causal || (op->n_in > 3 && op->in[3].dtype)) && i < queries; i++)
        hide(j, b->scores + i, image, head, query + i, first, n);
    if (k->softmax(b->scores, STRIP, (size_t)n, STRIP, b->max + strip * STRIP, b->sum + strip * STRIP, scale))
        for (size_t i = 0; i < D; i++) k->mul(sums + i * STRIP, scale, STRIP);
    k->gemm(D, STRIP, (size_t)n, b->values, 1, D, b->scores, STRIP, sums, STRIP, 1);
}

/* The block's queries, scaled, on their side; unused columns are 0. */
static void load_queries(const call *j, const buffers *b, int64_t row, int64_t head, int64_t queries)
{
    const attention_plan *p = j->c->plan;
    size_t D = (size_t)p->D, all = (size_t)p->strips * D * STRIP;
    memset(b->q, 0, all * sizeof(float));
    memset(b->sums, 0, all * sizeof(float));
    memset(b->sum, 0, (size_t)(p->strips * STRIP) * sizeof(float));
    for (int64_t i = 0; i < p->strips * STRIP; i++) b->max[i] = -INFINITY;
    for (int64_t s = 0; s * STRIP < queries; s++) {
        int64_t n = min64(STRIP, queries - s * STRIP);
        load_head(j, 0, row + s * STRIP, n, head, b->row);
        j->c->k->affine(b->row, j->c->op.attr.attention.scale * log2_e, 0, (size_t)n * D);
        j->c->k->transpose(b->q + (size_t)s * D * STRIP, STRIP, b->row, D, (size_t)n, D);
    }
}

static void store_queries(const call *j, const buffers *b, int64_t row, int64_t head, int64_t queries)
{
    const attention_plan *p = j->c->plan;
    const operand_desc *out = &j->c->op.out;
    size_t D = (size_t)p->D;
    for (int64_t s = 0; s * STRIP < queries; s++) {
        int64_t n = min64(STRIP, queries - s * STRIP);
        j->c->k->transpose(b->row, D, b->sums + (size_t)s * D * STRIP, STRIP, D, STRIP);
        for (int64_t i = 0; i < n; i++) {
            float sum = b->sum[s * STRIP + i], *sums = b->row + (size_t)i * D;
            j->c->k->affine(sums, sum > 0 ? 1 / sum : 0, 0, D);
            j->c->k->store((char *)j->a->out +
                               (size_t)((row + s * STRIP + i) * out->ld + head * p->D) * size_of(out->dtype),
                           out->dtype, sums, D);
        }
    }
}

static kiln_status tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const attention_plan *p = j->c->plan;
    (void)e;
    int64_t block = (int64_t)index % p->column_tiles, head = (int64_t)index / p->column_tiles % p->heads;
    int64_t image = (int64_t)index / p->column_tiles / p->heads, first = block * p->strips * STRIP;
    int64_t queries = min64(p->strips * STRIP, p->Tq - first), row = image * p->Tq + first;
    int64_t keys = j->c->op.attr.attention.causal ? min64(p->Tk, first + queries) : p->Tk;
    buffers b = buffers_at(p, (float *)j->a->scratch + slot * p->slot_floats);
    load_queries(j, &b, row, head, queries);
    for (int64_t k = 0; k < keys; k += KEYS) {
        int64_t n = min64(KEYS, keys - k);
        load_head(j, 1, image * p->Tk + k, n, head, b.keys);
        load_head(j, 2, image * p->Tk + k, n, head, b.values);
        for (int64_t s = 0; s * STRIP < queries; s++)
            attend_strip(j, &b, s, image, head, first + s * STRIP, min64(STRIP, queries - s * STRIP), k, n);
    }
    store_queries(j, &b, row, head, queries);
    return KILN_OK;
}

static kiln_status run(const cpu_kernel *c, const kernel_args *a, error *e)
{
    const attention_plan *p = c->plan;
    call j = {c, a};
    return tiles_run(a->pool, (size_t)(p->images * p->heads * p->column_tiles), tile, &j, e);
}

kiln_status cpu_prepare_attention(cpu_kernel *c, error *e)
{
    const op_desc *op = &c->op;
    attention_plan *p = mem_calloc(1, sizeof *p);
    if (!p) return error_set(e, KILN_ERR_NOMEM, "out of memory for a kernel");
    c->plan = p, c->plan_free = mem_free, c->body = run;
    p->images = op->in[0].shape.dim[0], p->heads = op->attr.attention.heads;
    p->Tq = op->in[0].shape.dim[1], p->Tk = op->in[1].shape.dim[1];
    p->D = op->in[0].shape.dim[2] / p->heads;
    /* More strips in a block spare widening K and V, fewer give every thread something to do. */
    int64_t strips = (p->Tq + STRIP - 1) / STRIP;
    p->strips = strips >= 4 * STRIPS ? STRIPS : strips >= 4 ? strips / 4 : 1;
    p->column_tiles = (strips + p->strips - 1) / p->strips;
    p->slot_floats = slot_size(p);
    c->base.scratch_bytes = cpu_slots() * p->slot_floats * sizeof(float);
    c->base.flops = 4u * (uint64_t)(p->images * p->heads * p->Tq) * (uint64_t)(p->Tk * p->D);
    c->base.name = "attention:online";
    return KILN_OK;
}
