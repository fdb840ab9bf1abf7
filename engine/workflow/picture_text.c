/* picture_text.c - see picture_text.h. Walks a WebP's chunks (RIFF) or a JPEG's segments (ITU T.81, B.1.1) to the EXIF
 * block, and through the first directory of that (TIFF 6.0, section 2). The picture is not decoded; every length is
 * held against the file's. PNGs are png_text.c's. */
#include "workflow/picture_text.h"

#include "base/file.h"
#include "base/memory_alloc.h"
#include "base/str.h"
#include "workflow/png_text.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { HEAD = 12, TEXT_MAX = 16 << 20, ENTRY = 12, ASCII = 2 };

typedef enum { NO_PICTURE, PNG, WEBP, JPEG } picture_kind;

static picture_kind kind_of(const uint8_t *head, size_t n)
{
    if (n >= 8 && memcmp(head, "\x89PNG\r\n\x1a\n", 8) == 0) return PNG;
    if (n >= HEAD && memcmp(head, "RIFF", 4) == 0 && memcmp(head + 8, "WEBP", 4) == 0) return WEBP;
    if (n >= 3 && memcmp(head, "\xff\xd8\xff", 3) == 0) return JPEG;
    return NO_PICTURE;
}

static picture_kind kind_of_file(const char *path)
{
    struct stat st;
    uint8_t head[HEAD];
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode)) return NO_PICTURE;
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(head, 1, HEAD, f) : 0;
    if (f) fclose(f);
    return kind_of(head, n);
}

int picture_text_begins(const char *data, size_t n) { return kind_of((const uint8_t *)data, n) != NO_PICTURE; }

int picture_text_is_picture(const char *path) { return kind_of_file(path) != NO_PICTURE; }

typedef struct {
    const uint8_t *data;
    size_t n;
} span;

static uint32_t number(span s, size_t at, int bytes, int little)
{
    uint32_t v = 0;
    for (int i = 0; i < bytes; i++) v = v << 8 | s.data[little ? at + (size_t)(bytes - 1 - i) : at + (size_t)i];
    return v;
}

/* The TIFF block of an EXIF one, which may begin with its name. */
static span without_name(span s)
{
    return s.n >= 6 && memcmp(s.data, "Exif\0\0", 6) == 0 ? (span){s.data + 6, s.n - 6} : s;
}

static span webp_exif(span file)
{
    for (size_t at = HEAD; file.n - at >= 8;) {
        uint32_t n = number(file, at + 4, 4, 1);
        if (n > file.n - at - 8) break;
        if (memcmp(file.data + at, "EXIF", 4) == 0) return without_name((span){file.data + at + 8, n});
        size_t step = 8 + (size_t)n + (n & 1);
        if (step > file.n - at) break;
        at += step;
    }
    return (span){0};
}

static span jpeg_exif(span file)
{
    for (size_t at = 2; file.n - at >= 4 && file.data[at] == 0xff;) {
        uint8_t marker = file.data[at + 1];
        size_t n = number(file, at + 2, 2, 0);
        if (marker == 0xff) {
            at++;
            continue;
        }
        if (marker == 0xda || n < 2 || n > file.n - at - 2) break; /* the picture begins, or it is damaged */
        span s = {file.data + at + 4, n - 2};
        if (marker == 0xe1 && s.n > 6 && memcmp(s.data, "Exif\0\0", 6) == 0) return without_name(s);
        at += 2 + n;
    }
    return (span){0};
}

/* The text behind "KEY:" in an entry of the first directory; data NULL: there is none. */
static span entry_text(span tiff, const char *key)
{
    size_t length = strlen(key);
    if (tiff.n < 8 || (memcmp(tiff.data, "II", 2) != 0 && memcmp(tiff.data, "MM", 2) != 0)) return (span){0};
    int little = tiff.data[0] == 'I';
    size_t at = number(tiff, 4, 4, little);
    if (number(tiff, 2, 2, little) != 42 || at > tiff.n || tiff.n - at < 2) return (span){0};
    uint32_t entries = number(tiff, at, 2, little);
    at += 2;
    for (uint32_t i = 0; i < entries && tiff.n - at >= ENTRY; i++, at += ENTRY) {
        uint32_t n = number(tiff, at + 4, 4, little), from = number(tiff, at + 8, 4, little);
        if (number(tiff, at + 2, 2, little) != ASCII || n <= length || from > tiff.n || n > tiff.n - from) continue;
        const char *text = (const char *)tiff.data + from;
        if (memcmp(text, key, length) == 0 && text[length] == ':')
            return (span){tiff.data + from + length + 1, n - length - 1};
    }
    return (span){0};
}

static kiln_status copy(span found, const char *path, char **text, error *e)
{
    const uint8_t *end = memchr(found.data, 0, found.n);
    size_t n = end ? (size_t)(end - found.data) : found.n;
    if (n > TEXT_MAX) return error_set(e, KILN_ERR_INVALID, "%s: a text of more than 16 MiB", path);
    if (!utf8_valid((const char *)found.data, n))
        return error_set(e, KILN_ERR_INVALID, "%s: its workflow is not UTF-8", path);
    if (!(*text = mem_alloc(n + 1))) return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", path);
    memcpy(*text, found.data, n);
    (*text)[n] = '\0';
    return KILN_OK;
}

kiln_status picture_text_find(const char *path, const char *key, char **text, error *e)
{
    file_map m;
    *text = NULL;
    if (kind_of_file(path) == PNG) return png_text_find(path, key, text, e);
    TRY(file_map_open(&m, path, e));
    span file = {m.data, m.size};
    picture_kind kind = kind_of(file.data, file.n);
    span found = kind == WEBP   ? entry_text(webp_exif(file), key)
                 : kind == JPEG ? entry_text(jpeg_exif(file), key)
                                : (span){0};
    kiln_status status = kind == NO_PICTURE ? error_set(e, KILN_ERR_INVALID, "%s: not a PNG, WebP or JPEG file", path)
                         : kind == PNG ? png_text_find(path, key, text, e) /* which could not be read a moment ago */
                                       : KILN_OK;
    if (status == KILN_OK && found.data) status = copy(found, path, text, e);
    file_map_close(&m);
    return status;
}

kiln_status picture_text_read(const char *path, const char *key, char **text, error *e)
{
    TRY(picture_text_find(path, key, text, e));
    if (*text) return KILN_OK;
    return error_set(e, KILN_ERR_INVALID,
                     "%s: this picture carries no workflow (no text '%s'); it was saved by something else, or its "
                     "metadata was stripped",
                     path, key);
}
