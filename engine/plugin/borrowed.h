/* borrowed.h - references to a call's inputs, which are borrowed: how many the call has taken and given up. One that it
 * has not taken is not given up, so that a plugin's mistake frees nobody's value; borrowed_settle says what it was. */
#ifndef KILN_PLUGIN_BORROWED_H
#define KILN_PLUGIN_BORROWED_H

#include "kiln/plugin.h"

#include <stdatomic.h>

typedef struct borrowed {
    kiln_value *const *in;
    uint32_t n;
    atomic_int *balance; /* [n]: taken minus given up; of equal inputs the first's counts */
} borrowed;

/* Whose inputs ref() and unref() on this thread may be about; returns what it was before. NULL: nobody's. */
const borrowed *borrowed_enter(const borrowed *b);
const borrowed *borrowed_here(void);

/* As kiln_host's. */
kiln_value *borrowed_ref(kiln_value *v);
void borrowed_unref(kiln_value *v);

/* After the call: input number i was given up `stray` times too often, or is an output without a reference of its own,
 * which it gets now. 0: neither. */
int borrowed_settle(const borrowed *b, uint32_t i, kiln_value *const *out, uint32_t n_out, int *stray, int *missing);

#endif
