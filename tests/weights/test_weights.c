/* test_weights.c - weight sets: files, folders, shards, views, what is unused, what is missing, identity. */
#include "harness.h"
#include "tiny_weights.h"
#include "weights/weights.h"

#include "base/memory_alloc.h"
#include "tensor/dtype.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

/* qkv.weight [6,2] = 0..11, proj [2,3] = 100..105, odd [3,1,1] = 200..202, all f32 */
static const char sample[] = "{\"__metadata__\":{\"format\":\"pt\"},"
                             "\"blocks.0.qkv.weight\":{\"dtype\":\"F32\",\"shape\":[6,2],\"data_offsets\":[0,48]},"
                             "\"blocks.0.proj\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[48,72]},"
                             "\"odd\":{\"dtype\":\"F32\",\"shape\":[3,1,1],\"data_offsets\":[72,84]}}";

static const char *at(const char *name)
{
    static char path[8][512];
    static int turn;
    turn = (turn + 1) % 8;
    snprintf(path[turn], sizeof path[turn], "%s/%s", test_folder(), name);
    return path[turn];
}

static int write_sample(const char *path, float first)
{
    float data[21];
    for (int i = 0; i < 12; i++) data[i] = (float)i;
    for (int i = 0; i < 6; i++) data[12 + i] = (float)(100 + i);
    for (int i = 0; i < 3; i++) data[18 + i] = (float)(200 + i);
    data[0] = first;
    return tiny_write(path, sample, data, sizeof data);
}

static kiln_weights *open_ok(const char *path)
{
    error e = {0};
    kiln_weights *w = weights_open(path, &e);
    CHECK_MSG(w != NULL, "%s", e.message);
    return w;
}

static void check_refused(const char *path, kiln_status status, const char *part)
{
    error e = {0};
    kiln_weights *w = weights_open(path, &e);
    CHECK_MSG(!w && e.status == status && strstr(e.message, part), "%s: wanted %s '%s', got %s '%s'", path, status_name(status), part, w ? "it opened" : status_name(e.status),
              e.message);
    weights_unref(w);
}

static void check_values(const kiln_weights *w, const char *name, const float *want, size_t n)
{
    float got[64] = {0};
    error e = {0};
    CHECK_MSG(weights_read_f32(w, name, got, &e) == KILN_OK, "%s", e.message);
    for (size_t i = 0; i < n; i++) CHECK_MSG(got[i] == want[i], "%s[%zu] is %g, wanted %g", name, i, (double)got[i], (double)want[i]);
}

static void test_one_file(void)
{
    REQUIRE(write_sample(at("one.safetensors"), 0));
    kiln_weights *w = open_ok(at("one.safetensors"));
    REQUIRE(w);
    error e = {0};
    kiln_weight_info info = {.size = sizeof info};
    CHECK_EQ(weights_count(w), 3);
    const char *const sorted[] = {"blocks.0.proj", "blocks.0.qkv.weight", "odd"};
    for (size_t i = 0; i < 3; i++) {
        CHECK_EQ(weights_at(w, i, &info), KILN_OK);
        CHECK_STR(info.name, sorted[i]);
        CHECK_STR(info.file, at("one.safetensors"));
    }
    CHECK_EQ(weights_at(w, 3, &info), KILN_ERR_INVALID);
    CHECK_EQ(weights_find(w, "odd", &info), KILN_OK);
    CHECK_EQ(info.rank, 3);
    CHECK_EQ(info.bytes, 12);
    check_values(w, "odd", (const float[]){200, 201, 202}, 3);
    size_t n = 0;
    CHECK_STR(weights_text(w, "__metadata__/format", &n), "pt");
    CHECK_EQ(n, 2);
    CHECK(weights_text(w, "__metadata__/other", NULL) == NULL);
    CHECK(weights_text(w, "one.safetensors", NULL) == NULL);
    CHECK(weights_map(w, "odd.", &e) == NULL);
    CHECK_MSG(strstr(e.message, "one.safetensors: no tensor 'odd.'; the nearest is 'odd'"), "%s", e.message);
    e = (error){0};
    CHECK_EQ(weights_missing(w, "blocks.0.qkv.weigth", &e), KILN_ERR_INVALID);
    CHECK_MSG(strstr(e.message, "the nearest is 'blocks.0.qkv.weight'"), "%s", e.message);
    e = (error){0};
    weights_missing(w, "nothing_like_it_at_all", &e);
    CHECK_MSG(!strstr(e.message, "nearest"), "%s", e.message);
    weights_unref(w);
}

static void test_refusals(void)
{
    static const char *const pickles[] = {"a.ckpt", "a.pt", "a.pth", "a.bin", "a.pkl"};
    error e = {0};
    for (size_t i = 0; i < sizeof pickles / sizeof pickles[0]; i++) {
        CHECK_EQ(file_write_whole(at(pickles[i]), "\x80\x02}q", 4, &e), KILN_OK);
        check_refused(at(pickles[i]), KILN_ERR_UNSUPPORTED, "a pickle file");
    }
    check_refused(at("nowhere.safetensors"), KILN_ERR_IO, "nowhere.safetensors");
    CHECK_EQ(file_write_whole(at("empty.safetensors"), "", 0, &e), KILN_OK);
    check_refused(at("empty.safetensors"), KILN_ERR_INVALID, "empty.safetensors: byte 0: the file ends here");
    CHECK_EQ(folder_make(at("bare"), &e), KILN_OK);
    check_refused(at("bare"), KILN_ERR_INVALID, "no .safetensors file in this folder");
    check_refused("/dev/null", KILN_ERR_IO, "/dev/null: not a regular file");
}

static void test_folder_of_models(void)
{
    error e = {0};
    CHECK_EQ(folder_make(at("pipe/unet"), &e), KILN_OK);
    CHECK_EQ(folder_make(at("pipe/vae"), &e), KILN_OK);
    CHECK_EQ(folder_make(at("pipe/unet/deeper"), &e), KILN_OK);
    REQUIRE(write_sample(at("pipe/unet/diffusion_pytorch_model.safetensors"), 0));
    REQUIRE(write_sample(at("pipe/unet/diffusion_pytorch_model.fp16.safetensors"), 5));
    REQUIRE(write_sample(at("pipe/unet/deeper/model.safetensors"), 5));
    REQUIRE(write_sample(at("pipe/vae/anything.safetensors"), 7));
    CHECK_EQ(file_write_whole(at("pipe/unet/config.json"), "{\"a\":1}", 7, &e), KILN_OK);
    CHECK_EQ(file_write_whole(at("secret.txt"), "secret", 6, &e), KILN_OK);
    CHECK(symlink(at("secret.txt"), at("pipe/unet/link.json")) == 0);
    kiln_weights *w = open_ok(at("pipe"));
    REQUIRE(w);
    CHECK_EQ(weights_count(w), 6); /* two levels; one model a folder */
    check_values(w, "unet/blocks.0.qkv.weight", (const float[]){0, 1}, 2);
    check_values(w, "vae/blocks.0.qkv.weight", (const float[]){7, 1}, 2);
    size_t n = 0;
    CHECK_STR(weights_text(w, "unet/config.json", &n), "{\"a\":1}");
    CHECK_EQ(n, 7);
    static const char *const outside[] = {"../secret.txt", "unet/../../secret.txt", "unet/link.json", "/etc/hostname", "unet", "", "nowhere"};
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) CHECK_MSG(weights_text(w, outside[i], NULL) == NULL, "'%s' is given", outside[i]);
    weights_unref(w);
    REQUIRE(write_sample(at("pipe/vae/second.safetensors"), 7));
    check_refused(at("pipe"), KILN_ERR_INVALID, "name the one to open");
}

static void test_shards(void)
{
    error e = {0};
    CHECK_EQ(folder_make(at("shards"), &e), KILN_OK);
    uint8_t one = 1, two = 2;
    tiny_write(at("shards/x-1.safetensors"), "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", &one, 1);
    tiny_write(at("shards/x-2.safetensors"), "{\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", &two, 1);
    static const struct {
        const char *index, *part;
    } rows[] = {
        {"{\"weight_map\":{\"a\":\"x-1.safetensors\",\"b\":\"x-2.safetensors\"}}", NULL},
        {"{\"weight_map\":{\"a\":\"x-1.safetensors\",\"b\":\"x-3.safetensors\"}}", "x-3.safetensors"},
        {"{\"weight_map\":{\"a\":\"../x-1.safetensors\"}}", "in an impossible file"},
        {"{\"weight_map\":{\"a\":5}}", "in an impossible file"},
        {"{\"weight_map\":[]}", "not a shard index"},
        {"{}", "not a shard index"},
        {"[1", "not a shard index"},
        {"{\"weight_map\":{\"a\":\"x.bin\"}}", "a pickle file"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CHECK_EQ(file_write_whole(at("shards/model.safetensors.index.json"), rows[i].index, strlen(rows[i].index), &e), KILN_OK);
        error why = {0};
        kiln_weights *w = weights_open(at("shards"), &why);
        CHECK_MSG(rows[i].part ? !w && strstr(why.message, rows[i].part) : w && weights_count(w) == 2, "%s: %s", rows[i].index, w ? "it opened" : why.message);
        weights_unref(w);
    }
    tiny_write(at("shards/x-2.safetensors"), "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", &two, 1);
    CHECK_EQ(file_write_whole(at("shards/model.safetensors.index.json"), rows[0].index, strlen(rows[0].index), &e), KILN_OK);
    error why = {0};
    kiln_weights *w = weights_open(at("shards"), &why);
    CHECK_MSG(!w && strstr(why.message, "tensor 'a' is in two of its files"), "%s", why.message);
    weights_unref(w);
}

static void test_views(void)
{
    REQUIRE(write_sample(at("v.safetensors"), 0));
    kiln_weights *base = open_ok(at("v.safetensors"));
    REQUIRE(base);
    error e = {0};
    static const kiln_weight_rule rules[] = {
        {.from = "blocks.{}.qkv.weight", .to = "b{}.q", .row = 0, .rows = 2, .more = 1},
        {.from = "blocks.{}.qkv.weight", .to = "b{}.k", .row = 2, .rows = 2, .more = 1},
        {.from = "blocks.{}.qkv.weight", .to = "b{}.v", .row = 4, .rows = 2, .transpose = 1},
        {.from = "blocks.*", .to = "rest.*", .transpose = 1},
        {.from = "o{}d", .to = "{}", .squeeze = 1},
    };
    kiln_weights *w = weights_view(base, rules, 5, &e);
    REQUIRE(CHECK_MSG(w != NULL, "%s", e.message));
    weights_unref(base); /* the view keeps it */
    CHECK_EQ(weights_count(w), 5);
    check_values(w, "b0.q", (const float[]){0, 1, 2, 3}, 4);
    check_values(w, "b0.k", (const float[]){4, 5, 6, 7}, 4);
    check_values(w, "b0.v", (const float[]){8, 10, 9, 11}, 4);
    check_values(w, "rest.0.proj", (const float[]){100, 103, 101, 104, 102, 105}, 6);
    kiln_weight_info info = {.size = sizeof info};
    CHECK_EQ(weights_find(w, "rest.0.proj", &info), KILN_OK);
    CHECK(info.rank == 2 && info.dim[0] == 3 && info.dim[1] == 2);
    CHECK(weights_map(w, "rest.0.proj", &e) == NULL); /* transposed: no bytes in that order */
    CHECK(e.message[0]);
    CHECK_EQ(weights_find(w, "d", &info), KILN_OK);
    CHECK(info.rank == 1 && info.dim[0] == 3);
    static const kiln_weight_rule again[] = {{.from = "b0.v", .to = "x", .transpose = 1}, {.from = "b0.k", .to = "y", .row = 1, .rows = 1}};
    kiln_weights *of_view = weights_view(w, again, 2, &e);
    REQUIRE(of_view);
    check_values(of_view, "x", (const float[]){8, 9, 10, 11}, 4);
    check_values(of_view, "y", (const float[]){6, 7}, 2);
    weights_unref(w);
    check_values(of_view, "y", (const float[]){6, 7}, 2);
    weights_unref(of_view);
}

static void test_bad_views(void)
{
    REQUIRE(write_sample(at("bad.safetensors"), 0));
    kiln_weights *base = open_ok(at("bad.safetensors"));
    REQUIRE(base);
    static const struct {
        kiln_weight_rule rule;
        const char *part;
    } rows[] = {
        {{.from = "odd", .to = "x", .transpose = 1}, "cannot be transposed"},
        {{.from = "odd", .to = "x", .row = 2, .rows = 2}, "rows 2 to 4"},
        {{.from = "odd", .to = "x", .row = -1, .rows = 1}, "do not exist"},
        {{.from = "odd", .to = "x", .row = INT64_MAX, .rows = 2}, "do not exist"},
        {{.from = "odd", .to = "x", .row = 0, .rows = INT64_MAX}, "do not exist"},
        {{.from = "*", .to = "x"}, "come to be called 'x'"},
        {{.from = "blocks.{}.{}", .to = "{}"}, NULL}, /* only proj: {} crosses no dot */
        {{.from = "zzz", .to = "x"}, NULL},
        {{.from = "{}{}", .to = "{}-{}"}, NULL},
        {{.from = "", .to = "x"}, NULL},
        {{.from = "*", .to = "p.*"}, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        error e = {0};
        kiln_weights *w = weights_view(base, &rows[i].rule, 1, &e);
        CHECK_MSG(rows[i].part ? !w && strstr(e.message, rows[i].part) : w != NULL, "'%s' -> '%s': %s", rows[i].rule.from, rows[i].rule.to, w ? "made" : e.message);
        weights_unref(w);
    }
    weights_unref(base);
}

static void count_name(void *arg, const kiln_weight_info *info)
{
    (void)info;
    ++*(int *)arg;
}

/* What a view's user reads counts as read in the base and in every other view, and the other way round. */
static void test_unused(void)
{
    REQUIRE(write_sample(at("u.safetensors"), 0));
    kiln_weights *base = open_ok(at("u.safetensors"));
    REQUIRE(base);
    error e = {0};
    int told = 0;
    float buffer[64];
    static const kiln_weight_rule only_odd = {.from = "odd", .to = "x"}, all = {.from = "*", .to = "all.*"};
    kiln_weights *v = weights_view(base, &only_odd, 1, &e), *a = weights_view(base, &all, 1, &e);
    REQUIRE(v && a);
    CHECK_EQ(weights_unused(base, count_name, &told), 3);
    CHECK_EQ(told, 3);
    CHECK_EQ(weights_unused(v, NULL, NULL), 1);
    CHECK_EQ(weights_find(v, "x", NULL), KILN_OK); /* looking is not using */
    CHECK_EQ(weights_unused(v, NULL, NULL), 1);
    CHECK_EQ(weights_read_f32(v, "x", buffer, &e), KILN_OK);
    CHECK_EQ(weights_unused(v, NULL, NULL), 0);
    CHECK_EQ(weights_unused(base, NULL, NULL), 2);
    CHECK_EQ(weights_unused(a, NULL, NULL), 2);
    CHECK(weights_map(base, "blocks.0.proj", &e) != NULL);
    CHECK_EQ(weights_unused(a, NULL, NULL), 1);
    weights_mark_used(a, "all.blocks.0.qkv.weight");
    CHECK_EQ(weights_unused(base, NULL, NULL), 0);
    weights_mark_used(a, "no such tensor");
    weights_unref(v);
    weights_unref(a);
    weights_unref(base);
}

static void test_element_types(void)
{
    static const char header[] = "{\"h\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[4,8]},"
                                 "\"i\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[8,12]},\"q\":{\"dtype\":\"F8_E4M3\",\"shape\":[1],\"data_offsets\":[12,13]},"
                                 "\"r\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1],\"data_offsets\":[13,14]},\"z\":{\"dtype\":\"F32\",\"shape\":[0,4],\"data_offsets\":[14,14]}}";
    static const uint8_t data[14] = {0x00, 0x3c, 0x00, 0xc0, 0x80, 0x3f, 0x00, 0xc0, 7, 0, 0, 0, 1, 1}; /* 1 -2, 1 -2, 7 */
    REQUIRE(tiny_write(at("t.safetensors"), header, data, sizeof data));
    kiln_weights *w = open_ok(at("t.safetensors"));
    REQUIRE(w);
    check_values(w, "h", (const float[]){1, -2}, 2);
    check_values(w, "b", (const float[]){1, -2}, 2);
    check_values(w, "z", NULL, 0);
    static const struct {
        const char *name, *part;
    } refused[] = {{"q", "F8_E4M3"}, {"r", "kiln does not compute with"}};
    for (size_t i = 0; i < 2; i++) {
        error e = {0};
        float x[4];
        CHECK_EQ(weights_read_f32(w, refused[i].name, x, &e), KILN_ERR_UNSUPPORTED);
        CHECK_MSG(strstr(e.message, refused[i].part), "%s", e.message);
        CHECK(weights_map(w, refused[i].name, &e) == NULL);
    }
    weights_unref(w);
}

static void test_scan_names_file_and_tensor(void)
{
    static const char header[] = "{\"good\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"nan\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]},"
                                 "\"inf16\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[16,20]},\"ninf\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[20,24]},"
                                 "\"huge\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[24,28]}}";
    float f[4] = {3.4e38f, -1, 1, NAN};
    uint16_t h[6] = {0x3c00, 0x7c00, 0xff80, 0, 0x7bff, 0xfbff};
    uint8_t data[28];
    memcpy(data, f, 16);
    memcpy(data + 16, h, 12);
    REQUIRE(tiny_write(at("nan.safetensors"), header, data, sizeof data));
    kiln_weights *w = open_ok(at("nan.safetensors"));
    REQUIRE(w);
    error none = {0};
    CHECK_EQ(weights_scan_finite(w, "good", &none), KILN_OK);
    CHECK_EQ(weights_scan_finite(w, "huge", &none), KILN_OK);
    static const char *const bad[] = {"nan", "inf16", "ninf"};
    for (size_t i = 0; i < 3; i++) {
        error e = {0};
        char quoted[20];
        snprintf(quoted, sizeof quoted, "'%s'", bad[i]);
        CHECK_EQ(weights_scan_finite(w, bad[i], &e), KILN_ERR_INVALID);
        CHECK_MSG(strstr(e.message, quoted) && strstr(e.message, "nan.safetensors"), "%s", e.message);
    }
    weights_unref(w);
}

static void identity_of(const char *path, char out[33])
{
    error e = {0};
    kiln_weights *w = open_ok(path);
    const char *id = w ? weights_identity(w, &e) : NULL;
    CHECK_MSG(id && strlen(id) == 32, "%s", e.message);
    snprintf(out, 33, "%s", id ? id : "");
    weights_unref(w);
}

static void test_identity(void)
{
    char a[33], b[33], c[33], v1[33], v2[33], v3[33];
    error e = {0};
    REQUIRE(write_sample(at("i1.safetensors"), 0) && write_sample(at("i2.safetensors"), 0) && write_sample(at("i3.safetensors"), 1));
    identity_of(at("i1.safetensors"), a);
    identity_of(at("i2.safetensors"), b);
    identity_of(at("i3.safetensors"), c);
    CHECK_STR(a, b);
    CHECK_MSG(strcmp(a, c) != 0, "other content, same identity");
    kiln_weights *w = open_ok(at("i1.safetensors"));
    REQUIRE(w);
    static const kiln_weight_rule same = {.from = "*", .to = "*"}, named = {.from = "*", .to = "x.*"}, part = {.from = "blocks.0.qkv.weight", .to = "blocks.0.qkv.weight", .row = 2, .rows = 2};
    const kiln_weight_rule *const rule[] = {&same, &named, &part};
    char *const out[] = {v1, v2, v3};
    for (int i = 0; i < 3; i++) {
        kiln_weights *v = weights_view(w, rule[i], 1, &e);
        REQUIRE(v);
        const char *id = weights_identity(v, &e);
        snprintf(out[i], 33, "%s", id ? id : "");
        weights_unref(v);
    }
    CHECK_STR(v1, a);
    CHECK(strcmp(v2, a) && strcmp(v3, a) && strcmp(v2, v3));
    weights_unref(w);
}

static void test_file_that_changes(void)
{
    REQUIRE(write_sample(at("moving.safetensors"), 0));
    kiln_weights *w = open_ok(at("moving.safetensors"));
    REQUIRE(w);
    error e = {0};
    float x[12];
    CHECK_EQ(truncate(at("moving.safetensors"), 100), 0);
    CHECK_EQ(weights_read_f32(w, "blocks.0.qkv.weight", x, &e), KILN_ERR_IO);
    CHECK_MSG(strstr(e.message, "moving.safetensors"), "%s", e.message);
    weights_unref(w);
}

/* Truncated at each header byte and round each tensor's end: refused, with the file named. */
static void test_truncated_files(void)
{
    REQUIRE(write_sample(at("whole.safetensors"), 0));
    error e = {0};
    char *data;
    size_t size;
    REQUIRE(file_read(at("whole.safetensors"), 1 << 20, &data, &size, &e) == KILN_OK);
    for (size_t n = 0; n < size; n += n < size - 84 || n % 12 > 1 ? 1 : 5) {
        FILE *f = fopen(at("cut.safetensors"), "wb");
        if (!f || fwrite(data, 1, n, f) != n) CHECK(0);
        if (f) fclose(f);
        error why = {0};
        kiln_weights *w = weights_open(at("cut.safetensors"), &why);
        CHECK_MSG(!w && why.status == KILN_ERR_INVALID && strstr(why.message, "cut.safetensors: byte "), "%zu bytes: %s", n, why.message);
        weights_unref(w);
    }
    mem_free(data);
}

static void test_no_memory(void)
{
    error e = {0};
    CHECK_EQ(folder_make(at("mem/unet"), &e), KILN_OK);
    REQUIRE(write_sample(at("mem/unet/model.safetensors"), 0));
    const char *index = "{\"weight_map\":{\"a\":\"x.safetensors\"}}";
    CHECK_EQ(file_write_whole(at("mem/model.safetensors.index.json"), index, strlen(index), &e), KILN_OK);
    REQUIRE(tiny_write(at("mem/x.safetensors"), "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", "x", 1));
    int done = 0;
    char path[512];
    snprintf(path, sizeof path, "%s", at("mem"));
    static const kiln_weight_rule rules[] = {{.from = "unet/*", .to = "*", .more = 1}, {.from = "unet/blocks.0.proj", .to = "t", .transpose = 1}};
    for (int64_t k = 0; k < 500 && !done; k++) {
        error why = {0};
        float x[12];
        mem_fail_at(k, 0);
        kiln_weights *w = weights_open(path, &why), *v = w ? weights_view(w, rules, 2, &why) : NULL;
        kiln_status status = v ? weights_read_f32(v, "t", x, &why) : why.status;
        if (v && status == KILN_OK && !weights_identity(v, &why)) status = why.status;
        done = mem_count() <= k;
        mem_fail_at(-1, 0);
        CHECK_MSG(status == (done ? KILN_OK : KILN_ERR_NOMEM) || status == KILN_OK, "allocation %lld: %s %s", (long long)k, status_name(status), why.message);
        if (status != KILN_OK) CHECK(why.message[0]);
        weights_unref(v);
        weights_unref(w);
    }
    CHECK(done);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_one_file), CASE(test_refusals), CASE(test_folder_of_models), CASE(test_shards), CASE(test_views), CASE(test_bad_views),
                                      CASE(test_unused), CASE(test_element_types), CASE(test_scan_names_file_and_tensor), CASE(test_identity),
                                      CASE(test_file_that_changes), CASE(test_truncated_files), CASE(test_no_memory)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
