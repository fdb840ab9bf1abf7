/* executor_packing.h - packing a program's weights: from the file to the form that its kernels read. For
 * executor_weights.c.
 */
#ifndef KILN_BACKEND_EXECUTOR_PACKING_H
#define KILN_BACKEND_EXECUTOR_PACKING_H

#include "backend/executor.h"

/* Bytes of operand k once it is packed. */
size_t packed_operand_bytes(const step *s, uint32_t k);
/* Host bytes that packing an op's operand takes beside its source and its result, on a host device. */
size_t packing_temporary(const executor *x, uint32_t op_index, uint32_t operand);
/* residency_demand's pack (arg: the executor): a weight is searched for NaN and infinity the first time only. */
kiln_status packing_fill_use(void *arg, size_t use, void *dst, error *e);
/* residency_demand's will_need. */
void packing_will_need(void *arg, size_t use, page_reader *);

#endif
