/* runtime_state.h - what is behind runtime.h's runtime and kiln_program. For runtime.c (how programs come and go),
 * program_run.c (how they run) and vector_ops.c.
 *
 * Locks. `lock` is held for the whole of a run: one program runs at a time. It guards usage, the estimate, the host
 * memory and a program's captured run and invariant inputs. `kept_lock` guards the table of kept programs and `clock`.
 * Whoever needs both takes `lock` first.
 */
#ifndef KILN_BACKEND_RUNTIME_STATE_H
#define KILN_BACKEND_RUNTIME_STATE_H

#include "backend/executor.h"
#include "backend/invariant.h"
#include "backend/runtime.h"

#include <pthread.h>
#include <stdatomic.h>

enum { KEPT_MAX = 16 };

/* A run as a graph of the device: valid while the pointers in it are. */
typedef struct {
    device_graph *graph;
    uint64_t generation; /* a digest of the pointers */
    int failed;          /* capturing it did not work: not tried again */
    unsigned runs;       /* steady ones with these pointers */
} captured_run;

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

#endif
