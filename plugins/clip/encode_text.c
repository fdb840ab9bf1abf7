/* encode_text.c - see encode_text.h.
 *
 * Each encoder has a program of its own. A prompt's chunks go through it one by one and are laid end to end on the
 * token axis. Weights work as in ComfyUI: z = (z - z_empty) * w + z_empty for each token, z_empty being the encoding of
 * the empty prompt; pooled is that of the first chunk, unweighted. Then the CLIP's combine(), a program too, makes the
 * entry's values of all encoders' features; a CLIP without one has the tokens and pooled of its one encoder.
 */
#include "encode_text.h"

#include "clip_hooks.h"
#include "kiln/kit.h"
#include "kiln/precision.h"

#include <math.h>
#include <stdio.h>

enum { ENCODERS_MAX = 8, OUTPUTS_MAX = 32 };

/* What an encoder made of its prompt. Data is the call's scratch. */
typedef struct {
    int64_t rows; /* of tokens: chunks x length */
    float *tokens, *pooled;
    int32_t count;
} features;

/* One encoder at work. */
typedef struct {
    const kiln_call *call;
    const kiln_ops *ops;
    const kiln_clip_encoder *of;
    const kiln_text_encoder *encoder;
    kiln_program *program;
    int64_t length; /* tokens a chunk */
    int32_t layer;
    uint32_t precision; /* 0: the run's; it changes when a result is not finite */
    int vectors;        /* the prompt has some in the place of ids: its program takes them */
} encoding;

/* ---- one encoder's program ---- */

static kiln_status record(const encoding *e)
{
    const kiln_ops *o = e->ops;
    kiln_text_features f = {.size = sizeof f};
    kiln_text_inputs in = {.size = sizeof in, .layer = e->layer};
    in.ids = o->input(e->program, "ids", KILN_I32, 2, KILN_DIMS(1, e->length));
    in.end = o->input(e->program, "end", KILN_I32, 1, KILN_DIMS(1));
    if (e->encoder->flags & KILN_TEXT_COUNTED) in.count = o->input(e->program, "count", KILN_I32, 1, KILN_DIMS(1));
    if (e->vectors) {
        in.vectors = o->input(e->program, "vectors", KILN_F32, 3, KILN_DIMS(1, e->length, e->encoder->width));
        in.by_id = o->input(e->program, "by_id", KILN_F32, 3, KILN_DIMS(1, e->length, 1));
    }
    e->encoder->record(e->encoder, o, e->program, e->of->weights, &in, &f);
    o->output(e->program, "tokens", f.tokens);
    if (e->encoder->pooled_width) o->output(e->program, "pooled", f.pooled);
    return o->plan(e->call->ctx, e->program, NULL);
}

static kiln_status open_program(encoding *e)
{
    const kiln_host *host = e->call->host;
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    const char *identity = w->identity(e->call->ctx, e->of->weights);
    char key[640];
    int fresh = 0;
    if (!identity) return KILN_ERR_IO;
    snprintf(key, sizeof key, "text:%s:%s:%d:%lld%s", e->encoder->family, identity, e->layer, (long long)e->length,
             e->vectors ? ":vectors" : "");
    kiln_program_options options = {.size = sizeof options, .name = "text encoder", .precision = e->precision};
    if (KILN_HAS(kiln_text_encoder, e->encoder, precisions)) options.precisions = e->encoder->precisions;
    e->program = e->ops->program_keep(e->call->ctx, key, &options, &fresh);
    if (!e->program) return KILN_ERR_NOMEM;
    return fresh ? record(e) : KILN_OK;
}

/* The vectors of chunk i, and which tokens have none. */
static kiln_status lay_out_vectors(const encoding *e, const kiln_tokens *t, uint32_t i, float **vectors, float **by_id)
{
    const kiln_host *host = e->call->host;
    size_t width = (size_t)e->encoder->width, n = (size_t)e->length;
    const float *const *from = t->vector ? t->vector + i * n : NULL;
    *vectors = host->scratch(e->call->ctx, n * width * sizeof **vectors, KILN_CPU);
    *by_id = host->scratch(e->call->ctx, n * sizeof **by_id, KILN_CPU);
    if (!*vectors || !*by_id) return KILN_ERR_NOMEM;
    memset(*vectors, 0, n * width * sizeof **vectors);
    for (size_t k = 0; k < n; k++) {
        (*by_id)[k] = from && from[k] ? 0 : 1;
        if (from && from[k]) memcpy(*vectors + k * width, from[k], width * sizeof **vectors);
    }
    return KILN_OK;
}

/* Chunk i -> tokens[length * width], pooled (any memory when the encoder has none). */
static kiln_status run(const encoding *e, const kiln_tokens *t, uint32_t i, float *tokens, float *pooled)
{
    const kiln_text_encoder *c = e->encoder;
    int32_t count = t->count ? t->count[i] : (int32_t)t->length;
    const int64_t one = 1, ids[2] = {1, e->length}, z[3] = {1, e->length, c->width}, p[2] = {1, c->pooled_width},
                  mask[3] = {1, e->length, 1};
    float *vectors = NULL, *by_id = NULL;
    if (e->vectors) TRY(lay_out_vectors(e, t, i, &vectors, &by_id));
    kiln_bind in[5] = {KILN_BIND("ids", kit_window(KILN_I32, KILN_CPU, t->id + i * t->length, 2, ids)),
                       KILN_BIND("end", kit_window(KILN_I32, KILN_CPU, t->end + i, 1, &one))};
    size_t n = 2;
    if (c->flags & KILN_TEXT_COUNTED)
        in[n++] = (kiln_bind)KILN_BIND("count", kit_window(KILN_I32, KILN_CPU, &count, 1, &one));
    if (e->vectors) {
        in[n++] = (kiln_bind)KILN_BIND("vectors", kit_window(KILN_F32, KILN_CPU, vectors, 3, z));
        in[n++] = (kiln_bind)KILN_BIND("by_id", kit_window(KILN_F32, KILN_CPU, by_id, 3, mask));
    }
    kiln_bind out[2] = {KILN_BIND("tokens", kit_window(KILN_F32, KILN_CPU, tokens, 3, z)),
                        KILN_BIND("pooled", kit_window(KILN_F32, KILN_CPU, pooled, 2, p))};
    return e->ops->run(e->call->ctx, e->program, in, n, out, c->pooled_width ? 2 : 1);
}

/* ---- weights ---- */

static int all_ones(const kiln_tokens *t)
{
    for (size_t i = 0; i < (size_t)t->n_chunk * t->length; i++)
        if (t->weight[i] != 1) return 0;
    return 1;
}

static void apply_weights(float *z, const float *empty, const float *weight, int64_t tokens, int64_t width)
{
    for (int64_t t = 0; t < tokens; t++)
        for (int64_t k = 0; weight[t] != 1 && k < width; k++) {
            float z0 = empty[t * width + k];
            z[t * width + k] = (z[t * width + k] - z0) * weight[t] + z0;
        }
}

static kiln_status tokenise(const encoding *e, const char *text, uint32_t length, kiln_tokens *out)
{
    *out = (kiln_tokens){.size = sizeof *out, .length = length};
    TRY(e->encoder->tokenise(e->encoder, e->of->tokenizer, e->call->host, e->call->ctx, text, out));
    if (out->vector && !(e->encoder->flags & KILN_TEXT_VECTORS))
        return e->call->host->fail(e->call->ctx, KILN_ERR_BUG, "text encoder '%s' (%s) takes no vectors and made some",
                                   e->of->name, e->encoder->family);
    if (out->n_chunk && out->length && out->id && out->weight && out->end) return KILN_OK;
    return e->call->host->fail(e->call->ctx, KILN_ERR_BUG, "text encoder '%s' (%s) made no tokens", e->of->name,
                               e->encoder->family);
}

static kiln_status weigh(const encoding *e, const kiln_tokens *t, float *z, float *pooled_unused)
{
    const kiln_host *host = e->call->host;
    size_t one = (size_t)(e->length * e->encoder->width);
    kiln_tokens none;
    if (!(e->encoder->flags & KILN_TEXT_WEIGHTED)) {
        char text[200];
        snprintf(text, sizeof text, "text encoder '%.60s' (%.60s) takes no weights: (text:1.2) is encoded without them",
                 e->of->name, e->encoder->family);
        host->log(KILN_LOG_WARN, text);
        return KILN_OK;
    }
    TRY(tokenise(e, "", (uint32_t)e->length, &none));
    float *empty = host->scratch(e->call->ctx, one * sizeof *empty, KILN_CPU);
    if (!empty) return KILN_ERR_NOMEM;
    if (none.length != t->length)
        return host->fail(e->call->ctx, KILN_ERR_BUG, "text encoder '%s' does not pad an empty prompt to %u tokens",
                          e->of->name, t->length);
    TRY(run(e, &none, 0, empty, pooled_unused));
    for (uint32_t i = 0; !kit_estimating(e->call) && i < t->n_chunk; i++)
        apply_weights(z + i * one, empty, t->weight + i * t->length, e->length, e->encoder->width);
    return KILN_OK;
}

/* ---- one encoder's features ---- */

static kiln_status encode_chunks(const encoding *e, const kiln_tokens *t, features *f)
{
    const kiln_host *host = e->call->host;
    size_t one = (size_t)(e->length * e->encoder->width), pooled = (size_t)e->encoder->pooled_width;
    float *other = host->scratch(e->call->ctx, pooled * sizeof *other + 64, KILN_CPU);
    f->rows = (int64_t)t->n_chunk * e->length;
    f->tokens = host->scratch(e->call->ctx, (size_t)t->n_chunk * one * sizeof *f->tokens, KILN_CPU);
    f->pooled = pooled ? host->scratch(e->call->ctx, pooled * sizeof *f->pooled, KILN_CPU) : NULL;
    if (!other || !f->tokens || (pooled && !f->pooled)) return KILN_ERR_NOMEM;
    for (uint32_t i = 0; i < t->n_chunk; i++) {
        TRY(host->progress(e->call->ctx, i, t->n_chunk, "encoding text"));
        TRY(run(e, t, i, f->tokens + i * one, i == 0 && pooled ? f->pooled : other));
        f->count += t->count ? t->count[i] : (int32_t)t->length;
    }
    return all_ones(t) ? KILN_OK : weigh(e, t, f->tokens, other);
}

/* An encoder that has read its prompt. */
typedef struct {
    encoding e;
    kiln_tokens tokens;
} read_prompt;

static kiln_status read_text(const kiln_call *c, const kiln_clip_encoder *of, const char *text, read_prompt *out)
{
    out->e = (encoding){.call = c,
                        .ops = c->host->ability(KILN_OPS_ABILITY),
                        .of = of,
                        .encoder = of->encoder,
                        .layer = of->layer ? of->layer : of->encoder->default_layer};
    TRY(tokenise(&out->e, text, 0, &out->tokens));
    out->e.length = out->tokens.length;
    out->e.vectors = out->tokens.vector != NULL;
    return KILN_OK;
}

static void *grown(const kiln_call *c, const void *old, size_t have, size_t wanted, size_t size)
{
    char *more = c->host->scratch(c->ctx, wanted * size, KILN_CPU);
    if (more && have) memcpy(more, old, have * size);
    return more;
}

/* Chunks of the empty prompt behind the prompt's own, up to n. */
static kiln_status fill_chunks(read_prompt *r, uint32_t n)
{
    const kiln_call *c = r->e.call;
    kiln_tokens *t = &r->tokens, empty;
    size_t length = t->length, have = t->n_chunk;
    if (t->n_chunk >= n) return KILN_OK;
    TRY(tokenise(&r->e, "", t->length, &empty));
    if (empty.length != t->length) return KILN_OK; /* chunks of any length are one chunk */
    t->id = grown(c, t->id, have * length, n * length, sizeof *t->id);
    t->weight = grown(c, t->weight, have * length, n * length, sizeof *t->weight);
    t->end = grown(c, t->end, have, n, sizeof *t->end);
    if (t->count) t->count = grown(c, t->count, have, n, sizeof *t->count);
    if (!t->id || !t->weight || !t->end) return KILN_ERR_NOMEM;
    if (t->vector) {
        t->vector = grown(c, t->vector, have * length, n * length, sizeof *t->vector);
        if (!t->vector) return KILN_ERR_NOMEM;
        for (size_t i = have * length; i < n * length; i++) t->vector[i] = NULL;
    }
    for (; t->n_chunk < n; t->n_chunk++) {
        memcpy(t->id + t->n_chunk * length, empty.id, length * sizeof *t->id);
        memcpy(t->weight + t->n_chunk * length, empty.weight, length * sizeof *t->weight);
        t->end[t->n_chunk] = empty.end[0];
        if (t->count) t->count[t->n_chunk] = empty.count ? empty.count[0] : (int32_t)length;
    }
    return KILN_OK;
}

static int all_finite(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return 0;
    return 1;
}

static kiln_status encode_once(read_prompt *r, features *out, uint32_t *ran)
{
    *out = (features){0};
    kiln_status status = open_program(&r->e);
    if (status == KILN_OK) status = encode_chunks(&r->e, &r->tokens, out);
    if (status == KILN_OK) *ran = kiln_precision_of(r->e.ops, r->e.program);
    if (r->e.program) r->e.ops->program_free(r->e.program);
    r->e.program = NULL;
    return status;
}

static kiln_status encode_one(read_prompt *r, features *out)
{
    const kiln_call *c = r->e.call;
    uint32_t ran = 0;
    for (;;) {
        TRY(encode_once(r, out, &ran));
        size_t n = (size_t)(out->rows * r->e.encoder->width), pooled = (size_t)r->e.encoder->pooled_width;
        if (kit_estimating(c) || (all_finite(out->tokens, n) && (!pooled || all_finite(out->pooled, pooled))))
            return KILN_OK;
        if (!kiln_goes_wider(c, "text encoder", &r->e.precision, ran))
            return c->host->fail(c->ctx, KILN_ERR_INVALID,
                                 "text encoder '%s' gave numbers that are not finite, in f32 too; look whether its "
                                 "weights are whole: kiln inspect --finite %.300s",
                                 r->e.of->name, kiln_file_of(c->host->ability(KILN_WEIGHTS_ABILITY), r->e.of->weights));
    }
}

/* ---- what becomes of all encoders' features ---- */

/* A value of the entry. */
typedef struct {
    char name[64];
    uint32_t rank;
    int64_t dim[KILN_MAX_RANK];
} result;

typedef struct {
    const kiln_ops *ops;
    kiln_program *program;
    result *out; /* [OUTPUTS_MAX] */
    size_t n;
} results;

static void add_result(const kiln_outputs *to, const char *name, kiln_t t)
{
    results *r = to->self;
    if (r->n == OUTPUTS_MAX || strlen(name) >= sizeof r->out->name) {
        r->ops->fail(r->program, "combine(): more than %d results, or a name that is too long", OUTPUTS_MAX);
        return;
    }
    result *one = &r->out[r->n++];
    snprintf(one->name, sizeof one->name, "%s", name);
    one->rank = r->ops->shape(r->program, t, one->dim, KILN_MAX_RANK);
    r->ops->output(r->program, name, t);
}

typedef struct {
    const kiln_call *call;
    const kiln_ops *ops;
    const kiln_clip *clip;
    const features *of;             /* [clip->n_encoder] */
    char name[ENCODERS_MAX][3][80]; /* of the program's inputs: "l.tokens", ... */
    int64_t tokens[ENCODERS_MAX][3], pooled[ENCODERS_MAX][2];
} combining;

static const int64_t one_number = 1;

static void name_inputs(combining *m)
{
    for (uint32_t i = 0; i < m->clip->n_encoder; i++) {
        const kiln_clip_encoder *e = kiln_clip_encoder_at(m->clip, i);
        snprintf(m->name[i][0], sizeof m->name[i][0], "%.60s.tokens", e->name);
        snprintf(m->name[i][1], sizeof m->name[i][1], "%.60s.pooled", e->name);
        snprintf(m->name[i][2], sizeof m->name[i][2], "%.60s.count", e->name);
        memcpy(m->tokens[i], KILN_DIMS(1, m->of[i].rows, e->encoder->width), sizeof m->tokens[i]);
        memcpy(m->pooled[i], KILN_DIMS(1, e->encoder->pooled_width), sizeof m->pooled[i]);
    }
}

static void record_combine(const combining *m, results *r)
{
    kiln_combined in[ENCODERS_MAX];
    kiln_outputs out = {.size = sizeof out, .self = r, .add = add_result};
    for (uint32_t i = 0; i < m->clip->n_encoder; i++) {
        in[i] = (kiln_combined){.size = sizeof *in, .name = kiln_clip_encoder_at(m->clip, i)->name};
        in[i].tokens = r->ops->input(r->program, m->name[i][0], KILN_F32, 3, m->tokens[i]);
        if (m->of[i].pooled) in[i].pooled = r->ops->input(r->program, m->name[i][1], KILN_F32, 2, m->pooled[i]);
        in[i].count = r->ops->input(r->program, m->name[i][2], KILN_I32, 1, &one_number);
    }
    m->clip->combine(m->clip, r->ops, r->program, in, m->clip->n_encoder, &out);
}

/* Binds the features to a program's inputs; returns how many there are. */
static size_t bind_features(const combining *m, kiln_bind *in)
{
    size_t n = 0;
    for (uint32_t i = 0; i < m->clip->n_encoder; i++) {
        const features *f = &m->of[i];
        in[n++] = (kiln_bind)KILN_BIND(m->name[i][0], kit_window(KILN_F32, KILN_CPU, f->tokens, 3, m->tokens[i]));
        if (f->pooled)
            in[n++] = (kiln_bind)KILN_BIND(m->name[i][1], kit_window(KILN_F32, KILN_CPU, f->pooled, 2, m->pooled[i]));
        in[n++] = (kiln_bind)KILN_BIND(m->name[i][2],
                                       kit_window(KILN_I32, KILN_CPU, (void *)(uintptr_t)&f->count, 1, &one_number));
    }
    return n;
}

static kiln_status put(const kiln_call *c, kiln_value *entry, const char *key, uint32_t rank, const int64_t *dim,
                       kiln_tensor *t)
{
    kiln_value *tensor;
    TRY(kit_new_f32(c, rank, dim, &tensor, t));
    return kit_set(c, entry, key, tensor);
}

/* One program a call: it is small, and its shapes follow the prompt. */
static kiln_status run_combine(combining *m, kiln_program *p, kiln_value *entry)
{
    const kiln_call *c = m->call;
    result made[OUTPUTS_MAX];
    results r = {.ops = m->ops, .program = p, .out = made};
    kiln_bind in[3 * ENCODERS_MAX], out[OUTPUTS_MAX];
    kiln_tensor t[OUTPUTS_MAX];
    record_combine(m, &r);
    TRY(m->ops->plan(c->ctx, p, NULL));
    for (size_t i = 0; i < r.n; i++) {
        TRY(put(c, entry, made[i].name, made[i].rank, made[i].dim, &t[i]));
        out[i] =
            (kiln_bind)KILN_BIND(made[i].name, kit_window(KILN_F32, KILN_CPU, t[i].data, made[i].rank, made[i].dim));
    }
    return m->ops->run(c->ctx, p, in, bind_features(m, in), out, r.n);
}

static kiln_status combine(const kiln_call *c, const kiln_clip *clip, const features *of, kiln_value *entry)
{
    combining m = {.call = c, .ops = c->host->ability(KILN_OPS_ABILITY), .clip = clip, .of = of};
    kiln_program_options options = {.size = sizeof options, .precision = KILN_F32, .name = "combine text"};
    name_inputs(&m);
    kiln_program *p = m.ops->program_new(c->ctx, &options);
    if (!p) return KILN_ERR_NOMEM;
    kiln_status status = run_combine(&m, p, entry);
    m.ops->program_free(p);
    return status;
}

/* The one encoder's features as they are. */
static kiln_status take_features(const kiln_call *c, const kiln_text_encoder *e, const features *f, kiln_value *entry)
{
    kiln_tensor t;
    const int64_t tokens[3] = {1, f->rows, e->width}, pooled[2] = {1, e->pooled_width};
    TRY(put(c, entry, "tokens", 3, tokens, &t));
    if (!kit_estimating(c)) memcpy(t.data, f->tokens, (size_t)(f->rows * e->width) * sizeof(float));
    if (!f->pooled) return KILN_OK;
    TRY(put(c, entry, "pooled", 2, pooled, &t));
    if (!kit_estimating(c)) memcpy(t.data, f->pooled, (size_t)e->pooled_width * sizeof(float));
    return KILN_OK;
}

/* ---- prompts ---- */

static const kiln_prompt *prompt_at(const kiln_prompt *p, size_t i)
{
    return (const kiln_prompt *)(const void *)((const char *)p + i * p->size);
}

/* The prompt for an encoder: the one that names it, else the one that names none. */
static const char *text_for(const kiln_prompt *p, size_t n, const char *encoder)
{
    const char *text = NULL;
    for (size_t i = 0; i < n; i++) {
        const kiln_prompt *one = prompt_at(p, i);
        if (one->encoder && strcmp(one->encoder, encoder) == 0) return one->text;
        if (!one->encoder && !text) text = one->text;
    }
    return text;
}

static kiln_status check_prompts(const kiln_call *c, const kiln_clip *clip, const kiln_prompt *p, size_t n)
{
    char names[200] = "";
    if (!n || p->size < sizeof *p)
        return c->host->fail(c->ctx, KILN_ERR_BUG,
                             "encode() was given no prompt, or one that does not say its size; set "
                             ".size = sizeof first");
    if (clip->n_encoder > ENCODERS_MAX)
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "a CLIP of %u text encoders; at most %d are possible",
                             clip->n_encoder, ENCODERS_MAX);
    for (uint32_t i = 0, at = 0; i < clip->n_encoder && at < sizeof names; i++)
        at += (uint32_t)snprintf(names + at, sizeof names - at, "%s%.60s", i ? ", " : "",
                                 kiln_clip_encoder_at(clip, i)->name);
    for (size_t i = 0; i < n; i++) {
        const kiln_prompt *one = prompt_at(p, i);
        int known = !one->encoder;
        for (uint32_t k = 0; k < clip->n_encoder && !known; k++)
            known = strcmp(kiln_clip_encoder_at(clip, k)->name, one->encoder) == 0;
        if (!known)
            return c->host->fail(
                c->ctx, KILN_ERR_INVALID,
                "there is a prompt for the text encoder '%s', and this CLIP has %s; take the CLIP of a "
                "model that has it, or CLIPTextEncode, which gives one prompt to all",
                one->encoder, names);
    }
    return KILN_OK;
}

static kiln_status encode_all(const kiln_call *c, const kiln_clip *clip, const kiln_prompt *p, size_t n,
                              kiln_value *entry)
{
    features of[ENCODERS_MAX];
    read_prompt read[ENCODERS_MAX];
    uint32_t chunks = 0;
    TRY(check_prompts(c, clip, p, n));
    for (uint32_t i = 0; i < clip->n_encoder; i++) {
        const kiln_clip_encoder *e = kiln_clip_encoder_at(clip, i);
        const char *text = text_for(p, n, e->name);
        if (!text)
            return c->host->fail(c->ctx, KILN_ERR_INVALID, "there is no prompt for the CLIP's text encoder '%s'",
                                 e->name);
        TRY(read_text(c, e, text, &read[i]));
        if (read[i].tokens.n_chunk > chunks) chunks = read[i].tokens.n_chunk;
    }
    for (uint32_t i = 0; i < clip->n_encoder; i++) {
        if (clip->flags & KILN_CLIP_EQUAL_CHUNKS) TRY(fill_chunks(&read[i], chunks));
        TRY(encode_one(&read[i], &of[i]));
    }
    return clip->combine ? combine(c, clip, of, entry)
                         : take_features(c, kiln_clip_encoder_at(clip, 0)->encoder, of, entry);
}

/* The entry of one stretch. */
static kiln_status add_entry(const kiln_call *c, const kiln_clip *clip, const clip_stretch *of, const kiln_prompt *p,
                             size_t n, kiln_value *list)
{
    const kiln_value_api *v = kit_values(c);
    kiln_value *entry = v->new_map(c->ctx);
    kiln_clip hooked = {0};
    kiln_status status = entry ? clip_hooked(c, clip, of->strength, &hooked) : KILN_ERR_NOMEM;
    if (status == KILN_OK) status = encode_all(c, &hooked, p, n, entry);
    clip_unhooked(c, &hooked);
    if (status == KILN_OK) status = clip_mark_entry(c, clip, of, entry);
    if (status == KILN_OK) status = v->list_push(list, entry);
    c->host->unref(entry);
    return status;
}

static kiln_status encode(const kiln_call *c, const kiln_value *clip, const kiln_prompt *p, size_t n, kiln_value **out)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_clip *of = models->clip(c->ctx, clip);
    clip_stretch *stretch;
    size_t stretches = 0;
    if (!of) return KILN_ERR_INVALID;
    TRY(clip_stretches(c, of, &stretch, &stretches));
    kiln_value *list = kit_values(c)->new_list(c->ctx);
    kiln_status status = list ? KILN_OK : KILN_ERR_NOMEM;
    for (size_t i = 0; status == KILN_OK && i < stretches; i++) status = add_entry(c, of, &stretch[i], p, n, list);
    if (status == KILN_OK)
        *out = list;
    else
        c->host->unref(list);
    return status;
}

const kiln_text_api text_api = {.size = sizeof(kiln_text_api), .encode = encode};
