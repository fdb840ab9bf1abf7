/* test_layer_weights.c - what of an IP-Adapter's weight each layer has, for every type of weight: the layers as the
 * nodes that people know choose them for SD1 (16 layers) and SDXL (11), and the ways from one end to the other.
 */
#include "harness.h"

#include "ip_adapter_layers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "0-3,9-15" or "4:0.25,5"; layers that are not there have 0. */
static void read_shares(const char *text, double *out)
{
    while (*text) {
        char *end;
        long first = strtol(text, &end, 10), last = first;
        double share = 1;
        if (*end == '-') last = strtol(end + 1, &end, 10);
        if (*end == ':') share = strtod(end + 1, &end);
        for (long k = first; k <= last; k++) out[k] = share;
        text = *end == ',' ? end + 1 : end;
    }
}

static const struct {
    uint32_t type;
    const char *sd1, *sdxl, *opposite_sd1, *opposite_sdxl;
} rows[] = {{IP_WEIGHT_STYLE, "0-3,9-15", "6", "", ""},
            {IP_WEIGHT_COMPOSITION, "4:0.25,5", "3", "", ""},
            {IP_WEIGHT_STRONG_STYLE, "0-3,6-15", "0-2,4-10", "", ""},
            {IP_WEIGHT_STYLE_AND_COMPOSITION, "0-3,4:0.25,5,9-15", "3,6", "", ""},
            {IP_WEIGHT_STYLE_PRECISE, "0-3,4:0.25,5,9-15", "3,6", "4-5", "3"},
            {IP_WEIGHT_COMPOSITION_PRECISE, "0-3,4:0.25,5,6-8:0.1,9-15", "0-2:0.1,3,4-5:0.1,6,7-10:0.1", "0-3,6-15",
             "0-2,4-10"}};

static ip_adapter_places *places_of(size_t layers)
{
    static ip_adapter_places p;
    p.n = p.layers = layers;
    for (size_t i = 0; i < layers; i++)
        p.place[i] = (ip_adapter_place){.layer = (uint32_t)i,
                                        .part = i < layers / 2   ? 'i'
                                                : i > layers / 2 ? 'o'
                                                                 : 'm'};
    return &p;
}

static void test_chosen_layers(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int xl = 0; xl < 2; xl++) {
            double wanted[16] = {0}, other[16] = {0}, got[IP_ADAPTER_LAYERS_MAX];
            uint8_t opposite[IP_ADAPTER_LAYERS_MAX];
            const size_t layers = xl ? 11 : 16;
            read_shares(xl ? rows[i].sdxl : rows[i].sd1, wanted);
            read_shares(xl ? rows[i].opposite_sdxl : rows[i].opposite_sd1, other);
            if (!CHECK(ip_adapter_weights(places_of(layers), rows[i].type, 0.5, got, opposite))) continue;
            for (size_t k = 0; k < layers; k++)
                CHECK_MSG(got[k] == 0.5 * wanted[k] && opposite[k] == (other[k] > 0),
                          "type %u, %zu layers: layer %zu has %g%s", rows[i].type, layers, k, got[k],
                          opposite[k] ? " of the other side" : "");
        }
}

/* x: the layer's number divided by how many there are. */
static void test_ways_from_end_to_end(void)
{
    double got[IP_ADAPTER_LAYERS_MAX];
    uint8_t opposite[IP_ADAPTER_LAYERS_MAX];
    static const size_t sizes[] = {4, 11, 16};
    for (size_t i = 0; i < 3; i++)
        for (uint32_t type = IP_WEIGHT_LINEAR; type < IP_WEIGHT_STYLE; type++) {
            const ip_adapter_places *p = places_of(sizes[i]);
            if (!CHECK(ip_adapter_weights(p, type, 2, got, opposite))) continue;
            for (size_t k = 0; k < p->layers; k++) {
                const double x = (double)k / (double)p->layers, off = x < 0.5 ? 1 - 2 * x : 2 * x - 1;
                const char part = p->place[k].part;
                const double wanted[] = {1,
                                         0.05 + 0.95 * (1 - x),
                                         0.05 + 0.95 * x,
                                         0.05 + 0.95 * (1 - off),
                                         0.05 + 0.95 * off,
                                         part == 'i' ? 0.2 : 1,
                                         part == 'o' ? 0.2 : 1,
                                         part == 'm' ? 0.2 : 1,
                                         part == 'm' ? 1 : 0.2};
                CHECK_NEAR(got[k], 2 * wanted[type], 1e-12);
                CHECK_EQ(opposite[k], 0);
            }
        }
}

static void test_types_of_other_models(void)
{
    double got[2 * IP_ADAPTER_LAYERS_MAX];
    uint8_t opposite[2 * IP_ADAPTER_LAYERS_MAX];
    CHECK(!ip_adapter_weights(places_of(10), IP_WEIGHT_STYLE, 1, got, opposite));
    CHECK(!ip_adapter_weights(places_of(17), IP_WEIGHT_COMPOSITION_PRECISE, 1, got, opposite));
    CHECK(ip_adapter_weights(places_of(IP_ADAPTER_LAYERS_MAX), IP_WEIGHT_STRONG_MIDDLE, 1, got, opposite));
    CHECK(!ip_adapter_weights(places_of(IP_ADAPTER_LAYERS_MAX + 1), IP_WEIGHT_LINEAR, 1, got, opposite));
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_chosen_layers), CASE(test_ways_from_end_to_end),
                                      CASE(test_types_of_other_models)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
