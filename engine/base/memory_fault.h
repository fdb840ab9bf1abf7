/* memory_fault.h - for tests of what happens without memory (mem_fail_at() is in memory_alloc.h). */
#ifndef KILN_BASE_MEMORY_FAULT_H
#define KILN_BASE_MEMORY_FAULT_H

#include <stdint.h>

/* How many blocks have been allocated and not freed. */
int64_t mem_live(void);
/* 1: mem_fail_at() counts each piece of an arena too, not only the blocks that the pieces are cut from. */
void mem_count_pieces(int on);
/* FAILS is asked at each allocation as well, and answers 1 where it is to fail. NULL: none is asked. */
void mem_fail_when(int (*fails)(void));
/* For arenas: 1: this piece is the one that fails. */
int mem_piece_fails(void);

#endif
