/* ctx.h - kiln_ctx: one running call of a node, and the contract of kiln/plugin.h enforced around it.
 *
 * ctx_call makes one for the call; host functions and abilities get it back from the plugin and use it through the
 * accessors. When the call returns, its scratch memory is freed and files it did not commit are removed.
 */
#ifndef KILN_PLUGIN_CTX_H
#define KILN_PLUGIN_CTX_H

#include "base/arena.h"
#include "base/file.h"
#include "base/pool.h"
#include "base/status.h"
#include "kiln/plugin.h"

#include <sys/stat.h>
#include <stdatomic.h>

struct runtime;       /* backend/runtime.h */
struct output_folder; /* plugin/output.h */

/* What a run gives to every call of its nodes. All members may be 0. */
typedef struct {
    struct runtime *runtime;
    pool *pool;
    struct output_folder *output;
    const char *spill; /* the first folder for kiln_host.spill; NULL: TMPDIR, else /var/tmp */
    /* 1: stop. Any thread. */
    int (*cancelled)(void *arg);
    void (*progress)(void *arg, size_t node, uint64_t done, uint64_t total, const char *what);
    void (*draft)(void *arg, size_t node, const char *text);
    void (*preview)(void *arg, size_t node, const uint8_t *rgb, uint32_t width, uint32_t height);
    /* A file is about to get a name in that folder, and has got one; NULL: nobody wants to know. */
    void (*naming)(void *arg, size_t node, const char *folder, const struct stat *file);
    void (*file)(void *arg, size_t node, const char *path);
    /* The path of the node's next file, when an earlier process of the run has written it; NULL: it has not. */
    const char *(*written)(void *arg, size_t node);
    const char *(*text)(void *arg, size_t node,
                        const char *name); /* "prompt", "parameters"; "": there is none, NULL: no memory */
    /* States of unfinished calls (include/kiln/store.h); NULL where nothing is kept. */
    kiln_value *(*state_load)(void *arg, size_t node);
    int (*state_due)(void *arg, size_t node);
    kiln_status (*state_save)(void *arg, size_t node, const kiln_value *state, error *e);
    /* A file of weights was opened by the call; a failure is the call's. */
    kiln_status (*opened)(void *arg, size_t node, const char *path, const file_identity *was, error *e);
    /* What the call makes is not to be kept; NULL where nothing is. */
    void (*not_kept)(void *arg, size_t node);
    /* The path of a file that a text of the node names, in `a`; NULL: host->find_file() finds nothing. */
    const char *(*find_file)(void *arg, size_t node, arena *a, const char *folder, const char *name, error *e);
    /* KILN_ERR_IO when a file the call read, or may have, is no longer what it was: nothing made of it may be left
     * behind. */
    kiln_status (*unchanged)(void *arg, size_t node, error *e);
    /* Bit i: somebody takes output i of the node; NULL: all of them. */
    uint64_t (*wanted)(void *arg, size_t node);
    void *arg;
    uint32_t preview_every; /* steps; 0: `preview` is not called */
    int alone;              /* one node at a time */
    int validate;           /* check inputs for writes and outputs for NaN: slower */
    int headers;            /* values are only looked at (kiln inspect): no file is read whole to tell them apart */
    int estimate;           /* calls have call->estimate set: tensors have shapes and no data (kiln/plugin.h) */
} call_environment;

struct kiln_ctx {
    const call_environment *env;
    size_t node;
    const char *node_name, *node_type, *plugin; /* for messages */
    const char *function;                       /* "run", "check", "wants", "expand" */
    const kiln_node *type;                      /* whose parameters at_param() may name; NULL: nobody's */
    int call;                                   /* supervised.h: while it runs in a process that is watched; else 0 */
    error failure;
    arena scratch;
    struct device_scratch *device_scratch;
    struct call_ending *endings; /* what is to be called at the end, the last first; in scratch */
    struct kiln_file *files;     /* open, see ability_files.c */
    struct spill_file *spills;   /* open, see spill.h */
    int lacks_text;              /* there was no memory for a text that a file of this call should hold */
    atomic_int ended;            /* the call has; 2: and it was used since, which was said */
    char who[280];               /* for that */
    int asked_to_stop;           /* progress() has said so: KILN_CANCELLED is an honest answer */
};

/* 1: the call has ended, which is said once. c may be NULL. */
int ctx_is_late(kiln_ctx *c);
/* The accessors abilities use; c NULL gives NULL or 0. */
error *ctx_error(kiln_ctx *c);
const call_environment *ctx_env(const kiln_ctx *c); /* never NULL: without a run, one that offers nothing */
struct runtime *ctx_runtime(kiln_ctx *c);
int ctx_cancelled(kiln_ctx *c);
int ctx_estimating(const kiln_ctx *c);
int ctx_headers(const kiln_ctx *c);

/* What an error status of a call counts as: the status of the first failure that was reported on c, since whoever gets
 * NULL cannot know it. What is no error stays. */
kiln_status ctx_first_failure(const kiln_ctx *c, kiln_status status);

/* Calls the node: floating-point state, outputs' presence and types are checked, messages get node and plugin. out:
 * n_out slots, set on KILN_OK. */
kiln_status ctx_call(const call_environment *env, size_t node, const char *node_name, const char *plugin_name,
                     const kiln_node *type, void *instance, const void *params, kiln_value *const *in, kiln_value **out,
                     error *e);
/* The same for wants(): *inputs gets the bits of lazy inputs; naming another one is KILN_ERR_BUG. in NULL: none is
 * there yet. */
kiln_status ctx_wants(const call_environment *env, const char *node_name, const char *plugin_name,
                      const kiln_node *type, const void *params, kiln_value *const *in, uint64_t *inputs, error *e);
/* The same for expand(): `g` is what it fills; its mistakes are KILN_ERR_BUG. */
kiln_status ctx_expand(const char *node_name, const char *plugin_name, const kiln_node *type, const void *params,
                       kiln_graph *g, error *e);
/* What a node's check() is asked with. */
typedef struct {
    const void *params;
    uint64_t wanted;             /* which outputs somebody takes  */
    int thorough;                /* it may look into files        */
    const call_environment *env; /* of the run that is about to begin; NULL: there is none yet */
} ctx_checking;

/* The same for check(). KILN_OK when the node has none. */
kiln_status ctx_check(const char *node_name, const char *plugin_name, const kiln_node *type, const ctx_checking *how,
                      error *e);

extern const kiln_host engine_host; /* what plugins get */

/* MXCSR / FPCR without the sticky flags: rounding, flush to zero, denormals. */
uint64_t float_state(void);
void float_state_set(uint64_t state);

#endif
