/* png_io.c - reads and writes PNG files: see picture_io.h and png_io.h. libpng reports errors by longjmp, which never
 * leaves the two functions that call setjmp; what they own is in structs that outlive the jump. Sizes are checked
 * before anything is allocated (decompression bombs).
 */
#include "png_io.h"

#include "apng.h"
#include "orientation.h"
#include "picture_io.h"

#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { TEXT_LIMIT = 16 << 20 };

static void on_error(png_structp png, png_const_charp text)
{
    picture_fault *f = png_get_error_ptr(png);
    snprintf(f->message, sizeof f->message, "%s", text);
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp text) { (void)png, (void)text; }

/* libpng allocates what a chunk says it holds, up to 2 GiB, before it reads it; beyond its limit it warns. */
static png_voidp chunk_alloc(png_structp png, png_alloc_size_t n)
{
    return (void)png, n > 2 * TEXT_LIMIT ? NULL : malloc(n);
}
static void chunk_free(png_structp png, png_voidp p) { (void)png, free(p); }

/* Makes libpng jump out, with a status of ours. */
static void stop(png_structp png, kiln_status status, const char *why)
{
    ((picture_fault *)png_get_error_ptr(png))->status = status;
    png_error(png, why);
}

/* Reports progress, so that a large picture can be cancelled. */
static void report(png_structp png, const kiln_call *c, int64_t row, int64_t rows, const char *what)
{
    if (row % PICTURE_ROWS_A_REPORT != 0) return;
    kiln_status status = c->host->progress(c->ctx, (uint64_t)row, (uint64_t)rows, what);
    if (status != KILN_OK) stop(png, status, "stopped");
}

/* ---- reading ---- */

typedef struct {
    png_structp png;
    png_infop info;
    int passes; /* 7 for an interlaced picture */
    picture *out;
    FILE *file;          /* or what follows */
    const uint8_t *data; /* what is not read yet */
    size_t n;
} reader;

static void read_memory(png_structp png, png_bytep to, size_t n)
{
    reader *r = png_get_io_ptr(png);
    if (n > r->n) png_error(png, "it ends early");
    memcpy(to, r->data, n);
    r->data += n, r->n -= n;
}

static int too_large(const reader *r)
{
    return r->out->width > PICTURE_SIDE_MAX || r->out->height > PICTURE_SIDE_MAX; /* so 268 megapixels at most */
}

/* 1: the file is too small for the picture it claims, since deflate expands a byte to at most 1032. */
static int too_small(const reader *r)
{
    struct stat s = {.st_size = (off_t)r->n};
    return (!r->file || fstat(fileno(r->file), &s) == 0) &&
           (uint64_t)png_get_rowbytes(r->png, r->info) * (uint64_t)r->out->height / 1032 > (uint64_t)s.st_size;
}

static int is_little_endian(void)
{
    const uint16_t one = 1;
    return *(const uint8_t *)&one;
}

/* Everything becomes RGB, or RGBA when there is transparency; 16 bits stay 16. */
static void set_transforms(reader *r)
{
    png_byte type = png_get_color_type(r->png, r->info);
    int transparent = (type & PNG_COLOR_MASK_ALPHA) || png_get_valid(r->png, r->info, PNG_INFO_tRNS);
    if (png_get_bit_depth(r->png, r->info) == 16) r->out->depth = 16;
    if (r->out->depth == 16 && is_little_endian()) png_set_swap(r->png);
    png_set_expand(r->png);
    png_set_gray_to_rgb(r->png);
    if (!transparent) png_set_strip_alpha(r->png);
    r->passes = png_set_interlace_handling(r->png);
    png_read_update_info(r->png, r->info);
    r->out->channels = transparent ? 4 : 3;
}

static void set_upright(reader *r)
{
    png_bytep exif = NULL;
    png_uint_32 n = 0;
    if (!png_get_eXIf_1(r->png, r->info, &n, &exif) || !exif) return;
    if (!picture_turn(r->out, orientation_of(exif, n))) stop(r->png, KILN_ERR_NOMEM, "out of memory");
}

/* 0 when libpng jumped or there was no memory. */
static int decode(reader *r, const kiln_call *c)
{
    if (setjmp(png_jmpbuf(r->png))) return 0;
    if (r->file)
        png_init_io(r->png, r->file);
    else
        png_set_read_fn(r->png, r, read_memory);
    png_set_user_limits(r->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX); /* ours follow, with a better sentence */
    png_set_chunk_malloc_max(r->png, TEXT_LIMIT);
    png_read_info(r->png, r->info);
    r->out->width = png_get_image_width(r->png, r->info);
    r->out->height = png_get_image_height(r->png, r->info);
    if (too_large(r)) stop(r->png, KILN_ERR_INVALID, "larger than 16384 pixels a side");
    if (too_small(r)) png_error(r->png, "too small for a picture of the size it says");
    set_transforms(r);
    size_t stride = (size_t)r->out->width * (size_t)(r->out->channels * r->out->depth / 8);
    if (png_get_rowbytes(r->png, r->info) != stride) png_error(r->png, "an unusual pixel format");
    r->out->pixels = malloc(stride * (size_t)r->out->height);
    if (!r->out->pixels) stop(r->png, KILN_ERR_NOMEM, "out of memory");
    for (int pass = 0; pass < r->passes; pass++)
        for (int64_t y = 0; y < r->out->height; y++) {
            report(r->png, c, pass * r->out->height + y, r->passes * r->out->height, "reading");
            png_read_row(r->png, r->out->pixels + (size_t)y * stride, NULL);
        }
    png_read_end(r->png, r->info); /* eXIf may come after the picture */
    set_upright(r);
    return 1;
}

static int read_from(const kiln_call *c, reader source, picture *out, picture_fault *fault)
{
    reader *r = malloc(sizeof *r);
    if (!r) return 0;
    *r = source, r->out = out;
    r->png =
        png_create_read_struct_2(PNG_LIBPNG_VER_STRING, fault, on_error, on_warning, NULL, chunk_alloc, chunk_free);
    if (r->png) r->info = png_create_info_struct(r->png);
    int ok = r->info && decode(r, c);
    png_destroy_read_struct(&r->png, &r->info, NULL);
    free(r);
    return ok;
}

int png_decode(const kiln_call *c, FILE *f, picture *out, picture_fault *fault)
{
    return apng_is_one(f) ? apng_decode(c, f, out, fault) : read_from(c, (reader){.file = f}, out, fault);
}

int png_decode_memory(const kiln_call *c, const uint8_t *data, size_t n, picture *out, picture_fault *fault)
{
    return read_from(c, (reader){.data = data, .n = n}, out, fault);
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

/* ---- animations: acTL, and fcTL with fdAT for each frame (APNG 1.0). libpng writes each frame as a PNG of its own
 * into memory, whose IDAT becomes fdAT; it has the chunks' checksums too. ---- */

typedef struct {
    uint8_t *data;
    size_t n, room;
} bytes;

static void bytes_write(png_structp png, png_bytep data, size_t n)
{
    bytes *b = png_get_io_ptr(png);
    if (b->n + n > b->room) {
        size_t room = (b->n + n) * 2;
        uint8_t *more = realloc(b->data, room);
        if (!more) stop(png, KILN_ERR_NOMEM, "out of memory");
        b->data = more, b->room = room;
    }
    memcpy(b->data + b->n, data, n);
    b->n += n;
}

static void put_number(uint8_t *to, uint32_t value, int size)
{
    for (int i = 0; i < size; i++) to[i] = (uint8_t)(value >> 8 * (size - 1 - i));
}

static void write_frame_head(png_structp png, const png_write *w, uint32_t sequence)
{
    uint8_t head[26] = {0}; /* at 0, 0; frame after frame in the place of the last */
    put_number(head, sequence, 4);
    put_number(head + 4, (uint32_t)w->width, 4);
    put_number(head + 8, (uint32_t)w->height, 4);
    int late = w->milliseconds > 65535; /* then in hundredths */
    put_number(head + 20, (uint32_t)(late ? w->milliseconds / 10 : w->milliseconds), 2);
    put_number(head + 22, late ? 100 : 1000, 2);
    png_write_chunk(png, (png_const_bytep) "fcTL", head, sizeof head);
}

static void write_animation_head(png_structp png, const png_write *w)
{
    uint8_t head[8] = {0}; /* plays for ever */
    put_number(head, (uint32_t)w->frames, 4);
    png_write_chunk(png, (png_const_bytep) "acTL", head, sizeof head);
    write_frame_head(png, w, 0);
}

static void set_head(png_structp png, png_infop info, const png_write *w)
{
    png_set_compression_level(png, w->level);
    png_set_IHDR(png, info, (png_uint_32)w->width, (png_uint_32)w->height, w->depth == 16 ? 16 : 8,
                 w->channels == 4 ? PNG_COLOR_TYPE_RGB_ALPHA : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
}

static int encode_frame(png_structp png, png_infop info, bytes *to, const kiln_call *c, const png_write *w,
                        int64_t index)
{
    if (setjmp(png_jmpbuf(png))) return 0;
    const uint8_t *pixels = w->frame(w->self, index);
    png_set_write_fn(png, to, bytes_write, sink_flush);
    set_head(png, info, w);
    png_write_info(png, info);
    for (int64_t y = 0; y < w->height; y++) {
        report(png, c, y, w->height, "writing");
        png_write_row(png, (png_bytep)(uintptr_t)(pixels + y * w->width * w->channels));
    }
    png_write_end(png, info);
    return 1;
}

/* The IDAT chunks of a PNG of ours as fdAT ones: each has room for the number in the checksum's place before it. */
static void write_frame_data(png_structp png, const bytes *frame, uint32_t *sequence)
{
    for (size_t at = 8; at + 12 <= frame->n;) {
        uint8_t *chunk = frame->data + at;
        size_t n = (size_t)chunk[0] << 24 | (size_t)chunk[1] << 16 | (size_t)chunk[2] << 8 | chunk[3];
        if (memcmp(chunk + 4, "IDAT", 4) == 0) {
            put_number(chunk + 4, (*sequence)++, 4);
            png_write_chunk(png, (png_const_bytep) "fdAT", chunk + 4, n + 4);
        }
        at += 12 + n;
    }
}

static void write_frames(png_structp png, const kiln_call *c, const png_write *w, bytes *frame)
{
    uint32_t sequence = 1;
    for (int64_t i = 1; i < w->frames; i++) {
        picture_fault *fault = png_get_error_ptr(png);
        png_structp own = png_create_write_struct(PNG_LIBPNG_VER_STRING, fault, on_error, on_warning);
        png_infop info = own ? png_create_info_struct(own) : NULL;
        frame->n = 0;
        int ok = info && encode_frame(own, info, frame, c, w, i);
        png_destroy_write_struct(&own, &info);
        if (!ok) png_longjmp(png, 1);
        write_frame_head(png, w, sequence++);
        write_frame_data(png, frame, &sequence);
    }
}

static int encode(png_structp png, png_infop info, sink *s, bytes *frame, const kiln_call *c, const png_write *w)
{
    const int64_t row = w->width * w->channels * (w->depth == 16 ? 2 : 1);
    if (setjmp(png_jmpbuf(png))) return 0;
    png_set_write_fn(png, s, sink_write, sink_flush);
    set_head(png, info, w);
    for (int i = 0; i < w->n_note; i++) {
        png_text t = text_of(&w->note[i]);
        png_set_text(png, info, &t, 1);
    }
    png_write_info(png, info);
    if (w->frames > 1) write_animation_head(png, w);
    for (int64_t y = 0; y < w->height; y++) {
        report(png, c, y, w->height, "writing");
        png_write_row(png, (png_bytep)(uintptr_t)(w->pixels + y * row));
    }
    if (w->frames > 1) write_frames(png, c, w, frame);
    png_write_end(png, info);
    return 1;
}

kiln_status png_write_file(const kiln_call *c, const kiln_files_api *files, kiln_file *f, const png_write *w)
{
    picture_fault fault = {.message = ""};
    sink s = {.files = files, .file = f};
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &fault, on_error, on_warning);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    bytes frame = {0};
    int ok = info && encode(png, info, &s, &frame, c, w);
    png_destroy_write_struct(&png, &info);
    free(frame.data);
    if (ok) return KILN_OK;
    if (fault.status == KILN_CANCELLED) return KILN_CANCELLED;
    if (fault.status == KILN_OK) fault.status = fault.message[0] ? KILN_ERR_UNSUPPORTED : KILN_ERR_NOMEM;
    return c->host->fail(c->ctx, fault.status, "the picture cannot be written as a PNG: %s",
                         fault.message[0] ? fault.message : "out of memory");
}
