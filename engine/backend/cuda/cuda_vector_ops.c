/* cuda_vector_ops.c - backend.h's device_vector_ops by the kernels of vector_ops.cu. */
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

static kiln_status add_difference(const kiln_difference *d, float *out, device_stream *stream, error *e)
{
    TRY(cuda_here(e));
    cu_difference m = {.n = (int64_t)d->n, .x = d->x, .a = d->a, .b = d->b, .t = d->t, .out = out};
    CUDA_TRY(cu_difference_run(&m, cuda_stream(stream)), "launch");
    return KILN_OK;
}

static kiln_status dot(const kiln_dot *d, double *out, device_stream *stream, error *e)
{
    TRY(cuda_here(e));
    cu_dot m = {.n = (int64_t)d->n, .terms = (int)d->terms, .has_b = d->b != NULL, .shift = d->shift, .out = out};
    for (uint32_t i = 0; i < d->terms; i++) m.a[i] = d->a[i], m.b[i] = d->b ? d->b[i] : 0, m.x[i] = d->x[i];
    CUDA_TRY(cu_dot_run(&m, cuda_stream(stream)), "launch");
    return KILN_OK;
}

static kiln_status blend(const kiln_blend *b, float *out, device_stream *stream, error *e)
{
    TRY(cuda_here(e));
    cu_blend m = {.pictures = (int64_t)b->pictures,
                  .cells = (int64_t)b->cells,
                  .channels = (int64_t)b->channels,
                  .masks = (int64_t)b->masks,
                  .a = b->a,
                  .b = b->b,
                  .mask = b->mask,
                  .out = out};
    CUDA_TRY(cu_blend_run(&m, cuda_stream(stream)), "launch");
    return KILN_OK;
}

static cu_area area_of(const kiln_area *a)
{
    return (cu_area){.pictures = a->pictures,
                     .height = a->height,
                     .width = a->width,
                     .channels = a->channels,
                     .y = a->y,
                     .x = a->x,
                     .h = a->h,
                     .w = a->w};
}

static kiln_status crop(const kiln_area *a, const float *x, float *out, device_stream *stream, error *e)
{
    TRY(cuda_here(e));
    cu_area area = area_of(a);
    CUDA_TRY(cu_crop_run(&area, x, out, cuda_stream(stream)), "launch");
    return KILN_OK;
}

static kiln_status accumulate(const kiln_area *a, const kiln_part *part, float *sum, float *total,
                              device_stream *stream, error *e)
{
    TRY(cuda_here(e));
    cu_accumulate m = {.area = area_of(a),
                       .part = part->data,
                       .weight = part->weight,
                       .weights = part->weights,
                       .sum = sum,
                       .total = total};
    CUDA_TRY(cu_accumulate_run(&m, cuda_stream(stream)), "launch");
    return KILN_OK;
}

static kiln_status divide(float *x, const float *total, size_t cells, size_t channels, device_stream *stream, error *e)
{
    TRY(cuda_here(e));
    CUDA_TRY(cu_divide_run(x, total, (int64_t)cells, (int64_t)channels, cuda_stream(stream)), "launch");
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

const device_vector_ops cuda_vector_ops = {.combine = combine,
                                           .add_difference = add_difference,
                                           .dot = dot,
                                           .blend = blend,
                                           .crop = crop,
                                           .accumulate = accumulate,
                                           .divide = divide,
                                           .to_f32 = to_f32};
