/* token_pool.c - see token_pool.h. A list of blocks, each twice as large as the one before; what a longer block
 * needs it gets alone. */
#include "token_pool.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_BYTES = 4096, LAST_BYTES = 4 << 20 };

struct token_pool_block {
    token_pool_block *next;
    size_t used, capacity;
    _Alignas(16) char data[];
};

static int64_t fail_at = -1, asked;

void token_pool_fail_at(int64_t k)
{
    fail_at = k;
    asked = 0;
}

int64_t token_pool_asked(void) { return asked; }

static token_pool_block *add_block(token_pool *p, size_t bytes)
{
    size_t capacity = p->block ? 2 * p->block->capacity : FIRST_BYTES;
    if (capacity > LAST_BYTES) capacity = LAST_BYTES;
    if (capacity < bytes) capacity = bytes;
    if (p->limit && (p->bytes > p->limit || capacity > p->limit - p->bytes)) {
        p->failed = POOL_FULL;
        return NULL;
    }
    int fails = fail_at >= 0 && __atomic_fetch_add(&asked, 1, __ATOMIC_RELAXED) == fail_at;
    token_pool_block *b = fails || capacity > SIZE_MAX - sizeof *b ? NULL : calloc(1, sizeof *b + capacity);
    if (!b) return NULL;
    b->capacity = capacity;
    b->next = p->block;
    p->bytes += capacity;
    return p->block = b;
}

void *token_pool_get(token_pool *p, size_t count, size_t size)
{
    size_t bytes;
    if (p->failed || __builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 4) {
        p->failed = p->failed ? p->failed : POOL_NO_MEMORY;
        return NULL;
    }
    bytes = (bytes + 15) & ~(size_t)15;
    token_pool_block *b = p->block;
    if ((!b || b->capacity - b->used < bytes) && !(b = add_block(p, bytes))) {
        p->failed = p->failed ? p->failed : POOL_NO_MEMORY;
        return NULL;
    }
    void *at = b->data + b->used;
    b->used += bytes;
    return at;
}

int token_pool_reserve(token_pool *p, void *array, size_t *capacity, size_t wanted, size_t size)
{
    void *old;
    memcpy(&old, array, sizeof old);
    if (wanted <= *capacity) return 1;
    size_t more = 2 * *capacity > wanted ? 2 * *capacity : wanted + 8;
    void *fresh = token_pool_get(p, more, size);
    if (!fresh) return 0;
    if (*capacity) memcpy(fresh, old, *capacity * size);
    memcpy(array, &fresh, sizeof fresh);
    *capacity = more;
    return 1;
}

char *token_pool_copy(token_pool *p, const char *s, size_t n)
{
    char *copy = n < SIZE_MAX ? token_pool_get(p, n + 1, 1) : NULL;
    if (copy) memcpy(copy, s, n);
    return copy;
}

void token_pool_free(token_pool *p)
{
    for (token_pool_block *b = p->block, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    *p = (token_pool){0};
}
