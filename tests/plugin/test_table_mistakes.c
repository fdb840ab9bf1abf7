/* test_table_mistakes.c - a plugin's table with one thing wrong at a time, and the sentence that says so; the same for
 * rows of value types.
 */
#include "harness.h"

#include "kiln/kit.h"
#include "plugin/abilities.h"
#include "plugin/plugin_table.h"
#include "plugin/value_types.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static kiln_status run(const kiln_call *c) { return c ? KILN_OK : KILN_ERR_BUG; }
static kiln_status create(const kiln_host *h, void **self) { return *self = NULL, h ? KILN_OK : KILN_ERR_BUG; }
static void destroy(void *self) { (void)self; }
static kiln_status wants(const kiln_call *c, uint64_t *inputs) { return *inputs = 0, c ? KILN_OK : KILN_ERR_BUG; }
static kiln_status expand(const kiln_call *c, kiln_graph *g) { return c && g ? KILN_OK : KILN_ERR_BUG; }

/* A plugin of two nodes, with nothing wrong. */
typedef struct {
    kiln_port in[3], out[2];
    kiln_param param[1];
    kiln_node node, second;
    const kiln_node *nodes[2];
    kiln_plugin table;
} made;

static void make(made *m)
{
    *m = (made){
        .in = {{.name = "image", .doc = "Help.", .type = "IMAGE"},
               {.name = "any", .doc = "Help.", .type = "*", .flags = KILN_PORT_OPTIONAL},
               {.name = "like", .doc = "Help.", .type = "*T"}},
        .out = {{.name = "IMAGE", .doc = "Help.", .type = "IMAGE"}, {.name = "LIKE", .doc = "Help.", .type = "*T"}},
        .param = {{.name = "gain", .doc = "Help.", .type = KILN_P_FLOAT, .max = 1}},
        .table = {.magic = KILN_MAGIC,
                  .size = sizeof(kiln_plugin),
                  .abi_major = KILN_ABI_MAJOR,
                  .abi_minor = KILN_ABI_MINOR,
                  .n_node = 2,
                  .id = "org.example.odd",
                  .version = "1",
                  .license = "MIT"}};
    m->node = (kiln_node){.size = sizeof(kiln_node),
                          .type = "Odd",
                          .doc = "Help.",
                          .revision = 1,
                          .devices = KILN_CPU,
                          .flags = KILN_NODE_PURE,
                          KILN_ARRAY(in, m->in),
                          KILN_ARRAY(out, m->out),
                          KILN_ARRAY(param, m->param),
                          .params_size = sizeof(double),
                          .run = run};
    m->second = m->node, m->second.type = "Even";
    m->nodes[0] = &m->node, m->nodes[1] = &m->second;
    m->table.node = m->nodes;
}

#define N m->node
#define T m->table
#define MISTAKES(X)                                                                                                    \
    X("does not start with the magic number", T.magic++)                                                               \
    X("made for version 9 of the plugin contract", T.abi_major = 9)                                                    \
    X("needs version 1.99 of the plugin contract", T.abi_minor = 99)                                                   \
    X("the table says it is 16 bytes", T.size = 16)                                                                    \
    X("the table says it is 1048576 bytes", T.size = 1 << 20)                                                          \
    X("nodes; the most is", T.n_node = 1 << 30)                                                                        \
    X("2 nodes but no array of them", T.node = NULL)                                                                   \
    X("no usable id", T.id = "odd")                                                                                    \
    X("no usable id", T.id = NULL)                                                                                     \
    X("no usable id", T.id = "org.a b")                                                                                \
    X("no version", T.version = "")                                                                                    \
    X("no license", T.license = "a\nb")                                                                                \
    X("neither nodes nor an open()", T.n_node = 0)                                                                     \
    X("node 1 of the table is NULL", m->nodes[1] = NULL)                                                               \
    X("node 0 says it is 4 bytes", N.size = 4)                                                                         \
    X("node 0 says it is 1048576 bytes", N.size = 1 << 20)                                                             \
    X("node 0 has no usable type", N.type = "a  b")                                                                    \
    X("node 0 has no usable type", N.type = NULL)                                                                      \
    X("this node type twice", m->second.type = "Odd")                                                                  \
    X("flags 0x80000000 this version does not know", N.flags |= 1u << 31)                                              \
    X("devices is 0x0; say KILN_CPU", N.devices = 0)                                                                   \
    X("devices is 0x80", N.devices = 0x80)                                                                             \
    X("revision is 0", N.revision = 0)                                                                                 \
    X("no doc; give it one line of help", N.doc = NULL)                                                                \
    X("title and category are one line", N.title = "a\n")                                                              \
    X("title and category are one line", N.category = "")                                                              \
    X("no run()", N.run = NULL)                                                                                        \
    X("destroy() without create()", N.destroy = destroy)                                                               \
    X("nothing could ever ask for it", N.n_out = 0)                                                                    \
    X("inputs; the most is", N.n_in = 1 << 20)                                                                         \
    X("3 inputs but no array of them", N.in = NULL)                                                                    \
    X("the stride of the inputs is 8 bytes", N.in_stride = 8)                                                          \
    X("the stride of the outputs is 1048576 bytes", N.out_stride = 1 << 20)                                            \
    X("the stride of the parameters is", N.param_stride++)                                                             \
    X("input 0 has no usable name", m->in[0].name = "a b")                                                             \
    X("input 'image' has no doc", m->in[0].doc = NULL)                                                                 \
    X("input 'image' has no usable type", m->in[0].type = NULL)                                                        \
    X("input 'image' has no usable type", m->in[0].type = "a b")                                                       \
    X("input 'image' has no usable type", m->in[0].type = "*a b")                                                      \
    X("input 'image' has flags 0x40000000", m->in[0].flags = 1u << 30)                                                 \
    X("input 'image' allows dtypes 0x", m->in[0].dtypes = 1u << 31)                                                    \
    X("input 'image' takes ranks 3 to 2", (m->in[0].rank_min = 3, m->in[0].rank_max = 2))                              \
    X("input 'image' takes ranks 0 to 99", m->in[0].rank_max = 99)                                                     \
    X("two inputs are called 'image'", m->in[1].name = "image")                                                        \
    X("has lazy inputs but no wants()", m->in[0].flags = KILN_PORT_LAZY)                                               \
    X("wants() but no lazy input", N.wants = wants)                                                                    \
    X("output 'IMAGE' has no doc", m->out[0].doc = "")                                                                 \
    X("output 'IMAGE' has flags of an input", m->out[0].flags = KILN_PORT_OPTIONAL)                                    \
    X("output 'LIKE' is of type *U, which no input has", m->out[1].type = "*U")                                        \
    X("two outputs are called 'IMAGE'", m->out[1].name = "IMAGE")                                                      \
    X("an input and a parameter are both called 'gain'", m->in[0].name = "gain")                                       \
    X("1 parameters and params_size 0; it is the sizeof", N.params_size = 0)                                           \
    X("parameter 'gain' has no doc", m->param[0].doc = NULL)                                                           \
    X("parameter 'gain' has KILN_PARAM_PASSED, but the node does not expand", m->param[0].flags = KILN_PARAM_PASSED)   \
    X("KILN_NODE_EXPANDS and expand() belong together", N.flags |= KILN_NODE_EXPANDS)                                  \
    X("KILN_NODE_EXPANDS and expand() belong together", N.expand = expand)                                             \
    X("has no run(), create() or lazy inputs", (N.flags |= KILN_NODE_EXPANDS, N.expand = expand))                      \
    X("has no run(), create() or lazy inputs",                                                                         \
      (N.flags |= KILN_NODE_EXPANDS, N.expand = expand, N.run = NULL, N.create = create))                              \
    X("has no run(), create() or lazy inputs",                                                                         \
      (N.flags |= KILN_NODE_EXPANDS, N.expand = expand, N.run = NULL, N.wants = wants))                                \
    X("expands, and so does no work of its own",                                                                       \
      (N.flags |= KILN_NODE_EXPANDS | KILN_NODE_CONSTANT, N.expand = expand, N.run = NULL))                            \
    X("KILN_NODE_CONSTANT is for a PURE node without inputs", N.flags |= KILN_NODE_CONSTANT)                           \
    X("KILN_NODE_CONSTANT is for a PURE node without inputs",                                                          \
      (N.flags |= KILN_NODE_CONSTANT, N.n_in = 0, N.n_param = 0, N.params_size = 0, N.n_out = 1))                      \
    X("KILN_NODE_CONSTANT is for a PURE node without inputs",                                                          \
      (N.flags = KILN_NODE_CONSTANT, N.n_in = 0, N.n_out = 1, m->out[0].type = "FLOAT"))                               \
    X("output 'IMAGE' of a constant is no FLOAT", (N.flags |= KILN_NODE_CONSTANT, N.n_in = 0, N.n_out = 1))            \
    X("output 'IMAGE' of a constant is no FLOAT", (N.flags |= KILN_NODE_CONSTANT, N.n_in = 0, N.n_out = 1,             \
                                                   m->out[0].type = "FLOAT", m->out[0].flags = KILN_PORT_LIST))        \
    X(NULL, (N.flags |= KILN_NODE_CONSTANT, N.n_in = 0, N.n_out = 1, m->out[0].type = "FLOAT"))                        \
    X(NULL, (N.flags |= KILN_NODE_EXPANDS, N.expand = expand, N.run = NULL, m->param[0].flags = KILN_PARAM_PASSED,     \
             T.n_node = 1))                                                                                            \
    X(NULL, (m->in[0].flags = KILN_PORT_LAZY, N.wants = wants, T.n_node = 1))                                          \
    X(NULL, (N.title = "Odd one", N.category = "odd/ones", N.create = create, N.destroy = destroy))                    \
    X(NULL, (N.n_in = 0, N.in = NULL, N.n_out = 1))                                                                    \
    X(NULL, N.size = (uint32_t)sizeof(kiln_node) + 64)

static void check_made(made *m, const char *says)
{
    arena memory = {0};
    error e = {0};
    kiln_plugin read;
    kiln_status status = table_read(&m->table, &memory, &read, &e);
    CHECK_MSG(says ? status != KILN_OK && strstr(e.message, says) : status == KILN_OK, "'%s', wanted '%s'", e.message,
              says ? says : "nothing wrong");
    arena_free(&memory);
}

static void test_each_mistake(void)
{
    made *m = malloc(2 * sizeof *m); /* a node may say that it is larger than this kiln's */
    if (!CHECK(m)) return;
#define X(says, ...)                                                                                                   \
    make(m);                                                                                                           \
    __VA_ARGS__;                                                                                                       \
    check_made(m, says);
    MISTAKES(X)
#undef X
    free(m);
}

static void test_lazy_inputs_are_among_the_first(void)
{
    static kiln_port many[80];
    static char names[80][8];
    made m;
    make(&m);
    for (int i = 0; i < 80; i++) {
        snprintf(names[i], sizeof names[i], "i%d", i);
        many[i] = (kiln_port){.name = names[i], .doc = "Help.", .type = "IMAGE", .flags = i == 79 ? KILN_PORT_LAZY : 0};
    }
    m.node.in = many, m.node.n_in = 80, m.node.wants = wants, m.node.n_out = 1;
    check_made(&m, "input 79 'i79' is lazy; only the first 63 can be");
}

/* ---- rows of value types ---- */

static const kiln_value_entry good_entry = {.key = "a", .doc = "Help.", .kinds = 1u << KILN_V_INT};
static const kiln_value_type good_type = {
    .size = sizeof good_type, .name = "ODD_TYPE", .doc = "Help.", .kind = KILN_V_MAP};

#define ENTRIES t.entry = rows, t.entry_stride = sizeof rows[0], t.n_entry
#define TYPE_MISTAKES(X)                                                                                               \
    X("a value type without its size or a usable name", t.size = 8)                                                    \
    X("a value type without its size or a usable name", t.name = NULL)                                                 \
    X("a value type without its size or a usable name", t.name = "a b")                                                \
    X("value type 'IMAGE' is kiln's own", t.name = "IMAGE")                                                            \
    X("has no doc", t.doc = NULL)                                                                                      \
    X("has a kind of value that there is not", t.kind = 0)                                                             \
    X("has a kind of value that there is not", t.kind = KILN_V_OBJECT + 1)                                             \
    X("has a kind of value that there is not", t.kind = 77)                                                            \
    X("has a dtype that there is not", (t.kind = KILN_V_TENSOR, t.dtypes = 1u << 31))                                  \
    X("has ranks that are no range from 0 to 8", (t.kind = KILN_V_TENSOR, t.rank_min = 3, t.rank_max = 2))             \
    X("has ranks that are no range from 0 to 8", (t.kind = KILN_V_TENSOR, t.rank_max = 9))                             \
    X("has a last dimension whose ends are no range", (t.kind = KILN_V_TENSOR, t.last_min = 3, t.last_max = 2))        \
    X("has a last dimension whose ends are no range", (t.kind = KILN_V_TENSOR, t.last_min = -1, t.last_max = 2))       \
    X("only a list has items, and their type needs a row", t.item = "IMAGE")                                           \
    X("only a list has items, and their type needs a row", (t.kind = KILN_V_LIST, t.item = "NOBODYS"))                 \
    X("entries are those of a map or of a list's maps", (t.kind = KILN_V_INT, ENTRIES = 1))                            \
    X("entries are those of a map or of a list's maps", (t.kind = KILN_V_LIST, t.item = "IMAGE", ENTRIES = 1))         \
    X("entries are those of a map or of a list's maps", (ENTRIES = 1, t.entry = NULL))                                 \
    X("entries are those of a map or of a list's maps", ENTRIES = 1000)                                                \
    X("entries are those of a map or of a list's maps", (ENTRIES = 1, t.entry_stride = 8))                             \
    X("entries are those of a map or of a list's maps", (ENTRIES = 1, t.entry_stride++))                               \
    X("entry 0 has no usable key, or no doc", (ENTRIES = 1, rows[0].key = "a b"))                                      \
    X("entry 0 has no usable key, or no doc", (ENTRIES = 1, rows[0].doc = NULL))                                       \
    X("has entry 'a' twice", (ENTRIES = 2, rows[1].key = "a"))                                                         \
    X("entry 'a' has a kind of value that there is not", (ENTRIES = 1, rows[0].kinds = 1))                             \
    X("entry 'a' has a kind of value that there is not", (ENTRIES = 1, rows[0].item_kinds = 1u << 30))                 \
    X("entry 'a' has a dtype that there is not", (ENTRIES = 1, rows[0].dtypes = 1))                                    \
    X("entry 'a' has ranks that are no range", (ENTRIES = 1, rows[0].rank_min = 1))                                    \
    X("entry 'a' is a 'NOBODYS', which has no row", (ENTRIES = 1, rows[0].type = "NOBODYS"))

static void test_type_mistakes(void)
{
    kiln_value_entry rows[2];
    kiln_value_type t;
#define X(says, ...)                                                                                                   \
    t = good_type, rows[0] = rows[1] = good_entry, rows[1].key = "b";                                                  \
    __VA_ARGS__;                                                                                                       \
    registry_owner_set("org.example.rows", NULL);                                                                      \
    CHECK_EQ(types_api.register_type(&t), KILN_ERR_INVALID);                                                           \
    CHECK_MSG(strstr(registry_fault(), says), "'%s', wanted '%s'", registry_fault(), says);
    TYPE_MISTAKES(X)
#undef X
    CHECK_EQ(types_api.register_type(NULL), KILN_ERR_INVALID);
    registry_owner_set(NULL, NULL);
    CHECK(types_api.find("ODD_TYPE") == NULL);
    CHECK(types_api.find(NULL) == NULL);
}

/* ---- the words of a row ---- */

static void test_words(void)
{
    static const struct {
        kiln_value_entry row;
        const char *words;
    } cases[] = {
        {{.kinds = 1u << KILN_V_TENSOR}, "a tensor"},
        {{.kinds = 1u << KILN_V_TENSOR, .rank_min = 2, .rank_max = 2}, "a tensor of 2 dimensions"},
        {{.kinds = 1u << KILN_V_TENSOR, .rank_min = 2, .rank_max = 4}, "a tensor of 2 to 4 dimensions"},
        {{.kinds = 1u << KILN_V_TENSOR, .dtypes = 1u << KILN_F32 | 1u << KILN_F16, .last_min = 3, .last_max = 3},
         "f32 or f16, the last 3"},
        {{.kinds = 1u << KILN_V_TENSOR, .shape = "[N]", .last_min = 0, .last_max = 9}, "a tensor [N], the last 0 to 9"},
        {{.kinds = 0}, "anything"},
        {{.kinds = 1u << KILN_V_INT | 1u << KILN_V_FLOAT | 1u << KILN_V_STRING}, "a number or a text"},
        {{.kinds = 1u << KILN_V_LIST, .item_kinds = 1u << KILN_V_INT | 1u << KILN_V_MAP},
         "a list, each item a whole number or a map"},
        {{.kinds = 1u << KILN_V_LIST, .type = "MASK"}, "MASK"},
    };
    char words[TYPE_WORDS_MAX];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        value_entry_words(&cases[i].row, words);
        CHECK_STR(words, cases[i].words);
    }
    static const struct {
        kiln_value_type row;
        const char *words;
    } types[] = {{{.kind = KILN_V_OBJECT, .name = "ODD"}, "an object of type ODD"},
                 {{.kind = KILN_V_LIST, .item = "MASK"}, "a list, each item MASK"},
                 {{.kind = KILN_V_LIST, .n_entry = 1}, "a list of maps"},
                 {{.kind = KILN_V_LIST}, "a list"},
                 {{.kind = KILN_V_MAP, .n_entry = 1}, "a map"}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        value_type_words(&types[i].row, words);
        CHECK_STR(words, types[i].words);
    }
    char shape[400];
    memset(shape, 'x', sizeof shape), shape[sizeof shape - 1] = '\0';
    value_entry_words(&(kiln_value_entry){.kinds = 1u << KILN_V_TENSOR, .shape = shape, .last_max = 3}, words);
    CHECK_EQ(strlen(words), TYPE_WORDS_MAX - 1); /* cut, and ended */
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_each_mistake), CASE(test_lazy_inputs_are_among_the_first),
                                      CASE(test_type_mistakes), CASE(test_words)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
