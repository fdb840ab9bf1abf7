/* hash.h - 128-bit digests (XXH3-128) that identify content. They do not protect against an adversary.
 *
 * Fields are hashed with their length, so that ("ab","c") and ("a","bc") differ.
 */
#ifndef KILN_BASE_HASH_H
#define KILN_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint64_t lo, hi;
} digest;

typedef struct hasher hasher;
hasher *hasher_new(void); /* NULL: no memory */
void hasher_free(hasher *h);
void hasher_reset(hasher *h);
void hash_bytes(hasher *h, const void *p, size_t n); /* raw, no length */
void hash_text(hasher *h, const char *s);            /* length, then bytes; NULL differs from "" */
void hash_u64(hasher *h, uint64_t v);                /* little endian on every machine */
void hash_double(hasher *h, double v);               /* its bits; -0 counts as 0, and all NaNs are one */
void hash_digest(hasher *h, digest d);
digest hasher_digest(const hasher *h);
digest digest_of(const void *p, size_t n);
int digest_equal(digest a, digest b);
const char *digest_hex(digest d, char buf[33]);

#endif
