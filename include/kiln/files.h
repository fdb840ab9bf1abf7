/* files.h - "kiln.files/1": where a node's results go on disk, and what is written into them.
 *
 * Reading: a parameter of type KILN_P_FILE arrives as the path of an existing file; a
 * node opens it itself. Writing: only through here, so that nothing leaves the output
 * folder, names never collide between processes, and a file appears whole or not at all.
 *
 *     kiln_file *f = files->create(ctx, KILN_FILES_OUTPUT, "shapes/kiln", "png");
 *     files->write(f, bytes, n);                       // as often as you like
 *     files->commit(f, &path);                         // fsync, rename; else it vanishes
 *
 * Every function is [run]. A file that is not committed when the call returns is removed.
 */
#ifndef KILN_FILES_H
#define KILN_FILES_H

#include "plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_FILES_ABILITY "kiln.files/1"

enum {
    KILN_FILES_OUTPUT = 1, /* --out                        */
    KILN_FILES_TEMP = 2    /* previews: --out's temp/ folder */
};

typedef struct kiln_file kiln_file;

typedef struct {
    uint32_t size;
    /* Begins <folder>/<prefix>_<counter, 5 digits>_.<extension>; commit() takes the counter, one above the
     * highest present. `prefix` may hold a relative folder, which is made. ".." and absolute paths, control
     * characters and links that lead outside are refused. NULL with a message on ctx. */
    kiln_file *(*create)(kiln_ctx *, uint32_t where, const char *prefix, const char *extension);
    kiln_status (*write)(kiln_file *, const void *bytes, size_t n);
    /* After this the kiln_file is gone. *path (may be NULL) is relative to the folder and lives until
     * the call returns. The run reports the file to the user. */
    kiln_status (*commit)(kiln_file *, const char **path);
    /* A text about the run, to be written into its files; NULL when there is none:
     *   "prompt"      the workflow as executed, ComfyUI API-format JSON, ASCII
     *   "parameters"  the same in a few lines, as A1111-style readers know it
     *   "kiln"        kiln's own form with the parameters of its head, JSON, ASCII; `kiln run picture.png --set
     * NAME=VALUE` reads it */
    const char *(*text)(kiln_ctx *, const char *name);
    /* Whether create() would take this prefix: KILN_ERR_INVALID with its message on ctx. For a node's check(), so that
     * a name is refused before anything runs. Look with KILN_HAS(kiln_files_api, files, check). */
    kiln_status (*check)(kiln_ctx *, const char *prefix);
} kiln_files_api;

#ifdef __cplusplus
}
#endif
#endif
