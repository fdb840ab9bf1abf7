/* derived.h - tensors that are computed from others of the set's files: with scales beside their codes, joined from
 * several, or seen in another order. For the files behind weights.h alone. Layer: weights.
 *
 * All are f32 and computed by ranges, whenever they are read. What they are made of are copies of entries, which live
 * in the set's memory.
 */
#ifndef KILN_WEIGHTS_DERIVED_H
#define KILN_WEIGHTS_DERIVED_H

#include "weights/set.h"

typedef enum {
    DERIVED_SCALED, /* from[0]: codes, from[1]: scales; see weights_scaling */
    DERIVED_JOINED, /* from[i] one behind the other along `axis` of what they all have */
    DERIVED_STRIDED /* elements of from[0] in another order, or some of them */
} derived_kind;

typedef enum {
    SCALES_BROADCAST, /* a scale's dimensions are W's, or 1 */
    SCALES_BLOCKS,    /* [O,I] with a scale for each 128 x 128 */
    SCALES_CODEBOOK   /* four-bit codes of 16 numbers, a scale for each `block` elements */
} scales_kind;

enum { SCALES_SIDE = 128 };

/* W = factor * code * scale. */
typedef struct {
    scales_kind kind;
    float factor;
    uint32_t codes;   /* of what from[0] holds: KILN_F8_E4M3, KILN_F8_E5M2, KILN_U8 (two codes each), or 0: int8 */
    const char *name; /* "f8 scaled", "int8 scaled", "nf4", "fp4" */
    /* A codebook's: from[1] are then the scales, or, nested, codes of them of 256 numbers, each `nested_block` of which
     * have a scale in from[3]; from[2] the 16 numbers, from[4] the 256. */
    int64_t block, nested_block;
    float nested_offset;
} weights_scaling;

struct weights_derived {
    derived_kind kind;
    const weights_entry **from;
    size_t n_from;
    const kiln_weights *owner; /* the set it was made in; parts come from its base, as `parent` says */
    weights_scaling scaling;
    uint32_t axis;                 /* joined: of `dim`, behind which a part's elements lie together */
    int64_t stride[KILN_MAX_RANK]; /* strided: elements of from[0] from one to the next along each dimension */
    int64_t dim[KILN_MAX_RANK];
    uint32_t rank;
    int64_t offset;
};

/* Elements [first, first + n) of what x->derived computes, before x's own window. */
kiln_status weights_read_derived(const weights_entry *x, weights_access how, size_t first, size_t n, float *dst,
                                 pool *p, error *e);
/* What it takes from the heap for that. */
size_t weights_derived_scratch(const weights_entry *x, size_t n, size_t threads);
kiln_status weights_read_scaled(const weights_entry *x, weights_access how, size_t first, size_t n, float *dst,
                                error *e);
size_t weights_scaled_scratch(const weights_entry *x, size_t n);
/* Of codes with scales: the scales of n elements from `first` on, which are a row or several; factors included. */
kiln_status weights_scales_at(const weights_entry *x, size_t first, size_t n, float *dst, error *e);
/* Of a strided tensor: where its element `at` is in the source, and how many lie together there from a multiple of *run
 * on. */
size_t weights_strided_place(const weights_derived *d, size_t at, size_t *run);
/* 1: reading a part of it costs that part alone. */
int weights_reads_by_parts(const weights_entry *x);

/* Makes x what `d` says, with d->dim as its shape; a copy of *d goes into the set's memory. */
kiln_status weights_derive(kiln_weights *w, weights_entry *x, const weights_derived *d, error *e);
/* A copy of *x in the set's memory, to be made of. NULL: no memory. */
weights_entry *weights_keep_entry(kiln_weights *w, const weights_entry *x);

#endif
