/* invariant.h - inputs that stay the same from step to step (kiln_ops.step_invariant: a prompt's tokens), and what they
 * were when the ops that depend on them alone were computed. See plan.h for how their results survive from run to run.
 *
 * With the runtime's lock held, all three.
 */
#ifndef KILN_BACKEND_INVARIANT_H
#define KILN_BACKEND_INVARIANT_H

#include "graph/program.h"

#include <stddef.h>
#include <stdint.h>

/* A program's invariant inputs as they were in the run whose results are kept. */
typedef struct {
    uint32_t *dtype; /* [inputs] as bound; 0: it was on a device, and is not compared */
    char *bytes;
    int valid;
} invariant_inputs;

/* Memory for them, once the program is planned; program_free frees it. */
kiln_status invariant_make(kiln_program *p, error *e);
/* 1: every invariant input has the dtype and bytes noted, so that what was computed from them is still right. */
int invariant_same(const kiln_program *p, const kiln_bind *in, size_t n_in);
/* After a run that computed it: notes the inputs it was computed from. */
void invariant_note(kiln_program *p, const kiln_bind *in, size_t n_in);

#endif
