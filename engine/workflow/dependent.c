/* dependent.c - see dependent.h. */
#include "workflow/dependent.h"

#include "param/param.h"

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

int dependent_is_away(const graph_node *g, uint32_t i, const char **choice)
{
    const kiln_param *p = node_param(g->type, i);
    int on = dependent_on(g->type, p);
    if (on < 0 || g->param_in[on].node != SOURCE_NONE) return 0;
    *choice = param_get(node_param(g->type, (uint32_t)on), g->params).text;
    return *choice && !dependent_has(p, *choice);
}

int dependent_was_left(const kiln_node *n, const kiln_param *p, const char *(*written)(void *arg, const char *name),
                       void *arg)
{
    int on = dependent_on(n, p);
    if (on < 0) return 0;
    const kiln_param *decides = node_param(n, (uint32_t)on);
    const char *choice = written(arg, decides->name);
    if (!choice) choice = param_default_value(decides).text;
    return (choice && !dependent_has(p, choice)) || dependent_was_left(n, decides, written, arg);
}
