/* gguf_metadata.c - see gguf_metadata.h. */
#include "gguf_metadata.h"

#include <stdio.h>
#include <string.h>

enum { KEY_BYTES_MAX = 65535, STRING_BYTES_MAX = 1 << 30, ALIGNMENT_MAX = 1 << 20 };

static const uint8_t size_of[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

typedef struct {
    const unsigned char *begin, *s, *end;
    char *why;
} reader;

static int fail(reader *r, const char *what)
{
    snprintf(r->why, 300, "byte %zu: %s", (size_t)(r->s - r->begin), what);
    return 0;
}

static size_t left(const reader *r) { return (size_t)(r->end - r->s); }

static uint64_t little(const unsigned char *s, size_t n)
{
    uint64_t x = 0;
    for (size_t i = 0; i < n; i++) x |= (uint64_t)s[i] << (8 * i);
    return x;
}

static int number(reader *r, size_t n, uint64_t *out)
{
    if (left(r) < n) return fail(r, "the file ends in the middle of its metadata");
    *out = little(r->s, n);
    r->s += n;
    return 1;
}

static int text(reader *r, size_t most, const char **s, size_t *n)
{
    uint64_t bytes;
    if (!number(r, 8, &bytes)) return 0;
    if (bytes > left(r) || bytes > most) return fail(r, "a text is longer than it may be, or than the file");
    *s = (const char *)r->s;
    *n = (size_t)bytes;
    r->s += bytes;
    return 1;
}

static int scalar(reader *r, gguf_type type)
{
    const char *s;
    size_t n;
    if (type == GGUF_STRING) return text(r, STRING_BYTES_MAX, &s, &n);
    if (left(r) < size_of[type]) return fail(r, "the file ends in the middle of its metadata");
    if (type == GGUF_BOOL && r->s[0] > 1) return fail(r, "a bool is neither 0 nor 1");
    r->s += size_of[type];
    return 1;
}

static int array(reader *r, gguf_value *v)
{
    uint64_t type, count;
    if (!number(r, 4, &type) || !number(r, 8, &count)) return 0;
    if (type > GGUF_F64 || type == GGUF_ARRAY) return fail(r, "an array of arrays, or of a type that is not known");
    size_t least = type == GGUF_STRING ? 8 : size_of[type];
    if (count > left(r) / least) return fail(r, "an array has more items than the file has bytes");
    v->item = (gguf_type)type;
    v->count = count;
    v->data = r->s;
    if (type != GGUF_STRING && type != GGUF_BOOL) {
        r->s += count * least;
        return 1;
    }
    for (uint64_t i = 0; i < count; i++)
        if (!scalar(r, (gguf_type)type)) return 0;
    return 1;
}

static int pair(reader *r, gguf_metadata *m, int32_t i)
{
    const char *key;
    size_t n;
    uint64_t type;
    if (!text(r, KEY_BYTES_MAX, &key, &n)) return 0;
    if (n == 0) return fail(r, "a key is empty");
    if (!number(r, 4, &type)) return 0;
    if (type > GGUF_F64) return fail(r, "a value has a type that is not known");
    vocabulary_set(&m->keys, i, key, n);
    if (!vocabulary_name(&m->keys, i)) return fail(r, "a key is there twice");
    gguf_value *v = &m->value[i];
    *v = (gguf_value){.type = (gguf_type)type, .data = r->s};
    return type == GGUF_ARRAY ? array(r, v) : scalar(r, (gguf_type)type);
}

static int head(reader *r, uint64_t *pairs)
{
    uint64_t version, tensors;
    if (left(r) < 4 || memcmp(r->s, "GGUF", 4) != 0) return fail(r, "no GGUF file: it does not begin with GGUF");
    r->s += 4;
    if (!number(r, 4, &version)) return 0;
    if (version == 0x02000000 || version == 0x03000000) return fail(r, "a big-endian GGUF file; little-endian is read");
    if (version != 2 && version != 3) return fail(r, "a GGUF version other than 2 and 3");
    if (!number(r, 8, &tensors) || !number(r, 8, pairs)) return 0;
    if (*pairs > left(r) / 13 || *pairs > TOKENS_MAX || tensors > left(r) / 32)
        return fail(r, "more pairs or tensors than the file has bytes for");
    return 1;
}

int gguf_read(token_pool *p, const void *data, size_t bytes, gguf_metadata *m, char *why)
{
    reader r = {data, data, (const unsigned char *)data + bytes, why};
    uint64_t pairs;
    if (!head(&r, &pairs)) return 0;
    if (!vocabulary_new(p, &m->keys, (size_t)pairs) ||
        !(m->value = token_pool_get(p, (size_t)pairs + 1, sizeof *m->value)))
        return fail(&r, "no memory for the metadata");
    for (uint64_t i = 0; i < pairs; i++)
        if (!pair(&r, m, (int32_t)i)) return 0;
    int64_t alignment = gguf_integer(m, "general.alignment", 32);
    if (alignment < 1 || alignment > ALIGNMENT_MAX || alignment & (alignment - 1))
        return fail(&r, "general.alignment is not a power of two up to 1 MiB");
    return 1;
}

const gguf_value *gguf_find(const gguf_metadata *m, const char *key)
{
    int32_t i = vocabulary_find(&m->keys, key, strlen(key));
    return i == NO_TOKEN ? NULL : &m->value[i];
}

const gguf_value *gguf_array(const gguf_metadata *m, const char *key, gguf_type item)
{
    const gguf_value *v = gguf_find(m, key);
    return v && v->type == GGUF_ARRAY && v->item == item ? v : NULL;
}

const char *gguf_text(const gguf_metadata *m, const char *key, size_t *n)
{
    const gguf_value *v = gguf_find(m, key);
    if (!v || v->type != GGUF_STRING) return NULL;
    const unsigned char *at = v->data;
    return gguf_next_text(&at, n);
}

const char *gguf_next_text(const unsigned char **at, size_t *n)
{
    const char *s = (const char *)*at + 8;
    *n = (size_t)little(*at, 8);
    *at += 8 + *n;
    return s;
}

static int64_t whole(const unsigned char *s, gguf_type type)
{
    uint64_t x = little(s, size_of[type]);
    switch (type) {
    case GGUF_I8: return (int8_t)x;
    case GGUF_I16: return (int16_t)x;
    case GGUF_I32: return (int32_t)x;
    default: return (int64_t)x;
    }
}

int64_t gguf_integer(const gguf_metadata *m, const char *key, int64_t otherwise)
{
    const gguf_value *v = gguf_find(m, key);
    if (!v || v->type == GGUF_STRING || v->type == GGUF_ARRAY || v->type == GGUF_F32 || v->type == GGUF_F64)
        return otherwise;
    return whole(v->data, v->type);
}

double gguf_number_at(const gguf_value *v, uint64_t i)
{
    const unsigned char *s = v->data + i * size_of[v->item];
    uint32_t bits = (uint32_t)little(s, 4);
    float x;
    double y;
    if (v->item == GGUF_F32) {
        memcpy(&x, &bits, sizeof x);
        return (double)x;
    }
    if (v->item != GGUF_F64) return (double)whole(s, v->item);
    uint64_t wide = little(s, 8);
    memcpy(&y, &wide, sizeof y);
    return y;
}
