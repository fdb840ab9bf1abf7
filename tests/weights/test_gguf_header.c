/* test_gguf_header.c - what a GGUF header says, and what is refused with its place: counts, strings, arrays, shapes and
 * offsets that a hostile or damaged file could have. Each file lies in a block of exactly its size, so that a sanitizer
 * sees one byte too many.
 */
#include "gguf_kit.h"

#define SHAPE(...) ((const uint64_t[]){__VA_ARGS__, 0})

typedef struct {
    gguf_header h;
    safetensors_header t;
    uint8_t *copy;
    error e;
} parsed;

static kiln_status parse(parsed *p, const uint8_t *data, size_t n)
{
    *p = (parsed){.copy = malloc(n ? n : 1)};
    memcpy(p->copy, data, n);
    return gguf_header_parse(&p->h, &p->t, "f", p->copy, n, &p->e);
}

static void done(parsed *p)
{
    gguf_header_free(&p->h);
    safetensors_free(&p->t);
    free(p->copy);
}

static void holds(const gguf_bytes *g, const char *what)
{
    parsed p;
    CHECK_MSG(parse(&p, g->b, g->n) == KILN_OK, "%s: %s", what, p.e.message);
    done(&p);
}

static void is_refused(const gguf_bytes *g, const char *why)
{
    parsed p;
    CHECK_MSG(parse(&p, g->b, g->n) == KILN_ERR_INVALID, "accepted, not refused with '%s'", why);
    contains(p.e.message, "f: byte ");
    contains(p.e.message, why);
    CHECK(!p.h.pair && !p.t.entry && !p.t.note);
    done(&p);
}

static gguf_bytes two_tensors(uint32_t version)
{
    gguf_bytes g = gguf_begin(version, 2, 2);
    put_key(&g, "general.architecture", GGUF_STRING);
    put_string(&g, "sd1", 3);
    put_number(&g, "n", GGUF_I16, (uint64_t)-5, 2);
    put_tensor(&g, "a", SHAPE(64, 3), 8, 0); /* q8_0: 6 blocks */
    put_tensor(&g, "b", SHAPE(5), 0, 224);
    put_data(&g, 32, 224 + 20);
    return g;
}

static void test_what_is_said(void)
{
    for (uint32_t version = 2; version <= 3; version++) {
        gguf_bytes g = two_tensors(version);
        parsed p;
        REQUIRE(parse(&p, g.b, g.n) == KILN_OK);
        CHECK(p.t.count == 2 && p.h.n_pair == 2 && p.t.n_note == 2);
        const safetensors_entry *a = &p.t.entry[0];
        CHECK_STR(a->name, "a");
        CHECK_STR(a->type_name, "Q8_0");
        CHECK(a->dtype == KILN_Q8_0 && a->rank == 2 && a->dim[0] == 3 && a->dim[1] == 64); /* turned round */
        CHECK(a->end - a->begin == 6 * 34 && a->begin % 32 == 0 && p.t.entry[1].begin == a->begin + 224);
        CHECK_STR(p.t.note[0].value, "sd1");
        CHECK_STR(p.t.note[1].value, "-5");
        done(&p);
    }
}

static void test_every_cut_is_refused(void)
{
    gguf_bytes g = two_tensors(3);
    for (size_t n = 0; n < g.n; n++) {
        parsed p;
        CHECK_MSG(parse(&p, g.b, n) == KILN_ERR_INVALID, "%zu bytes of %zu are accepted", n, g.n);
        contains(p.e.message, "f: byte ");
        done(&p);
    }
}

static void test_versions(void)
{
    gguf_bytes g = gguf_begin(1, 0, 0);
    is_refused(&g, "version 1 of GGUF");
    g = gguf_begin(4, 0, 0);
    is_refused(&g, "version 4 of GGUF");
    g = gguf_begin(0x03000000, 0, 0);
    is_refused(&g, "big-endian");
    g = gguf_begin(3, 0, 0);
    holds(&g, "an empty file");
    memcpy(g.b, "GGLA", 4);
    is_refused(&g, "begins with 'GGUF'");
}

static void test_G1_counts_are_bounded_before_anything_is_allocated(void)
{
    gguf_bytes g = gguf_begin(3, UINT64_MAX, 0);
    is_refused(&g, "the number of tensors is 18446744073709551615");
    g = gguf_begin(3, 1, 0);
    is_refused(&g, "the number of tensors");
    g = gguf_begin(3, 0, 1ull << 62);
    is_refused(&g, "the number of keys");
    g = gguf_begin(3, 0, 1);
    put_key(&g, "k", GGUF_ARRAY);
    put(&g, GGUF_U64, 4), put(&g, 1ull << 61, 8); /* times 8 is 0 */
    is_refused(&g, "more than the file has bytes for");
    g = gguf_begin(3, 0, 1);
    put_key(&g, "k", GGUF_ARRAY);
    put(&g, GGUF_STRING, 4), put(&g, 1000, 8);
    put_string(&g, "x", 1);
    is_refused(&g, "more than the file has bytes for");
    g = gguf_begin(3, 0, 1);
    put_key(&g, "k", GGUF_STRING);
    put(&g, UINT64_MAX - 3, 8);
    is_refused(&g, "a string of");
}

static void test_keys_and_values(void)
{
    gguf_bytes g = gguf_begin(3, 0, 1);
    put_number(&g, "", GGUF_U32, 0, 4);
    is_refused(&g, "a key of 0 bytes");
    g = gguf_begin(3, 0, 1);
    put(&g, GGUF_KEY_MAX + 1, 8), g.n += 100;
    is_refused(&g, "a key of 65536 bytes");
    g = gguf_begin(3, 0, 1);
    put_number(&g, "k", GGUF_BOOL, 2, 1);
    is_refused(&g, "boolean of 2");
    g = gguf_begin(3, 0, 1);
    put_number(&g, "k", 13, 0, 8);
    is_refused(&g, "unknown type 13");
    g = gguf_begin(3, 0, 1);
    put_key(&g, "k", GGUF_ARRAY), put(&g, GGUF_ARRAY, 4), put(&g, 0, 8);
    is_refused(&g, "array of arrays");
}

static void test_G4_alignment_is_a_bounded_power_of_two(void)
{
    gguf_bytes g;
    static const uint64_t wrong[] = {0, 3, 1u << 21};
    for (size_t i = 0; i < 3; i++) {
        g = gguf_begin(3, 0, 1);
        put_number(&g, "general.alignment", GGUF_U32, wrong[i], 4);
        is_refused(&g, "a power of two");
    }
    g = gguf_begin(3, 0, 1);
    put_number(&g, "general.alignment", GGUF_F32, 32, 4);
    is_refused(&g, "a power of two");
    g = gguf_begin(3, 1, 1);
    put_number(&g, "general.alignment", GGUF_U32, 256, 4), put_tensor(&g, "a", SHAPE(4), 0, 0), put_data(&g, 256, 16);
    holds(&g, "an alignment of 256");
}

/* One tensor, well-formed but for what is given. */
static gguf_bytes one(const char *name, const uint64_t *dim, uint32_t type, uint64_t offset, size_t bytes)
{
    gguf_bytes g = gguf_begin(3, 1, 0);
    put_tensor(&g, name, dim, type, offset);
    put_data(&g, 32, bytes);
    return g;
}

static void test_G2_G3_sums_and_products_are_checked(void)
{
    gguf_bytes g = one("a", SHAPE(64), 8, 0, 68);
    holds(&g, "one tensor");
    g = one("a", SHAPE(48), 8, 0, 51);
    is_refused(&g, "no whole blocks of Q8_0 (32)");
    g = one("a", SHAPE(16, 2), 8, 0, 34); /* as many elements as a block has, but a row is half of one */
    is_refused(&g, "no whole blocks of Q8_0 (32)");
    g = one("a", SHAPE(64), 8, 0, 67);
    is_refused(&g, "cut off");
    g = one("a", SHAPE(64), 8, 8, 80);
    is_refused(&g, "no multiple of the alignment 32");
    g = one("a", SHAPE(64), 8, UINT64_MAX - 31, 80);
    is_refused(&g, "ends nowhere");
    g = one("a", SHAPE(64), 8, INT64_MAX / 32 * 32, 80);
    is_refused(&g, "cut off");
    g = one("a", SHAPE(1ull << 32, 1ull << 32), 0, 0, 80);
    is_refused(&g, "too large");
    g = one("a", SHAPE(1ull << 62), 0, 0, 80);
    is_refused(&g, "too large");
    g = one("a", SHAPE(UINT64_MAX), 0, 0, 80);
    is_refused(&g, "too large");
    g = one("a", SHAPE(4, 1, 1, 1, 1), 0, 0, 80);
    is_refused(&g, "has 5 dimensions");
    g = one("a", SHAPE(0), 0, 0, 80);
    is_refused(&g, "has 0 dimensions");
    g = one("", SHAPE(4), 0, 0, 80);
    is_refused(&g, "a tensor's name of 0 bytes");
    g = one("a", SHAPE(4), 99, 0, 80);
    is_refused(&g, "unknown type 99");
    g = one("a", SHAPE(4), 4, 0, 80); /* ggml gave this number up */
    is_refused(&g, "unknown type 4");
}

static void test_G7_text_is_utf_8(void)
{
    gguf_bytes g = gguf_begin(3, 0, 1);
    put_number(&g, "\xff\xfe", GGUF_U32, 0, 4);
    is_refused(&g, "not UTF-8");
    g = gguf_begin(3, 0, 1);
    put_string(&g, "a\0b", 3), put(&g, GGUF_U8, 4), put(&g, 0, 1);
    is_refused(&g, "a NUL");
    g = gguf_begin(3, 0, 1);
    put_key(&g, "k", GGUF_STRING), put_string(&g, "\xc0\x80", 2);
    is_refused(&g, "not UTF-8");
    g = one("\xff", SHAPE(4), 0, 0, 80);
    is_refused(&g, "not UTF-8");
}

static void test_a_dimension_of_0(void)
{
    gguf_bytes g = gguf_begin(3, 1, 0);
    put_string(&g, "a", 1);
    put(&g, 2, 4), put(&g, 4, 8), put(&g, 0, 8), put(&g, 0, 4), put(&g, 0, 8);
    put_data(&g, 32, 16);
    is_refused(&g, "a dimension of 0");
}

static gguf_bytes pair_of(const char *first, const char *second, uint64_t offset)
{
    gguf_bytes g = gguf_begin(3, 2, 0);
    put_tensor(&g, first, SHAPE(64), 0, 0);
    put_tensor(&g, second, SHAPE(8), 0, offset);
    put_data(&g, 32, 256 + 32);
    return g;
}

static void test_G5_G6_twice_and_overlap(void)
{
    gguf_bytes g = pair_of("a", "b", 256);
    holds(&g, "two tensors");
    g = gguf_begin(3, 0, 2);
    put_number(&g, "k", GGUF_U32, 0, 4), put_number(&g, "k", GGUF_U8, 0, 1);
    is_refused(&g, "key 'k' twice");
    g = pair_of("a", "a", 256);
    is_refused(&g, "tensor 'a' twice");
    g = pair_of("a", "b", 224);
    is_refused(&g, "overlaps");
    g = pair_of("a", "b", 0);
    is_refused(&g, "overlaps");
}

static void test_a_shape_from_before(void)
{
    static const struct {
        int64_t dim[3];
        const char *why;
    } rows[] = {{{8, 4, 2}, NULL},
                {{8, 4, 3}, "does not fit"},
                {{-8, -4, 2}, "does not fit"},
                {{0, 4, 2}, "does not fit"},
                {{1 << 30, 1 << 30, 1 << 4}, "does not fit"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        gguf_bytes g = gguf_begin(3, 1, 1);
        put_key(&g, "comfy.gguf.orig_shape.a", GGUF_ARRAY);
        put(&g, GGUF_I32, 4), put(&g, 3, 8);
        for (int k = 0; k < 3; k++) put(&g, (uint64_t)rows[i].dim[k], 4);
        put_tensor(&g, "a", SHAPE(64), 8, 0);
        put_data(&g, 32, 68);
        if (rows[i].why)
            is_refused(&g, rows[i].why);
        else
            holds(&g, "a shape that fits");
    }
    gguf_bytes g = gguf_begin(3, 1, 1);
    put_number(&g, "comfy.gguf.orig_shape.a", GGUF_U32, 64, 4);
    put_tensor(&g, "a", SHAPE(64), 8, 0), put_data(&g, 32, 68);
    is_refused(&g, "does not fit");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_what_is_said),       CASE(test_every_cut_is_refused),
        CASE(test_versions),           CASE(test_G1_counts_are_bounded_before_anything_is_allocated),
        CASE(test_keys_and_values),    CASE(test_G4_alignment_is_a_bounded_power_of_two),
        CASE(test_G7_text_is_utf_8),   CASE(test_G2_G3_sums_and_products_are_checked),
        CASE(test_a_dimension_of_0),   CASE(test_G5_G6_twice_and_overlap),
        CASE(test_a_shape_from_before)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
