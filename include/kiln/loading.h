/* loading.h - "kiln.loading/1": open the parts of a checkpoint as kiln's own loaders do.
 *
 * Which family a part belongs to is found out (model.h), its value is opened, and its networks are recorded once at
 * their smallest size: a tensor that is missing or misshapen is reported now and not after a minute of sampling.
 * Tensors that no network asked for are named in a warning.
 *
 *     const kiln_loading_api *l = c->host->ability(KILN_LOADING_ABILITY);      // in run(); plugin org.kiln.loader
 *     const char *const kinds[] = {KILN_FAMILY_TEXT_ENCODER};
 *     kiln_load what = {.size = sizeof what, .path = p->path, .kind = kinds, .n = 1};
 *     return l->load(c, &what, c->out);
 */
#ifndef KILN_LOADING_H
#define KILN_LOADING_H

#include "weights.h"

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

#ifdef __cplusplus
}
#endif
#endif
