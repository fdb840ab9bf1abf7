/* program_order.h - which program runs after which, as an estimate of the workflow noted it, and where in that order we
 * are. For memory/.
 *
 *     encoder x 2 | unet x 20 | vae x 1        entries: a program, and how often it runs in a row
 *                    ^ at, ran = 7             its 7th run has begun
 *
 * It answers three questions: which weights are needed again last (they are evicted first), which program comes next
 * (its weights are prefetched), and which weights nobody wants any more. The order is taken to come round again unless
 * it is known to come once; a program that comes out of order is looked for from here on. With the owner's lock held,
 * every function.
 */
#ifndef KILN_MEMORY_PROGRAM_ORDER_H
#define KILN_MEMORY_PROGRAM_ORDER_H

#include "memory/residency.h"

typedef struct {
    residency_pass *pass;
    unsigned runs; /* in a row */
} order_entry;

typedef struct {
    order_entry *entry;
    size_t n, capacity, at; /* at: the running program's entry */
    unsigned ran;           /* runs of it in a row that have begun */
    int once;               /* the order is whole, and does not come round again */
} program_order;

/* One more run at the end of the order; we are at its start again. */
kiln_status order_note(program_order *o, residency_pass *p, error *e);
/* Goes to p's entry: this one while runs of it are left, else the next. Twice is as once. */
void order_find(program_order *o, const residency_pass *p);
/* p's run begins: counts it. */
void order_count(program_order *o, const residency_pass *p);
/* The program after p, if p's last run in a row has begun; NULL: not the last, or past the end nothing is known. */
residency_pass *order_next(const program_order *o, const residency_pass *p);
/* Sets `wanted` and `over` of all weights of `passes`, as seen from `steps` entries further than where we are. */
void order_set_wanted(const program_order *o, residency_pass *passes, size_t steps);
/* p goes: the rest of the order still holds. */
void order_forget(program_order *o, const residency_pass *p);

#endif
