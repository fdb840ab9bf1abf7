/* test_states.c - memory of programs that outlives their runs: shared, forked, saved, round the end, on the account. */
#include "backend/states.h"
#include "harness.h"
#include "memory/residency.h"
#include "rig.h"
#include "tensor/value.h"

#include <math.h>
#include <string.h>

static const kiln_ops *ops(void) { return rig_host()->ability(KILN_OPS_ABILITY); }

static kiln_bind numbers(const char *name, float *data, uint32_t rank, const int64_t *dim)
{
    return (kiln_bind)KILN_BIND(
        name,
        {.size = sizeof(kiln_tensor), .dtype = KILN_F32, .device = KILN_CPU, .rank = rank, .dim = dim, .data = data});
}
static kiln_bind place(int32_t *data)
{
    static const int64_t one = 1;
    return (kiln_bind)KILN_BIND(
        "at",
        {.size = sizeof(kiln_tensor), .dtype = KILN_I32, .device = KILN_CPU, .rank = 1, .dim = &one, .data = data});
}

enum { PLACES = 6, WIDTH = 3, ROWS = 2 };

/* Writes x's rows at `at`; "after" is the state then, "before" what it was. */
static kiln_program *writer(const char *state)
{
    const kiln_ops *o = ops();
    kiln_program *p =
        o->program_new(rig_ctx(), &(kiln_program_options){.size = sizeof(kiln_program_options), .name = "writer"});
    kiln_t s = o->state(p, state, KILN_F32, 3, KILN_DIMS(1, PLACES, WIDTH));
    kiln_t x = o->input(p, "x", KILN_F32, 3, KILN_DIMS(1, ROWS, WIDTH)),
           at = o->input(p, "at", KILN_I32, 1, KILN_DIMS(1));
    kiln_t before = o->affine(p, s, 1, 0), after = o->state_write(p, s, 1, at, x);
    o->output(p, "before", before);
    o->output(p, "after", o->affine(p, after, 1, 0));
    CHECK_MSG(o->plan(rig_ctx(), p, NULL) == KILN_OK, "%s", rig_message());
    return p;
}

static kiln_status write_rows(kiln_program *p, kiln_states *s, float first, int32_t at, float before[18],
                              float after[18])
{
    float x[ROWS * WIDTH];
    for (int i = 0; i < ROWS * WIDTH; i++) x[i] = first + (float)i;
    kiln_bind in[] = {numbers("x", x, 3, KILN_DIMS(1, ROWS, WIDTH)), place(&at)};
    kiln_bind out[] = {numbers("before", before, 3, KILN_DIMS(1, PLACES, WIDTH)),
                       numbers("after", after, 3, KILN_DIMS(1, PLACES, WIDTH))};
    return ops()->run_with(
        rig_ctx(), p, &(kiln_run){.size = sizeof(kiln_run), .states = s, .in = in, .n_in = 2, .out = out, .n_out = 2});
}

static void test_a_state_outlives_runs_and_is_shared(void)
{
    float before[18], after[18];
    kiln_program *one = writer("rows"), *two = writer("rows");
    kiln_states *s = ops()->states_new(rig_ctx(), "test");
    CHECK_EQ(write_rows(one, s, 10, 0, before, after), KILN_OK);
    CHECK(before[0] == 0 && before[17] == 0 && after[0] == 10 && after[5] == 15 && after[6] == 0);
    CHECK_EQ(write_rows(two, s, 20, 2, before, after), KILN_OK);
    CHECK(before[0] == 10 && before[5] == 15 && before[6] == 0); /* read as it was before the write */
    CHECK(after[0] == 10 && after[6] == 20 && after[11] == 25);
    CHECK_EQ(write_rows(one, s, 30, 5, before, after), KILN_OK); /* round the end */
    CHECK(after[15] == 30 && after[17] == 32 && after[0] == 33 && after[2] == 35 && after[3] == 13);
    CHECK_EQ(ops()->states_bytes(s), sizeof(float) * PLACES * WIDTH);
    ops()->states_clear(s, "rows");
    CHECK_EQ(write_rows(one, s, 1, 0, before, after), KILN_OK);
    CHECK(before[0] == 0 && before[17] == 0);
    ops()->states_free(s);
    ops()->program_free(one), ops()->program_free(two);
}

/* A slice that was recorded before the write is read after it. */
static void test_a_part_stays_what_it_was(void)
{
    const kiln_ops *o = ops();
    float before[18], after[18], x[6] = {50, 51, 52, 53, 54, 55}, y[6] = {0}, flat[18] = {0};
    int32_t at = 0;
    kiln_program *first = writer("rows");
    kiln_states *s = o->states_new(rig_ctx(), "test");
    CHECK_EQ(write_rows(first, s, 10, 0, before, after), KILN_OK);
    kiln_program *p =
        o->program_new(rig_ctx(), &(kiln_program_options){.size = sizeof(kiln_program_options), .name = "tail"});
    kiln_t state = o->state(p, "rows", KILN_F32, 3, KILN_DIMS(1, PLACES, WIDTH)),
           in = o->input(p, "x", KILN_F32, 3, KILN_DIMS(1, ROWS, WIDTH)),
           place_in = o->input(p, "at", KILN_I32, 1, KILN_DIMS(1));
    kiln_t tail = o->slice(p, state, 1, 0, ROWS), all = o->reshape(p, state, 2, KILN_DIMS(PLACES, WIDTH));
    kiln_t written = o->state_write(p, state, 1, place_in, in);
    o->output(p, "y", o->add(p, tail, o->slice(p, written, 1, 0, ROWS)));
    o->output(p, "all", all);
    CHECK_MSG(o->plan(rig_ctx(), p, NULL) == KILN_OK, "%s", rig_message());
    kiln_bind from[] = {numbers("x", x, 3, KILN_DIMS(1, ROWS, WIDTH)), place(&at)};
    kiln_bind to[] = {numbers("y", y, 3, KILN_DIMS(1, ROWS, WIDTH)), numbers("all", flat, 2, KILN_DIMS(PLACES, WIDTH))};
    kiln_run r = {.size = sizeof r, .states = s, .in = from, .n_in = 2, .out = to, .n_out = 2};
    CHECK_MSG(o->run_with(rig_ctx(), p, &r) == KILN_OK, "%s", rig_message());
    for (int i = 0; i < 6; i++) CHECK(y[i] == (float)(10 + i) + x[i] && flat[i] == (float)(10 + i));
    o->states_free(s);
    o->program_free(p), o->program_free(first);
}

static void test_a_fork_goes_its_own_way(void)
{
    float before[18], after[18];
    kiln_program *p = writer("rows");
    kiln_states *s = ops()->states_new(rig_ctx(), "test");
    size_t empty = budget_used(residency_budget(runtime_residency(rig_runtime)));
    CHECK_EQ(write_rows(p, s, 10, 0, before, after), KILN_OK);
    size_t one = budget_used(residency_budget(runtime_residency(rig_runtime)));
    kiln_states *f = ops()->states_fork(rig_ctx(), s);
    REQUIRE(f);
    CHECK_EQ(budget_used(residency_budget(runtime_residency(rig_runtime))), one); /* nothing is copied yet */
    CHECK_EQ(write_rows(p, f, 50, 2, before, after), KILN_OK);
    CHECK(before[0] == 10 && after[6] == 50);
    CHECK(budget_used(residency_budget(runtime_residency(rig_runtime))) > one); /* now it is */
    CHECK_EQ(write_rows(p, s, 70, 4, before, after), KILN_OK);
    CHECK(before[6] == 0 && after[12] == 70); /* the origin has not seen the fork's rows */
    ops()->states_free(s);
    CHECK_EQ(write_rows(p, f, 80, 4, before, after), KILN_OK);
    CHECK(before[0] == 10 && before[6] == 50);
    ops()->states_free(f);
    CHECK(budget_used(residency_budget(runtime_residency(rig_runtime))) <= one && empty <= one);
    ops()->program_free(p);
}

static void test_a_state_is_saved_and_goes_on(void)
{
    float before[18], after[18];
    kiln_program *p = writer("rows");
    kiln_states *s = ops()->states_new(rig_ctx(), "test"), *again = ops()->states_new(rig_ctx(), "again");
    CHECK_EQ(write_rows(p, s, 10, 1, before, after), KILN_OK);
    kiln_value *saved = ops()->states_save(rig_ctx(), s);
    REQUIRE(saved);
    CHECK_MSG(ops()->states_load(rig_ctx(), again, saved) == KILN_OK, "%s", rig_message());
    CHECK_EQ(write_rows(p, again, 30, 3, before, after), KILN_OK);
    CHECK(before[3] == 10 && before[8] == 15 && after[9] == 30);
    value_unref(saved);
    ops()->states_free(s), ops()->states_free(again);
    ops()->program_free(p);
}

/* As a stored type's from_plain() has it: a call where nothing computes. Forked and run, it is on the device. */
static void test_made_where_nothing_computes(void)
{
    float before[18], after[18];
    error why = {0};
    kiln_program *p = writer("rows");
    kiln_states *s = ops()->states_new(rig_ctx(), "test");
    CHECK_EQ(write_rows(p, s, 10, 1, before, after), KILN_OK);
    kiln_value *saved = ops()->states_save(rig_ctx(), s);
    size_t held = budget_used(residency_budget(runtime_residency(rig_runtime)));
    kiln_states *loose = states_new(NULL, "loose", 0, &why);
    REQUIRE(saved && loose);
    CHECK_MSG(ops()->states_load(rig_ctx(), loose, saved) == KILN_OK, "%s", rig_message());
    CHECK_EQ(ops()->states_bytes(loose), sizeof(float) * PLACES * WIDTH);
    CHECK_EQ(budget_used(residency_budget(runtime_residency(rig_runtime))), held);
    kiln_states *f = ops()->states_fork(rig_ctx(), loose);
    REQUIRE(f);
    CHECK(budget_used(residency_budget(runtime_residency(rig_runtime))) > held);
    CHECK_EQ(write_rows(p, f, 30, 3, before, after), KILN_OK);
    CHECK(before[3] == 10 && before[8] == 15 && after[9] == 30);
    kiln_states *alone = states_new(NULL, "alone", 0, &why);
    REQUIRE(alone && ops()->states_load(rig_ctx(), alone, saved) == KILN_OK);
    CHECK_EQ(write_rows(p, alone, 30, 3, before, after), KILN_OK); /* without a fork */
    CHECK(before[3] == 10 && after[9] == 30);
    value_unref(saved);
    ops()->states_free(s), ops()->states_free(f), ops()->states_free(loose), ops()->states_free(alone);
    ops()->program_free(p);
}

/* A batch of unequal lengths: places behind a count stay what they were. */
static void test_as_much_as_a_count_says(void)
{
    const kiln_ops *o = ops();
    float x[2 * 3 * 2], y[2 * 5 * 2];
    int32_t at[2] = {1, 4}, count[2] = {2, 3};
    kiln_program *p =
        o->program_new(rig_ctx(), &(kiln_program_options){.size = sizeof(kiln_program_options), .name = "part"});
    kiln_t state = o->state(p, "rows", KILN_F32, 3, KILN_DIMS(2, 5, 2));
    kiln_t in = o->input(p, "x", KILN_F32, 3, KILN_DIMS(2, 3, 2)), from = o->input(p, "at", KILN_I32, 1, KILN_DIMS(2));
    kiln_state_write how = {
        .size = sizeof how, .axis = 1, .offset = from, .count = o->input(p, "count", KILN_I32, 1, KILN_DIMS(2))};
    o->output(p, "y", o->affine(p, o->state_write_part(p, state, in, &how), 1, 0));
    CHECK_MSG(o->plan(rig_ctx(), p, NULL) == KILN_OK, "%s", rig_message());
    kiln_states *s = o->states_new(rig_ctx(), "test");
    for (int i = 0; i < 12; i++) x[i] = (float)(i + 1);
    int64_t two = 2;
    kiln_bind binds[] = {
        numbers("x", x, 3, KILN_DIMS(2, 3, 2)),
        KILN_BIND(
            "at",
            {.size = sizeof(kiln_tensor), .dtype = KILN_I32, .device = KILN_CPU, .rank = 1, .dim = &two, .data = at}),
        KILN_BIND("count", {.size = sizeof(kiln_tensor),
                            .dtype = KILN_I32,
                            .device = KILN_CPU,
                            .rank = 1,
                            .dim = &two,
                            .data = count})};
    kiln_bind out = numbers("y", y, 3, KILN_DIMS(2, 5, 2));
    kiln_run r = {.size = sizeof r, .states = s, .in = binds, .n_in = 3, .out = &out, .n_out = 1};
    CHECK_MSG(o->run_with(rig_ctx(), p, &r) == KILN_OK, "%s", rig_message());
    static const float want[20] = {0,  0,  1,  2, 3, 4, 0, 0, 0, 0, /* the second goes round: */ 9,
                                   10, 11, 12, 0, 0, 0, 0, 7, 8};
    for (int i = 0; i < 20; i++) CHECK_EQ(y[i], want[i]);
    count[0] = 4; /* of three */
    int on_device = o->device(rig_ctx()) != KILN_CPU;
    kiln_status status = o->run_with(rig_ctx(), p, &r);
    CHECK_MSG(on_device ? status == KILN_OK
                        : status == KILN_ERR_INVALID && strstr(rig_message(), "4 of 3 places") != NULL,
              "%s", rig_message());
    o->states_free(s), o->program_free(p);
}

/* Rows of a sequence by numbers that a range and the run's own number make; the type that is recorded now. */
static void test_rows_by_numbers(void)
{
    const kiln_ops *o = ops();
    float x[2 * 4 * 3], y[2 * 2 * 3];
    int32_t last[2] = {3, 2};
    int64_t dim[2] = {2, 1};
    kiln_program *p = o->program_new(
        rig_ctx(),
        &(kiln_program_options){.size = sizeof(kiln_program_options), .name = "rows", .precision = KILN_F32});
    CHECK_EQ(o->precision(p), KILN_F32);
    o->precision_push(p, KILN_BF16);
    uint32_t inside = o->precision(p);
    o->precision_pop(p);
    CHECK(inside == KILN_BF16 && o->precision(p) == KILN_F32);
    kiln_t in = o->input(p, "x", KILN_F32, 3, KILN_DIMS(2, 4, 3)), at = o->input(p, "last", KILN_I32, 2, dim);
    kiln_map whole = {.size = sizeof whole, .dtype = KILN_I32};
    kiln_t index = o->map(p, "a + b", (kiln_t[]){at, o->arange(p, -1, 1, 1)}, 2, &whole); /* the last two rows */
    o->output(p, "y", o->gather(p, in, index));
    CHECK_MSG(o->plan(rig_ctx(), p, NULL) == KILN_OK, "%s", rig_message());
    for (int i = 0; i < 24; i++) x[i] = (float)i;
    kiln_bind binds[] = {
        numbers("x", x, 3, KILN_DIMS(2, 4, 3)),
        KILN_BIND(
            "last",
            {.size = sizeof(kiln_tensor), .dtype = KILN_I32, .device = KILN_CPU, .rank = 2, .dim = dim, .data = last})};
    kiln_bind out = numbers("y", y, 3, KILN_DIMS(2, 2, 3));
    CHECK_MSG(o->run(rig_ctx(), p, binds, 2, &out, 1) == KILN_OK, "%s", rig_message());
    static const float want[12] = {6, 7, 8, 9, 10, 11, 15, 16, 17, 18, 19, 20};
    for (int i = 0; i < 12; i++) CHECK_EQ(y[i], want[i]);
    o->program_free(p);
    p = o->program_new(rig_ctx(), &(kiln_program_options){.size = sizeof(kiln_program_options), .name = "none"});
    o->output(p, "y", o->arange(p, 3, 3, 1));
    CHECK_EQ(o->plan(rig_ctx(), p, NULL), KILN_ERR_INVALID);
    CHECK_MSG(strstr(rig_message(), "arange from 3 to 3 by 1") != NULL, "%s", rig_message());
    o->program_free(p);
}

static void test_what_goes_wrong_is_a_sentence(void)
{
    float before[18], after[18];
    kiln_program *p = writer("rows");
    CHECK_EQ(write_rows(p, NULL, 1, 0, before, after), KILN_ERR_INVALID);
    CHECK_MSG(strstr(rig_message(), "without states") != NULL, "%s", rig_message());
    kiln_states *s = ops()->states_new(rig_ctx(), "test");
    int on_device = ops()->device(rig_ctx()) != KILN_CPU; /* which writes nothing */
    kiln_status status = write_rows(p, s, 1, -1, before, after);
    CHECK_MSG(on_device ? status == KILN_OK && after[0] == 0
                        : status == KILN_ERR_INVALID && strstr(rig_message(), "from place -1") != NULL,
              "%s", rig_message());
    const kiln_ops *o = ops();
    kiln_program *other =
        o->program_new(rig_ctx(), &(kiln_program_options){.size = sizeof(kiln_program_options), .name = "other"});
    o->output(other, "y", o->affine(other, o->state(other, "rows", KILN_F32, 2, KILN_DIMS(2, 2)), 1, 0));
    CHECK_EQ(o->plan(rig_ctx(), other, NULL), KILN_OK);
    float y[4];
    kiln_bind out = numbers("y", y, 2, KILN_DIMS(2, 2));
    kiln_run r = {.size = sizeof r, .states = s, .out = &out, .n_out = 1};
    CHECK_EQ(o->run_with(rig_ctx(), other, &r), KILN_ERR_INVALID);
    CHECK_MSG(strstr(rig_message(), "state 'rows' is f32 [1,6,3], recorded as f32 [2,2]") != NULL, "%s", rig_message());
    o->program_free(other);
    kiln_program *wrong =
        o->program_new(rig_ctx(), &(kiln_program_options){.size = sizeof(kiln_program_options), .name = "wrong"});
    kiln_t state = o->state(wrong, "s", KILN_F32, 2, KILN_DIMS(2, 2)),
           at = o->input(wrong, "at", KILN_I32, 1, KILN_DIMS(1));
    o->state_write(wrong, o->affine(wrong, state, 1, 0), 0, at, state);
    CHECK_EQ(o->plan(rig_ctx(), wrong, NULL), KILN_ERR_INVALID);
    CHECK_MSG(strstr(rig_message(), "operand 0 must be a state") != NULL, "%s", rig_message());
    o->program_free(wrong);
    o->states_free(s);
    o->program_free(p);
}

static void test_what_is_no_saved_state(void)
{
    const kiln_ops *o = ops();
    CHECK(o->states_fork(rig_ctx(), NULL) == NULL && strstr(rig_message(), "the fork of no states"));
    CHECK(o->states_save(rig_ctx(), NULL) == NULL && strstr(rig_message(), "no states to save"));
    kiln_states *s = o->states_new(rig_ctx(), "test");
    kiln_value *map = value_api.new_map(NULL), *number = value_api.new_int(NULL, 3);
    REQUIRE(s && map && number);
    CHECK_EQ(o->states_load(rig_ctx(), NULL, map), KILN_ERR_BUG);
    CHECK_MSG(strstr(rig_message(), "no states to load into"), "%s", rig_message());
    CHECK_EQ(o->states_load(rig_ctx(), s, number), KILN_ERR_INVALID);
    CHECK_MSG(strstr(rig_message(), "saved states are a map of tensors"), "%s", rig_message());
    CHECK_EQ(o->states_load(rig_ctx(), s, map), KILN_OK);
    CHECK_EQ(o->states_bytes(s), 0);
    CHECK_EQ(value_api.map_set(map, "x", number), KILN_OK);
    CHECK(o->states_load(rig_ctx(), s, map) != KILN_OK);
    kiln_value *empty = value_shape_new(KILN_F32, 1, KILN_DIMS(4), NULL); /* of an estimate: it has no data */
    CHECK(empty && value_api.map_set(map, "x", empty) == KILN_OK);
    CHECK_EQ(o->states_load(rig_ctx(), s, map), KILN_ERR_INVALID);
    CHECK_MSG(strstr(rig_message(), "saved state 'x' is no tensor that a state can be"), "%s", rig_message());
    value_unref(empty), value_unref(number), value_unref(map);
    o->states_free(s);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_a_state_outlives_runs_and_is_shared),
        CASE(test_a_part_stays_what_it_was),
        CASE(test_a_fork_goes_its_own_way),
        CASE(test_a_state_is_saved_and_goes_on),
        CASE(test_made_where_nothing_computes),
        CASE(test_as_much_as_a_count_says),
        CASE(test_rows_by_numbers),
        CASE(test_what_goes_wrong_is_a_sentence),
        CASE(test_what_is_no_saved_state),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
