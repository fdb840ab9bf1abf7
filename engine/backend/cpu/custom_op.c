/* custom_op.c - ops of plugins on the processor: their tiles on all threads, or their reference. */
#include "backend/cpu/cpu.h"

#include "backend/custom_kernel.h"
#include "base/memory_alloc.h"

typedef struct {
    size_t dense, workspace; /* bytes: copies of operands, and of each slot behind them */
    uint64_t tiles;
} custom_plan;

typedef struct {
    const cpu_kernel *c;
    const custom_call *call;
    char *workspace;
} job;

static kiln_status tile(void *arg, size_t index, unsigned slot, error *e)
{
    const job *j = arg;
    const custom_plan *p = j->c->plan;
    (void)e;
    j->c->op.attr.custom->kind.tile(&j->call->call, index, p->workspace ? j->workspace + slot * p->workspace : NULL);
    return KILN_OK;
}

static kiln_status run(const cpu_kernel *c, const kernel_args *a, error *e)
{
    const custom_plan *p = c->plan;
    custom_call call;
    custom_make_dense(&c->op, a);
    custom_call_of(&call, &c->op, a, KILN_CPU, e);
    if (!c->op.attr.custom->kind.tile) return c->op.attr.custom->kind.reference(&call.call);
    job j = {c, &call, (char *)a->scratch + p->dense};
    return tiles_run(a->pool, (size_t)p->tiles, tile, &j, e);
}

kiln_status cpu_prepare_custom(cpu_kernel *c, error *e)
{
    const kiln_op_kind *k = &c->op.attr.custom->kind;
    custom_call call;
    custom_plan *p = mem_calloc(1, sizeof *p);
    if (!p) return error_set(e, KILN_ERR_NOMEM, "out of memory for a kernel");
    c->plan = p, c->plan_free = mem_free, c->body = run;
    custom_call_of(&call, &c->op, NULL, KILN_CPU, e);
    p->dense = custom_dense_bytes(&c->op);
    p->workspace = k->tile && k->workspace ? round_up(k->workspace(&call.call), 64) : 0;
    p->tiles = k->tile ? k->tiles(&call.call) : 1;
    c->base.name = k->name;
    c->base.scratch_bytes = p->dense + cpu_slots() * p->workspace;
    c->base.flops = k->flops ? k->flops(&call.call) : 0;
    if (!k->tile) custom_warn_slow(&c->op, "the processor");
    return KILN_OK;
}
