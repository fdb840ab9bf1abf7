/* fake_nodes.h - a catalog of node types without code, for tests of workflow/ and run/ that need no plugin.
 *
 *     Load    file (FILE models, required)                                  -> MODEL, CLIP
 *     Text    clip; text (STRING, required)                                 -> CONDITIONING
 *     Sample  model, positive, [mask]; seed, steps, cfg, sampler, mode, fast, label -> LATENT   (PURE, DEVICE)
 *     Join    parts (list of LATENT)                                        -> LATENT      (PURE)
 *     Number  value                                                         -> INT         (PURE)
 *     Any     [x: *]                                                        -> *
 *     Save    latent; prefix (neutral)                                      -> nothing     (OUTPUT)
 * The only file of kind "models" is "a.safetensors", at fake_file; the registry "sampler" holds euler and heun.
 */
#ifndef KILN_TESTS_FAKE_NODES_H
#define KILN_TESTS_FAKE_NODES_H

#include "workflow/check.h"

#include <stddef.h>
#include <string.h>

typedef struct {
    const char *file;
} fake_load;
typedef struct {
    const char *text;
} fake_text;
typedef struct {
    uint64_t seed;
    int64_t steps;
    double cfg;
    const char *sampler, *label;
    int32_t mode, fast;
} fake_sample;
typedef struct {
    int64_t value;
} fake_number;
typedef struct {
    const char *prefix;
} fake_save;

static const char *fake_file = "/nowhere/a.safetensors";
static digest fake_plugin = {1, 2};

static const kiln_port fake_model_clip[] = {{.name = "MODEL", .type = "MODEL"}, {.name = "CLIP", .type = "CLIP"}};
static const kiln_port fake_clip[] = {{.name = "clip", .type = "CLIP"}};
static const kiln_port fake_conditioning[] = {{.name = "CONDITIONING", .type = "CONDITIONING"}};
static const kiln_port fake_sample_in[] = {{.name = "model", .type = "MODEL"},
                                           {.name = "positive", .type = "CONDITIONING"},
                                           {.name = "mask", .type = "MASK", .flags = KILN_PORT_OPTIONAL}};
static const kiln_port fake_latent[] = {{.name = "LATENT", .type = "LATENT"}};
static const kiln_port fake_parts[] = {{.name = "parts", .type = "LATENT", .flags = KILN_PORT_LIST}};
static const kiln_port fake_int[] = {{.name = "INT", .type = "INT"}};
static const kiln_port fake_any_in[] = {{.name = "x", .type = "*", .flags = KILN_PORT_OPTIONAL}};
static const kiln_port fake_any[] = {{.name = "out", .type = "*"}};
static const kiln_port fake_save_in[] = {{.name = "latent", .type = "LATENT"}};
static const kiln_choice fake_modes[] = {{"fine", "", 3}, {"coarse", "", 7}, {0}};

static const kiln_param fake_load_p[] = {{.name = "file",
                                          .type = KILN_P_FILE,
                                          .flags = KILN_PARAM_REQUIRED,
                                          .offset = offsetof(fake_load, file),
                                          .from = "models"}};
static const kiln_param fake_text_p[] = {
    {.name = "text", .type = KILN_P_STRING, .flags = KILN_PARAM_REQUIRED, .offset = offsetof(fake_text, text)}};
static const kiln_param fake_sample_p[] = {
    {.name = "seed", .type = KILN_P_SEED, .offset = offsetof(fake_sample, seed)},
    {.name = "steps", .type = KILN_P_INT, .offset = offsetof(fake_sample, steps), .def = 20, .min = 1, .max = 10000},
    {.name = "cfg", .type = KILN_P_FLOAT, .offset = offsetof(fake_sample, cfg), .def = 8, .min = 0, .max = 100},
    {.name = "sampler",
     .type = KILN_P_NAME,
     .offset = offsetof(fake_sample, sampler),
     .def_str = "euler",
     .from = "sampler"},
    {.name = "mode", .type = KILN_P_ENUM, .offset = offsetof(fake_sample, mode), .def = 3, KILN_CHOICES(fake_modes)},
    {.name = "fast", .type = KILN_P_BOOL, .offset = offsetof(fake_sample, fast)},
    {.name = "label", .type = KILN_P_STRING, .offset = offsetof(fake_sample, label), .def_str = ""}};
static const kiln_param fake_number_p[] = {
    {.name = "value", .type = KILN_P_INT, .offset = offsetof(fake_number, value), .min = -1e15, .max = 1e15}};
static const kiln_param fake_save_p[] = {{.name = "prefix",
                                          .type = KILN_P_STRING,
                                          .flags = KILN_PARAM_NEUTRAL,
                                          .offset = offsetof(fake_save, prefix),
                                          .def_str = "out"}};

#define FAKE_NODE(name, what, in_rows, out_rows, param_rows, struct_type)                                              \
    {                                                                                                                  \
        .size = sizeof(kiln_node), .flags = (what), .devices = KILN_CPU, .revision = 1, .type = (name), .doc = "",     \
        KILN_ARRAY(in, in_rows), KILN_ARRAY(out, out_rows), KILN_ARRAY(param, param_rows),                             \
        .params_size = sizeof(struct_type)                                                                             \
    }

static kiln_node fake_node[] = {
    {.size = sizeof(kiln_node),
     .revision = 1,
     .type = "Load",
     KILN_ARRAY(out, fake_model_clip),
     KILN_ARRAY(param, fake_load_p),
     .flags = KILN_NODE_PURE,
     .params_size = sizeof(fake_load)},
    FAKE_NODE("Text", KILN_NODE_PURE, fake_clip, fake_conditioning, fake_text_p, fake_text),
    FAKE_NODE("Sample", KILN_NODE_PURE | KILN_NODE_DEVICE, fake_sample_in, fake_latent, fake_sample_p, fake_sample),
    {.size = sizeof(kiln_node),
     .revision = 1,
     .type = "Join",
     KILN_ARRAY(in, fake_parts),
     KILN_ARRAY(out, fake_latent),
     .flags = KILN_NODE_PURE},
    {.size = sizeof(kiln_node),
     .revision = 1,
     .type = "Number",
     KILN_ARRAY(out, fake_int),
     KILN_ARRAY(param, fake_number_p),
     .flags = KILN_NODE_PURE,
     .params_size = sizeof(fake_number)},
    {.size = sizeof(kiln_node), .revision = 1, .type = "Any", KILN_ARRAY(in, fake_any_in), KILN_ARRAY(out, fake_any)},
    {.size = sizeof(kiln_node),
     .revision = 1,
     .type = "Save",
     KILN_ARRAY(in, fake_save_in),
     KILN_ARRAY(param, fake_save_p),
     .flags = KILN_NODE_OUTPUT,
     .params_size = sizeof(fake_save)},
};
enum { FAKE_LOAD, FAKE_TEXT, FAKE_SAMPLE, FAKE_JOIN, FAKE_NUMBER, FAKE_ANY, FAKE_SAVE, FAKE_TYPES };

static const kiln_node *fake_find(void *self, const char *type, digest *identity)
{
    (void)self;
    for (size_t i = 0; i < FAKE_TYPES; i++)
        if (strcmp(fake_node[i].type, type) == 0) return *identity = fake_plugin, &fake_node[i];
    return NULL;
}

static const char *fake_type_at(void *self, size_t i) { return (void)self, fake_node[i].type; }

static const char *fake_name_at(void *self, const char *from, size_t i)
{
    static const char *const name[] = {"euler", "heun", NULL};
    (void)self;
    return strcmp(from, "sampler") == 0 && i < 3 ? name[i] : NULL;
}

static const char *fake_file_path(void *self, arena *a, const char *from, const char *name, error *e)
{
    (void)self;
    if (strcmp(name, "a.safetensors") == 0) return arena_strdup(a, fake_file);
    error_set(e, KILN_ERR_INVALID, "no file '%.60s' in %s; there is a.safetensors", name, from);
    return NULL;
}

static const catalog_view fake_catalog = {
    .find = fake_find, .n_type = FAKE_TYPES, .type_at = fake_type_at, .name_at = fake_name_at, .file = fake_file_path};

#endif
