/* lora_key.c - see lora_key.h. The suffixes and prefixes of kohya's scripts, of diffusers (old attention processors,
 * its own layers, peft) and of peft by itself. */
#include "lora_key.h"

#include "kiln/kit.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *up, *down;
} pairs[LORA_PAIRS] = {
    {".lora_up.weight", ".lora_down.weight"},                           /* kohya                             */
    {".lora_B.weight", ".lora_A.weight"},                               /* peft                              */
    {".lora_B.default.weight", ".lora_A.default.weight"},               /* peft, its adapter's name included */
    {".lora.up.weight", ".lora.down.weight"},                           /* diffusers                         */
    {".lora_linear_layer.up.weight", ".lora_linear_layer.down.weight"}, /* diffusers, text encoders          */
    {"_lora.up.weight", "_lora.down.weight"},                           /* diffusers, attention processors   */
    {".lora_B", ".lora_A"},
};

static const struct {
    const char *suffix;
    lora_role role;
} singles[] = {
    {".alpha", LORA_ALPHA}, {".diff", LORA_WEIGHT}, {".w_norm", LORA_WEIGHT},
    {".diff_b", LORA_BIAS}, {".b_norm", LORA_BIAS},
};

/* Anywhere in a key. */
static const struct {
    const char *text, *what;
} refused[] = {
    {".hada_", "a LoHa (Hadamard products)"},
    {".lokr_", "a LoKr (Kronecker products)"},
    {".lora_mid.", "a Tucker decomposition of a convolution"},
    {".dora_scale", "a DoRA (weight-decomposed)"},
    {".lora_magnitude_vector", "a DoRA (weight-decomposed)"},
    {".oft_", "an OFT (orthogonal fine-tuning)"},
    {".boft_", "a BOFT (orthogonal fine-tuning)"},
    {".a1.weight", "a GLoRA"},
    {".a2.weight", "a GLoRA"},
    {".b1.weight", "a GLoRA"},
    {".b2.weight", "a GLoRA"},
    {".reshape_weight", "a patch that reshapes"},
    {".set_weight", "a patch that replaces"},
    {".lora_B.bias", "a LoRA with a bias of its own"},
    {".lora_up.bias", "a LoRA with a bias of its own"},
    {".on_input", "an IA3"},
};

static const struct {
    const char *prefix;
    lora_part part;
} prefixes[] = {
    {"lora_unet_", LORA_UNET},
    {"lycoris_", LORA_UNET},
    {"diffusion_model.", LORA_UNET},
    {"unet.base_model.model.", LORA_UNET},
    {"unet.", LORA_UNET},
    {"lora_te1_", LORA_TEXT},
    {"lora_te_", LORA_TEXT},
    {"text_encoder.base_model.model.", LORA_TEXT},
    {"text_encoder.", LORA_TEXT},
    {"text_encoders.clip_l.transformer.", LORA_TEXT},
    {"base_model.model.", LORA_ANY},
    {"", LORA_ANY},
};

/* Bytes before `suffix` when the key ends with it and something stands before it; else 0. */
static size_t before(const char *key, size_t n, const char *suffix)
{
    size_t m = strlen(suffix);
    return n > m && memcmp(key + n - m, suffix, m) == 0 ? n - m : 0;
}

static void read_role(const char *key, lora_key *out)
{
    size_t n = strlen(key);
    for (size_t i = 0; i < COUNT(refused); i++)
        if (strstr(key, refused[i].text)) {
            *out = (lora_key){.role = LORA_REFUSED, .what = refused[i].what};
            return;
        }
    for (unsigned i = 0; i < LORA_PAIRS; i++) {
        out->pair = i;
        if ((out->stem = before(key, n, pairs[i].up)) && (out->role = LORA_UP)) return;
        if ((out->stem = before(key, n, pairs[i].down)) && (out->role = LORA_DOWN)) return;
    }
    for (size_t i = 0; i < COUNT(singles); i++)
        if ((out->stem = before(key, n, singles[i].suffix)) && (out->role = singles[i].role)) return;
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

int lora_key_other(const char *key, const lora_key *k, lora_role role, unsigned pair, char out[LORA_NAME_CAPACITY])
{
    const char *suffix = role == LORA_UP ? pairs[pair].up : role == LORA_DOWN ? pairs[pair].down : ".alpha";
    int n = k->stem < LORA_NAME_CAPACITY ? snprintf(out, LORA_NAME_CAPACITY, "%.*s%s", (int)k->stem, key, suffix) : -1;
    return n > 0 && n < LORA_NAME_CAPACITY;
}
