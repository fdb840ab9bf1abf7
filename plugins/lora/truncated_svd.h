/* truncated_svd.h - the largest singular values of a matrix with their vectors. */
#ifndef KILN_LORA_TRUNCATED_SVD_H
#define KILN_LORA_TRUNCATED_SVD_H

#include "kiln/plugin.h"

/* up [rows,rank] times down [rank,columns] is the best approximation of a [rows,columns] of that rank: up has the
 * singular values in it, by falling size, down's rows are of length 1 (0 where the singular value is 0). rank is at
 * most the smaller of rows and columns. Computed in f64, on all cores, the same on any number of them. KILN_CANCELLED
 * when the run is to stop. [run] */
typedef struct {
    const float *a;
    size_t rows, columns, rank;
    float *up, *down;
} truncated_svd;
kiln_status truncated_svd_compute(const kiln_call *c, const truncated_svd *s);

#endif
