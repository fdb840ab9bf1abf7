/* value_struct.h - what a value is made of; for the files of value.h alone. */
#ifndef KILN_TENSOR_VALUE_STRUCT_H
#define KILN_TENSOR_VALUE_STRUCT_H

#include "base/hash.h"
#include "kiln/value.h"

#include <stdatomic.h>

struct value_many {
    kiln_value **item;
    char **key; /* maps only, sorted */
    size_t n, capacity;
};

struct kiln_value {
    uint32_t kind;
    atomic_uint refs;
    atomic_int published;
    kiln_value *next_doomed; /* while being freed */
    digest identity;         /* once has_identity; both under a lock of value_type.c */
    int has_identity;
    union {
        struct {
            kiln_tensor window; /* its dim and stride are these */
            int64_t dim[KILN_MAX_RANK], stride[KILN_MAX_RANK];
            size_t bytes;
            unsigned counted;
        } tensor; /* counted: by which account, 0: none */
        int64_t whole;
        double number;
        struct {
            char *text;
            size_t n;
        } string;
        struct value_many many;
        struct {
            char *type, *fingerprint;
            void *ptr;
            void (*release)(void *);
            _Atomic(struct file_list *) files;
        } object;
    } as;
};

const char *value_kind_name(uint32_t kind); /* "a tensor", "a list" */

#endif
