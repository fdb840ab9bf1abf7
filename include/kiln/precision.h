/* precision.h - networks in 16 bits, and results that are not finite.
 *
 * Activations of some networks pass 65504, where f16 ends. A table says so (kiln_denoiser.precisions), and whoever
 * records the network hands that to kiln_program_options.precisions. What is not said is met: a result that is not
 * finite is made once more in f32, the widest type there is, and what follows of the call stays in f32. Once, since
 * what is not finite in f32 is not so for want of range: the weights or the input are broken.
 *
 *     if (!finite && kiln_goes_wider(call, "autoencoder", &precision, ran_in)) ... // once more, with that precision
 */
#ifndef KILN_PRECISION_H
#define KILN_PRECISION_H

#include "ops.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Types wide enough for two networks in one program; f32 is wide enough for all. */
static inline uint32_t kiln_precisions_of_both(uint32_t a, uint32_t b)
{
    return a && b ? (a & b) | 1u << KILN_F32 : a | b;
}

/* What a planned program computes in; 0: not known. */
static inline uint32_t kiln_precision_of(const kiln_ops *ops, const kiln_program *program)
{
    kiln_program_info info = {.size = sizeof info};
    return ops->info(program, &info) == KILN_OK ? info.precision : 0;
}

/* A result that was made in `ran` is not finite. 1, with a warning and *precision = KILN_F32: it is to be made again;
 * 0: it was made in f32, or it is not known in what. */
static inline int kiln_goes_wider(const kiln_call *c, const char *network, uint32_t *precision, uint32_t ran)
{
    char text[400];
    if (ran != KILN_F16 && ran != KILN_BF16) return 0;
    *precision = KILN_F32;
    snprintf(text, sizeof text,
             "%.160s: the %.60s gave numbers that are not finite in %s; it is computed again in f32, and so is what "
             "follows",
             KILN_HAS(kiln_host, c->host, node) ? c->host->node(c->ctx) : "a node", network,
             ran == KILN_F16 ? "f16" : "bf16");
    c->host->log(KILN_LOG_WARN, text);
    return 1;
}

/* The file that a set's weights lie in, for a message that says where to look; "FILE": there is none. */
static inline const char *kiln_file_of(const kiln_weights_api *w, const kiln_weights *set)
{
    kiln_weight_info info = {.size = sizeof info};
    return set && w->at(set, 0, &info) == KILN_OK && info.file ? info.file : "FILE";
}

#ifdef __cplusplus
}
#endif
#endif
