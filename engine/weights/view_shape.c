/* view_shape.c - what a rule of a view does to a tensor's shape: joins, slices, other orders; see
 * include/kiln/weights.h. Rows of a tensor that lies in a file stay bytes of the file where they are whole bytes and
 * blocks; everything else is computed when it is read (derived.h).
 */
#include "weights/view_shape.h"

#include "base/checked.h"
#include "weights/derived.h"

#include <string.h>

static kiln_status no_memory(const kiln_weights *w, error *e)
{
    return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", w->path);
}

static kiln_status wrong(const kiln_weights *w, const char *from, const char *what, error *e)
{
    return error_set(e, KILN_ERR_INVALID, "%s: tensor '%.200s' %s", w->path, from, what);
}

static int is_number(const weights_entry *x)
{
    return x->dtype == KILN_F32 || x->dtype == KILN_F16 || x->dtype == KILN_BF16 || x->dtype == KILN_F64 ||
           dtype_is_f8(x->dtype) || dtype_is_block(x->dtype);
}

static kiln_status computable(const kiln_weights *w, const weights_entry *x, const char *from, error *e)
{
    if (is_number(x) || !x->dtype) return KILN_OK; /* type 0: refused when it is asked for */
    return error_set(e, KILN_ERR_UNSUPPORTED,
                     "%s: tensor '%.200s' is of type %s; only floating-point tensors can be joined or turned", w->path,
                     from, x->type_name);
}

static size_t product(const int64_t *dim, uint32_t from, uint32_t to)
{
    size_t n = 1;
    for (uint32_t i = from; i < to; i++) n *= (size_t)dim[i];
    return n;
}

/* x becomes elements of what it was, as d->dim, d->stride and d->offset say. */
static kiln_status restride(kiln_weights *w, weights_entry *x, weights_derived *d, const char *from, error *e)
{
    TRY(computable(w, x, from, e));
    if (!x->dtype) return KILN_OK;
    weights_entry *was = weights_keep_entry(w, x);
    const weights_entry **list = arena_alloc(&w->memory, sizeof(weights_entry *));
    if (!was || !list) return no_memory(w, e);
    list[0] = was;
    d->kind = DERIVED_STRIDED;
    d->from = list;
    d->n_from = 1;
    return weights_derive(w, x, d, e);
}

static void dense_strides(weights_derived *d)
{
    int64_t step = 1;
    for (uint32_t i = d->rank; i-- > 0;) d->stride[i] = step, step *= d->dim[i];
}

/* ---- slices ---- */

static kiln_status slice_any(kiln_weights *w, weights_entry *x, uint32_t axis, int64_t first, int64_t n,
                             const char *from, error *e)
{
    weights_derived d = {.rank = x->rank};
    memcpy(d.dim, x->dim, sizeof d.dim);
    dense_strides(&d);
    d.offset = first * d.stride[axis];
    d.dim[axis] = n;
    return restride(w, x, &d, from, e);
}

/* 1: rows of dimension 0 begin at whole bytes, and at blocks. */
static int has_whole_rows(const weights_entry *x)
{
    uint64_t count = (uint64_t)x->dim[0], row = count ? x->bytes / count : 0;
    size_t block = dtype_block(x->dtype);
    return !x->transposed && row * count == x->bytes && (block < 2 || product(x->dim, 1, x->rank) % block == 0);
}

kiln_status view_slice(kiln_weights *w, weights_entry *x, uint32_t axis, int64_t first, int64_t n, const char *from,
                       error *e)
{
    if (axis >= x->rank || first > x->dim[axis] || n > x->dim[axis] - first)
        return error_set(e, KILN_ERR_INVALID, "%s: tensor '%.200s' has %lld rows; %lld from row %lld were asked for",
                         w->path, from, (long long)(axis < x->rank ? x->dim[axis] : 0), (long long)n, (long long)first);
    if (axis == 0 && has_whole_rows(x)) {
        uint64_t row = x->dim[0] ? x->bytes / (uint64_t)x->dim[0] : 0;
        x->begin += row * (uint64_t)first;
        x->bytes = row * (uint64_t)n;
        x->dim[0] = n;
        return KILN_OK;
    }
    if (!x->dtype)
        return error_set(e, KILN_ERR_UNSUPPORTED, "%s: rows of tensor '%.200s' (%s) are no whole bytes", w->path, from,
                         x->type_name);
    return slice_any(w, x, axis, first, n, from, e);
}

/* ---- other orders ---- */

/* The halves of dimension 0 change places. */
static kiln_status swap_halves(kiln_weights *w, weights_entry *x, const char *from, error *e)
{
    if (x->rank < 1 || x->dim[0] % 2) return wrong(w, from, "has no two halves of rows to exchange", e);
    TRY(computable(w, x, from, e));
    if (!x->dtype) return KILN_OK;
    weights_derived d = {.kind = DERIVED_JOINED, .n_from = 2, .rank = x->rank};
    weights_entry *half[2];
    int64_t n = x->dim[0] / 2;
    memcpy(d.dim, x->dim, sizeof d.dim);
    if (!(d.from = arena_alloc(&w->memory, 2 * sizeof *d.from))) return no_memory(w, e);
    for (int i = 0; i < 2; i++) {
        if (!(half[i] = weights_keep_entry(w, x))) return no_memory(w, e);
        TRY(view_slice(w, half[i], 0, i ? 0 : n, n, from, e));
        d.from[i] = half[i];
    }
    return weights_derive(w, x, &d, e);
}

/* Rows (j, half) of each head become (half, j). */
static kiln_status unpermute(kiln_weights *w, weights_entry *x, int64_t heads, const char *from, error *e)
{
    if (x->rank < 1 || heads < 1 || x->dim[0] % (2 * heads))
        return wrong(w, from, "has no even number of rows a head", e);
    uint32_t rank = x->rank;
    int64_t shape[KILN_MAX_RANK], half = x->dim[0] / heads / 2, row = (int64_t)product(x->dim, 1, x->rank);
    memcpy(shape, x->dim, sizeof shape);
    weights_derived d = {.rank = 4, .dim = {heads, 2, half, row}, .stride = {2 * half * row, row, 2 * row, 1}};
    TRY(restride(w, x, &d, from, e));
    x->rank = rank;
    memcpy(x->dim, shape, sizeof x->dim);
    return KILN_OK;
}

static kiln_status reshape(kiln_weights *w, weights_entry *x, const kiln_weight_rule *r, const char *from, error *e)
{
    weights_derived d = {.rank = r->reshape_rank};
    size_t all = product(x->dim, 0, x->rank), known = 1, unknown = KILN_MAX_RANK;
    if (r->reshape_rank > KILN_MAX_RANK || !r->reshape) return wrong(w, from, "cannot have so many dimensions", e);
    for (uint32_t i = 0; i < d.rank; i++) {
        d.dim[i] = r->reshape[i];
        int fits = d.dim[i] == -1 ? unknown == KILN_MAX_RANK
                                  : d.dim[i] >= 0 && checked_mul_size(known, (size_t)d.dim[i], &known);
        if (!fits) return wrong(w, from, "cannot be given that shape", e);
        if (d.dim[i] == -1) unknown = i;
    }
    if (unknown < KILN_MAX_RANK && known) d.dim[unknown] = (int64_t)(all / known), known *= all / known;
    if (known != all) return wrong(w, from, "cannot be given that shape: it has another number of elements", e);
    dense_strides(&d);
    if (x->transposed) return restride(w, x, &d, from, e);
    x->rank = d.rank;
    memcpy(x->dim, d.dim, sizeof x->dim);
    return KILN_OK;
}

static kiln_status permute(kiln_weights *w, weights_entry *x, const kiln_weight_rule *r, const char *from, error *e)
{
    weights_derived dense = {.rank = x->rank}, d = {.rank = x->rank};
    uint32_t seen = 0;
    if (!r->permute || r->permute_rank != x->rank)
        return wrong(w, from, "has another number of dimensions to permute", e);
    memcpy(dense.dim, x->dim, sizeof dense.dim);
    dense_strides(&dense);
    for (uint32_t i = 0; i < d.rank; i++) {
        uint32_t k = r->permute[i];
        if (k >= d.rank || seen >> k & 1) return wrong(w, from, "cannot be permuted so: each dimension stands once", e);
        seen |= 1u << k;
        d.dim[i] = dense.dim[k], d.stride[i] = dense.stride[k];
    }
    return restride(w, x, &d, from, e);
}

static kiln_status transpose(kiln_weights *w, weights_entry *x, const char *from, error *e)
{
    if (x->rank != 2)
        return error_set(e, KILN_ERR_INVALID, "%s: tensor '%.200s' has %u dimensions; only one of 2 can be transposed",
                         w->path, from, x->rank);
    int64_t first = x->dim[0];
    x->dim[0] = x->dim[1];
    x->dim[1] = first;
    x->transposed = !x->transposed;
    return KILN_OK;
}

kiln_status view_shape(kiln_weights *w, const kiln_weight_rule *r, weights_entry *x, const char *from, error *e)
{
    if (r->rows > 0 && x->transposed) return wrong(w, from, "is transposed; take its rows in the view before", e);
    if (r->rows > 0) TRY(view_slice(w, x, 0, r->row, r->rows, from, e));
    if (r->slices > 0) TRY(view_slice(w, x, r->slice_axis, r->slice, r->slices, from, e));
    while (r->squeeze && x->rank > 1 && x->dim[x->rank - 1] == 1) {
        x->dim[--x->rank] = 0;
        x->transposed = 0; /* [a,1] and [1,a] are the same bytes */
    }
    if (r->swap_halves) TRY(swap_halves(w, x, from, e));
    if (r->unpermute_heads) TRY(unpermute(w, x, r->unpermute_heads, from, e));
    if (r->reshape_rank) TRY(reshape(w, x, r, from, e));
    if (r->permute_rank) TRY(permute(w, x, r, from, e));
    return r->transpose ? transpose(w, x, from, e) : KILN_OK;
}

/* ---- joins ---- */

static int fits_beside(const weights_entry *a, const weights_entry *b, uint32_t axis, int stacked)
{
    if (a->rank != b->rank) return 0;
    for (uint32_t i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i] && (stacked || i != axis)) return 0;
    return 1;
}

kiln_status view_join(kiln_weights *w, weights_entry *x, const weights_entry **part, size_t n, int stacked,
                      uint32_t axis, error *e)
{
    weights_derived d = {
        .kind = DERIVED_JOINED, .from = part, .n_from = n, .axis = axis, .rank = x->rank + (stacked != 0)};
    if (axis >= d.rank || d.rank > KILN_MAX_RANK)
        return error_set(e, KILN_ERR_INVALID, "%s: '%.200s' has %u dimensions and cannot be joined along dimension %u",
                         w->path, part[0]->name, x->rank, axis);
    memcpy(d.dim, x->dim, axis * sizeof *d.dim);
    memcpy(d.dim + axis + (stacked != 0), x->dim + axis, (x->rank - axis) * sizeof *d.dim);
    d.dim[axis] = stacked ? (int64_t)n : 0;
    for (size_t i = 0; i < n; i++) {
        if (!part[i]->dtype) return x->dtype = 0, x->scale = part[i]->scale, x->type_name = part[i]->type_name, KILN_OK;
        TRY(computable(w, part[i], part[i]->name, e));
        if (!fits_beside(part[0], part[i], axis, stacked))
            return error_set(e, KILN_ERR_INVALID, "%s: '%.200s' and '%.200s' have shapes that cannot be joined",
                             w->path, part[0]->name, part[i]->name);
        if (!stacked && !checked_add_i64(d.dim[axis], part[i]->dim[axis], &d.dim[axis]))
            return error_set(e, KILN_ERR_INVALID, "%s: '%.200s' would be too large", w->path, part[0]->name);
    }
    return weights_derive(w, x, &d, e);
}
