/* page_reader.c - see page_reader.h. */
#include "base/page_reader.h"

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { PART = 512 << 10, AT_ONCE = 128 << 10 /* of more at once Linux may read only the beginning */ };
enum { PAUSE_NS = 500000, PAUSES = 1000 };

/* Has the page been read? Also where the system does not say. */
static int is_there(uintptr_t page)
{
    unsigned char there = 1;
    return mincore((void *)page, 1, &there) != 0 || there & 1;
}

static void wait_for(const page_reader *r, uintptr_t page)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    for (int i = 0; i < PAUSES && !is_there(page) && !r->stop(r->arg); i++) nanosleep(&pause, NULL);
}

void page_reader_ask(page_reader *r, const void *begin, size_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)begin / page * page,
              end = (uintptr_t)begin + bytes;
    while (at < end && !r->stop(r->arg)) {
        uintptr_t last = end - at > PART ? at + PART : end, *oldest = &r->asked[r->n % PAGE_READER_ASKED];
        if (r->n >= PAGE_READER_ASKED) wait_for(r, *oldest);
        for (; at < last; at += AT_ONCE) madvise((void *)at, last - at < AT_ONCE ? last - at : AT_ONCE, MADV_WILLNEED);
        at = last, r->n++;
        *oldest = (last - 1) / page * page;
    }
}
