/* set.h - what a weight set is made of; for the files behind weights.h alone.
 *
 * A set from files owns maps and headers. A view owns names and ranges of its base's tensors, and keeps the base
 * alive. A patched set owns the patches of some of its base's tensors. Every set marks which tensors were used; using
 * one of a view or a patched set marks its base's too.
 */
#ifndef KILN_WEIGHTS_SET_H
#define KILN_WEIGHTS_SET_H

#include "base/arena.h"
#include "base/pool.h"
#include "tensor/dtype.h"
#include "weights/gguf_header.h"
#include "weights/safetensors.h"
#include "weights/weights.h"

#include <pthread.h>
#include <stdatomic.h>

enum { WEIGHTS_FILES_MAX = 1024, WEIGHTS_TEXT_MAX = 16 << 20 };

/* A file's bytes that are in memory: given to the set, or the set's own. */
typedef struct {
    void *own; /* mem_pages(); NULL: the giver's */
    void (*release)(void *self);
    void *self;
    digest content;
} weights_memory;

typedef struct {
    file_map map;              /* of memory: path is a name for messages, data and size are set, the rest is not */
    weights_memory *memory;    /* NULL: a file */
    safetensors_header header; /* of either format */
    gguf_header gguf;          /* {0}: a .safetensors file */
    char *prefix;              /* "unet/" or "" */
} weights_file;

typedef struct weights_patched weights_patched;
typedef struct weights_derived weights_derived; /* derived.h */

typedef struct weights_entry {
    const char *name;
    const weights_file *file; /* of a computed tensor: the base's, or the first part's */
    const char *type_name;    /* as in the file */
    const char *scale;    /* it is nothing without this tensor, in a way kiln does not know (scaled.c); NULL: none */
    uint32_t dtype, rank; /* dtype 0: of a type kiln does not compute with */
    int64_t dim[KILN_MAX_RANK];
    uint64_t begin, bytes;          /* in the file; of a computed tensor: in what is computed, as f32 */
    const weights_patched *patch;   /* computed: NULL or the sums */
    const weights_derived *derived; /* computed: NULL or what it is made of. Neither: the bytes are in the file */
    size_t parent;                  /* view, patched set: the base's entry */
    int transposed;                 /* dim is [a,b], stored [b,a] */
    int beside;                     /* overlay: `parent` is of the set laid over the base */
    atomic_uchar used;
} weights_entry;

/* from[0] x from[1] (up [O,r], down [r,...]) times factor; or, with one of them, factor * from[0]; or a change. */
typedef struct patch_term {
    struct patch_term *next;
    float factor;
    size_t rank;                      /* of a product; 0: of a difference or a change */
    const kiln_weight_change *change; /* NULL: one of the others */
    double strength, scale;
    double *option;
    uint32_t n_option, n_from;
    const weights_entry **from;    /* of a change: NULL where it does without */
    kiln_weight_factor *factor_of; /* of a change: their shapes */
} patch_term;

struct weights_patched {
    const weights_entry *base; /* of the base set, which is kept alive, as are the sets of the terms */
    size_t count, columns;     /* elements; of those, in a row of dimension 0 */
    patch_term *term;          /* in the order given */
};

typedef struct text_entry {
    struct text_entry *next;
    const char *path;
    char *text;
    size_t size;
} text_entry;

struct kiln_weights {
    atomic_uint refs;
    kiln_weights *base;  /* view, patched set, overlay: kept alive */
    kiln_weights *over;  /* overlay: the set whose tensors stand before the base's, kept alive */
    kiln_weights **from; /* patched set: the sets of its terms, each once for each patch, kept alive */
    size_t n_from;
    arena memory;
    char *path, *root; /* as opened; the real path of its folder, NULL for a single file */
    weights_file *file;
    size_t n_file, file_capacity;
    weights_entry *entry; /* sorted by name */
    size_t n;
    pthread_mutex_t lock; /* texts, identity */
    text_entry *texts;
    char identity[33];
};

kiln_weights *set_new(const char *path, error *e);
/* Maps one file into the set, its tensors to be called prefix + name; and those that a split GGUF model has beside it.
 */
kiln_status set_add_file(kiln_weights *w, const char *path, const char *prefix, error *e);
kiln_status set_add_one_file(kiln_weights *w, const char *path, const char *prefix, error *e);
kiln_status set_add_splits(kiln_weights *w, const char *prefix, error *e); /* of the file that was added last */
kiln_status set_add_memory(kiln_weights *w, const kiln_weight_source *s, error *e);
/* As file_map_unchanged and file_map_read, and of memory. */
kiln_status weights_file_unchanged(const weights_file *f, error *e);
kiln_status weights_file_read(const weights_file *f, size_t at, size_t bytes, void *dst, pool *p, error *e);
void weights_file_close(weights_file *f);
/* The entries of the set's files, sorted; what has scales beside it is one tensor. */
kiln_status set_add_entries(kiln_weights *w, error *e);
kiln_status weights_file_parse(weights_file *f, const char *path, error *e);
/* 1: "NAME-00002-of-00003.gguf" */
int gguf_split_name(const char *path, uint64_t *no, uint64_t *count);
kiln_status set_add_folder(kiln_weights *w, const char *folder, error *e);
/* The shards that an index file beside them names. */
kiln_status set_add_shards(kiln_weights *w, const char *index, const char *prefix, error *e);
/* 1 when `path` exists and lies in the set's folder once links are followed. A snapshot of the Hugging Face cache
 * (.../snapshots/REVISION) may link to the blobs beside it (.../blobs). */
int set_holds_path(const kiln_weights *w, const char *path);
/* Finds the tensors whose numbers are nothing without scales beside them, and makes one tensor of each with its
 * companions. The set is sorted, and stays so. */
kiln_status set_join_scaled(kiln_weights *w, error *e);
/* The i-th file behind the set, its base's and what is laid over that included; NULL past the last. */
const weights_file *weights_nth_file(const kiln_weights *w, size_t i);
/* 1: the name is one that pickles have */
int is_pickle_name(const char *path);

/* Without bytes of its own in a file. */
static inline int weights_is_computed(const weights_entry *x) { return x->patch || x->derived; }
/* Elements of the tensor; 0 of a type kiln does not compute with. */
static inline size_t weights_count_of(const weights_entry *x)
{
    size_t block = dtype_block_bytes(x->dtype);
    return block ? (size_t)x->bytes / block * dtype_block(x->dtype) : 0;
}
/* Calls fn for every tensor that a computed one is made of, those of a patch included, until one fails; only for x's
 * own parts. */
kiln_status weights_each_part(const weights_entry *x, kiln_status (*fn)(void *arg, const weights_entry *, error *),
                              void *arg, error *e);
/* *to is what *from is, in another set: its name, what it is a part of and whether it was used aside. */
void weights_copy_entry(weights_entry *to, const weights_entry *from, size_t parent);

int weights_sort(kiln_weights *w, const char **twice); /* 0 and the name when one stands twice */
weights_entry *weights_entry_of(const kiln_weights *w, const char *name);
void weights_describe(const weights_entry *x, kiln_weight_info *out);
void weights_mark_entry(const kiln_weights *w, weights_entry *x);
/* Of a type that can be read, in a file that is still the one that was opened; readable: of such a type. */
kiln_status weights_usable(const weights_entry *x, error *e);
kiln_status weights_readable(const weights_entry *x, error *e);
/* Where an entry's bytes are taken from: NULL, its file's map; else as they were read, or by reads beside the map. */
typedef struct {
    const uint8_t *stored; /* of the entry itself */
    int beside;
} weights_access;

/* Elements [first, first + n) of the tensor as its set shows it, as f32, with the pool's threads where it is patched.
 * Whether the file is still the one that was opened is not asked for each range, but by the caller once all are read
 * (weights_unchanged), before their numbers are believed. */
kiln_status weights_read_range(const weights_entry *x, weights_access how, size_t first, size_t n, float *dst, pool *p,
                               error *e);
/* The same of a patched tensor: elements of what its patch computes. What it takes from the heap for a range of n of
 * them (patched.c). */
kiln_status weights_read_patched(const weights_entry *x, weights_access how, size_t first, size_t n, float *dst,
                                 pool *p, error *e);
size_t weights_patched_scratch(const weights_entry *x, size_t first, size_t n, size_t threads);
size_t weights_scratch_of(const weights_entry *x, size_t threads);
/* Rows of its patch that are computed together. */
size_t weights_patched_rows(const weights_patched *p);
/* Index of the first element that is no number; n: none. */
size_t weights_first_nonfinite(const float *p, size_t n);
size_t weights_first_nonfinite_of(uint32_t dtype, const void *p, size_t n); /* of integers: none */
/* Byte of the file, and what is wrong there: the first element (of block types: scale) that is no number. `stored` are
 * the entry's bytes. */
kiln_status weights_scan_bytes(const weights_entry *x, const uint8_t *stored, pool *, error *e);
static inline const uint8_t *weights_data(const weights_entry *x) { return x->file->map.data + x->begin; }

#endif
