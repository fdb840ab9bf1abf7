/* picture_file.c - see picture_file.h. */
#include "run/picture_file.h"

#include "base/file.h"
#include "base/memory_alloc.h"

#include <png.h>
#include <string.h>
#include <strings.h>
#include <turbojpeg.h>
#include <webp/decode.h>
#include <webp/encode.h>

enum { JPEG_QUALITY = 92, FILE_BYTES_MAX = 1 << 30 };

const char *picture_file_kind(const char *name)
{
    static const struct {
        const char *end, *kind;
    } known[] = {{".png", "PNG"}, {".jpg", "JPEG"}, {".jpeg", "JPEG"}, {".webp", "WebP"}};
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        size_t length = strlen(known[i].end);
        if (n > length && strcasecmp(name + n - length, known[i].end) == 0) return known[i].kind;
    }
    return NULL;
}

/* ---- reading ---- */

typedef struct {
    const uint8_t *data;
    size_t size;
    const uint8_t *behind;
    int with_pixels;
} source_file;

static kiln_status take_pixels(rgb_picture *out, size_t width, size_t height, int with_pixels, error *e)
{
    if (!width || !height || width > PICTURE_SIDE_MAX || height > PICTURE_SIDE_MAX)
        return error_set(e, KILN_ERR_INVALID, "larger than %d pixels a side", PICTURE_SIDE_MAX);
    *out = (rgb_picture){.width = width, .height = height};
    if (with_pixels && !(out->rgb = mem_alloc(width * height * 3)))
        return error_set(e, KILN_ERR_NOMEM, "out of memory");
    return KILN_OK;
}

static kiln_status damaged(const char *kind, const char *why, error *e)
{
    return error_set(e, KILN_ERR_INVALID, "a damaged %s: %s", kind, why);
}

static kiln_status read_png(const source_file *s, rgb_picture *out, error *e)
{
    png_image image = {.version = PNG_IMAGE_VERSION};
    png_color behind = {.red = s->behind[0], .green = s->behind[1], .blue = s->behind[2]};
    if (!png_image_begin_read_from_memory(&image, s->data, s->size)) return damaged("PNG", image.message, e);
    image.format = PNG_FORMAT_RGB;
    image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB; /* or 16 bits are taken for light */
    kiln_status status = take_pixels(out, image.width, image.height, s->with_pixels, e);
    if (status == KILN_OK && s->with_pixels && !png_image_finish_read(&image, &behind, out->rgb, 0, NULL))
        status = damaged("PNG", image.message, e);
    png_image_free(&image);
    return status;
}

static kiln_status read_jpeg(const source_file *s, rgb_picture *out, error *e)
{
    int w = 0, h = 0, sampling, space; /* tables without a picture are no error, and set none of these */
    tjhandle j = tjInitDecompress();
    if (!j) return error_set(e, KILN_ERR_NOMEM, "out of memory");
    kiln_status status = KILN_OK;
    if (tjDecompressHeader3(j, s->data, s->size, &w, &h, &sampling, &space) != 0)
        status = damaged("JPEG", tjGetErrorStr2(j), e);
    if (status == KILN_OK && (w < 1 || h < 1)) status = damaged("JPEG", "it has no picture", e);
    if (status == KILN_OK) status = take_pixels(out, (size_t)w, (size_t)h, s->with_pixels, e);
    if (status == KILN_OK && s->with_pixels && tjDecompress2(j, s->data, s->size, out->rgb, w, 0, h, TJPF_RGB, 0) != 0)
        status = damaged("JPEG", tjGetErrorStr2(j), e);
    tjDestroy(j);
    return status;
}

static kiln_status read_webp(const source_file *s, rgb_picture *out, error *e)
{
    WebPBitstreamFeatures f;
    if (WebPGetFeatures(s->data, s->size, &f) != VP8_STATUS_OK) return damaged("WebP", "its header", e);
    TRY(take_pixels(out, (size_t)f.width, (size_t)f.height, s->with_pixels, e));
    if (!s->with_pixels) return KILN_OK;
    int w, h;
    uint8_t *rgba = WebPDecodeRGBA(s->data, s->size, &w, &h);
    if (!rgba) return damaged("WebP", f.has_animation ? "it is an animation" : "it ends early", e);
    for (size_t i = 0; i < out->width * out->height; i++)
        for (size_t c = 0; c < 3; c++) {
            unsigned over = rgba[4 * i + 3];
            out->rgb[3 * i + c] = (uint8_t)((rgba[4 * i + c] * over + s->behind[c] * (255 - over) + 127) / 255);
        }
    WebPFree(rgba);
    return KILN_OK;
}

kiln_status picture_file_read(const char *path, const uint8_t behind[3], int with_pixels, rgb_picture *out, error *e)
{
    char *data;
    size_t size;
    *out = (rgb_picture){0};
    TRY(file_read(path, FILE_BYTES_MAX, &data, &size, e));
    const source_file s = {(const uint8_t *)data, size, behind, with_pixels};
    kiln_status status = size > 12 && memcmp(data, "RIFF", 4) == 0 && memcmp(data + 8, "WEBP", 4) == 0
                             ? read_webp(&s, out, e)
                         : size > 2 && memcmp(data, "\xff\xd8", 2) == 0 ? read_jpeg(&s, out, e)
                                                                        : read_png(&s, out, e);
    if (status != KILN_OK) mem_free(out->rgb), out->rgb = NULL;
    mem_free(data);
    return status;
}

/* ---- writing ---- */

static kiln_status write_png(const char *path, const rgb_picture *p, error *e)
{
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)p->width,
                       .height = (png_uint_32)p->height,
                       .format = PNG_FORMAT_RGB};
    png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
    void *bytes = mem_alloc(size);
    kiln_status status = KILN_OK;
    if (!bytes) return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", path);
    if (png_image_write_to_memory(&image, bytes, &size, 0, p->rgb, 0, NULL))
        status = file_write_whole(path, bytes, size, e);
    else
        status = error_set(e, KILN_ERR_IO, "%s: cannot be made: %s", path, image.message);
    png_image_free(&image);
    mem_free(bytes);
    return status;
}

static kiln_status write_jpeg(const char *path, const rgb_picture *p, error *e)
{
    unsigned char *bytes = NULL;
    unsigned long size = 0;
    tjhandle j = tjInitCompress();
    if (!j) return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", path);
    kiln_status status = tjCompress2(j, p->rgb, (int)p->width, 0, (int)p->height, TJPF_RGB, &bytes, &size, TJSAMP_444,
                                     JPEG_QUALITY, 0) == 0
                             ? file_write_whole(path, bytes, size, e)
                             : error_set(e, KILN_ERR_IO, "%s: cannot be made: %s", path, tjGetErrorStr2(j));
    tjFree(bytes);
    tjDestroy(j);
    return status;
}

static kiln_status write_webp(const char *path, const rgb_picture *p, error *e)
{
    uint8_t *bytes = NULL;
    if (p->width > WEBP_MAX_DIMENSION || p->height > WEBP_MAX_DIMENSION)
        return error_set(e, KILN_ERR_INVALID, "%s: %zu x %zu pixels, and a WebP has at most %d a side; name a .png",
                         path, p->width, p->height, WEBP_MAX_DIMENSION);
    size_t size = WebPEncodeLosslessRGB(p->rgb, (int)p->width, (int)p->height, (int)p->width * 3, &bytes);
    kiln_status status = size ? file_write_whole(path, bytes, size, e)
                              : error_set(e, KILN_ERR_NOMEM, "%s: out of memory for a WebP", path);
    WebPFree(bytes);
    return status;
}

kiln_status picture_file_write(const char *path, const rgb_picture *p, error *e)
{
    const char *kind = picture_file_kind(path);
    return kind && strcmp(kind, "JPEG") == 0   ? write_jpeg(path, p, e)
           : kind && strcmp(kind, "WebP") == 0 ? write_webp(path, p, e)
                                               : write_png(path, p, e);
}
