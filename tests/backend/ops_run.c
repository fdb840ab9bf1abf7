/* ops_run.c - see ops_run.h. */
#include "ops_run.h"

#include "base/memory_alloc.h"
#include "busy_time.h"
#include "graph/expression.h"
#include "tensor/block.h"
#include "tensor/dtype.h"
#include "weights/packed_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { GUARD = 256 };
static const unsigned char guard_byte = 0xA5;

/* Numbers in -1..1 from a 32-bit mixer (SplitMix-like), exact in bf16 so that storage loses nothing; in f16 but for
 * those below 2^-17. */
static float number(uint32_t *state)
{
    uint32_t z = (*state += 0x9e3779b9u);
    z = (z ^ (z >> 16)) * 0x85ebca6bu;
    z = (z ^ (z >> 13)) * 0xc2b2ae35u;
    z ^= z >> 16;
    return bf16_to_f32(bf16_from_f32((float)(int32_t)z * 0x1p-31f));
}

static int64_t columns(const operand_desc *d) { return d->shape.rank ? d->shape.dim[d->shape.rank - 1] : 1; }
static int64_t rows(const operand_desc *d) { return columns(d) ? shape_count(&d->shape) / columns(d) : 0; }

/* Blocks that were searched for once, and the numbers that they stand for: an operand's numbers follow from its place
 * and their count, and most of what rows of such weights take is the search. Kept for the levels, types and row
 * distances to come; children inherit it. */
typedef struct searched searched;
struct searched {
    searched *next;
    uint32_t i, type;
    size_t n, bytes;
    float *number;
    unsigned char block[];
};
static searched *found;

static const searched *search(const op_setup *s, uint32_t i, size_t n)
{
    uint32_t type = s->op.in[i].dtype;
    size_t bytes;
    for (searched *f = found; f; f = f->next)
        if (f->i == i && f->type == type && f->n == n) return f;
    if (!dtype_bytes(type, n, &bytes)) return NULL;
    searched *f = malloc(sizeof *f + bytes); /* of no test that counts memory */
    float *number = malloc(n * sizeof *number);
    if (f && number && block_write(type, s->in[i], f->block, n) == KILN_OK &&
        block_read_plain(type, f->block, number, n) == KILN_OK) {
        f->next = found, f->i = i, f->type = type, f->n = n, f->bytes = bytes, f->number = number;
        return found = f;
    }
    free(f), free(number);
    return NULL;
}

static int to_blocks(op_setup *s, uint32_t i)
{
    size_t n = (size_t)shape_count(&s->op.in[i].shape);
    const searched *f = search(s, i, n);
    if (!f || !(s->blocks[i] = mem_alloc(f->bytes))) return 0;
    memcpy(s->blocks[i], f->block, f->bytes), memcpy(s->in[i], f->number, n * sizeof(float));
    return 1;
}

/* Codes, scales and codebook as stored_rows has them; the operand's numbers become those that they stand for. */
static void *make_codes(const operand_desc *d, float *number_of)
{
    const stored_rows *r = &d->rows;
    size_t scales_at = r->coding ? stored_rows_scales_at(r) : 0, n = (size_t)shape_count(&d->shape);
    char *all = mem_calloc(1, (r->coding ? stored_rows_codebook_at(r) : n) + 16 * sizeof(float));
    uint8_t *codes = (uint8_t *)all;
    float *scale = (float *)(void *)(all + scales_at);
    float *book = (float *)(void *)(all + (r->coding ? stored_rows_codebook_at(r) : n / 16 * 16));
    uint32_t type = d->stored ? d->stored : r->dtype;
    if (!all) return NULL;
    for (int64_t i = 0; i < r->rows * r->scales; i++) scale[i] = 0.004f + (float)(i * 7 % 13) * 0.0017f;
    for (int i = 0; i < 16 && r->coding == WEIGHTS_NIBBLES; i++) book[i] = (float)(i * i - 60) * 0.81f;
    for (size_t i = 0; i < n; i++) {
        uint8_t code = (uint8_t)(i * 2654435761u >> 13);
        float s =
            r->scales ? scale[(int64_t)i / r->columns * r->scales + (int64_t)i % r->columns / r->scale_columns] : 1;
        if (r->coding == WEIGHTS_NIBBLES) {
            codes[i / 2] |= (uint8_t)((code & 15) << (i % 2 ? 0 : 4));
            number_of[i] = book[code & 15] * s;
        } else if (r->coding == WEIGHTS_INT8) {
            codes[i] = code, number_of[i] = (float)(int8_t)code * s;
        } else { /* below 2 */
            codes[i] = code &= 0xbf;
            number_of[i] = (type == KILN_F8_E4M3 ? f8_e4m3_to_f32(code) : f8_e5m2_to_f32(code)) * s;
        }
    }
    return all;
}

/* What a row of the table does not say: rows are those of the op. */
static int to_codes(op_setup *s, uint32_t i)
{
    operand_desc *d = &s->op.in[i];
    stored_rows *r = &d->rows;
    int filter = s->op.kind == OP_CONV || s->op.kind == OP_CONV2D;
    r->columns = filter ? shape_count(&d->shape) / d->shape.dim[0] : columns(d);
    r->rows = shape_count(&d->shape) / r->columns;
    if (!r->scale_columns) r->scale_columns = r->columns;
    r->row_bytes = r->coding == WEIGHTS_NIBBLES ? r->columns / 2 : r->columns;
    r->scales = (r->columns + r->scale_columns - 1) / r->scale_columns;
    if (d->stored) *r = (stored_rows){0};
    return (s->blocks[i] = make_codes(d, s->in[i])) != NULL;
}

static int fill(op_setup *s, uint32_t i)
{
    const operand_desc *d = &s->op.in[i];
    uint32_t state = 77u + i;
    size_t size = dtype_size(d->weight ? (uint32_t)KILN_F32 : d->dtype);
    size_t bytes = (size_t)(rows(d) * d->ld + 1) * size;
    char *at = s->in[i] = mem_aligned(64, bytes); /* as a device aligns */
    if (at) memset(at, 0, bytes);
    if (!at) return 0;
    for (int64_t r = 0; r < rows(d); r++)
        for (int64_t c = 0; c < d->ld; c++) {
            float v = number(&state);
            size_t place = (size_t)(r * d->ld + c);
            if (d->dtype == KILN_I32)
                ((int32_t *)s->in[i])[place] = (int32_t)((v + 1) * 2.4f); /* 0..4 */
            else if (size == 2)
                ((uint16_t *)s->in[i])[place] = d->dtype == KILN_F16 ? f16_from_f32(v) : bf16_from_f32(v);
            else
                ((float *)s->in[i])[place] = v;
        }
    if (d->stored || d->rows.coding) return to_codes(s, i);
    return !dtype_is_block(d->dtype) || to_blocks(s, i);
}

static int32_t *whole_numbers(op_setup *s, uint32_t i)
{
    return i < s->op.n_in && s->op.in[i].dtype == KILN_I32 ? s->in[i] : NULL;
}

static void spoil_row(op_setup *s, uint32_t i, int64_t r)
{
    const operand_desc *d = &s->op.in[i];
    for (int64_t c = 0; c < d->ld; c++)
        if (d->dtype == KILN_F32)
            ((float *)s->in[i])[r * d->ld + c] = NAN;
        else
            ((uint16_t *)s->in[i])[r * d->ld + c] = 0x7fff; /* NaN in bf16 and f16 */
}

/* Lengths, pages and positions that an attention can have; keys and values that it must not read are NaN. */
static void fill_attention(op_setup *s)
{
    enum { K = 1, V, OFFSET = 4, LENGTH, KEY_POSITION = 8, PAGES = 11 };
    int32_t *offset = whole_numbers(s, OFFSET), *length = whole_numbers(s, LENGTH), *pages = whole_numbers(s, PAGES);
    int32_t *position = whole_numbers(s, KEY_POSITION);
    const int64_t *k = s->op.in[K].shape.dim, *p = s->op.in[PAGES].shape.dim, images = s->op.in[0].shape.dim[0];
    int64_t keys = pages ? k[1] * p[1] : k[1];
    unsigned char *read = mem_calloc((size_t)(k[0] * k[1]), 1);
    if (!read) return;
    for (int64_t n = 0; offset && n < s->op.in[OFFSET].shape.dim[0]; n++) offset[n] = (int32_t)(keys / 3 + 5 * n);
    for (int64_t n = 0; length && n < s->op.in[LENGTH].shape.dim[0]; n++)
        length[n] = n == 1 ? 0 : (int32_t)(keys - 1 - n); /* the second has none */
    for (int64_t n = 0; pages && n < p[0]; n++)           /* from the last on; behind the length anything */
        for (int64_t i = 0; i < p[1]; i++)
            pages[n * s->op.in[PAGES].ld + i] = length && i * k[1] >= length[s->op.in[LENGTH].shape.dim[0] == 1 ? 0 : n]
                                                    ? 1 << 30
                                                    : (int32_t)(k[0] - 1 - (n * p[1] + i) % k[0]);
    for (int64_t n = 0; position && n < s->op.in[KEY_POSITION].shape.dim[0]; n++) /* a ring, partly filled */
        for (int64_t i = 0; i < keys; i++)
            position[n * s->op.in[KEY_POSITION].ld + i] = i % 9 == 4 ? -1 : (int32_t)((i + keys / 2) % keys);
    for (int64_t n = 0; n < images; n++)
        for (int64_t i = 0; i < keys; i++) {
            int64_t of = length && s->op.in[LENGTH].shape.dim[0] > 1 ? n : 0;
            int64_t row = position && s->op.in[KEY_POSITION].shape.dim[0] > 1 ? n : 0;
            if (length && i >= length[of]) continue;
            if (position && position[row * s->op.in[KEY_POSITION].ld + i] < 0) continue;
            read[pages ? pages[n * s->op.in[PAGES].ld + i / k[1]] * k[1] + i % k[1] : n * k[1] + i] = 1;
        }
    for (int64_t r = 0; r < k[0] * k[1]; r++)
        if (!read[r]) spoil_row(s, K, r), spoil_row(s, V, r);
    mem_free(read);
}

/* Groups of several sizes, some empty; the first row and the last two belong to none. */
static void fill_groups(op_setup *s)
{
    enum { OFFSETS = 3, ROWS };
    int64_t groups = s->op.in[1].shape.dim[0], left = s->op.out.shape.dim[0] - 3;
    int32_t *offset = s->in[OFFSETS], at = left >= 0 ? 1 : 0, *row = whole_numbers(s, ROWS);
    for (int32_t r = 0; row && r < s->op.out.shape.dim[0]; r++) row[r] = r * 7 % (int32_t)s->op.in[0].shape.dim[0];
    for (int64_t g = 0; g <= groups; g++) {
        offset[g] = at;
        int64_t n = g % 3 == 1 ? 0 : g + 1 == groups ? left : (left + 1) / 2;
        if (n < 0) n = g == groups / 2;
        at += (int32_t)n, left -= n;
    }
}

/* A map's code: numbers p, q, r, s are 0.5, 2, -1, 3. */
static int compile(op_setup *s, const char *expression)
{
    static const float number[4] = {0.5f, 2, -1, 3};
    error e = {0};
    int whole = s->op.out.dtype == KILN_I32;
    for (uint32_t i = 0; i < s->op.n_in; i++) whole &= s->op.in[i].dtype == KILN_I32;
    kiln_status status = expression_compile(expression, s->op.n_in, whole, number, &s->op.attr.map, &e);
    if (status != KILN_OK) printf("  %s\n", e.message);
    return status == KILN_OK;
}

double setup_tolerance(const op_case *c, uint32_t type)
{
    for (uint32_t i = 0; i < c->op.n_in; i++)
        if ((dtype_is_block(c->op.in[i].dtype) || c->op.in[i].rows.coding) && type != KILN_F32)
            return type == KILN_BF16 ? 0x1p-8 : 0x1p-11;
    return type == KILN_BF16 || type == KILN_F16 ? 1e-3 : c->tolerance > 0 ? c->tolerance : 2e-6;
}

int setup_make(op_setup *s, const op_case *c, uint32_t type, int64_t pad)
{
    *s = (op_setup){.op = c->op};
    if (c->op.kind == OP_MAP && !compile(s, c->name + 4)) return 0;
    s->op.precision = type;
    for (uint32_t i = 0; i < s->op.n_in; i++) {
        operand_desc *d = &s->op.in[i];
        if (!d->dtype) continue;
        d->ld = columns(d) + (d->weight ? 0 : pad);
        /* masks, ids, times and tables keep their type */
        int keeps = d->weight || d->dtype == KILN_I32 || op_slot_at(s->op.kind, i).type == 'f' ||
                    (s->op.kind == OP_ATTENTION && i == 3);
        if (!keeps && !(s->op.kind == OP_CONVERT)) d->dtype = type;
        if (s->op.kind == OP_TIMESTEP) d->ld = columns(d);
        if (!fill(s, i)) return 0;
    }
    if (s->op.kind == OP_ATTENTION) fill_attention(s);
    if (s->op.kind == OP_GROUPED_LINEAR) fill_groups(s);
    int kept = s->op.out.dtype == KILN_I32 || s->op.kind == OP_RANDOM || s->op.kind == OP_GROUP_NORM_STATS;
    if (!kept) s->op.out.dtype = type;
    s->op.out.ld = columns(&s->op.out) + (s->op.kind == OP_STATE_WRITE ? 0 : pad); /* a state is dense */
    for (uint32_t i = 0; i < s->op.n_more; i++) s->op.more[i].ld = columns(&s->op.more[i]);
    return 1;
}

static float get(uint32_t type, const void *data, int64_t i)
{
    if (type == KILN_F32) return ((const float *)data)[i];
    return type == KILN_BF16 ? bf16_to_f32(((const uint16_t *)data)[i]) : f16_to_f32(((const uint16_t *)data)[i]);
}
static void put(uint32_t type, void *data, int64_t i, float v)
{
    if (type == KILN_F32)
        ((float *)data)[i] = v;
    else
        ((uint16_t *)data)[i] = type == KILN_BF16 ? bf16_from_f32(v) : f16_from_f32(v);
}

/* Does the op read operand `i` in whatever real type it has, whatever the result's is? */
static int reads_any_type(const op_setup *s, uint32_t i)
{
    const operand_desc *d = &s->op.in[i];
    if (!d->dtype || d->weight || d->dtype == KILN_I32) return 0;
    op_kind kind = s->op.kind;
    if (kind == OP_ATTENTION) return op_slot_at(kind, i).type == 'a'; /* mask, table of biases, sinks */
    return op_slot_at(kind, i).type == 'r' || kind == OP_MAP || kind == OP_NORM || kind == OP_CONVERT ||
           (kind == OP_REDUCE && s->op.out.dtype != KILN_I32);
}

int setup_mix(op_setup *s, uint32_t other, int odd)
{
    int n = 0, changed = 0;
    for (uint32_t i = 0; i < s->op.n_in; i++) n += reads_any_type(s, i);
    for (uint32_t i = 0; i < s->op.n_in; i++) {
        operand_desc *d = &s->op.in[i];
        if (!reads_any_type(s, i) || (n > 1 && (int)(i % 2) != odd) || d->dtype == other) continue;
        int64_t all = rows(d) * d->ld;
        void *made = mem_aligned(64, (size_t)(all + 1) * sizeof(float));
        for (int64_t k = 0; made && k < all; k++) put(other, made, k, get(d->dtype, s->in[i], k));
        mem_free(s->in[i]);
        s->in[i] = made, d->dtype = other, changed++;
        if (!made) return 0;
    }
    return changed;
}

int setup_saturate(op_setup *s)
{
    s->op.saturate = 1;
    if (!op_saturates(&s->op)) return 0;
    for (uint32_t i = 0; i < s->op.n_in; i++) {
        const operand_desc *d = &s->op.in[i];
        if (!d->dtype || d->dtype == KILN_I32 || s->blocks[i]) continue;
        int second = s->op.kind == OP_MATMUL && i == 1; /* or sums lose what is added in another order */
        float by = d->weight || second ? 8 : 60000;
        uint32_t type = d->weight ? (uint32_t)KILN_F32 : d->dtype;
        for (int64_t k = 0; k < rows(d) * d->ld; k++) {
            float v = by * get(type, s->in[i], k);
            put(type, s->in[i], k, s->op.kind == OP_MAP ? fabsf(v) : v); /* which has logarithms */
        }
    }
    return 1;
}

void setup_free(op_setup *s)
{
    for (uint32_t i = 0; i < OP_MAX_IN; i++) mem_free(s->in[i]), mem_free(s->blocks[i]);
}

static size_t out_bytes(const op_setup *s)
{
    return (size_t)(rows(&s->op.out) * s->op.out.ld) * dtype_size(s->op.out.dtype);
}

/* Other results lie behind the guards, dense, each followed by a guard of its own. */
static size_t more_at(const op_setup *s, uint32_t k)
{
    size_t at = (GUARD + out_bytes(s) + GUARD + 63) & ~(size_t)63;
    for (uint32_t i = 0; i < k; i++)
        at += ((size_t)shape_count(&s->op.more[i].shape) * dtype_size(s->op.more[i].dtype) + GUARD + 63) & ~(size_t)63;
    return at;
}

size_t setup_bytes(const op_setup *s) { return more_at(s, s->op.n_more); }

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int guards_whole(const op_setup *s, const unsigned char *all)
{
    size_t n = out_bytes(s), size = dtype_size(s->op.out.dtype);
    for (uint32_t k = 0; k < s->op.n_more; k++)
        for (size_t i = 1; i <= GUARD; i++)
            if (all[more_at(s, k + 1) - i] != guard_byte) return 0;
    for (size_t i = 0; i < GUARD; i++)
        if (all[i] != guard_byte || all[GUARD + n + i] != guard_byte) return 0;
    for (int64_t r = 0; r < rows(&s->op.out); r++) /* and between rows */
        for (size_t i = (size_t)(r * s->op.out.ld + columns(&s->op.out)) * size;
             i < (size_t)((r + 1) * s->op.out.ld) * size; i++)
            if (all[GUARD + i] != guard_byte) return 0;
    return 1;
}

/* ---- where operands lie while an op runs ---- */

/* Host memory as it is; on an asynchronous device a copy in its memory. */
typedef struct {
    memory_device *device;
    device_stream *stream;
    void *held[2 * OP_MAX_IN + 8], *locked[2 * OP_MAX_IN + 8];
    size_t n, n_locked;
    error *e;
} place;

static int far_away(const place *p) { return p->device && p->device->table->asynchronous; }

static kiln_status bring(place *p, const void *host, size_t bytes, void **out)
{
    const device_table *t = p->device->table;
    void *locked = NULL;
    TRY(t->host_alloc(p->device, bytes ? bytes : 1, &locked, p->e));
    p->locked[p->n_locked++] = locked;
    memcpy(locked, host, bytes);
    TRY(t->alloc(p->device, bytes ? bytes : 1, out, p->e));
    p->held[p->n++] = *out;
    return t->copy_in(p->device, *out, locked, bytes, p->stream, p->e);
}

/* Back into `host`, all work done. */
static kiln_status fetch(place *p, void *host, const void *there, size_t bytes)
{
    const device_table *t = p->device->table;
    void *locked = NULL;
    TRY(t->host_alloc(p->device, bytes, &locked, p->e));
    p->locked[p->n_locked++] = locked;
    TRY(t->copy_out(p->device, locked, there, bytes, p->stream, p->e));
    TRY(t->sync(p->device, p->stream, p->e));
    memcpy(host, locked, bytes);
    return KILN_OK;
}

static void place_close(place *p)
{
    if (!far_away(p)) return;
    if (p->stream) p->device->table->stream_free(p->device, p->stream);
    while (p->n) p->device->table->release(p->device, p->held[--p->n]);
    while (p->n_locked) p->device->table->host_release(p->device, p->locked[--p->n_locked]);
}

/* Packs what the kernel wants packed; in[] of the call. */
static kiln_status pack_all(const op_setup *s, const kernel *k, place *where, kernel_args *a, void *packed[OP_MAX_IN],
                            pool *p, error *e)
{
    for (uint32_t i = 0; i < s->op.n_in; i++) {
        const operand_desc *d = &s->op.in[i];
        const void *data = s->in[i];
        size_t bytes = d->dtype ? (size_t)(rows(d) * d->ld) * dtype_size(d->weight ? (uint32_t)KILN_F32 : d->dtype) : 0;
        void *there = NULL;
        a->in[i] = data;
        if (!d->dtype) continue;
        if (k->packed_bytes[i]) {
            data = packed[i] = mem_aligned(64, k->packed_bytes[i]);
            if (!packed[i]) return KILN_ERR_NOMEM;
            bytes = k->packed_bytes[i];
            uint32_t type = d->stored ? d->stored : d->dtype;
            int stored = s->blocks[i] && !d->rows.coding && k->pack_copies[i] == type;
            if (k->pack_rows_as[i])
                memcpy(packed[i], s->blocks[i], bytes);
            else
                TRY(k->pack(k, i, stored ? s->blocks[i] : s->in[i], stored ? type : (uint32_t)KILN_F32, packed[i], p,
                            e));
            a->in[i] = packed[i];
        }
        if (!far_away(where)) continue;
        TRY(bring(where, data, bytes, &there));
        a->in[i] = there;
    }
    return KILN_OK;
}

/* One call, done when this returns. */
static kiln_status call(const kernel *k, const place *where, const kernel_args *a, error *e)
{
    TRY(k->run(k, a, e));
    return far_away(where) ? where->device->table->sync(where->device, where->stream, e) : KILN_OK;
}

void *setup_run(const op_setup *s, const backend *b, pool *p, int repeat, double *seconds, double *busy,
                kiln_status *status)
{
    error e = {0};
    kernel *k = NULL;
    kernel_args a = {.pool = p};
    place where = {.e = &e};
    void *packed[OP_MAX_IN] = {0}, *out = NULL, *capacity = NULL;
    size_t n = setup_bytes(s);
    unsigned char *all = mem_aligned(64, n);
    memset(all, guard_byte, n);
    kiln_status st = b->open(0, &where.device, &e);
    if (st == KILN_OK && far_away(&where)) st = where.device->table->stream_new(where.device, &where.stream, &e);
    if (st == KILN_OK) st = b->prepare(&s->op, &k, &e);
    if (st == KILN_OK) st = pack_all(s, k, &where, &a, packed, p, &e);
    unsigned char *scratch = k ? mem_aligned(64, k->scratch_bytes + GUARD) : NULL;
    if (scratch) memset(scratch, 0xff, k->scratch_bytes), memset(scratch + k->scratch_bytes, guard_byte, GUARD);
    a.out = all + GUARD, a.scratch = scratch, a.stream = where.stream;
    if (st == KILN_OK && far_away(&where)) {
        st = bring(&where, all, n, &out);
        if (st == KILN_OK) st = bring(&where, scratch, k->scratch_bytes + GUARD, &capacity);
        a.out = (char *)out + GUARD, a.scratch = capacity;
    }
    for (uint32_t m = 0; m < s->op.n_more; m++) a.more[m] = (char *)a.out - GUARD + more_at(s, m);
    for (int i = 0; i < repeat && st == KILN_OK; i++) {
        double c = busy ? busy_time(p) : 0, t = now();
        st = call(k, &where, &a, &e);
        t = now() - t;
        if (busy) c = busy_time(p) - c;
        if (seconds && (i == 0 || t < *seconds)) *seconds = t;
        if (busy && (i == 0 || c < *busy)) *busy = c;
    }
    if (st == KILN_OK && out) st = fetch(&where, all, out, n);
    if (st == KILN_OK && capacity) st = fetch(&where, scratch, capacity, k->scratch_bytes + GUARD);
    int whole = st != KILN_OK || guards_whole(s, all);
    for (size_t i = 0; scratch && whole && st == KILN_OK && i < GUARD; i++)
        whole = scratch[k->scratch_bytes + i] == guard_byte;
    if (!whole) printf("  %s %s wrote beyond its memory\n", b->name, op_name(s->op.kind));
    if (st != KILN_OK && !status) printf("  %s %s: %s\n", b->name, op_name(s->op.kind), e.message);
    if (status) *status = st;
    place_close(&where);
    if (k) k->free(k);
    for (uint32_t i = 0; i < OP_MAX_IN; i++) mem_free(packed[i]);
    mem_free(scratch);
    if (st == KILN_OK && whole) return all;
    mem_free(all);
    return NULL;
}

double setup_element(const op_setup *s, const void *all, int64_t r, int64_t c)
{
    size_t at = (size_t)(r * s->op.out.ld + c);
    const unsigned char *data = (const unsigned char *)all + GUARD;
    if (s->op.out.dtype == KILN_BF16) return (double)bf16_to_f32(((const uint16_t *)(const void *)data)[at]);
    if (s->op.out.dtype == KILN_F16) return (double)f16_to_f32(((const uint16_t *)(const void *)data)[at]);
    if (s->op.out.dtype == KILN_I32) return (double)((const int32_t *)(const void *)data)[at];
    return (double)((const float *)(const void *)data)[at];
}

/* Other results: whole numbers are equal, the others within the tolerance. */
static int more_near(const op_setup *s, const unsigned char *a, const unsigned char *b, double tolerance,
                     const char *what)
{
    for (uint32_t k = 0; k < s->op.n_more; k++) {
        size_t n = (size_t)shape_count(&s->op.more[k].shape), at = more_at(s, k);
        for (size_t i = 0; i < n; i++) {
            float x, y;
            memcpy(&x, a + at + 4 * i, sizeof x), memcpy(&y, b + at + 4 * i, sizeof y);
            int same = memcmp(&x, &y, sizeof x) == 0;
            if (same || (s->op.more[k].dtype == KILN_F32 && fabsf(x - y) <= 16 * tolerance * fmaxf(1, fabsf(y))))
                continue;
            printf("  %s: result %u differs at %zu\n", what, k + 1, i);
            return 0;
        }
    }
    return 1;
}

int setup_near(const op_setup *s, const void *a, const void *b, double tolerance, const char *what)
{
    if (!more_near(s, a, b, tolerance, what)) return 0;
    double difference = 0, norm = 0, worst = 0;
    int64_t R = rows(&s->op.out), C = columns(&s->op.out), bad = 0;
    for (int64_t r = 0; r < R; r++)
        for (int64_t c = 0; c < C; c++) norm += setup_element(s, b, r, c) * setup_element(s, b, r, c);
    double rms = R && C ? sqrt(norm / (double)(R * C)) : 0;
    for (int64_t r = 0; r < R; r++)
        for (int64_t c = 0; c < C; c++) {
            double x = setup_element(s, a, r, c), y = setup_element(s, b, r, c), d = fabs(x - y);
            difference += d * d;
            double own = d / fmax(fmax(fabs(y), rms), 1e-30);
            if (!(own <= worst)) worst = own;
            if (!(own <= 16 * tolerance)) bad++;
        }
    double relative = norm > 0 ? sqrt(difference / norm) : sqrt(difference);
    if (relative <= tolerance && !bad) return 1;
    printf("  %s: relative error %.3g (at most %.3g), worst element %.3g, %lld beyond 16 times that\n", what, relative,
           tolerance, worst, (long long)bad);
    return 0;
}
