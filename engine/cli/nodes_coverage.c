/* nodes_coverage.c - counts ComfyUI's node types, category by category, against those of the plugins. */
#include "cli/nodes_coverage.h"

#include "base/json_members.h"
#include "base/print.h"
#include "base/str.h"
#include "cli/comfyui_nodes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = sizeof comfyui_nodes / sizeof comfyui_nodes[0] };

static const char *category_of(size_t i) { return comfyui_nodes[i].category[0] ? comfyui_nodes[i].category : "none"; }

/* "model/loaders" of "model/loaders/video": its first two words. */
static size_t group_length(const char *category)
{
    const char *slash = strchr(category, '/');
    const char *second = slash ? strchr(slash + 1, '/') : NULL;
    return second ? (size_t)(second - category) : strlen(category);
}

static int same_group(size_t i, size_t k)
{
    size_t n = group_length(category_of(i));
    return n == group_length(category_of(k)) && !strncmp(category_of(i), category_of(k), n);
}

/* Indexes of the nodes, those of a category next to one another. */
static int by_category(const void *x, const void *y)
{
    size_t i = *(const size_t *)x, k = *(const size_t *)y;
    int order = strcmp(category_of(i), category_of(k));
    return order ? order : strcmp(comfyui_nodes[i].type, comfyui_nodes[k].type);
}

static int is_below(size_t i, const char *category)
{
    size_t n = strlen(category);
    return !strncmp(category_of(i), category, n) && (!category_of(i)[n] || category_of(i)[n] == '/');
}

static int is_here(const catalog *c, size_t i) { return catalog_find(c, comfyui_nodes[i].type) != NULL; }

static int is_chosen(const arguments *a, size_t i)
{
    for (size_t k = 0; k < a->n_operand; k++)
        if (is_below(i, a->operand[k])) return 1;
    return !a->n_operand;
}

/* The group that at[0] begins; returns how many nodes it has. */
static size_t print_group(const catalog *c, const size_t *at, size_t n)
{
    size_t of = 0, have = 0;
    while (of < n && same_group(at[0], at[of])) have += (size_t)is_here(c, at[of++]);
    print_text(stdout, "%-36.*s %4zu of %3zu\n", (int)group_length(category_of(at[0])), category_of(at[0]), have, of);
    return of;
}

static void print_groups(const catalog *c, const size_t at[N])
{
    size_t have = 0;
    for (size_t i = 0; i < N; i++) have += (size_t)is_here(c, i);
    for (size_t i = 0; i < N;) i += print_group(c, at + i, N - i);
    print_text(stdout, "%-36s %4zu of %3zu\n\n", "all", have, (size_t)N);
    print_text(stdout,
               "These are the node types of ComfyUI %s's core without those of paid services. `kiln nodes\n"
               "--coverage CATEGORY` names them.\n",
               COMFYUI_NODES_VERSION);
}

static void print_names(const catalog *c, const arguments *a, const size_t at[N])
{
    for (size_t k = 0; k < N; k++)
        if (is_chosen(a, at[k]))
            print_text(stdout, "%-8s %-44s %s%s\n", is_here(c, at[k]) ? "here" : "missing", comfyui_nodes[at[k]].type,
                       category_of(at[k]), comfyui_nodes[at[k]].deprecated ? ", deprecated" : "");
}

static void print_json(const catalog *c, const arguments *a, const size_t at[N])
{
    str s = {0};
    for (size_t k = 0; k < N; k++) {
        const struct comfyui_node *n = &comfyui_nodes[at[k]];
        if (!is_chosen(a, at[k])) continue;
        str_append(&s, s.len ? ",\n{" : "{");
        member_field(&s, "type", n->type);
        member_field(&s, "category", n->category);
        member_bool(&s, "deprecated", (uint32_t)n->deprecated);
        member_bool(&s, "here", (uint32_t)is_here(c, at[k]));
        str_append(&s, "}");
    }
    print_raw(stdout, "["), print_str(stdout, &s), print_raw(stdout, "]\n");
    str_free(&s);
}

/* NULL: each operand is a category with nodes; else one that is none. */
static const char *no_category(const arguments *a)
{
    for (size_t k = 0; k < a->n_operand; k++) {
        size_t i = 0;
        while (i < N && !is_below(i, a->operand[k])) i++;
        if (i == N) return a->operand[k];
    }
    return NULL;
}

int nodes_coverage(const catalog *c, const arguments *a)
{
    size_t at[N];
    const char *wrong = no_category(a);
    if (wrong) {
        print_text(stderr, "kiln nodes: ComfyUI has no category '%s'; `kiln nodes --coverage` prints those it has\n",
                   wrong);
        return EXIT_BAD_INPUT;
    }
    for (size_t i = 0; i < N; i++) at[i] = i;
    qsort(at, N, sizeof at[0], by_category);
    if (argument(a, "--json"))
        print_json(c, a, at);
    else if (a->n_operand)
        print_names(c, a, at);
    else
        print_groups(c, at);
    return EXIT_DONE;
}
