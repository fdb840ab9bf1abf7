/* attention_packed.c - see attention_packed.h. Keys and values of heads are packed, and queries walk them by units
 * (attention_units.h). A task is, where keys are few, some rows of queries with all their heads, which share what is in
 * the cache; where each thread gets several heads, a head, which is packed there, too; elsewhere some queries of a
 * head, of which some are packed at a time, on all threads. Packed are at most 32 MB together, but one head is packed
 * whole. Sums run in the order of the keys, whose units begin at the same places always; no bit depends on what is a
 * task or how many heads are packed.
 */
#include "backend/cpu/attention_packed.h"

#include "backend/cpu/attention_tiles.h"
#include "backend/cpu/attention_units.h"

#include <math.h>

#if defined __x86_64__
enum {
    PACKED_BYTES = 32 << 20, /* of packed heads together          */
    TASK_BYTES = 512 << 10,  /* of what a task's queries have      */
    GROUPS_OF_TASK = 8,      /* that are packed                    */
    TASKS_OF_THREAD = 4,     /* or more, so that threads end alike */
    FEW_GROUPS = 4,          /* of keys: rows are tasks            */
    ROWS_TOGETHER = 8,       /* times 32 of these                  */
    LEAST_QUERIES = 16
};

typedef struct {
    const cpu_kernel *c;
    const kernel_args *a;
    unit_shape shape;
    int64_t first, heads; /* of all images' heads of k and v, those that are packed, unless heads are tasks */
} call;

static float score_scale(const op_desc *op) { return op->attr.attention.scale * log2_e; }

int attention_packed_fits(const op_desc *op, const attention_plan *p)
{
    const attention_attr *a = &op->attr.attention;
    for (uint32_t i = ATTEND_MASK; i <= ATTEND_PAGES; i++)
        if (attention_has(op, i)) return 0;
    return p->way == ATTEND_BY_TILES && cpu_attention() == ATTEND_BY_PACKED && !op->n_more && !a->causal &&
           !a->window && !(a->softcap > 0) && score_scale(op) > 0 && isfinite(score_scale(op)) && p->Tk > 0 &&
           p->Tq >= LEAST_QUERIES && op->out.dtype == KILN_BF16;
}

/* ---- where things lie ---- */

static unit_shape shape_of(const attention_plan *p) { return unit_shape_of(p->D, p->Dv); }
static int64_t groups_of(const attention_plan *p) { return (p->Tk + GROUP_KEYS - 1) / GROUP_KEYS; }
static size_t group_numbers(const unit_shape *s) { return unit_key_numbers(s) + unit_value_numbers(s); }
static size_t head_numbers(const attention_plan *p, const unit_shape *s)
{
    return (size_t)groups_of(p) * group_numbers(s);
}
static int64_t all_heads(const attention_plan *p) { return p->images * p->kv_heads; }
static int64_t most_heads(const attention_plan *p)
{
    unit_shape s = shape_of(p);
    return (int64_t)(PACKED_BYTES / (head_numbers(p, &s) * sizeof(uint16_t)));
}

typedef enum { TASK_ROWS, TASK_HEAD, TASK_PART } task_kind;

static task_kind task_of(const attention_plan *p)
{
    int64_t threads = cpu_slots();
    if (groups_of(p) <= FEW_GROUPS && all_heads(p) <= most_heads(p)) return TASK_ROWS;
    return all_heads(p) >= TASKS_OF_THREAD * threads && most_heads(p) >= threads ? TASK_HEAD : TASK_PART;
}

static int64_t heads_at_once(const attention_plan *p)
{
    if (task_of(p) == TASK_HEAD) return cpu_slots();
    return most_heads(p) < 1 ? 1 : min64(most_heads(p), all_heads(p));
}

/* Of a thread: scores and exponentials of a unit; of 32 of its queries: what unit_rows has. */
static size_t unit_floats(const unit_shape *s) { return s->groups * (4 * TILE_FLOATS + TILE_NUMBERS); }
static size_t rows_floats(const unit_shape *s)
{
    return s->depth * TILE_NUMBERS + s->width * 2 * TILE_FLOATS + UNIT_ROWS;
}

/* How many times 32 queries go together, of a task or as one: packed keys are read once for all of them, while each
 * thread gets some. */
static int64_t rows_of_task(const attention_plan *p)
{
    unit_shape s = shape_of(p);
    int64_t all = (p->Tq + UNIT_ROWS - 1) / UNIT_ROWS, most = (int64_t)(TASK_BYTES / (rows_floats(&s) * sizeof(float)));
    int64_t times = task_of(p) == TASK_ROWS ? p->images : heads_at_once(p) * p->group;
    int64_t n = times * all / (TASKS_OF_THREAD * (int64_t)cpu_slots());
    if (task_of(p) == TASK_ROWS) most = min64(most, ROWS_TOGETHER);
    if (n > most || task_of(p) == TASK_HEAD) n = most;
    return n < 1 ? 1 : min64(n, all);
}
static int64_t tasks_of_head(const attention_plan *p)
{
    int64_t rows = rows_of_task(p) * UNIT_ROWS;
    return (p->Tq + rows - 1) / rows;
}

/* Scratch: packed heads, a square for each group of them, and the slots' own. */
static size_t packed_floats(const attention_plan *p)
{
    unit_shape s = shape_of(p);
    return (size_t)heads_at_once(p) * head_numbers(p, &s) / 2;
}
static size_t square_floats(const attention_plan *p) { return round_up((size_t)(heads_at_once(p) * groups_of(p)), 16); }
static size_t slot_floats(const attention_plan *p)
{
    unit_shape s = shape_of(p);
    return unit_floats(&s) + (size_t)rows_of_task(p) * rows_floats(&s);
}

/* `place`: of a packed head among those that are. */
static uint16_t *keys_at(const call *j, int64_t place, int64_t group)
{
    const attention_plan *p = j->c->plan;
    uint16_t *to = (uint16_t *)j->a->scratch + (size_t)place * head_numbers(p, &j->shape);
    return to + (size_t)group * unit_key_numbers(&j->shape);
}
static uint16_t *values_at(const call *j, int64_t place, int64_t group)
{
    const attention_plan *p = j->c->plan;
    return keys_at(j, place, groups_of(p)) + (size_t)group * unit_value_numbers(&j->shape);
}
static float *squares_at(const call *j, int64_t place)
{
    const attention_plan *p = j->c->plan;
    return (float *)j->a->scratch + packed_floats(p) + place * groups_of(p);
}

static const uint16_t *row_at(const call *j, uint32_t operand, int64_t row, int64_t column)
{
    return (const uint16_t *)(const void *)place_of(&j->c->op.in[operand], j->a->in[operand], row, column);
}

/* ---- packing ---- */

/* Groups `from` to `to` of a head. */
static void pack_groups(const call *j, int64_t head, int64_t place, int64_t from, int64_t to)
{
    const attention_plan *p = j->c->plan;
    int64_t image = head / p->kv_heads, kv = head % p->kv_heads;
    size_t k_ld = (size_t)j->c->op.in[ATTEND_K].ld, v_ld = (size_t)j->c->op.in[ATTEND_V].ld;
    for (int64_t g = from; g < to; g++) {
        int64_t key = g * GROUP_KEYS, row = image * p->Tk + key;
        size_t n = (size_t)min64(GROUP_KEYS, p->Tk - key);
        squares_at(j, place)[g] =
            units_pack_keys(&j->shape, keys_at(j, place, g), row_at(j, ATTEND_K, row, kv * p->D), k_ld, n);
        units_pack_values(&j->shape, values_at(j, place, g), row_at(j, ATTEND_V, row, kv * p->Dv), v_ld, n);
    }
}

static int64_t packs_of_head(const attention_plan *p) { return (groups_of(p) + GROUPS_OF_TASK - 1) / GROUPS_OF_TASK; }

static kiln_status pack(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const attention_plan *p = j->c->plan;
    (void)slot, (void)e;
    int64_t place = (int64_t)index / packs_of_head(p), from = (int64_t)index % packs_of_head(p) * GROUPS_OF_TASK;
    pack_groups(j, j->first + place, place, from, min64(from + GROUPS_OF_TASK, groups_of(p)));
    return KILN_OK;
}

/* Of all keys of a head; NaN if any is. */
static float greatest_square(const call *j, int64_t place)
{
    const attention_plan *p = j->c->plan;
    const float *squares = squares_at(j, place);
    float most = 0;
    for (int64_t g = 0; g < groups_of(p); g++) {
        if (isnan(squares[g])) return NAN;
        if (squares[g] > most) most = squares[g];
    }
    return most;
}

/* ---- queries ---- */

typedef struct { /* of a packed head: some queries of a head of q, in an image */
    int64_t place, image, query_head, first, n, blocks;
    unit_scratch scratch;
    float *rows;
} part;

static unit_rows rows_at(const call *j, const part *t, int64_t block)
{
    float *at = t->rows + (size_t)block * rows_floats(&j->shape);
    unit_rows u = {.queries = (uint16_t *)(void *)at};
    u.sums = at + j->shape.depth * TILE_NUMBERS;
    u.start = u.sums + j->shape.width * 2 * TILE_FLOATS;
    return u;
}

/* Part `index` of the queries that belong to a head of k and v. */
static part part_of(const call *j, int64_t head, int64_t place, int64_t index, unsigned slot)
{
    const attention_plan *p = j->c->plan;
    int64_t each = tasks_of_head(p), rows = rows_of_task(p) * UNIT_ROWS;
    part t = {.place = place, .image = head / p->kv_heads, .first = index % each * rows};
    t.query_head = head % p->kv_heads * p->group + index / each;
    t.n = min64(rows, p->Tq - t.first), t.blocks = (t.n + UNIT_ROWS - 1) / UNIT_ROWS;
    float *own = (float *)j->a->scratch + packed_floats(p) + square_floats(p) + slot * p->slot_floats;
    t.scratch.scores = own;
    t.scratch.weights = (uint16_t *)(void *)(own + j->shape.groups * 4 * TILE_FLOATS);
    t.rows = own + unit_floats(&j->shape);
    return t;
}

static void begin(const call *j, const part *t, int64_t block, unit_rows *u, float square)
{
    const op_desc *op = &j->c->op;
    const attention_plan *p = j->c->plan;
    int64_t row = t->first + block * UNIT_ROWS;
    *u = rows_at(j, t, block);
    units_begin(&j->shape, u, row_at(j, ATTEND_Q, t->image * p->Tq + row, t->query_head * p->D),
                (size_t)op->in[ATTEND_Q].ld, (size_t)min64(UNIT_ROWS, t->first + t->n - row), square, score_scale(op));
}

static void end(const call *j, const part *t, int64_t block, const unit_rows *u)
{
    const op_desc *op = &j->c->op;
    const attention_plan *p = j->c->plan;
    int64_t row = t->first + block * UNIT_ROWS;
    units_end(&j->shape, u, (uint16_t *)j->a->out + (t->image * p->Tq + row) * op->out.ld + t->query_head * p->Dv,
              (size_t)op->out.ld, (size_t)min64(UNIT_ROWS, t->first + t->n - row));
}

/* One unit of keys for some blocks: what is packed of it stays in the cache for all of them. */
static void attend_unit(const call *j, const part *t, int64_t group, const unit_rows *u, int64_t blocks)
{
    const attention_plan *p = j->c->plan;
    size_t n = (size_t)min64((int64_t)j->shape.groups * GROUP_KEYS, p->Tk - group * GROUP_KEYS);
    for (int64_t b = 0; b < blocks; b++)
        units_attend(&j->shape, u + b, &t->scratch, keys_at(j, t->place, group), values_at(j, t->place, group), n,
                     group == 0, score_scale(&j->c->op));
}

static void attend_part(const call *j, const part *t)
{
    unit_rows u[TASK_BYTES / (UNIT_ROWS * 16 * sizeof(float))];
    float square = greatest_square(j, t->place);
    int64_t groups = groups_of(j->c->plan), unit = (int64_t)j->shape.groups;
    int64_t together = groups <= unit ? 1 : t->blocks; /* with all keys, what a block has stays in the cache, too */
    tiles_begin();
    for (int64_t first = 0; first < t->blocks; first += together) {
        for (int64_t b = 0; b < together; b++) begin(j, t, first + b, u + b, square);
        for (int64_t g = 0; g < groups; g += unit) attend_unit(j, t, g, u, together);
        for (int64_t b = 0; b < together; b++) end(j, t, first + b, u + b);
    }
    tiles_end();
}

static int64_t parts_of_head(const attention_plan *p) { return p->group * tasks_of_head(p); }

static kiln_status attend(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    int64_t place = (int64_t)index / parts_of_head(j->c->plan);
    part t = part_of(j, j->first + place, place, (int64_t)index % parts_of_head(j->c->plan), slot);
    (void)e;
    attend_part(j, &t);
    return KILN_OK;
}

static kiln_status attend_rows(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const attention_plan *p = j->c->plan;
    int64_t each = tasks_of_head(p), image = (int64_t)index / each, rows = (int64_t)index % each;
    (void)e;
    for (int64_t i = 0; i < p->kv_heads * p->group; i++) {
        int64_t head = image * p->kv_heads + i / p->group;
        part t = part_of(j, head, head, i % p->group * each + rows, slot);
        attend_part(j, &t);
    }
    return KILN_OK;
}

static kiln_status pack_and_attend(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    (void)e;
    pack_groups(j, (int64_t)index, slot, 0, groups_of(j->c->plan));
    for (int64_t i = 0; i < parts_of_head(j->c->plan); i++) {
        part t = part_of(j, (int64_t)index, slot, i, slot);
        attend_part(j, &t);
    }
    return KILN_OK;
}

static kiln_status run(const cpu_kernel *c, const kernel_args *a, error *e)
{
    const attention_plan *p = c->plan;
    task_kind kind = task_of(p);
    call j = {.c = c, .a = a, .shape = shape_of(p)};
    if (kind == TASK_HEAD) return tiles_run(a->pool, (size_t)all_heads(p), pack_and_attend, &j, e);
    for (; j.first < all_heads(p); j.first += j.heads) {
        j.heads = min64(heads_at_once(p), all_heads(p) - j.first);
        TRY(tiles_run(a->pool, (size_t)(j.heads * packs_of_head(p)), pack, &j, e));
        if (kind == TASK_ROWS)
            TRY(tiles_run(a->pool, (size_t)(p->images * tasks_of_head(p)), attend_rows, &j, e));
        else
            TRY(tiles_run(a->pool, (size_t)(j.heads * parts_of_head(p)), attend, &j, e));
    }
    return KILN_OK;
}

void attention_packed_prepare(cpu_kernel *c)
{
    attention_plan *p = c->plan;
    p->slot_floats = slot_floats(p);
    c->body = run;
    c->base.scratch_bytes = (packed_floats(p) + square_floats(p) + cpu_slots() * p->slot_floats) * sizeof(float);
    c->base.name = "attention:packed";
}
#else
int attention_packed_fits(const op_desc *op, const attention_plan *p) { return (void)op, (void)p, 0; }
void attention_packed_prepare(cpu_kernel *c) { (void)c; }
#endif
