/* memory_alloc.c - see memory_alloc.h. */
#include "base/memory_alloc.h"

#include "base/checked.h"
#include "base/huge_pages.h"
#include "base/memory_fault.h"
#include "base/memory_guard.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static atomic_llong countdown = -1; /* allocations before the one that fails; < 0: none will */
static atomic_llong counted, live;
static atomic_int keeps_failing, pieces_count;
static int (*_Atomic asked)(void);

static int must_fail(void)
{
    int (*fails)(void) = atomic_load_explicit(&asked, memory_order_relaxed);
    atomic_fetch_add(&counted, 1);
    if (fails && fails()) return 1;
    if (atomic_load(&countdown) < 0) return 0;
    long long left = atomic_fetch_sub(&countdown, 1);
    if (left > 0) return 0;
    if (atomic_load(&keeps_failing)) atomic_store(&countdown, 0);
    return left == 0;
}

void mem_fail_at(int64_t k, int persistent)
{
    atomic_store(&countdown, k < 0 ? -1 : k);
    atomic_store(&keeps_failing, persistent);
    atomic_store(&counted, 0);
}

void mem_fail_when(int (*fails)(void)) { atomic_store(&asked, fails); }
int64_t mem_count(void) { return atomic_load(&counted); }
int64_t mem_live(void) { return atomic_load(&live); }
void mem_count_pieces(int on) { atomic_store(&pieces_count, on); }
int mem_piece_fails(void) { return atomic_load_explicit(&pieces_count, memory_order_relaxed) && must_fail(); }

static void *lives(void *p)
{
    if (p) atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
    return p;
}

void *mem_alloc(size_t bytes) { return must_fail() ? NULL : lives(malloc(bytes ? bytes : 1)); }

void *mem_calloc(size_t count, size_t size)
{
    size_t bytes;
    if (!checked_mul_size(count, size, &bytes) || must_fail()) return NULL;
    return lives(calloc(1, bytes ? bytes : 1));
}

void *mem_realloc(void *p, size_t bytes)
{
    if (must_fail()) return NULL;
    void *larger = realloc(p, bytes ? bytes : 1);
    return p ? larger : lives(larger);
}

void *mem_aligned(size_t alignment, size_t bytes)
{
    size_t padded;
    assert(alignment && (alignment & (alignment - 1)) == 0);
    if (!checked_add_size(bytes, alignment - 1, &padded) || must_fail()) return NULL;
    if (guard_on()) return lives(guard_alloc(alignment, bytes ? bytes : 1));
    padded = padded / alignment * alignment;
    return lives(aligned_alloc(alignment, padded ? padded : alignment));
}

/* The bytes before a block record how much was mapped for it; 0: it is from the heap. Under the address sanitizer every
 * block is, since it does not check mapped memory. */
enum { BEFORE = 64 };
#if defined __SANITIZE_ADDRESS__
static const size_t PAGES_FROM = SIZE_MAX;
#else
static const size_t PAGES_FROM = 128 << 10;
#endif

void *mem_pages(size_t bytes)
{
    size_t whole;
    if (guard_on()) return mem_aligned(BEFORE, bytes);
    if (!checked_add_size(bytes, BEFORE, &whole)) return NULL;
    if (whole < PAGES_FROM) {
        char *p = mem_aligned(BEFORE, whole);
        if (!p) return NULL;
        *(size_t *)(void *)p = 0;
        return p + BEFORE;
    }
    if (must_fail()) return NULL;
    char *p = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    huge_pages_ask(p, whole);
    *(size_t *)(void *)p = whole;
    return lives(p + BEFORE);
}

void mem_pages_free(void *p)
{
    if (!p) return;
    if (guard_free(p)) {
        atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
        return;
    }
    char *whole = (char *)p - BEFORE;
    size_t mapped = *(size_t *)(void *)whole;
    assert(mapped == 0 || mapped >= PAGES_FROM); /* else it is not from mem_pages */
    if (!mapped) {
        mem_free(whole);
        return;
    }
    atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
    munmap(whole, mapped);
}

char *mem_strndup(const char *s, size_t n)
{
    size_t len = strnlen(s, n), bytes;
    if (!checked_add_size(len, 1, &bytes)) return NULL;
    char *copy = mem_alloc(bytes);
    if (!copy) return NULL;
    memcpy(copy, s, len);
    copy[len] = '\0';
    return copy;
}

char *mem_strdup(const char *s) { return mem_strndup(s, SIZE_MAX - 1); }

void mem_free(void *p)
{
    if (p) atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
    if (!guard_free(p)) free(p);
}
