/* test_exif.c - LoadImage turns a picture as its eXIf chunk says: held against Pillow's ImageOps.exif_transpose
 * (tests/golden/exif.txt, written by scripts/golden/exif.py), and blocks that lie about their lengths.
 */
#include "node_kit.h"

#include "image.h"
#include "orientation.h"

#include <stdlib.h>

enum { LINE = 8192, BYTES = 2048 };

typedef struct {
    char name[64];
    int width, height, channels;
    unsigned char pixel[BYTES], png[BYTES];
    size_t n_pixel, n_png;
} golden;

static size_t unhex(const char *text, unsigned char *out)
{
    size_t n = 0;
    for (unsigned byte; n < BYTES && sscanf(text + 2 * n, "%2x", &byte) == 1; n++) out[n] = (unsigned char)byte;
    return n;
}

static int read_golden(FILE *f, golden *g)
{
    static char line[LINE], pixels[LINE], png[LINE];
    if (!fgets(line, sizeof line, f) ||
        sscanf(line, "%63s %d %d %d %8191s %8191s", g->name, &g->width, &g->height, &g->channels, pixels, png) != 6)
        return 0;
    g->n_pixel = unhex(pixels, g->pixel), g->n_png = unhex(png, g->png);
    return 1;
}

static const char *write_png(const unsigned char *data, size_t n)
{
    static char path[1100];
    snprintf(path, sizeof path, "%s/exif.png", test_folder());
    FILE *f = fopen(path, "wb");
    if (!CHECK(f && fwrite(data, 1, n, f) == n)) exit(1);
    fclose(f);
    return path;
}

static void check_golden(const golden *g)
{
    made m = node_run(&node_load_image, &(const char *){write_png(g->png, g->n_png)}, NULL, NULL);
    if (!CHECK_MSG(m.status == KILN_OK, "%s: %s", g->name, m.why.message)) return;
    kiln_tensor image = view_of(m.out[0]), mask = view_of(m.out[1]);
    CHECK_MSG(image.dim[1] == g->height && image.dim[2] == g->width, "%s: %lldx%lld", g->name, (long long)image.dim[2],
              (long long)image.dim[1]);
    int wrong = 0, alpha = g->channels == 4;
    for (int i = 0; i < g->width * g->height && image.dim[1] == g->height; i++) {
        for (int c = 0; c < 3; c++)
            wrong += ((float *)image.data)[i * 3 + c] != (float)g->pixel[i * g->channels + c] / 255.0f;
        if (alpha) wrong += ((float *)mask.data)[i] != 1.0f - (float)g->pixel[i * 4 + 3] / 255.0f;
    }
    CHECK_MSG(wrong == 0, "%s: %d values differ", g->name, wrong);
    if (alpha) CHECK_MSG(mask.dim[1] == g->height && mask.dim[2] == g->width, "%s: its mask is not turned", g->name);
    made_free(&m);
}

static void test_as_pillow_turns_them(void)
{
    char path[600];
    golden g;
    int n = 0;
    snprintf(path, sizeof path, "%s/tests/golden/exif.txt", getenv("KILN_ROOT") ? getenv("KILN_ROOT") : ".");
    FILE *f = fopen(path, "r");
    REQUIRE(f);
    for (; read_golden(f, &g); n++) check_golden(&g);
    fclose(f);
    CHECK_EQ(n, 32);
}

static void test_a_mask_is_turned_too(void)
{
    struct {
        const char *image;
        int32_t channel;
    } params = {.channel = 3};
    golden g = {.n_png = 0};
    char path[600];
    snprintf(path, sizeof path, "%s/tests/golden/exif.txt", getenv("KILN_ROOT") ? getenv("KILN_ROOT") : ".");
    FILE *f = fopen(path, "r");
    REQUIRE(f);
    while (read_golden(f, &g) && strcmp(g.name, "MM-6-alpha") != 0) continue;
    fclose(f);
    params.image = write_png(g.png, g.n_png);
    made m = node_run(&node_load_image_mask, &params, NULL, NULL);
    REQUIRE(m.status == KILN_OK);
    kiln_tensor mask = view_of(m.out[0]);
    CHECK(mask.dim[1] == g.height && mask.dim[2] == g.width);
    for (int i = 0; i < g.width * g.height; i++)
        CHECK(((float *)mask.data)[i] == 1.0f - (float)g.pixel[i * 4 + 3] / 255.0f);
    made_free(&m);
}

/* Of a block of exactly n bytes, so that a sanitizer sees a step beyond it. */
static int orientation_of_copy(const unsigned char *data, size_t n)
{
    unsigned char *exact = malloc(n ? n : 1);
    if (n) memcpy(exact, data, n);
    int found = orientation_of(exact, n);
    free(exact);
    return found;
}

static const unsigned char whole[] = {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 0x01, 0x12, 0, 3, 0, 0, 0, 1, 0, 6, 0, 0};

static void test_blocks_that_end_early(void)
{
    CHECK_EQ(orientation_of_copy(whole, sizeof whole), 6);
    for (size_t n = 0; n < sizeof whole; n++) CHECK_EQ(orientation_of_copy(whole, n), 1);
}

static void test_lengths_that_lie(void)
{
    static const struct {
        size_t at;
        unsigned char byte[4];
    } lie[] = {
        {4, {0xff, 0xff, 0xff, 0xff}},
        {4, {0x7f, 0xff, 0xff, 0xff}},
        {4, {0, 0, 0, sizeof whole}},
        {4, {0, 0, 0, sizeof whole - 1}},
        {4, {0, 0, 0, 0}},             /* the directory's place */
        {8, {0xff, 0xff, 0x01, 0x11}}, /* more entries than bytes */
        {14, {0, 0, 0, 0}},
        {14, {0xff, 0xff, 0xff, 0xff}},
        {14, {0, 0, 0, 2}}, /* the entry's count */
        {12, {0, 2, 0, 0}},
        {12, {0xff, 0xff, 0, 0}}, /* its type */
    };
    for (size_t i = 0; i < sizeof lie / sizeof lie[0]; i++) {
        unsigned char copy[sizeof whole];
        memcpy(copy, whole, sizeof whole);
        memcpy(copy + lie[i].at, lie[i].byte, 4);
        CHECK_MSG(orientation_of_copy(copy, sizeof copy) == 1, "lie %zu was believed", i);
    }
}

static void test_any_byte_changed(void)
{
    for (size_t at = 0; at < sizeof whole; at++)
        for (int bit = 0; bit < 256; bit++) {
            unsigned char copy[sizeof whole];
            memcpy(copy, whole, sizeof whole);
            copy[at] = (unsigned char)bit;
            int found = orientation_of_copy(copy, sizeof copy);
            if (found < 1 || found > 8) CHECK_MSG(0, "byte %zu as %d gives %d", at, bit, found);
        }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_as_pillow_turns_them), CASE(test_a_mask_is_turned_too),
                                      CASE(test_blocks_that_end_early), CASE(test_lengths_that_lie),
                                      CASE(test_any_byte_changed)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
