/* dynamic_apply.c - where choices are made in a workflow: dynamic_prompts_apply of dynamic_prompt.h. */
#include "base/file.h"
#include "base/memory_alloc.h"
#include "param/param.h"
#include "workflow/dynamic_prompt.h"

#include <string.h>

enum { WILDCARD_BYTES_MAX = 16 << 20 };

typedef struct {
    document *d;
    const catalog_view *catalog;
    dynamic_source how;
} applying;

static const char *wildcard(void *self, arena *a, const char *name, error *e)
{
    const applying *x = self;
    const char *file = arena_printf(a, "%s.txt", name);
    const char *path = file ? x->catalog->file(x->catalog->self, a, "wildcards", file, e) : NULL;
    char *data = NULL;
    size_t n = 0;
    if (!file) error_set(e, KILN_ERR_NOMEM, "out of memory");
    if (!path || file_read(path, WILDCARD_BYTES_MAX, &data, &n, e) != KILN_OK) return NULL;
    const char *text = utf8_valid(data, n) ? arena_strndup(a, data, n) : NULL;
    if (!utf8_valid(data, n))
        error_set(e, KILN_ERR_INVALID, "%s is not UTF-8", path);
    else if (!text)
        error_set(e, KILN_ERR_NOMEM, "out of memory");
    mem_free(data);
    return text;
}

/* The number in the first seed of the file, in the order of its nodes. */
static uint64_t first_seed(const document *d, const catalog_view *catalog)
{
    for (size_t i = 0; i < d->n_node; i++) {
        digest ignored;
        const kiln_node *t = d->node[i].type ? catalog->find(catalog->self, d->node[i].type, &ignored) : NULL;
        for (size_t k = 0; t && k < d->node[i].n_input; k++)
            for (uint32_t p = 0; p < t->n_param; p++) {
                const doc_input *in = &d->node[i].input[k];
                if (node_param(t, p)->type != KILN_P_SEED || strcmp(node_param(t, p)->name, in->name) != 0) continue;
                param_value v = param_written(in->text ? in->text : "", 0);
                if (!in->is_wire && v.kind == PARAM_INT) return (uint64_t)v.whole;
                if (!in->is_wire && v.kind == PARAM_SEED) return v.bits;
            }
    }
    return 0;
}

static int takes_clip(const kiln_node *t)
{
    for (uint32_t i = 0; i < t->n_in; i++)
        if (strcmp(node_in(t, i)->type, "CLIP") == 0) return 1;
    return 0;
}

/* The parameter of the head that is the whole of a value: in pictures it has what was chosen. */
static workflow_param *whole_param(document *d, const doc_input *in)
{
    size_t n = in->source ? strlen(in->source) : 0;
    if (n < 4 || strncmp(in->source, "${", 2) != 0 || strchr(in->source, '}') != in->source + n - 1) return NULL;
    return document_param(d, in->source + 2, n - 3);
}

static void resolve_input(applying *x, doc_node *node, doc_input *in)
{
    str made = {0};
    error why = {0};
    kiln_status status = dynamic_prompt_resolve(in->text, &x->how, &made, &why);
    if (status == KILN_ERR_NOMEM) {
        x->d->failed = 1;
    } else if (status != KILN_OK) {
        document_fault(x->d, in->value_at, node, "input '%s': %s", in->name, why.message);
    } else if (strcmp(str_text(&made), in->text) != 0) {
        const char *text = arena_strdup(&x->d->memory, str_text(&made));
        workflow_param *p = whole_param(x->d, in);
        if (!text) x->d->failed = 1, text = "";
        document_warn(x->d, in->value_at, node, "input '%s': with the seed %llu it is '%.600s'", in->name,
                      (unsigned long long)x->how.seed, text);
        if (p)
            p->text = text;
        else
            in->source = NULL;
        in->text = text, in->quoted = 1;
    }
    str_free(&made);
}

void dynamic_prompts_apply(document *d, const catalog_view *catalog)
{
    if (!d->dynamic_prompts && !d->from_editor) return;
    applying x = {.d = d, .catalog = catalog};
    x.how = (dynamic_source){.seed = first_seed(d, catalog), .editor = !d->dynamic_prompts};
    if (d->dynamic_prompts) x.how.wildcard = wildcard, x.how.self = &x;
    for (size_t i = 0; i < d->n_node && !d->failed; i++) {
        digest ignored;
        const kiln_node *t = d->node[i].type ? catalog->find(catalog->self, d->node[i].type, &ignored) : NULL;
        for (uint32_t p = 0; t && takes_clip(t) && p < t->n_param; p++) {
            const kiln_param *param = node_param(t, p);
            if (param->type != KILN_P_STRING || !(param->flags & KILN_PARAM_MULTILINE)) continue;
            for (size_t k = 0; k < d->node[i].n_input; k++) {
                doc_input *in = &d->node[i].input[k];
                if (strcmp(in->name, param->name) == 0 && !in->is_wire && !in->not_scalar && in->text)
                    resolve_input(&x, &d->node[i], in);
            }
        }
    }
}
