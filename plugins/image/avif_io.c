/* avif_io.c - reads AVIF files with libavif, which is opened with the first of them: it brings twenty megabytes of
 * encoders along. See picture_io.h. All frames of a sequence are read. Pictures of more than
 * 8 bits become 16. They are turned as their properties irot and imir say; an EXIF block's orientation does not count
 * beside those (MIAF, ISO/IEC 23000-22).
 */
#include "picture_io.h"

#include <avif/avif.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The one whose structs the header describes. */
#if AVIF_VERSION >= 1000000
#define LIBRARY "libavif.so.16"
#else
#define LIBRARY "libavif.so.15"
#endif

#define CALLS(X)                                                                                                       \
    X(avifDecoderCreate)                                                                                               \
    X(avifDecoderDestroy)                                                                                              \
    X(avifDecoderNextImage)                                                                                            \
    X(avifDecoderParse)                                                                                                \
    X(avifDecoderSetIOMemory)                                                                                          \
    X(avifImageYUVToRGB)                                                                                               \
    X(avifRGBImageSetDefaults)                                                                                         \
    X(avifResultToString)
#define MEMBER(name) __typeof__(name) *name;
static struct {
    CALLS(MEMBER)
} lib;
static pthread_once_t opening = PTHREAD_ONCE_INIT;
static char why_not[160]; /* "": it is open */

static void *find(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (!found) snprintf(why_not, sizeof why_not, LIBRARY " has no %s", name);
    return found;
}

static void open_library(void)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(why_not, sizeof why_not, "libavif reads AVIF, and " LIBRARY " cannot be opened; install it");
        return;
    }
#define FIND(name)                                                                                                     \
    {                                                                                                                  \
        void *found = find(library, #name);                                                                            \
        memcpy(&lib.name, &found, sizeof found);                                                                       \
    }
    CALLS(FIND)
}

static int fail(picture_fault *fault, kiln_status status, const char *why)
{
    fault->status = status;
    snprintf(fault->message, sizeof fault->message, "%s", why);
    return 0;
}

static int failed(picture_fault *fault, avifResult result)
{
    return fail(fault, result == AVIF_RESULT_OUT_OF_MEMORY ? KILN_ERR_NOMEM : KILN_OK, lib.avifResultToString(result));
}

/* Refused for its size before anything is taken for it. */
static int check_size(const avifDecoder *d, picture_fault *fault)
{
    uint64_t w = d->image->width, h = d->image->height, frames = (uint64_t)d->imageCount;
    if (w == 0 || h == 0 || d->imageCount <= 0) return fail(fault, KILN_OK, "it has no picture");
    if (w > PICTURE_SIDE_MAX || h > PICTURE_SIDE_MAX)
        return fail(fault, KILN_ERR_INVALID, "larger than 16384 pixels a side");
    if (frames > PICTURE_PIXELS_MAX || w * h * frames > PICTURE_PIXELS_MAX)
        return fail(fault, KILN_ERR_INVALID, "its frames have more than 178 megapixels together");
    return 1;
}

/* Frame i, as it is stored. */
static int convert(const avifDecoder *d, const picture *out, int64_t i, picture_fault *fault)
{
    avifRGBImage rgb;
    if (d->image->width != (uint32_t)out->width || d->image->height != (uint32_t)out->height)
        return fail(fault, KILN_OK, "its frames have different sizes");
    lib.avifRGBImageSetDefaults(&rgb, d->image);
    rgb.format = out->channels == 4 ? AVIF_RGB_FORMAT_RGBA : AVIF_RGB_FORMAT_RGB;
    rgb.depth = (uint32_t)out->depth;
    rgb.rowBytes = (uint32_t)(out->width * out->channels * out->depth / 8);
    rgb.pixels = out->pixels + (size_t)i * rgb.rowBytes * (size_t)out->height;
    avifResult result = lib.avifImageYUVToRGB(d->image, &rgb);
    return result == AVIF_RESULT_OK ? 1 : failed(fault, result);
}

static int turn(const avifImage *image, picture *out)
{
    static const int orientation_of_angle[4] = {1, 8, 3, 6}; /* quarter turns against the clock */
#if AVIF_VERSION >= 1000000
    int axis = image->imir.axis;
#else
    int axis = image->imir.mode;
#endif
    int rotated = image->transformFlags & AVIF_TRANSFORM_IROT ? orientation_of_angle[image->irot.angle & 3] : 1;
    int mirrored = !(image->transformFlags & AVIF_TRANSFORM_IMIR) ? 1 : axis ? 2 : 4;
    return picture_turn(out, rotated) && picture_turn(out, mirrored);
}

static int decode(const kiln_call *c, avifDecoder *d, picture *out, picture_fault *fault)
{
    avifResult result = lib.avifDecoderParse(d);
    if (result != AVIF_RESULT_OK) return failed(fault, result);
    if (!check_size(d, fault)) return 0;
    out->width = d->image->width, out->height = d->image->height, out->frames = d->imageCount;
    out->channels = d->alphaPresent ? 4 : 3;
    out->depth = d->image->depth > 8 ? 16 : 8;
    size_t frame = (size_t)out->width * (size_t)out->height * (size_t)(out->channels * out->depth / 8);
    out->pixels = malloc(frame * (size_t)out->frames);
    if (!out->pixels) return fail(fault, KILN_ERR_NOMEM, "out of memory");
    for (int64_t i = 0; i < out->frames; i++) {
        kiln_status status = c->host->progress(c->ctx, (uint64_t)i, (uint64_t)out->frames, "reading");
        if (status != KILN_OK) return fail(fault, status, "stopped");
        if ((result = lib.avifDecoderNextImage(d)) != AVIF_RESULT_OK) return failed(fault, result);
        if (!convert(d, out, i, fault)) return 0;
    }
    return turn(d->image, out) ? 1 : fail(fault, KILN_ERR_NOMEM, "out of memory");
}

int avif_decode(const kiln_call *c, FILE *f, picture *out, picture_fault *fault)
{
    size_t n;
    pthread_once(&opening, open_library);
    if (why_not[0]) return fail(fault, KILN_ERR_UNSUPPORTED, why_not);
    uint8_t *data = picture_file(f, &n, fault);
    avifDecoder *d = data ? lib.avifDecoderCreate() : NULL;
    int ok = d != NULL;
    if (ok) {
        d->maxThreads = 1;
        d->ignoreExif = d->ignoreXMP = AVIF_TRUE;
        d->imageSizeLimit = PICTURE_PIXELS_MAX;
        ok = lib.avifDecoderSetIOMemory(d, data, n) == AVIF_RESULT_OK && decode(c, d, out, fault);
    }
    if (d) lib.avifDecoderDestroy(d);
    free(data);
    return ok;
}
