/* context_windows.h - which pictures of a batch are evaluated together at a step, and how much each counts: the
 * schedules and ways to fuse of ComfyUI's ContextWindowsManual, for kiln_windows.
 */
#ifndef KILN_SAMPLER_CONTEXT_WINDOWS_H
#define KILN_SAMPLER_CONTEXT_WINDOWS_H

#include "kiln/denoiser.h"

enum { WINDOWS_STANDARD_STATIC, WINDOWS_STANDARD_UNIFORM, WINDOWS_LOOPED_UNIFORM, WINDOWS_BATCHED };
enum { FUSE_PYRAMID, FUSE_RELATIVE, FUSE_FLAT, FUSE_OVERLAP_LINEAR };
enum { WINDOWS_RETAINED_MAX = 64 };

/* Positions in a window. */
typedef struct {
    size_t n;
    int64_t at[WINDOWS_RETAINED_MAX];
} retained;

typedef struct {
    int64_t length, overlap, stride; /* length above overlap; stride from 1 */
    int schedule, fuse;              /* WINDOWS_..., FUSE_... */
    int closed_loop, anchored;       /* anchored: the picture before a window is seen by it */
    retained latents, inputs;        /* those that always have the pictures of these numbers */
} context_windows;

/* kiln_windows.at */
int context_windows_at(const context_windows *by, int64_t pictures, int64_t step, size_t i, kiln_window *out);
/* The first noise as FreeNoise has it (Qiu et al. 2023, arXiv:2310.15169, section 3.2): a window's worth is drawn, and
 * what follows is that, shuffled by torch.randperm of one generator. 0: no memory. */
int context_windows_noise(const context_windows *by, int64_t pictures, uint64_t seed, int64_t *from);

#endif
