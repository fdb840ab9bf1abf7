/* cache.c - what the store and the keys cost, as lines "NAME VALUE UNIT" for scripts/bench.
 *
 *     cache FOLDER      FOLDER: where values are written, on the disk that is meant
 *
 * Values of 1, 8 and 64 MB are stored and loaded beside plain files of as many bytes with the same durability (write,
 * fsync, rename, fsync of the folder; read into fresh memory), alternating; the median of the ratios is printed, since
 * the disk's speed wanders.
 */
#include "base/file.h"
#include "cache/store.h"
#include "tensor/value.h"
#include "workflow/fake_catalog.h"
#include "workflow/key.h"

#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { RUNS = 11, NODES = 10000 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, size_t n)
{
    qsort(v, n, sizeof *v, by_value);
    return v[n / 2];
}

static kiln_value *value_of(size_t bytes, uint32_t seed)
{
    kiln_value *v = value_tensor_new(KILN_F32, KILN_CPU, 1, (int64_t[]){(int64_t)(bytes / 4)}, NULL);
    kiln_tensor t = {.size = sizeof t};
    if (!v || value_view(v, &t, NULL) != KILN_OK) return NULL;
    for (size_t i = 0; i < bytes / 4; i++) ((uint32_t *)t.data)[i] = (uint32_t)i * 2654435761u + seed;
    value_publish(v);
    return v;
}

/* ---- plain files ---- */

static int write_plain(const char *folder, const void *bytes, size_t n)
{
    char temp[4096], path[4096];
    snprintf(temp, sizeof temp, "%s/plain.tmp", folder), snprintf(path, sizeof path, "%s/plain", folder);
    int fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC, 0600), ok = fd >= 0;
    for (size_t at = 0; ok && at < n;) {
        ssize_t did = write(fd, (const char *)bytes + at, n - at);
        ok = did > 0;
        at += did > 0 ? (size_t)did : 0;
    }
    ok = ok && fsync(fd) == 0 && rename(temp, path) == 0;
    if (fd >= 0) close(fd);
    int dir = open(folder, O_RDONLY | O_DIRECTORY);
    ok = ok && dir >= 0 && fsync(dir) == 0;
    if (dir >= 0) close(dir);
    return ok;
}

static int read_plain(const char *folder, size_t n)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/plain", folder);
    char *to = aligned_alloc(64, n);
    int fd = open(path, O_RDONLY), ok = to && fd >= 0;
    for (size_t at = 0; ok && at < n;) {
        ssize_t did = read(fd, to + at, n - at);
        ok = did > 0;
        at += did > 0 ? (size_t)did : 0;
    }
    if (fd >= 0) close(fd);
    free(to);
    return ok;
}

/* ---- the store beside them ---- */

static int measure(store *s, const char *folder, size_t bytes)
{
    double put[RUNS], get[RUNS], rate[RUNS];
    for (uint32_t run = 0; run < RUNS; run++) {
        uint64_t name = (uint64_t)bytes * 1000 + run;
        digest key = digest_of(&name, sizeof name);
        kiln_value *v = value_of(bytes, run), *back = NULL;
        kiln_tensor t = {.size = sizeof t};
        error e = {0};
        if (!v || value_view(v, &t, NULL) != KILN_OK) return 0;
        /* In turns who is first: whatever comes second finds the disk busier. */
        double plain_put = 0, store_put_time = 0, plain_get = 0, store_get_time = 0;
        int ok = 1;
        for (int turn = 0; turn < 2 && ok; turn++) {
            sync();
            double a = now();
            if ((run + (uint32_t)turn) % 2) {
                ok = write_plain(folder, t.data, bytes);
                plain_put = now() - a;
            } else {
                ok = store_put(s, key, &(store_note){.type = "Bench", .seconds = 1e-9}, 1, &v, &e) == KILN_OK;
                store_put_time = now() - a;
            }
        }
        ok = ok && store_flush(s, &e) == KILN_OK;
        for (int turn = 0; turn < 2 && ok; turn++) {
            double a = now();
            if ((run + (uint32_t)turn) % 2) {
                ok = read_plain(folder, bytes);
                plain_get = now() - a;
            } else {
                ok = store_get(s, key, 1, &back, &e) == KILN_OK;
                store_get_time = now() - a;
            }
        }
        value_unref(v), value_unref(back);
        if (!ok) return fprintf(stderr, "cache: %s\n", e.message[0] ? e.message : "a plain file failed"), 0;
        put[run] = plain_put / store_put_time, get[run] = plain_get / store_get_time,
        rate[run] = (double)bytes / store_get_time * 1e-9;
    }
    printf("store_%zuMB %.0f %%\nload_%zuMB %.0f %%\nload_rate_%zuMB %.2f GB/s\n", bytes >> 20, 100 * median(put, RUNS),
           bytes >> 20, 100 * median(get, RUNS), bytes >> 20, median(rate, RUNS));
    return 1;
}

static int measure_small(store *s)
{
    double each[RUNS], look[RUNS];
    digest *keys = calloc(NODES, sizeof *keys);
    uint8_t *found = calloc(NODES, 1);
    kiln_value *v = value_of(256, 1);
    for (uint64_t run = 0; keys && found && run < RUNS; run++) {
        error e = {0};
        double a = now();
        for (uint64_t i = 0; i < 1000; i++) {
            uint64_t name[2] = {run, i};
            digest key = digest_of(name, sizeof name);
            if (store_put(s, key, &(store_note){.type = "Bench"}, 1, &v, &e) != KILN_OK) return 0;
        }
        if (store_flush(s, &e) != KILN_OK) return 0;
        each[run] = (now() - a) / 1000;
        for (uint64_t i = 0; i < NODES; i++) {
            uint64_t name[2] = {i % RUNS, i};
            keys[i] = digest_of(name, sizeof name);
        }
        a = now();
        store_find_many(s, keys, NODES, found);
        look[run] = now() - a;
    }
    value_unref(v), free(keys), free(found);
    printf("small_put %.2f us\nfind_10000 %.2f ms\n", median(each, RUNS) * 1e6, median(look, RUNS) * 1e3);
    return 1;
}

/* ---- keys ---- */

static int measure_keys(void)
{
    catalog_view catalog = fake_catalog();
    document doc = {0};
    workflow w = {0};
    error e = {0};
    size_t capacity = NODES * 120 + 1000, n = 0;
    char *text = malloc(capacity);
    double took[RUNS], checked[RUNS];
    if (!text) return 0;
    n += (size_t)snprintf(text, capacity, "nodes:\n  b0: {class_type: Blank}\n");
    for (int i = 1; i < NODES - 1; i++)
        n += (size_t)snprintf(text + n, capacity - n, "  b%d: {class_type: Decode, inputs: {images: [b%d, 0]}}\n", i,
                              i - 1);
    n += (size_t)snprintf(text + n, capacity - n, "  s: {class_type: Save, inputs: {images: [b%d, 0]}}\n", NODES - 2);
    for (int run = 0; run < RUNS; run++) {
        double a = now();
        int ok = document_parse(&doc, "bench", text, n, NULL, 0, &e) == KILN_OK &&
                 workflow_check(&doc, &catalog, &w, &e) == KILN_OK && doc.n_fault == 0;
        double b = now();
        ok = ok && workflow_keys(&w, &(key_setting){.device = "cpu", .precision = "f32"}, &e) == KILN_OK;
        took[run] = now() - b, checked[run] = b - a;
        document_free(&doc);
        if (!ok) return fprintf(stderr, "cache: %s\n", e.message), 0;
    }
    free(text);
    printf("keys_10000 %.2f ms\nread_and_check_10000 %.1f ms\n", median(took, RUNS) * 1e3, median(checked, RUNS) * 1e3);
    return 1;
}

int main(int argc, char **argv)
{
    char path[4096];
    error e = {0};
    if (argc != 2) return fprintf(stderr, "usage: cache FOLDER\n"), 2;
    snprintf(path, sizeof path, "%s/store", argv[1]);
    if (folder_make(argv[1], &e) != KILN_OK) return fprintf(stderr, "cache: %s\n", e.message), 1;
    store *s = store_open(&(store_setting){.folder = path, .limit = 4000000000}, &e);
    if (!s) return fprintf(stderr, "cache: %s\n", e.message), 1;
    int ok = measure_keys() && measure_small(s);
    for (size_t mb = 1; mb <= 64 && ok; mb *= 8) ok = measure(s, argv[1], mb << 20);
    store_report report;
    store_clear(s, NULL, &report, &e);
    store_close(s);
    return !ok;
}
