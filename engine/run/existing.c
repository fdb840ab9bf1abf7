/* existing.c - see existing.h. */
#include "run/existing.h"

#include "base/str.h"
#include "param/param.h"

#include <glob.h>
#include <string.h>

/* The node's prefix as a pattern of glob(3): %words% that only the node knows stand for anything. */
static void append_pattern(str *s, const char *prefix)
{
    for (const char *p = prefix; *p; p++) {
        size_t word = *p == '%' ? strspn(p + 1, "abcdefghijklmnopqrstuvwxyz_") : 0;
        if (word && p[1 + word] == '%')
            str_char(s, '*'), p += 1 + word;
        else if (strchr("*?[]\\", *p))
            str_char(s, '\\'), str_char(s, *p);
        else
            str_char(s, *p);
    }
}

/* NULL: it has none, or it is wired. */
static const char *prefix_of(const graph_node *g)
{
    for (uint32_t i = 0; i < g->type->n_param; i++) {
        const kiln_param *p = node_param(g->type, i);
        if (p->type != KILN_P_STRING || strcmp(p->name, "filename_prefix") != 0) continue;
        return g->param_in[i].node == SOURCE_NONE ? param_get(p, g->params).text : NULL;
    }
    return NULL;
}

/* The first file of that pattern goes into the record. */
static kiln_status find_one(const char *pattern, const char *out, row_record *record, int *found)
{
    glob_t all = {0};
    kiln_status status = KILN_OK;
    int failed = glob(pattern, 0, NULL, &all);
    *found = !failed && all.gl_pathc > 0;
    if (*found) status = row_add_file(record, all.gl_pathv[0] + strlen(out) + 1);
    globfree(&all);
    return failed == GLOB_NOSPACE ? KILN_ERR_NOMEM : status;
}

kiln_status existing_find(const open_row *row, const char *out, row_record *record, int *found, digest *names, error *e)
{
    const workflow *w = &row->read->w;
    str all = {0};
    size_t outputs = 0, there = 0;
    kiln_status status = KILN_OK;
    int named = 1;
    for (size_t i = 0; i < w->n && status == KILN_OK; i++) {
        const graph_node *g = &w->node[i];
        const char *prefix = is_output(g) ? prefix_of(g) : NULL;
        str pattern = {0};
        int one = 0;
        if (!is_output(g)) continue;
        outputs++, named &= prefix != NULL;
        if (!prefix) continue;
        append_pattern(&pattern, out), str_char(&pattern, '/'), append_pattern(&pattern, prefix);
        str_append(&pattern, "_[0-9]*_.*");
        status = pattern.failed ? KILN_ERR_NOMEM : find_one(str_text(&pattern), out, record, &one);
        there += (size_t)one;
        str_append(&all, str_text(&pattern)), str_char(&all, '\n');
        str_free(&pattern);
    }
    *found = outputs > 0 && there == outputs;
    *names = named && outputs ? digest_of(str_text(&all), all.len) : (digest){0};
    if (all.failed) status = KILN_ERR_NOMEM;
    str_free(&all);
    return status == KILN_OK ? KILN_OK : error_set(e, status, "out of memory");
}
