/* test_packed_weight.c - the state machine of a packed weight: every event in every state goes where the diagram of
 * packed_weight.h says, or is refused (by an assertion in debug builds) and changes nothing.
 */
#include "harness.h"

#include "memory/manager.h"
#include "memory/packed_weight.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A weight as it can be: its state and what decides where an event leads. */
typedef struct {
    weight_state state;
    int host;         /* it has a host copy */
    unsigned pins;    /* none, PIN_RUN, PIN_NEXT or both */
    int for_prefetch; /* COPYING: a prefetch sends it */
} situation;

static char device_bytes[64], host_bytes[64];

static residency *open_manager(void) { return residency_new(&(residency_setting){.device = device_host()}, NULL); }

/* Brings a new weight there by legal events. */
static packed_weight *bring_to(residency *r, situation s)
{
    packed_weight *x = NULL;
    if (residency_intern(r, "set", "w", "f32", sizeof device_bytes, &x, NULL) != KILN_OK) return NULL;
    pthread_mutex_lock(&r->lock);
    if (s.pins & PIN_RUN) weight_pin(x, PIN_RUN);
    if (s.pins & PIN_NEXT) weight_pin(x, PIN_NEXT);
    if (s.host) weight_transition(x, &(weight_change){.event = WEIGHT_IS_PACKED, .memory = host_bytes}, NULL);
    if (s.state >= WEIGHT_COPYING)
        weight_transition(
            x, &(weight_change){.event = WEIGHT_IS_PLACED, .memory = device_bytes, .batch = s.for_prefetch ? 7 : 0},
            NULL);
    if (s.state > WEIGHT_COPYING) weight_arrived(x);
    pthread_mutex_unlock(&r->lock);
    return x;
}

/* Its memory is the test's: nothing for the manager to give back. */
static void forget(residency *r, packed_weight *x)
{
    pthread_mutex_lock(&r->lock);
    x->data = x->host = NULL, x->state = WEIGHT_ABSENT, x->pins = 0, x->batch = 0;
    pthread_mutex_unlock(&r->lock);
    packed_weight_release(x);
}

static int is_possible(situation s)
{
    if (s.state == WEIGHT_ABSENT && s.host) return 0;
    if (s.state == WEIGHT_HOST && !s.host) return 0;
    if (s.state == WEIGHT_RESIDENT && s.pins) return 0;
    if (s.state == WEIGHT_PINNED && !s.pins) return 0;
    return !s.for_prefetch || s.state == WEIGHT_COPYING;
}

/* The diagram, written a second time: the state after, or WEIGHT_STATES where there is no arrow. */
static weight_state expected(situation s, weight_event event, unsigned pin)
{
    weight_state off = s.host ? WEIGHT_HOST : WEIGHT_ABSENT;
    unsigned pins = event == WEIGHT_IS_PINNED ? s.pins | pin : s.pins & ~pin;
    switch (event) {
    case WEIGHT_IS_PACKED:
        return s.host || s.state > WEIGHT_COPYING ? WEIGHT_STATES
               : s.state == WEIGHT_COPYING        ? WEIGHT_COPYING
                                                  : WEIGHT_HOST;
    case WEIGHT_IS_PLACED: return s.state <= WEIGHT_HOST ? WEIGHT_COPYING : WEIGHT_STATES;
    case WEIGHT_HAS_ARRIVED:
        return s.state != WEIGHT_COPYING ? WEIGHT_STATES : s.pins ? WEIGHT_PINNED : WEIGHT_RESIDENT;
    case WEIGHT_HAS_FAILED: return s.state == WEIGHT_COPYING ? off : WEIGHT_STATES;
    case WEIGHT_IS_EVICTED:
        if (s.state == WEIGHT_RESIDENT || (s.state == WEIGHT_PINNED && s.pins == PIN_RUN)) return off;
        return s.state == WEIGHT_COPYING && s.for_prefetch && !s.pins ? off : WEIGHT_STATES;
    case WEIGHT_IS_PINNED:
    case WEIGHT_IS_UNPINNED: return s.state <= WEIGHT_COPYING ? s.state : pins ? WEIGHT_PINNED : WEIGHT_RESIDENT;
    default: return WEIGHT_STATES; /* released: with its last reference alone, and there is one */
    }
}

static kiln_status apply(residency *r, packed_weight *x, weight_event event, unsigned pin)
{
    static char other[64];
    pthread_mutex_lock(&r->lock);
    kiln_status status = weight_transition(x, &(weight_change){.event = event, .memory = other, .pin = pin}, NULL);
    pthread_mutex_unlock(&r->lock);
    return status;
}

static void check_legal(residency *r, packed_weight *x, weight_event event, unsigned pin, weight_state to)
{
    CHECK_EQ(apply(r, x, event, pin), KILN_OK);
    CHECK_EQ(x->state, to);
    CHECK_EQ(x->data != NULL, to >= WEIGHT_COPYING);
    CHECK(to != WEIGHT_HOST || x->host);
    CHECK(to != WEIGHT_ABSENT || !x->host);
    CHECK(to == WEIGHT_COPYING || x->batch == 0);
}

#ifdef NDEBUG
static void check_illegal(residency *r, packed_weight *x, weight_event event, unsigned pin)
{
    packed_weight before = *x;
    CHECK_EQ(apply(r, x, event, pin), KILN_ERR_BUG);
    CHECK(memcmp(&before, x, sizeof before) == 0);
}
#else
/* Ends in a child by an assertion. */
static int aborts(void (*act)(residency *, packed_weight *, weight_event, unsigned), residency *r, packed_weight *x,
                  weight_event event, unsigned pin)
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (!freopen("/dev/null", "w", stderr)) _exit(1);
        signal(SIGABRT, SIG_DFL);
        act(r, x, event, pin);
        _exit(0);
    }
    return waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}
static void act_locked(residency *r, packed_weight *x, weight_event event, unsigned pin) { apply(r, x, event, pin); }
static void act_unlocked(residency *r, packed_weight *x, weight_event event, unsigned pin)
{
    (void)r;
    weight_transition(x, &(weight_change){.event = event, .pin = pin}, NULL);
}
static void check_illegal(residency *r, packed_weight *x, weight_event event, unsigned pin)
{
    CHECK_MSG(aborts(act_locked, r, x, event, pin), "state %d, event %d was taken", (int)x->state, (int)event);
}
#endif

static void check_event(residency *r, situation s, weight_event event, unsigned pin)
{
    packed_weight *x = bring_to(r, s);
    weight_state to = expected(s, event, pin);
    REQUIRE(x && CHECK_EQ(x->state, s.state) && CHECK_EQ(x->pins, s.pins));
    if (to == WEIGHT_STATES)
        check_illegal(r, x, event, pin);
    else
        check_legal(r, x, event, pin, to);
    forget(r, x);
}

static void test_every_event_in_every_state(void)
{
    residency *r = open_manager();
    int situations = 0;
    REQUIRE(r);
    for (unsigned i = 0; i < WEIGHT_STATES * 16u; i++) {
        situation s = {
            .state = (weight_state)(i / 16), .host = i & 1, .for_prefetch = i >> 1 & 1, .pins = (unsigned)(i >> 2 & 3)};
        if (!is_possible(s)) continue;
        situations++;
        for (int event = 0; event < WEIGHT_EVENTS; event++) {
            check_event(r, s, (weight_event)event, PIN_RUN);
            if (event == WEIGHT_IS_PINNED || event == WEIGHT_IS_UNPINNED)
                check_event(r, s, (weight_event)event, PIN_NEXT);
        }
    }
    CHECK_EQ(situations, 4 + 4 + 16 + 2 + 6);
    residency_free(r);
}

/* Who evicts gets the memory, and which prefetch may still be writing to it. */
static void test_a_detached_weight_leaves_its_memory_to_the_caller(void)
{
    residency *r = open_manager();
    REQUIRE(r);
    packed_weight *x = bring_to(r, (situation){.state = WEIGHT_COPYING, .host = 1, .for_prefetch = 1});
    REQUIRE(x);
    pthread_mutex_lock(&r->lock);
    uint64_t generation = r->generation;
    weight_memory m = weight_detach(x, WEIGHT_IS_EVICTED);
    CHECK(m.data == device_bytes && m.batch == 7 && m.bytes == x->capacity);
    CHECK(x->state == WEIGHT_HOST && !x->data && x->host == host_bytes);
    CHECK_EQ(r->generation, generation + 1);
    pthread_mutex_unlock(&r->lock);
    CHECK_EQ(residency_traffic_get(r).evicted, x->capacity);
    forget(r, x);
    residency_free(r);
}

#ifndef NDEBUG
static void test_without_the_lock_it_is_an_assertion(void)
{
    residency *r = open_manager();
    packed_weight *x = bring_to(r, (situation){.state = WEIGHT_RESIDENT});
    REQUIRE(x);
    CHECK(aborts(act_unlocked, r, x, WEIGHT_IS_PINNED, PIN_RUN));
    forget(r, x);
    residency_free(r);
}
#endif

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_every_event_in_every_state),
        CASE(test_a_detached_weight_leaves_its_memory_to_the_caller),
#ifndef NDEBUG
        CASE(test_without_the_lock_it_is_an_assertion),
#endif
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
