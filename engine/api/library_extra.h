/* library_extra.h - what the command asks of a run beyond kiln/engine.h. */
#ifndef KILN_API_LIBRARY_EXTRA_H
#define KILN_API_LIBRARY_EXTRA_H

#include "kiln/engine.h"

typedef struct {
    const char *file;  /* the one result goes into `out` under this name, over what has it; NULL: numbered names */
    int skip_existing; /* rows whose results are in `out` are done                                              */
    int json;          /* explain and dry runs print one JSON object                                            */
} library_extra;

/* For the next kiln_workflow_run(). */
void library_extra_set(kiln_workflow *w, const library_extra *extra);

#endif
