/* model_guidance_run.c - see model_guidance_run.h. */
#include "model_guidance_run.h"

#include "kiln/kit.h"

#include <stdarg.h>
#include <stdio.h>

/* What one guidance remembers. */
typedef struct guidance_memory {
    kiln_latent *kept, *now; /* of the evaluation before, and what this one makes of it; NULL: it has none */
    double *level;           /* of the evaluation before */
} guidance_memory;

static const kiln_guidance *guidance_at(const evaluator *e, size_t k) { return e->model[0]->guidance[k]; }

/* ---- what guidance remembers ---- */

kiln_status model_guidance_open(evaluator *e)
{
    const kiln_host *host = e->call->host;
    size_t n = e->model[0]->n_guidance;
    uint32_t flags = 0;
    for (size_t k = 0; k < n; k++) flags |= guidance_at(e, k)->flags;
    if (e->memory || !(flags & KILN_GUIDANCE_REMEMBERS)) return KILN_OK;
    e->memory = host->scratch(e->call->ctx, n * sizeof *e->memory, KILN_CPU);
    if (!e->memory) return KILN_ERR_NOMEM;
    memset(e->memory, 0, n * sizeof *e->memory);
    return KILN_OK;
}

static int remembers(const evaluator *e, size_t k)
{
    return e->memory && (guidance_at(e, k)->flags & KILN_GUIDANCE_REMEMBERS);
}

/* Of a part of the picture nothing is kept: the next evaluation is of another part. */
static int is_whole(const evaluator *e)
{
    return memcmp(&e->last->x.shape, &e->space->shape, sizeof e->space->shape) == 0;
}

static kiln_status find_memory(evaluator *e, size_t k)
{
    guidance_memory *m = &e->memory[k];
    char name[32]; /* as long as a slot's may be */
    snprintf(name, sizeof name, "guidance.%zu.%zu", e->number, k);
    m->kept = e->session->slot(e->session, name);
    m->level = e->session->scalars(e->session, name, 1);
    if (!m->kept || !m->level) return KILN_ERR_NOMEM;
    /* after a change of size the copy is of another one */
    if (!m->now || memcmp(&m->now->shape, &m->kept->shape, sizeof m->now->shape) != 0)
        m->now = e->space->algebra.create(&e->space->algebra, NULL);
    return m->now ? KILN_OK : KILN_ERR_NOMEM;
}

kiln_status model_guidance_begin(evaluator *e)
{
    for (size_t k = 0; k < e->model[0]->n_guidance && is_whole(e); k++) {
        if (!remembers(e, k)) continue;
        TRY(find_memory(e, k));
        TRY(latent_copy(e->space, e->memory[k].now, e->memory[k].kept));
    }
    return KILN_OK;
}

kiln_status model_guidance_end(evaluator *e)
{
    for (size_t k = 0; k < e->model[0]->n_guidance && is_whole(e); k++) {
        if (!remembers(e, k)) continue;
        TRY(latent_copy(e->space, e->memory[k].kept, e->memory[k].now));
        *e->memory[k].level = e->last->sigma;
    }
    return KILN_OK;
}

/* ---- what guidance may ask for ---- */

/* Whose conditionings a further guess is made under. */
typedef struct {
    evaluator *e;
    int positive, negative; /* sets; -1: it is no set's guess */
} asker;

static int set_of(const evaluation *v, const kiln_latent *x)
{
    for (int k = 0; k < DENOISE_SETS; k++)
        if (x == &v->guess[k]) return k;
    return -1;
}

static kiln_status fail(const kiln_guesses *g, kiln_status status, const char *fmt, ...)
{
    const kiln_call *c = ((const asker *)g->self)->e->call;
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return c->host->fail(c->ctx, status, "%s", text);
}

static kiln_status further(const kiln_guesses *g, const kiln_further_guess *given, kiln_latent **out)
{
    const asker *a = g->self;
    kiln_further_guess asked;
    int set = given->unconditional ? a->negative : a->positive;
    if (!KILN_READ(&asked, given, n_hook))
        return fail(g, KILN_ERR_BUG, "evaluate() of a kiln_further_guess without its size (.size = sizeof)");
    if (asked.unconditional && !g->negative)
        return fail(g, KILN_ERR_BUG,
                    "evaluate() under the negative conditioning, which is not evaluated at cfg 1; "
                    "say KILN_GUIDANCE_UNCONDITIONAL");
    if (set < 0)
        return fail(g, KILN_ERR_UNSUPPORTED,
                    "this guider combines guesses of guesses, and guidance that evaluates the model once more knows no "
                    "conditioning for those; take CFGGuider");
    if (asked.x && memcmp(&asked.x->shape, &a->e->last->x.shape, sizeof asked.x->shape) != 0)
        return fail(g, KILN_ERR_BUG, "evaluate() of a latent of another size");
    for (size_t i = 0; i < asked.n_hook; i++)
        if (asked.hook[i]->n_input)
            return fail(g, KILN_ERR_BUG, "evaluate() with a hook that has inputs, which nobody reads");
    return evaluator_further(a->e, set, &asked, out);
}

static kiln_status output(const kiln_guesses *g, const kiln_hook *hook, const char *name, uint32_t unconditional,
                          kiln_latent **out)
{
    const asker *a = g->self;
    int set = unconditional ? a->negative : a->positive, named = (int)strcspn(hook->identity, "/");
    if (unconditional && !g->negative)
        return fail(g, KILN_ERR_BUG,
                    "output() under the negative conditioning, which is not evaluated at cfg 1; say "
                    "KILN_GUIDANCE_UNCONDITIONAL");
    if (set < 0)
        return fail(g, KILN_ERR_UNSUPPORTED,
                    "this guider combines guesses of guesses, and %.*s looks at how one was made; take CFGGuider",
                    named, hook->identity);
    *out = evaluation_output(a->e->last, set, hook, name);
    if (*out) return KILN_OK;
    if (a->e->last->area->range[set])
        return fail(g, KILN_ERR_UNSUPPORTED,
                    "%.*s looks at how the model makes its guess, and at this level another model takes its place",
                    named, hook->identity);
    return fail(g, KILN_ERR_UNSUPPORTED,
                "%.*s looks at how the model makes its %s guess, and that one is made of several: the conditioning has "
                "more than one entry, areas, masks or strengths; give it one entry without",
                named, hook->identity, unconditional ? "negative" : "positive");
}

/* ---- acting ---- */

/* Guidance k on `given`. */
static kiln_status apply(const evaluator *e, size_t k, const kiln_guesses *given)
{
    const kiln_guidance *by = guidance_at(e, k);
    kiln_guesses now = *given;
    int set = KILN_GUIDER_SETS;
    for (size_t i = 0; i < k; i++) set += guidance_at(e, i)->conditioning != NULL;
    now.extra = by->conditioning ? evaluation_guess(e->last, set) : NULL;
    if (remembers(e, k) && is_whole(e)) now.memory = e->memory[k].now, now.memory_sigma = *e->memory[k].level;
    return by->apply(by->self, &now);
}

static kiln_guesses guesses_of(const kiln_guider_step *g, asker *a, double cfg, kiln_latent *out)
{
    return (kiln_guesses){.size = sizeof(kiln_guesses),
                          .sampling = g->sampling,
                          .latents = g->latents,
                          .sigma = g->sigma,
                          .cfg = cfg,
                          .x = g->x,
                          .x0 = out,
                          .self = a,
                          .evaluate = further,
                          .fail = fail,
                          .output = output};
}

static asker asker_of(evaluator *e, const kiln_latent *positive, const kiln_latent *negative)
{
    return (asker){e, set_of(e->last, positive), negative ? set_of(e->last, negative) : -1};
}

static int has(const evaluator *e, uint32_t flag)
{
    for (size_t k = 0; k < e->model[0]->n_guidance; k++)
        if (guidance_at(e, k)->flags & flag) return 1;
    return 0;
}

/* Both guesses as copies: those of the evaluation stay what the model said. */
static kiln_status copy_guesses(evaluator *e, kiln_guesses *given, const asker *a)
{
    evaluation *v = e->last;
    kiln_latent *from[2] = {given->positive, given->negative};
    for (int i = 0; i < 2; i++) {
        size_t n = latent_count(from[i]);
        float *data =
            v->changed[i].data && latent_count(&v->changed[i]) >= n ? v->changed[i].data : latent_floats(e->space, n);
        if (!data) return KILN_ERR_NOMEM;
        v->changed[i] = (kiln_latent){.space = e->space, .shape = from[i]->shape, .more = from[i]->more, .data = data};
        TRY(latent_copy(e->space, &v->changed[i], from[i]));
    }
    given->positive = &v->changed[0], given->negative = &v->changed[1];
    v->changed_set = a->negative;
    return KILN_OK;
}

/* What acts before the guesses are combined. */
static kiln_status act_before(evaluator *e, kiln_guesses *given, const asker *a)
{
    kiln_latent *x0 = given->x0;
    if (!has(e, KILN_GUIDANCE_BEFORE)) return KILN_OK;
    TRY(copy_guesses(e, given, a));
    given->x0 = NULL;
    for (size_t k = 0; k < e->model[0]->n_guidance; k++)
        if (guidance_at(e, k)->flags & KILN_GUIDANCE_BEFORE) TRY(apply(e, k, given));
    given->x0 = x0;
    return KILN_OK;
}

static kiln_status act_after(const evaluator *e, const kiln_guesses *given)
{
    for (size_t k = 0; k < e->model[0]->n_guidance; k++)
        if (!(guidance_at(e, k)->flags & (KILN_GUIDANCE_REPLACE | KILN_GUIDANCE_BEFORE))) TRY(apply(e, k, given));
    return KILN_OK;
}

/* Classifier-free guidance: Ho and Salimans 2022. Of what stands for it on the model the last acts. */
static kiln_status combine(const evaluator *e, const kiln_guesses *g)
{
    size_t instead = e->model[0]->n_guidance;
    while (instead && !(guidance_at(e, instead - 1)->flags & KILN_GUIDANCE_REPLACE)) instead--;
    if (instead) return apply(e, instead - 1, g);
    g->latents->add_difference(g->latents, g->x0, g->negative, g->cfg, g->positive, g->negative);
    return KILN_OK;
}

kiln_status model_guidance_guided(const kiln_guider_step *g, kiln_latent *positive, kiln_latent *negative, double cfg,
                                  kiln_latent *out)
{
    evaluator *e = g->self;
    asker a = asker_of(e, positive, negative);
    kiln_guesses given = guesses_of(g, &a, cfg, out);
    given.positive = positive, given.negative = negative;
    if (negative) TRY(act_before(e, &given, &a));
    TRY(negative ? combine(e, &given) : latent_copy(e->space, out, positive));
    return act_after(e, &given);
}

kiln_status model_guidance_patch(const kiln_guider_step *g, kiln_latent *positive, kiln_latent *negative, double cfg,
                                 kiln_latent *out)
{
    evaluator *e = g->self;
    asker a = asker_of(e, positive, negative);
    kiln_guesses given = guesses_of(g, &a, cfg, out);
    given.positive = positive, given.negative = negative;
    return act_after(e, &given);
}
