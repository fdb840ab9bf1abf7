/* checkpoint_config.h - what a training configuration (v1-inference.yaml) says that a checkpoint's tensors do not. */
#ifndef KILN_NODES_CHECKPOINT_CONFIG_H
#define KILN_NODES_CHECKPOINT_CONFIG_H

#include "kiln/plugin.h"

typedef struct {
    int predicts_v;
    int32_t layer; /* of the text encoder, from -1 down; 0: it says none */
} checkpoint_config;

/* Reads model.params.parameterization and cond_stage_config.params.layer_idx. What names another kind of model is
 * refused by its name. */
kiln_status checkpoint_config_read(const kiln_call *c, const char *path, checkpoint_config *out);

#endif
