/* test_gguf_sets.c - sets from GGUF files, written by the gguf package (tests/golden/gguf): shapes, numbers by whole
 * and in parts, blocks as they are, views, patches, metadata, split models, folders; and damage.
 */
#include "gguf_kit.h"

#include "base/pool.h"
#include "tensor/dtype.h"

#include <math.h>

static kiln_weights *golden(const char *name)
{
    char path[600];
    snprintf(path, sizeof path, "%s/tests/golden/gguf/%s", test_root(), name);
    return opened(path);
}

enum { MANY = 3 * 512 };

static void test_every_tensor_is_what_gguf_reads(void)
{
    kiln_weights *w = golden("blocks.gguf"), *want = golden("blocks.safetensors");
    REQUIRE(w && want);
    CHECK_EQ(weights_count(w), weights_count(want));
    kiln_weight_info a = {.size = sizeof a}, b = {.size = sizeof b};
    for (size_t i = 0; weights_at(want, i, &b) == KILN_OK; i++) {
        float got[MANY], of_gguf[MANY], stored[MANY];
        uint8_t bytes[MANY * 4];
        REQUIRE(weights_find(w, b.name, &a) == KILN_OK && a.rank == b.rank && b.bytes <= sizeof got);
        CHECK_MSG(memcmp(a.dim, b.dim, a.rank * sizeof *a.dim) == 0, "%s has another shape", a.name);
        if (a.dtype == KILN_I32) continue;
        REQUIRE(weights_read_f32(w, b.name, got, NULL) == KILN_OK);
        REQUIRE(weights_read_f32(want, b.name, of_gguf, NULL) == KILN_OK);
        CHECK_MSG(memcmp(got, of_gguf, b.bytes) == 0, "%s has other numbers", a.name);
        CHECK_EQ(weights_scan_finite(w, b.name, NULL), KILN_OK);
        /* the way of devices: stored bytes, then f32 */
        CHECK_EQ(weights_stored_bytes(w, b.name), a.bytes);
        REQUIRE(a.bytes <= sizeof bytes && weights_read_stored(w, b.name, bytes, NULL, NULL) == KILN_OK);
        CHECK(memcmp(bytes, weights_bytes(w, b.name, NULL), a.bytes) == 0);
        REQUIRE(weights_stored_as_f32(w, b.name, bytes, stored, NULL) == KILN_OK);
        CHECK_MSG(memcmp(stored, of_gguf, b.bytes) == 0, "%s has other numbers without the map", a.name);
    }
    weights_unref(w), weights_unref(want);
}

static void test_what_is_told_of_a_block_type(void)
{
    kiln_weights *w = golden("blocks.gguf");
    kiln_weight_info a = {.size = sizeof a};
    REQUIRE(w);
    REQUIRE(weights_find(w, "q4_k.weight", &a) == KILN_OK);
    CHECK(a.dtype == KILN_Q4_K && a.block == 256 && a.block_bytes == 144 && a.bytes == 6 * 144 &&
          a.stored_bytes == a.bytes);
    REQUIRE(weights_find(w, "plain.f16", &a) == KILN_OK);
    CHECK(a.block == 1 && a.block_bytes == 2);
    CHECK_STR(weights_type_name(w, "q4_k.weight"), "q4_k");
    weights_unref(w);
}

/* Rows, a transposition, and what a view of the view takes: equal to the same of the whole. */
static void test_views(void)
{
    static const kiln_weight_rule rules[] = {
        KILN_RULE(.from = "{}.weight", .to = "{}.rows", .row = 1, .rows = 2, .more = 1),
        KILN_RULE(.from = "{}.weight", .to = "{}.turned", .transpose = 1)};
    static const char *const types[] = {"q8_0", "q4_k", "q6_k", "iq4_nl", "q2_k"};
    kiln_weights *w = golden("blocks.gguf"), *v = NULL;
    const kiln_weight_rule only = KILN_RULE(.from = "*", .to = "*");
    REQUIRE(w);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        char name[32], rows[32], turned[32];
        float all[MANY], got[MANY];
        kiln_weight_rule r[2] = {rules[0], rules[1]};
        snprintf(name, sizeof name, "%s.weight", types[i]);
        snprintf(rows, sizeof rows, "%s.rows", types[i]);
        snprintf(turned, sizeof turned, "%s.turned", types[i]);
        r[0].from = name, r[0].to = rows, r[1].from = name, r[1].to = turned;
        v = weights_view(w, r, 2, NULL);
        kiln_weights *again = v ? weights_view(v, &only, 1, NULL) : NULL;
        kiln_weight_info info = {.size = sizeof info};
        REQUIRE(again && weights_read_f32(w, name, all, NULL) == KILN_OK);
        REQUIRE(weights_read_f32(again, rows, got, NULL) == KILN_OK);
        CHECK(memcmp(got, all + 512, 1024 * sizeof *got) == 0);
        CHECK(weights_find(again, rows, &info) == KILN_OK && info.bytes * 3 == weights_stored_bytes(w, name) * 2);
        CHECK(weights_bytes(again, rows, NULL) == (const char *)weights_bytes(w, name, NULL) + info.bytes / 2);
        REQUIRE(weights_read_f32(again, turned, got, NULL) == KILN_OK);
        size_t wrong = 0;
        for (size_t k = 0; k < MANY; k++) wrong += got[k] != all[k % 3 * 512 + k / 3];
        CHECK_EQ(wrong, 0);
        CHECK(!weights_bytes(again, turned, NULL));
        weights_unref(again), weights_unref(v);
    }
    weights_unref(w);
}

static void test_rows_that_cut_blocks(void)
{
    const kiln_weight_rule rule = KILN_RULE(.from = "q4_0.flat", .to = "part", .row = 40, .rows = 100);
    gguf_bytes g = gguf_begin(3, 1, 0);
    put_tensor(&g, "q4_0.flat", (const uint64_t[]){256, 0}, 2, 0);
    put_data(&g, 32, 144);
    for (size_t i = 0; i < 8; i++) g.b[g.n - 144 + i * 18 + 1] = (uint8_t)(0x20 + i); /* scales that differ */
    kiln_weights *w = opened(put_bytes("flat.gguf", g.b, g.n)), *v = w ? weights_view(w, &rule, 1, NULL) : NULL;
    float all[256], got[100];
    REQUIRE(v && weights_read_f32(w, "q4_0.flat", all, NULL) == KILN_OK);
    REQUIRE(weights_read_f32(v, "part", got, NULL) == KILN_OK);
    CHECK(memcmp(got, all + 40, sizeof got) == 0);
    CHECK(!weights_bytes(v, "part", NULL));
    weights_unref(v), weights_unref(w);
}

/* W + up x down on a base of blocks: f32 sums, and of ranges the same as of the whole. */
static void test_patches_on_blocks(void)
{
    static float up[3 * 2], down[2 * 512];
    for (size_t i = 0; i < 6; i++) up[i] = (float)i * 0.25f - 1;
    for (size_t i = 0; i < 1024; i++) down[i] = (float)(i % 17) * 0.125f - 1;
    const safetensors_source factors[] = {{.name = "up", .dtype = KILN_F32, DIMS(3, 2), .data = up},
                                          {.name = "down", .dtype = KILN_F32, DIMS(2, 512), .data = down}};
    kiln_weights *w = golden("blocks.gguf"), *lora = opened(put_tensors("lora.safetensors", factors, 2));
    kiln_weight_patch p = {
        .size = sizeof p, .name = "q4_k.weight", .strength = 0.5, .scale = 1, .from = lora, .up = "up", .down = "down"};
    const kiln_weight_rule middle = KILN_RULE(.from = "q4_k.weight", .to = "row", .row = 1, .rows = 1);
    error e = {0};
    REQUIRE(w && lora);
    kiln_weights *v = weights_patch(w, &p, 1, &e), *row = v ? weights_view(v, &middle, 1, &e) : NULL;
    float base[MANY], got[MANY], part[512];
    CHECK_MSG(row != NULL, "%s", e.message);
    REQUIRE(row && weights_read_f32(w, "q4_k.weight", base, NULL) == KILN_OK);
    pool *threads = pool_new(3);
    REQUIRE(weights_read_f32_by(v, "q4_k.weight", got, threads, NULL) == KILN_OK);
    REQUIRE(weights_read_f32(row, "row", part, NULL) == KILN_OK);
    size_t wrong = 0;
    for (size_t i = 0; i < 3; i++)
        for (size_t j = 0; j < 512; j++) {
            float sum = 0;
            for (size_t k = 0; k < 2; k++) sum += up[i * 2 + k] * down[k * 512 + j];
            wrong += got[i * 512 + j] != base[i * 512 + j] + 0.5f * sum;
        }
    CHECK_EQ(wrong, 0);
    CHECK(memcmp(part, got + 512, sizeof part) == 0);
    kiln_weight_info info = {.size = sizeof info};
    CHECK(weights_find(v, "q4_k.weight", &info) == KILN_OK && info.dtype == KILN_F32 &&
          !weights_bytes(v, "q4_k.weight", NULL));
    char a[33], b[33];
    CHECK(weights_tensor_identity(w, "q4_k.weight", a, NULL) == KILN_OK &&
          weights_tensor_identity(v, "q4_k.weight", b, NULL) == KILN_OK && strcmp(a, b) != 0);
    pool_free(threads);
    weights_unref(row), weights_unref(v), weights_unref(lora), weights_unref(w);
}

static void test_metadata(void)
{
    kiln_weights *w = golden("blocks.gguf");
    kiln_weight_value v = {.size = sizeof v};
    kiln_weight_item x = {.size = sizeof x};
    size_t n = 0;
    REQUIRE(w);
    static const struct {
        const char *path, *text;
        uint32_t kind;
        double number;
    } rows[] = {{"__metadata__/n.u8", "200", KILN_META_UINT, 200},
                {"__metadata__/n.i8", "-100", KILN_META_INT, -100},
                {"__metadata__/n.i16", "-30000", KILN_META_INT, -30000},
                {"__metadata__/n.u32", "4000000000", KILN_META_UINT, 4e9},
                {"__metadata__/n.i32", "-2000000000", KILN_META_INT, -2e9},
                {"__metadata__/n.u64", "18000000000000000000", KILN_META_UINT, 18e18},
                {"__metadata__/n.i64", "-9000000000000000000", KILN_META_INT, -9e18},
                {"__metadata__/n.f32", "0.100000001", KILN_META_FLOAT, (double)0.1f},
                {"__metadata__/n.f64", "0.10000000000000001", KILN_META_FLOAT, 0.1},
                {"__metadata__/n.bool", "true", KILN_META_BOOL, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CHECK_STR(weights_text(w, rows[i].path, &n), rows[i].text);
        REQUIRE(weights_metadata(w, rows[i].path, &v) == KILN_OK);
        CHECK(v.kind == rows[i].kind && v.count == 1 && !v.is_array);
        CHECK(weights_metadata_item(&v, 0, &x) == KILN_OK && x.number == rows[i].number);
        CHECK_EQ(weights_metadata_item(&v, 1, &x), KILN_ERR_INVALID);
    }
    CHECK(weights_metadata(w, "__metadata__/n.string", &v) == KILN_OK && weights_metadata_item(&v, 0, &x) == KILN_OK);
    CHECK(x.n == 7 && memcmp(x.text,
                             "Gr\xc3\xbc\xc3\x9f"
                             "e",
                             7) == 0);
    CHECK(!weights_text(w, "__metadata__/tokenizer.ggml.tokens", &n));
    REQUIRE(weights_metadata(w, "__metadata__/tokenizer.ggml.tokens", &v) == KILN_OK);
    CHECK(v.is_array && v.count == 4 && v.kind == KILN_META_STRING);
    static const char *const tokens[] = {"<s>", "\xc3\xbc", "", "\xe2\x96\x81the"};
    static const size_t order[] = {0, 1, 2, 3, 1, 3, 0};
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++)
        CHECK(weights_metadata_item(&v, order[i], &x) == KILN_OK && x.n == strlen(tokens[order[i]]) &&
              memcmp(x.text, tokens[order[i]], x.n) == 0);
    REQUIRE(weights_metadata(w, "__metadata__/tokenizer.ggml.scores", &v) == KILN_OK);
    CHECK(v.width == 4 && weights_metadata_item(&v, 1, &x) == KILN_OK && x.number == -1.25);
    CHECK_EQ(weights_metadata(w, "__metadata__/none", &v), KILN_ERR_INVALID);
    CHECK_EQ(weights_metadata(w, "n.u8", &v), KILN_ERR_INVALID);
    for (n = 0; weights_metadata_at(w, n, &v) == KILN_OK; n++) CHECK(v.key && v.file);
    CHECK_EQ(n, 17);
    weights_unref(w);
    w = opened(put_one("texts.safetensors", "t")); /* a safetensors file has texts */
    CHECK(weights_metadata(w, "__metadata__/format", &v) == KILN_OK && weights_metadata_item(&v, 0, &x) == KILN_OK);
    CHECK(x.n == 2 && memcmp(x.text, "pt", 2) == 0);
    weights_unref(w);
}

static const char *copy_golden(const char *from, const char *to)
{
    char path[600], *data = NULL;
    size_t n = 0;
    snprintf(path, sizeof path, "%s/tests/golden/gguf/%s", test_root(), from);
    CHECK(file_read(path, 1 << 20, &data, &n, NULL) == KILN_OK);
    const char *at = put_bytes(to, data, n);
    free(data);
    return at;
}

static void test_split_models(void)
{
    float a[8];
    kiln_weights *w = golden("split-00001-of-00002.gguf");
    REQUIRE(w && weights_count(w) == 3);
    CHECK(weights_read_f32(w, "c.weight", a, NULL) == KILN_OK && a[7] == 'c');
    weights_unref(w);
    char second[600];
    snprintf(second, sizeof second, "%s/tests/golden/gguf/split-00002-of-00002.gguf", test_root());
    REFUSED(second, KILN_ERR_INVALID, "is not the first of 2 files", "-00001-of-00002");
    REFUSED(copy_golden("split-00001-of-00002.gguf", "half/m-00001-of-00002.gguf"), KILN_ERR_INVALID,
            "m-00002-of-00002.gguf: is missing", "needs them all");
    copy_golden("split-00001-of-00002.gguf", "twice/m-00002-of-00002.gguf");
    REFUSED(copy_golden("split-00001-of-00002.gguf", "twice/m-00001-of-00002.gguf"), KILN_ERR_INVALID,
            "says it is file 1 of 2", "do not belong together");
    REFUSED(copy_golden("split-00001-of-00002.gguf", "named/model.gguf"), KILN_ERR_INVALID, "is one of 2 files",
            "-00001-of-00002.gguf");
}

static void test_folders(void)
{
    copy_golden("split-00001-of-00002.gguf", "folder/unet/m-00001-of-00002.gguf");
    copy_golden("split-00002-of-00002.gguf", "folder/unet/m-00002-of-00002.gguf");
    copy_golden("blocks.gguf", "folder/vae/any.gguf");
    put_text("folder/model_index.json", "{}");
    kiln_weights *w = opened(at_path("folder"));
    kiln_weight_info info = {.size = sizeof info};
    size_t n;
    REQUIRE(w);
    CHECK(weights_find(w, "unet/c.weight", &info) == KILN_OK && weights_find(w, "vae/q8_0.weight", &info) == KILN_OK);
    CHECK_STR(weights_text(w, "vae/__metadata__/n.u8", &n), "200");
    weights_unref(w);
    copy_golden("blocks.gguf", "folder/unet/other.gguf");
    w = opened(at_path("folder")); /* two models in unet/: neither is taken */
    CHECK(w && weights_find(w, "unet/c.weight", &info) != KILN_OK);
    weights_unref(w);
    put_one("folder/unet/model.safetensors", "plain"); /* a safetensors file stands before them */
    w = opened(at_path("folder"));
    CHECK(w && weights_find(w, "unet/plain", &info) == KILN_OK);
    weights_unref(w);
}

static void test_a_scale_that_is_no_number(void)
{
    gguf_bytes g = gguf_begin(3, 1, 0);
    put_tensor(&g, "w", (const uint64_t[]){256, 2, 0}, 12, 0);
    put_data(&g, 32, 2 * 144);
    g.b[g.n - 144 + 3] = 0x7c; /* dmin of the second block: infinity */
    error e = {0};
    uint8_t bytes[2 * 144];
    char byte[40];
    kiln_weights *w = opened(put_bytes("inf.gguf", g.b, g.n));
    REQUIRE(w);
    CHECK_EQ(weights_scan_finite(w, "w", &e), KILN_ERR_INVALID);
    snprintf(byte, sizeof byte, "inf.gguf: byte %zu:", g.n - 144);
    contains(e.message, byte);
    contains(e.message, "tensor 'w' holds a NaN or infinity at the scale of block 1");
    e = (error){0};
    REQUIRE(weights_read_stored(w, "w", bytes, NULL, NULL) == KILN_OK);
    CHECK_EQ(weights_scan_stored(w, "w", bytes, &e), KILN_ERR_INVALID);
    contains(e.message, "block 1");
    weights_unref(w);
}

static void test_types_that_kiln_does_not_read(void)
{
    static const struct {
        uint32_t id;
        const char *name;
        size_t bytes;
    } rows[] = {{16, "IQ2_XXS", 66}, {22, "IQ2_S", 82}, {29, "IQ1_M", 56}, {34, "TQ1_0", 54}, {24, "I8", 256}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        gguf_bytes g = gguf_begin(3, 1, 0);
        error e = {0};
        float got[256];
        put_tensor(&g, "w", (const uint64_t[]){256, 0}, rows[i].id, 0);
        put_data(&g, 32, rows[i].bytes);
        kiln_weights *w = opened(put_bytes("other.gguf", g.b, g.n));
        REQUIRE(w);
        CHECK_EQ(weights_read_f32(w, "w", got, &e), KILN_ERR_UNSUPPORTED);
        contains(e.message, "tensor 'w' is of type ");
        contains(e.message, rows[i].name);
        weights_unref(w);
    }
    REFUSED(put_text("named.gguf", "no magic number here"), KILN_ERR_INVALID, "named.gguf: byte 0",
            "begins with 'GGUF'");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_every_tensor_is_what_gguf_reads),
                                      CASE(test_what_is_told_of_a_block_type),
                                      CASE(test_views),
                                      CASE(test_rows_that_cut_blocks),
                                      CASE(test_patches_on_blocks),
                                      CASE(test_metadata),
                                      CASE(test_split_models),
                                      CASE(test_folders),
                                      CASE(test_a_scale_that_is_no_number),
                                      CASE(test_types_that_kiln_does_not_read)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
