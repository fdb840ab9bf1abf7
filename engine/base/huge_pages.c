/* huge_pages.c - see huge_pages.h. */
#include "base/huge_pages.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE_ORDER = 12, HUGE_ORDER = 9, ORDERS_MAX = 24 };         /* 4 KB; so many doublings are 2 MB */
static const size_t worth_asking = 4 << 20, kept_free = 256 << 20; /* the system wants some for itself */

/* Of one zone: what follows its name. */
static size_t free_in_zone(const char *text)
{
    size_t bytes = 0;
    for (int order = 0; order < ORDERS_MAX; order++) {
        char *end;
        unsigned long long n = strtoull(text, &end, 10);
        if (end == text) break;
        if (order >= HUGE_ORDER && n < UINT32_MAX) bytes += (size_t)n << (PAGE_ORDER + order);
        text = end + strspn(end, " \t");
        if (*text < '0' || *text > '9') break;
    }
    return bytes;
}

size_t huge_pages_available(const char *buddyinfo)
{
    size_t bytes = 0;
    for (const char *zone = buddyinfo; (zone = strstr(zone, "zone ")); zone += strcspn(zone, "\n")) {
        zone += strlen("zone "), zone += strspn(zone, " ");
        const int kept = strncmp(zone, "DMA", 3) == 0; /* the system keeps those for devices as long as it can */
        zone += strcspn(zone, " \n");
        if (*zone == ' ' && !kept) bytes += free_in_zone(zone);
    }
    return bytes;
}

static size_t available_now(void)
{
    char text[8192]; /* a zone takes 100 bytes; of very many nodes the first are looked at */
    int fd = open("/proc/buddyinfo", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    if (n <= 0) return 0;
    text[n] = '\0';
    return huge_pages_available(text);
}

void huge_pages_ask(void *block, size_t bytes)
{
    if (bytes < worth_asking || sysconf(_SC_PAGESIZE) != 1 << PAGE_ORDER) return;
    size_t there = available_now();
    if (there <= kept_free) return;
    there -= kept_free;
    madvise(block, there < bytes ? there >> 21 << 21 : bytes, MADV_HUGEPAGE); /* only ever a hint */
}
