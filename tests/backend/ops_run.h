/* ops_run.h - runs one op on a backend over made-up operands with guards, and compares results. */
#ifndef KILN_TESTS_OPS_RUN_H
#define KILN_TESTS_OPS_RUN_H

#include "backend/backend.h"

/* A row of a table of ops: operands as f32, dense; prepare_case() turns them into other types and row distances. */
typedef struct {
    const char *name;
    op_desc op;
    double tolerance; /* in f32; 0 = 2e-6 */
} op_case;            /* the name of a map is "map " and its expression */

typedef struct {
    op_desc op;
    void *in[OP_MAX_IN];     /* activations in their type; weights as dense f32 */
    void *blocks[OP_MAX_IN]; /* weights stored by blocks: those, of which `in` has the numbers */
    uint32_t fill;           /* seed of the operands */
} op_setup;

/* What a weight's rounding to the type of a product may add: those of whole numbers of bits have none. */
double setup_tolerance(const op_case *c, uint32_t type);
/* type: storage of activations and the precision; pad: elements added between rows. */
int setup_make(op_setup *s, const op_case *c, uint32_t type, int64_t pad);
/* What regions of precision make: every other operand (the even or the odd ones, or the only one) of those that an op
 * reads in any type is of type `other`. How many that is. */
int setup_mix(op_setup *s, uint32_t other, int odd);
/* The op saturates, and its numbers are so large that some are beyond f16. 0: it is not one of those that do. Errors
 * are as large as the sums, of which the largest are cut off: SATURATED times the tolerance of what is left. */
enum { SATURATED = 8 };
int setup_saturate(op_setup *s);
void setup_free(op_setup *s);
/* Result of one run, its bytes with guards; NULL after printing why. seconds and busy (or NULL): wall and
 * processor time of the fastest of `repeat` runs. */
void *setup_run(const op_setup *s, const backend *b, pool *p, int repeat, double *seconds, double *busy,
                kiln_status *status);
/* Bytes of what it returns: guards, the result, and its other results. */
size_t setup_bytes(const op_setup *s);
/* A number of the result. */
double setup_element(const op_setup *s, const void *all, int64_t row, int64_t column);
/* 1 when within tolerance: relative error of the whole, and of every element against max(|b|, rms). */
int setup_near(const op_setup *s, const void *a, const void *b, double tolerance, const char *what);

#endif
