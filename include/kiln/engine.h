/* engine.h - kiln as a library: open, check and run workflows from a program of your own.
 *
 *     kiln_workflow_options from = {.size = sizeof from, .path = "txt2img.yaml"};
 *     kiln_run_options how = {.size = sizeof how, .out = "pictures"};
 *     kiln_message why = {.size = sizeof why};
 *     kiln_workflow *w = kiln_workflow_open(&from, &why);
 *     if (w && kiln_workflow_fault_count(w) == 0 && kiln_workflow_run(w, &how, NULL, &why) == KILN_OK) ...
 *     kiln_workflow_close(w);
 *
 * `kiln run` and `kiln check` are this header and the reading of arguments. Link with -lkiln (pkg-config kiln-engine);
 * the library finds its plugins, models and workflows relative to itself. A plugin does not need this header.
 * docs/library.md has a program in C and one in Python.
 *
 * Structs start with their size and only grow at the end; what is zero has its default. Texts are UTF-8. Everything is
 * to be called from one thread, one workflow at a time, but for kiln_cancel(), which any thread and any signal handler
 * may call. The library never exits, never prints unless `console` is set, and installs no signal handler unless
 * `signals` is set.
 */
#ifndef KILN_ENGINE_H
#define KILN_ENGINE_H

#include "plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_workflow kiln_workflow;

/* Why something failed, in one sentence. */
typedef struct {
    uint32_t size;
    int32_t status; /* a kiln_status */
    char text[1024];
} kiln_message;

typedef struct {
    const char *name, *value; /* "prompt" (a parameter of the head) or "NODE.INPUT"; the value as text */
} kiln_setting;

/* What to run. Everything is borrowed until kiln_workflow_close(). */
typedef struct {
    uint32_t size;
    uint32_t console;        /* 1: faults, warnings and the log go to standard error, as `kiln run` shows them      */
    const char *path;        /* a workflow in YAML or ComfyUI's API format, or a PNG that carries one               */
    const kiln_setting *set; /* as --set: the last of a name holds                                                  */
    uint32_t n_set, set_stride; /* set_stride: sizeof(kiln_setting)                                                */
    const char *plugins; /* folders or .so files to look for plugins in first, ':' between; NULL: none              */
    const char *models;  /* folders to look for models in first; then KILN_MODELS, then models/ beside the workflow */
    const char *input;   /* folders to look for input pictures in first                                             */
    /* A sweep: the workflow runs once for each row. The file's own `matrix:` makes rows too. */
    const char *const *over; /* "seed=1..100", "cfg=5,7,9", "prompt=@lines.txt": every combination is a row         */
    size_t n_over;
    const char *over_file; /* a CSV file whose first line names what its columns set: a row for each further line   */
    /* Warnings and the like (level: KILN_LOG_WARN ...), from opening to closing, on any thread; NULL: console decides.
     */
    void (*on_log)(void *arg, int level, const char *text);
    void *arg;
    /* 1: nodes look into files for what is wrong (a checkpoint without the part that is used), as `kiln check` does; 0:
     * they say it when they run, and a workflow whose results are all kept opens no model */
    uint32_t thorough;
} kiln_workflow_options;

typedef enum {
    KILN_RUN_EXECUTE = 0,
    KILN_RUN_EXPLAIN, /* prints each node's key, memory and FLOPs to standard output; not of a sweep                */
    KILN_RUN_DRY      /* prints what would run, what the cache has, and time, memory and FLOPs of the rest          */
} kiln_run_mode;

/* How to run it. */
typedef struct {
    uint32_t size;
    uint32_t mode;         /* kiln_run_mode                                                                         */
    const char *out;       /* where results are written, and nowhere else; NULL: "out"                              */
    const char *device;    /* "auto" (NULL), "cpu", "cuda", "cuda:1", "reference"                                   */
    const char *precision; /* "auto" (NULL), "f32", "bf16", "f16"                                                   */
    uint32_t threads;      /* 0: all processors                                                                     */
    uint32_t jobs;         /* nodes that may run at once; 0: 3                                                      */
    uint64_t memory;       /* bytes of the device's memory at most; 0: KILN_MEMORY, else what is free               */
    const char *cache;     /* folder of kept results, "off": none; NULL: KILN_CACHE, else ~/.cache/kiln             */
    uint64_t cache_limit;  /* bytes kept at most; 0: 10 GB                                                          */
    double state_seconds;  /* between states of long samplings; 0: 30; negative: none                               */
    uint32_t no_cache;     /* 1: neither look for kept results nor keep any                                         */
    uint32_t fail_fast;    /* 1: when a node fails, start nothing more; 0: finish the branches that do not need it  */
    uint32_t validate;     /* 1: look for NaN after each op and for nodes that write to their inputs                */
    uint32_t again;        /* 1, of a sweep: run also the rows that the manifest says are done                      */
    const char *manifest;  /* of a sweep: what became of each row; NULL: OUT/manifest.jsonl                         */
    const char *sheet;     /* of a sweep: all its pictures in one (.png; 1.1: .jpg, .webp); NULL: none              */
    const char *events;    /* file of JSON lines, "-": standard output; NULL: none                                  */
    const char *trace;     /* file of a Chrome trace; NULL: none                                                    */
    uint32_t console;      /* 1: progress on standard error, paths of what was written on standard output           */
    uint32_t quiet;        /* with console: only errors and paths                                                   */
    uint32_t verbose;      /* with console: a line for every node                                                   */
    uint32_t signals;      /* 1: SIGINT, SIGTERM and SIGHUP ask it to stop; a second one ends the process           */
    /* What happens, one JSON object in a text without a newline: the lines of `events` (docs/workflows.md). On any
     * thread, one at a time. It may call kiln_cancel() and nothing else of this header. */
    void (*on_event)(void *arg, const char *json);
    void *arg;
    const char *file;       /* the one result goes into `out` under this name, over what has it; NULL: numbered names */
    uint32_t skip_existing; /* 1: rows whose results are in `out` are done                                           */
    uint32_t json;          /* 1: EXPLAIN and DRY print one JSON object                                              */
    uint32_t preview_every; /* 1.1: steps of a sampling between two "preview" events; 0: none                        */
} kiln_run_options;

typedef struct {
    uint32_t size;
    uint32_t cancelled;
    uint64_t nodes, ran, cached, shared, failed, skipped; /* shared: took the values of an equal node                 */
    uint64_t outputs;                                     /* output nodes that finished                               */
    uint64_t rows, rows_done, rows_before, rows_failed;   /* of a sweep, else 0; before: done in an earlier run       */
    uint64_t rows_left, rows_faulty;                      /* not finished; with faults, so that nothing was run       */
} kiln_run_summary;

/* "0.1.0" */
KILN_EXPORT const char *kiln_version(void);

/* Loads plugins, reads the workflow and checks it. NULL with `why`: there is no workflow to speak of (a file that
 * cannot be read, no memory), or one is open already. A workflow with faults is returned: ask for them. */
KILN_EXPORT kiln_workflow *kiln_workflow_open(const kiln_workflow_options *, kiln_message *why);
KILN_EXPORT void kiln_workflow_close(kiln_workflow *); /* NULL is allowed */

/* Faults of the workflow, and of each row of a sweep once: "file:line:column: node 'x' (Type): what is wrong; what
 * would be right". Only a workflow without faults runs. The text lives as long as the workflow. */
KILN_EXPORT size_t kiln_workflow_fault_count(kiln_workflow *);
KILN_EXPORT const char *kiln_workflow_fault(const kiln_workflow *, size_t i); /* NULL past the end */
KILN_EXPORT size_t kiln_workflow_node_count(const kiln_workflow *);
/* 1: `over`, `over_file` or the file's `matrix:` make rows of it. */
KILN_EXPORT int kiln_workflow_is_sweep(const kiln_workflow *);
KILN_EXPORT size_t kiln_workflow_row_count(kiln_workflow *); /* 0: it is no sweep, or has none to speak of (faults) */

/* Runs it; may be called again. `summary` may be NULL. KILN_OK: everything was done. KILN_CANCELLED: kiln_cancel() or a
 * signal; what was finished is kept, and the same call goes on from there. Anything else: `why` says what failed first;
 * branches that did not need it were finished (look at summary). */
KILN_EXPORT kiln_status kiln_workflow_run(kiln_workflow *, const kiln_run_options *, kiln_run_summary *summary,
                                          kiln_message *why);

/* Asks the running workflow to stop within a step. [any], async-signal-safe. */
KILN_EXPORT void kiln_cancel(void);

#ifdef __cplusplus
}
#endif
#endif
