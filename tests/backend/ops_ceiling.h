/* ops_ceiling.h - how fast rows of `test_ops bench` could compute, if nothing waited: vector instructions on registers,
 * as many as the formula of a row has, counted by hand, none of which waits for another.
 */
#ifndef KILN_TESTS_OPS_CEILING_H
#define KILN_TESTS_OPS_CEILING_H

#include <stddef.h>

/* Instructions for 16 numbers, in vectors of 16: multiplications (with an addition or not) and estimates; quotients and
 * roots; others, of which those that a processor starts two of a cycle (logic, comparisons, whole additions) count
 * half. Loads and stores are none; a number of bf16 that is read is two others, one that is stored one and a half. */
typedef struct {
    double multiplications, others, quotients;
    double counters; /* that are raised in memory, one a number: a processor finishes one store a cycle */
} vector_work;

/* Processor time of the calling thread: a row of several threads is to be compared with as many that do this together,
 * since processors may share what executes vectors.
 *
 * Of as many multiply-adds and additions, on registers, none of which waits for another, as the work on
 * n numbers has multiplications and others; of quotients or counters, if those take longer. 0: no vectors of 16. */
double ceiling_time(const vector_work *w, double n);

/* The same of reading `pieces` pieces (4 at most) of `piece` bytes at random places of `room` bytes for each of n
 * results, of which each has `each` bytes (at most all of the pieces, 4096). */
double ceiling_pieces_time(char *to, const char *from, size_t room, size_t piece, size_t pieces, size_t each, size_t n);

#endif
