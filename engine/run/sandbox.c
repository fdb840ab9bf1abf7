/* sandbox.c - see sandbox.h. Landlock and seccomp are asked for by their system calls and numbers of the kernel's own
 * documentation (Documentation/userspace-api/landlock.rst, seccomp_filter.rst), since headers lag behind kernels. */
#include "run/sandbox.h"

#include "base/array.h"
#include "base/memory_alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- Landlock ---- */

enum { CREATE_RULESET = 444, ADD_RULE = 445, RESTRICT_SELF = 446, RULE_PATH_BENEATH = 1, VERSION = 1 };

/* Rights, by the version that brought them: 13 in 1 (Linux 5.13), REFER in 2, TRUNCATE in 3. */
#define FS_EXECUTE (UINT64_C(1) << 0)
#define FS_WRITE_FILE (UINT64_C(1) << 1)
#define FS_READ_FILE (UINT64_C(1) << 2)
#define FS_READ_DIR (UINT64_C(1) << 3)
#define FS_ALL_1 ((UINT64_C(1) << 13) - 1)
#define FS_REFER (UINT64_C(1) << 13)
#define FS_TRUNCATE (UINT64_C(1) << 14)
#define FS_OF_FILES (FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE)
#define SCOPE_SOCKETS_AND_SIGNALS UINT64_C(3) /* version 6 */

typedef struct {
    uint64_t fs, net, scoped;
} ruleset_rights;

typedef struct {
    uint64_t allowed;
    int32_t parent;
} __attribute__((packed)) path_rule;

static long landlock_version(void) { return syscall(CREATE_RULESET, NULL, 0, VERSION); }

static ruleset_rights rights_of(long version)
{
    ruleset_rights r = {.fs = FS_ALL_1};
    if (version >= 2) r.fs |= FS_REFER;
    if (version >= 3) r.fs |= FS_TRUNCATE;
    if (version >= 4) r.net = 3; /* bind and connect of TCP */
    if (version >= 6) r.scoped = SCOPE_SOCKETS_AND_SIGNALS;
    return r;
}

static size_t rights_size(long version)
{
    return version >= 6 ? sizeof(ruleset_rights) : version >= 4 ? offsetof(ruleset_rights, scoped) : sizeof(uint64_t);
}

/* What cannot be opened is not allowed either. */
static kiln_status allow(int ruleset, const sandbox_path *p, uint64_t rights, error *e)
{
    struct stat s;
    path_rule rule = {.parent = open(p->path, O_PATH | O_CLOEXEC)};
    if (rule.parent < 0) return KILN_OK;
    rule.allowed = p->writable ? rights : rights & (FS_EXECUTE | FS_READ_FILE | FS_READ_DIR);
    if (fstat(rule.parent, &s) == 0 && !S_ISDIR(s.st_mode)) rule.allowed &= FS_OF_FILES;
    long failed = syscall(ADD_RULE, ruleset, RULE_PATH_BENEATH, &rule, 0);
    int why = errno;
    close(rule.parent);
    return failed ? error_set(e, KILN_ERR_IO, "--sandbox: %s: %s", p->path, strerror(why)) : KILN_OK;
}

static kiln_status restrict_files(const sandbox_list *l, error *e)
{
    long version = landlock_version();
    ruleset_rights rights = rights_of(version);
    int ruleset = (int)syscall(CREATE_RULESET, &rights, rights_size(version), 0);
    if (ruleset < 0) return error_set(e, KILN_ERR_UNSUPPORTED, "--sandbox: no Landlock: %s", strerror(errno));
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < l->n && status == KILN_OK; i++) status = allow(ruleset, &l->item[i], rights.fs, e);
    if (status == KILN_OK && syscall(RESTRICT_SELF, ruleset, 0) != 0)
        status = error_set(e, KILN_ERR_IO, "--sandbox: %s", strerror(errno));
    close(ruleset);
    return status;
}

/* ---- seccomp ---- */

#if defined __x86_64__
enum { ARCHITECTURE = (int)AUDIT_ARCH_X86_64 };
#define FOREIGN_CALLS 0x40000000u /* those of x32 */
#elif defined __aarch64__
enum { ARCHITECTURE = (int)AUDIT_ARCH_AARCH64 };
#define FOREIGN_CALLS 0xffffffffu
#else
#define NO_SECCOMP
#endif

#ifndef NO_SECCOMP
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define LOW_HALF(offset) (offset)
#else
#define LOW_HALF(offset) ((offset) + 4)
#endif

/* The network; other processes; what Landlock does not look at: owners, permissions, times and attributes of any file
 * by its path, and its length before version 3; what goes round the filter or changes the system. They fail with EPERM.
 */
static const unsigned denied[] = {
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__ /* which look for leaks by it */
    SYS_ptrace,
#endif
    SYS_socket,
    SYS_socketpair,
    SYS_connect,
    SYS_bind,
    SYS_listen,
    SYS_accept,
    SYS_accept4,
#ifdef SYS_chmod /* not on newer architectures, which have those with "at" alone */
    SYS_chmod,
    SYS_chown,
    SYS_lchown,
    SYS_utime,
    SYS_utimes,
    SYS_futimesat,
#endif
    SYS_truncate,
    SYS_fchmodat,
    SYS_fchownat,
    SYS_utimensat,
    SYS_setxattr,
    SYS_lsetxattr,
    SYS_removexattr,
    SYS_lremovexattr,
    452, /* fchmodat2 */
    463, /* setxattrat */
    466, /* removexattrat */
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_pidfd_open,
    SYS_pidfd_getfd,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_io_uring_setup,
    SYS_add_key,
    SYS_keyctl,
    SYS_request_key,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_setns,
    SYS_unshare,
    SYS_kexec_load,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_reboot,
    SYS_open_by_handle_at,
    SYS_kcmp,
    SYS_quotactl,
    SYS_swapon,
    SYS_swapoff,
};
enum { N_DENIED = sizeof denied / sizeof denied[0] };

/* ioctl() that types into the terminal, as if the user did. */
static const unsigned typing[] = {TIOCSTI, TIOCLINUX};
enum { N_TYPING = sizeof typing / sizeof typing[0] };

static kiln_status restrict_calls(error *e)
{
    struct sock_filter f[N_DENIED + N_TYPING + 10];
    unsigned short n = 0;
    f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
    f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)ARCHITECTURE, 1, 0);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    const unsigned char last = N_DENIED + N_TYPING + 3; /* jumps are counted from what follows; the last one refuses */
    f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, FOREIGN_CALLS, last, 0);
    for (unsigned i = 0; i < N_DENIED; i++)
        f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, denied[i], (unsigned char)(last - 1 - i), 0);
    f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, N_TYPING + 1);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, LOW_HALF(offsetof(struct seccomp_data, args[1])));
    for (unsigned i = 0; i < N_TYPING; i++)
        f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, typing[i], (unsigned char)(N_TYPING - i), 0);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    struct sock_fprog program = {.len = n, .filter = f};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0) return KILN_OK;
    return error_set(e, KILN_ERR_UNSUPPORTED, "--sandbox: this kernel takes no seccomp filter: %s", strerror(errno));
}
#endif

/* ---- capabilities, where root runs it ---- */

/* Those that lead round Landlock: other processes' memory, devices, the kernel. What is needed for files stays. */
static void drop_capabilities(void)
{
    static const unsigned dropped[] = {CAP_NET_ADMIN,  CAP_NET_RAW,   CAP_SYS_MODULE, CAP_SYS_RAWIO, CAP_SYS_CHROOT,
                                       CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_SYS_BOOT,   CAP_PERFMON,   CAP_BPF};
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};
    if (syscall(SYS_capget, &head, data) != 0) return;
    for (size_t i = 0; i < sizeof dropped / sizeof dropped[0]; i++) {
        unsigned bit = ~(1u << dropped[i] % 32);
        struct __user_cap_data_struct *d = &data[dropped[i] / 32];
        d->effective &= bit, d->permitted &= bit, d->inheritable &= bit;
    }
    syscall(SYS_capset, &head, data);
}

/* ---- the whole ---- */

int sandbox_possible(const char **why)
{
    *why = NULL;
#ifdef NO_SECCOMP
    *why = "there is no seccomp filter for this processor";
#else
    if (landlock_version() < 1)
        *why = "this kernel has no Landlock (Linux 5.13 or later, with landlock among its `lsm=`)";
    else if (prctl(PR_GET_SECCOMP) < 0)
        *why = "this kernel has no seccomp";
#endif
    return *why == NULL;
}

void sandbox_add(sandbox_list *l, const char *path, int writable)
{
    if (!path || !*path) return;
    char *kept = arena_strdup(&l->memory, path);
    if (!kept || !array_reserve(&l->item, &l->capacity, l->n + 1, sizeof *l->item)) {
        l->failed = 1;
        return;
    }
    l->item[l->n++] = (sandbox_path){.path = kept, .writable = writable};
}

void sandbox_list_free(sandbox_list *l)
{
    arena_free(&l->memory);
    mem_free(l->item);
    *l = (sandbox_list){0};
}

kiln_status sandbox_enter(const sandbox_list *l, error *e)
{
    const char *why;
    if (!sandbox_possible(&why)) return error_set(e, KILN_ERR_UNSUPPORTED, "--sandbox: %s; nothing was run", why);
    if (l->failed) return error_set(e, KILN_ERR_NOMEM, "out of memory");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return error_set(e, KILN_ERR_IO, "--sandbox: %s", strerror(errno));
    TRY(restrict_files(l, e));
    drop_capabilities();
#ifndef NO_SECCOMP
    TRY(restrict_calls(e));
#endif
    return KILN_OK;
}
