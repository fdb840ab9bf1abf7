/* attention_words.c - see attention_words.h. A block's keys are copied as they lie; its values too for pairs, two keys
 * to a word, while tiles want them on their side. Scores are f32 and limited as those of f32 are.
 */
#include "backend/cpu/attention_words.h"

#include "backend/cpu/attention_pairs.h"
#include "backend/cpu/attention_tiles.h"

#include <assert.h>
#include <math.h>

#if defined __x86_64__
static size_t words_of(int64_t n) { return (size_t)(n + 1) / 2; }

void attention_words_plan(const op_desc *op, attention_plan *p)
{
    int half = op->precision == KILN_BF16;
    for (int i = ATTEND_Q; i <= ATTEND_V; i++) half &= op->in[i].dtype == KILN_BF16 && !op->in[i].weight;
    p->way = half ? cpu_attention() : ATTEND_BY_F32;
    if (p->way == ATTEND_BY_PACKED) p->way = ATTEND_BY_TILES; /* unless attention_packed.h takes it */
    int tiles = p->way == ATTEND_BY_TILES;
    p->words = (int64_t)round_up(words_of(p->D), tiles ? TILE_WORDS : 1);
    p->channels = (int64_t)round_up((size_t)p->Dv, tiles ? TILE_ROWS : 1);
}

/* Of pairs: two keys to a word, and a row of zeros. Of tiles: on their side, and before that as they lie. */
size_t attention_words_values(const attention_plan *p)
{
    enum { PAIRS = ATTEND_KEYS / 2 };
    return p->way == ATTEND_BY_TILES ? (size_t)(PAIRS * (p->channels + p->Dv)) : (size_t)((PAIRS + 1) * p->Dv);
}

/* Key first + i of a block of n, as it lies; NULL: nothing is there. */
static const void *stored_row(const attention_view *v, uint32_t operand, int64_t width, int64_t first, int64_t i,
                              int64_t n)
{
    int64_t row = i < n ? attention_key_row(v, first + i) : -1;
    return row < 0 ? NULL : place_of(&v->c->op.in[operand], v->a->in[operand], row, v->kv * width);
}

static void load_keys(const attention_view *v, int64_t first, int64_t n, int64_t filled, uint32_t *to)
{
    const attention_plan *p = v->p;
    for (int64_t i = 0; i < filled; i++, to += p->words) {
        const void *row = stored_row(v, ATTEND_K, p->D, first, i, n);
        size_t whole = row ? words_of(p->D) : 0;
        if (row) pairs_row(to, row, (size_t)p->D);
        if (whole < (size_t)p->words) memset(to + whole, 0, ((size_t)p->words - whole) * sizeof *to);
    }
}

static void load_value_pairs(const attention_view *v, int64_t first, int64_t n, uint32_t *to)
{
    const int64_t Dv = v->p->Dv;
    uint32_t *zeros = to + ATTEND_KEYS / 2 * Dv;
    memset(zeros, 0, (size_t)Dv * sizeof *zeros);
    for (int64_t i = 0; i < n; i += 2, to += Dv) {
        const void *low = stored_row(v, ATTEND_V, Dv, first, i, n),
                   *high = stored_row(v, ATTEND_V, Dv, first, i + 1, n);
        pairs_of_rows(to, low ? low : zeros, high ? high : zeros, (size_t)Dv);
    }
}

static void load_value_tiles(const attention_view *v, int64_t first, int64_t n, int64_t filled, uint16_t *to)
{
    const attention_plan *p = v->p;
    const size_t Dv = (size_t)p->Dv;
    uint16_t *rows = to + VALUE_KEYS * p->channels;
    for (int64_t i = 0; i < filled; i++) {
        const void *row = stored_row(v, ATTEND_V, p->Dv, first, i, n);
        if (row)
            memcpy(rows + (size_t)i * Dv, row, Dv * sizeof *rows);
        else
            memset(rows + (size_t)i * Dv, 0, Dv * sizeof *rows);
    }
    v->c->k->transpose_half(to, VALUE_KEYS, rows, Dv, (size_t)filled, Dv);
    memset(to + VALUE_KEYS * Dv, 0, VALUE_KEYS * ((size_t)p->channels - Dv) * sizeof *to);
}

void attention_words_load(const attention_view *v, const attention_buffers *b, int64_t first, int64_t n)
{
    static_assert((int)ATTEND_KEYS == (int)VALUE_KEYS, "a block's values lie on their side");
    if (v->p->way == ATTEND_BY_TILES) {
        load_keys(v, first, n, (int64_t)round_up((size_t)n, TILE_ROWS), (uint32_t *)(void *)b->keys);
        load_value_tiles(v, first, n, (int64_t)round_up((size_t)n, TILE_KEYS), (uint16_t *)(void *)b->values);
    } else {
        load_keys(v, first, n, n, (uint32_t *)(void *)b->keys);
        load_value_pairs(v, first, n, (uint32_t *)(void *)b->values);
    }
}

/* Is the strip one head's, whose rows of n numbers are whole words? */
static int lies_as_words(const attention_strip *s, const attention_run *r, const operand_desc *d, int64_t n)
{
    return r->n == s->n && d->dtype == KILN_BF16 && n % 2 == 0 && d->ld % 2 == 0;
}

int attention_words_turn_queries(const attention_view *v, const attention_strip *s, uint32_t *to)
{
    const attention_plan *p = v->p;
    const operand_desc *q = &v->c->op.in[ATTEND_Q];
    attention_run r = attention_run_at(v, s, 0);
    if (p->way == ATTEND_BY_F32 || !lies_as_words(s, &r, q, p->D)) return 0;
    size_t width = (size_t)p->width, words = words_of(p->D);
    const void *from = place_of(q, v->a->in[ATTEND_Q], v->image * p->Tq + r.query, r.head * p->D);
    if (s->n < p->width)
        memset(to, 0, (size_t)p->words * width * sizeof *to);
    else
        memset(to + words * width, 0, ((size_t)p->words - words) * width * sizeof *to);
    v->c->k->transpose((float *)(void *)to, width, from, (size_t)q->ld / 2, (size_t)s->n, words);
    return 1;
}

int attention_words_turn_results(const attention_view *v, const attention_strip *s, const float *sums, const float *by,
                                 uint32_t *row)
{
    const attention_plan *p = v->p;
    const operand_desc *out = &v->c->op.out;
    attention_run r = attention_run_at(v, s, 0);
    if (p->way == ATTEND_BY_F32 || !lies_as_words(s, &r, out, p->Dv)) return 0;
    void *to = (uint16_t *)v->a->out + (v->image * p->Tq + r.query) * out->ld + r.head * p->Dv;
    pairs_results(row, sums, by, (size_t)p->Dv, (size_t)p->width);
    v->c->k->transpose(to, (size_t)out->ld / 2, (const float *)(const void *)row, (size_t)p->width, words_of(p->Dv),
                       (size_t)s->n);
    return 1;
}

/* What a strip has of its own. */
typedef struct {
    float *sums, *max, *sum;
    const uint32_t *q;
} columns;

static columns columns_at(const attention_plan *p, const attention_buffers *b, int64_t strip)
{
    size_t at = (size_t)(strip * p->width);
    return (columns){.sums = b->sums + at * (size_t)p->channels,
                     .max = b->max + at,
                     .sum = b->sum + at,
                     .q = (const uint32_t *)(const void *)b->q + at * (size_t)p->words};
}

static void hide_rest(float *scores, size_t n, size_t filled, size_t width)
{
    for (size_t i = n * width; i < filled * width; i++) scores[i] = -INFINITY;
}

static void rescale(const attention_view *v, float *sums, const float *factor)
{
    for (int64_t i = 0; i < v->p->Dv; i++) v->c->k->mul(sums + i * v->p->width, factor, (size_t)v->p->width);
}

static void attend_pairs(const attention_view *v, const attention_buffers *b, const columns *c,
                         const attention_strip *s, int64_t first, int64_t n, float scale)
{
    const attention_plan *p = v->p;
    size_t width = (size_t)p->width, even = (size_t)(n + n % 2);
    uint32_t *weights = (uint32_t *)(void *)b->scores;
    float factor[ATTEND_STRIP];
    pairs_scores(b->scores, c->q, (const uint32_t *)(const void *)b->keys, (size_t)n, (size_t)p->words, width, scale);
    attention_limit(v, s, b->scores, first, n);
    hide_rest(b->scores, (size_t)n, even, width);
    if (pairs_softmax(weights, b->scores, even, width, c->max, c->sum, factor)) rescale(v, c->sums, factor);
    pairs_values(c->sums, weights, (const uint32_t *)(const void *)b->values, even / 2, (size_t)p->Dv, width);
}

/* Scores are scaled on their way into exponentials, unless something is to be added to them before. */
static void attend_tiles(const attention_view *v, const attention_buffers *b, const columns *c,
                         const attention_strip *s, int64_t first, int64_t n, float scale)
{
    const attention_plan *p = v->p;
    size_t width = (size_t)p->width, filled = round_up((size_t)n, TILE_KEYS);
    uint32_t *weights = (uint32_t *)(void *)b->scores;
    float factor[ATTEND_STRIP];
    int moved, limited = attention_limits(v) || !(scale > 0);
    tiles_scores(b->scores, c->q, (const uint32_t *)(const void *)b->keys, round_up((size_t)n, TILE_ROWS),
                 (size_t)p->words, width);
    if (limited) {
        v->c->k->affine(b->scores, scale, 0, (size_t)n * width);
        attention_limit(v, s, b->scores, first, n);
    }
    hide_rest(b->scores, (size_t)n, filled, width);
    if (limited)
        moved = pairs_softmax(weights, b->scores, filled, width, c->max, c->sum, factor);
    else
        moved = pairs_softmax_scaled(weights, b->scores, filled, width, scale, c->max, c->sum, factor);
    if (moved) rescale(v, c->sums, factor);
    tiles_values(c->sums, weights, (const uint16_t *)(const void *)b->values, filled, (size_t)p->channels, width);
}

void attention_words_attend(const attention_view *v, const attention_buffers *b, int64_t strip,
                            const attention_strip *s, int64_t first, int64_t n, float scale)
{
    columns c = columns_at(v->p, b, strip);
    (v->p->way == ATTEND_BY_TILES ? attend_tiles : attend_pairs)(v, b, &c, s, first, n, scale);
}

void attention_words_begin(const attention_plan *p)
{
    if (p->way == ATTEND_BY_TILES) tiles_begin();
}
void attention_words_end(const attention_plan *p)
{
    if (p->way == ATTEND_BY_TILES) tiles_end();
}
#else
void attention_words_plan(const op_desc *op, attention_plan *p)
{
    (void)op;
    p->way = ATTEND_BY_F32, p->words = 0, p->channels = p->Dv;
}
size_t attention_words_values(const attention_plan *p) { return (void)p, 0; }
int attention_words_turn_queries(const attention_view *v, const attention_strip *s, uint32_t *to)
{
    return (void)v, (void)s, (void)to, 0;
}
int attention_words_turn_results(const attention_view *v, const attention_strip *s, const float *sums, const float *by,
                                 uint32_t *row)
{
    return (void)v, (void)s, (void)sums, (void)by, (void)row, 0;
}
void attention_words_load(const attention_view *v, const attention_buffers *b, int64_t first, int64_t n)
{
    (void)v, (void)b, (void)first, (void)n;
}
void attention_words_attend(const attention_view *v, const attention_buffers *b, int64_t strip,
                            const attention_strip *s, int64_t first, int64_t n, float scale)
{
    (void)v, (void)b, (void)strip, (void)s, (void)first, (void)n, (void)scale;
}
void attention_words_begin(const attention_plan *p) { (void)p; }
void attention_words_end(const attention_plan *p) { (void)p; }
#endif
