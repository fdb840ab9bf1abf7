/* low_rank.c - a MODEL with a hook: at each place of a network for which a file has two thin matrices, what comes by
 * becomes x + strength * up(down(x)), as LoRA does to a layer (Hu et al. 2021, arXiv:2106.09685), but beside the layers
 * instead of in their weights. Shows: a new MODEL from another one, a hook, its own weights in the network's program,
 * and saying at once what would do nothing.
 *
 * The file: "PLACE.down.weight" [r,C] and "PLACE.up.weight" [C,r] for places as `kiln nodes` and docs/model-patches.md
 * name them, "middle.attn1.out".
 */
#include "kiln/kit.h"
#include "kiln/model.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct {
    const char *file;
    double strength;
} low_rank_params;

static const kiln_port in[] = {{.name = "model", .type = "MODEL", .doc = "The denoiser."}};
static const kiln_port out[] = {{.name = "MODEL", .type = "MODEL", .doc = "With what the file adds."}};
static const kiln_param param[] = {
    {.name = "file",
     .type = KILN_P_FILE,
     .flags = KILN_PARAM_REQUIRED,
     .offset = offsetof(low_rank_params, file),
     .from = "input",
     .doc = "A .safetensors file with matrices for places."},
    KIT_FLOAT(low_rank_params, strength, 1, -10, 10, 0.05, "How much of it."),
};

/* What the new MODEL owns. */
typedef struct {
    kiln_hook hook;
    const kiln_hook **hooks; /* the model's before, and this one */
    const kiln_weights_api *api;
    kiln_weights *weights;
    float strength;
    char identity[5000]; /* all that decides what is recorded */
} low_rank;

static void release(void *self)
{
    low_rank *l = self;
    if (!l) return;
    if (l->weights) l->api->unref(l->weights);
    free(l->hooks);
    free(l);
}

/* Dimension `which` of "PLACE.down.weight"; 0: the file has nothing for the place. */
static int64_t size_at(const low_rank *l, const char *place, uint32_t which)
{
    char name[200];
    kiln_weight_info info = {.size = sizeof info};
    snprintf(name, sizeof name, "%s.down.weight", place);
    return l->api->find(l->weights, name, &info) == KILN_OK && info.rank == 2 ? info.dim[which] : 0;
}

/* Asked while the network is recorded, at each of its places. */
static kiln_t at(const kiln_hook *h, const kiln_recording *r, kiln_t x, const kiln_place_info *info)
{
    const low_rank *l = h->self;
    const kiln_ops *o = r->ops;
    const int64_t rank = size_at(l, info->place, 0), width = size_at(l, info->place, 1);
    char down[220], up[220];
    if (!rank) return x;
    snprintf(down, sizeof down, "%s.down.weight", info->place);
    snprintf(up, sizeof up, "%s.up.weight", info->place);
    kiln_t h1 =
        o->linear(r->program, x, o->weight(r->program, l->weights, down, 2, KILN_DIMS(rank, width)), (kiln_t){0});
    h1 = o->linear(r->program, h1, o->weight(r->program, l->weights, up, 2, KILN_DIMS(width, rank)), (kiln_t){0});
    return o->add(r->program, x, o->affine(r->program, h1, l->strength, 0));
}

typedef struct {
    const low_rank *l;
    size_t n;
} place_count;

static void count_place(void *arg, const char *place, uint32_t kind)
{
    place_count *p = arg;
    (void)kind;
    p->n += size_at(p->l, place, 0) != 0;
}

static kiln_status fill(const kiln_call *c, const kiln_model *m, low_rank *l)
{
    const low_rank_params *p = c->params;
    place_count count = {.l = l};
    if (!(l->weights = l->api->open(c->ctx, p->file))) return KILN_ERR_INVALID; /* open() has said why */
    if (m->denoiser->places) m->denoiser->places(m->denoiser, count_place, &count);
    if (!count.n)
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "%s has no matrices for a place of this model", p->file);
    l->strength = (float)p->strength;
    /* What the file contains is part of the result's key, by the parameter; its path is enough of a program's. */
    snprintf(l->identity, sizeof l->identity, "org.example.low-rank/%s/%.9g", p->file, (double)l->strength);
    l->hook = (kiln_hook){.size = sizeof l->hook, .self = l, .identity = l->identity, .at = at};
    for (size_t i = 0; i < m->n_hook; i++) l->hooks[i] = m->hook[i];
    l->hooks[m->n_hook] = &l->hook;
    return KILN_OK;
}

static kiln_status run(const kiln_call *c)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_model *from = models->model(c->ctx, c->in[0]);
    low_rank *l = from ? calloc(1, sizeof *l) : NULL;
    if (!l) return from ? KILN_ERR_NOMEM : KILN_ERR_INVALID;
    l->api = c->host->ability(KILN_WEIGHTS_ABILITY);
    l->hooks = calloc(from->n_hook + 1, sizeof *l->hooks);
    kiln_status status = l->hooks ? fill(c, from, l) : KILN_ERR_NOMEM;
    if (status == KILN_OK) {
        kiln_model m = {.size = sizeof m};
        KILN_READ(&m, from, weights); /* its maker may have had other headers */
        m.hook = l->hooks, m.n_hook = from->n_hook + 1;
        m.owned = l, m.release = release, m.base = c->in[0]; /* the one it came from is kept alive */
        c->out[0] = models->model_new(c->ctx, &m);
        if (c->out[0]) return KILN_OK;
        status = KILN_ERR_NOMEM;
    }
    release(l);
    return status;
}

static const kiln_node node = {
    KIT_NODE("ExampleLowRank", "Low rank", "examples", "Adds what a file has for places of a network."),
    KILN_ARRAY(in, in), KILN_ARRAY(out, out), KIT_PARAMS(low_rank_params, param), .run = run};

KILN_PLUGIN("org.example.low-rank", "1.0.0", "MIT", &node);
