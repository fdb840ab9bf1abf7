/* kit.h - small helpers for node files: TRY, tensor windows, new values. Header only, optional. */
#ifndef KILN_KIT_H
#define KILN_KIT_H

#include "kiln/value.h"

#include <string.h>

#define TRY(expr)                                                                                                      \
    do {                                                                                                               \
        kiln_status try_status_ = (expr);                                                                              \
        if (try_status_ != KILN_OK) return try_status_;                                                                \
    } while (0)

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- rows ---- */

/* The head of a kiln_node that is pure, reentrant and can be called in an estimate (kiln/plugin.h): its run() returns
 * after its outputs are made when kit_estimating(c), or touches no numbers of a tensor in the first place.
 *     const kiln_node invert = {KIT_NODE("ImageInvert", "Invert Image", "image", "1 - x, for every colour."),
 *                               KILN_ARRAY(in, invert_in), KILN_ARRAY(out, invert_out), .run = invert_run}; */
#define KIT_NODE(type_, title_, category_, doc_) KIT_NODE_AT(1, type_, title_, category_, doc_)
#define KIT_NODE_AT(revision_, type_, title_, category_, doc_)                                                         \
    KIT_NODE_FLAGS(KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_ESTIMATES, revision_, type_, title_, category_,    \
                   doc_)
#define KIT_NODE_FLAGS(flags_, revision_, type_, title_, category_, doc_)                                              \
    .size = sizeof(kiln_node), .flags = (flags_), .devices = KILN_CPU, .revision = (revision_), .type = (type_),       \
    .title = (title_), .category = (category_), .doc = (doc_)

/* A kiln_param that is called like its field in the node's struct. */
#define KIT_INT(struct_, field_, default_, min_, max_, doc_)                                                           \
    {                                                                                                                  \
        .name = #field_, .doc = (doc_), .type = KILN_P_INT, .offset = offsetof(struct_, field_), .def = (default_),    \
        .min = (min_), .max = (max_), .step = 1                                                                        \
    }
#define KIT_FLOAT(struct_, field_, default_, min_, max_, step_, doc_)                                                  \
    {                                                                                                                  \
        .name = #field_, .doc = (doc_), .type = KILN_P_FLOAT, .offset = offsetof(struct_, field_), .def = (default_),  \
        .min = (min_), .max = (max_), .step = (step_)                                                                  \
    }
/* Of more than min_. */
#define KIT_FLOAT_ABOVE(struct_, field_, default_, min_, max_, step_, doc_)                                            \
    {                                                                                                                  \
        .name = #field_, .doc = (doc_), .type = KILN_P_FLOAT, .flags = KILN_PARAM_ABOVE_MIN,                           \
        .offset = offsetof(struct_, field_), .def = (default_), .min = (min_), .max = (max_), .step = (step_)          \
    }
#define KIT_BOOL(struct_, field_, default_, doc_)                                                                      \
    {                                                                                                                  \
        .name = #field_, .doc = (doc_), .type = KILN_P_BOOL, .offset = offsetof(struct_, field_), .def = (default_)    \
    }
#define KIT_ENUM(struct_, field_, choices_, default_, doc_)                                                            \
    {                                                                                                                  \
        .name = #field_, .doc = (doc_), .type = KILN_P_ENUM, .offset = offsetof(struct_, field_), .def = (default_),   \
        KILN_CHOICES(choices_)                                                                                         \
    }
#define KIT_SEED(struct_, field_, doc_)                                                                                \
    {                                                                                                                  \
        .name = #field_, .doc = (doc_), .type = KILN_P_SEED, .offset = offsetof(struct_, field_)                       \
    }
#define KIT_PARAMS(struct_, table_) KILN_ARRAY(param, table_), .params_size = sizeof(struct_)

/* ---- tensors ---- */

/* 1: nothing is computed in this call, and tensors have no data (KILN_NODE_ESTIMATES). */
static inline int kit_estimating(const kiln_call *c) { return c->estimate != 0; }

/* Where number n of a tensor's data lies: for windows into a tensor that may have none. */
static inline float *kit_at(void *data, size_t n) { return data ? (float *)data + n : NULL; }

static inline void kit_tensor_clear(kiln_tensor *t)
{
    memset(t, 0, sizeof *t);
    t->size = (uint32_t)sizeof *t;
}

/* The value functions; every engine of this contract's version has them. */
static inline const kiln_value_api *kit_values(const kiln_call *c)
{
    return (const kiln_value_api *)c->host->ability(KILN_VALUE_ABILITY);
}

/* A window on a tensor value that must be dense f32 of `rank_min` to `rank_max` dimensions; else a message that names
 * `what`. */
static inline kiln_status kit_f32_between(const kiln_call *c, const kiln_value *v, uint32_t rank_min, uint32_t rank_max,
                                          const char *what, kiln_tensor *out)
{
    kit_tensor_clear(out);
    if (!v) return c->host->fail(c->ctx, KILN_ERR_INVALID, "%s is missing", what);
    TRY(c->host->view(c->ctx, v, out));
    if (out->dtype == KILN_F32 && out->rank >= rank_min && out->rank <= rank_max) return KILN_OK;
    if (rank_min == rank_max)
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "%s: expected a float tensor with %u dimensions, got %u", what,
                             rank_min, out->rank);
    return c->host->fail(c->ctx, KILN_ERR_INVALID, "%s: expected a float tensor with %u to %u dimensions, got %u", what,
                         rank_min, rank_max, out->rank);
}

/* The same of `rank`. */
static inline kiln_status kit_f32(const kiln_call *c, const kiln_value *v, uint32_t rank, const char *what,
                                  kiln_tensor *out)
{
    return kit_f32_between(c, v, rank, rank, what, out);
}

/* The status of a failure, said to be of that parameter of the node (kiln_host.at_param). */
static inline kiln_status kit_at_param(const kiln_call *c, kiln_status status, const char *param)
{
    return KILN_HAS(kiln_host, c->host, at_param) ? c->host->at_param(c->ctx, status, param) : status;
}

/* Puts a value just made into a map and drops the caller's reference; NULL is no memory. */
static inline kiln_status kit_set(const kiln_call *c, kiln_value *map, const char *key, kiln_value *item)
{
    kiln_status status = item ? kit_values(c)->map_set(map, key, item) : KILN_ERR_NOMEM;
    c->host->unref(item);
    return status;
}

/* Elements of a tensor window. */
static inline size_t kit_count(const kiln_tensor *t)
{
    size_t n = 1;
    for (uint32_t i = 0; i < t->rank; i++) n *= (size_t)t->dim[i];
    return n;
}

/* A dense window on memory that is the caller's, for binding it to a program. It borrows `dim`: a KILN_DIMS(...) in the
 * argument lives to the end of the block around it, and what an `if` or a loop guards is a block, with braces or
 * without. */
static inline kiln_tensor kit_window(uint32_t dtype, uint32_t device, void *data, uint32_t rank, const int64_t *dim)
{
    kiln_tensor t;
    kit_tensor_clear(&t);
    t.dtype = dtype, t.device = device, t.rank = rank, t.dim = dim, t.data = data;
    return t;
}

/* The samples of a LATENT: f32 [N,L,C] (a sound), [N,H,W,C] (a picture) or [N,T,H,W,C] (a video). */
static inline kiln_status kit_samples(const kiln_call *c, const kiln_value *latent, kiln_tensor *out)
{
    return kit_f32_between(c, kit_values(c)->map_get(latent, "samples"), 3, 5, "the latent's samples", out);
}

/* A LATENT as planes of cells, for what is done to each frame alike: [planes, rows, columns, channels]. A picture is a
 * plane, and so is each frame of a video; a sound has one row. */
typedef struct {
    int64_t planes, rows, columns, channels;
    int64_t frames; /* of each picture: planes / pictures */
} kit_planes;

static inline kit_planes kit_planes_of(const kiln_tensor *samples)
{
    const int64_t *d = samples->dim;
    uint32_t r = samples->rank;
    kit_planes p = {d[0], r > 3 ? d[r - 3] : 1, d[r - 2], d[r - 1], r > 4 ? d[1] : 1};
    p.planes *= p.frames;
    return p;
}

/* A new f32 tensor value and a window on it; KILN_ERR_NOMEM when there is no memory. */
static inline kiln_status kit_new_f32(const kiln_call *c, uint32_t rank, const int64_t *dim, kiln_value **value,
                                      kiln_tensor *out)
{
    *value = c->host->tensor_new(c->ctx, KILN_F32, KILN_CPU, rank, dim);
    if (!*value) return KILN_ERR_NOMEM;
    kit_tensor_clear(out);
    return c->host->view(c->ctx, *value, out);
}

/* *out = a copy of the LATENT `base` (NULL: a new one) with these samples in it. Takes the caller's reference to
 * samples, also when it fails; NULL samples is no memory. */
static inline kiln_status kit_latent(const kiln_call *c, const kiln_value *base, kiln_value *samples, kiln_value **out)
{
    const kiln_value_api *v = kit_values(c);
    kiln_value *latent = base ? v->map_copy(c->ctx, base) : v->new_map(c->ctx);
    kiln_status status = latent ? kit_set(c, latent, "samples", samples) : KILN_ERR_NOMEM;
    if (!latent) c->host->unref(samples);
    if (status == KILN_OK)
        *out = latent;
    else
        c->host->unref(latent);
    return status;
}

/* *out = a copy of a CONDITIONING whose entries have item[i] under key[i], i < n. The caller keeps its references. */
static inline kiln_status kit_entries_with(const kiln_call *c, const kiln_value *list, size_t n, const char *const *key,
                                           kiln_value *const *item, kiln_value **out)
{
    const kiln_value_api *v = kit_values(c);
    kiln_value *result = v->new_list(c->ctx);
    kiln_status status = result ? KILN_OK : KILN_ERR_NOMEM;
    for (size_t i = 0; status == KILN_OK && i < v->count(list); i++) {
        kiln_value *entry = v->map_copy(c->ctx, v->list_at(list, i));
        status = entry ? KILN_OK : KILN_ERR_NOMEM;
        for (size_t k = 0; status == KILN_OK && k < n; k++) status = v->map_set(entry, key[k], item[k]);
        if (status == KILN_OK) status = v->list_push(result, entry);
        c->host->unref(entry);
    }
    if (status == KILN_OK)
        *out = result;
    else
        c->host->unref(result);
    return status;
}

#endif
