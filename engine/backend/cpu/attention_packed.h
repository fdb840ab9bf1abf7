/* attention_packed.h - attention whose keys and values are packed before it begins: nothing is added to scores or hides
 * keys. Layer: backend.
 */
#ifndef KILN_BACKEND_CPU_ATTENTION_PACKED_H
#define KILN_BACKEND_CPU_ATTENTION_PACKED_H

#include "backend/cpu/attention_view.h"

int attention_packed_fits(const op_desc *, const attention_plan *);
/* The plan, measured, is c->plan. */
void attention_packed_prepare(cpu_kernel *c);

#endif
