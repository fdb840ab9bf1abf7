/* bad_made.c - a node that makes an object and one that takes it, and the ways they may break the contract that only
 * parameters drawn at random, other numbers of threads, stored forms or another node's result show: compiled by
 * test_check_made.sh with -DBAD=n, where 0 is good.
 */
#include "kiln/kit.h"
#include "kiln/ops.h"
#include "kiln/store.h"
#include "kiln/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    double speed, weight;
    char word[16];
} plan;

typedef struct {
    double speed;
    int64_t size;
    int32_t exact;
} values;
static const kiln_param param[] = {
    KIT_FLOAT(values, speed, 1, 0, 100, 0.01, "Speed."),
    KIT_INT(values, size, 4, 1, 64, "Cells."),
    KIT_BOOL(values, exact, 0, "Exact."),
};
static const kiln_host *host;
static const kiln_store_api *store;
static const kiln_value_api *api;

static kiln_status make_run(const kiln_call *c)
{
    const values *p = c->params;
    if (BAD == 1 && p->speed > 40 && p->speed < 45) abort();
    if (BAD == 2 && p->exact && p->size > 6) return KILN_ERR_INVALID; /* without a word */
    if (BAD == 11) return c->host->fail(c->ctx, KILN_ERR_INVALID, "there is no plan for today");
    plan *made = calloc(1, sizeof *made);
    if (!made) return KILN_ERR_NOMEM;
    *made = (plan){.speed = p->speed, .weight = 2 * p->speed, .word = "swift"};
    char print[64];
    snprintf(print, sizeof print, "%.17g", p->speed);
    if (BAD == 3) snprintf(print, sizeof print, "%p", (void *)made); /* another one each time */
    c->out[0] = api->new_object(c->ctx, "BAD_PLAN", made, free, print);
    if (!c->out[0]) free(made);
    return c->out[0] ? KILN_OK : KILN_ERR_NOMEM;
}

static kiln_value *to_plain(kiln_ctx *ctx, const kiln_value *object)
{
    const plan *p = api->object(object, "BAD_PLAN");
    kiln_value *map = api->new_map(ctx),
               *speed = api->new_float(ctx, BAD == 4 ? (double)(int)(p->speed + 1) : p->speed);
    kiln_status status = map && speed ? api->map_set(map, "speed", speed) : KILN_ERR_NOMEM;
    host->unref(speed);
    if (status == KILN_OK) return map;
    host->unref(map);
    return NULL;
}
static kiln_value *from_plain(kiln_ctx *ctx, const kiln_value *plain)
{
    char print[64];
    double speed = 0;
    if (BAD == 5) return NULL;
    const kiln_value *v = api->map_get(plain, "speed");
    if (!v || api->get_float(v, &speed) != KILN_OK) return NULL;
    plan *made = calloc(1, sizeof *made);
    if (!made) return NULL;
    *made = (plan){.speed = speed, .weight = 2 * speed, .word = "swift"};
    snprintf(print, sizeof print, "%.17g", speed);
    kiln_value *object = api->new_object(ctx, "BAD_PLAN", made, free, print);
    if (!object) free(made);
    return object;
}
static const kiln_stored_type stored = {.size = sizeof stored,
                                        .revision = 1,
                                        .type = "BAD_PLAN",
                                        .doc = "A plan.",
                                        .to_plain = to_plain,
                                        .from_plain = from_plain};

/* ---- the node that takes it ---- */

typedef struct {
    float *to;
    double by;
    int caller;
} work;

static void fill(void *arg, size_t i)
{
    work *w = arg;
    if (BAD == 6) usleep(1500);
    w->to[i] = (float)(w->by + (BAD == 6 && gettid() != w->caller ? 0.5 : 0)); /* which thread it was */
}

static kiln_status use_run(const kiln_call *c)
{
    const plan *p = api->object(c->in[0], "BAD_PLAN");
    kiln_tensor t = {.size = sizeof t};
    if (!p) return host->fail(c->ctx, KILN_ERR_INVALID, "this is no plan");
    c->out[0] = host->tensor_new(c->ctx, KILN_F32, KILN_CPU, 4, KILN_DIMS(1, 8, 8, 3));
    if (!c->out[0]) return KILN_ERR_NOMEM;
    if (kit_estimating(c)) return KILN_OK;
    TRY(host->view(c->ctx, c->out[0], &t));
    work w = {.to = t.data, .by = p->speed / 200, .caller = gettid()};
    TRY(host->progress(c->ctx, 0, 1, "x"));
    host->parallel_for(c->ctx, 8 * 8 * 3, fill, &w);
    if (BAD == 7) ((volatile float *)t.data)[8 * 8 * 3] = 1; /* past the end */
    if (BAD == 8) ((plan *)(uintptr_t)p)->speed += 1;        /* what others read too */
    if (BAD == 9) host->ref(c->in[0]);                       /* keeps it */
    return KILN_OK;
}

static const kiln_port plan_out[] = {{.name = "plan", .type = "BAD_PLAN", .doc = "A plan."}};
static const kiln_port plan_in[] = {{.name = "plan", .type = BAD == 10 ? "MODEL" : "BAD_PLAN", .doc = "A plan."}};
static const kiln_port image_out[] = {{.name = "image", .type = "IMAGE", .doc = "Drawn by it."}};
static const kiln_node make_node = {KIT_NODE("BadMake", "Make", "test", "Makes a plan."), KILN_ARRAY(out, plan_out),
                                    KIT_PARAMS(values, param), .run = make_run};
static const kiln_node use_node = {KIT_NODE("BadUse", "Use", "test", "Uses a plan."), KILN_ARRAY(in, plan_in),
                                   KILN_ARRAY(out, image_out), .run = use_run};

static kiln_status open_plugin(const kiln_host *h)
{
    host = h;
    store = h->ability(KILN_STORE_ABILITY), api = h->ability(KILN_VALUE_ABILITY);
    return store && api ? store->register_type(&stored) : KILN_ERR_UNSUPPORTED;
}
#if BAD == 10 /* one node alone, which nothing can be made up for */
KILN_PLUGIN_OPEN("org.example.bad-made", "1.0.0", "MIT", open_plugin, &use_node);
#else
KILN_PLUGIN_OPEN("org.example.bad-made", "1.0.0", "MIT", open_plugin, &make_node, &use_node);
#endif
