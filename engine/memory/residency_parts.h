/* residency_parts.h - what residency.c (weights and their memory) and pass.c (programs while they run) share. */
#ifndef KILN_MEMORY_RESIDENCY_PARTS_H
#define KILN_MEMORY_RESIDENCY_PARTS_H

#include "base/hash.h"
#include "memory/residency.h"

#include <pthread.h>

enum { BUCKETS = 4096, STAGES = 2 };

struct resident {
    resident *next;
    residency *owner;
    digest key;
    void *data;  /* the device's, or NULL */
    void *host;  /* page-locked and packed, or NULL; asynchronous devices */
    size_t bytes, room; /* packed; and rounded up to the device's alignment */
    unsigned refs;
    uint64_t used;            /* clock of the last pass that wanted it */
    uint64_t wanted;          /* how many programs from now somebody wants it again, as far as known; UINT64_MAX: never */
    const residency_pass *in; /* the running pass that holds it in place */
};

/* Page-locked memory between a weight without a host copy and the device. */
typedef struct {
    void *data;
    size_t bytes;
    device_event *copied;
    int busy;
} stage;

struct residency {
    residency_setting setting;
    memory_device *device;
    const device_table *call;
    budget *budget;
    pthread_mutex_t lock; /* the table of weights and what they hold */
    resident *bucket[BUCKETS];
    size_t bytes, peak, host_bytes;
    residency_traffic traffic;
    uint64_t clock;
    /* of the running program */
    residency_pass *running, *last;
    char *block, *ring;
    const residency_pass *block_user; /* whose run was the last in the block and went well; NULL: nobody's */
    size_t block_bytes, ring_bytes;
    uint64_t generation;
    size_t granted, refused; /* the device gave no more than `granted`: a limit until it has the `refused` bytes again; 0: no such */
    device_stream *compute, *copy;
    device_event *fork;
    stage stage[STAGES];
    unsigned next_stage;
    residency_pass *passes; /* all programs */
    /* the order programs come in, as rehearsed; one entry for runs of one that follow each other */
    residency_pass **order;
    size_t n_order, order_room, at; /* at: of the running one */
};

/* Memory on the device, within the limit; asks others to go when there is none. */
kiln_status residency_alloc(residency *r, memory_kind kind, size_t bytes, const char *what, void **out, error *e);
void residency_drop(residency *r, memory_kind kind, size_t bytes, void *data);
/* Device memory for one weight's packed bytes. */
kiln_status resident_place(resident *x, const char *what, error *e);
/* Takes it out of the device's memory; its host copy stays. */
void resident_evict(resident *x);
/* Page-locked memory for it; 0: over the host limit or none to be had. */
int resident_host(resident *x);
void resident_unhost(resident *x);
static inline size_t residency_round(const residency *r, size_t bytes) { return (bytes + r->call->alignment - 1) & ~(r->call->alignment - 1); }

#endif
