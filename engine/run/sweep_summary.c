/* sweep_summary.c - see sweep_summary.h. */
#include "run/sweep_summary.h"

#include "base/print.h"
#include "run/picture_file.h"
#include "run/sheet.h"

#include <stdio.h>
#include <string.h>

enum { FAILED_SHOWN = 20 };

static kiln_status cell_of(const row_record *row, const char *out, arena *memory, sheet_cell *cell, error *e)
{
    size_t k = 0;
    *cell = (sheet_cell){.state = row->state == ROW_FAILED ? SHEET_FAILED : SHEET_EMPTY};
    while (k < row->n_file && !picture_file_kind(row->file[k])) k++;
    if (row->state == ROW_FAILED || row->state == ROW_LEFT || k == row->n_file) return KILN_OK;
    *cell = (sheet_cell){.state = SHEET_PICTURE, .path = arena_printf(memory, "%s/%s", out, row->file[k])};
    return cell->path ? KILN_OK : error_set(e, KILN_ERR_NOMEM, "out of memory");
}

kiln_status sweep_write_sheet(const row_set *r, const char *out, const char *path, error *e)
{
    arena memory = {0};
    sheet_cell *cell = arena_alloc(&memory, r->plan.n_row * sizeof *cell);
    kiln_status status = cell ? KILN_OK : error_set(e, KILN_ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < r->plan.n_row && status == KILN_OK; i++)
        status = cell_of(&r->record[i], out, &memory, &cell[i], e);
    if (status == KILN_OK) status = sheet_write(&r->plan, cell, path, e);
    arena_free(&memory);
    if (status == KILN_OK) print_text(stdout, "%s\n", path), print_flush(stdout);
    return status;
}

static void say_failed(const row_set *r)
{
    char label[LABEL_CAPACITY];
    size_t shown = 0;
    for (size_t i = 0; i < r->plan.n_row && shown < FAILED_SHOWN; i++) {
        const row_record *row = &r->record[i];
        if (row->state != ROW_FAILED) continue;
        sweep_label(&r->plan, i, label, sizeof label);
        if (row->said)
            print_text(stderr, "kiln: failed: row %zu (%s)\n", i + 1, label);
        else
            print_text(stderr, "kiln: failed: row %zu (%s): %s\n", i + 1, label,
                       row->message ? row->message : "out of memory");
        shown++;
    }
    if (r->sum->failed > shown) print_text(stderr, "kiln: and %zu more\n", r->sum->failed - shown);
}

void sweep_say_summary(const row_set *r, int quiet)
{
    const job_summary *s = r->sum;
    if (!quiet) {
        print_text(stderr, "sweep: %zu row%s: %zu done", s->rows, s->rows == 1 ? "" : "s", s->done);
        if (s->before) print_text(stderr, ", %zu done before (--again runs them too)", s->before);
        if (s->failed) print_text(stderr, ", %zu failed", s->failed);
        if (s->left) print_text(stderr, ", %zu left", s->left);
        print_text(stderr, "; %zu nodes ran, %zu were shared, %zu came from the cache\n", s->nodes.ran, s->nodes.shared,
                   s->nodes.fetched);
    }
    say_failed(r);
}
