/* fuzz_plugin_table.c - any bytes as a plugin's table. libFuzzer; `make fuzz`.
 *
 * An even first byte: what follows is a packed table (plugin/table_pack.h), as a process that a plugin has ruined may
 * send it. An odd one: a table is built whose sizes, strides, counts, flags, NULLs and texts the bytes choose, in
 * memory that is just as large as it says, and is read as the loader does. What is refused has a sentence. What is
 * taken is described to the end, fills its structs with its defaults, and comes through packing and unpacking as it
 * was.
 */
#include "base/memory_alloc.h"
#include "param/param_text.h"
#include "plugin/abilities.h"
#include "plugin/ctx.h"
#include "plugin/table_pack.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition) ((condition) ? (void)0 : __builtin_trap()) /* the fuzzer keeps the input */

/* ---- what is taken ---- */

static size_t length(const char *text) { return text ? strlen(text) : 0; }

static size_t ports_length(const kiln_port *port, uint32_t n)
{
    size_t all = 0;
    for (uint32_t i = 0; i < n; i++) all += strlen(port[i].name) + strlen(port[i].doc) + strlen(port[i].type);
    return all;
}

static void fill_defaults(const kiln_param *param, uint32_t n, uint32_t stride, size_t struct_size)
{
    kiln_ctx c = {0};
    const kiln_param_table rows = {
        .size = sizeof rows, .param = param, .n_param = n, .param_stride = stride, .params_size = struct_size};
    void *at = struct_size && struct_size < 1 << 20 ? calloc(1, struct_size) : NULL;
    if (at) MUST(params_api.fill(&c, &rows, NULL, at) == KILN_OK || c.failure.message[0]);
    free(at);
    arena_free(&c.scratch);
}

static void describe_node(const kiln_node *n)
{
    MUST(n->size == sizeof *n && n->in_stride == sizeof(kiln_port) && n->param_stride == sizeof(kiln_param));
    MUST(length(n->type) && length(n->doc) && (n->run || n->expand));
    MUST(ports_length(n->in, n->n_in) + ports_length(n->out, n->n_out) + length(n->title) + length(n->category) <
         SIZE_MAX);
    for (uint32_t i = 0; i < n->n_param; i++) {
        str text = {0};
        const kiln_param *p = &n->param[i];
        MUST(length(p->name) && length(p->doc));
        for (const kiln_choice *c = p->choice; c && c->name; c = (const void *)((const char *)c + p->choice_stride))
            MUST(length(c->name));
        str_double(&text, p->def), str_double(&text, p->min), str_double(&text, p->max);
        str_free(&text);
    }
    fill_defaults(n->param, n->n_param, n->param_stride, n->params_size);
}

static void pack_whole(str *to, const kiln_plugin *t, const unpacked_table *rows)
{
    table_pack(to, t);
    for (size_t i = 0; rows && i < rows->n_sampler; i++) table_pack_sampler(to, &rows->sampler[i]);
    for (size_t i = 0; rows && i < rows->n_schedule; i++) table_pack_schedule(to, &rows->schedule[i]);
    if (rows && rows->others) table_pack_others(to);
}

/* Once packed and unpacked, what needs code is gone; from then on nothing changes any more. */
static void check_taken(const kiln_plugin *t, const unpacked_table *rows)
{
    arena memory = {0};
    unpacked_table once, twice;
    error e = {0};
    str first = {0}, second = {0};
    MUST(length(t->id) && length(t->version) && length(t->license));
    for (uint32_t i = 0; i < t->n_node; i++) describe_node(t->node[i]);
    for (size_t i = 0; rows && i < rows->n_sampler; i++) {
        const kiln_sampler *s = &rows->sampler[i];
        MUST(length(s->name) && s->run(NULL) != KILN_OK);
        fill_defaults(s->param, s->n_param, s->param_stride, s->params_size);
    }
    pack_whole(&first, t, rows);
    MUST(table_unpack(first.data, first.len, &memory, &once, &e) == KILN_OK);
    str_free(&first), first = (str){0};
    pack_whole(&first, &once.table, &once);
    MUST(table_unpack(first.data, first.len, &memory, &twice, &e) == KILN_OK);
    pack_whole(&second, &twice.table, &twice);
    MUST(first.len == second.len && memcmp(first.data, second.data, first.len) == 0);
    str_free(&first), str_free(&second);
    arena_free(&memory);
}

static void check_packed(const uint8_t *data, size_t size)
{
    arena memory = {0};
    unpacked_table t;
    error e = {0};
    if (table_unpack(data, size, &memory, &t, &e) != KILN_OK)
        MUST(e.message[0]);
    else
        check_taken(&t.table, &t);
    arena_free(&memory);
}

/* ---- a table from bytes ---- */

typedef struct {
    const uint8_t *at;
    size_t left;
    arena memory;
    void *block[256]; /* each just as large as the table says, so that a byte beside one is found */
    size_t n_block;
} source;

static uint32_t byte(source *s) { return s->left ? s->left--, *s->at++ : 0; }
static uint32_t word(source *s) { return byte(s) | byte(s) << 8 | byte(s) << 16 | byte(s) << 24; }

static void *block(source *s, size_t n)
{
    if (s->n_block == sizeof s->block / sizeof *s->block) return NULL;
    return s->block[s->n_block++] = calloc(1, n ? n : 1);
}

static const char *text(source *s)
{
    static const char *const usual[] = {
        "a", "b", "image", "IMAGE", "*", "*T", "A line of help.", "org.example.x", "1.0.0", "sampler"};
    uint32_t way = byte(s);
    if (way == 0) return NULL;
    if (way < 200) return usual[way % (sizeof usual / sizeof *usual)];
    size_t n = byte(s);
    char *own = block(s, n + 1);
    for (size_t i = 0; own && i < n; i++) own[i] = (char)byte(s);
    return own;
}

static double number(source *s)
{
    static const double usual[] = {0, 1, -1, 0.5, 100, 1e300, -1e300};
    uint32_t way = byte(s);
    return way < 250 ? usual[way % 7] : way == 250 ? 0.0 / 0.0 : (double)(int32_t)word(s);
}

/* The struct's own size most of the time. */
static uint32_t size_of(source *s, size_t own)
{
    uint32_t way = byte(s);
    return way < 240   ? (uint32_t)own
           : way < 248 ? (uint32_t)own + 8 * (way - 239)
           : way < 252 ? (uint32_t)own - 8
                       : word(s);
}

/* n rows of `stride` bytes; each row is written as far as both the stride and the struct go. */
static void *rows(source *s, uint32_t *n, uint32_t *stride, size_t size, void (*fill)(source *, void *row))
{
    *n = byte(s) % 6;
    *stride = size_of(s, size);
    if (byte(s) > 250 || *stride > 4096) return NULL;
    char *all = block(s, (size_t)*n * *stride);
    char row[256];
    for (uint32_t i = 0; all && i < *n; i++) {
        memset(row, 0, sizeof row);
        fill(s, row);
        memcpy(all + (size_t)i * *stride, row, *stride < size ? *stride : size);
    }
    return all;
}

static void fill_port(source *s, void *row)
{
    const kiln_port p = {.name = text(s),
                         .doc = text(s),
                         .type = text(s),
                         .flags = byte(s) % 9,
                         .dtypes = byte(s) % 3 * 2,
                         .rank_min = byte(s) % 4,
                         .rank_max = byte(s) % 9};
    memcpy(row, &p, sizeof p);
}

static void fill_param(source *s, void *row)
{
    kiln_param p = {.name = text(s),
                    .doc = text(s),
                    .type = byte(s) % 10,
                    .flags = byte(s) % 4,
                    .offset = byte(s) % 8 * 8,
                    .def = number(s),
                    .min = number(s),
                    .max = number(s),
                    .step = number(s)};
    p.def_str = text(s), p.from = text(s);
    uint32_t n = byte(s) % 5;
    if (p.type == KILN_P_ENUM && n) {
        p.choice_stride = size_of(s, sizeof(kiln_choice));
        kiln_choice *c = p.choice_stride == sizeof *c ? block(s, n * sizeof *c) : NULL;
        for (uint32_t i = 0; c && i + 1 < n; i++)
            c[i] = (kiln_choice){.name = text(s), .doc = text(s), .value = (int32_t)byte(s) - 128};
        p.choice = c;
    }
    memcpy(row, &p, sizeof p);
}

static kiln_status run(const kiln_call *c) { return (void)c, KILN_OK; }
static kiln_status wants(const kiln_call *c, uint64_t *in) { return (void)c, *in = 0, KILN_OK; }
static kiln_status expand(const kiln_call *c, kiln_graph *g) { return (void)c, (void)g, KILN_OK; }
static kiln_status open_it(const kiln_host *h) { return (void)h, KILN_OK; }

/* In memory as large as its size says, and 64 KiB at the most: who says more is refused before it is read. */
static const void *sized(source *s, const void *whole, size_t own)
{
    uint32_t size;
    memcpy(&size, whole, sizeof size);
    char *at = block(s, size <= 65536 && size > own ? size : own);
    return at ? memcpy(at, whole, own) : NULL;
}

static const kiln_node *make_node(source *s)
{
    kiln_node n = {
        .size = size_of(s, sizeof n), .type = text(s), .title = text(s), .category = text(s), .doc = text(s)};
    uint32_t functions = byte(s);
    n.flags = byte(s) % 128, n.devices = byte(s) % 4, n.revision = byte(s) % 3;
    n.in = rows(s, &n.n_in, &n.in_stride, sizeof(kiln_port), fill_port);
    n.out = rows(s, &n.n_out, &n.out_stride, sizeof(kiln_port), fill_port);
    n.param = rows(s, &n.n_param, &n.param_stride, sizeof(kiln_param), fill_param);
    n.params_size = byte(s) % 16 * 8;
    n.run = functions & 1 ? NULL : run, n.wants = functions & 2 ? wants : NULL;
    n.expand = functions & 4 ? expand : NULL, n.check = functions & 8 ? run : NULL;
    return sized(s, &n, sizeof n);
}

static void check_raw(const uint8_t *data, size_t size)
{
    source s = {.at = data, .left = size};
    kiln_plugin p = {.magic = KILN_MAGIC, .abi_major = KILN_ABI_MAJOR, .n_node = byte(&s) % 4};
    error e = {0};
    kiln_plugin taken;
    p.size = size_of(&s, sizeof p);
    p.abi_minor = (uint16_t)(byte(&s) % 3);
    if (byte(&s) > 250) p.magic = word(&s);
    p.id = text(&s), p.version = text(&s), p.license = text(&s);
    p.open = byte(&s) % 2 ? open_it : NULL;
    const kiln_node **node = block(&s, (p.n_node + 1) * sizeof *node);
    for (uint32_t i = 0; node && i < p.n_node; i++) node[i] = byte(&s) < 250 ? make_node(&s) : NULL;
    p.node = byte(&s) < 250 ? node : NULL;
    char *at = block(&s, sizeof p + 65536);
    if (at) {
        memcpy(at, &p, sizeof p);
        if (table_read(at, &s.memory, &taken, &e) != KILN_OK)
            MUST(e.message[0]);
        else
            check_taken(&taken, NULL);
    }
    for (size_t i = 0; i < s.n_block; i++) free(s.block[i]);
    arena_free(&s.memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > 1 << 16) return 0;
    if (data[0] & 1)
        check_raw(data + 1, size - 1);
    else
        check_packed(data + 1, size - 1);
    return 0;
}
