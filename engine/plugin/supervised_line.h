/* supervised_line.h - what the process that runs tells the one that watches through a pipe: what was sent cannot be
 * written over any more, as the shared memory of supervised.h can.
 *
 * Each message is one write of at most PIPE_BUF bytes, so that those of several threads do not mix. Any thread.
 */
#ifndef KILN_PLUGIN_SUPERVISED_LINE_H
#define KILN_PLUGIN_SUPERVISED_LINE_H

#include "plugin/supervised.h"

typedef enum {
    MESSAGE_NOTE = 1, /* a supervised_note with its text                     */
    MESSAGE_ENTER,    /* a message_call: of a plugin that is not kiln's own     */
    MESSAGE_LEAVE,    /* a message_call, of which `slot` alone counts           */
    MESSAGE_PLUGIN,   /* a message_plugin was loaded                            */
    MESSAGE_NEEDED,   /* the same, of which something is used                */
    MESSAGE_READ,     /* the workflow is read: all that is needed was sent   */
    MESSAGE_HELD,     /* what runs without the plugins held back is finished */
    MESSAGE_END       /* a message_end: main() is about to return               */
} message_kind;

typedef struct {
    uint64_t mark; /* the run's own number */
    uint32_t kind, size;
} message_head;

typedef struct {
    uint32_t slot, order;
    uint64_t thread, row, node;
    digest key;
    char function[16], name[PLACE_MAX], type[PLACE_MAX], plugin[PLACE_MAX];
} message_call;

typedef struct {
    uint64_t file; /* supervised_name() of its path */
    char id[PLACE_MAX], path[512];
} message_plugin;

typedef struct {
    int32_t status;
    uint32_t none; /* no padding, whose bytes nothing has set */
    digest files;
} message_end;

enum { MESSAGE_MAX = 4096 };

/* The end to write to, of the process that runs; -1: nobody listens. */
void supervised_line_open(int fd, uint64_t mark);
/* Ends the process when what it shares with the watching one was written over: there is nothing to go on from. */
void supervised_check(void);
void supervised_send(message_kind kind, const void *what, size_t size, const char *text, size_t text_size);

#endif
