/* cpu.h - what the files of the CPU backend share: features, the kernel object, tiles, rows. Layer: backend.
 *
 * Work is cut into tiles by a rule that looks at shapes only, each tile is computed by one thread, and no sum
 * crosses a tile: so results do not depend on the number of threads. A tile runs in a slot, which is its share of the
 * scratch memory; there are cpu_slots() of them and never more tiles at once.
 */
#ifndef KILN_BACKEND_CPU_H
#define KILN_BACKEND_CPU_H

#include "backend/backend.h"
#include "backend/cpu/kernels.h"

typedef enum { ATTEND_BY_F32, ATTEND_BY_PAIRS, ATTEND_BY_TILES, ATTEND_BY_PACKED } cpu_attention_way;
typedef enum { BLOCKS_WIDENED, BLOCKS_INT8, BLOCKS_INT8_TILES, BLOCKS_BY_SHAPE } cpu_blocks_way;
typedef enum { CPU_PLAIN, CPU_AVX2, CPU_AVX512, CPU_AVX512_BF16, CPU_AMX } cpu_level;

/* KILN_CPU_FEATURES=none|avx2|avx512|avx512bf16 in the environment lowers the level, KILN_CPU_GEMM=f32|bf16 sets
 * the type of GEMMs under bf16 precision, KILN_CPU_BLOCKS=int8|tiles|widened how weights stored by blocks are
 * multiplied there, KILN_CPU_ATTENTION=f32|pairs|tiles|packed how attention is computed there, KILN_CPU_PAST=BYTES how
 * large results are that are stored past the caches. Read once; for tests and measurements. */
cpu_level cpu_level_get(void);
int cpu_level_lowered(void);
const char *cpu_features(void);
const cpu_kernels *cpu_kernels_get(void);
/* The same, as the op wants them: in f16 store() saturates, and what is larger than caches is stored past them. */
const cpu_kernels *cpu_kernels_for(const op_desc *);
/* The type in which GEMMs are computed under `precision`. KILN_F32 also for bf16 storage, where bf16 dot
 * products are the slower ones; see cpu.c. */
uint32_t cpu_gemm_type(uint32_t precision);
/* Under bf16: weights that are stored by blocks in products of integers (int8_product.h)? Never; always; always and by
 * AMX's tiles alone; or where they are the faster ones beside AMX's products of bf16. */
cpu_blocks_way cpu_blocks(void);
/* By which kernels; tiles: AMX's, if there are any. All make the same bits. */
const struct int8_kernels *cpu_int8_kernels(int tiles);
int cpu_has_int8_tiles(void);
/* How attention of bf16 is computed under bf16: with f32 exponentials, or where gemm is bf16 by products of pairs
 * (attention_pairs.h), or with AMX by its tiles (attention_tiles.h), and with VBMI
 * too by packed ones where nothing hides keys (attention_units.h). */
cpu_attention_way cpu_attention(void);
unsigned cpu_slots(void);

typedef struct cpu_kernel cpu_kernel;
struct cpu_kernel {
    kernel base;
    op_desc op;
    const cpu_kernels *k;
    kiln_status (*body)(const cpu_kernel *, const kernel_args *, error *);
    void *plan; /* the op's own; freed by plan_free */
    void (*plan_free)(void *);
    int past;           /* the result is stored past the caches */
    uint32_t rows_kept; /* operands that are packed by rows.h: bits */
};

/* Each fills in body, scratch_bytes, packed forms (for weights other than f32), flops and plan. */
typedef kiln_status cpu_prepare(cpu_kernel *, error *);
cpu_prepare cpu_prepare_elementwise, cpu_prepare_map, cpu_prepare_state_write, cpu_prepare_custom, cpu_prepare_layout,
    cpu_prepare_group_norm, cpu_prepare_group_norm_stats, cpu_prepare_layer_norm, cpu_prepare_embedding,
    cpu_prepare_linear, cpu_prepare_conv2d, cpu_prepare_attention;
cpu_prepare cpu_prepare_norm, cpu_prepare_rope, cpu_prepare_softmax, cpu_prepare_reduce, cpu_prepare_cumsum,
    cpu_prepare_sort, cpu_prepare_places, cpu_prepare_random, cpu_prepare_conv, cpu_prepare_pool,
    cpu_prepare_interpolate, cpu_prepare_grid_sample, cpu_prepare_pad;
cpu_prepare cpu_prepare_matmul, cpu_prepare_linear_transposed, cpu_prepare_linear_transposed_any,
    cpu_prepare_linear_rows, cpu_prepare_grouped_linear;

/* fn(arg, tile, slot) for every tile; slot < min(threads, cpu_slots()). fn returns the first error to stop on. */
typedef kiln_status tile_fn(void *arg, size_t tile, unsigned slot, error *);
kiln_status tiles_run(pool *, size_t n, tile_fn *fn, void *arg, error *);

static inline int64_t rows_of(const operand_desc *d)
{
    int64_t n = 1;
    for (uint32_t i = 0; i + 1 < d->shape.rank; i++) n *= d->shape.dim[i];
    return n;
}
static inline int64_t columns_of(const operand_desc *d) { return d->shape.rank ? d->shape.dim[d->shape.rank - 1] : 1; }
static inline size_t size_of(uint32_t dtype) { return dtype == KILN_F32 || dtype == KILN_I32 ? 4 : 2; }
static inline int is_packed(const operand_desc *d) { return d->dtype && d->weight; }
/* Address of (row, column); packed operands are dense f32, or i32. */
static inline const char *place_of(const operand_desc *d, const void *data, int64_t row, int64_t column)
{
    if (d->weight) return (const char *)data + (size_t)(row * columns_of(d) + column) * 4;
    return (const char *)data + (size_t)(row * d->ld + column) * size_of(d->dtype);
}
static inline uint32_t type_of(const operand_desc *d)
{
    return d->weight && d->dtype != KILN_I32 ? (uint32_t)KILN_F32 : d->dtype;
}
/* Row of operand b for row `row` of out: dimensions aligned at the end, 1 repeats. */
static inline int64_t broadcast_row(const shape *out, const shape *b, int64_t row)
{
    int64_t place = 0, stride = 1;
    for (uint32_t i = 1; i < out->rank && i < b->rank; i++) {
        int64_t size = out->dim[out->rank - 1 - i], own = b->dim[b->rank - 1 - i];
        place += (own == 1 ? 0 : row % size) * stride;
        stride *= own;
        row /= size;
    }
    return place;
}
static inline size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }
static inline int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }

#endif
