/* supervisor_messages.c - see supervisor_messages.h. What comes is read with distrust: a plugin may have written to the
 * pipe.
 */
#include "run/supervisor_messages.h"

#include "base/memory_alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { PIPE_BYTES = 1 << 20, KEPT_FIRST = 64 << 10 };

int messages_open(supervisor_messages *t, uint64_t mark)
{
    int fd[2];
    if (pipe2(fd, O_CLOEXEC) != 0) return t->fd = -1;
    fcntl(fd[1], F_SETPIPE_SZ, PIPE_BYTES); /* fewer looks at it; where that is too much it stays as it is */
    fcntl(fd[0], F_SETFL, O_NONBLOCK);
    t->fd = fd[0], t->mark = mark;
    t->have = 0, t->closed = t->broken = t->read = t->held = t->finished = 0;
    memset(t->call, 0, sizeof t->call);
    for (size_t i = 0; i < t->n_plugin; i++) t->plugin[i].loaded = 0;
    return fd[1];
}

void messages_close(supervisor_messages *t)
{
    if (t->fd >= 0) close(t->fd);
    t->fd = -1;
}

/* ---- notes ---- */

static int keep_bytes(supervisor_messages *t, const supervised_note *head, const char *text)
{
    size_t length = strlen(text) + 1;
    if (head->size > NOTES_BYTES - t->n_note) return 0;
    if (t->n_note + head->size > t->capacity) {
        size_t capacity = t->capacity ? t->capacity : KEPT_FIRST;
        while (capacity < t->n_note + head->size) capacity *= 2;
        char *more = mem_realloc(t->notes, capacity);
        if (!more) return 0;
        t->notes = more, t->capacity = capacity;
    }
    memset(t->notes + t->n_note, 0, head->size);
    memcpy(t->notes + t->n_note, head, sizeof *head);
    memcpy(t->notes + t->n_note + offsetof(supervised_note, text), text, length);
    t->n_note += head->size;
    return 1;
}

int messages_keep(supervisor_messages *t, const supervised_note *n) { return keep_bytes(t, n, n->text); }

static void take_said(supervised_said *own, const supervised_said *shared)
{
    atomic_store(&own->what, atomic_load(&shared->what));
    atomic_store(&own->begin, atomic_load(&shared->begin));
    atomic_store(&own->end, atomic_load(&shared->end));
}

void messages_take_said(supervisor_messages *t, int believed)
{
    const supervised_note *shared = believed ? supervised_next(NULL) : NULL;
    for (size_t at = 0; at < t->n_note;) {
        supervised_note *own = (void *)(t->notes + at);
        int is_run = own->kind < NOTE_CRASHED;
        if (believed && shared && shared->kind == own->kind && shared->size == own->size)
            take_said(&own->said, &shared->said);
        else if (!believed && is_run)
            atomic_store(&own->said.what, ~0u);
        at += own->size;
        if (shared) shared = supervised_next(shared);
    }
}

void messages_take_shared(supervisor_messages *t)
{
    size_t at = 0;
    for (const supervised_note *n = supervised_next(NULL); n; at += n->size, n = supervised_next(n))
        if (at >= t->n_note && (n->kind >= NOTE_CRASHED || !keep_bytes(t, n, n->text))) return;
}

/* ---- messages ---- */

static int take_note(supervisor_messages *t, const char *body, size_t size)
{
    supervised_note head;
    char text[MESSAGE_MAX];
    if (size < sizeof head) return 0;
    memcpy(&head, body, sizeof head);
    size_t length = size - sizeof head;
    if (head.size != ((sizeof head + length + 1 + 7) & ~(size_t)7) || head.kind == 0 || head.kind >= NOTE_CRASHED)
        return 0;
    memcpy(text, body + sizeof head, length);
    text[length] = '\0';
    return strlen(text) == length && keep_bytes(t, &head, text);
}

static void bounded_text(char to[PLACE_MAX], const char from[PLACE_MAX])
{
    memcpy(to, from, PLACE_MAX);
    to[PLACE_MAX - 1] = '\0';
}

static int take_call(supervisor_messages *t, message_kind kind, const char *body, size_t size)
{
    message_call sent = {0};
    if (size != (kind == MESSAGE_ENTER ? sizeof sent : offsetof(message_call, function))) return 0;
    memcpy(&sent, body, size);
    if (sent.slot >= CALLS_MAX) return 0;
    supervised_call *c = &t->call[sent.slot];
    memset(c, 0, sizeof *c);
    if (kind == MESSAGE_LEAVE) return 1;
    c->order = sent.order, c->thread = sent.thread, c->row = sent.row, c->node = sent.node, c->key = sent.key;
    c->foreign = 1;
    memcpy(c->function, sent.function, sizeof c->function);
    c->function[sizeof c->function - 1] = '\0';
    bounded_text(c->name, sent.name), bounded_text(c->type, sent.type), bounded_text(c->plugin, sent.plugin);
    atomic_store(&c->state, CALL_RUNS);
    return 1;
}

static int take_plugin(supervisor_messages *t, message_kind kind, const char *body, size_t size)
{
    message_plugin sent;
    size_t i = 0;
    if (size != sizeof sent) return 0;
    memcpy(&sent, body, sizeof sent);
    sent.id[PLACE_MAX - 1] = sent.path[sizeof sent.path - 1] = '\0';
    while (i < t->n_plugin && t->plugin[i].what.file != sent.file) i++;
    if (i == MESSAGE_PLUGINS) return 1;
    if (i == t->n_plugin) t->plugin[t->n_plugin++] = (known_plugin){.what = sent};
    *(kind == MESSAGE_PLUGIN ? &t->plugin[i].loaded : &t->plugin[i].needed) = 1;
    return 1;
}

static int take_end(supervisor_messages *t, const char *body, size_t size)
{
    if (size != sizeof t->end) return 0;
    memcpy(&t->end, body, sizeof t->end);
    return t->finished = 1;
}

static int take(supervisor_messages *t, message_kind kind, const char *body, size_t size)
{
    switch (kind) {
    case MESSAGE_NOTE: return take_note(t, body, size);
    case MESSAGE_ENTER:
    case MESSAGE_LEAVE: return take_call(t, kind, body, size);
    case MESSAGE_PLUGIN:
    case MESSAGE_NEEDED: return take_plugin(t, kind, body, size);
    case MESSAGE_READ: return t->read = size == 0;
    case MESSAGE_HELD: return t->held = size == 0;
    case MESSAGE_END: return take_end(t, body, size);
    }
    return 0;
}

/* Whole messages; what is left of one waits for the rest. */
static void take_all(supervisor_messages *t)
{
    size_t at = 0;
    message_head head;
    while (!t->broken && t->have - at >= sizeof head) {
        memcpy(&head, t->buffer + at, sizeof head);
        if (head.mark != t->mark || head.size < sizeof head || head.size > MESSAGE_MAX) {
            t->broken = 1;
            break;
        }
        if (head.size > t->have - at) break;
        if (!take(t, (message_kind)head.kind, t->buffer + at + sizeof head, head.size - sizeof head)) t->broken = 1;
        at += head.size;
    }
    memmove(t->buffer, t->buffer + at, t->have - at);
    t->have -= at;
}

size_t messages_read(supervisor_messages *t)
{
    size_t all = 0;
    while (t->fd >= 0 && !t->broken) {
        ssize_t n = read(t->fd, t->buffer + t->have, sizeof t->buffer - t->have);
        if (n < 0 && errno == EINTR) continue;
        if (n == 0) t->closed = 1;
        if (n <= 0) break;
        t->have += (size_t)n, all += (size_t)n;
        take_all(t);
    }
    return all;
}
