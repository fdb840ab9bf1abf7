/* webp_io.c - reads and writes WebP files with libwebp, libwebpdemux and libwebpmux: see picture_io.h and webp_io.h.
 *
 * All frames of an animation are read, each as it is shown, laid over those before it; so ComfyUI has them. The whole
 * file is in memory while it is read. Lossless data can stand for any number of pixels, so the pixels of all frames
 * together have a limit.
 */
#include "webp_io.h"

#include "orientation.h"
#include "picture_io.h"

#include <stdlib.h>
#include <string.h>

#include <webp/decode.h>
#include <webp/demux.h>
#include <webp/encode.h>
#include <webp/mux.h>

enum { SIDE_MAX = WEBP_MAX_DIMENSION, PIXELS_A_BYTE = 8 * 177 * 256 };

static int fail(picture_fault *fault, kiln_status status, const char *why)
{
    fault->status = status;
    snprintf(fault->message, sizeof fault->message, "%s", why);
    return 0;
}

/* ---- reading ---- */

typedef struct {
    uint8_t *data;
    size_t n;
    WebPAnimDecoder *decoder;
    WebPAnimInfo info;
} reader;

/* 0: refused for its size, before anything is taken for it. */
static int check_size(const WebPDemuxer *demux, picture_fault *fault)
{
    uint64_t w = WebPDemuxGetI(demux, WEBP_FF_CANVAS_WIDTH), h = WebPDemuxGetI(demux, WEBP_FF_CANVAS_HEIGHT);
    uint64_t frames = WebPDemuxGetI(demux, WEBP_FF_FRAME_COUNT);
    if (w == 0 || h == 0 || frames == 0) return fail(fault, KILN_OK, "it has no picture");
    if (w > PICTURE_SIDE_MAX || h > PICTURE_SIDE_MAX)
        return fail(fault, KILN_ERR_INVALID, "larger than 16384 pixels a side");
    if (frames > PICTURE_PIXELS_MAX || w * h * frames > PICTURE_PIXELS_MAX)
        return fail(fault, KILN_ERR_INVALID, "its frames have more than 178 megapixels together");
    return 1;
}

static int exif_orientation(const WebPDemuxer *demux)
{
    static const char head[6] = "Exif\0";
    WebPChunkIterator it;
    int found = 1;
    if (WebPDemuxGetChunk(demux, "EXIF", 1, &it)) {
        size_t skip = it.chunk.size > sizeof head && memcmp(it.chunk.bytes, head, sizeof head) == 0 ? sizeof head : 0;
        found = orientation_of(it.chunk.bytes + skip, it.chunk.size - skip);
    }
    WebPDemuxReleaseChunkIterator(&it);
    return found;
}

static int decode_frames(const kiln_call *c, reader *r, picture *out, picture_fault *fault)
{
    size_t pixels = (size_t)out->width * (size_t)out->height;
    for (int64_t i = 0; i < out->frames; i++) {
        uint8_t *rgba, *to = out->pixels + (size_t)i * pixels * (size_t)out->channels;
        int time;
        kiln_status status = c->host->progress(c->ctx, (uint64_t)i, (uint64_t)out->frames, "reading");
        if (status != KILN_OK) return fail(fault, status, "stopped");
        if (!WebPAnimDecoderGetNext(r->decoder, &rgba, &time)) return fail(fault, KILN_OK, "its data is corrupt");
        if (out->channels == 4)
            memcpy(to, rgba, pixels * 4);
        else
            for (size_t k = 0; k < pixels; k++) memcpy(to + k * 3, rgba + k * 4, 3);
    }
    return 1;
}

/* One picture, straight to where it will be. */
static int decode_still(const kiln_call *c, const reader *r, picture *out, picture_fault *fault)
{
    WebPDecoderConfig how;
    kiln_status status = c->host->progress(c->ctx, 0, 1, "reading");
    if (status != KILN_OK) return fail(fault, status, "stopped");
    if (!WebPInitDecoderConfig(&how)) return fail(fault, KILN_ERR_UNSUPPORTED, "another version of libwebp");
    how.output.colorspace = out->channels == 4 ? MODE_RGBA : MODE_RGB;
    how.output.is_external_memory = 1;
    how.output.u.RGBA.rgba = out->pixels;
    how.output.u.RGBA.stride = (int)out->width * out->channels;
    how.output.u.RGBA.size = (size_t)out->width * (size_t)out->height * (size_t)out->channels;
    VP8StatusCode code = WebPDecode(r->data, r->n, &how);
    WebPFreeDecBuffer(&how.output);
    if (code == VP8_STATUS_OK) return 1;
    return fail(fault, code == VP8_STATUS_OUT_OF_MEMORY ? KILN_ERR_NOMEM : KILN_OK,
                code == VP8_STATUS_NOT_ENOUGH_DATA || code == VP8_STATUS_SUSPENDED ? "it ends early"
                                                                                   : "its data is corrupt");
}

static int decode_animation(const kiln_call *c, reader *r, picture *out, picture_fault *fault)
{
    WebPData data = {.bytes = r->data, .size = r->n};
    WebPAnimDecoderOptions how;
    if (!WebPAnimDecoderOptionsInit(&how)) return fail(fault, KILN_ERR_UNSUPPORTED, "another version of libwebp");
    how.color_mode = MODE_RGBA;
    r->decoder = WebPAnimDecoderNew(&data, &how);
    if (!r->decoder) return fail(fault, KILN_OK, "its data is corrupt");
    return decode_frames(c, r, out, fault);
}

/* A lossy picture cannot be of any size: a bool costs 1/177 of a bit at least, and a macroblock of 256 pixels has more
 * than one (RFC 6386, section 7). */
static int is_too_small(const reader *r, const WebPBitstreamFeatures *f)
{
    return f->format == 1 && (uint64_t)f->width * (uint64_t)f->height / PIXELS_A_BYTE > r->n;
}

static int decode(const kiln_call *c, reader *r, picture *out, picture_fault *fault)
{
    WebPData data = {.bytes = r->data, .size = r->n};
    WebPBitstreamFeatures features;
    WebPDemuxer *demux = WebPDemux(&data);
    if (!demux) return fail(fault, KILN_OK, "its chunks do not fit together");
    int ok = check_size(demux, fault), orientation = exif_orientation(demux);
    out->width = WebPDemuxGetI(demux, WEBP_FF_CANVAS_WIDTH), out->height = WebPDemuxGetI(demux, WEBP_FF_CANVAS_HEIGHT);
    out->frames = WebPDemuxGetI(demux, WEBP_FF_FRAME_COUNT);
    out->channels = WebPDemuxGetI(demux, WEBP_FF_FORMAT_FLAGS) & ALPHA_FLAG ? 4 : 3;
    WebPDemuxDelete(demux);
    if (!ok) return 0;
    if (WebPGetFeatures(r->data, r->n, &features) != VP8_STATUS_OK) return fail(fault, KILN_OK, "its data is corrupt");
    if (is_too_small(r, &features)) return fail(fault, KILN_OK, "too small for a picture of the size it says");
    if (!features.has_animation && (out->frames != 1 || features.width != out->width || features.height != out->height))
        return fail(fault, KILN_OK, "its chunks do not fit together");
    size_t frame = (size_t)out->width * (size_t)out->height * (size_t)out->channels;
    out->pixels = malloc(frame * (size_t)out->frames);
    if (!out->pixels) return fail(fault, KILN_ERR_NOMEM, "out of memory");
    if (!(features.has_animation ? decode_animation(c, r, out, fault) : decode_still(c, r, out, fault))) return 0;
    return picture_turn(out, orientation) ? 1 : fail(fault, KILN_ERR_NOMEM, "out of memory");
}

int webp_decode(const kiln_call *c, FILE *f, picture *out, picture_fault *fault)
{
    reader r = {0};
    r.data = picture_file(f, &r.n, fault);
    int ok = r.data && decode(c, &r, out, fault);
    WebPAnimDecoderDelete(r.decoder);
    free(r.data);
    return ok;
}

/* ---- writing ---- */

typedef struct {
    const kiln_call *c;
    const webp_write *w;
    kiln_status status; /* of a call that was stopped */
    int64_t frame;
} encoding;

static int on_progress(int percent, const WebPPicture *p)
{
    encoding *e = p->user_data;
    uint64_t done = (uint64_t)e->frame * 100 + (uint64_t)percent;
    e->status = e->c->host->progress(e->c->ctx, done, (uint64_t)e->w->frames * 100, "writing");
    return e->status == KILN_OK;
}

static kiln_status refuse(const encoding *e, const char *why)
{
    if (e->status != KILN_OK) return e->status;
    return e->c->host->fail(e->c->ctx, KILN_ERR_UNSUPPORTED, "the picture cannot be written as a WebP: %s", why);
}

/* One frame as libwebp takes it; 0: no memory. */
static int import(encoding *e, WebPPicture *p)
{
    const webp_write *w = e->w;
    const uint8_t *pixels = w->frame(w->self, e->frame);
    int row = (int)w->width * w->channels;
    if (!WebPPictureInit(p)) return 0;
    p->width = (int)w->width, p->height = (int)w->height, p->use_argb = w->lossless || w->frames > 1;
    p->progress_hook = on_progress, p->user_data = e;
    return w->channels == 4 ? WebPPictureImportRGBA(p, pixels, row) : WebPPictureImportRGB(p, pixels, row);
}

static kiln_status encode_one(encoding *e, const WebPConfig *config, WebPData *out)
{
    WebPPicture p;
    WebPMemoryWriter memory;
    WebPMemoryWriterInit(&memory);
    if (!import(e, &p)) return WebPPictureFree(&p), refuse(e, "out of memory");
    p.writer = WebPMemoryWrite, p.custom_ptr = &memory;
    int ok = WebPEncode(config, &p);
    WebPPictureFree(&p);
    if (!ok) return WebPMemoryWriterClear(&memory), refuse(e, "libwebp could not encode it");
    *out = (WebPData){.bytes = memory.mem, .size = memory.size};
    return KILN_OK;
}

static kiln_status encode_all(encoding *e, const WebPConfig *config, WebPAnimEncoder *encoder, WebPData *out)
{
    const webp_write *w = e->w;
    int time = 0;
    for (; e->frame < w->frames; e->frame++, time += w->milliseconds) {
        WebPPicture p;
        int ok = import(e, &p) && WebPAnimEncoderAdd(encoder, &p, time, config);
        WebPPictureFree(&p);
        if (!ok) return refuse(e, WebPAnimEncoderGetError(encoder));
    }
    if (!WebPAnimEncoderAdd(encoder, NULL, time, NULL) || !WebPAnimEncoderAssemble(encoder, out))
        return refuse(e, WebPAnimEncoderGetError(encoder));
    return KILN_OK;
}

static kiln_status encode(encoding *e, WebPData *out)
{
    const webp_write *w = e->w;
    WebPConfig config;
    WebPAnimEncoderOptions how;
    if (!WebPConfigInit(&config) || !WebPAnimEncoderOptionsInit(&how)) return refuse(e, "another version of libwebp");
    config.lossless = w->lossless, config.quality = (float)w->quality, config.method = w->method;
    if (w->frames == 1) return encode_one(e, &config, out);
    WebPAnimEncoder *encoder = WebPAnimEncoderNew((int)w->width, (int)w->height, &how);
    if (!encoder) return refuse(e, "out of memory");
    kiln_status status = encode_all(e, &config, encoder, out);
    WebPAnimEncoderDelete(encoder);
    return status;
}

/* *out = data with the EXIF chunk. */
static kiln_status add_exif(encoding *e, const WebPData *data, WebPData *out)
{
    WebPData exif = {.bytes = e->w->exif, .size = e->w->n_exif};
    WebPMux *mux = WebPMuxCreate(data, 0);
    int ok = mux && WebPMuxSetChunk(mux, "EXIF", &exif, 0) == WEBP_MUX_OK && WebPMuxAssemble(mux, out) == WEBP_MUX_OK;
    WebPMuxDelete(mux);
    return ok ? KILN_OK : refuse(e, "out of memory");
}

kiln_status webp_write_file(const kiln_call *c, const kiln_files_api *files, kiln_file *f, const webp_write *w)
{
    encoding e = {.c = c, .w = w};
    WebPData data = {0}, whole = {0};
    if (w->width > SIDE_MAX || w->height > SIDE_MAX)
        return refuse(&e, "a side has more than 16383 pixels; write a PNG instead");
    kiln_status status = encode(&e, &data);
    if (status == KILN_OK && w->exif) status = add_exif(&e, &data, &whole);
    if (status == KILN_OK) {
        const WebPData *d = w->exif ? &whole : &data;
        status = files->write(f, d->bytes, d->size);
    }
    WebPDataClear(&data);
    WebPDataClear(&whole);
    return status;
}
