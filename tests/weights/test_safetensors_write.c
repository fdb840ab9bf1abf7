/* test_safetensors_write.c - what is written is read back, is the reference's layout, and appears whole or not at all.
 */
#include "weights_kit.h"

static const float six[6] = {0, 1, 2, 3, 4, 5};
static const int64_t ids[2] = {-1, 49407};
static const uint8_t bytes[3] = {1, 2, 3};

static void test_what_is_written_is_read(void)
{
    const safetensors_source t[] = {{.name = "bytes", .dtype = KILN_U8, DIMS(3), .data = bytes},
                                    {.name = "m", .dtype = KILN_F32, DIMS(2, 3), .data = six},
                                    {.name = "scalar", .dtype = KILN_F32, .rank = 0, .data = six + 5},
                                    {.name = "i\"\\\n\xc3\xa9", .dtype = KILN_I64, DIMS(2), .data = ids},
                                    {.name = "none", .dtype = KILN_F16, DIMS(4, 0)}};
    const safetensors_remark remark[] = {{"format", "pt"}, {"note", "a \"b\"\n\xe2\x82\xac"}};
    error e = {0};
    CHECK_MSG(safetensors_write(at_path("w.safetensors"), t, 5, remark, 2, &e) == KILN_OK, "%s", e.message);
    kiln_weights *w = opened(at_path("w.safetensors"));
    REQUIRE(w);
    CHECK_EQ(weights_count(w), 5);
    for (size_t i = 0; i < 5; i++) {
        kiln_weight_info info = {.size = sizeof info};
        if (!CHECK_MSG(weights_find(w, t[i].name, &info) == KILN_OK, "'%s' is not there", t[i].name)) continue;
        CHECK(info.dtype == t[i].dtype && info.rank == t[i].rank &&
              (!info.rank || memcmp(info.dim, t[i].dim, info.rank * sizeof(int64_t)) == 0));
        const void *at = weights_map(w, t[i].name, NULL);
        CHECK(at && (info.bytes == 0 || memcmp(at, t[i].data, info.bytes) == 0));
    }
    CHECK_STR(weights_text(w, "__metadata__/note", NULL), "a \"b\"\n\xe2\x82\xac");
    weights_unref(w);
}

/* Larger elements first, then by name; header padded to 8; so every tensor is aligned, and order given is no matter. */
static void test_layout(void)
{
    const safetensors_source t[] = {{.name = "z", .dtype = KILN_U8, DIMS(3), .data = bytes},
                                    {.name = "b", .dtype = KILN_F32, DIMS(6), .data = six},
                                    {.name = "a", .dtype = KILN_F32, DIMS(1), .data = six},
                                    {.name = "y", .dtype = KILN_I64, DIMS(2), .data = ids}};
    const safetensors_source u[] = {t[3], t[1], t[0], t[2]};
    static const char *const order[] = {"y", "a", "b", "z"};
    str s = {0}, other = {0};
    safetensors_header h;
    error e = {0};
    REQUIRE(safetensors_encode(&s, t, 4, NULL, 0, &e) == KILN_OK &&
            safetensors_encode(&other, u, 4, NULL, 0, &e) == KILN_OK);
    CHECK(s.len == other.len && memcmp(s.data, other.data, s.len) == 0);
    REQUIRE(safetensors_parse(&h, "w", (const uint8_t *)s.data, s.len, &e) == KILN_OK);
    CHECK_EQ(h.data_start % 8, 0);
    for (size_t i = 0; i < 4; i++) CHECK_STR(h.entry[i].name, order[i]);
    safetensors_free(&h);
    str_free(&s);
    str_free(&other);
}

static void test_nothing_to_write(void)
{
    error e = {0};
    CHECK_EQ(safetensors_write(at_path("none.safetensors"), NULL, 0, NULL, 0, &e), KILN_OK);
    kiln_weights *w = opened(at_path("none.safetensors"));
    CHECK(w && weights_count(w) == 0);
    weights_unref(w);
}

static void test_what_is_refused(void)
{
    char name[514];
    memset(name, 'n', sizeof name);
    name[513] = '\0';
    static const int64_t nine[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    const struct {
        safetensors_source t;
        const char *says;
    } rows[] = {
        {{.name = NULL, .dtype = KILN_F32, DIMS(6), .data = six}, "cannot be a tensor's name"},
        {{.name = "", .dtype = KILN_F32, DIMS(6), .data = six}, "cannot be a tensor's name"},
        {{.name = name, .dtype = KILN_F32, DIMS(6), .data = six}, "cannot be a tensor's name"},
        {{.name = "__metadata__", .dtype = KILN_F32, DIMS(6), .data = six}, "cannot be a tensor's name"},
        {{.name = "\xff", .dtype = KILN_F32, DIMS(6), .data = six}, "cannot be a tensor's name"},
        {{.name = "a", .dtype = 0, DIMS(6), .data = six}, "no element type"},
        {{.name = "a", .dtype = KILN_F32, DIMS(-1), .data = six}, "an impossible shape"},
        {{.name = "a", .dtype = KILN_F32, DIMS(6), .data = NULL}, "no data"},
        {{.name = "a", .dtype = KILN_F32, .rank = 9, .dim = nine, .data = six}, "an impossible shape"},
        {{.name = "a", .dtype = KILN_F32, DIMS(INT64_MAX, 8), .data = six}, "an impossible shape"},
        {{.name = "good", .dtype = KILN_F32, DIMS(6), .data = six}, "'good' twice"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const safetensors_source t[] = {{.name = "good", .dtype = KILN_F32, DIMS(6), .data = six}, rows[i].t};
        error e = {0};
        CHECK_EQ(safetensors_write(at_path("refused.safetensors"), t, 2, NULL, 0, &e), KILN_ERR_INVALID);
        contains(e.message, rows[i].says);
        CHECK(access(at_path("refused.safetensors"), F_OK) != 0);
    }
    error e = {0};
    CHECK_EQ(safetensors_write(at_path("refused.safetensors"), NULL, 0, (safetensors_remark[]){{"k", "1"}, {"k", "2"}},
                               2, &e),
             KILN_ERR_INVALID);
    contains(e.message, "'k' twice");
    e = (error){0};
    CHECK_EQ(safetensors_write(at_path("no/such/folder/w.safetensors"), NULL, 0, NULL, 0, &e), KILN_ERR_IO);
    contains(e.message, "no/such/folder/w.safetensors");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_what_is_written_is_read),
        CASE(test_layout),
        CASE(test_nothing_to_write),
        CASE(test_what_is_refused),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
