/* run_preview.h - `kiln run --preview FILE`: the "preview" events of a sampling as a PNG that is
 * replaced whole, and on a terminal that shows pictures (kitty's protocol, or sixel), above the progress.
 */
#ifndef KILN_CLI_RUN_PREVIEW_H
#define KILN_CLI_RUN_PREVIEW_H

#include "kiln/engine.h"

typedef struct {
    const char *path;
    int shows;      /* what the terminal understands (terminal_pictures.h); 0: nothing */
    int rows;       /* of the terminal, that the picture on it takes; 0: there is none that may be drawn over */
    int complained; /* FILE could not be written, which is said once */
} preview;

/* Sets *p up, and `how` so that its events come here. `every`: steps between two. 0: said. */
int preview_begin(preview *p, const char *path, unsigned every, kiln_run_options *how);

#endif
