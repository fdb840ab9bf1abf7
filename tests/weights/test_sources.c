/* test_sources.c - sets that are no files: bytes in memory, a function that reads, tensors; and a set laid over
 * another. They are read, viewed, patched and dequantised like files; the giver is told once, and no page of it is
 * given back to the system.
 */
#include "gguf_kit.h"

#include "tensor/block.h"
#include "tensor/dtype.h"

#include <math.h>

static int released;
static void release(void *self) { released += *(int *)self; }

static char *golden_bytes(size_t *n)
{
    char path[600], *data = NULL;
    snprintf(path, sizeof path, "%s/tests/golden/gguf/blocks.gguf", test_root());
    CHECK(file_read(path, 1 << 20, &data, n, NULL) == KILN_OK);
    return data;
}

static void same_as_the_file(kiln_weights *w)
{
    char path[600];
    float a[1536], b[1536];
    snprintf(path, sizeof path, "%s/tests/golden/gguf/blocks.gguf", test_root());
    kiln_weights *file = opened(path);
    kiln_weight_info x = {.size = sizeof x};
    REQUIRE(file && w && weights_count(file) == weights_count(w));
    for (size_t i = 0; weights_at(file, i, &x) == KILN_OK; i++) {
        if (x.dtype == KILN_I32) continue;
        REQUIRE(weights_read_f32(file, x.name, a, NULL) == KILN_OK && weights_read_f32(w, x.name, b, NULL) == KILN_OK);
        size_t n = 1;
        for (uint32_t k = 0; k < x.rank; k++) n *= (size_t)x.dim[k];
        CHECK_MSG(memcmp(a, b, n * 4) == 0, "%s differs", x.name);
        weights_release_pages(w, x.name); /* what is in memory stays there */
        uint8_t stored[8192];
        CHECK(weights_read_stored(w, x.name, stored, NULL, NULL) == KILN_OK &&
              memcmp(stored, weights_bytes(file, x.name, NULL), x.bytes) == 0);
        CHECK_EQ(weights_scan_finite(w, x.name, NULL), KILN_OK);
        CHECK_EQ(weights_unchanged(w, x.name, NULL), KILN_OK);
    }
    size_t n;
    CHECK_STR(weights_text(w, "__metadata__/n.u8", &n), "200");
    CHECK(!weights_file_at(w, 0)); /* there is none to watch */
    weights_unref(file);
}

static void test_bytes_in_memory(void)
{
    int one = 1;
    size_t n;
    char *bytes = golden_bytes(&n);
    error e = {0};
    kiln_weight_source s = {
        .size = sizeof s, .name = "given", .data = bytes, .bytes = n, .self = &one, .release = release};
    released = 0;
    kiln_weights *w = weights_open_source(&s, &e);
    CHECK_MSG(w != NULL, "%s", e.message);
    REQUIRE(w);
    same_as_the_file(w);
    const char *a = weights_identity(w, NULL);
    char before[33];
    REQUIRE(a);
    memcpy(before, a, 33);
    const kiln_weight_rule rule = KILN_RULE(.from = "q8_0.weight", .to = "x");
    kiln_weights *v = weights_view(w, &rule, 1, NULL);
    weights_unref(w);
    CHECK_EQ(released, 0); /* the view still has them */
    weights_unref(v);
    CHECK_EQ(released, 1);
    bytes[n - 1] ^= 1;
    w = weights_open_source(&s, NULL);
    REQUIRE(w && weights_identity(w, NULL));
    CHECK(strcmp(before, weights_identity(w, NULL)) != 0);
    weights_unref(w);
    s.bytes = 100;
    w = weights_open_source(&s, &e);
    CHECK(!w && e.status == KILN_ERR_INVALID);
    contains(e.message, "given: byte ");
    CHECK_EQ(released, 3); /* also where it fails */
    free(bytes);
}

typedef struct {
    char *bytes;
    size_t n, calls, fails_at;
    int was_released;
} reader;

static kiln_status read_some(void *self, uint64_t offset, size_t n, void *dst)
{
    reader *r = self;
    r->calls++;
    CHECK(offset + n <= r->n && !r->was_released);
    if (offset + n > r->fails_at) return KILN_ERR_IO;
    memcpy(dst, r->bytes + offset, n);
    return KILN_OK;
}
static void reader_done(void *self) { ((reader *)self)->was_released++; }

static void test_a_function_that_reads(void)
{
    reader r = {.fails_at = SIZE_MAX};
    r.bytes = golden_bytes(&r.n);
    error e = {0};
    kiln_weight_source s = {
        .size = sizeof s, .name = "read", .bytes = r.n, .read = read_some, .self = &r, .release = reader_done};
    kiln_weights *w = weights_open_source(&s, &e);
    CHECK_MSG(w != NULL, "%s", e.message);
    REQUIRE(w);
    CHECK_EQ(r.was_released, 1); /* all of it is in memory */
    same_as_the_file(w);
    weights_unref(w);
    CHECK_EQ(r.was_released, 1);
    r.was_released = 0, r.fails_at = 10;
    CHECK(!weights_open_source(&s, &e) && e.status == KILN_ERR_IO && r.was_released == 1);
    contains(e.message, "read: byte 0: ");
    s.read = NULL, e = (error){0};
    CHECK(!weights_open_source(&s, &e) && e.status == KILN_ERR_INVALID);
    contains(e.message, "neither bytes nor a function");
    free(r.bytes);
}

/* ---- made ---- */

static void test_made_of_tensors(void)
{
    static const int64_t shape[] = {2, 3}, rows[] = {2, 64};
    float six[] = {0, 1, 2, 3, 4, 5}, many[128], back[128], got[128];
    uint16_t halves[] = {0x3c00, 0x4000, 0, 0xbc00, 0x3800, 0x7bff};
    uint8_t blocks[4 * 34];
    for (int i = 0; i < 128; i++) many[i] = sinf((float)i);
    REQUIRE(block_write(KILN_Q8_0, many, blocks, 128) == KILN_OK &&
            block_read_f32(KILN_Q8_0, blocks, back, 128) == KILN_OK);
    const kiln_weight_tensor t[] = {{sizeof *t, KILN_F32, 2, "six", shape, six},
                                    {sizeof *t, KILN_F16, 2, "half", shape, halves},
                                    {sizeof *t, KILN_Q8_0, 2, "blocks", rows, blocks}};
    error e = {0};
    kiln_weights *w = weights_make("made", t, 3, &e);
    CHECK_MSG(w != NULL, "%s", e.message);
    REQUIRE(w);
    memset(six, 0, sizeof six), memset(blocks, 0, sizeof blocks); /* they were copied */
    CHECK(weights_read_f32(w, "six", got, NULL) == KILN_OK && got[5] == 5);
    CHECK(weights_read_f32(w, "half", got, NULL) == KILN_OK && got[1] == 2 && got[3] == -1);
    CHECK(weights_read_f32(w, "blocks", got, NULL) == KILN_OK && memcmp(got, back, sizeof back) == 0);
    kiln_weight_info x = {.size = sizeof x};
    CHECK(weights_find(w, "blocks", &x) == KILN_OK && x.dtype == KILN_Q8_0 && x.rank == 2 && x.dim[1] == 64);
    const kiln_weight_patch p = {
        .size = sizeof p, .name = "six", .strength = 1, .scale = 1, .from = w, .difference = "half"};
    kiln_weights *v = weights_patch(w, &p, 1, &e);
    CHECK(v && weights_read_f32(v, "six", got, NULL) == KILN_OK && got[0] == 1 && got[1] == 3);
    weights_unref(v), weights_unref(w);
    const kiln_weight_tensor bad[] = {{sizeof *t, KILN_Q8_0, 2, "b", shape, six},
                                      {sizeof *t, KILN_F32, 2, NULL, shape, six},
                                      {sizeof *t, 99, 2, "b", shape, six}};
    static const char *const why[] = {"'b' is no whole blocks of q8_0", "has no size, name or shape",
                                      "'b' has no element type"};
    for (size_t i = 0; i < 3; i++) {
        e = (error){0};
        CHECK(!weights_make("made", &bad[i], 1, &e));
        contains(e.message, why[i]);
    }
    w = weights_make("none", NULL, 0, &e);
    CHECK(w && weights_count(w) == 0);
    weights_unref(w);
}

/* ---- one over another ---- */

static kiln_weights *made(const char *set, const char *a, float x, const char *b, float y)
{
    static const int64_t one[] = {1};
    const kiln_weight_tensor t[] = {{sizeof *t, KILN_F32, 1, a, one, &x}, {sizeof *t, KILN_F32, 1, b, one, &y}};
    return weights_make(set, t, 2, NULL);
}

static float number(kiln_weights *w, const char *name)
{
    float f = NAN;
    weights_read_f32(w, name, &f, NULL);
    return f;
}

static void test_overlay(void)
{
    kiln_weights *base = made("base", "a", 1, "b", 2), *over = made("over", "b", 20, "c", 30), *w;
    error e = {0};
    REQUIRE(base && over && (w = weights_overlay(base, over, &e)));
    CHECK_EQ(weights_count(w), 3);
    CHECK_EQ(weights_unused(base, NULL, NULL), 2);
    CHECK(number(w, "a") == 1 && number(w, "b") == 20 && number(w, "c") == 30 && isnan(number(w, "d")));
    CHECK_EQ(weights_unused(base, NULL, NULL), 1); /* b of the base was not asked for */
    CHECK_EQ(weights_unused(over, NULL, NULL), 0);
    CHECK_EQ(weights_unused(w, NULL, NULL), 0);
    /* it is viewed, joined and laid over again */
    static const char *const with[] = {"b", "c"};
    const kiln_weight_rule r = KILN_RULE(.from = "a", .to = "all", .join = KILN_JOIN_CAT, .with = with, .n_with = 2);
    kiln_weights *v = weights_view(w, &r, 1, &e), *again = weights_overlay(over, w, &e);
    float got[3];
    CHECK_MSG(v && weights_read_f32(v, "all", got, NULL) == KILN_OK, "%s", e.message);
    CHECK(got[0] == 1 && got[1] == 20 && got[2] == 30);
    CHECK(again && weights_count(again) == 3 && number(again, "a") == 1);
    weights_unref(base), weights_unref(over), weights_unref(w);
    CHECK(number(again, "c") == 30); /* what it was made of lives as long */
    weights_unref(v), weights_unref(again);
    CHECK(!weights_overlay(NULL, NULL, &e));
}

/* Files: texts, metadata and the list of files are of both. */
static void test_an_overlay_of_files(void)
{
    char path[600];
    snprintf(path, sizeof path, "%s/tests/golden/gguf/blocks.gguf", test_root());
    kiln_weights *base = opened(put_one("base.safetensors", "t")), *over = opened(path), *w;
    size_t n;
    kiln_weight_value x = {.size = sizeof x};
    REQUIRE(base && over && (w = weights_overlay(base, over, NULL)));
    CHECK_STR(weights_text(w, "__metadata__/format", &n), "pt");
    CHECK_STR(weights_text(w, "__metadata__/n.u8", &n), "200");
    CHECK_EQ(weights_metadata(w, "__metadata__/tokenizer.ggml.tokens", &x), KILN_OK);
    CHECK(weights_file_at(w, 0) && weights_file_at(w, 1) && !weights_file_at(w, 2));
    char a[33], b[33];
    CHECK(weights_tensor_identity(w, "q8_0.weight", a, NULL) == KILN_OK &&
          weights_tensor_identity(over, "q8_0.weight", b, NULL) == KILN_OK && strcmp(a, b) == 0);
    weights_unref(w), weights_unref(base), weights_unref(over);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_bytes_in_memory), CASE(test_a_function_that_reads),
                                      CASE(test_made_of_tensors), CASE(test_overlay), CASE(test_an_overlay_of_files)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
