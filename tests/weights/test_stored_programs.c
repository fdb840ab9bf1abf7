/* test_stored_programs.c - programs over codes with scales and plain f8: linears and convolutions of every kind keep
 * them as they lie in the file, count them so, and give the bits that they give of the same numbers as f32.
 */
#include "rig.h"
#include "weights_kit.h"

#include "backend/cpu/cpu.h"
#include "tensor/dtype.h"

#include <math.h>

enum { SIDE = 6, WIDE = 32, OUT = 48, TAPS = 9, FILTER = WIDE * OUT * TAPS, MOST = 16 * SIDE * SIDE * SIDE * OUT };

typedef struct {
    const char *name, *type, *shape, *scale, *scale_shape;
    size_t n_scale;
    uint32_t rank, transposed, groups; /* of the convolution; rank 0: a linear */
    int64_t dim[5];
    size_t bytes; /* that it is kept in */
} kept;

#define SCALED(codes, scales) ((((size_t)(codes) + 15) & ~(size_t)15) + (size_t)(scales)*4)
/* clang-format off: a row a line */
static const kept rows[] = {
    {"linear f8", "F8_E4M3", "48,288", "weight_scale", "48,1", 48, 0, 0, 0, {48, 288}, SCALED(48 * 288, 48)},
    {"linear f8, one scale", "F8_E5M2", "48,288", "scale_weight", "", 1, 0, 0, 0, {48, 288}, SCALED(48 * 288, 48)},
    {"linear f8, squares",
     "F8_E4M3",
     "48,288",
     "weight_scale_inv",
     "1,3",
     3,
     0,
     0,
     0,
     {48, 288},
     SCALED(48 * 288, 3 * 48)},
    {"linear int8", "I8", "48,288", "SCB", "48", 48, 0, 0, 0, {48, 288}, SCALED(48 * 288, 48)},
    {"linear plain f8", "F8_E4M3", "48,288", NULL, NULL, 0, 0, 0, 0, {48, 288}, 48 * 288},
    {"conv f8", "F8_E4M3", "48,32,3,3", "weight_scale", "48,1,1,1", 48, 2, 0, 1, {48, 32, 3, 3}, SCALED(FILTER, 48)},
    {"conv int8", "I8", "48,32,3,3", "SCB", "48", 48, 2, 0, 1, {48, 32, 3, 3}, SCALED(FILTER, 48)},
    {"conv 1x1 int8", "I8", "48,32,1,1", "SCB", "48", 48, 2, 0, 1, {48, 32, 1, 1}, SCALED(48 * 32, 48)},
    {"conv plain f8", "F8_E5M2", "48,32,3,3", NULL, NULL, 0, 2, 0, 1, {48, 32, 3, 3}, FILTER},
    {"conv in groups", "F8_E4M3", "48,8,3,3", "weight_scale", "48", 48, 2, 0, 4, {48, 8, 3, 3}, SCALED(48 * 72, 48)},
    {"conv of rank 1", "I8", "48,32,3", "SCB", "48", 48, 1, 0, 1, {48, 32, 3}, SCALED(48 * 96, 48)},
    {"conv of rank 3",
     "F8_E4M3",
     "48,32,3,3,3",
     "weight_scale",
     "",
     1,
     3,
     0,
     1,
     {48, 32, 3, 3, 3},
     SCALED(48 * 864, 48)},
    {"transposed",
     "F8_E4M3",
     "32,48,4,4",
     "weight_scale",
     "32,1,1,1",
     32,
     2,
     1,
     1,
     {32, 48, 4, 4},
     SCALED(32 * 768, 32)},
    {"transposed, rank 1", "I8", "32,48,4", "SCB", "32", 32, 1, 1, 1, {32, 48, 4}, SCALED(32 * 192, 32)},
    {"transposed, rank 3, plain f8", "F8_E4M3", "32,48,2,2,2", NULL, NULL, 0, 3, 1, 1, {32, 48, 2, 2, 2}, 32 * 384},
    /* a scale for each of a filter's inputs is no row's: widened */
    {"conv with scales of inputs",
     "F8_E4M3",
     "48,32,3,3",
     "weight_scale",
     "48,32,1,1",
     48 * 32,
     2,
     0,
     1,
     {48, 32, 3, 3},
     0},
};
/* clang-format on */

static size_t count_of(const kept *r)
{
    size_t n = 1;
    for (int i = 0; i < 5 && r->dim[i]; i++) n *= (size_t)r->dim[i];
    return n;
}

static uint32_t rank_of(const kept *r) { return r->rank ? r->rank + 2 : 2; }

static kiln_weights *set_of(const kept *r)
{
    char header[500];
    size_t size, n = count_of(r), all = n + 4 * r->n_scale;
    int len =
        snprintf(header, sizeof header, "{\"a.weight\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[0,%zu]}",
                 r->type, r->shape, n);
    if (r->scale)
        len += snprintf(header + len, sizeof header - (size_t)len,
                        ",\"a.%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}", r->scale,
                        r->scale_shape, n, all);
    len += snprintf(header + len, sizeof header - (size_t)len, "}");
    uint8_t *bytes = raw_file(header, (size_t)len, all, &size), *codes = bytes + size - all;
    for (size_t i = 0; i < n; i++) codes[i] = (uint8_t)(i * 2654435761u >> 9) & 0xbf;
    for (size_t i = 0; i < r->n_scale; i++) {
        float s = 0.01f + (float)(i * 7 % 91) * 0.003f;
        memcpy(codes + n + 4 * i, &s, 4);
    }
    kiln_weights *w = opened(put_bytes("kept.safetensors", bytes, size));
    free(bytes);
    return w;
}

/* The same numbers as f32. */
static kiln_weights *numbers_of(const kept *r, kiln_weights *w)
{
    static float numbers[48 * 32 * 27];
    error e = {0};
    const kiln_weight_tensor t = {
        .size = sizeof t, .dtype = KILN_F32, .rank = rank_of(r), .name = "a.weight", .dim = r->dim, .data = numbers};
    CHECK_MSG(weights_read_f32(w, "a.weight", numbers, &e) == KILN_OK, "%s", e.message);
    kiln_weights *made = weights_make("numbers", &t, 1, &e);
    CHECK_MSG(made != NULL, "%s", e.message);
    return made;
}

static kiln_bind bound(const char *name, void *data, uint32_t rank, const int64_t *dim)
{
    kiln_bind b = KILN_BIND(name, {.size = sizeof(kiln_tensor), .dtype = KILN_F32, .device = KILN_CPU, .data = data});
    b.tensor.rank = rank, b.tensor.dim = dim;
    return b;
}

/* Elements of the result, 0: it failed; *bytes: what the weights count. */
static size_t run_over(const kept *r, kiln_weights *w, int64_t many, uint32_t precision, float *out, uint64_t *bytes)
{
    const kiln_ops *o = rig_host()->ability(KILN_OPS_ABILITY);
    static float x[2 * SIDE * SIDE * SIDE * 288];
    kiln_ctx *c = rig_ctx();
    kiln_program_info info = {.size = sizeof info};
    kiln_program_options options = {.size = sizeof options, .name = "kept", .precision = precision};
    int64_t in[5] = {many}, to[5] = {many}, scale = r->transposed ? 2 : 1;
    uint32_t rank = rank_of(r);
    for (uint32_t i = 0; i < r->rank; i++) in[i + 1] = SIDE, to[i + 1] = SIDE * scale;
    in[rank - 1] = r->transposed ? r->dim[0] : r->dim[1] * (r->rank ? r->groups : 1);
    to[rank - 1] = r->transposed ? r->dim[1] : r->dim[0];
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = cosf((float)i);
    kiln_program *p = o->program_new(c, &options);
    kiln_t t = o->input(p, "x", KILN_F32, rank, in), weight = o->weight(p, w, "a.weight", rank, r->dim);
    kiln_conv conv = {.size = sizeof conv, .rank = r->rank, .groups = (int32_t)r->groups, .transposed = r->transposed};
    for (uint32_t i = 0; i < r->rank; i++) {
        int32_t taps = (int32_t)r->dim[2 + i];
        conv.stride[i] = (int32_t)scale, conv.before[i] = conv.after[i] = r->transposed ? (taps - 2) / 2 : taps / 2;
    }
    o->output(p, "y", r->rank ? o->conv(p, t, weight, (kiln_t){0}, &conv) : o->linear(p, t, weight, (kiln_t){0}));
    CHECK_MSG(o->plan(c, p, &info) == KILN_OK, "%s", rig_message());
    *bytes = info.weight_bytes;
    const kiln_bind from = bound("x", x, rank, in), result = bound("y", out, rank, to);
    kiln_status status = o->run(c, p, &from, 1, &result, 1);
    CHECK_MSG(status == KILN_OK, "%s: %s", r->name, rig_message());
    o->program_free(p);
    size_t n = 1;
    for (uint32_t i = 0; i < rank; i++) n *= (size_t)to[i];
    return status == KILN_OK ? n : 0;
}

/* Does the product of widened codes add up as that of given numbers does? Other levels' libraries may cut it in another
 * way where column tiles are of another width; where bf16 is multiplied as f32, codes are not rounded to bf16. */
static int same_arithmetic(uint32_t precision)
{
    cpu_level level = cpu_level_get();
    return (level == CPU_AVX512 || level == CPU_AVX512_BF16) &&
           (precision == KILN_F32 || cpu_gemm_type(KILN_BF16) == KILN_BF16);
}

/* Rows of int8 with a scale each, where a row of the weight is what one result sums. */
static int by_integers(const kept *r, uint32_t precision)
{
    int one_tap = !r->rank || (r->rank == 2 && r->dim[2] == 1 && r->dim[3] == 1);
    return precision == KILN_BF16 && cpu_blocks() != BLOCKS_WIDENED && one_tap && !r->transposed &&
           strcmp(r->type, "I8") == 0;
}

static void check_kept(const kept *r, int64_t many, uint32_t precision)
{
    static float kept_out[MOST], given_out[MOST];
    kiln_weights *w = set_of(r), *numbers = w ? numbers_of(r, w) : NULL;
    uint64_t bytes = 0, given = 0;
    REQUIRE(numbers);
    size_t n = run_over(r, w, many, precision, kept_out, &bytes);
    CHECK_EQ(run_over(r, numbers, many, precision, given_out, &given), n);
    if (r->bytes)
        CHECK_MSG(bytes == r->bytes, "%s: %llu bytes, not %zu", r->name, (unsigned long long)bytes, r->bytes);
    else
        CHECK_EQ(bytes, given);
    double off = 0, size = 0, most = precision == KILN_F32 ? 1e-6 : 0x1p-7; /* of weights and of results 2^-8 */
    int whole = by_integers(r, precision);
    if (whole) most = 2e-2; /* twice what test_block_int8.c allows: these sums cancel in part */
    /* Under bf16 a few rows are multiplied as they are, in another order, and some more as f32. */
    int few = !r->rank && many <= 64 && precision != KILN_F32;
    if (same_arithmetic(precision) && !few && !whole)
        CHECK_MSG(memcmp(kept_out, given_out, n * sizeof *kept_out) == 0, "%s, %lld rows, %s: other bits", r->name,
                  (long long)many, dtype_name(precision));
    for (size_t i = 0; i < n; i++) {
        off += pow((double)kept_out[i] - (double)given_out[i], 2);
        size += pow((double)given_out[i], 2);
    }
    CHECK_MSG(sqrt(off) <= most * sqrt(size) && size > 0, "%s, %lld: relative error %g", r->name, (long long)many,
              sqrt(off / size));
    weights_unref(numbers), weights_unref(w);
}

static int rig_is_cpu(void)
{
    const char *name = getenv("KILN_TEST_BACKEND");
    return !name || strcmp(name, "cpu") == 0;
}

static void test_kept_as_stored(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && rig_is_cpu(); i++) {
        for (int b = 0; b < 2; b++) {
            uint32_t precision = b ? KILN_BF16 : KILN_F32;
            check_kept(&rows[i], 2, precision); /* of linears: a few rows, a panel, many */
            check_kept(&rows[i], rows[i].rank ? 1 : 40, precision);
            if (!rows[i].rank) check_kept(&rows[i], 200, precision);
        }
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_kept_as_stored)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
