/* noise_source.c - see noise_source.h. */
#include "noise_source.h"

void stream_seed(noise_stream *s, int cuda, uint64_t seed, uint32_t blocks)
{
    s->cuda = cuda;
    torch_seed(&s->cpu, seed);
    cuda_seed(&s->gpu, seed, blocks);
}

void stream_randn(noise_stream *s, float *out, size_t n)
{
    if (s->cuda)
        cuda_randn(&s->gpu, out, n);
    else
        torch_randn(&s->cpu, out, n);
}

int noise_first_cuda(const kiln_noise *noise) { return noise->source == KILN_NOISE_CUDA_ALL; }

static int path_cuda(const kiln_noise *noise, const kiln_sampler *row)
{
    return noise->source == KILN_NOISE_CUDA_ALL ||
           (noise->source != KILN_NOISE_CPU && row->flags & KILN_SAMPLER_BROWNIAN_CUDA);
}

int noise_any_cuda(const kiln_noise *noise, const kiln_sampler *row)
{
    return noise->source == KILN_NOISE_CUDA || noise->source == KILN_NOISE_CUDA_ALL ||
           (row->flags & KILN_SAMPLER_BROWNIAN && path_cuda(noise, row));
}

/* torchsde's _randn: a new generator for each draw. */
static void tree_gaussians(const void *arg, uint32_t seed, float *out, size_t n)
{
    const noise_source *s = arg;
    noise_stream one;
    stream_seed(&one, s->tree_cuda, seed, s->blocks);
    stream_randn(&one, out, n);
}

static void tree_init(noise_source *s, uint64_t seed, const double *sigma, size_t n, size_t count)
{
    double low = sigma[0], high = sigma[0];
    for (size_t i = 1; i <= n; i++) {
        if (sigma[i] > 0 && sigma[i] < low) low = sigma[i];
        if (sigma[i] > high) high = sigma[i];
    }
    s->tree =
        (brownian_tree){.entropy = seed, .low = low, .high = high, .n = count, .gaussians = tree_gaussians, .arg = s};
}

void noise_source_init(noise_source *s, const kiln_noise *noise, const kiln_sampler *row, const noise_stream *first,
                       uint64_t seed, const double *sigma, size_t n, size_t count)
{
    int goes_on = row->flags & KILN_SAMPLER_CONTINUES_NOISE || noise->source == KILN_NOISE_CUDA_ALL;
    s->kind = (kiln_noise_source)noise->source;
    s->blocks = (uint32_t)noise->blocks;
    s->brownian = (row->flags & KILN_SAMPLER_BROWNIAN) != 0;
    s->tree_cuda = path_cuda(noise, row);
    if (noise->source == KILN_NOISE_CUDA)
        stream_seed(&s->steps, 1, seed, s->blocks);
    else if (goes_on)
        s->steps = *first;
    else
        stream_seed(&s->steps, 0, seed + 1, 0);
    tree_init(s, seed, sigma, n, count);
}

kiln_status noise_source_draw(noise_source *s, double from, double to, float *out)
{
    if (s->brownian) return brownian_noise(&s->tree, from, to, out);
    stream_randn(&s->steps, out, s->tree.n);
    return KILN_OK;
}
