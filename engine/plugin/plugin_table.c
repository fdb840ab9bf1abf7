/* plugin_table.c - reading a plugin's table; see plugin_table.h. */
#include "plugin/plugin_table.h"

#include "base/checked.h"

#include <math.h>
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
    CHOICES_MAX = 1000,
    STRUCT_MAX = 65536,
    PARAMS_SIZE_MAX = 1 << 20,
    TEXT_MAX = 16384,
    NAME_MAX_ = 128
};
enum {
    NODE_FLAGS = KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_OUTPUT | KILN_NODE_DEVICE | KILN_NODE_ESTIMATES,
    PORT_FLAGS = KILN_PORT_OPTIONAL | KILN_PORT_LIST,
    PARAM_FLAGS = KILN_PARAM_REQUIRED | KILN_PARAM_MULTILINE | KILN_PARAM_NEUTRAL | KILN_PARAM_FLOORED,
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

int table_name_ok(const char *name)
{
    size_t n = name ? strnlen(name, NAME_MAX_ + 1) : 0;
    if (n == 0 || n > NAME_MAX_) return 0;
    for (size_t i = 0; i < n; i++) {
        char c = name[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr("_.+-", c)))
            return 0;
    }
    return 1;
}

/* One line of text for people: there, not empty, not endless, no control characters. */
static int text_ok(const char *text)
{
    size_t n = text ? strnlen(text, TEXT_MAX + 1) : 0;
    if (n == 0 || n > TEXT_MAX) return 0;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f) return 0;
    return 1;
}

size_t table_param_size(uint32_t type)
{
    static const uint8_t size[] = {
        [KILN_P_BOOL] = sizeof(int32_t),        [KILN_P_INT] = sizeof(int64_t),
        [KILN_P_SEED] = sizeof(uint64_t),       [KILN_P_FLOAT] = sizeof(double),
        [KILN_P_ENUM] = sizeof(int32_t),        [KILN_P_NAME] = sizeof(const char *),
        [KILN_P_STRING] = sizeof(const char *), [KILN_P_FILE] = sizeof(const char *),
    };
    return type < sizeof size ? size[type] : 0;
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
    if (!table_name_ok(p->name)) return bad(r, "%s %u has no usable name; names are [A-Za-z0-9_.+-]{1,128}", what, i);
    if (!text_ok(p->doc)) return bad(r, "%s '%s' has no doc; give it one line of help", what, p->name);
    if (!p->type || (strcmp(p->type, "*") != 0 && !table_name_ok(p->type)))
        return bad(r, "%s '%s' has no usable type; say \"IMAGE\", a name of your own or \"*\"", what, p->name);
    if (p->flags & ~(uint32_t)PORT_FLAGS)
        return bad(r, "%s '%s' has flags 0x%x this version does not know", what, p->name, p->flags);
    if (p->dtypes & ~(uint32_t)DTYPES)
        return bad(r, "%s '%s' allows dtypes 0x%x this version does not know", what, p->name, p->dtypes);
    if (p->rank_min > p->rank_max || p->rank_max > KILN_MAX_RANK)
        return bad(r, "%s '%s' takes ranks %u to %u; 0 <= rank_min <= rank_max <= %d", what, p->name, p->rank_min,
                   p->rank_max, KILN_MAX_RANK);
    return KILN_OK;
}

static kiln_status check_ports(const reader *r)
{
    const kiln_node *n = r->node;
    for (uint32_t i = 0; i < n->n_in; i++) {
        TRY(check_port(r, "input", &n->in[i], i));
        for (uint32_t j = 0; j < i; j++)
            if (strcmp(n->in[i].name, n->in[j].name) == 0)
                return bad(r, "two inputs are called '%s'; every name once", n->in[i].name);
    }
    for (uint32_t i = 0; i < n->n_out; i++) {
        TRY(check_port(r, "output", &n->out[i], i));
        if (n->out[i].flags) return bad(r, "output '%s' has flags of an input (OPTIONAL, LIST)", n->out[i].name);
        for (uint32_t j = 0; j < i; j++)
            if (strcmp(n->out[i].name, n->out[j].name) == 0)
                return bad(r, "two outputs are called '%s'; every name once", n->out[i].name);
    }
    return KILN_OK;
}

/* ---- parameters ---- */

static kiln_status check_place(const reader *r, const kiln_param *p, uint32_t i)
{
    const kiln_node *n = r->node;
    size_t size = table_param_size(p->type), end;
    if (!checked_add_size(p->offset, size, &end) || end > n->params_size)
        return bad(r,
                   "parameter '%s' lies at offset %zu, past the %zu bytes of params_size; use offsetof and sizeof of "
                   "one struct",
                   p->name, p->offset, n->params_size);
    if (p->offset % size)
        return bad(r, "parameter '%s' lies at offset %zu, which is not a multiple of its %zu bytes", p->name, p->offset,
                   size);
    for (uint32_t j = 0; j < i; j++) {
        const kiln_param *q = &n->param[j];
        if (p->offset < q->offset + table_param_size(q->type) && q->offset < end)
            return bad(r, "parameters '%s' and '%s' lie at the same place; give each its own member", q->name, p->name);
    }
    return KILN_OK;
}

static kiln_status check_choices(const reader *r, const kiln_param *p)
{
    size_t n = 0;
    int found = 0;
    if (!p->choice) return bad(r, "parameter '%s' is an ENUM without choices", p->name);
    for (; p->choice[n].name; n++) {
        if (n == CHOICES_MAX)
            return bad(r, "parameter '%s' has more than %d choices; the list ends with a row whose name is NULL",
                       p->name, CHOICES_MAX);
        if (!text_ok(p->choice[n].name)) return bad(r, "choice %zu of parameter '%s' has no usable name", n, p->name);
        if (p->choice[n].value < INT32_MIN || p->choice[n].value > INT32_MAX)
            return bad(r, "choice '%s' of parameter '%s' has a value beyond int32_t", p->choice[n].name, p->name);
        found |= (double)p->choice[n].value == p->def;
        for (size_t k = 0; k < n; k++)
            if (strcmp(p->choice[k].name, p->choice[n].name) == 0)
                return bad(r, "parameter '%s' has the choice '%s' twice", p->name, p->choice[n].name);
    }
    if (!n) return bad(r, "parameter '%s' is an ENUM without choices", p->name);
    if (!found && !(p->flags & KILN_PARAM_REQUIRED))
        return bad(r, "the default %g of parameter '%s' is the value of no choice", p->def, p->name);
    return KILN_OK;
}

static kiln_status check_range(const reader *r, const kiln_param *p)
{
    if (!isfinite(p->def) || !isfinite(p->min) || !isfinite(p->max) || !isfinite(p->step) || p->step < 0)
        return bad(r, "the range of parameter '%s' is not finite", p->name);
    if (!(p->min <= p->max))
        return bad(r, "parameter '%s' takes %g to %g; min has to be below max", p->name, p->min, p->max);
    if (!(p->flags & KILN_PARAM_REQUIRED) && !(p->min <= p->def && p->def <= p->max))
        return bad(r, "the default %g of parameter '%s' is outside its range %g to %g", p->def, p->name, p->min,
                   p->max);
    if (p->type == KILN_P_INT && (p->def != floor(p->def) || fabs(p->min) > 9.3e18 || fabs(p->max) > 9.3e18))
        return bad(r, "the default and range of parameter '%s' have to be whole numbers of 64 bits", p->name);
    return KILN_OK;
}

static kiln_status check_by_type(const reader *r, const kiln_param *p)
{
    switch (p->type) {
    case KILN_P_INT:
    case KILN_P_FLOAT: return check_range(r, p);
    case KILN_P_ENUM: return check_choices(r, p);
    case KILN_P_BOOL:
        if (p->def != 0 && p->def != 1)
            return bad(r, "the default of parameter '%s' is %g; a BOOL is 0 or 1", p->name, p->def);
        return KILN_OK;
    case KILN_P_SEED:
        if (!(p->def >= 0 && p->def < 18446744073709551616.0))
            return bad(r, "the default of parameter '%s' is %g; a SEED is 0 or more", p->name, p->def);
        return KILN_OK;
    case KILN_P_NAME:
    case KILN_P_FILE:
        if (!table_name_ok(p->from))
            return bad(r, "parameter '%s' does not say where its names come from; set .from", p->name);
        return KILN_OK;
    default: return KILN_OK;
    }
}

static kiln_status check_params(const reader *r)
{
    const kiln_node *n = r->node;
    if (n->params_size > PARAMS_SIZE_MAX)
        return bad(r, "params_size is %zu; the most is %d", n->params_size, PARAMS_SIZE_MAX);
    for (uint32_t i = 0; i < n->n_param; i++) {
        const kiln_param *p = &n->param[i];
        if (!table_name_ok(p->name))
            return bad(r, "parameter %u has no usable name; names are [A-Za-z0-9_.+-]{1,128}", i);
        if (!text_ok(p->doc)) return bad(r, "parameter '%s' has no doc; give it one line of help", p->name);
        if (!table_param_size(p->type))
            return bad(r, "parameter '%s' has type %u, which this version does not know", p->name, p->type);
        if (p->flags & ~(uint32_t)PARAM_FLAGS)
            return bad(r, "parameter '%s' has flags 0x%x this version does not know", p->name, p->flags);
        if (p->flags & KILN_PARAM_FLOORED &&
            (p->type != KILN_P_INT || !(p->step >= 1 && p->step == floor(p->step) && p->step <= 1e9)))
            return bad(r, "parameter '%s' is FLOORED; that takes type INT and a whole step of 1 at least", p->name);
        for (uint32_t j = 0; j < i; j++)
            if (strcmp(p->name, n->param[j].name) == 0)
                return bad(r, "two parameters are called '%s'; every name once", p->name);
        for (uint32_t j = 0; j < n->n_in; j++)
            if (strcmp(p->name, n->in[j].name) == 0)
                return bad(r, "an input and a parameter are both called '%s'; every name once", p->name);
        TRY(check_place(r, p, i));
        TRY(check_by_type(r, p));
    }
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
    if (!text_ok(n->doc)) return bad(r, "no doc; give it one line of help");
    if ((n->title && !text_ok(n->title)) || (n->category && !text_ok(n->category)))
        return bad(r, "title and category are one line of text each");
    if (!n->run) return bad(r, "no run()");
    if (n->destroy && !n->create) return bad(r, "destroy() without create()");
    if (!n->n_out && !(n->flags & KILN_NODE_OUTPUT))
        return bad(r, "neither outputs nor KILN_NODE_OUTPUT: nothing could ever ask for it");
    TRY(check_ports(r));
    return check_params(r);
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
    if (!table_name_ok(n->type)) return bad(r, "node %zu has no usable type; types are [A-Za-z0-9_.+-]{1,128}", i);
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
    if (p->abi_minor > KILN_ABI_MINOR)
        return error_set(r->e, KILN_ERR_UNSUPPORTED,
                         "needs version %u.%u of the plugin contract, this kiln has %d.%d; get a newer kiln",
                         p->abi_major, p->abi_minor, KILN_ABI_MAJOR, KILN_ABI_MINOR);
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
    if (!table_name_ok(p.id) || !strchr(p.id, '.'))
        return bad(&r, "no usable id; it is a reverse domain like org.example.gain");
    if (!text_ok(p.version)) return bad(&r, "no version; give it one like \"1.0.0\"");
    if (!text_ok(p.license)) return bad(&r, "no license; name it, like \"MIT\"");
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
