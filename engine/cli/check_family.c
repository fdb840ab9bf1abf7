/* check_family.c - see check_family.h. Sets are made of names that files of known families have, in shapes that none
 * has: a family that looks at one name only takes such a set for its own, and one that trusts a shape crashes on it.
 */
#include "cli/check_family.h"

#include "backend/runtime.h"
#include "cli/check_fixture.h"
#include "plugin/abilities.h"
#include "plugin/ctx.h"
#include "tensor/value.h"

#include <stdio.h>
#include <string.h>

enum { NAMES = 4, SHAPES = 5 };

typedef struct {
    const char *what;
    const char *name[NAMES]; /* up to a NULL */
    int certain_miss;        /* nobody's: a score above 0 is wrong */
} near_miss;

static const near_miss misses[] = {
    {"an empty set", {NULL}, 1},
    {"one tensor called 'weight'", {"weight"}, 1},
    {"names without meaning", {"a", "b.c", "layers.0.x", "é"}, 1},
    {"a checkpoint's first names",
     {"model.diffusion_model.input_blocks.0.0.weight", "first_stage_model.decoder.conv_in.weight",
      "cond_stage_model.transformer.text_model.embeddings.token_embedding.weight",
      "model.diffusion_model.time_embed.0.weight"},
     0},
    {"diffusers' first names",
     {"conv_in.weight", "time_embedding.linear_1.weight", "decoder.conv_in.weight", "encoder.conv_in.weight"},
     0},
    {"a transformer's first names",
     {"transformer_blocks.0.attn.to_q.weight", "double_blocks.0.img_attn.qkv.weight", "x_embedder.proj.weight",
      "blocks.0.self_attn.q.weight"},
     0},
    {"a language model's first names",
     {"model.embed_tokens.weight", "model.layers.0.self_attn.q_proj.weight", "token_embd.weight",
      "text_model.embeddings.token_embedding.weight"},
     0},
    {"an upscaler's first names", {"conv_first.weight", "model.0.weight", "body.0.weight", "upsampler.0.weight"}, 0},
    {"a LoRA's first names",
     {"lora_unet_down_blocks_0.lora_up.weight", "lora_unet_down_blocks_0.lora_down.weight",
      "unet.down_blocks.0.lora_A.weight", "diffusion_model.x.lora_B.weight"},
     0},
};

static const struct {
    const char *what;
    uint32_t rank;
    int64_t dim[5];
} shapes[SHAPES] = {
    {"without dimensions", 0, {0}},          {"of one dimension", 1, {3}},
    {"of two, odd ones", 2, {5, 7}},         {"of four", 4, {3, 1, 1, 5}},
    {"with a dimension of 0", 3, {4, 0, 2}},
};

typedef struct {
    const kiln_model_family *row;
    kiln_ctx *ctx;
    check_counts counts;
} trial;

static kiln_weights *make(const trial *t, const near_miss *m, int form)
{
    static const float zeros[64];
    kiln_weight_tensor tensor[NAMES];
    size_t n = 0;
    for (; n < NAMES && m->name[n]; n++)
        tensor[n] = (kiln_weight_tensor){.size = sizeof *tensor,
                                         .dtype = KILN_F32,
                                         .rank = shapes[form].rank,
                                         .name = m->name[n],
                                         .dim = shapes[form].dim,
                                         .data = zeros};
    return weights_api.make(t->ctx, "a near miss", tensor, n);
}

static void try_one(trial *t, const near_miss *m, int form)
{
    kiln_weights *set = make(t, m, form);
    const char *of = shapes[form].what;
    if (!set) return;
    const int score = t->row->detect(&weights_api, set), again = t->row->detect(&weights_api, set);
    check_found(&t->counts, score == again, "same", "detect() says %d of %s %s, and %d the next time", score, m->what,
                of, again);
    check_found(&t->counts, score >= 0 && score <= 100, "score", "detect() says %d of %s %s; 0 to 100", score, m->what,
                of);
    check_found(&t->counts, score <= 0 || !m->certain_miss, "detect", "detect() says %d of %s %s, which is nobody's",
                score, m->what, of);
    if (score > 0) { /* it may come to be opened, and then has to say what is missing */
        kiln_value *v = t->row->open(&engine_host, t->ctx, set);
        check_found(&t->counts, v || ctx_error(t->ctx)->message[0], "message",
                    "open() of %s %s gives nothing, without a message", m->what, of);
        value_unref(v);
        *ctx_error(t->ctx) = (error){0};
    }
    weights_api.unref(set);
}

/* On small files of its own weights: those that were given, and one beside the plugin with its name. */
static void try_fixtures(trial *t, const check_context *of)
{
    error e = {0};
    size_t mine = 0;
    runtime *rt = runtime_new(
        &(runtime_setting){.backend = backend_find("cpu"), .threads = 2, .precision = KILN_F32, .no_prefetch = 1}, &e);
    call_environment env = {.runtime = rt, .pool = rt ? runtime_pool(rt) : NULL};
    kiln_ctx ctx = {.env = &env, .node_name = "tried", .node_type = t->row->name, .plugin = "tried"};
    if (!check_found(&t->counts, rt != NULL, "runtime", "%s", e.message)) return;
    for (size_t i = 0; i < of->n_fixture; i++) {
        mine += (size_t)check_fixture(t->row, of->fixture[i], &ctx, &t->counts);
        arena_free(&ctx.scratch);
    }
    if (!mine)
        check_untried(&t->counts, CHECK_GIVE_WEIGHTS,
                      "on its own weights: %s; give a small file with --fixture, or --workflow one that loads them",
                      of->n_fixture ? "it takes none of the files for its own" : "there are none");
    runtime_free(rt);
}

check_counts check_family(const check_context *of, const kiln_model_family *row)
{
    error e = {0};
    runtime *rt =
        runtime_new(&(runtime_setting){.backend = backend_find("reference"), .threads = 1, .precision = KILN_F32}, &e);
    call_environment env = {.runtime = rt};
    kiln_ctx ctx = {.env = &env, .node_name = "tried", .node_type = row->name, .plugin = "tried"};
    trial t = {.row = row, .ctx = &ctx};
    if (!check_found(&t.counts, rt != NULL, "runtime", "%s", e.message)) return t.counts;
    check_found(&t.counts, row->doc && row->doc[0], "docs", "has no doc");
    for (size_t i = 0; i < sizeof misses / sizeof *misses; i++)
        for (int form = 0; form < SHAPES; form++) try_one(&t, &misses[i], form);
    arena_free(&ctx.scratch);
    runtime_free(rt);
    try_fixtures(&t, of);
    return t.counts;
}
