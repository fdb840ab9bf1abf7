/* context_windows_node.c - ContextWindowsManual: a MODEL that evaluates a batch of pictures a window at a time.
 * ComfyUI's `dim` is 0, the batch; windows over a video's frames (2) are refused.
 */
#include "context_windows.h"
#include "kiln/model.h"
#include "sampler_nodes.h"
#include "sampler_rows.h"

#include <stdio.h>
#include <stdlib.h>

static const kiln_port in[] = {{.name = "model", .type = "MODEL", .doc = "The denoiser."}};
static const kiln_port out[] = {{.name = "MODEL", .type = "MODEL", .doc = "The same with the windows."}};

typedef struct {
    int64_t context_length, context_overlap, context_stride, dim;
    int32_t context_schedule, fuse_method;
    int32_t closed_loop, freenoise, split_conds_to_windows, causal_window_fix;
    const char *cond_retain_index_list, *latent_retain_index_list;
} window_params;

static const kiln_choice schedules[] = {
    {.name = "standard_static",
     .doc = "from the first picture to the last, the same at each step",
     .value = WINDOWS_STANDARD_STATIC},
    {.name = "standard_uniform", .doc = "from a place that moves from step to step", .value = WINDOWS_STANDARD_UNIFORM},
    {.name = "looped_uniform", .doc = "likewise, and round the end", .value = WINDOWS_LOOPED_UNIFORM},
    {.name = "batched", .doc = "side by side, without overlap", .value = WINDOWS_BATCHED},
    {0}};
static const kiln_choice fuses[] = {
    {.name = "pyramid", .doc = "the more the nearer to a window's middle", .value = FUSE_PYRAMID},
    {.name = "relative", .doc = "likewise, down to a hundredth", .value = FUSE_RELATIVE},
    {.name = "flat", .doc = "all alike", .value = FUSE_FLAT},
    {.name = "overlap-linear", .doc = "ramps where windows overlap", .value = FUSE_OVERLAP_LINEAR},
    {0}};
#define TEXT_PARAM(field_, doc_)                                                                                       \
    {                                                                                                                  \
        .name = #field_, .type = KILN_P_STRING, .offset = offsetof(window_params, field_), .def_str = "",              \
        .doc = (doc_)                                                                                                  \
    }
static const kiln_param param[] = {
    KIT_INT(window_params, context_length, 16, 1, 4096, "Pictures of a window."),
    KIT_INT(window_params, context_overlap, 4, 0, 4095, "How many of them the next window has too."),
    KIT_ENUM(window_params, context_schedule, schedules, WINDOWS_STANDARD_STATIC, "Which windows at which step."),
    KIT_INT(window_params, context_stride, 1, 1, 32,
            "Of uniform schedules: windows of every 1st, 2nd, 4th ... picture, so many kinds."),
    KIT_BOOL(window_params, closed_loop, 0, "Of looped_uniform: the last window may go on with the first picture."),
    KIT_ENUM(window_params, fuse_method, fuses, FUSE_PYRAMID,
             "How much each window counts where several have a picture."),
    KIT_INT(window_params, dim, 0, 0, 5, "0: the batch. Others are not there."),
    KIT_BOOL(window_params, freenoise, 0, "The noise behind a window's worth is that, shuffled."),
    TEXT_PARAM(cond_retain_index_list,
               "Places of a window that have the inputs of the pictures of these numbers: 0, 2."),
    KIT_BOOL(window_params, split_conds_to_windows, 0,
             "Of several entries of a conditioning a window takes one, by its place."),
    TEXT_PARAM(latent_retain_index_list, "The same of the latent."),
    KIT_BOOL(window_params, causal_window_fix, 1, "A window sees the picture before it, which it does not change."),
};

typedef struct {
    kiln_windows windows;
    context_windows by;
    char identity[1024];
} windows_owned;

static int at(const void *self, int64_t pictures, int64_t step, size_t i, kiln_window *to)
{
    return context_windows_at(&((const windows_owned *)self)->by, pictures, step, i, to);
}

static int noise(const void *self, int64_t pictures, uint64_t seed, int64_t *from)
{
    return context_windows_noise(&((const windows_owned *)self)->by, pictures, seed, from);
}

/* "0, 2" */
static kiln_status read_list(const kiln_call *c, const char *name, const char *text, retained *to)
{
    for (const char *s = text; *s;) {
        char *end;
        long number = strtol(s, &end, 10);
        while (*end == ' ') end++;
        if (end == s || number < 0 || number > 4095 || (*end && *end != ',') || to->n == WINDOWS_RETAINED_MAX)
            return c->host->fail(c->ctx, KILN_ERR_INVALID,
                                 "%s '%.60s': numbers from 0 to 4095 with commas between, at most %d of them", name,
                                 text, WINDOWS_RETAINED_MAX);
        to->at[to->n++] = number;
        s = *end ? end + 1 : end;
    }
    return KILN_OK;
}

static kiln_status check(const kiln_call *c)
{
    const window_params *p = c->params;
    retained list = {0};
    if (p->dim != 0)
        return kit_at_param(c,
                            c->host->fail(c->ctx, KILN_ERR_UNSUPPORTED,
                                          "dim %lld is not there: windows are of the pictures of a batch, dim 0",
                                          (long long)p->dim),
                            "dim");
    if (p->context_overlap >= p->context_length)
        return kit_at_param(
            c,
            c->host->fail(c->ctx, KILN_ERR_INVALID,
                          "context_overlap %lld is not below context_length %lld: windows would not move on",
                          (long long)p->context_overlap, (long long)p->context_length),
            "context_overlap");
    TRY(kit_at_param(c, read_list(c, "cond_retain_index_list", p->cond_retain_index_list, &list),
                     "cond_retain_index_list"));
    list.n = 0;
    return kit_at_param(c, read_list(c, "latent_retain_index_list", p->latent_retain_index_list, &list),
                        "latent_retain_index_list");
}

static void write_identity(const window_params *p, char to[1024])
{
    snprintf(to, 1024, "context windows %lld/%lld/%lld %d/%d %d%d%d%d '%.300s' '%.300s'", (long long)p->context_length,
             (long long)p->context_overlap, (long long)p->context_stride, p->context_schedule, p->fuse_method,
             p->closed_loop, p->freenoise, p->split_conds_to_windows, p->causal_window_fix, p->cond_retain_index_list,
             p->latent_retain_index_list);
}

static kiln_status fill(const kiln_call *c, windows_owned *o)
{
    const window_params *p = c->params;
    o->by = (context_windows){.length = p->context_length,
                              .overlap = p->context_overlap,
                              .stride = p->context_stride,
                              .schedule = p->context_schedule,
                              .fuse = p->fuse_method,
                              .closed_loop = p->closed_loop,
                              .anchored = p->causal_window_fix};
    TRY(read_list(c, "cond_retain_index_list", p->cond_retain_index_list, &o->by.inputs));
    TRY(read_list(c, "latent_retain_index_list", p->latent_retain_index_list, &o->by.latents));
    write_identity(p, o->identity);
    o->windows = (kiln_windows){.size = sizeof o->windows,
                                .split = p->split_conds_to_windows != 0,
                                .identity = o->identity,
                                .self = o,
                                .at = at,
                                .noise = p->freenoise ? noise : NULL};
    return KILN_OK;
}

static kiln_status run(const kiln_call *c)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_model *model = models->model(c->ctx, c->in[0]);
    TRY(check(c));
    windows_owned *o = model ? calloc(1, sizeof *o) : NULL;
    if (!o) return model ? KILN_ERR_NOMEM : KILN_ERR_INVALID;
    kiln_status status = fill(c, o);
    if (status == KILN_OK) {
        kiln_model m = *model;
        m.windows = &o->windows;
        m.owned = o, m.release = free, m.base = c->in[0];
        if (!(c->out[0] = models->model_new(c->ctx, &m))) status = KILN_ERR_NOMEM;
    }
    if (status != KILN_OK) free(o);
    return status;
}

const kiln_node node_context_windows = {
    KIT_NODE("ContextWindowsManual", "Context Windows (Manual)", "model/patch",
             "Evaluates a batch of pictures a window at a time; where windows overlap, guesses are weighted means."),
    KILN_ARRAY(in, in),
    KILN_ARRAY(out, out),
    KIT_PARAMS(window_params, param),
    .run = run,
    .check = check,
};
