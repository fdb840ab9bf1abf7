/* controlnet_bases.h - a control as this plugin keeps it, and what a Control-LoRA is over each denoiser it has met. */
#ifndef KILN_UNET_CONTROLNET_BASES_H
#define KILN_UNET_CONTROLNET_BASES_H

#include "controlnet_model.h"
#include "unet_architecture.h"
#include "unet_inputs.h"

#include <pthread.h>

enum { CONTROLNET_INPUTS_MAX = UNET_INPUTS_MAX + 2, CONTROLNET_FAMILY_MAX = 1760 };

typedef struct controlnet_base controlnet_base;

typedef struct {
    const kiln_host *host;
    kiln_network network;
    controlnet_config config;
    kiln_input_spec input[CONTROLNET_INPUTS_MAX];
    kiln_value *facts;
    char architecture[UNET_ARCHITECTURE_MAX + 40];
    char family[CONTROLNET_FAMILY_MAX];
    pthread_mutex_t lock;
    controlnet_base *bases; /* of a Control-LoRA, under the lock */
} controlnet;

/* kiln_network.over of a Control-LoRA. */
const kiln_net *controlnet_over(const kiln_network *n, kiln_ctx *ctx, kiln_weights *own, kiln_weights *denoiser);
/* At the control's end. */
void controlnet_forget_bases(controlnet *self);

#endif
