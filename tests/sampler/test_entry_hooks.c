/* test_entry_hooks.c - hooks of conditionings: weights at the strengths of keyframes, entry by entry; what they cost
 * while they last; and entries for what others leave. */
#include "hook_kit.h"

enum { STEPS = 6 };

/* ---- samplings ---- */

/* KSampler with these; takes the conditionings. NULL: it failed. */
static kiln_value *drawn(const char *settings, kiln_value *yes, kiln_value *no)
{
    char text[300];
    kiln_value *model = hooked_model(), *in[4] = {model, yes, no, empty_latent()}, *out[2] = {NULL};
    snprintf(text, sizeof text, "seed=7; steps=%d; cfg=3; sampler_name=euler; scheduler=simple; %s", STEPS, settings);
    kiln_status status = call(&node_ksampler, text, in, out);
    for (int i = 0; i < 4; i++) drop(in[i]);
    return status == KILN_OK ? out[0] : NULL;
}

static kiln_value *hooked_yes(noting_hook *h, const kiln_keyframe *frame, size_t n)
{
    return entry_with(positive(), "hooks", hooks_of(h, frame, n));
}

static int same_and_drop(kiln_value *a, kiln_value *b)
{
    int same = a && b && same_latent(a, b);
    drop(a), drop(b);
    return same;
}

/* The strengths a sampling with these keyframes asks for, in order. */
static void check_asked(const char *settings, const kiln_keyframe *frame, size_t n, const double *want, size_t n_want)
{
    noting_hook h = noting("a");
    kiln_value *made = drawn(settings, hooked_yes(&h, frame, n), negative());
    CHECK_MSG(made != NULL, "%s", call_why.message);
    CHECK_EQ(h.n, n_want);
    for (size_t i = 0; i < n_want && i < h.n; i++)
        CHECK_MSG(h.asked[i] == want[i], "%s: %zu is %g and not %g", settings, i, h.asked[i], want[i]);
    drop(made);
}
#define ASKED(settings, frames, ...)                                                                                   \
    check_asked(settings, frames, sizeof(frames) / sizeof *(frames), (const double[]){__VA_ARGS__},                    \
                sizeof((const double[]){__VA_ARGS__}) / sizeof(double))

/* ---- strengths ---- */

static void test_each_strength_is_asked_for_once(void)
{
    static const kiln_keyframe at_half[] = {{0.25, 0, 1}, {1, 0.5, 1}}, off_then_on[] = {{0, 0, 1}, {1, 0.5, 1}},
                               never[] = {{0, 0, 1}, {0, 0.5, 1}}, late[] = {{0.5, 0.4, 1}};
    ASKED("", at_half, 0.25, 1);
    ASKED("sampler_name=heun", at_half, 0.25, 1);
    ASKED("", off_then_on, 1);
    check_asked("", never, 2, NULL, 0);
    ASKED("", late, 0.5); /* before the first keyframe the first counts */
    ASKED("denoise=0.3", at_half, 1);
}

/* As ComfyUI has it: a keyframe that guarantees steps is not passed by, unless it began above the first level. */
static void test_keyframes_that_stay(void)
{
    static const kiln_keyframe crowd[] = {{0.9, 0.3, 1}, {0.2, 0.31, 1}, {0.7, 0.32, 1}, {-0.4, 0.33, 1}},
                               passed[] = {{0.9, 0.3, 0}, {0.2, 0.31, 0}, {0.7, 0.32, 0}, {-0.4, 0.33, 0}},
                               two[] = {{0.5, 0, 1}, {1, 0.1, 2}, {2, 0.2, 1}};
    ASKED("", crowd, 0.9, 0.2, 0.7, -0.4);
    ASKED("denoise=0.3", crowd, -0.4);
    /* both sides have it, and it stays for a level and no longer */
    noting_hook h = noting("a");
    kiln_value *hooks = hooks_of(&h, crowd, 4), *yes = entry_with(positive(), "hooks", rig_host()->ref(hooks)),
               *made = drawn("steps=3", yes, entry_with(negative(), "hooks", hooks));
    CHECK(made && h.n == 3 && h.asked[1] == 0.2 && h.asked[2] == 0.7);
    drop(made);
    ASKED("", passed, 0.9, -0.4);
    ASKED("", two, 0.5, 1, 2);
}

static void test_strength_0_changes_no_byte(void)
{
    static const kiln_keyframe zero[] = {{0, 0, 1}};
    noting_hook h = noting("a");
    CHECK(same_and_drop(drawn("", positive(), negative()), drawn("", hooked_yes(&h, zero, 1), negative())));
    CHECK(!same_and_drop(drawn("", positive(), negative()), drawn("", hooked_yes(&h, NULL, 0), negative())));
    CHECK_EQ(h.n, 1);
}

/* A keyframe from half on: until there it is what it is without, after it what it is with. */
static void test_a_keyframe_acts_from_its_start_on(void)
{
    static const kiln_keyframe half[] = {{0, 0, 1}, {1, 0.5, 1}};
    noting_hook h = noting("a"), plain = noting("a");
    kiln_value *stretch[2] = {positive(), hooked_yes(&plain, NULL, 0)};
    stretch[0] = entry_with(stretch[0], "end_percent", values()->new_float(NULL, 0.4999));
    stretch[1] = entry_with(stretch[1], "start_percent", values()->new_float(NULL, 0.5));
    CHECK(same_and_drop(drawn("cfg=1", hooked_yes(&h, half, 2), negative()),
                        drawn("cfg=1", entries_of(stretch[0], stretch[1]), negative())));
}

/* Two hooks, one after the other, are one that adds both. */
static void test_hooks_are_put_on_in_order(void)
{
    noting_hook a = noting("a"), b = noting("b");
    kiln_value *made = drawn(
        "", entry_with(positive(), "hooks", entries_of(hooks_of(&a, NULL, 0), hooks_of(&b, NULL, 0))), negative());
    CHECK_MSG(made != NULL, "%s", call_why.message);
    CHECK(a.n == 1 && b.n == 1);
    CHECK(!same_and_drop(made, drawn("", hooked_yes(&a, NULL, 0), negative())));
}

/* ---- who goes together ---- */

static double runs_of(kiln_value *yes, kiln_value *no)
{
    double before = (double)runtime_usage_get(rig_runtime).runs;
    kiln_value *made = drawn("", yes, no);
    CHECK_MSG(made != NULL, "%s", call_why.message);
    drop(made);
    return (double)runtime_usage_get(rig_runtime).runs - before;
}

static void test_equal_strengths_are_one_batch(void)
{
    static const kiln_keyframe half[] = {{0, 0, 1}, {1, 0.5, 1}};
    noting_hook h = noting("a");
    rig_ctx();
    double plain = runs_of(positive(), negative());
    kiln_value *hooks = hooks_of(&h, NULL, 0);
    kiln_value *yes = entry_with(positive(), "hooks", rig_host()->ref(hooks)),
               *no = entry_with(negative(), "hooks", hooks);
    CHECK_NEAR(plain, STEPS, 0);
    CHECK_NEAR(runs_of(yes, no), STEPS, 0);
    CHECK_NEAR(runs_of(hooked_yes(&h, NULL, 0), negative()), 2 * STEPS, 0);
    CHECK_NEAR(runs_of(hooked_yes(&h, half, 2), negative()), 2 * STEPS - 3, 0); /* the first three have strength 0 */
}

/* ---- what it costs ---- */

static size_t weight_bytes(void) { return residency_bytes(runtime_residency(rig_runtime)); }

static struct {
    size_t bytes[HOOK_NOTES], n;
} seen;

static kiln_weights *looking_denoiser(const kiln_entry_hook *hook, const kiln_call *c, const kiln_model *model,
                                      kiln_weights *before, double strength)
{
    if (seen.n < HOOK_NOTES) seen.bytes[seen.n++] = weight_bytes();
    return noting_denoiser(hook, c, model, before, strength);
}

/* The memory that weights take when another strength is asked for does not grow with the strengths there were. */
static void test_strengths_that_are_over_are_let_go(void)
{
    kiln_keyframe frame[STEPS];
    noting_hook h = noting("a");
    h.hook.denoiser = looking_denoiser;
    for (int i = 0; i < STEPS; i++) frame[i] = (kiln_keyframe){0.1 * (i + 1), 0.01 * i, 1};
    drop(drawn("", positive(), negative()));
    size_t before = weight_bytes();
    seen.n = 0;
    kiln_value *made = drawn("", hooked_yes(&h, frame, STEPS), negative());
    CHECK_MSG(made != NULL, "%s", call_why.message);
    CHECK_EQ(h.n, STEPS);
    CHECK_EQ(seen.n, STEPS);
    CHECK(seen.bytes[1] > seen.bytes[0]);
    for (size_t i = 2; i < seen.n; i++)
        CHECK_MSG(seen.bytes[i] <= seen.bytes[1], "%zu bytes of weights at strength %zu, %zu at the second",
                  seen.bytes[i], i + 1, seen.bytes[1]);
    CHECK_EQ(weight_bytes(), before);
    drop(made);
}

static void test_a_call_that_fails_lets_go_too(void)
{
    static const kiln_keyframe half[] = {{0.5, 0, 1}, {1, 0.5, 1}};
    noting_hook h = noting("a");
    h.fails_at = 2;
    drop(drawn("", positive(), negative()));
    size_t before = weight_bytes();
    CHECK(drawn("", hooked_yes(&h, half, 2), negative()) == NULL);
    CHECK_MSG(strstr(call_why.message, "this hook fails at question 2") != NULL, "%s", call_why.message);
    CHECK_EQ(weight_bytes(), before);
}

/* In an estimate one strength stands for all. */
static void test_an_estimate_asks_once(void)
{
    kiln_keyframe frame[STEPS];
    noting_hook h = noting("a");
    for (int i = 0; i < STEPS; i++) frame[i] = (kiln_keyframe){0.1 * i, (double)i / STEPS, 1};
    rig_ctx();
    rig_environment.estimate = 1;
    kiln_value *made = drawn("", hooked_yes(&h, frame, STEPS), negative());
    rig_environment.estimate = 0;
    CHECK_MSG(made != NULL, "%s", call_why.message);
    CHECK(h.n == 1 && h.asked[0] == 0.1);
    drop(made);
}

/* ---- what is refused ---- */

static void refuse(kiln_value *yes, const char *part)
{
    kiln_value *made = drawn("", yes, negative());
    CHECK_MSG(!made && strstr(call_why.message, part), "'%s' does not say '%s'", call_why.message, part);
    drop(made);
}

static void test_what_is_no_hook_is_refused(void)
{
    static const kiln_keyframe falling[] = {{1, 0.5, 1}, {1, 0.25, 1}};
    noting_hook h = noting("a");
    refuse(entry_with(positive(), "hooks", values()->new_int(NULL, 1)), "hooks");
    refuse(
        entry_with(positive(), "hooks",
                   pushed(values()->new_list(NULL), map_of("hook", values()->new_object(NULL, "HOOQ", &h, NULL, "")))),
        "a map without a hook");
    refuse(hooked_yes(&h, falling, 2), "not in the order of their start_percent");
    kiln_value *hooks = hooks_of(&h, NULL, 0), *map = values()->map_copy(NULL, values()->list_at(hooks, 0));
    put_new(map, "keyframes", pushed(values()->new_list(NULL), map_of("strength", values()->new_float(NULL, 1))));
    drop(hooks);
    refuse(entry_with(positive(), "hooks", pushed(values()->new_list(NULL), map)), "");
}

/* ---- default entries ---- */

static kiln_value *mask_of(float left, float right)
{
    return tensor_value(3, (const int64_t[]){1, 2, 2}, (const float[]){left, right, left, right});
}

static kiln_value *on_left(kiln_value *list, float weight) { return entry_with(list, "mask", mask_of(weight, 0)); }

static kiln_value *by_default(kiln_value *list) { return entry_with(list, "default", values()->new_bool(NULL, 1)); }

static void test_a_default_entry_has_what_others_leave(void)
{
    noting_hook h = noting("a");
    CHECK(same_and_drop(
        drawn("", entries_of(on_left(positive(), 0.75f), by_default(third())), negative()),
        drawn("", entries_of(on_left(positive(), 0.75f), entry_with(third(), "mask", mask_of(0.25f, 1))), negative())));
    /* nothing is left */
    CHECK(same_and_drop(drawn("", entries_of(positive(), by_default(third())), negative()),
                        drawn("", positive(), negative())));
    /* everything is, and its own mask says nothing */
    CHECK(same_and_drop(drawn("", by_default(on_left(third(), 0.5f)), negative()), drawn("", third(), negative())));
    /* also with hooks of its own */
    kiln_value *hooks = hooks_of(&h, NULL, 0);
    kiln_value *a = entry_with(by_default(third()), "hooks", rig_host()->ref(hooks)),
               *b = entry_with(entry_with(third(), "mask", mask_of(0, 1)), "hooks", hooks);
    CHECK(same_and_drop(drawn("", entries_of(on_left(positive(), 1), a), negative()),
                        drawn("", entries_of(on_left(positive(), 1), b), negative())));
}

/* What is left follows the level: until half the other is not there. */
static void test_what_is_left_follows_the_level(void)
{
    kiln_value *late = entry_with(positive(), "start_percent", values()->new_float(NULL, 0.5)),
               *early = entry_with(third(), "end_percent", values()->new_float(NULL, 0.4999));
    CHECK(same_and_drop(
        drawn("", entries_of(late, by_default(third())), negative()),
        drawn("", entries_of(entry_with(positive(), "start_percent", values()->new_float(NULL, 0.5)), early),
              negative())));
    kiln_value *area = values()->new_list(NULL);
    for (int i = 0; i < 4; i++) pushed(area, values()->new_float(NULL, i < 2 ? 1 : 0));
    refuse(by_default(entry_with(third(), "area_percent", area)), "a default conditioning has an area");
}

/* ---- prompts that were encoded for a stretch ---- */

static void test_a_stretch_of_an_encoding_is_a_range(void)
{
    kiln_value *a = entry_with(positive(), "clip_end_percent", values()->new_float(NULL, 0.4999)),
               *b = entry_with(entry_with(third(), "clip_start_percent", values()->new_float(NULL, 0.3)),
                               "start_percent", values()->new_float(NULL, 0.5));
    kiln_value *c = entry_with(positive(), "end_percent", values()->new_float(NULL, 0.4999)),
               *d = entry_with(third(), "start_percent", values()->new_float(NULL, 0.5));
    CHECK(same_and_drop(drawn("", entries_of(a, b), negative()), drawn("", entries_of(c, d), negative())));
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_each_strength_is_asked_for_once),
        CASE(test_keyframes_that_stay),
        CASE(test_strength_0_changes_no_byte),
        CASE(test_a_keyframe_acts_from_its_start_on),
        CASE(test_hooks_are_put_on_in_order),
        CASE(test_equal_strengths_are_one_batch),
        CASE(test_strengths_that_are_over_are_let_go),
        CASE(test_a_call_that_fails_lets_go_too),
        CASE(test_an_estimate_asks_once),
        CASE(test_what_is_no_hook_is_refused),
        CASE(test_a_default_entry_has_what_others_leave),
        CASE(test_what_is_left_follows_the_level),
        CASE(test_a_stretch_of_an_encoding_is_a_range),
    };
    open_plugin();
    int status = test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
    weights_unref(hooked_weights());
    return status;
}
