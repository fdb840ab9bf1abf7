/* test_codec.c - values to bytes and back: every bit of every kind, and bytes that lie. */
#include "base/memory_alloc.h"
#include "cache/codec.h"
#include "harness.h"
#include "tensor/dtype.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    unsigned char *bytes;
    size_t n, capacity, at;
} memory;

static kiln_status to_memory(void *self, const void *bytes, size_t n, error *e)
{
    memory *m = self;
    (void)e;
    if (m->n + n > m->capacity) m->bytes = realloc(m->bytes, m->capacity = 2 * (m->n + n));
    if (n) memcpy(m->bytes + m->n, bytes, n);
    m->n += n;
    return KILN_OK;
}

static kiln_status from_memory(void *self, void *bytes, size_t n, error *e)
{
    memory *m = self;
    if (m->n - m->at < n) return error_set(e, KILN_ERR_IO, "short");
    if (n) memcpy(bytes, m->bytes + m->at, n);
    m->at += n;
    return KILN_OK;
}

static kiln_status encode(const kiln_value *v, const codec_types *types, memory *m, error *e)
{
    uint64_t size = 0;
    m->n = m->at = 0;
    kiln_status status = codec_encode(v, types, &(codec_sink){.self = m, .write = to_memory}, &size, e);
    if (status == KILN_OK) CHECK_EQ(size, m->n);
    return status;
}

static kiln_status decode(memory *m, const codec_types *types, kiln_value **out, error *e)
{
    m->at = 0;
    return codec_decode(&(codec_source){.self = m, .read = from_memory, .size = m->n}, types, out, e);
}

static int bits_equal(const kiln_value *a, const kiln_value *b)
{
    memory x = {0}, y = {0};
    error e = {0};
    int same = encode(a, NULL, &x, &e) == KILN_OK && encode(b, NULL, &y, &e) == KILN_OK && x.n == y.n &&
               memcmp(x.bytes, y.bytes, x.n) == 0;
    free(x.bytes), free(y.bytes);
    return same;
}

/* Round trip; takes v. */
static void trip(kiln_value *v, const char *what)
{
    memory m = {0};
    kiln_value *back = NULL;
    error e = {0};
    digest x = {0}, y = {0};
    CHECK_MSG(v && encode(v, NULL, &m, &e) == KILN_OK, "%s: %s", what, e.message);
    CHECK_MSG(decode(&m, NULL, &back, &e) == KILN_OK, "%s: %s", what, e.message);
    if (back) {
        CHECK_MSG(bits_equal(v, back), "%s: other bits", what);
        CHECK_MSG(value_published(back), "%s: may be changed", what);
        CHECK_MSG(value_digest(v, &x, NULL) == KILN_OK && value_digest(back, &y, NULL) == KILN_OK && digest_equal(x, y),
                  "%s: another digest", what);
    }
    value_unref(v), value_unref(back);
    free(m.bytes);
}

static kiln_value *tensor(uint32_t dtype, uint32_t rank, const int64_t *dim)
{
    kiln_value *v = value_tensor_new(dtype, KILN_CPU, rank, dim, NULL);
    kiln_tensor t = {.size = sizeof t};
    size_t n = dtype_size(dtype);
    value_view(v, &t, NULL);
    for (uint32_t i = 0; i < rank; i++) n *= (size_t)dim[i];
    for (size_t i = 0; i < n; i++)
        ((unsigned char *)t.data)[i] =
            (unsigned char)(dtype == KILN_BOOL8 ? i & 1 : i * 151 + 7); /* NaN payloads among them */
    return v;
}

static void set(kiln_value *map, const char *key, kiln_value *item)
{
    CHECK_EQ(value_api.map_set(map, key, item), KILN_OK);
    value_unref(item);
}

static void push(kiln_value *list, kiln_value *item)
{
    CHECK_EQ(value_api.list_push(list, item), KILN_OK);
    value_unref(item);
}

static kiln_value *latent(void)
{
    kiln_value *map = value_map(), *index = value_list();
    set(map, "samples", tensor(KILN_F32, 4, (int64_t[]){2, 5, 3, 4}));
    set(map, "noise_mask", tensor(KILN_F32, 3, (int64_t[]){2, 5, 3}));
    push(index, value_int(0)), push(index, value_int(7));
    set(map, "batch_index", index);
    return map;
}

static kiln_value *conditioning(void)
{
    kiln_value *list = value_list();
    for (int i = 0; i < 3; i++) {
        kiln_value *map = value_map(), *area = value_list();
        set(map, "tokens", tensor(KILN_F32, 3, (int64_t[]){1, 77, 8}));
        set(map, "pooled", tensor(KILN_F32, 2, (int64_t[]){1, 8}));
        for (int k = 0; k < 4; k++) push(area, value_int(k * i));
        set(map, "area", area);
        set(map, "strength", value_float(0.1 * i));
        set(map, "start_percent", value_float(0.25)), set(map, "end_percent", value_float(1));
        set(map, "mask", tensor(KILN_F32, 3, (int64_t[]){1, 4, 4}));
        set(map, "set_area_to_bounds", value_bool(i & 1));
        set(map, "org.example.note", value_string("ü\0\xff", 4));
        push(list, map);
    }
    return list;
}

static void test_every_kind(void)
{
    uint64_t quiet = UINT64_C(0x7ff8dead00c0ffee);
    double payload;
    memcpy(&payload, &quiet, sizeof payload);
    trip(value_int(INT64_MIN), "int"), trip(value_int(-1), "int");
    trip(value_float(payload), "NaN with a payload"), trip(value_float(-0.0), "-0"),
        trip(value_float(-INFINITY), "-inf"), trip(value_float(5e-324), "denormal");
    trip(value_bool(1), "bool"), trip(value_bool(0), "bool");
    trip(value_string("", 0), "empty string"), trip(value_string("a\0b\xff", 4), "string with NUL");
    trip(value_list(), "empty list"), trip(value_map(), "empty map");
    trip(latent(), "latent"), trip(conditioning(), "conditioning");
}

static void test_every_tensor(void)
{
    static const int64_t dim[KILN_MAX_RANK] = {3, 1, 2, 5, 1, 2, 1, 2};
    for (uint32_t dtype = KILN_F32; dtype <= KILN_BOOL8; dtype++)
        for (uint32_t rank = 0; rank <= KILN_MAX_RANK; rank++) trip(tensor(dtype, rank, dim), dtype_name(dtype));
    trip(tensor(KILN_F32, 2, (int64_t[]){0, 7}), "empty tensor");
    CHECK(value_tensor_new(KILN_F32, KILN_CPU, 2, (int64_t[]){0, INT64_C(1) << 62}, NULL) ==
          NULL); /* no bytes, but no strides either */
    trip(tensor(KILN_F32, 4, (int64_t[]){1, 128, 128, 3}), "image");
}

static void test_a_shared_part_comes_back_in_both_places(void)
{
    kiln_value *map = value_map(), *part = tensor(KILN_F16, 1, (int64_t[]){9});
    CHECK_EQ(value_api.map_set(map, "a", part), KILN_OK);
    CHECK_EQ(value_api.map_set(map, "b", part), KILN_OK);
    value_unref(part);
    trip(map, "shared");
}

static void test_handles_are_refused(void)
{
    memory m = {0};
    error e = {0};
    kiln_value *map = value_map();
    set(map, "model", value_object("MODEL", &m, NULL, "x"));
    CHECK(!codec_can_encode(map, NULL));
    CHECK_EQ(encode(map, NULL, &m, &e), KILN_ERR_UNSUPPORTED);
    CHECK_MSG(strstr(e.message, "MODEL") != NULL, "%s", e.message);
    CHECK_EQ(m.n, 0);
    value_unref(map);
}

static void test_depth_is_bounded(void)
{
    memory m = {0};
    error e = {0};
    kiln_value *v = value_list();
    for (int i = 1; i < 64; i++) {
        kiln_value *outer = value_list();
        if (value_api.list_push(outer, v) != KILN_OK) {
            value_unref(outer);
            break;
        }
        value_unref(v);
        v = outer;
    }
    CHECK_MSG(encode(v, NULL, &m, &e) == KILN_OK, "%s", e.message);
    /* One list more, written by hand: kind and count 1 before the structure. */
    static const unsigned char deeper[9] = {KILN_V_LIST, 1};
    memory forged = {0};
    for (int extra = 0; extra < 80; extra++) to_memory(&forged, deeper, sizeof deeper, NULL);
    unsigned char head[24] = "KLNV\1";
    uint64_t n = forged.n + 9, total = (24 + n + 63) / 64 * 64;
    memcpy(head + 8, &n, 8), memcpy(head + 16, &total, 8);
    memory whole = {0};
    static const unsigned char end[9 + 64] = {KILN_V_LIST};
    to_memory(&whole, head, 24, NULL), to_memory(&whole, forged.bytes, forged.n, NULL),
        to_memory(&whole, end, 9 + (size_t)(total - 24 - n), NULL);
    kiln_value *back = NULL;
    error deep = {0};
    CHECK_EQ(decode(&whole, NULL, &back, &deep), KILN_ERR_INVALID);
    CHECK_MSG(strstr(deep.message, "deep") != NULL, "%s", deep.message);
    value_unref(v);
    free(m.bytes), free(forged.bytes), free(whole.bytes);
}

/* ---- objects with a stored form ---- */

typedef struct {
    uint32_t revision;
    int useless;
} plans;

static uint32_t plan_revision(void *self, const char *type)
{
    return strcmp(type, "PLAN") == 0 ? ((plans *)self)->revision : 0;
}
static kiln_value *plan_to_plain(void *self, const kiln_value *object, error *e)
{
    (void)self, (void)e;
    return value_int(*(int *)value_api.object(object, "PLAN"));
}
static void plan_free(void *p) { free(p); }
static kiln_value *plan_from_plain(void *self, const char *type, const kiln_value *plain, error *e)
{
    int64_t n = 0;
    int *p = malloc(sizeof *p);
    if (((plans *)self)->useless || value_api.get_int(plain, &n) != KILN_OK)
        return free(p), error_set(e, KILN_ERR_INVALID, "no use"), NULL;
    *p = (int)n;
    return value_object(type, p, plan_free, NULL);
}

static void test_objects_with_a_stored_form(void)
{
    plans p = {.revision = 3};
    codec_types types = {
        .self = &p, .revision = plan_revision, .to_plain = plan_to_plain, .from_plain = plan_from_plain};
    memory m = {0};
    error e = {0};
    int *number = malloc(sizeof *number);
    *number = 42;
    kiln_value *list = value_list(), *back = NULL;
    push(list, value_object("PLAN", number, plan_free, NULL)), push(list, value_int(1));
    CHECK(codec_can_encode(list, &types) && !codec_can_encode(list, NULL));
    REQUIRE(encode(list, &types, &m, &e) == KILN_OK);
    REQUIRE(decode(&m, &types, &back, &e) == KILN_OK);
    CHECK_EQ(*(int *)value_api.object(value_api.list_at(back, 0), "PLAN"), 42);
    value_unref(back);
    p.revision = 4;
    CHECK_EQ(decode(&m, &types, &back, &e), KILN_ERR_INVALID);
    CHECK(back == NULL);
    p.revision = 3, p.useless = 1;
    CHECK(decode(&m, &types, &back, &e) != KILN_OK && back == NULL);
    CHECK(decode(&m, NULL, &back, &e) != KILN_OK && back == NULL);
    value_unref(list);
    free(m.bytes);
}

/* ---- bytes that lie ---- */

/* Whatever is accepted can be encoded again; nothing crashes. */
static void survive(memory *m, int *accepted)
{
    kiln_value *back = NULL;
    error e = {0};
    if (decode(m, NULL, &back, &e) != KILN_OK) {
        CHECK_MSG(back == NULL && e.message[0], "refused without a word");
        return;
    }
    (*accepted)++;
    memory again = {0};
    CHECK(encode(back, NULL, &again, &e) == KILN_OK);
    free(again.bytes);
    value_unref(back);
}

static void test_truncated_anywhere(void)
{
    memory m = {0};
    error e = {0};
    int accepted = 0;
    kiln_value *v = latent();
    REQUIRE(encode(v, NULL, &m, &e) == KILN_OK);
    size_t whole = m.n;
    for (m.n = 0; m.n < whole; m.n++) survive(&m, &accepted);
    CHECK_EQ(accepted, 0);
    value_unref(v);
    free(m.bytes);
}

static void test_every_bit_flipped(void)
{
    memory m = {0};
    error e = {0};
    int accepted = 0;
    kiln_value *v = conditioning();
    REQUIRE(encode(v, NULL, &m, &e) == KILN_OK);
    for (size_t bit = 0; bit < m.n * 8; bit += 1 + (bit > 8000) * 12) {
        m.bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        survive(&m, &accepted);
        m.bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    CHECK(accepted > 0); /* bits of numbers and tensors: what a digest is for */
    value_unref(v);
    free(m.bytes);
}

static void test_random_bytes(void)
{
    uint64_t x = 88172645463325252u;
    int accepted = 0;
    memory m = {.bytes = malloc(400)};
    for (int run = 0; run < 20000; run++) {
        m.n = 64 + (size_t)(run % 5) * 64;
        for (size_t i = 0; i < m.n; i++)
            x ^= x << 13, x ^= x >> 7, x ^= x << 17, m.bytes[i] = (unsigned char)(x % 11 < 6 ? x % 9 : x >> 8);
        uint64_t total = m.n, structure = (x >> 32) % (m.n - 20);
        memcpy(m.bytes, "KLNV\1\0\0\0", 8), memcpy(m.bytes + 8, &structure, 8), memcpy(m.bytes + 16, &total, 8);
        survive(&m, &accepted);
    }
    free(m.bytes);
}

static void test_every_allocation_may_fail(void)
{
    kiln_value *v = conditioning();
    memory m = {0};
    error fine = {0};
    REQUIRE(encode(v, NULL, &m, &fine) == KILN_OK);
    int failed = 0;
    for (int64_t k = 0; k < 500; k++) {
        memory again = {0};
        kiln_value *back = NULL;
        error e = {0};
        mem_fail_at(k, 0);
        kiln_status one = encode(v, NULL, &again, &e);
        kiln_status two = one == KILN_OK ? decode(&m, NULL, &back, &e) : one;
        int reached = mem_count() > k;
        mem_fail_at(-1, 0);
        CHECK_MSG(!reached || two != KILN_OK || bits_equal(v, back), "allocation %lld", (long long)k);
        if (two != KILN_OK) failed++, CHECK(e.status == KILN_ERR_NOMEM);
        value_unref(back);
        free(again.bytes);
        if (!reached) break;
    }
    CHECK(failed > 20);
    value_unref(v);
    free(m.bytes);
}

static void test_description(void)
{
    char text[200], shortened[12];
    kiln_value *v = latent();
    CHECK_STR(codec_describe(v, text, sizeof text),
              "{batch_index 2 of [0], noise_mask f32 2x5x3, samples f32 2x5x3x4}");
    CHECK_STR(codec_describe(v, shortened, sizeof shortened), "{batch_inde");
    value_unref(v);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_every_kind),
        CASE(test_every_tensor),
        CASE(test_a_shared_part_comes_back_in_both_places),
        CASE(test_handles_are_refused),
        CASE(test_depth_is_bounded),
        CASE(test_objects_with_a_stored_form),
        CASE(test_truncated_anywhere),
        CASE(test_every_bit_flipped),
        CASE(test_random_bytes),
        CASE(test_every_allocation_may_fail),
        CASE(test_description),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
