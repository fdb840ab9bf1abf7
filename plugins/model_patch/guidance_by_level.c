/* guidance_by_level.c - see guidance_by_level.h. */
#include "guidance_by_level.h"

#include <math.h>

kiln_status guidance_score_rescaling(double k, double sigma, const kiln_guesses *g)
{
    kiln_level level = {.size = sizeof level};
    if (g->sigma == 0) return KILN_OK;
    g->sampling->level(g->sampling, g->sigma, &level);
    double power = pow(level.clean / level.noise, 2) * sigma * sigma;
    if (!(power > 0)) return KILN_OK; /* nothing but noise */
    double factor = (power + 1) / (power / k + 1);
    g->latents->lincomb(g->latents, g->x0, 2, (double[]){(1 - factor) / level.clean, factor},
                        (kiln_latent *[]){g->x, g->x0});
    return KILN_OK;
}

kiln_status guidance_epsilon_scaling(double factor, const kiln_guesses *g)
{
    g->latents->lincomb(g->latents, g->x0, 2, (double[]){1 - 1 / factor, 1 / factor}, (kiln_latent *[]){g->x, g->x0});
    return KILN_OK;
}
