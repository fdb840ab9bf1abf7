/* executor_log.c - a planned program as a table for people: what runs, where its result is, by which kernel. */
#include "backend/executor.h"

#include "base/log.h"
#include "base/str.h"
#include "tensor/dtype.h"

#include <stdio.h>

static const char *const acts[] = {"", "+silu", "+gelu", "+gelu_tanh", "+quick_gelu", "+relu", "+sigmoid", "+tanh"};

static void log_op(const executor *x, uint32_t i)
{
    str out = {0};
    const op *o = &x->r->op[i];
    const placement *p = &x->plan.place[i + 1], *base = &x->plan.place[p->base];
    const kernel *k = x->step[i].kernel;
    char text[80], place[64] = "an input's";
    if (base->kind == PLACE_ARENA)
        snprintf(place, sizeof place, "%zu", base->offset + (size_t)p->shift * dtype_size(p->dtype));
    int upsampled = o->kind == OP_CONV2D && o->attr.conv2d.upsampled.rows,
        taken = o->kind == OP_GROUPED_LINEAR && o->n_in > 4;
    str_printf(&out, "%5u  %-40s %s%s%s%s%s -> %s %s at %s", i, o->scope, op_name(o->kind),
               upsampled ? "+upsampled"
               : taken   ? "+take"
                         : "",
               acts[o->epilogue.act], o->epilogue.geglu ? "+geglu" : "", o->epilogue.residual ? "+residual" : "",
               dtype_name(p->dtype), shape_text(&o->shape, text), place);
    if (p->ld != (o->shape.rank ? o->shape.dim[o->shape.rank - 1] : 1))
        str_printf(&out, " rows %lld", (long long)p->ld);
    if (k)
        str_printf(&out, ", %s, %.3f GFLOP", k->name, (double)k->flops * 1e-9);
    else
        str_append(&out, ", nothing to do");
    log_info("%s", str_text(&out));
    str_free(&out);
}

void executor_log(const executor *x)
{
    char activations[16], working[16], packed[16];
    log_info("program '%s', %s: %u ops to run, %.3f GFLOP; activations %s, working memory %s, weights %s", x->r->name,
             dtype_name(x->r->precision), x->plan.n_run, (double)x->plan.flops * 1e-9,
             str_bytes(activations, x->plan.arena_bytes), str_bytes(working, x->scratch_bytes),
             str_bytes(packed, x->weight_bytes));
    for (uint32_t i = 0; i < x->r->n; i++) {
        op_kind kind = x->r->op[i].kind;
        if (kind != OP_WEIGHT && kind != OP_CONSTANT && kind != OP_INPUT) log_op(x, i);
    }
}
