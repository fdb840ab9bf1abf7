/* text_generation.c - see text_generation.h.
 *
 * What a killed generation goes on from is small: the tokens of finished canvases, which are read again, and of the one
 * at hand the tokens, what stays, the last likeliest ones and their embeddings.
 */
#include "text_generation.h"

#include "kiln/precision.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    const kiln_call *c;
    const text_diffusion_model *m;
    text_state *s;
    const text_request *request;
    int32_t *ids;        /* [canvases][n] of finished canvases */
    int64_t block, step; /* step: of the canvas at hand        */
    int64_t all_steps;
    text_canvas canvas;
    text_history history;
    text_look look;
    float *draw;
    int32_t *noise;
    int64_t n, begin; /* begin: tokens of the prompt */
} generation;

static const kiln_store_api *store(void) { return td_host->ability(KILN_STORE_ABILITY); }

/* ---- memory ---- */

static void *cleared(const kiln_call *c, size_t n, size_t size)
{
    void *p = td_host->scratch(c->ctx, n * size + 1, KILN_CPU);
    if (p) memset(p, 0, n * size);
    return p;
}

static int allocate(generation *g)
{
    const size_t n = (size_t)g->n, depth = (size_t)g->request->stability;
    g->canvas.token = cleared(g->c, n, sizeof *g->canvas.token);
    g->canvas.stays = cleared(g->c, n, sizeof *g->canvas.stays);
    g->canvas.order = cleared(g->c, n, sizeof *g->canvas.order);
    g->history = (text_history){.depth = g->request->stability, .canvas = cleared(g->c, n * depth, sizeof(int32_t))};
    g->noise = cleared(g->c, n, sizeof *g->noise);
    g->draw = cleared(g->c, n, sizeof *g->draw);
    g->look = (text_look){.n = g->n,
                          .ids = g->canvas.token,
                          .draw = g->draw,
                          .soft = cleared(g->c, n * (size_t)g->m->width, sizeof(float)),
                          .likeliest = cleared(g->c, n, sizeof(int32_t)),
                          .drawn = cleared(g->c, n, sizeof(int32_t)),
                          .entropy = cleared(g->c, n, sizeof(float)),
                          .confidence = cleared(g->c, n, sizeof(float))};
    return g->canvas.token && g->canvas.stays && g->canvas.order && g->history.canvas && g->noise && g->draw &&
           g->look.soft && g->look.likeliest && g->look.drawn && g->look.entropy && g->look.confidence;
}

/* ---- a state that survives: {"block", "step", "steps", "seen": int, tensors} ---- */

typedef struct {
    const char *name;
    uint32_t dtype;
    void *data;
    size_t n;
} kept_array;

enum { KEPT = 5 };

static void kept_arrays(const generation *g, kept_array out[KEPT])
{
    const size_t n = (size_t)g->n;
    const kept_array all[KEPT] = {{"ids", KILN_I32, g->ids, n * (size_t)g->request->canvases},
                                  {"token", KILN_I32, g->canvas.token, n},
                                  {"stays", KILN_U8, g->canvas.stays, n},
                                  {"history", KILN_I32, g->history.canvas, n * (size_t)g->history.depth},
                                  {"soft", KILN_F32, g->look.soft, n * (size_t)g->m->width}};
    memcpy(out, all, sizeof all);
}

static size_t bytes_of(const kept_array *a) { return a->n * (a->dtype == KILN_U8 ? 1 : 4); }

static kiln_status put_array(const generation *g, kiln_value *map, const kept_array *a)
{
    kiln_tensor t = {.size = sizeof t};
    kiln_value *v = td_host->tensor_new(g->c->ctx, a->dtype, KILN_CPU, 1, KILN_DIMS((int64_t)a->n));
    if (!v) return KILN_ERR_NOMEM;
    kiln_status status = td_host->view(g->c->ctx, v, &t);
    if (status == KILN_OK && a->n) memcpy(t.data, a->data, bytes_of(a));
    if (status == KILN_OK) return kit_set(g->c, map, a->name, v);
    td_host->unref(v);
    return status;
}

static void keep(const generation *g)
{
    const kiln_value_api *v = kit_values(g->c);
    kept_array all[KEPT];
    kiln_value *map = v->new_map(g->c->ctx);
    kiln_status status = map ? KILN_OK : KILN_ERR_NOMEM;
    const int64_t number[] = {g->block, g->step, g->all_steps, g->history.seen};
    static const char *const name[] = {"block", "step", "steps", "seen"};
    for (size_t i = 0; status == KILN_OK && i < COUNT(number); i++)
        status = kit_set(g->c, map, name[i], v->new_int(g->c->ctx, number[i]));
    kept_arrays(g, all);
    for (size_t i = 0; status == KILN_OK && i < KEPT; i++) status = put_array(g, map, &all[i]);
    if (status == KILN_OK) store()->state_save(g->c->ctx, map);
    td_host->unref(map);
}

static int take_number(const generation *g, const kiln_value *map, const char *name, int64_t most, int64_t *out)
{
    const kiln_value_api *v = kit_values(g->c);
    return v->get_int(v->map_get(map, name), out) == KILN_OK && *out >= 0 && *out <= most;
}

static int take_array(const generation *g, const kiln_value *map, const kept_array *a, int write)
{
    kiln_tensor t = {.size = sizeof t};
    const kiln_value *v = kit_values(g->c)->map_get(map, a->name);
    if (!v || td_host->view(g->c->ctx, v, &t) != KILN_OK || t.dtype != a->dtype || t.rank != 1 ||
        t.dim[0] != (int64_t)a->n)
        return 0;
    for (size_t i = 0; a->dtype == KILN_I32 && strcmp(a->name, "history") != 0 && i < a->n; i++)
        if (((const int32_t *)t.data)[i] < 0 || ((const int32_t *)t.data)[i] >= g->m->vocabulary) return 0;
    if (write && a->n) memcpy(a->data, t.data, bytes_of(a));
    return 1;
}

/* 1: what a run before left is taken over, all of it. */
static int go_on(generation *g)
{
    kept_array all[KEPT];
    int64_t block, step, steps, seen;
    kiln_value *map = kit_estimating(g->c) ? NULL : store()->state_load(g->c->ctx);
    int done = map != NULL;
    kept_arrays(g, all);
    for (size_t i = 0; done && i < KEPT; i++) done = take_array(g, map, &all[i], 0);
    done = done && take_number(g, map, "block", g->request->canvases - 1, &block) &&
           take_number(g, map, "step", g->request->steps - 1, &step) &&
           take_number(g, map, "steps", INT64_MAX, &steps) && take_number(g, map, "seen", INT64_MAX, &seen);
    for (size_t i = 0; done && i < KEPT; i++) done = take_array(g, map, &all[i], 1);
    if (done) g->block = block, g->step = step, g->all_steps = steps, g->history.seen = seen;
    td_host->unref(map);
    return done;
}

/* ---- random numbers ---- */

static kiln_status given(const generation *g, int64_t step, float *draw, int32_t *place)
{
    const text_noise *w = g->request->noise;
    const size_t n = (size_t)g->n;
    if (g->block >= w->blocks || step >= w->steps)
        return td_host->fail(g->c->ctx, KILN_ERR_INVALID,
                             "the noise has %lld canvases of %lld steps; canvas %lld, step %lld is wanted",
                             (long long)w->blocks, (long long)w->steps, (long long)g->block + 1, (long long)step + 1);
    if (kit_estimating(g->c)) return KILN_OK;
    const size_t at = ((size_t)g->block * (size_t)w->steps + (size_t)(step < 0 ? 0 : step)) * n;
    memcpy(draw, w->draw + at, n * sizeof *draw);
    if (!w->simplex) memcpy(place, step < 0 ? w->start + (size_t)g->block * n : w->renoise + at, n * sizeof *place);
    return KILN_OK;
}

/* step -1: the first canvas. */
static kiln_status random_numbers(const generation *g, int64_t step, float *draw, int32_t *place)
{
    const text_random k = {.seed = g->request->seed,
                           .block = (uint32_t)g->block,
                           .number = (uint32_t)(step + 1),
                           .n = g->n,
                           .below = g->m->vocabulary,
                           .draw = draw,
                           .place = place};
    kiln_status status = g->request->noise ? given(g, step, draw, place) : text_random_numbers(g->c, &k);
    for (int64_t i = 0; g->m->mask >= 0 && i < g->n; i++) place[i] = g->m->mask;
    return status;
}

/* ---- what is shown meanwhile ---- */

/* to[n] = ids without what stands between the marks of a thought. Returns how many are left. */
static size_t spoken(const text_diffusion_model *m, const int32_t *ids, size_t n, int32_t *to)
{
    size_t left = 0;
    int thinks = 0;
    for (size_t i = 0; i < n; i++) {
        if (m->thought[0] >= 0 && ids[i] == m->thought[0]) thinks = 1;
        if (!thinks) to[left++] = ids[i];
        if (m->thought[1] >= 0 && ids[i] == m->thought[1]) thinks = 0;
    }
    return left;
}

/* The text on the heap, with its NUL. NULL: no memory. */
static char *decoded(const text_diffusion_model *m, const int32_t *ids, size_t n, int special, size_t *bytes)
{
    const kiln_tokenizer_api *t = td_host->ability(KILN_TOKENIZER_ABILITY);
    int32_t *kept = t ? malloc(n * sizeof *kept + 1) : NULL;
    if (!kept) return NULL;
    if (special && n) memcpy(kept, ids, n * sizeof *kept);
    const size_t left = special ? n : spoken(m, ids, n, kept);
    *bytes = t->decode(m->tokenizer, kept, left, special != 0, NULL, 0);
    char *text = malloc(*bytes + 1);
    if (text) t->decode(m->tokenizer, kept, left, special != 0, text, *bytes);
    if (text) text[*bytes] = 0;
    free(kept);
    return text;
}

kiln_value *text_of_ids(const kiln_call *c, const text_diffusion_model *m, const int32_t *ids, int64_t n, int special)
{
    size_t bytes = 0;
    char *text = decoded(m, ids, (size_t)n, special, &bytes);
    kiln_value *v = text ? kit_values(c)->new_string(c->ctx, text, bytes) : NULL;
    free(text);
    return v;
}

static int is_stop(const text_diffusion_model *m, int32_t id)
{
    for (size_t i = 0; i < m->n_stop; i++)
        if (m->stop[i] == id) return 1;
    return 0;
}

/* How many of n tokens there are with the first that stops. */
static int64_t up_to_stop(const text_diffusion_model *m, const int32_t *ids, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (is_stop(m, ids[i])) return i + 1;
    return n;
}

enum { DRAFT_BYTES = 4000 };

/* On one line, whole characters, and no more than the last DRAFT_BYTES of it. */
static const char *draft_of(char *text, size_t n)
{
    size_t from = n > DRAFT_BYTES ? n - DRAFT_BYTES : 0;
    while (from < n && ((unsigned char)text[from] & 0xc0) == 0x80) from++;
    for (size_t i = from; i < n; i++)
        if ((unsigned char)text[i] < ' ') text[i] = ' ';
    text[n] = 0;
    return text + from;
}

/* The text as it stands: what is finished, then the likeliest canvas. */
static kiln_status show(const generation *g)
{
    const size_t old = (size_t)(g->block * g->n), now = (size_t)up_to_stop(g->m, g->look.likeliest, g->n);
    int32_t *ids = malloc((old + now) * sizeof *ids + 1);
    if (!ids) return KILN_ERR_NOMEM;
    memcpy(ids, g->ids, old * sizeof *ids);
    memcpy(ids + old, g->look.likeliest, now * sizeof *ids);
    size_t n = 0;
    char *text = decoded(g->m, ids, old + now, g->request->special, &n);
    const uint64_t done = (uint64_t)(g->block * g->request->steps + g->step),
                   all = (uint64_t)(g->request->canvases * g->request->steps);
    if (text) td_host->draft(g->c->ctx, text);
    kiln_status status = text ? td_host->progress(g->c->ctx, done, all, draft_of(text, n)) : KILN_ERR_NOMEM;
    free(ids), free(text);
    return status;
}

/* ---- the loop ---- */

static kiln_status begin_canvas(generation *g)
{
    memset(g->canvas.stays, 0, (size_t)g->n);
    memset(g->look.soft, 0, (size_t)(g->n * g->m->width) * sizeof *g->look.soft);
    g->history.seen = 0, g->step = 0;
    return random_numbers(g, -1, g->draw, g->canvas.token);
}

/* How noisy the canvas at hand is, and its noise. */
static void make_noise(generation *g)
{
    const text_request *w = g->request;
    text_simplex *x = &g->look.simplex;
    const int64_t at = g->block * w->steps + g->step;
    simplex_level(g->step, w->steps, x->level);
    x->top_p = (float)w->top_p;
    x->is_given = w->noise != NULL;
    if (w->noise && w->noise->simplex) /* an estimate has none */
        x->given = w->noise->simplex + (g->block * w->noise->steps + g->step) * g->n * g->m->vocabulary;
    else
        text_simplex_seed(w->seed, (uint32_t)g->block, (uint32_t)at, x->seed);
}

/* A NaN or an infinity among a place's scores makes its entropy one. Programs are in f32 or bf16, of the same range:
 * there is no wider type to try. */
static kiln_status check_scores(const generation *g)
{
    for (int64_t i = 0; i < g->n && !kit_estimating(g->c); i++)
        if (!isfinite(g->look.entropy[i]))
            return td_host->fail(g->c->ctx, KILN_ERR_INVALID,
                                 "the network's scores for place %lld of canvas %lld are not finite in step %lld; look "
                                 "whether its weights are whole: kiln inspect --finite %.300s",
                                 (long long)i + 1, (long long)g->block + 1, (long long)g->step + 1,
                                 kiln_file_of(td_host->ability(KILN_WEIGHTS_ABILITY), g->m->weights));
    return KILN_OK;
}

/* *done 1: the canvas is finished, and written. */
static kiln_status take_step(generation *g, int *done)
{
    const text_request *w = g->request;
    TRY(random_numbers(g, g->step, g->draw, g->noise));
    g->look.ahead = g->m->family->sees_ahead ? (w->canvases - 1 - g->block) * g->n : 0;
    g->look.guidance = (float)w->guidance, g->look.begin = g->begin;
    if (g->m->simplex > 0) make_noise(g);
    g->look.temperature = text_temperature(w->temperature, w->temperature_end, g->step, w->steps);
    TRY(text_look_at(g->c, g->m, g->s, &g->look));
    TRY(check_scores(g));
    const text_step made = {.n = g->n,
                            .step = g->step,
                            .steps = w->steps,
                            .drawn = g->look.drawn,
                            .noise = g->noise,
                            .entropy = g->look.entropy,
                            .confidence = g->look.confidence};
    const int full = w->sampler->step(&w->settings, &made, &g->canvas);
    const int settled = text_is_settled(&g->history, g->look.likeliest, g->look.entropy, g->n, w->confidence);
    if (w->see) w->see(w->self, &g->look, &g->canvas);
    g->step++, g->all_steps++;
    *done = !kit_estimating(g->c) && (full || settled);
    if (g->step == w->steps) *done = 1;
    const int32_t *written = w->sampler->keeps && !settled ? g->canvas.token : g->look.likeliest;
    if (*done) memcpy(g->ids + g->block * g->n, written, (size_t)g->n * sizeof *written);
    return show(g);
}

static kiln_status write_canvas(generation *g, int goes_on)
{
    const kiln_store_api *api = store();
    int done = 0;
    if (!goes_on) TRY(begin_canvas(g));
    while (!done) {
        TRY(take_step(g, &done));
        if (!done && !kit_estimating(g->c) && api->state_due(g->c->ctx)) keep(g);
    }
    return KILN_OK;
}

kiln_status text_generate(const kiln_call *c, const text_diffusion_model *m, text_state *s, const text_request *request,
                          int32_t *ids, int64_t *n, int64_t *steps)
{
    generation g = {.c = c, .m = m, .s = s, .request = request, .ids = ids, .n = request->canvas, .begin = s->length};
    if (!allocate(&g)) return KILN_ERR_NOMEM;
    int goes_on = go_on(&g);
    for (int64_t i = 0; i < g.block; i++) TRY(text_read(c, m, s, ids + i * g.n, g.n));
    for (; g.block < request->canvases; g.block++) {
        TRY(write_canvas(&g, goes_on));
        goes_on = 0;
        const int64_t all = (g.block + 1) * g.n;
        *n = kit_estimating(c) ? all : up_to_stop(m, ids, all);
        if (*n < all || (!kit_estimating(c) && is_stop(m, ids[all - 1])) || g.block + 1 == request->canvases) break;
        TRY(text_read(c, m, s, ids + g.block * g.n, g.n));
    }
    *steps = g.all_steps;
    return KILN_OK;
}
