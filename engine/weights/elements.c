/* elements.c - a tensor as f32: converted, transposed; and whether its elements are finite. See weights.h. What is
 * patched is computed in patched.c, what is made of several tensors in derived.c. Everything is read in ranges of
 * elements, so that a slice costs its own rows only.
 */
#include "base/memory_alloc.h"
#include "tensor/block.h"
#include "tensor/dtype.h"
#include "weights/derived.h"

#include <stdatomic.h>
#include <string.h>

enum { STRIP = 32 }; /* rows */

static kiln_status no_memory(const weights_entry *x, error *e)
{
    return error_set(e, KILN_ERR_NOMEM, "%s: out of memory for '%.200s'", x->file->map.path, x->name);
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }
static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* ---- ranges ---- */

typedef struct {
    size_t first, n;
} range;

/* Whole blocks, elements where there are none, that hold the range. */
static range blocks_around(uint32_t dtype, range r)
{
    size_t block = dtype_block(dtype), first = r.first / block;
    return (range){first, (r.first + r.n + block - 1) / block - first};
}

static kiln_status to_f32(uint32_t dtype, const void *src, float *dst, size_t n)
{
    return dtype_is_block(dtype) ? block_read_f32(dtype, src, dst, n) : dtype_convert(dst, KILN_F32, src, dtype, n);
}

/* `src` is the first block that holds the range. What of its first and last block is outside of it goes through a
 * buffer.
 */
static kiln_status convert_range(uint32_t dtype, const uint8_t *src, range r, float *dst)
{
    enum { BLOCK_MOST = 256 };
    size_t block = dtype_block(dtype), bytes = dtype_block_bytes(dtype);
    for (size_t done = 0; done < r.n;) {
        size_t at = r.first + done, into = at % block, left = r.n - done, whole = into ? 0 : left / block;
        const uint8_t *from = src + (at / block - r.first / block) * bytes;
        float part[BLOCK_MOST];
        if (whole) {
            TRY(to_f32(dtype, from, dst + done, whole * block));
            done += whole * block;
            continue;
        }
        size_t n = smaller(block - into, left);
        TRY(to_f32(dtype, from, part, block));
        memcpy(dst + done, part + into, n * sizeof *dst);
        done += n;
    }
    return KILN_OK;
}

enum { READ_AT_ONCE = 1 << 18 }; /* elements */

/* From the file itself, a piece at a time. */
static kiln_status read_beside(const weights_entry *x, range r, float *dst, error *e)
{
    size_t bytes = dtype_block_bytes(x->dtype);
    void *piece = mem_alloc(blocks_around(x->dtype, (range){1, smaller(READ_AT_ONCE, r.n)}).n * bytes + bytes);
    kiln_status status = piece ? KILN_OK : no_memory(x, e);
    for (size_t i = 0; i < r.n && status == KILN_OK; i += READ_AT_ONCE) {
        range one = {r.first + i, smaller(READ_AT_ONCE, r.n - i)}, from = blocks_around(x->dtype, one);
        error why = {0};
        status = weights_file_read(x->file, (size_t)x->begin + from.first * bytes, from.n * bytes, piece, NULL, &why);
        if (status != KILN_OK)
            error_set(e, status, "%s (tensor '%.200s')", why.message, x->name);
        else
            status = convert_range(x->dtype, piece, one, dst + i);
    }
    mem_free(piece);
    return status;
}

static kiln_status read_computed(const weights_entry *x, weights_access how, range r, float *dst, pool *p, error *e)
{
    weights_access part = {NULL, how.beside};
    size_t first = (size_t)x->begin / sizeof(float) + r.first;
    return x->patch ? weights_read_patched(x, part, first, r.n, dst, p, e)
                    : weights_read_derived(x, part, first, r.n, dst, p, e);
}

/* As it is stored, before any transposition. */
static kiln_status read_stored(const weights_entry *x, weights_access how, range r, float *dst, pool *p, error *e)
{
    if (weights_is_computed(x)) return read_computed(x, how, r, dst, p, e);
    TRY(weights_readable(x, e));
    if (how.beside && !how.stored) return read_beside(x, r, dst, e);
    const uint8_t *stored = how.stored ? how.stored : weights_data(x);
    stored += blocks_around(x->dtype, r).first * dtype_block_bytes(x->dtype);
    if (convert_range(x->dtype, stored, r, dst) == KILN_OK) return KILN_OK;
    return error_set(e, KILN_ERR_UNSUPPORTED, "%s: tensor '%.200s' of type %s cannot be read as f32", x->file->map.path,
                     x->name, x->type_name);
}

/* Rows that are read at once while a tensor is turned. What is computed from many rows together is computed once. */
static size_t strip_of(const weights_entry *x)
{
    size_t rows = (size_t)x->dim[1];
    int together = x->patch ? weights_patched_rows(x->patch) > 1 : x->derived != NULL;
    return together ? rows : smaller(STRIP, rows);
}

/* The tensor is seen as [columns, rows] and stored as [rows, columns], which is read a strip of rows at a time. */
static kiln_status read_transposed(const weights_entry *x, weights_access how, range of, float *dst, pool *p, error *e)
{
    size_t rows = (size_t)x->dim[1], columns = (size_t)x->dim[0], step = strip_of(x);
    float *strip = mem_alloc(step * columns * sizeof *strip);
    kiln_status status = strip ? KILN_OK : no_memory(x, e);
    for (size_t r = 0; r < rows && status == KILN_OK; r += step) {
        size_t m = smaller(step, rows - r), last = of.first + of.n;
        status = read_stored(x, how, (range){r * columns, m * columns}, strip, p, e);
        for (size_t c = of.first / rows; c * rows < last && status == KILN_OK; c++) {
            size_t at = c * rows + r, from = larger(at, of.first), to = smaller(at + m, last);
            for (size_t k = from; k < to; k++) dst[k - of.first] = strip[(k - at) * columns + c];
        }
    }
    mem_free(strip);
    return status;
}

kiln_status weights_read_range(const weights_entry *x, weights_access how, size_t first, size_t n, float *dst, pool *p,
                               error *e)
{
    range r = {first, n};
    if (n == 0) return KILN_OK;
    return x->transposed ? read_transposed(x, how, r, dst, p, e) : read_stored(x, how, r, dst, p, e);
}

size_t weights_scratch_of(const weights_entry *x, size_t threads)
{
    size_t n = (size_t)x->bytes / sizeof(float), strip = 0;
    if (x->transposed && x->bytes) strip = strip_of(x) * (size_t)x->dim[0] * sizeof(float);
    if (!weights_is_computed(x) || !x->bytes) return strip;
    return strip + (x->patch ? weights_patched_scratch(x, (size_t)x->begin / sizeof(float), n, threads)
                             : weights_derived_scratch(x, n, threads));
}

size_t weights_scratch_bytes(const kiln_weights *w, const char *name, size_t threads)
{
    const weights_entry *x = weights_entry_of(w, name);
    return x ? weights_scratch_of(x, threads) : 0;
}

kiln_status weights_read_f32_by(const kiln_weights *w, const char *name, float *dst, pool *p, error *e)
{
    weights_entry *x = weights_entry_of(w, name);
    if (!x) return weights_missing(w, name, e);
    TRY(weights_usable(x, e));
    weights_mark_entry(w, x);
    error why = {0};
    kiln_status status = weights_read_range(x, (weights_access){0}, 0, weights_count_of(x), dst, p, &why);
    TRY(weights_unchanged(w, name, e)); /* before any fault found in such bytes is reported */
    return status == KILN_OK ? status : error_set(e, status, "%s", why.message);
}

kiln_status weights_read_f32(const kiln_weights *w, const char *name, float *dst, error *e)
{
    return weights_read_f32_by(w, name, dst, NULL, e);
}

/* ---- finite elements ---- */

/* An element is NaN or infinite when its exponent bits are all ones. Whole blocks are tested without a branch. */
enum { BLOCK = 4096, LANES = 64 };
#define NONFINITE(suffix, type, ones)                                                                                  \
    static type suffix##_at(const uint8_t *p)                                                                          \
    {                                                                                                                  \
        type v;                                                                                                        \
        memcpy(&v, p, sizeof v);                                                                                       \
        return (type)((v & (ones)) == (ones));                                                                         \
    }                                                                                                                  \
    static int any_##suffix(const uint8_t *p, size_t n)                                                                \
    {                                                                                                                  \
        type bad = 0;                                                                                                  \
        size_t i = 0;                                                                                                  \
        for (; i + LANES <= n; i += LANES, p += LANES * sizeof bad) /* a fixed count, for the vectoriser */            \
            for (size_t k = 0; k < LANES; k++) bad |= suffix##_at(p + k * sizeof bad);                                 \
        for (; i < n; i++, p += sizeof bad) bad |= suffix##_at(p);                                                     \
        return bad != 0;                                                                                               \
    }
NONFINITE(f32, uint32_t, 0x7f800000u)
NONFINITE(f16, uint16_t, 0x7c00u)
NONFINITE(bf16, uint16_t, 0x7f80u)
NONFINITE(f64, uint64_t, 0x7ff0000000000000u)
NONFINITE(f8_e4m3, uint8_t, 0x7fu)
NONFINITE(f8_e5m2, uint8_t, 0x7cu)

static const struct {
    uint32_t dtype;
    size_t width;
    int (*any)(const uint8_t *, size_t);
} scans[] = {{KILN_F32, 4, any_f32}, {KILN_F16, 2, any_f16},         {KILN_BF16, 2, any_bf16},
             {KILN_F64, 8, any_f64}, {KILN_F8_E4M3, 1, any_f8_e4m3}, {KILN_F8_E5M2, 1, any_f8_e5m2}};

/* Index of the first element that is not finite; n: none. */
static size_t first_nonfinite(const uint8_t *p, size_t n, size_t width, int (*any)(const uint8_t *, size_t))
{
    for (size_t i = 0; i < n; i += BLOCK) {
        size_t m = n - i < BLOCK ? n - i : BLOCK;
        if (!any(p + i * width, m)) continue;
        while (!any(p + i * width, 1)) i++;
        return i;
    }
    return n;
}

size_t weights_first_nonfinite_of(uint32_t dtype, const void *p, size_t n)
{
    for (size_t i = 0; i < sizeof scans / sizeof scans[0]; i++)
        if (scans[i].dtype == dtype) return first_nonfinite(p, n, scans[i].width, scans[i].any);
    return n;
}

size_t weights_first_nonfinite(const float *p, size_t n) { return weights_first_nonfinite_of(KILN_F32, p, n); }

static kiln_status is_damaged(const weights_entry *x, size_t byte, const char *what, size_t at, error *e)
{
    return error_set(e, KILN_ERR_INVALID,
                     "%s: byte %llu: tensor '%.200s' holds a NaN or infinity at %s %zu; the file is damaged or its "
                     "training failed",
                     x->file->map.path, (unsigned long long)(x->begin + byte), x->name, what, at);
}

/* Elements, or whole blocks, that are looked at one slice after the other; the first that is not finite is found,
 * whatever the number of threads. */
typedef struct {
    uint32_t dtype;
    const uint8_t *stored;
    size_t n, slice;
    atomic_size_t bad; /* the first known so far; n: none */
} finite_scan;

static size_t first_bad_of_slice(const finite_scan *s, size_t first, size_t n)
{
    size_t block = dtype_block(s->dtype), width = dtype_block_bytes(s->dtype);
    const uint8_t *from = s->stored + first * width;
    return dtype_is_block(s->dtype) ? block_first_nonfinite(s->dtype, from, n * block)
                                    : weights_first_nonfinite_of(s->dtype, from, n);
}

static void scan_slice(void *arg, size_t i)
{
    finite_scan *s = arg;
    size_t first = i * s->slice, n = s->n - first < s->slice ? s->n - first : s->slice, known = atomic_load(&s->bad);
    if (first >= known) return;
    size_t at = first_bad_of_slice(s, first, n);
    for (at = at < n ? first + at : s->n; at < known && !atomic_compare_exchange_weak(&s->bad, &known, at);) continue;
}

kiln_status weights_scan_bytes(const weights_entry *x, const uint8_t *stored, pool *p, error *e)
{
    enum { SLICE_BYTES = 1 << 20 };
    if (!x->dtype) return KILN_OK; /* codes that are nothing alone */
    size_t width = dtype_block_bytes(x->dtype), n = weights_count_of(x) / dtype_block(x->dtype);
    finite_scan s = {.dtype = x->dtype, .stored = stored, .n = n, .slice = SLICE_BYTES / width, .bad = n};
    pool_for(p, (n + s.slice - 1) / s.slice, scan_slice, &s);
    size_t at = atomic_load(&s.bad);
    if (at == n) return KILN_OK;
    return is_damaged(x, at * width, dtype_is_block(x->dtype) ? "the scale of block" : "element", at, e);
}

/* Of a computed tensor what it is made of, which may be of types that are nothing alone. arg: the pool. */
static kiln_status scan_part(void *arg, const weights_entry *x, error *e)
{
    if (weights_is_computed(x)) return weights_each_part(x, scan_part, arg, e);
    TRY(weights_file_unchanged(x->file, e));
    return weights_scan_bytes(x, weights_data(x), arg, e);
}

static kiln_status scan_entry(const weights_entry *x, pool *p, error *e)
{
    TRY(weights_usable(x, e));
    return scan_part(p, x, e);
}

kiln_status weights_scan_finite_by(const kiln_weights *w, const char *name, pool *p, error *e)
{
    const weights_entry *x = weights_entry_of(w, name);
    return x ? scan_entry(x, p, e) : weights_missing(w, name, e);
}

kiln_status weights_scan_finite(const kiln_weights *w, const char *name, error *e)
{
    return weights_scan_finite_by(w, name, NULL, e);
}

/* ---- without the map ---- */

size_t weights_stored_bytes(const kiln_weights *w, const char *name)
{
    const weights_entry *x = weights_entry_of(w, name);
    return x ? (size_t)x->bytes : 0;
}

kiln_status weights_read_stored(const kiln_weights *w, const char *name, void *dst, pool *p, error *e)
{
    weights_entry *x = weights_entry_of(w, name);
    error why = {0};
    if (!x) return weights_missing(w, name, e);
    if (!x->dtype) return weights_usable(x, e);
    weights_mark_entry(w, x);
    if (weights_is_computed(x))
        return weights_read_range(x, (weights_access){NULL, 1}, 0, (size_t)x->bytes / sizeof(float), dst, p, e);
    kiln_status status = weights_file_read(x->file, (size_t)x->begin, (size_t)x->bytes, dst, p, &why);
    return status == KILN_OK ? status : error_set(e, status, "%s (tensor '%.200s')", why.message, x->name);
}

/* A patched tensor is checked where it is computed, what else is computed by what came out. */
kiln_status weights_scan_stored(const kiln_weights *w, const char *name, const void *stored, error *e)
{
    const weights_entry *x = weights_entry_of(w, name);
    if (!x) return weights_missing(w, name, e);
    return x->patch ? KILN_OK : weights_scan_bytes(x, stored, NULL, e);
}

kiln_status weights_stored_as_f32(const kiln_weights *w, const char *name, const void *stored, float *dst, error *e)
{
    const weights_entry *x = weights_entry_of(w, name);
    if (!x) return weights_missing(w, name, e);
    if (!weights_is_computed(x))
        return weights_read_range(x, (weights_access){stored, 1}, 0, weights_count_of(x), dst, NULL, e);
    if (x->bytes) memcpy(dst, stored, (size_t)x->bytes);
    return KILN_OK;
}
