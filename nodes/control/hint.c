/* hint.c - see hint.h. */
#include "hint.h"

/* One pixel of `from` channels, the first `colours` of them colours, as `to`. */
static void convert_pixel(const float *in, int64_t from, float *out, int64_t to)
{
    int64_t colours = from == 4 ? 3 : from;
    double sum = 0;
    for (int64_t k = 0; k < colours; k++) sum += (double)in[k];
    for (int64_t k = 0; k < to; k++) out[k] = colours == to ? in[k] : (float)(sum / (double)colours);
}

static int fits(int64_t from, int64_t to)
{
    int64_t colours = from == 4 ? 3 : from;
    return colours == to || colours == 1 || (to == 1 && colours == 3);
}

kiln_status hint_of(const kiln_call *c, kiln_value *image, int64_t channels, kiln_value **out)
{
    kiln_tensor from, to;
    TRY(kit_f32(c, image, 4, "image", &from));
    if (kit_count(&from) == 0) return c->host->fail(c->ctx, KILN_ERR_INVALID, "the control's image is empty");
    if (from.dim[3] == channels) {
        *out = c->host->ref(image);
        return KILN_OK;
    }
    if (!fits(from.dim[3], channels))
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "the control's image has %lld channels, and the control wants %lld",
                             (long long)from.dim[3], (long long)channels);
    TRY(kit_new_f32(c, 4, KILN_DIMS(from.dim[0], from.dim[1], from.dim[2], channels), out, &to));
    size_t pixels = kit_count(&from) / (size_t)from.dim[3];
    for (size_t i = 0; i < pixels && !kit_estimating(c); i++)
        convert_pixel((const float *)from.data + i * (size_t)from.dim[3], from.dim[3],
                      (float *)to.data + i * (size_t)channels, channels);
    return KILN_OK;
}
