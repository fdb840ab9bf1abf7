/* test_stored.c - tensors read beside the map: the bytes the map has, of files, rows and transposed views, at any place
 * in the file, whatever a read returns; a file that fails, ends or changes under the reading is an error with its name
 * and the tensor's.
 */
#include "../pread_kit.h"
#include "weights_kit.h"

#include "base/pool.h"
#include "tensor/dtype.h"

#include <fcntl.h>

enum { LARGE = (9 << 20) / 4 + 5, ODD = 3 }; /* floats: five pieces or so, beginning anywhere */

static pool *threads;
static float *numbers;

/* u8[3] puts the rest at odd places; then large f32, half f16 [40,24], brain bf16 [7]. */
static const char *put_file(const char *name)
{
    static uint16_t half[40 * 24], brain[7];
    static const uint8_t odd[ODD];
    for (int i = 0; i < 40 * 24; i++) half[i] = f16_from_f32((float)i / 16);
    for (int i = 0; i < 7; i++) brain[i] = bf16_from_f32((float)i);
    const safetensors_source t[] = {{.name = "a", .dtype = KILN_U8, DIMS(ODD), .data = odd},
                                    {.name = "brain", .dtype = KILN_BF16, DIMS(7), .data = brain},
                                    {.name = "half", .dtype = KILN_F16, DIMS(40, 24), .data = half},
                                    {.name = "large", .dtype = KILN_F32, DIMS(LARGE), .data = numbers},
                                    {.name = "none", .dtype = KILN_F32, DIMS(0, 3)}};
    return put_tensors(name, t, 5);
}

/* Every tensor read so is what the map has, and nothing beside it is written. */
static void same_as_the_map(const kiln_weights *w, pool *p)
{
    for (size_t i = 0; i < weights_count(w); i++) {
        kiln_weight_info info = {.size = sizeof info};
        error e = {0};
        CHECK_EQ(weights_at(w, i, &info), KILN_OK);
        size_t n = weights_stored_bytes(w, info.name);
        uint8_t *got = malloc(n + 16);
        memset(got, 0xAB, n + 16);
        CHECK_EQ(n, info.bytes);
        CHECK_MSG(weights_read_stored(w, info.name, got + 8, p, &e) == KILN_OK, "%s", e.message);
        const void *want = weights_bytes(w, info.name, NULL);
        CHECK_MSG(!want || !memcmp(got + 8, want, n), "%s is something else", info.name);
        for (int k = 0; k < 8; k++) CHECK(got[k] == 0xAB && got[8 + n + (size_t)k] == 0xAB);
        if (info.dtype != KILN_U8) {
            size_t count = n / dtype_size(info.dtype);
            float *a = malloc(count * 4 + 4), *b = malloc(count * 4 + 4);
            CHECK_EQ(weights_read_f32(w, info.name, a, NULL), KILN_OK);
            CHECK_EQ(weights_stored_as_f32(w, info.name, got + 8, b, NULL), KILN_OK);
            CHECK(!memcmp(a, b, count * 4));
            free(a), free(b);
        }
        free(got);
    }
}

static void test_the_bytes_are_the_maps(void)
{
    kiln_weights *w = opened(put_file("plain.safetensors"));
    REQUIRE(w);
    const kiln_weight_rule rules[] = {
        KILN_RULE(.from = "half", .to = "rows", .row = 9, .rows = 20, .more = 1),
        KILN_RULE(.from = "half", .to = "turned", .transpose = 1, .more = 1),
        KILN_RULE(.from = "large", .to = "end", .row = LARGE - 1000, .rows = 1000, .more = 1),
        KILN_RULE(.from = "*", .to = "*")};
    kiln_weights *v = weights_view(w, rules, 4, NULL);
    REQUIRE(v);
    CHECK_EQ(weights_count(v), 8);
    for (int stutter = 0; stutter < 2; stutter++)
        for (int many = 0; many < 2; many++) {
            preads_reset();
            preads.stutter = stutter;
            same_as_the_map(v, many ? threads : NULL);
            CHECK(atomic_load(&preads.largest) <= (size_t)2 << 20); /* in pieces */
            CHECK(atomic_load(&preads.calls) > (stutter ? 30 : 10));
        }
    preads_reset();
    weights_unref(v), weights_unref(w);
}

static const char *const part_of_name = "faulty.safetensors";

/* Each read failing in turn, once: the error says file, byte and tensor; the next try is right. */
static void test_each_read_may_fail(void)
{
    static const struct {
        int error;
        const char *text;
    } ways[] = {{EIO, "Input/output error"}, {0, "the file ends there"}, {ENOMEM, "Cannot allocate memory"}};
    kiln_weights *w = opened(put_file(part_of_name));
    float *got = malloc(LARGE * 4);
    REQUIRE(w);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        long k = 0;
        for (kiln_status status = KILN_ERR_IO; status != KILN_OK && k < 100; k++) {
            error e = {0};
            preads_reset();
            preads.fail_at = k, preads.error = ways[i].error;
            status = weights_read_stored(w, "large", got, threads, &e);
            CHECK(status == KILN_OK || status == KILN_ERR_IO);
            if (status == KILN_OK) break;
            contains(e.message, part_of_name), contains(e.message, "'large'"), contains(e.message, ways[i].text),
                contains(e.message, "byte ");
            preads_reset();
            CHECK_EQ(weights_read_stored(w, "large", got, threads, NULL), KILN_OK);
        }
        CHECK_MSG(k >= 5 && k < 100, "%ld reads failed", k);
        CHECK(!memcmp(got, numbers, LARGE * 4));
    }
    preads_reset();
    free(got);
    weights_unref(w);
}

static const char *changing;
static void cut_short(void) { CHECK(truncate(changing, 1 << 20) == 0); }
static void write_into(void)
{
    int fd = open(changing, O_WRONLY);
    CHECK(fd >= 0 && pwrite(fd, "x", 1, 4 << 20) == 1);
    struct timespec later[2] = {{.tv_nsec = UTIME_OMIT},
                                {.tv_sec = 2000}}; /* a clock tick may be longer than the test */
    futimens(fd, later);
    close(fd);
}

static void test_a_file_that_changes_is_noticed(void)
{
    float *got = malloc(LARGE * 4);
    for (int way = 0; way < 6; way++) { /* before and during the reading */
        changing = put_file("changing.safetensors");
        kiln_weights *w = opened(changing);
        error e = {0};
        REQUIRE(w);
        preads_reset();
        if (way == 0) cut_short();
        if (way == 1) write_into();
        if (way == 2) CHECK(rename(put_file("new.safetensors"), changing) == 0);
        if (way == 3) unlink(changing);
        if (way == 4) preads.fail_at = 2, preads.during = cut_short;
        if (way == 5) preads.fail_at = 2, preads.during = write_into;
        CHECK_MSG(weights_read_stored(w, "large", got, threads, &e) == KILN_ERR_IO, "way %d", way);
        contains(e.message, "changing.safetensors"), contains(e.message, "'large'");
        contains(e.message, way == 3 ? "cannot be opened again" : "changed since it was opened");
        weights_unref(w);
        unlink(changing);
    }
    preads_reset();
    free(got);
}

static void test_numbers_are_looked_at_as_in_the_map(void)
{
    static const size_t places[] = {0, 1, 4095, 4096, LARGE - 1};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        error of_map = {0}, of_bytes = {0}, by_threads = {0};
        float kept = numbers[places[i]], *got = malloc(LARGE * 4);
        numbers[places[i]] = i % 2 ? 1.f / 0.f : 0.f / 0.f;
        kiln_weights *w = opened(put_file("numbers.safetensors"));
        numbers[places[i]] = kept;
        REQUIRE(w);
        CHECK_EQ(weights_read_stored(w, "large", got, threads, NULL), KILN_OK);
        CHECK_EQ(weights_scan_finite(w, "large", &of_map), KILN_ERR_INVALID);
        CHECK_EQ(weights_scan_finite_by(w, "large", threads, &by_threads), KILN_ERR_INVALID);
        CHECK_EQ(weights_scan_stored(w, "large", got, &of_bytes), KILN_ERR_INVALID);
        CHECK_STR(of_bytes.message, of_map.message);
        CHECK_STR(by_threads.message, of_map.message);
        weights_unref(w);
        free(got);
    }
}

/* Of several the first is named, however many threads look: the message holds its place. */
static void test_the_first_of_several_is_named(void)
{
    static const size_t places[] = {LARGE - 1, LARGE / 2, LARGE / 3, 7};
    float kept[4];
    for (size_t i = 0; i < 4; i++) kept[i] = numbers[places[i]];
    for (size_t i = 0; i < 4; i++) { /* each lies before the ones that are there already */
        numbers[places[i]] = 1.f / 0.f;
        kiln_weights *w = opened(put_file("several.safetensors"));
        REQUIRE(w);
        for (int again = 0; again < 5; again++) {
            error e = {0};
            char place[32];
            snprintf(place, sizeof place, "element %zu;", places[i]);
            CHECK_EQ(weights_scan_finite_by(w, "large", threads, &e), KILN_ERR_INVALID);
            contains(e.message, place);
        }
        weights_unref(w);
    }
    for (size_t i = 0; i < 4; i++) numbers[places[i]] = kept[i];
}

static void test_what_cannot_be_read_is_said(void)
{
    static const char header[] = "{\"f8\":{\"dtype\":\"F8_E8M0\",\"shape\":[2],\"data_offsets\":[0,2]}} ";
    size_t size;
    char got[8];
    error e = {0};
    uint8_t *file = raw_file(header, sizeof header - 1, 2, &size);
    kiln_weights *w = opened(put_bytes("f8.safetensors", file, size));
    REQUIRE(w);
    CHECK_EQ(weights_read_stored(w, "f8", got, NULL, &e), KILN_ERR_UNSUPPORTED);
    contains(e.message, "F8_E8M0");
    e = (error){0};
    CHECK_EQ(weights_read_stored(w, "f9", got, NULL, &e), KILN_ERR_INVALID);
    contains(e.message, "the nearest is 'f8'");
    CHECK_EQ(weights_stored_bytes(w, "f9"), 0);
    weights_unref(w);
    free(file);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_the_bytes_are_the_maps),         CASE(test_each_read_may_fail),
        CASE(test_a_file_that_changes_is_noticed), CASE(test_numbers_are_looked_at_as_in_the_map),
        CASE(test_the_first_of_several_is_named),  CASE(test_what_cannot_be_read_is_said)};
    threads = pool_new(3);
    numbers = malloc(LARGE * 4);
    for (size_t i = 0; i < LARGE; i++) numbers[i] = (float)(i * 2654435761u % 1000003) - 5e5f;
    int status = threads ? test_main(argc, argv, cases, sizeof cases / sizeof cases[0]) : 2;
    pool_free(threads);
    free(numbers);
    return status;
}
