/* harness.c - see harness.h. */
#include "harness.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    int failed, skipped;
    const char *why;
    char folder[256];
} state;

int check_true(int ok, const char *file, int line, const char *fmt, ...)
{
    if (ok) return 1;
    state.failed = 1;
    printf("  %s:%d: ", file, line);
    va_list args;
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    putchar('\n');
    return 0;
}

int check_i64(int64_t a, int64_t b, const char *text, const char *file, int line)
{
    return check_true(a == b, file, line, "%s: %lld, wanted %lld", text, (long long)a, (long long)b);
}

int check_str(const char *a, const char *b, const char *text, const char *file, int line)
{
    int same = a && b ? strcmp(a, b) == 0 : a == b;
    return check_true(same, file, line, "%s: \"%s\", wanted \"%s\"", text, a ? a : "(null)", b ? b : "(null)");
}

int check_near(double a, double b, double tolerance, const char *text, const char *file, int line)
{
    double scale = fabs(b) > 1e-30 ? fabs(b) : 1.0;
    return check_true(fabs(a - b) <= tolerance * scale, file, line, "%s: %.9g, wanted %.9g (tolerance %g)", text, a, b,
                      tolerance);
}

int check_array(const float *a, const float *b, size_t n, double tolerance, const char *text, const char *file,
                int line)
{
    double diff = 0, norm = 0, worst = 0;
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)a[i] - (double)b[i];
        diff += d * d;
        norm += (double)b[i] * (double)b[i];
        if (!(fabs(d) <= worst)) worst = fabs(d), at = i;
    }
    double relative = sqrt(diff) / (norm > 0 ? sqrt(norm) : 1.0);
    return check_true(relative <= tolerance, file, line,
                      "%s: relative error %.3g over %zu elements, allowed %.3g; worst at %zu: %.9g, wanted %.9g", text,
                      relative, n, tolerance, at, n ? (double)a[at] : 0.0, n ? (double)b[at] : 0.0);
}

void test_skip(const char *why)
{
    state.skipped = 1;
    state.why = why;
}

const char *test_root(void)
{
    const char *root = getenv("KILN_ROOT");
    return root ? root : ".";
}

const char *test_build(void)
{
    const char *build = getenv("KILN_BUILD");
    return build ? build : "build/release";
}

static void folder_remove(void)
{
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", state.folder);
    if (state.folder[0] && system(command) != 0) fprintf(stderr, "could not remove %s\n", state.folder);
}

const char *test_folder(void)
{
    if (state.folder[0]) return state.folder;
    const char *tmp = getenv("TMPDIR");
    snprintf(state.folder, sizeof state.folder, "%s/kiln-test-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(state.folder)) {
        fprintf(stderr, "cannot make a folder in %s\n", tmp ? tmp : "/tmp");
        exit(1);
    }
    atexit(folder_remove);
    return state.folder;
}

static int wanted(const char *name, int argc, char **argv)
{
    if (argc < 2) return 1;
    for (int i = 1; i < argc; i++)
        if (strstr(name, argv[i])) return 1;
    return 0;
}

int test_main(int argc, char **argv, const test_case *cases, size_t n)
{
    int failed = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; i < n; i++) {
        if (!wanted(cases[i].name, argc, argv)) continue;
        state.failed = state.skipped = 0;
        cases[i].run();
        if (state.failed)
            printf("FAIL %s\n", cases[i].name), failed = 1;
        else if (state.skipped)
            printf("skip %s: %s\n", cases[i].name, state.why);
        else
            printf("ok %s\n", cases[i].name);
    }
    return failed;
}
