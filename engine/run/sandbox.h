/* sandbox.h - takes from this process what a run does not need, for good: files outside a list (Landlock), the network
 * and other processes (seccomp, and root's capabilities for them). Before it has further threads; plugins it loads
 * afterwards are bound too. */
#ifndef KILN_RUN_SANDBOX_H
#define KILN_RUN_SANDBOX_H

#include "base/arena.h"
#include "base/status.h"

typedef struct {
    const char *path; /* a file, or a folder with all that is in it */
    int writable;
} sandbox_path;

typedef struct {
    arena memory;
    sandbox_path *item;
    size_t n, capacity;
    int failed; /* out of memory */
} sandbox_list;

/* 0: this kernel cannot do it; *why says what it lacks. */
int sandbox_possible(const char **why);
/* Adds a path; what does not exist is passed over when the sandbox is entered. */
void sandbox_add(sandbox_list *l, const char *path, int writable);
kiln_status sandbox_enter(const sandbox_list *l, error *e);
void sandbox_list_free(sandbox_list *l);

#endif
