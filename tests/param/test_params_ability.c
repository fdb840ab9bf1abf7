/* test_params_ability.c - "kiln.params/1" as a plugin has it: a struct of its own filled from a map and from text, put
 * into a map again, and every refusal with its sentence. */
#include "base/memory_alloc.h"
#include "harness.h"
#include "kiln/kit.h"
#include "param/param_rows_kit.h"
#include "plugin/abilities.h"
#include "plugin/ctx.h"
#include "tensor/value.h"

#include <stdio.h>

enum { PLAIN_N = EVERY_N - 1 }; /* without the file, which stands last */

static kiln_status never_run(const kiln_sampling *s) { return s ? KILN_ERR_BUG : KILN_ERR_INVALID; }
static const kiln_sampler euler = {.size = sizeof euler, .name = "euler", .run = never_run};

static const kiln_params_api *api(void)
{
    const kiln_params_api *a = engine_host.ability(KILN_PARAMS_ABILITY);
    CHECK(a && KILN_HAS(kiln_params_api, a, nearest));
    return a;
}

static kiln_param_table table(void)
{
    return (kiln_param_table){.size = sizeof(kiln_param_table),
                              .noun = "setting",
                              .owner = "guider 'slow'",
                              .param = every_row,
                              .n_param = PLAIN_N,
                              .param_stride = sizeof *every_row,
                              .params_size = sizeof(every_type)};
}

typedef struct {
    kiln_ctx ctx;
    kiln_value *map;
    every_type got;
} call;

static call begin(void)
{
    return (call){.ctx = {.node_name = "n", .node_type = "Test", .plugin = "test"}, .map = value_map()};
}

static void end(call *c)
{
    value_unref(c->map);
    arena_free(&c->ctx.scratch);
}

static void set(call *c, const char *name, kiln_value *v)
{
    CHECK(v && value_api.map_set(c->map, name, v) == KILN_OK);
    value_unref(v);
}

static void check_said(const call *c, const char *sentence)
{
    CHECK_MSG(strcmp(c->ctx.failure.message, sentence) == 0, "'%s' and not '%s'", c->ctx.failure.message, sentence);
}

static void test_defaults_come_first(void)
{
    kiln_param_table t = table();
    for (int with_map = 0; with_map < 2; with_map++) {
        call c = begin();
        memset(&c.got, 0x2a, sizeof c.got);
        CHECK_EQ(api()->fill(&c.ctx, &t, with_map ? c.map : NULL, &c.got), KILN_OK);
        CHECK(c.got.flag == 1 && c.got.steps == 20 && c.got.width == 64 && c.got.seed == 7 && c.got.cfg == 7.5);
        CHECK_EQ(c.got.mode, 4);
        CHECK_STR(c.got.sampler, "euler");
        CHECK_STR(c.got.text, "a \"star\"");
        CHECK(c.got.file == NULL); /* the whole struct is written */
        end(&c);
    }
}

static void test_entries_are_converted(void)
{
    kiln_param_table t = table();
    call c = begin();
    set(&c, "flag", value_bool(0)), set(&c, "steps", value_float(12)), set(&c, "seed", value_int(-1));
    set(&c, "cfg", value_int(3)), set(&c, "mode", value_string("fine", 4)), set(&c, "text", value_string("a", 1));
    CHECK_MSG(api()->fill(&c.ctx, &t, c.map, &c.got) == KILN_OK, "%s", c.ctx.failure.message);
    CHECK(c.got.flag == 0 && c.got.steps == 12 && c.got.seed == UINT64_MAX && c.got.cfg == 3 && c.got.mode == -3);
    set(&c, "text", value_string("b", 1)); /* the struct has a copy */
    CHECK_STR(c.got.text, "a");
    end(&c);
}

static void test_refusals_say_what_is_wrong(void)
{
    struct {
        const char *name;
        kiln_value *value;
        const char *sentence;
    } cases[] = {
        {"setps", value_int(1), "guider 'slow' has no setting 'setps'; did you mean 'steps'?"},
        {"x", value_int(1),
         "guider 'slow' has no setting 'x'; it has flag, steps, width, seed, cfg, mode, sampler, text"},
        {"steps", value_int(-6), "setting 'steps' of guider 'slow': '-6' is not a whole number from -5 to 10000"},
        {"steps", value_float(2.5), "setting 'steps' of guider 'slow': '2.5' is not a whole number from -5 to 10000"},
        {"steps", value_string("5", 1),
         "setting 'steps' of guider 'slow': the text \"5\" is not a whole number from -5 to 10000"},
        {"flag", value_int(1), "setting 'flag' of guider 'slow': '1' is not true or false"},
        {"mode", value_string("finne", 5),
         "setting 'mode' of guider 'slow': 'finne' is not a choice; did you mean 'fine'?"},
        {"mode", value_string("q", 1), "setting 'mode' of guider 'slow': 'q' is not one of fine, coarse, 12"},
        {"cfg", value_list(), "setting 'cfg' of guider 'slow': a value with parts is not a number from -0.5 to 100"},
    };
    kiln_param_table t = table();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        call c = begin();
        set(&c, cases[i].name, cases[i].value);
        CHECK_EQ(api()->fill(&c.ctx, &t, c.map, &c.got), KILN_ERR_INVALID);
        check_said(&c, cases[i].sentence);
        end(&c);
    }
}

static void test_a_table_without_rows_has_no_entries(void)
{
    kiln_param_table t = {.size = sizeof t};
    call c = begin();
    CHECK_EQ(api()->fill(&c.ctx, &t, c.map, &c.got), KILN_OK);
    set(&c, "eta", value_int(1));
    CHECK_EQ(api()->fill(&c.ctx, &t, c.map, &c.got), KILN_ERR_INVALID);
    check_said(&c, "this has no parameters, so no 'eta' either");
    end(&c);
}

static void test_what_is_required_has_to_be_given(void)
{
    kiln_param row = every_row[1];
    row.flags = KILN_PARAM_REQUIRED;
    kiln_param_table t = table();
    t.param = &row, t.n_param = 1;
    call c = begin();
    CHECK_EQ(api()->fill(&c.ctx, &t, c.map, &c.got), KILN_ERR_INVALID);
    check_said(&c, "setting 'steps' of guider 'slow' has no default and has to be given");
    end(&c);
    c = begin();
    set(&c, "steps", value_int(3));
    CHECK_EQ(api()->fill(&c.ctx, &t, c.map, &c.got), KILN_OK);
    CHECK_EQ(c.got.steps, 3);
    end(&c);
}

/* What a plugin's table may have wrong is found before anything is read by it. */
static void test_a_bad_table_is_the_plugins_fault(void)
{
    kiln_param row = every_row[1];
    kiln_param_table t = table(), with_file = table(), old = table();
    t.param = &row, t.n_param = 1;
    row.offset = 4096;
    with_file.n_param = EVERY_N;
    old.size = 8;
    const struct {
        const kiln_param_table *table;
        kiln_status status;
        const char *part;
    } cases[] = {
        {&t, KILN_ERR_BUG,
         "the settings of guider 'slow' are no table of parameters: parameter 'steps' lies at offset 4096"},
        {&with_file, KILN_ERR_UNSUPPORTED, "setting 'file' of guider 'slow' is a file; only a parameter of a node"},
        {&old, KILN_ERR_BUG, "no table, or one without its size"},
        {NULL, KILN_ERR_BUG, "no table"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        call c = begin();
        CHECK_EQ(api()->fill(&c.ctx, cases[i].table, c.map, &c.got), cases[i].status);
        CHECK_MSG(strstr(c.ctx.failure.message, cases[i].part) != NULL, "%s", c.ctx.failure.message);
        CHECK_EQ(api()->to_map(&c.ctx, cases[i].table, &c.got, c.map), cases[i].status);
        end(&c);
    }
    call c = begin();
    t = table();
    CHECK_EQ(api()->fill(NULL, &t, c.map, &c.got), KILN_ERR_BUG);
    kiln_value *seven = value_int(7);
    CHECK_EQ(api()->fill(&c.ctx, &t, seven, &c.got), KILN_ERR_INVALID);
    check_said(&c, "the settings of guider 'slow' have to be a map of names to values");
    value_unref(seven);
    end(&c);
}

static void test_a_struct_becomes_a_map_and_back(void)
{
    kiln_param_table t = table();
    call c = begin();
    every_type is = {.flag = 1,
                     .mode = 12,
                     .steps = -5,
                     .width = 100,
                     .seed = UINT64_MAX - 1,
                     .cfg = 0.1,
                     .sampler = "euler",
                     .text = "a, b=c"};
    CHECK_MSG(api()->to_map(&c.ctx, &t, &is, c.map) == KILN_OK, "%s", c.ctx.failure.message);
    CHECK_EQ(value_api.count(c.map), PLAIN_N);
    CHECK_STR(value_api.get_string(value_api.map_get(c.map, "mode"), NULL), "12");
    CHECK_EQ(api()->fill(&c.ctx, &t, c.map, &c.got), KILN_OK);
    CHECK(c.got.flag == is.flag && c.got.mode == is.mode && c.got.steps == is.steps && c.got.width == is.width);
    CHECK(c.got.seed == is.seed && c.got.cfg == is.cfg);
    CHECK_STR(c.got.text, is.text);
    is.mode = 77; /* no choice's value */
    CHECK_EQ(api()->to_map(&c.ctx, &t, &is, c.map), KILN_ERR_BUG);
    check_said(&c, "setting 'mode' of guider 'slow' holds no value of its type");
    end(&c);
}

static void test_a_map_that_is_published_is_not_changed(void)
{
    kiln_param_table t = table();
    call c = begin();
    every_type is = {.mode = 4, .sampler = "euler", .text = ""};
    value_publish(c.map);
    CHECK_EQ(api()->to_map(&c.ctx, &t, &is, c.map), KILN_ERR_BUG);
    CHECK_EQ(api()->parse(&c.ctx, &t, "steps=3", c.map), KILN_ERR_BUG);
    end(&c);
}

/* ---- text ---- */

static void test_text_becomes_entries(void)
{
    kiln_param_table t = table();
    call c = begin();
    CHECK_EQ(api()->parse(&c.ctx, &t, " \t ", c.map), KILN_OK);
    CHECK_EQ(value_api.count(c.map), 0);
    CHECK_MSG(api()->parse(&c.ctx, &t, " steps = 3.0,cfg=2 ,\tmode=fine, text=12 , seed=18446744073709551615", c.map) ==
                  KILN_OK,
              "%s", c.ctx.failure.message);
    CHECK_EQ(value_kind(value_api.map_get(c.map, "steps")), KILN_V_INT);
    CHECK_EQ(value_kind(value_api.map_get(c.map, "cfg")), KILN_V_FLOAT);
    CHECK_STR(value_api.get_string(value_api.map_get(c.map, "text"), NULL), "12");
    CHECK_EQ(api()->fill(&c.ctx, &t, c.map, &c.got), KILN_OK);
    CHECK(c.got.steps == 3 && c.got.cfg == 2 && c.got.mode == -3 && c.got.seed == UINT64_MAX);
    end(&c);
}

static void test_text_is_refused_with_a_sentence(void)
{
    static const struct {
        const char *text, *sentence;
    } cases[] = {
        {"steps", "'steps' is not NAME=VALUE, as in \"eta=0.5, order=2\""},
        {"steps=1,", "'' is not NAME=VALUE, as in \"eta=0.5, order=2\""},
        {"steps=1, cfg=1, steps=2", "'steps' is there twice"},
        {"steps=1e9", "setting 'steps' of guider 'slow': '1e9' is not a whole number from -5 to 10000"},
        {"steps=", "setting 'steps' of guider 'slow': has no value; it takes a whole number from -5 to 10000"},
        {"stesp=1", "guider 'slow' has no setting 'stesp'; did you mean 'steps'?"},
        {"=1", "guider 'slow' has no setting ''; it has flag, steps, width, seed, cfg, mode, sampler, text"},
    };
    kiln_param_table t = table();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        call c = begin();
        CHECK_EQ(api()->parse(&c.ctx, &t, cases[i].text, c.map), KILN_ERR_INVALID);
        check_said(&c, cases[i].sentence);
        end(&c);
    }
}

static void test_without_a_table_a_value_is_what_it_looks_like(void)
{
    static const struct {
        const char *text;
        uint32_t kind;
    } cases[] = {
        {"x=true", KILN_V_BOOL},   {"x=3", KILN_V_INT},       {"x=-9223372036854775808", KILN_V_INT},
        {"x=3.5", KILN_V_FLOAT},   {"x=1e2", KILN_V_FLOAT},   {"x=9223372036854775808", KILN_V_FLOAT},
        {"x=heun", KILN_V_STRING}, {"x=", KILN_V_STRING},     {"x=null", KILN_V_STRING},
        {"x=nan", KILN_V_STRING},  {"x=0x10", KILN_V_STRING},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        call c = begin();
        CHECK_EQ(api()->parse(&c.ctx, NULL, cases[i].text, c.map), KILN_OK);
        CHECK_MSG(value_kind(value_api.map_get(c.map, "x")) == cases[i].kind, "%s", cases[i].text);
        end(&c);
    }
}

/* Each allocation fails once: the call says so, and what it began is let go (the sanitizers look). */
static void test_without_memory(void)
{
    kiln_param_table t = table();
    int failed = 0;
    for (int64_t k = 0; k < 200; k++) {
        call c = begin();
        every_type is = {.mode = 4, .sampler = "euler", .text = ""};
        mem_fail_at(k, 0);
        kiln_status parsed = api()->parse(&c.ctx, &t, "steps=3, text=abc", c.map);
        kiln_status filled = parsed == KILN_OK ? api()->fill(&c.ctx, &t, c.map, &c.got) : parsed;
        kiln_status put = filled == KILN_OK ? api()->to_map(&c.ctx, &t, &is, c.map) : filled;
        mem_fail_at(-1, 0);
        CHECK_MSG(put == KILN_OK || (put == KILN_ERR_NOMEM && c.ctx.failure.message[0]), "allocation %lld: %s, '%s'",
                  (long long)k, status_name(put), c.ctx.failure.message);
        failed += put != KILN_OK;
        end(&c);
    }
    CHECK(failed > 10 && failed < 190);
}

/* A sampler's rows are looked at when it is registered, not when a user first gives an option. */
static void test_a_sampler_with_bad_rows_is_refused(void)
{
    static const kiln_param past_the_end = {EVERY_ROW(KILN_P_FLOAT, cfg), .max = 1};
    static const kiln_sampler bad = {.size = sizeof bad,
                                     .name = "bad",
                                     .run = never_run,
                                     .param = &past_the_end,
                                     .n_param = 1,
                                     .param_stride = sizeof past_the_end,
                                     .params_size = 8};
    registry_owner_set("org.test", NULL);
    CHECK_EQ(sampler_api.register_sampler(&bad), KILN_ERR_INVALID);
    CHECK_MSG(strncmp(registry_fault(), "sampler bad: parameter 'cfg' lies at offset ", 43) == 0, "%s",
              registry_fault());
    registry_owner_set(NULL, NULL);
    CHECK(sampler_api.sampler("bad") == NULL);
}

static const char *at(const void *arg, size_t i) { return ((const char *const *)arg)[i]; }

static void test_nearest(void)
{
    CHECK_STR(api()->nearest("eulr", 3, at, every_sampler), "euler");
    CHECK(api()->nearest("x", 3, at, every_sampler) == NULL);
    CHECK(api()->nearest("euler", 0, at, every_sampler) == NULL);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_defaults_come_first),
        CASE(test_entries_are_converted),
        CASE(test_refusals_say_what_is_wrong),
        CASE(test_a_table_without_rows_has_no_entries),
        CASE(test_what_is_required_has_to_be_given),
        CASE(test_a_bad_table_is_the_plugins_fault),
        CASE(test_a_struct_becomes_a_map_and_back),
        CASE(test_a_map_that_is_published_is_not_changed),
        CASE(test_text_becomes_entries),
        CASE(test_text_is_refused_with_a_sentence),
        CASE(test_without_a_table_a_value_is_what_it_looks_like),
        CASE(test_without_memory),
        CASE(test_a_sampler_with_bad_rows_is_refused),
        CASE(test_nearest),
    };
    registry_owner_set("org.test", NULL);
    int ready = sampler_api.register_sampler(&euler) == KILN_OK;
    registry_owner_set(NULL, NULL);
    return ready ? test_main(argc, argv, cases, sizeof cases / sizeof cases[0]) : 2;
}
