/* output.h - the folder a run may write to; what ability_files.c works in. */
#ifndef KILN_PLUGIN_OUTPUT_H
#define KILN_PLUGIN_OUTPUT_H

typedef struct output_folder {
    const char *path; /* --out: an existing, writable folder */
} output_folder;

#endif
