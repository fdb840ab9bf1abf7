/* resume.c - see resume.h. */
#include "run/resume.h"

#include "base/memory_alloc.h"
#include "plugin/supervised.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

static uint64_t row_of(batch *b, size_t node) { return batch_row_of(b, node)->row + 1; }
static uint64_t name_of(const batch *b, size_t node) { return supervised_name(batch_node(b, node)->doc->name); }

static const supervised_note *find(batch *b, size_t node, note_kind kind, uint64_t index)
{
    return supervised_again() ? supervised_find(kind, row_of(b, node), name_of(b, node), index) : NULL;
}

static supervised_note *note(batch *b, size_t node, note_kind kind, uint64_t index, uint64_t detail, const char *text)
{
    if (!supervision) return NULL;
    return supervised_note_add(
        (supervised_note){
            .kind = kind, .row = row_of(b, node), .node = name_of(b, node), .index = index, .detail = detail},
        text);
}

/* ---- nodes ---- */

void resume_place(batch *b, size_t node)
{
    const graph_node *g = batch_node(b, node);
    if (supervision) supervised_place(row_of(b, node), g->type->flags & KILN_NODE_PURE ? g->key : (digest){0});
}

kiln_status resume_failure(batch *b, size_t node, error *e)
{
    const supervised_note *n = find(b, node, NOTE_FAILED, 0);
    return n ? error_set(e, (kiln_status)(int64_t)n->detail, "%s", n->text) : KILN_OK;
}

int resume_has_ended(batch *b, size_t node) { return find(b, node, NOTE_ENDED, 0) != NULL; }

int resume_has_written(batch *b, size_t node)
{
    const graph_node *g = batch_node(b, node);
    if (!is_output(g) || (g->type->n_out && g->used)) return 0;
    const supervised_note *n = find(b, node, NOTE_ENDED, 0);
    return n && n->detail & NOTE_WROTE;
}

void resume_take_files(row_log *l, size_t node)
{
    const supervised_note *n;
    for (uint64_t i = 0; (n = find(l->batch, node, NOTE_FILE, i)); i++) row_log_file(l, node, n->text);
}

static int wrote(const batch *b, const run_event *ev)
{
    return (ev->kind == RUN_NODE_DONE || ev->kind == RUN_NODE_FETCHED) && is_output(batch_node(b, ev->node));
}

static void count_end(const batch *b, const run_event *ev)
{
    atomic_fetch_add(&supervision->ended[ev->kind], 1);
    if (wrote(b, ev)) atomic_fetch_add(&supervision->outputs_done, 1);
}

static size_t ended(void)
{
    size_t n = 0;
    for (int i = 0; i < ENDED_KINDS; i++) n += atomic_load(&supervision->ended[i]);
    return n;
}

run_event resume_event(batch *b, const run_event *ev)
{
    run_event shown = *ev;
    int is_end = ev->kind != RUN_NODE_START && !ev->item;
    note_kind kind = ev->item ? NOTE_ITEM : is_end ? NOTE_ENDED : NOTE_STARTED;
    uint64_t index = ev->item ? ev->item->index : 0;
    int cancelled = ev->kind == RUN_NODE_FAILED && ev->failure->status == KILN_CANCELLED;
    if (!supervision) return shown;
    const supervised_note *event_note = find(b, ev->node, kind, index);
    int is_new = !event_note;
    if (is_new && !cancelled)
        event_note = note(b, ev->node, kind, index, ev->kind | (is_end && wrote(b, ev) ? NOTE_WROTE : 0), NULL);
    if (is_new && is_end) count_end(b, ev);
    if (ev->kind == RUN_NODE_FAILED && is_new && !cancelled)
        note(b, ev->node, NOTE_FAILED, 0, (uint64_t)(int64_t)ev->failure->status, ev->failure->message);
    if (ev->total > atomic_load(&supervision->total)) atomic_store(&supervision->total, ev->total);
    if (event_note) shown.said = (supervised_said *)(uintptr_t)&event_note->said; /* the notes are ours to write */
    if (!supervised_again() || ev->item) return shown;
    shown.done = ended();
    shown.total = atomic_load(&supervision->total);
    if (shown.total < shown.done) shown.total = shown.done;
    return shown;
}

void resume_summary(run_summary *s)
{
    if (!supervised_again()) return;
    s->ran = atomic_load(&supervision->ended[RUN_NODE_DONE]);
    s->fetched = atomic_load(&supervision->ended[RUN_NODE_FETCHED]);
    s->shared = atomic_load(&supervision->ended[RUN_NODE_SHARED]);
    s->failed = atomic_load(&supervision->ended[RUN_NODE_FAILED]);
    s->skipped = atomic_load(&supervision->ended[RUN_NODE_SKIPPED]);
    s->total = ended();
    s->outputs_done = atomic_load(&supervision->outputs_done);
}

/* ---- files ---- */

/* The name that the inode has in the folder, with the folder before it; NULL: none. In memory of the batch. */
static const char *name_of_inode(batch *b, const char *folder, uint64_t inode)
{
    const char *found = NULL;
    DIR *d = opendir(folder);
    for (struct dirent *x; d && !found && (x = readdir(d));)
        if (x->d_ino == inode && strncmp(x->d_name, ".kiln-", 6) != 0)
            found = arena_printf(&b->merged.memory, "%s/%s", folder, x->d_name);
    if (d) closedir(d);
    return found;
}

const char *resume_next_file(batch *b, size_t node, supervised_said **said)
{
    if (!supervised_again()) return NULL;
    const supervised_note *n = find(b, node, NOTE_FILE, b->n_file[node]);
    *said = n ? (supervised_said *)(uintptr_t)&n->said : NULL;
    if (n) return b->n_file[node]++, n->text;
    n = find(b, node, NOTE_NAMING, b->n_file[node]);
    return n ? name_of_inode(b, n->text, n->detail) : NULL;
}

/* What the file was before it had a name by which a plugin could reach it. */
static _Thread_local uint64_t about_to_be_named;

void resume_naming(batch *b, size_t node, const char *folder, const struct stat *file)
{
    about_to_be_named = supervised_file_of(file);
    note(b, node, NOTE_NAMING, b->n_file[node], file->st_ino, folder);
}

supervised_said *resume_named(batch *b, size_t node, const char *path)
{
    uint64_t file = about_to_be_named ? about_to_be_named : supervised_file_now(path);
    supervised_note *n = note(b, node, NOTE_FILE, b->n_file[node]++, file, path);
    about_to_be_named = 0;
    return n ? &n->said : NULL;
}

/* ---- rows ---- */

static void note_row(note_kind kind, size_t row, supervised_note n, const char *text)
{
    n.kind = kind, n.row = row + 1;
    if (supervision) supervised_note_add(n, text);
}

void resume_row_line(size_t row, uint64_t at, uint64_t bytes, int failed)
{
    note_row(NOTE_LINE, row, (supervised_note){.detail = at + bytes}, failed ? "failed" : "done");
}

void resume_row_end(size_t row, const row_record *record, int failed)
{
    note_row(NOTE_ROW, row, (supervised_note){.detail = (uint64_t)failed, .seconds = record->seconds}, record->message);
}

static kiln_status take_row(row_set *r, const supervised_note *n, int failed, const char *why)
{
    row_record *record = &r->record[n->row - 1];
    if (record->state != ROW_LEFT) return KILN_OK;
    record->state = failed ? ROW_FAILED : ROW_DONE;
    record->seconds = n->seconds;
    record->said = 1;
    *(failed ? &r->sum->failed : &r->sum->done) += 1;
    return !failed || (record->message = mem_strdup(why)) ? KILN_OK : KILN_ERR_NOMEM;
}

kiln_status resume_rows(row_set *r, const manifest *m, const char *out, error *e)
{
    size_t length = strlen(out);
    kiln_status status = KILN_OK;
    if (!r->is_sweep || !supervised_again()) return KILN_OK;
    for (const supervised_note *n = supervised_next(NULL); n && status == KILN_OK; n = supervised_next(n)) {
        if (!n->row || n->row > r->plan.n_row) continue;
        if (n->kind == NOTE_ROW)
            status = take_row(r, n, n->detail != 0, n->text);
        else if (n->kind == NOTE_LINE && m && manifest_bytes(m) >= n->detail)
            status = take_row(r, n, strcmp(n->text, "failed") == 0, "see the manifest");
    }
    for (const supervised_note *n = supervised_next(NULL); n && status == KILN_OK; n = supervised_next(n)) {
        if (n->kind != NOTE_FILE || !n->row || n->row > r->plan.n_row) continue;
        if (supervised_find(NOTE_FILE, n->row, n->node, n->index) != n) continue; /* noted again */
        row_record *record = &r->record[n->row - 1];
        int inside = strncmp(n->text, out, length) == 0 && n->text[length] == '/';
        if (record->state == ROW_DONE || record->state == ROW_FAILED)
            status = row_add_file(record, inside ? n->text + length + 1 : n->text);
    }
    return status == KILN_OK ? KILN_OK : error_set(e, status, "out of memory");
}
