/* png_io.c - see png_io.h. libpng reports errors by longjmp, which never leaves the two functions that call setjmp;
 * what they own is in structs that outlive the jump. Sizes are checked before anything is allocated (decompression
 * bombs).
 */
#include "png_io.h"

#include "orientation.h"

#include <errno.h>
#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { TEXT_LIMIT = 16 << 20, ROWS_A_REPORT = 32 };

typedef struct {
    char message[200];
    kiln_status status; /* set by stop(); KILN_OK: libpng failed by itself */
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

/* Makes libpng jump out, with a status of ours. */
static void stop(png_structp png, kiln_status status, const char *why)
{
    ((png_fault *)png_get_error_ptr(png))->status = status;
    png_error(png, why);
}

/* Reports progress, so that a large picture can be cancelled. */
static void report(png_structp png, const kiln_call *c, int64_t row, int64_t rows, const char *what)
{
    if (row % ROWS_A_REPORT != 0) return;
    kiln_status status = c->host->progress(c->ctx, (uint64_t)row, (uint64_t)rows, what);
    if (status != KILN_OK) stop(png, status, "stopped");
}

/* ---- reading ---- */

typedef struct {
    png_structp png;
    png_infop info;
    int passes; /* 7 for an interlaced picture */
    png_picture out;
} reader;

static int too_large(const reader *r)
{
    return r->out.width > PICTURE_SIDE_MAX || r->out.height > PICTURE_SIDE_MAX; /* so 268 megapixels at most */
}

/* 1: the file is too small for the picture it claims, since deflate expands a byte to at most 1032. */
static int too_small(const reader *r, FILE *f)
{
    struct stat s;
    return fstat(fileno(f), &s) == 0 &&
           (uint64_t)png_get_rowbytes(r->png, r->info) * (uint64_t)r->out.height / 1032 > (uint64_t)s.st_size;
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
    r->passes = png_set_interlace_handling(r->png);
    png_read_update_info(r->png, r->info);
    r->out.channels = transparent ? 4 : 3;
}

static void set_upright(reader *r)
{
    png_bytep exif = NULL;
    png_uint_32 n = 0;
    if (!png_get_eXIf_1(r->png, r->info, &n, &exif) || !exif) return;
    int orientation = orientation_of(exif, n);
    if (orientation == 1) return;
    uint8_t *turned = malloc((size_t)r->out.width * (size_t)r->out.channels * (size_t)r->out.height);
    if (!turned) stop(r->png, KILN_ERR_NOMEM, "out of memory");
    orientation_apply(orientation, r->out.rgba, r->out.width, r->out.height, r->out.channels, turned);
    free(r->out.rgba);
    r->out.rgba = turned;
    if (orientation < 5) return;
    int64_t width = r->out.width;
    r->out.width = r->out.height, r->out.height = width;
}

/* 0 when libpng jumped or there was no memory. */
static int decode(reader *r, const kiln_call *c, FILE *f)
{
    if (setjmp(png_jmpbuf(r->png))) return 0;
    png_init_io(r->png, f);
    png_set_user_limits(r->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX); /* ours follow, with a better sentence */
    png_set_chunk_malloc_max(r->png, TEXT_LIMIT);
    png_read_info(r->png, r->info);
    r->out.width = png_get_image_width(r->png, r->info);
    r->out.height = png_get_image_height(r->png, r->info);
    if (too_large(r)) stop(r->png, KILN_ERR_INVALID, "larger than 16384 pixels a side");
    if (too_small(r, f)) png_error(r->png, "too small for a picture of the size it says");
    set_transforms(r);
    size_t stride = (size_t)r->out.width * (size_t)r->out.channels;
    if (png_get_rowbytes(r->png, r->info) != stride) png_error(r->png, "an unusual pixel format");
    r->out.rgba = malloc(stride * (size_t)r->out.height);
    if (!r->out.rgba) stop(r->png, KILN_ERR_NOMEM, "out of memory");
    for (int pass = 0; pass < r->passes; pass++)
        for (int64_t y = 0; y < r->out.height; y++) {
            report(r->png, c, pass * r->out.height + y, r->passes * r->out.height, "reading");
            png_read_row(r->png, r->out.rgba + (size_t)y * stride, NULL);
        }
    png_read_end(r->png, r->info); /* eXIf may come after the picture */
    set_upright(r);
    return 1;
}

kiln_status png_read_file(const kiln_call *c, const char *path, png_picture *out)
{
    png_fault fault = {.message = ""};
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
    int ok = r && r->info && decode(r, c, f);
    fclose(f);
    if (r) {
        png_destroy_read_struct(&r->png, &r->info, NULL);
        *out = r->out;
        free(r);
    }
    if (ok) return KILN_OK;
    png_picture_free(out);
    if (fault.status == KILN_CANCELLED) return KILN_CANCELLED;
    if (fault.status == KILN_OK && fault.message[0])
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "%s: cannot be read as a PNG: %s; the file is damaged or incomplete", path, fault.message);
    return c->host->fail(c->ctx, fault.status ? fault.status : KILN_ERR_NOMEM, "%s: cannot be read: %s", path,
                         fault.message[0] ? fault.message : "out of memory");
}

/* ---- writing ---- */

typedef struct {
    const kiln_files_api *files;
    kiln_file *file;
} sink;

static void sink_write(png_structp png, png_bytep data, size_t n)
{
    sink *s = png_get_io_ptr(png);
    kiln_status status = s->files->write(s->file, data, n);
    if (status != KILN_OK) stop(png, status, "cannot be written");
}

static void sink_flush(png_structp png) { (void)png; }

static int is_ascii(const char *s)
{
    while (*s && (unsigned char)*s < 0x80) s++;
    return !*s;
}

/* tEXt holds Latin-1, iTXt UTF-8: ASCII texts become tEXt, which every reader supports. */
static png_text text_of(const png_note *note)
{
    int plain = is_ascii(note->value);
    png_text t = {.compression = plain ? PNG_TEXT_COMPRESSION_NONE : PNG_ITXT_COMPRESSION_NONE,
                  .key = (char *)(uintptr_t)note->key,
                  .text = (char *)(uintptr_t)note->value};
    *(plain ? &t.text_length : &t.itxt_length) = strlen(note->value);
    return t;
}

static int encode(png_structp png, png_infop info, sink *s, const kiln_call *c, const png_write *w)
{
    if (setjmp(png_jmpbuf(png))) return 0;
    png_set_write_fn(png, s, sink_write, sink_flush);
    png_set_compression_level(png, w->level);
    png_set_IHDR(png, info, (png_uint_32)w->width, (png_uint_32)w->height, 8,
                 w->channels == 4 ? PNG_COLOR_TYPE_RGB_ALPHA : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    for (int i = 0; i < w->n_note; i++) {
        png_text t = text_of(&w->note[i]);
        png_set_text(png, info, &t, 1);
    }
    png_write_info(png, info);
    for (int64_t y = 0; y < w->height; y++) {
        report(png, c, y, w->height, "writing");
        png_write_row(png, (png_bytep)(uintptr_t)(w->pixels + y * w->width * w->channels));
    }
    png_write_end(png, info);
    return 1;
}

kiln_status png_write_file(const kiln_call *c, const kiln_files_api *files, kiln_file *f, const png_write *w)
{
    png_fault fault = {.message = ""};
    sink s = {.files = files, .file = f};
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &fault, on_error, on_warning);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    int ok = info && encode(png, info, &s, c, w);
    png_destroy_write_struct(&png, &info);
    if (ok) return KILN_OK;
    if (fault.status == KILN_CANCELLED) return KILN_CANCELLED;
    if (fault.status == KILN_OK) fault.status = fault.message[0] ? KILN_ERR_UNSUPPORTED : KILN_ERR_NOMEM;
    return c->host->fail(c->ctx, fault.status, "the picture cannot be written as a PNG: %s",
                         fault.message[0] ? fault.message : "out of memory");
}
