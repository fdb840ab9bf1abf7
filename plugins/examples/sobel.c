/* sobel.c - the edges of a picture. Shows: work spread over threads in pieces, so that between them there is progress
 * and a run can be stopped; bytes that do not depend on how many threads there are; an estimate.
 *
 * Sobel's two 3x3 filters on the mean of the colours; the edge is the length of what they give, cut at 1. Beyond the
 * picture its outermost pixels go on.
 */
#include "kiln/kit.h"

#include <math.h>

enum { ROWS_AT_ONCE = 64 };

typedef struct {
    double strength;
} sobel_params;

static const kiln_port in[] = {{.name = "image", .type = "IMAGE", .doc = "Picture to find edges in."}};
static const kiln_port out[] = {{.name = "IMAGE", .type = "IMAGE", .doc = "Light where an edge is."}};
static const kiln_param param[] = {KIT_FLOAT(sobel_params, strength, 1, 0, 16, 0.1, "Times this.")};

/* What the threads share. A row is one picture's. */
typedef struct {
    const float *from;
    float *to;
    int64_t height, width, channels;
    size_t first; /* row of this piece */
    double strength;
} sobel_job;

static double grey(const sobel_job *j, int64_t row, int64_t x, int64_t dy, int64_t dx)
{
    int64_t y = row % j->height + dy, picture = row / j->height;
    y = y < 0 ? 0 : y >= j->height ? j->height - 1 : y;
    x = x + dx < 0 ? 0 : x + dx >= j->width ? j->width - 1 : x + dx;
    const float *p = j->from + ((picture * j->height + y) * j->width + x) * j->channels;
    return ((double)p[0] + (double)p[1] + (double)p[2]) / 3;
}

static void sobel_row(void *arg, size_t i)
{
    static const double side[3] = {1, 2, 1};
    const sobel_job *j = arg;
    const int64_t row = (int64_t)(j->first + i);
    for (int64_t x = 0; x < j->width; x++) {
        double across = 0, down = 0;
        for (int64_t k = -1; k <= 1; k++) {
            across += side[k + 1] * (grey(j, row, x, k, 1) - grey(j, row, x, k, -1));
            down += side[k + 1] * (grey(j, row, x, 1, k) - grey(j, row, x, -1, k));
        }
        double edge = j->strength * sqrt(across * across + down * down);
        for (int64_t k = 0; k < 3; k++) j->to[(row * j->width + x) * 3 + k] = (float)(edge < 1 ? edge : 1);
    }
}

static kiln_status run(const kiln_call *c)
{
    kiln_tensor from, to;
    TRY(kit_f32(c, c->in[0], 4, "image", &from));
    const int64_t dim[4] = {from.dim[0], from.dim[1], from.dim[2], 3};
    TRY(kit_new_f32(c, 4, dim, &c->out[0], &to));
    if (kit_estimating(c)) return KILN_OK;
    sobel_job j = {.from = from.data, .to = to.data, .height = dim[1], .width = dim[2], .channels = from.dim[3]};
    j.strength = ((const sobel_params *)c->params)->strength;
    const size_t rows = (size_t)(dim[0] * dim[1]);
    for (j.first = 0; j.first < rows; j.first += ROWS_AT_ONCE) {
        TRY(c->host->progress(c->ctx, j.first, rows, "edges")); /* KILN_CANCELLED is handed on like an error */
        c->host->parallel_for(c->ctx, rows - j.first < ROWS_AT_ONCE ? rows - j.first : ROWS_AT_ONCE, sobel_row, &j);
    }
    return KILN_OK;
}

static const kiln_node sobel = {KIT_NODE("ExampleSobel", "Sobel edges", "examples", "Finds the edges of a picture."),
                                KILN_ARRAY(in, in), KILN_ARRAY(out, out), KIT_PARAMS(sobel_params, param), .run = run};

KILN_PLUGIN("org.example.sobel", "1.0.0", "MIT", &sobel);
