/* check_op.c - see check_op.h. Each example of the op is recorded, and run on the processor by 1 to 4 threads, in each
 * of its types, with guards round what it writes and operands that must stay as they are, or are slices; what it
 * computes is held against its reference on the same numbers. On a device that was asked for, a program of the op alone
 * does the same.
 */
#include "cli/check_op.h"

#include "backend/custom_kernel.h"
#include "backend/runtime.h"
#include "base/memory_alloc.h"
#include "base/print.h"
#include "cli/sample_values.h"
#include "graph/custom.h"
#include "tensor/dtype.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 256, THREADS = 4, DEVICE_RUNS = 4, APART = 3 };
static const unsigned char poison = 0xFF, guard = 0xA5; /* poison as floats: NaN */

typedef struct {
    const kiln_op_kind *kind;
    const kiln_op_example *example;
    const check_device *on; /* NULL: the processor alone */
    check_counts counts;
    recording r;
    kiln_t out[KILN_OP_RESULTS];
} check;

/* What one run reads and writes. GUARD bytes stand before a result; behind it stand as many as an op writes that takes
 * its results for numbers four times as wide (f64 for f16), so that such an op is told and does not break the check's
 * own memory. An operand has as many behind it. */
typedef struct {
    void *in[KILN_OP_OPERANDS], *out[KILN_OP_RESULTS];
    size_t in_bytes[KILN_OP_OPERANDS], out_bytes[KILN_OP_RESULTS];
} buffers;

__attribute__((format(printf, 3, 4))) static int failed(check *c, const char *test, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return check_found(&c->counts, 0, test, "%s: %s", c->example ? c->example->name : "", text);
}

static const kiln_op_example *example_at(const kiln_op_kind *k, uint32_t i)
{
    return (const kiln_op_example *)(const void *)((const char *)k->example + (size_t)i * k->example_stride);
}

/* ---- operands ---- */

static double drawn(uint64_t *state, double low, double high) { return low + (high - low) * sample_share(state); }

/* n numbers of operand i, rounded to `rounded` first, as `dtype`. */
static void fill(const check *c, uint32_t i, uint32_t dtype, uint32_t rounded, size_t n, void *to)
{
    const kiln_op_operand *o = &c->example->in[i];
    uint64_t state = 99 + i;
    for (size_t k = 0; k < n; k++) {
        float v = (float)drawn(&state, o->low, o->high);
        int32_t whole = (int32_t)floor(drawn(&state, o->low, o->high + 1));
        uint16_t narrow = 0;
        if (dtype == KILN_I32) {
            memcpy((char *)to + 4 * k, &whole, sizeof whole);
            continue;
        }
        if (rounded != KILN_F32) {
            dtype_convert(&narrow, rounded, &v, KILN_F32, 1);
            dtype_convert(&v, KILN_F32, &narrow, rounded, 1);
        }
        dtype_convert((char *)to + dtype_size(dtype) * k, dtype, &v, KILN_F32, 1);
    }
}

/* ---- recording ---- */

static const op *made(const check *c, uint32_t i) { return recorded(&c->r, c->out[i]); }

static int record_into(check *c, recording *r, uint32_t precision, kiln_t out[KILN_OP_RESULTS])
{
    kiln_t x[KILN_OP_OPERANDS] = {{0}};
    char name[16];
    const kiln_op_example *x_of = c->example;
    for (uint32_t i = 0; i < x_of->n_in; i++) {
        const kiln_op_operand *o = &x_of->in[i];
        snprintf(name, sizeof name, "x%u", i);
        if (o->dtype)
            x[i] = record_input(r, name, o->dtype == KILN_I32 ? (uint32_t)KILN_I32 : precision, o->rank, o->dim);
    }
    custom_what what = {.kind = c->kind, .attributes = x_of->attributes, .attribute_bytes = x_of->attribute_bytes};
    out[0] = record_custom(r, &what, x, x_of->n_in, out + 1);
    return r->failure.status == KILN_OK ? 1 : failed(c, "shape", "%s", r->failure.message);
}

static int record(check *c, uint32_t precision)
{
    error e = {0};
    if (recording_init(&c->r, c->kind->name, precision, &e) != KILN_OK) return failed(c, "record", "%s", e.message);
    return record_into(c, &c->r, precision, c->out);
}

static operand_desc dense(const op *o)
{
    int64_t ld = o->shape.rank ? o->shape.dim[o->shape.rank - 1] : 1;
    return (operand_desc){.dtype = o->dtype, .shape = o->shape, .ld = ld};
}

static op_desc describe(const check *c)
{
    const op *o = made(c, 0);
    op_desc d = {.kind = o->kind, .attr = o->attr, .n_in = o->n_in, .out = dense(o), .precision = o->precision};
    for (uint32_t i = 0; i < o->n_in; i++)
        if (o->in[i]) d.in[i] = dense(&c->r.op[o->in[i] - 1]);
    for (uint32_t i = 1; i < c->kind->n_out && o->kind == OP_CUSTOM; i++) d.more[d.n_more++] = dense(made(c, i));
    return d;
}

/* ---- running ---- */

static void buffers_free(buffers *b)
{
    for (int i = 0; i < KILN_OP_OPERANDS; i++) mem_free(b->in[i]);
    for (int i = 0; i < KILN_OP_RESULTS; i++) mem_free(b->out[i]);
}

static size_t behind(size_t bytes) { return GUARD + 3 * bytes; }

static int buffers_make(const check *c, const op_desc *d, uint32_t rounded, buffers *b)
{
    *b = (buffers){{0}, {0}, {0}, {0}};
    for (uint32_t i = 0; i < d->n_in; i++) {
        size_t n = d->in[i].dtype ? (size_t)shape_count(&d->in[i].shape) : 0;
        b->in_bytes[i] = n * dtype_size(d->in[i].dtype);
        if (!n) continue;
        if (!(b->in[i] = mem_alloc(b->in_bytes[i] + behind(b->in_bytes[i])))) return 0;
        memset(b->in[i], guard, b->in_bytes[i] + behind(b->in_bytes[i]));
        fill(c, i, d->in[i].dtype, rounded, n, b->in[i]);
    }
    for (uint32_t i = 0; i <= d->n_more; i++) {
        const operand_desc *o = i ? &d->more[i - 1] : &d->out;
        b->out_bytes[i] = (size_t)shape_count(&o->shape) * dtype_size(o->dtype);
        size_t whole = GUARD + b->out_bytes[i] + behind(b->out_bytes[i]);
        if (!(b->out[i] = mem_aligned(64, whole))) return 0;
        memset(b->out[i], guard, whole);
        memset((char *)b->out[i] + GUARD, poison, b->out_bytes[i]);
    }
    return 1;
}

static int guards_whole(const buffers *b)
{
    for (int i = 0; i < KILN_OP_RESULTS; i++) {
        const unsigned char *p = b->out[i];
        for (size_t k = 0; p && k < GUARD; k++)
            if (p[k] != guard) return 0;
        for (size_t k = 0; p && k < behind(b->out_bytes[i]); k++)
            if (p[GUARD + b->out_bytes[i] + k] != guard) return 0;
    }
    return 1;
}

static int operands_kept(const check *c, const op_desc *d, uint32_t rounded, const buffers *b)
{
    for (uint32_t i = 0; i < d->n_in; i++) {
        for (size_t k = 0; b->in[i] && k < behind(b->in_bytes[i]); k++)
            if (((const unsigned char *)b->in[i])[b->in_bytes[i] + k] != guard) return 0;
        void *again = b->in_bytes[i] ? mem_alloc(b->in_bytes[i]) : NULL;
        if (!again) continue;
        fill(c, i, d->in[i].dtype, rounded, (size_t)shape_count(&d->in[i].shape), again);
        int same = memcmp(again, b->in[i], b->in_bytes[i]) == 0;
        mem_free(again);
        if (!same) return 0;
    }
    return 1;
}

/* One thread has one workspace, the first: what lies behind it in the scratch memory nobody wrote. */
static int workspace_kept(const op_desc *d, const void *scratch, size_t bytes)
{
    if (d->kind != OP_CUSTOM) return 1;
    const kiln_op_kind *k = &d->attr.custom->kind;
    custom_call call;
    error e = {0};
    custom_call_of(&call, d, NULL, KILN_CPU, &e);
    size_t at = custom_dense_bytes(d) + (k->tile && k->workspace ? k->workspace(&call.call) : 0);
    for (; at < bytes; at++)
        if (((const unsigned char *)scratch)[at] != poison) return 0;
    return 1;
}

static kiln_status run_kernel(const op_desc *d, const buffers *b, const backend *on, unsigned threads, error *e)
{
    kernel *k = NULL;
    kernel_args a = {.pool = threads ? pool_new(threads) : NULL, .out = (char *)b->out[0] + GUARD};
    for (uint32_t i = 0; i < d->n_in; i++) a.in[i] = b->in[i];
    for (uint32_t i = 0; i < d->n_more; i++) a.more[i] = (char *)b->out[i + 1] + GUARD;
    kiln_status status = on->prepare(d, &k, e);
    size_t room = k ? k->scratch_bytes : 0;
    if (status == KILN_OK && !(a.scratch = mem_aligned(64, room + behind(room))))
        status = error_set(e, KILN_ERR_NOMEM, "not enough memory");
    if (a.scratch) memset(a.scratch, poison, room + behind(room));
    if (status == KILN_OK) status = k->run(k, &a, e);
    if (status == KILN_OK && threads == 1 && !workspace_kept(d, a.scratch, room + behind(room)))
        status = error_set(e, KILN_ERR_INVALID, "it wrote beyond the bytes that workspace() says");
    mem_free(a.scratch);
    if (k) k->free(k);
    if (a.pool) pool_free(a.pool);
    return status;
}

/* The plugin's reference in f32, on operands rounded to `rounded`. */
static int run_reference(check *c, uint32_t rounded, op_desc *d, buffers *b)
{
    custom_op o = {.attributes = c->example->attributes, .attribute_bytes = c->example->attribute_bytes};
    custom_call call;
    error e = {0};
    KILN_READ(&o.kind, c->kind, absolute);
    if (!record(c, KILN_F32)) return 0;
    *d = describe(c);
    if (!buffers_make(c, d, rounded, b)) return failed(c, "memory", "not enough");
    custom_call_make(&call, &o, KILN_CPU, &e);
    for (uint32_t i = 0; i < d->n_in; i++) custom_call_in(&call, i, d->in[i].dtype, &d->in[i].shape, b->in[i]);
    custom_call_out(&call, 0, d->out.dtype, &d->out.shape, (char *)b->out[0] + GUARD);
    for (uint32_t i = 0; i < d->n_more; i++)
        custom_call_out(&call, i + 1, d->more[i].dtype, &d->more[i].shape, (char *)b->out[i + 1] + GUARD);
    if (c->kind->reference(&call.call) != KILN_OK)
        return failed(c, "reference", "%s", e.message[0] ? e.message : "it failed without a word");
    if (!guards_whole(b)) return failed(c, "reference", "it wrote beyond its results");
    if (!operands_kept(c, d, rounded, b)) return failed(c, "reference", "it changed an operand");
    return 1;
}

/* ---- comparing ---- */

static double number(const operand_desc *d, const void *data, size_t i)
{
    float v = 0;
    int32_t whole;
    if (d->dtype == KILN_I32) return memcpy(&whole, (const char *)data + 4 * i, sizeof whole), (double)whole;
    dtype_convert(&v, KILN_F32, (const char *)data + dtype_size(d->dtype) * i, d->dtype, 1);
    return (double)v;
}

static int near_enough(check *c, const char *test, const operand_desc *x, const void *got, const operand_desc *y,
                       const void *wanted)
{
    size_t n = (size_t)shape_count(&x->shape);
    double square = 0, narrow = x->dtype == KILN_F32 || x->dtype == KILN_I32 ? 0 : 0x1p-7;
    for (size_t i = 0; i < n; i++) square += number(y, wanted, i) * number(y, wanted, i);
    double rms = sqrt(square / (double)n);
    for (size_t i = 0; i < n; i++) {
        double a = number(x, got, i), b = number(y, wanted, i), size = fmax(fabs(b), rms);
        double bound = x->dtype == KILN_I32 ? 0 : c->kind->absolute + (c->kind->relative + narrow) * size;
        if (a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= bound) continue;
        return failed(c, test, "number %zu is %.9g, the reference says %.9g; %.3g apart, %.3g allowed", i, a, b,
                      fabs(a - b), bound);
    }
    return 1;
}

static int compare(check *c, const char *test, const op_desc *d, const buffers *got, const op_desc *e,
                   const buffers *wanted)
{
    for (uint32_t i = 0; i <= d->n_more; i++) {
        const operand_desc *x = i ? &d->more[i - 1] : &d->out, *y = i ? &e->more[i - 1] : &e->out;
        if (!shape_equal(&x->shape, &y->shape))
            return failed(c, test, "its shape depends on the type that the program computes in");
        if (!near_enough(c, test, x, (const char *)got->out[i] + GUARD, y, (const char *)wanted->out[i] + GUARD))
            return 0;
    }
    return 1;
}

/* The operand's numbers from the second of a block on, `apart` numbers between its rows. NULL: no memory. */
static char *as_view(operand_desc *o, const void *data, int64_t apart)
{
    const size_t width = dtype_size(o->dtype), count = (size_t)shape_count(&o->shape);
    const size_t columns = o->shape.rank ? (size_t)o->shape.dim[o->shape.rank - 1] : 1, rows = count / columns;
    const size_t ld = columns + (size_t)apart;
    char *block = mem_alloc((rows * ld + 1) * width);
    if (!block) return NULL;
    memset(block, poison, (rows * ld + 1) * width);
    for (size_t r = 0; r < rows; r++)
        memcpy(block + (1 + r * ld) * width, (const char *)data + r * columns * width, columns * width);
    o->ld = (int64_t)ld;
    return block;
}

/* Operands that are slices, as programs have them: they begin anywhere, and their rows may lie apart. An op's own code
 * gets the latter packed by the engine; an expression's kernel reads them where they lie. */
static int run_view(check *c, uint32_t type, int64_t apart, const buffers *wanted)
{
    op_desc d = describe(c), v = d;
    buffers b = {{0}, {0}, {0}, {0}};
    void *own[KILN_OP_OPERANDS] = {0};
    char *block[KILN_OP_OPERANDS] = {0};
    error e = {0};
    int fine = buffers_make(c, &d, type, &b);
    for (uint32_t i = 0; fine && i < d.n_in; i++)
        if (b.in[i]) {
            own[i] = b.in[i];
            fine = (block[i] = as_view(&v.in[i], own[i], apart)) != NULL;
            if (fine) b.in[i] = block[i] + dtype_size(d.in[i].dtype);
        }
    fine = fine && run_kernel(&v, &b, &backend_cpu, 2, &e) == KILN_OK;
    if (!fine) failed(c, "views", "%s", e.message[0] ? e.message : "not enough memory");
    for (uint32_t i = 0; fine && i <= d.n_more; i++)
        if (memcmp(wanted->out[i], b.out[i], b.out_bytes[i] + 2 * GUARD) != 0)
            fine = failed(c, "views", "other bytes where its operands are slices that %s",
                          apart ? "have their rows apart"
                                : "begin one number further on: memory is aligned to one number, no more");
    for (uint32_t i = 0; i < d.n_in; i++) {
        if (own[i]) b.in[i] = own[i];
        mem_free(block[i]);
    }
    buffers_free(&b);
    return fine;
}

/* Every number of threads: near the reference, equal bytes, nothing else touched. */
static int run_threads(check *c, uint32_t type, const op_desc *reference, const buffers *wanted)
{
    const char *test = dtype_name(type);
    buffers first = {{0}, {0}, {0}, {0}};
    op_desc d = describe(c);
    int fine = 1;
    for (unsigned threads = 1; threads <= THREADS && fine; threads++) {
        buffers b;
        error e = {0};
        fine = buffers_make(c, &d, type, &b) && run_kernel(&d, &b, &backend_cpu, threads, &e) == KILN_OK;
        if (!fine) failed(c, test, "%s", e.message[0] ? e.message : "not enough memory");
        if (fine && !guards_whole(&b)) fine = failed(c, test, "it wrote beyond its results");
        if (fine && !operands_kept(c, &d, type, &b)) fine = failed(c, test, "it changed an operand");
        if (fine && threads == 1) fine = compare(c, test, &d, &b, reference, wanted);
        for (uint32_t i = 0; fine && threads > 1 && i <= d.n_more; i++)
            if (memcmp(first.out[i], b.out[i], b.out_bytes[i] + 2 * GUARD) != 0)
                fine = failed(c, test, "other bytes with %u threads: tiles are not independent", threads);
        if (threads == 1)
            first = b;
        else
            buffers_free(&b);
    }
    fine = fine && run_view(c, type, 0, &first) && run_view(c, type, APART, &first);
    buffers_free(&first);
    if (fine) c->counts.passed++;
    return fine;
}

/* ---- on a device: a program of it alone, as a run has it: again and again, so that its launch is captured ---- */

static kiln_bind bound(const char *name, const operand_desc *d, void *data)
{
    return (kiln_bind)KILN_BIND(name, {.size = sizeof(kiln_tensor),
                                       .dtype = d->dtype,
                                       .device = KILN_CPU,
                                       .rank = d->shape.rank,
                                       .dim = d->shape.dim,
                                       .data = data});
}

static kiln_status run_program(kiln_program *p, const op_desc *d, const buffers *b, error *e)
{
    static const char *const in_name[KILN_OP_OPERANDS] = {"x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7"};
    static const char *const out_name[KILN_OP_RESULTS] = {"y0", "y1", "y2"};
    kiln_bind in[KILN_OP_OPERANDS], out[KILN_OP_RESULTS];
    size_t n_in = 0;
    TRY(program_plan(p, e));
    for (uint32_t i = 0; i < d->n_in; i++)
        if (d->in[i].dtype) in[n_in++] = bound(in_name[i], &d->in[i], b->in[i]);
    for (uint32_t i = 0; i <= d->n_more; i++)
        out[i] = bound(out_name[i], i ? &d->more[i - 1] : &d->out, (char *)b->out[i] + GUARD);
    kiln_status status = KILN_OK;
    for (int i = 0; i < DEVICE_RUNS && status == KILN_OK; i++) {
        for (uint32_t k = 0; k <= d->n_more; k++) memset((char *)b->out[k] + GUARD, poison, b->out_bytes[k]);
        status = program_run(p, in, n_in, out, d->n_more + 1, NULL, NULL, e);
    }
    return status;
}

static kiln_status on_device(check *c, uint32_t type, const op_desc *d, const buffers *b, error *e)
{
    runtime *rt = runtime_new(
        &(runtime_setting){.backend = c->on->backend, .device_index = c->on->index, .threads = 1, .precision = type},
        e);
    kiln_program *p = rt ? program_new(rt, c->kind->name, type, e) : NULL;
    kiln_t out[KILN_OP_RESULTS] = {{0}};
    char name[] = "y0";
    kiln_status status = p ? KILN_OK : KILN_ERR_UNSUPPORTED;
    if (p && !record_into(c, program_recording(p), type, out)) status = KILN_ERR_INVALID;
    for (uint32_t i = 0; status == KILN_OK && i <= d->n_more; i++, name[1]++)
        record_output(program_recording(p), name, out[i]);
    if (status == KILN_OK) status = run_program(p, d, b, e);
    if (p) program_free(p);
    if (rt) runtime_free(rt);
    return status;
}

static void check_on_device(check *c, uint32_t type, const op_desc *reference, const buffers *wanted)
{
    const char *test = type == KILN_F32 ? "device f32" : type == KILN_BF16 ? "device bf16" : "device f16";
    op_desc d = describe(c);
    buffers b = {{0}, {0}, {0}, {0}};
    error e = {0};
    int fine = buffers_make(c, &d, type, &b) && on_device(c, type, &d, &b, &e) == KILN_OK;
    if (!fine) failed(c, test, "%s", e.message[0] ? e.message : "it could not be run");
    if (fine && compare(c, test, &d, &b, reference, wanted)) c->counts.passed++;
    buffers_free(&b);
}

static void check_type(check *c, uint32_t type)
{
    op_desc d;
    buffers wanted = {{0}, {0}, {0}, {0}};
    if (run_reference(c, type, &d, &wanted)) {
        recording kept = c->r; /* d's attributes lie in it */
        if (record(c, type) && run_threads(c, type, &d, &wanted) && c->on) check_on_device(c, type, &d, &wanted);
        recording_free(&c->r);
        c->r = kept;
    }
    buffers_free(&wanted);
    recording_free(&c->r);
}

/* Without each operand in turn, and without attributes, shape() says no, or says a shape; it does not crash. */
static void check_left_out(check *c)
{
    kiln_op_example whole = *c->example, less;
    for (uint32_t i = 0; i <= whole.n_in; i++) {
        kiln_t x[KILN_OP_OPERANDS] = {{0}}, out[KILN_OP_RESULTS];
        char name[16];
        error e = {0};
        less = whole;
        if (i < whole.n_in)
            less.in[i].dtype = 0;
        else
            less.attributes = NULL, less.attribute_bytes = 0;
        if (recording_init(&c->r, c->kind->name, KILN_F32, &e) != KILN_OK) return;
        for (uint32_t k = 0; k < less.n_in; k++) {
            snprintf(name, sizeof name, "x%u", k);
            if (less.in[k].dtype) x[k] = record_input(&c->r, name, less.in[k].dtype, less.in[k].rank, less.in[k].dim);
        }
        custom_what what = {.kind = c->kind, .attributes = less.attributes, .attribute_bytes = less.attribute_bytes};
        if (!c->kind->expression) record_custom(&c->r, &what, x, less.n_in, out + 1);
        recording_free(&c->r);
    }
    c->counts.passed++;
}

static int example_is_sound(check *c)
{
    const kiln_op_example *x = c->example;
    if (x->size < sizeof *x || !x->name || x->n_in < 1 || x->n_in > c->kind->n_in)
        return c->example = NULL, failed(c, "examples", "one without its size, a name or operands");
    for (uint32_t i = 0; i < x->n_in; i++)
        if ((x->in[i].dtype && x->in[i].dtype != KILN_F32 && x->in[i].dtype != KILN_I32) ||
            (x->in[i].dtype && x->in[i].rank && !x->in[i].dim) || !(x->in[i].low <= x->in[i].high))
            return failed(c, "examples", "operand %u must be f32 or i32, with dimensions and low <= high", i);
    return 1;
}

check_counts check_op(const kiln_op_kind *kind, const check_device *on)
{
    check c = {.kind = kind, .on = on};
    kiln_op_kind known;
    KILN_READ(&known, kind, absolute);
    if (!KILN_HAS(kiln_op_kind, kind, example_stride) || !kind->n_example)
        return failed(&c, "examples", "it has none, so nothing of it can be tried; add kiln_op_kind.example"), c.counts;
    for (uint32_t i = 0; i < kind->n_example; i++) {
        c.example = example_at(kind, i);
        if (!example_is_sound(&c)) continue;
        check_type(&c, KILN_F32);
        if (kind->expression || kind->types >> KILN_BF16 & 1) check_type(&c, KILN_BF16);
        if (kind->expression || kind->types >> KILN_F16 & 1) check_type(&c, KILN_F16);
        check_left_out(&c);
    }
    if (!check_failures(&c.counts))
        check_holds(&c.counts, "op", "%u examples, against its reference%s%s", kind->n_example, on ? ", also on " : "",
                    on ? on->name : "");
    return c.counts;
}
