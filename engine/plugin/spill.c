/* spill.c - see spill.h. */
#include "plugin/spill.h"

#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Lies in the call's scratch. */
typedef struct spill_file {
    struct spill_file *next;
    int fd;
} spill_file;

/* -1 and errno. */
static int open_nameless(const char *folder)
{
    char path[4096];
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return fd;
    if ((size_t)snprintf(path, sizeof path, "%s/.kiln-XXXXXX", folder) >= sizeof path) return errno = ENAMETOOLONG, -1;
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0) unlink(path);
    return fd;
}

/* The standard streams' numbers may be free: what is printed would go into the file. */
static int above_standard_streams(int fd)
{
    if (fd < 0 || fd > 2) return fd;
    int higher = fcntl(fd, F_DUPFD_CLOEXEC, 3), why = errno;
    close(fd);
    errno = why;
    return higher;
}

static int reserve(int fd, size_t bytes)
{
    int why;
    if ((off_t)bytes < 0) return EFBIG;
    do why = bytes ? posix_fallocate(fd, 0, (off_t)bytes) : 0;
    while (why == EINTR);
    return why;
}

/* -1 and errno. */
static int make_file(const char *folder, size_t bytes)
{
    int fd = above_standard_streams(open_nameless(folder)), why = fd < 0 ? errno : reserve(fd, bytes);
    if (!why) return fd;
    if (fd >= 0) close(fd);
    errno = why;
    return -1;
}

static int keep_open(kiln_ctx *c, int fd)
{
    spill_file *f = arena_alloc(&c->scratch, sizeof *f);
    if (!f) {
        close(fd);
        return error_set(ctx_error(c), KILN_ERR_NOMEM, "out of memory"), -1;
    }
    *f = (spill_file){.next = c->spills, .fd = fd};
    c->spills = f;
    return fd;
}

int spill_new(kiln_ctx *c, size_t bytes)
{
    const char *given = getenv("TMPDIR");
    const char *folder[] = {ctx_env(c)->spill, given && *given ? given : "/var/tmp"};
    char tried[1400] = "", size[16];
    if (ctx_estimating(c))
        return error_set(ctx_error(c), KILN_ERR_BUG, "asks for a file to spill into in an estimate"), -1;
    for (size_t i = 0; i < 2; i++) {
        size_t n = strlen(tried);
        int fd = folder[i] ? make_file(folder[i], bytes) : -1;
        if (fd >= 0) return keep_open(c, fd);
        if (folder[i]) snprintf(tried + n, sizeof tried - n, "%s%.600s: %s", n ? "; " : "", folder[i], strerror(errno));
    }
    error_set(ctx_error(c), KILN_ERR_IO,
              "cannot put %s aside that do not fit into memory (%s); free some space there, name a folder with more in "
              "TMPDIR, or give more --memory",
              str_bytes(size, bytes), tried);
    return -1;
}

void spill_close(kiln_ctx *c)
{
    for (; c->spills; c->spills = c->spills->next) close(c->spills->fd);
}
