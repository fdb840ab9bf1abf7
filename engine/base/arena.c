/* arena.c - blocks of growing size in a list; see arena.h. */
#include "base/arena.h"

#include "base/checked.h"
#include "base/memory_alloc.h"
#include "base/memory_fault.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { ALIGNMENT = 64, FIRST_BLOCK = 4096, LARGEST_STEP = 1 << 20 };

struct arena_block {
    arena_block *next;
    size_t capacity, used;
    _Alignas(64) unsigned char data[];
};

static arena_block *block_new(size_t capacity)
{
    size_t bytes;
    if (!checked_add_size(capacity, sizeof(arena_block), &bytes)) return NULL;
    arena_block *b = mem_aligned(ALIGNMENT, bytes);
    if (b) *b = (arena_block){.capacity = capacity};
    return b;
}

void *arena_alloc(arena *a, size_t bytes)
{
    size_t padded;
    assert(a);
    if (!checked_add_size(bytes ? bytes : 1, ALIGNMENT - 1, &padded) || mem_piece_fails()) return NULL;
    padded = padded / ALIGNMENT * ALIGNMENT;
    if (!a->head || a->head->capacity - a->head->used < padded) {
        size_t capacity = a->head ? a->head->capacity * 2 : FIRST_BLOCK;
        if (capacity > LARGEST_STEP) capacity = LARGEST_STEP;
        if (capacity < padded) capacity = padded;
        arena_block *b = block_new(capacity);
        if (!b) return NULL;
        b->next = a->head;
        a->head = b;
    }
    void *p = a->head->data + a->head->used;
    a->head->used += padded;
    return memset(p, 0, padded);
}

char *arena_strndup(arena *a, const char *s, size_t n)
{
    assert(s);
    size_t len = strnlen(s, n);
    char *copy = arena_alloc(a, len + 1);
    if (copy) memcpy(copy, s, len);
    return copy;
}

char *arena_strdup(arena *a, const char *s) { return arena_strndup(a, s, SIZE_MAX - 1); }

char *arena_printf(arena *a, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    char *text = n < 0 ? NULL : arena_alloc(a, (size_t)n + 1);
    if (text) vsnprintf(text, (size_t)n + 1, fmt, again);
    va_end(again);
    return text;
}

void arena_free(arena *a)
{
    while (a->head) {
        arena_block *next = a->head->next;
        mem_free(a->head);
        a->head = next;
    }
}
