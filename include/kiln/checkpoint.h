/* checkpoint.h - where the parts of a checkpoint lie: which prefix a network's tensors have in a single file or in a
 * diffusers folder. A family lists the layouts it reads, and the first whose tensors are all there is the one.
 *
 *     static const checkpoint_layout layouts[] = {
 *         {.prefix = "vae/", .config = "vae/config.json", .needs = {"encoder.conv_in.weight"}},
 *         {.prefix = "first_stage_model.", .needs = {"encoder.conv_in.weight"}, .kind = LDM}};
 *     const checkpoint_layout *at = checkpoint_find(w, set, layouts, 2);
 *
 * Header only; includes the public headers alone. Everything is [any].
 */
#ifndef KILN_CHECKPOINT_H
#define KILN_CHECKPOINT_H

#include "weights.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { CHECKPOINT_NEEDS = 4, CHECKPOINT_NAME = 200 };

typedef struct {
    const char *prefix;                  /* of the tensors' names in the set: "unet/", "model.diffusion_model.", "" */
    const char *config;                  /* where its config.json lies; NULL: a single file, which has none         */
    const char *needs[CHECKPOINT_NEEDS]; /* names below the prefix that have to be there; NULL: no more             */
    int kind;                            /* the family's own: whose names they are                                  */
} checkpoint_layout;

/* 1: the set has the tensor `prefix` + the formatted name, of rank 1 at least; *info describes it. */
__attribute__((format(printf, 5, 6))) static inline int checkpoint_has(const kiln_weights_api *w,
                                                                       const kiln_weights *set, const char *prefix,
                                                                       kiln_weight_info *info, const char *name, ...)
{
    char full[CHECKPOINT_NAME];
    size_t n = strlen(prefix);
    va_list args;
    if (n >= sizeof full) return 0;
    memcpy(full, prefix, n);
    va_start(args, name);
    int length = vsnprintf(full + n, sizeof full - n, name, args);
    va_end(args);
    memset(info, 0, sizeof *info);
    info->size = (uint32_t)sizeof *info;
    return length >= 0 && (size_t)length < sizeof full - n && w->find(set, full, info) == KILN_OK && info->rank >= 1;
}

/* The first of n layouts whose needs are all in the set, or NULL. */
static inline const checkpoint_layout *checkpoint_find(const kiln_weights_api *w, const kiln_weights *set,
                                                       const checkpoint_layout *layout, size_t n)
{
    kiln_weight_info info;
    for (size_t i = 0; i < n; i++) {
        size_t found = 0;
        while (found < CHECKPOINT_NEEDS && layout[i].needs[found] &&
               checkpoint_has(w, set, layout[i].prefix, &info, "%s", layout[i].needs[found]))
            found++;
        if (found == CHECKPOINT_NEEDS || !layout[i].needs[found]) return &layout[i];
    }
    return NULL;
}

#ifdef __cplusplus
}
#endif
#endif
