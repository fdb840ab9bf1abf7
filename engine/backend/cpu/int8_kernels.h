/* int8_kernels.h - products of integers with weights that are stored by blocks (tensor/block.h): rows of the operand
 * are rounded to 8 bits, 256 numbers (a part) to a scale, and multiplied by codes of 8 bits.
 *
 * For an output o, a row r, a part b and a weight that has a scale for each 32 or 256 inputs g of it:
 *     sum[r][o] += a_scale[r][b] (the sum over g of scale[b][g][o] (the sum over g of a q))
 * Types of blocks of 32 without minima keep their codes and scales. Others, d q + m of 16 or 32 inputs each, are
 * rounded to one scale a part (INT8_OFFSET below): arithmetic on scales and minima is what costs beside byte products.
 * Where rows are few, unpacking costs more than that, and Q4_K and Q5_K keep their codes, too: their minima are
 * multiplied by the sums of 32 a, as integers, and least[b][o], which is -dmin, times that is added to what the part
 * sums to, before a_scale. Without byte products Q6_K's 6 bits and its scales are kept likewise: the sum over g, of 16
 * inputs each, is one of integers, and multiplied by d then. A code is stored from 0 up, q = u - zero, where processors
 * multiply unsigned by signed bytes: sums begin at -zero times the sum of a. Integer sums are exact; the rest is f32,
 * in the order above, each line one fused multiplication and addition: so every implementation makes the same bits.
 * Rows of int8 that have a scale of their own alone are summed without it: who asked for the sums multiplies them by
 * it.
 */
#ifndef KILN_BACKEND_CPU_INT8_KERNELS_H
#define KILN_BACKEND_CPU_INT8_KERNELS_H

#include <stddef.h>
#include <stdint.h>

/* Which bits sums have: in result keys, and raised whenever they change. */
enum { INT8_REVISION = 6 };

enum {
    INT8_ROWS = 6,
    INT8_TILE_ROWS = 16,
    INT8_PART = 256,
    INT8_QUARTER = 64, /* what is left of a last part counts in these; the last is filled up with 0 */
    INT8_QUARTERS = INT8_PART / INT8_QUARTER,
    INT8_PIECES = INT8_PART / 32,
    INT8_HALF_PIECES = INT8_PART / 16,
    INT8_WORDS = INT8_PART / 4,
    INT8_QUARTER_WORDS = INT8_QUARTER / 4,
    INT8_STRIP = 16,
    INT8_DEEP = 768,
    INT8_PARTS = INT8_DEEP / INT8_PART
};

/* What int8 products know of a type. zero: see above. */
typedef struct {
    uint32_t type;
    int zero;
    size_t scales; /* of a part: 0, 1 or INT8_PIECES; INT8_HALF_PIECES: integers, and one number for all of them */
    int minima;    /* with those; then scales is INT8_PIECES */
    size_t block, bytes; /* inputs and bytes of a block */
    int interleaved;     /* 1: 16 rows at a time are as interleave() leaves them */
} int8_form;

/* For products of few rows each codes and scales are kept as they are, where that is quicker; for kernels with
 * keep_codes always. */
typedef enum { INT8_MANY, INT8_FEW, INT8_KEPT } int8_use;
/* NULL: not such a type */
const int8_form *int8_form_of(uint32_t type, int8_use use);
const int8_form *int8_form_interleaved(uint32_t type, int8_use use); /* the same, of interleaved rows */
extern const int8_form int8_form_rows;                               /* rows of int8, whole pieces */
extern const int8_form int8_form_rounded;                            /* what round_columns and round_blocks make */

/* Of kernels without byte products: are rows of the operand int8_wide_part? Codes of up to 6 bits are multiplied as
 * bytes, and some of those products are below 2^15 then; and two products of rounded codes are. */
static inline int int8_is_wide(const int8_form *f) { return f->zero == 128 && f != &int8_form_rounded; }

/* Is a group of 16 of the type's numbers a code of at most 8 bits times one scale? */
int int8_rounds_blocks(uint32_t type);
/* Of 256 outputs, which is number o of strip s: what 4 x 16 bytes are once they are turned within vectors' lanes. */
static inline size_t int8_turned_column(size_t s, size_t o) { return s / 4 * 64 + o / 4 * 16 + s % 4 * 4 + o % 4; }

/* A part's weights d q + m, as u = (q multiplier + offset) >> 8 in 16 bits, which is 128 + the weight over the part's
 * scale, rounded. q is 0 to `top`, and `middle` of it stands for m. */
enum { INT8_OFFSET = 257 * 128 /* 128.5 of 256ths */ };

/* Up to INT8_PARTS parts of 16 outputs, in the nearest cache. codes: [part][4 inputs][16 outputs][4], u or q. */
typedef struct {
    _Alignas(64) uint8_t codes[INT8_PARTS][INT8_WORDS][INT8_STRIP][4];
    union {
        _Alignas(64) float scale[INT8_PARTS][INT8_PIECES][INT8_STRIP];
        _Alignas(64) int16_t
            half_pieces[INT8_PARTS][INT8_PIECES][INT8_STRIP][2]; /* integers of both 16 inputs of a piece */
    };
    _Alignas(64) int16_t minimum[INT8_PARTS][INT8_PIECES / 2][INT8_STRIP][2]; /* of two pieces */
    _Alignas(64) float least[INT8_PARTS][INT8_STRIP]; /* or the number that `half_pieces` are multiples of */
    const uint8_t *in_place[INT8_PARTS];              /* of interleaved rows: where codes are that are not unpacked */
} int8_strip;

/* A part of up to INT8_ROWS rows of the operand, which are multiplied together: side by side, so that one address finds
 * them. */
typedef struct {
    int8_t codes[INT8_WORDS][INT8_ROWS][4];
    float scale[INT8_ROWS];
    union {
        int32_t begin[INT8_PIECES][INT8_ROWS];          /* where sums that have a scale each begin */
        int16_t sum[INT8_PIECES / 2][INT8_ROWS][2];     /* for minima: of two pieces */
        int16_t half_pieces[INT8_PIECES][INT8_ROWS][2]; /* by plain kernels, for integers as scales: of 16 inputs */
        int32_t together[INT8_ROWS]; /* without byte products: words whose products with rounded codes 16 bits hold */
    };
} int8_part;

/* The same for codes of more than 6 bits where there are no byte products (AVX2): numbers of 16 bits, the first and
 * third of four inputs, then the second and fourth. */
typedef struct {
    int16_t codes[INT8_WORDS][2][INT8_ROWS][2];
    float scale[INT8_ROWS];
    union {
        int32_t begin[INT8_PIECES][INT8_ROWS];
        int16_t sum[INT8_PIECES / 2][INT8_ROWS][2];
    };
} int8_wide_part;

/* And for codes of 6 bits, u = q + 32: what sums of 16 inputs begin with, -32 times the first two of each four inputs,
 * and -32 times the others. */
typedef struct {
    int8_part part;
    int16_t begin[INT8_HALF_PIECES][INT8_ROWS][2];
} int8_six_part;

/* The same of up to INT8_TILE_ROWS rows for kernels whose codes are q: a quarter is a tile of AMX. */
typedef struct {
    _Alignas(64) int8_t codes[INT8_TILE_ROWS][INT8_PART];
    float scale[INT8_TILE_ROWS];
    int16_t sum[INT8_PIECES / 2][INT8_TILE_ROWS][2];
} int8_tile_part;

/* What will be unpacked next: the same number of bytes of each of two strips' rows. It is asked for bit by bit while
 * products are made, since a processor waits for more than some dozen lines at once. */
typedef struct {
    const uint8_t *row[2 * INT8_STRIP];
    size_t bytes;  /* 0: nothing */
    size_t joined; /* so many rows lie one after the other, as interleaved ones do: what is read first comes first */
} int8_ahead;

/* m rows, `together` side by side, each so many `stride` parts after those before; and how deep they are. */
typedef struct {
    const void *parts;
    size_t stride, m, together, quarters;
} int8_operand;

typedef struct int8_kernels {
    const char *name, *linear, *transposed; /* of the kernels, and of ops that are made of them */
    size_t rows, part_bytes;                /* side by side, and what a part of those takes */
    int wide;                               /* no byte products: int8_part_bytes() says what a part takes */
    int spread;                             /* may fewer rows be side by side? */
    int keep_codes;                         /* INT8_KEPT is the quicker use, for many rows, too */
    int interleaves_all; /* unpack() and multiply() take every interleaved form; else those of one scale a part */
    /* n numbers, whole quarters, to one of the rows of `parts`' first and what follows it. A part that is not finite
     * gets the scale NaN. */
    void (*round_row)(const int8_form *f, void *parts, size_t row, const float *x, size_t n);
    /* n inputs of the rows, whole blocks; what is left of the last quarter becomes 0. */
    void (*unpack)(const int8_form *f, int8_strip *to, const uint8_t *const row[INT8_STRIP], size_t n);
    /* n inputs of 16 rows, whole quarters, to as many bytes, in the order that products read them in: half of the work
     * of unpacking is done once, and memory is gone through in a line. unpack() finds them at row[0]. NULL: these
     * kernels have no interleaved forms. */
    void (*interleave)(const int8_form *f, uint8_t *to, const uint8_t *const row[INT8_STRIP], size_t n);
    /* n inputs (whole quarters, a part at most) of 2 x 16 outputs, x[input][output] and ld numbers apart, to part 0 of
     * two strips: each output's are rounded as a row's part is. */
    void (*round_columns)(int8_strip to[2], const float *x, size_t ld, size_t n);
    /* The same of 256 outputs whose inputs are stored by blocks, those of input i in row[i], and stand for by[i] times
     * their numbers. Groups of 16 outputs have one scale. Outputs are in the order of int8_turned_column(). Only where
     * int8_rounds_blocks() says so. */
    void (*round_blocks)(uint32_t type, int8_strip to[16], const uint8_t *const row[INT8_PART], const float *by,
                         size_t n);
    /* A task's products of one form lie between these, on its thread; NULL: there is nothing to do. */
    void (*begin)(const int8_form *f);
    void (*end)(void);
    /* The rows by two strips: c[a->m][2 x 16], rows ldc apart, or added to it. */
    void (*multiply)(const int8_form *f, const int8_strip *w, const int8_operand *a, float *c, size_t ldc,
                     int accumulate, const int8_ahead *next);
} int8_kernels;

extern const int8_kernels int8_kernels_plain, int8_kernels_avx512vnni, int8_kernels_avxvnni, int8_kernels_avx2,
    int8_kernels_amx;

static inline size_t int8_part_bytes(const int8_kernels *k, const int8_form *f)
{
    if (!k->wide) return k->part_bytes;
    return int8_is_wide(f)                 ? sizeof(int8_wide_part)
           : f->scales == INT8_HALF_PIECES ? sizeof(int8_six_part)
                                           : k->part_bytes;
}
static inline void *int8_parts_at(const int8_kernels *k, const int8_form *f, void *parts, size_t i)
{
    return (char *)parts + i * int8_part_bytes(k, f);
}

#endif
