/* fuzz_text_diffusion.c - any bytes as what the files of a text diffusion model say beside their tensors: the keys of a
 * GGUF file, or config.json and, behind a NUL, generation_config.json. The tensors are small ones that fit. There is a
 * model whose numbers are in range and whose programs are recorded or refused, or there is a message. libFuzzer;
 * `make fuzz`. */
/* with: plugins/text_diffusion */
#include "../../plugins/text_diffusion/text_loader.h"

#include "rig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)                                                                                                \
    if (!(condition)) __builtin_trap() /* the fuzzer keeps the input */

/* ---- tensors ---- */

enum { WIDTH = 8, WORDS = 24, LAYERS = 2, TENSORS_MAX = 128 };

typedef struct {
    char name[TENSORS_MAX][80];
    int64_t dim[TENSORS_MAX][3];
    kiln_weight_tensor tensor[TENSORS_MAX];
    size_t n;
} tensor_list;

typedef struct {
    const char *name;
    int64_t dim[3];
} tensor_row;

static const tensor_row gguf_top[] = {
    {"token_embd.weight", {WORDS, WIDTH}},  {"output_norm.weight", {WIDTH}},       {"rope_freqs.weight", {2}},
    {"self_cond_pre_norm.weight", {WIDTH}}, {"self_cond_gate.weight", {4, WIDTH}}, {"self_cond_up.weight", {4, WIDTH}},
    {"self_cond_down.weight", {WIDTH, 4}}};
static const tensor_row gguf_layer[] = {{"blk.%d.attn_norm.weight", {WIDTH}},
                                        {"blk.%d.attn_q.weight", {8, WIDTH}},
                                        {"blk.%d.attn_k.weight", {4, WIDTH}},
                                        {"blk.%d.attn_v.weight", {4, WIDTH}},
                                        {"blk.%d.attn_output.weight", {WIDTH, 8}},
                                        {"blk.%d.attn_q_norm.weight", {4}},
                                        {"blk.%d.attn_k_norm.weight", {4}},
                                        {"blk.%d.post_attention_norm.weight", {WIDTH}},
                                        {"blk.%d.ffn_norm.weight", {WIDTH}},
                                        {"blk.%d.ffn_gate.weight", {4, WIDTH}},
                                        {"blk.%d.ffn_up.weight", {4, WIDTH}},
                                        {"blk.%d.ffn_down.weight", {WIDTH, 4}},
                                        {"blk.%d.post_ffw_norm.weight", {WIDTH}},
                                        {"blk.%d.post_ffw_norm_1.weight", {WIDTH}},
                                        {"blk.%d.pre_ffw_norm_2.weight", {WIDTH}},
                                        {"blk.%d.post_ffw_norm_2.weight", {WIDTH}},
                                        {"blk.%d.ffn_gate_inp.weight", {3, WIDTH}},
                                        {"blk.%d.ffn_gate_inp.scale", {WIDTH}},
                                        {"blk.%d.ffn_down_exps.scale", {3}},
                                        {"blk.%d.ffn_gate_up_exps.weight", {3, 8, WIDTH}},
                                        {"blk.%d.ffn_down_exps.weight", {3, WIDTH, 4}},
                                        {"blk.%d.layer_output_scale.weight", {1}}};
static const tensor_row llada_top[] = {{"model.transformer.wte.weight", {WORDS, WIDTH}},
                                       {"model.transformer.ff_out.weight", {WORDS, WIDTH}},
                                       {"model.transformer.ln_f.weight", {WIDTH}}};
static const tensor_row llada_layer[] = {{"model.transformer.blocks.%d.attn_norm.weight", {WIDTH}},
                                         {"model.transformer.blocks.%d.q_proj.weight", {WIDTH, WIDTH}},
                                         {"model.transformer.blocks.%d.k_proj.weight", {WIDTH, WIDTH}},
                                         {"model.transformer.blocks.%d.v_proj.weight", {WIDTH, WIDTH}},
                                         {"model.transformer.blocks.%d.attn_out.weight", {WIDTH, WIDTH}},
                                         {"model.transformer.blocks.%d.ff_norm.weight", {WIDTH}},
                                         {"model.transformer.blocks.%d.ff_proj.weight", {4, WIDTH}},
                                         {"model.transformer.blocks.%d.up_proj.weight", {4, WIDTH}},
                                         {"model.transformer.blocks.%d.ff_out.weight", {WIDTH, 4}}};

static const tensor_row llada_gguf_top[] = {
    {"token_embd.weight", {WORDS, WIDTH}}, {"output.weight", {WORDS, WIDTH}}, {"output_norm.weight", {WIDTH}}};
static const tensor_row llada_gguf_layer[] = {
    {"blk.%d.attn_norm.weight", {WIDTH}},          {"blk.%d.attn_q.weight", {WIDTH, WIDTH}},
    {"blk.%d.attn_k.weight", {WIDTH, WIDTH}},      {"blk.%d.attn_v.weight", {WIDTH, WIDTH}},
    {"blk.%d.attn_output.weight", {WIDTH, WIDTH}}, {"blk.%d.ffn_norm.weight", {WIDTH}},
    {"blk.%d.ffn_gate.weight", {4, WIDTH}},        {"blk.%d.ffn_up.weight", {4, WIDTH}},
    {"blk.%d.ffn_down.weight", {WIDTH, 4}}};
static const tensor_row tess_top[] = {{"model.embed_tokens.weight", {WORDS, WIDTH}},
                                      {"lm_head.weight", {WORDS, WIDTH}},
                                      {"model.norm.weight", {WIDTH}},
                                      {"timestep_embed.weight", {WIDTH, 1}}};
static const tensor_row tess_layer[] = {{"model.layers.%d.input_layernorm.weight", {WIDTH}},
                                        {"model.layers.%d.self_attn.q_proj.weight", {WIDTH, WIDTH}},
                                        {"model.layers.%d.self_attn.k_proj.weight", {WIDTH, WIDTH}},
                                        {"model.layers.%d.self_attn.v_proj.weight", {WIDTH, WIDTH}},
                                        {"model.layers.%d.self_attn.o_proj.weight", {WIDTH, WIDTH}},
                                        {"model.layers.%d.post_attention_layernorm.weight", {WIDTH}},
                                        {"model.layers.%d.mlp.gate_proj.weight", {4, WIDTH}},
                                        {"model.layers.%d.mlp.up_proj.weight", {4, WIDTH}},
                                        {"model.layers.%d.mlp.down_proj.weight", {WIDTH, 4}}};

typedef struct {
    const tensor_row *top, *layer;
    size_t n_top, n_layer;
} tensor_rows;

enum { OF_GEMMA, OF_LLADA, OF_LLADA_GGUF, OF_TESS, KINDS, FAMILIES = 3 };
#define ROWS(which)                                                                                                    \
    {                                                                                                                  \
        which##_top, which##_layer, sizeof which##_top / sizeof which##_top[0],                                        \
            sizeof which##_layer / sizeof which##_layer[0]                                                             \
    }
static const tensor_rows all_rows[KINDS] = {ROWS(gguf), ROWS(llada), ROWS(llada_gguf), ROWS(tess)};

static void add(tensor_list *l, const tensor_row *row, size_t n, int layer)
{
    static const float numbers[WORDS * WIDTH] = {1, 1, 1, 1, 1, 1, 1, 1};
    for (size_t i = 0; i < n; i++, l->n++) {
        MUST(l->n < TENSORS_MAX);
        kiln_weight_tensor *t = &l->tensor[l->n];
        memcpy(l->dim[l->n], row[i].dim, sizeof row[i].dim);
        const char *where = strstr(row[i].name, "%d");
        const int head = where ? (int)(where - row[i].name) : 0;
        if (where)
            snprintf(l->name[l->n], sizeof l->name[0], "%.*s%d%s", head, row[i].name, layer, where + 2);
        else
            snprintf(l->name[l->n], sizeof l->name[0], "%s", row[i].name);
        *t = (kiln_weight_tensor){
            .size = sizeof *t, .dtype = KILN_F32, .name = l->name[l->n], .dim = l->dim[l->n], .data = numbers};
        while (t->rank < 3 && row[i].dim[t->rank]) t->rank++;
    }
}

/* (transformers' names of DiffusionGemma are other names of those of its GGUF files.) */
static kiln_weights *tensors(int kind)
{
    static kiln_weights *made[KINDS];
    static tensor_list list;
    const tensor_rows *rows = &all_rows[kind];
    const kiln_weights_api *w = rig_host()->ability(KILN_WEIGHTS_ABILITY);
    if (made[kind]) return made[kind];
    list.n = 0;
    add(&list, rows->top, rows->n_top, 0);
    for (int i = 0; i < LAYERS; i++) add(&list, rows->layer, rows->n_layer, i);
    MUST((made[kind] = w->make(rig_ctx(), "tensors", list.tensor, list.n)));
    return made[kind];
}

/* ---- texts in place of files ---- */

static kiln_weights_api given_weights;
static kiln_host given_host;
static const char *config_json, *generation_json;
static struct {
    kiln_weights *set, *keys; /* what is opened; where it says something: in keys, or NULL */
    int kind;
} given;

static const char *given_text(const kiln_weights *set, const char *path, size_t *n)
{
    const kiln_weights_api *w = rig_host()->ability(KILN_WEIGHTS_ABILITY);
    const char *s = !strcmp(path, "config.json")              ? config_json
                    : !strcmp(path, "generation_config.json") ? generation_json
                                                              : w->text(set, path, n);
    if (s && n) *n = strlen(s);
    return s;
}

/* Names are the same in each run, unless there are tensors beside the keys: so views are made once. */
static kiln_weights *given_view(kiln_ctx *ctx, kiln_weights *base, const kiln_weight_rule *rule, size_t n)
{
    static kiln_weights *made[KINDS][FAMILIES];
    static const kiln_weight_rule *by[FAMILIES];
    const kiln_weights_api *w = rig_host()->ability(KILN_WEIGHTS_ABILITY);
    size_t f = 0;
    if (base != given.set || (given.keys && w->count(given.keys))) return w->view(ctx, base, rule, n);
    while (f < FAMILIES && by[f] && by[f] != rule) f++;
    MUST(f < FAMILIES);
    by[f] = rule;
    kiln_weights **known = &made[given.kind][f];
    if (!*known && !(*known = w->view(ctx, tensors(given.kind), rule, n))) return NULL;
    return given.keys ? w->overlay(ctx, *known, given.keys) : w->ref(*known);
}

static const void *given_ability(const char *id)
{
    return strcmp(id, KILN_WEIGHTS_ABILITY) ? rig_host()->ability(id) : &given_weights;
}

static void set_up(void)
{
    if (td_host) return;
    given_weights = *(const kiln_weights_api *)rig_host()->ability(KILN_WEIGHTS_ABILITY);
    given_weights.text = given_text;
    given_weights.view = given_view;
    given_host = *rig_host();
    given_host.ability = given_ability;
    td_host = &given_host;
    td_ops = rig_host()->ability(KILN_OPS_ABILITY);
}

/* ---- what is read of them ---- */

static void check_model(const text_diffusion_model *m)
{
    const text_sampling *s = &m->sampling;
    MUST(m->network && m->weights && m->words && m->head);
    MUST(m->vocabulary == WORDS && m->width == WIDTH && m->canvas >= 1 && m->canvas <= CANVAS_MAX);
    MUST(m->context >= 1 && m->context <= CONTEXT_MAX && s->steps >= 1 && s->stability >= 0);
    kiln_ctx *ctx = rig_ctx();
    MUST(text_check_tensors(ctx, m) == KILN_OK || *rig_message());
}

static int holds(const uint8_t *data, size_t size, const char *word)
{
    const size_t n = strlen(word);
    for (size_t i = 0; i + n <= size; i++)
        if (!memcmp(data + i, word, n)) return 1;
    return 0;
}

/* Both are the caller's to release. */
static void give_keys(const uint8_t *data, size_t size)
{
    const kiln_weights_api *w = rig_host()->ability(KILN_WEIGHTS_ABILITY);
    const kiln_weight_source source = {.size = sizeof source, .name = "keys", .data = data, .bytes = size};
    given.kind = holds(data, size, "llada") ? OF_LLADA_GGUF : OF_GEMMA;
    given.keys = w->open_source(rig_ctx(), &source);
    given.set = given.keys ? w->overlay(rig_ctx(), tensors(given.kind), given.keys) : NULL;
}

static int kind_of(const char *text)
{
    return strstr(text, "ForDiffusionLM") ? OF_TESS : strstr(text, "llada") ? OF_LLADA : OF_GEMMA;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char text[8192];
    const kiln_weights_api *w = rig_host()->ability(KILN_WEIGHTS_ABILITY);
    text_diffusion_model m = {0};
    if (!size || size >= sizeof text) return 0;
    set_up();
    config_json = generation_json = NULL;
    if (data[0] == 'G') {
        give_keys(data, size);
    } else {
        memcpy(text, data, size), text[size] = 0;
        config_json = text;
        if (strlen(text) < size) generation_json = text + strlen(text) + 1;
        given.kind = kind_of(text), given.keys = NULL, given.set = w->ref(tensors(given.kind));
    }
    if (!given.set) {
        w->unref(given.keys);
        return 0;
    }
    if (text_open(rig_ctx(), given.set, &m) == KILN_OK)
        check_model(&m);
    else
        MUST(*rig_message());
    if (m.network) m.family->close(m.network);
    w->unref(m.weights);
    w->unref(given.set);
    w->unref(given.keys);
    return 0;
}
