/* fake_catalog.h - a catalogue of node types in memory, for tests of what reads, checks, keys and runs workflows.
 *
 * One type of each sort: wired and unwired parameters of every kind, optional ports, list ports, "*" ports, an output
 * node, one that is not PURE, a device node; a constant, a switch, a list of what is given and one of `amount` images,
 * a node that expands into `amount` Decodes (Chain), into itself `amount` deep (Nest). Files of kind "checkpoints" are
 * looked for in fake_files_folder.
 */
#ifndef KILN_TESTS_FAKE_CATALOG_H
#define KILN_TESTS_FAKE_CATALOG_H

#include "base/file.h"
#include "param/subgraph.h"
#include "workflow/check.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    const char *ckpt;
} fake_load_params;
typedef struct {
    const char *text;
} fake_text_params;
typedef struct {
    int64_t width, height;
} fake_blank_params;
typedef struct {
    uint64_t seed;
    int64_t steps, preview;
    double cfg;
    int32_t mode, noise;
    const char *sampler;
} fake_sample_params;
typedef struct {
    int64_t amount;
} fake_number_params;

static const kiln_port fake_model_out[] = {{.name = "MODEL", .type = "MODEL"}, {.name = "CLIP", .type = "CLIP"}};
static const kiln_port fake_clip_in[] = {{.name = "clip", .type = "CLIP"}};
static const kiln_port fake_cond_out[] = {{.name = "COND", .type = "COND"}};
static const kiln_port fake_image_out[] = {{.name = "IMAGE", .type = "IMAGE"}};
static const kiln_port fake_images_in[] = {{.name = "images", .type = "IMAGE"}};
static const kiln_port fake_image_list[] = {{.name = "images", .type = "IMAGE", .flags = KILN_PORT_LIST}};
static const kiln_port fake_sample_in[] = {{.name = "model", .type = "MODEL"},
                                           {.name = "positive", .type = "COND"},
                                           {.name = "mask", .type = "MASK", .flags = KILN_PORT_OPTIONAL}};
static const kiln_port fake_any[] = {{.name = "any", .type = "*"}};
static const kiln_port fake_int_out[] = {{.name = "INT", .type = "INT"}};
static const kiln_port fake_string_out[] = {{.name = "STRING", .type = "STRING"}};
static const kiln_choice fake_modes[] = {{.name = "normal", .value = 0}, {.name = "karras", .value = 4}, {0}};

static const kiln_param fake_load_param[] = {{.name = "ckpt",
                                              .type = KILN_P_FILE,
                                              .flags = KILN_PARAM_REQUIRED,
                                              .offset = offsetof(fake_load_params, ckpt),
                                              .from = "checkpoints"}};
static const kiln_param fake_text_param[] = {
    {.name = "text", .type = KILN_P_STRING, .offset = offsetof(fake_text_params, text), .def_str = ""}};
static const kiln_param fake_blank_param[] = {{.name = "width",
                                               .type = KILN_P_INT,
                                               .offset = offsetof(fake_blank_params, width),
                                               .def = 512,
                                               .min = 16,
                                               .max = 16384},
                                              {.name = "height",
                                               .type = KILN_P_INT,
                                               .offset = offsetof(fake_blank_params, height),
                                               .def = 512,
                                               .min = 16,
                                               .max = 16384}};
static const kiln_param fake_sample_param[] = {
    {.name = "seed", .type = KILN_P_SEED, .offset = offsetof(fake_sample_params, seed)},
    {.name = "steps",
     .type = KILN_P_INT,
     .offset = offsetof(fake_sample_params, steps),
     .def = 20,
     .min = 1,
     .max = 10000},
    {.name = "cfg",
     .type = KILN_P_FLOAT,
     .offset = offsetof(fake_sample_params, cfg),
     .def = 7.5,
     .min = 0,
     .max = 100},
    {.name = "sampler",
     .type = KILN_P_NAME,
     .offset = offsetof(fake_sample_params, sampler),
     .def_str = "euler",
     .from = "sampler"},
    {.name = "mode", .type = KILN_P_ENUM, .offset = offsetof(fake_sample_params, mode), KILN_CHOICES(fake_modes)},
    {.name = "noise", .type = KILN_P_BOOL, .offset = offsetof(fake_sample_params, noise), .def = 1, .max = 1},
    {.name = "preview",
     .type = KILN_P_INT,
     .flags = KILN_PARAM_NEUTRAL,
     .offset = offsetof(fake_sample_params, preview),
     .max = 100}};
static const kiln_param fake_number_param[] = {{.name = "amount",
                                                .type = KILN_P_INT,
                                                .offset = offsetof(fake_number_params, amount),
                                                .min = -1000000,
                                                .max = 1000000}};

typedef struct {
    int32_t on;
} fake_switch_params;
static const kiln_param fake_switch_param[] = {
    {.name = "on", .type = KILN_P_BOOL, .offset = offsetof(fake_switch_params, on), .max = 1}};
static const kiln_port fake_switch_in[] = {
    {.name = "off", .type = "*T", .flags = KILN_PORT_LAZY},
    {.name = "yes", .type = "*T", .flags = KILN_PORT_LAZY},
    {.name = "other", .type = "*T", .flags = KILN_PORT_LAZY | KILN_PORT_OPTIONAL},
    {.name = "also", .type = "*", .flags = KILN_PORT_OPTIONAL}};
static const kiln_port fake_var_out[] = {{.name = "out", .type = "*T"}};
static const kiln_port fake_items_in[] = {{.name = "items", .type = "*T", .flags = KILN_PORT_LIST}};
static const kiln_port fake_items_out[] = {{.name = "list", .type = "*T", .flags = KILN_PORT_LIST}};
static const kiln_port fake_batches_out[] = {{.name = "IMAGE", .type = "IMAGE", .flags = KILN_PORT_LIST}};

static inline kiln_status fake_switch_wants(const kiln_call *c, uint64_t *inputs)
{
    *inputs = ((const fake_switch_params *)c->params)->on ? 2 : 1;
    return KILN_OK;
}

static inline void fake_name(char name[24], const char *stem, int64_t i) { snprintf(name, 24, "%s%d", stem, (int)i); }

typedef struct {
    int64_t amount, width;
    const char *text;
} fake_chain_params;
static const kiln_param fake_chain_param[] = {
    {.name = "amount", .type = KILN_P_INT, .offset = offsetof(fake_chain_params, amount), .def = 2, .max = 1e6},
    {.name = "width",
     .type = KILN_P_INT,
     .flags = KILN_PARAM_PASSED,
     .offset = offsetof(fake_chain_params, width),
     .def = 64,
     .min = 16,
     .max = 16384}};

/* images -> `amount` Decodes behind one another; without images a Blank begins. */
static inline kiln_status fake_chain_expand(const kiln_call *c, kiln_graph *g)
{
    int64_t amount = ((const fake_chain_params *)c->params)->amount;
    char name[24], before[24];
    if (!graph_api.wires(g, "images")) {
        graph_api.node(g, "decode0", "Blank");
        graph_api.pass(g, "decode0", "width", "width");
    } else if (amount == 0) {
        return graph_api.output_passed(g, "IMAGE", "images");
    }
    for (int64_t i = 1; i <= amount; i++) {
        fake_name(name, "decode", i), fake_name(before, "decode", i - 1);
        graph_api.node(g, name, "Decode");
        if (i == 1 && graph_api.wires(g, "images"))
            graph_api.pass(g, name, "images", "images");
        else
            graph_api.wire(g, name, "images", before, "IMAGE");
    }
    fake_name(name, "decode", amount);
    return graph_api.output(g, "IMAGE", name, "0");
}

static inline kiln_status fake_nest_expand(const kiln_call *c, kiln_graph *g)
{
    int64_t amount = ((const fake_number_params *)c->params)->amount;
    graph_api.node(g, "in", amount > 0 ? "Nest" : "Decode");
    graph_api.pass(g, "in", "images", "images");
    if (amount > 0) graph_api.set_int(g, "in", "amount", amount - 1);
    return graph_api.output(g, "IMAGE", "in", "IMAGE");
}

static const kiln_port fake_chain_in[] = {{.name = "images", .type = "IMAGE", .flags = KILN_PORT_OPTIONAL}};

#define FAKE_TYPE(name, bits)                                                                                          \
    .size = sizeof(kiln_node), .type = name, .flags = (bits), .devices = KILN_CPU, .revision = 1
static const kiln_node fake_type[] = {
    {FAKE_TYPE("Any", KILN_NODE_PURE), KILN_ARRAY(in, fake_any), KILN_ARRAY(out, fake_any)},
    {FAKE_TYPE("Blank", KILN_NODE_PURE), KILN_ARRAY(out, fake_image_out), KILN_ARRAY(param, fake_blank_param),
     .params_size = sizeof(fake_blank_params)},
    {FAKE_TYPE("Batches", KILN_NODE_PURE), KILN_ARRAY(out, fake_batches_out), KILN_ARRAY(param, fake_number_param),
     .params_size = sizeof(fake_number_params)},
    {FAKE_TYPE("Chain", KILN_NODE_EXPANDS), KILN_ARRAY(in, fake_chain_in), KILN_ARRAY(out, fake_image_out),
     KILN_ARRAY(param, fake_chain_param), .params_size = sizeof(fake_chain_params), .expand = fake_chain_expand},
    {FAKE_TYPE("Constant", KILN_NODE_PURE | KILN_NODE_CONSTANT), KILN_ARRAY(out, fake_int_out),
     KILN_ARRAY(param, fake_number_param), .params_size = sizeof(fake_number_params)},
    {FAKE_TYPE("Decode", KILN_NODE_PURE), KILN_ARRAY(in, fake_images_in), KILN_ARRAY(out, fake_image_out)},
    {FAKE_TYPE("Join", KILN_NODE_PURE), KILN_ARRAY(in, fake_image_list), KILN_ARRAY(out, fake_image_out)},
    {FAKE_TYPE("List", KILN_NODE_PURE), KILN_ARRAY(in, fake_items_in), KILN_ARRAY(out, fake_items_out)},
    {FAKE_TYPE("Load", KILN_NODE_PURE), KILN_ARRAY(out, fake_model_out), KILN_ARRAY(param, fake_load_param),
     .params_size = sizeof(fake_load_params)},
    {FAKE_TYPE("Nest", KILN_NODE_EXPANDS), KILN_ARRAY(in, fake_images_in), KILN_ARRAY(out, fake_image_out),
     KILN_ARRAY(param, fake_number_param), .params_size = sizeof(fake_number_params), .expand = fake_nest_expand},
    {FAKE_TYPE("Number", KILN_NODE_PURE), KILN_ARRAY(out, fake_int_out), KILN_ARRAY(param, fake_number_param),
     .params_size = sizeof(fake_number_params)},
    {FAKE_TYPE("Random", 0), KILN_ARRAY(out, fake_int_out), KILN_ARRAY(param, fake_number_param),
     .params_size = sizeof(fake_number_params)},
    {FAKE_TYPE("Sample", KILN_NODE_PURE | KILN_NODE_DEVICE), KILN_ARRAY(in, fake_sample_in),
     KILN_ARRAY(out, fake_image_out), KILN_ARRAY(param, fake_sample_param), .params_size = sizeof(fake_sample_params)},
    {FAKE_TYPE("Save", KILN_NODE_OUTPUT), KILN_ARRAY(in, fake_images_in), KILN_ARRAY(param, fake_text_param),
     .params_size = sizeof(fake_text_params)},
    {FAKE_TYPE("Switch", KILN_NODE_PURE), KILN_ARRAY(in, fake_switch_in), KILN_ARRAY(out, fake_var_out),
     KILN_ARRAY(param, fake_switch_param), .params_size = sizeof(fake_switch_params), .wants = fake_switch_wants},
    {FAKE_TYPE("Text", KILN_NODE_PURE | KILN_NODE_DEVICE), KILN_ARRAY(in, fake_clip_in), KILN_ARRAY(out, fake_cond_out),
     KILN_ARRAY(param, fake_text_param), .params_size = sizeof(fake_text_params)},
    {FAKE_TYPE("Words", KILN_NODE_PURE), KILN_ARRAY(out, fake_string_out), KILN_ARRAY(param, fake_text_param),
     .params_size = sizeof(fake_text_params)},
};
enum { FAKE_TYPES = sizeof fake_type / sizeof fake_type[0] };

static const char *fake_files_folder; /* NULL: every name but "absent" stands for /dev/null */
static digest fake_plugin = {.lo = 1, .hi = 2};

static const kiln_node *fake_find(void *self, const char *type, digest *identity)
{
    (void)self;
    *identity = fake_plugin;
    for (size_t i = 0; i < FAKE_TYPES; i++)
        if (strcmp(fake_type[i].type, type) == 0) return &fake_type[i];
    return NULL;
}

static const char *fake_type_at(void *self, size_t i) { return (void)self, i < FAKE_TYPES ? fake_type[i].type : NULL; }

static const char *fake_name_at(void *self, const char *from, size_t i)
{
    static const char *const samplers[] = {"euler", "heun", "dpmpp_2m"};
    (void)self;
    return strcmp(from, "sampler") == 0 && i < 3 ? samplers[i] : NULL;
}

static const char *fake_file(void *self, arena *a, const char *from, const char *name, error *e)
{
    (void)self;
    if (!fake_files_folder && strcmp(name, "absent") != 0) return "/dev/null";
    const char *path = fake_files_folder ? arena_printf(a, "%s/%s", fake_files_folder, name) : NULL;
    if (path && file_exists(path)) return path;
    error_set(e, KILN_ERR_INVALID, "no file '%.100s' for %s", name, from);
    return NULL;
}

static kiln_status fake_wants(void *self, const char *node, const kiln_node *t, const void *params, uint64_t *inputs,
                              error *e)
{
    (void)self, (void)node, (void)e;
    return t->wants(&(kiln_call){.size = sizeof(kiln_call), .params = params}, inputs);
}

static kiln_status fake_expand(void *self, const char *node, const kiln_node *t, const void *params, kiln_graph *g,
                               error *e)
{
    (void)self;
    kiln_status status = t->expand(&(kiln_call){.size = sizeof(kiln_call), .params = params}, g);
    return status == KILN_OK ? KILN_OK
                             : error_set(e, status, "node '%s' (%s): expand(): %s", node, t->type, g->e->message);
}

static inline catalog_view fake_catalog(void)
{
    return (catalog_view){.find = fake_find,
                          .n_type = FAKE_TYPES,
                          .type_at = fake_type_at,
                          .name_at = fake_name_at,
                          .file = fake_file,
                          .wants = fake_wants,
                          .expand = fake_expand};
}

#endif
