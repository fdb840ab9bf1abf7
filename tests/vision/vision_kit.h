/* vision_kit.h - for tests of the vision plugin: files of a list of names and shapes, under one or another's names. */
#ifndef KILN_TESTS_VISION_KIT_H
#define KILN_TESTS_VISION_KIT_H

#include "golden_kit.h"
#include "unet/formula_weights.h"

#include <sys/stat.h>

/* The tensors below "kind KIND" of tests/golden/FOLDER/names.txt. */
static inline formula_file *tensors_of(const char *folder, const char *kind)
{
    static formula_file f;
    char path[600], line[300], wanted[60];
    int inside = 0;
    f.n = 0, f.of = kind;
    snprintf(path, sizeof path, "%s/tests/golden/%s/names.txt", test_root(), folder);
    snprintf(wanted, sizeof wanted, "kind %s", kind);
    FILE *in = fopen(path, "r");
    if (!CHECK(in != NULL)) return &f;
    while (fgets(line, sizeof line, in)) {
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, "kind ", 5) == 0)
            inside = strcmp(line, wanted) == 0;
        else if (inside)
            CHECK(formula_add(&f, line));
    }
    fclose(in);
    CHECK_MSG(f.n > 5, "%zu tensors of %s", f.n, kind);
    return &f;
}

static inline void write_text(const char *path, const char *text)
{
    FILE *out = fopen(path, "wb");
    if (!CHECK(out != NULL)) return;
    fputs(text, out);
    fclose(out);
}

/* Opens the file in the test's folder: `name`.safetensors; `metadata` as formula_write's. */
static inline kiln_weights *open_single(const formula_file *f, const char *name, const char *metadata)
{
    char path[400];
    error e = {0};
    snprintf(path, sizeof path, "%s/%s.safetensors", test_folder(), name);
    CHECK(formula_write(f, path, metadata));
    kiln_weights *w = weights_open(path, &e);
    CHECK_MSG(w != NULL, "%s", e.message);
    return w;
}

/* The same as a folder with a config.json, and a preprocessor_config.json unless it is NULL. */
static inline kiln_weights *open_folder(const formula_file *f, const char *name, const char *config,
                                        const char *processor)
{
    char root[300], path[400];
    error e = {0};
    snprintf(root, sizeof root, "%s/%s", test_folder(), name);
    mkdir(root, 0700);
    snprintf(path, sizeof path, "%s/config.json", root);
    write_text(path, config);
    snprintf(path, sizeof path, "%s/preprocessor_config.json", root);
    if (processor)
        write_text(path, processor);
    else
        unlink(path);
    snprintf(path, sizeof path, "%s/model.safetensors", root);
    CHECK(formula_write(f, path, NULL));
    kiln_weights *w = weights_open(root, &e);
    CHECK_MSG(w != NULL, "%s", e.message);
    return w;
}

/* A whole small file of the tree, in static memory. */
static inline const char *text_of(const char *path)
{
    static char text[4000];
    char full[600];
    snprintf(full, sizeof full, "%s/%s", test_root(), path);
    FILE *in = fopen(full, "rb");
    if (!CHECK(in != NULL)) return "";
    text[fread(text, 1, sizeof text - 1, in)] = 0;
    fclose(in);
    return text;
}

static inline const kiln_net *net_of(const kiln_value *v, const char *type)
{
    const kiln_model_api *models = rig_host()->ability(KILN_MODEL_ABILITY);
    return models->net(rig_ctx(), v, type);
}

/* Names cut out and shapes changed, `edits` times, by a number that is carried along. */
static inline void damage(formula_file *f, int edits, uint64_t *z)
{
    f->of = NULL;
    for (int k = 0; k < edits && f->n > 1; k++) {
        *z = *z * 6364136223846793005u + 1442695040888963407u;
        formula_tensor *t = &f->tensor[(*z >> 33) % f->n];
        if (*z >> 61 & 1)
            *t = f->tensor[--f->n];
        else if (t->rank)
            t->dim[(*z >> 20) % (uint64_t)t->rank] = (int64_t)(*z >> 50 & 7);
    }
}

#endif
