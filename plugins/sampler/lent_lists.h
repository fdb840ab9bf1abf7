/* lent_lists.h - what of one entry of a CONDITIONING other entries take too: controls and hooks that were put on the
 * prompt alone count for the guidance's other side as well. ComfyUI's apply_empty_x_to_equal_area.
 */
#ifndef KILN_SAMPLER_LENT_LISTS_H
#define KILN_SAMPLER_LENT_LISTS_H

#include "kiln/plugin.h"
#include "kiln/value.h"

/* out[i] = what entry i has under `key`, or NULL. When none of the conditioning's entries without an area has any, they
 * take those of `lender`'s entries without an area in turn; `permission` names the key that has to be true there, NULL:
 * it needs none. lender NULL: nothing is lent. */
void lent_lists(const kiln_value_api *v, const kiln_value *conditioning, const kiln_value *lender, const char *key,
                const char *permission, const kiln_value **out);

#endif
