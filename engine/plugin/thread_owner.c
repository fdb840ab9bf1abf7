/* thread_owner.c - see thread_owner.h.
 *
 * The kernel knows each thread's list of robust mutexes, whose head lies in the C library's struct of the thread
 * (get_robust_list(2)); where the thread begins, and with which argument, stands behind it in the same struct. A C++
 * library begins threads in code of its own: then the argument is an object whose first word is a table in the
 * plugin's file. (OpenMP's is a struct that begins with code; its threads stay for the next call, as they may.) What is
 * read may go away meanwhile, so it is read through a pipe, which fails instead of crashing.
 */
#include "plugin/thread_owner.h"

#include "plugin/supervised.h"

#include <dirent.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { WORDS = 256, PIECE = 256 }; /* of the struct; bytes that are read at once */

size_t thread_list(pid_t *tid, size_t capacity)
{
    size_t n = 0;
    DIR *d = opendir("/proc/self/task");
    for (struct dirent *x; d && n < capacity && (x = readdir(d));)
        if (x->d_name[0] != '.') tid[n++] = (pid_t)atoi(x->d_name);
    if (d) closedir(d);
    return n;
}

/* Bytes that could be read from there on. write(2) is called by its number: an address sanitizer looks at what the C
 * library's function is given, and reports what is mapped and nobody's. */
static size_t read_safely(const int fd[2], uintptr_t from, void *to, size_t bytes)
{
    size_t n = 0;
    while (n < bytes) {
        size_t piece = bytes - n < PIECE ? bytes - n : PIECE;
        const long put = syscall(SYS_write, fd[1], (const char *)from + n, piece);
        if (put <= 0 || read(fd[0], (char *)to + n, (size_t)put) != (ssize_t)put) break;
        n += (size_t)put;
    }
    return n;
}

static int find_code(struct dl_phdr_info *info, size_t size, void *address)
{
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t begin = info->dlpi_addr + p->p_vaddr, at = *(const uintptr_t *)address;
        if (p->p_type == PT_LOAD && p->p_flags & PF_X && at >= begin && at - begin < p->p_memsz) return 1;
    }
    return 0;
}

static int is_code(uintptr_t at) { return at && dl_iterate_phdr(find_code, &at); }

static int is_plugins(uintptr_t at, char *id, size_t capacity)
{
    char place[PLACE_MAX];
    return supervised_plugin_at((void *const[]){(void *)at}, 1, place, sizeof place, id, capacity);
}

int thread_owner(pid_t tid, char *id, size_t capacity)
{
    uintptr_t word[WORDS + 1] = {0}, table;
    void *head = NULL;
    size_t size;
    int fd[2], found = 0;
    if (syscall(SYS_get_robust_list, tid, &head, &size) != 0) return 0;
    if (!head) return -1; /* which is the first thing that it sets */
    if (pipe2(fd, O_CLOEXEC) != 0) return 0;
    size_t n = read_safely(fd, (uintptr_t)head, word, WORDS * sizeof *word) / sizeof *word;
    for (size_t i = 0; i < n && !found; i++) {
        if (!is_code(word[i])) continue;
        found = is_plugins(word[i], id, capacity) ||
                (word[i + 1] && read_safely(fd, word[i + 1], &table, sizeof table) == sizeof table && !is_code(table) &&
                 is_plugins(table, id, capacity));
    }
    close(fd[0]), close(fd[1]);
    return found;
}
