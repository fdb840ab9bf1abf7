/* png_text.c - walks a PNG's chunks (PNG specification, 3rd edition, sections 5 and 11.3.3) up to the wanted one. Does
 * not decode the picture; checks length and checksum of a chunk before it uses the data.
 */
#include "workflow/png_text.h"

#include "base/file.h"
#include "base/memory_alloc.h"
#include "base/str.h"

#include <string.h>
#include <zlib.h>

enum { TEXT_MAX = 16 << 20 };

static uint32_t big_endian(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

typedef struct {
    const char *path, *key;
    char *text; /* found: NUL-terminated UTF-8 */
    error *e;
} search;

static kiln_status damaged(const search *x, const char *what)
{
    return error_set(x->e, KILN_ERR_INVALID, "%s: a damaged PNG: %s", x->path, what);
}

static kiln_status no_memory(const search *x) { return error_set(x->e, KILN_ERR_NOMEM, "%s: out of memory", x->path); }

static kiln_status copy_text(search *x, const uint8_t *data, size_t n, int latin1)
{
    str s = {0};
    for (size_t i = 0; i < n; i++) {
        if (data[i] == 0) return str_free(&s), damaged(x, "a NUL in a text");
        if (latin1 && data[i] >= 0x80)
            str_char(&s, (char)(0xc0 | data[i] >> 6)), str_char(&s, (char)(0x80 | (data[i] & 0x3f)));
        else
            str_char(&s, (char)data[i]);
    }
    x->text = str_take(&s);
    return x->text ? KILN_OK : no_memory(x);
}

static kiln_status inflate_text(search *x, const uint8_t *data, size_t n, int latin1)
{
    uint8_t *out = mem_alloc(TEXT_MAX);
    uLongf size = TEXT_MAX;
    if (!out) return no_memory(x);
    kiln_status status = uncompress(out, &size, data, (uLong)n) == Z_OK
                             ? copy_text(x, out, size, latin1)
                             : damaged(x, "a compressed text that cannot be read, or of more than 16 MiB");
    mem_free(out);
    return status;
}

/* Length of the NUL-terminated field at p, or -1. */
static int64_t field(const uint8_t *p, size_t n)
{
    const uint8_t *end = memchr(p, 0, n);
    return end ? end - p : -1;
}

/* Takes the chunk's text if it has the wanted key. */
static kiln_status chunk_text(search *x, const char *type, const uint8_t *p, size_t n)
{
    int64_t name = field(p, n);
    if (name < 0 || strcmp((const char *)p, x->key) != 0) return KILN_OK;
    p += name + 1, n -= (size_t)name + 1;
    if (strcmp(type, "tEXt") == 0) return copy_text(x, p, n, 1);
    if (strcmp(type, "zTXt") == 0)
        return n < 1 || p[0] != 0 ? damaged(x, "an unknown compression") : inflate_text(x, p + 1, n - 1, 1);
    if (n < 2) return damaged(x, "a text chunk that is cut off");
    int compressed = p[0];
    p += 2, n -= 2;
    for (int i = 0; i < 2; i++) { /* language, translated keyword */
        int64_t skip = field(p, n);
        if (skip < 0) return damaged(x, "a text chunk that is cut off");
        p += skip + 1, n -= (size_t)skip + 1;
    }
    return compressed ? inflate_text(x, p, n, 0) : copy_text(x, p, n, 0);
}

static kiln_status walk(const file_map *m, search *x)
{
    static const uint8_t signature[8] = {0x89, 'P', 'N', 'G', 13, 10, 26, 10};
    size_t at = 8;
    if (m->size < 8 || memcmp(m->data, signature, 8) != 0)
        return error_set(x->e, KILN_ERR_INVALID, "%s: not a PNG file", x->path);
    while (m->size - at >= 12) {
        size_t n = big_endian(m->data + at);
        char type[5] = {0};
        memcpy(type, m->data + at + 4, 4);
        if (n > m->size - at - 12) return damaged(x, "a chunk reaches past the end of the file");
        const uint8_t *p = m->data + at + 8;
        if (strcmp(type, "IEND") == 0) break;
        if (strcmp(type, "tEXt") == 0 || strcmp(type, "zTXt") == 0 || strcmp(type, "iTXt") == 0) {
            if (n > TEXT_MAX) return damaged(x, "a text of more than 16 MiB");
            if (crc32(crc32(0, (const uint8_t *)type, 4), p, (uInt)n) != big_endian(p + n))
                return damaged(x, "a text chunk's checksum is wrong");
            TRY(chunk_text(x, type, p, n));
            if (x->text) return KILN_OK;
        }
        at += 12 + n;
    }
    return KILN_OK;
}

kiln_status png_text_find(const char *path, const char *key, char **text, error *e)
{
    file_map m;
    *text = NULL;
    TRY(file_map_open(&m, path, e));
    search x = {.path = path, .key = key, .e = e};
    kiln_status status = walk(&m, &x);
    file_map_close(&m);
    *text = x.text;
    return status;
}

kiln_status png_text_read(const char *path, const char *key, char **text, error *e)
{
    TRY(png_text_find(path, key, text, e));
    if (*text) return KILN_OK;
    return error_set(e, KILN_ERR_INVALID,
                     "%s: this picture carries no workflow (no text chunk '%s'); it was saved by something else, or "
                     "its metadata was stripped",
                     path, key);
}
