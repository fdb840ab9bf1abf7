/* loading.h - "kiln.loading/1": open the parts of a checkpoint as kiln's own loaders do.
 *
 * Which family a part belongs to is found out (model.h), its value is opened, and its networks are recorded once at
 * their smallest size: a tensor that is missing or misshapen is reported now and not after a minute of sampling.
 * Tensors that no network asked for are named in a warning.
 *
 *     return kiln_load_one(c, p->path, KILN_FAMILY_TEXT_ENCODER, c->out);      // in run(); plugin org.kiln.loader
 */
#ifndef KILN_LOADING_H
#define KILN_LOADING_H

#include "weights.h"

#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_LOADING_ABILITY "kiln.loading/1"

enum {
    KILN_LOAD_OPTIONAL = 1, /* a part that no family knows is NULL, without a message */
    KILN_LOAD_EMA = 2       /* averaged weights (model_ema.*) in place of the others; refused where there are none */
};

typedef struct {
    uint32_t size, flags;    /* KILN_LOAD_...                                               */
    const char *path;        /* a file or a folder; NULL: `set`                             */
    kiln_weights *set;       /* borrowed; what is looked at instead of a file               */
    const char *const *kind; /* [n] KILN_FAMILY_..., each once                              */
    size_t n;
    const char *type; /* only families that name it (kiln_model_family.type) are asked; NULL: all */
} kiln_load;

typedef struct {
    uint32_t size;
    /* out[i] = the value of kind[i], a reference of the caller's. On failure all are NULL, and the message names file,
     * part and reason. [run] */
    kiln_status (*load)(const kiln_call *, const kiln_load *, kiln_value **out);
    /* Records the networks of a value of this kind once at their smallest size and throws them away: KILN_OK, or a
     * message that names the tensor. A control is recorded with an x of as many channels as its facts say
     * ("latent_channels"); nothing is recorded of one that does not say, and of a kind of a plugin's own. [run] */
    kiln_status (*check)(const kiln_call *, const char *kind, const kiln_value *);
    /* 1: what this tensor is called says that it is no fault when no network asks for it: buffers, and parts that
     * files carry along ("...position_ids", "model_ema.*"). [any] */
    int (*needless)(const char *tensor);
} kiln_loading_api;

/* load() as a node calls it; a message where the plugin that provides it is not there. [run] */
static inline kiln_status kiln_load_parts(const kiln_call *c, const kiln_load *what, kiln_value **out)
{
    const kiln_loading_api *l = (const kiln_loading_api *)c->host->ability(KILN_LOADING_ABILITY);
    if (l) return l->load(c, what, out);
    return c->host->fail(c->ctx, KILN_ERR_UNSUPPORTED,
                         KILN_LOADING_ABILITY " is not there; load the plugin org.kiln.loader");
}

/* *out = the one part of this kind in a file or folder. [run] */
static inline kiln_status kiln_load_one(const kiln_call *c, const char *path, const char *kind, kiln_value **out)
{
    kiln_load what;
    memset(&what, 0, sizeof what);
    what.size = (uint32_t)sizeof what, what.path = path, what.kind = &kind, what.n = 1;
    return kiln_load_parts(c, &what, out);
}

#ifdef __cplusplus
}
#endif
#endif
