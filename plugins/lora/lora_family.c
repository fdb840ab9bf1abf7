/* lora_family.c - see lora_family.h. The value is a network that records nothing: what it says is in its facts. */
#include "lora_family.h"

#include "kiln/kit.h"
#include "kiln/value.h"
#include "lora_module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KINDS_MAX = 24, TEXTS = 3, TEXT_CAPACITY = 400 };

/* ---- whose file it is ---- */

/* Half of a file's tensors or more are parts of patches, and one leads a module. */
static int detect(const kiln_weights_api *w, const kiln_weights *set)
{
    size_t n = w->count(set), known = 0, products = 0;
    for (size_t i = 0; i < n; i++) {
        kiln_weight_info info = {.size = sizeof info};
        lora_key k;
        if (w->at(set, i, &info) != KILN_OK) return 0;
        lora_key_read(info.name, &k);
        known += k.role != LORA_UNKNOWN;
        products += k.role != LORA_UNKNOWN && k.role != LORA_ALPHA && k.role != LORA_REFUSED;
    }
    return products && known * 2 >= n ? 80 : 0;
}

/* ---- counting ---- */

typedef struct {
    char name[48]; /* "LoHa", "LoRA with a Tucker decomposition" */
    size_t n;
} kind_count;

typedef struct {
    const kiln_host *host;
    kiln_ctx *ctx;
    const kiln_weights_api *w;
    kiln_weights *set;
    const char *path;
    kind_count kind[KINDS_MAX];
    size_t n_kind, modules, unet, controls, text[TEXTS], other;
    int64_t least, most; /* rank */
    double least_alpha, most_alpha;
    int64_t context; /* the width of text that a UNet's cross attention takes; 0: unknown */
} summary;

static void count_kind(summary *s, const lora_facts *f)
{
    char name[48];
    snprintf(name, sizeof name, "%s%s%s", f->kind, f->tucker ? " (Tucker)" : "", f->dora ? " with DoRA" : "");
    size_t i = 0;
    while (i < s->n_kind && strcmp(s->kind[i].name, name) != 0) i++;
    if (i == KINDS_MAX) return;
    if (i == s->n_kind) memcpy(s->kind[s->n_kind++].name, name, sizeof name);
    s->kind[i].n++;
}

static void count_network(summary *s, const lora_key *k)
{
    int is_text = strncmp(k->module, "text_model_", 11) == 0 || strncmp(k->module, "encoder_layers_", 15) == 0;
    if (k->part == LORA_UNET || (k->part == LORA_ANY && !is_text))
        s->unet++;
    else if (k->part == LORA_TEXT_2 || k->part == LORA_CLIP_G)
        s->text[1]++;
    else if (k->part == LORA_TEXT_3 || k->part == LORA_T5XXL)
        s->text[2]++;
    else if (k->part == LORA_CONTROL)
        s->controls++;
    else
        s->text[0]++;
}

static void count_numbers(summary *s, const lora_key *k, const lora_facts *f)
{
    size_t n = strlen(k->module);
    if (f->rank) {
        if (!s->most || f->rank < s->least) s->least = f->rank;
        if (f->rank > s->most) s->most = f->rank;
    }
    if (f->alpha > 0) {
        if (s->most_alpha <= 0 || f->alpha < s->least_alpha) s->least_alpha = f->alpha;
        if (f->alpha > s->most_alpha) s->most_alpha = f->alpha;
    }
    if (f->columns && n > 10 &&
        (!strcmp(k->module + n - 10, "attn2_to_k") || !strcmp(k->module + n - 10, "attn2_to_v")))
        s->context = f->columns;
}

static kiln_status count_tensor(summary *s, const kiln_weight_info *info)
{
    lora_key k;
    lora_facts f;
    lora_key_read(info->name, &k);
    lora_module m = {
        .host = s->host, .ctx = s->ctx, .w = s->w, .path = s->path, .file = s->set, .key = info->name, .k = &k};
    if (k.role == LORA_REFUSED)
        return s->host->fail(s->ctx, KILN_ERR_UNSUPPORTED, "'%.300s' belongs to %s, which kiln does not apply",
                             info->name, k.what);
    if (k.role == LORA_UNKNOWN) return KILN_OK;
    s->w->map(NULL, s->set, info->name); /* it is known: marked as used */
    if (k.role == LORA_ALPHA) return KILN_OK;
    TRY(lora_module_led(&m));
    if (!lora_module_leads(&m)) return KILN_OK;
    TRY(lora_module_facts(&m, &f));
    s->modules++;
    count_kind(s, &f);
    count_network(s, &k);
    count_numbers(s, &k, &f);
    return KILN_OK;
}

static kiln_status count_all(summary *s)
{
    for (size_t i = 0; i < s->w->count(s->set); i++) {
        kiln_weight_info info = {.size = sizeof info};
        TRY(s->w->at(s->set, i, &info));
        if (!s->path) s->path = info.file;
        TRY(count_tensor(s, &info));
    }
    return KILN_OK;
}

/* ---- in words ---- */

static const char *base_of(const summary *s)
{
    static const char *const notes[] = {"__metadata__/modelspec.architecture", "__metadata__/ss_base_model_version"};
    for (size_t i = 0; i < COUNT(notes); i++) {
        const char *said = s->w->text(s->set, notes[i], NULL);
        if (said && said[0]) return said;
    }
    if (s->context == 2048 || s->text[1]) return "SDXL";
    return s->context == 768 ? "SD 1" : s->context == 1024 ? "SD 2" : NULL;
}

static void add_part(char *to, size_t capacity, size_t n, const char *name)
{
    size_t at = strlen(to);
    if (n) snprintf(to + at, capacity - at, "%s%s %zu", at ? ", " : "", name, n);
}

static void range_of(char *to, size_t capacity, double least, double most)
{
    if (most <= 0) return;
    if (least < most)
        snprintf(to, capacity, "%g to %g", least, most);
    else
        snprintf(to, capacity, "%g", most);
}

typedef struct {
    kiln_network network;
    char architecture[TEXT_CAPACITY];
    const kiln_value_api *values;
    const kiln_host *host;
    kiln_value *facts;
} patches;

static void release(void *owned)
{
    patches *p = owned;
    if (p->facts) p->host->unref(p->facts);
    free(p);
}

static kiln_status put(const summary *s, patches *p, const char *name, const char *text)
{
    if (!text || !text[0]) return KILN_OK;
    kiln_value *v = p->values->new_string(s->ctx, text, strlen(text));
    kiln_status status = v ? p->values->map_set(p->facts, name, v) : KILN_ERR_NOMEM;
    if (v) s->host->unref(v);
    return status;
}

static kiln_status describe(const summary *s, patches *p)
{
    char networks[TEXT_CAPACITY] = "", rank[64] = "", alpha[64] = "";
    for (size_t i = 0; i < s->n_kind; i++)
        add_part(p->architecture, sizeof p->architecture, s->kind[i].n, s->kind[i].name);
    add_part(networks, sizeof networks, s->unet, "denoiser");
    add_part(networks, sizeof networks, s->controls, "ControlNet");
    add_part(networks, sizeof networks, s->text[0], "text encoder");
    add_part(networks, sizeof networks, s->text[1], "text encoder 2");
    add_part(networks, sizeof networks, s->text[2], "text encoder 3");
    range_of(rank, sizeof rank, (double)s->least, (double)s->most);
    range_of(alpha, sizeof alpha, s->least_alpha, s->most_alpha);
    TRY(put(s, p, "modules", networks));
    TRY(put(s, p, "rank", rank));
    TRY(put(s, p, "alpha", alpha));
    return put(s, p, "made for", base_of(s));
}

static void record(const kiln_network *n, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                   const kiln_named_tensor *in, size_t n_in, const kiln_outputs *out)
{
    (void)n, (void)ops, (void)p, (void)w, (void)in, (void)n_in, (void)out; /* patches are no network */
}

static kiln_value *make_value(const summary *s, patches *p)
{
    const kiln_model_api *models = s->host->ability(KILN_MODEL_ABILITY);
    p->values = s->host->ability(KILN_VALUE_ABILITY);
    p->host = s->host;
    if (!(p->facts = p->values->new_map(s->ctx)) || describe(s, p) != KILN_OK) return NULL;
    p->network = (kiln_network){.size = sizeof p->network,
                                .family = "lora",
                                .record = record,
                                .facts = p->facts,
                                .architecture = p->architecture};
    kiln_net net = {.size = sizeof net, .network = &p->network, .weights = s->set, .owned = p, .release = release};
    return models->net_new(s->ctx, "PATCHES", &net);
}

static kiln_value *open_file(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set)
{
    summary s = {.host = host, .ctx = ctx, .w = host->ability(KILN_WEIGHTS_ABILITY), .set = set};
    if (count_all(&s) != KILN_OK) return NULL;
    patches *p = calloc(1, sizeof *p);
    kiln_value *v = p ? make_value(&s, p) : NULL;
    if (!v && p) release(p);
    return v;
}

const kiln_model_family lora_family = {.size = sizeof lora_family,
                                       .kind = KILN_FAMILY_PATCH,
                                       .name = "lora",
                                       .doc = "LoRA and other patches of a model's weights.",
                                       .detect = detect,
                                       .open = open_file};
