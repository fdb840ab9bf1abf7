/* value.h - the values that flow along wires: tensor | int | float | bool | string | list |
 * map | object. Layer: tensor. The functions behind "kiln.value/1" (include/kiln/value.h).
 *
 * Reference counts are atomic. A value can be changed until it is published, by its maker alone: the run
 * publishes what a node hands over, list_push and map_set publish what is put in. Changing a published
 * value is KILN_ERR_BUG.
 */
#ifndef KILN_TENSOR_VALUE_H
#define KILN_TENSOR_VALUE_H

#include "base/file_list.h"
#include "base/hash.h"
#include "base/status.h"
#include "kiln/value.h"

/* Who keeps account of tensors' bytes: take may refuse (KILN_ERR_NOMEM, with a message). NULLs end it; tensors made
 * before or left over after that are not given back. One at a time in a process; set while no other thread makes
 * tensors. */
void value_account(kiln_status (*take)(void *arg, size_t bytes, error *e), void (*give)(void *arg, size_t bytes),
                   void *arg);
kiln_value *value_tensor_new(uint32_t dtype, uint32_t device, uint32_t rank, const int64_t *dim, error *e);
/* A tensor of an estimate: a shape without data. Its bytes are on the account as if it had some. */
kiln_value *value_shape_new(uint32_t dtype, uint32_t rank, const int64_t *dim, error *e);
kiln_value *value_int(int64_t v);
kiln_value *value_float(double v);
kiln_value *value_bool(int v);
kiln_value *value_string(const char *bytes, size_t n);
kiln_value *value_list(void);
kiln_value *value_map(void);
kiln_value *value_object(const char *type, void *ptr, void (*release)(void *), const char *fingerprint);

kiln_value *value_ref(kiln_value *v);
void value_unref(kiln_value *v);
uint32_t value_refs(const kiln_value *v); /* for tests and the probe */
void value_publish(kiln_value *v);        /* and everything inside   */
int value_published(const kiln_value *v);

/* The files that an object goes on reading (a model's weights are read when they are packed): what is made with it
 * later hangs on them too. Of every object inside v. The first setting stays: an object that is handed through keeps
 * its own. [any] */
void value_set_files(kiln_value *v, struct file_list *files);
kiln_status value_add_files(const kiln_value *v, struct file_list *to, error *e);

uint32_t value_kind(const kiln_value *v);
kiln_status value_view(const kiln_value *v, kiln_tensor *out, error *e); /* honours out->size */
/* Digest of the content (objects: type and fingerprint). Equal values, equal digests; of an estimate's tensors the
 * shapes alone count. */
kiln_status value_digest(const kiln_value *v, digest *out, error *e);
/* Which value it is, for the keys of what is computed from one item of a list: the digest of its content where all of
 * it is plain data that is there; else what value_set_origin said first, for nothing but where it came from tells apart
 * objects, and an estimate's shapes. Of published values. KILN_ERR_INVALID: neither. */
kiln_status value_identity(kiln_value *v, digest *out, error *e);
void value_set_origin(kiln_value *v, digest origin);
/* NaN or infinity in any f32/f16/bf16 tensor inside. */
int value_has_nonfinite(const kiln_value *v);

extern const kiln_value_api value_api; /* the ability's table */

#endif
