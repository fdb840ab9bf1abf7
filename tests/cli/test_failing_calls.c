/* test_failing_calls.c - commands with the k-th call of the system failing (system_faults.h): each ends by itself, and
 * either did what it was asked or says so, with a status that is not 0. Commands run in a child of this process, and
 * what they start counts on. By itself a sample of all k; KILN_TEST_SAMPLE=N of about so many, KILN_TEST_FULL=1 tries
 * each.
 */
#include "system_faults.h"

#include "cli/command.h"
#include "plugin/crash_report.h"
#include "run/supervisor.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__

static void test_commands(void) { test_skip("a sanitizer stands before the C library"); }
int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_commands)};
    return test_main(argc, argv, cases, 1);
}

#else

STANDS_BEFORE(int, -1, pipe2, (int fd[2], int how), (fd, how))
STANDS_BEFORE(int, -1, pipe, (int fd[2]), (fd))
STANDS_BEFORE(int, -1, stat, (const char *path, struct stat *st), (path, st))
STANDS_BEFORE(int, -1, lstat, (const char *path, struct stat *st), (path, st))
STANDS_BEFORE(int, -1, dup, (int fd), (fd))
STANDS_BEFORE(int, -1, rmdir, (const char *path), (path))
STANDS_BEFORE(int, -1, symlink, (const char *to, const char *path), (to, path))
STANDS_BEFORE(int, -1, chmod, (const char *path, mode_t mode), (path, mode))
STANDS_BEFORE(int, -1, fchmod, (int fd, mode_t mode), (fd, mode))
STANDS_BEFORE(char *, NULL, mkdtemp, (char *path), (path))
STANDS_BEFORE(DIR *, NULL, opendir, (const char *path), (path))
STANDS_BEFORE(DIR *, NULL, fdopendir, (int fd), (fd))
STANDS_BEFORE(pid_t, -1, fork, (void), ())

enum { SAMPLE = 10, LIMIT_S = 60, TEXT = 1 << 16 };

typedef struct {
    int status; /* of waitpid */
    int64_t calls;
    char out[TEXT], log[TEXT];
} outcome;

static char folder[400], out_folder[600];

static void read_text(const char *path, char *to)
{
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(to, 1, TEXT - 1, f) : 0;
    to[n] = 0;
    if (f) fclose(f);
}

static const char *below(const char *name)
{
    static char path[12][600];
    static int next;
    char *p = path[next++ % 12];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

static int run_named(char **words)
{
    int argc = 0;
    char *argv[32] = {NULL}; /* writable, as a process has them */
    for (; words[argc] && argc < 31; argc++) argv[argc] = strdup(words[argc]);
    for (size_t i = 0; i < n_commands; i++)
        if (strcmp(commands[i].name, argv[0]) == 0) return commands[i].run(argc, argv);
    return 99;
}

/* k < 0: nothing fails. */
static void run_failing(char **argv, int64_t k, int with, outcome *is)
{
    static int n_run;
    snprintf(out_folder, sizeof out_folder, "%s/out/%06d", folder, n_run++);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(LIMIT_S);
        if (!freopen(below("stdout"), "w", stdout) || !freopen(below("stderr"), "w", stderr)) _exit(98);
        calls_fail_at(k, with);
        crash_report_begin();
        int status = run_named(argv);
        supervisor_finished(status);
        crash_report_end();
        long long n = atomic_load(&calls_counted);
        fflush(stdout);
        fflush(stderr);
        calls_fail_at(-1, 0);
        FILE *f = fopen(below("calls"), "w");
        if (f) fprintf(f, "%lld\n", n), fclose(f);
        _exit(status);
    }
    is->status = -1;
    if (pid < 0 || waitpid(pid, &is->status, 0) != pid) return;
    read_text(below("calls"), is->out);
    is->calls = atoll(is->out);
    read_text(below("stdout"), is->out);
    read_text(below("stderr"), is->log);
}

/* before: a command of the shell that makes things as they were, or NULL. */
static void check_command(const char *name, const char *before, char **argv)
{
    static const int with[] = {EIO, ENOSPC, EMFILE};
    static outcome sound, is;
    if (before) REQUIRE(CHECK_MSG(system(before) == 0, "%s: %s", name, before));
    run_failing(argv, -1, 0, &sound);
    int well = WIFEXITED(sound.status) && WEXITSTATUS(sound.status) == 0;
    REQUIRE(CHECK_MSG(well, "%s: does not work at all: status %d: %s", name, sound.status, sound.log));
    const char *word = getenv("KILN_TEST_SAMPLE");
    int64_t n = sound.calls, tried = word ? atoll(word) : SAMPLE;
    REQUIRE(CHECK_MSG(n > 0 && tried > 0, "%s calls nothing", name));
    int64_t step = getenv("KILN_TEST_FULL") || n <= tried ? 1 : n / tried;
    for (int64_t k = 0, turn = 0; k < n; k += step, turn++) {
        if (before && system(before) != 0) return;
        run_failing(argv, k, with[turn % 3], &is);
        int exited = WIFEXITED(is.status), status = exited ? WEXITSTATUS(is.status) : -1;
        CHECK_MSG(exited, "%s: call %lld: ended by signal %d: %s", name, (long long)k,
                  WIFSIGNALED(is.status) ? WTERMSIG(is.status) : 0, is.log);
        if (exited && status != 0)
            CHECK_MSG(is.log[0] || is.out[0], "%s: call %lld: status %d without a word", name, (long long)k, status);
    }
    if (getenv("KILN_TEST_VERBOSE")) printf("  %s: %lld calls, every %lld\n", name, (long long)n, (long long)step);
}

#define COMMAND(name, before, ...)                                                                                     \
    static void test_##name(void)                                                                                      \
    {                                                                                                                  \
        char *argv[] = {__VA_ARGS__, NULL};                                                                            \
        check_command(#name, before, argv);                                                                            \
    }
static char flow[600], foreign[600], cache[600], stored[600], made[600], glow[600], api[600], clean[1400], unmade[1400],
    sheet[600];
static char golden[600], tiny[600], unet[600];
COMMAND(run, clean, "run", flow, "--trust", "all", "--out", out_folder, "--cache", cache, "-q")
COMMAND(sweep, clean, "run", flow, "--trust", "all", "--out", out_folder, "--cache", cache, "-q", "--over",
        "width=16,32", "--sheet", sheet)
COMMAND(run_again, NULL, "run", flow, "--trust", "all", "--out", out_folder, "--cache", cache, "-q")
COMMAND(foreign, clean, "run", foreign, "--plugins", glow, "--out", out_folder, "--cache", cache, "-q")
COMMAND(sandboxed, clean, "run", foreign, "--sandbox", "--plugins", glow, "--out", out_folder, "--cache", cache, "-q")
COMMAND(check, NULL, "check", flow)
COMMAND(convert, NULL, "convert", flow, "-o", api)
COMMAND(plugins, NULL, "plugins", "--plugins", glow)
COMMAND(plugin_install, unmade, "plugin", "install", glow)
COMMAND(plugin_list, NULL, "plugin", "list")
COMMAND(plugin_index, NULL, "plugin", "index", folder, "-o", api)
COMMAND(cache_verify, NULL, "cache", "verify", "--cache", cache)
COMMAND(cache_gc, NULL, "cache", "gc", "--cache", cache)
COMMAND(models, NULL, "models", "--models", golden, "--hash")
COMMAND(inspect, NULL, "inspect", tiny, "--finite")
COMMAND(quantize, NULL, "quantize", unet, stored, "--type", "q8_0")

static int prepare(void)
{
    char line[9000], at[600], kiln[4200], plugins[4200];
    snprintf(at, sizeof at, "%s", test_build());
    char *build = realpath(at, NULL); /* commands run elsewhere */
    if (!build) return 0;
    snprintf(kiln, sizeof kiln, "%s/kiln", build), snprintf(plugins, sizeof plugins, "%s/plugins", build);
    free(build);
    setenv("KILN_PLUGIN_PATH", plugins, 1);
    snprintf(line, sizeof line,
             "mkdir -p '%s/home' && cd '%s' && '%s' plugin new soft-glow >/dev/null && gcc -std=c11 -D_GNU_SOURCE -O1 "
             "-w -fPIC -shared -I'%s/include' '%s/soft_glow.c' -o "
             "'%s/soft-glow.so'",
             folder, folder, kiln, test_root(), glow, glow);
    FILE *f = fopen(flow, "w"), *g = fopen(foreign, "w");
    if (!f || !g || system(line) != 0) return 0;
    fputs("params: {width: 16}\nnodes:\n  empty: {class_type: EmptyImage, inputs: {width: \"${width}\", height: 16}}\n"
          "  more: {class_type: ImageInvert, inputs: {image: [empty, 0]}}\n  save: {class_type: SaveImage, inputs: "
          "{images: [more, 0]}}\n",
          f);
    fputs("nodes:\n  empty: {class_type: EmptyImage, inputs: {width: 16, height: 16}}\n"
          "  glow: {class_type: SoftGlow, inputs: {image: [empty, 0], gain: 2}}\n  save: {class_type: SaveImage, "
          "inputs: {images: [glow, 0]}}\n",
          g);
    return (fclose(f) == 0) & (fclose(g) == 0);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_run),         CASE(test_sweep),        CASE(test_run_again),
        CASE(test_foreign),     CASE(test_sandboxed),    CASE(test_check),
        CASE(test_convert),     CASE(test_plugins),      CASE(test_plugin_install),
        CASE(test_plugin_list), CASE(test_plugin_index), CASE(test_cache_verify),
        CASE(test_cache_gc),    CASE(test_models),       CASE(test_inspect),
        CASE(test_quantize),
    };
    char data[600];
    snprintf(folder, sizeof folder, "%s", test_folder());
    snprintf(flow, sizeof flow, "%s/flow.yaml", folder), snprintf(foreign, sizeof foreign, "%s/foreign.yaml", folder);
    snprintf(cache, sizeof cache, "%s/cache", folder), snprintf(stored, sizeof stored, "%s/stored.gguf", folder);
    snprintf(made, sizeof made, "%s/made-one", folder), snprintf(glow, sizeof glow, "%s/soft-glow", folder);
    snprintf(api, sizeof api, "%s/api.json", folder), snprintf(data, sizeof data, "%s/data", folder);
    snprintf(sheet, sizeof sheet, "%s/sheet.png", folder);
    snprintf(clean, sizeof clean, "rm -rf '%s' '%s/out'", cache, folder),
        snprintf(unmade, sizeof unmade, "rm -rf '%s' '%s'", made, data);
    setenv("KILN_CONFIG", "off", 1), setenv("XDG_DATA_HOME", data, 1), setenv("XDG_CACHE_HOME", below("xdg"), 1),
        setenv("HOME", below("home"), 1);
    unsetenv("KILN_CACHE");
    snprintf(golden, sizeof golden, "%s/tests/golden", test_root()),
        snprintf(tiny, sizeof tiny, "%s/tests/golden/tiny-sd1", test_root()),
        snprintf(unet, sizeof unet, "%s/tests/golden/tiny-sd1/unet", test_root());
    if (!prepare() || chdir(folder) != 0) return fprintf(stderr, "no plugin could be made\n"), 2;
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
#endif
