/* torch_random.c - see torch_random.h. */
#include "torch_random.h"

#include <math.h>

enum { N = 624, M = 397, BLOCK = 16 };
static const double pi = 3.14159265358979323846;

void torch_seed(torch_generator *g, uint64_t seed)
{
    g->word[0] = (uint32_t)seed;
    for (uint32_t i = 1; i < N; i++) g->word[i] = 1812433253u * (g->word[i - 1] ^ (g->word[i - 1] >> 30)) + i;
    g->at = N;
    g->has_next = 0;
    g->next = 0;
}

static uint32_t twist(uint32_t high, uint32_t low, uint32_t other)
{
    uint32_t y = (high & 0x80000000u) | (low & 0x7fffffffu);
    return other ^ (y >> 1) ^ ((low & 1u) ? 0x9908b0dfu : 0u);
}

static void refill(torch_generator *g)
{
    uint32_t *w = g->word;
    for (int i = 0; i < N; i++) w[i] = twist(w[i], w[(i + 1) % N], w[(i + M) % N]);
    g->at = 0;
}

static uint32_t random32(torch_generator *g)
{
    if (g->at == N) refill(g);
    uint32_t y = g->word[g->at++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

static float uniform24(torch_generator *g) { return (float)(random32(g) & 0xffffffu) * 0x1p-24f; }

static double uniform53(torch_generator *g)
{
    uint64_t high = random32(g), low = random32(g);
    return (double)(((high << 32) | low) & ((UINT64_C(1) << 53) - 1)) * 0x1p-53;
}

/* Box-Muller on sixteen uniforms in place: the first eight give the radius, the others the angle. */
static void normal_block(float *d)
{
    for (int j = 0; j < BLOCK / 2; j++) {
        float u1 = 1.0f - d[j], u2 = d[j + 8];
        float radius = sqrtf(-2.0f * logf(u1));
        float theta = (float)(2.0 * pi * (double)u2);
        d[j] = radius * cosf(theta);
        d[j + 8] = radius * sinf(theta);
    }
}

static void fill_blocks(torch_generator *g, float *out, size_t n)
{
    for (size_t i = 0; i < n; i++) out[i] = uniform24(g);
    for (size_t i = 0; i + BLOCK <= n; i += BLOCK) normal_block(out + i);
    if (n % BLOCK == 0) return;
    float *last = out + n - BLOCK; /* the last sixteen are drawn again, over what is there */
    for (int i = 0; i < BLOCK; i++) last[i] = uniform24(g);
    normal_block(last);
}

static float normal_scalar(torch_generator *g)
{
    if (g->has_next) {
        g->has_next = 0;
        return (float)g->next;
    }
    double u1 = uniform53(g), u2 = uniform53(g);
    double radius = sqrt(-2.0 * log1p(-u2)), theta = 2.0 * pi * u1;
    g->next = radius * sin(theta);
    g->has_next = 1;
    return (float)(radius * cos(theta));
}

void torch_randn(torch_generator *g, float *out, size_t n)
{
    if (n >= BLOCK) {
        fill_blocks(g, out, n);
        return;
    }
    for (size_t i = 0; i < n; i++) out[i] = normal_scalar(g);
}

void torch_randperm(torch_generator *g, int64_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++) out[i] = (int64_t)i;
    for (size_t i = 0; i + 1 < n; i++) {
        size_t other = i + random32(g) % (n - i);
        int64_t kept = out[i];
        out[i] = out[other], out[other] = kept;
    }
}
