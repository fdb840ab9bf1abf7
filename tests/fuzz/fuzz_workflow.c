/* fuzz_workflow.c - any bytes as a workflow file: read, checked against made-up node types, keyed (libFuzzer; see scripts/fuzz).
 *
 * A first byte of '%' makes the rest be read with a --set; the graph of a workflow without faults must be in order.
 */
#include "fake_nodes.h"

#include "base/memory_alloc.h"
#include "workflow/key.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_order(const workflow *w)
{
    unsigned char *done = mem_calloc(w->n + 1, 1);
    if (!done) return;
    for (size_t i = 0; i < w->n; i++) {
        uint32_t at = w->order[i];
        const graph_node *g = &w->node[at];
        if (at >= w->n || done[at] || !g->type) abort();
        for (uint32_t p = 0; p < g->type->n_in; p++)
            for (uint32_t k = 0; k < g->in[p].n; k++)
                if (!done[g->in[p].from[k].node] || g->in[p].from[k].output >= w->node[g->in[p].from[k].node].type->n_out) abort();
        for (uint32_t p = 0; p < g->type->n_param; p++)
            if (g->param_in[p].node != SOURCE_NONE && !done[g->param_in[p].node]) abort();
        done[at] = 1;
    }
    mem_free(done);
}

static void see(void *arg, const char *text)
{
    *(size_t *)arg += strlen(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const set_option sets[] = {{"steps", "5"}, {"one.steps", "x"}, {"s.seed", "3"}};
    static const key_setting on = {"cpu", "f32"};
    document d;
    workflow w;
    error e = {0};
    size_t n_set = size && data[0] == '%' ? 3 : 0, letters = 0;
    fake_file = "/dev/null";
    if (document_parse(&d, "w", (const char *)data + (n_set > 0), size - (n_set > 0), sets, n_set, &e) != KILN_OK) {
        if (!e.message[0]) abort();
        return 0;
    }
    if (workflow_check(&d, &fake_catalog, &w, &e) != KILN_OK) abort();
    document_print_faults(&d, see, &letters);
    if (d.n_fault ? letters == 0 : 0) abort();
    if (d.n_fault == 0) {
        check_order(&w);
        if (workflow_keys(&w, &on, &e) != KILN_OK && !e.message[0]) abort();
    }
    document_free(&d);
    return 0;
}
