/* conditions.c - see conditions.h. */
#include "conditions.h"

#include "kiln/kit.h"
#include "network_hooks.h"
#include "torch_random.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FADE_MOST = 8 }; /* latent cells over which an area's inner edges fade in; a quarter of a short side */

void resize_bilinear(const float *src, int64_t sh, int64_t sw, float *dst, int64_t dh, int64_t dw)
{
    for (int64_t y = 0; y < dh; y++) {
        double fy = fmax(0, ((double)y + 0.5) * (double)sh / (double)dh - 0.5);
        int64_t y0 = (int64_t)fy, y1 = y0 + 1 < sh ? y0 + 1 : sh - 1;
        for (int64_t x = 0; x < dw; x++) {
            double fx = fmax(0, ((double)x + 0.5) * (double)sw / (double)dw - 0.5);
            int64_t x0 = (int64_t)fx, x1 = x0 + 1 < sw ? x0 + 1 : sw - 1;
            double py = fy - (double)y0, px = fx - (double)x0;
            double top = (double)src[y0 * sw + x0] * (1 - px) + (double)src[y0 * sw + x1] * px;
            double low = (double)src[y1 * sw + x0] * (1 - px) + (double)src[y1 * sw + x1] * px;
            dst[y * dw + x] = (float)(top * (1 - py) + low * py);
        }
    }
}

static double number(const kiln_value_api *v, const kiln_value *map, const char *key, double otherwise)
{
    double d;
    return v->get_float(v->map_get(map, key), &d) == KILN_OK ? d : otherwise;
}

static int64_t clamp(int64_t v, int64_t low, int64_t high) { return v < low ? low : v > high ? high : v; }

/* From `at`, n cells, widened to whole patches. */
static void widen(int32_t patch, int64_t size, int64_t *at, int64_t *n)
{
    int64_t end = *at + *n;
    if (patch <= 1) return;
    *at = *at / patch * patch;
    *n = clamp((end + patch - 1) / patch * patch, patch, size) - *at;
}

static kiln_status read_area(const kiln_call *c, const kiln_value *entry, int64_t height, int64_t width, condition *out)
{
    const kiln_value_api *v = kit_values(c);
    const kiln_value *area = v->map_get(entry, "area"), *percent = v->map_get(entry, "area_percent");
    const kiln_value *list = area ? area : percent;
    double n[4];
    *out = (condition){.h = height, .w = width, .has_area = list != NULL};
    if (!list) return KILN_OK;
    for (size_t i = 0; i < 4; i++)
        if (v->count(list) != 4 || v->get_float(v->list_at(list, i), &n[i]) != KILN_OK)
            return c->host->fail(c->ctx, KILN_ERR_INVALID, "a conditioning's area must be four numbers: h, w, y, x");
    double sy = area ? 1 : (double)height, sx = area ? 1 : (double)width;
    int64_t least = area ? 0 : 1;                            /* a share of the picture is at least one cell */
    out->h = clamp((int64_t)rint(n[0] * sy), least, height); /* halves to even, as Python rounds */
    out->w = clamp((int64_t)rint(n[1] * sx), least, width);
    out->y = (int64_t)rint(n[2] * sy);
    out->x = (int64_t)rint(n[3] * sx);
    if (out->y < 0 || out->x < 0 || out->y >= height || out->x >= width || out->h == 0 || out->w == 0)
        return c->host->fail(
            c->ctx, KILN_ERR_INVALID,
            "a conditioning's area (%lldx%lld at %lld,%lld latent cells) lies outside the latent (%lldx%lld)",
            (long long)out->w, (long long)out->h, (long long)out->x, (long long)out->y, (long long)width,
            (long long)height);
    out->h = clamp(out->h, 1, height - out->y);
    out->w = clamp(out->w, 1, width - out->x);
    return KILN_OK;
}

/* An entry's masks at latent size: one for each picture of the batch, given again from the first on when there are
 * fewer. */
typedef struct {
    int64_t given, used; /* masks there are; those that pictures have */
    float *cells;        /* [given][height][width]; NULL: no mask     */
} masks;

static kiln_status read_masks(const kiln_call *c, const kiln_value *entry, const char *what,
                              const kiln_latent_shape *size, masks *out)
{
    kiln_tensor m;
    const kiln_value *mask = kit_values(c)->map_get(entry, "mask");
    size_t cells = (size_t)(size->height * size->width);
    *out = (masks){0};
    if (!mask) return KILN_OK;
    TRY(kit_f32(c, mask, 3, "a conditioning's mask", &m));
    if (kit_count(&m) == 0) return c->host->fail(c->ctx, KILN_ERR_INVALID, "%s: a conditioning's mask is empty", what);
    out->given = m.dim[0], out->used = m.dim[0] < size->pictures ? m.dim[0] : size->pictures;
    if (size->pictures % out->used)
        return c->host->fail(
            c->ctx, KILN_ERR_INVALID,
            "%s: %lld masks for %lld pictures; give one mask, one for each picture, or a number that divides theirs",
            what, (long long)out->given, (long long)size->pictures);
    out->cells = c->host->scratch(c->ctx, (size_t)out->given * cells * sizeof(float), KILN_CPU);
    if (!out->cells) return KILN_ERR_NOMEM;
    for (int64_t i = 0; i < out->given && !kit_estimating(c); i++)
        resize_bilinear((const float *)m.data + i * m.dim[1] * m.dim[2], m.dim[1], m.dim[2],
                        out->cells + (size_t)i * cells, size->height, size->width);
    return KILN_OK;
}

/* The smallest box that holds every cell where one of the masks, used or not, is not 0; 8x8 at the corner when there is
 * none. */
static void area_from_masks(const masks *m, int64_t height, int64_t width, condition *out)
{
    int64_t y0 = height, y1 = -1, x0 = width, x1 = -1;
    for (int64_t i = 0; i < m->given * height; i++)
        for (int64_t x = 0; x < width; x++) {
            int64_t y = i % height;
            if (m->cells[i * width + x] == 0) continue;
            y0 = y < y0 ? y : y0, y1 = y > y1 ? y : y1;
            x0 = x < x0 ? x : x0, x1 = x > x1 ? x : x1;
        }
    if (y1 < 0) y0 = x0 = 0, y1 = x1 = 7;
    out->y = y0, out->x = x0;
    out->h = clamp(y1 - y0 + 1 > 8 ? y1 - y0 + 1 : 8, 1, height - y0);
    out->w = clamp(x1 - x0 + 1 > 8 ? x1 - x0 + 1 : 8, 1, width - x0);
}

/* ComfyUI's get_area_and_mult: towards an edge inside the picture the weight falls to a share of 1/n over the last n
 * cells. */
static void fade(float *weight, const condition *e, int64_t height, int64_t width)
{
    int64_t rows = e->h / 4 < FADE_MOST ? e->h / 4 : FADE_MOST, columns = e->w / 4 < FADE_MOST ? e->w / 4 : FADE_MOST;
    for (int64_t t = 0; t < rows; t++)
        for (int64_t x = 0; x < e->w; x++) {
            float gain = (float)((double)(t + 1) / (double)rows);
            if (e->y != 0) weight[t * e->w + x] *= gain;
            if (e->y + e->h < height) weight[(e->h - 1 - t) * e->w + x] *= gain;
        }
    for (int64_t t = 0; t < columns; t++)
        for (int64_t y = 0; y < e->h; y++) {
            float gain = (float)((double)(t + 1) / (double)columns);
            if (e->x != 0) weight[y * e->w + t] *= gain;
            if (e->x + e->w < width) weight[y * e->w + e->w - 1 - t] *= gain;
        }
}

static kiln_status read_weight(const kiln_call *c, const kiln_value *entry, const masks *m,
                               const kiln_latent_shape *size, condition *e)
{
    const kiln_value_api *v = kit_values(c);
    double strength = number(v, entry, "strength", 1), mask_strength = number(v, entry, "mask_strength", 1);
    int whole = e->h == size->height && e->w == size->width;
    e->weights = m->cells ? m->used : 1;
    if (!m->cells && whole && strength == 1) return KILN_OK;
    float *weight = c->host->scratch(c->ctx, (size_t)(e->weights * e->h * e->w) * sizeof(float), KILN_CPU);
    if (!weight) return KILN_ERR_NOMEM;
    e->weight = weight;
    if (kit_estimating(c)) return KILN_OK;
    for (int64_t i = 0; i < e->weights; i++)
        for (int64_t y = 0; y < e->h; y++)
            for (int64_t x = 0; x < e->w; x++) {
                double cell =
                    m->cells ? (double)m->cells[(i * size->height + e->y + y) * size->width + e->x + x] * mask_strength
                             : 1;
                weight[(i * e->h + y) * e->w + x] = (float)(cell * strength);
            }
    if (!m->cells && !whole) fade(weight, e, size->height, size->width);
    return KILN_OK;
}

/* ---- what the model's inputs are made of ---- */

/* Keys that are read here, or that every text encoder writes whether a model wants them or not. */
static const char *const known_keys[] = {"area",
                                         "area_percent",
                                         "strength",
                                         "mask",
                                         "mask_strength",
                                         "control",
                                         "set_area_to_bounds",
                                         "start_percent",
                                         "end_percent",
                                         "model_range",
                                         "hooks",
                                         KILN_NETWORK_HOOKS,
                                         "default",
                                         "clip_start_percent",
                                         "clip_end_percent",
                                         "tokens",
                                         "pooled",
                                         "control_apply_to_uncond"};

static int wants_key(const kiln_input_spec *table, uint32_t n, uint32_t stride, const char *key)
{
    for (uint32_t i = 0; i < n; i++) {
        kiln_input_spec spec = kiln_input_spec_at(table, stride, i);
        if (strcmp(spec.key ? spec.key : spec.name, key) == 0) return 1;
    }
    return 0;
}

static int is_wanted(const kiln_model *m, const control_uses *controls, const char *key)
{
    for (size_t i = 0; i < COUNT(known_keys); i++)
        if (strcmp(known_keys[i], key) == 0) return 1;
    if (wants_key(m->denoiser->input, m->denoiser->n_input, m->denoiser->input_stride, key)) return 1;
    for (size_t i = 0; i < m->n_hook; i++)
        if (wants_key(m->hook[i]->input, m->hook[i]->n_input, m->hook[i]->input_stride, key)) return 1;
    for (size_t i = 0; i < controls->n; i++) {
        const kiln_network *n = controls->use[i].net->network;
        if (wants_key(n->input, n->n_input, n->input_stride, key)) return 1;
    }
    const char *const *derived = m->denoiser->derive_key;
    if (!m->denoiser->derive || !derived) return m->denoiser->derive != NULL; /* it reads what it likes */
    while (*derived && strcmp(*derived, key) != 0) derived++;
    return *derived != NULL;
}

static void meet_keys(const condition_reading *r, const kiln_value *entry, const condition *e)
{
    const kiln_value_api *v = kit_values(r->call);
    for (size_t i = 0; r->keys && i < v->count(entry); i++) {
        entry_key met = {.what = r->what, .family = r->model->denoiser->family};
        v->map_at(entry, i, &met.key);
        met.wanted = is_wanted(r->model, &e->controls, met.key);
        entry_keys_meet(r->keys, &met);
    }
}

static input_search search_of(const condition_reading *r, const kiln_value *entry)
{
    const kiln_denoiser *d = r->model->denoiser;
    return (input_search){.call = r->call,
                          .what = r->what,
                          .owner = "this model",
                          .map = {entry, NULL},
                          .unconditional = r->unconditional,
                          .hook = -1,
                          .spec = d->input,
                          .n_spec = d->n_input,
                          .stride = d->input_stride,
                          .shape = &r->shape,
                          .format = d->latent,
                          .scaling = r->model->latent ? r->model->latent : d->latent->scaling};
}

static void add_derived(const kiln_derivation *d, const char *name, const kiln_tensor *t)
{
    input_derived *all = d->self;
    if (all->n == INPUTS_DERIVED_MAX) return;
    all->item[all->n].name = name;
    all->item[all->n++].tensor = *t;
}

static void randn(const kiln_derivation *d, uint64_t seed, float *out, size_t n)
{
    torch_generator g;
    (void)d;
    torch_seed(&g, seed);
    torch_randn(&g, out, n);
}

/* What the model makes of the entry itself. */
static kiln_status derive(const condition_reading *r, const kiln_value *entry, input_derived *out)
{
    const kiln_denoiser *d = r->model->denoiser;
    const kiln_latent_shape *s = &r->shape;
    int64_t dim[5];
    kiln_derivation given = {.size = sizeof given,
                             .host = r->call->host,
                             .ctx = r->call->ctx,
                             .conditioning = entry,
                             .latent = r->latent,
                             .dim = dim,
                             .rank = latent_dims(s, d->latent->channels, dim),
                             .estimate = r->call->estimate,
                             .unconditional = r->unconditional != 0,
                             .self = out,
                             .add = add_derived,
                             .seed = r->seed,
                             .randn = randn};
    out->n = 0;
    return d->derive ? d->derive(d, &given) : KILN_OK;
}

/* A hook that entries bring takes its values from there; the model's own brings them along. */
static const kiln_value *values_beside(const condition_reading *r, const control_list *with, const kiln_hook *h)
{
    const kiln_value *own = carried_hook_values(kit_values(r->call), with->hooks, h);
    return own ? own : h->values;
}

static kiln_status read_hook_inputs(const condition_reading *r, const control_list *with, size_t number,
                                    input_values *out)
{
    const kiln_value *entry = with->entry;
    const kiln_hook *h = r->model->hook[number];
    input_search s = search_of(r, entry);
    char prefix[32], owner[100];
    snprintf(prefix, sizeof prefix, "hook.%zu.", number);
    snprintf(owner, sizeof owner, "the hook '%.*s'", (int)strcspn(h->identity, "/"), h->identity);
    s.owner = owner, s.prefix = prefix, s.hook = (int)number;
    s.beside = values_beside(r, with, h);
    s.spec = h->input, s.n_spec = h->n_input, s.stride = h->input_stride;
    size_t before = out->n;
    TRY(input_values_find(&s, out));
    for (size_t i = before; i < out->n; i++) out->value[i].carried = number + r->n_carried >= r->model->n_hook;
    return KILN_OK;
}

static kiln_status read_inputs(const condition_reading *r, const control_list *with, condition *e)
{
    const kiln_value *entry = with->entry;
    input_search s = search_of(r, entry);
    input_derived derived;
    e->inputs = (input_values){0};
    TRY(derive(r, entry, &derived));
    s.derived = &derived;
    TRY(input_values_find(&s, &e->inputs));
    s.derived = NULL;
    for (size_t i = 0; i < r->model->n_hook; i++) TRY(read_hook_inputs(r, with, i, &e->inputs));
    return control_uses_read(&s, with, &r->counted, &e->controls);
}

/* From when to when; a prompt that was encoded for a stretch of the way counts no longer than that. */
static void read_levels(const condition_reading *r, const kiln_value *entry, condition *e)
{
    const kiln_value_api *v = kit_values(r->call);
    double start = fmax(number(v, entry, "start_percent", 0), number(v, entry, "clip_start_percent", 0)),
           end = fmin(number(v, entry, "end_percent", 1), number(v, entry, "clip_end_percent", 1));
    e->sigma_start = model_sampling_percent_to_sigma(&r->counted, start);
    e->sigma_end = model_sampling_percent_to_sigma(&r->counted, end);
}

/* What its hooks are, and whether it is for what others leave. */
static kiln_status read_part(const condition_reading *r, const kiln_value *entry, condition *e)
{
    const kiln_call *c = r->call;
    const kiln_value_api *v = kit_values(c);
    e->hooks = (entry_hooks){0};
    if (r->schedules) TRY(entry_hooks_read(c, r->what, entry, &r->counted, r->schedules, &e->hooks));
    if (v->get_bool(v->map_get(entry, "default"), &e->is_default) != KILN_OK) e->is_default = 0;
    if (e->is_default && (v->map_get(entry, "area") || v->map_get(entry, "area_percent")))
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "%s: a default conditioning has an area; it is for whatever the others leave, so give it "
                             "none",
                             r->what);
    return KILN_OK;
}

static kiln_status read_entry(const condition_reading *r, const control_list *with, condition *e)
{
    const kiln_call *c = r->call;
    const kiln_value *entry = with->entry;
    const kiln_value_api *v = kit_values(c);
    masks m;
    TRY(read_area(c, entry, r->shape.height, r->shape.width, e));
    TRY(read_inputs(r, with, e));
    TRY(read_masks(c, entry, r->what, &r->shape, &m));
    int to_bounds = 0;
    TRY(read_part(r, entry, e));
    if (e->is_default) m = (masks){0};
    if (!m.cells || v->get_bool(v->map_get(entry, "set_area_to_bounds"), &to_bounds) != KILN_OK) to_bounds = 0;
    e->has_area |= to_bounds;
    if (to_bounds && !kit_estimating(c)) /* an estimate has the whole */
        area_from_masks(&m, r->shape.height, r->shape.width, e);
    widen(r->model->denoiser->latent->patch, r->shape.height, &e->y, &e->h);
    widen(r->model->denoiser->latent->patch, r->shape.width, &e->x, &e->w);
    e->top = e->y, e->left = e->x, e->unconditional = r->unconditional;
    TRY(read_weight(c, entry, &m, &r->shape, e));
    read_levels(r, entry, e);
    meet_keys(r, entry, e);
    return KILN_OK;
}

/* 1: the entry is for another range of the MODEL. */
static int is_elsewhere(const condition_reading *r, const kiln_value *entry)
{
    const kiln_value_api *v = kit_values(r->call);
    const char *range = v->get_string(v->map_get(entry, "model_range"), NULL);
    return range && r->range && strcmp(range, r->range) != 0;
}

kiln_status conditions_read(const condition_reading *r, const kiln_value *conditioning, conditions *out)
{
    const kiln_call *c = r->call;
    const kiln_value_api *v = kit_values(c);
    size_t n = v->count(conditioning);
    *out = (conditions){0};
    if (v->kind(conditioning) != KILN_V_LIST || n == 0)
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "%s: the conditioning is empty", r->what);
    out->entry = c->host->scratch(c->ctx, n * sizeof *out->entry, KILN_CPU);
    control_list *with = c->host->scratch(c->ctx, n * sizeof *with, KILN_CPU);
    if (!out->entry || !with) return KILN_ERR_NOMEM;
    TRY(control_lists(c, conditioning, r->lender, r->model->weights, with));
    for (size_t i = 0; i < n; i++)
        if (!is_elsewhere(r, with[i].entry)) TRY(read_entry(r, &with[i], &out->entry[out->n++]));
    if (out->n) return KILN_OK;
    return c->host->fail(c->ctx, KILN_ERR_INVALID,
                         "%s: every entry of the conditioning is for another range of the model, none for '%s'",
                         r->what, r->range);
}

/* ---- areas on both sides ---- */

static int covers_all(const condition *e, int64_t height, int64_t width) { return e->h == height && e->w == width; }

static int within(const condition *in, const condition *e)
{
    return in->y >= e->y && in->x >= e->x && in->y + in->h <= e->y + e->h && in->x + in->w <= e->x + e->w;
}

/* The entry with the smallest area that holds `e`; one without an area only where there is none with. */
static const condition *smallest_round(const conditions *from, const condition *e)
{
    const condition *best = NULL;
    for (size_t i = 0; i < from->n; i++) {
        const condition *k = &from->entry[i];
        if (!within(e, k) || (best && (!k->has_area || (best->has_area && best->h * best->w <= k->h * k->w)))) continue;
        best = k;
    }
    return best;
}

static kiln_status append(const kiln_call *c, conditions *to, const condition *e)
{
    condition *more = c->host->scratch(c->ctx, (to->n + 1) * sizeof *more, KILN_CPU);
    if (!more) return KILN_ERR_NOMEM;
    memcpy(more, to->entry, to->n * sizeof *more);
    more[to->n] = *e;
    to->entry = more;
    to->n++;
    return KILN_OK;
}

/* 1: an opposite would say what `round` says already. Of the whole picture it does, unless it brings hooks. */
static int is_there(const condition *round, const condition *e)
{
    return within(round, e) && within(e, round) && (round->has_area || !e->hooks.n);
}

/* The inputs of `round`, but those of hooks that entries bring as `e` has them. */
static kiln_status opposite_inputs(const kiln_call *c, const condition *round, const condition *e, input_values *out)
{
    *out = round->inputs;
    out->capacity = out->n;
    out->value = c->host->scratch(c->ctx, (out->n + 1) * sizeof *out->value, KILN_CPU);
    if (!out->value) return KILN_ERR_NOMEM;
    for (size_t i = 0; i < out->n; i++) out->value[i] = round->inputs.value[i];
    for (size_t i = 0; i < out->n; i++)
        for (size_t k = 0; out->value[i].carried && k < e->inputs.n; k++)
            if (e->inputs.value[k].carried && strcmp(e->inputs.value[k].name, out->value[i].name) == 0)
                out->value[i] = e->inputs.value[k];
    return KILN_OK;
}

static kiln_status oppose(const kiln_call *c, conditions *to, const condition *e)
{
    const condition *round = smallest_round(to, e);
    if (!round || is_there(round, e)) return KILN_OK;
    condition opposite = *e;
    TRY(opposite_inputs(c, round, e, &opposite.inputs));
    opposite.controls = round->controls;
    opposite.unconditional = round->unconditional;
    return append(c, to, &opposite);
}

kiln_status conditions_oppose(const kiln_call *c, conditions *const *set, size_t n, int64_t height, int64_t width)
{
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < set[k]->n; i++)
            for (size_t j = 0; j < n; j++) {
                condition e = set[k]->entry[i];
                if (j != k && (!covers_all(&e, height, width) || (e.has_area && e.hooks.n))) TRY(oppose(c, set[j], &e));
            }
    return KILN_OK;
}

/* ---- parts of the picture ---- */

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* The part of e's weights that e_part has. */
static kiln_status crop_weight(const kiln_call *c, const condition *e, condition *e_part, int64_t y, int64_t x)
{
    int64_t h = e_part->h, w = e_part->w;
    if (!e->weight || (h == e->h && w == e->w)) return KILN_OK;
    float *weight = c->host->scratch(c->ctx, (size_t)(e->weights * h * w) * sizeof(float), KILN_CPU);
    if (!weight) return KILN_ERR_NOMEM;
    e_part->weight = weight;
    for (int64_t i = 0; i < e->weights * h && !kit_estimating(c); i++)
        memcpy(weight + i * w, e->weight + ((i / h * e->h) + y + i % h) * e->w + x, (size_t)w * sizeof(float));
    return KILN_OK;
}

kiln_status conditions_crop(const kiln_call *c, const conditions *from, const condition_area *part, conditions *out)
{
    *out = (conditions){0};
    if (!from->n) return KILN_OK;
    if (!(out->entry = c->host->scratch(c->ctx, from->n * sizeof *out->entry, KILN_CPU))) return KILN_ERR_NOMEM;
    for (size_t i = 0; i < from->n; i++) {
        const condition *e = &from->entry[i];
        int64_t y = larger(e->y, part->y), x = larger(e->x, part->x);
        condition inside = *e;
        inside.h = smaller(e->y + e->h, part->y + part->h) - y;
        inside.w = smaller(e->x + e->w, part->x + part->w) - x;
        if (inside.h <= 0 || inside.w <= 0) continue;
        inside.y = y - part->y, inside.x = x - part->x;
        inside.top = y, inside.left = x;
        TRY(crop_weight(c, e, &inside, y - e->y, x - e->x));
        out->entry[out->n++] = inside;
    }
    return KILN_OK;
}
