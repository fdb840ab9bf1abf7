/* runtime.h - tensor programs on a backend: the engine's side of "kiln.ops/1". Layer: backend.
 *
 * One runtime per run of the process: a backend, its threads, the packed weights, a few kept programs, and the trace of
 * ops. One thread records a program; programs of one runtime run one at a time (under a lock).
 */
#ifndef KILN_BACKEND_RUNTIME_H
#define KILN_BACKEND_RUNTIME_H

#include "backend/backend.h"
#include "graph/program.h"
#include "memory/residency.h"

typedef struct {
    const char *program, *scope, *op, *kernel;
    double start, seconds; /* start: seconds of CLOCK_MONOTONIC */
    uint64_t flops;
} op_trace;

typedef struct {
    const backend *backend;
    unsigned threads;   /* 0: all processors */
    uint32_t precision; /* 0: the backend's best */
    int list_ops;       /* at log level INFO: what was planned, op by op */
    int check_finite;   /* look for NaN and infinity after each op and say where */
    int unfused;        /* tests: record without fusing */
    void (*trace)(void *arg, const op_trace *);
    void *trace_arg;
    unsigned device_index; /* which of several devices                                              */
    size_t memory;         /* limit on the device's memory in bytes; 0: none                        */
    int memory_follow;     /* 1: nobody asked for that limit: it shrinks when others take memory    */
    size_t host_memory;    /* packed weights kept page-locked beside an asynchronous device         */
    int no_prefetch;       /* 1: no program's weights are sent before it begins (also KILN_PREFETCH=off) */
    int no_graphs;         /* tests: enqueue every op of every run                                  */
} runtime_setting;

typedef struct runtime runtime;
typedef struct kiln_states kiln_states; /* states.h */

runtime *runtime_new(const runtime_setting *setting, error *e);
void runtime_free(runtime *rt);
uint32_t runtime_precision(const runtime *rt);
/* The narrowest type that the backend has, not narrower than the runtime's, of those in `precisions` (bits; 0: all). */
uint32_t runtime_wide_enough(const runtime *rt, uint32_t precisions);
const backend *runtime_backend(const runtime *rt);
pool *runtime_pool(const runtime *rt);

typedef struct {
    uint64_t flops; /* of all runs since the last reset            */
    uint64_t runs;
    size_t arena_peak, scratch_peak, weight_bytes; /* most at once, over programs run since then */
} runtime_usage;
/* ---- memory ---- */

/* What program_estimate found since runtime_estimate_reset. */
typedef struct {
    size_t least, whole; /* limits: the least with which every program runs, and from which on nothing is streamed */
    char least_name[64]; /* the program that needs most of the two */
    residency_estimate widest; /* of the program with the highest peak */
    uint64_t widest_flops;
    size_t streamed; /* bytes, all runs together */
} runtime_estimate;

residency *runtime_residency(const runtime *rt);
void runtime_estimate_reset(runtime *rt);
runtime_estimate runtime_get_estimate(const runtime *rt);

void runtime_usage_reset(runtime *rt);
runtime_usage runtime_usage_get(const runtime *rt);
size_t runtime_weight_peak(const runtime *rt);

/* ---- programs ---- */

/* NULL with a message. precision 0: the runtime's. A kept program is found by its key and its precision. */
kiln_program *program_new(runtime *rt, const char *name, uint32_t precision, error *e);
kiln_program *program_keep(runtime *rt, const char *key, const char *name, uint32_t precision, int *fresh, error *e);
void program_free(kiln_program *p);
recording *program_recording(kiln_program *p); /* while it is recorded */
kiln_status program_plan(kiln_program *p, error *e);
kiln_status program_info(const kiln_program *p, kiln_program_info *info);
/* 1: there is no limit on memory, or the planned program can run within it beside the tensors that are there now. */
int program_fits(kiln_program *p, error *e);
/* What a run is given; states may be NULL. */
typedef struct {
    kiln_states *states;
    const kiln_bind *in, *out;
    size_t n_in, n_out;
} program_binds;
/* cancelled(arg) is asked between ops. */
kiln_status program_run_with(kiln_program *p, const program_binds *binds, int (*cancelled)(void *arg), void *arg,
                             error *e);
/* What program_run would need of memory and time, added to runtime_get_estimate and runtime_usage_get; the order of
 * programs is noted for the runs to come. The tensors are checked by their shapes; their data may be NULL and is not
 * touched. */
kiln_status program_estimate_with(kiln_program *p, const program_binds *binds, error *e);
/* Without states. */
kiln_status program_run(kiln_program *p, const kiln_bind *in, size_t n_in, const kiln_bind *out, size_t n_out,
                        int (*cancelled)(void *arg), void *arg, error *e);
kiln_status program_estimate(kiln_program *p, const kiln_bind *in, size_t n_in, const kiln_bind *out, size_t n_out,
                             error *e);

/* ---- kiln_ops' vector ops (vector_ops.c); arguments were checked ---- */

uint32_t runtime_vector_device(const runtime *rt); /* KILN_CPU: on the host */
/* Memory of a device for vectors, on the account as a value. KILN_ERR_UNSUPPORTED where they are on the host. */
kiln_status runtime_vector_new(runtime *rt, size_t bytes, void **out, error *e);
void runtime_vector_free(runtime *rt, size_t bytes, void *data); /* waits for what uses it */
/* For an estimate: on the account, and *out is an address that nobody may touch. */
kiln_status runtime_vector_count(runtime *rt, size_t bytes, void **out, error *e);
void runtime_vector_uncount(runtime *rt, size_t bytes);
kiln_status runtime_upload(runtime *rt, float *device, const float *host, size_t n, error *e);
kiln_status runtime_download(runtime *rt, float *host, const float *device, size_t n, error *e);
kiln_status runtime_combine(runtime *rt, float *out, size_t n, uint32_t terms, const double *c, const float *const *x,
                            error *e);
kiln_status runtime_norm(runtime *rt, const float *x, size_t n, double *out, error *e);
kiln_status runtime_add_difference(runtime *rt, const kiln_difference *d, float *out, error *e);
kiln_status runtime_dot(runtime *rt, const kiln_dot *d, double *out, error *e);
kiln_status runtime_blend(runtime *rt, const kiln_blend *b, float *out, error *e);
kiln_status runtime_crop(runtime *rt, const kiln_area *a, const float *x, float *out, error *e);
kiln_status runtime_accumulate(runtime *rt, const kiln_area *a, const kiln_part *part, float *sum, float *total,
                               error *e);
kiln_status runtime_divide(runtime *rt, float *x, const float *total, size_t cells, size_t channels, error *e);

#endif
