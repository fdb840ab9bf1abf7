/* runtime_parts.h - what runtime.c (the life of programs) and program_run.c (running them) share. */
#ifndef KILN_BACKEND_RUNTIME_PARTS_H
#define KILN_BACKEND_RUNTIME_PARTS_H

#include "backend/executor.h"
#include "backend/runtime.h"

#include <pthread.h>
#include <stdatomic.h>

enum { KEPT_MAX = 16 };

/* A run as the device's graph: valid while the pointers in it are. */
typedef struct {
    device_graph *graph;
    uint64_t generation; /* of the pointers */
    int failed;          /* capturing it did not work: not tried again */
    unsigned runs;       /* steady ones with these pointers */
} captured_run;

/* What held inputs (record_step_invariant) were when what hangs on them was computed. */
typedef struct {
    uint32_t *dtype; /* [inputs] as bound */
    char *bytes;
    int valid;
} invariant_inputs;

struct kiln_program {
    runtime *rt;
    recording r;
    executor x;
    atomic_uint refs;
    atomic_int planned;
    uint32_t n_recorded;
    char *key; /* kept programs */
    uint64_t used;
    captured_run captured;
    invariant_inputs invariant;
};

struct runtime {
    runtime_setting setting;
    pool *pool;
    memory_device *device;
    residency *residency;
    pthread_mutex_t lock; /* one program runs at a time; guards usage and what is below */
    pthread_mutex_t kept_lock;
    kiln_program *kept[KEPT_MAX];
    uint64_t clock;
    void *host_io; /* page-locked: inputs on their way in, outputs on their way out; asynchronous devices */
    size_t host_io_bytes;
    void *link; /* page-locked: vectors on their way (vector_ops.c) */
    size_t link_bytes;
    double *dot; /* the device's: where dot() leaves its result */
    weight_buffer buffer;
    const kiln_program *estimated; /* the last one that was */
    runtime_usage usage;
    runtime_estimate estimate;
};

/* invariant.c: is all that was kept still right, given these inputs? And after a run that computed it: with which it
 * was. */
kiln_status invariant_make(kiln_program *p, error *e);
int invariant_same(const kiln_program *p, const kiln_bind *in, size_t n_in);
void invariant_note(kiln_program *p, const kiln_bind *in, size_t n_in);

#endif
