/* ability_weights.c - "kiln.weights/1": weights.h, with errors recorded on the running call. ctx may be NULL: errors
 * are dropped, but in write(), which belongs to a call. */
#include "plugin/abilities.h"
#include "plugin/ctx.h"
#include "weights/weights.h"
#include "weights/write.h"

/* Reports every file of the set to the run, which checks later that they did not change. */
static kiln_status report_opened(kiln_ctx *c, const kiln_weights *w)
{
    const file_map *m;
    for (size_t i = 0; ctx_env(c)->opened && (m = weights_file_at(w, i)); i++)
        TRY(c->env->opened(c->env->arg, c->node, m->path, &m->identity, &c->failure));
    return KILN_OK;
}

static kiln_weights *open_set(kiln_ctx *c, const char *path)
{
    kiln_weights *w = weights_open(path, ctx_error(c));
    if (!w || report_opened(c, w) == KILN_OK) return w;
    weights_unref(w);
    return NULL;
}

static kiln_weights *view(kiln_ctx *c, kiln_weights *base, const kiln_weight_rule *rule, size_t n)
{
    return weights_view(base, rule, n, ctx_error(c));
}
static kiln_weights *overlay(kiln_ctx *c, kiln_weights *base, kiln_weights *over)
{
    return weights_overlay(base, over, ctx_error(c));
}
static kiln_weights *open_source(kiln_ctx *c, const kiln_weight_source *s)
{
    return weights_open_source(s, ctx_error(c));
}
static kiln_weights *make(kiln_ctx *c, const char *name, const kiln_weight_tensor *tensor, size_t n)
{
    return weights_make(name, tensor, n, ctx_error(c));
}
static kiln_weights *patch(kiln_ctx *c, kiln_weights *base, const kiln_weight_patch *p, size_t n)
{
    return weights_patch(base, p, n, ctx_error(c));
}
static const void *map(kiln_ctx *c, const kiln_weights *w, const char *name)
{
    return weights_map(w, name, ctx_error(c));
}
static kiln_status read_f32(kiln_ctx *c, const kiln_weights *w, const char *name, float *dst)
{
    return weights_read_f32(w, name, dst, ctx_error(c));
}

typedef struct {
    kiln_ctx *ctx;
    kiln_file *file;
} file_sink;

static kiln_status sink_write(void *self, const void *bytes, size_t n)
{
    return files_api.write(((const file_sink *)self)->file, bytes, n);
}

static kiln_status sink_progress(void *self, uint64_t done, uint64_t total)
{
    return engine_host.progress(((const file_sink *)self)->ctx, done, total, "writing");
}

static kiln_status write_file(kiln_ctx *c, kiln_file *to, const kiln_weight_row *row, size_t n,
                              const kiln_weight_text *text, size_t n_text)
{
    file_sink self = {c, to};
    weights_sink sink = {sink_write, sink_progress, &self, ctx_env(c)->pool};
    return weights_write(&sink, row, n, text, n_text, ctx_error(c));
}

static const char *identity(kiln_ctx *c, const kiln_weights *w) { return weights_identity(w, ctx_error(c)); }

const kiln_weights_api weights_api = {
    .size = sizeof(kiln_weights_api),
    .open = open_set,
    .view = view,
    .ref = weights_ref,
    .unref = weights_unref,
    .count = weights_count,
    .at = weights_at,
    .find = weights_find,
    .map = map,
    .read_f32 = read_f32,
    .text = weights_text,
    .identity = identity,
    .unused = weights_unused,
    .patch = patch,
    .write = write_file,
    .metadata = weights_metadata,
    .metadata_at = weights_metadata_at,
    .metadata_item = weights_metadata_item,
    .overlay = overlay,
    .open_source = open_source,
    .make = make,
};
