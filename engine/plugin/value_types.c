/* value_types.c - the rows of types: kiln's own table, and "kiln.types/1" for those of plugins. The check is in
 * type_check.c. */
#include "plugin/value_types.h"

#include "base/names.h"
#include "plugin/abilities.h"
#include "plugin/ctx.h"
#include "tensor/dtype.h"

#include <stdio.h>
#include <string.h>

/* ---- kiln's own rows ---- */

#define ENTRY(key_, doc_) .size = sizeof(kiln_value_entry), .key = (key_), .doc = (doc_)
#define OPTIONAL(key_, doc_) ENTRY(key_, doc_), .flags = KILN_ENTRY_OPTIONAL
#define KIND(kind_) .kinds = 1u << (kind_)
#define NUMBER .kinds = 1u << KILN_V_INT | 1u << KILN_V_FLOAT
#define F32(least, most, shape_)                                                                                       \
    KIND(KILN_V_TENSOR), .dtypes = 1u << KILN_F32, .rank_min = (least), .rank_max = (most), .shape = (shape_)
#define I32(rank, shape_)                                                                                              \
    KIND(KILN_V_TENSOR), .dtypes = 1u << KILN_I32, .rank_min = (rank), .rank_max = (rank), .shape = (shape_)
#define SAMPLES "[N,L,C], [N,H,W,C] or [N,T,H,W,C]"

static const kiln_value_entry latent_entry[] = {
    {ENTRY("samples", "The cells, in the autoencoder's own numbers: of a sound, a picture, a video."),
     F32(3, 5, SAMPLES)},
    {OPTIONAL("streams", "What is sampled together with the samples: a video's sound."), KIND(KILN_V_LIST),
     .item_kinds = 1u << KILN_V_TENSOR},
    {OPTIONAL("noise_mask", "1 where it is sampled anew; one for all, one a picture, or one a frame."), .type = "MASK"},
    {OPTIONAL("batch_index", "Which draw of noise each picture gets."), KIND(KILN_V_LIST),
     .item_kinds = 1u << KILN_V_INT},
};
static const kiln_value_entry conditioning_entry[] = {
    {OPTIONAL("tokens", "What the text encoder said of each token."), F32(3, 3, "[N,T,D]")},
    {OPTIONAL("pooled", "What it said of the whole text."), F32(2, 2, "[N,D]")},
    {OPTIONAL("mask", "Where it acts."), .type = "MASK"},
    {OPTIONAL("area", "Where it acts: height, width, y, x in cells."), KIND(KILN_V_LIST),
     .item_kinds = 1u << KILN_V_INT | 1u << KILN_V_FLOAT},
    {OPTIONAL("area_percent", "The same as shares of the picture."), KIND(KILN_V_LIST),
     .item_kinds = 1u << KILN_V_INT | 1u << KILN_V_FLOAT},
    {OPTIONAL("strength", "Its weight among others at one place."), NUMBER},
    {OPTIONAL("mask_strength", "What its mask is multiplied with."), NUMBER},
    {OPTIONAL("start_percent", "Share of the way from which it acts."), NUMBER},
    {OPTIONAL("end_percent", "Share of the way up to which it acts."), NUMBER},
    {OPTIONAL("model_range", "The one range of a MODEL that it is for."), KIND(KILN_V_STRING)},
    {OPTIONAL("hooks", "What changes the MODEL's weights for it."), .type = "HOOKS"},
    {OPTIONAL("default", "It is for what no other entry speaks for."), KIND(KILN_V_BOOL)},
    {OPTIONAL("clip_start_percent", "Share of the way from which its prompt's encoding counts."), NUMBER},
    {OPTIONAL("clip_end_percent", "Share of the way up to which it counts."), NUMBER},
    {OPTIONAL("control", "A list of networks that steer it, each with its own inputs; the sampling looks at it.")},
};
static const kiln_value_entry hooks_entry[] = {
    {ENTRY("hook", "What it does (kiln/entry_hook.h)."), KIND(KILN_V_OBJECT)},
    {OPTIONAL("keyframes", "How strong it is on the way."), .type = "HOOK_KEYFRAMES"},
};
static const kiln_value_entry keyframes_entry[] = {
    {ENTRY("strength", "From here on."), NUMBER},
    {ENTRY("start_percent", "Share of the way."), NUMBER},
    {ENTRY("guarantee_steps", "Evaluations that it stays for."), KIND(KILN_V_INT)},
};
static const kiln_value_entry video_entry[] = {
    {ENTRY("images", "The frames in order."), .type = "IMAGE"},
    {ENTRY("frame_rate", "Frames a second."), NUMBER},
    {OPTIONAL("audio", "What is heard with them."), .type = "AUDIO"},
};
static const kiln_value_entry audio_entry[] = {
    {ENTRY("waveform", "-1 to 1."), F32(3, 3, "[N,samples,channels]")},
    {ENTRY("sample_rate", "Samples a second."), KIND(KILN_V_INT)},
};
static const kiln_value_entry tokens_entry[] = {
    {ENTRY("ids", "Of the tokenizer's vocabulary."), I32(2, "[N,T]")},
    {OPTIONAL("weights", "The emphasis of each token; 1 without it."), F32(2, 2, "[N,T]")},
    {OPTIONAL("lengths", "How many of each row are the text's own; the rest is padding."), I32(1, "[N]")},
};
static const kiln_value_entry noise_entry[] = {
    {ENTRY("seed", "The bits of the 64-bit seed."), KIND(KILN_V_INT)},
    {OPTIONAL("none", "Begin without noise."), KIND(KILN_V_BOOL)},
    {OPTIONAL("samples", "This noise and no other."), F32(3, 5, SAMPLES)},
    {OPTIONAL("source", "Which of torch's generators draws."), KIND(KILN_V_INT)},
    {OPTIONAL("blocks", "The size of the CUDA device that is followed."), KIND(KILN_V_INT)},
};
static const kiln_value_entry sampler_entry[] = {
    {ENTRY("sampler", "A row's name."), KIND(KILN_V_STRING)},
    {OPTIONAL("options", "The row's parameters by name."), KIND(KILN_V_MAP)},
};
static const kiln_value_entry guider_entry[] = {
    {ENTRY("kind", "The guider's name; models, conditionings and settings stand beside it."), KIND(KILN_V_STRING)},
};

#define TYPE(kind_, name_, doc_) .size = sizeof(kiln_value_type), .kind = (kind_), .name = (name_), .doc = (doc_)
#define TENSOR(name_, rank_, shape_, doc_)                                                                             \
    TYPE(KILN_V_TENSOR, name_, doc_), .dtypes = 1u << KILN_F32, .rank_min = (rank_), .rank_max = (rank_),              \
                                      .shape = (shape_)

static const struct {
    kiln_value_type type;
    int plain; /* no handle can be inside */
} own[] = {
    {{TENSOR("IMAGE", 4, "[N,H,W,C]", "Pictures, or the frames of a video: red, green, blue, alpha from 0 to 1."),
      .last_min = 3, .last_max = 4},
     1},
    {{TENSOR("MASK", 3, "[N,H,W]", "From 0 to 1.")}, 1},
    {{TYPE(KILN_V_MAP, "LATENT", "What an autoencoder makes of pictures, and a denoiser samples."),
      KILN_ARRAY(entry, latent_entry)},
     1},
    {{TYPE(KILN_V_LIST, "CONDITIONING", "What steers a denoiser: each entry has the inputs its model asks for."),
      KILN_ARRAY(entry, conditioning_entry)},
     1},
    {{TYPE(KILN_V_LIST, "HOOKS", "What changes a MODEL's or a CLIP's weights for one conditioning."),
      KILN_ARRAY(entry, hooks_entry)},
     0},
    {{TYPE(KILN_V_LIST, "HOOK_KEYFRAMES", "How strong hooks are on the way."), KILN_ARRAY(entry, keyframes_entry)}, 1},
    {{TYPE(KILN_V_LIST, "TIMESTEPS_RANGE", "From one share of the way to another."), .item = "FLOAT"}, 1},
    {{TYPE(KILN_V_LIST, "FLOATS", "Numbers."), .item = "FLOAT"}, 1},
    {{TENSOR("SIGMAS", 1, "[n+1]", "Noise levels, from the first to the last.")}, 1},
    {{TYPE(KILN_V_MAP, "VIDEO", "Frames that follow one another in time."), KILN_ARRAY(entry, video_entry)}, 1},
    {{TYPE(KILN_V_MAP, "AUDIO", "Sound."), KILN_ARRAY(entry, audio_entry)}, 1},
    {{TYPE(KILN_V_MAP, "TOKENS", "A text as a tokenizer cuts it."), KILN_ARRAY(entry, tokens_entry)}, 1},
    {{TYPE(KILN_V_MAP, "NOISE", "What a sampling begins with."), KILN_ARRAY(entry, noise_entry)}, 0},
    {{TYPE(KILN_V_MAP, "SAMPLER", "A sampler with its options."), KILN_ARRAY(entry, sampler_entry)}, 0},
    {{TYPE(KILN_V_MAP, "GUIDER", "What makes one guess of x0 of several."), KILN_ARRAY(entry, guider_entry)}, 0},
    {{TYPE(KILN_V_INT, "INT", "A whole number.")}, 1},
    {{TYPE(KILN_V_FLOAT, "FLOAT", "A number.")}, 1},
    {{TYPE(KILN_V_STRING, "STRING", "A text.")}, 1},
    {{TYPE(KILN_V_BOOL, "BOOLEAN", "True or false.")}, 1},
    {{TYPE(KILN_V_OBJECT, "MODEL", "A denoiser with its weights (kiln/denoiser.h).")}, 0},
    {{TYPE(KILN_V_OBJECT, "CLIP", "Text encoders with their weights (kiln/text.h).")}, 0},
    {{TYPE(KILN_V_OBJECT, "VAE", "An autoencoder with its weights (kiln/autoencoder.h).")}, 0},
    {{TYPE(KILN_V_OBJECT, "CONTROL_NET", "A network that steers a denoiser (kiln/network.h).")}, 0},
    {{TYPE(KILN_V_OBJECT, "CLIP_VISION", "A network that looks at pictures (kiln/network.h).")}, 0},
    {{TYPE(KILN_V_OBJECT, "UPSCALE_MODEL", "A network that makes pictures larger (kiln/network.h).")}, 0},
};
enum { OWN = sizeof own / sizeof own[0] };

/* ---- finding them ---- */

static int own_index(const char *name)
{
    for (int i = 0; i < OWN; i++)
        if (strcmp(own[i].type.name, name) == 0) return i;
    return -1;
}

static size_t type_count(void) { return OWN + registered_type_count(); }
static const kiln_value_type *type_at(size_t i) { return i < OWN ? &own[i].type : registered_type_at(i - OWN); }

const kiln_value_type *value_type_find(const char *name)
{
    int i = name ? own_index(name) : -1;
    return i >= 0 ? &own[i].type : registered_type(name);
}

const char *value_type_owner(const char *name) { return own_index(name) >= 0 ? NULL : registered_type_owner(name); }

int value_type_is_plain(const char *name)
{
    int i = own_index(name);
    const kiln_value_type *theirs = i < 0 ? registered_type(name) : NULL;
    return i >= 0 ? own[i].plain : theirs && theirs->kind != KILN_V_OBJECT;
}

kiln_value_entry value_type_entry(const kiln_value_type *type, uint32_t i)
{
    kiln_value_entry row = {0};
    memcpy(&row, (const char *)type->entry + (size_t)i * type->entry_stride,
           type->entry_stride < sizeof row ? type->entry_stride : sizeof row);
    return row;
}

/* ---- registering ---- */

enum {
    ENTRIES_MAX = 256,
    KINDS = (1u << (KILN_V_OBJECT + 1)) - 2,
    DTYPES = (1u << (KILN_BOOL8 + 1)) - 2,
    ENTRY_1_0 = offsetof(kiln_value_entry, shape) + sizeof(const char *)
};

/* What is wrong with the numbers of a row; NULL: nothing. */
static const char *wrong_numbers(const kiln_value_entry *r)
{
    if (r->kinds & ~KINDS || r->item_kinds & ~KINDS) return "a kind of value that there is not";
    if (r->dtypes & ~DTYPES) return "a dtype that there is not";
    if (r->rank_min > r->rank_max || r->rank_max > KILN_MAX_RANK) return "ranks that are no range from 0 to 8";
    if (r->last_min > r->last_max || r->last_min < 0) return "a last dimension whose ends are no range";
    return NULL;
}

static kiln_status check_entry(const kiln_value_type *t, uint32_t i)
{
    kiln_value_entry r = value_type_entry(t, i);
    const char *wrong = wrong_numbers(&r);
    if (!name_is_valid(r.key) || !line_is_valid(r.doc))
        return registry_fail(KILN_ERR_INVALID, "value type '%s': entry %u has no usable key, or no doc", t->name, i);
    for (uint32_t k = 0; k < i; k++)
        if (strcmp(value_type_entry(t, k).key, r.key) == 0)
            return registry_fail(KILN_ERR_INVALID, "value type '%s' has entry '%s' twice", t->name, r.key);
    if (wrong) return registry_fail(KILN_ERR_INVALID, "value type '%s': entry '%s' has %s", t->name, r.key, wrong);
    if (r.type && strcmp(r.type, t->name) != 0 && !value_type_find(r.type))
        return registry_fail(KILN_ERR_INVALID,
                             "value type '%s': entry '%s' is a '%s', which has no row; register that one before",
                             t->name, r.key, r.type);
    return KILN_OK;
}

static kiln_value_entry numbers_of(const kiln_value_type *t)
{
    return (kiln_value_entry){.kinds = t->kind <= KILN_V_OBJECT ? 1u << t->kind : 0, /* check_row refuses others */
                              .dtypes = t->dtypes,
                              .rank_min = t->rank_min,
                              .rank_max = t->rank_max,
                              .last_min = t->last_min,
                              .last_max = t->last_max,
                              .shape = t->shape};
}

static kiln_status check_row(const kiln_value_type *t)
{
    kiln_value_entry r = numbers_of(t);
    const char *wrong = wrong_numbers(&r);
    int container = t->kind == KILN_V_MAP || (t->kind == KILN_V_LIST && !t->item);
    if (own_index(t->name) >= 0) return registry_fail(KILN_ERR_INVALID, "value type '%s' is kiln's own", t->name);
    if (!line_is_valid(t->doc)) return registry_fail(KILN_ERR_INVALID, "value type '%s' has no doc", t->name);
    if (t->kind < KILN_V_TENSOR || t->kind > KILN_V_OBJECT) wrong = "a kind of value that there is not";
    if (wrong) return registry_fail(KILN_ERR_INVALID, "value type '%s' has %s", t->name, wrong);
    if (t->item && (t->kind != KILN_V_LIST || (strcmp(t->item, t->name) != 0 && !value_type_find(t->item))))
        return registry_fail(
            KILN_ERR_INVALID,
            "value type '%s' has items of type '%s': only a list has items, and their type needs a row", t->name,
            t->item);
    if (t->n_entry && (!container || !t->entry || t->n_entry > ENTRIES_MAX || t->entry_stride < ENTRY_1_0 ||
                       t->entry_stride % sizeof(void *)))
        return registry_fail(KILN_ERR_INVALID,
                             "value type '%s': entries are those of a map or of a list's maps; declare them with "
                             "KILN_ARRAY(entry, rows)",
                             t->name);
    for (uint32_t i = 0; i < t->n_entry; i++) TRY(check_entry(t, i));
    return KILN_OK;
}

static kiln_status register_type(const kiln_value_type *t)
{
    if (!t || !KILN_HAS(kiln_value_type, t, entry_stride) || !name_is_valid(t->name))
        return registry_fail(KILN_ERR_INVALID, "a value type without its size or a usable name");
    TRY(check_row(t));
    return registered_type_add(t);
}

static kiln_status check_value(kiln_ctx *c, const kiln_value *v, const char *type)
{
    return value_fits_type(v, type ? type : "", ctx_error(c));
}

const kiln_types_api types_api = {
    .size = sizeof(kiln_types_api),
    .register_type = register_type,
    .type_count = type_count,
    .type_at = type_at,
    .find = value_type_find,
    .check = check_value,
};

/* ---- in words ---- */

static const char *const kind_words[] = {
    [KILN_V_TENSOR] = "a tensor",    [KILN_V_INT] = "a whole number", [KILN_V_FLOAT] = "a number",
    [KILN_V_BOOL] = "a truth value", [KILN_V_STRING] = "a text",      [KILN_V_LIST] = "a list",
    [KILN_V_MAP] = "a map",          [KILN_V_OBJECT] = "an object",
};

typedef struct {
    char *text;
    size_t at;
} words;

__attribute__((format(printf, 2, 3))) static void say(words *w, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(w->text + w->at, TYPE_WORDS_MAX - w->at, fmt, args);
    va_end(args);
    if (n > 0) w->at = w->at + (size_t)n < TYPE_WORDS_MAX ? w->at + (size_t)n : TYPE_WORDS_MAX - 1;
}

/* "a number or a text"; a whole number is a number. */
static void say_kinds(words *w, uint32_t kinds)
{
    const char *between = "";
    if (kinds & 1u << KILN_V_FLOAT) kinds &= ~(1u << KILN_V_INT);
    for (uint32_t k = KILN_V_TENSOR; k <= KILN_V_OBJECT; k++)
        if (kinds >> k & 1) say(w, "%s%s", between, kind_words[k]), between = " or ";
    if (!kinds) say(w, "anything");
}

static void say_tensor(words *w, const kiln_value_entry *r)
{
    const char *between = "";
    for (uint32_t d = KILN_F32; d <= KILN_BOOL8; d++)
        if (r->dtypes >> d & 1) say(w, "%s%s", between, dtype_name(d)), between = " or ";
    if (!r->dtypes) say(w, "a tensor");
    if (r->shape)
        say(w, " %s", r->shape);
    else if (r->rank_max && r->rank_min == r->rank_max)
        say(w, " of %u dimensions", r->rank_min);
    else if (r->rank_max)
        say(w, " of %u to %u dimensions", r->rank_min, r->rank_max);
    if (r->last_max && r->last_min == r->last_max)
        say(w, ", the last %lld", (long long)r->last_min);
    else if (r->last_max)
        say(w, ", the last %lld to %lld", (long long)r->last_min, (long long)r->last_max);
}

void value_entry_words(const kiln_value_entry *r, char out[TYPE_WORDS_MAX])
{
    words w = {.text = out};
    out[0] = '\0';
    if (r->type)
        say(&w, "%s", r->type);
    else if (r->kinds == 1u << KILN_V_TENSOR)
        say_tensor(&w, r);
    else
        say_kinds(&w, r->kinds);
    if (!r->type && r->kinds == 1u << KILN_V_LIST && r->item_kinds)
        say(&w, ", each item "), say_kinds(&w, r->item_kinds);
}

void value_type_words(const kiln_value_type *t, char out[TYPE_WORDS_MAX])
{
    words w = {.text = out};
    kiln_value_entry r = numbers_of(t);
    if (t->kind == KILN_V_OBJECT) {
        snprintf(out, TYPE_WORDS_MAX, "an object of type %s", t->name);
        return;
    }
    value_entry_words(&r, out);
    w.at = strlen(out);
    if (t->item)
        say(&w, ", each item %s", t->item);
    else if (t->kind == KILN_V_LIST && t->n_entry)
        say(&w, " of maps");
}
