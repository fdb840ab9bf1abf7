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

enum { PARTS_MAX = 4, OPS_MAX = 200000, SCOPE_DEPTH_MAX = 32 };

typedef struct {
    op_kind kind;
    op_attr attr;
    op_epilogue epilogue;
    uint32_t n_in;
    uint32_t in[OP_MAX_IN + 1]; /* tensor ids (op index + 1), 0: absent; a residual comes last */
    shape shape;
    uint32_t dtype;    /* inputs and weights: as declared or stored; others: 0 until planned */
    const char *scope; /* "unet/down.0/attn1" */
    /* leaves */
    const char *name;  /* input, weight */
    int invariant;     /* input: step-invariant, it seldom changes from run to run */
    kiln_weights *set; /* weight: borrowed from the program's list */
    const float *constant;
    uint32_t n_part; /* weight of several stacked along dimension 0: ids of them */
    uint32_t part[PARTS_MAX];
    int dead; /* fused away or unused */
} op;

typedef struct {
    const char *name;
    uint32_t id;
} program_output;

typedef struct {
    arena memory;
    const char *name;
    uint32_t precision;
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
kiln_t record_constant(recording *r, const float *data, uint32_t rank, const int64_t *dim);
/* Checks operands by the op's rule (shape_rules.h) and appends it. */
kiln_t record_op(recording *r, op_kind kind, const op_attr *attr, const kiln_t *in, uint32_t n_in);
kiln_t record_reshape(recording *r, kiln_t x, uint32_t rank, const int64_t *dim);
kiln_t record_fail(recording *r, kiln_status status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
kiln_t record_failv(recording *r, kiln_status status, const char *fmt, va_list args);
void record_scope_push(recording *r, const char *name);
void record_scope_pop(recording *r);
const op *recorded(const recording *r, kiln_t t); /* NULL: no such handle */
/* Goes before an op's scope in a message; nothing when it was recorded outside all scopes. */
static inline const char *at_or_not(const op *o) { return o->scope[0] ? ", at " : ""; }

#endif
