/* weights_kit.h - safetensors files made by hand, byte by byte, for tests of what reads them. */
#ifndef KILN_TESTS_WEIGHTS_KIT_H
#define KILN_TESTS_WEIGHTS_KIT_H

#include "harness.h"
#include "weights/safetensors.h"
#include "weights/safetensors_write.h"
#include "weights/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DIMS(...)                                                                                                      \
    .rank = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), .dim = (int64_t[]) { __VA_ARGS__ }

/* Length, header, then `data` bytes counting up, in a block of exactly that size (so that a sanitizer sees one byte
 * too many). */
static inline uint8_t *raw_file(const char *header, size_t length, size_t data, size_t *size)
{
    *size = 8 + length + data;
    uint8_t *p = malloc(*size ? *size : 1);
    for (int i = 0; i < 8; i++) p[i] = (uint8_t)((uint64_t)length >> (8 * i));
    memcpy(p + 8, header, length);
    for (size_t i = 0; i < data; i++) p[8 + length + i] = (uint8_t)i;
    return p;
}

/* "FOLDER/name" in a small ring of buffers. */
static inline const char *in_folder(const char *fmt, const char *name)
{
    static char ring[8][600];
    static int next;
    char *s = ring[next++ % 8];
    char rest[400];
    snprintf(rest, sizeof rest, fmt, name);
    snprintf(s, sizeof ring[0], "%s/%s", test_folder(), rest);
    return s;
}
static inline const char *at_path(const char *name) { return in_folder("%s", name); }

/* Folders above are made. */
static inline const char *put_bytes(const char *name, const void *data, size_t n)
{
    const char *path = at_path(name);
    char copy[600];
    snprintf(copy, sizeof copy, "%s", path);
    for (char *p = copy + strlen(test_folder()) + 1; *p; p++)
        if (*p == '/') *p = '\0', mkdir(copy, 0777), *p = '/';
    FILE *f = fopen(path, "wb");
    CHECK_MSG(f && fwrite(data, 1, n, f) == n, "cannot write %s", path);
    if (f) fclose(f);
    return path;
}
static inline const char *put_text(const char *name, const char *text) { return put_bytes(name, text, strlen(text)); }

static inline const char *put_tensors(const char *name, const safetensors_source *t, size_t n)
{
    str s = {0};
    error e = {0};
    CHECK_MSG(safetensors_encode(&s, t, n, &(safetensors_remark){"format", "pt"}, 1, &e) == KILN_OK, "%s", e.message);
    const char *path = put_bytes(name, s.data, s.len);
    str_free(&s);
    return path;
}

/* One f32 [2,3] tensor 0..5 of that name. */
static inline const char *put_one(const char *file, const char *tensor)
{
    static const float six[] = {0, 1, 2, 3, 4, 5};
    return put_tensors(file, &(safetensors_source){.name = tensor, .dtype = KILN_F32, DIMS(2, 3), .data = six}, 1);
}

static inline int contains(const char *text, const char *part)
{
    return check_true(strstr(text, part) != NULL, __FILE__, __LINE__, "\"%s\" does not say \"%s\"", text, part);
}

/* Must not open, with that status and every one of the parts in its message. */
static inline void refused(const char *path, kiln_status status, const char *const *part, size_t n)
{
    error e = {0};
    kiln_weights *w = weights_open(path, &e);
    CHECK_MSG(!w, "%s was opened", path);
    CHECK_EQ(e.status, status);
    for (size_t i = 0; i < n; i++) contains(e.message, part[i]);
    weights_unref(w);
}
#define REFUSED(path, status, ...)                                                                                     \
    refused(path, status, (const char *const[]){__VA_ARGS__},                                                          \
            sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static inline kiln_weights *opened(const char *path)
{
    error e = {0};
    kiln_weights *w = weights_open(path, &e);
    CHECK_MSG(w != NULL, "%s", e.message);
    return w;
}

#endif
