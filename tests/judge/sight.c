/* Finds and names the things in a picture. See sight.h.
 *
 * 1. background: the median colour of a four pixel frame
 * 2. things: 8-connected pixels away from the background; specks of fewer than MIN_AREA pixels are ignored
 * 3. each thing: the median colour of its inner pixels, then its exact area as the pixels nearer to that colour than
 *    to the background (anti-aliased edges are cut in half), then features, then the nearest row of `prototypes` */
#include "sight.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FRAME = 4, MIN_AREA = 40, RAYS = 120 };
static const double pi = 3.14159265358979323846;
static const double away_from_background = 46.0; /* RGB distance; the closest pair, pink on beige, is 98 apart */
static const double colour_reach = 75.0;         /* RGB distance within which a colour may carry a name */
static const double min_purity = 0.85; /* share of inner pixels that must be the colour or a mixture with the ground */
static const double mixture_reach = 50.0; /* RGB distance from that mixture */
static const double shape_reach = 0.18;   /* feature distance within which a shape may carry a name */

const char *const sight_shape_names[] = {"circle", "square", "triangle", "star", "cross", "ring"};
const char *const sight_colour_names[] = {"red", "orange", "yellow", "green", "cyan", "blue", "purple", "pink"};
const char *const sight_background_names[] = {"white", "gray", "black", "beige"};
const char *const sight_size_names[] = {"small", "medium", "large"};

static const double colours[SIGHT_COLOURS][3] = {{222, 32, 38},  {248, 138, 22}, {252, 222, 40}, {36, 156, 60},
                                                 {48, 204, 220}, {38, 76, 214},  {126, 46, 168}, {248, 134, 186}};
static const double backgrounds[SIGHT_BACKGROUNDS][3] = {
    {255, 255, 255}, {150, 150, 150}, {16, 16, 16}, {236, 218, 184}};

/* Features of the shapes as scripts/shapes/scenes.py draws them, 20 pixels in radius, and of the same with corners
 * rounded off, as a person would still name them: area / hull area, area / bounding box, hole / filled area, and the
 * 3rd, 4th and 5th harmonic of the outline's distance from the centroid relative to its mean. `half` is half the
 * larger side of the bounding box per unit of drawn radius. */
enum { CIRCLE, SQUARE, TRIANGLE, STAR, CROSS, RING, PROTOTYPES = 11 };
struct prototype {
    int shape;
    double feature[6];
    double half;
};
static const struct prototype prototypes[PROTOTYPES] = {
    {CIRCLE, {0.97, 0.785, 0.00, 0.00, 0.00, 0.00}, 1.00},   {SQUARE, {1.00, 1.000, 0.00, 0.00, 0.14, 0.00}, 0.86},
    {TRIANGLE, {0.95, 0.515, 0.00, 0.28, 0.00, 0.00}, 1.00}, {STAR, {0.53, 0.375, 0.00, 0.00, 0.01, 0.36}, 1.03},
    {CROSS, {0.73, 0.575, 0.00, 0.01, 0.33, 0.00}, 1.00},    {RING, {0.71, 0.570, 0.27, 0.00, 0.00, 0.00}, 1.00},
    {SQUARE, {0.96, 0.900, 0.00, 0.00, 0.11, 0.00}, 0.84},   {TRIANGLE, {0.92, 0.560, 0.00, 0.22, 0.00, 0.00}, 0.95},
    {STAR, {0.73, 0.540, 0.00, 0.00, 0.01, 0.26}, 0.95},     {CROSS, {0.82, 0.640, 0.00, 0.00, 0.24, 0.00}, 0.97},
    {RING, {0.80, 0.650, 0.17, 0.00, 0.00, 0.00}, 1.00},
};
static const double feature_weight[6] = {1.0, 1.0, 1.5, 1.0, 1.0, 1.0};
static const double size_edges[2] = {21.5, 33.5}; /* drawn radii: small 15..19, medium 24..30, large 37..46 */

static double distance(const double a[3], const double b[3])
{
    double sum = 0;
    for (int c = 0; c < 3; c++) sum += (a[c] - b[c]) * (a[c] - b[c]);
    return sqrt(sum);
}

/* Distance of a colour from the straight line of mixtures between a and b: anti-aliased edges lie on it. */
static double off_mixture(const double rgb[3], const double a[3], const double b[3])
{
    double along = 0, whole = 0, mixed[3];
    for (int c = 0; c < 3; c++) {
        along += (rgb[c] - a[c]) * (b[c] - a[c]);
        whole += (b[c] - a[c]) * (b[c] - a[c]);
    }
    double share = whole > 0 ? along / whole : 0;
    share = share < 0 ? 0 : share > 1 ? 1 : share;
    for (int c = 0; c < 3; c++) mixed[c] = a[c] + share * (b[c] - a[c]);
    return distance(rgb, mixed);
}

static int nearest(const double rows[][3], int count, const double rgb[3], double reach)
{
    int best = -1;
    for (int i = 0; i < count; i++) {
        double d = distance(rows[i], rgb);
        if (d < reach) {
            reach = d;
            best = i;
        }
    }
    return best;
}

static void pixel(const struct picture *p, int at, double rgb[3])
{
    for (int c = 0; c < 3; c++) rgb[c] = p->rgb[(size_t)at * 3 + (size_t)c];
}

/* The middle value of a 256-bin histogram of total samples. */
static double median(const int histogram[256], int total)
{
    int seen = 0;
    for (int v = 0; v < 256; v++) {
        seen += histogram[v];
        if (seen * 2 > total) return v;
    }
    return 0;
}

/* Median colour of the pixels whose mark equals want. Returns how many there were. */
static int median_colour(const struct picture *p, const uint8_t *marks, int want, double rgb[3])
{
    int total = 0;
    int histogram[3][256] = {{0}};
    for (int i = 0; i < p->width * p->height; i++) {
        if (marks[i] != want) continue;
        total++;
        for (int c = 0; c < 3; c++) histogram[c][p->rgb[(size_t)i * 3 + (size_t)c]]++;
    }
    for (int c = 0; c < 3; c++) rgb[c] = median(histogram[c], total);
    return total;
}

/* Collects into list the 8-connected pixels with value `from` round `seed` and gives them value `to`. */
static int flood(uint8_t *map, int width, int height, int seed, uint8_t from, uint8_t to, int *list)
{
    int count = 0, next = 0;
    map[seed] = to;
    list[count++] = seed;
    while (next < count) {
        int x = list[next] % width, y = list[next] / width;
        next++;
        for (int dy = -1; dy <= 1; dy++)
            for (int dx = -1; dx <= 1; dx++) {
                int u = x + dx, v = y + dy;
                if (u < 0 || v < 0 || u >= width || v >= height || map[v * width + u] != from) continue;
                map[v * width + u] = to;
                list[count++] = v * width + u;
            }
    }
    return count;
}

static double cross_product(const int a[2], const int b[2], const int c[2])
{
    return (double)(b[0] - a[0]) * (c[1] - a[1]) - (double)(b[1] - a[1]) * (c[0] - a[0]);
}

/* Area of the convex hull of the pixels with mark 1, pixel corners included (monotone chain, Andrew 1979).
 * hull has room for 4 * height + 8 points. */
static double hull_area(const uint8_t *marks, int width, int height, int (*hull)[2])
{
    int n = 0;
    for (int pass = 0; pass < 2; pass++) { /* left outline downwards, then right outline upwards */
        int base = n;
        for (int k = 0; k < height; k++) {
            int y = pass ? height - 1 - k : k, first = -1, last = -1;
            for (int x = 0; x < width; x++)
                if (marks[y * width + x] == 1) {
                    if (first < 0) first = x;
                    last = x;
                }
            if (first < 0) continue;
            for (int corner = 0; corner < 2; corner++) {
                int point[2] = {pass ? last + 1 : first, pass ? y + 1 - corner : y + corner};
                while (n - base >= 2 && cross_product(hull[n - 2], hull[n - 1], point) >= 0) n--;
                memcpy(hull[n++], point, sizeof point);
            }
        }
    }
    double twice = 0;
    for (int i = 0; i < n; i++) {
        const int *a = hull[i], *b = hull[(i + 1) % n];
        twice += (double)a[0] * b[1] - (double)b[0] * a[1];
    }
    return fabs(twice) / 2;
}

/* Background pixels that the thing encloses: what a flood from the border does not reach. */
static int hole_area(const uint8_t *marks, int width, int height, uint8_t *map, int *list)
{
    int outside = 0, thing = 0;
    for (int i = 0; i < width * height; i++) {
        map[i] = marks[i] == 1;
        thing += map[i];
    }
    for (int i = 0; i < width * height; i++) {
        int x = i % width, y = i / width;
        int border = x == 0 || y == 0 || x == width - 1 || y == height - 1;
        if (border && map[i] == 0) outside += flood(map, width, height, i, 0, 2, list);
    }
    return width * height - outside - thing;
}

/* Strength of the n-th harmonic of the outline's distance from (x, y), relative to the mean distance. */
static void harmonics(const uint8_t *marks, int width, int height, double x, double y, double out[3])
{
    double reach[RAYS], mean = 0;
    for (int k = 0; k < RAYS; k++) {
        double c = cos(2 * pi * k / RAYS), s = sin(2 * pi * k / RAYS);
        reach[k] = 0;
        for (double r = 0; r < width + height; r += 0.25) {
            int u = (int)floor(x + 0.5 + r * c), v = (int)floor(y + 0.5 + r * s);
            if (u < 0 || v < 0 || u >= width || v >= height) break;
            if (marks[v * width + u] == 1) reach[k] = r;
        }
        mean += reach[k] / RAYS;
    }
    for (int n = 3; n <= 5; n++) {
        double re = 0, im = 0;
        for (int k = 0; k < RAYS; k++) {
            re += reach[k] * cos(2 * pi * n * k / RAYS);
            im += reach[k] * sin(2 * pi * n * k / RAYS);
        }
        out[n - 3] = mean > 0 ? 2 * sqrt(re * re + im * im) / RAYS / mean : 0;
    }
}

struct workspace {
    uint8_t *map, *marks, *spare;
    int *list;
    int (*hull)[2];
};

/* Fills in everything about the thing whose pixels have mark 1. */
static void describe(const struct picture *p, struct workspace *w, struct thing *t)
{
    int width = p->width, height = p->height, left = width, right = 0, top = height, bottom = 0;
    double area = 0, x_sum = 0, y_sum = 0;
    for (int i = 0; i < width * height; i++) {
        if (w->marks[i] != 1) continue;
        int x = i % width, y = i / width;
        area++;
        x_sum += x;
        y_sum += y;
        left = x < left ? x : left;
        right = x > right ? x : right;
        top = y < top ? y : top;
        bottom = y > bottom ? y : bottom;
    }
    t->shape = t->size = -1;
    if (area == 0) return;
    t->area = area;
    t->x = x_sum / area;
    t->y = y_sum / area;
    int wide = right - left + 1, high = bottom - top + 1, hole = hole_area(w->marks, width, height, w->spare, w->list);
    t->features[0] = area / hull_area(w->marks, width, height, w->hull);
    t->features[1] = area / ((double)wide * high);
    t->features[2] = hole / (area + hole);
    harmonics(w->marks, width, height, t->x, t->y, t->features + 3);
    t->shape_error = shape_reach;
    double half = 1;
    for (int s = 0; s < PROTOTYPES; s++) {
        double sum = 0;
        for (int f = 0; f < 6; f++) {
            double d = (t->features[f] - prototypes[s].feature[f]) * feature_weight[f];
            sum += d * d;
        }
        if (sqrt(sum) < t->shape_error) {
            t->shape_error = sqrt(sum);
            t->shape = prototypes[s].shape;
            half = prototypes[s].half;
        }
    }
    t->radius = (wide > high ? wide : high) / 2.0 / half;
    t->size = (t->radius > size_edges[0]) + (t->radius > size_edges[1]);
}

/* Mean difference of the thing's inside (mark 1, as is the 5x5 square round it) from a colour; -1 when there is none.
 */
static double error_inside(const struct picture *p, const uint8_t *marks, const double rgb[3])
{
    double sum = 0, count = 0, here[3];
    for (int y = 2; y < p->height - 2; y++)
        for (int x = 2; x < p->width - 2; x++) {
            int inside = 1;
            for (int k = 0; k < 25 && inside; k++) inside = marks[(y + k / 5 - 2) * p->width + x + k % 5 - 2] == 1;
            if (!inside) continue;
            pixel(p, y * p->width + x, here);
            for (int c = 0; c < 3; c++) sum += fabs(here[c] - rgb[c]) / 3;
            count++;
        }
    return count > 0 ? sum / count : -1;
}

/* Names the colour of the thing in list and redraws its marks: 1 inside, 0 elsewhere. */
static void outline_thing(const struct picture *p, struct workspace *w, int count, const double ground[3],
                          struct thing *t)
{
    int width = p->width, height = p->height;
    double rgb[3], here[3];
    memset(w->marks, 0, (size_t)width * (size_t)height);
    for (int i = 0; i < count; i++) w->marks[w->list[i]] = 1;
    for (int i = 0; i < count; i++) { /* 2: pixels with the thing on all four sides */
        int at = w->list[i], x = at % width, y = at / width;
        if (x > 0 && y > 0 && x < width - 1 && y < height - 1 && w->marks[at - 1] && w->marks[at + 1] &&
            w->marks[at - width] && w->marks[at + width])
            w->marks[at] = 2;
    }
    int inner = median_colour(p, w->marks, 2, rgb), pure = 0;
    if (inner == 0) median_colour(p, w->marks, 1, rgb);
    t->colour = nearest(colours, SIGHT_COLOURS, rgb, colour_reach);
    for (int i = 0; i < count; i++) {
        pixel(p, w->list[i], here);
        pure += w->marks[w->list[i]] == 2 && off_mixture(here, rgb, ground) < mixture_reach;
        w->marks[w->list[i]] = distance(here, rgb) < distance(here, ground);
    }
    t->colour_error = error_inside(p, w->marks, colours[nearest(colours, SIGHT_COLOURS, rgb, INFINITY)]);
    if (pure < min_purity * inner) t->colour = -1;
}

static void look(const struct picture *p, struct workspace *w, struct sight *out)
{
    int width = p->width, height = p->height, pixels = width * height;
    double ground[3], here[3];
    for (int i = 0; i < pixels; i++) {
        int x = i % width, y = i / width;
        w->marks[i] = x < FRAME || y < FRAME || x >= width - FRAME || y >= height - FRAME;
    }
    median_colour(p, w->marks, 1, ground);
    out->background = nearest(backgrounds, SIGHT_BACKGROUNDS, ground, colour_reach);
    for (int i = 0; i < pixels; i++) {
        pixel(p, i, here);
        w->map[i] = distance(here, ground) > away_from_background;
    }
    for (int i = 0; i < pixels; i++) {
        if (w->map[i] != 1) continue;
        int count = flood(w->map, width, height, i, 1, 2, w->list);
        if (count < MIN_AREA) continue;
        if (out->count++ >= SIGHT_MAX_THINGS) continue;
        struct thing *t = &out->things[out->count - 1];
        outline_thing(p, w, count, ground, t);
        describe(p, w, t);
    }
}

int sight_look(const struct picture *picture, struct sight *out)
{
    memset(out, 0, sizeof *out);
    if (picture->width < 16 || picture->height < 16 || picture->width > 4096 || picture->height > 4096) return -1;
    size_t pixels = (size_t)picture->width * (size_t)picture->height;
    struct workspace w = {malloc(pixels), malloc(pixels), malloc(pixels), malloc(pixels * sizeof(int)),
                          malloc(((size_t)picture->height * 4 + 8) * sizeof(int[2]))};
    int ok = w.map && w.marks && w.spare && w.list && w.hull;
    if (ok) look(picture, &w, out);
    free(w.map);
    free(w.marks);
    free(w.spare);
    free(w.list);
    free(w.hull);
    return ok ? 0 : -1;
}
