/* latent.c - latents: empty ones, arithmetic, batches, noise masks.
 *
 * A LATENT is a map; a node copies it, replaces what it changes and carries the rest along. Samples are f32 in the
 * autoencoder's own units, of pictures, videos or sound: nothing here depends on which. Names, defaults and ranges are
 * ComfyUI's.
 */
#include "latent.h"

#include "kiln/kit.h"

#include <math.h>
#include <string.h>

static const kiln_port out[] = {{.name = "LATENT", .type = "LATENT", .doc = "The new latent."}};
static const kiln_port one[] = {{.name = "samples", .type = "LATENT", .doc = "What to change."}};
static const kiln_port two[] = {
    {.name = "samples1", .type = "LATENT", .doc = "One."},
    {.name = "samples2", .type = "LATENT", .doc = "The other."},
};

/* ---- EmptyLatentImage ---- */

typedef struct {
    int64_t width, height, batch_size;
} empty_params;
static const kiln_param empty_param[] = {
    {.name = "width",
     .type = KILN_P_INT,
     .offset = offsetof(empty_params, width),
     .def = 512,
     .min = 16,
     .max = 16384,
     .step = 8,
     .flags = KILN_PARAM_FLOORED,
     .doc = "Pixels; an eighth of it in cells."},
    {.name = "height",
     .type = KILN_P_INT,
     .offset = offsetof(empty_params, height),
     .def = 512,
     .min = 16,
     .max = 16384,
     .step = 8,
     .flags = KILN_PARAM_FLOORED,
     .doc = "Pixels; an eighth of it in cells."},
    KIT_INT(empty_params, batch_size, 1, 1, 4096, "Pictures at once."),
};

static kiln_status empty_latent_run(const kiln_call *c)
{
    const empty_params *p = c->params;
    kiln_value *samples;
    kiln_tensor t;
    TRY(kit_new_f32(c, 4, (const int64_t[]){p->batch_size, p->height / 8, p->width / 8, 4}, &samples, &t));
    if (kit_estimating(c)) return kit_latent(c, NULL, samples, &c->out[0]);
    memset(t.data, 0, kit_count(&t) * sizeof(float));
    return kit_latent(c, NULL, samples, &c->out[0]);
}
const kiln_node node_empty_latent = {
    KIT_NODE("EmptyLatentImage", "Empty Latent Image", "latent", "A latent of zeros for a picture of this size."),
    KILN_ARRAY(out, out),
    KIT_PARAMS(empty_params, empty_param),
    .run = empty_latent_run,
};

/* ---- arithmetic ---- */

/* Latents that are mixed or joined: of one size but for the number of pictures. */
static kiln_status check_sizes(const kiln_call *c, const kiln_tensor *a, const kiln_tensor *b)
{
    char first[LATENT_SIZE_MAX], second[LATENT_SIZE_MAX];
    if (a->rank == b->rank && memcmp(a->dim + 1, b->dim + 1, (a->rank - 1) * sizeof *a->dim) == 0) return KILN_OK;
    return c->host->fail(c->ctx, KILN_ERR_INVALID,
                         "samples1 is %s and samples2 %s; bring them to one size, with LatentUpscale where they are "
                         "pictures",
                         latent_size_text(a, first), latent_size_text(b, second));
}

/* out = f(a, b, k) cell by cell; b may have fewer pictures than a and is repeated. */
static kiln_status combine(const kiln_call *c, double k, float (*f)(float a, float b, double k))
{
    kiln_tensor a, b, r;
    kiln_value *samples;
    TRY(kit_samples(c, c->in[0], &a));
    TRY(kit_samples(c, c->in[1], &b));
    TRY(check_sizes(c, &a, &b));
    TRY(kit_new_f32(c, a.rank, a.dim, &samples, &r));
    if (kit_estimating(c)) return kit_latent(c, c->in[0], samples, &c->out[0]);
    size_t n = kit_count(&a), repeat = kit_count(&b);
    const float *x = a.data, *y = b.data;
    for (size_t i = 0; i < n; i++) ((float *)r.data)[i] = f(x[i], y[i % repeat], k);
    return kit_latent(c, c->in[0], samples, &c->out[0]);
}

static float add(float a, float b, double k) { return (void)k, a + b; }
static float subtract(float a, float b, double k) { return (void)k, a - b; }
static float mix(float a, float b, double k) { return (float)((double)a * k + (double)b * (1 - k)); }

static kiln_status latent_add_run(const kiln_call *c) { return combine(c, 0, add); }
static kiln_status latent_subtract_run(const kiln_call *c) { return combine(c, 0, subtract); }
const kiln_node node_latent_add = {
    KIT_NODE("LatentAdd", "Latent Add", "latent", "Sum of two latents."),
    KILN_ARRAY(out, out),
    KILN_ARRAY(in, two),
    .run = latent_add_run,
};
const kiln_node node_latent_subtract = {
    KIT_NODE("LatentSubtract", "Latent Subtract", "latent", "Difference of two latents."),
    KILN_ARRAY(out, out),
    KILN_ARRAY(in, two),
    .run = latent_subtract_run,
};

typedef struct {
    double factor;
} factor_params;
#define FACTOR(name_, def_, min_, max_, text)                                                                          \
    {                                                                                                                  \
        .name = name_, .type = KILN_P_FLOAT, .offset = offsetof(factor_params, factor), .def = def_, .min = min_,      \
        .max = max_, .step = 0.01, .doc = text                                                                         \
    }
static const kiln_param blend_param[] = {FACTOR("blend_factor", 0.5, 0, 1, "Share of samples1.")};
static const kiln_param ratio_param[] = {FACTOR("ratio", 1, 0, 1, "Share of samples1.")};
static const kiln_param multiplier_param[] = {FACTOR("multiplier", 1, -10, 10, "The factor.")};

static kiln_status latent_blend_run(const kiln_call *c)
{
    return combine(c, ((const factor_params *)c->params)->factor, mix);
}
const kiln_node node_latent_blend = {
    KIT_NODE("LatentBlend", "Latent Blend", "latent", "Weighted mean of two latents."),
    KILN_ARRAY(out, out),
    KILN_ARRAY(in, two),
    KIT_PARAMS(factor_params, blend_param),
    .run = latent_blend_run,
};

static kiln_status latent_multiply_run(const kiln_call *c)
{
    double k = ((const factor_params *)c->params)->factor;
    kiln_tensor a, r;
    kiln_value *samples;
    TRY(kit_samples(c, c->in[0], &a));
    TRY(kit_new_f32(c, a.rank, a.dim, &samples, &r));
    if (kit_estimating(c)) return kit_latent(c, c->in[0], samples, &c->out[0]);
    for (size_t i = 0; i < kit_count(&a); i++) ((float *)r.data)[i] = (float)((double)((const float *)a.data)[i] * k);
    return kit_latent(c, c->in[0], samples, &c->out[0]);
}
const kiln_node node_latent_multiply = {
    KIT_NODE("LatentMultiply", "Latent Multiply", "latent", "A latent times a number."),
    KILN_ARRAY(out, out),
    KILN_ARRAY(in, one),
    KIT_PARAMS(factor_params, multiplier_param),
    .run = latent_multiply_run,
};

/* Length of a cell's channel vector. */
static double length(const float *cell, int64_t channels)
{
    double sum = 0;
    for (int64_t k = 0; k < channels; k++) sum += (double)cell[k] * (double)cell[k];
    return sqrt(sum);
}

/* ComfyUI's: directions and lengths are mixed apart, so that the mean of two cells is not shorter than both. */
static kiln_status latent_interpolate_run(const kiln_call *c)
{
    double share = ((const factor_params *)c->params)->factor;
    kiln_tensor a, b;
    TRY(kit_samples(c, c->in[0], &a));
    TRY(kit_samples(c, c->in[1], &b));
    TRY(check_sizes(c, &a, &b));
    kiln_tensor r;
    kiln_value *samples;
    TRY(kit_new_f32(c, a.rank, a.dim, &samples, &r));
    if (kit_estimating(c)) return kit_latent(c, c->in[0], samples, &c->out[0]);
    int64_t C = a.dim[a.rank - 1], cells = (int64_t)kit_count(&a) / C, repeat = (int64_t)kit_count(&b) / C;
    for (int64_t i = 0; i < cells; i++) {
        const float *x = (const float *)a.data + i * C, *y = (const float *)b.data + (i % repeat) * C;
        float *to = (float *)r.data + i * C;
        double lx = length(x, C), ly = length(y, C), lm = 0;
        for (int64_t k = 0; k < C; k++) {
            double m = (lx > 0 ? (double)x[k] / lx : 0) * share + (ly > 0 ? (double)y[k] / ly : 0) * (1 - share);
            to[k] = (float)m;
            lm += m * m;
        }
        double gain = lm > 0 ? (lx * share + ly * (1 - share)) / sqrt(lm) : 0;
        for (int64_t k = 0; k < C; k++) to[k] = (float)((double)to[k] * gain);
    }
    return kit_latent(c, c->in[0], samples, &c->out[0]);
}
const kiln_node node_latent_interpolate = {
    KIT_NODE("LatentInterpolate", "Latent Interpolate", "latent",
             "Mixes directions and lengths of the cells of two latents."),
    KILN_ARRAY(out, out),
    KILN_ARRAY(in, two),
    KIT_PARAMS(factor_params, ratio_param),
    .run = latent_interpolate_run,
};

/* ---- batches ---- */

/* Items [first, first + n) of a list or of the numbers 0, 1, 2, ..., as batch_index. */
static kiln_status index_of(const kiln_call *c, const kiln_value *old, int64_t i, int64_t *out_index)
{
    const kiln_value_api *v = kit_values(c);
    *out_index = i;
    if (!old) return KILN_OK;
    return v->get_int(v->list_at(old, (size_t)i), out_index) == KILN_OK
               ? KILN_OK
               : c->host->fail(c->ctx, KILN_ERR_INVALID, "the latent's batch_index is too short or holds no numbers");
}

static kiln_status push_int(const kiln_call *c, kiln_value *list, int64_t number)
{
    kiln_value *item = kit_values(c)->new_int(c->ctx, number);
    kiln_status status = item ? kit_values(c)->list_push(list, item) : KILN_ERR_NOMEM;
    c->host->unref(item);
    return status;
}

/* Replaces c->out[0]'s batch_index (out[0] is still ours to write) by what `list` holds. */
static kiln_status set_index(const kiln_call *c, kiln_value *list, kiln_status status)
{
    if (status == KILN_OK) status = kit_values(c)->map_set(c->out[0], "batch_index", list);
    c->host->unref(list);
    return status;
}

typedef struct {
    int64_t batch_index, length;
} from_batch_params;
static const kiln_param from_batch_param[] = {
    KIT_INT(from_batch_params, batch_index, 0, -16384, 16384, "First picture; negative counts from the end."),
    KIT_INT(from_batch_params, length, 1, 1, 64, "How many."),
};

static int64_t clamp(int64_t v, int64_t low, int64_t high) { return v < low ? low : v > high ? high : v; }

/* Rows [first, first + n) of dimension 0, as a new tensor value. */
static kiln_status rows(const kiln_call *c, const kiln_tensor *a, int64_t first, int64_t n, kiln_value **value)
{
    kiln_tensor r;
    int64_t dim[LATENT_RANK_MAX];
    size_t row = kit_count(a) / (size_t)a->dim[0];
    memcpy(dim, a->dim, a->rank * sizeof *dim);
    dim[0] = n;
    TRY(kit_new_f32(c, a->rank, dim, value, &r));
    if (!kit_estimating(c))
        memcpy(r.data, (const float *)a->data + (size_t)first * row, (size_t)n * row * sizeof(float));
    return KILN_OK;
}

/* The mask goes with the pictures it belongs to, or all frames of them; one for all stays as it is. */
static kiln_status cut_mask(const kiln_call *c, const kiln_tensor *samples, int64_t first, int64_t n)
{
    const kiln_value_api *v = kit_values(c);
    const kiln_value *mask = v->map_get(c->in[0], "noise_mask");
    kiln_tensor m;
    kiln_value *part;
    if (!mask) return KILN_OK;
    TRY(kit_f32(c, mask, 3, "the latent's noise_mask", &m));
    kit_planes planes = kit_planes_of(samples);
    if (planes.frames > 1 && m.dim[0] == planes.planes) first *= planes.frames, n *= planes.frames;
    if (m.dim[0] == 1 || first + n > m.dim[0]) return KILN_OK;
    TRY(rows(c, &m, first, n, &part));
    kiln_status status = v->map_set(c->out[0], "noise_mask", part);
    c->host->unref(part);
    return status;
}

static kiln_status latent_from_batch_run(const kiln_call *c)
{
    const from_batch_params *p = c->params;
    const kiln_value_api *v = kit_values(c);
    const kiln_value *old = v->map_get(c->in[0], "batch_index");
    kiln_tensor a;
    kiln_value *samples;
    TRY(kit_samples(c, c->in[0], &a));
    int64_t first = clamp(p->batch_index < 0 ? p->batch_index + a.dim[0] : p->batch_index, 0, a.dim[0] - 1);
    int64_t n = clamp(p->length, 1, a.dim[0] - first);
    TRY(rows(c, &a, first, n, &samples));
    TRY(kit_latent(c, c->in[0], samples, &c->out[0]));
    TRY(cut_mask(c, &a, first, n));
    kiln_value *list = v->new_list(c->ctx);
    kiln_status status = list ? KILN_OK : KILN_ERR_NOMEM;
    for (int64_t i = first, number; status == KILN_OK && i < first + n; i++)
        if ((status = index_of(c, old, i, &number)) == KILN_OK) status = push_int(c, list, number);
    return set_index(c, list, status);
}
const kiln_node node_latent_from_batch = {
    KIT_NODE("LatentFromBatch", "Latent From Batch", "latent",
             "Some pictures of a batch; each keeps the noise it had in it."),
    KILN_ARRAY(out, out),
    KILN_ARRAY(in, one),
    KIT_PARAMS(from_batch_params, from_batch_param),
    .run = latent_from_batch_run,
};

typedef struct {
    int64_t amount;
} amount_params;
static const kiln_param amount_param[] = {KIT_INT(amount_params, amount, 1, 1, 64, "How often.")};

static kiln_status repeat_rows(const kiln_call *c, const kiln_tensor *a, int64_t times, kiln_value **value)
{
    kiln_tensor r;
    int64_t dim[LATENT_RANK_MAX];
    memcpy(dim, a->dim, a->rank * sizeof *dim);
    dim[0] *= times;
    TRY(kit_new_f32(c, a->rank, dim, value, &r));
    for (int64_t i = 0; !kit_estimating(c) && i < times; i++)
        memcpy((float *)r.data + (size_t)i * kit_count(a), a->data, kit_count(a) * sizeof(float));
    return KILN_OK;
}

static kiln_status repeat_mask(const kiln_call *c, int64_t times)
{
    const kiln_value_api *v = kit_values(c);
    const kiln_value *mask = v->map_get(c->in[0], "noise_mask");
    kiln_tensor m;
    kiln_value *many;
    if (!mask) return KILN_OK;
    TRY(kit_f32(c, mask, 3, "the latent's noise_mask", &m));
    if (m.dim[0] == 1) return KILN_OK;
    TRY(repeat_rows(c, &m, times, &many));
    kiln_status status = v->map_set(c->out[0], "noise_mask", many);
    c->host->unref(many);
    return status;
}

/* Each repetition is numbered on, so that it gets noise of its own. */
static kiln_status repeat_index(const kiln_call *c, int64_t have, int64_t times)
{
    const kiln_value_api *v = kit_values(c);
    const kiln_value *old = v->map_get(c->in[0], "batch_index");
    int64_t low = INT64_MAX, high = INT64_MIN, number;
    if (!old) return KILN_OK;
    for (int64_t i = 0; i < have; i++) {
        TRY(index_of(c, old, i, &number));
        low = number < low ? number : low, high = number > high ? number : high;
    }
    kiln_value *list = v->new_list(c->ctx);
    kiln_status status = list ? KILN_OK : KILN_ERR_NOMEM;
    for (int64_t i = 0; status == KILN_OK && i < have * times; i++)
        if ((status = index_of(c, old, i % have, &number)) == KILN_OK)
            status = push_int(c, list, number + i / have * (high - low + 1));
    return set_index(c, list, status);
}

static kiln_status repeat_latent_batch_run(const kiln_call *c)
{
    int64_t times = ((const amount_params *)c->params)->amount;
    kiln_tensor a;
    kiln_value *samples;
    TRY(kit_samples(c, c->in[0], &a));
    TRY(repeat_rows(c, &a, times, &samples));
    TRY(kit_latent(c, c->in[0], samples, &c->out[0]));
    TRY(repeat_mask(c, times));
    return repeat_index(c, a.dim[0], times);
}
const kiln_node node_repeat_latent_batch = {
    KIT_NODE("RepeatLatentBatch", "Repeat Latent Batch", "latent", "The batch several times over."),
    KILN_ARRAY(out, out),
    KILN_ARRAY(in, one),
    KIT_PARAMS(amount_params, amount_param),
    .run = repeat_latent_batch_run,
};

static kiln_status latent_batch_run(const kiln_call *c)
{
    const kiln_value_api *v = kit_values(c);
    kiln_tensor a, b, r;
    kiln_value *samples;
    TRY(kit_samples(c, c->in[0], &a));
    TRY(kit_samples(c, c->in[1], &b));
    int64_t dim[LATENT_RANK_MAX];
    TRY(check_sizes(c, &a, &b));
    memcpy(dim, a.dim, a.rank * sizeof *dim);
    dim[0] += b.dim[0];
    TRY(kit_new_f32(c, a.rank, dim, &samples, &r));
    if (!kit_estimating(c)) {
        memcpy(r.data, a.data, kit_count(&a) * sizeof(float));
        memcpy((float *)r.data + kit_count(&a), b.data, kit_count(&b) * sizeof(float));
    }
    TRY(kit_latent(c, c->in[0], samples, &c->out[0]));
    kiln_value *list = v->new_list(c->ctx);
    kiln_status status = list ? KILN_OK : KILN_ERR_NOMEM;
    for (int64_t i = 0, number; status == KILN_OK && i < a.dim[0] + b.dim[0]; i++) {
        int second = i >= a.dim[0];
        status = index_of(c, v->map_get(c->in[second], "batch_index"), second ? i - a.dim[0] : i, &number);
        if (status == KILN_OK) status = push_int(c, list, number);
    }
    return set_index(c, list, status);
}
const kiln_node node_latent_batch = {
    KIT_NODE("LatentBatch", "Latent Batch", "latent", "Two batches one after the other."),
    KILN_ARRAY(out, out),
    KILN_ARRAY(in, two),
    .run = latent_batch_run,
};

typedef struct {
    int32_t fixed;
} seed_params;
static const kiln_choice seed_choice[] = {
    {.name = "random", .value = 0, .doc = "Each picture has noise of its own."},
    {.name = "fixed", .value = 1, .doc = "All have the first one's."},
    {0},
};
static const kiln_param seed_param[] = {
    {.name = "seed_behavior",
     .type = KILN_P_ENUM,
     .offset = offsetof(seed_params, fixed),
     .def = 1,
     KILN_CHOICES(seed_choice),
     .doc = "Which noise the pictures of the batch get."},
};

static kiln_status latent_batch_seed_run(const kiln_call *c)
{
    const kiln_value_api *v = kit_values(c);
    const kiln_value *old = v->map_get(c->in[0], "batch_index");
    kiln_tensor a;
    int64_t number;
    TRY(kit_samples(c, c->in[0], &a));
    c->out[0] = v->map_copy(c->ctx, c->in[0]);
    if (!c->out[0]) return KILN_ERR_NOMEM;
    if (!((const seed_params *)c->params)->fixed) return v->map_set(c->out[0], "batch_index", NULL);
    TRY(index_of(c, old, 0, &number));
    kiln_value *list = v->new_list(c->ctx);
    kiln_status status = list ? KILN_OK : KILN_ERR_NOMEM;
    for (int64_t i = 0; status == KILN_OK && i < a.dim[0]; i++) status = push_int(c, list, number);
    return set_index(c, list, status);
}
const kiln_node node_latent_batch_seed = {
    KIT_NODE("LatentBatchSeedBehavior", "Latent Batch Seed Behavior", "latent",
             "Whether the pictures of a batch share one noise."),
    KILN_ARRAY(out, out),
    KILN_ARRAY(in, one),
    KIT_PARAMS(seed_params, seed_param),
    .run = latent_batch_seed_run,
};

/* ---- SetLatentNoiseMask ---- */

static const kiln_port mask_in[] = {
    {.name = "samples", .type = "LATENT", .doc = "What to change."},
    {.name = "mask", .type = "MASK", .doc = "1 where it is sampled anew, 0 where it stays."},
};

static kiln_status set_noise_mask_run(const kiln_call *c)
{
    kiln_value *latent = kit_values(c)->map_copy(c->ctx, c->in[0]);
    if (!latent) return KILN_ERR_NOMEM;
    c->out[0] = latent;
    return kit_values(c)->map_set(latent, "noise_mask", c->in[1]);
}
const kiln_node node_set_noise_mask = {
    KIT_NODE("SetLatentNoiseMask", "Set Latent Noise Mask", "latent", "Samples only where the mask is."),
    KILN_ARRAY(out, out),
    KILN_ARRAY(in, mask_in),
    .run = set_noise_mask_run,
};
