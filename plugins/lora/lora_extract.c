/* lora_extract.c - see lora_extract.h. A matrix, or a kernel with its inputs and places as columns, becomes up x down
 * by its largest singular values; then both are cut at the 0.99 quantile of all their numbers, on both sides, as
 * kohya's scripts and ComfyUI do it. */
#include "lora_extract.h"

#include "kiln/kit.h"
#include "lora_names.h"
#include "truncated_svd.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { FILE_NAME_CAPACITY = 700 };
static const double cut_quantile = 0.99;

/* A tensor of a set. */
typedef struct {
    const kiln_weight_info *info;
    const char *name; /* in the file, without its ending */
    float *data;
    size_t rows, columns; /* the first dimension, and all others */
} tensor;

/* ---- rows of the file ---- */

static kiln_status add_row(lora_extract *x, const char *name, const char *ending, uint32_t rank, const int64_t *dim,
                           const float *data)
{
    const kiln_host *host = x->call->host;
    size_t length = strlen(name) + strlen(ending) + 1;
    char *full = host->scratch(x->call->ctx, length, KILN_CPU);
    int64_t *shape = host->scratch(x->call->ctx, rank * sizeof *shape, KILN_CPU);
    if (!full || !shape) return KILN_ERR_NOMEM;
    snprintf(full, length, "%s%s", name, ending);
    memcpy(shape, dim, rank * sizeof *shape);
    if (x->n == x->capacity) {
        size_t more = 2 * x->capacity + 256;
        kiln_weight_row *grown = realloc(x->row, more * sizeof *grown);
        if (!grown) return KILN_ERR_NOMEM;
        x->row = grown, x->capacity = more;
    }
    x->row[x->n++] = (kiln_weight_row){
        .size = sizeof *x->row, .dtype = KILN_F16, .name = full, .rank = rank, .dim = shape, .data = data};
    return KILN_OK;
}

void lora_extract_free(lora_extract *x)
{
    free(x->row);
    x->row = NULL;
    x->n = x->capacity = 0;
}

/* ---- products ---- */

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return x < y ? -1 : x > y;
}

/* The numbers are cut where torch.quantile(.., 0.99) of them lies, and as far below 0. */
static kiln_status cut(float *up, size_t n_up, float *down, size_t n_down)
{
    size_t n = n_up + n_down;
    float *all = malloc(n * sizeof *all);
    if (!all) return KILN_ERR_NOMEM;
    memcpy(all, up, n_up * sizeof *all);
    memcpy(all + n_up, down, n_down * sizeof *all);
    qsort(all, n, sizeof *all, by_value);
    double at = cut_quantile * (double)(n - 1);
    size_t below = (size_t)at;
    float next = all[below + 1 < n ? below + 1 : below];
    float most = (float)((double)all[below] + (at - (double)below) * ((double)next - (double)all[below]));
    free(all);
    for (size_t i = 0; i < n_up; i++) up[i] = fminf(fmaxf(up[i], -most), most);
    for (size_t i = 0; i < n_down; i++) down[i] = fminf(fmaxf(down[i], -most), most);
    return KILN_OK;
}

static kiln_status add_product(lora_extract *x, const tensor *t)
{
    const kiln_host *host = x->call->host;
    const kiln_weight_info *i = t->info;
    size_t inputs = (size_t)i->dim[1], rank = x->rank;
    rank = rank < t->rows ? rank : t->rows;
    rank = rank < inputs ? rank : inputs;
    float *up = host->scratch(x->call->ctx, t->rows * rank * sizeof *up, KILN_CPU),
          *down = host->scratch(x->call->ctx, rank * t->columns * sizeof *down, KILN_CPU);
    if (!up || !down) return KILN_ERR_NOMEM;
    TRY(truncated_svd_compute(x->call, &(truncated_svd){t->data, t->rows, t->columns, rank, up, down}));
    if (x->cuts) TRY(cut(up, t->rows * rank, down, rank * t->columns));
    int64_t of_up[KILN_MAX_RANK] = {i->dim[0], (int64_t)rank}, of_down[KILN_MAX_RANK];
    memcpy(of_down, i->dim, i->rank * sizeof *of_down);
    of_down[0] = (int64_t)rank;
    for (uint32_t k = 2; k < i->rank; k++) of_up[k] = 1;
    TRY(add_row(x, t->name, ".lora_up.weight", i->rank, of_up, up));
    return add_row(x, t->name, ".lora_down.weight", i->rank, of_down, down);
}

/* ---- tensors ---- */

static kiln_status add_whole(lora_extract *x, const tensor *t, const char *ending)
{
    size_t n = t->rows * t->columns;
    float *data = x->call->host->scratch(x->call->ctx, n * sizeof *data, KILN_CPU);
    if (!data) return KILN_ERR_NOMEM;
    memcpy(data, t->data, n * sizeof *data);
    return add_row(x, t->name, ending, t->info->rank, t->info->dim, data);
}

/* Ends with a dot and this. */
static size_t stem_of(const char *name, const char *last)
{
    size_t n = strlen(name), k = strlen(last);
    return n > k + 1 && name[n - k - 1] == '.' && strcmp(name + n - k, last) == 0 ? n - k - 1 : 0;
}

static int is_zero(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (x[i] != 0) return 0;
    return 1;
}

static kiln_status add_numbers(lora_extract *x, const tensor *t, int is_bias)
{
    if (is_zero(t->data, t->rows * t->columns)) return KILN_OK;
    if (is_bias) return add_whole(x, t, ".diff_b");
    return x->whole || t->info->rank < 2 ? add_whole(x, t, ".diff") : add_product(x, t);
}

static kiln_status add_tensor(lora_extract *x, kiln_weights *set, const kiln_weight_info *info, const char *name,
                              int is_bias)
{
    const kiln_weights_api *w = x->call->host->ability(KILN_WEIGHTS_ABILITY);
    tensor t = {.info = info, .name = name, .rows = (size_t)info->dim[0], .columns = 1};
    for (uint32_t i = 1; i < info->rank; i++) t.columns *= (size_t)info->dim[i];
    if (!(t.data = malloc((t.rows * t.columns + 1) * sizeof *t.data))) return KILN_ERR_NOMEM;
    kiln_status status = w->read_f32(x->call->ctx, set, info->name, t.data);
    if (status == KILN_OK) status = add_numbers(x, &t, is_bias);
    free(t.data);
    return status;
}

/* ---- sets ---- */

/* A module's name in the file; 0: it is too long. */
typedef int name_fn(const void *self, const char *module, char out[FILE_NAME_CAPACITY]);

static kiln_status add_set(lora_extract *x, kiln_weights *set, name_fn *called, const void *self)
{
    const kiln_weights_api *w = x->call->host->ability(KILN_WEIGHTS_ABILITY);
    size_t count = w->count(set);
    for (size_t i = 0; i < count; i++) {
        kiln_weight_info info = {.size = sizeof info};
        char module[LORA_NAME_CAPACITY], name[FILE_NAME_CAPACITY];
        TRY(w->at(set, i, &info));
        TRY(x->call->host->progress(x->call->ctx, i, count, "extracting"));
        size_t weight = stem_of(info.name, "weight"), bias = stem_of(info.name, "bias"), n = weight ? weight : bias;
        int flat = bias || info.rank < 2;
        if (!n || n >= sizeof module || info.rank < 1 || (flat && !x->biases)) continue;
        snprintf(module, sizeof module, "%.*s", (int)n, info.name);
        if (called(self, module, name)) TRY(add_tensor(x, set, &info, name, bias != 0));
    }
    return KILN_OK;
}

static int denoiser_name(const void *self, const char *module, char out[FILE_NAME_CAPACITY])
{
    const lora_blocks *b = self;
    char ldm[LORA_NAME_CAPACITY];
    int known = lora_single_name(b, module, ldm);
    return snprintf(out, FILE_NAME_CAPACITY, "diffusion_model.%s", known ? ldm : module) < FILE_NAME_CAPACITY;
}

kiln_status lora_extract_denoiser(lora_extract *x, kiln_weights *difference)
{
    lora_blocks blocks = lora_blocks_of(x->call->host->ability(KILN_WEIGHTS_ABILITY), difference);
    return add_set(x, difference, denoiser_name, &blocks);
}

static int encoder_name(const void *self, const char *module, char out[FILE_NAME_CAPACITY])
{
    const char *encoder = self;
    int clip = strlen(encoder) == 1;
    return snprintf(out, FILE_NAME_CAPACITY, "text_encoders.%s%s.transformer.%s", clip ? "clip_" : "", encoder,
                    module) < FILE_NAME_CAPACITY;
}

kiln_status lora_extract_encoder(lora_extract *x, const char *encoder, kiln_weights *difference)
{
    return add_set(x, difference, encoder_name, encoder);
}
