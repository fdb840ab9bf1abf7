/* descriptors.c - see descriptors.h. The limit alone does not tell how many are left, since a process may inherit any
 * number of open files: so descriptors are duplicated and closed again. */
#include "base/descriptors.h"

#include <assert.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

enum { ASK_MAX = 32 };

int descriptors_left(unsigned want)
{
    int fd[ASK_MAX];
    unsigned n = 0;
    assert(want <= ASK_MAX);
    while (n < want && (fd[n] = fcntl(2, F_DUPFD_CLOEXEC, 3)) >= 0) n++;
    for (unsigned i = 0; i < n; i++) close(fd[i]);
    return n == want;
}

unsigned long descriptors_limit(void)
{
    struct rlimit r;
    return getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur != RLIM_INFINITY ? (unsigned long)r.rlim_cur : 0;
}

kiln_status descriptors_ran_out(size_t plugins, error *e)
{
    return error_set(e, KILN_ERR_NOMEM,
                     "file descriptors ran out: this process may have %lu files open at once, and each of %zu plugins "
                     "holds one; allow it more, for instance with: ulimit -n %zu",
                     descriptors_limit(), plugins, plugins + DESCRIPTORS_ENOUGH);
}
