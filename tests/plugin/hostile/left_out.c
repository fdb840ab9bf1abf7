/* left_out.c - plugins whose threads, constructors and handlers do harm outside of every call, for test_left_out.sh.
 * LEFT_NAME is its id's last part and the type of its one node. What it does is in the variable KILN_LEFT_<name>:
 * `where way`. where: constructor, open, run or sampler (as run; it registers a sampler). Never in the process that
 * tries the plugin, which has standard output at /dev/null, unless the way's name ends in a dot. */
#include "kiln/plugin.h"
#include "kiln/sampler.h"
#include "kiln/value.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define TEXT_(X) #X
#define TEXT(X) TEXT_(X)
#define NAME TEXT(LEFT_NAME)

static void nap(int ms) { nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL); }
static void ends(void)
{
    nap(40);
    syscall(SYS_exit_group, 0);
}
static void ends_soon(void) { syscall(SYS_exit_group, 0); }
static void kills(void)
{
    nap(40);
    kill(getpid(), SIGKILL);
}
static void crashes(void)
{
    nap(40);
    *(volatile int *)8 = 1;
}
static void aborts(void)
{
    nap(40);
    abort();
}
static void naps(void) { nap(300); }
static void strikes(void) { *(volatile int *)8 = 1; }
/* For ever, with what the others need. */
static void holds_heap(void)
{
    extern int pthread_atfork(void (*)(void), void (*)(void), void (*)(void));
    FILE *f = tmpfile();
    flockfile(stderr), flockfile(stdout);
    (void)f;
    for (;;) nap(1000);
}
static void loops(void)
{
    for (volatile int i = 0;; i++) continue;
}
static void before_fork(void) { loops(); }
static void forks_hang(void) { pthread_atfork(before_fork, NULL, NULL); }
static void exit_loops(void) { atexit(loops); }
/* Writes over what the watching process shares. */
static void shared(int value)
{
    char line[512];
    FILE *f = fopen("/proc/self/maps", "r");
    while (f && fgets(line, sizeof line, f)) {
        unsigned long a, b;
        char m[8];
        if (sscanf(line, "%lx-%lx %7s", &a, &b, m) == 3 && m[3] == 's' && m[1] == 'w' && strstr(line, "/dev/zero"))
            memset((void *)a, value, b - a);
    }
    if (f) fclose(f);
}
static void overwrites(void)
{
    nap(40);
    shared(1);
    for (;;) nap(1000);
}
static void overwrites_and_ends(void)
{
    nap(40);
    shared(0);
    syscall(SYS_exit_group, 0);
}
/* All pipes but that of the standard streams. */
static void each_pipe(void (*f)(int))
{
    struct stat s, err;
    for (int fd = 3; fd < 256; fd++)
        if (fstat(fd, &s) == 0 && S_ISFIFO(s.st_mode) && fstat(2, &err) == 0 && s.st_ino != err.st_ino) f(fd);
}
static void write_rubbish(int fd) { write(fd, "rubbish that is long enough to be a message, or two", 51); }
static void fill(int fd)
{
    static char much[4096];
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    for (int i = 0; i < 1000; i++) write(fd, much, sizeof much);
}
static void close_pipe(int fd) { close(fd); }
static void pipe_rubbish(void) { each_pipe(write_rubbish); }
static void pipe_full(void) { each_pipe(fill); }
static void pipe_closed(void)
{
    nap(40);
    each_pipe(close_pipe);
    for (;;) nap(1000);
}
static void other_session(void) { setsid(); }
static void hangs_up(void)
{
    kill(getpid(), SIGHUP);
    nap(20);
    kill(getpid(), SIGHUP);
}
static void no_memory_left(void)
{
    FILE *f = fopen("/proc/self/mem", "r+");
    static char own[64];
    if (!f) return;
    fseeko(f, (off_t)(uintptr_t)own, SEEK_SET);
    fwrite("x", 1, 1, f);
    fclose(f);
}
static void protects_heap(void)
{
    void *p = malloc(100);
    nap(40);
    mprotect((void *)((uintptr_t)p & ~4095ul), 65536, PROT_NONE);
}
static void unmaps_heap(void)
{
    void *p = malloc(100);
    nap(40);
    munmap((void *)((uintptr_t)p & ~4095ul), 65536);
}
static void preloads(void) { setenv("LD_PRELOAD", "/nowhere/evil.so", 1); }
static void openmp(void) { setenv("OMP_NUM_THREADS", "1000", 1); }
static void terminal(void)
{
    struct termios t;
    if (tcgetattr(2, &t) == 0) t.c_lflag = 0, tcsetattr(2, TCSANOW, &t);
    write(2, "", 0);
}
/* As soon as the picture is there, again and again. A large one is still being written then. */
static void each_picture(void (*f)(const char *))
{
    char path[4096];
    for (int i = 0; i < 10000; i++) {
        nap(5);
        snprintf(path, sizeof path, "%s/good_00001_.png", getenv("KILN_LEFT_OUT"));
        if (access(path, F_OK) == 0) f(path);
    }
}
static void remove_one(const char *path) { unlink(path); }
static void empty_one(const char *path) { truncate(path, 0); }
static void removes_pictures(void) { each_picture(remove_one); }
static void empties_pictures(void) { each_picture(empty_one); }
static void makes_loop(void)
{
    for (;;) nap(1000);
}
static void *starts_many(void *a)
{
    for (;;) sleep(1000);
    return a;
}
static void threads(void)
{
    pthread_attr_t small;
    pthread_t t;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 16384);
    for (int i = 0; i < 2000 && pthread_create(&t, &small, starts_many, NULL) == 0; i++) continue;
}

static const struct {
    const char *name;
    void (*run)(void);
    int in_thread;
} ways[] = {{"ends", ends, 1},
            {"ends_soon", ends_soon, 0},
            {"kills", kills, 1},
            {"crashes", crashes, 1},
            {"aborts", aborts, 1},
            {"holds_heap", holds_heap, 1},
            {"loops", loops, 0},
            {"loops.", loops, 0},
            {"loops_beside", loops, 1},
            {"forks_hang", forks_hang, 0},
            {"exit_loops", exit_loops, 0},
            {"overwrites", overwrites, 1},
            {"overwrites_and_ends", overwrites_and_ends, 1},
            {"pipe_rubbish", pipe_rubbish, 0},
            {"pipe_full", pipe_full, 0},
            {"pipe_closed", pipe_closed, 1},
            {"other_session", other_session, 0},
            {"hangs_up", hangs_up, 1},
            {"no_memory_left", no_memory_left, 0},
            {"protects_heap", protects_heap, 1},
            {"unmaps_heap", unmaps_heap, 1},
            {"preloads", preloads, 0},
            {"openmp", openmp, 0},
            {"terminal", terminal, 0},
            {"removes_pictures", removes_pictures, 1},
            {"empties_pictures", empties_pictures, 1},
            {"sleeps", makes_loop, 0},
            {"strikes", strikes, 0},
            {"naps", naps, 0},
            {"threads", threads, 0}};

#ifdef LEFT_INTERPOSES
/* Names of functions that everybody calls, which must stay this file's own. */
#define EVIL KILN_EXPORT
EVIL void *malloc(size_t n) { return (void)n, NULL; }
EVIL void free(void *p) { (void)p; }
EVIL ssize_t write(int fd, const void *p, size_t n) { return (void)fd, (void)p, (void)n, -1; }
EVIL int rename(const char *a, const char *b) { return (void)a, (void)b, 0; }
EVIL int sqlite3_open(const char *a, void **b) { return (void)a, (void)b, 1; }
EVIL int supervisor_begin(void *a, int *b) { return (void)a, (void)b, 0; }
EVIL uint64_t supervised_name(const char *a) { return (void)a, 1; }
#endif

static void *thread(void *run) { return ((void (*)(void))run)(), NULL; }

static int is_trial(void)
{
    struct stat out, null;
    return fstat(1, &out) == 0 && stat("/dev/null", &null) == 0 && out.st_rdev == null.st_rdev && S_ISCHR(out.st_mode);
}

static void at(const char *where)
{
    const char *said = getenv("KILN_LEFT_" NAME);
    size_t n = strlen(where);
    pthread_t t;
    if (!said || strncmp(said, where, n) != 0 || said[n] != ' ') return;
    if (is_trial() && said[strlen(said) - 1] != '.') return;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        if (strcmp(ways[i].name, said + n + 1) != 0) continue;
        if (ways[i].in_thread)
            pthread_create(&t, NULL, thread, (void *)ways[i].run);
        else
            ways[i].run();
    }
}

__attribute__((constructor)) static void constructor(void) { at("constructor"); }

static const kiln_port in[] = {{.name = "image", .type = "IMAGE", .doc = "A picture.", .flags = KILN_PORT_OPTIONAL}};
static const kiln_port out[] = {{.name = "IMAGE", .type = "IMAGE", .doc = "The same."}};
static kiln_status run(const kiln_call *c)
{
    at("run");
    nap(60);
    if (!c->in[0]) return c->host->fail(c->ctx, KILN_ERR_INVALID, "no picture");
    c->out[0] = c->host->ref(c->in[0]);
    return KILN_OK;
}
typedef struct {
    const char *text;
} values;
static const kiln_param param[] = {{.name = "text",
                                    .type = KILN_P_STRING,
                                    .offset = offsetof(values, text),
                                    .def_str = "",
                                    .doc = "A text that may name files."}};
static void names_files(const void *params, const kiln_file_names *to)
{
    (void)params, (void)to;
    at("names");
}
static const kiln_node node = {.size = sizeof node,
                               .flags = KILN_NODE_PURE,
                               .devices = KILN_CPU,
                               .revision = 1,
                               .type = NAME,
                               .doc = "Hands its picture on.",
                               KILN_ARRAY(in, in),
                               KILN_ARRAY(out, out),
                               KILN_ARRAY(param, param),
                               .params_size = sizeof(values),
                               .run = run,
                               .names_files = names_files};

static kiln_status sample(const kiln_sampling *s)
{
    for (size_t i = s->first; i < s->n; i++) {
        kiln_status status = s->denoise(s, s->x, s->sigma[i], s->x);
        if (status == KILN_OK) status = s->step(s, i, s->x);
        if (status != KILN_OK) return status;
    }
    return KILN_OK;
}
static const kiln_sampler sampler = {.size = sizeof sampler,
                                     .name = "left_" NAME,
                                     .doc = "Takes each guess.",
                                     .source = "none",
                                     .evaluations = 1,
                                     .run = sample};

static kiln_status open_it(const kiln_host *host)
{
    const kiln_sampler_api *api = host->ability(KILN_SAMPLER_ABILITY);
    kiln_status status = getenv("KILN_LEFT_SAMPLER") ? api->register_sampler(&sampler) : KILN_OK;
    at("open");
    return status;
}
static const kiln_node *const nodes[] = {&node};
KILN_EXPORT extern const kiln_plugin kiln_plugin_v1;
const kiln_plugin kiln_plugin_v1 = {.magic = KILN_MAGIC,
                                    .size = sizeof(kiln_plugin),
                                    .abi_major = KILN_ABI_MAJOR,
                                    .abi_minor = KILN_ABI_MINOR,
                                    .n_node = 1,
                                    .id = "org.example." NAME,
                                    .version = "1.0.0",
                                    .license = "MIT",
                                    .node = nodes,
                                    .open = open_it};
