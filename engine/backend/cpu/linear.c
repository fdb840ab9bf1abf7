/* linear.c - out = x w^T + bias as a tiled GEMM; see gemm.h. A 1x1 convolution is one of these.
 *
 * Tiles are sized so that, as f32, the weights of a column tile take about a megabyte and a row tile half of one.
 */
#include "backend/cpu/linear.h"

#include "backend/cpu/int8_product.h"
#include "backend/cpu/linear_tiles.h"
#include "backend/cpu/row_forms.h"
#include "tensor/dtype.h"

enum { LOW = 64 };

static int64_t clamp(int64_t v, int64_t low, int64_t high) { return v < low ? low : v > high ? high : v; }

/* Of coded rows narrower ones where they are deep: what is widened of them stays in the second level's cache. */
static int64_t column_tile_width(const op_desc *op, int64_t columns, int64_t k)
{
    int64_t width = tiled_gemm_width(k, rows_are_coded(op, 1) ? 64 : 128, 512);
    return min64(op->epilogue.geglu ? width / 2 : width, columns);
}

/* At least four row tiles, so that every thread has some: a narrow layer is a single column tile. */
static int64_t row_tile_rows(int64_t rows, int64_t k)
{
    int64_t height = clamp((1 << 17) / k / 16 * 16, 128, 256), quarter = (rows + 63) / 64 * 16;
    return min64(rows, min64(height, quarter));
}

kiln_status linear_prepare_as(cpu_kernel *c, int64_t rows, int64_t k, int64_t columns, error *e)
{
    if (!rows || !columns || !k) return error_set(e, KILN_ERR_UNSUPPORTED, "linear: an operand without elements");
    if (int8_product_fits(&c->op)) return int8_product_prepare(c, e);
    if (linear_tiles_fit(&c->op, k, columns)) return linear_tiles_prepare(c, rows, k, columns, e);
    int64_t height = row_tile_rows(rows, k);
    size_t n = (size_t)((rows + height - 1) / height);
    TRY(tiled_gemm_new(c, columns, column_tile_width(&c->op, columns, k), n, e));
    tiled_gemm *g = c->plan;
    for (size_t i = 0; i < n; i++) {
        int64_t first = (int64_t)i * height, m = min64(height, rows - first);
        g->row_tiles[i] = (row_tile){.in = first, .n_in = m, .out = first, .n_out = m, .variant = m != height};
        TRY(tiled_gemm_variant(c, g->row_tiles[i].variant, &(gemm_shape){.m = m, .k = k}, e));
    }
    c->base.flops = 2u * (uint64_t)rows * (uint64_t)k * (uint64_t)columns * (c->op.epilogue.geglu ? 2 : 1);
    return tiled_gemm_finish(c, e);
}

/* Blocks are what nothing else is compared with; in f32 codes give the bits that their numbers give. */
static int few_by_codes(const op_desc *op)
{
    return rows_of(&op->in[0]) <= LOW && rows_are_coded(op, 1) &&
           (dtype_is_block(op->in[1].dtype) || op->precision != KILN_F32);
}

/* A table that embedding() reads too stays rows; a few rows are multiplied by coded ones as they are. */
kiln_status cpu_prepare_linear(cpu_kernel *c, error *e)
{
    if (rows_is_table(&c->op.in[1]) || few_by_codes(&c->op)) return cpu_prepare_linear_rows(c, e);
    return linear_prepare_as(c, rows_of(&c->op.in[0]), columns_of(&c->op.in[0]), columns_of(&c->op.out), e);
}
