/* shipped.c - finds the workflows and models that kiln ships, so that the names in the documentation work in any
 * folder. */
#include "base/file.h"
#include "base/install.h"
#include "base/log.h"
#include "cli/command.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int exists(const char *path) { return file_exists(path) || folder_exists(path); }

void take_shipped(const char **name, char path[SHIPPED_PATH_MAX])
{
    static const char *const roots[] = {"../share/kiln",
                                        "."}; /* installed; a build folder with its link to workflows/ */
    if (strncmp(*name, "workflows/", strlen("workflows/")) != 0 || strstr(*name, "..") || exists(*name)) return;
    for (size_t i = 0; i < sizeof roots / sizeof roots[0]; i++) {
        char relative[SHIPPED_PATH_MAX];
        int n = snprintf(relative, sizeof relative, "%s/%s", roots[i], *name);
        if (n <= 0 || n >= SHIPPED_PATH_MAX || !install_find(relative, path, SHIPPED_PATH_MAX)) continue;
        log_info("%s is not in this folder; using the one that kiln ships: %s", *name, path);
        *name = path;
        return;
    }
}
