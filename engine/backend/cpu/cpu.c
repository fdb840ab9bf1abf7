/* cpu.c - the CPU backend's table: what the processor offers, and which file prepares which op.
 *
 * Which type GEMMs are computed in when storage is bf16. The instructions of avx512_bf16 are not fast everywhere:
 * GFLOP/s of one core in oneDNN 2.6.3, measured:
 *                                             GEMM                    3x3 convolution
 *     Xeon, 5th generation, AMX hidden        f32 182, bf16 98        f32 162-222, bf16 99-115
 *     EPYC Zen 5 (half of two threads)        f32 220-250, bf16 425-500   f32 240-250, bf16 460-515
 * So bf16 GEMMs are used where AMX is, or where the maker is not Intel (Zen 4 and later run a bf16 dot
 * product at the rate of an f32 one); elsewhere bf16 is storage, widened in cache, and arithmetic is f32.
 */
#include "backend/cpu/convolution_tiles.h"
#include "backend/cpu/instructions.h"
#include "backend/cpu/int8_kernels.h"
#include "backend/cpu/onednn.h"
#include "backend/cpu/row_forms.h"

#include "base/log.h"
#include "base/memory_alloc.h"
#include "tensor/dtype.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined __x86_64__
#include <cpuid.h>
#endif

/* A result of which little is left in the caches when the next op reads it, as memcpy() has it. */
enum { LARGE_BYTES = 32 << 20 };

static struct {
    cpu_level level;
    int fast_bf16, lowered;
    cpu_blocks_way blocks;
    int vbmi, vnni, avx_vnni, amx_int8; /* what there is of permuted bytes, and of byte products */
    unsigned slots;
    cpu_attention_way attention;
    int64_t large;    /* bytes of a result that is stored past the caches */
    char refused[48]; /* KILN_CPU_BLOCKS, where it is none of its words */
} machine;
static pthread_once_t machine_once = PTHREAD_ONCE_INIT;

static const struct {
    const char *name, *text;
} levels[] = {
    [CPU_PLAIN] = {"none", "plain"},          [CPU_AVX2] = {"avx2", "avx2"},
    [CPU_AVX512] = {"avx512", "avx512_core"}, [CPU_AVX512_BF16] = {"avx512bf16", "avx512_core_bf16"},
    [CPU_AMX] = {"amx", "amx_bf16"},
};

#if defined __x86_64__
static void detect(void)
{
    unsigned a = 0, b = 0, c = 0, d = 0, maker = 0;
    __builtin_cpu_init();
    __cpuid(0, a, maker, c, d);
    machine.level = CPU_PLAIN;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) machine.level = CPU_AVX2; /* and so F16C */
    if (machine.level == CPU_AVX2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
        machine.level = CPU_AVX512;
    if (machine.level == CPU_AVX512 && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 5 & 1))
        machine.level = CPU_AVX512_BF16;
    unsigned tiles = machine.level == CPU_AVX512_BF16 ? amx_found() : 0;
    if (tiles & AMX_BF16) machine.level = CPU_AMX;
    machine.amx_int8 = (tiles & AMX_INT8) != 0;
    machine.vnni = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c >> 11 & 1);
    machine.vbmi = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c >> 1 & 1);
    machine.avx_vnni = avx_vnni_found();
    int intel = maker == signature_INTEL_ebx;
    machine.fast_bf16 = machine.level == CPU_AMX || (machine.level == CPU_AVX512_BF16 && !intel);
}
#else
static void detect(void) { machine.level = CPU_PLAIN; }
#endif

/* For tests and measurements: a lower instruction level, and the type of GEMMs where there is a choice. */
static void choose(const char *level, const char *gemms)
{
    size_t i = 0, n = sizeof levels / sizeof levels[0];
    while (level && i < n && strcmp(level, levels[i].name) != 0) i++;
    if (level && (i == n || (cpu_level)i > machine.level))
        log_warn("KILN_CPU_FEATURES=%s is not a level of this processor (none, avx2, avx512, avx512bf16, amx, up to "
                 "%s); ignored",
                 level, levels[machine.level].name);
    else if (level) {
        machine.lowered = (cpu_level)i < machine.level;
        machine.level = (cpu_level)i;
        machine.fast_bf16 = machine.fast_bf16 && machine.level >= CPU_AVX512_BF16;
    }
    if (!gemms) return;
    if (strcmp(gemms, "f32") == 0)
        machine.fast_bf16 = 0;
    else if (strcmp(gemms, "bf16") == 0 && machine.level >= CPU_AVX512_BF16)
        machine.fast_bf16 = 1;
    else
        log_warn("KILN_CPU_GEMM=%s: not f32, nor bf16 on a processor that has it; ignored", gemms);
}

/* By what gemm is, if nothing else is asked for that the processor has. */
static void choose_attention(const char *asked)
{
    static const char *const ways[] = {[ATTEND_BY_F32] = "f32",
                                       [ATTEND_BY_PAIRS] = "pairs",
                                       [ATTEND_BY_TILES] = "tiles",
                                       [ATTEND_BY_PACKED] = "packed"};
    cpu_attention_way most = machine.level == CPU_AMX           ? (machine.vbmi ? ATTEND_BY_PACKED : ATTEND_BY_TILES)
                             : machine.level >= CPU_AVX512_BF16 ? ATTEND_BY_PAIRS
                                                                : ATTEND_BY_F32;
    machine.attention = machine.fast_bf16 ? most : ATTEND_BY_F32;
    if (!asked) return;
    for (cpu_attention_way i = ATTEND_BY_F32; i <= most; i++)
        if (strcmp(asked, ways[i]) == 0) {
            machine.attention = i;
            return;
        }
    log_warn("KILN_CPU_ATTENTION=%s: not f32, nor pairs, tiles or packed on a processor that has them; ignored", asked);
}

/* Byte products are twice as fast as those of bf16 and more, but for some of AMX's (int8_product.c). AVX2's of integers
 * are up to twice as fast as its own of f32. With AVX-512 and no byte products nothing was measured: widened. */
static void choose_blocks(const char *blocks)
{
    machine.amx_int8 = machine.amx_int8 && machine.level >= CPU_AMX;
    machine.vnni = machine.vnni && machine.level >= CPU_AVX512;
    machine.avx_vnni = machine.avx_vnni && machine.level >= CPU_AVX2;
    const int integers = machine.vnni || machine.avx_vnni || machine.level == CPU_AVX2;
    machine.blocks = !integers ? BLOCKS_WIDENED : machine.level < CPU_AMX ? BLOCKS_INT8 : BLOCKS_BY_SHAPE;
    if (!blocks) return;
    if (strcmp(blocks, "int8") == 0)
        machine.blocks = BLOCKS_INT8;
    else if (strcmp(blocks, "tiles") == 0 && machine.amx_int8)
        machine.blocks = BLOCKS_INT8_TILES;
    else if (strcmp(blocks, "widened") == 0)
        machine.blocks = BLOCKS_WIDENED;
    else
        snprintf(machine.refused, sizeof machine.refused, "%s", *blocks ? blocks : "(empty)");
}

static void machine_init(void)
{
    detect();
    choose(getenv("KILN_CPU_FEATURES"), getenv("KILN_CPU_GEMM"));
    choose_attention(getenv("KILN_CPU_ATTENTION"));
    const char *large = getenv("KILN_CPU_PAST");
    machine.large = large ? strtoll(large, NULL, 10) : LARGE_BYTES;
    choose_blocks(getenv("KILN_CPU_BLOCKS"));
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    machine.slots = n < 4 ? 4 : n > 64 ? 64 : (unsigned)n;
}

cpu_level cpu_level_get(void)
{
    pthread_once(&machine_once, machine_init);
    return machine.level;
}
int cpu_level_lowered(void)
{
    cpu_level_get();
    return machine.lowered;
}
unsigned cpu_slots(void)
{
    cpu_level_get();
    return machine.slots;
}
const int8_kernels *cpu_int8_kernels(int tiles)
{
    cpu_level_get();
#if defined __x86_64__
    if (machine.amx_int8 && (tiles || machine.blocks == BLOCKS_INT8_TILES)) return &int8_kernels_amx;
    if (machine.vnni) return &int8_kernels_avx512vnni;
    if (machine.avx_vnni) return &int8_kernels_avxvnni;
    if (machine.level >= CPU_AVX2) return &int8_kernels_avx2;
#endif
    return &int8_kernels_plain;
}
cpu_blocks_way cpu_blocks(void)
{
    cpu_level_get();
    return machine.blocks;
}
int cpu_has_int8_tiles(void)
{
    cpu_level_get();
    return machine.amx_int8;
}
cpu_attention_way cpu_attention(void)
{
    cpu_level_get();
    return machine.attention;
}
const char *cpu_features(void) { return levels[cpu_level_get()].text; }

static const char *cpu_numerics(void)
{
    static char text[160]; /* written with the same bytes by whoever comes first */
    /* A number is raised when the bits of that way change. */
    static const char *const attention[] = {[ATTEND_BY_F32] = "",
                                            [ATTEND_BY_PAIRS] = ", attention bf16",
                                            [ATTEND_BY_TILES] = ", attention bf16 tiles",
                                            [ATTEND_BY_PACKED] = ", attention bf16 packed 2"};
    const char *type = cpu_gemm_type(KILN_BF16) == KILN_BF16 ? "bf16" : cpu_level_get() == CPU_AVX2 ? "f32 4" : "f32";
    char blocks[40] = "";
    if (cpu_blocks() != BLOCKS_WIDENED)
        snprintf(blocks, sizeof blocks, ", blocks int8 %d%s%s", INT8_REVISION,
                 cpu_blocks() == BLOCKS_BY_SHAPE ? " by shape" : "",
                 cpu_int8_kernels(0)->keep_codes ? " codes kept" : "");
    const char *convolution = cpu_level_get() == CPU_AMX && cpu_gemm_type(KILN_BF16) == KILN_BF16 ? ", tiles 3" : "";
    snprintf(text, sizeof text, "%s, norms 2, functions 2, gemm %s%s%s, oneDNN %s%s", cpu_features(), type, convolution,
             attention[cpu_attention()], gemm_library_version(), blocks);
    return text;
}

const cpu_kernels *cpu_kernels_get(void)
{
#if defined __x86_64__
    if (cpu_level_get() >= CPU_AVX512_BF16) return &kernels_avx512bf16;
    if (cpu_level_get() >= CPU_AVX512) return &kernels_avx512;
    if (cpu_level_get() >= CPU_AVX2) return &kernels_avx2;
#endif
    return &kernels_plain;
}

/* Ops that only pass through memory. */
static int passes_through(op_kind kind)
{
    switch (kind) {
    case OP_CONV2D:
    case OP_LINEAR:
    case OP_ATTENTION:
    case OP_MATMUL:
    case OP_LINEAR_T:
    case OP_GROUPED_LINEAR:
    case OP_CUSTOM: return 0;
    default: return 1;
    }
}

/* Products whose activation is the last thing before they are stored in bf16. */
static int few_bits_do(const op_desc *op)
{
    return !passes_through(op->kind) && op->kind != OP_ATTENTION && op->kind != OP_CUSTOM &&
           op->out.dtype == KILN_BF16 && !op->epilogue.residual;
}

static cpu_kernels saturating, past, few_bits;
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;
static void tables_init(void)
{
    saturating = past = few_bits = *cpu_kernels_get();
    few_bits.act = few_bits.act_short, few_bits.geglu = few_bits.geglu_short;
    saturating.store = saturating.store_saturating;
    past.store = past.store_past, past.copy = past.copy_past;
    past.transpose = past.transpose_past, past.transpose_half = past.transpose_half_past;
}
const cpu_kernels *cpu_kernels_for(const op_desc *op)
{
    pthread_once(&tables_once, tables_init);
    if (op_saturates(op)) return &saturating;
    if (few_bits_do(op)) return &few_bits;
    int large = shape_count(&op->out.shape) >= machine.large / (int64_t)size_of(op->out.dtype);
    return large && passes_through(op->kind) ? &past : cpu_kernels_get();
}

uint32_t cpu_gemm_type(uint32_t precision)
{
    cpu_level_get();
    return precision == KILN_BF16 && machine.fast_bf16 ? KILN_BF16 : KILN_F32;
}

/* Stored as bf16 everything takes half the memory and traffic, and no more time where vectors widen it, even without
 * products of bf16. */
static uint32_t best_precision(void) { return cpu_level_get() >= CPU_AVX2 ? KILN_BF16 : KILN_F32; }

/* ---- tiles ---- */

typedef struct {
    tile_fn *fn;
    void *arg;
    size_t n;
    atomic_size_t next;
    atomic_int failed;
    pthread_mutex_t lock;
    error *e;
    kiln_status status;
} tile_job;

/* What was stored past the caches is seen before the tile counts as done. */
static void stores_done(void)
{
#if defined __x86_64__
    __builtin_ia32_sfence();
#endif
}

static void tile_worker(void *arg, size_t slot)
{
    tile_job *j = arg;
    for (size_t i; !atomic_load(&j->failed) && (i = atomic_fetch_add(&j->next, 1)) < j->n;) {
        error own = {0};
        kiln_status status = j->fn(j->arg, i, (unsigned)slot, &own);
        stores_done();
        if (status == KILN_OK) continue;
        pthread_mutex_lock(&j->lock);
        if (j->status == KILN_OK) j->status = error_set(j->e, status, "%s", own.message);
        pthread_mutex_unlock(&j->lock);
        atomic_store(&j->failed, 1);
    }
}

kiln_status tiles_run(pool *p, size_t n, tile_fn *fn, void *arg, error *e)
{
    tile_job j = {.fn = fn, .arg = arg, .n = n, .lock = PTHREAD_MUTEX_INITIALIZER, .e = e};
    size_t workers = p ? pool_threads(p) : 1;
    if (workers > cpu_slots()) workers = cpu_slots();
    if (workers > n) workers = n;
    if (workers <= 1)
        tile_worker(&j, 0);
    else
        pool_for(p, workers, tile_worker, &j);
    pthread_mutex_destroy(&j.lock);
    return j.status;
}

/* ---- kernels ---- */

static kiln_status pack_f32(const kernel *k, uint32_t operand, const void *src, uint32_t src_dtype, void *dst, pool *p,
                            error *e)
{
    const cpu_kernel *c = (const cpu_kernel *)k;
    uint32_t type = c->op.in[operand].dtype == KILN_I32 ? KILN_I32 : KILN_F32;
    (void)p;
    kiln_status status = dtype_convert(dst, type, src, src_dtype, (size_t)shape_count(&c->op.in[operand].shape));
    return status == KILN_OK ? status
                             : error_set(e, status, "weights of type %s are not supported", dtype_name(src_dtype));
}

static kiln_status cpu_run(const kernel *k, const kernel_args *a, error *e)
{
    const cpu_kernel *c = (const cpu_kernel *)k;
    return c->body(c, a, e);
}

static void cpu_free(kernel *k)
{
    cpu_kernel *c = (cpu_kernel *)k;
    if (!c) return;
    if (c->plan_free) c->plan_free(c->plan);
    mem_free(c);
}

/* clang-format off: a row a line */
static cpu_prepare *const prepares[OP_KIND_COUNT] = {
    [OP_CONVERT] = cpu_prepare_elementwise,
    [OP_CONV2D] = cpu_prepare_conv2d,
    [OP_LINEAR] = cpu_prepare_linear,
    [OP_ATTENTION] = cpu_prepare_attention,
    [OP_GROUP_NORM] = cpu_prepare_group_norm,
    [OP_GROUP_NORM_STATS] = cpu_prepare_group_norm_stats,
    [OP_LAYER_NORM] = cpu_prepare_layer_norm,
    [OP_ADD] = cpu_prepare_elementwise,
    [OP_MUL] = cpu_prepare_elementwise,
    [OP_AFFINE] = cpu_prepare_elementwise,
    [OP_ACT] = cpu_prepare_elementwise,
    [OP_GEGLU] = cpu_prepare_elementwise,
    [OP_UPSAMPLE] = cpu_prepare_layout,
    [OP_CONCAT] = cpu_prepare_layout,
    [OP_SLICE] = cpu_prepare_layout,
    [OP_RESHAPE] = cpu_prepare_layout,
    [OP_PERMUTE] = cpu_prepare_layout,
    [OP_EMBEDDING] = cpu_prepare_embedding,
    [OP_GATHER] = cpu_prepare_embedding,
    [OP_TIMESTEP] = cpu_prepare_embedding,
    [OP_MAP] = cpu_prepare_map,
    [OP_MATMUL] = cpu_prepare_matmul,
    [OP_LINEAR_T] = cpu_prepare_linear_transposed_any,
    [OP_GROUPED_LINEAR] = cpu_prepare_grouped_linear,
    [OP_GRID_SAMPLE] = cpu_prepare_grid_sample,
    [OP_PAD] = cpu_prepare_pad,
    [OP_POOL] = cpu_prepare_pool,
    [OP_INTERPOLATE] = cpu_prepare_interpolate,
    [OP_CONV] = cpu_prepare_conv,
    [OP_RANDOM] = cpu_prepare_random,
    [OP_SCATTER] = cpu_prepare_places,
    [OP_TAKE_ALONG] = cpu_prepare_places,
    [OP_TAKE] = cpu_prepare_places,
    [OP_BINCOUNT] = cpu_prepare_places,
    [OP_SORT] = cpu_prepare_sort,
    [OP_CUMSUM] = cpu_prepare_cumsum,
    [OP_REDUCE] = cpu_prepare_reduce,
    [OP_SOFTMAX] = cpu_prepare_softmax,
    [OP_ROPE] = cpu_prepare_rope,
    [OP_NORM] = cpu_prepare_norm,
    [OP_STATE_WRITE] = cpu_prepare_state_write,
    [OP_CUSTOM] = cpu_prepare_custom,
};
/* clang-format on */

static kiln_status check_types(const op_desc *op, error *e)
{
    for (uint32_t i = 0; i <= op->n_in; i++) {
        uint32_t t = i < op->n_in ? op->in[i].dtype : op->out.dtype;
        if (i < op->n_in && op->in[i].weight && dtype_is_block(t)) continue;
        if (t && t != KILN_F32 && t != KILN_BF16 && t != KILN_F16 && t != KILN_I32)
            return error_set(e, KILN_ERR_UNSUPPORTED, "%s: no kernel for operands of type %s", op_name(op->kind),
                             dtype_name(t));
    }
    return KILN_OK;
}

/* A weight's type as kernels see it: what is stored by blocks that none of them can read is f32; what is joined of
 * blocks, or otherwise follows from such, is of their type. */
static uint32_t seen_type(const op_desc *op, uint32_t i)
{
    const operand_desc *d = &op->in[i];
    int coded = d->weight && rows_are_coded(op, i);
    if (d->weight && dtype_is_block(d->dtype)) return coded ? d->dtype : (uint32_t)KILN_F32;
    return coded && dtype_is_block(d->rows.dtype) ? d->rows.dtype : d->dtype;
}

static kiln_status cpu_prepare_op(const op_desc *op, kernel **out, error *e)
{
    if (op->kind >= OP_KIND_COUNT || !prepares[op->kind])
        return error_set(e, KILN_ERR_UNSUPPORTED, "op '%s' does not run on a device", op_name(op->kind));
    TRY(check_types(op, e));
    cpu_level_get();
    if (*machine.refused)
        return error_set(e, KILN_ERR_INVALID,
                         "KILN_CPU_BLOCKS=%s: it is int8 or widened, or tiles with AMX, or not set", machine.refused);
    cpu_kernel *c = mem_calloc(1, sizeof *c);
    if (!c) return error_set(e, KILN_ERR_NOMEM, "out of memory for a kernel");
    c->op = *op;
    for (uint32_t i = 0; i < op->n_in; i++) c->op.in[i].dtype = seen_type(op, i);
    c->k = cpu_kernels_for(op), c->past = c->k == &past;
    c->base = (kernel){.name = op_name(op->kind), .pack = pack_f32, .run = cpu_run, .free = cpu_free};
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (!is_packed(&c->op.in[i])) continue;
        c->base.packed_bytes[i] = (size_t)shape_count(&op->in[i].shape) * sizeof(float);
        snprintf(c->base.pack_form[i], sizeof c->base.pack_form[i], "%s", op->in[i].dtype == KILN_I32 ? "i32" : "f32");
    }
    kiln_status status = prepares[op->kind](c, e);
    if (status != KILN_OK) {
        cpu_free(&c->base);
        return status;
    }
    *out = &c->base;
    return KILN_OK;
}

static kiln_status open_host(unsigned index, memory_device **out, error *e)
{
    if (index)
        return error_set(e, KILN_ERR_UNSUPPORTED, "there is one processor to compute on, number 0; not number %u",
                         index);
    *out = device_host();
    return KILN_OK;
}

static int takes(const op_desc *op)
{
    if (op->kind == OP_CONV2D) return convolution_tiles_take_upsampled(op);
    return op->kind == OP_GROUPED_LINEAR && rows_of(&op->out) >= rows_of(&op->in[0]);
}

static int has_kernel(op_kind kind) { return (unsigned)kind < OP_KIND_COUNT && prepares[kind] != NULL; }

const backend backend_cpu = {.name = "cpu",
                             .device = KILN_CPU,
                             .open = open_host,
                             .features = cpu_features,
                             .numerics = cpu_numerics,
                             .takes = takes,
                             .best_precision = best_precision,
                             .precisions = 1u << KILN_F32 | 1u << KILN_BF16,
                             .parts_are_exact = 1,
                             .prepare = cpu_prepare_op,
                             .has = has_kernel};

const backend *backend_find(const char *name)
{
    static const backend *const all[] = {&backend_cpu, &backend_reference};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strcmp(all[i]->name, name) == 0) return all[i];
    return NULL;
}
