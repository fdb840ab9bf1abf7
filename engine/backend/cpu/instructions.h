/* instructions.h - instructions that few processors have, and which tests stand in for where this one has them not
 * (tests/instructions). Layer: backend.
 */
#ifndef KILN_BACKEND_CPU_INSTRUCTIONS_H
#define KILN_BACKEND_CPU_INSTRUCTIONS_H

enum { AMX_BF16 = 1, AMX_INT8 = 2 };

/* Bits of the above: what the processor has and the system lets this process use. It asks for that each time. */
unsigned amx_found(void);
/* Byte products of 256 bits without AVX-512? */
int avx_vnni_found(void);

#endif
