/* test_inspect_facts.c - what `kiln inspect` says of a MODEL, CLIP, VAE and other network from their tables alone, as
 * lines: every kind of latent, input, prediction and encoder that a family may have.
 */
#include "harness.h"
#include "rig.h"

#include "cli/inspect.h"
#include "kiln/autoencoder.h"
#include "kiln/network.h"
#include "kiln/standard_sampling.h"
#include "kiln/text.h"
#include "tensor/value.h"
#include "weights/weights.h"

#include <unistd.h>

static const kiln_model_api *models(void) { return rig_host()->ability(KILN_MODEL_ABILITY); }
static kiln_weights *weights;
static const double one = 1, four[4] = {1, 2, 3, 4}, shift = 0.5, no_shift = 0;
static const kiln_latent_scaling plain = {.size = sizeof plain, .n = 1, .scale = &one},
                                 shifted = {.size = sizeof shifted, .n = 1, .scale = &one, .shift = &shift},
                                 unshifted = {.size = sizeof unshifted, .n = 1, .scale = &one, .shift = &no_shift},
                                 by_channel = {.size = sizeof by_channel, .n = 4, .scale = four};

static kiln_t record_denoiser(const kiln_denoiser *d, const kiln_ops *o, kiln_program *p, kiln_weights *w,
                              const kiln_denoise_inputs *in)
{
    return (void)d, (void)o, (void)p, (void)w, in->x;
}
static kiln_t decode(const kiln_autoencoder *a, const kiln_ops *o, kiln_program *p, kiln_weights *w, kiln_t x)
{
    return (void)a, (void)o, (void)p, (void)w, x;
}
static void encode(const kiln_autoencoder *a, const kiln_ops *o, kiln_program *p, kiln_weights *w, kiln_t x,
                   kiln_latent_distribution *out)
{
    (void)a, (void)o, (void)p, (void)w, (void)x, (void)out;
}
static void record_network(const kiln_network *n, const kiln_ops *o, kiln_program *p, kiln_weights *w,
                           const kiln_named_tensor *in, size_t n_in, const kiln_outputs *out)
{
    (void)n, (void)o, (void)p, (void)w, (void)in, (void)n_in, (void)out;
}
static void record_text(const kiln_text_encoder *t, const kiln_ops *o, kiln_program *p, kiln_weights *w,
                        const kiln_text_inputs *in, kiln_text_features *out)
{
    (void)t, (void)o, (void)p, (void)w, (void)in, (void)out;
}
static int32_t ids[3] = {1, 2, 49407};
static kiln_status tokens_status;
static uint32_t n_chunk = 1, length = 3;
static kiln_status tokenise(const kiln_text_encoder *e, const kiln_tokenizer *t, const kiln_host *h, kiln_ctx *c,
                            const char *text, kiln_tokens *out)
{
    (void)e, (void)t, (void)h, (void)c, (void)text;
    out->n_chunk = n_chunk, out->length = length, out->id = ids;
    return tokens_status;
}

/* The lines that are printed of a part of this kind. Lets v go. */
static const char *lines(const char *kind, kiln_value *v)
{
    static char text[4000];
    kiln_value *found = value_map(), *parts = value_list(), *part = value_map();
    text[0] = '\0';
    if (!CHECK_MSG(v && found && parts && part, "%s", rig_message())) return text;
    inspect_put(part, "kind", value_string(kind, strlen(kind)));
    inspect_facts(rig_ctx(), kind, v, part);
    inspect_push(parts, part), inspect_put(found, "parts", parts);
    fflush(stdout);
    FILE *f = tmpfile();
    int was = dup(STDOUT_FILENO);
    if (!CHECK(f && was >= 0 && dup2(fileno(f), STDOUT_FILENO) >= 0)) return text;
    inspect_print(found);
    fflush(stdout);
    dup2(was, STDOUT_FILENO), close(was);
    rewind(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    value_unref(found), value_unref(v);
    return text;
}
#define SAYS(text, part) CHECK_MSG(strstr(text, part) != NULL, "'%s' is not in:\n%s", part, text)
#define SAYS_NOT(text, part) CHECK_MSG(strstr(text, part) == NULL, "'%s' is in:\n%s", part, text)

static kiln_standard_sampling eps, v_prediction, x0, flow;
static kiln_latent_format format;
static kiln_denoiser denoiser;

static kiln_value *model(const kiln_latent_scaling *scaling, const kiln_model_sampling *own,
                         const kiln_model_sampling *s)
{
    format.size = sizeof format, format.channels = 4, format.scaling = scaling;
    denoiser.size = sizeof denoiser, denoiser.family = "test", denoiser.latent = &format, denoiser.sampling = own;
    denoiser.record = record_denoiser;
    return models()->model_new(
        rig_ctx(), &(kiln_model){.size = sizeof(kiln_model), .denoiser = &denoiser, .weights = weights, .sampling = s});
}

static void odd_level(const kiln_model_sampling *s, double sigma, kiln_level *out)
{
    (void)s, (void)sigma;
    out->of_x = 0.3, out->of_prediction = 0.7;
}

static void test_models(void)
{
    static const kiln_input_spec inputs[] = {
        {.size = sizeof inputs[0], .name = "tokens", .kind = KILN_INPUT_TOKENS, .width = 64},
        {.size = sizeof inputs[0],
         .name = "y",
         .key = "pooled",
         .kind = KILN_INPUT_VECTOR,
         .flags = KILN_INPUT_OPTIONAL},
        {.size = sizeof inputs[0], .name = "odd", .kind = 77}};
    const char *t;
    denoiser.n_input = 3, denoiser.input = inputs, denoiser.input_stride = sizeof inputs[0];
    denoiser.architecture = "Odd one", denoiser.precisions = 1u << KILN_F32 | 1u << KILN_BF16;
    t = lines(KILN_FAMILY_DENOISER, model(&plain, &eps.base, NULL));
    SAYS(t, "Odd one");
    SAYS(t, "predicts eps; ");
    SAYS(t, "4 channels, scale 1\n");
    SAYS(t, "tokens (tokens 64), pooled (vector, optional), odd (?)");
    SAYS(t, "f32, bf16");
    format.factor = 8, format.time_factor = 4, format.patch = 2, format.rank = 5;
    denoiser.n_input = 0, denoiser.precisions = 0;
    t = lines(KILN_FAMILY_DENOISER, model(&shifted, &eps.base, &v_prediction.base));
    SAYS(t, "predicts v; ");
    SAYS(t, "4 channels, 8 pixels a cell, 4 frames a cell, patches of 2, scale 1, shift 0.5");
    SAYS_NOT(t, "conditioning");
    SAYS_NOT(t, "computes in");
    format.time_factor = format.patch = 0;
    t = lines(KILN_FAMILY_DENOISER, model(&by_channel, &x0.base, NULL));
    SAYS(t, "predicts x0; ");
    SAYS(t, "8 pixels a cell, scale one a channel");
    t = lines(KILN_FAMILY_DENOISER, model(&unshifted, &flow.base, NULL));
    SAYS(t, "predicts flow; ");
    SAYS_NOT(t, "shift");
    kiln_model_sampling odd = eps.base;
    odd.level = odd_level, odd.process = KILN_PROCESS_IMAGE;
    t = lines(KILN_FAMILY_DENOISER, model(&plain, &odd, NULL));
    SAYS(t, "predicts its own; ");
    t = lines(KILN_FAMILY_DENOISER, value_int(3)); /* which is no MODEL */
    SAYS_NOT(t, "latent");
    kiln_value *v = value_int(3);
    CHECK(inspect_weights(rig_ctx(), KILN_FAMILY_DENOISER, v, 0) == NULL);
    value_unref(v), v = model(&plain, &eps.base, NULL);
    CHECK(inspect_weights(rig_ctx(), KILN_FAMILY_DENOISER, v, 0) == weights);
    CHECK(inspect_weights(rig_ctx(), KILN_FAMILY_DENOISER, v, 1) == NULL);
    value_unref(v);
}

static void test_clips(void)
{
    kiln_text_encoder t = {.size = sizeof t,
                           .family = "test",
                           .width = 768,
                           .pooled_width = 512,
                           .layers = 12,
                           .default_layer = -2,
                           .max_length = 77,
                           .tokenise = tokenise,
                           .record = record_text,
                           .architecture = "Odd text",
                           .precisions = 1u << KILN_F16};
    kiln_clip_encoder e = {.size = sizeof e, .name = "l", .encoder = &t, .weights = weights};
    const kiln_clip clip = {.size = sizeof clip, .encoder = &e, .n_encoder = 1};
    const char *text = lines(KILN_FAMILY_TEXT_ENCODER, models()->clip_new(rig_ctx(), &clip));
    SAYS(text, "Odd text: width 768, pooled 512, 12 layers, takes layer -2, chunks of 77 tokens padded with 49407");
    t.pooled_width = 0, t.architecture = NULL, e.layer = -1, n_chunk = 0;
    text = lines(KILN_FAMILY_TEXT_ENCODER, models()->clip_new(rig_ctx(), &clip));
    SAYS(text, "width 768, 12 layers, takes layer -1, chunks of 77 tokens\n"); /* nothing says what pads them */
    n_chunk = 1, length = 0;
    SAYS_NOT(lines(KILN_FAMILY_TEXT_ENCODER, models()->clip_new(rig_ctx(), &clip)), "padded");
    length = 3, tokens_status = KILN_ERR_INVALID;
    SAYS_NOT(lines(KILN_FAMILY_TEXT_ENCODER, models()->clip_new(rig_ctx(), &clip)), "padded");
    tokens_status = KILN_OK, t.max_length = 0;
    SAYS_NOT(lines(KILN_FAMILY_TEXT_ENCODER, models()->clip_new(rig_ctx(), &clip)), "chunks");
    SAYS_NOT(lines(KILN_FAMILY_TEXT_ENCODER, value_int(3)), "width");
    kiln_value *v = models()->clip_new(rig_ctx(), &clip);
    CHECK(inspect_weights(rig_ctx(), KILN_FAMILY_TEXT_ENCODER, v, 0) == weights);
    CHECK(inspect_weights(rig_ctx(), KILN_FAMILY_TEXT_ENCODER, v, 1) == NULL);
    value_unref(v), v = value_int(3);
    CHECK(inspect_weights(rig_ctx(), KILN_FAMILY_TEXT_ENCODER, v, 0) == NULL);
    value_unref(v);
}

static void test_vaes(void)
{
    static const kiln_tile_advice tile = {.size = sizeof tile};
    kiln_latent_format f = {.size = sizeof f, .channels = 4, .factor = 8, .scaling = &plain};
    kiln_autoencoder a = {.size = sizeof a, .family = "test", .latent = &f, .record_decode = decode};
    const kiln_vae vae = {.size = sizeof vae, .autoencoder = &a, .weights = weights};
    SAYS(lines(KILN_FAMILY_AUTOENCODER, models()->vae_new(rig_ctx(), &vae)), "3 channels; decodes\n");
    a.record_encode = encode, a.tile = &tile, a.image_channels = 4, a.architecture = "Odd VAE",
    a.precisions = 1u << KILN_BF16;
    const char *text = lines(KILN_FAMILY_AUTOENCODER, models()->vae_new(rig_ctx(), &vae));
    SAYS(text, "4 channels; encodes, decodes, may be tiled\n");
    SAYS(text, "Odd VAE");
    a.record_decode = NULL;
    SAYS(lines(KILN_FAMILY_AUTOENCODER, models()->vae_new(rig_ctx(), &vae)), "4 channels; encodes, may be tiled\n");
    SAYS_NOT(lines(KILN_FAMILY_AUTOENCODER, value_int(3)), "channels");
    kiln_value *v = value_int(3);
    CHECK(inspect_weights(rig_ctx(), KILN_FAMILY_AUTOENCODER, v, 0) == NULL);
    value_unref(v);
}

static void test_other_networks(void)
{
    kiln_value *facts = value_map();
    inspect_put(facts, "scale", value_int(4)), inspect_put(facts, "made_for", value_string("faces", 5));
    value_publish(facts);
    kiln_network n = {.size = sizeof n,
                      .family = "test",
                      .record = record_network,
                      .facts = facts,
                      .architecture = "Odd net",
                      .precisions = 1u << KILN_F32};
    const kiln_net net = {.size = sizeof net, .network = &n, .weights = weights};
    const char *text = lines(KILN_FAMILY_UPSCALER, models()->net_new(rig_ctx(), "UPSCALE_MODEL", &net));
    SAYS(text, "made_for");
    SAYS(text, "faces");
    SAYS_NOT(text, "  scale"); /* a number, which --json has */
    SAYS_NOT(lines(KILN_FAMILY_VISION, models()->net_new(rig_ctx(), "UPSCALE_MODEL", &net)),
             "faces"); /* of another type */
    SAYS_NOT(lines("somebody_s", models()->net_new(rig_ctx(), "UPSCALE_MODEL", &net)), "faces");
    n.facts = NULL, n.architecture = NULL, n.precisions = 0;
    text = lines(KILN_FAMILY_UPSCALER, models()->net_new(rig_ctx(), "UPSCALE_MODEL", &net));
    SAYS_NOT(text, "computes in");
    kiln_value *v = models()->net_new(rig_ctx(), "UPSCALE_MODEL", &net);
    CHECK(inspect_weights(rig_ctx(), KILN_FAMILY_UPSCALER, v, 0) == weights);
    CHECK(inspect_weights(rig_ctx(), "somebody_s", v, 0) == NULL);
    value_unref(v), value_unref(facts);
}

/* A file with much in it is cut short. */
static void test_what_is_left_over(void)
{
    kiln_value *found = value_map(), *left = value_map(), *groups = value_list(), *notes = value_map(),
               *files = value_list();
    char key[16];
    for (int i = 0; i < 40; i++) {
        kiln_value *one_group = value_map(), *file = value_map();
        snprintf(key, sizeof key, "k%02d", i);
        inspect_put(one_group, "tensors", value_int(1 + i % 2)), inspect_put(one_group, "prefix", value_string(key, 3));
        inspect_put(one_group, "example", value_string("x.weight", 8)), inspect_push(groups, one_group);
        inspect_put(notes, key, value_string(key, 3));
        if (i < 2) inspect_put(file, "path", value_string(key, 3)), inspect_put(file, "bytes", value_int(7));
        i < 2 ? inspect_push(files, file) : value_unref(file);
    }
    inspect_put(left, "tensors", value_int(60)), inspect_put(left, "groups", groups),
        inspect_put(left, "needless", value_int(1));
    inspect_put(found, "left_over", left), inspect_put(found, "metadata", notes), inspect_put(found, "files", files);
    fflush(stdout);
    FILE *f = tmpfile();
    char text[8000];
    int was = dup(STDOUT_FILENO);
    REQUIRE(f && was >= 0 && dup2(fileno(f), STDOUT_FILENO) >= 0);
    inspect_print(found);
    fflush(stdout);
    dup2(was, STDOUT_FILENO), close(was);
    rewind(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    SAYS(text, "left over: 60 tensors that no part asks for");
    SAYS(text, "  k01*: 2 tensors (x.weight, ...)");
    SAYS(text, "groups more; --json has them all");
    SAYS(text, " more; --json has them all");
    SAYS(text, "not needed: 1 tensor of known kinds");
    SAYS(text, "  k01 (7 B)");
    value_unref(found);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_models), CASE(test_clips), CASE(test_vaes), CASE(test_other_networks),
                                      CASE(test_what_is_left_over)};
    char path[4096];
    error e = {0};
    snprintf(path, sizeof path, "%s/tests/golden/lora/kohya.safetensors", test_root());
    if (!(weights = weights_open(path, &e))) return fprintf(stderr, "%s\n", e.message), 2;
    kiln_standard_sampling_init(&eps,
                                &(kiln_sampling_row){.prediction = KILN_PREDICT_EPS, .n_sigma = 4, .sigma = four});
    kiln_standard_sampling_init(&v_prediction,
                                &(kiln_sampling_row){.prediction = KILN_PREDICT_V, .n_sigma = 4, .sigma = four});
    kiln_standard_sampling_init(&x0, &(kiln_sampling_row){.prediction = KILN_PREDICT_X0, .n_sigma = 4, .sigma = four});
    kiln_standard_sampling_init(&flow,
                                &(kiln_sampling_row){.prediction = KILN_PREDICT_FLOW, .n_sigma = 4, .sigma = four});
    int status = test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
    weights_unref(weights);
    return status;
}
