/* dependent.c - see dependent.h. */
#include "workflow/dependent.h"

#include "workflow/check.h"

#include <string.h>

int dependent_on(const kiln_node *n, const kiln_param *p)
{
    const char *dot = strrchr(p->name, '.');
    if (!dot || !p->from || p->type == KILN_P_NAME || p->type == KILN_P_FILE) return -1;
    size_t length = (size_t)(dot - p->name);
    for (uint32_t i = 0; i < n->n_param; i++) {
        const kiln_param *q = node_param(n, i);
        if (q->type == KILN_P_ENUM && strlen(q->name) == length && strncmp(q->name, p->name, length) == 0)
            return (int)i;
    }
    return -1;
}

int dependent_has(const kiln_param *p, const char *choice)
{
    size_t n = strlen(choice);
    for (const char *at = p->from; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL)
        if (strncmp(at, choice, n) == 0 && (at[n] == '\0' || at[n] == '|')) return 1;
    return 0;
}
