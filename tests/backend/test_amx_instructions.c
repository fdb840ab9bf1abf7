/* test_amx_instructions.c - the instructions that amx_tiles.h makes, against the model of tests/instructions. Where AMX
 * is, they run; elsewhere each one stops the process with SIGILL, and is decoded and carried out on the model from
 * there: so that encodings, operands and their order are those of the manual before any such processor was met.
 *
 * Sums of bytes are compared bit by bit. Of bf16, sums that are exact in any order are, and others within what the
 * order may change.
 */
#include "harness.h"
#include "int8_cases.h"

#include "instructions/amx_model.h"
#include "backend/cpu/instructions.h"
#include "backend/cpu/amx_tiles.h"
#include "backend/cpu/attention_tiles.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#if defined __x86_64__

/* ---- instructions that stopped ---- */

/* Numbers of registers as instructions have them, and as the system has them. */
static const int registers[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                  REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

typedef struct {
    const uint8_t *at; /* the next byte */
    const greg_t *r;
    unsigned x, b; /* bits 3 of the index and the base */
} reader;

/* base + index scale + displacement; `stride` gets the index, which rows of a tile are apart. */
static char *address_of(reader *d, unsigned modrm, int64_t *stride)
{
    unsigned mode = modrm >> 6, base = (modrm & 7) | d->b << 3;
    int64_t place = 0, offset = 0;
    *stride = 0;
    if ((modrm & 7) == 4) {
        unsigned sib = *d->at++, index = (sib >> 3 & 7) | d->x << 3;
        base = (sib & 7) | d->b << 3;
        if (index != 4) *stride = d->r[registers[index]] << (sib >> 6);
    }
    int near = mode == 0 && (base & 7) == 5, direct = near && (modrm & 7) == 5;
    if (!near) place = d->r[registers[base]];
    if (mode == 1) offset = *(const int8_t *)d->at++;
    if (mode == 2 || near) {
        int32_t four;
        memcpy(&four, d->at, sizeof four);
        offset = four, d->at += 4;
    }
    if (direct) place = (int64_t)d->at; /* beside the instruction's end */
    return (char *)(place + offset);    /* NOLINT: an address of the program */
}

static int carry_out(reader *d)
{
    enum { NONE, P66, F3, F2 };
    if (d->at[0] != 0xc4 || (d->at[1] & 31) != 2 || (d->at[2] & 0x84) != 0) return 0; /* VEX, 0F 38, W 0, 128 bits */
    unsigned prefix = d->at[2] & 3, vvvv = ~d->at[2] >> 3 & 15, op = d->at[3], modrm = d->at[4],
             reg = (modrm >> 3 & 7) | (~d->at[1] >> 7 & 1) << 3;
    int64_t stride;
    d->x = ~d->at[1] >> 6 & 1, d->b = ~d->at[1] >> 5 & 1;
    d->at += 5;
    if (modrm < 0xc0) {
        char *place = address_of(d, modrm, &stride);
        if (op == 0x49 && prefix == NONE && reg == 0) return amx_model_config(place), 1;
        if (op == 0x4b && prefix == F2) return amx_model_load(reg, place, stride), 1;
        if (op == 0x4b && prefix == F3) return amx_model_store(reg, place, stride), 1;
        return 0;
    }
    unsigned a = (modrm & 7) | d->b << 3;
    if (op == 0x49 && prefix == NONE && modrm == 0xc0) return amx_model_release(), 1;
    if (op == 0x49 && prefix == F2 && a == 0) return amx_model_zero(reg), 1;
    if (op == 0x5c && prefix == F3) return amx_model_dpbf16ps(reg, a, vvvv), 1;
    if (op == 0x5e && prefix == F2) return amx_model_dpbssd(reg, a, vvvv), 1;
    return 0;
}

static void on_refusal(int signal_number, siginfo_t *info, void *context)
{
    (void)info;
    ucontext_t *c = context;
    reader d = {.at = (const uint8_t *)c->uc_mcontext.gregs[REG_RIP], .r = c->uc_mcontext.gregs}; /* NOLINT */
    if (!carry_out(&d))
        signal(signal_number, SIG_DFL); /* and once more */
    else
        c->uc_mcontext.gregs[REG_RIP] = (greg_t)d.at;
}

static int native;
static void begin(void)
{
    native = (amx_found() & (AMX_BF16 | AMX_INT8)) == (AMX_BF16 | AMX_INT8);
    if (!native) sigaction(SIGILL, &(struct sigaction){.sa_sigaction = on_refusal, .sa_flags = SA_SIGINFO}, NULL);
}
static int missing(void)
{
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 0;
    test_skip("the model is compiled for AVX2");
    return 1;
}

/* ---- the same by the model ---- */

static uint32_t seed = 1;
static uint32_t number(void) { return (seed = seed * 1664525u + 1013904223u) >> 8; }

typedef struct {
    uint8_t a[16][64], b[16][64];
    uint32_t c[16][16];
} operands;

static void fill_bytes(operands *o)
{
    for (size_t i = 0; i < sizeof o->a; i++)
        o->a[i / 64][i % 64] = (uint8_t)number(), o->b[i / 64][i % 64] = (uint8_t)number();
    for (size_t i = 0; i < 256; i++) o->c[i / 16][i % 16] = number() << 8;
}

static amx_shapes shapes_of(unsigned rows, unsigned columns, unsigned depth)
{
    amx_shapes s = {.palette = 1};
    for (int t = 0; t < 8; t++) {
        s.rows[t] = (uint8_t)(t % 3 == 2 ? depth : rows);
        s.row_bytes[t] = (uint16_t)(4 * (t % 3 == 1 ? depth : columns));
    }
    return s;
}

/* c += a b by one instruction, for each place of the three operands among the tiles. */
#define BY_TILES(product, to, x, y)                                                                                    \
    do {                                                                                                               \
        tile_config(&s);                                                                                               \
        tile_load(to, got.c, 64);                                                                                      \
        tile_load(x, o->a, 64);                                                                                        \
        tile_load(y, o->b, 64);                                                                                        \
        product(to, x, y);                                                                                             \
        tile_store(to, got.c, 64);                                                                                     \
        tile_release();                                                                                                \
    } while (0)
#define MODELLED(product)                                                                                              \
    do {                                                                                                               \
        amx_model_config(&s);                                                                                          \
        amx_model_load(0, expected.c, 64), amx_model_load(1, o->a, 64), amx_model_load(2, o->b, 64);                   \
        product(0, 1, 2);                                                                                              \
        amx_model_store(0, expected.c, 64);                                                                            \
        amx_model_release();                                                                                           \
    } while (0)

static void test_shapes_loads_and_stores(void)
{
    if (missing()) return;
    uint8_t from[16 * 80], to[16 * 80], model[16 * 80];
    amx_shapes s = {.palette = 1, .rows = {16, 5}, .row_bytes = {64, 20}};
    for (size_t i = 0; i < sizeof from; i++) from[i] = (uint8_t)number();
    memset(to, 1, sizeof to), memset(model, 1, sizeof model);
    tile_config(&s);
    tile_load(0, from, 80);
    tile_load(1, from + 40, 64);
    tile_store(0, to, 80);
    tile_store(1, to + 3, 72);
    tile_zero(1);
    tile_store(1, to + 640, 64);
    tile_release();
    amx_model_config(&s);
    amx_model_load(0, from, 80), amx_model_load(1, from + 40, 64);
    amx_model_store(0, model, 80), amx_model_store(1, model + 3, 72);
    amx_model_zero(1);
    amx_model_store(1, model + 640, 64);
    amx_model_release();
    CHECK(memcmp(to, model, sizeof to) == 0);
}

static void bytes_of_shape(const operands *o, unsigned rows, unsigned columns, unsigned depth)
{
    operands got = *o, expected = *o;
    amx_shapes s = shapes_of(rows, columns, depth);
    MODELLED(amx_model_dpbssd);
    BY_TILES(tile_dpbssd, 0, 1, 2);
    CHECK_MSG(memcmp(got.c, expected.c, sizeof got.c) == 0, "%u x %u x %u: other sums", rows, columns, depth);
    got = *o;
    BY_TILES(tile_dpbssd, 3, 7, 5);
    CHECK_MSG(memcmp(got.c, expected.c, sizeof got.c) == 0, "%u x %u x %u: other sums", rows, columns, depth);
    got = *o;
    BY_TILES(tile_dpbssd, 6, 4, 2);
    CHECK_MSG(memcmp(got.c, expected.c, sizeof got.c) == 0, "%u x %u x %u: other sums", rows, columns, depth);
}

static void test_products_of_bytes(void)
{
    if (missing()) return;
    operands o;
    for (int i = 0; i < 20; i++) {
        fill_bytes(&o);
        bytes_of_shape(&o, 16, 16, i % 2 ? 16 : 8);
        bytes_of_shape(&o, 1 + number() % 16, 1 + number() % 16, 1 + number() % 16);
    }
}

static void put_half(uint8_t to[2], float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    to[0] = (uint8_t)(bits >> 16), to[1] = (uint8_t)(bits >> 24);
}

/* whole: numbers whose sums are exact in any order. */
static void fill_pairs(operands *o, int whole)
{
    for (size_t i = 0; i < 512; i++) {
        float x = (float)(number() % 255) - 127, y = (float)(number() % 255) - 127;
        if (!whole) x = ldexpf(x, (int)(number() % 16) - 8), y = ldexpf(y, (int)(number() % 16) - 8);
        put_half(&o->a[i / 32][i % 32 * 2], x), put_half(&o->b[i / 32][i % 32 * 2], y);
    }
    for (size_t i = 0; i < 256; i++) {
        float c = (float)(number() % 1000);
        memcpy(&o->c[i / 16][i % 16], &c, 4);
    }
}

static float half_at(const uint8_t *b)
{
    uint32_t bits = (uint32_t)b[0] << 16 | (uint32_t)b[1] << 24;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* 34 additions, each by half a unit of what is summed in size. */
static int near(const operands *o, const operands *got, const operands *expected)
{
    int equal = 0;
    for (size_t r = 0; r < 16; r++)
        for (size_t n = 0; n < 16; n++) {
            float x, y, first;
            memcpy(&x, &got->c[r][n], 4), memcpy(&y, &expected->c[r][n], 4), memcpy(&first, &o->c[r][n], 4);
            double size = fabs((double)first);
            for (size_t i = 0; i < 32; i++)
                size += fabs((double)half_at(&o->a[r][2 * i]) * half_at(&o->b[i / 2][4 * n + i % 2 * 2]));
            CHECK(fabs((double)x - (double)y) <= 34 * 0x1p-24 * size);
            equal += x == y;
        }
    return equal;
}

static void test_products_of_pairs(void)
{
    if (missing()) return;
    operands some, *o = &some;
    int equal = 0;
    for (int i = 0; i < 20; i++) {
        fill_pairs(o, i % 2);
        operands got = *o, expected = *o;
        amx_shapes s = shapes_of(16, 16, 16);
        MODELLED(amx_model_dpbf16ps);
        if (i % 4 < 2)
            BY_TILES(tile_dpbf16ps, 0, 1, 2);
        else
            BY_TILES(tile_dpbf16ps, 3, 7, 5);
        if (i % 2) CHECK(memcmp(got.c, expected.c, sizeof got.c) == 0);
        if (i % 2 == 0) equal += near(o, &got, &expected);
    }
    printf("  %s: %d of 2560 sums of pairs have the model's bits\n", native ? "AMX" : "decoded", equal);
}

/* What a processor may not make of subnormal numbers: anything but 0. */
static void test_subnormals(void)
{
    if (missing()) return;
    operands o = {.a = {{0}}}, got;
    put_half(o.a[0], 0x1p-127f), put_half(o.b[0], 0x1p127f);
    put_half(o.a[1], 0x1p-70f), put_half(o.b[0] + 4, 0x1p-60f);
    got = o;
    amx_shapes s = shapes_of(16, 16, 16);
    tile_config(&s);
    tile_load(0, got.c, 64);
    tile_load(1, o.a, 64);
    tile_load(2, o.b, 64);
    tile_dpbf16ps(0, 1, 2);
    tile_store(0, got.c, 64);
    tile_release();
    CHECK_EQ(got.c[0][0], 0);
    CHECK_EQ(got.c[1][1], 0);
}

/* A thread's tiles are its own, and another's work leaves them alone. */
static void *other_thread(void *arg)
{
    amx_shapes s = shapes_of(16, 16, 16);
    tile_config(&s);
    tile_zero(0);
    tile_store(0, arg, 64);
    tile_release();
    return NULL;
}
static void test_threads(void)
{
    if (missing()) return;
    uint8_t from[1024], to[1024], other[1024];
    pthread_t thread;
    amx_shapes s = shapes_of(16, 16, 16);
    memset(from, 7, sizeof from), memset(other, 1, sizeof other);
    tile_config(&s);
    tile_load(0, from, 64);
    REQUIRE(pthread_create(&thread, NULL, other_thread, other) == 0);
    pthread_join(thread, NULL);
    tile_store(0, to, 64);
    tile_release();
    CHECK(memcmp(from, to, sizeof to) == 0);
    memset(from, 0, sizeof from);
    CHECK(memcmp(from, other, sizeof from) == 0);
}

/* ---- kernels as they are in the engine ---- */

static int without_vectors(void)
{
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512bf16")) return 0;
    test_skip("this processor has no AVX-512 with bf16, which AMX's kernels use beside the tiles");
    return 1;
}

static void test_kernels_of_bytes(void)
{
    if (!without_vectors()) int8_check_bits(&int8_kernels_amx);
}

/* Whole numbers from -9 to 9, as bf16: their sums are exact in any order. */
enum { KEYS = 64, WORDS = 48, CHANNELS = 48, WIDTH = 64 };
static uint16_t whole_number(void)
{
    uint8_t half[2];
    put_half(half, (float)(number() % 19) - 9);
    return (uint16_t)(half[0] | half[1] << 8);
}
static float value_of(uint16_t half)
{
    uint8_t bytes[2] = {(uint8_t)half, (uint8_t)(half >> 8)};
    return half_at(bytes);
}
static float word_product(uint32_t a, uint32_t b)
{
    return value_of((uint16_t)a) * value_of((uint16_t)b) +
           value_of((uint16_t)(a >> 16)) * value_of((uint16_t)(b >> 16));
}

/* One shape: numbers after the results are left alone. */
static void check_scores(size_t keys, size_t words, size_t width)
{
    static uint32_t q[WORDS * WIDTH], k[KEYS * WORDS];
    static float s[(KEYS + 1) * WIDTH];
    for (size_t i = 0; i < words * width; i++) q[i] = whole_number() | (uint32_t)whole_number() << 16;
    for (size_t i = 0; i < keys * words; i++) k[i] = whole_number() | (uint32_t)whole_number() << 16;
    for (size_t i = 0; i < (KEYS + 1) * WIDTH; i++) s[i] = 0.5f;
    tiles_begin();
    tiles_scores(s, q, k, keys, words, width);
    tiles_end();
    int same = s[keys * width] == 0.5f;
    for (size_t r = 0; r < keys; r++)
        for (size_t c = 0; c < width; c++) {
            float sum = 0;
            for (size_t w = 0; w < words; w++) sum += word_product(k[r * words + w], q[w * width + c]);
            same &= s[r * width + c] == sum;
        }
    CHECK_MSG(same, "%zu keys, %zu words, %zu queries: other scores", keys, words, width);
}

static void check_values(size_t keys, size_t channels, size_t width)
{
    static uint32_t p[KEYS / 2 * WIDTH];
    static uint16_t v[CHANNELS * VALUE_KEYS];
    static float sums[(CHANNELS + 1) * WIDTH];
    for (size_t i = 0; i < keys / 2 * width; i++) p[i] = whole_number() | (uint32_t)whole_number() << 16;
    for (size_t i = 0; i < channels * VALUE_KEYS; i++) v[i] = whole_number();
    for (size_t i = 0; i < (CHANNELS + 1) * WIDTH; i++) sums[i] = (float)(i % 7);
    tiles_begin();
    tiles_values(sums, p, v, keys, channels, width);
    tiles_end();
    int same = sums[channels * width] == (float)(channels * width % 7);
    for (size_t r = 0; r < channels; r++)
        for (size_t c = 0; c < width; c++) {
            float sum = (float)((r * width + c) % 7);
            for (size_t i = 0; i < keys; i++)
                sum += value_of(v[r * VALUE_KEYS + i]) * value_of((uint16_t)(p[i / 2 * width + c] >> (i % 2 * 16)));
            same &= sums[r * width + c] == sum;
        }
    CHECK_MSG(same, "%zu keys, %zu channels, %zu queries: other sums", keys, channels, width);
}

static void test_kernels_of_attention(void)
{
    if (without_vectors()) return;
    for (size_t width = 16; width <= WIDTH; width += 16)
        for (size_t some = 16; some <= 48; some += 16) {
            for (size_t keys = TILE_ROWS; keys <= KEYS; keys += TILE_ROWS) check_scores(keys, some, width);
            for (size_t keys = TILE_KEYS; keys <= KEYS; keys += TILE_KEYS) check_values(keys, some, width);
        }
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {CASE(test_shapes_loads_and_stores),
                                      CASE(test_products_of_bytes),
                                      CASE(test_products_of_pairs),
                                      CASE(test_subnormals),
                                      CASE(test_threads),
                                      CASE(test_kernels_of_bytes),
                                      CASE(test_kernels_of_attention)};
    begin();
    return test_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
#else
static void test_instructions(void) { test_skip("no processor of this kind has AMX"); }
int main(int argc, char **argv)
{
    static const test_case tests[] = {CASE(test_instructions)};
    return test_main(argc, argv, tests, 1);
}
#endif
