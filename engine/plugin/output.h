/* output.h - the folder that ability_files.c writes to. */
#ifndef KILN_PLUGIN_OUTPUT_H
#define KILN_PLUGIN_OUTPUT_H

typedef struct output_folder {
    const char *path; /* --out: an existing, writable folder */
} output_folder;

#endif
