/* unfinished.h - a list of files that still have a temporary name, so that a process that has to end at once can remove
 * them.
 *
 * List a file before its first byte is written and take it off after it is renamed or removed. At most 32 are listed at
 * a time; more are not removed, and none after kill -9. Any thread.
 */
#ifndef KILN_BASE_UNFINISHED_H
#define KILN_BASE_UNFINISHED_H

/* `folder` is AT_FDCWD, or a descriptor that stays open until unfinished_end(). Returns a slot for unfinished_end();
 * -1, which it accepts, when the list is full. */
int unfinished_begin(int folder, const char *name);
void unfinished_end(int slot);
/* Unlinks all that are listed. For a signal handler, before _exit(). */
void unfinished_remove(void);

#endif
