/* check_options.h - a crash of a sampler or a guider that its options explain: their rows say how many bytes there are,
 * and what is behind those cannot be read.
 */
#ifndef KILN_CLI_CHECK_OPTIONS_H
#define KILN_CLI_CHECK_OPTIONS_H

#include <stddef.h>

/* From here on; `what` they are called: "options". Other faults end the process as they do. */
void check_watch_options(size_t params_size, const char *what);
void check_watch_end(void);

#endif
