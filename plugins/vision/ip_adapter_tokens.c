/* ip_adapter_tokens.c - see ip_adapter_tokens.h. */
#include "ip_adapter_tokens.h"

#include "kiln/kit.h"
#include "vision_encode.h"

#include <math.h>

/* Features of n pictures, each of `each` numbers. */
typedef struct {
    float *data; /* NULL in an estimate */
    int64_t n, rows, width;
    size_t each;
} features;

static kiln_status features_new(const kiln_call *c, int64_t n, const features *like, features *out)
{
    *out = *like;
    out->n = n;
    out->data = NULL;
    if (kit_estimating(c)) return KILN_OK;
    out->data = c->host->scratch(c->ctx, (size_t)n * like->each * sizeof(float), KILN_CPU);
    return out->data ? KILN_OK : KILN_ERR_NOMEM;
}

/* ---- of pictures ---- */

static kiln_status check_width(const kiln_call *c, const ip_adapter_config *config, int64_t width)
{
    if (width == config->features) return KILN_OK;
    return c->host->fail(c->ctx, KILN_ERR_INVALID,
                         "this IP-Adapter is shown %s that are %lld wide, and those of this vision encoder are %lld; "
                         "take the encoder that it was made for",
                         ip_adapter_features(config), (long long)config->features, (long long)width);
}

static kiln_status encode(const kiln_call *c, const ip_adapter_pictures *from, const kiln_value *image, features *out)
{
    const ip_adapter_config *config = ip_adapter_config_of(from->adapter);
    const char *key = ip_adapter_features(config);
    kiln_value *encoded = NULL;
    kiln_tensor t;
    TRY(vision_encode(c, from->clip_vision, image, 1, &encoded));
    const kiln_value *found = kit_values(c)->map_get(encoded, key);
    kiln_status status = found ? kit_f32_between(c, found, 2, 3, key, &t)
                               : c->host->fail(c->ctx, KILN_ERR_INVALID, "the vision encoder gives no %s", key);
    if (status == KILN_OK) status = check_width(c, config, t.dim[t.rank - 1]);
    if (status == KILN_OK) {
        features like = {.rows = t.rank == 3 ? t.dim[1] : 1, .width = t.dim[t.rank - 1]};
        like.each = (size_t)(like.rows * like.width);
        status = features_new(c, t.dim[0], &like, out);
        if (status == KILN_OK && out->data) memcpy(out->data, t.data, (size_t)out->n * out->each * sizeof(float));
    }
    c->host->unref(encoded);
    return status;
}

static kiln_status encode_negative(const kiln_call *c, const ip_adapter_pictures *from, const features *positive,
                                   features *out)
{
    kiln_value *black = NULL;
    if (from->negative) return encode(c, from, from->negative, out);
    if (ip_adapter_config_of(from->adapter)->kind == IP_ADAPTER_EMBEDS) {
        TRY(features_new(c, 1, positive, out));
        if (out->data) memset(out->data, 0, out->each * sizeof(float));
        return KILN_OK;
    }
    kiln_status status = vision_black(c, from->clip_vision, &black);
    if (status == KILN_OK) status = encode(c, from, black, out);
    c->host->unref(black);
    return status;
}

/* ---- several ---- */

/* Number i of all pictures as one. */
static double combined(const features *x, size_t i, uint32_t combine)
{
    double sum = 0, square = 0, n = (double)x->n;
    for (int64_t k = 0; k < x->n; k++) {
        double number = (double)x->data[(size_t)k * x->each + i];
        sum += number, square += number * number;
    }
    double first = (double)x->data[i];
    switch (combine) {
    case IP_COMBINE_SUBTRACT: return first - (sum - first) / (n - 1);
    case IP_COMBINE_AVERAGE: return sum / n;
    case IP_COMBINE_NORM_AVERAGE: return square > 0 ? sum / sqrt(square) / n : 0;
    default: return sum;
    }
}

static kiln_status combine_all(const kiln_call *c, uint32_t combine, features *x)
{
    features one;
    if (combine == IP_COMBINE_CONCAT || x->n == 1) return KILN_OK;
    TRY(features_new(c, 1, x, &one));
    for (size_t i = 0; one.data && i < one.each; i++) one.data[i] = (float)combined(x, i, combine);
    *x = one;
    return KILN_OK;
}

/* As many as the positive side has: the last one once more, or without the rest. */
static kiln_status match(const kiln_call *c, int64_t n, features *x)
{
    features out;
    TRY(features_new(c, n, x, &out));
    for (int64_t i = 0; out.data && i < n; i++)
        memcpy(out.data + (size_t)i * x->each, x->data + (size_t)(i < x->n ? i : x->n - 1) * x->each,
               x->each * sizeof(float));
    *x = out;
    return KILN_OK;
}

/* ---- tokens ---- */

typedef struct {
    const kiln_ops *ops;
    kiln_program *p;
    int64_t dim[KILN_MAX_RANK]; /* of the tokens */
} recording;

static void take_tokens(const kiln_outputs *out, const char *name, kiln_t t)
{
    recording *r = out->self;
    r->ops->output(r->p, name, t);
    r->ops->shape(r->p, t, r->dim, KILN_MAX_RANK);
}

static kiln_status plan(const kiln_call *c, const kiln_net *net, const features *x, recording *r)
{
    const char *key = ip_adapter_features(ip_adapter_config_of(net));
    const kiln_outputs out = {.size = sizeof out, .self = r, .add = take_tokens};
    int is_embeds = ip_adapter_config_of(net)->kind == IP_ADAPTER_EMBEDS;
    kiln_named_tensor in = {.size = sizeof in, .name = key};
    in.tensor = r->ops->input(r->p, key, KILN_F32, is_embeds ? 2 : 3,
                              is_embeds ? KILN_DIMS(x->n, x->width) : KILN_DIMS(x->n, x->rows, x->width));
    net->network->record(net->network, r->ops, r->p, net->weights, &in, 1, &out);
    return r->ops->plan(c->ctx, r->p, NULL);
}

static kiln_status run(const kiln_call *c, const kiln_net *net, const features *x, const recording *r, int64_t *rows,
                       kiln_value **out)
{
    const ip_adapter_config *config = ip_adapter_config_of(net);
    int64_t given[] = {x->n, x->rows, x->width};
    kiln_tensor t;
    *rows = r->dim[1];
    TRY(kit_new_f32(c, 3, KILN_DIMS(1, r->dim[0] * r->dim[1], r->dim[2]), out, &t));
    if (config->kind == IP_ADAPTER_EMBEDS) given[1] = x->width;
    kiln_bind in = KILN_BIND(ip_adapter_features(config),
                             kit_window(KILN_F32, KILN_CPU, x->data, config->kind == IP_ADAPTER_EMBEDS ? 2 : 3, given));
    kiln_bind result = KILN_BIND("tokens", kit_window(KILN_F32, KILN_CPU, t.data, 3, r->dim));
    return r->ops->run(c->ctx, r->p, &in, 1, &result, 1);
}

static kiln_status make(const kiln_call *c, const kiln_net *net, const features *x, int64_t *rows, kiln_value **out)
{
    const kiln_program_options options = {.size = sizeof options, .name = "ip-adapter"};
    recording r = {.ops = c->host->ability(KILN_OPS_ABILITY)};
    if (!(r.p = r.ops->program_new(c->ctx, &options))) return KILN_ERR_NOMEM;
    kiln_status status = plan(c, net, x, &r);
    if (status == KILN_OK) status = run(c, net, x, &r, rows, out);
    r.ops->program_free(r.p);
    return status;
}

kiln_status ip_adapter_make_tokens(const kiln_call *c, const ip_adapter_pictures *from, ip_adapter_tokens *out)
{
    features positive, negative;
    *out = (ip_adapter_tokens){0};
    TRY(encode(c, from, from->image, &positive));
    TRY(encode_negative(c, from, &positive, &negative));
    TRY(combine_all(c, from->combine, &positive));
    TRY(match(c, positive.n, &negative));
    TRY(make(c, from->adapter, &positive, &out->each, &out->positive));
    return make(c, from->adapter, &negative, &out->each, &out->negative);
}
