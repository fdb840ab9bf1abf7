/* dit_probe.c - a plugin for test_example_dit.sh: evaluates a DiT once on a golden's inputs, holds latents against the
 * golden, and hangs hooks on a MODEL: one that leaves a block out, one that says where it was called.
 * "golden NAME ERROR" on standard output is the largest difference by the largest value.
 */
#include "kiln/kit.h"
#include "kiln/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    const char *path, *text;
} probe_params;

#define GOLDEN                                                                                                         \
    {                                                                                                                  \
        .name = "file", .type = KILN_P_FILE, .flags = KILN_PARAM_REQUIRED, .offset = offsetof(probe_params, path),     \
        .from = "input", .doc = "The golden."                                                                          \
    }
static const kiln_param golden_param[] = {
    GOLDEN,
    {.name = "name", .type = KILN_P_STRING, .offset = offsetof(probe_params, text), .def_str = "one", .doc = "In it."}};
static const kiln_port model_in[] = {{.name = "model", .type = "MODEL", .doc = "A denoiser."}};
static const kiln_port model_out[] = {{.name = "MODEL", .type = "MODEL", .doc = "The same with a hook."}};

/* ---- against the golden ---- */

typedef struct {
    int64_t dim[4];
    size_t n;
    float *data;
} golden;

static kiln_status read_golden(const kiln_call *c, kiln_weights *set, const char *name, golden *out)
{
    const kiln_weights_api *w = c->host->ability(KILN_WEIGHTS_ABILITY);
    kiln_weight_info info = {.size = sizeof info};
    const int64_t *id;
    if (w->find(set, name, &info) != KILN_OK) return c->host->fail(c->ctx, KILN_ERR_INVALID, "no golden '%s'", name);
    out->n = 1;
    for (uint32_t i = 0; i < info.rank; i++) out->n *= (size_t)(out->dim[i] = info.dim[i]);
    out->data = c->host->scratch(c->ctx, out->n * sizeof(float), KILN_CPU);
    if (!out->data) return KILN_ERR_NOMEM;
    if (info.dtype != KILN_I64) return w->read_f32(c->ctx, set, name, out->data);
    if (!(id = w->map(c->ctx, set, name))) return KILN_ERR_INVALID;
    for (size_t i = 0; i < out->n; i++) {
        int32_t value = (int32_t)id[i];
        memcpy(&out->data[i], &value, sizeof value);
    }
    return KILN_OK;
}

static void compare(const char *name, const float *got, const golden *want)
{
    double most = 0, largest = 1e-30;
    for (size_t i = 0; i < want->n; i++) {
        double d = fabs((double)got[i] - (double)want->data[i]);
        most = d <= most ? most : d; /* NaN is taken */
        largest = fmax(largest, fabs((double)want->data[i]));
    }
    printf("golden %s %.2e\n", name, most / largest);
    fflush(stdout);
}

/* ---- TestEvaluate: the program of one evaluation, recorded and run by hand ---- */

static kiln_status record_and_run(const kiln_call *c, const kiln_model *m, const golden *in, float *out)
{
    const kiln_ops *o = c->host->ability(KILN_OPS_ABILITY);
    kiln_program_options options = {.size = sizeof options, .precision = KILN_F32, .name = "probe"};
    kiln_program *p = o->program_new(c->ctx, &options);
    const int64_t n = in[0].dim[0], ids[2] = {n, 1};
    if (!p) return KILN_ERR_NOMEM;
    kiln_named_tensor label = {.size = sizeof label, .name = "class", .tensor = o->input(p, "class", KILN_I32, 2, ids)};
    kiln_denoise_inputs at = {.size = sizeof at, .n_stream = 1, .stream = &at.x, .input = &label, .n_input = 1};
    at.x = o->input(p, "x", KILN_F32, 4, in[0].dim);
    at.timestep = o->input(p, "timestep", KILN_F32, 1, &n);
    o->output(p, "prediction", m->denoiser->record(m->denoiser, o, p, m->weights, &at));
    kiln_bind bind[] = {KILN_BIND("x", kit_window(KILN_F32, KILN_CPU, in[0].data, 4, in[0].dim)),
                        KILN_BIND("timestep", kit_window(KILN_F32, KILN_CPU, in[1].data, 1, &n)),
                        KILN_BIND("class", kit_window(KILN_I32, KILN_CPU, in[2].data, 2, ids))};
    kiln_bind result = KILN_BIND("prediction", kit_window(KILN_F32, KILN_CPU, out, 4, in[0].dim));
    kiln_status status = o->plan(c->ctx, p, NULL);
    if (status == KILN_OK) status = o->run(c->ctx, p, bind, COUNT(bind), &result, 1);
    o->program_free(p);
    return status;
}

static kiln_status evaluate(const kiln_call *c, const kiln_model *m, kiln_weights *set)
{
    static const char *const name[2][4] = {{"x", "t", "labels", "one"}, {"corner.x", "t", "labels", "corner"}};
    for (size_t k = 0; k < COUNT(name); k++) {
        golden g[4];
        for (size_t i = 0; i < COUNT(name[k]); i++) TRY(read_golden(c, set, name[k][i], &g[i]));
        float *out = c->host->scratch(c->ctx, g[3].n * sizeof *out, KILN_CPU);
        if (!out) return KILN_ERR_NOMEM;
        TRY(record_and_run(c, m, g, out));
        compare(name[k][3], out, &g[3]);
    }
    return KILN_OK;
}

static kiln_status evaluate_run(const kiln_call *c)
{
    const kiln_weights_api *w = c->host->ability(KILN_WEIGHTS_ABILITY);
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_model *m = models->model(c->ctx, c->in[0]);
    kiln_weights *set = m ? w->open(c->ctx, ((const probe_params *)c->params)->path) : NULL;
    kiln_status status = set ? evaluate(c, m, set) : KILN_ERR_INVALID;
    w->unref(set);
    return status;
}

static const kiln_node evaluate_node = {
    KIT_NODE_FLAGS(KILN_NODE_OUTPUT, 1, "TestEvaluate", "Evaluate", "test", "One evaluation against a golden."),
    KILN_ARRAY(in, model_in), KIT_PARAMS(probe_params, golden_param), .run = evaluate_run};

/* ---- TestGolden ---- */

static const kiln_port latent_in[] = {{.name = "samples", .type = "LATENT", .doc = "A result."}};

static kiln_status golden_run(const kiln_call *c)
{
    const kiln_weights_api *w = c->host->ability(KILN_WEIGHTS_ABILITY);
    const probe_params *p = c->params;
    kiln_weights *set = w->open(c->ctx, p->path);
    golden g;
    kiln_tensor t;
    kiln_status status = set ? read_golden(c, set, p->text, &g) : KILN_ERR_INVALID;
    if (status == KILN_OK) status = kit_samples(c, c->in[0], &t);
    if (status == KILN_OK && kit_count(&t) != g.n)
        status = c->host->fail(c->ctx, KILN_ERR_INVALID, "another shape than the golden '%s'", p->text);
    if (status == KILN_OK) compare(p->text, t.data, &g);
    w->unref(set);
    return status;
}

static const kiln_node golden_node = {
    KIT_NODE_FLAGS(KILN_NODE_OUTPUT, 1, "TestGolden", "Golden", "test", "A latent against a golden."),
    KILN_ARRAY(in, latent_in), KIT_PARAMS(probe_params, golden_param), .run = golden_run};

/* ---- TestHook: leaves the place out, or says where it is called ---- */

typedef struct {
    kiln_hook hook;
    const kiln_hook *all[1];
    const char *place[2];
    char name[64], identity[80];
} probe_hook;

static int leaves_out(const kiln_hook *h, const char *place) { return (void)h, (void)place, 1; }

static kiln_t say_at(const kiln_hook *h, const kiln_recording *r, kiln_t x, const kiln_place_info *i)
{
    (void)h, (void)r;
    printf("place %s\n", i->place);
    return x;
}

static void say_before(const kiln_hook *h, const kiln_recording *r, kiln_attention_info *a)
{
    (void)h, (void)r;
    printf("place %s\n", a->place);
}

static kiln_status hook_run(const kiln_call *c)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_model *m = models->model(c->ctx, c->in[0]);
    const char *place = ((const probe_params *)c->params)->text;
    probe_hook *h = m ? calloc(1, sizeof *h) : NULL;
    if (!h) return m ? KILN_ERR_NOMEM : KILN_ERR_INVALID;
    snprintf(h->name, sizeof h->name, "%s", place);
    snprintf(h->identity, sizeof h->identity, "probe %s", place);
    h->place[0] = h->name, h->all[0] = &h->hook;
    h->hook = (kiln_hook){.size = sizeof h->hook, .self = h, .identity = h->identity, .place = h->place};
    if (*place)
        h->hook.leaves_out = leaves_out;
    else
        h->hook.place = NULL, h->hook.at = say_at, h->hook.before_attention = say_before;
    kiln_model changed = *m;
    changed.hook = h->all, changed.n_hook = 1;
    changed.owned = h, changed.release = free, changed.base = c->in[0];
    if (!(c->out[0] = models->model_new(c->ctx, &changed))) free(h);
    return c->out[0] ? KILN_OK : KILN_ERR_NOMEM;
}

static const kiln_param hook_param[] = {{.name = "place",
                                         .type = KILN_P_STRING,
                                         .offset = offsetof(probe_params, text),
                                         .def_str = "",
                                         .doc = "To leave out."}};
static const kiln_node hook_node = {KIT_NODE("TestHook", "Hook", "test", "A hook on a MODEL."),
                                    KILN_ARRAY(in, model_in), KILN_ARRAY(out, model_out),
                                    KIT_PARAMS(probe_params, hook_param), .run = hook_run};

/* ---- TestPlaces: what the denoiser says its places are ---- */

static void say_listed(void *arg, const char *place, uint32_t kind)
{
    (void)arg, (void)kind, printf("listed %s\n", place);
}

static kiln_status places_run(const kiln_call *c)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_model *m = models->model(c->ctx, c->in[0]);
    if (!m) return KILN_ERR_INVALID;
    m->denoiser->places(m->denoiser, say_listed, NULL);
    fflush(stdout);
    return KILN_OK;
}

static const kiln_node places_node = {
    KIT_NODE_FLAGS(KILN_NODE_OUTPUT, 1, "TestPlaces", "Places", "test", "A denoiser's places."),
    KILN_ARRAY(in, model_in), .run = places_run};

KILN_PLUGIN("org.example.dit-probe", "1.0.0", "MIT", &evaluate_node, &golden_node, &hook_node, &places_node);
