/* no_memory_kit.h - a whole piece of work in this process, with its k-th allocation failing, for every k.
 *
 *     static kiln_status read_file(yield *out, error *e) { ...; yield_text(out, what it made); return status; }
 *     static void test_read_file(void) { fail_everywhere("read a file", read_file); }
 *
 * Each time it either succeeds with all that it gives otherwise, or says that there is no memory; it leaves nothing
 * allocated or open; and after it the same work without a failure gives the same. Where more than RUNS allocations are,
 * those fail that pass a place of the code as the first (a return address on their stack), so that each place is tried,
 * and a sample of the others, which KILN_TEST_SEED varies; KILN_TEST_FULL=1 fails each.
 */
#ifndef KILN_TESTS_NO_MEMORY_KIT_H
#define KILN_TESTS_NO_MEMORY_KIT_H

#include "harness.h"

#include "base/memory_alloc.h"
#include "base/memory_fault.h"
#include "base/status.h"

#include <dirent.h>
#include <execinfo.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a piece of work gave, as a digest (FNV-1a). */
typedef struct {
    uint64_t hash;
    size_t n;
} yield;

static inline void yield_bytes(yield *y, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    uint64_t h = y->n ? y->hash : 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 0x100000001b3u;
    y->hash = (h ^ n) * 0x100000001b3u;
    y->n += n + 1;
}
static inline void yield_text(yield *y, const char *text) { yield_bytes(y, text ? text : "", text ? strlen(text) : 0); }
static inline void yield_number(yield *y, int64_t v) { yield_bytes(y, &v, sizeof v); }

static inline int64_t open_descriptors(void)
{
    int64_t n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d)) n++;
    if (d) closedir(d);
    return n;
}

typedef kiln_status (*piece_of_work)(yield *out, error *e);

enum { RUNS = 300, FAULTS_SHOWN = 8, PLACES_KEPT = 1 << 14, FIRSTS_KEPT = 4096, STACK_DEEP = 40 };

/* Places of the code that a sound run came by, and the requests that were the first at one. */
static struct {
    atomic_flag held;
    uintptr_t place[PLACES_KEPT];
    int64_t first[FIRSTS_KEPT];
    size_t n_first;
    int64_t (*number)(void); /* of the request that is being made */
} came_by = {.held = ATOMIC_FLAG_INIT};

static inline int is_new_place(uintptr_t at)
{
    extern const char __executable_start[], etext[];
    if (at < (uintptr_t)__executable_start || at >= (uintptr_t)etext) return 0;
    size_t i = (size_t)((at * 0x9e3779b97f4a7c15u) >> 50), n = 0;
    while (came_by.place[i] && came_by.place[i] != at && ++n < PLACES_KEPT) i = (i + 1) % PLACES_KEPT;
    if (came_by.place[i]) return 0;
    came_by.place[i] = at;
    return 1;
}

/* Lets the request through. */
static inline int note_places(void)
{
    void *frame[STACK_DEEP];
    int n = backtrace(frame, STACK_DEEP), fresh = 0;
    while (atomic_flag_test_and_set(&came_by.held)) continue;
    for (int i = 0; i < n; i++) fresh |= is_new_place((uintptr_t)frame[i]);
    if (fresh && came_by.n_first < FIRSTS_KEPT) came_by.first[came_by.n_first++] = came_by.number();
    atomic_flag_clear(&came_by.held);
    return 0;
}

static inline void note_places_by(int64_t (*number)(void))
{
    void *frame[2];
    backtrace(frame, 2); /* the first call loads a library */
    memset(came_by.place, 0, sizeof came_by.place);
    came_by.n_first = 0, came_by.number = number;
}

static inline int64_t allocation_now(void) { return mem_count() - 1; }

typedef struct {
    const char *name;
    piece_of_work run;
    yield sound;
    int64_t live, open, n; /* blocks and descriptors that stay after it, and allocations that it makes */
    int shown;
} fail_case;

static inline void fail_one(fail_case *c, int64_t k, int persistent)
{
    error e = {0};
    yield out = {0};
    const char *more = persistent ? " and all after it" : "";
    mem_fail_at(k, persistent);
    kiln_status status = c->run(&out, &e);
    mem_fail_at(-1, 0);
    int ok;
    if (status == KILN_OK)
        ok = CHECK_MSG(out.n == c->sound.n && out.hash == c->sound.hash,
                       "%s: allocation %lld%s: it succeeds, but gives something else", c->name, (long long)k, more);
    else
        ok = CHECK_MSG(strstr(e.message, "memory") != NULL, "%s: allocation %lld%s: %s: \"%s\"", c->name, (long long)k,
                       more, status_name(status), e.message);
    int64_t left = mem_live() - c->live;
    ok &= CHECK_MSG(left == 0, "%s: allocation %lld%s: %lld blocks are left", c->name, (long long)k, more,
                    (long long)left);
    int64_t more_open = open_descriptors() - c->open;
    ok &= CHECK_MSG(more_open == 0, "%s: allocation %lld%s: %lld files are left open", c->name, (long long)k, more,
                    (long long)more_open);
    c->live += left, c->open += more_open; /* each is shown where it was made */
    if (!ok) c->shown++;
}

static inline void fail_sound(fail_case *c)
{
    error e = {0};
    yield out = {0};
    kiln_status status = c->run(&out, &e);
    int ok = CHECK_MSG(status == KILN_OK && out.n == c->sound.n && out.hash == c->sound.hash,
                       "%s: without a failure it does not give the same any more: %s", c->name, e.message);
    if (!ok) c->shown++;
}

/* What stays the first time (what a process remembers) is no part of it: it runs twice before. */
static inline void fail_everywhere(const char *name, piece_of_work run)
{
    fail_case c = {.name = name, .run = run};
    const char *word = getenv("KILN_TEST_SEED"), *only = getenv("KILN_TEST_ALLOCATION");
    mem_count_pieces(1);
    uint64_t seed = word ? strtoull(word, NULL, 10) : 1;
    for (int i = 0; i < 2; i++) {
        error e = {0};
        c.sound = (yield){0};
        c.live = mem_live(), c.open = open_descriptors();
        mem_fail_at(-1, 0);
        note_places_by(allocation_now);
        mem_fail_when(i && c.n > RUNS ? note_places : NULL);
        kiln_status status = run(&c.sound, &e);
        mem_fail_when(NULL);
        c.n = mem_count();
        if (!CHECK_MSG(status == KILN_OK, "%s: does not work at all: %s", name, e.message)) return;
        if (i) CHECK_MSG(open_descriptors() == c.open, "%s: leaves files open", name);
        if (i) CHECK_MSG(mem_live() == c.live, "%s: leaves %lld blocks", name, (long long)(mem_live() - c.live));
    }
    CHECK_MSG(c.n > 0 && c.sound.n > 0, "%s: allocates or gives nothing", name);
    if (only) {
        fail_one(&c, strtoll(only, NULL, 10), 0);
        return;
    }
    int64_t step = getenv("KILN_TEST_FULL") || c.n <= RUNS ? 1 : 3 * (c.n + RUNS - 1) / RUNS;
    for (size_t i = 0; step > 1 && i < came_by.n_first && c.shown < FAULTS_SHOWN; i++)
        fail_one(&c, came_by.first[i], 0);
    for (int persistent = 0; persistent <= 1; persistent++) {
        int64_t by = persistent ? step * 4 : step, tried = 0;
        for (int64_t k = (int64_t)(seed % (uint64_t)by); k < c.n && c.shown < FAULTS_SHOWN; k += by) {
            fail_one(&c, k, persistent);
            if (tried++ % 32 == 0) fail_sound(&c);
        }
    }
    fail_sound(&c);
    if (getenv("KILN_TEST_VERBOSE"))
        printf("  %s: %lld allocations, %zu first at a place, every %lld\n", name, (long long)c.n, came_by.n_first,
               (long long)step);
}

#endif
