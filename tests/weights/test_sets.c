/* test_sets.c - what a path opens as: a file, shards, a folder of models; and what is refused. */
#include "weights_kit.h"

#include "base/log.h"

static char logged[4000];
static void keep_line(void *arg, int level, const char *line)
{
    (void)arg, (void)level;
    size_t n = strlen(logged);
    snprintf(logged + n, sizeof logged - n, "%s\n", line);
}
static void listen(void)
{
    logged[0] = '\0';
    log_level_set(KILN_LOG_INFO);
    log_sink_set(keep_line, NULL);
}

static int holds(const kiln_weights *w, const char *name)
{
    kiln_weight_info info = {.size = sizeof info};
    return w && weights_find(w, name, &info) == KILN_OK;
}

static void test_single_file(void)
{
    static const float f[6] = {0};
    static const int64_t ids[2] = {7, -1};
    const safetensors_source t[] = {{.name = "z", .dtype = KILN_F32, DIMS(2, 3), .data = f},
                                    {.name = "a.b", .dtype = KILN_I64, DIMS(2), .data = ids},
                                    {.name = "a", .dtype = KILN_F16, .rank = 0, .data = f}};
    kiln_weights *w = opened(put_tensors("single.safetensors", t, 3));
    REQUIRE(w);
    kiln_weight_info info = {.size = sizeof info};
    CHECK_EQ(weights_count(w), 3);
    static const char *const sorted[] = {"a", "a.b", "z"};
    for (size_t i = 0; i < 3; i++) {
        CHECK_EQ(weights_at(w, i, &info), KILN_OK);
        CHECK_STR(info.name, sorted[i]);
    }
    CHECK(info.dtype == KILN_F32 && info.rank == 2 && info.dim[0] == 2 && info.dim[1] == 3 && info.bytes == 24);
    contains(info.file, "single.safetensors");
    CHECK_EQ(weights_at(w, 3, &info), KILN_ERR_INVALID);
    CHECK_EQ(weights_find(w, "nope", &info), KILN_ERR_INVALID);
    CHECK(weights_map(w, "a.b", NULL) && memcmp(weights_map(w, "a.b", NULL), ids, sizeof ids) == 0);
    CHECK_STR(weights_text(w, "__metadata__/format", NULL), "pt");
    CHECK(!weights_text(w, "__metadata__/other", NULL) && !weights_text(w, "config.json", NULL));
    weights_unref(w);
}

/* An older caller's shorter struct is filled as far as it goes and not beyond. */
static void test_info_of_another_size(void)
{
    kiln_weights *w = opened(put_one("size.safetensors", "a"));
    REQUIRE(w);
    kiln_weight_info info;
    memset(&info, 0x5a, sizeof info);
    info.size = offsetof(kiln_weight_info, bytes);
    const char *untouched = info.file;
    CHECK_EQ(weights_find(w, "a", &info), KILN_OK);
    CHECK(info.size == offsetof(kiln_weight_info, bytes) && info.dim[1] == 3 && info.file == untouched);
    weights_unref(w);
}

static void test_nearest_name(void)
{
    kiln_weights *w = opened(put_one("near.safetensors", "conv_in.weight"));
    REQUIRE(w);
    error e = {0};
    CHECK_EQ(weights_missing(w, "conv_in.weigth", &e), KILN_ERR_INVALID);
    contains(e.message, "near.safetensors: no tensor 'conv_in.weigth'; the nearest is 'conv_in.weight'");
    e = (error){0};
    CHECK(!weights_map(w, "something.else.altogether", &e));
    contains(e.message, "no tensor 'something.else.altogether'");
    CHECK(!strstr(e.message, "nearest"));
    weights_unref(w);
}

static void test_pickles_are_refused(void)
{
    static const char *const names[] = {"m.ckpt", "m.pt", "m.pth", "m.bin", "m.pkl"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        REFUSED(put_text(names[i], "\x80\x02}q\x01X\x05"), KILN_ERR_UNSUPPORTED, names[i], "run any code",
                "convert it to .safetensors");
    REFUSED(put_text("lies.safetensors", "PK\x03\x04 archive of torch"), KILN_ERR_UNSUPPORTED, "lies.safetensors",
            "pickle");
    REFUSED(put_text("old.safetensors", "\x80\x02}q\x01X\x05mmmm"), KILN_ERR_UNSUPPORTED, "old.safetensors", "pickle");
    REFUSED(put_text("llm.safetensors", "GGUF\x03 and so on"), KILN_ERR_INVALID, "llm.safetensors", "of GGUF");
    put_text("pickled/unet/diffusion_pytorch_model.bin", "x");
    REFUSED(at_path("pickled"), KILN_ERR_UNSUPPORTED, "diffusion_pytorch_model.bin", "convert them");
}

/* The header of a good file may begin like a pickle: its length does. */
static void test_no_file_is_taken_for_a_pickle(void)
{
    char header[0x280];
    memset(header, ' ', sizeof header);
    memcpy(header, "{}", 2);
    size_t size;
    uint8_t *file = raw_file(header, sizeof header, 0, &size);
    CHECK(file[0] == 0x80 && file[1] == 0x02);
    kiln_weights *w = opened(put_bytes("empty.safetensors", file, size));
    CHECK(w && weights_count(w) == 0);
    weights_unref(w);
    header[0] = '[';
    memcpy(file + 8, header, sizeof header);
    REFUSED(put_bytes("empty.safetensors", file, size), KILN_ERR_INVALID, "byte 8: the header must start with '{'");
    free(file);
}

static void test_paths_that_do_not_open(void)
{
    error e = {0};
    CHECK(!weights_open(NULL, &e) && e.status == KILN_ERR_INVALID);
    CHECK(!weights_open("", NULL));
    REFUSED(at_path("nothing.safetensors"), KILN_ERR_IO, "nothing.safetensors", "cannot open");
    mkdir(at_path("hollow"), 0777);
    REFUSED(at_path("hollow"), KILN_ERR_INVALID, "hollow", "no .safetensors or .gguf file");
    put_one("two/a.safetensors", "a");
    put_one("two/b.safetensors", "b");
    REFUSED(at_path("two"), KILN_ERR_INVALID, "a.safetensors", "b.safetensors", "name the file to open");
    REFUSED(put_text("zero.safetensors", ""), KILN_ERR_INVALID, "zero.safetensors", "byte 0");
}

static void test_diffusers_folder(void)
{
    put_text("sd/model_index.json", "{\"_class_name\":\"StableDiffusionPipeline\"}");
    put_one("sd/v1-5-pruned.safetensors", "the.same.again");
    put_one("sd/unet/diffusion_pytorch_model.safetensors", "conv_in.weight");
    put_text("sd/unet/config.json", "{\"sample_size\":64}");
    put_one("sd/vae/diffusion_pytorch_model.safetensors", "encoder.conv_in.weight");
    put_one("sd/text_encoder/model.safetensors", "text_model.final_layer_norm.weight");
    put_one("sd/lora/any_name.safetensors", "lora");
    put_text("sd/tokenizer/vocab.json", "{}");
    put_text("sd/unet/deeper/model.safetensors", "not even a model");
    put_text("sd/.cache/model.safetensors", "not even a model");
    kiln_weights *w = opened(at_path("sd"));
    REQUIRE(w);
    CHECK_EQ(weights_count(w), 4);
    CHECK(holds(w, "unet/conv_in.weight") && holds(w, "vae/encoder.conv_in.weight") && holds(w, "lora/lora"));
    CHECK(holds(w, "text_encoder/text_model.final_layer_norm.weight"));
    size_t n = 0;
    CHECK_STR(weights_text(w, "unet/config.json", &n), "{\"sample_size\":64}");
    CHECK_EQ(n, 18);
    CHECK(weights_text(w, "unet/config.json", NULL) == weights_text(w, "unet/config.json", NULL));
    contains(weights_text(w, "model_index.json", NULL), "StableDiffusionPipeline");
    CHECK_STR(weights_text(w, "vae/__metadata__/format", NULL), "pt");
    CHECK(!weights_text(w, "__metadata__/format", NULL) && !weights_text(w, "unet/none.json", NULL));
    weights_unref(w);
}

static void test_variants_in_a_fixed_order(void)
{
    static const struct {
        const char *file, *tensor;
    } rows[] = {{"model.bf16.safetensors", "bf16"},
                {"model.fp16.safetensors", "fp16"},
                {"diffusion_pytorch_model.fp16.safetensors", "diffusion_fp16"},
                {"model.safetensors", "plain"},
                {"diffusion_pytorch_model.safetensors", "diffusion"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        put_one(in_folder("variants/unet/%s", rows[i].file) + strlen(test_folder()) + 1, rows[i].tensor);
        char name[64];
        snprintf(name, sizeof name, "unet/%s", rows[i].tensor);
        listen();
        kiln_weights *w = opened(at_path("variants"));
        log_sink_set(NULL, NULL);
        CHECK_MSG(w && weights_count(w) == 1 && holds(w, name), "%s is not what was taken", rows[i].file);
        if (i > 0) contains(logged, rows[i].file), contains(logged, rows[i - 1].file);
        weights_unref(w);
    }
    log_level_set(KILN_LOG_WARN);
}

static void test_shards(void)
{
    static const char index[] =
        "{\"metadata\":{\"total_size\":48.0,\"deep\":[[{\"x\":null}],true]},"
        "\"weight_map\":{\"a\":\"model-00001-of-00002.safetensors\",\"b\":\"model-00002-of-00002.safetensors\"}}\n";
    put_one("shards/model-00001-of-00002.safetensors", "a");
    put_one("shards/model-00002-of-00002.safetensors", "b");
    put_text("shards/model.safetensors.index.json", index);
    put_text("shards/config.json", "{}");
    const char *ways[] = {at_path("shards"), at_path("shards/model.safetensors.index.json")};
    for (int i = 0; i < 2; i++) {
        kiln_weights *w = opened(ways[i]);
        CHECK(w && weights_count(w) == 2 && holds(w, "a") && holds(w, "b"));
        if (w) CHECK_STR(weights_text(w, "config.json", NULL), "{}");
        weights_unref(w);
    }
}

static void test_shards_that_do_not_fit(void)
{
    static const struct {
        const char *index, *says;
    } rows[] = {
        {"{\"weight_map\":{\"a\":\"s1.safetensors\"}}", NULL},
        {"{\"weight_map\":{\"a\":\"s1.safetensors\",\"c\":\"s1.safetensors\"}}", "tensor 'c' is not in s1.safetensors"},
        {"{\"weight_map\":{\"a\":\"s1.safetensors\",\"c\":\"s2.safetensors\"}}", "holds tensor 'b', which"},
        {"{\"weight_map\":{\"a\":\"s2.safetensors\",\"b\":\"s1.safetensors\"}}", "the files do not belong together"},
        {"{\"weight_map\":{\"a\":\"none.safetensors\"}}", "none.safetensors: no such file"},
        {"{\"weight_map\":{\"a\":\"../s1.safetensors\"}}", "byte 19: tensor 'a' is said to be in '../s1.safetensors'"},
        {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", "must be here"},
        {"{\"weight_map\":{\"a\":\"s1.bin\"}}", "must be here"},
        {"{\"weight_map\":{\"a\":1}}", "where a string must be"},
        {"{\"weight_map\":[]}", "where an object"},
        {"{\"weight_map\":{\"a\":\"s1.safetensors\",\"a\":\"s1.safetensors\"}}", "tensor 'a' twice"},
        {"{\"weight_map\":{},\"weight_map\":{}}", "weight_map twice"},
        {"{}", "must hold an object \"weight_map\""},
        {"{\"weight_map\":{\"a\":\"s1.safetensors\"}} x", "text after the last"},
        {"", "the end of the text"},
        {"{\"m\":[[[[[[[[[[1]]]]]]]]]],\"weight_map\":{}}", "nested deeper than 8"},
        {"{\"m\":[1,],\"weight_map\":{}}", "another value after ','"},
        {"{\"m\":01,\"weight_map\":{}}", "not a number"},
        {"{\"m\":nul,\"weight_map\":{}}", "where a value must be"},
        {"{\"m\":[}],\"weight_map\":{}}", "where a value must be"},
        {"{\"m\":{\"a\":1]},\"weight_map\":{}}", "where ',' or '}' must be"},
    };
    put_one("bad/s1.safetensors", "a");
    put_one("bad/s2.safetensors", "b");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        put_text("bad/model.safetensors.index.json", rows[i].index);
        error e = {0};
        kiln_weights *w = weights_open(at_path("bad"), &e);
        if (!rows[i].says)
            CHECK_MSG(w != NULL, "%s", e.message);
        else if (CHECK_MSG(!w, "accepted: %s", rows[i].index))
            CHECK_MSG(strstr(e.message, rows[i].says), "%s\n    says \"%s\"", rows[i].index, e.message);
        weights_unref(w);
    }
}

/* Nothing outside the folder is read, by whatever path or link. */
static void test_texts_stay_inside(void)
{
    put_text("secret.json", "secret");
    put_one("in/unet/model.safetensors", "a");
    put_text("in/unet/config.json", "{}");
    CHECK(symlink("../../secret.json", at_path("in/unet/link.json")) == 0);
    CHECK(symlink("config.json", at_path("in/unet/alias.json")) == 0);
    CHECK(symlink("..", at_path("in/up")) == 0);
    CHECK(mkfifo(at_path("in/pipe"), 0600) == 0);
    listen();
    kiln_weights *w = opened(at_path("in"));
    REQUIRE(w);
    static const char *const closed[] = {"../secret.json",
                                         "unet/../../secret.json",
                                         "unet/link.json",
                                         "up/secret.json",
                                         "/etc/hostname",
                                         "",
                                         "/",
                                         "unet",
                                         "unet/",
                                         "unet//config.json",
                                         "./unet/config.json",
                                         "unet/./config.json",
                                         "pipe",
                                         "unet/config.json\n",
                                         "unet/config.json/x"};
    for (size_t i = 0; i < sizeof closed / sizeof closed[0]; i++)
        CHECK_MSG(!weights_text(w, closed[i], NULL), "'%s' was read", closed[i]);
    contains(logged, "link.json: a link to outside");
    CHECK_STR(weights_text(w, "unet/alias.json", NULL), "{}");
    log_sink_set(NULL, NULL);
    weights_unref(w);
}

static void test_large_texts_are_refused(void)
{
    put_one("large/model.safetensors", "a");
    FILE *f = fopen(at_path("large/config.json"), "wb");
    CHECK(f && fseek(f, 16 << 20, SEEK_SET) == 0 && fputc('x', f) == 'x');
    if (f) fclose(f);
    listen();
    kiln_weights *w = opened(at_path("large"));
    CHECK(w && !weights_text(w, "config.json", NULL));
    contains(logged, "more than the limit of 16777216");
    CHECK(truncate(at_path("large/config.json"), 16 << 20) == 0);
    CHECK(w && weights_text(w, "config.json", NULL));
    log_sink_set(NULL, NULL);
    weights_unref(w);
}

/* The Hugging Face cache keeps the bytes in blobs/ and links from snapshots/REVISION/. Links to elsewhere are refused.
 */
static void test_links_of_a_cache(void)
{
    put_one("cache/blobs/c0ffee", "conv_in.weight");
    put_text("cache/blobs/beef", "{}");
    put_text("cache/snapshots/rev/unet/.keep", "");
    CHECK(symlink("../../../blobs/c0ffee", at_path("cache/snapshots/rev/unet/diffusion_pytorch_model.safetensors")) ==
          0);
    CHECK(symlink("../../../blobs/beef", at_path("cache/snapshots/rev/unet/config.json")) == 0);
    kiln_weights *w = opened(at_path("cache/snapshots/rev"));
    REQUIRE(w);
    CHECK(holds(w, "unet/conv_in.weight"));
    CHECK_STR(weights_text(w, "unet/config.json", NULL), "{}");
    weights_unref(w);
    put_one("elsewhere.safetensors", "a");
    put_text("linked/unet/.keep", "");
    CHECK(symlink("../../elsewhere.safetensors", at_path("linked/unet/model.safetensors")) == 0);
    REFUSED(at_path("linked"), KILN_ERR_INVALID, "linked/unet/model.safetensors", "outside the model's folder");
}

/* A flaw in one part names that part's file. */
static void test_a_damaged_part_is_named(void)
{
    put_one("part/unet/model.safetensors", "a");
    put_text("part/vae/model.safetensors", "\x05\0\0\0\0\0\0\0{}");
    REFUSED(at_path("part"), KILN_ERR_INVALID, "part/vae/model.safetensors: byte ");
}

static void test_identity(void)
{
    static const float f[2] = {1, 2}, g[2] = {1, 3};
    char first[33], other[33];
    const safetensors_source a = {.name = "a", .dtype = KILN_F32, DIMS(2), .data = f},
                             changed = {.name = "a", .dtype = KILN_F32, DIMS(2), .data = g},
                             shaped = {.name = "a", .dtype = KILN_F32, DIMS(1, 2), .data = f},
                             named = {.name = "b", .dtype = KILN_F32, DIMS(2), .data = f};
    kiln_weights *w = opened(put_tensors("id/one.safetensors", &a, 1));
    REQUIRE(w);
    snprintf(first, sizeof first, "%s", weights_identity(w, NULL));
    CHECK_EQ(strlen(first), 32);
    CHECK(weights_identity(w, NULL) == weights_identity(w, NULL));
    weights_unref(w);
    w = opened(put_tensors("id/same.safetensors", &a, 1));
    if (w) CHECK_STR(weights_identity(w, NULL), first);
    weights_unref(w);
    const safetensors_source *others[] = {&changed, &shaped, &named};
    for (size_t i = 0; i < 3; i++) {
        w = opened(put_tensors("id/other.safetensors", others[i], 1));
        REQUIRE(w);
        snprintf(other, sizeof other, "%s", weights_identity(w, NULL));
        CHECK_MSG(strcmp(other, first) != 0, "set %zu has the identity of another", i);
        weights_unref(w);
        unlink(at_path("id/other.safetensors"));
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_single_file),
        CASE(test_info_of_another_size),
        CASE(test_nearest_name),
        CASE(test_pickles_are_refused),
        CASE(test_no_file_is_taken_for_a_pickle),
        CASE(test_paths_that_do_not_open),
        CASE(test_diffusers_folder),
        CASE(test_variants_in_a_fixed_order),
        CASE(test_shards),
        CASE(test_shards_that_do_not_fit),
        CASE(test_texts_stay_inside),
        CASE(test_large_texts_are_refused),
        CASE(test_links_of_a_cache),
        CASE(test_a_damaged_part_is_named),
        CASE(test_identity),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
