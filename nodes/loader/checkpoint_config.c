/* checkpoint_config.c - see checkpoint_config.h. libyaml keeps the file as a graph: an alias is a reference, so nothing
 * grows with them.
 */
#include "checkpoint_config.h"

#include "kiln/kit.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum { BYTES_MAX = 1 << 20, LAYERS_MAX = 24 };

typedef struct {
    const kiln_call *call;
    const char *path;
    yaml_document_t *doc;
} reader;

__attribute__((format(printf, 2, 3))) static kiln_status refuse(const reader *r, const char *fmt, ...)
{
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return r->call->host->fail(r->call->ctx, KILN_ERR_INVALID, "%s: %s", r->path, text);
}

/* The value of a key; NULL when it is missing, or `map` is no map. */
static yaml_node_t *get(const reader *r, const yaml_node_t *map, const char *key)
{
    if (!map || map->type != YAML_MAPPING_NODE) return NULL;
    for (yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top; p++) {
        const yaml_node_t *k = yaml_document_get_node(r->doc, p->key);
        if (k && k->type == YAML_SCALAR_NODE && strcmp((const char *)k->data.scalar.value, key) == 0)
            return yaml_document_get_node(r->doc, p->value);
    }
    return NULL;
}

static const char *text_of(const yaml_node_t *node)
{
    return node && node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value : NULL;
}

/* Whose classes these are is in their last word: forks of the original code keep that and move the rest. */
static kiln_status check_target(const reader *r, const yaml_node_t *map, const char *where, const char *const *known)
{
    const char *target = text_of(get(r, map, "target")), *word = target ? strrchr(target, '.') : NULL;
    if (!target) return refuse(r, "%s has no target", where);
    word = word ? word + 1 : target;
    for (size_t i = 0; known[i]; i++)
        if (strcmp(known[i], word) == 0) return KILN_OK;
    return refuse(
        r,
        "%s's target is '%.120s', which is none of SD1's and SD2's; CheckpointLoaderSimple goes by the tensors alone",
        where, target);
}

static kiln_status check_targets(const reader *r, const yaml_node_t *model, const yaml_node_t *params)
{
    static const char *const models[] = {"LatentDiffusion", "LatentInpaintDiffusion", NULL};
    static const char *const unets[] = {"UNetModel", NULL}, *const vaes[] = {"AutoencoderKL", NULL};
    static const char *const texts[] = {"FrozenCLIPEmbedder", "FrozenOpenCLIPEmbedder", "WeightedFrozenCLIPEmbedder",
                                        NULL};
    const yaml_node_t *unet = get(r, params, "unet_config"), *vae = get(r, params, "first_stage_config");
    if (get(r, model, "target")) TRY(check_target(r, model, "model", models));
    if (unet) TRY(check_target(r, unet, "unet_config", unets));
    if (vae) TRY(check_target(r, vae, "first_stage_config", vaes));
    return check_target(r, get(r, params, "cond_stage_config"), "cond_stage_config", texts);
}

static kiln_status read_parameterization(const reader *r, const yaml_node_t *params, checkpoint_config *out)
{
    const yaml_node_t *node = get(r, params, "parameterization");
    const char *text = text_of(node);
    if (!node || (text && strcmp(text, "eps") == 0)) return KILN_OK;
    out->predicts_v = text && strcmp(text, "v") == 0;
    if (!out->predicts_v) return refuse(r, "parameterization is '%.60s'; eps and v are known", text ? text : "no text");
    return KILN_OK;
}

static kiln_status read_layer(const reader *r, const yaml_node_t *text, checkpoint_config *out)
{
    const yaml_node_t *node = get(r, get(r, text, "params"), "layer_idx");
    const char *number = text_of(node);
    char *end = NULL;
    if (!node || (number && strcmp(number, "null") == 0)) return KILN_OK;
    long layer = number ? strtol(number, &end, 10) : 0;
    if (!number || end == number || *end || layer < -LAYERS_MAX || layer > -1)
        return refuse(r,
                      "layer_idx is '%.60s'; a whole number from -%d to -1 is wanted (-2: the layer before the last)",
                      number ? number : "no number", LAYERS_MAX);
    out->layer = (int32_t)layer;
    return KILN_OK;
}

static kiln_status read_document(const reader *r, checkpoint_config *out)
{
    const yaml_node_t *root = yaml_document_get_root_node(r->doc), *model = get(r, root, "model"),
                      *params = get(r, model, "params"), *text = get(r, params, "cond_stage_config");
    if (!params || !text)
        return refuse(r, "no %s: this is no configuration of a checkpoint, such as v1-inference.yaml",
                      !model    ? "'model'"
                      : !params ? "'model.params'"
                                : "'model.params.cond_stage_config'");
    TRY(check_targets(r, model, params));
    TRY(read_parameterization(r, params, out));
    return read_layer(r, text, out);
}

static kiln_status read_bytes(const kiln_call *c, const char *path, char **data, size_t *n)
{
    FILE *file = fopen(path, "rb");
    if (!file) return c->host->fail(c->ctx, KILN_ERR_IO, "%s: %s", path, strerror(errno));
    *data = malloc(BYTES_MAX + 1);
    *n = *data ? fread(*data, 1, BYTES_MAX + 1, file) : 0;
    int failed = ferror(file);
    fclose(file);
    if (!*data) return KILN_ERR_NOMEM;
    if (failed) return c->host->fail(c->ctx, KILN_ERR_IO, "%s: cannot be read", path);
    if (*n > BYTES_MAX) return c->host->fail(c->ctx, KILN_ERR_INVALID, "%s: larger than 1 MiB", path);
    return KILN_OK;
}

kiln_status checkpoint_config_read(const kiln_call *c, const char *path, checkpoint_config *out)
{
    char *data = NULL;
    size_t n = 0;
    yaml_parser_t parser;
    yaml_document_t doc;
    *out = (checkpoint_config){0};
    kiln_status status = read_bytes(c, path, &data, &n);
    if (status == KILN_OK && !yaml_parser_initialize(&parser)) status = KILN_ERR_NOMEM;
    if (status != KILN_OK) {
        free(data);
        return status;
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)data, n);
    if (yaml_parser_load(&parser, &doc)) {
        status = read_document(&(reader){c, path, &doc}, out);
        yaml_document_delete(&doc);
    } else {
        status = c->host->fail(c->ctx, KILN_ERR_INVALID, "%s:%zu:%zu: %s", path, parser.problem_mark.line + 1,
                               parser.problem_mark.column + 1, parser.problem ? parser.problem : "no YAML");
    }
    yaml_parser_delete(&parser);
    free(data);
    return status;
}
