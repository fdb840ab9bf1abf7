/* kernels_winograd.h - the transforms of Winograd's F(4x4,3x3): Lavin and Gray, "Fast Algorithms for Convolutional
 * Neural Networks", 2015. Part of kernels_template.h: included by it alone, once for each width of vectors. What is
 * read next is fetched meanwhile.
 */

INLINE vf get_stored(const void *p, const uint32_t dtype, size_t at)
{
    return dtype == KILN_BF16 ? widen((const uint16_t *)p + at) : get((const float *)p + at);
}

/* B^T d B: B^T d for one column of six */
INLINE void input_line(vf out[6], const vf d[6])
{
    vf a = VFMA(splat(-4), d[2], d[4]), b = VFMA(splat(-4), d[1], d[3]), c = d[4] - d[2], e = splat(2) * (d[3] - d[1]);
    out[0] = VFMA(splat(4), d[0], VFMA(splat(-5), d[2], d[4]));
    out[1] = a + b;
    out[2] = a - b;
    out[3] = c + e;
    out[4] = c - e;
    out[5] = VFMA(splat(4), d[1], VFMA(splat(-5), d[3], d[5]));
}
INLINE void weight_line(vf out[6], const vf g[3])
{
    vf s = (g[0] + g[2]) * splat(-1.0f / 6), t = g[1] * splat(-1.0f / 6);
    vf u = VFMA(g[0], splat(1.0f / 24), g[2] * splat(1.0f / 6)), v = g[1] * splat(1.0f / 12);
    out[0] = g[0] * splat(0.25f);
    out[1] = s + t;
    out[2] = s - t;
    out[3] = u + v;
    out[4] = u - v;
    out[5] = g[2];
}
INLINE void output_line(vf out[4], const vf m[6])
{
    vf a = m[1] + m[2], b = m[1] - m[2], c = m[3] + m[4], d = m[3] - m[4];
    out[0] = m[0] + a + c;
    out[1] = VFMA(splat(2), d, b);
    out[2] = VFMA(splat(4), c, a);
    out[3] = VFMA(splat(8), d, b) + m[5];
}

INLINE void input_square(float *v, size_t ldv, const void *const pixel[36], const uint32_t dtype, size_t ahead,
                         size_t n)
{
    const size_t size = dtype == KILN_BF16 ? 2 : 4;
    for (size_t i = 0; i < n; i += LANES) {
        vf t[6][6], in[6], out[6];
        for (int p = 0; i * size % 64 == 0 && p < 36; p++)
            if (p % 6 >= 2) __builtin_prefetch((const char *)pixel[p] + i * size + ahead);
        for (int x = 0; x < 6; x++) {
            for (int y = 0; y < 6; y++) in[y] = get_stored(pixel[6 * y + x], dtype, i);
            input_line(out, in);
            for (int y = 0; y < 6; y++) t[y][x] = out[y];
        }
        for (int y = 0; y < 6; y++) {
            input_line(out, t[y]);
            for (int x = 0; x < 6; x++) put(v + (size_t)(6 * y + x) * ldv + i, out[x]);
        }
    }
}
static void winograd_input(float *v, size_t ldv, const void *const pixel[36], uint32_t dtype, size_t ahead, size_t n)
{
    if (dtype == KILN_BF16)
        input_square(v, ldv, pixel, KILN_BF16, ahead, n);
    else
        input_square(v, ldv, pixel, KILN_F32, ahead, n);
}

INLINE void weight_rows(float *u, const void *w, const uint32_t dtype, size_t n)
{
    enum { O = WINOGRAD_BLOCK, ROW = 9 * O, ROWS_AHEAD = 4 * ROW };
    const size_t ldu = WINOGRAD_BLOCK * WINOGRAD_BLOCK + WINOGRAD_APART, size = dtype == KILN_BF16 ? 2 : 4;
    for (size_t i = 0; i < n * O; i += LANES) {
        const char *from = (const char *)w + (i / O * ROW + i % O) * size;
        vf t[6][3], g[3], out[6];
        for (size_t k = 0; i * size % 64 == 0 && k < 9; k++) __builtin_prefetch(from + (k * O + ROWS_AHEAD) * size);
        for (size_t x = 0; x < 3; x++) {
            for (size_t y = 0; y < 3; y++) g[y] = get_stored(from, dtype, (3 * y + x) * O);
            weight_line(out, g);
            for (int y = 0; y < 6; y++) t[y][x] = out[y];
        }
        for (int y = 0; y < 6; y++) {
            weight_line(out, t[y]);
            for (int x = 0; x < 6; x++) put(u + (size_t)(6 * y + x) * ldu + i, out[x]);
        }
    }
}
static void winograd_weight(float *u, const void *w, uint32_t dtype, size_t n)
{
    if (dtype == KILN_BF16)
        weight_rows(u, w, KILN_BF16, n);
    else
        weight_rows(u, w, KILN_F32, n);
}

INLINE void put_stored(void *to, const uint32_t dtype, size_t at, vf v)
{
    if (dtype == KILN_F32) {
        put((float *)to + at, v);
        return;
    }
#if LANES == 16
    _mm256_storeu_si256((__m256i *)(void *)((uint16_t *)to + at), narrowed(v));
#else
    vh h = narrow(v);
    memcpy((uint16_t *)to + at, &h, sizeof h);
#endif
}

INLINE void output_square(const winograd_square *s, const uint32_t dtype, size_t n)
{
    const size_t size = dtype == KILN_BF16 ? 2 : 4;
    for (size_t i = 0; i < n; i += LANES) {
        vf t[4][6], in[6], out[4], bias = s->bias ? get(s->bias + i) : splat(0);
        for (int p = 0; i * size % 64 == 0 && p < 16; p++)
            if (s->to[p]) __builtin_prefetch((const char *)s->to[p] + i * size + s->ahead, 1);
        for (int x = 0; x < 6; x++) {
            for (int y = 0; y < 6; y++) in[y] = get(s->m + (size_t)(6 * y + x) * s->ldm + i);
            output_line(out, in);
            for (int y = 0; y < 4; y++) t[y][x] = out[y];
        }
        for (int y = 0; y < 4; y++) {
            output_line(out, t[y]);
            for (int x = 0; x < 4; x++) {
                if (!s->to[4 * y + x]) continue;
                vf v = s->bias ? out[x] + bias : out[x];
                if (s->added_type) v += get_stored(s->added[4 * y + x], s->added_type, i);
                put_stored(s->to[4 * y + x], dtype, i, v);
            }
        }
    }
}
static void winograd_output(const winograd_square *s, size_t n)
{
    if (s->type == KILN_BF16)
        output_square(s, KILN_BF16, n);
    else
        output_square(s, KILN_F32, n);
}
