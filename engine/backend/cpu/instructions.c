/* instructions.c - see instructions.h. For AMX the processor has tiles, the system keeps them across threads, and Linux
 * wants to be asked, since each thread that uses them costs it 8 KiB (Documentation/arch/x86/xstate.rst). Where it
 * refuses there is no AMX.
 */
#include "backend/cpu/instructions.h"

#if defined __x86_64__ && defined __linux__
#include <cpuid.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ARCH_REQ_XCOMP_PERM = 0x1023, XTILE_CONFIG = 17, XTILE_DATA = 18 };

static uint64_t kept_states(void)
{
    uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static int system_keeps_tiles(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return 0;
    return (kept_states() >> XTILE_CONFIG & 3) == 3;
}

unsigned amx_found(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d >> 24 & 1) || !system_keeps_tiles()) return 0;
    if (syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XTILE_DATA) != 0) return 0;
    return (d >> 22 & 1 ? AMX_BF16 : 0) | (d >> 25 & 1 ? AMX_INT8 : 0);
}

int avx_vnni_found(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
}
#else
unsigned amx_found(void) { return 0; }
int avx_vnni_found(void) { return 0; }
#endif
