/* language_nodes.c - nodes that read tokens and that go on with the likeliest ones. */
#include "language.h"

static kiln_status model_and_state(const kiln_call *c, const language_model **m, const language_state **s)
{
    const kiln_value_api *v = kit_values(c);
    *m = v->object(c->in[0], "LANGUAGE_MODEL");
    *s = c->in[1] ? v->object(c->in[1], "LANGUAGE_STATE") : NULL;
    if (!*m || (c->in[1] && !*s)) return host->fail(c->ctx, KILN_ERR_INVALID, "model or state is something else");
    if (*s && strcmp((*s)->model, (*m)->identity) != 0)
        return host->fail(c->ctx, KILN_ERR_INVALID, "the state was read by another model");
    return KILN_OK;
}

/* ---- ExampleLanguageRead ---- */

typedef struct {
    const char *ids;
    int64_t piece, room;
} read_params;

/* Tokens from `at` on of every sequence, t of each, with zeros behind their ends. */
static void cut(const language_prompt *from, int64_t at, int64_t t, int32_t *ids, int32_t *count)
{
    for (int64_t n = 0; n < from->n; n++) {
        int64_t left = from->length[n] > at ? from->length[n] - at : 0;
        count[n] = (int32_t)(left < t ? left : t);
        for (int64_t i = 0; i < t; i++) ids[n * t + i] = i < count[n] ? from->ids[n][at + i] : 0;
    }
}

/* to [n][of][width] from place `at` of the middle on = from [n][t][width] */
static void put_rows(float *to, const float *from, const int64_t n_of_t[3], int64_t at, int64_t width)
{
    const int64_t n = n_of_t[0], of = n_of_t[1], t = n_of_t[2];
    for (int64_t i = 0; i < n; i++)
        memcpy(to + (i * of + at) * width, from + i * t * width, (size_t)(t * width) * sizeof *to);
}

/* logits: a window on [n][longest][vocabulary], or NULL. */
static kiln_status read_all(const kiln_call *c, const language_model *m, language_state *s, const language_prompt *text,
                            kiln_tensor *logits)
{
    const int64_t step = ((const read_params *)c->params)->piece, all = text->longest, width = m->vocabulary;
    int32_t count[SEQUENCES];
    int32_t *ids = host->scratch(c->ctx, (size_t)(s->n * all) * sizeof *ids, KILN_CPU);
    float *part = logits ? host->scratch(c->ctx, (size_t)(s->n * all * width) * sizeof *part, KILN_CPU) : NULL;
    if (!ids || (logits && !part)) return KILN_ERR_NOMEM;
    for (int64_t at = 0, t; at < all; at += t) {
        t = step && step < all - at ? step : all - at;
        TRY(host->progress(c->ctx, (uint64_t)at, (uint64_t)all, "token"));
        cut(text, at, t, ids, count);
        TRY(language_read(c, m, s, &(language_piece){t, ids, count, part}));
        if (logits && logits->data) put_rows(logits->data, part, (const int64_t[]){s->n, all, t}, at, width);
    }
    return KILN_OK;
}

static kiln_status prepare(const kiln_call *c, const language_model **m, language_prompt *text, language_state **out)
{
    const read_params *p = c->params;
    const language_state *before;
    TRY(model_and_state(c, m, &before));
    TRY(prompt_parse(c, p->ids, (*m)->vocabulary, text));
    if (before && before->n != text->n)
        return host->fail(c->ctx, KILN_ERR_INVALID, "ids has %lld sequences, the state has %lld", (long long)text->n,
                          (long long)before->n);
    *out = before ? state_fork(c->ctx, before) : state_new(c->ctx, *m, text->n, p->room);
    return *out ? KILN_OK : KILN_ERR_NOMEM;
}

static kiln_status run_read(const kiln_call *c)
{
    const language_model *m;
    language_state *s;
    language_prompt text;
    TRY(prepare(c, &m, &text, &s));
    kiln_status status = read_all(c, m, s, &text, NULL);
    if (status == KILN_OK) return (c->out[0] = state_value(c->ctx, s)) ? KILN_OK : KILN_ERR_NOMEM;
    state_free(s);
    return status;
}

static kiln_status run_score(const kiln_call *c)
{
    const language_model *m;
    language_state *s;
    language_prompt text;
    kiln_tensor logits;
    TRY(prepare(c, &m, &text, &s));
    kiln_status status = kit_new_f32(c, 3, KILN_DIMS(s->n, text.longest, m->vocabulary), &c->out[0], &logits);
    if (status == KILN_OK) status = read_all(c, m, s, &text, &logits);
    state_free(s);
    return status;
}

static const kiln_port with_state[] = {
    {.name = "model", .type = "LANGUAGE_MODEL", .doc = "Who reads."},
    {.name = "state", .type = "LANGUAGE_STATE", .flags = KILN_PORT_OPTIONAL, .doc = "What was read before."}};
static const kiln_port read_out[] = {{.name = "state", .type = "LANGUAGE_STATE", .doc = "What is read then."}};
static const kiln_port score_out[] = {{.name = "logits", .type = "LOGITS", .doc = "f32 [N,T,V], after each token."}};
static const kiln_param read_param[] = {
    {.name = "ids",
     .type = KILN_P_STRING,
     .flags = KILN_PARAM_REQUIRED,
     .offset = offsetof(read_params, ids),
     .doc = "Tokens; a | between sequences."},
    KIT_INT(read_params, piece, 0, 0, TOKENS_MAX, "Read so many at once; 0: all."),
    KIT_INT(read_params, room, 64, 1, TOKENS_MAX, "How many tokens the state can come to hold."),
};
/* Two nodes, since a result with an output that nobody took is not kept. */
const kiln_node read_node = {KIT_NODE("ExampleLanguageRead", "Read", "language", "Reads tokens."),
                             KILN_ARRAY(in, with_state), KILN_ARRAY(out, read_out), KIT_PARAMS(read_params, read_param),
                             .run = run_read};
const kiln_node score_node = {
    KIT_NODE("ExampleLanguageScore", "Score", "language", "What a model expects after each token of a text."),
    KILN_ARRAY(in, with_state), KILN_ARRAY(out, score_out), KIT_PARAMS(read_params, read_param), .run = run_score};

/* ---- ExampleLanguageGenerate ---- */

typedef struct {
    int64_t tokens;
} generate_params;

typedef struct {
    language_state *s;
    int32_t *ids; /* [n][tokens], the first `done` of each made */
    int64_t tokens, done;
} generation;

/* What a killed generation goes on from: {"done": int, "ids": i32 [n,tokens], "state": map}. */
static void keep(const kiln_call *c, const kiln_store_api *store, const generation *g)
{
    const kiln_value_api *v = kit_values(c);
    kiln_value *map = v->new_map(c->ctx);
    kiln_value *ids = host->tensor_new(c->ctx, KILN_I32, KILN_CPU, 2, KILN_DIMS(g->s->n, g->tokens));
    kiln_tensor t = {.size = sizeof t};
    int done = map && ids && host->view(c->ctx, ids, &t) == KILN_OK;
    if (done) memcpy(t.data, g->ids, (size_t)(g->s->n * g->tokens) * sizeof *g->ids);
    done = done && v->map_set(map, "ids", ids) == KILN_OK;
    done = done && kit_set(c, map, "done", v->new_int(c->ctx, g->done)) == KILN_OK;
    done = done && kit_set(c, map, "state", state_to_map(c->ctx, g->s)) == KILN_OK;
    if (done) store->state_save(c->ctx, map);
    host->unref(ids);
    host->unref(map);
}

static void go_on(const kiln_call *c, const kiln_value *kept, generation *g)
{
    const kiln_value_api *v = kit_values(c);
    kiln_tensor t = {.size = sizeof t};
    const kiln_value *ids = v->map_get(kept, "ids"), *state = v->map_get(kept, "state");
    int64_t done;
    if (!ids || !state || v->get_int(v->map_get(kept, "done"), &done) != KILN_OK || done < 0 || done > g->tokens)
        return;
    if (host->view(c->ctx, ids, &t) != KILN_OK || t.dtype != KILN_I32 || t.rank != 2 || t.dim[0] != g->s->n ||
        t.dim[1] != g->tokens)
        return;
    language_state *loaded = state_from_map(c->ctx, state), *s = loaded ? state_fork(c->ctx, loaded) : NULL;
    state_free(loaded);
    if (!s) return;
    memcpy(g->ids, t.data, (size_t)(g->s->n * g->tokens) * sizeof *g->ids);
    state_free(g->s);
    g->s = s, g->done = done;
}

static kiln_status generate(const kiln_call *c, const language_model *m, generation *g)
{
    const kiln_store_api *store = host->ability(KILN_STORE_ABILITY);
    int32_t one[SEQUENCES], next[SEQUENCES];
    kiln_value *kept = kit_estimating(c) ? NULL : store->state_load(c->ctx);
    if (kept) go_on(c, kept, g);
    host->unref(kept);
    for (int i = 0; i < SEQUENCES; i++) one[i] = 1;
    while (g->done < g->tokens) {
        TRY(host->progress(c->ctx, (uint64_t)g->done, (uint64_t)g->tokens, "step"));
        for (int64_t n = 0; n < g->s->n; n++) g->ids[n * g->tokens + g->done] = next[n] = g->s->next[n];
        TRY(language_read(c, m, g->s, &(language_piece){1, next, one, NULL}));
        g->done++;
        if (!kit_estimating(c) && store->state_due(c->ctx)) keep(c, store, g);
    }
    return KILN_OK;
}

static kiln_status run_generate(const kiln_call *c)
{
    const language_model *m;
    const language_state *before;
    TRY(model_and_state(c, &m, &before));
    generation g = {.s = state_fork(c->ctx, before), .tokens = ((const generate_params *)c->params)->tokens};
    if (!g.s) return KILN_ERR_NOMEM;
    size_t bytes = (size_t)(g.s->n * g.tokens) * sizeof *g.ids;
    g.ids = host->scratch(c->ctx, bytes, KILN_CPU);
    kiln_status status = g.ids ? KILN_OK : KILN_ERR_NOMEM;
    if (g.ids) memset(g.ids, 0, bytes);
    if (status == KILN_OK) status = generate(c, m, &g);
    if (status == KILN_OK && !(c->out[0] = prompt_text(c, g.ids, g.s->n, g.tokens))) status = KILN_ERR_NOMEM;
    if (status == KILN_OK) return (c->out[1] = state_value(c->ctx, g.s)) ? KILN_OK : KILN_ERR_NOMEM;
    state_free(g.s);
    return status;
}

static const kiln_port generate_in[] = {{.name = "model", .type = "LANGUAGE_MODEL", .doc = "Who writes."},
                                        {.name = "state", .type = "LANGUAGE_STATE", .doc = "What was read before."}};
static const kiln_port generate_out[] = {{.name = "ids", .type = "STRING", .doc = "The tokens; a | between sequences."},
                                         {.name = "state", .type = "LANGUAGE_STATE", .doc = "With them read."}};
static const kiln_param generate_param[] = {
    KIT_INT(generate_params, tokens, 16, 1, TOKENS_MAX, "How many, of each sequence.")};
const kiln_node generate_node = {
    KIT_NODE("ExampleLanguageGenerate", "Generate", "language", "Goes on with the likeliest token, again and again."),
    KILN_ARRAY(in, generate_in), KILN_ARRAY(out, generate_out), KIT_PARAMS(generate_params, generate_param),
    .run = run_generate};
