/* supervisor.h - a run in a child process, so that a plugin that ends its process, hangs or is killed costs its own
 * node and nothing else.
 *
 *     kiln run ---- fork ---- the run (cli, run, plugins): opens plugins, workflow, device; computes; writes
 *        |                      |
 *        |   supervised_page    |   no tensor crosses: only what runs, what was reported, what was written
 *        |                      |
 *     waits, names a silent node, ends one that is silent too long; after a crash notes whose fault it was and forks
 * again
 *
 * The next child goes through everything from the start. The node that did it fails without being called
 * (supervised_refusal), what was finished comes from the store, and nothing is reported or written twice. The parent
 * opens no plugin and no device and has no further thread, so it can fork at any time.
 */
#ifndef KILN_RUN_SUPERVISOR_H
#define KILN_RUN_SUPERVISOR_H

enum { SILENT_SECONDS = 600 };

typedef struct {
    double silent_limit;     /* seconds after which a silent node is ended; 0: never                           */
    int executes;            /* 0: it only looks (a dry run), and is not begun again                           */
    int keeps_nothing;       /* --no-cache: results go to a temporary folder while the run lasts               */
    const char *const *read; /* files that it reads once, "-" for standard input: pipes among them are kept    */
    unsigned n_read;
} supervisor_setting;

/* Forks. 1: this is the process that runs; it returns from main() as usual, after supervisor_finished(). 0: that has
 * happened, and *status is what to return. When there is no second process, the run is this one's, with a warning. */
int supervisor_begin(const supervisor_setting *s, int *status);
/* main() is about to return. */
void supervisor_finished(int status);

#endif
