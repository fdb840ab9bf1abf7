/* try_cuda.c - a program for tests: an op's cuda() against its reference, over all examples, where its kernel was built
 * for the host by tests/cuda_emu.
 */
#include "kiln/ops.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const kiln_op_kind ssd_scan;

enum { ROOM = 1 << 16 };
static float numbers[KILN_OP_OPERANDS][ROOM], by_reference[KILN_OP_RESULTS][ROOM], by_cuda[KILN_OP_RESULTS][ROOM];

static size_t count(const kiln_tensor *t)
{
    size_t n = 1;
    for (uint32_t i = 0; i < t->rank; i++) n *= (size_t)t->dim[i];
    return n;
}

__attribute__((format(printf, 2, 3))) static kiln_status fail(void *engine, const char *format, ...)
{
    va_list args;
    (void)engine;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    return KILN_ERR_INVALID;
}

/* The largest difference, by what the op allows. */
static double difference(const float *got, const float *want, size_t n)
{
    double squares = 0, most = 0;
    for (size_t i = 0; i < n; i++) squares += (double)want[i] * (double)want[i];
    for (size_t i = 0; i < n; i++) {
        double allowed = ssd_scan.absolute + ssd_scan.relative * fmax(fabs((double)want[i]), sqrt(squares / (double)n));
        double d = fabs((double)got[i] - (double)want[i]) / allowed;
        most = d > most || isnan(d) ? d : most;
    }
    return most;
}

static int try_example(const kiln_op_example *e, int with_last)
{
    kiln_tensor in[KILN_OP_OPERANDS] = {{0}}, out[KILN_OP_RESULTS] = {{0}};
    int64_t dim[KILN_OP_RESULTS][KILN_MAX_RANK];
    kiln_op_result result[KILN_OP_RESULTS] = {{0}};
    kiln_op_call c = {
        .size = sizeof c, .n_in = e->n_in, .n_out = ssd_scan.n_out, .device = KILN_CPU, .in = in, .fail = fail};
    double most = 0;
    for (uint32_t i = 0; i < e->n_in; i++) {
        in[i] = (kiln_tensor){sizeof *in, KILN_F32, KILN_CPU, e->in[i].rank, e->in[i].dim, NULL, numbers[i]};
        for (size_t k = 0; k < count(&in[i]); k++)
            numbers[i][k] = (float)(e->in[i].low + (e->in[i].high - e->in[i].low) * rand() / RAND_MAX);
    }
    for (uint32_t i = 0; i < c.n_out; i++) result[i].dim = dim[i];
    if (ssd_scan.shape(&c, result) != KILN_OK) return 0;
    c.out = out;
    for (uint32_t i = 0; i < c.n_out; i++)
        out[i] = (kiln_tensor){sizeof *out, KILN_F32, KILN_CPU, result[i].rank, dim[i], NULL, by_reference[i]};
    if (ssd_scan.reference(&c) != KILN_OK) return 0;
    for (uint32_t i = 0; i < c.n_out; i++) {
        for (size_t k = 0; k < count(&out[i]); k++) by_cuda[i][k] = NAN;
        out[i].data = i && !with_last ? NULL : by_cuda[i];
    }
    if (ssd_scan.cuda(&c, NULL, NULL) != KILN_OK) return 0;
    for (uint32_t i = 0; i < (with_last ? c.n_out : 1); i++)
        most = fmax(most, difference(by_cuda[i], by_reference[i], count(&out[i])));
    printf("# %s: %.2f of what is allowed\n", e->name, most);
    return most <= 1;
}

int main(void)
{
    int fine = ssd_scan.n_example > 0;
    for (uint32_t i = 0; i < ssd_scan.n_example; i++)
        for (int with_last = 0; with_last < 2; with_last++) fine &= try_example(&ssd_scan.example[i], with_last);
    return !fine;
}
