/* ops_ceiling.c - see ops_ceiling.h */
#include "ops_ceiling.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

static double processor_time(void) /* of this thread */
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double ceiling_pieces_time(char *to, const char *from, size_t room, size_t piece, size_t pieces, size_t each, size_t n)
{
    enum { AHEAD = 16 };
    uint64_t state = 1, at[AHEAD * 4];
    char seen[4096];
    double began = processor_time();
    for (size_t i = 0; i < n; i += AHEAD) {
        for (size_t k = 0; k < AHEAD * pieces; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            at[k] = (state >> 33) % (room / piece - 1) * piece;
            for (size_t b = 0; b < piece; b += 64) __builtin_prefetch(from + at[k] + b);
        }
        for (size_t k = 0; k < AHEAD && i + k < n; k++) {
            for (size_t q = 0; q < pieces; q++) memcpy(seen + q * piece, from + at[k * pieces + q], piece);
            memcpy(to + (i + k) * each, seen, each);
        }
    }
    return processor_time() - began;
}

#if defined __x86_64__
#include <immintrin.h>

/* Six chains of each kind: none waits for its own result. */
#define SIX(M, v) M(v[0]) M(v[1]) M(v[2]) M(v[3]) M(v[4]) M(v[5])
#define MULTIPLY(x) __asm__ volatile("vfmadd213ps %1, %1, %0" : "+v"(x) : "v"(one));
#define OTHER(x) __asm__ volatile("vaddps %1, %0, %0" : "+v"(x) : "v"(one));
#define DIVIDE(x) __asm__ volatile("vdivps %1, %0, %0" : "+v"(x) : "v"(one));

/* `both` of each kind, then more of one. */
__attribute__((target("avx512f"))) static void execute(size_t both, size_t multiplications, size_t others)
{
    const __m512 one = _mm512_set1_ps(1);
    __m512 m[6] = {one, one, one, one, one, one}, a[6] = {one, one, one, one, one, one};
    for (size_t i = 0; i < both; i += 6) {
        SIX(MULTIPLY, m)
        SIX(OTHER, a)
    }
    for (size_t i = 0; i < multiplications; i += 6) {
        SIX(MULTIPLY, m)
    }
    for (size_t i = 0; i < others; i += 6) {
        SIX(OTHER, a)
    }
}
__attribute__((target("avx512f"))) static void divide(size_t n)
{
    const __m512 one = _mm512_set1_ps(1);
    __m512 m[6] = {one, one, one, one, one, one};
    for (size_t i = 0; i < n; i += 6) {
        SIX(DIVIDE, m)
    }
}

/* Each in a line of its own, so that none waits for what another stored. */
static double time_counters(size_t n)
{
    enum { LINES = 64, WORDS = 16, EIGHT = 8 };
    static _Thread_local uint32_t line[LINES][WORDS];
    double began = processor_time();
    for (size_t i = 0; i < n; i += EIGHT)
        for (size_t k = 0; k < EIGHT; k++) __asm__ volatile("incl %0" : "+m"(line[(i + k) % LINES][0]));
    return processor_time() - began;
}

double ceiling_time(const vector_work *w, double n)
{
    if (w->counters > 0) return time_counters((size_t)(w->counters * n / 16));
    if (!__builtin_cpu_supports("avx512f")) return 0;
    double vectors = n / 16, both = w->multiplications < w->others ? w->multiplications : w->others;
    double began = processor_time();
    execute((size_t)(both * vectors), (size_t)((w->multiplications - both) * vectors),
            (size_t)((w->others - both) * vectors));
    double done = processor_time();
    divide((size_t)(w->quotients * vectors));
    double divided = processor_time() - done;
    return divided > done - began ? divided : done - began;
}
#else
double ceiling_time(const vector_work *w, double n)
{
    (void)w, (void)n;
    return 0;
}
#endif
