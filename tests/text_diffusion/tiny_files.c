/* tiny_files.c - see tiny_files.h. */
#include "tiny_files.h"

#include "golden_kit.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

static const char *const pairs[][2] = {
    {"embed_tokens.weight", "token_embd.weight"},
    {"norm.weight", "output_norm.weight"},
    {"self_conditioning.pre_norm.weight", "self_cond_pre_norm.weight"},
    {"self_conditioning.gate_proj.weight", "self_cond_gate.weight"},
    {"self_conditioning.up_proj.weight", "self_cond_up.weight"},
    {"self_conditioning.down_proj.weight", "self_cond_down.weight"},
};
static const char *const of_layer[][2] = {
    {"input_layernorm.weight", "attn_norm.weight"},
    {"self_attn.q_proj.weight", "attn_q.weight"},
    {"self_attn.k_proj.weight", "attn_k.weight"},
    {"self_attn.v_proj.weight", "attn_v.weight"},
    {"self_attn.o_proj.weight", "attn_output.weight"},
    {"self_attn.q_norm.weight", "attn_q_norm.weight"},
    {"self_attn.k_norm.weight", "attn_k_norm.weight"},
    {"post_attention_layernorm.weight", "post_attention_norm.weight"},
    {"pre_feedforward_layernorm.weight", "ffn_norm.weight"},
    {"mlp.gate_proj.weight", "ffn_gate.weight"},
    {"mlp.up_proj.weight", "ffn_up.weight"},
    {"mlp.down_proj.weight", "ffn_down.weight"},
    {"post_feedforward_layernorm.weight", "post_ffw_norm.weight"},
    {"post_feedforward_layernorm_1.weight", "post_ffw_norm_1.weight"},
    {"pre_feedforward_layernorm_2.weight", "pre_ffw_norm_2.weight"},
    {"post_feedforward_layernorm_2.weight", "post_ffw_norm_2.weight"},
    {"router.proj.weight", "ffn_gate_inp.weight"},
    {"router.scale", "ffn_gate_inp.scale"},
    {"router.per_expert_scale", "ffn_down_exps.scale"},
    {"experts.gate_up_proj", "ffn_gate_up_exps.weight"},
    {"experts.down_proj", "ffn_down_exps.weight"},
    {"layer_scalar", "layer_output_scale.weight"},
};

static void gguf_name(const char *name, char out[80])
{
    int layer, n = 0;
    if (sscanf(name, "model.encoder.language_model.layers.%d.layer_scalar%n", &layer, &n) == 1 && n) {
        snprintf(out, 80, "blk.%d.enc_layer_output_scale.weight", layer);
        return;
    }
    out[0] = 0, n = 0;
    name += strncmp(name, "model.decoder.", 14) ? 0 : 14;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        if (!strcmp(pairs[i][0], name)) snprintf(out, 80, "%s", pairs[i][1]);
    if (sscanf(name, "layers.%d.%n", &layer, &n) < 1 || !n) return;
    for (size_t i = 0; i < sizeof of_layer / sizeof of_layer[0]; i++)
        if (!strcmp(of_layer[i][0], name + n)) snprintf(out, 80, "blk.%d.%s", layer, of_layer[i][1]);
}

/* ---- tensors ---- */

static int add(tiny_file *f, kiln_weights *set, const kiln_weight_info *info, const char *name)
{
    error e = {0};
    tiny_tensor *t = &f->tensor[f->n];
    size_t n = 1;
    if (!CHECK(f->n < TINY_TENSORS_MAX && info->rank <= 4)) return 0;
    *t = (tiny_tensor){.rank = info->rank};
    for (uint32_t i = 0; i < info->rank; i++) n *= (size_t)(t->dim[i] = info->dim[i]);
    snprintf(t->name, sizeof t->name, "%s", name);
    t->data = malloc(n * sizeof *t->data);
    f->n++;
    return CHECK_MSG(weights_read_f32(set, info->name, t->data, &e) == KILN_OK, "%s", e.message);
}

int tiny_load_set(tiny_file *f, kiln_weights *set)
{
    int ok = 1;
    f->n = 0;
    for (size_t i = 0; ok && i < weights_count(set); i++) {
        kiln_weight_info info = {.size = sizeof info};
        ok = weights_at(set, i, &info) == KILN_OK && add(f, set, &info, info.name);
    }
    return ok;
}

int tiny_load(tiny_file *f)
{
    kiln_weights *set = open_weights("tests/text_diffusion/dg-tiny");
    int ok = set && tiny_load_set(f, set);
    for (size_t i = 0; ok && i < f->n; i++) {
        char name[80];
        gguf_name(f->tensor[i].name, name);
        ok = CHECK_MSG(name[0] != 0, "%s", f->tensor[i].name);
        memcpy(f->tensor[i].name, name, sizeof name);
    }
    weights_unref(set);
    if (!ok || !CHECK(f->n < TINY_TENSORS_MAX)) return 0;
    tiny_tensor *t = &f->tensor[f->n++]; /* 4 of 16 pairs turn */
    *t = (tiny_tensor){.name = "rope_freqs.weight", .rank = 1, .dim = {16}, .data = malloc(16 * sizeof(float))};
    for (int i = 0; i < 16; i++) t->data[i] = i < 4 ? 1 : 1e30f;
    return 1;
}

void tiny_free(tiny_file *f)
{
    for (size_t i = 0; i < f->n; i++) free(f->tensor[i].data);
    f->n = 0;
}

tiny_tensor *tiny_find(tiny_file *f, const char *name)
{
    for (size_t i = 0; i < f->n; i++)
        if (!strcmp(f->tensor[i].name, name)) return &f->tensor[i];
    CHECK_MSG(0, "there is no %s", name);
    return NULL;
}

void tiny_drop(tiny_file *f, const char *name)
{
    tiny_tensor *t = tiny_find(f, name);
    if (!t) return;
    free(t->data);
    *t = f->tensor[--f->n];
}

/* ---- a GGUF file ---- */

typedef struct {
    unsigned char *s;
    size_t n, capacity;
    uint64_t pairs;
} bytes;

static void put(bytes *b, const void *p, size_t n)
{
    if (b->n + n > b->capacity) b->s = realloc(b->s, b->capacity = 2 * (b->n + n));
    if (n) memcpy(b->s + b->n, p, n);
    b->n += n;
}
static void put_u32(bytes *b, uint32_t x) { put(b, &x, 4); }
static void put_u64(bytes *b, uint64_t x) { put(b, &x, 8); }
static void put_text(bytes *b, const char *s) { put_u64(b, strlen(s)), put(b, s, strlen(s)); }
static void pad(bytes *b)
{
    while (b->n % 32) put(b, "", 1);
}

static void key(bytes *b, const char *name, uint32_t type)
{
    put_text(b, name), put_u32(b, type);
    b->pairs++;
}
static void key_u32(bytes *b, const char *name, uint32_t x) { key(b, name, 4), put_u32(b, x); }
static void key_f32(bytes *b, const char *name, float x) { key(b, name, 6), put(b, &x, 4); }
static void key_bool(bytes *b, const char *name, int x) { key(b, name, 7), put(b, x ? "\1" : "\0", 1); }
static void key_text(bytes *b, const char *name, const char *s) { key(b, name, 8), put_text(b, s); }
static void key_list(bytes *b, const char *name, uint32_t type, uint64_t n)
{
    key(b, name, 9), put_u32(b, type), put_u64(b, n);
}

static void put_sizes(bytes *b, const tiny_changes *c)
{
#define KEY "diffusion-gemma."
    static const int32_t kv[] = {2, 1, 2, 1};
    key_text(b, "general.architecture", c->architecture ? c->architecture : "diffusion-gemma");
    key_u32(b, KEY "block_count", (uint32_t)(c->layers ? c->layers : 4));
    key_u32(b, KEY "context_length", (uint32_t)(c->context ? c->context : 512)),
        key_u32(b, KEY "embedding_length", 256);
    key_u32(b, KEY "feed_forward_length", 64);
    key_u32(b, KEY "attention.head_count", (uint32_t)(c->heads ? c->heads : 4));
    key_list(b, KEY "attention.head_count_kv", 5, 4), put(b, kv, sizeof kv);
    key_u32(b, KEY "attention.key_length", 32), key_u32(b, KEY "attention.key_length_swa", 16);
    key_u32(b, KEY "attention.sliding_window", 8);
    if (!c->no_pattern) key_list(b, KEY "attention.sliding_window_pattern", 7, 4), put(b, "\1\0\1\0", 4);
    key_f32(b, KEY "attention.layer_norm_rms_epsilon", 1e-6f), key_bool(b, KEY "attention.causal", 0);
    key_f32(b, KEY "rope.freq_base", 1e6f), key_f32(b, KEY "rope.freq_base_swa", 1e4f);
    key_u32(b, KEY "expert_count", 6), key_u32(b, KEY "expert_used_count", (uint32_t)(c->chosen ? c->chosen : 2));
    key_u32(b, KEY "expert_feed_forward_length", 32), key_f32(b, KEY "final_logit_softcapping", 30);
    key_u32(b, "diffusion.canvas_length", (uint32_t)(c->canvas ? c->canvas - 1 : 16));
}

/* left_out: merges of newlines */
static void put_merges(bytes *b, const json_t *merges, int left_out)
{
    bytes texts = {0};
    uint64_t n = 0;
    for (size_t i = 0; i < json_array_size(merges); i++) {
        char both[100];
        const json_t *m = json_array_get(merges, i);
        const char *left = json_string_value(json_array_get(m, 0));
        if (left_out && left[0] == '\n') continue;
        snprintf(both, sizeof both, "%s %s", left, json_string_value(json_array_get(m, 1)));
        put_text(&texts, both), n++;
    }
    key_list(b, "tokenizer.ggml.merges", 8, n);
    put(b, texts.s, texts.n);
    free(texts.s);
}

static int put_tokenizer(bytes *b, const tiny_changes *c)
{
    char path[600];
    const char *text[512] = {NULL}, *name;
    json_t *id;
    size_t n = c->tokens ? (size_t)c->tokens : 512;
    snprintf(path, sizeof path, "%s/tests/text_diffusion/dg-tiny/tokenizer.json", test_root());
    json_t *whole = json_load_file(path, 0, NULL);
    snprintf(path, sizeof path, "%s/tests/text_diffusion/tokens.json", test_root());
    json_t *said = json_load_file(path, 0, NULL), *model = json_object_get(whole, "model");
    if (!CHECK(whole && said)) return 0;
    json_object_foreach(json_object_get(model, "vocab"), name, id) text[json_integer_value(id)] = name;
    key_text(b, "tokenizer.ggml.model", "gemma4");
    key_list(b, "tokenizer.ggml.tokens", 8, n);
    for (size_t i = 0; i < n; i++) put_text(b, i < 512 ? text[i] : "<more>");
    key_list(b, "tokenizer.ggml.token_type", 5, n);
    for (size_t i = 0; i < n; i++)
        put_u32(b, c->wrong_types ? 77
                   : i < 512      ? (uint32_t)json_integer_value(json_array_get(json_object_get(said, "kinds"), i))
                                  : 1);
    if (!c->no_merges) put_merges(b, json_object_get(model, "merges"), c->no_newline_merges);
    key_u32(b, "tokenizer.ggml.bos_token_id", 2), key_u32(b, "tokenizer.ggml.eos_token_id", 1);
    key_u32(b, "tokenizer.ggml.unknown_token_id", 3), key_u32(b, "tokenizer.ggml.padding_token_id", 0);
    key_bool(b, "tokenizer.ggml.add_bos_token", 1), key_bool(b, "tokenizer.ggml.add_space_prefix", 0);
    json_decref(whole), json_decref(said);
    return 1;
}

static uint64_t count_of(const tiny_tensor *t)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < t->rank; i++) n *= (uint64_t)t->dim[i];
    return n;
}

/* bf16 of matrices alone, as in files that are around. */
static int is_short(const tiny_changes *c, const tiny_tensor *t) { return c->bf16 && t->rank > 1; }

static size_t first_of(const tiny_file *f, const tiny_changes *c) { return c->part == 2 ? f->n / 2 : 0; }
static size_t end_of(const tiny_file *f, const tiny_changes *c) { return c->part == 1 ? f->n / 2 : f->n; }

static void put_infos(bytes *b, const tiny_file *f, const tiny_changes *c)
{
    uint64_t at = 0;
    for (size_t i = first_of(f, c); i < end_of(f, c); i++) {
        const tiny_tensor *t = &f->tensor[i];
        put_text(b, t->name), put_u32(b, t->rank);
        for (uint32_t k = t->rank; k-- > 0;) put_u64(b, (uint64_t)t->dim[k]);
        put_u32(b, is_short(c, t) ? 30 : 0), put_u64(b, at);
        at += (count_of(t) * (is_short(c, t) ? 2 : 4) + 31) / 32 * 32;
    }
}

static void put_data(bytes *b, const tiny_tensor *t, int as_bf16)
{
    if (!as_bf16) put(b, t->data, count_of(t) * 4);
    for (uint64_t i = 0; as_bf16 && i < count_of(t); i++) {
        uint32_t x;
        memcpy(&x, &t->data[i], 4);
        put(b, (unsigned char *)&x + 2, 2);
    }
    pad(b);
}

static void put_split(bytes *b, const tiny_file *f, const tiny_changes *c)
{
    const uint16_t number[] = {(uint16_t)(c->part - 1), 2};
    key(b, "split.no", 2), put(b, &number[0], 2);
    key(b, "split.count", 2), put(b, &number[1], 2);
    key(b, "split.tensors.count", 5), put_u32(b, (uint32_t)f->n);
}

int tiny_write(const tiny_file *f, const tiny_changes *c, const char *path)
{
    bytes keys = {0}, all = {0};
    if (c->part != 2) put_sizes(&keys, c);
    if (c->part != 2 && !put_tokenizer(&keys, c)) return 0;
    if (c->part) put_split(&keys, f, c);
    put(&all, "GGUF", 4), put_u32(&all, 3), put_u64(&all, end_of(f, c) - first_of(f, c)), put_u64(&all, keys.pairs);
    put(&all, keys.s, keys.n);
    put_infos(&all, f, c);
    pad(&all);
    for (size_t i = first_of(f, c); i < end_of(f, c); i++) put_data(&all, &f->tensor[i], is_short(c, &f->tensor[i]));
    FILE *out = fopen(path, "wb");
    int ok = CHECK(out != NULL) && CHECK(fwrite(all.s, 1, all.n, out) == all.n);
    if (out) fclose(out);
    free(keys.s), free(all.s);
    return ok;
}

/* ---- shards ---- */

static int write_shard(const kiln_weights *set, const char *path, size_t from, size_t to, json_t *map, const char *file)
{
    bytes data = {0};
    json_t *head = json_object();
    for (size_t i = from; i < to; i++) {
        kiln_weight_info info = {.size = sizeof info}, again = info;
        weights_at(set, i, &info);
        const void *p = weights_bytes(set, info.name, &again);
        char entry[300], dims[100] = "";
        for (uint32_t k = 0; k < info.rank; k++)
            snprintf(dims + strlen(dims), 25, "%s%lld", k ? "," : "", (long long)info.dim[k]);
        snprintf(entry, sizeof entry, "{\"dtype\": \"BF16\", \"shape\": [%s], \"data_offsets\": [%zu, %zu]}", dims,
                 data.n, data.n + info.bytes);
        json_object_set_new(head, info.name, json_loads(entry, 0, NULL));
        json_object_set_new(map, info.name, json_stringn(file, strlen(file)));
        put(&data, p, info.bytes);
    }
    char *text = json_dumps(head, JSON_COMPACT);
    const uint64_t n = strlen(text);
    FILE *out = fopen(path, "wb");
    int ok = CHECK(out != NULL) && fwrite(&n, 8, 1, out) == 1 && fwrite(text, 1, n, out) == n &&
             fwrite(data.s, 1, data.n, out) == data.n;
    if (out) fclose(out);
    free(text), free(data.s);
    json_decref(head);
    return CHECK(ok);
}

int tiny_write_shards(const char *folder)
{
    static const char *const names[] = {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"};
    char path[700];
    kiln_weights *set = open_weights("tests/text_diffusion/dg-tiny");
    json_t *map = json_object();
    int ok = set != NULL;
    for (size_t i = 0; ok && i < 2; i++) {
        const size_t n = weights_count(set);
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        ok = write_shard(set, path, i * n / 2, (i + 1) * n / 2, map, names[i]);
    }
    json_t *index = json_object();
    json_object_set_new(index, "weight_map", map);
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", folder);
    ok = ok && CHECK(json_dump_file(index, path, 0) == 0);
    json_decref(index);
    weights_unref(set);
    return ok;
}
