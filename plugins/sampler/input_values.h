/* input_values.h - the values of a network's named inputs (kiln/inputs.h) for one entry of a CONDITIONING.
 *
 * Each row of a table is looked for in up to two maps, brought to the kind's form, and scaled to the latent where it
 * follows x. Data stays on the host, one block for each picture that the value has; memory is the call's scratch.
 */
#ifndef KILN_SAMPLER_INPUT_VALUES_H
#define KILN_SAMPLER_INPUT_VALUES_H

#include "kiln/latent.h"
#include "kiln/model.h"

/* dim[0] is how many pictures the value has: picture b of a batch takes b % dim[0]. A TABLE has no such dimension. */
typedef struct {
    kiln_input_spec spec;
    char name[96]; /* in the program: the spec's, behind a prefix */
    int control;   /* 1: it is a control's */
    uint32_t dtype, rank;
    int64_t dim[KILN_MAX_RANK];
    const void *data; /* NULL: absent, or nothing is computed    */
    int absent;       /* the network is recorded without it      */
    int hook;         /* of the model's hooks, whose input it is; -1: none */
    int carried;      /* 1: that hook came with an entry (network_hooks.h) */
} input_value;

typedef struct {
    input_value *value;
    size_t n, capacity;
} input_values;

/* What a denoiser made of an entry, by the input's name. */
enum { INPUTS_DERIVED_MAX = 32 };
typedef struct {
    size_t n;
    struct {
        const char *name;
        kiln_tensor tensor;
    } item[INPUTS_DERIVED_MAX];
} input_derived;

/* Where to look, and for what. */
typedef struct {
    const kiln_call *call;
    const char *what;  /* "positive": whose entry it is                       */
    const char *owner; /* "this model", "the ControlNet", "hook x": who wants it */
    const char *prefix;
    const input_derived *derived; /* these go before all; NULL: none */
    const kiln_value *map[2];     /* first found counts; NULL: none */
    const kiln_value *beside;     /* a hook's own values, by the input's name; NULL: none */
    int unconditional;
    int hook, control;
    const kiln_input_spec *spec;
    uint32_t n_spec, stride;
    const kiln_latent_shape *shape; /* of the whole latent */
    const kiln_latent_format *format;
    const kiln_latent_scaling *scaling;
} input_search;

/* Appends a value for each row to `out`. */
kiln_status input_values_find(const input_search *s, input_values *out);

/* 1: the kind is cell by cell, or pixel by pixel, x's. */
int input_follows_x(uint32_t kind);
/* Pixels or cells along height and width that a cell of the latent has in a value of this kind. */
int64_t input_cells_per_cell(uint32_t kind, const kiln_latent_format *format);

#endif
