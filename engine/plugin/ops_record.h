/* ops_record.h - the recorders of kiln.ops/1 that ops_record.c has, for the table in ability_ops.c. Each reads its
 * options by their size and appends an op; see include/kiln/ops.h.
 */
#ifndef KILN_PLUGIN_OPS_RECORD_H
#define KILN_PLUGIN_OPS_RECORD_H

#include "kiln/ops.h"

kiln_t ops_record_attention(kiln_program *p, kiln_t q, kiln_t k, kiln_t v, const kiln_attention *o);
kiln_t ops_record_map(kiln_program *p, const char *expression, const kiln_t *x, uint32_t n, const kiln_map *o);
kiln_t ops_record_cast(kiln_program *p, kiln_t x, uint32_t dtype);
kiln_t ops_record_expand(kiln_program *p, kiln_t x, uint32_t rank, const int64_t *dim);
kiln_t ops_record_constant_i32(kiln_program *p, const int32_t *data, uint32_t rank, const int64_t *dim);
void ops_record_precision_push(kiln_program *p, uint32_t dtype);
void ops_record_precision_pop(kiln_program *p);
void ops_record_saturate(kiln_program *p, uint32_t on);
uint32_t ops_recorded_dtype(const kiln_program *p, kiln_t t);
kiln_t ops_record_norm(kiln_program *p, kiln_t x, const kiln_norm *o);
kiln_t ops_record_rope(kiln_program *p, kiln_t x, const kiln_rope *o);
kiln_t ops_record_softmax(kiln_program *p, kiln_t x, const kiln_softmax *o);
kiln_t ops_record_reduce(kiln_program *p, kiln_t x, uint32_t kind, uint32_t axes, uint32_t keep);
kiln_t ops_record_topk(kiln_program *p, kiln_t x, int64_t k, uint32_t ascending, kiln_t *places);
kiln_t ops_record_cumsum(kiln_program *p, kiln_t x, uint32_t axis, uint32_t exclusive, uint32_t reverse);
kiln_t ops_record_bincount(kiln_program *p, kiln_t x, int64_t bins);
kiln_t ops_record_take(kiln_program *p, kiln_t x, kiln_t index, uint32_t axis);
kiln_t ops_record_take_along(kiln_program *p, kiln_t x, kiln_t index);
kiln_t ops_record_scatter(kiln_program *p, kiln_t x, kiln_t index, kiln_t source, uint32_t axis, uint32_t add);
kiln_t ops_record_random(kiln_program *p, kiln_t seed, uint32_t kind, uint32_t rank, const int64_t *dim);
kiln_t ops_record_matmul(kiln_program *p, kiln_t a, kiln_t b, const kiln_matmul *o);
kiln_t ops_record_linear_transposed(kiln_program *p, kiln_t x, kiln_t w, kiln_t b);
kiln_t ops_record_grouped_linear(kiln_program *p, kiln_t x, kiln_t w, kiln_t b, kiln_t offsets);
kiln_t ops_record_conv(kiln_program *p, kiln_t x, kiln_t w, kiln_t b, const kiln_conv *o);
kiln_t ops_record_interpolate(kiln_program *p, kiln_t x, const kiln_interpolate *o);
kiln_t ops_record_pool(kiln_program *p, kiln_t x, const kiln_pool *o);
kiln_t ops_record_pad(kiln_program *p, kiln_t x, const int64_t *before, const int64_t *after, uint32_t mode,
                      float value);
kiln_t ops_record_grid_sample(kiln_program *p, kiln_t x, kiln_t grid, const kiln_grid_sample *o);
kiln_t ops_record_custom(kiln_program *p, const kiln_op_kind *kind, const kiln_t *x, uint32_t n, const void *attributes,
                         size_t attribute_bytes, kiln_t *more);
kiln_t ops_record_state(kiln_program *p, const char *name, uint32_t dtype, uint32_t rank, const int64_t *dim);
uint32_t ops_record_precision(const kiln_program *p);
kiln_t ops_record_arange(kiln_program *p, int64_t start, int64_t end, int64_t step);
kiln_t ops_record_state_write_part(kiln_program *p, kiln_t state, kiln_t x, const kiln_state_write *given);
kiln_t ops_record_state_write(kiln_program *p, kiln_t state, uint32_t axis, kiln_t offset, kiln_t x);

#endif
