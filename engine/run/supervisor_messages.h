/* supervisor_messages.h - what the watching process was sent (plugin/supervised_line.h), in memory of its own: notes,
 * running calls of plugins, which plugins were loaded, and how the run ended. */
#ifndef KILN_RUN_SUPERVISOR_MESSAGES_H
#define KILN_RUN_SUPERVISOR_MESSAGES_H

#include "plugin/supervised_line.h"

enum { MESSAGE_PLUGINS = 1024 };

typedef struct {
    message_plugin what;
    int loaded; /* in the process that was watched last */
    int needed; /* the workflow uses something of it    */
    int left_out;
    int ended_turn; /* a process ended in which no other one was */
} known_plugin;

typedef struct {
    int fd; /* to read from; -1: none */
    uint64_t mark;
    int broken; /* something else came                */
    int closed; /* nobody has the other end any more  */
    char buffer[64 << 10];
    size_t have;
    char *notes; /* as the shared memory has them */
    size_t n_note, capacity;
    supervised_call call[CALLS_MAX];
    known_plugin plugin[MESSAGE_PLUGINS];
    size_t n_plugin;
    int read;        /* what the workflow needs was sent   */
    int held;        /* the process has come to its end, and others have work left */
    int finished;    /* main() was about to return ...     */
    message_end end; /* ... with this                      */
} supervisor_messages;

/* A pipe for the next process: its end to write to, or -1. */
int messages_open(supervisor_messages *t, uint64_t mark);
/* Reads what there is. How much that was. */
size_t messages_read(supervisor_messages *t);
void messages_close(supervisor_messages *t);
/* Takes the notes that did not come through the pipe from the shared memory. */
void messages_take_shared(supervisor_messages *t);
/* What the shared memory says was reported, where it can be believed; else everything that was sent was. */
void messages_take_said(supervisor_messages *t, int believed);
/* Appends a note of the watching process's own, as it stands in the shared memory. 0: no memory. */
int messages_keep(supervisor_messages *t, const supervised_note *n);

#endif
