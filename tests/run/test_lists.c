/* test_lists.c - nodes that a list comes to: how often they are called, with which items, with which keys; what they
 * give; what is found again; what an empty list, a failure and a cancel leave. Values are texts: "d(x)" is what node d
 * made of x, so what comes out at the end says what went where.
 */
#include "base/memory_alloc.h"
#include "base/str.h"
#include "run/scheduler.h"
#include "tensor/value.h"
#include "workflow/open_kit.h"

#include <stdlib.h>
#include <time.h>

enum { CALLS_MAX = 200 };

typedef struct {
    const workflow *w;
    str saved; /* what Save was given, one after the other */
    int calls, events, fetched, finished;
    digest key[CALLS_MAX];
    const digest *have; /* keys whose values are there already */
    size_t n_key, n_have, current, n_items;
    int taken;
    size_t fail_at; /* the call that fails, from 1 */
    atomic_int cancel;
    size_t cancel_at;
} script;

static void say_value(str *s, const kiln_value *v)
{
    int64_t whole;
    if (value_kind(v) == KILN_V_LIST) {
        str_append(s, "[");
        for (size_t i = 0; i < value_api.count(v); i++)
            str_append(s, i ? " " : ""), say_value(s, value_api.list_at(v, i));
        str_append(s, "]");
    } else if (value_api.get_int(v, &whole) == KILN_OK) {
        str_printf(s, "%lld", (long long)whole);
    } else {
        str_append(s, value_api.get_string(v, NULL));
    }
}

static kiln_value *text_of(str *s)
{
    kiln_value *v = value_string(str_text(s), s->len);
    str_free(s);
    return v;
}

/* Batches with amount n: a list of n texts. */
static kiln_value *batches(const char *name, int64_t n)
{
    kiln_value *list = value_list();
    for (int64_t i = 0; i < n; i++) {
        str s = {0};
        str_printf(&s, "%s%d", name, (int)i + 1);
        kiln_value *one = text_of(&s);
        value_api.list_push(list, one);
        value_unref(one);
    }
    return list;
}

static kiln_status call(void *self, size_t i, const void *params, kiln_value *const *in, kiln_value **out, error *e)
{
    script *s = self;
    const graph_node *g = &s->w->node[i];
    const char *type = g->type->type;
    s->calls++;
    if (s->fail_at && (size_t)s->calls == s->fail_at)
        return error_set(e, KILN_ERR_IO, "node '%s' cannot", g->doc->name);
    if (s->cancel_at && (size_t)s->calls == s->cancel_at) atomic_store(&s->cancel, 1);
    s->taken = 0;
    for (size_t k = 0; g->mapped && k < s->n_have; k++) s->taken |= digest_equal(s->have[k], s->key[s->n_key - 1]);
    if (strcmp(type, "Number") == 0 || strcmp(type, "Constant") == 0) {
        out[0] = value_int(((const fake_number_params *)params)->amount);
    } else if (strcmp(type, "Batches") == 0) {
        out[0] = batches(g->doc->name, ((const fake_number_params *)params)->amount);
    } else if (strcmp(type, "List") == 0) {
        out[0] = value_ref(in[0]);
    } else if (strcmp(type, "Save") == 0) {
        str_append(&s->saved, s->saved.len ? " " : "");
        say_value(&s->saved, in[0]);
    } else {
        str made = {0};
        str_printf(&made, "%s(", g->doc->name);
        if (strcmp(type, "Blank") == 0)
            str_printf(&made, "%dx%d", (int)((const fake_blank_params *)params)->width,
                       (int)((const fake_blank_params *)params)->height);
        for (uint32_t p = 0; p < g->type->n_in; p++)
            if (in[p]) str_append(&made, p ? " " : ""), say_value(&made, in[p]);
        str_append(&made, ")");
        out[0] = text_of(&made);
    }
    return KILN_OK;
}

/* `slow` fails while the first item of d is in its call, which ends when that has been noticed. */
static atomic_int in_item, has_failed;
static kiln_status call_and_meet(void *self, size_t i, const void *params, kiln_value *const *in, kiln_value **out,
                                 error *e)
{
    const graph_node *g = &((script *)self)->w->node[i];
    if (strcmp(g->doc->name, "slow") == 0) {
        for (int k = 0; k < 5000 && !atomic_load(&in_item); k++)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        atomic_store(&has_failed, 1);
        return error_set(e, KILN_ERR_IO, "node 'slow' cannot");
    }
    if (strcmp(g->doc->name, "d") == 0) {
        atomic_store(&in_item, 1);
        for (int k = 0; k < 5000 && !atomic_load(&has_failed); k++)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    return call(self, i, params, in, out, e);
}

static void item(void *self, size_t i, const run_item *which)
{
    script *s = self;
    (void)i;
    if (s->n_key < CALLS_MAX) s->key[s->n_key++] = which->key;
    s->current = which->index, s->n_items = which->n;
}

static void items(void *self, size_t i, size_t n, const digest *key)
{
    script *s = self;
    (void)i;
    s->finished++;
    for (size_t k = 0; k < n; k++) CHECK(digest_equal(key[k], s->key[s->n_key - n + k]));
}

static int taken(void *self, size_t i) { return (void)i, ((script *)self)->taken; }

static void on_event(void *self, const run_event *ev)
{
    script *s = self;
    if (!ev->item) return;
    s->events++;
    s->fetched += ev->kind == RUN_ITEM_FETCHED;
    CHECK(ev->item->index == s->current && ev->item->n == s->n_items);
}

typedef struct {
    script s;
    opened *o;
    run_summary sum;
    error e;
    kiln_status status;
} bench;

static int start_with(bench *b, const char *text, const catalog_view *catalog)
{
    memset(b, 0, sizeof *b);
    b->o = open_with(text, catalog);
    b->s.w = &b->o->w;
    return CHECK_MSG(b->o->d.n_fault == 0, "%s", b->o->faults);
}
static int start(bench *b, const char *text) { return start_with(b, text, NULL); }

static void go(bench *b)
{
    run_hooks hooks = {.self = &b->s, .call = call, .event = on_event, .item = item, .items = items, .taken = taken};
    b->status = run_schedule(&b->o->w, &hooks, &(run_setting){.workers = 1, .cancel = &b->s.cancel}, &b->sum, &b->e);
}

static void finish(bench *b)
{
    str_free(&b->s.saved);
    document_free(&b->o->d);
}

static void saves(const char *text, const char *wanted)
{
    bench b;
    REQUIRE(start(&b, text));
    go(&b);
    CHECK_MSG(b.status == KILN_OK, "%s", b.e.message);
    CHECK_STR(str_text(&b.s.saved), wanted);
    finish(&b);
}

#define SAVE(from) "  o: {class_type: Save, inputs: {images: " from "}}\n"
#define BATCHES(name, n) "  " name ": {class_type: Batches, inputs: {amount: " n "}}\n"
#define DECODE(name, from) "  " name ": {class_type: Decode, inputs: {images: " from "}}\n"
#define NUMBER(name, n) "  " name ": {class_type: Number, inputs: {amount: " n "}}\n"
#define LIST(name, from) "  " name ": {class_type: List, inputs: {items: " from "}}\n"

/* ---- which items ---- */

static void test_a_node_runs_for_each_item(void)
{
    saves("nodes:\n" BATCHES("m", "3") DECODE("d", "[m, 0]") SAVE("[d, 0]"), "d(m1) d(m2) d(m3)");
    saves("nodes:\n" BATCHES("m", "2") DECODE("d", "[m, 0]") DECODE("f", "[d, 0]") SAVE("[f, 0]"), "f(d(m1)) f(d(m2))");
}

static void test_a_list_input_takes_them_all(void)
{
    saves("nodes:\n" BATCHES("m", "3") BATCHES("k", "2") DECODE(
              "d", "[m, 0]") "  b: {class_type: Blank, inputs: {width: 32, height: 16}}\n"
                             "  j: {class_type: Join, inputs: {images: [[d, 0], [b, 0], [k, 0]]}}\n" SAVE("[j, 0]"),
          "j([d(m1) d(m2) d(m3) b(32x16) k1 k2])");
}

static void test_shorter_lists_repeat_their_last_item(void)
{
    saves(
        "nodes:\n" NUMBER("n1", "16") NUMBER("n2", "17") NUMBER("n3", "18") NUMBER("n4", "19") LIST(
            "l", "[[n1, 0], [n2, 0], [n3, 0], [n4, 0]]")
            LIST("k", "[[n3, 0], [n4, 0]]") "  b: {class_type: Blank, inputs: {width: [l, 0], height: [k, 0]}}\n" SAVE(
                "[b, 0]"),
        "b(16x18) b(17x19) b(18x19) b(19x19)");
}

static void test_lists_in_lists_are_one(void)
{
    saves("nodes:\n" BATCHES("m", "2") BATCHES("k", "1") LIST("l", "[[m, 0], [k, 0], [m, 0]]") DECODE("d", "[l, 0]")
              SAVE("[d, 0]"),
          "d(m1) d(m2) d(k1) d(m1) d(m2)");
    /* a node that gives a list for each item: one list of all */
    saves("nodes:\n" NUMBER("n1", "2") NUMBER("n2", "0") NUMBER("n3", "1")
              LIST("l", "[[n1, 0], [n2, 0], [n3, 0]]") "  m: {class_type: Batches, inputs: {amount: [l, 0]}}\n" DECODE(
                  "d", "[m, 0]") SAVE("[d, 0]"),
          "d(m1) d(m2) d(m1)");
}

static void test_an_empty_list_runs_nothing(void)
{
    bench b;
    REQUIRE(start(
        &b, "nodes:\n" BATCHES("m", "0") DECODE("d", "[m, 0]") DECODE(
                "f", "[d, 0]") "  j: {class_type: Join, inputs: {images: [[f, 0]]}}\n  o: {class_type: Save, inputs: "
                               "{images: [d, 0]}}\n  p: {class_type: Save, inputs: {images: [j, 0]}}\n"));
    go(&b);
    CHECK_MSG(b.status == KILN_OK, "%s", b.e.message);
    CHECK_STR(str_text(&b.s.saved), "j([])");
    CHECK(b.s.calls == 3 && b.sum.ran == 6 && b.sum.outputs_done == 2); /* m, j, p */
    CHECK_EQ(b.s.finished, 3);
    finish(&b);
}

/* There is no last item to repeat. */
static void test_an_empty_list_beside_another_runs_nothing(void)
{
    bench b;
    catalog_view c = fake_catalog();
    c.wants = NULL; /* both inputs of the switch are there */
    REQUIRE(start_with(&b,
                       "nodes:\n" BATCHES("m", "0") BATCHES(
                           "k", "3") "  s: {class_type: Switch, inputs: {off: [m, 0], yes: [k, 0]}}\n" SAVE("[s, 0]"),
                       &c));
    go(&b);
    CHECK_MSG(b.status == KILN_OK && !b.s.saved.len && b.s.calls == 2, "%s %s", b.e.message, str_text(&b.s.saved));
    finish(&b);
    REQUIRE(start_with(&b,
                       "nodes:\n" BATCHES("m", "2") BATCHES(
                           "k", "3") "  s: {class_type: Switch, inputs: {off: [m, 0], yes: [k, 0]}}\n" SAVE("[s, 0]"),
                       &c));
    go(&b);
    CHECK_STR(str_text(&b.s.saved), "s(m1 k1) s(m2 k2) s(m2 k3)");
    finish(&b);
}

/* ---- keys ---- */

static size_t keys_of(const char *text, digest *key, bench *b)
{
    if (!start(b, text)) return 0;
    go(b);
    CHECK_MSG(b->status == KILN_OK, "%s", b->e.message);
    memcpy(key, b->s.key, b->s.n_key * sizeof *key);
    size_t n = b->s.n_key;
    finish(b);
    return n;
}

#define NUMBERS(list)                                                                                                  \
    "nodes:\n" NUMBER("n1", "16") NUMBER("n2", "17") NUMBER("n3", "18")                                                \
        LIST("l", list) "  b: {class_type: Blank, inputs: {width: [l, 0]}}\n  j: {class_type: Join, inputs: {images: " \
                        "[b, 0]}}\n" SAVE("[j, 0]")

static void test_a_calls_key_is_what_its_item_is(void)
{
    digest two[CALLS_MAX], three[CALLS_MAX], other[CALLS_MAX];
    bench b;
    REQUIRE(keys_of(NUMBERS("[[n1, 0], [n2, 0]]"), two, &b) == 2);
    REQUIRE(keys_of(NUMBERS("[[n3, 0], [n1, 0], [n2, 0]]"), three, &b) == 3);
    CHECK(digest_equal(two[0], three[1]) && digest_equal(two[1], three[2])); /* wherever in the list it stands */
    CHECK(!digest_equal(three[0], three[1]) && !digest_equal(three[1], three[2]));
    REQUIRE(keys_of("nodes:\n" NUMBER("n1", "16")
                        LIST("l", "[[n1, 0]]") "  b: {class_type: Blank, inputs: {width: [l, 0], height: 32}}\n" SAVE(
                            "[b, 0]"),
                    other, &b) == 2); /* b and o */
    CHECK(!digest_equal(two[0], other[0]));
}

static void test_repeated_and_plain_sources_are_told_apart(void)
{
    digest key[CALLS_MAX];
    bench b;
    size_t n = keys_of(
        "nodes:\n" NUMBER("n1", "16") NUMBER("n2", "17") LIST(
            "l", "[[n1, 0], [n2, 0]]") "  b: {class_type: Blank, inputs: {width: [l, 0], height: [n1, 0]}}\n"
                                       "  c: {class_type: Blank, inputs: {width: [n1, 0], height: [l, 0]}}\n"
                                       "  j: {class_type: Join, inputs: {images: [[b, 0], [c, 0]]}}\n" SAVE("[j, 0]"),
        key, &b);
    REQUIRE(n == 4);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++) CHECK_MSG(!digest_equal(key[i], key[k]), "calls %zu and %zu", i, k);
}

static void test_calls_that_are_there_are_told(void)
{
    digest key[CALLS_MAX];
    bench b;
    REQUIRE(keys_of(NUMBERS("[[n1, 0], [n2, 0]]"), key, &b) == 2);
    REQUIRE(start(&b, NUMBERS("[[n1, 0], [n3, 0], [n2, 0]]")));
    b.s.have = key, b.s.n_have = 2;
    go(&b);
    CHECK(b.s.events == 3 && b.s.fetched == 2 && b.sum.fetched == 0);
    CHECK_STR(str_text(&b.s.saved), "j([b(16x512) b(18x512) b(17x512)])");
    finish(&b);
    REQUIRE(start(&b, NUMBERS("[[n2, 0], [n1, 0]]")));
    b.s.have = key, b.s.n_have = 2;
    go(&b);
    CHECK(b.s.fetched == 2 && b.sum.fetched == 1); /* nothing of it was computed */
    finish(&b);
}

/* Objects and an estimate's shapes have no content to tell them by: they are what made them. */
static void test_values_without_content_are_told_by_their_origin(void)
{
    kiln_value *a = value_object("MODEL", NULL, NULL, "x"), *b = value_object("MODEL", NULL, NULL, "x");
    kiln_value *t = value_shape_new(KILN_F32, 1, (int64_t[]){3}, NULL), *text = value_string("x", 1);
    digest of_a, of_b, d;
    error e = {0};
    value_publish(a), value_publish(b), value_publish(t), value_publish(text);
    CHECK(value_identity(a, &of_a, &e) == KILN_ERR_INVALID && strstr(e.message, "nothing says which value"));
    value_set_origin(a, (digest){1, 2}), value_set_origin(b, (digest){3, 4}), value_set_origin(t, (digest){5, 6});
    value_set_origin(a, (digest){7, 8}); /* the first stays: a value that is handed through keeps its own */
    CHECK(value_identity(a, &of_a, NULL) == KILN_OK && digest_equal(of_a, (digest){1, 2}));
    CHECK(value_identity(b, &of_b, NULL) == KILN_OK && !digest_equal(of_a, of_b));
    CHECK(value_identity(t, &d, NULL) == KILN_OK && digest_equal(d, (digest){5, 6}));
    value_set_origin(text, (digest){9, 9});
    CHECK(value_identity(text, &d, NULL) == KILN_OK && !digest_equal(d, (digest){9, 9})); /* it has content */
    value_unref(a), value_unref(b), value_unref(t), value_unref(text);
}

/* ---- failures ---- */

static void test_a_failure_names_the_item(void)
{
    bench b;
    REQUIRE(start(&b, "nodes:\n" BATCHES("m", "4") DECODE("d", "[m, 0]") SAVE("[d, 0]")));
    b.s.fail_at = 4; /* m, d1, d2, d3 */
    go(&b);
    CHECK_EQ(b.status, KILN_ERR_IO);
    CHECK_STR(b.e.message, "node 'd' cannot (item 3 of 4)");
    CHECK(b.s.events == 2 && b.s.finished == 0 && b.sum.failed == 1 && b.sum.skipped == 1);
    finish(&b);
}

static void test_a_bad_item_for_a_parameter_is_named(void)
{
    bench b;
    REQUIRE(start(
        &b, "nodes:\n" NUMBER("n1", "16") NUMBER("n2", "7")
                LIST("l", "[[n1, 0], [n2, 0]]") "  b: {class_type: Blank, inputs: {width: [l, 0]}}\n" SAVE("[b, 0]")));
    go(&b);
    CHECK_STR(b.e.message,
              "node 'b' (Blank): wired input 'width': '7' is not a whole number from 16 to 16384 (item 2 of 2)");
    finish(&b);
}

static void test_a_cancel_is_heard_between_items(void)
{
    bench b;
    REQUIRE(start(&b, "nodes:\n" BATCHES("m", "9") DECODE("d", "[m, 0]") SAVE("[d, 0]")));
    b.s.cancel_at = 3;
    go(&b);
    CHECK_EQ(b.status, KILN_CANCELLED);
    CHECK(b.s.calls == 3 && b.s.events == 2);
    finish(&b);
}

/* Another node fails meanwhile: with fail_fast no further item is begun. */
static void test_fail_fast_is_heard_between_items(void)
{
    bench b;
    REQUIRE(start(&b, "nodes:\n" BATCHES("m", "9") DECODE("d", "[m, 0]") SAVE("[d, 0]")
                          BATCHES("slow", "1") "  p: {class_type: Save, inputs: {images: [slow, 0]}}\n"));
    run_hooks hooks = {.self = &b.s, .call = call_and_meet, .event = on_event, .item = item, .items = items};
    b.status = run_schedule(&b.o->w, &hooks, &(run_setting){.workers = 2, .fail_fast = 1}, &b.sum, &b.e);
    CHECK_EQ(b.status, KILN_ERR_IO);
    CHECK_MSG(b.s.events == 1 && b.s.finished == 0 && !b.sum.cancelled, "%d items", b.s.events);
    finish(&b);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_a_node_runs_for_each_item),
        CASE(test_a_list_input_takes_them_all),
        CASE(test_shorter_lists_repeat_their_last_item),
        CASE(test_lists_in_lists_are_one),
        CASE(test_an_empty_list_runs_nothing),
        CASE(test_an_empty_list_beside_another_runs_nothing),
        CASE(test_a_calls_key_is_what_its_item_is),
        CASE(test_repeated_and_plain_sources_are_told_apart),
        CASE(test_calls_that_are_there_are_told),
        CASE(test_values_without_content_are_told_by_their_origin),
        CASE(test_a_failure_names_the_item),
        CASE(test_a_bad_item_for_a_parameter_is_named),
        CASE(test_a_cancel_is_heard_between_items),
        CASE(test_fail_fast_is_heard_between_items),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
