/* abilities.h - the tables behind the abilities, and what the host keeps for them. */
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
#include "kiln/value.h"
#include "kiln/weights.h"

extern const kiln_ops ops_api;             /* ability_ops.c     */
extern const kiln_weights_api weights_api; /* ability_weights.c */
extern const kiln_model_api model_api;     /* ability_model.c   */
extern const kiln_sampler_api sampler_api; /* registry.c        */
extern const kiln_files_api files_api;     /* ability_files.c   */
extern const kiln_store_api store_api;     /* ability_store.c   */
extern const kiln_params_api params_api;   /* ability_params.c  */

/* Removes the files a call opened and did not commit. */
void files_discard(kiln_ctx *c);

/* While a plugin's open() runs: whose rows are being registered (for messages) and where its data lies. NULL outside.
 */
void registry_owner_set(const char *plugin, const char *data);
const char *registry_data(void); /* behind kiln_host.data_folder */
/* What went wrong in a register_*() call of this open(), "" if nothing. */
const char *registry_fault(void);
kiln_status registry_fail(kiln_status status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Tables that plugins offer to each other: kiln_host.provide, and what ability() finds of them (NULL: none). */
kiln_status ability_provide(const char *id, const void *table);
const void *ability_provided(const char *id);
const void *ability_of_engine(const char *id); /* ctx.c; NULL: the engine has none of that name */

/* How many rows there are, and back to as many: what a refused plugin registered is forgotten. */
size_t registry_mark(void);
void registry_rewind(size_t mark);

/* Object types with a stored form; NULL: none, past the end. */
kiln_status stored_type_register(const kiln_stored_type *t);
const kiln_stored_type *stored_type_find(const char *type);
/* Calls the row's function with a call of its own around it (floating-point mode, messages). NULL with a message. */
kiln_value *stored_type_to_plain(const kiln_stored_type *t, const kiln_value *object, error *e);
kiln_value *stored_type_from_plain(const kiln_stored_type *t, const kiln_value *plain, error *e);

/* Names of registry `from` ("sampler", "schedule"); NULL past the end and for a registry there is not. */
const char *registry_name(const char *from, size_t i);
/* A sampler's options as a table (param/param_rows.h); it was checked when the sampler was registered. */
kiln_param_table sampler_options(const kiln_sampler *s);
/* The registries as parameters ask for them (param/param.h); no files. */
extern const param_names registry_names;
/* Id of the plugin that registered it; NULL: nobody. */
const char *registry_owner_of(const char *from, const char *name);
/* Owner of the i-th model family of any kind, NULL past the end. */
const char *registry_family_owner(size_t i);

#endif
