/* extra_paths.c - folders of models as ComfyUI's extra_model_paths.yaml lists them: sections with a `base_path` (~ and
 * $NAME stand for what they do in a shell) and, for each kind of model, one folder a line. Folders that are not there
 * are passed over, as there; a base_path that is not there is an error.
 */
#include "base/file.h"
#include "base/memory_alloc.h"
#include "run/files.h"
#include "workflow/yaml_tree.h"

#include <stdlib.h>
#include <string.h>

enum { BYTES_MAX = 1 << 20 };

typedef struct {
    const char *file;
    arena *a;
    file_root *list;
    size_t *n;
    error *e;
} paths;

static kiln_status no_memory(const paths *p) { return error_set(p->e, KILN_ERR_NOMEM, "out of memory"); }

/* ~/x and $NAME/x with what they stand for. */
static const char *expanded(const paths *p, const char *path)
{
    const char *value = NULL, *rest = path;
    if (path[0] == '~' && (path[1] == '/' || !path[1])) {
        value = getenv("HOME"), rest = path + 1;
    } else if (path[0] == '$') {
        int braces = path[1] == '{';
        size_t n = strcspn(path + 1 + braces, braces ? "}" : "/");
        const char *name = arena_strndup(p->a, path + 1 + braces, n);
        value = name ? getenv(name) : NULL;
        rest = path + 1 + 2 * braces + n;
    }
    return value ? arena_printf(p->a, "%s%s", value, rest) : path;
}

static const char *below(const paths *p, const char *folder, const char *path)
{
    path = path ? expanded(p, path) : NULL;
    return !path ? NULL : path[0] == '/' ? path : arena_printf(p->a, "%s/%s", folder, path);
}

static kiln_status add_lines(const paths *p, const char *base, const char *kind, const char *lines)
{
    while (*lines) {
        size_t n = strcspn(lines, "\n"), from = strspn(lines, " \t"), to = n;
        while (to > from && strchr(" \t\r/", lines[to - 1])) to--;
        const char *path = to > from ? below(p, base, arena_strndup(p->a, lines + from, to - from)) : "";
        if (!path) return no_memory(p);
        if (*path && folder_exists(path)) {
            if (*p->n + 8 >= FILE_ROOTS_MAX)
                return error_set(p->e, KILN_ERR_INVALID, "%s: more than %d folders", p->file, FILE_ROOTS_MAX - 8);
            p->list[(*p->n)++] = (file_root){path, kind};
        }
        lines += n + (lines[n] == '\n');
    }
    return KILN_OK;
}

static kiln_status fault(const paths *p, const yaml_node *at, const char *what)
{
    return error_set(p->e, KILN_ERR_INVALID, "%s:%u:%u: %s", p->file, at->at.line, at->at.column, what);
}

static kiln_status add_section(const paths *p, const char *here, const yaml_node *s)
{
    const yaml_node *base = yaml_get(s, "base_path");
    const char *from = here;
    if (s->kind != YAML_MAP) return fault(p, s, "a section is a map of base_path and kinds of models to folders");
    if (base && base->kind == YAML_SCALAR && base->length && !(from = below(p, here, base->text))) return no_memory(p);
    if (!folder_exists(from)) return fault(p, base ? base : s, "base_path: there is no such folder");
    for (size_t i = 0; i < s->n; i++) {
        const char *key = s->key[i]->text;
        if (strcmp(key, "base_path") == 0 || strcmp(key, "is_default") == 0 || strcmp(key, "custom_nodes") == 0)
            continue;
        if (s->item[i]->kind != YAML_SCALAR) return fault(p, s->item[i], "folders are a text, one a line");
        TRY(add_lines(p, from, key, s->item[i]->text));
    }
    return KILN_OK;
}

kiln_status extra_paths_add(const char *path, arena *a, file_root *list, size_t *n, error *e)
{
    char *data = NULL;
    size_t size;
    yaml_node *root = NULL;
    paths p = {path, a, list, n, e};
    const char *slash = strncmp(path, "/dev/", 5) == 0 ? NULL : strrchr(path, '/'); /* of a pipe: the current folder */
    const char *here = slash ? arena_strndup(a, path, (size_t)(slash - path) + 1) : ".";
    TRY(file_read_stream(path, BYTES_MAX, &data, &size, e));
    kiln_status status = here ? yaml_tree_read(a, path, 0, data, size, &root, e) : no_memory(&p);
    if (status == KILN_OK && root->kind != YAML_MAP)
        status = fault(&p, root, "it is a map of sections, as ComfyUI's extra_model_paths.yaml");
    for (size_t i = 0; status == KILN_OK && i < root->n; i++) status = add_section(&p, here, root->item[i]);
    mem_free(data);
    return status;
}
