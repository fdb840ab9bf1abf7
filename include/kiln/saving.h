/* saving.h - how a MODEL, a CLIP and a VAE are written into a file: what a family says of its tensors.
 *
 * CheckpointSave and its relatives (kiln's plugin org.kiln.saving) ask the tables' save(): for each tensor of a value
 * its name in the file, and what else a loader has to find there. A family without save() is refused by its name. What
 * is saved and opened again has to compute the same.
 *
 *     static kiln_status save(const kiln_denoiser *d, const kiln_model *m, const kiln_saving *s)
 *     {
 *         const char *tensor = "conv_in.weight";
 *         kiln_weight_row row = {.size = sizeof row, .name = "model.diffusion_model.input_blocks.0.0.weight",
 *                                .from = m->weights, .tensor = &tensor, .n_tensor = 1};
 *         TRY(s->tensor(s, &row));
 *         return s->text(s, "modelspec.prediction_type", "epsilon");
 *     }
 */
#ifndef KILN_SAVING_H
#define KILN_SAVING_H

#include "weights.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_saving {
    uint32_t size;
    uint32_t alone; /* 1: the value gets a file of its own, 0: a checkpoint, beside the other parts */
    const kiln_host *host;
    kiln_ctx *ctx;
    uint32_t encoder; /* of a CLIP, where it is alone: the encoder that is written */
    void *self;
    /* A tensor of the file. The row and what it points to are copied, `data` too, and its set is kept. A dtype of 0 is
     * the user's choice. */
    kiln_status (*tensor)(const struct kiln_saving *, const kiln_weight_row *);
    /* A line of its __metadata__; copied. */
    kiln_status (*text)(const struct kiln_saving *, const char *key, const char *value);
    /* What the file's name ends with ("clip_l"), where the value is alone; copied. */
    kiln_status (*called)(const struct kiln_saving *, const char *name);
} kiln_saving;

#ifdef __cplusplus
}
#endif
#endif
