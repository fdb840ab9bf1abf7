/* job.c - opening a job: plugins, the source's text, and its first reading; see job.h. */
#include "run/job.h"

#include "base/file.h"
#include "base/log.h"
#include "base/memory_alloc.h"
#include "base/print.h"
#include "plugin/abilities.h"
#include "plugin/ctx.h"
#include "plugin/supervised.h"
#include "run/node_elsewhere.h"
#include "run/reading.h"
#include "weights/set.h"
#include "weights/weights.h"
#include "workflow/boxes.h"
#include "workflow/dynamic_prompt.h"
#include "workflow/old_habits.h"
#include "workflow/picture_text.h"
#include "workflow/prefix_tokens.h"
#include "workflow/random_seed.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

enum { WORKFLOW_BYTES_MAX = 16 << 20 };

/* ---- the catalog as the checker sees it ---- */

static const kiln_node *view_find(void *self, const char *type, digest *identity)
{
    const catalog *c = ((job *)self)->catalog;
    const node_info *n = catalog_find(c, type);
    if (n) *identity = catalog_code_of(c, n);
    return n ? n->node : NULL;
}

static const char *view_type(void *self, size_t i)
{
    const node_info *n = catalog_node(((job *)self)->catalog, i);
    return n ? n->node->type : NULL;
}

static const char *view_name(void *self, const char *from, size_t i) { return (void)self, registry_name(from, i); }

static const char *view_file(void *self, arena *a, const char *from, const char *name, error *e)
{
    return file_roots_resolve(&((job *)self)->roots, a, from, name, e);
}

static const char *plugin_of(void *self, const kiln_node *t)
{
    const plugin_info *p = catalog_plugin_of(((job *)self)->catalog, t);
    return p ? p->id : "?";
}

static kiln_status view_wants(void *self, const char *node, const kiln_node *t, const void *params, uint64_t *inputs,
                              error *e)
{
    return ctx_wants(NULL, node, plugin_of(self, t), t, params, NULL, inputs, e);
}

static kiln_status view_expand(void *self, const char *node, const kiln_node *t, const void *params, kiln_graph *g,
                               error *e)
{
    const ctx_checking how = {.params = params, .wanted = UINT64_MAX, .thorough = ((job *)self)->thorough};
    TRY(ctx_check(node, plugin_of(self, t), t, &how, e));
    return ctx_expand(node, plugin_of(self, t), t, params, g, e);
}

/* ---- reading ---- */

/* Files of weights are opened as the run would open them: their headers are read. */
static void check_weights(reading *r, const graph_node *g, const char *path)
{
    error why = {0};
    const char *end = strrchr(path, '.');
    if (!end || (strcmp(end, ".safetensors") != 0 && strcmp(end, ".gguf") != 0 && !is_pickle_name(path))) return;
    kiln_weights *w = weights_open(path, &why);
    if (w)
        weights_unref(w);
    else if (why.status == KILN_ERR_NOMEM)
        r->doc.failed = 1;
    else
        document_fault(&r->doc, g->doc->at, g->doc, "%s", why.message);
}

static void check_files(reading *r, const graph_node *g)
{
    for (uint32_t k = 0; k < g->type->n_param; k++) {
        const kiln_param *p = node_param(g->type, k);
        const char *kind = p->from ? p->from : "input";
        if (p->type == KILN_P_FILE && g->file[k] && strcmp(kind, "input") != 0) check_weights(r, g, g->file[k]);
    }
    for (size_t k = 0; k < g->n_named; k++) check_weights(r, g, g->named[k].path);
}

/* NULL: not all are known. */
static const void *known_params(const graph_node *g)
{
    int wired = 0;
    for (uint32_t i = 0; i < g->type->n_param; i++) wired |= g->param_in[i].node != SOURCE_NONE;
    return !wired ? g->params : g->open ? NULL : g->known;
}

/* What the nodes themselves find wrong with their parameters. Those that only a run will know are asked about then
 * (execute.c): a default that stands for a wire says nothing. */
static void check_nodes(const job *j, reading *r)
{
    for (size_t i = 0; i < r->w.n; i++) {
        const graph_node *g = &r->w.node[i];
        size_t faults = r->doc.n_fault;
        if (g->type && j->thorough) check_files(r, g);
        if (r->doc.n_fault > faults) continue;
        error why = {0};
        const void *params = g->type && g->type->check ? known_params(g) : NULL;
        if (!params) continue;
        const ctx_checking how = {.params = params, .wanted = g->used, .thorough = j->thorough};
        if (ctx_check(g->doc->name, r->info[i]->plugin->id, g->type, &how, &why) != KILN_OK)
            document_fault(&r->doc, doc_node_place(g->doc, why.param), NULL, "%s", why.message);
    }
}

/* Reads once more, with numbers in the place of seeds that are `random`. */
static kiln_status draw_seeds(job *j, const catalog_view *view, document_source from, reading *r, error *e)
{
    set_option drawn[RANDOM_SEEDS_MAX];
    arena memory = {0};
    if (!j->entropy && getrandom(&j->entropy, sizeof j->entropy, 0) != sizeof j->entropy)
        return error_set(e, KILN_ERR_IO, "no random numbers: %s", strerror(errno));
    size_t n = j->unchecked ? 0 : random_seeds_find(&r->doc, view, j->entropy, &memory, drawn);
    int first = !j->drawn.len;
    for (size_t i = 0; first && i < n; i++)
        str_printf(&j->drawn, "%s%s=%s", i ? ", " : "", drawn[i].name, drawn[i].value);
    set_option *all = n ? mem_calloc(from.n_set + n, sizeof *all) : NULL;
    kiln_status status = n && !all ? error_set(e, KILN_ERR_NOMEM, "out of memory") : KILN_OK;
    if (all) {
        if (from.n_set) memcpy(all, from.set, from.n_set * sizeof *all);
        memcpy(all + from.n_set, drawn, n * sizeof *drawn);
        from.set = all, from.n_set += n;
        document_free(&r->doc);
        status = document_read(&r->doc, &from, e);
    }
    mem_free(all);
    arena_free(&memory);
    return status;
}

static const char *view_elsewhere(void *self, arena *a, const char *type)
{
    const job *j = self;
    return node_elsewhere(j->catalog, a, j->path, type);
}

kiln_status job_read(job *j, const set_option *set, size_t n_set, reading *r, error *e)
{
    *r = (reading){.w.doc = &r->doc};
    catalog_view view = {.self = j,
                         .find = view_find,
                         .n_type = catalog_nodes(j->catalog),
                         .type_at = view_type,
                         .name_at = view_name,
                         .file = view_file,
                         .wants = view_wants,
                         .expand = view_expand,
                         .elsewhere = view_elsewhere};
    const document_source from = {
        .name = j->path, .data = j->text, .size = j->text_size, .set = set, .n_set = n_set, .catalog = &view};
    TRY(document_read(&r->doc, &from, e));
    TRY(draw_seeds(j, &view, from, r, e));
    boxes_expand(&r->doc, &view);
    if (!j->unchecked) old_habits_mend(&r->doc, &view);
    dynamic_prompts_apply(&r->doc, &view);
    if (r->doc.failed) return error_set(e, KILN_ERR_NOMEM, "out of memory");
    if (j->unchecked) return document_sort_faults(&r->doc), KILN_OK;
    TRY(workflow_check(&r->doc, &view, &r->w, e));
    r->info = arena_alloc(&r->doc.memory, (r->w.n + 1) * sizeof(node_info *));
    if (!r->info) return error_set(e, KILN_ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < r->w.n; i++)
        r->info[i] = r->w.node[i].type ? catalog_find(j->catalog, r->w.node[i].doc->type) : NULL;
    if (r->doc.n_fault == 0) prefix_tokens_replace(&r->w);
    if (r->doc.n_fault == 0) check_nodes(j, r);
    if (r->doc.failed) return error_set(e, KILN_ERR_NOMEM, "out of memory");
    document_sort_faults(&r->doc);
    return KILN_OK;
}

void reading_free(reading *r)
{
    document_free(&r->doc);
    *r = (reading){0};
}

void reading_move(reading *to, reading *from)
{
    reading_free(to);
    *to = *from;
    to->w.doc = &to->doc;
    *from = (reading){0};
}

/* ---- opening ---- */

static kiln_status read_picture(job *j, const char *path, error *e)
{
    TRY(picture_text_find(path, "kiln", &j->text, e)); /* with parameters */
    if (!j->text) TRY(picture_text_find(path, "prompt", &j->text, e));
    if (!j->text) TRY(picture_text_find(path, "workflow", &j->text, e)); /* as the editor has it */
    if (!j->text) TRY(picture_text_read(path, "prompt", &j->text, e));   /* says that there is none */
    j->text_size = strlen(j->text);
    return KILN_OK;
}

/* What came through a pipe is a picture: as a file without a name. */
static kiln_status read_piped_picture(job *j, int fd, error *e)
{
    char at[40];
    error why = {0};
    snprintf(at, sizeof at, "/proc/self/fd/%d", fd);
    for (size_t done = 0; done < j->text_size;) {
        ssize_t n = write(fd, j->text + done, j->text_size - done);
        if (n < 0) return error_set(e, KILN_ERR_IO, "%s: cannot be kept: %s", j->path, strerror(errno));
        done += (size_t)n;
    }
    mem_free(j->text);
    j->text = NULL;
    kiln_status status = read_picture(j, at, &why);
    if (status == KILN_OK) return KILN_OK;
    int named = strncmp(why.message, at, strlen(at)) == 0;
    return error_set(e, status, "%s%s%s", j->path, named ? "" : ": ", why.message + (named ? strlen(at) : 0));
}

static kiln_status read_text(job *j, const char *path, error *e)
{
    size_t n = strlen(path);
    if (picture_text_is_picture(path) || (n >= 4 && strcasecmp(path + n - 4, ".png") == 0))
        return read_picture(j, path, e);
    TRY(file_read_stream(path, WORKFLOW_BYTES_MAX, &j->text, &j->text_size, e));
    if (!picture_text_begins(j->text, j->text_size)) return KILN_OK;
    int fd = memfd_create("picture", MFD_CLOEXEC);
    if (fd < 0) return error_set(e, KILN_ERR_IO, "%s: cannot be kept: %s", path, strerror(errno));
    kiln_status status = read_piped_picture(j, fd, e);
    close(fd);
    return status;
}

/* What was asked for with --plugins or is installed, and cannot be used by the workflow. */
static void warn_of_refused(const catalog *c)
{
    for (size_t i = 0; i < catalog_plugins(c); i++) {
        const plugin_info *p = catalog_plugin(c, i);
        if (!p->table && !p->shadowed) log_warn("%s was not loaded: %s", p->path, p->why);
        for (size_t k = 0; k < p->n_clash; k++) log_warn("%s", p->clash[k]);
    }
}

/* ---- for the process that watches ---- */

static int is_foreign(const plugin_info *p) { return p && p->table && !p->trusted; }

int job_foreign_takes_part(const job *j)
{
    const reading *r = &j->first;
    for (size_t i = 0; r->info && i < r->w.n; i++)
        if (r->info[i] && is_foreign(r->info[i]->plugin)) return 1;
    for (size_t i = 0; i < catalog_plugins(j->catalog); i++)
        if (is_foreign(catalog_plugin(j->catalog, i)) && registry_has_rows_of(catalog_plugin(j->catalog, i)->id))
            return 1;
    return 0;
}

/* Tells which of them the workflow needs. */
static void say_needed(const job *j)
{
    const reading *r = &j->first;
    for (size_t i = 0; i < catalog_plugins(j->catalog); i++) {
        const plugin_info *p = catalog_plugin(j->catalog, i);
        int needed = is_foreign(p) && registry_has_rows_of(p->id);
        for (size_t k = 0; r->info && is_foreign(p) && k < r->w.n; k++) needed |= r->info[k] && r->info[k]->plugin == p;
        if (needed) supervised_needed(p->path, p->id);
    }
    supervised_read();
}

static kiln_status open_source(job *j, const job_source *s, error *e)
{
    j->line = s->line, j->line_arg = s->arg;
    j->catalog = s->catalog, j->keeps_catalog = s->catalog != NULL;
    if (!j->catalog && !(j->catalog = catalog_open(s->plugins, e))) return e->status;
    if (!s->catalog && !supervised_again()) warn_of_refused(j->catalog);
    if (supervision && !catalog_has_foreign(j->catalog)) atomic_store(&supervision->unwatched, 1);
    if (supervision) j->entropy = supervision->entropy;
    if (!(j->path = arena_strdup(&j->memory, s->path))) return error_set(e, KILN_ERR_NOMEM, "out of memory");
    j->set = s->set, j->n_set = s->n_set, j->unchecked = s->unchecked, j->thorough = s->thorough;
    TRY(file_roots_find(&j->roots, &j->memory, s->path, s->models, s->input, e));
    TRY(read_text(j, s->path, e));
    TRY(job_read(j, s->set, s->n_set, &j->first, e));
    if (supervision) atomic_store(&supervision->takes_part, job_foreign_takes_part(j)), say_needed(j);
    return KILN_OK;
}

void job_line(const job *j, const char *text, int is_warning)
{
    if (is_warning && supervised_again()) return; /* it was said */
    if (j->line)
        j->line(j->line_arg, text, is_warning);
    else
        print_text(stderr, "%s\n", text);
}

static void line_of_first(void *arg, const char *text, int is_warning) { job_line(arg, text, is_warning); }

job *job_open(const job_source *from, size_t *faults, error *e)
{
    job *j = mem_calloc(1, sizeof *j);
    if (!j) return error_set(e, KILN_ERR_NOMEM, "out of memory"), NULL;
    if (open_source(j, from, e) != KILN_OK) {
        job_close(j);
        return NULL;
    }
    int by_row = from->over || (from->rows && j->first.doc.matrix);
    if (!by_row) document_print_faults(&j->first.doc, line_of_first, j); /* of rows: row_faults.h */
    *faults = by_row ? 0 : j->first.doc.n_fault;
    return j;
}

void job_close(job *j)
{
    if (!j) return;
    reading_free(&j->first);
    if (!j->keeps_catalog) catalog_close(j->catalog);
    arena_free(&j->memory);
    mem_free(j->text);
    str_free(&j->drawn);
    mem_free(j);
}

catalog *job_take_catalog(job *j)
{
    j->keeps_catalog = 1;
    return j->catalog;
}

const workflow *job_workflow(const job *j) { return &j->first.w; }
const catalog *job_catalog(const job *j) { return j->catalog; }
const yaml_node *job_matrix(const job *j) { return j->first.doc.matrix; }
