/* ability_files.c - "kiln.files/1": the files that a run writes.
 *
 * The content goes into a file without a name (O_TMPFILE), which linkat() names once it is complete and synced.
 * linkat() never replaces a file, so the first free number is found without a race, and a killed process leaves nothing
 * behind. File systems without O_TMPFILE get a hidden temporary name and a rename. Folders below the output folder are
 * opened with RESOLVE_BENEATH, so that no link leads out of it.
 */
#include "base/file.h"
#include "base/log.h"
#include "base/memory_alloc.h"
#include "base/str.h"
#include "base/unfinished.h"
#include "plugin/abilities.h"
#include "plugin/ctx.h"
#include "plugin/output.h"
#include "plugin/supervised.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { STEM_MAX = 200, PREFIX_MAX = 1024, EXTENSION_MAX = 16, TRIES = 100000 };

struct kiln_file {
    kiln_ctx *ctx;
    struct kiln_file *next;
    int folder, fd;     /* descriptors */
    char temporary[40]; /* "" for a file without a name */
    int listed;         /* slot of base/unfinished.h while it has a temporary name, or -1 */
    char stem[STEM_MAX + 1], extension[EXTENSION_MAX + 1];
    char inside[PREFIX_MAX + 1]; /* "shapes/": the folder below the root, "" for the root */
    const char *name;            /* the name it is to have, over what has it; NULL: the first free number */
    uint32_t where;
    kiln_status failed; /* status of the first write that failed */
};

/* ---- names ---- */

static kiln_status refuse(kiln_ctx *c, const char *prefix, const char *why)
{
    return error_set(ctx_error(c), KILN_ERR_INVALID, "the file name prefix '%.80s' %s", prefix, why);
}

static kiln_status check_prefix(kiln_ctx *c, const char *prefix)
{
    size_t n = prefix ? strnlen(prefix, PREFIX_MAX + 1) : 0;
    if (n == 0) return error_set(ctx_error(c), KILN_ERR_INVALID, "the file name prefix is empty; give it a name");
    if (n > PREFIX_MAX) return refuse(c, prefix, "is too long");
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)prefix[i] < 0x20 || prefix[i] == 0x7f)
            return error_set(ctx_error(c), KILN_ERR_INVALID,
                             "the file name prefix holds the control character 0x%02x; take it out",
                             (unsigned char)prefix[i]);
    if (!utf8_valid(prefix, n)) return error_set(ctx_error(c), KILN_ERR_INVALID, "the file name prefix is not UTF-8");
    if (prefix[0] == '/')
        return refuse(c, prefix,
                      "is an absolute path; results stay below the output folder (--out), so give a relative one");
    for (const char *part = prefix; *part;) {
        size_t len = strcspn(part, "/");
        if (len > NAME_MAX && part[len]) return refuse(c, prefix, "has a folder with a name longer than 255 bytes");
        if (len == 2 && part[0] == '.' && part[1] == '.')
            return refuse(c, prefix, "holds '..'; results stay below the output folder (--out)");
        part += len + (part[len] == '/');
    }
    const char *stem = strrchr(prefix, '/');
    stem = stem ? stem + 1 : prefix;
    if (!stem[0] || strcmp(stem, ".") == 0)
        return refuse(c, prefix, "names a folder; add the beginning of a file name");
    if (strlen(stem) > STEM_MAX) return refuse(c, prefix, "has a name longer than 200 bytes");
    return KILN_OK;
}

static kiln_status check_extension(kiln_ctx *c, const char *extension)
{
    size_t n = extension ? strnlen(extension, EXTENSION_MAX + 1) : 0;
    int good = n > 0 && n <= EXTENSION_MAX;
    for (size_t i = 0; good && i < n; i++)
        good = (extension[i] >= 'a' && extension[i] <= 'z') || (extension[i] >= '0' && extension[i] <= '9');
    return good ? KILN_OK
                : error_set(ctx_error(c), KILN_ERR_BUG, "a file extension is 1 to %d of a-z and 0-9", EXTENSION_MAX);
}

/* ---- folders ---- */

/* Opens folder `name` in `parent`; `path` is the same folder relative to `root`, which links must not leave. Before
 * Linux 5.6 there is no openat2(), and a link is not followed at all. */
static int open_beneath(int root, const char *path, int parent, const char *name)
{
    struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    long fd = syscall(SYS_openat2, root, path, &how, sizeof how);
    if (fd >= 0 || (errno != ENOSYS && errno != EPERM)) return (int)fd;
    return openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Opens the folder at the relative path `inside` ("a/b/") and makes those that are missing. -1 and errno. */
static int open_inside(int root, const char *inside)
{
    char so_far[PREFIX_MAX + 1], name[NAME_MAX + 1];
    int fd = fcntl(root, F_DUPFD_CLOEXEC, 3), why = 0;
    for (const char *part = inside; fd >= 0 && *part;) {
        size_t len = strcspn(part, "/"), used = (size_t)(part - inside) + len;
        int here = len == 0 || (len == 1 && part[0] == '.');
        part += len + (part[len] == '/');
        if (here) continue;
        snprintf(so_far, sizeof so_far, "%.*s", (int)used, inside);
        snprintf(name, sizeof name, "%.*s", (int)len, inside + used - len);
        int made = len <= NAME_MAX && (mkdirat(fd, name, 0777) == 0 || errno == EEXIST);
        if (len > NAME_MAX) errno = ENAMETOOLONG;
        int next = made ? open_beneath(root, so_far, fd, name) : -1;
        why = errno;
        close(fd);
        fd = next;
    }
    if (fd < 0 && why) errno = why;
    return fd;
}

static int open_folder(kiln_ctx *c, const struct output_folder *out, const char *inside)
{
    int root = open(out->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0 && errno == ENOENT && supervision && mkdir(out->path, 0777) == 0) { /* a plugin has moved it */
        log_warn("the output folder %s was gone; it was made again", out->path);
        root = open(out->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    int fd = root >= 0 ? open_inside(root, inside) : -1, why = errno;
    if (root >= 0) close(root);
    if (fd >= 0) return fd;
    if (why == EXDEV || why == ELOOP)
        error_set(ctx_error(c), KILN_ERR_INVALID,
                  "%s/%s leads out of the output folder through a link; take the link away or write elsewhere",
                  out->path, inside);
    else
        error_set(ctx_error(c), KILN_ERR_IO, "cannot write to the folder %s/%s: %s; choose another with --out",
                  out->path, inside, strerror(why));
    return -1;
}

/* ---- the file ---- */

static int open_temporary(kiln_file *f)
{
    f->fd = openat(f->folder, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
    if (f->fd >= 0) return 1;
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL && errno != ENOENT) return 0;
    for (int i = 0; i < 16; i++) {
        uint64_t r = 0;
        if (getrandom(&r, sizeof r, 0) != sizeof r) return 0;
        snprintf(f->temporary, sizeof f->temporary, ".kiln-%016llx.tmp", (unsigned long long)r);
        f->fd = openat(f->folder, f->temporary, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (f->fd >= 0 || errno != EEXIST) break;
    }
    if (f->fd >= 0) f->listed = unfinished_begin(f->folder, f->temporary);
    return f->fd >= 0;
}

static void file_free(kiln_file *f)
{
    if (f->fd >= 0) close(f->fd);
    if (f->temporary[0] && f->folder >= 0) unlinkat(f->folder, f->temporary, 0);
    unfinished_end(f->listed);
    if (f->folder >= 0) close(f->folder);
    mem_free(f);
}

/* Takes the file off its call's list and frees it. */
static void file_drop(kiln_file *f)
{
    kiln_file **at = &f->ctx->files;
    while (*at && *at != f) at = &(*at)->next;
    if (*at) *at = f->next;
    file_free(f);
}

void files_discard(kiln_ctx *c)
{
    while (c->files) file_drop(c->files);
}

/* The ending of the name that the one result is to have; NULL: nobody has named it. */
static const char *wanted_extension(const kiln_ctx *c)
{
    const char *file = ctx_env(c)->output ? c->env->output->file : NULL, *dot = file ? strrchr(file, '.') : NULL;
    return dot ? dot + 1 : NULL;
}

/* Of several results the first has the name, and the others numbers behind it. */
static kiln_status check_named(kiln_ctx *c, uint32_t where, const char *extension, int *is_first)
{
    struct output_folder *out = c->env->output;
    const char *wanted = wanted_extension(c);
    if (!out->file || where != KILN_FILES_OUTPUT) return KILN_OK;
    if (!wanted || strcasecmp(wanted, extension) != 0)
        return error_set(ctx_error(c), KILN_ERR_INVALID, "-o %s: this node writes .%s files; end the name so",
                         out->file, extension);
    int before = atomic_fetch_add(&out->taken, 1);
    if (before == 1)
        log_warn(
            "-o %s: there is more than one result; those after the first are called %.*s_00001_%s and so on; --out "
            "FOLDER and filename_prefix name them all",
            out->file, (int)(strrchr(out->file, '.') - out->file), out->file, strrchr(out->file, '.'));
    *is_first = before == 0;
    return KILN_OK;
}

static kiln_file *create(kiln_ctx *c, uint32_t where, const char *prefix, const char *extension)
{
    const struct output_folder *out = ctx_env(c)->output;
    if (ctx_estimating(c))
        return error_set(ctx_error(c), KILN_ERR_BUG, "writes a file in an estimate, where nothing may be left behind"),
               NULL;
    if (!out || !out->path)
        return error_set(ctx_error(c), KILN_ERR_UNSUPPORTED,
                         "there is no output folder in this run, so nothing can be written"),
               NULL;
    if (where != KILN_FILES_OUTPUT && where != KILN_FILES_TEMP)
        return error_set(ctx_error(c), KILN_ERR_BUG, "create() takes KILN_FILES_OUTPUT or KILN_FILES_TEMP, not %u",
                         where),
               NULL;
    if (check_prefix(c, prefix) != KILN_OK || check_extension(c, extension) != KILN_OK) return NULL;
    int is_first = 1;
    if (check_named(c, where, extension, &is_first) != KILN_OK) return NULL;
    kiln_file *f = mem_calloc(1, sizeof *f);
    if (!f) return error_set(ctx_error(c), KILN_ERR_NOMEM, "out of memory"), NULL;
    const char *slash = strrchr(prefix, '/'), *stem = slash ? slash + 1 : prefix;
    int is_named = out->file && where == KILN_FILES_OUTPUT;
    if (is_named) prefix = stem; /* in the folder itself */
    if (is_named && is_first) f->name = out->file;
    f->ctx = c, f->where = where, f->fd = f->folder = f->listed = -1;
    if (is_named)
        snprintf(f->stem, sizeof f->stem, "%.*s", (int)(strrchr(out->file, '.') - out->file), out->file);
    else
        snprintf(f->stem, sizeof f->stem, "%s", stem);
    snprintf(f->extension, sizeof f->extension, "%s", extension);
    snprintf(f->inside, sizeof f->inside, "%s%.*s", where == KILN_FILES_TEMP ? "temp/" : "", (int)(stem - prefix),
             prefix);
    f->folder = open_folder(c, out, f->inside);
    if (f->folder >= 0 && !open_temporary(f))
        error_set(ctx_error(c), KILN_ERR_IO, "cannot make a file in %s/%s: %s; choose another folder with --out",
                  out->path, f->inside, strerror(errno));
    if (f->folder < 0 || f->fd < 0) {
        file_free(f);
        return NULL;
    }
    f->next = c->files;
    c->files = f;
    return f;
}

static kiln_status file_write(kiln_file *f, const void *bytes, size_t n)
{
    const char *at = bytes;
    while (f->failed == KILN_OK && n > 0) {
        ssize_t done = write(f->fd, at, n < (1u << 30) ? n : 1u << 30);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0)
            f->failed = error_set(
                ctx_error(f->ctx), KILN_ERR_IO, "cannot write %s%s: %s%s", f->inside, f->stem,
                done < 0 ? strerror(errno) : "nothing was taken",
                errno == ENOSPC || errno == EDQUOT ? "; free some space, or choose another folder with --out" : "");
        else
            at += done, n -= (size_t)done;
    }
    return f->failed;
}

/* ---- commit ---- */

/* One above the highest counter of "<stem>_<counter>_" among the folder's files, whatever their extension. */
static uint64_t next_counter(const kiln_file *f)
{
    size_t stem = strlen(f->stem);
    uint64_t highest = 0;
    int fd = openat(f->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d && fd >= 0) close(fd);
    for (struct dirent *item; d && (item = readdir(d));) {
        const char *name = item->d_name;
        if (strncmp(name, f->stem, stem) != 0 || name[stem] != '_') continue;
        size_t digits = strspn(name + stem + 1, "0123456789");
        uint64_t counter;
        if (digits && digits < 19 && name[stem + 1 + digits] == '_' && str_to_u64(name + stem + 1, digits, &counter) &&
            counter > highest)
            highest = counter;
    }
    if (d) closedir(d);
    return highest + 1;
}

/* Names the file, unless that name is taken. 0, or errno. */
static int publish(const kiln_file *f, const char *name)
{
    char open_file[64];
    if (!f->temporary[0]) {
        snprintf(open_file, sizeof open_file, "/proc/self/fd/%d", f->fd);
        return linkat(AT_FDCWD, open_file, f->folder, name, AT_SYMLINK_FOLLOW) == 0 ? 0 : errno;
    }
    if (renameat2(f->folder, f->temporary, f->folder, name, RENAME_NOREPLACE) == 0) return 0;
    if (errno != EINVAL && errno != ENOSYS) return errno;
    return linkat(f->folder, f->temporary, f->folder, name, 0) == 0
               ? 0
               : errno; /* the temporary name goes with file_free() */
}

/* Takes the place of what has the name, in one step. */
static int replace_with(kiln_file *f)
{
    char open_file[64];
    if (!f->temporary[0]) {
        uint64_t r = 0;
        if (getrandom(&r, sizeof r, 0) != sizeof r) return errno;
        snprintf(f->temporary, sizeof f->temporary, ".kiln-%016llx.tmp", (unsigned long long)r);
        snprintf(open_file, sizeof open_file, "/proc/self/fd/%d", f->fd);
        f->listed = unfinished_begin(f->folder, f->temporary);
        if (linkat(AT_FDCWD, open_file, f->folder, f->temporary, AT_SYMLINK_FOLLOW) != 0) return errno;
    }
    return renameat(f->folder, f->temporary, f->folder, f->name) == 0 ? 0 : errno;
}

static kiln_status name_as_asked(kiln_file *f, char *name, size_t capacity)
{
    int why = replace_with(f);
    snprintf(name, capacity, "%s", f->name);
    if (why == 0 && fsync(f->folder) != 0 && errno != EINVAL) why = errno;
    return why ? error_set(ctx_error(f->ctx), KILN_ERR_IO, "cannot name the file %s: %s", f->name, strerror(why))
               : KILN_OK;
}

static kiln_status name_it(kiln_file *f, char *name, size_t capacity)
{
    if (f->name) return name_as_asked(f, name, capacity);
    uint64_t counter = next_counter(f);
    for (int i = 0; i < TRIES; i++, counter++) {
        snprintf(name, capacity, "%s_%05llu_.%s", f->stem, (unsigned long long)counter, f->extension);
        int why = publish(f, name);
        if (why == 0)
            return fsync(f->folder) == 0 || errno == EINVAL
                       ? KILN_OK
                       : error_set(ctx_error(f->ctx), KILN_ERR_IO, "cannot write the folder of %s: %s", name,
                                   strerror(errno));
        if (why != EEXIST)
            return error_set(ctx_error(f->ctx), KILN_ERR_IO, "cannot name the file %s%s: %s", f->inside, name,
                             strerror(why));
    }
    return error_set(ctx_error(f->ctx), KILN_ERR_IO, "no free number for %s%s", f->inside, f->stem);
}

/* Where the file's folder lies, without a slash at its end: "out/shapes". NULL: no memory. */
static const char *folder_path(const kiln_file *f)
{
    kiln_ctx *c = f->ctx;
    char *path = arena_printf(&c->scratch, "%s/%s", c->env->output->path, f->inside);
    for (size_t n = path ? strlen(path) : 0; n > 1 && path[n - 1] == '/'; n--) path[n - 1] = '\0';
    return path;
}

static void tell_naming(const kiln_file *f)
{
    const kiln_ctx *c = f->ctx;
    struct stat s;
    const char *folder = c->env->naming ? folder_path(f) : NULL;
    if (folder && fstat(f->fd, &s) == 0) c->env->naming(c->env->arg, c->node, folder, &s);
}

static kiln_status commit(kiln_file *f, const char **path)
{
    kiln_ctx *c = f->ctx;
    char name[NAME_MAX + 1];
    kiln_status status = f->failed;
    if (status == KILN_OK && c->lacks_text)
        status = error_set(ctx_error(c), KILN_ERR_NOMEM, "out of memory for the texts in %s%s", f->inside, f->stem);
    if (status == KILN_OK && c->env->unchanged) status = c->env->unchanged(c->env->arg, c->node, ctx_error(c));
    const char *written = status == KILN_OK && c->env->written ? c->env->written(c->env->arg, c->node) : NULL;
    if (written) {
        size_t root = strlen(c->env->output->path);
        int inside = strncmp(written, c->env->output->path, root) == 0 && written[root] == '/';
        char *kept = arena_strdup(&c->scratch, inside ? written + root + 1 : written);
        if (path) *path = kept ? kept : "";
        file_drop(f);
        return KILN_OK;
    }
    if (status == KILN_OK && fsync(f->fd) != 0 && errno != EINVAL && errno != EROFS)
        status =
            error_set(ctx_error(c), KILN_ERR_IO, "cannot write %s%s to disk: %s", f->inside, f->stem, strerror(errno));
    if (status == KILN_OK) tell_naming(f);
    if (status == KILN_OK) status = name_it(f, name, sizeof name);
    if (status == KILN_OK) {
        const char *relative = f->where == KILN_FILES_TEMP ? f->inside + strlen("temp/") : f->inside;
        const char *folder = strcmp(c->env->output->path, ".") == 0 && f->name ? "" : c->env->output->path;
        char *kept = arena_printf(&c->scratch, "%s%s", relative, name),

             *whole = arena_printf(&c->scratch, "%s%s%s%s", folder, *folder ? "/" : "", f->inside, name);
        if (path) *path = kept ? kept : "";
        if (whole && c->env->file) c->env->file(c->env->arg, c->node, whole);
    }
    file_drop(f);
    return status;
}

/* The texts the engine makes. For these "" means that there is none, and NULL that memory ran out: then commit()
 * refuses the file. */
static int is_known(const char *name)
{
    return strcmp(name, "prompt") == 0 || strcmp(name, "parameters") == 0 || strcmp(name, "kiln") == 0;
}

static const char *text(kiln_ctx *c, const char *name)
{
    if (name && strcmp(name, "extension") == 0) return wanted_extension(c);
    const char *found = ctx_env(c)->text && name ? c->env->text(c->env->arg, c->node, name) : NULL;
    if (!found && ctx_env(c)->text && name && is_known(name)) c->lacks_text = 1;
    return found && *found ? found : NULL;
}

const kiln_files_api files_api = {.size = sizeof(kiln_files_api),
                                  .create = create,
                                  .write = file_write,
                                  .commit = commit,
                                  .text = text,
                                  .check = check_prefix};
