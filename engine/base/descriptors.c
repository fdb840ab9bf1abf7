/* descriptors.c - see descriptors.h. The limit alone says little: a process may be born with any number of files open.
 */
#include "base/descriptors.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

enum { ASK_MAX = 32 };

int descriptors_left(unsigned want)
{
    int fd[ASK_MAX];
    unsigned n = 0;
    if (want > ASK_MAX) want = ASK_MAX;
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
