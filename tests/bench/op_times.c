/* op_times.c - how long each op of a model takes on a device: a denoiser's and a decoder's programs are planned as a
 * run plans them, and each op that differs from the others is run by itself, twenty times in one graph over operands
 * that take turns, so that none is still in the device's cache.
 *
 *     op_times PLUGINS MODEL SIDE f32|bf16|f16 [DEVICE [WORD [plan]]]     SIDE: of the picture in pixels; a batch of
 * two
 *
 * Prints lines of PART, COUNT, KERNEL, OP, MICROSECONDS, GFLOP, MB, SIZE, SHADOW with tabs between them (PART: "unet"
 * or "decode"; COUNT: how many such ops the program has; GFLOP and MB of one: operations, and operands read and written
 * once; SIZE: the root mean square of its result; SHADOW: its result times a fixed vector of signs, over the root of
 * the sum of its squares: two results that differ by a share e have shadows some e apart), and at the end of a part
 * "PART sum" with the sums over all. WORD: those ops alone in whose text it is. Which way of making products a GPU
 * takes is KILN_CUDA_GEMM's. plan: nothing is run, and what would come of running is 0. Weights are random: a model's
 * file is looked at for names and shapes alone.
 */
#include "backend/choose.h"
#include "base/memory_alloc.h"
#include "plugin/abilities.h"
#include "plugin/catalog.h"
#include "plugin/ctx.h"
#include "rig.h"
#include "tensor/dtype.h"
#include "weights/weights.h"

#include <math.h>
#include <time.h>

enum { DIFFERENT_MAX = 4096, INPUTS_MAX = 16, IN_GRAPH = 20, TURNS = 5, TEXT_TOKENS = 77 };
static const size_t PAST_CACHE = (size_t)128 << 20; /* bytes of operands that no device's cache holds */
static const double LEAST_SECONDS = 2e-3;           /* of a measurement */
static const double SLOW_SECONDS = 10e-3;           /* of an op that is not run often */

static const backend *real;
static backend listening;
static struct {
    op_desc op[DIFFERENT_MAX];
    unsigned count[DIFFERENT_MAX];
    size_t n;
    int on;
} seen;

static int stop(const char *what, const char *why)
{
    fprintf(stderr, "op_times: %s: %s\n", what, why);
    exit(1);
}

/* ---- the ops of a program ---- */

static kiln_status listen(const op_desc *d, kernel **out, error *e)
{
    size_t i = 0;
    while (i < seen.n && memcmp(&seen.op[i], d, sizeof *d) != 0) i++;
    if (seen.on && i < DIFFERENT_MAX) {
        if (i == seen.n) seen.op[seen.n++] = *d;
        seen.count[i]++;
    }
    return real->prepare(d, out, e);
}

static kiln_value *open_model(kiln_weights *set, const char *kind)
{
    const kiln_model_family *f = model_api.detect(kind, set);
    kiln_value *v = f ? f->open(rig_host(), rig_ctx(), set) : NULL;
    if (!v) stop("model", f ? rig_message() : "no family knows it");
    return v;
}

static kiln_program *fresh(const char *name)
{
    kiln_program *p =
        ops_api.program_new(rig_ctx(), &(kiln_program_options){.size = sizeof(kiln_program_options), .name = name});
    if (!p) stop(name, rig_message());
    return p;
}

/* Planning prepares the kernels of all its ops. */
static kiln_program *planned(kiln_program *p, const char *name, kiln_t result)
{
    ops_api.output(p, "result", result);
    seen.n = 0, seen.on = 1;
    memset(seen.count, 0, sizeof seen.count);
    if (ops_api.plan(&rig_call, p, NULL) != KILN_OK) stop(name, rig_message());
    seen.on = 0;
    return p;
}

static kiln_t input_of(kiln_program *p, const kiln_input_spec *s, int64_t cells)
{
    const int64_t tokens[3] = {2, TEXT_TOKENS, s->width}, latent[4] = {2, cells, cells, s->width};
    switch (s->kind) {
    case KILN_INPUT_TOKENS: return ops_api.input(p, s->name, KILN_F32, 3, tokens);
    case KILN_INPUT_VECTOR: return ops_api.input(p, s->name, KILN_F32, 2, (const int64_t[]){2, s->width});
    case KILN_INPUT_SCALAR: return ops_api.input(p, s->name, KILN_F32, 1, (const int64_t[]){2});
    case KILN_INPUT_LATENT:
    case KILN_INPUT_MASK: return ops_api.input(p, s->name, KILN_F32, 4, latent);
    default: stop(s->name, "an input of a kind that is not known here"); return (kiln_t){0};
    }
}

static kiln_program *denoiser_program(kiln_value *v, int64_t side)
{
    const kiln_model *m = model_api.model(rig_ctx(), v);
    const kiln_denoiser *d = m->denoiser;
    const int64_t cells = side / 8;
    kiln_named_tensor named[INPUTS_MAX];
    kiln_program *p = fresh("unet");
    const int64_t dim[4] = {2, cells, cells, d->latent->channels}, batch = 2;
    kiln_denoise_inputs in = {.size = sizeof in,
                              .x = ops_api.input(p, "x", KILN_F32, 4, dim),
                              .timestep = ops_api.input(p, "timestep", KILN_F32, 1, &batch),
                              .input = named};
    for (uint32_t i = 0; i < d->n_input && in.n_input < INPUTS_MAX; i++) {
        const kiln_input_spec *s = (const void *)((const char *)d->input + (size_t)i * d->input_stride);
        if (s->flags & KILN_INPUT_OMITTED) continue;
        named[in.n_input++] =
            (kiln_named_tensor){.size = sizeof *named, .name = s->name, .tensor = input_of(p, s, cells)};
    }
    return planned(p, "unet", d->record(d, &ops_api, p, m->weights, &in));
}

static kiln_program *decoder_program(kiln_value *v, int64_t side)
{
    const kiln_vae *m = model_api.vae(rig_ctx(), v);
    const int64_t dim[4] = {1, side / 8, side / 8, m->autoencoder->latent->channels};
    kiln_program *p = fresh("decode");
    kiln_t latent = ops_api.input(p, "latent", KILN_F32, 4, dim);
    return planned(p, "decode", m->autoencoder->record_decode(m->autoencoder, &ops_api, p, m->weights, latent));
}

/* ---- one op by itself ---- */

/* Its operands on the device, several sets of them. */
typedef struct {
    memory_device *device;
    device_stream *stream;
    void *held[IN_GRAPH * (OP_MAX_IN + OP_MAX_MORE + 2)];
    size_t n;
    error e;
} place;

static int is_apart(const place *p) { return p->device->table->asynchronous != 0; }

static void leave(place *p)
{
    while (p->n) p->device->table->release(p->device, p->held[--p->n]);
}

static void *room(place *p, size_t bytes)
{
    if (p->device->table->alloc(p->device, bytes ? bytes : 64, &p->held[p->n], &p->e) != KILN_OK)
        stop("operands", p->e.message);
    return p->held[p->n++];
}

/* The bytes on the device. */
static void *there(place *p, const void *data, size_t bytes)
{
    const device_table *t = p->device->table;
    void *to = room(p, bytes), *locked = NULL;
    if (t->host_alloc(p->device, bytes ? bytes : 64, &locked, &p->e) != KILN_OK) stop("operands", p->e.message);
    memcpy(locked, data, bytes);
    if (t->copy_in(p->device, to, locked, bytes, p->stream, &p->e) != KILN_OK ||
        t->sync(p->device, p->stream, &p->e) != KILN_OK)
        stop("operands", p->e.message);
    t->host_release(p->device, locked);
    return to;
}

/* Numbers between -1 and 1, of which none is special. */
static float *numbers(size_t n)
{
    float *x = mem_alloc((n ? n : 1) * sizeof *x);
    uint32_t state = 1;
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(state >> 8) * 0x1p-23f - 1;
    }
    return x;
}

static size_t elements(const operand_desc *d)
{
    size_t n = (size_t)shape_count(&d->shape), columns = d->shape.rank ? (size_t)d->shape.dim[d->shape.rank - 1] : 1;
    return columns ? n / columns * (size_t)(d->ld > 0 ? d->ld : (int64_t)columns) : 0;
}

static size_t bytes_of(const operand_desc *d)
{
    size_t bytes = 0;
    if (d->dtype) dtype_bytes(d->dtype, elements(d), &bytes);
    return bytes;
}

/* An operand's bytes as the kernel takes them; mem_free() them. Whole numbers are 0: the first row of a table. */
static void *operand(const op_desc *one, const kernel *k, uint32_t i, size_t *bytes)
{
    const operand_desc *d = &one->in[i];
    const int whole = d->dtype == KILN_I32;
    error e = {0};
    size_t n = elements(d);
    *bytes = k->packed_bytes[i] ? k->packed_bytes[i] : bytes_of(d);
    void *made = mem_aligned(64, *bytes + 64);
    memset(made, 0, *bytes);
    if (whole || !n) return made;
    float *x = numbers(n);
    const uint32_t copied = k->pack_copies[i];
    if (k->packed_bytes[i] && copied && !dtype_is_block(copied)) {
        if (dtype_convert(made, copied, x, KILN_F32, n) != KILN_OK) memset(made, 1, *bytes);
    } else if (k->packed_bytes[i]) {
        if (k->pack(k, i, x, KILN_F32, made, runtime_pool(rig_runtime), &e) != KILN_OK) stop(k->name, e.message);
    } else if (dtype_convert(made, d->dtype, x, KILN_F32, n) != KILN_OK) {
        memset(made, 1, *bytes); /* blocks and f8, whose numbers do not matter */
    }
    mem_free(x);
    return made;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void enqueue(const kernel *k, const kernel_args *call, size_t sets, size_t n, place *p)
{
    for (size_t i = 0; i < n; i++)
        if (k->run(k, &call[i % sets], &p->e) != KILN_OK) stop(k->name, p->e.message);
}

static void done(const kernel *k, place *p)
{
    if (is_apart(p) && p->device->table->sync(p->device, p->stream, &p->e) != KILN_OK) stop(k->name, p->e.message);
}

/* Seconds of one run of it, the fastest of a few measurements. */
static double measure(const kernel *k, const kernel_args *call, size_t sets, place *p)
{
    const device_table *t = p->device->table;
    device_graph *graph = NULL;
    double best = 0, once = 0;
    for (int i = 0; i < 2; i++) { /* the first call chooses and loads */
        double begin = now();
        enqueue(k, call, sets, 1, p);
        done(k, p);
        once = now() - begin;
    }
    const size_t n = once > SLOW_SECONDS ? 1 : IN_GRAPH; /* an emulation, or a large op of a processor */
    const int turns = once > SLOW_SECONDS ? 1 : TURNS;
    if (t->capture_begin && !k->waits) {
        if (t->capture_begin(p->device, p->stream, &p->e) != KILN_OK) stop(k->name, p->e.message);
        enqueue(k, call, sets, n, p);
        if (t->capture_end(p->device, p->stream, &graph, &p->e) != KILN_OK) stop(k->name, p->e.message);
    }
    for (int turn = 0, launches = 1; turn < turns;) {
        double begin = now();
        for (int i = 0; i < launches; i++) {
            if (!graph) enqueue(k, call, sets, n, p);
            if (graph && t->graph_launch(p->device, graph, p->stream, &p->e) != KILN_OK) stop(k->name, p->e.message);
        }
        done(k, p);
        double seconds = now() - begin;
        if (is_apart(p) && seconds < LEAST_SECONDS && launches < 1024) { /* too short to be measured well */
            launches *= 4;
            continue;
        }
        seconds /= launches * (double)n;
        if (!turn++ || seconds < best) best = seconds;
    }
    if (graph) t->graph_free(p->device, graph);
    return best;
}

/* What the last run made, in two numbers; of whole numbers 0. */
typedef struct {
    double size, shadow;
} summary;

static summary summary_of(const operand_desc *d, const void *out, place *p)
{
    const device_table *t = p->device->table;
    const size_t n = elements(d), columns = (size_t)d->shape.dim[d->shape.rank - 1];
    void *locked = NULL;
    if (d->dtype == KILN_I32 || !n) return (summary){0};
    if (t->host_alloc(p->device, bytes_of(d), &locked, &p->e) != KILN_OK ||
        t->copy_out(p->device, locked, out, bytes_of(d), p->stream, &p->e) != KILN_OK ||
        t->sync(p->device, p->stream, &p->e) != KILN_OK)
        stop("result", p->e.message);
    float *x = mem_alloc(n * sizeof *x);
    if (dtype_convert(x, KILN_F32, locked, d->dtype, n) != KILN_OK) stop("result", dtype_name(d->dtype));
    double squares = 0, product = 0;
    uint32_t state = 7;
    size_t counted = 0;
    for (size_t i = 0; i < n; i++) {
        if (d->ld > 0 && i % (size_t)d->ld >= columns) continue; /* between rows */
        state = state * 1664525u + 1013904223u;
        squares += (double)x[i] * x[i], product += state >> 31 ? x[i] : -x[i], counted++;
    }
    mem_free(x);
    t->host_release(p->device, locked);
    return (summary){sqrt(squares / (double)counted), squares > 0 ? product / sqrt(squares) : 0};
}

/* ---- the table ---- */

static size_t text_of(const op_desc *one, char *out, size_t size)
{
    size_t n = (size_t)snprintf(out, size, "%s", op_name(one->kind));
    for (uint32_t i = 0; i <= one->n_in && n < size; i++) {
        const operand_desc *d = i < one->n_in ? &one->in[i] : &one->out;
        n += (size_t)snprintf(out + n, size - n, "%s", i == one->n_in ? " ->" : "");
        if (!d->dtype || n >= size) continue;
        n += (size_t)snprintf(out + n, size - n, " ");
        for (uint32_t k = 0; k < d->shape.rank && n < size; k++)
            n += (size_t)snprintf(out + n, size - n, k ? "x%lld" : "%lld", (long long)d->shape.dim[k]);
    }
    if (one->kind == OP_ATTENTION && n < size)
        n += (size_t)snprintf(out + n, size - n, ", %u heads", (unsigned)one->attr.attention.heads);
    static const char *const after[] = {" +act", " +geglu", " +residual", " +upsampled"};
    const uint32_t has[] = {one->epilogue.act, one->epilogue.geglu, one->epilogue.residual,
                            one->kind == OP_CONV2D && one->attr.conv2d.upsampled.rows};
    for (int i = 0; i < 4; i++)
        if (has[i] && n < size) n += (size_t)snprintf(out + n, size - n, "%s", after[i]);
    return n;
}

typedef struct {
    double microseconds, gflop, megabytes;
} cost;

static cost planned_row(const char *part, const op_desc *one, unsigned count, place *p)
{
    char text[512];
    kernel *k = NULL;
    text_of(one, text, sizeof text);
    if (real->prepare(one, &k, &p->e) != KILN_OK) stop(text, p->e.message);
    size_t all = bytes_of(&one->out);
    for (uint32_t i = 0; i < one->n_in; i++)
        if (one->in[i].dtype) all += one->in[i].weight ? k->packed_bytes[i] : bytes_of(&one->in[i]);
    cost c = {0, (double)k->flops * 1e-9, (double)all * 1e-6};
    printf("%s\t%u\t%s\t%s\t0\t%.6g\t%.6g\t0\t0\n", part, count, k->name, text, c.gflop, c.megabytes);
    k->free(k);
    return (cost){0, c.gflop * count, c.megabytes * count};
}

static cost row(const char *part, const op_desc *one, unsigned count, place *p)
{
    char text[512];
    kernel *k = NULL;
    static kernel_args call[IN_GRAPH];
    text_of(one, text, sizeof text);
    if (real->prepare(one, &k, &p->e) != KILN_OK) stop(text, p->e.message);
    void *data[OP_MAX_IN] = {0}, *scratch = room(p, k->scratch_bytes);
    size_t bytes[OP_MAX_IN] = {0}, all = bytes_of(&one->out);
    for (uint32_t i = 0; i < one->n_in; i++) {
        if (one->in[i].dtype) data[i] = operand(one, k, i, &bytes[i]);
        all += bytes[i];
    }
    size_t sets = all ? PAST_CACHE / all + 1 : 1;
    if (sets > IN_GRAPH) sets = IN_GRAPH;
    for (size_t s = 0; s < sets; s++) {
        call[s] = (kernel_args){.scratch = scratch, .stream = p->stream, .pool = runtime_pool(rig_runtime)};
        for (uint32_t i = 0; i < one->n_in; i++)
            if (data[i]) call[s].in[i] = there(p, data[i], bytes[i]);
        call[s].out = room(p, bytes_of(&one->out));
        for (uint32_t i = 0; i < one->n_more; i++) call[s].more[i] = room(p, bytes_of(&one->more[i]));
    }
    cost c = {measure(k, call, sets, p) * 1e6, (double)k->flops * 1e-9, (double)all * 1e-6};
    summary made = summary_of(&one->out, call[0].out, p);
    printf("%s\t%u\t%s\t%s\t%.3f\t%.6g\t%.6g\t%.5g\t%.5f\n", part, count, k->name, text, c.microseconds, c.gflop,
           c.megabytes, made.size, made.shadow);
    fflush(stdout);
    for (uint32_t i = 0; i < OP_MAX_IN; i++) mem_free(data[i]);
    leave(p);
    k->free(k);
    return (cost){c.microseconds * count, c.gflop * count, c.megabytes * count};
}

static void table(const char *part, const char *word, int plan, place *p)
{
    cost sum = {0};
    unsigned n = 0;
    for (size_t i = 0; i < seen.n; i++) {
        char text[512];
        text_of(&seen.op[i], text, sizeof text);
        if (!strstr(text, word)) continue;
        cost c = (plan ? planned_row : row)(part, &seen.op[i], seen.count[i], p);
        sum.microseconds += c.microseconds, sum.gflop += c.gflop, sum.megabytes += c.megabytes;
        n += seen.count[i];
    }
    printf("%s sum\t%u\t\t\t%.3f\t%.6g\t%.6g\t\t\n", part, n, sum.microseconds, sum.gflop, sum.megabytes);
}

int main(int argc, char **argv)
{
    error e = {0};
    place p = {0};
    int64_t side = argc > 3 ? atoll(argv[3]) : 0;
    uint32_t type = argc > 4 ? dtype_from_name(argv[4]) : 0;
    if (argc < 5 || argc > 8 || (argc == 8 && strcmp(argv[7], "plan") != 0) || side < 64 || side % 64 || !type)
        return fprintf(
                   stderr,
                   "usage: op_times PLUGINS MODEL SIDE f32|bf16|f16 [DEVICE [WORD [plan]]]; SIDE: a multiple of 64\n"),
               2;
    rig_ctx();
    runtime_free(rig_runtime);
    runtime_setting setting = {.precision = type};
    if (backend_choose(argc > 5 ? argv[5] : "cpu", &real, &setting.device_index, &e) != KILN_OK)
        stop("device", e.message);
    listening = *real;
    listening.prepare = listen;
    setting.backend = &listening;
    rig_runtime = runtime_new(&setting, &e);
    if (!rig_runtime || real->open(setting.device_index, &p.device, &e) != KILN_OK) stop("device", e.message);
    if (is_apart(&p) && p.device->table->stream_new(p.device, &p.stream, &e) != KILN_OK) stop("device", e.message);
    rig_environment = (call_environment){.runtime = rig_runtime, .pool = runtime_pool(rig_runtime)};
    catalog *c = catalog_open(argv[1], &e);
    kiln_weights *set = weights_open(argv[2], &e);
    if (!c || !set) stop("cannot open", e.message);
    fprintf(stderr, "%s\n", p.device->table->name(p.device));
    const char *word = argc > 6 ? argv[6] : "";
    kiln_value *unet = open_model(set, KILN_FAMILY_DENOISER), *vae = open_model(set, KILN_FAMILY_AUTOENCODER);
    kiln_program *program = denoiser_program(unet, side);
    table("unet", word, argc > 7, &p);
    ops_api.program_free(program);
    program = decoder_program(vae, side);
    table("decode", word, argc > 7, &p);
    ops_api.program_free(program);
    if (p.stream) p.device->table->stream_free(p.device, p.stream);
    engine_host.unref(unet), engine_host.unref(vae);
    weights_unref(set);
    catalog_close(c);
    return 0;
}
