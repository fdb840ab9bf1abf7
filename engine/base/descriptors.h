/* descriptors.h - how many more files this process may open, and which open ones it relies on. */
#ifndef KILN_BASE_DESCRIPTORS_H
#define KILN_BASE_DESCRIPTORS_H

#include "base/status.h"

#include <sys/types.h>

enum { DESCRIPTORS_ENOUGH = 64 /* several times what a run needs, besides one for each plugin */ };

/* 1: `want` more files (at most 32) can be opened right now. Tries it; none stays open. */
int descriptors_left(unsigned want);
/* KILN_ERR_NOMEM. The message names the current limit and one that is enough for `plugins` plugins, each of which keeps
 * a file open. */
kiln_status descriptors_ran_out(size_t plugins, error *e);
unsigned long descriptors_limit(void); /* 0: unlimited or unknown */

/* Files that stay open for long, so that who closes one that is not his own is found. rely_on_file: whatever of that
 * file is open below a few hundred descriptors (a library's). Let go before they are closed. Any thread; more than fit
 * are not watched. */
void descriptors_rely_on(int fd);
void descriptors_rely_on_file(dev_t device, ino_t inode);
void descriptors_let_go(int fd);
void descriptors_let_go_file(dev_t device, ino_t inode);
/* 1: one of them is closed, or is another file now; said once. */
int descriptors_lost(void);

#endif
