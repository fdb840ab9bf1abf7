/* descriptors.c - see descriptors.h. The limit alone does not tell how many are left, since a process may inherit any
 * number of open files: so descriptors are duplicated and closed again. */
#include "base/descriptors.h"

#include "base/lock.h"

#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ASK_MAX = 32, RELIED_MAX = 64, LOOK_BELOW = 512 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    int fd;
    dev_t device;
    ino_t inode;
} relied[RELIED_MAX]; /* lock */
static int n_relied;

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

static int is_file(int fd, dev_t device, ino_t inode)
{
    struct stat s;
    return fstat(fd, &s) == 0 && s.st_dev == device && s.st_ino == inode;
}

static void add_relied(int fd, dev_t device, ino_t inode)
{
    pthread_mutex_lock(&lock);
    if (n_relied < RELIED_MAX) {
        relied[n_relied].fd = fd, relied[n_relied].device = device, relied[n_relied].inode = inode;
        n_relied++;
    }
    pthread_mutex_unlock(&lock);
}

void descriptors_rely_on(int fd)
{
    struct stat s;
    if (fd >= 0 && fstat(fd, &s) == 0) add_relied(fd, s.st_dev, s.st_ino);
}

void descriptors_rely_on_file(dev_t device, ino_t inode)
{
    for (int fd = 3; inode && fd < LOOK_BELOW; fd++)
        if (is_file(fd, device, inode)) add_relied(fd, device, inode);
}

/* Lock held. */
static void remove_relied(int i)
{
    assert(mutex_held(&lock));
    relied[i] = relied[--n_relied];
}

void descriptors_let_go(int fd)
{
    pthread_mutex_lock(&lock);
    for (int i = n_relied - 1; i >= 0; i--)
        if (relied[i].fd == fd) remove_relied(i);
    pthread_mutex_unlock(&lock);
}

void descriptors_let_go_file(dev_t device, ino_t inode)
{
    pthread_mutex_lock(&lock);
    for (int i = n_relied - 1; i >= 0; i--)
        if (relied[i].device == device && relied[i].inode == inode) remove_relied(i);
    pthread_mutex_unlock(&lock);
}

int descriptors_lost(void)
{
    int lost = 0;
    pthread_mutex_lock(&lock);
    for (int i = n_relied - 1; i >= 0; i--)
        if (!is_file(relied[i].fd, relied[i].device, relied[i].inode)) remove_relied(i), lost = 1;
    pthread_mutex_unlock(&lock);
    return lost;
}
