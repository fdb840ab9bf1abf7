/* memory_alloc.h - all of the engine's heap memory comes from here, so that tests can make the k-th allocation fail.
 *
 * These are malloc and friends with a counter: after mem_fail_at(k), the k-th call returns NULL. Free with mem_free().
 * Any thread.
 */
#ifndef KILN_BASE_MEMORY_ALLOC_H
#define KILN_BASE_MEMORY_ALLOC_H

#include <stddef.h>
#include <stdint.h>

void *mem_alloc(size_t bytes);               /* NULL: no memory. 0 bytes give a unique pointer */
void *mem_calloc(size_t count, size_t size); /* overflow-checked, zeroed                        */
void *mem_realloc(void *p, size_t bytes);
void *mem_aligned(size_t alignment, size_t bytes); /* alignment: a power of two                  */
/* 64-byte aligned, for large blocks that live long: mapped from the system and unmapped when freed, so that the sum of
 * such blocks is what the process really uses. Free with mem_pages_free only. */
void *mem_pages(size_t bytes);
void mem_pages_free(void *p);
char *mem_strdup(const char *s);
char *mem_strndup(const char *s, size_t n); /* always NUL-terminated */
void mem_free(void *p);

/* For tests: the k-th allocation from now (0: the next) fails, once or (persistent) it and all later ones; k < 0: none.
 * mem_count() is the number of allocations since the last call of mem_fail_at(). */
void mem_fail_at(int64_t k, int persistent);
int64_t mem_count(void);

#endif
