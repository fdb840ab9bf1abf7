/* test_weights_memory.c - sets of tensors while there is no memory: opened, shown otherwise, patched, read in every
 * way, written and quantised, with each allocation failing once (no_memory_kit.h).
 */
#include "weights_kit.h"

#include "no_memory_kit.h"
#include "tensor/dtype.h"
#include "weights/packed_rows.h"
#include "weights/quantize.h"
#include "weights/write.h"

#include <math.h>

enum { MOST = 1 << 16 };

static float numbers[MOST], copy[MOST];
static uint8_t stored[MOST * 4];

static size_t count_of(const kiln_weight_info *x)
{
    size_t n = 1;
    for (uint32_t i = 0; i < x->rank; i++) n *= (size_t)x->dim[i];
    return n;
}

/* Rows as they are stored, and as numbers in two parts. */
static kiln_status read_rows(const kiln_weights *w, const kiln_weight_info *x, yield *out, error *e)
{
    weights_rows r;
    if (weights_rows_of(w, x->name, &r)) {
        yield_number(out, r.coding);
        yield_bytes(out, r.codebook, r.coding == WEIGHTS_NIBBLES ? sizeof r.codebook : 0);
        TRY(weights_rows_read(&r, 0, r.rows, stored, NULL, e));
        yield_bytes(out, stored, r.rows * r.row_bytes);
        size_t n = weights_scales_of(&r) * r.rows;
        if (n) TRY(weights_row_scales(&r, 0, r.rows, copy, e));
        yield_bytes(out, copy, n * sizeof(float));
    }
    size_t width = x->rank ? (size_t)x->dim[x->rank - 1] : 1, n = count_of(x);
    weights_f32_rows *rows;
    if (n < 2 * width || !weights_f32_rows_apart(w, x->name, width)) return KILN_OK;
    TRY(weights_f32_rows_open(w, x->name, NULL, &rows, e));
    kiln_status status = weights_f32_rows_read(rows, 0, width, copy, e);
    if (status == KILN_OK) status = weights_f32_rows_read(rows, width, n - width, copy + width, e);
    weights_f32_rows_close(rows);
    if (status == KILN_OK) yield_bytes(out, copy, n * sizeof(float));
    return status;
}

static kiln_status read_tensor(const kiln_weights *w, const kiln_weight_info *x, yield *out, error *e)
{
    char hex[33];
    size_t n = count_of(x);
    yield_text(out, x->name), yield_text(out, weights_type_name(w, x->name));
    yield_number(out, (int64_t)x->bytes), yield_bytes(out, x->dim, x->rank * sizeof *x->dim);
    TRY(weights_tensor_identity(w, x->name, hex, e));
    yield_text(out, hex);
    if (x->dtype == 0 || n > MOST || weights_supported(w, x->name, NULL) != KILN_OK) return KILN_OK;
    if (x->dtype == KILN_I32 || x->dtype == KILN_I64 || x->dtype == KILN_U8) return KILN_OK;
    if (strncmp(x->name, "e4m3", 4) == 0 || strncmp(x->name, "e5m2", 4) == 0) return KILN_OK; /* every code, NaN too */
    TRY(weights_scan_finite(w, x->name, e));
    TRY(weights_read_f32(w, x->name, numbers, e));
    yield_bytes(out, numbers, n * sizeof(float));
    TRY(weights_read_stored(w, x->name, stored, NULL, e));
    TRY(weights_scan_stored(w, x->name, stored, e));
    TRY(weights_stored_as_f32(w, x->name, stored, copy, e));
    if (memcmp(copy, numbers, n * sizeof(float)) != 0)
        return error_set(e, KILN_ERR_BUG, "%s is stored otherwise", x->name);
    TRY(weights_unchanged(w, x->name, e));
    return read_rows(w, x, out, e);
}

static kiln_status read_metadata(const kiln_weights *w, yield *out)
{
    kiln_weight_value v = {.size = sizeof v};
    kiln_weight_item item = {.size = sizeof item};
    const char *key, *value;
    for (size_t i = 0; weights_note_at(w, i, &key, &value); i++) yield_text(out, key), yield_text(out, value);
    for (size_t i = 0; weights_metadata_at(w, i, &v) == KILN_OK; i++, v = (kiln_weight_value){.size = sizeof v}) {
        yield_text(out, v.key), yield_number(out, (int64_t)v.count);
        for (size_t k = 0; k < v.count && k < 8 && weights_metadata_item(&v, k, &item) == KILN_OK; k++)
            yield_number(out, item.integer), yield_bytes(out, item.text, v.kind == KILN_META_STRING ? item.n : 0);
    }
    return KILN_OK;
}

/* All that there is to know of a set, which is given up. */
static kiln_status read_all(kiln_weights *w, yield *out, error *e)
{
    kiln_weight_info x = {.size = sizeof x};
    if (!w) return e->status;
    kiln_status status = read_metadata(w, out);
    for (size_t i = 0; status == KILN_OK && weights_at(w, i, &x) == KILN_OK; i++) status = read_tensor(w, &x, out, e);
    if (status == KILN_OK) {
        const char *identity = weights_identity(w, e);
        if (!identity) status = e->status;
        yield_text(out, identity);
        yield_number(out, (int64_t)weights_unused(w, NULL, NULL));
    }
    weights_unref(w);
    return status;
}

static const char *golden(const char *name)
{
    static char path[600];
    snprintf(path, sizeof path, "%s/tests/golden/%s", test_root(), name);
    return path;
}

#define OPENING(name, path)                                                                                            \
    static kiln_status open_##name(yield *out, error *e) { return read_all(weights_open(path, e), out, e); }           \
    static void test_##name(void) { fail_everywhere(#name, open_##name); }
OPENING(a_file, golden("lora/kohya.safetensors"))
OPENING(a_folder, golden("tiny-sd1"))
OPENING(f8, golden("fp8.safetensors"))
OPENING(gguf, golden("gguf/blocks.gguf"))
OPENING(gguf_in_parts, golden("gguf/split-00001-of-00002.gguf"))
OPENING(blocks_in_safetensors, golden("gguf/blocks.safetensors"))
OPENING(shards, at_path("shards/model.safetensors.index.json"))
OPENING(scaled, at_path("scaled.safetensors"))

/* ---- sets that are made of others ---- */

static float made[64 * 64];

static kiln_weights *made_set(const char *name, error *e)
{
    static const int64_t square[] = {8, 6}, heads[] = {16, 4}, row[] = {6}, picture[] = {4, 3, 1, 1};
    static const uint8_t blocks[18 * 2] = {0, 0x3c, 1, 2, 3};
    static const int64_t blocked[] = {2, 32};
    const kiln_weight_tensor t[] = {{sizeof t[0], KILN_F32, 2, "q.weight", square, made},
                                    {sizeof t[0], KILN_F32, 2, "k.weight", square, made + 48},
                                    {sizeof t[0], KILN_F32, 2, "h.weight", heads, made},
                                    {sizeof t[0], KILN_F32, 1, "b", row, made},
                                    {sizeof t[0], KILN_F32, 4, "c.weight", picture, made},
                                    {sizeof t[0], KILN_F32, 2, "e.0", square, made},
                                    {sizeof t[0], KILN_F32, 2, "e.1", square, made + 9},
                                    {sizeof t[0], KILN_Q4_0, 2, "z", blocked, blocks}};
    return weights_make(name, t, sizeof t / sizeof t[0], e);
}

static kiln_status of_memory(yield *out, error *e) { return read_all(made_set("made", e), out, e); }
static void test_of_memory(void) { fail_everywhere("of memory", of_memory); }

static kiln_status view_every_rule(yield *out, error *e)
{
    static const char *const with[] = {"k.weight"};
    static const int64_t shape[] = {-1, 2};
    static const uint32_t turned[] = {1, 0};
    const kiln_weight_rule rule[] = {
        KILN_RULE(.from = "q.{}", .to = "qk.{}", .join = KILN_JOIN_CAT, .with = with, .n_with = 1, .more = 1),
        KILN_RULE(.from = "e.0", .to = "experts", .join = KILN_JOIN_STACK, .each = "e.#", .more = 1),
        KILN_RULE(.from = "q.*", .to = "part.*", .row = 2, .rows = 3, .more = 1),
        KILN_RULE(.from = "q.*", .to = "slice.*", .slice_axis = 1, .slice = 1, .slices = 4, .more = 1),
        KILN_RULE(.from = "h.*", .to = "halves.*", .swap_halves = 1, .more = 1),
        KILN_RULE(.from = "h.*", .to = "heads.*", .unpermute_heads = 2, .more = 1),
        KILN_RULE(.from = "q.*", .to = "shape.*", .reshape = shape, .reshape_rank = 2, .more = 1),
        KILN_RULE(.from = "q.*", .to = "permuted.*", .permute = turned, .permute_rank = 2, .more = 1),
        KILN_RULE(.from = "c.*", .to = "squeezed.*", .squeeze = 1, .more = 1),
        KILN_RULE(.from = "k.*", .to = "turned.*", .transpose = 1, .more = 1),
        KILN_RULE(.from = "*", .to = "all.*")};
    kiln_weights *base = made_set("made", e), *v = NULL, *again = NULL;
    if (base) v = weights_view(base, rule, sizeof rule / sizeof rule[0], e);
    if (v)
        again =
            weights_view(v, &(kiln_weight_rule)KILN_RULE(.from = "qk.*", .to = "again.*", .row = 1, .rows = 9), 1, e);
    kiln_status status = again ? read_all(v, out, e) : e->status;
    if (!again) weights_unref(v);
    if (status == KILN_OK)
        status = read_all(again, out, e);
    else
        weights_unref(again);
    weights_unref(base);
    return status;
}
static void test_views_of_every_kind(void) { fail_everywhere("views of every kind", view_every_rule); }

static size_t as_many_rows(const kiln_weight_call *c, size_t rows) { return rows * c->columns; }
static size_t all_columns(const kiln_weight_call *c) { return c->columns; }
static void squares(const kiln_weight_call *c, float *to)
{
    for (size_t i = 0; i < c->columns; i++) to[i] = c->factor[0].data[i] * c->factor[0].data[i];
}
static void times_row(const kiln_weight_call *c, float *w, size_t row, size_t rows, float *scratch)
{
    (void)row;
    for (size_t i = 0; i < rows * c->columns; i++) scratch[i] = w[i] * c->prepared[i % c->columns];
    memcpy(w, scratch, rows * c->columns * sizeof *w);
}
static const kiln_weight_change by_row = {.size = sizeof by_row,
                                          .revision = 1,
                                          .name = "times a row",
                                          .prepared = all_columns,
                                          .prepare = squares,
                                          .scratch = as_many_rows,
                                          .apply = times_row};

static kiln_status patch_and_lay_over(yield *out, error *e)
{
    static const int64_t up[] = {8, 2}, down[] = {2, 6}, full[] = {8, 6}, row[] = {6};
    static const char *const factor[] = {"row"};
    const kiln_weight_tensor t[] = {{sizeof t[0], KILN_F32, 2, "up", up, made},
                                    {sizeof t[0], KILN_F32, 2, "down", down, made + 5},
                                    {sizeof t[0], KILN_F32, 2, "full", full, made + 9},
                                    {sizeof t[0], KILN_F32, 1, "row", row, made + 11},
                                    {sizeof t[0], KILN_F32, 1, "b", row, made + 11}};
    kiln_weights *from = weights_make("factors", t, 5, e), *base = from ? made_set("made", e) : NULL, *p = NULL,
                 *o = NULL;
    const kiln_weight_patch patch[] = {
        {.size = sizeof patch[0],
         .name = "q.weight",
         .strength = 1,
         .scale = 0.5,
         .from = from,
         .up = "up",
         .down = "down"},
        {.size = sizeof patch[0], .name = "q.weight", .strength = 2, .scale = 1, .from = from, .difference = "full"},
        {.size = sizeof patch[0],
         .name = "k.weight",
         .strength = 1,
         .scale = 1,
         .from = from,
         .change = &by_row,
         .factor = factor,
         .n_factor = 1}};
    if (base) p = weights_patch(base, patch, 3, e);
    if (p) o = weights_overlay(p, from, e);
    weights_unref(p), weights_unref(base);
    kiln_status status = o ? read_all(o, out, e) : e->status;
    weights_unref(from);
    return status;
}
static void test_patches_and_overlays(void) { fail_everywhere("patches and overlays", patch_and_lay_over); }

/* ---- bytes that are given ---- */

static char *given;
static size_t n_given;

static kiln_status give(void *self, uint64_t offset, size_t n, void *dst)
{
    (void)self;
    memcpy(dst, given + offset, n);
    return KILN_OK;
}

static kiln_status from_source(yield *out, error *e)
{
    kiln_weight_source s = {.size = sizeof s, .name = "given", .data = given, .bytes = n_given};
    TRY(read_all(weights_open_source(&s, e), out, e));
    s.data = NULL, s.read = give;
    return read_all(weights_open_source(&s, e), out, e);
}
static void test_sources(void)
{
    FILE *f = fopen(golden("gguf/blocks.gguf"), "rb");
    given = malloc(1 << 20);
    REQUIRE(f && given);
    n_given = fread(given, 1, 1 << 20, f);
    fclose(f);
    fail_everywhere("bytes and a function that reads", from_source);
    free(given);
}

/* ---- writing ---- */

static kiln_status take(void *self, const void *bytes, size_t n) { return yield_bytes(self, bytes, n), KILN_OK; }
static kiln_status go_on(void *self, uint64_t done, uint64_t total)
{
    return (void)self, (void)done, (void)total, KILN_OK;
}

static kiln_status write_rows(yield *out, error *e)
{
    static const char *const joined[] = {"q.weight", "k.weight"}, *const one[] = {"c.weight"}, *const blocks[] = {"z"};
    static const int64_t shape[] = {12}, own[] = {2, 3};
    const weights_sink sink = {take, go_on, out, NULL};
    kiln_weights *w = made_set("made", e);
    if (!w) return e->status;
    const kiln_weight_row row[] = {{sizeof row[0], KILN_F16, "joined", w, joined, 2, 0, NULL, NULL},
                                   {sizeof row[0], 0, "one", w, one, 1, 1, shape, NULL},
                                   {sizeof row[0], 0, "blocks", w, blocks, 1, 0, NULL, NULL},
                                   {sizeof row[0], KILN_BF16, "own", NULL, NULL, 0, 2, own, made}};
    const kiln_weight_text text[] = {{sizeof text[0], "format", "pt"}, {sizeof text[0], "a", "b\n\"c\""}};
    kiln_status status = weights_write(&sink, row, 4, text, 2, e);
    weights_unref(w);
    return status;
}
static void test_writing(void) { fail_everywhere("writing", write_rows); }

static kiln_status quantize_as(uint32_t dtype, int gguf, yield *out, error *e)
{
    static const char *const keep[] = {"*.bias", "conv_out*"};
    quantize_report r = {0};
    const quantize_setting s = {
        .dtype = dtype, .gguf = gguf, .keep = keep, .n_keep = 2, .architecture = gguf ? "test" : NULL};
    const weights_sink sink = {take, go_on, out, NULL};
    kiln_weights *w = weights_open(at_path("large.safetensors"), e);
    if (!w) return e->status;
    kiln_status status = weights_quantize(&sink, w, &s, &r, e);
    if (status == KILN_OK) yield_bytes(out, &r.asked, sizeof r.asked), yield_text(out, r.worst_name);
    weights_unref(w);
    return status;
}
static kiln_status quantize_gguf(yield *out, error *e) { return quantize_as(KILN_Q8_0, 1, out, e); }
static kiln_status quantize_safetensors(yield *out, error *e) { return quantize_as(KILN_Q4_K, 0, out, e); }
static void test_quantizing(void)
{
    fail_everywhere("quantising to GGUF", quantize_gguf);
    fail_everywhere("quantising to safetensors", quantize_safetensors);
}

/* ---- files for the above ---- */

/* f8 with a scale, int8 with one for each row, four bits with a codebook. */
static void put_scaled(void)
{
    static const char header[] = "{\"a.weight\":{\"dtype\":\"F8_E4M3\",\"shape\":[4,4],\"data_offsets\":[0,16]},"
                                 "\"a.scale_weight\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[16,20]},"
                                 "\"b.weight\":{\"dtype\":\"I8\",\"shape\":[4,4],\"data_offsets\":[20,36]},"
                                 "\"b.SCB\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[36,52]}}";
    size_t size;
    uint8_t *p = raw_file(header, sizeof header - 1, 52, &size), *data = p + size - 52;
    const float scale[] = {0.5f, 1, 2, 3};
    memcpy(data + 16, scale, 4), memcpy(data + 36, scale, 16);
    put_bytes("scaled.safetensors", p, size);
    free(p);
}

static void put_files(void)
{
    for (size_t i = 0; i < 64 * 64; i++) made[i] = sinf((float)i) * 0.3f;
    put_scaled();
    const safetensors_source t[] = {{.name = "conv_out.weight", .dtype = KILN_F32, DIMS(4, 256), .data = made},
                                    {.name = "narrow", .dtype = KILN_F32, DIMS(32, 40), .data = made},
                                    {.name = "odd.bias", .dtype = KILN_F32, DIMS(64, 16), .data = made},
                                    {.name = "wide", .dtype = KILN_F32, DIMS(8, 512), .data = made}};
    put_tensors("large.safetensors", t, 4);
    put_tensors("shards/model-00001-of-00002.safetensors", t, 1);
    put_tensors("shards/model-00002-of-00002.safetensors", t + 1, 1);
    put_text("shards/model.safetensors.index.json",
             "{\"metadata\": {\"total_size\": 9216}, \"weight_map\": {\"conv_out.weight\": "
             "\"model-00001-of-00002.safetensors\", \"narrow\": \"model-00002-of-00002.safetensors\"}}");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_a_file),
                                      CASE(test_a_folder),
                                      CASE(test_f8),
                                      CASE(test_gguf),
                                      CASE(test_gguf_in_parts),
                                      CASE(test_blocks_in_safetensors),
                                      CASE(test_shards),
                                      CASE(test_scaled),
                                      CASE(test_of_memory),
                                      CASE(test_views_of_every_kind),
                                      CASE(test_patches_and_overlays),
                                      CASE(test_sources),
                                      CASE(test_writing),
                                      CASE(test_quantizing)};
    put_files();
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
