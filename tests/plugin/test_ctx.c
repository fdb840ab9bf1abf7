/* test_ctx.c - what is enforced around a node's run(): each promise broken by a node made for it. */
#include "harness.h"

#include "base/log.h"
#include "base/memory_alloc.h"
#include "kiln/kit.h"
#include "plugin/ctx.h"
#include "plugin/output.h"
#include "tensor/value.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

static const kiln_port in[] = {{.name = "image", .type = "IMAGE", .doc = "In."}};
static const kiln_port out[] = {{.name = "picture", .type = "IMAGE", .doc = "Out."}};

static kiln_value *picture(void)
{
    kiln_tensor t = {.size = sizeof t};
    kiln_value *v = value_tensor_new(KILN_F32, KILN_CPU, 4, (int64_t[]){1, 2, 2, 3}, NULL);
    if (v && value_view(v, &t, NULL) == KILN_OK) memset(t.data, 0, 12 * sizeof(float));
    if (v) value_publish(v);
    return v;
}

static int stop;
static int cancelled(void *arg) { return (void)arg, stop; }
static char last_line[512];
static void sink(void *arg, int level, const char *line)
{
    (void)arg, (void)level, snprintf(last_line, sizeof last_line, "%s", line);
}

/* Calls run() on one picture. *refs: references of the picture afterwards. */
static error call(kiln_status (*run)(const kiln_call *), int validate, kiln_value **made)
{
    const kiln_node type = {.size = sizeof type,
                            .type = "Tried",
                            .doc = "Tried.",
                            .revision = 1,
                            .devices = KILN_CPU,
                            KILN_ARRAY(in, in),
                            KILN_ARRAY(out, out),
                            .run = run};
    call_environment env = {.cancelled = cancelled, .validate = validate};
    error e = {0};
    kiln_value *given = picture(), *result = NULL;
    CHECK(given != NULL);
    e.status = KILN_OK;
    kiln_status status = ctx_call(&env, 0, "n", "org.example.tried", &type, NULL, NULL, &given, &result, &e);
    CHECK_EQ(status, e.status);
    CHECK((status == KILN_OK) == (result != NULL));
    value_unref(given);
    if (made)
        *made = result;
    else
        value_unref(result);
    return e;
}

static kiln_status pass(const kiln_call *c) { return c->out[0] = c->host->ref(c->in[0]), KILN_OK; }
static kiln_status nothing(const kiln_call *c) { return (void)c, KILN_OK; }
static kiln_status two_channels(const kiln_call *c)
{
    c->out[0] = c->host->tensor_new(c->ctx, KILN_F32, KILN_CPU, 4, (int64_t[]){1, 2, 2, 2});
    return c->out[0] ? KILN_OK : KILN_ERR_NOMEM;
}
static kiln_status silent(const kiln_call *c) { return (void)c, KILN_ERR_IO; }
static kiln_status loud(const kiln_call *c)
{
    return c->host->fail(c->ctx, KILN_ERR_INVALID, "the %s is too %s", "moon", "far");
}
static kiln_status twice(const kiln_call *c)
{
    c->host->fail(c->ctx, KILN_ERR_INVALID, "the first");
    return c->host->fail(c->ctx, KILN_ERR_INVALID, "the second");
}
static kiln_status tried_then_worked(const kiln_call *c)
{
    c->host->fail(c->ctx, KILN_ERR_NOMEM, "the fast way");
    return KILN_OK;
}
static kiln_status no_status(const kiln_call *c) { return (void)c, (kiln_status)5; }
static kiln_status says_cancelled(const kiln_call *c) { return (void)c, KILN_CANCELLED; }
static kiln_status asks(const kiln_call *c)
{
    return c->host->progress(c->ctx, 1, 2, "x") == KILN_OK ? pass(c) : KILN_CANCELLED;
}
static kiln_status half_made(const kiln_call *c)
{
    return pass(c), c->host->fail(c->ctx, KILN_ERR_DEVICE, "after its output");
}
static kiln_status writes_input(const kiln_call *c)
{
    kiln_tensor t = {.size = sizeof t};
    if (c->host->view(c->ctx, c->in[0], &t) != KILN_OK) return KILN_ERR_BUG;
    ((float *)t.data)[0] = 7;
    return pass(c);
}
static kiln_status makes_nan(const kiln_call *c)
{
    kiln_tensor t = {.size = sizeof t};
    c->out[0] = c->host->tensor_new(c->ctx, KILN_F32, KILN_CPU, 4, (int64_t[]){1, 1, 1, 3});
    if (!c->out[0] || c->host->view(c->ctx, c->out[0], &t) != KILN_OK) return KILN_ERR_NOMEM;
    memcpy(t.data, (float[]){0, NAN, 0}, 3 * sizeof(float));
    return KILN_OK;
}
static kiln_status views_nothing(const kiln_call *c)
{
    kiln_tensor t = {.size = sizeof t};
    return c->host->view(c->ctx, NULL, &t);
}
static kiln_status works_in_scratch(const kiln_call *c)
{
    for (size_t n = 1; n < 100000; n *= 10) {
        unsigned char *p = c->host->scratch(c->ctx, n, KILN_CPU);
        if (!p || (uintptr_t)p % 64) return c->host->fail(c->ctx, KILN_ERR_BUG, "scratch is not aligned");
        memset(p, 1, n);
    }
    return c->host->scratch(c->ctx, 8, KILN_CUDA) ? KILN_ERR_BUG : pass(c);
}
static void add_one(void *arg, size_t i) { atomic_fetch_add((atomic_int *)arg, (int)i); }
static kiln_status in_parallel(const kiln_call *c)
{
    atomic_int sum = 0;
    c->host->parallel_for(c->ctx, 101, add_one, &sum);
    return atomic_load(&sum) == 5050 ? pass(c) : KILN_ERR_BUG;
}
#ifdef __SSE__
static kiln_status flushes(const kiln_call *c)
{
    _mm_setcsr(_mm_getcsr() | 0x8040);
    return pass(c);
}
#endif

static void test_each_promise(void)
{
    static const struct {
        kiln_status (*run)(const kiln_call *);
        int validate;
        kiln_status status;
        const char *message;
    } rows[] = {
        {pass, 1, KILN_OK, ""},
        {works_in_scratch, 0, KILN_OK, ""},
        {in_parallel, 0, KILN_OK, ""},
        {asks, 0, KILN_OK, ""},
        {nothing, 0, KILN_ERR_BUG,
         "node 'n' (Tried): plugin org.example.tried: said it succeeded but did not set output 'picture'"},
        {tried_then_worked, 0, KILN_ERR_BUG,
         "node 'n' (Tried): plugin org.example.tried: said it succeeded but did not set output 'picture'"},
        {two_channels, 0, KILN_ERR_BUG,
         "node 'n' (Tried): plugin org.example.tried: output 'picture': IMAGE is f32 [1,2,2,2]; it has to "
         "be f32 [N,H,W,C], the last 3 to 4"},
        {silent, 0, KILN_ERR_IO, "node 'n' (Tried): failed without saying why (input or output failed)"},
        {loud, 0, KILN_ERR_INVALID, "node 'n' (Tried): the moon is too far"},
        {twice, 0, KILN_ERR_INVALID, "node 'n' (Tried): the first"},
        {no_status, 0, KILN_ERR_BUG, "node 'n' (Tried): plugin org.example.tried: returned 5, which is no status"},
        {says_cancelled, 0, KILN_ERR_BUG,
         "node 'n' (Tried): plugin org.example.tried: said it was cancelled, though nobody asked"},
        {half_made, 0, KILN_ERR_DEVICE, "node 'n' (Tried): after its output"},
        {writes_input, 1, KILN_ERR_BUG,
         "node 'n' (Tried): plugin org.example.tried: wrote to its input 'image', which is not its own"},
        {makes_nan, 1, KILN_ERR_INVALID, "node 'n' (Tried): output 'picture' holds a number that is not finite"},
        {makes_nan, 0, KILN_OK, ""},
        {views_nothing, 0, KILN_ERR_INVALID, "node 'n' (Tried): expected a tensor, got nothing"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        error e = call(rows[i].run, rows[i].validate, NULL);
        CHECK_MSG(e.status == rows[i].status, "row %zu: %s", i, status_name(e.status));
        CHECK_STR(e.message, rows[i].message);
    }
}

static void test_cancel(void)
{
    stop = 1;
    error e = call(asks, 0, NULL);
    stop = 0;
    CHECK_EQ(e.status, KILN_CANCELLED);
}

static void test_float_mode_is_put_back(void)
{
#ifdef __SSE__
    uint64_t before = float_state();
    last_line[0] = '\0';
    log_sink_set(sink, NULL);
    error e = call(flushes, 0, NULL);
    log_sink_set(NULL, NULL);
    CHECK_EQ(e.status, KILN_OK);
    CHECK_EQ(float_state(), before);
    CHECK_MSG(strstr(last_line, "node 'n' (Tried) of org.example.tried changed the floating-point mode") != NULL, "%s",
              last_line);
#else
    test_skip("MXCSR is an x86 matter");
#endif
}

static void test_a_wrong_input_is_refused_before_the_call(void)
{
    const kiln_node type = {
        .size = sizeof type, .type = "Tried", .revision = 1, KILN_ARRAY(in, in), KILN_ARRAY(out, out), .run = pass};
    error e = {0};
    kiln_value *wrong = value_int(3), *result = NULL;
    CHECK_EQ(ctx_call(NULL, 0, "n", "p", &type, NULL, NULL, &wrong, &result, &e), KILN_ERR_INVALID);
    CHECK_STR(e.message,
              "node 'n' (Tried): input 'image': IMAGE is a whole number; it has to be f32 [N,H,W,C], the last "
              "3 to 4");
    CHECK(result == NULL);
    value_unref(wrong);
}

static void test_abilities_by_name(void)
{
    static const char *const names[] = {"kiln.value/1",   "kiln.ops/1",   "kiln.weights/1", "kiln.model/2",
                                        "kiln.sampler/1", "kiln.files/1", "kiln.types/1"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const uint32_t *table = engine_host.ability(names[i]);
        CHECK_MSG(table && *table >= sizeof(void *) * 2 && *table < 4096 && *table % sizeof(void *) == 0, "%s",
                  names[i]);
    }
    CHECK(engine_host.ability("kiln.value/2") == NULL);
    CHECK(engine_host.ability("") == NULL && engine_host.ability(NULL) == NULL);
}

static void test_out_of_memory_at_each_allocation(void)
{
    for (int k = 0; k < 64; k++) {
        kiln_value *given = picture(), *result = NULL;
        const kiln_node type = {.size = sizeof type,
                                .type = "Tried",
                                .revision = 1,
                                KILN_ARRAY(in, in),
                                KILN_ARRAY(out, out),
                                .run = two_channels};
        call_environment env = {.validate = 1};
        error e = {0};
        mem_fail_at(k, 0);
        kiln_status status = ctx_call(&env, 0, "n", "p", &type, NULL, NULL, &given, &result, &e);
        int enough = mem_count() <= k;
        mem_fail_at(-1, 0);
        value_unref(given);
        value_unref(result);
        CHECK_EQ(status, enough ? KILN_ERR_BUG : KILN_ERR_NOMEM); /* two channels are wrong once memory is there */
        if (enough) return;
    }
    CHECK_MSG(0, "never got through");
}

/* Two outputs; a node makes the first, and the second where `second` is set. */
static const kiln_port two_out[] = {{.name = "a", .type = "IMAGE", .doc = "The first."},
                                    {.name = "b", .type = "IMAGE", .doc = "The second."}};
static uint64_t wanted_bits, wanted_seen;
static uint64_t wanted(void *arg, size_t node) { return (void)arg, CHECK_EQ(node, 3), wanted_bits; }
static kiln_status first_alone(const kiln_call *c)
{
    wanted_seen = c->wanted;
    c->out[0] = c->host->ref(c->in[0]);
    return KILN_OK;
}

static void test_an_output_that_nobody_takes(void)
{
    const kiln_node type = {.size = sizeof type,
                            .type = "Tried",
                            .run = first_alone,
                            KILN_ARRAY(in, in),
                            .out = two_out,
                            .n_out = 2,
                            .out_stride = sizeof *two_out};
    static const struct {
        uint64_t wanted;
        kiln_status status;
    } rows[] = {{1, KILN_OK}, {0, KILN_OK}, {2, KILN_ERR_BUG}, {3, KILN_ERR_BUG}, {UINT64_MAX, KILN_ERR_BUG}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        kiln_value *given = picture(), *made[2] = {NULL};
        call_environment env = {.wanted = rows[i].wanted == UINT64_MAX ? NULL : wanted};
        error e = {0};
        wanted_bits = rows[i].wanted;
        CHECK_EQ(ctx_call(&env, 3, "n", "p", &type, NULL, NULL, &given, made, &e), rows[i].status);
        CHECK_EQ(wanted_seen, rows[i].wanted);
        if (rows[i].status != KILN_OK) CHECK_MSG(strstr(e.message, "did not set output 'b'") != NULL, "%s", e.message);
        CHECK((made[0] != NULL) == (rows[i].status == KILN_OK) && !made[1]);
        value_unref(made[0]);
        value_unref(given);
    }
}

static kiln_status look_at_wanted(const kiln_call *c) { return wanted_seen = c->wanted, KILN_OK; }

static void test_check_is_told_what_is_taken(void)
{
    const kiln_node type = {.size = sizeof type, .type = "Tried", .run = first_alone, .check = look_at_wanted};
    CHECK_EQ(ctx_check("n", "p", &type, &(ctx_checking){.wanted = 5}, NULL), KILN_OK);
    CHECK_EQ(wanted_seen, 5);
}

typedef struct {
    int64_t way;
} way_params;

static kiln_status blame_way(const kiln_call *c)
{
    const kiln_host *h = c->host;
    switch (((const way_params *)c->params)->way) {
    case 0: return h->at_param(c->ctx, KILN_OK, "way");
    case 1: return h->at_param(c->ctx, h->fail(c->ctx, KILN_ERR_INVALID, "the moon is too far"), "way");
    case 2: return h->at_param(c->ctx, h->fail(c->ctx, KILN_ERR_IO, "no way leads there"), "way");
    case 3: return h->at_param(c->ctx, KILN_ERR_UNSUPPORTED, "way");
    case 4: return h->at_param(c->ctx, h->fail(c->ctx, KILN_ERR_INVALID, "too far"), "weg");
    case 5: return h->at_param(c->ctx, h->fail(c->ctx, KILN_ERR_INVALID, "too far"), NULL);
    case 6: /* the first that is named counts */
        h->at_param(c->ctx, h->fail(c->ctx, KILN_ERR_INVALID, "too far"), "way");
        return h->at_param(c->ctx, KILN_ERR_INVALID, "other");
    default: return kit_at_param(c, h->fail(c->ctx, KILN_ERR_INVALID, "too far"), "way");
    }
}

static void test_a_failure_names_its_parameter(void)
{
    static const kiln_param param[] = {KIT_INT(way_params, way, 0, 0, 9, "x"), KIT_INT(way_params, way, 0, 0, 9, "x")};
    kiln_param row[2] = {param[0], param[1]};
    row[1].name = "other";
    const kiln_node type = {.size = sizeof type,
                            .type = "Tried",
                            .run = nothing,
                            .check = blame_way,
                            .param = row,
                            .n_param = 2,
                            .param_stride = sizeof *row,
                            .params_size = sizeof(way_params)};
    static const struct {
        kiln_status status;
        const char *param, *message;
    } way[] = {
        {KILN_OK, NULL, ""},
        {KILN_ERR_INVALID, "way", "node 'n' (Tried): input 'way': the moon is too far"},
        {KILN_ERR_IO, "way", "node 'n' (Tried): no way leads there"},
        {KILN_ERR_UNSUPPORTED, "way",
         "node 'n' (Tried): input 'way': it was refused without saying why (not supported)"},
        {KILN_ERR_BUG, NULL,
         "node 'n' (Tried): plugin p: at_param() names the parameter 'weg', which the node does not have"},
        {KILN_ERR_BUG, NULL,
         "node 'n' (Tried): plugin p: at_param() names the parameter '', which the node does not have"},
        {KILN_ERR_INVALID, "way", "node 'n' (Tried): input 'way': too far"},
        {KILN_ERR_INVALID, "way", "node 'n' (Tried): input 'way': too far"},
    };
    for (size_t i = 0; i < sizeof way / sizeof way[0]; i++) {
        const way_params params = {.way = (int64_t)i};
        error e = {0};
        CHECK_EQ(ctx_check("n", "p", &type, &(ctx_checking){.params = &params}, &e), way[i].status);
        CHECK_STR(e.message, way[i].message);
        CHECK(way[i].param ? e.param && strcmp(e.param, way[i].param) == 0 : !e.param);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_each_promise),
        CASE(test_cancel),
        CASE(test_float_mode_is_put_back),
        CASE(test_a_wrong_input_is_refused_before_the_call),
        CASE(test_abilities_by_name),
        CASE(test_out_of_memory_at_each_allocation),
        CASE(test_an_output_that_nobody_takes),
        CASE(test_check_is_told_what_is_taken),
        CASE(test_a_failure_names_its_parameter),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
