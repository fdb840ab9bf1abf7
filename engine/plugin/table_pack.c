/* table_pack.c - see table_pack.h. Numbers are little endian as they lie in memory; a text is its length plus 1 (0:
 * NULL) and its bytes. Who reads it is of the writer's version of kiln (probe_key()), so there is none here but the
 * kind of each part. */
#include "plugin/table_pack.h"

#include "param/param_rows.h"

#include <string.h>

enum { PART_TABLE = 0x6b740001, PART_SAMPLER, PART_SCHEDULE, PART_OTHERS, TEXT_MAX = 1 << 20 };

/* ---- writing ---- */

static void put(str *to, const void *from, size_t n) { str_append_n(to, from, n); }
static void put_u32(str *to, uint32_t v) { put(to, &v, sizeof v); }
static void put_u64(str *to, uint64_t v) { put(to, &v, sizeof v); }
static void put_number(str *to, double v) { put(to, &v, sizeof v); }

static void put_text(str *to, const char *text)
{
    size_t n = text ? strnlen(text, TEXT_MAX) : 0;
    put_u32(to, text ? (uint32_t)n + 1 : 0);
    put(to, text ? text : "", n);
}

static void put_ports(str *to, const kiln_port *port, uint32_t n)
{
    put_u32(to, n);
    for (uint32_t i = 0; i < n; i++) {
        const kiln_port *p = &port[i];
        put_text(to, p->name), put_text(to, p->doc), put_text(to, p->type);
        put_u32(to, p->flags), put_u32(to, p->dtypes), put_u32(to, p->rank_min), put_u32(to, p->rank_max);
    }
}

static const kiln_choice *choice_at(const kiln_param *p, uint32_t i)
{
    return (const void *)((const char *)p->choice + (size_t)i * p->choice_stride);
}

static void put_param(str *to, const kiln_param *p)
{
    uint32_t n = 0;
    while (p->choice && choice_at(p, n)->name) n++;
    put_text(to, p->name), put_text(to, p->doc), put_text(to, p->def_str), put_text(to, p->from);
    put_u32(to, p->type), put_u32(to, p->flags), put_u64(to, p->offset);
    put_number(to, p->def), put_number(to, p->min), put_number(to, p->max), put_number(to, p->step);
    put_u32(to, n);
    for (uint32_t i = 0; i < n; i++) {
        const kiln_choice *c = choice_at(p, i);
        put_text(to, c->name), put_text(to, c->doc), put_u64(to, (uint64_t)c->value);
    }
}

/* A sampler's rows have its plugin's stride; a checked table's have ours. */
static void put_params(str *to, const kiln_param *param, uint32_t n, uint32_t stride, size_t struct_size)
{
    put_u64(to, struct_size);
    put_u32(to, n);
    for (uint32_t i = 0; i < n; i++) {
        kiln_param row = {0};
        memcpy(&row, (const char *)param + (size_t)i * stride, stride < sizeof row ? stride : sizeof row);
        put_param(to, &row);
    }
}

static void put_node(str *to, const kiln_node *n)
{
    put_text(to, n->type), put_text(to, n->title), put_text(to, n->category), put_text(to, n->doc);
    put_u32(to, n->flags), put_u32(to, n->devices), put_u32(to, n->revision);
    put_ports(to, n->in, n->n_in);
    put_ports(to, n->out, n->n_out);
    put_params(to, n->param, n->n_param, n->param_stride, n->params_size);
}

void table_pack(str *to, const kiln_plugin *t)
{
    put_u32(to, PART_TABLE);
    put_text(to, t->id), put_text(to, t->version), put_text(to, t->license);
    put_u32(to, t->n_node);
    for (uint32_t i = 0; i < t->n_node; i++) put_node(to, t->node[i]);
}

void table_pack_sampler(str *to, const kiln_sampler *s)
{
    kiln_sampler row;
    if (!KILN_READ(&row, s, run)) return;
    put_u32(to, PART_SAMPLER);
    put_text(to, row.name), put_text(to, row.doc), put_text(to, row.source);
    put_u32(to, row.flags), put_u32(to, row.order), put_number(to, row.evaluations);
    put_params(to, row.param, row.n_param, row.param_stride, row.params_size);
}

void table_pack_schedule(str *to, const kiln_schedule *s)
{
    kiln_schedule row;
    if (!KILN_READ(&row, s, make)) return;
    put_u32(to, PART_SCHEDULE);
    put_text(to, row.name), put_text(to, row.doc), put_text(to, row.source);
    put_u32(to, row.flags);
}

void table_pack_others(str *to) { put_u32(to, PART_OTHERS); }

/* ---- reading ---- */

typedef struct {
    const char *at;
    size_t left;
    arena *memory;
    int failed;
} bytes;

static void get(bytes *b, void *to, size_t n)
{
    memset(to, 0, n);
    if (b->left < n) b->failed = 1;
    if (b->failed) return;
    memcpy(to, b->at, n);
    b->at += n, b->left -= n;
}

static uint32_t get_u32(bytes *b)
{
    uint32_t v;
    return get(b, &v, sizeof v), v;
}

static uint64_t get_u64(bytes *b)
{
    uint64_t v;
    return get(b, &v, sizeof v), v;
}

static double get_number(bytes *b)
{
    double v;
    return get(b, &v, sizeof v), v;
}

/* Rows of which each takes more than `least` bytes. */
static void *get_rows(bytes *b, uint32_t *n, size_t least, size_t size)
{
    *n = get_u32(b);
    if (*n > b->left / least) b->failed = 1;
    void *rows = b->failed ? NULL : arena_alloc(b->memory, ((size_t)*n + 1) * size); /* zeros */
    if (!rows) b->failed = 1, *n = 0;
    return rows;
}

static const char *get_text(bytes *b)
{
    uint32_t n = get_u32(b);
    if (!n) return NULL;
    if (n - 1 > b->left || n - 1 > TEXT_MAX || memchr(b->at, '\0', n - 1)) b->failed = 1;
    char *text = b->failed ? NULL : arena_alloc(b->memory, n);
    if (!text) return b->failed = 1, NULL;
    get(b, text, n - 1);
    text[n - 1] = '\0';
    return text;
}

static const kiln_port *get_ports(bytes *b, uint32_t *n)
{
    kiln_port *port = get_rows(b, n, 28, sizeof *port);
    for (uint32_t i = 0; i < *n && !b->failed; i++) {
        kiln_port *p = &port[i];
        p->name = get_text(b), p->doc = get_text(b), p->type = get_text(b);
        p->flags = get_u32(b), p->dtypes = get_u32(b), p->rank_min = get_u32(b), p->rank_max = get_u32(b);
    }
    return *n ? port : NULL;
}

static void get_param(bytes *b, kiln_param *p)
{
    uint32_t n;
    p->name = get_text(b), p->doc = get_text(b), p->def_str = get_text(b), p->from = get_text(b);
    p->type = get_u32(b), p->flags = get_u32(b) & ~(uint32_t)KILN_PARAM_PASSED, p->offset = (size_t)get_u64(b);
    p->def = get_number(b), p->min = get_number(b), p->max = get_number(b), p->step = get_number(b);
    kiln_choice *choice = get_rows(b, &n, 16, sizeof *choice);
    for (uint32_t i = 0; i < n && !b->failed; i++) {
        choice[i].name = get_text(b), choice[i].doc = get_text(b), choice[i].value = (int64_t)get_u64(b);
        if (!choice[i].name) b->failed = 1; /* that would be the end of the list */
    }
    if (n) p->choice = choice, p->choice_stride = sizeof *choice;
}

static const kiln_param *get_params(bytes *b, uint32_t *n, size_t *struct_size)
{
    *struct_size = (size_t)get_u64(b);
    kiln_param *param = get_rows(b, n, 68, sizeof *param);
    for (uint32_t i = 0; i < *n && !b->failed; i++) get_param(b, &param[i]);
    return *n ? param : NULL;
}

/* ---- in the place of the plugin's functions ---- */

static kiln_status run_nothing(const kiln_call *c)
{
    return c->host->fail(c->ctx, KILN_ERR_BUG, "its plugin is not in this process");
}

static kiln_status want_nothing(const kiln_call *c, uint64_t *inputs)
{
    (void)c;
    *inputs = 0;
    return KILN_OK;
}

static kiln_status sample_nothing(const kiln_sampling *s)
{
    (void)s;
    return KILN_ERR_BUG;
}

static size_t make_nothing(const kiln_schedule_input *in, double *out, size_t capacity)
{
    (void)in, (void)out, (void)capacity;
    return 0;
}

static void get_node(bytes *b, kiln_node *n)
{
    const uint32_t needs_code = KILN_NODE_EXPANDS | KILN_NODE_ESTIMATES | KILN_NODE_DEVICE;
    *n = (kiln_node){.size = sizeof *n, .run = run_nothing};
    n->type = get_text(b), n->title = get_text(b), n->category = get_text(b), n->doc = get_text(b);
    n->flags = get_u32(b) & ~needs_code, n->devices = get_u32(b), n->revision = get_u32(b);
    n->in = get_ports(b, &n->n_in), n->in_stride = sizeof(kiln_port);
    n->out = get_ports(b, &n->n_out), n->out_stride = sizeof(kiln_port);
    n->param = get_params(b, &n->n_param, &n->params_size), n->param_stride = sizeof(kiln_param);
    for (uint32_t i = 0; n->in && i < n->n_in; i++)
        if (n->in[i].flags & KILN_PORT_LAZY) n->wants = want_nothing;
}

/* ---- the whole ---- */

static kiln_status faulty(error *e)
{
    return error_set(e, KILN_ERR_INVALID, "what its process said about its table is no table");
}

static kiln_status no_memory(error *e) { return error_set(e, KILN_ERR_NOMEM, "out of memory"); }

static kiln_status open_nothing(const kiln_host *host)
{
    (void)host;
    return KILN_OK;
}

static kiln_status get_table(bytes *b, kiln_plugin *out, error *e)
{
    uint32_t n_node;
    kiln_plugin raw = {
        .magic = KILN_MAGIC, .size = sizeof raw, .abi_major = KILN_ABI_MAJOR, .abi_minor = 0, .open = open_nothing};
    raw.id = get_text(b), raw.version = get_text(b), raw.license = get_text(b);
    kiln_node *node = get_rows(b, &n_node, 44, sizeof *node);
    const kiln_node **list = arena_alloc(b->memory, ((size_t)n_node + 1) * sizeof *list);
    if (!list) return no_memory(e);
    for (uint32_t i = 0; i < n_node && !b->failed; i++) get_node(b, &node[i]), list[i] = &node[i];
    if (b->failed) return faulty(e);
    raw.n_node = n_node, raw.node = list;
    return table_read(&raw, b->memory, out, e);
}

/* The rows with room for one more; NULL: no memory. */
static void *one_more(bytes *b, void *rows, size_t n, size_t size)
{
    if (n & (n - 1) || (!n && rows)) return rows; /* it grows at each power of two */
    void *all = arena_alloc(b->memory, (n ? 2 * n : 1) * size);
    if (all && n) memcpy(all, rows, n * size);
    return all;
}

/* As the registry takes names. */
static int is_registrable(const char *name) { return name && name[0] && strlen(name) <= 128; }

static kiln_status get_sampler(bytes *b, unpacked_table *out, error *e)
{
    kiln_sampler s = {.size = sizeof s, .run = sample_nothing, .param_stride = sizeof(kiln_param)};
    s.name = get_text(b), s.doc = get_text(b), s.source = get_text(b);
    s.flags = get_u32(b), s.order = get_u32(b), s.evaluations = get_number(b);
    s.param = get_params(b, &s.n_param, &s.params_size);
    const kiln_param_table rows = {.size = sizeof rows,
                                   .noun = "option",
                                   .param = s.param,
                                   .n_param = s.n_param,
                                   .param_stride = s.param_stride,
                                   .params_size = s.params_size};
    if (b->failed || !is_registrable(s.name)) return faulty(e);
    TRY(param_rows_check(&rows, e));
    kiln_sampler *all = one_more(b, out->sampler, out->n_sampler, sizeof *all);
    if (!all) return no_memory(e);
    all[out->n_sampler++] = s;
    out->sampler = all;
    return KILN_OK;
}

static kiln_status get_schedule(bytes *b, unpacked_table *out, error *e)
{
    kiln_schedule s = {.size = sizeof s, .make = make_nothing};
    s.name = get_text(b), s.doc = get_text(b), s.source = get_text(b), s.flags = get_u32(b);
    if (b->failed || !is_registrable(s.name)) return faulty(e);
    kiln_schedule *all = one_more(b, out->schedule, out->n_schedule, sizeof *all);
    if (!all) return no_memory(e);
    all[out->n_schedule++] = s;
    out->schedule = all;
    return KILN_OK;
}

kiln_status table_unpack(const void *from, size_t n, arena *memory, unpacked_table *out, error *e)
{
    bytes b = {.at = from, .left = n, .memory = memory};
    *out = (unpacked_table){0};
    if (get_u32(&b) != PART_TABLE) return faulty(e);
    TRY(get_table(&b, &out->table, e));
    while (b.left) {
        uint32_t part = get_u32(&b);
        if (part == PART_SAMPLER)
            TRY(get_sampler(&b, out, e));
        else if (part == PART_SCHEDULE)
            TRY(get_schedule(&b, out, e));
        else if (part == PART_OTHERS)
            out->others = 1;
        else
            return faulty(e);
    }
    return KILN_OK;
}
