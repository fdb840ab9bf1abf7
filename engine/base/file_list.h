/* file_list.h - the files a result was made from, and the state each was in when it was read. Before the result is
 * kept, the list is compared with the disk: a file that changed meanwhile makes the result worthless.
 *
 * Lists are reference-counted. One thread fills a list while it has the only reference; a list that was handed on is
 * immutable. Paths are stored as they were opened.
 */
#ifndef KILN_BASE_FILE_LIST_H
#define KILN_BASE_FILE_LIST_H

#include "base/file.h"

typedef struct file_list file_list;
typedef struct {
    const char *path;
    file_identity was;
} file_seen;

file_list *file_list_new(void); /* NULL: no memory */
file_list *file_list_ref(file_list *l);
void file_list_unref(file_list *l);
size_t file_list_count(const file_list *l);                  /* NULL is an empty list */
const file_seen *file_list_at(const file_list *l, size_t i); /* i < count; valid until the next add */
/* KILN_ERR_IO when the list already has the path in another state: the file changed between two reads. */
kiln_status file_list_add(file_list *l, const char *path, const file_identity *was, error *e);
kiln_status file_list_add_all(file_list *l, const file_list *from, error *e); /* NULL is an empty list */
/* KILN_ERR_IO naming the first file that is no longer in the state it was read in. [any thread] */
kiln_status file_list_unchanged(const file_list *l, error *e);

#endif
