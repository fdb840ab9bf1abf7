/* gligen_names.c - see gligen_names.h. */
#include "gligen_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where a name's numbers lead: the block as ldm counts it, and the transformer in it. */
typedef struct {
    char part; /* i, m, o */
    unsigned block, transformer;
} layer_place;

/* Attentions of one down block: diffusers' names count them anew in each. */
static unsigned layers_each(const kiln_weights_api *w, const kiln_weights *set)
{
    kiln_weight_info info = {.size = sizeof info};
    unsigned level = 0, number = 0, most = 0;
    for (size_t i = 0; w->at(set, i, &info) == KILN_OK; i++) {
        const char *at = strstr(info.name, "down_blocks.");
        if (!at || !strstr(at, ".fuser.")) continue;
        if (sscanf(at, "down_blocks.%3u.attentions.%3u.", &level, &number) == 2 && number >= most) most = number + 1;
    }
    return most;
}

static int read_place(const char *name, unsigned layers, layer_place *out)
{
    const char *at;
    unsigned a = 0, b = 0, t = 0;
    if ((at = strstr(name, "input_blocks.")) &&
        sscanf(at, "input_blocks.%3u.1.transformer_blocks.%3u.fuser", &b, &t) == 2)
        *out = (layer_place){'i', b, t};
    else if ((at = strstr(name, "middle_block.")) && sscanf(at, "middle_block.1.transformer_blocks.%3u.fuser", &t) == 1)
        *out = (layer_place){'m', 1, t};
    else if ((at = strstr(name, "output_blocks.")) &&
             sscanf(at, "output_blocks.%3u.1.transformer_blocks.%3u.fuser", &b, &t) == 2)
        *out = (layer_place){'o', b, t};
    else if ((at = strstr(name, "down_blocks.")) &&
             sscanf(at, "down_blocks.%3u.attentions.%3u.transformer_blocks.%3u.fuser", &a, &b, &t) == 3)
        *out = (layer_place){'i', 1 + a * (layers + 1) + b, t};
    else if ((at = strstr(name, "mid_block.")) &&
             sscanf(at, "mid_block.attentions.0.transformer_blocks.%3u.fuser", &t) == 1)
        *out = (layer_place){'m', 1, t};
    else if ((at = strstr(name, "up_blocks.")) &&
             sscanf(at, "up_blocks.%3u.attentions.%3u.transformer_blocks.%3u.fuser", &a, &b, &t) == 3)
        *out = (layer_place){'o', a * (layers + 1) + b, t};
    else
        return 0;
    return 1;
}

static void write_place(const layer_place *p, char out[GLIGEN_PLACE])
{
    const char *part = p->part == 'i' ? "input" : p->part == 'm' ? "middle" : "output";
    if (p->transformer)
        snprintf(out, GLIGEN_PLACE, "%s.%u.t%u.middle", part, p->block % 10000, p->transformer % 1000);
    else
        snprintf(out, GLIGEN_PLACE, "%s.%u.middle", part, p->block % 10000);
}

static int by_place(const void *a, const void *b)
{
    return strcmp(((const gligen_layer_name *)a)->place, ((const gligen_layer_name *)b)->place);
}

size_t gligen_layer_names(const kiln_weights_api *w, const kiln_weights *set, gligen_layer_name *out,
                          char strange[GLIGEN_NAME])
{
    kiln_weight_info info = {.size = sizeof info};
    unsigned layers = layers_each(w, set);
    size_t n = 0;
    *strange = 0;
    for (size_t i = 0; w->at(set, i, &info) == KILN_OK && n < GLIGEN_LAYERS_MAX; i++) {
        static const char fuser[] = ".fuser.";
        const char *at = strstr(info.name, fuser);
        size_t length = at ? (size_t)(at - info.name) + sizeof fuser - 2 : 0;
        layer_place place;
        if (!at || length >= GLIGEN_NAME) continue;
        /* a set's names are sorted, so those of one layer stand together */
        if (n && strncmp(out[n - 1].name, info.name, length) == 0 && !out[n - 1].name[length]) continue;
        snprintf(out[n].name, sizeof out[n].name, "%.*s", (int)length, info.name);
        if (read_place(out[n].name, layers, &place)) {
            write_place(&place, out[n].place);
            n++;
        } else
            snprintf(strange, GLIGEN_NAME, "%s", out[n].name);
    }
    qsort(out, n, sizeof *out, by_place);
    return n;
}
