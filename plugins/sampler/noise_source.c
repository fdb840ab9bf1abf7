/* noise_source.c - see noise_source.h. */
#include "noise_source.h"

const kiln_choice noise_choice[] = {
    {.name = "auto",
     .doc = "as ComfyUI without a GPU; samplers named _gpu follow the path a CUDA device draws",
     .value = NOISE_AUTO},
    {.name = "cpu", .doc = "torch's CPU generator for everything", .value = NOISE_CPU},
    {.name = "cuda",
     .doc = "as ComfyUI on an NVIDIA GPU: first noise of the CPU generator, that of the steps of CUDA's",
     .value = NOISE_CUDA},
    {.name = "cuda_all", .doc = "one CUDA generator for the first noise and then the steps", .value = NOISE_CUDA_ALL},
    {0}};

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

int noise_first_cuda(const noise_options *options) { return options->kind == NOISE_CUDA_ALL; }

static int path_cuda(const noise_options *options, const kiln_sampler *row)
{
    return options->kind == NOISE_CUDA_ALL || (options->kind != NOISE_CPU && row->flags & KILN_SAMPLER_BROWNIAN_CUDA);
}

int noise_any_cuda(const noise_options *options, const kiln_sampler *row)
{
    return options->kind == NOISE_CUDA || options->kind == NOISE_CUDA_ALL ||
           (row->flags & KILN_SAMPLER_BROWNIAN && path_cuda(options, row));
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

void noise_source_init(noise_source *s, const noise_options *options, const kiln_sampler *row,
                       const noise_stream *first, uint64_t seed, const double *sigma, size_t n, size_t count)
{
    int goes_on = row->flags & KILN_SAMPLER_CONTINUES_NOISE || options->kind == NOISE_CUDA_ALL;
    s->kind = (noise_kind)options->kind;
    s->blocks = (uint32_t)options->blocks;
    s->brownian = (row->flags & KILN_SAMPLER_BROWNIAN) != 0;
    s->tree_cuda = path_cuda(options, row);
    if (options->kind == NOISE_CUDA)
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
