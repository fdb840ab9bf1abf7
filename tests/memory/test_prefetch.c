/* test_prefetch.c - the next program's weights, sent while this one runs (offload_kit.h): the same bytes with and
 * without it, at every budget, in every legal order of streams and in orders of programs other than estimated;
 * failures, cancelling and freeing meanwhile.
 *
 * KILN_TEST_FULL=1 (make test-memory): 1,000 orders and every failing call; otherwise a spread of them.
 */
#include "../memory/offload_kit.h"

/* ---- three programs in turn ---- */

enum { PARTS = 3, ORDER = 6, LAST_RUN = 3 };
static const int part_at[PARTS + 1] = {0, 5, 10, LAYERS};
static const char *const part_name[PARTS] = {"encoder", "sampler", "decoder"};
static const int in_order[ORDER] = {0, 1, 1, 1, 2, 2}; /* in_order[LAST_RUN] is the sampler's last */

typedef struct {
    runtime *rt;
    kiln_program *p[PARTS];
} ensemble;

static float part_wanted[PARTS][ROWS * 512];

static size_t part_bytes(int k) { return (size_t)(ROWS * width[part_at[k + 1]]) * sizeof(float); }

static kiln_status run_part(const ensemble *s, int k, float *y, int (*cancelled)(void *), error *e)
{
    float x[ROWS * 512];
    dice d = {(uint64_t)k + 11};
    for (int i = 0; i < ROWS * width[part_at[k]]; i++) x[i] = dice_real(&d);
    memset(y, 0, part_bytes(k));
    return run_or_estimate(s->p[k], (kiln_bind[]){bind_to("x", x, KILN_DIMS(ROWS, width[part_at[k]]))}, 1,
                           (kiln_bind[]){bind_to("y", y, KILN_DIMS(ROWS, width[part_at[k + 1]]))}, 1, cancelled, NULL,
                           e);
}

static void close_ensemble(ensemble *s)
{
    for (int k = 0; k < PARTS; k++) program_free(s->p[k]);
    runtime_free(s->rt);
}

static int estimate_ensemble(ensemble *s, error *e)
{
    float y[ROWS * 512];
    kiln_status status = KILN_OK;
    set_estimating(s->rt, 1);
    for (int i = 0; i < ORDER && status == KILN_OK; i++) status = run_part(s, in_order[i], y, NULL, e);
    set_estimating(s->rt, 0);
    return status == KILN_OK;
}

/* Three programs, estimated. 0: e says why not. */
static int open_ensemble(ensemble *s, runtime_setting setting, error *e)
{
    *s = (ensemble){.rt = open_runtime(setting)};
    int ok = s->rt != NULL;
    for (int k = 0; k < PARTS && ok; k++) {
        ok = (s->p[k] = program_new(s->rt, part_name[k], 0, e)) != NULL;
        if (ok) record_layers(program_recording(s->p[k]), part_at[k], part_at[k + 1], 0);
        ok = ok && program_plan(s->p[k], e) == KILN_OK;
    }
    return ok && estimate_ensemble(s, e);
}

/* Largest least limit of the three; and what holds all their weights beside the largest activations, and some more for
 * tensors. */
static int ensemble_limits(size_t *least, size_t *all)
{
    ensemble s;
    error e = {0};
    fake_device_open(&(fake_setting){.bytes = 1 << 24, .fail_at = -1});
    int ok = CHECK_MSG(open_ensemble(&s, (runtime_setting){.host_memory = SIZE_MAX}, &e), "%s", e.message);
    if (ok) {
        *least = runtime_get_estimate(s.rt).least;
        for (int i = 0; i < ORDER && ok; i++)
            ok = CHECK_MSG(run_part(&s, in_order[i], part_wanted[in_order[i]], NULL, &e) == KILN_OK, "%s", e.message);
        *all = budget_used(residency_budget(runtime_residency(s.rt))) * 33 / 32;
        for (int k = 0; k < PARTS; k++) { /* alone, unrehearsed, on a fresh device: the same bytes */
            static float y[ROWS * 512];
            residency_give_up(runtime_residency(s.rt), SIZE_MAX);
            ok = ok && CHECK(run_part(&s, k, y, NULL, &e) == KILN_OK && !memcmp(y, part_wanted[k], part_bytes(k)));
        }
    }
    close_ensemble(&s);
    fake_device_close();
    return ok;
}

/* Two rounds of the order; what had been prefetched when the sampler's last run of the first was waited for. */
static ensemble watched;
static uint64_t prefetched_when_waited, evicted_when_waited;
static void look_when_waited(void)
{
    if (!watched.rt) return;
    prefetched_when_waited = residency_traffic_get(runtime_residency(watched.rt)).prefetch_bytes;
    evicted_when_waited = residency_traffic_get(runtime_residency(watched.rt)).evicted;
}

static int rounds_are_right(const ensemble *s, size_t limit, int rounds, uint64_t *sent, uint64_t *evicted)
{
    float y[ROWS * 512];
    error e = {0};
    watched = (ensemble){0};
    for (int i = 0; i < rounds * ORDER; i++) {
        int k = in_order[i % ORDER];
        uint64_t before = residency_traffic_get(runtime_residency(s->rt)).prefetch_bytes,
                 gone = residency_traffic_get(runtime_residency(s->rt)).evicted;
        prefetched_when_waited = before, evicted_when_waited = gone;
        watched = i == LAST_RUN ? *s : (ensemble){0};
        kiln_status status = run_part(s, k, y, NULL, &e);
        watched = (ensemble){0};
        if (!CHECK_MSG(status == KILN_OK, "limit %zu, run %d: %s", limit, i, e.message) ||
            !CHECK_MSG(!memcmp(y, part_wanted[k], part_bytes(k)), "limit %zu, run %d: other bytes", limit, i))
            return 0;
        if (!account_is_exact(s->rt, limit)) return 0;
        uint64_t after = residency_traffic_get(runtime_residency(s->rt)).prefetch_bytes;
        if ((i % ORDER != 0 && i % ORDER != LAST_RUN) && !CHECK_EQ(after, before))
            return 0; /* only in the last run before another's */
        if (i != LAST_RUN) continue;
        *sent = prefetched_when_waited - before, *evicted = evicted_when_waited - gone;
        if (!CHECK_EQ(prefetched_when_waited, after)) return 0; /* all of it before the host waited */
    }
    return 1;
}

/* At every budget the same bytes and the account exact; where all fits the decoder's weights are there before the
 * sampler's last run was waited for and its own run moves nothing but its input; where they only fit when others leave,
 * the encoder's and the sampler's do. */
static void test_the_next_programs_weights_are_prefetched(void)
{
    static const size_t host_limits[] = {SIZE_MAX, 200000, 0};
    size_t least, all, partly = 0, by_eviction = 0;
    REQUIRE(ensemble_limits(&least, &all));
    for (size_t i = 0; i <= BUDGETS; i++) {
        ensemble s;
        error e = {0};
        uint64_t sent = 0, evicted = 0;
        size_t limit = least + (all - least) * i / BUDGETS;
        fake_device_open(&(fake_setting){
            .bytes = limit, .seed = i + 1, .graphs = (int)(i % 2), .at_sync = look_when_waited, .fail_at = -1});
        REQUIRE(CHECK_MSG(open_ensemble(&s, (runtime_setting){.memory = limit, .host_memory = host_limits[i % 3]}, &e),
                          "%s", e.message));
        REQUIRE(rounds_are_right(&s, limit, 2, &sent, &evicted));
        partly += sent > 0, by_eviction += sent > 0 && evicted > 0;
        size_t decoder = 0;
        for (int l = part_at[2]; l < LAYERS; l++) decoder += (size_t)(width[l + 1] * (width[l] + 2)) * sizeof(float);
        if (i == BUDGETS)
            CHECK_MSG(sent >= decoder && evicted == 0, "%d of %zu bytes was prefetched, %d were evicted", (int)sent,
                      decoder, (int)evicted);
        close_ensemble(&s);
        fake_report r = fake_device_close();
        REQUIRE(CHECK_EQ(r.faults, 0) && CHECK(r.peak <= limit));
    }
    CHECK_MSG(partly * 2 > BUDGETS && by_eviction * 4 > BUDGETS,
              "of %d budgets something was prefetched at %zu, by eviction at %zu", (int)BUDGETS, partly, by_eviction);
    if (getenv("KILN_TEST_VERBOSE"))
        printf("  of %d budgets something was prefetched at %zu, by eviction at %zu\n", (int)BUDGETS + 1, partly,
               by_eviction);
}

static void test_prefetching_in_every_legal_order(void)
{
    size_t least, all;
    uint64_t orders = full ? 1000 : ORDERS;
    REQUIRE(ensemble_limits(&least, &all));
    for (uint64_t seed = 1; seed <= orders; seed++) {
        ensemble s;
        error e = {0};
        uint64_t sent, evicted;
        size_t limit = least + (all - least) * (seed % 9 + 1) / 10;
        fake_device_open(&(fake_setting){
            .bytes = limit, .seed = seed, .graphs = (int)(seed % 2), .at_sync = look_when_waited, .fail_at = -1});
        REQUIRE(CHECK_MSG(
            open_ensemble(&s, (runtime_setting){.memory = limit, .host_memory = seed % 3 ? SIZE_MAX : 100000}, &e),
            "%s", e.message));
        REQUIRE(rounds_are_right(&s, limit, 2, &sent, &evicted));
        close_ensemble(&s);
        REQUIRE(CHECK_EQ(fake_device_close().faults, 0));
    }
}

/* Planted mistakes: a host that does not wait for checkpoints gives memory back that is in use; a stream that does not
 * wait for what is prefetched computes with something else. */
static void test_missing_waits_for_prefetches_would_be_seen(void)
{
    size_t least, all;
    unsigned faults = 0, wrong = 0;
    float y[ROWS * 512];
    REQUIRE(ensemble_limits(&least, &all));
    for (uint64_t seed = 1; seed <= DEAF; seed++)
        for (int deaf = 0; deaf < 2; deaf++) {
            ensemble s;
            error e = {0};
            size_t limit = deaf ? all : least + (all - least) * 3 / 4;
            fake_device_open(&(fake_setting){.bytes = limit, .seed = seed, .hasty = !deaf, .fail_at = -1});
            REQUIRE(open_ensemble(&s, (runtime_setting){.memory = limit, .host_memory = SIZE_MAX}, &e));
            for (int i = 0; i <= LAST_RUN; i++)
                REQUIRE(CHECK_MSG(run_part(&s, in_order[i], y, NULL, &e) == KILN_OK, "%s", e.message));
            int sound = !memcmp(y, part_wanted[1], part_bytes(1));
            CHECK(sound || !deaf);
            fake_device_deaf(deaf);
            if (deaf)
                CHECK(run_part(&s, 2, y, NULL, &e) == KILN_OK), wrong += memcmp(y, part_wanted[2], part_bytes(2)) != 0;
            fake_device_deaf(0);
            close_ensemble(&s);
            unsigned found = fake_device_close().faults;
            if (deaf)
                CHECK_EQ(found, 0);
            else
                faults += found > 0 || !sound;
        }
    CHECK_MSG(faults > DEAF / 2 && wrong > 0, "of %d, %u gave back too early and %u computed too early", (int)DEAF,
              faults, wrong);
    if (getenv("KILN_TEST_VERBOSE"))
        printf("  of %d, %u gave back too early and %u computed too early\n", (int)DEAF, faults, wrong);
}

/* Asked between weights too, so it can tell when the prefetch goes on. */
static struct {
    const ensemble *s;
    uint64_t before;
    int64_t fail_after; /* calls from the first weight that came on; below 0: none */
    int stop, fired;    /* fired: it went on */
    pthread_t freeing;
    kiln_program *freed_program;
    atomic_int freed;
} meddling;

static void *free_it(void *arg)
{
    program_free(arg);
    atomic_store(&meddling.freed, 1);
    return NULL;
}

static int meddle(void *arg)
{
    (void)arg;
    if (meddling.fired || residency_traffic_get(runtime_residency(meddling.s->rt)).prefetch_bytes == meddling.before)
        return meddling.fired && meddling.stop;
    meddling.fired = 1;
    if (meddling.fail_after >= 0) fake_device_fail_at(meddling.fail_after, 0);
    if (meddling.freed_program) {
        pthread_create(&meddling.freeing, NULL, free_it, meddling.freed_program);
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        CHECK(!atomic_load(&meddling.freed));
    }
    return meddling.stop;
}

/* Up to the sampler's last run, which is meddled with from the first weight of the decoder on. */
static kiln_status run_to_the_last(ensemble *s, float *y, error *e)
{
    for (int i = 0; i < LAST_RUN; i++) TRY(run_part(s, in_order[i], y, NULL, e));
    meddling.s = s, meddling.fired = 0;
    meddling.before = residency_traffic_get(runtime_residency(s->rt)).prefetch_bytes;
    return run_part(s, in_order[LAST_RUN], y, meddle, e);
}

/* The sampler's last run with the k-th call failing from the decoder's first weight on; and what comes after it. 1: it
 * went well. */
static int prefetch_fails(int64_t k, size_t limit, size_t host_limit, int *unharmed)
{
    static const int after[] = {2, 2, 0, 1};
    ensemble s;
    float y[ROWS * 512];
    error e = {0};
    fake_device_open(&(fake_setting){.bytes = limit, .seed = (uint64_t)k, .fail_at = -1});
    int ok = CHECK_MSG(open_ensemble(&s, (runtime_setting){.memory = limit, .host_memory = host_limit}, &e), "%s",
                       e.message);
    memset(&meddling, 0, sizeof meddling);
    meddling.fail_after = k;
    kiln_status status = ok ? run_to_the_last(&s, y, &e) : KILN_ERR_BUG;
    ok = ok && CHECK(meddling.fired) &&
         CHECK_MSG(status == KILN_OK ? !memcmp(y, part_wanted[1], part_bytes(1)) : e.message[0],
                   "call %d fails: other bytes, or not a word", (int)k);
    *unharmed += status == KILN_OK;
    fake_device_fail_at(-1, 0);
    for (int i = 0; i < 4 && ok; i++) {
        ok = CHECK_MSG(run_part(&s, after[i], y, NULL, &e) == KILN_OK, "after call %d failed: %s", (int)k, e.message) &&
             CHECK_MSG(!memcmp(y, part_wanted[after[i]], part_bytes(after[i])), "after call %d failed: other bytes",
                       (int)k) &&
             account_is_exact(s.rt, limit);
    }
    close_ensemble(&s);
    return CHECK_MSG(fake_device_close().faults == 0, "call %d fails", (int)k) && ok;
}

/* While it is the prefetch that fails, the sampler does not. */
static void test_failures_of_prefetching_are_not_the_runs(void)
{
    size_t least, all;
    int unharmed = 0, tried = 0;
    REQUIRE(ensemble_limits(&least, &all));
    for (int64_t k = 0; k < 60; k += full ? 1 : 1 + k / (4 * SPREAD))
        for (int way = full ? 0 : (int)k % 4, last = full ? 3 : way; way <= last; way++, tried++)
            REQUIRE(
                prefetch_fails(k, way & 1 ? all : least + (all - least) * 3 / 4, way & 2 ? SIZE_MAX : 0, &unharmed));
    CHECK_MSG(unharmed * 3 > tried, "%d of %d runs went well", unharmed, tried);
    if (getenv("KILN_TEST_VERBOSE")) printf("  %d of %d runs went well\n", unharmed, tried);
}

static void test_it_stops_when_cancelled(void)
{
    size_t least, all;
    ensemble s;
    float y[ROWS * 512];
    error e = {0};
    REQUIRE(ensemble_limits(&least, &all));
    fake_device_open(&(fake_setting){.bytes = all, .fail_at = -1});
    REQUIRE(open_ensemble(&s, (runtime_setting){.memory = all, .host_memory = SIZE_MAX}, &e));
    memset(&meddling, 0, sizeof meddling);
    meddling.fail_after = -1, meddling.stop = 1;
    CHECK_EQ(run_to_the_last(&s, y, &e), KILN_OK); /* it was done, all but the waiting */
    CHECK(!memcmp(y, part_wanted[1], part_bytes(1)));
    CHECK_EQ(residency_traffic_get(runtime_residency(s.rt)).prefetch_bytes - meddling.before,
             (uint64_t)(width[part_at[2] + 1] * width[part_at[2]]) * 4); /* one */
    CHECK_EQ(run_part(&s, 2, y, NULL, &e), KILN_OK);
    CHECK(!memcmp(y, part_wanted[2], part_bytes(2)));
    close_ensemble(&s);
    CHECK_EQ(fake_device_close().faults, 0);
}

static void join_before_waiting(void)
{
    if (!meddling.fired || !meddling.freed_program) return;
    pthread_join(meddling.freeing, NULL); /* the fake device is for one at a time */
    meddling.freed_program = NULL;
}

/* Another thread lets go of the decoder while its weights are prefetched: it waits, and they go with it. */
static void test_the_next_program_may_be_freed_meanwhile(void)
{
    size_t least, all;
    REQUIRE(ensemble_limits(&least, &all));
    for (int tight = 0; tight < 2; tight++) {
        ensemble s;
        float y[ROWS * 512];
        error e = {0};
        size_t limit = tight ? least + (all - least) * 3 / 4 : all;
        fake_device_open(&(fake_setting){.bytes = limit, .at_sync = join_before_waiting, .fail_at = -1});
        REQUIRE(open_ensemble(&s, (runtime_setting){.memory = limit, .host_memory = SIZE_MAX}, &e));
        memset(&meddling, 0, sizeof meddling);
        meddling.fail_after = -1, meddling.freed_program = s.p[2];
        s.p[2] = NULL;
        CHECK_MSG(run_to_the_last(&s, y, &e) == KILN_OK, "%s", e.message);
        CHECK(atomic_load(&meddling.freed));
        CHECK(!memcmp(y, part_wanted[1], part_bytes(1)));
        CHECK_EQ(run_part(&s, 0, y, NULL, &e), KILN_OK);
        CHECK(!memcmp(y, part_wanted[0], part_bytes(0)));
        account_is_exact(s.rt, limit);
        close_ensemble(&s);
        CHECK_EQ(fake_device_close().faults, 0);
    }
}

static const int other_orders[][8] = {{0, 1, 1, 1, 1, 1, 2, 0},
                                      {0, 1, 1, 1, 0, 1, 2, 1},
                                      {2, 2, 2, 1, 1, 1, 1, 0},
                                      {0, 0, 0, 1, 2, 1, 2, 1},
                                      {1, 1, 1, 0, 2, 2, 2, 1}};
enum { OTHER_ORDERS = sizeof other_orders / sizeof other_orders[0], RUNS = 2 * ORDER };

/* The order comes otherwise than it was estimated. */
static void test_another_order_than_estimated(void)
{
    size_t least, all;
    REQUIRE(ensemble_limits(&least, &all));
    for (size_t o = 0; o < OTHER_ORDERS; o++)
        for (size_t i = 0; i <= 6; i++) {
            ensemble s;
            float y[ROWS * 512];
            error e = {0};
            size_t limit = least + (all - least) * i / 6;
            fake_device_open(&(fake_setting){.bytes = limit, .seed = i, .graphs = 1, .fail_at = -1});
            REQUIRE(open_ensemble(&s, (runtime_setting){.memory = limit, .host_memory = SIZE_MAX}, &e));
            for (int run = 0; run < 8; run++) {
                int k = other_orders[o][run];
                REQUIRE(CHECK_MSG(run_part(&s, k, y, NULL, &e) == KILN_OK, "order %zu, limit %zu, run %d: %s", o, limit,
                                  run, e.message));
                REQUIRE(CHECK(!memcmp(y, part_wanted[k], part_bytes(k))) && account_is_exact(s.rt, limit));
            }
            close_ensemble(&s);
            REQUIRE(CHECK_EQ(fake_device_close().faults, 0));
        }
}

/* The decoder's file is away for a while (with its folder: the file itself stays as it was, its times too): the sampler
 * goes on as if nothing were, the decoder says it. */
static void test_what_cannot_be_prefetched_is_reported_by_its_own_run(void)
{
    size_t least, all;
    ensemble s;
    float y[ROWS * 512];
    error e = {0};
    char away[320];
    kiln_weight_info info = {.size = sizeof info};
    snprintf(away, sizeof away, "%s.away", test_folder());
    REQUIRE(ensemble_limits(&least, &all) && weights_find(set, "w.0", &info) == KILN_OK &&
            strncmp(info.file, test_folder(), strlen(test_folder())) == 0);
    fake_device_open(&(fake_setting){.bytes = all, .fail_at = -1});
    REQUIRE(open_ensemble(&s, (runtime_setting){.memory = all, .host_memory = SIZE_MAX}, &e));
    for (int i = 0; i < LAST_RUN; i++) REQUIRE(run_part(&s, in_order[i], y, NULL, &e) == KILN_OK);
    CHECK(rename(test_folder(), away) == 0);
    uint64_t before = residency_traffic_get(runtime_residency(s.rt)).prefetch_bytes;
    CHECK_MSG(run_part(&s, 1, y, NULL, &e) == KILN_OK && !memcmp(y, part_wanted[1], part_bytes(1)), "%s", e.message);
    CHECK_EQ(residency_traffic_get(runtime_residency(s.rt)).prefetch_bytes, before);
    CHECK_EQ(run_part(&s, 2, y, NULL, &e), KILN_ERR_IO);
    CHECK_MSG(strstr(e.message, "cannot be opened again") && strstr(e.message, "'decoder'"), "%s", e.message);
    CHECK(rename(away, test_folder()) == 0);
    CHECK_EQ(run_part(&s, 2, y, NULL, &e), KILN_OK);
    CHECK(!memcmp(y, part_wanted[2], part_bytes(2)));
    close_ensemble(&s);
    CHECK_EQ(fake_device_close().faults, 0);
}

/* ---- on and off ---- */

/* One sequence of runs at one limit, with prefetch or without: the bytes of every run, and what was prefetched. */
static int run_sequence(const int *order, int n, size_t limit, size_t host_limit, int off, float *y, uint64_t *sent)
{
    ensemble s;
    error e = {0};
    fake_device_open(&(fake_setting){.bytes = limit, .seed = limit, .graphs = (int)(limit / 8 % 2), .fail_at = -1});
    int ok = CHECK_MSG(
        open_ensemble(&s, (runtime_setting){.memory = limit, .host_memory = host_limit, .no_prefetch = off}, &e), "%s",
        e.message);
    for (int i = 0; i < n && ok; i++)
        ok = CHECK_MSG(run_part(&s, order[i], y + (size_t)i * ROWS * 512, NULL, &e) == KILN_OK, "limit %zu, run %d: %s",
                       limit, i, e.message) &&
             account_is_exact(s.rt, limit);
    *sent = ok ? residency_traffic_get(runtime_residency(s.rt)).prefetch_bytes : 0;
    close_ensemble(&s);
    return CHECK_EQ(fake_device_close().faults, 0) && ok;
}

/* With it switched off nothing is prefetched, and every run of every sequence gives the same bytes as with it. */
static void test_on_and_off_give_the_same_bytes(void)
{
    static const size_t host_limits[] = {SIZE_MAX, 200000, 0};
    static float on[RUNS * ROWS * 512], off[RUNS * ROWS * 512];
    int sequence[RUNS];
    size_t least, all, sequences = 0, prefetched = 0;
    REQUIRE(ensemble_limits(&least, &all));
    for (int i = 0; i < RUNS; i++) sequence[i] = in_order[i % ORDER];
    for (size_t o = 0; o <= OTHER_ORDERS; o++)
        for (size_t i = 0, n_limit = o ? OTHER_LIMITS : BUDGETS; i <= n_limit; i++, sequences++) {
            const int *order = o ? other_orders[o - 1] : sequence;
            int n = o ? 8 : RUNS;
            size_t limit = least + (all - least) * i / n_limit;
            uint64_t sent[2] = {0};
            REQUIRE(run_sequence(order, n, limit, host_limits[i % 3], 0, on, &sent[0]));
            REQUIRE(run_sequence(order, n, limit, host_limits[i % 3], 1, off, &sent[1]));
            for (int run = 0; run < n; run++) {
                size_t at = (size_t)run * ROWS * 512;
                REQUIRE(CHECK_MSG(!memcmp(on + at, off + at, part_bytes(order[run])),
                                  "order %zu, limit %zu, run %d: other bytes with prefetch than without", o, limit,
                                  run));
                REQUIRE(CHECK(!memcmp(on + at, part_wanted[order[run]], part_bytes(order[run]))));
            }
            CHECK_EQ(sent[1], 0);
            prefetched += sent[0] > 0;
        }
    CHECK_MSG(prefetched * 2 > sequences, "%zu of %zu sequences prefetched anything", prefetched, sequences);
    if (getenv("KILN_TEST_VERBOSE")) printf("  %zu sequences, %zu with something prefetched\n", sequences, prefetched);
}

static void test_the_environment_switches_it_off(void)
{
    error e = {0};
    setenv("KILN_PREFETCH", "of", 1);
    fake_device_open(&(fake_setting){.bytes = 1 << 24, .fail_at = -1});
    CHECK(runtime_new(&(runtime_setting){.backend = &DEVICE, .threads = 1, .precision = KILN_F32}, &e) == NULL);
    CHECK_STR(e.message, "KILN_PREFETCH=of: it is on or off");
    CHECK_EQ(fake_device_close().faults, 0);
    for (int off = 0; off < 2; off++) {
        static float y[RUNS * ROWS * 512];
        size_t least, all;
        uint64_t sent = 0;
        setenv("KILN_PREFETCH", off ? "off" : "on", 1);
        REQUIRE(ensemble_limits(&least, &all) && run_sequence(in_order, ORDER, all, SIZE_MAX, 0, y, &sent));
        CHECK_EQ(sent > 0, !off);
    }
    unsetenv("KILN_PREFETCH");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_the_next_programs_weights_are_prefetched),
        CASE(test_prefetching_in_every_legal_order),
        CASE(test_missing_waits_for_prefetches_would_be_seen),
        CASE(test_failures_of_prefetching_are_not_the_runs),
        CASE(test_it_stops_when_cancelled),
        CASE(test_the_next_program_may_be_freed_meanwhile),
        CASE(test_another_order_than_estimated),
        CASE(test_on_and_off_give_the_same_bytes),
        CASE(test_the_environment_switches_it_off),
        CASE(test_what_cannot_be_prefetched_is_reported_by_its_own_run),
    };
    if (!offload_open()) return 2;
    int status = test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
    weights_unref(set);
    return status;
}
