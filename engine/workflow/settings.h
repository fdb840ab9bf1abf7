/* settings.h - what --set, a row of a sweep and an include's `set:` change in a document's nodes.
 *
 * A name is a parameter of the head (applied while the head is read), NODE.INPUT, or INPUT alone where one node has it;
 * several are listed. Two settings of one input by different names are a fault, since one would be lost.
 */
#ifndef KILN_WORKFLOW_SETTINGS_H
#define KILN_WORKFLOW_SETTINGS_H

#include "workflow/document.h"

struct catalog_view;

/* catalog: knows inputs that the file leaves to their defaults; may be NULL. */
void settings_apply(document *d, const set_option *set, size_t n, const struct catalog_view *catalog);

#endif
