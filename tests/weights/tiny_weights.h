/* tiny_weights.h - writes small safetensors files for tests: a header text as given, then bytes. */
#ifndef KILN_TESTS_TINY_WEIGHTS_H
#define KILN_TESTS_TINY_WEIGHTS_H

#include "base/file.h"
#include "base/memory_alloc.h"
#include "harness.h"

#include <stdio.h>
#include <string.h>

/* 8 bytes of length, the header, `n` bytes of data; the caller frees. */
static inline uint8_t *tiny_bytes(const char *header, const void *data, size_t n, size_t *size)
{
    size_t length = strlen(header);
    uint8_t *all = mem_alloc(8 + length + n);
    if (!all) return NULL;
    for (int i = 0; i < 8; i++) all[i] = (uint8_t)((uint64_t)length >> (8 * i));
    memcpy(all + 8, header, length);
    if (n) memcpy(all + 8 + length, data, n);
    *size = 8 + length + n;
    return all;
}

static inline int tiny_write(const char *path, const char *header, const void *data, size_t n)
{
    size_t size = 0;
    error e = {0};
    uint8_t *all = tiny_bytes(header, data, n, &size);
    int ok = all && file_write_whole(path, all, size, &e) == KILN_OK;
    mem_free(all);
    return CHECK_MSG(ok, "cannot write %s: %s", path, e.message);
}

#endif
