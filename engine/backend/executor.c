/* executor.c - chooses a kernel for each op of a planned program; see executor.h. */
#include "backend/executor.h"

#include "base/log.h"
#include "base/memory_alloc.h"
#include "base/str.h"
#include "tensor/dtype.h"

#include <assert.h>
#include <string.h>

/* ---- kernels ---- */

static operand_desc describe(const executor *x, uint32_t id)
{
    assert(id <= x->r->n);
    if (!id) return (operand_desc){0};
    const op *o = &x->r->op[id - 1];
    const placement *p = &x->plan.place[id];
    return (operand_desc){.dtype = p->dtype, .shape = o->shape, .ld = p->ld, .weight = p->kind == PLACE_WEIGHT};
}

static void describe_op(const executor *x, uint32_t i, op_desc *d)
{
    assert(i < x->r->n);
    const op *o = &x->r->op[i];
    *d = (op_desc){.kind = o->kind,
                   .attr = o->attr,
                   .epilogue = o->epilogue,
                   .n_in = o->n_in,
                   .out = describe(x, i + 1),
                   .precision = o->precision};
    for (uint32_t k = 0; k < o->n_in; k++) d->in[k] = describe(x, o->in[k]);
    for (uint32_t k = 0; k < OP_MAX_MORE; k++) {
        d->more[k] = describe(x, x->step[i].more[k]);
        if (x->step[i].more[k]) d->n_more = k + 1;
    }
}

/* The results that stand behind an op are its own. */
static void find_results(executor *x, uint32_t i)
{
    for (uint32_t k = i + 1; k < x->r->n && x->r->op[k].kind == OP_RESULT && x->r->op[k].in[0] == i + 1; k++)
        x->step[i].more[x->r->op[k].attr.result.index - 1] = k + 1;
}

/* A concatenation whose operands were all written into it has nothing left to do. */
static int is_in_place(const executor *x, uint32_t i)
{
    const op *o = &x->r->op[i];
    if (o->kind != OP_CONCAT) return 0;
    for (uint32_t k = 0; k < o->n_in; k++)
        if (x->plan.place[o->in[k]].base != x->plan.place[i + 1].base) return 0;
    return 1;
}

static kiln_status prepare(executor *x, uint32_t i, const backend *b, error *e)
{
    step *s = &x->step[i];
    error why = {0};
    find_results(x, i);
    describe_op(x, i, &s->desc);
    kiln_status status = b->prepare(&s->desc, &s->kernel, &why);
    if (status == KILN_ERR_UNSUPPORTED && b != &backend_reference && b->device == KILN_CPU) {
        if (!(x->warned >> s->desc.kind & 1))
            log_warn("program '%s'%s%s: no %s kernel (%s); the plain one is used, which is slow", x->r->name,
                     at_or_not(&x->r->op[i]), x->r->op[i].scope, b->name, why.message);
        x->warned |= UINT64_C(1) << s->desc.kind;
        why = (error){0};
        status = backend_reference.prepare(&s->desc, &s->kernel, &why);
    }
    if (status != KILN_OK)
        return error_set(e, status, "program '%s'%s%s: %s: %s", x->r->name, at_or_not(&x->r->op[i]), x->r->op[i].scope,
                         op_name(s->desc.kind), why.message);
    x->waits |= s->kernel->waits;
    if (s->kernel->scratch_bytes > x->scratch_bytes) x->scratch_bytes = s->kernel->scratch_bytes;
    for (uint32_t k = 0; k < s->desc.n_in; k++)
        if (s->desc.in[k].weight)
            x->weight_bytes += s->kernel->packed_bytes[k]
                                   ? s->kernel->packed_bytes[k]
                                   : (size_t)shape_count(&s->desc.in[k].shape) * dtype_size(s->desc.in[k].dtype);
    return KILN_OK;
}

kiln_status executor_make(executor *x, recording *r, const backend *b, error *e)
{
    *x = (executor){.r = r};
    TRY(plan_make(&x->plan, r, e));
    x->step = mem_calloc(r->n + 1, sizeof *x->step);
    if (!x->step) return error_set(e, KILN_ERR_NOMEM, "out of memory for a program");
    for (uint32_t i = 0; i < r->n; i++)
        if (!x->plan.skip[i] && !is_in_place(x, i)) TRY(prepare(x, i, b, e));
    return KILN_OK;
}

void executor_free(executor *x)
{
    executor_forget_demand(x);
    for (size_t i = 0; x->step && x->r && i < x->r->n; i++)
        if (x->step[i].kernel) x->step[i].kernel->free(x->step[i].kernel);
    mem_free(x->step);
    plan_free(&x->plan);
    *x = (executor){0};
}
