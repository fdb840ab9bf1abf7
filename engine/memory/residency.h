/* residency.h - which packed weights are in a device's memory, and how they come and go. Layer: memory (needs base).
 *
 * One manager per runtime and device. A packed weight is known by the identity of its tensor, the tensor's name and the
 * pack form; programs that use the same one share it, and its bytes are packed again whenever they have left. What one
 * program needs while it runs is a demand; which of its weights stay and which stream is a placement (weight_plan.h);
 * running it is a pass:
 *
 *     residency_begin(r, pass)          memory to run in, and pins on the weights that stay; others are evicted
 *       residency_before(pass, op)      this op's weights are there (or will be, by the time the stream gets there)
 *       residency_after(pass, op)       its slots may be used again
 *     residency_prefetch_next(pass)     sends the weights of the program after it, when the order was estimated
 *     residency_end(pass)               its weights may be evicted again
 *
 * Where a weight's bytes are is a state (packed_weight.h draws the diagram): ABSENT, HOST (packed, page-locked),
 * COPYING (on the copy stream), RESIDENT, PINNED (a program needs it in place). On a host device weights are packed
 * straight into place, from the map. On an asynchronous one they are read and packed into page-locked memory, kept
 * there as far as `host_limit` goes, and copied on a stream of their own, before they are needed. The bytes a program
 * computes never depend on the limit: it decides where weights lie, not which kernels run.
 *
 * Errors. KILN_ERR_NOMEM: not even the least placement fits; the message says what would. KILN_ERR_BUG: a change of a
 * weight's state that the diagram does not have.
 * Threads. Passes of one manager run one at a time, on the thread that has begun one (the runtime's lock sees to it):
 * that goes for residency_begin to residency_end. The rest is free to any thread, also while a pass runs.
 */
#ifndef KILN_MEMORY_RESIDENCY_H
#define KILN_MEMORY_RESIDENCY_H

#include "base/page_reader.h"
#include "base/status.h"
#include "memory/budget.h"
#include "memory/device.h"
#include "memory/weight_plan.h"

typedef struct residency residency;
typedef struct packed_weight packed_weight; /* a reference to one, in memory or not */

typedef struct {
    memory_device *device;
    size_t limit;      /* bytes of the device; 0: none */
    size_t host_limit; /* bytes of packed weights kept page-locked beside an asynchronous device; 0: none are kept */
    int follow;        /* 1: the limit was not asked for: when others take the device's memory, ours shrinks with it */
    int no_prefetch;   /* 1: every program brings in its own weights when it begins, and no sooner */
} residency_setting;

residency *residency_new(const residency_setting *setting, error *e);
void residency_free(residency *r); /* after every pass and reference */
budget *residency_budget(const residency *r);
memory_device *residency_device(const residency *r);

/* A reference to the weight; nothing is packed yet. The last release gives its memory back. */
kiln_status residency_intern(residency *r, const char *set_identity, const char *tensor, const char *pack_form,
                             size_t bytes, packed_weight **out, error *e);
void packed_weight_release(packed_weight *x);
size_t residency_bytes(const residency *r); /* of weights in the device's memory, ring included */
size_t residency_peak(const residency *r);
/* Bytes packed or copied for weights since the manager was made: what a budget costs. */
typedef struct {
    uint64_t packed_bytes, packed; /* how often packing ran, and how much it made */
    uint64_t copied_bytes;         /* to an asynchronous device */
    uint64_t prefetch_bytes;       /* of those, prefetched: for a program before it began */
    uint64_t evicted;
    double seconds; /* spent packing */
} residency_traffic;
residency_traffic residency_traffic_get(const residency *r);
/* Evicts what no pass has pinned, until `bytes` are free or nothing is left to give. */
void residency_give_up(residency *r, size_t bytes);
/* Memory on the device that is neither weights' nor a run's: as `kind` on the account; weights are evicted for it. */
kiln_status residency_take(residency *r, memory_kind kind, size_t bytes, const char *what, void **out, error *e);
void residency_give(residency *r, memory_kind kind, size_t bytes, void *data);
device_stream *residency_stream(const residency *r);  /* what computes; NULL on a host device */
int residency_limited(const residency *r);            /* 1: there is a limit, asked for or met */
void residency_set_limit(residency *r, size_t bytes); /* for passes that are made from now on; 0: none */

/* ---- a program's demand and its passes ---- */

typedef struct {
    const char *name;
    size_t arena, scratch, io; /* bytes of activations, kernels' working memory, inputs and outputs on the device */
    size_t temporary; /* host bytes that packing one weight may need for itself, taken from the same limit on a host
                         device */
    size_t n_op, n_use, n_weight;
    const double *work;           /* [n_op] */
    const uint8_t *seldom;        /* [n_op] 1: it runs only in the first of runs in a row (residency_skip); or NULL */
    const weight_use *use;        /* [n_use] ops ascending */
    packed_weight *const *weight; /* [n_weight] each once */
    const size_t *bytes;          /* [n_weight] */
    const size_t *maker;          /* [n_weight] a use of it, for `pack` */
    /* Makes the packed bytes of the weight of use[i] in host memory. */
    kiln_status (*pack)(void *arg, size_t use, void *dst, error *e);
    /* Or NULL. On a host device, on a thread of its own: the weight of use[i] will be packed soon, so that the system
     * may be asked for its file's pages. */
    void (*will_need)(void *arg, size_t use, page_reader *);
    void *arg;
} residency_demand;

typedef struct residency_pass residency_pass; /* one program's; keeps its placement from run to run */

/* Nothing is allocated on the device before the first begin. The demand's arrays are borrowed for the pass's life. */
kiln_status residency_pass_new(residency *r, const residency_demand *d, residency_pass **out, error *e);
void residency_pass_free(residency_pass *p);

typedef struct {
    char *arena, *scratch, *io; /* in the device's memory */
    device_stream *stream;      /* what computes */
    uint64_t generation;        /* another number: pointers have changed since the last begin */
    int kept;                   /* 1: nobody has used this memory since this program's last run, which went well */
    int steady;      /* asynchronous: weights that stay are on the device and streamed ones have host copies, so the run
                        needs nothing but the streams */
    int checkpoints; /* 1: weights may be evicted while the run is under way (residency_prefetch_next): its ops are to
                        be enqueued one by one */
} residency_workspace;

/* Finds or makes the placement, evicts what is in the way, pins what stays and gives the memory to run in. After
 * KILN_OK end must follow. */
kiln_status residency_begin(residency_pass *p, residency_workspace *space, error *e);
/* From here to the end ops marked in `skip` [n_op] do not run: weights only they read are not copied. NULL: all run.
 * Of skipped ops residency_before is not called, residency_after is. */
void residency_skip(residency_pass *p, const uint8_t *skip);
/* Begins the ops again from the first, between begin and end. */
kiln_status residency_restart(residency_pass *p, error *e);
/* The op's weights are on their way; what is enqueued on the stream after this finds them at residency_data. Ops
 * ascending. */
kiln_status residency_before(residency_pass *p, uint32_t op, error *e);
const void *residency_data(const residency_pass *p, size_t use);
kiln_status residency_after(residency_pass *p, uint32_t op, error *e);
/* failed: an error came between begin and here, and the streams are waited for; otherwise the caller has waited. */
void residency_end(residency_pass *p, int failed);

typedef struct {
    const char *name;      /* of the next program; NULL: nothing was to be done */
    size_t weights, bytes; /* sent */
} residency_prefetched;
/* To be called on an asynchronous device after all of p's run has been enqueued and before it is waited for. If it is
 * the last of p's runs in a row, the weights that the next program keeps on the device are sent there, as far as memory
 * is free or can be made free: others' weights that are needed later than these, and weights of p that no op still
 * under way reads. stop(arg) is asked between weights. A failure here is not p's: what failed is taken back, and the
 * next program's own begin tries again and reports it. `name` is valid until the next call. Nothing happens with
 * no_prefetch.
 */
residency_prefetched residency_prefetch_next(residency_pass *p, int (*stop)(void *), void *arg);

/* Notes that a run of this program comes here in the order of programs, without running it (program_order.h). */
kiln_status residency_note_run(residency_pass *p, error *e);

/* From now on, on a device of the host, the system is asked for the files of weights whose programs are noted, as far
 * as half of what memory is free goes: what is noted will run. Once; nothing happens with no_prefetch. */
void residency_read_ahead(residency *r);

/* What was noted is all that will run: on a device of the host, weights that no program wants any more are given up
 * when another program begins. One that comes all the same packs its own again. */
void residency_order_is_whole(residency *r);

/* What a limit means for a program, without running it: for --explain, and to refuse a limit before anything runs. */
typedef struct {
    size_t fixed, resident, ring, peak; /* bytes, when planned alone within the limit */
    size_t streamed, once; /* bytes a run; and those more in the first of runs in a row, for ops that seldom run */
    size_t least, whole;   /* limits: the least that works, and from which on nothing is streamed */
    uint32_t n_weight, n_streamed;
} residency_estimate;
kiln_status residency_get_estimate(const residency_pass *p, residency_estimate *out, error *e);
/* 1: the least placement fits into the limit as it is now, beside the tensors that are held now and so many bytes more.
 */
int residency_fits(const residency_pass *p, size_t more);

#endif
