/* sampler_select.c - nodes that make a SAMPLER: a sampler's row and options for it, by name.
 *
 * None of them sees a sampler's own struct (options.h fills it), so any plugin's sampler can be chosen, and
 * its options set, through KSamplerSelect. Names, defaults and ranges of the others are ComfyUI's.
 */
#include "options.h"

#include "kiln/kit.h"
#include "model_sampling.h"

#include "sample.h"
#include "sampler_nodes.h"
#include "sampler_rows.h"

#include <math.h>

static const kiln_port out[] = {
    {.name = "SAMPLER", .type = "SAMPLER", .doc = "How a step is taken, with its options."}};

#define NODE(type_, text, params_, table, run_)                                                                        \
    {                                                                                                                  \
        PLAIN_NODE(type_, "sampling/samplers", text), KILN_ARRAY(out, out), KILN_ARRAY(param, table),                  \
            .params_size = sizeof(params_), .run = run_                                                                \
    }

/* ---- KSamplerSelect ---- */

typedef struct {
    const char *sampler_name, *options;
} select_params;

static const kiln_param select_param[] = {
    {.name = "sampler_name",
     .type = KILN_P_NAME,
     .offset = offsetof(select_params, sampler_name),
     .def_str = "euler",
     .from = "sampler",
     .doc = "How a step is taken."},
    {.name = "options",
     .type = KILN_P_STRING,
     .flags = KILN_PARAM_OWN,
     .offset = offsetof(select_params, options),
     .def_str = "",
     .doc = "The sampler's options by name, as \"eta=0.5, s_noise=1\"; what is not named keeps its default."},
};

/* The sampler's row, and the text's options as a map, which is the caller's. */
static kiln_status select_parse(const kiln_call *c, const kiln_sampler **row, kiln_value **map)
{
    const select_params *p = c->params;
    TRY(sample_find(c, p->sampler_name, row));
    *map = kit_values(c)->new_map(c->ctx);
    kiln_status status = *map ? options_parse(c, p->options, *map) : KILN_ERR_NOMEM;
    if (status != KILN_OK) c->host->unref(*map);
    return status;
}

static kiln_status select_check(const kiln_call *c)
{
    const kiln_sampler *row;
    kiln_value *map;
    const void *filled;
    kiln_status status = select_parse(c, &row, &map);
    if (status == KILN_OK) {
        status = options_fill(c, row, map, &filled);
        c->host->unref(map);
    }
    return kit_at_param(c, status, "options"); /* sampler_name names one: the engine has checked that */
}

static kiln_status select_run(const kiln_call *c)
{
    const kiln_sampler *row;
    kiln_value *map;
    TRY(select_parse(c, &row, &map));
    return options_sampler(c, row, map, &c->out[0]);
}

const kiln_node node_sampler_select = {PLAIN_NODE("KSamplerSelect", "sampling/samplers", "A sampler by name."),
                                       KILN_ARRAY(out, out),
                                       KILN_ARRAY(param, select_param),
                                       .params_size = sizeof(select_params),
                                       .check = select_check,
                                       .run = select_run};

/* ---- the others: parameters of the node are options of the row of the same name ---- */

static kiln_status put_all(const kiln_call *c, const kiln_param *param, size_t n, kiln_value *map)
{
    for (size_t i = 0; i < n; i++) TRY(options_put(c, map, &param[i], c->params));
    return KILN_OK;
}

/* The first n parameters as options of `sampler`. */
static kiln_status make(const kiln_call *c, const char *sampler, const kiln_param *param, size_t n)
{
    const kiln_sampler *row;
    kiln_value *map = kit_values(c)->new_map(c->ctx);
    kiln_status status = map ? sample_find(c, sampler, &row) : KILN_ERR_NOMEM;
    if (status == KILN_OK) status = put_all(c, param, n, map);
    if (status == KILN_OK) return options_sampler(c, row, map, &c->out[0]);
    c->host->unref(map);
    return status;
}

/* ---- ancestral ---- */

typedef struct {
    double eta, s_noise, r;
    int32_t solver_type, noise_device;
} sde_params;

#define ETA(high) KIT_FLOAT(sde_params, eta, 1, 0, high, 0.01, "How much of the noise is made anew each step; 0: none.")
#define S_NOISE(high) KIT_FLOAT(sde_params, s_noise, 1, 0, high, 0.01, "Scale of the noise that is added.")

static const kiln_param ancestral_param[] = {ETA(100), S_NOISE(100)};
static const kiln_param ancestral_cfgpp_param[] = {ETA(1), S_NOISE(10)};

static kiln_status euler_ancestral_run(const kiln_call *c)
{
    return make(c, "euler_ancestral", ancestral_param, COUNT(ancestral_param));
}
static kiln_status ancestral_cfgpp_run(const kiln_call *c)
{
    return make(c, "euler_ancestral_cfg_pp", ancestral_cfgpp_param, COUNT(ancestral_cfgpp_param));
}
static kiln_status dpmpp_2s_run(const kiln_call *c)
{
    return make(c, "dpmpp_2s_ancestral", ancestral_param, COUNT(ancestral_param));
}

const kiln_node node_sampler_euler_ancestral = NODE("SamplerEulerAncestral", "Euler with fresh noise each step.",
                                                    sde_params, ancestral_param, euler_ancestral_run);
const kiln_node node_sampler_euler_ancestral_cfgpp =
    NODE("SamplerEulerAncestralCFGPP", "The same along the unconditional direction (CFG++).", sde_params,
         ancestral_cfgpp_param, ancestral_cfgpp_run);
const kiln_node node_sampler_dpmpp_2s =
    NODE("SamplerDPMPP_2S_Ancestral", "DPM-Solver++(2S) with fresh noise each step.", sde_params, ancestral_param,
         dpmpp_2s_run);

typedef struct {
    int32_t version;
} cfgpp_params;
static const kiln_choice cfgpp_choice[] = {
    {.name = "regular", .value = 0, .doc = "the paper's"}, {.name = "alternative", .value = 1}, {0}};
static const kiln_param euler_cfgpp_param[] = {
    KIT_ENUM(cfgpp_params, version, cfgpp_choice, 0, "Which way the unconditional guess is used.")};
static kiln_status euler_cfgpp_run(const kiln_call *c)
{
    return make(c, "euler_cfg_pp", euler_cfgpp_param, COUNT(euler_cfgpp_param));
}
const kiln_node node_sampler_euler_cfgpp = NODE("SamplerEulerCFGpp", "Euler along the unconditional direction (CFG++).",
                                                cfgpp_params, euler_cfgpp_param, euler_cfgpp_run);

/* ---- DPM-Solver++ SDEs: noise_device picks the row whose noise is torch's CPU or its CUDA one ---- */

static const kiln_choice device_choice[] = {{.name = "gpu", .value = 0}, {.name = "cpu", .value = 1}, {0}};
static const kiln_choice solver_choice[] = {{.name = "midpoint", .value = 0}, {.name = "heun", .value = 1}, {0}};
#define DEVICE                                                                                                         \
    KIT_ENUM(sde_params, noise_device, device_choice, 0,                                                               \
             "Whose noise: torch's on a GPU or on a CPU.") /* the last row: no option */

static const kiln_param dpmpp_2m_param[] = {
    KIT_ENUM(sde_params, solver_type, solver_choice, 0, "How the second order is made."), ETA(100), S_NOISE(100),
    DEVICE};
static const kiln_param dpmpp_3m_param[] = {ETA(100), S_NOISE(100), DEVICE};
static const kiln_param dpmpp_sde_param[] = {
    ETA(100), S_NOISE(100),
    KIT_FLOAT(sde_params, r, 0.5, 1e-6, 100, 0.01, "Where between two levels the second evaluation is."), DEVICE};

static kiln_status make_on(const kiln_call *c, const char *on_gpu, const char *on_cpu, const kiln_param *param,
                           size_t n)
{
    return make(c, ((const sde_params *)c->params)->noise_device ? on_cpu : on_gpu, param, n - 1);
}

static kiln_status dpmpp_2m_run(const kiln_call *c)
{
    return make_on(c, "dpmpp_2m_sde_gpu", "dpmpp_2m_sde", dpmpp_2m_param, COUNT(dpmpp_2m_param));
}
static kiln_status dpmpp_3m_run(const kiln_call *c)
{
    return make_on(c, "dpmpp_3m_sde_gpu", "dpmpp_3m_sde", dpmpp_3m_param, COUNT(dpmpp_3m_param));
}
static kiln_status dpmpp_sde_run(const kiln_call *c)
{
    return make_on(c, "dpmpp_sde_gpu", "dpmpp_sde", dpmpp_sde_param, COUNT(dpmpp_sde_param));
}

const kiln_node node_sampler_dpmpp_2m_sde =
    NODE("SamplerDPMPP_2M_SDE", "DPM-Solver++(2M) as an SDE.", sde_params, dpmpp_2m_param, dpmpp_2m_run);
const kiln_node node_sampler_dpmpp_3m_sde =
    NODE("SamplerDPMPP_3M_SDE", "DPM-Solver++(3M) as an SDE.", sde_params, dpmpp_3m_param, dpmpp_3m_run);
const kiln_node node_sampler_dpmpp_sde = NODE("SamplerDPMPP_SDE", "DPM-Solver++ as an SDE, two evaluations a step.",
                                              sde_params, dpmpp_sde_param, dpmpp_sde_run);

/* ---- multistep and adaptive ---- */

typedef struct {
    int64_t order;
} lms_params;
static const kiln_param lms_param[] = {KIT_INT(lms_params, order, 4, 1, 100, "Steps it looks back.")};
static kiln_status lms_run(const kiln_call *c) { return make(c, "lms", lms_param, COUNT(lms_param)); }
const kiln_node node_sampler_lms = NODE("SamplerLMS", "Linear multistep.", lms_params, lms_param, lms_run);

typedef struct {
    int64_t order;
    double rtol, atol, h_init, pcoeff, icoeff, dcoeff, accept_safety, eta, s_noise;
} adaptive_params;
#define NUMBER(name_, default_, text) KIT_FLOAT(adaptive_params, name_, default_, 0, 100, 0.01, text)
static const kiln_param adaptive_param[] = {KIT_INT(adaptive_params, order, 3, 2, 3, "Of the solver."),
                                            NUMBER(rtol, 0.05, "Error allowed, relative."),
                                            NUMBER(atol, 0.0078, "Error allowed, absolute."),
                                            NUMBER(h_init, 0.05, "First step, in log sigma."),
                                            NUMBER(pcoeff, 0, "Step control: proportional part."),
                                            NUMBER(icoeff, 1, "Step control: integral part."),
                                            NUMBER(dcoeff, 0, "Step control: differential part."),
                                            NUMBER(accept_safety, 0.81, "Below it a step is taken back."),
                                            NUMBER(eta, 0, "How much of the noise is made anew; 0: none."),
                                            NUMBER(s_noise, 1, "Scale of the noise that is added.")};
static kiln_status adaptive_run(const kiln_call *c)
{
    return make(c, "dpm_adaptive", adaptive_param, COUNT(adaptive_param));
}
const kiln_node node_sampler_dpm_adaptive =
    NODE("SamplerDPMAdaptative", "DPM-Solver with a step size of its own; takes only the ends of sigmas.",
         adaptive_params, adaptive_param, adaptive_run);

/* ---- SDE solvers ---- */

typedef struct {
    int32_t solver_type, use_pece, simple_order_2;
    int64_t max_stage, predictor_order, corrector_order;
    double eta, s_noise, r, sde_start_percent, sde_end_percent, s_noise_end, noise_clip_std;
} solver_params;
#define SOLVER_ETA(high) KIT_FLOAT(solver_params, eta, 1, 0, high, 0.01, "How much of the noise is made anew; 0: none.")
#define SOLVER_NOISE(high) KIT_FLOAT(solver_params, s_noise, 1, 0, high, 0.01, "Scale of the noise that is added.")

static const kiln_choice er_choice[] = {
    {.name = "ER-SDE", .value = 0}, {.name = "Reverse-time SDE", .value = 1}, {.name = "ODE", .value = 2}, {0}};
static const kiln_param er_param[] = {
    KIT_ENUM(solver_params, solver_type, er_choice, 0, "Which noise scaling; eta acts on the reverse-time SDE."),
    KIT_INT(solver_params, max_stage, 3, 1, 3, "Order."), SOLVER_ETA(10), SOLVER_NOISE(100)};
static kiln_status er_run(const kiln_call *c) { return make(c, "er_sde", er_param, COUNT(er_param)); }
const kiln_node node_sampler_er_sde =
    NODE("SamplerER_SDE", "Extended reverse-time SDE solver (Cui et al. 2023).", solver_params, er_param, er_run);

static const kiln_choice phi_choice[] = {{.name = "phi_1", .value = 1}, {.name = "phi_2", .value = 2}, {0}};
static const kiln_param seeds_param[] = {
    KIT_ENUM(solver_params, solver_type, phi_choice, 1, "Which weights the second stage gets."), SOLVER_ETA(100),
    SOLVER_NOISE(100),
    KIT_FLOAT(solver_params, r, 0.5, 0.01, 1, 0.01, "Where between two levels the second evaluation is.")};
static kiln_status seeds_run(const kiln_call *c) { return make(c, "seeds_2", seeds_param, COUNT(seeds_param)); }
const kiln_node node_sampler_seeds_2 =
    NODE("SamplerSEEDS2", "SEEDS-2 (Gonzalez et al. 2023); exp_heun_2_x0 is phi_2 with r 1.", solver_params,
         seeds_param, seeds_run);

static const kiln_param lcm_param[] = {
    KIT_FLOAT(solver_params, s_noise, 1, 0, 64, 0.01, "Scale of the noise at the first step."),
    KIT_FLOAT(solver_params, s_noise_end, 1, 0, 64, 0.01, "Scale of the noise at the last step."),
    KIT_FLOAT(solver_params, noise_clip_std, 0, 0, 10, 0.01, "Noise is cut at so many standard deviations; 0: not.")};
static kiln_status lcm_run(const kiln_call *c) { return make(c, "lcm", lcm_param, COUNT(lcm_param)); }
const kiln_node node_sampler_lcm =
    NODE("SamplerLCM", "Latent consistency sampling: the guess, noised again (Luo et al. 2023).", solver_params,
         lcm_param, lcm_run);

typedef struct {
    double scale_ratio;
    int64_t scale_steps;
    int32_t upscale_method;
} upscale_params;
static const kiln_choice upscale_choice[] = {
    {.name = "bislerp", .value = KILN_RESIZE_BISLERP},   {.name = "nearest-exact", .value = KILN_RESIZE_NEAREST},
    {.name = "bilinear", .value = KILN_RESIZE_BILINEAR}, {.name = "area", .value = KILN_RESIZE_AREA},
    {.name = "bicubic", .value = KILN_RESIZE_BICUBIC},   {0}};
static const kiln_param upscale_param[] = {
    KIT_FLOAT(upscale_params, scale_ratio, 1, 0.1, 20, 0.01,
              "Size at the end, as a multiple of the size at the start."),
    KIT_INT(upscale_params, scale_steps, -1, -1, 1000, "Steps over which the size changes; -1: the first half."),
    KIT_ENUM(upscale_params, upscale_method, upscale_choice, KILN_RESIZE_BISLERP, "How the guess is scaled.")};
static kiln_status upscale_run(const kiln_call *c)
{
    return make(c, "lcm_upscale", upscale_param, COUNT(upscale_param));
}
const kiln_node node_sampler_lcm_upscale =
    NODE("SamplerLCMUpscale", "Latent consistency sampling that scales the picture up on the way.", upscale_params,
         upscale_param, upscale_run);

/* The model turns the percents into levels; it need not be the one that is sampled. */
static const kiln_port sa_in[] = {{.name = "model", .type = "MODEL", .doc = "Whose noise levels the percents are of."}};
static const kiln_param sa_param[] = {
    SOLVER_ETA(10),
    KIT_FLOAT(solver_params, sde_start_percent, 0.2, 0, 1, 0.001, "Noise is added from this share of the way on."),
    KIT_FLOAT(solver_params, sde_end_percent, 0.8, 0, 1, 0.001, "Noise is added up to this share of the way."),
    SOLVER_NOISE(100),
    KIT_INT(solver_params, predictor_order, 3, 1, 6, "Steps the predictor looks back."),
    KIT_INT(solver_params, corrector_order, 4, 0, 6, "Steps the corrector looks back; 0: no corrector."),
    KIT_BOOL(solver_params, use_pece, 0, "Evaluate again after correcting."),
    KIT_BOOL(solver_params, simple_order_2, 0, "The simpler coefficients at order 2.")};
/* A level of 0 is that of the share 1, whatever the model: then the percent itself says it. */
static kiln_status put_level(const kiln_call *c, kiln_value *map, const char *name, const model_sampling *l,
                             double percent)
{
    return kit_set(
        c, map, name,
        kit_values(c)->new_float(c->ctx, fmin(model_sampling_percent_to_sigma(l, percent), LEVEL_ABOVE_ALL)));
}

static kiln_status sa_options(const kiln_call *c, kiln_value *map)
{
    const solver_params *p = c->params;
    model_sampling l;
    TRY(sample_model_sampling(c, c->in[0], &l));
    TRY(put_all(c, sa_param, COUNT(sa_param), map));
    TRY(put_level(c, map, "sde_start_sigma", &l, p->sde_start_percent));
    return put_level(c, map, "sde_end_sigma", &l, p->sde_end_percent);
}

static kiln_status sa_run(const kiln_call *c)
{
    const kiln_sampler *row;
    kiln_value *map = kit_values(c)->new_map(c->ctx);
    kiln_status status = map ? sample_find(c, "sa_solver", &row) : KILN_ERR_NOMEM;
    if (status == KILN_OK) status = sa_options(c, map);
    if (status == KILN_OK) return options_sampler(c, row, map, &c->out[0]);
    c->host->unref(map);
    return status;
}

const kiln_node node_sampler_sa_solver = {
    PLAIN_NODE_AT(2, "SamplerSASolver", "sampling/samplers", "Stochastic Adams solver (Xue et al. 2023)."),
    KILN_ARRAY(in, sa_in),
    KILN_ARRAY(out, out),
    KILN_ARRAY(param, sa_param),
    .params_size = sizeof(solver_params),
    .run = sa_run};
