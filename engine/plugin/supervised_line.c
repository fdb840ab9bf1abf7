/* supervised_line.c - see supervised_line.h. */
#include "plugin/supervised_line.h"

#include "base/descriptors.h"
#include "base/unfinished.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

_Static_assert(MESSAGE_MAX <= PIPE_BUF, "a message is one write");
_Static_assert(sizeof(message_end) == 2 * sizeof(uint32_t) + sizeof(digest), "every byte that is sent has a value");

static int line = -1;
static uint64_t line_mark;

void supervised_line_open(int fd, uint64_t mark)
{
    enum { OUT_OF_THE_WAY = 64 };
    int high = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, OUT_OF_THE_WAY) : -1;
    if (high >= 0) close(fd);
    line = high >= 0 ? high : fd;
    line_mark = mark;
    if (line >= 0) descriptors_rely_on(line);
}

void supervised_check(void)
{
    const supervised_page *p = supervision;
    if (line < 0 || (p->whole == line_mark && p->whole_calls == line_mark && p->whole_end == line_mark)) return;
    unfinished_remove();
    _exit(1);
}

/* A plugin may have made the descriptor not block. */
static int wait_for_room(void)
{
    struct pollfd p = {.fd = line, .events = POLLOUT};
    return errno == EINTR || (errno == EAGAIN && poll(&p, 1, -1) >= 0);
}

void supervised_send(message_kind kind, const void *what, size_t size, const char *text, size_t text_size)
{
    char message[MESSAGE_MAX];
    message_head head = {.mark = line_mark, .kind = (uint32_t)kind, .size = (uint32_t)(sizeof head + size + text_size)};
    if (line < 0) return;
    assert(head.size <= sizeof message);
    memcpy(message, &head, sizeof head);
    if (size) memcpy(message + sizeof head, what, size);
    if (text_size) memcpy(message + sizeof head + size, text, text_size);
    while (write(line, message, head.size) < 0 && wait_for_room()) continue;
}
