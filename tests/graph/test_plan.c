/* test_plan.c - the memory plan, held against an interpreter that writes a number of its own into every element.
 *
 * The interpreter runs a planned program over an array of 32-bit numbers as large as the arena. A computing op first
 * checks that each operand still holds, element by element, what its maker wrote (through shifts and row distances),
 * then writes its own numbers. Whatever the planner shares wrongly (lifetimes, views, operands in a concatenation,
 * results in place) shows as a foreign number. Nothing is known here about how the planner works.
 */
#include "graph_kit.h"

#include "base/memory_alloc.h"
#include "graph/fuse.h"
#include "graph/plan.h"

static kiln_weights *set;

/* ---- the interpreter ---- */

typedef struct {
    const plan *p;
    uint32_t *arena;
    uint32_t **expected; /* [n + 1]: the elements of each tensor, dense */
    int wrong;
} interpreter;

static int64_t columns(const shape *s) { return s->rank ? s->dim[s->rank - 1] : 1; }
static const op *at(const interpreter *m, uint32_t id) { return &m->p->r->op[id - 1]; }
static int64_t elements(const interpreter *m, uint32_t id) { return shape_count(&at(m, id)->shape); }

static uint32_t *place_of(const interpreter *m, uint32_t id, int64_t element)
{
    const placement *x = &m->p->place[id];
    int64_t C = columns(&at(m, id)->shape);
    return m->arena + m->p->place[x->base].offset / sizeof(uint32_t) + x->shift + element / C * x->ld + element % C;
}

static void check_operand(interpreter *m, uint32_t id, uint32_t reader)
{
    if (m->p->place[m->p->place[id].base].kind != PLACE_ARENA) return;
    for (int64_t i = 0; i < elements(m, id); i++)
        if (*place_of(m, id, i) != m->expected[id][i]) {
            m->wrong = 1;
            CHECK_MSG(0, "op %u (%s) reads element %lld of %u (%s), which holds another's number", reader,
                      reader > m->p->r->n ? "output" : op_name(at(m, reader)->kind), (long long)i, id,
                      op_name(at(m, id)->kind));
            return;
        }
}

/* Element i of what a moving op makes, from its operand's elements; place in the operand. */
static uint32_t moved(const interpreter *m, const op *o, int64_t i)
{
    const shape *s = &at(m, o->in[0])->shape;
    int64_t place = 0, index[KILN_MAX_RANK] = {0};
    if (o->kind == OP_RESHAPE) return m->expected[o->in[0]][i];
    for (uint32_t k = o->shape.rank; k-- > 0;) index[k] = i % o->shape.dim[k], i /= o->shape.dim[k];
    if (o->kind == OP_SLICE) index[o->attr.slice.axis] += o->attr.slice.start;
    uint32_t operand = 0;
    if (o->kind == OP_CONCAT) {
        uint32_t axis = o->attr.concat.axis;
        while (index[axis] >= at(m, o->in[operand])->shape.dim[axis])
            index[axis] -= at(m, o->in[operand++])->shape.dim[axis];
        s = &at(m, o->in[operand])->shape;
    }
    for (uint32_t k = 0; k < s->rank; k++) place = place * s->dim[k] + index[k];
    return m->expected[o->in[operand]][place];
}

/* May op `id` write out's element j where operand k's element i still lies? Element by element, and for a residual, the
 * same element; in a concatenation what stands there already. Else a kernel would read what it has just written. */
static int may_overlap(const interpreter *m, uint32_t id, uint32_t k, int64_t i, int64_t j)
{
    const op *o = at(m, id);
    int elementwise = o->kind == OP_ADD || o->kind == OP_MUL || o->kind == OP_AFFINE || o->kind == OP_ACT;
    int same =
        shape_equal(&at(m, o->in[k])->shape, &o->shape) && (elementwise || (o->epilogue.residual && k == o->n_in - 1));
    return same ? i == j : o->kind == OP_CONCAT && m->expected[o->in[k]][i] == m->expected[id][j];
}

static void check_overlap(interpreter *m, uint32_t id)
{
    const op *o = at(m, id);
    size_t slots = m->p->arena_bytes / sizeof(uint32_t);
    int64_t *writes = calloc(slots + 1, sizeof *writes); /* element of the result that goes there, + 1 */
    for (int64_t j = 0; j < elements(m, id); j++) writes[place_of(m, id, j) - m->arena] = j + 1;
    for (uint32_t k = 0; k < o->n_in && !m->wrong; k++) {
        if (!o->in[k] || m->p->place[m->p->place[o->in[k]].base].kind != PLACE_ARENA) continue;
        for (int64_t i = 0; i < elements(m, o->in[k]) && !m->wrong; i++) {
            int64_t j = writes[place_of(m, o->in[k], i) - m->arena];
            m->wrong = j && !may_overlap(m, id, k, i, j - 1);
            CHECK_MSG(!m->wrong, "op %u (%s) writes element %lld over element %lld of its operand %u", id,
                      op_name(o->kind), (long long)j - 1, (long long)i, k);
        }
    }
    free(writes);
}

static void interpret(interpreter *m)
{
    const recording *r = m->p->r;
    for (uint32_t id = 1; id <= r->n && !m->wrong; id++) {
        const op *o = at(m, id);
        int moves = o->kind == OP_SLICE || o->kind == OP_RESHAPE || o->kind == OP_CONCAT;
        m->expected[id] = malloc((size_t)elements(m, id) * sizeof(uint32_t));
        for (int64_t i = 0; i < elements(m, id); i++)
            m->expected[id][i] = moves ? moved(m, o, i) : id << 16 | (uint32_t)(i & 0xffff);
        if (m->p->skip[id - 1]) continue;
        for (uint32_t k = 0; k < o->n_in; k++)
            if (o->in[k]) check_operand(m, o->in[k], id);
        for (int64_t i = 0; i < elements(m, id); i++) {
            size_t slot = (size_t)(place_of(m, id, i) - m->arena);
            if (slot >= m->p->arena_bytes / sizeof(uint32_t)) {
                m->wrong = 1;
                CHECK_MSG(0, "op %u writes beyond the arena", id);
                break;
            }
            m->arena[slot] = m->expected[id][i];
        }
        if (!m->wrong) check_overlap(m, id);
    }
    for (size_t i = 0; i < r->n_output && !m->wrong; i++) check_operand(m, r->output[i].id, (uint32_t)r->n + 1);
}

static int holds(const plan *p)
{
    interpreter m = {.p = p,
                     .arena = calloc(p->arena_bytes / sizeof(uint32_t) + 1, sizeof(uint32_t)),
                     .expected = calloc(p->r->n + 1, sizeof *m.expected)};
    interpret(&m);
    for (size_t i = 0; i <= p->r->n; i++) free(m.expected[i]);
    free(m.expected);
    free(m.arena);
    return !m.wrong;
}

/* ---- bounds of the arena ---- */

typedef struct {
    size_t bytes;
    uint32_t first, last;
} block;

static size_t blocks_of(const plan *p, block *b, size_t capacity)
{
    size_t n = 0;
    for (uint32_t id = 1; id <= p->r->n && n < capacity; id++) {
        const placement *x = &p->place[id];
        if (x->kind != PLACE_ARENA || x->base != id || x->first == UINT32_MAX) continue;
        size_t bytes = (size_t)shape_count(&p->r->op[id - 1].shape) * dtype_size(x->dtype);
        b[n++] = (block){.bytes = (bytes + 63) / 64 * 64, .first = x->first, .last = x->last};
    }
    return n;
}

/* The most that is alive at once: no layout is smaller. */
static size_t alive_at_most(const plan *p)
{
    static block b[4096];
    size_t n = blocks_of(p, b, 4096), most = 0;
    for (uint32_t t = 0; t <= p->r->n; t++) {
        size_t sum = 0;
        for (size_t i = 0; i < n; i++)
            if (b[i].first <= t && t <= b[i].last) sum += b[i].bytes;
        if (sum > most) most = sum;
    }
    return most;
}

typedef struct {
    const block *b;
    size_t n, best, offset[8];
    unsigned used;
} search;

/* Every order of placing; each block in the lowest place that is free while it lives. One of these orders gives the
 * least. */
static void place_all(search *s, size_t peak)
{
    if (peak >= s->best) return;
    if (s->used == (1u << s->n) - 1) {
        s->best = peak;
        return;
    }
    for (size_t i = 0; i < s->n; i++) {
        if (s->used >> i & 1) continue;
        size_t offset = 0;
        for (int moved_up = 1; moved_up;) {
            moved_up = 0;
            for (size_t k = 0; k < s->n; k++) {
                const block *x = &s->b[k], *y = &s->b[i];
                if (!(s->used >> k & 1) || x->first > y->last || y->first > x->last) continue;
                if (s->offset[k] < offset + y->bytes && offset < s->offset[k] + x->bytes)
                    offset = s->offset[k] + x->bytes, moved_up = 1;
            }
        }
        s->offset[i] = offset;
        s->used |= 1u << i;
        place_all(s, offset + s->b[i].bytes > peak ? offset + s->b[i].bytes : peak);
        s->used &= ~(1u << i);
    }
}

/* ---- tests ---- */

static int plan_random(recording *r, plan *p, uint32_t precision, uint64_t seed, uint32_t steps, int fusing)
{
    error e = {0};
    CHECK_EQ(recording_init(r, "p", precision, &e), KILN_OK);
    record_random_program(r, set, seed, steps);
    int ok = CHECK_MSG(r->failure.status == KILN_OK, "seed %llu: %s", (unsigned long long)seed, r->failure.message) &&
             CHECK_EQ(fusing ? fuse(r, &e) : fuse_nothing(r, &e), KILN_OK) &&
             CHECK_MSG(plan_make(p, r, &e) == KILN_OK, "%s", e.message);
    if (!ok) recording_free(r);
    return ok;
}

static void test_no_live_tensor_is_written_over_in_random_programs(void)
{
    size_t views = 0, in_place = 0, joined = 0, skips = 0;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        recording r;
        plan p;
        REQUIRE(plan_random(&r, &p, KILN_F32, seed, 1 + (uint32_t)seed % 40, seed % 3 != 0));
        CHECK_MSG(holds(&p), "seed %llu", (unsigned long long)seed);
        for (uint32_t id = 1; id <= r.n; id++) {
            const op *o = &r.op[id - 1];
            if (p.skip[id - 1]) {
                views += o->kind == OP_SLICE || o->kind == OP_RESHAPE;
                continue;
            }
            skips += o->kind == OP_SLICE;
            if (p.place[id].base != id) r.op[p.place[id].base - 1].kind == OP_CONCAT ? joined++ : in_place++;
        }
        CHECK(p.arena_bytes >= alive_at_most(&p));
        plan_free(&p);
        recording_free(&r);
    }
    CHECK_MSG(views > 50 && in_place > 50 && joined > 10 && skips > 5,
              "views %zu, results in place %zu, operands in concatenations %zu, copied slices %zu", views, in_place,
              joined, skips);
}

/* The peak against the best of all orders. Placing the largest first is not always the best: measured over these 266
 * programs, 17 % above it at worst and 0.2 % in all; a quarter and 1 % are allowed. */
static void test_the_arena_is_near_the_best_layout_of_small_programs(void)
{
    size_t compared = 0, ours = 0, best = 0;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        recording r;
        plan p;
        block b[9];
        REQUIRE(plan_random(&r, &p, KILN_F32, seed, 2 + (uint32_t)seed % 5, 1));
        size_t n = blocks_of(&p, b, 9);
        if (n >= 3 && n <= 7) {
            search s = {.b = b, .n = n, .best = SIZE_MAX};
            place_all(&s, 0);
            CHECK_MSG(p.arena_bytes >= s.best && p.arena_bytes * 4 <= s.best * 5,
                      "seed %llu: %zu bytes, the best is %zu", (unsigned long long)seed, p.arena_bytes, s.best);
            ours += p.arena_bytes, best += s.best, compared++;
        }
        plan_free(&p);
        recording_free(&r);
    }
    CHECK_MSG(compared > 30 && ours * 100 <= best * 101, "%zu programs: %zu bytes, the best is %zu", compared, ours,
              best);
}

static plan planned;
static recording made;

static int plan_of(recorder *c, kiln_t y)
{
    error e = {0};
    record_output(c->r, "y", y);
    return CHECK_MSG(c->r->failure.status == KILN_OK, "%s", c->r->failure.message) &&
           CHECK_EQ(fuse(c->r, &e), KILN_OK) && CHECK_EQ(plan_make(&planned, c->r, &e), KILN_OK);
}
static recorder begin(uint32_t precision)
{
    error e = {0};
    recording_init(&made, "p", precision, &e);
    return (recorder){.r = &made, .w = set};
}
static void end(void)
{
    plan_free(&planned);
    recording_free(&made);
}
static size_t count(op_kind kind)
{
    size_t n = 0;
    for (size_t i = 0; i < made.n; i++) n += made.op[i].kind == kind;
    return n;
}

static void test_an_input_of_another_type_is_converted_once(void)
{
    recorder c = begin(KILN_BF16);
    kiln_t x = record_input(c.r, "x", KILN_F32, 4, DIMS(2, 4, 4, 8)), t = record_input(c.r, "t", KILN_F32, 1, DIMS(2));
    kiln_t e = put1(&c, OP_TIMESTEP, (op_attr){.timestep = {.dim = 8, .max_period = 10000}}, t);
    kiln_t h = put_add(&c, put_conv(&c, x, 8, 3, 1), put_act(&c, x, KILN_ACT_TANH));
    REQUIRE(plan_of(&c, put_add(&c, h, record_reshape(c.r, e, 4, DIMS(2, 1, 1, 8)))));
    CHECK_EQ(count(OP_CONVERT), 1); /* x; the times are read as they are */
    for (uint32_t id = 1; id <= made.n; id++)
        if (made.op[id - 1].kind == OP_TIMESTEP) CHECK_EQ(planned.place[made.op[id - 1].in[0]].dtype, KILN_F32);
    for (uint32_t id = 1; id <= made.n; id++)
        if (planned.place[id].kind == PLACE_ARENA) CHECK_EQ(planned.place[id].dtype, KILN_BF16);
    end();
}

static void test_slices_and_reshapes_take_no_memory(void)
{
    recorder c = begin(KILN_F32);
    kiln_t x = put_conv(&c, record_input(c.r, "x", KILN_F32, 4, DIMS(1, 4, 4, 8)), 16, 3, 1);
    kiln_t rows = put_slice(&c, x, 1, 1, 2); /* one picture: rows are a run */
    kiln_t flat = record_reshape(c.r, put_slice(&c, rows, 3, 8, 8), 3, DIMS(1, 8, 8));
    REQUIRE(plan_of(&c, put_act(&c, flat, KILN_ACT_TANH)));
    CHECK_EQ(planned.n_run, 2);
    for (uint32_t id = 1; id <= made.n; id++)
        if (made.op[id - 1].kind == OP_RESHAPE) {
            CHECK_EQ(planned.place[id].shift, 1 * 4 * 16 + 8);
            CHECK_EQ(planned.place[id].ld, 16);
        }
    CHECK(holds(&planned));
    end();
}

static void test_a_residual_chain_stays_in_one_place(void)
{
    recorder c = begin(KILN_F32);
    kiln_t x = put_conv(&c, record_input(c.r, "x", KILN_F32, 4, DIMS(1, 8, 8, 16)), 16, 3, 1);
    for (int i = 0; i < 5; i++)
        x = put_add(&c, x, put_conv(&c, put_act(&c, put_norm(&c, x, 4), KILN_ACT_SILU), 16, 3, 1));
    REQUIRE(plan_of(&c, x));
    CHECK_EQ(planned.arena_bytes, 2 * 8 * 8 * 16 * sizeof(float)); /* the chain and one norm at a time */
    CHECK(holds(&planned));
    end();
}

static void test_a_sum_takes_the_place_of_its_second_operand(void)
{
    recorder c = begin(KILN_F32);
    kiln_t x = record_input(c.r, "x", KILN_F32, 4, DIMS(1, 8, 8, 16));
    kiln_t keep = put_norm(&c, x, 4), gone = put_norm(&c, keep, 2);
    kiln_t sum = put_add(&c, keep, gone);
    REQUIRE(plan_of(&c, put_norm(&c, put_add(&c, sum, keep), 4)));
    CHECK_EQ(planned.arena_bytes, 2 * 8 * 8 * 16 * sizeof(float));
    CHECK(holds(&planned));
    end();
}

static void test_flops_are_those_of_the_products(void)
{
    recorder c = begin(KILN_F32);
    kiln_t x = record_input(c.r, "x", KILN_F32, 4, DIMS(2, 4, 4, 8));
    kiln_t t = record_reshape(c.r, put_conv(&c, x, 16, 3, 1), 3, DIMS(2, 16, 16));
    kiln_t q = put_linear(&c, t, 16, 0, 0), k = put_linear(&c, t, 16, 1, 0), v = put_linear(&c, t, 16, 2, 0);
    REQUIRE(plan_of(&c, put1(&c, OP_GEGLU, (op_attr){0}, put_linear(&c, put_attention(&c, q, k, v), 32, 0, 1))));
    uint64_t conv = 2u * 2 * 16 * 16 * 8 * 9, qkv = 2u * 2 * 16 * 48 * 16, scores = 4u * 2 * 16 * 16 * 16,
             wide = 2u * 2 * 16 * 32 * 16;
    CHECK_EQ(planned.flops, conv + qkv + scores + wide); /* geglu fused: both halves are computed */
    end();
}

static void test_every_allocation_may_fail(void)
{
    int64_t k = 0;
    for (int failed = 1; failed && k < 1000; k++) {
        recording r;
        plan p;
        error e = {0};
        CHECK_EQ(recording_init(&r, "p", KILN_BF16, &e), KILN_OK);
        record_random_program(&r, set, 3, 25);
        CHECK_EQ(fuse(&r, &e), KILN_OK);
        mem_fail_at(k, 0);
        kiln_status status = plan_make(&p, &r, &e);
        mem_fail_at(-1, 0);
        failed = status != KILN_OK;
        if (failed) CHECK_EQ(status, KILN_ERR_NOMEM);
        plan_free(&p);
        recording_free(&r);
    }
    CHECK(k > 5);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_no_live_tensor_is_written_over_in_random_programs),
        CASE(test_the_arena_is_near_the_best_layout_of_small_programs),
        CASE(test_an_input_of_another_type_is_converted_once),
        CASE(test_slices_and_reshapes_take_no_memory),
        CASE(test_a_residual_chain_stays_in_one_place),
        CASE(test_a_sum_takes_the_place_of_its_second_operand),
        CASE(test_flops_are_those_of_the_products),
        CASE(test_every_allocation_may_fail),
    };
    return made_test_main(argc, argv, cases, sizeof cases / sizeof cases[0], &set);
}
