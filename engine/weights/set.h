/* set.h - what a weight set is made of; for the files of weights.h alone. */
#ifndef KILN_WEIGHTS_SET_H
#define KILN_WEIGHTS_SET_H

#include "base/arena.h"
#include "weights/safetensors.h"
#include "weights/weights.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct {
    file_map map;
    safetensors_header header;
    char *prefix; /* "unet/" or "" */
} weights_file;

typedef struct {
    const char *name;
    const weights_file *file;
    uint32_t dtype, rank;
    int64_t dim[KILN_MAX_RANK];
    uint64_t begin, bytes; /* in the file */
    int transposed;        /* dim is [a,b], stored [b,a] */
    const char *type_name; /* as in the file */
    atomic_int *used;      /* in the base set */
} weights_entry;

typedef struct text_entry {
    struct text_entry *next;
    const char *path;
    char *text;
    size_t size;
} text_entry;

struct kiln_weights {
    atomic_uint refs;
    kiln_weights *base; /* view: kept alive */
    arena memory;
    char *path, *root;    /* root: folder, or NULL for a single file */
    weights_file *file;
    size_t n_file;
    weights_entry *entry; /* sorted by name */
    size_t n;
    atomic_int *used;
    pthread_mutex_t lock; /* texts, identity */
    text_entry *texts;
    char identity[33];
};

int weights_sort(kiln_weights *w, const char **twice); /* 0 and the name when one stands twice */
weights_entry *weights_entry_of(const kiln_weights *w, const char *name);

#endif
