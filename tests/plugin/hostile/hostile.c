/* hostile.c - one plugin and the ways to break the contract at load time: compiled by test_loader.c with -DWAY_x.
 * Without any it is a good plugin.
 */
#include "kiln/plugin.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifndef ID
#define ID "org.example.hostile"
#endif
#ifndef TYPE
#define TYPE "Hostile"
#endif
#ifdef WAY_undefined_symbol
extern int kiln_test_nobody_defines_this(void);
#endif

typedef struct {
    double gain;
    int32_t mode;
    int64_t count;
    const char *name;
} values;

/* What a later version 1.x might look like: rows and structs that have grown at their end. */
#ifdef WAY_grown
typedef struct {
    kiln_port port;
    uint64_t later[3];
} port_row;
typedef struct {
    kiln_param param;
    uint64_t later[2];
} param_row;
typedef struct {
    kiln_node node;
    uint64_t later[4];
} node_row;
#define ROW(member, ...)                                                                                               \
    {                                                                                                                  \
        .member = {__VA_ARGS__}, .later = { 77, 78 }                                                                   \
    }
#else
typedef kiln_port port_row;
typedef kiln_param param_row;
typedef kiln_node node_row;
#define ROW(member, ...)                                                                                               \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }
#endif

static const port_row in[] = {
    ROW(port, .name = "image", .doc = "Something.", .type = "IMAGE",
#ifdef WAY_port_rank
        .rank_min = 3, .rank_max = 2,
#endif
#ifdef WAY_port_dtypes
        .dtypes = 1u << 31,
#endif
        ),
    ROW(port, .name = "mask",
#ifndef WAY_port_no_doc
        .doc = "Something.",
#endif
#ifdef WAY_port_type
        .type = "A TYPE",
#else
        .type = "MASK",
#endif
        .flags = KILN_PORT_OPTIONAL),
#ifdef WAY_port_twice
    ROW(port, .name = "image", .doc = "Again.", .type = "IMAGE"),
#endif
#ifdef WAY_port_name
    ROW(port, .name = "an image", .doc = "Spaced.", .type = "IMAGE"),
#endif
};
static const port_row out[] = {
    ROW(port, .name = "image", .doc = "Something.", .type = "IMAGE",
#ifdef WAY_out_flags
        .flags = KILN_PORT_OPTIONAL,
#endif
        ),
#ifdef WAY_out_twice
    ROW(port, .name = "image", .doc = "Something.", .type = "IMAGE"),
#endif
};

#ifndef WAY_enum_no_choice
static const kiln_choice modes[] = {
#ifndef WAY_enum_empty
    {"a", "First.", 1},
#ifdef WAY_enum_twice
    {"a", "Again.", 3},
#endif
    {"b", "Second.", 2},
#endif
    {NULL, NULL, 0}};
#endif

static const param_row param[] = {
    ROW(param, .name = "gain", .type = KILN_P_FLOAT,
#ifndef WAY_param_no_doc
        .doc = "Factor.",
#endif
#if defined WAY_param_past_end
        .offset = sizeof(values),
#elif defined WAY_param_overflow
        .offset = SIZE_MAX - 3,
#elif defined WAY_param_misaligned
        .offset = 4,
#else
        .offset = offsetof(values, gain),
#endif
#if defined WAY_param_default
        .def = 99,
#elif defined WAY_param_nan
        .def = NAN,
#else
        .def = 1,
#endif
        .min =
#ifdef WAY_param_range
            32,
#else
            0,
#endif
        .max = 16),
    ROW(param, .name = "mode", .doc = "How.", .type = KILN_P_ENUM, .offset = offsetof(values, mode),
#ifndef WAY_enum_no_choice
        KILN_CHOICES(modes),
#endif
#ifdef WAY_enum_default
        .def = 7
#else
        .def = 1
#endif
        ),
    ROW(param,
#if defined WAY_param_twice
        .name = "gain",
#elif defined WAY_param_like_input
        .name = "image",
#else
        .name = "count",
#endif
        .doc = "How many.",
#ifdef WAY_param_type
        .type = 42,
#else
        .type = KILN_P_INT,
#endif
#ifdef WAY_param_overlap
        .offset = offsetof(values, gain),
#else
        .offset = offsetof(values, count),
#endif
#ifdef WAY_param_fraction
        .def = 1.5,
#else
        .def = 1,
#endif
        .min = -5, .max = 5),
    ROW(param, .name = "sampler", .doc = "Which.", .type = KILN_P_NAME, .offset = offsetof(values, name),
        .def_str = "euler",
#ifndef WAY_name_no_from
        .from = "sampler"
#endif
        ),
};

#ifndef WAY_no_run
static kiln_status run(const kiln_call *c)
{
    c->out[0] = c->host->ref(c->in[0]);
    return KILN_OK;
}
#endif
#ifdef WAY_destroy_alone
static void destroy(void *p) { (void)p; }
#endif

#define NODE(name)                                                                                                     \
    static const node_row name = ROW(                                                                                  \
        node, .size = sizeof(node_row) - SHORTER, .flags = NODE_FLAGS, .devices = DEVICES, .revision = REVISION,       \
        .type = NODE_TYPE, .title = "Hostile", .category = "test", NODE_DOC, .in = (const kiln_port *)in,              \
        .n_in = sizeof in / sizeof in[0], .in_stride = IN_STRIDE, .out = (const kiln_port *)out, .n_out = N_OUT,       \
        .out_stride = sizeof out[0], .param = (const kiln_param *)param, .n_param = sizeof param / sizeof param[0],    \
        .param_stride = sizeof param[0], .params_size = PARAMS_SIZE, .run = RUN, .destroy = DESTROY)

#ifdef WAY_short_node
#define SHORTER 80
#else
#define SHORTER 0
#endif
#ifdef WAY_node_flags
#define NODE_FLAGS 1024
#else
#define NODE_FLAGS KILN_NODE_PURE
#endif
#ifdef WAY_no_devices
#define DEVICES 0
#else
#define DEVICES KILN_CPU
#endif
#ifdef WAY_revision
#define REVISION 0
#else
#define REVISION 1
#endif
#ifdef WAY_type_name
#define NODE_TYPE "Hostile  Node" /* two blanks; one may stand between */
#else
#define NODE_TYPE TYPE
#endif
#ifdef WAY_node_no_doc
#define NODE_DOC .doc = ""
#else
#define NODE_DOC .doc = "Passes its image on."
#endif
#ifdef WAY_port_stride
#define IN_STRIDE 8
#else
#define IN_STRIDE sizeof in[0]
#endif
#ifdef WAY_no_outputs
#define N_OUT 0
#else
#define N_OUT (sizeof out / sizeof out[0])
#endif
#ifdef WAY_params_size
#define PARAMS_SIZE ((size_t)1 << 40)
#else
#define PARAMS_SIZE sizeof(values)
#endif
#ifdef WAY_no_run
#define RUN NULL
#else
#define RUN run
#endif
#ifdef WAY_destroy_alone
#define DESTROY destroy
#else
#define DESTROY NULL
#endif
NODE(node);

/* ---- code that runs when it is loaded or opened ---- */

#if defined WAY_ctor_exit || defined WAY_ctor_abort || defined WAY_ctor_crash || defined WAY_ctor_loop ||              \
    defined WAY_ctor_close
__attribute__((constructor)) static void begin(void)
{
#ifdef WAY_ctor_exit
    exit(3);
#elif defined WAY_ctor_abort
    abort();
#elif defined WAY_ctor_crash
    *(volatile int *)8 = 1;
#elif defined WAY_ctor_close
    for (int fd = 3; fd < 256; fd++) close(fd);
    _exit(0);
#else
    for (volatile int i = 0;; i = 0) sleep(1);
#endif
}
#endif

#if defined WAY_open_crash || defined WAY_open_exit || defined WAY_open_fails || defined WAY_only_open
#define OPEN open_plugin
static kiln_status open_plugin(const kiln_host *h)
{
    (void)h;
#ifdef WAY_open_crash
    *(volatile int *)8 = 1;
#elif defined WAY_open_exit
    exit(0);
#elif defined WAY_open_fails
    return KILN_ERR_UNSUPPORTED;
#endif
    return KILN_OK;
}
#else
#define OPEN NULL
#endif

#ifdef WAY_two_names
/* Every plugin has one of these; each must reach its own. */
int helper(void);
int helper(void) { return WAY_two_names; }
#endif

static const kiln_node *const nodes[] = {
    (const kiln_node *)&node,
#ifdef WAY_type_twice
    (const kiln_node *)&node,
#endif
#ifdef WAY_null_node
    NULL,
#endif
#ifdef WAY_wild_node
    (const kiln_node *)16,
#endif
};

#ifdef WAY_no_symbol
#define kiln_plugin_v1 kiln_plugin_v2
#endif
extern KILN_EXPORT const kiln_plugin kiln_plugin_v1;
const kiln_plugin kiln_plugin_v1 = {
#ifdef WAY_magic
    .magic = 0x12345678,
#else
    .magic = KILN_MAGIC,
#endif
#ifdef WAY_short_plugin
    .size = 16,
#else
    .size = sizeof(kiln_plugin),
#endif
#ifdef WAY_major
    .abi_major = KILN_ABI_MAJOR + 1,
#else
    .abi_major = KILN_ABI_MAJOR,
#endif
#ifdef WAY_minor
    .abi_minor = KILN_ABI_NEWEST + 1,
#else
    .abi_minor = KILN_ABI_MINOR,
#endif
#if defined WAY_many_nodes
    .n_node = 1u << 30,
#elif defined WAY_nothing || defined WAY_only_open
    .n_node = 0,
#else
    .n_node = sizeof nodes / sizeof nodes[0],
#endif
#if defined WAY_no_id
    .id = NULL,
#elif defined WAY_id_without_dot
    .id = "hostile",
#else
    .id = ID,
#endif
#ifndef WAY_no_version
    .version = "1.0.0",
#endif
#ifndef WAY_no_license
    .license = "MIT",
#endif
    .node = nodes,
    .open = OPEN,
#ifdef WAY_undefined_symbol
    .close = (void (*)(void))kiln_test_nobody_defines_this,
#endif
};
