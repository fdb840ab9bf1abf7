/* process_state.h - what of the process a plugin may not leave changed: the working folder, the signal mask and
 * handlers, the locale, the umask, limits, descriptors, environment variables, and what goes to standard output. Around
 * each call of a plugin that did not come with kiln: what has changed is put back, with a warning that names node and
 * plugin. */
#ifndef KILN_PLUGIN_PROCESS_STATE_H
#define KILN_PLUGIN_PROCESS_STATE_H

#include "base/hash.h"

#include <locale.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum { WATCHED_SIGNALS = 11, WATCHED_LIMITS = 5, STREAMS = 3 };

typedef struct {
    int watched, alone; /* alone: no other such call ran beside it */
    sigset_t mask;
    struct sigaction action[WATCHED_SIGNALS];
    struct stat folder, stream[STREAMS];
    struct rlimit limit[WATCHED_LIMITS];
    mode_t umask;
    char locale[256];
    size_t threads;
    digest environment;
} process_state;

/* Plugins whose calls are looked at, by id; called while plugins are loaded. forget: none any more. */
void process_state_watch(const char *plugin);
void process_state_forget(void);
/* Gives standard output to the process's own printing alone: what anybody else writes there goes to a file in memory.
 * Once, before there are threads. */
void process_state_keep_output(void);

/* Prints what is left of that, before the process ends. */
void process_state_last_output(void);

/* count_threads: also those that it leaves behind, which takes that no other node runs. */
void process_state_take(process_state *s, const char *plugin, int count_threads);
/* What the call has changed: each is put back, and said in a warning. */
void process_state_compare(const process_state *s, const char *node, const char *type, const char *plugin);
/* The same, but told to found() ("changed the umask from 022 to 000; ..."). */
void process_state_find(const process_state *s, const char *plugin, void (*found)(void *arg, const char *what),
                        void *arg);

#endif
