/* states.h - memory of programs that outlives a run: caches of keys and values, convolutions' tails, rows of a
 * recurrence. Layer: backend. Behind kiln_states of include/kiln/ops.h.
 *
 * An object holds named buffers in the device's memory, on its account. A program that records a state of a name finds
 * the buffer when it runs, or makes it, filled with zeros; programs that record the same name and shape share it. A
 * fork shares buffers with its origin until one of the two writes. Functions take the runtime's lock but where said.
 */
#ifndef KILN_BACKEND_STATES_H
#define KILN_BACKEND_STATES_H

#include "backend/runtime.h"

/* `counts`: of an estimate: buffers are on the account and nowhere else. rt NULL: nothing computes there; the object is
 * filled and handed on, and states_place() brings it to the device before it is used. */
kiln_states *states_new(runtime *rt, const char *label, int counts, error *e);
kiln_status states_place(kiln_states *s, runtime *rt, error *e);
kiln_states *states_ref(kiln_states *s);
void states_unref(kiln_states *s);
/* NULL without memory. */
kiln_states *states_fork(kiln_states *s, error *e);
size_t states_bytes(const kiln_states *s); /* of its buffers; what is shared counts in each */

typedef struct {
    const char *name; /* as long as the object lives */
    uint32_t dtype;
    shape shape;
} state_info;
size_t states_count(const kiln_states *s);
state_info states_at(const kiln_states *s, size_t i);
/* Dense host memory of the buffer's type. write() makes the buffer where it is not there. KILN_ERR_INVALID: no such
 * buffer, or one of another type or shape. */
kiln_status states_read(kiln_states *s, const char *name, void *dst, error *e);
kiln_status states_write(kiln_states *s, const state_info *info, const void *src, error *e);
/* Forgets one buffer, or all of them with name NULL: they begin with zeros again. */
void states_clear(kiln_states *s, const char *name);

/* For program_run.c, with the runtime's lock held: the buffers of a program's states, data[id] by id. `writes`: those
 * that are written, a copy of their own where they are shared. */
size_t states_wanted(const recording *r); /* bytes of them all, by an object that has none yet */
kiln_status states_bind(kiln_states *s, const recording *r, void **data, error *e);

#endif
