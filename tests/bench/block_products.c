/* block_products.c - products with weights that are stored by blocks, of DiffusionGemma's shapes (and SD1.5's), by the
 * kernels that the backend chooses (KILN_CPU_BLOCKS).
 *
 *     block_products [--threads N] [--turns N] [--only WORD]
 *
 * A row a line: name, kernel, GFLOP/s by wall time, GFLOP/s of one processor by processor time, GB/s of the weight's
 * bytes likewise. Medians over turns.
 */
#include "backend/backend.h"
#include "base/memory_alloc.h"
#include "busy_time.h"
#include "tensor/dtype.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
    const char *name;
    uint32_t type;
    int64_t rows, in, out, groups; /* groups 0: a linear; -1: one whose weight is [in, out] */
    int64_t tokens;                /* of so many rows the groups' are taken by number; 0: they are those themselves */
} product;

/* clang-format off: a row a line */
static const product products[] = {
    {"attn_q", KILN_Q4_K, 256, 2816, 4096, 0, 0},
    {"attn_q-prompt", KILN_Q4_K, 512, 2816, 4096, 0, 0},
    {"attn_output", KILN_Q4_K, 256, 4096, 2816, 0, 0},
    {"attn_v", KILN_Q6_K, 256, 2816, 2048, 0, 0},
    {"ffn_gate", KILN_Q4_K, 256, 2816, 2112, 0, 0},
    {"ffn_down", KILN_Q8_0, 256, 2112, 2816, 0, 0},
    {"ffn_down-prompt", KILN_Q8_0, 528, 2112, 2816, 0, 0},
    {"ffn_gate-prompt", KILN_Q4_K, 528, 2816, 2112, 0, 0},
    {"gate_up_exps", KILN_Q4_K, 2048, 2816, 1408, 128, 0},
    {"down_exps-q5_0", KILN_Q5_0, 2048, 704, 2816, 128, 0},
    {"down_exps-q8_0", KILN_Q8_0, 2048, 704, 2816, 128, 0},
    {"gate_up_exps-prompt", KILN_Q4_K, 4096, 2816, 1408, 128, 0},
    {"down_exps-q5_0-prompt", KILN_Q5_0, 4096, 704, 2816, 128, 0},
    {"down_exps-q8_0-prompt", KILN_Q8_0, 4096, 704, 2816, 128, 0},
    {"gate_up_exps-long", KILN_Q4_K, 8192, 2816, 1408, 128, 0},
    {"down_exps-q5_0-long", KILN_Q5_0, 8192, 704, 2816, 128, 0},
    {"down_exps-q8_0-long", KILN_Q8_0, 8192, 704, 2816, 128, 0},
    {"gate_up_exps-taken", KILN_Q4_K, 4096, 2816, 1408, 128, 512},
    {"head", KILN_Q6_K, 256, 2816, 16384, 0, 0},
    {"head-transposed", KILN_Q6_K, 64, 65536, 2816, -1, 0},
    {"head-transposed-256", KILN_Q6_K, 256, 65536, 2816, -1, 0},
    {"unet-320", KILN_Q8_0, 8192, 320, 320, 0, 0},
    {"unet-640", KILN_Q8_0, 2048, 640, 640, 0, 0},
    {"unet-1280", KILN_Q8_0, 512, 1280, 1280, 0, 0},
    {"unet-1280-q4_k", KILN_Q4_K, 512, 1280, 1280, 0, 0},
    {"cached-16-rows-q4_k", KILN_Q4_K, 16, 2816, 256, 0, 0},
    {"16-rows-q4_k", KILN_Q4_K, 16, 2816, 65536, 0, 0},
    {"1-row-q8_0", KILN_Q8_0, 1, 4096, 32768, 0, 0},
    {"2-rows-q8_0", KILN_Q8_0, 2, 4096, 32768, 0, 0},
    {"4-rows-q8_0", KILN_Q8_0, 4, 4096, 32768, 0, 0},
    {"8-rows-q8_0", KILN_Q8_0, 8, 4096, 32768, 0, 0},
    {"1-row-q6_k", KILN_Q6_K, 1, 4096, 32768, 0, 0},
    {"4-rows-q6_k", KILN_Q6_K, 4, 4096, 32768, 0, 0},
    {"1-row-q4_k", KILN_Q4_K, 1, 4096, 32768, 0, 0},
    {"2-rows-q4_k", KILN_Q4_K, 2, 4096, 32768, 0, 0},
    {"4-rows-q4_k", KILN_Q4_K, 4, 4096, 32768, 0, 0},
    {"8-rows-q4_k", KILN_Q4_K, 8, 4096, 32768, 0, 0},
};
/* clang-format on */

static uint32_t seed = 1;
static uint32_t number(void)
{
    seed = seed * 1664525u + 1013904223u;
    return seed >> 8;
}

/* A table is read by those of a vocabulary, of which few are large: 1 to 2^-100. */
static uint16_t probability(void) { return (uint16_t)(0x3f80 - number() % 100 * 0x80); }

static op_desc op_of(const product *p)
{
    static const op_kind kind[] = {OP_LINEAR_T, OP_LINEAR, OP_GROUPED_LINEAR};
    op_desc d = {
        .kind = kind[1 + (p->groups > 0) - (p->groups < 0)], .n_in = p->groups > 0 ? 4 : 3, .precision = KILN_BF16};
    d.in[0] = (operand_desc){.dtype = KILN_BF16, .shape = {.rank = 2, .dim = {p->rows, p->in}}, .ld = p->in};
    d.in[1] = (operand_desc){.dtype = p->type, .shape = {.rank = 2, .dim = {p->out, p->in}}, .ld = p->in, .weight = 1};
    if (p->groups < 0) d.in[1].shape = (shape){.rank = 2, .dim = {p->in, p->out}}, d.in[1].ld = p->out;
    if (p->groups > 0) {
        d.in[1].shape = (shape){.rank = 3, .dim = {p->groups, p->out, p->in}};
        d.in[3] = (operand_desc){.dtype = KILN_I32, .shape = {.rank = 1, .dim = {p->groups + 1}}, .ld = p->groups + 1};
    }
    if (p->tokens) {
        d.n_in = 5, d.in[0].shape.dim[0] = p->tokens;
        d.in[4] = (operand_desc){.dtype = KILN_I32, .shape = {.rank = 1, .dim = {p->rows}}, .ld = p->rows};
    }
    d.out = (operand_desc){.dtype = KILN_BF16, .shape = {.rank = 2, .dim = {p->rows, p->out}}, .ld = p->out};
    return d;
}

/* Random codes; scales that f16 has, so that no sum overflows. */
static void fill(const product *p, uint8_t *blocks, size_t bytes)
{
    size_t size = dtype_block_bytes(p->type);
    for (size_t i = 0; i + 4 <= bytes; i += 4) {
        uint32_t v = number() ^ number() << 16;
        memcpy(blocks + i, &v, 4);
    }
    size_t at = p->type == KILN_Q6_K ? size - 2 : 0;
    for (size_t i = 0; i + size <= bytes; i += size) {
        blocks[i + at] = 0, blocks[i + at + 1] = 0x0c;
        if (p->type == KILN_Q4_K) blocks[i + 2] = 0, blocks[i + 3] = 0x0c;
    }
}

static void route(const product *p, int32_t *offset)
{
    memset(offset, 0, (size_t)(p->groups + 1) * sizeof *offset);
    for (int64_t r = 0; r < p->rows; r++) offset[1 + number() % (uint32_t)p->groups]++;
    for (int64_t g = 0; g < p->groups; g++) offset[g + 1] += offset[g];
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

enum { MOST_TURNS = 99 };

static int measure(const product *p, pool *threads, int turns)
{
    op_desc op = op_of(p);
    kernel *k;
    error e = {0};
    if (backend_cpu.prepare(&op, &k, &e) != KILN_OK) return fprintf(stderr, "%s: %s\n", p->name, e.message);
    size_t bytes = k->packed_bytes[1];
    uint8_t *blocks = mem_pages(bytes), *packed = mem_pages(bytes);
    uint16_t *x = mem_aligned(64, (size_t)(p->rows * p->in) * 2);
    void *out = mem_aligned(64, (size_t)(p->rows * p->out) * 2), *scratch = mem_aligned(64, k->scratch_bytes + 64);
    int32_t *offset = mem_calloc((size_t)(p->groups > 0 ? p->groups : 0) + 1, sizeof *offset);
    int32_t *taken = mem_calloc((size_t)p->rows, sizeof *taken);
    for (int64_t i = 0; i < p->rows && p->tokens; i++) taken[i] = (int32_t)(number() % (uint32_t)p->tokens);
    fill(p, blocks, bytes);
    if (k->pack(k, 1, blocks, p->type, packed, threads, &e) != KILN_OK)
        return fprintf(stderr, "%s: %s\n", p->name, e.message);
    mem_pages_free(blocks);
    if (p->groups > 0) route(p, offset);
    for (int64_t i = 0; i < p->rows * p->in; i++)
        x[i] = p->groups >= 0 ? (uint16_t)(0x3f00 + number() % 256 + (number() & 1) * 0x8000u) : probability();
    kernel_args a = {
        .in = {x, packed, NULL, offset, p->tokens ? taken : NULL}, .out = out, .scratch = scratch, .pool = threads};
    double wall[MOST_TURNS], busy[MOST_TURNS];
    kiln_status status = k->run(k, &a, &e);
    for (int i = 0; i < turns && status == KILN_OK; i++) {
        double b = busy_time(a.pool), w = now();
        status = k->run(k, &a, &e);
        wall[i] = now() - w, busy[i] = busy_time(a.pool) - b;
    }
    qsort(wall, (size_t)turns, sizeof *wall, by_value), qsort(busy, (size_t)turns, sizeof *busy, by_value);
    double flops = 2.0 * (double)p->rows * (double)p->in * (double)p->out;
    printf("%s %s %.1f %.1f %.2f\n", p->name, k->name, flops / wall[turns / 2] * 1e-9, flops / busy[turns / 2] * 1e-9,
           (double)bytes / busy[turns / 2] * 1e-9);
    fflush(stdout);
    k->free(k);
    mem_pages_free(packed), mem_free(x), mem_free(out), mem_free(scratch), mem_free(offset), mem_free(taken);
    return status != KILN_OK;
}

int main(int argc, char **argv)
{
    int threads = 0, turns = 5, failed = 0;
    const char *only = "";
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--threads") == 0) threads = atoi(argv[i + 1]);
        if (strcmp(argv[i], "--turns") == 0) turns = atoi(argv[i + 1]);
        if (strcmp(argv[i], "--only") == 0) only = argv[i + 1];
    }
    if (threads < 0 || turns < 1 || turns > MOST_TURNS || argc % 2 == 0) {
        fprintf(stderr, "block_products [--threads N] [--turns 1 to %d] [--only WORD]\n", MOST_TURNS);
        return 2;
    }
    pool *p = pool_new((unsigned)threads);
    for (size_t i = 0; i < sizeof products / sizeof products[0]; i++)
        if (strstr(products[i].name, only)) failed |= measure(&products[i], p, turns);
    pool_free(p);
    return failed;
}
