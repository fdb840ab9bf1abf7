/* abilities.h - the tables behind the abilities that a plugin asks for by name, and the registries behind the tables.
 */
#ifndef KILN_PLUGIN_ABILITIES_H
#define KILN_PLUGIN_ABILITIES_H

#include "base/status.h"
#include "param/param.h"
#include "kiln/files.h"
#include "kiln/model.h"
#include "kiln/ops.h"
#include "kiln/params.h"
#include "kiln/sampler.h"
#include "kiln/store.h"
#include "kiln/types.h"
#include "kiln/value.h"
#include "kiln/weights.h"

extern const kiln_ops ops_api;             /* ability_ops.c     */
extern const kiln_weights_api weights_api; /* ability_weights.c */
extern const kiln_model_api model_api;     /* ability_model.c   */
extern const kiln_sampler_api sampler_api; /* registry.c        */
extern const kiln_files_api files_api;     /* ability_files.c   */
extern const kiln_store_api store_api;     /* ability_store.c   */
extern const kiln_params_api params_api;   /* ability_params.c  */
const kiln_value_api *value_ability(void); /* ability_value.c: tensor/value.h's value_api as plugins get it */

/* Removes the files that a call created and did not commit. */
void files_discard(kiln_ctx *c);

/* Set while a plugin's open() runs: the id of the plugin that registers rows, and its data folder. NULL otherwise. */
void registry_owner_set(const char *plugin, const char *data);
const char *registry_data(void); /* for kiln_host.data_folder */
/* What went wrong in a register_*() call of this open(); "" if nothing did. */
const char *registry_fault(void);
int registry_has_rows_of(const char *owner_id);   /* 1: it has registered something */
int registry_has_others_of(const char *owner_id); /* rows other than samplers and schedules */
/* Samplers and schedules of the last owner's whose names another plugin has, as sentences and names; they are
 * registered as "OWNER/NAME". NULL: no more. */
const char *registry_clash(size_t i);
const char *registry_clash_name(size_t i);
kiln_status registry_fail(kiln_status status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Tables that plugins offer to each other: kiln_host.provide, and what ability() finds of them (NULL: none). */
kiln_status ability_provide(const char *id, const void *table);
const void *ability_provided(const char *id);
const void *ability_of_engine(const char *id); /* ctx.c; NULL: the engine has none of that name */

/* The number of rows, and removal of those above a mark: so the rows of a refused plugin are taken out. */
size_t registry_mark(void);
void registry_rewind(size_t mark);

/* Object types with a stored form. find: NULL when the type has none. */
kiln_status stored_type_register(const kiln_stored_type *t);
const kiln_stored_type *stored_type_find(const char *type);
kiln_status op_kind_register(const kiln_op_kind *k);
void op_kind_used(const kiln_op_kind *k);                    /* a run records it: plugin/call_again.h */
const kiln_op_kind *op_kind_of(const char *owner, size_t i); /* the i-th op that this plugin registered; NULL */
/* Convert an object to plain data and back with the row's function, in a call of its own (floating-point mode,
 * messages, scratch memory). NULL with a message. */
kiln_value *stored_type_to_plain(const kiln_stored_type *t, const kiln_value *object, error *e);
kiln_value *stored_type_from_plain(const kiln_stored_type *t, const kiln_value *plain, error *e);

/* Rows of value types that plugins registered; value_types.h has them together with kiln's own. The row was checked. */
kiln_status registered_type_add(const kiln_value_type *t);
size_t registered_type_count(void);
const kiln_value_type *registered_type_at(size_t i);
const kiln_value_type *registered_type(const char *name);
const char *registered_type_owner(const char *name);

/* The i-th name in registry `from` ("sampler", "schedule"); NULL past the end, or when there is no such registry. */
const char *registry_name(const char *from, size_t i);
/* A sampler's options as a table (param/param_rows.h); it was checked when the sampler was registered. */
kiln_param_table sampler_options(const kiln_sampler *s);
/* The registries for parameters (param/param.h); no files. */
extern const param_names registry_names;
/* Id of the plugin that registered the name, also of an "ability"; NULL: it is not registered. */
const char *registry_owner_of(const char *from, const char *name);
/* Id of the plugin that provides the i-th ability, NULL past the end. */
const char *registry_provider(size_t i);
/* Id of the plugin that registered the i-th model family, all kinds counted; NULL past the end. */
const char *registry_family_owner(size_t i);
/* Around a family's function, so that who ends the process in it is named where no node is running; what this returns
 * goes to supervised_leave(). */
int family_enter(const kiln_model_family *f, const char *function);

#endif
