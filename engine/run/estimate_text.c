/* estimate_text.c - see estimate_text.h. */
#include "run/estimate_text.h"

#include "base/print.h"
#include "run/memory_budget.h"

#include <stdio.h>

kiln_status estimate_for_people(machine *m, batch *b, const estimate_observer *o, error *e)
{
    error why = {0};
    kiln_status status = estimate_batch(m, b, o, &why);
    if (status == KILN_ERR_NOMEM && residency_limited(machine_residency(m))) TRY(memory_least_budget(m, b, e));
    return status == KILN_OK ? status : error_set(e, status, "%s", why.message);
}

const char *estimate_gflop(char text[32], uint64_t flops)
{
    snprintf(text, 32, "%.3g", (double)flops * 1e-9);
    return text;
}

void estimate_say_unknown(size_t nodes)
{
    if (nodes)
        print_text(stdout,
                   "?: %zu node%s could not be estimated; what they need is known when they run (they are of plugins "
                   "that do not estimate, or hang on such a node)\n",
                   nodes, nodes == 1 ? "" : "s");
}
