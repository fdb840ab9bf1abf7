/* test_quantize.c - files whose tensors are stored by blocks, written and read back: each type in both formats against
 * block_write() alone; which tensors become what; shapes that blocks do not fit; metadata; what cannot be stored.
 */
#include "gguf_kit.h"

#include "base/pool.h"
#include "tensor/block.h"
#include "tensor/dtype.h"
#include "weights/quantize.h"

#include <math.h>

enum { O = 5, I = 512, ALL = O * I };

static float wide[ALL], conv[64 * 32 * 9], narrow[64 * 24], bias[2048];

static void fill(float *x, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++) x[i] = sinf((float)(i * 7919 % 10007 + seed)) * 0.05f;
}

static const char *source(void)
{
    fill(wide, ALL, 1), fill(conv, 64 * 32 * 9, 2), fill(narrow, 64 * 24, 3), fill(bias, 2048, 4);
    const safetensors_source t[] = {{.name = "wide", .dtype = KILN_F32, DIMS(O, I), .data = wide},
                                    {.name = "conv", .dtype = KILN_F32, DIMS(64, 32, 3, 3), .data = conv},
                                    {.name = "narrow", .dtype = KILN_F32, DIMS(64, 24), .data = narrow},
                                    {.name = "bias", .dtype = KILN_F32, DIMS(2048), .data = bias},
                                    {.name = "small", .dtype = KILN_F32, DIMS(2, 32), .data = bias}};
    return put_tensors("source.safetensors", t, 5);
}

static kiln_status to_text(void *self, const void *bytes, size_t n)
{
    str_append_n(self, bytes, n);
    return KILN_OK;
}

static kiln_status go_on(void *self, uint64_t done, uint64_t total)
{
    (void)self;
    CHECK(done <= total);
    return KILN_OK;
}

static kiln_weights *quantized(kiln_weights *w, const quantize_setting *s, pool *p, quantize_report *r, str *bytes,
                               error *e)
{
    quantize_report unused;
    weights_sink sink = {to_text, go_on, bytes, p};
    if (weights_quantize(&sink, w, s, r ? r : &unused, e) != KILN_OK) return NULL;
    static int made; /* each a file of its own: sets are maps */
    char name[32];
    snprintf(name, sizeof name, s->gguf ? "out%d.gguf" : "out%d.safetensors", made++);
    return opened(put_bytes(name, bytes->data, bytes->len));
}

static void is_rounded(kiln_weights *w, const char *name, const float *from, size_t n, uint32_t dtype)
{
    static uint8_t want[64 * 32 * 9 * 2];
    static float got[64 * 32 * 9], back[64 * 32 * 9];
    kiln_weight_info info = {.size = sizeof info};
    size_t bytes = 0;
    REQUIRE(weights_find(w, name, &info) == KILN_OK && dtype_bytes(dtype, n, &bytes));
    CHECK_MSG(info.dtype == dtype, "%s is %s, not %s", name, dtype_name(info.dtype), dtype_name(dtype));
    REQUIRE(block_write(dtype, from, want, n) == KILN_OK && info.bytes == bytes);
    CHECK_MSG(memcmp(weights_bytes(w, name, NULL), want, bytes) == 0, "%s has other blocks", name);
    REQUIRE(weights_read_f32(w, name, got, NULL) == KILN_OK && block_read_plain(dtype, want, back, n) == KILN_OK);
    CHECK(memcmp(got, back, n * 4) == 0);
}

static void is_as_before(kiln_weights *w, const char *name, const float *from, size_t n)
{
    kiln_weight_info info = {.size = sizeof info};
    const void *bytes = weights_bytes(w, name, &info);
    CHECK_MSG(bytes && info.dtype == KILN_F32 && info.bytes == n * 4 && memcmp(bytes, from, n * 4) == 0, "%s changed",
              name);
}

static void has_shape(kiln_weights *w, const char *name, uint32_t rank, const int64_t *dim)
{
    kiln_weight_info info = {.size = sizeof info};
    REQUIRE(weights_find(w, name, &info) == KILN_OK);
    CHECK_MSG(info.rank == rank && memcmp(info.dim, dim, rank * sizeof *dim) == 0, "%s has another shape", name);
}

static void test_every_type_in_both_formats(void)
{
    static const uint32_t types[] = {KILN_Q4_0, KILN_Q4_1, KILN_Q5_0, KILN_Q5_1,   KILN_Q8_0,   KILN_Q2_K,  KILN_Q3_K,
                                     KILN_Q4_K, KILN_Q5_K, KILN_Q6_K, KILN_IQ4_NL, KILN_IQ4_XS, KILN_MXFP4, KILN_NVFP4};
    kiln_weights *w = opened(source());
    REQUIRE(w);
    for (size_t i = 0; i < 2 * sizeof types / sizeof types[0]; i++) {
        quantize_setting s = {.dtype = types[i / 2], .gguf = i % 2};
        quantize_report r;
        str bytes = {0};
        error e = {0};
        kiln_weights *q = quantized(w, &s, NULL, &r, &bytes, &e);
        CHECK_MSG(q != NULL, "%s", e.message);
        if (!q) return;
        uint32_t other = quantize_fallback(s.dtype); /* rows of 288 are 9 blocks of 32 */
        is_rounded(q, "wide", wide, ALL, s.dtype);
        is_rounded(q, "conv", conv, 64 * 32 * 9, other);
        CHECK_EQ(dtype_block(other), 32);
        is_as_before(q, "narrow", narrow, 64 * 24);
        is_as_before(q, "bias", bias, 2048);
        is_as_before(q, "small", bias, 64);
        has_shape(q, "conv", 4, (const int64_t[]){64, 32, 3, 3});
        has_shape(q, "wide", 2, (const int64_t[]){O, I});
        CHECK_EQ(weights_count(q), 5);
        CHECK(r.asked + r.instead == 2 && r.kept == 3 && r.after < r.before && r.error > 0 && r.error < 0.35 &&
              r.worst >= r.error && r.worst_name);
        CHECK_EQ(r.instead, s.dtype != other);
        weights_unref(q);
        str_free(&bytes);
    }
    weights_unref(w);
}

static void test_the_same_bytes_for_any_threads(void)
{
    kiln_weights *w = opened(source());
    REQUIRE(w);
    for (int gguf = 0; gguf < 2; gguf++) {
        quantize_setting s = {.dtype = KILN_Q4_K, .gguf = gguf};
        str one = {0}, many = {0};
        pool *p = pool_new(3);
        kiln_weights *a = quantized(w, &s, NULL, NULL, &one, NULL), *b = quantized(w, &s, p, NULL, &many, NULL);
        CHECK(a && b && one.len == many.len && memcmp(one.data, many.data, one.len) == 0);
        weights_unref(a), weights_unref(b);
        str_free(&one), str_free(&many);
        pool_free(p);
    }
    weights_unref(w);
}

static void test_kept(void)
{
    static const char *const keep[] = {"w*e", "no*match"};
    kiln_weights *w = opened(source());
    quantize_setting s = {.dtype = KILN_Q8_0, .gguf = 1, .keep = keep, .n_keep = 2};
    str bytes = {0};
    REQUIRE(w);
    kiln_weights *q = quantized(w, &s, NULL, NULL, &bytes, NULL);
    REQUIRE(q);
    is_as_before(q, "wide", wide, ALL);
    is_rounded(q, "conv", conv, 64 * 32 * 9, KILN_Q8_0);
    weights_unref(q), weights_unref(w);
    str_free(&bytes);
    static const struct {
        const char *pattern, *name;
        int matches;
    } rows[] = {{"*", "", 1},      {"a*", "abc", 1},      {"*c", "abc", 1},   {"a*c", "abc", 1},
                {"a*b", "abc", 0}, {"abc", "abc", 1},     {"ab", "abc", 0},   {"abcd", "abc", 0},
                {"", "a", 0},      {"*a*b*", "xaxbx", 1}, {"*ab", "aaab", 1}, {"a**b", "ab", 1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        CHECK_MSG(quantize_matches(rows[i].pattern, rows[i].name) == rows[i].matches, "'%s' and '%s'", rows[i].pattern,
                  rows[i].name);
}

/* A GGUF file of one type into the other format and back: blocks and values as they were. */
static void test_blocks_and_values_are_carried_over(void)
{
    char path[600];
    snprintf(path, sizeof path, "%s/tests/golden/gguf/blocks.gguf", test_root());
    static const char *const all[] = {"*"};
    kiln_weights *w = opened(path);
    quantize_setting s = {.dtype = KILN_Q8_0, .keep = all, .n_keep = 1};
    str bytes = {0}, again = {0};
    error e = {0};
    REQUIRE(w);
    kiln_weights *q = quantized(w, &s, NULL, NULL, &bytes, &e);
    CHECK_MSG(q != NULL, "%s", e.message);
    REQUIRE(q);
    s.gguf = 1;
    kiln_weights *g = quantized(q, &s, NULL, NULL, &again, &e), *straight;
    CHECK_MSG(g != NULL, "%s", e.message);
    str third = {0};
    straight = quantized(w, &s, NULL, NULL, &third, &e);
    REQUIRE(g && straight);
    kiln_weight_info a = {.size = sizeof a}, b = {.size = sizeof b};
    kiln_weights *const sets[] = {q, g, straight};
    for (size_t k = 0; k < 3; k++)
        for (size_t i = 0; weights_at(w, i, &a) == KILN_OK; i++) {
            REQUIRE(weights_find(sets[k], a.name, &b) == KILN_OK && a.dtype == b.dtype && a.bytes == b.bytes);
            has_shape(sets[k], a.name, a.rank, a.dim);
            CHECK(memcmp(weights_bytes(w, a.name, NULL), weights_bytes(sets[k], a.name, NULL), a.bytes) == 0);
        }
    size_t n;
    kiln_weight_value v = {.size = sizeof v};
    CHECK_STR(weights_text(q, "__metadata__/n.u8", &n), "200");
    CHECK_STR(weights_text(g, "__metadata__/n.i16", &n), "-30000");
    CHECK(weights_metadata(straight, "__metadata__/tokenizer.ggml.scores", &v) == KILN_OK && v.is_array &&
          v.count == 4);
    CHECK(weights_metadata(straight, "__metadata__/n.i16", &v) == KILN_OK && v.kind == KILN_META_INT && v.width == 2);
    weights_unref(straight), weights_unref(g), weights_unref(q), weights_unref(w);
    str_free(&bytes), str_free(&again), str_free(&third);
}

/* As ComfyUI's files have convolutions: blocks run on from row to row. */
static void test_blocks_that_cross_rows(void)
{
    static const char *const all[] = {"*"};
    gguf_bytes g = gguf_begin(3, 1, 1);
    put_key(&g, "comfy.gguf.orig_shape.c", GGUF_ARRAY);
    put(&g, GGUF_I32, 4), put(&g, 4, 8), put(&g, 20, 4), put(&g, 2, 4), put(&g, 2, 4), put(&g, 2, 4);
    put_tensor(&g, "c", (const uint64_t[]){160, 0}, 8, 0);
    put_data(&g, 32, 5 * 34);
    kiln_weights *w = opened(put_bytes("conv.gguf", g.b, g.n));
    REQUIRE(w);
    for (int gguf = 0; gguf < 2; gguf++) {
        quantize_setting s = {.dtype = KILN_Q8_0, .gguf = gguf, .keep = all, .n_keep = 1};
        str bytes = {0};
        error e = {0};
        kiln_weights *q = quantized(w, &s, NULL, NULL, &bytes, &e);
        CHECK_MSG(q != NULL, "%s", e.message);
        if (!q) return;
        has_shape(q, "c", 4, (const int64_t[]){20, 2, 2, 2});
        CHECK(memcmp(weights_bytes(q, "c", NULL), weights_bytes(w, "c", NULL), 5 * 34) == 0);
        weights_unref(q);
        str_free(&bytes);
    }
    weights_unref(w);
}

static void test_an_architecture(void)
{
    kiln_weights *w = opened(source());
    quantize_setting s = {.dtype = KILN_Q8_0, .gguf = 1, .architecture = "sd1"};
    str bytes = {0};
    size_t n;
    REQUIRE(w);
    kiln_weights *q = quantized(w, &s, NULL, NULL, &bytes, NULL);
    REQUIRE(q);
    CHECK_STR(weights_text(q, "__metadata__/general.architecture", &n), "sd1");
    CHECK_STR(weights_text(q, "__metadata__/general.quantization_version", &n), "2");
    weights_unref(q), weights_unref(w);
    str_free(&bytes);
}

static void cannot(const safetensors_source *t, const quantize_setting *s, const char *why)
{
    str bytes = {0};
    error e = {0};
    quantize_report r;
    weights_sink sink = {to_text, go_on, &bytes, NULL};
    kiln_weights *w = opened(put_tensors("bad.safetensors", t, 1));
    REQUIRE(w);
    CHECK_EQ(weights_quantize(&sink, w, s, &r, &e), KILN_ERR_INVALID);
    contains(e.message, why);
    weights_unref(w);
    str_free(&bytes);
}

static void test_what_cannot_be_stored(void)
{
    static float x[1024];
    fill(x, 1024, 1);
    const safetensors_source t = {.name = "t", .dtype = KILN_F32, DIMS(32, 32), .data = x};
    const safetensors_source u8 = {.name = "t", .dtype = KILN_U8, DIMS(4), .data = x};
    quantize_setting q8 = {.dtype = KILN_Q8_0, .gguf = 1}, f16 = {.dtype = KILN_F16};
    cannot(&u8, &q8, "'t' is of type u8, which GGUF does not have");
    cannot(&t, &f16, "f16 is no type that is stored by blocks");
    x[40] = 1e8f;
    cannot(&t, &q8, "tensor 't' has a number that is too large for q8_0");
    x[40] = NAN;
    cannot(&t, &q8, "tensor 't' holds a NaN or infinity");
}

/* Lines of __metadata__ that lie. */
static void test_lines_that_do_not_fit(void)
{
    static const char *const lines[] = {"q8_0 [2,32]",
                                        "q8_0 [1,64",
                                        "q8_0 1,32",
                                        "f32 [1,32]",
                                        "q9 [1,32]",
                                        "q8_0 []",
                                        "q8_0 [-1,-32]",
                                        "q8_0 [0]",
                                        "q8_0 [1,32] ",
                                        "",
                                        "q8_0 [4611686018427387904,4611686018427387904]",
                                        "q8_0 [1,1,1,1,1,1,1,1,32]"};
    for (size_t i = 0; i <= sizeof lines / sizeof lines[0]; i++) {
        const char *line = i == sizeof lines / sizeof lines[0] ? "q8_0 [1,32]" : lines[i];
        static const uint8_t blocks[34];
        str s = {0};
        error e = {0};
        const safetensors_source t = {.name = "t", .dtype = KILN_U8, DIMS(1, 34), .data = blocks};
        CHECK(safetensors_encode(&s, &t, 1, &(safetensors_remark){"kiln.block.t", line}, 1, &e) == KILN_OK);
        kiln_weights *w = weights_open(put_bytes("line.safetensors", s.data, s.len), &e);
        if (line == lines[i % (sizeof lines / sizeof lines[0])]) {
            CHECK_MSG(!w && e.status == KILN_ERR_INVALID, "'%s' is accepted", line);
            contains(e.message, "line.safetensors: byte 8: the line 'kiln.block.t'");
        } else {
            CHECK_MSG(w != NULL, "%s", e.message);
        }
        weights_unref(w);
        str_free(&s);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_every_type_in_both_formats),
                                      CASE(test_the_same_bytes_for_any_threads),
                                      CASE(test_kept),
                                      CASE(test_blocks_and_values_are_carried_over),
                                      CASE(test_blocks_that_cross_rows),
                                      CASE(test_an_architecture),
                                      CASE(test_what_cannot_be_stored),
                                      CASE(test_lines_that_do_not_fit)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
