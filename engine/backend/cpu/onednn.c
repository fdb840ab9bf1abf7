/* onednn.c - see onednn.h. Builds against oneDNN 2.6 (Debian 12) and 3.x, whose C interfaces differ in how
 * descriptors are made; the macros below are the whole difference.
 *
 * The library splits its work by the number of OpenMP threads, and some splits change sums. So it is given
 * one thread, when a GEMM is compiled and when it is run; the caller has the threads.
 *
 * Without memory the library throws, or writes through a null pointer where its code generator got no pages. So what a
 * call may need at once is asked of the system first (memory_is_free), and what is thrown all the same ends at
 * library_call().
 */
#include "backend/cpu/onednn.h"

#include "backend/cpu/cpu.h"
#include "backend/cpu/library_edge.h"
#include "backend/cpu/panel_product.h"
#include "base/memory_alloc.h"

#include <dnnl.h>
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if DNNL_VERSION_MAJOR >= 3
typedef const_dnnl_memory_desc_t md_ref;
#define MD(d) (d)
#define md_release(d) dnnl_memory_desc_destroy(d)
#define md_by_strides dnnl_memory_desc_create_with_strides
#define md_by_tag dnnl_memory_desc_create_with_tag
#else
typedef const dnnl_memory_desc_t *md_ref;
#define MD(d) (&(d))
#define md_release(d) ((void)(d))
#define md_by_strides dnnl_memory_desc_init_by_strides
#define md_by_tag dnnl_memory_desc_init_by_tag
#endif

const char *gemm_library_version(void)
{
    static char text[40]; /* written with the same bytes by whoever comes first */
    const dnnl_version_t *v = dnnl_version();
    snprintf(text, sizeof text, "%d.%d.%d", v->major, v->minor, v->patch);
    return text;
}

struct gemm {
    gemm_shape shape;
    int by_panels; /* not the library's at all: panel_product.h */
    dnnl_primitive_desc_t desc;
    dnnl_primitive_t run;
    atomic_uchar has_run; /* what the library generates when it is first run is there */
};

static dnnl_engine_t engine;
static dnnl_status_t engine_status;

/* ---- the edge ---- */

/* Bytes that a call may need at once: a GEMM is a few dozen generated kernels of 256 KiB of pages each; a reordering
 * one; the first run of a GEMM may generate a few more (how to set up AMX's tiles is one), later ones take small
 * things from the heap. */
static const size_t BYTES_TO_MAKE = 64 << 20, BYTES_TO_PACK = 16 << 20, BYTES_TO_RUN = 64 << 10;

static int memory_is_free(size_t bytes)
{
    if (bytes <= BYTES_TO_RUN) {
        void *volatile p = malloc(bytes); /* volatile: or the compiler takes the pair away */
        free(p);
        return p != NULL;
    }
    void *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p != MAP_FAILED) munmap(p, bytes);
    return p != MAP_FAILED;
}

/* Runs body(arg), which leaves the library's status in *status. */
static void at_the_edge(size_t bytes, void (*body)(void *), void *arg, dnnl_status_t *status)
{
    *status = dnnl_out_of_memory;
    if (!memory_is_free(bytes) || !memory_is_free(BYTES_TO_RUN)) return;
    library_end end = library_call(body, arg);
    if (end != LIBRARY_RETURNED) *status = end == LIBRARY_NO_MEMORY ? dnnl_out_of_memory : dnnl_runtime_error;
}

static void engine_make(void *arg)
{
    (void)arg;
#if defined __x86_64__
    static const dnnl_cpu_isa_t isa[] = {
        [CPU_PLAIN] = dnnl_cpu_isa_sse41,
        [CPU_AVX2] = dnnl_cpu_isa_avx2,
        [CPU_AVX512] = dnnl_cpu_isa_avx512_core_vnni,
        [CPU_AVX512_BF16] = dnnl_cpu_isa_avx512_core_bf16,
        [CPU_AMX] = dnnl_cpu_isa_avx512_core_amx,
    };
    if (cpu_level_lowered())
        dnnl_set_max_cpu_isa(isa[cpu_level_get()]); /* refused once something was made: then it stays as it is */
#endif
    engine_status = dnnl_engine_create(&engine, dnnl_cpu, 0);
}

/* Made once and kept; without memory for it the next GEMM tries again. */
static dnnl_status_t engine_ready(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (!engine) at_the_edge(BYTES_TO_MAKE, engine_make, NULL, &engine_status);
    dnnl_status_t status = engine_status;
    pthread_mutex_unlock(&lock);
    return status;
}

static kiln_status library(dnnl_status_t status, const char *what, error *e)
{
    if (status == dnnl_success) return KILN_OK;
    if (status == dnnl_out_of_memory) return error_set(e, KILN_ERR_NOMEM, "oneDNN: out of memory (%s)", what);
    if (status == dnnl_unimplemented)
        return error_set(e, KILN_ERR_UNSUPPORTED, "oneDNN has no kernel for it here (%s)", what);
    return error_set(e, KILN_ERR_BUG, "oneDNN: status %d (%s)", (int)status, what);
}

static dnnl_data_type_t type_of_gemm(const gemm *p) { return p->shape.type == KILN_BF16 ? dnnl_bf16 : dnnl_f32; }

/* ---- making ---- */

/* The library's product by AVX2 (jit_avx_gemm_f32) reads weights as a matrix, and makes the sums of rows and columns
 * that are left over in another order: so it is kiln's own there. */
static int is_by_panels(const gemm_shape *s)
{
    const dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
    return !s->conv && s->type == KILN_F32 && (isa == dnnl_cpu_isa_avx2 || isa == dnnl_cpu_isa_avx2_vnni);
}

typedef struct {
    dnnl_memory_desc_t a, b, bias, c;
} operands;

static dnnl_status_t describe_matmul(const gemm *p, operands *o)
{
    const gemm_shape *s = &p->shape;
    dnnl_dims_t a = {s->m, s->k}, b = {s->k, s->n}, c = {s->m, s->n}, bias = {1, s->n};
    dnnl_status_t st = md_by_tag(&o->a, 2, a, type_of_gemm(p), dnnl_ab);
    if (st == dnnl_success) st = md_by_tag(&o->b, 2, b, type_of_gemm(p), dnnl_format_tag_any);
    if (st == dnnl_success) st = md_by_tag(&o->bias, 2, bias, dnnl_f32, dnnl_ab);
    if (st == dnnl_success) st = md_by_tag(&o->c, 2, c, dnnl_f32, dnnl_ab);
    return st;
}
static dnnl_status_t describe_volume(const gemm *p, operands *o)
{
    const gemm_shape *s = &p->shape;
    dnnl_dims_t a = {1, s->i, s->d, s->h, s->w}, b = {s->n, s->i, s->kd, s->kh, s->kw},
                c = {1, s->n, s->od, s->oh, s->ow}, bias = {s->n};
    dnnl_status_t st = md_by_tag(&o->a, 5, a, type_of_gemm(p), dnnl_ndhwc);
    if (st == dnnl_success) st = md_by_tag(&o->b, 5, b, type_of_gemm(p), dnnl_format_tag_any);
    if (st == dnnl_success) st = md_by_tag(&o->bias, 1, bias, dnnl_f32, dnnl_a);
    if (st == dnnl_success) st = md_by_tag(&o->c, 5, c, dnnl_f32, dnnl_ndhwc);
    return st;
}
static dnnl_status_t describe_conv(const gemm *p, operands *o)
{
    const gemm_shape *s = &p->shape;
    dnnl_dims_t a = {1, s->i, s->h, s->w}, b = {s->n, s->i, s->kh, s->kw}, c = {1, s->n, s->oh, s->ow}, bias = {s->n};
    dnnl_status_t st = md_by_tag(&o->a, 4, a, type_of_gemm(p), dnnl_nhwc);
    if (st == dnnl_success) st = md_by_tag(&o->b, 4, b, type_of_gemm(p), dnnl_format_tag_any);
    if (st == dnnl_success) st = md_by_tag(&o->bias, 1, bias, dnnl_f32, dnnl_a);
    if (st == dnnl_success) st = md_by_tag(&o->c, 4, c, dnnl_f32, dnnl_nhwc);
    return st;
}

static dnnl_status_t make_matmul(gemm *p, const operands *o, md_ref b, const_dnnl_primitive_attr_t attr)
{
    md_ref bias = p->shape.bias ? MD(o->bias) : NULL;
#if DNNL_VERSION_MAJOR >= 3
    return dnnl_matmul_primitive_desc_create(&p->desc, engine, MD(o->a), b, bias, MD(o->c), attr);
#else
    dnnl_matmul_desc_t d;
    dnnl_status_t st = dnnl_matmul_desc_init(&d, MD(o->a), b, bias, MD(o->c));
    return st == dnnl_success ? dnnl_primitive_desc_create(&p->desc, &d, attr, engine, NULL) : st;
#endif
}
static dnnl_status_t make_conv(gemm *p, const operands *o, md_ref b, const_dnnl_primitive_attr_t attr)
{
    const gemm_shape *s = &p->shape;
    md_ref bias = s->bias ? MD(o->bias) : NULL;
    dnnl_dims_t flat_stride = {s->stride[0], s->stride[1]}, flat_dilate = {s->dilation[0] - 1, s->dilation[1] - 1};
    dnnl_dims_t deep_stride = {s->deep_stride, s->stride[0], s->stride[1]},
                deep_dilate = {s->deep_dilation - 1, s->dilation[0] - 1, s->dilation[1] - 1};
    const dnnl_dim_t *stride = s->kd ? deep_stride : flat_stride, *dilate = s->kd ? deep_dilate : flat_dilate;
    dnnl_dims_t before = {s->pad[0], s->pad[1]}, after = {s->pad[2], s->pad[3]}; /* of a volume zeros */
#if DNNL_VERSION_MAJOR >= 3
    return dnnl_convolution_forward_primitive_desc_create(&p->desc, engine, dnnl_forward_inference,
                                                          dnnl_convolution_direct, MD(o->a), b, bias, MD(o->c), stride,
                                                          dilate, before, after, attr);
#else
    dnnl_convolution_desc_t d;
    dnnl_status_t st =
        dnnl_dilated_convolution_forward_desc_init(&d, dnnl_forward_inference, dnnl_convolution_direct, MD(o->a), b,
                                                   bias, MD(o->c), stride, dilate, before, after);
    return st == dnnl_success ? dnnl_primitive_desc_create(&p->desc, &d, attr, engine, NULL) : st;
#endif
}

static dnnl_status_t make(gemm *p, const gemm *like)
{
    operands o;
    memset(&o, 0, sizeof o);
    dnnl_primitive_attr_t attr = NULL;
    dnnl_status_t st = p->shape.kd     ? describe_volume(p, &o)
                       : p->shape.conv ? describe_conv(p, &o)
                                       : describe_matmul(p, &o);
    if (st == dnnl_success) st = dnnl_primitive_attr_create(&attr);
    if (st == dnnl_success) st = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (st == dnnl_success) st = dnnl_primitive_attr_set_fpmath_mode(attr, dnnl_fpmath_mode_strict);
    md_ref b = like ? dnnl_primitive_desc_query_md(like->desc, dnnl_query_weights_md, 0) : MD(o.b);
    if (st == dnnl_success) st = p->shape.conv ? make_conv(p, &o, b, attr) : make_matmul(p, &o, b, attr);
    if (st == dnnl_success) st = dnnl_primitive_create(&p->run, p->desc);
    dnnl_primitive_attr_destroy(attr);
    md_release(o.a), md_release(o.b), md_release(o.bias), md_release(o.c);
    return st;
}

typedef struct {
    gemm *p;
    const gemm *like;
    dnnl_status_t status;
} making;

static void make_it(void *arg)
{
    making *m = arg;
    int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    m->status = make(m->p, m->like);
    omp_set_num_threads(threads);
}

kiln_status gemm_new(const gemm_shape *s, const gemm *like, gemm **out, error *e)
{
    TRY(library(engine_ready(), "engine", e));
    gemm *p = mem_calloc(1, sizeof *p);
    if (!p) return error_set(e, KILN_ERR_NOMEM, "out of memory for a GEMM");
    p->shape = *s;
    p->by_panels = is_by_panels(s);
    if (p->by_panels) {
        *out = p;
        return KILN_OK;
    }
    making m = {.p = p, .like = like};
    at_the_edge(BYTES_TO_MAKE, make_it, &m, &m.status);
    if (m.status != dnnl_success) {
        gemm_free(p);
        return library(m.status, s->conv ? "convolution" : "matrix product", e);
    }
    *out = p;
    return KILN_OK;
}

void gemm_free(gemm *p)
{
    if (!p) return;
    if (p->run) dnnl_primitive_destroy(p->run);
    if (p->desc) dnnl_primitive_desc_destroy(p->desc);
    mem_free(p);
}

/* ---- asking ---- */

const char *gemm_name(const gemm *p)
{
    const char *name = "onednn";
    if (p->by_panels) return "gemm:panels";
    dnnl_primitive_desc_query(p->desc, dnnl_query_impl_info_str, 0, (void *)&name);
    return name;
}

static md_ref weights_of(const gemm *p) { return dnnl_primitive_desc_query_md(p->desc, dnnl_query_weights_md, 0); }

static uint64_t mix(uint64_t h, const void *data, size_t n)
{
    for (size_t i = 0; i < n; i++) h = (h ^ ((const unsigned char *)data)[i]) * 0x100000001b3u; /* FNV-1a */
    return h;
}

uint64_t gemm_layout(const gemm *p)
{
    uint64_t h = mix(0xcbf29ce484222325u, &p->shape.type, sizeof p->shape.type);
    if (p->by_panels) return mix(mix(h, &p->shape.k, sizeof p->shape.k), &p->shape.n, sizeof p->shape.n);
    md_ref d = weights_of(p);
#if DNNL_VERSION_MAJOR >= 3
    int n = 0, column_tiles = 0;
    dnnl_dims_t *padded, *strides, *sizes, *places;
    dnnl_memory_desc_query(d, dnnl_query_ndims_s32, &n);
    dnnl_memory_desc_query(d, dnnl_query_inner_nblks_s32, &column_tiles);
    dnnl_memory_desc_query(d, dnnl_query_padded_dims, &padded);
    dnnl_memory_desc_query(d, dnnl_query_strides, &strides);
    dnnl_memory_desc_query(d, dnnl_query_inner_blks, &sizes);
    dnnl_memory_desc_query(d, dnnl_query_inner_idxs, &places);
    h = mix(mix(h, *padded, (size_t)n * sizeof(*padded)[0]), *strides, (size_t)n * sizeof(*strides)[0]);
    return mix(mix(h, *sizes, (size_t)column_tiles * sizeof(*sizes)[0]), *places,
               (size_t)column_tiles * sizeof(*places)[0]);
#else
    const dnnl_blocking_desc_t *f = &d->format_desc.blocking;
    h = mix(mix(h, d->padded_dims, (size_t)d->ndims * sizeof d->padded_dims[0]), f->strides,
            (size_t)d->ndims * sizeof f->strides[0]);
    h = mix(h, f->inner_blks, (size_t)f->inner_nblks * sizeof f->inner_blks[0]);
    return mix(h, f->inner_idxs, (size_t)f->inner_nblks * sizeof f->inner_idxs[0]);
#endif
}

const gemm_shape *gemm_shape_of(const gemm *p) { return &p->shape; }

/* Blocks of a layout, from the outermost on. */
typedef struct {
    int n;
    int64_t size[DNNL_MAX_NDIMS], dim[DNNL_MAX_NDIMS], stride[DNNL_MAX_NDIMS];
} layout_blocks;

static void read_layout(md_ref d, layout_blocks *b)
{
#if DNNL_VERSION_MAJOR >= 3
    int dims = 0;
    dnnl_dims_t *strides, *sizes, *places;
    dnnl_memory_desc_query(d, dnnl_query_ndims_s32, &dims);
    dnnl_memory_desc_query(d, dnnl_query_inner_nblks_s32, &b->n);
    dnnl_memory_desc_query(d, dnnl_query_strides, &strides);
    dnnl_memory_desc_query(d, dnnl_query_inner_blks, &sizes);
    dnnl_memory_desc_query(d, dnnl_query_inner_idxs, &places);
    for (int i = 0; i < dims; i++) b->stride[i] = (*strides)[i];
    for (int i = 0; i < b->n; i++) b->size[i] = (*sizes)[i], b->dim[i] = (*places)[i];
#else
    const dnnl_blocking_desc_t *f = &d->format_desc.blocking;
    b->n = f->inner_nblks;
    for (int i = 0; i < d->ndims; i++) b->stride[i] = f->strides[i];
    for (int i = 0; i < b->n; i++) b->size[i] = f->inner_blks[i], b->dim[i] = f->inner_idxs[i];
#endif
}

int gemm_words_of(const gemm *p, gemm_words *out)
{
    layout_blocks b = {0};
    if (p->by_panels) return 0;
    read_layout(weights_of(p), &b);
    int64_t in_word = p->shape.type == KILN_BF16 ? 2 : 1;
    int output = p->shape.conv ? 0 : 1, input = 1 - output, i = b.n - 1;
    if (in_word == 2 && (i < 0 || b.dim[i] != input || b.size[i--] != 2)) return 0;
    if (i < 0 || b.dim[i] != output || b.size[i] % 16) return 0;
    *out = (gemm_words){.outputs = b.size[i--], .steps = 1, .wide = 1, .high = 1};
    if (i >= 0 && b.dim[i] == input) out->steps = b.size[i--];
    if (i >= 0) return 0;
    out->output_stride = b.stride[output] / in_word, out->step_stride = b.stride[input] / in_word;
    int last = p->shape.kd ? 4 : 3;
    if (!p->shape.conv) return 1;
    out->wide = p->shape.kw, out->wide_stride = b.stride[last] / in_word;
    out->high = p->shape.kh, out->high_stride = b.stride[last - 1] / in_word;
    if (p->shape.kd) out->deep_stride = b.stride[2] / in_word;
    return 1;
}

size_t gemm_weight_bytes(const gemm *p)
{
    if (p->by_panels) return panel_product_weight_bytes((size_t)p->shape.n, (size_t)p->shape.k);
    return dnnl_memory_desc_get_size(weights_of(p));
}
size_t gemm_scratch_bytes(const gemm *p)
{
    if (p->by_panels) return panel_product_scratch_bytes((size_t)p->shape.m, (size_t)p->shape.n);
    md_ref d = dnnl_primitive_desc_query_md(p->desc, dnnl_query_scratchpad_md, 0);
    return d ? dnnl_memory_desc_get_size(d) : 0;
}

/* ---- doing ---- */

/* Runs a primitive over the given (argument, description, address) rows on this thread alone. */
typedef struct {
    int arg;
    md_ref desc;
    void *at;
} bound;

static dnnl_status_t execute(const_dnnl_primitive_t run, const bound *rows, int n)
{
    enum { MOST = 6 };
    dnnl_exec_arg_t args[MOST] = {{0}};
    dnnl_stream_t stream = NULL;
    int made = 0, threads = omp_get_max_threads();
    omp_set_num_threads(1);
    dnnl_status_t st = dnnl_stream_create(&stream, engine, dnnl_stream_default_flags);
    for (; made < n && st == dnnl_success; made++) {
        args[made].arg = rows[made].arg;
        st = dnnl_memory_create(&args[made].memory, rows[made].desc, engine, rows[made].at);
    }
    if (st == dnnl_success) st = dnnl_primitive_execute(run, stream, n, args);
    if (st == dnnl_success) st = dnnl_stream_wait(stream);
    for (int i = 0; i < made; i++) dnnl_memory_destroy(args[i].memory);
    if (stream) dnnl_stream_destroy(stream);
    omp_set_num_threads(threads);
    return st;
}

typedef struct {
    const gemm *p;
    const float *b;
    void *packed;
    int columns; /* b is [k][n] */
    dnnl_status_t status;
} packing;

static dnnl_status_t describe_plain(const gemm_shape *s, int columns, dnnl_memory_desc_t *from)
{
    dnnl_dims_t matrix = {s->k, s->n}, filter = {s->n, s->i, s->kh, s->kw};
    dnnl_dims_t matrix_strides = {columns ? s->n : 1, columns ? 1 : s->k};
    dnnl_dims_t volume = {s->n, s->i, s->kd, s->kh, s->kw};
    if (s->kd) return md_by_tag(from, 5, volume, dnnl_f32, dnnl_oidhw);
    return s->conv ? md_by_tag(from, 4, filter, dnnl_f32, dnnl_oihw)
                   : md_by_strides(from, 2, matrix, dnnl_f32, matrix_strides);
}

static void reorder_into(md_ref from, md_ref to, packing *j)
{
    dnnl_primitive_desc_t desc = NULL;
    dnnl_primitive_t reorder = NULL;
    int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    j->status = dnnl_reorder_primitive_desc_create(&desc, from, engine, to, engine, NULL);
    if (j->status == dnnl_success) j->status = dnnl_primitive_create(&reorder, desc);
    omp_set_num_threads(threads);
    const bound rows[] = {{DNNL_ARG_FROM, from, (void *)(uintptr_t)j->b}, {DNNL_ARG_TO, to, j->packed}};
    if (j->status == dnnl_success) j->status = execute(reorder, rows, 2);
    if (reorder) dnnl_primitive_destroy(reorder);
    if (desc) dnnl_primitive_desc_destroy(desc);
}

static void pack_it(void *arg)
{
    packing *j = arg;
    const gemm *p = j->p;
    dnnl_memory_desc_t from;
    j->status = describe_plain(&p->shape, j->columns, &from);
    if (j->status != dnnl_success) return;
    reorder_into(MD(from), weights_of(p), j);
    md_release(from);
}

/* [n][k] or [n][i][kh][kw] in f32 -> the layout that the GEMM chose */
static kiln_status pack_as(const gemm *p, const float *b, int columns, void *packed, error *e)
{
    const gemm_shape *s = &p->shape;
    packing j = {.p = p, .b = b, .packed = packed, .columns = columns};
    if (p->by_panels) {
        panel_product_pack(b, columns, (size_t)s->n, (size_t)s->k, packed);
        return KILN_OK;
    }
    size_t elements = (size_t)(s->conv ? s->n * s->i * (s->kd ? s->kd : 1) * s->kh * s->kw : s->n * s->k);
    if (gemm_weight_bytes(p) != elements * (s->type == KILN_F32 ? 4u : 2u))
        memset(packed, 0, gemm_weight_bytes(p)); /* what fills up its blocks */
    at_the_edge(BYTES_TO_PACK, pack_it, &j, &j.status);
    return library(j.status, "packing weights", e);
}

kiln_status gemm_pack(const gemm *p, const float *b, void *packed, error *e) { return pack_as(p, b, 0, packed, e); }
kiln_status gemm_pack_columns(const gemm *p, const float *b, void *packed, error *e)
{
    return pack_as(p, b, 1, packed, e);
}

typedef struct {
    const_dnnl_primitive_t run;
    const bound *rows;
    int n;
    dnnl_status_t status;
} running;

static void run_it(void *arg)
{
    running *r = arg;
    r->status = execute(r->run, r->rows, r->n);
}

kiln_status gemm_run(const gemm *p, const void *a, const void *packed, const float *bias, float *c, void *scratch,
                     error *e)
{
    const gemm_shape *s = &p->shape;
    if (p->by_panels) {
        panel_product_run((size_t)s->m, (size_t)s->n, (size_t)s->k, a, packed, s->bias ? bias : NULL, c, scratch);
        return KILN_OK;
    }
    const bound rows[] = {
        {DNNL_ARG_SRC, dnnl_primitive_desc_query_md(p->desc, dnnl_query_src_md, 0), (void *)(uintptr_t)a},
        {DNNL_ARG_WEIGHTS, weights_of(p), (void *)(uintptr_t)packed},
        {DNNL_ARG_DST, dnnl_primitive_desc_query_md(p->desc, dnnl_query_dst_md, 0), c},
        {DNNL_ARG_SCRATCHPAD, dnnl_primitive_desc_query_md(p->desc, dnnl_query_scratchpad_md, 0), scratch},
        {DNNL_ARG_BIAS, p->shape.bias ? dnnl_primitive_desc_query_md(p->desc, dnnl_query_weights_md, 1) : NULL,
         (void *)(uintptr_t)bias},
    };
    running r = {.run = p->run, .rows = rows, .n = p->shape.bias ? 5 : 4};
    atomic_uchar *has_run = (atomic_uchar *)(uintptr_t)&p->has_run;
    at_the_edge(atomic_load(has_run) ? BYTES_TO_RUN : BYTES_TO_PACK, run_it, &r, &r.status);
    if (r.status == dnnl_success) atomic_store(has_run, 1);
    return library(r.status, p->shape.conv ? "convolution" : "matrix product", e);
}
