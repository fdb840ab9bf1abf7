/* test_cuda_faults.c - ops of the CUDA backend, over the emulation, with the k-th call of the device failing, once or
 * for good, and with the k-th allocation of the host failing: an error with a sentence or the bytes that it gives
 * otherwise, and nothing is left behind. Rows of test_ops_table.h with few numbers, each kind of op at least once.
 */
#include "emu_offload.h"

#include "../backend/ops_run.h"
#include "../backend/test_ops_table.h"
#include "base/memory_alloc.h"
#include "harness.h"
#include "tensor/dtype.h"

#include <stdio.h>
#include <string.h>

enum { N_CASES = sizeof cases / sizeof cases[0], FEW = 2500, EACH = 2 };

static int numbers_of(const op_case *c)
{
    int64_t n = shape_count(&c->op.out.shape);
    for (uint32_t i = 0; i < c->op.n_in; i++)
        if (c->op.in[i].dtype) n += shape_count(&c->op.in[i].shape);
    return n > FEW ? FEW + 1 : (int)n;
}

/* Bytes with the k-th call failing; NULL: it failed. `calls`: how many were made. */
static void *fails_at(const op_setup *s, int64_t k, int for_good, uint64_t *calls, kiln_status *status)
{
    fake_device_open(&(fake_setting){.bytes = 1 << 24, .seed = 1, .fail_at = k, .fail_for_good = for_good});
    void *got = setup_run(s, &DEVICE, NULL, 1, NULL, NULL, status);
    *calls = fake_device_look().calls;
    return got;
}

static int closed_well(const char *name, int64_t k)
{
    fake_report r = fake_device_close();
    return CHECK_MSG(r.faults == 0, "%s: call %d fails: %u faults", name, (int)k, r.faults);
}

static int row_survives(const op_case *c, uint32_t type, unsigned *refused)
{
    op_setup s;
    uint64_t calls = 0, made = 0;
    kiln_status status = KILN_OK;
    char name[160];
    snprintf(name, sizeof name, "%s in %s", c->name, dtype_name(type));
    if (!setup_make(&s, c, type, 0)) return 0;
    void *sound = fails_at(&s, -1, 0, &calls, &status);
    if (status == KILN_ERR_UNSUPPORTED) return closed_well(name, -1), setup_free(&s), 1; /* the CPU's */
    int ok = closed_well(name, -1) & CHECK_MSG(sound != NULL, "%s does not work at all", name);
    for (int for_good = 0; for_good < 2; for_good++)
        for (int64_t k = 0; k < (int64_t)calls && ok; k++) {
            status = KILN_OK;
            void *got = fails_at(&s, k, for_good, &made, &status);
            if (status == KILN_OK)
                ok = CHECK_MSG(got && memcmp(got, sound, setup_bytes(&s)) == 0, "%s: call %d fails: other bytes", name,
                               (int)k);
            else
                ok = CHECK_MSG(!got, "%s: call %d fails: a result and an error", name, (int)k), ++*refused;
            mem_free(got);
            ok &= closed_well(name, k);
        }
    mem_free(sound);
    setup_free(&s);
    return ok;
}

static void in_type(uint32_t type)
{
    unsigned seen[OP_KIND_COUNT] = {0}, refused = 0, rows = 0;
    for (size_t i = 0; i < N_CASES; i++) {
        if (is_of_taken_rows(&cases[i]) || numbers_of(&cases[i]) > FEW || seen[cases[i].op.kind]++ >= EACH) continue;
        REQUIRE(row_survives(&cases[i], type, &refused));
        rows++;
    }
    printf("  %u rows, refused %u times\n", rows, refused);
    CHECK(rows > 30 && refused > 500);
}

static void test_f32(void) { in_type(KILN_F32); }
static void test_bf16(void) { in_type(KILN_BF16); }

int main(int argc, char **argv)
{
    static const test_case tests[] = {CASE(test_f32), CASE(test_bf16)};
    return test_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
