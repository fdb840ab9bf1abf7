/* residency.h - which packed weights are in memory. Layer: memory (needs graph, weights).
 *
 * One manager per process. A packed weight is known by (identity of its set, tensor name, pack
 * form); programs that want the same one share it. Today everything asked for stays until the last
 * program that holds it is freed; the budgeted plan replaces this file's policy, not its interface.
 */
#ifndef KILN_MEMORY_RESIDENCY_H
#define KILN_MEMORY_RESIDENCY_H

#include "base/status.h"
#include "weights/weights.h"

typedef struct residency residency;
typedef struct resident resident; /* a reference to one packed weight */

residency *residency_new(void);
void residency_free(residency *r);
/* Returns the packed bytes, 64-byte aligned, packing them with `pack` when they are not there yet. */
kiln_status residency_get(residency *r, const char *set_identity, const char *tensor, const char *pack_form,
                          size_t bytes, kiln_status (*pack)(void *arg, void *dst, error *e), void *arg,
                          resident **out, error *e);
const void *resident_data(const resident *x);
void resident_release(resident *x);
size_t residency_bytes(const residency *r);
size_t residency_peak(const residency *r);

#endif
