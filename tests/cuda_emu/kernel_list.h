/* kernel_list.h - the kernels that the CUDA backend's sources define, read from the .cu files themselves. */
#ifndef KILN_TESTS_KERNEL_LIST_H
#define KILN_TESTS_KERNEL_LIST_H

#include <stddef.h>

enum { KERNELS_MAX = 128 };

typedef struct {
    char file[64], name[64]; /* "gemm.cu", "product" */
} listed_kernel;

/* Every function declared __global__ in FOLDER's .cu files, by file; 0 when there is none, or something that is not
 * understood (said). */
size_t kernel_list(const char *folder, listed_kernel list[KERNELS_MAX]);

#endif
