/* cuda_load.h - between kiln and kiln-cuda.so, which is built with it and opened when it is asked for. Layer: backend.
 */
#ifndef KILN_BACKEND_CUDA_LOAD_H
#define KILN_BACKEND_CUDA_LOAD_H

#include "backend/backend.h"

/* Both sides have to agree on these, or the library is refused. */
#define CUDA_LIBRARY_SIZES                                                                                             \
    {                                                                                                                  \
        sizeof(backend), sizeof(kernel), sizeof(op_desc), sizeof(device_table)                                         \
    }

typedef struct {
    const char *version; /* kiln's */
    size_t sizes[4];
    const backend *backend;
} cuda_library;

/* The CUDA backend, loaded the first time. NULL with the reason and the remedy: kiln was built without, no driver, no
 * device. */
const backend *cuda_backend(error *e);

#endif
