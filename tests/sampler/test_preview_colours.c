/* test_preview_colours.c - when there is a preview, and from which colours: a host that is older than previews, one
 * that asks for none, a model's table, and models that have none or too many channels.
 */
#include "rig.h"
#include "harness.h"

#include "preview.h"

static uint32_t every;
static uint32_t asked(kiln_ctx *c) { return (void)c, every; }

static float rgb[80][3];
static const float bias[3] = {0.25f, -0.5f, 1};

static preview begun(const kiln_host *host, int32_t channels, int has_table, int has_bias)
{
    const kiln_latent_format f = {.size = sizeof f,
                                  .channels = channels,
                                  .rgb = has_table ? (const float(*)[3])rgb : NULL,
                                  .rgb_bias = has_bias ? bias : NULL};
    const kiln_denoiser d = {.size = sizeof d, .latent = &f};
    const kiln_model m = {.size = sizeof m, .denoiser = &d};
    const kiln_call c = {.size = sizeof c, .device = KILN_CPU, .host = host, .ctx = rig_ctx()};
    preview p;
    memset(&p, 0x55, sizeof p);
    preview_begin(&p, &c, &m);
    return p;
}

static void test_a_host_of_before_previews(void)
{
    kiln_host old = *rig_host();
    old.size = offsetof(kiln_host, preview_every);
    memset((char *)&old + old.size, 0, sizeof old - old.size);
    preview p = begun(&old, 4, 1, 0);
    CHECK_EQ(p.every, 0);
    CHECK(!p.has_colours && !p.latent && !p.rgb);
}

static void test_how_often(void)
{
    kiln_host host = *rig_host();
    host.preview_every = asked;
    for (every = 0; every < 3; every++) {
        preview p = begun(&host, 4, 1, 0);
        CHECK_EQ(p.every, every);
        CHECK_EQ(p.has_colours, every > 0);
    }
}

static void test_colours(void)
{
    kiln_host host = *rig_host();
    host.preview_every = asked, every = 1;
    for (int i = 0; i < 80; i++)
        for (int k = 0; k < 3; k++) rgb[i][k] = (float)(3 * i + k) / 16;
    preview p = begun(&host, 4, 1, 1);
    CHECK(p.has_colours && memcmp(p.factor, rgb, 4 * sizeof rgb[0]) == 0 && memcmp(p.bias, bias, sizeof bias) == 0);
    CHECK(p.factor[4][0] == 0);
    p = begun(&host, 64, 1, 0);
    CHECK(p.has_colours && memcmp(p.factor, rgb, 64 * sizeof rgb[0]) == 0 && p.bias[0] == 0 && p.bias[2] == 0);
    p = begun(&host, 65, 1, 0); /* more channels than there is room for */
    CHECK(!p.has_colours);
    p = begun(&host, 4, 0, 1);
    CHECK(!p.has_colours);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_a_host_of_before_previews), CASE(test_how_often), CASE(test_colours)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
