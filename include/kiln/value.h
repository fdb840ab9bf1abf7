/* value.h - "kiln.value/1": numbers, strings, lists, maps and objects.
 *
 * A value is a tensor | int | float | bool | string | list of values | map of
 * name -> value | object (a handle: type name, release, fingerprint). LATENT is a
 * map, CONDITIONING a list of maps: a node may put an entry of its own into a map
 * and everyone else carries it along. Tensors are made by host->tensor_new().
 *
 *     const kiln_value_api *v = host->ability(KILN_VALUE_ABILITY);
 *     kiln_value *latent = v->map_copy(ctx, in);          // shallow, writable
 *     v->map_set(latent, "samples", samples);             // takes its own reference
 *     host->unref(samples);
 *
 * Ownership in one sentence: new_*, *_copy return a reference the caller owns,
 * setters take a reference of their own, getters lend for as long as the holder lives.
 * A container may be changed only by its maker, before it is put into another value or
 * handed over as an output; from then on it is immutable (a change is KILN_ERR_BUG).
 *
 * Every function is [any]; `ctx` may be NULL.
 */
#ifndef KILN_VALUE_H
#define KILN_VALUE_H

#include "plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_VALUE_ABILITY "kiln.value/1"

typedef enum {
    KILN_V_TENSOR = 1,
    KILN_V_INT,
    KILN_V_FLOAT,
    KILN_V_BOOL,
    KILN_V_STRING,
    KILN_V_LIST,
    KILN_V_MAP,
    KILN_V_OBJECT
} kiln_value_kind;

typedef struct {
    uint32_t size;
    uint32_t (*kind)(const kiln_value *); /* a kiln_value_kind; 0 for NULL */

    /* NULL: no memory, or (copies) a value of another kind. Return KILN_ERR_NOMEM or KILN_ERR_INVALID. */
    kiln_value *(*new_int)(kiln_ctx *, int64_t);
    kiln_value *(*new_float)(kiln_ctx *, double);
    kiln_value *(*new_bool)(kiln_ctx *, int);
    kiln_value *(*new_string)(kiln_ctx *, const char *bytes, size_t n); /* copied; UTF-8 */
    kiln_value *(*new_list)(kiln_ctx *);
    kiln_value *(*new_map)(kiln_ctx *);
    /* A handle. `type` ("MODEL", ...) is copied. `release(ptr)` is called once, on any thread, when
     * the last reference goes. `fingerprint` (copied, may be NULL) says which content it stands for. */
    kiln_value *(*new_object)(kiln_ctx *, const char *type, void *ptr, void (*release)(void *),
                              const char *fingerprint);
    kiln_value *(*list_copy)(kiln_ctx *, const kiln_value *);
    kiln_value *(*map_copy)(kiln_ctx *, const kiln_value *);

    kiln_status (*list_push)(kiln_value *list, kiln_value *item);
    kiln_status (*map_set)(kiln_value *map, const char *key, kiln_value *item); /* NULL removes */

    /* Getters return KILN_ERR_INVALID / NULL / 0 on another kind and never convert. */
    kiln_status (*get_int)(const kiln_value *, int64_t *out);
    kiln_status (*get_float)(const kiln_value *, double *out); /* an int is accepted too */
    kiln_status (*get_bool)(const kiln_value *, int *out);
    const char *(*get_string)(const kiln_value *, size_t *n); /* NUL-terminated; n may be NULL */
    size_t (*count)(const kiln_value *);                      /* items of a list or map        */
    kiln_value *(*list_at)(const kiln_value *, size_t i);
    kiln_value *(*map_get)(const kiln_value *, const char *key);           /* NULL: absent */
    kiln_value *(*map_at)(const kiln_value *, size_t i, const char **key); /* sorted by key */
    void *(*object)(const kiln_value *, const char *type);                 /* NULL: other type */
    const char *(*object_type)(const kiln_value *);
    const char *(*object_fingerprint)(const kiln_value *);
} kiln_value_api;

#ifdef __cplusplus
}
#endif
#endif
