/* patch.c - sets in which patches (LoRA's up x down, plain differences, what plugins compute) are added to some
 * tensors; see include/kiln/weights.h. Here the patches are checked; patched.c computes them, each time a tensor is
 * read. */
#include "base/checked.h"
#include "base/memory_alloc.h"
#include "tensor/dtype.h"
#include "weights/set.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *shape_of(const weights_entry *x, char text[128])
{
    size_t at = (size_t)snprintf(text, 128, "[");
    for (uint32_t i = 0; i < x->rank && at < 128; i++)
        at += (size_t)snprintf(text + at, 128 - at, "%s%lld", i ? "," : "", (long long)x->dim[i]);
    if (at < 128) snprintf(text + at, 128 - at, "]");
    return text;
}

static int64_t dim_of(const weights_entry *x, uint32_t i) { return i < x->rank ? x->dim[i] : 1; }

/* a's dimensions from `first` on are b's; dimensions of size 1 at the end do not count. */
static int same_dims(const weights_entry *a, const weights_entry *b, uint32_t first)
{
    for (uint32_t i = first; i < KILN_MAX_RANK; i++)
        if (dim_of(a, i) != dim_of(b, i)) return 0;
    return 1;
}

static int is_float(uint32_t dtype)
{
    return dtype == KILN_F32 || dtype == KILN_F16 || dtype == KILN_BF16 || dtype == KILN_F64 || dtype_is_f8(dtype) ||
           dtype_is_block(dtype);
}

static kiln_status find_number(const kiln_weights *w, const char *name, weights_entry **out, error *e)
{
    weights_entry *x = *out = weights_entry_of(w, name);
    if (!name) return error_set(e, KILN_ERR_INVALID, "%s: a patch without the name of a tensor", w->path);
    if (!x) return weights_missing(w, name, e);
    TRY(weights_usable(x, e));
    if (is_float(x->dtype)) return KILN_OK;
    return error_set(e, KILN_ERR_UNSUPPORTED,
                     "%s: tensor '%.200s' is of type %s; patches are of floating-point tensors", w->path, name,
                     x->type_name);
}

static kiln_status does_not_fit(const kiln_weight_patch *p, const weights_entry *base, const weights_entry *a,
                                const weights_entry *b, error *e)
{
    char base_shape[128], a_shape[128], b_shape[128] = "";
    int whole = !b || (a->rank >= 2 && b->rank >= 2 && a->dim[1] == b->dim[0]);
    return error_set(e, KILN_ERR_INVALID, "%s: tensor '%.200s' %s%s%.200s%s%s does not fit '%.200s' %s of %s%s",
                     p->from->path, a->name, shape_of(a, a_shape), b ? " x '" : "", b ? b->name : "", b ? "' " : "",
                     b ? shape_of(b, b_shape) : "", base->name, shape_of(base, base_shape), base->file->map.path,
                     whole ? "; it was made for another model" : "");
}

static kiln_status check_product(const kiln_weight_patch *p, const weights_entry *base, const weights_entry *up,
                                 const weights_entry *down, error *e)
{
    int64_t rank = dim_of(down, 0), trailing = 1;
    for (uint32_t i = 2; i < up->rank; i++) trailing *= up->dim[i] == 1;
    if (up->rank < 2 || down->rank < 2 || base->rank < 1 || !trailing || up->dim[1] != rank ||
        up->dim[0] != base->dim[0] || !same_dims(down, base, 1))
        return does_not_fit(p, base, up, down, e);
    if (rank < 1)
        return error_set(e, KILN_ERR_INVALID, "%s: tensor '%.200s' is of rank 0: there is nothing to add",
                         p->from->path, down->name);
    return KILN_OK;
}

static kiln_status no_memory(const kiln_weights *w, error *e)
{
    return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", w->path);
}

/* A patch says one of three things. */
static int is_one_of_three(const kiln_weight_patch *p)
{
    if (p->change) return !p->difference && !p->up && !p->down && (p->n_factor == 0 || p->factor);
    return p->difference ? !p->up && !p->down : p->up || p->down;
}

static kiln_status check_numbers(const kiln_weights *w, const kiln_weight_patch *p, error *e)
{
    int finite = isfinite(p->strength) && isfinite(p->scale) && isfinite((float)(p->strength * p->scale));
    for (uint32_t i = 0; p->change && i < p->n_option && finite; i++) finite = isfinite(p->option[i]);
    if (finite) return KILN_OK;
    return error_set(
        e, KILN_ERR_INVALID,
        "%s: the patch of '%.200s' has strength %g and scale %g; their product must be a number that f32 holds",
        w->path, p->name, p->strength, p->scale);
}

static kiln_status check_change(const kiln_weights *w, const kiln_weight_patch *p, error *e)
{
    const kiln_weight_change *c = p->change;
    if (KILN_HAS(kiln_weight_change, c, apply) && c->name && c->apply) return KILN_OK;
    return error_set(e, KILN_ERR_BUG, "%s: the change of '%.200s' has no size, no name or no apply()", w->path,
                     p->name);
}

/* Copies what outlives the call into the set's memory. */
static kiln_status keep_change(kiln_weights *w, const kiln_weight_patch *p, patch_term *out, error *e)
{
    out->change = p->change, out->strength = p->strength, out->scale = p->scale;
    out->n_option = p->option ? p->n_option : 0;
    out->option = arena_alloc(&w->memory, (out->n_option + 1) * sizeof *out->option);
    if (!out->option) return no_memory(w, e);
    if (out->n_option) memcpy(out->option, p->option, out->n_option * sizeof *out->option);
    out->factor_of = arena_alloc(&w->memory, (out->n_from + 1) * sizeof *out->factor_of);
    if (!out->factor_of) return no_memory(w, e);
    for (uint32_t i = 0; i < out->n_from; i++)
        if (out->from[i])
            out->factor_of[i] = (kiln_weight_factor){.rank = out->from[i]->rank, .dim = out->from[i]->dim};
    return KILN_OK;
}

/* The tensors that a patch names, all of them numbers. */
static kiln_status find_factors(kiln_weights *w, const kiln_weight_patch *p, patch_term *out, error *e)
{
    const char *pair[] = {p->difference ? p->difference : p->up, p->down};
    const char *const *name = p->change ? p->factor : pair;
    uint32_t n = p->change ? p->n_factor : p->difference ? 1 : 2;
    out->from = arena_alloc(&w->memory, (n + 1) * sizeof *out->from);
    if (!out->from) return no_memory(w, e);
    for (out->n_from = 0; out->n_from < n; out->n_from++) {
        weights_entry *x = NULL;
        if (name[out->n_from] || !p->change) TRY(find_number(p->from, name[out->n_from], &x, e));
        if (x && p->change && !dtype_block(x->dtype)) return weights_usable(x, e);
        out->from[out->n_from] = x;
    }
    return KILN_OK;
}

static void mark_factors(const kiln_weight_patch *p, const patch_term *t)
{
    for (uint32_t i = 0; i < t->n_from; i++)
        if (t->from[i]) weights_mark_entry(p->from, (weights_entry *)(uintptr_t)t->from[i]);
}

/* What one patch says, checked. factor 0: it adds nothing. */
static kiln_status read_patch(kiln_weights *w, const kiln_weight_patch *p, weights_entry **base, patch_term *out,
                              error *e)
{
    TRY(find_number(w->base, p->name, base, e));
    if (!p->from || !is_one_of_three(p))
        return error_set(e, KILN_ERR_INVALID,
                         "%s: the patch of '%.200s' needs a set, and either up and down or a difference or a change",
                         w->path, p->name);
    *out = (patch_term){.factor = (float)(p->strength * p->scale)};
    if (p->change) TRY(check_change(w, p, e));
    TRY(find_factors(w, p, out, e));
    if (p->change) TRY(keep_change(w, p, out, e));
    if (out->n_from > 1 && !p->change) {
        out->rank = (size_t)dim_of(out->from[1], 0);
        TRY(check_product(p, *base, out->from[0], out->from[1], e));
    }
    if (p->difference && !same_dims(out->from[0], *base, 0)) return does_not_fit(p, *base, out->from[0], NULL, e);
    TRY(check_numbers(w, p, e));
    mark_factors(p, out);
    return KILN_OK;
}

/* From now on its elements are computed. */
static kiln_status begin_patched(kiln_weights *w, weights_entry *x, const weights_entry *base, error *e)
{
    size_t bytes = 0;
    weights_patched *p = arena_alloc(&w->memory, sizeof *p);
    if (!p) return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", w->path);
    if (!checked_bytes(x->rank, x->dim, sizeof(float), &bytes))
        return error_set(e, KILN_ERR_INVALID, "%s: tensor '%.200s' is too large as f32", w->path, x->name);
    p->base = base;
    p->count = bytes / sizeof(float);
    p->columns = x->rank && x->dim[0] ? p->count / (size_t)x->dim[0] : 1;
    x->patch = p;
    x->derived = NULL;
    x->dtype = KILN_F32;
    x->type_name = "F32";
    x->begin = 0;
    x->bytes = bytes;
    x->transposed = 0;
    return KILN_OK;
}

static kiln_status add_term(kiln_weights *w, const kiln_weight_patch *given, error *e)
{
    weights_entry *base = NULL;
    patch_term term, *copy;
    TRY(read_patch(w, given, &base, &term, e));
    if (term.factor == 0 || base->bytes == 0) return KILN_OK;
    weights_entry *x = &w->entry[base - w->base->entry];
    if (x->patch == base->patch) TRY(begin_patched(w, x, base, e));
    if (!(copy = arena_alloc(&w->memory, sizeof *copy)))
        return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", w->path);
    *copy = term;
    patch_term **end = &((weights_patched *)(uintptr_t)x->patch)->term;
    while (*end) end = &(*end)->next;
    *end = copy;
    w->from[w->n_from++] = weights_ref(given->from);
    return KILN_OK;
}

static kiln_status copy_entries(kiln_weights *w, error *e)
{
    const kiln_weights *base = w->base;
    w->entry = arena_alloc(&w->memory, (base->n + 1) * sizeof *w->entry);
    if (!w->entry) return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", w->path);
    for (w->n = 0; w->n < base->n; w->n++) {
        weights_copy_entry(&w->entry[w->n], &base->entry[w->n], w->n);
        w->entry[w->n].name = base->entry[w->n].name;
    }
    return KILN_OK;
}

static kiln_status fill(kiln_weights *w, const kiln_weight_patch *patch, size_t n, error *e)
{
    TRY(copy_entries(w, e));
    if (!(w->from = mem_calloc(n + 1, sizeof(kiln_weights *))))
        return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", w->path);
    for (size_t i = 0; i < n; i++) {
        const kiln_weight_patch *p = (const kiln_weight_patch *)(const void *)((const char *)patch + i * patch->size);
        kiln_weight_patch known = {0}; /* what an older plugin's does not have is 0 */
        if (!KILN_HAS(kiln_weight_patch, p, difference) || p->size != patch->size || p->size % sizeof(void *))
            return error_set(e, KILN_ERR_BUG, "%s: patch %zu of %zu has no size, or not that of the first", w->path, i,
                             n);
        memcpy(&known, p, p->size < sizeof known ? p->size : sizeof known);
        TRY(add_term(w, &known, e));
    }
    return KILN_OK;
}

kiln_weights *weights_patch(kiln_weights *base, const kiln_weight_patch *patch, size_t n, error *e)
{
    if (!base) return error_set(e, KILN_ERR_INVALID, "a patch of no weights was asked for"), NULL;
    kiln_weights *w = set_new(base->path, e);
    if (!w) return NULL;
    w->base = weights_ref(base);
    kiln_status status = fill(w, patch, n, e);
    if (status == KILN_OK && w->n_from) return w;
    weights_unref(w);
    return status == KILN_OK ? weights_ref(base) : NULL; /* nothing is added */
}
