/* shipped.c - finds the workflows and models that kiln ships, so that the names in the documentation work in any
 * folder. */
#include "base/file.h"
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
    char exe[SHIPPED_PATH_MAX];
    if (strncmp(*name, "workflows/", strlen("workflows/")) != 0 || strstr(*name, "..") || exists(*name)) return;
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    exe[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(exe, '/');
    if (!slash) return;
    *slash = '\0';
    for (size_t i = 0; i < sizeof roots / sizeof roots[0]; i++) {
        int length = snprintf(path, SHIPPED_PATH_MAX, "%s/%s/%s", exe, roots[i], *name);
        if (length <= 0 || length >= SHIPPED_PATH_MAX || !exists(path)) continue;
        log_info("%s is not in this folder; using the one that kiln ships: %s", *name, path);
        *name = path;
        return;
    }
}
