/* test_contents.c - numbers out of files: conversions, NaN scans, types kiln has not, files that change while mapped.
 * With the argument `bench` it only measures how fast weights load. */
#include "weights_kit.h"

#include "tensor/dtype.h"

#include <fcntl.h>
#include <pthread.h>
#include <time.h>

static void test_every_type_as_f32(void)
{
    static const float f[3] = {1.5f, -2, 65504};
    static const double d[3] = {1.5, -2, 1e-3};
    uint16_t half[3], brain[3];
    float got[3];
    for (int i = 0; i < 3; i++) half[i] = f16_from_f32(f[i]), brain[i] = bf16_from_f32(f[i]);
    const safetensors_source t[] = {{.name = "f32", .dtype = KILN_F32, DIMS(3), .data = f},
                                    {.name = "f16", .dtype = KILN_F16, DIMS(3), .data = half},
                                    {.name = "bf16", .dtype = KILN_BF16, DIMS(3), .data = brain},
                                    {.name = "f64", .dtype = KILN_F64, DIMS(3), .data = d},
                                    {.name = "none", .dtype = KILN_F16, DIMS(0, 3)}};
    kiln_weights *w = opened(put_tensors("types.safetensors", t, 5));
    REQUIRE(w);
    for (int i = 0; i < 4; i++) {
        error e = {0};
        CHECK_MSG(weights_read_f32(w, t[i].name, got, &e) == KILN_OK, "%s", e.message);
        for (int k = 0; k < 3; k++) {
            float want = i == 2 ? bf16_to_f32(brain[k]) : i == 3 ? (float)d[k] : f[k];
            CHECK_MSG(got[k] == want, "%s[%d] is %g", t[i].name, k, (double)got[k]);
        }
    }
    CHECK_EQ(weights_read_f32(w, "none", got, NULL), KILN_OK);
    error e = {0};
    CHECK_EQ(weights_read_f32(w, "f33", got, &e), KILN_ERR_INVALID);
    contains(e.message, "the nearest is 'f32'");
    weights_unref(w);
}

static int never(void *arg)
{
    (void)arg;
    return 0;
}

/* Data need not be aligned: the floats here begin at an odd one. */
static void test_data_at_any_address(void)
{
    static const char header[] = "{\"u\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"f\":{\"dtype\":"
                                 "\"F32\",\"shape\":[300],\"data_offsets\":[1,1201]}} ";
    size_t size;
    uint8_t *file = raw_file(header, sizeof header - 1, 1201, &size);
    float want[300], got[300];
    for (int i = 0; i < 300; i++) want[i] = (float)i * 0.5f;
    memcpy(file + size - 1200, want, 1200);
    kiln_weights *w = opened(put_bytes("odd.safetensors", file, size));
    REQUIRE(w);
    CHECK(((uintptr_t)weights_map(w, "f", NULL) & 1) != 0);
    CHECK_EQ(weights_read_f32(w, "f", got, NULL), KILN_OK);
    CHECK(memcmp(got, want, sizeof got) == 0);
    CHECK_EQ(weights_scan_finite(w, "f", NULL), KILN_OK);
    weights_unref(w);
    free(file);
}

/* Types that only the format has: the file opens, the tensor is refused where it is asked for. */
static void test_types_kiln_has_not(void)
{
    static const char header[] = "{\"f8\":{\"dtype\":\"F8_E8M0\",\"shape\":[2],\"data_offsets\":[0,2]},\"deep\":{"
                                 "\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1],\"data_offsets\":[2,6]},"
                                 "\"fine\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[6,10]}}";
    size_t size;
    uint8_t *file = raw_file(header, sizeof header - 1, 10, &size);
    kiln_weights *w = opened(put_bytes("strange.safetensors", file, size));
    free(file);
    REQUIRE(w);
    float f;
    CHECK_EQ(weights_read_f32(w, "fine", &f, NULL), KILN_OK);
    kiln_weight_info info = {.size = sizeof info};
    error e[3] = {{0}};
    CHECK_EQ(weights_find(w, "f8", &info), KILN_OK);
    CHECK_EQ(info.dtype, 0);
    CHECK(!weights_bytes(w, "f8", &info));
    CHECK(!weights_map(w, "f8", &e[0]));
    weights_read_f32(w, "f8", &f, &e[1]);
    weights_scan_finite(w, "f8", &e[2]);
    for (int k = 0; k < 3; k++) {
        CHECK_EQ(e[k].status, KILN_ERR_UNSUPPORTED);
        contains(e[k].message, "'f8' is of type F8_E8M0");
    }
    info = (kiln_weight_info){.size = sizeof info};
    CHECK(weights_find(w, "deep", &info) == KILN_OK && info.rank == 8 && info.dim[7] == 1); /* the most there is */
    CHECK_EQ(weights_read_f32(w, "deep", &f, NULL), KILN_OK);
    weights_unref(w);
}

typedef struct {
    const char *name;
    uint32_t dtype;
    uint64_t bad; /* the element's bits */
} nonfinite_case;

static void test_M12_nan_and_infinity_are_found(void)
{
    static const nonfinite_case rows[] = {{"f32 nan", KILN_F32, 0x7fc00000},
                                          {"f32 -inf", KILN_F32, 0xff800000},
                                          {"f32 signalling", KILN_F32, 0x7f800001},
                                          {"f16 inf", KILN_F16, 0x7c00},
                                          {"f16 nan", KILN_F16, 0xfe01},
                                          {"bf16 inf", KILN_BF16, 0x7f80},
                                          {"bf16 nan", KILN_BF16, 0xffff},
                                          {"f64 nan", KILN_F64, 0x7ff8000000000000}};
    enum { N = 9001 };
    static const size_t places[] = {0, 1, 63, 64, 4095, 4096, 8999, 9000};
    uint64_t *data = malloc(N * 8);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (size_t k = 0; k < sizeof places / sizeof places[0]; k++) {
            size_t width = dtype_size(rows[i].dtype);
            memset(data, 0x7b, N * width); /* large and finite in every type: below the exponent of all ones */
            memcpy((char *)data + places[k] * width, &rows[i].bad, width);
            if (k + 1 < sizeof places / sizeof places[0])
                memcpy((char *)data + places[k + 1] * width, &rows[i].bad, width); /* the first is named */
            const safetensors_source t = {.name = rows[i].name, .dtype = rows[i].dtype, DIMS(N), .data = data};
            unlink(at_path("nan.safetensors"));
            kiln_weights *w = opened(put_tensors("nan.safetensors", &t, 1));
            error e = {0};
            char says[80];
            CHECK_EQ(weights_scan_finite(w, rows[i].name, &e), KILN_ERR_INVALID);
            snprintf(says, sizeof says, "tensor '%s' holds a NaN or infinity at element %zu;", rows[i].name, places[k]);
            contains(e.message, says);
            contains(e.message, "nan.safetensors: byte ");
            weights_unref(w);
        }
    free(data);
}

static void test_finite_weights_pass(void)
{
    static const float f[4] = {3.4e38f, -3.4e38f, 1e-45f, 0};
    static const uint16_t h[4] = {0x7bff, 0xfbff, 0x0001, 0x8000}, b[4] = {0x7f7f, 0xff7f, 0x0001, 0x8000};
    static const int64_t i[1] = {-1};
    const safetensors_source t[] = {{.name = "f", .dtype = KILN_F32, DIMS(4), .data = f},
                                    {.name = "h", .dtype = KILN_F16, DIMS(4), .data = h},
                                    {.name = "b", .dtype = KILN_BF16, DIMS(4), .data = b},
                                    {.name = "i", .dtype = KILN_I64, DIMS(1), .data = i},
                                    {.name = "none", .dtype = KILN_F32, DIMS(0)}};
    kiln_weights *w = opened(put_tensors("finite.safetensors", t, 5));
    REQUIRE(w);
    for (int k = 0; k < 5; k++) {
        error e = {0};
        CHECK_MSG(weights_scan_finite(w, t[k].name, &e) == KILN_OK, "%s", e.message);
    }
    CHECK_EQ(weights_scan_finite(w, "nope", NULL), KILN_ERR_INVALID);
    weights_unref(w);
}

/* A file rewritten, replaced or removed while it is mapped is noticed at the next use, whatever its new size. */
static void test_a_file_that_changes_is_noticed(void)
{
    for (int way = 0; way < 3; way++) {
        const char *path = put_one("changing.safetensors", "a");
        kiln_weights *w = opened(path);
        float got[6];
        error e = {0};
        REQUIRE(w);
        CHECK_EQ(weights_read_f32(w, "a", got, NULL), KILN_OK);
        struct timespec later[2] = {{.tv_sec = 1, .tv_nsec = UTIME_OMIT}, {.tv_sec = 1000 + way}};
        if (way == 0) utimensat(AT_FDCWD, path, later, 0);
        if (way == 1) CHECK(rename(put_one("new.safetensors", "a"), path) == 0);
        if (way == 2) unlink(path);
        CHECK_EQ(weights_read_f32(w, "a", got, &e), KILN_ERR_IO);
        contains(e.message, way == 2 ? "gone since it was opened" : "changed since it was opened");
        e = (error){0};
        CHECK(!weights_map(w, "a", &e) && e.status == KILN_ERR_IO);
        CHECK_EQ(weights_scan_finite(w, "a", NULL), KILN_ERR_IO);
        CHECK(!weights_identity(w, NULL));
        weights_unref(w);
        unlink(path);
    }
}

/* Pages of the mapping that holds `at` which are in this process' memory. */
static size_t resident_pages(const void *at)
{
    char line[256];
    FILE *f = fopen("/proc/self/smaps", "r");
    unsigned long low, high, kb, found = 0;
    int inside = 0;
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "%lx-%lx ", &low, &high) == 2) inside = (uintptr_t)at >= low && (uintptr_t)at < high;
        if (inside && sscanf(line, "Rss: %lu kB", &kb) == 1) found = kb;
    }
    if (f) fclose(f);
    return found * 1024 / (size_t)sysconf(_SC_PAGESIZE);
}

/* After packing, the file's pages leave the process; what is read later is still right. */
static void test_pages_are_released(void)
{
    enum { N = 4 << 20 };
    float *data = malloc((size_t)N * 4), *got = malloc((size_t)N * 4);
    for (size_t i = 0; i < N; i++) data[i] = (float)i;
    const safetensors_source t[] = {{.name = "large", .dtype = KILN_F32, DIMS(N), .data = data},
                                    {.name = "small", .dtype = KILN_F32, DIMS(3), .data = data}};
    kiln_weights *w = opened(put_tensors("pages.safetensors", t, 2));
    REQUIRE(w);
    weights_will_need(w, "large", &(page_reader){.stop = never});
    weights_read_f32(w, "large", got, NULL);
    const void *at = weights_map(w, "large", NULL);
    size_t before = resident_pages(at);
    weights_release_pages(w, "large");
    size_t after = resident_pages(at);
    weights_release_pages(w, "small");
    weights_release_pages(w, "nope");
    CHECK_MSG(before > 3000 && after < 100, "%zu pages before, %zu after", before, after);
    CHECK_EQ(weights_read_f32(w, "large", got, NULL), KILN_OK);
    CHECK(memcmp(got, data, (size_t)N * 4) == 0);
    weights_unref(w);
    free(data);
    free(got);
}

/* One set used by many threads at once: meant for the thread sanitizer, and every number must still be right. */
enum { THREADS = 6, ROUNDS = 200 };

static void *use_everything(void *arg)
{
    kiln_weights *w = arg;
    size_t wrong = 0;
    for (int i = 0; i < ROUNDS; i++) {
        float got[6] = {0};
        const kiln_weight_rule rule = KILN_RULE(.from = "unet/*", .to = "*", .transpose = 1);
        kiln_weights *v = weights_view(w, &rule, 1, NULL);
        wrong += !v || weights_read_f32(v, "a", got, NULL) != KILN_OK || got[1] != 3 || got[2] != 1;
        wrong += weights_scan_finite(w, "unet/a", NULL) != KILN_OK || weights_unused(w, NULL, NULL) != 0;
        wrong += !weights_text(w, i % 2 ? "unet/config.json" : "model_index.json", NULL) || !weights_identity(w, NULL);
        weights_unref(v);
    }
    weights_unref(w);
    return (void *)(uintptr_t)wrong;
}

static void test_many_threads(void)
{
    put_text("many/model_index.json", "{}");
    put_text("many/unet/config.json", "{}");
    put_one("many/unet/model.safetensors", "a");
    kiln_weights *w = opened(at_path("many"));
    pthread_t thread[THREADS];
    REQUIRE(w && weights_map(w, "unet/a", NULL));
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&thread[i], NULL, use_everything, weights_ref(w)) == 0);
    weights_unref(w);
    for (int i = 0; i < THREADS; i++) {
        void *wrong = NULL;
        pthread_join(thread[i], &wrong);
        CHECK_EQ((uintptr_t)wrong, 0);
    }
}

/* ---- bench ---- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void report(const char *what, double bytes, double seconds)
{
    printf("%-34s %7.2f GB/s of the file (%.0f MB in %.3f s)\n", what, bytes / seconds * 1e-9, bytes * 1e-6, seconds);
}

enum { BENCH_TENSORS = 64, BENCH_ELEMENTS = 2 << 20 };

static int bench_dtype(uint32_t dtype)
{
    static const int64_t elements = BENCH_ELEMENTS;
    static char name[BENCH_TENSORS][16];
    safetensors_source t[BENCH_TENSORS];
    size_t width = dtype_size(dtype);
    uint8_t *data = malloc(BENCH_ELEMENTS * width);
    float *out = malloc(BENCH_ELEMENTS * sizeof *out);
    char title[64];
    if (!data || !out) return 1;
    for (size_t i = 0; i < BENCH_ELEMENTS * width; i++) data[i] = (uint8_t)(i * 2654435761u >> 13 & 0x3f);
    for (int i = 0; i < BENCH_TENSORS; i++) {
        snprintf(name[i], sizeof name[i], "t%d", i);
        t[i] = (safetensors_source){.name = name[i], .dtype = dtype, .rank = 1, .dim = &elements, .data = data};
    }
    const char *path = put_tensors("bench.safetensors", t, BENCH_TENSORS);
    double bytes = (double)BENCH_ELEMENTS * (double)width * BENCH_TENSORS, start = now();
    kiln_weights *w = opened(path);
    printf("%s: open %.2f ms\n", dtype_name(dtype), (now() - start) * 1e3);
    for (int pass = 0; w && pass < 2; pass++) {
        start = now();
        for (int i = 0; i < BENCH_TENSORS; i++) weights_read_f32(w, name[i], out, NULL);
        snprintf(title, sizeof title, "  map + %s to f32, %s", dtype_name(dtype), pass ? "mapped" : "page cache warm");
        report(title, bytes, now() - start);
    }
    start = now();
    for (int i = 0; w && i < BENCH_TENSORS; i++) {
        kiln_weight_info info = {.size = sizeof info};
        const void *src = weights_bytes(w, name[i], &info);
        dtype_convert(out, KILN_BF16, src, dtype, BENCH_ELEMENTS);
    }
    snprintf(title, sizeof title, "  %s to bf16", dtype_name(dtype));
    report(title, bytes, now() - start);
    start = now();
    for (int i = 0; w && i < BENCH_TENSORS; i++) weights_scan_finite(w, name[i], NULL);
    report("  scan for NaN", bytes, now() - start);
    start = now();
    if (w) weights_identity(w, NULL);
    report("  identity", bytes, now() - start);
    weights_unref(w);
    unlink(path);
    free(data);
    free(out);
    return 0;
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_every_type_as_f32),   CASE(test_data_at_any_address),
        CASE(test_types_kiln_has_not),  CASE(test_M12_nan_and_infinity_are_found),
        CASE(test_finite_weights_pass), CASE(test_a_file_that_changes_is_noticed),
        CASE(test_pages_are_released),  CASE(test_many_threads),
    };
    if (argc == 2 && strcmp(argv[1], "bench") == 0)
        return bench_dtype(KILN_F16) | bench_dtype(KILN_BF16) | bench_dtype(KILN_F32);
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
