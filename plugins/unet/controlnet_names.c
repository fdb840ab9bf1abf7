/* controlnet_names.c - see controlnet_names.h. In the ControlNet source (cldm) the UNet's part has ldm's names:
 *
 *   zero_convs.I.0.*          controlnet_down_blocks.I.*
 *   middle_block_out.0.*      controlnet_mid_block.*
 *   input_hint_block.2I.*     controlnet_cond_embedding: conv_in, blocks.0, blocks.1, ..., conv_out
 *
 * Of a Union's attention only the rows of v are seen: it has one token (controlnet_union.c).
 */
#include "controlnet_names.h"

#include "controlnet_model.h"
#include "unet_shapes.h"

#include <stdio.h>
#include <string.h>

enum { ZERO_CONVS_MAX = 64, HINT_LAYERS_MAX = 2 * CONTROLNET_HINT_MAX };

static int has(const kiln_weights_api *w, const kiln_weights *set, const char *prefix, const char *format, uint32_t i)
{
    char name[160], full[200];
    kiln_weight_info info = {.size = sizeof info};
    snprintf(name, sizeof name, format, i);
    snprintf(full, sizeof full, "%.80s%.100s", prefix, name);
    return w->find(set, full, &info) == KILN_OK;
}

/* How many layers the hint's block has; between them are activations. */
static uint32_t count_hint_layers(const kiln_weights_api *w, const kiln_weights *set, const char *prefix)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < HINT_LAYERS_MAX; i++)
        if (has(w, set, prefix, "input_hint_block.%u.weight", 2 * i)) n = i + 1;
    return n;
}

static void add_cldm(const kiln_weights_api *w, const kiln_weights *set, const char *prefix, ldm_rules *out)
{
    char from[60], to[60];
    uint32_t layers = count_hint_layers(w, set, prefix);
    ldm_rules_add(out, prefix, "middle_block_out.0.*", "controlnet_mid_block.*");
    for (uint32_t i = 0; i < ZERO_CONVS_MAX; i++) {
        if (!has(w, set, prefix, "zero_convs.%u.0.weight", i) && !has(w, set, prefix, "zero_convs.%u.0.bias", i))
            continue;
        snprintf(from, sizeof from, "zero_convs.%u.0.*", i);
        snprintf(to, sizeof to, "controlnet_down_blocks.%u.*", i);
        ldm_rules_add(out, prefix, from, to);
    }
    for (uint32_t i = 0; i < layers; i++) {
        snprintf(from, sizeof from, "input_hint_block.%u.*", 2 * i);
        snprintf(to, sizeof to, "controlnet_cond_embedding.blocks.%u.*", i - 1);
        ldm_rules_add(out, prefix, from,
                      i == 0            ? "controlnet_cond_embedding.conv_in.*"
                      : i + 1 == layers ? "controlnet_cond_embedding.conv_out.*"
                                        : to);
    }
}

/* Rows of q, k and v in one; v is the last third. */
static void add_value_rows(const char *prefix, const char *part, int64_t rows, ldm_rules *out)
{
    char from[60], to[60];
    snprintf(from, sizeof from, "transformer_layes.{}.attn.in_proj_%s", part);
    snprintf(to, sizeof to, "transformer_layes.{}.attn.v.%s", part);
    ldm_rules_add(out, prefix, from, to);
    if (out->nomem) return;
    out->rule[out->n - 1].row = 2 * rows, out->rule[out->n - 1].rows = rows;
}

static void add_union(const kiln_weights_api *w, const kiln_weights *set, const char *prefix, ldm_rules *out)
{
    char name[160];
    snprintf(name, sizeof name, "%.80stransformer_layes.0.attn.in_proj_bias", prefix);
    int64_t rows = unet_dim(w, set, name, 0) / 3;
    if (rows <= 0) return;
    add_value_rows(prefix, "weight", rows, out);
    add_value_rows(prefix, "bias", rows, out);
    ldm_rules_add(out, prefix, "task_embedding", "task_embedding");
    if (!out->nomem) out->rule[out->n - 1].transpose = 1;
}

void controlnet_rules_make(const kiln_weights_api *w, const kiln_weights *set, const char *prefix, int cldm,
                           ldm_rules *out)
{
    add_union(w, set, prefix, out);
    if (cldm) {
        add_cldm(w, set, prefix, out);
        ldm_rules_make(w, set, prefix, out);
    }
    if (!cldm || !*prefix) ldm_rules_add(out, prefix, "*", "*");
}
