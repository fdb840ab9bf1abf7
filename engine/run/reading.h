/* reading.h - an opened job: its source's text, and the readings of it. A reading is the text parsed with some settings
 * and checked against the plugins there are; the first one has the command line's settings alone, and each row of a
 * sweep is a further one.
 */
#ifndef KILN_RUN_READING_H
#define KILN_RUN_READING_H

#include "base/str.h"
#include "base/arena.h"
#include "run/files.h"
#include "run/job.h"

typedef struct {
    document doc;
    workflow w;             /* lives in doc            */
    const node_info **info; /* by node; lives in doc   */
} reading;

struct job {
    catalog *catalog;
    file_roots roots;
    const char *path; /* as given */
    char *text;
    size_t text_size;
    const set_option *set; /* the command line's */
    size_t n_set;
    reading first;
    void (*line)(void *arg, const char *text, int is_warning); /* job_source's; NULL: to standard error */
    void *line_arg;
    int keeps_catalog; /* it is another's */
    int unchecked;     /* job_source's    */
    int thorough;      /* job_source's    */
    int rows_warned;   /* warnings of a sweep's rows have been said */
    uint64_t entropy;  /* of seeds that are `random` (random_seed.h); 0: not drawn yet */
    str drawn;         /* "seed=123": the settings that they stand for, of the first reading that had some */
    arena memory;
};

/* Look at out->doc.n_fault. reading_free also on failure. A reading stays where it was read into. */
kiln_status job_read(job *j, const set_option *set, size_t n_set, reading *out, error *e);
void reading_free(reading *r);
/* A fault or a warning, to wherever the job's go. */
void job_line(const job *j, const char *text, int is_warning);
/* `to`, which is freed, becomes what `from` was. */
void reading_move(reading *to, reading *from);

#endif
