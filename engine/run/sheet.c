/* sheet.c - see sheet.h. Pictures are read through libpng's simplified interface (no jumps), one at a time, and scaled
 * by a box filter straight into the sheet.
 */
#include "run/sheet.h"

#include "base/checked.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory_alloc.h"
#include "run/sheet_font.h"

#include <png.h>
#include <stdio.h>
#include <string.h>

enum {
    GAP = 4,
    PAD = 4,
    ONE_LINE_MAX = 16 /* points of a lone axis that still are one line */,
    PICTURE_SIDE_MAX = 16384,
    LABEL_MAX = 400,
    TEXT_LINES = 3
};

typedef struct {
    uint8_t r, g, b;
} colour;

static const colour paper = {250, 250, 248}, ink = {30, 30, 34}, mist = {222, 222, 226}, alarm_red = {200, 40, 40};

typedef struct {
    const sweep *s;
    size_t columns, lines;   /* cells along the top and down the side    */
    int grid;                /* axes are labelled; otherwise each cell is */
    size_t cell_w, cell_h;   /* pixels of a picture                       */
    size_t scale;            /* of the letters                            */
    size_t left, top, under; /* room for labels                         */
    size_t width, height;
    uint8_t *rgb;
} sheet;

/* ---- drawing ---- */

static void dot(sheet *t, size_t x, size_t y, colour c)
{
    if (x >= t->width || y >= t->height) return;
    uint8_t *p = t->rgb + (y * t->width + x) * 3;
    p[0] = c.r, p[1] = c.g, p[2] = c.b;
}

static void box(sheet *t, size_t x, size_t y, size_t w, size_t h, colour c)
{
    for (size_t j = 0; j < h; j++)
        for (size_t i = 0; i < w; i++) dot(t, x + i, y + j, c);
}

static void letter(sheet *t, size_t x, size_t y, unsigned char code, colour c)
{
    const uint8_t *column = sheet_font[(code < FONT_FIRST || code > FONT_LAST ? '?' : code) - FONT_FIRST];
    for (size_t i = 0; i < FONT_WIDTH; i++)
        for (size_t j = 0; j < FONT_HEIGHT; j++)
            if (column[i] >> j & 1) box(t, x + i * t->scale, y + j * t->scale, t->scale, t->scale, c);
}

/* A text outside ASCII: one '?' for each character. Returns the number of letters. */
static size_t plain(const char *text, char *out, size_t capacity)
{
    size_t n = 0;
    for (const unsigned char *p = (const unsigned char *)text; *p && n + 1 < capacity; p++)
        if ((*p & 0xc0) != 0x80) out[n++] = *p < 0x80 ? (char)*p : '?';
    out[n] = '\0';
    return n;
}

/* At most TEXT_LINES lines of `fit` letters, broken at a space where there is one; the rest is cut with "..". */
static size_t break_lines(const char *text, size_t fit, char line[TEXT_LINES][LABEL_MAX])
{
    char all[LABEL_MAX];
    size_t n = plain(text, all, sizeof all), at = 0, lines = 0;
    if (fit == 0) return 0;
    for (; at < n && lines < TEXT_LINES; lines++) {
        size_t take = n - at < fit ? n - at : fit;
        if (at + take < n && lines + 1 < TEXT_LINES)
            for (size_t k = take + 1; k-- > take / 2 + 1;)
                if (all[at + k] == ' ' || all[at + k - 1] == ' ') {
                    take = k;
                    break;
                }
        memcpy(line[lines], all + at, take);
        line[lines][take] = '\0';
        at += take;
        while (all[at] == ' ') at++;
    }
    if (at < n && lines && fit > 2)
        memcpy(line[lines - 1] + (strlen(line[lines - 1]) > 2 ? strlen(line[lines - 1]) - 2 : 0), "..", 3);
    return lines;
}

static size_t line_height(const sheet *t) { return (FONT_HEIGHT + 2) * t->scale; }

/* Centred in a box of w pixels. */
static void label(sheet *t, size_t x, size_t y, size_t w, size_t h, const char *text, colour c)
{
    char line[TEXT_LINES][LABEL_MAX];
    size_t step = FONT_STEP * t->scale, fit = w / step;
    if (fit == 0) return;
    size_t lines = break_lines(text, fit, line), used = lines * line_height(t);
    if (h > used) y += (h - used) / 2;
    for (size_t k = 0; k < lines; k++) {
        size_t n = strlen(line[k]);
        for (size_t i = 0; i < n; i++)
            letter(t, x + (w - n * step) / 2 + i * step, y + k * line_height(t), (unsigned char)line[k][i], c);
    }
}

/* ---- pictures ---- */

static int picture_begin(const char *path, png_image *image)
{
    *image = (png_image){.version = PNG_IMAGE_VERSION};
    if (!png_image_begin_read_from_file(image, path)) return 0;
    if (image->width <= PICTURE_SIDE_MAX && image->height <= PICTURE_SIDE_MAX) {
        image->format = PNG_FORMAT_RGB;
        return 1;
    }
    snprintf(image->message, sizeof image->message, "larger than 16384 pixels a side");
    png_image_free(image);
    return 0;
}

/* Each pixel of the cell is the mean of those of the picture that it covers; smaller pictures keep their size. */
static void scale_into(sheet *t, size_t x0, size_t y0, const uint8_t *rgb, size_t w, size_t h, size_t to_w, size_t to_h)
{
    for (size_t y = 0; y < to_h; y++)
        for (size_t x = 0; x < to_w; x++) {
            size_t ax = x * w / to_w, bx = (x + 1) * w / to_w, ay = y * h / to_h, by = (y + 1) * h / to_h;
            uint64_t sum[3] = {0}, n = (bx - ax) * (by - ay);
            for (size_t j = ay; j < by; j++)
                for (size_t i = ax; i < bx; i++)
                    for (size_t c = 0; c < 3; c++) sum[c] += rgb[(j * w + i) * 3 + c];
            if (n)
                dot(t, x0 + x, y0 + y,
                    (colour){(uint8_t)((sum[0] + n / 2) / n), (uint8_t)((sum[1] + n / 2) / n),
                             (uint8_t)((sum[2] + n / 2) / n)});
        }
}

static int picture(sheet *t, size_t x, size_t y, const char *path)
{
    png_image image;
    png_color behind = {.red = paper.r, .green = paper.g, .blue = paper.b};
    int ok = picture_begin(path, &image);
    uint8_t *rgb = ok ? mem_alloc((size_t)image.width * image.height * 3) : NULL;
    ok = rgb && png_image_finish_read(&image, &behind, rgb, 0, NULL);
    if (ok) {
        size_t w = image.width, h = image.height, to_w = w, to_h = h;
        if (to_w > t->cell_w) to_w = t->cell_w, to_h = h * t->cell_w / w;
        if (to_h > t->cell_h) to_h = t->cell_h, to_w = w * t->cell_h / h;
        scale_into(t, x + (t->cell_w - to_w) / 2, y + (t->cell_h - to_h) / 2, rgb, w, h, to_w ? to_w : 1,
                   to_h ? to_h : 1);
    } else {
        log_warn("%s: cannot be put on the contact sheet: %s", path,
                 image.message[0] ? image.message : "out of memory");
    }
    png_image_free(&image);
    mem_free(rgb);
    return ok;
}

static void cross_out(sheet *t, size_t x, size_t y)
{
    size_t longer = t->cell_w > t->cell_h ? t->cell_w : t->cell_h;
    for (size_t i = 0; i < longer; i++) {
        size_t dx = i * t->cell_w / longer, dy = i * t->cell_h / longer;
        box(t, x + dx, y + dy, 2, 1, alarm_red);
        box(t, x + t->cell_w - 1 - dx, y + dy, 2, 1, alarm_red);
    }
    size_t w = 8 * FONT_STEP * t->scale, h = line_height(t) + 2;
    if (w > t->cell_w || h > t->cell_h) return;
    box(t, x + (t->cell_w - w) / 2, y + (t->cell_h - h) / 2, w, h, mist);
    label(t, x + (t->cell_w - w) / 2, y + (t->cell_h - h) / 2 + 2, w, h, "failed", alarm_red);
}

/* ---- where everything stands ---- */

static void choose_tiles(sheet *t)
{
    const sweep *s = t->s;
    const sweep_axis *last = &s->axis[s->n_axis ? s->n_axis - 1 : 0];
    t->grid = s->n_axis > 0 && last->n_name == 1 && (s->n_axis > 1 || last->n <= ONE_LINE_MAX) && last->n <= 64;
    if (t->grid) {
        t->columns = last->n;
    } else {
        for (t->columns = 1; t->columns * t->columns < s->n_row;) t->columns++;
    }
    t->lines = (s->n_row + t->columns - 1) / t->columns;
}

/* The largest picture decides, up to SHEET_CELL_MAX a side. */
static void choose_cell(sheet *t, const sheet_cell *cell)
{
    for (size_t i = 0; i < t->s->n_row; i++) {
        png_image image;
        if (cell[i].state != SHEET_PICTURE || !picture_begin(cell[i].path, &image)) continue;
        if (image.width > t->cell_w) t->cell_w = image.width;
        if (image.height > t->cell_h) t->cell_h = image.height;
        png_image_free(&image);
    }
    if (!t->cell_w) t->cell_w = t->cell_h = 128;
    size_t longer = t->cell_w > t->cell_h ? t->cell_w : t->cell_h;
    if (longer > SHEET_CELL_MAX)
        t->cell_w = t->cell_w * SHEET_CELL_MAX / longer, t->cell_h = t->cell_h * SHEET_CELL_MAX / longer;
    if (t->cell_w < SHEET_CELL_MIN) t->cell_w = SHEET_CELL_MIN;
    if (t->cell_h < SHEET_CELL_MIN) t->cell_h = SHEET_CELL_MIN;
}

static void side_label(const sheet *t, size_t line, char *text, size_t capacity)
{
    size_t used = 0, n_axis = t->s->n_axis;
    text[0] = '\0';
    for (size_t a = 0; a + 1 < n_axis && used + 2 < capacity; a++) {
        if (a) text[used++] = ' ';
        sweep_point_label(t->s, a, sweep_point(t->s, line * t->columns, a), text + used, capacity - used);
        used += strlen(text + used);
    }
}

/* Lines of text that the longest label of a cell takes. */
static size_t cell_lines(const sheet *t)
{
    char text[LABEL_MAX], line[TEXT_LINES][LABEL_MAX];
    size_t most = 1;
    for (size_t row = 0; row < t->s->n_row && most < TEXT_LINES; row++) {
        sweep_label(t->s, row, text, sizeof text);
        size_t n = break_lines(text, t->cell_w / (FONT_STEP * t->scale), line);
        if (n > most) most = n;
    }
    return most;
}

static void choose_capacity(sheet *t)
{
    t->scale = t->cell_w >= 192 ? 2 : 1;
    t->left = t->top = PAD, t->under = 0;
    if (!t->grid) {
        t->under = line_height(t) * cell_lines(t) + PAD;
        return;
    }
    t->top += line_height(t) * TEXT_LINES + PAD;
    size_t longest = 0;
    for (size_t line = 0; t->s->n_axis > 1 && line < t->lines; line++) {
        char text[LABEL_MAX];
        side_label(t, line, text, sizeof text);
        if (strlen(text) > longest) longest = strlen(text);
    }
    if (longest > 24) longest = 24; /* the rest goes on further lines */
    if (longest) t->left += (longest + 1) * FONT_STEP * t->scale + PAD;
}

/* Smaller cells until the whole fits. */
static kiln_status choose_size(sheet *t, const char *path, error *e)
{
    for (;;) {
        choose_capacity(t);
        t->width = t->left + t->columns * (t->cell_w + GAP) + PAD;
        t->height = t->top + t->lines * (t->cell_h + t->under + GAP) + PAD;
        if (t->width <= SHEET_SIDE_MAX && t->height <= SHEET_SIDE_MAX) return KILN_OK;
        if (t->cell_w <= SHEET_CELL_MIN || t->cell_h <= SHEET_CELL_MIN)
            return error_set(e, KILN_ERR_INVALID,
                             "%s: a sheet of %zu by %zu pictures is too large; sweep over less, or look at the files "
                             "the manifest names",
                             path, t->columns, t->lines);
        t->cell_w = t->cell_w * 3 / 4, t->cell_h = t->cell_h * 3 / 4;
        if (t->cell_w < SHEET_CELL_MIN) t->cell_w = SHEET_CELL_MIN;
        if (t->cell_h < SHEET_CELL_MIN) t->cell_h = SHEET_CELL_MIN;
    }
}

static void draw_cell(sheet *t, size_t row, const sheet_cell *cell)
{
    char text[LABEL_MAX];
    size_t x = t->left + row % t->columns * (t->cell_w + GAP),
           y = t->top + row / t->columns * (t->cell_h + t->under + GAP);
    if (cell->state != SHEET_PICTURE || !picture(t, x, y, cell->path)) {
        box(t, x, y, t->cell_w, t->cell_h, mist);
        if (cell->state != SHEET_EMPTY) cross_out(t, x, y);
    }
    if (t->grid) return;
    sweep_label(t->s, row, text, sizeof text);
    label(t, x, y + t->cell_h + 2, t->cell_w, 0, text, ink);
}

static void draw_axes(sheet *t)
{
    char text[LABEL_MAX];
    for (size_t i = 0; t->grid && i < t->columns; i++) {
        sweep_point_label(t->s, t->s->n_axis - 1, i, text, sizeof text);
        label(t, t->left + i * (t->cell_w + GAP), PAD, t->cell_w, t->top - 2 * PAD, text, ink);
    }
    for (size_t i = 0; t->grid && t->s->n_axis > 1 && i < t->lines; i++) {
        side_label(t, i, text, sizeof text);
        label(t, PAD, t->top + i * (t->cell_h + GAP), t->left - 2 * PAD, t->cell_h, text, ink);
    }
}

/* ---- the file ---- */

static kiln_status save(const sheet *t, const char *path, error *e)
{
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)t->width,
                       .height = (png_uint_32)t->height,
                       .format = PNG_FORMAT_RGB};
    png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
    void *bytes = mem_alloc(size);
    kiln_status status = KILN_OK;
    if (!bytes) return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", path);
    if (png_image_write_to_memory(&image, bytes, &size, 0, t->rgb, 0, NULL))
        status = file_write_whole(path, bytes, size, e);
    else
        status = error_set(e, KILN_ERR_IO, "%s: cannot be made: %s", path, image.message);
    png_image_free(&image);
    mem_free(bytes);
    return status;
}

kiln_status sheet_write(const sweep *s, const sheet_cell *cell, const char *path, error *e)
{
    sheet t = {.s = s};
    size_t bytes;
    choose_tiles(&t);
    choose_cell(&t, cell);
    TRY(choose_size(&t, path, e));
    if (!checked_mul_size(t.width * 3, t.height, &bytes) || !(t.rgb = mem_alloc(bytes)))
        return error_set(e, KILN_ERR_NOMEM, "%s: out of memory for %zu x %zu pixels", path, t.width, t.height);
    box(&t, 0, 0, t.width, t.height, paper);
    draw_axes(&t);
    for (size_t i = 0; i < s->n_row; i++) draw_cell(&t, i, &cell[i]);
    kiln_status status = save(&t, path, e);
    mem_free(t.rgb);
    return status;
}
