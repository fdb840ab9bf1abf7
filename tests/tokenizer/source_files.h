/* source_files.h - files of tests/tokenizer/data as a source of a tokenizer. */
#ifndef KILN_TESTS_SOURCE_FILES_H
#define KILN_TESTS_SOURCE_FILES_H

#include "harness.h"

#include "base/file.h"
#include "base/memory_alloc.h"
#include "tokenizer_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DATA "tests/tokenizer/data/"

typedef struct {
    char name[4][64];
    char *data[4];
    size_t bytes[4];
    kiln_tokenizer_file file[4];
    size_t n;
} source_files;

static inline int files_add(source_files *f, const char *path, const char *name)
{
    char full[1000];
    size_t i = f->n;
    snprintf(full, sizeof full, "%s/%s", test_root(), path);
    snprintf(f->name[i], sizeof f->name[i], "%s", name);
    if (!CHECK_MSG(file_read(full, 1 << 24, &f->data[i], &f->bytes[i], NULL) == KILN_OK, "%s", full)) return 0;
    f->file[i] = (kiln_tokenizer_file){sizeof f->file[i], f->name[i], f->data[i], f->bytes[i]};
    f->n++;
    return 1;
}

static inline kiln_tokenizer *files_open(const source_files *f, const char *kind, char *why)
{
    why[0] = 0;
    return tokenizer_open(
        &(kiln_tokenizer_source){.size = sizeof(kiln_tokenizer_source), .kind = kind, .file = f->file, .n_file = f->n},
        why);
}

static inline void files_free(source_files *f)
{
    for (size_t i = 0; i < f->n; i++) mem_free(f->data[i]);
    f->n = 0;
}

/* A tokenizer of one file of DATA; NULL is a failed check. */
static inline kiln_tokenizer *data_open(const char *path, const char *name)
{
    char full[300], why[KILN_TOKENIZER_WHY];
    source_files f = {.n = 0};
    snprintf(full, sizeof full, DATA "%s", path);
    kiln_tokenizer *t = files_add(&f, full, name) ? files_open(&f, NULL, why) : NULL;
    CHECK_MSG(t != NULL, "%s: %s", path, why);
    files_free(&f);
    return t;
}

static inline kiln_encoding encode_text(const kiln_tokenizer *t, const char *s, size_t n, uint32_t special,
                                        uint32_t ends)
{
    kiln_encoding e = {.size = sizeof e};
    char why[KILN_TOKENIZER_WHY] = "";
    const kiln_tokenizer_input in = {.size = sizeof in, .text = s, .n = n, .special = special, .ends = ends};
    CHECK_MSG(tokenizer_api.encode(t, &in, &e, why) == KILN_OK, "%s", why);
    return e;
}

#endif
