/* library_floor.c - what one call of oneDNN on all threads takes for layers by themselves: what a layer of ours is held
 * against (scripts/bench_ops).
 *
 *     library_floor f32|bf16 < LAYERS     lines as op_times names ops: "linear 2x64x64 32x64 32 -> 2x64x32 ..."
 *
 * Prints microseconds, a tab and the layer, for lines of linear and conv2d: activations channels last, weights in the
 * library's own layout, packed before; the best of direct and Winograd in f32. What stands behind a product (act,
 * geglu, residual) is not made. A convolution of even sizes that halves its picture has a stride of 2; padding is half
 * of a kernel's side.
 *
 * It compiles against oneDNN 3 too, to see what that would bring: pip's onednn-devel-cpu-gomp and onednn-cpu-gomp have
 * headers and a library.
 */
#include <dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 5, TRIES = 5 };
static const double SLOW = 0.05;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* "2x64x64" -> 3 */
static int sizes(const char *text, long long *dim)
{
    int n = 0;
    char *end;
    for (; n < MOST && *text >= '0' && *text <= '9'; n++) {
        dim[n] = strtoll(text, &end, 10);
        text = *end == 'x' ? end + 1 : "";
    }
    return n;
}

static dnnl_engine_t engine;
static dnnl_stream_t stream;

/* What differs between the library's versions: onednn.c is written for 2, of 3 we ask what it would bring. */
#if DNNL_VERSION_MAJOR == 2
typedef const dnnl_memory_desc_t *description;

static int describe(dnnl_memory_desc_t *d, int rank, const dnnl_dims_t dim, dnnl_data_type_t type,
                    dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_init_by_tag(d, rank, dim, type, tag) == dnnl_success;
}
static void forget(dnnl_memory_desc_t *d) { (void)d; }
static dnnl_status_t product_of(dnnl_primitive_desc_t *to, dnnl_memory_desc_t *a, dnnl_memory_desc_t *b,
                                dnnl_memory_desc_t *c)
{
    dnnl_matmul_desc_t d;
    dnnl_status_t status = dnnl_matmul_desc_init(&d, a, b, NULL, c);
    return status == dnnl_success ? dnnl_primitive_desc_create(to, &d, NULL, engine, NULL) : status;
}
static dnnl_status_t convolution_of(dnnl_primitive_desc_t *to, dnnl_alg_kind_t way, dnnl_memory_desc_t *a,
                                    dnnl_memory_desc_t *b, dnnl_memory_desc_t *c, const dnnl_dims_t stride,
                                    const dnnl_dims_t before, const dnnl_dims_t after)
{
    const dnnl_dims_t dilate = {0, 0};
    dnnl_convolution_desc_t d;
    dnnl_status_t status = dnnl_dilated_convolution_forward_desc_init(&d, dnnl_forward_inference, way, a, b, NULL, c,
                                                                      stride, dilate, before, after);
    return status == dnnl_success ? dnnl_primitive_desc_create(to, &d, NULL, engine, NULL) : status;
}
#else
typedef const_dnnl_memory_desc_t description;

static int describe(dnnl_memory_desc_t *d, int rank, const dnnl_dims_t dim, dnnl_data_type_t type,
                    dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_create_with_tag(d, rank, dim, type, tag) == dnnl_success;
}
static void forget(dnnl_memory_desc_t *d) { dnnl_memory_desc_destroy(*d); }
static dnnl_status_t product_of(dnnl_primitive_desc_t *to, dnnl_memory_desc_t *a, dnnl_memory_desc_t *b,
                                dnnl_memory_desc_t *c)
{
    return dnnl_matmul_primitive_desc_create(to, engine, *a, *b, NULL, *c, NULL);
}
static dnnl_status_t convolution_of(dnnl_primitive_desc_t *to, dnnl_alg_kind_t way, dnnl_memory_desc_t *a,
                                    dnnl_memory_desc_t *b, dnnl_memory_desc_t *c, const dnnl_dims_t stride,
                                    const dnnl_dims_t before, const dnnl_dims_t after)
{
    const dnnl_dims_t dilate = {0, 0};
    return dnnl_convolution_forward_primitive_desc_create(to, engine, dnnl_forward_inference, way, *a, *b, NULL, *c,
                                                          stride, dilate, before, after, NULL);
}
#endif

static dnnl_memory_t room(description d)
{
    dnnl_memory_t m = NULL;
    void *data = NULL;
    if (dnnl_memory_create(&m, d, engine, DNNL_MEMORY_ALLOCATE) != dnnl_success) exit(1);
    dnnl_memory_get_data_handle(m, &data);
    memset(data, 0, dnnl_memory_desc_get_size(d));
    return m;
}

/* Seconds of the fastest of a few runs; 0: the library has no such primitive. Frees the description. */
static double fastest(dnnl_primitive_desc_t desc)
{
    static const int what[3] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    static const dnnl_query_t query[3] = {dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md};
    dnnl_primitive_t product = NULL;
    dnnl_exec_arg_t args[3];
    double best = 0;
    if (dnnl_primitive_create(&product, desc) != dnnl_success) return 0;
    for (int i = 0; i < 3; i++)
        args[i] = (dnnl_exec_arg_t){what[i], room(dnnl_primitive_desc_query_md(desc, query[i], 0))};
    for (int i = 0; i <= TRIES; i++) { /* the first is not counted */
        double begin = now();
        dnnl_primitive_execute(product, stream, 3, args);
        dnnl_stream_wait(stream);
        double took = now() - begin;
        if (i && (!best || took < best)) best = took;
        if (i && took > SLOW) break;
    }
    for (int i = 0; i < 3; i++) dnnl_memory_destroy(args[i].memory);
    dnnl_primitive_destroy(product);
    dnnl_primitive_desc_destroy(desc);
    return best;
}

static double linear(const long long *x, int rank, const long long *w, dnnl_data_type_t type)
{
    dnnl_dims_t a = {1, x[rank - 1]}, b = {w[1], w[0]}, c = {1, w[0]};
    dnnl_memory_desc_t d[3];
    dnnl_primitive_desc_t desc;
    for (int i = 0; i + 1 < rank; i++) a[0] *= x[i];
    c[0] = a[0];
    if (!describe(&d[0], 2, a, type, dnnl_ab) || !describe(&d[1], 2, b, type, dnnl_format_tag_any) ||
        !describe(&d[2], 2, c, type, dnnl_ab))
        exit(1);
    double seconds = product_of(&desc, &d[0], &d[1], &d[2]) == dnnl_success ? fastest(desc) : 0;
    for (int i = 0; i < 3; i++) forget(&d[i]);
    return seconds;
}

static double convolution(const long long *x, const long long *w, const long long *y, dnnl_alg_kind_t way,
                          dnnl_data_type_t type)
{
    int winograd = way == dnnl_convolution_winograd; /* blocked, as it likes */
    dnnl_dims_t a = {x[0], x[3], x[1], x[2]}, b = {w[0], w[1], w[2], w[3]}, c = {y[0], y[3], y[1], y[2]};
    dnnl_dims_t stride = {y[1] * 2 == x[1] ? 2 : 1, y[2] * 2 == x[2] ? 2 : 1};
    dnnl_dims_t before = {w[2] / 2, w[3] / 2}, after;
    dnnl_format_tag_t tag = winograd ? dnnl_format_tag_any : dnnl_nhwc;
    dnnl_memory_desc_t d[3];
    dnnl_primitive_desc_t desc;
    for (int i = 0; i < 2; i++) after[i] = (y[1 + i] - 1) * stride[i] + w[2 + i] - x[1 + i] - before[i];
    if (!describe(&d[0], 4, a, type, tag) || !describe(&d[1], 4, b, type, dnnl_format_tag_any) ||
        !describe(&d[2], 4, c, type, tag))
        exit(1);
    dnnl_status_t status = convolution_of(&desc, way, &d[0], &d[1], &d[2], stride, before, after);
    double seconds = status == dnnl_success ? fastest(desc) : 0;
    for (int i = 0; i < 3; i++) forget(&d[i]);
    return seconds;
}

static double layer(const char *line, int half)
{
    char kind[32], in[64], filter[64];
    long long x[MOST], w[MOST], y[MOST];
    const char *arrow = strstr(line, "-> ");
    if (!arrow || sscanf(line, "%31s %63s %63s", kind, in, filter) != 3) return 0;
    int rank = sizes(in, x), of = sizes(filter, w), out = sizes(arrow + 3, y);
    dnnl_data_type_t type = half ? dnnl_bf16 : dnnl_f32;
    if (strcmp(kind, "linear") == 0 && rank && of == 2) return linear(x, rank, w, type);
    if (strcmp(kind, "conv2d") != 0 || rank != 4 || of != 4 || out != 4) return 0;
    if (strstr(arrow, " +upsampled")) x[1] *= 2, x[2] *= 2; /* no library reads the smaller picture */
    double direct = convolution(x, w, y, dnnl_convolution_direct, type);
    double other = w[2] == 3 ? convolution(x, w, y, dnnl_convolution_winograd, dnnl_f32) : 0;
    return other > 0 && (other < direct || !direct) ? other : direct;
}

int main(int argc, char **argv)
{
    char line[1024];
    if (argc != 2 || (strcmp(argv[1], "f32") && strcmp(argv[1], "bf16")))
        return fprintf(stderr, "usage: library_floor f32|bf16 < LAYERS\n"), 2;
    if (dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success ||
        dnnl_stream_create(&stream, engine, dnnl_stream_default_flags) != dnnl_success)
        return 1;
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        double seconds = layer(line, argv[1][0] == 'b');
        if (seconds > 0) printf("%.3f\t%s\n", seconds * 1e6, line), fflush(stdout);
    }
    return 0;
}
