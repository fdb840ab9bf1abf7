/* user_plugins.c - see user_plugins.h. */
#include "plugin/user_plugins.h"

#include "base/file.h"
#include "base/memory_alloc.h"
#include "base/str.h"

#include <stdlib.h>
#include <string.h>

enum { LIST_BYTES_MAX = 1 << 20 };

const char *user_plugins_folder(arena *a)
{
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    if (data && *data == '/') return arena_printf(a, "%s/kiln/plugins", data);
    return home && *home == '/' ? arena_printf(a, "%s/.local/share/kiln/plugins", home) : NULL;
}

/* The list's path, and its text if there is one. */
static const char *read_list(arena *a, char **text)
{
    const char *folder = user_plugins_folder(a), *path = folder ? arena_printf(a, "%s/disabled", folder) : NULL;
    size_t bytes = 0;
    *text = NULL;
    if (path && file_exists(path) && file_read(path, LIST_BYTES_MAX, text, &bytes, NULL) != KILN_OK) *text = NULL;
    return path;
}

/* One line, "ID\tPATH\n": 1 when it is about this plugin. */
static int is_about(const char *line, size_t n, const char *id, const char *path)
{
    const char *tab = memchr(line, '\t', n);
    size_t id_length = tab ? (size_t)(tab - line) : n;
    if (id && strlen(id) == id_length && strncmp(line, id, id_length) == 0) return 1;
    return path && tab && strlen(path) == n - id_length - 1 && strncmp(tab + 1, path, strlen(path)) == 0;
}

const char *user_plugins_disabled(arena *a, const char *id, const char *path)
{
    char *text;
    const char *found = NULL;
    read_list(a, &text);
    for (const char *line = text; line && *line && !found;) {
        size_t n = strcspn(line, "\n");
        if (n && is_about(line, n, id, path)) found = arena_strndup(a, line, strcspn(line, "\t\n"));
        line += n + (line[n] == '\n');
    }
    mem_free(text);
    return found;
}

kiln_status user_plugins_disable(const char *id, const char *path, int disable, int *changed, error *e)
{
    arena a = {0};
    str s = {0};
    char *text;
    int was = 0;
    const char *list = read_list(&a, &text), *folder = user_plugins_folder(&a);
    kiln_status status = KILN_OK;
    if (!list) status = error_set(e, KILN_ERR_IO, "there is no home folder to remember it in; set HOME");
    for (const char *line = text; line && *line;) {
        size_t n = strcspn(line, "\n");
        int ours = n && is_about(line, n, id, NULL);
        was |= ours;
        if (n && !ours) str_append_n(&s, line, n), str_char(&s, '\n');
        line += n + (line[n] == '\n');
    }
    if (disable) str_printf(&s, "%s\t%s\n", id, path ? path : "");
    if (s.failed && status == KILN_OK) status = error_set(e, KILN_ERR_NOMEM, "out of memory");
    *changed = was != disable;
    if (status == KILN_OK && *changed) status = folder_make(folder, e);
    if (status == KILN_OK && *changed) status = file_write_whole(list, str_text(&s), s.len, e);
    mem_free(text);
    str_free(&s);
    arena_free(&a);
    return status;
}
