/* existing.c - see existing.h. */
#include "run/existing.h"

#include "base/array.h"
#include "base/memory_alloc.h"
#include "base/str.h"
#include "param/param.h"

#include <dirent.h>
#include <fnmatch.h>
#include <glob.h>
#include <stdlib.h>
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

/* ---- a folder that many rows write to ---- */

void folder_names_free(struct folder_names *f)
{
    if (!f) return;
    for (size_t i = 0; i < f->n; i++) mem_free(f->name[i]);
    mem_free(f->name), mem_free(f->folder), mem_free(f);
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static kiln_status read_folder(struct folder_names *f)
{
    DIR *d = opendir(f->folder);
    kiln_status status = KILN_OK;
    for (struct dirent *x; d && status == KILN_OK && (x = readdir(d));) {
        if (x->d_name[0] == '.') continue;
        char *name = mem_strdup(x->d_name);
        if (name && array_reserve(&f->name, &f->capacity, f->n + 1, sizeof *f->name))
            f->name[f->n++] = name;
        else
            mem_free(name), status = KILN_ERR_NOMEM;
    }
    if (d) closedir(d);
    if (f->n > 1) qsort(f->name, f->n, sizeof *f->name, by_text);
    return status;
}

/* *seen becomes that folder's. */
static kiln_status look_into(struct folder_names **seen, const char *folder, size_t n)
{
    if (*seen && strlen((*seen)->folder) == n && memcmp((*seen)->folder, folder, n) == 0) return KILN_OK;
    folder_names_free(*seen);
    if (!(*seen = mem_calloc(1, sizeof **seen)) || !((*seen)->folder = mem_calloc(n + 1, 1))) return KILN_ERR_NOMEM;
    memcpy((*seen)->folder, folder, n);
    return read_folder(*seen);
}

/* The first that begins with the n bytes of `text`. */
static size_t first_with(const struct folder_names *f, const char *text, size_t n)
{
    size_t low = 0, high = f->n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (strncmp(f->name[middle], text, n) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The first file of that pattern goes into the record. Where its folder is a pattern, too, glob(3) looks. */
static kiln_status find_one(const char *pattern, const char *out, struct folder_names **seen, row_record *record,
                            int *found)
{
    const char *slash = strrchr(pattern, '/'), *name = slash + 1; /* behind `out` there is one */
    size_t plain = strcspn(name, "*?[]\\");
    if (strcspn(pattern, "*?[]\\") < (size_t)(slash - pattern)) {
        glob_t all = {0};
        kiln_status status = KILN_OK;
        int failed = glob(pattern, 0, NULL, &all);
        *found = !failed && all.gl_pathc > 0;
        if (*found) status = row_add_file(record, all.gl_pathv[0] + strlen(out) + 1);
        globfree(&all);
        return failed == GLOB_NOSPACE ? KILN_ERR_NOMEM : status;
    }
    TRY(look_into(seen, pattern, slash > pattern ? (size_t)(slash - pattern) : 1));
    const struct folder_names *f = *seen;
    for (size_t i = first_with(f, name, plain); i < f->n && strncmp(f->name[i], name, plain) == 0; i++) {
        if (fnmatch(name, f->name[i], 0) != 0) continue;
        str path = {0};
        str_append_n(&path, pattern + strlen(out) + 1, (size_t)(name - pattern) - strlen(out) - 1);
        str_append(&path, f->name[i]);
        kiln_status status = path.failed ? KILN_ERR_NOMEM : row_add_file(record, str_text(&path));
        str_free(&path);
        return *found = 1, status;
    }
    return KILN_OK;
}

kiln_status existing_find(const open_row *row, const char *out, struct folder_names **seen, row_record *record,
                          int *found, digest *names, error *e)
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
        status = pattern.failed ? KILN_ERR_NOMEM : find_one(str_text(&pattern), out, seen, record, &one);
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
