/* file_pieces.c - file_map_read(): a range of a mapped file, read in parallel with pread; see file.h.
 *
 * The range is cut at multiples of PIECE in the file, so no two threads touch one page, and each piece is read straight
 * to its place in the result. The file is opened for this one call and compared with the mapped one before and after,
 * so the bytes are known to be of that file.
 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const size_t PIECE = (size_t)2 << 20;

typedef struct {
    int fd;
    size_t at, bytes, first; /* first: index of the piece that contains byte `at` */
    char *dst;
    pthread_mutex_t lock;
    size_t failed_at; /* the lowest offset that could not be read; SIZE_MAX: none */
    int why;          /* errno; 0: the file ends there */
} reading;

static void failed(reading *r, size_t at, int why)
{
    pthread_mutex_lock(&r->lock);
    if (at < r->failed_at) r->failed_at = at, r->why = why;
    pthread_mutex_unlock(&r->lock);
}

static void read_piece(void *arg, size_t i)
{
    reading *r = arg;
    size_t from = (r->first + i) * PIECE, to = from + PIECE, end = r->at + r->bytes;
    if (from < r->at) from = r->at;
    if (to > end) to = end;
    while (from < to) {
        ssize_t n = pread(r->fd, r->dst + (from - r->at), to - from, (off_t)from);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            failed(r, from, n < 0 ? errno : 0);
            return;
        }
        from += (size_t)n;
    }
}

static kiln_status same(const file_map *m, int fd, error *e)
{
    struct stat st;
    if (fstat(fd, &st) != 0) return error_set(e, KILN_ERR_IO, "%s: cannot be checked: %s", m->path, strerror(errno));
    return file_map_is(m, &st, e);
}

kiln_status file_map_read(const file_map *m, size_t at, size_t bytes, void *dst, pool *p, error *e)
{
    if (at > m->size || bytes > m->size - at)
        return error_set(e, KILN_ERR_BUG, "%s: %zu bytes from byte %zu are not in it", m->path, bytes, at);
    int fd = open(m->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return error_set(e, KILN_ERR_IO, "%s: cannot be opened again: %s", m->path, strerror(errno));
    reading r = {.fd = fd, .at = at, .bytes = bytes, .first = at / PIECE, .dst = dst, .failed_at = SIZE_MAX};
    kiln_status status = same(m, fd, e);
    if (status == KILN_OK && bytes) {
        pthread_mutex_init(&r.lock, NULL);
        pool_for(p, (at + bytes - 1) / PIECE - r.first + 1, read_piece, &r);
        pthread_mutex_destroy(&r.lock);
        status = same(m, fd, e); /* a truncated file is reported as changed */
        if (status == KILN_OK && r.failed_at != SIZE_MAX)
            status = error_set(e, KILN_ERR_IO, "%s: byte %zu: cannot read: %s", m->path, r.failed_at,
                               r.why ? strerror(r.why) : "the file ends there");
    }
    close(fd);
    return status;
}
