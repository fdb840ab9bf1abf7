/* open_catalog.h - the plugins for a command that lists what they bring: `kiln nodes`, `kiln samplers`, `kiln plugins`.
 */
#ifndef KILN_CLI_OPEN_CATALOG_H
#define KILN_CLI_OPEN_CATALOG_H

#include "cli/command.h"
#include "plugin/catalog.h"

#define PLUGINS_OPTION                                                                                                 \
    {                                                                                                                  \
        "--plugins", 0, "LIST", "folders or .so files to search first, ':' between them", 0                            \
    }

/* Opens the catalog with the --plugins of command `name`, and sets *status to EXIT_DONE. NULL after printing what is
 * wrong, with the exit status in *status. */
catalog *open_catalog(const char *name, const arguments *a, int *status);

#endif
