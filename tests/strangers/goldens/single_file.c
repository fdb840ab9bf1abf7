/* single_file.c - a plugin for tests: TestSingleFile writes the tensors of a folder into one file, under the names of a
 * list: lines "NEW OLD", or "NEW OLD OLD OLD" where several become one, one below the other; "NEW ^OLD" turns a matrix,
 * "NEW :OLD" writes it as a convolution of one cell, [O,I,1,1].
 * A line "= KEY VALUE" is for the metadata. What is written is a fact about names, made without the rules that a family
 * reads them by.
 */
#include "kiln/files.h"
#include "kiln/kit.h"
#include "kiln/weights.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 1000, PARTS = 4, TEXTS = 4, TURNED = 4 };

typedef struct {
    const char *path, *names;
} params;

static const kiln_param param[] = {{.name = "folder",
                                    .type = KILN_P_FILE,
                                    .flags = KILN_PARAM_REQUIRED,
                                    .offset = offsetof(params, path),
                                    .from = "checkpoints",
                                    .doc = "Whose tensors."},
                                   {.name = "names",
                                    .type = KILN_P_FILE,
                                    .flags = KILN_PARAM_REQUIRED,
                                    .offset = offsetof(params, names),
                                    .from = "input",
                                    .doc = "A list of names."}};

typedef struct {
    kiln_weight_row row[ROWS];
    const char *part[ROWS][PARTS];
    int64_t dim[ROWS][4];
    kiln_weight_text text[TEXTS];
    kiln_weight_rule rule[TURNED + 1]; /* those that are turned, under "^" and their names; and all */
    size_t n, n_text, n_rule;
} lists;

static void turn(lists *l, const char *word)
{
    static const uint32_t rows_and_columns[] = {1, 0}; /* permute and not transpose, which write() does not take */
    if (l->n_rule < TURNED)
        l->rule[l->n_rule++] = (kiln_weight_rule)KILN_RULE(.from = word + 1, .to = word, .permute = rows_and_columns,
                                                           .permute_rank = 2, .more = 1);
}

/* Lines of `text`, which is cut into words. */
static void read_names(char *text, lists *l)
{
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        char *value = strncmp(line, "= ", 2) == 0 ? strchr(line + 2, ' ') : NULL;
        if (value && l->n_text < TEXTS) {
            *value = 0;
            l->text[l->n_text++] = (kiln_weight_text){sizeof *l->text, line + 2, value + 1};
            continue;
        }
        kiln_weight_row *row = &l->row[l->n];
        *row = (kiln_weight_row){.size = sizeof *row, .tensor = l->part[l->n], .name = strtok(line, " ")};
        for (char *word; row->n_tensor < PARTS && (word = strtok(NULL, " "));) {
            l->part[l->n][row->n_tensor++] = word;
            if (*word == '^') turn(l, word);
        }
        if (row->name && row->n_tensor && l->n + 1 < ROWS) l->n++;
    }
}

/* [O,I] as [O,I,1,1] */
static void as_convolution(const kiln_weights_api *w, const kiln_weights *set, kiln_weight_row *row, const char **part,
                           int64_t dim[4])
{
    kiln_weight_info info = {.size = sizeof info};
    if (**part != ':' || w->find(set, ++*part, &info) != KILN_OK || info.rank != 2) return;
    dim[0] = info.dim[0], dim[1] = info.dim[1], dim[2] = dim[3] = 1;
    row->rank = 4, row->dim = dim;
}

static kiln_status write_file(const kiln_call *c, kiln_weights *set, lists *l)
{
    const kiln_weights_api *w = c->host->ability(KILN_WEIGHTS_ABILITY);
    const kiln_files_api *files = c->host->ability(KILN_FILES_ABILITY);
    kiln_file *to = files->create(c->ctx, KILN_FILES_OUTPUT, "single", "safetensors");
    l->rule[l->n_rule++] = (kiln_weight_rule)KILN_RULE(.from = "*", .to = "*");
    kiln_weights *view = to ? w->view(c->ctx, set, l->rule, l->n_rule) : NULL;
    if (!view) return KILN_ERR_INVALID;
    for (size_t i = 0; i < l->n; i++) {
        as_convolution(w, view, &l->row[i], &l->part[i][0], l->dim[i]);
        l->row[i].from = view;
    }
    kiln_status status = w->write(c->ctx, to, l->row, l->n, l->text, l->n_text);
    w->unref(view);
    return status == KILN_OK ? files->commit(to, NULL) : status;
}

static kiln_status run(const kiln_call *c)
{
    const kiln_weights_api *w = c->host->ability(KILN_WEIGHTS_ABILITY);
    const params *p = c->params;
    kiln_weights *set = w->open(c->ctx, p->path);
    FILE *f = fopen(p->names, "re");
    lists *l = calloc(1, sizeof *l);
    char *text = calloc(1, 1 << 20);
    kiln_status status = set && f && l && text ? KILN_OK : KILN_ERR_INVALID;
    if (status == KILN_OK) {
        text[fread(text, 1, (1 << 20) - 1, f)] = 0;
        read_names(text, l);
        status = write_file(c, set, l);
    }
    if (f) fclose(f);
    w->unref(set), free(l), free(text);
    return status;
}

static const kiln_node node = {KIT_NODE_FLAGS(KILN_NODE_OUTPUT, 1, "TestSingleFile", "Single file", "test",
                                              "A folder's tensors under other names."),
                               KIT_PARAMS(params, param), .run = run};

KILN_PLUGIN("org.example.single-file", "1.0.0", "MIT", &node);
