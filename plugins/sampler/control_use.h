/* control_use.h - the controls of one entry of a CONDITIONING: which networks, when, how strongly, on what.
 *
 * The entry's "control" is a list of maps: control_net (a CONTROL_NET value), strength, start_percent, end_percent, and
 * what the network's inputs are called (hint, ...), and perhaps control_mask: where its results count.
 */
#ifndef KILN_SAMPLER_CONTROL_USE_H
#define KILN_SAMPLER_CONTROL_USE_H

#include "input_values.h"
#include "model_sampling.h"

enum { CONTROLS_MAX = 16 };

typedef struct {
    const kiln_net *net;
    char owner[80];         /* for people: "the control 'controlnet'" */
    char prefix[24];        /* of its inputs in a program: "control.0." */
    char strength_name[40]; /* "control.0.strength" */
    double sigma_start, sigma_end, strength;
    input_values inputs;
} control_use;

typedef struct {
    control_use *use;
    size_t n;
} control_uses;

/* An entry, and the lists of its controls and of the hooks it brings (network_hooks.h): its own, lent ones, or NULL. */
typedef struct {
    const kiln_value *entry, *list;
    kiln_weights *denoiser; /* that they steer */
    const kiln_value *hooks;
} control_list;

/* What every control may have beside its network's inputs: a mask over the picture, by which its results are
 * multiplied. Without one nothing of it is recorded. */
#define CONTROL_MASK "control_mask"

/* `search` says for whom: its call, what, shape, format and scaling. */
kiln_status control_uses_read(const input_search *search, const control_list *of, const model_sampling *counted,
                              control_uses *out);
/* Of each entry of a conditioning, in out[its count]. What `lender` may lend: controls that are marked
 * "control_apply_to_uncond" (ComfyUI's ControlNetApply), and hooks. */
kiln_status control_lists(const kiln_call *c, const kiln_value *conditioning, const kiln_value *lender,
                          kiln_weights *denoiser, control_list *out);

/* 1: it adds something at this level. */
static inline int control_acts(const control_use *u, double sigma)
{
    return u->strength != 0 && sigma <= u->sigma_start && sigma >= u->sigma_end;
}

/* 1: an input that says what becomes of a control's results. The network does not see it: it belongs to the
 * denoiser's program. */
static inline int control_is_about_results(const char *input)
{
    return strcmp(input, "strength") == 0 || strcmp(input, CONTROL_MASK) == 0;
}

/* Types wide enough for its network; 0: all. */
static inline uint32_t control_precisions(const control_use *u)
{
    const kiln_network *n = u->net->network;
    return KILN_HAS(kiln_network, n, precisions) ? n->precisions : 0;
}

#endif
