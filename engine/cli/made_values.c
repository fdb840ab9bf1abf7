/* made_values.c - see made_values.h. */
#include "cli/made_values.h"

#include "base/file.h"
#include "base/memory_alloc.h"
#include "cli/check_node.h"
#include "cli/sample_values.h"
#include "plugin/abilities.h"
#include "plugin/ctx.h"
#include "plugin/output.h"

#include <string.h>

enum { CHAIN = 3, PORTS_MAX = 64 };

/* ---- settings ---- */

static const char *file_as_it_is(void *self, arena *a, const char *from, const char *name, error *e)
{
    (void)self, (void)from;
    if (file_exists(name)) return arena_strdup(a, name);
    error_set(e, KILN_ERR_INVALID, "there is no file '%s'", name);
    return NULL;
}

int made_settings(const check_setting *set, size_t n, const kiln_param_table *t, arena *a, void *params)
{
    param_names names = registry_names;
    names.file = file_as_it_is;
    for (size_t i = 0; i < n; i++) {
        const kiln_param *p = param_row_named(t, set[i].name);
        const param_value v = param_written(set[i].value, p && param_is_text(p->type));
        if (p && param_put(p, &v, &names, a, params, NULL) != KILN_OK) return 0;
    }
    return 1;
}

/* ---- which node makes what ---- */

int made_is_set(const check_context *of, const char *name)
{
    for (size_t i = 0; i < of->n_setting; i++)
        if (strcmp(of->setting[i].name, name) == 0) return 1;
    return 0;
}

static int has_files(const check_context *of, const kiln_node *n)
{
    for (uint32_t i = 0; i < n->n_param; i++)
        if (n->param[i].type == KILN_P_FILE && !made_is_set(of, n->param[i].name)) return 0;
    return 1;
}

static const kiln_node *maker(const check_context *of, const char *type, int depth, uint32_t *output);

static int can_run(const check_context *of, const kiln_node *n, int depth)
{
    uint32_t output;
    if (!n->run || n->expand || n->n_out > PORTS_MAX || n->n_in > PORTS_MAX || !has_files(of, n)) return 0;
    for (uint32_t i = 0; i < n->n_in; i++)
        if (!sample_known(&n->in[i]) && !(n->in[i].flags & KILN_PORT_OPTIONAL) &&
            !maker(of, n->in[i].type, depth + 1, &output))
            return 0;
    return 1;
}

/* The plugin's first node with such an output that can be run; NULL: none. */
static const kiln_node *maker(const check_context *of, const char *type, int depth, uint32_t *output)
{
    for (size_t i = 0; depth < CHAIN && i < of->plugin->n_node; i++) {
        const node_info *n = catalog_find(of->plugins, of->plugin->table->node[i]->type);
        for (uint32_t k = 0; n && n->plugin == of->plugin && k < n->node->n_out; k++)
            if (strcmp(n->node->out[k].type, type) == 0 && can_run(of, n->node, depth)) return *output = k, n->node;
    }
    return NULL;
}

int made_can(const check_context *of, const char *type)
{
    uint32_t output;
    return maker(of, type, 0, &output) != NULL;
}

/* ---- making ---- */

static kiln_value *run_one(made_values *m, runtime *rt, const kiln_node *n, uint32_t output)
{
    kiln_value *in[PORTS_MAX] = {0}, *out[PORTS_MAX] = {0}, *made = NULL;
    arena memory = {0};
    output_folder folder = {.path = m->of->folder};
    call_environment env = {.runtime = rt, .pool = runtime_pool(rt), .output = &folder};
    const kiln_param_table t = sample_table(n);
    void *instance = NULL, *params = arena_alloc(&memory, t.params_size + 1);
    error e = {0};
    int ready = params && sample_params(&t, 0, &memory, params) &&
                made_settings(m->of->setting, m->of->n_setting, &t, &memory, params);
    for (uint32_t i = 0; i < n->n_in; i++)
        in[i] = sample_known(&n->in[i]) ? sample_value(&n->in[i]) : made_value(m, &n->in[i]);
    if (ready && (!n->create || n->create(&engine_host, &instance) == KILN_OK)) {
        if (ctx_call(&env, 0, n->type, m->of->plugin->id, n, instance, params, in, out, &e) == KILN_OK && out[output])
            value_publish(made = value_ref(out[output]));
        else
            m->why = e;
        if (instance && n->destroy) n->destroy(instance);
    }
    for (uint32_t i = 0; i < n->n_in; i++) value_unref(in[i]);
    for (uint32_t i = 0; i < n->n_out; i++) value_unref(out[i]);
    arena_free(&memory);
    return made;
}

static void make(made_values *m, runtime *rt, const char *type, int depth)
{
    uint32_t output;
    const kiln_node *n;
    for (size_t i = 0; i < m->n; i++)
        if (strcmp(m->made[i].type, type) == 0) return;
    if (m->n == MADE_MAX || !(n = maker(m->of, type, depth, &output))) return;
    for (uint32_t i = 0; i < n->n_in; i++)
        if (!sample_known(&n->in[i])) make(m, rt, n->in[i].type, depth + 1);
    kiln_value *v = m->n < MADE_MAX ? run_one(m, rt, n, output) : NULL;
    if (!v) return;
    m->made[m->n].type = n->out[output].type;
    m->made[m->n++].value = v;
}

void made_make(made_values *m, runtime *rt, const char *type) { make(m, rt, type, 0); }

kiln_value *made_value(const made_values *m, const kiln_port *port)
{
    for (size_t i = 0; i < m->n; i++)
        if (strcmp(m->made[i].type, port->type) == 0) return value_ref(m->made[i].value);
    return NULL;
}

void made_free(made_values *m)
{
    for (size_t i = 0; i < m->n; i++) value_unref(m->made[i].value);
    m->n = 0;
}
