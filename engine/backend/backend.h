/* backend.h - what runs a planned program on a device. Layer: backend.
 *
 * The planner describes each op by shapes, dtypes and attributes (op_desc); the backend
 * makes a kernel for it, which says how much scratch it needs and how its weights must be
 * packed. Running is then a list of calls with pointers. A backend is a table; adding one adds
 * no #ifdef elsewhere.
 *
 * Layout. Operands are channels-last and dense in their last dimension; consecutive rows of the last
 * dimension lie `ld` elements apart (ld >= last dim), all outer dimensions dense on top of that. So a
 * slice of channels, one of fused q/k/v, and a part of a concatenation are operands without a copy.
 *
 * Determinism. What a kernel computes must not depend on the number of threads.
 */
#ifndef KILN_BACKEND_H
#define KILN_BACKEND_H

#include "base/pool.h"
#include "base/status.h"
#include "graph/op.h"
#include "memory/device.h"

/* How a weight that is computed from codes lies in files (weights/packed_rows.h). Kept so it is its rows one behind the
 * other, then, from the next multiple of 16 bytes on, `scales` f32 for each row and, of nibbles, the 16 numbers. */
typedef struct {
    uint32_t coding; /* weights_coding; 0: in no such way */
    uint32_t dtype;  /* of blocks and f8 */
    int64_t rows, columns, row_bytes, scales, scale_columns;
} stored_rows;
static inline size_t stored_rows_scales_at(const stored_rows *r)
{
    return ((size_t)(r->rows * r->row_bytes) + 15) & ~(size_t)15;
}
static inline size_t stored_rows_codebook_at(const stored_rows *r)
{
    return stored_rows_scales_at(r) + (size_t)(r->rows * r->scales) * sizeof(float);
}

typedef struct {
    uint32_t dtype; /* 0: operand absent */
    shape shape;
    int64_t ld;       /* elements between rows of the last dimension */
    uint32_t weight;  /* 1: a weight or constant: bytes known before the first run, may be packed */
    uint32_t stored;  /* of a weight of `dtype` f16: the f8 type that all of it lies in files as; 0: it does not */
    stored_rows rows; /* of a weight of `dtype` f32 */
} operand_desc;

typedef struct {
    op_kind kind;
    op_attr attr;
    op_epilogue epilogue;
    uint32_t n_in; /* listed operands, plus the residual when there is one (the last) */
    operand_desc in[OP_MAX_IN];
    operand_desc out;
    uint32_t n_more; /* results beside it: kernel_args.more */
    operand_desc more[OP_MAX_MORE];
    uint32_t precision; /* KILN_F32: nothing but f32 arithmetic; KILN_BF16, KILN_F16: GEMMs of that type allowed,
                           summed in f32 */
    uint32_t saturate;  /* 1: numbers beyond f16's range are stored in f16 as the ends of it */
    uint32_t bounded;   /* 1: of a program that is told how many of its rows are in use; their bytes are to be the same,
                           whatever number of rows there is */
} op_desc;

/* Does its store saturate? Of ops whose results may be beyond what they were made of. */
static inline int op_saturates(const op_desc *d)
{
    static const unsigned char of[OP_KIND_COUNT] = {[OP_CONVERT] = 1, [OP_CONV2D] = 1,     [OP_LINEAR] = 1,
                                                    [OP_MATMUL] = 1,  [OP_LINEAR_T] = 1,   [OP_GROUPED_LINEAR] = 1,
                                                    [OP_CONV] = 1,    [OP_GROUP_NORM] = 1, [OP_LAYER_NORM] = 1,
                                                    [OP_NORM] = 1,    [OP_ADD] = 1,        [OP_MUL] = 1,
                                                    [OP_AFFINE] = 1,  [OP_ACT] = 1,        [OP_GEGLU] = 1,
                                                    [OP_MAP] = 1};
    return d->saturate && d->out.dtype == KILN_F16 && of[d->kind];
}

/* Of a group_norm: are statistics of all of its picture's rows given, in[3]? */
static inline int op_takes_stats(const op_desc *d)
{
    return d->n_in - (d->epilogue.residual ? 1 : 0) > 3 && d->in[3].dtype;
}

/* May the weight `i` be of a type that is stored by blocks? A kernel that cannot read it so takes it as f32. */
static inline int op_reads_blocks(op_kind kind, uint32_t i)
{
    return (kind == OP_EMBEDDING && i == 0) || ((kind == OP_LINEAR || kind == OP_LINEAR_T ||
                                                 kind == OP_GROUPED_LINEAR || kind == OP_CONV2D || kind == OP_CONV) &&
                                                i == 1);
}

typedef struct kernel kernel;

/* A tensor that lies nowhere as it is packed from: elements [first, first + n) of it as f32, whole rows of its first
 * dimension, asked for by several threads at once. */
typedef struct {
    kiln_status (*read)(const void *self, size_t first, size_t n, float *to, error *);
    const void *self;
} row_source;

/* Pointers for one call, into the device's memory; in[i] of a packed operand is the packed memory. On an asynchronous
 * device run() only enqueues on `stream`: no waiting, no host access to operands, no allocation. */
typedef struct {
    const void *in[OP_MAX_IN];
    void *out;
    void *more[OP_MAX_MORE]; /* NULL: nobody wants that one */
    void *scratch;           /* aligned as the device aligns (at least 64), kernel->scratch_bytes */
    pool *pool;              /* host devices                                                      */
    device_stream *stream;   /* asynchronous devices                                              */
} kernel_args;

struct kernel {
    const char *name; /* "brgconv:avx512_core_bf16", for traces and --explain */
    size_t scratch_bytes;
    uint64_t flops; /* 1 MAC = 2 */
    int waits;      /* 1: run() waits for the stream, so that what it is in cannot be captured */
    /* Per operand: bytes of its packed form and a text that identifies the form, so that two kernels
     * with equal texts share one packed copy. packed_bytes 0: used as it is stored, in in[i].dtype. */
    size_t packed_bytes[OP_MAX_IN];
    char pack_form[OP_MAX_IN][96];
    /* Per operand: the type whose stored bytes pack() takes as they are (they are packed_bytes then); 0: none. On
     * devices that are not the host packing is a plain copy of them, so that they may be read from the file straight to
     * where the packed ones go. */
    uint32_t pack_copies[OP_MAX_IN];
    uint8_t pack_rows_as[OP_MAX_IN]; /* 1: packed is what in[i].rows says; pack() is not called */
    /* Fills dst, packed_bytes of HOST memory, which is then copied to the device as it is.
     * src: the dense tensor in f32 | f16 | bf16 as `src_dtype`, or in pack_copies' type, any alignment; its shape is
     * in[i].shape. */
    kiln_status (*pack)(const kernel *, uint32_t operand, const void *src, uint32_t src_dtype, void *dst, pool *,
                        error *);
    /* Host devices: what packing an operand takes beside its source and dst, for each of at most pack_tiles workers (0:
     * nothing), and packing with that much at hand: `scratch` is 64-byte aligned and holds it for min(pool_threads,
     * pack_tiles) of them. NULL where pack() needs none. */
    size_t pack_scratch[OP_MAX_IN], pack_tiles[OP_MAX_IN];
    kiln_status (*pack_in)(const kernel *, uint32_t operand, const void *src, uint32_t src_dtype, void *dst,
                           void *scratch, pool *, error *);
    /* The same from rows, of operands that have pack_tiles; NULL: from memory alone. */
    kiln_status (*pack_rows)(const kernel *, uint32_t operand, const row_source *src, void *dst, void *scratch, pool *,
                             error *);
    kiln_status (*run)(const kernel *, const kernel_args *, error *);
    void (*free)(kernel *);
};

/* kiln_ops' vector ops on f32 vectors in the device's memory, enqueued on `stream`. None uses fused operations, so that
 * a device computes the bytes that the host does; only dot() adds up in an order of its own. Arguments were checked,
 * and there is something to compute. */
typedef struct {
    kiln_status (*combine)(float *out, size_t n, uint32_t terms, const double *c, const float *const *x,
                           device_stream *stream, error *);
    kiln_status (*add_difference)(const kiln_difference *, float *out, device_stream *stream, error *);
    kiln_status (*dot)(const kiln_dot *, double *out, device_stream *stream, error *); /* out: the device's */
    kiln_status (*blend)(const kiln_blend *, float *out, device_stream *stream, error *);
    kiln_status (*crop)(const kiln_area *, const float *x, float *out, device_stream *stream, error *);
    kiln_status (*accumulate)(const kiln_area *, const kiln_part *, float *sum, float *total, device_stream *stream,
                              error *);
    kiln_status (*divide)(float *x, const float *total, size_t cells, size_t channels, device_stream *stream, error *);
    /* For asynchronous devices alone: rows of `columns` numbers, ld elements apart, of any real type, become dense f32.
     */
    kiln_status (*to_f32)(float *out, const void *src, uint32_t dtype, int64_t rows, int64_t columns, int64_t ld,
                          device_stream *stream, error *);
} device_vector_ops;

typedef struct backend {
    const char *name;
    uint32_t device;
    /* What this machine offers: "avx512_core_bf16", ... for people. */
    const char *(*features)(void);
    /* What decides the bits of a result here beside the precision ("avx512_core_bf16, products f32"): part of result
     * keys. */
    const char *(*numerics)(void);
    /* The precision that is worth using here without being asked (16 bits need the instructions). After open. */
    uint32_t (*best_precision)(void);
    uint32_t precisions; /* those that programs may have here: 1u << KILN_F32 | ... */
    int parts_are_exact; /* kiln_ops.parts_are_exact; 0 also where nobody has looked */
    /* The device to compute on, opened once (the same each time); kept until the process ends or close. index: which
     * of several. KILN_ERR_UNSUPPORTED with a sentence when there is none. */
    kiln_status (*open)(unsigned index, memory_device **out, error *);
    /* After open. KILN_ERR_UNSUPPORTED with a sentence when there is no kernel for it. */
    kiln_status (*prepare)(const op_desc *, kernel **out, error *);
    /* 1: prepare() has a kernel for this op as fuse.h's rules that ask would make it: a conv2d whose
     * attr.conv2d.upsampled is set, a grouped_linear of rows by number. NULL: for none. After open. */
    int (*takes)(const op_desc *);
    const device_vector_ops *vector_ops; /* NULL: vectors stay on the host */
    int (*has)(op_kind);                 /* 1: a kernel of its own for some operands of this op */
} backend;

extern const backend backend_cpu;       /* backend/cpu/                                  */
extern const backend backend_reference; /* backend/reference/: plain C, each op's specification */
/* By name ("cpu", "reference") or NULL. */
const backend *backend_find(const char *name);

/* Shape rules and FLOP counts are the op's, not the backend's: graph/shape_rules.h. */

#endif
