/* memory_sets.c - sets whose bytes are no file's: given in memory, read by a function, or made of tensors; see
 * include/kiln/weights.h. They are parsed as files are, and their pages are never given back to the system.
 */
#include "base/arena.h"
#include "base/array.h"
#include "base/memory_alloc.h"
#include "base/str.h"
#include "weights/block_notes.h"
#include "weights/safetensors_write.h"
#include "weights/set.h"

#include <string.h>

kiln_status weights_file_unchanged(const weights_file *f, error *e)
{
    return f->memory ? KILN_OK : file_map_unchanged(&f->map, e);
}

kiln_status weights_file_read(const weights_file *f, size_t at, size_t bytes, void *dst, pool *p, error *e)
{
    if (!f->memory) return file_map_read(&f->map, at, bytes, dst, p, e);
    if (bytes) memcpy(dst, f->map.data + at, bytes);
    return KILN_OK;
}

void weights_file_close(weights_file *f)
{
    safetensors_free(&f->header);
    gguf_header_free(&f->gguf);
    if (f->memory) {
        if (f->memory->release) f->memory->release(f->memory->self);
        mem_pages_free(f->memory->own);
        mem_free(f->memory);
        f->map.data = NULL;
    }
    file_map_close(&f->map);
    mem_free(f->prefix);
    *f = (weights_file){0};
}

/* ---- given bytes ---- */

enum { READ_AT_ONCE = 16 << 20 };

/* Everything, into memory of the set's own; then the giver is not needed any more. */
static kiln_status read_all(weights_file *f, const kiln_weight_source *s, error *e)
{
    weights_memory *m = f->memory;
    if (!(m->own = mem_pages((size_t)s->bytes + 1)))
        return error_set(e, KILN_ERR_NOMEM, "%s: out of memory (%llu bytes)", f->map.path,
                         (unsigned long long)s->bytes);
    for (uint64_t at = 0; at < s->bytes; at += READ_AT_ONCE) {
        size_t n = s->bytes - at < READ_AT_ONCE ? (size_t)(s->bytes - at) : READ_AT_ONCE;
        kiln_status status = s->read(s->self, at, n, (char *)m->own + at);
        if (status != KILN_OK)
            return error_set(e, status, "%s: byte %llu: %zu bytes could not be read", f->map.path,
                             (unsigned long long)at, n);
    }
    if (m->release) m->release(m->self);
    m->release = NULL;
    f->map.data = m->own;
    return KILN_OK;
}

static kiln_status fill(weights_file *f, const kiln_weight_source *s, error *e)
{
    if (s->bytes > SIZE_MAX / 2 || (!s->data && !s->read))
        return error_set(e, KILN_ERR_INVALID,
                         "%s: a source of weights has neither bytes nor a function that reads them", f->map.path);
    f->map.size = (size_t)s->bytes;
    f->map.data = s->data;
    if (!s->data) TRY(read_all(f, s, e));
    f->memory->content = digest_of(f->map.data, f->map.size);
    return weights_file_parse(f, f->map.path, e);
}

kiln_status set_add_memory(kiln_weights *w, const kiln_weight_source *s, error *e)
{
    weights_memory *m = mem_calloc(1, sizeof *m);
    if (!m || !array_reserve(&w->file, &w->file_capacity, w->n_file + 1, sizeof *w->file)) {
        mem_free(m);
        if (s->release) s->release(s->self);
        return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", w->path);
    }
    weights_file *f = &w->file[w->n_file++];
    *m = (weights_memory){.release = s->release, .self = s->self};
    *f = (weights_file){.memory = m, .prefix = mem_strdup("")};
    f->map.path = mem_strdup(w->path);
    if (!f->prefix || !f->map.path) return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", w->path);
    return fill(f, s, e);
}

kiln_weights *weights_open_source(const kiln_weight_source *given, error *e)
{
    kiln_weight_source s;
    if (!KILN_READ(&s, given, release) || !s.name)
        return error_set(e, KILN_ERR_BUG, "a source of weights has no size or no name"), NULL;
    kiln_weights *w = set_new(s.name, e);
    if (!w) {
        if (s.release) s.release(s.self);
        return NULL;
    }
    if (set_add_memory(w, &s, e) == KILN_OK && set_add_entries(w, e) == KILN_OK) return w;
    weights_unref(w);
    return NULL;
}

/* ---- made ---- */

typedef struct {
    safetensors_source *source;
    safetensors_remark *remark;
    size_t n_remark;
    arena memory;
} making;

static kiln_status no_memory(error *e) { return error_set(e, KILN_ERR_NOMEM, "out of memory"); }

static char *keep(making *m, str *s)
{
    char *text = s->failed ? NULL : arena_strdup(&m->memory, str_text(s));
    str_free(s);
    return text;
}

/* Blocks become bytes, and a line that says what they are. */
static kiln_status add_blocks(making *m, safetensors_source *s, const kiln_weight_tensor *t, error *e)
{
    size_t n = 1, bytes = 0;
    str key = {0}, value = {0};
    int64_t *dim = arena_alloc(&m->memory, sizeof *dim);
    for (uint32_t i = 0; i < t->rank; i++)
        if (t->dim[i] < 0 || __builtin_mul_overflow(n, (size_t)t->dim[i], &n)) n = SIZE_MAX;
    if (n == 0 || !dtype_bytes(t->dtype, n, &bytes))
        return error_set(e, KILN_ERR_INVALID, "tensor '%.200s' is no whole blocks of %s", t->name,
                         dtype_name(t->dtype));
    block_note(&key, &value, t->name, t->dtype, t->rank, t->dim);
    char *name = keep(m, &key), *what = keep(m, &value);
    if (!dim || !name || !what) return no_memory(e);
    *dim = (int64_t)bytes;
    m->remark[m->n_remark++] = (safetensors_remark){name, what};
    *s = (safetensors_source){t->name, KILN_U8, 1, dim, t->data};
    return KILN_OK;
}

static kiln_status add_tensor(making *m, size_t i, const kiln_weight_tensor *given, error *e)
{
    kiln_weight_tensor t;
    if (!KILN_READ(&t, given, data) || !t.name || (t.rank && !t.dim))
        return error_set(e, KILN_ERR_BUG, "tensor %zu of a set to be made has no size, name or shape", i);
    m->source[i] = (safetensors_source){t.name, t.dtype, t.rank, t.dim, t.data};
    return dtype_is_block(t.dtype) ? add_blocks(m, &m->source[i], &t, e) : KILN_OK;
}

static kiln_status encode(making *m, const kiln_weight_tensor *tensor, size_t n, str *out, error *e)
{
    m->source = arena_alloc(&m->memory, (n + 1) * sizeof *m->source);
    m->remark = arena_alloc(&m->memory, (n + 1) * sizeof *m->remark);
    if (!m->source || !m->remark) return no_memory(e);
    for (size_t i = 0; i < n; i++) TRY(add_tensor(m, i, (const void *)((const char *)tensor + i * tensor->size), e));
    return safetensors_encode(out, m->source, n, m->remark, m->n_remark, e);
}

static kiln_status read_text(void *self, uint64_t offset, size_t n, void *dst)
{
    memcpy(dst, ((const str *)self)->data + offset, n);
    return KILN_OK;
}

kiln_weights *weights_make(const char *name, const kiln_weight_tensor *tensor, size_t n, error *e)
{
    making m = {0};
    str bytes = {0};
    kiln_weights *w = NULL;
    if (!name || (n && !tensor)) return error_set(e, KILN_ERR_BUG, "a set to be made has no name or no tensors"), NULL;
    if (encode(&m, tensor, n, &bytes, e) == KILN_OK)
        w = weights_open_source(&(kiln_weight_source){.size = sizeof(kiln_weight_source),
                                                      .name = name,
                                                      .bytes = bytes.len,
                                                      .read = read_text,
                                                      .self = &bytes},
                                e);
    else
        error_prefix(e, "%s", name);
    str_free(&bytes);
    arena_free(&m.memory);
    return w;
}
