/* page_reader.h - pages of mapped files that the system is asked to read soon, only so many at a time: what somebody
 * else needs from the same disk meanwhile does not have to wait for all of them.
 */
#ifndef KILN_BASE_PAGE_READER_H
#define KILN_BASE_PAGE_READER_H

#include <stddef.h>
#include <stdint.h>

enum { PAGE_READER_ASKED = 16 };

typedef struct {
    int (*stop)(void *arg); /* 1: no more is wanted. Asked between parts. */
    void *arg;
    uintptr_t
        asked[PAGE_READER_ASKED]; /* last pages of the parts asked for last; the oldest at n % PAGE_READER_ASKED */
    size_t n;                     /* parts so far */
} page_reader;

/* Asks for the pages of a mapping; returns when all but the last PAGE_READER_ASKED parts of half a megabyte are there,
 * those of earlier calls included, or do not come. Only ever a hint: nothing fails. */
void page_reader_ask(page_reader *r, const void *begin, size_t bytes);

#endif
