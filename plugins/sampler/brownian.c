/* brownian.c - see brownian.h. Sums and products are f32 in torch's order; times are doubles, as in Python. */
#include "brownian.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- numpy's SeedSequence (O'Neill's seed_seq_fe), a pool of 24 words ---- */

enum { POOL = 24, SPAWN_WORDS = 4, SHIFT = 16 };

static uint32_t hash_in(uint32_t value, uint32_t *constant)
{
    value ^= *constant;
    *constant *= 0x931e8875u;
    value *= *constant;
    return value ^ (value >> SHIFT);
}

static uint32_t mixed(uint32_t x, uint32_t y)
{
    uint32_t value = 0xca01f9ddu * x - 0x4973f715u * y;
    return value ^ (value >> SHIFT);
}

/* An integer's words, the lowest first; 0 has one. */
static size_t words_of(uint64_t x, uint32_t *out)
{
    out[0] = (uint32_t)x;
    if (!(x >> 32)) return 1;
    out[1] = (uint32_t)(x >> 32);
    return 2;
}

uint32_t seed_sequence(uint64_t entropy, uint64_t key, int depth)
{
    uint32_t word[POOL + SPAWN_WORDS] = {0}, pool[POOL], constant = 0x43b0d7e5u;
    size_t n = words_of(entropy, word);
    if (depth >= 0) { /* with a spawn key the entropy is filled up with zeros */
        n = POOL;
        n += words_of(key, word + n);
        n += words_of((uint64_t)depth, word + n);
    }
    for (size_t i = 0; i < POOL; i++) pool[i] = hash_in(word[i], &constant); /* absent words count as 0 */
    for (size_t from = 0; from < POOL; from++)
        for (size_t to = 0; to < POOL; to++)
            if (from != to) pool[to] = mixed(pool[to], hash_in(pool[from], &constant));
    for (size_t from = POOL; from < n; from++)
        for (size_t to = 0; to < POOL; to++) pool[to] = mixed(pool[to], hash_in(word[from], &constant));
    uint32_t first = (pool[0] ^ 0x8b51f9ddu) * (0x8b51f9ddu * 0x58f38dedu); /* generate_state's first word */
    return first ^ (first >> SHIFT);
}

/* ---- the tree ---- */

typedef struct {
    double start, end;
    uint64_t key; /* the path from the root, a bit a halving */
    int depth;
} interval;

/* Python's round(x, 6): to the nearest decimal of the exact value. */
static double rounded(double x)
{
    char text[400];
    snprintf(text, sizeof text, "%.6f", x);
    return strtod(text, NULL);
}

static float *kept(brownian_tree *tree, int i)
{
    if (!tree->kept[i]) tree->kept[i] = tree->capacity(tree->owner, tree->n);
    return tree->kept[i];
}

/* left = the increment over the left half of `whole`, of the bridge with w at its end. */
static void halve(const brownian_tree *tree, const interval *whole, double middle, const float *w, float *left)
{
    double a = middle - whole->start, b = whole->end - middle, inverse = 1 / (whole->end - whole->start);
    float share = (float)a, per = (float)inverse, deviation = (float)sqrt(a * b * inverse);
    tree->gaussians(tree->arg, seed_sequence(tree->entropy, whole->key, whole->depth), left, tree->n);
    for (size_t i = 0; i < tree->n; i++) {
        float mean = share * w[i] * per, noise = deviation * left[i];
        left[i] = mean + noise;
    }
}

static interval half_of(const interval *whole, double middle, int right)
{
    return (interval){.start = right ? middle : whole->start,
                      .end = right ? whole->end : middle,
                      .key = 2 * whole->key + (uint64_t)right,
                      .depth = whole->depth + 1};
}

/* sum += the increment from a to b, inside `at`, whose increment is in w (lost). level: how many of kept are in use. */
static kiln_status add_between(brownian_tree *tree, interval at, float *w, double a, double b, int level, float *sum)
{
    while (a != at.start || b != at.end) {
        double middle = rounded(0.5 * (at.end + at.start));
        if (at.depth >= BROWNIAN_DEPTH || level >= BROWNIAN_DEPTH) return KILN_ERR_INVALID;
        float *left = kept(tree, level);
        if (!left) return KILN_ERR_NOMEM;
        halve(tree, &at, middle, w, left);
        if (b <= middle) {
            memcpy(w, left, tree->n * sizeof *w);
            at = half_of(&at, middle, 0);
            continue;
        }
        for (size_t i = 0; i < tree->n; i++) w[i] -= left[i];
        if (a < middle) {
            kiln_status status = add_between(tree, half_of(&at, middle, 0), left, a, middle, level + 1, sum);
            if (status != KILN_OK) return status;
            a = middle;
        }
        at = half_of(&at, middle, 1);
    }
    for (size_t i = 0; i < tree->n; i++) sum[i] += w[i];
    return KILN_OK;
}

static double clamped(double x, double low, double high) { return x < low ? low : x > high ? high : x; }

kiln_status brownian_noise(brownian_tree *tree, double from, double to, float *out)
{
    double low = (double)(float)tree->low, high = (double)(float)tree->high;
    float first = (float)from, second = (float)to, scale = sqrtf(fabsf(second - first)),
          sign = first < second ? 1.0f : -1.0f;
    interval root = {.start = rounded(low), .end = rounded(high)};
    double a = clamped((double)fminf(first, second), root.start, root.end),
           b = clamped((double)fmaxf(first, second), root.start, root.end);
    a = rounded(a), b = rounded(b);
    memset(out, 0, tree->n * sizeof *out);
    if (a == b || scale == 0) return KILN_OK;
    float *w = kept(tree, 0), length = (float)sqrt(high - low);
    if (!w) return KILN_ERR_NOMEM;
    tree->gaussians(tree->arg, seed_sequence(tree->entropy, 0, -1), w, tree->n);
    for (size_t i = 0; i < tree->n; i++) w[i] *= length;
    kiln_status status = add_between(tree, root, w, a, b, 1, out);
    for (size_t i = 0; i < tree->n; i++) out[i] = out[i] * sign / scale;
    return status;
}
