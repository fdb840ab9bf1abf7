/* archived_program.c - a view of weights by rules, a program with most ops over it, and the vector ops. */
#include "archived.h"

enum { N = 2, H = 4, W = 4, C = 4, NUMBERS = N * H * W * C };

typedef struct {
    const char *path;
} program_params;
static const kiln_param program_param[] = {{.name = "file",
                                            .type = KILN_P_FILE,
                                            .flags = KILN_PARAM_REQUIRED,
                                            .offset = offsetof(program_params, path),
                                            .from = "checkpoints",
                                            .doc = "The weights."}};
static const kiln_port text_out[] = {{.name = "STRING", .type = "STRING", .doc = "Numbers."}};

/* "qkv" [3C,C] cut in three, "in.conv" renamed, "turned" transposed, and once more as it is. */
static const kiln_weight_rule rules[] = {
    KILN_RULE(.from = "net.qkv", .to = "q", .row = 0, .rows = C, .more = 1),
    KILN_RULE(.from = "net.qkv", .to = "k", .row = C, .rows = C, .more = 1),
    KILN_RULE(.from = "net.qkv", .to = "v", .row = 2 * C, .rows = C),
    KILN_RULE(.from = "net.{}.conv", .to = "conv.{}"),
    KILN_RULE(.from = "net.turned", .to = "turned", .transpose = 1, .more = 1),
    KILN_RULE(.from = "net.*", .to = "plain.*"),
};

static kiln_t attention_of(const kiln_ops *o, kiln_program *p, kiln_weights *w, kiln_t x)
{
    static const char *const name[] = {"q", "k", "v"};
    kiln_t t[3];
    o->scope_push(p, "attention");
    for (int i = 0; i < 3; i++) t[i] = o->linear(p, x, o->weight(p, w, name[i], 2, KILN_DIMS(C, C)), (kiln_t){0});
    kiln_t y = o->attention(p, t[0], t[1], t[2], &(kiln_attention){.size = sizeof(kiln_attention), .heads = 2});
    o->scope_pop(p);
    return y;
}

static kiln_t network(const kiln_ops *o, kiln_program *p, kiln_weights *w, kiln_t x, kiln_t time)
{
    const kiln_conv2d same = {.size = sizeof same, .pad = {1, 1, 1, 1}};
    const kiln_timestep_embedding wave = {.size = sizeof wave, .cos_first = 1};
    kiln_t one = o->constant(p, (const float[]){1, 1, 1, 1}, 1, KILN_DIMS(C)),
           zero = o->constant(p, (const float[]){0, 0.5f, 0, -0.5f}, 1, KILN_DIMS(C));
    kiln_t h = o->conv2d(p, x, o->weight(p, w, "conv.in", 4, KILN_DIMS(C, C, 3, 3)),
                         o->weight_optional(p, w, "conv.bias", 1, KILN_DIMS(C)), &same);
    h = o->act(p, o->group_norm(p, h, 2, 1e-5f, one, zero), KILN_ACT_SILU);
    h = o->add(p, h, o->reshape(p, o->timestep_embedding(p, time, C, &wave), 4, KILN_DIMS(N, 1, 1, C)));
    kiln_t tokens = o->reshape(p, h, 3, KILN_DIMS(N, H * W, C));
    tokens = o->add(p, tokens, attention_of(o, p, w, o->layer_norm(p, tokens, 1e-5f, one, zero)));
    tokens = o->mul(p, tokens, o->linear(p, tokens, o->weight(p, w, "turned", 2, KILN_DIMS(C, C)), one));
    h = o->reshape(p, tokens, 4, KILN_DIMS(N, H, W, C));
    kiln_t half = o->slice(p, h, 1, 0, H / 2), small = o->upsample_nearest(p, half, H, W);
    kiln_t both = o->geglu(p, o->concat(p, (const kiln_t[]){h, small}, 2, 3));
    return o->affine(p, o->permute(p, both, (const uint32_t[]){0, 2, 1, 3}), 0.5f, 0.125f);
}

static kiln_status run_program(const kiln_call *c, kiln_program *p, kiln_weights *w, float *y)
{
    const kiln_ops *o = c->host->ability(KILN_OPS_ABILITY);
    float *x = c->host->scratch(c->ctx, NUMBERS * sizeof *x, KILN_CPU), time[N] = {10, 500};
    kiln_program_info info = {.size = sizeof info};
    for (int i = 0; i < NUMBERS; i++) x[i] = (float)((i * 37) % 101) / 50 - 1;
    kiln_t in = o->input(p, "x", KILN_F32, 4, KILN_DIMS(N, H, W, C)),
           t = o->input(p, "time", KILN_F32, 1, KILN_DIMS(N));
    o->step_invariant(p, t);
    o->output(p, "y", network(o, p, w, in, t));
    TRY(o->plan(c->ctx, p, &info));
    if (info.n_recorded < 10 || !info.flops)
        return c->host->fail(c->ctx, KILN_ERR_BUG, "the program's info is not there");
    const int64_t dim[] = {N, H, W, C}, two[] = {N};
    const kiln_bind from[] = {KILN_BIND("x", kit_window(KILN_F32, KILN_CPU, x, 4, dim)),
                              KILN_BIND("time", kit_window(KILN_F32, KILN_CPU, time, 1, two))};
    const kiln_bind to = KILN_BIND("y", kit_window(KILN_F32, KILN_CPU, y, 4, dim));
    return o->run(c->ctx, p, from, 2, &to, 1);
}

static kiln_status program_run(const kiln_call *c)
{
    const kiln_weights_api *w = c->host->ability(KILN_WEIGHTS_ABILITY);
    const kiln_ops *o = c->host->ability(KILN_OPS_ABILITY);
    float *y = c->host->scratch(c->ctx, NUMBERS * sizeof *y, KILN_CPU);
    kiln_weights *all = w->open(c->ctx, ((const program_params *)c->params)->path);
    kiln_weights *view = all ? w->view(c->ctx, all, rules, COUNT(rules)) : NULL;
    kiln_weight_info info = {.size = sizeof info};
    kiln_status status = view && y ? w->find(view, "q", &info) : KILN_ERR_INVALID;
    if (status == KILN_OK && (info.rank != 2 || info.dim[0] != C)) status = KILN_ERR_BUG;
    kiln_program *p = o->program_new(
        c->ctx,
        &(kiln_program_options){.size = sizeof(kiln_program_options), .name = "archived", .precision = KILN_F32});
    if (status == KILN_OK) status = p ? run_program(c, p, view, y) : KILN_ERR_NOMEM;
    o->program_free(p);
    if (view) w->unref(view);
    if (all) w->unref(all);
    return status == KILN_OK ? archived_numbers(c, "program", y, NUMBERS, &c->out[0]) : status;
}

const kiln_node archived_program = {
    KIT_NODE_FLAGS(KILN_NODE_PURE, 1, "ArchivedProgram", "Program", "archived", "Runs a program."),
    KILN_ARRAY(out, text_out), KIT_PARAMS(program_params, program_param), .run = program_run};

/* ---- vector ops ---- */

enum { VECTORS = 5, CELLS = 6, LENGTH = CELLS * 2 }; /* pictures of 2 rows of 3 cells, 2 channels */

static kiln_status vectors(const kiln_call *c, const kiln_ops *o, float *const v[VECTORS], float *result)
{
    kiln_ctx *x = c->ctx;
    const kiln_area area = {
        .size = sizeof area, .pictures = 1, .height = 2, .width = 3, .channels = 2, .x = 1, .h = 2, .w = 2};
    double dot = 0, norm = 0;
    TRY(o->combine(x, v[2], LENGTH, 2, (double[]){0.5, -2}, (const float *[]){v[0], v[1]}));
    TRY(o->add_difference(
        x, &(kiln_difference){.size = sizeof(kiln_difference), .n = LENGTH, .x = v[2], .a = v[0], .b = v[1], .t = 1.5},
        v[2]));
    TRY(o->dot(x,
               &(kiln_dot){.size = sizeof(kiln_dot),
                           .terms = 1,
                           .n = LENGTH,
                           .a = (double[]){2},
                           .b = (double[]){3},
                           .shift = 0.25,
                           .x = (const float *[]){v[2]}},
               &dot));
    TRY(o->norm(x, v[2], LENGTH, &norm));
    TRY(o->blend(x,
                 &(kiln_blend){.size = sizeof(kiln_blend),
                               .pictures = 1,
                               .cells = CELLS,
                               .channels = 2,
                               .masks = 1,
                               .a = v[2],
                               .b = v[0],
                               .mask = v[1]},
                 v[2]));
    TRY(o->crop(x, &area, v[2], v[3]));
    TRY(o->combine(x, v[4], LENGTH, 0, NULL, NULL));
    TRY(o->accumulate(x, &area, &(kiln_part){.size = sizeof(kiln_part), .data = v[3], .weight = v[0], .weights = 1},
                      v[2], v[4]));
    TRY(o->divide(x, v[2], v[4], CELLS, 2));
    TRY(o->download(x, result, v[2], LENGTH));
    result[LENGTH] = (float)dot, result[LENGTH + 1] = (float)norm;
    return KILN_OK;
}

static kiln_status vectors_run(const kiln_call *c)
{
    const kiln_ops *o = c->host->ability(KILN_OPS_ABILITY);
    float *v[VECTORS], host[LENGTH], result[LENGTH + 2];
    for (int k = 0; k < VECTORS; k++) {
        v[k] = c->host->scratch(c->ctx, sizeof host, o->device(c->ctx));
        if (!v[k]) return KILN_ERR_NOMEM;
        for (int i = 0; i < LENGTH; i++) host[i] = (float)((i * 7 + k * 3) % 8) / 8;
        TRY(o->upload(c->ctx, v[k], host, LENGTH));
    }
    TRY(vectors(c, o, v, result));
    return archived_numbers(c, "vectors", result, COUNT(result), &c->out[0]);
}

const kiln_node archived_vectors = {
    KIT_NODE_FLAGS(KILN_NODE_PURE, 1, "ArchivedVectors", "Vectors", "archived", "Runs vector ops."),
    KILN_ARRAY(out, text_out), .run = vectors_run};
