/* editor_leave_out.c - which nodes do not go into the API form: what a muted or bypassed node cuts off, and what no
 * output needs. ComfyUI runs the outputs that are complete and looks at nothing that they do not depend on; so does a
 * workflow from its editor here, and each output that is left out is said.
 */
#include "base/memory_alloc.h"
#include "workflow/editor/editor_made.h"

#include <string.h>

/* Who takes a node's outputs: user[first[i]] to user[first[i + 1]]. */
typedef struct {
    uint32_t *first, *user;
    uint32_t *queue; /* room for all nodes */
    size_t n_queue;
} users;

static int users_find(users *u, const made_graph *m)
{
    size_t edges = 0;
    *u = (users){.first = mem_calloc(m->n + 2, sizeof *u->first), .queue = mem_alloc((m->n + 1) * sizeof *u->queue)};
    for (size_t i = 0; i < m->n; i++)
        for (size_t k = 0; k < m->node[i].n_in; k++) edges += m->node[i].in[k].from != SOURCE_NONE;
    u->user = mem_alloc((edges + 1) * sizeof *u->user);
    if (!u->first || !u->queue || !u->user) return 0;
    for (int fill = 0; fill < 2; fill++) {
        for (size_t i = 0; i < m->n; i++)
            for (size_t k = 0; k < m->node[i].n_in; k++) {
                int32_t from = m->node[i].in[k].from;
                if (from == SOURCE_NONE) continue;
                if (fill)
                    u->user[u->first[from + 1]++] = (uint32_t)i; /* first[from + 1] is still where `from` begins */
                else
                    u->first[from + 2]++;
            }
        for (size_t i = 2; !fill && i < m->n + 2; i++) u->first[i] += u->first[i - 1];
    }
    return 1;
}

static void users_free(users *u) { mem_free(u->first), mem_free(u->user), mem_free(u->queue); }

/* ---- what is cut off ---- */

static int has_wire(const made_node *n, int32_t port)
{
    for (size_t k = 0; k < n->n_in; k++)
        if (n->in[k].port == port && (n->in[k].from != SOURCE_NONE || n->in[k].value)) return 1;
    return 0;
}

/* The user's inputs from a node that is left out: a parameter has its own value again, a socket nothing. */
static void unwire(made_graph *m, users *u, uint32_t user, uint32_t gone)
{
    made_node *n = &m->node[user], *from = &m->node[gone];
    for (size_t k = 0; k < n->n_in; k++) {
        made_input *in = &n->in[k];
        if (in->from != (int32_t)gone) continue;
        in->from = SOURCE_NONE;
        if (in->port < 0 || n->cut || node_in(n->node->row, (uint32_t)in->port)->flags & KILN_PORT_OPTIONAL) continue;
        if (has_wire(n, in->port)) continue;
        n->cut_scope = from->cut_scope, n->cut = from->cut, n->cut_input = in->name;
        u->queue[u->n_queue++] = user;
    }
}

static void warn_of_output(made_graph *m, const made_node *n)
{
    doc_node d = editor_doc_node(m->x, n);
    const editor_node *cut = n->cut;
    int subgraph = cut->kind == EDITOR_INSTANCE;
    if (!(n->node->row->flags & KILN_NODE_OUTPUT)) return;
    document_warn(m->x->d, n->node->at, &d,
                  "is left out: its input '%.100s' depends on node '%s%.60s' (%s%.130s%s)%s, which is %s", n->cut_input,
                  n->cut_scope->prefix, cut->id, subgraph ? "subgraph \"" : "", subgraph ? cut->inner->name : cut->type,
                  subgraph ? "\"" : "", editor_where(m->x, n->cut_scope, cut),
                  cut->mode == EDITOR_MUTED ? "muted" : "bypassed and has nothing to pass on");
}

static void leave_out_cut(made_graph *m, users *u)
{
    for (size_t i = 0; i < m->n; i++)
        if (m->node[i].cut) u->queue[u->n_queue++] = (uint32_t)i;
    for (size_t i = 0; i < u->n_queue; i++) {
        uint32_t gone = u->queue[i];
        m->node[gone].left_out = 1;
        warn_of_output(m, &m->node[gone]);
        for (uint32_t k = u->first[gone]; k < u->first[gone + 1]; k++) unwire(m, u, u->user[k], gone);
    }
}

/* ---- what no output needs ---- */

static int writes(const made_node *n)
{
    const kiln_node *t = n->node->row;
    return (t->flags & KILN_NODE_OUTPUT) || (t->flags & KILN_NODE_EXPANDS && t->n_out == 0);
}

static void leave_out_unneeded(made_graph *m, users *u)
{
    unsigned char *needed = mem_calloc(m->n + 1, 1);
    if (!needed) {
        m->x->d->failed = 1;
        return;
    }
    u->n_queue = 0;
    for (size_t i = 0; i < m->n; i++)
        if (!m->node[i].left_out && writes(&m->node[i])) needed[i] = 1, u->queue[u->n_queue++] = (uint32_t)i;
    for (size_t i = 0; i < u->n_queue; i++) {
        const made_node *n = &m->node[u->queue[i]];
        for (size_t k = 0; k < n->n_in; k++) {
            int32_t from = n->in[k].from;
            if (from != SOURCE_NONE && !needed[from]) needed[from] = 1, u->queue[u->n_queue++] = (uint32_t)from;
        }
    }
    for (size_t i = 0; u->n_queue && i < m->n; i++) {
        doc_node d;
        if (needed[i] || m->node[i].left_out) continue;
        m->node[i].left_out = 1;
        d = editor_doc_node(m->x, &m->node[i]);
        document_warn(m->x->d, m->node[i].node->at, &d, "nothing that is written depends on it; it will not run");
    }
    mem_free(needed);
}

void editor_leave_out(made_graph *m)
{
    users u;
    if (!users_find(&u, m))
        m->x->d->failed = 1;
    else
        leave_out_cut(m, &u), leave_out_unneeded(m, &u);
    users_free(&u);
}
