/* input_values.c - see input_values.h. */
#include "input_values.h"

#include "kiln/kit.h"
#include "kiln/resize.h"

#include <stdio.h>

enum { VALUES_MAX = 512 };

static const char *const kind_names[] = {"?",    "tokens",  "a vector", "a number", "a latent", "an image",
                                         "mask", "lengths", "ids",      "a table",  "latents"};

static const char *kind_name(uint32_t kind) { return kind < COUNT(kind_names) ? kind_names[kind] : "?"; }

int input_follows_x(uint32_t kind)
{
    return kind == KILN_INPUT_LATENT || kind == KILN_INPUT_IMAGE || kind == KILN_INPUT_MASK;
}

int64_t input_cells_per_cell(uint32_t kind, const kiln_latent_format *format)
{
    return kind == KILN_INPUT_IMAGE && format->factor ? format->factor : 1;
}

static const char *key_of(const kiln_input_spec *spec) { return spec->key ? spec->key : spec->name; }

/* ---- finding ---- */

/* What was found: a value, or a tensor that the denoiser made. */
typedef struct {
    const kiln_value *value;
    const kiln_tensor *tensor;
} found;

static int is_found(const found *f) { return f->value || f->tensor; }

static found find_value(const input_search *s, const kiln_input_spec *spec)
{
    const kiln_value_api *v = kit_values(s->call);
    char name[128];
    for (size_t i = 0; s->derived && i < s->derived->n; i++)
        if (strcmp(s->derived->item[i].name, spec->name) == 0) return (found){.tensor = &s->derived->item[i].tensor};
    for (size_t i = 0; i < COUNT(s->map); i++) {
        const kiln_value *value = s->map[i] ? v->map_get(s->map[i], key_of(spec)) : NULL;
        if (value) return (found){.value = value};
    }
    if (!s->beside) return (found){0};
    snprintf(name, sizeof name, "%s.unconditional", spec->name);
    const kiln_value *value = s->unconditional ? v->map_get(s->beside, name) : NULL;
    return (found){.value = value ? value : v->map_get(s->beside, spec->name)};
}

static kiln_status fail_missing(const input_search *s, const kiln_input_spec *spec)
{
    const kiln_host *h = s->call->host;
    if (strcmp(key_of(spec), "tokens") == 0)
        return h->fail(s->call->ctx, KILN_ERR_INVALID,
                       "%s: the conditioning has no tokens; a text encoder's node makes them (CLIPTextEncode)",
                       s->what);
    return h->fail(
        s->call->ctx, KILN_ERR_INVALID,
        "%s: %s wants '%s' (%s%s%s), and the conditioning has no entry of that name; put a node that sets it "
        "before the sampler",
        s->what, s->owner, key_of(spec), kind_name(spec->kind), spec->doc ? ": " : "", spec->doc ? spec->doc : "");
}

static kiln_status fail_width(const input_search *s, const kiln_input_spec *spec, int64_t have)
{
    if (s->control || s->hook >= 0)
        return s->call->host->fail(s->call->ctx, KILN_ERR_INVALID,
                                   "%s: its '%s' is %lld wide but %s wants %lld; take one that was made for this model "
                                   "and this input",
                                   s->what, key_of(spec), (long long)have, s->owner, (long long)spec->width);
    if (spec->kind == KILN_INPUT_TOKENS || spec->kind == KILN_INPUT_VECTOR)
        return s->call->host->fail(s->call->ctx, KILN_ERR_INVALID,
                                   "%s: its %s are %lld wide but %s wants %lld; encode the text with the CLIP of the "
                                   "model's own checkpoint",
                                   s->what, key_of(spec), (long long)have, s->owner, (long long)spec->width);
    return s->call->host->fail(s->call->ctx, KILN_ERR_INVALID, "%s: its '%s' has %lld channels, and %s wants %lld",
                               s->what, key_of(spec), (long long)have, s->owner, (long long)spec->width);
}

static double fallback_of(const input_search *s, const kiln_input_spec *spec)
{
    const kiln_latent_format *f = s->format;
    int64_t factor = f->factor ? f->factor : 1;
    if (spec->fallback_from && strcmp(spec->fallback_from, "latent.width") == 0)
        return (double)(s->shape->width * factor);
    if (spec->fallback_from && strcmp(spec->fallback_from, "latent.height") == 0)
        return (double)(s->shape->height * factor);
    return s->unconditional && spec->flags & KILN_INPUT_SIDED ? spec->fallback_unconditional : spec->fallback;
}

/* ---- values ---- */

static float *floats(const input_search *s, size_t n)
{
    return s->call->host->scratch(s->call->ctx, n * sizeof(float), KILN_CPU);
}

static size_t count_of(const input_value *v)
{
    size_t n = 1;
    for (uint32_t i = 0; i < v->rank; i++) n *= (size_t)v->dim[i];
    return n;
}

/* A tensor as it stands; `value` may be a LATENT. */
static kiln_status view_tensor(const input_search *s, const kiln_input_spec *spec, const found *f, kiln_tensor *t)
{
    const kiln_value_api *v = kit_values(s->call);
    const kiln_value *value = f->value;
    uint32_t wanted = spec->kind == KILN_INPUT_IDS ? KILN_I32 : KILN_F32;
    if (f->tensor) {
        *t = *f->tensor;
        return KILN_OK;
    }
    if (v->kind(value) == KILN_V_MAP && v->map_get(value, "samples")) value = v->map_get(value, "samples");
    kit_tensor_clear(t);
    if (v->kind(value) != KILN_V_TENSOR)
        return s->call->host->fail(s->call->ctx, KILN_ERR_INVALID, "%s: its '%s' has to be %s, a tensor", s->what,
                                   key_of(spec), kind_name(spec->kind));
    TRY(s->call->host->view(s->call->ctx, value, t));
    if (t->dtype == wanted && t->rank && t->rank <= KILN_MAX_RANK && kit_count(t)) return KILN_OK;
    return s->call->host->fail(s->call->ctx, KILN_ERR_INVALID, "%s: its '%s' is empty, or not of %s", s->what,
                               key_of(spec), wanted == KILN_I32 ? "32-bit integers" : "floats");
}

static kiln_status check_rank(const input_search *s, const kiln_input_spec *spec, const kiln_tensor *t, uint32_t rank)
{
    if (t->rank == rank) return KILN_OK;
    return s->call->host->fail(s->call->ctx, KILN_ERR_INVALID, "%s: its '%s' has %u dimensions, and %s wants %u (%s)",
                               s->what, key_of(spec), t->rank, s->owner, rank, kind_name(spec->kind));
}

static kiln_status take_dense(const input_search *s, const kiln_tensor *t, input_value *out)
{
    (void)s;
    out->dtype = t->dtype, out->rank = t->rank, out->data = t->data;
    for (uint32_t i = 0; i < t->rank; i++) out->dim[i] = t->dim[i];
    return KILN_OK;
}

static kiln_status check_width(const input_search *s, const kiln_input_spec *spec, const input_value *v)
{
    int64_t last = v->rank ? v->dim[v->rank - 1] : 0;
    return spec->width && spec->kind != KILN_INPUT_TABLE && last != spec->width ? fail_width(s, spec, last) : KILN_OK;
}

static kiln_status take_scalar(const input_search *s, const kiln_input_spec *spec, const found *f, input_value *out)
{
    const kiln_value_api *v = kit_values(s->call);
    const kiln_value *value = f->value;
    double number = fallback_of(s, spec);
    int flag = 0;
    kiln_tensor t;
    out->dtype = KILN_F32, out->rank = 1, out->dim[0] = 1;
    if (f->tensor || (value && v->kind(value) == KILN_V_TENSOR)) {
        TRY(view_tensor(s, spec, f, &t));
        TRY(check_rank(s, spec, &t, 1));
        return take_dense(s, &t, out);
    }
    if (value && v->get_bool(value, &flag) == KILN_OK)
        number = flag;
    else if (value && v->get_float(value, &number) != KILN_OK)
        return s->call->host->fail(s->call->ctx, KILN_ERR_INVALID, "%s: its '%s' has to be a number", s->what,
                                   key_of(spec));
    float *one = floats(s, 1);
    if (!one) return KILN_ERR_NOMEM;
    *one = (float)number;
    out->data = one;
    return KILN_OK;
}

/* An integer, a list of them, or a tensor [n,T]. */
static kiln_status take_ids(const input_search *s, const kiln_input_spec *spec, const found *f, input_value *out)
{
    const kiln_value_api *v = kit_values(s->call);
    const kiln_value *value = f->value;
    int is_list = value && v->kind(value) == KILN_V_LIST;
    size_t n = is_list ? v->count(value) : 1;
    int64_t one = 0;
    int32_t *ids = s->call->host->scratch(s->call->ctx, (n + 1) * sizeof *ids, KILN_CPU);
    if (!ids) return KILN_ERR_NOMEM;
    for (size_t i = 0; i < n; i++) {
        const kiln_value *item = is_list ? v->list_at(value, i) : value;
        if (v->get_int(item, &one) != KILN_OK || one < INT32_MIN || one > INT32_MAX || n == 0)
            return s->call->host->fail(s->call->ctx, KILN_ERR_INVALID,
                                       "%s: its '%s' has to be an integer, a list of integers, or a tensor of them",
                                       s->what, key_of(spec));
        ids[i] = (int32_t)one;
    }
    out->dtype = KILN_I32, out->rank = 2, out->dim[0] = 1, out->dim[1] = (int64_t)n, out->data = ids;
    return check_width(s, spec, out);
}

/* ---- what follows x ---- */

/* The shape of a value that follows x: [n, (frames), rows, columns, channels]; rows and columns scaled. */
static void shape_like_x(const input_search *s, const kiln_input_spec *spec, int64_t pictures, int64_t channels,
                         input_value *out)
{
    int64_t k = input_cells_per_cell(spec->kind, s->format);
    const int64_t all[5] = {pictures, s->shape->frames, s->shape->height * k, s->shape->width * k, channels};
    out->dtype = KILN_F32, out->rank = 0;
    for (int i = 0; i < 5; i++) {
        if ((i == 1 && s->shape->rank < 5) || (i == 2 && s->shape->rank < 4)) continue;
        out->dim[out->rank++] = all[i];
    }
}

/* A tensor of x's rank, or one without channels (a MASK) or frames, as pictures x frames planes. */
typedef struct {
    int64_t pictures, frames, height, width, channels;
} planes;

static kiln_status planes_of(const input_search *s, const kiln_input_spec *spec, const kiln_tensor *t, planes *out)
{
    uint32_t with = (uint32_t)s->shape->rank, mask = spec->kind == KILN_INPUT_MASK;
    const int64_t *d = t->dim;
    if (t->rank != with && !(mask && t->rank == 3) && !(t->rank == 4 && with == 5)) return check_rank(s, spec, t, with);
    if (mask && t->rank == 3 && with != 3)
        *out = (planes){d[0], 1, d[1], d[2], 1};
    else if (t->rank == 3)
        *out = (planes){d[0], 1, 1, d[1], d[2]};
    else if (t->rank == 4)
        *out = (planes){d[0], 1, d[1], d[2], d[3]};
    else
        *out = (planes){d[0], d[1], d[2], d[3], d[4]};
    if (out->frames == 1 || out->frames == s->shape->frames) return KILN_OK;
    return s->call->host->fail(s->call->ctx, KILN_ERR_INVALID, "%s: its '%s' has %lld frames, the latent %lld", s->what,
                               key_of(spec), (long long)out->frames, (long long)s->shape->frames);
}

static void to_model_space(const input_search *s, float *x, size_t n, int64_t channels)
{
    const kiln_latent_scaling *by = s->scaling;
    for (size_t i = 0; i < n; i++) {
        size_t k = by->n > 1 ? i % (size_t)channels % by->n : 0;
        x[i] = (float)(((double)x[i] - (by->shift ? by->shift[k] : 0)) * by->scale[k]);
    }
}

static kiln_status take_like_x(const input_search *s, const kiln_input_spec *spec, const found *f, input_value *out)
{
    kiln_tensor t;
    planes from = {0};
    TRY(view_tensor(s, spec, f, &t));
    TRY(planes_of(s, spec, &t, &from));
    shape_like_x(s, spec, from.pictures, from.channels, out);
    TRY(check_width(s, spec, out));
    if (kit_estimating(s->call)) return KILN_OK;
    size_t n = count_of(out), k = (size_t)input_cells_per_cell(spec->kind, s->format);
    int64_t h = s->shape->height * (int64_t)k, w = s->shape->width * (int64_t)k, frames = s->shape->frames;
    size_t plane = (size_t)(h * w * from.channels);
    float *made = floats(s, n);
    if (!made) return KILN_ERR_NOMEM;
    resize_box box = {0, 0, from.height, from.width};
    if (spec->flags & KILN_INPUT_CENTRED) box = resize_centre(from.height, from.width, h, w);
    for (int64_t i = 0; i < from.pictures * frames; i++) {
        int64_t p = i / frames * from.frames + (from.frames > 1 ? i % frames : 0);
        const float *data = (const float *)t.data + p * from.height * from.width * from.channels;
        resize_source src = {.data = data + (box.y * from.width + box.x) * from.channels,
                             .h = box.h,
                             .w = box.w,
                             .c = from.channels,
                             .row = from.width * from.channels};
        if (from.height == h && from.width == w)
            memcpy(made + (size_t)i * plane, src.data, plane * sizeof *made);
        else
            resize_plane(src, made + (size_t)i * plane, h, w,
                         spec->flags & KILN_INPUT_NEAREST ? RESIZE_NEAREST : RESIZE_BILINEAR);
    }
    if (spec->flags & KILN_INPUT_MODEL_SPACE) to_model_space(s, made, n, from.channels);
    out->data = made;
    return KILN_OK;
}

/* A latent of any size; its rank has to be x's. */
static kiln_status take_latent(const input_search *s, const kiln_input_spec *spec, const found *f, input_value *out)
{
    kiln_tensor t;
    TRY(view_tensor(s, spec, f, &t));
    TRY(check_rank(s, spec, &t, (uint32_t)s->shape->rank));
    TRY(take_dense(s, &t, out));
    TRY(check_width(s, spec, out));
    if (!(spec->flags & KILN_INPUT_MODEL_SPACE) || kit_estimating(s->call)) return KILN_OK;
    size_t n = count_of(out);
    float *made = floats(s, n);
    if (!made) return KILN_ERR_NOMEM;
    memcpy(made, t.data, n * sizeof *made);
    to_model_space(s, made, n, out->dim[out->rank - 1]);
    out->data = made;
    return KILN_OK;
}

/* ---- what stands in for an absent one ---- */

/* The shape of a row that is filled with its fallback; 0: the row does not say. */
static int fallback_shape(const input_search *s, const kiln_input_spec *spec, input_value *out)
{
    int64_t width = spec->width;
    out->dtype = KILN_F32, out->dim[0] = out->dim[1] = 1;
    switch (spec->kind) {
    case KILN_INPUT_IDS: out->dtype = KILN_I32, out->rank = 2, out->dim[1] = width ? width : 1; return 1;
    case KILN_INPUT_VECTOR: out->rank = 2, out->dim[1] = width; return width != 0;
    case KILN_INPUT_TOKENS: out->rank = 3, out->dim[2] = width; return width != 0;
    case KILN_INPUT_TABLE: out->rank = 1, out->dim[0] = width; return width != 0;
    default:
        if (!width && spec->kind == KILN_INPUT_MASK) width = 1;
        shape_like_x(s, spec, 1, width, out);
        return width != 0;
    }
}

static kiln_status fill_fallback(const input_search *s, const kiln_input_spec *spec, input_value *out)
{
    if (spec->flags & KILN_INPUT_OMITTED) {
        out->absent = 1;
        return KILN_OK;
    }
    if (spec->kind == KILN_INPUT_SCALAR) return take_scalar(s, spec, &(found){0}, out);
    if (!fallback_shape(s, spec, out))
        return s->call->host->fail(
            s->call->ctx, KILN_ERR_BUG,
            "%s declares '%s' (%s) optional without a width, so there is nothing to fill it with; "
            "give the row a width, or KILN_INPUT_OMITTED",
            s->owner, spec->name, kind_name(spec->kind));
    float *made = floats(s, count_of(out));
    if (!made) return KILN_ERR_NOMEM;
    for (size_t i = 0; i < count_of(out); i++) {
        double number = fallback_of(s, spec);
        int32_t id = (int32_t)number;
        if (out->dtype == KILN_I32)
            memcpy(&made[i], &id, sizeof id);
        else
            made[i] = (float)number;
    }
    out->data = made;
    return KILN_OK;
}

/* ---- one row ---- */

static kiln_status add(const input_search *s, input_values *out, const kiln_input_spec *spec, input_value **added)
{
    if (out->n == out->capacity) {
        size_t capacity = out->capacity ? 2 * out->capacity : 16;
        input_value *more = s->call->host->scratch(s->call->ctx, capacity * sizeof *more, KILN_CPU);
        if (!more || capacity > 2 * VALUES_MAX)
            return s->call->host->fail(s->call->ctx, KILN_ERR_NOMEM, "no memory for the inputs of a network");
        if (out->n) memcpy(more, out->value, out->n * sizeof *more);
        out->value = more, out->capacity = capacity;
    }
    *added = &out->value[out->n++];
    **added = (input_value){.spec = *spec, .hook = s->hook, .control = s->control};
    snprintf((*added)->name, sizeof(*added)->name, "%s%s", s->prefix ? s->prefix : "", spec->name);
    return KILN_OK;
}

/* A tensor of a kind that is bound as it stands. */
static kiln_status take_plain(const input_search *s, const kiln_input_spec *spec, const found *f, input_value *out)
{
    static const uint32_t rank[] = {
        [KILN_INPUT_TOKENS] = 3, [KILN_INPUT_VECTOR] = 2, [KILN_INPUT_IDS] = 2, [KILN_INPUT_TABLE] = 0};
    kiln_tensor t;
    if (spec->kind >= COUNT(rank))
        return s->call->host->fail(s->call->ctx, KILN_ERR_BUG, "%s declares input '%s' of kind %u, which is none",
                                   s->owner, spec->name, spec->kind);
    TRY(view_tensor(s, spec, f, &t));
    if (rank[spec->kind]) TRY(check_rank(s, spec, &t, rank[spec->kind]));
    TRY(take_dense(s, &t, out));
    return check_width(s, spec, out);
}

static kiln_status take_value(const input_search *s, const kiln_input_spec *spec, const found *f, input_value *out)
{
    if (spec->kind == KILN_INPUT_SCALAR) return take_scalar(s, spec, f, out);
    if (input_follows_x(spec->kind)) return take_like_x(s, spec, f, out);
    if (spec->kind == KILN_INPUT_IDS && f->value && kit_values(s->call)->kind(f->value) != KILN_V_TENSOR)
        return take_ids(s, spec, f, out);
    return take_plain(s, spec, f, out);
}

static kiln_status take_list(const input_search *s, const kiln_input_spec *spec, const kiln_value *list,
                             input_values *out)
{
    const kiln_value_api *v = kit_values(s->call);
    if (v->kind(list) != KILN_V_LIST)
        return s->call->host->fail(s->call->ctx, KILN_ERR_INVALID, "%s: its '%s' has to be a list of latents", s->what,
                                   key_of(spec));
    for (size_t i = 0; i < v->count(list); i++) {
        input_value *one;
        TRY(add(s, out, spec, &one));
        if (i) snprintf(one->name, sizeof one->name, "%s%s.%zu", s->prefix ? s->prefix : "", spec->name, i);
        TRY(take_latent(s, spec, &(found){.value = v->list_at(list, i)}, one));
    }
    return KILN_OK;
}

/* How many rows each picture's tokens have. */
static kiln_status take_lengths(const input_search *s, const kiln_input_spec *spec, input_values *out)
{
    const input_value *of = NULL;
    input_value *made;
    for (size_t i = 0; i < out->n; i++)
        if (spec->of && strcmp(out->value[i].spec.name, spec->of) == 0) of = &out->value[i];
    if (!of || of->spec.kind != KILN_INPUT_TOKENS)
        return s->call->host->fail(s->call->ctx, KILN_ERR_BUG, "%s: input '%s' is the length of no tokens before it",
                                   s->owner, spec->name);
    int32_t *length = s->call->host->scratch(s->call->ctx, sizeof *length, KILN_CPU);
    if (!length) return KILN_ERR_NOMEM;
    *length = of->absent ? 0 : (int32_t)of->dim[1];
    TRY(add(s, out, spec, &made));
    made->dtype = KILN_I32, made->rank = 1, made->dim[0] = 1, made->data = length;
    return KILN_OK;
}

/* The value of the row that stands in for this one, or for that row in turn. What the last one falls back to, such as
 * the latent's width, spec then falls back to. */
static found find_stand_in(const input_search *s, kiln_input_spec *spec)
{
    for (uint32_t i = 0, steps = 0; spec->fallback_from && i < s->n_spec; i++) {
        kiln_input_spec other = kiln_input_spec_at(s->spec, s->stride, i);
        if (strcmp(other.name, spec->fallback_from) != 0) continue;
        found f = find_value(s, &other);
        if (is_found(&f) || steps++ == s->n_spec) return f;
        spec->fallback_from = other.fallback_from;
        i = UINT32_MAX; /* from the first row again */
    }
    return (found){0};
}

static kiln_status find_one(const input_search *s, kiln_input_spec *spec, input_values *out)
{
    found f = find_value(s, spec);
    input_value *one;
    if (spec->kind == KILN_INPUT_LENGTHS) return take_lengths(s, spec, out);
    if (!is_found(&f)) f = find_stand_in(s, spec);
    if (!is_found(&f) && !(spec->flags & KILN_INPUT_OPTIONAL)) return fail_missing(s, spec);
    if (spec->kind == KILN_INPUT_LATENTS) return f.value ? take_list(s, spec, f.value, out) : KILN_OK;
    TRY(add(s, out, spec, &one));
    return is_found(&f) ? take_value(s, spec, &f, one) : fill_fallback(s, spec, one);
}

kiln_status input_values_find(const input_search *s, input_values *out)
{
    for (uint32_t i = 0; i < s->n_spec; i++) {
        kiln_input_spec spec = kiln_input_spec_at(s->spec, s->stride, i);
        TRY(find_one(s, &spec, out));
    }
    return KILN_OK;
}
