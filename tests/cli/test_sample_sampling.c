/* test_sample_sampling.c - the made-up sampling that `kiln check-plugin` tries samplers with: each call that a run
 * would refuse is noted and changes nothing, and what is allowed gives what the contract (sampler.h, latent.h) says.
 */
#include "harness.h"

#include "cli/sample_sampling.h"
#include "kiln/denoiser.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SIDE = 4, CHANNELS = 4, COUNT = SIDE * SIDE * CHANNELS, STEPS = 3 };
static const double levels[STEPS + 1] = {3, 2, 1, 0}, one[1] = {1}, many[65];

/* What a case works with: latents of the sampling's shape, of half its side, of two pictures, masks of one channel. */
typedef struct {
    const kiln_sampling *s;
    const kiln_latents *l;
    kiln_latent *x, *y, *half, *two, *mask, *half_mask, *two_masks, *three_masks, *wide_mask, *deep, *deep_mask, *thin;
    double got;
} scene;

static kiln_latent *made(scene *c, kiln_latent_shape shape)
{
    kiln_latent *l = c->l->create(c->l, &shape);
    float v[8 * COUNT];
    if (!CHECK(l != NULL)) return NULL;
    for (size_t i = 0; i < c->l->count(c->l, l); i++) v[i] = (float)i / 8;
    c->l->upload(c->l, l, v);
    return l;
}

static void read_latent(const scene *c, const kiln_latent *l, float *to)
{
    if (l) c->l->download(c->l, l, to);
}

static int set_up(scene *c, const kiln_sampling *s)
{
    *c = (scene){.s = s, .l = s->latents};
    c->x = made(c, (kiln_latent_shape){0}), c->y = made(c, (kiln_latent_shape){0});
    c->half = made(c, (kiln_latent_shape){.height = SIDE / 2, .width = SIDE / 2});
    c->two = made(c, (kiln_latent_shape){.pictures = 2});
    c->thin = made(c, (kiln_latent_shape){.channels = 2});
    c->deep = made(c, (kiln_latent_shape){.frames = 2});
    c->deep_mask = made(c, (kiln_latent_shape){.frames = 2, .channels = 1});
    c->mask = made(c, (kiln_latent_shape){.channels = 1});
    c->wide_mask = made(c, (kiln_latent_shape){.width = SIDE / 2, .channels = 1});
    c->half_mask = made(c, (kiln_latent_shape){.height = SIDE / 2, .width = SIDE / 2, .channels = 1});
    c->two_masks = made(c, (kiln_latent_shape){.pictures = 2, .channels = 1});
    c->three_masks = made(c, (kiln_latent_shape){.pictures = 3, .channels = 1});
    return c->x && c->y && c->half && c->two && c->thin && c->deep && c->deep_mask && c->mask && c->wide_mask &&
           c->half_mask && c->two_masks && c->three_masks;
}

/* ---- calls that a run refuses ---- */

#define L c->l
#define AT(y, x) ((kiln_latent_place){y, x})
#define PAIR(a, b) ((kiln_latent *const[]){a, b})
#define DOT(...) (&(kiln_latent_dot){.size = sizeof(kiln_latent_dot), __VA_ARGS__})
#define REFUSED(X)                                                                                                     \
    X(sum_into_nothing, L->lincomb(L, NULL, 1, one, &c->x))                                                            \
    X(sum_of_nothing, L->lincomb(L, c->x, 1, one, PAIR(NULL, NULL)))                                                   \
    X(sum_without_coefficients, L->lincomb(L, c->x, 1, NULL, &c->y))                                                   \
    X(sum_without_latents, L->lincomb(L, c->x, 1, one, NULL))                                                          \
    X(sum_of_65, L->lincomb(L, c->x, 65, many, &c->y))                                                                 \
    X(sum_of_a_smaller, L->lincomb(L, c->x, 1, one, &c->half))                                                         \
    X(sum_of_a_mask, L->lincomb(L, c->x, 1, one, &c->mask))                                                            \
    X(sum_of_two_pictures, L->lincomb_each(L, c->x, 1, one, &c->two))                                                  \
    X(sum_of_two_frames, L->lincomb(L, c->x, 1, one, &c->deep))                                                        \
    X(samplers_sum_of_none, c->s->lincomb(c->s, c->x, 0, NULL, NULL))                                                  \
    X(difference_into_nothing, L->add_difference(L, NULL, c->x, 1, c->x, c->y))                                        \
    X(difference_from_nothing, L->add_difference(L, c->x, NULL, 1, c->x, c->y))                                        \
    X(difference_of_another_shape, L->add_difference(L, c->x, c->y, 1, c->half, c->y))                                 \
    X(difference_to_another_shape, L->add_difference(L, c->x, c->y, 1, c->y, c->mask))                                 \
    X(norm_of_nothing, c->got = L->norm(L, NULL))                                                                      \
    X(samplers_norm_of_nothing, c->got = c->s->norm(c->s, NULL))                                                       \
    X(dot_of_nothing, L->dot(L, NULL, &c->got))                                                                        \
    X(dot_of_none, L->dot(L, DOT(.n = 0, .a = one, .x = &c->x), &c->got))                                              \
    X(dot_without_latents, L->dot(L, DOT(.n = 1, .a = one), &c->got))                                                  \
    X(dot_of_65, L->dot(L, DOT(.n = 65, .a = many, .x = &c->x), &c->got))                                              \
    X(dot_of_different_shapes, L->dot(L, DOT(.n = 2, .a = many, .x = PAIR(c->x, c->half)), &c->got))                   \
    X(dot_of_a_missing_one, L->dot(L, DOT(.n = 2, .a = many, .x = PAIR(c->x, NULL)), &c->got))                         \
    X(blend_into_nothing, L->blend(L, NULL, c->x, c->y, c->mask))                                                      \
    X(blend_of_different_shapes, L->blend(L, c->x, c->y, c->half, c->mask))                                            \
    X(blend_without_a_mask, L->blend(L, c->x, c->x, c->y, NULL))                                                       \
    X(blend_by_a_latent, L->blend(L, c->x, c->x, c->y, c->y))                                                          \
    X(blend_by_a_smaller_mask, L->blend(L, c->x, c->x, c->y, c->half_mask))                                            \
    X(blend_by_a_narrower_mask, L->blend(L, c->x, c->x, c->y, c->wide_mask))                                           \
    X(blend_by_a_mask_of_frames, L->blend(L, c->x, c->x, c->y, c->deep_mask))                                          \
    X(blend_by_three_masks, L->blend(L, c->two, c->two, c->two, c->three_masks))                                       \
    X(crop_above, L->crop(L, c->half, c->x, AT(-1, 0)))                                                                \
    X(crop_left, L->crop(L, c->half, c->x, AT(0, -1)))                                                                 \
    X(crop_below, L->crop(L, c->half, c->x, AT(SIDE / 2 + 1, 0)))                                                      \
    X(crop_right, L->crop(L, c->half, c->x, AT(0, SIDE / 2 + 1)))                                                      \
    X(crop_of_a_smaller, L->crop(L, c->x, c->half, AT(0, 0)))                                                          \
    X(crop_of_nothing, L->crop(L, c->half, NULL, AT(0, 0)))                                                            \
    X(crop_into_nothing, L->crop(L, NULL, c->x, AT(0, 0)))                                                             \
    X(crop_of_two_pictures, L->crop(L, c->half, c->two, AT(0, 0)))                                                     \
    X(crop_of_two_frames, L->crop(L, c->half, c->deep, AT(0, 0)))                                                      \
    X(paste_of_a_mask, L->paste(L, c->x, c->half_mask, AT(0, 0)))                                                      \
    X(sum_up_without_a_total, L->accumulate(L, c->x, NULL, c->half, NULL, AT(0, 0)))                                   \
    X(sum_up_in_a_smaller_total, L->accumulate(L, c->x, c->half_mask, c->half, NULL, AT(0, 0)))                        \
    X(sum_up_two_in_one_total, L->accumulate(L, c->two, c->mask, c->two, NULL, AT(0, 0)))                              \
    X(sum_up_outside, L->accumulate(L, c->x, c->mask, c->half, NULL, AT(3, 3)))                                        \
    X(sum_up_with_another_weight, L->accumulate(L, c->x, c->mask, c->half, c->mask, AT(0, 0)))                         \
    X(divide_nothing, L->divide(L, NULL, c->mask))                                                                     \
    X(divide_by_nothing, L->divide(L, c->x, NULL))                                                                     \
    X(divide_by_a_smaller, L->divide(L, c->x, c->half_mask))                                                           \
    X(upload_to_nothing, L->upload(L, NULL, (float[COUNT]){0}))                                                        \
    X(upload_of_nothing, L->upload(L, c->x, NULL))                                                                     \
    X(download_from_nothing, L->download(L, NULL, (float[COUNT]){0}))                                                  \
    X(download_to_nothing, L->download(L, c->x, NULL))                                                                 \
    X(roll_onto_itself, L->roll(L, c->x, c->x, AT(1, 1)))                                                              \
    X(roll_of_another_shape, L->roll(L, c->x, c->half, AT(1, 1)))                                                      \
    X(resize_of_nothing, L->resize(L, c->x, NULL, KILN_RESIZE_AREA))                                                   \
    X(resize_into_nothing, L->resize(L, NULL, c->x, KILN_RESIZE_AREA))                                                 \
    X(resize_of_two_channels, L->resize(L, c->x, c->thin, KILN_RESIZE_AREA))                                           \
    X(resize_by_no_method, L->resize(L, c->x, c->half, KILN_RESIZE_BISLERP + 1))                                       \
    X(random_into_nothing, L->random(L, NULL, 1))                                                                      \
    X(guess_of_nothing, c->got = c->s->denoise(c->s, NULL, 1, c->x) != KILN_ERR_BUG)                                   \
    X(guess_into_nothing, c->got = c->s->denoise(c->s, c->x, 1, NULL) != KILN_ERR_BUG)                                 \
    X(guess_of_a_smaller, c->got = c->s->denoise(c->s, c->half, 1, c->half) != KILN_ERR_BUG)                           \
    X(guess_into_a_mask, c->got = c->s->denoise(c->s, c->x, 1, c->mask) != KILN_ERR_BUG)                               \
    X(unconditional_into_nothing, c->got = c->s->unconditional(c->s, NULL) != KILN_ERR_BUG)                            \
    X(unconditional_into_a_smaller, c->got = c->s->unconditional(c->s, c->half) != KILN_ERR_BUG)                       \
    X(noise_into_nothing, c->got = c->s->noise(c->s, 2, 1, NULL) != KILN_ERR_BUG)                                      \
    X(step_without_a_guess, c->got = c->s->step(c->s, 0, NULL) != KILN_ERR_BUG)                                        \
    X(error_of_nothing, c->got = c->s->error(c->s, NULL, c->x, c->y, 1, 1))                                            \
    X(error_of_different_shapes, c->got = c->s->error(c->s, c->x, c->half, c->y, 1, 1))                                \
    X(error_before_another_shape, c->got = c->s->error(c->s, c->x, c->y, c->half, 1, 1))                               \
    X(clip_of_nothing, c->s->clip(c->s, NULL, 1))

#define X(id, ...)                                                                                                     \
    static void id(scene *c) { __VA_ARGS__; }
REFUSED(X)
#undef X
#define X(id, ...) {#id, id},
static const struct {
    const char *name;
    void (*call)(scene *);
} refused[] = {REFUSED(X)};
#undef X

static size_t which;

static kiln_status run_refused(const kiln_sampling *s)
{
    scene c;
    float before[COUNT], after[COUNT];
    if (!set_up(&c, s)) return KILN_ERR_NOMEM;
    read_latent(&c, c.x, before);
    refused[which].call(&c);
    read_latent(&c, c.x, after);
    CHECK_MSG(c.got == 0, "%s: gave %g", refused[which].name, c.got);
    CHECK_MSG(memcmp(before, after, sizeof before) == 0, "%s: changed a latent", refused[which].name);
    return KILN_OK;
}

static sampling_plan plan_of(const kiln_sampler *row)
{
    return SAMPLING_PLAN(.row = row, .process = KILN_PROCESS_DIFFUSION, .sigma = levels, .n = STEPS, .side = SIDE,
                         .seed = 7);
}

static void test_refused_calls(void)
{
    const kiln_sampler row = {.size = sizeof row, .name = "refused", .run = run_refused};
    const sampling_plan plan = plan_of(&row);
    for (which = 0; which < sizeof refused / sizeof refused[0]; which++) {
        sampled got;
        CHECK_EQ(sampling_try(&plan, &got), KILN_OK);
        CHECK_EQ(got.status, KILN_OK);
        CHECK_MSG(got.bad_call == 1, "%s: was not noticed", refused[which].name);
        sampled_free(&got);
    }
}

/* ---- what is allowed ---- */

static void check_sums(scene *c)
{
    float got[2 * COUNT];
    double of[2] = {0, 0};
    L->lincomb(L, c->y, 2, (double[]){2, -1}, PAIR(c->x, c->y));
    read_latent(c, c->y, got);
    CHECK_EQ(got[8], 1); /* element 8 was 1 in both */
    L->lincomb(L, c->y, 0, NULL, NULL);
    CHECK_EQ(L->norm(L, c->y), 0);
    c->s->lincomb(c->s, c->y, 1, (double[]){3}, &c->x);
    CHECK_NEAR(c->s->norm(c->s, c->y), 3 * L->norm(L, c->x), 1e-12);
    L->lincomb_each(L, c->two, 1, (double[]){1, 10}, &c->two);
    read_latent(c, c->two, got);
    CHECK_EQ(got[8], 1);
    CHECK_EQ(got[COUNT + 8], 10 * (COUNT + 8) / 8);
    L->add_difference(L, c->y, c->x, 2, c->y, c->x); /* x + 2 (3x - x) */
    read_latent(c, c->y, got);
    CHECK_EQ(got[16], 2 + 2 * 4);
    L->lincomb(L, c->y, 0, NULL, NULL);
    L->dot(L, DOT(.n = 2, .a = (double[]){1, 1}, .x = PAIR(c->x, c->y)), of);
    CHECK_NEAR(of[0], (COUNT - 1) * COUNT / 2 / 8.0, 1e-12);
    L->dot(L, DOT(.n = 1, .a = (double[]){0}, .b = (double[]){0}, .shift = (double[]){2, 3}, .x = &c->two), of);
    CHECK_EQ(of[0], 4 * COUNT); /* both factors are the picture's shift */
    CHECK_EQ(of[1], 9 * COUNT);
}

static void check_masks(scene *c)
{
    float got[2 * COUNT], half[2 * COUNT] = {0};
    for (int i = 0; i < SIDE * SIDE; i++) half[i] = 0.5f;
    L->upload(L, c->two_masks, half); /* of the second picture's nothing */
    L->lincomb(L, c->two, 0, NULL, NULL);
    kiln_latent *ten = made(c, (kiln_latent_shape){.pictures = 2});
    if (!ten) return;
    L->blend(L, c->two, ten, c->two, c->two_masks);
    read_latent(c, c->two, got);
    CHECK_EQ(got[16], 1);
    CHECK_EQ(got[COUNT], 0);
    L->upload(L, c->mask, half);
    L->blend(L, c->two, ten, ten, c->mask); /* one mask stands for both */
    read_latent(c, c->two, got);
    CHECK_EQ(got[COUNT], COUNT / 8);
    L->lincomb(L, c->y, 0, NULL, NULL), L->lincomb(L, c->mask, 0, NULL, NULL);
    L->accumulate(L, c->y, c->mask, c->half, NULL, AT(2, 1));
    L->accumulate(L, c->y, c->mask, c->half, NULL, AT(2, 1));
    L->lincomb(L, c->half_mask, 0, NULL, NULL);
    L->accumulate(L, c->y, c->mask, c->half, c->half_mask, AT(0, 0)); /* of weight 0 */
    read_latent(c, c->y, got);
    CHECK_EQ(got[(3 * SIDE + 2) * CHANNELS + 3], 2 * 15 / 8.0f); /* the part's last */
    CHECK_EQ(got[0], 0);
    L->divide(L, c->y, c->mask);
    read_latent(c, c->y, got);
    CHECK_NEAR(got[(3 * SIDE + 2) * CHANNELS + 3], 15 / 8.0, 1e-6);
    CHECK_EQ(got[0], 0); /* its total is 0 */
}

static void check_places(scene *c)
{
    float got[COUNT];
    L->lincomb(L, c->y, 0, NULL, NULL);
    L->crop(L, c->half, c->x, AT(1, 2));
    L->paste(L, c->y, c->half, AT(0, 0));
    read_latent(c, c->y, got);
    CHECK_EQ(got[0], (1 * SIDE + 2) * CHANNELS / 8.0f);
    CHECK_EQ(got[SIDE * CHANNELS], (2 * SIDE + 2) * CHANNELS / 8.0f);
    CHECK_EQ(got[2 * CHANNELS], 0);
    L->roll(L, c->y, c->x, AT(-1, SIDE + 1));
    read_latent(c, c->y, got);
    CHECK_EQ(got[1 * CHANNELS], SIDE * CHANNELS / 8.0f); /* (1, 0) went to (0, 1) */
    L->resize(L, c->half, c->x, KILN_RESIZE_NEAREST);
    read_latent(c, c->half, got);
    CHECK_EQ(got[3 * CHANNELS], (2 * SIDE + 2) * CHANNELS / 8.0f);
    CHECK_EQ(L->count(L, NULL), COUNT);
    CHECK_EQ(L->shape(L, NULL).channels, CHANNELS);
    CHECK_EQ(L->shape(L, c->deep).frames, 2);
    CHECK_EQ(L->count(L, c->thin), COUNT / 2);
}

static void check_measures(scene *c)
{
    float got[COUNT] = {0};
    for (int i = 0; i < COUNT; i++) got[i] = i % 2 ? 1.0f : -1.0f;
    got[0] = -100;
    L->upload(L, c->y, got);
    c->s->clip(c->s, c->y, 1);
    read_latent(c, c->y, got);
    CHECK(got[0] > -20 && got[0] < -10);
    CHECK_EQ(got[1], 1);
    L->random(L, c->y, 5);
    CHECK_NEAR(L->norm(L, c->y), 1, 0.5); /* of 64 numbers: the deviation of their norm is 0.09 */
    L->random(L, c->x, 5);
    CHECK_EQ(c->s->error(c->s, c->x, c->y, c->x, 1, 0), 0);
    L->lincomb(L, c->y, 0, NULL, NULL);
    CHECK_NEAR(c->s->error(c->s, c->x, c->y, c->y, 0, 1), 1, 1e-12); /* each by its own size */
}

static kiln_status run_allowed(const kiln_sampling *s)
{
    scene c;
    if (!set_up(&c, s)) return KILN_ERR_NOMEM;
    check_sums(&c), check_masks(&c), check_places(&c), check_measures(&c);
    return s->fail(s, KILN_ERR_UNSUPPORTED, "enough after %d", 3);
}

static void test_allowed_calls(void)
{
    const kiln_sampler row = {.size = sizeof row, .name = "allowed", .run = run_allowed};
    const sampling_plan plan = plan_of(&row);
    sampled got;
    CHECK_EQ(sampling_try(&plan, &got), KILN_OK);
    CHECK_EQ(got.status, KILN_ERR_UNSUPPORTED);
    CHECK_STR(got.failure, "enough after 3");
    CHECK_EQ(got.bad_call, 0);
    CHECK_EQ(got.after_stop, 0);
    CHECK_EQ(got.last_step, -1);
    sampled_free(&got);
}

/* ---- guesses ---- */

static uint32_t process;

static kiln_status run_guesses(const kiln_sampling *s)
{
    float at_top[COUNT], clean[COUNT];
    kiln_latent *out = s->latents->create(s->latents, NULL), *again = s->latents->create(s->latents, NULL);
    int flow = process == KILN_PROCESS_FLOW;
    CHECK_EQ(s->percent_to_sigma(s, 1), 0);
    CHECK_NEAR(s->percent_to_sigma(s, 0), flow ? 1 : 1e9, 1e-12);
    CHECK_NEAR(s->percent_to_sigma(s, 0.5), flow ? 0.5 : sqrt(14.6146 * 0.0292), 1e-9);
    CHECK_EQ(s->denoise(s, s->x, 1, out), KILN_OK);
    s->latents->download(s->latents, out, at_top);
    if (flow) CHECK_EQ(s->latents->norm(s->latents, out), 0); /* of noise alone the mean is known */
    CHECK_EQ(s->unconditional(s, again), KILN_OK);
    CHECK_EQ(s->error(s, out, again, s->x, 1, 0), 0);
    CHECK_EQ(s->denoise(s, s->x, 1e-6, out), KILN_OK);
    s->latents->download(s->latents, s->x, at_top), s->latents->download(s->latents, out, clean);
    return CHECK_ARRAY(clean, at_top, COUNT, 1e-4) ? KILN_OK : KILN_ERR_BUG;
}

static void test_guesses(void)
{
    const kiln_sampler row = {.size = sizeof row, .name = "guesses", .run = run_guesses};
    for (process = KILN_PROCESS_DIFFUSION; process <= KILN_PROCESS_FLOW; process++) {
        sampling_plan plan = plan_of(&row);
        sampled got;
        plan.process = process;
        CHECK_EQ(sampling_try(&plan, &got), KILN_OK);
        CHECK_EQ(got.status, KILN_OK);
        CHECK_EQ(got.evaluations, 2);
        CHECK_EQ(got.unconditionals, 1);
        CHECK_NEAR(got.asked_low, 1e-6, 1e-12);
        sampled_free(&got);
    }
}

/* ---- what is told, and what is done after ---- */

static kiln_status run_deaf(const kiln_sampling *s)
{
    kiln_latent *d = s->latents->create(s->latents, NULL);
    if (!d) return KILN_ERR_NOMEM;
    s->denoise(s, s->x, 2, d);
    s->noise(s, 2, 1, d);
    s->step(s, 1, d);
    s->step(s, 0, d);
    return s->step(s, s->n, d);
}

static void test_stops(void)
{
    const kiln_sampler row = {.size = sizeof row, .name = "deaf", .run = run_deaf};
    static const struct {
        const char *name;
        int64_t denoise, noise, stop;
        int after;
    } cases[] = {{"none", -1, -1, -1, 0},
                 {"denoise", 0, -1, -1, 1},
                 {"noise", -1, 0, -1, 1},
                 {"step", -1, -1, 1, 1},
                 {"later", 1, 1, 2, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sampling_plan plan = plan_of(&row);
        sampled got;
        plan.fail_denoise = cases[i].denoise, plan.fail_noise = cases[i].noise, plan.stop_at = cases[i].stop;
        CHECK_EQ(sampling_try(&plan, &got), KILN_OK);
        CHECK_MSG((got.after_stop > 0) == cases[i].after, "%s: %d calls after", cases[i].name, (int)got.after_stop);
        CHECK_EQ(got.fell, 1);
        CHECK_EQ(got.beyond, 1);
        CHECK_EQ(got.steps, 3);
        sampled_free(&got);
    }
}

/* ---- memory ---- */

static kiln_status run_memory(const kiln_sampling *s)
{
    char name[80];
    kiln_latent *first = s->slot(s, "first");
    double *two = s->scalars(s, "two", 2);
    if (!first || !two) return KILN_ERR_NOMEM;
    CHECK(s->slot(s, "first") == first);
    CHECK(s->scalars(s, "two", 1) == two);
    CHECK(s->scalars(s, "two", 3) == NULL);
    CHECK(s->scalars(s, "too many", 65) == NULL);
    memset(name, 'x', sizeof name), name[sizeof name - 1] = '\0';
    CHECK(s->slot(s, name) == NULL);
    CHECK(s->scalars(s, name, 1) == NULL);
    two[1] += 1;
    for (int i = 1; i < 64; i++) {
        snprintf(name, sizeof name, "slot%d", i);
        CHECK(s->slot(s, name) != NULL);
        if (i < 16) CHECK(s->scalars(s, name, 64) != NULL);
    }
    CHECK(s->slot(s, "one more") == NULL);
    CHECK(s->scalars(s, "one more", 1) == NULL);
    s->latents->upload(s->latents, first, (float[COUNT]){5});
    s->step(s, s->first, first);
    return two[1] == 1 ? KILN_OK : KILN_ERR_UNSUPPORTED;
}

static kiln_status run_resumed(const kiln_sampling *s)
{
    float got[COUNT];
    CHECK_EQ(s->first, 1);
    s->latents->download(s->latents, s->slot(s, "first"), got);
    CHECK_EQ(got[0], 5);
    CHECK_EQ(s->scalars(s, "two", 2)[1], 1);
    return KILN_OK;
}

static void test_memory_is_kept(void)
{
    const kiln_sampler row = {.size = sizeof row, .name = "memory", .run = run_memory},
                       then = {.size = sizeof then, .name = "resumed", .run = run_resumed};
    sampling_plan plan = plan_of(&row), more = plan_of(&then);
    sampled whole, part, rest;
    CHECK_EQ(sampling_try(&plan, &whole), KILN_OK);
    CHECK_EQ(whole.status, KILN_OK);
    more.resume = &whole, more.first = 1;
    CHECK_EQ(sampling_try(&more, &rest), KILN_OK);
    CHECK_EQ(rest.status, KILN_OK);
    CHECK(memcmp(rest.x, whole.x, whole.count * sizeof *whole.x) == 0);
    for (plan.fail_memory = 0; plan.fail_memory < 2; plan.fail_memory++) {
        CHECK_EQ(sampling_try(&plan, &part), KILN_OK);
        CHECK_EQ(part.status, KILN_ERR_NOMEM);
        sampled_free(&part);
    }
    sampled_free(&whole), sampled_free(&rest);
}

/* ---- noise ---- */

static kiln_status run_noise(const kiln_sampling *s)
{
    float a[COUNT], b[COUNT], c[COUNT], w[COUNT];
    const kiln_latents *l = s->latents;
    kiln_latent *d = l->create(l, NULL), *half = l->create(l, &(kiln_latent_shape){.height = 1});
    CHECK_EQ(s->noise(s, 3, 2, d), KILN_OK), l->download(l, d, a);
    CHECK_EQ(s->noise(s, 2, 1, d), KILN_OK), l->download(l, d, b);
    CHECK_EQ(s->noise(s, 3, 1, d), KILN_OK), l->download(l, d, c);
    for (int i = 0; i < COUNT; i++) w[i] = (float)((double)(a[i] + b[i]) / sqrt(2));
    CHECK_ARRAY(c, w, COUNT, 1e-5);
    CHECK_EQ(s->noise(s, 2.5, 2, d), KILN_OK), l->download(l, d, b); /* between two levels, and the rest of the step */
    CHECK_EQ(s->noise(s, 3, 2.5, d), KILN_OK), l->download(l, d, c);
    for (int i = 0; i < COUNT; i++) w[i] = (float)((double)(b[i] + c[i]) * sqrt(0.5));
    CHECK_ARRAY(w, a, COUNT, 1e-5);
    CHECK_EQ(s->noise(s, 2, 2, d), KILN_OK); /* no path leads there: white */
    CHECK(l->norm(l, d) > 0.5);
    CHECK_EQ(s->noise(s, 3, 2, half), KILN_OK);
    CHECK(l->norm(l, half) > 0.2);
    for (int i = 0; i < 5000; i++) {
        kiln_status status = s->noise(s, 4, 5 + i, d);
        if (status != KILN_OK) return status;
    }
    return KILN_OK;
}

static void test_brownian_path(void)
{
    const kiln_sampler row = {.size = sizeof row, .name = "path", .flags = KILN_SAMPLER_BROWNIAN, .run = run_noise};
    const sampling_plan plan = plan_of(&row);
    sampled got;
    CHECK_EQ(sampling_try(&plan, &got), KILN_OK);
    CHECK_EQ(got.status, KILN_ERR_NOMEM); /* of more levels than are kept */
    CHECK(got.draws > 4000);
    sampled_free(&got);
}

/* ---- sizes, starts, exact steps ---- */

static kiln_status run_resizes(const kiln_sampling *s)
{
    const kiln_latents *l = s->latents;
    kiln_latent *kept = s->slot(s, "kept");
    CHECK_EQ(s->resize(s, 2, KILN_RESIZE_BILINEAR), KILN_OK);
    CHECK_EQ(l->count(l, s->x), 4 * COUNT);
    CHECK_EQ(l->count(l, kept), 4 * COUNT);
    CHECK_EQ(s->resize(s, 0, KILN_RESIZE_BILINEAR), KILN_OK);
    CHECK_EQ(l->count(l, s->x), CHANNELS);
    return s->resize(s, 1e6, KILN_RESIZE_BILINEAR);
}

static void test_sizes(void)
{
    const kiln_sampler row = {.size = sizeof row, .name = "resizes", .flags = KILN_SAMPLER_RESIZES, .run = run_resizes};
    const sampling_plan plan = plan_of(&row);
    sampled got;
    CHECK_EQ(sampling_try(&plan, &got), KILN_OK);
    CHECK_EQ(got.status, KILN_ERR_NOMEM);
    CHECK_EQ(got.resizes, 3);
    CHECK_EQ(got.count, CHANNELS);
    sampled_free(&got);
}

static kiln_status run_steps(const kiln_sampling *s)
{
    for (size_t i = 0; i < 2; i++) s->step(s, i, s->x);
    return KILN_OK;
}

static void test_exact_steps(void)
{
    const kiln_sampler row = {.size = sizeof row, .name = "steps", .run = run_steps};
    double start[COUNT], exact[STEPS * COUNT], square, fourth;
    for (int i = 0; i < COUNT; i++) start[i] = i - COUNT / 2;
    sampling_plan plan = plan_of(&row);
    sampled got;
    plan.start = start, plan.exact = 2;
    CHECK(sampling_exact(plan.process, levels, STEPS, start, COUNT, exact));
    CHECK_EQ(sampling_try(&plan, &got), KILN_OK);
    CHECK(memcmp(got.x, exact + COUNT, COUNT * sizeof *exact) == 0);
    sampled_free(&got);
    /* Whatever began below 0 goes to the Gaussian about -1, the rest to the one about 1. */
    CHECK(exact[COUNT] < 0 && exact[2 * COUNT - 1] > 0);
    sampling_moments(&square, &fourth);
    CHECK_NEAR(square, 1 + 0.0625, 1e-12);
    CHECK_NEAR(fourth, 1 + 6 * 0.0625 + 3 * 0.0625 * 0.0625, 1e-12);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_refused_calls), CASE(test_allowed_calls),  CASE(test_guesses),
                                      CASE(test_stops),         CASE(test_memory_is_kept), CASE(test_brownian_path),
                                      CASE(test_sizes),         CASE(test_exact_steps)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
