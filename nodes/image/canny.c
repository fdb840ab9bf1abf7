/* canny.c - Canny (J. Canny 1986, "A computational approach to edge detection"), as ComfyUI's node has it of kornia:
 *
 *   gray; Gauss 5x5, sigma 1, edges reflected; Sobel, edges repeated; magnitude sqrt(gx^2 + gy^2 + 1e-6)
 *   a pixel stays where its magnitude is the greatest of the three along its gradient, to the next 45 degrees; of two
 *   alike side by side the left or upper one stays
 *   above high_threshold it is an edge, above low_threshold where it touches one
 *
 * Sums are f32 as there: which of two neighbours is greater hangs on the last bit.
 */
#include "image.h"
#include "image_filters.h"

#include "kiln/kit.h"

#include <math.h>
#include <stdlib.h>

#define EPS 1e-6f
enum { WEAK = 1, STRONG = 2, RADIUS = 2 };

typedef struct {
    double low_threshold, high_threshold;
} canny_params;

/* A picture on its way; planes of h * w. */
typedef struct {
    int64_t h, w, channels;
    const float *picture;
    float *gray, *blurred, *gx, *gy, *magnitude;
    unsigned char *edge;
    int64_t *open; /* strong pixels whose neighbours are still to be looked at */
    float low, high;
} canny;

static int64_t repeated(int64_t i, int64_t n) { return i < 0 ? 0 : i < n ? i : n - 1; }

static void make_gray(const canny *k)
{
    for (int64_t i = 0; i < k->h * k->w; i++) {
        const float *p = k->picture + i * k->channels;
        k->gray[i] = 0.299f * p[0] + 0.587f * p[1] + 0.114f * p[2];
    }
}

static kiln_status blur(const canny *k, const kiln_call *c)
{
    float weight[2 * RADIUS + 1], sum = 0;
    for (int i = -RADIUS; i <= RADIUS; i++) sum += weight[i + RADIUS] = expf(-(float)(i * i) / 2);
    for (int i = 0; i <= 2 * RADIUS; i++) weight[i] /= sum;
    return filter_separable(c, (filter_size){k->h, k->w, 1}, weight, RADIUS, k->gray, k->gx, k->blurred);
}

static float blurred_at(const canny *k, int64_t y, int64_t x)
{
    return k->blurred[repeated(y, k->h) * k->w + repeated(x, k->w)];
}

static void gradient(const canny *k, int64_t y, int64_t x)
{
    float a = blurred_at(k, y - 1, x - 1), b = blurred_at(k, y - 1, x), c = blurred_at(k, y - 1, x + 1),
          d = blurred_at(k, y, x - 1), e = blurred_at(k, y, x + 1), f = blurred_at(k, y + 1, x - 1),
          g = blurred_at(k, y + 1, x), h = blurred_at(k, y + 1, x + 1);
    int64_t i = y * k->w + x;
    k->gx[i] = -a + c - 2 * d + 2 * e - f + h;
    k->gy[i] = -a - 2 * b - c + f + 2 * g + h;
    k->magnitude[i] = sqrtf(k->gx[i] * k->gx[i] + k->gy[i] * k->gy[i] + EPS);
}

/* Neighbours by 45 degrees, from the right on; y grows downwards. */
static const int step[8][2] = {{0, 1}, {1, 1}, {1, 0}, {1, -1}, {0, -1}, {-1, -1}, {-1, 0}, {-1, 1}};

/* 1: the pixel's magnitude counts beside its neighbour's in that direction. Outside the picture nothing changes. */
static int beats(const canny *k, int64_t y, int64_t x, int direction)
{
    int64_t ny = y + step[direction][0], nx = x + step[direction][1];
    int inside = ny >= 0 && ny < k->h && nx >= 0 && nx < k->w;
    float own = k->magnitude[y * k->w + x], other = inside ? k->magnitude[ny * k->w + nx] : sqrtf(EPS);
    return own > other || ((direction == 0 || direction == 2) && own == other);
}

static int class_of(const canny *k, int64_t y, int64_t x)
{
    int64_t i = y * k->w + x;
    float own = k->magnitude[i];
    if (!(own > sqrtf(EPS)) || !(own > k->low)) return 0;
    int direction = (int)rintf(atan2f(k->gy[i], k->gx[i]) * 1.27323954474f); /* 4 / pi */
    direction = (direction + 8) % 8;
    if (!beats(k, y, x, direction) || !beats(k, y, x, (direction + 4) % 8)) return 0;
    return own > k->high ? STRONG : WEAK;
}

/* Weak pixels that hang on strong ones become strong. */
static void follow(const canny *k)
{
    int64_t n = 0;
    for (int64_t i = 0; i < k->h * k->w; i++)
        if (k->edge[i] == STRONG) k->open[n++] = i;
    while (n > 0) {
        int64_t at = k->open[--n], y = at / k->w, x = at % k->w;
        for (int d = 0; d < 8; d++) {
            int64_t ny = y + step[d][0], nx = x + step[d][1];
            if (ny < 0 || ny >= k->h || nx < 0 || nx >= k->w || k->edge[ny * k->w + nx] != WEAK) continue;
            k->edge[ny * k->w + nx] = STRONG;
            k->open[n++] = ny * k->w + nx;
        }
    }
}

/* Of row number `row`. */
static void find_gradients(void *k, size_t row)
{
    for (int64_t x = 0; x < ((const canny *)k)->w; x++) gradient(k, (int64_t)row, x);
}

static void find_classes(void *arg, size_t row)
{
    const canny *k = arg;
    for (int64_t x = 0; x < k->w; x++) k->edge[(int64_t)row * k->w + x] = (unsigned char)class_of(k, (int64_t)row, x);
}

static kiln_status find_edges(canny *k, const kiln_call *c, float *out)
{
    make_gray(k);
    TRY(blur(k, c));
    c->host->parallel_for(c->ctx, (size_t)k->h, find_gradients, k);
    TRY(c->host->progress(c->ctx, 1, 3, "finding edges"));
    c->host->parallel_for(c->ctx, (size_t)k->h, find_classes, k);
    TRY(c->host->progress(c->ctx, 2, 3, "finding edges"));
    follow(k);
    for (int64_t i = 0; i < k->h * k->w; i++) out[3 * i] = out[3 * i + 1] = out[3 * i + 2] = k->edge[i] == STRONG;
    return KILN_OK;
}

static kiln_status canny_check(const kiln_call *c)
{
    const canny_params *p = c->params;
    if (p->low_threshold <= p->high_threshold) return KILN_OK;
    return kit_at_param(c,
                        c->host->fail(c->ctx, KILN_ERR_INVALID,
                                      "low_threshold (%g) is above high_threshold (%g); exchange them",
                                      p->low_threshold, p->high_threshold),
                        "low_threshold");
}

static kiln_status reserve(const kiln_call *c, canny *k)
{
    size_t n = (size_t)(k->h * k->w);
    float **plane[] = {&k->gray, &k->blurred, &k->gx, &k->gy, &k->magnitude};
    for (size_t i = 0; i < sizeof plane / sizeof *plane; i++)
        if (!(*plane[i] = c->host->scratch(c->ctx, n * sizeof(float), KILN_CPU))) return KILN_ERR_NOMEM;
    k->edge = c->host->scratch(c->ctx, n, KILN_CPU);
    k->open = c->host->scratch(c->ctx, n * sizeof *k->open, KILN_CPU);
    return k->edge && k->open ? KILN_OK : KILN_ERR_NOMEM;
}

static kiln_status canny_run(const kiln_call *c)
{
    const canny_params *p = c->params;
    kiln_tensor in, out;
    TRY(canny_check(c)); /* a link may have brought them */
    TRY(kit_f32(c, c->in[0], 4, "image", &in));
    canny k = {.h = in.dim[1],
               .w = in.dim[2],
               .channels = in.dim[3],
               .low = (float)p->low_threshold,
               .high = (float)p->high_threshold};
    TRY(kit_new_f32(c, 4, ((const int64_t[]){in.dim[0], k.h, k.w, 3}), &c->out[0], &out));
    if (kit_estimating(c)) return KILN_OK;
    TRY(reserve(c, &k));
    for (int64_t n = 0; n < in.dim[0]; n++) {
        k.picture = (const float *)in.data + n * k.h * k.w * k.channels;
        TRY(find_edges(&k, c, (float *)out.data + n * k.h * k.w * 3));
    }
    return KILN_OK;
}

static const kiln_port image_in[] = {{.name = "image", .type = "IMAGE", .doc = "The picture, or a batch."}};
static const kiln_port image_out[] = {{.name = "IMAGE", .type = "IMAGE", .doc = "Its edges, white on black."}};
static const kiln_param canny_param[] = {
    KIT_FLOAT(canny_params, low_threshold, 0.4, 0.01, 0.99, 0.01, "Edges that hang on others are at least as strong."),
    KIT_FLOAT(canny_params, high_threshold, 0.8, 0.01, 0.99, 0.01, "Edges by themselves are at least as strong."),
};

const kiln_node node_canny = {
    KIT_NODE("Canny", "Canny", "image/preprocessors", "Finds the edges of a picture, as a hint for a ControlNet."),
    KILN_ARRAY(in, image_in),
    KILN_ARRAY(out, image_out),
    KIT_PARAMS(canny_params, canny_param),
    .run = canny_run,
    .check = canny_check,
};
