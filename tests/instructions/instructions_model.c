/* instructions_model.c - instructions.h of a processor that has all of them: programs here are linked with this one,
 * and with kernels over a model or over AVX-512's form of an instruction.
 */
#include "backend/cpu/instructions.h"

unsigned amx_found(void) { return AMX_BF16 | AMX_INT8; }
int avx_vnni_found(void) { return 1; }
