/* invariant.c - see invariant.h. */
#include "backend/binds.h"
#include "backend/runtime_state.h"
#include "base/lock.h"
#include "base/memory_alloc.h"
#include "tensor/dtype.h"

#include <assert.h>
#include <string.h>

enum { WIDEST = 8 }; /* bytes of the largest dtype */

static size_t elements(const op *o) { return (size_t)shape_count(&o->shape); }
static int is_invariant(const op *o) { return o->kind == OP_INPUT && o->invariant; }

kiln_status invariant_make(kiln_program *p, error *e)
{
    size_t n = 0;
    if (!p->x.plan.n_invariant) return KILN_OK;
    for (size_t i = 0; i < p->r.n; i++)
        if (is_invariant(&p->r.op[i])) n += elements(&p->r.op[i]) * WIDEST;
    p->invariant.dtype = mem_calloc(p->r.n + 1, sizeof *p->invariant.dtype);
    p->invariant.bytes = mem_alloc(n + 1);
    return p->invariant.dtype && p->invariant.bytes ? KILN_OK
                                                    : error_set(e, KILN_ERR_NOMEM, "out of memory for a program");
}

int invariant_same(const kiln_program *p, const kiln_bind *in, size_t n_in)
{
    assert(mutex_held((pthread_mutex_t *)(uintptr_t)&p->rt->lock) && p->planned);
    const char *was = p->invariant.bytes;
    for (size_t i = 0; p->invariant.valid && i < p->r.n; i++) {
        const op *o = &p->r.op[i];
        if (!is_invariant(o)) continue;
        const kiln_bind *b = bind_named(in, n_in, o->name);
        if (b->tensor.device != KILN_CPU || b->tensor.dtype != p->invariant.dtype[i] ||
            memcmp(was, b->tensor.data, elements(o) * dtype_size(b->tensor.dtype)) != 0)
            return 0;
        was += elements(o) * WIDEST;
    }
    return p->invariant.valid;
}

void invariant_note(kiln_program *p, const kiln_bind *in, size_t n_in)
{
    assert(mutex_held(&p->rt->lock) && p->planned);
    char *to = p->invariant.bytes;
    for (size_t i = 0; to && i < p->r.n; i++) {
        const op *o = &p->r.op[i];
        if (!is_invariant(o)) continue;
        const kiln_bind *b = bind_named(in, n_in, o->name);
        p->invariant.dtype[i] =
            b->tensor.device == KILN_CPU ? b->tensor.dtype : 0; /* what lies on a device is not compared */
        if (b->tensor.device == KILN_CPU) memcpy(to, b->tensor.data, elements(o) * dtype_size(b->tensor.dtype));
        to += elements(o) * WIDEST;
    }
    p->invariant.valid = to != NULL;
}
