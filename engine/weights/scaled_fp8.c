/* scaled_fp8.c - finds fp8 weights that are not the numbers they look like: those with a scale beside them.
 *
 * Plain fp8 is read as it is. In other files W = q * scale, and q alone would be drawn as noise. They are known by what
 * stands in the file beside "X.weight": "X.scale_weight" and a tensor "scaled_fp8" (ComfyUI), "X.weight_scale" and
 * "X.comfy_quant" (ComfyUI's later ones), "X.weight_scale_inv" (DeepSeek); or by __metadata__ "_quantization_metadata".
 */
#include "base/str.h"
#include "tensor/dtype.h"
#include "weights/set.h"

#include <string.h>

static const char marker[] = "scaled_fp8", note[] = "_quantization_metadata";

/* The tensor that says that all fp8 of the set is scaled, or the note that does; NULL: none. */
static const char *marker_of(const kiln_weights *w)
{
    for (size_t i = 0; i < w->n; i++) {
        const char *name = w->entry[i].name;
        size_t n = strlen(name), m = sizeof marker - 1;
        if (n >= m && strcmp(name + n - m, marker) == 0 && (n == m || strchr("./", name[n - m - 1]))) return name;
    }
    for (size_t i = 0; i < w->n_file; i++)
        for (size_t k = 0; k < w->file[i].header.n_note; k++)
            if (strcmp(w->file[i].header.note[k].key, note) == 0) return note;
    return NULL;
}

/* The scale beside "X.weight"; NULL: none. */
static kiln_status scale_beside(const kiln_weights *w, const char *name, const char **out, error *e)
{
    static const char *const scales[] = {"scale_weight", "weight_scale", "weight_scale_inv", "comfy_quant"};
    static const char ending[] = "weight";
    size_t n = strlen(name), m = sizeof ending - 1;
    *out = NULL;
    if (n < m || strcmp(name + n - m, ending) != 0) return KILN_OK;
    for (size_t i = 0; i < sizeof scales / sizeof scales[0] && !*out; i++) {
        str s = {0};
        str_append_n(&s, name, n - m);
        str_append(&s, scales[i]);
        const weights_entry *x = s.failed ? NULL : weights_entry_of(w, str_text(&s));
        int failed = s.failed;
        str_free(&s);
        if (failed) return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", w->path);
        if (x) *out = x->name;
    }
    return KILN_OK;
}

kiln_status set_mark_scaled(kiln_weights *w, error *e)
{
    const char *all = NULL;
    int looked = 0;
    for (size_t i = 0; i < w->n; i++) {
        weights_entry *x = &w->entry[i];
        if (!dtype_is_f8(x->dtype)) continue;
        if (!looked) all = marker_of(w), looked = 1;
        const char *scale = all;
        if (!all) TRY(scale_beside(w, x->name, &scale, e));
        if (!scale) continue;
        x->scale = scale;
        x->dtype = 0;
    }
    return KILN_OK;
}
