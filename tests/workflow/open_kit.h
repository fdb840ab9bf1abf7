/* open_kit.h - a workflow's text, checked and keyed against the fake catalogue, for tests of what checking does. */
#ifndef KILN_TESTS_OPEN_KIT_H
#define KILN_TESTS_OPEN_KIT_H

#include "base/memory_alloc.h"
#include "harness.h"
#include "workflow/fake_catalog.h"
#include "workflow/key.h"

typedef struct {
    document d;
    workflow w;
    char faults[8000], warnings[4000]; /* as printed */
} opened;

static void opened_line(void *arg, const char *line, int is_warning)
{
    opened *o = arg;
    char *all = is_warning ? o->warnings : o->faults;
    if (strlen(all) + strlen(line) + 2 < sizeof o->warnings) strcat(strcat(all, line), "\n");
}

/* The one workflow that is open: of `catalog`, NULL for fake_catalog(). */
static opened *open_with(const char *text, const catalog_view *catalog)
{
    static opened o;
    static const key_setting on = {.device = "cpu", .precision = "f32"};
    error e = {0};
    catalog_view fake = fake_catalog();
    fake_files_folder = NULL;
    memset(&o, 0, sizeof o);
    if (!CHECK_MSG(document_parse(&o.d, "f", text, strlen(text), NULL, 0, &e) == KILN_OK, "%s", e.message)) return &o;
    CHECK_MSG(workflow_check(&o.d, catalog ? catalog : &fake, &o.w, &e) == KILN_OK, "%s", e.message);
    document_print_faults(&o.d, opened_line, &o);
    if (!o.d.n_fault) CHECK_MSG(workflow_keys(&o.w, &on, &e) == KILN_OK, "%s", e.message);
    return &o;
}
static inline opened *open_text(const char *text) { return open_with(text, NULL); }

static inline const graph_node *node_of(const opened *o, const char *name)
{
    static const graph_node none;
    for (size_t i = 0; i < o->w.n; i++)
        if (strcmp(o->w.node[i].doc->name, name) == 0) return &o->w.node[i];
    CHECK_MSG(0, "no node '%s'", name);
    return &none;
}

static inline int has_node(const opened *o, const char *name)
{
    for (size_t i = 0; i < o->w.n; i++)
        if (strcmp(o->w.node[i].doc->name, name) == 0) return 1;
    return 0;
}

static inline digest key_of(const char *text, const char *name)
{
    opened *o = open_text(text);
    CHECK_MSG(o->d.n_fault == 0, "%s", o->faults);
    digest key = node_of(o, name)->key;
    document_free(&o->d);
    return key;
}

/* The text has a fault with these words, and `n` faults in all. */
#define FAULTS(text, n, part)                                                                                          \
    do {                                                                                                               \
        opened *o_ = open_text(text);                                                                                  \
        CHECK_MSG(strstr(o_->faults, part) != NULL, "%s not in: %s", part, o_->faults);                                \
        CHECK_MSG(o_->d.n_fault == (n), "%zu faults: %s", o_->d.n_fault, o_->faults);                                  \
        document_free(&o_->d);                                                                                         \
    } while (0)
#define SOUND(text)                                                                                                    \
    do {                                                                                                               \
        opened *o_ = open_text(text);                                                                                  \
        CHECK_MSG(o_->d.n_fault == 0, "%s", o_->faults);                                                               \
        document_free(&o_->d);                                                                                         \
    } while (0)

#endif
