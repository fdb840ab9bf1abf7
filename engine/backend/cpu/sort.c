/* sort.c - OP_SORT: the k first of each row in order, and where they stood. A number becomes a key of 32 bits that
 * compares as it does; keys and places are sorted.
 *
 * Up to 8 of short rows of bf16 or f32: 16 rows at once, in registers. Very few: they are put in their places as they
 * come. Few of many: a row is read once. What is better than the worst of the k best so far is noted; when there are
 * twice as many as wanted, a selection by the key's digits leaves k of them. Else: a radix sort of the row. Both are
 * stable.
 */
#include "backend/cpu/cpu.h"

#include "base/memory_alloc.h"

#include <math.h>
#include <string.h>

enum {
    CHUNK = 512,
    DIGITS = 256,
    SOME = 16,
    FEW = 8,
    MOST_PICKED = 8192,
    SIDE = 16,
    EIGHT = 8,
    SHORT = 1024,
    TILE_ELEMENTS = 1 << 14
};

typedef struct {
    uint32_t key, place; /* least key first */
} entry;

typedef struct {
    const cpu_kernel *c;
    const kernel_args *a;
    int64_t columns, k, room; /* room: entries of a slot, twice */
    uint32_t flip;            /* keys are turned so that the least comes first */
} call;

/* ---- keys ---- */

/* Keys of n numbers, turned so that what is wanted first is the GREATEST; that one. */
static uint32_t keys_of(const call *j, uint32_t *key, int64_t row, int64_t column, size_t n)
{
    const operand_desc *x = &j->c->op.in[0];
    const char *from = place_of(x, j->a->in[0], row, column);
    float numbers[CHUNK];
    uint32_t most = 0;
    if (type_of(x) != KILN_I32) {
        j->c->k->load(numbers, from, type_of(x), n);
        return j->c->k->order_keys(key, numbers, ~j->flip, n);
    }
    memcpy(key, from, n * sizeof *key);
    for (size_t i = 0; i < n; i++) {
        key[i] = key[i] ^ 0x80000000u ^ ~j->flip;
        most = key[i] > most ? key[i] : most;
    }
    return most;
}

/* ---- sorting entries ---- */

/* Stable, by 8 bits a pass; passes in which all have one digit are left out. The result is in `a` or `b`. */
static entry *radix_sort(entry *a, entry *b, int64_t n)
{
    uint32_t all[4][DIGITS] = {{0}};
    for (int64_t i = 0; i < n; i++)
        for (int d = 0; d < 4; d++) all[d][a[i].key >> 8 * d & 255]++;
    for (int shift = 0; shift < 32; shift += 8) {
        uint32_t *at = all[shift / 8], sum = 0;
        int all_one = 0;
        for (int d = 0; d < DIGITS; d++) {
            uint32_t count = at[d];
            all_one |= count == (uint64_t)n;
            at[d] = sum;
            sum += count;
        }
        if (all_one) continue;
        for (int64_t i = 0; i < n; i++) b[at[a[i].key >> shift & 255]++] = a[i];
        entry *other = a;
        a = b;
        b = other;
    }
    return a;
}

/* The k-th least key of n. */
static uint32_t kth_key(const entry *a, int64_t n, int64_t k)
{
    uint32_t prefix = 0, mask = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        int64_t count[DIGITS] = {0};
        uint32_t d = 0;
        for (int64_t i = 0; i < n; i++)
            if ((a[i].key & mask) == prefix) count[a[i].key >> shift & 255]++;
        while (k > count[d]) k -= count[d++];
        prefix |= d << shift;
        mask |= 255u << shift;
    }
    return prefix;
}

/* The k least of n entries that stand in the order of their places stay, in that order; the greatest key of them. */
static uint32_t keep_least(entry *a, int64_t n, int64_t k)
{
    uint32_t last = kth_key(a, n, k);
    int64_t equal = k, kept = 0;
    for (int64_t i = 0; i < n; i++) equal -= a[i].key < last;
    for (int64_t i = 0; i < n && kept < k; i++) {
        if (a[i].key > last || (a[i].key == last && equal-- <= 0)) continue;
        a[kept++] = a[i];
    }
    return last;
}

/* Rows [row, row + 16), short ones of bf16 or f32, side by side. */
static void sort_side_by_side(const call *j, int64_t row)
{
    const operand_desc *x = &j->c->op.in[0], *out = &j->c->op.out;
    uint16_t place[SIDE][EIGHT];
    const size_t size = size_of(x->dtype), step = (size_t)x->ld * size;
    const char *from = place_of(x, j->a->in[0], row, 0);
    char *to = (char *)j->a->out + (size_t)(row * out->ld) * size;
    if (size == sizeof(float))
        j->c->k->top_eight_wide(place[0], (const float *)(const void *)from, (size_t)x->ld, (size_t)j->columns,
                                ~j->flip);
    else
        j->c->k->top_eight(place[0], (const uint16_t *)(const void *)from, (size_t)x->ld, (size_t)j->columns, ~j->flip);
    for (int64_t r = 0; r < SIDE; r++, from += step, to += (size_t)out->ld * size) {
        int32_t *places = j->a->more[0] ? (int32_t *)j->a->more[0] + (row + r) * j->c->op.more[0].ld : NULL;
        for (int64_t i = 0; i < j->k; i++)
            memcpy(to + (size_t)i * size, from + place[r][i] * size, size == sizeof(float) ? sizeof(float) : 2);
        for (int64_t i = 0; i < j->k && places; i++) places[i] = place[r][i];
    }
}
static int side_by_side(const call *j)
{
    uint32_t type = type_of(&j->c->op.in[0]);
    return j->k <= EIGHT && j->columns >= EIGHT && j->columns <= SHORT && (type == KILN_BF16 || type == KILN_F32);
}

/* Does nothing in this part of the row come before the worst of the best so far? By its greatest (or least) alone. */
static int all_worse(const call *j, int64_t row, int64_t column, size_t n, uint32_t worst)
{
    const operand_desc *x = &j->c->op.in[0];
    uint32_t key, kind = j->flip ? KILN_REDUCE_MAX : KILN_REDUCE_MIN;
    if (type_of(x) == KILN_I32) return 0;
    float best = j->c->k->fold_row_stored(kind, place_of(x, j->a->in[0], row, column), type_of(x), n);
    if (isnan(best)) return 0;
    j->c->k->order_keys(&key, &best, ~j->flip, 1);
    return ~key >= worst;
}

/* Very few: they are kept in order while the row is read. */
static int64_t pick_some(const call *j, int64_t row, entry *a)
{
    int64_t n = 0, k = j->k;
    uint32_t key[CHUNK];
    for (int64_t c = 0; c < j->columns; c += CHUNK) {
        int64_t width = min64(CHUNK, j->columns - c);
        if (n == k && width == CHUNK && all_worse(j, row, c, CHUNK, a[k - 1].key)) continue;
        keys_of(j, key, row, c, (size_t)width);
        for (int64_t i = 0; i < width; i++) {
            entry own = {~key[i], (uint32_t)(c + i)};
            if (n == k && own.key >= a[k - 1].key) continue;
            int64_t at = n < k ? n++ : k - 1;
            for (; at > 0 && a[at - 1].key > own.key; at--) a[at] = a[at - 1];
            a[at] = own;
        }
    }
    return k;
}

static int64_t pick_few(const call *j, int64_t row, entry *a)
{
    int64_t n = 0, k = j->k;
    uint32_t key[CHUNK], worst = 0xffffffffu;
    int full = 0;
    for (int64_t c = 0; c < j->columns; c += CHUNK) {
        int64_t width = min64(CHUNK, j->columns - c);
        if (full && all_worse(j, row, c, (size_t)width, worst)) continue;
        uint32_t most = keys_of(j, key, row, c, (size_t)width);
        if (full && ~most >= worst) continue;
        for (int64_t i = 0; i < width; i++) {
            if (full && ~key[i] >= worst) continue;
            a[n++] = (entry){~key[i], (uint32_t)(c + i)};
        }
        if (n < 2 * k + CHUNK) continue;
        worst = keep_least(a, n, k);
        n = k, full = 1;
    }
    if (n > k) keep_least(a, n, k);
    return k;
}

static int64_t take_all(const call *j, int64_t row, entry *a)
{
    uint32_t key[CHUNK];
    for (int64_t c = 0; c < j->columns; c += CHUNK) {
        int64_t width = min64(CHUNK, j->columns - c);
        keys_of(j, key, row, c, (size_t)width);
        for (int64_t i = 0; i < width; i++) a[c + i] = (entry){~key[i], (uint32_t)(c + i)};
    }
    return j->columns;
}

/* ---- results ---- */

static void store_row(const call *j, int64_t row, const entry *a)
{
    const operand_desc *x = &j->c->op.in[0], *out = &j->c->op.out;
    int32_t *places = j->a->more[0] ? (int32_t *)j->a->more[0] + row * j->c->op.more[0].ld : NULL;
    const char *from = place_of(x, j->a->in[0], row, 0);
    char *to = (char *)j->a->out + (size_t)(row * out->ld) * size_of(out->dtype);
    size_t size = size_of(x->dtype);
    for (int64_t i = 0; i < j->k; i++) {
        memcpy(to + (size_t)i * size, from + (size_t)a[i].place * size, size);
        if (places) places[i] = (int32_t)a[i].place;
    }
}

static int few(const call *j) { return j->k <= j->columns / FEW && j->k <= MOST_PICKED; }

static int64_t rows_of_tile(const call *j)
{
    int64_t n = TILE_ELEMENTS / (j->columns + 1) + 1;
    return n < SIDE ? n : n / SIDE * SIDE;
}

static kiln_status tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    entry *a = (entry *)j->a->scratch + (size_t)slot * 2 * (size_t)j->room, *b = a + j->room;
    int64_t last = min64(rows_of(&j->c->op.in[0]), ((int64_t)index + 1) * rows_of_tile(j));
    (void)e;
    int64_t row = (int64_t)index * rows_of_tile(j);
    if (side_by_side(j))
        for (; row + SIDE <= last; row += SIDE) sort_side_by_side(j, row);
    for (; row < last; row++) {
        if (j->k <= SOME) {
            pick_some(j, row, a);
            store_row(j, row, a);
            continue;
        }
        int64_t n = few(j) ? pick_few(j, row, a) : take_all(j, row, a);
        store_row(j, row, radix_sort(a, b, n));
    }
    return KILN_OK;
}

static call call_of(const cpu_kernel *c, const kernel_args *a)
{
    call j = {.c = c, .a = a, .columns = columns_of(&c->op.in[0]), .k = c->op.attr.sort.k};
    j.flip = c->op.attr.sort.ascending ? 0 : 0xffffffffu;
    j.room = few(&j) ? 2 * j.k + 2 * CHUNK : j.columns;
    return j;
}

static kiln_status run(const cpu_kernel *c, const kernel_args *a, error *e)
{
    call j = call_of(c, a);
    int64_t each = rows_of_tile(&j);
    return tiles_run(a->pool, (size_t)((rows_of(&c->op.in[0]) + each - 1) / each), tile, &j, e);
}

kiln_status cpu_prepare_sort(cpu_kernel *c, error *e)
{
    call j = call_of(c, NULL);
    int64_t rows = rows_of(&c->op.in[0]);
    if (c->op.in[0].dtype != c->op.out.dtype)
        return error_set(e, KILN_ERR_UNSUPPORTED, "topk from one type into another");
    if (j.columns > INT32_MAX)
        return error_set(e, KILN_ERR_UNSUPPORTED, "topk of rows of %lld; 2^31 - 1 at most", (long long)j.columns);
    c->body = run;
    c->base.scratch_bytes = (size_t)min64(cpu_slots(), rows) * 2 * (size_t)j.room * sizeof(entry);
    c->base.flops = (uint64_t)shape_count(&c->op.in[0].shape);
    return KILN_OK;
}
