/* test_sigma_nodes.c - nodes that make and cut SIGMAS, and that every parameter of theirs, of the ModelSampling nodes
 * and of noise acts.
 *
 * SIGMAS that are arithmetic of a few numbers are compared with that arithmetic, rounded to float once: 2e-7 of the
 * value.
 */
#include "denoise_tables.h"
#include "option_kit.h"

#define LEVEL 2e-7

/* ---- sigmas ---- */

/* Takes the value. */
static void check_sigmas(kiln_value *sigmas, size_t n, const double *want, const char *what)
{
    size_t have;
    const float *s = floats_of(sigmas, &have);
    if (CHECK_MSG(s != NULL && have == n, "%s: %zu levels, wanted %zu", what, have, n))
        for (size_t i = 0; i < n; i++)
            CHECK_MSG(fabs((double)s[i] - want[i]) <= LEVEL * fabs(want[i]), "%s[%zu]: %.9g, wanted %.9g", what, i,
                      (double)s[i], want[i]);
    drop(sigmas);
}

#define LIST(...)                                                                                                      \
    sizeof((const double[]){__VA_ARGS__}) / sizeof(double), (const double[]) { __VA_ARGS__ }

static void test_formulas_as_nodes(void)
{
    check_sigmas(made(&node_karras_scheduler, "steps=6; sigma_max=12; sigma_min=0.05; rho=5", NULL, NULL), 7, karras_5,
                 "karras");
    check_sigmas(made(&node_polyexponential_scheduler, "steps=6; sigma_max=12; sigma_min=0.05; rho=2", NULL, NULL), 7,
                 polyexponential_2, "polyexponential");
    check_sigmas(made(&node_exponential_scheduler, "steps=3; sigma_max=16; sigma_min=0.25", NULL, NULL),
                 LIST(16, 2, 0.25, 0), "exponential");
    check_sigmas(made(&node_laplace_scheduler, "steps=6; sigma_max=14; sigma_min=0.03; mu=0.3; beta=0.7", NULL, NULL),
                 6, laplace_6, "laplace");
    check_sigmas(made(&node_vp_scheduler, "steps=6", NULL, NULL), 7, vp_6, "vp");
    check_sigmas(made(&node_align_scheduler, "", NULL, NULL), 11, align_10, "align your steps");
    check_sigmas(made(&node_align_scheduler, "steps=7", NULL, NULL), 8, align_7, "align your steps");
    check_sigmas(made(&node_align_scheduler, "steps=10; denoise=0.45", NULL, NULL), 5, align_10 + 6,
                 "align your steps, half the way: 4.5 steps are 4");
    check_sigmas(made(&node_align_scheduler, "denoise=0", NULL, NULL), 0, NULL, "align your steps, none of the way");
    check_sigmas(made(&node_gits_scheduler, "", NULL, NULL), 11, gits_10, "gits");
    check_sigmas(made(&node_gits_scheduler, "coeff=0.8; steps=2", NULL, NULL), 3, gits_2, "gits, the first list");
    check_sigmas(made(&node_gits_scheduler, "coeff=0.95; steps=6", NULL, NULL), 7, gits_6, "gits, one in the middle");
    check_sigmas(made(&node_gits_scheduler, "coeff=1.5; steps=20", NULL, NULL), 21, gits_20, "gits, the last list");
    check_sigmas(made(&node_gits_scheduler, "coeff=1.5; steps=33", NULL, NULL), 34, gits_33,
                 "gits, more steps than lists");
    check_sigmas(made(&node_gits_scheduler, "denoise=0.35", NULL, NULL), 5, gits_10 + 6,
                 "gits, a third of the way: 3.5 steps are 4");
    check_sigmas(made(&node_gits_scheduler, "denoise=0", NULL, NULL), 0, NULL, "gits, none of the way");
    check_sigmas(made(&node_optimal_scheduler, "steps=10", NULL, NULL), 11, optimal_flux_10, "optimal steps");
    check_sigmas(made(&node_optimal_scheduler, "steps=7", NULL, NULL), 8, optimal_flux_7, "optimal steps, in between");
    check_sigmas(made(&node_optimal_scheduler, "model_type=Wan", NULL, NULL), 21, optimal_wan_20,
                 "optimal steps of Wan");
    check_sigmas(made(&node_optimal_scheduler, "model_type=Chroma; steps=50", NULL, NULL), 51, optimal_chroma_50,
                 "optimal steps of Chroma");
    check_sigmas(made(&node_optimal_scheduler, "model_type=Wan; denoise=0.2", NULL, NULL), 5, optimal_wan_20 + 16,
                 "optimal steps, a fifth");
    kiln_value *m = network_model();
    check_sigmas(made(&node_beta_scheduler, "steps=8; alpha=0.8; beta=1.5", m, NULL), 9, beta_8, "beta");
    const double *t = table();
    check_sigmas(made(&node_turbo_scheduler, "steps=3; denoise=0.8", m, NULL), LIST(t[799], t[699], t[599], 0),
                 "turbo");
    check_sigmas(made(&node_turbo_scheduler, "steps=10; denoise=0.2", m, NULL), LIST(t[199], t[99], 0),
                 "turbo, more steps than there are");
    check_sigmas(made(&node_basic_scheduler, "steps=5; denoise=0", m, NULL), 0, NULL, "basic, none of the way");
    drop(m);
}

/* The whole of GITS's table, as sums over all lists of a coefficient (the last level of each left out): 2e-7 of them.
 * And every list falls from the table's top to 0. */
static void test_gits_table(void)
{
    static const double sum[] = {1819.680287, 1651.219166, 1444.810852, 1208.202107, 981.827915,
                                 822.89244,   687.120156,  603.724074,  557.088505,  495.345468,
                                 471.537664,  428.087906,  397.784304,  388.638032,  378.501694};
    for (int row = 0; row < 15; row++) {
        double have = 0;
        for (int steps = 2; steps <= 20; steps++) {
            char settings[64];
            size_t n;
            snprintf(settings, sizeof settings, "coeff=%g; steps=%d", 0.8 + 0.05 * row, steps);
            kiln_value *v = made(&node_gits_scheduler, settings, NULL, NULL);
            const float *s = floats_of(v, &n);
            if (!CHECK_EQ(n, (size_t)steps + 1)) return;
            CHECK_MSG(fabs((double)s[0] - 14.61464119) <= 1e-6 && s[n - 1] == 0, "%s: from %g to %g", settings,
                      (double)s[0], (double)s[n - 1]);
            for (size_t i = 0; i + 1 < n; i++) have += (double)s[i], CHECK_MSG(s[i + 1] < s[i], "%s[%zu]", settings, i);
            drop(v);
        }
        CHECK_MSG(fabs(have - sum[row]) <= LEVEL * sum[row], "coefficient %g: %.6f, wanted %.6f", 0.8 + 0.05 * row,
                  have, sum[row]);
    }
}

/* 30 steps of ddim_uniform are 31, and BasicScheduler keeps the last 30; KSampler takes all. */
static void test_basic_scheduler_keeps_at_most_steps(void)
{
    size_t n;
    kiln_value *m = network_model(), *s = made(&node_basic_scheduler, "scheduler=ddim_uniform; steps=30", m, NULL);
    floats_of(s, &n);
    CHECK_EQ(n, 31);
    drop(s), s = made(&node_basic_scheduler, "scheduler=karras; steps=4; denoise=0.5", m, NULL);
    kiln_value *whole = made(&node_basic_scheduler, "scheduler=karras; steps=8", m, NULL);
    const float *all = floats_of(whole, &n), *part = floats_of(s, &n);
    if (CHECK_EQ(n, 5)) CHECK(memcmp(part, all + 4, 5 * sizeof *part) == 0);
    drop(s), drop(whole), drop(m);
}

static void check_split(const kiln_node *node, const char *settings, size_t n, size_t first, size_t second)
{
    static const double sigma[] = {8, 4, 2, 1, 0};
    kiln_value *in[1] = {sigmas_of(n, sigma)}, *out[2] = {NULL};
    CHECK_EQ(call(node, settings, in, out), KILN_OK);
    check_sigmas(out[0], first, sigma, settings);
    check_sigmas(out[1], second, sigma + n - second, settings);
    drop(in[0]);
}

static void test_splits(void)
{
    check_split(&node_split_sigmas, "step=0", 5, 1, 5);
    check_split(&node_split_sigmas, "step=2", 5, 3, 3);
    check_split(&node_split_sigmas, "step=4", 5, 5, 1);
    check_split(&node_split_sigmas, "step=9", 5, 5, 0);
    check_split(&node_split_sigmas, "step=1", 0, 0, 0);
    check_split(&node_split_sigmas_denoise, "denoise=1", 5, 1, 5);
    check_split(&node_split_sigmas_denoise, "denoise=0.5", 5, 3, 3);
    check_split(&node_split_sigmas_denoise, "denoise=0.3", 5, 4, 2);
    check_split(&node_split_sigmas_denoise, "denoise=0", 5, 5, 1);
}

static void test_other_sigmas(void)
{
    kiln_value *s = sigmas_of(4, (const double[]){8, 4, 1, 0}), *none = sigmas_of(0, NULL);
    check_sigmas(made(&node_flip_sigmas, "", s, NULL), LIST(0.0001, 1, 4, 8), "flip");
    check_sigmas(made(&node_flip_sigmas, "", none, NULL), 0, NULL, "flip nothing");
    check_sigmas(made(&node_set_first_sigma, "sigma=136", s, NULL), LIST(136, 4, 1, 0), "first");
    check_sigmas(made(&node_extend_sigmas, "steps=2; end_at_sigma=2", s, NULL), LIST(8, 6, 4, 2.5, 1, 0),
                 "extend linear");
    check_sigmas(made(&node_extend_sigmas, "steps=2; start_at_sigma=5; end_at_sigma=0", s, NULL),
                 LIST(8, 4, 2.5, 1, 0.5, 0), "extend from 5");
    check_sigmas(made(&node_extend_sigmas, "steps=2; end_at_sigma=8; spacing=cosine", s, NULL),
                 LIST(8, 8 - 4 * sqrt(0.5), 4, 1, 0), "extend cosine");
    check_sigmas(made(&node_extend_sigmas, "steps=2; end_at_sigma=8; spacing=sine", s, NULL),
                 LIST(8, 8 - 4 * (1 - sqrt(0.5)), 4, 1, 0), "extend sine");
    check_sigmas(made(&node_manual_sigmas, "sigmas=14.6,3 0.5,  0", NULL, NULL), LIST(14.6, 3, 0.5, 0), "manual");
    check_sigmas(made(&node_manual_sigmas, "sigmas=", NULL, NULL), 0, NULL, "manual nothing");
    drop(s), drop(none);
}

static void test_percent_to_sigma(void)
{
    static const struct {
        const char *settings;
        double want;
    } cases[] = {{"sampling_percent=0", 999999999.9},
                 {"sampling_percent=1", 0},
                 {"sampling_percent=0; return_actual_sigma=true", 14.6146412293},
                 {"sampling_percent=1; return_actual_sigma=true", 0.0291671582}};
    kiln_value *m = network_model();
    for (size_t i = 0; i < 4; i++) {
        double d = -1;
        kiln_value *v = made(&node_percent_to_sigma, cases[i].settings, m, NULL);
        CHECK_EQ(values()->get_float(v, &d), KILN_OK);
        CHECK_MSG(fabs(d - cases[i].want) <= 1e-6 * cases[i].want, "%s: %.9g", cases[i].settings, d);
        drop(v);
    }
    drop(m);
}

static void test_sigmas_refused(void)
{
    kiln_value *m = network_model(), *none = sigmas_of(0, NULL), *in[1] = {m}, *empty[1] = {none};
    refused(&node_karras_scheduler, "rho=0", in, "'0' is not a number above 0 and up to 100");
    refused(&node_karras_scheduler, "sigma_min=0", in, "above 0");
    refused(&node_exponential_scheduler, "sigma_max=1; sigma_min=2", in, "sigma_max (1) is below sigma_min (2)");
    refused(&node_polyexponential_scheduler, "sigma_min=0", in, "above 0");
    refused(&node_vp_scheduler, "beta_d=5000", in, "no number to work with");
    refused(&node_beta_scheduler, "alpha=0", in, "above 0");
    refused(&node_set_first_sigma, "", empty, "empty");
    refused(&node_gits_scheduler, "coeff=1.03", in, "the nearest is 1.05");
    refused(&node_manual_sigmas, "sigmas=3, x", in, "'x' is no noise level");
    refused(&node_manual_sigmas, "sigmas=3, -1", in, "'-1' is no noise level");
    refused(&node_manual_sigmas, "sigmas=nan", in, "'nan'");
    refused(&node_basic_scheduler, "steps=10000; denoise=0.01", in, "at most");
    refused(&node_sampling_sd3, "shift=0", in, "above 0");
    refused(&node_sampling_edm, "sigma_max=1; sigma_min=2", in, "sigma_max (1) has to be above sigma_min (2)");
    drop(m), drop(none);
}

/* ---- parameters ---- */

static const kiln_node *const nodes[] = {
    &node_basic_scheduler,      &node_karras_scheduler,  &node_exponential_scheduler, &node_polyexponential_scheduler,
    &node_laplace_scheduler,    &node_vp_scheduler,      &node_beta_scheduler,        &node_turbo_scheduler,
    &node_align_scheduler,      &node_gits_scheduler,    &node_optimal_scheduler,     &node_split_sigmas,
    &node_split_sigmas_denoise, &node_set_first_sigma,   &node_extend_sigmas,         &node_manual_sigmas,
    &node_percent_to_sigma,     &node_sampling_discrete, &node_sampling_edm,          &node_sampling_sd3,
    &node_sampling_aura,        &node_sampling_flux,     &node_rescale_cfg,           &node_perp_neg,
    &node_random_noise,
};

/* What the node makes, as a digest; 0: it refuses. */
static int digest_of_call(const kiln_node *node, const char *settings, kiln_value *const *in, digest *d)
{
    kiln_value *out[2] = {NULL};
    int made_it = call(node, settings, in, out) == KILN_OK && value_digest(out[0], d, &call_why) == KILN_OK;
    drop(out[0]), drop(out[1]);
    return made_it;
}

static int digest_changes(const kiln_node *node, uint32_t i, const char *context, kiln_value *const *in)
{
    char one[80], text[700];
    digest usual, other;
    if (!digest_of_call(node, context, in, &usual)) return 0;
    for (int k = 0; other_value(&node->param[i], k, one); k++) {
        snprintf(text, sizeof text, "%s%s", context, one);
        if (digest_of_call(node, text, in, &other) && !digest_equal(usual, other)) return 1;
    }
    return 0;
}

static void check_parameters(const kiln_node *node, kiln_value *const *in)
{
    for (uint32_t i = 0; i < node->n_param; i++) {
        char context[600];
        int acts = 0;
        for (int which = 0; !acts && context_at(node->param, node->n_param, node->param_stride, i, which, "; ", context,
                                                sizeof context);
             which++)
            acts = digest_changes(node, i, context, in);
        CHECK_MSG(acts, "parameter '%s' of %s changes nothing", node->param[i].name, node->type);
    }
}

static void test_S13_every_parameter_acts(void)
{
    kiln_value *m = network_model(), *s = sigmas_of(5, (const double[]){20, 13, 6, 1, 0}), *c = third();
    for (size_t k = 0; k < sizeof nodes / sizeof nodes[0]; k++) {
        kiln_value *in[4] = {NULL};
        for (uint32_t i = 0; i < nodes[k]->n_in; i++)
            in[i] = strcmp(nodes[k]->in[i].type, "MODEL") == 0    ? m
                    : strcmp(nodes[k]->in[i].type, "SIGMAS") == 0 ? s
                                                                  : c;
        check_parameters(nodes[k], in);
    }
    drop(m), drop(s), drop(c);
}

int main(int argc, char **argv)
{
    open_plugin();
    static const test_case cases[] = {
        CASE(test_formulas_as_nodes),
        CASE(test_gits_table),
        CASE(test_basic_scheduler_keeps_at_most_steps),
        CASE(test_splits),
        CASE(test_other_sigmas),
        CASE(test_percent_to_sigma),
        CASE(test_sigmas_refused),
        CASE(test_S13_every_parameter_acts),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
