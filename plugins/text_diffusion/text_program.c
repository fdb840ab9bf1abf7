/* text_program.c - see text_program.h. */
#include "text_program.h"
#include "text_vocabulary.h"

#include <stdio.h>

#define WINDOW(type, data_, ...) kit_window(type, KILN_CPU, (void *)(uintptr_t)(data_), __VA_ARGS__)

/* ---- a canvas ---- */

static const char *const result_name[RESULTS] = {"likeliest", "entropy", "drawn", "confidence", "soft"};

/* Programs of a canvas that differ. */
typedef struct {
    int is_canvas, guided, given;
} variant;

static void record_choice(text_recording *r, const variant *v)
{
    kiln_t out[RESULTS], soft = {0};
    vocabulary_draw d = {.top_p = {0}};
    if (r->m->family->conditions) soft = td_ops->input(r->p, "soft", KILN_F32, 3, KILN_DIMS(1, r->t, r->m->width));
    if (r->m->family->sees_ahead) r->ahead = td_ops->input(r->p, "ahead", KILN_I32, 1, KILN_DIMS(1));
    if (v->guided) r->begin = td_ops->input(r->p, "begin", KILN_I32, 1, KILN_DIMS(1));
    if (v->guided) r->guidance = td_ops->input(r->p, "guidance", KILN_F32, 1, KILN_DIMS(1));
    if (r->m->simplex > 0) simplex_inputs(r, v->given);
    kiln_t x = r->m->family->record_canvas(r, soft);
    d.temperature = td_ops->input(r->p, "temperature", KILN_F32, 1, KILN_DIMS(1));
    d.draw = td_ops->input(r->p, "draw", KILN_F32, 3, KILN_DIMS(1, r->t, 1));
    if (r->m->simplex > 0) d.top_p = td_ops->input(r->p, "top_p", KILN_F32, 1, KILN_DIMS(1));
    vocabulary_choose(r, x, &d, out);
    for (int k = 0; k < RESULTS; k++)
        if (out[k].id) td_ops->output(r->p, result_name[k], out[k]);
}

/* Planned; the caller ends it with program_free. NULL with a message. */
static kiln_program *program(kiln_ctx *ctx, const text_diffusion_model *m, const text_state *s, int64_t t,
                             const variant *v)
{
    char key[240];
    int fresh = 0;
    /* f16 is too narrow for the activations of these models. */
    kiln_program_options o = {
        .size = sizeof o, .name = v->is_canvas ? "canvas" : "prompt", .precisions = 1u << KILN_F32 | 1u << KILN_BF16};
    snprintf(key, sizeof key, "org.kiln.text_diffusion %s %s %s %lld %lld %lld%s%s", m->family->name, m->identity,
             o.name, (long long)t, (long long)s->capacity, (long long)s->longest, v->guided ? " guided" : "",
             v->given ? " given" : "");
    text_recording r = {.p = td_ops->program_keep(ctx, key, &o, &fresh),
                        .m = m,
                        .t = t,
                        .capacity = s->capacity,
                        .longest = s->longest,
                        .on_processor = td_ops->device(ctx) == KILN_CPU};
    if (!r.p || !fresh) return r.p;
    r.ids = td_ops->input(r.p, "ids", KILN_I32, 2, KILN_DIMS(1, t));
    r.offset = td_ops->input(r.p, "offset", KILN_I32, 1, KILN_DIMS(1));
    if (v->is_canvas)
        record_choice(&r, v);
    else
        td_ops->output(r.p, "read", m->family->record_prompt(&r));
    if (td_ops->plan(ctx, r.p, NULL) == KILN_OK) return r.p;
    td_ops->program_free(r.p);
    return NULL;
}

static kiln_status does_not_fit(const kiln_call *c, const text_state *s, int64_t n)
{
    return td_host->fail(c->ctx, KILN_ERR_INVALID, "%lld tokens behind %lld do not fit into room for %lld",
                         (long long)n, (long long)s->length, (long long)s->capacity);
}

enum { BOUND_MAX = 12 };

typedef struct {
    kiln_bind bind[BOUND_MAX];
    int64_t dim[BOUND_MAX][3];
    size_t n;
} bound;

static void bind_one(bound *b, const char *name, uint32_t dtype, const void *data, uint32_t rank, const int64_t *dim)
{
    memcpy(b->dim[b->n], dim, rank * sizeof *dim);
    b->bind[b->n] = (kiln_bind)KILN_BIND(name, WINDOW(dtype, data, rank, b->dim[b->n]));
    b->n++;
}

kiln_status text_look_at(const kiln_call *c, const text_diffusion_model *m, text_state *s, const text_look *k)
{
    const int64_t n = k->n;
    const int32_t offset = (int32_t)s->length;
    if (n + k->ahead > s->capacity - s->length) return does_not_fit(c, s, n + k->ahead);
    const text_simplex *x = &k->simplex;
    const variant v = {.is_canvas = 1, .guided = k->guidance != 0, .given = m->simplex > 0 && x->is_given};
    kiln_program *p = program(c->ctx, m, s, n, &v);
    if (!p) return KILN_ERR_INVALID;
    const int32_t ahead = (int32_t)k->ahead, begin = (int32_t)k->begin;
    bound in = {.n = 0}, out = {.n = 0};
    bind_one(&in, "ids", KILN_I32, k->ids, 2, KILN_DIMS(1, n));
    bind_one(&in, "offset", KILN_I32, &offset, 1, KILN_DIMS(1));
    bind_one(&in, "temperature", KILN_F32, &k->temperature, 1, KILN_DIMS(1));
    bind_one(&in, "draw", KILN_F32, k->draw, 3, KILN_DIMS(1, n, 1));
    if (m->family->sees_ahead) bind_one(&in, "ahead", KILN_I32, &ahead, 1, KILN_DIMS(1));
    if (v.guided) bind_one(&in, "begin", KILN_I32, &begin, 1, KILN_DIMS(1));
    if (v.guided) bind_one(&in, "guidance", KILN_F32, &k->guidance, 1, KILN_DIMS(1));
    if (m->simplex > 0) {
        bind_one(&in, "level", KILN_F32, x->level, 1, KILN_DIMS(SIMPLEX_LEVEL));
        bind_one(&in, "top_p", KILN_F32, &x->top_p, 1, KILN_DIMS(1));
        if (v.given)
            bind_one(&in, "simplex_noise", KILN_F32, x->given, 3, KILN_DIMS(1, n, m->vocabulary));
        else
            bind_one(&in, "simplex_seed", KILN_I32, x->seed, 1, KILN_DIMS(4));
    }
    bind_one(&out, "likeliest", KILN_I32, k->likeliest, 3, KILN_DIMS(1, n, 1));
    bind_one(&out, "drawn", KILN_I32, k->drawn, 3, KILN_DIMS(1, n, 1));
    bind_one(&out, "entropy", KILN_F32, k->entropy, 3, KILN_DIMS(1, n, 1));
    bind_one(&out, "confidence", KILN_F32, k->confidence, 3, KILN_DIMS(1, n, 1));
    if (m->family->conditions) {
        bind_one(&in, "soft", KILN_F32, k->soft, 3, KILN_DIMS(1, n, m->width));
        bind_one(&out, "soft", KILN_F32, k->soft, 3, KILN_DIMS(1, n, m->width));
    }
    kiln_run run = {
        .size = sizeof run, .states = s->states, .in = in.bind, .n_in = in.n, .out = out.bind, .n_out = out.n};
    kiln_status status = td_ops->run_with(c->ctx, p, &run);
    td_ops->program_free(p);
    return status;
}

/* ---- a prompt ---- */

static kiln_status read_pass(const kiln_call *c, const text_diffusion_model *m, text_state *s, const int32_t *ids,
                             int64_t n)
{
    const int32_t offset = (int32_t)s->length;
    const variant v = {.is_canvas = 0};
    kiln_program *p = program(c->ctx, m, s, n, &v);
    if (!p) return KILN_ERR_INVALID;
    kiln_bind in[] = {KILN_BIND("ids", WINDOW(KILN_I32, ids, 2, KILN_DIMS(1, n))),
                      KILN_BIND("offset", WINDOW(KILN_I32, &offset, 1, KILN_DIMS(1)))};
    kiln_run run = {.size = sizeof run, .states = s->states, .in = in, .n_in = COUNT(in)};
    kiln_status status = td_ops->run_with(c->ctx, p, &run);
    td_ops->program_free(p);
    if (status == KILN_OK) s->length += n;
    return status;
}

kiln_status text_read(const kiln_call *c, const text_diffusion_model *m, text_state *s, const int32_t *ids, int64_t n)
{
    if (n > s->capacity - s->length) return does_not_fit(c, s, n);
    const int64_t passes =
        (n + s->longest - 1) / s->longest; /* alike: a short one costs nearly as much as a long one */
    for (int64_t i = 0, at = 0, t; i < passes; i++, at += t) {
        t = (n - at + passes - i - 1) / (passes - i);
        TRY(td_host->progress(c->ctx, (uint64_t)at, (uint64_t)n, "token"));
        TRY(read_pass(c, m, s, ids + at, t));
    }
    return KILN_OK;
}

/* ---- random numbers ---- */

kiln_status text_random_numbers(const kiln_call *c, const text_random *k)
{
    char key[80];
    int fresh = 0;
    const int64_t dim[] = {2, k->n};
    kiln_program_options o = {.size = sizeof o, .name = "noise", .precision = KILN_F32};
    snprintf(key, sizeof key, "org.kiln.text_diffusion noise %lld", (long long)k->n);
    kiln_program *p = td_ops->program_keep(c->ctx, key, &o, &fresh);
    float *numbers = td_host->scratch(c->ctx, 2 * (size_t)k->n * sizeof *numbers, KILN_CPU);
    kiln_status status = p && numbers ? KILN_OK : KILN_ERR_NOMEM;
    if (status == KILN_OK && fresh) {
        kiln_t seed = td_ops->input(p, "seed", KILN_I32, 1, KILN_DIMS(4));
        td_ops->output(p, "numbers", td_ops->random(p, seed, KILN_RANDOM_UNIFORM, 2, dim));
        status = td_ops->plan(c->ctx, p, NULL);
    }
    const int32_t seed[] = {(int32_t)(uint32_t)k->seed, (int32_t)(uint32_t)(k->seed >> 32), (int32_t)(k->number * 4),
                            (int32_t)k->block};
    kiln_bind in[] = {KILN_BIND("seed", WINDOW(KILN_I32, seed, 1, KILN_DIMS(4)))};
    kiln_bind out[] = {KILN_BIND("numbers", WINDOW(KILN_F32, numbers, 2, dim))};
    if (numbers) memset(numbers, 0, 2 * (size_t)k->n * sizeof *numbers);
    if (status == KILN_OK) status = td_ops->run(c->ctx, p, in, 1, out, 1);
    if (p) td_ops->program_free(p);
    for (int64_t i = 0; status == KILN_OK && i < k->n; i++) {
        const double place = (double)numbers[k->n + i] * (double)k->below;
        k->draw[i] = numbers[i];
        k->place[i] = place < (double)k->below ? (int32_t)place : (int32_t)(k->below - 1);
    }
    return status;
}

void text_simplex_seed(uint64_t seed, uint32_t block, uint32_t number, int32_t out[4])
{
    out[0] = (int32_t)(uint32_t)seed, out[1] = (int32_t)(uint32_t)(seed >> 32);
    out[2] = (int32_t)(number * 4), out[3] = (int32_t)(block | UINT32_C(0x80000000));
}
