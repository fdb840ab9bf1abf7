/* shape.h - shapes in memory order, and their text. Layer: tensor. */
#ifndef KILN_TENSOR_SHAPE_H
#define KILN_TENSOR_SHAPE_H

#include "kiln/plugin.h"

typedef struct {
    uint32_t rank;
    int64_t dim[KILN_MAX_RANK];
} shape;

/* 0 when rank, a dimension (must be >= 0) or the product is out of bounds (2^40 elements). */
int shape_make(shape *s, uint32_t rank, const int64_t *dim);
int64_t shape_count(const shape *s);
int shape_equal(const shape *a, const shape *b);
/* "[2,64,64,320]" into buf[80] */
const char *shape_text(const shape *s, char buf[80]);

#endif
