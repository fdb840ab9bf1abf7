/* sandbox_paths.h - which files a run may touch when it is in a sandbox. */
#ifndef KILN_RUN_SANDBOX_PATHS_H
#define KILN_RUN_SANDBOX_PATHS_H

#include "run/sandbox.h"

typedef struct {
    const char *workflow, *plugins, *models, *input; /* as job_source                            */
    const char *out, *cache;                         /* as job_setting; cache NULL: the default  */
    int gpu;                                         /* it may compute on one: its devices, and what its driver reads */
} sandbox_run;

/* Reads: models, inputs, the workflow, plugins, what is installed, what libraries and drivers want. Writes: the output
 * folder, the cache, devices. Links in folders of models and inputs lead where they lead. Of the folder of a picture,
 * and the one above, which may be anything, only its visible files and input/ are read. */
kiln_status sandbox_paths(sandbox_list *l, const sandbox_run *r, error *e);

#endif
