/* language_model.c - the loader: a .safetensors file with transformers' names, and its config in the metadata. */
#include "language.h"

#include <stdarg.h>
#include <stdio.h>

static const language_family *const families[] = {&mamba2_family, &deepseek_v2_family};

static void model_free(void *model)
{
    language_model *m = model;
    ((const kiln_weights_api *)host->ability(KILN_WEIGHTS_ABILITY))->unref(m->weights);
    free(m->network);
    free(m);
}

static kiln_status open_network(const kiln_call *c, language_model *m, const char *path)
{
    config from = config_open(host, c->ctx, m->weights, "__metadata__/config");
    const char *type = config_text(&from, "model_type", "");
    if (!from.root && !from.failed) CONFIG_FAIL(&from, KILN_ERR_INVALID, "%s has no 'config' in its metadata", path);
    for (size_t i = 0; i < COUNT(families); i++)
        if (!strcmp(families[i]->model_type, type)) m->family = families[i];
    if (!m->family) CONFIG_FAIL(&from, KILN_ERR_UNSUPPORTED, "%s: model_type '%s' is not known here", path, type);
    m->vocabulary = config_int(&from, "vocab_size", 0, 1, 1 << 20);
    if (!from.failed) m->network = m->family->open(&from);
    config_close(&from);
    return from.failed ? KILN_ERR_INVALID : m->network ? KILN_OK : KILN_ERR_NOMEM;
}

static kiln_status rename_weights(const kiln_call *c, language_model *m)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    if (!m->family->rule) return KILN_OK;
    kiln_weights *view = w->view(c->ctx, m->weights, m->family->rule, m->family->n_rule);
    if (!view) return KILN_ERR_INVALID;
    w->unref(m->weights);
    m->weights = view;
    return KILN_OK;
}

typedef struct {
    const char *path;
} loader_params;

static kiln_status run(const kiln_call *c)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    const char *path = ((const loader_params *)c->params)->path;
    language_model *m = calloc(1, sizeof *m);
    kiln_status status = m ? KILN_OK : KILN_ERR_NOMEM;
    if (m && !(m->weights = w->open(c->ctx, path))) status = KILN_ERR_IO;
    if (status == KILN_OK) status = open_network(c, m, path);
    if (status == KILN_OK) status = rename_weights(c, m);
    const char *identity = status == KILN_OK ? w->identity(c->ctx, m->weights) : NULL;
    if (identity) snprintf(m->identity, sizeof m->identity, "%s", identity);
    if (identity) c->out[0] = kit_values(c)->new_object(c->ctx, "LANGUAGE_MODEL", m, model_free, identity);
    if (status == KILN_OK && !c->out[0]) status = KILN_ERR_NOMEM;
    if (m && !c->out[0]) model_free(m);
    return status;
}

static const kiln_port out[] = {{.name = "model", .type = "LANGUAGE_MODEL", .doc = "The model."}};
static const kiln_param param[] = {{.name = "file",
                                    .type = KILN_P_FILE,
                                    .flags = KILN_PARAM_REQUIRED,
                                    .offset = offsetof(loader_params, path),
                                    .from = "language",
                                    .doc = "A .safetensors file with a config in its metadata."}};
const kiln_node loader_node = {
    KIT_NODE("ExampleLanguageModelLoader", "Load Language Model", "language", "A language model from a file."),
    KILN_ARRAY(out, out), KIT_PARAMS(loader_params, param), .run = run};

/* ---- what recordings share ---- */

kiln_t language_weight(const language_recording *r, uint32_t rank, const int64_t *dim, const char *name, ...)
{
    char full[120];
    va_list args;
    va_start(args, name);
    vsnprintf(full, sizeof full, name, args);
    va_end(args);
    return ops->weight(r->p, r->m->weights, full, rank, dim);
}

kiln_t language_linear(const language_recording *r, kiln_t x, int64_t out_width, const char *name, ...)
{
    char part[100], full[120];
    int64_t dim[KILN_MAX_RANK] = {0};
    uint32_t rank = ops->shape(r->p, x, dim, KILN_MAX_RANK);
    va_list args;
    va_start(args, name);
    vsnprintf(part, sizeof part, name, args);
    va_end(args);
    snprintf(full, sizeof full, "%s.weight", part);
    kiln_t w = ops->weight(r->p, r->m->weights, full, 2, KILN_DIMS(out_width, rank ? dim[rank - 1] : 0));
    snprintf(full, sizeof full, "%s.bias", part);
    return ops->linear(r->p, x, w, ops->weight_optional(r->p, r->m->weights, full, 1, &out_width));
}

kiln_t language_norm(const language_recording *r, kiln_t x, float eps, int64_t group, const char *name, ...)
{
    char full[120];
    int64_t dim[KILN_MAX_RANK] = {0};
    uint32_t rank = ops->shape(r->p, x, dim, KILN_MAX_RANK);
    va_list args;
    va_start(args, name);
    vsnprintf(full, sizeof full, name, args);
    va_end(args);
    kiln_norm norm = {.size = sizeof norm, .kind = KILN_NORM_RMS, .eps = eps, .group = group};
    norm.gain = ops->weight(r->p, r->m->weights, full, 1, KILN_DIMS(rank ? dim[rank - 1] : 0));
    return ops->normalize(r->p, x, &norm);
}

kiln_t language_number(const language_recording *r, int32_t value)
{
    return ops->constant_i32(r->p, &value, 1, KILN_DIMS(1));
}

kiln_t language_count_up(const language_recording *r, uint32_t rank, uint32_t axis, int64_t n)
{
    int64_t dim[KILN_MAX_RANK];
    int32_t *number = malloc((size_t)n * sizeof *number);
    if (!number) return ops->fail(r->p, "no memory for %lld numbers", (long long)n);
    for (uint32_t i = 0; i < rank; i++) dim[i] = i == axis ? n : 1;
    for (int64_t i = 0; i < n; i++) number[i] = (int32_t)i;
    kiln_t t = ops->constant_i32(r->p, number, rank, dim);
    free(number);
    return t;
}
