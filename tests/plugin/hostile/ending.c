/* ending.c - nodes that end the process, or do not end, in the ways a plugin can, for test_ending.sh and
 * test_contained.sh. Ending does it in run(), EndingElsewhere in the function that its type says.
 * `KILN_TEST_ENDING=open|load` does it there, but for the first time: a probe passes. */
#include "kiln/graph.h"
#include "kiln/plugin.h"
#include "kiln/value.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static const kiln_choice ways[] = {{"exit", "calls exit(0)", 0},
                                   {"quick_exit", "calls quick_exit(0)", 1},
                                   {"segv", "writes to address 8", 2},
                                   {"abort", "calls abort()", 3},
                                   {"stack", "calls itself without end", 4},
                                   {"thread", "writes to address 8 in parallel_for", 5},
                                   {"_exit", "calls _exit(0)", 6},
                                   {"kill", "is killed, as by the kernel when memory runs out", 7},
                                   {"hang", "sleeps for ever", 8},
                                   {"deaf", "does so with all signals blocked", 9},
                                   {"late", "leaves a thread that writes to address 8", 10},
                                   {"none", "does nothing", 11},
                                   {"term", "ends itself by SIGTERM", 12},
                                   {"slow", "takes a second, with signs of life", 13},
                                   {"fork", "forks, and both come back", 14},
                                   {"close", "closes all descriptors from 3 on", 15},
                                   {"limit", "lets no file grow", 16},
                                   {"pthread_exit", "ends its thread", 17},
                                   {"exec", "becomes another program", 18},
                                   {"daemon", "goes into the background", 19},
                                   {"at_exit", "crashes when the process ends", 20},
                                   {"stuck", "does not let the process end", 21},
                                   {NULL, NULL, 0}};
enum { LATE = 10, NONE = 11, SLOW = 13 };
typedef struct {
    int32_t way;
    int64_t which;
} values;
static const kiln_port out[] = {{.name = "INT", .type = "INT", .doc = "A number."}};
static const kiln_param param[] = {
    {.name = "way", .type = KILN_P_ENUM, .offset = offsetof(values, way), KILN_CHOICES(ways), .doc = "How it ends."},
    {.name = "which",
     .type = KILN_P_INT,
     .offset = offsetof(values, which),
     .def = 0,
     .min = 0,
     .max = 100,
     .doc = "Which."}};

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

static void nap(int milliseconds)
{
    nanosleep(&(struct timespec){.tv_sec = milliseconds / 1000, .tv_nsec = milliseconds % 1000 * 1000000L}, NULL);
}

static void *later(void *arg) { return nap(100), *nowhere = 1, arg; }

static void strike_now(void) { *nowhere = 1; }
static void sleep_now(void)
{
    for (;;) sleep(1000);
}

static kiln_status end(const kiln_call *c, int way)
{
    sigset_t all;
    pthread_t thread;
    switch (way) {
    case 0: exit(0);
    case 1: quick_exit(0);
    case 2: *nowhere = 1; break;
    case 3: abort();
    case 4: return fall(0) ? KILN_OK : KILN_ERR_BUG;
    case 5:
        if (c) c->host->parallel_for(c->ctx, 64, strike, NULL);
        break;
    case 6: _exit(0);
    case 7: raise(SIGKILL); break;
    case 9: sigfillset(&all), pthread_sigmask(SIG_BLOCK, &all, NULL); /* fallthrough */
    case 8:
        for (;;) sleep(1000);
    case LATE: return pthread_create(&thread, NULL, later, NULL), KILN_OK;
    case 12: signal(SIGTERM, SIG_DFL), raise(SIGTERM); break;
    case SLOW:
        for (uint64_t i = 0; i < 50; i++) {
            nap(20);
            if (c->host->progress(c->ctx, i, 50, "slowly") != KILN_OK) return KILN_CANCELLED;
        }
        return KILN_OK;
    case 14: fork(); return KILN_OK;
    case 15:
        for (int i = 3; i < 1024; i++) close(i);
        return KILN_OK;
    case 16: setrlimit(RLIMIT_FSIZE, &(struct rlimit){10, 10}); return KILN_OK;
    case 17: pthread_exit(NULL);
    case 18: execl("/bin/true", "true", NULL); break;
    case 19: return daemon(1, 1) == 0 ? KILN_OK : KILN_ERR_IO;
    case 20: atexit(strike_now); return KILN_OK;
    case 21: atexit(sleep_now); return KILN_OK;
    default: return KILN_OK;
    }
    return KILN_ERR_BUG;
}

static kiln_status give(const kiln_call *c)
{
    const values *v = c->params;
    const kiln_value_api *api = c->host->ability(KILN_VALUE_ABILITY);
    return (c->out[0] = api->new_int(c->ctx, v->which)) ? KILN_OK : KILN_ERR_NOMEM;
}

static kiln_status run(const kiln_call *c)
{
    const values *v = c->params;
    kiln_status status = end(c, v->way);
    if (status == KILN_OK && v->way == LATE) nap(300);
    return status == KILN_OK ? give(c) : status;
}

static int32_t elsewhere; /* what create() and destroy(), which have no parameters, do */
static kiln_status check(const kiln_call *c) { return elsewhere = ((const values *)c->params)->way, KILN_OK; }
static kiln_status ends_in_check(const kiln_call *c) { return end(c, ((const values *)c->params)->way); }
static kiln_status create(const kiln_host *h, void **instance)
{
    return (void)h, *instance = NULL, end(NULL, elsewhere);
}
static kiln_status made(const kiln_host *h, void **instance) { return (void)h, *instance = &elsewhere, KILN_OK; }
static void destroy(void *instance) { (void)instance, end(NULL, elsewhere); }
static kiln_status wants(const kiln_call *c, uint64_t *inputs)
{
    return *inputs = 1, end(c, ((const values *)c->params)->way);
}
static kiln_status expand(const kiln_call *c, kiln_graph *g)
{
    return (void)g, end(c, ((const values *)c->params)->way);
}
static const kiln_port lazy[] = {
    {.name = "lazy", .type = "INT", .flags = KILN_PORT_OPTIONAL | KILN_PORT_LAZY, .doc = "A number."}};

#define NODE(NAME, FLAGS)                                                                                              \
    .size = sizeof(kiln_node), .flags = FLAGS, .devices = KILN_CPU, .revision = 1, .type = NAME,                       \
    .doc = "Ends the process.", KILN_ARRAY(out, out), KILN_ARRAY(param, param), .params_size = sizeof(values)
static const kiln_node ending = {NODE("Ending", KILN_NODE_OUTPUT), .run = run},
                       pure = {NODE("EndingPure", KILN_NODE_PURE), .run = run},
                       in_check = {NODE("EndingInCheck", KILN_NODE_OUTPUT), .run = give, .check = ends_in_check},
                       in_create = {NODE("EndingInCreate", KILN_NODE_OUTPUT), .run = give, .check = check,
                                    .create = create},
                       in_destroy = {NODE("EndingInDestroy", KILN_NODE_OUTPUT), .run = give, .check = check,
                                     .create = made, .destroy = destroy},
                       in_wants = {NODE("EndingInWants", KILN_NODE_OUTPUT), KILN_ARRAY(in, lazy), .run = give,
                                   .wants = wants},
                       in_expand = {NODE("EndingInExpand", KILN_NODE_EXPANDS), .expand = expand};

/* Not the first time: that is in the process that tries the plugin. */
static int again(const char *where)
{
    const char *wanted = getenv("KILN_TEST_ENDING"), *mark = getenv("KILN_TEST_MARK");
    if (!wanted || !mark || strcmp(wanted, where) != 0) return 0;
    int fd = open(mark, O_CREAT | O_EXCL | O_WRONLY, 0600);
    if (fd < 0) return 1;
    close(fd);
    return 0;
}

static kiln_status open_plugin(const kiln_host *h) { return (void)h, again("open") ? end(NULL, 6) : KILN_OK; }
__attribute__((constructor)) static void load(void)
{
    if (again("load")) end(NULL, 6);
}
KILN_PLUGIN_OPEN("org.example.ending", "1.0.0", "MIT", open_plugin, &ending, &pure, &in_check, &in_create, &in_destroy,
                 &in_wants, &in_expand);
