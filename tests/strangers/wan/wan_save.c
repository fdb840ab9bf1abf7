/* wan_save.c - Wan's tensors in a file: under the names of the released single files, which they have here, and in
 * their shapes.
 */
#include "wan.h"

static kiln_status put(const kiln_saving *s, kiln_weights *weights, const kiln_weight_info *info, const char *prefix)
{
    char name[200];
    const int gain = strstr(info->name, ".gamma") != NULL, middle = strstr(info->name, ".middle.1.") != NULL;
    const int64_t dim[4] = {info->dim[0], info->rank > 1 ? info->dim[1] : 1, 1, 1};
    kiln_weight_row row = {.size = sizeof row,
                           .name = NAME(name, "%s%s", prefix, info->name),
                           .from = weights,
                           .tensor = &info->name,
                           .n_tensor = 1};
    if (gain && info->rank == 1) row.rank = middle ? 3 : 4, row.dim = dim;
    if (middle && !gain && info->rank == 2) row.rank = 4, row.dim = dim; /* a 1x1 convolution */
    return s->tensor(s, &row);
}

static kiln_status put_all(const kiln_saving *s, kiln_weights *weights, const char *prefix)
{
    const kiln_weights_api *w = s->host->ability(KILN_WEIGHTS_ABILITY);
    for (size_t i = 0; i < w->count(weights); i++) {
        kiln_weight_info info = {.size = sizeof info};
        if (w->at(weights, i, &info) == KILN_OK) TRY(put(s, weights, &info, prefix));
    }
    return KILN_OK;
}

kiln_status wan_save_transformer(const kiln_model *m, int64_t heads, const kiln_saving *s)
{
    char config[64];
    if (m->sampling && m->sampling != m->denoiser->sampling)
        s->host->log(KILN_LOG_WARN, "how a node makes this MODEL count noise has no place in the file");
    TRY(put_all(s, m->weights, s->alone ? "" : "model.diffusion_model."));
    return s->text(s, "config", NAME(config, "{\"num_heads\": %lld}", (long long)heads));
}

kiln_status wan_save_vae(const kiln_autoencoder *a, kiln_weights *weights, const kiln_saving *s)
{
    (void)a;
    if (s->alone) return put_all(s, weights, "");
    return s->host->fail(s->ctx, KILN_ERR_UNSUPPORTED,
                         "Wan's autoencoder has a file of its own; take VAESave, and ModelSave for the model");
}
