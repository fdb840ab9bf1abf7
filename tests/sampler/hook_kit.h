/* hook_kit.h - a network with a weight, and hooks of conditionings that move it:
 *
 *     p = tanh(x / 2 + c + [cos t, cos(t/100), sin t, sin(t/100)]) + linear(x, matrix)      matrix [4,4], 0 in the file
 *
 * A hook adds strength times a matrix of its own, and takes notes of the strengths it was asked for.
 */
#ifndef KILN_TESTS_HOOK_KIT_H
#define KILN_TESTS_HOOK_KIT_H

#include "sampling_kit.h"
#include "weights/safetensors_write.h"

#include "kiln/entry_hook.h"

enum { HOOK_NOTES = 64 };

static int hooked_records; /* programs recorded */

static inline kiln_t hooked_record(const kiln_denoiser *d, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                                   const kiln_denoise_inputs *in)
{
    kiln_t matrix = ops->weight(p, w, "matrix", 2, KILN_DIMS(CHANNELS, CHANNELS));
    hooked_records++;
    return ops->add(p, network_record(d, ops, p, w, in), ops->linear(p, in->x, matrix, (kiln_t){0}));
}

/* "matrix" and what the hooks add, "a" and "b". */
static inline kiln_weights *hooked_weights(void)
{
    static kiln_weights *set;
    static float zero[CHANNELS * CHANNELS], a[CHANNELS * CHANNELS], b[CHANNELS * CHANNELS];
    if (set) return set;
    for (int i = 0; i < CHANNELS * CHANNELS; i++) a[i] = (float)sin(i + 1) / 4, b[i] = (float)cos(3 * i) / 4;
    static const int64_t dim[] = {CHANNELS, CHANNELS};
    const safetensors_source t[] = {{.name = "a", .dtype = KILN_F32, .rank = 2, .dim = dim, .data = a},
                                    {.name = "b", .dtype = KILN_F32, .rank = 2, .dim = dim, .data = b},
                                    {.name = "matrix", .dtype = KILN_F32, .rank = 2, .dim = dim, .data = zero}};
    error e = {0};
    str bytes = {0};
    char path[600];
    snprintf(path, sizeof path, "%s/hooked.safetensors", test_folder());
    CHECK_EQ(safetensors_encode(&bytes, t, 3, NULL, 0, &e), KILN_OK);
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(bytes.data, 1, bytes.len, f) == bytes.len);
    if (f) fclose(f);
    str_free(&bytes);
    set = weights_open(path, &e);
    if (!CHECK_MSG(set != NULL, "%s", e.message)) exit(1);
    return set;
}

static inline kiln_value *hooked_model(void)
{
    static kiln_denoiser hooked;
    const kiln_model_api *models = rig_host()->ability(KILN_MODEL_ABILITY);
    kiln_value *plain = network_model();
    kiln_model m = *models->model(rig_ctx(), plain);
    hooked = network;
    hooked.family = "written-down with a matrix", hooked.record = hooked_record;
    m.denoiser = &hooked, m.weights = hooked_weights();
    m.base = plain, m.owned = NULL, m.release = NULL;
    kiln_value *v = models->model_new(rig_ctx(), &m);
    if (!CHECK_MSG(v != NULL, "%s", rig_message())) exit(1);
    drop(plain);
    return v;
}

/* ---- hooks ---- */

typedef struct {
    kiln_entry_hook hook;
    const char *adds; /* "a" */
    double asked[HOOK_NOTES];
    size_t n;
    int fails_at; /* the question that fails; 0: none */
} noting_hook;

static inline kiln_weights *noting_denoiser(const kiln_entry_hook *hook, const kiln_call *c, const kiln_model *model,
                                            kiln_weights *before, double strength)
{
    noting_hook *h = hook->self;
    const kiln_weights_api *w = rig_host()->ability(KILN_WEIGHTS_ABILITY);
    kiln_weight_patch patch = {.size = sizeof patch,
                               .name = "matrix",
                               .strength = strength,
                               .scale = 1,
                               .from = hooked_weights(),
                               .difference = h->adds};
    CHECK(model->weights == hooked_weights());
    if (h->n < HOOK_NOTES) h->asked[h->n++] = strength;
    if (h->fails_at && h->n == (size_t)h->fails_at) {
        c->host->fail(c->ctx, KILN_ERR_INVALID, "this hook fails at question %zu", h->n);
        return NULL;
    }
    return w->patch(c->ctx, before, &patch, 1);
}

static inline noting_hook noting(const char *adds)
{
    return (noting_hook){.hook = {.size = sizeof(kiln_entry_hook), .denoiser = noting_denoiser}, .adds = adds};
}

static inline kiln_value *pushed(kiln_value *list, kiln_value *item)
{
    CHECK_EQ(values()->list_push(list, item), KILN_OK);
    drop(item);
    return list;
}

static inline void put_new(kiln_value *map, const char *key, kiln_value *item)
{
    CHECK_EQ(values()->map_set(map, key, item), KILN_OK);
    drop(item);
}

/* HOOKS of one hook; n 0: without keyframes. */
static inline kiln_value *hooks_of(noting_hook *h, const kiln_keyframe *frame, size_t n)
{
    h->hook.self = h;
    kiln_value *map = map_of("hook", values()->new_object(NULL, KILN_ENTRY_HOOK, &h->hook, NULL, h->adds));
    if (n) {
        kiln_value *frames = values()->new_list(NULL);
        for (size_t i = 0; i < n; i++) {
            kiln_value *one = map_of("strength", values()->new_float(NULL, frame[i].strength));
            put_new(one, "start_percent", values()->new_float(NULL, frame[i].start));
            put_new(one, "guarantee_steps", values()->new_int(NULL, frame[i].guarantee));
            pushed(frames, one);
        }
        put_new(map, "keyframes", frames);
    }
    return pushed(values()->new_list(NULL), map);
}

/* The one entry of `list` with this under the key. Takes both. */
static inline kiln_value *entry_with(kiln_value *list, const char *key, kiln_value *item)
{
    kiln_value *entry = values()->map_copy(NULL, values()->list_at(list, 0));
    put_new(entry, key, item);
    drop(list);
    return pushed(values()->new_list(NULL), entry);
}

/* Takes both. */
static inline kiln_value *entries_of(kiln_value *a, kiln_value *b)
{
    kiln_value *all = values()->list_copy(NULL, a);
    for (size_t i = 0; i < values()->count(b); i++)
        CHECK_EQ(values()->list_push(all, (kiln_value *)(uintptr_t)values()->list_at(b, i)), KILN_OK);
    drop(a), drop(b);
    return all;
}

#endif
