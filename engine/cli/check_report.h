/* check_report.h - what `kiln check-plugin` prints: findings, as lines or as JSON, and how much each counts.
 *
 * Findings come from child processes that may crash after any of them, so each is printed at once and whole.
 */
#ifndef KILN_CLI_CHECK_REPORT_H
#define KILN_CLI_CHECK_REPORT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "kiln/params.h"

/* What a plugin that fails it does to its users: CONTRACT: crashes, damage, lost or wrong work of others. BEHAVIOUR:
 * what its rows say of it is not so. QUALITY: it works, and could be pleasanter to use. */
typedef enum { CHECK_CONTRACT, CHECK_BEHAVIOUR, CHECK_QUALITY, CHECK_LEVELS } check_level;

typedef struct {
    uint64_t passed, failed[CHECK_LEVELS], left; /* left: what could not be checked */
    uint64_t untried;                            /* of those: nodes and families of which nothing ran */
} check_counts;

uint64_t check_failures(const check_counts *c);
void check_add(check_counts *to, const check_counts *more);

void check_json(int on); /* JSON lines instead of text from here on */
/* What findings are about from here on: "node", "ImageGain". */
void check_subject(const char *kind, const char *name);

/* One check: counted, and printed where it failed. Its level goes by the name of the test. Returns ok. */
int check_found(check_counts *c, int ok, const char *test, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
int check_foundv(check_counts *c, int ok, const char *test, const char *fmt, va_list args)
    __attribute__((format(printf, 4, 0)));
/* Something that holds, and is worth a line. Counted. */
void check_holds(check_counts *c, const char *test, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Worth knowing, and neither: not counted. */
void check_note(const char *test, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* What could not be tried, and what it would want. Counted. */
void check_left(check_counts *c, const char *what, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* The same of a subject of which nothing could be run, which the badge then says. `give`: "weights with --fixture". A
 * child process's count reaches the badge by check_list_untried() in its parent. */
void check_untried(check_counts *c, const char *give, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void check_list_untried(const char *give);
#define CHECK_GIVE_WEIGHTS "weights with --fixture, or a workflow that loads them with --workflow"
/* It was tried in another way: the badge does not name it. */
void check_was_tried(const char *name);
/* A line about the subject as it begins to be tried. */
void check_begin(void);

/* A struct that rows should fill, and rows that nobody counts: such a table loads, since C++ sizes an empty struct 1
 * and some languages give an array for none; in C it is a forgotten KILN_ARRAY. */
void check_rows_filled(check_counts *c, const kiln_param_table *t);

/* The last lines of a file: counts, what each level is worth, and the badge. n: nodes, samplers and the like tried. */
void check_summary(const char *plugin, const char *version, const check_counts *c, uint64_t n);

#endif
