/* derived.c - see derived.h: joined and strided tensors, and what all kinds share. scaled.c finds those with scales,
 * scaled_read.c computes them.
 */
#include "weights/derived.h"

#include "base/checked.h"
#include "base/memory_alloc.h"

#include <string.h>

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }
static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

static kiln_status no_memory(const weights_entry *x, error *e)
{
    return error_set(e, KILN_ERR_NOMEM, "%s: out of memory for '%.200s'", x->file->map.path, x->name);
}

/* ---- making ---- */

weights_entry *weights_keep_entry(kiln_weights *w, const weights_entry *x)
{
    weights_entry *copy = arena_alloc(&w->memory, sizeof *copy);
    if (!copy) return NULL;
    weights_copy_entry(copy, x, x->parent);
    copy->name = x->name;
    copy->beside = x->beside;
    return copy;
}

kiln_status weights_derive(kiln_weights *w, weights_entry *x, const weights_derived *d, error *e)
{
    size_t bytes = 0;
    weights_derived *copy = arena_alloc(&w->memory, sizeof *copy);
    if (!copy) return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", w->path);
    if (!checked_bytes(d->rank, d->dim, sizeof(float), &bytes))
        return error_set(e, KILN_ERR_INVALID, "%s: tensor '%.200s' is too large as f32", w->path, x->name);
    *copy = *d;
    copy->owner = w;
    x->derived = copy;
    x->patch = NULL;
    x->file = d->from[0]->file;
    x->type_name = d->kind == DERIVED_SCALED ? d->scaling.name : d->from[0]->type_name;
    x->dtype = KILN_F32;
    x->rank = d->rank;
    memcpy(x->dim, d->dim, sizeof x->dim);
    x->begin = 0;
    x->bytes = bytes;
    x->transposed = 0;
    return KILN_OK;
}

/* ---- joined ---- */

static size_t product(const int64_t *dim, uint32_t from, uint32_t to)
{
    size_t n = 1;
    for (uint32_t i = from; i < to; i++) n *= (size_t)dim[i];
    return n;
}

static kiln_status read_joined(const weights_entry *x, weights_access how, size_t first, size_t n, float *dst, pool *p,
                               error *e)
{
    const weights_derived *d = x->derived;
    size_t outer = product(d->dim, 0, d->axis), row = product(d->dim, d->axis, d->rank), at = 0;
    for (size_t i = 0; i < d->n_from; i++) { /* at: where this part begins in a row */
        size_t part = weights_count_of(d->from[i]) / larger(outer, 1);
        size_t from_row = first / row, to_row = (first + n - 1) / row;
        for (size_t r = from_row; r <= to_row; r++) {
            size_t begin = larger(r * row + at, first), end = smaller(r * row + at + part, first + n);
            if (begin >= end) continue;
            TRY(weights_read_range(d->from[i], how, r * part + (begin - r * row - at), end - begin,
                                   dst + (begin - first), p, e));
        }
        at += part;
    }
    return KILN_OK;
}

/* ---- strided ---- */

/* Trailing dimensions whose elements lie together in the source. */
static uint32_t dense_from(const weights_derived *d, size_t *run)
{
    uint32_t k = d->rank;
    *run = 1;
    while (k > 0 && (d->dim[k - 1] == 1 || d->stride[k - 1] == (int64_t)*run)) *run *= (size_t)d->dim[--k];
    return k;
}

/* Where the run with this number begins in the source. */
static size_t run_begin(const weights_derived *d, uint32_t outer, size_t number)
{
    int64_t at = d->offset;
    for (uint32_t i = outer; i-- > 0; number /= (size_t)d->dim[i])
        at += (int64_t)(number % (size_t)d->dim[i]) * d->stride[i];
    return (size_t)at;
}

size_t weights_strided_place(const weights_derived *d, size_t at, size_t *run)
{
    uint32_t outer = dense_from(d, run);
    return run_begin(d, outer, at / *run) + at % *run;
}

enum { RUN_LEAST = 64 }; /* a shorter one is gathered from the whole source */

static int gathers(const weights_derived *d)
{
    size_t run;
    dense_from(d, &run);
    return run < RUN_LEAST || !weights_reads_by_parts(d->from[0]);
}

/* all: the source's elements; NULL: they are read run by run. */
static kiln_status copy_runs(const weights_entry *x, weights_access how, size_t first, size_t n, const float *all,
                             float *dst, error *e)
{
    const weights_derived *d = x->derived;
    size_t run;
    uint32_t outer = dense_from(d, &run);
    for (size_t done = 0; done < n;) {
        size_t into = (first + done) % run, m = smaller(run - into, n - done),
               from = run_begin(d, outer, (first + done) / run) + into;
        if (all)
            memcpy(dst + done, all + from, m * sizeof *dst);
        else
            TRY(weights_read_range(d->from[0], how, from, m, dst + done, NULL, e));
        done += m;
    }
    return KILN_OK;
}

static kiln_status read_strided(const weights_entry *x, weights_access how, size_t first, size_t n, float *dst, pool *p,
                                error *e)
{
    const weights_entry *from = x->derived->from[0];
    size_t count = weights_count_of(from);
    if (!gathers(x->derived)) return copy_runs(x, how, first, n, NULL, dst, e);
    float *all = mem_alloc(count * sizeof *all + 1);
    kiln_status status = all ? weights_read_range(from, how, 0, count, all, p, e) : no_memory(x, e);
    if (status == KILN_OK) status = copy_runs(x, how, first, n, all, dst, e);
    mem_free(all);
    return status;
}

/* ---- all kinds ---- */

kiln_status weights_read_derived(const weights_entry *x, weights_access how, size_t first, size_t n, float *dst,
                                 pool *p, error *e)
{
    if (n == 0) return KILN_OK;
    if (x->derived->kind == DERIVED_SCALED) return weights_read_scaled(x, how, first, n, dst, e);
    if (x->derived->kind == DERIVED_JOINED) return read_joined(x, how, first, n, dst, p, e);
    return read_strided(x, how, first, n, dst, p, e);
}

int weights_reads_by_parts(const weights_entry *x)
{
    if (x->transposed || x->patch) return 0;
    if (!x->derived || x->derived->kind == DERIVED_SCALED) return 1;
    if (x->derived->kind == DERIVED_STRIDED) return !gathers(x->derived);
    for (size_t i = 0; i < x->derived->n_from; i++)
        if (!weights_reads_by_parts(x->derived->from[i])) return 0;
    return 1;
}

size_t weights_derived_scratch(const weights_entry *x, size_t n, size_t threads)
{
    const weights_derived *d = x->derived;
    size_t most = 0;
    if (d->kind == DERIVED_SCALED) return weights_scaled_scratch(x, n);
    for (size_t i = 0; i < d->n_from; i++) most = larger(most, weights_scratch_of(d->from[i], threads));
    return most + (d->kind == DERIVED_STRIDED && gathers(d) ? weights_count_of(d->from[0]) * sizeof(float) : 0);
}

kiln_status weights_each_part(const weights_entry *x, kiln_status (*fn)(void *arg, const weights_entry *, error *),
                              void *arg, error *e)
{
    for (size_t i = 0; x->derived && i < x->derived->n_from; i++) TRY(fn(arg, x->derived->from[i], e));
    if (!x->patch) return KILN_OK;
    TRY(fn(arg, x->patch->base, e));
    for (const patch_term *t = x->patch->term; t; t = t->next)
        for (uint32_t i = 0; i < t->n_from; i++)
            if (t->from[i]) TRY(fn(arg, t->from[i], e));
    return KILN_OK;
}
