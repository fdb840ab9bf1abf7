/* text_program.c - see text_program.h. */
#include "text_program.h"
#include "text_vocabulary.h"

#include <stdio.h>

#define WINDOW(type, data_, ...) kit_window(type, KILN_CPU, (void *)(uintptr_t)(data_), __VA_ARGS__)

/* ---- a canvas ---- */

static const char *const result_name[RESULTS] = {"likeliest", "entropy", "drawn", "confidence", "soft"};

static void record_choice(text_recording *r)
{
    kiln_t out[RESULTS], soft = {0};
    if (r->m->family->conditions) soft = td_ops->input(r->p, "soft", KILN_F32, 3, KILN_DIMS(1, r->t, r->m->width));
    if (r->m->family->sees_ahead) r->ahead = td_ops->input(r->p, "ahead", KILN_I32, 1, KILN_DIMS(1));
    kiln_t x = r->m->family->record_canvas(r, soft);
    kiln_t temperature = td_ops->input(r->p, "temperature", KILN_F32, 1, KILN_DIMS(1));
    vocabulary_choose(r, x, temperature, td_ops->input(r->p, "draw", KILN_F32, 3, KILN_DIMS(1, r->t, 1)), out);
    for (int k = 0; k < RESULTS; k++)
        if (out[k].id) td_ops->output(r->p, result_name[k], out[k]);
}

/* Planned; the caller ends it with program_free. NULL with a message. */
static kiln_program *program(kiln_ctx *ctx, const text_diffusion_model *m, const text_state *s, int64_t t,
                             int is_canvas)
{
    char key[240];
    int fresh = 0;
    /* f16 is too narrow for the activations of these models. */
    kiln_program_options o = {
        .size = sizeof o, .name = is_canvas ? "canvas" : "prompt", .precisions = 1u << KILN_F32 | 1u << KILN_BF16};
    snprintf(key, sizeof key, "org.kiln.text_diffusion %s %s %s %lld %lld %lld", m->family->name, m->identity, o.name,
             (long long)t, (long long)s->capacity, (long long)s->longest);
    text_recording r = {.p = td_ops->program_keep(ctx, key, &o, &fresh),
                        .m = m,
                        .t = t,
                        .capacity = s->capacity,
                        .longest = s->longest};
    if (!r.p || !fresh) return r.p;
    r.ids = td_ops->input(r.p, "ids", KILN_I32, 2, KILN_DIMS(1, t));
    r.offset = td_ops->input(r.p, "offset", KILN_I32, 1, KILN_DIMS(1));
    if (is_canvas)
        record_choice(&r);
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

kiln_status text_look_at(const kiln_call *c, const text_diffusion_model *m, text_state *s, const text_look *k)
{
    const int64_t n = k->n;
    const int32_t offset = (int32_t)s->length;
    if (n + k->ahead > s->capacity - s->length) return does_not_fit(c, s, n + k->ahead);
    kiln_program *p = program(c->ctx, m, s, n, 1);
    if (!p) return KILN_ERR_INVALID;
    const int32_t ahead = (int32_t)k->ahead;
    kiln_bind in[] = {KILN_BIND("ids", WINDOW(KILN_I32, k->ids, 2, KILN_DIMS(1, n))),
                      KILN_BIND("offset", WINDOW(KILN_I32, &offset, 1, KILN_DIMS(1))),
                      KILN_BIND("temperature", WINDOW(KILN_F32, &k->temperature, 1, KILN_DIMS(1))),
                      KILN_BIND("draw", WINDOW(KILN_F32, k->draw, 3, KILN_DIMS(1, n, 1))),
                      KILN_BIND("soft", WINDOW(KILN_F32, k->soft, 3, KILN_DIMS(1, n, m->width))),
                      KILN_BIND("ahead", WINDOW(KILN_I32, &ahead, 1, KILN_DIMS(1)))};
    kiln_bind out[] = {KILN_BIND("likeliest", WINDOW(KILN_I32, k->likeliest, 3, KILN_DIMS(1, n, 1))),
                       KILN_BIND("drawn", WINDOW(KILN_I32, k->drawn, 3, KILN_DIMS(1, n, 1))),
                       KILN_BIND("entropy", WINDOW(KILN_F32, k->entropy, 3, KILN_DIMS(1, n, 1))),
                       KILN_BIND("confidence", WINDOW(KILN_F32, k->confidence, 3, KILN_DIMS(1, n, 1))),
                       KILN_BIND("soft", WINDOW(KILN_F32, k->soft, 3, KILN_DIMS(1, n, m->width)))};
    kiln_run run = {.size = sizeof run, .states = s->states, .in = in, .n_in = 4, .out = out, .n_out = 4};
    if (m->family->conditions) run.n_in++, run.n_out++;
    if (m->family->sees_ahead) in[run.n_in++] = in[COUNT(in) - 1];
    kiln_status status = td_ops->run_with(c->ctx, p, &run);
    td_ops->program_free(p);
    return status;
}

/* ---- a prompt ---- */

static kiln_status read_pass(const kiln_call *c, const text_diffusion_model *m, text_state *s, const int32_t *ids,
                             int64_t n)
{
    const int32_t offset = (int32_t)s->length;
    kiln_program *p = program(c->ctx, m, s, n, 0);
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
    for (int64_t at = 0, t; at < n; at += t) {
        t = n - at < s->longest ? n - at : s->longest;
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
