/* test_value.c - values: references, read-only once published, digests, bytes, the standard port types, no memory. */
#include "harness.h"
#include "tensor/value.h"

#include "base/memory_alloc.h"

#include <math.h>
#include <string.h>

#define DIM(...) ((const int64_t[]){__VA_ARGS__})

static int released;
static void release(void *p)
{
    (void)p;
    released++;
}

static kiln_value *tensor(uint32_t dtype, uint32_t rank, const int64_t *dim, float fill)
{
    error e = {0};
    kiln_value *v = value_tensor_new(dtype, KILN_CPU, rank, dim, &e);
    kiln_tensor t = {.size = sizeof t};
    if (!CHECK_MSG(v && value_view(v, &t, &e) == KILN_OK, "%s", e.message)) return v;
    int64_t n = 1;
    for (uint32_t i = 0; i < rank; i++) n *= dim[i];
    for (int64_t i = 0; i < n && dtype == KILN_F32; i++) ((float *)t.data)[i] = fill;
    if (dtype != KILN_F32) memset(t.data, 0, (size_t)n * (dtype == KILN_I64 || dtype == KILN_F64 ? 8 : 1));
    return v;
}

static void put(kiln_value *map, const char *key, kiln_value *item)
{
    CHECK_EQ(value_api.map_set(map, key, item), KILN_OK);
    value_unref(item);
}

static void test_references(void)
{
    released = 0;
    kiln_value *o = value_object("MODEL", &released, release, "fp"), *list = value_list();
    CHECK_EQ(value_refs(o), 1);
    CHECK_EQ(value_api.list_push(list, o), KILN_OK);
    CHECK_EQ(value_refs(o), 2);
    value_unref(o);
    CHECK_EQ(released, 0);
    CHECK(value_api.object(value_api.list_at(list, 0), "MODEL") == &released);
    CHECK(value_api.object(value_api.list_at(list, 0), "VAE") == NULL);
    value_unref(list);
    CHECK_EQ(released, 1);
    value_unref(NULL);
    CHECK_EQ(value_api.kind(NULL), 0);
}

static void test_deep_chain_is_freed(void)
{
    released = 0;
    kiln_value *v = value_object("X", NULL, release, NULL);
    for (int i = 0; i < 200000; i++) {
        kiln_value *list = value_list();
        CHECK_EQ(value_api.list_push(list, v), KILN_OK);
        value_unref(v);
        v = list;
    }
    digest d;
    error e = {0};
    CHECK_EQ(value_digest(v, &d, &e), KILN_ERR_INVALID); /* deeper than is followed: said, not overflowed */
    value_unref(v);
    CHECK_EQ(released, 1);
}

static void test_published_is_read_only(void)
{
    kiln_value *list = value_list(), *map = value_map(), *one = value_int(1);
    CHECK_EQ(value_api.list_push(list, one), KILN_OK);
    CHECK(value_published(one));
    CHECK_EQ(value_api.map_set(map, "a", list), KILN_OK);
    CHECK(value_published(list));
    CHECK_EQ(value_api.list_push(list, one), KILN_ERR_BUG);
    value_publish(map);
    CHECK_EQ(value_api.map_set(map, "b", one), KILN_ERR_BUG);
    CHECK_EQ(value_api.map_set(map, "a", NULL), KILN_ERR_BUG);
    kiln_value *copy = value_api.map_copy(NULL, map), *more = value_api.list_copy(NULL, list);
    CHECK_EQ(value_api.map_set(copy, "b", one), KILN_OK);
    CHECK_EQ(value_api.list_push(more, one), KILN_OK);
    CHECK_EQ(value_api.count(map), 1);
    CHECK_EQ(value_api.count(list), 1);
    CHECK_EQ(value_api.count(copy), 2);
    kiln_value *self = value_list();
    CHECK_EQ(value_api.list_push(self, self), KILN_ERR_BUG);
    value_unref(self), value_unref(copy), value_unref(more), value_unref(map), value_unref(list), value_unref(one);
}

static void test_maps(void)
{
    kiln_value *m = value_map();
    static const char *const key[] = {"m", "a", "z", "c", "b"};
    for (int i = 0; i < 5; i++) put(m, key[i], value_int(i));
    put(m, "z", value_int(9));
    CHECK_EQ(value_api.map_set(m, "a", NULL), KILN_OK);
    CHECK_EQ(value_api.map_set(m, "not there", NULL), KILN_OK);
    CHECK_EQ(value_api.map_set(m, "", m), KILN_ERR_INVALID);
    static const char *const sorted[] = {"b", "c", "m", "z"};
    CHECK_EQ(value_api.count(m), 4);
    for (size_t i = 0; i < 4; i++) {
        const char *k = NULL;
        CHECK(value_api.map_at(m, i, &k) != NULL);
        CHECK_STR(k, sorted[i]);
    }
    int64_t n = 0;
    CHECK_EQ(value_api.get_int(value_api.map_get(m, "z"), &n), KILN_OK);
    CHECK_EQ(n, 9);
    CHECK(value_api.map_get(m, "a") == NULL);
    CHECK(value_api.map_at(m, 4, NULL) == NULL);
    value_unref(m);
}

static void test_getters_never_convert(void)
{
    kiln_value *v[] = {value_int(3), value_float(2.5), value_bool(1), value_string("x\0y", 3), value_list()};
    int64_t i;
    double d = 0;
    int b;
    size_t n = 0;
    CHECK_EQ(value_api.get_int(v[1], &i), KILN_ERR_INVALID);
    CHECK_EQ(value_api.get_int(v[2], &i), KILN_ERR_INVALID);
    CHECK_EQ(value_api.get_float(v[0], &d), KILN_OK); /* but for this one */
    CHECK(d == 3);
    CHECK_EQ(value_api.get_float(v[2], &d), KILN_ERR_INVALID);
    CHECK_EQ(value_api.get_bool(v[0], &b), KILN_ERR_INVALID);
    CHECK(value_api.get_string(v[0], NULL) == NULL);
    CHECK(value_api.get_string(v[3], &n) && n == 3);
    CHECK(value_api.list_at(v[3], 0) == NULL && value_api.map_get(v[4], "a") == NULL);
    CHECK_EQ(value_api.get_int(NULL, &i), KILN_ERR_INVALID);
    kiln_tensor t = {.size = sizeof t};
    error e = {0};
    CHECK_EQ(value_view(v[0], &t, &e), KILN_ERR_INVALID);
    CHECK_STR(e.message, "expected a tensor, got a whole number");
    for (int k = 0; k < 5; k++) value_unref(v[k]);
}

static void test_tensors(void)
{
    error e = {0};
    kiln_value *v = value_tensor_new(KILN_F16, KILN_CPU, 3, DIM(2, 3, 5), &e);
    kiln_tensor t = {.size = sizeof t};
    CHECK_EQ(value_view(v, &t, &e), KILN_OK);
    CHECK(t.stride[0] == 30 && t.stride[1] == 10 && t.stride[2] == 2 && (uintptr_t)t.data % 64 == 0);
    value_unref(v);
    static const struct {
        uint32_t dtype, device, rank;
        int64_t dim[6];
        kiln_status status;
    } bad[] = {{0, KILN_CPU, 1, {1}, KILN_ERR_INVALID}, {99, KILN_CPU, 1, {1}, KILN_ERR_INVALID}, {KILN_F32, KILN_CPU, 7, {1}, KILN_ERR_INVALID},
               {KILN_F32, KILN_CPU, 1, {-1}, KILN_ERR_INVALID}, {KILN_F32, KILN_CPU, 2, {INT64_MAX, INT64_MAX}, KILN_ERR_INVALID},
               {KILN_F32, KILN_CPU, 1, {INT64_MAX / 2}, KILN_ERR_INVALID}, {KILN_F32, KILN_CUDA, 1, {1}, KILN_ERR_UNSUPPORTED}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        error why = {0};
        CHECK(value_tensor_new(bad[i].dtype, bad[i].device, bad[i].rank, bad[i].dim, &why) == NULL);
        CHECK_MSG(why.status == bad[i].status && why.message[0], "case %zu: %s", i, status_name(why.status));
    }
    v = value_tensor_new(KILN_F32, KILN_CPU, 2, DIM(0, 4), &e);
    CHECK(v != NULL);
    value_unref(v);
}

static digest digest_and_drop(kiln_value *v)
{
    digest d = {0};
    error e = {0};
    CHECK_EQ(value_digest(v, &d, &e), KILN_OK);
    value_unref(v);
    return d;
}

static kiln_value *list_of(kiln_value *a, kiln_value *b)
{
    kiln_value *l = value_list();
    CHECK_EQ(value_api.list_push(l, a), KILN_OK);
    value_unref(a);
    if (b) CHECK_EQ(value_api.list_push(l, b), KILN_OK), value_unref(b);
    return l;
}

static kiln_value *map_of(const char *key, kiln_value *item)
{
    kiln_value *m = value_map();
    put(m, key, item);
    return m;
}

/* Each differs from every other, and equals itself made a second time. */
static kiln_value *sample(int i)
{
    switch (i) {
    case 0: return value_int(1);
    case 1: return value_int(2);
    case 2: return value_float(1);
    case 3: return value_bool(1);
    case 4: return value_string("1", 1);
    case 5: return value_string("1\0", 2);
    case 6: return value_list();
    case 7: return value_map();
    case 8: return list_of(value_int(1), NULL);
    case 9: return list_of(value_int(1), value_int(2));
    case 10: return list_of(value_int(2), value_int(1));
    case 11: return list_of(list_of(value_int(1), NULL), value_int(2));
    case 12: return list_of(list_of(value_int(1), value_int(2)), NULL);
    case 13: return map_of("a", value_int(1));
    case 14: return map_of("b", value_int(1));
    case 15: return tensor(KILN_F32, 2, DIM(2, 3), 1);
    case 16: return tensor(KILN_F32, 2, DIM(3, 2), 1);
    case 17: return tensor(KILN_F32, 1, DIM(6), 1);
    case 18: return tensor(KILN_F32, 2, DIM(2, 3), 2);
    case 19: return tensor(KILN_U8, 1, DIM(4), 0);
    case 20: return tensor(KILN_BOOL8, 1, DIM(4), 0);
    case 21: return value_object("MODEL", NULL, NULL, "one");
    case 22: return value_object("MODEL", NULL, NULL, "two");
    case 23: return value_object("CLIP", NULL, NULL, "one");
    case 24: return value_object("MODEL", NULL, NULL, NULL);
    default: return NULL;
    }
}

static void test_digests(void)
{
    enum { N = 25 };
    digest d[N];
    error e = {0};
    for (int i = 0; i < N; i++) {
        d[i] = digest_and_drop(sample(i));
        CHECK_MSG(digest_equal(d[i], digest_and_drop(sample(i))), "sample %d: two digests", i);
        for (int k = 0; k < i; k++) CHECK_MSG(!digest_equal(d[i], d[k]), "samples %d and %d have one digest", i, k);
    }
    CHECK(digest_equal(digest_and_drop(value_float(0.0)), digest_and_drop(value_float(-0.0))));
    CHECK_EQ(value_digest(NULL, &d[0], &e), KILN_ERR_INVALID);
}

/* What is shared counts once, however often it is met. */
static void test_bytes(void)
{
    kiln_value *big = tensor(KILN_F32, 1, DIM(1000), 0), *list = value_list();
    size_t one = value_bytes(big);
    CHECK(one >= 4000 && one < 4500);
    for (int i = 0; i < 10; i++) CHECK_EQ(value_api.list_push(list, big), KILN_OK);
    CHECK_MSG(value_bytes(list) < one + 500, "%zu", value_bytes(list));
    for (int i = 0; i < 30; i++) { /* two to the thirtieth ways to the tensor */
        kiln_value *up = value_list();
        CHECK_EQ(value_api.list_push(up, list), KILN_OK);
        CHECK_EQ(value_api.list_push(up, list), KILN_OK);
        value_unref(list);
        list = up;
    }
    CHECK_MSG(value_bytes(list) < one + 10000, "%zu", value_bytes(list));
    value_unref(list);
    value_unref(big);
    CHECK_EQ(value_bytes(NULL), 0);
}

static void test_standard_types(void)
{
    static const kiln_port image = {.type = "IMAGE"}, mask = {.type = "MASK"}, latent = {.type = "LATENT"}, conditioning = {.type = "CONDITIONING"},
                           sigmas = {.type = "SIGMAS"}, model = {.type = "MODEL"}, whole = {.type = "INT"}, own = {.type = "MY_THING"},
                           halves = {.type = "MY_THING", .dtypes = 1u << KILN_F16}, flat = {.type = "MY_THING", .rank_min = 1, .rank_max = 2},
                           many = {.type = "IMAGE", .flags = KILN_PORT_LIST};
    const struct {
        const char *what;
        kiln_value *v;
        const kiln_port *port;
        int ok;
    } rows[] = {
        {"image", tensor(KILN_F32, 4, DIM(1, 2, 2, 3), 0), &image, 1}, {"image with alpha", tensor(KILN_F32, 4, DIM(1, 2, 2, 4), 0), &image, 1},
        {"image of 2 channels", tensor(KILN_F32, 4, DIM(1, 2, 2, 2), 0), &image, 0}, {"image of rank 3", tensor(KILN_F32, 3, DIM(2, 2, 3), 0), &image, 0},
        {"image of bytes", tensor(KILN_U8, 4, DIM(1, 2, 2, 3), 0), &image, 0}, {"image that is a number", value_int(1), &image, 0},
        {"mask", tensor(KILN_F32, 3, DIM(1, 2, 2), 0), &mask, 1}, {"mask of rank 2", tensor(KILN_F32, 2, DIM(2, 2), 0), &mask, 0},
        {"latent", map_of("samples", tensor(KILN_F32, 4, DIM(1, 2, 2, 4), 0)), &latent, 1}, {"latent without samples", value_map(), &latent, 0},
        {"latent that is a tensor", tensor(KILN_F32, 4, DIM(1, 2, 2, 4), 0), &latent, 0}, {"latent of rank 3", map_of("samples", tensor(KILN_F32, 3, DIM(2, 2, 4), 0)), &latent, 0},
        {"no conditioning", value_list(), &conditioning, 1}, {"conditioning", list_of(map_of("tokens", tensor(KILN_F32, 3, DIM(1, 77, 8), 0)), NULL), &conditioning, 1},
        {"conditioning of numbers", list_of(value_int(1), NULL), &conditioning, 0}, {"conditioning without tokens", list_of(value_map(), NULL), &conditioning, 0},
        {"sigmas", tensor(KILN_F32, 1, DIM(3), 0), &sigmas, 1}, {"sigmas of rank 2", tensor(KILN_F32, 2, DIM(3, 1), 0), &sigmas, 0},
        {"model", value_object("MODEL", NULL, NULL, NULL), &model, 1}, {"model that is a CLIP", value_object("CLIP", NULL, NULL, NULL), &model, 0}, {"model that is a text", value_string("x", 1), &model, 0},
        {"int", value_int(1), &whole, 1}, {"int that is a float", value_float(1), &whole, 0},
        {"an own type", value_int(1), &own, 1}, {"declared dtype", tensor(KILN_F16, 1, DIM(2), 0), &halves, 1}, {"another dtype", tensor(KILN_F32, 1, DIM(2), 0), &halves, 0},
        {"declared rank", tensor(KILN_F32, 2, DIM(2, 2), 0), &flat, 1}, {"another rank", tensor(KILN_F32, 3, DIM(2, 2, 1), 0), &flat, 0},
        {"a list", value_list(), &many, 1}, {"no list", tensor(KILN_F32, 4, DIM(1, 2, 2, 3), 0), &many, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        error e = {0};
        kiln_status status = value_check_type(rows[i].v, rows[i].port, &e);
        CHECK_MSG(rows[i].ok ? status == KILN_OK : status == KILN_ERR_INVALID && e.message[0], "%s: %s %s", rows[i].what, status_name(status), e.message);
        value_unref(rows[i].v);
    }
    error e = {0};
    CHECK_EQ(value_check_type(NULL, &image, &e), KILN_ERR_INVALID);
}

static void test_nonfinite(void)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        kiln_value *v = map_of("samples", tensor(KILN_F32, 1, DIM(3), odd[i]));
        CHECK_EQ(value_has_nonfinite(v), 1);
        value_unref(v);
    }
    kiln_value *v = map_of("samples", tensor(KILN_F32, 1, DIM(3), 3.4e38f));
    CHECK_EQ(value_has_nonfinite(v), 0);
    value_unref(v);
}

static void test_no_memory(void)
{
    int done = 0;
    for (int64_t k = 0; k < 200 && !done; k++) {
        error e = {0};
        released = 0;
        mem_fail_at(k, 0);
        kiln_value *t = value_tensor_new(KILN_F32, KILN_CPU, 1, DIM(4), &e), *o = value_object("X", &e, release, "f"), *s = value_string("abc", 3), *m = value_map(), *l = value_list();
        int ok = t && o && s && m && l;
        for (int i = 0; ok && i < 9; i++) {
            char key[4] = {(char)('a' + i), 0};
            ok = value_api.map_set(m, key, i % 2 ? s : t) == KILN_OK && value_api.list_push(l, o) == KILN_OK;
        }
        kiln_value *copy = ok ? value_api.map_copy(NULL, m) : NULL, *copy2 = ok ? value_api.list_copy(NULL, l) : NULL;
        ok = copy && copy2;
        done = mem_count() <= k;
        mem_fail_at(-1, 0);
        CHECK_EQ(ok, done);
        int had = o != NULL;
        value_unref(copy), value_unref(copy2), value_unref(m), value_unref(l), value_unref(s), value_unref(t), value_unref(o);
        CHECK_EQ(released, had);
    }
    CHECK(done);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_references), CASE(test_deep_chain_is_freed), CASE(test_published_is_read_only), CASE(test_maps),
                                      CASE(test_getters_never_convert), CASE(test_tensors), CASE(test_digests), CASE(test_bytes), CASE(test_standard_types),
                                      CASE(test_nonfinite), CASE(test_no_memory)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
