/* ema.c - see ema.h.
 *
 * Trainers of the original code keep a moving average of the denoiser's weights as buffers, whose names may hold no
 * dots: "model.diffusion_model.input_blocks.0.0.weight" is averaged in "model_ema.diffusion_modelinput_blocks00weight"
 * (LitEma of pytorch's latent diffusion). The rules of the view are made from the names that are there. What has no
 * average stays as it is, and model_ema's own counters are left out.
 */
#include "ema.h"

#include "kiln/kit.h"

#include <stdio.h>
#include <string.h>

#define LAST "model."
#define AVERAGE "model_ema."

enum { NAME_MAX_BYTES = 600 };

typedef struct {
    const kiln_call *call;
    const kiln_weights_api *w;
    kiln_weights *set;
    kiln_weight_rule *rule;
    size_t n, averages;
} ema_rules;

static int begins_with(const char *name, const char *with) { return strncmp(name, with, strlen(with)) == 0; }

/* "model_ema." and the name without "model." and without dots. 0: it is no such name. */
static int average_name(const char *name, char out[NAME_MAX_BYTES])
{
    size_t n = strlen(AVERAGE);
    if (!begins_with(name, LAST) || strlen(name) + n >= NAME_MAX_BYTES) return 0;
    memcpy(out, AVERAGE, n);
    for (const char *p = name + strlen(LAST); *p; p++)
        if (*p != '.') out[n++] = *p;
    out[n] = '\0';
    return 1;
}

static void add_rule(ema_rules *r, const char *from, const char *to)
{
    r->rule[r->n++] = (kiln_weight_rule)KILN_RULE(.from = from, .to = to);
}

/* "first_stage_model.*": one rule for all of them. `last` is the one of the name before: names are sorted. */
static const char *keep_all(ema_rules *r, const char *name, const char *last)
{
    size_t n = strcspn(name, ".");
    if (last && strlen(last) == n + 2 && strncmp(last, name, n + 1) == 0) return last;
    char *pattern = name[n] ? r->call->host->scratch(r->call->ctx, n + 3, KILN_CPU) : NULL;
    if (!pattern) return add_rule(r, name, name), NULL;
    snprintf(pattern, n + 3, "%.*s.*", (int)n, name);
    add_rule(r, pattern, pattern);
    return pattern;
}

static void make_rules(ema_rules *r)
{
    const char *last = NULL;
    kiln_weight_info info = {.size = sizeof info}, found = {.size = sizeof found};
    char average[NAME_MAX_BYTES];
    for (size_t i = 0; r->w->at(r->set, i, &info) == KILN_OK; i++) {
        if (begins_with(info.name, AVERAGE)) continue;
        if (!begins_with(info.name, LAST)) {
            last = keep_all(r, info.name, last);
        } else if (average_name(info.name, average) && r->w->find(r->set, average, &found) == KILN_OK) {
            add_rule(r, found.name, info.name);
            r->averages++;
        } else {
            add_rule(r, info.name, info.name);
        }
    }
}

kiln_weights *ema_view(const kiln_call *c, kiln_weights *set, const char *path)
{
    ema_rules r = {.call = c, .w = c->host->ability(KILN_WEIGHTS_ABILITY), .set = set};
    size_t n = r.w->count(set);
    r.rule = c->host->scratch(c->ctx, (n + 1) * sizeof *r.rule, KILN_CPU);
    if (!r.rule) return c->host->fail(c->ctx, KILN_ERR_NOMEM, "out of memory"), NULL;
    make_rules(&r);
    if (r.averages) return r.w->view(c->ctx, set, r.rule, r.n);
    c->host->fail(c->ctx, KILN_ERR_INVALID, "%s: there are no averaged weights (model_ema.*) in it; set ema to false",
                  path);
    return NULL;
}
