/* weight_slabs.c - see weight_slabs.h. */
#include "memory/weight_slabs.h"

#include "base/memory_alloc.h"
#include "base/memory_guard.h"

#include <assert.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct slab slab;
struct slab {
    slab *next;
    char *data;
    size_t bytes, used, weights;
};

/* Before each weight. */
typedef struct {
    size_t bytes; /* with this */
} head;
enum { ALIGNED = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static slab *newest; /* it alone is still filled */

/* What looks at the ends of blocks wants each by itself. */
static int wants_apart(size_t bytes)
{
#if defined __SANITIZE_ADDRESS__
    return (void)bytes, 1;
#else
    return bytes < WEIGHT_SLAB_LEAST || bytes >= WEIGHT_SLAB_MOST || guard_on();
#endif
}

static slab *add_slab(size_t least)
{
    size_t bytes = newest && newest->bytes < WEIGHT_SLAB_LARGEST / 2 ? 2 * newest->bytes : WEIGHT_SLAB_LARGEST;
    if (!newest) bytes = WEIGHT_SLAB_FIRST;
    while (bytes < least) bytes *= 2;
    slab *s = mem_calloc(1, sizeof *s);
    if (s && !(s->data = mem_pages(bytes))) mem_free(s), s = NULL;
    if (!s) return NULL;
    s->bytes = bytes, s->next = newest;
    return newest = s;
}

static void *place(size_t whole)
{
    slab *s = newest && newest->bytes - newest->used >= whole ? newest : add_slab(whole);
    if (!s) return NULL;
    char *at = s->data + s->used;
    s->used += whole, s->weights++;
    ((head *)(void *)at)->bytes = whole;
    return at + ALIGNED;
}

void *weight_slab_alloc(size_t bytes)
{
    if (wants_apart(bytes)) return mem_pages(bytes);
    pthread_mutex_lock(&lock);
    void *p = place((bytes + 2 * ALIGNED - 1) / ALIGNED * ALIGNED);
    pthread_mutex_unlock(&lock);
    return p ? p : mem_pages(bytes); /* there may still be room for it alone */
}

/* The whole pages of what a weight had. */
static void give_back(char *at, size_t bytes)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = ((uintptr_t)at + page - 1) / page * page,
                    last = ((uintptr_t)at + bytes) / page * page;
    if (first < last) madvise(at + (first - (uintptr_t)at), last - first, MADV_DONTNEED);
}

static slab **slab_of(const char *p)
{
    slab **s = &newest;
    while (*s && (p < (*s)->data || p >= (*s)->data + (*s)->bytes)) s = &(*s)->next;
    return s;
}

void weight_slab_free(void *p)
{
    if (!p) return;
    pthread_mutex_lock(&lock);
    slab **at = slab_of(p), *s = *at;
    if (s) {
        assert(s->weights);
        char *whole = (char *)p - ALIGNED;
        if (--s->weights)
            give_back(whole, ((head *)(void *)whole)->bytes);
        else
            *at = s->next;
    }
    int is_empty = s && !s->weights;
    pthread_mutex_unlock(&lock);
    if (!s) mem_pages_free(p);
    if (is_empty) mem_pages_free(s->data), mem_free(s);
}

size_t weight_slabs_count(void)
{
    size_t n = 0;
    pthread_mutex_lock(&lock);
    for (const slab *s = newest; s; s = s->next) n++;
    pthread_mutex_unlock(&lock);
    return n;
}
