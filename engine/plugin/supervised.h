/* supervised.h - what a run tells the process that watches it (run/supervisor.h), in memory that both share.
 *
 *     calls    which node call runs on which thread, and whether it still gives signs of life
 *     crash    how the process ended, written by its last breath (crash_report.c)
 *     notes    what was finished, reported and written, for the process that goes on after a crash
 *
 * Without a watching process every function here does nothing and finds nothing. A note names a node by its row (from
 * 1) and a number made of its name, since indices differ between batches. Any thread; one process writes at a time: the
 * watching one only while there is no other.
 */
#ifndef KILN_PLUGIN_SUPERVISED_H
#define KILN_PLUGIN_SUPERVISED_H

#include "base/hash.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

enum { CALLS_MAX = 64, PLACE_MAX = 200 };

/* A call of a plugin's code. */
typedef struct {
    atomic_int state;   /* CALL_FREE, CALL_FILLING, CALL_RUNS     */
    atomic_uint signs;  /* grows whenever the call uses the host  */
    uint32_t order;     /* later calls have higher ones           */
    int foreign;        /* of a plugin that is not kiln's own, nor trusted; or it is not known yet */
    uint64_t thread;    /* some number of its own                 */
    uint64_t row, node; /* row 0: of no row                       */
    digest key;         /* of the node's result; 0: none          */
    char name[PLACE_MAX], type[PLACE_MAX], plugin[PLACE_MAX];
    char function[16]; /* "run", "check", "expand", "wants", "open", ... */
} supervised_call;
enum { CALL_FREE, CALL_FILLING, CALL_RUNS };

typedef enum {
    NOTE_STARTED = 1, /* reported: the node began                                            */
    NOTE_ENDED,       /* reported: the node ended; detail: a run_event_kind                   */
    NOTE_FAILED,      /* the node failed with the status in detail; text: why. It is not called again */
    NOTE_ITEM,        /* reported: the call `index` of a mapped node                          */
    NOTE_FILE,        /* the node's file number `index` has its name, text; detail: supervised_file_now() */
    NOTE_NAMING,      /* file number `index` is about to be named; text: folder, detail: its inode */
    NOTE_ROW,         /* the row is finished; detail 1: failed, text: why                      */
    NOTE_LINE,        /* the row's line goes to the manifest at byte `detail`, with `index` bytes */
    /* Written by the watching process: */
    NOTE_CRASHED,  /* run() of the node ended the process; text says how */
    NOTE_KEY,      /* the same for whoever has its key, in `node`         */
    NOTE_FUNCTION, /* another function of the node did: node is of its name and the function's */
    NOTE_TYPE,     /* nodes of this type are not called any more          */
    NOTE_PLUGIN,   /* nothing of this plugin is called any more           */
    NOTE_LEFT_OUT  /* the plugin's file, in `node`, is not loaded any more; text says why */
} note_kind;
enum { NOTE_WROTE = 256 /* in the detail of a NOTE_ENDED: the node has written its files */ };

/* What of a note's event has been reported. A process may be killed between an event's line and the mark of it: then
 * the events' file tells, by how long it is. */
typedef struct supervised_said {
    atomic_uint what;         /* SAID_EVENT and SAID_LINE of run/report.h; 0: it was about to be, when it was noted */
    atomic_ullong begin, end; /* bytes of the events' file between which its line goes; 0 and 0: none was begun */
} supervised_said;

typedef struct supervised_note {
    uint32_t size, kind;
    uint64_t row, node, index, detail;
    double seconds;
    supervised_said said;
    char text[];
} supervised_note;

enum { NOTES_BYTES = 64 << 20, NOTE_TEXT_MAX = 3900, ENDED_KINDS = 16 };

typedef struct {
    uint64_t whole; /* the run's own number, here and below; another one: it was overwritten */
    /* ---- from the watching process ---- */
    uint32_t attempt; /* 0: the first */
    int alone;        /* one node at a time, so that it is seen which one ends the process */
    uint64_t entropy; /* what `random` seeds are drawn from in every attempt */
    double began;     /* clock_seconds() of the first attempt */
    char store[512];  /* folder for results where nothing is to be kept; "" : there is none */
    int holds;        /* of the plugins that are not kiln's own, this process loads one at most: */
    uint64_t exempt;  /* the one whose file has this number; 0: none. The others' nodes wait     */
    /* ---- from the run ---- */
    atomic_int ended_at_once; /* a second Ctrl-C, or the like                             */
    atomic_int asked;         /* how many signals have asked it to stop                   */
    atomic_int takes_part;    /* a plugin that is not kiln's own, and not trusted, does   */
    atomic_int unwatched;     /* none is loaded: an end of the process is just that       */
    atomic_uint alive;        /* grows while something is done outside of calls           */
    atomic_size_t total;      /* nodes of the run, as far as it knows                     */
    atomic_size_t ended[ENDED_KINDS], outputs_done;
    /* ---- the last breath ---- */
    atomic_int crashed; /* what follows is set */
    int signal;         /* 0: exit() */
    int overflow;       /* of the stack */
    int unfit;          /* the process was ended because of what `how` says */
    int call;           /* of the thread that did it; -1: it was in none */
    char how[100];      /* "exit(0)" */
    char place[300];    /* "name.so+0x1234" of the first plugin on the stack, "" : none */
    char culprit[PLACE_MAX];
    uint64_t whole_calls;
    supervised_call calls[CALLS_MAX];
    atomic_uint order;
    atomic_size_t n_note; /* bytes of the notes that are whole */
    _Alignas(16) char notes[NOTES_BYTES];
    uint64_t whole_end;
} supervised_page;

extern supervised_page *supervision; /* NULL: nobody watches */

/* Maps the memory; 0: there is none. */
int supervised_begin(void);
/* Of the watching process while there is no other: maps it anew at the same place, with these notes in it. 0: it
 * cannot. */
int supervised_renew(const char *notes, size_t n_note);
void supervised_end(void);
/* In the process that runs, before anything else: finds what the ones before it have noted. */
void supervised_attempt_begin(void);

/* 1: an earlier process of this run ended before its time. */
static inline int supervised_again(void) { return supervision && supervision->attempt > 0; }

/* ---- calls ---- */

/* What the calls of this thread are for; before they are entered. */
void supervised_place(uint64_t row, digest key);
/* The call's number plus 1; 0: nobody watches. */
int supervised_enter(const char *node, const char *type, const char *plugin, const char *function);
/* The same of what loads or opens a plugin; id "": not known yet. foreign: see supervised_call. */
int supervised_enter_plugin(const char *path, const char *id, const char *function, int foreign);
void supervised_leave(int call);
static inline void supervised_sign(int call)
{
    if (call && supervision) atomic_fetch_add_explicit(&supervision->calls[call - 1].signs, 1, memory_order_relaxed);
}

/* Something is done that is no call: files are read, results are kept. */
static inline void supervised_alive(void)
{
    if (supervision) atomic_fetch_add_explicit(&supervision->alive, 1, memory_order_relaxed);
}

/* ---- plugins that are left out ---- */

/* Why the file is not to be loaded in this process; NULL: it is. *held: in this one alone. */
const char *supervised_left_out(const char *path, int *held);
/* The plugin of that id is not in this process; its nodes are known all the same. */
void supervised_absent(const char *id, const char *why, int held, int has_others);
/* Why; NULL: it is there. *held as above. */
const char *supervised_is_absent(const char *id, int *held);
/* 1: a plugin that is held back has registered more than samplers and schedules. */
int supervised_others_held(void);
void supervised_forget_absent(void);
/* 1: this process leaves work to a later one. */
static inline int supervised_holds(void) { return supervision && supervision->holds; }
/* What runs with the plugins that are there is finished. Does not return. */
_Noreturn void supervised_end_held(void);

/* For the watching process: which plugins were loaded, and of which the workflow uses something. */
void supervised_loaded(const char *path, const char *id);
void supervised_needed(const char *path, const char *id);
void supervised_read(void);

/* ---- notes ---- */

uint64_t supervised_name(const char *name); /* its number, never 0 */
/* The number of a node's function, other than run(). */
uint64_t supervised_function_of(uint64_t node, const char *function);
/* Appends one; text NULL: "". NULL: it is full. */
supervised_note *supervised_note_add(supervised_note note, const char *text);
/* Inode and size of the file as one number; 0: it is not there. */
uint64_t supervised_file_now(const char *path);
uint64_t supervised_file_of(const struct stat *file);
/* What the note says has been reported. n NULL: nothing. */
void supervised_note_said(const supervised_note *n);
/* Of the processes before this one; NULL: none. */
const supervised_note *supervised_find(note_kind kind, uint64_t row, uint64_t node, uint64_t index);
/* The first or next of all, also of this process; NULL: no more. */
const supervised_note *supervised_next(const supervised_note *n);
/* Why this call is not made: its node ended a process of this run. NULL: it is made. Counts as reported. */
const char *supervised_refusal(const char *node, const char *type, const char *plugin, const char *function);

/* ---- plugins, for the place of a crash and the owner of a thread; also where nobody watches ---- */

/* A loaded plugin; `so` as dlopen gave it. id NULL: not known yet. Before there are threads. */
void supervised_plugin_add(void *so, const char *path, const char *id);
/* The first plugin among the addresses: "name.so+0x12" to `place`, its id to `id` ("" while unknown).
 * Async-signal-safe. */
int supervised_plugin_at(void *const *address, int n, char *place, size_t capacity, char *id, size_t id_capacity);

#endif
