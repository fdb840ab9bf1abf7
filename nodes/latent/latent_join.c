/* latent_join.c - latents put beside one another or cut apart, along width, height or time: LatentConcat, LatentCut.
 *
 * Time is what lies before the height: of a sound it is not there, and of pictures neither. Names and what is made of
 * indices outside are ComfyUI's.
 */
#include "kiln/kit.h"
#include "latent.h"

#include <stdio.h>

static const kiln_port out[] = {{.name = "LATENT", .type = "LATENT", .doc = "The new latent."}};
static const kiln_port one[] = {{.name = "samples", .type = "LATENT", .doc = "What to cut."}};
static const kiln_port two[] = {
    {.name = "samples1", .type = "LATENT", .doc = "One."},
    {.name = "samples2", .type = "LATENT", .doc = "The other; repeated for as many pictures."},
};

const char *latent_size_text(const kiln_tensor *s, char text[LATENT_SIZE_MAX])
{
    const int64_t *d = s->dim;
    long long n = d[0], c = d[s->rank - 1];
    if (s->rank == 3)
        snprintf(text, LATENT_SIZE_MAX, "%lld of %lld cells, %lld channels", n, (long long)d[1], c);
    else if (s->rank == 4)
        snprintf(text, LATENT_SIZE_MAX, "%lld of %lldx%lld cells, %lld channels", n, (long long)d[2], (long long)d[1],
                 c);
    else
        snprintf(text, LATENT_SIZE_MAX, "%lld of %lld frames of %lldx%lld cells, %lld channels", n, (long long)d[1],
                 (long long)d[3], (long long)d[2], c);
    return text;
}

enum { ALONG_X, ALONG_Y, ALONG_T, BEFORE = 8 };
static const char *const axis_name[] = {"width", "height", "time"};

/* The dimension, from the left; 0: the latent has none of that kind. */
static uint32_t dimension(const kiln_tensor *t, int32_t along)
{
    int32_t from_right = (along & ~BEFORE) + 2; /* the last is the channels */
    return (int32_t)t->rank > from_right ? t->rank - (uint32_t)from_right : 0;
}

static kiln_status find_dimension(const kiln_call *c, const kiln_tensor *t, int32_t along, uint32_t *at)
{
    char text[LATENT_SIZE_MAX];
    *at = dimension(t, along);
    if (*at) return KILN_OK;
    return c->host->fail(c->ctx, KILN_ERR_INVALID, "the latent (%s) has no %s to go along; choose another dim",
                         latent_size_text(t, text), axis_name[along & ~BEFORE]);
}

/* Elements of what lies inside one step along dimension `at`. */
static int64_t inner(const kiln_tensor *t, uint32_t at)
{
    int64_t n = 1;
    for (uint32_t i = at + 1; i < t->rank; i++) n *= t->dim[i];
    return n;
}
static int64_t outer(const kiln_tensor *t, uint32_t at) { return (int64_t)kit_count(t) / (t->dim[at] * inner(t, at)); }

/* ---- LatentConcat ---- */

typedef struct {
    int32_t dim;
} concat_params;
static const kiln_choice concat_choice[] = {
    {.name = "x", .value = ALONG_X, .doc = "samples2 to the right."},
    {.name = "-x", .value = ALONG_X | BEFORE, .doc = "samples2 to the left."},
    {.name = "y", .value = ALONG_Y, .doc = "samples2 below."},
    {.name = "-y", .value = ALONG_Y | BEFORE, .doc = "samples2 above."},
    {.name = "t", .value = ALONG_T, .doc = "samples2 after."},
    {.name = "-t", .value = ALONG_T | BEFORE, .doc = "samples2 before."},
    {0},
};
static const kiln_param concat_param[] = {
    KIT_ENUM(concat_params, dim, concat_choice, ALONG_X, "Along what, and on which side.")};

static kiln_status check_join(const kiln_call *c, const kiln_tensor *a, const kiln_tensor *b, uint32_t at)
{
    char first[LATENT_SIZE_MAX], second[LATENT_SIZE_MAX];
    int same = a->rank == b->rank;
    for (uint32_t i = 1; same && i < a->rank; i++) same = i == at || a->dim[i] == b->dim[i];
    if (same) return KILN_OK;
    return c->host->fail(c->ctx, KILN_ERR_INVALID,
                         "samples1 is %s and samples2 %s; they have to be alike but for what they are joined along",
                         latent_size_text(a, first), latent_size_text(b, second));
}

static kiln_status concat_run(const kiln_call *c)
{
    int32_t along = ((const concat_params *)c->params)->dim;
    kiln_tensor a, b, r;
    kiln_value *samples;
    int64_t dim[LATENT_RANK_MAX];
    uint32_t at;
    TRY(kit_samples(c, c->in[0], &a));
    TRY(kit_samples(c, c->in[1], &b));
    TRY(find_dimension(c, &a, along, &at));
    TRY(check_join(c, &a, &b, at));
    memcpy(dim, a.dim, a.rank * sizeof *dim);
    dim[at] += b.dim[at];
    TRY(kit_new_f32(c, a.rank, dim, &samples, &r));
    int64_t of_a = a.dim[at] * inner(&a, at), of_b = b.dim[at] * inner(&b, at), rows_b = outer(&b, at);
    float *to = r.data;
    for (int64_t i = 0; !kit_estimating(c) && i < outer(&a, at); i++, to += of_a + of_b) {
        const float *from_b = (const float *)b.data + i % rows_b * of_b;
        memcpy(to + (along & BEFORE ? of_b : 0), (const float *)a.data + i * of_a, (size_t)of_a * sizeof *to);
        memcpy(to + (along & BEFORE ? 0 : of_a), from_b, (size_t)of_b * sizeof *to);
    }
    return kit_latent(c, c->in[0], samples, &c->out[0]);
}
const kiln_node node_latent_concat = {
    KIT_NODE("LatentConcat", "Latent Concat", "latent", "Two latents beside, above or after one another."),
    KILN_ARRAY(out, out),
    KILN_ARRAY(in, two),
    KIT_PARAMS(concat_params, concat_param),
    .run = concat_run,
};

/* ---- LatentCut ---- */

typedef struct {
    int32_t dim;
    int64_t index, amount;
} cut_params;
static const kiln_choice cut_choice[] = {
    {.name = "x", .value = ALONG_X}, {.name = "y", .value = ALONG_Y}, {.name = "t", .value = ALONG_T}, {0}};
static const kiln_param cut_param[] = {
    KIT_ENUM(cut_params, dim, cut_choice, ALONG_X, "Along what."),
    KIT_INT(cut_params, index, 0, -16384, 16384, "The first cell; negative counts from the end."),
    KIT_INT(cut_params, amount, 1, 1, 16384, "How many; fewer where there are no more."),
};

static kiln_status cut_run(const kiln_call *c)
{
    const cut_params *p = c->params;
    kiln_tensor a, r;
    kiln_value *samples;
    int64_t dim[LATENT_RANK_MAX];
    uint32_t at;
    TRY(kit_samples(c, c->in[0], &a));
    TRY(find_dimension(c, &a, p->dim, &at));
    int64_t n = a.dim[at], first = p->index >= 0 ? p->index : p->index + n;
    first = first < 0 ? 0 : first > n - 1 ? n - 1 : first;
    memcpy(dim, a.dim, a.rank * sizeof *dim);
    dim[at] = n - first < p->amount ? n - first : p->amount;
    TRY(kit_new_f32(c, a.rank, dim, &samples, &r));
    int64_t part = dim[at] * inner(&a, at), whole = n * inner(&a, at), skip = first * inner(&a, at);
    for (int64_t i = 0; !kit_estimating(c) && i < outer(&a, at); i++)
        memcpy((float *)r.data + i * part, (const float *)a.data + i * whole + skip, (size_t)part * sizeof(float));
    return kit_latent(c, c->in[0], samples, &c->out[0]);
}
const kiln_node node_latent_cut = {
    KIT_NODE("LatentCut", "Latent Cut", "latent", "A part of a latent along width, height or time."),
    KILN_ARRAY(out, out),
    KILN_ARRAY(in, one),
    KIT_PARAMS(cut_params, cut_param),
    .run = cut_run,
};
