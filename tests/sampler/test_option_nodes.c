/* test_option_nodes.c - SAMPLER values: options by name, checked, and each of them changing what is drawn. */
#include "option_kit.h"

/* ---- options ---- */

static void test_option_names_and_values_are_checked(void)
{
    static const struct {
        const char *settings, *part;
    } cases[] = {
        {"sampler_name=euler_ancestral; options=etta=1", "has no option 'etta'; did you mean 'eta'?"},
        {"sampler_name=euler_ancestral; options=eta=1000",
         "option 'eta' of sampler 'euler_ancestral': '1000' is not a number from 0 to 100"},
        {"sampler_name=euler_ancestral; options=eta=much", "the text \"much\" is not a number"},
        {"sampler_name=euler_ancestral; options=eta", "is not NAME=VALUE"},
        {"sampler_name=euler_ancestral; options=eta=1, eta=0", "there twice"},
        {"sampler_name=euler_ancestral; options=eta=1,", "is not NAME=VALUE"},
        {"sampler_name=ddim; options=eta=1", "sampler 'ddim' has no options, so no 'eta' either"},
        {"sampler_name=euler_ancestral; options=x=1", "has no option 'x'; it has eta, s_noise"},
        {"sampler_name=dpmpp_2m_sde; options=solver_type=y", "'y' is not one of midpoint, heun"},
        {"sampler_name=dpmpp_2m_sde; options=solver_type=hein", "'hein' is not a choice; did you mean 'heun'?"},
        {"sampler_name=lms; options=order=2.5", "'2.5' is not a whole number from 1 to "},
        {"sampler_name=lms; options=order=true", "'true' is not a whole number"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refused(&node_sampler_select, cases[i].settings, NULL, cases[i].part);
    drop(made(&node_sampler_select, "sampler_name=euler_ancestral; options=  ", NULL, NULL));
}

static const kiln_param *option_at(const kiln_sampler *row, size_t i)
{
    return (const void *)((const char *)row->param + i * row->param_stride);
}

/* NULL: refused. */
static kiln_value *sampled(kiln_value *how)
{
    kiln_value *out[2] = {NULL};
    sample((parts){.model = network_model(),
                   .noise = made(&node_random_noise, "noise_seed=3", NULL, NULL),
                   .sampler = how,
                   .sigmas = made(&node_karras_scheduler, "steps=7; sigma_max=14; sigma_min=0.03", NULL, NULL)},
           out);
    drop(out[1]);
    return out[0];
}

static kiln_value *sampled_with(const char *sampler, const char *options)
{
    char settings[1024];
    snprintf(settings, sizeof settings, "sampler_name=%s; options=%s", sampler, options);
    return sampled(made(&node_sampler_select, settings, NULL, NULL));
}

/* Does one of its values give another latent, other things being as `context` says? */
static int changes(const kiln_sampler *row, size_t i, const char *context)
{
    char one[80], text[700];
    int changed = 0, length = (int)strlen(context) - 2; /* without the last comma */
    snprintf(text, sizeof text, "%.*s", length > 0 ? length : 0, context);
    kiln_value *usual = sampled_with(row->name, text);
    for (int k = 0; usual && !changed && other_value(option_at(row, i), k, one); k++) {
        snprintf(text, sizeof text, "%s%s", context, one);
        kiln_value *v = sampled_with(row->name, text);
        changed = v && !same_latent(v, usual);
        drop(v);
    }
    drop(usual);
    return changed;
}

static int acts(const kiln_sampler *row, size_t i)
{
    char context[600];
    for (int which = 0;
         context_at(row->param, row->n_param, row->param_stride, i, which, ", ", context, sizeof context); which++)
        if (changes(row, i, context)) return 1;
    return 0;
}

static void test_S13_every_option_of_every_sampler_acts(void)
{
    const kiln_sampler_api *api = rig_host()->ability(KILN_SAMPLER_ABILITY);
    size_t options = 0;
    for (size_t r = 0; r < api->sampler_count(); r++) {
        const kiln_sampler *row = api->sampler_at(r);
        for (size_t i = 0; i < row->n_param; i++, options++)
            CHECK_MSG(acts(row, i), "option '%s' of sampler '%s' changes nothing", option_at(row, i)->name, row->name);
    }
    CHECK(options > 0);
}

/* ---- the Sampler nodes ---- */

static const struct {
    const kiln_node *node;
    const char *sampler;
} option_nodes[] = {
    {&node_sampler_euler_ancestral, "euler_ancestral"},
    {&node_sampler_euler_ancestral_cfgpp, "euler_ancestral_cfg_pp"},
    {&node_sampler_euler_cfgpp, "euler_cfg_pp"},
    {&node_sampler_dpmpp_2s, "dpmpp_2s_ancestral"},
    {&node_sampler_dpmpp_2m_sde, "dpmpp_2m_sde_gpu"},
    {&node_sampler_dpmpp_3m_sde, "dpmpp_3m_sde_gpu"},
    {&node_sampler_dpmpp_sde, "dpmpp_sde_gpu"},
    {&node_sampler_lms, "lms"},
    {&node_sampler_dpm_adaptive, "dpm_adaptive"},
    {&node_sampler_er_sde, "er_sde"},
    {&node_sampler_seeds_2, "seeds_2"},
    {&node_sampler_lcm, "lcm"},
    {&node_sampler_lcm_upscale, "lcm_upscale"},
    {&node_sampler_sa_solver, "sa_solver"},
};

static kiln_value *node_sampled(const kiln_node *node, const char *settings)
{
    kiln_value *model = node->n_in ? network_model() : NULL, *how = made(node, settings, model, NULL);
    drop(model);
    return sampled(how);
}

static int node_changes(const kiln_node *node, uint32_t i, const char *context)
{
    char one[80], text[700];
    int changed = 0;
    kiln_value *usual = node_sampled(node, context);
    for (int k = 0; usual && !changed && other_value(&node->param[i], k, one); k++) {
        snprintf(text, sizeof text, "%s%s", context, one);
        kiln_value *v = node_sampled(node, text);
        changed = v && !same_latent(v, usual);
        drop(v);
    }
    drop(usual);
    return changed;
}

static int node_acts(const kiln_node *node, uint32_t i)
{
    char context[600];
    for (int which = 0;
         context_at(node->param, node->n_param, node->param_stride, i, which, "; ", context, sizeof context); which++)
        if (node_changes(node, i, context)) return 1;
    return 0;
}

static void test_S13_every_parameter_of_the_sampler_nodes_acts(void)
{
    const kiln_sampler_api *api = rig_host()->ability(KILN_SAMPLER_ABILITY);
    for (size_t i = 0; i < sizeof option_nodes / sizeof option_nodes[0]; i++) {
        const kiln_node *node = option_nodes[i].node;
        if (!CHECK_MSG(api->sampler(option_nodes[i].sampler) != NULL, "no sampler '%s' for %s", option_nodes[i].sampler,
                       node->type))
            continue;
        kiln_value *usual = node_sampled(node, ""), *plain = sampled_with(option_nodes[i].sampler, "");
        CHECK_MSG(usual != NULL, "%s: %s", node->type, call_why.message);
        CHECK_MSG(same_latent(usual, plain), "%s at its defaults is not %s", node->type, option_nodes[i].sampler);
        drop(usual), drop(plain);
        for (uint32_t k = 0; k < node->n_param; k++)
            CHECK_MSG(node_acts(node, k), "parameter '%s' of %s changes nothing", node->param[k].name, node->type);
    }
}

/* Its percents are levels of the model it is given, whichever is sampled: those of a flow end at 1, below most levels
 * of the sampled table. */
static void test_sa_solver_counts_by_the_model_it_is_given(void)
{
    kiln_value *base = network_model(), *flow = made(&node_sampling_sd3, "shift=1", base, NULL), *none[2] = {NULL};
    kiln_value *other = sampled(made(&node_sampler_sa_solver, "", flow, NULL)),
               *own = sampled(made(&node_sampler_sa_solver, "", base, NULL)),
               *named = sampled_with("sa_solver", "sde_start_sigma=0.8, sde_end_sigma=0.2");
    CHECK(same_latent(other, named)); /* at 0.2 and 0.8 of the way a flow has 0.8 and 0.2 left */
    CHECK(!same_latent(other, own));
    refused(&node_sampler_sa_solver, "", none, "");
    drop(base), drop(flow), drop(other), drop(own), drop(named);
}

int main(int argc, char **argv)
{
    open_plugin();
    static const test_case cases[] = {
        CASE(test_option_names_and_values_are_checked),
        CASE(test_S13_every_option_of_every_sampler_acts),
        CASE(test_S13_every_parameter_of_the_sampler_nodes_acts),
        CASE(test_sa_solver_counts_by_the_model_it_is_given),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
