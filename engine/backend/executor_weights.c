/* executor_weights.c - what a program wants of the device's memory, and how its weights are packed; see executor.h. */
#include "backend/executor.h"

#include "base/hash.h"
#include "base/memory_alloc.h"
#include "base/str.h"
#include "tensor/dtype.h"

#include <string.h>

/* ---- packing -------------------------------------------------------------------------------------------------------- */

typedef struct {
    const executor *x;
    const step *s;
    uint32_t operand;
    const op *leaf;
    pool *pool;
} packing;

static const op *part_of(const packing *p, uint32_t i) { return p->leaf->n_part ? &p->x->r->op[p->leaf->part[i] - 1] : p->leaf; }
static uint32_t n_parts(const packing *p) { return p->leaf->n_part ? p->leaf->n_part : 1; }

/* The type in which all parts lie in files as they are, or 0: they do not. */
static uint32_t stored_type(const packing *p)
{
    uint32_t dtype = 0;
    for (uint32_t i = 0; i < n_parts(p); i++) {
        kiln_weight_info info = {.size = sizeof info};
        if (!weights_bytes(part_of(p, i)->set, part_of(p, i)->name, &info) || (dtype && info.dtype != dtype)) return 0;
        dtype = info.dtype;
    }
    return dtype;
}

/* Host bytes of the copy that packing this leaf makes of its source; 0: it needs none. */
static size_t copy_bytes(const packing *p)
{
    if (p->leaf->kind == OP_CONSTANT) return 0;
    uint32_t dtype = stored_type(p);
    if (dtype && n_parts(p) == 1) return 0;
    return (size_t)shape_count(&p->leaf->shape) * dtype_size(dtype ? dtype : KILN_F32);
}

/* All the host bytes that packing it takes beside its source and its result: the copy, and a patch's factors as f32. */
static size_t temporary_bytes(const packing *p)
{
    size_t copy = copy_bytes(p), most = 0;
    for (uint32_t i = 0; copy && !stored_type(p) && i < n_parts(p); i++) {
        size_t bytes = weights_scratch_bytes(part_of(p, i)->set, part_of(p, i)->name);
        if (bytes > most) most = bytes;
    }
    return copy + most;
}

/* One part below the other, as they are stored or as f32. */
static kiln_status gather(const packing *p, char *to, uint32_t dtype, error *e)
{
    for (uint32_t i = 0; i < n_parts(p); i++) {
        kiln_weight_info info = {.size = sizeof info};
        const void *bytes = dtype ? weights_bytes(part_of(p, i)->set, part_of(p, i)->name, &info) : NULL;
        size_t n = (size_t)shape_count(&part_of(p, i)->shape) * dtype_size(dtype ? dtype : KILN_F32);
        if (bytes) memcpy(to, bytes, n);
        else TRY(weights_read_f32(part_of(p, i)->set, part_of(p, i)->name, (float *)(void *)to, e));
        to += n;
    }
    return KILN_OK;
}

typedef struct {
    const void *data;
    uint32_t dtype;
    void *owned;
    size_t owned_bytes;
} source;

static void source_free(const packing *p, source *s)
{
    if (s->owned_bytes) budget_give(residency_budget(p->x->residency), MEMORY_STAGING, s->owned_bytes);
    mem_free(s->owned);
}

/* The leaf's elements as they are stored; gathered, and turned into f32, when they do not lie in the file that way. */
static kiln_status leaf_source(const packing *p, source *s, error *e)
{
    const op *leaf = p->leaf;
    size_t copy = copy_bytes(p), bytes = temporary_bytes(p);
    kiln_weight_info info = {.size = sizeof info};
    *s = (source){.data = leaf->constant, .dtype = KILN_F32};
    if (leaf->kind == OP_CONSTANT) return KILN_OK;
    if (!bytes) {
        const op *part = part_of(p, 0);
        s->data = weights_bytes(part->set, part->name, &info);
        s->dtype = info.dtype;
        return KILN_OK;
    }
    memory_device *device = residency_device(p->x->residency);
    if (!device->table->asynchronous) {
        TRY(budget_take(residency_budget(p->x->residency), MEMORY_STAGING, bytes, leaf->name ? leaf->name : "stacked weights", e));
        s->owned_bytes = bytes;
    }
    if (!(s->owned = mem_alloc(copy))) return error_set(e, KILN_ERR_NOMEM, "out of memory for packing (%zu bytes)", copy);
    s->data = s->owned;
    uint32_t dtype = stored_type(p);
    s->dtype = dtype ? dtype : KILN_F32;
    return gather(p, s->owned, dtype, e);
}

static kiln_status scan(const packing *p, error *e)
{
    for (uint32_t i = 0; p->leaf->kind == OP_WEIGHT && i < n_parts(p); i++) TRY(weights_scan_finite(part_of(p, i)->set, part_of(p, i)->name, e));
    return KILN_OK;
}

static void release_pages(const packing *p)
{
    for (uint32_t i = 0; p->leaf->kind == OP_WEIGHT && i < n_parts(p); i++) weights_release_pages(part_of(p, i)->set, part_of(p, i)->name);
}

static packing packing_of(const executor *x, uint32_t op_index, uint32_t operand)
{
    return (packing){.x = x, .s = &x->step[op_index], .operand = operand, .leaf = &x->r->op[x->r->op[op_index].in[operand] - 1], .pool = x->pool};
}

static kiln_status fill(const packing *p, void *dst, error *e)
{
    const kernel *k = p->s->kernel;
    const operand_desc *d = &p->s->desc.in[p->operand];
    source s;
    kiln_status status = leaf_source(p, &s, e);
    if (status == KILN_OK)
        status = k->packed_bytes[p->operand] ? k->pack(k, p->operand, s.data, s.dtype, dst, p->pool, e)
                                             : dtype_convert(dst, d->dtype, s.data, s.dtype, (size_t)shape_count(&d->shape));
    source_free(p, &s);
    return status;
}

/* residency_demand's pack: numbers are looked at the first time only. */
static kiln_status pack_use(void *arg, size_t use, void *dst, error *e)
{
    executor *x = arg;
    packed_weight *w = &x->packed[x->use[use].weight];
    packing p = packing_of(x, w->op, w->operand);
    kiln_status status = w->scanned ? KILN_OK : scan(&p, e);
    w->scanned = status == KILN_OK;
    if (status == KILN_OK) status = fill(&p, dst, e);
    release_pages(&p);
    if (status == KILN_OK) return KILN_OK;
    const op *o = &x->r->op[w->op];
    error_prefix(e, "program '%s'%s%s: weight '%s'", x->r->name, at_or_not(o), o->scope, p.leaf->name ? p.leaf->name : "constant");
    return status;
}

/* What identifies a leaf: its parts' tensors, wherever they are seen, so that sets which share a tensor share its packed
 * form; their names; or the constant's content. */
static kiln_status leaf_identity(const executor *x, const op *leaf, str *set, str *name, error *e)
{
    char hex[33];
    if (leaf->kind == OP_CONSTANT) {
        str_append(set, "constant");
        str_append(name, digest_hex(digest_of(leaf->constant, (size_t)shape_count(&leaf->shape) * sizeof(float)), hex));
        return KILN_OK;
    }
    for (uint32_t i = 0; i < (leaf->n_part ? leaf->n_part : 1); i++) {
        const op *part = leaf->n_part ? &x->r->op[leaf->part[i] - 1] : leaf;
        TRY(weights_tensor_identity(part->set, part->name, hex, e));
        str_printf(set, "%s,", hex);
        str_printf(name, "%s,", part->name);
    }
    return set->failed || name->failed ? error_set(e, KILN_ERR_NOMEM, "out of memory") : KILN_OK;
}

/* ---- the demand -------------------------------------------------------------------------------------------------------- */

static size_t operand_bytes(const step *s, uint32_t k)
{
    return s->kernel->packed_bytes[k] ? s->kernel->packed_bytes[k] : (size_t)shape_count(&s->desc.in[k].shape) * dtype_size(s->desc.in[k].dtype);
}

static kiln_status know_operand(executor *x, uint32_t i, uint32_t k, resident **out, error *e)
{
    const step *s = &x->step[i];
    const op *leaf = &x->r->op[x->r->op[i].in[k] - 1];
    const char *form = s->kernel->packed_bytes[k] ? s->kernel->pack_form[k] : dtype_name(s->desc.in[k].dtype);
    str set = {0}, name = {0};
    kiln_status status = leaf_identity(x, leaf, &set, &name, e);
    if (status == KILN_OK) status = residency_know(x->residency, str_text(&set), str_text(&name), form, operand_bytes(s, k), out, e);
    str_free(&set);
    str_free(&name);
    return status;
}

/* Its number among the program's weights; one that is new is added. */
static uint32_t number_of(executor *x, resident *w, uint32_t i, uint32_t k)
{
    for (size_t n = 0; n < x->n_weight; n++)
        if (x->weight[n] == w) {
            resident_release(w);
            return (uint32_t)n;
        }
    x->weight[x->n_weight] = w;
    x->bytes[x->n_weight] = operand_bytes(&x->step[i], k);
    x->maker[x->n_weight] = x->n_use;
    x->packed[x->n_weight] = (packed_weight){.op = i, .operand = k, .bytes = operand_bytes(&x->step[i], k)};
    return (uint32_t)x->n_weight++;
}

static int is_weight(const step *s, uint32_t k) { return s->kernel && k < s->desc.n_in && s->desc.in[k].dtype && s->desc.in[k].weight; }

static kiln_status add_uses(executor *x, uint32_t i, error *e)
{
    step *s = &x->step[i];
    for (uint32_t k = 0; s->kernel && k < s->desc.n_in; k++) {
        if (!is_weight(s, k)) continue;
        resident *w = NULL;
        kiln_status status = know_operand(x, i, k, &w, e);
        if (status != KILN_OK) {
            error_prefix(e, "program '%s'%s%s", x->r->name, at_or_not(&x->r->op[i]), x->r->op[i].scope);
            return status;
        }
        x->use[x->n_use] = (weight_use){.op = i, .weight = number_of(x, w, i, k)};
        s->use[k] = ++x->n_use;
    }
    return KILN_OK;
}

/* Time an op takes, as far as that can be known: its FLOPs, and the bytes it moves at 50 FLOPs each (a processor of
 * 400 GFLOP/s with 10 GB/s, or a GPU of 200 TFLOP/s with 4 TB/s). Only proportions matter. */
static double work_of(const step *s)
{
    double bytes = s->kernel ? (double)shape_count(&s->desc.out.shape) * (double)dtype_size(s->desc.out.dtype) : 0;
    for (uint32_t k = 0; s->kernel && k < s->desc.n_in; k++)
        if (s->desc.in[k].dtype) bytes += (double)shape_count(&s->desc.in[k].shape) * (double)dtype_size(s->desc.in[k].dtype);
    return s->kernel ? (double)s->kernel->flops + 50 * bytes : 0;
}

static kiln_status make_tables(executor *x, error *e)
{
    size_t n = 1;
    for (uint32_t i = 0; i < x->r->n; i++)
        for (uint32_t k = 0; k < OP_MAX_IN; k++) n += is_weight(&x->step[i], k);
    x->work = mem_calloc(x->r->n + 1, sizeof *x->work);
    x->use = mem_calloc(n, sizeof *x->use);
    x->weight = mem_calloc(n, sizeof *x->weight);
    x->bytes = mem_calloc(n, sizeof *x->bytes);
    x->maker = mem_calloc(n, sizeof *x->maker);
    x->packed = mem_calloc(n, sizeof *x->packed);
    x->io = mem_calloc(x->r->n + 1, sizeof *x->io);
    x->io_order = mem_calloc(x->r->n + 1, sizeof *x->io_order);
    if (x->io_order && x->work && x->use && x->weight && x->bytes && x->maker && x->packed && x->io) return KILN_OK;
    return error_set(e, KILN_ERR_NOMEM, "out of memory for a program");
}

static void place_inputs_that(executor *x, int held)
{
    size_t alignment = residency_device(x->residency)->table->alignment;
    for (uint32_t i = 0; i < x->r->n; i++) {
        if (x->r->op[i].kind != OP_INPUT || !x->r->op[i].held != !held) continue;
        x->io_order[x->n_io++] = i + 1;
        x->io[i + 1] = x->io_bytes;
        x->io_bytes += ((size_t)shape_count(&x->r->op[i].shape) * dtype_size(x->r->op[i].dtype) + alignment - 1) & ~(alignment - 1);
    }
}

static void place_inputs(executor *x)
{
    place_inputs_that(x, 0);
    place_inputs_that(x, 1);
}

static size_t largest_temporary(const executor *x)
{
    size_t most = 0;
    for (size_t n = 0; n < x->n_weight; n++) {
        packing p = packing_of(x, x->packed[n].op, x->packed[n].operand);
        size_t bytes = temporary_bytes(&p);
        if (bytes > most) most = bytes;
    }
    return most;
}

static kiln_status make_demand(executor *x, error *e)
{
    TRY(make_tables(x, e));
    for (uint32_t i = 0; i < x->r->n; i++) {
        x->work[i] = work_of(&x->step[i]);
        TRY(add_uses(x, i, e));
    }
    place_inputs(x);
    residency_demand d = {.name = x->r->name, .arena = x->plan.arena_bytes, .scratch = x->scratch_bytes, .io = x->io_bytes, .temporary = largest_temporary(x),
                          .n_op = x->r->n, .n_use = x->n_use, .n_weight = x->n_weight, .work = x->work, .use = x->use, .weight = x->weight,
                          .bytes = x->bytes, .maker = x->maker, .pack = pack_use, .arg = x};
    return residency_pass_new(x->residency, &d, &x->pass, e);
}

void executor_forget_demand(executor *x)
{
    residency_pass_free(x->pass);
    for (size_t i = 0; i < x->n_weight; i++) resident_release(x->weight[i]);
    mem_free(x->work), mem_free(x->use), mem_free(x->weight), mem_free(x->bytes);
    mem_free(x->maker), mem_free(x->packed), mem_free(x->io), mem_free(x->io_order);
    x->pass = NULL;
    x->work = NULL, x->use = NULL, x->weight = NULL, x->bytes = NULL;
    x->maker = NULL, x->packed = NULL, x->io = NULL, x->io_order = NULL;
    x->n_use = x->n_weight = x->io_bytes = x->n_io = 0;
}

kiln_status executor_demand(executor *x, residency *res, pool *p, error *e)
{
    if (x->pass) return KILN_OK;
    x->residency = res;
    x->pool = p;
    kiln_status status = make_demand(x, e);
    if (status != KILN_OK) executor_forget_demand(x);
    return status;
}
