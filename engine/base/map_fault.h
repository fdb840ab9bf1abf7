/* map_fault.h - maps of files whose bytes may go away under the reader.
 *
 * Touching a page of a map that its file no longer has (it was cut short, its disk fails) raises SIGBUS, which would
 * end the process. Of a guarded map the handler puts zeros from that page to the end of the map, notes where, and lets
 * the reading go on: the reader sees wrong numbers, never a signal, and whoever asked for them asks map_torn() before
 * it believes them. Nothing is unwound, so it holds in kernels, on any thread. Every other SIGBUS goes to the handler
 * that was there before, or ends the process as ever.
 */
#ifndef KILN_BASE_MAP_FAULT_H
#define KILN_BASE_MAP_FAULT_H

#include <stddef.h>
#include <stdint.h>

#define MAP_WHOLE SIZE_MAX

/* A number for the three below; 0: not guarded (no data, or more maps at once than there is room for). [any] */
size_t map_guard(const void *data, size_t bytes);
void map_unguard(size_t guard); /* before munmap(); of 0: nothing */
size_t map_torn(size_t guard);  /* the first byte found missing; MAP_WHOLE: none was */

#endif
