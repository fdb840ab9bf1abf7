/* fake_vendor.h - what the stand-ins of NVIDIA's libraries share, and how a test talks to them.
 *
 * A stand-in is a shared library of its own, opened by dlopen by engine/backend/cuda's own code as the real one would
 * be. It knows nothing of the program it is in but what fake_vendor_connect gave it: a way to enqueue on the fake
 * device. What it is asked to do happens late, as everything there; what no caller may do is said on standard output
 * and counted.
 */
#ifndef KILN_TESTS_FAKE_VENDOR_H
#define KILN_TESTS_FAKE_VENDOR_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

/* The fake CUDA of the program. */
typedef struct {
    cudaError_t (*enqueue)(cudaStream_t stream, void (*call)(void *), void *arg);
    int (*holds)(const void *p, size_t bytes); /* they lie in one block of the device's memory that is live */
    int (*device)(void);                       /* the calling thread's */
} fake_vendor_host;

typedef struct {
    uint64_t calls;    /* that can fail */
    uint64_t products; /* enqueued */
    uint64_t happened; /* products; a graph's each time */
    unsigned live;     /* descriptors made and not destroyed; the library's handle apart */
    unsigned faults;
} fake_vendor_report;

/* What a stand-in exports as "fake_vendor_table". */
typedef struct {
    const char *name;
    void (*connect)(const fake_vendor_host *);
    void (*fail_at)(int64_t k); /* the k-th call from now fails, once; below 0: none */
    fake_vendor_report (*report)(void);
    void (*forget)(void); /* work that was given to a device that is closed now */
} fake_vendor;

/* ---- inside a stand-in (fake_vendor.c) ---- */

extern fake_vendor_host fake_host;
/* 1 when this call is the one that fails. */
int fake_vendor_called(void);
void fake_vendor_fault(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Things of a kind (a name) that are made, looked up and destroyed; looking up what is not live is a fault. */
void *fake_vendor_make(const char *kind, size_t bytes);
void *fake_vendor_look(const char *kind, const void *thing);
int fake_vendor_destroy(const char *kind, void *thing);
/* To the end of the stream; arg's bytes are kept until the device is closed. 0: it was refused. */
int fake_vendor_enqueue(cudaStream_t stream, void (*call)(void *), const void *arg, size_t bytes);
/* Inside such a call. The pointer's memory must be live and hold the bytes. */
int fake_vendor_holds(const char *what, const void *p, size_t bytes);
void fake_vendor_happened(void);

enum { FAKE_F32, FAKE_BF16, FAKE_F16 };
size_t fake_size(int type);
float fake_load(const void *p, int type, int64_t i);
void fake_store(void *p, int type, int64_t i, float v);

#endif
