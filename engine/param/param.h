/* param.h - the one place that knows what a kiln_param row means: which values it takes, where they lie.
 *
 *     written text      --param_written--> param_value --param_put------> its place in the struct
 *     value on a wire   --param_wired----> param_value --param_put------> its place in the struct
 *     the row's default ---------------------------------param_default--> its place in the struct
 *     its place         --param_get------> param_value --param_value_text, param_to_value--> text, value
 *
 * So a written 20, a wired 20 and a sampler's option 20 meet the same checks and the same sentences. Beside it:
 * param_text.h (values and rows as people read them, and as JSON), param_key.h (hashing), param_rows.h (is a foreign
 * table of rows legal). All functions: any thread.
 */
#ifndef KILN_PARAM_PARAM_H
#define KILN_PARAM_PARAM_H

#include "base/arena.h"
#include "base/status.h"
#include "kiln/params.h"

typedef enum {
    PARAM_NOTHING, /* written as nothing: empty, null, ~ */
    PARAM_BOOL,
    PARAM_INT,    /* whole                                           */
    PARAM_SEED,   /* bits: a whole number of 2^63 and more, or a seed */
    PARAM_NUMBER, /* number                                          */
    PARAM_TEXT,   /* text                                            */
    PARAM_PARTS   /* a list, a tensor, ...: no parameter takes it    */
} param_kind;

/* A plain value between its source and a struct. It borrows `text`. */
typedef struct {
    param_kind kind;
    int flag;
    int64_t whole;
    uint64_t bits;
    double number;    /* of PARAM_INT and PARAM_SEED too: the nearest double                         */
    const char *text; /* PARAM_TEXT: the text. Otherwise as it was written, NULL: it was not written */
    int quoted;       /* PARAM_TEXT that is text whatever it looks like                               */
    int wired;        /* from a wire or map: an int has 64 bits, so as a SEED -1 is 2^64 - 1          */
} param_value;

/* Where the values of NAME and FILE parameters come from. */
typedef struct {
    void *self;
    /* The i-th name of registry `from`, NULL past the end. NULL: there are no registries. */
    const char *(*name_at)(void *self, const char *from, size_t i);
    /* The path, in `a`, of `name` among the files of kind `from`; NULL with a message that says where it looked.
     * NULL: no file can be named here. */
    const char *(*file)(void *self, arena *a, const char *from, const char *name, error *e);
} param_names;

/* ---- types ---- */

size_t param_size(uint32_t type);               /* bytes in the struct; 0: there is no such type                 */
const char *param_type_name(uint32_t type);     /* "INT"                                                          */
const char *param_wire_type(uint32_t type);     /* what may be wired to it: "INT", "FLOAT", "STRING" or "BOOLEAN" */
int param_is_text(uint32_t type);               /* written as a text: ENUM, NAME, STRING, FILE                    */
size_t param_choice_count(const kiln_param *p); /* of an ENUM; 0 for others */

/* ---- values ---- */

/* What stands in a workflow or behind an "=". In quotes everything is text. */
param_value param_written(const char *text, int quoted);
/* A value of a wire or a map. */
param_value param_wired(const kiln_value_api *values, const kiln_value *v);
/* The way back; the caller's reference. NULL: no memory. */
kiln_value *param_to_value(const kiln_value_api *values, const param_value *v);

/* ---- a row's place in its struct ---- */

/* Checks v against the row and writes it. Texts and paths are copied into `a`. KILN_ERR_INVALID with half a sentence
 * that says what is wrong with the value and what would be right ("'7' is not a whole number from 16 to 512"), or
 * KILN_ERR_NOMEM; the struct is as it was then. names may be NULL: then no NAME and no FILE is right. */
kiln_status param_put(const kiln_param *p, const param_value *v, const param_names *names, arena *a, void *params,
                      error *e);
/* The value that lies there; an ENUM's is its choice's name, NULL when it has none of that value. */
param_value param_get(const kiln_param *p, const void *params);
kiln_status param_default(const kiln_param *p, arena *a, void *params);
param_value param_default_value(const kiln_param *p);
/* 1: of an INT or FLOAT: it lies between the ends, and is none that the row leaves out. */
int param_in_range(const kiln_param *p, double number);
/* The lowest or highest value of a type that has a range: INT, SEED, FLOAT; 0 for others. */
int param_end(const kiln_param *p, int high, param_value *out);
/* 1: the node takes the value in `params` down to a multiple of its step (KILN_PARAM_FLOORED): *used instead of *given.
 */
int param_floored(const kiln_param *p, const void *params, int64_t *given, int64_t *used);

#endif
