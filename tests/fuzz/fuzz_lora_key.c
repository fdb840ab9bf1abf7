/* fuzz_lora_key.c - any bytes as a tensor's name in a LoRA file. What is half of a pair must name its other half, which
 * names it back and the same module; a module's name has no dots and no end in the middle. libFuzzer; `make fuzz`. */
#include "../../plugins/lora/lora_key.c"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)                                                                                                \
    if (!(condition)) __builtin_trap() /* the fuzzer keeps the input */

static void check_other(const char *key, const lora_key *k)
{
    lora_role role = k->role == LORA_UP ? LORA_DOWN : LORA_UP;
    char other[LORA_NAME_CAPACITY], back[LORA_NAME_CAPACITY];
    lora_key o;
    if (!lora_key_other(key, k, role, k->pair, other)) return;
    lora_key_read(other, &o);
    MUST(o.role == role && o.pair == k->pair && o.stem == k->stem && o.part == k->part &&
         strcmp(o.module, k->module) == 0);
    MUST(!lora_key_other(other, &o, k->role, o.pair, back) || strcmp(back, key) == 0);
}

/* The stem and its suffix are the key again. */
static void check_suffix(const char *key, const lora_key *k, const char *suffix)
{
    char same[LORA_NAME_CAPACITY];
    MUST(suffix != NULL);
    MUST(!lora_key_with(key, k, suffix, same) || strcmp(same, key) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char key[2048];
    lora_key k;
    if (size >= sizeof key) return 0;
    memcpy(key, data, size);
    key[size] = '\0';
    lora_key_read(key, &k);
    MUST(k.stem < sizeof key && !strchr(k.module, '.') && strlen(k.module) <= k.stem);
    MUST((k.role == LORA_REFUSED) == (k.what != NULL));
    MUST((k.role != LORA_UNKNOWN && k.role != LORA_REFUSED) || !k.module[0]);
    if (k.role == LORA_UP || k.role == LORA_DOWN) check_other(key, &k);
    if (k.role == LORA_FACTOR) check_suffix(key, &k, lora_factor_suffix(k.factor));
    if (k.role == LORA_DORA) check_suffix(key, &k, lora_dora_suffix(k.form));
    return 0;
}
