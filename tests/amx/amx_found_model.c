/* amx_found_model.c - amx.h of a processor whose AMX is the model: tests here are linked with this one. */
#include "backend/cpu/amx.h"

unsigned amx_found(void) { return AMX_BF16 | AMX_INT8; }
