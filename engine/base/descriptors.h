/* descriptors.h - how many more files this process may open. */
#ifndef KILN_BASE_DESCRIPTORS_H
#define KILN_BASE_DESCRIPTORS_H

#include "base/status.h"

enum { DESCRIPTORS_ENOUGH = 64 /* beside those of plugins: what any run needs, several times over */ };

/* Whether `want` more (32 at most) can be opened right now. Asks the system; nothing stays open. */
int descriptors_left(unsigned want);
/* KILN_ERR_NOMEM: that they ran out, the limit there is, and one that would do for `plugins` plugins, which hold one
 * each. */
kiln_status descriptors_ran_out(size_t plugins, error *e);
unsigned long descriptors_limit(void);

#endif
