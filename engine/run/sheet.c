/* sheet.c - see sheet.h. Pictures are read one at a time and scaled by a box filter straight into the sheet.
 */
#include "run/sheet.h"

#include "base/checked.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory_alloc.h"
#include "base/str.h"
#include "run/picture_file.h"
#include "run/sheet_text.h"

#include <stdio.h>
#include <string.h>

enum {
    GAP = 4,
    PAD = 4,
    ONE_LINE_MAX = 16 /* points of a lone axis that still are one line */,
    LABEL_MAX = 400,
    TEXT_LINES = 3,
    LARGE_FROM = 192 /* pixels of a cell from which on letters are large */,
    LARGE = 15,
    SMALL = 11,
    SIDE_EMS = 14, /* the widest label at the side, in letters' sizes */
    CELL_EMS = 5   /* a column is as wide as its label, up to this, where there is room */
};

typedef struct {
    uint8_t r, g, b;
} colour;

static const colour paper = {250, 250, 248}, ink = {30, 30, 34}, faint = {112, 112, 120}, mist = {222, 222, 226},
                    alarm_red = {200, 40, 40};

typedef struct {
    const sweep *s;
    sheet_text text;
    size_t columns, lines;   /* cells along the top and down the side    */
    int grid;                /* axes are labelled; otherwise each cell is */
    size_t cell_w, cell_h;   /* pixels of a picture                       */
    size_t step_w, step_h;   /* from one cell to the next, less GAP       */
    size_t ems;              /* how wide a label may make a column        */
    size_t title, head;      /* height of the axis' name on top, of its values */
    size_t left, top, under; /* room for labels                         */
    size_t width, height;
    uint8_t *rgb;
    int lost; /* there was no memory for a label */
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

static uint8_t mixed(uint8_t under, uint8_t over, uint8_t cover)
{
    return (uint8_t)((under * (255 - cover) + over * cover + 127) / 255);
}

static void put_ink(sheet *t, size_t x0, size_t y0, const text_image *text, colour c)
{
    for (size_t y = y0; y < y0 + text->h && y < t->height; y++)
        for (size_t x = x0; x < x0 + text->w && x < t->width; x++) {
            uint8_t *p = t->rgb + (y * t->width + x) * 3, cover = text->cover[(y - y0) * text->w + x - x0];
            p[0] = mixed(p[0], c.r, cover), p[1] = mixed(p[1], c.g, cover), p[2] = mixed(p[2], c.b, cover);
        }
}

/* What a text takes in a box of that width. */
static text_image measured(sheet *t, const char *text, size_t width, size_t lines)
{
    text_image m;
    if (sheet_text_set(&t->text, text, width, lines, 0, &m) == KILN_OK) return m;
    t->lost = 1;
    return (text_image){0};
}

/* Centred in a box of w by h pixels; h 0: from its top on. */
static void label(sheet *t, size_t x, size_t y, size_t w, size_t h, const char *text, colour c)
{
    text_image m;
    if (sheet_text_set(&t->text, text, w, TEXT_LINES, 1, &m) != KILN_OK) t->lost = 1;
    if (!m.cover) return;
    put_ink(t, x + (w - m.w) / 2, h > m.h ? y + (h - m.h) / 2 : y, &m, c);
    mem_free(m.cover);
}

/* ---- pictures ---- */

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

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
    rgb_picture p;
    error e = {0};
    const uint8_t behind[] = {paper.r, paper.g, paper.b};
    if (picture_file_read(path, behind, 1, &p, &e) != KILN_OK)
        return log_warn("%s: cannot be put on the contact sheet: %s", path, e.message), 0;
    size_t to_w = p.width, to_h = p.height;
    if (to_w > t->cell_w) to_w = t->cell_w, to_h = p.height * t->cell_w / p.width;
    if (to_h > t->cell_h) to_h = t->cell_h, to_w = p.width * t->cell_h / p.height;
    scale_into(t, x + (t->cell_w - to_w) / 2, y + (t->cell_h - to_h) / 2, p.rgb, p.width, p.height, to_w ? to_w : 1,
               to_h ? to_h : 1);
    mem_free(p.rgb);
    return 1;
}

static void cross_out(sheet *t, size_t x, size_t y)
{
    size_t longer = t->cell_w > t->cell_h ? t->cell_w : t->cell_h;
    for (size_t i = 0; i < longer; i++) {
        size_t dx = i * t->cell_w / longer, dy = i * t->cell_h / longer;
        box(t, x + dx, y + dy, 2, 1, alarm_red);
        box(t, x + t->cell_w - 1 - dx, y + dy, 2, 1, alarm_red);
    }
    text_image m = measured(t, "failed", 1000, 1);
    size_t w = m.w + 2 * PAD, h = m.h + PAD;
    if (m.w == 0 || w > t->cell_w || h > t->cell_h) return;
    box(t, x + (t->cell_w - w) / 2, y + (t->cell_h - h) / 2, w, h, mist);
    label(t, x, y, t->cell_w, t->cell_h, "failed", alarm_red);
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
        rgb_picture p;
        const uint8_t behind[3] = {0};
        if (cell[i].state != SHEET_PICTURE || picture_file_read(cell[i].path, behind, 0, &p, NULL) != KILN_OK) continue;
        t->cell_w = larger(t->cell_w, p.width), t->cell_h = larger(t->cell_h, p.height);
    }
    if (!t->cell_w) t->cell_w = t->cell_h = 128;
    size_t longer = t->cell_w > t->cell_h ? t->cell_w : t->cell_h;
    if (longer > SHEET_CELL_MAX)
        t->cell_w = t->cell_w * SHEET_CELL_MAX / longer, t->cell_h = t->cell_h * SHEET_CELL_MAX / longer;
    if (t->cell_w < SHEET_CELL_MIN) t->cell_w = SHEET_CELL_MIN;
    if (t->cell_h < SHEET_CELL_MIN) t->cell_h = SHEET_CELL_MIN;
}

/* Whether an axis can be named once, where its values stand alone. */
static int is_named_once(const sheet *t, size_t a) { return t->s->axis[a].n_name == 1; }

static void side_label(const sheet *t, size_t line, char *text, size_t capacity)
{
    size_t used = 0, n_axis = t->s->n_axis;
    text[0] = '\0';
    for (size_t a = 0; a + 1 < n_axis && used + 3 < capacity; a++) {
        if (a) text[used++] = ',', text[used++] = ' ';
        sweep_point_value(t->s, a, sweep_point(t->s, line * t->columns, a), text + used, capacity - used);
        used += strlen(text + used);
    }
}

/* The names of the axes down the side; an axis of several names has them beside its values. */
static void side_title(const sheet *t, char *text, size_t capacity)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t a = 0; a + 1 < t->s->n_axis && used < capacity; a++)
        if (is_named_once(t, a))
            used += (size_t)snprintf(text + used, capacity - used, "%s%s", used ? ", " : "", t->s->axis[a].name[0]);
}

/* Of a sheet of one long axis, whose cells have their own labels. */
static const char *cells_title(const sheet *t)
{
    return t->s->n_axis == 1 && is_named_once(t, 0) ? t->s->axis[0].name[0] : "";
}

static const char *top_title(const sheet *t) { return t->grid ? t->s->axis[t->s->n_axis - 1].name[0] : cells_title(t); }

static void cell_label(const sheet *t, size_t row, char *text, size_t capacity)
{
    if (*cells_title(t))
        sweep_point_value(t->s, 0, row, text, capacity);
    else
        sweep_label(t->s, row, text, capacity);
}

static void column_label(const sheet *t, size_t i, char *text, size_t capacity)
{
    if (t->grid)
        sweep_point_value(t->s, t->s->n_axis - 1, i, text, capacity);
    else
        cell_label(t, i, text, capacity);
}

/* The width of a column for its labels, and their height in it. */
static void measure_columns(sheet *t, size_t *height)
{
    size_t n = t->grid ? t->columns : t->s->n_row, most = t->ems * t->text.size;
    char text[LABEL_MAX];
    for (size_t i = 0; i < n && t->step_w < most; i++) {
        column_label(t, i, text, sizeof text);
        t->step_w = larger(t->step_w, measured(t, text, most, 1).w);
    }
    for (size_t i = 0; i < n; i++) {
        column_label(t, i, text, sizeof text);
        *height = larger(*height, measured(t, text, t->step_w, TEXT_LINES).h);
    }
}

/* The width of the labels down the side; a line is as high as its label. */
static void measure_side(sheet *t)
{
    size_t most = SIDE_EMS * t->text.size, width;
    char text[LABEL_MAX];
    side_title(t, text, sizeof text);
    text_image title = measured(t, text, most, TEXT_LINES);
    width = title.w, t->head = larger(t->head, title.h);
    for (size_t line = 0; line < t->lines; line++) {
        side_label(t, line, text, sizeof text);
        text_image m = measured(t, text, most, TEXT_LINES);
        width = larger(width, m.w), t->step_h = larger(t->step_h, m.h);
    }
    if (width) t->left += width + 2 * PAD;
}

static void choose_capacity(sheet *t)
{
    t->left = t->top = PAD, t->under = t->title = t->head = 0;
    t->step_w = t->cell_w, t->step_h = t->cell_h;
    measure_columns(t, t->grid ? &t->head : &t->under);
    if (t->grid && t->s->n_axis > 1) measure_side(t);
    t->title = measured(t, top_title(t), t->columns * (t->step_w + GAP), 1).h;
    t->top += t->title + t->head + (t->title || t->head ? PAD : 0);
    if (t->under) t->under += PAD;
}

static kiln_status too_large(const sheet *t, const char *path, error *e)
{
    return error_set(e, KILN_ERR_INVALID,
                     "%s: a sheet of %zu by %zu pictures is too large; sweep over less, or look at the files the "
                     "manifest names",
                     path, t->columns, t->lines);
}

static void choose_letters(sheet *t)
{
    size_t size = t->cell_w >= LARGE_FROM ? LARGE : SMALL;
    if (t->text.size == size) return;
    sheet_text_close(&t->text);
    t->text.size = size;
    sheet_text_open(&t->text, NULL);
}

/* Smaller cells until the whole fits. */
static kiln_status choose_size(sheet *t, const char *path, error *e)
{
    if (t->lines > SHEET_SIDE_MAX / SHEET_CELL_MIN || t->columns > SHEET_SIDE_MAX / SHEET_CELL_MIN)
        return too_large(t, path, e);
    for (t->ems = CELL_EMS;; t->ems = 0) {
        choose_letters(t);
        choose_capacity(t);
        t->width = t->left + t->columns * (t->step_w + GAP) + PAD;
        t->height = t->top + t->lines * (t->step_h + t->under + GAP) + PAD;
        if (t->width <= SHEET_SIDE_MAX && t->height <= SHEET_SIDE_MAX) return KILN_OK;
        if (t->cell_w <= SHEET_CELL_MIN || t->cell_h <= SHEET_CELL_MIN) return too_large(t, path, e);
        t->cell_w = t->cell_w * 3 / 4, t->cell_h = t->cell_h * 3 / 4;
        if (t->cell_w < SHEET_CELL_MIN) t->cell_w = SHEET_CELL_MIN;
        if (t->cell_h < SHEET_CELL_MIN) t->cell_h = SHEET_CELL_MIN;
    }
}

static void draw_cell(sheet *t, size_t row, const sheet_cell *cell)
{
    char text[LABEL_MAX];
    size_t x0 = t->left + row % t->columns * (t->step_w + GAP), x = x0 + (t->step_w - t->cell_w) / 2,
           y = t->top + row / t->columns * (t->step_h + t->under + GAP);
    if (cell->state != SHEET_PICTURE || !picture(t, x, y, cell->path)) {
        box(t, x, y, t->cell_w, t->cell_h, mist);
        if (cell->state != SHEET_EMPTY) cross_out(t, x, y);
    }
    if (t->grid) return;
    cell_label(t, row, text, sizeof text);
    label(t, x0, y + t->cell_h + 2, t->step_w, 0, text, ink);
}

static void draw_axes(sheet *t)
{
    char text[LABEL_MAX];
    size_t head = PAD + t->title;
    label(t, t->left, PAD, t->columns * (t->step_w + GAP), 0, top_title(t), faint);
    if (!t->grid) return;
    for (size_t i = 0; i < t->columns; i++) {
        column_label(t, i, text, sizeof text);
        label(t, t->left + i * (t->step_w + GAP), head, t->step_w, t->head, text, ink);
    }
    if (t->s->n_axis < 2) return;
    side_title(t, text, sizeof text);
    label(t, PAD, head, t->left - 2 * PAD, t->head, text, faint);
    for (size_t i = 0; i < t->lines; i++) {
        side_label(t, i, text, sizeof text);
        label(t, PAD, t->top + i * (t->step_h + GAP), t->left - 2 * PAD, t->step_h, text, ink);
    }
}

/* ---- */

static kiln_status draw(sheet *t, const sheet_cell *cell, const char *path, error *e)
{
    size_t bytes;
    if (!checked_mul_size(t->width * 3, t->height, &bytes) || !(t->rgb = mem_alloc(bytes)))
        return error_set(e, KILN_ERR_NOMEM, "%s: out of memory for %zu x %zu pixels", path, t->width, t->height);
    box(t, 0, 0, t->width, t->height, paper);
    draw_axes(t);
    for (size_t i = 0; i < t->s->n_row; i++) draw_cell(t, i, &cell[i]);
    if (t->lost) log_warn("%s: memory was short, so that labels are missing", path);
    return picture_file_write(path, &(rgb_picture){t->width, t->height, t->rgb}, e);
}

static kiln_status make_folder_of(const char *path, error *e)
{
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path) return KILN_OK;
    char *folder = mem_strndup(path, (size_t)(slash - path));
    kiln_status status = folder ? folder_make(folder, e) : error_set(e, KILN_ERR_NOMEM, "out of memory");
    mem_free(folder);
    return status;
}

kiln_status sheet_write(const sweep *s, const sheet_cell *cell, const char *path, error *e)
{
    sheet t = {.s = s};
    TRY(make_folder_of(path, e));
    choose_tiles(&t);
    choose_cell(&t, cell);
    kiln_status status = choose_size(&t, path, e);
    if (status == KILN_OK) status = draw(&t, cell, path, e);
    sheet_text_close(&t.text);
    mem_free(t.rgb);
    return status;
}
