/* ancestors.c - see ancestors.h. In a sticky folder an entry can be renamed only by its owner, the folder's owner and
 * root, so others' write permission does no harm there. */
#include "plugin/ancestors.h"

#include "base/trust.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static const char *one_fault(const char *folder)
{
    struct stat s;
    if (stat(folder, &s) != 0) return strerror(errno);
    if (s.st_mode & S_ISVTX) s.st_mode &= ~(mode_t)(S_IWOTH | S_IWGRP);
    return trust_fault(&s);
}

const char *ancestors_fault(const char *folder, char why[600])
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s", folder) >= (int)sizeof path) return "has too long a path";
    for (char *slash; (slash = strrchr(path, '/')) != NULL && path[1];) {
        slash[slash == path] = '\0';
        const char *fault = one_fault(path);
        if (!fault) continue;
        snprintf(why, 600, "lies below %.400s, which %s", path, fault);
        return why;
    }
    return NULL;
}
