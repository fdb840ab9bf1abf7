/* ops_near.h - a row of `test_ops bench` with fewer rows, pixels or keys, so that what it reads and writes stays in the
 * processor's own cache: what its instructions take where nothing waits for memory.
 */
#ifndef KILN_TESTS_OPS_NEAR_H
#define KILN_TESTS_OPS_NEAR_H

#include "ops_run.h"

/* The same op; how many times as much the given one computes. 0: of no such kind. */
double op_near(const op_case *c, uint32_t type, op_case *out);

#endif
