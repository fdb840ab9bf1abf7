/* output.h - the folder that ability_files.c writes to. */
#ifndef KILN_PLUGIN_OUTPUT_H
#define KILN_PLUGIN_OUTPUT_H

#include <stdatomic.h>

typedef struct output_folder {
    const char *path; /* --out: an existing, writable folder */
    const char *file; /* -o: the name of the one result in it, whose ending says its format; NULL: numbered names */
    atomic_int taken; /* results that have been named so */
} output_folder;

#endif
