/* open_catalog.h - the plugins for a command that lists what they bring (`kiln nodes`, `kiln samplers`, `kiln plugins`)
 * or calls them without a run (`kiln check`, `kiln inspect`).
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

/* Before plugins' functions are called by a command that is no run. 0: one that is not kiln's own may take part, and a
 * child of this process has done the whole command (run/supervisor.h); *status is what it ended with. */
int contain_plugins(const arguments *a, int *status);

#endif
