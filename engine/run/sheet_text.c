/* sheet_text.c - see sheet_text.h.
 *
 * The engine is not linked with Pango: who draws no sheet needs none of it. What is called is declared in CALLS, as
 * Pango 1.50 and Cairo 1.16 declare it. Pango chooses among all fonts for each letter, joins and orders letters as
 * their script does, and says how many no font has: those become '?', with a warning that names the text.
 */
#include "run/sheet_text.h"

#include "base/log.h"
#include "base/memory_alloc.h"
#include "base/str.h"
#include "run/sheet_font.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libpangocairo-1.0.so.0"

enum {
    /* cairo.h */
    CAIRO_FORMAT_A8 = 2,
    CAIRO_ANTIALIAS_GRAY = 2,
    CAIRO_HINT_STYLE_NONE = 1,
    CAIRO_HINT_METRICS_OFF = 1,
    /* pango.h */
    PANGO_SCALE = 1024,
    PANGO_WRAP_WORD_CHAR = 2,
    PANGO_ELLIPSIZE_END = 3,
    PANGO_ALIGN_CENTER = 1,
    ROOM = 32 << 20 /* GLib ends the process when memory runs out */
};

typedef struct {
    int x, y, width, height;
} rectangle; /* PangoRectangle */

#define CALLS(X)                                                                                                       \
    X(void *, cairo_image_surface_create, (int format, int width, int height))                                         \
    X(int, cairo_surface_status, (void *surface))                                                                      \
    X(void, cairo_surface_flush, (void *surface))                                                                      \
    X(void, cairo_surface_destroy, (void *surface))                                                                    \
    X(unsigned char *, cairo_image_surface_get_data, (void *surface))                                                  \
    X(int, cairo_image_surface_get_stride, (void *surface))                                                            \
    X(void *, cairo_create, (void *surface))                                                                           \
    X(void, cairo_destroy, (void *cairo))                                                                              \
    X(void, cairo_translate, (void *cairo, double x, double y))                                                        \
    X(void *, cairo_font_options_create, (void))                                                                       \
    X(void, cairo_font_options_set_antialias, (void *options, int kind))                                               \
    X(void, cairo_font_options_set_hint_style, (void *options, int kind))                                              \
    X(void, cairo_font_options_set_hint_metrics, (void *options, int kind))                                            \
    X(void, cairo_font_options_destroy, (void *options))                                                               \
    X(void *, pango_cairo_create_layout, (void *cairo))                                                                \
    X(void, pango_cairo_context_set_font_options, (void *context, const void *options))                                \
    X(void, pango_cairo_show_layout, (void *cairo, void *layout))                                                      \
    X(void *, pango_layout_get_context, (void *layout))                                                                \
    X(void, pango_layout_context_changed, (void *layout))                                                              \
    X(void, pango_layout_set_font_description, (void *layout, const void *font))                                       \
    X(void, pango_layout_set_text, (void *layout, const char *text, int length))                                       \
    X(void, pango_layout_set_width, (void *layout, int width))                                                         \
    X(void, pango_layout_set_height, (void *layout, int height))                                                       \
    X(void, pango_layout_set_wrap, (void *layout, int wrap))                                                           \
    X(void, pango_layout_set_ellipsize, (void *layout, int where))                                                     \
    X(void, pango_layout_set_alignment, (void *layout, int alignment))                                                 \
    X(int, pango_layout_get_unknown_glyphs_count, (void *layout))                                                      \
    X(void, pango_layout_get_pixel_extents, (void *layout, rectangle *ink, rectangle *logical))                        \
    X(void *, pango_font_description_new, (void))                                                                      \
    X(void, pango_font_description_set_family, (void *font, const char *family))                                       \
    X(void, pango_font_description_set_absolute_size, (void *font, double size))                                       \
    X(void, pango_font_description_free, (void *font))                                                                 \
    X(void, g_object_unref, (void *object))

#define MEMBER(result, name, arguments) result(*name) arguments;
#define NAME(result, name, arguments) {#name, offsetof(struct pango, name)},

struct pango {
    CALLS(MEMBER)
    void *library, *surface, *cairo, *layout;
};

static const struct {
    const char *name;
    size_t offset;
} calls[] = {CALLS(NAME)};

/* ---- Pango ---- */

static int find_calls(struct pango *p)
{
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        void *found = dlsym(p->library, calls[i].name); /* in what the library is linked with, too */
        if (!found) return 0;
        memcpy((char *)p + calls[i].offset, &found, sizeof found);
    }
    return 1;
}

/* Letters look the same on every machine with the same font: no hinting, grey edges. */
static void set_up(struct pango *p, size_t size)
{
    void *options = p->cairo_font_options_create(), *font = p->pango_font_description_new();
    p->cairo_font_options_set_antialias(options, CAIRO_ANTIALIAS_GRAY);
    p->cairo_font_options_set_hint_style(options, CAIRO_HINT_STYLE_NONE);
    p->cairo_font_options_set_hint_metrics(options, CAIRO_HINT_METRICS_OFF);
    p->pango_cairo_context_set_font_options(p->pango_layout_get_context(p->layout), options);
    p->pango_layout_context_changed(p->layout);
    p->pango_font_description_set_family(font, "DejaVu Sans,sans-serif");
    p->pango_font_description_set_absolute_size(font, (double)size * PANGO_SCALE);
    p->pango_layout_set_font_description(p->layout, font);
    p->pango_layout_set_wrap(p->layout, PANGO_WRAP_WORD_CHAR);
    p->pango_layout_set_ellipsize(p->layout, PANGO_ELLIPSIZE_END);
    p->pango_layout_set_alignment(p->layout, PANGO_ALIGN_CENTER);
    p->pango_font_description_free(font);
    p->cairo_font_options_destroy(options);
}

static int is_unknown(const struct pango *p, const char *text, size_t n)
{
    p->pango_layout_set_text(p->layout, text, (int)n);
    return p->pango_layout_get_unknown_glyphs_count(p->layout) > 0;
}

static void pango_close(struct pango *p)
{
    if (!p) return;
    if (p->layout) p->g_object_unref(p->layout);
    if (p->cairo) p->cairo_destroy(p->cairo);
    if (p->surface) p->cairo_surface_destroy(p->surface);
    mem_free(p); /* the library stays: GLib cannot be unloaded */
}

/* NULL: *why says what is missing. */
static struct pango *pango_open(const char *library, size_t size, const char **why)
{
    struct pango *p = mem_calloc(1, sizeof *p);
    void *room = p ? malloc(ROOM) : NULL;
    *why = "memory is short";
    free(room);
    if (!room) return mem_free(p), NULL;
    *why = "Pango is not installed (the package libpangocairo-1.0-0)";
    p->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!p->library || !find_calls(p)) return mem_free(p), NULL;
    p->surface = p->cairo_image_surface_create(CAIRO_FORMAT_A8, 1, 1);
    p->cairo = p->cairo_create(p->surface);
    p->layout = p->pango_cairo_create_layout(p->cairo);
    *why = "no font is installed (the package fonts-dejavu-core has one)";
    set_up(p, size);
    if (!is_unknown(p, "A1", 2)) return p;
    return pango_close(p), NULL;
}

static void warn_unknown(sheet_text *t, const char *text)
{
    if (t->warned++) return;
    log_warn("the sheet: no font here has all letters of '%.60s', which have a ? instead; install one that has (of "
             "Chinese, Japanese and Korean the package fonts-noto-cjk)",
             text);
}

/* One paragraph: a line break is a blank. 0: no memory for it. */
static int set_text(struct pango *p, const char *text)
{
    str one = {0};
    for (; *text; text++) str_char(&one, (unsigned char)*text < ' ' ? ' ' : *text);
    int whole = !one.failed;
    if (whole) p->pango_layout_set_text(p->layout, str_text(&one), -1);
    str_free(&one);
    return whole;
}

/* text with a '?' for each letter that no font has. */
static void replace_unknown(sheet_text *t, const char *text, str *to)
{
    for (size_t n = strlen(text), step; n > 0; text += step, n -= step) {
        uint32_t code;
        step = utf8_sequence((const unsigned char *)text, n, &code);
        if (step == 0 || is_unknown(t->pango, text, step))
            str_char(to, '?');
        else
            str_append_n(to, text, step);
        if (step == 0) step = 1;
    }
}

static void draw_layout(struct pango *p, const rectangle *r, text_image *out)
{
    void *surface = p->cairo_image_surface_create(CAIRO_FORMAT_A8, r->width, r->height);
    void *cairo = p->cairo_create(surface);
    p->cairo_translate(cairo, -r->x, -r->y);
    p->pango_cairo_show_layout(cairo, p->layout);
    p->cairo_surface_flush(surface);
    const uint8_t *from = p->cairo_image_surface_get_data(surface);
    int stride = p->cairo_image_surface_get_stride(surface);
    if (from && p->cairo_surface_status(surface) == 0)
        for (size_t y = 0; y < out->h; y++) memcpy(out->cover + y * out->w, from + y * (size_t)stride, out->w);
    p->cairo_destroy(cairo);
    p->cairo_surface_destroy(surface);
}

/* What both rectangles cover, within `width`. */
static rectangle both(const rectangle *a, const rectangle *b, int width)
{
    rectangle r = {a->x < b->x ? a->x : b->x, a->y < b->y ? a->y : b->y, 0, 0};
    int ax = a->x + a->width, bx = b->x + b->width, ay = a->y + a->height, by = b->y + b->height;
    if (r.x < 0) r.x = 0;
    r.width = (ax > bx ? ax : bx) - r.x, r.height = (ay > by ? ay : by) - r.y;
    if (r.width > width - r.x) r.width = width - r.x;
    return r;
}

static kiln_status set_with_pango(sheet_text *t, const char *text, size_t width, size_t lines, int draw,
                                  text_image *out)
{
    struct pango *p = t->pango;
    str known = {0};
    rectangle ink, logical;
    p->pango_layout_set_width(p->layout, (int)width * PANGO_SCALE);
    p->pango_layout_set_height(p->layout, -(int)lines);
    if (!set_text(p, text)) return KILN_ERR_NOMEM;
    if (p->pango_layout_get_unknown_glyphs_count(p->layout) > 0) {
        warn_unknown(t, text);
        replace_unknown(t, text, &known);
        int whole = !known.failed && set_text(p, str_text(&known));
        str_free(&known);
        if (!whole) return KILN_ERR_NOMEM;
    }
    p->pango_layout_get_pixel_extents(p->layout, &ink, &logical);
    rectangle r = both(&ink, &logical, (int)width);
    if (r.width <= 0 || r.height <= 0) return KILN_OK;
    out->w = (size_t)r.width, out->h = (size_t)r.height;
    if (!draw) return KILN_OK;
    if (!(out->cover = mem_calloc(out->w, out->h))) return KILN_ERR_NOMEM;
    draw_layout(p, &r, out);
    return KILN_OK;
}

/* ---- built-in letters ---- */

enum { PLAIN_MAX = 400, LINES_MAX = 8, TWICE_FROM = 14 };

typedef struct {
    char text[PLAIN_MAX];
    size_t from[LINES_MAX], n[LINES_MAX], lines, longest;
} plain_lines;

/* A text outside ASCII: one '?' for each character. */
static size_t plain(const char *text, char *out, size_t capacity)
{
    size_t n = 0;
    for (const unsigned char *p = (const unsigned char *)text; *p && n + 1 < capacity; p++)
        if ((*p & 0xc0) != 0x80) out[n++] = *p < 0x80 ? (char)*p : '?';
    out[n] = '\0';
    return n;
}

/* Lines of `fit` letters, broken at a blank where there is one; the rest is cut with "..". */
static void break_lines(const char *text, size_t fit, size_t lines, plain_lines *l)
{
    size_t n = plain(text, l->text, sizeof l->text), at = 0;
    for (l->lines = l->longest = 0; at < n && l->lines < lines && fit > 0; l->lines++) {
        size_t take = n - at < fit ? n - at : fit;
        if (at + take < n)
            for (size_t k = take; k > 0; k--)
                if (l->text[at + k] == ' ') {
                    take = k;
                    break;
                }
        l->from[l->lines] = at, l->n[l->lines] = take;
        if (take > l->longest) l->longest = take;
        at += take;
        while (l->text[at] == ' ') at++;
    }
    if (at >= n || !l->lines) return;
    size_t last = l->lines - 1, room = fit - l->n[last], end = l->from[last] + l->n[last];
    if (room < 2) end = end > l->from[last] + 2 ? end - (2 - room) : l->from[last];
    for (int k = 0; k < 2 && end < sizeof l->text - 1; k++) l->text[end++] = '.';
    l->n[last] = end - l->from[last] < fit ? end - l->from[last] : fit;
    if (l->n[last] > l->longest) l->longest = l->n[last];
}

static void draw_letter(text_image *to, size_t x, size_t y, size_t scale, unsigned char code)
{
    const uint8_t *column = sheet_font[(code < FONT_FIRST || code > FONT_LAST ? '?' : code) - FONT_FIRST];
    for (size_t i = 0; i < FONT_WIDTH * scale; i++)
        for (size_t j = 0; j < FONT_HEIGHT * scale; j++)
            if (column[i / scale] >> j / scale & 1) to->cover[(y + j) * to->w + x + i] = 255;
}

static kiln_status set_plain(const sheet_text *t, const char *text, size_t width, size_t lines, int draw,
                             text_image *out)
{
    plain_lines l;
    size_t scale = t->size >= TWICE_FROM ? 2 : 1, step = FONT_STEP * scale, line = (FONT_HEIGHT + 2) * scale;
    break_lines(text, width / step, lines < LINES_MAX ? lines : LINES_MAX, &l);
    if (l.longest == 0) return KILN_OK;
    out->w = l.longest * step, out->h = l.lines * line;
    if (!draw) return KILN_OK;
    if (!(out->cover = mem_calloc(out->w, out->h))) return KILN_ERR_NOMEM;
    for (size_t k = 0; k < l.lines; k++)
        for (size_t i = 0; i < l.n[k]; i++)
            draw_letter(out, (l.longest - l.n[k]) * step / 2 + i * step, k * line, scale,
                        (unsigned char)l.text[l.from[k] + i]);
    return KILN_OK;
}

/* ---- */

void sheet_text_open(sheet_text *t, const char *library)
{
    const char *why;
    t->pango = pango_open(library ? library : LIBRARY, t->size, &why);
    if (!t->pango && !t->told++) log_warn("the sheet is lettered in plain ASCII: %s", why);
}

void sheet_text_close(sheet_text *t)
{
    pango_close(t->pango);
    t->pango = NULL;
}

kiln_status sheet_text_set(sheet_text *t, const char *text, size_t width, size_t lines, int draw, text_image *out)
{
    *out = (text_image){0};
    if (!*text || width == 0 || lines == 0) return KILN_OK;
    return t->pango ? set_with_pango(t, text, width, lines, draw, out) : set_plain(t, text, width, lines, draw, out);
}
