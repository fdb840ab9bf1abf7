/* context_windows.c - see context_windows.h. Windows are listed as a whole each time one is asked for: there are few.
 */
#include "context_windows.h"

#include "torch_random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* All windows, each `length` long. */
typedef struct {
    int64_t length, pictures;
    int64_t *index;
    size_t n, capacity;
    int failed;
} windows;

static int64_t *window_at(const windows *w, size_t i) { return w->index + i * (size_t)w->length; }

/* Room for one in front of the i-th. */
static int64_t *insert(windows *w, size_t i)
{
    size_t one = (size_t)w->length;
    if (w->n == w->capacity) {
        size_t capacity = w->capacity ? 2 * w->capacity : 16;
        int64_t *more = w->failed ? NULL : realloc(w->index, capacity * one * sizeof *more);
        if (!more) return w->failed = 1, NULL;
        w->index = more, w->capacity = capacity;
    }
    memmove(w->index + (i + 1) * one, w->index + i * one, (w->n - i) * one * sizeof *w->index);
    w->n++;
    return window_at(w, i);
}

static void add(windows *w, int64_t first, int64_t stride)
{
    int64_t *to = insert(w, w->n);
    for (int64_t k = 0; to && k < w->length; k++) to[k] = (first + k * stride) % w->pictures;
}

/* ---- schedules ---- */

/* The bits of v behind the point, the lowest first: 0, 1/2, 1/4, 3/4, 1/8 ... */
static double ordered_halving(uint64_t v)
{
    double out = 0;
    for (double bit = 0.5; v; v >>= 1, bit /= 2) out += (double)(v & 1) * bit;
    return out;
}

static void add_static(windows *w, const context_windows *by)
{
    for (int64_t at = 0;; at += by->length - by->overlap) {
        int last = at + by->length >= w->pictures;
        add(w, last ? w->pictures - by->length : at, 1);
        if (last) return;
    }
}

/* From a place that moves from step to step, round the end, at strides of 1, 2, 4 ... */
static void add_round(windows *w, const context_windows *by, int64_t step, int64_t past)
{
    double place = ordered_halving((uint64_t)step);
    int64_t most = (int64_t)ceil(log2((double)w->pictures / (double)by->length)) + 1,
            strides = by->stride < most ? by->stride : most, pad = (int64_t)nearbyint((double)w->pictures * place);
    for (int64_t s = 0, stride = 1; s < strides; s++, stride *= 2)
        for (int64_t at = (int64_t)(place * (double)stride) + pad; at < w->pictures + pad + past;
             at += by->length * stride - by->overlap)
            add(w, at, stride);
}

/* Where a window goes back to the first picture; -1: nowhere. */
static int64_t roll_of(const windows *w, const int64_t *x)
{
    for (int64_t k = 1; k < w->length; k++)
        if (x[k] < x[k - 1]) return k;
    return -1;
}

static int has(const windows *w, const int64_t *x, int64_t picture)
{
    for (int64_t k = 0; k < w->length; k++)
        if (x[k] == picture) return 1;
    return 0;
}

static void shift_to_end(const windows *w, int64_t *x)
{
    int64_t first = x[0];
    for (int64_t k = 0; k < w->length; k++) x[k] = (x[k] - first + w->pictures) % w->pictures;
    int64_t by = w->pictures - x[w->length - 1] - 1;
    for (int64_t k = 0; k < w->length; k++) x[k] += by;
}

/* Those that go round the end are shifted to it, and one is added where that leaves the beginning out. */
static void straighten(windows *w)
{
    for (size_t i = 0; i < w->n; i++) {
        int64_t *x = window_at(w, i), roll = roll_of(w, x);
        if (roll < 0) continue;
        int64_t picture = x[roll];
        shift_to_end(w, x);
        if (has(w, window_at(w, (i + 1) % w->n), picture)) continue;
        int64_t *to = insert(w, i + 1);
        for (int64_t k = 0; to && k < w->length; k++) to[k] = picture + k;
    }
}

static int is_earlier(const windows *w, size_t i)
{
    size_t bytes = (size_t)w->length * sizeof *w->index;
    for (size_t k = 0; k < i; k++)
        if (memcmp(window_at(w, k), window_at(w, i), bytes) == 0) return 1;
    return 0;
}

static void drop_doubles(windows *w)
{
    size_t n = 0, one = (size_t)w->length;
    for (size_t i = 0; i < w->n; i++)
        if (!is_earlier(w, i)) memmove(window_at(w, n++), window_at(w, i), one * sizeof *w->index);
    w->n = n;
}

static void list_windows(windows *w, const context_windows *by, int64_t step)
{
    switch (by->schedule) {
    case WINDOWS_STANDARD_STATIC: add_static(w, by); break;
    case WINDOWS_STANDARD_UNIFORM:
        add_round(w, by, step, -by->overlap);
        straighten(w), drop_doubles(w);
        break;
    case WINDOWS_LOOPED_UNIFORM: add_round(w, by, step, by->closed_loop ? 0 : -by->overlap); break;
    default:
        for (int64_t at = 0; at < w->pictures; at += by->length) add(w, at, 1);
    }
}

/* ---- one window ---- */

/* From next to nothing at one end to 1 at the other. */
static double ramp(int64_t k, int64_t n) { return n > 1 ? fmax((double)k / (double)(n - 1), 1e-37) : 1e-37; }

static double linear_weight(const context_windows *by, int64_t k, int64_t n, int first, int last)
{
    double weight = 1;
    if (!first && k < by->overlap) weight = ramp(k, by->overlap);
    if (!last && k >= n - by->overlap)
        weight = by->overlap > 1 ? ramp(n - 1 - k, by->overlap) : 1; /* the one number of a ramp is where it begins */
    return weight;
}

/* Of the k-th of n pictures; x: the window. */
static double weight_of(const context_windows *by, const int64_t *x, int64_t k, int64_t n, int64_t pictures)
{
    int64_t least = x[0], most = x[0];
    for (int64_t i = 1; i < n; i++) least = x[i] < least ? x[i] : least, most = x[i] > most ? x[i] : most;
    switch (by->fuse) {
    case FUSE_FLAT: return 1;
    case FUSE_OVERLAP_LINEAR: return linear_weight(by, k, n, least == 0, most == pictures - 1);
    case FUSE_RELATIVE: {
        double from = (double)x[0], to = (double)x[n - 1];
        return fmax(1e-2, 1 - fabs((double)x[k] - (from + to) / 2) / ((to - from + 1e-2) / 2));
    }
    default: return (double)(k < n - 1 - k ? k + 1 : n - k);
    }
}

static void retain(const retained *which, uint32_t n, int64_t pictures, int64_t *index)
{
    for (size_t i = 0; i < which->n; i++)
        if (which->at[i] < n && which->at[i] < pictures) index[which->at[i]] = which->at[i];
}

/* Of a picture that stands twice the last counts. */
static void write_window(const context_windows *by, const int64_t *x, int64_t n, int64_t pictures, kiln_window *out)
{
    uint32_t before = by->anchored && x[0] > 0;
    out->n = (uint32_t)n + before;
    if (before) out->x[0] = out->inputs[0] = x[0] - 1, out->to[0] = -1, out->weight[0] = 1;
    for (int64_t k = 0; k < n; k++) {
        int again = 0;
        for (int64_t i = k + 1; i < n; i++) again |= x[i] == x[k];
        out->x[before + k] = out->inputs[before + k] = x[k];
        out->to[before + k] = again ? -1 : x[k];
        out->weight[before + k] = weight_of(by, x, k, n, pictures);
    }
    retain(&by->latents, out->n, pictures, out->x);
    retain(&by->inputs, out->n, pictures, out->inputs);
}

int context_windows_at(const context_windows *by, int64_t pictures, int64_t step, size_t i, kiln_window *out)
{
    windows w = {.length = by->length, .pictures = pictures};
    if (pictures <= by->length) return 0;
    list_windows(&w, by, step);
    int there = w.failed ? -1 : i < w.n;
    for (int64_t k = 0; there == 1 && k < w.length; k++)
        if (window_at(&w, i)[k] >= pictures) there = -1;
    if (there == 1) {
        int64_t n = by->length, first = (int64_t)i * by->length;
        if (by->schedule == WINDOWS_BATCHED && first + n > pictures) n = pictures - first; /* the last may be shorter */
        write_window(by, window_at(&w, i), n, pictures, out);
    }
    free(w.index);
    return there;
}

int context_windows_noise(const context_windows *by, int64_t pictures, uint64_t seed, int64_t *from)
{
    int64_t step = by->length - by->overlap, *order = malloc((size_t)by->length * sizeof *order);
    torch_generator g;
    if (!order) return 0;
    torch_seed(&g, seed);
    for (int64_t i = 0; i < pictures; i++) from[i] = i;
    for (int64_t at = 0; at + by->length < pictures; at += step) {
        int64_t to = at + by->length, n = step < pictures - to ? step : pictures - to;
        torch_randperm(&g, order, (size_t)n);
        for (int64_t k = 0; k < n; k++) from[to + k] = from[at + order[k]];
    }
    free(order);
    return 1;
}
