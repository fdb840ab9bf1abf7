/* scaled.c - finds weights that are not the numbers they look like, but codes with scales beside them, and makes one
 * tensor of each with its companions, which are then no tensors of the set.
 *
 *     X.weight f8, X.scale_weight (or X.weight_scale), X.scale_input (X.input_scale), X.comfy_quant, scaled_fp8 ComfyUI
 *     X.weight f8, X.weight_scale_inv [O/128, I/128]                                      DeepSeek: a scale, not
 * 1/scale X.weight int8, X.SCB [O], X.weight_format                                           bitsandbytes: the rows'
 * largest X.weight int8, X.weight_scale, X.comfy_quant                                        ComfyUI's int8_tensorwise
 *     X.weight U8, X.weight.absmax, .quant_map, .quant_state.bitsandbytes__nf4, and when the scales are codes
 * themselves .nested_absmax, .nested_quant_map                                               bitsandbytes' nf4 and fp4
 *
 * An input's scale is left aside: products are made with the input as it is. What has a companion in a form that is
 * none of these keeps it, becomes of type 0, and `scale` says which it is.
 */
#include "base/memory_alloc.h"
#include "base/str.h"
#include "weights/derived.h"
#include "weights/quant_json.h"

#include <string.h>

static const char ending[] = "weight";

typedef struct {
    kiln_weights *w;
    char *drop;  /* of each entry: it is a companion */
    int rotated; /* the file's notes speak of rotated weights */
    error *e;
} joining;

static kiln_status no_memory(const joining *j)
{
    return error_set(j->e, KILN_ERR_NOMEM, "%s: out of memory", j->w->path);
}

/* The tensor beside x, whose name without `cut` bytes at its end begins this one's. */
static kiln_status beside(const joining *j, const weights_entry *x, size_t cut, const char *rest, weights_entry **out)
{
    str s = {0};
    str_append_n(&s, x->name, strlen(x->name) - cut);
    str_append(&s, rest);
    *out = s.failed ? NULL : weights_entry_of(j->w, str_text(&s));
    int failed = s.failed;
    str_free(&s);
    return failed ? no_memory(j) : KILN_OK;
}

static kiln_status first_beside(const joining *j, const weights_entry *x, size_t cut, const char *const *rest, size_t n,
                                weights_entry **out)
{
    *out = NULL;
    for (size_t i = 0; i < n && !*out; i++) TRY(beside(j, x, cut, rest[i], out));
    return KILN_OK;
}

static void drop(joining *j, const weights_entry *x)
{
    if (x) j->drop[x - j->w->entry] = 1;
}

static kiln_status drop_beside(joining *j, const weights_entry *x, size_t cut, const char *const *rest, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        weights_entry *found = NULL;
        TRY(beside(j, x, cut, rest[i], &found));
        drop(j, found);
    }
    return KILN_OK;
}

/* Nobody reads it as what it looks like. */
static kiln_status refuse(weights_entry *x, const weights_entry *because)
{
    x->scale = because->name;
    x->dtype = 0;
    return KILN_OK;
}

static int is_float(uint32_t dtype) { return dtype == KILN_F32 || dtype == KILN_F16 || dtype == KILN_BF16; }

/* ---- scales that broadcast, and those of 128 x 128 ---- */

/* A scale's dimensions are W's or 1, trailing ones may be missing; W's last one has none of its own. */
static int broadcasts(const weights_entry *x, const weights_entry *scale)
{
    int one = weights_count_of(scale) == 1;
    for (uint32_t i = 0; !one && i < scale->rank; i++)
        if (i >= x->rank || (scale->dim[i] != 1 && (scale->dim[i] != x->dim[i] || i + 1 == x->rank))) return 0;
    return is_float(scale->dtype);
}

static int covers(const weights_entry *x, const weights_entry *scale)
{
    if (x->rank != 2 || scale->rank != 2 || !is_float(scale->dtype)) return 0;
    for (uint32_t i = 0; i < 2; i++)
        if (scale->dim[i] != (x->dim[i] + SCALES_SIDE - 1) / SCALES_SIDE) return 0;
    return 1;
}

static kiln_status derive_scaled(joining *j, weights_entry *x, const weights_scaling *s, weights_entry *const *from,
                                 size_t n, const int64_t *dim, uint32_t rank)
{
    weights_derived d = {.kind = DERIVED_SCALED, .n_from = n, .scaling = *s, .rank = rank};
    if (!(d.from = arena_alloc(&j->w->memory, n * sizeof *d.from))) return no_memory(j);
    for (size_t i = 0; i < n; i++)
        if (!(d.from[i] = weights_keep_entry(j->w, from[i]))) return no_memory(j);
    memcpy(d.dim, dim, rank * sizeof *dim);
    return weights_derive(j->w, x, &d, j->e);
}

static kiln_status check_quant(const joining *j, const weights_entry *quant, const char *const *format, size_t n,
                               int *known)
{
    quant_json q;
    TRY(quant_json_read(quant, &q, j->e));
    *known = 0;
    for (size_t i = 0; i < n; i++) *known |= strcmp(q.format, format[i]) == 0;
    *known &= !q.rotated;
    return KILN_OK;
}

static const char *const f8_scales[] = {"weight_scale_inv", "scale_weight", "weight_scale"};
static const char *const int8_scales[] = {"SCB", "weight_scale"};
static const char *const needless[] = {"comfy_quant", "scale_input", "input_scale", "weight_format"};

static kiln_status join_scale(joining *j, weights_entry *x, int is_f8)
{
    static const char *const f8_formats[] = {"float8_e4m3fn", "float8_e5m2"}, *const int8_formats[] = {
                                                                                  "int8_tensorwise"};
    const size_t cut = sizeof ending - 1;
    weights_entry *scale, *quant, *pre;
    int known = 1;
    TRY(first_beside(j, x, cut, is_f8 ? f8_scales : int8_scales, is_f8 ? 3 : 2, &scale));
    TRY(beside(j, x, cut, "comfy_quant", &quant));
    TRY(beside(j, x, cut, "pre_quant_scale", &pre));
    if (quant) TRY(check_quant(j, quant, is_f8 ? f8_formats : int8_formats, is_f8 ? 2 : 1, &known));
    if (!scale && !quant) return KILN_OK;
    if (!scale || pre || !known || (j->rotated && !is_f8)) return refuse(x, pre ? pre : quant ? quant : scale);
    int blocks = !broadcasts(x, scale) && covers(x, scale);
    if (!blocks && !broadcasts(x, scale)) return refuse(x, scale);
    size_t n = strlen(scale->name);
    weights_scaling s = {.kind = blocks ? SCALES_BLOCKS : SCALES_BROADCAST,
                         .factor = strcmp(scale->name + n - 3, "SCB") == 0 ? 1 / 127.0f : 1,
                         .codes = is_f8 ? x->dtype : 0,
                         .name = is_f8 ? "f8 scaled" : "int8 scaled"};
    drop(j, scale);
    TRY(drop_beside(j, x, cut, needless, sizeof needless / sizeof needless[0]));
    return derive_scaled(j, x, &s, (weights_entry *const[]){x, scale}, 2, x->dim, x->rank);
}

/* ---- codebooks ---- */

static int is_flat(const weights_entry *x, uint32_t dtype, size_t n)
{
    return x && x->dtype == dtype && weights_count_of(x) == n;
}

static size_t pieces(size_t n, int64_t of) { return (n + (size_t)of - 1) / (size_t)of; }

static kiln_status join_codebook(joining *j, weights_entry *x, const weights_entry *state, int is_nf4)
{
    quant_json q;
    weights_entry *from[5] = {x};
    static const char *const rest[] = {".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map"};
    TRY(quant_json_read(state, &q, j->e));
    for (int i = 0; i < 4; i++) TRY(beside(j, x, 0, rest[i], &from[i + 1]));
    size_t n = 1, blocks;
    int nested = from[3] || from[4], fits = q.rank > 0 && q.block > 0;
    for (uint32_t i = 0; i < q.rank; i++) n *= (size_t)q.dim[i]; /* checked by quant_json_read */
    blocks = fits ? pieces(n, q.block) : 0;
    fits = fits && is_flat(x, KILN_U8, (n + 1) / 2) && is_flat(from[2], KILN_F32, 16) &&
           is_flat(from[1], nested ? KILN_U8 : KILN_F32, blocks);
    if (nested)
        fits = fits && q.nested_block > 0 && is_flat(from[3], KILN_F32, pieces(blocks, q.nested_block)) &&
               is_flat(from[4], KILN_F32, 256);
    if (!fits) return refuse(x, state);
    weights_scaling s = {.kind = SCALES_CODEBOOK,
                         .factor = 1,
                         .codes = KILN_U8,
                         .name = is_nf4 ? "nf4" : "fp4",
                         .block = q.block,
                         .nested_block = nested ? q.nested_block : 0,
                         .nested_offset = (float)q.nested_offset};
    for (int i = 1; i < 5; i++) drop(j, from[i]);
    drop(j, state);
    return derive_scaled(j, x, &s, from, nested ? 5 : 3, q.dim, q.rank);
}

static kiln_status join_bytes(joining *j, weights_entry *x)
{
    weights_entry *nf4, *fp4, *quant;
    TRY(beside(j, x, 0, ".quant_state.bitsandbytes__nf4", &nf4));
    TRY(beside(j, x, 0, ".quant_state.bitsandbytes__fp4", &fp4));
    TRY(beside(j, x, sizeof ending - 1, "comfy_quant", &quant));
    if (nf4 || fp4) return join_codebook(j, x, nf4 ? nf4 : fp4, nf4 != NULL);
    return quant ? refuse(x, quant) : KILN_OK;
}

/* ---- the set ---- */

static int ends_in_weight(const char *name)
{
    size_t n = strlen(name), m = sizeof ending - 1;
    return n >= m && strcmp(name + n - m, ending) == 0;
}

static kiln_status join_one(joining *j, weights_entry *x)
{
    if (!ends_in_weight(x->name)) return KILN_OK;
    if (dtype_is_f8(x->dtype)) return join_scale(j, x, 1);
    if (!x->dtype && strcmp(x->type_name, "I8") == 0) return join_scale(j, x, 0);
    return x->dtype == KILN_U8 ? join_bytes(j, x) : KILN_OK;
}

/* What ComfyUI's first form marks a part of a checkpoint with. */
static int is_marker(const char *name)
{
    static const char marker[] = "scaled_fp8";
    size_t n = strlen(name), m = sizeof marker - 1;
    return n >= m && strcmp(name + n - m, marker) == 0 && (n == m || strchr("./", name[n - m - 1]));
}

static int notes_rotate(const kiln_weights *w)
{
    for (size_t i = 0; i < w->n_file; i++)
        for (size_t k = 0; k < w->file[i].header.n_note; k++)
            if (strcmp(w->file[i].header.note[k].key, "_quantization_metadata") == 0 &&
                strstr(w->file[i].header.note[k].value, "convrot"))
                return 1;
    return 0;
}

kiln_status set_join_scaled(kiln_weights *w, error *e)
{
    joining j = {.w = w, .drop = mem_calloc(w->n + 1, 1), .rotated = notes_rotate(w), .e = e};
    kiln_status status = j.drop ? KILN_OK : no_memory(&j);
    for (size_t i = 0; i < w->n && status == KILN_OK; i++) {
        if (is_marker(w->entry[i].name)) j.drop[i] = 1;
        status = join_one(&j, &w->entry[i]);
    }
    size_t n = 0;
    for (size_t i = 0; i < w->n && status == KILN_OK; i++)
        if (!j.drop[i]) memmove(&w->entry[n++], &w->entry[i], sizeof *w->entry);
    if (status == KILN_OK) w->n = n;
    mem_free(j.drop);
    return status;
}
