/* supervisor_reach.h - how far the process of a run reaches beyond itself: to the process that watches it, to
 * processes that it leaves behind, to files after its end. */
#ifndef KILN_RUN_SUPERVISOR_REACH_H
#define KILN_RUN_SUPERVISOR_REACH_H

#include "base/hash.h"

#include <sys/types.h>

/* In the process of the run: from now on system calls that signal, stop, trace or limit `watcher`, or signal the whole
 * group, fail with EPERM, here and in its children. Nothing where the kernel has no seccomp filters. */
void supervisor_hide(pid_t watcher);

/* The modes of the terminal that messages go to, before and after a process of the run. */
void supervisor_terminal_keep(void);
void supervisor_terminal_put_back(void);

/* In the watching process: what its child's children leave behind becomes its own. 0: it had children already, so that
 * nobody could tell whose they are. */
int supervisor_adopt(void);
/* Ends those, after a moment in which they may do so themselves, and says so. */
void supervisor_end_helpers(void);

/* Of the files that the run has noted: name, inode, size and time of each, or that it is gone. */
digest supervisor_files(void);
/* A file that the run has written and that is gone or has another length since; NULL: there is none. */
const char *supervisor_lost_file(void);
/* Numbers that change while the process computes, and while it reads or writes. */
typedef struct {
    uint64_t processor, files;
} used_so_far;
used_so_far supervisor_used(pid_t child);

#endif
