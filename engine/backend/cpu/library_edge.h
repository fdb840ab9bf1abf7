/* library_edge.h - calls into a C++ library that may throw where C cannot catch: oneDNN keeps its tables in containers
 * of the standard library, so without memory some of its C functions end in an exception instead of a status, and its
 * code generator writes through pointers it did not look at. So there is a way to ask first whether memory is free, and
 * a place where exceptions end.
 */
#ifndef KILN_BACKEND_CPU_LIBRARY_EDGE_H
#define KILN_BACKEND_CPU_LIBRARY_EDGE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum { LIBRARY_RETURNED, LIBRARY_NO_MEMORY, LIBRARY_THREW } library_end;

/* Calls fn(arg), which calls the library; what it throws ends here. */
library_end library_call(void (*fn)(void *arg), void *arg);

#ifdef __cplusplus
}
#endif
#endif
