/* rust_levels.c - what standard_sampling.h gives, bit by bit: rust_levels.rs prints the same of the Rust crate. */
#include "kiln/standard_sampling.h"

#include <inttypes.h>

static int n;
static const char *name;

static void put(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    printf("%s %d %016" PRIx64 "\n", name, n++, bits);
}

static void print(const char *of, const kiln_sampling_row *row)
{
    kiln_standard_sampling standard;
    kiln_standard_sampling_init(&standard, row);
    const kiln_model_sampling *s = &standard.base;
    name = of, n = 0;
    put(s->sigma_min), put(s->sigma_max), put(s->process);
    for (int i = 0; i < 40; i++) {
        double share = i / 32.0 - 0.0625, sigma = s->sigma_max * (share + 0.0625) * (share + 0.0625), clean, noise;
        kiln_level l = {.size = sizeof l};
        s->level(s, sigma, &l);
        s->start(s, sigma, &clean, &noise);
        put(l.input), put(l.of_x), put(l.of_prediction), put(l.clean), put(l.noise), put(clean), put(noise);
        put(s->timestep(s, sigma));
        put(s->sigma_at(s, 999 * share, NULL));
        put(s->percent_to_sigma(s, share, NULL));
    }
}

int main(void)
{
    static double sd[1000], ddpm[100], flow[1000];
    kiln_discrete_sigmas("scaled_linear", 0.00085, 0.012, 1000, sd);
    kiln_discrete_sigmas("linear", 0.0001, 0.02, 100, ddpm);
    kiln_flow_sigmas(3, 1000, flow);
    print("eps", &(kiln_sampling_row){.prediction = KILN_PREDICT_EPS, .n_sigma = 1000, .sigma = sd});
    print("v", &(kiln_sampling_row){.prediction = KILN_PREDICT_V, .n_sigma = 1000, .sigma = sd});
    print("x0", &(kiln_sampling_row){.prediction = KILN_PREDICT_X0, .n_sigma = 100, .sigma = ddpm});
    print("flow", &(kiln_sampling_row){.prediction = KILN_PREDICT_FLOW,
                                       .time = KILN_TIME_FLOW,
                                       .n_sigma = 1000,
                                       .sigma = flow,
                                       .multiplier = 1000,
                                       .shift = 3});
    return 0;
}
