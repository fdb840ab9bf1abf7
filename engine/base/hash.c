/* hash.c - XXH3-128 from the xxHash library; see hash.h. */
#include "base/hash.h"

#include "base/memory_alloc.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

struct hasher {
    XXH3_state_t *state;
};

hasher *hasher_new(void)
{
    hasher *h = mem_alloc(sizeof *h);
    if (!h) return NULL;
    h->state = XXH3_createState();
    if (!h->state) return mem_free(h), NULL;
    hasher_reset(h);
    return h;
}

void hasher_free(hasher *h)
{
    if (!h) return;
    XXH3_freeState(h->state);
    mem_free(h);
}

void hasher_reset(hasher *h) { XXH3_128bits_reset(h->state); }

#if defined __x86_64__
int xxh_update_avx2(void *state, const void *bytes, size_t n);
int xxh_update_avx512(void *state, const void *bytes, size_t n);

/* Short inputs gain nothing from wider instructions. */
static int update_wide(XXH3_state_t *state, const void *p, size_t n)
{
    if (n < 4096) return 0;
    if (__builtin_cpu_supports("avx512f")) return xxh_update_avx512(state, p, n);
    return __builtin_cpu_supports("avx2") && xxh_update_avx2(state, p, n);
}
#else
static int update_wide(XXH3_state_t *state, const void *p, size_t n) { return (void)state, (void)p, (void)n, 0; }
#endif

void hash_bytes(hasher *h, const void *p, size_t n)
{
    assert(h && (p || !n));
    if (n && !update_wide(h->state, p, n)) XXH3_128bits_update(h->state, p, n);
}

void hash_u64(hasher *h, uint64_t v)
{
    unsigned char b[8];
    for (int i = 0; i < 8; i++) b[i] = (unsigned char)(v >> (8 * i));
    hash_bytes(h, b, sizeof b);
}

void hash_text(hasher *h, const char *s)
{
    if (!s) {
        hash_u64(h, UINT64_MAX);
        return;
    }
    size_t n = strlen(s);
    hash_u64(h, n);
    hash_bytes(h, s, n);
}

void hash_double(hasher *h, double v)
{
    uint64_t bits;
    if (isnan(v)) {
        bits = 0x7ff8000000000000u;
    } else {
        if (v == 0) v = 0; /* -0 */
        memcpy(&bits, &v, sizeof bits);
        if (bits == 0x8000000000000000u) bits = 0;
    }
    hash_u64(h, bits);
}

void hash_digest(hasher *h, digest d)
{
    hash_u64(h, d.lo);
    hash_u64(h, d.hi);
}

digest hasher_digest(const hasher *h)
{
    XXH128_hash_t x = XXH3_128bits_digest(h->state);
    return (digest){.lo = x.low64, .hi = x.high64};
}

digest digest_of(const void *p, size_t n)
{
    XXH128_hash_t x = XXH3_128bits(p, n);
    return (digest){.lo = x.low64, .hi = x.high64};
}

int digest_equal(digest a, digest b) { return a.lo == b.lo && a.hi == b.hi; }

const char *digest_hex(digest d, char buf[33])
{
    snprintf(buf, 33, "%016llx%016llx", (unsigned long long)d.hi, (unsigned long long)d.lo);
    return buf;
}
