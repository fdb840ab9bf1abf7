/* amx_model.h - AMX's instructions in plain C, after Intel's Software Developer's Manual. Tiles belong to a thread.
 * What a processor would refuse (#UD, #GP) ends the process with a sentence.
 */
#ifndef KILN_TESTS_AMX_MODEL_H
#define KILN_TESTS_AMX_MODEL_H

#include <stddef.h>

void amx_model_config(const void *shapes); /* 64 bytes */
void amx_model_release(void);
void amx_model_zero(unsigned t);
void amx_model_load(unsigned t, const void *from, ptrdiff_t stride);
void amx_model_store(unsigned t, void *to, ptrdiff_t stride);
void amx_model_dpbf16ps(unsigned c, unsigned a, unsigned b);
void amx_model_dpbssd(unsigned c, unsigned a, unsigned b);

/* Has this thread shapes? */
int amx_model_in_use(void);
/* Instructions of any thread so far. */
unsigned long amx_model_count(void);

#endif
