/* block_panel.c - see block_panel.h. Numbers of a strip are made row by row, turned so that those of 16 rows stand side
 * by side, and put where the layout has them; bf16's go as words of two inputs.
 */
#include "backend/cpu/block_panel.h"

#include <assert.h>
#include <string.h>

enum { ROWS = BLOCK_PANEL_ROWS, AT_ONCE = 512 };

static int64_t divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b, b = rest;
    }
    return a;
}

static void choose_step(block_panel *p, const row_form *form)
{
    int64_t taps = p->taps, block = (int64_t)form->block, unit = block / divisor(block, taps);
    unit += unit % 2 * unit;
    p->step = unit * taps < AT_ONCE ? AT_ONCE / (unit * taps) * unit : unit;
    if (p->step > p->inputs) p->step = p->inputs;
}

void block_panel_of_words(block_panel *p, const gemm_words *layout, int64_t n, int64_t inputs, uint32_t type,
                          const row_form *form, int64_t taps)
{
    assert(n % ROWS == 0 && inputs % 2 == 0);
    *p = (block_panel){.layout = *layout, .type = type, .n = n, .inputs = inputs, .taps = taps};
    choose_step(p, form);
}

void block_panel_make(block_panel *p, const gemm *to, uint32_t type, const row_form *form, int64_t taps)
{
    const gemm_shape *s = gemm_shape_of(to);
    *p = (block_panel){.to = to, .type = type, .n = s->n, .inputs = s->conv ? s->i : s->k, .taps = taps};
    choose_step(p, form);
    if (!gemm_words_of(to, &p->layout) || p->inputs % 2) p->layout.outputs = 0;
}

void block_panel_turn(block_panel *p, const row_form *form, int64_t turned)
{
    p->line_bytes = ((size_t)(ROWS * turned) + 2 * form->block) * sizeof(float);
}

static size_t piece_bytes(const block_panel *p) { return (size_t)(p->step * p->taps) * size_of(p->type); }

size_t block_panel_scratch(const block_panel *p)
{
    size_t all = (size_t)(p->n * p->inputs * p->taps) * sizeof(float);
    return round_up((p->layout.outputs ? 2 * ROWS * piece_bytes(p) : all) + p->line_bytes, 64);
}

int64_t block_panel_strips(const block_panel *p) { return p->layout.outputs ? (p->n + ROWS - 1) / ROWS : 1; }

void block_panel_clear(const block_panel *p, void *packed)
{
    size_t bytes = gemm_weight_bytes(p->to);
    if (p->layout.outputs && bytes != (size_t)(p->n * p->inputs * p->taps) * size_of(p->type)) memset(packed, 0, bytes);
}

/* n inputs of a row from `input` on, of those that the panel is made of. */
static void read_row(const cpu_kernels *k, const block_panel *p, const block_rows *from, int64_t row, int64_t input,
                     int64_t n, void *to)
{
    size_t size = size_of(p->type), all = (size_t)(n * p->taps) * size, there = 0;
    int64_t left = from->inputs - input, at = row < from->half ? from->first + row : from->second + row - from->half;
    if (row < p->n && left > 0) {
        size_t count = (size_t)(min64(n, left) * p->taps);
        row_form_codes(k, from->form, from->data, at, (from->from + input) * p->taps, to, p->type, count);
        there = count * size;
    }
    memset((char *)to + there, 0, all - there);
}

/* Of numbers that stand `step` apart as a row of the data has them, those of the panel's taps. */
static void pick_taps(const block_panel *p, const block_rows *from, const char *line, char *to)
{
    if (p->type == KILN_BF16)
        for (int64_t t = 0; t < p->taps; t++)
            ((uint16_t *)(void *)to)[t] = ((const uint16_t *)(const void *)line)[from->tap[t]];
    else
        for (int64_t t = 0; t < p->taps; t++)
            ((float *)(void *)to)[t] = ((const float *)(const void *)line)[from->tap[t]];
}

/* The same of `rows` rows, `ld` bytes apart, where a row of the data is one input's. line: turned_line() bytes. */
static void read_turned(const cpu_kernels *k, const block_panel *p, const block_rows *from, int64_t row, int64_t rows,
                        int64_t input, int64_t n, char *to, size_t ld, char *line)
{
    size_t size = size_of(p->type), each = (size_t)p->taps * size;
    int64_t block = (int64_t)from->form->block, there = min64(rows, p->n - row),
            begin = (from->first + row) * from->turned;
    int64_t start = begin / block * block, end = (begin + there * from->turned + block - 1) / block * block;
    for (int64_t i = 0; i < n; i++) {
        row_form_codes(k, from->form, from->data, from->from + input + i, start, line, p->type, (size_t)(end - start));
        for (int64_t r = 0; r < there; r++)
            pick_taps(p, from, line + (size_t)(begin - start + r * from->turned) * size,
                      to + (size_t)r * ld + (size_t)i * each);
    }
    for (int64_t r = there; r < rows; r++) memset(to + (size_t)r * ld, 0, (size_t)n * each);
}

/* `rows` rows from `row` on, `ld` bytes apart. */
static void read_rows(const cpu_kernels *k, const block_panel *p, const block_rows *from, int64_t row, int64_t rows,
                      int64_t input, int64_t n, char *to, size_t ld, char *line)
{
    if (from->turned)
        read_turned(k, p, from, row, rows, input, n, to, ld, line);
    else
        for (int64_t r = 0; r < rows; r++) read_row(k, p, from, row + r, input, n, to + (size_t)r * ld);
}

static uint32_t *place_of_step(const gemm_words *l, int64_t strip, int64_t step, uint32_t *packed)
{
    int64_t o = strip * ROWS;
    return packed + o / l->outputs * l->output_stride + o % l->outputs + step / l->steps * l->step_stride +
           step % l->steps * l->outputs;
}

/* Tap t of the i-th step of turned words. */
static inline void place_word(const cpu_kernels *k, const block_panel *p, const uint32_t *words, int64_t i, int64_t t,
                              uint32_t *to)
{
    if (p->type == KILN_BF16 && p->taps > 1)
        k->pair_words(to, words, (size_t)(2 * i * p->taps + t), (size_t)((2 * i + 1) * p->taps + t));
    else
        memcpy(to, words + (i * p->taps + t) * ROWS, ROWS * sizeof *to);
}

/* Turned words of inputs [input, input + n) to where the layout has them. */
static void place_words(const cpu_kernels *k, const block_panel *p, int64_t strip, int64_t input, int64_t n,
                        const uint32_t *words, uint32_t *packed)
{
    const gemm_words *l = &p->layout;
    int64_t in_step = p->type == KILN_BF16 ? 2 : 1, lines = p->taps / l->wide;
    for (int64_t i = 0; i < n / in_step; i++) {
        uint32_t *step_at = place_of_step(l, strip, input / in_step + i, packed);
        for (int64_t y = 0; y < lines; y++) {
            uint32_t *line = step_at + y / l->high * l->deep_stride + y % l->high * l->high_stride;
            for (int64_t x = 0; x < l->wide; x++)
                place_word(k, p, words, i, y * l->wide + x, line + x * l->wide_stride);
        }
    }
}

/* Words from one step to the next, where that is always as far. */
static size_t step_distance(const gemm_words *l) { return (size_t)(l->steps == 1 ? l->step_stride : l->outputs); }
static int steps_in_a_row(const block_panel *p)
{
    const gemm_words *l = &p->layout;
    return p->taps == 1 && (l->steps == 1 || l->step_stride == l->steps * l->outputs);
}

static kiln_status pack_by_library(const cpu_kernels *k, const block_panel *p, const block_rows *from, void *packed,
                                   float *numbers, error *e)
{
    block_panel as_f32 = *p;
    size_t row = (size_t)(p->inputs * p->taps) * sizeof(float);
    as_f32.type = KILN_F32;
    for (int64_t r = 0; r < p->n; r += ROWS)
        read_rows(k, &as_f32, from, r, min64(ROWS, p->n - r), 0, p->inputs, (char *)numbers + (size_t)r * row, row,
                  (char *)numbers + (size_t)p->n * row);
    return gemm_pack(p->to, numbers, packed, e);
}

kiln_status block_panel_strip(const cpu_kernels *k, const block_panel *p, const block_rows *from, int64_t strip,
                              void *packed, void *scratch, error *e)
{
    assert(strip < block_panel_strips(p));
    if (!p->layout.outputs) return pack_by_library(k, p, from, packed, scratch, e);
    size_t piece = piece_bytes(p), words = piece / sizeof(uint32_t);
    uint32_t *numbers = scratch, *turned = numbers + ROWS * words;
    for (int64_t i = 0; i < p->inputs; i += p->step) {
        int64_t n = min64(p->step, p->inputs - i);
        read_rows(k, p, from, strip * ROWS, ROWS, i, n, (char *)numbers, piece, (char *)(turned + ROWS * words));
        size_t columns = (size_t)(n * p->taps) * size_of(p->type) / sizeof(uint32_t);
        if (steps_in_a_row(p)) {
            uint32_t *to = place_of_step(&p->layout, strip, p->type == KILN_BF16 ? i / 2 : i, packed);
            k->turn_words(to, step_distance(&p->layout), numbers, words, columns);
        } else {
            k->turn_words(turned, ROWS, numbers, words, columns);
            place_words(k, p, strip, i, n, turned, packed);
        }
    }
    return KILN_OK;
}

kiln_status block_panel_fill(const cpu_kernels *k, const block_panel *p, const block_rows *from, void *packed,
                             void *scratch, error *e)
{
    block_panel_clear(p, packed);
    for (int64_t i = 0; i < block_panel_strips(p); i++) TRY(block_panel_strip(k, p, from, i, packed, scratch, e));
    return KILN_OK;
}
