/* vision_encode.c - see vision_encode.h. Each picture is one run of a program for one, so that its numbers do not
 * depend on those beside it.
 */
#include "vision_encode.h"

#include "clip_preprocess.h"
#include "kiln/kit.h"
#include "kiln/model.h"
#include "kiln/precision.h"
#include "kiln/types.h"

#include <math.h>

/* ---- CLIP_VISION_OUTPUT ---- */

#define FEATURES(key_, shape_, rank_, flags_, doc_)                                                                    \
    {                                                                                                                  \
        .size = sizeof(kiln_value_entry), .key = (key_), .kinds = 1u << KILN_V_TENSOR, .dtypes = 1u << KILN_F32,       \
        .rank_min = (rank_), .rank_max = (rank_), .shape = (shape_), .flags = (flags_), .doc = (doc_)                  \
    }

static const kiln_value_entry output_entry[] = {
    FEATURES("image_embeds", "[N,D]", 2, 0, "Each picture as a whole, projected to the width that texts have."),
    FEATURES("last_hidden_state", "[N,T,D]", 3, KILN_ENTRY_OPTIONAL, "Its class token and patches after all layers."),
    FEATURES("penultimate_hidden_states", "[N,T,D]", 3, KILN_ENTRY_OPTIONAL, "The same before the last layer."),
    FEATURES("mm_projected", "[N,T,D]", 3, KILN_ENTRY_OPTIONAL, "Its patches, projected for a language model (LLaVA)."),
};
enum { OUTPUTS = sizeof output_entry / sizeof output_entry[0] };

static const kiln_value_type output_type = {.size = sizeof output_type,
                                            .kind = KILN_V_MAP,
                                            .name = "CLIP_VISION_OUTPUT",
                                            .doc = "What a vision encoder makes of pictures.",
                                            KILN_ARRAY(entry, output_entry)};

kiln_status vision_output_type(const kiln_host *host)
{
    const kiln_types_api *types = host->ability(KILN_TYPES_ABILITY);
    return types ? types->register_type(&output_type) : KILN_ERR_UNSUPPORTED;
}

/* ---- the program ---- */

typedef struct {
    const kiln_call *call;
    const kiln_ops *ops;
    const kiln_net *net;
    clip_preprocessing how;
    kiln_program *p;
    struct {
        uint32_t rank; /* 0: the encoder does not give it */
        int64_t dim[KILN_MAX_RANK];
        kiln_value *value; /* of all pictures */
        float *data;
    } output[OUTPUTS];
} encoding;

static void take_output(const kiln_outputs *out, const char *name, kiln_t t)
{
    encoding *e = out->self;
    for (size_t i = 0; i < OUTPUTS; i++) {
        if (strcmp(output_entry[i].key, name) != 0) continue;
        uint32_t rank = e->ops->shape(e->p, t, e->output[i].dim, KILN_MAX_RANK);
        if (rank != output_entry[i].rank_min) continue;
        e->output[i].rank = rank;
        e->ops->output(e->p, name, t);
    }
}

static kiln_status record(encoding *e, uint32_t precision)
{
    const kiln_network *n = e->net->network;
    kiln_program_options options = {.size = sizeof options, .name = "vision", .precision = precision};
    const kiln_outputs out = {.size = sizeof out, .self = e, .add = take_output};
    if (KILN_HAS(kiln_network, n, precisions)) options.precisions = n->precisions;
    if (e->p) e->ops->program_free(e->p);
    if (!(e->p = e->ops->program_new(e->call->ctx, &options))) return KILN_ERR_NOMEM;
    kiln_t pixels = e->ops->input(e->p, "pixels", KILN_F32, 4, KILN_DIMS(1, e->how.size, e->how.size, 3));
    const kiln_named_tensor in = {.size = sizeof in, .name = "pixels", .tensor = pixels};
    n->record(n, e->ops, e->p, e->net->weights, &in, 1, &out);
    TRY(e->ops->plan(e->call->ctx, e->p, NULL));
    if (e->output[0].rank) return KILN_OK;
    return e->call->host->fail(e->call->ctx, KILN_ERR_INVALID, "the vision encoder gives no image_embeds");
}

/* ---- what it is given and gives ---- */

static kiln_status read_facts(encoding *e)
{
    const kiln_value_api *v = kit_values(e->call);
    const kiln_value *facts = e->net->network->facts;
    const kiln_value *mean = facts ? v->map_get(facts, "mean") : NULL, *std = facts ? v->map_get(facts, "std") : NULL;
    int known = facts && v->get_int(v->map_get(facts, "image_size"), &e->how.size) == KILN_OK && e->how.size > 0;
    for (size_t i = 0; known && i < 3; i++)
        known = v->get_float(v->list_at(mean, i), &e->how.mean[i]) == KILN_OK &&
                v->get_float(v->list_at(std, i), &e->how.std[i]) == KILN_OK;
    if (known) return KILN_OK;
    return e->call->host->fail(e->call->ctx, KILN_ERR_INVALID,
                               "the vision encoder does not say image_size, mean and std");
}

static kiln_status open_encoding(const kiln_call *c, const kiln_value *clip_vision, encoding *e)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    *e = (encoding){.call = c, .ops = c->host->ability(KILN_OPS_ABILITY)};
    if (!(e->net = models->net(c->ctx, clip_vision, "CLIP_VISION"))) return KILN_ERR_INVALID;
    return read_facts(e);
}

static kiln_status make_values(encoding *e, int64_t pictures)
{
    for (size_t i = 0; i < OUTPUTS; i++) {
        int64_t dim[KILN_MAX_RANK];
        kiln_tensor t;
        if (!e->output[i].rank) continue;
        memcpy(dim, e->output[i].dim, sizeof dim);
        dim[0] = pictures;
        TRY(kit_new_f32(e->call, e->output[i].rank, dim, &e->output[i].value, &t));
        e->output[i].data = t.data;
    }
    return KILN_OK;
}

static size_t numbers_of(const encoding *e, size_t output)
{
    size_t n = 1;
    for (uint32_t i = 1; i < e->output[output].rank; i++) n *= (size_t)e->output[output].dim[i];
    return n;
}

static kiln_status run(encoding *e, float *pixels, int64_t picture)
{
    const int64_t dim[] = {1, e->how.size, e->how.size, 3};
    kiln_bind in = KILN_BIND("pixels", kit_window(KILN_F32, KILN_CPU, pixels, 4, dim)), out[OUTPUTS];
    size_t n = 0;
    for (size_t i = 0; i < OUTPUTS; i++) {
        if (!e->output[i].rank) continue;
        float *to = kit_at(e->output[i].data, (size_t)picture * numbers_of(e, i));
        out[n++] = (kiln_bind)KILN_BIND(output_entry[i].key,
                                        kit_window(KILN_F32, KILN_CPU, to, e->output[i].rank, e->output[i].dim));
    }
    return e->ops->run(e->call->ctx, e->p, &in, 1, out, n);
}

static int is_finite(const encoding *e, int64_t picture)
{
    for (size_t i = 0; i < OUTPUTS; i++)
        for (size_t k = 0, n = e->output[i].data ? numbers_of(e, i) : 0; k < n; k++)
            if (!isfinite(e->output[i].data[(size_t)picture * n + k])) return 0;
    return 1;
}

/* A result that is not finite is made once more in f32. */
static kiln_status run_picture(encoding *e, float *pixels, int64_t picture)
{
    const kiln_call *c = e->call;
    uint32_t precision = 0;
    TRY(run(e, pixels, picture));
    if (kit_estimating(c) || is_finite(e, picture)) return KILN_OK;
    if (!kiln_goes_wider(c, "vision encoder", &precision, kiln_precision_of(e->ops, e->p)))
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "the vision encoder gives numbers that are not finite; `kiln inspect --finite %s` looks "
                             "for broken weights",
                             kiln_file_of(c->host->ability(KILN_WEIGHTS_ABILITY), e->net->weights));
    TRY(record(e, precision));
    return run(e, pixels, picture);
}

static kiln_status encode_all(encoding *e, const kiln_tensor *image)
{
    const kiln_call *c = e->call;
    const int64_t *d = image->dim;
    float *pixels = c->host->scratch(c->ctx, (size_t)(e->how.size * e->how.size * 3) * sizeof *pixels, KILN_CPU);
    if (!pixels) return KILN_ERR_NOMEM;
    for (int64_t i = 0; i < d[0]; i++) {
        const clip_picture picture = {kit_at(image->data, (size_t)(i * d[1] * d[2] * d[3])), d[1], d[2], d[3]};
        if (!kit_estimating(c)) TRY(clip_preprocess(c, &e->how, &picture, pixels));
        TRY(run_picture(e, pixels, i));
        TRY(c->host->progress(c->ctx, (uint64_t)i + 1, (uint64_t)d[0], "picture"));
    }
    return KILN_OK;
}

static kiln_status make_map(encoding *e, kiln_value **out)
{
    if (!(*out = kit_values(e->call)->new_map(e->call->ctx))) return KILN_ERR_NOMEM;
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < OUTPUTS && status == KILN_OK; i++)
        if (e->output[i].rank) status = kit_values(e->call)->map_set(*out, output_entry[i].key, e->output[i].value);
    if (status == KILN_OK) return KILN_OK;
    e->call->host->unref(*out);
    *out = NULL;
    return status;
}

kiln_status vision_encode(const kiln_call *c, const kiln_value *clip_vision, const kiln_value *image, int crop,
                          kiln_value **out)
{
    encoding e;
    kiln_tensor t;
    TRY(open_encoding(c, clip_vision, &e));
    TRY(kit_f32(c, image, 4, "image", &t));
    if (kit_count(&t) == 0 || t.dim[3] < 3 || t.dim[3] > 4)
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "the picture for the vision encoder is %lld x %lld with %lld channels; it wants colours",
                             (long long)t.dim[2], (long long)t.dim[1], (long long)t.dim[3]);
    e.how.crop = crop;
    kiln_status status = record(&e, 0);
    if (status == KILN_OK) status = make_values(&e, t.dim[0]);
    if (status == KILN_OK) status = encode_all(&e, &t);
    if (status == KILN_OK) status = make_map(&e, out);
    for (size_t i = 0; i < OUTPUTS; i++) c->host->unref(e.output[i].value);
    if (e.p) e.ops->program_free(e.p);
    return status;
}

kiln_status vision_black(const kiln_call *c, const kiln_value *clip_vision, kiln_value **out)
{
    encoding e;
    kiln_tensor t;
    TRY(open_encoding(c, clip_vision, &e));
    TRY(kit_new_f32(c, 4, KILN_DIMS(1, e.how.size, e.how.size, 3), out, &t));
    if (t.data) memset(t.data, 0, kit_count(&t) * sizeof(float));
    return KILN_OK;
}
