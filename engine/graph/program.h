/* program.h - a tensor program while it is recorded: ops in order, leaves, outputs, the sticky error.
 *
 * record_* append one op each and return its handle; after a wrong shape the program has failed (sticky error), and
 * everything recorded later is ignored. What a finished recording becomes is in fuse.h and plan.h. One thread at a
 * time.
 */
#ifndef KILN_GRAPH_PROGRAM_H
#define KILN_GRAPH_PROGRAM_H

#include "base/arena.h"
#include "base/status.h"
#include "graph/op.h"
#include "weights/weights.h"

enum { PARTS_MAX = 4, OPS_MAX = 200000, SCOPE_DEPTH_MAX = 32, REGIONS_MAX = 8 };

typedef struct {
    op_kind kind;
    op_attr attr;
    op_epilogue epilogue;
    uint32_t n_in;
    uint32_t in[OP_MAX_IN + 1]; /* tensor ids (op index + 1), 0: absent; a residual comes last */
    shape shape;
    uint32_t dtype;     /* inputs and weights: as declared or stored; others: of the result */
    uint32_t precision; /* of what it computes: a region's, or the program's */
    uint32_t saturate;  /* 1: its numbers beyond f16's range are stored as the ends of it */
    const char *scope;  /* "unet/down.0/attn1" */
    /* leaves */
    const char *name;     /* input, weight */
    int invariant;        /* input: step-invariant, it seldom changes from run to run */
    kiln_weights *set;    /* weight: borrowed from the program's list */
    const void *constant; /* f32 or i32 */
    uint32_t n_part;      /* weight of several stacked along dimension 0: ids of them */
    uint32_t part[PARTS_MAX];
    int dead; /* fused away or unused */
    /* while recording: ids of it in another type (f32, f16, bf16, i32), 0: not asked for yet */
    uint32_t as_type[4];
} op;

typedef struct {
    const char *name;
    uint32_t id;
} program_output;

typedef struct {
    arena memory;
    const char *name;
    uint32_t precision;
    uint32_t precisions; /* bits of those that the device has; 0: all */
    uint32_t region[REGIONS_MAX], n_region;
    uint32_t saturate; /* of what is recorded now */
    op *op;
    size_t n, capacity;
    program_output *output;
    size_t n_output, output_capacity;
    kiln_weights **set; /* one reference each */
    size_t n_set, set_capacity;
    char scope[512];
    size_t scope_end[SCOPE_DEPTH_MAX], scope_depth;
    error failure;
} recording;

kiln_status recording_init(recording *r, const char *name, uint32_t precision, error *e);
void recording_free(recording *r);

kiln_t record_input(recording *r, const char *name, uint32_t dtype, uint32_t rank, const int64_t *dim);
void record_output(recording *r, const char *name, kiln_t t);
/* What depends on step-invariant inputs alone is computed when they have changed, and kept (plan.h). */
void record_step_invariant(recording *r, kiln_t input);
kiln_t record_weight(recording *r, kiln_weights *set, const char *name, uint32_t rank, const int64_t *dim,
                     int optional);
/* dtype KILN_F32 or KILN_I32; copied. */
kiln_t record_constant(recording *r, uint32_t dtype, const void *data, uint32_t rank, const int64_t *dim);
/* Checks operands by the op's rule (shape_rules.h) and appends it, behind what turns operands into the types of its
 * slots. */
kiln_t record_op(recording *r, op_kind kind, const op_attr *attr, const kiln_t *in, uint32_t n_in);
/* Appends an op whose operands, shape and type are known. */
kiln_t record_append(recording *r, const op *o);
/* The tensor in this type: itself, or behind a conversion. A weight becomes a tensor. */
kiln_t record_as(recording *r, kiln_t x, uint32_t dtype);
/* One more result of the op just recorded, which is `of`; 1 is the first one. */
kiln_t record_result(recording *r, kiln_t of, uint32_t index, uint32_t dtype, const shape *s);
/* map() of an expression; `options` may be NULL; least: a shape that the result has at least, or NULL. */
kiln_t record_map(recording *r, const char *expression, const kiln_t *x, uint32_t n, const kiln_map *options,
                  const shape *least);
/* Memory that outlives a run: every program that records this name has the same. dtype f32, bf16, f16 or i32. */
kiln_t record_state(recording *r, const char *name, uint32_t dtype, uint32_t rank, const int64_t *dim);
kiln_t record_random(recording *r, kiln_t seed, uint32_t kind, uint32_t rank, const int64_t *dim);
void record_precision_push(recording *r, uint32_t dtype);
void record_precision_pop(recording *r);
/* The precision of what is recorded now. */
uint32_t record_precision(const recording *r);
kiln_t record_reshape(recording *r, kiln_t x, uint32_t rank, const int64_t *dim);
kiln_t record_fail(recording *r, kiln_status status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
kiln_t record_failv(recording *r, kiln_status status, const char *fmt, va_list args);
void record_scope_push(recording *r, const char *name);
void record_scope_pop(recording *r);
const op *recorded(const recording *r, kiln_t t); /* NULL: no such handle */
/* Goes before an op's scope in a message; nothing when it was recorded outside all scopes. */
static inline const char *at_or_not(const op *o) { return o->scope[0] ? ", at " : ""; }

#endif
