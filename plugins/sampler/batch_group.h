/* batch_group.h - which conditionings a network evaluates in one batch, and the inputs of that batch.
 *
 * Conditionings go together that have one model, parts of one size, the same controls, and inputs whose shapes are
 * equal or can be made so by their rows' rules (kiln/inputs.h).
 */
#ifndef KILN_SAMPLER_BATCH_GROUP_H
#define KILN_SAMPLER_BATCH_GROUP_H

#include "conditions.h"
#include "network.h"

enum { ITEMS_MAX = 256 };

typedef struct {
    const kiln_call *call;
    const condition *member[ITEMS_MAX];
    size_t n;
    double sigma;
    int64_t rows[NETWORK_INPUTS_MAX]; /* of TOKENS, in the batch */
} batch_group;

/* Adds a conditioning if it fits; *added 0: it does not. Fails where a row refuses different shapes. */
kiln_status batch_group_add(batch_group *g, const condition *c, int *added);

/* Memory for input i of a batch: n numbers of 4 bytes on the host. NULL: there is none. */
typedef void *batch_memory(void *self, size_t i, size_t n);

/* The batch's inputs for `pictures` of each member; all rows of hooks that act, then those of controls. Writes at most
 * NETWORK_INPUTS_MAX. */
typedef struct {
    int64_t pictures;          /* of one member */
    const int64_t *picture_of; /* [pictures] whose inputs each takes; NULL: its own */
    const kiln_latent_format *format;
    const uint8_t *hook_acts; /* [the model's hooks] */
    batch_memory *memory;
    void *self;
} batch_layout;
kiln_status batch_group_inputs(const batch_group *g, const batch_layout *l, network_input *out, size_t *n);

#endif
