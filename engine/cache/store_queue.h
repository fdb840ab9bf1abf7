/* store_queue.h - results that were put and are not committed yet, and the thread that commits them. With the store's
 * lock held, but queue_stop_flusher, queue_free and queue_seal.
 */
#ifndef KILN_CACHE_STORE_QUEUE_H
#define KILN_CACHE_STORE_QUEUE_H

#include "cache/store_values.h"

/* One result. */
typedef struct {
    store_entry about;
    stored_value *value; /* [about.n_value] */
    double since;        /* monotonic       */
} queued;

const queued *queue_find(const store *s, digest key);
kiln_status queue_add(store *s, queued *q, error *e); /* takes what q owns, also on failure */
kiln_status queue_flush(store *s, error *e);
void queue_free(store *s);
void queue_start_flusher(store *s);
void queue_stop_flusher(store *s); /* without the lock */
digest queue_seal(digest key, const stored_value *part,
                  uint32_t n); /* which values belong to the key, in which order */
void queue_touch(store *s, const store_entry *entry);

#endif
