/* test_store_faults.c - everything a store does, with an allocation or a system call failing (no_memory_kit.h,
 * system_faults.h): what it gives is right or not there, what could not be kept is said, and afterwards the folder is
 * one that nothing is wrong with.
 */
#include "store_kit.h"

#include "no_memory_kit.h"
#include "system_faults.h"

enum { SMALL = 256, LARGE = 100000 };

static char folder[400];

static void nothing_said(void *arg, int level, const char *line) { (void)arg, (void)level, (void)line; }
static int count_entry(void *arg, const store_entry *x) { return (void)x, ++*(int *)arg, 0; }

/* Without an allocation, as kit_same() has. */
static int same_bytes(const kiln_value *a, const kiln_value *b, size_t bytes)
{
    kiln_tensor x = {.size = sizeof x}, y = {.size = sizeof y};
    if (value_view(a, &x, NULL) != KILN_OK || value_view(b, &y, NULL) != KILN_OK) return 0;
    return x.rank == 1 && x.dim[0] == y.dim[0] && memcmp(x.data, y.data, bytes) == 0;
}

/* KILN_OK, or why it could not be kept. */
static kiln_status put_and_get(store *s, yield *out, error *e)
{
    kiln_value *big = kit_tensor(LARGE, 1), *small = kit_tensor(SMALL, 2), *got[2] = {0};
    kiln_status status = big && small ? KILN_OK : error_set(e, KILN_ERR_NOMEM, "out of memory");
    const store_note note = {.type = "Test", .seconds = 1};
    if (status == KILN_OK) status = store_put(s, kit_key(1), &note, 2, (kiln_value *[]){big, small}, e);
    if (status == KILN_OK) status = store_put(s, kit_key(2), &note, 1, &small, e);
    if (status == KILN_OK) status = store_flush(s, e);
    if (status == KILN_OK) status = store_get(s, kit_key(1), 2, got, e);
    if (status == KILN_OK && (!same_bytes(got[0], big, LARGE) || !same_bytes(got[1], small, SMALL)))
        status = error_set(e, KILN_ERR_BUG, "another value came out");
    if (status == KILN_OK) yield_text(out, "both");
    value_unref(got[0]), value_unref(got[1]), value_unref(big), value_unref(small);
    return status;
}

/* A state is worth nothing to who goes without one: it is there, or it is not. */
static kiln_status keep_state(store *s, error *e)
{
    kiln_value *v = kit_tensor(SMALL, 3), *got = NULL;
    kiln_status status = v ? store_state_put(s, kit_key(9), v, e) : error_set(e, KILN_ERR_NOMEM, "out of memory");
    if (status == KILN_OK && (got = store_state_get(s, kit_key(9))) && !same_bytes(got, v, SMALL))
        status = error_set(e, KILN_ERR_BUG, "another state came out");
    store_state_drop(s, kit_key(9));
    value_unref(got), value_unref(v);
    return status;
}

static kiln_status keep_house(store *s, error *e)
{
    store_totals totals;
    store_report report;
    int n = 0;
    TRY(store_total(s, &totals, e));
    for (store_order by = STORE_BY_USE; by <= STORE_BY_TIME; by++) TRY(store_each(s, by, NULL, count_entry, &n, e));
    TRY(store_verify(s, &report, NULL, NULL, e));
    TRY(store_gc(s, LARGE, &report, e));
    TRY(store_clear(s, "Test", &report, e));
    return store_clear(s, NULL, &report, e);
}

static kiln_status use_store(yield *out, error *e)
{
    store_claim *claim = NULL;
    uint8_t found[2];
    const digest keys[] = {kit_key(1), kit_key(7)};
    store *s = store_open(&(store_setting){.folder = folder}, e);
    if (!s) return e->status;
    store_find_many(s, keys, 2, found);
    if (store_claim_key(s, kit_key(1), NULL, NULL, NULL, &claim) == STORE_STOPPED)
        error_set(e, KILN_ERR_BUG, "nobody stopped it");
    kiln_status status = put_and_get(s, out, e);
    store_release(claim);
    if (status == KILN_OK) status = keep_state(s, e);
    if (status == KILN_OK) status = keep_house(s, e);
    store_close(s);
    return status;
}

static void test_no_memory(void)
{
    folder_remove(folder);
    fail_everywhere("a store", use_store);
}

static kiln_status look_again(error *e)
{
    store_report report = {0};
    store *s = store_open(&(store_setting){.folder = folder}, e);
    if (!s) return e->status;
    kiln_status status = store_verify(s, &report, NULL, NULL, e);
    if (status == KILN_OK && report.damaged) status = error_set(e, KILN_ERR_BUG, "damaged");
    store_close(s);
    return status;
}

static kiln_status from_nothing(yield *out, error *e)
{
    folder_remove(folder);
    return use_store(out, e);
}

static void test_system_calls(void)
{
    fail_every_call("a new store", from_nothing, look_again);
    fail_every_call("a store that is there", use_store, look_again);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_no_memory), CASE(test_system_calls)};
    char in_memory[] = "/dev/shm/kiln-test-XXXXXX"; /* a disk would be waited for */
    int made = mkdtemp(in_memory) != NULL;
    snprintf(folder, sizeof folder, "%s", made ? kit_path(in_memory, "store") : kit_folder("store"));
    log_sink_set(nothing_said, NULL);
    int status = test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
    if (made) folder_remove(in_memory);
    return status;
}
