/* host_vector_ops.h - the vector ops of backend.h on host memory: what those of every device are tested against.
 * `stream` is not used. */
#ifndef KILN_BACKEND_HOST_VECTOR_OPS_H
#define KILN_BACKEND_HOST_VECTOR_OPS_H

#include "backend/backend.h"

extern const device_vector_ops host_vector_ops;

#endif
