/* test_editor_hostile.c - malformed and hostile files of ComfyUI's editor: each is refused with a sentence at its
 * place, or read for what it says; none takes long, and none of the ways to damage a sound one does more than that.
 */
#include "base/memory_alloc.h"
#include "base/str.h"
#include "harness.h"
#include "workflow/fake_catalog.h"

#include <stdlib.h>
#include <time.h>

typedef struct {
    const char *text, *at, *part;
    size_t n; /* faults in all */
} hostile;

/* A sound file, of which the pieces are left out or damaged below: Load -> Text -> Sample -> Save. */
#define LOAD "{\"id\": 1, \"type\": \"Load\", \"widgets_values\": [\"c\"]}"
#define TEXT(clip)                                                                                                     \
    "{\"id\": 2, \"type\": \"Text\", \"inputs\": [{\"name\": \"clip\", \"type\": \"CLIP\", \"link\": " clip            \
    "}], \"widgets_values\": [\"words\"]}"
#define SAMPLE                                                                                                         \
    "{\"id\": 3, \"type\": \"Sample\", \"inputs\": [{\"name\": \"model\", \"link\": 2}, {\"name\": \"positive\", "     \
    "\"link\": 3}], \"widgets_values\": "                                                                              \
    "[5, \"fixed\", 20, 7.5, \"euler\", \"normal\", true, 0]}"
#define SAVE                                                                                                           \
    "{\"id\": 4, \"type\": \"Save\", \"inputs\": [{\"name\": \"images\", \"link\": 4}], \"widgets_values\": [\"x\"]}"
#define LINKS                                                                                                          \
    "[1, 1, 1, 2, 0, \"CLIP\"], [2, 1, 0, 3, 0, \"MODEL\"], [3, 2, 0, 3, 1, \"COND\"], [4, 3, 0, 4, 0, \"IMAGE\"]"
#define FILE_OF(nodes, links) "{\"nodes\": [" nodes "], \"links\": [" links "]}"
#define REST SAMPLE ", " SAVE

static const hostile table[] = {
    /* ---- what a file is made of ---- */
    {"{\"nodes\": [], \"links\": []}", "1:1", "there are no nodes", 1},
    {"{\"nodes\": [], \"links\": 5}", "1:24", "`links` must be a list", 1},
    {FILE_OF("7", LINKS), "1:12", "a node must be a map with an `id` and a `type`", 1},
    {FILE_OF("[]", LINKS), "1:12", "a node must be a map with an `id` and a `type`", 1},
    {FILE_OF("{\"id\": 1}", LINKS), "1:12", "a node must be a map with an `id` and a `type`", 1},
    {FILE_OF("{\"id\": [1], \"type\": \"Load\"}", LINKS), "1:12", "a node must be a map with an `id` and a `type`", 1},
    {FILE_OF("{\"id\": 1, \"type\": null}", LINKS), "1:12", "a node must be a map with an `id` and a `type`", 1},
    {FILE_OF("{\"id\": 1, \"type\": \"Load\", \"inputs\": {}}", LINKS), "1:48", "`inputs` must be a list", 1},
    {FILE_OF("{\"id\": 1, \"type\": \"Load\", \"inputs\": [3]}", LINKS), "1:49",
     "an input or output must be a map with a `name`", 1},
    {FILE_OF("{\"id\": 1, \"type\": \"Load\", \"widgets_values\": \"c\"}", LINKS), "1:56",
     "`widgets_values` must be a list of values", 1},
    {FILE_OF(LOAD ", {\"id\": \"1\", \"type\": \"Load\"}", LINKS), "1:64", "two nodes have the id 1", 1},
    /* ---- links ---- */
    {FILE_OF(LOAD ", " TEXT("1") ", " REST, LINKS ", 9"), "1:558", "a link is [id, node, output, node, input, type]",
     1},
    {FILE_OF(LOAD ", " TEXT("1") ", " REST, LINKS ", [9, 1]"), "1:558",
     "a link is [id, node, output, node, input, type]", 1},
    {FILE_OF(LOAD ", " TEXT("1") ", " REST, LINKS ", {\"id\": 9, \"origin_id\": 1}"), "1:558",
     "or a map with `id`, `origin_id` and `origin_slot`", 1},
    {FILE_OF(LOAD ", " TEXT("1") ", " REST, LINKS ", [9, 1, -1, 2, 0, \"CLIP\"]"), "1:558", "a link is", 1},
    {FILE_OF(LOAD ", " TEXT("1") ", " REST, LINKS ", [9, 1, 99999999999999999999, 2, 0, \"CLIP\"]"), "1:558",
     "a link is", 1},
    {FILE_OF(LOAD ", " TEXT("1") ", " REST, LINKS ", [1, 2, 0, 3, 0, \"CLIP\"]"), "1:558", "two links have the id 1",
     1},
    {FILE_OF(LOAD ", " TEXT("77") ", " REST, LINKS), "1:101",
     "node '2' (Text): input 'clip' has a link that is not in the file: '77'", 1},
    {FILE_OF(TEXT("1") ", " REST, LINKS), "1:404", "input 'clip' is linked to a node that is not in the file: '1'", 2},
    {FILE_OF(LOAD ", " TEXT("null") ", " REST, LINKS), "1:64", "node '2' (Text): input 'clip' is missing; wire it", 1},
    {FILE_OF(LOAD ", " TEXT("1") ", " REST, "[1, 1, 7, 2, 0, \"\"], " LINKS), "1:477", "two links have the id 1", 1},
    /* ---- types and values ---- */
    {FILE_OF("{\"id\": 1, \"type\": \"Laod\", \"outputs\": [{\"name\": \"x\"}], \"properties\": {\"cnr_id\": \"pack\", "
             "\"ver\": \"1.2\"}}, "
             "{\"id\": 5, \"type\": \"Laod\", \"outputs\": [{\"name\": \"x\"}]}, " TEXT("1") ", " REST,
             LINKS),
     "1:30", "node '1' (Laod): kiln has no node of this type (there are 2 of them); the file says it is of pack 1.2",
     1},
    {FILE_OF("{\"id\": 1, \"type\": \"workflow/Mine\", \"outputs\": [{\"name\": \"x\"}]}, " TEXT("1") ", " REST, LINKS),
     "1:30", "convert them to subgraphs in the editor", 1},
    {FILE_OF("{\"id\": 1, \"type\": \"Load\", \"widgets_values\": [\"absent\"]}, {\"id\": 9, \"type\": \"Laod\", "
             "\"inputs\": [{\"name\": \"a\"}]}, " TEXT("1") ", " REST,
             LINKS),
     "1:57", "node '1' (Load): no file 'absent' for checkpoints", 2},
    {FILE_OF("{\"id\": 1, \"type\": \"Laod\", \"outputs\": [{\"name\": \"x\"}], \"widgets_values\": [1, \"absent\"], "
             "\"properties\": {\"models\": [{\"name\": "
             "\"absent\", \"url\": \"https://x/y\", \"directory\": \"loras\"}, {\"name\": \"other\", \"directory\": "
             "\"loras\"}, 7]}}, " TEXT("1") ", " REST,
             LINKS),
     "1:134", "node '1' (Laod): no file 'absent' for loras; the workflow has it from https://x/y", 2},
    {FILE_OF("{\"id\": 1, \"type\": \"Load\", \"widgets_values\": [\"absent\"], \"properties\": {\"models\": "
             "[{\"name\": \"absent\", \"url\": \"https://x/y\"}]}}, " TEXT("1") ", " REST,
             LINKS),
     "1:57", "input 'ckpt': no file 'absent' for checkpoints; the workflow has it from https://x/y", 1},
    {FILE_OF(LOAD ", " TEXT("1") ", {\"id\": 3, \"type\": \"Sample\", \"inputs\": [{\"name\": \"model\", \"link\": 2}, "
                                 "{\"name\": \"positive\", \"link\": 3}], \"widgets_values\": "
                                 "[5, 20, 7.5, \"euler\"]}, " SAVE,
             LINKS),
     "1:311", "input 'cfg': the text \"euler\" is not a number", 2},
    {FILE_OF(LOAD ", " TEXT("1") ", {\"id\": 3, \"type\": \"Sample\", \"inputs\": [{\"name\": \"model\", \"link\": 2}, "
                                 "{\"name\": \"positive\", \"link\": 3}], \"widgets_values\": "
                                 "[5, \"fixed\", [20, 0]]}, " SAVE,
             LINKS),
     "1:311", "input 'steps' takes a whole number from 1 to 10000, not a list or map", 1},
    /* ---- subgraphs ---- */
    {"{\"nodes\": [], \"links\": [], \"definitions\": {\"subgraphs\": [3]}}", "1:58",
     "a subgraph must be a map with an `id`", 1},
    {"{\"nodes\": [], \"links\": [], \"definitions\": {\"subgraphs\": [{\"id\": \"a\"}, {\"id\": \"a\"}]}}", "1:1",
     "two subgraphs have the id a", 1},
    {"{\"nodes\": [{\"id\": 1, \"type\": \"a\"}], \"links\": [], \"definitions\": {\"subgraphs\": [{\"id\": \"a\", "
     "\"name\": \"A\", \"nodes\": [{\"id\": 1, \"type\": \"a\"}]}]}}",
     "1:115", "subgraph \"A\" is more than 16 deep, or contains itself", 1},
    {"{\"nodes\": [], \"links\": [], \"definitions\": {\"subgraphs\": [{\"id\": \"a\", \"inputs\": [1]}]}}", "1:81",
     "`inputs`: each must be a map with a `name`", 1},
    /* ---- reroutes in a circle; nothing but what they feed is missing ---- */
    {"{\"nodes\": [{\"id\": 1, \"type\": \"Reroute\", \"inputs\": [{\"name\": \"\", \"link\": 1}]}, {\"id\": 2, "
     "\"type\": \"Save\", \"inputs\": [{\"name\": \"images\", \"link\": 2}]}], "
     "\"links\": [[1, 1, 0, 1, 0, \"*\"], [2, 1, 0, 2, 0, \"*\"]]}",
     "1:116", "input 'images' goes in a circle of reroutes or bypassed nodes", 1},
    {"{\"nodes\": [{\"id\": 1, \"type\": \"Decode\", \"mode\": 4, \"inputs\": [{\"name\": \"images\", \"link\": 1}]}, "
     "{\"id\": 2, \"type\": \"Save\", \"inputs\": [{\"name\": \"images\", \"link\": 2}]}], "
     "\"links\": [[1, 1, 0, 1, 0, \"*\"], [2, 1, 0, 2, 0, \"*\"]]}",
     "1:132", "input 'images' goes in a circle of reroutes or bypassed nodes", 1},
    {"{\"nodes\": [{\"id\": 1, \"type\": \"SetNode\", \"widgets_values\": [\"a\"], \"inputs\": [{\"name\": \"\", "
     "\"link\": 1}]}, {\"id\": 3, \"type\": \"GetNode\", \"widgets_values\": [\"a\"]}, "
     "{\"id\": 2, \"type\": \"Save\", \"inputs\": [{\"name\": \"images\", \"link\": 1}]}], \"links\": [[1, 3, 0, 1, 0, "
     "\"*\"]]}",
     "1:196", "goes in a circle", 1},
};

typedef struct {
    const hostile *row;
    int found;
    str said;
} search;

static void look(void *arg, const char *text, int is_warning)
{
    search *s = arg;
    char start[64];
    if (is_warning) return;
    snprintf(start, sizeof start, strchr(s->row->at, ':')[1] ? "t.json:%s: " : "t.json:%s", s->row->at);
    s->found |= strncmp(text, start, strlen(start)) == 0 && strstr(text, s->row->part) != NULL;
    str_printf(&s->said, "      %s\n", text);
}

/* Reads and checks; the number of faults. What they say goes to look(). */
static size_t faults_of(const char *text, size_t size, search *s)
{
    error e = {0};
    document d;
    workflow w;
    catalog_view catalog = fake_catalog();
    const document_source from = {.name = "t.json", .data = text, .size = size, .catalog = &catalog};
    kiln_status status = document_read(&d, &from, &e);
    if (status != KILN_OK) {
        if (s) look(s, e.message, 0);
        return 1;
    }
    CHECK_EQ(workflow_check(&d, &catalog, &w, &e), KILN_OK);
    if (s) document_print_faults(&d, look, s);
    size_t n = d.n_fault;
    document_free(&d);
    return n;
}

static void check_row(const hostile *row)
{
    search s = {.row = row};
    size_t n = faults_of(row->text, strlen(row->text), &s);
    CHECK_MSG(s.found && n == row->n, "%.300s\n    wanted %zu, one at %s with \"%s\"; said %zu:\n%s", row->text, row->n,
              row->at, row->part, n, str_text(&s.said));
    str_free(&s.said);
}

static void test_hostile_table(void)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) check_row(&table[i]);
}

static const char sound[] = FILE_OF(LOAD ", " TEXT("1") ", " REST, LINKS);

static void test_the_sound_one_is(void) { CHECK_EQ(faults_of(sound, sizeof sound - 1, NULL), 0); }

/* ---- a file with everything in it, damaged in every way ---- */

static const char everything[] =
    "{\"nodes\": [" LOAD ", " SAMPLE ", " SAVE ", {\"id\": 5, \"type\": \"Reroute\", \"inputs\": [{\"name\": \"\", "
    "\"link\": 5}]}, {\"id\": 6, \"type\": \"sub\", \"mode\": 0, "
    "\"inputs\": [{\"name\": \"clip\", \"type\": \"CLIP\", \"link\": 1}, {\"name\": \"words\", \"type\": \"STRING\", "
    "\"widget\": {\"name\": \"words\"}, \"link\": 8}], "
    "\"outputs\": [{\"name\": \"out\", \"type\": \"COND\", \"links\": [3]}], \"widgets_values\": [\"a\", 1], "
    "\"properties\": {\"proxyWidgets\": [[\"-1\", \"words\"], "
    "[2, \"text\"], [3, \"2: text\", \"2\"]], \"proxyWidgetErrorQuarantine\": [{\"originalEntry\": [\"-1\", "
    "\"words\"], \"hostValue\": 5}], \"models\": [{\"name\": \"a\"}]}}, "
    "{\"id\": 7, \"type\": \"GetNode\", \"widgets_values\": [\"k\"]}, {\"id\": 8, \"type\": \"SetNode\", "
    "\"widgets_values\": [\"k\"], \"inputs\": [{\"name\": \"\", \"link\": 6}]}, "
    "{\"id\": 9, \"type\": \"PrimitiveNode\", \"widgets_values\": [\"w\", \"fixed\"]}, {\"id\": 10, \"type\": "
    "\"Join\", \"mode\": 4, \"inputs\": [{\"name\": \"images.a\", "
    "\"link\": 7}, {\"name\": \"images.b\", \"link\": null}]}, {\"id\": 11, \"type\": \"Note\"}, {\"id\": 12, "
    "\"type\": \"Random\", \"mode\": 2}], \"links\": [[1, 5, 0, 6, 0, "
    "\"CLIP\"], [2, 1, 0, 3, 0, \"MODEL\"], {\"id\": 3, \"origin_id\": 6, \"origin_slot\": 0}, [4, 10, 0, 4, 0, "
    "\"IMAGE\"], [5, 7, 0, 5, 0, \"*\"], [6, 1, 1, 8, 0, \"CLIP\"], "
    "[7, 3, 0, 10, 0, \"IMAGE\"], [8, 9, 0, 6, 1, \"STRING\"]], \"definitions\": {\"subgraphs\": [{\"id\": \"sub\", "
    "\"name\": \"Sub\", \"inputs\": [{\"name\": \"clip\", "
    "\"linkIds\": [1]}, {\"name\": \"words\", \"linkIds\": [2]}], \"outputs\": [{\"name\": \"out\", \"linkIds\": "
    "[3]}], \"nodes\": [{\"id\": 2, \"type\": \"Text\", \"inputs\": "
    "[{\"name\": \"clip\", \"link\": 1}, {\"name\": \"text\", \"widget\": {\"name\": \"text\"}, \"link\": 2}], "
    "\"widgets_values\": [\"own\"]}], \"links\": [{\"id\": 1, "
    "\"origin_id\": -10, \"origin_slot\": 0}, {\"id\": 2, \"origin_id\": -10, \"origin_slot\": 1}, {\"id\": 3, "
    "\"origin_id\": 2, \"origin_slot\": 0}]}]}}";

/* The end of the value that begins at p: of a list or a map its bracket. */
static const char *end_of(const char *p)
{
    int depth = 0, inside = 0;
    for (; *p; p++) {
        if (*p == '"') inside = !inside;
        if (inside) continue;
        if (*p == '[' || *p == '{') depth++;
        if ((*p == ']' || *p == '}') && --depth <= 0) return depth < 0 ? p : p + 1;
        if (*p == ',' && depth == 0) return p;
    }
    return p;
}

static void test_every_value_replaced(void)
{
    static const char *const other[] = {
        "null", "[]",    "{}", "-1",  "\"x\"", "18446744073709551616", "[[[1, 2, 3, 4, 5, 6]]]", "{\"name\": [1]}",
        "true", "1e999", "2",  "\"\""};
    size_t tried = 0;
    CHECK_EQ(faults_of(everything, sizeof everything - 1, NULL), 0);
    for (const char *p = everything + 1; *p; p++) {
        if (p[-1] != ' ' && p[-1] != '[') continue;
        const char *end = end_of(p);
        for (size_t k = 0; k < sizeof other / sizeof other[0]; k++) {
            str s = {0};
            str_append_n(&s, everything, (size_t)(p - everything));
            str_append(&s, other[k]), str_append(&s, end);
            faults_of(str_text(&s), s.len, NULL);
            str_free(&s);
            tried++;
        }
    }
    CHECK_MSG(tried > 2000, "%zu", tried);
}

static void test_cut_off_everywhere(void)
{
    for (size_t n = 1; n < sizeof everything - 1; n++) {
        char *exact = malloc(n); /* so that a sanitizer sees a read past the end */
        REQUIRE(exact != NULL);
        memcpy(exact, everything, n);
        CHECK_MSG(faults_of(exact, n, NULL) > 0, "sound when cut off after %zu bytes", n);
        free(exact);
    }
}

static void test_every_allocation_may_fail(void)
{
    int64_t k = 0;
    for (int done = 0; !done && k < 3000; k++) {
        error e = {0};
        document d;
        catalog_view catalog = fake_catalog();
        const document_source from = {
            .name = "t", .data = everything, .size = sizeof everything - 1, .catalog = &catalog};
        mem_fail_at(k, 1);
        kiln_status status = document_read(&d, &from, &e);
        done = mem_count() <= k;
        mem_fail_at(-1, 0);
        if (status == KILN_OK)
            CHECK_MSG(d.n_fault == 0, "allocation %lld: %zu faults", (long long)k, d.n_fault);
        else
            CHECK_MSG(status == KILN_ERR_NOMEM && strstr(e.message, "out of memory"), "allocation %lld: %s",
                      (long long)k, e.message);
        if (status == KILN_OK) document_free(&d);
    }
    CHECK(k > 10 && k < 3000);
}

/* ---- too large ---- */

static void check_large(str *s, const char *at, const char *part)
{
    hostile row = {.at = at, .part = part};
    search found = {.row = &row};
    clock_t from = clock();
    faults_of(str_text(s), s->len, &found);
    double seconds = (double)(clock() - from) / CLOCKS_PER_SEC;
    CHECK_MSG(found.found, "wanted %s with \"%s\", said %.1000s", at, part, str_text(&found.said));
    CHECK_MSG(seconds < 20, "%.1f seconds", seconds);
    str_free(&found.said), str_free(s);
}

/* 9,000 reroutes in a row, and 20,000 nodes behind them. */
static void test_long_ways_many_times(void)
{
    str s = {0};
    str_append(&s, "{\"links\": [[\"first\", \"b\", 0, 0, 0, \"\"]");
    for (int i = 0; i < 9000; i++) str_printf(&s, ",[%d,%d,0,0,0,\"\"]", i, i);
    str_append(&s, "], \"nodes\": [{\"id\": \"b\", \"type\": \"Blank\"}");
    str_append(&s, ",{\"id\":0,\"type\":\"Reroute\",\"inputs\":[{\"name\":\"\",\"link\":\"first\"}]}");
    for (int i = 1; i < 9000; i++)
        str_printf(&s, ",{\"id\":%d,\"type\":\"Reroute\",\"inputs\":[{\"name\":\"\",\"link\":%d}]}", i, i - 1);
    for (int i = 0; i < 20000; i++)
        str_printf(&s, ",{\"id\":\"s%d\",\"type\":\"Save\",\"inputs\":[{\"name\":\"images\",\"link\":8999}]}", i);
    str_append(&s, "]}");
    check_large(&s, "1:1", "take more than 20000000 steps to follow");
}

/* Each of 14 subgraphs holds the next one three times, side by side. */
static void test_subgraphs_that_multiply(void)
{
    str s = {0};
    str_append(&s, "{\"nodes\": [{\"id\": 1, \"type\": \"g0\"}], \"links\": [], \"definitions\": {\"subgraphs\": [");
    for (int i = 0; i < 14; i++)
        str_printf(&s,
                   "%s{\"id\": \"g%d\", \"nodes\": [{\"id\": 1, \"type\": \"g%d\"}, {\"id\": 2, \"type\": \"g%d\"}, "
                   "{\"id\": 3, \"type\": \"g%d\"}]}",
                   i ? "," : "", i, i + 1, i + 1, i + 1);
    str_append(&s, ", {\"id\": \"g14\", \"nodes\": [{\"id\": 1, \"type\": \"Blank\"}]}]}}");
    check_large(&s, "1:", "all subgraphs expanded, there are more than 100000 nodes");
}

static void test_too_many_nodes(void)
{
    str s = {0};
    str_append(&s, "{\"links\": [], \"nodes\": [0");
    for (int i = 0; i < 100001; i++) str_append(&s, ",0");
    str_append(&s, "]}");
    check_large(&s, "1:24", "100002 nodes; at most 100000 are allowed");
}

static void test_deep(void)
{
    str s = {0};
    str_append(&s, "{\"nodes\": [], \"links\": [], \"definitions\": ");
    for (int i = 0; i < 60; i++) str_append(&s, "{\"subgraphs\": [{\"definitions\": ");
    check_large(&s, "1:694", "nested deeper than 64 levels");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_hostile_table),
                                      CASE(test_the_sound_one_is),
                                      CASE(test_every_value_replaced),
                                      CASE(test_cut_off_everywhere),
                                      CASE(test_every_allocation_may_fail),
                                      CASE(test_long_ways_many_times),
                                      CASE(test_subgraphs_that_multiply),
                                      CASE(test_too_many_nodes),
                                      CASE(test_deep)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
