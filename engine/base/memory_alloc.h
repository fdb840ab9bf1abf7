/* memory_alloc.h - the one door to the heap, so that tests can fail the k-th allocation.
 *
 * mem_alloc() and friends are malloc with a counter: when a test has armed
 * mem_fail_at(k), the k-th call from then on returns NULL. Free with mem_free().
 * Any thread.
 */
#ifndef KILN_BASE_MEMORY_ALLOC_H
#define KILN_BASE_MEMORY_ALLOC_H

#include <stddef.h>
#include <stdint.h>

void *mem_alloc(size_t bytes);               /* NULL: no memory. 0 bytes gives a unique pointer */
void *mem_calloc(size_t count, size_t size); /* overflow-checked, cleared                        */
void *mem_realloc(void *p, size_t bytes);
void *mem_aligned(size_t alignment, size_t bytes); /* power of two; free with mem_free           */
/* 64-byte aligned, for what is large and stays a while: straight from the system and back to it, so that an account of
 * such blocks is what the process holds. Freed with mem_pages_free alone. */
void *mem_pages(size_t bytes);
void mem_pages_free(void *p);
char *mem_strdup(const char *s);
char *mem_strndup(const char *s, size_t n); /* always NUL-terminated */
void mem_free(void *p);

/* Tests: the k-th allocation from now (0 = next) fails, once or (persistent) from then on; k < 0
 * disarms. mem_count() is the number of allocations since the last call of mem_fail_at(). */
void mem_fail_at(int64_t k, int persistent);
int64_t mem_count(void);

#endif
