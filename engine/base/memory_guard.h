/* memory_guard.h - for tests and `kiln check-plugin`: blocks of mem_aligned() that tell who writes outside them.
 *
 * While it is on, each such block (tensors, working memory) has pages of its own: filled with a poison byte, pressed
 * against an unreadable page at its end, with one before it too. The bytes between are a known pattern, looked at when
 * the block is freed. A block may be made read-only. Slow, and a few pages a block: not for normal running.
 */
#ifndef KILN_BASE_MEMORY_GUARD_H
#define KILN_BASE_MEMORY_GUARD_H

#include <stddef.h>

/* on 0: new blocks are plain again; those that are guarded stay so. Not while other threads allocate. */
void mem_guard(int on, unsigned char poison);
/* Makes the guarded block that begins at p read-only or writable again; 0 when p begins none. */
int mem_guard_protect(const void *p, int writable);
/* Blocks alive, and blocks (alive or freed since the last call) whose pattern was written over. */
size_t mem_guard_alive(void);
size_t mem_guard_damaged(void);

typedef enum { GUARD_NOTHING, GUARD_BEFORE, GUARD_AFTER, GUARD_READ_ONLY } guard_place;
/* What a faulting address means. Safe in a signal handler as long as the lock is not held. */
guard_place mem_guard_place(const void *address);

/* For memory_alloc.c: NULL and 0 when p is none of ours. */
void *guard_alloc(size_t alignment, size_t bytes);
int guard_free(void *p);
int guard_on(void);

#endif
