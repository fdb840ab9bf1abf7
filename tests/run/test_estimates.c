/* test_estimates.c - every node that kiln ships keeps the rule of estimates (kiln/plugin.h): it has the flag, and run()
 * with shapes alone gives outputs of its ports' types and touches no data, which would be a crash here.
 */
#include "node_kit.h"

