/* pooled_node.c - a plugin for tests: TestPooled puts a tensor of a file into each entry of a CONDITIONING as "pooled",
 * which SDXL wants beside its tokens; TestRecorded says whenever an IP-Adapter's attention is recorded. */
#include "kiln/kit.h"
#include "kiln/model.h"

#include <stdlib.h>

typedef struct {
    const char *path, *name;
} pooled_params;

static const kiln_port in[] = {{.name = "conditioning", .type = "CONDITIONING", .doc = "To go on with."}};
static const kiln_port out[] = {{.name = "CONDITIONING", .type = "CONDITIONING", .doc = "With pooled."}};
static const kiln_param param[] = {
    {.name = "file",
     .type = KILN_P_FILE,
     .flags = KILN_PARAM_REQUIRED,
     .offset = offsetof(pooled_params, path),
     .from = "input",
     .doc = "A .safetensors file."},
    {.name = "name",
     .type = KILN_P_STRING,
     .flags = KILN_PARAM_REQUIRED,
     .offset = offsetof(pooled_params, name),
     .doc = "Of the tensor."},
};

static kiln_status run(const kiln_call *c)
{
    const kiln_weights_api *w = c->host->ability(KILN_WEIGHTS_ABILITY);
    const pooled_params *p = c->params;
    static const char *const key[] = {"pooled"};
    kiln_weight_info info = {.size = sizeof info};
    kiln_weights *set = w->open(c->ctx, p->path);
    kiln_value *value = NULL;
    kiln_tensor t;
    if (!set) return KILN_ERR_INVALID;
    kiln_status status = w->find(set, p->name, &info);
    if (status == KILN_OK) status = kit_new_f32(c, info.rank, info.dim, &value, &t);
    if (status == KILN_OK && t.data) status = w->read_f32(c->ctx, set, p->name, t.data);
    if (status == KILN_OK) status = kit_entries_with(c, c->in[0], 1, key, &value, &c->out[0]);
    c->host->unref(value);
    w->unref(set);
    return status;
}

static const kiln_node pooled = {KIT_NODE("TestPooled", "Pooled", "test", "Puts a tensor in as pooled."),
                                 KILN_ARRAY(in, in), KILN_ARRAY(out, out), KIT_PARAMS(pooled_params, param),
                                 .run = run};

/* ---- TestRecorded ---- */

static const kiln_port model_in[] = {{.name = "model", .type = "MODEL", .doc = "A model."}};
static const kiln_port model_out[] = {{.name = "MODEL", .type = "MODEL", .doc = "The same, counted."}};

static const char *const first[] = {"input.1.attn2.out", NULL};
static const kiln_host *host;

static kiln_t say(const kiln_hook *h, const kiln_recording *r, kiln_t x, const kiln_place_info *info)
{
    (void)h, (void)r, (void)info;
    host->log(KILN_LOG_INFO, "counted: the model is recorded");
    return x;
}

static const kiln_hook counter = {.size = sizeof counter, .identity = "test-recorded", .place = first, .at = say};

typedef struct {
    const kiln_hook *hook[64];
} hooks;

static kiln_status count(const kiln_call *c)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_model *model = models->model(c->ctx, c->in[0]);
    if (!model || model->n_hook > 62) return KILN_ERR_INVALID;
    host = c->host;
    hooks *own = malloc(sizeof *own);
    if (!own) return KILN_ERR_NOMEM;
    kiln_model m = *model;
    for (size_t i = 0; i < model->n_hook; i++) own->hook[i] = model->hook[i];
    own->hook[model->n_hook] = &counter;
    m.hook = own->hook, m.n_hook = model->n_hook + 1, m.owned = own, m.release = free, m.base = c->in[0];
    return (c->out[0] = models->model_new(c->ctx, &m)) ? KILN_OK : KILN_ERR_NOMEM;
}

static const kiln_node recorded = {KIT_NODE("TestRecorded", "Recorded", "test", "Says whenever it is recorded."),
                                   KILN_ARRAY(in, model_in), KILN_ARRAY(out, model_out), .run = count};

KILN_PLUGIN("org.example.pooled", "1.0.0", "MIT", &pooled, &recorded);
