/* inspect_facts.c - what a MODEL, a CLIP, a VAE or a network of another kind says of itself in its tables. */
#include "cli/inspect.h"
#include "plugin/abilities.h"
#include "tensor/dtype.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- small pieces ---- */

static void put_int(kiln_value *map, const char *key, int64_t v) { inspect_put(map, key, value_int(v)); }
static void put_float(kiln_value *map, const char *key, double v) { inspect_put(map, key, value_float(v)); }

/* The types that are wide enough, where not all are. */
static void put_precisions(kiln_value *map, uint32_t precisions)
{
    static const uint32_t all[] = {KILN_F32, KILN_BF16, KILN_F16};
    kiln_value *list = precisions ? value_list() : NULL;
    for (size_t i = 0; list && i < sizeof all / sizeof all[0]; i++)
        if (precisions >> all[i] & 1) inspect_push(list, value_string(dtype_name(all[i]), strlen(dtype_name(all[i]))));
    inspect_put(map, "precisions", list);
}

static const char *kind_of_input(uint32_t kind)
{
    static const char *const name[] = {"?",    "tokens",  "vector", "scalar", "latent", "image",
                                       "mask", "lengths", "ids",    "table",  "latents"};
    return kind < sizeof name / sizeof name[0] ? name[kind] : "?";
}

static void put_inputs(kiln_value *map, const kiln_input_spec *row, uint32_t n, uint32_t stride)
{
    kiln_value *list = n ? value_list() : NULL;
    for (uint32_t i = 0; list && i < n; i++) {
        kiln_input_spec s = kiln_input_spec_at(row, stride, i);
        kiln_value *one = value_map();
        if (!one) break;
        inspect_put_text(one, "name", s.name);
        inspect_put_text(one, "key", s.key ? s.key : s.name);
        inspect_put_text(one, "kind", kind_of_input(s.kind));
        if (s.width) put_int(one, "width", s.width);
        inspect_put(one, "optional", value_bool((s.flags & KILN_INPUT_OPTIONAL) != 0));
        inspect_push(list, one);
    }
    inspect_put(map, "inputs", list);
}

static void put_latent(kiln_value *map, const char *key, const kiln_latent_format *f)
{
    kiln_value *one = f ? value_map() : NULL;
    if (!one) return;
    put_int(one, "channels", f->channels);
    put_int(one, "rank", f->rank ? f->rank : 4);
    put_int(one, "factor", f->factor ? f->factor : 1);
    if (f->time_factor) put_int(one, "time_factor", f->time_factor);
    if (f->patch > 1) put_int(one, "patch", f->patch);
    if (f->scaling && f->scaling->n == 1) {
        put_float(one, "scale", f->scaling->scale[0]);
        if (f->scaling->shift && f->scaling->shift[0] != 0) put_float(one, "shift", f->scaling->shift[0]);
    } else if (f->scaling) {
        inspect_put_text(one, "scale", "one a channel");
    }
    inspect_put(map, key, one);
}

/* ---- MODEL ---- */

/* What the network says, found from how the level takes it: x0 = of_x x + of_prediction p. */
static const char *prediction_of(const kiln_model_sampling *s)
{
    double sigma = s->process == KILN_PROCESS_FLOW ? 0.5 : 1, root = sqrt(sigma * sigma + 1);
    const struct {
        const char *name;
        double of_x, of_prediction;
    } rows[] = {{s->process == KILN_PROCESS_FLOW ? "flow" : "eps", 1, -sigma},
                {"v", 1 / (sigma * sigma + 1), -sigma / root},
                {"x0", 0, 1}};
    kiln_level l = {.size = sizeof l};
    s->level(s, sigma, &l);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (fabs(l.of_x - rows[i].of_x) < 1e-6 && fabs(l.of_prediction - rows[i].of_prediction) < 1e-6)
            return rows[i].name;
    return "its own";
}

static void put_sampling(kiln_value *map, const kiln_model_sampling *s)
{
    kiln_value *one = s ? value_map() : NULL;
    if (!one) return;
    inspect_put_text(one, "prediction", prediction_of(s));
    inspect_put_text(one, "process",
                     s->process == KILN_PROCESS_DIFFUSION ? "diffusion"
                     : s->process == KILN_PROCESS_FLOW    ? "flow"
                                                          : "image");
    put_float(one, "sigma_min", s->sigma_min);
    put_float(one, "sigma_max", s->sigma_max);
    put_int(one, "levels", s->n_sigma);
    inspect_put_text(one, "identity", s->identity);
    inspect_put(map, "sampling", one);
}

static void model_facts(kiln_ctx *c, const kiln_value *v, kiln_value *map)
{
    const kiln_model *m = model_api.model(c, v);
    const kiln_denoiser *d = m ? m->denoiser : NULL;
    if (!d) return;
    put_latent(map, "latent", d->latent);
    put_sampling(map, m->sampling ? m->sampling : d->sampling);
    put_inputs(map, d->input, d->n_input, d->input_stride);
    if (KILN_HAS(kiln_denoiser, d, architecture)) inspect_put_text(map, "architecture", d->architecture);
    if (KILN_HAS(kiln_denoiser, d, precisions)) put_precisions(map, d->precisions);
}

/* ---- CLIP ---- */

/* The id that fills a chunk: the last of an empty prompt's. */
static void put_padding(kiln_ctx *c, const kiln_clip_encoder *e, kiln_value *map)
{
    kiln_tokens t = {.size = sizeof t};
    if (!e->encoder->max_length || e->encoder->tokenise(e->encoder, e->tokenizer, &engine_host, c, "", &t) != KILN_OK ||
        !t.n_chunk || !t.length)
        return;
    put_int(map, "padding", t.id[t.length - 1]);
}

static kiln_value *encoder_facts(kiln_ctx *c, const kiln_clip_encoder *e)
{
    const kiln_text_encoder *t = e->encoder;
    kiln_value *one = value_map();
    if (!one) return NULL;
    inspect_put_text(one, "name", e->name);
    inspect_put_text(one, "architecture", KILN_HAS(kiln_text_encoder, t, architecture) ? t->architecture : NULL);
    put_int(one, "width", t->width);
    if (t->pooled_width) put_int(one, "pooled_width", t->pooled_width);
    put_int(one, "layers", t->layers);
    put_int(one, "layer", e->layer ? e->layer : t->default_layer);
    if (t->max_length) put_int(one, "chunk", t->max_length);
    if (KILN_HAS(kiln_text_encoder, t, precisions)) put_precisions(one, t->precisions);
    put_padding(c, e, one);
    return one;
}

static void clip_facts(kiln_ctx *c, const kiln_value *v, kiln_value *map)
{
    const kiln_clip *clip = model_api.clip(c, v);
    kiln_value *list = clip ? value_list() : NULL;
    if (!list) return;
    for (uint32_t i = 0; i < clip->n_encoder; i++) inspect_push(list, encoder_facts(c, kiln_clip_encoder_at(clip, i)));
    const kiln_text_encoder *only = kiln_clip_encoder_at(clip, 0)->encoder;
    if (clip->n_encoder == 1 && KILN_HAS(kiln_text_encoder, only, architecture))
        inspect_put_text(map, "architecture", only->architecture);
    inspect_put(map, "encoders", list);
}

/* ---- VAE, and all others ---- */

static void vae_facts(kiln_ctx *c, const kiln_value *v, kiln_value *map)
{
    const kiln_vae *vae = model_api.vae(c, v);
    const kiln_autoencoder *a = vae ? vae->autoencoder : NULL;
    if (!a) return;
    put_latent(map, "latent", a->latent);
    put_int(map, "image_channels", a->image_channels ? a->image_channels : 3);
    inspect_put(map, "encodes", value_bool(a->record_encode != NULL));
    inspect_put(map, "decodes", value_bool(a->record_decode != NULL));
    inspect_put(map, "tiles", value_bool(a->tile != NULL));
    if (KILN_HAS(kiln_autoencoder, a, architecture)) inspect_put_text(map, "architecture", a->architecture);
    if (KILN_HAS(kiln_autoencoder, a, precisions)) put_precisions(map, a->precisions);
}

/* Kinds of kiln's own whose values are a kiln_net of a known type. */
static const struct {
    const char *kind, *type;
} nets[] = {{KILN_FAMILY_CONTROL, "CONTROL_NET"},
            {KILN_FAMILY_VISION, "CLIP_VISION"},
            {KILN_FAMILY_UPSCALER, "UPSCALE_MODEL"},
            {KILN_FAMILY_PATCH, "PATCHES"},
            {"ip_adapter", "IPADAPTER"},
            {"style", "STYLE_MODEL"},
            {"gligen", "GLIGEN"},
            {"text_diffusion", "TEXT_DIFFUSION_NET"}};

static const kiln_net *net_of(kiln_ctx *c, const char *kind, const kiln_value *v)
{
    for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++)
        if (strcmp(nets[i].kind, kind) == 0) return model_api.net(c, v, nets[i].type);
    return NULL;
}

static void net_facts(kiln_ctx *c, const char *kind, const kiln_value *v, kiln_value *map)
{
    const kiln_net *net = net_of(c, kind, v);
    const kiln_network *n = net ? net->network : NULL;
    if (!n) return;
    put_inputs(map, n->input, n->n_input, n->input_stride);
    if (n->facts) inspect_put(map, "facts", value_ref((kiln_value *)(uintptr_t)n->facts));
    if (KILN_HAS(kiln_network, n, architecture)) inspect_put_text(map, "architecture", n->architecture);
    if (KILN_HAS(kiln_network, n, precisions)) put_precisions(map, n->precisions);
}

void inspect_facts(kiln_ctx *c, const char *kind, const kiln_value *v, kiln_value *part)
{
    if (strcmp(kind, KILN_FAMILY_DENOISER) == 0)
        model_facts(c, v, part);
    else if (strcmp(kind, KILN_FAMILY_TEXT_ENCODER) == 0)
        clip_facts(c, v, part);
    else if (strcmp(kind, KILN_FAMILY_AUTOENCODER) == 0)
        vae_facts(c, v, part);
    else
        net_facts(c, kind, v, part);
}

kiln_weights *inspect_weights(kiln_ctx *c, const char *kind, const kiln_value *v, size_t i)
{
    if (strcmp(kind, KILN_FAMILY_TEXT_ENCODER) == 0) {
        const kiln_clip *clip = model_api.clip(c, v);
        return clip && i < clip->n_encoder ? kiln_clip_encoder_at(clip, i)->weights : NULL;
    }
    if (i > 0) return NULL;
    if (strcmp(kind, KILN_FAMILY_DENOISER) == 0) {
        const kiln_model *m = model_api.model(c, v);
        return m ? m->weights : NULL;
    }
    if (strcmp(kind, KILN_FAMILY_AUTOENCODER) == 0) {
        const kiln_vae *vae = model_api.vae(c, v);
        return vae ? vae->weights : NULL;
    }
    const kiln_net *net = net_of(c, kind, v);
    return net ? net->weights : NULL;
}
