/* ops_states.c - see ops_states.h. */
#include "plugin/ops_states.h"

#include "backend/states.h"
#include "plugin/ctx.h"
#include "tensor/dtype.h"
#include "tensor/value.h"

#include <string.h>

kiln_states *ops_states_new(kiln_ctx *c, const char *label)
{
    return states_new(ctx_runtime(c), label, ctx_estimating(c), ctx_error(c));
}

/* Where the call computes. */
static kiln_status place(kiln_ctx *c, kiln_states *s)
{
    runtime *rt = ctx_runtime(c);
    return rt ? states_place(s, rt, ctx_error(c)) : KILN_OK;
}

kiln_states *ops_states_fork(kiln_ctx *c, kiln_states *s)
{
    if (s) return place(c, s) == KILN_OK ? states_fork(s, ctx_error(c)) : NULL;
    return error_set(ctx_error(c), KILN_ERR_BUG, "the fork of no states"), NULL;
}

/* A tensor with the buffer's bytes; in an estimate its shape. */
static kiln_value *tensor_of(kiln_ctx *c, kiln_states *s, const state_info *info, error *e)
{
    kiln_value *v = ctx_estimating(c) ? value_shape_new(info->dtype, info->shape.rank, info->shape.dim, e)
                                      : value_tensor_new(info->dtype, KILN_CPU, info->shape.rank, info->shape.dim, e);
    kiln_tensor t = {.size = sizeof t};
    if (!v || ctx_estimating(c)) return v;
    if (value_view(v, &t, e) == KILN_OK && states_read(s, info->name, t.data, e) == KILN_OK) return v;
    value_unref(v);
    return NULL;
}

kiln_value *ops_states_save(kiln_ctx *c, kiln_states *s)
{
    error *e = ctx_error(c);
    kiln_value *map = s ? value_map() : NULL;
    if (!s) return error_set(e, KILN_ERR_BUG, "no states to save"), NULL;
    if (!map) return error_set(e, KILN_ERR_NOMEM, "out of memory"), NULL;
    for (size_t i = 0; i < states_count(s); i++) {
        state_info info = states_at(s, i);
        kiln_value *v = tensor_of(c, s, &info, e);
        kiln_status status = v ? value_api.map_set(map, info.name, v) : KILN_ERR_NOMEM;
        value_unref(v);
        if (status == KILN_OK) continue;
        value_unref(map);
        return NULL;
    }
    return map;
}

kiln_status ops_states_load(kiln_ctx *c, kiln_states *s, const kiln_value *v)
{
    error *e = ctx_error(c);
    size_t n = value_kind(v) == KILN_V_MAP ? value_api.count(v) : 0;
    if (!s) return error_set(e, KILN_ERR_BUG, "no states to load into");
    if (value_kind(v) != KILN_V_MAP) return error_set(e, KILN_ERR_INVALID, "saved states are a map of tensors");
    for (size_t i = 0; i < n; i++) {
        const char *name = "";
        const kiln_value *item = value_api.map_at(v, i, &name);
        kiln_tensor t = {.size = sizeof t};
        state_info info = {.name = name};
        TRY(value_view(item, &t, e));
        info.dtype = t.dtype;
        if (!shape_make(&info.shape, t.rank, t.dim) || !dtype_size(t.dtype) || (!t.data && !ctx_estimating(c)))
            return error_set(e, KILN_ERR_INVALID, "saved state '%s' is no tensor that a state can be", name);
        states_clear(s, name);
        TRY(states_write(s, &info, t.data, e));
    }
    return KILN_OK;
}
