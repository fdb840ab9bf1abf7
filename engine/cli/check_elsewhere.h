/* check_elsewhere.h - what a plugin's PURE nodes make in another process: with other addresses, another process id,
 * memory that nobody has used. kiln starts itself once more for it, on the same file, with KILN_CHECK_ELSEWHERE in its
 * environment: that process tries nothing, and prints a digest for each node. */
#ifndef KILN_CLI_CHECK_ELSEWHERE_H
#define KILN_CLI_CHECK_ELSEWHERE_H

#include "base/hash.h"
#include "cli/check_node.h"

enum { ELSEWHERE_MAX = 512 };

typedef struct check_elsewhere {
    size_t n;
    struct {
        char type[160];
        digest made;
    } node[ELSEWHERE_MAX];
} check_elsewhere;

/* What the nodes of the plugin at `path` make at their defaults in a process of their own; those that fail there are
 * left out. free() it; NULL: no memory. */
check_elsewhere *elsewhere_ask(const check_context *of, const char *path);
/* 1, and *made: what the node made there. */
int elsewhere_made(const check_elsewhere *e, const char *type, digest *made);

/* 1: this is that process. First called before a plugin is loaded, which could set the variable too. */
int elsewhere_is_asked(void);
void elsewhere_answer(const check_context *of);

#endif
