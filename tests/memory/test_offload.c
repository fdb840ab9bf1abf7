/* test_offload.c - programs under a budget (offload_kit.h). The same bytes at every budget, in every legal order of
 * streams, from run to run; the account exact; every k-th call of the device failing; programs that take turns; a
 * device that others fill.
 *
 * KILN_TEST_FULL=1 (make test-memory): 1,000 orders and every failing call; otherwise a spread of them.
 */
#include "../memory/offload_kit.h"

/* ---- every budget ---- */

static int runs_within(const backend *b, int which, size_t limit, size_t host_limit)
{
    error e = {0};
    float y[ROWS * 512];
    int ok = 1;
    runtime *rt = open_runtime((runtime_setting){.backend = b, .memory = limit, .host_memory = host_limit});
    kiln_program *p = rt ? plan_program(rt, which, &e) : NULL;
    for (int step = 0; step < 3 && p && ok; step++) {
        memset(y, 0, sizeof y);
        ok = CHECK_MSG(run_program(p, which, 0, y, &e) == KILN_OK, "limit %zu: %s", limit, e.message) &&
             CHECK_MSG(!memcmp(y, wanted[which], y_bytes(which)), "limit %zu, run %d: other bytes", limit, step) &&
             account_is_exact(rt, limit);
    }
    program_free(p);
    if (rt)
        CHECK_EQ(budget_held(residency_budget(runtime_residency(rt)), MEMORY_WEIGHTS),
                 residency_bytes(runtime_residency(rt)));
    runtime_free(rt);
    return ok && p != NULL;
}

static void test_same_bytes_at_every_budget_on_the_host(void)
{
    for (int which = 0; which < PROGRAMS; which++) {
        size_t least, whole;
        REQUIRE(limits(&backend_reference, which, &least, &whole));
        for (size_t i = 0; i <= BUDGETS; i++)
            REQUIRE(runs_within(&backend_reference, which, least + (whole - least) * i / BUDGETS, 0));
    }
}

static void test_same_bytes_at_every_budget_on_a_device(void)
{
    size_t host_limits[] = {SIZE_MAX, 200000, 0}; /* all, some, no weights page-locked */
    for (int which = 0; which < PROGRAMS; which++) {
        size_t least, whole;
        fake_device_open(&(fake_setting){.bytes = 1 << 24, .fail_at = -1});
        REQUIRE(limits(&DEVICE, which, &least, &whole));
        fake_device_close();
        for (size_t i = 0; i <= BUDGETS; i++) {
            size_t limit = least + (whole - least) * i / BUDGETS;
            fake_device_open(&(fake_setting){.bytes = limit,
                                             .seed = i + 1,
                                             .graphs = (int)(i % 2),
                                             .fail_at = -1}); /* the device has not a byte more */
            int ok = runs_within(&DEVICE, which, limit, host_limits[i % 3]);
            fake_report r = fake_device_close();
            REQUIRE(CHECK_EQ(r.faults, 0) && CHECK(r.peak <= limit) && ok);
        }
    }
}

static void test_a_byte_less_than_the_least_is_refused(void)
{
    size_t least, whole;
    error e = {0};
    float y[ROWS * 512];
    char number[32];
    REQUIRE(limits(&backend_reference, 0, &least, &whole));
    CHECK(runs_within(&backend_reference, 0, least, 0));
    runtime *rt = open_runtime((runtime_setting){.backend = &backend_reference, .memory = least - 1});
    kiln_program *p = plan_program(rt, 0, &e);
    REQUIRE(p);
    CHECK_EQ(run_program(p, 0, 0, y, &e), KILN_ERR_NOMEM);
    snprintf(number, sizeof number, "(%zu bytes)", least);
    CHECK_MSG(strstr(e.message, number) && strstr(e.message, "'net'"), "%s", e.message);
    CHECK_EQ(budget_used(residency_budget(runtime_residency(rt))), 0);
    program_free(p);
    runtime_free(rt);
}

/* ---- every order ---- */

/* Three steps at 40 % of the weights; returns how many runs gave other bytes. */
static int wrong_runs(uint64_t seed, int deaf, int graphs)
{
    size_t limit = 330000;
    float y[ROWS * 512];
    error e = {0};
    int wrong = 0;
    fake_device_open(&(fake_setting){.bytes = limit, .seed = seed, .deaf = deaf, .graphs = graphs, .fail_at = -1});
    runtime *rt = open_runtime((runtime_setting){.memory = limit, .host_memory = seed % 3 ? SIZE_MAX : 100000});
    kiln_program *p = rt ? plan_program(rt, 0, &e) : NULL;
    for (int step = 0; p && step < 4; step++) {
        memset(y, 0, sizeof y);
        kiln_status status = run_program(p, 0, 0, y, &e);
        CHECK_MSG(status == KILN_OK, "seed %d: %s", (int)seed, e.message);
        wrong += memcmp(y, wanted[0], y_bytes(0)) != 0;
    }
    CHECK_MSG(p != NULL, "%s", e.message);
    program_free(p);
    runtime_free(rt);
    fake_report r = fake_device_close();
    if (!deaf) CHECK_EQ(r.faults, 0);
    return wrong;
}

static void test_same_bytes_in_every_legal_order(void)
{
    uint64_t orders = full ? 1000 : ORDERS;
    int wrong = 0;
    for (uint64_t seed = 1; seed <= orders; seed++) wrong += wrong_runs(seed, 0, (int)(seed % 2));
    CHECK_EQ(wrong, 0);
    if (getenv("KILN_TEST_VERBOSE")) printf("  %d orders of the streams\n", (int)orders);
}

/* That the last test can fail: with waits that do nothing, wrong bytes come out. */
static void test_a_missing_wait_would_be_seen(void)
{
    int wrong = 0;
    for (uint64_t seed = 1; seed <= DEAF; seed++) wrong += wrong_runs(seed, 1, 0);
    CHECK_MSG(wrong > (int)DEAF, "%d of %d runs were wrong", wrong, 4 * (int)DEAF);
}

/* ---- every failure ---- */

/* The k-th call fails: an error with a message, or the right bytes; afterwards (a device that came back) the right
 * bytes. */
static int survives(int64_t k, int for_good, uint64_t *calls)
{
    float y[ROWS * 512] = {0};
    error e = {0}, later = {0};
    fake_device_open(
        &(fake_setting){.bytes = 400000, .seed = (uint64_t)k, .graphs = 1, .fail_at = k, .fail_for_good = for_good});
    runtime *rt = open_runtime((runtime_setting){.memory = 330000, .host_memory = k % 2 ? SIZE_MAX : 100000});
    kiln_program *p = rt ? plan_program(rt, 0, &e) : NULL;
    int ok = 1;
    for (int step = 0; p && step < 3 && ok; step++) {
        e = (error){0};
        kiln_status status = run_program(p, 0, 0, y, &e);
        ok = status == KILN_OK ? CHECK_MSG(!memcmp(y, wanted[0], y_bytes(0)), "call %d fails: other bytes", (int)k)
                               : CHECK_MSG(e.message[0], "call %d fails without a word", (int)k);
    }
    if (rt && !p) CHECK_MSG(e.message[0], "call %d fails without a word", (int)k);
    *calls = fake_device_look().calls;
    fake_device_fail_at(-1, 0);
    if (p && ok)
        ok = CHECK_MSG(run_program(p, 0, 0, y, &later) == KILN_OK, "after call %d failed: %s", (int)k, later.message) &&
             CHECK_MSG(!memcmp(y, wanted[0], y_bytes(0)), "after call %d failed (%s): other bytes", (int)k, e.message);
    program_free(p);
    if (rt) residency_give_up(runtime_residency(rt), SIZE_MAX);
    runtime_free(rt);
    fake_report r = fake_device_close();
    return ok & CHECK_MSG(r.faults == 0, "call %d fails: %u faults", (int)k, r.faults);
}

static void test_every_call_may_fail(void)
{
    uint64_t calls;
    REQUIRE(survives(INT64_MAX, 0, &calls)); /* none fails */
    for (int for_good = 0; for_good < 2; for_good++)
        for (int64_t k = 0; k < (int64_t)calls; k += full ? 1 : 1 + k / SPREAD) {
            uint64_t made;
            REQUIRE(survives(k, for_good, &made));
        }
    CHECK(calls > 300);
    if (getenv("KILN_TEST_VERBOSE")) printf("  %d calls, each failing once and for good\n", (int)calls);
}

/* ---- traffic ---- */

/* With everything resident a step moves its input and its output and nothing else; with less, what is streamed as well;
 * and from the second step on it is one graph. */
static void test_a_step_moves_nothing_but_what_it_must(void)
{
    float y[ROWS * 512];
    for (int tight = 0; tight < 2; tight++) {
        error e = {0};
        size_t limit = tight ? 330000 : 1 << 24;
        fake_device_open(&(fake_setting){.bytes = limit, .seed = 3, .graphs = 1, .fail_at = -1});
        runtime *rt = open_runtime((runtime_setting){.memory = limit, .host_memory = SIZE_MAX});
        kiln_program *p = plan_program(rt, 0, &e);
        REQUIRE(p);
        set_estimating(rt, 1);
        CHECK_EQ(run_program(p, 0, 0, y, &e), KILN_OK);
        set_estimating(rt, 0);
        size_t streamed = runtime_get_estimate(rt).widest.streamed;
        CHECK_EQ(fake_device_look().bytes_in, 0); /* estimating computes nothing */
        CHECK_EQ(streamed > 0, tight);
        for (int step = 0; step < 5; step++) {
            fake_report before = fake_device_look();
            CHECK_EQ(run_program(p, 0, step, y, &e), KILN_OK);
            fake_report after = fake_device_look();
            if (step == 0) continue; /* residents come in */
            size_t input = ((size_t)(ROWS * WIDTH) * sizeof(float) + 255) & ~(size_t)255;
            uint64_t moved = after.bytes_in - before.bytes_in - input;
            CHECK_EQ(after.bytes_out - before.bytes_out, y_bytes(0));
            CHECK_MSG(moved == streamed, "step %d moved %llu bytes of weights, estimated %zu", step,
                      (unsigned long long)moved, streamed);
            if (step > 1) CHECK_EQ(after.launches - before.launches, 1);
        }
        program_free(p);
        runtime_free(rt);
        CHECK_EQ(fake_device_close().faults, 0);
    }
}

/* A captured step takes other inputs each time. */
static void test_a_graph_computes_with_new_inputs(void)
{
    static float y[ROWS * 512], other[6][ROWS * 512];
    error e = {0};
    fake_device_open(&(fake_setting){.bytes = 1 << 24, .fail_at = -1});
    for (int step = 0; step < 6; step++) REQUIRE(expect(0, step, other[step]));
    fake_device_close();
    fake_device_open(&(fake_setting){.bytes = 1 << 24, .graphs = 1, .fail_at = -1});
    runtime *rt = open_runtime((runtime_setting){.host_memory = SIZE_MAX});
    kiln_program *p = plan_program(rt, 0, &e);
    REQUIRE(p);
    for (int step = 0; step < 6; step++) {
        CHECK_EQ(run_program(p, 0, step, y, &e), KILN_OK);
        CHECK(!memcmp(y, other[step], y_bytes(0)));
    }
    CHECK_EQ(fake_device_look().launches, 4); /* residents come in, then one as it is, then captured */
    program_free(p);
    runtime_free(rt);
    CHECK_EQ(fake_device_close().faults, 0);
}

/* ---- several programs ---- */

/* Two programs over one set share packed weights; two that take turns share the memory instead of evicting each other.
 */
static void test_programs_that_take_turns_share(void)
{
    float y[ROWS * 512];
    error e = {0};
    size_t least[2], whole[2];
    REQUIRE(limits(&backend_reference, 0, &least[0], &whole[0]) && limits(&backend_reference, 2, &least[1], &whole[1]));
    runtime *rt = open_runtime((runtime_setting){.backend = &backend_reference, .memory = whole[0] + whole[1]});
    kiln_program *a = plan_program(rt, 0, &e), *b = plan_program(rt, 2, &e);
    REQUIRE(a && b);
    CHECK_EQ(run_program(a, 0, 0, y, &e), KILN_OK);
    uint64_t packed = residency_traffic_get(runtime_residency(rt)).packed;
    CHECK_EQ(run_program(b, 2, 0, y, &e), KILN_OK);
    CHECK_EQ(residency_traffic_get(runtime_residency(rt)).packed, packed); /* b's weights are all a's */
    CHECK(!memcmp(y, wanted[2], y_bytes(2)));
    program_free(a), program_free(b);
    runtime_free(rt);
}

static void test_turns_under_a_budget(void)
{
    float y[ROWS * 512];
    error e = {0};
    size_t least, whole;
    REQUIRE(limits(&backend_reference, 0, &least, &whole));
    for (size_t limit = least; limit < 2 * whole; limit += whole / 5) {
        runtime *rt = open_runtime((runtime_setting){.backend = &backend_reference, .memory = limit});
        kiln_program *p[PROGRAMS];
        for (int i = 0; i < PROGRAMS; i++) REQUIRE((p[i] = plan_program(rt, i, &e)) != NULL);
        for (int turn = 0; turn < 9; turn++) {
            int which = turn % PROGRAMS;
            REQUIRE(CHECK_MSG(run_program(p[which], which, 0, y, &e) == KILN_OK, "limit %zu: %s", limit, e.message));
            REQUIRE(CHECK(!memcmp(y, wanted[which], y_bytes(which))) && account_is_exact(rt, limit));
        }
        for (int i = 0; i < PROGRAMS; i++) program_free(p[i]);

        runtime_free(rt);
    }
}

/* The order was estimated: encoder, sampler often, decoder. When the sampler needs memory the encoder goes, not the
 * decoder. */
static void test_what_is_wanted_last_goes_first(void)
{
    float y[ROWS * 512];
    error e = {0};
    runtime *rt = open_runtime((runtime_setting){.backend = &backend_reference, .memory = 1 << 24});
    kiln_program *encoder = program_new(rt, "encoder", 0, &e), *sampler = program_new(rt, "sampler", 0, &e),
                 *decoder = program_new(rt, "decoder", 0, &e);
    int part[4] = {0, 5, 10, LAYERS};
    kiln_program *all[] = {encoder, sampler, decoder};
    for (int i = 0; i < 3; i++) {
        record_layers(program_recording(all[i]), part[i], part[i + 1], 0);
        REQUIRE(program_plan(all[i], &e) == KILN_OK);
    }
    uint64_t packed[2] = {0};
    int order[] = {0, 1, 1, 1, 2};
    for (int rehearsal = 1; rehearsal >= 0; rehearsal--) {
        set_estimating(rt, rehearsal);
        for (int round = 0; round < 2 - rehearsal; round++)
            for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
                float x[ROWS * 512] = {1};
                int k = order[i];
                if (!rehearsal && round == 1 && k == 1 && order[i - 1] == 1)
                    residency_give_up(runtime_residency(rt), 1); /* one weight's worth */
                if (!rehearsal && round == 1 && k == 2) packed[0] = residency_traffic_get(runtime_residency(rt)).packed;
                REQUIRE(run_or_estimate(all[k], (kiln_bind[]){bind_to("x", x, KILN_DIMS(ROWS, width[part[k]]))}, 1,
                                        (kiln_bind[]){bind_to("y", y, KILN_DIMS(ROWS, width[part[k + 1]]))}, 1, NULL,
                                        NULL, &e) == KILN_OK);
            }
    }
    packed[1] = residency_traffic_get(runtime_residency(rt)).packed;
    CHECK_EQ(packed[1], packed[0]); /* the decoder lost nothing */
    for (int i = 0; i < 3; i++) program_free(all[i]);
    runtime_free(rt);
}

/* ---- others on the device ---- */

/* Others take what is free, all but a little, again and again: each time a twentieth of the device is given up, until
 * only the least is left; then they go. Each budget is run three times, so that a graph of an earlier one would show.
 */
static void test_it_goes_on_with_less_when_others_take_memory(void)
{
    float y[ROWS * 512];
    error e = {0};
    size_t least, whole, most = 0, steps = 0;
    fake_device_open(&(fake_setting){.bytes = 1 << 24, .fail_at = -1});
    REQUIRE(limits(&DEVICE, 0, &least, &whole));
    fake_device_close();
    size_t bytes = whole + whole / 4, held = 0;
    fake_device_open(&(fake_setting){.bytes = bytes, .graphs = 1, .fail_at = -1});
    runtime *rt = open_runtime((runtime_setting){.memory_follow = 1, .host_memory = SIZE_MAX});
    kiln_program *p = plan_program(rt, 0, &e);
    REQUIRE(p);
    for (; steps < 40; steps++) {
        for (int run = 0; run < 3; run++) {
            REQUIRE(CHECK_MSG(run_program(p, 0, 0, y, &e) == KILN_OK, "holding %zu: %s", held, e.message));
            REQUIRE(CHECK_MSG(!memcmp(y, wanted[0], y_bytes(0)), "step %zu, run %d: other bytes", steps, run));
        }
        held = budget_used(residency_budget(runtime_residency(rt)));
        if (held > most) most = held;
        if (held < least + bytes / 10) break;
        fake_device_taken(bytes - held);
    }
    CHECK_MSG(steps > 4 && held < whole, "%zu steps down to %zu of %zu", steps, held, whole);
    fake_device_taken(0);
    for (int run = 0; run < 2; run++)
        REQUIRE(CHECK_EQ(run_program(p, 0, 0, y, &e), KILN_OK) && CHECK(!memcmp(y, wanted[0], y_bytes(0))));
    CHECK_EQ(budget_used(residency_budget(runtime_residency(rt))), most);
    if (getenv("KILN_TEST_VERBOSE"))
        printf("  from %zu down to %zu in %zu steps, the least is %zu\n", most, held, steps, least);
    program_free(p);
    runtime_free(rt);
    CHECK_EQ(fake_device_close().faults, 0);
}

/* The device gives less than the budget says: evict, ask again, plan smaller. */
static void test_it_goes_on_when_the_device_has_less_than_the_budget(void)
{
    float y[ROWS * 512];
    error e = {0};
    for (size_t bytes = 300000; bytes < 900000; bytes += 100000) {
        fake_device_open(&(fake_setting){.bytes = bytes, .seed = bytes, .fail_at = -1});
        runtime *rt = open_runtime((runtime_setting){.memory = 1 << 24, .host_memory = SIZE_MAX});
        kiln_program *p = plan_program(rt, 0, &e);
        REQUIRE(p);
        for (int i = 0; i < 2; i++) {
            CHECK_MSG(run_program(p, 0, 0, y, &e) == KILN_OK, "a device of %zu: %s", bytes, e.message);
            CHECK(!memcmp(y, wanted[0], y_bytes(0)));
        }
        program_free(p);
        runtime_free(rt);
        CHECK_EQ(fake_device_close().faults, 0);
    }
}

/* ---- a graph under way ---- */

static runtime *pressed; /* somebody takes all it gives, whenever the host waits */
static void press(void)
{
    if (pressed) residency_give_up(runtime_residency(pressed), SIZE_MAX);
}

/* One tensor of so many bytes, held for a while, makes the placement smaller: what it streams may still be there when
 * the tensor is gone, and the graph reads it there. It has to stay while the graph is under way, whoever needs memory.
 * *left_over: bytes that were there and not copied. */
static int graph_keeps_its_weights(size_t limit, size_t tensor, size_t *left_over)
{
    float y[ROWS * 512];
    error e = {0};
    void *data;
    int ok = 1;
    fake_device_open(&(fake_setting){.bytes = limit, .seed = tensor, .graphs = 1, .at_sync = press, .fail_at = -1});
    runtime *rt = open_runtime((runtime_setting){.memory = limit, .host_memory = SIZE_MAX});
    residency *r = runtime_residency(rt);
    kiln_program *p = plan_program(rt, 0, &e);
    if (!CHECK(p && run_program(p, 0, 0, y, &e) == KILN_OK) ||
        !CHECK(residency_take(r, MEMORY_VALUES, tensor, "a tensor", &data, &e) == KILN_OK))
        return 0;
    set_estimating(rt, 1);
    CHECK_EQ(run_program(p, 0, 0, y, &e), KILN_OK);
    set_estimating(rt, 0);
    size_t streamed = runtime_get_estimate(rt).widest.streamed;
    for (int i = 0; i < 6 && ok; i++) {
        if (i == 3) residency_give(r, MEMORY_VALUES, tensor, data);
        pressed = i == 5 ? rt : NULL;
        uint64_t before = fake_device_look().bytes_in;
        ok = CHECK_MSG(run_program(p, 0, 0, y, &e) == KILN_OK, "%s", e.message) &&
             CHECK_MSG(!memcmp(y, wanted[0], y_bytes(0)), "tensor %zu, run %d: other bytes", tensor, i);
        pressed = NULL;
        size_t input = ((size_t)(ROWS * WIDTH) * sizeof(float) + 255) & ~(size_t)255;
        if (i == 5) *left_over = streamed - (size_t)(fake_device_look().bytes_in - before - input);
    }
    ok &= CHECK(fake_device_look().launches > 2);
    program_free(p);
    runtime_free(rt);
    return CHECK_MSG(fake_device_close().faults == 0, "a tensor of %zu", tensor) & ok;
}

static void test_a_graphs_weights_stay_while_it_runs(void)
{
    size_t least, whole, found = 0;
    fake_device_open(&(fake_setting){.bytes = 1 << 24, .fail_at = -1});
    REQUIRE(limits(&DEVICE, 0, &least, &whole));
    fake_device_close();
    size_t limit = whole / 31 * 32 + 512;
    for (size_t part = 1; part <= 10; part++) {
        size_t left_over = 0;
        REQUIRE(graph_keeps_its_weights(limit, limit * part / 250, &left_over));
        found += left_over > 0;
    }
    CHECK_MSG(found > 2, "of 10 graphs %zu read a weight that it could have streamed", found);
    if (getenv("KILN_TEST_VERBOSE")) printf("  %zu of 10 graphs read a weight that it could have streamed\n", found);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_same_bytes_at_every_budget_on_a_device),
        CASE(test_same_bytes_in_every_legal_order),
        CASE(test_a_missing_wait_would_be_seen),
        CASE(test_every_call_may_fail),
        CASE(test_a_step_moves_nothing_but_what_it_must),
        CASE(test_a_graph_computes_with_new_inputs),
        CASE(test_a_graphs_weights_stay_while_it_runs),
        CASE(test_it_goes_on_with_less_when_others_take_memory),
        CASE(test_it_goes_on_when_the_device_has_less_than_the_budget),
        /* the last five are the host's own */
        CASE(test_same_bytes_at_every_budget_on_the_host),
        CASE(test_a_byte_less_than_the_least_is_refused),
        CASE(test_programs_that_take_turns_share),
        CASE(test_turns_under_a_budget),
        CASE(test_what_is_wanted_last_goes_first),
    };
    if (!offload_open()) return 2;
    int status = test_main(argc, argv, cases, sizeof cases / sizeof cases[0] - SKIPPED);
    weights_unref(set);
    return status;
}
