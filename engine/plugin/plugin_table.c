/* plugin_table.c - reading a plugin's table; see plugin_table.h. */
#include "plugin/plugin_table.h"

#include "base/names.h"
#include "param/param.h"
#include "param/param_rows.h"

#include <string.h>

/* How large the structs were in version 1.0: a plugin can not be older. */
#define SIZE_TO(type, field) (offsetof(type, field) + sizeof(((type *)0)->field))
enum {
    PLUGIN_1_0 = SIZE_TO(kiln_plugin, close),
    NODE_1_0 = SIZE_TO(kiln_node, destroy),
    PORT_1_0 = SIZE_TO(kiln_port, rank_max),
    PARAM_1_0 = SIZE_TO(kiln_param, from),
};
enum {
    NODES_MAX = 4096,
    PORTS_MAX = 256,
    PARAMS_MAX = 1024,
    STRUCT_MAX = 65536,
};
enum {
    NODE_FLAGS = KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_OUTPUT | KILN_NODE_DEVICE | KILN_NODE_ESTIMATES |
                 KILN_NODE_EXPANDS | KILN_NODE_CONSTANT,
    PORT_FLAGS = KILN_PORT_OPTIONAL | KILN_PORT_LIST | KILN_PORT_LAZY,
    LAZY_PORTS = 63, /* bits of what wants() says, but for KILN_WANTS_AGAIN */
    DTYPES = (1 << (KILN_BOOL8 + 1)) - 2,
};

/* Where the reader is: the text in front of every message. */
typedef struct {
    arena *memory;
    error *e;
    const kiln_node *node;
} reader;

__attribute__((format(printf, 2, 3))) static kiln_status bad(const reader *r, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    kiln_status status = error_setv(r->e, KILN_ERR_INVALID, fmt, args);
    va_end(args);
    if (r->node) error_prefix(r->e, "node %.128s", r->node->type);
    return status;
}

/* Copies n rows of the plugin's stride into rows of `size` bytes, zero where the plugin's are shorter. */
static kiln_status copy_rows(const reader *r, const char *what, const void *from, uint32_t n, uint32_t stride,
                             size_t least, size_t size, size_t most_rows, const void **out)
{
    *out = NULL;
    if (n == 0) return KILN_OK;
    if (n > most_rows) return bad(r, "%u %s; the most is %zu", n, what, most_rows);
    if (!from) return bad(r, "%u %s but no array of them; declare it with KILN_ARRAY", n, what);
    if (stride < least || stride > STRUCT_MAX || stride % sizeof(void *))
        return bad(
            r,
            "the stride of the %s is %u bytes; version 1.0 of the contract has %zu: declare the array with KILN_ARRAY",
            what, stride, least);
    char *to = arena_alloc(r->memory, n * size);
    if (!to) return error_set(r->e, KILN_ERR_NOMEM, "out of memory");
    for (uint32_t i = 0; i < n; i++)
        memcpy(to + i * size, (const char *)from + (size_t)i * stride, stride < size ? stride : size);
    *out = to;
    return KILN_OK;
}

/* ---- ports ---- */

static kiln_status check_port(const reader *r, const char *what, const kiln_port *p, uint32_t i)
{
    if (!name_is_valid(p->name)) return bad(r, "%s %u has no usable name; names are [A-Za-z0-9_.+-]{1,128}", what, i);
    if (!line_is_valid(p->doc)) return bad(r, "%s '%s' has no doc; give it one line of help", what, p->name);
    if (!p->type || (strcmp(p->type, "*") != 0 && !name_is_valid(p->type[0] == '*' ? p->type + 1 : p->type)))
        return bad(r, "%s '%s' has no usable type; say \"IMAGE\", a name of your own, \"*\" or \"*NAME\"", what,
                   p->name);
    if (p->flags & ~(uint32_t)PORT_FLAGS)
        return bad(r, "%s '%s' has flags 0x%x this version does not know", what, p->name, p->flags);
    if (p->dtypes & ~(uint32_t)DTYPES)
        return bad(r, "%s '%s' allows dtypes 0x%x this version does not know", what, p->name, p->dtypes);
    if (p->rank_min > p->rank_max || p->rank_max > KILN_MAX_RANK)
        return bad(r, "%s '%s' takes ranks %u to %u; 0 <= rank_min <= rank_max <= %d", what, p->name, p->rank_min,
                   p->rank_max, KILN_MAX_RANK);
    return KILN_OK;
}

/* An output of type *NAME says which type only if an input has it too. */
static kiln_status check_variable(const reader *r, const kiln_port *out)
{
    const kiln_node *n = r->node;
    if (out->type[0] != '*' || !out->type[1]) return KILN_OK;
    for (uint32_t i = 0; i < n->n_in; i++)
        if (strcmp(n->in[i].type, out->type) == 0) return KILN_OK;
    return bad(r, "output '%s' is of type %s, which no input has; say \"*\" for any type", out->name, out->type);
}

static kiln_status check_ports(const reader *r)
{
    const kiln_node *n = r->node;
    for (uint32_t i = 0; i < n->n_in; i++) {
        TRY(check_port(r, "input", &n->in[i], i));
        if ((n->in[i].flags & KILN_PORT_LAZY) && i >= LAZY_PORTS)
            return bad(r, "input %u '%s' is lazy; only the first %d can be", i, n->in[i].name, LAZY_PORTS);
        for (uint32_t j = 0; j < i; j++)
            if (strcmp(n->in[i].name, n->in[j].name) == 0)
                return bad(r, "two inputs are called '%s'; every name once", n->in[i].name);
    }
    for (uint32_t i = 0; i < n->n_out; i++) {
        TRY(check_port(r, "output", &n->out[i], i));
        if (n->out[i].flags & ~(uint32_t)KILN_PORT_LIST)
            return bad(r, "output '%s' has flags of an input (OPTIONAL, LAZY)", n->out[i].name);
        TRY(check_variable(r, &n->out[i]));
        for (uint32_t j = 0; j < i; j++)
            if (strcmp(n->out[i].name, n->out[j].name) == 0)
                return bad(r, "two outputs are called '%s'; every name once", n->out[i].name);
    }
    return KILN_OK;
}

/* ---- parameters ---- */

static kiln_status check_params(const reader *r)
{
    const kiln_node *n = r->node;
    kiln_param_table rows = {.size = sizeof rows,
                             .param = n->param,
                             .n_param = n->n_param,
                             .param_stride = n->param_stride,
                             .params_size = n->params_size};
    kiln_status status = param_rows_check(&rows, r->e);
    if (status != KILN_OK) {
        error_prefix(r->e, "node %.128s", n->type);
        return status;
    }
    for (uint32_t i = 0; i < n->n_in; i++)
        if (param_row_named(&rows, n->in[i].name))
            return bad(r, "an input and a parameter are both called '%s'; every name once", n->in[i].name);
    return KILN_OK;
}

/* ---- lazy inputs, constants, sub-graphs ---- */

static kiln_status check_wants(const reader *r)
{
    const kiln_node *n = r->node;
    uint32_t lazy = 0;
    for (uint32_t i = 0; i < n->n_in; i++) lazy += (n->in[i].flags & KILN_PORT_LAZY) != 0;
    if (lazy && !n->wants) return bad(r, "has lazy inputs but no wants() that asks for them");
    if (!lazy && n->wants) return bad(r, "wants() but no lazy input; give those KILN_PORT_LAZY");
    return KILN_OK;
}

static kiln_status check_constant(const reader *r)
{
    const kiln_node *n = r->node;
    if (!(n->flags & KILN_NODE_CONSTANT)) return KILN_OK;
    if (n->n_in || n->n_out > n->n_param || !(n->flags & KILN_NODE_PURE))
        return bad(r, "KILN_NODE_CONSTANT is for a PURE node without inputs whose output i is parameter i");
    for (uint32_t i = 0; i < n->n_out; i++)
        if (strcmp(n->out[i].type, param_wire_type(n->param[i].type)) != 0 || n->out[i].flags)
            return bad(r, "output '%s' of a constant is no %s as its parameter is", n->out[i].name,
                       param_wire_type(n->param[i].type));
    return KILN_OK;
}

static kiln_status check_expands(const reader *r)
{
    const kiln_node *n = r->node;
    int expands = (n->flags & KILN_NODE_EXPANDS) != 0;
    if (expands != (n->expand != NULL)) return bad(r, "KILN_NODE_EXPANDS and expand() belong together");
    if (!expands) return n->run ? KILN_OK : bad(r, "no run()");
    if (n->run || n->create || n->wants)
        return bad(r, "expands into other nodes and so has no run(), create() or lazy inputs");
    if (n->flags & (KILN_NODE_CONSTANT | KILN_NODE_DEVICE)) return bad(r, "expands, and so does no work of its own");
    return KILN_OK;
}

static kiln_status check_passed(const reader *r)
{
    const kiln_node *n = r->node;
    for (uint32_t i = 0; i < n->n_param; i++)
        if ((n->param[i].flags & KILN_PARAM_PASSED) && !(n->flags & KILN_NODE_EXPANDS))
            return bad(r, "parameter '%s' has KILN_PARAM_PASSED, but the node does not expand", n->param[i].name);
    return KILN_OK;
}

/* ---- nodes and the whole ---- */

static kiln_status check_node(const reader *r)
{
    const kiln_node *n = r->node;
    if (n->flags & ~(uint32_t)NODE_FLAGS)
        return bad(r, "flags 0x%x this version does not know", n->flags & ~(uint32_t)NODE_FLAGS);
    if (!n->devices || (n->devices & ~(uint32_t)(KILN_CPU | KILN_CUDA)))
        return bad(r, "devices is 0x%x; say KILN_CPU, KILN_CUDA or both", n->devices);
    if (!n->revision) return bad(r, "revision is 0; it starts at 1");
    if (!line_is_valid(n->doc)) return bad(r, "no doc; give it one line of help");
    if ((n->title && !line_is_valid(n->title)) || (n->category && !line_is_valid(n->category)))
        return bad(r, "title and category are one line of text each");
    TRY(check_expands(r));
    if (n->destroy && !n->create) return bad(r, "destroy() without create()");
    if (!n->n_out && !(n->flags & KILN_NODE_OUTPUT))
        return bad(r, "neither outputs nor KILN_NODE_OUTPUT: nothing could ever ask for it");
    TRY(check_ports(r));
    TRY(check_params(r));
    TRY(check_wants(r));
    TRY(check_passed(r));
    return check_constant(r);
}

static kiln_status read_node(reader *r, const void *raw, size_t i, const kiln_node **out)
{
    uint32_t size;
    r->node = NULL;
    if (!raw) return bad(r, "node %zu of the table is NULL", i);
    memcpy(&size, raw, sizeof size);
    if (size < NODE_1_0 || size > STRUCT_MAX)
        return bad(
            r, "node %zu says it is %u bytes; version 1.0 of the contract has %d: set .size = sizeof of the kiln_node",
            i, size, NODE_1_0);
    kiln_node *n = arena_alloc(r->memory, sizeof *n);
    if (!n) return error_set(r->e, KILN_ERR_NOMEM, "out of memory");
    memcpy(n, raw, size < sizeof *n ? size : sizeof *n);
    n->size = sizeof *n;
    if (!node_type_is_valid(n->type))
        return bad(r, "node %zu has no usable type; types are [A-Za-z0-9_.+-]{1,128}, with single blanks between", i);
    r->node = n;
    const void *rows;
    TRY(copy_rows(r, "inputs", n->in, n->n_in, n->in_stride, PORT_1_0, sizeof(kiln_port), PORTS_MAX, &rows));
    n->in = rows;
    TRY(copy_rows(r, "outputs", n->out, n->n_out, n->out_stride, PORT_1_0, sizeof(kiln_port), PORTS_MAX, &rows));
    n->out = rows;
    TRY(copy_rows(r, "parameters", n->param, n->n_param, n->param_stride, PARAM_1_0, sizeof(kiln_param), PARAMS_MAX,
                  &rows));
    n->param = rows;
    n->in_stride = n->out_stride = sizeof(kiln_port);
    n->param_stride = sizeof(kiln_param);
    *out = n;
    return check_node(r);
}

static kiln_status check_head(const reader *r, const kiln_plugin *p)
{
    if (p->magic != KILN_MAGIC)
        return bad(r, "kiln_plugin_v1 does not start with the magic number; declare it with KILN_PLUGIN()");
    if (p->abi_major != KILN_ABI_MAJOR)
        return error_set(r->e, KILN_ERR_UNSUPPORTED,
                         "made for version %u of the plugin contract, this kiln has %d; rebuild it", p->abi_major,
                         KILN_ABI_MAJOR);
    if (p->abi_minor > KILN_ABI_NEWEST)
        return error_set(r->e, KILN_ERR_UNSUPPORTED,
                         "needs version %u.%u of the plugin contract, this kiln has %d.%d; get a newer kiln",
                         p->abi_major, p->abi_minor, KILN_ABI_MAJOR, KILN_ABI_NEWEST);
    if (p->size < PLUGIN_1_0 || p->size > STRUCT_MAX)
        return bad(r, "the table says it is %u bytes; version 1.0 of the contract has %d", p->size, PLUGIN_1_0);
    if (p->n_node > NODES_MAX) return bad(r, "%u nodes; the most is %d", p->n_node, NODES_MAX);
    return KILN_OK;
}

kiln_status table_read(const void *raw, arena *memory, kiln_plugin *out, error *e)
{
    reader r = {.memory = memory, .e = e};
    kiln_plugin p = {0};
    memcpy(&p, raw, 16); /* magic, size, version, n_node: frozen for ever */
    TRY(check_head(&r, &p));
    memcpy(&p, raw, p.size < sizeof p ? p.size : sizeof p);
    if (p.n_node && !p.node) return bad(&r, "%u nodes but no array of them", p.n_node);
    if (!name_is_valid(p.id) || !strchr(p.id, '.'))
        return bad(&r, "no usable id; it is a reverse domain like org.example.gain");
    if (!line_is_valid(p.version)) return bad(&r, "no version; give it one like \"1.0.0\"");
    if (!line_is_valid(p.license)) return bad(&r, "no license; name it, like \"MIT\"");
    if (!p.n_node && !p.open) return bad(&r, "neither nodes nor an open(): nothing to load");
    const kiln_node **node = arena_alloc(memory, (p.n_node + 1) * sizeof *node);
    if (!node) return error_set(e, KILN_ERR_NOMEM, "out of memory");
    for (uint32_t i = 0; i < p.n_node; i++) {
        TRY(read_node(&r, p.node[i], i, &node[i]));
        for (uint32_t j = 0; j < i; j++)
            if (strcmp(node[i]->type, node[j]->type) == 0) return bad(&r, "the table has this node type twice");
    }
    p.size = sizeof p;
    p.node = node;
    *out = p;
    return KILN_OK;
}
