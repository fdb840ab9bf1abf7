/* run_preview.c - see run_preview.h. */
#include "cli/run_preview.h"

#include "base/base64.h"
#include "base/file.h"
#include "base/memory_alloc.h"
#include "base/print.h"
#include "base/str.h"
#include "cli/terminal_pictures.h"

#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { SHOWN_SIDE = 256, SIDE_MAX = 16384 }; /* small pictures are enlarged by whole numbers, up to the first */

typedef struct {
    unsigned width, height;
    unsigned char *rgb;
} picture;

/* Small pictures by whole numbers. 0: there is no memory. */
static int enlarge(const unsigned char *rgb, unsigned width, unsigned height, picture *p)
{
    unsigned longer = width > height ? width : height, by = longer < SHOWN_SIDE ? SHOWN_SIDE / longer : 1;
    *p = (picture){width * by, height * by, mem_alloc((size_t)width * by * height * by * 3)};
    for (unsigned y = 0; p->rgb && y < p->height; y++)
        for (unsigned x = 0; x < p->width; x++)
            memcpy(p->rgb + ((size_t)y * p->width + x) * 3, rgb + ((size_t)(y / by) * width + x / by) * 3, 3);
    return p->rgb != NULL;
}

static void show(preview *p, const picture *shown, const void *png, size_t bytes)
{
    str s = {0};
    int rows = terminal_rows_of(shown->height);
    if (p->rows != rows) {
        str_append(&s, "\r\033[K");
        for (int i = 0; i < rows; i++) str_char(&s, '\n');
        p->rows = rows;
    }
    str_printf(&s, "\0337\r\033[%dA", rows);
    if (p->shows == PICTURES_KITTY)
        picture_put_kitty(&s, png, bytes, rows);
    else
        picture_put_sixel(&s, shown->rgb, shown->width, shown->height);
    str_append(&s, "\0338");
    if (!s.failed) print_raw(stderr, str_text(&s));
    print_flush(stderr);
    str_free(&s);
}

static void deliver(preview *p, const picture *shown)
{
    error e = {0};
    png_image image = {
        .version = PNG_IMAGE_VERSION, .width = shown->width, .height = shown->height, .format = PNG_FORMAT_RGB};
    png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
    void *bytes = mem_alloc(size);
    if (bytes && png_image_write_to_memory(&image, bytes, &size, 0, shown->rgb, 0, NULL)) {
        if (file_write_whole(p->path, bytes, size, &e) != KILN_OK && !p->complained++)
            print_text(stderr, "kiln: warning: --preview: %s\n", e.message);
        if (p->shows) show(p, shown, bytes, size);
    }
    png_image_free(&image);
    mem_free(bytes);
}

/* The fields of a "preview" event in the order that run/report.c writes. */
static int read_event(const char *json, picture *p)
{
    const char *at = strstr(json, "\"width\": ");
    int pixels = 0;
    if (!at || sscanf(at, "\"width\": %u, \"height\": %u, \"rgb\": \"%n", &p->width, &p->height, &pixels) != 2 ||
        !pixels || p->width - 1 >= SIDE_MAX || p->height - 1 >= SIDE_MAX)
        return 0;
    p->rgb = mem_alloc(strlen(at + pixels));
    return p->rgb && base64_bytes(at + pixels, p->rgb) == (size_t)p->width * p->height * 3;
}

static void on_event(void *arg, const char *json)
{
    preview *p = arg;
    picture small = {0}, shown = {0};
    if (strncmp(json, "{\"event\": \"preview\"", 19) != 0) {
        if (strncmp(json, "{\"event\": \"progress\"", 20) != 0) p->rows = 0; /* it may have printed lines */
        return;
    }
    if (read_event(json, &small) && enlarge(small.rgb, small.width, small.height, &shown)) deliver(p, &shown);
    mem_free(shown.rgb);
    mem_free(small.rgb);
}

int preview_begin(preview *p, const char *path, unsigned every, kiln_run_options *how)
{
    size_t n = strlen(path);
    if (n < 5 || strcasecmp(path + n - 4, ".png") != 0)
        return print_text(stderr, "kiln: --preview %s: a preview is a PNG; give a name that ends in .png\n", path), 0;
    *p = (preview){.path = path, .shows = how->quiet ? PICTURES_NONE : terminal_pictures()};
    how->on_event = on_event, how->arg = p, how->preview_every = every;
    return 1;
}
