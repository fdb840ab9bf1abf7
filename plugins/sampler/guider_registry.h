/* guider_registry.h - the kinds of GUIDER there are, and GUIDER values.
 *
 * A row is kept by the engine as an ability of its own ("kiln.guider.NAME/1"): that refuses a name that is taken, names
 * both plugins, and forgets the rows of a plugin whose open() fails.
 */
#ifndef KILN_SAMPLER_GUIDER_REGISTRY_H
#define KILN_SAMPLER_GUIDER_REGISTRY_H

#include "kiln/sampling.h"

/* In open() of this plugin, before any row. */
void guider_registry_open(const kiln_host *host);
kiln_status guider_register(const kiln_guider *row);
size_t guider_count(void);
const kiln_guider *guider_at(size_t i);
const kiln_guider *guider_named(const char *name);

/* What a row says of its i-th model and conditioning. */
static inline const kiln_guider_model *guider_model(const kiln_guider *row, size_t i)
{
    return (const void *)((const char *)row->model + i * row->model_stride);
}
static inline const kiln_guider_set *guider_set(const kiln_guider *row, size_t i)
{
    return (const void *)((const char *)row->set + i * row->set_stride);
}

/* A GUIDER value taken apart; borrows from it. */
typedef struct {
    const kiln_guider *row;
    const kiln_value *model[KILN_GUIDER_MODELS], *conditioning[KILN_GUIDER_SETS];
    const void *params;
} guider_parts;

kiln_status guider_read(const kiln_call *c, const kiln_value *value, guider_parts *out);
/* As kiln_sampling_api.guider_new. */
kiln_status guider_new(const kiln_call *c, const char *kind, kiln_value *parts, kiln_value **out);

#endif
