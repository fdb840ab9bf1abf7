/* image_noise.c - ImageAddNoise, which is here for the sake of torch's generator: image + strength * randn, in 0..1. */
#include "sampler_nodes.h"
#include "torch_random.h"

#include "kiln/kit.h"

#include <math.h>

typedef struct {
    uint64_t seed;
    double strength;
} noise_params;
static const kiln_param noise_param[] = {
    KIT_SEED(noise_params, seed, "Of torch's generator of the CPU."),
    KIT_FLOAT(noise_params, strength, 0.5, 0, 1, 0.01, "Times the noise, which has variance 1."),
};
static const kiln_port noise_in[] = {{.name = "image", .type = "IMAGE", .doc = "The picture, or a batch."}};
static const kiln_port noise_out[] = {{.name = "IMAGE", .type = "IMAGE", .doc = "The same with noise on it."}};

static kiln_status noise_run(const kiln_call *c)
{
    const noise_params *p = c->params;
    kiln_tensor a, r;
    torch_generator g;
    TRY(kit_f32(c, c->in[0], 4, "image", &a));
    TRY(kit_new_f32(c, 4, a.dim, &c->out[0], &r));
    if (kit_estimating(c)) return KILN_OK;
    float *noise = r.data, strength = (float)p->strength;
    size_t n = kit_count(&a);
    TRY(c->host->progress(c->ctx, 0, n, "noise"));
    torch_seed(&g, p->seed);
    torch_randn(&g, noise, n);
    for (size_t i = 0; i < n; i++) noise[i] = fminf(1, fmaxf(0, ((const float *)a.data)[i] + strength * noise[i]));
    return KILN_OK;
}
const kiln_node node_image_add_noise = {
    KIT_NODE("ImageAddNoise", "Add Noise to Image", "image", "Adds Gaussian noise to pictures."),
    KILN_ARRAY(in, noise_in),
    KILN_ARRAY(out, noise_out),
    KIT_PARAMS(noise_params, noise_param),
    .run = noise_run,
};
