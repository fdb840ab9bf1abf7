/* boxes.h - inputs that are maps: `crop_region: {x: 8, y: 0}` are crop_region.x and crop_region.y where a node has
 * parameters of such names. */
#ifndef KILN_WORKFLOW_BOXES_H
#define KILN_WORKFLOW_BOXES_H

#include "workflow/check.h"

/* Puts the parts of such a map in its place. A map that no parameter is a part of stays, and is refused when the
 * workflow is checked. */
void boxes_expand(document *d, const catalog_view *catalog);

#endif
