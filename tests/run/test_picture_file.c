/* test_picture_file.c - pictures for the contact sheet: what is written is read back, by what is in a file and not by
 * its name; what is transparent, damaged or too large. */
#include "base/file.h"
#include "base/memory_alloc.h"
#include "harness.h"
#include "run/picture_file.h"

#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <webp/encode.h>

enum { W = 40, H = 24 };
static const uint8_t white[3] = {255, 255, 255};

static const char *in_folder(const char *name)
{
    static char path[2][600];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", test_folder(), name);
    return path[turn];
}

/* Left half red, right half blue. */
static rgb_picture halves(uint8_t rgb[W * H * 3])
{
    memset(rgb, 0, W * H * 3);
    for (size_t i = 0; i < W * H; i++) rgb[3 * i + (i % W < W / 2 ? 0 : 2)] = 200;
    return (rgb_picture){W, H, rgb};
}

static int far_apart(const rgb_picture *p, const uint8_t *rgb)
{
    int most = 0;
    for (size_t i = 0; i < W * H * 3; i++) {
        int d = abs(p->rgb[i] - rgb[i]);
        most = d > most ? d : most;
    }
    return most;
}

static void round_trip(const char *name, int within)
{
    uint8_t rgb[W * H * 3];
    error e = {0};
    rgb_picture p = halves(rgb), back, size;
    const char *path = in_folder(name), *other = in_folder("other.png");
    REQUIRE(picture_file_write(path, &p, &e) == KILN_OK);
    REQUIRE(rename(path, other) == 0); /* the name says nothing */
    CHECK(picture_file_read(other, white, 0, &size, &e) == KILN_OK && !size.rgb && size.width == W && size.height == H);
    REQUIRE(picture_file_read(other, white, 1, &back, &e) == KILN_OK);
    CHECK_EQ(back.width, W);
    CHECK_EQ(back.height, H);
    CHECK_MSG(far_apart(&back, rgb) <= within, "%s: %d apart", name, far_apart(&back, rgb));
    mem_free(back.rgb);
}

static void test_round_trips(void)
{
    round_trip("a.png", 0);
    round_trip("a.webp", 0);
    round_trip("a.WEBP", 0);
    round_trip("a.jpg", 12);
    round_trip("a.jpeg", 12);
}

static size_t first_byte(const char *path)
{
    char *data;
    size_t n, byte = 0;
    error e = {0};
    if (file_read(path, 1 << 20, &data, &n, &e) != KILN_OK) return 0;
    byte = (uint8_t)data[0];
    mem_free(data);
    return byte;
}

static void test_endings(void)
{
    uint8_t rgb[W * H * 3];
    error e = {0};
    rgb_picture p = halves(rgb);
    REQUIRE(picture_file_write(in_folder("b.png"), &p, &e) == KILN_OK &&
            picture_file_write(in_folder("b.JPG"), &p, &e) == KILN_OK &&
            picture_file_write(in_folder("b.webp"), &p, &e) == KILN_OK);
    CHECK_EQ(first_byte(in_folder("b.png")), 0x89);
    CHECK_EQ(first_byte(in_folder("b.JPG")), 0xff);
    CHECK_EQ(first_byte(in_folder("b.webp")), 'R');
    CHECK(!picture_file_kind("x.gif") && !picture_file_kind(".png") && !picture_file_kind("png") &&
          !picture_file_kind("x.png.txt"));
    CHECK_STR(picture_file_kind("x.y.JpEg"), "JPEG");
}

static void test_transparent_webp(void)
{
    uint8_t rgba[4 * 4 * 4], *bytes = NULL;
    const uint8_t behind[3] = {10, 20, 30};
    error e = {0};
    rgb_picture p;
    for (size_t i = 0; i < 16; i++) memcpy(rgba + 4 * i, (uint8_t[]){250, 0, 0, i < 8 ? 255 : 0}, 4);
    size_t n = WebPEncodeLosslessRGBA(rgba, 4, 4, 16, &bytes);
    REQUIRE(n > 0 && file_write_whole(in_folder("t.webp"), bytes, n, &e) == KILN_OK);
    WebPFree(bytes);
    REQUIRE(picture_file_read(in_folder("t.webp"), behind, 1, &p, &e) == KILN_OK);
    CHECK(memcmp(p.rgb, (uint8_t[]){250, 0, 0}, 3) == 0);
    CHECK(memcmp(p.rgb + 3 * 15, behind, 3) == 0);
    mem_free(p.rgb);
}

/* 16 bits a channel, as SaveImageAdvanced writes it: sRGB numbers like those of 8 bits, and not light. */
static void test_sixteen_bits(void)
{
    error e = {0};
    rgb_picture p;
    uint8_t row[W * 6];
    FILE *f = fopen(in_folder("deep.png"), "wb");
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    REQUIRE(f && png && info);
    for (size_t i = 0; i < sizeof row; i++) row[i] = (uint8_t)(i / 2 % 3 * 90 + 10);
    png_init_io(png, f);
    png_set_IHDR(png, info, W, H, 16, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    for (int y = 0; y < H; y++) png_write_row(png, row);
    png_write_end(png, NULL);
    png_destroy_write_struct(&png, &info);
    REQUIRE(fclose(f) == 0);
    REQUIRE(picture_file_read(in_folder("deep.png"), white, 1, &p, &e) == KILN_OK);
    CHECK_MSG(memcmp(p.rgb, (uint8_t[]){10, 100, 190}, 3) == 0, "%d %d %d", p.rgb[0], p.rgb[1], p.rgb[2]);
    mem_free(p.rgb);
}

/* Every file cut at every byte: refused, or read whole where what is missing says nothing. */
static void test_damaged(void)
{
    static const char *const names[] = {"d.png", "d.jpg", "d.webp"};
    uint8_t rgb[W * H * 3];
    error e = {0};
    rgb_picture p = halves(rgb), back;
    for (size_t k = 0; k < 3; k++) {
        char *data, path[600];
        size_t n, refused = 0;
        snprintf(path, sizeof path, "%s", in_folder(names[k]));
        REQUIRE(picture_file_write(path, &p, &e) == KILN_OK && file_read(path, 1 << 20, &data, &n, &e) == KILN_OK);
        for (size_t cut = 0; cut < n; cut++) {
            error why = {0};
            REQUIRE(file_write_whole(path, data, cut, &e) == KILN_OK);
            kiln_status status = picture_file_read(path, white, 1, &back, &why);
            refused += status != KILN_OK;
            CHECK_MSG(status == KILN_OK || (why.message[0] && !back.rgb), "%s cut at %zu", names[k], cut);
            mem_free(status == KILN_OK ? back.rgb : NULL);
        }
        CHECK_MSG(refused + 16 > n, "%s: %zu of %zu refused", names[k], refused, n);
        mem_free(data);
    }
    CHECK(picture_file_read(in_folder("nobody.png"), white, 1, &back, &e) != KILN_OK && e.message[0]);
    error none = {0}; /* a JPEG may have tables alone */
    REQUIRE(file_write_whole(in_folder("d.jpg"), "\xff\xd8\xff\xd9", 4, &e) == KILN_OK);
    CHECK(picture_file_read(in_folder("d.jpg"), white, 1, &back, &none) == KILN_ERR_INVALID && !back.rgb);
    CHECK_MSG(strstr(none.message, "it has no picture") != NULL, "%s", none.message);
}

/* A header that says 20,303 pixels a side. */
static void test_too_large(void)
{
    uint8_t rgb[W * H * 3];
    error e = {0};
    rgb_picture p = halves(rgb), back;
    char *data;
    size_t n;
    REQUIRE(picture_file_write(in_folder("l.jpg"), &p, &e) == KILN_OK &&
            file_read(in_folder("l.jpg"), 1 << 20, &data, &n, &e) == KILN_OK);
    size_t at = 0;
    for (size_t i = 0; i + 9 < n && !at; i++)
        if ((uint8_t)data[i] == 0xff && (uint8_t)data[i + 1] == 0xc0) at = i + 5;
    REQUIRE(at > 0);
    memset(data + at, 0x4f, 4);
    REQUIRE(file_write_whole(in_folder("l.jpg"), data, n, &e) == KILN_OK);
    mem_free(data);
    CHECK(picture_file_read(in_folder("l.jpg"), white, 1, &back, &e) != KILN_OK);
    CHECK_STR(e.message, "larger than 16384 pixels a side");
    rgb_picture wide = {16384, 1, calloc(16384, 3)};
    e = (error){0};
    CHECK(wide.rgb && picture_file_write(in_folder("w.webp"), &wide, &e) != KILN_OK &&
          !file_exists(in_folder("w.webp")));
    CHECK(strstr(e.message, "at most 16383 a side; name a .png"));
    free(wide.rgb);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_round_trips),  CASE(test_endings), CASE(test_transparent_webp),
                                      CASE(test_sixteen_bits), CASE(test_damaged), CASE(test_too_large)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
