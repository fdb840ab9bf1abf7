/* clip_hooks.h - the hooks of a CLIP (kiln/entry_hook.h): its encoders over other weights, and the stretches of the way
 * for which a prompt is encoded anew. */
#ifndef KILN_CLIP_CLIP_HOOKS_H
#define KILN_CLIP_CLIP_HOOKS_H

#include "kiln/entry_hook.h"

enum { CLIP_HOOKS_MAX = 32 };

/* From one share of the way to another, and how strong each hook is there. */
typedef struct {
    double start, end;
    double strength[CLIP_HOOKS_MAX];
} clip_stretch;

/* In the call's scratch. A CLIP that is not scheduled has one stretch, with all hooks at 1. */
kiln_status clip_stretches(const kiln_call *c, const kiln_clip *clip, clip_stretch **out, size_t *n);
/* 1: entries say for which stretch they are. */
int clip_is_scheduled(const kiln_clip *clip);

/* *out = the CLIP with its hooks at these strengths; encoders in the call's scratch. clip_unhooked() lets go of its
 * weights, also after a failure. */
kiln_status clip_hooked(const kiln_call *c, const kiln_clip *clip, const double *strength, kiln_clip *out);
void clip_unhooked(const kiln_call *c, kiln_clip *hooked);

/* What the CLIP wants an entry of a conditioning to have beside its values. */
kiln_status clip_mark_entry(const kiln_call *c, const kiln_clip *clip, const clip_stretch *of, kiln_value *entry);

#endif
