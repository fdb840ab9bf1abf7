/* counted.c - a node that writes a byte into $KILN_TEST_COUNT each time it is computed, and takes so long that what it
 * made is kept at once (WORK_MAX in store_queue.c), and one that ends the process, for test_contained_count.sh.
 */
#include "kiln/kit.h"
#include "kiln/plugin.h"
#include "kiln/value.h"

#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static const kiln_port number[] = {{.name = "INT", .type = "INT", .doc = "A number."}};

static kiln_status count(const kiln_call *c)
{
    const kiln_value_api *v = c->host->ability(KILN_VALUE_ABILITY);
    const char *path = getenv("KILN_TEST_COUNT");
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
    if (fd < 0 || write(fd, "x", 1) != 1) return c->host->fail(c->ctx, KILN_ERR_IO, "cannot count");
    close(fd);
    nanosleep(&(struct timespec){.tv_nsec = 800000000}, NULL);
    return (c->out[0] = v->new_int(c->ctx, 7)) ? KILN_OK : KILN_ERR_NOMEM;
}

static kiln_status crash(const kiln_call *c)
{
    (void)c;
    abort();
}

#define NODE(NAME, FLAGS, RUN)                                                                                         \
    .size = sizeof(kiln_node), .flags = FLAGS, .devices = KILN_CPU, .revision = 1, .type = NAME, .doc = "For a test.", \
    KILN_ARRAY(out, number), .run = RUN
static const kiln_node counted = {NODE("Counted", KILN_NODE_PURE, count)},
                       crashing = {NODE("Crashing", KILN_NODE_OUTPUT, crash), KILN_ARRAY(in, number)};

KILN_PLUGIN("org.example.counted", "1.0.0", "MIT", &counted, &crashing);
