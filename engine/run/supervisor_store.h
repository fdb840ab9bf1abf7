/* supervisor_store.h - a folder for results that lasts as long as the run: where nothing is to be kept, what was
 * finished has to outlive a crash all the same. */
#ifndef KILN_RUN_SUPERVISOR_STORE_H
#define KILN_RUN_SUPERVISOR_STORE_H

#include <stddef.h>

/* Makes it in TMPDIR, else /var/tmp, and removes those that a killed kiln has left there. path "": there is none. */
void supervisor_store_make(char *path, size_t capacity);
void supervisor_store_remove(void);

#endif
