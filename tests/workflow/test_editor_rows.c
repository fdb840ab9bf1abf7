/* test_editor_rows.c - the rows of the nodes that kiln ships, against the order in which ComfyUI's nodes declare their
 * sockets and widgets: files of its editor have values without names, so the order is what they mean.
 *
 * editor/widget_order.txt has a line for each of ComfyUI's nodes, written by scripts/comfyui/editor_files.py:
 * "KSampler: model ... | seed ~ steps ...", where ~ is an entry that is no parameter. kiln's own parameters
 * (KILN_PARAM_OWN) are in none of them.
 */
#include "base/file.h"
#include "base/memory_alloc.h"
#include "base/str.h"
#include "harness.h"
#include "plugin/catalog.h"
#include "workflow/editor/editor_widgets.h"

#include <stdio.h>
#include <string.h>

static char *golden;

static void read_golden(void)
{
    char path[600];
    size_t size = 0;
    snprintf(path, sizeof path, "%s/tests/workflow/editor/widget_order.txt", test_root());
    CHECK(file_read(path, 1 << 20, &golden, &size, NULL) == KILN_OK);
}

/* The line of a type without its end; 0: ComfyUI has no such node, or one whose widgets depend on a choice. */
static int line_of(const char *type, char out[2000])
{
    char start[200];
    snprintf(start, sizeof start, "\n%s: ", type);
    const char *at = golden ? strstr(golden, start) : NULL;
    if (at) snprintf(out, 2000, "%.*s", (int)strcspn(at + 1, "\n"), at + 1);
    return at != NULL;
}

/* Inputs that ComfyUI's nodes do not have. They are optional and the last, so that no file of its editor meets them. */
static int is_own_input(const kiln_node *t, uint32_t i)
{
    static const struct {
        const char *type, *input;
    } own[] = {{"ControlNetApply", "mask"}, {"ControlNetApplyAdvanced", "mask"}};
    for (size_t k = 0; k < sizeof own / sizeof own[0]; k++)
        if (strcmp(own[k].type, t->type) == 0 && strcmp(own[k].input, node_in(t, i)->name) == 0)
            return i + 1 == t->n_in && (node_in(t, i)->flags & KILN_PORT_OPTIONAL);
    return 0;
}

/* "values.b" behind "values.a": one input of ComfyUI's, of which there can be several. */
static int grows_on(const kiln_node *t, uint32_t i)
{
    const char *name = node_in(t, i)->name, *dot = strchr(name, '.');
    return dot && i > 0 && strncmp(node_in(t, i - 1)->name, name, (size_t)(dot - name) + 1) == 0;
}

static void line_of_row(const kiln_node *t, char out[2000])
{
    str s = {0};
    str_printf(&s, "%s: ", t->type);
    for (uint32_t i = 0; i < t->n_in; i++)
        if (!is_own_input(t, i) && !grows_on(t, i))
            str_printf(&s, "%.*s ", (int)strcspn(node_in(t, i)->name, "."), node_in(t, i)->name);
    str_char(&s, '|');
    for (uint32_t i = 0; i < t->n_param; i++) {
        const kiln_param *p = node_param(t, i);
        if (!(p->flags & KILN_PARAM_OWN)) str_printf(&s, " %s%s", p->name, editor_has_control(p) ? " ~" : "");
    }
    snprintf(out, 2000, "%s", str_text(&s));
    str_free(&s);
}

static void test_rows_have_comfyuis_order(void)
{
    char plugins[600], wanted[2000], is[2000];
    error e = {0};
    size_t compared = 0;
    snprintf(plugins, sizeof plugins, "%s/plugins", test_build());
    catalog *c = catalog_open(plugins, &e);
    REQUIRE(c != NULL);
    read_golden();
    for (size_t i = 0; i < catalog_nodes(c); i++) {
        const kiln_node *t = catalog_node(c, i)->node;
        if (!line_of(t->type, wanted)) continue;
        line_of_row(t, is);
        if (strcmp(t->type, "CustomCombo") == 0)
            is[strlen(wanted)] = 0; /* the rest is what a user adds in the editor */
        CHECK_STR(is, wanted);
        compared++;
    }
    CHECK_MSG(compared >= 130, "%zu nodes were compared", compared);
    mem_free(golden);
    catalog_close(c);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_rows_have_comfyuis_order)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
