/* elements.c - a tensor as f32: converted, transposed, patched; and whether its elements are finite. See weights.h.
 *
 * Everything is read in ranges of elements, so that a slice of a patched tensor costs its own rows only. A patched
 * element is, in this order and all in f32: the base's element, then for each patch in the order given
 * factor * sum, the sum over the rank ascending from 0. It does not depend on the range or on how the loops are cut.
 */
#include "base/memory_alloc.h"
#include "tensor/dtype.h"
#include "weights/gemm_tile.h"
#include "weights/set.h"

#include <string.h>

enum { STRIP = 32, UP_ROWS = 64, DIFFERENCE_CHUNK = 4096 };

static kiln_status no_memory(const weights_entry *x, error *e)
{
    return error_set(e, KILN_ERR_NOMEM, "%s: out of memory for '%.200s'", x->file->map.path, x->name);
}

/* Where an entry's bytes are taken from: NULL, its file's map; else as they were read, or by reads beside the map. */
typedef struct {
    const uint8_t *stored; /* of the entry itself */
    int beside;
} access;

static kiln_status read_range(const weights_entry *x, access how, size_t first, size_t n, float *dst, error *e);
static access of_others(access how) { return (access){NULL, how.beside}; }

/* ---- patches ---- */

/* dst[0..n) += factor * sum over k of up[k] * down[k][0..n), down's rows `ld` apart: what does not fill a tile. */
static void add_gemm(float *dst, const float *up, const float *down, size_t ld, size_t n, size_t rank, float factor)
{
    for (size_t j = 0; j < n; j++) {
        float sum = 0;
        for (size_t k = 0; k < rank; k++) sum += up[k] * down[k * ld + j];
        dst[j] += factor * sum;
    }
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }
static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }
static size_t up_rows(const weights_patched *p) { return smaller(UP_ROWS, p->count / p->columns); }

typedef struct {
    gemm_tile *tile;
    size_t columns;
} tiling;

static tiling best_tiling(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) return (tiling){gemm_tile_16, 16};
#endif
    return (tiling){gemm_tile_8, 8};
}

/* Rows [row, row + rows) of up x down, those elements of them that lie in [first, first + n). */
static void add_block(const weights_patched *p, const patch_term *t, const float *up, const float *down, size_t row,
                      size_t rows, size_t first, size_t n, float *dst)
{
    tiling by = best_tiling();
    for (size_t c = 0; c < p->columns; c += by.columns) {
        size_t width = smaller(by.columns, p->columns - c);
        for (size_t i = 0; i < rows;) {
            size_t at = (row + i) * p->columns + c, end = at + width;
            if (width == by.columns && rows - i >= GEMM_TILE_ROWS && at >= first &&
                end + (GEMM_TILE_ROWS - 1) * p->columns <= first + n) {
                by.tile(dst + (at - first), p->columns, up + i * t->rank, t->rank, down + c, p->columns, t->factor);
                i += GEMM_TILE_ROWS;
                continue;
            }
            size_t from = larger(at, first), to = smaller(end, first + n);
            if (from < to)
                add_gemm(dst + (from - first), up + i * t->rank, down + c + (from - at), p->columns, to - from, t->rank,
                         t->factor);
            i++;
        }
    }
}

static kiln_status add_gemm_delta(const weights_patched *p, const patch_term *t, access how, size_t first, size_t n,
                                  float *dst, error *e)
{
    float *down = mem_alloc(t->rank * p->columns * sizeof *down), *up = mem_alloc(t->rank * up_rows(p) * sizeof *up);
    kiln_status status =
        up && down ? read_range(t->right, how, 0, t->rank * p->columns, down, e) : no_memory(p->base, e);
    size_t end = (first + n - 1) / p->columns + 1;
    for (size_t row = first / p->columns; row < end && status == KILN_OK; row += up_rows(p)) {
        size_t rows = smaller(up_rows(p), end - row);
        status = read_range(t->left, how, row * t->rank, rows * t->rank, up, e);
        if (status == KILN_OK) add_block(p, t, up, down, row, rows, first, n, dst);
    }
    mem_free(up);
    mem_free(down);
    return status;
}

static kiln_status add_difference(const patch_term *t, access how, size_t first, size_t n, float *dst, error *e)
{
    float *d = mem_alloc(smaller(DIFFERENCE_CHUNK, n) * sizeof *d);
    kiln_status status = d ? KILN_OK : no_memory(t->left, e);
    for (size_t i = 0; i < n && status == KILN_OK; i += DIFFERENCE_CHUNK) {
        size_t m = smaller(DIFFERENCE_CHUNK, n - i);
        status = read_range(t->left, how, first + i, m, d, e);
        for (size_t k = 0; k < m && status == KILN_OK; k++) dst[i + k] += t->factor * d[k];
    }
    mem_free(d);
    return status;
}

static size_t first_nonfinite(const uint8_t *p, size_t n, size_t width, int (*any)(const uint8_t *, size_t));
static int any_f32(const uint8_t *p, size_t n);

static kiln_status read_patched(const weights_entry *x, access how, size_t first, size_t n, float *dst, error *e)
{
    const weights_patched *p = x->patch;
    TRY(read_range(p->base, how, first, n, dst, e));
    for (const patch_term *t = p->term; t; t = t->next)
        TRY(t->right ? add_gemm_delta(p, t, how, first, n, dst, e) : add_difference(t, how, first, n, dst, e));
    size_t at = first_nonfinite((const uint8_t *)dst, n, sizeof *dst, any_f32);
    if (at == n) return KILN_OK;
    return error_set(e, KILN_ERR_INVALID,
                     "%s: tensor '%.200s' comes out as a NaN or infinity at element %zu when it is patched; the patch "
                     "is too strong or damaged",
                     x->file->map.path, x->name, first + at);
}

/* ---- ranges ---- */

enum { READ_AT_ONCE = 1 << 18 }; /* elements */

/* From the file itself, a piece at a time. */
static kiln_status read_beside(const weights_entry *x, size_t first, size_t n, float *dst, error *e)
{
    size_t width = dtype_size(x->dtype);
    void *piece = mem_alloc(smaller(READ_AT_ONCE, n) * width);
    kiln_status status = piece ? KILN_OK : no_memory(x, e);
    for (size_t i = 0; i < n && status == KILN_OK; i += READ_AT_ONCE) {
        size_t m = smaller(READ_AT_ONCE, n - i);
        error why = {0};
        status = file_map_read(&x->file->map, (size_t)x->begin + (first + i) * width, m * width, piece, NULL, &why);
        if (status != KILN_OK)
            error_set(e, status, "%s (tensor '%.200s')", why.message, x->name);
        else
            status = dtype_convert(dst + i, KILN_F32, piece, x->dtype, m);
    }
    mem_free(piece);
    return status;
}

/* As it is stored, before any transposition. */
static kiln_status read_stored(const weights_entry *x, access how, size_t first, size_t n, float *dst, error *e)
{
    if (x->patch) return read_patched(x, of_others(how), (size_t)x->begin / sizeof(float) + first, n, dst, e);
    TRY(weights_usable(x, e));
    if (how.beside && !how.stored) return read_beside(x, first, n, dst, e);
    const uint8_t *stored = how.stored ? how.stored : weights_data(x);
    if (dtype_convert(dst, KILN_F32, stored + first * dtype_size(x->dtype), x->dtype, n) == KILN_OK) return KILN_OK;
    return error_set(e, KILN_ERR_UNSUPPORTED, "%s: tensor '%.200s' of type %s cannot be read as f32", x->file->map.path,
                     x->name, x->type_name);
}

/* The tensor is seen as [columns, rows] and stored as [rows, columns], which is read a strip of rows at a time. */
static kiln_status read_transposed(const weights_entry *x, access how, size_t first, size_t n, float *dst, error *e)
{
    size_t rows = (size_t)x->dim[1], columns = (size_t)x->dim[0];
    float *strip = mem_alloc(STRIP * columns * sizeof *strip);
    kiln_status status = strip ? KILN_OK : no_memory(x, e);
    for (size_t r = 0; r < rows && status == KILN_OK; r += STRIP) {
        size_t m = smaller(STRIP, rows - r);
        status = read_stored(x, how, r * columns, m * columns, strip, e);
        for (size_t c = first / rows; c * rows < first + n && status == KILN_OK; c++) {
            size_t at = c * rows + r, from = larger(at, first), to = smaller(at + m, first + n);
            for (size_t k = from; k < to; k++) dst[k - first] = strip[(k - at) * columns + c];
        }
    }
    mem_free(strip);
    return status;
}

/* Elements [first, first + n) of the tensor as its set shows it. */
static kiln_status read_range(const weights_entry *x, access how, size_t first, size_t n, float *dst, error *e)
{
    if (n == 0) return KILN_OK;
    return x->transposed ? read_transposed(x, how, first, n, dst, e) : read_stored(x, how, first, n, dst, e);
}

static size_t scratch_of(const weights_entry *x)
{
    const weights_patched *p = x->patch;
    size_t most = p ? scratch_of(p->base) : 0;
    for (const patch_term *t = p ? p->term : NULL; t; t = t->next) {
        size_t own = t->right ? (p->columns + up_rows(p)) * t->rank : smaller(DIFFERENCE_CHUNK, p->count);
        most = larger(most, own * sizeof(float) + larger(scratch_of(t->left), t->right ? scratch_of(t->right) : 0));
    }
    return most + (x->transposed ? STRIP * (size_t)x->dim[0] * sizeof(float) : 0);
}

size_t weights_scratch_bytes(const kiln_weights *w, const char *name)
{
    const weights_entry *x = weights_entry_of(w, name);
    return x ? scratch_of(x) : 0;
}

kiln_status weights_read_f32(const kiln_weights *w, const char *name, float *dst, error *e)
{
    weights_entry *x = weights_entry_of(w, name);
    if (!x) return weights_missing(w, name, e);
    TRY(weights_usable(x, e));
    weights_mark_entry(w, x);
    error why = {0};
    kiln_status status = read_range(x, (access){0}, 0, (size_t)x->bytes / dtype_size(x->dtype), dst, &why);
    TRY(weights_unchanged(w, name, e)); /* before any fault found in such bytes is reported */
    return status == KILN_OK ? status : error_set(e, status, "%s", why.message);
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

static kiln_status scan_bytes(const weights_entry *x, const uint8_t *stored, error *e)
{
    for (size_t i = 0; i < sizeof scans / sizeof scans[0]; i++) {
        if (scans[i].dtype != x->dtype) continue;
        size_t n = (size_t)x->bytes / scans[i].width, at = first_nonfinite(stored, n, scans[i].width, scans[i].any);
        if (at < n)
            return error_set(e, KILN_ERR_INVALID,
                             "%s: byte %llu: tensor '%.200s' holds a NaN or infinity at element %zu; the file is "
                             "damaged or its training failed",
                             x->file->map.path, (unsigned long long)(x->begin + at * scans[i].width), x->name, at);
    }
    return KILN_OK;
}

static kiln_status scan_entry(const weights_entry *x, error *e)
{
    TRY(weights_usable(x, e));
    if (!x->patch) return scan_bytes(x, weights_data(x), e);
    TRY(scan_entry(x->patch->base, e));
    for (const patch_term *t = x->patch->term; t; t = t->next) {
        TRY(scan_entry(t->left, e));
        if (t->right) TRY(scan_entry(t->right, e));
    }
    return KILN_OK;
}

kiln_status weights_scan_finite(const kiln_weights *w, const char *name, error *e)
{
    const weights_entry *x = weights_entry_of(w, name);
    return x ? scan_entry(x, e) : weights_missing(w, name, e);
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
    if (x->patch) return read_range(x, (access){NULL, 1}, 0, (size_t)x->bytes / sizeof(float), dst, e);
    kiln_status status = file_map_read(&x->file->map, (size_t)x->begin, (size_t)x->bytes, dst, p, &why);
    return status == KILN_OK ? status : error_set(e, status, "%s (tensor '%.200s')", why.message, x->name);
}

/* A patched tensor is checked where it is computed. */
kiln_status weights_scan_stored(const kiln_weights *w, const char *name, const void *stored, error *e)
{
    const weights_entry *x = weights_entry_of(w, name);
    if (!x) return weights_missing(w, name, e);
    return x->patch ? KILN_OK : scan_bytes(x, stored, e);
}

kiln_status weights_stored_as_f32(const kiln_weights *w, const char *name, const void *stored, float *dst, error *e)
{
    const weights_entry *x = weights_entry_of(w, name);
    if (!x) return weights_missing(w, name, e);
    if (!x->patch) return read_range(x, (access){stored, 1}, 0, (size_t)x->bytes / dtype_size(x->dtype), dst, e);
    if (x->bytes) memcpy(dst, stored, (size_t)x->bytes);
    return KILN_OK;
}
