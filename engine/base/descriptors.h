/* descriptors.h - how many more files this process may open. */
#ifndef KILN_BASE_DESCRIPTORS_H
#define KILN_BASE_DESCRIPTORS_H

#include "base/status.h"

enum { DESCRIPTORS_ENOUGH = 64 /* several times what a run needs, besides one for each plugin */ };

/* 1: `want` more files (at most 32) can be opened right now. Tries it; none stays open. */
int descriptors_left(unsigned want);
/* KILN_ERR_NOMEM. The message names the current limit and one that is enough for `plugins` plugins, each of which keeps
 * a file open. */
kiln_status descriptors_ran_out(size_t plugins, error *e);
unsigned long descriptors_limit(void); /* 0: unlimited or unknown */

#endif
