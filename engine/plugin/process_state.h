/* process_state.h - what of the process a plugin may not leave changed: the working folder, the signal mask and
 * handlers, the locale, the umask, limits, priority, timers, descriptors, environment variables, and what goes to
 * standard output. Around each call of a plugin that did not come with kiln: what has changed is put back, with a
 * warning that names node and plugin. What cannot be put back (another user or root folder, a seccomp filter, no
 * descriptor left) ends the process, which the supervisor begins anew. */
#ifndef KILN_PLUGIN_PROCESS_STATE_H
#define KILN_PLUGIN_PROCESS_STATE_H

#include "base/hash.h"

#include <locale.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum { WATCHED_SIGNALS = 11, WATCHED_LIMITS = 8, WATCHED_TIMERS = 3, STREAMS = 3, POSIX_TIMERS = 16 };

typedef struct {
    int watched, alone; /* alone: no other such call ran beside it */
    int lent, beside;   /* lent: of a node of kiln's own; beside: a watched call ran when it began */
    unsigned begun;
    sigset_t mask;
    struct sigaction action[WATCHED_SIGNALS];
    struct stat folder, stream[STREAMS];
    struct rlimit limit[WATCHED_LIMITS];
    int flags[STREAMS]; /* O_NONBLOCK and the like, which others have too */
    double timer[WATCHED_TIMERS], began;
    int posix_timer[POSIX_TIMERS], n_posix_timer;
    int has_status, priority;
    mode_t umask;
    digest rights;       /* user, groups, capabilities, filters of system calls */
    locale_t own_locale; /* of the thread */
    char locale[256];
    size_t threads; /* 0: not counted */
    digest environment;
} process_state;

/* Plugins whose calls are looked at, by id; called while plugins are loaded. lends: it has samplers, families, ops or
 * the like, which run in nodes of kiln's own, so that these are looked at too. forget: none any more. */
void process_state_watch(const char *plugin, int lends);
void process_state_forget(void);
/* After the constructors or open() of that file, in a process that is watched: stops timers, with a warning. */
void process_state_loaded(const char *path);
int process_state_is_watched(const char *plugin);
/* Gives standard output to the process's own printing alone: what anybody else writes there goes to a file in memory.
 * Once, before there are threads. */
void process_state_keep_output(void);

/* Prints what is left of that, before the process ends. */
void process_state_last_output(void);

/* Threads that it leaves behind are those that begin in a plugin's code, looked for when no other such call runs any
 * more. count_threads: any that are more than before, which takes that no other node runs. */
void process_state_take(process_state *s, const char *plugin, int count_threads);
/* What the call has changed: each is put back, and said in a warning. */
void process_state_compare(const process_state *s, const char *node, const char *type, const char *plugin);
/* The same, but told to found() ("changed the umask from 022 to 000; ..."). */
void process_state_find(const process_state *s, const char *plugin, void (*found)(void *arg, const char *what),
                        void *arg);

#endif
