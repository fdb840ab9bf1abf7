/* prompt_alias.h - aliases of models (model_alias.h) in prompts: "embedding:NAME". */
#ifndef KILN_WORKFLOW_PROMPT_ALIAS_H
#define KILN_WORKFLOW_PROMPT_ALIAS_H

#include "base/arena.h"
#include "base/status.h"

/* `text` with the file in the place of each alias, in a; `text` itself where it names none. NULL: no memory. e says
 * what is wrong with the list of aliases. */
const char *prompt_without_aliases(arena *a, const char *text, error *e);

#endif
