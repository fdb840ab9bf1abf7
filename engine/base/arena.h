/* arena.h - memory that is freed all at once. Not thread-safe: an arena has one owner. */
#ifndef KILN_BASE_ARENA_H
#define KILN_BASE_ARENA_H

#include <stddef.h>

typedef struct arena_block arena_block;
typedef struct {
    arena_block *head;
} arena; /* {0} is an empty arena */

void *arena_alloc(arena *a, size_t bytes); /* 64-byte aligned and zeroed; all of these give NULL without memory */
char *arena_strdup(arena *a, const char *s);
char *arena_strndup(arena *a, const char *s, size_t n);
char *arena_printf(arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void arena_free(arena *a); /* leaves an empty arena */

#endif
