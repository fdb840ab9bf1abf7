/* png_io.c - see png_io.h. libpng reports errors by longjmp, which stays inside the two functions that set it up; what
 * they own is in structs that outlive the jump. Sizes are checked before anything is allocated (picture bombs).
 */
#include "png_io.h"

#include <errno.h>
#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_LIMIT = 16 << 20 };

typedef struct {
    char message[200];
} png_fault;

static void on_error(png_structp png, png_const_charp text)
{
    png_fault *f = png_get_error_ptr(png);
    snprintf(f->message, sizeof f->message, "%s", text);
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp text) { (void)png, (void)text; }

void png_picture_free(png_picture *p)
{
    free(p->rgba);
    *p = (png_picture){0};
}

/* ---- reading ------------------------------------------------------------------------------------------------ */

typedef struct {
    png_structp png;
    png_infop info;
    png_bytep *row;
    png_picture out;
} reader;

static int too_large(const reader *r)
{
    return r->out.width > PICTURE_SIDE_MAX || r->out.height > PICTURE_SIDE_MAX || r->out.width * r->out.height > PICTURE_PIXELS_MAX;
}

/* Everything becomes 8-bit RGB, or RGBA when there is transparency. */
static void set_transforms(reader *r)
{
    png_byte type = png_get_color_type(r->png, r->info);
    int transparent = (type & PNG_COLOR_MASK_ALPHA) || png_get_valid(r->png, r->info, PNG_INFO_tRNS);
    png_set_scale_16(r->png);
    png_set_expand(r->png);
    png_set_gray_to_rgb(r->png);
    if (!transparent) png_set_strip_alpha(r->png);
    png_set_interlace_handling(r->png);
    png_read_update_info(r->png, r->info);
    r->out.channels = transparent ? 4 : 3;
}

/* 0 when libpng jumped or there was no memory. */
static int decode(reader *r, FILE *f, png_fault *fault)
{
    if (setjmp(png_jmpbuf(r->png))) return 0;
    png_init_io(r->png, f);
    png_set_user_limits(r->png, PICTURE_SIDE_MAX, PICTURE_SIDE_MAX);
    png_set_chunk_malloc_max(r->png, TEXT_LIMIT);
    png_read_info(r->png, r->info);
    r->out.width = png_get_image_width(r->png, r->info);
    r->out.height = png_get_image_height(r->png, r->info);
    if (too_large(r)) png_error(r->png, "larger than 16384 a side or 268 megapixels");
    set_transforms(r);
    size_t stride = (size_t)r->out.width * (size_t)r->out.channels;
    if (png_get_rowbytes(r->png, r->info) != stride) png_error(r->png, "an unusual pixel format");
    r->out.rgba = malloc(stride * (size_t)r->out.height);
    r->row = malloc((size_t)r->out.height * sizeof *r->row);
    if (!r->out.rgba || !r->row) png_error(r->png, "out of memory");
    for (int64_t y = 0; y < r->out.height; y++) r->row[y] = r->out.rgba + (size_t)y * stride;
    png_read_image(r->png, r->row);
    png_read_end(r->png, NULL);
    (void)fault;
    return 1;
}

kiln_status png_read_file(const kiln_call *c, const char *path, png_picture *out)
{
    png_fault fault = {""};
    uint8_t head[8] = {0};
    *out = (png_picture){0};
    FILE *f = fopen(path, "rb");
    if (!f) return c->host->fail(c->ctx, KILN_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    if (fread(head, 1, 8, f) != 8 || png_sig_cmp(head, 0, 8) != 0) {
        fclose(f);
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "%s: not a PNG file; convert the picture to PNG", path);
    }
    rewind(f);
    reader *r = calloc(1, sizeof *r);
    if (r) r->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &fault, on_error, on_warning);
    if (r && r->png) r->info = png_create_info_struct(r->png);
    int ok = r && r->info && decode(r, f, &fault);
    fclose(f);
    if (r) {
        png_destroy_read_struct(&r->png, &r->info, NULL);
        free(r->row);
        *out = r->out;
        free(r);
    }
    if (ok) return KILN_OK;
    png_picture_free(out);
    return c->host->fail(c->ctx, KILN_ERR_INVALID, "%s: cannot be read as a PNG: %s", path, fault.message[0] ? fault.message : "out of memory");
}

/* ---- writing ------------------------------------------------------------------------------------------------- */

typedef struct {
    const kiln_files_api *files;
    kiln_file *file;
    kiln_status status;
} sink;

static void sink_write(png_structp png, png_bytep data, size_t n)
{
    sink *s = png_get_io_ptr(png);
    s->status = s->files->write(s->file, data, n);
    if (s->status != KILN_OK) png_error(png, "cannot be written");
}

static void sink_flush(png_structp png) { (void)png; }

static int encode(png_structp png, png_infop info, sink *s, const uint8_t *rgb, int64_t width, int64_t height, int level, const png_note *note, int n_note)
{
    png_text text[8] = {{0}};
    if (setjmp(png_jmpbuf(png))) return 0;
    png_set_write_fn(png, s, sink_write, sink_flush);
    png_set_compression_level(png, level);
    png_set_IHDR(png, info, (png_uint_32)width, (png_uint_32)height, 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    for (int i = 0; i < n_note && i < 8; i++) {
        text[i].compression = PNG_TEXT_COMPRESSION_NONE;
        text[i].key = (char *)(uintptr_t)note[i].key;
        text[i].text = (char *)(uintptr_t)note[i].value;
        text[i].text_length = strlen(note[i].value);
    }
    png_set_text(png, info, text, n_note < 8 ? n_note : 8);
    png_write_info(png, info);
    for (int64_t y = 0; y < height; y++) png_write_row(png, (png_bytep)(uintptr_t)(rgb + y * width * 3));
    png_write_end(png, info);
    return 1;
}

kiln_status png_write_file(const kiln_call *c, const kiln_files_api *files, kiln_file *f, const uint8_t *rgb, int64_t width,
                           int64_t height, int level, const png_note *note, int n_note)
{
    png_fault fault = {""};
    sink s = {.files = files, .file = f};
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &fault, on_error, on_warning);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    int ok = info && encode(png, info, &s, rgb, width, height, level, note, n_note);
    png_destroy_write_struct(&png, &info);
    if (ok) return KILN_OK;
    if (s.status != KILN_OK) return s.status;
    return c->host->fail(c->ctx, fault.message[0] ? KILN_ERR_IO : KILN_ERR_NOMEM, "the picture cannot be encoded: %s", fault.message[0] ? fault.message : "out of memory");
}
