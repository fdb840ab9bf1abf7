/* unused.c - see unused.h. */
#include "unused.h"

#include "kiln/kit.h"

#include <stdio.h>
#include <string.h>

/* Buffers and parts that files carry and no picture needs. '*' stands for anything, at either end. */
static const char *const known[] = {
    "*position_ids",
    "model_ema.*",
    "betas",
    "alphas_cumprod*",
    "sqrt_*",
    "log_one_minus*",
    "posterior_*",
    "lvlb_weights",
    "logvar",
    "first_stage_model.loss.*",
    "*logit_scale",
    "*text_projection*",
    "safety_checker/*",
    "image_encoder/*",
    "*denoiser.sigmas",
    "v_pred",
    "ztsnr",
    "edm_*",
    "noise_augmentor.*",
};

static int matches(const char *pattern, const char *name)
{
    size_t n = strlen(pattern), m = strlen(name);
    int front = pattern[0] == '*', back = pattern[n - 1] == '*';
    const char *core = pattern + front;
    size_t length = n - (size_t)(front + back);
    if (m < length) return 0;
    if (!front) return strncmp(name, core, length) == 0 && (back || m == length);
    if (!back) return strncmp(name + m - length, core, length) == 0;
    for (size_t i = 0; i + length <= m; i++)
        if (strncmp(name + i, core, length) == 0) return 1;
    return 0;
}

enum { NAMED_MAX = 8 };

typedef struct {
    const kiln_call *call;
    const char *path;
    size_t known, strange;
} tally;

int is_needless(const char *tensor)
{
    for (size_t i = 0; i < COUNT(known); i++)
        if (matches(known[i], tensor)) return 1;
    return 0;
}

static void count_unused(void *arg, const kiln_weight_info *info)
{
    tally *t = arg;
    char line[700];
    if (is_needless(info->name)) {
        t->known++;
        return;
    }
    if (t->strange++ >= NAMED_MAX) return;
    snprintf(line, sizeof line, "%s: tensor '%.400s' is not used by any network", t->path, info->name);
    t->call->host->log(KILN_LOG_WARN, line);
}

void report_unused(const kiln_call *c, const char *path, const kiln_weights *set)
{
    const kiln_weights_api *w = c->host->ability(KILN_WEIGHTS_ABILITY);
    tally t = {.call = c, .path = path};
    char line[400];
    w->unused(set, count_unused, &t);
    if (t.strange > NAMED_MAX) {
        snprintf(line, sizeof line, "%.200s: %zu tensors in all are not used by any network", path, t.strange);
        c->host->log(KILN_LOG_WARN, line);
    }
    if (t.known) {
        snprintf(line, sizeof line, "%.200s: %zu tensors of known kinds are not needed (position_ids and the like)",
                 path, t.known);
        c->host->log(KILN_LOG_INFO, line);
    }
}
