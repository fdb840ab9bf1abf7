/* plugin.h - the whole binary contract between the engine and a node plugin.
 *
 * A plugin is a shared object exporting ONE symbol, `kiln_plugin_v1`, a constant
 * table. It links against nothing of ours: the engine hands it a table of
 * functions. Any struct here may grow at its end and never changes otherwise;
 * each carries its own size, so old plugins meet new engines and the reverse.
 *
 *     static kiln_status invert(const kiln_call *c) { ... c->out[0] = ...; return KILN_OK; }
 *     static const kiln_node node = { .size = sizeof node, .type = "ImageInvert", ... .run = invert };
 *     KILN_PLUGIN("org.example.invert", "1.0.0", "MIT", &node);
 *
 * The other headers beside this one hold abilities that a plugin asks for by
 * name (host->ability("kiln.ops/1")): value.h, params.h, ops.h, weights.h, model.h,
 * sampler.h, graph.h, files.h, store.h, types.h. plugins/template shows the smallest plugin.
 *
 * Call tags:  [scan] no code of the plugin runs, the table is only read
 *             [open] once per process, one thread
 *             [run]  an engine worker thread; never two at once on one instance
 *             [any]  any thread, concurrently
 *
 * Left out on purpose: C++ exceptions and longjmp must not cross this boundary,
 * and a plugin is never unloaded before the process ends.
 */
#ifndef KILN_PLUGIN_H
#define KILN_PLUGIN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_MAGIC 0x314e4c4bu /* "KLN1", little endian */
#define KILN_ABI_MAJOR 1
/* The contract of this header and its neighbours is KILN_ABI_MAJOR.KILN_ABI_NEWEST. The minor counts what was added
 * since the first release, which is 1.0: each release that adds something (a field at the end of a struct, a function
 * at the end of a table, a value of an enum, a flag, an ability) raises it by one, and each addition says in its
 * comment which minor brought it. Nothing else ever changes. */
#define KILN_ABI_NEWEST 1
/* The minor a plugin cannot do without: an engine that is older refuses it with a sentence. Define it before including
 * this header when you use an addition without asking; one that asks first (KILN_HAS, ability() for NULL) leaves it at
 * 0 and runs everywhere. */
#ifndef KILN_ABI_MINOR
#define KILN_ABI_MINOR 0
#endif
#define KILN_MAX_RANK 8 /* the most dimensions a tensor has; a limit, and no part of any layout */
#define KILN_EXPORT __attribute__((visibility("default")))

/* True when the struct at `p` (of struct type `type`) was built by someone who knew about `field`. */
#define KILN_HAS(type, p, field) ((p)->size >= offsetof(type, field) + sizeof((p)->field))

/* *out = the struct at `from`, whose maker may have had an older or a newer header: what it lacks is 0, and what it has
 * more is not read. `last` is the last member that everybody has. 0: `from` is NULL or does not say its size. */
#define KILN_READ(out, from, last)                                                                                     \
    kiln_read((out), (uint32_t)sizeof *(out), (from),                                                                  \
              (uint32_t)(offsetof(__typeof__(*(out)), last) + sizeof((out)->last)))
static inline int kiln_read(void *out, uint32_t known, const void *from, uint32_t least)
{
    uint32_t size = 0;
    if (from) memcpy(&size, from, sizeof size);
    memset(out, 0, known);
    if (size < least || size > 65536) return 0;
    memcpy(out, from, size < known ? size : known);
    memcpy(out, &known, sizeof known);
    return 1;
}

/* Fills a struct whose maker may have had an older or a newer header: as much of `from` as it says it has room for. Its
 * size stays. 0: it is NULL or does not say its size. */
#define KILN_WRITE(out, from, last)                                                                                    \
    kiln_write((out), (from), (uint32_t)sizeof *(out),                                                                 \
               (uint32_t)(offsetof(__typeof__(*(out)), last) + sizeof((out)->last)))
static inline int kiln_write(void *out, const void *from, uint32_t known, uint32_t least)
{
    uint32_t size = 0;
    if (out) memcpy(&size, out, sizeof size);
    if (size < least || size > 65536) return 0;
    memset(out, 0, size);
    memcpy(out, from, size < known ? size : known);
    memcpy(out, &size, sizeof size);
    return 1;
}

/* ---- status: an action for the caller, not a description ---- */

typedef enum {
    KILN_OK = 0,
    KILN_CANCELLED = 1,        /* progress() said stop: return this, promptly                */
    KILN_ERR_INVALID = -1,     /* the user's input or parameter is wrong                     */
    KILN_ERR_UNSUPPORTED = -2, /* not on this device, dtype or in this build                 */
    KILN_ERR_NOMEM = -3,       /* engine may evict and call again                            */
    KILN_ERR_IO = -4,          /* a file or device could not be read or written              */
    KILN_ERR_DEVICE = -5,      /* the device failed                                          */
    KILN_ERR_BUG = -6          /* plugin or engine broke its own invariant                   */
} kiln_status;

enum { KILN_CPU = 1 << 0, KILN_CUDA = 1 << 1 }; /* devices, as bits */

typedef enum {
    KILN_F32 = 1,
    KILN_F16,
    KILN_BF16,
    KILN_U8,
    KILN_I32,
    KILN_I64,
    KILN_F64,
    KILN_BOOL8,
    KILN_F8_E4M3, /* OCP 8-bit floating point, of weights as they are stored alone (weights.h): no infinity */
    KILN_F8_E5M2, /* the same with f16's range */
    /* Of weights as they are stored alone, as are those below: blocks of elements with scales between them, named and
     * laid out as ggml has them in GGUF files (weights.h: kiln_weight_info.block). */
    KILN_Q4_0,
    KILN_Q4_1,
    KILN_Q5_0,
    KILN_Q5_1,
    KILN_Q8_0,
    KILN_Q2_K,
    KILN_Q3_K,
    KILN_Q4_K,
    KILN_Q5_K,
    KILN_Q6_K,
    KILN_IQ4_NL,
    KILN_IQ4_XS,
    KILN_MXFP4,
    KILN_NVFP4
} kiln_dtype;

enum { KILN_LOG_ERROR = 0, KILN_LOG_WARN, KILN_LOG_INFO, KILN_LOG_DEBUG };

typedef struct kiln_value kiln_value; /* engine-owned, reference counted, immutable once published */
typedef struct kiln_ctx kiln_ctx;     /* one running call; valid only until it returns            */

/* A borrowed window on a tensor's memory. Dimensions are in memory order: IMAGE is N,H,W,C. Of a value, dim and stride
 * live as long as the value does; of a window of your own, as long as you hand it to a function. Elements lie densely
 * in memory order, so stride[rank-1] is the element's size. This struct does not grow: kiln_bind holds one. */
typedef struct {
    uint32_t size, dtype, device, rank;
    const int64_t *dim;    /* [rank] */
    const int64_t *stride; /* [rank], in bytes; NULL: dense. view() gives them always */
    void *data;            /* const for inputs: writing to one is detected */
} kiln_tensor;

/* ---- what a node declares ---- */

/* LIST makes a node take or give many values:
 *   - an output with it gives a list (a list value). Whoever takes such an output over an ordinary input, or as a
 *     parameter, runs once for each item, and its own outputs are lists from there on. Of several lists the longest
 *     says how often; a shorter one repeats its last item; an empty one means not at all.
 *   - an input with it takes any number of wires, and all items of lists: in[i] is one list of everything.
 * A node whose LIST output meets a list at its own inputs gives the items of all its calls, one after the other.
 *
 * LAZY (an input, of the first 63): it is computed only if kiln_node.wants() asks for it; else in[i] is NULL. */
enum { KILN_PORT_OPTIONAL = 1 /* may be left unwired: in[i] is NULL */, KILN_PORT_LIST = 2, KILN_PORT_LAZY = 4 };

/* One wire end. `type` is the name of a value type: the field's standard ones are (`kiln types` has them in full)
 *   IMAGE        tensor f32 [N,H,W,C] with C 3 or 4, values 0..1
 *   MASK         tensor f32 [N,H,W]
 *   LATENT       map { samples: f32 [N,H,W,C], [N,T,H,W,C] or [N,L,C], streams?: list of such,
 *                noise_mask?: MASK, batch_index?: list of int }
 *   CONDITIONING list of maps { tokens?: f32 [N,T,D], pooled?: f32 [N,D], area?, mask?, ... }: what the model's inputs
 *                are called (inputs.h)
 *   SIGMAS       tensor f32 [n+1]
 *   VIDEO        map { images: IMAGE, frame_rate: number, audio?: AUDIO }
 *   AUDIO        map { waveform: f32 [N,samples,channels], sample_rate: int }
 *   TOKENS       map { ids: i32 [N,T], weights?: f32 [N,T], lengths?: i32 [N] }
 *   NOISE, SAMPLER, GUIDER   maps { seed, ... }, { sampler, options }, { kind, model, ... } (docs/custom-sampling.md)
 *   MODEL, CLIP, VAE   objects (model.h)          INT, FLOAT, STRING, BOOLEAN   scalars
 *   *            anything
 *   *NAME        one type for all ports of the node that say so, found from what is wired to its inputs
 * and any other name is yours: two ports fit when their type names are equal, or one is "*". What a value of your type
 * has to be made of can be declared, and is then checked as these are (types.h). */
typedef struct {
    const char *name, *doc;
    const char *type;
    uint32_t flags;
    uint32_t dtypes;             /* tensors: bit (1 << KILN_F32) ...; 0 = any */
    uint32_t rank_min, rank_max; /* tensors: 0,0 = any                       */
} kiln_port;

typedef enum {
    KILN_P_BOOL = 1, /* int32_t, 0 or 1                                              */
    KILN_P_INT,      /* int64_t                                                      */
    KILN_P_SEED,     /* uint64_t, the whole range 0 .. 2^64-1                        */
    KILN_P_FLOAT,    /* double                                                       */
    KILN_P_ENUM,     /* int32_t, the `value` of one of `choice`                      */
    KILN_P_NAME,     /* const char *, a name in the registry `from` ("sampler", ...) */
    KILN_P_STRING,   /* const char *, UTF-8                                          */
    KILN_P_FILE      /* const char *, the resolved path of an existing file or folder
                        below the folders of kind `from` ("checkpoints", "input", ...);
                        its content is part of the result's key                      */
} kiln_param_type;

enum {
    KILN_PARAM_REQUIRED = 1,  /* no default: the workflow has to say it         */
    KILN_PARAM_MULTILINE = 2, /* a hint for editors                             */
    KILN_PARAM_NEUTRAL = 4,   /* does not change the result: not part of its key */
    KILN_PARAM_FLOORED = 8,   /* INT: the node takes the value down to a multiple of `step`, as for
                                 pixels of which eight are a cell. A value that is none is used,
                                 and the engine warns of what will be used instead    */
    KILN_PARAM_PASSED = 16,   /* of a node that expands: expand() only passes it on to the nodes it
                                 makes (kiln_graph_api.pass) and never looks at it, so it may be
                                 wired to what is computed                            */
    KILN_PARAM_CONTROL = 32,  /* INT: in a file of ComfyUI's editor, which has a node's values in the
                                 order of its parameters, a word follows this one
                                 (control_after_generate); behind a SEED it always does */
    KILN_PARAM_OWN = 64,      /* ComfyUI's node of this name has no such parameter, and those files
                                 hold no value for it                                 */
    /* 1.1: of a FLOAT whose end is not itself allowed. An older kiln refuses the plugin: #define KILN_ABI_MINOR 1 */
    KILN_PARAM_ABOVE_MIN = 128, /* more than `min`                                    */
    KILN_PARAM_BELOW_MAX = 256  /* less than `max`                                    */
};

typedef struct {
    const char *name, *doc;
    int64_t value;
} kiln_choice;

/* One parameter. The engine parses, range-checks, documents and hashes it and writes it at
 * `offset` of the node's own struct; a pointer it writes lives as long as the call. */
typedef struct {
    const char *name, *doc;
    uint32_t type, flags;
    size_t offset;
    double def, min, max, step; /* BOOL, INT, FLOAT, ENUM (def is a choice's value); SEED uses def */
    const char *def_str;        /* NAME, STRING, FILE                                              */
    const kiln_choice *choice;  /* ENUM: ends with name == NULL; KILN_CHOICES sets both            */
    uint32_t choice_stride;     /* sizeof(kiln_choice)                                             */
    /* NAME, FILE: see there. 1.1: of a parameter called "decides.name", where `decides` is an ENUM of the same node,
     * the choices that have it, '|' between; given with another choice it is warned about. */
    const char *from;
} kiln_param;

/* ---- what the engine offers ---- */

typedef struct {
    uint32_t size;
    uint16_t abi_major, abi_minor;
    const char *name, *version;

    /* [any] `msg` is one line without a newline. */
    void (*log)(int level, const char *msg);
    /* [any] The table of an ability ("kiln.ops/1"), or NULL when this engine has none of that
     * name. Every table starts with a uint32_t size. Valid until the process ends. */
    const void *(*ability)(const char *id);

    /* Everything below takes the running call and is [run], on that call's thread unless said. */

    /* Records why the call fails, in one sentence that names place and remedy, and returns
     * `status` so that `return host->fail(...)` reads well. The first message is kept, and with it its
     * status: any error status that the call returns later counts as that one. So whoever gets NULL from
     * a function that has reported on ctx need not know which it was. */
    kiln_status (*fail)(kiln_ctx *, kiln_status status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
    /* Says how far the call is; returns KILN_CANCELLED when it should stop. Call it at least
     * every 100 ms. total 0 = unknown. */
    kiln_status (*progress)(kiln_ctx *, uint64_t done, uint64_t total, const char *what);
    /* Memory that lives until the call returns, 64-byte aligned, not cleared. NULL: no memory. device: KILN_CPU, or
     * what kiln_ops.device() says; memory of another device is nothing to read or write from here. In an estimate
     * memory of the host is real, and memory of another device is only counted. */
    void *(*scratch)(kiln_ctx *, size_t bytes, uint32_t device);
    /* A new dense tensor value, 64-byte aligned, not cleared, writable through view() until it is
     * published as an output or put into another value. NULL: no memory (return KILN_ERR_NOMEM). In an estimate it has
     * a shape and no data; its bytes count as used all the same. */
    kiln_value *(*tensor_new)(kiln_ctx *, uint32_t dtype, uint32_t device, uint32_t rank, const int64_t *dim);
    /* Fills `out` (set out->size first). KILN_ERR_INVALID with a message when it is no tensor. In an estimate out->data
     * is NULL. */
    kiln_status (*view)(kiln_ctx *, const kiln_value *, kiln_tensor *out);
    kiln_value *(*ref)(kiln_value *); /* [any] */
    void (*unref)(kiln_value *);      /* [any] NULL is allowed */
    /* Runs fn(arg, i) for every i < n on the engine's threads and returns when all are done.
     * fn is called concurrently; it must not call back into the host, and what it computes must not
     * depend on which thread runs it. */
    void (*parallel_for)(kiln_ctx *, size_t n, void (*fn)(void *arg, size_t i), void *arg);

    /* [open] The folder with the files this plugin ships: for NAME.so it is NAME.data beside it. NULL when there is
     * none, and outside open(); the text itself is valid until the process ends. The names and contents of the files
     * are part of the results' keys, as the plugin's own bytes are. */
    const char *(*data_folder)(void);

    /* [open] Offers a table of this plugin's to the others: from then on ability(id) finds it. The table is static and
     * starts with a uint32_t size; say in a header of yours what it is. An id that is taken is KILN_ERR_INVALID with
     * both plugins' names. Plugins are opened kiln's own first, then in the order of the search path, and tried in a
     * process of their own before: ask for another plugin's ability in run(), or be ready for NULL in open(). */
    kiln_status (*provide)(const char *id, const void *table);

    /* Says that what this call makes depends on more than what it is made of: on how much memory there is. It is not
     * kept for later runs then, and neither is what is made of it. In an estimate it does nothing. */
    void (*not_kept)(kiln_ctx *);
    /* The node that is called, as messages name it: "node 'sampler' (KSampler)". Lives as long as the call. */
    const char *(*node)(kiln_ctx *);
    /* The path of a file that a text names ("embedding:NAME" in a prompt), as a KILN_P_FILE parameter of that folder
     * would get it; lives as long as the call. NULL with a message that says where it was looked for. Name it in
     * names_files() too: the result of a file that was not named there, because its text came over a wire, is not
     * kept. */
    const char *(*find_file)(kiln_ctx *, const char *folder, const char *name);

    /* [run] A file of the call's own, for what does not fit into memory: a descriptor to pread() and pwrite(), for
     * places below `bytes`, which are reserved on the disk. It has no name, and is closed when the call ends: do not
     * close it. It lies where results are kept, or else in TMPDIR, or else in /var/tmp. -1, with a message that names
     * folders and remedy, when there is no room; and in an estimate, which leaves nothing behind. */
    int (*spill)(kiln_ctx *, size_t bytes);

    /* [run] Calls fn(arg) when the call is over, whether it worked or not, on its thread and before its scratch memory
     * goes; of several the last first. For references that a call holds. KILN_ERR_NOMEM: it will not be called. */
    kiln_status (*at_end)(kiln_ctx *, void (*fn)(void *arg), void *arg);

    /* [run] Puts "what: " before the message the call fails with, where it does not name `what` already: for who calls
     * others that do not know which file they were given. Nothing while there is no message. */
    void (*about)(kiln_ctx *, const char *what);

    /* [run] A result as it stands while it is made, as UTF-8 of any length: what of a text is written already. Every
     * one is an event of its own ("draft", docs/workflows.md), none is left out for want of time; whoever shows runs
     * may show it. In an estimate it does nothing. */
    void (*draft)(kiln_ctx *, const char *text);

    /* 1.1 [run] How many steps lie between two previews that the run asks for; 0: it asks for none, and making one
     * would be wasted. */
    uint32_t (*preview_every)(kiln_ctx *);

    /* 1.1 [run] What a result looks like while it is made: height rows of width pixels, three bytes of sRGB each, from
     * the top left; copied. An event of its own ("preview", docs/workflows.md). Nothing where preview_every() is 0. */
    void (*preview)(kiln_ctx *, const uint8_t *rgb, uint32_t width, uint32_t height);

    /* 1.1 [run] Says of which parameter of the node a failure is, and returns its status; nothing of KILN_OK. What is
     * refused before a run is then shown where that value is written, or wired. The sentence gets "input 'NAME': " in
     * front, unless the name stands in it. Another name than the node's rows have is KILN_ERR_BUG.
     *     return host->at_param(ctx, files->check(ctx, p->prefix), "filename_prefix"); */
    kiln_status (*at_param)(kiln_ctx *, kiln_status status, const char *param);
} kiln_host;

/* The arguments of one run(). */
typedef struct {
    uint32_t size, device; /* device: one bit */
    const kiln_host *host;
    kiln_ctx *ctx;
    const void *params;    /* your struct, filled and range-checked            */
    kiln_value *const *in; /* borrowed; NULL if optional and absent            */
    kiln_value **out;      /* you set each, the engine takes the reference     */
    void *instance;        /* from create(), or NULL                           */
    uint32_t estimate;     /* 1: nothing is computed (KILN_NODE_ESTIMATES)     */
    /* Bit i: somebody takes output i. One that nobody takes need not be made: out[i] may stay NULL, and the result,
     * which another workflow may want whole, is then not kept for later runs: leave out what is dear to make, and make
     * two nodes of it where that matters. All bits are set for outputs from the 64th on, and where it is not known.
     * check() gets it too. */
    uint64_t wanted;
} kiln_call;

/* An estimate (kiln run --dry-run, --explain, and before a run under a memory budget) asks what a run would need: nodes
 * are called with call->estimate set, so that shapes are known and programs are recorded and planned. Then
 *   - tensors have shapes and no data: view() gives data NULL, for inputs and for what tensor_new made;
 *   - integers, floats, booleans, texts, lists, maps and objects are real;
 *   - kiln_ops.run counts and computes nothing, whatever memory it is given; the vector ops compute nothing, download
 *     gives zeros, norm 1, dot 0;
 *   - run() makes its outputs as always and runs its programs as often as it would, and neither reads nor writes the
 *     numbers of a tensor. Where numbers decide what is computed (where a mask has its one pixel), it takes the case
 *     that needs most;
 *   - it has no effect outside: no file can be written, and a node that writes returns before it would.
 * A node without KILN_NODE_ESTIMATES is not called in an estimate: what it would make is unknown, and what hangs on it
 * is not called either. */
enum {
    KILN_NODE_PURE = 1,       /* same key -> same bytes: the result may be kept       */
    KILN_NODE_REENTRANT = 2,  /* run() may be entered twice at once on one instance   */
    KILN_NODE_OUTPUT = 4,     /* has an effect outside: it is what a run is for       */
    KILN_NODE_DEVICE = 8,     /* does heavy work on the device: one such node at a time */
    KILN_NODE_ESTIMATES = 16, /* run() may be called with call->estimate set, see above */
    KILN_NODE_EXPANDS = 32,   /* stands for other nodes, which expand() names; has no run() */
    KILN_NODE_CONSTANT = 64   /* output i is the value of parameter i, and there are no inputs: what is wired to it is
                                 known before anything runs */
};

/* Of what wants() says: it may ask for more once what it asks for now is there. */
#define KILN_WANTS_AGAIN (UINT64_C(1) << 63)

/* Where names_files() puts what it found. The texts are copied. */
typedef struct {
    uint32_t size;
    void *self;
    void (*add)(void *self, const char *param, const char *folder, const char *name);
} kiln_file_names;

typedef struct kiln_graph kiln_graph; /* the nodes that another one expands into (graph.h) */

typedef struct {
    uint32_t size, flags, devices;
    uint32_t revision; /* starts at 1; raise it when output bytes may change */
    const char *type;  /* the class_type workflows use: [A-Za-z0-9_.+-]{1,128}, single blanks between them */
    const char *title, *category, *doc;
    const kiln_port *in;
    uint32_t n_in, in_stride;
    const kiln_port *out;
    uint32_t n_out, out_stride;
    const kiln_param *param;
    uint32_t n_param, param_stride;
    size_t params_size;
    kiln_status (*run)(const kiln_call *); /* [run] */
    /* Optional [run]: says what is wrong with the parameters (c->in and c->out are NULL); cheap, opens no file's body,
     * and with c->estimate no file at all: a run may follow, which would say it. Before anything runs, where all
     * parameters are known then: written, defaults, or wired to a KILN_NODE_CONSTANT. Otherwise right before run(), for
     * each item of a list, with the values that have come. So run() never meets what check() refuses. Before
     * expand(), where there is one; there what is KILN_PARAM_PASSED and wired has its default. */
    kiln_status (*check)(const kiln_call *);
    kiln_status (*create)(const kiln_host *, void **instance); /* [any] optional, per workflow node */
    void (*destroy)(void *instance);                           /* [any] */

    /* Of a node with LAZY inputs [run]: sets bit i of *inputs for each lazy input i that is needed, given the
     * parameters and the inputs so far (in[i] NULL: not wired, or not there yet); cheap. Asked before the run too when
     * all parameters are known then, with in[] all NULL: unless KILN_WANTS_AGAIN is among the bits that answer is
     * final, and what is not wanted is no part of the workflow, its keys and its estimates. During a run it is asked as
     * soon as the other inputs are there, and again when what it asked for is, until it wants nothing new; then run()
     * is called. A node whose choice depends on an input says KILN_WANTS_AGAIN as long as that is NULL. out and
     * instance are NULL. A node in a list's way is asked for each item, and gets what any of them wants. */
    kiln_status (*wants)(const kiln_call *, uint64_t *inputs);
    /* Of a node with KILN_NODE_EXPANDS [run]: builds the nodes it stands for, by kiln.graph/1 (graph.h), from its
     * parameters; when the workflow is checked, before anything has a key. in, out and instance are NULL. The same
     * parameters and wires make the same nodes. */
    kiln_status (*expand)(const kiln_call *, kiln_graph *);
    /* Optional [any], pure: says which files the parameters' texts name, by the parameter and the folder of models.
     * They are looked for when the workflow is checked, and what they contain is part of the key. A parameter that only
     * a run will know has its default, a text that has none is NULL. */
    void (*names_files)(const void *params, const kiln_file_names *to);
} kiln_node;

typedef struct { /* the first 16 bytes are frozen for ever */
    uint32_t magic, size;
    uint16_t abi_major, abi_minor;
    uint32_t n_node;
    const char *id, *version, *license; /* id: reverse domain, unique */
    const kiln_node *const *node;
    kiln_status (*open)(const kiln_host *); /* [open] optional: keep the host, register rows */
    void (*close)(void);                    /* [open] optional                               */
} kiln_plugin;

/* ---- sugar: fills the counts, sizes and strides nobody should type ---- */

#define KILN_ARRAY(field, a)                                                                                           \
    .field = (a), .n_##field = (uint32_t)(sizeof(a) / sizeof((a)[0])), .field##_stride = (uint32_t)sizeof((a)[0])

/* Of a kiln_param that is an ENUM: its table of kiln_choice. */
#define KILN_CHOICES(a) .choice = (a), .choice_stride = (uint32_t)sizeof((a)[0])

/* Members in their order, since C++11 knows no names of them. */
#define KILN_PLUGIN_OPEN(pid, ver, lic, open_fn, ...)                                                                  \
    static const kiln_node *const kiln_nodes_[] = {__VA_ARGS__};                                                       \
    extern KILN_EXPORT const kiln_plugin kiln_plugin_v1;                                                               \
    const kiln_plugin kiln_plugin_v1 = {KILN_MAGIC,                                                                    \
                                        (uint32_t)sizeof(kiln_plugin),                                                 \
                                        KILN_ABI_MAJOR,                                                                \
                                        KILN_ABI_MINOR,                                                                \
                                        (uint32_t)(sizeof kiln_nodes_ / sizeof kiln_nodes_[0]),                        \
                                        (pid),                                                                         \
                                        (ver),                                                                         \
                                        (lic),                                                                         \
                                        kiln_nodes_,                                                                   \
                                        (open_fn),                                                                     \
                                        NULL}

#define KILN_PLUGIN(pid, ver, lic, ...) KILN_PLUGIN_OPEN(pid, ver, lic, NULL, __VA_ARGS__)

/* A plugin that only registers rows (model families, samplers) in open_fn. */
#define KILN_PLUGIN_WITHOUT_NODES(pid, ver, lic, open_fn)                                                              \
    extern KILN_EXPORT const kiln_plugin kiln_plugin_v1;                                                               \
    const kiln_plugin kiln_plugin_v1 = {KILN_MAGIC,                                                                    \
                                        (uint32_t)sizeof(kiln_plugin),                                                 \
                                        KILN_ABI_MAJOR,                                                                \
                                        KILN_ABI_MINOR,                                                                \
                                        0,                                                                             \
                                        (pid),                                                                         \
                                        (ver),                                                                         \
                                        (lic),                                                                         \
                                        NULL,                                                                          \
                                        (open_fn),                                                                     \
                                        NULL}

#ifdef __cplusplus
}
#endif
#endif
