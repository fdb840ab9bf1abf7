/* test_estimates.c - every node that kiln ships keeps the rule of estimates (kiln/plugin.h): it has the flag, and its
 * run() with shapes alone gives outputs of its ports' types without touching data, which would be a crash here. Nodes
 * that want a model or a file are looked at in tests/cli/test_estimate.sh and with the models.
 */
#include "harness.h"

#include "plugin/catalog.h"
#include "plugin/ctx.h"
#include "tensor/value.h"
#include "workflow/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PORTS_MAX = 16, PARAMS_MAX = 4096 };

static catalog *open_shipped(void)
{
    char folder[1024];
    error e = {0};
    snprintf(folder, sizeof folder, "%s/%s/plugins", test_root(), test_build());
    catalog *c = catalog_open(folder, &e);
    CHECK_MSG(c != NULL, "%s", e.message);
    return c;
}

static kiln_value *shape(uint32_t rank, const int64_t *dim)
{
    error e = {0};
    return value_shape_new(KILN_F32, rank, dim, &e);
}

/* A map with one tensor, or two. */
static kiln_value *map_of(const char *key, kiln_value *a, const char *other, kiln_value *b)
{
    kiln_value *map = value_map();
    value_api.map_set(map, key, a);
    value_unref(a);
    if (other) value_api.map_set(map, other, b), value_unref(b);
    return map;
}

static kiln_value *list_of(kiln_value *a)
{
    kiln_value *list = value_list();
    value_api.list_push(list, a);
    value_unref(a);
    return list;
}

/* NULL: none can be made without a model. */
static kiln_value *sample(const char *type)
{
    if (strcmp(type, "IMAGE") == 0) return shape(4, (const int64_t[]){2, 48, 40, 4});
    if (strcmp(type, "MASK") == 0) return shape(3, (const int64_t[]){2, 48, 40});
    if (strcmp(type, "SIGMAS") == 0) return shape(1, (const int64_t[]){9});
    if (strcmp(type, "LATENT") == 0)
        return map_of("samples", shape(4, (const int64_t[]){2, 16, 12, 4}), "noise_mask",
                      shape(3, (const int64_t[]){2, 48, 40}));
    if (strcmp(type, "CONDITIONING") == 0)
        return list_of(
            map_of("tokens", shape(3, (const int64_t[]){1, 77, 32}), "pooled", shape(2, (const int64_t[]){1, 32})));
    if (strcmp(type, "INT") == 0) return value_int(2);
    if (strcmp(type, "FLOAT") == 0) return value_float(0.5);
    if (strcmp(type, "BOOLEAN") == 0) return value_bool(1);
    if (strcmp(type, "STRING") == 0) return value_string("text", 4);
    return NULL;
}

/* The defaults; 0: the node wants a file, or inputs that fit what its parameters say. */
static int fill_params(const kiln_node *t, unsigned char *params)
{
    if (strcmp(t->type, "ImageMergeTileList") == 0 || strcmp(t->type, "ReplaceVideoLatentFrames") == 0) return 0;
    for (uint32_t i = 0; i < t->n_param; i++) {
        const kiln_param *p = node_param(t, i);
        unsigned char *to = params + p->offset;
        const char *text = p->def_str ? p->def_str : "x";
        int64_t whole = (int64_t)p->def;
        int32_t small = (int32_t)p->def;
        switch (p->type) {
        case KILN_P_FILE: return 0;
        case KILN_P_STRING:
        case KILN_P_NAME: memcpy(to, &text, sizeof text); break;
        case KILN_P_INT:
        case KILN_P_SEED: memcpy(to, &whole, sizeof whole); break;
        case KILN_P_FLOAT: memcpy(to, &p->def, sizeof p->def); break;
        default: memcpy(to, &small, sizeof small); break;
        }
    }
    return 1;
}

static int fill_inputs(const kiln_node *t, kiln_value **in)
{
    for (uint32_t i = 0; i < t->n_in; i++) {
        const kiln_port *p = node_in(t, i);
        kiln_value *v = sample(p->type);
        if (!v && !(p->flags & KILN_PORT_OPTIONAL)) return 0;
        in[i] = v && p->flags & KILN_PORT_LIST ? list_of(v) : v;
    }
    return 1;
}

static int has_data(const kiln_value *v)
{
    kiln_tensor t = {.size = sizeof t};
    for (size_t i = 0; i < value_api.count(v); i++) {
        const char *key;
        if (has_data(value_kind(v) == KILN_V_MAP ? value_api.map_at(v, i, &key) : value_api.list_at(v, i))) return 1;
    }
    return value_kind(v) == KILN_V_TENSOR && value_view(v, &t, NULL) == KILN_OK && t.data;
}

/* 1: it could be called. */
static int estimate_node(const kiln_node *t)
{
    static _Alignas(16) unsigned char params[PARAMS_MAX];
    kiln_value *in[PORTS_MAX] = {0}, *out[PORTS_MAX] = {0};
    error e = {0};
    call_environment env = {.estimate = 1};
    memset(params, 0, sizeof params);
    int callable = t->n_in <= PORTS_MAX && t->n_out <= PORTS_MAX && t->params_size <= PARAMS_MAX &&
                   fill_params(t, params) && fill_inputs(t, in);
    if (callable) {
        kiln_status status = ctx_call(&env, 0, "test", "test", t, NULL, params, in, out, &e);
        CHECK_MSG(status == KILN_OK, "%s: %s", t->type, e.message);
        for (uint32_t i = 0; i < t->n_out; i++) CHECK_MSG(!has_data(out[i]), "%s made data in an estimate", t->type);
    }
    for (int i = 0; i < PORTS_MAX; i++) value_unref(in[i]), value_unref(out[i]);
    return callable;
}

static void test_every_shipped_node_has_the_flag(void)
{
    catalog *c = open_shipped();
    REQUIRE(c);
    CHECK_MSG(catalog_nodes(c) > 80, "%zu nodes alone", catalog_nodes(c));
    for (size_t i = 0; i < catalog_nodes(c); i++) {
        const node_info *n = catalog_node(c, i);
        CHECK_MSG(n->node->flags & KILN_NODE_ESTIMATES, "%s of %s", n->node->type, n->plugin->id);
    }
    catalog_close(c);
}

static void test_shapes_are_enough(void)
{
    catalog *c = open_shipped();
    size_t called = 0;
    REQUIRE(c);
    for (size_t i = 0; i < catalog_nodes(c); i++) called += (size_t)estimate_node(catalog_node(c, i)->node);
    CHECK_MSG(called > 50, "%zu could be called", called);
    catalog_close(c);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_every_shipped_node_has_the_flag), CASE(test_shapes_are_enough)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
