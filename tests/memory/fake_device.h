/* fake_device.h - a device that is none: for the offloader's tests, where no real one is.
 *
 * Its memory is an arena of fixed size with guards around each block. What is enqueued happens late, and in an order
 * drawn from a seed among all that streams and events allow, so that a missing wait shows as wrong bytes. Its kernels
 * are the plain C ones. Every call can be made to fail, once or for good (a lost device). What no program should do
 * (freeing memory that work still uses, copying from memory that is not page-locked, leaving blocks behind) is counted
 * as a fault.
 */
#ifndef KILN_TESTS_FAKE_DEVICE_H
#define KILN_TESTS_FAKE_DEVICE_H

#include "backend/backend.h"

typedef struct {
    size_t bytes;  /* of its memory */
    uint64_t seed; /* of the order of things */
    int graphs;    /* it has them */
    int deaf;      /* waits are ignored: the planted mistake that a test must find */
    int hasty;     /* the host does not wait for events: another planted mistake. Faults are counted and not said */
    void (*at_sync)(void); /* or NULL: called when the host is about to wait for a stream */
    int64_t fail_at;       /* the k-th call fails; below 0: none */
    int fail_for_good;     /* and every later one */
} fake_setting;

typedef struct {
    uint64_t calls, copies_in, bytes_in, bytes_out, kernels, launches;
    size_t used, peak; /* of its memory */
    unsigned faults;   /* what went wrong on the program's side; said on standard output */
} fake_report;

/* The one fake device, as new. */
void fake_device_open(const fake_setting *s);
/* Frees everything and counts what was left behind as faults. */
fake_report fake_device_close(void);
fake_report fake_device_look(void);
memory_device *fake_device_get(void);
/* 1: all of it is page-locked. From any thread while no call is under way. */
int fake_device_locked(const void *p, size_t bytes);
/* Enqueues a call, as a kernel. */
kiln_status fake_device_call(device_stream *s, void (*call)(void *), void *arg, error *e);
void fake_device_fail_at(int64_t k, int for_good); /* counted from now */
/* The bytes lie in one block that is live. */
int fake_device_holds(const void *p, size_t bytes);
void fake_device_deaf(int deaf);      /* from now on */
void fake_device_taken(size_t bytes); /* by somebody else, from now on */
extern const backend fake_backend;

#endif
