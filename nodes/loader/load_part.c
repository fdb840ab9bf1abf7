/* load_part.c - opens the parts of a checkpoint. What a file holds is decided by the registered model families, not
 * here; nothing but headers and configuration is read. Each part's networks are checked (bind_check.c), and what none
 * of them has asked for is named (unused.c).
 */
#include "load_part.h"

#include "bind_check.h"
#include "ema.h"
#include "kiln/kit.h"
#include "kiln/model.h"
#include "unused.h"

#include <string.h>

typedef struct {
    const kiln_call *call;
    const kiln_weights_api *w;
    const kiln_model_api *models;
    kiln_load what;
    kiln_weights *set;
    const char *path;
} loading;

static const struct {
    const char *kind, *words;
} names[] = {
    {KILN_FAMILY_DENOISER, "a denoiser"},        {KILN_FAMILY_TEXT_ENCODER, "a text encoder"},
    {KILN_FAMILY_AUTOENCODER, "an autoencoder"}, {KILN_FAMILY_CONTROL, "a control network"},
    {KILN_FAMILY_VISION, "a vision encoder"},    {KILN_FAMILY_UPSCALER, "an upscaler"},
};

/* "a denoiser"; a kind of a plugin's own is called by its name. */
static const char *in_words(const char *kind)
{
    for (size_t i = 0; i < COUNT(names); i++)
        if (strcmp(names[i].kind, kind) == 0) return names[i].words;
    return kind;
}

static int is_of_type(const kiln_model_family *f, const char *type)
{
    const char *const *name = KILN_HAS(kiln_model_family, f, type) ? f->type : NULL;
    while (name && *name && strcmp(*name, type) != 0) name++;
    return name && *name;
}

/* The family with the highest score, of those that were asked for. */
static const kiln_model_family *family_of(const loading *l, const char *kind)
{
    const kiln_model_family *best = NULL;
    int most = 0;
    if (!l->what.type) return l->models->detect(kind, l->set);
    for (size_t i = 0; i < l->models->family_count(kind); i++) {
        const kiln_model_family *f = l->models->family_at(kind, i);
        int score = is_of_type(f, l->what.type) ? f->detect(l->w, l->set) : 0;
        if (score > most) most = score, best = f;
    }
    return best;
}

static kiln_status say_unknown(const loading *l, const char *kind)
{
    const kiln_call *c = l->call;
    return c->host->fail(c->ctx, KILN_ERR_UNSUPPORTED,
                         "%s: no loaded plugin knows %s%s%s%s in it; `kiln plugins` lists what is loaded", l->path,
                         in_words(kind), l->what.type ? " of type '" : "", l->what.type ? l->what.type : "",
                         l->what.type ? "'" : "");
}

static kiln_status load_part(const loading *l, const char *kind, kiln_value **out)
{
    const kiln_host *host = l->call->host;
    const kiln_model_family *family = family_of(l, kind);
    if (!family) return l->what.flags & KILN_LOAD_OPTIONAL ? KILN_OK : say_unknown(l, kind);
    kiln_value *v = family->open(host, l->call->ctx, l->set);
    kiln_status status = v ? bind_check(l->call, kind, v)
                           : host->fail(l->call->ctx, KILN_ERR_INVALID, "%s: %s of family '%s' could not be opened",
                                        l->path, in_words(kind), family->name);
    if (status != KILN_OK) host->about(l->call->ctx, l->path);
    if (status == KILN_OK)
        *out = v;
    else
        host->unref(v);
    return status;
}

/* ---- what is left over ---- */

/* 1: denoiser, text encoder and autoencoder are asked for, so that nothing in the file should be left. */
static int is_whole(const kiln_load *what)
{
    static const char *const all[] = {KILN_FAMILY_DENOISER, KILN_FAMILY_TEXT_ENCODER, KILN_FAMILY_AUTOENCODER};
    size_t found = 0;
    for (size_t i = 0; i < what->n; i++)
        for (size_t k = 0; k < COUNT(all); k++) found += strcmp(what->kind[i], all[k]) == 0;
    return found == COUNT(all);
}

/* One that does not say what it sees was not recorded, so that nothing of it was asked for. */
static void report_control(const loading *l, const kiln_net *net)
{
    const kiln_network *n = net->network;
    if (KILN_HAS(kiln_network, n, facts) && n->facts && kit_values(l->call)->map_get(n->facts, "latent_channels"))
        report_unused(l->call, l->path, net->weights);
}

/* A part by itself answers for its own tensors only: the file may hold more. */
static void report_part(const loading *l, const char *kind, const kiln_value *v)
{
    const kiln_call *c = l->call;
    if (strcmp(kind, KILN_FAMILY_DENOISER) == 0)
        report_unused(c, l->path, l->models->model(c->ctx, v)->weights);
    else if (strcmp(kind, KILN_FAMILY_AUTOENCODER) == 0)
        report_unused(c, l->path, l->models->vae(c->ctx, v)->weights);
    else if (strcmp(kind, KILN_FAMILY_CONTROL) == 0)
        report_control(l, l->models->net(c->ctx, v, "CONTROL_NET"));
    else if (strcmp(kind, KILN_FAMILY_VISION) == 0)
        report_unused(c, l->path, l->models->net(c->ctx, v, "CLIP_VISION")->weights);
    else if (strcmp(kind, KILN_FAMILY_UPSCALER) == 0)
        report_unused(c, l->path, l->models->net(c->ctx, v, "UPSCALE_MODEL")->weights);
    else if (strcmp(kind, KILN_FAMILY_TEXT_ENCODER) == 0) {
        const kiln_clip *clip = l->models->clip(c->ctx, v);
        for (uint32_t i = 0; i < clip->n_encoder; i++)
            report_unused(c, l->path, kiln_clip_encoder_at(clip, i)->weights);
    }
}

static void report(const loading *l, kiln_value *const *value)
{
    if (is_whole(&l->what)) {
        report_unused(l->call, l->path, l->set);
        return;
    }
    for (size_t i = 0; i < l->what.n; i++)
        if (value[i]) report_part(l, l->what.kind[i], value[i]);
}

/* ---- the ability ---- */

static kiln_status open_set(loading *l)
{
    kiln_weight_info first = {.size = sizeof first};
    if (!l->what.path && !l->what.set)
        return l->call->host->fail(l->call->ctx, KILN_ERR_INVALID, "no path and no weights to load from");
    l->set = l->what.path ? l->w->open(l->call->ctx, l->what.path) : l->w->ref(l->what.set);
    if (!l->set) return KILN_ERR_INVALID;
    l->path = l->what.path ? l->what.path : l->w->at(l->set, 0, &first) == KILN_OK ? first.file : "the weights";
    return KILN_OK;
}

/* The averages go in the place of the set. */
static kiln_status take_averages(loading *l)
{
    kiln_weights *averages = ema_view(l->call, l->set, l->path);
    l->w->unref(l->set);
    l->set = averages;
    return averages ? KILN_OK : KILN_ERR_INVALID;
}

static kiln_status load(const kiln_call *c, const kiln_load *given, kiln_value **out)
{
    loading l = {
        .call = c, .w = c->host->ability(KILN_WEIGHTS_ABILITY), .models = c->host->ability(KILN_MODEL_ABILITY)};
    if (!KILN_READ(&l.what, given, n))
        return c->host->fail(c->ctx, KILN_ERR_BUG, "kiln.loading/1: a kiln_load without its size");
    for (size_t i = 0; i < l.what.n; i++) out[i] = NULL;
    TRY(open_set(&l));
    if (l.what.flags & KILN_LOAD_EMA) TRY(take_averages(&l));
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < l.what.n && status == KILN_OK; i++) status = load_part(&l, l.what.kind[i], &out[i]);
    if (status == KILN_OK) report(&l, out);
    for (size_t i = 0; i < l.what.n && status != KILN_OK; i++) {
        c->host->unref(out[i]);
        out[i] = NULL;
    }
    l.w->unref(l.set);
    return status;
}

const kiln_loading_api loading_api = {
    .size = sizeof loading_api, .load = load, .check = bind_check, .needless = is_needless};
