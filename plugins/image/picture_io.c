/* picture_io.c - see picture_io.h. */
#include "picture_io.h"

#include "orientation.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { HEAD = 16, FILE_MAX = 1 << 30 };

typedef struct {
    const char *name;
    size_t at, n;
    const char *bytes;
    int (*decode)(const kiln_call *, FILE *, picture *, picture_fault *); /* NULL: known by name only */
} picture_kind;

/* The first bytes of each kind; of those without a reader the message says how to get on. */
static const picture_kind kinds[] = {
    {"PNG", 0, 8, "\x89PNG\r\n\x1a\n", png_decode},
    {"JPEG", 0, 3, "\xff\xd8\xff", jpeg_decode},
    {"WebP", 8, 4, "WEBP", webp_decode},
    {"AVIF", 4, 8, "ftypavif", avif_decode},
    {"AVIF", 4, 8, "ftypavis", avif_decode},
    {"HEIC", 4, 7, "ftyphei", NULL},
    {"HEIC", 4, 8, "ftypmif1", NULL},
    {"JPEG XL", 0, 2, "\xff\x0a", NULL},
    {"JPEG XL", 4, 4, "JXL ", NULL},
    {"JPEG 2000", 4, 4, "jP  ", NULL},
    {"GIF", 0, 4, "GIF8", NULL},
    {"BMP", 0, 2, "BM", NULL},
    {"TIFF", 0, 4, "II*\0", NULL},
    {"TIFF", 0, 4, "MM\0*", NULL},
    {"SVG", 0, 4, "<svg", NULL},
};

static const picture_kind *kind_of(const char *head, size_t n)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (n >= kinds[i].at + kinds[i].n && memcmp(head + kinds[i].at, kinds[i].bytes, kinds[i].n) == 0)
            return &kinds[i];
    return NULL;
}

uint8_t *picture_file(FILE *f, size_t *n, picture_fault *fault)
{
    long size = fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;
    uint8_t *data = NULL;
    if (size < 0 || size > FILE_MAX) {
        fault->status = KILN_ERR_INVALID;
        snprintf(fault->message, sizeof fault->message, "it is no file of at most 1 GiB");
        return NULL;
    }
    rewind(f);
    *n = (size_t)size;
    if (!(data = malloc(*n + 1))) {
        fault->status = KILN_ERR_NOMEM;
        snprintf(fault->message, sizeof fault->message, "out of memory");
    } else if (fread(data, 1, *n, f) != *n) {
        snprintf(fault->message, sizeof fault->message, "it ends early");
        free(data);
        data = NULL;
    }
    return data;
}

void picture_free(picture *p)
{
    free(p->pixels);
    *p = (picture){0};
}

int picture_turn(picture *p, int orientation)
{
    if (orientation == 1) return 1;
    int pixel = p->channels * p->depth / 8;
    size_t frame = (size_t)p->width * (size_t)p->height * (size_t)pixel;
    uint8_t *turned = malloc(frame * (size_t)p->frames);
    if (!turned) return 0;
    for (int64_t i = 0; i < p->frames; i++)
        orientation_apply(orientation, p->pixels + (size_t)i * frame, p->width, p->height, pixel,
                          turned + (size_t)i * frame);
    free(p->pixels);
    p->pixels = turned;
    if (orientation < 5) return 1;
    int64_t width = p->width;
    p->width = p->height, p->height = width;
    return 1;
}

static kiln_status say(const kiln_call *c, const char *path, const picture_kind *kind, const picture_fault *why)
{
    if (why->status == KILN_CANCELLED) return KILN_CANCELLED;
    if (why->status == KILN_OK && why->message[0])
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "%s: cannot be read as a %s: %s; the file is damaged or incomplete", path, kind->name,
                             why->message);
    return c->host->fail(c->ctx, why->status ? why->status : KILN_ERR_NOMEM, "%s: cannot be read: %s", path,
                         why->message[0] ? why->message : "out of memory");
}

/* Opens a file of a kind that has a reader. */
static kiln_status open_known(const kiln_call *c, const char *path, FILE **out, const picture_kind **out_kind)
{
    char head[HEAD];
    struct stat st;
    FILE *f = fopen(path, "rb");
    if (!f) return c->host->fail(c->ctx, KILN_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    int folder = fstat(fileno(f), &st) == 0 && S_ISDIR(st.st_mode);
    size_t n = folder ? 0 : fread(head, 1, HEAD, f);
    const picture_kind *kind = kind_of(head, n);
    if (kind && kind->decode) return rewind(f), *out = f, *out_kind = kind, KILN_OK;
    fclose(f);
    if (folder)
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "%s: is a folder; name a picture in it, or run once for each: --over '...=FOLDER/*.png'",
                             path);
    return c->host->fail(c->ctx, KILN_ERR_INVALID,
                         "%s: %s%s%s; kiln reads PNG, JPEG, WebP and AVIF: convert the picture to PNG", path,
                         kind ? "is a picture of the kind " : "not a PNG, JPEG, WebP or AVIF file",
                         kind ? kind->name : "", kind ? ", which kiln does not read" : "");
}

kiln_status picture_check(const kiln_call *c, const char *path)
{
    const picture_kind *kind;
    FILE *f = NULL;
    kiln_status status = open_known(c, path, &f, &kind);
    if (status == KILN_OK) fclose(f);
    return status;
}

kiln_status picture_read(const kiln_call *c, const char *path, picture *out)
{
    picture_fault why = {.path = path};
    const picture_kind *kind;
    FILE *f = NULL;
    *out = (picture){0};
    kiln_status status = open_known(c, path, &f, &kind);
    if (status != KILN_OK) return status;
    *out = (picture){.frames = 1, .depth = 8, .channels = 3};
    int ok = kind->decode(c, f, out, &why);
    fclose(f);
    if (ok) return KILN_OK;
    picture_free(out);
    return say(c, path, kind, &why);
}
