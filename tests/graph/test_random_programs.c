/* test_random_programs.c - plans of random programs: what lives at the same time lies apart, the peak is exact, views
 * and places taken over give the same numbers as a plain evaluation.
 *
 * Tolerances: unfused f32 programs run the same kernels on the same numbers and must agree in every bit.
 */
#include "graph/fuse.h"
#include "graph/plan.h"
#include "random_program.h"

#include "tensor/dtype.h"

#include <stdio.h>

enum { PROGRAMS = 300 };

static runtime *plain_runtime(int unfused)
{
    error e = {0};
    runtime *rt = runtime_new(
        &(runtime_setting){.backend = &backend_reference, .threads = 1, .precision = KILN_F32, .unfused = unfused}, &e);
    CHECK_MSG(rt != NULL, "%s", e.message);
    return rt;
}

/* Lifetimes found anew from the ops, and what each tensor touches; then every pair that meets in time must not in
 * space. */
static void check_layout(const plan *p, uint64_t seed)
{
    const recording *r = p->r;
    int64_t *first = mem_calloc(r->n + 1, sizeof *first), *last = mem_calloc(r->n + 1, sizeof *last);
    size_t *bytes = mem_calloc(r->n + 1, sizeof *bytes), end = 0, live_most = 0;
    for (uint32_t id = 0; id <= r->n; id++) first[id] = INT64_MAX, last[id] = -1;
    for (uint32_t i = 0; i < r->n; i++) {
        const op *o = &r->op[i];
        if (p->skip[i]) continue;
        for (uint32_t k = 0; k <= o->n_in; k++) {
            uint32_t id = k < o->n_in ? o->in[k] : i + 1, b = id ? p->place[id].base : 0;
            if (!b) continue;
            if (i < first[b]) first[b] = i;
            if (i > last[b]) last[b] = i;
        }
    }
    for (size_t i = 0; i < r->n_output; i++) last[p->place[r->output[i].id].base] = (int64_t)r->n;
    for (uint32_t id = 1; id <= r->n; id++) {
        const placement *x = &p->place[id], *base = &p->place[x->base];
        const shape *s = &r->op[id - 1].shape;
        if (base->kind != PLACE_ARENA) continue;
        CHECK_MSG(base->base == x->base, "seed %llu: tensor %u: its base is itself a view", (unsigned long long)seed,
                  id);
        CHECK_MSG(x->dtype == base->dtype, "seed %llu: tensor %u: a view of another type", (unsigned long long)seed,
                  id);
        int64_t columns = s->dim[s->rank - 1], rows = shape_count(s) / columns;
        int64_t reach = x->shift + (rows - 1) * x->ld + columns;
        CHECK_MSG(x->ld >= columns && x->shift >= 0 && reach <= shape_count(&r->op[x->base - 1].shape),
                  "seed %llu: tensor %u reaches outside its base", (unsigned long long)seed, id);
        bytes[x->base] = ((size_t)shape_count(&r->op[x->base - 1].shape) * dtype_size(base->dtype) + 63) / 64 * 64;
    }
    for (uint32_t a = 1; a <= r->n; a++) {
        if (!bytes[a] || last[a] < 0) continue;
        if (p->place[a].offset + bytes[a] > end) end = p->place[a].offset + bytes[a];
        CHECK_EQ(p->place[a].offset % 64, 0);
        for (uint32_t b = a + 1; b <= r->n; b++) {
            if (!bytes[b] || last[b] < first[a] || last[a] < first[b]) continue;
            int apart = p->place[a].offset + bytes[a] <= p->place[b].offset ||
                        p->place[b].offset + bytes[b] <= p->place[a].offset;
            CHECK_MSG(apart, "seed %llu: tensors %u and %u live at once and overlap", (unsigned long long)seed, a, b);
        }
    }
    for (int64_t i = 0; i < (int64_t)r->n; i++) {
        size_t live = 0;
        for (uint32_t a = 1; a <= r->n; a++) live += first[a] <= i && i <= last[a] ? bytes[a] : 0;
        if (live > live_most) live_most = live;
    }
    CHECK_MSG(p->arena_bytes == end, "seed %llu: arena_bytes %zu, the last tensor ends at %zu",
              (unsigned long long)seed, p->arena_bytes, end);
    CHECK_MSG(p->arena_bytes >= live_most && p->arena_bytes <= 2 * live_most, "seed %llu: %zu bytes for %zu live ones",
              (unsigned long long)seed, p->arena_bytes, live_most);
    mem_free(first), mem_free(last), mem_free(bytes);
}

static void test_nothing_alive_overlaps(void)
{
    for (uint64_t seed = 1; seed <= PROGRAMS; seed++)
        for (int fused = 0; fused < 2; fused++)
            for (int type = 0; type < 2; type++) {
                recording r;
                plan p = {0};
                error e = {0};
                REQUIRE(recording_init(&r, "p", type ? KILN_BF16 : KILN_F32, &e) == KILN_OK);
                random_program(&r, seed, 8 + (uint32_t)(seed % 30));
                CHECK_MSG(r.failure.status == KILN_OK, "seed %llu: %s", (unsigned long long)seed, r.failure.message);
                CHECK_EQ(fused ? fuse(&r, &e) : fuse_nothing(&r, &e), KILN_OK);
                CHECK_MSG(plan_make(&p, &r, &e) == KILN_OK, "%s", e.message);
                check_layout(&p, seed);
                plan_free(&p);
                recording_free(&r);
            }
}

/* Runs a program and compares its outputs with the plain evaluation: all bits, or within `tolerance`. */
static void compare(runtime *rt, uint64_t seed, double tolerance)
{
    float x[PICTURE], t[TOKENS];
    static float got[RANDOM_OUTPUTS][65536];
    static const char *const name[RANDOM_OUTPUTS] = {"o0", "o1", "o2"};
    error e = {0};
    random_inputs(x, t);
    kiln_program *p = program_new(rt, "p", KILN_F32, &e);
    REQUIRE(p);
    recording *r = program_recording(p);
    random_program(r, seed, 8 + (uint32_t)(seed % 30));
    size_t n_plain = r->n;
    float **want = plain_evaluation(r, x, t, runtime_pool(rt));
    kiln_bind in[] = {bind_f32("t", t, 3, tokens_dim), bind_f32("x", x, 4, picture_dim)}, out[RANDOM_OUTPUTS];
    uint32_t id[RANDOM_OUTPUTS];
    shape recorded_shape[RANDOM_OUTPUTS]; /* planning moves the ops */
    size_t count[RANDOM_OUTPUTS];
    for (uint32_t i = 0; i < RANDOM_OUTPUTS; i++) {
        shape *s = &recorded_shape[i];
        *s = r->op[r->output[i].id - 1].shape;
        id[i] = r->output[i].id;
        count[i] = (size_t)shape_count(s);
        out[i] = bind_f32(name[i], got[i], s->rank, s->dim);
    }
    if (CHECK_MSG(program_plan(p, &e) == KILN_OK, "seed %llu: %s", (unsigned long long)seed, e.message)) {
        /* twice: what the first run leaves in the arena must not matter */
        for (int i = 0; i < 2; i++)
            CHECK_MSG(program_run(p, in, 2, out, RANDOM_OUTPUTS, NULL, NULL, &e) == KILN_OK, "seed %llu: %s",
                      (unsigned long long)seed, e.message);
        for (uint32_t i = 0; i < RANDOM_OUTPUTS; i++) {
            char what[60];
            snprintf(what, sizeof what, "seed %llu, %s", (unsigned long long)seed, name[i]);
            if (tolerance == 0)
                CHECK_MSG(memcmp(got[i], want[id[i]], count[i] * sizeof(float)) == 0,
                          "%s: not the plain evaluation's bytes", what);
            else
                check_array(got[i], want[id[i]], count[i], tolerance, what, __FILE__, __LINE__);
        }
    }
    plain_free(want, n_plain);
    program_free(p);
}

static void test_unfused_is_the_plain_evaluation(void)
{
    runtime *rt = plain_runtime(1);
    REQUIRE(rt);
    for (uint64_t seed = 1; seed <= PROGRAMS; seed++) compare(rt, seed, 0);
    runtime_free(rt);
}

/* Fusing keeps in double what is otherwise rounded to f32 between two ops: half an ulp (6e-8) each time, and some tens
 * of ops, norms and softmaxes carry it on; 1e-5 of the whole is ten times what was seen. */
static void test_fused_is_near_the_plain_evaluation(void)
{
    runtime *rt = plain_runtime(0);
    REQUIRE(rt);
    for (uint64_t seed = 1; seed <= PROGRAMS; seed++) compare(rt, seed, 1e-5);
    runtime_free(rt);
}

/* The rules one by one, on programs that have nothing else in them. */
static void plan_of(recording *r, plan *p)
{
    error e = {0};
    CHECK_MSG(r->failure.status == KILN_OK, "%s", r->failure.message);
    CHECK_EQ(fuse_nothing(r, &e), KILN_OK);
    CHECK_MSG(plan_make(p, r, &e) == KILN_OK, "%s", e.message);
}

static const placement *place_of_output(const plan *p, size_t i) { return &p->place[p->r->output[i].id]; }

static void test_rules(void)
{
    static const struct {
        const char *what;
        op_kind kind;
        uint32_t axis;
        size_t arena; /* in units of one picture */
        uint32_t runs;
    } rows[] = {
        {"a chain of elementwise ops needs one place", OP_ACT, 0, 1, 3},
        {"a slice of columns is a view", OP_SLICE, 3, 1, 1},
        {"a slice of the outermost dimension is a view", OP_SLICE, 0, 1, 1},
        {"a slice of an inner dimension is copied", OP_SLICE, 1, 0, 2},
        {"a reshape is a view", OP_RESHAPE, 0, 1, 1},
        {"operands of a concatenation of columns are written in place", OP_CONCAT, 3, 2, 3},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        recording r;
        plan p = {0};
        error e = {0};
        REQUIRE(recording_init(&r, "p", KILN_F32, &e) == KILN_OK);
        kiln_t x = record_input(&r, "x", KILN_F32, 4, picture_dim);
        op_attr act = {.act = {KILN_ACT_SILU}}, a = {0};
        kiln_t y = record_op(&r, OP_ACT, &act, &x, 1), z = y;
        if (rows[i].kind == OP_ACT) z = record_op(&r, OP_ACT, &act, &y, 1), z = record_op(&r, OP_ACT, &act, &z, 1);
        if (rows[i].kind == OP_SLICE)
            a.slice.axis = rows[i].axis, a.slice.start = 1, a.slice.length = 1, z = record_op(&r, OP_SLICE, &a, &y, 1);
        if (rows[i].kind == OP_RESHAPE) z = record_reshape(&r, y, 2, (const int64_t[]){32, 8});
        if (rows[i].kind == OP_CONCAT) {
            a.concat.axis = rows[i].axis;
            kiln_t second = record_op(&r, OP_ACT, &act, &x, 1);
            z = record_op(&r, OP_CONCAT, &a, (const kiln_t[]){y, second}, 2);
        }
        record_output(&r, "o", z);
        plan_of(&r, &p);
        CHECK_MSG(!rows[i].arena || p.arena_bytes == rows[i].arena * PICTURE * sizeof(float), "%s: %zu bytes",
                  rows[i].what, p.arena_bytes);
        CHECK_MSG(p.n_run == rows[i].runs, "%s: %u ops to run", rows[i].what, p.n_run);
        CHECK(place_of_output(&p, 0)->kind == PLACE_ARENA || p.place[place_of_output(&p, 0)->base].kind == PLACE_ARENA);
        plan_free(&p);
        recording_free(&r);
    }
}

/* What is read again later, or is an output, must not be written over. */
static void test_not_in_place_while_needed(void)
{
    for (int output = 0; output < 2; output++) {
        recording r;
        plan p = {0};
        error e = {0};
        REQUIRE(recording_init(&r, "p", KILN_F32, &e) == KILN_OK);
        kiln_t x = record_input(&r, "x", KILN_F32, 4, picture_dim);
        op_attr act = {.act = {KILN_ACT_SILU}};
        kiln_t y = record_op(&r, OP_ACT, &act, &x, 1), z = record_op(&r, OP_ACT, &act, &y, 1);
        if (output)
            record_output(&r, "y", y);
        else
            z = record_op(&r, OP_MUL, NULL, (const kiln_t[]){z, y}, 2);
        record_output(&r, "o", z);
        plan_of(&r, &p);
        CHECK_EQ(p.arena_bytes, 2 * PICTURE * sizeof(float));
        plan_free(&p);
        recording_free(&r);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_nothing_alive_overlaps), CASE(test_unfused_is_the_plain_evaluation),
                                      CASE(test_fused_is_near_the_plain_evaluation), CASE(test_rules),
                                      CASE(test_not_in_place_while_needed)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
