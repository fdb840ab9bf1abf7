/* row_faults.c - see row_faults.h. */
#include "run/row_faults.h"

#include <stdio.h>
#include <string.h>

static int is_of_the_file(const document *file, const fault *f)
{
    for (const fault *own = file->faults; own; own = own->next)
        if (own->warning == f->warning && own->at.file == f->at.file && own->at.line == f->at.line &&
            own->at.column == f->at.column && strcmp(own->text, f->text) == 0)
            return 1;
    return 0;
}

static int was_shown(row_faults *shown, const char *text)
{
    digest d = digest_of(text, strlen(text));
    for (size_t k = 0; k < shown->n; k++)
        if (digest_equal(shown->seen[k], d)) return 1;
    if (shown->n < FAULTS_SHOWN) {
        shown->seen[shown->n++] = d;
        return 0;
    }
    shown->more++;
    return 1;
}

void row_faults_show(row_faults *shown, const open_row *row)
{
    const document *doc = &row->read->doc;
    for (const fault *f = doc->faults; f; f = f->next) {
        char text[2000], at[300] = "";
        int any_row = is_of_the_file(shown->file, f);
        if (f->warning && shown->job->rows_warned) continue;
        if (f->at.line) snprintf(at, sizeof at, "%.250s:%u:%u: ", document_file(doc, f->at), f->at.line, f->at.column);
        snprintf(text, sizeof text, "%s%s: %s", at, f->warning ? "warning" : "error", f->text);
        if (was_shown(shown, text)) continue;
        if (!any_row) {
            size_t n = strlen(text);
            snprintf(text + n, sizeof text - n, " [row %zu: %s]", row->row + 1, row->label);
        }
        job_line(shown->job, text, f->warning);
    }
}

void row_faults_end(const row_faults *shown)
{
    char text[60];
    snprintf(text, sizeof text, "and %zu more errors and warnings", shown->more);
    if (shown->more) job_line(shown->job, text, 0);
}
