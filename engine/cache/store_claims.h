/* store_claims.h - which process computes which key: byte-range locks that end with their process. store.h has the
 * public part.
 */
#ifndef KILN_CACHE_STORE_CLAIMS_H
#define KILN_CACHE_STORE_CLAIMS_H

#include "cache/store.h"

enum { CLAIM_FILES = 16, CLAIM_BUCKETS = 256 };

struct store_claim {
    store_claim *next;
    store *store;
    digest key;
    int deferred; /* given back, but held until what was put is committed */
    int locked;   /* other processes see it                               */
};

kiln_status claims_open(store *s, error *e);
void claims_close(store *s);
void claims_settled(store *s); /* lock held: what was deferred is free now */
/* A lock for housekeeping, one process at a time: 1 when taken, within so many milliseconds. */
int claims_house(store *s, int milliseconds);
void claims_house_free(store *s);

#endif
