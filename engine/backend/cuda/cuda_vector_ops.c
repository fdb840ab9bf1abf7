/* cuda_vector_ops.c - backend.h's device_vector_ops: sums, norms and copies of f32 vectors on the device. */
#include "backend/cuda/cuda.h"

_Static_assert((int)CU_TERMS >= (int)KILN_MAX_TERMS, "a sum's terms");

static kiln_status combine(float *out, size_t n, uint32_t terms, const double *c, const float *const *x,
                           device_stream *stream, error *e)
{
    TRY(cuda_here(e));
    cu_combine m = {.n = (int64_t)n, .terms = (int)terms, .out = out};
    for (uint32_t i = 0; i < terms; i++) m.c[i] = c[i], m.x[i] = x[i];
    CUDA_TRY(cu_combine_run(&m, cuda_stream(stream)), "launch");
    return KILN_OK;
}

static kiln_status square_sum(double *out, const float *x, size_t n, device_stream *stream, error *e)
{
    TRY(cuda_here(e));
    CUDA_TRY(cu_square_sum_run(out, x, (int64_t)n, cuda_stream(stream)), "launch");
    return KILN_OK;
}

static kiln_status to_f32(float *out, const void *src, uint32_t dtype, int64_t rows, int64_t columns, int64_t ld,
                          device_stream *stream, error *e)
{
    if (dtype != KILN_F32 && dtype != KILN_BF16 && dtype != KILN_F16)
        return error_set(e, KILN_ERR_UNSUPPORTED, "no f32 can be made of this type on a device");
    TRY(cuda_here(e));
    cu_map m = {.kind = CU_MAP_COPY,
                .x_type = cuda_type(dtype),
                .out_type = CU_F32,
                .rows = rows,
                .columns = columns,
                .x_ld = ld,
                .out_ld = columns,
                .x = src,
                .out = out};
    CUDA_TRY(cu_map_run(&m, cuda_stream(stream)), "launch");
    return KILN_OK;
}

const device_vector_ops cuda_vector_ops = {.combine = combine, .square_sum = square_sum, .to_f32 = to_f32};
