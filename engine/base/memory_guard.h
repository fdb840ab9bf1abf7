/* memory_guard.h - finds writes outside of mem_aligned() blocks, for tests and `kiln check-plugin`.
 *
 * While it is on, each such block (tensors, scratch memory) has pages of its own and is filled with a poison byte. It
 * ends at an unreadable page, and another one precedes it; the bytes in between hold a pattern, which is checked when
 * the block is freed. A block can be made read-only. Slow, and costs a few pages per block.
 */
#ifndef KILN_BASE_MEMORY_GUARD_H
#define KILN_BASE_MEMORY_GUARD_H

#include <stddef.h>

/* on 0: new blocks are plain; blocks that are guarded stay guarded. Not while other threads allocate. */
void mem_guard(int on, unsigned char poison);
/* Makes the guarded block that begins at p read-only, or writable again. 0: no guarded block begins there. */
int mem_guard_protect(const void *p, int writable);
/* Live blocks, and blocks (live, or freed since the last call) whose pattern was overwritten; each is counted once. */
size_t mem_guard_alive(void);
size_t mem_guard_damaged(void);

typedef enum { GUARD_NOTHING, GUARD_BEFORE, GUARD_AFTER, GUARD_READ_ONLY } guard_place;
/* Where a faulting address lies relative to a guarded block. For a signal handler; takes no lock, so the fault must not
 * have happened inside these functions. */
guard_place mem_guard_place(const void *address);

/* For memory_alloc.c. guard_alloc: NULL without memory. guard_free: 0 when p is not a guarded block. */
void *guard_alloc(size_t alignment, size_t bytes);
int guard_free(void *p);
int guard_on(void);

#endif
