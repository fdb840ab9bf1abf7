/* kernels_depthwise.h - depthwise convolution of neighbouring results, which share the weights of a tap, and along a
 * row of taps the pixels too; part of kernels_template.h.
 */

/* Taps that lie `step` bytes apart, as results do, up to 7. */
INLINE size_t taps_in_row(const void *const *x, size_t step, size_t taps)
{
    size_t n = 1;
    while (n < taps && n < 7 && (const char *)x[n] - (const char *)x[n - 1] == (ptrdiff_t)step) n++;
    return LANES < 8 || n < 3 ? 1 : n < 4 ? 3 : n < 7 ? 4 : 7;
}
/* A pixel is read once for the results that see it. */
INLINE void add_taps(const uint32_t type, const size_t taps, vf sum[DEPTHWISE_RESULTS], const char *x, size_t step,
                     const float *w, const size_t *place, size_t i, size_t left)
{
    vf seen[DEPTHWISE_RESULTS];
    UNROLL for (size_t r = 0; r < DEPTHWISE_RESULTS; r++) seen[r] = get_as(type, x + r * step, i, left);
    UNROLL for (size_t t = 0; t < taps; t++)
    {
        vf by = get_any(w + place[t] + i, left);
        UNROLL for (size_t r = 0; r < DEPTHWISE_RESULTS; r++) sum[r] =
            VFMA(seen[(r + t) % DEPTHWISE_RESULTS], by, sum[r]);
        if (t + 1 < taps) seen[t % DEPTHWISE_RESULTS] = get_as(type, x + (t + DEPTHWISE_RESULTS) * step, i, left);
    }
}
/* Taps that are added together. */
typedef struct {
    const char *x;
    const size_t *place;
    size_t taps;
} tap_run;

INLINE size_t tap_runs(tap_run run[MOST_DEPTHWISE_TAPS], const depthwise_taps *d)
{
    size_t n = 0;
    for (size_t t = 0; t < d->taps; t += run[n++].taps)
        run[n] = (tap_run){d->x[t], d->place + t, taps_in_row(d->x + t, d->step, d->taps - t)};
    return n;
}
INLINE void depthwise_sums(const uint32_t type, vf sum[DEPTHWISE_RESULTS], const depthwise_taps *d, const tap_run *run,
                           size_t runs, size_t i, size_t left)
{
    const size_t step = d->step;
    const float *w = d->w;
    UNROLL for (size_t r = 0; r < DEPTHWISE_RESULTS; r++) sum[r] = splat(0);
    for (size_t t = 0; t < d->taps && left < LANES; t++)
        add_taps(type, 1, sum, d->x[t], step, w, d->place + t, i, left);
    for (const tap_run *end = run + runs; run < end && left >= LANES; run++)
        if (run->taps == 7)
            add_taps(type, 7, sum, run->x, step, w, run->place, i, LANES);
        else if (run->taps == 4)
            add_taps(type, 4, sum, run->x, step, w, run->place, i, LANES);
        else if (run->taps == 3)
            add_taps(type, 3, sum, run->x, step, w, run->place, i, LANES);
        else
            add_taps(type, 1, sum, run->x, step, w, run->place, i, LANES);
    if (d->bias) {
        vf bias = get_any(d->bias + i, left);
        UNROLL for (size_t r = 0; r < DEPTHWISE_RESULTS; r++) sum[r] += bias;
    }
}
/* Two vectors, so that lines of bf16 are stored whole. */
INLINE void depthwise_results_as(const uint32_t type, void *to, uint32_t to_type, size_t ldt, const depthwise_taps *d,
                                 size_t n, int past)
{
    tap_run run[MOST_DEPTHWISE_TAPS];
    size_t i = 0, runs = tap_runs(run, d);
    vf sum[2][DEPTHWISE_RESULTS];
    for (; i + 2 * LANES <= n && to_type == KILN_BF16; i += 2 * LANES) {
        depthwise_sums(type, sum[0], d, run, runs, i, LANES),
            depthwise_sums(type, sum[1], d, run, runs, i + LANES, LANES);
        UNROLL for (size_t r = 0; r < DEPTHWISE_RESULTS; r++)
            put_two((uint16_t *)(void *)((char *)to + r * ldt) + i, sum[0][r], sum[1][r], past);
    }
    for (; i < n; i += LANES) {
        depthwise_sums(type, sum[0], d, run, runs, i, n - i);
        UNROLL for (size_t r = 0; r < DEPTHWISE_RESULTS; r++)
            put_one(to_type, (char *)to + r * ldt, i, sum[0][r], n - i, past);
    }
}
static void depthwise(void *to, uint32_t to_type, size_t ldt, const depthwise_taps *d, size_t n, int past)
{
    past = past && ldt % CACHE_LINE == 0 && to_line(to) == 0;
    switch (d->type) {
    case KILN_F32: depthwise_results_as(KILN_F32, to, to_type, ldt, d, n, past); break;
    case KILN_BF16: depthwise_results_as(KILN_BF16, to, to_type, ldt, d, n, past); break;
    default: depthwise_results_as(KILN_F16, to, to_type, ldt, d, n, past); break;
    }
}
