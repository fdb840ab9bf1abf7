/* device.h - one device's memory, copies, streams and events, as a table. Layer: memory (needs base).
 *
 * What the residency manager (residency.h) and the runtime ask of a device; what computes on it is a backend
 * (backend/backend.h), which opens its device. A backend fills the table for its driver; the host's is device_host().
 *
 * Order. Work given to one stream happens in the order given; between streams only what events say is certain. On a
 * device that is not `asynchronous` every call has happened when it returns, and streams and events are NULL. Errors.
 * KILN_ERR_NOMEM: not enough memory, give some back and ask again; KILN_ERR_IO: the device failed or is lost, with the
 * driver's words. Any thread, one at a time per device.
 */
#ifndef KILN_MEMORY_DEVICE_H
#define KILN_MEMORY_DEVICE_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct memory_device memory_device;
typedef struct device_stream device_stream; /* opaque: the driver's own */
typedef struct device_event device_event;
typedef struct device_graph device_graph;

/* Bytes over the link since the device was opened. */
typedef struct {
    uint64_t in, out;         /* host to device, device to host */
    uint64_t copies, kernels; /* calls; kernels: 0 when nobody counts */
} device_traffic;

typedef struct {
    uint32_t kind;         /* KILN_CPU, KILN_CUDA */
    uint32_t asynchronous; /* 1: what is enqueued happens later, beside other streams' work */
    size_t alignment;      /* of what alloc gives, and of places inside it: a power of two */
    void (*close)(memory_device *);
    const char *(*name)(const memory_device *); /* for people: "NVIDIA H200, 132 SMs, sm_90" */
    /* Bytes that could be had now, and all there are. */
    kiln_status (*memory)(memory_device *, size_t *free_bytes, size_t *total_bytes, error *);
    kiln_status (*alloc)(memory_device *, size_t bytes, void **out, error *);
    kiln_status (*alloc_weight)(memory_device *, size_t bytes, void **out, error *); /* NULL: alloc() */
    void (*release)(memory_device *,
                    void *); /* NULL is nothing. The caller sees to it that no stream uses it any more */
    /* Host memory that copies run from and to at the link's rate (page-locked where that exists). */
    kiln_status (*host_alloc)(memory_device *, size_t bytes, void **out, error *);
    void (*host_release)(memory_device *, void *);

    kiln_status (*stream_new)(memory_device *, device_stream **out, error *);
    void (*stream_free)(memory_device *, device_stream *);
    kiln_status (*event_new)(memory_device *, device_event **out, error *);
    void (*event_free)(memory_device *, device_event *);
    kiln_status (*record)(memory_device *, device_event *, device_stream *, error *);
    kiln_status (*wait)(memory_device *, device_stream *, device_event *,
                        error *);                                   /* the stream's later work waits for the event */
    kiln_status (*sync)(memory_device *, device_stream *, error *); /* the caller waits for the stream   */
    kiln_status (*sync_event)(memory_device *, device_event *, error *); /* the caller waits for the event    */

    /* host: from host_alloc; it must stay as it is until the copy has happened. */
    kiln_status (*copy_in)(memory_device *, void *dst, const void *host, size_t bytes, device_stream *, error *);
    kiln_status (*copy_out)(memory_device *, void *host, const void *src, size_t bytes, device_stream *, error *);

    /* NULL where the device has no such thing. All that is enqueued on `stream`, and on streams that fork from it by
     * events and join it again, between begin and end becomes one graph and does not happen; launch makes it happen
     * with one call, with the same pointers. After an error in between, end gives KILN_ERR_IO and no graph. */
    kiln_status (*capture_begin)(memory_device *, device_stream *, error *);
    kiln_status (*capture_end)(memory_device *, device_stream *, device_graph **out, error *);
    kiln_status (*graph_launch)(memory_device *, device_graph *, device_stream *, error *);
    void (*graph_free)(memory_device *, device_graph *);

    device_traffic (*traffic)(const memory_device *);
} device_table;

struct memory_device {
    const device_table *table;
};

/* This machine's memory; the same one each time, its close does nothing. `memory` reads what the system could give
 * without swapping (MemAvailable of /proc/meminfo, and the process's own limit of its control group). */
memory_device *device_host(void);

#endif
