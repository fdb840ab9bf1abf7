/* sweep_values.h - values of a sweep as people write them: "5,7,9", "1..100", "0.5..1.0..0.1", "@lines.txt", quoted as
 * RFC 4180 says, and the lines of a CSV file.
 */
#ifndef KILN_RUN_SWEEP_VALUES_H
#define KILN_RUN_SWEEP_VALUES_H

#include "base/arena.h"
#include "base/status.h"

/* Values as they are gathered: texts in the arena, or NULL for a field that sets nothing. mem_free(value) ends it. */
typedef struct {
    arena *memory;
    const char *what; /* "--over seed", or the CSV file: for messages */
    const char **value;
    size_t n, capacity;
} values;

typedef struct {
    const char *at, *end;
    size_t line; /* from 1 */
} value_reader;

/* One more value; text NULL: there was no memory for it. */
kiln_status values_add(values *v, const char *text, error *e);
/* The text behind "NAME=". */
kiln_status values_read_list(values *v, const char *text, error *e);

/* A UTF-8 text file, without its BOM. *data is to be freed also on failure. `what`: for messages. */
kiln_status value_text_open(const char *what, const char *path, char **data, value_reader *r, error *e);
/* The fields of the line at r into v; *n: how many. header: they are names. */
kiln_status values_read_record(values *v, value_reader *r, int header, size_t *n, error *e);
/* Past the end of a line. */
void value_line_end(value_reader *r);

#endif
