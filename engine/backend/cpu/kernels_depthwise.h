/* kernels_depthwise.h - depthwise convolution of neighbouring results, which share the weights of a tap; part of
 * kernels_template.h. */

INLINE void depthwise_results_as(const uint32_t type, float *to, size_t ldt, const void *const *x, size_t step,
                                 const float *w, const size_t *place, size_t taps, size_t n)
{
    ROWS_LOOP(n, {
        vf sum[DEPTHWISE_RESULTS] = {{0}};
        for (size_t t = 0; t < taps; t++) {
            vf by = get_any(w + place[t] + i, left);
            UNROLL for (size_t r = 0; r < DEPTHWISE_RESULTS; r++) sum[r] =
                VFMA(get_as(type, (const char *)x[t] + r * step, i, left), by, sum[r]);
        }
        UNROLL for (size_t r = 0; r < DEPTHWISE_RESULTS; r++) put_any(to + r * ldt + i, sum[r], left);
    });
}
static void depthwise(float *to, size_t ldt, const void *const *x, uint32_t type, size_t step, const float *w,
                      const size_t *place, size_t taps, size_t n)
{
    switch (type) {
    case KILN_F32: depthwise_results_as(KILN_F32, to, ldt, x, step, w, place, taps, n); break;
    case KILN_BF16: depthwise_results_as(KILN_BF16, to, ldt, x, step, w, place, taps, n); break;
    default: depthwise_results_as(KILN_F16, to, ldt, x, step, w, place, taps, n); break;
    }
}
