/* test_cuda_blocks.c - weights that are stored by blocks stay so in a GPU's memory: every type is read bit for bit as
 * the host reads it, by every kernel that reads one; packed weights are the file's bytes, also of filters; a product
 * gives the same whether it is widened at once or some columns at a time; of groups without rows nothing is read; and
 * a program computes the same bytes with all of its weights resident and with a budget that streams them.
 */
#include "cu_emu.h"
#include "fake_cuda.h"
#include "graph_kit.h"

#include "../backend/ops_run.h"
#include "../memory/fake_device.h"
#include "backend/cuda_load.h"
#include "backend/runtime.h"
#include "base/memory_alloc.h"
#include "run_or_estimate.h"
#include "tensor/block.h"
#include "tensor/dtype.h"

#include <math.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern const cuda_library kiln_cuda_library;
extern size_t cuda_widened_most; /* backend/cuda/cuda.h, whose words are not all of this file */

static const uint32_t types[] = {KILN_Q4_0,  KILN_Q4_1,  KILN_Q5_0,    KILN_Q5_1,   KILN_Q8_0,   KILN_Q2_K,
                                 KILN_Q3_K,  KILN_Q4_K,  KILN_Q5_K,    KILN_Q6_K,   KILN_IQ4_NL, KILN_IQ4_XS,
                                 KILN_MXFP4, KILN_NVFP4, KILN_F8_E4M3, KILN_F8_E5M2};
enum { TYPES = sizeof types / sizeof types[0] };

#define TENSOR(type, is_weight, ...)                                                                                   \
    {                                                                                                                  \
        .dtype = type, .weight = is_weight, .shape = {                                                                 \
            .rank = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t),                                                \
            .dim = {__VA_ARGS__}                                                                                       \
        }                                                                                                              \
    }
#define X(...) TENSOR(KILN_F32, 0, __VA_ARGS__)
#define W(...) TENSOR(KILN_F32, 1, __VA_ARGS__)
#define Q(type, ...) TENSOR(type, 1, __VA_ARGS__)
#define IDS(...) TENSOR(KILN_I32, 0, __VA_ARGS__)

/* In a process of its own, with these products on this chip: ways of making products are chosen once in each. 1: it
 * found everything right. */
static int apart(const char *products, int sm, int (*work)(const backend *))
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        error e = {0};
        memory_device *d = NULL;
        setenv("KILN_CUDA_GEMM", products, 1);
        fake_cuda_chip(sm / 10, sm % 10);
        fake_device_open(&(fake_setting){.bytes = 64 << 20, .seed = 5, .fail_at = -1});
        const backend *b = kiln_cuda_library.backend;
        int fine = b->open(0, &d, &e) == KILN_OK && work(b);
        fake_report r = fake_device_close();
        if (r.faults || cu_emu_faults()) printf("  faults: %u %u\n", r.faults, cu_emu_faults());
        fflush(stdout);
        _exit(!fine || r.faults || cu_emu_faults());
    }
    int status = 1;
    waitpid(child, &status, 0);
    return CHECK_MSG(status == 0, "%s on sm_%d", products, sm);
}

/* ---- every type, bit for bit ---- */

enum { ROWS = 12, WIDE = 512 };

/* Every code that is a number. */
static int fill_f8(op_setup *s, uint32_t i, uint32_t type, size_t n)
{
    uint8_t *at = s->blocks[i]; /* setup_make has made room for its own codes */
    float v = 0;
    for (size_t k = 0; k < n; k++) {
        at[k] = (uint8_t)(k + k / 256);
        if (dtype_convert(&v, KILN_F32, at + k, type, 1) != KILN_OK || !isfinite(v)) at[k] = 1;
    }
    return dtype_convert(s->in[i], KILN_F32, at, type, n) == KILN_OK;
}

/* Blocks of any bytes whose scales are numbers, and what the specification reads of them. */
static int fill_any(op_setup *s, uint32_t i, uint32_t type)
{
    size_t n = (size_t)shape_count(&s->op.in[i].shape), block = dtype_block(type), bytes = dtype_block_bytes(type);
    if (dtype_is_f8(type)) return fill_f8(s, i, type, n);
    dice d = {type};
    uint8_t *at = s->blocks[i];
    for (size_t k = 0; k < n / block; k++, at += bytes) do
            for (size_t j = 0; j < bytes; j++) at[j] = (uint8_t)dice_next(&d);
        while (block_first_nonfinite(type, at, block) == 0 || (type == KILN_NVFP4 && memchr(at, 0xff, 4)));
    return block_read_plain(type, s->blocks[i], s->in[i], n) == KILN_OK;
}

/* x: rows of zeros with a one, so that products are the weight's own numbers. */
static void fill_ones(op_setup *s)
{
    const int64_t rows = s->op.in[0].shape.dim[0], columns = s->op.in[0].shape.dim[1];
    float *x = s->in[0];
    memset(x, 0, (size_t)(rows * columns) * sizeof *x);
    for (int64_t r = 0; r < rows; r++) x[r * columns + (r * 67 + 13) % columns] = 1;
}

static int exact(const backend *b, const op_case *c, uint32_t operand, uint32_t type)
{
    op_setup s;
    op_case own = *c;
    if (dtype_is_f8(type)) own.op.in[operand].dtype = KILN_F16, own.op.in[operand].stored = type;
    if (!setup_make(&s, &own, KILN_F32, 0) || !fill_any(&s, operand, type)) return 0;
    if (operand) fill_ones(&s);
    void *expected = setup_run(&s, &backend_reference, NULL, 1, NULL, NULL, NULL),
         *got = setup_run(&s, b, NULL, 1, NULL, NULL, NULL);
    int ok = expected && got && setup_near(&s, got, expected, 0, c->name);
    if (!ok) printf("  %s of %s\n", c->name, dtype_name(type));
    mem_free(expected), mem_free(got);
    setup_free(&s);
    return ok;
}

static int every_type(const backend *b)
{
    int ok = 1;
    for (int t = 0; t < TYPES; t++) {
        const op_case cases[] = {
            {"embedding",
             {.kind = OP_EMBEDDING, .n_in = 2, .in = {Q(types[t], 5, WIDE), IDS(5)}, .out = X(5, WIDE)},
             0},
            {"few rows",
             {.kind = OP_LINEAR, .n_in = 3, .in = {X(3, WIDE), Q(types[t], ROWS, WIDE), {0}}, .out = X(3, ROWS)},
             0},
            {"more rows",
             {.kind = OP_LINEAR, .n_in = 3, .in = {X(9, WIDE), Q(types[t], ROWS, WIDE), {0}}, .out = X(9, ROWS)},
             0},
            {"rows",
             {.kind = OP_LINEAR, .n_in = 3, .in = {X(20, WIDE), Q(types[t], ROWS, WIDE), {0}}, .out = X(20, ROWS)},
             0},
            {"turned",
             {.kind = OP_LINEAR_T, .n_in = 3, .in = {X(8, ROWS), Q(types[t], ROWS, WIDE), {0}}, .out = X(8, WIDE)},
             0},
            {"groups",
             {.kind = OP_GROUPED_LINEAR,
              .n_in = 4,
              .in = {X(9, WIDE), Q(types[t], 2, ROWS, WIDE), {0}, IDS(3)},
              .out = X(9, ROWS)},
             0},
        };
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) ok &= exact(b, &cases[i], i > 0, types[t]);
    }
    return ok;
}

static void test_every_type_bit_for_bit(void)
{
    apart("mma", 90, every_type);
    apart("plain", 75, every_type);
}

/* ---- what is packed ---- */

static int packs(const backend *b, op_desc what, uint32_t operand, uint32_t precision, int keeps)
{
    kernel *k = NULL;
    error e = {0};
    size_t bytes = 0;
    what.precision = precision;
    for (uint32_t i = 0; i < what.n_in; i++) {
        operand_desc *d = &what.in[i];
        if (d->dtype == KILN_F32 && !d->weight) d->dtype = precision;
        if (d->dtype) d->ld = d->shape.dim[d->shape.rank - 1];
    }
    what.out.dtype = precision, what.out.ld = what.out.shape.dim[what.out.shape.rank - 1];
    if (!CHECK_MSG(b->prepare(&what, &k, &e) == KILN_OK, "%s", e.message)) return 0;
    uint32_t type = what.in[operand].dtype;
    char form[96];
    snprintf(form, sizeof form, "rows:%s", dtype_name(type));
    dtype_bytes(type, (size_t)shape_count(&what.in[operand].shape), &bytes);
    int same = k->packed_bytes[operand] == bytes && k->pack_copies[operand] == type &&
               strcmp(k->pack_form[operand], form) == 0;
    int ok = CHECK_MSG(same == keeps, "%s, %s: %zu bytes, the file has %zu; %s", k->name, dtype_name(precision),
                       k->packed_bytes[operand], bytes, k->pack_form[operand]);
    k->free(k);
    return ok;
}

static int what_is_packed(const backend *b)
{
    static const uint32_t precisions[] = {KILN_F32, KILN_BF16, KILN_F16};
    const op_attr one = {.conv2d = {{1, 1}, {0, 0, 0, 0}, {1, 1}, 1}},
                  three = {.conv2d = {{1, 1}, {1, 1, 1, 1}, {1, 1}, 1}};
    int ok = 1;
    for (int p = 0; p < 3; p++) {
        uint32_t t = precisions[p];
        const op_desc linear = {
            .kind = OP_LINEAR, .n_in = 3, .in = {X(3, 512), Q(KILN_Q4_K, 64, 512), W(64)}, .out = X(3, 64)};
        op_desc gated = {
            .kind = OP_LINEAR, .n_in = 3, .in = {X(90, 512), Q(KILN_Q4_K, 64, 512), W(64)}, .out = X(90, 32)};
        gated.epilogue.geglu = 1;
        ok &= packs(b, linear, 1, t, 1) & packs(b, gated, 1, t, 1);
        ok &= packs(
            b, (op_desc){.kind = OP_LINEAR_T, .n_in = 3, .in = {X(3, 64), Q(KILN_Q4_K, 64, 512)}, .out = X(3, 512)}, 1,
            t, 1);
        ok &= packs(b,
                    (op_desc){.kind = OP_EMBEDDING, .n_in = 2, .in = {Q(KILN_Q4_K, 64, 512), IDS(3)}, .out = X(3, 512)},
                    0, t, 1);
        ok &= packs(b,
                    (op_desc){.kind = OP_CONV2D,
                              .n_in = 3,
                              .in = {X(1, 8, 8, 64), Q(KILN_Q8_0, 32, 64, 3, 3), W(32)},
                              .out = X(1, 8, 8, 32),
                              .attr = three},
                    1, t, 1);
        ok &= packs(b,
                    (op_desc){.kind = OP_CONV2D,
                              .n_in = 3,
                              .in = {X(1, 8, 8, 64), Q(KILN_Q8_0, 32, 64, 1, 1), W(32)},
                              .out = X(1, 8, 8, 32),
                              .attr = one},
                    1, t, 1);
        /* a row of 90 is no whole blocks: widened when it is packed, as before */
        ok &= packs(b,
                    (op_desc){.kind = OP_CONV2D,
                              .n_in = 3,
                              .in = {X(1, 8, 8, 10), Q(KILN_Q8_0, 32, 10, 3, 3), W(32)},
                              .out = X(1, 8, 8, 32),
                              .attr = three},
                    1, t, 0);
    }
    return ok;
}

static void test_packed_weights_are_the_files_bytes(void) { apart("mma", 90, what_is_packed); }

/* ---- some columns at a time ---- */

#define FILTER                                                                                                         \
    {                                                                                                                  \
        .conv2d = { {1, 1}, {1, 1, 1, 1}, {1, 1}, 1 }                                                                  \
    }
static const op_case wide[] = {
    {"bias, residual",
     {.kind = OP_LINEAR,
      .n_in = 4,
      .in = {X(40, 320), Q(KILN_Q8_0, 392, 320), W(392), X(40, 392)},
      .out = X(40, 392),
      .epilogue = {.residual = 1}},
     2e-5},
    {"whole pieces, activation",
     {.kind = OP_LINEAR,
      .n_in = 3,
      .in = {X(20, 512), Q(KILN_Q4_K, 384, 512), W(384)},
      .out = X(20, 384),
      .epilogue = {.act = KILN_ACT_GELU_TANH}},
     2e-5},
    {"geglu, residual",
     {.kind = OP_LINEAR,
      .n_in = 4,
      .in = {X(33, 320), Q(KILN_Q5_0, 300, 320), W(300), X(33, 150)},
      .out = X(33, 150),
      .epilogue = {.geglu = 1, .residual = 1}},
     2e-5},
    {"filter",
     {.kind = OP_CONV2D,
      .n_in = 3,
      .in = {X(1, 5, 5, 64), Q(KILN_Q8_0, 200, 64, 3, 3), W(200)},
      .out = X(1, 5, 5, 200),
      .attr = FILTER},
     2e-5},
};

static int near_reference(const backend *b, const op_case *c, uint32_t type, size_t most)
{
    op_setup s;
    kernel *k = NULL;
    error e = {0};
    if (!setup_make(&s, c, type, 0)) return 0;
    size_t row = (size_t)(shape_count(&s.op.in[1].shape) / s.op.in[1].shape.dim[0]) * dtype_size(type);
    cuda_widened_most = most ? most : (size_t)64 << 20;
    void *expected = setup_run(&s, &backend_reference, NULL, 1, NULL, NULL, NULL),
         *got = setup_run(&s, b, NULL, 1, NULL, NULL, NULL);
    int ok = expected && got && setup_near(&s, got, expected, setup_tolerance(c, type), c->name);
    /* the widened weights in scratch: 128 rows, or all */
    if (b->prepare(&s.op, &k, &e) != KILN_OK) return 0;
    size_t rows = most ? 128 : (size_t)s.op.in[1].shape.dim[0], beside = k->scratch_bytes - rows * row;
    ok &= CHECK_MSG(k->scratch_bytes >= rows * row && beside <= 33 << 20, "%s: scratch %zu", c->name, k->scratch_bytes);
    if (most) ok &= CHECK_MSG(beside < 1 << 20 || strcmp(k->name, "cublaslt") == 0, "%s: %zu", c->name, beside);
    k->free(k);
    mem_free(expected), mem_free(got);
    setup_free(&s);
    return ok;
}

static int pieces(const backend *b)
{
    int ok = 1;
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++)
        for (int v = 0; v < 4; v++) ok &= near_reference(b, &wide[i], v % 2 ? KILN_BF16 : KILN_F32, v / 2 ? 1000 : 0);
    return ok;
}

static void test_some_columns_at_a_time(void)
{
    apart("plain", 90, pieces);
    apart("mma", 90, pieces);
    apart("library", 90, pieces);
    apart("cudnn", 90, pieces);
}

/* ---- groups ---- */

enum { GROUPS = 8, J = 64, K = 2048, CHOSEN = 2, OTHER = 5, GROUP_ROWS = 7 };

/* Groups that have no rows lie in pages that cannot be read. */
static int groups_without_rows(const backend *b)
{
    op_desc what = {.kind = OP_GROUPED_LINEAR,
                    .n_in = 4,
                    .in = {X(GROUP_ROWS, K), Q(KILN_Q8_0, GROUPS, J, K), {0}, IDS(GROUPS + 1)},
                    .out = X(GROUP_ROWS, J),
                    .precision = KILN_F32};
    kernel *k = NULL;
    error e = {0};
    memory_device *d = NULL;
    device_stream *stream = NULL;
    static float x[GROUP_ROWS * K], out[GROUP_ROWS * J], numbers[J * K];
    static int32_t offset[GROUPS + 1];
    what.in[0].ld = K, what.in[1].ld = K, what.in[3].ld = GROUPS + 1, what.out.ld = J;
    for (int g = 0; g <= GROUPS; g++) offset[g] = g <= CHOSEN ? 0 : g <= OTHER ? 3 : GROUP_ROWS;
    if (!CHECK_MSG(b->prepare(&what, &k, &e) == KILN_OK, "%s", e.message)) return 0;
    size_t each = k->packed_bytes[1] / GROUPS;
    if (!CHECK_EQ(each % (size_t)sysconf(_SC_PAGESIZE), 0)) return 0;
    char *weights = mmap(NULL, GROUPS * each, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < J * K; i++) numbers[i] = (float)(i % 97) / 97;
    for (int g = 0; g < GROUPS; g++) {
        block_write(KILN_Q8_0, numbers, weights + (size_t)g * each, J * K);
        if (g != CHOSEN && g != OTHER && mprotect(weights + (size_t)g * each, each, PROT_NONE) != 0) return 0;
    }
    for (int i = 0; i < GROUP_ROWS * K; i++) x[i] = 1;
    const kernel_args a = {.in = {x, weights, NULL, offset}, .out = out};
    int ok = b->open(0, &d, &e) == KILN_OK && d->table->stream_new(d, &stream, &e) == KILN_OK;
    kernel_args run = a;
    run.stream = stream;
    ok = ok && k->run(k, &run, &e) == KILN_OK && d->table->sync(d, stream, &e) == KILN_OK;
    for (int i = 0; i < GROUP_ROWS * J && ok; i++)
        ok = CHECK_MSG(out[i] > 900 && out[i] < 1100, "%d: %g", i, (double)out[i]);
    if (stream) d->table->stream_free(d, stream);
    munmap(weights, GROUPS * each);
    k->free(k);
    return ok;
}

static void test_groups_without_rows_are_not_read(void) { apart("mma", 90, groups_without_rows); }

/* ---- a program ---- */

enum { LAYERS = 4, SIDE = 6, CHANNELS = 64, HIDDEN = 256, CELLS = SIDE * SIDE, TENSORS = 3 * LAYERS + 1, IDS_N = 3 };
static size_t file_bytes; /* of all weights as they are stored */

static kiln_weights *quantised_set(void)
{
    static float numbers[CHANNELS * CHANNELS * 9];
    static char names[TENSORS][16];
    static int64_t dim[TENSORS][4];
    static uint8_t blocks[TENSORS][sizeof numbers];
    kiln_weight_tensor t[TENSORS];
    error e = {0};
    dice d = {11};
    file_bytes = 0;
    for (int i = 0; i < TENSORS; i++) {
        static const int64_t shapes[4][4] = {
            {CHANNELS, CHANNELS, 3, 3}, {HIDDEN, CHANNELS, 0, 0}, {CHANNELS, HIDDEN, 0, 0}, {50, CHANNELS, 0, 0}};
        int kind = i < 3 * LAYERS ? i % 3 : 3;
        uint32_t type = kind == 2 ? KILN_Q4_K : kind == 1 ? (i < 6 ? KILN_F8_E4M3 : KILN_Q5_1) : KILN_Q8_0;
        size_t n = 1, bytes = 0;
        memcpy(dim[i], shapes[kind], sizeof dim[i]);
        for (int k = 0; k < (kind ? 2 : 4); k++) n *= (size_t)dim[i][k];
        for (size_t k = 0; k < n; k++) numbers[k] = 0.1f * dice_real(&d);
        snprintf(names[i], sizeof names[i], "w.%d", i);
        if (!dtype_bytes(type, n, &bytes)) return NULL;
        for (size_t k = 0; k < n && dtype_is_f8(type); k++) blocks[i][k] = (uint8_t)(dice_next(&d) & 0x9f);
        if (!dtype_is_f8(type) && block_write(type, numbers, blocks[i], n) != KILN_OK) return NULL;
        file_bytes += bytes;
        t[i] = (kiln_weight_tensor){sizeof t[i], type, kind ? 2 : 4, names[i], dim[i], blocks[i]};
    }
    kiln_weights *w = weights_make("quantised", t, TENSORS, &e);
    CHECK_MSG(w != NULL, "%s", e.message);
    return w;
}

/* Each layer: a filter, then an inner dimension, added to what went in. */
static void record_net(recording *r, kiln_weights *w)
{
    const op_attr filter = FILTER;
    char name[16];
    kiln_t x = record_input(r, "x", KILN_F32, 4, DIMS(1, SIDE, SIDE, CHANNELS)), none = {0};
    kiln_t ids = record_input(r, "ids", KILN_I32, 1, DIMS(IDS_N));
    for (int i = 0; i < LAYERS; i++) {
        kiln_t k[3];
        for (int j = 0; j < 3; j++) {
            snprintf(name, sizeof name, "w.%d", 3 * i + j);
            k[j] = record_weight(r, w, name, j ? 2 : 4,
                                 j == 0   ? DIMS(CHANNELS, CHANNELS, 3, 3)
                                 : j == 1 ? DIMS(HIDDEN, CHANNELS)
                                          : DIMS(CHANNELS, HIDDEN),
                                 0);
        }
        kiln_t y = record_op(r, OP_CONV2D, &filter, (kiln_t[]){x, k[0], none}, 3);
        y = record_op(r, OP_LINEAR, &(op_attr){0}, (kiln_t[]){y, k[1], none}, 3);
        y = record_op(r, OP_ACT, &(op_attr){.act = {KILN_ACT_SILU}}, &y, 1);
        y = record_op(r, OP_LINEAR, &(op_attr){0}, (kiln_t[]){y, k[2], none}, 3);
        x = record_op(r, OP_ADD, &(op_attr){0}, (kiln_t[]){x, y}, 2);
    }
    snprintf(name, sizeof name, "w.%d", 3 * LAYERS);
    kiln_t table = record_weight(r, w, name, 2, DIMS(50, CHANNELS), 0);
    record_output(r, "e", record_op(r, OP_EMBEDDING, &(op_attr){0}, (kiln_t[]){table, ids}, 2));
    record_output(r, "y", x);
}

typedef struct {
    float y[CELLS * CHANNELS], e[IDS_N * CHANNELS];
} results;

static kiln_status run_net(kiln_program *p, results *to, error *e)
{
    static float x[CELLS * CHANNELS];
    static int32_t ids[IDS_N] = {49, 0, 7};
    static const int64_t picture[] = {1, SIDE, SIDE, CHANNELS}, n_ids[] = {IDS_N}, rows[] = {IDS_N, CHANNELS};
    dice d = {9};
    for (int i = 0; i < CELLS * CHANNELS; i++) x[i] = dice_real(&d);
#define BIND(name, type, rank_, dims, at)                                                                              \
    (kiln_bind) KILN_BIND(                                                                                             \
        name,                                                                                                          \
        {.size = sizeof(kiln_tensor), .dtype = type, .device = KILN_CPU, .rank = rank_, .dim = dims, .data = at})
    memset(to, 0, sizeof *to);
    return run_or_estimate(
        p, (kiln_bind[]){BIND("x", KILN_F32, 4, picture, x), BIND("ids", KILN_I32, 1, n_ids, ids)}, 2,
        (kiln_bind[]){BIND("y", KILN_F32, 4, picture, to->y), BIND("e", KILN_F32, 2, rows, to->e)}, 2, NULL, NULL, e);
}

typedef struct {
    results r;
    size_t weights, least, whole; /* resident bytes; limits of an estimate */
    uint64_t in;                  /* bytes copied to the device by the last run */
} outcome;

/* Five runs, of equal bytes; from the third on they are a graph where the device has them. */
static int compute(kiln_weights *w, const backend *b, uint32_t precision, size_t limit, outcome *o)
{
    error e = {0};
    static results again;
    runtime *rt = runtime_new(
        &(runtime_setting){
            .backend = b, .threads = 1, .precision = precision, .memory = limit, .host_memory = SIZE_MAX},
        &e);
    kiln_program *p = rt ? program_new(rt, "net", 0, &e) : NULL;
    if (p) record_net(program_recording(p), w);
    int ok = p && program_plan(p, &e) == KILN_OK && run_net(p, &o->r, &e) == KILN_OK;
    for (int i = 0; i < 4 && ok; i++) {
        uint64_t before = fake_device_look().bytes_in;
        ok = run_net(p, &again, &e) == KILN_OK && CHECK(memcmp(&again, &o->r, sizeof again) == 0);
        o->in = fake_device_look().bytes_in - before;
    }
    if (rt) o->weights = residency_bytes(runtime_residency(rt));
    if (ok && limit) ok = CHECK(budget_peak(residency_budget(runtime_residency(rt))) <= limit);
    set_estimating(rt, 1);
    ok = ok && run_net(p, &again, &e) == KILN_OK;
    set_estimating(rt, 0);
    if (ok) o->least = runtime_get_estimate(rt).least, o->whole = runtime_get_estimate(rt).whole;
    CHECK_MSG(ok, "limit %zu: %s", limit, e.message);
    program_free(p);
    runtime_free(rt);
    return ok;
}

static int close_to(const results *a, const results *b, float bound)
{
    const float *x = a->y, *y = b->y;
    float worst = 0, largest = 0;
    for (size_t i = 0; i < sizeof *a / sizeof *x; i++) {
        if (fabsf(y[i]) > largest) largest = fabsf(y[i]);
        if (!(fabsf(x[i] - y[i]) <= worst)) worst = fabsf(x[i] - y[i]);
    }
    return CHECK_MSG(worst <= bound * largest, "differs by %g of %g", (double)worst, (double)largest);
}

static int resident_and_streamed(const backend *b)
{
    static outcome truth, whole, some, least;
    static const uint32_t precisions[] = {KILN_F32, KILN_BF16};
    kiln_weights *w = quantised_set();
    int ok = w && compute(w, &backend_reference, KILN_F32, 0, &truth);
    for (int i = 0; i < 2 && ok; i++) {
        ok = compute(w, b, precisions[i], 0, &whole) && close_to(&whole.r, &truth.r, i ? 2e-2f : 1e-5f);
        /* each at most 256 bytes beyond what the file has */
        ok = ok && CHECK_MSG(whole.weights >= file_bytes && whole.weights <= file_bytes + 256 * TENSORS,
                             "%zu bytes resident, the file has %zu", whole.weights, file_bytes);
        ok = ok && CHECK(whole.in < file_bytes / 4); /* nothing is streamed */
        ok = ok && compute(w, b, precisions[i], (whole.least + whole.whole) / 2, &some) &&
             compute(w, b, precisions[i], whole.least, &least);
        ok = ok && CHECK(!memcmp(&some.r, &whole.r, sizeof whole.r) && !memcmp(&least.r, &whole.r, sizeof whole.r));
        ok = ok && CHECK_MSG(least.in > file_bytes / 4 && least.in < file_bytes + (64 << 10),
                             "%llu bytes streamed, the file has %zu", (unsigned long long)least.in, file_bytes);
    }
    weights_unref(w);
    return ok;
}

/* The device's memory is made anew with graphs for this one. */
static int with_graphs(const backend *b)
{
    (void)b;
    fake_device_close();
    cu_emu_forget();
    fake_device_open(&(fake_setting){.bytes = 64 << 20, .seed = 7, .graphs = 1, .fail_at = -1});
    return resident_and_streamed(kiln_cuda_library.backend);
}

static void test_resident_and_streamed_alike(void)
{
    apart("mma", 90, resident_and_streamed);
    apart("library", 90, with_graphs);
}

/* ---- codes with scales beside them, and experts that are several tensors ---- */

enum { OUT = 64, IN = 256, ALL = OUT * IN, CODED = 5 };

typedef struct {
    const char *name, *type, *shape;
    const void *data;
    size_t bytes;
} raw_tensor;

static int write_raw(const char *path, const raw_tensor *t, size_t n)
{
    static char text[8192];
    size_t at = 0, offset = 0;
    FILE *f = fopen(path, "wb");
    for (size_t i = 0; i < n; offset += t[i++].bytes)
        at += (size_t)snprintf(text + at, sizeof text - at,
                               "%c\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}", i ? ',' : '{',
                               t[i].name, t[i].type, t[i].shape, offset, offset + t[i].bytes);
    at += (size_t)snprintf(text + at, sizeof text - at, "}");
    while (at % 8) text[at++] = ' ';
    const uint64_t length = at;
    if (!f) return 0;
    fwrite(&length, 8, 1, f), fwrite(text, 1, at, f);
    for (size_t i = 0; i < n; i++) fwrite(t[i].data, 1, t[i].bytes, f);
    return fclose(f) == 0;
}

/* f8 with one scale, with one a row, and with one for each 128 x 128; int8 by rows; nf4. */
static kiln_weights *coded_set(void)
{
    static const char nf4[] =
        "{\"quant_type\": \"nf4\", \"blocksize\": 64, \"dtype\": \"bfloat16\", \"shape\": [64, 256]}";
    static uint8_t code[2][ALL];
    static float scale[ALL / 64], map[16];
    char path[600], json[24];
    error e = {0};
    dice d = {3};
    for (int i = 0; i < ALL; i++) code[0][i] = (uint8_t)(dice_next(&d) & 0xbf), code[1][i] = (uint8_t)dice_next(&d);
    for (int i = 0; i < ALL / 64; i++) scale[i] = 0.1f + 0.05f * dice_real(&d);
    for (int i = 0; i < 16; i++) map[i] = (float)(i - 7) / 8;
    snprintf(path, sizeof path, "%s/coded.safetensors", test_folder());
    snprintf(json, sizeof json, "%zu", strlen(nf4));
    const raw_tensor t[] = {{"0.weight", "F8_E4M3", "64,256", code[0], ALL},
                            {"0.scale_weight", "F32", "1", scale, 4},
                            {"1.weight", "F8_E5M2", "64,256", code[0], ALL},
                            {"1.weight_scale", "F32", "64,1", scale, 4 * OUT},
                            {"2.weight", "F8_E4M3", "64,256", code[0], ALL},
                            {"2.weight_scale_inv", "F32", "1,2", scale, 8},
                            {"3.weight", "I8", "64,256", code[1], ALL},
                            {"3.SCB", "F32", "64", scale, 4 * OUT},
                            {"4.weight", "U8", "8192,1", code[1], ALL / 2},
                            {"4.weight.absmax", "F32", "256", scale, ALL / 64 * 4},
                            {"4.weight.quant_map", "F32", "16", map, 64},
                            {"4.weight.quant_state.bitsandbytes__nf4", "U8", json, nf4, strlen(nf4)}};
    kiln_weights *w = write_raw(path, t, sizeof t / sizeof t[0]) ? weights_open(path, &e) : NULL;
    CHECK_MSG(w != NULL, "%s", e.message);
    return w;
}

/* Two experts of blocks that are tensors of their own, seen as one. */
static kiln_weights *joined_set(void)
{
    static float numbers[ALL];
    static uint8_t blocks[2][ALL];
    static const int64_t dim[] = {OUT, IN};
    error e = {0};
    dice d = {4};
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < ALL; i++) numbers[i] = 0.1f * dice_real(&d);
        if (block_write(KILN_Q4_K, numbers, blocks[k], ALL) != KILN_OK) return NULL;
    }
    const kiln_weight_tensor t[] = {{sizeof t[0], KILN_Q4_K, 2, "e.0.w", dim, blocks[0]},
                                    {sizeof t[0], KILN_Q4_K, 2, "e.1.w", dim, blocks[1]}};
    const kiln_weight_rule rule = KILN_RULE(.from = "e.0.w", .to = "bank", .join = KILN_JOIN_STACK, .each = "e.#.w");
    kiln_weights *w = weights_make("experts", t, 2, &e), *v = w ? weights_view(w, &rule, 1, &e) : NULL;
    CHECK_MSG(v != NULL, "%s", e.message);
    weights_unref(w);
    return v;
}

typedef struct {
    float y[CODED][20 * OUT], turned[20 * IN], row[IDS_N * IN], expert[20 * OUT];
} coded_results;

static void record_coded(recording *r, kiln_weights *coded, kiln_weights *joined, int rows)
{
    char name[16];
    kiln_t none = {0}, k[CODED], x = record_input(r, "x", KILN_F32, 2, DIMS(rows, IN));
    kiln_t ids = record_input(r, "ids", KILN_I32, 1, DIMS(IDS_N)), y = none;
    for (int i = 0; i < CODED; i++) {
        snprintf(name, sizeof name, "%d.weight", i);
        k[i] = record_weight(r, coded, name, 2, DIMS(OUT, IN), 0);
        y = record_op(r, OP_LINEAR, &(op_attr){0}, (kiln_t[]){x, k[i], none}, 3);
        snprintf(name, sizeof name, "y%d", i);
        record_output(r, name, y);
    }
    record_output(r, "turned", record_op(r, OP_LINEAR_T, &(op_attr){0}, (kiln_t[]){y, k[1], none}, 3));
    record_output(r, "row", record_op(r, OP_EMBEDDING, &(op_attr){0}, (kiln_t[]){k[4], ids}, 2));
    kiln_t bank = record_weight(r, joined, "bank", 3, DIMS(2, OUT, IN), 0);
    record_output(r, "expert", record_op(r, OP_GROUPED_LINEAR, &(op_attr){0}, (kiln_t[]){x, bank, none, ids}, 4));
}

static kiln_status run_coded(kiln_program *p, int rows, coded_results *to, error *e)
{
    static float x[20 * IN];
    int32_t ids[IDS_N] = {0, rows / 2, rows}; /* of rows, and where experts' rows begin */
    const int64_t in[] = {rows, IN}, n_ids[] = {IDS_N}, out[] = {rows, OUT}, ids_rows[] = {IDS_N, IN};
    dice d = {9};
    for (int i = 0; i < rows * IN; i++) x[i] = dice_real(&d);
    memset(to, 0, sizeof *to);
    const kiln_bind given[] = {BIND("x", KILN_F32, 2, in, x), BIND("ids", KILN_I32, 1, n_ids, ids)};
    const kiln_bind made[] = {
        BIND("y0", KILN_F32, 2, out, to->y[0]),      BIND("y1", KILN_F32, 2, out, to->y[1]),
        BIND("y2", KILN_F32, 2, out, to->y[2]),      BIND("y3", KILN_F32, 2, out, to->y[3]),
        BIND("y4", KILN_F32, 2, out, to->y[4]),      BIND("turned", KILN_F32, 2, in, to->turned),
        BIND("row", KILN_F32, 2, ids_rows, to->row), BIND("expert", KILN_F32, 2, out, to->expert)};
    return program_run(p, given, 2, made, sizeof made / sizeof made[0], NULL, NULL, e);
}

static int compute_coded(const backend *b, kiln_weights *const set[2], int rows, coded_results *to, size_t *bytes)
{
    error e = {0};
    runtime *rt = runtime_new(&(runtime_setting){.backend = b, .threads = 1, .precision = KILN_F32}, &e);
    kiln_program *p = rt ? program_new(rt, "coded", 0, &e) : NULL;
    if (p) record_coded(program_recording(p), set[0], set[1], rows);
    int ok = p && program_plan(p, &e) == KILN_OK && run_coded(p, rows, to, &e) == KILN_OK;
    CHECK_MSG(ok, "%s", e.message);
    if (ok) *bytes = residency_bytes(runtime_residency(rt));
    program_free(p);
    runtime_free(rt);
    return ok;
}

static int near_each(const float *a, const float *b, size_t n, const char *what)
{
    float worst = 0, largest = 0;
    for (size_t i = 0; i < n; i++) {
        if (fabsf(b[i]) > largest) largest = fabsf(b[i]);
        if (!(fabsf(a[i] - b[i]) <= worst)) worst = fabsf(a[i] - b[i]);
    }
    return CHECK_MSG(largest > 0 && worst <= 2e-6f * largest, "%s differs by %g of %g", what, (double)worst,
                     (double)largest);
}

static int codes_and_experts(const backend *b)
{
    static coded_results truth, got;
    kiln_weights *set[2] = {coded_set(), joined_set()};
    size_t bytes = 0, plain = 0;
    /* codes and scales as kept: those of one scale have it for every row */
    const size_t kept =
        4 * ALL + 4 * OUT + 4 * OUT + 8 * OUT + 4 * OUT + ALL / 2 + ALL / 64 * 4 + 64 + ALL / 256 * 144 * 2;
    int ok = set[0] && set[1];
    for (int rows = 3; rows <= 20 && ok; rows += 17) {
        ok = compute_coded(&backend_reference, set, rows, &truth, &plain) && compute_coded(b, set, rows, &got, &bytes);
        for (int i = 0; i < CODED && ok; i++) ok = near_each(got.y[i], truth.y[i], (size_t)(rows * OUT), "a product");
        ok = ok && near_each(got.turned, truth.turned, (size_t)(rows * IN), "turned") &&
             near_each(got.row, truth.row, IDS_N * IN, "a row") &&
             near_each(got.expert, truth.expert, (size_t)(rows * OUT), "an expert") &&
             CHECK_MSG(bytes >= kept && bytes <= kept + 256 * 6, "%zu bytes kept, not %zu", bytes, kept);
    }
    weights_unref(set[0]), weights_unref(set[1]);
    return ok;
}

static void test_codes_with_scales_and_joined_experts(void)
{
    apart("mma", 90, codes_and_experts);
    apart("plain", 75, codes_and_experts);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        CASE(test_every_type_bit_for_bit),      CASE(test_packed_weights_are_the_files_bytes),
        CASE(test_some_columns_at_a_time),      CASE(test_groups_without_rows_are_not_read),
        CASE(test_resident_and_streamed_alike), CASE(test_codes_with_scales_and_joined_experts)};
    return test_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
