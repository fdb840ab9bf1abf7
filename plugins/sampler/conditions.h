/* conditions.h - a CONDITIONING value as an evaluation needs it: per entry its tokens, where and at which levels it is
 * used, and how much each latent cell counts.
 *
 * Entry keys read: tokens f32 [n,T,D]; area [h,w,y,x] in latent cells or area_percent (fractions of the
 * whole); strength; mask (MASK, one or a batch), mask_strength, set_area_to_bounds; start_percent, end_percent. The
 * meaning is ComfyUI's (calc_cond_batch). Memory: the call's scratch.
 */
#ifndef KILN_SAMPLER_CONDITIONS_H
#define KILN_SAMPLER_CONDITIONS_H

#include "model_sampling.h"

typedef struct {
    const float *tokens; /* [batch][length][width] */
    int64_t batch, length, width;
    int64_t y, x, h, w;            /* the part of the latent it speaks for */
    const float *weight;           /* [weights][h][w]; NULL: 1 everywhere  */
    int64_t weights;               /* picture b has weight b % weights     */
    double sigma_start, sigma_end; /* used while start >= sigma >= end */
} condition;

typedef struct {
    condition *entry;
    size_t n;
} conditions;

typedef struct {
    int64_t batch, height, width;
} latent_size; /* pictures; cells */

typedef struct {
    int64_t y, x, h, w;
} condition_area;

/* `counted` says which levels percents are. A batch of masks goes to a batch of pictures one each: more than there are
 * pictures are dropped, fewer are given again from the first on, and a number that does not divide theirs is refused.
 */
kiln_status conditions_read(const kiln_call *c, const kiln_value *conditioning, const char *what,
                            const latent_size *size, const model_sampling *counted, int64_t context_dim,
                            conditions *out);

/* Each entry with an area gets an opposite in every other set: the same area, weight and range with the tokens of that
 * set's entry round it, unless there is one of that very area. So every part of the picture is guided by both sides.
 * ComfyUI's create_cond_with_same_area_if_none. */
kiln_status conditions_oppose(const kiln_call *c, conditions *const *set, size_t n, int64_t height, int64_t width);

/* What of `from` speaks for a part of the picture, with places and weights as that part has them. */
kiln_status conditions_crop(const kiln_call *c, const conditions *from, const condition_area *part, conditions *out);

/* Bilinear without antialiasing, pixel centres at half (torch interpolate, align_corners False). */
void resize_bilinear(const float *src, int64_t sh, int64_t sw, float *dst, int64_t dh, int64_t dw);

#endif
