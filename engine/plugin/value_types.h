/* value_types.h - what the types that ports name are made of: kiln's own rows, those that plugins registered
 * (kiln/types.h), and the one place where a value is held against them.
 */
#ifndef KILN_PLUGIN_VALUE_TYPES_H
#define KILN_PLUGIN_VALUE_TYPES_H

#include "base/status.h"
#include "kiln/types.h"

extern const kiln_types_api types_api; /* the ability's table */

const kiln_value_type *value_type_find(const char *name); /* NULL: it has no row */
/* Entry i of the row, zero where the plugin's header knew less. */
kiln_value_entry value_type_entry(const kiln_value_type *type, uint32_t i);
/* 1: values of that type are data alone, without handles, so that they can be kept. */
int value_type_is_plain(const char *name);
/* Id of the plugin that registered the row; NULL: it is kiln's own. */
const char *value_type_owner(const char *name);

enum { TYPE_WORDS_MAX = 200 };
/* "f32 [N,H,W,C], C 3 to 4": what an entry has to be, and what a type has to be without its entries. */
void value_entry_words(const kiln_value_entry *entry, char out[TYPE_WORDS_MAX]);
void value_type_words(const kiln_value_type *type, char out[TYPE_WORDS_MAX]);

/* KILN_ERR_INVALID with a sentence that names the entry, what it is and what it has to be, when v is not of the type
 * that the port names, or not of the dtypes and ranks that the port allows. KILN_OK for types without a row. */
kiln_status value_fits_port(const kiln_value *v, const kiln_port *port, error *e);
kiln_status value_fits_type(const kiln_value *v, const char *type, error *e);

#endif
