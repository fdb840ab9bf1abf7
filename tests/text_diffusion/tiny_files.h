/* tiny_files.h - dg-tiny as GGUF files, whole, quantised and damaged. */
#ifndef KILN_TESTS_TINY_FILES_H
#define KILN_TESTS_TINY_FILES_H

#include "kiln/weights.h"

#include <stdint.h>

enum { TINY_TENSORS_MAX = 160 };

typedef struct {
    char name[80];
    uint32_t rank;
    int64_t dim[4]; /* as torch has it */
    float *data;
} tiny_tensor;

typedef struct {
    tiny_tensor tensor[TINY_TENSORS_MAX];
    size_t n;
} tiny_file;

/* What is written otherwise than it should be; zeros: nothing. */
typedef struct {
    int bf16;
    int64_t canvas; /* 1 + what the key says */
    int64_t tokens; /* this many of the vocabulary's 512 */
    int no_merges, wrong_types, no_pattern;
    int no_newline_merges;
    int part; /* of two files: the first or the second */
    int64_t heads, chosen, layers, context;
    const char *architecture;
    float softcap;
} tiny_changes;

/* The released files' names, of the folder's tensors. Free with tiny_free. 0: a check has failed. */
int tiny_load(tiny_file *f);
/* The tensors of any set under their own names, as the f32 that they stand for. */
int tiny_load_set(tiny_file *f, kiln_weights *set);
void tiny_free(tiny_file *f);
tiny_tensor *tiny_find(tiny_file *f, const char *name);
void tiny_drop(tiny_file *f, const char *name);
/* A GGUF file with the keys and the tokenizer of dg-tiny. */
int tiny_write(const tiny_file *f, const tiny_changes *c, const char *path);
/* Two .safetensors files and their index, with transformers' names, into the folder. */
int tiny_write_shards(const char *folder);

#endif
