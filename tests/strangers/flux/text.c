/* text.c - the two text encoders of Flux.1 as one CLIP: CLIP L, which is kiln's own, and T5 (t5.c).
 *
 *   tokens  T5's hidden states          [1,T,4096], the padding too: Flux attends to it
 *   pooled  CLIP L's, not projected     [1,768]
 *
 * ExampleFluxCLIPLoader opens both files, whichever is which, and puts their encoders into one value.
 * ExampleCLIPTextEncodeFlux gives each its own prompt, and the guidance; CLIPTextEncode gives both the same.
 */
#include "flux.h"

#include "kiln/loading.h"
#include "kiln/model.h"

enum { FILES = 2 };

/* ---- one CLIP of two ---- */

typedef struct {
    kiln_clip_encoder encoder[FILES];
    const kiln_host *host;
    kiln_value *part[FILES]; /* the CLIPs they are from, kept alive */
} both;

static const kiln_combined *find(const kiln_combined *in, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(in[i].name, name) == 0) return &in[i];
    return NULL;
}

static void combine(const kiln_clip *clip, const kiln_ops *o, kiln_program *p, const kiln_combined *in, size_t n,
                    const kiln_outputs *out)
{
    const kiln_combined *l = find(in, n, "l"), *t5 = find(in, n, "t5xxl");
    (void)clip;
    if (!l || !t5) {
        o->fail(p, "Flux wants the encoders 'l' and 't5xxl'");
        return;
    }
    out->add(out, "tokens", t5->tokens);
    out->add(out, "pooled", l->pooled);
}

static void release(void *owned)
{
    both *self = owned;
    for (int i = 0; i < FILES; i++) self->host->unref(self->part[i]);
    free(self);
}

/* The encoder of a CLIP that has one; NULL with a message. */
static const kiln_clip_encoder *only_encoder(const kiln_call *c, const kiln_value *clip, const char *path)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_clip *of = models->clip(c->ctx, clip);
    if (!of) return NULL;
    const kiln_clip_encoder *e = kiln_clip_encoder_at(of, 0);
    if (of->n_encoder == 1 && (strcmp(e->name, "l") == 0 || strcmp(e->name, "t5xxl") == 0)) return e;
    c->host->fail(c->ctx, KILN_ERR_INVALID, "%s has the text encoder '%s'; Flux wants CLIP L and T5, one in each file",
                  path, e->name);
    return NULL;
}

/* ---- ExampleFluxCLIPLoader ---- */

typedef struct {
    const char *path[FILES];
} loader_params;

#define ENCODER_FILE(name_, at_)                                                                                       \
    {                                                                                                                  \
        .name = name_, .type = KILN_P_FILE, .flags = KILN_PARAM_REQUIRED, .offset = offsetof(loader_params, at_),      \
        .from = "text_encoders", .doc = "CLIP L or T5, in any order."                                                  \
    }
static const kiln_param loader_param[] = {ENCODER_FILE("clip_name1", path[0]), ENCODER_FILE("clip_name2", path[1])};
static const kiln_port clip_out[] = {{.name = "CLIP", .type = "CLIP", .doc = "Both encoders."}};

static kiln_status open_both(const kiln_call *c, both *self)
{
    const loader_params *p = c->params;
    for (int i = 0; i < FILES; i++) {
        TRY(kiln_load_one(c, p->path[i], KILN_FAMILY_TEXT_ENCODER, &self->part[i]));
        const kiln_clip_encoder *e = only_encoder(c, self->part[i], p->path[i]);
        if (!e) return KILN_ERR_INVALID;
        memcpy(&self->encoder[i], e, e->size < sizeof *e ? e->size : sizeof *e);
        self->encoder[i].size = sizeof *e;
    }
    if (strcmp(self->encoder[0].name, self->encoder[1].name) != 0) return KILN_OK;
    return c->host->fail(c->ctx, KILN_ERR_INVALID, "both files are the encoder '%s'; Flux wants CLIP L and T5",
                         self->encoder[0].name);
}

static kiln_status loader_run(const kiln_call *c)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    both *self = calloc(1, sizeof *self);
    if (!self) return KILN_ERR_NOMEM;
    self->host = c->host;
    kiln_status status = open_both(c, self);
    const kiln_clip clip = {.size = sizeof clip,
                            .n_encoder = FILES,
                            .encoder = self->encoder,
                            .combine = combine,
                            .identity = "example-flux-text/1",
                            .owned = self,
                            .release = release};
    if (status == KILN_OK && !(c->out[0] = models->clip_new(c->ctx, &clip))) status = KILN_ERR_NOMEM;
    if (status != KILN_OK) release(self);
    return status;
}

const kiln_node loader_node = {
    KIT_NODE("ExampleFluxCLIPLoader", "Load Flux's text encoders", "examples", "Opens CLIP L and T5 as one CLIP."),
    KILN_ARRAY(out, clip_out), KIT_PARAMS(loader_params, loader_param), .run = loader_run};

/* ---- ExampleCLIPTextEncodeFlux ---- */

typedef struct {
    const char *clip_l, *t5xxl;
    double guidance;
} encode_params;

static const kiln_port clip_in[] = {{.name = "clip", .type = "CLIP", .doc = "CLIP L and T5 together."}};
static const kiln_port conditioning_out[] = {{.name = "CONDITIONING", .type = "CONDITIONING", .doc = "For Flux."}};
#define PROMPT(field_, doc_)                                                                                           \
    {                                                                                                                  \
        .name = #field_, .type = KILN_P_STRING, .offset = offsetof(encode_params, field_), .def_str = "", .doc = doc_  \
    }
static const kiln_param encode_param[] = {
    PROMPT(clip_l, "What CLIP L reads."), PROMPT(t5xxl, "What T5 reads."),
    KIT_FLOAT(encode_params, guidance, 3.5, 0, 100, 0.1, "How much the prompt counts.")};

static kiln_status encode_run(const kiln_call *c)
{
    const kiln_text_api *text = c->host->ability(KILN_TEXT_ABILITY);
    const encode_params *p = c->params;
    const kiln_prompt prompt[] = {{sizeof *prompt, "l", p->clip_l}, {sizeof *prompt, "t5xxl", p->t5xxl}};
    static const char *const key[] = {"guidance"};
    kiln_value *list = NULL;
    if (!text)
        return c->host->fail(c->ctx, KILN_ERR_UNSUPPORTED, KILN_TEXT_ABILITY " is not there; load org.kiln.clip");
    TRY(text->encode(c, c->in[0], prompt, COUNT(prompt), &list));
    kiln_value *guidance = kit_values(c)->new_float(c->ctx, p->guidance);
    kiln_status status = guidance ? kit_entries_with(c, list, 1, key, &guidance, &c->out[0]) : KILN_ERR_NOMEM;
    c->host->unref(guidance);
    c->host->unref(list);
    return status;
}

const kiln_node encode_node = {
    KIT_NODE_FLAGS(KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_DEVICE | KILN_NODE_ESTIMATES, 1,
                   "ExampleCLIPTextEncodeFlux", "CLIPTextEncodeFlux", "examples",
                   "A prompt for each encoder, and guidance."),
    KILN_ARRAY(in, clip_in), KILN_ARRAY(out, conditioning_out), KIT_PARAMS(encode_params, encode_param),
    .run = encode_run};
