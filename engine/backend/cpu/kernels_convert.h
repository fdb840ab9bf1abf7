/* kernels_convert.h - the part of kernels_template.h that reads and writes what activations are stored as: f32, bf16
 * and f16, rounded to nearest even, NaN made quiet. Part of that file: included by it alone, once for each width of
 * vectors.
 *
 * A row is fetched some way ahead of where it is read: what is computed between two loads then hides the memory.
 */

INLINE vu words_at(const void *p)
{
    vu v;
    memcpy(&v, p, sizeof v);
    return v;
}
INLINE void put_words(void *p, vu v) { memcpy(p, &v, sizeof v); }
#if LANES == 16
/* A line; past the caches `to` is where one begins. */
INLINE void put_line(void *to, vu v, int past)
{
    if (past)
        _mm512_stream_si512((__m512i *)to, (__m512i)v);
    else
        put_words(to, v);
}
#endif

INLINE vf widen(const uint16_t *p)
{
#if LANES == 16 /* what a compiler makes of the conversion is four instructions */
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p));
    return (vf)_mm512_slli_epi32(wide, 16);
#elif LANES == 8
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
    return (vf)_mm256_slli_epi32(wide, 16);
#else
    vh h;
    memcpy(&h, p, sizeof h);
    return (vf)(__builtin_convertvector(h, vu) << 16);
#endif
}
/* bf16 in the upper halves. */
INLINE vu rounded(vf x)
{
    vu u = (vu)x;
    vu r = u + 0x7fffu + ((u >> 16) & 1u);
    vu nan = (vu)(x != x); /* NOLINT: NaN */
    return (nan & (u | 0x400000u)) | (~nan & r);
}
INLINE vh narrow(vf x) { return __builtin_convertvector(rounded(x) >> 16, vh); }

#if LANES == 16
/* Two vectors at once. The instruction takes subnormals for 0. */
INLINE __m512i narrowed_two(vf a, vf b)
{
#ifdef __AVX512BF16__
    enum { SUBNORMAL = 0x20 };
    if (__builtin_expect(!_mm512_kortestz(_mm512_fpclass_ps_mask((__m512)a, SUBNORMAL),
                                          _mm512_fpclass_ps_mask((__m512)b, SUBNORMAL)),
                         0)) {
        vh low = narrow(a), high = narrow(b);
        return _mm512_inserti64x4(_mm512_castsi256_si512((__m256i)low), (__m256i)high, 1);
    }
    return (__m512i)_mm512_cvtne2ps_pbh((__m512)b, (__m512)a);
#else
    const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    __m512i h = _mm512_packus_epi32((__m512i)(rounded(a) >> 16), (__m512i)(rounded(b) >> 16));
    return _mm512_permutexvar_epi64(order, h);
#endif
}
INLINE void narrow_two(uint16_t *to, vf a, vf b) { _mm512_storeu_si512(to, narrowed_two(a, b)); }
INLINE __m256i narrowed(vf v)
{
#ifdef __AVX512BF16__
    enum { SUBNORMAL = 0x20 };
    if (__builtin_expect(_mm512_fpclass_ps_mask((__m512)v, SUBNORMAL) == 0, 1))
        return (__m256i)_mm512_cvtneps_pbh((__m512)v);
#endif
    return _mm512_cvtepi32_epi16((__m512i)(rounded(v) >> 16));
}
#elif LANES == 8
INLINE __m256i narrowed_two(vf a, vf b)
{
    enum { IN_ORDER = 0xd8 }; /* quarters 0, 2, 1, 3 */
    __m256i h = _mm256_packus_epi32((__m256i)(rounded(a) >> 16), (__m256i)(rounded(b) >> 16));
    return _mm256_permute4x64_epi64(h, IN_ORDER);
}
INLINE void narrow_two(uint16_t *to, vf a, vf b) { _mm256_storeu_si256((__m256i *)(void *)to, narrowed_two(a, b)); }
#endif

/* ---- f16 ---- */

#if LANES == 16
INLINE vf widen_f16(const uint16_t *p)
{
    return (vf)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
INLINE void narrow_f16(uint16_t *to, vf x)
{
    _mm256_storeu_si256((__m256i *)(void *)to,
                        _mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#elif LANES == 8
INLINE vf widen_f16(const uint16_t *p)
{
    return (vf)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}
INLINE void narrow_f16(uint16_t *to, vf x)
{
    _mm_storeu_si128((__m128i *)(void *)to, _mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT));
}
#else
INLINE vf widen_f16(const uint16_t *p)
{
    vf v = {0};
    for (int i = 0; i < LANES; i++) v[i] = f16_to_f32(p[i]);
    return v;
}
INLINE void narrow_f16(uint16_t *to, vf x)
{
    for (int i = 0; i < LANES; i++) to[i] = f16_from_f32(x[i]);
}
#endif

/* ---- rows ---- */

#if LANES == 16
INLINE __mmask16 low_lanes(size_t n) { return (__mmask16)((1u << n) - 1); } /* of fewer than 16 */
#endif

enum { AHEAD = 4096 }; /* bytes */

static void load_f32(float *dst, const float *p, size_t n)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        __builtin_prefetch((const char *)(p + i) + AHEAD);
        put(dst + i, get(p + i));
    }
    for (; i < n; i++) dst[i] = p[i];
}
static void load_bf16(float *dst, const uint16_t *p, size_t n)
{
    size_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        __builtin_prefetch((const char *)(p + i) + AHEAD);
        put(dst + i, widen(p + i)), put(dst + i + LANES, widen(p + i + LANES));
    }
    for (; i + LANES <= n; i += LANES) put(dst + i, widen(p + i));
#if LANES == 16
    if (i < n) {
        const __mmask16 some = low_lanes(n - i);
        __m512i wide = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(some, p + i));
        _mm512_mask_storeu_epi32(dst + i, some, _mm512_slli_epi32(wide, 16));
    }
#else
    for (; i < n; i++) dst[i] = bf16_to_f32(p[i]);
#endif
}
static void load_f16(float *dst, const uint16_t *p, size_t n)
{
    size_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        __builtin_prefetch((const char *)(p + i) + AHEAD);
        put(dst + i, widen_f16(p + i)), put(dst + i + LANES, widen_f16(p + i + LANES));
    }
    for (; i + LANES <= n; i += LANES) put(dst + i, widen_f16(p + i));
    for (; i < n; i++) dst[i] = f16_to_f32(p[i]);
}
static void load(float *dst, const void *src, uint32_t dtype, size_t n)
{
    if (dtype == KILN_F32)
        load_f32(dst, src, n);
    else if (dtype == KILN_BF16)
        load_bf16(dst, src, n);
    else if (dtype == KILN_F16)
        load_f16(dst, src, n);
    else
        dtype_convert(dst, KILN_F32, src, dtype, n);
}

static void store_bf16(uint16_t *p, const float *src, size_t n)
{
    size_t i = 0;
#if LANES >= 8
    for (; i + 2 * LANES <= n; i += 2 * LANES) narrow_two(p + i, get(src + i), get(src + i + LANES));
#endif
    for (; i + LANES <= n; i += LANES) {
        vh h = narrow(get(src + i));
        memcpy(p + i, &h, sizeof h);
    }
#if LANES == 16
    if (i < n) {
        const __mmask16 some = low_lanes(n - i);
        _mm256_mask_storeu_epi16(p + i, some, narrowed((vf)_mm512_maskz_loadu_ps(some, src + i)));
    }
#else
    for (; i < n; i++) p[i] = bf16_from_f32(src[i]);
#endif
}
static void store_f16(uint16_t *p, const float *src, size_t n)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) narrow_f16(p + i, get(src + i));
    for (; i < n; i++) p[i] = f16_from_f32(src[i]);
}
static void store(void *dst, uint32_t dtype, const float *src, size_t n)
{
    if (dtype == KILN_F32)
        memcpy(dst, src, n * sizeof(float));
    else if (dtype == KILN_BF16)
        store_bf16(dst, src, n);
    else if (dtype == KILN_F16)
        store_f16(dst, src, n);
    else
        dtype_convert(dst, dtype, src, KILN_F32, n);
}

static void store_saturating(void *dst, uint32_t dtype, const float *src, size_t n)
{
    const vf most = splat(65504.0f);
    uint16_t *p = dst;
    size_t i = 0;
    if (dtype != KILN_F16) {
        store(dst, dtype, src, n);
        return;
    }
    for (; i + LANES <= n; i += LANES) {
        vf v = get(src + i);
        narrow_f16(p + i, pick(v > most, most, pick(v < -most, -most, v)));
    }
    for (; i < n; i++) p[i] = f16_from_f32(src[i] > 65504.0f ? 65504.0f : src[i] < -65504.0f ? -65504.0f : src[i]);
}

/* ---- past the caches: a large result is read by nobody before it has left them ---- */

static void copy(void *to, const void *from, size_t bytes) { memcpy(to, from, bytes); }

/* Bytes from p to where a line begins. */
INLINE size_t to_line(const void *p) { return (size_t)(0 - (uintptr_t)p) % CACHE_LINE; }

#if LANES < 8
static void store_past(void *dst, uint32_t dtype, const float *src, size_t n) { store(dst, dtype, src, n); }
static void copy_past(void *to, const void *from, size_t bytes) { memcpy(to, from, bytes); }
#else
/* The line at `to`, from 16 or 32 floats. */
INLINE void line_past(void *to, const uint32_t dtype, const float *src)
{
#if LANES == 16
    __m512i *line = (__m512i *)to;
    if (dtype == KILN_F32)
        _mm512_stream_si512(line, (__m512i)get(src));
    else if (dtype == KILN_BF16)
        _mm512_stream_si512(line, narrowed_two(get(src), get(src + LANES)));
    else {
        uint16_t half[2 * LANES];
        narrow_f16(half, get(src)), narrow_f16(half + LANES, get(src + LANES));
        _mm512_stream_si512(line, _mm512_loadu_si512(half));
    }
#else
    for (size_t i = 0; i < 2; i++) {
        __m256i *half_line = (__m256i *)to + i;
        const float *from = src + i * (dtype == KILN_F32 ? LANES : 2 * LANES);
        if (dtype == KILN_F32)
            _mm256_stream_si256(half_line, (__m256i)get(from));
        else if (dtype == KILN_BF16)
            _mm256_stream_si256(half_line, narrowed_two(get(from), get(from + LANES)));
        else {
            uint16_t half[2 * LANES];
            narrow_f16(half, get(from)), narrow_f16(half + LANES, get(from + LANES));
            _mm256_stream_si256(half_line, _mm256_loadu_si256((const __m256i *)(const void *)half));
        }
    }
#endif
}

INLINE void store_past_as(const uint32_t dtype, char *to, const float *src, size_t n)
{
    const size_t size = dtype == KILN_F32 ? 4 : 2, each = CACHE_LINE / size;
    size_t head = to_line(to) / size, i = 0;
    if (n < head + each) {
        store(to, dtype, src, n);
        return;
    }
    if (head) store(to, dtype, src, head);
    for (i = head; i + each <= n; i += each) line_past(to + i * size, dtype, src + i);
    if (i < n) store(to + i * size, dtype, src + i, n - i);
}
static void store_past(void *dst, uint32_t dtype, const float *src, size_t n)
{
    switch (dtype) {
    case KILN_F32: store_past_as(KILN_F32, dst, src, n); break;
    case KILN_BF16: store_past_as(KILN_BF16, dst, src, n); break;
    case KILN_F16: store_past_as(KILN_F16, dst, src, n); break;
    default: store(dst, dtype, src, n); break;
    }
}

static void copy_past(void *to, const void *from, size_t bytes)
{
    size_t i = to_line(to);
    if (bytes < i + CACHE_LINE) {
        memcpy(to, from, bytes);
        return;
    }
    if (i) memcpy(to, from, i);
    for (; i + CACHE_LINE <= bytes; i += CACHE_LINE) {
        __builtin_prefetch((const char *)from + i + AHEAD);
        line_past((char *)to + i, KILN_F32, (const float *)(const void *)((const char *)from + i));
    }
    if (i < bytes) memcpy((char *)to + i, (const char *)from + i, bytes - i);
}
#endif
