/* attention_decode.h - attention of one query a head, which waits for memory. Layer: backend. */
#ifndef KILN_BACKEND_CPU_ATTENTION_DECODE_H
#define KILN_BACKEND_CPU_ATTENTION_DECODE_H

#include "backend/cpu/attention_view.h"

int attention_decode_fits(const attention_plan *p);
/* The plan, measured, is c->plan. */
void attention_decode_prepare(cpu_kernel *c);

#endif
