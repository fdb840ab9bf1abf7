/* supervisor_reach.c - see supervisor_reach.h. */
#include "run/supervisor_reach.h"

#include "base/print.h"
#include "plugin/supervised.h"

#include <dirent.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

/* ---- the watching process ---- */

#if defined __x86_64__
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

#ifdef ARCHITECTURE
#define LOAD(FIELD) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, FIELD))
#define RETURN(WHAT) BPF_STMT(BPF_RET | BPF_K, WHAT)
#define EQUAL(K, THEN, ELSE) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)(K), THEN, ELSE)

/* Numbers of processes are the low halves of arguments, on machines whose low half comes first. */
void supervisor_hide(pid_t watcher)
{
    const pid_t group = getpgrp();
    struct sock_filter f[] = {
        LOAD(arch),
        EQUAL(ARCHITECTURE, 0, 19),
        LOAD(nr),
        EQUAL(SYS_kill, 9, 0),
        EQUAL(SYS_tgkill, 12, 0),
        EQUAL(SYS_tkill, 11, 0),
        EQUAL(SYS_rt_sigqueueinfo, 10, 0),
        EQUAL(SYS_rt_tgsigqueueinfo, 9, 0),
        EQUAL(SYS_pidfd_open, 8, 0),
        EQUAL(SYS_prlimit64, 7, 0),
        EQUAL(SYS_process_vm_writev, 6, 0),
        EQUAL(SYS_ptrace, 7, 0),
        RETURN(SECCOMP_RET_ALLOW),
        LOAD(args[0]), /* kill(): also of everybody, and of the group that both are in */
        EQUAL(0, 7, 0),
        EQUAL(-1, 6, 0),
        EQUAL(-group, 5, 0),
        LOAD(args[0]),
        EQUAL(watcher, 3, 2),
        LOAD(args[1]),
        EQUAL(watcher, 1, 0),
        RETURN(SECCOMP_RET_ALLOW),
        RETURN(SECCOMP_RET_ERRNO | EPERM),
    };
    struct sock_fprog program = {.len = sizeof f / sizeof *f, .filter = f};
    enum { SPEC_ALLOW = 1 << 2 }; /* or older kernels would make the process slower */
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SPEC_ALLOW, &program) == 0 || errno != EACCES) return;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SPEC_ALLOW, &program);
}
#else
void supervisor_hide(pid_t watcher) { (void)watcher; }
#endif

/* ---- the terminal ---- */

static struct termios terminal;
static int has_terminal;

void supervisor_terminal_keep(void) { has_terminal = tcgetattr(STDERR_FILENO, &terminal) == 0; }

void supervisor_terminal_put_back(void)
{
    struct termios now;
    sigset_t writing, before;
    if (!has_terminal || tcgetattr(STDERR_FILENO, &now) != 0) return;
    if (now.c_iflag == terminal.c_iflag && now.c_oflag == terminal.c_oflag && now.c_lflag == terminal.c_lflag &&
        now.c_cflag == terminal.c_cflag)
        return;
    sigemptyset(&writing), sigaddset(&writing, SIGTTOU); /* this process may be in the background */
    sigprocmask(SIG_BLOCK, &writing, &before);
    if (tcsetattr(STDERR_FILENO, TCSANOW, &terminal) == 0)
        print_text(stderr, "kiln: warning: a plugin changed the modes of the terminal; they were put back\n");
    sigprocmask(SIG_SETMASK, &before, NULL);
}

/* ---- processes that are left ---- */

enum { GRACE_MS = 200, END_MS = 2000 };

int supervisor_adopt(void)
{
    siginfo_t info;
    if (waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD) return 0;
    return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0;
}

static pid_t parent_of(const char *pid)
{
    char path[64], text[1024];
    long parent = 0;
    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    FILE *f = fopen(path, "re");
    if (!f) return 0;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    const char *end = strrchr(text, ')'); /* the name before it may have anything in it */
    return end && sscanf(end + 1, " %*c %ld", &parent) == 1 ? (pid_t)parent : 0;
}

static void end_children(void)
{
    const pid_t own = getpid();
    DIR *d = opendir("/proc");
    for (struct dirent *x; d && (x = readdir(d));)
        if (x->d_name[0] >= '1' && x->d_name[0] <= '9' && parent_of(x->d_name) == own)
            kill((pid_t)atol(x->d_name), SIGKILL);
    if (d) closedir(d);
}

void supervisor_end_helpers(void)
{
    int ended = 0, status;
    for (int ms = 0; ms < END_MS; ms++) {
        pid_t gone;
        while ((gone = waitpid(-1, &status, WNOHANG)) > 0)
            ended += ms >= GRACE_MS && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        if (gone < 0 && errno == ECHILD) break;
        if (ms >= GRACE_MS) end_children();
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    if (ended)
        print_text(stderr, "kiln: warning: a plugin left %d process%s running when the run ended; %s ended\n", ended,
                   ended == 1 ? "" : "es", ended == 1 ? "it was" : "they were");
}

/* ---- files, and signs of life ---- */

digest supervisor_files(void)
{
    digest all = {0};
    for (const supervised_note *n = supervised_next(NULL); n; n = supervised_next(n)) {
        struct stat s;
        if (n->kind != NOTE_FILE) continue;
        int there = stat(n->text, &s) == 0;
        uint64_t what[] = {(uint64_t)there, there ? (uint64_t)s.st_ino : 0, there ? (uint64_t)s.st_size : 0,
                           there ? (uint64_t)s.st_mtim.tv_sec : 0, there ? (uint64_t)s.st_mtim.tv_nsec : 0};
        digest one = digest_of(what, sizeof what);
        all.lo = all.lo * 31 + one.lo, all.hi = all.hi * 31 + one.hi;
    }
    return all;
}

static int is_noted_again(const supervised_note *n)
{
    for (const supervised_note *k = supervised_next(n); k; k = supervised_next(k))
        if (k->kind == NOTE_FILE && strcmp(k->text, n->text) == 0) return 1;
    return 0;
}

const char *supervisor_lost_file(void)
{
    for (const supervised_note *n = supervised_next(NULL); n; n = supervised_next(n)) {
        if (n->kind != NOTE_FILE) continue;
        uint64_t now = supervised_file_now(n->text);
        int is_lost = !now || (n->detail && now != n->detail && now >> 32 == n->detail >> 32);
        if (is_lost && !is_noted_again(n)) return n->text;
    }
    return NULL;
}

/* Two looks at the same text give the same number. */
static uint64_t look_at(pid_t child, const char *file)
{
    char path[64], text[2048];
    snprintf(path, sizeof path, "/proc/%ld/%s", (long)child, file);
    FILE *f = fopen(path, "re");
    if (!f) return 0;
    size_t n = fread(text, 1, sizeof text, f);
    fclose(f);
    return digest_of(text, n).lo;
}

used_so_far supervisor_used(pid_t child)
{
    return (used_so_far){.processor = look_at(child, "stat"), .files = look_at(child, "io")};
}
