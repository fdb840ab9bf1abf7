/* lora_file.c - see lora_file.h. The name of each tensor in the file is parsed (lora_key.h) and its module looked up in
 * the networks (lora_names.h); tensors with a module become patches of its set (lora_module.h).
 *
 *   W + strength * scale * (up x down),  scale = alpha / rank; 1 without an alpha      (Hu et al. 2021, section 4.1)
 *
 * alpha is MODULE.alpha, else peft's lora_alpha from the file's adapter metadata (divided by the root of the rank with
 * use_rslora).
 */
#include "lora_file.h"

#include "kiln/config.h"
#include "kiln/kit.h"
#include "lora_module.h"
#include "lora_names.h"

#include <stdio.h>
#include <string.h>

enum { PARTS = 1 + LORA_TEXTS_MAX, NAMED_MAX = 5 };

typedef struct {
    const char *prefix; /* of the metadata's keys */
    const char *name;   /* of an encoder in its CLIP */
    kiln_weights *set;
    double strength;
    lora_names names;
    kiln_weight_patch *patch;
    size_t n;
    double alpha; /* from the metadata; 0: it has none */
    int root;     /* 1: divided by the root of the rank */
    int terms;    /* of an OFT's series; 0: the whole transform */
    int control;  /* it is a ControlNet's */
    int named;    /* the file names ControlNets: what it says of UNets is not for this one */
} network;

typedef struct {
    const kiln_host *host;
    kiln_ctx *ctx;
    const kiln_weights_api *w;
    const char *path;
    kiln_weights *file;
    network part[PARTS];
    size_t unknown, left; /* tensors with no module here; those of networks that were not given */
    size_t controls;      /* those of ControlNets, where there is none */
    int may_miss;         /* nothing for these networks, but for those: no fault */
    int told, series;     /* the metadata is there; an OFT wants to know of its series */
    char named[600], first[200];
} loading;

#define FAIL(l, status, ...) (l)->host->fail((l)->ctx, status, __VA_ARGS__)

/* ---- the adapter's metadata ---- */

static double number_of(config *c, const network *n, const char *name, double absent)
{
    char key[80];
    snprintf(key, sizeof key, "%s.%s", n->prefix, name);
    return config_number(c, key, absent, 0, 1e9);
}

static int truth_of(config *c, const network *n, const char *name, int absent)
{
    char key[80];
    snprintf(key, sizeof key, "%s.%s", n->prefix, name);
    return config_bool(c, key, absent);
}

enum { TERMS = 5 }; /* peft's default */

/* Reads the metadata that diffusers writes of a peft adapter: a flat map whose keys begin with the network's name. */
static kiln_status read_metadata(loading *l)
{
    static const config_rule expected[] = {{"unet.alpha_pattern", "{}"},
                                           {"text_encoder.alpha_pattern", "{}"},
                                           {"text_encoder_2.alpha_pattern", "{}"},
                                           {"text_encoder_3.alpha_pattern", "{}"}};
    config c = config_open(l->host, l->ctx, l->file, "__metadata__/lora_adapter_metadata");
    config_expect(&c, expected, COUNT(expected));
    for (size_t i = 0; i < PARTS; i++) l->part[i].terms = TERMS;
    l->told = c.root != NULL;
    for (size_t i = 0; i < PARTS && c.root; i++) {
        network *n = &l->part[i];
        n->alpha = number_of(&c, n, "lora_alpha", 0);
        n->root = truth_of(&c, n, "use_rslora", 0);
        n->terms = (int)number_of(&c, n, "num_cayley_neumann_terms", TERMS);
        if (!truth_of(&c, n, "use_cayley_neumann", 1)) n->terms = 0;
    }
    config_close(&c);
    return c.failed ? KILN_ERR_INVALID : KILN_OK;
}

/* ---- one tensor of the file ---- */

static void note_unknown(loading *l, const char *key)
{
    size_t n = strlen(l->named);
    if (l->unknown == 0) snprintf(l->first, sizeof l->first, "%.190s", key);
    if (l->unknown < NAMED_MAX) snprintf(l->named + n, sizeof l->named - n, "%s%.100s", n ? ", " : "", key);
    l->unknown++;
}

/* 1: the key's prefix leaves this network open: part 0 is the UNet, the others are the text encoders in order. */
static int may_be_of(const lora_key *k, const network *n, size_t i)
{
    static const char *const named[] = {"l", "g", "h", "t5xxl"};
    if (k->part == LORA_ANY) return 1;
    if (k->part == LORA_CONTROL) return n->control;
    if (k->part == LORA_UNET && n->control) return !n->named;
    if (k->part == LORA_UNET || i == 0) return k->part == LORA_UNET && i == 0;
    if (k->part <= LORA_TEXT_3) return i == (size_t)k->part - LORA_TEXT + 1;
    return n->name && strcmp(n->name, named[k->part - LORA_CLIP_L]) == 0;
}

/* The module that a key belongs to, and its network in *out; NULL: no network has it. */
static const char *module_of(loading *l, const lora_key *k, network **out)
{
    for (size_t i = 0; i < PARTS; i++) {
        network *n = &l->part[i];
        const char *module = n->set && may_be_of(k, n, i) ? lora_names_find(&n->names, k->module) : NULL;
        *out = n;
        if (module) return module;
    }
    return NULL;
}

/* 1: the key belongs to a text encoder, by its prefix or because no UNet has a text_model. */
static int is_for_text(const lora_key *k)
{
    return (k->part >= LORA_TEXT && k->part != LORA_CONTROL) ||
           (k->part == LORA_ANY && strncmp(k->module, "text_model_", 11) == 0);
}

static int file_has(const loading *l, const char *key)
{
    kiln_weight_info info = {.size = sizeof info};
    return l->w->find(l->file, key, &info) == KILN_OK;
}

static lora_module module_in(const loading *l, const network *n, const char *key, const lora_key *k)
{
    return (lora_module){.host = l->host,
                         .ctx = l->ctx,
                         .w = l->w,
                         .path = l->path,
                         .file = l->file,
                         .key = key,
                         .k = k,
                         .set = n ? n->set : NULL,
                         .alpha = n ? n->alpha : 0,
                         .root = n && n->root,
                         .terms = n ? n->terms : TERMS};
}

/* An alpha of nothing is told, as is a "weight" that no IA3 explains. */
static int belongs_to_another(const loading *l, const char *key, const lora_key *k)
{
    static const lora_factor leads[] = {HADA_W1_A, LOKR_W1, LOKR_W1_A, GLORA_A1, OFT_BLOCKS};
    char other[LORA_NAME_CAPACITY];
    if (k->role == LORA_UNKNOWN) {
        lora_key stem = {.stem = strlen(key)};
        static const char end[] = ".weight";
        size_t n = sizeof end - 1;
        if (stem.stem <= n || strcmp(key + stem.stem - n, end) != 0) return 0;
        stem.stem -= n;
        return lora_key_with(key, &stem, lora_factor_suffix(IA3_ON_INPUT), other) && file_has(l, other);
    }
    for (unsigned i = 0; i < LORA_PAIRS; i++)
        if (lora_key_other(key, k, LORA_UP, i, other) && file_has(l, other)) return 1;
    for (size_t i = 0; i < COUNT(leads); i++)
        if (lora_key_with(key, k, lora_factor_suffix(leads[i]), other) && file_has(l, other)) return 1;
    return 0;
}

static kiln_status add_patch(network *n, const lora_module *m)
{
    kiln_weight_patch *p = &n->patch[n->n];
    TRY(lora_module_patch(m, p));
    p->strength = n->strength;
    n->n++;
    return KILN_OK;
}

/* Reads one tensor's key, which must live as long as the file. */
static kiln_status read_tensor(loading *l, const char *key)
{
    lora_key k;
    network *n = NULL;
    lora_key_read(key, &k);
    if (k.role == LORA_REFUSED)
        return FAIL(l, KILN_ERR_UNSUPPORTED, "%s: '%.300s' belongs to %s, which kiln does not apply", l->path, key,
                    k.what);
    if (k.role == LORA_UNKNOWN || k.role == LORA_ALPHA) {
        if (!belongs_to_another(l, key, &k)) note_unknown(l, key);
        return KILN_OK;
    }
    lora_module m = module_in(l, NULL, key, &k);
    TRY(lora_module_led(&m));
    if (!lora_module_leads(&m)) return KILN_OK;
    const char *module = module_of(l, &k, &n);
    if (module) {
        m = module_in(l, n, key, &k);
        m.module = module;
        if (k.role == LORA_FACTOR && k.factor == OFT_R) l->series = 1;
        return add_patch(n, &m);
    }
    if (k.part == LORA_CONTROL && !l->part[0].control)
        l->controls++;
    else if (is_for_text(&k) ? !l->part[1].set : !l->part[0].set || (k.part == LORA_UNET && l->part[0].named))
        l->left++;
    else
        note_unknown(l, key);
    return KILN_OK;
}

/* ---- the whole file ---- */

static kiln_status prepare(loading *l, size_t count)
{
    for (size_t i = 0; i < PARTS; i++) {
        network *n = &l->part[i];
        n->patch = l->host->scratch(l->ctx, (count + 1) * sizeof *n->patch, KILN_CPU);
        if (!n->patch) return KILN_ERR_NOMEM;
        TRY(lora_names_make(l->host, l->ctx, n->set, i == 0 ? LORA_UNET : LORA_TEXT, &n->names));
    }
    return read_metadata(l);
}

/* Whether the file names ControlNets. */
static kiln_status look_for_controls(loading *l)
{
    lora_key k;
    for (size_t i = 0; i < l->w->count(l->file) && l->part[0].control && !l->part[0].named; i++) {
        kiln_weight_info info = {.size = sizeof info};
        TRY(l->w->at(l->file, i, &info));
        lora_key_read(info.name, &k);
        l->part[0].named = k.part == LORA_CONTROL;
    }
    return KILN_OK;
}

static kiln_status read_all(loading *l)
{
    size_t count = l->w->count(l->file);
    TRY(prepare(l, count));
    TRY(look_for_controls(l));
    for (size_t i = 0; i < count; i++) {
        kiln_weight_info info = {.size = sizeof info};
        TRY(l->w->at(l->file, i, &info));
        TRY(read_tensor(l, info.name));
    }
    for (size_t i = 0; i < PARTS; i++)
        if (l->part[i].n) return KILN_OK;
    if (l->left && l->may_miss) return KILN_OK;
    if (l->controls && !l->unknown)
        return FAIL(l, KILN_ERR_INVALID, "%s: it is for a ControlNet; LoraLoaderControlNet applies that", l->path);
    if (l->left)
        return FAIL(l, KILN_ERR_INVALID, "%s: it is for a text encoder only; LoraLoader applies that", l->path);
    if (!l->unknown) return FAIL(l, KILN_ERR_INVALID, "%s: there is no LoRA in it", l->path);
    return FAIL(l, KILN_ERR_INVALID, "%s: none of its %zu patches fits this model; the first is '%s'", l->path,
                l->unknown, l->first);
}

static void report(const loading *l)
{
    char line[1100];
    if (l->series && !l->told) {
        snprintf(line, sizeof line,
                 "%.300s: an OFT by peft, whose file does not say how many terms its rotations have; %d are taken, "
                 "which is peft's default",
                 l->path, TERMS);
        l->host->log(KILN_LOG_INFO, line);
    }
    if (!l->unknown) return;
    snprintf(line, sizeof line, "%.300s: %zu patches fit nothing in this model and are left out: %s%s", l->path,
             l->unknown, l->named, l->unknown > NAMED_MAX ? ", ..." : "");
    l->host->log(KILN_LOG_WARN, line);
}

/* The patched set of each network; on failure none. */
static kiln_status patch_all(loading *l, kiln_weights *made[PARTS])
{
    for (size_t i = 0; i < PARTS; i++) {
        const network *n = &l->part[i];
        if (!n->set || (made[i] = l->w->patch(l->ctx, n->set, n->patch, n->n))) continue;
        while (i-- > 0) {
            l->w->unref(made[i]);
            made[i] = NULL;
        }
        return KILN_ERR_INVALID;
    }
    return KILN_OK;
}

kiln_status lora_apply(const kiln_host *host, kiln_ctx *ctx, const lora_request *r, kiln_weights **unet,
                       kiln_weights *text[LORA_TEXTS_MAX])
{
    static const char *const prefix[PARTS] = {"unet", "text_encoder", "text_encoder_2", "text_encoder_3"};
    loading l = {.host = host, .ctx = ctx, .w = host->ability(KILN_WEIGHTS_ABILITY), .path = r->path};
    kiln_weights *made[PARTS] = {NULL};
    if (!KILN_HAS(kiln_weights_api, l.w, patch))
        return host->fail(ctx, KILN_ERR_UNSUPPORTED, "this engine cannot patch weights; it is older than this plugin");
    l.part[0] = (network){.prefix = prefix[0], .set = r->unet, .strength = r->unet_strength, .control = r->control};
    for (size_t i = 0; i < LORA_TEXTS_MAX; i++)
        l.part[1 + i] = (network){
            .prefix = prefix[1 + i], .name = r->text[i].name, .set = r->text[i].set, .strength = r->text_strength};
    l.may_miss = r->may_miss;
    if (!(l.file = r->file ? l.w->ref(r->file) : l.w->open(ctx, r->path))) return KILN_ERR_INVALID;
    kiln_status status = read_all(&l);
    if (status == KILN_OK && !r->quiet) report(&l);
    if (status == KILN_OK) status = patch_all(&l, made);
    l.w->unref(l.file);
    if (status != KILN_OK) return status;
    *unet = made[0];
    memcpy(text, made + 1, LORA_TEXTS_MAX * sizeof *text);
    return KILN_OK;
}
