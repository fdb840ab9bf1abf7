/* int8_interleaved.h - rows of 16 outputs that are interleaved when they are packed, for vectors of LANES numbers: how
 * they are laid out, and how strips are made of them. Part of int8_strips.h, of whose functions it is made.
 * INT8_IN_PLACE: multiply() finds the codes of some types where they are, in the packed rows.
 */

/* Of a part of n inputs: Q4_K's heads, turned (four registers), and its nibbles, a register of word i of pieces 2 p and
 * 2 p + 1 at 8 p + i. Blocks of 32: half numbers d of 16 rows for each block; Q5_0's blocks then, each with a register
 * whose bit w of a byte is the fifth bit of that byte of word w, and four of nibbles; Q8_0's words, u. */

INLINE void put_turned(uint8_t *to, const uint8_t *const row[INT8_STRIP], size_t at, char flip)
{
    UNROLL for (size_t o = 0; o < INT8_STRIP; o += LANES)
    {
        vi t[4];
        turn(t, row + o, at);
        UNROLL for (size_t i = 0; i < 4; i++) put_words_anywhere(to + 64 * i + 4 * o, W(xor)(t[i], V(set1_epi8)(flip)));
    }
}

static void interleave_q4_k(uint8_t *to, const uint8_t *const row[INT8_STRIP], size_t n)
{
    for (size_t p = 0, at = 0; p < n / INT8_PART; p++, at += 144)
        for (size_t i = 0; i < 9; i++, to += 256) put_turned(to, row, at + 16 * i, 0);
}

INLINE void put_halves(uint8_t *to, const uint8_t *const row[INT8_STRIP], size_t at)
{
    for (size_t i = 0; i < INT8_STRIP; i++) memcpy(to + 2 * i, row[i] + at, 2);
}

static void interleave_q8_0(uint8_t *to, const uint8_t *const row[INT8_STRIP], size_t n)
{
    for (size_t b = 0, here; b < n / 32; b += here) {
        here = least_of(n / 32 - b, INT8_PIECES);
        for (size_t i = 0; i < here; i++, to += 32) put_halves(to, row, (b + i) * 34);
        for (size_t i = 0; i < 2 * here; i++, to += 256) put_turned(to, row, (b + i / 2) * 34 + 2 + 16 * (i % 2), -128);
    }
}

/* Bit w of a byte: the fifth bit of that byte of word w. */
INLINE void put_fifths(uint8_t *to, const uint8_t *const row[INT8_STRIP], size_t at)
{
    UNROLL for (size_t o = 0; o < INT8_STRIP; o += LANES)
    {
        const vi fifth = words(row + o, at);
        vi all = W(setzero)();
        UNROLL for (int w = 0; w < 8; w++)
        {
            const vi five = V(srli_epi32)(fifths(fifth, 4 * w), 4);
            all = W(or)(all, V(slli_epi32)(five, (unsigned)w));
        }
        put_words_anywhere(to + 4 * o, all);
    }
}

static void interleave_q5_0(uint8_t *to, const uint8_t *const row[INT8_STRIP], size_t n)
{
    for (size_t b = 0, here; b < n / 32; b += here) {
        here = least_of(n / 32 - b, INT8_PIECES);
        for (size_t i = 0; i < here; i++, to += 32) put_halves(to, row, (b + i) * 22);
        for (size_t i = 0; i < here; i++, to += 320) {
            put_fifths(to, row, (b + i) * 22 + 2);
            put_turned(to + 64, row, (b + i) * 22 + 6, 0);
        }
    }
}

static void interleave(const int8_form *f, uint8_t *to, const uint8_t *const row[INT8_STRIP], size_t n)
{
    if (f->type == KILN_Q4_K)
        interleave_q4_k(to, row, n);
    else
        (f->type == KILN_Q8_0 ? interleave_q8_0 : interleave_q5_0)(to, row, n);
}

INLINE k_scales interleaved_k_scales(const uint8_t *from, size_t first)
{
    vi h[4];
    UNROLL for (size_t i = 0; i < 4; i++) h[i] = words_at(from + 64 * i + 4 * first);
    return k_scales_of(h);
}

#ifdef INT8_IN_PLACE
/* High nibbles are read as 16 q, and have a sixteenth of the scale: the same numbers. */
INLINE void read_nibbles(outputs to, size_t part, const uint8_t *from)
{
    to.strip->in_place[part] = from;
    UNROLL for (size_t i = 1; i < INT8_PIECES; i += 2)
    {
        float *scale = scale_at(to, part, i);
        V(store_ps)(scale, V(mul_ps)(V(load_ps)(scale), V(set1_ps)(1 / 16.0f)));
    }
}
#else
INLINE void read_nibbles(outputs to, size_t part, const uint8_t *from)
{
    for (int pair = 0; pair < INT8_PIECES / 2; pair++, from += 512) UNROLL for (int i = 0; i < 8; i++)
        {
            const vi q = words_at(from + 64 * i + 4 * to.first);
            put_from(0, to, part, 16 * pair + i, bits(q, 0, 15));
            put_from(0, to, part, 16 * pair + 8 + i, bits(q, 4, 15));
        }
}
#endif

static const uint8_t *read_q4_k(int8_strip *to, size_t part, const uint8_t *from)
{
    UNROLL for (size_t o = 0; o < INT8_STRIP; o += LANES)
    {
        const k_scales k = interleaved_k_scales(from, o);
        keep_scales_k((outputs){to, o}, part, &k);
        read_nibbles((outputs){to, o}, part, from + 256);
    }
    return from + INT8_STRIP * 144;
}

/* The same with one scale for the part. */
static const uint8_t *read_rounded_q4_k(int8_strip *to, size_t part, const uint8_t *from)
{
    UNROLL for (size_t first = 0; first < INT8_STRIP; first += LANES)
    {
        const outputs o = {to, first};
        affine a[INT8_PIECES];
        const k_scales k = interleaved_k_scales(from, first);
        scales_k(KILN_Q4_K, o, part, a, &k);
        const uint8_t *at = from + 256 + 4 * first;
        for (int pair = 0; pair < INT8_PIECES / 2; pair++, at += 512) UNROLL for (int i = 0; i < 8; i++)
            {
                const vi q = words_at(at + 64 * i);
                put(o, part, 16 * pair + i, rounded(a[2 * pair], bits(q, 0, 15)));
                put(o, part, 16 * pair + 8 + i, rounded(a[2 * pair + 1], bits(q, 4, 15)));
            }
    }
    return from + INT8_STRIP * 144;
}

INLINE void read_q5_0(outputs to, size_t part, int block, const uint8_t *from)
{
    const vi all = words_at(from + 4 * to.first), bit = V(set1_epi8)(16);
    UNROLL for (int i = 0; i < 4; i++)
    {
        const vi q = words_at(from + 64 + 64 * i + 4 * to.first);
        const vi low = V(slli_epi32)(all, 4 - i), high = i ? V(srli_epi32)(all, i) : all;
        put_from(16, to, part, 8 * block + i, or_and(bits(q, 0, 15), low, bit));
        put_from(16, to, part, 8 * block + 4 + i, or_and(bits(q, 4, 15), high, bit));
    }
}

static const uint8_t *read_blocks(const int8_form *f, int8_strip *to, size_t part, const uint8_t *from, size_t n)
{
    for (size_t i = 0; i < n; i++, from += 32)
        UNROLL for (size_t o = 0; o < INT8_STRIP; o += LANES)
            V(store_ps)(to->scale[part][i] + o, widened(from + 2 * o));
    if (f->type == KILN_Q8_0) {
#ifdef INT8_IN_PLACE
        to->in_place[part] = from;
#else
        memcpy(to->codes[part], from, n * 512);
#endif
        return from + n * 512;
    }
    for (size_t i = 0; i < n; i++, from += 320)
        UNROLL for (size_t o = 0; o < INT8_STRIP; o += LANES) read_q5_0((outputs){to, o}, part, (int)i, from);
    return from;
}

static void unpack_interleaved(const int8_form *f, int8_strip *to, const uint8_t *from, size_t n)
{
    for (size_t p = 0; p * INT8_PART < n; p++) {
        const size_t blocks = least_of(n / 32 - p * INT8_PIECES, INT8_PIECES);
        from = f->minima              ? read_q4_k(to, p, from)
               : f->type == KILN_Q4_K ? read_rounded_q4_k(to, p, from)
                                      : read_blocks(f, to, p, from, blocks);
    }
}
