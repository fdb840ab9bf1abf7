/* conditions.h - a CONDITIONING value as an evaluation needs it: per entry the values of the model's inputs and its
 * controls, where and at which levels it is used, and how much each latent cell counts.
 *
 * Entry keys read here: area [h,w,y,x] in latent cells or area_percent (fractions of the whole); strength; mask (MASK,
 * one or a batch), mask_strength, set_area_to_bounds; start_percent, end_percent, clip_start_percent, clip_end_percent;
 * control, control_apply_to_uncond; hooks; network_hooks; default; model_range. The meaning is ComfyUI's
 * (calc_cond_batch). All others are the model's, by its inputs. Memory: the call's scratch.
 */
#ifndef KILN_SAMPLER_CONDITIONS_H
#define KILN_SAMPLER_CONDITIONS_H

#include "control_use.h"
#include "entry_hooks.h"
#include "entry_keys.h"
#include "latent_space.h"
#include "model_sampling.h"

#include <string.h>

typedef struct {
    input_values inputs; /* of the model and its hooks           */
    control_uses controls;
    entry_hooks hooks;
    int has_area;             /* it says which part, if only the whole */
    int is_default;           /* it is for what no other entry speaks for (default_entries.h) */
    int64_t y, x, h, w;       /* the part of the latent it speaks for */
    int unconditional;        /* it is of the guider's unconditional set */
    int64_t top, left;        /* of the whole latent's cells: where that part is, however it was cut */
    const float *weight;      /* [weights][h][w]; NULL: 1 everywhere  */
    int64_t weights;          /* picture b has weight b % weights     */
    const float *host_weight; /* the same on the host, once `weight` is on the device */
    int64_t host_weights;
    double sigma_start, sigma_end; /* used while start >= sigma >= end */
} condition;

typedef struct {
    condition *entry;
    size_t n;
} conditions;

/* The control whose inputs have that prefix; there is one. */
static inline const control_use *condition_control(const condition *c, const char *prefix)
{
    size_t i = 0;
    while (i + 1 < c->controls.n && strcmp(c->controls.use[i].prefix, prefix) != 0) i++;
    return &c->controls.use[i];
}

typedef struct {
    int64_t y, x, h, w;
} condition_area;

/* Whose conditionings: a model (one range of a MODEL), how it counts noise, and the latent's shape. */
typedef struct {
    const kiln_call *call;
    const kiln_model *model;
    const char *range; /* the model's name among a MODEL's ranges; NULL: it has none */
    model_sampling counted;
    kiln_latent_shape shape;
    const char *what; /* "positive"              */
    int unconditional;
    const kiln_value *latent;  /* that is sampled */
    uint64_t seed;             /* of its noise    */
    entry_keys *keys;          /* that entries have; NULL: nobody asks */
    size_t n_carried;          /* hooks at the end of the model's that entries bring */
    hook_schedules *schedules; /* of the entries' hooks; NULL: none is read */
    const kiln_value
        *lender; /* the conditioning whose controls may be for all sets; NULL: this one, or there is none */
} condition_reading;

/* Entries that are bound to another range are left out. A batch of masks goes to a batch of pictures one each: more
 * than there are pictures are dropped, fewer are given again from the first on, and a number that does not divide
 * theirs is refused. */
kiln_status conditions_read(const condition_reading *r, const kiln_value *conditioning, conditions *out);

/* Each entry with an area gets an opposite in every other set: the same area, weight and range with the inputs of that
 * set's entry round it and its own hooks (of both kinds), unless there is one of that very area. So every part of the
 * picture is guided by both sides. ComfyUI's create_cond_with_same_area_if_none. */
kiln_status conditions_oppose(const kiln_call *c, conditions *const *set, size_t n, int64_t height, int64_t width);

/* What of `from` speaks for a part of the picture, with places and weights as that part has them. */
kiln_status conditions_crop(const kiln_call *c, const conditions *from, const condition_area *part, conditions *out);

/* Bilinear without antialiasing, pixel centres at half (torch interpolate, align_corners False). */
void resize_bilinear(const float *src, int64_t sh, int64_t sw, float *dst, int64_t dh, int64_t dw);

#endif
