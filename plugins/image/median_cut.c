/* median_cut.c - see median_cut.h.
 *
 * The box with the most pixels is cut where half of them lie, along the channel whose range counts most by Rec. 601's
 * weights; a channel's value is never cut in two. Each box gives the mean of its pixels. Where a picture has more than
 * 65536 colours, low bits are left out until it has not.
 */
#include "median_cut.h"

#include <stdlib.h>
#include <string.h>

enum { COLOURS_MAX = 65536, SLOTS = 1 << 18, BOXES = 2 * PALETTE_MAX, EMPTY = -1 };

typedef struct {
    uint8_t c[3];
    uint32_t count;
} colour;

typedef struct {
    uint32_t first, n; /* of `order` */
    uint32_t pixels;
    int left, right; /* boxes that it was cut into; 0: none */
    uint8_t low[3], high[3];
} box;

typedef struct {
    colour *colour; /* [n], without the low bits that are left out */
    int32_t *slot;  /* [SLOTS], an open-addressed table of them */
    uint32_t *order, *home;
    uint32_t n;
    int shift;
    box box[BOXES];
    int n_box, heap[BOXES], n_heap;
} cutting;

/* ---- counting ---- */

static int32_t *slot_of(const cutting *k, const uint8_t c[3])
{
    uint32_t at = ((uint32_t)c[0] << 16 | (uint32_t)c[1] << 8 | c[2]) * 2654435761u >> 14;
    while (k->slot[at] != EMPTY && memcmp(k->colour[k->slot[at]].c, c, 3) != 0) at = (at + 1) % SLOTS;
    return &k->slot[at];
}

static void count_colour(cutting *k, const uint8_t c[3], uint32_t count)
{
    int32_t *slot = slot_of(k, c);
    if (*slot == EMPTY) {
        *slot = (int32_t)k->n;
        k->colour[k->n] = (colour){.c = {c[0], c[1], c[2]}};
        k->n++;
    }
    k->colour[*slot].count += count;
}

static void leave_out_a_bit(cutting *k)
{
    uint32_t n = k->n;
    memset(k->slot, 0xff, SLOTS * sizeof *k->slot);
    k->shift++, k->n = 0;
    for (uint32_t i = 0; i < n; i++) { /* entry i is read before any entry above it is written */
        colour was = k->colour[i];
        count_colour(k, (const uint8_t[]){was.c[0] >> 1, was.c[1] >> 1, was.c[2] >> 1}, was.count);
    }
}

static void shortened(const cutting *k, const uint8_t *pixel, uint8_t c[3])
{
    for (int i = 0; i < 3; i++) c[i] = (uint8_t)(pixel[i] >> k->shift);
}

static void count_all(cutting *k, const uint8_t *pixels, size_t n)
{
    uint8_t c[3];
    memset(k->slot, 0xff, SLOTS * sizeof *k->slot);
    for (size_t i = 0; i < n; i++) {
        shortened(k, pixels + 3 * i, c);
        count_colour(k, c, 1);
        while (k->n > COLOURS_MAX) leave_out_a_bit(k);
    }
}

/* ---- cutting ---- */

static void measure(cutting *k, box *b)
{
    memset(b->low, 255, 3), memset(b->high, 0, 3), b->pixels = 0;
    for (uint32_t i = b->first; i < b->first + b->n; i++) {
        const colour *c = &k->colour[k->order[i]];
        b->pixels += c->count;
        for (int a = 0; a < 3; a++) {
            if (c->c[a] < b->low[a]) b->low[a] = c->c[a];
            if (c->c[a] > b->high[a]) b->high[a] = c->c[a];
        }
    }
}

static int longest_axis(const box *b)
{
    static const int weight[3] = {77, 150, 29};
    int axis = 0, most = -1;
    for (int a = 0; a < 3; a++) {
        int size = (b->high[a] - b->low[a]) * weight[a];
        if (size > most) most = size, axis = a;
    }
    return axis;
}

/* The least value that goes to the first half, which has the greatest ones and more than half of the pixels. */
static int cut_value(const cutting *k, const box *b, int axis)
{
    uint32_t at[256] = {0};
    uint64_t sum = 0;
    for (uint32_t i = b->first; i < b->first + b->n; i++) {
        const colour *c = &k->colour[k->order[i]];
        at[c->c[axis]] += c->count;
    }
    int value = b->high[axis];
    while ((sum += at[value]) * 2 <= b->pixels) value--;
    return value > b->low[axis] ? value : b->low[axis] + 1; /* some are left for the other half */
}

static void cut(cutting *k, int which)
{
    box *b = &k->box[which];
    int axis = longest_axis(b), value = cut_value(k, b, axis);
    uint32_t from = b->first, to = b->first + b->n;
    while (from < to) {
        uint32_t swap = k->order[from];
        if (k->colour[swap].c[axis] >= value) {
            from++;
        } else {
            k->order[from] = k->order[--to];
            k->order[to] = swap;
        }
    }
    b->left = k->n_box++, b->right = k->n_box++;
    k->box[b->left] = (box){.first = b->first, .n = from - b->first};
    k->box[b->right] = (box){.first = from, .n = b->first + b->n - from};
    measure(k, &k->box[b->left]), measure(k, &k->box[b->right]);
}

static int is_one_colour(const box *b) { return memcmp(b->low, b->high, 3) == 0; }

/* ---- a heap by pixels; which of equal ones comes first follows from these two, and decides the palette ---- */

static uint32_t pixels_at(const cutting *k, int at) { return k->box[k->heap[at]].pixels; }

static void heap_add(cutting *k, int which)
{
    int at = ++k->n_heap;
    for (; at > 1 && k->box[which].pixels > pixels_at(k, at / 2); at /= 2) k->heap[at] = k->heap[at / 2];
    k->heap[at] = which;
}

/* -1: it is empty. */
static int heap_take(cutting *k)
{
    if (k->n_heap == 0) return -1;
    int top = k->heap[1], last = k->heap[k->n_heap--], at = 1;
    for (int child; (child = 2 * at) <= k->n_heap; at = child) {
        if (child < k->n_heap && pixels_at(k, child) < pixels_at(k, child + 1)) child++;
        if (k->box[last].pixels > pixels_at(k, child)) break;
        k->heap[at] = k->heap[child];
    }
    k->heap[at] = last;
    return top;
}

static void cut_all(cutting *k, int colours)
{
    k->box[0] = (box){.n = k->n};
    k->n_box = 1;
    measure(k, &k->box[0]);
    heap_add(k, 0);
    while (--colours > 0) {
        int which = heap_take(k);
        while (which >= 0 && is_one_colour(&k->box[which])) which = heap_take(k);
        if (which < 0) return;
        cut(k, which);
        heap_add(k, k->box[which].left);
        heap_add(k, k->box[which].right);
    }
}

/* ---- the palette ---- */

static void number_boxes(cutting *k, int which, palette *p)
{
    const box *b = &k->box[which];
    if (b->left) {
        number_boxes(k, b->left, p);
        number_boxes(k, b->right, p);
        return;
    }
    for (uint32_t i = b->first; i < b->first + b->n; i++) k->home[k->order[i]] = (uint32_t)p->n;
    p->n++;
}

static void take_means(const cutting *k, const uint8_t *pixels, size_t n, palette *p)
{
    uint64_t sum[PALETTE_MAX][3] = {{0}}, count[PALETTE_MAX] = {0};
    uint8_t c[3];
    for (size_t i = 0; i < n; i++) {
        shortened(k, pixels + 3 * i, c);
        uint32_t home = k->home[*slot_of(k, c)];
        for (int a = 0; a < 3; a++) sum[home][a] += pixels[3 * i + a];
        count[home]++;
    }
    for (int i = 0; i < p->n; i++)
        for (int a = 0; a < 3; a++) p->rgb[i][a] = (uint8_t)(0.5 + (double)sum[i][a] / (double)count[i]);
}

int median_cut(const uint8_t *pixels, size_t n, int colours, palette *out)
{
    cutting *k = calloc(1, sizeof *k);
    int ok = k != NULL;
    *out = (palette){.n = 0};
    if (ok) {
        k->colour = malloc((COLOURS_MAX + 1) * sizeof *k->colour);
        k->slot = malloc(SLOTS * sizeof *k->slot);
        k->order = malloc((COLOURS_MAX + 1) * sizeof *k->order);
        k->home = malloc((COLOURS_MAX + 1) * sizeof *k->home);
        ok = k->colour && k->slot && k->order && k->home;
    }
    if (ok) {
        count_all(k, pixels, n);
        for (uint32_t i = 0; i < k->n; i++) k->order[i] = i;
        cut_all(k, colours);
        number_boxes(k, 0, out);
        take_means(k, pixels, n, out);
    }
    if (k) free(k->colour), free(k->slot), free(k->order), free(k->home);
    free(k);
    return ok;
}

/* ---- the nearest ---- */

void palette_map_begin(palette_map *m, const palette *of)
{
    m->of = of;
    memset(m->slot, 0xff, sizeof m->slot);
}

/* By the cube's corner next to black; of equally near ones the first. */
static int nearest(const palette *p, int r, int g, int b)
{
    int best = 0, least = INT32_MAX;
    for (int i = 0; i < p->n; i++) {
        int x = p->rgb[i][0] - r, y = p->rgb[i][1] - g, z = p->rgb[i][2] - b, d = x * x + y * y + z * z;
        if (d < least) least = d, best = i;
    }
    return best;
}

int palette_nearest(palette_map *m, const uint8_t rgb[3])
{
    int16_t *slot = &m->slot[rgb[0] >> 2][rgb[1] >> 2][rgb[2] >> 2];
    if (*slot < 0) *slot = (int16_t)nearest(m->of, rgb[0] & 0xfc, rgb[1] & 0xfc, rgb[2] & 0xfc);
    return *slot;
}
