/* lora_file.c - see lora_file.h. The name of each tensor in the file is parsed (lora_key.h) and its module looked up in
 * both networks (lora_names.h); tensors with a module become patches of its set (weights.h).
 *
 *   W + strength * scale * (up x down),  scale = alpha / rank; 1 without an alpha      (Hu et al. 2021, section 4.1)
 *
 * alpha is MODULE.alpha, else peft's lora_alpha from the file's adapter metadata (divided by the root of the rank with
 * use_rslora).
 */
#include "lora_file.h"

#include "kiln/config.h"
#include "kiln/kit.h"
#include "lora_names.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PARTS = 2, NAMED_MAX = 5 };

typedef struct {
    const char *prefix; /* of the metadata's keys */
    kiln_weights *set;
    double strength;
    lora_names names;
    kiln_weight_patch *patch;
    size_t n;
    double alpha; /* from the metadata; 0: it has none */
    int root;     /* 1: divided by the root of the rank */
} network;

typedef struct {
    const kiln_host *host;
    kiln_ctx *ctx;
    const kiln_weights_api *w;
    const char *path;
    kiln_weights *file;
    network part[PARTS];
    size_t unknown, left; /* tensors with no module here; those of a text encoder that was not given */
    char named[600], first[200];
} loading;

#define FAIL(l, status, ...) (l)->host->fail((l)->ctx, status, __VA_ARGS__)

/* ---- the adapter's metadata ---- */

static double option(config *c, const network *n, const char *name, double absent, int truth)
{
    char key[80];
    snprintf(key, sizeof key, "%s.%s", n->prefix, name);
    return truth ? config_bool(c, key, 0) : config_number(c, key, absent, 0, 1e9);
}

/* Reads the metadata that diffusers writes of a peft adapter: a flat map whose keys begin with the network's name. */
static kiln_status read_metadata(loading *l)
{
    static const config_rule expected[] = {
        {"unet.use_dora", "false"},         {"unet.alpha_pattern", "{}"},         {"unet.lora_bias", "false"},
        {"text_encoder.use_dora", "false"}, {"text_encoder.alpha_pattern", "{}"}, {"text_encoder.lora_bias", "false"},
    };
    config c = config_open(l->host, l->ctx, l->file, "__metadata__/lora_adapter_metadata");
    config_expect(&c, expected, COUNT(expected));
    for (int i = 0; i < PARTS && c.root; i++) {
        l->part[i].alpha = option(&c, &l->part[i], "lora_alpha", 0, 0);
        l->part[i].root = option(&c, &l->part[i], "use_rslora", 0, 1) != 0;
    }
    config_close(&c);
    return c.failed ? KILN_ERR_INVALID : KILN_OK;
}

/* ---- one tensor of the file ---- */

static char *keep(const loading *l, const char *text)
{
    size_t n = strlen(text) + 1;
    char *p = l->host->scratch(l->ctx, n, KILN_CPU);
    return p ? memcpy(p, text, n) : NULL;
}

static void note_unknown(loading *l, const char *key)
{
    size_t n = strlen(l->named);
    if (l->unknown == 0) snprintf(l->first, sizeof l->first, "%.190s", key);
    if (l->unknown < NAMED_MAX) snprintf(l->named + n, sizeof l->named - n, "%s%.100s", n ? ", " : "", key);
    l->unknown++;
}

/* The module that a key belongs to, and its network in *out; NULL: neither network has it. */
static const char *module_of(loading *l, const lora_key *k, network **out)
{
    for (int i = 0; i < PARTS; i++) {
        if (k->part == (i == 0 ? LORA_TEXT : LORA_UNET)) continue;
        const char *module = l->part[i].set ? lora_names_find(&l->part[i].names, k->module) : NULL;
        *out = &l->part[i];
        if (module) return module;
    }
    return NULL;
}

/* 1: the key belongs to a text encoder, by its prefix or because no UNet has a text_model. */
static int is_for_text(const lora_key *k)
{
    return k->part == LORA_TEXT || (k->part == LORA_ANY && strncmp(k->module, "text_model_", 11) == 0);
}

static int file_has(const loading *l, const char *key, kiln_weight_info *info)
{
    *info = (kiln_weight_info){.size = sizeof *info};
    return l->w->find(l->file, key, info) == KILN_OK;
}

static kiln_status scale_of(const loading *l, const network *n, const char *key, const lora_key *k, int64_t rank,
                            double *out)
{
    char name[LORA_NAME_CAPACITY];
    kiln_weight_info info;
    float alpha = 0;
    *out = n->alpha > 0 && rank > 0 ? n->alpha / (n->root ? sqrt((double)rank) : (double)rank) : 1;
    if (!lora_key_other(key, k, LORA_ALPHA, 0, name) || !file_has(l, name, &info)) return KILN_OK;
    for (uint32_t i = 0; i < info.rank; i++)
        if (info.dim[i] != 1)
            return FAIL(l, KILN_ERR_INVALID, "%s: '%.300s' has %u dimensions; an alpha is one number", l->path, name,
                        info.rank);
    TRY(l->w->read_f32(l->ctx, l->file, name, &alpha));
    if (!isfinite(alpha)) return FAIL(l, KILN_ERR_INVALID, "%s: '%.300s' is not a finite number", l->path, name);
    if (rank > 0) *out = (double)alpha / (double)rank;
    return KILN_OK;
}

static kiln_status add_patch(loading *l, network *n, const char *module, const char *kind, kiln_weight_patch p)
{
    char name[LORA_NAME_CAPACITY + 16];
    snprintf(name, sizeof name, "%s.%s", module, kind);
    p.size = sizeof p, p.strength = n->strength, p.from = l->file;
    if (!(p.name = keep(l, name))) return KILN_ERR_NOMEM;
    n->patch[n->n++] = p;
    return KILN_OK;
}

static kiln_status half(const loading *l, const char *key, const char *other)
{
    return FAIL(l, KILN_ERR_INVALID, "%s: '%.200s' is half of a pair; '%.200s' is missing", l->path, key, other);
}

static kiln_status add_pair(loading *l, network *n, const char *module, const char *up, const lora_key *k)
{
    char down[LORA_NAME_CAPACITY];
    kiln_weight_info info;
    double scale;
    if (!lora_key_other(up, k, LORA_DOWN, k->pair, down) || !file_has(l, down, &info)) return half(l, up, down);
    TRY(scale_of(l, n, up, k, info.rank ? info.dim[0] : 0, &scale));
    char *kept = keep(l, down);
    return kept ? add_patch(l, n, module, "weight", (kiln_weight_patch){.scale = scale, .up = up, .down = kept})
                : KILN_ERR_NOMEM;
}

static int has_pair(const loading *l, const char *key, const lora_key *k)
{
    char up[LORA_NAME_CAPACITY];
    kiln_weight_info info;
    for (unsigned i = 0; i < LORA_PAIRS; i++)
        if (lora_key_other(key, k, LORA_UP, i, up) && file_has(l, up, &info)) return 1;
    return 0;
}

/* Reads one tensor's key, which must live as long as the file. */
static kiln_status read_tensor(loading *l, const char *key)
{
    lora_key k;
    network *n = NULL;
    char other[LORA_NAME_CAPACITY];
    kiln_weight_info info;
    lora_key_read(key, &k);
    if (k.role == LORA_REFUSED)
        return FAIL(l, KILN_ERR_UNSUPPORTED,
                    "%s: '%.300s' belongs to %s; kiln applies LoRA (up and down) and plain differences", l->path, key,
                    k.what);
    if (k.role == LORA_DOWN) {
        int has_up = lora_key_other(key, &k, LORA_UP, k.pair, other) && file_has(l, other, &info);
        return has_up ? KILN_OK : half(l, key, other);
    }
    if (k.role == LORA_ALPHA) {
        if (!has_pair(l, key, &k)) note_unknown(l, key);
        return KILN_OK;
    }
    const char *module = k.role == LORA_UNKNOWN ? NULL : module_of(l, &k, &n);
    if (!module) {
        if (k.role != LORA_UNKNOWN && !l->part[1].set && is_for_text(&k))
            l->left++;
        else
            note_unknown(l, key);
        return KILN_OK;
    }
    if (k.role == LORA_UP) return add_pair(l, n, module, key, &k);
    return add_patch(l, n, module, k.role == LORA_BIAS ? "bias" : "weight",
                     (kiln_weight_patch){.scale = 1, .difference = key});
}

/* ---- the whole file ---- */

static kiln_status prepare(loading *l, size_t count)
{
    for (int i = 0; i < PARTS; i++) {
        network *n = &l->part[i];
        n->patch = l->host->scratch(l->ctx, (count + 1) * sizeof *n->patch, KILN_CPU);
        if (!n->patch) return KILN_ERR_NOMEM;
        TRY(lora_names_make(l->host, l->ctx, n->set, i == 0 ? LORA_UNET : LORA_TEXT, &n->names));
    }
    return read_metadata(l);
}

static kiln_status read_all(loading *l)
{
    size_t count = l->w->count(l->file);
    TRY(prepare(l, count));
    for (size_t i = 0; i < count; i++) {
        kiln_weight_info info = {.size = sizeof info};
        TRY(l->w->at(l->file, i, &info));
        TRY(read_tensor(l, info.name));
    }
    if (l->part[0].n || l->part[1].n) return KILN_OK;
    if (l->left)
        return FAIL(l, KILN_ERR_INVALID, "%s: it is for a text encoder only; LoraLoader applies that", l->path);
    if (!l->unknown) return FAIL(l, KILN_ERR_INVALID, "%s: there is no LoRA in it", l->path);
    return FAIL(l, KILN_ERR_INVALID, "%s: none of its %zu patches fits this model; the first is '%s'", l->path,
                l->unknown, l->first);
}

static void report(const loading *l)
{
    char line[1100];
    if (!l->unknown) return;
    snprintf(line, sizeof line, "%.300s: %zu patches fit nothing in this model and are left out: %s%s", l->path,
             l->unknown, l->named, l->unknown > NAMED_MAX ? ", ..." : "");
    l->host->log(KILN_LOG_WARN, line);
}

kiln_status lora_apply(const kiln_host *host, kiln_ctx *ctx, const lora_request *r, kiln_weights **unet,
                       kiln_weights **text)
{
    loading l = {.host = host,
                 .ctx = ctx,
                 .w = host->ability(KILN_WEIGHTS_ABILITY),
                 .path = r->path,
                 .part = {{.prefix = "unet", .set = r->unet, .strength = r->unet_strength},
                          {.prefix = "text_encoder", .set = r->text, .strength = r->text_strength}}};
    kiln_weights *made[PARTS] = {NULL};
    if (!KILN_HAS(kiln_weights_api, l.w, patch))
        return host->fail(ctx, KILN_ERR_UNSUPPORTED, "this engine cannot patch weights; it is older than this plugin");
    if (!(l.file = l.w->open(ctx, r->path))) return KILN_ERR_INVALID;
    kiln_status status = read_all(&l);
    if (status == KILN_OK) report(&l);
    for (int i = 0; i < PARTS && status == KILN_OK; i++)
        if (l.part[i].set && !(made[i] = l.w->patch(ctx, l.part[i].set, l.part[i].patch, l.part[i].n)))
            status = KILN_ERR_INVALID;
    l.w->unref(l.file);
    if (status == KILN_OK) {
        *unet = made[0], *text = made[1];
        return status;
    }
    for (int i = 0; i < PARTS; i++) l.w->unref(made[i]);
    return status;
}
