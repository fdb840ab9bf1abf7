/* clip_kit.h - for tests of the clip plugin: opens a checkpoint's text encoders and calls the plugin's nodes, with
 * parameters by name. */
#ifndef KILN_TESTS_CLIP_KIT_H
#define KILN_TESTS_CLIP_KIT_H

#include "golden_kit.h"

#include "clip_family.h"
#include "tokenizer_kit.h"

#include <sys/stat.h>

typedef struct {
    const char *name, *text;
    double number;
} setting;

static inline const kiln_clip *clip_of(const kiln_value *v)
{
    const kiln_model_api *models = rig_host()->ability(KILN_MODEL_ABILITY);
    return models->clip(rig_ctx(), v);
}

/* The CLIP of a file or folder, or NULL. */
static inline kiln_value *clip_in(const char *path)
{
    error e = {0};
    kiln_weights *set = weights_open(path, &e);
    CHECK_MSG(set != NULL, "%s", e.message);
    kiln_value *v = set ? clip_family.open(rig_host(), rig_ctx(), set) : NULL;
    weights_unref(set);
    return v;
}

/* The same, which has to be there: NULL after a failed check. */
static inline kiln_value *open_clip_in(const char *path)
{
    kiln_value *v = clip_in(path);
    CHECK_MSG(v != NULL, "%s: %s", path, rig_message());
    return v;
}

/* One below the repository's root. */
static inline kiln_value *open_clip_at(const char *path)
{
    char full[600];
    snprintf(full, sizeof full, "%s/%s", test_root(), path);
    return open_clip_in(full);
}

/* ---- folders made for a test ---- */

static inline FILE *file_to_write(const char *folder, const char *name)
{
    char path[700];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (char *slash = path + strlen(folder) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        mkdir(path, 0755);
        *slash = '/';
    }
    FILE *f = fopen(path, "wb");
    CHECK_MSG(f != NULL, "%s cannot be written", path);
    return f;
}

static inline void write_text(const char *folder, const char *name, const char *text)
{
    FILE *f = file_to_write(folder, name);
    if (!f) return;
    fputs(text, f);
    fclose(f);
}

/* tests/golden/MODEL/FROM as TO in the folder. */
static inline void copy_golden(const char *model, const char *from, const char *folder, const char *to)
{
    char path[600], bytes[4096];
    snprintf(path, sizeof path, "%s/tests/golden/%s/%s", test_root(), model, from);
    FILE *in = fopen(path, "rb"), *out = file_to_write(folder, to);
    CHECK_MSG(in != NULL, "%s is missing", path);
    for (size_t n; in && out && (n = fread(bytes, 1, sizeof bytes, in)) > 0;) CHECK_EQ(fwrite(bytes, 1, n, out), n);
    if (in) fclose(in);
    if (out) fclose(out);
}

/* ---- nodes ---- */

static inline void set_param(char *params, const kiln_param *p, const setting *s)
{
    int64_t whole = (int64_t)(s ? s->number : p->def);
    int32_t choice = (int32_t)whole;
    double number = s ? s->number : p->def;
    const char *text = s ? s->text : p->def_str;
    if (p->type == KILN_P_INT) memcpy(params + p->offset, &whole, sizeof whole);
    if (p->type == KILN_P_FLOAT) memcpy(params + p->offset, &number, sizeof number);
    if (p->type == KILN_P_ENUM) memcpy(params + p->offset, &choice, sizeof choice);
    if (p->type == KILN_P_STRING || p->type == KILN_P_FILE) memcpy(params + p->offset, &text, sizeof text);
}

/* Calls a node with one input and one output; settings not named are the node's defaults. NULL: it failed. */
static inline kiln_value *call_node(const kiln_node *node, kiln_value *in, const setting *settings, size_t n)
{
    union {
        char bytes[512];
        int64_t aligned;
    } params = {{0}};
    kiln_value *out = NULL;
    for (uint32_t i = 0; i < node->n_param; i++) {
        const setting *one = NULL;
        for (size_t k = 0; k < n; k++)
            if (strcmp(settings[k].name, node->param[i].name) == 0) one = &settings[k];
        set_param(params.bytes, &node->param[i], one);
    }
    kiln_call call = {.size = sizeof call,
                      .device = KILN_CPU,
                      .host = rig_host(),
                      .ctx = rig_ctx(),
                      .params = params.bytes,
                      .in = &in,
                      .out = &out};
    kiln_status status = node->run(&call);
    CHECK((status == KILN_OK) == (out != NULL));
    return out;
}

/* The tensor of a conditioning's first entry; t->data NULL after a failed check. */
static inline kiln_tensor entry_tensor(const kiln_value *conditioning, const char *key)
{
    const kiln_value_api *values = rig_host()->ability(KILN_VALUE_ABILITY);
    kiln_tensor t = {.size = sizeof t};
    kiln_status status = rig_host()->view(rig_ctx(), values->map_get(values->list_at(conditioning, 0), key), &t);
    CHECK_MSG(status == KILN_OK, "no %s: %s", key, rig_message());
    return t;
}

#endif
