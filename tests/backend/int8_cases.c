/* int8_cases.c - see int8_cases.h. */
#include "int8_cases.h"

#include "harness.h"

#include "base/memory_alloc.h"
#include "tensor/block.h"
#include "tensor/dtype.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of type 0: rows of int8. interleaved: where the kernels do that. */
static const struct {
    uint32_t type;
    int8_use use;
    int interleaved;
} types[] = {{KILN_Q8_0, INT8_MANY, 0},   {KILN_Q4_0, INT8_MANY, 0}, {KILN_Q4_1, INT8_MANY, 0},
             {KILN_Q5_0, INT8_MANY, 0},   {KILN_Q5_1, INT8_MANY, 0}, {KILN_Q4_K, INT8_MANY, 0},
             {KILN_Q4_K, INT8_FEW, 0},    {KILN_Q5_K, INT8_MANY, 0}, {KILN_Q5_K, INT8_FEW, 0},
             {KILN_Q6_K, INT8_MANY, 0},   {KILN_Q6_K, INT8_KEPT, 0}, {KILN_Q8_0, INT8_MANY, 1},
             {KILN_Q5_0, INT8_MANY, 1},   {KILN_Q4_K, INT8_MANY, 1}, {KILN_Q4_K, INT8_FEW, 1},
             {KILN_IQ4_NL, INT8_MANY, 0}, {0, INT8_MANY, 0},         {KILN_IQ4_XS, INT8_MANY, 0}};
enum { TYPES = sizeof types / sizeof types[0], OUTPUTS = 2 * INT8_STRIP, DEPTH = 2 * INT8_DEEP, ROWS = 53 };
/* Of both kinds of kernels: rows that are left over, a tile, two of them, and what is left over then. */
static const size_t some_rows[] = {1, 2, 3, 4, 5, 6, 7, 12, 13, 15, 16, 17, 31, 32, 33, 48, ROWS};

static uint32_t seed = 1;
static float uniform(void)
{
    seed = seed * 1664525u + 1013904223u;
    return ((float)(seed >> 8) + 0.5f) * 0x1p-24f;
}
static float normal(void)
{
    float radius = sqrtf(-2 * logf(uniform()));
    return radius * cosf(6.2831853f * uniform());
}

static const char *name_of(uint32_t type) { return type ? dtype_name(type) : "rows of int8"; }

typedef struct {
    const int8_form *form, *interleaved; /* interleaved NULL: never */
    size_t row;
    uint8_t *blocks;
    float *numbers; /* [OUTPUTS][DEPTH] */
} weights;

/* Codes of every value, the least among them. */
static weights rows_of_codes(void)
{
    weights w = {.form = &int8_form_rows, .row = DEPTH};
    w.blocks = mem_alloc(OUTPUTS * DEPTH), w.numbers = mem_alloc(OUTPUTS * DEPTH * sizeof(float));
    for (size_t i = 0; i < OUTPUTS * DEPTH; i++) {
        w.blocks[i] = (uint8_t)(uniform() * 256);
        w.numbers[i] = (float)(int8_t)w.blocks[i];
    }
    return w;
}

/* Kernels that round codes have no products of what is kept. */
static int takes(const int8_kernels *k, size_t t)
{
    return types[t].use != INT8_KEPT || k->keep_codes || k == &int8_kernels_plain;
}

static weights weights_new(size_t t)
{
    const uint32_t type = types[t].type;
    if (!type) return rows_of_codes();
    weights w = {.form = int8_form_of(type, types[t].use),
                 .interleaved = types[t].interleaved ? int8_form_interleaved(type, types[t].use) : NULL};
    w.row = DEPTH / dtype_block(type) * dtype_block_bytes(type);
    w.blocks = mem_alloc(OUTPUTS * w.row), w.numbers = mem_alloc(OUTPUTS * DEPTH * sizeof(float));
    for (size_t i = 0; i < OUTPUTS * DEPTH; i++) w.numbers[i] = normal();
    CHECK_EQ(block_write(type, w.numbers, w.blocks, OUTPUTS * DEPTH), KILN_OK);
    CHECK_EQ(block_read_plain(type, w.blocks, w.numbers, OUTPUTS * DEPTH), KILN_OK);
    return w;
}
static void weights_free(weights *w) { mem_free(w->blocks), mem_free(w->numbers); }

enum { PARTS = DEPTH / INT8_PART };

static size_t tiles_of(const int8_kernels *k) { return (ROWS + k->rows - 1) / k->rows; }
static size_t rows_bytes(const int8_kernels *k)
{
    return tiles_of(k) * PARTS * (k->wide ? sizeof(int8_wide_part) : k->part_bytes);
}
static void *rows_new(const int8_kernels *k) { return memset(mem_aligned(64, rows_bytes(k)), 0, rows_bytes(k)); }

static size_t whole_quarters(size_t n) { return (n + INT8_QUARTER - 1) / INT8_QUARTER * INT8_QUARTER; }

/* The first `depth` numbers of each row, and what fills up the last quarter. */
static void round_rows(const int8_kernels *k, const int8_form *f, void *to, size_t rows, size_t together, size_t depth,
                       const float *x)
{
    float row[DEPTH];
    for (size_t r = 0; r < rows; r++) {
        size_t n = whole_quarters(depth);
        memset(row, 0, sizeof row);
        memcpy(row, x + r * DEPTH, depth * sizeof *row);
        k->round_row(f, int8_parts_at(k, f, to, r / together * PARTS), r % together, row, n);
    }
}

/* The first `depth` inputs, OUTPUTS / INT8_STRIP strips one behind the other. */
static uint8_t *interleave(const int8_kernels *k, const weights *w, size_t depth)
{
    const size_t strip = depth / w->form->block * w->form->bytes * INT8_STRIP;
    uint8_t *to = mem_alloc(2 * strip + 64);
    memset(to + 2 * strip, 0x5a, 64);
    for (size_t s = 0; s < 2; s++) {
        const uint8_t *row[INT8_STRIP];
        for (size_t i = 0; i < INT8_STRIP; i++) row[i] = w->blocks + (s * INT8_STRIP + i) * w->row;
        k->interleave(w->interleaved, to + s * strip, row, depth);
    }
    for (size_t i = 0; i < 64; i++) CHECK_EQ(to[2 * strip + i], 0x5a); /* as many bytes as the rows have */
    return to;
}

/* Where unpack() finds 16 rows' inputs from `from` on. */
static void rows_at(const weights *w, const uint8_t *interleaved, size_t strip, size_t from, size_t depth,
                    const uint8_t *row[INT8_STRIP])
{
    const size_t before = from / w->form->block * w->form->bytes, all = depth / w->form->block * w->form->bytes;
    for (size_t i = 0; i < INT8_STRIP; i++)
        row[i] = interleaved ? interleaved + (strip * all + before) * INT8_STRIP
                             : w->blocks + (strip * INT8_STRIP + i) * w->row + before;
}

/* c[rows][OUTPUTS], `together` of them side by side, piece after piece of the depth; the last piece is shorter. */
static void multiply(const int8_kernels *k, const weights *w, void *a, size_t rows, size_t together, size_t depth,
                     float *c)
{
    const int takes = k->interleave && w->interleaved && (k->interleaves_all || w->interleaved->scales == 1);
    const int8_form *f = takes ? w->interleaved : w->form;
    if (f->interleaved) depth = whole_quarters(depth);
    uint8_t *interleaved = f->interleaved ? interleave(k, w, depth) : NULL;
    if (k->begin) k->begin(f);
    int8_strip *strip = mem_aligned(64, 2 * sizeof *strip);
    for (size_t from = 0; from < depth; from += INT8_DEEP) {
        size_t n = depth - from < INT8_DEEP ? depth - from : INT8_DEEP, parts = from / INT8_PART;
        for (size_t s = 0; s < 2; s++) {
            const uint8_t *row[INT8_STRIP];
            rows_at(w, interleaved, s, from, depth, row);
            k->unpack(f, strip + s, row, n);
        }
        int8_operand operand = {int8_parts_at(k, f, a, parts), PARTS, rows, together, whole_quarters(n) / INT8_QUARTER};
        k->multiply(f, strip, &operand, c, OUTPUTS, from > 0, &(int8_ahead){.bytes = 0});
    }
    if (k->end) k->end();
    mem_free(strip), mem_free(interleaved);
}

static double error_of(const weights *w, const float *x, const float *c, size_t rows)
{
    double off = 0, all = 0;
    for (size_t r = 0; r < rows; r++)
        for (size_t o = 0; o < OUTPUTS; o++) {
            double sum = 0;
            for (size_t i = 0; i < DEPTH; i++) sum += (double)w->numbers[o * DEPTH + i] * x[r * DEPTH + i];
            off += (sum - c[r * OUTPUTS + o]) * (sum - c[r * OUTPUTS + o]), all += sum * sum;
        }
    return sqrt(off / all);
}

void int8_check_errors(const int8_kernels *k)
{
    float *x = mem_alloc(ROWS * DEPTH * sizeof *x), c[ROWS * OUTPUTS];
    void *a = rows_new(k);
    for (size_t t = 0; t < TYPES; t++) {
        if (!takes(k, t)) continue;
        weights w = weights_new(t);
        double off[2];
        for (int outliers = 0; outliers < 2; outliers++) {
            for (size_t i = 0; i < ROWS * DEPTH; i++) x[i] = normal() * (outliers && i % 97 == 5 ? 100 : 1);
            round_rows(k, w.form, a, ROWS, k->rows, DEPTH, x);
            multiply(k, &w, a, ROWS, k->rows, DEPTH, c);
            off[outliers] = error_of(&w, x, c, ROWS);
        }
        printf("  %s, %s%s%s: %.2e, with outliers %.2e\n", k->name, name_of(types[t].type),
               types[t].use == INT8_FEW ? ", few"
               : types[t].use           ? ", kept"
                                        : "",
               w.interleaved && k->interleave ? ", interleaved" : "", off[0], off[1]);
        CHECK(off[0] <= (w.form->scales == 1 ? 1.15e-2 : 8.2e-3));
        CHECK(off[1] <= 5e-2);
        weights_free(&w);
    }
    mem_free(x), mem_free(a);
}

/* Numbers of every size, and such as are 0 or not finite. */
static void make_rows(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] = normal() * ldexpf(1, (int)(i / 640 % 9) - 4);
    memset(x + INT8_PART, 0, INT8_PART * sizeof *x);
    for (size_t i = 2 * INT8_PART; i < 3 * INT8_PART; i++) x[i] *= 0x1p-120f;
    x[DEPTH + 3] = INFINITY, x[2 * DEPTH + 40] = NAN, x[3 * DEPTH + 7] = -0.0f;
}

static int is_wide(const int8_kernels *k, const int8_form *f) { return k->wide && int8_is_wide(f); }

/* One layout or the other: q of a row's part, and what it is multiplied by. */
static int code_of(const int8_kernels *k, const int8_form *f, const void *part, size_t row, size_t i)
{
    if (k->rows == INT8_TILE_ROWS) return ((const int8_tile_part *)part)->codes[row][i];
    if (is_wide(k, f)) return ((const int8_wide_part *)part)->codes[i / 4][i % 2][row][i % 4 / 2];
    return ((const int8_part *)part)->codes[i / 4][row][i % 4];
}
static float scale_of(const int8_kernels *k, const int8_form *f, const void *part, size_t row)
{
    if (k->rows == INT8_TILE_ROWS) return ((const int8_tile_part *)part)->scale[row];
    return is_wide(k, f) ? ((const int8_wide_part *)part)->scale[row] : ((const int8_part *)part)->scale[row];
}
static int same_number(float a, float b) { return isnan(a) ? isnan(b) : memcmp(&a, &b, sizeof a) == 0; }

static int same_rows(const int8_kernels *k, const int8_form *f, void *expected, void *got)
{
    const int8_kernels *plain = &int8_kernels_plain;
    int same = k->part_bytes != plain->part_bytes || k->wide || !memcmp(expected, got, rows_bytes(k));
    for (size_t r = 0; r < ROWS; r++)
        for (size_t p = 0; p < PARTS; p++) {
            const void *a = int8_parts_at(plain, f, expected, r / plain->rows * PARTS + p),
                       *b = int8_parts_at(k, f, got, r / k->rows * PARTS + p);
            same &= same_number(scale_of(plain, f, a, r % plain->rows), scale_of(k, f, b, r % k->rows));
            for (size_t i = 0; i < INT8_PART; i++)
                same &= code_of(plain, f, a, r % plain->rows, i) == code_of(k, f, b, r % k->rows, i);
        }
    return same;
}

typedef struct {
    const int8_kernels *kernels;
    const float *x;
    void *plain, *fast; /* rows of each */
} operands;

static void compare_sums(const operands *o, const weights *w, size_t rows, size_t together, const char *what)
{
    enum { BEYOND = 2 * OUTPUTS }; /* what no product writes to */
    const int8_kernels *plain = &int8_kernels_plain, *k = o->kernels;
    float expected[ROWS * OUTPUTS + BEYOND], got[ROWS * OUTPUTS + BEYOND];
    for (size_t i = 0; i < ROWS * OUTPUTS + BEYOND; i++) expected[i] = got[i] = 0.5f;
    /* 224: a piece of the last part; 192: a quarter, as interleaved rows have them */
    size_t less = w->form->block > 32 ? 256 : w->interleaved ? 192 : 224, depth = rows % 2 ? DEPTH : DEPTH - less;
    int same = 1;
    round_rows(plain, w->form, o->plain, rows, plain->rows, depth, o->x);
    round_rows(k, w->form, o->fast, rows, together, depth, o->x);
    multiply(plain, w, o->plain, rows, plain->rows, depth, expected);
    multiply(k, w, o->fast, rows, together, depth, got);
    for (size_t i = 0; i < rows * OUTPUTS + BEYOND; i++) same &= same_number(expected[i], got[i]);
    CHECK_MSG(same, "%s, %s%s, %zu rows, %zu together: other sums", k->name, name_of(w->form->type), what, rows,
              together);
    for (size_t i = 0; i < OUTPUTS && rows > 2 && !*what; i++)
        CHECK(isfinite(got[i]) && isnan(got[OUTPUTS + i]) && isnan(got[2 * OUTPUTS + i]));
}

static void check_sums(const operands *o, const weights *w, size_t rows, size_t together)
{
    compare_sums(o, w, rows, together, "");
}

/* Every code as large as the type has it, in rows of nothing but 127 and -127: sums of 16 bits must not stop. */
static void check_largest(const operands *o, weights *w, size_t rows)
{
    const uint32_t type = w->form->type;
    const size_t block = w->form->bytes,
                 head = type == KILN_Q4_K || type == KILN_Q5_K || type == KILN_IQ4_XS ? 16
                        : type == KILN_Q4_1 || type == KILN_Q5_1                      ? 4
                                                                                      : 2,
                 first = type == KILN_Q6_K || !type ? 0 : head, last = type == KILN_Q6_K ? 192 : block;
    for (size_t i = 0; i < OUTPUTS * w->row; i++)
        if (i % block >= first && i % block < last) w->blocks[i] = type == KILN_Q8_0 || !type ? 0x80 : 0xff;
    float *x = mem_alloc(ROWS * DEPTH * sizeof *x);
    for (size_t i = 0; i < ROWS * DEPTH; i++) x[i] = i / DEPTH % 2 ? -0.5f : 0.5f;
    operands all = *o;
    all.x = x;
    compare_sums(&all, w, rows, o->kernels->rows, ", largest codes");
    mem_free(x);
}

void int8_check_bits(const int8_kernels *k)
{
    const int8_kernels *plain = &int8_kernels_plain;
    float *x = mem_alloc(ROWS * DEPTH * sizeof *x);
    operands o = {k, x, rows_new(plain), rows_new(k)};
    make_rows(x, ROWS * DEPTH);
    for (size_t t = 0; t < TYPES; t++) {
        if (!takes(k, t)) continue;
        weights w = weights_new(t);
        memset(o.plain, 0, rows_bytes(plain));
        memset(o.fast, 0, rows_bytes(k));
        round_rows(plain, w.form, o.plain, ROWS, plain->rows, DEPTH, x);
        round_rows(k, w.form, o.fast, ROWS, k->rows, DEPTH, x);
        CHECK_MSG(same_rows(k, w.form, o.plain, o.fast), "%s, %s: other codes", k->name, name_of(types[t].type));
        for (size_t i = 0; i < sizeof some_rows / sizeof *some_rows; i++) check_sums(&o, &w, some_rows[i], k->rows);
        for (size_t together = 2; together < k->rows && k->spread; together++)
            check_sums(&o, &w, 2 * together - 1, together), check_sums(&o, &w, 2 * together, together);
        check_largest(&o, &w, 2 * k->rows + 1);
        weights_free(&w);
    }
    mem_free(x), mem_free(o.plain), mem_free(o.fast);
}

/* ---- transposed weights: terms of a sum have scales of their own ---- */

enum { SOME = 192 /* inputs: not a whole part */ };

/* Columns of every size, of nothing, of hardly anything, and such as are not finite. */
static void make_columns(float *x, size_t ld)
{
    for (size_t i = 0; i < SOME * ld; i++) x[i] = normal() * ldexpf(1, (int)(i % ld % 9) - 4);
    for (size_t i = 0; i < SOME; i++) x[i * ld + 3] = 0, x[i * ld + 20] *= 0x1p-120f;
    x[5 * ld + 7] = NAN, x[131 * ld + 30] = -INFINITY, x[6 * ld + 11] = -0.0f;
}

static int weight_at(const int8_kernels *k, const int8_strip *s, size_t o, size_t i)
{
    uint8_t u = s[o / INT8_STRIP].codes[0][i / 4][o % INT8_STRIP][i % 4];
    return k->rows == INT8_TILE_ROWS || k->wide ? (int8_t)u : u - 128;
}

/* Two strips of rounded columns by rows: the plain kernels' bits. */
static void check_by_columns(const int8_kernels *k, int8_strip *plain, int8_strip *fast, const float *x, size_t rows,
                             const char *what)
{
    const int8_form *f = &int8_form_rounded;
    void *a = rows_new(&int8_kernels_plain), *b = rows_new(k);
    float expected[ROWS * OUTPUTS], got[ROWS * OUTPUTS];
    int same = 1;
    round_rows(&int8_kernels_plain, f, a, rows, int8_kernels_plain.rows, SOME, x);
    round_rows(k, f, b, rows, k->rows, SOME, x);
    const int8_operand of_plain = {a, PARTS, rows, int8_kernels_plain.rows, SOME / INT8_QUARTER},
                       of_fast = {b, PARTS, rows, k->rows, SOME / INT8_QUARTER};
    int8_kernels_plain.multiply(f, plain, &of_plain, expected, OUTPUTS, 0, &(int8_ahead){.bytes = 0});
    if (k->begin) k->begin(f);
    k->multiply(f, fast, &of_fast, got, OUTPUTS, 0, &(int8_ahead){.bytes = 0});
    if (k->end) k->end();
    for (size_t i = 0; i < rows * OUTPUTS; i++) same &= same_number(expected[i], got[i]);
    CHECK_MSG(same, "%s, columns by %zu rows, %s: other sums", k->name, rows, what);
    mem_free(a), mem_free(b);
}

/* By rows of numbers of any sign, of none below 0, and of both; then by nothing but 127 and -127. */
static void check_columns_by_rows(const int8_kernels *k, int8_strip *plain, int8_strip *fast)
{
    float *x = mem_alloc(ROWS * DEPTH * sizeof *x), largest[SOME * OUTPUTS];
    for (size_t i = 0; i < ROWS * DEPTH; i++) x[i] = normal();
    for (size_t rows = 1; rows <= 13; rows++) check_by_columns(k, plain, fast, x, rows, "of any sign");
    for (size_t i = 0; i < ROWS * DEPTH; i++) x[i] = i / DEPTH == 7 ? x[i] : fabsf(x[i]);
    for (size_t rows = 1; rows <= 13; rows++) check_by_columns(k, plain, fast, x, rows, "none below 0 but one");
    for (size_t i = 0; i < ROWS * DEPTH; i++) x[i] = fabsf(x[i]);
    for (size_t rows = 1; rows <= 13; rows++) check_by_columns(k, plain, fast, x, rows, "none below 0");
    for (size_t i = 0; i < SOME * OUTPUTS; i++) largest[i] = i % 2 ? -3 : 3;
    int8_kernels_plain.round_columns(plain, largest, OUTPUTS, SOME), k->round_columns(fast, largest, OUTPUTS, SOME);
    /* 16 bits hold the first's sums of 32 inputs, and not the second's */
    for (size_t i = 0; i < ROWS * DEPTH; i++) x[i] = i % 16 == 1 || i % 32 == 2 || i % 32 == 6 ? 1 : 0;
    check_by_columns(k, plain, fast, x, 13, "the largest codes, 2 of 16 inputs");
    for (size_t i = 0; i < ROWS * DEPTH; i++) x[i] = i % 16 == 1 || i % 32 == 5 ? 1 : 0;
    check_by_columns(k, plain, fast, x, 13, "the largest codes, 3 of 16 inputs");
    for (size_t i = 0; i < ROWS * DEPTH; i++) x[i] = i / DEPTH < 7 ? 1 : -1;
    check_by_columns(k, plain, fast, x, 13, "largest codes");
    mem_free(x);
}

static float scale_of_column(const int8_strip *s, size_t o) { return s[o / INT8_STRIP].scale[0][0][o % INT8_STRIP]; }

void int8_check_columns(const int8_kernels *k)
{
    enum { LD = 40 };
    float x[SOME * LD];
    int8_strip *plain = mem_aligned(64, 2 * sizeof *plain), *fast = mem_aligned(64, 2 * sizeof *fast);
    make_columns(x, LD);
    int8_kernels_plain.round_columns(plain, x, LD, SOME), k->round_columns(fast, x, LD, SOME);
    for (size_t o = 0; o < OUTPUTS; o++) {
        float scale = scale_of_column(fast, o);
        CHECK(same_number(scale_of_column(plain, o), scale));
        CHECK_EQ(isnan(scale) != 0, o == 7 || o == 30);
        for (size_t i = 0; i < SOME; i++) {
            int code = weight_at(k, fast, o, i);
            CHECK_EQ(code, weight_at(&int8_kernels_plain, plain, o, i));
            if (!isnan(scale) && o != 20) CHECK(fabsf((float)code * scale - x[i * LD + o]) <= 0.5001f * scale);
        }
    }
    check_columns_by_rows(k, plain, fast);
    mem_free(plain), mem_free(fast);
}

enum { COLUMNS = 16 * INT8_STRIP };

/* What is read of 256 columns of blocks is what they stand for, times `by`, to half a step; and the plain kernels'
 * bits. `bad`: a row and the columns that it makes NaN. */
static void check_blocks(const int8_kernels *k, uint32_t type, const uint8_t *blocks, const float *x, size_t n,
                         size_t bad_row, size_t bad_first, size_t bad_end)
{
    const uint8_t *row[INT8_PART];
    float by[INT8_PART];
    int8_strip *plain = mem_aligned(64, 16 * sizeof *plain), *fast = mem_aligned(64, 16 * sizeof *fast);
    size_t bytes = COLUMNS / dtype_block(type) * dtype_block_bytes(type);
    int same = 1, near = 1;
    for (size_t i = 0; i < n; i++) row[i] = blocks + i * bytes, by[i] = 1 / (1 + (float)(i % 7));
    int8_kernels_plain.round_blocks(type, plain, row, by, n), k->round_blocks(type, fast, row, by, n);
    for (size_t o = 0; o < COLUMNS; o++) {
        const size_t column = int8_turned_column(o / INT8_STRIP, o % INT8_STRIP);
        const float scale = scale_of_column(fast, o);
        same &= same_number(scale_of_column(plain, o), scale);
        near &= (isnan(scale) != 0) == (bad_row < n && column >= bad_first && column < bad_end);
        for (size_t i = 0; i < n && !isnan(scale); i++) {
            const int code = weight_at(k, fast, o, i);
            same &= code == weight_at(&int8_kernels_plain, plain, o, i);
            near &= fabsf((float)code * scale - x[i * COLUMNS + column] * by[i]) <= 0.51f * scale;
        }
    }
    CHECK_MSG(same, "%s, %s, %zu rows: other bits", k->name, dtype_name(type), n);
    CHECK_MSG(near, "%s, %s, %zu rows: not what the blocks stand for", k->name, dtype_name(type), n);
    mem_free(plain), mem_free(fast);
}

void int8_check_blocks(const int8_kernels *k)
{
    static const uint32_t own[] = {KILN_Q6_K, KILN_Q8_0};
    const size_t n = INT8_PART * COLUMNS;
    float *x = mem_alloc(n * sizeof *x);
    uint8_t *blocks = mem_alloc(n * 2);
    for (size_t t = 0; t < 2; t++) {
        for (size_t i = 0; i < n; i++) x[i] = i < 3 * COLUMNS ? 0 : normal() * ldexpf(1, (int)(i / COLUMNS % 5));
        CHECK_EQ(block_write(own[t], x, blocks, n), KILN_OK);
        CHECK_EQ(block_read_plain(own[t], blocks, x, n), KILN_OK);
        check_blocks(k, own[t], blocks, x, INT8_PART, INT8_PART, 0, 0);
        check_blocks(k, own[t], blocks, x, INT8_QUARTER, INT8_PART, 0, 0);
        /* the scale of row 9 is not finite: 256 columns of Q6_K have it, and 32 of Q8_0 */
        const size_t bytes = COLUMNS / dtype_block(own[t]) * dtype_block_bytes(own[t]);
        uint8_t *scale = blocks + 9 * bytes + (own[t] == KILN_Q6_K ? 208 : 2 * 34);
        scale[0] = 0, scale[1] = 0x7c;
        check_blocks(k, own[t], blocks, x, INT8_PART, 9, own[t] == KILN_Q6_K ? 0 : 64, own[t] == KILN_Q6_K ? 256 : 96);
    }
    mem_free(x), mem_free(blocks);
}
