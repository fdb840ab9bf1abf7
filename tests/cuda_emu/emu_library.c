/* emu_library.c - the CUDA backend over the emulation as a library that the command opens (KILN_CUDA_LIBRARY=...): so
 * that whole workflows run through the real host side, offloader and kernels where no GPU is. KILN_EMU_MEMORY: bytes of
 * the device (2 GiB), KILN_EMU_SEED: of the order of things, KILN_EMU_SM: the chip (90), KILN_EMU_REPORT: a file that
 * gets a line when the process ends.
 */
#include "cu_emu.h"
#include "fake_cuda.h"

#include "../memory/fake_device.h"
#include "backend/cuda_load.h"

#include <stdio.h>
#include <stdlib.h>

extern const cuda_library kiln_cuda_library;

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

__attribute__((constructor)) static void begin(void)
{
    fake_device_open(&(fake_setting){.bytes = (size_t)number("KILN_EMU_MEMORY", (uint64_t)2 << 30),
                                     .seed = number("KILN_EMU_SEED", 1),
                                     .graphs = 1,
                                     .fail_at = -1});
    cu_emu_seed(number("KILN_EMU_SEED", 1));
    fake_cuda_chip((int)number("KILN_EMU_SM", 90) / 10, (int)number("KILN_EMU_SM", 90) % 10);
}

__attribute__((destructor)) static void end(void)
{
    const char *path = getenv("KILN_EMU_REPORT");
    FILE *f = path ? fopen(path, "w") : NULL;
    unsigned kernels = cu_emu_faults();
    fake_report r = fake_device_close();
    if (!f) return;
    fake_vendor_report library = {0};
    static const char *const libraries[] = {"KILN_CUBLASLT", "KILN_CUDNN"};
    for (size_t i = 0; i < 2; i++) {
        const fake_vendor *v = fake_cuda_vendor(libraries[i]);
        fake_vendor_report one = v ? v->report() : (fake_vendor_report){0};
        library.faults += one.faults + one.live, library.happened += one.happened;
    }
    fprintf(f,
            "faults %u kernel_faults %u library_faults %u products %llu peak %zu in %llu out %llu kernels %llu "
            "launches %llu mma16_bf16 %llu mma16_f16 %llu mma8_f16 %llu\n",
            r.faults, kernels, library.faults, (unsigned long long)library.happened, r.peak,
            (unsigned long long)r.bytes_in, (unsigned long long)r.bytes_out, (unsigned long long)r.kernels,
            (unsigned long long)r.launches, (unsigned long long)cu_emu_count(CU_EMU_MMA16_BF16),
            (unsigned long long)cu_emu_count(CU_EMU_MMA16_F16), (unsigned long long)cu_emu_count(CU_EMU_MMA8_F16));
    fclose(f);
}
