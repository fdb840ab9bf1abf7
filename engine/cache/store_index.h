/* store_index.h - the SQLite file: schema, settings, prepared statements, and what to do with one that is not ours.
 * With the store's lock held, but index_open and index_close.
 */
#ifndef KILN_CACHE_STORE_INDEX_H
#define KILN_CACHE_STORE_INDEX_H

#include "cache/store.h"

#include <sqlite3.h>

enum { STORE_BUSY_MS = 5000 }; /* nobody waits longer for another process's lock */

typedef enum {
    SQL_FIND,
    SQL_IS_THERE,
    SQL_PARTS,
    SQL_ENTRY,
    SQL_PART,
    SQL_CONTENT,
    SQL_TOUCH,
    SQL_FILE_FIND,
    SQL_FILE_ADD,
    SQL_DROP_BY_CONTENT,
    SQL_DROP_PARTS_OF_CONTENT,
    SQL_DROP_CONTENT,
    SQL_DROP_ENTRY,
    SQL_DROP_PARTS,
    SQL_BYTES,
    SQL_BEGIN,
    SQL_BEGIN_READING,
    SQL_COMMIT,
    SQL_ROLLBACK,
    SQL_COUNT
} store_statement;

kiln_status index_open(store *s, error *e);
void index_close(store *s);
/* WAL where SQLite has it mended, else a rollback journal (see the table there). */
int index_wal_is_safe(int version);
sqlite3_stmt *index_statement(store *s, store_statement which); /* reset and unbound; NULL: failed */
void index_bind_digest(sqlite3_stmt *st, int column,
                       const digest *d); /* *d has to stay until the statement was stepped */
digest index_digest(sqlite3_stmt *st, int column);
/* Records a failed call: a damaged index is moved aside and given up. Returns the status and writes a message. */
kiln_status index_failed(store *s, const char *doing, error *e);
/* SQLite's count of changes to the file (sqlite.org/fileformat.html, offset 24); 0: not known (write-ahead log, no
 * descriptor). */
uint32_t index_changes(const store *s);
/* 1: nobody but us has committed since the last store_find_many. */
int index_unchanged(store *s);
kiln_status index_begin(store *s, error *e);
kiln_status index_commit(store *s, error *e);
void index_rollback(store *s);

#endif
