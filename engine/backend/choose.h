/* choose.h - the backend and device that a name on the command line means. Layer: backend. */
#ifndef KILN_BACKEND_CHOOSE_H
#define KILN_BACKEND_CHOOSE_H

#include "backend/backend.h"

/* "cpu", "reference", "cuda", "cuda:1" (the second device), or "auto" and NULL: a CUDA device where there is one that
 * works, else the processor. KILN_ERR_UNSUPPORTED with the reason when a named one is not to be had, KILN_ERR_INVALID
 * for another name. */
kiln_status backend_choose(const char *name, const backend **out, unsigned *index, error *e);

#endif
