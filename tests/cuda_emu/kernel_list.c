/* kernel_list.c - see kernel_list.h. A kernel's head is on one line, or on two with its name on the second:
 * [template <...>] static __global__ void [__launch_bounds__(...)] NAME(... */
#include "kernel_list.h"

#include <ctype.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>

/* The name in the rest of a line behind "__global__"; 0 when there is none. */
static int name_in(const char *at, char name[64])
{
    static const char bounds[] = "__launch_bounds__(";
    at += strspn(at, " ");
    if (strncmp(at, "void ", 5) != 0) return 0;
    at += 5 + strspn(at + 5, " ");
    if (strncmp(at, bounds, sizeof bounds - 1) == 0) {
        int depth = 1;
        for (at += sizeof bounds - 1; *at && depth; at++) depth += (*at == '(') - (*at == ')');
        at += strspn(at, " ");
    }
    size_t n = 0;
    while (isalnum((unsigned char)at[n]) || at[n] == '_') n++;
    if (!n || n >= 64 || at[n] != '(') return 0;
    memcpy(name, at, n);
    name[n] = '\0';
    return 1;
}

static int read_file(const char *path, listed_kernel *list, size_t *n)
{
    char line[1024];
    FILE *f = fopen(path, "re");
    int ok = f != NULL;
    while (ok && fgets(line, sizeof line, f)) {
        const char *at = strstr(line, "__global__");
        if (!at) continue;
        size_t n_line = strlen(line);
        if (n_line && line[n_line - 1] == '\n' && (n_line < 2 || line[n_line - 2] == ')') &&
            !strchr(line, '{')) /* its name comes */
            line[n_line - 1] = ' ', ok = fgets(line + n_line, (int)(sizeof line - n_line), f) != NULL;
        ok = ok && *n < KERNELS_MAX && name_in(at + strlen("__global__"), list[*n].name);
        if (ok)
            snprintf(list[*n].file, sizeof list[*n].file, "%s", strrchr(path, '/') + 1), ++*n;
        else
            printf("  %s: a kernel's head that is not understood: %s", path, line);
    }
    if (f) fclose(f);
    return ok;
}

size_t kernel_list(const char *folder, listed_kernel list[KERNELS_MAX])
{
    char pattern[4096];
    glob_t found = {0};
    size_t n = 0;
    int ok = snprintf(pattern, sizeof pattern, "%s/*.cu", folder) < (int)sizeof pattern &&
             glob(pattern, 0, NULL, &found) == 0;
    for (size_t i = 0; ok && i < found.gl_pathc; i++) ok = read_file(found.gl_pathv[i], list, &n);
    globfree(&found);
    return ok ? n : 0;
}
