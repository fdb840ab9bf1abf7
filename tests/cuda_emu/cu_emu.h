/* cu_emu.h - the emulation as a test sees it (C); what kernels see is cu_shim.h. */
#ifndef KILN_TESTS_CU_EMU_H
#define KILN_TESTS_CU_EMU_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

void cu_emu_seed(uint64_t seed);     /* of the order of threads and blocks */
unsigned cu_emu_faults(void);        /* what kernels did that none may do, so far */
const char *cu_emu_last_fault(void); /* "KERNEL: what (block X Y Z, thread X Y Z)"; "" before the first */
void cu_emu_forget(void);            /* after the device was closed */
/* What has run so far of `kernel`, with whatever template arguments: launches, and blocks in *blocks. */
uint64_t cu_emu_ran(const char *kernel, uint64_t *blocks);
/* How often a thread came to one of these, so far. */
typedef enum {
    CU_EMU_MMA16_BF16,
    CU_EMU_MMA16_F16,
    CU_EMU_MMA8_F16,
    CU_EMU_ASYNC_COPY,
    CU_EMU_WGMMA,
    CU_EMU_BOX,
    CU_EMU_KINDS
} cu_emu_kind;
uint64_t cu_emu_count(cu_emu_kind kind);

#ifdef __cplusplus
}
#endif
#endif
