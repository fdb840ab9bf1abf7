/* test_hook_nodes.c - keyframes, and what the nodes for conditionings set: numbers as torch has them between two
 * others, lists in their order, each hook once, entries that keep what they had. */
#include "hook_nodes.h"
#include "node_kit.h"

static kiln_value *pushed(kiln_value *list, kiln_value *item)
{
    CHECK_EQ(value_api.list_push(list, item), KILN_OK);
    value_unref(item);
    return list;
}

static kiln_value *with_key(kiln_value *map, const char *key, kiln_value *item)
{
    CHECK_EQ(value_api.map_set(map, key, item), KILN_OK);
    value_unref(item);
    return map;
}

static int done(const made *m) { return CHECK_MSG(m->status == KILN_OK, "%s", m->why.message); }

static double number_of(const kiln_value *map, const char *key)
{
    double d = -1e9;
    return value_api.get_float(value_api.map_get(map, key), &d) == KILN_OK ? d : -1e9;
}

/* Strength, start and guarantee of each keyframe. */
static void check_frames(const kiln_value *list, const double (*want)[3], size_t n)
{
    CHECK_EQ(value_api.count(list), n);
    for (size_t i = 0; i < n && i < value_api.count(list); i++) {
        const kiln_value *k = value_api.list_at(list, i);
        CHECK_NEAR(number_of(k, "strength"), want[i][0], 1e-6);
        CHECK_NEAR(number_of(k, "start_percent"), want[i][1], 1e-6);
        CHECK_NEAR(number_of(k, "guarantee_steps"), want[i][2], 0);
    }
}

/* ---- keyframes ---- */

static void test_keyframes_are_in_the_order_of_their_starts(void)
{
    made a = node_with(&node_create_hook_keyframe, "strength_mult=0.5; start_percent=0.6", NULL, NULL, NULL);
    if (!done(&a)) return;
    made b = node_with(&node_create_hook_keyframe, "strength_mult=-2; start_percent=0.25", a.out[0], NULL, NULL);
    if (!done(&b)) return;
    made c = node_with(&node_create_hook_keyframe, "start_percent=0.25", b.out[0], NULL, NULL);
    if (!done(&c)) return;
    check_frames(c.out[0], (const double[][3]){{-2, 0.25, 1}, {1, 0.25, 1}, {0.5, 0.6, 1}}, 3);
    check_frames(a.out[0], (const double[][3]){{0.5, 0.6, 1}}, 1);
    made_free(&a), made_free(&b), made_free(&c);
}

/* torch.linspace, and numpy's squares and cosines of it. */
static void test_keyframes_between_two(void)
{
    static const struct {
        const char *how;
        double strength[5];
    } rows[] = {{"linear", {0.5, 0.875, 1.25, 1.625, 2}},
                {"ease_in", {0.5, 0.59375, 0.875, 1.34375, 2}},
                {"ease_out", {0.5, 1.15625, 1.625, 1.90625, 2}},
                {"ease_in_out", {0.5, 0.71966991, 1.25, 1.78033009, 2}}};
    char text[200];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(text, sizeof text,
                 "strength_start=0.5; strength_end=2; start_percent=0.1; end_percent=0.9; interpolation=%s",
                 rows[i].how);
        made m = node_with(&node_create_hook_keyframes_interpolated, text, NULL, NULL, NULL);
        if (!done(&m)) return;
        double want[5][3];
        for (int k = 0; k < 5; k++) want[k][0] = rows[i].strength[k], want[k][1] = 0.1 + 0.2 * k, want[k][2] = k == 0;
        check_frames(m.out[0], (const double(*)[3])want, 5);
        made_free(&m);
    }
    /* the other way round: the first that is made stays for an evaluation, wherever it comes */
    made m = node_with(&node_create_hook_keyframes_interpolated,
                       "strength_start=0; start_percent=1; end_percent=0; keyframes_count=3", NULL, NULL, NULL);
    if (!done(&m)) return;
    check_frames(m.out[0], (const double[][3]){{1, 0, 0}, {0.5, 0.5, 0}, {0, 1, 1}}, 3);
    made_free(&m);
}

static void test_keyframes_from_floats(void)
{
    kiln_value *floats = value_list();
    for (int i = 0; i < 3; i++) pushed(floats, value_api.new_float(NULL, i * 2 - 1));
    made one = node_with(&node_create_hook_keyframe, "start_percent=0.3", NULL, NULL, NULL);
    made m = node_with(&node_create_hook_keyframes_from_floats, "end_percent=0.5", floats, one.out[0], NULL);
    if (!done(&m)) return;
    check_frames(m.out[0], (const double[][3]){{-1, 0, 1}, {1, 0.25, 0}, {1, 0.3, 1}, {3, 0.5, 0}}, 4);
    made_free(&m), made_free(&one), value_unref(floats);
    floats = value_list();
    m = node_with(&node_create_hook_keyframes_from_floats, "", floats, NULL, NULL);
    refused(&m, KILN_ERR_INVALID, "floats_strength has 0 numbers");
    value_unref(floats);
}

/* ---- hooks ---- */

static kiln_value *hook_called(const char *name)
{
    static int thing;
    kiln_value *hook = value_api.new_object(NULL, "HOOK", &thing, NULL, name);
    return pushed(value_list(), with_key(value_map(), "hook", hook));
}

/* "ab" for two of that name. */
static const char *names_of(const kiln_value *list)
{
    static char text[20];
    size_t n = value_api.count(list);
    for (size_t i = 0; i < n && i < 19; i++)
        text[i] = *value_api.object_fingerprint(value_api.map_get(value_api.list_at(list, i), "hook"));
    text[n] = '\0';
    return text;
}

static void test_hooks_are_combined_in_order_each_once(void)
{
    kiln_value *a = hook_called("a"), *b = hook_called("b");
    made m = node_with(&node_combine_hooks2, "", a, b, NULL);
    if (!done(&m)) return;
    CHECK_STR(names_of(m.out[0]), "ab");
    made again = node_with(&node_combine_hooks4, "", b, m.out[0], a);
    CHECK_STR(names_of(again.out[0]), "ba");
    made_free(&again), made_free(&m);
    m = node_with(&node_combine_hooks2, "", NULL, b, NULL);
    CHECK_STR(names_of(m.out[0]), "b");
    made_free(&m);
    m = node_with(&node_combine_hooks2, "", NULL, NULL, NULL);
    CHECK(done(&m) && value_api.count(m.out[0]) == 0);
    made_free(&m), value_unref(a), value_unref(b);
}

static void test_keyframes_are_put_on_hooks(void)
{
    kiln_value *a = hook_called("a");
    made k = node_with(&node_create_hook_keyframe, "", NULL, NULL, NULL);
    made m = node_with(&node_set_hook_keyframes, "", a, k.out[0], NULL);
    if (!done(&m)) return;
    CHECK(value_api.map_get(value_api.list_at(m.out[0], 0), "keyframes") == k.out[0]);
    CHECK(!value_api.map_get(value_api.list_at(a, 0), "keyframes")); /* what was given stays */
    made same = node_with(&node_set_hook_keyframes, "", m.out[0], NULL, NULL);
    CHECK(same.out[0] == m.out[0]);
    made_free(&same), made_free(&m), made_free(&k), value_unref(a);
}

/* ---- conditionings ---- */

static kiln_value *entry_called(int64_t name)
{
    return pushed(value_list(), with_key(value_map(), "name", value_api.new_int(NULL, name)));
}

static const kiln_value *key_of(const kiln_value *list, size_t i, const char *key)
{
    return value_api.map_get(value_api.list_at(list, i), key);
}

static void test_properties_are_set(void)
{
    static const float one = 1;
    kiln_value *cond = entry_called(1), *hooks = hook_called("a"), *more = hook_called("b"),
               *mask = tensor_of(3, (const int64_t[]){1, 1, 1}, &one, NULL);
    made range =
        node_with(&node_conditioning_timesteps_range, "start_percent=0.25; end_percent=0.75", NULL, NULL, NULL);
    if (!done(&range)) return;
    double end = 0;
    CHECK(value_api.get_float(value_api.list_at(range.out[1], 1), &end) == KILN_OK && end == 0.25);
    kiln_value *in[] = {cond, mask, hooks, range.out[2]};
    made m = node_with_all(&node_conditioning_set_properties, "strength=0.5; set_cond_area=mask bounds", in);
    if (!done(&m)) return;
    int bounds = 0;
    CHECK(key_of(m.out[0], 0, "mask") == mask && number_of(value_api.list_at(m.out[0], 0), "mask_strength") == 0.5);
    CHECK(value_api.get_bool(key_of(m.out[0], 0, "set_area_to_bounds"), &bounds) == KILN_OK && bounds);
    CHECK_NEAR(number_of(value_api.list_at(m.out[0], 0), "start_percent"), 0.75, 0);
    CHECK_NEAR(number_of(value_api.list_at(m.out[0], 0), "end_percent"), 1, 0);
    CHECK_NEAR(number_of(value_api.list_at(m.out[0], 0), "name"), 1, 0);
    kiln_value *again[] = {m.out[0], NULL, more, NULL};
    made twice = node_with_all(&node_conditioning_set_properties, "strength=0.1", again);
    if (!done(&twice)) return;
    CHECK_STR(names_of(key_of(twice.out[0], 0, "hooks")), "ab");
    CHECK_NEAR(number_of(value_api.list_at(twice.out[0], 0), "mask_strength"), 0.5, 0); /* no mask, nothing set */
    CHECK(!key_of(cond, 0, "hooks"));
    made_free(&twice), made_free(&m), made_free(&range);
    value_unref(cond), value_unref(hooks), value_unref(more), value_unref(mask);
}

static void test_pairs_are_put_behind_others(void)
{
    kiln_value *a = entry_called(1), *b = entry_called(2), *hooks = hook_called("a");
    kiln_value *in[] = {a, b, b, a};
    made m = node_with_all(&node_pair_conditioning_combine, "", in);
    if (!done(&m)) return;
    CHECK_NEAR(number_of(value_api.list_at(m.out[0], 1), "name"), 2, 0);
    CHECK_NEAR(number_of(value_api.list_at(m.out[1], 1), "name"), 1, 0);
    made_free(&m);
    kiln_value *one[] = {a, b, hooks, NULL};
    m = node_with_all(&node_conditioning_set_default_combine, "", one);
    if (!done(&m)) return;
    int is_default = 0;
    CHECK(!key_of(m.out[0], 0, "default") && !key_of(m.out[0], 0, "hooks"));
    CHECK(value_api.get_bool(key_of(m.out[0], 1, "default"), &is_default) == KILN_OK && is_default);
    CHECK_STR(names_of(key_of(m.out[0], 1, "hooks")), "a");
    made_free(&m), value_unref(a), value_unref(b), value_unref(hooks);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_keyframes_are_in_the_order_of_their_starts),
        CASE(test_keyframes_between_two),
        CASE(test_keyframes_from_floats),
        CASE(test_hooks_are_combined_in_order_each_once),
        CASE(test_keyframes_are_put_on_hooks),
        CASE(test_properties_are_set),
        CASE(test_pairs_are_put_behind_others),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
