/* text_vocabulary.c - see text_vocabulary.h.
 *
 * With l = logits / T and p = softmax(l): the entropy of p is log S - W / S for S and W of all words by the largest m;
 * tiles' own are brought to that by e^(m of the tile - m). The drawn word is the first whose running sum reaches
 * (1 - u) of all. Online softmax: Milakov and Gimelshein 2018 (arXiv:1805.02867).
 */
#include "text_vocabulary.h"
#include "vocabulary_statistics.h"

#include <stdio.h>

/* TILE: short enough to forget, and long enough that the processor keeps one copy of a tile for the head and for the
 * embeddings of what it says. TILES_MAX: what concat() takes. */
enum { TILE = 24576, TILES_MAX = 12 };

static const kiln_map to_f32 = {.size = sizeof to_f32, .dtype = KILN_F32};
static const kiln_map to_i32 = {.size = sizeof to_i32, .dtype = KILN_I32};

/* ---- tiles ---- */

static int64_t tiles_of(const text_diffusion_model *m)
{
    const int64_t n = m->vocabulary / (m->tile_rows ? m->tile_rows : TILE);
    return n < 1 || m->simplex > 0 ? 1 : n > TILES_MAX ? TILES_MAX : n;
}

/* Whole blocks in all but the last. */
static int64_t tile_rows(const text_diffusion_model *m)
{
    const int64_t n = tiles_of(m), rows = (m->vocabulary + n - 1) / n;
    return n == 1 ? m->vocabulary : (rows + BLOCK - 1) / BLOCK * BLOCK;
}

int64_t vocabulary_tiles(const text_diffusion_model *m) { return (m->vocabulary + tile_rows(m) - 1) / tile_rows(m); }
static int64_t tile_start(const text_diffusion_model *m, int64_t k) { return k * tile_rows(m); }
static int64_t tile_length(const text_diffusion_model *m, int64_t k)
{
    const int64_t rest = m->vocabulary - tile_start(m, k);
    return rest < tile_rows(m) ? rest : tile_rows(m);
}

typedef struct {
    char name[2][TILES_MAX][60];
    kiln_weight_rule rule[2 * TILES_MAX + 1];
    size_t n;
} tile_rules;

static void rules_of(tile_rules *t, const text_diffusion_model *m, int table, const char *name)
{
    const int64_t n = vocabulary_tiles(m);
    for (int64_t k = 0; k < n; k++) {
        char *to = t->name[table][k];
        snprintf(to, sizeof t->name[0][0], "%s.rows.%lld", name, (long long)k);
        t->rule[t->n++] = (kiln_weight_rule)KILN_RULE(.from = name, .to = to, .row = tile_start(m, k),
                                                      .rows = tile_length(m, k), .more = k + 1 < n);
    }
}

kiln_status vocabulary_cut(kiln_ctx *ctx, text_diffusion_model *m)
{
    const kiln_weights_api *w = td_host->ability(KILN_WEIGHTS_ABILITY);
    if (vocabulary_tiles(m) == 1) return KILN_OK;
    tile_rules *t = td_host->scratch(ctx, sizeof *t, KILN_CPU);
    if (!t) return KILN_ERR_NOMEM;
    t->n = 0;
    rules_of(t, m, 0, m->words);
    if (strcmp(m->words, m->head) != 0) rules_of(t, m, 1, m->head);
    t->rule[t->n++] = (kiln_weight_rule)KILN_RULE(.from = "*", .to = "*");
    kiln_weights *cut = w->view(ctx, m->weights, t->rule, t->n);
    if (!cut) return KILN_ERR_INVALID;
    w->unref(m->weights);
    m->weights = cut;
    return KILN_OK;
}

static kiln_t table(const text_recording *r, const char *name, int64_t k)
{
    const int64_t *dim = KILN_DIMS(tile_length(r->m, k), r->m->width);
    if (vocabulary_tiles(r->m) == 1) return td_weight(r, 2, dim, "%s", name);
    return td_weight(r, 2, dim, "%s.rows.%lld", name, (long long)k);
}

/* ---- words ---- */

static kiln_t number_f32(const text_recording *r, int64_t x)
{
    const float f = (float)x;
    return td_ops->constant(r->p, &f, 1, KILN_DIMS(1));
}

/* Places in tile k, those of other tiles' words brought into it. An id outside of all is left to fail. */
static kiln_t within(const text_recording *r, kiln_t ids, int64_t k)
{
    const int64_t n = vocabulary_tiles(r->m);
    const kiln_t operand[] = {ids, td_number(r, (int32_t)tile_start(r->m, k)),
                              td_number(r, (int32_t)tile_length(r->m, k) - 1)};
    if (n == 1) return ids;
    const char *text = k == 0 ? "min(a - b, c)" : k + 1 == n ? "max(a - b, 0 * c)" : "min(max(a - b, 0), c)";
    return td_ops->map(r->p, text, operand, COUNT(operand), &to_i32);
}

/* x, and of words of tile k y; ids broadcasts to them. */
static kiln_t of_tile(const text_recording *r, kiln_t ids, int64_t k, kiln_t x, kiln_t y)
{
    if (!k) return y;
    return td_ops->map(r->p, "a >= b ? d : c", (kiln_t[]){ids, number_f32(r, tile_start(r->m, k)), x, y}, 4, &to_f32);
}

kiln_t td_words(const text_recording *r, kiln_t ids)
{
    int64_t dim[KILN_MAX_RANK] = {0};
    kiln_t x = {0};
    td_ops->shape(r->p, ids, dim, KILN_MAX_RANK);
    kiln_t place = td_ops->reshape(r->p, ids, 3, KILN_DIMS(dim[0], dim[1], 1));
    for (int64_t k = 0; k < vocabulary_tiles(r->m); k++)
        x = of_tile(r, place, k, x, td_ops->embedding(r->p, table(r, r->m->words, k), within(r, ids, k)));
    const kiln_map scaled = {.size = sizeof scaled, .dtype = KILN_F32, .number = {r->m->word_scale}};
    return td_ops->map(r->p, "a * p", &x, 1, &scaled);
}

static kiln_t capped(const text_recording *r, kiln_t x)
{
    const float softcap = r->m->softcap;
    const kiln_map cap = {.size = sizeof cap, .dtype = KILN_F32, .number = {softcap}};
    return td_ops->map(r->p, softcap > 0 ? "p * tanh(a / p)" : "a", &x, 1, &cap);
}

static kiln_t uncapped(const text_recording *r, kiln_t x, int64_t k)
{
    return td_ops->linear(r->p, x, table(r, r->m->head, k), (kiln_t){0});
}

kiln_t td_logits(const text_recording *r, kiln_t x, int64_t k)
{
    x = capped(r, uncapped(r, x, k));
    td_see(r, x, "logits");
    return x;
}

/* The logits of some words of each place: x [1,t,width], ids [1,t,n] -> f32 [1,t,n]. */
static kiln_t logits_at(const text_recording *r, kiln_t x, kiln_t ids, int64_t n)
{
    const kiln_matmul transposed = {.size = sizeof transposed, .transpose_b = 1};
    kiln_t y = {0}, row = td_ops->reshape(r->p, x, 3, KILN_DIMS(r->t, 1, r->m->width));
    for (int64_t k = 0; k < vocabulary_tiles(r->m); k++) {
        kiln_t words = td_ops->embedding(r->p, table(r, r->m->head, k), within(r, ids, k));
        words = td_ops->reshape(r->p, words, 3, KILN_DIMS(r->t, n, r->m->width));
        kiln_t one = td_ops->matmul(r->p, row, words, &transposed);
        y = of_tile(r, ids, k, y, td_ops->reshape(r->p, one, 3, KILN_DIMS(1, r->t, n)));
    }
    return capped(r, y);
}

/* ---- what stays of a tile ---- */

typedef struct {
    int64_t n;              /* tiles so far */
    kiln_t m, s, w, plain;  /* plain: logarithm of the sum at a temperature of 1, where it is asked for */
    kiln_t likeliest, soft; /* soft: by the probabilities of the tiles so far */
    kiln_t maximum[TILES_MAX], blocks[TILES_MAX];
    kiln_t logits, e; /* of the last tile */
} choice;

static kiln_t sum(const text_recording *r, kiln_t x) { return td_ops->reduce(r->p, x, KILN_REDUCE_SUM, 4, 1); }
static kiln_t map_f32(const text_recording *r, const char *text, uint32_t n, const kiln_t *x)
{
    return td_ops->map(r->p, text, x, n, &to_f32);
}
#define MAP(text, ...) map_f32(r, text, sizeof((kiln_t[]){__VA_ARGS__}) / sizeof(kiln_t), (kiln_t[]){__VA_ARGS__})

/* e [1,t,n] summed over blocks: [1,t,blocks] */
static kiln_t by_blocks(const text_recording *r, kiln_t e, int64_t n)
{
    const int64_t more = (BLOCK - n % BLOCK) % BLOCK;
    if (more) e = td_ops->pad(r->p, e, KILN_DIMS(0, 0, 0), KILN_DIMS(0, 0, more), KILN_PAD_ZERO, 0);
    e = td_ops->reshape(r->p, e, 4, KILN_DIMS(1, r->t, (n + more) / BLOCK, BLOCK));
    return td_ops->reduce(r->p, e, KILN_REDUCE_SUM, 8, 0);
}

/* Both sums brought to the larger maximum. */
static void join(const text_recording *r, choice *c, kiln_t m, kiln_t s, kiln_t w, kiln_t likeliest)
{
    if (!c->n) {
        c->m = m, c->s = s, c->w = w, c->likeliest = likeliest;
        return;
    }
    const kiln_t old = c->m, new = MAP("max(a, b)", old, m);
    c->w = MAP("exp(b - c) * (a + (b - c) * d)", c->w, old, new, c->s);
    c->w = MAP("d + exp(b - c) * (a + (b - c) * e)", w, m, new, c->w, s);
    c->s = MAP("a * exp(b - e) + c * exp(d - e)", c->s, old, s, m, new);
    c->likeliest = td_ops->map(r->p, "a > b ? c : d", (kiln_t[]){m, old, likeliest, c->likeliest}, 4, &to_i32);
    c->m = new;
}

/* Of all words, by their probabilities at a temperature of 1. */
static kiln_t plain_soft(const text_recording *r, kiln_t logits)
{
    td_ops->precision_push(r->p, KILN_F32);
    kiln_t p = td_ops->softmax(r->p, logits, NULL);
    td_ops->precision_pop(r->p);
    return td_ops->linear_transposed(r->p, td_ops->map(r->p, "a", &p, 1, NULL), table(r, r->m->words, 0), (kiln_t){0});
}

/* What the last tile's words are as embeddings, by e over its sum s. before: what stood in c without the tile. */
static void join_soft(const text_recording *r, choice *c, const choice *before, kiln_t e, kiln_t s)
{
    const int64_t k = before->n;
    const kiln_t sums = td_ops->linear_transposed(r->p, e, table(r, r->m->words, k), (kiln_t){0});
    const kiln_t soft = MAP("a / b", sums, s), share = k ? MAP("a * exp(b - c) / d", s, c->maximum[k], c->m, c->s) : s;
    c->soft = k ? MAP("a + (b - a) * c", before->soft, soft, share) : soft;
}

static void join_plain(const text_recording *r, choice *c, kiln_t all)
{
    c->plain = c->n ? MAP("max(a, b) + log1p(exp(0 - abs(a - b)))", c->plain, all) : all;
}

/* The place of a word within tile k, as its id. */
static kiln_t id_of(const text_recording *r, kiln_t place, int64_t k)
{
    return td_ops->map(r->p, "a + b", (kiln_t[]){place, td_number(r, (int32_t)tile_start(r->m, k))}, 2, &to_i32);
}

static void take_tile(const text_recording *r, choice *c, kiln_t x, kiln_t temperature)
{
    const choice before = *c;
    const int64_t k = c->n, n = tile_length(r->m, k);
    const kiln_t logits = td_logits(r, x, k);
    td_ops->precision_push(r->p, KILN_F32);
    const kiln_t l = MAP("b > 0 ? a / b : a", logits, temperature);
    kiln_t best = td_ops->reduce(r->p, l, KILN_REDUCE_ARGMAX, 4, 1), m = td_ops->take_along(r->p, l, best);
    const kiln_t w = sum(r, MAP("exp(a - b) * (a - b)", l, m)), e = MAP("exp(a - b)", l, m);
    if (r->m->family->plain_confidence) join_plain(r, c, td_ops->reduce(r->p, logits, KILN_REDUCE_LOGSUMEXP, 4, 1));
    c->blocks[k] = by_blocks(r, e, n), c->maximum[k] = m, c->logits = logits, c->e = e;
    const kiln_t s = sum(r, c->blocks[k]);
    join(r, c, m, s, w, id_of(r, best, k));
    td_ops->precision_pop(r->p);
    if (r->m->simplex > 0)
        c->soft = plain_soft(r, logits);
    else if (r->m->family->conditions)
        join_soft(r, c, &before, td_ops->map(r->p, "a", &e, 1, NULL), s);
    c->n++;
}

/* The same in one reading of the logits, by an op. */
static void take_tile_at_once(const text_recording *r, choice *c, kiln_t x, kiln_t temperature)
{
    const choice before = *c;
    const int64_t k = c->n;
    const vocabulary_statistics v = vocabulary_statistics_of(r, uncapped(r, x, k), temperature);
    const kiln_t *of = v.statistic;
    if (r->m->family->plain_confidence) join_plain(r, c, of[STATISTIC_PLAIN]);
    c->blocks[k] = v.blocks, c->maximum[k] = of[STATISTIC_MAXIMUM], c->e = v.e;
    join(r, c, of[STATISTIC_MAXIMUM], of[STATISTIC_SUM], of[STATISTIC_WEIGHTED], id_of(r, of[STATISTIC_PLACE], k));
    if (r->m->family->conditions) join_soft(r, c, &before, v.e, of[STATISTIC_SUM]);
    c->n++;
}

/* ---- drawing ---- */

/* The first place of running sums of x whose sum reaches `part` of all. */
static kiln_t first_reached(const text_recording *r, kiln_t x, kiln_t part, int64_t n)
{
    kiln_t sums = td_ops->cumsum(r->p, x, 2, 0, 0);
    kiln_t reached = MAP("a >= b * c ? 1 : 0", sums, part, td_ops->slice(r->p, sums, 2, n - 1, 1));
    return td_ops->reduce(r->p, reached, KILN_REDUCE_ARGMAX, 4, 1);
}

/* Of words [1,t,n] with these logits and these e^(l - m). *probability: of the one that is drawn. */
static kiln_t draw_of(const text_recording *r, const choice *c, kiln_t logits, kiln_t e, kiln_t part, int64_t n,
                      kiln_t *probability)
{
    kiln_t place = first_reached(r, e, part, n);
    *probability = r->m->family->plain_confidence ? MAP("exp(a - b)", td_ops->take_along(r->p, logits, place), c->plain)
                                                  : MAP("a / b", td_ops->take_along(r->p, e, place), c->s);
    return place;
}

/* By blocks, whose logits are made once more. */
static kiln_t draw_by_blocks(const text_recording *r, choice *c, kiln_t x, kiln_t temperature, kiln_t draw,
                             kiln_t *probability)
{
    const int64_t blocks = (r->m->vocabulary + BLOCK - 1) / BLOCK;
    td_ops->precision_push(r->p, KILN_F32);
    for (int64_t k = 0; k < c->n; k++) c->blocks[k] = MAP("a * exp(b - c)", c->blocks[k], c->maximum[k], c->m);
    kiln_t sums = td_ops->concat(r->p, c->blocks, (uint32_t)c->n, 2);
    kiln_t part = MAP("1 - a", draw), block = first_reached(r, sums, part, blocks);
    kiln_t before = td_ops->take_along(r->p, td_ops->cumsum(r->p, sums, 2, 1, 0), block);
    /* of the block's sum, what is left to reach */
    part = MAP("min(max((a * b - c) / d, 0), 1)", part, sum(r, sums), before, td_ops->take_along(r->p, sums, block));
    kiln_t ids = td_ops->reshape(r->p, td_ops->arange(r->p, 0, BLOCK, 1), 3, KILN_DIMS(1, 1, BLOCK));
    ids = td_ops->map(r->p, "a * b + c", (kiln_t[]){block, td_number(r, BLOCK), ids}, 3, &to_i32);
    kiln_t last = td_number(r, (int32_t)r->m->vocabulary - 1);
    kiln_t known = td_ops->map(r->p, "min(a, b)", (kiln_t[]){ids, last}, 2, &to_i32);
    td_ops->precision_pop(r->p);
    kiln_t logits = logits_at(r, x, known, BLOCK);
    td_ops->precision_push(r->p, KILN_F32);
    kiln_t e = MAP("d > e ? 0 : exp((b > 0 ? a / b : a) - c)", logits, temperature, c->m, ids, last);
    kiln_t drawn = td_ops->take_along(r->p, known, draw_of(r, c, logits, e, part, BLOCK, probability));
    td_ops->precision_pop(r->p);
    return drawn;
}

/* e of the likeliest words whose sum reaches top_p of all, 0 of the others (nucleus sampling, Holtzman et al. 2020). */
static kiln_t nucleus(const text_recording *r, const choice *c, kiln_t top_p)
{
    kiln_t sorted = td_ops->topk(r->p, c->e, r->m->vocabulary, 0, NULL);
    kiln_t before = td_ops->cumsum(r->p, sorted, 2, 1, 0);
    kiln_t kept = MAP("a < b * c || a == 0 ? d : inf", before, top_p, c->s, sorted);
    return MAP("a >= b ? a : 0", c->e, td_ops->reduce(r->p, kept, KILN_REDUCE_MIN, 4, 1));
}

/* Of a vocabulary that is one tile. */
static kiln_t draw_whole(const text_recording *r, const choice *c, const vocabulary_draw *d, kiln_t *probability)
{
    td_ops->precision_push(r->p, KILN_F32);
    const kiln_t e = d->top_p.id ? nucleus(r, c, d->top_p) : c->e;
    kiln_t drawn = draw_of(r, c, c->logits, e, MAP("1 - a", d->draw), r->m->vocabulary, probability);
    td_ops->precision_pop(r->p);
    return drawn;
}

void vocabulary_choose(const text_recording *r, kiln_t x, const vocabulary_draw *d, kiln_t out[RESULTS])
{
    const kiln_t temperature = d->temperature;
    choice c = {.n = 0};
    kiln_t probability = {0};
    const int at_once = r->on_processor && !r->see && vocabulary_tiles(r->m) > 1;
    for (int64_t k = 0; k < vocabulary_tiles(r->m); k++)
        (at_once ? take_tile_at_once : take_tile)(r, &c, x, temperature);
    kiln_t drawn =
        c.n > 1 ? draw_by_blocks(r, &c, x, temperature, d->draw, &probability) : draw_whole(r, &c, d, &probability);
    out[LIKELIEST] = c.likeliest;
    out[ENTROPY] = MAP("log(a) - b / a", c.s, c.w);
    out[DRAWN] = td_ops->map(r->p, "a > 0 ? b : c", (kiln_t[]){temperature, drawn, c.likeliest}, 3, &to_i32);
    out[CONFIDENCE] = MAP("a > 0 ? b : 1 / c", temperature, probability, c.s);
    const kiln_map scaled = {.size = sizeof scaled, .dtype = KILN_F32, .number = {r->m->word_scale}};
    out[SOFT] = (kiln_t){0};
    if (c.soft.id) out[SOFT] = td_ops->map(r->p, "a * p", &c.soft, 1, &scaled);
}
