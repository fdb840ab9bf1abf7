/* supervisor_store.c - see supervisor_store.h. The folder is locked as long as a process of the run lives, so that the
 * next run can tell which ones were left behind. */
#include "run/supervisor_store.h"

#include "base/memory_alloc.h"
#include "base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define STEM "kiln-run-"

static char made[512];
static int lock = -1;

/* A descriptor that holds the lock, or -1: somebody else does. */
static int take(const char *path)
{
    struct stat s;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &s) == 0 && s.st_uid == geteuid() && flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
    if (fd >= 0) close(fd);
    return -1;
}

static void remove_left(const char *folder)
{
    DIR *d = opendir(folder);
    for (struct dirent *x; d && (x = readdir(d));) {
        char *path = strncmp(x->d_name, STEM, strlen(STEM)) == 0 ? path_join(folder, x->d_name) : NULL;
        int fd = path ? take(path) : -1;
        if (fd >= 0) folder_remove(path), close(fd);
        mem_free(path);
    }
    if (d) closedir(d);
}

void supervisor_store_make(char *path, size_t capacity)
{
    const char *tmp = getenv("TMPDIR"), *folder = tmp && tmp[0] == '/' && access(tmp, W_OK) == 0 ? tmp : "/var/tmp";
    path[0] = made[0] = '\0';
    if (snprintf(made, sizeof made, "%s/" STEM "XXXXXX", folder) >= (int)sizeof made) made[0] = '\0';
    remove_left(folder);
    if (made[0] && !mkdtemp(made)) made[0] = '\0';
    if (made[0] && (lock = take(made)) < 0) rmdir(made), made[0] = '\0';
    snprintf(path, capacity, "%s", made);
}

void supervisor_store_remove(void)
{
    if (made[0]) folder_remove(made);
    if (lock >= 0) close(lock);
    made[0] = '\0';
    lock = -1;
}
