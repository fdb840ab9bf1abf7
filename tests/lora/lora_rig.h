/* lora_rig.h - tiny-sd1 opened by the plugins as they ship, and the lora plugin's nodes run on it. */
#ifndef KILN_TESTS_LORA_RIG_H
#define KILN_TESTS_LORA_RIG_H

#include "golden_kit.h"
#include "weights/weights_kit.h"

#include "lora.h"
#include "plugin/abilities.h"
#include "tensor/value.h"

#include <dlfcn.h>
#include <math.h>

typedef struct {
    kiln_status status;
    kiln_value *model, *clip;
    char why[1024];
} put_on;

static kiln_value *base_model, *base_clip;

static inline const kiln_model_api *models(void) { return rig_host()->ability(KILN_MODEL_ABILITY); }
static inline kiln_weights *unet_of(const kiln_value *v) { return models()->model(rig_ctx(), v)->weights; }
static inline kiln_weights *text_of(const kiln_value *v) { return models()->clip(rig_ctx(), v)->encoder->weights; }

static inline int load_plugin(const char *name)
{
    char path[600];
    snprintf(path, sizeof path, "%s/plugins/kiln-%s.so", test_build(), name);
    void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const kiln_plugin *p = so ? dlsym(so, "kiln_plugin_v1") : NULL;
    if (!CHECK_MSG(p != NULL, "%s", dlerror())) return 0;
    registry_owner_set(name, NULL);
    int ok = CHECK_EQ(p->open(rig_host()), KILN_OK);
    registry_owner_set(NULL, NULL);
    return ok;
}

static inline kiln_value *open_part(const char *kind, kiln_weights *set)
{
    const kiln_model_family *f = models()->detect(kind, set);
    kiln_value *v = f ? f->open(rig_host(), rig_ctx(), set) : NULL;
    CHECK_MSG(v != NULL, "%s", rig_message());
    return v;
}

static inline int open_base(void)
{
    if (base_model && base_clip) return 1;
    if (!load_plugin("tokenizer") || !load_plugin("unet") || !load_plugin("clip")) return 0;
    kiln_weights *set = open_weights("tests/golden/tiny-sd1");
    if (!set) return 0;
    base_model = open_part(KILN_FAMILY_DENOISER, set);
    base_clip = open_part(KILN_FAMILY_TEXT_ENCODER, set);
    weights_unref(set);
    return base_model && base_clip;
}

static inline void close_base(void)
{
    value_unref(base_model);
    value_unref(base_clip);
    base_model = base_clip = NULL;
}

/* The node on these values; clip NULL: LoraLoaderModelOnly. */
static inline put_on put_lora(const char *path, double on_model, double on_clip, kiln_value *model, kiln_value *clip)
{
    const kiln_node *node = clip ? &node_lora_loader : &node_lora_loader_model_only;
    static _Alignas(16) char params[64];
    put_on r = {0};
    error e = {0};
    kiln_value *in[] = {model, clip}, *out[2] = {NULL};
    if (!CHECK(node->params_size <= sizeof params)) exit(1);
    for (uint32_t i = 0; i < node->n_param; i++) {
        const kiln_param *p = &node->param[i];
        if (p->type == KILN_P_FILE)
            memcpy(params + p->offset, &path, sizeof path);
        else
            memcpy(params + p->offset, strcmp(p->name, "strength_clip") == 0 ? &on_clip : &on_model, sizeof(double));
    }
    rig_ctx(); /* the environment exists */
    r.status = ctx_call(&rig_environment, 0, node->type, "lora", node, NULL, params, in, out, &e);
    r.model = out[0], r.clip = out[1];
    snprintf(r.why, sizeof r.why, "%s", e.message);
    return r;
}

static inline void put_free(put_on *r)
{
    value_unref(r->model);
    value_unref(r->clip);
    *r = (put_on){0};
}

/* The call fails and says each of the two. */
static inline void lora_refused(put_on r, const char *part, const char *other)
{
    CHECK_MSG(r.status != KILN_OK && !r.model && !r.clip, "accepted: wanted '%s'", part);
    CHECK_MSG(strstr(r.why, part) && strstr(r.why, other), "'%s' does not say '%s' and '%s'", r.why, part, other);
    put_free(&r);
}

static inline const char *golden_path(const char *name)
{
    static char path[600];
    snprintf(path, sizeof path, "%s/tests/golden/%s", test_root(), name);
    return path;
}

#endif
