/* test_value.c - values: kinds, references, immutability, digests, memory that runs out. */
#include "harness.h"

#include "base/memory_alloc.h"
#include "base/memory_guard.h"
#include "tensor/value.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const kiln_value_api *v = &value_api;

static kiln_value *tensor(uint32_t dtype, uint32_t rank, const int64_t *dim)
{
    kiln_tensor t = {.size = sizeof t};
    kiln_value *x = value_tensor_new(dtype, KILN_CPU, rank, dim, NULL);
    if (x && value_view(x, &t, NULL) == KILN_OK) memset(t.data, 0, (size_t)t.stride[0] * (size_t)t.dim[0]);
    return x;
}

static int released;
static void release(void *ptr) { released += *(int *)ptr; }

static void test_scalars(void)
{
    int64_t i = 0;
    double d = 0;
    int b = 0;
    size_t n = 0;
    kiln_value *whole = v->new_int(NULL, INT64_MIN), *number = v->new_float(NULL, 0.1), *yes = v->new_bool(NULL, 17),
               *text = v->new_string(NULL, "a\0b", 3);
    CHECK(v->get_int(whole, &i) == KILN_OK && i == INT64_MIN);
    CHECK(v->get_float(number, &d) == KILN_OK && d == 0.1);
    CHECK(v->get_float(whole, &d) == KILN_OK && d == -9223372036854775808.0); /* a whole number is a number too */
    CHECK_EQ(v->get_int(number, &i), KILN_ERR_INVALID);                       /* but never the reverse */
    CHECK(v->get_bool(yes, &b) == KILN_OK && b == 1);
    CHECK_EQ(v->get_bool(whole, &b), KILN_ERR_INVALID);
    CHECK_STR(v->get_string(text, &n), "a");
    CHECK_EQ(n, 3);
    CHECK(v->get_string(whole, &n) == NULL && v->get_string(NULL, NULL) == NULL);
    CHECK_EQ(v->kind(NULL), 0);
    value_unref(whole), value_unref(number), value_unref(yes), value_unref(text);
}

static void test_tensors(void)
{
    kiln_tensor t = {.size = sizeof t};
    error e = {0};
    kiln_value *x = tensor(KILN_F16, 3, (int64_t[]){2, 3, 5});
    CHECK_EQ(value_view(x, &t, &e), KILN_OK);
    CHECK(t.stride[2] == 2 && t.stride[1] == 10 && t.stride[0] == 30 && t.rank == 3 && t.dtype == KILN_F16 &&
          (uintptr_t)t.data % 64 == 0);
    const uint32_t short_sizes[] = {0, 4, offsetof(kiln_tensor, stride), offsetof(kiln_tensor, data)};
    for (size_t i = 0; i < 4; i++) { /* nothing is filled, so it must not say OK */
        kiln_tensor forgotten = {.size = short_sizes[i], .data = &e};
        CHECK_EQ(value_view(x, &forgotten, &e), KILN_ERR_BUG);
        CHECK_MSG(strstr(e.message, "set .size = sizeof first") != NULL, "%s", e.message);
        CHECK(forgotten.data == (void *)&e && forgotten.rank == 0);
        e = (error){0};
    }
    value_unref(x);
    const struct {
        uint32_t dtype, device, rank;
        int64_t dim[9];
        kiln_status status;
    } bad[] = {
        {0, KILN_CPU, 1, {1}, KILN_ERR_INVALID},
        {99, KILN_CPU, 1, {1}, KILN_ERR_INVALID},
        {KILN_F32, KILN_CUDA, 1, {1}, KILN_ERR_UNSUPPORTED},
        {KILN_F32, KILN_CPU, 9, {1, 1, 1, 1, 1, 1, 1, 1, 1}, KILN_ERR_INVALID},
        {KILN_F32, KILN_CPU, 1, {-1}, KILN_ERR_INVALID},
        {KILN_F32, KILN_CPU, 2, {INT64_MAX, INT64_MAX}, KILN_ERR_INVALID},
        {KILN_F32, KILN_CPU, 3, {1ll << 31, 1ll << 31, 4}, KILN_ERR_INVALID},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        error why = {0};
        CHECK(value_tensor_new(bad[i].dtype, bad[i].device, bad[i].rank, bad[i].dim, &why) == NULL);
        CHECK_MSG(why.status == bad[i].status, "row %zu: %s", i, status_name(why.status));
    }
    kiln_value *most = tensor(KILN_F32, 8, (int64_t[]){1, 2, 1, 1, 1, 1, 1, 3});
    CHECK(most != NULL && value_view(most, &t, &e) == KILN_OK && t.rank == 8 && t.dim[1] == 2 && t.dim[7] == 3 &&
          t.stride[0] == 24 && t.stride[1] == 12 && t.stride[7] == 4);
    value_unref(most);
    kiln_value *empty = tensor(KILN_F32, 2, (int64_t[]){0, 5});
    CHECK(empty != NULL && value_view(empty, &t, &e) == KILN_OK && t.dim[0] == 0);
    value_unref(empty);
}

static void test_maps_are_sorted_and_share(void)
{
    const char *key = NULL;
    kiln_value *map = v->new_map(NULL), *one = v->new_int(NULL, 1), *two = v->new_int(NULL, 2);
    static const char *const names[] = {"m", "a", "z", "b", "y", "c", "x"};
    for (size_t i = 0; i < 7; i++) CHECK_EQ(v->map_set(map, names[i], one), KILN_OK);
    CHECK_EQ(value_refs(one), 8);
    CHECK_EQ(v->map_set(map, "a", two), KILN_OK);
    CHECK_EQ(v->map_set(map, "z", NULL), KILN_OK);
    CHECK_EQ(v->map_set(map, "absent", NULL), KILN_OK);
    CHECK_EQ(v->count(map), 6);
    static const char *const sorted[] = {"a", "b", "c", "m", "x", "y"};
    for (size_t i = 0; i < 6; i++) CHECK(v->map_at(map, i, &key) != NULL && strcmp(key, sorted[i]) == 0);
    CHECK(v->map_at(map, 6, &key) == NULL);
    CHECK(v->map_get(map, "a") == two && v->map_get(map, "z") == NULL && v->map_get(one, "a") == NULL);
    CHECK_EQ(v->map_set(map, "", one), KILN_ERR_INVALID);
    CHECK_EQ(v->map_set(one, "a", one), KILN_ERR_INVALID);
    kiln_value *copy = v->map_copy(NULL, map);
    CHECK_EQ(value_refs(two), 3);
    CHECK_EQ(v->map_set(copy, "a", one), KILN_OK);
    CHECK(v->map_get(map, "a") == two && v->map_get(copy, "a") == one);
    CHECK(v->map_copy(NULL, one) == NULL && v->list_copy(NULL, map) == NULL);
    value_unref(map), value_unref(copy);
    CHECK(value_refs(one) == 1 && value_refs(two) == 1);
    value_unref(one), value_unref(two);
}

static void test_published_values_do_not_change(void)
{
    kiln_value *list = v->new_list(NULL), *inner = v->new_map(NULL), *one = v->new_int(NULL, 1);
    CHECK_EQ(v->map_set(inner, "a", one), KILN_OK);
    CHECK_EQ(v->list_push(list, inner), KILN_OK);
    CHECK(value_published(inner) && value_published(one) && !value_published(list));
    CHECK_EQ(v->map_set(inner, "b", one), KILN_ERR_BUG); /* it was put into another value */
    CHECK_EQ(v->map_set(inner, "a", NULL), KILN_ERR_BUG);
    CHECK_EQ(v->list_push(list, list), KILN_ERR_BUG);
    CHECK_EQ(v->list_push(list, NULL), KILN_ERR_INVALID);
    value_publish(list);
    CHECK_EQ(v->list_push(list, one), KILN_ERR_BUG);
    CHECK_EQ(v->count(list), 1);
    kiln_value *copy = v->list_copy(NULL, list);
    CHECK_EQ(v->list_push(copy, one), KILN_OK);
    CHECK(v->count(copy) == 2 && v->list_at(copy, 0) == inner && v->list_at(copy, 2) == NULL);
    value_unref(list), value_unref(copy), value_unref(inner), value_unref(one);
}

static void test_objects_are_released_once(void)
{
    int weight = 1;
    kiln_value *x = v->new_object(NULL, "MODEL", &weight, release, "print");
    kiln_value *map = v->new_map(NULL);
    released = 0;
    CHECK_EQ(v->map_set(map, "m", x), KILN_OK);
    CHECK(v->object(x, "MODEL") == &weight && v->object(x, "VAE") == NULL && v->object(map, "MODEL") == NULL);
    CHECK_STR(v->object_type(x), "MODEL");
    CHECK_STR(v->object_fingerprint(x), "print");
    value_unref(x);
    CHECK_EQ(released, 0);
    value_unref(map);
    CHECK_EQ(released, 1);
}

/* A chain of 200,000 maps is let go without a stack as deep. */
static void test_deep_values_are_let_go(void)
{
    kiln_value *at = v->new_map(NULL);
    for (int i = 0; i < 200000; i++) {
        kiln_value *outer = v->new_map(NULL);
        v->map_set(outer, "in", at);
        value_unref(at);
        at = outer;
    }
    digest d;
    error e = {0};
    CHECK_EQ(value_digest(at, &d, &e), KILN_ERR_INVALID); /* refused, not followed */
    CHECK(!value_has_nonfinite(at));
    value_unref(at);
}

static digest digest_of_value(kiln_value *x)
{
    digest d = {0, 0};
    CHECK_EQ(value_digest(x, &d, NULL), KILN_OK);
    value_unref(x);
    return d;
}

static kiln_value *map_of(const char *key, kiln_value *item)
{
    kiln_value *map = v->new_map(NULL);
    v->map_set(map, key, item);
    value_unref(item);
    return map;
}

static void test_digests_tell_values_apart(void)
{
    digest all[] = {
        digest_of_value(v->new_int(NULL, 1)),
        digest_of_value(v->new_int(NULL, 2)),
        digest_of_value(v->new_float(NULL, 1)),
        digest_of_value(v->new_bool(NULL, 1)),
        digest_of_value(v->new_string(NULL, "1", 1)),
        digest_of_value(v->new_string(NULL, "", 0)),
        digest_of_value(v->new_list(NULL)),
        digest_of_value(v->new_map(NULL)),
        digest_of_value(map_of("a", v->new_int(NULL, 1))),
        digest_of_value(map_of("b", v->new_int(NULL, 1))),
        digest_of_value(map_of("a", v->new_int(NULL, 2))),
        digest_of_value(tensor(KILN_F32, 2, (int64_t[]){2, 3})),
        digest_of_value(tensor(KILN_F32, 2, (int64_t[]){3, 2})),
        digest_of_value(tensor(KILN_I32, 2, (int64_t[]){2, 3})),
        digest_of_value(tensor(KILN_F32, 1, (int64_t[]){6})),
        digest_of_value(v->new_object(NULL, "MODEL", NULL, NULL, "a")),
        digest_of_value(v->new_object(NULL, "MODEL", NULL, NULL, "b")),
        digest_of_value(v->new_object(NULL, "VAE", NULL, NULL, "a")),
        digest_of_value(v->new_object(NULL, "MODEL", NULL, NULL, NULL)),
    };
    size_t n = sizeof all / sizeof all[0];
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++)
            CHECK_MSG(!digest_equal(all[i], all[k]), "values %zu and %zu have one digest", i, k);
    CHECK(digest_equal(all[11], digest_of_value(tensor(KILN_F32, 2, (int64_t[]){2, 3}))));
    kiln_value *one = v->new_map(NULL), *other = v->new_map(NULL), *x = v->new_int(NULL, 1), *y = v->new_int(NULL, 2);
    v->map_set(one, "x", x), v->map_set(one, "y", y), v->map_set(other, "y", y), v->map_set(other, "x", x);
    value_unref(x), value_unref(y);
    CHECK(digest_equal(digest_of_value(one), digest_of_value(other))); /* the order of setting is no content */
}

static void test_numbers_that_are_not_finite(void)
{
    static const struct {
        uint32_t dtype;
        uint32_t bits;
        int bad;
    } rows[] = {
        {KILN_F32, 0x7f800000u, 1}, {KILN_F32, 0xff800000u, 1}, {KILN_F32, 0x7fc00001u, 1}, {KILN_F32, 0x7f7fffffu, 0},
        {KILN_F16, 0x7c00u, 1},     {KILN_F16, 0xfe00u, 1},     {KILN_F16, 0x7bffu, 0},     {KILN_BF16, 0x7f80u, 1},
        {KILN_BF16, 0xffc0u, 1},    {KILN_BF16, 0x7f7fu, 0},    {KILN_I32, 0x7f800000u, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        kiln_tensor t = {.size = sizeof t};
        kiln_value *x = tensor(rows[i].dtype, 1, (int64_t[]){5});
        if (value_view(x, &t, NULL) == KILN_OK)
            memcpy((char *)t.data + t.stride[0] * 4, &rows[i].bits, (size_t)t.stride[0]); /* the last of five */
        kiln_value *holder = map_of("x", x);
        CHECK_MSG(value_has_nonfinite(holder) == rows[i].bad, "row %zu", i);
        value_unref(holder);
    }
    kiln_value *inf = v->new_float(NULL, INFINITY);
    CHECK(value_has_nonfinite(inf));
    value_unref(inf);
}

static void *share(void *arg)
{
    for (int i = 0; i < 20000; i++) {
        value_ref(arg);
        value_unref(arg);
    }
    return NULL;
}

static void test_references_from_many_threads(void)
{
    pthread_t thread[4];
    kiln_value *x = v->new_int(NULL, 1);
    for (int i = 0; i < 4; i++) CHECK_EQ(pthread_create(&thread[i], NULL, share, x), 0);
    for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
    CHECK_EQ(value_refs(x), 1);
    value_unref(x);
}

/* Builds a LATENT with a mask and copies it; 0 when memory ran out on the way. Everything is let go again either way.
 */
static int build_and_copy(void)
{
    kiln_value *map = v->new_map(NULL), *samples = tensor(KILN_F32, 4, (int64_t[]){1, 2, 2, 4}),
               *text = v->new_string(NULL, "x", 1), *list = v->new_list(NULL);
    int good = map && samples && text && list;
    for (int i = 0; good && i < 9; i++) good = v->list_push(list, text) == KILN_OK;
    good = good && v->map_set(map, "samples", samples) == KILN_OK && v->map_set(map, "list", list) == KILN_OK &&
           v->map_set(map, "text", text) == KILN_OK;
    kiln_value *copy = good ? v->map_copy(NULL, map) : NULL, *again = good ? v->list_copy(NULL, list) : NULL;
    kiln_value *thing = v->new_object(NULL, "MODEL", NULL, NULL, "print");
    good = good && copy && again && thing;
    value_unref(map), value_unref(samples), value_unref(text), value_unref(list), value_unref(copy), value_unref(again),
        value_unref(thing);
    return good;
}

static void test_out_of_memory_at_each_allocation(void)
{
    for (int k = 0; k < 200; k++) {
        mem_fail_at(k, 0);
        int good = build_and_copy(), enough = mem_count() <= k;
        mem_fail_at(-1, 0);
        CHECK_EQ(good, enough);
        if (enough) return;
    }
    CHECK_MSG(0, "never got through");
}

static void test_guarded_memory(void)
{
    size_t alive = mem_guard_alive();
    mem_guard(1, 0x5a);
    unsigned char *p = mem_aligned(64, 100);
    mem_guard(0, 0);
    REQUIRE(p != NULL);
    CHECK_EQ(mem_guard_alive(), alive + 1);
    CHECK(p[0] == 0x5a && p[99] == 0x5a && (uintptr_t)p % 64 == 0);
    CHECK_EQ(mem_guard_damaged(), 0);
    ((volatile unsigned char *)p)[100] = 0; /* between the block and the page behind it */
    CHECK_EQ(mem_guard_damaged(), 1);
    CHECK_EQ(mem_guard_place(p + 128), GUARD_AFTER);
    CHECK_EQ(mem_guard_place(p), GUARD_NOTHING);
    CHECK(mem_guard_protect(p, 0) && !mem_guard_protect(p + 1, 0));
    CHECK_EQ(mem_guard_place(p), GUARD_READ_ONLY);
    mem_free(p);
    CHECK_EQ(mem_guard_alive(), alive);
    CHECK_EQ(mem_guard_damaged(), 0); /* it was counted */
    mem_guard(1, 0x5a);
    p = mem_aligned(64, 100);
    mem_guard(0, 0);
    REQUIRE(p != NULL);
    ((volatile unsigned char *)p)[100] = 0;
    mem_free(p);
    CHECK_EQ(mem_guard_damaged(), 1); /* freed before anybody looked */
    CHECK_EQ(mem_guard_damaged(), 0);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_scalars),
        CASE(test_tensors),
        CASE(test_maps_are_sorted_and_share),
        CASE(test_published_values_do_not_change),
        CASE(test_objects_are_released_once),
        CASE(test_deep_values_are_let_go),
        CASE(test_digests_tell_values_apart),
        CASE(test_numbers_that_are_not_finite),
        CASE(test_references_from_many_threads),
        CASE(test_out_of_memory_at_each_allocation),
        CASE(test_guarded_memory),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
