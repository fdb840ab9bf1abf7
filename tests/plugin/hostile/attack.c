/* attack.c - nodes that leave the process unfit for whoever runs after them, for test_attacks.sh: each way is a
 * function. They mean harm, or have the mistakes that look like it. */
#include "kiln/plugin.h"
#include "kiln/value.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <fenv.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <locale.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>
#include <xmmintrin.h>

static int *volatile nowhere = (int *)8;
static void nap(int ms) { nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL); }
typedef const kiln_call *call;

/* ---- processes ---- */
static void helper_stays(call c)
{
    (void)c;
    if (fork() == 0) {
        sleep(40);
        _exit(0);
    }
}
static void daemon_stays(call c)
{
    (void)c;
    if (fork() == 0) {
        setsid();
        if (fork() == 0) {
            sleep(40);
            _exit(0);
        }
        _exit(0);
    }
    nap(100);
}
static void many_helpers(call c)
{
    (void)c;
    for (int i = 0; i < 100; i++)
        if (fork() == 0) {
            setsid();
            sleep(40);
            _exit(0);
        }
}
static void stop_self(call c)
{
    (void)c;
    raise(SIGSTOP);
}
static void stop_process(call c)
{
    (void)c;
    kill(getpid(), SIGSTOP);
}
static void stop_parent(call c)
{
    (void)c;
    kill(getppid(), SIGSTOP);
}
static void kill_parent(call c)
{
    (void)c;
    kill(getppid(), SIGKILL);
}
static void term_parent(call c)
{
    (void)c;
    kill(getppid(), SIGTERM);
}
static void int_self(call c)
{
    (void)c;
    raise(SIGINT);
    nap(50);
}
static void term_self(call c)
{
    (void)c;
    kill(getpid(), SIGTERM);
    nap(50);
}
static void int_group(call c)
{
    (void)c;
    kill(0, SIGINT);
    nap(50);
}
static void kill_group(call c)
{
    (void)c;
    kill(0, SIGKILL);
}
static void stop_group(call c)
{
    (void)c;
    kill(0, SIGSTOP);
}
static void trace_parent(call c)
{
    (void)c;
    ptrace(PTRACE_ATTACH, getppid(), 0, 0);
    nap(50);
}
/* ---- timers ---- */
static void alarm_later(call c)
{
    (void)c;
    alarm(1);
}
static void itimer(call c)
{
    (void)c;
    setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {0, 30000}}, NULL);
}
static void posix_timer(call c)
{
    timer_t t;
    struct sigevent e = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    (void)c;
    timer_create(CLOCK_MONOTONIC, &e, &t);
    timer_settime(t, 0, &(struct itimerspec){.it_value = {0, 30000000}}, NULL);
}
/* ---- threads ---- */
static void *exits(void *a)
{
    nap(30);
    _exit(0);
    return a;
}
static void *signals_term(void *a)
{
    nap(30);
    kill(getpid(), SIGTERM);
    return a;
}
static void *stops(void *a)
{
    nap(30);
    kill(getpid(), SIGSTOP);
    return a;
}
static void start(void *(*f)(void *))
{
    pthread_t t;
    pthread_create(&t, NULL, f, NULL);
}
static void thread_exits(call c)
{
    (void)c;
    start(exits);
}
static void thread_terms(call c)
{
    (void)c;
    start(signals_term);
}
static void thread_stops(call c)
{
    (void)c;
    start(stops);
}
static void pool_exit(void *a, size_t i)
{
    (void)a;
    if (i == 7) pthread_exit(NULL);
    nap(1);
}
static void pool_pthread_exit(call c) { c->host->parallel_for(c->ctx, 64, pool_exit, NULL); }
static jmp_buf back;
static pthread_t main_thread;
static void jumps(void *a, size_t i)
{
    (void)a, (void)i;
    if (pthread_equal(pthread_self(), main_thread)) longjmp(back, 1);
    nap(1);
}
static void jump_out(call c)
{
    main_thread = pthread_self();
    if (!setjmp(back)) c->host->parallel_for(c->ctx, 64, jumps, NULL);
}
static void pool_ftz(void *a, size_t i)
{
    (void)a, (void)i;
    _mm_setcsr(_mm_getcsr() | 0x8040 | 0x6000);
    nap(2);
}
static void pool_floats(call c) { c->host->parallel_for(c->ctx, 64, pool_ftz, NULL); }
static void fall(volatile int n)
{
    volatile char b[4096];
    b[0] = (char)n;
    fall(n + 1);
    (void)b[0];
}
static void pool_fall(void *a, size_t i)
{
    (void)a;
    if (i == 40) fall(0);
    nap(1);
}
static void pool_stack(call c) { c->host->parallel_for(c->ctx, 64, pool_fall, NULL); }
static void end_hangs(void *a)
{
    (void)a;
    for (;;) sleep(1000);
}
static pthread_key_t key;
static void pool_set(void *a, size_t i)
{
    (void)a, (void)i;
    pthread_setspecific(key, &key);
    nap(2);
}
static void tls_hang(call c)
{
    pthread_key_create(&key, end_hangs);
    c->host->parallel_for(c->ctx, 64, pool_set, NULL);
}
static void at_end_hangs(call c) { c->host->at_end(c->ctx, end_hangs, NULL); }
static void strike(void *a)
{
    (void)a;
    *nowhere = 1;
}
static void at_end_crashes(call c) { c->host->at_end(c->ctx, strike, NULL); }
static void nice_19(call c)
{
    (void)c;
    nice(19);
}
/* ---- what the process has ---- */
static void all_descriptors(call c)
{
    (void)c;
    while (open("/dev/null", O_RDONLY) >= 0) continue;
}
static void lower(int limit, rlim_t to)
{
    struct rlimit l;
    getrlimit(limit, &l);
    l.rlim_cur = to;
    setrlimit(limit, &l);
}
static void limit_threads(call c)
{
    (void)c;
    lower(RLIMIT_NPROC, 1);
}
static void limit_stack(call c)
{
    (void)c;
    lower(RLIMIT_STACK, 16384);
}
static void other_user(call c)
{
    (void)c;
    setresuid(65534, 65534, 65534);
}
static void other_root(call c)
{
    (void)c;
    chroot("/usr");
}
static void seccomp_open(call c)
{
    (void)c;
    struct sock_filter f[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 13), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog p = {4, f};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    syscall(SYS_seccomp, 1, 1 /* TSYNC */, &p);
}
static void comma_thread(call c)
{
    (void)c;
    locale_t l = newlocale(LC_ALL_MASK, "C.UTF-8", 0);
    if (l) uselocale(l);
}
static void nonblock(call c)
{
    (void)c;
    for (int i = 0; i < 3; i++) fcntl(i, F_SETFL, fcntl(i, F_GETFL) | O_NONBLOCK);
}
static void unmap_others(call c)
{
    (void)c;
    void *so = dlopen("libm.so.6", RTLD_NOW | RTLD_NOLOAD);
    void *f = so ? dlsym(so, "pow") : NULL;
    if (f) munmap((void *)((uintptr_t)f & ~4095ul), 1 << 16);
}
static void watcher_memory(call c)
{
    char line[512];
    FILE *f = fopen("/proc/self/maps", "r");
    (void)c;
    while (f && fgets(line, sizeof line, f)) {
        unsigned long a, b;
        char m[8];
        if (sscanf(line, "%lx-%lx %7s", &a, &b, m) == 3 && m[3] == 's' && m[1] == 'w' && strstr(line, "/dev/zero"))
            memset((void *)a, getenv("KILN_ATTACK_BYTE") ? atoi(getenv("KILN_ATTACK_BYTE")) : 1, b - a);
    }
    _exit(0);
}
/* ---- files ---- */
static void in_folder(const char *folder, void (*f)(const char *))
{
    DIR *d = folder ? opendir(folder) : NULL;
    char path[4096];
    for (struct dirent *x; d && (x = readdir(d));) {
        if (x->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, x->d_name);
        if (x->d_type == DT_DIR)
            in_folder(path, f);
        else
            f(path);
    }
    if (d) closedir(d);
}
static void empty(const char *path) { truncate(path, 0); }
static void remove_it(const char *path) { unlink(path); }
static void truncate_store(call c)
{
    (void)c;
    nap(300);
    in_folder(getenv("KILN_ATTACK_CACHE"), empty);
}
static void empty_pictures(void) { in_folder(getenv("KILN_ATTACK_OUT"), empty); }
static void remove_pictures(void) { in_folder(getenv("KILN_ATTACK_OUT"), remove_it); }
static void exit_empties(call c)
{
    (void)c;
    atexit(empty_pictures);
}
static void exit_removes(call c)
{
    (void)c;
    atexit(remove_pictures);
}
static void rename_out(call c)
{
    (void)c;
    nap(100);
    rename(getenv("KILN_ATTACK_OUT"), "moved-away");
}
/* ---- words ---- */
static void progress_flood(call c)
{
    for (uint64_t i = 0; i < 3000000; i++) c->host->progress(c->ctx, i, 3000000, "x");
}
static void progress_escape(call c)
{
    c->host->progress(c->ctx, 1, 2, "\033[2J\033]0;owned\007\xff\xfe\n\"\\ \xc3");
    c->host->progress(c->ctx, 9, 2, NULL);
    c->host->progress(c->ctx, ~0ull, 0, "");
}
static void log_escape(call c)
{
    c->host->log(KILN_LOG_WARN, "a\033[2J\033]0;owned\007\xff\nkiln: error: forged");
    c->host->log(99, "level");
    c->host->log(-5, NULL);
}
static void draft_escape(call c) { c->host->draft(c->ctx, "\033[2J\xff\n\r\r"); }
static void nothing(call c) { (void)c; }

/* clang-format off */
#define WAYS(X) \
    X(nothing) X(helper_stays) X(daemon_stays) X(many_helpers) X(stop_self) X(stop_process) \
    X(stop_parent) X(kill_parent) X(term_parent) X(int_self) X(term_self) X(int_group) \
    X(kill_group) X(stop_group) X(trace_parent) X(alarm_later) X(itimer) X(posix_timer) \
    X(thread_exits) X(thread_terms) X(thread_stops) X(pool_pthread_exit) X(jump_out) X(pool_floats) \
    X(pool_stack) X(tls_hang) X(at_end_hangs) X(at_end_crashes) X(nice_19) X(all_descriptors) \
    X(limit_threads) X(limit_stack) X(other_user) X(other_root) X(seccomp_open) X(comma_thread) \
    X(nonblock) X(unmap_others) X(watcher_memory) X(truncate_store) X(exit_empties) X(exit_removes) \
    X(rename_out) X(progress_flood) X(progress_escape) X(log_escape) X(draft_escape)
/* clang-format on */
#define FUNCTION(W) W,
static void (*const ways[])(call) = {WAYS(FUNCTION)};
#define CHOICE(W) {#W, "What it is called.", WAY_##W},
#define NUMBER(W) WAY_##W,
enum { WAYS(NUMBER) };
static const kiln_choice choices[] = {WAYS(CHOICE){NULL, NULL, 0}};
typedef struct {
    int32_t way;
} values;
static const kiln_port out[] = {{.name = "INT", .type = "INT", .doc = "A number."}};
static kiln_status run(call c)
{
    const kiln_value_api *api = c->host->ability(KILN_VALUE_ABILITY);
    ways[((const values *)c->params)->way](c);
    return (c->out[0] = api->new_int(c->ctx, 1)) ? KILN_OK : KILN_ERR_NOMEM;
}
static const kiln_param param[] = {
    {.name = "way", .type = KILN_P_ENUM, .offset = 0, KILN_CHOICES(choices), .doc = "What it does."}};
static const kiln_node attack = {.size = sizeof attack,
                                 .flags = KILN_NODE_OUTPUT,
                                 .devices = KILN_CPU,
                                 .revision = 1,
                                 .type = "Attack",
                                 .doc = "Attacks.",
                                 KILN_ARRAY(out, out),
                                 KILN_ARRAY(param, param),
                                 .params_size = sizeof(values),
                                 .run = run};
static kiln_status null_out(call c)
{
    (void)c;
    return KILN_OK;
}
static kiln_status null_message(call c)
{
    (void)c;
    return KILN_ERR_IO;
}
static kiln_status says_escape(call c)
{
    return c->host->fail(c->ctx, KILN_ERR_IO, "a\033[2J\033]0;owned\007\xff\xfe\nkiln: error: forged \"quote");
}
static kiln_status says_much(call c)
{
    static char b[1 << 20];
    memset(b, 'x', sizeof b - 1);
    return c->host->fail(c->ctx, KILN_ERR_IO, "%s", b);
}
static kiln_status odd_status(call c)
{
    (void)c;
    return 12345;
}
static kiln_status cancels(call c)
{
    (void)c;
    return KILN_CANCELLED;
}
static kiln_status changes_table(call c)
{
    kiln_node *n = (kiln_node *)&attack;
    (void)c;
    mprotect((void *)((uintptr_t)n & ~4095ul), 8192, PROT_READ | PROT_WRITE);
    n->n_out = 1000;
    n->out = NULL;
    n->type = (const char *)8;
    n->run = NULL;
    n->n_param = 99;
    n->param = NULL;
    return KILN_ERR_IO;
}
#define SIMPLE(NAME, FN)                                                                                               \
    {                                                                                                                  \
        .size = sizeof(kiln_node), .flags = KILN_NODE_OUTPUT, .devices = KILN_CPU, .revision = 1, .type = NAME,        \
        .doc = "Attacks.", KILN_ARRAY(out, out), .run = FN                                                             \
    }
static const kiln_node n1 = SIMPLE("AttackNull", null_out), n2 = SIMPLE("AttackMute", null_message),
                       n3 = SIMPLE("AttackEscape", says_escape), n4 = SIMPLE("AttackMuch", says_much),
                       n5 = SIMPLE("AttackOdd", odd_status), n6 = SIMPLE("AttackCancels", cancels),
                       n7 = SIMPLE("AttackTable", changes_table);
KILN_PLUGIN("org.example.attack", "1.0.0", "MIT", &attack, &n1, &n2, &n3, &n4, &n5, &n6, &n7);
