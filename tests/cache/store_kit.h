/* store_kit.h - what the store's tests share: values with a content that a number decides, keys, a log that counts. */
#ifndef KILN_TESTS_STORE_KIT_H
#define KILN_TESTS_STORE_KIT_H

#include "base/file.h"
#include "base/log.h"
#include "cache/open_store.h"
#include "harness.h"
#include "tensor/value.h"

#include <dirent.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_int kit_warnings;
static char kit_last[600];

static inline void kit_sink(void *arg, int level, const char *line)
{
    (void)arg;
    if (level != KILN_LOG_WARN) return;
    atomic_fetch_add(&kit_warnings, 1);
    snprintf(kit_last, sizeof kit_last, "%s", line);
}

/* Warnings since the last call. */
static inline int kit_warned(void) { return atomic_exchange(&kit_warnings, 0); }

static inline digest kit_key(uint64_t n) { return digest_of(&n, sizeof n); }

/* A tensor of `bytes` bytes (a multiple of 4), decided by seed. */
static inline kiln_value *kit_tensor(size_t bytes, uint64_t seed)
{
    kiln_value *v = value_tensor_new(KILN_F32, KILN_CPU, 1, (int64_t[]){(int64_t)(bytes / 4)}, NULL);
    kiln_tensor t = {.size = sizeof t};
    if (!v) return NULL;
    if (value_view(v, &t, NULL) != KILN_OK) return value_unref(v), NULL;
    uint64_t x = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (size_t i = 0; i < bytes / 4; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        ((uint32_t *)t.data)[i] = (uint32_t)x;
    }
    value_publish(v);
    return v;
}

static inline int kit_same(const kiln_value *a, const kiln_value *b)
{
    digest x, y;
    return a && b && value_digest(a, &x, NULL) == KILN_OK && value_digest(b, &y, NULL) == KILN_OK && digest_equal(x, y);
}

static inline store *kit_open_limited(const char *folder, uint64_t limit)
{
    error e = {0};
    store *s = store_open(&(store_setting){.folder = folder, .limit = limit}, &e);
    if (!s) printf("  store_open: %s\n", e.message);
    return s;
}
static inline store *kit_open(const char *folder) { return kit_open_limited(folder, 0); }

static inline kiln_status kit_put(store *s, uint64_t n, size_t bytes, double seconds)
{
    kiln_value *v = kit_tensor(bytes, n);
    if (!v) return KILN_ERR_NOMEM;
    kiln_status status = store_put(s, kit_key(n), &(store_note){.type = "Test", .seconds = seconds}, 1, &v, NULL);
    value_unref(v);
    return status;
}

/* 1: there and right; 0: not there; -1: wrong bytes. */
static inline int kit_get(store *s, uint64_t n, size_t bytes)
{
    kiln_value *v = NULL, *want;
    if (store_get(s, kit_key(n), 1, &v, NULL) != KILN_OK) return 0;
    want = kit_tensor(bytes, n);
    int right = kit_same(v, want);
    value_unref(v), value_unref(want);
    return right ? 1 : -1;
}

/* A folder below the test's own, of that name; made by the store. */
static inline const char *kit_folder(const char *name)
{
    static char path[8][400];
    static int next;
    char *p = path[next++ % 8];
    snprintf(p, sizeof path[0], "%s/%s", test_folder(), name);
    return p;
}
static inline const char *kit_path(const char *folder, const char *name)
{
    static char path[16][600];
    static int next;
    char *p = path[next++ % 16];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

/* Regular files under folder/values (two levels); the last one's path into found. */
static inline int kit_value_files(const char *folder, char found[800])
{
    int n = 0;
    char below[700];
    snprintf(below, sizeof below, "%s/values", folder);
    DIR *d = opendir(below);
    for (struct dirent *x; d && (x = readdir(d));) {
        if (x->d_name[0] == '.') continue;
        char inner[1000];
        snprintf(inner, sizeof inner, "%s/%s", below, x->d_name);
        DIR *in = opendir(inner);
        for (struct dirent *y; in && (y = readdir(in));)
            if (y->d_name[0] != '.')
                n++, found ? (void)snprintf(found, 800, "%.520s/%.250s", inner, y->d_name) : (void)0;
        if (in) closedir(in);
    }
    if (d) closedir(d);
    return n;
}

#endif
