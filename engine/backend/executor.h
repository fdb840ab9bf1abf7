/* executor.h - a planned program with a kernel for each op and its weights in memory. */
#ifndef KILN_BACKEND_EXECUTOR_H
#define KILN_BACKEND_EXECUTOR_H

#include "backend/runtime.h"
#include "graph/plan.h"

typedef struct {
    kernel *kernel;   /* NULL: nothing to run */
    op_desc desc;
    resident *held[OP_MAX_IN];
} step;

typedef struct {
    recording *r;
    plan plan;
    step *step; /* [r->n] */
    size_t scratch_bytes, weight_bytes;
    uint32_t warned; /* bit by op kind: it was said that the backend has no kernel */
    int packed;
} executor;

/* Chooses kernels (the backend's, or the plain C one where it has none). */
kiln_status executor_make(executor *x, recording *r, const backend *b, error *e);
void executor_free(executor *x);
/* To the log, at level INFO, a line an op: scope, kind, shape, place in the arena, kernel, work. */
void executor_log(const executor *x);
/* Reads and packs every weight; once. */
kiln_status executor_pack(executor *x, residency *res, pool *p, error *e);

#endif
