/* scheduler_tables.c - nodes whose levels were found by searching, and are read from tables: GITSScheduler,
 * OptimalStepsScheduler.
 *
 * Where a table has no list for a step count, the nearest one is read in between, in log sigma (curve_table). Names,
 * defaults and ranges are ComfyUI's.
 */
#include "curves.h"
#include "gits_table.h"
#include "sample.h"
#include "sampler_nodes.h"
#include "sampler_rows.h"

#include <math.h>

static const kiln_port out[] = {{.name = "SIGMAS", .type = "SIGMAS", .doc = "Noise levels."}};
#define DENOISE(type_) KIT_FLOAT(type_, denoise, 1, 0, 1, 0.01, "Share of the way; below 1 only its last part.")
#define TABLE_NODE(id, text) PLAIN_NODE(id, "sampling/schedulers", text), KILN_ARRAY(out, out)

/* The last round(steps denoise) steps of a table of n levels read for `steps`; the last level becomes 0. */
static kiln_status from_table(const kiln_call *c, const double *table, size_t n, int64_t steps, double denoise)
{
    size_t all = (size_t)steps, kept = (size_t)rint((double)steps * denoise);
    double *sigma = c->host->scratch(c->ctx, (all + 1) * sizeof *sigma, KILN_CPU);
    if (!sigma) return KILN_ERR_NOMEM;
    if (denoise <= 0) return sigmas_new(c, sigma, 0, &c->out[0]);
    curve_table(all, table, n, sigma);
    return sigmas_new(c, sigma + (all - kept), kept + 1, &c->out[0]);
}

/* ---- GITSScheduler ---- */

typedef struct {
    int64_t steps;
    double coeff, denoise;
} gits_params;

static const kiln_param gits_param[] = {
    KIT_FLOAT(gits_params, coeff, 1.2, 0.8, 1.5, 0.05, "The larger, the more steps at low noise; in steps of 0.05."),
    KIT_INT(gits_params, steps, 10, GITS_STEPS_LEAST, 1000, "Denoising steps."), DENOISE(gits_params)};

/* The list for that many steps, as levels. */
static void gits_levels(size_t row, size_t steps, double *levels)
{
    size_t first = (steps - GITS_STEPS_LEAST) * (steps + 3) / 2; /* 3 + 4 + ... + steps */
    for (size_t i = 0; i <= steps; i++) levels[i] = gits_grid[gits_place[row][first + i]];
}

static kiln_status gits_run(const kiln_call *c)
{
    const gits_params *p = c->params;
    double place = (p->coeff - 0.8) / 0.05, row = rint(place), levels[GITS_STEPS_MOST + 1];
    if (fabs(place - row) > 0.1) /* half of the second decimal */
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "coeff is %g; there are levels for 0.8, 0.85, 0.9, ... 1.5, and the nearest is %g",
                             p->coeff, 0.8 + 0.05 * row);
    size_t listed = p->steps < GITS_STEPS_MOST ? (size_t)p->steps : GITS_STEPS_MOST;
    gits_levels((size_t)row, listed, levels);
    return from_table(c, levels, listed + 1, p->steps, p->denoise);
}

const kiln_node node_gits_scheduler = {
    TABLE_NODE("GITSScheduler", "Levels for SD1 found from the shape of its trajectories (Chen et al. 2024)."),
    KILN_ARRAY(param, gits_param), .params_size = sizeof(gits_params), .run = gits_run};

/* ---- OptimalStepsScheduler: Pei et al. 2025, "Optimal Stepsize for Diffusion Sampling" (arXiv:2503.21774) ---- */

static const double flux[] = {0.9968, 0.9886, 0.9819, 0.975, 0.966, 0.9471, 0.9158, 0.8287, 0.5512, 0.2808, 0.001};
static const double wan[] = {1.0,   0.997, 0.995, 0.993, 0.991, 0.989, 0.987, 0.985, 0.98,  0.975, 0.973,
                             0.968, 0.96,  0.946, 0.927, 0.902, 0.864, 0.776, 0.539, 0.208, 0.001};
static const double chroma[] = {0.992, 0.99,  0.988, 0.985, 0.982, 0.978, 0.973, 0.968, 0.961, 0.953, 0.943,
                                0.931, 0.917, 0.9,   0.881, 0.858, 0.832, 0.802, 0.769, 0.731, 0.69,  0.646,
                                0.599, 0.55,  0.501, 0.451, 0.402, 0.355, 0.311, 0.27,  0.232, 0.199, 0.169,
                                0.143, 0.12,  0.101, 0.084, 0.07,  0.058, 0.048, 0.001};

enum { FLUX, WAN, CHROMA };
static const struct {
    const double *levels;
    size_t n;
} optimal[] = {[FLUX] = {flux, COUNT(flux)}, [WAN] = {wan, COUNT(wan)}, [CHROMA] = {chroma, COUNT(chroma)}};

typedef struct {
    int32_t model_type;
    int64_t steps;
    double denoise;
} optimal_params;

static const kiln_choice optimal_choice[] = {
    {.name = "FLUX", .value = FLUX}, {.name = "Wan", .value = WAN}, {.name = "Chroma", .value = CHROMA}, {0}};
static const kiln_param optimal_param[] = {
    KIT_ENUM(optimal_params, model_type, optimal_choice, FLUX, "For which model, a flow, the levels were found."),
    KIT_INT(optimal_params, steps, 20, 3, 1000, "Denoising steps."), DENOISE(optimal_params)};

static kiln_status optimal_run(const kiln_call *c)
{
    const optimal_params *p = c->params;
    return from_table(c, optimal[p->model_type].levels, optimal[p->model_type].n, p->steps, p->denoise);
}

const kiln_node node_optimal_scheduler = {
    TABLE_NODE("OptimalStepsScheduler", "Levels for flow models found by dynamic programming (Pei et al. 2025)."),
    KILN_ARRAY(param, optimal_param), .params_size = sizeof(optimal_params), .run = optimal_run};
