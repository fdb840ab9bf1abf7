/* map_fault.h - maps of files that may be truncated, or become unreadable, while they are being read.
 *
 * Reading a page of a map that its file no longer has (it was truncated, the disk fails) raises SIGBUS, which would end
 * the process. For a guarded map the handler instead maps zeros from that page to the end, records the first missing
 * byte, and lets the read continue: the reader gets zeros, never a signal. Callers check map_torn() before they use the
 * data. Nothing is unwound, so this works inside kernels and on any thread. Every other SIGBUS goes to the handler that
 * was installed before, or ends the process.
 */
#ifndef KILN_BASE_MAP_FAULT_H
#define KILN_BASE_MAP_FAULT_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#define MAP_WHOLE SIZE_MAX

/* Guards a map; returns an id for the calls below, or 0: not guarded (no data, or 4,096 maps are guarded already),
 * which the others accept. [any thread] */
size_t map_guard(const void *data, size_t bytes);
void map_unguard(size_t guard); /* before munmap() */
size_t map_torn(size_t guard);  /* the first byte found missing, or MAP_WHOLE */
/* 1: this is the handler that guards maps, which the first of them installs. */
int map_guard_is(const struct sigaction *action);

#endif
