/* huge_pages.h - pages of 2 MB for large blocks. In pages of 4 KB a processor looks up an address for each, and a page
 * fault makes each; in a virtual machine a lookup takes some hundred cycles.
 */
#ifndef KILN_BASE_HUGE_PAGES_H
#define KILN_BASE_HUGE_PAGES_H

#include <stddef.h>

/* Asks for huge pages for a block that was just mapped, for as much of it as the system has free ones. It is never
 * asked to make some by moving pages or by dropping files, which takes seconds. [any] */
void huge_pages_ask(void *block, size_t bytes);

/* The bytes that are free in pieces of 2 MB and more, by a text as /proc/buddyinfo has it: a line for each zone, with
 * the numbers of free pieces of 4, 8, 16 KB and so on. 0 where it is none. */
size_t huge_pages_available(const char *buddyinfo);

#endif
