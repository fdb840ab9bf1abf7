/* apng.c - see apng.h.
 *
 * fcTL says where a frame lies and what becomes of it, fdAT is an IDAT with a number before it. A frame is decoded as a
 * PNG made of the file's IHDR with the frame's size, its palette, and the frame's data. What a frame covers is laid
 * over the canvas or put in its place, and is taken away again before the next where it says so.
 */
#include "apng.h"

#include "orientation.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { SIGNATURE = 8, CHUNK = 12, IHDR = 13, FCTL = 26, FRAMES_MAX = 100000 };
enum { KEEP, CLEAR, RESTORE };

typedef struct {
    const uint8_t *at;
    size_t n; /* of what is in it */
} chunk;

typedef struct {
    uint32_t x, y, w, h;
    int after, over;    /* KEEP, CLEAR or RESTORE; laid over and not put in the place */
    size_t first, last; /* of the chunks with its data: [first, last) */
} frame;

typedef struct {
    const kiln_call *c;
    picture_fault *fault;
    uint8_t *data;
    size_t n;
    chunk *chunk; /* [n_chunk]: IDAT and fdAT */
    frame *frame;
    size_t n_chunk, n_frame, n_told;
    chunk head, palette, alpha, exif;
    uint32_t sequence;
    uint8_t *png; /* room for one frame's */
} film;

static int fail(film *m, kiln_status status, const char *why)
{
    m->fault->status = status;
    snprintf(m->fault->message, sizeof m->fault->message, "%s", why);
    return 0;
}

static uint32_t number(const uint8_t *at) { return (uint32_t)at[0] << 24 | at[1] << 16 | at[2] << 8 | at[3]; }

/* ---- what is in the file ---- */

int apng_is_one(FILE *f)
{
    uint8_t head[SIGNATURE + 8];
    long start = ftell(f);
    int is = 0;
    if (start < 0 || fread(head, 1, SIGNATURE, f) != SIGNATURE) return 0;
    while (fread(head, 1, 8, f) == 8 && memcmp(head + 4, "IDAT", 4) != 0) {
        if (memcmp(head + 4, "acTL", 4) == 0) {
            is = fread(head, 1, 4, f) == 4 && number(head) > 1;
            break;
        }
        if (fseek(f, (long)number(head) + 4, SEEK_CUR) != 0) break;
    }
    fseek(f, start, SEEK_SET);
    return is;
}

static int take_sequence(film *m, const uint8_t *at)
{
    return number(at) == m->sequence++ ? 1 : fail(m, KILN_OK, "its frames are out of order");
}

static int take_control(film *m, const uint8_t *at, size_t n)
{
    if (n != FCTL || m->n_frame > FRAMES_MAX) return fail(m, KILN_OK, "a frame's head is damaged");
    if (!take_sequence(m, at)) return 0;
    const frame f = {.w = number(at + 4),
                     .h = number(at + 8),
                     .x = number(at + 12),
                     .y = number(at + 16),
                     .after = at[24],
                     .over = at[25] == 1,
                     .first = m->n_chunk,
                     .last = m->n_chunk};
    if (f.w == 0 || f.h == 0 || f.w > PICTURE_SIDE_MAX || f.h > PICTURE_SIDE_MAX ||
        (uint64_t)f.x + f.w > number(m->head.at) || (uint64_t)f.y + f.h > number(m->head.at + 4) || f.after > RESTORE)
        return fail(m, KILN_OK, "a frame lies outside of the picture");
    m->frame[m->n_frame++] = f;
    return 1;
}

/* Data of a frame; before the first fcTL it is of a picture beside the animation. */
static int take_data(film *m, chunk k)
{
    if (m->n_frame == 0) m->frame[m->n_frame++] = (frame){.w = number(m->head.at), .h = number(m->head.at + 4)};
    m->chunk[m->n_chunk++] = k;
    m->frame[m->n_frame - 1].last = m->n_chunk;
    return 1;
}

static int take(film *m, const uint8_t *type, chunk k)
{
    if (memcmp(type, "acTL", 4) == 0 && k.n == 8) m->n_told = number(k.at);
    if (memcmp(type, "PLTE", 4) == 0) m->palette = k;
    if (memcmp(type, "tRNS", 4) == 0) m->alpha = k;
    if (memcmp(type, "eXIf", 4) == 0) m->exif = k;
    if (memcmp(type, "fcTL", 4) == 0) return take_control(m, k.at, k.n);
    if (memcmp(type, "IDAT", 4) == 0) return take_data(m, k);
    if (memcmp(type, "fdAT", 4) != 0) return 1;
    if (k.n < 4 || m->n_frame == 0) return fail(m, KILN_OK, "a frame's data is damaged");
    return take_sequence(m, k.at) && take_data(m, (chunk){k.at + 4, k.n - 4});
}

static int read_chunks(film *m)
{
    size_t at = SIGNATURE, most = m->n / CHUNK + 2;
    m->chunk = malloc(most * sizeof *m->chunk), m->frame = malloc(most * sizeof *m->frame);
    m->png = malloc(m->n + 256);
    if (!m->chunk || !m->frame || !m->png) return fail(m, KILN_ERR_NOMEM, "out of memory");
    while (m->n - at >= CHUNK) {
        const uint8_t *c = m->data + at;
        size_t size = number(c);
        if (size > m->n - at - CHUNK) return fail(m, KILN_OK, "it ends early");
        if (crc32(crc32(0, NULL, 0), c + 4, (uInt)(size + 4)) != number(c + 8 + size))
            return fail(m, KILN_OK, "a part of its data is corrupt");
        if (!m->head.at && (memcmp(c + 4, "IHDR", 4) != 0 || size != IHDR))
            return fail(m, KILN_OK, "it does not begin with its size");
        if (!m->head.at) m->head = (chunk){c + 8, size};
        if (memcmp(c + 4, "IEND", 4) == 0) return 1;
        if (!take(m, c + 4, (chunk){c + 8, size})) return 0;
        at += CHUNK + size;
    }
    return fail(m, KILN_OK, "it ends early");
}

/* ---- a frame as a PNG ---- */

static void put_number(uint8_t *to, uint32_t v)
{
    for (int i = 0; i < 4; i++) to[i] = (uint8_t)(v >> (24 - 8 * i));
}

static uint8_t *put_chunk(uint8_t *to, const char *type, chunk k)
{
    put_number(to, (uint32_t)k.n);
    memcpy(to + 4, type, 4);
    if (k.n) memcpy(to + 8, k.at, k.n);
    put_number(to + 8 + k.n, (uint32_t)crc32(crc32(0, NULL, 0), to + 4, (uInt)(k.n + 4)));
    return to + CHUNK + k.n;
}

static int decode_frame(film *m, const frame *f, picture *out)
{
    uint8_t head[IHDR], *to = m->png;
    memcpy(head, m->head.at, IHDR);
    put_number(head, f->w), put_number(head + 4, f->h);
    memcpy(to, m->data, SIGNATURE);
    to = put_chunk(to + SIGNATURE, "IHDR", (chunk){head, IHDR});
    if (m->palette.at) to = put_chunk(to, "PLTE", m->palette);
    if (m->alpha.at) to = put_chunk(to, "tRNS", m->alpha);
    for (size_t i = f->first; i < f->last; i++) to = put_chunk(to, "IDAT", m->chunk[i]);
    to = put_chunk(to, "IEND", (chunk){0});
    *out = (picture){.frames = 1, .depth = 8, .channels = 3};
    return png_decode_memory(m->c, m->png, (size_t)(to - m->png), out, m->fault);
}

/* ---- the canvas ---- */

static uint32_t sample(const uint8_t *at, int wide)
{
    uint16_t v;
    if (!wide) return *at;
    memcpy(&v, at, 2);
    return v;
}

static void put_sample(uint8_t *at, int wide, uint64_t v)
{
    uint16_t two = (uint16_t)v;
    if (wide)
        memcpy(at, &two, 2);
    else
        *at = (uint8_t)v;
}

/* One pixel with transparency over another: Porter and Duff (1984), to the nearest. */
static void lay_over(uint8_t *to, const uint8_t *from, int wide)
{
    uint64_t most = wide ? 65535 : 255, step = wide ? 2 : 1, a = sample(from + 3 * step, wide),
             b = sample(to + 3 * step, wide);
    uint64_t above = a * most, below = (most - a) * b, sum = above + below;
    if (sum == 0) return;
    for (uint64_t k = 0; k < 3; k++)
        put_sample(to + k * step, wide,
                   (sample(from + k * step, wide) * above + sample(to + k * step, wide) * below + sum / 2) / sum);
    put_sample(to + 3 * step, wide, (sum + most / 2) / most);
}

static void lay(const frame *f, const picture *from, const picture *canvas, uint8_t *pixels)
{
    size_t pixel = (size_t)(canvas->channels * canvas->depth / 8), row = f->w * pixel;
    for (uint32_t y = 0; y < f->h; y++) {
        uint8_t *to = pixels + ((f->y + y) * (size_t)canvas->width + f->x) * pixel;
        const uint8_t *source = from->pixels + y * row;
        if (!f->over || canvas->channels == 3) {
            memcpy(to, source, row);
            continue;
        }
        for (uint32_t x = 0; x < f->w; x++) lay_over(to + x * pixel, source + x * pixel, canvas->depth == 16);
    }
}

static void clear(const frame *f, const picture *canvas, uint8_t *pixels)
{
    size_t pixel = (size_t)(canvas->channels * canvas->depth / 8);
    for (uint32_t y = 0; y < f->h; y++)
        memset(pixels + ((f->y + y) * (size_t)canvas->width + f->x) * pixel, 0, f->w * pixel);
}

/* Frame i onto what those before it have left in `under`, and what it leaves itself. */
static int show(film *m, picture *out, size_t i, size_t size, uint8_t *under)
{
    const frame *f = &m->frame[i];
    picture one;
    uint8_t *to = out->pixels + i * size;
    if (!decode_frame(m, f, &one)) return picture_free(&one), 0;
    int same = one.channels == out->channels && one.depth == out->depth;
    memcpy(to, under, size);
    if (same) lay(f, &one, out, to);
    picture_free(&one);
    if (f->after != RESTORE) memcpy(under, to, size);
    if (f->after == CLEAR) clear(f, out, under);
    return same ? 1 : fail(m, KILN_OK, "its frames are of different kinds");
}

static int show_all(film *m, picture *out, size_t size)
{
    uint8_t *under = calloc(1, size);
    int ok = under ? 1 : fail(m, KILN_ERR_NOMEM, "out of memory");
    for (size_t i = 0; ok && i < m->n_frame; i++) {
        kiln_status status = m->c->host->progress(m->c->ctx, i, m->n_frame, "reading");
        ok = status == KILN_OK ? show(m, out, i, size, under) : fail(m, status, "stopped");
    }
    free(under);
    return ok;
}

static int decode(film *m, picture *out)
{
    picture first;
    if (!read_chunks(m)) return 0;
    uint64_t w = number(m->head.at), h = number(m->head.at + 4);
    if (w > PICTURE_SIDE_MAX || h > PICTURE_SIDE_MAX)
        return fail(m, KILN_ERR_INVALID, "larger than 16384 pixels a side");
    if (w * h * m->n_frame > PICTURE_PIXELS_MAX)
        return fail(m, KILN_ERR_INVALID, "its frames have more than 178 megapixels together");
    if (m->n_frame == 0 || m->n_frame < m->n_told) return fail(m, KILN_OK, "frames are missing");
    if (m->frame[0].w != w || m->frame[0].h != h) /* so that the file has to be large enough for the canvas */
        return fail(m, KILN_OK, "its first frame is not the whole picture");
    if (!decode_frame(m, &m->frame[0], &first)) return picture_free(&first), 0;
    *out = (picture){.width = (int64_t)w,
                     .height = (int64_t)h,
                     .frames = (int64_t)m->n_frame,
                     .channels = first.channels,
                     .depth = first.depth};
    picture_free(&first);
    size_t size = (size_t)(w * h) * (size_t)(out->channels * out->depth / 8);
    if (!(out->pixels = malloc(size * m->n_frame))) return fail(m, KILN_ERR_NOMEM, "out of memory");
    if (!show_all(m, out, size)) return 0;
    int orientation = m->exif.at ? orientation_of(m->exif.at, m->exif.n) : 1;
    return picture_turn(out, orientation) ? 1 : fail(m, KILN_ERR_NOMEM, "out of memory");
}

int apng_decode(const kiln_call *c, FILE *f, picture *out, picture_fault *fault)
{
    film m = {.c = c, .fault = fault};
    m.data = picture_file(f, &m.n, fault);
    int ok = m.data && decode(&m, out);
    free(m.data), free(m.chunk), free(m.frame), free(m.png);
    return ok;
}
