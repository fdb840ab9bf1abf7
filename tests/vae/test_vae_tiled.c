/* test_vae_tiled.c - VAEDecodeTiled, VAEEncodeTiled and VAEEncodeForInpaint on tiny-sd1's autoencoder against ComfyUI's
 * own nodes (tests/golden/vae_tiled.safetensors); settings that make no sense. */
#include "golden_kit.h"

#include "kiln/model.h"
#include "vae_family.h"
#include "vae_nodes.h"

#include <math.h>

#define WHOLE 1e-5

typedef struct {
    int64_t tile_size, overlap, temporal_size, temporal_overlap;
} tile_settings;

static kiln_weights *weights, *g;
static kiln_value *vae;

static int open_all(void)
{
    if (vae) return 1;
    weights = open_weights("tests/golden/tiny-sd1"), g = open_weights("tests/golden/vae_tiled.safetensors");
    vae = weights ? vae_family.open(rig_host(), rig_ctx(), weights) : NULL;
    return CHECK_MSG(vae && g, "%s", rig_message());
}

static kiln_value *tensor_of(array a)
{
    kiln_value *v = rig_host()->tensor_new(rig_ctx(), KILN_F32, KILN_CPU, a.rank, a.dim);
    kiln_tensor t = {.size = sizeof t};
    if (v && rig_host()->view(rig_ctx(), v, &t) == KILN_OK) memcpy(t.data, a.data, a.n * sizeof(float));
    free(a.data);
    return v;
}

static kiln_value *latent_of(array a)
{
    const kiln_value_api *values = rig_host()->ability(KILN_VALUE_ABILITY);
    kiln_value *samples = tensor_of(a), *map = values->new_map(rig_ctx());
    values->map_set(map, "samples", samples);
    rig_host()->unref(samples);
    return map;
}

/* Lets `data` go. */
static kiln_status call_node(const kiln_node *node, const void *params, kiln_value *data, kiln_value *mask,
                             kiln_value **out)
{
    kiln_value *in[3] = {data, vae, mask};
    kiln_call call = {.size = sizeof call,
                      .device = KILN_CPU,
                      .host = rig_host(),
                      .ctx = rig_ctx(),
                      .params = params,
                      .in = in,
                      .out = out};
    *out = NULL;
    kiln_status status = node->run(&call);
    rig_host()->unref(data);
    return status;
}

static kiln_tensor view_of(const kiln_value *v, const char *key)
{
    const kiln_value_api *values = rig_host()->ability(KILN_VALUE_ABILITY);
    kiln_tensor t = {.size = sizeof t};
    CHECK_EQ(rig_host()->view(rig_ctx(), key ? values->map_get(v, key) : v, &t), KILN_OK);
    return t;
}

static void test_decode_equals_comfyui(void)
{
    static const struct {
        const char *name;
        int64_t size, overlap;
    } rows[] = {{"small", 64, 32}, {"wide", 96, 0}, {"one", 64, 32}};
    REQUIRE(open_all());
    for (size_t i = 0; i < 3; i++) {
        tile_settings p = {rows[i].size, rows[i].overlap, 64, 8};
        kiln_value *out;
        CHECK_MSG(call_node(&node_vae_decode_tiled, &p, latent_of(golden(g, "decode.%s", rows[i].name)), NULL, &out) ==
                      KILN_OK,
                  "%s", rig_message());
        REQUIRE(out);
        array wanted = golden(g, "decode.%s.out", rows[i].name);
        kiln_tensor t = view_of(out, NULL);
        float *thinned = malloc(wanted.n * sizeof *thinned), *at = thinned;
        REQUIRE(CHECK(t.dim[0] == wanted.dim[0] && (t.dim[1] + 2) / 3 == wanted.dim[1] &&
                      (t.dim[2] + 2) / 3 == wanted.dim[2] && t.dim[3] == 3));
        for (int64_t n = 0; n < t.dim[0]; n++)
            for (int64_t y = 0; y < t.dim[1]; y += 3)
                for (int64_t x = 0; x < t.dim[2]; x += 3, at += 3)
                    memcpy(at, (float *)t.data + ((n * t.dim[1] + y) * t.dim[2] + x) * 3, 3 * sizeof *at);
        check_array(thinned, wanted.data, wanted.n, WHOLE, rows[i].name, __FILE__, __LINE__);
        free(thinned), free(wanted.data);
        rig_host()->unref(out);
    }
}

/* Rows and columns of the golden's picture, 0..1. */
static array picture(int64_t y, int64_t x, int64_t h, int64_t w)
{
    array all = golden(g, "encode.image"), a = {.rank = 4, .dim = {1, h, w, 3}, .n = (size_t)(h * w * 3)};
    a.data = malloc(a.n * sizeof *a.data);
    for (int64_t i = 0; i < h * w * 3; i++)
        a.data[i] = all.data[((y + i / (w * 3)) * all.dim[2] + x) * 3 + i % (w * 3)] / 255;
    free(all.data);
    return a;
}

static void check_golden(const kiln_value *out, const char *key, array wanted)
{
    kiln_tensor t = view_of(out, key);
    CHECK_EQ(t.rank, wanted.rank);
    for (uint32_t i = 0; i < t.rank; i++) CHECK_EQ(t.dim[i], wanted.dim[i]);
    check_array(t.data, wanted.data, wanted.n, WHOLE, key, __FILE__, __LINE__);
    free(wanted.data);
}

static void test_encode_equals_comfyui(void)
{
    tile_settings p = {128, 32, 64, 8};
    kiln_value *out;
    REQUIRE(open_all());
    CHECK_MSG(call_node(&node_vae_encode_tiled, &p, tensor_of(picture(0, 0, 136, 200)), NULL, &out) == KILN_OK, "%s",
              rig_message());
    REQUIRE(out);
    check_golden(out, "samples", golden(g, "encode.out"));
    rig_host()->unref(out);
}

static void test_inpaint_equals_comfyui(void)
{
    REQUIRE(open_all());
    for (int64_t grow = 0; grow < 7; grow = grow ? grow + 1 : 5) {
        kiln_value *out, *mask = tensor_of(golden(g, "inpaint.mask"));
        CHECK_MSG(call_node(&node_vae_encode_inpaint, &grow, tensor_of(picture(3, 5, 67, 75)), mask, &out) == KILN_OK,
                  "%s", rig_message());
        REQUIRE(out);
        check_golden(out, "samples", golden(g, "inpaint.%d.samples", (int)grow));
        check_golden(out, "noise_mask", golden(g, "inpaint.%d.noise_mask", (int)grow));
        rig_host()->unref(out), rig_host()->unref(mask);
    }
}

static void test_settings_that_make_no_sense(void)
{
    tile_settings wide = {64, 64, 64, 8};
    kiln_value *out, *two = NULL;
    int64_t grow = 6;
    REQUIRE(open_all());
    CHECK_EQ(call_node(&node_vae_encode_tiled, &wide, tensor_of(picture(0, 0, 128, 128)), NULL, &out),
             KILN_ERR_INVALID);
    CHECK_MSG(strstr(rig_message(), "half a tile has to be larger than the overlap") != NULL, "%s", rig_message());
    two = tensor_of((array){.rank = 3, .dim = {2, 1, 1}, .n = 2, .data = calloc(2, sizeof(float))});
    CHECK_EQ(call_node(&node_vae_encode_inpaint, &grow, tensor_of(picture(0, 0, 64, 64)), two, &out), KILN_ERR_INVALID);
    CHECK_MSG(strstr(rig_message(), "2 masks for 1 pictures") != NULL, "%s", rig_message());
    rig_host()->unref(two);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_decode_equals_comfyui), CASE(test_encode_equals_comfyui),
                                      CASE(test_inpaint_equals_comfyui), CASE(test_settings_that_make_no_sense)};
    int status = test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
    if (vae) rig_host()->unref(vae);
    weights_unref(weights), weights_unref(g);
    return status;
}
