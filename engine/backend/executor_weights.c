/* executor_weights.c - a program's demand: its weights with their uses, and the memory it runs in; see executor.h. */
#include "backend/executor_packing.h"

#include "base/hash.h"
#include "base/memory_alloc.h"
#include "base/str.h"
#include "tensor/dtype.h"

#include <string.h>

/* What identifies a leaf: its parts' tensors, wherever they are seen, so that sets which share a tensor share its
 * packed form; their names; or the constant's content and shape: the same numbers may be rows of another length. */
static kiln_status leaf_identity(const executor *x, const op *leaf, str *set, str *name, error *e)
{
    char hex[33];
    if (leaf->kind == OP_CONSTANT) {
        str_append(set, "constant");
        str_append(name, digest_hex(digest_of(leaf->constant, (size_t)shape_count(&leaf->shape) * sizeof(float)), hex));
        for (uint32_t i = 0; i < leaf->shape.rank; i++) str_printf(name, ",%lld", (long long)leaf->shape.dim[i]);
        return set->failed || name->failed ? error_set(e, KILN_ERR_NOMEM, "out of memory") : KILN_OK;
    }
    for (uint32_t i = 0; i < (leaf->n_part ? leaf->n_part : 1); i++) {
        const op *part = leaf->n_part ? &x->r->op[leaf->part[i] - 1] : leaf;
        TRY(weights_tensor_identity(part->set, part->name, hex, e));
        str_printf(set, "%s,", hex);
        str_printf(name, "%s,", part->name);
    }
    return set->failed || name->failed ? error_set(e, KILN_ERR_NOMEM, "out of memory") : KILN_OK;
}

/* ---- the demand ---- */

static kiln_status intern_operand(executor *x, uint32_t i, uint32_t k, packed_weight **out, error *e)
{
    const step *s = &x->step[i];
    const op *leaf = &x->r->op[x->r->op[i].in[k] - 1];
    const char *form = s->kernel->packed_bytes[k] ? s->kernel->pack_form[k] : dtype_name(s->desc.in[k].dtype);
    str set = {0}, name = {0};
    kiln_status status = leaf_identity(x, leaf, &set, &name, e);
    if (status == KILN_OK)
        status =
            residency_intern(x->residency, str_text(&set), str_text(&name), form, packed_operand_bytes(s, k), out, e);
    str_free(&set);
    str_free(&name);
    return status;
}

/* Its index among the program's weights; a new one is added. */
static uint32_t index_of(executor *x, packed_weight *w, uint32_t i, uint32_t k)
{
    for (size_t n = 0; n < x->n_weight; n++)
        if (x->weight[n] == w) {
            packed_weight_release(w);
            return (uint32_t)n;
        }
    x->weight[x->n_weight] = w;
    x->bytes[x->n_weight] = packed_operand_bytes(&x->step[i], k);
    x->maker[x->n_weight] = x->n_use;
    x->packed[x->n_weight] = (program_weight){.op = i, .operand = k, .bytes = packed_operand_bytes(&x->step[i], k)};
    return (uint32_t)x->n_weight++;
}

static int is_weight(const step *s, uint32_t k)
{
    return s->kernel && k < s->desc.n_in && s->desc.in[k].dtype && s->desc.in[k].weight;
}

static kiln_status add_uses(executor *x, uint32_t i, error *e)
{
    step *s = &x->step[i];
    for (uint32_t k = 0; s->kernel && k < s->desc.n_in; k++) {
        if (!is_weight(s, k)) continue;
        packed_weight *w = NULL;
        kiln_status status = intern_operand(x, i, k, &w, e);
        if (status != KILN_OK) {
            error_prefix(e, "program '%s'%s%s", x->r->name, at_or_not(&x->r->op[i]), x->r->op[i].scope);
            return status;
        }
        x->use[x->n_use] = (weight_use){.op = i, .weight = index_of(x, w, i, k)};
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
        if (s->desc.in[k].dtype)
            bytes += (double)shape_count(&s->desc.in[k].shape) * (double)dtype_size(s->desc.in[k].dtype);
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

static void place_inputs_where(executor *x, int invariant)
{
    size_t alignment = residency_device(x->residency)->table->alignment;
    for (uint32_t i = 0; i < x->r->n; i++) {
        if (x->r->op[i].kind != OP_INPUT || !x->r->op[i].invariant != !invariant) continue;
        x->io_order[x->n_io++] = i + 1;
        x->io[i + 1] = x->io_bytes;
        x->io_bytes += ((size_t)shape_count(&x->r->op[i].shape) * dtype_size(x->r->op[i].dtype) + alignment - 1) &
                       ~(alignment - 1);
    }
}

static void place_inputs(executor *x)
{
    place_inputs_where(x, 0);
    place_inputs_where(x, 1);
}

static size_t largest_temporary(const executor *x)
{
    size_t most = 0;
    for (size_t n = 0; n < x->n_weight; n++) {
        size_t bytes = packing_temporary(x, x->packed[n].op, x->packed[n].operand);
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
    residency_demand d = {.name = x->r->name,
                          .arena = x->plan.arena_bytes,
                          .scratch = x->scratch_bytes,
                          .io = x->io_bytes,
                          .temporary = largest_temporary(x),
                          .n_op = x->r->n,
                          .n_use = x->n_use,
                          .n_weight = x->n_weight,
                          .work = x->work,
                          .seldom = x->plan.invariant,
                          .use = x->use,
                          .weight = x->weight,
                          .bytes = x->bytes,
                          .maker = x->maker,
                          .pack = packing_fill_use,
                          .will_need = packing_will_need,
                          .arg = x};
    return residency_pass_new(x->residency, &d, &x->pass, e);
}

void executor_forget_demand(executor *x)
{
    residency_pass_free(x->pass);
    for (size_t i = 0; i < x->n_weight; i++) packed_weight_release(x->weight[i]);
    mem_free(x->work), mem_free(x->use), mem_free(x->weight), mem_free(x->bytes);
    mem_free(x->maker), mem_free(x->packed), mem_free(x->io), mem_free(x->io_order);
    x->pass = NULL;
    x->work = NULL, x->use = NULL, x->weight = NULL, x->bytes = NULL;
    x->maker = NULL, x->packed = NULL, x->io = NULL, x->io_order = NULL;
    x->n_use = x->n_weight = x->io_bytes = x->n_io = 0;
}

kiln_status executor_demand(executor *x, residency *res, pool *p, weight_buffer *buffer, error *e)
{
    if (x->pass) return KILN_OK;
    x->residency = res;
    x->pool = p;
    x->buffer = buffer;
    kiln_status status = make_demand(x, e);
    if (status != KILN_OK) executor_forget_demand(x);
    return status;
}
