/* ssd_scan.h - the op's CUDA half, where it was compiled in. */
#ifndef SSD_SCAN_H
#define SSD_SCAN_H

#ifdef __cplusplus
extern "C" {
#endif

enum { SSD_STATE_MAX = 256 };

/* Device pointers, f32; last may be NULL. Enqueues on the stream and returns 0, or cudaGetLastError(). */
typedef struct {
    const float *x, *dt, *a, *b, *c, *d, *before;
    float *y, *last;
    long long n, t, heads, width, groups, state;
} ssd_scan_call;

int ssd_scan_launch(const ssd_scan_call *call, void *stream);

#ifdef __cplusplus
}
#endif
#endif
