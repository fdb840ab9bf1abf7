/* manager.h - the inside of a residency: its account, its table of packed weights, its streams, the memory that the
 * running program works in. For memory/.
 *
 * What belongs to whom:
 *
 *     residency --- bucket[] --> packed_weight (packed_weight.h: its state)      one per identity, tensor and form
 *         |                          ^ weight[]
 *         +------- passes -----> residency_pass (pass.h: placement and run)      one per program
 *         +------- order ------> program_order (program_order.h)                 as an estimate noted it
 *         +------- prefetch ---> prefetch_batches (prefetch.h)                   what was sent before its program began
 *         +------- read_ahead -> read_ahead (read_ahead.h)                       files that the system is asked for
 *
 * Locks. `lock` guards the table and its weights, passes, order, the numbers of prefetch, read_ahead's all and stop,
 * bytes, peak, host_bytes, generation, traffic.evicted, running, starting and block_user, which freeing a pass looks
 * at. All other members belong to the thread that runs a pass, which the caller of residency.h sees to (one pass at a
 * time); but while none starts or runs, whoever is short of memory takes the block, with the lock held. The device is
 * never called with the lock held, and of the budget only what reads: taking memory may call residency_give_up, which
 * takes the lock.
 */
#ifndef KILN_MEMORY_MANAGER_H
#define KILN_MEMORY_MANAGER_H

#include "memory/prefetch.h"
#include "memory/program_order.h"
#include "memory/read_ahead.h"
#include "memory/residency.h"

#include <pthread.h>

enum { BUCKETS = 4096, STAGES = 2 };

/* Page-locked memory that a weight without a host copy passes through on its way to the device. */
typedef struct {
    void *data;
    size_t bytes;
    device_event *copied;
    int busy; /* `copied` was recorded and not waited for */
} stage;

struct residency {
    residency_setting setting;
    memory_device *device;
    const device_table *call;
    budget *budget;
    pthread_mutex_t lock;
    packed_weight *bucket[BUCKETS];
    size_t bytes, peak, host_bytes;
    residency_traffic traffic;
    uint64_t generation; /* rises when a pointer changes that a captured graph may have */
    residency_pass *passes;
    program_order order;
    prefetch_batches prefetch;
    read_ahead read_ahead; /* `begun` and the thread belong to who runs passes */
    /* of the running pass */
    uint64_t clock;
    residency_pass *running, *last;
    int starting;                     /* residency_begin() takes memory for a pass */
    char *block, *ring;               /* activations, working memory, inputs and outputs; slots of streamed weights */
    const residency_pass *block_user; /* whose run was the last in the block and went well; NULL: nobody's */
    size_t block_bytes, ring_bytes;
    size_t granted, refused; /* the device gave no more than `granted`: a limit until it has the `refused` bytes again;
                                0: no such */
    device_stream *compute, *copy;
    device_event *fork;
    stage stage[STAGES];
    unsigned next_stage;
};

/* Memory on the device, within the limit: what no pin keeps is evicted for it. */
kiln_status manager_alloc(residency *r, memory_kind kind, size_t bytes, const char *what, void **out, error *e);
/* The same, but nothing is evicted, and a device that is full says nothing about the limit. */
kiln_status manager_alloc_free(residency *r, memory_kind kind, size_t bytes, void **out);
void manager_release(residency *r, memory_kind kind, size_t bytes, void *data);
/* Makes the event, the first time. */
kiln_status manager_event(residency *r, device_event **event, error *e);
void manager_new_generation(residency *r);
/* Evicts what nobody wants any more, on a device of the host. */
void manager_give_up_over(residency *r);

static inline size_t manager_round(const residency *r, size_t bytes)
{
    return (bytes + r->call->alignment - 1) & ~(r->call->alignment - 1);
}

#endif
