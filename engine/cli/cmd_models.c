/* cmd_models.c - `kiln models`: which models there are, in which folders, and of which family. */
#include "base/array.h"
#include "base/file.h"
#include "base/memory_alloc.h"
#include "base/print.h"
#include "base/str.h"
#include "cli/inspect.h"
#include "cli/open_catalog.h"
#include "run/files.h"
#include "weights/weights.h"
#include "workflow/model_alias.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const option options[] = {
    {"--models", 0, "DIRS", "look here first: folders, or an extra_model_paths.yaml (also KILN_MODELS)", 0},
    {"--kind", 0, "KIND", "only those of this folder: checkpoints, loras, vae, ...", 0},
    {"--hash", 0, NULL, "also a digest of each one's content (reads all of it once)", 0},
    {"--json", 0, NULL, "print one JSON object", 0},
    PLUGINS_OPTION,
};
const manual manual_models = {
    .usage = "kiln models [options]",
    .about = "Lists the models that a workflow in this folder can name: kind, name, size, family, and where it lies.\n"
             "Looks in --models, KILN_MODELS, ./models and what kiln ships. Only headers are read.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "  kiln models\n  kiln models --kind loras --json\n",
};

typedef struct {
    const char *kind, *name, *path;
    size_t order; /* in which it was found: of one kind and name the first is taken */
} model;

typedef struct {
    const arguments *a;
    model *all;
    size_t n, capacity;
    int failed;
} models;

/* A file or folder in no folder of a kind that has several parts: "checkpoints", else NULL. */
static const char *kind_of_whole(const char *path)
{
    error e = {0};
    kiln_weights *w = weights_open(path, &e);
    kiln_value *found = w ? inspect_set(w, path, &e) : NULL;
    const size_t parts = found ? value_api.count(value_api.map_get(found, "parts")) : 0;
    value_unref(found);
    if (w) weights_unref(w);
    return parts > 1 ? "checkpoints" : NULL;
}

static void add(void *arg, const char *kind, const char *name, const char *path)
{
    models *m = arg;
    if (!kind) kind = kind_of_whole(path);
    const char *only = argument(m->a, "--kind");
    if (only && (!kind || strcmp(kind, only) != 0)) return;
    if (!array_reserve(&m->all, &m->capacity, m->n + 1, sizeof *m->all))
        m->failed = 1;
    else
        m->all[m->n] = (model){kind ? kind : "-", name, path, m->n}, m->n++;
}

static int by_kind(const void *a, const void *b)
{
    const model *x = a, *y = b;
    int order = strcmp(x->kind, y->kind);
    if (!order) order = strcmp(x->name, y->name);
    return order ? order : x->order < y->order ? -1 : 1;
}

/* An embedding is no model: rows of numbers for each text encoder, "clip_l", or one tensor for whichever has its width.
 */
static void put_embedding(const kiln_weights *w, str *s)
{
    for (size_t i = 0; i < weights_count(w); i++) {
        kiln_weight_info t = {.size = sizeof t};
        if (weights_at(w, i, &t) != KILN_OK || t.rank < 1 || t.rank > 2) continue;
        long long rows = t.rank == 2 ? (long long)t.dim[0] : 1, width = (long long)t.dim[t.rank - 1];
        str_printf(s, "%s%lld token%s of %lld", s->len ? ", " : "embedding: ", rows, rows == 1 ? "" : "s", width);
        if (strncmp(t.name, "clip_", 5) == 0) str_printf(s, " for %.40s", t.name);
    }
}

/* "sd-unet, clip, sd1-vae"; why it cannot be read, in (). */
static void put_families(const char *path, const char *kind, str *s, uint64_t *bytes)
{
    error e = {0};
    int64_t total = 0;
    *bytes = 0;
    kiln_weights *w = weights_open(path, &e);
    kiln_value *found = w ? inspect_set(w, path, &e) : NULL;
    const kiln_value *parts = found ? value_api.map_get(found, "parts") : NULL;
    for (size_t i = 0; parts && i < value_api.count(parts); i++) {
        const char *family = value_api.get_string(value_api.map_get(value_api.list_at(parts, i), "family"), NULL);
        str_printf(s, "%s%s", s->len ? ", " : "", family ? family : "?");
    }
    if (found && value_api.get_int(value_api.map_get(found, "bytes"), &total) == KILN_OK) *bytes = (uint64_t)total;
    if (w && !s->len && strcmp(kind, "embeddings") == 0) put_embedding(w, s);
    if (!s->len) str_printf(s, "(%.100s)", found ? "no loaded plugin knows it" : e.message);
    value_unref(found);
    if (w) weights_unref(w);
}

static void print_one(const models *m, const model *one, int first)
{
    int hidden = !first && strcmp(one->kind, one[-1].kind) == 0 && strcmp(one->name, one[-1].name) == 0;
    str families = {0}, s = {0};
    uint64_t bytes;
    char size[16], hex[33] = "";
    digest content;
    error e = {0};
    put_families(one->path, one->kind, &families, &bytes);
    if (argument(m->a, "--hash") && file_digest(one->path, &content, &e) == KILN_OK) digest_hex(content, hex);
    if (argument(m->a, "--json")) {
        const char *const pair[][2] = {{"kind", one->kind},
                                       {"name", one->name},
                                       {"path", one->path},
                                       {"family", str_text(&families)},
                                       {"hash", hex}};
        for (size_t i = 0; i < 4u + (hex[0] != 0); i++) {
            str_printf(&s, "%s\"%s\": ", i ? ", " : first ? "{" : ", {", pair[i][0]);
            str_json(&s, pair[i][1], strlen(pair[i][1]), 1);
        }
        str_printf(&s, ", \"bytes\": %llu%s}", (unsigned long long)bytes, hidden ? ", \"hidden\": true" : "");
        print_str(stdout, &s);
    } else {
        print_text(stdout, "%-16s %-36s %9s  %-24s %s%s%s%s\n", one->kind, one->name,
                   bytes ? str_bytes(size, bytes) : "-", str_text(&families), hex, hex[0] ? "  " : "", one->path,
                   hidden ? " (not taken: the one above is found first)" : "");
    }
    str_free(&s);
    str_free(&families);
}

typedef struct {
    size_t n;
    int json;
} alias_list;

static void print_alias(void *arg, const char *name, const char *file)
{
    alias_list *l = arg;
    str s = {0};
    if (l->json) {
        str_append(&s, l->n ? ", " : ""), str_json(&s, name, strlen(name), 1);
        str_append(&s, ": "), str_json(&s, file, strlen(file), 1);
        print_str(stdout, &s);
    } else {
        print_text(stdout, "%-16s %-36s %9s  %s\n", "alias", name, "", file);
    }
    l->n++;
    str_free(&s);
}

static void print_aliases(int json)
{
    arena memory = {0};
    alias_list l = {.json = json};
    if (json) print_raw(stdout, "], \"aliases\": {");
    model_alias_each(&memory, print_alias, &l);
    if (json) print_raw(stdout, "}, \"folders\": [");
    arena_free(&memory);
}

static void print_all(const models *m, const file_roots *r)
{
    int json = argument(m->a, "--json") != NULL;
    if (json) print_raw(stdout, "{\"models\": [");
    for (size_t i = 0; i < m->n; i++) print_one(m, &m->all[i], i == 0);
    print_aliases(json);
    for (size_t i = 0; i < r->n_model; i++) {
        str s = {0};
        str_json(&s, r->model[i].path, strlen(r->model[i].path), 1);
        if (json)
            print_raw(stdout, i ? ", " : ""), print_str(stdout, &s);
        else if (r->model[i].kind)
            print_text(stdout, "looked in %s (%s)\n", r->model[i].path, r->model[i].kind);
        else
            print_text(stdout, "looked in %s\n", r->model[i].path);
        str_free(&s);
    }
    if (json) print_raw(stdout, "]}\n");
    if (!json && m->n == 0) print_text(stdout, "there are no models; name a folder with --models\n");
}

static int list(const arguments *a)
{
    arena memory = {0};
    file_roots *r = mem_calloc(1, sizeof *r);
    models m = {.a = a};
    error e = {0};
    kiln_status status = r ? file_roots_find(r, &memory, "./workflow.yaml", argument(a, "--models"), NULL, &e)
                           : error_set(&e, KILN_ERR_NOMEM, "out of memory");
    if (status == KILN_OK) {
        file_roots_list(r, &memory, add, &m);
        if (m.n) qsort(m.all, m.n, sizeof *m.all, by_kind);
        if (m.failed) status = error_set(&e, KILN_ERR_NOMEM, "out of memory");
    }
    if (status == KILN_OK) print_all(&m, r);
    if (status != KILN_OK) print_text(stderr, "kiln: error: %s\n", e.message);
    mem_free(m.all);
    mem_free(r);
    arena_free(&memory);
    return status == KILN_OK ? EXIT_DONE : status == KILN_ERR_NOMEM ? EXIT_RUN_FAILED : EXIT_BAD_INPUT;
}

int cmd_models(int argc, char **argv)
{
    arguments a;
    int status;
    if (!arguments_read(&a, &manual_models, argc, argv)) return EXIT_BAD_INPUT;
    if (a.help) return manual_print(&manual_models), EXIT_DONE;
    if (a.n_operand) {
        print_text(stderr, "kiln: what is '%s'?\nusage: %s\n", a.operand[0], manual_models.usage);
        return EXIT_BAD_INPUT;
    }
    catalog *c = open_catalog("models", &a, &status);
    if (!c) return status;
    status = list(&a);
    catalog_close(c);
    return status;
}
