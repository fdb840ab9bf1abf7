/* attention.c - softmax(q k^T scale + mask) v without the score matrix: for a block of queries of one head, keys are
 * taken 64 at a time, scores made, exponentiated against a running maximum and multiplied into the sums
 * (Dao et al., "FlashAttention", 2022; Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018).
 *
 * All arithmetic is f32, whatever the storage: K is widened and transposed, V widened, block by block, into
 * scratch that stays in the second-level cache; a block of queries is large enough to pay for that. Head sizes
 * are padded to 16 with zeros. A query that sees no key gives 0.
 */
#include "backend/cpu/cpu.h"

#include "base/memory_alloc.h"

#include <math.h>
#include <string.h>

enum { KEYS = 64, STRIP = 12, MAX_QUERIES = 256 };

typedef struct {
    int64_t images, heads, Tq, Tk, D, padded, queries, blocks; /* blocks: of `queries` each */
    size_t slot_floats;
} attention_plan;

typedef struct {
    const cpu_kernel *c;
    const kernel_args *a;
} call;

typedef struct { /* one slot's scratch */
    float *q, *sums, *keys, *values, *scores, *rows, *most, *total;
} buffers;

static buffers buffers_at(const attention_plan *p, float *at)
{
    buffers b;
    size_t D = (size_t)p->padded, n = (size_t)p->queries;
    b.q = at, at += n * D;
    b.sums = at, at += n * D;
    b.keys = at, at += KEYS * D;
    b.values = at, at += KEYS * D;
    b.scores = at, at += STRIP * KEYS;
    b.rows = at, at += KEYS * D;
    b.most = at, at += n;
    b.total = at;
    return b;
}
static size_t slot_size(const attention_plan *p)
{
    size_t D = (size_t)p->padded, n = (size_t)p->queries;
    return round_up(2 * n * D + 3 * KEYS * D + STRIP * KEYS + 2 * n, 16);
}

/* Keys [first, first+n) of one head: K transposed and V, padded with zeros to KEYS and D. */
static void load_keys(const call *j, const buffers *b, int64_t image, int64_t head, int64_t first, int64_t n)
{
    const attention_plan *p = j->c->plan;
    const cpu_kernels *k = j->c->k;
    const operand_desc *K = &j->c->op.in[1], *V = &j->c->op.in[2];
    size_t D = (size_t)p->D, padded = (size_t)p->padded;
    for (int64_t i = 0; i < n; i++) {
        int64_t row = image * p->Tk + first + i;
        k->load(b->rows + (size_t)i * D, place_of(K, j->a->in[1], row, head * p->D), type_of(K), D);
        k->load(b->values + (size_t)i * padded, place_of(V, j->a->in[2], row, head * p->D), type_of(V), D);
    }
    k->transpose(b->keys, KEYS, b->rows, D, (size_t)n, D);
    if (n == KEYS) return;
    for (size_t i = 0; i < D; i++) memset(b->keys + i * KEYS + n, 0, (size_t)(KEYS - n) * sizeof(float));
    memset(b->values + (size_t)n * padded, 0, (size_t)(KEYS - n) * padded * sizeof(float));
}

/* Adds the mask and hides what is beyond the last key or, causal, beyond the query. */
static void hide(const call *j, float *s, int64_t image, int64_t head, int64_t query, int64_t first, int64_t n)
{
    const attention_plan *p = j->c->plan;
    const op_desc *op = &j->c->op;
    if (op->n_in > 3 && op->in[3].dtype) {
        const operand_desc *m = &op->in[3];
        const int64_t *d = m->shape.dim;
        int64_t row = ((d[0] == 1 ? 0 : image) * d[1] + (d[1] == 1 ? 0 : head)) * d[2] + (d[2] == 1 ? 0 : query);
        float mask[KEYS];
        j->c->k->load(mask, place_of(m, j->a->in[3], row, first), type_of(m), (size_t)n);
        j->c->k->add(s, mask, (size_t)n);
    }
    int64_t seen = op->attr.attention.causal ? min64(p->Tk, query + 1) - first : n;
    seen = seen < 0 ? 0 : min64(seen, n);
    for (int64_t i = seen; i < KEYS; i++) s[i] = -INFINITY;
}

/* One block of keys against the queries of this tile, STRIP rows at a time so that scores stay in the first cache. */
static void attend_block(const call *j, const buffers *b, int64_t image, int64_t head, int64_t first_query, int64_t queries,
                         int64_t first, int64_t n)
{
    const attention_plan *p = j->c->plan;
    const op_desc *op = &j->c->op;
    const cpu_kernels *k = j->c->k;
    size_t D = (size_t)p->D, padded = (size_t)p->padded;
    int plain = n == KEYS && !op->attr.attention.causal && !(op->n_in > 3 && op->in[3].dtype);
    for (int64_t r = 0; r < queries; r += STRIP) {
        size_t rows = (size_t)min64(STRIP, queries - r);
        float *sums = b->sums + (size_t)r * padded, scale[STRIP];
        k->gemm(rows, KEYS, D, b->q + (size_t)r * padded, padded, b->keys, KEYS, b->scores, KEYS, 0);
        for (size_t i = 0; !plain && i < rows; i++)
            hide(j, b->scores + i * KEYS, image, head, first_query + r + (int64_t)i, first, n);
        k->softmax(b->scores, KEYS, rows, KEYS, b->most + r, b->total + r, scale);
        for (size_t i = 0; i < rows; i++)
            if (scale[i] < 1) k->affine(sums + i * padded, scale[i], 0, padded);
        k->gemm(rows, padded, KEYS, b->scores, KEYS, b->values, padded, sums, padded, 1);
    }
}

static void load_queries(const call *j, const buffers *b, int64_t row, int64_t head, int64_t n)
{
    const attention_plan *p = j->c->plan;
    const operand_desc *Q = &j->c->op.in[0];
    for (int64_t i = 0; i < n; i++) {
        float *q = b->q + i * p->padded;
        j->c->k->load(q, place_of(Q, j->a->in[0], row + i, head * p->D), type_of(Q), (size_t)p->D);
        j->c->k->affine(q, j->c->op.attr.attention.scale, 0, (size_t)p->D);
        b->most[i] = -INFINITY;
        b->total[i] = 0;
    }
    memset(b->sums, 0, (size_t)(n * p->padded) * sizeof(float));
}

static kiln_status tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const attention_plan *p = j->c->plan;
    const op_desc *op = &j->c->op;
    (void)e;
    int64_t block = (int64_t)index % p->blocks, head = (int64_t)index / p->blocks % p->heads;
    int64_t image = (int64_t)index / p->blocks / p->heads, first = block * p->queries;
    int64_t n = min64(p->queries, p->Tq - first), row = image * p->Tq + first;
    int64_t keys = op->attr.attention.causal ? min64(p->Tk, first + n) : p->Tk;
    buffers b = buffers_at(p, (float *)j->a->scratch + slot * p->slot_floats);
    memset(b.values, 0, (size_t)(KEYS * p->padded) * sizeof(float)); /* the padding of V stays 0 */
    load_queries(j, &b, row, head, n);
    for (int64_t k = 0; k < keys; k += KEYS) {
        int64_t width = min64(KEYS, p->Tk - k);
        load_keys(j, &b, image, head, k, width);
        attend_block(j, &b, image, head, first, n, k, width);
    }
    for (int64_t i = 0; i < n; i++) {
        float *sums = b.sums + i * p->padded;
        j->c->k->affine(sums, b.total[i] > 0 ? 1 / b.total[i] : 0, 0, (size_t)p->D);
        j->c->k->store((char *)j->a->out + (size_t)((row + i) * op->out.ld + head * p->D) * size_of(op->out.dtype), op->out.dtype,
                       sums, (size_t)p->D);
    }
    return KILN_OK;
}

static kiln_status run(const cpu_kernel *c, const kernel_args *a, error *e)
{
    const attention_plan *p = c->plan;
    call j = {c, a};
    return tiles_run(a->pool, (size_t)(p->images * p->heads * p->blocks), tile, &j, e);
}

kiln_status cpu_prepare_attention(cpu_kernel *c, error *e)
{
    const op_desc *op = &c->op;
    attention_plan *p = mem_calloc(1, sizeof *p);
    if (!p) return error_set(e, KILN_ERR_NOMEM, "out of memory for a kernel");
    c->plan = p, c->plan_free = mem_free, c->body = run;
    p->images = op->in[0].shape.dim[0], p->heads = op->attr.attention.heads;
    p->Tq = op->in[0].shape.dim[1], p->Tk = op->in[1].shape.dim[1];
    p->D = op->in[0].shape.dim[2] / p->heads, p->padded = (int64_t)round_up((size_t)p->D, 16);
    /* Larger blocks spare transposing, smaller ones give every thread something to do. */
    p->queries = p->Tq >= 4 * MAX_QUERIES ? MAX_QUERIES : (int64_t)round_up((size_t)(p->Tq + 3) / 4, STRIP);
    if (p->queries < STRIP) p->queries = STRIP;
    p->blocks = (p->Tq + p->queries - 1) / p->queries;
    p->slot_floats = slot_size(p);
    c->base.scratch_bytes = cpu_slots() * p->slot_floats * sizeof(float);
    c->base.flops = 4u * (uint64_t)(p->images * p->heads * p->Tq) * (uint64_t)(p->Tk * p->D);
    c->base.name = "attention:online";
    return KILN_OK;
}
