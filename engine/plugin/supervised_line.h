/* supervised_line.h - what the process that runs tells the one that watches through a pipe: what was told cannot be
 * written over any more, as the shared memory of supervised.h can.
 *
 * Each message is one write of at most PIPE_BUF bytes, so that those of several threads do not mix. Any thread.
 */
#ifndef KILN_PLUGIN_SUPERVISED_LINE_H
#define KILN_PLUGIN_SUPERVISED_LINE_H

#include "plugin/supervised.h"

typedef enum {
    TOLD_NOTE = 1, /* a supervised_note with its text                     */
    TOLD_ENTER,    /* a told_call: of a plugin that is not kiln's own     */
    TOLD_LEAVE,    /* a told_call, of which `slot` alone counts           */
    TOLD_PLUGIN,   /* a told_plugin was loaded                            */
    TOLD_NEEDED,   /* the same, of which something is used                */
    TOLD_READ,     /* the workflow is read: all that is needed was told   */
    TOLD_HELD,     /* what runs without the plugins held back is finished */
    TOLD_END       /* a told_end: main() is about to return               */
} told_kind;

typedef struct {
    uint64_t mark; /* the run's own number */
    uint32_t kind, size;
} told_head;

typedef struct {
    uint32_t slot, order;
    uint64_t thread, row, node;
    digest key;
    char function[16], name[PLACE_MAX], type[PLACE_MAX], plugin[PLACE_MAX];
} told_call;

typedef struct {
    uint64_t file; /* supervised_name() of its path */
    char id[PLACE_MAX], path[512];
} told_plugin;

typedef struct {
    int32_t status;
    digest files;
} told_end;

enum { TOLD_MAX = 4096 };

/* The end to write to, of the process that runs; -1: nobody listens. */
void supervised_line_open(int fd, uint64_t mark);
/* Ends the process when what it shares with the watching one was written over: there is nothing to go on from. */
void supervised_check(void);
void supervised_tell(told_kind kind, const void *what, size_t size, const char *text, size_t text_size);

#endif
