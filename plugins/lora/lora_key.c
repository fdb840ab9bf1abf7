/* lora_key.c - see lora_key.h. The suffixes and prefixes of kohya's scripts, of LyCORIS and OneTrainer, of diffusers
 * (old attention processors, its own layers, peft) and of peft by itself. */
#include "lora_key.h"

#include "kiln/kit.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *up, *down, *bias;
} pairs[LORA_PAIRS] = {
    {".lora_up.weight", ".lora_down.weight", ".lora_up.bias"}, /* kohya */
    {".lora_B.weight", ".lora_A.weight", ".lora_B.bias"},      /* peft */
    {".lora_B.default.weight", ".lora_A.default.weight",
     ".lora_B.default.bias"},                                                 /* peft, its adapter's name included */
    {".lora.up.weight", ".lora.down.weight", NULL},                           /* diffusers */
    {".lora_linear_layer.up.weight", ".lora_linear_layer.down.weight", NULL}, /* diffusers, text encoders */
    {"_lora.up.weight", "_lora.down.weight", NULL},                           /* diffusers, attention processors */
    {".lora_B", ".lora_A", NULL},
};

static const struct {
    const char *suffix;
    lora_role role;
} singles[] = {
    {".alpha", LORA_ALPHA}, {".diff", LORA_WEIGHT}, {".w_norm", LORA_WEIGHT},
    {".diff_b", LORA_BIAS}, {".b_norm", LORA_BIAS}, {".set_weight", LORA_SET},
};

static const char *const dora_suffix[] = {".dora_scale", ".lora_magnitude_vector", ".lora_magnitude_vector.weight",
                                          ".lora_magnitude_vector.default", ".lora_magnitude_vector.default.weight"};

static const char *const factor_suffix[LORA_FACTORS] = {
    [HADA_W1_A] = ".hada_w1_a",   [HADA_W1_B] = ".hada_w1_b", [HADA_W2_A] = ".hada_w2_a",
    [HADA_W2_B] = ".hada_w2_b",   [HADA_T1] = ".hada_t1",     [HADA_T2] = ".hada_t2",
    [LOKR_W1] = ".lokr_w1",       [LOKR_W1_A] = ".lokr_w1_a", [LOKR_W1_B] = ".lokr_w1_b",
    [LOKR_W2] = ".lokr_w2",       [LOKR_W2_A] = ".lokr_w2_a", [LOKR_W2_B] = ".lokr_w2_b",
    [LOKR_T2] = ".lokr_t2",       [GLORA_A1] = ".a1.weight",  [GLORA_A2] = ".a2.weight",
    [GLORA_B1] = ".b1.weight",    [GLORA_B2] = ".b2.weight",  [OFT_BLOCKS] = ".oft_blocks",
    [OFT_RESCALE] = ".rescale",   [IA3_L] = ".ia3_l",         [LORA_MID] = ".lora_mid.weight",
    [IA3_ON_INPUT] = ".on_input", [OFT_R] = ".oft_R.weight",  [BOFT_R] = ".boft_R",
    [BOFT_S] = ".boft_s",
};

/* Anywhere in a key. */
static const struct {
    const char *text, *what;
} refused[] = {
    {".oft_embedding_R", "an OFT of an embedding"},
    {".oft_diag", "an OFT of an early LyCORIS"},
    {".bm.weight", "a GLoRA with a Tucker decomposition"},
    {".reshape_weight", "a patch that reshapes"},
};

static const struct {
    const char *prefix;
    lora_part part;
} prefixes[] = {
    {"lora_unet_", LORA_UNET},
    {"lora_controlnet_", LORA_CONTROL},
    {"controlnet.base_model.model.", LORA_CONTROL},
    {"controlnet.", LORA_CONTROL},
    {"lycoris_", LORA_UNET},
    {"diffusion_model.", LORA_UNET},
    {"unet.base_model.model.", LORA_UNET},
    {"unet.", LORA_UNET},
    {"lora_te1_", LORA_TEXT},
    {"lora_te2_", LORA_TEXT_2},
    {"lora_te3_", LORA_TEXT_3},
    {"lora_te_", LORA_TEXT},
    {"text_encoder.base_model.model.", LORA_TEXT},
    {"text_encoder_2.base_model.model.", LORA_TEXT_2},
    {"text_encoder_3.base_model.model.", LORA_TEXT_3},
    {"text_encoder.", LORA_TEXT},
    {"text_encoder_2.", LORA_TEXT_2},
    {"text_encoder_3.", LORA_TEXT_3},
    {"text_encoders.clip_l.transformer.", LORA_CLIP_L},
    {"text_encoders.clip_g.transformer.", LORA_CLIP_G},
    {"text_encoders.clip_h.transformer.", LORA_CLIP_H},
    {"text_encoders.t5xxl.transformer.", LORA_T5XXL},
    {"base_model.model.", LORA_ANY},
    {"", LORA_ANY},
};

/* Bytes before `suffix` when the key ends with it and something stands before it; else 0. */
static size_t before(const char *key, size_t n, const char *suffix)
{
    size_t m = strlen(suffix);
    return n > m && memcmp(key + n - m, suffix, m) == 0 ? n - m : 0;
}

/* 1: the key ends with that suffix, and is of that role. */
static int ends(const char *key, size_t n, const char *suffix, lora_role role, lora_key *out)
{
    if (!suffix || !(out->stem = before(key, n, suffix))) return 0;
    out->role = role;
    return 1;
}

static int read_pair(const char *key, size_t n, lora_key *out)
{
    for (unsigned i = 0; i < LORA_PAIRS; i++) {
        out->pair = i;
        if (ends(key, n, pairs[i].up, LORA_UP, out) || ends(key, n, pairs[i].down, LORA_DOWN, out) ||
            ends(key, n, pairs[i].bias, LORA_UP_BIAS, out))
            return 1;
    }
    out->pair = 0;
    return 0;
}

static void read_role(const char *key, lora_key *out)
{
    size_t n = strlen(key);
    for (size_t i = 0; i < COUNT(refused); i++)
        if (strstr(key, refused[i].text)) {
            *out = (lora_key){.role = LORA_REFUSED, .what = refused[i].what};
            return;
        }
    if (read_pair(key, n, out)) return;
    for (size_t i = 0; i < COUNT(singles); i++)
        if (ends(key, n, singles[i].suffix, singles[i].role, out)) return;
    for (out->form = 0; out->form < COUNT(dora_suffix); out->form++)
        if (ends(key, n, dora_suffix[out->form], LORA_DORA, out)) return;
    out->form = 0;
    for (unsigned i = 0; i < LORA_FACTORS; i++) {
        out->factor = (lora_factor)i;
        if (ends(key, n, factor_suffix[i], LORA_FACTOR, out)) return;
    }
    out->factor = (lora_factor)0;
}

static void read_module(const char *key, lora_key *out)
{
    static const char processor[] = ".processor";
    size_t at = 0, i = 0;
    while (strncmp(key, prefixes[i].prefix, strlen(prefixes[i].prefix)) != 0) i++; /* the last is empty */
    out->part = prefixes[i].part;
    if (out->stem >= LORA_NAME_CAPACITY) return;
    for (size_t p = strlen(prefixes[i].prefix); p < out->stem;) {
        size_t rest = out->stem - p, skip = sizeof processor - 1;
        if (rest > skip && strncmp(key + p, processor, skip) == 0 && key[p + skip] == '.')
            p += skip; /* "attn1.processor.to_q" */
        out->module[at++] = key[p] == '.' ? '_' : key[p];
        p++;
    }
    out->module[at] = '\0';
}

void lora_key_read(const char *key, lora_key *out)
{
    *out = (lora_key){0};
    read_role(key, out);
    if (out->role != LORA_UNKNOWN && out->role != LORA_REFUSED) read_module(key, out);
}

int lora_key_with(const char *key, const lora_key *k, const char *suffix, char out[LORA_NAME_CAPACITY])
{
    int n = k->stem < LORA_NAME_CAPACITY ? snprintf(out, LORA_NAME_CAPACITY, "%.*s%s", (int)k->stem, key, suffix) : -1;
    return n > 0 && n < LORA_NAME_CAPACITY;
}

const char *lora_factor_suffix(lora_factor f) { return factor_suffix[f]; }

const char *lora_dora_suffix(unsigned form) { return form < COUNT(dora_suffix) ? dora_suffix[form] : NULL; }

int lora_key_other(const char *key, const lora_key *k, lora_role role, unsigned pair, char out[LORA_NAME_CAPACITY])
{
    const char *suffix = role == LORA_UP ? pairs[pair].up : role == LORA_DOWN ? pairs[pair].down : ".alpha";
    return lora_key_with(key, k, suffix, out);
}
