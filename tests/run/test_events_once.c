/* test_events_once.c - a process that is killed at any byte of an event's line, or between the line and the mark of it,
 * leaves a file that the next process goes on in: each event is in it once, and whole. What such a process leaves is
 * the events' file and the notes in shared memory; both are put here into each state they can be left in.
 */
#include "harness.h"

#include "base/arena.h"
#include "plugin/supervised.h"
#include "run/report.h"
#include "workflow/document.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static doc_node text_of_node = {.name = "blur"};
static const kiln_node type = {.size = sizeof type, .type = "ImageBlur"};
static document text = {.path = "w.yaml"};
static graph_node node = {.doc = &text_of_node, .type = &type};
static const workflow graph = {.doc = &text, .node = &node, .n = 1};

static const char *events_file(void)
{
    static char path[700];
    snprintf(path, sizeof path, "%s/events.jsonl", test_folder());
    return path;
}

static report *open_report(void)
{
    error e = {0};
    report *r = report_open(&(report_setting){.workflow = &graph, .events = events_file(), .quiet = 1}, &e);
    if (!r) printf("FAIL open: %s\n", e.message), exit(1);
    return r;
}

static int64_t size_now(void)
{
    struct stat file;
    return stat(events_file(), &file) == 0 ? file.st_size : -1;
}

static void report_end(report *r, supervised_note *n)
{
    report_event(
        r,
        &(run_event){.kind = n->kind == NOTE_STARTED ? RUN_NODE_START : RUN_NODE_DONE, .seconds = 1, .said = &n->said});
}

/* How many whole lines the file has with that text; -1: something in it is no whole line. */
static int lines_with(const char *event)
{
    char line[4096];
    int n = 0;
    FILE *f = fopen(events_file(), "r");
    while (f && fgets(line, sizeof line, f)) {
        size_t length = strlen(line);
        const char *head = "{\"event\": ", *inside = strchr(line, '{') ? strchr(line, '{') + 1 : line;
        if (strncmp(line, head, strlen(head)) != 0 || strchr(inside, '{') || strcmp(line + length - 2, "}\n") != 0)
            n = -1000;
        n += strstr(line, event) != NULL;
    }
    if (f) fclose(f);
    return n < 0 ? -1 : n;
}

/* The process is killed when `bytes` of the second event's line are written, before it is marked. How long the line is;
 * bytes < 0: from its end. */
static int64_t killed_at(int64_t bytes)
{
    CHECK(supervised_begin());
    supervised_note *start = supervised_note_add((supervised_note){.kind = NOTE_STARTED, .row = 1, .node = 1}, NULL),
                    *done = supervised_note_add((supervised_note){.kind = NOTE_ENDED, .row = 1, .node = 1}, NULL);
    report *r = open_report();
    report_end(r, start);
    int64_t before = size_now();
    report_end(r, done);
    int64_t line = size_now() - before;
    CHECK(line > 40 && done->said.what & SAID_EVENT);
    report_close(r, NULL, NULL, NULL);
    if (bytes < 0) bytes += line + 1;
    if (bytes > line) bytes = line; /* times in it are of any length */
    CHECK(truncate(events_file(), before + bytes) == 0);
    atomic_store(&done->said.what, 0);

    supervision->attempt = 1;
    r = open_report();
    report_end(r, start), report_end(r, done);
    report_close(r, NULL, NULL, NULL);
    int started = lines_with("node_start"), ended = lines_with("node_done");
    CHECK_MSG(started == 1 && ended == 1 && lines_with("run_start") == 1,
              "killed at byte %lld of %lld: %d starts, %d ends", (long long)bytes, (long long)line, started, ended);
    supervised_end();
    return line;
}

static void test_each_byte(void)
{
    int64_t bytes = 0;
    while (killed_at(bytes) > bytes) bytes++;
    CHECK(bytes > 40);
}

/* A process that was killed before it wrote a line, and the next one after others' lines, cost no event. */
static void test_killed_twice(void)
{
    CHECK(supervised_begin());
    supervised_note *first = supervised_note_add((supervised_note){.kind = NOTE_ENDED, .row = 1, .node = 1}, NULL),
                    *other = supervised_note_add((supervised_note){.kind = NOTE_STARTED, .row = 1, .node = 2}, NULL);
    report *r = open_report();
    int64_t before = size_now();
    report_end(r, first);
    report_close(r, NULL, NULL, NULL);
    CHECK(truncate(events_file(), before) == 0);
    atomic_store(&first->said.what, 0);
    for (uint32_t attempt = 1; attempt < 3; attempt++) {
        supervision->attempt = attempt;
        r = open_report();
        report_end(r, other);
        for (int i = 0; i < 9; i++) report_note(r, 0, "longer than the line of an event");
        if (attempt == 2) report_end(r, first);
        report_close(r, NULL, NULL, NULL);
    }
    CHECK_EQ(lines_with("node_done"), 1);
    CHECK_EQ(lines_with("node_start"), 1);
    supervised_end();
}

static void test_whole_line_without_its_mark(void) { killed_at(-1); }
static void test_all_but_the_newline(void) { killed_at(-2); }

/* What a process left that has overwritten the shared memory counts as said. */
static void test_marks_of_a_process_that_is_not_believed(void)
{
    CHECK(supervised_begin());
    supervised_note *done = supervised_note_add((supervised_note){.kind = NOTE_ENDED, .row = 1, .node = 1}, NULL);
    report *r = open_report();
    report_close(r, NULL, NULL, NULL);
    int64_t before = size_now();
    atomic_store(&done->said.what, ~0u); /* as messages_take_said() leaves it */
    supervision->attempt = 1;
    r = open_report();
    report_end(r, done);
    report_close(r, NULL, NULL, NULL);
    CHECK_EQ(size_now(), before);
    supervised_end();
}

/* A file that grew otherwise, or is gone, costs no event. */
static void test_a_file_that_is_gone(void)
{
    CHECK(supervised_begin());
    supervised_note *done = supervised_note_add((supervised_note){.kind = NOTE_ENDED, .row = 1, .node = 1}, NULL);
    report *r = open_report();
    report_end(r, done);
    report_close(r, NULL, NULL, NULL);
    atomic_store(&done->said.what, 0);
    CHECK(unlink(events_file()) == 0);
    supervision->attempt = 1;
    r = open_report();
    report_end(r, done);
    report_close(r, NULL, NULL, NULL);
    CHECK_EQ(lines_with("node_done"), 1);
    supervised_end();
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_each_byte),
                                      CASE(test_killed_twice),
                                      CASE(test_whole_line_without_its_mark),
                                      CASE(test_all_but_the_newline),
                                      CASE(test_marks_of_a_process_that_is_not_believed),
                                      CASE(test_a_file_that_is_gone)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
