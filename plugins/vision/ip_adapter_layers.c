/* ip_adapter_layers.c - see ip_adapter_layers.h. */
#include "ip_adapter_layers.h"

#include <math.h>
#include <stdio.h>

enum { SD1_LAYERS = 16, SDXL_LAYERS = 11 };

/* ---- places ---- */

/* The length of a place's block, "input.4"; 0: it is no cross-attention's result. */
static size_t block_length(const char *place)
{
    static const char end[] = ".attn2.out";
    size_t n = strlen(place), e = sizeof end - 1;
    if (n <= e || n >= IP_ADAPTER_PLACE || strcmp(place + n - e, end) != 0) return 0;
    const char *dot = strchr(place, '.'), *next = dot ? strchr(dot + 1, '.') : NULL;
    return next ? (size_t)(next - place) : 0;
}

static void add_place(void *arg, const char *place, uint32_t kind)
{
    ip_adapter_places *p = arg;
    size_t length = block_length(place);
    (void)kind;
    if (!length || p->n == IP_ADAPTER_PLACES_MAX) return;
    ip_adapter_place *to = &p->place[p->n], *before = p->n ? &p->place[p->n - 1] : NULL;
    snprintf(to->name, sizeof to->name, "%s", place);
    to->part = place[0];
    int same = before && block_length(before->name) == length && strncmp(before->name, place, length) == 0;
    if (!same) p->layers++;
    to->layer = (uint32_t)p->layers - 1;
    p->n++;
}

void ip_adapter_find_places(const kiln_denoiser *d, ip_adapter_places *out)
{
    uint32_t number = 0;
    memset(out, 0, sizeof *out);
    if (d->places) d->places(d, add_place, out);
    for (const char *part = "iom"; *part; part++)
        for (size_t i = 0; i < out->n; i++)
            if (out->place[i].part == *part) out->place[i].number = 2 * number++ + 1;
}

/* ---- weights ---- */

/* Shares of the weight, layer by layer; what is not listed has none. */
typedef struct {
    double sd1[SD1_LAYERS], sdxl[SDXL_LAYERS];
} shares;

static const shares chosen[] = {
    [0] = {{1, 1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1}, {0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}},
    [IP_WEIGHT_COMPOSITION -
        IP_WEIGHT_STYLE] = {{0, 0, 0, 0, 0.25, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0}},
    [IP_WEIGHT_STRONG_STYLE -
        IP_WEIGHT_STYLE] = {{1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1}},
    [IP_WEIGHT_STYLE_AND_COMPOSITION -
        IP_WEIGHT_STYLE] = {{1, 1, 1, 1, 0.25, 1, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1}, {0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0}},
    [IP_WEIGHT_STYLE_PRECISE -
        IP_WEIGHT_STYLE] = {{1, 1, 1, 1, 0.25, 1, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1}, {0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0}},
    [IP_WEIGHT_COMPOSITION_PRECISE - IP_WEIGHT_STYLE] = {{1, 1, 1, 1, 0.25, 1, 0.1, 0.1, 0.1, 1, 1, 1, 1, 1, 1, 1},
                                                         {0.1, 0.1, 0.1, 1, 0.1, 0.1, 1, 0.1, 0.1, 0.1, 0.1}},
};

/* A layer that draws where things are: SDXL's 3, SD1's 4 and 5. */
static int is_composition(const ip_adapter_places *p, size_t layer)
{
    return p->layers == SDXL_LAYERS ? layer == 3 : layer == 4 || layer == 5;
}

/* Of the types that are ways from one end to the other; x: 0 the first layer, near 1 the last. */
static double share_of(uint32_t type, double x, char part)
{
    const double least = 0.05, rest = 1 - least, weak = 0.2;
    double from_middle = fabs(x - 0.5) / 0.5;
    switch (type) {
    case IP_WEIGHT_EASE_IN: return least + rest * (1 - x);
    case IP_WEIGHT_EASE_OUT: return least + rest * x;
    case IP_WEIGHT_EASE_IN_OUT: return least + rest * (1 - from_middle);
    case IP_WEIGHT_REVERSE_IN_OUT: return least + rest * from_middle;
    case IP_WEIGHT_WEAK_INPUT: return part == 'i' ? weak : 1;
    case IP_WEIGHT_WEAK_OUTPUT: return part == 'o' ? weak : 1;
    case IP_WEIGHT_WEAK_MIDDLE: return part == 'm' ? weak : 1;
    case IP_WEIGHT_STRONG_MIDDLE: return part == 'm' ? 1 : weak;
    default: return 1;
    }
}

int ip_adapter_weights(const ip_adapter_places *p, uint32_t type, double weight, double *out, uint8_t *opposite)
{
    memset(opposite, 0, p->layers);
    if (p->layers > IP_ADAPTER_LAYERS_MAX) return 0;
    if (type >= IP_WEIGHT_STYLE && p->layers != SD1_LAYERS && p->layers != SDXL_LAYERS) return 0;
    for (size_t i = 0; i < p->n; i++) {
        size_t layer = p->place[i].layer;
        double x = (double)layer / (double)p->layers;
        if (type < IP_WEIGHT_STYLE) {
            out[layer] = weight * share_of(type, x, p->place[i].part);
            continue;
        }
        const shares *s = &chosen[type - IP_WEIGHT_STYLE];
        out[layer] = weight * (p->layers == SDXL_LAYERS ? s->sdxl[layer] : s->sd1[layer]);
        if (type == IP_WEIGHT_STYLE_PRECISE) opposite[layer] = (uint8_t)is_composition(p, layer);
        if (type == IP_WEIGHT_COMPOSITION_PRECISE) opposite[layer] = (uint8_t)!is_composition(p, layer);
    }
    return 1;
}
