/* Something else than what belongs there, in every place of a store: a folder, a link to a file, to a folder, to a
 * device and to nothing, a FIFO, a socket, a device. Each case is a process of its own with half a minute: nothing is
 * waited for, no link is followed, no wrong value is handed out, and a store that cannot be had says which path is
 * what. And an index that another process has locked. */
#include "base/clock.h"
#include "store_kit.h"

#include <errno.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>

enum { SMALL = 256, LARGE = 100000, SECONDS = 30 };

/* ---- what is put there ---- */

static char outside[400]; /* where links lead: a file "file" and a folder "folder" with one file in it */

static void make_socket(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    char folder[700], here[700];
    CHECK(getcwd(here, sizeof here) != NULL);
    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    *slash = '\0';
    snprintf(a.sun_path, sizeof a.sun_path, "%.100s", slash + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(chdir(folder) == 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && chdir(here) == 0);
    close(fd);
}

typedef enum { FOLDER, LINK_FILE, LINK_FOLDER, LINK_DEVICE, LINK_NOTHING, FIFO, SOCKET, DEVICE, PLAIN, KINDS } kind;
static const char *const kind_name[KINDS] = {
    "folder", "link to a file", "link to a folder", "link to a device", "link to nothing", "FIFO", "socket",
    "device", "file",
};

/* 0: such a thing cannot be made here. */
static int make(kind k, const char *path)
{
    if (k == FOLDER) return mkdir(path, 0700) == 0;
    if (k == LINK_FILE) return symlink(kit_path(outside, "file"), path) == 0;
    if (k == LINK_FOLDER) return symlink(kit_path(outside, "folder"), path) == 0;
    if (k == LINK_DEVICE) return symlink("/dev/zero", path) == 0;
    if (k == LINK_NOTHING) return symlink(kit_path(outside, "nothing"), path) == 0;
    if (k == FIFO) return mkfifo(path, 0600) == 0;
    if (k == DEVICE) return mknod(path, S_IFCHR | 0600, makedev(1, 5)) == 0;
    if (k == SOCKET) return make_socket(path), 1;
    FILE *f = fopen(path, "w");
    return f && fputs("not a database, not a value\n", f) > 0 && fclose(f) == 0;
}

static void make_outside(void)
{
    snprintf(outside, sizeof outside, "%s", kit_folder("outside"));
    mkdir(outside, 0700);
    make(PLAIN, kit_path(outside, "file"));
    mkdir(kit_path(outside, "folder"), 0700);
    make(PLAIN, kit_path(outside, "folder/0123456789abcdef0123456789abcdef"));
}

static int outside_is_as_it_was(void)
{
    struct stat st;
    size_t n = 0;
    DIR *d = opendir(kit_path(outside, "folder"));
    while (d && readdir(d)) n++;
    if (d) closedir(d);
    return n == 3 && stat(kit_path(outside, "file"), &st) == 0 && st.st_size == 28 &&
           !file_exists(kit_path(outside, "nothing")) && !folder_exists(kit_path(outside, "nothing"));
}

/* ---- where ---- */

static digest state_key(void) { return kit_key(777); }

/* A store with a small value, a large one and a state. */
static void fill(const char *folder)
{
    store *s = kit_open(folder);
    if (!CHECK(s != NULL)) return;
    CHECK(kit_put(s, 1, SMALL, 0.01) == KILN_OK && kit_put(s, 2, LARGE, 0.01) == KILN_OK);
    kiln_value *state = kit_tensor(SMALL, 3);
    CHECK_EQ(store_state_put(s, state_key(), state, NULL), KILN_OK);
    value_unref(state);
    store_close(s);
}

/* The path of a place; '*' at its end: of the value's file, its folder, the state's file, its folder. */
static void path_of(const char *folder, const char *place, char path[800])
{
    char value[800] = "", hex[33];
    kit_value_files(folder, value);
    digest_hex(state_key(), hex);
    if (strcmp(place, "value*") == 0)
        snprintf(path, 800, "%s", value);
    else if (strcmp(place, "value folder*") == 0)
        snprintf(path, 800, "%.*s", (int)(strrchr(value, '/') - value), value);
    else if (strcmp(place, "state*") == 0)
        snprintf(path, 800, "%s/states/%.2s/%s", folder, hex, hex);
    else if (strcmp(place, "state folder*") == 0)
        snprintf(path, 800, "%s/states/%.2s", folder, hex);
    else
        snprintf(path, 800, "%s/%s", folder, place);
}

/* ---- one case ---- */

/* Everything a run does with a store; 0 when a wrong value came out of it. */
static int use(store *s)
{
    int right = 1;
    kiln_value *state = kit_tensor(SMALL, 3), *got = store_state_get(s, state_key());
    store_report report;
    store_totals totals;
    store_claim *claim = NULL;
    if (got && !kit_same(got, state)) right = 0;
    value_unref(got);
    for (uint64_t n = 1; n < 40; n++) {
        if (kit_get(s, n, n == 2 ? LARGE : SMALL) < 0) right = 0;
        store_claim_key(s, kit_key(n), NULL, NULL, NULL, &claim);
        if (n < 6) kit_put(s, n, n == 2 ? LARGE : SMALL, 0.01);
        store_release(claim);
        claim = NULL;
    }
    store_state_put(s, state_key(), state, NULL);
    value_unref(state);
    store_flush(s, NULL);
    for (uint64_t n = 1; n < 40; n++)
        if (kit_get(s, n, n == 2 ? LARGE : SMALL) < 0) right = 0;
    store_total(s, &totals, NULL);
    store_verify(s, &report, NULL, NULL, NULL);
    store_gc(s, 1, &report, NULL);
    store_clear(s, NULL, &report, NULL);
    return right;
}

enum { USED = 40, REFUSED, WRONG, WORDLESS };

static int open_and_use(const char *folder, const char *path)
{
    error e = {0};
    alarm(SECONDS);
    log_sink_set(kit_sink, NULL);
    store *s = store_open(&(store_setting){.folder = folder}, &e);
    if (!s)
        return strstr(e.message, path) && !strstr(e.message, "not an error")
                   ? REFUSED
                   : (printf("  said: %s\n", e.message), WORDLESS);
    int right = use(s);
    store_close(s);
    return right ? USED : WRONG;
}

/* What became of the child: one of the four above, or the signal that ended it. */
static int in_child(const char *folder, const char *path)
{
    int status = 0;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        int result = open_and_use(folder, path);
        fflush(NULL);
        _exit(result);
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static const char *became(int got)
{
    if (got < 0) return got == -SIGALRM ? "it was waited for" : "crashed";
    return got == WRONG      ? "a wrong value came out"
           : got == WORDLESS ? "the path was not named"
           : got == USED     ? "it was taken"
                             : "the store was refused";
}

/* In that place, which may hold something already, one thing after the other. */
static void try_place(const char *place, int is_folder, int refused)
{
    for (kind k = 0; k < KINDS; k++) {
        char path[800], name[64];
        static unsigned count;
        if (k == (is_folder ? FOLDER : PLAIN)) continue; /* what belongs there */
        snprintf(name, sizeof name, "place%u", count++);
        const char *f = kit_folder(name);
        char folder[400];
        snprintf(folder, sizeof folder, "%s", f);
        fill(folder);
        path_of(folder, place, path);
        rename(path, kit_path(folder, "was"));
        if (!make(k, path)) {
            CHECK_MSG(k == DEVICE && errno == EPERM, "%s could not be made: %s", path, strerror(errno));
            continue;
        }
        int got = in_child(folder, path);
        CHECK_MSG(got == (refused ? REFUSED : USED), "a %s as %s: %s", kind_name[k], place, became(got));
        CHECK_MSG(outside_is_as_it_was(), "a %s as %s: what the link leads to was changed", kind_name[k], place);
    }
}

static void test_indexs_files(void)
{
    static const char *const place[] = {"index.sqlite", "index.sqlite-journal", "index.sqlite-wal", "index.sqlite-shm",
                                        "index.sqlite-suspect"};
    for (size_t i = 0; i < sizeof place / sizeof place[0]; i++) try_place(place[i], 0, 0);
}
static void test_claims(void) { try_place("claims", 0, 1); }
static void test_further_claims(void) { try_place("claims.1", 0, 0), try_place("claims.15", 0, 0); }
static void test_values_and_states(void) { try_place("value*", 0, 0), try_place("state*", 0, 0); }
static void test_folders_of_values_and_states(void)
{
    try_place("value folder*", 1, 0), try_place("state folder*", 1, 0);
}
static void test_folders(void)
{
    try_place("values", 1, 1);
    try_place("values/tmp", 1, 1);
    try_place("states", 1, 1);
}

/* ---- an index that is locked ---- */

static pid_t open_locked(const char *folder, int out)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid) return pid;
    error e = {0};
    double start = clock_seconds();
    store *s = store_open(&(store_setting){.folder = folder}, &e);
    int right = !s && strstr(e.message, "another process holds its lock") && strstr(e.message, folder) &&
                clock_seconds() - start < 2 * STORE_BUSY_MS * 1e-3;
    if (!right)
        dprintf(out, "  said: %s, after %.1f s\n", s ? "nothing: it was opened" : e.message, clock_seconds() - start);
    _exit(!right);
}

static sqlite3 *lock_index(const char *folder)
{
    sqlite3 *db = NULL;
    CHECK(sqlite3_open(kit_path(folder, "index.sqlite"), &db) == SQLITE_OK &&
          sqlite3_exec(db, "BEGIN EXCLUSIVE", NULL, NULL, NULL) == SQLITE_OK);
    return db;
}

static void test_index_is_locked_when_it_is_opened(void)
{
    const char *full = kit_folder("locked"), *empty = kit_folder("locked_empty");
    fill(full);
    mkdir(empty, 0700);
    sqlite3 *a = lock_index(full), *b = lock_index(empty);
    pid_t first = open_locked(full, STDOUT_FILENO), second = open_locked(empty, STDOUT_FILENO);
    int status = -1;
    CHECK(waitpid(first, &status, 0) == first && status == 0);
    CHECK(waitpid(second, &status, 0) == second && status == 0);
    sqlite3_close(a), sqlite3_close(b);
    store *s = kit_open(full);
    REQUIRE(s);
    CHECK(kit_get(s, 1, SMALL) == 1 && kit_get(s, 2, LARGE) == 1);
    store_close(s);
}

/* A folder that may be read and not written to, with an index that is empty. */
static void test_empty_index_that_cannot_be_made(void)
{
    const char *f = kit_folder("empty");
    error e = {0};
    mkdir(f, 0700);
    fclose(fopen(kit_path(f, "index.sqlite"), "w"));
    store *s = store_open(&(store_setting){.folder = f, .read_only = 1}, &e);
    CHECK_MSG(!s && strstr(e.message, "it is empty"), "%s", e.message);
    store_close(s);
}

int main(int argc, char **argv)
{
    make_outside();
    log_sink_set(kit_sink, NULL);
    static const test_case cases[] = {
        CASE(test_indexs_files),
        CASE(test_claims),
        CASE(test_further_claims),
        CASE(test_values_and_states),
        CASE(test_folders_of_values_and_states),
        CASE(test_folders),
        CASE(test_index_is_locked_when_it_is_opened),
        CASE(test_empty_index_that_cannot_be_made),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
