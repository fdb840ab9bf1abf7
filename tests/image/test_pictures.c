/* test_pictures.c - JPEG, WebP and 16-bit PNG files read by LoadImage, held against Pillow's pixels
 * (tests/golden/pictures.txt, written by scripts/golden/pictures.py), bit for bit; damaged and hostile ones; and what
 * SaveImage and the animated nodes write, read back.
 */
#include "node_kit.h"

#include "exif_block.h"
#include "image.h"
#include "workflow/picture_text.h"

#include "base/memory_alloc.h"

#include <math.h>
#include <stdlib.h>
#include <zlib.h>

enum { LINE = 64 << 10, BYTES = 16 << 10 };

typedef struct {
    char name[64];
    int frames, width, height, channels, depth;
    unsigned char pixel[BYTES], file[BYTES];
    size_t n_pixel, n_file;
} golden;

static size_t unhex(const char *text, unsigned char *out)
{
    size_t n = 0;
    for (unsigned byte; n < BYTES && sscanf(text + 2 * n, "%2x", &byte) == 1; n++) out[n] = (unsigned char)byte;
    return n;
}

static FILE *goldens(void)
{
    char path[600];
    snprintf(path, sizeof path, "%s/tests/golden/pictures.txt", getenv("KILN_ROOT") ? getenv("KILN_ROOT") : ".");
    FILE *f = fopen(path, "r");
    if (!CHECK_MSG(f != NULL, "%s", path)) exit(1);
    return f;
}

static int read_golden(FILE *f, golden *g)
{
    static char line[LINE], pixels[LINE], file[LINE];
    if (!fgets(line, sizeof line, f) || sscanf(line, "%63s %d %d %d %d %d %65535s %65535s", g->name, &g->frames,
                                               &g->width, &g->height, &g->channels, &g->depth, pixels, file) != 8)
        return 0;
    g->n_pixel = unhex(pixels, g->pixel), g->n_file = unhex(file, g->file);
    return 1;
}

static const golden *golden_named(const char *name)
{
    static golden g;
    FILE *f = goldens();
    int found = 0;
    while (!found && read_golden(f, &g)) found = strcmp(g.name, name) == 0;
    fclose(f);
    if (!CHECK_MSG(found, "no golden %s", name)) exit(1);
    return &g;
}

/* Under a name that says something else: the content decides. */
static const char *write_file(const unsigned char *data, size_t n)
{
    static char path[1100];
    snprintf(path, sizeof path, "%s/any.png", test_folder());
    FILE *f = fopen(path, "wb");
    if (!CHECK(f && fwrite(data, 1, n, f) == n)) exit(1);
    fclose(f);
    return path;
}

static made load(const char *path) { return node_run(&node_load_image, &(const char *){path}, NULL, NULL); }
static made load_bytes(const unsigned char *data, size_t n) { return load(write_file(data, n)); }

static float wanted(const golden *g, size_t i)
{
    uint16_t wide;
    if (g->depth == 8) return (float)g->pixel[i] / 255.0f;
    memcpy(&wide, g->pixel + 2 * i, 2);
    return (float)wide / 65535.0f;
}

static void check_golden(const golden *g)
{
    made m = load_bytes(g->file, g->n_file);
    if (!CHECK_MSG(m.status == KILN_OK, "%s: %s", g->name, m.why.message)) return;
    kiln_tensor image = view_of(m.out[0]), mask = view_of(m.out[1]);
    int alpha = g->channels == 4, same = image.dim[0] == g->frames && image.dim[1] == g->height &&
                                         image.dim[2] == g->width && mask.dim[0] == g->frames &&
                                         mask.dim[1] == (alpha ? g->height : 64);
    CHECK_MSG(same, "%s: %lld of %lldx%lld", g->name, (long long)image.dim[0], (long long)image.dim[2],
              (long long)image.dim[1]);
    size_t wrong = 0, n = (size_t)(g->frames * g->width * g->height);
    for (size_t i = 0; same && i < n; i++) {
        for (size_t c = 0; c < 3; c++)
            wrong += ((float *)image.data)[i * 3 + c] != wanted(g, i * (size_t)g->channels + c);
        if (alpha) wrong += ((float *)mask.data)[i] != 1.0f - wanted(g, i * 4 + 3);
    }
    CHECK_MSG(wrong == 0, "%s: %zu values differ from Pillow's", g->name, wrong);
    made_free(&m);
}

static void test_as_pillow_reads_them(void)
{
    golden g;
    int n = 0;
    FILE *f = goldens();
    for (; read_golden(f, &g); n++) check_golden(&g);
    fclose(f);
    CHECK_EQ(n, 57);
}

/* ---- damaged and hostile files ---- */

static const char *const samples[] = {"jpeg-420-35",   "jpeg-progressive", "jpeg-cmyk", "webp-lossy-alpha",
                                      "webp-lossless", "webp-animated",    "png-16-3"};

/* Cut anywhere before its last pixels are known, a file is refused; never is a half picture taken for a whole one. */
static void test_files_that_end_early(void)
{
    for (size_t k = 0; k < sizeof samples / sizeof samples[0]; k++) {
        const golden *g = golden_named(samples[k]);
        size_t taken = 0;
        for (size_t n = 0; n < g->n_file; n++) {
            made m = load_bytes(g->file, n);
            CHECK_MSG(m.status == KILN_OK || m.status == KILN_ERR_INVALID, "%s cut at %zu: %d %s", g->name, n, m.status,
                      m.why.message);
            taken += m.status == KILN_OK;
            made_free(&m);
        }
        CHECK_MSG(taken <= 16, "%s: %zu cut files were taken", g->name, taken); /* what comes behind the pixels */
    }
}

/* Nor when the end is put behind it again: libjpeg would fill what is missing. */
static void test_lost_pixels(void)
{
    static const char *const which[] = {"jpeg-420-35", "jpeg-progressive", "jpeg-grey"};
    for (int k = 0; k < 3; k++) {
        const golden *g = golden_named(which[k]);
        static unsigned char copy[BYTES];
        size_t n = g->n_file - 60; /* in the last scan */
        memcpy(copy, g->file, n);
        copy[n] = 0xff, copy[n + 1] = 0xd9;
        made m = load_bytes(copy, n + 2);
        refused(&m, KILN_ERR_INVALID, "cannot be read as a JPEG: ");
    }
}

static void test_flipped_bits_never_crash(void)
{
    for (size_t k = 0; k < sizeof samples / sizeof samples[0]; k++) {
        const golden *g = golden_named(samples[k]);
        static unsigned char copy[BYTES];
        memcpy(copy, g->file, g->n_file);
        for (size_t bit = 0; bit < g->n_file * 8; bit += bit < 200 * 8 ? 3 : 29) {
            copy[bit / 8] ^= (unsigned char)(1u << bit % 8);
            made m = load_bytes(copy, g->n_file);
            CHECK_MSG(m.status == KILN_OK || (m.status == KILN_ERR_INVALID && m.why.message[0]),
                      "%s, bit %zu: status %d '%s'", g->name, bit, m.status, m.why.message);
            made_free(&m);
            copy[bit / 8] ^= (unsigned char)(1u << bit % 8);
        }
    }
}

static long peak(void)
{
    char line[200];
    long kb = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f)) sscanf(line, "VmHWM: %ld", &kb);
    if (f) fclose(f);
    return kb;
}

/* The size in a JPEG's frame header. */
static void set_size(unsigned char *file, size_t n, unsigned width, unsigned height)
{
    for (size_t at = 2; at + 9 < n; at += 2u + ((size_t)file[at + 2] << 8 | file[at + 3]))
        if (file[at + 1] >= 0xc0 && file[at + 1] <= 0xc2) {
            file[at + 5] = (unsigned char)(height >> 8), file[at + 6] = (unsigned char)height;
            file[at + 7] = (unsigned char)(width >> 8), file[at + 8] = (unsigned char)width;
            return;
        }
    CHECK_MSG(0, "no frame header");
}

static void test_bombs_are_refused_before_memory_is_taken(void)
{
    static const struct {
        unsigned w, h;
        const char *says;
    } size[] = {{65535, 65535, "larger than 16384"}, {16384, 16384, "too small for a picture"}, {16385, 1, "16384"}};
    long before = peak();
    for (size_t i = 0; i < sizeof size / sizeof size[0]; i++)
        for (int k = 0; k < 2; k++) {
            const golden *g = golden_named(k ? "jpeg-progressive" : "jpeg-420-35");
            static unsigned char copy[BYTES];
            memcpy(copy, g->file, g->n_file);
            set_size(copy, g->n_file, size[i].w, size[i].h);
            made m = load_bytes(copy, g->n_file);
            refused(&m, KILN_ERR_INVALID, size[i].says);
        }
    /* VP8L: 14 bits of width - 1, 14 of height - 1 */
    const golden *g = golden_named("webp-lossless");
    static unsigned char copy[BYTES];
    memcpy(copy, g->file, g->n_file);
    copy[21] = 0xff, copy[22] = 0xff, copy[23] = 0xff, copy[24] |= 0x0f;
    made m = load_bytes(copy, g->n_file);
    refused(&m, KILN_ERR_INVALID, "178 megapixels");
    CHECK_MSG(peak() - before < 64 << 10, "%ld kB", peak() - before);
}

/* A first frame smaller than the picture would let a few bytes stand for any canvas. */
static void test_an_animated_png_begins_with_the_whole(void)
{
    const golden *g = golden_named("png-animated-RGB");
    static unsigned char copy[BYTES];
    size_t at = 8;
    memcpy(copy, g->file, g->n_file);
    while (at + 12 < g->n_file && memcmp(copy + at + 4, "fcTL", 4) != 0)
        at += 12 + ((size_t)copy[at + 2] << 8 | copy[at + 3]);
    REQUIRE(at + 38 < g->n_file);
    copy[at + 8 + 7]--; /* its width */
    uint32_t crc = (uint32_t)crc32(crc32(0, NULL, 0), copy + at + 4, 30);
    for (int i = 0; i < 4; i++) copy[at + 34 + i] = (unsigned char)(crc >> (24 - 8 * i));
    made m = load_bytes(copy, g->n_file);
    refused(&m, KILN_ERR_INVALID, "its first frame is not the whole picture");
    copy[at + 8 + 8]++; /* the checksum does not fit */
    m = load_bytes(copy, g->n_file);
    refused(&m, KILN_ERR_INVALID, "a part of its data is corrupt");
}

static void test_kinds_that_are_not_read_are_named(void)
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *says;
    } other[] = {{"\0\0\0\40ftypheic\0\0\0\0", 16, "HEIC"},
                 {"GIF89a..........", 16, "GIF"},
                 {"BM..............", 16, "BMP"},
                 {"II*\0............", 16, "TIFF"},
                 {"\0\0\0\14JXL \15\12\207\12....", 16, "JPEG XL"},
                 {"hello", 5, "not a PNG, JPEG, WebP or AVIF"}};
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++) {
        made m = load_bytes((const unsigned char *)other[i].bytes, other[i].n);
        CHECK_MSG(strstr(m.why.message, "convert the picture to PNG") != NULL, "%s", m.why.message);
        refused(&m, KILN_ERR_INVALID, other[i].says);
    }
}

static void test_a_cancelled_read_ends(void)
{
    node_stop_after = 0;
    const golden *g = golden_named("jpeg-progressive");
    made m = load_bytes(g->file, g->n_file);
    CHECK_EQ(m.status, KILN_CANCELLED);
    made_free(&m);
    node_stop_after = 0;
    g = golden_named("webp-animated");
    m = load_bytes(g->file, g->n_file);
    CHECK_EQ(m.status, KILN_CANCELLED);
    made_free(&m);
    node_stop_after = -1;
}

/* ---- writing ---- */

static kiln_value *batch(int64_t n, int64_t channels)
{
    float *into;
    kiln_value *v = IMAGE_OF(n, 9, 13, channels, NULL, &into);
    for (int64_t i = 0; i < n * 9 * 13 * channels; i++) into[i] = (float)((i * 37 + i / 7) % 256) / 255.0f;
    return v;
}

/* How far two batches are apart, in 255ths; -1: another shape. */
static double apart(const kiln_value *a, const kiln_value *b)
{
    kiln_tensor x = view_of(a), y = view_of(b);
    double worst = 0;
    size_t n = 1;
    for (uint32_t i = 0; i < 4; i++) {
        if (i < 3 && x.dim[i] != y.dim[i]) return -1;
        n *= (size_t)x.dim[i];
    }
    if (x.dim[3] != y.dim[3]) return -1;
    for (size_t i = 0; i < n; i++)
        worst = fmax(worst, fabs((double)((const float *)x.data)[i] - (double)((const float *)y.data)[i]) * 255);
    return worst;
}

static void test_an_animated_webp_comes_back(void)
{
    for (int64_t channels = 3; channels <= 4; channels++)
        for (int64_t frames = 1; frames <= 3; frames += 2) {
            node_text[0] = "{\"a\": 1}";
            kiln_value *v = batch(frames, channels);
            made m = node_with(&node_save_animated_webp, "fps=10", v, NULL, NULL);
            if (!CHECK_MSG(m.status == KILN_OK, "%s", m.why.message)) return;
            made_free(&m);
            made back = load(node_file);
            if (CHECK_MSG(back.status == KILN_OK, "%s", back.why.message) && channels == 3)
                CHECK_EQ(apart(v, back.out[0]), 0.0);
            char *text = NULL;
            error e = {0};
            CHECK_MSG(picture_text_read(node_file, "prompt", &text, &e) == KILN_OK, "%s", e.message);
            CHECK_STR(text ? text : "", "{\"a\": 1}");
            mem_free(text);
            made_free(&back);
            value_unref(v);
            node_text[0] = NULL;
        }
}

static void test_an_animated_png_has_its_frames(void)
{
    kiln_value *v = batch(3, 3);
    made m = node_with(&node_save_animated_png, "fps=4; compress_level=9", v, NULL, NULL);
    REQUIRE(m.status == KILN_OK);
    made_free(&m);
    static unsigned char data[BYTES * 2];
    FILE *f = fopen(node_file, "rb");
    REQUIRE(f != NULL);
    size_t n = fread(data, 1, sizeof data, f), heads = 0, parts = 0, at = 8, first = 0;
    fclose(f);
    unsigned next = 0;
    while (at + 12 <= n) {
        size_t size = (size_t)data[at] << 24 | (size_t)data[at + 1] << 16 | (size_t)data[at + 2] << 8 | data[at + 3];
        const unsigned char *p = data + at + 8;
        int head = memcmp(data + at + 4, "fcTL", 4) == 0, part = memcmp(data + at + 4, "fdAT", 4) == 0;
        if (memcmp(data + at + 4, "acTL", 4) == 0) CHECK_EQ(p[3], 3);
        if (memcmp(data + at + 4, "IDAT", 4) == 0) first++;
        if (head) CHECK(p[20] == 0 && p[21] == 250 && p[22] == 1000 >> 8 && p[23] == (1000 & 255));
        if (head || part) CHECK_EQ(p[3], next++);
        heads += head, parts += part;
        at += 12 + size;
    }
    CHECK_EQ(at, n);
    CHECK(first >= 1 && heads == 3 && parts >= 2);
    made back = load(node_file);
    CHECK_MSG(back.status == KILN_OK && apart(v, back.out[0]) == 0, "%s", back.why.message);
    made_free(&back);
    value_unref(v);
}

static void test_exif_blocks_are_read_back(void)
{
    const exif_text text[] = {{"prompt", "{\"x\": \"\xc3\xa4\"}"}, {"kiln", "k"}, {"parameters", ""}};
    size_t n = 0;
    uint8_t *block = exif_block_make(text, 3, &n);
    REQUIRE(block != NULL);
    static unsigned char file[400];
    char *found = NULL;
    error e = {0};
    memcpy(file, "\xff\xd8\xff\xe1", 4);
    file[4] = (unsigned char)((n + 8) >> 8), file[5] = (unsigned char)(n + 8);
    memcpy(file + 6, "Exif\0\0", 6);
    memcpy(file + 12, block, n);
    for (int i = 0; i < 3; i++) {
        CHECK(picture_text_read(write_file(file, n + 12), text[i].key, &found, &e) == KILN_OK);
        CHECK_STR(found ? found : "(none)", text[i].value);
        mem_free(found);
    }
    CHECK(picture_text_find(write_file(file, n + 12), "pro", &found, &e) == KILN_OK && !found);
    for (size_t cut = 3; cut < n + 12; cut++) { /* whatever is missing: no text, or the whole of one */
        CHECK(picture_text_find(write_file(file, cut), "prompt", &found, &e) == KILN_OK);
        if (found) CHECK_STR(found, text[0].value);
        mem_free(found);
    }
    for (size_t at = 3; at < n + 12; at++) /* and whatever is wrong: the sanitizers watch */
        for (int bit = 0; bit < 8; bit++) {
            file[at] ^= (unsigned char)(1u << bit);
            if (picture_text_find(write_file(file, n + 12), "prompt", &found, &e) == KILN_OK) mem_free(found);
            file[at] ^= (unsigned char)(1u << bit);
        }
    free(block);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_bombs_are_refused_before_memory_is_taken),
                                      CASE(test_as_pillow_reads_them),
                                      CASE(test_files_that_end_early),
                                      CASE(test_lost_pixels),
                                      CASE(test_flipped_bits_never_crash),
                                      CASE(test_an_animated_png_begins_with_the_whole),
                                      CASE(test_kinds_that_are_not_read_are_named),
                                      CASE(test_a_cancelled_read_ends),
                                      CASE(test_an_animated_webp_comes_back),
                                      CASE(test_an_animated_png_has_its_frames),
                                      CASE(test_exif_blocks_are_read_back)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
