/* trust.h - whether a file or folder (a plugin, the cache) can be changed by anybody but its user and root. */
#ifndef KILN_BASE_TRUST_H
#define KILN_BASE_TRUST_H

#include <sys/stat.h>

/* NULL, or what is wrong with the owner and mode of a file or folder: it is to be root's or the user's own, and
 * writable by nobody else. A group that has no member but that user (what umask 002 is made for) counts as nobody else.
 * One thread. */
const char *trust_fault(const struct stat *s);
/* The second half of it: whether anybody but the owner may write. One thread. */
int others_may_write(const struct stat *s);

#endif
