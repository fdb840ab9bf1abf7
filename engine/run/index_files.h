/* index_files.h - the files that are read with a model's file, so that they are part of the key of the node that names
 * it: of an index of shards (model.safetensors.index.json) the shards, and the texts beside it that the family reads
 * its settings from; of half a model (NAME_decoder.safetensors) the other half, where that is there. */
#ifndef KILN_RUN_INDEX_FILES_H
#define KILN_RUN_INDEX_FILES_H

#include "base/status.h"

/* Calls each(to, path) for the files that are read with `path`, in one order. For key_setting.beside; arg is not looked
 * at. */
kiln_status index_files(void *arg, const char *path, kiln_status (*each)(void *to, const char *path, error *e),
                        void *to, error *e);

#endif
