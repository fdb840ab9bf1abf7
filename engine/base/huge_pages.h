/* huge_pages.h - large pages for large blocks. A block in pages of 4 KB makes a processor look up an address for each,
 * which in a virtual machine takes as long as hundreds of products, and lies in its caches by chance; one in pages of
 * 2 MB does neither, and has a five-hundredth of the page faults.
 */
#ifndef KILN_BASE_HUGE_PAGES_H
#define KILN_BASE_HUGE_PAGES_H

#include <stddef.h>

/* Asks for large pages for a block that was just mapped, as far as the system has them lying free: of what it would
 * have to make by moving pages about or by dropping files nothing is asked for, since that takes seconds. */
void huge_pages_ask(void *block, size_t bytes);

/* The bytes of free pieces of 2 MB and more in a text as /proc/buddyinfo has it: a line for each zone, with the number
 * of free pieces of 4, 8, 16 KB and so on. 0 where it is none. */
size_t huge_pages_free(const char *buddyinfo);

#endif
