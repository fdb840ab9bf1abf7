/* store.h - "kiln.store/1": what of a plugin's survives the process.
 *
 * Results of PURE nodes are kept by the engine without a plugin's doing, if they are plain data (tensors,
 * numbers, strings, lists, maps). Two things need a word from the plugin:
 *
 * An object type of your own ("MOTION_PLAN") is kept when you say how it becomes plain data and back:
 *
 *     static const kiln_stored_type row = {.size = sizeof row, .type = "MOTION_PLAN", .revision = 1,
 *                                          .to_plain = plan_to_map, .from_plain = plan_from_map};
 *     store->register_type(&row);                                  // in open()
 *
 * A long run() can leave a state behind, from which the next run of the same key goes on:
 *
 *     kiln_value *state = store->state_load(c->ctx);               // NULL: begin at the beginning
 *     ...
 *     if (store->state_due(c->ctx)) store->state_save(c->ctx, map); // as often as you like: cheap when not due
 *
 * The state is the call's own: it is found again only by a call whose key is the same (type, revision, plugin,
 * parameters, inputs, files, device, precision), and it is dropped when the call succeeds. The final bytes must be
 * those of an undisturbed run.
 */
#ifndef KILN_STORE_H
#define KILN_STORE_H

#include "value.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_STORE_ABILITY "kiln.store/1"

typedef struct {
    uint32_t size;
    uint32_t revision; /* raise it when the plain form changes: older entries are then not found */
    const char *type;  /* the object's type name, as given to new_object                          */
    const char *doc;
    /* [any] A new value without objects inside that says everything about `object`. NULL: this one cannot be kept
     * (a message is welcome, and the run goes on without keeping it). */
    kiln_value *(*to_plain)(kiln_ctx *, const kiln_value *object);
    /* [any] The object again. `plain` was checked by digest, but may come from another machine: check what you
     * rely on. NULL: not usable, it is computed anew. */
    kiln_value *(*from_plain)(kiln_ctx *, const kiln_value *plain);
} kiln_stored_type;

typedef struct {
    uint32_t size;
    /* [open] The row must be static. KILN_ERR_INVALID when a type of that name is registered already, or is one of
     * the engine's own handles (MODEL, CLIP, VAE). */
    kiln_status (*register_type)(const kiln_stored_type *);
    /* [run] The state the last unfinished run of this key left, or NULL (also when nothing is kept: --no-cache). The
     * caller owns the reference. */
    kiln_value *(*state_load)(kiln_ctx *);
    /* [run] 1 when a state is wanted now: the interval (--save-state, 30 s unless told) is over. */
    int (*state_due)(kiln_ctx *);
    /* [run] Keeps `state` (plain data) in place of the one before; whole or not at all. A failure is reported to
     * the user once and is no reason to stop: the call goes on. */
    kiln_status (*state_save)(kiln_ctx *, const kiln_value *state);
} kiln_store_api;

#ifdef __cplusplus
}
#endif
#endif
