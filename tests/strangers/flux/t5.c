/* t5.c - the encoder of a T5 1.1 (Raffel et al. 2020; Shazeer 2020) under transformers' names: token ids -> tokens.
 * What a key is away from a query counts by a table of buckets, the first block's in all of them. Scores are not
 * scaled.
 */
#include "flux.h"

#include "kiln/config.h"
#include "kiln/ops.h"

#include <stdio.h>
#include <stdlib.h>

enum { IDS_MAX = 1024 };

typedef struct {
    int64_t width, head, heads, hidden, layers, vocabulary, buckets, distance;
    float eps;
} t5;

typedef struct {
    const kiln_ops *o;
    kiln_program *p;
    kiln_weights *weights;
    const t5 *m;
    int64_t length;
} walk;

static kiln_status read_config(const kiln_call *c, const kiln_weights *set, t5 *m)
{
    static const config_rule expected[] = {{"feed_forward_proj", "\"gated-gelu\""}};
    config from = config_open(c->host, c->ctx, set, "__metadata__/config");
    if (!from.root && !from.failed) CONFIG_FAIL(&from, KILN_ERR_INVALID, "this T5 has no 'config' in its metadata");
    config_expect(&from, expected, COUNT(expected));
    m->width = config_int(&from, "d_model", 4096, 1, 1 << 16);
    m->head = config_int(&from, "d_kv", 64, 1, 1024);
    m->heads = config_int(&from, "num_heads", 64, 1, 1024);
    m->hidden = config_int(&from, "d_ff", 10240, 1, 1 << 20);
    m->layers = config_int(&from, "num_layers", 24, 1, 1000);
    m->vocabulary = config_int(&from, "vocab_size", 32128, 1, 1 << 20);
    m->buckets = config_int(&from, "relative_attention_num_buckets", 32, 2, 1024);
    m->distance = config_int(&from, "relative_attention_max_distance", 128, 2, 1 << 20);
    m->eps = (float)config_number(&from, "layer_norm_epsilon", 1e-6, 0, 1);
    config_close(&from);
    return from.failed ? KILN_ERR_INVALID : KILN_OK;
}

static kiln_t linear(const walk *s, kiln_t x, int64_t out, int64_t in, const char *name)
{
    return s->o->linear(s->p, x, s->o->weight(s->p, s->weights, name, 2, KILN_DIMS(out, in)), (kiln_t){0});
}

static kiln_t norm(const walk *s, kiln_t x, const char *name)
{
    kiln_norm how = {.size = sizeof how, .kind = KILN_NORM_RMS, .eps = s->m->eps};
    how.gain = s->o->weight(s->p, s->weights, name, 1, &s->m->width);
    return s->o->normalize(s->p, x, &how);
}

static kiln_t attention(const walk *s, kiln_t x, long long i, kiln_t table)
{
    const t5 *m = s->m;
    const int64_t inner = m->heads * m->head;
    char name[96];
#define PART(which) NAME(name, "encoder.block.%lld.layer.0.SelfAttention." which ".weight", i)
    kiln_t q = linear(s, x, inner, m->width, PART("q")), k = linear(s, x, inner, m->width, PART("k"));
    kiln_t v = linear(s, x, inner, m->width, PART("v"));
    const kiln_attention a = {.size = sizeof a,
                              .heads = (int32_t)m->heads,
                              .scale = 1,
                              .bias_table = table,
                              .bidirectional = 1,
                              .max_distance = m->distance};
    return linear(s, s->o->attention(s->p, q, k, v, &a), m->width, inner, PART("o"));
}

static kiln_t feed_forward(const walk *s, kiln_t x, long long i)
{
    const t5 *m = s->m;
    char name[96];
#define MATRIX(which) NAME(name, "encoder.block.%lld.layer.1.DenseReluDense." which ".weight", i)
    kiln_t gate = linear(s, x, m->hidden, m->width, MATRIX("wi_0")),
           up = linear(s, x, m->hidden, m->width, MATRIX("wi_1"));
    kiln_t h = s->o->map(s->p, "gelu_tanh(a) * b", (kiln_t[]){gate, up}, 2, NULL);
    return linear(s, h, m->width, m->hidden, MATRIX("wo"));
}

/* The stream is f32 in every precision: T5's grows large. */
static kiln_status record(kiln_ctx *ctx, const walk *s)
{
    const kiln_map to_f32 = {.size = sizeof to_f32, .dtype = KILN_F32};
    char name[96];
    kiln_t ids = s->o->input(s->p, "ids", KILN_I32, 2, KILN_DIMS(1, s->length));
    kiln_t words = s->o->weight(s->p, s->weights, "shared.weight", 2, KILN_DIMS(s->m->vocabulary, s->m->width));
    kiln_t table =
        s->o->weight(s->p, s->weights, "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", 2,
                     KILN_DIMS(s->m->buckets, s->m->heads));
    kiln_t x = s->o->cast(s->p, s->o->embedding(s->p, words, ids), KILN_F32);
    for (long long i = 0; i < s->m->layers; i++) {
        kiln_t h = norm(s, x, NAME(name, "encoder.block.%lld.layer.0.layer_norm.weight", i));
        x = s->o->map(s->p, "a + b", (kiln_t[]){x, attention(s, h, i, table)}, 2, &to_f32);
        h = norm(s, x, NAME(name, "encoder.block.%lld.layer.1.layer_norm.weight", i));
        x = s->o->map(s->p, "a + b", (kiln_t[]){x, feed_forward(s, h, i)}, 2, &to_f32);
    }
    s->o->output(s->p, "tokens", norm(s, x, "encoder.final_layer_norm.weight"));
    return s->o->plan(ctx, s->p, NULL);
}

/* ---- ExampleT5Encode ---- */

typedef struct {
    const char *path, *ids;
} t5_params;

static int64_t parse(const char *text, int32_t ids[IDS_MAX], int64_t vocabulary)
{
    int64_t n = 0;
    char *end;
    for (const char *at = text; *(at += strspn(at, " ")); at = end) {
        long id = strtol(at, &end, 10);
        if (end == at || n == IDS_MAX || id < 0 || id >= vocabulary) return 0;
        ids[n++] = (int32_t)id;
    }
    return n;
}

static kiln_status encode(const kiln_call *c, kiln_weights *set, kiln_program **program)
{
    const kiln_ops *ops = c->host->ability(KILN_OPS_ABILITY);
    t5 m = {0};
    int32_t ids[IDS_MAX];
    kiln_tensor to;
    TRY(read_config(c, set, &m));
    walk s = {
        .o = ops, .weights = set, .m = &m, .length = parse(((const t5_params *)c->params)->ids, ids, m.vocabulary)};
    if (!s.length)
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "ids: 1 to %d numbers from 0 to %lld are expected", IDS_MAX,
                             (long long)m.vocabulary - 1);
    TRY(kit_new_f32(c, 3, KILN_DIMS(1, s.length, m.width), &c->out[0], &to));
    s.p = *program =
        ops->program_new(c->ctx, &(kiln_program_options){.size = sizeof(kiln_program_options), .name = "t5"});
    if (!s.p) return KILN_ERR_NOMEM;
    TRY(record(c->ctx, &s));
    const kiln_bind in = KILN_BIND("ids", kit_window(KILN_I32, KILN_CPU, ids, 2, KILN_DIMS(1, s.length)));
    const kiln_bind out = KILN_BIND("tokens", to);
    return ops->run(c->ctx, s.p, &in, 1, &out, 1);
}

static kiln_status run(const kiln_call *c)
{
    const kiln_weights_api *w = c->host->ability(KILN_WEIGHTS_ABILITY);
    const kiln_ops *ops = c->host->ability(KILN_OPS_ABILITY);
    kiln_program *program = NULL;
    kiln_weights *set = w->open(c->ctx, ((const t5_params *)c->params)->path);
    if (!set) return KILN_ERR_IO;
    kiln_status status = encode(c, set, &program);
    if (program) ops->program_free(program);
    w->unref(set);
    return status;
}

static const kiln_port out_ports[] = {{.name = "tokens", .type = "*", .doc = "f32 [1,T,D]."}};
static const kiln_param param[] = {{.name = "file",
                                    .type = KILN_P_FILE,
                                    .flags = KILN_PARAM_REQUIRED,
                                    .offset = offsetof(t5_params, path),
                                    .from = "text_encoders",
                                    .doc = "A .safetensors file with a config in its metadata."},
                                   {.name = "ids",
                                    .type = KILN_P_STRING,
                                    .flags = KILN_PARAM_REQUIRED,
                                    .offset = offsetof(t5_params, ids),
                                    .doc = "Token ids."}};
const kiln_node t5_node = {KIT_NODE("ExampleT5Encode", "T5 Encode", "examples", "Token ids to tokens."),
                           KILN_ARRAY(out, out_ports), KIT_PARAMS(t5_params, param), .run = run};
