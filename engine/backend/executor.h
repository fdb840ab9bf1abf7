/* executor.h - a planned program with a kernel for each op, and what it needs of the device's memory. For backend/. */
#ifndef KILN_BACKEND_EXECUTOR_H
#define KILN_BACKEND_EXECUTOR_H

#include "backend/runtime.h"
#include "graph/plan.h"
#include "memory/residency.h"

typedef struct {
    kernel *kernel; /* NULL: nothing to run */
    op_desc desc;
    size_t use[OP_MAX_IN];      /* number of the weight's use + 1; 0: no weight */
    uint32_t more[OP_MAX_MORE]; /* ids of its other results, 0: nobody wants that one */
} step;

/* How the program packs one of its weights. */
typedef struct {
    uint32_t op, operand; /* for which it is packed */
    size_t bytes;
    int scanned; /* it was searched for NaN and infinity */
} program_weight;

/* Host memory that weights are read into on their way to a device, when they are not packed as they are stored, and on
 * a host device what packing them takes, on its account: a runtime's, for one packing at a time. Zeroed: empty. */
typedef struct {
    void *data;
    size_t bytes;
    budget *account; /* NULL: on none */
} weight_buffer;
void weight_buffer_free(weight_buffer *b);

typedef struct {
    recording *r;
    plan plan;
    step *step; /* [r->n] */
    size_t scratch_bytes, weight_bytes;
    int waits;       /* one of its kernels does */
    int bounded;     /* see op_desc */
    uint64_t warned; /* bit by op kind: a warning said that the backend has no kernel */
    /* its demand, once executor_demand was called */
    pool *pool;
    weight_buffer *buffer;
    residency *residency;
    residency_pass *pass;
    size_t n_use, n_weight;
    double *work;
    weight_use *use;
    packed_weight **weight;
    size_t *bytes, *maker;
    program_weight *packed;
    size_t *io;         /* [r->n + 1] an input's offset in the workspace's io */
    uint32_t *io_order; /* [n_io] inputs in the order of their offsets: step-invariant ones last */
    size_t io_bytes, n_io;
} executor;

/* The question of fuse_upsampled() and fuse_taken() to a backend. */
int executor_takes(const void *backend, const recording *r, const op *fused);
/* Chooses kernels (the backend's, or on a host device the plain C one where it has none). */
kiln_status executor_make(executor *x, recording *r, const backend *b, error *e);
void executor_free(executor *x);
/* To the log, at level INFO, a line an op: scope, kind, shape, place in the arena, kernel, work. */
void executor_log(const executor *x);
/* Works out what it needs of the device's memory, and makes its pass (x->pass); once. The buffer is borrowed for the
 * pass's life. */
kiln_status executor_demand(executor *x, residency *res, pool *p, weight_buffer *buffer, error *e);
void executor_forget_demand(executor *x);

#endif
