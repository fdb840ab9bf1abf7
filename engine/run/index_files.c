/* index_files.c - see index_files.h. */
#include "run/index_files.h"

#include "base/file.h"
#include "base/memory_alloc.h"
#include "base/str.h"
#include "weights/weights.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

static int ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

static int is_text(const struct dirent *d)
{
    return d->d_name[0] != '.' && (ends_with(d->d_name, ".json") || ends_with(d->d_name, ".txt"));
}

/* Settings lie beside an index under names that only the family knows. */
static kiln_status texts_of(const char *folder, kiln_status (*each)(void *to, const char *path, error *e), void *to,
                            error *e)
{
    struct dirent **entry = NULL;
    int n = scandir(folder, &entry, is_text, alphasort);
    kiln_status status = KILN_OK;
    for (int i = 0; i < n; i++) {
        char *path = status == KILN_OK ? path_join(folder, entry[i]->d_name) : NULL;
        if (status == KILN_OK && !path) status = error_set(e, KILN_ERR_NOMEM, "%s: out of memory", folder);
        if (status == KILN_OK && file_exists(path)) status = each(to, path, e);
        mem_free(path);
        free(entry[i]);
    }
    free(entry);
    return status;
}

static kiln_status texts_beside(const char *path, kiln_status (*each)(void *to, const char *path, error *e), void *to,
                                error *e)
{
    char *folder = mem_strdup(path);
    if (!folder) return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", path);
    char *slash = strrchr(folder, '/');
    if (slash) slash[slash == folder] = '\0';
    kiln_status status = texts_of(slash ? folder : ".", each, to, e);
    mem_free(folder);
    return status;
}

/* A model in two files, NAME_encoder and NAME_decoder: whoever opens one may take the other too. */
static kiln_status other_half(const char *path, kiln_status (*each)(void *to, const char *path, error *e), void *to,
                              error *e)
{
    static const char *const word[2] = {"_encoder", "_decoder"};
    const char *name = strrchr(path, '/');
    str other = {0};
    kiln_status status = KILN_OK;
    for (int i = 0; i < 2 && ends_with(path, ".safetensors"); i++) {
        const char *at = NULL;
        for (const char *p = strstr(name ? name : path, word[i]); p; p = strstr(p + 1, word[i])) at = p;
        if (!at) continue;
        str_printf(&other, "%.*s%s%s", (int)(at - path), path, word[1 - i], at + strlen(word[i]));
        if (other.failed) status = error_set(e, KILN_ERR_NOMEM, "%s: out of memory", path);
        if (status == KILN_OK && file_exists(str_text(&other))) status = each(to, str_text(&other), e);
        break;
    }
    str_free(&other);
    return status;
}

kiln_status index_files(void *arg, const char *path, kiln_status (*each)(void *to, const char *path, error *e),
                        void *to, error *e)
{
    const file_map *m;
    error why = {0};
    (void)arg;
    TRY(other_half(path, each, to, e));
    kiln_weights *w = ends_with(path, ".json") && file_exists(path) ? weights_open(path, &why) : NULL;
    if (!w) return KILN_OK; /* none, or one that whoever opens it will complain about */
    kiln_status status = KILN_OK;
    for (size_t i = 0; status == KILN_OK && (m = weights_file_at(w, i)); i++) status = each(to, m->path, e);
    weights_unref(w);
    return status == KILN_OK ? texts_beside(path, each, to, e) : status;
}
