/* memory_budget.h - the memory budget of a run: where it comes from, what is on its account, and that one that is too
 * small is refused before anything is computed. */
#ifndef KILN_RUN_MEMORY_BUDGET_H
#define KILN_RUN_MEMORY_BUDGET_H

#include "run/batch.h"

/* The budget of --memory or KILN_MEMORY, or else none but what the device has. */
kiln_status memory_budget_choose(const job_setting *s, runtime_setting *rs, error *e);
/* From here on tensors of values are on this account, as they are where programs run on the host; NULL: on none. */
void memory_count_values(budget *b);
/* Estimates the batch where that is of use: under a budget that was asked for, which is refused (KILN_ERR_NOMEM, with
 * the least one that works) when it is too small; beside an asynchronous device, so that the order of programs is
 * known; and with `once`, which says that nothing runs after it: what no program wants any more is given up then. Other
 * failures come again when the batch runs, and are reported then. */
kiln_status memory_check_budget(machine *m, batch *b, int once, error *e);
/* After an estimate that failed with KILN_ERR_NOMEM: the same with the least budget that works; KILN_OK when that is no
 * more than the budget. */
kiln_status memory_least_budget(machine *m, batch *b, error *e);
/* After an estimate that fits, of which o is what the runtime says: `least` becomes what is least when nodes are told
 * that there is less, since an autoencoder that does not fit goes in stripes or tiles. */
kiln_status memory_tighten(machine *m, batch *b, runtime_estimate *o, error *e);

#endif
