/* test_sweep.c - the rows of a sweep: ranges, lists, CSV files, `matrix:`, what they make together, and what is
 * refused. */
#include "base/file.h"
#include "base/memory_alloc.h"
#include "harness.h"
#include "run/merge.h"
#include "run/scheduler.h"
#include "run/sweep.h"
#include "workflow/fake_catalog.h"
#include "workflow/key.h"

#include <stdio.h>
#include <string.h>

static kiln_status make(sweep *s, error *e, const char *a, const char *b)
{
    const char *over[] = {a, b};
    return sweep_make(s, &(sweep_source){.over = over, .n_over = b ? 2 : 1, .path = "flow.yaml"}, e);
}

/* The values of the only axis of one --over, joined by '|'; the message when it was refused. */
static const char *list(const char *over)
{
    static char text[2000];
    sweep s;
    error e = {0};
    text[0] = '\0';
    if (make(&s, &e, over, NULL) != KILN_OK) snprintf(text, sizeof text, "refused: %s", e.message);
    for (size_t i = 0; text[0] != 'r' && s.n_axis && i < s.axis[0].n && strlen(text) < 1500; i++) {
        strcat(text, i ? "|" : "");
        strcat(text, s.axis[0].value[i]);
    }
    sweep_free(&s);
    return text;
}

#define REFUSED(over, part)                                                                                            \
    CHECK_MSG(strncmp(list(over), "refused", 7) == 0 && strstr(list(over), part), "%s -> %s", over, list(over))

static void test_ranges(void)
{
    CHECK_STR(list("x=1..4"), "1|2|3|4");
    CHECK_STR(list("x=1..10..3"), "1|4|7|10");
    CHECK_STR(list("x=1..9..3"), "1|4|7");
    CHECK_STR(list("x=3..1..-1"), "3|2|1");
    CHECK_STR(list("x=-2..1"), "-2|-1|0|1");
    CHECK_STR(list("x=5..5"), "5");
    CHECK_STR(list("x=0.5..1.0..0.1"), "0.5|0.6|0.7|0.8|0.9|1.0"); /* no drift: the last one is there */
    CHECK_STR(list("x=1..1.5..0.25"), "1.00|1.25|1.50");
    CHECK_STR(list("x=-0.5..0.5..0.5"), "-0.5|0.0|0.5");
    CHECK_STR(list("x=1..2,7,9..8..-1"), "1|2|7|9|8");
}

static void test_lists(void)
{
    CHECK_STR(list("x=5,7,9"), "5|7|9");
    CHECK_STR(list("x= 5 , 7 "), "5|7");
    CHECK_STR(list("x=\"a, b\",\"say \"\"c\"\"\",d"), "a, b|say \"c\"|d");
    CHECK_STR(list("x=\"1..3\",\"\""), "1..3|");
    CHECK_STR(list("x=wait...,a..b"), "wait...|a..b");
    CHECK_STR(list("x=a=b"), "a=b");
}

static void test_hostile_lists(void)
{
    REFUSED("x", "NAME=VALUES");
    REFUSED("x=", "NAME=VALUES");
    REFUSED("=1", "NAME=VALUES");
    REFUSED("x=1,,2", "empty");
    REFUSED("x=1,", "empty");
    REFUSED("x=\"a", "quote");
    REFUSED("x=\"a\"b", "quote");
    REFUSED("x=5..1", "negative step");
    REFUSED("x=1..5..-1", "negative step");
    REFUSED("x=1..5..0", "step of 0");
    REFUSED("x=1..x", "no range");
    REFUSED("x=1..", "no range");
    REFUSED("x=1..2..3..4", "no range");
    REFUSED("x=1..1e9", "no range");
    REFUSED("x=1..nan", "no range");
    REFUSED("x=1..inf", "no range");
    REFUSED("x=0.5..1", "needs a step");
    REFUSED("x=1..1000000", "at most 100000");
    REFUSED("x=0..999999999999999999", "at most 100000");
    REFUSED("x=-999999999999999999..999999999999999999..0.1", "too many digits");
    REFUSED("x=1..99999999999999999999", "no range");
    REFUSED("x=1..100000,1", "more than 100000");
    REFUSED("x=@/nowhere/at/all", "/nowhere/at/all");
    REFUSED("x=a\nb", "line break");
    REFUSED("x=\xff\xfe", "UTF-8");
}

static void test_product(void)
{
    sweep s;
    error e = {0};
    set_option set[SWEEP_NAMES_MAX];
    char text[100];
    REQUIRE(make(&s, &e, "seed=1..3", "cfg=5,7") == KILN_OK);
    CHECK_EQ(s.n_row, 6);
    CHECK_EQ(sweep_settings(&s, 3, set), 2);
    CHECK_STR(set[0].name, "seed");
    CHECK_STR(set[0].value, "2");
    CHECK_STR(set[1].value, "7");
    sweep_label(&s, 3, text, sizeof text);
    CHECK_STR(text, "seed=2 cfg=7");
    sweep_label(&s, 3, text, 7);
    CHECK_STR(text, "seed=2");
    CHECK_EQ(sweep_point(&s, 3, 0), 1);
    CHECK_EQ(sweep_point(&s, 3, 1), 1);
    sweep_free(&s);
    CHECK(make(&s, &e, "seed=1..1000", "cfg=1..1000") == KILN_ERR_INVALID && strstr(e.message, "100000 rows"));
    sweep_free(&s);
    e = (error){0};
    CHECK(make(&s, &e, "seed=1", "seed=2") == KILN_ERR_INVALID && strstr(e.message, "already varies"));
    sweep_free(&s);
}

static const char *write_file(const char *text, size_t n)
{
    static char path[600];
    error e = {0};
    snprintf(path, sizeof path, "%s/rows.csv", test_folder());
    return file_write_whole(path, text, n, &e) == KILN_OK ? path : NULL;
}

/* The rows of a CSV text as "name=value name=value|...", or the refusal. */
static const char *rows_of(const char *text, size_t n)
{
    static char out[2000];
    char label[200];
    sweep s;
    error e = {0};
    out[0] = '\0';
    if (sweep_make(&s, &(sweep_source){.over_file = write_file(text, n), .path = "flow.yaml"}, &e) != KILN_OK)
        snprintf(out, sizeof out, "refused: %s", e.message);
    else
        for (size_t i = 0; i < s.n_row && strlen(out) < 1500; i++) {
            sweep_label(&s, i, label, sizeof label);
            strcat(strcat(out, i ? "|" : ""), label);
        }
    sweep_free(&s);
    return out;
}
#define ROWS(text) rows_of(text, sizeof(text) - 1)
#define CSV_REFUSED(text, part)                                                                                        \
    CHECK_MSG(strncmp(ROWS(text), "refused", 7) == 0 && strstr(ROWS(text), part), "%s", ROWS(text))

static void test_csv(void)
{
    CHECK_STR(ROWS("seed,cfg\n1,5\n2,7\n"), "seed=1 cfg=5|seed=2 cfg=7");
    CHECK_STR(ROWS("\xef\xbb\xbfseed, cfg\r\n1,5\r\n\r\n2,7"), "seed=1 cfg=5|seed=2 cfg=7");
    CHECK_STR(ROWS("prompt,seed\n\"a, \"\"b\"\"\nc\",1\n"), "prompt=a, \"b\"\nc seed=1");
    CHECK_STR(ROWS("prompt,seed\n,1\n\"\",2\n"),
              "seed=1|prompt= seed=2");     /* an empty cell leaves it alone, "" is a text */
    CHECK_STR(ROWS("x\n1..3\n"), "x=1..3"); /* a cell is a value, never a range */
}

static void test_hostile_csv(void)
{
    CSV_REFUSED("", "empty");
    CSV_REFUSED("seed\n", "no values");
    CSV_REFUSED("seed,seed\n1,2\n", "twice");
    CSV_REFUSED("seed,\n1,2\n", "no name");
    CSV_REFUSED("seed,cfg\n1\n", ":2: 1 values under 2 names");
    CSV_REFUSED("seed\n1,2\n", ":2: 2 values under 1 names");
    CSV_REFUSED("seed\n\"1\n", "quote");
    CSV_REFUSED("seed\n\"1\"x\n", "quote");
    CSV_REFUSED("se\0ed\n1\n", "not a UTF-8 text");
    CSV_REFUSED("seed\n\xff\n", "not a UTF-8 text");
}

/* ---- with a document ---- */

#define NODES                                                                                                          \
    "nodes:\n  a: {class_type: Sample, inputs: {model: [m, 0], positive: [t, 0], seed: \"${seed}\"}}\n  m: "           \
    "{class_type: Load, inputs: {ckpt: c}}\n"                                                                          \
    "  t: {class_type: Text, inputs: {clip: [m, 1], text: hi}}\n  s: {class_type: Save, inputs: {images: [a, 0]}}\n"

static const char *matrix_rows_of(const char *head, const char *over)
{
    static char out[2000];
    char label[200], text[3000];
    sweep s = {0};
    document d;
    error e = {0};
    snprintf(text, sizeof text, "params: {seed: 1, cfg: 2}\n%s" NODES, head);
    out[0] = '\0';
    if (document_parse(&d, "flow.yaml", text, strlen(text), NULL, 0, &e) != KILN_OK) return "no document";
    if (!d.matrix ||
        sweep_make(&s, &(sweep_source){.matrix = d.matrix, .over = &over, .n_over = over != NULL, .path = "flow.yaml"},
                   &e) != KILN_OK)
        snprintf(out, sizeof out, "refused: %s", e.message);
    else
        for (size_t i = 0; i < s.n_row; i++) {
            sweep_label(&s, i, label, sizeof label);
            strcat(strcat(out, i ? "|" : ""), label);
        }
    sweep_free(&s);
    document_free(&d);
    return out;
}

static void test_matrix(void)
{
    CHECK_STR(matrix_rows_of("matrix: {seed: [1, 2], cfg: [5, 7]}\n", NULL),
              "seed=1 cfg=5|seed=1 cfg=7|seed=2 cfg=5|seed=2 cfg=7");
    CHECK_STR(matrix_rows_of("matrix: {seed: 1..3}\n", NULL), "seed=1|seed=2|seed=3");
    CHECK_STR(matrix_rows_of("matrix: {seed: [1, 2], cfg: [5, 7]}\n", "seed=9"),
              "seed=9 cfg=5|seed=9 cfg=7"); /* --over in the axis' place */
    CHECK_STR(matrix_rows_of("matrix: [{seed: 1, cfg: 5}, {seed: 2}]\n", NULL), "seed=1 cfg=5|seed=2");
    CHECK_STR(matrix_rows_of("matrix: [{seed: 1}, {seed: 2}]\n", "cfg=3,4"),
              "seed=1 cfg=3|seed=1 cfg=4|seed=2 cfg=3|seed=2 cfg=4");
    CHECK(strstr(matrix_rows_of("matrix: [{seed: 1, cfg: 5}, {seed: 2}]\n", "seed=3"), "whole rows"));
    CHECK(strstr(matrix_rows_of("matrix: 5\n", NULL), "flow.yaml:2:9: `matrix`"));
    CHECK(strstr(matrix_rows_of("matrix: []\n", NULL), "`matrix`"));
    CHECK(strstr(matrix_rows_of("matrix: {seed: [[1]]}\n", NULL), "flow.yaml:2:17"));
    CHECK(strstr(matrix_rows_of("matrix: {seed: []}\n", NULL), "no values"));
    CHECK(strstr(matrix_rows_of("matrix: [5]\n", NULL), "a row is a map"));
}

/* ---- merging ---- */

typedef struct {
    document d;
    workflow w;
} part;

static int open_part(part *p, const char *seed, const char *more)
{
    char text[3000];
    error e = {0};
    catalog_view catalog = fake_catalog();
    snprintf(text, sizeof text, "params: {seed: 1}\n" NODES "%s", more);
    return document_parse(&p->d, "flow.yaml", text, strlen(text), &(set_option){.name = "seed", .value = seed}, 1,
                          &e) == KILN_OK &&
           workflow_check(&p->d, &catalog, &p->w, &e) == KILN_OK && p->d.n_fault == 0 &&
           workflow_keys(&p->w, &(key_setting){.device = "cpu", .precision = "f32"}, &e) == KILN_OK;
}

static const graph_node *node_of(const merged *m, size_t p, const char *name)
{
    for (size_t i = 0; i < m->all.n; i++)
        if (m->part_of[i] == p && strcmp(m->all.node[i].doc->name, name) == 0) return &m->all.node[i];
    return NULL;
}

typedef struct {
    const merged *m;
    const char *name;
    int calls;
} counted;

static kiln_status count_call(void *self, size_t i, const void *params, kiln_value *const *in, kiln_value **out,
                              error *e)
{
    counted *c = self;
    const graph_node *g = &c->m->all.node[i];
    (void)params, (void)in, (void)e;
    c->calls += strcmp(g->doc->name, c->name) == 0;
    for (uint32_t k = 0; k < g->type->n_out; k++)
        out[k] = strcmp(g->type->type, "Random") == 0 ? value_int(64) : value_map();
    return KILN_OK;
}

/* How often a run of the merged workflow calls nodes of this name. */
static int calls_of(const merged *m, const char *name)
{
    counted c = {m, name, 0};
    run_summary sum;
    error e = {0};
    run_setting setting = {.workers = 2, .part_of = m->part_of};
    kiln_status status = run_schedule(&m->all, &(run_hooks){.self = &c, .call = count_call}, &setting, &sum, &e);
    CHECK_MSG(status == KILN_OK, "%s", e.message);
    return c.calls;
}

static void test_merge_shifts_and_keeps_keys(void)
{
    char file[600];
    part p[2] = {0};
    merged m;
    error e = {0};
    fake_files_folder = test_folder();
    snprintf(file, sizeof file, "%s/c", fake_files_folder);
    REQUIRE(file_write_whole(file, "c", 1, &e) == KILN_OK);
    const char *impure = "  r: {class_type: Random}\n  j: {class_type: Blank, inputs: {width: [r, 0]}}\n  z: "
                         "{class_type: Save, inputs: {images: [j, 0]}}\n";
    REQUIRE(open_part(&p[0], "1", impure) && open_part(&p[1], "2", impure));
    const workflow *parts[] = {&p[0].w, &p[1].w};
    REQUIRE(workflow_merge(&m, parts, 2, &e) == KILN_OK);
    CHECK_EQ(m.all.n, 14);
    CHECK_EQ(m.first[1], 7);
    for (size_t i = 0; i < 7; i++) CHECK_EQ(m.all.order[i + 7], p[1].w.order[i] + 7);
    CHECK(digest_equal(node_of(&m, 0, "t")->key, node_of(&m, 1, "t")->key));  /* shared */
    CHECK(!digest_equal(node_of(&m, 0, "a")->key, node_of(&m, 1, "a")->key)); /* another seed */
    CHECK(digest_equal(node_of(&m, 0, "j")->key, p[0].w.node[5].key));        /* as the row alone has it */
    CHECK(digest_equal(node_of(&m, 0, "j")->key, node_of(&m, 1, "j")->key));
    CHECK_EQ(calls_of(&m, "t"), 1); /* equal keys that say everything: once for both rows */
    CHECK_EQ(calls_of(&m, "j"), 2); /* what hangs on an impure node: once a row */
    const graph_node *a = node_of(&m, 1, "a");
    CHECK(m.all.node[a->in[0].from[0].node].doc == p[1].w.node[p[1].w.node[0].in[0].from[0].node].doc);
    CHECK_EQ(p[1].w.node[0].in[0].from[0].node, 1); /* the part itself is as it was */
    merged_free(&m);
    for (int64_t k = 0; k < 30; k++) { /* without memory: an error, nothing lost */
        mem_fail_at(k, 1);
        kiln_status status = workflow_merge(&m, parts, 2, &e);
        mem_fail_at(-1, 0);
        if (status == KILN_OK) merged_free(&m);
        CHECK(status == KILN_OK || m.all.n == 0);
    }
    document_free(&p[0].d), document_free(&p[1].d);
}

static void test_every_allocation_may_fail(void)
{
    for (int64_t k = 0; k < 200; k++) {
        sweep s;
        error e = {0};
        mem_fail_at(k, 0);
        kiln_status status = make(&s, &e, "seed=1..100", "prompt=\"a\",b");
        mem_fail_at(-1, 0);
        CHECK(status == KILN_OK ? s.n_row == 200 : status == KILN_ERR_NOMEM);
        sweep_free(&s);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_ranges),
                                      CASE(test_lists),
                                      CASE(test_hostile_lists),
                                      CASE(test_product),
                                      CASE(test_csv),
                                      CASE(test_hostile_csv),
                                      CASE(test_matrix),
                                      CASE(test_merge_shifts_and_keeps_keys),
                                      CASE(test_every_allocation_may_fail)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
