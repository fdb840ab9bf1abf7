/* program_run.c - a planned program on its device: inputs in, op after op, outputs out; see runtime.h. */
#include "backend/binds.h"
#include "backend/runtime_state.h"
#include "backend/states.h"
#include "base/lock.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory_alloc.h"
#include "base/str.h"
#include "tensor/dtype.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    kiln_program *p;
    kiln_states *states;
    const kiln_bind *in, *out;
    size_t n_in, n_out;
    const void **input; /* [r.n + 1] by id, in the device's memory */
    void **state;       /* the same of states */
    int estimate;       /* nothing is computed: data may be NULL */
    int keeps;          /* step-invariant inputs are as they were: what depends on them is still in the arena */
    residency_workspace space;
} binding;

static kiln_status fits(const binding *of, const kiln_bind *b, const shape *s, error *e)
{
    const kiln_program *p = of->p;
    shape have = {.rank = b->tensor.rank <= KILN_MAX_RANK ? b->tensor.rank : 0};
    char x[80], y[80];
    if (have.rank) memcpy(have.dim, b->tensor.dim, have.rank * sizeof have.dim[0]);
    if (!shape_equal(&have, s))
        return error_set(e, KILN_ERR_INVALID, "program '%s': '%s' is bound to %s, recorded as %s", p->r.name, b->name,
                         shape_text(&have, x), shape_text(s, y));
    int on_device = b->tensor.device != KILN_CPU && b->tensor.device == runtime_vector_device(p->rt);
    if ((!b->tensor.data && !of->estimate) || (b->tensor.device != KILN_CPU && !on_device))
        return error_set(e, KILN_ERR_UNSUPPORTED, "program '%s': '%s' must be bound to host memory", p->r.name,
                         b->name);
    if (on_device && b->tensor.dtype != KILN_F32)
        return error_set(e, KILN_ERR_UNSUPPORTED, "program '%s': '%s' on a device must be f32", p->r.name, b->name);
    int64_t stride = (int64_t)dtype_size(b->tensor.dtype);
    for (uint32_t i = b->tensor.stride ? have.rank : 0; i-- > 0; stride *= have.dim[i])
        if (have.dim[i] > 1 && b->tensor.stride[i] != stride)
            return error_set(e, KILN_ERR_UNSUPPORTED, "program '%s': '%s' must be dense", p->r.name, b->name);
    return KILN_OK;
}

/* Bound to the device's own memory? */
static int is_on_device(const kiln_bind *b) { return b->tensor.device != KILN_CPU; }

static int is_real(uint32_t dtype) { return dtype == KILN_F32 || dtype == KILN_BF16 || dtype == KILN_F16; }

/* Where an input is read from: from where it was bound, or converted to its type from its offset in the workspace's io.
 * On an asynchronous device it is put into page-locked memory here, and copy_inputs sends it. */
static kiln_status stage_input(binding *b, uint32_t id, const kiln_bind *bound)
{
    runtime *rt = b->p->rt;
    const op *o = &b->p->r.op[id - 1];
    uint32_t from = bound->tensor.dtype;
    size_t n = (size_t)shape_count(&o->shape), bytes = n * dtype_size(o->dtype), place = b->p->x.io[id];
    int asynchronous = (int)rt->device->table->asynchronous;
    if ((from == o->dtype && !asynchronous) || is_on_device(bound)) {
        b->input[id] = bound->tensor.data;
        return KILN_OK;
    }
    b->input[id] = b->space.io + place;
    if (asynchronous && o->invariant && b->keeps) return KILN_OK; /* it is on the device still */
    char *to = asynchronous ? (char *)rt->host_io + place : b->space.io + place;
    if (from == o->dtype)
        memcpy(to, bound->tensor.data, bytes);
    else
        return dtype_convert(to, o->dtype, bound->tensor.data, from, n);
    return KILN_OK;
}

static kiln_status check_input(const binding *b, uint32_t id, const kiln_bind *bound, error *e)
{
    const op *o = &b->p->r.op[id - 1];
    uint32_t from = bound->tensor.dtype;
    TRY(fits(b, bound, &o->shape, e));
    if (is_on_device(bound) && o->dtype != KILN_F32)
        return error_set(e, KILN_ERR_UNSUPPORTED, "program '%s': input '%s' is %s, and on a device only f32 is taken",
                         b->p->r.name, o->name, dtype_name(o->dtype));
    if (from == o->dtype || (is_real(from) && is_real(o->dtype))) return KILN_OK;
    return error_set(e, KILN_ERR_INVALID, "program '%s': input '%s' is %s, bound to %s", b->p->r.name, o->name,
                     dtype_name(o->dtype), dtype_name(from));
}

/* Every name once, and each the name of an input. */
static kiln_status known_binds(const binding *b, error *e)
{
    const recording *r = &b->p->r;
    for (size_t i = 0; i < b->n_in; i++) {
        const char *name = bind_at(b->in, i)->name;
        int known = 0;
        for (size_t k = 0; k < r->n; k++) known |= r->op[k].kind == OP_INPUT && strcmp(r->op[k].name, name) == 0;
        if (!known) return error_set(e, KILN_ERR_INVALID, "program '%s' has no input '%s'", r->name, name);
        if (bind_named(b->in, i, name))
            return error_set(e, KILN_ERR_INVALID, "program '%s': input '%s' is bound twice", r->name, name);
    }
    return KILN_OK;
}

static kiln_status check_binds(const binding *b, error *e)
{
    const recording *r = &b->p->r;
    TRY(binds_check(b->in, b->n_in, r->name, e));
    TRY(binds_check(b->out, b->n_out, r->name, e));
    TRY(known_binds(b, e));
    for (uint32_t id = 1; id <= r->n; id++) {
        const op *o = &r->op[id - 1];
        if (o->kind != OP_INPUT) continue;
        const kiln_bind *bound = bind_named(b->in, b->n_in, o->name);
        if (!bound) return error_set(e, KILN_ERR_INVALID, "program '%s': input '%s' is not bound", r->name, o->name);
        TRY(check_input(b, id, bound, e));
    }
    for (size_t i = 0; i < b->n_out; i++) {
        const kiln_bind *bound = bind_at(b->out, i);
        const program_output *o = NULL;
        for (size_t k = 0; k < r->n_output; k++)
            if (strcmp(r->output[k].name, bound->name) == 0) o = &r->output[k];
        if (!o) return error_set(e, KILN_ERR_INVALID, "program '%s' has no output '%s'", r->name, bound->name);
        TRY(fits(b, bound, &r->op[o->id - 1].shape, e));
    }
    return KILN_OK;
}

static kiln_status stage_inputs(binding *b)
{
    for (uint32_t id = 1; id <= b->p->r.n; id++)
        if (b->p->r.op[id - 1].kind == OP_INPUT)
            TRY(stage_input(b, id, bind_named(b->in, b->n_in, b->p->r.op[id - 1].name)));
    return KILN_OK;
}

static void *address(const binding *b, uint32_t id)
{
    assert(id >= 1 && id <= b->p->r.n);
    const placement *place = b->p->x.plan.place, *x = &place[id], *base = &place[x->base];
    size_t shift = (size_t)x->shift * dtype_size(x->dtype);
    if (base->kind == PLACE_INPUT) return (char *)(uintptr_t)b->input[x->base] + shift;
    if (base->kind == PLACE_STATE) return (char *)b->state[x->base] + shift;
    return b->space.arena + base->offset + shift;
}

static int all_finite(const operand_desc *d, const void *data)
{
    int64_t columns = d->shape.rank ? d->shape.dim[d->shape.rank - 1] : 1,
            rows = columns ? shape_count(&d->shape) / columns : 0;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) {
            int64_t at = r * d->ld + c;
            float v = d->dtype == KILN_BF16  ? bf16_to_f32(((const uint16_t *)data)[at])
                      : d->dtype == KILN_F16 ? f16_to_f32(((const uint16_t *)data)[at])
                      : d->dtype == KILN_F32 ? ((const float *)data)[at]
                                             : 0;
            if (!isfinite(v)) return 0;
        }
    return 1;
}

/* Bytes from the first element of a tensor to its last, rows apart. */
static size_t span(const shape *s, int64_t ld, uint32_t dtype)
{
    int64_t columns = s->rank ? s->dim[s->rank - 1] : 1, rows = columns ? shape_count(s) / columns : 0;
    return rows ? (size_t)((rows - 1) * ld + columns) * dtype_size(dtype) : 0;
}

/* The result of an op on the host, where it is, or as a copy in *owned. */
static kiln_status look_at(const binding *b, const operand_desc *d, const void *data, const void **seen, void **owned,
                           error *e)
{
    runtime *rt = b->p->rt;
    size_t bytes = span(&d->shape, d->ld, d->dtype);
    *seen = data, *owned = NULL;
    if (!rt->device->table->asynchronous || !bytes) return KILN_OK;
    TRY(rt->device->table->host_alloc(rt->device, bytes, owned, e));
    *seen = *owned;
    TRY(rt->device->table->copy_out(rt->device, *owned, data, bytes, b->space.stream, e));
    return rt->device->table->sync(rt->device, b->space.stream, e);
}

static kiln_status check_finite(const binding *b, uint32_t i, const void *data, error *e)
{
    runtime *rt = b->p->rt;
    const op *o = &b->p->r.op[i];
    const operand_desc *d = &b->p->x.step[i].desc.out;
    const void *seen;
    void *owned;
    kiln_status status = look_at(b, d, data, &seen, &owned, e);
    if (status == KILN_OK && !all_finite(d, seen))
        status = error_set(e, KILN_ERR_INVALID, "program '%s'%s%s: %s made a number that is not finite", b->p->r.name,
                           at_or_not(o), o->scope, op_name(o->kind));
    if (owned) rt->device->table->host_release(rt->device, owned);
    return status;
}

static kiln_status run_kernel(const binding *b, uint32_t i, kernel_args *a, error *e)
{
    runtime *rt = b->p->rt;
    const step *s = &b->p->x.step[i];
    double start = rt->setting.trace ? clock_seconds() : 0;
    TRY(s->kernel->run(s->kernel, a, e));
    if (!rt->setting.trace) return KILN_OK;
    if (rt->device->table->asynchronous)
        TRY(rt->device->table->sync(rt->device, b->space.stream, e)); /* so that the time is the op's */
    rt->setting.trace(rt->setting.trace_arg, &(op_trace){.program = b->p->r.name,
                                                         .scope = b->p->r.op[i].scope,
                                                         .op = op_name(b->p->r.op[i].kind),
                                                         .kernel = s->kernel->name,
                                                         .start = start,
                                                         .seconds = clock_seconds() - start,
                                                         .flops = s->kernel->flops});
    return KILN_OK;
}

static kiln_status run_step(const binding *b, uint32_t i, error *e)
{
    assert(i < b->p->r.n && b->p->x.step[i].kernel);
    runtime *rt = b->p->rt;
    executor *x = &b->p->x;
    const step *s = &x->step[i];
    const op *o = &b->p->r.op[i];
    kernel_args a = {
        .out = address(b, i + 1), .scratch = b->space.scratch, .pool = rt->pool, .stream = b->space.stream};
    error why = {0};
    TRY(residency_before(x->pass, i, e));
    for (uint32_t k = 0; k < s->desc.n_in; k++)
        if (o->in[k]) a.in[k] = s->use[k] ? residency_data(x->pass, s->use[k] - 1) : address(b, o->in[k]);
    for (uint32_t k = 0; k < s->desc.n_more; k++)
        if (s->more[k]) a.more[k] = address(b, s->more[k]);
    kiln_status status = run_kernel(b, i, &a, &why);
    if (status != KILN_OK)
        return error_set(e, status, "program '%s'%s%s: %s: %s", b->p->r.name, at_or_not(o), o->scope, op_name(o->kind),
                         why.message);
    if (rt->setting.check_finite) TRY(check_finite(b, i, a.out, e));
    return residency_after(x->pass, i, e);
}

/* ---- outputs ---- */

static uint32_t output_id(const recording *r, const char *name)
{
    for (size_t k = 0; k < r->n_output; k++)
        if (strcmp(r->output[k].name, name) == 0) return r->output[k].id;
    return 0;
}

static size_t output_span(const binding *b, const kiln_bind *out)
{
    uint32_t id = output_id(&b->p->r, out->name);
    const placement *x = &b->p->x.plan.place[id];
    return (span(&b->p->r.op[id - 1].shape, x->ld, x->dtype) + 63) & ~(size_t)63;
}

/* src: the output as it lies on the device, on the host. */
static kiln_status deliver(const binding *b, const kiln_bind *out, const char *src, error *e)
{
    const recording *r = &b->p->r;
    uint32_t id = output_id(r, out->name);
    const placement *x = &b->p->x.plan.place[id];
    const shape *s = &r->op[id - 1].shape;
    int64_t columns = s->rank ? s->dim[s->rank - 1] : 1, rows = columns ? shape_count(s) / columns : 0;
    size_t from = dtype_size(x->dtype), to = dtype_size(out->tensor.dtype);
    for (int64_t row = 0; row < rows; row++) {
        kiln_status status = dtype_convert((char *)out->tensor.data + (size_t)(row * columns) * to, out->tensor.dtype,
                                           src + (size_t)(row * x->ld) * from, x->dtype, (size_t)columns);
        if (status != KILN_OK)
            return error_set(e, status, "program '%s': output '%s' cannot be delivered as %s", r->name, out->name,
                             dtype_name(out->tensor.dtype));
    }
    return KILN_OK;
}

/* ---- on the host: op after op ---- */

static kiln_status run_ops(const binding *b, int (*cancelled)(void *), void *arg, error *e)
{
    for (uint32_t i = 0; i < b->p->r.n; i++) {
        if (!b->p->x.step[i].kernel) continue;
        if (b->keeps && b->p->x.plan.invariant[i]) {
            TRY(residency_after(b->p->x.pass, i, e)); /* its place in the order still counts */
            continue;
        }
        if (cancelled && cancelled(arg)) return error_set(e, KILN_CANCELLED, "cancelled");
        TRY(run_step(b, i, e));
    }
    return KILN_OK;
}

static kiln_status run_synchronous(binding *b, int (*cancelled)(void *), void *arg, error *e)
{
    TRY(stage_inputs(b));
    TRY(run_ops(b, cancelled, arg, e));
    for (size_t i = 0; i < b->n_out; i++)
        TRY(deliver(b, bind_at(b->out, i), address(b, output_id(&b->p->r, bind_at(b->out, i)->name)), e));
    return KILN_OK;
}

/* ---- on a device: everything is enqueued, then waited for ---- */

/* Page-locked memory for inputs, in the order of the workspace's io, and for outputs behind them. */
static kiln_status reserve_io(binding *b, error *e)
{
    runtime *rt = b->p->rt;
    size_t bytes = b->p->x.io_bytes + 64;
    for (size_t i = 0; i < b->n_out; i++)
        bytes += is_on_device(bind_at(b->out, i)) ? 0 : output_span(b, bind_at(b->out, i));
    if (rt->host_io_bytes >= bytes) return KILN_OK;
    if (rt->host_io) rt->device->table->host_release(rt->device, rt->host_io);
    rt->host_io = NULL, rt->host_io_bytes = 0;
    TRY(rt->device->table->host_alloc(rt->device, bytes, &rt->host_io, e));
    rt->host_io_bytes = bytes;
    return KILN_OK;
}

/* Inputs that come from the host, neighbours in one copy. */
static kiln_status copy_inputs(const binding *b, error *e)
{
    runtime *rt = b->p->rt;
    const executor *x = &b->p->x;
    size_t from = 0, to = 0; /* a copy that waits for its neighbour */
    for (size_t k = 0; k < x->n_io; k++) {
        const op *o = &b->p->r.op[x->io_order[k] - 1];
        size_t place = x->io[x->io_order[k]], end = k + 1 < x->n_io ? x->io[x->io_order[k + 1]] : x->io_bytes;
        if ((o->invariant && b->keeps) || is_on_device(bind_named(b->in, b->n_in, o->name))) continue;
        if (to > from && to != place) {
            TRY(rt->device->table->copy_in(rt->device, b->space.io + from, (char *)rt->host_io + from, to - from,
                                           b->space.stream, e));
            to = from;
        }
        if (to == from) from = place;
        to = end;
    }
    return to > from ? rt->device->table->copy_in(rt->device, b->space.io + from, (char *)rt->host_io + from, to - from,
                                                  b->space.stream, e)
                     : KILN_OK;
}

/* An output to where it was bound on the device, or to page-locked memory on the host. */
static kiln_status send_output(const binding *b, const kiln_bind *out, char *host, error *e)
{
    runtime *rt = b->p->rt;
    uint32_t id = output_id(&b->p->r, out->name);
    const placement *x = &b->p->x.plan.place[id];
    const shape *s = &b->p->r.op[id - 1].shape;
    int64_t columns = s->rank ? s->dim[s->rank - 1] : 1, rows = columns ? shape_count(s) / columns : 0;
    if (is_on_device(out))
        return rt->setting.backend->vector_ops->to_f32(out->tensor.data, address(b, id), x->dtype, rows, columns, x->ld,
                                                       b->space.stream, e);
    return rt->device->table->copy_out(rt->device, host, address(b, id), span(s, x->ld, x->dtype), b->space.stream, e);
}

static kiln_status enqueue(const binding *b, int (*cancelled)(void *), void *arg, error *e)
{
    runtime *rt = b->p->rt;
    char *host = rt->host_io;
    TRY(residency_restart(b->p->x.pass, e));
    TRY(copy_inputs(b, e));
    TRY(run_ops(b, cancelled, arg, e));
    host += b->p->x.io_bytes;
    for (size_t i = 0; i < b->n_out; i++) {
        TRY(send_output(b, bind_at(b->out, i), host, e));
        host += is_on_device(bind_at(b->out, i)) ? 0 : output_span(b, bind_at(b->out, i));
    }
    return KILN_OK;
}

static uint64_t device_address(const kiln_bind *b) { return is_on_device(b) ? (uint64_t)(uintptr_t)b->tensor.data : 0; }

/* A run that needs nothing but the streams is captured the second time it comes with the same pointers, and launched as
 * one graph from then on. A device that cannot, or a capture that fails, goes on op by op. */
static int can_capture(binding *b)
{
    runtime *rt = b->p->rt;
    captured_run *c = &b->p->captured;
    uint64_t pointers = (b->space.generation * 31 + (uint64_t)(uintptr_t)rt->host_io) * 31 + (uint64_t)b->keeps;
    for (size_t i = 0; i < b->n_out; i++)
        pointers =
            (pointers * 31 + output_id(&b->p->r, bind_at(b->out, i)->name)) * 31 + device_address(bind_at(b->out, i));
    for (size_t i = 0; i < b->n_in; i++) pointers = pointers * 31 + device_address(bind_at(b->in, i));
    for (uint32_t id = 1; id <= b->p->r.n; id++)
        if (b->state[id]) pointers = pointers * 31 + (uint64_t)(uintptr_t)b->state[id];
    if (!rt->device->table->capture_begin || rt->setting.no_graphs || rt->setting.trace || rt->setting.check_finite ||
        c->failed || b->p->x.waits || !b->space.steady)
        return 0;
    if (c->generation != pointers) {
        if (c->graph) rt->device->table->graph_free(rt->device, c->graph);
        *c = (captured_run){.generation = pointers};
    }
    return ++c->runs >= 2;
}

static kiln_status capture(const binding *b, error *e)
{
    runtime *rt = b->p->rt;
    captured_run *c = &b->p->captured;
    error why = {0};
    if (c->graph) return KILN_OK;
    TRY(rt->device->table->capture_begin(rt->device, b->space.stream, e));
    kiln_status status = enqueue(b, NULL, NULL, &why),
                ended = rt->device->table->capture_end(rt->device, b->space.stream, &c->graph, &why);
    if (status == KILN_OK && ended == KILN_OK) return KILN_OK;
    if (c->graph) rt->device->table->graph_free(rt->device, c->graph);
    c->graph = NULL;
    c->failed = 1;
    log_info("program '%s' is not captured as a graph (%s); its ops are enqueued one by one", b->p->r.name,
             why.message);
    return KILN_ERR_UNSUPPORTED;
}

/* In the last of its runs in a row: the next program's weights, while this one computes. */
static void prefetch_next(const binding *b, int (*cancelled)(void *), void *arg)
{
    runtime *rt = b->p->rt;
    double start = clock_seconds();
    residency_prefetched a = residency_prefetch_next(b->p->x.pass, cancelled, arg);
    char what[128], how[64], bytes[16];
    if (!a.name || !rt->setting.trace) return;
    snprintf(what, sizeof what, "prefetch '%s'", a.name);
    snprintf(how, sizeof how, "%zu weights, %s", a.weights, str_bytes(bytes, a.bytes));
    rt->setting.trace(rt->setting.trace_arg, &(op_trace){.program = b->p->r.name,
                                                         .scope = "",
                                                         .op = what,
                                                         .kernel = how,
                                                         .start = start,
                                                         .seconds = clock_seconds() - start});
}

static kiln_status run_asynchronous(binding *b, int (*cancelled)(void *), void *arg, error *e)
{
    runtime *rt = b->p->rt;
    TRY(reserve_io(b, e));
    TRY(stage_inputs(b));
    if (!b->space.checkpoints && can_capture(b) && capture(b, NULL) == KILN_OK) {
        if (cancelled && cancelled(arg)) return error_set(e, KILN_CANCELLED, "cancelled");
        TRY(rt->device->table->graph_launch(rt->device, b->p->captured.graph, b->space.stream, e));
    } else
        TRY(enqueue(b, cancelled, arg, e));
    prefetch_next(b, cancelled, arg);
    TRY(rt->device->table->sync(rt->device, b->space.stream, e));
    const char *host = (const char *)rt->host_io + b->p->x.io_bytes;
    for (size_t i = 0; i < b->n_out; i++) {
        if (is_on_device(bind_at(b->out, i))) continue;
        TRY(deliver(b, bind_at(b->out, i), host, e));
        host += output_span(b, bind_at(b->out, i));
    }
    return KILN_OK;
}

/* ---- a run ---- */

static void note_usage(runtime *rt, const executor *x)
{
    runtime_usage *u = &rt->usage;
    u->flops += x->plan.flops;
    u->runs++;
    if (x->plan.arena_bytes > u->arena_peak) u->arena_peak = x->plan.arena_bytes;
    if (x->scratch_bytes > u->scratch_peak) u->scratch_peak = x->scratch_bytes;
    if (x->weight_bytes > u->weight_bytes) u->weight_bytes = x->weight_bytes;
}

/* What this run will want, without running it. That the limit is too small is for whoever reads the estimate. */
static kiln_status estimate(kiln_program *p, error *e)
{
    assert(mutex_held(&p->rt->lock));
    runtime_estimate *all = &p->rt->estimate;
    residency_estimate own;
    error too_small = {0};
    TRY(residency_note_run(p->x.pass, e));
    residency_get_estimate(p->x.pass, &own, &too_small);
    if (own.least > all->least) {
        all->least = own.least;
        snprintf(all->least_name, sizeof all->least_name, "%s", p->r.name);
    }
    if (own.whole > all->whole) all->whole = own.whole;
    if (own.peak >= all->widest.peak) all->widest = own, all->widest_flops = p->x.plan.flops;
    all->streamed += own.streamed + (p->rt->estimated == p ? 0 : own.once);
    p->rt->estimated = p;
    return KILN_OK;
}

/* What packing took of the account goes back with the run that needed it. */
static void end_packing(runtime *rt)
{
    if (!rt->device->table->asynchronous) weight_buffer_free(&rt->buffer);
}

static kiln_status run_locked(binding *b, int (*cancelled)(void *), void *arg, error *e)
{
    assert(mutex_held(&b->p->rt->lock));
    runtime *rt = b->p->rt;
    executor *x = &b->p->x;
    TRY(check_binds(b, e));
    note_usage(rt, x);
    TRY(states_bind(b->states, &b->p->r, b->state, e));
    TRY(executor_demand(x, rt->residency, rt->pool, &rt->buffer, e));
    kiln_status status = residency_begin(x->pass, &b->space, e);
    if (status != KILN_OK) return end_packing(rt), status;
    b->keeps = x->plan.n_invariant && b->space.kept && invariant_same(b->p, b->in, b->n_in);
    if (b->keeps) {
        residency_skip(x->pass, x->plan.invariant);
        rt->usage.flops -= x->plan.invariant_flops;
    } else
        b->p->invariant.valid = 0;
    status = rt->device->table->asynchronous ? run_asynchronous(b, cancelled, arg, e)
                                             : run_synchronous(b, cancelled, arg, e);
    residency_end(x->pass, status != KILN_OK);
    end_packing(rt);
    if (status == KILN_OK && !b->keeps && x->plan.n_invariant) invariant_note(b->p, b->in, b->n_in);
    return status;
}

/* The binding with room for what is found by id; 0 without memory. */
static int binding_make(binding *b, kiln_program *p, const program_binds *binds)
{
    *b = (binding){.p = p,
                   .states = binds->states,
                   .in = binds->in,
                   .out = binds->out,
                   .n_in = binds->n_in,
                   .n_out = binds->n_out,
                   .input = mem_calloc(p->r.n + 1, sizeof *b->input),
                   .state = mem_calloc(p->r.n + 1, sizeof *b->state)};
    return b->input && b->state;
}

static void binding_free(binding *b)
{
    mem_free(b->input);
    mem_free(b->state);
}

static kiln_status estimate_locked(binding *b, error *e)
{
    kiln_program *p = b->p;
    runtime *rt = p->rt;
    b->estimate = 1;
    TRY(check_binds(b, e));
    note_usage(rt, &p->x);
    TRY(states_bind(b->states, &p->r, b->state, e));
    TRY(executor_demand(&p->x, rt->residency, rt->pool, &rt->buffer, e));
    return estimate(p, e);
}

kiln_status program_estimate_with(kiln_program *p, const program_binds *binds, error *e)
{
    binding b;
    if (!p->planned) return error_set(e, KILN_ERR_BUG, "program '%s' is run before it is planned", p->r.name);
    if (binds->states) TRY(states_place(binds->states, p->rt, e));
    int whole = binding_make(&b, p, binds);
    pthread_mutex_lock(&p->rt->lock);
    kiln_status status = whole ? estimate_locked(&b, e) : error_set(e, KILN_ERR_NOMEM, "out of memory");
    pthread_mutex_unlock(&p->rt->lock);
    binding_free(&b);
    return status;
}

int program_fits(kiln_program *p, error *e)
{
    runtime *rt = p->rt;
    if (!p->planned) return 1;
    pthread_mutex_lock(&rt->lock);
    kiln_status status = executor_demand(&p->x, rt->residency, rt->pool, &rt->buffer, e);
    int fits =
        status != KILN_OK || residency_fits(p->x.pass, states_wanted(&p->r)); /* a failure comes again when it runs */
    pthread_mutex_unlock(&rt->lock);
    return fits;
}

kiln_status program_run_with(kiln_program *p, const program_binds *binds, int (*cancelled)(void *arg), void *arg,
                             error *e)
{
    binding b;
    error first = {0};
    if (!p->planned) return error_set(e, KILN_ERR_BUG, "program '%s' is run before it is planned", p->r.name);
    if (binds->states) TRY(states_place(binds->states, p->rt, e));
    if (!binding_make(&b, p, binds)) return binding_free(&b), error_set(e, KILN_ERR_NOMEM, "out of memory");
    pthread_mutex_lock(&p->rt->lock);
    kiln_status status = run_locked(&b, cancelled, arg, &first);
    if (status == KILN_ERR_NOMEM &&
        residency_limited(p->rt->residency)) { /* what others used has been given back meanwhile: once more */
        first = (error){0};
        status = run_locked(&b, cancelled, arg, &first);
    }
    pthread_mutex_unlock(&p->rt->lock);
    binding_free(&b);
    return status == KILN_OK ? status : error_set(e, status, "%s", first.message);
}

kiln_status program_run(kiln_program *p, const kiln_bind *in, size_t n_in, const kiln_bind *out, size_t n_out,
                        int (*cancelled)(void *arg), void *arg, error *e)
{
    return program_run_with(p, &(program_binds){.in = in, .out = out, .n_in = n_in, .n_out = n_out}, cancelled, arg, e);
}

kiln_status program_estimate(kiln_program *p, const kiln_bind *in, size_t n_in, const kiln_bind *out, size_t n_out,
                             error *e)
{
    return program_estimate_with(p, &(program_binds){.in = in, .out = out, .n_in = n_in, .n_out = n_out}, e);
}
