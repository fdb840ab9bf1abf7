/* gguf_split.c - a GGUF model in several files: NAME-00001-of-00003.gguf and those beside it.
 *
 * The first file is the one to open. The names of the others follow from its own, never from what is in a file; the
 * keys split.no, split.count and split.tensors.count of each must agree with that.
 */
#include "base/memory_alloc.h"
#include "base/str.h"
#include "weights/set.h"

#include <stdlib.h>
#include <string.h>

/* A key's number; `fallback` where there is none. */
static uint64_t number(const weights_file *f, const char *key, uint64_t fallback)
{
    uint64_t v;
    return gguf_pair_count(gguf_header_find(&f->gguf, key), &v) ? v : fallback;
}

enum { ENDING = sizeof "-00001-of-00001.gguf" - 1 };

static int digits(const char *p, uint64_t *out)
{
    *out = 0;
    for (int i = 0; i < 5; i++) {
        if (p[i] < '0' || p[i] > '9') return 0;
        *out = *out * 10 + (uint64_t)(p[i] - '0');
    }
    return 1;
}

int gguf_split_name(const char *path, uint64_t *no, uint64_t *count)
{
    size_t n = strlen(path);
    const char *end = path + n - ENDING;
    return n > ENDING && end[0] == '-' && digits(end + 1, no) && strncmp(end + 6, "-of-", 4) == 0 &&
           digits(end + 10, count) && strcmp(end + 15, ".gguf") == 0;
}

static char *name_of(const char *first, uint64_t no, uint64_t count)
{
    str s = {0};
    str_append_n(&s, first, strlen(first) - ENDING);
    str_printf(&s, "-%05u-of-%05u.gguf", (unsigned)no, (unsigned)count);
    char *name = s.failed ? NULL : mem_strdup(str_text(&s));
    str_free(&s);
    return name;
}

static kiln_status check_first(const weights_file *f, uint64_t count, error *e)
{
    uint64_t no = 0, of = 0;
    if (count > WEIGHTS_FILES_MAX)
        return error_set(e, KILN_ERR_INVALID, "%s: is said to be one of %llu files; at most %d are read", f->map.path,
                         (unsigned long long)count, WEIGHTS_FILES_MAX);
    if (!gguf_split_name(f->map.path, &no, &of) || of != count)
        return error_set(e, KILN_ERR_INVALID,
                         "%s: is one of %llu files by its metadata; its name must end in -00001-of-%05u.gguf, and the "
                         "others must lie beside it",
                         f->map.path, (unsigned long long)count, (unsigned)count);
    if (no == 1 && number(f, "split.no", 0) == 0) return KILN_OK;
    return error_set(e, KILN_ERR_INVALID,
                     "%s: is not the first of %llu files; open the one that ends in -00001-of-%05u", f->map.path,
                     (unsigned long long)count, (unsigned)count);
}

static kiln_status add_one(kiln_weights *w, const char *path, const char *prefix, uint64_t no, uint64_t count, error *e)
{
    if (!file_exists(path))
        return error_set(e, KILN_ERR_INVALID, "%s: is missing; a model of %llu files needs them all", path,
                         (unsigned long long)count);
    if (w->root && !set_holds_path(w, path))
        return error_set(e, KILN_ERR_INVALID,
                         "%s: a link to a file outside the model's folder; put the file itself there", path);
    TRY(set_add_one_file(w, path, prefix, e));
    const weights_file *f = &w->file[w->n_file - 1];
    if (number(f, "split.count", 0) == count && number(f, "split.no", count) == no - 1) return KILN_OK;
    return error_set(e, KILN_ERR_INVALID, "%s: says it is file %llu of %llu; the files do not belong together", path,
                     (unsigned long long)number(f, "split.no", 0) + 1, (unsigned long long)number(f, "split.count", 0));
}

kiln_status set_add_splits(kiln_weights *w, const char *prefix, error *e)
{
    size_t first = w->n_file - 1, tensors = 0;
    uint64_t count = number(&w->file[first], "split.count", 1), all = number(&w->file[first], "split.tensors.count", 0);
    if (count <= 1) return KILN_OK;
    TRY(check_first(&w->file[first], count, e));
    for (uint64_t no = 2; no <= count; no++) {
        char *path = name_of(w->file[first].map.path, no, count);
        kiln_status status =
            path ? add_one(w, path, prefix, no, count, e) : error_set(e, KILN_ERR_NOMEM, "%s: out of memory", w->path);
        mem_free(path);
        TRY(status);
    }
    for (size_t i = first; i < w->n_file; i++) tensors += w->file[i].header.count;
    if (!all || all == tensors) return KILN_OK;
    return error_set(e, KILN_ERR_INVALID, "%s: its files hold %zu tensors together, and %llu are said to be there",
                     w->file[first].map.path, tensors, (unsigned long long)all);
}
