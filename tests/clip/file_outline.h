/* file_outline.h - for tests of the clip plugin: .safetensors files with the names and shapes of released ones
 * (tests/golden/text_encoder_names.txt), all or but for an edit, and holes instead of numbers. */
#ifndef KILN_TESTS_FILE_OUTLINE_H
#define KILN_TESTS_FILE_OUTLINE_H

#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    char *header;
    size_t used, capacity, end; /* end: of the data so far */
    size_t n, needless;
} outline;

static inline void add_tensor(outline *o, const char *name, const char *dims_text)
{
    size_t bytes = 2;
    char dims[80] = "", copy[80];
    snprintf(copy, sizeof copy, "%s", dims_text);
    for (char *dim = strtok(copy, "x"); dim; dim = strtok(NULL, "x")) {
        bytes *= (size_t)atoll(dim);
        snprintf(dims + strlen(dims), sizeof dims - strlen(dims), "%s%s", dims[0] ? "," : "", dim);
    }
    if (o->used + 400 > o->capacity) o->header = realloc(o->header, o->capacity = 2 * o->capacity + 4096);
    o->used += (size_t)snprintf(o->header + o->used, o->capacity - o->used,
                                "%c\"%s\":{\"dtype\":\"F16\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
                                o->n ? ',' : '{', name, dims, o->end, o->end + bytes);
    o->end += bytes;
    o->n++;
}

/* A line's tensors: "{24}" in the name stands for 0 to 23. */
static inline void add_line(outline *o, const char *name, const char *dims_text, int needless)
{
    const char *open = strchr(name, '{');
    char full[200];
    if (needless) o->needless++;
    if (!open) {
        add_tensor(o, name, dims_text);
        return;
    }
    for (int i = 0; i < atoi(open + 1); i++) {
        snprintf(full, sizeof full, "%.*s%d%s", (int)(open - name), name, i, strchr(name, '}') + 1);
        add_tensor(o, full, dims_text);
    }
}

/* What a file is to have otherwise than the released one. */
typedef struct {
    const char *without;     /* names that begin so are left out; NULL: none */
    const char *name, *dims; /* this tensor has that shape; NULL: none */
} outline_edit;

static inline outline read_names(const char *checkpoint, const outline_edit *edit)
{
    outline o = {0};
    char path[600], line[300], which[40], name[160], dims[40], mark[4];
    snprintf(path, sizeof path, "%s/tests/golden/text_encoder_names.txt", test_root());
    FILE *f = fopen(path, "rb");
    CHECK_MSG(f != NULL, "%s is missing", path);
    while (f && fgets(line, sizeof line, f)) {
        int fields = line[0] == '#' ? 0 : sscanf(line, "%39s %159s %39s %3s", which, name, dims, mark);
        if (fields < 3 || strcmp(which, checkpoint) != 0) continue;
        if (edit->without && strncmp(name, edit->without, strlen(edit->without)) == 0) continue;
        int changed = edit->name && strcmp(name, edit->name) == 0;
        add_line(&o, name, changed ? edit->dims : dims, fields == 4);
    }
    if (f) fclose(f);
    CHECK(o.n > 50);
    return o;
}

/* The file's path, in static memory. */
static inline const char *write_outline(const char *checkpoint, const outline_edit *edit, outline *o)
{
    static char path[700];
    snprintf(path, sizeof path, "%s/%s.safetensors", test_folder(), checkpoint);
    *o = read_names(checkpoint, edit);
    FILE *f = fopen(path, "wb");
    uint64_t length = o->used + 1;
    CHECK(f && fwrite(&length, sizeof length, 1, f) == 1 && fwrite(o->header, 1, o->used, f) == o->used);
    if (f) {
        fputc('}', f);
        fclose(f);
    }
    CHECK_EQ(truncate(path, (off_t)(9 + o->used + o->end)), 0);
    free(o->header);
    return path;
}

#endif
