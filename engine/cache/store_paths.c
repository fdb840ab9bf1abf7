/* store_paths.c - what lies below the cache's folder is opened here and nowhere else; see store_paths.h.
 *
 * A regular file or nothing: a FIFO would be waited for, a device may act when it is opened, a link leads out of the
 * folder. Hence O_NONBLOCK and O_NOFOLLOW for the opening, and a look at what was opened. SQLite opens its files by
 * itself: they are looked at before.
 */
#include "cache/open_store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *path_kind(const char *path)
{
    static const struct {
        mode_t kind;
        const char *name;
    } known[] = {
        {S_IFDIR, "a folder"},  {S_IFLNK, "a symbolic link"}, {S_IFIFO, "a FIFO"},
        {S_IFSOCK, "a socket"}, {S_IFCHR, "a device"},        {S_IFBLK, "a device"},
    };
    struct stat st;
    if (lstat(path, &st) != 0) return NULL;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if ((st.st_mode & S_IFMT) == known[i].kind) return known[i].name;
    return NULL;
}

int open_below(const char *path, int flags, int *why, error *e)
{
    struct stat st;
    int fd = open(path, flags | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC, 0600), failed = errno;
    if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))) {
        close(fd);
        fd = -1, failed = ELOOP;
    }
    if (fd >= 0) return fd;
    const char *kind = path_kind(path);
    if (kind) failed = ELOOP;
    if (why) *why = failed;
    if (kind)
        error_set(e, KILN_ERR_IO, "%s is %s, where a file belongs", path, kind);
    else
        error_set(e, KILN_ERR_IO, "%s: cannot be opened: %s", path, strerror(failed));
    return -1;
}

DIR *open_folder_below(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (fd >= 0 && !d) close(fd);
    return d;
}

kiln_status folder_private(const char *path, error *e)
{
    struct stat st;
    if (mkdir(path, 0700) == 0) return KILN_OK;
    int failed = errno;
    if (failed == EEXIST && lstat(path, &st) == 0 && S_ISDIR(st.st_mode)) return KILN_OK;
    const char *kind = failed == EEXIST ? path_kind(path) : NULL;
    if (failed == EEXIST)
        return error_set(e, KILN_ERR_IO, "%s is %s, where a folder belongs; move it away", path,
                         kind ? kind : "a file");
    return error_set(e, KILN_ERR_IO, "%s: cannot be made: %s", path, strerror(failed));
}

kiln_status folder_sync(const char *path, error *e)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    int ok = fd >= 0 && fsync(fd) == 0, failed = errno;
    if (fd >= 0) close(fd);
    return ok ? KILN_OK : error_set(e, KILN_ERR_IO, "%s: cannot be synced: %s", path, strerror(failed));
}
