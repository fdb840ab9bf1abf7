/* ability_files.c - "kiln.files/1": results appear whole, under names nobody else has, inside the output folder.
 *
 * A name is reserved by creating <prefix>_<counter>_.<ext>'s hidden temporary and, on commit, linking it to the first
 * free counter: link() fails when another process was faster, and the next counter is tried. So two processes never write
 * one name and a half-written file is never seen. Folders below --out are opened one by one without following links.
 */
#include "base/file.h"
#include "base/memory_alloc.h"
#include "base/str.h"
#include "plugin/abilities.h"
#include "plugin/ctx.h"
#include "plugin/output.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PREFIX_MAX = 200, COUNTER_MAX = 99999999, TRIES_MAX = 100000 };

struct kiln_file {
    kiln_file *next; /* in ctx->files */
    kiln_ctx *ctx;
    int folder, fd; /* open folder, open temporary */
    char temp[64], base[PREFIX_MAX + 8], extension[16], subfolder[PREFIX_MAX + 8];
    int failed; /* errno of the first write that failed */
};

static kiln_status bad_prefix(kiln_ctx *c, const char *prefix, const char *why)
{
    return error_set(ctx_error(c), KILN_ERR_INVALID, "file name prefix '%.100s' %s", prefix, why);
}

static kiln_status check_prefix(kiln_ctx *c, const char *prefix)
{
    size_t n = strlen(prefix);
    if (n == 0 || n > PREFIX_MAX) return bad_prefix(c, prefix, "must have 1 to 200 characters");
    if (prefix[0] == '/') return bad_prefix(c, prefix, "is an absolute path; it is taken below the output folder");
    if (prefix[n - 1] == '/') return bad_prefix(c, prefix, "ends in '/', so there is no file name");
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)prefix[i] < 32 || prefix[i] == 127 || prefix[i] == '\\') return bad_prefix(c, prefix, "holds a control character or a backslash");
    for (const char *p = prefix; *p;) {
        size_t part = strcspn(p, "/");
        if (part == 0 || (p[0] == '.' && (part == 1 || (part == 2 && p[1] == '.')))) return bad_prefix(c, prefix, "must not hold '.', '..' or empty folders");
        p += part + (p[part] == '/');
    }
    return utf8_valid(prefix, n) ? KILN_OK : bad_prefix(c, prefix, "is not UTF-8");
}

/* Opens, and makes when absent, folder `name` inside `parent`, which is closed. */
static int enter(int parent, const char *name)
{
    int made = mkdirat(parent, name, 0777), failed = errno;
    int fd = made == 0 || failed == EEXIST ? openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    failed = fd < 0 && (made == 0 || failed == EEXIST) ? errno : failed;
    close(parent);
    errno = failed;
    return fd;
}

/* The folder part of prefix below root, opened; *rest is the file part. */
static int open_folder(const char *root, const char *prefix, const char **rest)
{
    int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (const char *slash; fd >= 0 && (slash = strchr(prefix, '/')); prefix = slash + 1) {
        char part[PREFIX_MAX + 1];
        snprintf(part, sizeof part, "%.*s", (int)(slash - prefix), prefix);
        fd = enter(fd, part);
    }
    *rest = prefix;
    return fd;
}

static kiln_file *create(kiln_ctx *c, uint32_t where, const char *prefix, const char *extension)
{
    const output_folder *out = c && c->env ? c->env->output : NULL;
    const char *base;
    if (!out) return error_set(ctx_error(c), KILN_ERR_UNSUPPORTED, "this run has no output folder"), NULL;
    if (check_prefix(c, prefix) != KILN_OK) return NULL;
    if (!extension[0] || strlen(extension) > 8 || strpbrk(extension, "/.\\ ")) return bad_prefix(c, extension, "is not an extension"), NULL;
    kiln_file *f = mem_calloc(1, sizeof *f);
    if (!f) return error_set(ctx_error(c), KILN_ERR_NOMEM, "out of memory"), NULL;
    char below[PREFIX_MAX + 8];
    snprintf(below, sizeof below, "%s%s", where == KILN_FILES_TEMP ? "temp/" : "", prefix);
    f->ctx = c;
    f->fd = -1;
    f->folder = open_folder(out->path, below, &base);
    snprintf(f->subfolder, sizeof f->subfolder, "%.*s", (int)(base - below), below);
    snprintf(f->base, sizeof f->base, "%s", base);
    snprintf(f->extension, sizeof f->extension, "%s", extension);
    for (int i = 0; f->folder >= 0 && f->fd < 0 && i < 100; i++) {
        snprintf(f->temp, sizeof f->temp, ".kiln-%ld-%p-%d.tmp", (long)getpid(), (void *)f, i);
        f->fd = openat(f->folder, f->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (f->fd < 0 && errno != EEXIST) break;
    }
    if (f->fd < 0) {
        error_set(ctx_error(c), KILN_ERR_IO, "%s/%s: cannot write: %s", out->path, below, errno == ELOOP || errno == ENOTDIR ? "a folder on the way is a link or a file" : strerror(errno));
        if (f->folder >= 0) close(f->folder);
        mem_free(f);
        return NULL;
    }
    f->next = c->files;
    c->files = f;
    return f;
}

static kiln_status write_bytes(kiln_file *f, const void *bytes, size_t n)
{
    const char *p = bytes;
    while (n > 0 && !f->failed) {
        ssize_t done = write(f->fd, p, n);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) {
            f->failed = done < 0 ? errno : EIO;
            break;
        }
        p += done;
        n -= (size_t)done;
    }
    return f->failed ? error_set(ctx_error(f->ctx), KILN_ERR_IO, "%s%s: cannot write: %s", f->subfolder, f->base, strerror(f->failed)) : KILN_OK;
}

static void forget(kiln_file *f)
{
    for (kiln_file **at = &f->ctx->files; *at; at = &(*at)->next)
        if (*at == f) {
            *at = f->next;
            break;
        }
    if (f->fd >= 0) close(f->fd);
    unlinkat(f->folder, f->temp, 0);
    close(f->folder);
    mem_free(f);
}

void files_discard(kiln_ctx *c)
{
    while (c->files) forget(c->files);
}

/* One above the highest counter among the folder's <base>_<digits>_.*, 1 when there is none. */
static long next_counter(const kiln_file *f)
{
    long most = 0;
    size_t n = strlen(f->base);
    int fd = openat(f->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d && fd >= 0) close(fd);
    for (struct dirent *x; d && (x = readdir(d));) {
        if (strncmp(x->d_name, f->base, n) != 0 || x->d_name[n] != '_') continue;
        char *end;
        long counter = strtol(x->d_name + n + 1, &end, 10);
        if (end != x->d_name + n + 1 && *end == '_' && counter > most && counter < COUNTER_MAX) most = counter;
    }
    if (d) closedir(d);
    return most + 1;
}

static kiln_status publish(kiln_file *f, char name[PREFIX_MAX + 48])
{
    long counter = next_counter(f);
    for (int i = 0; i < TRIES_MAX; i++, counter++) {
        snprintf(name, PREFIX_MAX + 48, "%s_%05ld_.%s", f->base, counter, f->extension);
        if (linkat(f->folder, f->temp, f->folder, name, 0) == 0) return KILN_OK;
        if (errno == EEXIST) continue;
        if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS) break;
        /* A file system without links: the name is reserved by an empty file, which the rename replaces. */
        int fd = openat(f->folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno == EEXIST) continue;
        if (fd < 0) break;
        close(fd);
        if (renameat(f->folder, f->temp, f->folder, name) == 0) return KILN_OK;
        break;
    }
    return error_set(ctx_error(f->ctx), KILN_ERR_IO, "%s%s: cannot be given a name: %s", f->subfolder, f->base, strerror(errno));
}

static kiln_status commit(kiln_file *f, const char **path)
{
    kiln_ctx *c = f->ctx;
    char name[PREFIX_MAX + 48];
    kiln_status status = f->failed ? KILN_ERR_IO : KILN_OK;
    if (status == KILN_OK && fsync(f->fd) != 0 && errno != EINVAL)
        status = error_set(ctx_error(c), KILN_ERR_IO, "%s%s: cannot write: %s", f->subfolder, f->base, strerror(errno));
    if (status == KILN_OK) status = publish(f, name);
    if (status == KILN_OK) {
        fsync(f->folder);
        const char *relative = arena_printf(&c->scratch, "%s%s", f->subfolder, name);
        const char *full = arena_printf(&c->scratch, "%s/%s%s", c->env->output->path, f->subfolder, name);
        if (path) *path = relative;
        if (c->env->file && full) c->env->file(c->env->arg, c->node, full);
    }
    forget(f);
    return status;
}

static const char *text(kiln_ctx *c, const char *name) { return c && c->env && c->env->text ? c->env->text(c->env->arg, c->node, name) : NULL; }

const kiln_files_api files_api = {.size = sizeof(kiln_files_api), .create = create, .write = write_bytes, .commit = commit, .text = text};
