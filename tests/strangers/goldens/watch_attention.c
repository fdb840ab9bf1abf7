/* watch_attention.c - a plugin for tests: a MODEL whose joint attentions are done by a hook, which looks whether their
 * streams are the tokens that there are, each once, and then computes what it was told to. So the pictures have to be
 * the same; a stream that is missing, or lies elsewhere, fails the run.
 */
#include "kiln/kit.h"
#include "kiln/model.h"

#include <stdlib.h>

typedef struct {
    const char *reference; /* "yes": there has to be a stream of that name; "no": there is none */
} watch_params;

static int64_t tokens_of(const kiln_recording *r, kiln_t t)
{
    int64_t dim[3] = {0};
    r->ops->shape(r->program, t, dim, 3);
    return dim[1];
}

static kiln_t watched(const kiln_hook *h, const kiln_recording *r, const kiln_attention_info *a)
{
    const kiln_attention how = kiln_attention_options(a);
    const int64_t tokens = tokens_of(r, a->q);
    int64_t seen = 0, first = 0;
    int references = 0;
    for (size_t i = 0; i < a->n_stream; i++)
        seen += a->stream[i].tokens, first += a->stream[i].first, references += !strcmp(a->stream[i].name, "reference");
    if (seen != tokens || tokens != tokens_of(r, a->k) || first == 0 || references != (h->self != NULL))
        return r->ops->fail(r->program, "%s: %lld of %lld tokens are in streams, %d of them references", a->place,
                            (long long)seen, (long long)tokens, references);
    return r->ops->attention(r->program, a->q, a->k, a->v, &how);
}

static const char *const joint[] = {"double.*.attn", NULL};
static int yes;
static const kiln_hook hook[2] = {
    {.size = sizeof *hook, .identity = "test-watch", .place = joint, .attention = watched},
    {.size = sizeof *hook, .identity = "test-watch/references", .self = &yes, .place = joint, .attention = watched}};

static const kiln_port in[] = {{.name = "model", .type = "MODEL", .doc = "With joint attentions."}};
static const kiln_port out[] = {{.name = "MODEL", .type = "MODEL", .doc = "The same."}};
static const kiln_param param[] = {{.name = "reference",
                                    .type = KILN_P_STRING,
                                    .offset = offsetof(watch_params, reference),
                                    .def_str = "no",
                                    .doc = "yes: it draws from references."}};

static kiln_status run(const kiln_call *c)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_model *model = models->model(c->ctx, c->in[0]);
    const kiln_hook **all = model ? calloc(model->n_hook + 1, sizeof *all) : NULL;
    if (!all) return model ? KILN_ERR_NOMEM : KILN_ERR_INVALID;
    for (size_t i = 0; i < model->n_hook; i++) all[i] = model->hook[i];
    all[model->n_hook] = &hook[strcmp(((const watch_params *)c->params)->reference, "yes") == 0];
    kiln_model changed = *model;
    changed.hook = all, changed.n_hook = model->n_hook + 1;
    changed.owned = all, changed.release = free, changed.base = c->in[0];
    c->out[0] = models->model_new(c->ctx, &changed);
    if (!c->out[0]) free(all);
    return c->out[0] ? KILN_OK : KILN_ERR_NOMEM;
}

static const kiln_node node = {KIT_NODE("TestWatchAttention", "Watch", "test", "Looks at joint attentions."),
                               KILN_ARRAY(in, in), KILN_ARRAY(out, out), KIT_PARAMS(watch_params, param), .run = run};

KILN_PLUGIN("org.example.watch-attention", "1.0.0", "MIT", &node);
