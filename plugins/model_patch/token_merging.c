/* token_merging.c - see token_merging.h.
 *
 * What is drawn is a constant of the program; what follows from the latent is recorded. Linear layers without a bias
 * keep means, so merging queries is merging what they are made of.
 */
#include "token_merging.h"

#include "program_math.h"

#include <stdlib.h>

enum { RATIO };

/* ---- who is a destination ---- */

/* FNV-1a */
static uint64_t name_hash(const char *text)
{
    uint64_t h = 14695981039346656037u;
    for (; *text; text++) h = (h ^ (unsigned char)*text) * 1099511628211u;
    return h;
}

/* SplitMix64: Steele, Lea and Flood 2014. */
int token_merging_draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (int)((z ^ z >> 31) >> 62);
}

/* The tokens of an attention: n pictures, sources first and then destinations, each in the order of tokens. */
typedef struct {
    int64_t n, rows, columns, tokens, sources, destinations, merged;
    kiln_t source, destination; /* i32 [sources], [destinations]: which tokens they are          */
    kiln_t place;               /* i32 [tokens]: where a token stands among sources, then destinations */
} partition;

/* place[token] for all: destinations are drawn, the others follow in order. */
static void draw_places(const char *name, const partition *t, int32_t *order, int32_t *place)
{
    uint64_t state = name_hash(name);
    int64_t source = 0, destination = t->sources;
    for (int64_t i = 0; i < t->tokens; i++) place[i] = 0;
    for (int64_t y = 0; y + 1 < t->rows; y += 2)
        for (int64_t x = 0; x + 1 < t->columns; x += 2) {
            int drawn = token_merging_draw(&state);
            place[(y + drawn / 2) * t->columns + x + drawn % 2] = 1;
        }
    for (int64_t i = 0; i < t->tokens; i++) {
        place[i] = (int32_t)(place[i] ? destination++ : source++);
        order[place[i]] = (int32_t)i;
    }
}

static void record_partition(const kiln_recording *r, const char *name, partition *t)
{
    const kiln_ops *o = r->ops;
    int32_t *order = malloc(2 * (size_t)t->tokens * sizeof *order);
    if (!order) {
        o->fail(r->program, "out of memory");
        return;
    }
    draw_places(name, t, order, order + t->tokens);
    t->source = o->constant_i32(r->program, order, 1, &t->sources);
    t->destination = o->constant_i32(r->program, order + t->sources, 1, &t->destinations);
    t->place = o->constant_i32(r->program, order + t->tokens, 1, &t->tokens);
    free(order);
}

/* Whether tokens are merged here, and how many. ComfyUI counts as the highest resolution what has more than half of
 * the latent's cells. */
static int partition_of(const model_patch *p, const kiln_recording *r, const kiln_attention_info *a, partition *t)
{
    int64_t cells = program_dim(r, r->in->x, 1) * program_dim(r, r->in->x, 2);
    t->n = program_dim(r, a->q, 0), t->tokens = program_dim(r, a->q, 1);
    t->rows = a->grid[1], t->columns = a->grid[2];
    if (a->grid[0] > 1 || t->rows < 2 || t->columns < 2 || t->rows * t->columns != t->tokens) return 0;
    if (program_rank(r, r->in->x) != 4 || program_dim(r, a->x, 1) != t->tokens || cells / t->tokens > 1) return 0;
    t->destinations = (t->rows / 2) * (t->columns / 2), t->sources = t->tokens - t->destinations;
    t->merged = (int64_t)((double)t->tokens * p->number[RATIO]);
    if (t->merged > t->sources) t->merged = t->sources;
    return t->merged > 0;
}

/* ---- indices ---- */

static kiln_t whole(const kiln_recording *r, const char *expression, kiln_t *x, uint32_t n, const float *number)
{
    kiln_map m = {.size = sizeof m, .dtype = KILN_I32};
    for (int i = 0; number && i < 2; i++) m.number[i] = number[i];
    return r->ops->map(r->program, expression, x, n, &m);
}

/* index [n,k] into each picture's `rows` rows -> into those of all pictures */
static kiln_t of_all(const kiln_recording *r, kiln_t index, int64_t rows)
{
    int64_t n = program_dim(r, index, 0);
    int32_t *first = malloc((size_t)(n > 0 ? n : 1) * sizeof *first);
    if (!first) return r->ops->fail(r->program, "out of memory");
    for (int64_t i = 0; i < n; i++) first[i] = (int32_t)(i * rows);
    kiln_t x[] = {index, r->ops->constant_i32(r->program, first, 2, KILN_DIMS(n, 1))};
    free(first);
    return whole(r, "a + b", x, 2, NULL);
}

static kiln_t flat(const kiln_recording *r, kiln_t x)
{
    int64_t rows = program_dim(r, x, 0) * program_dim(r, x, 1);
    return program_rank(r, x) == 2 ? r->ops->reshape(r->program, x, 1, &rows)
                                   : r->ops->reshape(r->program, x, 2, KILN_DIMS(rows, program_dim(r, x, 2)));
}

/* x [n,T,C], index [n,k] -> [n,k,C]: rows of each picture */
static kiln_t rows_of(const kiln_recording *r, kiln_t x, kiln_t index)
{
    return r->ops->take(r->program, flat(r, x), of_all(r, index, program_dim(r, x, 1)), 0);
}

/* 0, 1, .. for each of n pictures, [n * count] */
static kiln_t counted(const kiln_recording *r, int64_t n, int64_t count)
{
    int64_t all = n * count;
    int32_t *number = malloc((size_t)(all > 0 ? all : 1) * sizeof *number);
    if (!number) return r->ops->fail(r->program, "out of memory");
    for (int64_t i = 0; i < all; i++) number[i] = (int32_t)(i % count);
    kiln_t out = r->ops->constant_i32(r->program, number, 1, &all);
    free(number);
    return out;
}

/* ---- who is merged with whom ---- */

typedef struct {
    kiln_t to;    /* i32 [n,sources]: the destination most alike        */
    kiln_t order; /* i32 [n,sources]: sources, the most alike first     */
    kiln_t rank;  /* i32 [n,sources]: where each stands in that order   */
} matching;

/* In f32 whatever the program's precision: in fewer bits many cosines are equal. */
static matching match(const kiln_recording *r, const partition *t, kiln_t x)
{
    const kiln_ops *o = r->ops;
    matching m;
    kiln_norm unit = {.size = sizeof unit, .kind = KILN_NORM_L2, .eps = 1e-12f};
    kiln_matmul transposed = {.size = sizeof transposed, .transpose_b = 1};
    o->precision_push(r->program, KILN_F32);
    x = o->normalize(r->program, x, &unit);
    kiln_t cosine = o->matmul(r->program, o->take(r->program, x, t->source, 1),
                              o->take(r->program, x, t->destination, 1), &transposed);
    m.to = o->reduce(r->program, cosine, KILN_REDUCE_ARGMAX, 1u << 2, 0);
    o->topk(r->program, o->reduce(r->program, cosine, KILN_REDUCE_MAX, 1u << 2, 0), 0, 0, &m.order);
    o->precision_pop(r->program);
    kiln_t numbers = counted(r, t->n, t->sources);
    m.rank = o->scatter(r->program, numbers, flat(r, of_all(r, m.order, t->sources)), numbers, 0, 0);
    m.rank = o->reshape(r->program, m.rank, 2, KILN_DIMS(t->n, t->sources));
    return m;
}

/* The sources first.. of the order, as tokens: x's rows, [n,count,C]. */
static kiln_t sources_of(const kiln_recording *r, const partition *t, kiln_t x, kiln_t order)
{
    return rows_of(r, x, r->ops->take(r->program, t->source, order, 0));
}

/* Each destination's mean with what is merged into it: [n,destinations,C]. Sums and counts are f32. */
static kiln_t means(const kiln_recording *r, const partition *t, const matching *m, kiln_t q)
{
    const kiln_ops *o = r->ops;
    kiln_map half = {.size = sizeof half};
    kiln_t first = o->slice(r->program, m->order, 1, 0, t->merged);
    kiln_t into = flat(r, of_all(r, o->take_along(r->program, m->to, first), t->destinations));
    kiln_t from = o->cast(r->program, flat(r, sources_of(r, t, q, first)), KILN_F32);
    kiln_t sum = o->cast(r->program, flat(r, o->take(r->program, q, t->destination, 1)), KILN_F32);
    o->precision_push(r->program, KILN_F32);
    kiln_t count = o->affine(r->program, o->slice(r->program, sum, 1, 0, 1), 0, 1),
           one = o->affine(r->program, o->slice(r->program, from, 1, 0, 1), 0, 1);
    count = o->scatter(r->program, count, into, one, 0, 1);
    sum = o->scatter(r->program, sum, into, from, 0, 1);
    o->precision_pop(r->program);
    kiln_t mean = o->map(r->program, "a / b", (kiln_t[]){sum, count}, 2, &half);
    return o->reshape(r->program, mean, 3, KILN_DIMS(t->n, t->destinations, program_dim(r, q, 2)));
}

/* [n,tokens,C] -> [n,tokens - merged,C]: sources that stay, then destinations */
static kiln_t merge(const kiln_recording *r, const partition *t, const matching *m, kiln_t q)
{
    const kiln_ops *o = r->ops;
    kiln_t mean = means(r, t, m, q);
    if (t->merged == t->sources) return mean;
    kiln_t rest = o->slice(r->program, m->order, 1, t->merged, t->sources - t->merged);
    return o->concat(r->program, (kiln_t[]){sources_of(r, t, q, rest), mean}, 2, 1);
}

/* And back: every token has its row, or that of its destination. */
static kiln_t unmerge(const kiln_recording *r, const partition *t, const matching *m, kiln_t h)
{
    const kiln_ops *o = r->ops;
    const float number[] = {(float)t->merged, (float)(t->sources - t->merged)};
    kiln_t destinations =
        o->reshape(r->program, counted(r, t->n, t->destinations), 2, KILN_DIMS(t->n, t->destinations));
    kiln_t at[] = {whole(r, "a < p ? b + q : a - p", (kiln_t[]){m->rank, m->to}, 2, number),
                   whole(r, "a + q", &destinations, 1, number)};
    return rows_of(r, h, o->take(r->program, o->concat(r->program, at, 2, 1), t->place, 1));
}

static kiln_t merged_attention(const kiln_hook *hook, const kiln_recording *r, const kiln_attention_info *a)
{
    partition t = {0};
    const kiln_t other = {0};
    if (!place_is(a->place, "", ".attn1") || a->x.id != a->context.id || !partition_of(hook->self, r, a, &t))
        return other;
    if (a->mask.id || a->causal)
        return r->ops->fail(r->program,
                            "TomePatchModel: at '%s' another patch masks the keys, and merged tokens have no row of a "
                            "mask; leave one of the two out",
                            a->place);
    if (!attention_is_plain(r, a, "TomePatchModel")) return other;
    record_partition(r, a->place, &t);
    matching m = match(r, &t, a->x);
    kiln_attention options = {.size = sizeof options, .heads = a->heads, .scale = a->scale};
    kiln_t h = r->ops->attention(r->program, merge(r, &t, &m, a->q), a->k, a->v, &options);
    return unmerge(r, &t, &m, h);
}

model_patch *token_merging_new(double ratio)
{
    model_patch *p = model_patch_new("TomePatchModel", &ratio, 1);
    if (p) model_patch_hook(p, NULL)->attention = merged_attention;
    return p;
}
