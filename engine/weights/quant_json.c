/* quant_json.c - see quant_json.h. */
#include "weights/quant_json.h"

#include "base/checked.h"
#include "base/memory_alloc.h"
#include "base/str.h"
#include "weights/json_scan.h"
#include "weights/set.h"

#include <string.h>

static kiln_status read_format(json_scan *s, quant_json *q)
{
    const char *text;
    size_t n, at = json_here(s);
    TRY(json_string(s, &text, &n));
    if (n >= sizeof q->format) return json_fail(s, at, "a format's name of %zu bytes", n);
    memcpy(q->format, text, n + 1);
    return KILN_OK;
}

static kiln_status read_block(json_scan *s, int64_t *out)
{
    uint64_t v;
    size_t at = json_here(s);
    TRY(json_count(s, &v));
    if (v < 1 || v > 1 << 30) return json_fail(s, at, "a block of %llu elements", (unsigned long long)v);
    *out = (int64_t)v;
    return KILN_OK;
}

static kiln_status read_shape(json_scan *s, quant_json *q)
{
    size_t index = 0, at = json_here(s);
    uint64_t v, all = 1;
    int more;
    TRY(json_open(s, '['));
    for (;;) {
        TRY(json_more(s, ']', &index, &more));
        if (!more) return KILN_OK;
        TRY(json_count(s, &v));
        if (q->rank == KILN_MAX_RANK || v < 1 || !checked_mul_u64(all, v, &all) || all >> 62)
            return json_fail(s, at, "a shape of too many dimensions or elements, or with a 0");
        q->dim[q->rank++] = (int64_t)v;
    }
}

/* A number with a fraction, which json_count() does not take. */
static kiln_status read_number(json_scan *s, double *out)
{
    size_t at = json_here(s);
    TRY(json_skip(s));
    if (str_to_double((const char *)s->text + at, s->at - at, out)) return KILN_OK;
    return json_fail(s, at, "a number must be here");
}

static kiln_status read_rotated(json_scan *s, quant_json *q)
{
    size_t at = json_here(s);
    TRY(json_skip(s));
    q->rotated = s->at - at != 5 || memcmp(s->text + at, "false", 5) != 0;
    return KILN_OK;
}

static kiln_status read_members(json_scan *s, quant_json *q);

static kiln_status read_member(json_scan *s, quant_json *q)
{
    const char *key;
    size_t n;
    TRY(json_key(s, &key, &n));
    if (strcmp(key, "format") == 0 && !q->format[0]) return read_format(s, q);
    if (strcmp(key, "blocksize") == 0) return read_block(s, &q->block);
    if (strcmp(key, "nested_blocksize") == 0) return read_block(s, &q->nested_block);
    if (strcmp(key, "nested_offset") == 0) return read_number(s, &q->nested_offset);
    if (strcmp(key, "shape") == 0 && !q->rank) return read_shape(s, q);
    if (strcmp(key, "convrot") == 0) return read_rotated(s, q);
    if (strcmp(key, "params") == 0 && json_here(s) < s->size && s->text[s->at] == '{') return read_members(s, q);
    return json_skip(s);
}

/* One level of objects within the object: `params`. */
static kiln_status read_members(json_scan *s, quant_json *q)
{
    size_t index = 0;
    int more;
    TRY(json_open(s, '{'));
    for (;;) {
        TRY(json_more(s, '}', &index, &more));
        if (!more) return KILN_OK;
        TRY(read_member(s, q));
    }
}

kiln_status quant_json_parse(quant_json *q, const char *file, uint64_t place, const uint8_t *text, size_t n, error *e)
{
    json_scan s = {.file = file, .text = text, .size = n, .offset = place, .e = e};
    *q = (quant_json){0};
    if (n > QUANT_JSON_MAX)
        return error_set(e, KILN_ERR_INVALID, "%s: byte %llu: a text of %zu bytes beside a weight; at most %d are read",
                         file, (unsigned long long)place, n, QUANT_JSON_MAX);
    if (!(s.pool = mem_alloc(n + 1))) return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", file);
    kiln_status status = read_members(&s, q);
    if (status == KILN_OK && json_here(&s) != s.size) status = json_fail(&s, s.at, "text after the last '}'");
    mem_free(s.pool);
    return status;
}

kiln_status quant_json_read(const weights_entry *x, quant_json *q, error *e)
{
    *q = (quant_json){0};
    if (x->dtype != KILN_U8)
        return error_set(e, KILN_ERR_INVALID, "%s: tensor '%.200s' must be a text, of type U8", x->file->map.path,
                         x->name);
    return quant_json_parse(q, x->file->map.path, x->begin, weights_data(x), (size_t)x->bytes, e);
}
