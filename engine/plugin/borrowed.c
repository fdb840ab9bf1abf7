/* borrowed.c - see borrowed.h. */
#include "plugin/borrowed.h"

#include "tensor/value.h"

static _Thread_local const borrowed *here;

const borrowed *borrowed_enter(const borrowed *b)
{
    const borrowed *before = here;
    here = b;
    return before;
}

const borrowed *borrowed_here(void) { return here; }

static atomic_int *balance_of(const kiln_value *v)
{
    for (uint32_t i = 0; v && here && i < here->n; i++)
        if (here->in[i] == v) return &here->balance[i];
    return NULL;
}

/* What was given up too often was not given up: then it is not taken either. */
kiln_value *borrowed_ref(kiln_value *v)
{
    atomic_int *balance = balance_of(v);
    if (balance && atomic_fetch_add(balance, 1) < 0) return v;
    return value_ref(v);
}

void borrowed_unref(kiln_value *v)
{
    atomic_int *balance = balance_of(v);
    if (balance && atomic_fetch_sub(balance, 1) <= 0) return;
    value_unref(v);
}

int borrowed_settle(const borrowed *b, uint32_t i, kiln_value *const *out, uint32_t n_out, int *stray, int *missing)
{
    int given = 0, balance = atomic_load(&b->balance[i]);
    *stray = *missing = 0;
    for (uint32_t k = 0; k < i; k++)
        if (b->in[k] == b->in[i]) return 0;
    for (uint32_t k = 0; b->in[i] && k < n_out; k++) given += out[k] == b->in[i];
    *stray = balance < 0 ? -balance : 0;
    *missing = given > balance ? given - (balance > 0 ? balance : 0) : 0;
    for (int k = 0; k < *missing; k++) value_ref(b->in[i]);
    return *stray || *missing;
}
