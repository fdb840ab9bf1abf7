/* amx.h - may this process use AMX? Layer: backend. */
#ifndef KILN_BACKEND_CPU_AMX_H
#define KILN_BACKEND_CPU_AMX_H

enum { AMX_BF16 = 1, AMX_INT8 = 2 };

/* Bits of the above: what the processor has and the system lets this process use. It asks for that each time. */
unsigned amx_found(void);

#endif
