/* test_vae_tables.c - what an autoencoder's table says is what the nodes do: alpha, several pictures at once, ways that
 * it does not go, no variance, tiles that it does not allow, sound. The autoencoder is the identity: a cell is a pixel.
 */
#include "golden_kit.h"

#include "kiln/model.h"
#include "vae_nodes.h"

static int pictures_recorded; /* pictures of the program recorded last */

static kiln_t record_decode(const kiln_autoencoder *a, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                            kiln_t latent)
{
    int64_t dim[5];
    (void)a, (void)w;
    ops->shape(p, latent, dim, 5);
    pictures_recorded = (int)dim[0];
    return ops->affine(p, latent, 1, 0);
}
static void record_encode(const kiln_autoencoder *a, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                          kiln_t image, kiln_latent_distribution *out)
{
    out->mean = record_decode(a, ops, p, w, image);
}

static const double one = 1;
static const kiln_latent_scaling scaling = {sizeof scaling, 1, &one, NULL};
static const kiln_latent_format format = {.size = sizeof format, .channels = 4, .factor = 1, .scaling = &scaling};
static const kiln_latent_format sound = {
    .size = sizeof sound, .rank = 3, .channels = 4, .factor = 1, .scaling = &scaling};
static const kiln_autoencoder plain = {.size = sizeof plain,
                                       .latent = &format,
                                       .image_channels = 4,
                                       .record_encode = record_encode,
                                       .record_decode = record_decode};

/* A VAE with that table, which has to live as long; its weights are any. */
static kiln_value *vae_with(kiln_autoencoder *a, const char *family)
{
    static kiln_weights *weights;
    const kiln_model_api *models = rig_host()->ability(KILN_MODEL_ABILITY);
    if (!weights) weights = open_weights("tests/golden/tiny-sd1");
    a->family = family;
    return models->vae_new(rig_ctx(), &(kiln_vae){.size = sizeof(kiln_vae), .autoencoder = a, .weights = weights});
}

/* Numbers that differ, from -1 to 1. */
static kiln_value *tensor_of(uint32_t rank, const int64_t *dim)
{
    kiln_value *v = rig_host()->tensor_new(rig_ctx(), KILN_F32, KILN_CPU, rank, dim);
    kiln_tensor t = {.size = sizeof t};
    size_t n = 1;
    for (uint32_t i = 0; i < rank; i++) n *= (size_t)dim[i];
    CHECK_EQ(rig_host()->view(rig_ctx(), v, &t), KILN_OK);
    for (size_t i = 0; i < n; i++) ((float *)t.data)[i] = (float)(i * 37 % 101) / 50 - 1;
    return v;
}
static kiln_value *latent_of(uint32_t rank, const int64_t *dim)
{
    const kiln_value_api *values = rig_host()->ability(KILN_VALUE_ABILITY);
    kiln_value *samples = tensor_of(rank, dim), *map = values->new_map(rig_ctx());
    values->map_set(map, "samples", samples);
    rig_host()->unref(samples);
    return map;
}

typedef struct {
    int32_t from;
    uint64_t seed;
} encode_settings;
typedef struct {
    int64_t tile_size, overlap, temporal_size, temporal_overlap;
} tile_settings;

/* Lets `data` go. */
static kiln_value *call(const kiln_node *node, const void *params, kiln_value *data, kiln_value *vae)
{
    static const tile_settings defaults; /* of VAEEncode: from the mean */
    kiln_value *in[2] = {data, vae}, *out = NULL;
    kiln_call c = {.size = sizeof c,
                   .device = KILN_CPU,
                   .host = rig_host(),
                   .ctx = rig_ctx(),
                   .params = params ? params : &defaults,
                   .in = in,
                   .out = &out};
    if (node->run(&c) != KILN_OK) out = NULL;
    rig_host()->unref(data);
    return out;
}
static void refused(const kiln_node *node, const void *params, kiln_value *data, kiln_value *vae, const char *says)
{
    kiln_value *out = call(node, params, data, vae);
    CHECK_MSG(!out && strstr(rig_message(), says), "\"%s\" does not say \"%s\"", rig_message(), says);
}

static void test_pictures_at_once_and_alpha(void)
{
    for (int at_once = 0; at_once < 4; at_once++) {
        kiln_autoencoder a = plain;
        char family[40];
        a.pictures = at_once;
        snprintf(family, sizeof family, "identity %d", at_once);
        kiln_value *vae = vae_with(&a, family), *out;
        REQUIRE(vae);
        pictures_recorded = 0;
        out = call(&node_vae_decode, NULL, latent_of(4, (const int64_t[]){3, 2, 5, 4}), vae);
        REQUIRE(CHECK_MSG(out != NULL, "%s", rig_message()));
        kiln_tensor t = {.size = sizeof t};
        CHECK_EQ(rig_host()->view(rig_ctx(), out, &t), KILN_OK);
        CHECK(t.rank == 4 && t.dim[0] == 3 && t.dim[3] == 4);
        for (size_t i = 0; i < 120; i++) {
            float x = (float)(i * 37 % 101) / 50 - 1;
            CHECK(((float *)t.data)[i] == (x + 1) * 0.5f);
        }
        CHECK_EQ(pictures_recorded, at_once == 2 || at_once < 2 ? 1 : 3); /* of three, by twos: the last is alone */
        rig_host()->unref(out), rig_host()->unref(vae);
    }
}

static void test_a_picture_without_alpha_is_opaque(void)
{
    const kiln_value_api *values = rig_host()->ability(KILN_VALUE_ABILITY);
    kiln_autoencoder a = plain;
    kiln_value *vae = vae_with(&a, "identity alpha");
    kiln_value *out = call(&node_vae_encode, NULL, tensor_of(4, (const int64_t[]){1, 2, 2, 3}), vae);
    REQUIRE(CHECK_MSG(out != NULL, "%s", rig_message()));
    kiln_tensor t = {.size = sizeof t};
    CHECK_EQ(rig_host()->view(rig_ctx(), values->map_get(out, "samples"), &t), KILN_OK);
    for (int i = 0; i < 4; i++) CHECK(((float *)t.data)[i * 4 + 3] == 1);
    CHECK(((float *)t.data)[4] == ((float)(3 * 37 % 101) / 50 - 1) * 2 - 1);
    rig_host()->unref(out), rig_host()->unref(vae);
}

static void test_what_a_table_does_not_say_is_refused(void)
{
    static const encode_settings draw = {.from = 1};
    static const tile_settings tiles = {512, 64, 64, 8};
    const int64_t picture[] = {1, 2, 2, 4}, video[] = {1, 1, 2, 2, 4}, wave[] = {1, 9, 4};
    kiln_autoencoder a = plain, decodes = plain, encodes = plain, hears = plain;
    decodes.record_encode = NULL, encodes.record_decode = NULL, hears.latent = &sound;
    kiln_value *vae = vae_with(&a, "identity"), *decoder = vae_with(&decodes, "identity"),
               *encoder = vae_with(&encodes, "identity"), *ear = vae_with(&hears, "identity sound");
    refused(&node_vae_encode, &draw, tensor_of(4, picture), vae, "this VAE has no variance to draw from");
    refused(&node_vae_decode_tiled, &tiles, latent_of(4, picture), vae, "is not to be cut into tiles");
    refused(&node_vae_decode, NULL, latent_of(5, video), vae, "the latent has 5 dimensions, this VAE decodes 4");
    refused(&node_vae_encode, NULL, tensor_of(4, picture), decoder, "this VAE only decodes; take one that encodes too");
    refused(&node_vae_decode, NULL, latent_of(4, picture), encoder, "this VAE only encodes; take one that decodes too");
    refused(&node_vae_decode, NULL, latent_of(3, wave), ear, "this VAE makes no pictures");
    refused(&node_vae_encode, NULL, tensor_of(4, picture), ear, "this VAE takes no pictures");
    rig_host()->unref(vae), rig_host()->unref(decoder), rig_host()->unref(encoder), rig_host()->unref(ear);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_pictures_at_once_and_alpha),
                                      CASE(test_a_picture_without_alpha_is_opaque),
                                      CASE(test_what_a_table_does_not_say_is_refused)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
