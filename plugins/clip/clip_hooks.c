/* clip_hooks.c - see clip_hooks.h.
 *
 * ComfyUI's stretches: a hook's begin at its first keyframe, and further ones where the strength changes; all hooks'
 * ends cut the way. Where none of a hook's stretches lies (before its first keyframe) it is as strong as without any.
 */
#include "clip_hooks.h"

#include "kiln/kit.h"

#include <math.h>
#include <stdlib.h>

static const kiln_value *hooks_of(const kiln_clip *clip)
{
    return KILN_HAS(kiln_clip, clip, hooks) ? clip->hooks : NULL;
}

static size_t count_of(const kiln_call *c, const kiln_clip *clip)
{
    return hooks_of(clip) ? kit_values(c)->count(hooks_of(clip)) : 0;
}

static uint32_t flags_of(const kiln_clip *clip)
{
    return hooks_of(clip) && KILN_HAS(kiln_clip, clip, hook_flags) ? clip->hook_flags : 0;
}

int clip_is_scheduled(const kiln_clip *clip) { return (flags_of(clip) & KILN_CLIP_HOOKS_SCHEDULED) != 0; }

/* ---- the stretches of one hook ---- */

typedef struct {
    double start, end, strength;
} part;

typedef struct {
    part *item;
    size_t n;
} parts;

static int nearly(double a, double b) { return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b)); }

static kiln_status read_parts(const kiln_call *c, const kiln_value *keyframes, parts *out)
{
    const kiln_value_api *v = kit_values(c);
    size_t n = keyframes ? v->count(keyframes) : 0;
    kiln_keyframe last = {0}, next;
    if (!(out->item = c->host->scratch(c->ctx, (n + 1) * sizeof *out->item, KILN_CPU))) return KILN_ERR_NOMEM;
    out->n = 0;
    if (!n) {
        out->item[out->n++] = (part){0, 1, 1};
        return KILN_OK;
    }
    for (size_t i = 0; i < n; i++) {
        if (!kiln_keyframe_at(v, keyframes, i, &next))
            return c->host->fail(
                c->ctx, KILN_ERR_INVALID,
                "the CLIP's hooks have a keyframe without strength, start_percent and guarantee_steps");
        if (i && next.start > last.start && nearly(next.strength, last.strength)) continue;
        if (i && next.start > last.start) out->item[out->n++] = (part){last.start, next.start, last.strength};
        last = next;
    }
    if (!nearly(last.start, 1)) out->item[out->n++] = (part){last.start, 1, last.strength};
    return KILN_OK;
}

/* ---- all of them ---- */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The ends of all hooks' parts and 0, each once, in order. */
static double *cuts_of(const kiln_call *c, const parts *of, size_t n, size_t *count)
{
    size_t most = 1;
    for (size_t i = 0; i < n; i++) most += 2 * of[i].n;
    double *cut = c->host->scratch(c->ctx, most * sizeof *cut, KILN_CPU);
    if (!cut) return NULL;
    *count = 0;
    cut[(*count)++] = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < of[i].n; k++) cut[(*count)++] = of[i].item[k].start, cut[(*count)++] = of[i].item[k].end;
    qsort(cut, *count, sizeof *cut, by_size);
    size_t kept = 1;
    for (size_t i = 1; i < *count; i++)
        if (cut[i] != cut[kept - 1]) cut[kept++] = cut[i];
    *count = kept;
    return cut;
}

static double strength_between(const parts *of, double start, double end)
{
    for (size_t i = 0; i < of->n; i++)
        if (of->item[i].start < end && of->item[i].end > start) return of->item[i].strength;
    return 1;
}

static kiln_status full_stretch(const kiln_call *c, clip_stretch **out, size_t *n)
{
    *n = 1;
    if (!(*out = c->host->scratch(c->ctx, sizeof **out, KILN_CPU))) return KILN_ERR_NOMEM;
    (*out)->start = 0, (*out)->end = 1;
    for (size_t i = 0; i < CLIP_HOOKS_MAX; i++) (*out)->strength[i] = 1;
    return KILN_OK;
}

kiln_status clip_stretches(const kiln_call *c, const kiln_clip *clip, clip_stretch **out, size_t *n)
{
    const kiln_value_api *v = kit_values(c);
    size_t hooks = count_of(c, clip), cuts;
    parts of[CLIP_HOOKS_MAX];
    if (hooks > CLIP_HOOKS_MAX)
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "%zu hooks on a CLIP; at most %d are possible", hooks,
                             (int)CLIP_HOOKS_MAX);
    if (!clip_is_scheduled(clip)) return full_stretch(c, out, n);
    for (size_t i = 0; i < hooks; i++)
        TRY(read_parts(c, v->map_get(v->list_at(hooks_of(clip), i), "keyframes"), &of[i]));
    const double *cut = cuts_of(c, of, hooks, &cuts);
    if (!cut) return KILN_ERR_NOMEM;
    if (cuts < 2) return full_stretch(c, out, n); /* every hook begins at the very end */
    *n = cuts - 1;
    if (!(*out = c->host->scratch(c->ctx, *n * sizeof **out, KILN_CPU))) return KILN_ERR_NOMEM;
    for (size_t i = 0; i < *n; i++) {
        (*out)[i].start = cut[i], (*out)[i].end = cut[i + 1];
        for (size_t k = 0; k < hooks; k++) (*out)[i].strength[k] = strength_between(&of[k], cut[i], cut[i + 1]);
    }
    return KILN_OK;
}

/* ---- weights ---- */

static const kiln_weights_api *weights_of(const kiln_call *c) { return c->host->ability(KILN_WEIGHTS_ABILITY); }

void clip_unhooked(const kiln_call *c, kiln_clip *hooked)
{
    for (uint32_t i = 0; i < hooked->n_encoder; i++) weights_of(c)->unref(kiln_clip_encoder_at(hooked, i)->weights);
    hooked->n_encoder = 0;
}

/* One hook on top of what is there. */
static kiln_status put_hook(const kiln_call *c, const kiln_clip *clip, const kiln_value *map, double strength,
                            kiln_clip_encoder *encoder)
{
    const kiln_entry_hook *h = kiln_entry_hook_of(kit_values(c), map);
    if (!h)
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "the CLIP's hooks have a map without a hook; CreateHookLora makes them");
    if (strength == 0 || !h->text) return KILN_OK;
    size_t n = clip->n_encoder;
    kiln_weights **set = c->host->scratch(c->ctx, 2 * n * sizeof *set, KILN_CPU);
    if (!set) return KILN_ERR_NOMEM;
    for (size_t i = 0; i < n; i++) set[i] = encoder[i].weights;
    TRY(h->text(h, c, clip, set, strength, set + n));
    for (size_t i = 0; i < n; i++) {
        weights_of(c)->unref(set[i]);
        encoder[i].weights = set[n + i];
    }
    return KILN_OK;
}

kiln_status clip_hooked(const kiln_call *c, const kiln_clip *clip, const double *strength, kiln_clip *out)
{
    kiln_clip_encoder *encoder = c->host->scratch(c->ctx, clip->n_encoder * sizeof *encoder, KILN_CPU);
    *out = *clip;
    out->n_encoder = 0;
    if (!encoder) return KILN_ERR_NOMEM;
    for (uint32_t i = 0; i < clip->n_encoder; i++) {
        encoder[i] = *kiln_clip_encoder_at(clip, i);
        encoder[i].size = (uint32_t)sizeof *encoder;
        weights_of(c)->ref(encoder[i].weights);
    }
    out->encoder = encoder, out->n_encoder = clip->n_encoder;
    for (size_t i = 0; i < count_of(c, clip); i++)
        TRY(put_hook(c, clip, kit_values(c)->list_at(hooks_of(clip), i), strength[i], encoder));
    return KILN_OK;
}

/* ---- entries ---- */

kiln_status clip_mark_entry(const kiln_call *c, const kiln_clip *clip, const clip_stretch *of, kiln_value *entry)
{
    const kiln_value_api *v = kit_values(c);
    if (flags_of(clip) & KILN_CLIP_HOOKS_ON_ENTRIES) TRY(v->map_set(entry, "hooks", clip->hooks));
    if (!clip_is_scheduled(clip)) return KILN_OK;
    TRY(kit_set(c, entry, "clip_start_percent", v->new_float(c->ctx, of->start)));
    return kit_set(c, entry, "clip_end_percent", v->new_float(c->ctx, of->end));
}
