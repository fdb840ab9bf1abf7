/* metadata.c - the typed values of a file's metadata; see include/kiln/weights.h. Texts of all of them are in
 * contents.c.
 */
#include "weights/set.h"

#include <string.h>

static const char mark[] = "__metadata__/";

static uint32_t kind_of(uint32_t type)
{
    if (type == GGUF_F32 || type == GGUF_F64) return KILN_META_FLOAT;
    if (type == GGUF_BOOL) return KILN_META_BOOL;
    if (type == GGUF_STRING) return KILN_META_STRING;
    return type == GGUF_U8 || type == GGUF_U16 || type == GGUF_U32 || type == GGUF_U64 ? KILN_META_UINT : KILN_META_INT;
}

static kiln_status give(kiln_weight_value *out, const kiln_weight_value *v)
{
    return KILN_WRITE(out, v, at) ? KILN_OK : KILN_ERR_BUG;
}

static kiln_status give_pair(kiln_weight_value *out, const weights_file *f, const gguf_pair *p)
{
    return give(out, &(kiln_weight_value){.size = sizeof *out,
                                          .kind = kind_of(p->type),
                                          .is_array = p->is_array != 0,
                                          .width = (uint32_t)gguf_item_width(p->type),
                                          .count = (size_t)p->count,
                                          .key = p->key,
                                          .file = f->map.path,
                                          .data = p->data,
                                          .bytes = (size_t)p->bytes});
}

static kiln_status give_note(kiln_weight_value *out, const weights_file *f, const safetensors_note *note)
{
    return give(out, &(kiln_weight_value){.size = sizeof *out,
                                          .kind = KILN_META_STRING,
                                          .count = 1,
                                          .key = note->key,
                                          .file = f->map.path,
                                          .data = note->value,
                                          .bytes = strlen(note->value),
                                          .plain = 1});
}

static int is_gguf(const weights_file *f) { return gguf_begins(f->map.data, f->map.size); }

static size_t count_of(const weights_file *f) { return is_gguf(f) ? f->gguf.n_pair : f->header.n_note; }

kiln_status weights_metadata_at(const kiln_weights *w, size_t i, kiln_weight_value *out)
{
    const weights_file *f;
    for (size_t k = 0; (f = weights_nth_file(w, k)); i -= count_of(f), k++) {
        if (i >= count_of(f)) continue;
        return is_gguf(f) ? give_pair(out, f, &f->gguf.pair[i]) : give_note(out, f, &f->header.note[i]);
    }
    return KILN_ERR_INVALID;
}

kiln_status weights_metadata(const kiln_weights *w, const char *path, kiln_weight_value *out)
{
    const char *at = path ? strstr(path, mark) : NULL;
    const weights_file *f;
    if (!at || (at != path && at[-1] != '/')) return KILN_ERR_INVALID;
    const char *key = at + sizeof mark - 1;
    size_t prefix = (size_t)(at - path);
    for (size_t k = 0; (f = weights_nth_file(w, k)); k++) {
        if (strlen(f->prefix) != prefix || strncmp(f->prefix, path, prefix) != 0) continue;
        const gguf_pair *p = gguf_header_find(&f->gguf, key);
        if (p) return give_pair(out, f, p);
        for (size_t i = 0; !is_gguf(f) && i < f->header.n_note; i++)
            if (strcmp(f->header.note[i].key, key) == 0) return give_note(out, f, &f->header.note[i]);
    }
    return KILN_ERR_INVALID;
}

static uint64_t number_at(const uint8_t *p, size_t width)
{
    uint64_t v = 0;
    for (size_t i = width; i-- > 0;) v = v << 8 | p[i];
    return v;
}

/* The cursor is at item `next`, at byte `at` of the data. */
static void find_text(kiln_weight_value *v, size_t i, kiln_weight_item *out)
{
    const uint8_t *data = v->data;
    if (i < v->next) v->next = v->at = 0;
    for (; v->next < i; v->next++) v->at += 8 + (size_t)number_at(data + v->at, 8);
    out->text = (const char *)data + v->at + 8;
    out->n = (size_t)number_at(data + v->at, 8);
}

static void read_number(const kiln_weight_value *v, size_t i, kiln_weight_item *out)
{
    uint64_t bits = number_at((const uint8_t *)v->data + i * v->width, v->width);
    unsigned above = 64 - 8 * v->width;
    float f;
    uint32_t half = (uint32_t)bits;
    if (v->kind == KILN_META_FLOAT) {
        memcpy(&f, &half, sizeof f);
        if (v->width == 4) out->number = (double)f;
        if (v->width == 8) memcpy(&out->number, &bits, sizeof bits);
        return;
    }
    /* arithmetic shifts carry the sign down */
    out->integer = v->kind == KILN_META_INT ? (int64_t)(bits << above) >> above : (int64_t)bits;
    out->number = v->kind == KILN_META_INT ? (double)out->integer : (double)bits;
}

kiln_status weights_metadata_item(kiln_weight_value *given, size_t i, kiln_weight_item *out)
{
    kiln_weight_value v;
    kiln_weight_item item = {.size = sizeof item};
    if (!KILN_READ(&v, given, at) || i >= v.count) return KILN_ERR_INVALID;
    if (v.kind != KILN_META_STRING) {
        read_number(&v, i, &item);
    } else if (v.plain) {
        item.text = v.data;
        item.n = v.bytes;
    } else {
        find_text(&v, i, &item);
        given->next = v.next, given->at = v.at;
    }
    return KILN_WRITE(out, &item, n) ? KILN_OK : KILN_ERR_BUG;
}
