/* harness.h - the test framework: named cases, checks that print the values they compare, skips.
 *
 *     static void test_sum(void) { CHECK_EQ(sum(1, 2), 3); }
 *     int main(int argc, char **argv) {
 *         static const test_case cases[] = { CASE(test_sum) };
 *         return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
 *     }
 *
 * Each case prints one line: "ok NAME", "FAIL NAME" (after a line for each failed check) or "skip NAME: why". With
 * arguments, only cases whose name contains one of them run. Exit status 1 if a case failed.
 */
#ifndef KILN_TESTS_HARNESS_H
#define KILN_TESTS_HARNESS_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    const char *name;
    void (*run)(void);
} test_case;
#define CASE(fn)                                                                                                       \
    {                                                                                                                  \
#fn, fn                                                                                                        \
    }

int test_main(int argc, char **argv, const test_case *cases, size_t n);

int check_true(int ok, const char *file, int line, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
int check_i64(int64_t a, int64_t b, const char *text, const char *file, int line);
int check_str(const char *a, const char *b, const char *text, const char *file, int line);
/* |a - b| <= tolerance * |b|; where b is 0 (below 1e-30), |a - b| <= tolerance. */
int check_near(double a, double b, double tolerance, const char *text, const char *file, int line);
/* Relative error of whole arrays: ||a-b|| / ||b|| <= tolerance; NaN fails. Prints the error it found. */
int check_array(const float *a, const float *b, size_t n, double tolerance, const char *text, const char *file,
                int line);
void test_skip(const char *why); /* marks the running case as skipped; return from it afterwards */
/* Folders, for tests that read files or start the command. */
const char *test_root(void);  /* the repository root */
const char *test_build(void); /* the build, with kiln and plugins/ */
/* A new empty folder, which is removed when the program ends. */
const char *test_folder(void);

#define CHECK(cond) check_true((cond) != 0, __FILE__, __LINE__, "%s", #cond)
#define CHECK_MSG(cond, ...) check_true((cond) != 0, __FILE__, __LINE__, __VA_ARGS__)
#define CHECK_EQ(a, b) check_i64((int64_t)(a), (int64_t)(b), #a " == " #b, __FILE__, __LINE__)
#define CHECK_STR(a, b) check_str((a), (b), #a, __FILE__, __LINE__)
#define CHECK_NEAR(a, b, tol) check_near((a), (b), (tol), #a, __FILE__, __LINE__)
#define CHECK_ARRAY(a, b, n, tol) check_array((a), (b), (n), (tol), #a, __FILE__, __LINE__)
/* Ends the case at once when the condition does not hold. */
#define REQUIRE(cond)                                                                                                  \
    do {                                                                                                               \
        if (!CHECK(cond)) return;                                                                                      \
    } while (0)

#endif
