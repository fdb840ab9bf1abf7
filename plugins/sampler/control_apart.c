/* control_apart.c - see control_apart.h. */
#include "control_apart.h"

#include "kiln/kit.h"
#include "program_key.h"

#include <stdio.h>

static const kiln_ops *ops_of(const kiln_call *c) { return c->host->ability(KILN_OPS_ABILITY); }

static int is_own(const network_input *i, const control_use *u)
{
    return i->control && strncmp(i->name, u->prefix, strlen(u->prefix)) == 0 && !control_is_about_results(i->own);
}

static kiln_status key_of(const kiln_call *c, const network_batch *b, const control_use *u, program_key *k)
{
    k->n = 0;
    program_key_put(k, u->prefix);
    TRY(program_key_weights(c, k, u->net->network->family, u->net->weights));
    program_key_shape(k, "x", b->rank, b->dim);
    for (size_t i = 0; i < b->n_input; i++)
        if (is_own(&b->input[i], u)) program_key_shape(k, b->input[i].own, b->input[i].rank, b->input[i].dim);
    return program_key_check(c, k);
}

/* ---- recording ---- */

typedef struct {
    const kiln_ops *ops;
    kiln_program *program;
    apart_results *out;
} recorder;

static void add_result(const kiln_outputs *to, const char *place, kiln_t t)
{
    recorder *r = to->self;
    if (r->out->n == APART_RESULTS_MAX || strlen(place) >= sizeof r->out->result[0].place) {
        r->ops->fail(r->program, "a control has more than %d results, or a place with too long a name",
                     APART_RESULTS_MAX);
        return;
    }
    size_t i = r->out->n++;
    snprintf(r->out->result[i].place, sizeof r->out->result[i].place, "%s", place);
    r->out->result[i].rank = r->ops->shape(r->program, t, r->out->result[i].dim, KILN_MAX_RANK);
    r->ops->output(r->program, place, t);
}

static kiln_named_tensor declare(const recorder *r, const network_input *i)
{
    kiln_t t = r->ops->input(r->program, i->own, i->dtype, i->rank, i->dim);
    if (!i->changes && KILN_HAS(kiln_ops, r->ops, step_invariant)) r->ops->step_invariant(r->program, t);
    return (kiln_named_tensor){.size = sizeof(kiln_named_tensor), .name = i->own, .tensor = t};
}

static void record(const network_batch *b, const control_use *u, recorder *r)
{
    const kiln_network *network = u->net->network;
    kiln_named_tensor in[NETWORK_INPUTS_MAX + 2];
    kiln_outputs out = {.size = sizeof out, .self = r, .add = add_result};
    size_t n = 0;
    for (size_t i = 0; i < b->n_input; i++)
        if (is_own(&b->input[i], u)) in[n++] = declare(r, &b->input[i]);
    in[n++] = (kiln_named_tensor){
        .size = sizeof *in, .name = "x", .tensor = r->ops->input(r->program, "x", KILN_F32, b->rank, b->dim)};
    in[n++] = declare(r, &b->timestep);
    r->out->n = 0;
    network->record(network, r->ops, r->program, u->net->weights, in, n, &out);
}

/* What a program that is kept already was recorded to give: it is recorded once more, to look. */
static kiln_status look(const kiln_call *c, const network_batch *b, const control_use *u, apart_results *out)
{
    const kiln_ops *ops = ops_of(c);
    kiln_program_options options = {.size = sizeof options, .name = "control"};
    recorder r = {.ops = ops, .program = ops->program_new(c->ctx, &options), .out = out};
    const char *message = NULL;
    if (!r.program) return KILN_ERR_NOMEM;
    record(b, u, &r);
    kiln_status status = ops->error(r.program, &message);
    if (status != KILN_OK) c->host->fail(c->ctx, status, "%s", message ? message : "the control cannot be recorded");
    ops->program_free(r.program);
    return status;
}

/* ---- running ---- */

static kiln_status take_memory(const kiln_call *c, const control_use *u, apart_results *r)
{
    for (size_t i = 0; i < r->n; i++) {
        size_t n = 1;
        for (uint32_t k = 0; k < r->result[i].rank; k++) n *= (size_t)r->result[i].dim[k];
        snprintf(r->result[i].name, sizeof r->result[i].name, "%.20sresult.%d", u->prefix, (int)i);
        r->result[i].data = c->host->scratch(c->ctx, n * sizeof(float), ops_of(c)->device(c->ctx));
        if (!r->result[i].data) return KILN_ERR_NOMEM;
    }
    return KILN_OK;
}

static apart_results *find(apart_results *known, const control_use *u, const char *key)
{
    while (known && !(known->network == u->net->network && strcmp(known->key, key) == 0)) known = known->next;
    return known;
}

static kiln_status add_known(const kiln_call *c, const control_use *u, const program_key *key, apart_results **known)
{
    apart_results *r = c->host->scratch(c->ctx, sizeof *r, KILN_CPU);
    char *text = c->host->scratch(c->ctx, key->n + 1, KILN_CPU);
    if (!r || !text) return KILN_ERR_NOMEM;
    *r = (apart_results){.next = *known, .network = u->net->network};
    r->key = memcpy(text, key->text, key->n + 1);
    *known = r;
    return KILN_OK;
}

static kiln_bind bind_input(const network_input *i)
{
    return (kiln_bind)KILN_BIND(i->own, kit_window(i->dtype, i->device, (void *)(uintptr_t)i->data, i->rank, i->dim));
}

static kiln_status run(const kiln_call *c, const network_batch *b, const control_use *u, kiln_program *p,
                       const apart_results *r)
{
    kiln_bind in[NETWORK_INPUTS_MAX + 2], out[APART_RESULTS_MAX];
    size_t n = 0;
    for (size_t i = 0; i < b->n_input; i++)
        if (is_own(&b->input[i], u)) in[n++] = bind_input(&b->input[i]);
    in[n++] = (kiln_bind)KILN_BIND("x", kit_window(KILN_F32, b->device, (void *)(uintptr_t)b->x, b->rank, b->dim));
    in[n++] = bind_input(&b->timestep);
    for (size_t i = 0; i < r->n; i++)
        out[i] = (kiln_bind)KILN_BIND(r->result[i].place, kit_window(KILN_F32, b->device, r->result[i].data,
                                                                     r->result[i].rank, r->result[i].dim));
    return ops_of(c)->run(c->ctx, p, in, n, out, r->n);
}

kiln_status control_apart_run(const kiln_call *c, const network_batch *b, const control_use *u, apart_results **known,
                              const apart_results **out)
{
    const kiln_ops *ops = ops_of(c);
    kiln_program_options options = {
        .size = sizeof options, .name = "control", .precision = b->precision, .precisions = control_precisions(u)};
    program_key key;
    int fresh = 0;
    TRY(key_of(c, b, u, &key));
    apart_results *r = find(*known, u, key.text);
    kiln_program *p = ops->program_keep(c->ctx, key.text, &options, &fresh);
    if (!p) return KILN_ERR_NOMEM;
    int is_new = !r;
    kiln_status status = is_new ? add_known(c, u, &key, known) : KILN_OK;
    if (is_new) r = *known;
    if (status == KILN_OK && fresh) {
        record(b, u, &(recorder){.ops = ops, .program = p, .out = r});
        status = ops->plan(c->ctx, p, NULL);
    } else if (status == KILN_OK && is_new)
        status = look(c, b, u, r);
    if (status == KILN_OK && is_new) status = take_memory(c, u, r);
    if (status == KILN_OK) status = run(c, b, u, p, r);
    ops->program_free(p);
    *out = r;
    return status;
}
