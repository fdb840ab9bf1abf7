/* gligen_nodes.c - GLIGENLoader and GLIGENTextBoxApply: the boxes ride on the entries of a CONDITIONING.
 *
 * Each entry has in its "network_hooks" a map for each GLIGEN: the hook, and under "values" the boxes' rows so far.
 */
#include "gligen_family.h"
#include "gligen_hook.h"
#include "gligen_nodes.h"
#include "kiln/kit.h"
#include "kiln/loading.h"
#include "kiln/text.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* ---- GLIGENLoader ---- */

typedef struct {
    const char *path;
} loader_params;

static const kiln_port gligen_out[] = {{.name = "GLIGEN", .type = GLIGEN_TYPE, .doc = "The gated layers."}};
static const kiln_param loader_param[] = {
    {.name = "gligen_name",
     .type = KILN_P_FILE,
     .flags = KILN_PARAM_REQUIRED,
     .offset = offsetof(loader_params, path),
     .from = "gligen",
     .doc = "A .safetensors file with position_net.* and *.fuser.*: a text-box GLIGEN for SD1."}};

static kiln_status load(const kiln_call *c)
{
    return kiln_load_one(c, ((const loader_params *)c->params)->path, GLIGEN_KIND, c->out);
}

const kiln_node node_gligen_loader = {
    KIT_NODE("GLIGENLoader", "GLIGENLoader", "loaders", "Opens a GLIGEN."),
    KILN_ARRAY(out, gligen_out),
    KIT_PARAMS(loader_params, loader_param),
    .run = load,
};

/* ---- GLIGENTextBoxApply ---- */

typedef struct {
    const char *text;
    int64_t width, height, x, y;
} box_params;

enum { TO, CLIP, MODEL, CELL = 8 };

static const kiln_port box_in[] = {
    {.name = "conditioning_to", .type = "CONDITIONING", .doc = "The prompt of the whole picture."},
    {.name = "clip", .type = "CLIP", .doc = "The text encoder of the same checkpoint."},
    {.name = "gligen_textbox_model", .type = GLIGEN_TYPE, .doc = "The GLIGEN."},
};
static const kiln_port box_out[] = {
    {.name = "CONDITIONING", .type = "CONDITIONING", .doc = "The prompt with one more box."}};
#define PIXELS(field, def_, least, text_)                                                                              \
    {                                                                                                                  \
        .name = #field, .type = KILN_P_INT, .offset = offsetof(box_params, field), .def = def_, .min = least,          \
        .max = 16384, .step = 8, .flags = KILN_PARAM_FLOORED, .doc = text_                                             \
    }
static const kiln_param box_param[] = {
    {.name = "text",
     .type = KILN_P_STRING,
     .flags = KILN_PARAM_REQUIRED | KILN_PARAM_MULTILINE,
     .offset = offsetof(box_params, text),
     .doc = "What is to be drawn in the box."},
    PIXELS(width, 64, 8, "Pixels."),
    PIXELS(height, 64, 8, "Pixels."),
    PIXELS(x, 0, 0, "Left edge, pixels."),
    PIXELS(y, 0, 0, "Top edge, pixels."),
};

/* `embedding:NAME` in the text, in brackets with a weight or without, as a prompt has it. */
static void names_embeddings(const void *params, const kiln_file_names *to)
{
    static const char word[] = "embedding:";
    const char *text = ((const box_params *)params)->text;
    char name[256];
    for (const char *at = text; at && (at = strstr(at, word)); at++) {
        int bracket = at != text && strchr("()", at[-1]), escaped = bracket && at - text > 1 && at[-2] == '\\';
        if (at != text && (escaped || (!bracket && !isspace((unsigned char)at[-1])))) continue;
        const char *from = at + sizeof word - 1;
        from += strspn(from, " \t\r\n");
        size_t n = strcspn(from, " \t\r\n<[():");
        while (n && from[n - 1] == ',') n--;
        if (!n || n >= sizeof name) continue;
        snprintf(name, sizeof name, "%.*s", (int)n, from);
        to->add(to->self, "text", "embeddings", name);
    }
}

/* The text's pooled vector, of `width` numbers; *entry is the caller's. */
static kiln_status encode(const kiln_call *c, int64_t width, kiln_value **entries, kiln_tensor *out)
{
    const kiln_text_api *text = c->host->ability(KILN_TEXT_ABILITY);
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_value_api *v = kit_values(c);
    const kiln_prompt prompt = {.size = sizeof prompt, .text = ((const box_params *)c->params)->text};
    const kiln_clip *clip = models->clip(c->ctx, c->in[CLIP]);
    if (!clip) return KILN_ERR_INVALID;
    if (!text) return c->host->fail(c->ctx, KILN_ERR_UNSUPPORTED, "no plugin encodes texts");
    if (clip->n_encoder != 1 || strcmp(kiln_clip_encoder_at(clip, 0)->name, "l") != 0)
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "a GLIGEN is for SD1 and its one text encoder, and this CLIP is another family's; take "
                             "the CLIP of the checkpoint that it is used with");
    TRY(text->encode(c, c->in[CLIP], &prompt, 1, entries));
    TRY(kit_f32(c, v->map_get(v->list_at(*entries, 0), "pooled"), 2, "the text's pooled vector", out));
    if (out->dim[1] == width) return KILN_OK;
    return c->host->fail(c->ctx, KILN_ERR_INVALID,
                         "this GLIGEN wants texts that are %lld wide, and this text encoder's are %lld; take the CLIP "
                         "of the checkpoint that it was made for",
                         (long long)width, (long long)out->dim[1]);
}

/* *out = the rows of `before` (NULL: none yet) with the call's box behind the last. */
static kiln_status with_box(const kiln_call *c, const kiln_value *before, const kiln_tensor *text, kiln_value **out)
{
    const box_params *p = c->params;
    int64_t each = GLIGEN_ROW + text->dim[1], n = 0;
    kiln_tensor from, to;
    TRY(kit_new_f32(c, 3, KILN_DIMS(1, GLIGEN_BOXES, each), out, &to));
    if (kit_estimating(c)) return KILN_OK;
    memset(to.data, 0, kit_count(&to) * sizeof(float));
    if (before) {
        TRY(kit_f32(c, before, 3, "the boxes", &from));
        if (from.dim[0] != 1 || from.dim[1] != GLIGEN_BOXES || from.dim[2] != each)
            return c->host->fail(c->ctx, KILN_ERR_INVALID,
                                 "the prompt's boxes are [%lld,%lld,%lld] and not [1,%d,%lld], as this node makes them",
                                 (long long)from.dim[0], (long long)from.dim[1], (long long)from.dim[2], GLIGEN_BOXES,
                                 (long long)each);
        memcpy(to.data, from.data, kit_count(&to) * sizeof(float));
    }
    while (n < GLIGEN_BOXES && ((const float *)to.data)[n * each] != 0) n++;
    if (n == GLIGEN_BOXES)
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "a GLIGEN knows %d boxes, and this would be one more",
                             GLIGEN_BOXES);
    float *row = (float *)to.data + n * each;
    row[0] = 1;
    row[1] = (float)(p->height / CELL), row[2] = (float)(p->width / CELL);
    row[3] = (float)(p->y / CELL), row[4] = (float)(p->x / CELL);
    memcpy(row + GLIGEN_ROW, text->data, (size_t)text->dim[1] * sizeof(float));
    return KILN_OK;
}

/* A list like `list` with the map in the place of number `at`, or behind the last. */
static kiln_status replaced(const kiln_call *c, const kiln_value *list, size_t at, kiln_value *map, kiln_value **out)
{
    const kiln_value_api *v = kit_values(c);
    size_t n = list ? v->count(list) : 0;
    kiln_status status = (*out = v->new_list(c->ctx)) ? KILN_OK : KILN_ERR_NOMEM;
    for (size_t i = 0; status == KILN_OK && i < n; i++)
        status = v->list_push(*out, i == at ? map : (kiln_value *)(uintptr_t)v->list_at(list, i));
    return status == KILN_OK && at == n ? v->list_push(*out, map) : status;
}

static kiln_status change_entry(const kiln_call *c, const kiln_tensor *text, kiln_value *hook, kiln_value *entry)
{
    const kiln_value_api *v = kit_values(c);
    const kiln_value *list = v->map_get(entry, KILN_NETWORK_HOOKS);
    size_t at = 0;
    const kiln_value *old =
        kiln_network_hook_find(v, list, ((const kiln_hook *)v->object(hook, KILN_NETWORK_HOOK))->identity, &at);
    kiln_value *rows = NULL, *values = v->new_map(c->ctx), *map = v->new_map(c->ctx), *fresh = NULL;
    kiln_status status = values && map ? KILN_OK : KILN_ERR_NOMEM;
    if (status == KILN_OK)
        status = with_box(c, old ? v->map_get(v->map_get(old, "values"), "boxes") : NULL, text, &rows);
    if (status == KILN_OK) status = v->map_set(values, "boxes", rows);
    if (status == KILN_OK) status = v->map_set(map, "hook", hook);
    if (status == KILN_OK) status = v->map_set(map, "values", values);
    if (status == KILN_OK) status = replaced(c, list, at, map, &fresh);
    if (status == KILN_OK) status = v->map_set(entry, KILN_NETWORK_HOOKS, fresh);
    c->host->unref(fresh);
    c->host->unref(map);
    c->host->unref(values);
    c->host->unref(rows);
    return status;
}

static kiln_status apply_to(const kiln_call *c, const kiln_tensor *text, kiln_value *hook)
{
    const kiln_value_api *v = kit_values(c);
    kiln_value *list = v->new_list(c->ctx);
    kiln_status status = list ? KILN_OK : KILN_ERR_NOMEM;
    for (size_t i = 0; status == KILN_OK && i < v->count(c->in[TO]); i++) {
        kiln_value *entry = v->map_copy(c->ctx, v->list_at(c->in[TO], i));
        status = entry ? change_entry(c, text, hook, entry) : KILN_ERR_NOMEM;
        if (status == KILN_OK) status = v->list_push(list, entry);
        c->host->unref(entry);
    }
    if (status == KILN_OK)
        c->out[0] = list;
    else
        c->host->unref(list);
    return status;
}

static kiln_status apply_run(const kiln_call *c)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_net *net = models->net(c->ctx, c->in[MODEL], GLIGEN_TYPE);
    kiln_value *entries = NULL, *hook = NULL;
    kiln_tensor text;
    if (!net) return KILN_ERR_INVALID;
    kiln_status status = encode(c, gligen_config_of(net)->text, &entries, &text);
    if (status == KILN_OK) status = gligen_hook_new(c, c->in[MODEL], &hook);
    if (status == KILN_OK) status = apply_to(c, &text, hook);
    c->host->unref(hook);
    c->host->unref(entries);
    return status;
}

const kiln_node node_gligen_text_box_apply = {
    KIT_NODE_FLAGS(KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_DEVICE | KILN_NODE_ESTIMATES, 1,
                   "GLIGENTextBoxApply", "GLIGENTextBoxApply", "conditioning/gligen",
                   "Draws what a text says in a box of the picture (Li et al. 2023)."),
    KILN_ARRAY(in, box_in),
    KILN_ARRAY(out, box_out),
    KIT_PARAMS(box_params, box_param),
    .run = apply_run,
    .names_files = names_embeddings,
};
