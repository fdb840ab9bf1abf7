/* quantize.c - see quantize.h. What becomes of each tensor is planned first, the header follows from that; then tensors
 * go through one buffer, a piece at a time, and are rounded on all cores.
 */
#include "weights/quantize.h"

#include "base/arena.h"
#include "base/memory_alloc.h"
#include "base/str.h"
#include "tensor/block.h"
#include "weights/block_notes.h"
#include "weights/derived.h"
#include "weights/gguf_write.h"
#include "weights/safetensors_write.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 1 << 20, TASK = 1 << 14 }; /* elements: whole blocks of any type */

typedef struct {
    weights_entry *entry;
    uint32_t dtype; /* in the file */
    size_t count, bytes;
} planned;

typedef struct {
    const weights_sink *to;
    kiln_weights *w;
    const quantize_setting *s;
    quantize_report *report;
    planned *plan; /* as the set has them: by name */
    size_t n;
    arena memory;
    float *floats; /* PIECE, and again what was made of them */
    uint8_t *stored;
    uint64_t done, total;
    double off, all; /* sums of squares */
    error *e;
} job;

static kiln_status no_memory(const job *j) { return error_set(j->e, KILN_ERR_NOMEM, "%s: out of memory", j->w->path); }

/* ---- what becomes of a tensor ---- */

int quantize_matches(const char *pattern, const char *name)
{
    const char *star = NULL, *again = NULL;
    while (*name) {
        if (*pattern == '*') {
            star = pattern++;
            again = name;
        } else if (*pattern == *name) {
            pattern++, name++;
        } else if (star) {
            pattern = star + 1;
            name = ++again;
        } else {
            return 0;
        }
    }
    while (*pattern == '*') pattern++;
    return *pattern == '\0';
}

static int is_kept(const quantize_setting *s, const char *name)
{
    for (size_t i = 0; i < s->n_keep; i++)
        if (quantize_matches(s->keep[i], name)) return 1;
    return 0;
}

static int is_float(uint32_t dtype)
{
    return dtype == KILN_F32 || dtype == KILN_F16 || dtype == KILN_BF16 || dtype == KILN_F64 || dtype_is_f8(dtype) ||
           dtype_is_block(dtype);
}

uint32_t quantize_fallback(uint32_t dtype)
{
    static const uint32_t rows[][2] = {{KILN_Q2_K, KILN_IQ4_NL}, {KILN_Q3_K, KILN_IQ4_NL}, {KILN_Q4_K, KILN_Q5_0},
                                       {KILN_Q5_K, KILN_Q5_1},   {KILN_Q6_K, KILN_Q8_0},   {KILN_IQ4_XS, KILN_IQ4_NL},
                                       {KILN_NVFP4, KILN_MXFP4}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i][0] == dtype) return rows[i][1];
    return dtype;
}

static uint32_t dtype_of(const quantize_setting *s, const weights_entry *x)
{
    size_t n = weights_count_of(x), row = x->rank && x->dim[0] ? n / (size_t)x->dim[0] : 0;
    int matrix = x->rank >= 2 && row > 1 && n >= QUANTIZE_LEAST && is_float(x->dtype) && !is_kept(s, x->name);
    if (matrix && row % dtype_block(s->dtype) == 0) return s->dtype;
    if (matrix && row % dtype_block(quantize_fallback(s->dtype)) == 0) return quantize_fallback(s->dtype);
    if (s->gguf && dtype_is_f8(x->dtype)) return KILN_F16;
    return x->transposed && dtype_is_block(x->dtype) ? KILN_F32 : x->dtype;
}

static kiln_status plan_all(job *j)
{
    kiln_weights *w = j->w;
    if (!(j->plan = mem_calloc(w->n + 1, sizeof *j->plan))) return no_memory(j);
    for (; j->n < w->n; j->n++) {
        weights_entry *x = &w->entry[j->n];
        planned *p = &j->plan[j->n];
        TRY(weights_usable(x, j->e));
        *p = (planned){.entry = x, .dtype = dtype_of(j->s, x), .count = weights_count_of(x)};
        if (!dtype_bytes(p->dtype, p->count, &p->bytes))
            return error_set(j->e, KILN_ERR_INVALID, "%s: tensor '%.200s' is too large", w->path, x->name);
        j->total += j->s->gguf ? gguf_padded(p->bytes) : p->bytes;
        int rounded = dtype_is_block(p->dtype) && p->dtype != x->dtype;
        j->report->asked += rounded && p->dtype == j->s->dtype;
        j->report->instead += rounded && p->dtype != j->s->dtype;
        j->report->kept += !rounded;
        j->report->after += p->bytes;
    }
    return KILN_OK;
}

/* ---- headers ---- */

static int was_of_a_file_format(const char *key)
{
    static const char *const ours[] = {"split.", "comfy.gguf.orig_shape.", "general.alignment", "kiln.block.",
                                       "format"};
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        if (strncmp(key, ours[i], strlen(ours[i])) == 0 &&
            (ours[i][strlen(ours[i]) - 1] == '.' || !key[strlen(ours[i])]))
            return 1;
    return 0;
}

static size_t count_values(const kiln_weights *w)
{
    const weights_file *f;
    size_t n = 0;
    for (size_t i = 0; (f = weights_nth_file(w, i)); i++) n += f->gguf.n_pair ? f->gguf.n_pair : f->header.n_note;
    return n;
}

/* The set's own values; of several files the first one's where keys are equal. */
static size_t take_values(const kiln_weights *w, gguf_value_source *value)
{
    const weights_file *f;
    size_t n = 0;
    for (size_t i = 0; (f = weights_nth_file(w, i)); i++) {
        for (size_t k = 0; k < f->gguf.n_pair; k++)
            value[n++] = (gguf_value_source){.key = f->gguf.pair[k].key, .pair = &f->gguf.pair[k]};
        for (size_t k = 0; !f->gguf.n_pair && k < f->header.n_note; k++)
            value[n++] = (gguf_value_source){.key = f->header.note[k].key, .text = f->header.note[k].value};
    }
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (!was_of_a_file_format(value[i].key) && value[i].key[0]) value[kept++] = value[i];
    return kept;
}

static kiln_status head_of_gguf(job *j, str *head)
{
    static const uint8_t two[4] = {2};
    static const gguf_pair version = {
        .key = "general.quantization_version", .type = GGUF_U32, .count = 1, .data = two, .bytes = 4};
    gguf_tensor *tensor = arena_alloc(&j->memory, (j->n + 1) * sizeof *tensor);
    gguf_value_source *value = arena_alloc(&j->memory, (count_values(j->w) + 3) * sizeof *value);
    size_t m = 0;
    if (!tensor || !value) return no_memory(j);
    for (size_t i = 0; i < j->n; i++)
        tensor[i] =
            (gguf_tensor){j->plan[i].entry->name, j->plan[i].dtype, j->plan[i].entry->rank, j->plan[i].entry->dim};
    if (j->s->architecture) value[m++] = (gguf_value_source){.key = "general.architecture", .text = j->s->architecture};
    value[m++] = (gguf_value_source){.key = version.key, .pair = &version};
    m += take_values(j->w, value + m);
    return gguf_head(head, tensor, j->n, value, m, j->e);
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const safetensors_remark *)a)->key, ((const safetensors_remark *)b)->key);
}

static char *keep_text(job *j, str *s)
{
    char *text = s->failed ? NULL : arena_strdup(&j->memory, str_text(s));
    str_free(s);
    return text;
}

/* The file's notes without those of its format, and a line for each tensor of blocks. */
static kiln_status remarks_of(job *j, safetensors_remark *remark, size_t *n)
{
    const char *key, *value;
    for (size_t i = 0; weights_note_at(j->w, i, &key, &value); i++)
        if (!was_of_a_file_format(key) && strlen(key) <= SAFETENSORS_NAME_MAX)
            remark[(*n)++] = (safetensors_remark){key, value};
    for (size_t i = 0; i < j->n; i++) {
        const planned *p = &j->plan[i];
        str k = {0}, v = {0};
        if (!dtype_is_block(p->dtype)) continue;
        block_note(&k, &v, p->entry->name, p->dtype, p->entry->rank, p->entry->dim);
        char *name = keep_text(j, &k), *what = keep_text(j, &v);
        if (!name || !what) return no_memory(j);
        remark[(*n)++] = (safetensors_remark){name, what};
    }
    if (*n) qsort(remark, *n, sizeof *remark, by_key);
    size_t kept = 0;
    for (size_t i = 0; i < *n; i++)
        if (kept == 0 || strcmp(remark[kept - 1].key, remark[i].key) != 0) remark[kept++] = remark[i];
    *n = kept;
    return KILN_OK;
}

/* Puts the plan into the order of the file. */
static kiln_status head_of_safetensors(job *j, str *head)
{
    const char *key, *value;
    size_t n = 0, notes = 0;
    while (weights_note_at(j->w, notes, &key, &value)) notes++;
    safetensors_source *source = arena_alloc(&j->memory, (j->n + 1) * sizeof *source);
    safetensors_remark *remark = arena_alloc(&j->memory, (notes + j->n + 1) * sizeof *remark);
    planned *sorted = mem_calloc(j->n + 1, sizeof *sorted);
    kiln_status status = source && remark && sorted ? remarks_of(j, remark, &n) : no_memory(j);
    for (size_t i = 0; i < j->n && status == KILN_OK; i++) {
        const planned *p = &j->plan[i];
        int64_t *dim = arena_alloc(&j->memory, 2 * sizeof *dim);
        if (!dim) status = no_memory(j);
        source[i] = (safetensors_source){p->entry->name, p->dtype, p->entry->rank, p->entry->dim, p};
        if (!dim || !dtype_is_block(p->dtype)) continue;
        dim[0] = p->entry->dim[0];
        if (p->count / (size_t)dim[0] % dtype_block(p->dtype)) dim[0] = (int64_t)(p->count / dtype_block(p->dtype));
        dim[1] = (int64_t)p->bytes / dim[0];
        source[i].dtype = KILN_U8, source[i].rank = 2, source[i].dim = dim;
    }
    if (status == KILN_OK) status = safetensors_head(head, source, j->n, remark, n, j->e);
    for (size_t i = 0; i < j->n && status == KILN_OK; i++) sorted[i] = *(const planned *)source[i].data;
    if (status == KILN_OK) memcpy(j->plan, sorted, j->n * sizeof *sorted);
    mem_free(sorted);
    return status;
}

/* ---- tensors ---- */

static kiln_status put(job *j, const void *bytes, size_t n)
{
    TRY(j->to->write(j->to->self, bytes, n));
    j->done += n;
    return j->to->progress(j->to->self, j->done, j->total);
}

typedef struct {
    job *j;
    const planned *p;
    size_t n;
    double off[PIECE / TASK], all[PIECE / TASK];
} rounding;

static void round_task(void *arg, size_t i)
{
    rounding *r = arg;
    size_t first = i * TASK, n = r->n - first < TASK ? r->n - first : TASK;
    const float *from = r->j->floats + first;
    float *back = r->j->floats + PIECE + first;
    uint8_t *to = r->j->stored + first / dtype_block(r->p->dtype) * dtype_block_bytes(r->p->dtype);
    block_write(r->p->dtype, from, to, n);
    block_read_f32(r->p->dtype, to, back, n);
    for (size_t k = 0; k < n; k++) {
        double off = (double)back[k] - (double)from[k];
        r->off[i] += off * off;
        r->all[i] += (double)from[k] * (double)from[k];
    }
}

static kiln_status cannot_hold(const job *j, const planned *p, int was)
{
    if (was)
        return error_set(j->e, KILN_ERR_INVALID, "%s: tensor '%.200s' holds a NaN or infinity; nothing is written",
                         j->w->path, p->entry->name);
    return error_set(j->e, KILN_ERR_INVALID,
                     "%s: tensor '%.200s' has a number that is too large for %s; keep it as it is (--keep), nothing is "
                     "written",
                     j->w->path, p->entry->name, dtype_name(p->dtype));
}

/* n elements at j->floats, rounded. */
static kiln_status put_blocks(job *j, const planned *p, size_t n, double *off, double *all)
{
    rounding *r = mem_calloc(1, sizeof *r);
    if (!r) return no_memory(j);
    r->j = j, r->p = p, r->n = n;
    pool_for(j->to->pool, (n + TASK - 1) / TASK, round_task, r);
    for (size_t i = 0; i < (n + TASK - 1) / TASK; i++) *off += r->off[i], *all += r->all[i];
    mem_free(r);
    if (block_first_nonfinite(p->dtype, j->stored, n) * dtype_block(p->dtype) != n) return cannot_hold(j, p, 0);
    return put(j, j->stored, n / dtype_block(p->dtype) * dtype_block_bytes(p->dtype));
}

static kiln_status put_numbers(job *j, const planned *p, size_t n)
{
    TRY(dtype_convert(j->stored, p->dtype, j->floats, KILN_F32, n));
    if (weights_first_nonfinite_of(p->dtype, j->stored, n) < n) return cannot_hold(j, p, 0);
    return put(j, j->stored, n * dtype_size(p->dtype));
}

/* Elements that are read together: where a part would cost as much as the whole, all. */
static size_t step_of(const planned *p)
{
    return weights_reads_by_parts(p->entry) || p->count < PIECE ? PIECE : p->count;
}

static kiln_status put_computed(job *j, const planned *p, const float *from, size_t n, double *off, double *all)
{
    for (size_t i = 0; i < n; i += PIECE) {
        size_t m = n - i < PIECE ? n - i : PIECE;
        if (from != j->floats) memcpy(j->floats, from + i, m * sizeof *from);
        if (weights_first_nonfinite(j->floats, m) < m) return cannot_hold(j, p, 1);
        TRY(dtype_is_block(p->dtype) ? put_blocks(j, p, m, off, all) : put_numbers(j, p, m));
    }
    return KILN_OK;
}

static kiln_status put_read(job *j, const planned *p, double *off, double *all)
{
    size_t step = step_of(p);
    float *whole = step > PIECE ? mem_alloc(step * sizeof *whole) : j->floats;
    kiln_status status = whole ? KILN_OK : no_memory(j);
    for (size_t i = 0; i < p->count && status == KILN_OK; i += step) {
        size_t n = p->count - i < step ? p->count - i : step;
        status = weights_read_range(p->entry, (weights_access){0}, i, n, whole, j->to->pool, j->e);
        if (status == KILN_OK) status = put_computed(j, p, whole, n, off, all);
    }
    if (whole != j->floats) mem_free(whole);
    return status;
}

static kiln_status put_raw(job *j, const planned *p)
{
    TRY(weights_scan_bytes(p->entry, weights_data(p->entry), NULL, j->e));
    for (size_t i = 0; i < p->bytes; i += PIECE)
        TRY(put(j, weights_data(p->entry) + i, p->bytes - i < PIECE ? p->bytes - i : PIECE));
    return KILN_OK;
}

static void note_error(job *j, const planned *p, double off, double all)
{
    double one = all > 0 ? sqrt(off / all) : 0;
    j->off += off, j->all += all;
    if (j->report->worst_name && one <= j->report->worst) return;
    if (!dtype_is_block(p->dtype)) return;
    j->report->worst = one;
    j->report->worst_name = p->entry->name;
}

/* That the file is still the one that was opened is asked before a fault found in its bytes is reported. */
static kiln_status put_tensor(job *j, const planned *p)
{
    static const uint8_t zeros[GGUF_ALIGNMENT];
    const weights_entry *x = p->entry;
    int raw = !weights_is_computed(x) && !x->transposed && x->dtype == p->dtype;
    error why = {0}, *e = j->e;
    double off = 0, all = 0;
    j->e = &why;
    kiln_status status = raw ? put_raw(j, p) : put_read(j, p, &off, &all);
    j->e = e;
    TRY(weights_unchanged(j->w, x->name, e));
    if (status != KILN_OK) return error_set(e, status, "%s", why.message);
    if (!raw) note_error(j, p, off, all);
    weights_release_pages(j->w, x->name);
    return j->s->gguf ? put(j, zeros, gguf_padded(p->bytes) - p->bytes) : KILN_OK;
}

static kiln_status write_all(job *j)
{
    str head = {0};
    TRY(plan_all(j));
    j->floats = mem_alloc(2 * PIECE * sizeof *j->floats);
    j->stored = mem_alloc(PIECE * sizeof(double));
    kiln_status status = j->floats && j->stored ? KILN_OK : no_memory(j);
    if (status == KILN_OK) status = j->s->gguf ? head_of_gguf(j, &head) : head_of_safetensors(j, &head);
    j->total += head.len;
    if (status == KILN_OK) status = put(j, str_text(&head), head.len);
    str_free(&head);
    for (size_t i = 0; i < j->n && status == KILN_OK; i++) status = put_tensor(j, &j->plan[i]);
    return status;
}

kiln_status weights_quantize(const weights_sink *sink, kiln_weights *w, const quantize_setting *s, quantize_report *out,
                             error *e)
{
    *out = (quantize_report){0};
    job j = {.to = sink, .w = w, .s = s, .report = out, .e = e};
    kiln_weight_info info = {.size = sizeof info};
    if (!dtype_is_block(s->dtype))
        return error_set(e, KILN_ERR_INVALID, "%s is no type that is stored by blocks", dtype_name(s->dtype));
    for (size_t i = 0; weights_at(w, i, &info) == KILN_OK; i++) out->before += info.stored_bytes;
    kiln_status status = write_all(&j);
    out->error = j.all > 0 ? sqrt(j.off / j.all) : 0;
    mem_free(j.plan);
    mem_free(j.floats);
    mem_free(j.stored);
    arena_free(&j.memory);
    return status;
}
