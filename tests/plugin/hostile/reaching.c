/* reaching.c - a node that reaches for what is not its own, for test_sandbox.sh: it fails with what the system said, or
 * gives 0. */
#include "kiln/plugin.h"
#include "kiln/value.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

static const kiln_choice ways[] = {{"nothing", "reaches for nothing", 0},
                                   {"passwd", "reads /etc/passwd", 1},
                                   {"home", "writes to HOME", 2},
                                   {"secret", "reads $HOME/.secret", 3},
                                   {"tcp", "opens a TCP socket", 4},
                                   {"udp", "opens a UDP socket", 5},
                                   {"unix", "opens a local socket", 6},
                                   {"tmp", "writes to /tmp", 7},
                                   {"environ", "reads what its parent was started with", 8},
                                   {"kill", "signals its parent", 9},
                                   {"link", "makes a link out of the output folder", 10},
                                   {"truncate", "truncates $HOME/.secret", 11},
                                   {"list", "lists HOME", 12},
                                   {"chmod", "lets everybody read $HOME/.secret", 13},
                                   {"chown", "gives $HOME/.secret to itself", 14},
                                   {"times", "changes the times of $HOME/.secret", 15},
                                   {"attribute", "gives $HOME/.secret an attribute", 16},
                                   {"type", "types a blank into the terminal", 17},
                                   {NULL, NULL, 0}};
typedef struct {
    int32_t way;
} values;
static const kiln_port out[] = {{.name = "INT", .type = "INT", .doc = "0."}};
static const kiln_param param[] = {
    {.name = "way", .type = KILN_P_ENUM, .offset = offsetof(values, way), KILN_CHOICES(ways), .doc = "For what."}};

static const char *home(const char *name)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", getenv("HOME"), name);
    return path;
}

static int reach(int way)
{
    char path[64];
    switch (way) {
    case 1: return open("/etc/passwd", O_RDONLY);
    case 2: return open(home("written"), O_WRONLY | O_CREAT, 0600);
    case 3: return open(home(".secret"), O_RDONLY);
    case 4: return socket(AF_INET, SOCK_STREAM, 0);
    case 5: return socket(AF_INET6, SOCK_DGRAM, 0);
    case 6: return socket(AF_UNIX, SOCK_STREAM, 0);
    case 7: return open(getenv("KILN_TEST_ELSEWHERE"), O_WRONLY | O_CREAT, 0600);
    case 8:
        snprintf(path, sizeof path, "/proc/%d/environ", getppid());
        return open(path, O_RDONLY) >= 0 && read(open(path, O_RDONLY), path, 8) > 0 ? 0 : (errno = EPERM, -1);
    case 9: return kill(getppid(), SIGURG);
    case 10: return link(home(".secret"), getenv("KILN_TEST_LINK"));
    case 11: return truncate(home(".secret"), 0);
    case 12: return open(getenv("HOME"), O_RDONLY | O_DIRECTORY);
    case 13: return chmod(home(".secret"), 0644);
    case 14: return chown(home(".secret"), geteuid(), (gid_t)-1);
    case 15: return utimensat(AT_FDCWD, home(".secret"), NULL, 0);
    case 16: return setxattr(home(".secret"), "user.kiln", "x", 1, 0);
    case 17: return ioctl(STDIN_FILENO, TIOCSTI, " ");
    }
    return 0;
}

static kiln_status run(const kiln_call *c)
{
    const kiln_value_api *api = c->host->ability(KILN_VALUE_ABILITY);
    int got = reach(((const values *)c->params)->way);
    if (got < 0) return c->host->fail(c->ctx, KILN_ERR_IO, "refused: %s", strerror(errno));
    return (c->out[0] = api->new_int(c->ctx, 0)) ? KILN_OK : KILN_ERR_NOMEM;
}

static const kiln_node reaching = {.size = sizeof reaching,
                                   .flags = KILN_NODE_OUTPUT,
                                   .devices = KILN_CPU,
                                   .revision = 1,
                                   .type = "Reaching",
                                   .doc = "Reaches for things.",
                                   KILN_ARRAY(out, out),
                                   KILN_ARRAY(param, param),
                                   .params_size = sizeof(values),
                                   .run = run};
KILN_PLUGIN("org.example.reaching", "1.0.0", "MIT", &reaching);
