/* network.c - see network.h.
 *
 * A control is recorded into the denoiser's program, in front of it; one that asks to be apart is a program of its own,
 * whose results are inputs of the denoiser's. Its strength is an input, so that another strength records nothing anew.
 */
#include "network.h"

#include "control_apart.h"
#include "kiln/kit.h"
#include "kiln/precision.h"
#include "program_key.h"

#include <stdio.h>

enum { RESIDUALS_MAX = 256 };

static const kiln_ops *ops_of(const kiln_call *c) { return c->host->ability(KILN_OPS_ABILITY); }

static kiln_status key_of(const kiln_call *c, const network_batch *b, program_key *k)
{
    k->n = 0;
    TRY(program_key_weights(c, k, b->model->denoiser->family, b->model->weights));
    program_key_shape(k, "x", b->rank, b->dim);
    for (size_t i = 0; i < b->n_stream; i++) program_key_shape(k, "stream", b->stream[i].rank, b->stream[i].dim);
    for (size_t i = 0; i < b->n_input; i++) program_key_shape(k, b->input[i].name, b->input[i].rank, b->input[i].dim);
    for (size_t i = 0; i < b->n_hook; i++) {
        program_key_put(k, b->hook[i]->identity);
        for (const char *const *p = b->hook[i]->place; p && *p; p++) program_key_put(k, *p);
    }
    for (size_t i = 0; b->n_hook && i < b->n_member; i++)
        program_key_put(k, b->member[i].unconditional ? "unconditional" : "conditional");
    for (size_t i = 0; i < b->n_control; i++)
        TRY(program_key_weights(c, k, b->control[i]->net->network->family, b->control[i]->net->weights));
    return program_key_check(c, k);
}

/* ---- recording ---- */

typedef struct {
    const kiln_call *call;
    const kiln_ops *ops;
    const network_batch *b;
    kiln_program *p;
    kiln_named_tensor *input; /* [b->n_input] */
    kiln_t x, timestep;
    kiln_residual *residual; /* [RESIDUALS_MAX] */
    size_t n_residual;
    const control_use *control;                /* that is being recorded */
    kiln_t strength, mask;                     /* its; mask {0}: none */
    size_t n_prediction;                       /* of further streams, so far */
    network_output given[NETWORK_OUTPUTS_MAX]; /* of hooks, so far */
    size_t n_given;
} recorder;

static const char *copy_text(const recorder *r, const char *text)
{
    size_t n = strlen(text) + 1;
    char *copy = r->call->host->scratch(r->call->ctx, n, KILN_CPU);
    return copy ? memcpy(copy, text, n) : NULL;
}

static kiln_t declare(const recorder *r, const network_input *i)
{
    kiln_t t = r->ops->input(r->p, i->name, i->dtype, i->rank, i->dim);
    if (!i->changes && KILN_HAS(kiln_ops, r->ops, step_invariant)) r->ops->step_invariant(r->p, t);
    return t;
}

static uint32_t kinds_of(const kiln_denoiser *d, const char *pattern);

/* ---- a control's mask ---- */

/* x [N,rows,from] -> [N,rows,to] by a constant: torch's bilinear, without anti-aliasing. */
static kiln_t scaled_last(const recorder *r, kiln_t x, int64_t from, int64_t to)
{
    float *by = r->call->host->scratch(r->call->ctx, (size_t)(from * to) * sizeof *by, KILN_CPU);
    if (!by) return r->ops->fail(r->p, "out of memory");
    memset(by, 0, (size_t)(from * to) * sizeof *by);
    for (int64_t i = 0; i < to; i++) {
        double at = ((double)i + 0.5) * (double)from / (double)to - 0.5;
        int64_t first = at < 0 ? 0 : (int64_t)at, next = first + 1 < from ? first + 1 : first;
        double share = at < 0 ? 0 : at - (double)first;
        by[i * from + first] += (float)(1 - share);
        by[i * from + next] += (float)share;
    }
    return r->ops->linear(r->p, x, r->ops->constant(r->p, by, 2, KILN_DIMS(to, from)), (kiln_t){0});
}

/* The control's mask [N,h,w,1], as large as its result. */
static kiln_t mask_of_size(const recorder *r, int64_t h, int64_t w)
{
    static const uint32_t turned[] = {0, 2, 1};
    const int64_t *d = r->b->dim;
    if (h == d[1] && w == d[2]) return r->mask;
    kiln_t m = scaled_last(r, r->ops->reshape(r->p, r->mask, 3, KILN_DIMS(d[0], d[1], d[2])), d[2], w);
    m = scaled_last(r, r->ops->permute(r->p, m, turned), d[1], h);
    return r->ops->reshape(r->p, r->ops->permute(r->p, m, turned), 4, KILN_DIMS(d[0], h, w, 1));
}

static kiln_t masked(const recorder *r, kiln_t t, uint32_t rank, const int64_t *dim)
{
    if (!r->mask.id) return t;
    if (rank == 4 && (dim[1] > 1 || dim[2] > 1 || (r->b->dim[1] == 1 && r->b->dim[2] == 1)))
        return r->ops->mul(r->p, t, mask_of_size(r, dim[1], dim[2]));
    return r->ops->fail(r->p, "%s cannot have a mask: its results are not of parts of a picture", r->control->owner);
}

/* A control's result: what is added at the place, times the strength. */
static void add_residual(const kiln_outputs *out, const char *place, kiln_t t)
{
    recorder *r = out->self;
    int64_t dim[KILN_MAX_RANK], each[KILN_MAX_RANK] = {r->b->dim[0], 1, 1, 1, 1, 1, 1, 1}; /* a strength a picture */
    uint32_t rank = r->ops->shape(r->p, t, dim, KILN_MAX_RANK);
    const char *name = copy_text(r, place);
    if (r->n_residual == RESIDUALS_MAX || !name) {
        r->ops->fail(r->p, "%s has more than %d results", r->control->owner, RESIDUALS_MAX);
        return;
    }
    uint32_t kinds = kinds_of(r->b->model->denoiser, place);
    if (!(kinds & (KILN_PLACE_POINT | KILN_PLACE_BLOCK))) {
        r->ops->fail(r->p, "%s adds at '%s', %s; it was made for another family of models", r->control->owner, place,
                     kinds ? "an attention, whose way out is where something can be added"
                           : "a place that this model does not have");
        return;
    }
    t = r->ops->mul(r->p, masked(r, t, rank, dim), r->ops->reshape(r->p, r->strength, rank, each));
    r->residual[r->n_residual++] = (kiln_residual){.size = sizeof(kiln_residual), .place = name, .tensor = t};
}

/* The control's inputs under its own names, with x and timestep. */
static size_t own_inputs(const recorder *r, const control_use *u, kiln_named_tensor *out)
{
    size_t n = 0, prefix = strlen(u->prefix);
    for (size_t i = 0; i < r->b->n_input; i++) {
        if (!r->b->input[i].control || strncmp(r->b->input[i].name, u->prefix, prefix) != 0) continue;
        out[n] = r->input[i];
        out[n++].owner = NULL;
    }
    out[n++] = (kiln_named_tensor){.size = sizeof *out, .name = "x", .tensor = r->x};
    out[n++] = (kiln_named_tensor){.size = sizeof *out, .name = "timestep", .tensor = r->timestep};
    return n;
}

/* A control that ran apart: its results are inputs. */
static void take_results(const apart_results *of, const kiln_named_tensor *own, size_t n, const kiln_outputs *out)
{
    for (size_t i = 0; i < of->n; i++) add_residual(out, of->result[i].place, kiln_input(own, n, of->result[i].name));
}

static kiln_status record_control(recorder *r, size_t number)
{
    const control_use *u = r->b->control[number];
    const kiln_network *network = u->net->network;
    kiln_outputs out = {.size = sizeof out, .self = r, .add = add_residual};
    kiln_named_tensor *own = r->call->host->scratch(r->call->ctx, (r->b->n_input + 2) * sizeof *own, KILN_CPU);
    if (!own) return KILN_ERR_NOMEM;
    size_t n = own_inputs(r, u, own);
    r->control = u;
    r->strength = kiln_input(own, n, "strength"), r->mask = kiln_input(own, n, CONTROL_MASK);
    r->ops->scope_push(r->p, "control");
    if (r->b->apart[number])
        take_results(r->b->apart[number], own, n, &out);
    else
        network->record(network, r->ops, r->p, u->net->weights, own, n, &out);
    r->ops->scope_pop(r->p);
    return KILN_OK;
}

/* ---- hooks act at places that are there ---- */

typedef struct {
    const char *pattern;
    uint32_t kinds;
} place_search;

static void look(void *arg, const char *place, uint32_t kind)
{
    place_search *s = arg;
    if (kiln_place_matches(s->pattern, place)) s->kinds |= kind;
}

/* The kinds of the places that the pattern matches; 0: there is none. */
static uint32_t kinds_of(const kiln_denoiser *d, const char *pattern)
{
    place_search s = {.pattern = pattern};
    if (d->places) d->places(d, look, &s);
    return s.kinds;
}

/* Kinds of places where one of the hook's functions is asked. */
static uint32_t kinds_where(const kiln_hook *h)
{
    return (h->at ? KILN_PLACE_POINT | KILN_PLACE_BLOCK : 0) | (h->leaves_out ? KILN_PLACE_BLOCK : 0) |
           (h->before_attention || h->attention ? KILN_PLACE_ATTENTION : 0);
}

static kiln_status check_hook(const kiln_call *c, const kiln_denoiser *d, const kiln_hook *h)
{
    int name = (int)strcspn(h->identity, "/"); /* what follows is for the key */
    for (const char *const *p = h->place; p && *p; p++) {
        uint32_t kinds = kinds_of(d, *p);
        if (!kinds)
            return c->host->fail(c->ctx, KILN_ERR_INVALID,
                                 "the hook '%.*s' acts at '%s', a place that this model does not have; it was made for "
                                 "another family of models",
                                 name, h->identity, *p);
        if (!(kinds & kinds_where(h)))
            return c->host->fail(c->ctx, KILN_ERR_INVALID,
                                 "the hook '%.*s' acts at '%s', where the model asks for nothing that it does: %s",
                                 name, h->identity, *p,
                                 kinds & KILN_PLACE_ATTENTION ? "it is an attention (before_attention, attention)"
                                                              : "it is no attention, and no block to be left out");
    }
    return KILN_OK;
}

static kiln_status check_hooks(const kiln_call *c, const network_batch *b)
{
    for (size_t i = 0; i < b->n_hook; i++) TRY(check_hook(c, b->model->denoiser, b->hook[i]));
    return KILN_OK;
}

/* ---- the whole ---- */

/* A control's inputs belong to the control: nobody finds them among the denoiser's. */
static kiln_named_tensor named(const recorder *r, const network_input *i)
{
    const void *owner = i->control ? (const void *)i->name : i->hook >= 0 ? r->b->model->hook[i->hook] : NULL;
    return (kiln_named_tensor){
        .size = sizeof(kiln_named_tensor), .name = i->own, .tensor = declare(r, i), .owner = owner};
}

static const char *const stream_names[STREAMS_MAX] = {"stream.1", "stream.2", "stream.3", "stream.4"},
                         *const prediction_names[STREAMS_MAX] = {"prediction.1", "prediction.2", "prediction.3",
                                                                 "prediction.4"};

int network_output_is(const network_output *o, const kiln_hook *h, const char *name)
{
    return strcmp(o->hook->identity, h->identity) == 0 && strcmp(o->name, name) == 0;
}

/* As kiln_hook_output() makes it. */
static const char *output_name(const network_output *o, char text[400])
{
    snprintf(text, 400, "%s %s", o->hook->identity, o->name);
    return text;
}

/* The acting hook that gives something of this name; 0: none does. */
static int find_giver(const network_batch *b, const char *full, network_output *out)
{
    char text[400];
    for (size_t i = 0; i < b->n_hook; i++) {
        const char *const *names = KILN_HAS(kiln_hook, b->hook[i], output) ? b->hook[i]->output : NULL;
        for (; names && *names; names++) {
            *out = (network_output){.hook = b->hook[i], .name = *names};
            if (strcmp(output_name(out, text), full) == 0) return 1;
        }
    }
    return 0;
}

/* 1: a hook gives it. Of several of one identity the first does. */
static int add_output(recorder *r, const char *full, kiln_t t)
{
    network_output given;
    int64_t dim[KILN_MAX_RANK] = {0};
    if (!find_giver(r->b, full, &given)) return 0;
    for (size_t i = 0; i < r->n_given; i++)
        if (network_output_is(&r->given[i], given.hook, given.name)) return 1;
    uint32_t rank = r->ops->shape(r->p, t, dim, KILN_MAX_RANK);
    int fits = rank == r->b->rank && dim[rank - 1] == 1 && r->n_given < NETWORK_OUTPUTS_MAX;
    for (uint32_t i = 0; fits && i + 1 < rank; i++) fits = dim[i] == r->b->dim[i];
    if (fits)
        r->ops->output(r->p, full, t), r->given[r->n_given++] = given;
    else
        r->ops->fail(r->p, "the hook '%.*s' gives '%s', which is not as large as x with one channel",
                     (int)strcspn(given.hook->identity, "/"), given.hook->identity, given.name);
    return 1;
}

static void add_prediction(const kiln_outputs *out, const char *name, kiln_t t)
{
    recorder *r = out->self;
    if (add_output(r, name, t)) return;
    size_t number = name[0] >= '1' && name[0] <= '9' && !name[1] ? (size_t)(name[0] - '1') : STREAMS_MAX;
    if (number < r->b->n_stream) {
        r->ops->output(r->p, prediction_names[number], t);
        r->n_prediction++;
    } else
        r->ops->fail(r->p, "the model gives a prediction '%.20s', and its latents have %zu streams beside the first",
                     name, r->b->n_stream);
}

/* The batch's hooks, each watched in w [b->n_hook]. */
static const kiln_hook *const *watched(const kiln_call *c, const network_batch *b, watched_hook **w)
{
    const kiln_hook **hook = c->host->scratch(c->ctx, (b->n_hook + 1) * sizeof *hook, KILN_CPU);
    *w = c->host->scratch(c->ctx, (b->n_hook + 1) * sizeof **w, KILN_CPU);
    for (size_t i = 0; hook && *w && i < b->n_hook; i++) hook[i] = hook_watch(&(*w)[i], b->hook[i]);
    return *w ? hook : NULL;
}

static kiln_status record(const kiln_call *c, const network_batch *b, const char *key, kiln_program *p)
{
    watched_hook *watch;
    recorder r = {.call = c, .ops = ops_of(c), .b = b, .p = p};
    kiln_denoise_inputs in = {.size = sizeof in, .n_stream = 1, .n_input = b->n_input, .n_hook = b->n_hook};
    TRY(check_hooks(c, b));
    r.input = c->host->scratch(c->ctx, (b->n_input + 1) * sizeof *r.input, KILN_CPU);
    r.residual = c->host->scratch(c->ctx, RESIDUALS_MAX * sizeof *r.residual, KILN_CPU);
    in.hook = watched(c, b, &watch);
    if (!r.input || !r.residual || !in.hook) return KILN_ERR_NOMEM;
    kiln_t stream[STREAMS_MAX + 1];
    kiln_outputs predictions = {.size = sizeof predictions, .self = &r, .add = add_prediction};
    in.x = r.x = stream[0] = r.ops->input(p, "x", KILN_F32, b->rank, b->dim);
    for (size_t i = 0; i < b->n_stream; i++)
        stream[i + 1] = r.ops->input(p, stream_names[i], KILN_F32, b->stream[i].rank, b->stream[i].dim);
    in.n_stream += (uint32_t)b->n_stream;
    in.timestep = r.timestep = declare(&r, &b->timestep);
    for (size_t i = 0; i < b->n_input; i++) r.input[i] = named(&r, &b->input[i]);
    for (size_t i = 0; i < b->n_control; i++) TRY(record_control(&r, i));
    in.stream = stream, in.out = &predictions;
    in.member = b->member, in.n_member = b->n_member;
    in.input = r.input;
    in.residual = r.residual, in.n_residual = r.n_residual;
    const kiln_denoiser *d = b->model->denoiser;
    r.ops->output(p, "prediction", d->record(d, r.ops, p, b->model->weights, &in));
    if (r.n_prediction != b->n_stream)
        r.ops->fail(p, "the model gives %zu predictions of its %zu further streams", r.n_prediction, b->n_stream);
    if (b->effects) hook_effects_recorded(b->effects, key, b->model, watch, b->n_hook);
    return r.ops->plan(c->ctx, p, NULL);
}

static kiln_bind bind_input(const network_input *i)
{
    return (kiln_bind){sizeof(kiln_bind), i->name,
                       kit_window(i->dtype, i->device, (void *)(uintptr_t)i->data, i->rank, i->dim)};
}

static kiln_bind bind_device(const network_batch *b, const char *name, const float *data, uint32_t rank,
                             const int64_t *dim)
{
    return (kiln_bind)KILN_BIND(name, kit_window(KILN_F32, b->device, (void *)(uintptr_t)data, rank, dim));
}

static kiln_status run(const kiln_call *c, const network_batch *b, kiln_program *p)
{
    kiln_bind in[NETWORK_INPUTS_MAX + STREAMS_MAX + 2], out[STREAMS_MAX + NETWORK_OUTPUTS_MAX + 1];
    char name[NETWORK_OUTPUTS_MAX][400];
    int64_t dim[KILN_MAX_RANK];
    size_t n = 0;
    if (b->n_input > NETWORK_INPUTS_MAX)
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "%zu inputs of one network; at most %d are possible", b->n_input,
                             NETWORK_INPUTS_MAX);
    in[n++] = bind_device(b, "x", b->x, b->rank, b->dim);
    in[n++] = bind_input(&b->timestep);
    for (size_t i = 0; i < b->n_input; i++) in[n++] = bind_input(&b->input[i]);
    out[0] = bind_device(b, "prediction", b->prediction, b->rank, b->dim);
    for (size_t i = 0; i < b->n_stream; i++) {
        in[n++] = bind_device(b, stream_names[i], b->stream[i].x, b->stream[i].rank, b->stream[i].dim);
        out[i + 1] = bind_device(b, prediction_names[i], b->stream[i].prediction, b->stream[i].rank, b->stream[i].dim);
    }
    memcpy(dim, b->dim, sizeof dim);
    dim[b->rank - 1] = 1;
    for (size_t i = 0; i < b->n_output; i++)
        out[b->n_stream + 1 + i] = bind_device(b, output_name(&b->output[i], name[i]), b->output[i].data, b->rank, dim);
    return ops_of(c)->run(c->ctx, p, in, n, out, b->n_stream + 1 + b->n_output);
}

static int is_of(const network_input *i, const control_use *u)
{
    return i->control && strncmp(i->name, u->prefix, strlen(u->prefix)) == 0;
}

/* Runs a control apart: its inputs leave the batch, its results, strength and mask are inputs instead. */
static kiln_status run_apart(const kiln_call *c, network_batch *b, size_t number, network_input *input)
{
    const control_use *u = b->control[number];
    size_t n = 0;
    TRY(control_apart_run(c, b, u, b->known, &b->apart[number]));
    for (size_t i = 0; i < b->n_input; i++)
        if (!is_of(&b->input[i], u) || control_is_about_results(b->input[i].own)) input[n++] = b->input[i];
    const apart_results *r = b->apart[number];
    for (size_t i = 0; i < r->n && n < NETWORK_INPUTS_MAX; i++) {
        network_input *one = &input[n++];
        *one = (network_input){.name = r->result[i].name,
                               .own = r->result[i].name,
                               .hook = -1,
                               .control = 1,
                               .dtype = KILN_F32,
                               .device = b->device,
                               .rank = r->result[i].rank,
                               .data = r->result[i].data,
                               .changes = 1};
        memcpy(one->dim, r->result[i].dim, sizeof one->dim);
    }
    b->n_input = n;
    b->input = input;
    return KILN_OK;
}

static kiln_status run_whole(const kiln_call *c, const network_batch *b);

kiln_status network_run(const kiln_call *c, const network_batch *given)
{
    network_batch b = *given;
    network_input input[2][NETWORK_INPUTS_MAX];
    int turn = 0;
    for (size_t i = 0; i < b.n_control; i++)
        if (control_is_apart(b.control[i])) TRY(run_apart(c, &b, i, input[turn ^= 1]));
    return run_whole(c, &b);
}

/* Types wide enough for the denoiser and the controls that are recorded with it. */
static uint32_t precisions_of(const network_batch *b)
{
    const kiln_denoiser *d = b->model->denoiser;
    uint32_t precisions = KILN_HAS(kiln_denoiser, d, precisions) ? d->precisions : 0;
    for (size_t i = 0; i < b->n_control; i++)
        if (!b->apart[i]) precisions = kiln_precisions_of_both(precisions, control_precisions(b->control[i]));
    return precisions;
}

static kiln_status run_whole(const kiln_call *c, const network_batch *b)
{
    const kiln_ops *ops = ops_of(c);
    kiln_program_options options = {
        .size = sizeof options, .name = "denoiser", .precision = b->precision, .precisions = precisions_of(b)};
    program_key key;
    int fresh = 0;
    TRY(key_of(c, b, &key));
    kiln_program *p = b->own ? own_program_of(b->own, c, key.text, &options, &fresh)
                             : ops->program_keep(c->ctx, key.text, &options, &fresh);
    if (!p) return KILN_ERR_NOMEM;
    if (!fresh && b->effects) hook_effects_met(b->effects, key.text, b->model, b->hook, b->n_hook);
    kiln_status status = fresh ? record(c, b, key.text, p) : KILN_OK;
    if (status == KILN_OK) status = run(c, b, p);
    uint32_t ran = kiln_precision_of(ops, p);
    if (b->ran && (ran != KILN_F32 || !*b->ran)) *b->ran = ran;
    if (!b->own) ops->program_free(p);
    return status;
}
