/* philox.c - see philox.h. */
#include "philox.h"

#include <math.h>

enum { THREADS = 256, WORDS = 4, ROUNDS = 10 };

void philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0], k1 = key[1];
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t a = (uint64_t)0xd2511f53u * c0, b = (uint64_t)0xcd9e8d57u * c2;
        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)b;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)a;
        k0 += 0x9e3779b9u, k1 += 0xbb67ae85u;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

void cuda_seed(cuda_generator *g, uint64_t seed, uint32_t blocks)
{
    g->seed = seed;
    g->offset = 0;
    g->blocks = blocks;
}

/* Two words -> two Gaussians. The angle's scale is 2 pi 2^-32 in one f32 constant, and both sums are fused, as
 * the device computes them. */
static void box_muller(uint32_t a, uint32_t b, float out[2])
{
    const float unit = 0x1p-32f, turn = 0x1p-32f * 6.2831855f;
    float u = fmaf((float)a, unit, unit / 2), v = fmaf((float)b, turn, turn / 2);
    float radius = sqrtf(-2.0f * logf(u));
    out[0] = radius * sinf(v);
    out[1] = radius * cosf(v);
}

/* The first of a thread's four Gaussians at this word offset: as many as are wanted, or more. */
static void draw(const cuda_generator *g, uint64_t thread, uint64_t offset, size_t wanted, float out[WORDS])
{
    uint64_t at = offset / WORDS;
    const uint32_t key[2] = {(uint32_t)g->seed, (uint32_t)(g->seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)at, (uint32_t)(at >> 32), (uint32_t)thread, (uint32_t)(thread >> 32)};
    uint32_t word[WORDS];
    philox4x32(counter, key, word);
    box_muller(word[0], word[1], out);
    if (wanted > 2) box_muller(word[2], word[3], out + 2);
}

void cuda_randn(cuda_generator *g, float *out, size_t n)
{
    if (n == 0) return;
    size_t blocks = (n + THREADS - 1) / THREADS;
    if (g->blocks && blocks > g->blocks) blocks = g->blocks;
    size_t threads = blocks * THREADS, turns = (n - 1) / (threads * WORDS) + 1;
    for (size_t turn = 0; turn < turns; turn++)
        for (size_t thread = 0; thread < threads; thread++) {
            float four[WORDS];
            size_t first = thread + turn * threads * WORDS;
            if (first >= n) break;
            size_t wanted = (n - 1 - first) / threads + 1;
            draw(g, thread, g->offset + turn * WORDS, wanted, four);
            for (size_t k = 0; k < WORDS && k < wanted; k++) out[first + k * threads] = four[k];
        }
    g->offset += turns * WORDS;
}
