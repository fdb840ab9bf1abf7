/* latent_file.c - SaveLatent and LoadLatent: a latent's samples as a .latent file, which is ComfyUI's: safetensors with
 * `latent_tensor` as [N,C,H,W] (videos [N,C,T,H,W], sounds [N,C,L]) and an empty `latent_format_version_0`; without
 * that one the numbers are those of an older program, times 0.18215.
 *
 * The header is read by jansson here and not as weights are: those have no empty tensors.
 */
#include "kiln/files.h"
#include "kiln/kit.h"
#include "latent.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { HEADER_MAX = 32 << 20, TEXT_KEYS = 2 };
#define OLD_SCALE (1 / 0.18215f)

/* ---- where channels are ---- */

/* Copies samples with the channels last to channels second, or back: inside a batch's item a transposed matrix. */
static void turn(const float *from, float *to, int64_t items, int64_t rows, int64_t columns)
{
    for (int64_t n = 0; n < items; n++)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t k = 0; k < columns; k++) to[(n * columns + k) * rows + i] = from[(n * rows + i) * columns + k];
}

/* ---- SaveLatent ---- */

typedef struct {
    const char *prefix;
} save_params;
static const kiln_param save_param[] = {{.name = "filename_prefix",
                                         .type = KILN_P_STRING,
                                         .offset = offsetof(save_params, prefix),
                                         .def_str = "latents/ComfyUI",
                                         .doc = "Start of the file name; may name a folder."}};
static const kiln_port save_in[] = {{.name = "samples", .type = "LATENT", .doc = "What is written."}};
static const kiln_port save_out[] = {{.name = "samples", .type = "LATENT", .doc = "The same."}};

/* Where -o FILE names the result: its ending has to be the one that is written. */
static kiln_status check_ending(const kiln_call *c, const char *own)
{
    const kiln_files_api *files = c->host->ability(KILN_FILES_ABILITY);
    const char *wanted = files->text(c->ctx, "extension");
    if (!wanted || strcasecmp(wanted, own) == 0) return KILN_OK;
    return c->host->fail(c->ctx, KILN_ERR_INVALID, "-o: its name ends in .%.20s, and this node writes .%s files",
                         wanted, own);
}

static kiln_status save_check(const kiln_call *c)
{
    const kiln_files_api *files = c->host->ability(KILN_FILES_ABILITY);
    TRY(check_ending(c, "latent"));
    return kit_at_param(c, files->check(c->ctx, ((const save_params *)c->params)->prefix), "filename_prefix");
}

/* The header's JSON, padded to eight bytes; the caller frees it. NULL: no memory. */
static char *header_of(const kiln_call *c, const kiln_tensor *a, size_t *n)
{
    static const char *const keys[TEXT_KEYS] = {"prompt", "kiln"};
    const kiln_files_api *files = c->host->ability(KILN_FILES_ABILITY);
    size_t bytes = kit_count(a) * sizeof(float);
    json_t *shape = json_array(), *notes = json_object();
    json_array_append_new(shape, json_integer(a->dim[0]));
    json_array_append_new(shape, json_integer(a->dim[a->rank - 1]));
    for (uint32_t i = 1; i + 1 < a->rank; i++) json_array_append_new(shape, json_integer(a->dim[i]));
    for (int i = 0; i < TEXT_KEYS; i++) {
        const char *text = files->text(c->ctx, keys[i]);
        if (text) json_object_set_new(notes, keys[i], json_stringn(text, strlen(text)));
    }
    json_t *root = json_pack("{s:o, s:{s:s, s:o, s:[I,I]}, s:{s:s, s:[i], s:[I,I]}}", "__metadata__", notes,
                             "latent_tensor", "dtype", "F32", "shape", shape, "data_offsets", (json_int_t)0,
                             (json_int_t)bytes, "latent_format_version_0", "dtype", "F32", "shape", 0, "data_offsets",
                             (json_int_t)bytes, (json_int_t)bytes);
    char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    *n = text ? (strlen(text) + 7) / 8 * 8 : 0;
    char *padded = text ? malloc(*n + 1) : NULL;
    if (padded) snprintf(padded, *n + 1, "%-*s", (int)*n, text);
    free(text);
    return padded;
}

static kiln_status write_file(const kiln_call *c, const kiln_tensor *a, kiln_file *f)
{
    const kiln_files_api *files = c->host->ability(KILN_FILES_ABILITY);
    int64_t channels = a->dim[a->rank - 1], cells = (int64_t)kit_count(a) / (a->dim[0] * channels);
    float *turned = c->host->scratch(c->ctx, kit_count(a) * sizeof *turned, KILN_CPU);
    uint8_t size[8];
    size_t n;
    if (!turned) return KILN_ERR_NOMEM;
    turn(a->data, turned, a->dim[0], cells, channels);
    char *header = header_of(c, a, &n);
    if (!header) return KILN_ERR_NOMEM;
    for (int i = 0; i < 8; i++) size[i] = (uint8_t)(n >> 8 * i);
    kiln_status status = files->write(f, size, sizeof size);
    if (status == KILN_OK) status = files->write(f, header, n);
    free(header);
    return status == KILN_OK ? files->write(f, turned, kit_count(a) * sizeof *turned) : status;
}

static kiln_status save_run(const kiln_call *c)
{
    const kiln_files_api *files = c->host->ability(KILN_FILES_ABILITY);
    kiln_tensor a;
    TRY(kit_samples(c, c->in[0], &a));
    c->out[0] = c->host->ref(c->in[0]);
    if (kit_estimating(c)) return KILN_OK;
    kiln_file *f = files->create(c->ctx, KILN_FILES_OUTPUT, ((const save_params *)c->params)->prefix, "latent");
    if (!f) return KILN_ERR_IO;
    TRY(write_file(c, &a, f));
    return files->commit(f, NULL);
}
const kiln_node node_save_latent = {
    KIT_NODE_FLAGS(
        KILN_NODE_OUTPUT | KILN_NODE_REENTRANT | KILN_NODE_ESTIMATES, 1, "SaveLatent", "Save Latent", "latent",
        "Writes a latent's samples as a .latent file that carries its workflow: safetensors with latent_tensor, "
        "f32 [N,C,H,W], and an empty latent_format_version_0."),
    KILN_ARRAY(in, save_in),
    KILN_ARRAY(out, save_out),
    KIT_PARAMS(save_params, save_param),
    .run = save_run,
    .check = save_check,
};

/* ---- LoadLatent ---- */

typedef struct {
    const char *latent;
} load_params;
static const kiln_param load_param[] = {{.name = "latent",
                                         .type = KILN_P_FILE,
                                         .flags = KILN_PARAM_REQUIRED,
                                         .offset = offsetof(load_params, latent),
                                         .from = "input",
                                         .doc = "A .latent file, below the workflow's folder or --input."}};
static const kiln_port load_out[] = {{.name = "LATENT", .type = "LATENT", .doc = "Its samples."}};

/* What a header says of the samples. */
typedef struct {
    int64_t dim[LATENT_RANK_MAX]; /* in kiln's order */
    uint32_t rank;
    uint64_t begin, bytes;
    int old;
} described;

static const char *read_header(const json_t *root, uint64_t data_bytes, described *out)
{
    const json_t *t = json_object_get(root, "latent_tensor"), *shape = json_object_get(t, "shape");
    const json_t *offsets = json_object_get(t, "data_offsets");
    const char *dtype = json_string_value(json_object_get(t, "dtype"));
    uint64_t n = sizeof(float);
    if (!t) return "it has no 'latent_tensor'";
    if (!dtype || strcmp(dtype, "F32") != 0) return "its numbers are no F32";
    if (json_array_size(shape) < 3 || json_array_size(shape) > LATENT_RANK_MAX)
        return "it does not have 3 to 5 dimensions";
    out->rank = (uint32_t)json_array_size(shape);
    for (uint32_t i = 0; i < out->rank; i++) {
        int64_t d = json_integer_value(json_array_get(shape, i));
        if (d < 1 || d > 1 << 24 || n > data_bytes / (uint64_t)d) return "its shape does not fit into the file";
        n *= (uint64_t)d;
        out->dim[i == 1 ? out->rank - 1 : i > 1 ? i - 1 : 0] = d;
    }
    int64_t begin = json_integer_value(json_array_get(offsets, 0)),
            end = json_integer_value(json_array_get(offsets, 1));
    if (begin < 0 || end < begin || (uint64_t)(end - begin) != n || (uint64_t)end > data_bytes)
        return "its data does not fit into the file";
    out->begin = (uint64_t)begin, out->bytes = n;
    out->old = !json_object_get(root, "latent_format_version_0");
    return NULL;
}

/* Why not, or NULL. *data_at: where the data begins. */
static const char *open_latent(FILE *f, described *out, long *data_at)
{
    struct stat st;
    uint8_t head[8];
    uint64_t n = 0;
    if (fstat(fileno(f), &st) != 0 || !S_ISREG(st.st_mode) || fread(head, 1, 8, f) != 8) return "it is too short";
    for (int i = 8; i-- > 0;) n = n << 8 | head[i];
    if (n > HEADER_MAX || n > (uint64_t)st.st_size - 8) return "its header does not fit into the file";
    char *text = malloc((size_t)n + 1);
    if (!text) return "out of memory";
    json_t *root = fread(text, 1, (size_t)n, f) == n ? json_loadb(text, (size_t)n, 0, NULL) : NULL;
    free(text);
    const char *why =
        json_is_object(root) ? read_header(root, (uint64_t)st.st_size - 8 - n, out) : "its header is no JSON";
    json_decref(root);
    *data_at = (long)(8 + n);
    return why;
}

static kiln_status read_samples(const kiln_call *c, FILE *f, const described *d, long data_at)
{
    kiln_value *samples;
    kiln_tensor r;
    int64_t channels = d->dim[d->rank - 1], cells = (int64_t)(d->bytes / sizeof(float)) / (d->dim[0] * channels);
    TRY(kit_new_f32(c, d->rank, d->dim, &samples, &r));
    kiln_status status = KILN_OK;
    if (!kit_estimating(c)) {
        float *raw = c->host->scratch(c->ctx, d->bytes, KILN_CPU);
        if (!raw) status = KILN_ERR_NOMEM;
        if (raw && (fseek(f, data_at + (long)d->begin, SEEK_SET) != 0 || fread(raw, 1, d->bytes, f) != d->bytes))
            status = c->host->fail(c->ctx, KILN_ERR_IO, "the samples cannot be read");
        if (status == KILN_OK) turn(raw, r.data, d->dim[0], channels, cells);
        for (size_t i = 0; status == KILN_OK && d->old && i < kit_count(&r); i++) ((float *)r.data)[i] *= OLD_SCALE;
    }
    if (status != KILN_OK) return c->host->unref(samples), status;
    return kit_latent(c, NULL, samples, &c->out[0]);
}

static kiln_status load_run(const kiln_call *c)
{
    const char *path = ((const load_params *)c->params)->latent;
    described d;
    long data_at;
    FILE *f = fopen(path, "rb");
    if (!f) return c->host->fail(c->ctx, KILN_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    const char *why = open_latent(f, &d, &data_at);
    kiln_status status =
        why ? c->host->fail(c->ctx, KILN_ERR_INVALID, "%s: no .latent file: %s; SaveLatent writes them", path, why)
            : read_samples(c, f, &d, data_at);
    fclose(f);
    return status;
}
const kiln_node node_load_latent = {
    KIT_NODE("LoadLatent", "Load Latent", "latent",
             "Reads a latent that SaveLatent wrote, or any safetensors with latent_tensor, f32 [N,C,H,W], and "
             "latent_format_version_0; without that one the numbers are divided by 0.18215."),
    KILN_ARRAY(out, load_out),
    KIT_PARAMS(load_params, load_param),
    .run = load_run,
};
