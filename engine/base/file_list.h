/* file_list.h - which files something was made from, and the state each was in: asked again before what was made of
 * them is believed.
 *
 * A list is counted and, once handed on, not changed any more; one thread fills it. Paths are as they were opened.
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
size_t file_list_count(const file_list *l);                  /* of NULL: 0 */
const file_seen *file_list_at(const file_list *l, size_t i); /* lives as long as the list, until it is added to */
/* KILN_ERR_IO when the list has the path in another state: it changed between two readings. */
kiln_status file_list_add(file_list *l, const char *path, const file_identity *was, error *e);
kiln_status file_list_add_all(file_list *l, const file_list *from, error *e); /* `from` NULL: nothing */
/* KILN_ERR_IO naming the first file that is no longer in the state it was read in. [any] */
kiln_status file_list_unchanged(const file_list *l, error *e);

#endif
