/* torture.c - the store under every fault the shim knows, at every place it can strike.
 *
 *     torture SHIM.so FOLDER short|full [SCENARIO]     runs everything: a line "ok NAME" or "FAIL NAME" a scenario and
 * kind of fault torture do SCENARIO FOLDER            (by itself, with the shim) the scenario's steps on a store that
 * was prepared
 *
 * Every value is a function of its key's number, so that whatever is found can be judged. After each fault the store is
 * opened without the shim: each entry there holds the right bytes, nothing is damaged, and the scenario's steps then do
 * what they do on an untouched store. FOLDER is best on a memory file system: what survives is decided by the shim, not
 * by the disk.
 */
#include "base/file.h"
#include "base/log.h"
#include "cache/store.h"
#include "tensor/value.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LARGE = 100, TWIN_A = 200, TWIN_B = 201, STATE = 900, MANY = 300, PATHS = 4096, LIMIT_S = 20 };
static char kept_folder[PATHS];

/* ---- values that a number decides ---- */

static digest key_of(uint64_t n) { return digest_of(&n, sizeof n); }

static kiln_value *value_of(uint64_t n)
{
    if (n == TWIN_B) n = TWIN_A;
    int64_t count = n >= LARGE && n < MANY ? 25000 : 50;
    kiln_value *v = value_tensor_new(KILN_F32, KILN_CPU, 1, &count, NULL);
    kiln_tensor t = {.size = sizeof t};
    if (!v || value_view(v, &t, NULL) != KILN_OK) return NULL;
    for (int64_t i = 0; i < count; i++) ((uint32_t *)t.data)[i] = (uint32_t)((uint64_t)i * 2654435761u ^ n * 97);
    value_publish(v);
    return v;
}

static int is_value_of(const kiln_value *v, uint64_t n)
{
    kiln_value *right = value_of(n);
    digest a, b;
    int same =
        right && value_digest(v, &a, NULL) == KILN_OK && value_digest(right, &b, NULL) == KILN_OK && digest_equal(a, b);
    value_unref(right);
    return same;
}

static kiln_status put(store *s, uint64_t n, error *e)
{
    kiln_value *v = value_of(n);
    kiln_status status =
        v ? store_put(s, key_of(n), &(store_note){.type = "Torture", .seconds = 0.001 * (double)n}, 1, &v, e)
          : error_set(e, KILN_ERR_NOMEM, "out of memory");
    value_unref(v);
    return status;
}

static kiln_status put_some(store *s, uint64_t from, uint64_t to, error *e)
{
    for (uint64_t n = from; n < to; n++) TRY(put(s, n, e));
    return store_flush(s, e);
}

static kiln_status put_state(store *s, uint64_t n, error *e)
{
    kiln_value *v = value_of(n);
    kiln_status status = v ? store_state_put(s, key_of(STATE), v, e) : error_set(e, KILN_ERR_NOMEM, "out of memory");
    value_unref(v);
    return status;
}

/* Wrong bytes are the one thing that must never be: they end the process with 9. */
static kiln_status get(store *s, uint64_t n, error *e)
{
    kiln_value *v = NULL;
    kiln_status status = store_get(s, key_of(n), 1, &v, e);
    if (status == KILN_OK && !is_value_of(v, n) && !is_value_of(v, n))
        _exit(9); /* twice: the comparison may have run out of memory */
    value_unref(v);
    return status;
}

/* ---- scenarios ---- */

static kiln_status none(store *s, error *e) { return (void)s, (void)e, KILN_OK; }
static kiln_status few(store *s, error *e) { return put_some(s, 1, 4, e); }
static kiln_status large(store *s, error *e) { return put_some(s, LARGE, LARGE + 1, e); }
static kiln_status larges(store *s, error *e) { return put_some(s, LARGE, LARGE + 6, e); }
static kiln_status twins(store *s, error *e) { return put_some(s, TWIN_A, TWIN_B + 1, e); }
static kiln_status rows(store *s, error *e) { return put_some(s, MANY, MANY + 60, e); }
static kiln_status mixed(store *s, error *e)
{
    TRY(few(s, e));
    TRY(larges(s, e));
    return put_state(s, 5, e);
}
static kiln_status gets(store *s, error *e)
{
    TRY(get(s, 2, e));
    return get(s, LARGE + 1, e);
}
static kiln_status first_state(store *s, error *e) { return put_state(s, 5, e); }
static kiln_status next_state(store *s, error *e) { return put_state(s, LARGE + 7, e); }
static kiln_status drop_state(store *s, error *e) { return (void)e, store_state_drop(s, key_of(STATE)), KILN_OK; }
static kiln_status evict(store *s, error *e)
{
    store_report r;
    return store_gc(s, 250000, &r, e);
}
static kiln_status verify(store *s, error *e)
{
    store_report r;
    return store_verify(s, &r, NULL, NULL, e);
}
static kiln_status clear(store *s, error *e)
{
    store_report r;
    return store_clear(s, NULL, &r, e);
}
static kiln_status claim(store *s, error *e)
{
    store_claim *c = NULL;
    store_turn turn = store_claim_key(s, key_of(50), NULL, NULL, NULL, &c);
    kiln_status status = turn == STORE_IS_THERE ? get(s, 50, e) : put(s, 50, e);
    store_release(c);
    return status != KILN_OK ? status : store_flush(s, e);
}
static kiln_status digests(store *s, error *e)
{
    char path[PATHS + 16];
    digest d;
    snprintf(path, sizeof path, "%s.input", kept_folder);
    store_remember_digests(s);
    TRY(file_digest(path, &d, e));
    return store_flush(s, e);
}

static const struct scenario {
    const char *name;
    kiln_status (*prepare)(store *, error *), (*act)(store *, error *);
} scenarios[] = {
    {"open_fresh", NULL, none},
    {"open_existing", mixed, none},
    {"put_small", none, few},
    {"put_large", none, large},
    {"put_duplicates", none, twins},
    {"put_again", few, few},
    {"put_rows", none, rows},
    {"get", mixed, gets},
    {"state_first", none, first_state},
    {"state_next", first_state, next_state},
    {"state_drop", first_state, drop_state},
    {"evict", mixed, evict},
    {"verify", mixed, verify},
    {"clear", mixed, clear},
    {"claim", few, claim},
    {"digests", few, digests},
};
enum { SCENARIOS = sizeof scenarios / sizeof scenarios[0] };

static const char *acked(void)
{
    static char path[PATHS + 16];
    const char *slash = strrchr(kept_folder, '/');
    snprintf(path, sizeof path, "%.*s/acked", (int)(slash - kept_folder), kept_folder);
    return path;
}

/* Says outside of the folder that the steps were done and the store closed; the change that follows is a place to be
 * killed at. */
static void acknowledge(void)
{
    char path[PATHS + 16];
    error e = {0};
    if (!getenv("SHIM_KIND")) return;
    file_write_whole(acked(), "x", 1, &e);
    snprintf(path, sizeof path, "%s/mark", kept_folder);
    if (mkdir(path, 0700) == 0) rmdir(path);
}

/* Status 0: done; 1: a failure, told; others are what must not be. */
static int act(const struct scenario *x, kiln_status (*steps)(store *, error *))
{
    error e = {0};
    store *s = store_open(&(store_setting){.folder = kept_folder}, &e);
    kiln_status status = s ? steps(s, &e) : e.status;
    store_close(s);
    (void)x;
    if (status != KILN_OK && !e.message[0]) return 8; /* without a word */
    if (status == KILN_OK) acknowledge();
    return status != KILN_OK;
}

/* ---- judging what is left ---- */

typedef struct {
    store *s;
    const char *wrong;
    size_t n;
    digest key[2000];
} findings;

static int note_entry(void *arg, const store_entry *x)
{
    findings *f = arg;
    if (f->n < 2000) f->key[f->n++] = x->key;
    return 0;
}

static uint64_t number_of(digest key)
{
    for (uint64_t n = 0; n < 1000; n++)
        if (digest_equal(key_of(n), key)) return n;
    return 1000;
}

static const char *judge_entries(store *s)
{
    static findings f;
    error e = {0};
    f = (findings){.s = s};
    if (store_each(s, STORE_BY_USE, NULL, note_entry, &f, &e) != KILN_OK) return "the index cannot be listed";
    for (size_t i = 0; i < f.n; i++) {
        kiln_value *v = NULL;
        uint64_t n = number_of(f.key[i]);
        if (n == 1000) return "a key nobody put";
        if (store_get(s, f.key[i], 1, &v, &e) != KILN_OK) return "an entry without its value";
        int right = is_value_of(v, n);
        value_unref(v);
        if (!right) return "wrong bytes";
    }
    return NULL;
}

static const char *judge_state(store *s)
{
    kiln_value *v = store_state_get(s, key_of(STATE));
    int right = !v || is_value_of(v, 5) || is_value_of(v, LARGE + 7);
    value_unref(v);
    return right ? NULL : "a state of wrong bytes";
}

/* What steps that were done have put is there. */
static int has(store *s, uint64_t from, uint64_t to)
{
    for (uint64_t n = from; n < to; n++)
        if (!store_find(s, key_of(n), NULL)) return 0;
    return 1;
}

static int survives(store *s, kiln_status (*steps)(store *, error *))
{
    if (steps == few) return has(s, 1, 4);
    if (steps == large) return has(s, LARGE, LARGE + 1);
    if (steps == twins) return has(s, TWIN_A, TWIN_B + 1);
    if (steps == rows) return has(s, MANY, MANY + 60);
    if (steps == claim) return has(s, 50, 51);
    if (steps == mixed) return has(s, 1, 4) && has(s, LARGE, LARGE + 6);
    kiln_value *state = steps == first_state || steps == next_state ? store_state_get(s, key_of(STATE)) : NULL;
    int there = steps == first_state || steps == next_state ? state != NULL : 1;
    value_unref(state);
    return there;
}

static const char *judge_survival(store *s, const struct scenario *x)
{
    int removes = x->act == evict || x->act == clear || x->act == drop_state;
    if (x->prepare && !removes && !survives(s, x->prepare)) return "what had been kept before is gone";
    if (access(acked(), F_OK) == 0 && !survives(s, x->act)) return "what had been acknowledged is gone";
    return NULL;
}

static int warnings;
static void count_warning(void *arg, int level, const char *line)
{
    (void)arg, (void)line, warnings += level == KILN_LOG_WARN;
}

/* Two hours older: younger files may be about to be named, and are not swept. */
static int older(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)at;
    struct timespec t[2] = {st->st_atim, st->st_mtim};
    t[0].tv_sec -= 7200, t[1].tv_sec -= 7200;
    return kind == FTW_F && utimensat(AT_FDCWD, path, t, 0) != 0 && errno != ENOENT;
}
static void age_files(const char *folder)
{
    char values[PATHS + 16];
    snprintf(values, sizeof values, "%s/values", folder);
    nftw(values, older, 16, FTW_PHYS);
}

static const char *judge(const struct scenario *x)
{
    error e = {0};
    store_report r;
    warnings = 0;
    store *s = store_open(&(store_setting){.folder = kept_folder}, &e);
    if (!s) return "it does not open";
    const char *wrong = judge_survival(s, x);
    if (!wrong) wrong = judge_entries(s);
    if (!wrong) wrong = judge_state(s);
    if (!wrong && (store_verify(s, &r, NULL, NULL, &e) != KILN_OK || r.damaged)) wrong = "verify finds damage";
    if (!wrong && warnings) wrong = "something was moved aside or removed";
    age_files(kept_folder);
    if (!wrong && store_gc(s, 0, &r, &e) != KILN_OK) wrong = "gc fails";
    store_totals totals;
    if (!wrong && (store_total(s, &totals, &e) != KILN_OK || totals.orphans))
        wrong = "files that no entry names are left after gc";
    store_close(s);
    if (!wrong && act(x, x->act) != 0 && x->act != gets)
        wrong = "the same steps fail afterwards"; /* what was not kept cannot be got */
    return wrong;
}

/* ---- one fault ---- */

static void remove_tree(const char *path)
{
    DIR *d = opendir(path);
    for (struct dirent *x; d && (x = readdir(d));) {
        char below[PATHS + 300];
        if (strcmp(x->d_name, ".") == 0 || strcmp(x->d_name, "..") == 0) continue;
        snprintf(below, sizeof below, "%s/%s", path, x->d_name);
        if (unlink(below) != 0) remove_tree(below);
    }
    if (d) closedir(d);
    rmdir(path);
}

static int prepare(const struct scenario *x)
{
    remove_tree(kept_folder);
    return x->prepare ? act(x, x->prepare) : 0;
}

typedef struct {
    const char *shim, *kind, *damage;
    long at;
} strike;

static void become(const char *self, const struct scenario *x, const strike *f)
{
    char at[32], log[PATHS + 16];
    snprintf(at, sizeof at, "%ld", f->at), snprintf(log, sizeof log, "%s.log", kept_folder);
    setenv("LD_PRELOAD", f->shim, 1), setenv("SHIM_FOLDER", kept_folder, 1), setenv("SHIM_KIND", f->kind, 1),
        setenv("SHIM_AT", at, 1);
    setenv("SHIM_LOG", log, 1), setenv("SHIM_DAMAGE", f->damage, 1), setenv("SHIM_SEED", at, 1);
    execl(self, self, "do", x->name, kept_folder, (char *)NULL);
    _exit(127);
}

static int wait_limited(pid_t child, int *status)
{
    for (int i = 0; i < LIMIT_S * 1000; i++) {
        pid_t got = waitpid(child, status, WNOHANG);
        if (got == child) return 1;
        nanosleep(&(struct timespec){.tv_nsec = i < 200 ? 200000 : 1000000}, NULL);
    }
    kill(child, SIGKILL);
    waitpid(child, status, 0);
    return 0;
}

/* *struck: the fault came to pass. NULL: all as it must be. */
static const char *strike_once(const char *self, const struct scenario *x, const strike *f, int *struck)
{
    char log[PATHS + 16];
    long seen = 0, fired = 0;
    int status = 0;
    *struck = 0;
    if (prepare(x) != 0) return "could not be prepared";
    snprintf(log, sizeof log, "%s.log", kept_folder);
    unlink(log);
    unlink(acked());
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) become(self, x, f);
    if (child < 0 || !wait_limited(child, &status)) return "hangs";
    FILE *file = fopen(log, "r");
    if (file && fscanf(file, "%ld %ld", &seen, &fired) != 2) fired = 0;
    if (file) fclose(file);
    *struck = fired > 0;
    int killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && strcmp(f->kind, "kill") == 0;
    if (WIFSIGNALED(status) && !killed) return "dies by a signal";
    if (WIFEXITED(status) && WEXITSTATUS(status) > 1)
        return WEXITSTATUS(status) == 9   ? "wrong bytes"
               : WEXITSTATUS(status) == 8 ? "fails without a word"
                                          : "an unknown exit status";
    return judge(x);
}

static long runs, kills;

/* Every k-th in turn until nothing is struck any more (short form: further and further apart). */
static int strike_all(const char *self, const struct scenario *x, strike f, int full)
{
    int struck = 1, failures = 0;
    long n = 0;
    for (f.at = 1; struck && failures < 3; f.at += full ? 1 : 1 + f.at / 2) {
        const char *wrong = strike_once(self, x, &f, &struck);
        n += struck, runs += struck;
        kills += struck && strcmp(f.kind, "kill") == 0;
        if (wrong) printf("  %s, %s %s at %ld: %s\n", x->name, f.kind, f.damage, f.at, wrong), failures++;
    }
    int kill = strcmp(f.kind, "kill") == 0;
    printf("%s %s_%s%s%s (%ld times)\n", failures ? "FAIL" : "ok", x->name, f.kind, kill ? "_" : "",
           kill ? f.damage : "", n);
    fflush(stdout);
    return failures;
}

static int all(const char *self, const char *shim, int full, const char *only)
{
    static const struct {
        const char *kind, *damage;
    } fault[] = {{"kill", "kept"}, {"kill", "dropped"}, {"kill", "torn"}, {"eio", "-"},
                 {"enospc", "-"},  {"short", "-"},      {"eintr", "-"},   {"alloc", "-"}};
    int failures = 0;
    for (size_t i = 0; i < SCENARIOS; i++)
        for (size_t k = 0; k < sizeof fault / sizeof fault[0] && (!only || strcmp(only, scenarios[i].name) == 0); k++)
            failures += strike_all(self, &scenarios[i],
                                   (strike){.shim = shim, .kind = fault[k].kind, .damage = fault[k].damage}, full);
    printf("  %ld faults, %ld of them kills\n", runs, kills);
    return failures != 0;
}

static int input_file(void)
{
    char path[PATHS + 16];
    error e = {0};
    snprintf(path, sizeof path, "%s.input", kept_folder);
    struct timespec old[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    return file_write_whole(path, "input", 5, &e) == KILN_OK && utimensat(AT_FDCWD, path, old, 0) == 0;
}

int main(int argc, char **argv)
{
    char self[PATHS];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (argc < 4 || argc > 5 || n < 0)
        return fprintf(stderr, "usage: torture SHIM.so FOLDER short|full [SCENARIO]\n"), 2;
    self[n] = '\0';
    int child = strcmp(argv[1], "do") == 0;
    snprintf(kept_folder, sizeof kept_folder, "%s%s", child ? argv[3] : argv[2], child ? "" : "/store");
    log_level_set(KILN_LOG_WARN);
    log_sink_set(count_warning, NULL);
    if (!child)
        return !input_file() ? (fprintf(stderr, "torture: %s cannot be written to\n", argv[2]), 2)
                             : all(self, argv[1], strcmp(argv[3], "full") == 0, argc > 4 ? argv[4] : NULL);
    for (size_t i = 0; i < SCENARIOS; i++)
        if (strcmp(scenarios[i].name, argv[2]) == 0) return act(&scenarios[i], scenarios[i].act);
    return 2;
}
