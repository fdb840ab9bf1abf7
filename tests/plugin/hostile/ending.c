/* ending.c - nodes that end the process in the ways a plugin can, for test_ending.sh. */
#include "kiln/plugin.h"

#include <signal.h>
#include <stdlib.h>

static const kiln_choice ways[] = {{"exit", "calls exit(0)", 0},
                                   {"quick_exit", "calls quick_exit(0)", 1},
                                   {"segv", "writes to address 8", 2},
                                   {"abort", "calls abort()", 3},
                                   {"stack", "calls itself without end", 4},
                                   {"thread", "writes to address 8 in parallel_for", 5},
                                   {NULL, NULL, 0}};
typedef struct {
    int32_t way;
} values;
static const kiln_port out[] = {{.name = "INT", .type = "INT", .doc = "Nothing that ever comes."}};
static const kiln_param param[] = {
    {.name = "way", .type = KILN_P_ENUM, .offset = offsetof(values, way), KILN_CHOICES(ways), .doc = "How it ends."}};

static int *volatile nowhere = (int *)8;
static volatile int depth;

static int fall(int n)
{
    volatile char capacity[4096];
    capacity[0] = (char)n;
    depth = n;
    return fall(n + 1) + capacity[0];
}

static void strike(void *arg, size_t i) { (void)arg, *nowhere = (int)i; }

static kiln_status run(const kiln_call *c)
{
    switch (((const values *)c->params)->way) {
    case 0: exit(0);
    case 1: quick_exit(0);
    case 2: *nowhere = 1; break;
    case 3: abort();
    case 4: return fall(0) ? KILN_OK : KILN_ERR_BUG;
    case 5: c->host->parallel_for(c->ctx, 64, strike, NULL); break;
    }
    return KILN_ERR_BUG;
}

static const kiln_node ending = {.size = sizeof ending,
                                 .flags = KILN_NODE_OUTPUT,
                                 .devices = KILN_CPU,
                                 .revision = 1,
                                 .type = "Ending",
                                 .doc = "Ends the process.",
                                 KILN_ARRAY(out, out),
                                 KILN_ARRAY(param, param),
                                 .params_size = sizeof(values),
                                 .run = run};
KILN_PLUGIN("org.example.ending", "1.0.0", "MIT", &ending);
