/* bad_process.c - a node that makes other bytes in another process, or leaves the process changed: BAD says how. For
 * test_check_process.sh. */
#include "kiln/kit.h"

#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void *stays(void *arg) { return nanosleep(&(struct timespec){.tv_sec = 1}, NULL), arg; }

/* What of this process goes into the output. */
static double own(void)
{
    static int called;
    double x = 0;
    if (BAD == 1 || BAD == 4) x = (double)getpid();
    if (BAD == 2) x = (double)((uintptr_t)&called >> 12 & 0xffff);
    if (BAD == 3) x = called ? 1 : 0;
    if (BAD == 5 && getenv("BAD_GAIN")) x = atof(getenv("BAD_GAIN"));
    if (BAD == 6) x = (double)strlen(getenv("HOME") ? getenv("HOME") : "");
    if (BAD == 7) x = (double)(access("here.txt", R_OK) == 0);
    if (BAD == 8) x = (double)time(NULL);
    if (BAD == 9) x = (double)localtime(&(time_t){0})->tm_hour;
    if (BAD == 10) umask((mode_t)(x = (double)umask(0)));
    called = 1;
    return x;
}

/* Would have the process that checks take itself for the one that is asked, which finds nothing. */
__attribute__((constructor)) static void pretend(void)
{
    if (BAD == 4) setenv("KILN_CHECK_ELSEWHERE", "1", 1);
}

/* Uses a call's kiln_ctx when that has ended. */
static const kiln_host *used;
static void *is_late(void *ctx)
{
    nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
    used->progress(ctx, 1, 2, "late");
    return ctx;
}

static void habit(const kiln_call *c)
{
    static int left;
    pthread_t thread;
    sigset_t all;
    switch (BAD) {
    case 11: umask(0); break;
    case 12:
        if (chdir("/")) abort();
        break;
    case 13: setenv("BAD_PROCESS", left++ ? "1" : "2", 1); break;
    case 14: printf("{\"event\": \"not a finding\"}\n"); break;
    case 15: pthread_create(&thread, NULL, stays, NULL), pthread_detach(thread); break;
    case 16: signal(SIGTERM, SIG_IGN); break;
    case 17: sigfillset(&all), pthread_sigmask(SIG_BLOCK, &all, NULL); break;
    case 18: close(0); break;
    case 19: setlocale(LC_ALL, "C.UTF-8"); break;
    case 20: setrlimit(RLIMIT_FSIZE, &(struct rlimit){1 << 20, RLIM_INFINITY}); break;
    case 21:
        for (int fd = 3; fd < 100; fd++) close(fd);
        break;
    case 23: used = c->host, pthread_create(&thread, NULL, is_late, c->ctx), pthread_detach(thread); break;
    case 24: nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL); break;
    case 25: sleep(1000); break;
    }
}

static kiln_status run(const kiln_call *c)
{
    kiln_status status = c->host->progress(c->ctx, 0, 1, "it");
    if (status) return status;
    habit(c);
    if (BAD == 22 && access("here.txt", R_OK) != 0) return c->host->fail(c->ctx, KILN_ERR_IO, "here.txt is not there");
    c->out[0] = kit_values(c)->new_float(c->ctx, own());
    return c->out[0] ? KILN_OK : KILN_ERR_NOMEM;
}

static const kiln_port out[] = {{.name = "FLOAT", .doc = "A number.", .type = "FLOAT"}};
static const kiln_node node = {KIT_NODE("BadProcess", "Bad", "tests", "Has a bad habit."), KILN_ARRAY(out, out),
                               .run = run};
KILN_PLUGIN("org.example.bad-process", "1.0.0", "MIT", &node);
