/* executor.c - kernels and weights of a planned program; see executor.h. */
#include "backend/executor.h"

#include "base/log.h"
#include "base/memory_alloc.h"
#include "base/str.h"
#include "tensor/dtype.h"

#include <string.h>

/* ---- kernels ------------------------------------------------------------------------------------------------------- */

static operand_desc describe(const executor *x, uint32_t id)
{
    if (!id) return (operand_desc){0};
    const op *o = &x->r->op[id - 1];
    const placement *p = &x->plan.place[id];
    return (operand_desc){.dtype = p->dtype, .shape = o->shape, .ld = p->ld, .weight = p->kind == PLACE_WEIGHT};
}

static void describe_op(const executor *x, uint32_t i, op_desc *d)
{
    const op *o = &x->r->op[i];
    *d = (op_desc){.kind = o->kind, .attr = o->attr, .epilogue = o->epilogue, .n_in = o->n_in, .out = describe(x, i + 1),
                   .precision = x->r->precision};
    for (uint32_t k = 0; k < o->n_in; k++) d->in[k] = describe(x, o->in[k]);
}

/* A concatenation whose operands were all written where they stand has nothing left to do. */
static int already_there(const executor *x, uint32_t i)
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
    describe_op(x, i, &s->desc);
    kiln_status status = b->prepare(&s->desc, &s->kernel, &why);
    if (status == KILN_ERR_UNSUPPORTED && b != &backend_reference) {
        if (!(x->warned >> s->desc.kind & 1))
            log_warn("program '%s'%s%s: no %s kernel (%s); the plain one is used, which is slow", x->r->name, at_or_not(&x->r->op[i]), x->r->op[i].scope, b->name, why.message);
        x->warned |= 1u << s->desc.kind;
        why = (error){0};
        status = backend_reference.prepare(&s->desc, &s->kernel, &why);
    }
    if (status != KILN_OK) return error_set(e, status, "program '%s'%s%s: %s: %s", x->r->name, at_or_not(&x->r->op[i]), x->r->op[i].scope, op_name(s->desc.kind), why.message);
    if (s->kernel->scratch_bytes > x->scratch_bytes) x->scratch_bytes = s->kernel->scratch_bytes;
    for (uint32_t k = 0; k < s->desc.n_in; k++)
        if (s->desc.in[k].weight)
            x->weight_bytes += s->kernel->packed_bytes[k] ? s->kernel->packed_bytes[k]
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
        if (!x->plan.skip[i] && !already_there(x, i)) TRY(prepare(x, i, b, e));
    return KILN_OK;
}

void executor_free(executor *x)
{
    for (size_t i = 0; x->step && x->r && i < x->r->n; i++) {
        for (uint32_t k = 0; k < OP_MAX_IN; k++) resident_release(x->step[i].held[k]);
        if (x->step[i].kernel) x->step[i].kernel->free(x->step[i].kernel);
    }
    mem_free(x->step);
    plan_free(&x->plan);
    *x = (executor){0};
}

/* ---- weights ---------------------------------------------------------------------------------------------------------- */

typedef struct {
    const executor *x;
    const step *s;
    uint32_t operand;
    const op *leaf;
    pool *pool;
} packing;

static const op *part_of(const packing *p, uint32_t i) { return p->leaf->n_part ? &p->x->r->op[p->leaf->part[i] - 1] : p->leaf; }
static uint32_t n_parts(const packing *p) { return p->leaf->n_part ? p->leaf->n_part : 1; }

/* Parts of one type that lie in files as they are: one below the other. 0: they do not. */
static int stack_stored(const packing *p, char *to, uint32_t dtype)
{
    for (uint32_t i = 0; i < n_parts(p); i++) {
        kiln_weight_info info = {.size = sizeof info};
        const void *bytes = weights_bytes(part_of(p, i)->set, part_of(p, i)->name, &info);
        if (!bytes || info.dtype != dtype) return 0;
        memcpy(to, bytes, info.bytes);
        to += info.bytes;
    }
    return 1;
}

/* The leaf's elements as they are stored, or gathered, and turned into f32 when they do not lie in the file that way. */
static kiln_status leaf_source(const packing *p, const void **src, uint32_t *dtype, float **owned, error *e)
{
    const op *leaf = p->leaf;
    *owned = NULL;
    if (leaf->kind == OP_CONSTANT) {
        *src = leaf->constant;
        *dtype = KILN_F32;
        return KILN_OK;
    }
    kiln_weight_info info = {.size = sizeof info};
    const void *bytes = leaf->n_part ? NULL : weights_bytes(leaf->set, leaf->name, &info);
    if (bytes) {
        *src = bytes;
        *dtype = info.dtype;
        return KILN_OK;
    }
    float *all = mem_alloc((size_t)shape_count(&leaf->shape) * sizeof(float));
    if (!all) return error_set(e, KILN_ERR_NOMEM, "out of memory for the weight '%s'", leaf->name);
    *owned = all;
    *src = all;
    *dtype = KILN_F32;
    if (leaf->n_part && stack_stored(p, (char *)all, part_of(p, 0)->dtype)) {
        *dtype = part_of(p, 0)->dtype;
        return KILN_OK;
    }
    for (uint32_t i = 0; i < n_parts(p); i++) {
        TRY(weights_read_f32(part_of(p, i)->set, part_of(p, i)->name, all, e));
        all += shape_count(&part_of(p, i)->shape);
    }
    return KILN_OK;
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

static kiln_status pack_one(void *arg, void *dst, error *e)
{
    packing *p = arg;
    const kernel *k = p->s->kernel;
    const operand_desc *d = &p->s->desc.in[p->operand];
    const void *src = NULL;
    uint32_t dtype = 0;
    float *owned;
    kiln_status status = scan(p, e);
    if (status == KILN_OK) {
        status = leaf_source(p, &src, &dtype, &owned, e);
        if (status == KILN_OK)
            status = k->packed_bytes[p->operand] ? k->pack(k, p->operand, src, dtype, dst, p->pool, e)
                                                 : dtype_convert(dst, d->dtype, src, dtype, (size_t)shape_count(&d->shape));
        mem_free(owned);
    }
    release_pages(p);
    if (status != KILN_OK) error_prefix(e, "weight '%s'", p->leaf->name ? p->leaf->name : "constant");
    return status;
}

/* What identifies a leaf: set and name, the parts' names, or the constant's content. */
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
        const char *identity = weights_identity(part->set, e);
        if (!identity) return e->status != KILN_OK ? e->status : KILN_ERR_IO;
        str_printf(set, "%s,", identity);
        str_printf(name, "%s,", part->name);
    }
    return set->failed || name->failed ? error_set(e, KILN_ERR_NOMEM, "out of memory") : KILN_OK;
}

static kiln_status pack_operand(executor *x, step *s, uint32_t i, uint32_t k, residency *res, pool *threads, error *e)
{
    const op *leaf = &x->r->op[x->r->op[i].in[k] - 1];
    packing p = {.x = x, .s = s, .operand = k, .leaf = leaf, .pool = threads};
    size_t bytes = s->kernel->packed_bytes[k] ? s->kernel->packed_bytes[k] : (size_t)shape_count(&leaf->shape) * dtype_size(s->desc.in[k].dtype);
    const char *form = s->kernel->packed_bytes[k] ? s->kernel->pack_form[k] : dtype_name(s->desc.in[k].dtype);
    str set = {0}, name = {0};
    kiln_status status = leaf_identity(x, leaf, &set, &name, e);
    if (status == KILN_OK) status = residency_get(res, str_text(&set), str_text(&name), form, bytes, pack_one, &p, &s->held[k], e);
    str_free(&set);
    str_free(&name);
    return status;
}

/* Has the system read the weights of the op after op i while those of op i are packed. */
static void read_ahead(const executor *x, uint32_t i)
{
    for (i++; i < x->r->n && !x->step[i].kernel; i++) {}
    for (uint32_t k = 0; i < x->r->n && k < x->step[i].desc.n_in; k++) {
        uint32_t id = x->r->op[i].in[k];
        packing p = {.x = x, .leaf = id ? &x->r->op[id - 1] : NULL};
        for (uint32_t n = 0; id && p.leaf->kind == OP_WEIGHT && n < n_parts(&p); n++) weights_will_need(part_of(&p, n)->set, part_of(&p, n)->name);
    }
}

kiln_status executor_pack(executor *x, residency *res, pool *p, error *e)
{
    if (x->packed) return KILN_OK;
    error local = {0};
    for (uint32_t i = 0; i < x->r->n; i++) {
        step *s = &x->step[i];
        if (s->kernel) read_ahead(x, i);
        for (uint32_t k = 0; s->kernel && k < s->desc.n_in; k++) {
            if (!s->desc.in[k].dtype || !s->desc.in[k].weight || s->held[k]) continue;
            kiln_status status = pack_operand(x, s, i, k, res, p, &local);
            if (status != KILN_OK) return error_set(e, status, "program '%s'%s%s: %s", x->r->name, at_or_not(&x->r->op[i]), x->r->op[i].scope, local.message);
        }
    }
    x->packed = 1;
    return KILN_OK;
}
