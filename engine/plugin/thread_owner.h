/* thread_owner.h - whose code a running thread of this process was begun with. For threads that a plugin's call has
 * left behind, among those that libraries begin and keep.
 */
#ifndef KILN_PLUGIN_THREAD_OWNER_H
#define KILN_PLUGIN_THREAD_OWNER_H

#include <stddef.h>
#include <sys/types.h>

/* Numbers of the threads that run now, at most `capacity`; returns how many. */
size_t thread_list(pid_t *tid, size_t capacity);
/* 1: the thread begins in code of a plugin, whose id goes to `id`. 0: in that of a library or of kiln, it is gone, or
 * this system does not say. -1: it was made, and has not begun yet. */
int thread_owner(pid_t tid, char *id, size_t capacity);

#endif
