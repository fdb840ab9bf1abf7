/* shipped.c - the workflows and models that come with kiln, under the names the documentation gives them, from any
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
    static const char *const roots[] = {"../share/kiln", "."}; /* PREFIX/bin/kiln; a build links to its workflows */
    if (strncmp(*name, "workflows/", strlen("workflows/")) != 0 || strstr(*name, "..") || exists(*name)) return;
    for (size_t i = 0; i < sizeof roots / sizeof roots[0]; i++) {
        char relative[SHIPPED_PATH_MAX];
        int n = snprintf(relative, sizeof relative, "%s/%s", roots[i], *name);
        if (n <= 0 || n >= SHIPPED_PATH_MAX || !install_find(relative, path, SHIPPED_PATH_MAX)) continue;
        log_info("%s is not in this folder; the one that kiln ships is taken: %s", *name, path);
        *name = path;
        return;
    }
}
