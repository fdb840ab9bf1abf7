/* unfinished.h - files that lie under a temporary name until they are whole, so that a process that is ended at once
 * can take them with it.
 *
 * Whoever makes one begins it here before its first byte and ends it once it is renamed or removed. Nothing is promised
 * of more than 32 at a time, nor after kill -9. Any thread.
 */
#ifndef KILN_BASE_UNFINISHED_H
#define KILN_BASE_UNFINISHED_H

/* `folder` is a descriptor that stays open until the end, or AT_FDCWD. Gives what unfinished_end() takes; -1 when there
 * is no place. */
int unfinished_begin(int folder, const char *name);
void unfinished_end(int slot);
/* Unlinks them all. For a signal handler, before _exit(). */
void unfinished_remove(void);

#endif
