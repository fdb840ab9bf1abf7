/* check_fixture.c - see check_fixture.h. kiln.loading/1 knows how to record a network of each kind at its smallest
 * size. It is given a table of ops that is the engine's but for five functions: they count what is asked for, remember
 * the inputs, and run a program before it is thrown away, on numbers drawn at random. What was recorded last is its
 * result.
 */
#include "cli/check_fixture.h"

#include "base/memory_alloc.h"
#include "cli/inspect.h"
#include "cli/sample_values.h"
#include "kiln/kit.h"
#include "kiln/loading.h"
#include "plugin/abilities.h"
#include "tensor/value.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { INPUTS_MAX = 96, ASKED_MAX = 1 << 16, PROGRAMS_MAX = 4, ELEMENTS_MAX = 1 << 26 };

/* How far bf16 may be from f32, as a share of the result: each of the network's roundings is up to 2^-9 = 0.002 of a
 * number, they add up like noise, and a network that overflows or cancels is far beyond. */
#define BF16_ERROR 0.2

typedef struct {
    char name[64];
    uint32_t dtype, rank;
    int64_t dim[KILN_MAX_RANK];
    void *data;
} made_input;

static struct {
    kiln_ctx *ctx;
    uint32_t precision;
    made_input input[INPUTS_MAX];
    size_t n_input;
    struct {
        kiln_weights *set;
        char name[200];
        unsigned n;
    } * asked;
    size_t n_asked;
    struct {
        float *data;
        size_t n;
        int ran;
    } result[2][PROGRAMS_MAX]; /* in f32 and in bf16 */
    size_t n_program;
    char why[300]; /* a program could not be run */
} trial;

/* ---- the five functions ---- */

static kiln_program *new_program(kiln_ctx *c, const kiln_program_options *o)
{
    kiln_program_options here = {.size = sizeof here, .precision = trial.precision, .name = o ? o->name : NULL};
    for (size_t i = 0; i < trial.n_input; i++) mem_free(trial.input[i].data);
    trial.n_input = 0;
    for (size_t i = 0; i < trial.n_asked; i++) trial.asked[i].n = 0;
    trial.n_asked = 0;
    return ops_api.program_new(c, &here);
}

static kiln_t input(kiln_program *p, const char *name, uint32_t dtype, uint32_t rank, const int64_t *dim)
{
    kiln_t t = ops_api.input(p, name, dtype, rank, dim);
    if (trial.n_input == INPUTS_MAX || rank > KILN_MAX_RANK || !t.id) return t;
    made_input *in = &trial.input[trial.n_input++];
    *in = (made_input){.dtype = dtype, .rank = rank};
    snprintf(in->name, sizeof in->name, "%s", name);
    memcpy(in->dim, dim, rank * sizeof *dim);
    return t;
}

static void count(kiln_weights *set, const char *name)
{
    size_t i = 0;
    while (i < trial.n_asked && (trial.asked[i].set != set || strcmp(trial.asked[i].name, name) != 0)) i++;
    if (i == ASKED_MAX) return;
    if (i == trial.n_asked) {
        trial.asked[trial.n_asked].set = set, trial.asked[i].n = 0;
        snprintf(trial.asked[trial.n_asked++].name, sizeof trial.asked[i].name, "%s", name);
    }
    trial.asked[i].n++;
}

static kiln_t weight(kiln_program *p, kiln_weights *set, const char *name, uint32_t rank, const int64_t *dim)
{
    count(set, name);
    return ops_api.weight(p, set, name, rank, dim);
}

static kiln_t weight_optional(kiln_program *p, kiln_weights *set, const char *name, uint32_t rank, const int64_t *dim)
{
    kiln_t t = ops_api.weight_optional(p, set, name, rank, dim);
    if (t.id) count(set, name);
    return t;
}

static size_t elements(uint32_t rank, const int64_t *dim)
{
    size_t n = 1;
    for (uint32_t i = 0; i < rank; i++)
        if (__builtin_mul_overflow(n, (size_t)dim[i], &n) || n > ELEMENTS_MAX) return 0;
    return n;
}

/* Normal numbers, the same in both types; integers 1, which is in every table and no length beyond its tokens. */
static int fill(made_input *in)
{
    size_t n = elements(in->rank, in->dim);
    if (!n || !(in->data = mem_alloc(n * sizeof(float)))) return 0;
    uint64_t state = n;
    for (size_t i = 0; i < n; i++) {
        if (in->dtype == KILN_I32) {
            ((int32_t *)in->data)[i] = 1;
            continue;
        }
        double sum = -6; /* of twelve uniform numbers */
        for (int k = 0; k < 12; k++) sum += sample_share(&state);
        ((float *)in->data)[i] = (float)sum;
    }
    return 1;
}

/* The value that was recorded last; {0}: there is none. */
static kiln_t last_of(kiln_program *p, int64_t dim[KILN_MAX_RANK], uint32_t *rank)
{
    kiln_t probe = ops_api.input(p, "check.end", KILN_F32, 1, (const int64_t[]){1});
    if (probe.id < 2) return (kiln_t){0};
    kiln_t last = {probe.id - 1};
    *rank = ops_api.shape(p, last, dim, KILN_MAX_RANK);
    return last;
}

static kiln_status run(kiln_program *p, float **out, size_t *n)
{
    kiln_bind in[INPUTS_MAX + 1];
    int64_t dim[KILN_MAX_RANK] = {0};
    static float nothing[1];
    uint32_t rank = 0;
    kiln_t last = last_of(p, dim, &rank);
    if (!last.id || !rank || !(*n = elements(rank, dim))) return KILN_ERR_UNSUPPORTED;
    for (size_t i = 0; i < trial.n_input; i++) {
        made_input *m = &trial.input[i];
        if (!fill(m)) return KILN_ERR_NOMEM;
        in[i] = (kiln_bind)KILN_BIND(m->name, kit_window(m->dtype, KILN_CPU, m->data, m->rank, m->dim));
    }
    in[trial.n_input] =
        (kiln_bind)KILN_BIND("check.end", kit_window(KILN_F32, KILN_CPU, nothing, 1, (const int64_t[]){1}));
    if (!(*out = mem_alloc(*n * sizeof **out))) return KILN_ERR_NOMEM;
    ops_api.output(p, "check.result", last);
    kiln_bind to = KILN_BIND("check.result", kit_window(KILN_F32, KILN_CPU, *out, rank, dim));
    TRY(ops_api.plan(trial.ctx, p, NULL));
    return ops_api.run(trial.ctx, p, in, trial.n_input + 1, &to, 1);
}

static void free_program(kiln_program *p)
{
    const char *message;
    const size_t at = trial.n_program++, how = trial.precision == KILN_BF16;
    if (at < PROGRAMS_MAX && ops_api.error(p, &message) == KILN_OK) {
        trial.result[how][at].ran = run(p, &trial.result[how][at].data, &trial.result[how][at].n) == KILN_OK;
        if (!trial.result[how][at].ran && !trial.why[0])
            snprintf(trial.why, sizeof trial.why, "%.299s", ctx_error(trial.ctx)->message);
        *ctx_error(trial.ctx) = (error){0};
    }
    ops_api.program_free(p);
}

static const void *ability(const char *id)
{
    static kiln_ops ops;
    if (strcmp(id, KILN_OPS_ABILITY) != 0) return engine_host.ability(id);
    ops = ops_api;
    ops.program_new = new_program, ops.program_free = free_program, ops.input = input;
    ops.weight = weight, ops.weight_optional = weight_optional;
    return &ops;
}

/* ---- what is found ---- */

static kiln_status record(const kiln_loading_api *loading, const kiln_model_family *row, const kiln_value *v,
                          uint32_t precision)
{
    kiln_host host = engine_host;
    host.ability = ability;
    kiln_call call = {.size = sizeof call, .device = KILN_CPU, .host = &host, .ctx = trial.ctx, .wanted = UINT64_MAX};
    trial.precision = precision, trial.n_program = 0;
    return loading->check(&call, row->kind, v);
}

typedef struct {
    const kiln_loading_api *loading;
    char names[300];
    size_t n;
} left_over;

static void add_left(void *arg, const kiln_weight_info *info)
{
    left_over *l = arg;
    size_t used = strlen(l->names);
    if (KILN_HAS(kiln_loading_api, l->loading, needless) && l->loading->needless(info->name)) return;
    if (l->n++ < 3) snprintf(l->names + used, sizeof l->names - used, "%s'%.80s'", used ? ", " : "", info->name);
}

/* Other kinds know the file too: it is a whole checkpoint, and what the family's view leaves out is theirs. */
static int is_shared(const kiln_model_family *row, kiln_weights *set)
{
    for (size_t i = 0; i < model_api.family_count(NULL); i++) {
        const kiln_model_family *f = model_api.family_at(NULL, i);
        if (strcmp(f->kind, row->kind) != 0 && f->detect(&weights_api, set) > 0) return 1;
    }
    return 0;
}

static void look_at_names(const kiln_loading_api *loading, const kiln_model_family *row, const kiln_value *v,
                          kiln_weights *set, const char *path, check_counts *c)
{
    left_over l = {.loading = loading};
    kiln_weights *own;
    if (!is_shared(row, set))
        weights_api.unused(set, add_left, &l);
    else
        for (size_t i = 0; (own = inspect_weights(trial.ctx, row->kind, v, i)); i++)
            weights_api.unused(own, add_left, &l);
    check_found(c, l.n == 0, "unasked", "asks for none of %zu tensors of %s: %s%s", l.n, path, l.names,
                l.n > 3 ? ", ..." : "");
}

/* A tensor that two layers share is asked for once, and its kiln_t used twice: so it is packed once. */
static void look_at_counts(check_counts *c)
{
    for (size_t i = 0; i < trial.n_asked; i++)
        check_found(c, trial.asked[i].n == 1, "asked-twice", "asks %u times for '%s' in one recording; keep its kiln_t",
                    trial.asked[i].n, trial.asked[i].name);
}

static uint32_t precisions_of(kiln_ctx *ctx, const char *kind, const kiln_value *v)
{
    const kiln_model *m = strcmp(kind, KILN_FAMILY_DENOISER) == 0 ? model_api.model(ctx, v) : NULL;
    const kiln_vae *a = strcmp(kind, KILN_FAMILY_AUTOENCODER) == 0 ? model_api.vae(ctx, v) : NULL;
    const kiln_clip *t = strcmp(kind, KILN_FAMILY_TEXT_ENCODER) == 0 ? model_api.clip(ctx, v) : NULL;
    if (m) return KILN_HAS(kiln_denoiser, m->denoiser, precisions) ? m->denoiser->precisions : 0;
    if (a) return KILN_HAS(kiln_autoencoder, a->autoencoder, precisions) ? a->autoencoder->precisions : 0;
    if (t) return kiln_clip_encoder_at(t, 0)->encoder->precisions;
    return 0;
}

static void compare(size_t program, check_counts *c)
{
    const float *a = trial.result[0][program].data, *b = trial.result[1][program].data;
    const size_t n = trial.result[0][program].n;
    double distance = 0, size = 0;
    int finite = 1, bf16_finite = 1;
    if (!trial.result[0][program].ran || !trial.result[1][program].ran || n != trial.result[1][program].n) return;
    for (size_t i = 0; i < n; i++) {
        finite &= isfinite(a[i]) != 0, bf16_finite &= isfinite(b[i]) != 0;
        distance += ((double)b[i] - (double)a[i]) * ((double)b[i] - (double)a[i]), size += (double)a[i] * (double)a[i];
    }
    const double off = size > 0 ? sqrt(distance / size) : distance > 0;
    check_found(c, finite, "finite", "makes a NaN or infinity of finite inputs in f32");
    if (!finite) return;
    check_found(c, bf16_finite, "bf16",
                "makes a NaN or infinity in bf16, and not in f32; say in `precisions` what is wide enough");
    if (bf16_finite &&
        check_found(c, off <= BF16_ERROR, "bf16",
                    "in bf16 its result is %.2g of its size away from that in f32, and %.2g is much; say "
                    "in `precisions` what is wide enough",
                    off, BF16_ERROR))
        check_holds(c, "bf16", "in bf16 its result is %.2g of its size away from that in f32", off);
}

static void forget(void)
{
    for (size_t i = 0; i < trial.n_input; i++) mem_free(trial.input[i].data);
    for (int how = 0; how < 2; how++)
        for (size_t i = 0; i < PROGRAMS_MAX; i++) mem_free(trial.result[how][i].data);
    mem_free(trial.asked);
    memset(&trial, 0, sizeof trial);
}

static void try_value(const kiln_model_family *row, const kiln_value *v, kiln_weights *set, const char *path,
                      check_counts *c)
{
    const kiln_loading_api *loading = engine_host.ability(KILN_LOADING_ABILITY);
    if (!loading) {
        check_left(c, row->name, "on %s: the plugin org.kiln.loader is not there", path);
        return;
    }
    kiln_status status = record(loading, row, v, KILN_F32);
    if (!check_found(c, status == KILN_OK, "record", "%s: %s", path, ctx_error(trial.ctx)->message)) return;
    look_at_names(loading, row, v, set, path, c);
    look_at_counts(c);
    if (!trial.n_program) {
        check_left(c, row->name, "what it computes: kiln does not know how to record a '%s'", row->kind);
        return;
    }
    const size_t n = trial.n_program < PROGRAMS_MAX ? trial.n_program : PROGRAMS_MAX;
    uint32_t wide = precisions_of(trial.ctx, row->kind, v);
    if (wide && !(wide >> KILN_BF16 & 1)) return; /* it says so itself */
    status = record(loading, row, v, KILN_BF16);
    if (status == KILN_OK)
        for (size_t i = 0; i < n; i++) compare(i, c);
    if (trial.why[0]) check_left(c, row->name, "what it computes on made-up inputs: %s", trial.why);
}

int check_fixture(const kiln_model_family *row, const char *path, kiln_ctx *ctx, check_counts *c)
{
    kiln_weights *set = weights_api.open(ctx, path);
    if (!check_found(c, set != NULL, "fixture", "%s", ctx_error(ctx)->message)) return 1;
    int mine = row->detect(&weights_api, set) > 0;
    if (mine) {
        kiln_value *v = row->open(&engine_host, ctx, set);
        trial.ctx = ctx;
        trial.asked = mem_calloc(ASKED_MAX, sizeof *trial.asked);
        if (check_found(c, v && trial.asked, "open", "open() of %s: %s", path, ctx_error(ctx)->message))
            try_value(row, v, set, path, c);
        value_unref(v);
        forget();
    }
    *ctx_error(ctx) = (error){0};
    weights_api.unref(set);
    return mine;
}
