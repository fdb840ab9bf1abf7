/* test_residency.c - packed weights by themselves: one entry however many ask, gone with the last holder, evicted only
 * when nobody's run holds them in place, whole after a failure. Programs over them are test_offload.c's.
 */
#include "harness.h"

#include "base/memory_alloc.h"
#include "memory/packed_weight.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { WEIGHTS = 6, BYTES = 1000, ROOM = 1024 };

typedef struct {
    packed_weight *weight[WEIGHTS];
    size_t bytes[WEIGHTS], maker[WEIGHTS];
    weight_use use[WEIGHTS];
    double work[WEIGHTS];
    unsigned packed[WEIGHTS];
    atomic_uint asked[WEIGHTS];
    int fails; /* the weight whose packing fails; below 0: none */
    int slow;  /* its files are read until nobody wants them */
} net;

static kiln_status pack(void *arg, size_t use, void *dst, error *e)
{
    net *n = arg;
    n->packed[use]++;
    if ((int)use == n->fails) return error_set(e, KILN_ERR_IO, "cannot read it");
    memset(dst, (int)use + 1, BYTES);
    return KILN_OK;
}

static void will_need(void *arg, size_t use, page_reader *r)
{
    net *n = arg;
    n->asked[use]++;
    while (n->slow && !r->stop(r->arg)) usleep(1000);
}

static residency *open_manager(size_t limit)
{
    return residency_new(&(residency_setting){.device = device_host(), .limit = limit}, NULL);
}

/* A program of six ops with a weight each, named after `set`. */
static residency_pass *open_net(residency *r, net *n, const char *set)
{
    residency_pass *p = NULL;
    *n = (net){.fails = -1};
    for (uint32_t i = 0; i < WEIGHTS; i++) {
        char name[8];
        snprintf(name, sizeof name, "w%u", i);
        if (residency_intern(r, set, name, "f32", BYTES, &n->weight[i], NULL) != KILN_OK) return NULL;
        n->bytes[i] = BYTES, n->maker[i] = i, n->use[i] = (weight_use){i, i}, n->work[i] = 1;
    }
    residency_demand d = {.name = set,
                          .arena = 3000,
                          .n_op = WEIGHTS,
                          .n_use = WEIGHTS,
                          .n_weight = WEIGHTS,
                          .work = n->work,
                          .use = n->use,
                          .weight = n->weight,
                          .bytes = n->bytes,
                          .maker = n->maker,
                          .pack = pack,
                          .will_need = will_need,
                          .arg = n};
    return residency_pass_new(r, &d, &p, NULL) == KILN_OK ? p : NULL;
}

static void close_net(net *n, residency_pass *p)
{
    residency_pass_free(p);
    for (int i = 0; i < WEIGHTS; i++) packed_weight_release(n->weight[i]);
}

static kiln_status run(residency_pass *p, error *e)
{
    residency_workspace capacity;
    TRY(residency_begin(p, &capacity, e));
    memset(capacity.arena, 0, 3000);
    kiln_status status = KILN_OK;
    for (uint32_t i = 0; i < WEIGHTS && status == KILN_OK; i++) {
        status = residency_before(p, i, e);
        const unsigned char *data = status == KILN_OK ? residency_data(p, i) : NULL;
        if (data) CHECK(data[0] == i + 1 && data[BYTES - 1] == i + 1 && (uintptr_t)data % 64 == 0);
        if (status == KILN_OK) status = residency_after(p, i, e);
    }
    residency_end(p, status != KILN_OK);
    return status;
}

static unsigned packed_in_all(const net *n)
{
    unsigned sum = 0;
    for (int i = 0; i < WEIGHTS; i++) sum += n->packed[i];
    return sum;
}

static void test_what_is_asked_for_twice_is_one(void)
{
    residency *r = open_manager(0);
    packed_weight *a, *b, *other[3];
    REQUIRE(r);
    CHECK_EQ(residency_intern(r, "set", "w", "f32", BYTES, &a, NULL), KILN_OK);
    CHECK_EQ(residency_intern(r, "set", "w", "f32", BYTES, &b, NULL), KILN_OK);
    CHECK(a == b && a->data == NULL);
    CHECK_EQ(residency_intern(r, "set2", "w", "f32", BYTES, &other[0], NULL),
             KILN_OK); /* set, name and form each tell them apart */
    CHECK_EQ(residency_intern(r, "set", "w2", "f32", BYTES, &other[1], NULL), KILN_OK);
    CHECK_EQ(residency_intern(r, "set", "w", "bf16", BYTES, &other[2], NULL), KILN_OK);
    for (int i = 0; i < 3; i++) CHECK(other[i] != a), packed_weight_release(other[i]);
    packed_weight_release(a);
    packed_weight_release(b);
    CHECK_EQ(residency_bytes(r), 0);
    residency_free(r);
}

static void test_two_programs_share_and_the_last_one_takes_it_along(void)
{
    residency *r = open_manager(0);
    net one, two;
    residency_pass *p = open_net(r, &one, "set"), *q = open_net(r, &two, "set");
    REQUIRE(p && q);
    CHECK_EQ(run(p, NULL), KILN_OK);
    CHECK_EQ(run(q, NULL), KILN_OK);
    CHECK_EQ(run(p, NULL), KILN_OK);
    CHECK_EQ(packed_in_all(&one), WEIGHTS);
    CHECK_EQ(packed_in_all(&two), 0);
    CHECK_EQ(residency_bytes(r), WEIGHTS * ROOM);
    close_net(&one, p);
    CHECK_EQ(residency_bytes(r), WEIGHTS * ROOM); /* q still holds them */
    close_net(&two, q);
    CHECK_EQ(residency_bytes(r), 0);
    residency_free(r);
}

static void test_giving_up_takes_all_but_what_runs(void)
{
    residency *r = open_manager(0);
    net one, two;
    residency_workspace capacity;
    residency_pass *p = open_net(r, &one, "one"), *q = open_net(r, &two, "two");
    REQUIRE(p && q && run(p, NULL) == KILN_OK && run(q, NULL) == KILN_OK);
    REQUIRE(residency_begin(p, &capacity, NULL) == KILN_OK);
    residency_give_up(r, SIZE_MAX);
    CHECK_EQ(residency_bytes(r), WEIGHTS * ROOM);
    CHECK(one.weight[0]->data && !two.weight[0]->data);
    residency_end(p, 0);
    CHECK_EQ(run(q, NULL), KILN_OK); /* packed again */
    CHECK_EQ(packed_in_all(&two), 2 * WEIGHTS);
    close_net(&one, p), close_net(&two, q);
    residency_free(r);
}

/* Who wants memory that programs have worked in gets it, unless one does; the next run has some again. */
static void test_memory_to_work_in_is_given_up(void)
{
    enum { LIMIT = WEIGHTS * ROOM + 4096, MUCH = LIMIT - 2048 };
    residency *r = open_manager(LIMIT);
    residency_workspace space;
    void *value = NULL;
    net n;
    residency_pass *p = open_net(r, &n, "net");
    REQUIRE(r && p);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(run(p, NULL), KILN_OK);
        CHECK_EQ(residency_take(r, MEMORY_VALUES, MUCH, "a value", &value, NULL), KILN_OK);
        if (value) residency_give(r, MEMORY_VALUES, MUCH, value), value = NULL;
    }
    REQUIRE(CHECK_EQ(residency_begin(p, &space, NULL), KILN_OK));
    CHECK_EQ(residency_take(r, MEMORY_VALUES, MUCH, "a value", &value, NULL), KILN_ERR_NOMEM);
    memset(space.arena, 0, 3000);
    residency_end(p, 0);
    close_net(&n, p);
    CHECK_EQ(residency_bytes(r), 0u);
    residency_free(r);
}

typedef struct {
    residency *r;
    atomic_int stop;
    atomic_uint taken;
} taker;

static void *take_and_give(void *arg)
{
    taker *t = arg;
    while (!t->stop) {
        void *value = NULL;
        if (residency_take(t->r, MEMORY_VALUES, 5000, "a value", &value, NULL) != KILN_OK) continue;
        memset(value, 0, 5000);
        residency_give(t->r, MEMORY_VALUES, 5000, value);
        t->taken++;
    }
    return NULL;
}

/* Another thread wants memory all the while: it gets it between runs, and no run works in what was given up. */
static void test_memory_is_wanted_while_programs_run(void)
{
    enum { RUNS = 400 };
    taker t = {.r = open_manager(WEIGHTS * ROOM + 4096)};
    pthread_t thread;
    unsigned ran = 0;
    net n;
    residency_pass *p = open_net(t.r, &n, "net");
    REQUIRE(t.r && p);
    REQUIRE(CHECK(pthread_create(&thread, NULL, take_and_give, &t) == 0));
    for (int i = 0; i < RUNS || (t.taken == 0 && i < 100 * RUNS); i++) {
        error e = {0};
        kiln_status status = run(p, &e);
        CHECK_MSG(status == KILN_OK || status == KILN_ERR_NOMEM, "%s", e.message);
        ran += status == KILN_OK;
    }
    t.stop = 1;
    pthread_join(thread, NULL);
    CHECK(ran > 0 && t.taken > 0);
    CHECK_EQ(run(p, NULL), KILN_OK);
    close_net(&n, p);
    CHECK_EQ(residency_bytes(t.r), 0u);
    residency_free(t.r);
}

static void test_a_failure_leaves_nothing_and_the_next_run_is_whole(void)
{
    for (int at = 0; at < WEIGHTS; at++) {
        residency *r = open_manager(0);
        net n;
        error e = {0};
        residency_pass *p = open_net(r, &n, "set");
        REQUIRE(p);
        n.fails = at;
        CHECK_EQ(run(p, &e), KILN_ERR_IO);
        CHECK_STR(e.message, "cannot read it");
        CHECK(n.weight[at]->data == NULL);
        CHECK_EQ(residency_bytes(r), at * ROOM);
        n.fails = -1;
        CHECK_EQ(run(p, NULL), KILN_OK);
        close_net(&n, p);
        residency_free(r);
    }
}

static void test_under_a_limit_a_run_packs_what_is_streamed_again(void)
{
    residency *r = open_manager(3008 + 2 * ROOM + 200); /* the block, one slot, one resident, and a 32nd for tensors */
    net n;
    residency_pass *p = open_net(r, &n, "set");
    REQUIRE(p);
    for (int i = 0; i < 3; i++) CHECK_EQ(run(p, NULL), KILN_OK);
    CHECK_EQ(packed_in_all(&n), 1 + 3 * (WEIGHTS - 1));
    CHECK_EQ(residency_peak(r), 2 * ROOM);
    close_net(&n, p);
    residency_free(r);
}

static void test_every_allocation_may_fail(void)
{
    int64_t k = 0;
    for (kiln_status status = KILN_ERR_NOMEM; status != KILN_OK && k < 200; k++) {
        error e = {0};
        net n = {0};
        mem_fail_at(k, 0);
        residency *r = open_manager(0);
        residency_pass *p = r ? open_net(r, &n, "set") : NULL;
        status = p ? run(p, &e) : KILN_ERR_NOMEM;
        mem_fail_at(-1, 0);
        CHECK_EQ(status == KILN_OK || status == KILN_ERR_NOMEM, 1);
        if (p) CHECK_EQ(run(p, NULL), KILN_OK);
        close_net(&n, p);
        residency_free(r);
    }
    CHECK(k > 15 && k < 200);
}

static unsigned asked_in_all(net *n)
{
    unsigned sum = 0;
    for (int i = 0; i < WEIGHTS; i++) sum += atomic_load(&n->asked[i]);
    return sum;
}
/* The thread that asks takes its time; what it does beyond that is seen when its program goes. */
static int asked_becomes(net *n, unsigned wanted)
{
    for (int i = 0; i < 5000 && asked_in_all(n) < wanted; i++) usleep(1000);
    return CHECK_EQ(asked_in_all(n), wanted);
}

/* a a a b, estimated: b's files are asked for when a's last run begins, once for each weight that is not there. */
static void test_files_of_the_next_program_are_asked_for(void)
{
    residency *r = open_manager(0);
    net one, two;
    residency_workspace capacity;
    residency_pass *p = open_net(r, &one, "one"), *q = open_net(r, &two, "two");
    REQUIRE(p && q);
    for (int i = 0; i < 4; i++) CHECK_EQ(residency_note_run(i < 3 ? p : q, NULL), KILN_OK);
    for (int round = 0; round < 2; round++) {
        CHECK(run(p, NULL) == KILN_OK && run(p, NULL) == KILN_OK);
        CHECK_EQ(asked_in_all(&two), round ? WEIGHTS : 0);
        REQUIRE(residency_begin(p, &capacity, NULL) == KILN_OK);
        asked_becomes(&two, WEIGHTS);                               /* the second time they are all there */
        CHECK(residency_prefetch_next(p, NULL, NULL).name == NULL); /* there is nothing to copy on a host */
        residency_end(p, 0);
        CHECK_EQ(run(q, NULL), KILN_OK);
    }
    residency_give_up(r, 1); /* the one that goes is asked for again */
    packed_weight *gone = NULL;
    for (int i = 0; i < WEIGHTS && !gone; i++)
        if (!one.weight[i]->data || !two.weight[i]->data) gone = one.weight[i];
    CHECK(gone != NULL);
    for (int i = 0; i < 3; i++) CHECK_EQ(run(p, NULL), KILN_OK);
    asked_becomes(&two, WEIGHTS + (packed_in_all(&one) == WEIGHTS));
    close_net(&one, p), close_net(&two, q);
    CHECK_EQ(asked_in_all(&two), WEIGHTS + (packed_in_all(&one) == WEIGHTS));
    CHECK_EQ(asked_in_all(&one), 0); /* past the end of the order nothing is known */
    residency_free(r);
}

/* What an estimate notes will run: each program's files are asked for as soon as it is noted, once. */
static void test_files_of_all_programs_are_read_ahead(void)
{
    residency *r = open_manager(0);
    net n[3];
    residency_pass *p[3];
    for (int i = 0; i < 3; i++) REQUIRE((p[i] = open_net(r, &n[i], i == 0 ? "one" : i == 1 ? "two" : "three")) != NULL);
    CHECK_EQ(run(p[1], NULL), KILN_OK); /* its weights are there */
    CHECK_EQ(residency_note_run(p[0], NULL), KILN_OK);
    residency_read_ahead(r);
    asked_becomes(&n[0], WEIGHTS);
    CHECK_EQ(residency_note_run(p[1], NULL), KILN_OK);
    for (int i = 0; i < 2; i++) CHECK_EQ(residency_note_run(p[2], NULL), KILN_OK);
    asked_becomes(&n[2], WEIGHTS);
    for (int i = 0; i < 3; i++) CHECK_EQ(run(p[i], NULL), KILN_OK);
    for (int i = 0; i < 3; i++) close_net(&n[i], p[i]);
    for (int i = 0; i < 3; i++) CHECK_EQ(asked_in_all(&n[i]), i == 1 ? 0 : WEIGHTS);
    residency_free(r);
}

/* Reading that takes long ends when its program goes, or everything does. */
static void test_reading_ahead_ends_when_nobody_wants_it(void)
{
    residency *r = open_manager(0);
    net one, two;
    residency_pass *p = open_net(r, &one, "one"), *q = open_net(r, &two, "two");
    REQUIRE(p && q);
    one.slow = two.slow = 1;
    residency_read_ahead(r);
    CHECK_EQ(residency_note_run(p, NULL), KILN_OK);
    CHECK_EQ(residency_note_run(q, NULL), KILN_OK);
    asked_becomes(&one, 1);
    close_net(&one, p);
    asked_becomes(&two, 1);
    close_net(&two, q);
    residency_free(r);
    CHECK_EQ(asked_in_all(&one) + asked_in_all(&two), 2);
}

static void test_nothing_is_read_ahead_where_that_is_off(void)
{
    residency *r = residency_new(&(residency_setting){.device = device_host(), .no_prefetch = 1}, NULL);
    net one, two;
    residency_pass *p = open_net(r, &one, "one"), *q = open_net(r, &two, "two");
    REQUIRE(p && q);
    residency_read_ahead(r);
    CHECK_EQ(residency_note_run(p, NULL), KILN_OK);
    CHECK_EQ(residency_note_run(q, NULL), KILN_OK);
    CHECK_EQ(run(p, NULL), KILN_OK);
    usleep(20000);
    close_net(&one, p), close_net(&two, q);
    CHECK_EQ(asked_in_all(&one) + asked_in_all(&two), 0);
    residency_free(r);
}

/* Programs go while the order stands: what is left of it still holds. */
static void test_the_order_without_one_that_went(void)
{
    residency *r = open_manager(0);
    net n[3];
    residency_pass *p[3];
    for (int i = 0; i < 3; i++) REQUIRE((p[i] = open_net(r, &n[i], i == 0 ? "one" : i == 1 ? "two" : "three")) != NULL);
    for (int i = 0; i < 3; i++) CHECK_EQ(residency_note_run(p[i], NULL), KILN_OK);
    CHECK_EQ(run(p[0], NULL), KILN_OK);
    asked_becomes(&n[1], WEIGHTS);
    CHECK_EQ(run(p[1], NULL), KILN_OK);
    asked_becomes(&n[2], WEIGHTS);
    close_net(&n[0], p[0]);
    residency_give_up(r, SIZE_MAX);
    CHECK_EQ(run(p[1], NULL), KILN_OK); /* round the end: it comes again, and then the third */
    asked_becomes(&n[2], 2 * WEIGHTS);
    close_net(&n[2], p[2]);
    CHECK_EQ(run(p[1], NULL), KILN_OK);
    close_net(&n[1], p[1]);
    residency_free(r);
}

static int on_device(const net *n)
{
    int there = 0;
    for (int i = 0; i < WEIGHTS; i++) there += weight_on_device(n->weight[i]);
    return there;
}

/* Where the order is all that will run, weights go once nobody in it wants them; not those of who is not in it. */
static void test_what_no_program_wants_any_more_is_given_up(void)
{
    residency *r = open_manager(0);
    net n[4], again;
    residency_pass *p[4], *same;
    const char *const set[4] = {"encoder", "unet", "vae", "other"};
    for (int i = 0; i < 4; i++) REQUIRE((p[i] = open_net(r, &n[i], set[i])) != NULL);
    REQUIRE((same = open_net(r, &again, "encoder")) != NULL); /* another program over the same weights */
    residency_pass *const order[] = {p[0], p[1], p[1], same, p[1], p[2]};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) CHECK_EQ(residency_note_run(order[i], NULL), KILN_OK);
    residency_order_is_whole(r);
    CHECK_EQ(run(p[3], NULL), KILN_OK);
    CHECK_EQ(run(p[0], NULL), KILN_OK);
    CHECK_EQ(run(p[1], NULL), KILN_OK);
    CHECK_EQ(run(p[1], NULL), KILN_OK);
    CHECK_EQ(on_device(&n[0]), WEIGHTS); /* which `same` will want */
    CHECK_EQ(run(same, NULL), KILN_OK);
    CHECK_EQ(on_device(&n[1]), WEIGHTS);
    CHECK_EQ(run(p[1], NULL), KILN_OK);
    CHECK_EQ(on_device(&n[0]), 0);
    CHECK_EQ(run(p[2], NULL), KILN_OK);
    CHECK_EQ(on_device(&n[1]), 0);
    CHECK_EQ(on_device(&n[2]), WEIGHTS);
    CHECK_EQ(on_device(&n[3]), WEIGHTS);
    CHECK_EQ(packed_in_all(&n[1]), WEIGHTS);
    CHECK_EQ(run(p[1], NULL), KILN_OK); /* all the same */
    CHECK_EQ(packed_in_all(&n[1]), 2 * WEIGHTS);
    CHECK_EQ(on_device(&n[3]), WEIGHTS);
    close_net(&again, same);
    for (int i = 0; i < 4; i++) close_net(&n[i], p[i]);
    residency_free(r);
}

static void *know_and_release(void *arg)
{
    for (int i = 0; i < 4000; i++) {
        char name[8];
        packed_weight *x = NULL;
        snprintf(name, sizeof name, "w%d", i * 3 % 5);
        if (residency_intern(arg, "set", name, "f32", BYTES, &x, NULL) == KILN_OK) packed_weight_release(x);
    }
    return NULL;
}

static void test_threads_come_and_go(void)
{
    residency *r = open_manager(20000);
    net n;
    pthread_t threads[3];
    residency_pass *p = open_net(r, &n, "set");
    REQUIRE(p);
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, know_and_release, r);
    for (int i = 0; i < 200; i++) {
        CHECK_EQ(run(p, NULL), KILN_OK);
        residency_give_up(r, 2 * ROOM);
    }
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    close_net(&n, p);
    CHECK_EQ(residency_bytes(r), 0);
    residency_free(r);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_what_is_asked_for_twice_is_one),
        CASE(test_two_programs_share_and_the_last_one_takes_it_along),
        CASE(test_giving_up_takes_all_but_what_runs),
        CASE(test_memory_to_work_in_is_given_up),
        CASE(test_memory_is_wanted_while_programs_run),
        CASE(test_a_failure_leaves_nothing_and_the_next_run_is_whole),
        CASE(test_under_a_limit_a_run_packs_what_is_streamed_again),
        CASE(test_every_allocation_may_fail),
        CASE(test_what_no_program_wants_any_more_is_given_up),
        CASE(test_threads_come_and_go),
        CASE(test_files_of_the_next_program_are_asked_for),
        CASE(test_files_of_all_programs_are_read_ahead),
        CASE(test_reading_ahead_ends_when_nobody_wants_it),
        CASE(test_nothing_is_read_ahead_where_that_is_off),
        CASE(test_the_order_without_one_that_went),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
