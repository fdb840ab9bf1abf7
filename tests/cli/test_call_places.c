/* test_call_places.c - commands whose calls of the system and of libraries fail, at each place of the code that calls
 * (command_faults.h). This program's own functions stand before the C library's and the other libraries'; each fails as
 * its manual says. Not under sanitizers, which stand there themselves.
 */
#include "system_faults.h"

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__

static void test_runs(void) { test_skip("a sanitizer stands before the C library"); }
int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_runs)};
    return test_main(argc, argv, cases, 1);
}

#else

#include "command_table.h"

#include <poll.h>
#include <png.h>
#include <pthread.h>
#include <spawn.h>
#include <sqlite3.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <turbojpeg.h>
#include <yaml.h>

STANDS_BEFORE(int, -1, pipe2, (int fd[2], int how), (fd, how))
STANDS_BEFORE(int, -1, pipe, (int fd[2]), (fd))
STANDS_BEFORE(int, -1, stat, (const char *path, struct stat *st), (path, st))
STANDS_BEFORE(int, -1, lstat, (const char *path, struct stat *st), (path, st))
STANDS_BEFORE(int, -1, dup, (int fd), (fd))
STANDS_BEFORE(int, -1, dup2, (int a, int b), (a, b))
STANDS_BEFORE(int, -1, rmdir, (const char *path), (path))
STANDS_BEFORE(int, -1, symlink, (const char *to, const char *path), (to, path))
STANDS_BEFORE(int, -1, chmod, (const char *path, mode_t mode), (path, mode))
STANDS_BEFORE(int, -1, fchmod, (int fd, mode_t mode), (fd, mode))
STANDS_BEFORE(int, -1, access, (const char *path, int how), (path, how))
STANDS_BEFORE(int, -1, unlinkat, (int at, const char *path, int how), (at, path, how))
STANDS_BEFORE(int, -1, renameat2, (int a, const char *from, int b, const char *to, unsigned how), (a, from, b, to, how))
STANDS_BEFORE(ssize_t, -1, readlink, (const char *path, char *to, size_t n), (path, to, n))
STANDS_BEFORE(ssize_t, -1, getrandom, (void *to, size_t n, unsigned how), (to, n, how))
STANDS_BEFORE(char *, NULL, realpath, (const char *path, char *to), (path, to))
STANDS_BEFORE(char *, NULL, mkdtemp, (char *path), (path))
STANDS_BEFORE(DIR *, NULL, opendir, (const char *path), (path))
STANDS_BEFORE(DIR *, NULL, fdopendir, (int fd), (fd))
STANDS_BEFORE(FILE *, NULL, fopen, (const char *path, const char *how), (path, how))
STANDS_BEFORE(FILE *, NULL, fdopen, (int fd, const char *how), (fd, how))
STANDS_BEFORE(off_t, -1, lseek, (int fd, off_t at, int from), (fd, at, from))
STANDS_BEFORE(pid_t, -1, fork, (void), ())
STANDS_BEFORE(int, -1, mprotect, (void *p, size_t n, int may), (p, n, may))
STANDS_BEFORE(int, -1, poll, (struct pollfd * of, nfds_t n, int ms), (of, n, ms))
STANDS_BEFORE(int, -1, getrlimit, (__rlimit_resource_t what, struct rlimit *to), (what, to))
STANDS_BEFORE(int, -1, setrlimit, (__rlimit_resource_t what, const struct rlimit *to), (what, to))
STANDS_BEFORE(int, -1, inotify_init1, (int how), (how))
STANDS_BEFORE(int, -1, inotify_add_watch, (int fd, const char *path, uint32_t what), (fd, path, what))
STANDS_BEFORE(int, -1, signalfd, (int fd, const sigset_t *set, int how), (fd, set, how))
STANDS_BEFORE(pid_t, -1, waitpid, (pid_t pid, int *status, int how), (pid, status, how))
STANDS_BEFORE(int, ENOSPC, posix_fallocate, (int fd, off_t at, off_t n), (fd, at, n))
STANDS_BEFORE(int, EAGAIN, pthread_create, (pthread_t * t, const pthread_attr_t *how, void *(*run)(void *), void *arg),
              (t, how, run, arg))
STANDS_BEFORE(int, ENOMEM, pthread_mutex_init, (pthread_mutex_t * m, const pthread_mutexattr_t *how), (m, how))
STANDS_BEFORE(int, ENOMEM, posix_spawn,
              (pid_t *restrict pid, const char *restrict path, const posix_spawn_file_actions_t *restrict actions,
               const posix_spawnattr_t *restrict how, char *const argv[restrict], char *const env[restrict]),
              (pid, path, actions, how, argv, env))

STANDS_BEFORE(int, SQLITE_CANTOPEN, sqlite3_open_v2, (const char *path, sqlite3 **to, int how, const char *vfs),
              (path, to, how, vfs))
STANDS_BEFORE(int, SQLITE_IOERR, sqlite3_prepare_v2,
              (sqlite3 * db, const char *sql, int n, sqlite3_stmt **to, const char **rest), (db, sql, n, to, rest))
STANDS_BEFORE(int, SQLITE_NOMEM, sqlite3_prepare_v3,
              (sqlite3 * db, const char *sql, int n, unsigned how, sqlite3_stmt **to, const char **rest),
              (db, sql, n, how, to, rest))
STANDS_BEFORE(int, SQLITE_IOERR, sqlite3_step, (sqlite3_stmt * s), (s))
STANDS_BEFORE(int, SQLITE_FULL, sqlite3_exec,
              (sqlite3 * db, const char *sql, int (*row)(void *, int, char **, char **), void *arg, char **message),
              (db, sql, row, arg, message))
STANDS_BEFORE(int, SQLITE_NOMEM, sqlite3_bind_blob,
              (sqlite3_stmt * s, int i, const void *p, int n, void (*end)(void *)), (s, i, p, n, end))
STANDS_BEFORE(int, SQLITE_NOMEM, sqlite3_bind_text,
              (sqlite3_stmt * s, int i, const char *p, int n, void (*end)(void *)), (s, i, p, n, end))
STANDS_BEFORE(int, SQLITE_NOMEM, sqlite3_bind_int64, (sqlite3_stmt * s, int i, sqlite3_int64 v), (s, i, v))
STANDS_BEFORE(int, SQLITE_NOMEM, sqlite3_bind_double, (sqlite3_stmt * s, int i, double v), (s, i, v))
STANDS_BEFORE(const void *, NULL, sqlite3_column_blob, (sqlite3_stmt * s, int i), (s, i))
STANDS_BEFORE(const unsigned char *, NULL, sqlite3_column_text, (sqlite3_stmt * s, int i), (s, i))

STANDS_BEFORE(int, 0, yaml_parser_initialize, (yaml_parser_t * p), (p))
STANDS_BEFORE(int, 0, png_image_write_to_memory,
              (png_imagep p, void *to, png_alloc_size_t *restrict n, int eight, const void *from, png_int_32 row,
               const void *map),
              (p, to, n, eight, from, row, map))
STANDS_BEFORE(int, 0, png_image_finish_read, (png_imagep p, png_const_colorp back, void *to, png_int_32 row, void *map),
              (p, back, to, row, map))
STANDS_BEFORE(tjhandle, NULL, tjInitCompress, (void), ())
STANDS_BEFORE(tjhandle, NULL, tjInitDecompress, (void), ())

static void test_runs(void) { fail_commands(0, FIRST_CHECK); }
static void test_others(void) { fail_commands(FIRST_CHECK, COMMAND_ROWS); }

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_runs), CASE(test_others)};
    faults_are_calls = 1;
    calls_asked = request_fails;
    return commands_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
#endif
