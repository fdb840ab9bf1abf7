/* test_weight_plan.c - which weights stay and which are streamed: over random programs and limits, the placement keeps
 * its limit, slots are never overwritten before they were read, the least limit is the least, and streaming is spread.
 */
#include "graph_kit.h"

#include "base/memory_alloc.h"
#include "memory/weight_plan.h"

enum { OPS_TOP = 60, USES_TOP = 200 };

typedef struct {
    weight_demand d;
    double work[OPS_TOP];
    size_t bytes[USES_TOP];
    weight_use use[USES_TOP];
} made;

/* Up to 60 ops of 0 to 3 weights of 1 B to 1 MB (some of them tiny), now and then one that was used before. */
static void make(made *m, uint64_t seed)
{
    dice d = {seed};
    *m = (made){.d = {.fixed = dice_below(&d, 3) ? dice_below(&d, 5000000) : 0,
                      .alignment = dice_below(&d, 2) ? 64 : 256,
                      .overlap = (int)dice_below(&d, 2)}};
    m->d.n_op = 1 + dice_below(&d, OPS_TOP - 1);
    for (uint32_t i = 0; i < m->d.n_op; i++) {
        m->work[i] = dice_below(&d, 4) ? dice_below(&d, 1000) : 0;
        uint32_t first = (uint32_t)m->d.n_use;
        for (uint32_t n = dice_below(&d, 4); n > 0; n--) {
            uint32_t w = m->d.n_weight && dice_below(&d, 8) == 0 ? dice_below(&d, (uint32_t)m->d.n_weight)
                                                                 : (uint32_t)m->d.n_weight++;
            int again = 0;
            for (size_t u = first; u < m->d.n_use; u++) again |= m->use[u].weight == w;
            if (again) continue;
            if (!m->bytes[w]) m->bytes[w] = 1 + (dice_below(&d, 3) ? dice_below(&d, 1000000) : dice_below(&d, 3000));
            m->use[m->d.n_use++] = (weight_use){.op = i, .weight = w};
        }
    }
    m->d.work = m->work, m->d.bytes = m->bytes, m->d.use = m->use;
}

static size_t rounded(const made *m, uint32_t w) { return (m->bytes[w] + m->d.alignment - 1) & ~(m->d.alignment - 1); }

/* The ring as a map of who wrote last, filled as early as `after` allows: when an op runs, its slots are still its own.
 */
static int slots_hold(const made *m, const weight_plan *p)
{
    static uint32_t owner[USES_TOP]; /* use whose bytes are in place; by use: 1 + index while intact */
    memset(owner, 0, sizeof owner);
    size_t filled = 0;
    for (uint32_t at = 0; at < m->d.n_op; at++) {
        while (filled < m->d.n_use) { /* fill early: everything whose slots are free once ops below `at` are done */
            uint32_t next = m->use[filled].op;
            if (p->after[next] != WEIGHT_PLAN_NONE && p->after[next] >= at) break;
            for (; filled < m->d.n_use && m->use[filled].op == next; filled++) {
                if (!p->streamed[m->use[filled].weight]) continue;
                size_t from = p->slot[filled], to = from + rounded(m, m->use[filled].weight);
                if (to > p->ring) return CHECK_MSG(0, "a slot ends at %zu of a ring of %zu", to, p->ring);
                for (size_t u = 0; u < filled; u++) { /* whom it overwrites */
                    size_t a = p->slot[u], b = a + rounded(m, m->use[u].weight);
                    if (p->streamed[m->use[u].weight] && a < to && from < b) owner[u] = 0;
                }
                owner[filled] = 1;
            }
        }
        for (size_t u = 0; u < m->d.n_use; u++)
            if (m->use[u].op == at && p->streamed[m->use[u].weight] && !owner[u])
                return CHECK_MSG(0, "op %u: its slot was overwritten before it ran", at);
    }
    return filled == m->d.n_use || CHECK_MSG(0, "use %zu is never filled", filled);
}

static int sums_are_right(const made *m, const weight_plan *p)
{
    size_t resident = 0, streamed = 0;
    uint32_t n = 0;
    for (uint32_t w = 0; w < m->d.n_weight; w++) {
        if (!p->streamed[w]) resident += rounded(m, w);
        n += p->streamed[w];
    }
    for (size_t u = 0; u < m->d.n_use; u++)
        if (p->streamed[m->use[u].weight]) streamed += m->bytes[m->use[u].weight];
    return CHECK_EQ(p->resident, resident) & CHECK_EQ(p->streamed_bytes, streamed) & CHECK_EQ(p->n_streamed, n) &
           CHECK_EQ(p->peak, m->d.fixed + resident + p->ring);
}

static void test_every_limit_is_kept(void)
{
    for (uint64_t seed = 1; seed <= 300; seed++) {
        made m;
        make(&m, seed);
        size_t least = weight_plan_least(&m.d), whole = weight_plan_whole(&m.d);
        REQUIRE(least <= whole);
        for (int i = 0; i <= 24; i++) {
            weight_plan p;
            error e = {0};
            size_t limit = least + (whole - least) * (size_t)i / 24;
            if (!limit) continue;
            REQUIRE(CHECK_MSG(weight_plan_make(&m.d, limit, &p, &e) == KILN_OK, "seed %d, limit %zu: %s", (int)seed,
                              limit, e.message));
            int ok = CHECK_MSG(p.peak <= limit, "seed %d: peak %zu of %zu", (int)seed, p.peak, limit) &&
                     sums_are_right(&m, &p) && slots_hold(&m, &p);
            if (limit == whole) CHECK_EQ(p.n_streamed, 0);
            weight_plan_free(&p);
            REQUIRE(CHECK_MSG(ok, "seed %d, limit %zu of %zu to %zu", (int)seed, limit, least, whole));
        }
    }
}

static void test_a_byte_less_than_the_least_is_refused_with_the_number(void)
{
    for (uint64_t seed = 1; seed <= 50; seed++) {
        made m;
        weight_plan p;
        error e = {0};
        char number[32];
        make(&m, seed);
        size_t least = weight_plan_least(&m.d);
        if (least < 2) continue;
        CHECK_EQ(weight_plan_make(&m.d, least - 1, &p, &e), KILN_ERR_NOMEM);
        snprintf(number, sizeof number, "(%zu bytes)", least);
        CHECK_MSG(strstr(e.message, number) != NULL, "%s", e.message);
    }
}

static void test_no_limit_streams_nothing(void)
{
    made m;
    weight_plan p;
    make(&m, 7);
    REQUIRE(weight_plan_make(&m.d, 0, &p, NULL) == KILN_OK);
    CHECK_EQ(p.n_streamed, 0);
    CHECK_EQ(p.ring, 0);
    CHECK_EQ(p.peak, weight_plan_whole(&m.d));
    weight_plan_free(&p);
}

/* A hundred equal ops: at half the memory, at no time have more or fewer than a few weights streamed than time has
 * passed. */
static void test_streaming_keeps_step_with_time(void)
{
    enum { N = 60 };
    static made m;
    m = (made){
        .d = {.n_op = N, .n_weight = N, .n_use = N, .alignment = 64, .work = m.work, .bytes = m.bytes, .use = m.use}};
    for (uint32_t i = 0; i < N; i++) m.work[i] = 1, m.bytes[i] = 1 << 20, m.use[i] = (weight_use){i, i};
    for (int overlap = 0; overlap < 2; overlap++) {
        weight_plan p;
        m.d.overlap = overlap;
        REQUIRE(weight_plan_make(&m.d, (N / 2 + 2) << 20, &p, NULL) == KILN_OK);
        double gone = 0;
        CHECK(p.n_streamed >= N / 2 - 2 && p.n_streamed <= N / 2);
        for (uint32_t i = 0; i < N; i++) {
            double share = (double)p.n_streamed * i / N;
            CHECK_MSG(gone - share < 2 && share - gone < 2, "before op %u of %d: %g streamed, %g due", i, N, gone,
                      share);
            gone += p.streamed[i];
        }
        CHECK_EQ(p.ring, (overlap ? 2 : 1) << 20);
        weight_plan_free(&p);
    }
}

/* Work decides where: half the ops take all the time, so what streams is theirs. */
static void test_streaming_follows_the_work(void)
{
    enum { N = 60 };
    static made m;
    uint32_t early = 0;
    weight_plan p;
    m = (made){.d = {.n_op = N,
                     .n_weight = N,
                     .n_use = N,
                     .alignment = 64,
                     .overlap = 1,
                     .work = m.work,
                     .bytes = m.bytes,
                     .use = m.use}};
    for (uint32_t i = 0; i < N; i++)
        m.work[i] = i < N / 2 ? 0.001 : 1, m.bytes[i] = 1 << 20, m.use[i] = (weight_use){i, i};
    REQUIRE(weight_plan_make(&m.d, (N - 10) << 20, &p, NULL) == KILN_OK);
    for (uint32_t i = 0; i < N / 2; i++) early += p.streamed[i];
    CHECK_MSG(early <= 1, "%u streamed while nothing hides them", early);
    CHECK(p.n_streamed >= 10);
    weight_plan_free(&p);
}

static void test_tiny_weights_stay(void)
{
    enum { N = 60 };
    static made m;
    weight_plan p;
    m = (made){
        .d = {.n_op = N, .n_weight = N, .n_use = N, .alignment = 64, .work = m.work, .bytes = m.bytes, .use = m.use}};
    for (uint32_t i = 0; i < N; i++) m.work[i] = 1, m.bytes[i] = i % 2 ? 1280 : 1 << 20, m.use[i] = (weight_use){i, i};
    REQUIRE(weight_plan_make(&m.d, 4 << 20, &p, NULL) == KILN_OK);
    for (uint32_t i = 1; i < N; i += 2) CHECK_EQ(p.streamed[i], 0);
    weight_plan_free(&p);
}

static void test_every_allocation_may_fail(void)
{
    made m;
    make(&m, 11);
    int64_t k = 0;
    for (kiln_status status = KILN_ERR_NOMEM; status != KILN_OK && k < 20; k++) {
        weight_plan p;
        mem_fail_at(k, 0);
        status = weight_plan_make(&m.d, (weight_plan_least(&m.d) + weight_plan_whole(&m.d)) / 2, &p, NULL);
        mem_fail_at(-1, 0);
        if (status == KILN_OK)
            weight_plan_free(&p);
        else
            CHECK_EQ(status, KILN_ERR_NOMEM);
    }
    CHECK(k > 3 && k < 20);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_every_limit_is_kept),        CASE(test_a_byte_less_than_the_least_is_refused_with_the_number),
        CASE(test_no_limit_streams_nothing),   CASE(test_streaming_keeps_step_with_time),
        CASE(test_streaming_follows_the_work), CASE(test_tiny_weights_stay),
        CASE(test_every_allocation_may_fail),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
