/* param_key.h - a parameter as part of a result's key.
 *
 * Results on users' disks are found by what this feeds: the row's name, its type's number, and the value in canonical
 * form (7, 7.0 and 7.00 are one number; -0 is 0). tests/param pins the digest of one row of each type.
 */
#ifndef KILN_PARAM_PARAM_KEY_H
#define KILN_PARAM_PARAM_KEY_H

#include "base/hash.h"
#include "param/param.h"

/* Feeds the row's name, type and value. Of a FILE no value: its content is the caller's to add. Of a NAME its text:
 * whose code it stands for is the caller's to add. */
void param_hash(hasher *h, const kiln_param *p, const void *params);

#endif
