/* test_sheet.c - the contact sheet: where pictures land, how they are scaled, what failed and missing rows look like,
 * and its limits. */
#include "base/memory_alloc.h"
#include "harness.h"
#include "run/sheet.h"

#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char path_of[8][600];

/* A picture of one colour; with `checks`, every other pixel black. */
static const char *paint(int k, unsigned w, unsigned h, int r, int g, int b, int checks)
{
    uint8_t *rgb = calloc(w * h, 3);
    png_image image = {.version = PNG_IMAGE_VERSION, .width = w, .height = h, .format = PNG_FORMAT_RGB};
    snprintf(path_of[k], sizeof path_of[k], "%s/p%d.png", test_folder(), k);
    for (unsigned i = 0; rgb && i < w * h; i++)
        if (!checks || (i % w + i / w) % 2)
            rgb[3 * i] = (uint8_t)r, rgb[3 * i + 1] = (uint8_t)g, rgb[3 * i + 2] = (uint8_t)b;
    CHECK(rgb && png_image_write_to_file(&image, path_of[k], 0, rgb, 0, NULL));
    free(rgb);
    return path_of[k];
}

static uint8_t *open_sheet(const char *path, png_image *image)
{
    *image = (png_image){.version = PNG_IMAGE_VERSION};
    if (!CHECK(png_image_begin_read_from_file(image, path))) return NULL;
    image->format = PNG_FORMAT_RGB;
    uint8_t *rgb = malloc(PNG_IMAGE_SIZE(*image));
    CHECK(rgb && png_image_finish_read(image, NULL, rgb, 0, NULL));
    return rgb;
}

static size_t count(const uint8_t *rgb, const png_image *image, int r, int g, int b)
{
    size_t n = 0;
    for (size_t i = 0; i < (size_t)image->width * image->height; i++)
        n += rgb[3 * i] == r && rgb[3 * i + 1] == g && rgb[3 * i + 2] == b;
    return n;
}

/* Pixels whose green, which the cross and the pictures have little of, is below that of paper, and whose red is not
 * theirs: ink, and its edges. */
static size_t darker(const uint8_t *rgb, const png_image *image, int than)
{
    size_t n = 0;
    for (size_t i = 0; i < (size_t)image->width * image->height; i++) {
        const uint8_t *p = rgb + 3 * i;
        n += p[1] < than && abs(p[0] - p[1]) < 30 && abs(p[1] - p[2]) < 30;
    }
    return n;
}

static int make(sweep *s, const char *a, const char *b)
{
    const char *over[] = {a, b};
    error e = {0};
    return sweep_make(s, &(sweep_source){.over = over, .n_over = b ? 2 : 1}, &e) == KILN_OK;
}

static void test_a_grid(void)
{
    sweep s;
    error e = {0};
    char path[600];
    png_image image;
    snprintf(path, sizeof path, "%s/sheet.png", test_folder());
    REQUIRE(make(&s, "a=1,2", "b=1,2"));
    sheet_cell cell[4] = {{SHEET_PICTURE, paint(0, 40, 40, 255, 0, 0, 0)},
                          {SHEET_PICTURE, paint(1, 20, 40, 0, 0, 255, 0)},
                          {.state = SHEET_FAILED},
                          {.state = SHEET_EMPTY}};
    REQUIRE(sheet_write(&s, cell, path, &e) == KILN_OK);
    uint8_t *rgb = open_sheet(path, &image);
    REQUIRE(rgb != NULL);
    CHECK_EQ(count(rgb, &image, 255, 0, 0), 40 * 40); /* pixel for pixel: nothing is enlarged */
    CHECK_EQ(count(rgb, &image, 0, 0, 255), 20 * 40);
    CHECK(count(rgb, &image, 200, 40, 40) > 40);     /* the cross */
    CHECK(count(rgb, &image, 222, 222, 226) > 1600); /* the missing one, and what the cross leaves */
    CHECK(darker(rgb, &image, 120) > 50);            /* letters */
    free(rgb);
    sweep_free(&s);
}

static void test_pictures_are_averaged_down(void)
{
    sweep s;
    error e = {0};
    char path[600];
    png_image image;
    snprintf(path, sizeof path, "%s/sheet.png", test_folder());
    REQUIRE(make(&s, "a=1", NULL));
    sheet_cell cell = {SHEET_PICTURE, paint(0, 1024, 512, 200, 100, 50, 1)};
    REQUIRE(sheet_write(&s, &cell, path, &e) == KILN_OK);
    uint8_t *rgb = open_sheet(path, &image);
    REQUIRE(rgb != NULL);
    CHECK_EQ(count(rgb, &image, 100, 50, 25), 256 * 128); /* half of each 4x4 box is black */
    free(rgb);
    sweep_free(&s);
}

static void test_what_cannot_be_read_or_fit(void)
{
    sweep s;
    error e = {0};
    char path[600];
    snprintf(path, sizeof path, "%s/sheet.png", test_folder());
    REQUIRE(make(&s, "a=1..2", NULL));
    FILE *f = fopen(path_of[0], "w");
    REQUIRE(f && fputs("no picture", f) >= 0 && fclose(f) == 0);
    sheet_cell cell[2] = {{SHEET_PICTURE, path_of[0]}, {SHEET_PICTURE, "/nowhere.png"}};
    CHECK_EQ(sheet_write(&s, cell, path, &e), KILN_OK);
    CHECK(sheet_write(&s, cell, "/proc/nowhere/sheet.png", &e) == KILN_ERR_IO);
    for (int64_t k = 0; k < 12; k++) {
        error why = {0};
        mem_fail_at(k, 0);
        kiln_status status = sheet_write(&s, cell, path, &why);
        mem_fail_at(-1, 0);
        CHECK(status == KILN_OK || status == KILN_ERR_NOMEM);
    }
    sweep_free(&s);
    REQUIRE(make(&s, "a=1..50000", "b=1,2"));
    sheet_cell *many = calloc(s.n_row, sizeof *many);
    e = (error){0};
    CHECK(many && sheet_write(&s, many, path, &e) == KILN_ERR_INVALID && strstr(e.message, "too large"));
    free(many);
    sweep_free(&s);
}

/* Labels have room, however small the pictures are, and stand over and beside them. */
static void test_labels_have_room(void)
{
    sweep s;
    error e = {0};
    char path[600];
    png_image image;
    snprintf(path, sizeof path, "%s/sheet.png", test_folder());
    REQUIRE(make(&s, "sampler=dpmpp_2m_sde,euler", "cfg=1,2"));
    sheet_cell cell[4];
    for (int i = 0; i < 4; i++) cell[i] = (sheet_cell){SHEET_PICTURE, paint(i, 16, 16, 0, 200, 0, 0)};
    REQUIRE(sheet_write(&s, cell, path, &e) == KILN_OK);
    uint8_t *rgb = open_sheet(path, &image);
    REQUIRE(rgb != NULL);
    CHECK_EQ(count(rgb, &image, 0, 200, 0), 4 * 16 * 16);
    for (unsigned x = 0; x < image.width; x++) /* nothing reaches the edges */
        for (unsigned k = 0; k < 3; k++)
            CHECK(rgb[3 * x + k] > 240 && rgb[3 * ((size_t)(image.height - 1) * image.width + x) + k] > 240);
    for (unsigned y = 0; y < image.height; y++)
        CHECK(rgb[3 * (size_t)y * image.width] > 240 && rgb[3 * ((size_t)y * image.width + image.width - 1)] > 240);
    size_t left = 0;
    for (unsigned y = 0; y < image.height; y++)
        for (unsigned x = 0; x < 40; x++) left += rgb[3 * ((size_t)y * image.width + x)] < 120;
    CHECK(left > 40); /* the names down the side */
    free(rgb);
    sweep_free(&s);
}

/* 1: the picture's red is in the column. */
static int has_red(const uint8_t *rgb, const png_image *image, unsigned x)
{
    for (unsigned y = 0; y < image->height; y++) {
        const uint8_t *p = rgb + 3 * ((size_t)y * image->width + x);
        if (p[0] == 255 && p[1] == 0) return 1;
    }
    return 0;
}

/* An axis of few values is a line and a longer one wraps; a second axis makes lines of any length; many are a square.
 */
static void test_how_many_stand_side_by_side(void)
{
    static const struct {
        const char *a, *b;
        unsigned columns, lines;
    } row[] = {{"a=1..16", NULL, 16, 1},    {"a=1..17", NULL, 5, 4},      {"a=1,2", "b=1..9", 9, 2},
               {"a=1,2", "b=1..64", 64, 2}, {"a=1,2", "b=1..65", 12, 11}, {"a=1..36", NULL, 6, 6}};
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        sweep s;
        error e = {0};
        char path[600];
        png_image image;
        snprintf(path, sizeof path, "%s/sheet.png", test_folder());
        REQUIRE(make(&s, row[i].a, row[i].b));
        sheet_cell *cell = calloc(s.n_row, sizeof *cell);
        paint(0, 100, 100, 255, 0, 0, 0);
        for (size_t k = 0; cell && k < s.n_row; k++) cell[k] = (sheet_cell){SHEET_PICTURE, path_of[0]};
        REQUIRE(cell && sheet_write(&s, cell, path, &e) == KILN_OK);
        uint8_t *rgb = open_sheet(path, &image);
        REQUIRE(rgb != NULL);
        unsigned columns = 0, lines = 0; /* of red that begin in the first of them */
        for (unsigned y = 0, x; y < image.height && !columns; y++)
            for (x = 1; x < image.width; x++) {
                const uint8_t *p = rgb + 3 * ((size_t)y * image.width + x);
                columns += p[1] == 0 && p[0] == 255 && p[-2] != 0;
            }
        unsigned left = 0;
        while (left < image.width && !has_red(rgb, &image, left)) left++;
        for (unsigned y = 1; y < image.height; y++) {
            const uint8_t *p = rgb + 3 * ((size_t)y * image.width + left), *above = p - 3 * (size_t)image.width;
            lines += p[1] == 0 && p[0] == 255 && above[1] != 0;
        }
        CHECK_MSG(columns == row[i].columns && lines == row[i].lines, "%s %s: %u x %u", row[i].a,
                  row[i].b ? row[i].b : "", columns, lines);
        free(rgb);
        free(cell);
        sweep_free(&s);
    }
}

/* Three axes, of which one sets two names; pictures much wider and much higher than any cell. */
static void test_odd_shapes(void)
{
    sweep s;
    error e = {0};
    char path[600], rows[600];
    png_image image;
    const char *over[] = {"c=1,2", "d=x"};
    snprintf(path, sizeof path, "%s/odd/er/sheet.png", test_folder());
    snprintf(rows, sizeof rows, "%s/rows.csv", test_folder());
    FILE *f = fopen(rows, "w");
    REQUIRE(f && fputs("a,b\n1,2\n3,4\n", f) >= 0 && fclose(f) == 0);
    REQUIRE(sweep_make(&s, &(sweep_source){.over_file = rows, .over = over, .n_over = 2, .path = "f"}, &e) == KILN_OK);
    sheet_cell cell[4] = {{SHEET_PICTURE, paint(0, 3000, 2, 255, 0, 0, 0)},
                          {SHEET_PICTURE, paint(1, 2, 3000, 0, 0, 255, 0)},
                          {SHEET_PICTURE, paint(2, 700, 700, 0, 255, 0, 0)},
                          {.state = SHEET_FAILED}};
    CHECK_MSG(sheet_write(&s, cell, path, &e) == KILN_OK, "%s", e.message); /* its folders were made */
    uint8_t *rgb = open_sheet(path, &image);
    REQUIRE(rgb != NULL);
    CHECK(count(rgb, &image, 255, 0, 0) >= 100); /* a line of one pixel at least, as long as a cell */
    CHECK(count(rgb, &image, 0, 0, 255) >= 100);
    CHECK(count(rgb, &image, 0, 255, 0) > 10000);
    free(rgb);
    sweep_free(&s);
    /* One long axis of rows that set several names: their labels stand under the pictures. */
    REQUIRE(sweep_make(&s, &(sweep_source){.over_file = rows, .path = "f"}, &e) == KILN_OK);
    CHECK_EQ(sheet_write(&s, cell, path, &e), KILN_OK);
    sweep_free(&s);
    /* Cells so small that no word fits, and one row of a hundred. */
    REQUIRE(make(&s, "a=1..100", NULL));
    static sheet_cell many[100];
    const char *dot = paint(3, 1, 1, 9, 9, 9, 0);
    for (int i = 0; i < 100; i++) many[i] = (sheet_cell){i % 3 ? SHEET_PICTURE : SHEET_FAILED, i % 3 ? dot : NULL};
    CHECK_EQ(sheet_write(&s, many, path, &e), KILN_OK);
    rgb = open_sheet(path, &image);
    CHECK(rgb && count(rgb, &image, 9, 9, 9) == 66);
    free(rgb);
    sweep_free(&s);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_a_grid),           CASE(test_pictures_are_averaged_down),  CASE(test_what_cannot_be_read_or_fit),
        CASE(test_labels_have_room), CASE(test_how_many_stand_side_by_side), CASE(test_odd_shapes)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
