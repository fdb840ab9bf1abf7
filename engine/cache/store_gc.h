/* store_gc.h - what the store drops by itself: damaged entries, values over the limit, leftovers of dead processes. */
#ifndef KILN_CACHE_STORE_GC_H
#define KILN_CACHE_STORE_GC_H

#include "cache/store.h"

kiln_status gc_drop_entry(store *s, digest key, error *e); /* lock held: one whose rows do not fit together */
void gc_drop_unnamed_file(store *s, digest content);       /* lock held: unless a row or the queue names it */
void gc_sweep_temporary(store *s);                         /* what dead processes left in values/tmp */
kiln_status gc_drop_content(store *s, digest content,
                            error *e); /* lock held: a damaged value and the entries that name it */
void gc_after_commit(store *s);        /* lock held: keeps the limit */

#endif
