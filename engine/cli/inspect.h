/* inspect.h - what a model file or folder holds, as the loaded plugins see it: for `kiln inspect`.
 *
 * The families of kiln.model/2 say what is in it, "kiln.loading/1" whether all of it is there; the engine itself knows
 * no family. Headers and configuration are read, and nothing else.
 */
#ifndef KILN_CLI_INSPECT_H
#define KILN_CLI_INSPECT_H

#include "base/status.h"
#include "kiln/model.h"
#include "plugin/ctx.h"
#include "tensor/value.h"

/* A map of plain values, in which everything is optional but the first row:
 *   path, files [{path, bytes}], tensors, bytes, types {name: tensors}
 *   parts [{kind, family, doc, architecture, complete, checked, problem, parameters, tensors, bytes, types, ...}]
 *   left_over {tensors, needless, groups [{prefix, tensors, example}]}
 *   metadata {key: text}
 * NULL with a message: no memory, or no program can be recorded. */
kiln_value *inspect_set(kiln_weights *w, const char *path, error *e);

/* What the value of a part says of itself, added to the part's map: latent, sampling, inputs, encoders, ... */
void inspect_facts(kiln_ctx *c, const char *kind, const kiln_value *v, kiln_value *part);
/* The sets that the value takes its tensors from, its encoders' one after the other; NULL past the last. */
kiln_weights *inspect_weights(kiln_ctx *c, const char *kind, const kiln_value *v, size_t i);

void inspect_print(const kiln_value *found);
void inspect_print_json(const kiln_value *found);

/* map[key] = item, whose reference it takes; a NULL item (nothing to say, or no memory) is not set. */
void inspect_put(kiln_value *map, const char *key, kiln_value *item);
void inspect_put_text(kiln_value *map, const char *key, const char *text); /* NULL: not set */
/* The same at a list's end. */
void inspect_push(kiln_value *list, kiln_value *item);

#endif
