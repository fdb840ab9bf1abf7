/* test_vae_inputs.c - an autoencoder's further inputs: as many as there is room for and not one more, filled with their
 * fallbacks; and a table of before `precisions`, behind which nothing is read.
 */
#include "golden_kit.h"

#include "kiln/model.h"
#include "vae_convert.h"
#include "vae_nodes.h"

enum { ROOM = 15, CELLS = 4 };

/* x + the sum of the inputs. */
static kiln_t record_decode(const kiln_autoencoder *a, const kiln_ops *ops, kiln_program *p, kiln_weights *w, kiln_t x)
{
    (void)w;
    for (uint32_t i = 0; i < a->n_input; i++) {
        kiln_t one = ops->input(p, a->input[i].name, KILN_F32, 1, KILN_DIMS(1));
        x = ops->add(p, x, ops->reshape(p, one, 4, KILN_DIMS(1, 1, 1, 1)));
    }
    return x;
}

static const double one = 1;
static const kiln_latent_scaling scaling = {sizeof scaling, 1, &one, NULL};
static const kiln_latent_format format = {.size = sizeof format, .channels = 4, .factor = 1, .scaling = &scaling};

static char names[ROOM + 1][8];
static kiln_input_spec inputs[ROOM + 1];

/* The sum of the inputs, 1/2 + 1/4 + ..., which each number of a latent of zeros becomes; -1: refused. */
static float decode(uint32_t n_input)
{
    static const uint64_t defaults[8];
    const kiln_model_api *models = rig_host()->ability(KILN_MODEL_ABILITY);
    const kiln_value_api *values = rig_host()->ability(KILN_VALUE_ABILITY);
    char family[40];
    snprintf(family, sizeof family, "with %u inputs", n_input);
    for (int i = 0; i <= ROOM; i++) {
        snprintf(names[i], sizeof names[i], "in %d", i);
        inputs[i] = (kiln_input_spec){
            .size = sizeof inputs[i], .name = names[i], .kind = KILN_INPUT_SCALAR, .fallback = 0.5 / (1 << i)};
    }
    const kiln_autoencoder a = {.size = sizeof a,
                                .family = family,
                                .latent = &format,
                                .image_channels = 4,
                                .record_decode = record_decode,
                                .input = inputs,
                                .n_input = n_input,
                                .input_stride = sizeof inputs[0]};
    kiln_weights *weights = open_weights("tests/golden/tiny-sd1"); /* of which it wants none */
    kiln_value *vae =
        models->vae_new(rig_ctx(), &(kiln_vae){.size = sizeof(kiln_vae), .autoencoder = &a, .weights = weights});
    kiln_value *data = rig_host()->tensor_new(rig_ctx(), KILN_F32, KILN_CPU, 4, KILN_DIMS(1, 1, CELLS, 4)),
               *map = values->new_map(NULL);
    kiln_tensor t = {.size = sizeof t};
    if (!CHECK(vae && data && map && rig_host()->view(rig_ctx(), data, &t) == KILN_OK)) exit(1);
    memset(t.data, 0, sizeof(float) * CELLS * 4);
    CHECK_EQ(values->map_set(map, "samples", data), KILN_OK);
    kiln_value *in[2] = {map, vae}, *made = NULL;
    kiln_call c = {.size = sizeof c,
                   .device = KILN_CPU,
                   .host = rig_host(),
                   .ctx = rig_ctx(),
                   .params = defaults,
                   .in = in,
                   .out = &made};
    float sum = -1;
    if (node_vae_decode.run(&c) == KILN_OK && CHECK_EQ(rig_host()->view(NULL, made, &t), KILN_OK))
        sum = *(const float *)t.data;
    rig_host()->unref(made), rig_host()->unref(map), rig_host()->unref(data), rig_host()->unref(vae);
    weights_unref(weights);
    return sum;
}

static void test_inputs_are_their_fallbacks(void)
{
    const uint32_t numbers[] = {0, 1, 5, ROOM};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        CHECK_EQ(decode(numbers[i]) * (1 << numbers[i]), (1 << numbers[i]) - 1);
}

static void test_more_inputs_than_there_is_room_for(void)
{
    CHECK_EQ(decode(ROOM + 1), -1);
    CHECK_MSG(strstr(rig_message(), "input 'in 15' of the VAE's decoder") && strstr(rig_message(), "more than 15"),
              "%s", rig_message());
}

static void test_a_table_of_before_precisions(void)
{
    kiln_autoencoder a = {.size = sizeof a, .family = "old", .latent = &format, .precisions = 1 << KILN_F32};
    const kiln_vae vae = {.size = sizeof vae, .autoencoder = &a};
    vae_converter v = {.vae = &vae, .precision = KILN_BF16, .encode = 1};
    CHECK_EQ(vae_program_options(&v).precisions, 1 << KILN_F32);
    CHECK_EQ(vae_program_options(&v).precision, KILN_BF16);
    CHECK_STR(vae_program_options(&v).name, "vae encode");
    a.size = offsetof(kiln_autoencoder, precisions), v.encode = 0;
    CHECK_EQ(vae_program_options(&v).precisions, 0);
    CHECK_STR(vae_program_options(&v).name, "vae decode");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_inputs_are_their_fallbacks),
                                      CASE(test_more_inputs_than_there_is_room_for),
                                      CASE(test_a_table_of_before_precisions)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
