/* test_wired_params.c - a value that comes by wire while a workflow runs is taken, and refused, as the same value is
 * that stands in the file: for a parameter of each type. */
#include "harness.h"
#include "param/param_rows_kit.h"
#include "plugin/abilities.h"
#include "run/scheduler.h"
#include "tensor/value.h"
#include "workflow/key.h"

#include <stdio.h>

enum { PLAIN_N = EVERY_N - 1 }; /* without the file, which cannot be wired */

static const kiln_port any_out[] = {{.name = "any", .type = "*"}};
static const kiln_node give = {
    .size = sizeof give, .type = "Give", .revision = 1, .devices = KILN_CPU, KILN_ARRAY(out, any_out)};
static const kiln_node take = {.size = sizeof take,
                               .type = "Take",
                               .revision = 1,
                               .devices = KILN_CPU,
                               .flags = KILN_NODE_OUTPUT,
                               .param = every_row,
                               .n_param = PLAIN_N,
                               .param_stride = sizeof *every_row,
                               .params_size = sizeof(every_type)};

static const kiln_node *find(void *self, const char *type, digest *identity)
{
    (void)self;
    *identity = (digest){1, 2};
    return strcmp(type, "Give") == 0 ? &give : strcmp(type, "Take") == 0 ? &take : NULL;
}
static const char *type_at(void *self, size_t i) { return (void)self, i ? "Take" : "Give"; }

static kiln_status never_run(const kiln_sampling *s) { return s ? KILN_ERR_BUG : KILN_ERR_INVALID; }
static const kiln_sampler samplers[] = {{.size = sizeof(kiln_sampler), .name = "euler", .run = never_run},
                                        {.size = sizeof(kiln_sampler), .name = "heun", .run = never_run}};

typedef struct {
    const workflow *w;
    kiln_value *given;
    every_type taken;
    char sampler[64], text[64]; /* what the struct pointed to, as long as the call was */
} run;

static kiln_status call(void *self, size_t i, const void *params, kiln_value *const *in, kiln_value **out, error *e)
{
    run *r = self;
    (void)in, (void)e;
    if (r->w->node[i].type->n_out) {
        out[0] = value_ref(r->given);
        return KILN_OK;
    }
    memcpy(&r->taken, params, sizeof r->taken);
    snprintf(r->sampler, sizeof r->sampler, "%s", r->taken.sampler);
    snprintf(r->text, sizeof r->text, "%s", r->taken.text);
    return KILN_OK;
}

/* Runs a node `t` with `param` as it is written or (given) wired. said: why it was refused, "" when it was not. */
static void run_with(run *r, const char *param, const char *written, kiln_value *given, char said[1200])
{
    char text[600];
    error e = {0};
    document d;
    workflow w;
    run_summary sum;
    key_setting on = {.device = "cpu", .precision = "f32"};
    catalog_view catalog = {.find = find, .n_type = 2, .type_at = type_at, .name_at = registry_names.name_at};
    *r = (run){.w = &w, .given = given};
    said[0] = '\0';
    snprintf(text, sizeof text, "nodes:\n  g: {class_type: Give}\n  t: {class_type: Take, inputs: {%s: %s}}\n", param,
             given ? "[g, 0]" : written);
    REQUIRE(document_parse(&d, "f", text, strlen(text), NULL, 0, &e) == KILN_OK);
    REQUIRE(workflow_check(&d, &catalog, &w, &e) == KILN_OK);
    if (d.n_fault) snprintf(said, 1200, "%s", d.faults->text);
    if (!d.n_fault && CHECK(workflow_keys(&w, &on, &e) == KILN_OK))
        run_schedule(&w, &(run_hooks){.self = r, .call = call}, &(run_setting){.workers = 1}, &sum, &e);
    if (e.message[0]) snprintf(said, 1200, "%s", e.message);
    document_free(&d);
    value_unref(given);
}

/* What follows "input 'NAME': ", which the messages of both have. */
static const char *reason(const char *said)
{
    const char *at = strstr(said, "input '");
    at = at ? strstr(at, "': ") : NULL;
    return at ? at + 3 : said;
}

static void test_wired_equals_written(void)
{
    struct {
        const char *param, *written;
        kiln_value *wired;
        int refused;
    } cases[] = {
        {"flag", "false", value_bool(0), 0},
        {"flag", "1", value_int(1), 1},
        {"flag", "\"true\"", value_string("true", 4), 1},
        {"steps", "12", value_int(12), 0},
        {"steps", "20.0", value_float(20), 0},
        {"steps", "20.5", value_float(20.5), 1},
        {"steps", "10001", value_int(10001), 1},
        {"steps", "-6", value_float(-6), 1},
        {"steps", "true", value_bool(1), 1},
        {"steps", "\"12\"", value_string("12", 2), 1},
        {"width", "100", value_int(100), 0},
        {"seed", "9007199254740993", value_int(9007199254740993), 0},
        {"seed", "5.0", value_float(5), 0},
        {"seed", "5.5", value_float(5.5), 1},
        {"cfg", "7", value_int(7), 0},
        {"cfg", "0.1", value_float(0.1), 0},
        {"cfg", "100.5", value_float(100.5), 1},
        {"cfg", "\"7\"", value_string("7", 1), 1},
        {"mode", "fine", value_string("fine", 4), 0},
        {"mode", "fien", value_string("fien", 4), 1},
        {"mode", "x", value_string("x", 1), 1},
        {"sampler", "heun", value_string("heun", 4), 0},
        {"sampler", "heum", value_string("heum", 4), 1},
        {"sampler", "\"\"", value_string("", 0), 1},
        {"text", "\"12\"", value_string("12", 2), 0},
        {"text", "-3", value_int(-3), 0},
        {"text", "true", value_bool(1), 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        run by_file, by_wire;
        char file_said[1200], wire_said[1200];
        run_with(&by_file, cases[i].param, cases[i].written, NULL, file_said);
        run_with(&by_wire, cases[i].param, NULL, cases[i].wired, wire_said);
        CHECK_MSG((file_said[0] != '\0') == cases[i].refused, "%s: %s: '%s'", cases[i].param, cases[i].written,
                  file_said);
        CHECK_MSG(strcmp(reason(file_said), reason(wire_said)) == 0, "%s: %s: written '%s', wired '%s'", cases[i].param,
                  cases[i].written, file_said, wire_said);
        by_file.taken.sampler = by_wire.taken.sampler = by_file.taken.text = by_wire.taken.text = NULL;
        CHECK_MSG(memcmp(&by_file.taken, &by_wire.taken, sizeof(every_type)) == 0 &&
                      strcmp(by_file.sampler, by_wire.sampler) == 0 && strcmp(by_file.text, by_wire.text) == 0,
                  "%s: %s is another value when wired", cases[i].param, cases[i].written);
    }
}

static void test_refused_with_the_place(void)
{
    run r;
    char said[1200];
    run_with(&r, "steps", NULL, value_float(2.5), said);
    CHECK_STR(said, "node 't' (Take): wired input 'steps': '2.5' is not a whole number from -5 to 10000");
    run_with(&r, "steps", NULL, value_list(), said);
    CHECK_STR(said, "node 't' (Take): wired input 'steps': a value with parts is not a whole number from -5 to 10000");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_wired_equals_written), CASE(test_refused_with_the_place)};
    registry_owner_set("org.test", NULL);
    int ready = 1;
    for (size_t i = 0; i < 2; i++) ready &= sampler_api.register_sampler(&samplers[i]) == KILN_OK;
    registry_owner_set(NULL, NULL);
    return ready ? test_main(argc, argv, cases, sizeof cases / sizeof cases[0]) : 2;
}
