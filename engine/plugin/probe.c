/* probe.c - a plugin in a child process; see probe.h. */
#include "plugin/probe.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/memory_alloc.h"
#include "base/str.h"
#include "plugin/abilities.h"
#include "plugin/ctx.h"
#include "plugin/plugin_table.h"

#include <assert.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TABLE_BYTES_MAX = 64 << 20, TABLE_SECONDS = 3 };

/* How far the child has come: the last one it reports is what it was doing when it died. */
enum { STAGE_LOAD, STAGE_TABLE, STAGE_OPEN, STAGE_DONE };
static const char *const stage_name[] = {"while it was being loaded (a constructor?)", "while its table was being read",
                                         "in its open()", "after its open()"};

typedef struct {
    uint32_t stage;
    error why; /* status KILN_OK unless the child refused the plugin */
} report;

/* ---- the child ---- */

static void send_report(int fd, const report *r)
{
    for (size_t done = 0; done < sizeof *r;) {
        ssize_t n = write(fd, (const char *)r + done, sizeof *r - done);
        if (n <= 0 && errno != EINTR) return;
        if (n > 0) done += (size_t)n;
    }
}

/* Exit handlers run last registered first: this one keeps a plugin that calls exit() from running those that the parent
 * registered before the fork. */
static void leave(int status, void *arg)
{
    (void)arg;
    _exit(status);
}

static void quiet(void)
{
    on_exit(leave, NULL);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; null >= 0 && fd < 3; fd++) dup2(null, fd);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    static const int usual[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM, SIGINT, SIGALRM};
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++) signal(usual[i], SIG_DFL);
}

static void write_all(int fd, const str *s)
{
    for (size_t done = 0; done < s->len;) {
        ssize_t n = write(fd, s->data + done, s->len - done);
        if (n <= 0 && errno != EINTR) return;
        if (n > 0) done += (size_t)n;
    }
}

static int is_of(const char *id, const char *from, const char *name)
{
    const char *owner = registry_owner_of(from, name);
    return owner && strcmp(owner, id) == 0;
}

/* The nodes, before open(): of a plugin that ends its process there they are known. */
static void write_nodes(int fd, const kiln_plugin *table)
{
    str nodes = {0};
    table_pack(&nodes, table);
    if (fd >= 0 && !nodes.failed) write_all(fd, &nodes);
    str_free(&nodes);
}

/* What open() has registered. */
static void write_rows(int fd, const char *id)
{
    str rows = {0};
    for (size_t i = 0; i < sampler_api.sampler_count(); i++)
        if (is_of(id, "sampler", registry_name("sampler", i))) table_pack_sampler(&rows, sampler_api.sampler_at(i));
    for (size_t i = 0; i < sampler_api.schedule_count(); i++)
        if (is_of(id, "schedule", registry_name("schedule", i))) table_pack_schedule(&rows, sampler_api.schedule_at(i));
    if (registry_has_others_of(id)) table_pack_others(&rows);
    if (fd >= 0 && !rows.failed) write_all(fd, &rows);
    str_free(&rows);
}

static void child(int fd, int table_fd, const char *name, const char *data)
{
    report r = {.stage = STAGE_LOAD};
    arena memory = {0};
    kiln_plugin table;
    quiet();
    send_report(fd, &r);
    void *so = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!so) error_set(&r.why, KILN_ERR_INVALID, "%s", dlerror());
    const void *raw = so ? dlsym(so, "kiln_plugin_v1") : NULL;
    if (so && !raw)
        error_set(&r.why, KILN_ERR_INVALID,
                  "exports no kiln_plugin_v1, so it is not a plugin for this version of kiln");
    r.stage = STAGE_TABLE;
    send_report(fd, &r);
    if (raw && table_read(raw, &memory, &table, &r.why) == KILN_OK) {
        r.stage = STAGE_OPEN;
        send_report(fd, &r);
        write_nodes(table_fd, &table);
        registry_owner_set(table.id, data);
        if (table.open) table.open(&engine_host); /* its status matters when loader_open() calls it again */
        write_rows(table_fd, table.id);
        r.stage = STAGE_DONE;
    }
    send_report(fd, &r);
    _exit(0);
}

/* ---- the parent ---- */

/* Reads reports until the pipe closes or time is up; 0: time was up. */
static int listen_to(int fd, unsigned seconds, report *last)
{
    int64_t end = clock_ns() / 1000000 + (int64_t)seconds * 1000;
    report r;
    size_t have = 0;
    for (;;) {
        int64_t left = end - clock_ns() / 1000000;
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int ready = left > 0 ? poll(&p, 1, (int)left) : 0;
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0) return 0;
        ssize_t n = read(fd, (char *)&r + have, sizeof r - have);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return 1;
        have += (size_t)n;
        if (have == sizeof r) *last = r, have = 0;
    }
}

/* 1: the child ended, within a second; its status is not taken yet. */
static int has_ended(pid_t pid)
{
    for (int i = 0; i < 500; i++) {
        siginfo_t info = {0};
        if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid) return 1;
        nanosleep(&(struct timespec){0, 2000000}, NULL);
    }
    return 0;
}

/* *fatal: it crashed, ended the process or did not come back, rather than being refused. */
static kiln_status judge(const report *last, int ended, int wait_status, unsigned seconds, int *fatal, error *e)
{
    uint32_t stage = last->stage <= STAGE_DONE ? last->stage : STAGE_LOAD;
    *fatal = !ended || WIFSIGNALED(wait_status);
    if (!ended)
        return error_set(e, KILN_ERR_INVALID,
                         "did not come back within %u s %s; tried in a process of its own, which was stopped", seconds,
                         stage_name[stage]);
    if (WIFSIGNALED(wait_status))
        return error_set(e, KILN_ERR_INVALID,
                         "crashed with SIG%s %s; tried in a process of its own, kiln itself is unharmed",
                         sigabbrev_np(WTERMSIG(wait_status)), stage_name[stage]);
    if (last->why.status != KILN_OK)
        return error_set(e, last->why.status, "%.*s", (int)sizeof last->why.message - 1, last->why.message);
    *fatal = stage != STAGE_DONE || WEXITSTATUS(wait_status) != 0;
    if (*fatal)
        return error_set(e, KILN_ERR_INVALID, "ended the process with status %d %s; a plugin must never exit",
                         WEXITSTATUS(wait_status), stage_name[stage]);
    return KILN_OK;
}

static kiln_status try_plugin(const char *name, const char *data, unsigned seconds, int table_fd, int *fatal, error *e)
{
    int fd[2], wait_status = 0;
    assert(name && seconds > 0);
    *fatal = 0;
    if (pipe2(fd, O_CLOEXEC) != 0) return error_set(e, KILN_ERR_IO, "no pipe for trying it: %s", strerror(errno));
    fflush(NULL);
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        close(fd[0]);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(1);
        setpgid(0, 0);
        child(fd[1], table_fd, name, data);
    }
    close(fd[1]);
    if (pid < 0) {
        close(fd[0]);
        return error_set(e, KILN_ERR_IO, "no process for trying it: %s", strerror(errno));
    }
    report last = {.stage = STAGE_LOAD};
    int ended = listen_to(fd[0], seconds, &last);
    close(fd[0]);
    if (ended) ended = has_ended(pid);
    kill(pid, SIGKILL);
    kill(-pid, SIGKILL); /* and processes it may have started */
    while (waitpid(pid, &wait_status, 0) < 0 && errno == EINTR) continue;
    last.why.message[sizeof last.why.message - 1] = '\0';
    return judge(&last, ended, wait_status, seconds, fatal, e);
}

/* ---- what is remembered ---- */

enum { REMEMBERED_LIMIT = 1 << 18, TABLES_MAX = 256 };

/* Path of the list of plugins that passed, or of those that did not, with its folder made; NULL: there is none. */
static char *remembered_path(const char *list)
{
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    str folder = {0};
    if (base && base[0] == '/')
        str_printf(&folder, "%s/kiln", base);
    else if (home && home[0] == '/')
        str_printf(&folder, "%s/.cache/kiln", home);
    if (!folder.len || folder.failed || folder_make_private(folder.data, NULL) != KILN_OK) {
        str_free(&folder);
        return NULL;
    }
    str_append(&folder, list);
    return str_take(&folder);
}

/* Opens the list, if it belongs to the user and nobody else may write to it; otherwise -1. */
static int open_own(const char *list, int flags)
{
    char *path = remembered_path(list);
    struct stat s;
    int fd = path ? open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600) : -1;
    mem_free(path);
    if (fd >= 0 && (fstat(fd, &s) != 0 || !S_ISREG(s.st_mode) || s.st_uid != geteuid() || (s.st_mode & 022) ||
                    s.st_size > REMEMBERED_LIMIT)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Removes all of them when there are many: plugins that are made again and again leave one each time. */
static void limit_tables(const char *folder)
{
    size_t n = 0;
    DIR *d = opendir(folder);
    while (d && readdir(d)) n++;
    if (d) closedir(d);
    if (n > TABLES_MAX) folder_remove(folder);
}

/* The file with the table of the plugin of that key; -1: there is none. */
static int open_table(digest key, int flags)
{
    char name[64], hex[33];
    char *folder = remembered_path("/tables");
    if (folder && flags & O_CREAT) limit_tables(folder);
    int made = folder && folder_make_private(folder, NULL) == KILN_OK;
    mem_free(folder);
    snprintf(name, sizeof name, "/tables/%s", digest_hex(key, hex));
    return made ? open_own(name, flags) : -1;
}

/* ---- a table without the code ---- */

static kiln_status read_table(int fd, arena *memory, unpacked_table *out, str *bytes, error *e)
{
    off_t size = lseek(fd, 0, SEEK_END);
    if (size <= 0 || size > TABLE_BYTES_MAX)
        return error_set(e, KILN_ERR_INVALID, "its process ended before it said which nodes it has");
    char *read = mem_alloc((size_t)size);
    if (!read) return error_set(e, KILN_ERR_NOMEM, "out of memory");
    kiln_status status = pread(fd, read, (size_t)size, 0) == size
                             ? table_unpack(read, (size_t)size, memory, out, e)
                             : error_set(e, KILN_ERR_IO, "its table cannot be read: %s", strerror(errno));
    if (bytes && status == KILN_OK) str_append_n(bytes, read, (size_t)size);
    mem_free(read);
    return status;
}

kiln_status probe_table(const char *name, const char *data, digest key, arena *memory, unpacked_table *out, error *e)
{
    error why = {0};
    int fatal, fd = open_table(key, O_RDONLY);
    if (fd >= 0 && read_table(fd, memory, out, NULL, &why) == KILN_OK) return close(fd), KILN_OK;
    if (fd >= 0) close(fd);
    fd = memfd_create("table", MFD_CLOEXEC);
    if (fd < 0) return error_set(e, KILN_ERR_IO, "no memory for its table: %s", strerror(errno));
    try_plugin(name, data, TABLE_SECONDS, fd, &fatal, &why); /* whatever became of it later, it may have told */
    kiln_status status = read_table(fd, memory, out, NULL, e);
    close(fd);
    return status;
}

static void keep_table(int from, digest key)
{
    arena memory = {0};
    unpacked_table table;
    str bytes = {0};
    error why = {0};
    if (read_table(from, &memory, &table, &bytes, &why) == KILN_OK && !bytes.failed) {
        int fd = open_table(key, O_WRONLY | O_CREAT | O_TRUNC);
        if (fd >= 0) write_all(fd, &bytes), close(fd);
    }
    str_free(&bytes);
    arena_free(&memory);
}

kiln_status probe_plugin(const char *name, const char *data, unsigned seconds, digest key, int *fatal, error *e)
{
    int fd = memfd_create("table", MFD_CLOEXEC);
    kiln_status status = try_plugin(name, data, seconds, fd, fatal, e);
    if (status == KILN_OK && fd >= 0 && (key.lo || key.hi)) keep_table(fd, key);
    if (fd >= 0) close(fd);
    return status;
}

/* ---- plugins that passed before ---- */

enum { LINE = 33 };
static const char PASSED[] = "/probe", FAILED[] = "/probe-failed"; /* a line: the key; and a blank and why */

digest probe_key(const struct stat *s, digest content)
{
    hasher *h = hasher_new();
    if (!h) return (digest){0, 0};
    hash_text(h, "kiln probe 1 " KILN_VERSION);
    hash_u64(h, sizeof(kiln_node) ^ sizeof(kiln_host) << 16);
    hash_u64(h, s->st_dev);
    hash_u64(h, s->st_ino);
    hash_u64(h, (uint64_t)s->st_size);
    hash_u64(h, (uint64_t)s->st_mtim.tv_sec);
    hash_u64(h, (uint64_t)s->st_mtim.tv_nsec);
    hash_u64(h, (uint64_t)s->st_ctim.tv_sec);
    hash_u64(h, (uint64_t)s->st_ctim.tv_nsec);
    hash_digest(h, content);
    digest d = hasher_digest(h);
    hasher_free(h);
    return d;
}

int probe_remembered(digest key)
{
    char hex[33], *text = mem_alloc(REMEMBERED_LIMIT + 1);
    int fd = text ? open_own(PASSED, O_RDONLY) : -1, found = 0;
    size_t have = 0;
    for (ssize_t n; fd >= 0 && have < REMEMBERED_LIMIT && (n = read(fd, text + have, REMEMBERED_LIMIT - have)) > 0;)
        have += (size_t)n;
    if (fd >= 0) close(fd);
    digest_hex(key, hex);
    for (size_t i = 0; !found && (key.lo || key.hi) && i + LINE <= have; i += LINE)
        found = memcmp(text + i, hex, 32) == 0;
    mem_free(text);
    return found;
}

void probe_remember(digest key)
{
    char line[LINE + 1];
    struct stat s;
    int fd = open_own(PASSED, O_WRONLY | O_CREAT | O_APPEND);
    if (fd < 0) return;
    digest_hex(key, line);
    line[32] = '\n';
    if (fstat(fd, &s) == 0 && (s.st_size > REMEMBERED_LIMIT - 64 || s.st_size % LINE) && ftruncate(fd, 0) != 0) {
        close(fd);
        return;
    }
    if (write(fd, line, LINE) != LINE && ftruncate(fd, 0) != 0) { /* the next call truncates a list with half a line */
    }
    close(fd);
}

/* ---- plugins that did not ---- */

int probe_failed(digest key, char *why, size_t capacity)
{
    char hex[33], *text = mem_alloc(REMEMBERED_LIMIT + 1);
    int fd = text ? open_own(FAILED, O_RDONLY) : -1, found = 0;
    size_t have = 0;
    for (ssize_t n; fd >= 0 && have < REMEMBERED_LIMIT && (n = read(fd, text + have, REMEMBERED_LIMIT - have)) > 0;)
        have += (size_t)n;
    if (fd >= 0) close(fd);
    if (text) text[have] = '\0';
    digest_hex(key, hex);
    for (char *at = text, *end; at && *at && !found && (key.lo || key.hi); at = end + (*end != '\0')) {
        end = at + strcspn(at, "\n");
        found = end - at > LINE && memcmp(at, hex, 32) == 0 && at[32] == ' ';
        if (found) snprintf(why, capacity, "%.*s", (int)(end - at - LINE), at + LINE);
    }
    mem_free(text);
    return found;
}

void probe_remember_failed(digest key, const char *why)
{
    char hex[33];
    struct stat s;
    str line = {0};
    int fd = open_own(FAILED, O_WRONLY | O_CREAT | O_APPEND);
    if (fd < 0) return;
    str_printf(&line, "%s ", digest_hex(key, hex));
    for (const char *p = why; *p; p++) str_char(&line, (unsigned char)*p < 0x20 ? ' ' : *p);
    str_char(&line, '\n');
    int room =
        !line.failed && fstat(fd, &s) == 0 && (s.st_size + (off_t)line.len < REMEMBERED_LIMIT || ftruncate(fd, 0) == 0);
    if (room && write(fd, str_text(&line), line.len) != (ssize_t)line.len && ftruncate(fd, 0) != 0) {
    } /* half a line is no key */
    str_free(&line);
    close(fd);
}
