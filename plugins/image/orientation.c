/* orientation.c - see orientation.h. The block comes from a file: every offset in it is checked against its length. */
#include "orientation.h"

#include <string.h>

enum { TAG_ORIENTATION = 0x0112, BYTE = 1, SHORT = 3, LONG = 4, ENTRY = 12 };

typedef struct {
    const uint8_t *data;
    size_t n;
    int little; /* "II"; else "MM" */
} block;

/* The number in 2 or 4 bytes at `at`, which the caller has checked to be inside the block. */
static uint32_t number(const block *b, size_t at, int bytes)
{
    uint32_t v = 0;
    for (int i = 0; i < bytes; i++) v = v << 8 | b->data[b->little ? at + (size_t)(bytes - 1 - i) : at + (size_t)i];
    return v;
}

static int is_tiff(block *b)
{
    if (b->n < 8 || (memcmp(b->data, "II", 2) != 0 && memcmp(b->data, "MM", 2) != 0)) return 0;
    b->little = b->data[0] == 'I';
    return number(b, 2, 2) == 42;
}

/* The value of an entry with one whole number; 0: it has another type. */
static uint32_t entry_value(const block *b, size_t at)
{
    uint32_t type = number(b, at + 2, 2);
    if (number(b, at + 4, 4) != 1) return 0;
    return type == BYTE    ? b->data[at + 8]
           : type == SHORT ? number(b, at + 8, 2)
           : type == LONG  ? number(b, at + 8, 4)
                           : 0;
}

int orientation_of(const uint8_t *exif, size_t n)
{
    block b = {.data = exif, .n = n};
    uint32_t found = 1;
    if (!is_tiff(&b)) return 1;
    size_t at = number(&b, 4, 4);
    if (at > n || n - at < 2) return 1;
    uint32_t entries = number(&b, at, 2);
    at += 2;
    for (uint32_t i = 0; i < entries && n - at >= ENTRY; i++, at += ENTRY)
        if (number(&b, at, 2) == TAG_ORIENTATION) found = entry_value(&b, at);
    return found >= 1 && found <= 8 ? (int)found : 1;
}

/* Index, in the stored picture of w by h, of pixel (x, y) of the upright one. */
static int64_t source_of(int orientation, int64_t x, int64_t y, int64_t w, int64_t h)
{
    switch (orientation) {
    case 2: return y * w + (w - 1 - x);
    case 3: return (h - 1 - y) * w + (w - 1 - x);
    case 4: return (h - 1 - y) * w + x;
    case 5: return x * w + y;
    case 6: return (h - 1 - x) * w + y;
    case 7: return (h - 1 - x) * w + (w - 1 - y);
    case 8: return x * w + (w - 1 - y);
    default: return y * w + x;
    }
}

void orientation_apply(int orientation, const uint8_t *from, int64_t width, int64_t height, int channels, uint8_t *to)
{
    int64_t w = orientation >= 5 ? height : width, h = orientation >= 5 ? width : height;
    for (int64_t y = 0; y < h; y++)
        for (int64_t x = 0; x < w; x++)
            memcpy(to + (y * w + x) * channels, from + source_of(orientation, x, y, width, height) * channels,
                   (size_t)channels);
}
