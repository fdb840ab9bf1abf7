/* trust.h - whether anybody but the user and root can change a file or folder (a plugin, the cache). */
#ifndef KILN_BASE_TRUST_H
#define KILN_BASE_TRUST_H

#include <sys/stat.h>

/* NULL when the file belongs to root or the user and nobody else may write to it; otherwise what is wrong, for a
 * message. A group whose only member is that user (as distributions with umask 002 have) may write. One thread at a
 * time: it uses getpwent(). */
const char *trust_fault(const struct stat *s);
/* Only whether anybody but the owner may write. One thread at a time. */
int others_may_write(const struct stat *s);

#endif
