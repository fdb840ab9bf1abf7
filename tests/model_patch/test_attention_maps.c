/* test_attention_maps.c - what SAG and SEG do at an attention, against sums written down: how much each key is attended
 * to, by more keys than a head is wide; queries that are blurred, with sides that are mirrored, or their mean.
 */
#include "golden_kit.h"

#include "self_attention_guidance.h"
#include "smoothed_energy.h"

#include <math.h>

enum { PICTURES = 2, ROWS = 3, COLUMNS = 4, TOKENS = ROWS * COLUMNS, HEADS = 2, WIDTH = 5, CHANNELS = HEADS * WIDTH };

static array numbers(int64_t n, int64_t tokens, int64_t channels, double seed)
{
    array a = {.rank = 3, .n = (size_t)(n * tokens * channels), .dim = {n, tokens, channels}};
    a.data = malloc(a.n * sizeof(float));
    for (size_t i = 0; i < a.n; i++) a.data[i] = (float)(2 * sin((double)(i * i % 97) * 0.7 + seed * (double)i));
    return a;
}

typedef struct {
    kiln_t given;
    int times;
} catcher;

static void catch_output(const kiln_outputs *out, const char *name, kiln_t t)
{
    catcher *c = out->self;
    CHECK_STR(name, "SelfAttentionGuidance/0.5/2 attended");
    c->given = t, c->times++;
}

/* The sum over queries of softmax(q k), mean over heads, of picture n and key j. */
static double attended_to(const array *q, const array *k, int64_t n, int64_t j)
{
    double sum = 0;
    for (int h = 0; h < HEADS; h++)
        for (int i = 0; i < TOKENS; i++) {
            double score[TOKENS], all = 0;
            for (int t = 0; t < TOKENS; t++) {
                double dot = 0;
                for (int d = 0; d < WIDTH; d++)
                    dot += (double)q->data[(n * TOKENS + i) * CHANNELS + h * WIDTH + d] *
                           (double)k->data[(n * TOKENS + t) * CHANNELS + h * WIDTH + d];
                all += score[t] = exp(dot / sqrt(WIDTH));
            }
            sum += score[j] / all;
        }
    return sum / HEADS;
}

static void test_attention_is_summed(void)
{
    enum { H = 5, W = 9 }; /* of x: every cell takes the nearest token's */
    piece c = piece_new(KILN_F32);
    array q = numbers(PICTURES, TOKENS, CHANNELS, 0.3), k = numbers(PICTURES, TOKENS, CHANNELS, 0.9);
    array wanted = {.rank = 4, .n = PICTURES * H * W, .dim = {PICTURES, H, W, 1}};
    array x = {.rank = 4, .n = PICTURES * H * W * 4, .dim = {PICTURES, H, W, 4}};
    x.data = calloc(x.n, sizeof(float)), wanted.data = malloc(wanted.n * sizeof(float));
    for (int64_t i = 0; i < PICTURES * H * W; i++)
        wanted.data[i] = (float)attended_to(&q, &k, i / (H * W), i / W % H * ROWS / H * COLUMNS + i % W * COLUMNS / W);
    catcher caught = {0};
    kiln_outputs out = {.size = sizeof out, .self = &caught, .add = catch_output};
    kiln_denoise_inputs in = {.size = sizeof in, .x = piece_input(&c, x, KILN_F32), .out = &out};
    kiln_recording r = {.size = sizeof r, .ops = c.ops, .program = c.p, .in = &in};
    kiln_t qs = piece_input(&c, q, KILN_F32), ks = piece_input(&c, k, KILN_F32);
    kiln_attention_info a = {.size = sizeof a,
                             .heads = HEADS,
                             .place = "middle.1.attn1",
                             .q = qs,
                             .k = ks,
                             .v = ks,
                             .grid = {1, ROWS, COLUMNS}};
    model_patch *p = sag_new(0.5, 2);
    p->hook[0].before_attention(&p->hook[0], &r, &a);
    REQUIRE(caught.times == 1 && a.q.id == qs.id);
    c.ops->output(c.p, "unused x", c.ops->affine(c.p, in.x, 1, 0));
    piece_check(&c, c.ops->affine(c.p, caught.given, 1, 0), wanted, 2e-6, "attended to");
    free(p);
}

static void test_other_attention_is_refused(void)
{
    static const int64_t grids[][3] = {{2, 3, 2}, {1, 5, 5}, {0, 0, 0}};
    for (int i = 0; i < 3; i++) {
        piece c = piece_new(KILN_F32);
        array q = numbers(PICTURES, TOKENS, CHANNELS, 0.3);
        array x = {.rank = 4, .n = 64, .dim = {2, 4, 8, 1}, .data = calloc(64, sizeof(float))};
        kiln_denoise_inputs in = {.size = sizeof in, .x = piece_input(&c, x, KILN_F32)};
        kiln_recording r = {.size = sizeof r, .ops = c.ops, .program = c.p, .in = &in};
        kiln_t qs = piece_input(&c, q, KILN_F32);
        kiln_attention_info a = {
            .size = sizeof a, .heads = HEADS, .place = "middle.1.attn1", .q = qs, .k = qs, .v = qs};
        memcpy(a.grid, grids[i], sizeof a.grid);
        model_patch *p = sag_new(0.5, 2);
        const char *message = "";
        p->hook[0].before_attention(&p->hook[0], &r, &a);
        CHECK(c.ops->error(c.p, &message) != KILN_OK && strstr(message, "attention over the cells of pictures"));
        free(p);
        free(q.data), free(x.data);
        c.ops->program_free(c.p);
    }
}

/* ---- SEG ---- */

static int mirror(int i, int n)
{
    while (i < 0 || i >= n) i = i < 0 ? -i : 2 * (n - 1) - i;
    return i;
}

/* The field's kernel: an odd number of cells about 6 sigma wide, at most the rows and one more. */
static double blurred(const array *q, int64_t n, int row, int column, int channel, double sigma)
{
    int size = (int)ceil(6 * sigma), most = ROWS - (ROWS % 2 - 1);
    double sum = 0, weights = 0;
    size += 1 - size % 2;
    if (size > most) size = most;
    for (int i = -(size / 2); i <= size / 2; i++)
        for (int k = -(size / 2); k <= size / 2; k++) {
            double weight = exp(-0.5 * (i * i + k * k) / (sigma * sigma));
            int at = mirror(row + i, ROWS) * COLUMNS + mirror(column + k, COLUMNS);
            sum += weight * (double)q->data[(n * TOKENS + at) * CHANNELS + channel], weights += weight;
        }
    return sum / weights;
}

static double mean(const array *q, int64_t n, int channel)
{
    double sum = 0;
    for (int i = 0; i < TOKENS; i++) sum += (double)q->data[(n * TOKENS + i) * CHANNELS + channel];
    return sum / TOKENS;
}

static void check_queries(double sigma, const char *place, int acts)
{
    piece c = piece_new(KILN_F32);
    array q = numbers(PICTURES, TOKENS, CHANNELS, 0.3), wanted = numbers(PICTURES, TOKENS, CHANNELS, 0.3);
    for (int64_t i = 0; acts && i < (int64_t)q.n; i++) {
        int64_t n = i / (TOKENS * CHANNELS);
        int token = (int)(i / CHANNELS % TOKENS), channel = (int)(i % CHANNELS);
        wanted.data[i] = (float)(sigma < 0 ? mean(&q, n, channel)
                                           : blurred(&q, n, token / COLUMNS, token % COLUMNS, channel, sigma));
    }
    kiln_recording r = {.size = sizeof r, .ops = c.ops, .program = c.p};
    kiln_t qs = piece_input(&c, q, KILN_F32);
    kiln_attention_info a = {.size = sizeof a, .heads = HEADS, .place = place, .q = qs, .grid = {1, ROWS, COLUMNS}};
    model_patch *p = smoothed_energy_new(&(smoothed_energy_settings){.added = {.scale = 3},
                                                                     .blur_sigma = sigma,
                                                                     .sigma_start = -1,
                                                                     .sigma_end = -1,
                                                                     .blocks = {1, {{'i', 7, 0x9}}}});
    kiln_hook *h = &p->hook[PATCH_HOOKS_MAX - 1];
    h->before_attention(h, &r, &a);
    piece_check(&c, c.ops->affine(c.p, a.q, 1, 0), wanted, 2e-6, place);
    free(p);
}

static void test_queries_are_blurred(void)
{
    check_queries(0.3, "input.7.attn1", 1);
    check_queries(0.8, "input.7.t3.attn1", 1);
    check_queries(50, "input.7.attn1", 1);
    check_queries(-1, "input.7.attn1", 1);
    check_queries(0.8, "input.7.attn2", 0);
    check_queries(0.8, "input.7.t2.attn1", 0);
    check_queries(0.8, "input.70.attn1", 0);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_attention_is_summed),
        CASE(test_other_attention_is_refused),
        CASE(test_queries_are_blurred),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
