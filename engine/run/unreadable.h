/* unreadable.h - large files that no node can use, found by their headers before their content is digested: that takes
 * a millisecond, and reading such a file to its end takes minutes, or hours when it is a sparse one of terabytes.
 *
 * Nothing is refused here. The node that opens the file says what is wrong with it; its key just does not wait for the
 * content.
 */
#ifndef KILN_RUN_UNREADABLE_H
#define KILN_RUN_UNREADABLE_H

/* 1: a file, or a folder with one, of which the header is wrong or which is larger than anybody waits for. For
 * key_setting.unreadable; arg is not looked at. */
int file_is_unreadable(void *arg, const char *path);

#endif
