/* test_store_forged.c - counts and sizes in the index that no engine wrote: damage, found out without asking for the
 * memory they name. */
#include "store_kit.h"

#include <sqlite3.h>

enum { ENTRIES = 6, BYTES = 1024 };

static int n_bad;
static char last_why[300];

static void tell_bad(void *arg, const store_entry *x, const char *why)
{
    (void)arg, (void)x;
    n_bad++;
    snprintf(last_why, sizeof last_why, "%s", why);
}

static void forge(const char *folder, const char *sql)
{
    sqlite3 *db;
    store *s = kit_open(folder);
    REQUIRE(s);
    for (uint64_t n = 0; n < ENTRIES; n++) CHECK_EQ(kit_put(s, n, BYTES, 0.01), KILN_OK);
    store_close(s);
    REQUIRE(sqlite3_open(kit_path(folder, "index.sqlite"), &db) == SQLITE_OK);
    CHECK_MSG(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK, "%s", sqlite3_errmsg(db));
    sqlite3_close(db);
}

/* What verify makes of one forged entry among ENTRIES. */
static void check_forged(const char *name, const char *sql)
{
    const char *folder = kit_folder(name);
    error e = {0};
    store_report r = {0};
    n_bad = 0;
    forge(folder, sql);
    store *s = kit_open(folder);
    REQUIRE(s);
    kiln_status status = store_verify(s, &r, tell_bad, NULL, &e);
    CHECK_MSG(status == KILN_OK, "%s: %s", name, e.message);
    CHECK_EQ(r.checked, ENTRIES);
    CHECK_EQ(r.damaged, 1);
    CHECK_EQ(n_bad, 1);
    CHECK_MSG(!strstr(last_why, "memory"), "%s: %s", name, last_why);
    CHECK_EQ(store_verify(s, &r, tell_bad, NULL, &e), KILN_OK);
    CHECK_EQ(r.checked, ENTRIES - 1); /* it is gone, and nothing else */
    CHECK_EQ(r.damaged, 0);
    store_close(s);
}

#define ONE " WHERE key=(SELECT min(key) FROM entry)"
static void test_most_that_there_can_be(void) { check_forged("most", "UPDATE entry SET n=4294967295" ONE); }
static void test_many(void) { check_forged("many", "UPDATE entry SET n=100000000" ONE); }
static void test_negative(void) { check_forged("negative", "UPDATE entry SET n=-1" ONE); }
static void test_a_few_more(void) { check_forged("few", "UPDATE entry SET n=3" ONE); }
static void test_none(void) { check_forged("none", "UPDATE entry SET n=0" ONE); }

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_most_that_there_can_be), CASE(test_many), CASE(test_negative),
                                      CASE(test_a_few_more), CASE(test_none)};
    log_sink_set(kit_sink, NULL);
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
