/* ops_near.c - see ops_near.h. */
#include "ops_near.h"

#include "tensor/dtype.h"

#include <stddef.h>

enum { NEAR_BYTES = 96 << 10, SIDES = 32 };

static double elements(const op_case *c, uint32_t i) { return (double)shape_count(&c->op.in[i].shape); }

/* Every operand and result that has `from` of dimension d gets `to`. */
static void replace(op_case *c, uint32_t d, int64_t from, int64_t to)
{
    operand_desc *out = &c->op.out;
    for (uint32_t i = 0; i < c->op.n_in; i++) {
        shape *s = &c->op.in[i].shape;
        if (c->op.in[i].dtype && !c->op.in[i].weight && s->rank > d && s->dim[d] == from) s->dim[d] = to;
    }
    if (out->shape.rank > d && out->shape.dim[d] == from) out->shape.dim[d] = to;
    for (uint32_t i = 0; i < c->op.n_more; i++)
        if (c->op.more[i].shape.rank > d && c->op.more[i].shape.dim[d] == from) c->op.more[i].shape.dim[d] = to;
}

static int64_t fitting(int64_t all, double bytes)
{
    int64_t n = (int64_t)((double)all * NEAR_BYTES / bytes);
    return n < 1 ? 1 : n > all ? all : n;
}

static int by_rows(op_case *c, size_t size)
{
    const shape *s = &c->op.in[0].shape;
    uint32_t d = s->rank > 2 && s->dim[0] == 1;
    replace(c, d, s->dim[d], fitting(s->dim[d], elements(c, 0) * (double)size));
    return 1;
}

static int by_keys(op_case *c, size_t size)
{
    int64_t keys = c->op.in[1].shape.dim[1];
    replace(c, 1, keys, fitting(keys, 2 * elements(c, 1) * (double)size) / 64 * 64);
    return 1;
}

static int by_sides(op_case *c)
{
    shape *all[] = {&c->op.in[0].shape, &c->op.in[1].shape, &c->op.out.shape};
    int grid = c->op.kind == OP_GRID_SAMPLE;
    if (c->op.in[0].shape.rank != 4) return 0;
    for (int i = 0; i < 3; i++)
        for (int d = 1; d < 3 && (i != 1 || grid); d++) all[i]->dim[d] /= SIDES;
    if (c->op.kind == OP_INTERPOLATE)
        c->op.attr.interpolate.h = c->op.out.shape.dim[1], c->op.attr.interpolate.w = c->op.out.shape.dim[2];
    return 1;
}

double op_near(const op_case *c, uint32_t type, op_case *out)
{
    size_t size = dtype_size(type);
    uint32_t counted = c->op.kind == OP_ATTENTION;
    int made = 0;
    *out = *c;
    switch (c->op.kind) {
    case OP_ACT:
    case OP_ADD:
    case OP_MUL:
    case OP_AFFINE:
    case OP_GEGLU:
    case OP_MAP:
    case OP_LAYER_NORM:
    case OP_NORM:
    case OP_ROPE:
    case OP_SOFTMAX:
    case OP_REDUCE:
    case OP_SORT:
    case OP_CUMSUM: made = by_rows(out, size); break;
    case OP_GRID_SAMPLE:
    case OP_INTERPOLATE:
    case OP_POOL:
    case OP_CONV: made = by_sides(out); break;
    case OP_ATTENTION: made = by_keys(out, size); break;
    default: break;
    }
    return made && elements(out, counted) > 0 ? elements(c, counted) / elements(out, counted) : 0;
}
