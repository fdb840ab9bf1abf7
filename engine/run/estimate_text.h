/* estimate_text.h - what --explain and --dry-run have in common. */
#ifndef KILN_RUN_ESTIMATE_TEXT_H
#define KILN_RUN_ESTIMATE_TEXT_H

#include "run/estimate.h"

/* estimate_batch; when there is no memory within the budget, the failure names the least budget that works. */
kiln_status estimate_for_people(machine *m, batch *b, const estimate_observer *o, error *e);
const char *estimate_gflop(char text[32], uint64_t flops);
/* A line when there are some. */
void estimate_say_unknown(size_t nodes);

#endif
