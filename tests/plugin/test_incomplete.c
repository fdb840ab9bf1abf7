/* test_incomplete.c - values that plugins make of their tables: each member that has to be there is missed by name, and
 * what two values differ in is in their identity.
 */
#include "harness.h"
#include "rig.h"

#include "kiln/standard_sampling.h"
#include "tensor/value.h"
#include "weights/weights.h"

#include <string.h>

static const kiln_model_api *models(void) { return rig_host()->ability(KILN_MODEL_ABILITY); }

static kiln_t record_denoiser(const kiln_denoiser *d, const kiln_ops *o, kiln_program *p, kiln_weights *w,
                              const kiln_denoise_inputs *in)
{
    return (void)d, (void)o, (void)p, (void)w, in->x;
}
static kiln_t decode(const kiln_autoencoder *a, const kiln_ops *o, kiln_program *p, kiln_weights *w, kiln_t latent)
{
    return (void)a, (void)o, (void)p, (void)w, latent;
}
static void record_network(const kiln_network *n, const kiln_ops *o, kiln_program *p, kiln_weights *w,
                           const kiln_named_tensor *in, size_t n_in, const kiln_outputs *out)
{
    (void)n, (void)o, (void)p, (void)w, (void)in, (void)n_in, (void)out;
}
static double rule_at(const void *self, const kiln_model_sampling *s, double sigma, double first, double last,
                      double mask)
{
    return (void)self, (void)s, (void)first, (void)last, mask < sigma;
}
static int window_at(const void *self, int64_t pictures, int64_t step, size_t i, kiln_window *out)
{
    return (void)self, (void)pictures, (void)step, (void)i, (void)out, 0;
}

static const double one = 1, four[4] = {1, 2, 3, 4};
static const kiln_latent_scaling scaling = {.size = sizeof scaling, .n = 1, .scale = &one},
                                 by_channel = {.size = sizeof by_channel, .n = 4, .scale = four, .shift = four},
                                 three = {.size = sizeof three, .n = 3, .scale = four},
                                 nothing = {.size = sizeof nothing, .n = 1};
static kiln_weights *weights;
static kiln_standard_sampling eps, v_prediction;
static kiln_latent_format format;
static kiln_denoiser denoiser;
static kiln_input_spec input;

/* A MODEL with all it has to have. */
static kiln_model whole(void)
{
    format = (kiln_latent_format){.size = sizeof format, .channels = 4, .factor = 8, .scaling = &scaling};
    denoiser = (kiln_denoiser){
        .size = sizeof denoiser, .family = "test", .latent = &format, .sampling = &eps.base, .record = record_denoiser};
    return (kiln_model){.size = sizeof(kiln_model), .denoiser = &denoiser, .weights = weights};
}

static void check_lacks(const kiln_value *v, const char *part)
{
    CHECK_MSG(v == NULL, "%s is not missed", part);
    CHECK_MSG(strstr(rig_message(), part) != NULL, "wanted '%s', got '%s'", part, rig_message());
}
static void model_lacks(const kiln_model *m, const char *part) { check_lacks(models()->model_new(rig_ctx(), m), part); }

static void test_a_model_lacks(void)
{
    kiln_model m = whole();
    kiln_value *v = models()->model_new(rig_ctx(), &m);
    CHECK_MSG(v != NULL, "%s", rig_message());
    CHECK(models()->model(rig_ctx(), v)->denoiser == &denoiser);
    CHECK(models()->vae(rig_ctx(), v) == NULL && strstr(rig_message(), "expected a VAE"));
    CHECK(models()->model(rig_ctx(), NULL) == NULL);
    value_unref(v);
    m = whole(), m.size = 8, model_lacks(&m, "fields up to base");
    m = whole(), m.denoiser = NULL, model_lacks(&m, "denoiser, its record function or family");
    m = whole(), denoiser.record = NULL, model_lacks(&m, "denoiser, its record function or family");
    m = whole(), denoiser.family = NULL, model_lacks(&m, "denoiser, its record function or family");
    m = whole(), m.weights = NULL, model_lacks(&m, "weights");
    m = whole(), denoiser.latent = NULL, model_lacks(&m, "latent format");
    m = whole(), denoiser.n_input = 1, denoiser.input = &input, model_lacks(&m, "input_stride");
    m = whole(), denoiser.sampling = NULL, model_lacks(&m, "without its sampling");
}

static void test_a_sampling_lacks(void)
{
    kiln_model m = whole();
    kiln_model_sampling s;
#define WITHOUT(member)                                                                                                \
    m = whole(), s = eps.base, s.member = NULL, m.sampling = &s, model_lacks(&m, "sampling's functions or identity")
    WITHOUT(level);
    WITHOUT(timestep);
    WITHOUT(sigma_at);
    WITHOUT(percent_to_sigma);
    WITHOUT(identity);
    m = whole(), s = eps.base, s.n_sigma = 1, m.sampling = &s, model_lacks(&m, "n_sigma is below 2");
}

static void test_scalings_fit_the_channels(void)
{
    kiln_model m = whole();
    m = whole(), format.scaling = NULL, model_lacks(&m, "each of its 4 channels");
    m = whole(), format.scaling = &three, model_lacks(&m, "each of its 4 channels");
    m = whole(), format.scaling = &nothing, model_lacks(&m, "each of its 4 channels");
    m = whole(), m.latent = &three, model_lacks(&m, "each of its 4 channels");
    m = whole(), m.latent = &by_channel;
    kiln_value *v = models()->model_new(rig_ctx(), &m);
    CHECK_MSG(v != NULL, "%s", rig_message());
    value_unref(v);
}

static void test_rules_and_windows_lack(void)
{
    const kiln_mask_rule rule = {.size = sizeof rule, .identity = "rule", .at = rule_at};
    const kiln_windows windows = {.size = sizeof windows, .identity = "windows", .at = window_at};
    kiln_mask_rule r;
    kiln_windows w;
    kiln_model m = whole();
#define BROKEN(copy, from, member, part) m = whole(), copy = from, copy.member = 0, m.part = &copy
    BROKEN(r, rule, size, mask_rule), model_lacks(&m, "mask rule of a MODEL");
    BROKEN(r, rule, identity, mask_rule), model_lacks(&m, "mask rule of a MODEL");
    BROKEN(r, rule, at, mask_rule), model_lacks(&m, "mask rule of a MODEL");
    BROKEN(w, windows, size, windows), model_lacks(&m, "windows of a MODEL");
    BROKEN(w, windows, identity, windows), model_lacks(&m, "windows of a MODEL");
    BROKEN(w, windows, at, windows), model_lacks(&m, "windows of a MODEL");
}

static void test_ranges_lack_and_fall(void)
{
    kiln_model m = whole(), base = whole();
    kiln_value *other = models()->model_new(rig_ctx(), &base);
    REQUIRE(other);
    kiln_model_range range[2] = {{.size = sizeof *range, .name = "first", .below = 5, .model = other},
                                 {.size = sizeof *range, .name = "second", .below = 2, .model = other}};
    m.range = range, m.n_range = 2;
    kiln_value *v = models()->model_new(rig_ctx(), &m);
    CHECK_MSG(v != NULL, "%s", rig_message());
    value_unref(v);
    range[1].below = 5, model_lacks(&m, "'first' begins below 5, 'second' after it below 5");
    range[1].below = 2, range[1].name = NULL, model_lacks(&m, "range of a MODEL without its name or MODEL");
    range[1].name = "second", range[1].model = NULL, model_lacks(&m, "range of a MODEL without its name or MODEL");
    range[0].size = 0, model_lacks(&m, "range of a MODEL without its size");
    value_unref(other);
}

static const char *identity(const kiln_model *m, kiln_value **v)
{
    *v = models()->model_new(rig_ctx(), m);
    return *v ? value_api.object_fingerprint(*v) : "";
}

/* Two models over the same weights are one result's key where nothing differs, and two where anything does. */
static void test_what_differs_is_in_the_identity(void)
{
    enum { VARIANTS = 10 };
    static const char *const variant[VARIANTS] = {"whole", "whole again", "name",  "sampling",    "latent",
                                                  "rule",  "windows",     "range", "range below", "other family"};
    const kiln_mask_rule rule = {.size = sizeof rule, .identity = "rule", .at = rule_at};
    const kiln_windows windows = {.size = sizeof windows, .identity = "windows", .at = window_at};
    kiln_model base = whole();
    kiln_value *other = models()->model_new(rig_ctx(), &base), *v[VARIANTS];
    REQUIRE(other);
    kiln_model_range range = {.size = sizeof range, .name = "low", .below = 5, .model = other}, lower = range;
    lower.below = 4;
    const char *is[VARIANTS];
    for (int i = 0; i < VARIANTS; i++) {
        kiln_model m = whole();
        if (i == 2) m.name = "named";
        if (i == 3) m.sampling = &v_prediction.base;
        if (i == 4) m.latent = &by_channel;
        if (i == 5) m.mask_rule = &rule;
        if (i == 6) m.windows = &windows;
        if (i == 7 || i == 8) m.range = i == 7 ? &range : &lower, m.n_range = 1;
        if (i == 9) denoiser.family = "other";
        is[i] = identity(&m, &v[i]);
        CHECK_MSG(strncmp(is[i], "MODEL:", 6) == 0, "%s: %s", variant[i], rig_message());
    }
    for (int i = 0; i < VARIANTS; i++)
        for (int k = 0; k < i; k++)
            CHECK_MSG((strcmp(is[i], is[k]) == 0) == (i == 1 && k == 0), "%s and %s: %s and %s", variant[i], variant[k],
                      is[i], is[k]);
    for (int i = 0; i < VARIANTS; i++) value_unref(v[i]);
    value_unref(other);
}

static void test_a_vae_lacks(void)
{
    static kiln_latent_format f;
    f = (kiln_latent_format){.size = sizeof f, .channels = 4, .factor = 8, .scaling = &scaling};
    const kiln_autoencoder all = {.size = sizeof all, .family = "test", .latent = &f, .record_decode = decode};
    kiln_autoencoder a = all;
    kiln_vae v = {.size = sizeof v, .autoencoder = &a, .weights = weights};
    kiln_value *made = models()->vae_new(rig_ctx(), &v);
    CHECK_MSG(made != NULL, "%s", rig_message());
    value_unref(made);
    a.family = NULL, check_lacks(models()->vae_new(rig_ctx(), &v), "a VAE without its table");
    a = all, a.record_decode = NULL, check_lacks(models()->vae_new(rig_ctx(), &v), "a VAE without its table");
    a = all, a.latent = NULL, check_lacks(models()->vae_new(rig_ctx(), &v), "latent scaling");
    a = all, f.scaling = &three, check_lacks(models()->vae_new(rig_ctx(), &v), "latent scaling");
    f.scaling = &scaling, v.weights = NULL, check_lacks(models()->vae_new(rig_ctx(), &v), "a VAE without its table");
    v.weights = weights, v.size = 4, check_lacks(models()->vae_new(rig_ctx(), &v), "a VAE without its table");
}

static void test_a_network_lacks(void)
{
    const kiln_network all = {.size = sizeof all, .family = "test", .record = record_network};
    kiln_network n = all;
    kiln_net v = {.size = sizeof v, .network = &n, .weights = weights};
    kiln_value *made = models()->net_new(rig_ctx(), "UPSCALE_MODEL", &v);
    CHECK_MSG(made != NULL, "%s", rig_message());
    CHECK(models()->net(rig_ctx(), made, "CLIP_VISION") == NULL && strstr(rig_message(), "expected a CLIP_VISION"));
    value_unref(made);
    check_lacks(models()->net_new(rig_ctx(), "MODEL", &v), "net_new() makes other types");
    check_lacks(models()->net_new(rig_ctx(), "VAE", &v), "net_new() makes other types");
    check_lacks(models()->net_new(rig_ctx(), NULL, &v), "a network without its type");
    check_lacks(models()->net_new(rig_ctx(), "", &v), "a network without its type");
    n.record = NULL, check_lacks(models()->net_new(rig_ctx(), "X", &v), "a X without its type, table");
    n = all, n.family = NULL, check_lacks(models()->net_new(rig_ctx(), "X", &v), "a X without its type, table");
    n = all, n.n_input = 1, check_lacks(models()->net_new(rig_ctx(), "X", &v), "a X without its type, table");
    n = all, v.weights = NULL, check_lacks(models()->net_new(rig_ctx(), "X", &v), "a X without its type, table");
}

static void test_a_clip_lacks(void)
{
    kiln_text_encoder none = {.size = sizeof none};
    kiln_clip_encoder e = {.size = sizeof e, .name = "l", .encoder = &none, .weights = weights};
    kiln_clip c = {.size = sizeof c};
    check_lacks(models()->clip_new(rig_ctx(), &c), "a CLIP without its encoders");
    c.encoder = &e, c.n_encoder = 2;
    check_lacks(models()->clip_new(rig_ctx(), &c), "combine(), which more than one encoder needs");
    c.n_encoder = 1;
    check_lacks(models()->clip_new(rig_ctx(), &c), "encoder's record or tokenise function, or its family");
    e.weights = NULL, check_lacks(models()->clip_new(rig_ctx(), &c), "encoder's name, table or weights");
    e.weights = weights, e.name = NULL,
    check_lacks(models()->clip_new(rig_ctx(), &c), "encoder's name, table or weights");
    c.size = 8, check_lacks(models()->clip_new(rig_ctx(), &c), "fields up to base");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_a_model_lacks),
        CASE(test_a_sampling_lacks),
        CASE(test_scalings_fit_the_channels),
        CASE(test_rules_and_windows_lack),
        CASE(test_ranges_lack_and_fall),
        CASE(test_what_differs_is_in_the_identity),
        CASE(test_a_vae_lacks),
        CASE(test_a_network_lacks),
        CASE(test_a_clip_lacks),
    };
    char path[4096];
    error e = {0};
    snprintf(path, sizeof path, "%s/tests/golden/lora/kohya.safetensors", test_root());
    if (!(weights = weights_open(path, &e))) return fprintf(stderr, "%s\n", e.message), 2;
    kiln_standard_sampling_init(&eps,
                                &(kiln_sampling_row){.prediction = KILN_PREDICT_EPS, .n_sigma = 4, .sigma = four});
    kiln_standard_sampling_init(&v_prediction,
                                &(kiln_sampling_row){.prediction = KILN_PREDICT_V, .n_sigma = 4, .sigma = four});
    int status = test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
    weights_unref(weights);
    return status;
}
