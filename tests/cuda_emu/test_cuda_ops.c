/* test_cuda_ops.c - every op of the CUDA backend against its plain C reference: the table of tests/backend, in f32,
 * bf16 and f16 storage, dense and with distance between rows, on a chip that has all of the instructions and on sm_75,
 * which has fewer, with the kernels run on the host (cu_shim.h) over a device that is none, under several orders of
 * threads. KILN_TEST_FULL=1 (make test-memory): several orders of threads and blocks, which must give equal bytes, and
 * every way of making products. NVIDIA's libraries are stand-ins (fake_vendor.h): what calls them runs, their kernels
 * do not; the output says which is which. With KILN_TEST_GPU=1 the same table runs on the GPU, with the library that
 * `make` built (scripts/gpu-check); KILN_TEST_SHORT=1: in its short form there too, for tools that make everything
 * slow; KILN_TEST_OPS=linear: the rows whose name begins so. The last case says which kernels ran, by file, and fails
 * when one never did.
 *
 * Tolerances are test_ops.c's; bf16 attention on tensor cores 2^-7, since the weights of the values are rounded to bf16
 * there (a rounding of 2^-9 of each, and sums of their roundings), as in every implementation that uses them; bf16
 * convolutions with a bias, an activation or a residual by cuDNN 2^-8, since the product is rounded to bf16 before
 * those (measured: 3.1e-3 at most).
 */
#include "cu_emu.h"
#include "fake_cuda.h"
#include "kernel_list.h"

#include "../backend/ops_run.h"
#include "../backend/test_ops_table.h"
#include "../memory/fake_device.h"
#include "backend/cuda_load.h"
#include "backend/host_vector_ops.h"
#include "backend/runtime.h"
#include "base/memory_alloc.h"
#include "graph/shape_rules.h"
#include "harness.h"
#include "tensor/dtype.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern const cuda_library kiln_cuda_library;
enum { N_CASES = sizeof cases / sizeof cases[0], NOT_HERE = 77 };
/* mixed: every other operand is of this type, where the op reads any */
typedef struct {
    uint32_t type;
    int64_t pad;
    uint32_t mixed;
    int odd, saturates;
} variant;
static const variant variants[] = {
    {KILN_F32, 0, 0, 0, 0},         {KILN_BF16, 0, 0, 0, 0},       {KILN_F16, 0, 0, 0, 0},
    {KILN_F32, 8, 0, 0, 0},         {KILN_BF16, 8, 0, 0, 0},       {KILN_F16, 8, 0, 0, 0},
    {KILN_BF16, 3, 0, 0, 0},        {KILN_F16, 3, 0, 0, 0},        {KILN_BF16, 3, KILN_F32, 0, 0},
    {KILN_F32, 0, KILN_BF16, 1, 0}, {KILN_F16, 0, KILN_F32, 1, 0}, {KILN_F16, 0, 0, 0, 1}};

static int on_gpu(void) { return getenv("KILN_TEST_GPU") != NULL; }

/* In short: the tensor-core kernels, which fall back on the plain ones for f32 and odd sizes; rows 0 and 3 apart, f16 0
 * and, on sm_75, 8; what is large in one of these on each chip. */
static int full(void) { return (on_gpu() && !getenv("KILN_TEST_SHORT")) || getenv("KILN_TEST_FULL") != NULL; }

/* What ran, added up over the processes of this program. */
typedef struct {
    uint64_t launches, blocks;
} kernel_runs;
static kernel_runs *runs; /* [n_listed] */
static listed_kernel listed[KERNELS_MAX];
static size_t n_listed;

static void list_kernels(void)
{
    char folder[4096];
    snprintf(folder, sizeof folder, "%s/engine/backend/cuda", test_root());
    n_listed = kernel_list(folder, listed);
    void *shared = mmap(NULL, sizeof *runs * KERNELS_MAX, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    runs = shared == MAP_FAILED ? NULL : shared;
}

static void note_runs(void)
{
    for (size_t i = 0; runs && i < n_listed; i++) {
        uint64_t blocks;
        runs[i].launches += cu_emu_ran(listed[i].name, &blocks);
        runs[i].blocks += blocks;
    }
}

static const char *only(void) { return getenv("KILN_TEST_OPS") ? getenv("KILN_TEST_OPS") : ""; }

static const backend *the_backend(error *e) { return on_gpu() ? cuda_backend(e) : kiln_cuda_library.backend; }

static double tolerance_of(const op_case *c, uint32_t type)
{
    const char *products = getenv("KILN_CUDA_GEMM");
    if (type == KILN_F32) return c->tolerance > 0 ? c->tolerance : 2e-6;
    for (uint32_t i = 0; i < c->op.n_in; i++)
        if (dtype_is_block(c->op.in[i].dtype) || c->op.in[i].rows.coding) return setup_tolerance(c, type);
    if (type == KILN_F16) return c->op.kind == OP_ATTENTION ? 0x1p-10 : 1e-4;
    if (c->op.kind == OP_CONV2D && products && strcmp(products, "cudnn") == 0) return 0x1p-8;
    return c->op.kind == OP_ATTENTION ? 0x1p-7 : 1e-3;
}

/* 0: the row has no such variant */
static int changed(op_setup *s, const variant *v)
{
    if (v->mixed) return setup_mix(s, v->mixed, v->odd);
    return v->saturates ? setup_saturate(s) : 1;
}

static int run_variant(const backend *b, const op_case *c, const variant *v, int orders)
{
    char what[160];
    op_setup s;
    uint32_t type = v->type;
    snprintf(what, sizeof what, "%s %s, rows %d apart%s%s%s", c->name, dtype_name(type), (int)v->pad,
             v->mixed ? ", some " : "", v->mixed ? dtype_name(v->mixed) : "", v->saturates ? ", saturating" : "");
    if (!setup_make(&s, c, type, v->pad)) return 0;
    if (!changed(&s, v)) return setup_free(&s), 1;
    void *expected = setup_run(&s, &backend_reference, NULL, 1, NULL, NULL, NULL), *first = NULL;
    int ok = expected != NULL;
    for (int order = 0; order < orders && ok; order++) {
        cu_emu_seed((uint64_t)order * 77 + 1);
        void *got = setup_run(&s, b, NULL, 1, NULL, NULL, NULL);
        ok = got && setup_near(&s, got, expected, tolerance_of(c, type) * (v->saturates ? SATURATED : 1), what);
        if (ok && first && memcmp(first, got, setup_bytes(&s)))
            printf("  %s: other bytes under another order\n", what), ok = 0;
        if (!first)
            first = got;
        else
            mem_free(got);
    }
    mem_free(first), mem_free(expected);
    setup_free(&s);
    return ok;
}

/* ---- kiln_ops' vector ops through the runtime: the bytes that host_vector_ops.c computes ---- */

enum {
    PICTURES = 3,
    HEIGHT = 13,
    WIDTH = 9,
    CHANNELS = 5,
    NUMBERS = PICTURES * HEIGHT * WIDTH * CHANNELS, /* no multiple of a block */
    VECTORS = 5
};

typedef struct {
    runtime *rt;
    float host[VECTORS][NUMBERS]; /* what device[] has to hold */
    float *device[VECTORS];
    error e;
} vectors;

static int vectors_open(vectors *v, runtime *rt)
{
    void *memory;
    *v = (vectors){.rt = rt};
    for (int k = 0; k < VECTORS; k++) {
        for (int i = 0; i < NUMBERS; i++) v->host[k][i] = (float)((i * (37 + 12 * k) + k) % 1009 - 504) * 0.0137f;
        v->host[k][k] = -0.0f;
        if (runtime_vector_new(rt, sizeof v->host[k], &memory, &v->e) != KILN_OK) return 0;
        v->device[k] = memory;
        if (runtime_upload(rt, v->device[k], v->host[k], NUMBERS, &v->e) != KILN_OK) return 0;
    }
    return 1;
}

static void vectors_close(vectors *v)
{
    for (int k = 0; k < VECTORS; k++)
        if (v->device[k]) runtime_vector_free(v->rt, sizeof v->host[k], v->device[k]);
}

/* The device did it, the host did the same to v->host: every vector holds the same bytes. */
static int agrees(vectors *v, const char *name, kiln_status device, kiln_status host)
{
    float got[NUMBERS];
    int ok = device == KILN_OK && host == KILN_OK;
    for (int k = 0; k < VECTORS && ok; k++)
        ok = runtime_download(v->rt, got, v->device[k], NUMBERS, &v->e) == KILN_OK &&
             memcmp(got, v->host[k], sizeof got) == 0;
    if (!ok) printf("  %s on the device: %s\n", name, v->e.message[0] ? v->e.message : "not the host's bytes");
    return ok;
}

static int sums_agree(vectors *v)
{
    double c[KILN_MAX_TERMS];
    const float *there[KILN_MAX_TERMS], *here[KILN_MAX_TERMS];
    for (int k = 0; k < KILN_MAX_TERMS; k++)
        c[k] = 0.7 - 0.03 * k, there[k] = v->device[k % VECTORS], here[k] = v->host[k % VECTORS];
    int ok = 1;
    static const uint32_t terms[] = {1, 3, KILN_MAX_TERMS, 0};
    for (int k = 0; k < 4; k++)
        ok &= agrees(v, "combine", runtime_combine(v->rt, v->device[k], NUMBERS, terms[k], c, there, &v->e),
                     host_vector_ops.combine(v->host[k], NUMBERS, terms[k], c, here, NULL, NULL));
    c[0] = 1; /* a copy keeps the sign of zeros */
    ok &= agrees(v, "copy", runtime_combine(v->rt, v->device[0], NUMBERS, 1, c, (const float *[]){v->device[4]}, &v->e),
                 (memcpy(v->host[0], v->host[4], sizeof v->host[0]), KILN_OK));
    kiln_difference d = {.size = sizeof d,
                         .n = NUMBERS,
                         .x = v->device[4],
                         .a = v->device[1],
                         .b = v->device[0],
                         .t = 7.3},
                    h = d;
    h.x = v->host[4], h.a = v->host[1], h.b = v->host[0];
    return ok & agrees(v, "add_difference", runtime_add_difference(v->rt, &d, v->device[1], &v->e),
                       host_vector_ops.add_difference(&h, v->host[1], NULL, NULL));
}

/* A device adds up in another order: 1e-14 of the sum of what is added. */
static int dots_agree(vectors *v)
{
    const double a[] = {0.7, -1.3, 1e-3}, b[] = {0.2, 0.5, -1};
    const float *there[] = {v->device[0], v->device[1], v->device[4]}, *here[] = {v->host[0], v->host[1], v->host[4]};
    int ok = 1;
    for (int k = 0; k < 3; k++) {
        kiln_dot d = {.size = sizeof d,
                      .n = NUMBERS,
                      .terms = k == 2 ? 1 : 3,
                      .a = a,
                      .b = k == 1 ? NULL : b,
                      .shift = 0.3 * k,
                      .x = there},
                 h = d, size = d;
        double got = 0, want = 0, scale = 0;
        h.x = here, size.x = here, size.b = a, size.shift = 5;
        ok &= runtime_dot(v->rt, &d, &got, &v->e) == KILN_OK && host_vector_ops.dot(&h, &want, NULL, NULL) == KILN_OK &&
              host_vector_ops.dot(&size, &scale, NULL, NULL) == KILN_OK && want != 0 &&
              fabs(got - want) <= 1e-14 * scale;
    }
    double norm = 0, squares = 0;
    ok &= runtime_norm(v->rt, v->device[4], NUMBERS, &norm, &v->e) == KILN_OK;
    for (int i = 0; i < NUMBERS; i++) squares += (double)v->host[4][i] * (double)v->host[4][i];
    ok &= norm > 0 && fabs(norm - sqrt(squares / NUMBERS)) <= 1e-12 * norm;
    if (!ok) printf("  dot on the device: %s\n", v->e.message[0] ? v->e.message : "too far from the host's");
    return ok;
}

/* Masks, parts of pictures, weights: one for two or three pictures. */
static int areas_agree(vectors *v)
{
    kiln_blend m = {.size = sizeof m, .pictures = PICTURES, .cells = HEIGHT * WIDTH, .channels = CHANNELS, .masks = 2},
               n = m;
    m.a = v->device[0], m.b = v->device[1], m.mask = v->device[4];
    n.a = v->host[0], n.b = v->host[1], n.mask = v->host[4];
    int ok = agrees(v, "blend", runtime_blend(v->rt, &m, v->device[1], &v->e),
                    host_vector_ops.blend(&n, v->host[1], NULL, NULL));
    const kiln_area a = {sizeof a, PICTURES, HEIGHT, WIDTH, CHANNELS, 2, 3, 7, 5};
    ok &= agrees(v, "crop", runtime_crop(v->rt, &a, v->device[1], v->device[2], &v->e),
                 host_vector_ops.crop(&a, v->host[1], v->host[2], NULL, NULL));
    for (int64_t weights = 0; weights < 3; weights++) {
        kiln_part p = {.size = sizeof p,
                       .data = v->device[2],
                       .weight = weights ? v->device[4] : NULL,
                       .weights = weights},
                  q = p;
        q.data = v->host[2], q.weight = weights ? v->host[4] : NULL;
        ok &= agrees(v, "accumulate", runtime_accumulate(v->rt, &a, &p, v->device[0], v->device[3], &v->e),
                     host_vector_ops.accumulate(&a, &q, v->host[0], v->host[3], NULL, NULL));
    }
    v->host[3][1] = 1, v->host[3][2] = 0;
    ok &= runtime_upload(v->rt, v->device[3], v->host[3], NUMBERS, &v->e) == KILN_OK;
    return ok & agrees(v, "divide",
                       runtime_divide(v->rt, v->device[0], v->device[3], PICTURES * HEIGHT * WIDTH, CHANNELS, &v->e),
                       host_vector_ops.divide(v->host[0], v->host[3], PICTURES * HEIGHT * WIDTH, CHANNELS, NULL, NULL));
}

static int vectors_right(runtime *rt)
{
    vectors v;
    int ok = vectors_open(&v, rt);
    if (!ok) printf("  vectors on the device: %s\n", v.e.message);
    ok = ok && (sums_agree(&v) & dots_agree(&v) & areas_agree(&v));
    vectors_close(&v);
    return ok;
}

static int run_vectors(const backend *b)
{
    error e = {0};
    runtime *rt = runtime_new(&(runtime_setting){.backend = b, .threads = 1, .precision = KILN_F32}, &e);
    int ok = rt && vectors_right(rt);
    if (!rt) printf("  %s\n", e.message);
    runtime_free(rt);
    return ok;
}

/* What the stand-ins were asked; returns how much of it none may ask, and descriptors left behind. */
static unsigned say_libraries(uint64_t happened[2])
{
    static const struct {
        const char *variable, *calls;
    } all[] = {{"KILN_CUBLASLT", "cuBLASLt: cublaslt.c"}, {"KILN_CUDNN", "cuDNN: cudnn.c"}};
    unsigned wrong = 0;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        const fake_vendor *v = fake_cuda_vendor(all[i].variable);
        fake_vendor_report r = v ? v->report() : (fake_vendor_report){0};
        wrong += r.faults + r.live;
        happened[i] = r.happened;
        if (r.happened)
            printf("# %s ran over a stand-in, %llu calls, %llu products; the library itself did not run\n",
                   all[i].calls, (unsigned long long)r.calls, (unsigned long long)r.happened);
    }
    return wrong;
}

/* The tensor cores did what is asked of them: those of sm_75 know neither bf16 nor the deeper product. */
static int right_instructions(const char *products, int sm, uint32_t only)
{
    int plain = strcmp(products, "plain") == 0, old = sm < 80, fine = 1, bf16 = !only || only == KILN_BF16,
        f16 = !only || only == KILN_F16;
    fine &= (cu_emu_count(CU_EMU_MMA16_BF16) > 0) == (!plain && !old && bf16);
    fine &= (cu_emu_count(CU_EMU_MMA16_F16) > 0) == (!plain && !old && f16);
    fine &= (cu_emu_count(CU_EMU_MMA8_F16) > 0) == (!plain && old && f16);
    if (!fine) printf("  sm_%d, %s: not the instructions that belong there\n", sm, products);
    return fine;
}

/* Over 10^7 multiplications, which the emulation takes up to seconds for. */
static int is_large(const op_case *c)
{
    const shape *in[OP_MAX_IN];
    for (uint32_t i = 0; i < c->op.n_in; i++) in[i] = &c->op.in[i].shape;
    return flops_of_op(c->op.kind, &c->op.attr, in, c->op.n_in, &c->op.out.shape) > 20000000;
}

static int in_table(const op_case *c, size_t v, uint32_t only)
{
    if (only && variants[v].type != only) return 0;
    if (full()) return 1;
    if (variants[v].mixed || variants[v].saturates) return !only && !is_large(c);
    if (is_large(c))
        return variants[v].type == (only ? only : (uint32_t)KILN_BF16) && variants[v].pad == (only == KILN_F16 ? 8 : 3);
    if (variants[v].type == KILN_F16) return variants[v].pad == (only ? 8 : 0);
    return variants[v].pad != 8;
}

typedef struct job {
    const char *products;
    int libraries, orders; /* how many of NVIDIA's libraries make some of the products */
    const char *prefix;    /* of the rows' names */
    int sm;                /* the chip */
    uint32_t only;         /* a type of storage; 0: all */
    int (*work)(const struct job *, const backend *, int *ran); /* returns how many of its runs failed */
} job;

/* In a process of its own: how GEMMs are computed is chosen once in each. */
static void in_process(job j)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        error e = {0};
        int ran = 0;
        setenv("KILN_CUDA_GEMM", j.products, 1);
        fake_cuda_chip(j.sm / 10, j.sm % 10);
        fake_device_open(&(fake_setting){.bytes = 256 << 20, .seed = 5, .fail_at = -1});
        const backend *b = the_backend(&e);
        memory_device *d = NULL;
        if (!b) printf("  %s\n", e.message), _exit(101);
        if (b->open(0, &d, &e) != KILN_OK)
            printf("  %s\n", e.message), fflush(stdout), _exit(on_gpu() ? NOT_HERE : 101);
        int failed = j.work(&j, b, &ran);
        uint64_t by_library[2] = {0};
        unsigned wrong = 0;
        if (!on_gpu()) wrong = say_libraries(by_library);
        note_runs();
        fake_report r = fake_device_close();
        printf("  %s: %d runs, %d failed, %u faults of kernels, %u of the host, %u of calls to libraries\n",
               b->numerics(), ran, failed, cu_emu_faults(), r.faults, wrong);
        fflush(stdout);
        int none = ran == 0 || (!on_gpu() && (int)(by_library[0] > 0) + (int)(by_library[1] > 0) != j.libraries);
        _exit(failed || cu_emu_faults() || r.faults || wrong || none);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_HERE)
        test_skip("this machine has no such products");
    else
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static int refuses(const backend *b, const op_case *c)
{
    op_setup s;
    error e = {0};
    kernel *k = NULL;
    if (!setup_make(&s, c, KILN_F32, 0)) return 0;
    const int refused = !b->takes && b->prepare(&s.op, &k, &e) == KILN_ERR_UNSUPPORTED;
    if (k) k->free(k);
    setup_free(&s);
    if (!refused) printf("  %s: not refused\n", c->name);
    return refused;
}

static int table(const job *j, const backend *b, int *ran)
{
    int failed = 0;
    for (size_t i = 0; i < N_CASES; i++) {
        if ((j->prefix && strncmp(cases[i].name, j->prefix, strlen(j->prefix)) != 0) ||
            strncmp(cases[i].name, only(), strlen(only())) != 0)
            continue;
        if (is_of_taken_rows(&cases[i])) {
            (*ran)++, failed += !refuses(b, &cases[i]);
            continue;
        }
        for (size_t v = 0; v < sizeof variants / sizeof variants[0]; v++)
            if (in_table(&cases[i], v, j->only))
                (*ran)++, failed += !run_variant(b, &cases[i], &variants[v], j->orders);
    }
    if (!on_gpu() && !*only() && (cu_emu_count(CU_EMU_WGMMA) > 0) != (strcmp(j->products, "wgmma") == 0))
        printf("  %s: products of warpgroups, or none\n", j->products), failed++;
    if (!j->prefix && !*only()) (*ran)++, failed += !run_vectors(b);
    if (!on_gpu() && !j->prefix && !*only()) failed += !right_instructions(j->products, j->sm, j->only);
    return failed;
}

/* Rows of a mask of 70 keys: of nothing, of all but the first 64 and all but the last 6 (whole tiles of a kernel are
 * hidden), of one key. */
static int hidden_keys(const job *j, const backend *b, int *ran)
{
    static const op_case masked[] = {ATTEND("hidden keys, head of 40", 1, 17, 70, 1, 40, 0, 4, X(1, 1, 17, 70)),
                                     ATTEND("hidden keys, head of 168", 1, 17, 70, 1, 168, 0, 4, X(1, 1, 17, 70)),
                                     ATTEND("hidden keys, head of 512", 1, 17, 70, 1, 512, 0, 4, X(1, 1, 17, 70))};
    static const struct {
        int row, from, to;
    } hidden[] = {{0, 0, 70}, {3, 0, 64}, {5, 64, 70}, {8, 0, 37}, {8, 38, 70}, {16, 0, 70}};
    int failed = 0;
    (void)j;
    for (size_t i = 0; i < 2 * sizeof masked / sizeof masked[0]; i++) {
        const op_case *c = &masked[i / 2];
        uint32_t type = i % 2 ? KILN_BF16 : KILN_F32;
        op_setup s;
        if (!setup_make(&s, c, type, 0)) return failed + 1;
        for (size_t h = 0; h < sizeof hidden / sizeof hidden[0]; h++)
            for (int k = hidden[h].from; k < hidden[h].to; k++) ((float *)s.in[3])[hidden[h].row * 70 + k] = -INFINITY;
        void *expected = setup_run(&s, &backend_reference, NULL, 1, NULL, NULL, NULL),
             *got = setup_run(&s, b, NULL, 1, NULL, NULL, NULL);
        (*ran)++, failed += !(expected && got && setup_near(&s, got, expected, tolerance_of(c, type), c->name));
        mem_free(expected), mem_free(got);
        setup_free(&s);
    }
    return failed;
}

/* A score that is NaN makes all of its query's result NaN, as softmax does, and no other's. */
static int scores_of_nan(const job *j, const backend *b, int *ran)
{
    enum { QUERIES = 17, KEYS = 70, ALL_ROW = 3, ONE_ROW = 5, LATE_ROW = 16 };
    static const op_case masked[] = {
        ATTEND("NaN, head of 40", 1, QUERIES, KEYS, 1, 40, 0, 4, X(1, 1, QUERIES, KEYS)),
        ATTEND("NaN, head of 512", 1, QUERIES, KEYS, 1, 512, 0, 4, X(1, 1, QUERIES, KEYS))};
    int failed = 0;
    (void)j;
    for (size_t i = 0; i < 2 * sizeof masked / sizeof masked[0]; i++) {
        const op_case *c = &masked[i / 2];
        op_setup s;
        if (!setup_make(&s, c, i % 2 ? KILN_BF16 : KILN_F32, 0)) return failed + 1;
        float *mask = s.in[3];
        for (int k = 0; k < KEYS; k++) mask[ALL_ROW * KEYS + k] = NAN;
        mask[ONE_ROW * KEYS + 2] = mask[LATE_ROW * KEYS + 68] = NAN;
        void *wanted = setup_run(&s, &backend_reference, NULL, 1, NULL, NULL, NULL),
             *got = setup_run(&s, b, NULL, 1, NULL, NULL, NULL);
        int same = wanted && got;
        for (int64_t r = 0; r < QUERIES && same; r++)
            for (int64_t k = 0; k < s.op.out.shape.dim[2]; k++) {
                int none = r == ALL_ROW || r == ONE_ROW || r == LATE_ROW;
                same &=
                    !isnan(setup_element(&s, wanted, r, k)) == !none && !isnan(setup_element(&s, got, r, k)) == !none;
            }
        if (!same) printf("  %s %s: NaN is elsewhere\n", c->name, i % 2 ? "bf16" : "f32");
        (*ran)++, failed += !same;
        mem_free(wanted), mem_free(got);
        setup_free(&s);
    }
    return failed;
}

static void test_every_op_with_plain_products(void)
{
    if (full())
        in_process((job){"plain", 0, 3, NULL, 90, 0, table});
    else
        test_skip("make test-memory");
}
static void test_every_op_on_tensor_cores(void) { in_process((job){"mma", 0, full() ? 5 : 1, NULL, 90, 0, table}); }
/* In short linear layers and convolutions: the rest is as on tensor cores. */
static void test_products_of_warpgroups(void)
{
    if (full()) {
        in_process((job){"wgmma", 0, 5, NULL, 90, 0, table});
        return;
    }
    if (*only() && strncmp(only(), "linear", 6) != 0 && strncmp(only(), "conv2d", 6) != 0) {
        test_skip("KILN_TEST_OPS leaves rows out");
        return;
    }
    if (strncmp(only(), "conv2d", 6) != 0) in_process((job){"wgmma", 0, 1, "linear", 90, KILN_BF16, table});
    if (strncmp(only(), "linear", 6) != 0) in_process((job){"wgmma", 0, 1, "conv2d", 90, KILN_BF16, table});
}
static void test_every_op_on_sm_75(void)
{
    if (on_gpu())
        test_skip("the chip is what it is");
    else
        in_process((job){"mma", 0, full() ? 3 : 1, NULL, 75, full() ? 0 : (uint32_t)KILN_F16, table});
}
static void test_every_op_with_the_library(void)
{
    in_process((job){"library", 1, full() ? 3 : 1, NULL, 90, full() ? 0 : (uint32_t)KILN_BF16, table});
}
/* In short the convolutions, 1x1 ones as GEMMs included: the rest is as with the library. */
static void test_convolutions_with_cudnn(void)
{
    in_process(
        (job){"cudnn", 2, full() ? 3 : 1, full() ? NULL : "conv2d", 90, full() ? 0 : (uint32_t)KILN_BF16, table});
}
static void test_keys_hidden_by_a_mask(void) { in_process((job){"mma", 0, 1, NULL, 90, 0, hidden_keys}); }
static void test_scores_that_are_nan(void) { in_process((job){"mma", 0, 1, NULL, 90, 0, scores_of_nan}); }

/* What a device is asked for when nobody says: in a process each, which opens one chip. */
static void test_the_precision_that_suits_the_chip(void)
{
    static const struct {
        int sm;
        uint32_t best;
        const char *says;
    } chips[] = {{75, KILN_F16, "tensor cores for f16"},
                 {80, KILN_BF16, "tensor cores, "},
                 {86, KILN_BF16, "tensor cores, "},
                 {90, KILN_BF16, "tensor cores, "}};
    if (on_gpu()) {
        test_skip("the chip is what it is");
        return;
    }
    for (size_t i = 0; i < sizeof chips / sizeof chips[0]; i++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            error e = {0};
            memory_device *device = NULL;
            const backend *b = kiln_cuda_library.backend;
            unsetenv("KILN_CUDA_GEMM");
            fake_cuda_chip(chips[i].sm / 10, chips[i].sm % 10);
            fake_device_open(&(fake_setting){.bytes = 1 << 20, .seed = 5, .fail_at = -1});
            int fine = b->open(0, &device, &e) == KILN_OK && b->best_precision() == chips[i].best &&
                       strstr(b->features(), chips[i].says) != NULL && b->precisions >> KILN_F16 & 1;
            if (!fine)
                printf("  sm_%d: %s, best in %s %s\n", chips[i].sm, b->features(), dtype_name(b->best_precision()),
                       e.message);
            fflush(stdout);
            _exit(!fine);
        }
        int status = 0;
        waitpid(child, &status, 0);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

static uint64_t launches(void)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n_listed; i++) sum += runs[i].launches;
    return sum;
}

/* Kernels that a row would have to be too large to reach, 88 blocks of 128 x 128: the tests that run them by
 * themselves, and fail where they make no difference. */
static const char *const elsewhere[][2] = {{"gemm_in_parts", "tests/cuda_emu/test_cuda_buckets.c"}};

static int runs_elsewhere(const char *name)
{
    for (size_t i = 0; i < sizeof elsewhere / sizeof elsewhere[0]; i++)
        if (strcmp(elsewhere[i][0], name) == 0) return printf("# %s: see %s\n", name, elsewhere[i][1]) > 0;
    return 0;
}

/* Of what is compiled, what really ran: a kernel that no row of the table reaches is not tested. */
static void test_every_kernel_ran(void)
{
    if (on_gpu()) {
        test_skip("the emulation counts them");
        return;
    }
    if (*only()) {
        test_skip("KILN_TEST_OPS leaves rows out");
        return;
    }
    REQUIRE(runs && n_listed > 0);
    if (!launches()) in_process((job){"mma", 0, 1, NULL, 90, 0, table});
    for (size_t i = 0; i < n_listed; i++) {
        if (i == 0 || strcmp(listed[i].file, listed[i - 1].file) != 0)
            printf("%s# %s ran in the emulation:", i ? "\n" : "", listed[i].file);
        printf(" %s (%llu launches, %llu blocks)", listed[i].name, (unsigned long long)runs[i].launches,
               (unsigned long long)runs[i].blocks);
    }
    printf("\n# cuBLASLt, cuDNN: not run; cublaslt.c and cudnn.c ran over stand-ins\n");
    for (size_t i = 0; i < n_listed; i++)
        CHECK_MSG(runs[i].launches > 0 || runs_elsewhere(listed[i].name),
                  "%s: kernel %s was never launched; it wants a row in tests/backend/test_ops_table.h", listed[i].file,
                  listed[i].name);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {CASE(test_every_op_with_plain_products),
                                      CASE(test_every_op_on_tensor_cores),
                                      CASE(test_every_op_on_sm_75),
                                      CASE(test_every_op_with_the_library),
                                      CASE(test_convolutions_with_cudnn),
                                      CASE(test_keys_hidden_by_a_mask),
                                      CASE(test_scores_that_are_nan),
                                      CASE(test_products_of_warpgroups), /* late: no chip has run it yet */
                                      CASE(test_every_kernel_ran),
                                      CASE(test_the_precision_that_suits_the_chip)};
    list_kernels();
    return test_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
