/* fuse.h - makes fewer, larger ops of a finished recording. Each rule is one function.
 *
 *   norm + act                 -> the norm's epilogue
 *   conv/linear + act          -> its epilogue
 *   linear + geglu             -> its epilogue, half the columns
 *   conv/linear + add          -> its residual (shapes equal; computed where the add stood)
 *   linears of one x that feed one attention (q,k,v; k,v) -> one linear over stacked weights, and slices of it
 *   map of a map, add, mul, affine or act -> one expression
 *   conv of an upsampled picture  -> reads the picture itself, where the backend can (fuse_upsampled())
 *   grouped linear of taken rows  -> reads the rows themselves, where the backend can (fuse_taken())
 *   what nothing reads         -> removed
 */
#ifndef KILN_GRAPH_FUSE_H
#define KILN_GRAPH_FUSE_H

#include "graph/program.h"

/* Rewrites r->op: leaves first, then ops in order (a stack of weights right before its linear), without dead ops. Ids
 * change; r->output follows. */
kiln_status fuse(recording *r, error *e);
/* Before fuse(): where conv2d reads what upsample_nearest doubled, or a slice of its rows, it reads what was doubled
 * instead (conv2d_attr.upsampled), so that the larger picture is never made. Only where `takes` says that the backend
 * has a kernel for the conv2d as it would be; whoever else reads the larger picture still gets it. */
typedef int (*fuse_takes)(const void *self, const recording *r, const op *fused);
void fuse_upsampled(recording *r, fuse_takes takes, const void *self);
/* Before fuse(): where grouped_linear reads the rows that take picked from a matrix, it reads the matrix and their
 * numbers (operand 4) instead: each row is read once, however many groups it goes to. As above. */
void fuse_taken(recording *r, fuse_takes takes, const void *self);
/* Only removes dead ops and puts leaves first: the unfused program, for tests. */
kiln_status fuse_nothing(recording *r, error *e);

#endif
