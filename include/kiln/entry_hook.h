/* entry_hook.h - other weights for the networks behind one entry of a CONDITIONING, as strong as a schedule says.
 *
 * An entry may have the key "hooks", a HOOKS value: a list of maps
 *
 *     hook          an object of the type "HOOK", whose pointer is a kiln_entry_hook
 *     keyframes     HOOK_KEYFRAMES, or absent: strength 1 all the way
 *
 * and HOOK_KEYFRAMES is a list of maps, by rising start_percent:
 *
 *     strength, start_percent, guarantee_steps      read by kiln_keyframe_at()
 *
 * The sampling evaluates an entry over the weights that its hooks make of the MODEL's, one after the other; entries
 * whose hooks are the same at the same strengths go together, and one whose hooks are all at strength 0 is evaluated as
 * if it had none. A CLIP has hooks too (text.h). Whoever makes a hook says in the object's fingerprint all that decides
 * what it does:
 *
 *     values->new_object(ctx, KILN_ENTRY_HOOK, &own->hook, release_own, "LoRA style.safetensors/3f2a.../0.8/1");
 *
 * Which keyframe counts: the first, until the level has fallen to the start of another; of those the last, but a
 * keyframe that guarantees steps is not passed by before it has been there for so many evaluations, unless it began
 * above the sampling's first level.
 */
#ifndef KILN_ENTRY_HOOK_H
#define KILN_ENTRY_HOOK_H

#include "model.h"
#include "value.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_ENTRY_HOOK "HOOK"

/* Functions are [run]; the table lives as long as the object. `strength` is the keyframe's and not 0. What they return
 * are references of the caller's; a set on which the hook has nothing to change comes back as it is. */
typedef struct kiln_entry_hook {
    uint32_t size;
    void *self;
    /* The weights of the MODEL's own network with this hook on top of `before`: its weights with what the entry's
     * hooks before this one did. NULL with a message. */
    kiln_weights *(*denoiser)(const struct kiln_entry_hook *, const kiln_call *, const kiln_model *,
                              kiln_weights *before, double strength);
    /* The same of a CLIP's encoders: before[n_encoder] -> out[n_encoder]. On failure none is set. */
    kiln_status (*text)(const struct kiln_entry_hook *, const kiln_call *, const kiln_clip *,
                        kiln_weights *const *before, double strength, kiln_weights **out);
} kiln_entry_hook;

/* The hook of one map of a HOOKS value; NULL: it is none. */
static inline const kiln_entry_hook *kiln_entry_hook_of(const kiln_value_api *v, const kiln_value *map)
{
    return (const kiln_entry_hook *)v->object(v->map_get(map, "hook"), KILN_ENTRY_HOOK);
}

typedef struct {
    double strength, start; /* start: a share of the way */
    int64_t guarantee;      /* evaluations */
} kiln_keyframe;

/* Keyframe i of a HOOK_KEYFRAMES value; 0: its map lacks something. */
static inline int kiln_keyframe_at(const kiln_value_api *v, const kiln_value *keyframes, size_t i, kiln_keyframe *out)
{
    const kiln_value *map = v->list_at(keyframes, i);
    return map && v->get_float(v->map_get(map, "strength"), &out->strength) == KILN_OK &&
           v->get_float(v->map_get(map, "start_percent"), &out->start) == KILN_OK &&
           v->get_int(v->map_get(map, "guarantee_steps"), &out->guarantee) == KILN_OK;
}

#ifdef __cplusplus
}
#endif
#endif
