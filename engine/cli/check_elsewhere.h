/* check_elsewhere.h - what a plugin's PURE nodes make in other processes, which kiln starts on the same file with
 * KILN_CHECK_ELSEWHERE in their environment: they try nothing, and print a digest for each node. The first has other
 * addresses, another process id and memory that nobody has used; the second besides another working folder, umask,
 * home, language and time zone, another value of each variable whose name stands in the file, and it is earlier.
 */
#ifndef KILN_CLI_CHECK_ELSEWHERE_H
#define KILN_CLI_CHECK_ELSEWHERE_H

#include "base/hash.h"
#include "cli/check_node.h"

enum { ELSEWHERE_MAX = 512 };

typedef struct check_elsewhere {
    size_t n;
    struct {
        char type[160];
        int failed;
        digest made;
    } node[ELSEWHERE_MAX];
    char names[200]; /* of variables that were changed because the file names them */
} check_elsewhere;

typedef enum { ELSEWHERE_PROCESS, ELSEWHERE_CHANGED } elsewhere_kind;
/* What the nodes of the plugin make at their defaults there; those that crash or take too long are left out. free() it;
 * NULL: no memory. After ELSEWHERE_CHANGED a plugin that can read the clock is given another second. */
check_elsewhere *elsewhere_ask(const check_context *of, elsewhere_kind kind);
/* 1, and *made: what the node made there; -1: it failed there. 0: it is not known. */
int elsewhere_made(const check_elsewhere *e, const char *type, digest *made);

/* 1: this is that process. First called before a plugin is loaded, which could set the variable too. */
int elsewhere_is_asked(void);
void elsewhere_answer(const check_context *of);

#endif
