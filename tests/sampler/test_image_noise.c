/* test_image_noise.c - ImageAddNoise against torch: x = arange(18) / 18 as [1,2,3,3], clip(x + 0.5 randn, 0, 1) with
 * manual_seed(3); tolerance: libm's last place in the noise. */
#include "node_kit.h"

#include "sampler_nodes.h"

static void test_as_torch(void)
{
    static const float wanted[] = {0,
                                   0.235496312f,
                                   0,
                                   0,
                                   0.745233595f,
                                   0.538871288f,
                                   0.249928772f,
                                   0.415405601f,
                                   0.646748006f,
                                   0.805649817f,
                                   1,
                                   0.0134939551f,
                                   1,
                                   0.951812446f,
                                   1,
                                   0.75992924f,
                                   1,
                                   1};
    const int64_t dim[] = {1, 2, 3, 3};
    float *v;
    kiln_value *in = tensor_of(4, dim, NULL, &v);
    for (int i = 0; i < 18; i++) v[i] = (float)i / 18;
    made m = node_with(&node_image_add_noise, "seed=3; strength=0.5", in, NULL, NULL);
    REQUIRE(m.status == KILN_OK);
    CHECK_ARRAY((const float *)view_of(m.out[0]).data, wanted, 18, 3e-7);
    made_free(&m);
    m = node_with(&node_image_add_noise, "seed=3; strength=0", in, NULL, NULL);
    REQUIRE(m.status == KILN_OK);
    CHECK(memcmp(view_of(m.out[0]).data, v, 18 * sizeof *v) == 0);
    made_free(&m);
    value_unref(in);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_as_torch)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
