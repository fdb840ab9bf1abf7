/* test_resume.c - a sampling that is stopped and goes on in another call gives the bytes of an undisturbed one: every
 * sampler, every step, every noise source; and a state that does not fit is reported once and not used.
 *
 * The host is the engine's with a "kiln.store/1" of this file's own, which keeps deep copies of plain data (anything
 * else is a failure), and with a progress() that stops the call after a step.
 */
#include "hook_kit.h"
#include "probe_rows.h"

#include "base/memory_alloc.h"
#include "kiln/store.h"

enum { STEPS = 7, STATES = 64 };

/* ---- the host ---- */

static struct {
    kiln_value *saved[STATES]; /* all states the call saved, in order */
    size_t n_saved, n_loaded;
    kiln_value *load;    /* what state_load gives               */
    int due;             /* 1: always; 0: only when stopping    */
    uint64_t stop_after; /* steps; 0: never                     */
    long stop_in;        /* questions until the call is stopped; < 0: never */
    long fail_at;        /* the allocation of the call that fails; < 0: none       */
    int stopping, warnings, refuse_save, reached;
} world;

/* NULL: something in it is not plain data. */
static kiln_value *plain_copy(const kiln_value *v)
{
    const kiln_value_api *api = values();
    kiln_tensor from = {.size = sizeof from}, to = {.size = sizeof to};
    int64_t whole;
    double number;
    switch (api->kind(v)) {
    case KILN_V_INT: return api->get_int(v, &whole) == KILN_OK ? api->new_int(NULL, whole) : NULL;
    case KILN_V_FLOAT: return api->get_float(v, &number) == KILN_OK ? api->new_float(NULL, number) : NULL;
    case KILN_V_STRING: return api->new_string(NULL, api->get_string(v, NULL), strlen(api->get_string(v, NULL)));
    case KILN_V_TENSOR: {
        kiln_value *copy;
        size_t bytes;
        if (rig_host()->view(NULL, v, &from) != KILN_OK ||
            !(copy = rig_host()->tensor_new(NULL, from.dtype, KILN_CPU, from.rank, from.dim)))
            return NULL;
        bytes = (size_t)from.stride[0] * (size_t)from.dim[0];
        if (rig_host()->view(NULL, copy, &to) == KILN_OK) memcpy(to.data, from.data, bytes);
        return copy;
    }
    case KILN_V_MAP: {
        kiln_value *map = api->new_map(NULL);
        for (size_t i = 0; i < api->count(v); i++) {
            const char *key;
            kiln_value *item = api->map_at(v, i, &key), *copy = plain_copy(item);
            if (!CHECK_MSG(copy && api->map_set(map, key, copy) == KILN_OK, "the state's '%s' is no plain data", key))
                exit(1);
            drop(copy);
        }
        return map;
    }
    default: return NULL;
    }
}

static kiln_value *fake_load(kiln_ctx *c)
{
    (void)c;
    world.n_loaded++;
    return world.load ? rig_host()->ref(world.load) : NULL;
}

static int fake_due(kiln_ctx *c) { return (void)c, world.due || world.stopping; }

static kiln_status fake_save(kiln_ctx *c, const kiln_value *state)
{
    (void)c;
    if (world.refuse_save || world.n_saved == STATES) return KILN_ERR_IO;
    world.saved[world.n_saved++] =
        world.fail_at < 0 ? plain_copy(state) : rig_host()->ref((kiln_value *)(uintptr_t)state);
    return KILN_OK;
}

static const kiln_store_api fake_store = {
    .size = sizeof fake_store, .state_load = fake_load, .state_due = fake_due, .state_save = fake_save};

static const void *fake_ability(const char *id)
{
    return strcmp(id, KILN_STORE_ABILITY) == 0 ? &fake_store : engine_host.ability(id);
}

static kiln_status fake_progress(kiln_ctx *c, uint64_t done, uint64_t total, const char *what)
{
    if (world.stop_after && done >= world.stop_after) world.stopping = 1;
    return engine_host.progress(c, done, total, what);
}

static void fake_log(int level, const char *text)
{
    world.warnings += level <= KILN_LOG_WARN;
    if (getenv("KILN_TEST_VERBOSE")) fprintf(stderr, "%d %s\n", level, text);
}

static int fake_cancelled(void *arg)
{
    (void)arg;
    if (world.stop_in >= 0 && world.stop_in-- == 0) world.stopping = 1;
    return world.stopping;
}

static const kiln_node *inner;

static kiln_status run_inside(const kiln_call *c)
{
    kiln_host host = engine_host;
    kiln_call inside = *c;
    host.ability = fake_ability, host.progress = fake_progress, host.log = fake_log;
    inside.host = &host;
    if (world.fail_at >= 0) mem_fail_at(world.fail_at, 0);
    kiln_status status = inner->run(&inside);
    world.reached = world.fail_at >= 0 && mem_count() > world.fail_at;
    mem_fail_at(-1, 0);
    return status;
}

/* ---- samplings ---- */

static kiln_value *model, *conditioning[2];

static void forget(void)
{
    while (world.n_saved) drop(world.saved[--world.n_saved]);
    memset(&world, 0, sizeof world);
    world.stop_in = world.fail_at = -1;
    rig_ctx();
    rig_environment.cancelled = fake_cancelled;
}

/* One call of KSampler; NULL when it failed. The latent has a noise mask and some content when `masked`. */
static kiln_value *ksampler(const char *settings, int masked, kiln_status *status)
{
    kiln_node node = node_ksampler;
    float start[NUMBERS], mask[PICTURES * CELLS];
    pattern(start, 0.7, 0.1);
    for (int i = 0; i < PICTURES * CELLS; i++) mask[i] = (float)(i % 3) / 2;
    kiln_value *latent = masked ? latent_of(start) : empty_latent(), *out[2] = {NULL};
    if (masked) {
        kiln_value *m = tensor_value(3, (const int64_t[]){PICTURES, 2, 2}, mask);
        CHECK_EQ(values()->map_set(latent, "noise_mask", m), KILN_OK);
        drop(m);
    }
    inner = &node_ksampler;
    node.run = run_inside;
    kiln_value *in[4] = {model, conditioning[0], conditioning[1], latent};
    *status = call(&node, settings, in, out);
    drop(latent);
    return out[0];
}

/* One call of SamplerCustomAdvanced with a sampler that doubles the latent's size over three steps; the settings are
 * that one's. */
static kiln_value *growing(const char *settings, int masked, kiln_status *status)
{
    kiln_node node = node_sampler_custom_advanced;
    kiln_value *in[5] = {made(&node_random_noise, "noise_seed=9", NULL, NULL), cfg_guider(model, "cfg=3"),
                         made(&node_sampler_lcm_upscale, settings, NULL, NULL),
                         made(&node_basic_scheduler, "steps=7; scheduler=karras", model, NULL), empty_latent()},
               *out[2] = {NULL};
    (void)masked;
    inner = &node_sampler_custom_advanced;
    node.run = run_inside;
    *status = call(&node, "", in, out);
    for (int i = 0; i < 5; i++) drop(in[i]);
    drop(out[1]);
    return out[0];
}

/* What the tests below run. */
static kiln_value *(*sampling)(const char *settings, int masked, kiln_status *status) = ksampler;

static int same(const kiln_value *a, const kiln_value *b) { return same_latent(a, b); }

/* From each of the states an undisturbed run saved: the same bytes. Returns how many states there were. */
static size_t resume_everywhere(const char *settings, int masked)
{
    kiln_status status;
    kiln_value *state[STATES];
    forget();
    kiln_value *plain = sampling(settings, masked, &status); /* no store asks for anything */
    CHECK_EQ(world.n_saved, 0);
    world.due = 1;
    kiln_value *whole = sampling(settings, masked, &status);
    size_t n = world.n_saved;
    if (!CHECK_MSG(status == KILN_OK && same(plain, whole), "%s: %s", settings, call_why.message)) exit(1);
    memcpy(state, world.saved, n * sizeof *state);
    world.n_saved = 0;
    for (size_t k = 0; k < n; k++) {
        forget();
        world.load = state[k];
        kiln_value *rest = sampling(settings, masked, &status);
        CHECK_MSG(status == KILN_OK && world.n_loaded == 1 && world.warnings == 0, "%s: %s", settings,
                  call_why.message);
        CHECK_MSG(same(whole, rest), "%s: resumed after state %zu of %zu it gives other bytes", settings, k + 1, n);
        drop(rest);
    }
    for (size_t k = 0; k < n; k++) drop(state[k]);
    drop(plain), drop(whole);
    return n;
}

static const kiln_sampler *row_at(size_t i)
{
    return ((const kiln_sampler_api *)rig_host()->ability(KILN_SAMPLER_ABILITY))->sampler_at(i);
}
static size_t rows(void)
{
    return ((const kiln_sampler_api *)rig_host()->ability(KILN_SAMPLER_ABILITY))->sampler_count();
}

static void test_S14_every_sampler_resumes_after_every_step(void)
{
    for (size_t i = 0; i < rows(); i++) {
        char settings[256];
        snprintf(settings, sizeof settings, "seed=%zu; steps=%d; cfg=3; sampler_name=%s; scheduler=karras", i + 40,
                 STEPS, row_at(i)->name);
        size_t n = resume_everywhere(settings, 0);
        CHECK_MSG(n >= 1, "%s left %zu states", row_at(i)->name, n);
    }
}

static void test_every_noise_source_resumes(void)
{
    static const char *const named[] = {"cpu", "cuda", "cuda_all", "cuda_all; cuda_blocks=40"};
    for (size_t i = 0; i < rows(); i++)
        for (int k = 0; k < 4; k++) {
            char settings[256];
            if (!(row_at(i)->flags & KILN_SAMPLER_STOCHASTIC)) continue;
            snprintf(settings, sizeof settings,
                     "seed=18446744073709551615; steps=4; cfg=3; sampler_name=%s; noise_source=%s", row_at(i)->name,
                     named[k]);
            resume_everywhere(settings, 0);
        }
}

static void test_masks_and_part_of_the_way_resume(void)
{
    for (size_t i = 0; i < rows(); i++) {
        char settings[256];
        snprintf(settings, sizeof settings, "seed=3; steps=4; cfg=2; denoise=0.6; sampler_name=%s; scheduler=beta",
                 row_at(i)->name);
        resume_everywhere(settings, 1);
    }
}

/* A rule for masks, and another model for the last steps: what counts at a level follows from the level. */
static void test_rules_and_ranges_resume(void)
{
    static const char *const names[] = {"euler", "heun", "dpmpp_2m", "euler_ancestral", "uni_pc"};
    kiln_value *plain = model, *other = made(&node_rescale_cfg, "", plain, NULL),
               *ruled = made(&node_differential, "strength=0.7", plain, NULL);
    model = made(&node_model_range, "start_percent=0.5", ruled, other);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char settings[256];
        snprintf(settings, sizeof settings, "seed=3; steps=5; cfg=2; sampler_name=%s; scheduler=karras", names[i]);
        CHECK(resume_everywhere(settings, 1) >= 4);
    }
    drop(model), drop(ruled), drop(other);
    model = plain;
}

/* x0 becomes its mean with all guesses before, so every number depends on all that was remembered. */
static kiln_status follow_the_past(void *self, const kiln_guesses *g)
{
    (void)self;
    double past = g->memory_sigma > 0 ? 0.5 : 0;
    g->latents->lincomb(g->latents, g->memory, 2, (double[]){1 - past, past}, (kiln_latent *[]){g->x0, g->memory});
    g->latents->lincomb(g->latents, g->x0, 1, (double[]){1}, (kiln_latent *[]){g->memory});
    return KILN_OK;
}

static void test_guidance_that_remembers_resumes(void)
{
    static const char *const names[] = {"euler", "heun", "dpmpp_2m", "dpm_2_ancestral"};
    static const kiln_guidance follows = {sizeof follows, KILN_GUIDANCE_REMEMBERS, NULL, "follows",
                                          NULL,           follow_the_past};
    static const kiln_guidance *const list[] = {&follows};
    const kiln_model_api *models = rig_host()->ability(KILN_MODEL_ABILITY);
    kiln_value *plain = model;
    kiln_model m = *models->model(rig_ctx(), plain);
    m.guidance = list, m.n_guidance = 1, m.base = plain, m.owned = NULL, m.release = NULL;
    model = models->model_new(rig_ctx(), &m);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char settings[256];
        snprintf(settings, sizeof settings, "seed=3; steps=5; cfg=2; sampler_name=%s; scheduler=karras", names[i]);
        CHECK(resume_everywhere(settings, 0) >= 4);
    }
    sampling = growing;
    CHECK(resume_everywhere("scale_ratio=2; scale_steps=3", 0) >= STEPS - 1);
    sampling = ksampler;
    drop(model);
    model = plain;
}

static void test_a_sampling_that_changes_its_size_resumes(void)
{
    sampling = growing;
    CHECK(resume_everywhere("scale_ratio=2; scale_steps=3", 0) >= STEPS - 1);
    CHECK(resume_everywhere("scale_ratio=0.5; scale_steps=5; upscale_method=area", 0) >= STEPS - 1);
    sampling = ksampler;
}

/* ---- stopped ---- */

/* Stopped after step k: the state of step k is saved although none was due before, and the next call finishes. */
static void test_stopped_after_a_step(void)
{
    static const char *const settings = "seed=9; steps=7; cfg=3; sampler_name=euler_ancestral";
    kiln_status status;
    forget();
    kiln_value *whole = ksampler(settings, 0, &status);
    for (uint64_t k = 1; k <= STEPS; k++) {
        forget();
        world.stop_after = k;
        kiln_value *none = ksampler(settings, 0, &status);
        CHECK_EQ(status, KILN_CANCELLED);
        CHECK(none == NULL);
        if (!CHECK_EQ(world.n_saved, 1)) continue;
        kiln_value *state = world.saved[--world.n_saved];
        int64_t first = 0;
        CHECK_EQ(values()->get_int(values()->map_get(state, "first"), &first), KILN_OK);
        CHECK_EQ(first, k);
        forget();
        world.load = state;
        kiln_value *rest = ksampler(settings, 0, &status);
        CHECK_MSG(same(whole, rest), "after step %d", (int)k);
        drop(rest), drop(state);
    }
    drop(whole);
}

/* Stopped at any question whatever, inside a step too: the last whole step is there, the next call goes on. */
static void test_stopped_anywhere(void)
{
    static const char *const settings = "seed=9; steps=3; cfg=3; sampler_name=heun";
    kiln_status status;
    int with_state = 0;
    forget();
    kiln_value *whole = ksampler(settings, 0, &status);
    for (long when = 0;; when++) {
        forget();
        world.stop_in = when;
        kiln_value *out = ksampler(settings, 0, &status);
        if (status == KILN_OK) {
            CHECK(same(whole, out));
            drop(out);
            break;
        }
        CHECK_EQ(status, KILN_CANCELLED);
        if (!world.n_saved) continue; /* the first step was not over */
        kiln_value *state = world.saved[--world.n_saved];
        CHECK_EQ(world.n_saved, 0);
        with_state++;
        forget();
        world.load = state;
        kiln_value *rest = ksampler(settings, 0, &status);
        CHECK_MSG(same(whole, rest), "stopped at question %ld", when);
        drop(rest), drop(state);
    }
    int there =
        runtime_vector_device(rig_runtime) != KILN_CPU; /* a device is asked once a run, the host at each op as well */
    CHECK_MSG(with_state >= (there ? 2 : 3), "%d", with_state);
    drop(whole);
}

/* A store that cannot write does not end the run. */
static void test_a_state_that_cannot_be_saved(void)
{
    kiln_status status;
    forget();
    world.due = world.refuse_save = 1;
    kiln_value *out = ksampler("steps=3; sampler_name=euler", 0, &status);
    CHECK_EQ(status, KILN_OK);
    drop(out);
}

/* ---- states that do not fit ---- */

/* Replaces (NULL: removes) what is at "key" or "map.key" and takes the item. */
static void put(kiln_value *state, const char *path, kiln_value *item)
{
    char part[16];
    const char *dot = strchr(path, '.');
    if (!dot) {
        CHECK_MSG(values()->map_set(state, path, item) == KILN_OK, "%s", path);
    } else {
        snprintf(part, sizeof part, "%.*s", (int)(dot - path), path);
        kiln_value *map =
            values()->map_copy(NULL, values()->map_get(state, part)); /* what was put into another is published */
        CHECK_MSG(values()->map_set(map, dot + 1, item) == KILN_OK && values()->map_set(state, part, map) == KILN_OK,
                  "%s", path);
        drop(map);
    }
    drop(item);
}

static kiln_value *string(const char *s) { return values()->new_string(NULL, s, strlen(s)); }
static kiln_value *whole_number(int64_t n) { return values()->new_int(NULL, n); }
static kiln_value *numbers(int64_t n)
{
    kiln_tensor t = {.size = sizeof t};
    kiln_value *v = rig_host()->tensor_new(NULL, KILN_F64, KILN_CPU, 1, &n);
    if (v && rig_host()->view(NULL, v, &t) == KILN_OK) memset(t.data, 0, (size_t)n * sizeof(double));
    return v;
}

static void break_state(kiln_value *state, int how)
{
    static const float few[4];
    static const char *const removed[] = {"version", "sampler", "sigmas", "seed",        "first",    "always",      "x",
                                          "slots",   "scalars", "noise",  "noise.words", "noise.at", "noise.source"};
    const int n = (int)(sizeof removed / sizeof removed[0]);
    if (how < n) {
        put(state, removed[how], NULL);
        return;
    }
    switch (how - n) {
    case 0: put(state, "version", whole_number(99)); break;
    case 1: put(state, "sampler", string("heun")); break;
    case 2: put(state, "sigmas", numbers(STEPS + 1)); break;
    case 3: put(state, "sigmas", numbers(3)); break;
    case 4: put(state, "seed", whole_number(1)); break;
    case 5: put(state, "first", whole_number(0)); break;
    case 6: put(state, "first", whole_number(INT64_MIN)); break;
    case 7: put(state, "first", string("one")); break;
    case 8: put(state, "x", tensor_value(1, (const int64_t[]){4}, few)); break;
    case 9: put(state, "x", numbers(NUMBERS)); break;
    case 10: put(state, "slots.other", tensor_value(4, (const int64_t[]){1, 1, 1, 4}, few)); break;
    case 11:
        put(state, "slots.a-name-that-is-longer-than-a-slot-can-have", tensor_value(1, (const int64_t[]){4}, few));
        break;
    case 12: put(state, "scalars.other", tensor_value(1, (const int64_t[]){4}, few)); break;
    case 13: put(state, "noise.at", whole_number(625)); break;
    case 14: put(state, "noise.words", tensor_value(1, (const int64_t[]){4}, few)); break;
    case 15: put(state, "noise.source", whole_number(2)); break;
    case 16: put(state, "noise.spare", numbers(2)); break;
    case 17: put(state, "always", whole_number(-1)); break;
    case 18: put(state, "scalars.asked", numbers(5)); break; /* the sampler asks for one */
    default: put(state, "slots", whole_number(1)); break;
    }
}
enum { WAYS = 13 + 20 };

static void check_unusable(kiln_value *state, const char *settings, const kiln_value *whole, int how)
{
    kiln_status status;
    forget();
    world.load = state;
    kiln_value *out = sampling(settings, 0, &status);
    CHECK_MSG(status == KILN_OK && world.warnings == 1, "way %d: status %d, %d warnings", how, status, world.warnings);
    CHECK_MSG(same(whole, out), "way %d: other bytes", how);
    drop(out);
}

static void test_a_state_that_does_not_fit_is_reported_once(void)
{
    static const char *const settings = "seed=9; steps=7; cfg=3; sampler_name=probe_white; scheduler=karras";
    kiln_status status;
    forget();
    world.due = 1;
    kiln_value *whole = ksampler(settings, 0, &status), *good = plain_copy(world.saved[3]);
    for (int how = 0; how < WAYS; how++) {
        kiln_value *bad = plain_copy(good);
        break_state(bad, how);
        check_unusable(bad, settings, whole, how);
        drop(bad);
    }
    kiln_value *text = string("a state?");
    check_unusable(text, settings, whole, -1);
    drop(text), drop(good), drop(whole);
}

/* Sizes that a state cannot have, and one whose parts are of two sizes. */
static void test_a_state_of_a_strange_size(void)
{
    static const float few[256]; /* as many as the largest of them has */
    static const char *const settings = "scale_ratio=2; scale_steps=3";
    static const int64_t dim[][4] = {{PICTURES, 0, 3, CHANNELS},
                                     {PICTURES, 3, 3, CHANNELS - 1},
                                     {1, 3, 3, CHANNELS},
                                     {1, 1, 200, 1},
                                     {PICTURES, 3, 3, CHANNELS}};
    kiln_status status;
    sampling = growing;
    forget();
    world.due = 1;
    kiln_value *whole = sampling(settings, 0, &status), *good = plain_copy(world.saved[3]);
    for (int i = 0; i < 5; i++) {
        kiln_value *bad = plain_copy(good);
        put(bad, "x", tensor_value(4, dim[i], few));
        check_unusable(bad, settings, whole, 100 + i);
        drop(bad);
    }
    drop(good), drop(whole);
    sampling = ksampler;
}

/* A host without the store, or with one that keeps nothing. */
static void test_without_a_store(void)
{
    kiln_value *in[4] = {model, conditioning[0], conditioning[1], empty_latent()}, *out[2] = {NULL};
    forget();
    rig_environment.cancelled = NULL;
    CHECK_MSG(call(&node_ksampler, "steps=2", in, out) == KILN_OK, "%s", call_why.message);
    drop(in[3]), drop(out[0]);
}

/* ---- memory ---- */

/* The k-th allocation fails, for every k: the run fails or gives its bytes, and no state is half. */
static void check_every_allocation(const char *settings)
{
    kiln_status status = KILN_ERR_NOMEM;
    int tried = 0;
    forget();
    kiln_value *whole = sampling(settings, 0, &status);
    for (int k = 0, reached = 1; reached; k++, tried++) {
        forget();
        world.due = 1;
        world.fail_at = k;
        kiln_value *out = sampling(settings, 0, &status);
        reached = world.reached;
        CHECK_MSG(status == KILN_OK ? same(whole, out) : status == KILN_ERR_NOMEM, "allocation %d: status %d %s", k,
                  status, call_why.message);
        drop(out);
        for (size_t i = 0; i < world.n_saved; i++)
            CHECK_MSG(values()->map_get(world.saved[i], "noise") != NULL, "allocation %d: half a state", k);
    }
    CHECK_MSG(tried > 20, "only %d allocations", tried);
    drop(whole);
}

static void test_every_allocation_fails(void)
{
    check_every_allocation("seed=9; steps=2; cfg=3; sampler_name=euler_ancestral");
    check_every_allocation("seed=9; steps=3; cfg=3; sampler_name=probe_path");
    sampling = growing;
    check_every_allocation("scale_ratio=2; scale_steps=1");
    sampling = ksampler;
}

/* ---- sources ---- */

static void test_S13_noise_sources_differ_where_they_should(void)
{
    static const char *const named[] = {"auto", "cpu", "cuda", "cuda_all", "cuda_all; cuda_blocks=1"};
    kiln_value *out[5];
    kiln_status status;
    forget();
    for (int i = 0; i < 5; i++) {
        char settings[256];
        snprintf(settings, sizeof settings, "seed=9; steps=3; sampler_name=euler_ancestral; noise_source=%s", named[i]);
        out[i] = ksampler(settings, 0, &status);
    }
    CHECK(same(out[0], out[1]));
    CHECK(!same(out[1], out[2]) && !same(out[2], out[3]) && !same(out[1], out[3]));
    CHECK(same(out[3], out[4])); /* 32 numbers fit any device */
    for (int i = 0; i < 5; i++) drop(out[i]);
    kiln_value *in[4] = {model, conditioning[0], conditioning[1], empty_latent()};
    refused(&node_ksampler, "cuda_blocks=4", in, "none draws");
    drop(in[3]);
}

/* Keyframes that stay for evaluations: where the schedule stands is part of the state. */
static void test_hooks_with_keyframes_resume(void)
{
    static const kiln_keyframe frame[] = {{0.25, 0, 1}, {1, 0.1, 2}, {-0.5, 0.11, 2}, {0.5, 0.12, 1}};
    noting_hook h = noting("a");
    kiln_value *was[2] = {model, conditioning[0]};
    model = hooked_model();
    conditioning[0] = entry_with(positive(), "hooks", hooks_of(&h, frame, 4));
    CHECK_EQ(resume_everywhere("seed=3; steps=7; cfg=3; sampler_name=heun; scheduler=karras", 0), 7);
    drop(model), drop(conditioning[0]);
    model = was[0], conditioning[0] = was[1];
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_S14_every_sampler_resumes_after_every_step),
        CASE(test_every_noise_source_resumes),
        CASE(test_masks_and_part_of_the_way_resume),
        CASE(test_rules_and_ranges_resume),
        CASE(test_guidance_that_remembers_resumes),
        CASE(test_hooks_with_keyframes_resume),
        CASE(test_a_sampling_that_changes_its_size_resumes),
        CASE(test_stopped_after_a_step),
        CASE(test_stopped_anywhere),
        CASE(test_a_state_that_cannot_be_saved),
        CASE(test_a_state_that_does_not_fit_is_reported_once),
        CASE(test_a_state_of_a_strange_size),
        CASE(test_without_a_store),
        CASE(test_every_allocation_fails),
        CASE(test_S13_noise_sources_differ_where_they_should),
    };
    open_plugin();
    open_probes(0);
    model = network_model(), conditioning[0] = positive(), conditioning[1] = negative();
    int status = test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
    forget();
    drop(model), drop(conditioning[0]), drop(conditioning[1]);
    return status;
}
