/* budget.h - the account of a device's memory: what it is used for, and a limit that is never passed. Layer: memory.
 *
 * Everything of size that the engine keeps in a device's memory is taken here first: packed weights, activations and
 * working memory, staging, and on the host the tensors that go from node to node. What does not fit is refused, after
 * the owner of what could go (residency.h) has been asked to give something up. Any thread.
 */
#ifndef KILN_MEMORY_BUDGET_H
#define KILN_MEMORY_BUDGET_H

#include "base/status.h"

#include <stddef.h>

typedef enum { MEMORY_WEIGHTS, MEMORY_ACTIVATIONS, MEMORY_STAGING, MEMORY_VALUES, MEMORY_KINDS } memory_kind;
extern const char *const memory_kind_name[MEMORY_KINDS];

typedef struct budget budget;

budget *budget_new(size_t limit); /* 0: no limit. NULL: no memory */
void budget_free(budget *b);
/* Asked, with no lock of the budget held, to give up at least `bytes`; may give less, or nothing. */
void budget_on_pressure(budget *b, void (*give_up)(void *arg, size_t bytes), void *arg);
/* KILN_ERR_NOMEM: `what` ("the latent") does not fit; says how much there is and what the rest is used for. */
kiln_status budget_take(budget *b, memory_kind kind, size_t bytes, const char *what, error *e);
void budget_give(budget *b, memory_kind kind, size_t bytes);
/* A smaller limit than is used is kept by refusing more until enough was given back. */
void budget_set_limit(budget *b, size_t limit);
size_t budget_limit(const budget *b);
size_t budget_used(const budget *b);
size_t budget_held(const budget *b, memory_kind kind);
size_t budget_peak(const budget *b); /* most at once */
void budget_peak_reset(budget *b);

#endif
