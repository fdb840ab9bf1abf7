/* memory_guard.c - see memory_guard.h. */
#include "base/memory_guard.h"

#include "base/checked.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PATTERN = 0xA5 };

typedef struct block {
    struct block *next;
    unsigned char *map, *begin; /* the mapping with both guard pages; the caller's first byte */
    size_t map_bytes, bytes;
    int read_only, counted; /* counted: its damage was */
} block;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static block *blocks;
static atomic_int on, ever;
static unsigned char fill;
static size_t damaged;

static size_t page(void) { return (size_t)sysconf(_SC_PAGESIZE); }

void mem_guard(int enable, unsigned char poison)
{
    fill = poison;
    atomic_store(&on, enable);
    if (enable) atomic_store(&ever, 1);
}

int guard_on(void) { return atomic_load(&on); }

void *guard_alloc(size_t alignment, size_t bytes)
{
    size_t p = page(), inner, total;
    assert(alignment && (alignment & (alignment - 1)) == 0 && bytes);
    block *b = malloc(sizeof *b);
    if (!b || alignment > p || !checked_add_size(bytes, alignment + p, &inner)) {
        free(b);
        return NULL;
    }
    inner = inner / p * p;
    total = inner + 2 * p;
    unsigned char *map = mmap(NULL, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED || mprotect(map + p, inner, PROT_READ | PROT_WRITE) != 0) {
        if (map != MAP_FAILED) munmap(map, total);
        free(b);
        return NULL;
    }
    unsigned char *begin = map + p + (inner - bytes) / alignment * alignment;
    memset(map + p, PATTERN, inner);
    memset(begin, fill, bytes);
    *b = (block){.map = map, .begin = begin, .map_bytes = total, .bytes = bytes};
    pthread_mutex_lock(&lock);
    b->next = blocks;
    blocks = b;
    pthread_mutex_unlock(&lock);
    return begin;
}

/* Is any of n bytes another than its neighbour, or than the pattern? */
static int broken_within(const unsigned char *p, size_t n)
{
    return n > 0 && (p[0] != PATTERN || memcmp(p, p + 1, n - 1) != 0);
}
static int pattern_broken(const block *b)
{
    const unsigned char *first = b->map + page(), *end = b->map + b->map_bytes - page(), *behind = b->begin + b->bytes;
    return broken_within(first, (size_t)(b->begin - first)) || broken_within(behind, (size_t)(end - behind));
}

int guard_free(void *p)
{
    if (!atomic_load(&ever) || !p) return 0;
    pthread_mutex_lock(&lock);
    block **at = &blocks;
    while (*at && (*at)->begin != p) at = &(*at)->next;
    block *b = *at;
    if (b) {
        *at = b->next;
        damaged += !b->counted && pattern_broken(b);
    }
    pthread_mutex_unlock(&lock);
    if (!b) return 0;
    munmap(b->map, b->map_bytes);
    free(b);
    return 1;
}

int mem_guard_protect(const void *p, int writable)
{
    int found = 0;
    pthread_mutex_lock(&lock);
    for (block *b = blocks; b && !found; b = b->next) {
        if (b->begin != p) continue;
        b->read_only = !writable;
        found =
            mprotect(b->map + page(), b->map_bytes - 2 * page(), writable ? PROT_READ | PROT_WRITE : PROT_READ) == 0;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

size_t mem_guard_alive(void)
{
    size_t n = 0;
    pthread_mutex_lock(&lock);
    for (const block *b = blocks; b; b = b->next) n++;
    pthread_mutex_unlock(&lock);
    return n;
}

size_t mem_guard_damaged(void)
{
    pthread_mutex_lock(&lock);
    size_t n = damaged;
    damaged = 0;
    for (block *b = blocks; b; b = b->next)
        if (!b->counted && pattern_broken(b)) b->counted = 1, n++;
    pthread_mutex_unlock(&lock);
    return n;
}

guard_place mem_guard_place(const void *address)
{
    uintptr_t a = (uintptr_t)address;
    for (const block *b = blocks; b; b = b->next) {
        uintptr_t first = (uintptr_t)b->map, p = page();
        if (a < first || a >= first + b->map_bytes) continue;
        if (a < first + p) return GUARD_BEFORE;
        if (a >= first + b->map_bytes - p) return GUARD_AFTER;
        if (b->read_only) return GUARD_READ_ONLY;
    }
    return GUARD_NOTHING;
}
