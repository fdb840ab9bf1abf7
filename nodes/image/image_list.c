/* image_list.c - between batches and lists of pictures. Names are ComfyUI's. */
#include "image.h"

#include "kiln/kit.h"

typedef struct {
    int64_t batch_size;
} rebatch_params;
static const kiln_param rebatch_param[] = {
    KIT_INT(rebatch_params, batch_size, 1, 1, 4096, "Pictures of each item; the last one has what is left.")};
static const kiln_port rebatch_in[] = {
    {.name = "images", .type = "IMAGE", .flags = KILN_PORT_LIST, .doc = "Pictures: batches, lists of batches."}};
static const kiln_port rebatch_out[] = {
    {.name = "IMAGE", .type = "IMAGE", .flags = KILN_PORT_LIST, .doc = "The same pictures, in batches of that size."}};

/* Where the next picture is: batch number `batch` of the list, its picture number `at`. */
typedef struct {
    const kiln_call *c;
    size_t batch;
    int64_t at;
} reader;

/* A window on the batch that has the next picture; batch beyond the list: there is none. */
static kiln_status next_batch(reader *r, kiln_tensor *out)
{
    const kiln_value_api *v = kit_values(r->c);
    for (; r->batch < v->count(r->c->in[0]); r->batch++, r->at = 0) {
        TRY(kit_f32(r->c, v->list_at(r->c->in[0], r->batch), 4, "images", out));
        if (r->at < out->dim[0]) return KILN_OK;
    }
    return KILN_OK;
}

static kiln_status count_images(const kiln_call *c, int64_t *total)
{
    const kiln_value_api *v = kit_values(c);
    kiln_tensor t;
    *total = 0;
    for (size_t i = 0; i < v->count(c->in[0]); i++) {
        TRY(kit_f32(c, v->list_at(c->in[0], i), 4, "images", &t));
        *total += t.dim[0];
    }
    return KILN_OK;
}

static int same_size(const kiln_tensor *a, const kiln_tensor *b)
{
    return a->dim[1] == b->dim[1] && a->dim[2] == b->dim[2] && a->dim[3] == b->dim[3];
}

/* The next n pictures as one batch; they have to be of one size. */
static kiln_status make_batch(reader *r, int64_t n, kiln_value **out)
{
    const kiln_call *c = r->c;
    kiln_tensor first, from, to;
    TRY(next_batch(r, &first));
    TRY(kit_new_f32(c, 4, (const int64_t[]){n, first.dim[1], first.dim[2], first.dim[3]}, out, &to));
    size_t one = (size_t)(first.dim[1] * first.dim[2] * first.dim[3]);
    for (int64_t done = 0; done < n; done++, r->at++) {
        TRY(next_batch(r, &from));
        if (!same_size(&from, &first))
            return c->host->fail(c->ctx, KILN_ERR_INVALID,
                                 "pictures of %lldx%lld and of %lldx%lld cannot be of one batch; scale them to one "
                                 "size, or take batch_size 1",
                                 (long long)first.dim[2], (long long)first.dim[1], (long long)from.dim[2],
                                 (long long)from.dim[1]);
        if (!kit_estimating(c))
            memcpy((float *)to.data + (size_t)done * one, (const float *)from.data + (size_t)r->at * one,
                   one * sizeof(float));
    }
    return KILN_OK;
}

static kiln_status rebatch_run(const kiln_call *c)
{
    const kiln_value_api *v = kit_values(c);
    int64_t size = ((const rebatch_params *)c->params)->batch_size, left;
    reader r = {.c = c};
    TRY(count_images(c, &left));
    if (!(c->out[0] = v->new_list(c->ctx))) return KILN_ERR_NOMEM;
    for (; left > 0; left -= size) {
        kiln_value *batch = NULL;
        kiln_status status = make_batch(&r, left < size ? left : size, &batch);
        if (status == KILN_OK) status = v->list_push(c->out[0], batch);
        c->host->unref(batch);
        TRY(status);
        TRY(c->host->progress(c->ctx, 0, 0, "pictures"));
    }
    return KILN_OK;
}

const kiln_node node_rebatch_images = {
    KIT_NODE("RebatchImages", "Rebatch Images", "image/batch",
             "Pictures in batches of another size: 1 makes a list of single pictures, a large number one batch."),
    KILN_ARRAY(in, rebatch_in),
    KILN_ARRAY(out, rebatch_out),
    KIT_PARAMS(rebatch_params, rebatch_param),
    .run = rebatch_run,
};
