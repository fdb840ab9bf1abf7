/* unet_kinds_kit.h - the small UNets of tests/golden/unet_kinds as checkpoints: a folder with diffusers' names, or a
 * single file with other ones. */
#ifndef KILN_TESTS_UNET_KINDS_KIT_H
#define KILN_TESTS_UNET_KINDS_KIT_H

#include "formula_weights.h"
#include "golden_kit.h"
#include "unet_family.h"

#include <sys/stat.h>
#include <zlib.h>

/* Lines of a gzip file between "HEAD NAME" and the next "HEAD ...", given to fn without their newline. */
static inline void each_line(const char *path, const char *head, const char *name,
                             void (*fn)(void *arg, const char *line), void *arg)
{
    char full[600], line[400], wanted[100];
    int inside = 0;
    snprintf(full, sizeof full, "%s/%s", test_root(), path);
    snprintf(wanted, sizeof wanted, "%s %s", head, name);
    gzFile in = gzopen(full, "rb");
    REQUIRE(in != NULL);
    while (gzgets(in, line, sizeof line)) {
        line[strcspn(line, "\n")] = 0;
        int starts = strncmp(line, head, strlen(head)) == 0 && line[strlen(head)] == ' ';
        if (starts)
            inside = strcmp(line, wanted) == 0;
        else if (inside)
            fn(arg, line);
    }
    gzclose(in);
}

static inline void add_line(void *arg, const char *line) { CHECK(formula_add(arg, line)); }

/* The tensors of a kind. One at a time: the list is the test's. */
static inline formula_file *tensors_of(const char *kind)
{
    static formula_file f;
    f.n = 0, f.of = kind;
    each_line("tests/golden/unet_kinds/names.txt.gz", "kind", kind, add_line, &f);
    CHECK_MSG(f.n > 50, "%zu tensors of %s", f.n, kind);
    return &f;
}

static inline void copy_text(const char *from, const char *to)
{
    char full[600], text[4000];
    snprintf(full, sizeof full, "%s/%s", test_root(), from);
    FILE *in = fopen(full, "rb"), *out = fopen(to, "wb");
    if (CHECK_MSG(in && out, "%s -> %s", from, to)) fwrite(text, 1, fread(text, 1, sizeof text, in), out);
    if (in) fclose(in);
    if (out) fclose(out);
}

/* Makes <folder>/KIND with unet/ and scheduler/ of these tensors, and opens it. */
static inline kiln_weights *open_kind(const char *kind, const formula_file *f)
{
    static const char *const files[] = {"unet/config.json", "scheduler/scheduler_config.json"};
    char root[300], path[400], from[200];
    error e = {0};
    snprintf(root, sizeof root, "%s/%s", test_folder(), kind); /* a new folder each time */
    mkdir(root, 0700);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%.*s", root, (int)strcspn(files[i], "/"), files[i]);
        mkdir(path, 0700);
        snprintf(path, sizeof path, "%s/%s", root, files[i]);
        snprintf(from, sizeof from, "tests/golden/unet_kinds/%s/%s", kind, files[i]);
        copy_text(from, path);
    }
    snprintf(path, sizeof path, "%s/unet/diffusion_pytorch_model.safetensors", root);
    CHECK(formula_write(f, path, NULL));
    kiln_weights *w = weights_open(root, &e);
    CHECK_MSG(w != NULL, "%s", e.message);
    return w;
}

/* The same as a single file; metadata as formula_write() takes it. */
static inline kiln_weights *open_single(const char *name, const formula_file *f, const char *metadata)
{
    char path[400];
    error e = {0};
    snprintf(path, sizeof path, "%s/%s.safetensors", test_folder(), name);
    CHECK(formula_write(f, path, metadata));
    kiln_weights *w = weights_open(path, &e);
    CHECK_MSG(w != NULL, "%s", e.message);
    return w;
}

static inline kiln_value *open_unet(kiln_weights *set)
{
    kiln_value *v = set ? unet_family.open(rig_host(), rig_ctx(), set) : NULL;
    CHECK_MSG(v != NULL, "%s", rig_message());
    return v;
}

static inline const kiln_model *model_of(const kiln_value *v)
{
    const kiln_model_api *models = rig_host()->ability(KILN_MODEL_ABILITY);
    return models->model(rig_ctx(), v);
}

/* ---- one evaluation ---- */

static inline kiln_weights *goldens(void)
{
    static kiln_weights *g;
    if (!g) g = open_weights("tests/golden/unet_kinds.safetensors");
    return g;
}

/* Column i of [n,k] as [n]. */
static inline array column(array a, int64_t i)
{
    int64_t n = a.dim[0], k = a.dim[1];
    float *data = malloc((size_t)n * sizeof *data);
    for (int64_t row = 0; row < n; row++) data[row] = a.data[row * k + i];
    free(a.data);
    return (array){.data = data, .rank = 1, .dim = {n}, .n = (size_t)n};
}

/* The golden of an input: a column of KIND.numbers for one of the sizes. */
static inline array golden_input(const char *kind, const kiln_denoiser *d, uint32_t row, uint32_t *number)
{
    kiln_input_spec spec = kiln_input_spec_at(d->input, d->input_stride, row);
    if (spec.kind == KILN_INPUT_SCALAR && strcmp(spec.name, "guidance") != 0)
        return column(golden(goldens(), "%s.numbers", kind), (*number)++);
    return golden(goldens(), "%s.%s", kind, spec.name);
}

static inline size_t bind_inputs(const char *kind, const kiln_denoiser *d, piece *c, kiln_named_tensor named[12])
{
    uint32_t number = 0;
    for (uint32_t i = 0; i < d->n_input; i++) {
        kiln_input_spec spec = kiln_input_spec_at(d->input, d->input_stride, i);
        named[i] = (kiln_named_tensor){.size = sizeof *named, .name = spec.name};
        named[i].tensor =
            piece_input(c, golden_input(kind, d, i, &number), spec.kind == KILN_INPUT_IDS ? KILN_I32 : KILN_F32);
    }
    return d->n_input;
}

/* The kind's golden inputs through a model, in f32. */
static inline array evaluate(const char *kind, const kiln_model *m)
{
    piece c = piece_new(KILN_F32);
    kiln_named_tensor named[12];
    kiln_denoise_inputs in = {.size = sizeof in, .input = named};
    array x = golden(goldens(), "%s.x", kind), out = x;
    in.x = piece_input(&c, x, KILN_F32);
    in.timestep = piece_input(&c, golden(goldens(), "%s.t", kind), KILN_F32);
    in.n_input = bind_inputs(kind, m->denoiser, &c, named);
    kiln_t result = m->denoiser->record(m->denoiser, c.ops, c.p, m->weights, &in);
    out.data = calloc(out.n + 1, sizeof *out.data);
    kiln_bind b = KILN_BIND("out", window_of(out.data, KILN_F32, out.rank, out.dim));
    c.ops->output(c.p, "out", result);
    kiln_status status = c.ops->plan(c.ctx, c.p, NULL);
    if (status == KILN_OK) status = c.ops->run(c.ctx, c.p, c.in, c.n_in, &b, 1);
    CHECK_MSG(status == KILN_OK, "%s: %s", kind, rig_message());
    for (size_t i = 0; i < c.n_owned; i++) free(c.owned[i]);
    c.ops->program_free(c.p);
    return out;
}

#endif
