/* latent_frames.c - EmptySD3LatentImage; LatentCutToBatch, ReplaceVideoLatentFrames: cuts along an axis become pictures
 * of a batch, frames others. Names, inputs and defaults are ComfyUI's.
 */
#include "latent.h"

#include "kiln/kit.h"

#include <stdio.h>
#include <string.h>

static const kiln_port out[] = {{.name = "LATENT", .type = "LATENT", .doc = "The new latent."}};

/* ---- EmptySD3LatentImage ---- */

typedef struct {
    int64_t width, height, batch_size;
} empty_params;
#define SIDE(field_)                                                                                                   \
    {                                                                                                                  \
        .name = #field_, .type = KILN_P_INT, .flags = KILN_PARAM_FLOORED, .offset = offsetof(empty_params, field_),    \
        .def = 1024, .min = 16, .max = 16384, .step = 8, .doc = "Pixels; an eighth of it in cells."                    \
    }
static const kiln_param empty_param[] = {SIDE(width), SIDE(height),
                                         KIT_INT(empty_params, batch_size, 1, 1, 4096, "Pictures.")};

static kiln_status empty_run(const kiln_call *c)
{
    const empty_params *p = c->params;
    kiln_value *samples;
    kiln_tensor t;
    TRY(kit_new_f32(c, 4, (const int64_t[]){p->batch_size, p->height / 8, p->width / 8, 16}, &samples, &t));
    if (!kit_estimating(c)) memset(t.data, 0, kit_count(&t) * sizeof(float));
    return kit_latent(c, NULL, samples, &c->out[0]);
}
const kiln_node node_empty_sd3_latent = {
    KIT_NODE("EmptySD3LatentImage", "Empty SD3 Latent Image", "latent",
             "A latent of zeros with 16 channels for a picture of this size."),
    KILN_ARRAY(out, out),
    KIT_PARAMS(empty_params, empty_param),
    .run = empty_run,
};

/* ---- LatentCutToBatch ---- */

enum { ALONG_T, ALONG_X, ALONG_Y };
typedef struct {
    int32_t dim;
    int64_t slice_size;
} slice_params;
static const kiln_choice dim_choice[] = {{.name = "t", .value = ALONG_T, .doc = "Frames of a video."},
                                         {.name = "x", .value = ALONG_X, .doc = "Columns."},
                                         {.name = "y", .value = ALONG_Y, .doc = "Rows."},
                                         {0}};
static const kiln_param slice_param[] = {
    KIT_ENUM(slice_params, dim, dim_choice, ALONG_T, "What is cut."),
    KIT_INT(slice_params, slice_size, 1, 1, 16384, "Frames or cells of a slice; what is left over goes."),
};
static const kiln_port slice_in[] = {{.name = "samples", .type = "LATENT", .doc = "What to cut."}};

/* The axis of samples [N,(T,)H,W,C]; 0: they have none such. */
static uint32_t axis_of(const kiln_tensor *t, int32_t dim)
{
    if (dim == ALONG_X) return t->rank - 2;
    if (t->rank < 4) return 0; /* a sound has no rows */
    return dim == ALONG_Y ? t->rank - 3 : t->rank > 4 ? 1 : 0;
}

/* to[(i, k)] = slice k of picture i. */
static void cut(const kiln_tensor *t, uint32_t axis, int64_t slice, int64_t slices, float *to)
{
    size_t before = 1, behind = 1, n = (size_t)t->dim[axis];
    for (uint32_t i = 1; i < axis; i++) before *= (size_t)t->dim[i];
    for (uint32_t i = axis + 1; i < t->rank; i++) behind *= (size_t)t->dim[i];
    size_t run = (size_t)slice * behind;
    for (int64_t i = 0; i < t->dim[0]; i++)
        for (int64_t k = 0; k < slices; k++)
            for (size_t b = 0; b < before; b++, to += run)
                memcpy(to, (const float *)t->data + (((size_t)i * before + b) * n + (size_t)(k * slice)) * behind,
                       run * sizeof *to);
}

static kiln_status slice_run(const kiln_call *c)
{
    const slice_params *p = c->params;
    kiln_tensor t, r;
    kiln_value *samples;
    int64_t dim[LATENT_RANK_MAX];
    TRY(kit_samples(c, c->in[0], &t));
    uint32_t axis = axis_of(&t, p->dim);
    if (!axis || t.dim[axis] == 0) {
        c->out[0] = c->host->ref(c->in[0]);
        return KILN_OK;
    }
    int64_t slice = p->slice_size < t.dim[axis] ? p->slice_size : t.dim[axis], slices = t.dim[axis] / slice;
    memcpy(dim, t.dim, t.rank * sizeof *dim);
    dim[0] *= slices, dim[axis] = slice;
    TRY(kit_new_f32(c, t.rank, dim, &samples, &r));
    if (!kit_estimating(c)) cut(&t, axis, slice, slices, r.data);
    return kit_latent(c, c->in[0], samples, &c->out[0]);
}
const kiln_node node_latent_cut_to_batch = {
    KIT_NODE("LatentCutToBatch", "Latent Cut to Batch", "latent", "Cuts a latent into slices, which become a batch."),
    KILN_ARRAY(in, slice_in),
    KILN_ARRAY(out, out),
    KIT_PARAMS(slice_params, slice_param),
    .run = slice_run,
};

/* ---- ReplaceVideoLatentFrames ---- */

typedef struct {
    int64_t index;
} replace_params;
static const kiln_param replace_param[] = {
    KIT_INT(replace_params, index, 0, -16384, 16384, "The first frame that is replaced; negative counts from the end."),
};
static const kiln_port replace_in[] = {
    {.name = "destination", .type = "LATENT", .doc = "The video."},
    {.name = "source", .type = "LATENT", .flags = KILN_PORT_OPTIONAL, .doc = "The frames that go into it."},
};

static kiln_status check_frames(const kiln_call *c, const kiln_tensor *a, const kiln_tensor *b)
{
    char one[LATENT_SIZE_MAX], other[LATENT_SIZE_MAX];
    if (a->rank != 5 || b->rank != 5)
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "%s has no frames: this is done to videos",
                             a->rank != 5 ? "destination" : "source");
    if (a->dim[0] == b->dim[0] && memcmp(a->dim + 2, b->dim + 2, 3 * sizeof *a->dim) == 0) return KILN_OK;
    return c->host->fail(c->ctx, KILN_ERR_INVALID, "destination is %s and source %s; they differ in more than frames",
                         latent_size_text(a, one), latent_size_text(b, other));
}

static kiln_status unchanged(const kiln_call *c)
{
    c->out[0] = c->host->ref(c->in[0]);
    return KILN_OK;
}

static kiln_status replace_run(const kiln_call *c)
{
    int64_t index = ((const replace_params *)c->params)->index;
    kiln_tensor a, b, r;
    kiln_value *samples;
    if (!c->in[1]) return unchanged(c);
    TRY(kit_samples(c, c->in[0], &a));
    TRY(kit_samples(c, c->in[1], &b));
    TRY(check_frames(c, &a, &b));
    if (index < 0) index += a.dim[1];
    if (index < 0 || index + b.dim[1] > a.dim[1]) {
        char line[200];
        snprintf(line, sizeof line, "%lld frames do not fit into %lld from frame %lld on; nothing is replaced",
                 (long long)b.dim[1], (long long)a.dim[1], (long long)index);
        c->host->log(KILN_LOG_WARN, line);
        return unchanged(c);
    }
    TRY(kit_new_f32(c, 5, a.dim, &samples, &r));
    size_t frame = (size_t)(a.dim[2] * a.dim[3] * a.dim[4]);
    if (!kit_estimating(c)) {
        memcpy(r.data, a.data, kit_count(&a) * sizeof(float));
        for (int64_t i = 0; i < a.dim[0]; i++)
            memcpy((float *)r.data + (size_t)(i * a.dim[1] + index) * frame,
                   (const float *)b.data + (size_t)(i * b.dim[1]) * frame, (size_t)b.dim[1] * frame * sizeof(float));
    }
    return kit_latent(c, c->in[1], samples, &c->out[0]);
}
const kiln_node node_replace_video_frames = {
    KIT_NODE("ReplaceVideoLatentFrames", "Replace Video Latent Frames", "latent",
             "Puts frames of a video in the place of another's."),
    KILN_ARRAY(in, replace_in),
    KILN_ARRAY(out, out),
    KIT_PARAMS(replace_params, replace_param),
    .run = replace_run,
};
