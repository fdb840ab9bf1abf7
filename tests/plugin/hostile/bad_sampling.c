/* bad_sampling.c - samplers and schedules that each break the contract of kiln/sampler.h in one way, beside one that
 * does not ("good"): what `kiln check-plugin` has to say of each is in test_check_sampling.sh.
 */
#include "kiln/kit.h"
#include "kiln/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    double eta, gain;
} options;
static const kiln_param option[] = {
    KIT_FLOAT(options, eta, 1, 0, 1, 0.1, "Noise."),
    KIT_FLOAT(options, gain, 1, 0, 2, 0.1, "Times the guess."),
};

/* clang-format off */
#define WAYS(X) \
    X(good) X(never_steps) X(deaf_to_cancel) X(deaf_to_denoise) X(deaf_to_noise) X(deaf_to_memory) \
    X(steps_back) X(steps_beyond) X(keeps_history) X(draws_unsaid) X(says_unconditional) \
    X(calls_unconditional) X(resizes_unsaid) X(writes_levels) X(one_order_less) X(too_much_noise) X(no_noise) \
    X(not_finite) X(never_asks) X(asks_twice) X(static_counter) X(unwritten) X(wrong_code) X(silent) \
    X(no_terms) X(null_latent) X(first_is_ignored) X(acts_when_done) X(exits) X(aborts) X(hangs_up) \
    X(option_divides) X(steps_late) X(one_step_fails) X(no_rows) X(beyond_options) X(static_across) \
    X(order_0) X(order_too_low) X(asks_less) X(says_stochastic) X(rows_unread)
/* clang-format on */
#define NAME(way) WAY_##way,
enum { WAYS(NAME) WAY_COUNT };

static double history; /* where no saved state has it */
static int counter;

/* Euler's method with ancestral noise (k-diffusion's euler_ancestral), and what is wrong with it. */
static kiln_status bad(const kiln_sampling *s, int way)
{
    const options *o = s->options;
    const int noisy = way == WAY_good || way == WAY_deaf_to_noise || way == WAY_draws_unsaid ||
                      way == WAY_too_much_noise || way == WAY_no_noise;
    kiln_latent *d = way == WAY_null_latent ? NULL : s->slot(s, "guess"), *n = noisy ? s->slot(s, "noise") : d;
    double *kept = s->scalars(s, "kept", 2);
    if (way == WAY_beyond_options) s->lincomb(s, d, 1, (double[]){((const volatile double *)o)[2]}, &d);
    if (way == WAY_exits) exit(0);
    if (way == WAY_aborts) abort();
    if (way == WAY_one_step_fails && s->n == 1) return KILN_ERR_INVALID;
    if ((!d || !n || !kept) && way != WAY_deaf_to_memory && way != WAY_null_latent)
        return way == WAY_wrong_code ? KILN_ERR_BUG : KILN_ERR_NOMEM;
    if (!d && way == WAY_deaf_to_memory) return KILN_OK;
    if (way == WAY_silent && o->gain == 2) return KILN_ERR_INVALID;
    if (way == WAY_no_terms) s->lincomb(s, s->x, 0, NULL, NULL);
    if (way == WAY_writes_levels) ((double *)(uintptr_t)s->sigma)[1] *= 0.99;
    if (way == WAY_resizes_unsaid) TRY(s->resize(s, 1, KILN_RESIZE_BILINEAR));
    for (size_t i = way == WAY_first_is_ignored ? 0 : s->first; i < s->n || (way == WAY_acts_when_done && i == s->n);
         i++) {
        const double from = s->sigma[i], to = i < s->n ? s->sigma[i + 1] : 0;
        double down = to;
        kiln_status status = way == WAY_never_asks ? KILN_OK : s->denoise(s, s->x, from, d);
        if (status != KILN_OK && way != WAY_deaf_to_denoise) return status;
        if (way == WAY_asks_twice) TRY(s->denoise(s, s->x, from, d));
        if (way == WAY_calls_unconditional) TRY(s->unconditional(s, d));
        if (way == WAY_option_divides || way == WAY_no_rows)
            s->lincomb(s, d, 1, (double[]){1 / o->gain}, (kiln_latent *[]){d});
        if (noisy && to > 0) /* eta 1: all the noise that the step may have */
            down = sqrt(fmax(0, to * to - o->eta * o->eta * to * to * (from * from - to * to) / (from * from)));
        double a = from > 0 ? (down - from) / from : 0;
        if (way == WAY_one_order_less) a *= 1.05;
        if (way == WAY_keeps_history) a *= 1 + 1e-4 * history, history = from;
        if (way == WAY_static_counter) a *= 1 + 1e-4 * counter++;
        if (way == WAY_static_across) a *= 1 + 1e-3 * (i > 0 ? history : 0), history = from;
        if (way == WAY_not_finite && i == 3) a = NAN;
        if (way == WAY_unwritten) {
            double *memory = malloc(4096);
            if (!memory) return KILN_ERR_NOMEM;
            a *= 1 + 1e-4 * (((unsigned char *)(volatile double *)memory)[2048] == 0x5a ||
                             ((unsigned char *)(volatile double *)memory)[2048] == 0xa5);
            free(memory);
        }
        s->lincomb(s, s->x, 2, (double[]){1 + a, -a}, (kiln_latent *[]){s->x, d});
        if (noisy && to > 0 && o->eta > 0) {
            double up = sqrt(fmax(0, to * to - down * down)) * (way == WAY_too_much_noise ? 1.6 : 1);
            kiln_status drawn = way == WAY_no_noise ? KILN_OK : s->noise(s, from, to, n);
            if (drawn != KILN_OK && way != WAY_deaf_to_noise) return drawn;
            if (way != WAY_no_noise) s->lincomb(s, s->x, 2, (double[]){1, up}, (kiln_latent *[]){s->x, n});
        }
        if (way == WAY_never_steps) continue;
        if (way == WAY_steps_late && i + 1 == s->n) continue;
        status = s->step(s, way == WAY_steps_back ? s->n - 1 - i : way == WAY_steps_beyond ? i + 1 : i, d);
        if (status != KILN_OK && way != WAY_deaf_to_cancel) return way == WAY_hangs_up ? KILN_OK : status;
    }
    return KILN_OK;
}

/* Nothing is wrong with it but its row, which says order 1. */
static kiln_status run_heun(const kiln_sampling *s)
{
    kiln_latent *d = s->slot(s, "guess"), *e = s->slot(s, "later"), *y = s->slot(s, "there");
    if (!d || !e || !y) return KILN_ERR_NOMEM;
    for (size_t i = s->first; i < s->n; i++) {
        const double from = s->sigma[i], to = s->sigma[i + 1], a = (to - from) / from;
        TRY(s->denoise(s, s->x, from, d));
        s->lincomb(s, y, 2, (double[]){1 + a, -a}, (kiln_latent *[]){s->x, d});
        if (to > 0) {
            const double b = (to - from) / to;
            TRY(s->denoise(s, y, to, e));
            s->lincomb(s, y, 4, (double[]){1 + a / 2, -a / 2, b / 2, -b / 2}, (kiln_latent *[]){s->x, d, y, e});
        }
        s->lincomb(s, s->x, 1, (double[]){1}, (kiln_latent *[]){y});
        TRY(s->step(s, i, d));
    }
    return KILN_OK;
}

#define RUN(way)                                                                                                       \
    static kiln_status run_##way(const kiln_sampling *s) { return bad(s, WAY_##way); }
WAYS(RUN)
#define ROW(way)                                                                                                       \
    {.size = sizeof(kiln_sampler),                                                                                     \
     .name = "bad_" #way,                                                                                              \
     .doc = "Misbehaves.",                                                                                             \
     .source = "nowhere",                                                                                              \
     .order = 1,                                                                                                       \
     .evaluations = 1,                                                                                                 \
     KILN_ARRAY(param, option),                                                                                        \
     .params_size = sizeof(options),                                                                                   \
     .run = run_##way},
static kiln_sampler row[] = {WAYS(ROW)};

/* ---- schedules ---- */

#define LEVELS(X)                                                                                                      \
    X(even)                                                                                                            \
    X(rises)                                                                                                           \
    X(negative) X(nan) X(too_high) X(leaves_noise) X(overruns) X(deaf_to_room) X(changes) X(equal) X(huge) X(crashes)
#define LEVEL(way) LEVELS_##way,
enum { LEVELS(LEVEL) LEVELS_COUNT };

static size_t make(const kiln_schedule_input *in, double *out, size_t capacity, int way)
{
    const size_t n = way == LEVELS_huge ? 1000000 : in->steps + 1;
    size_t most = way == LEVELS_overruns ? n : n < capacity ? n : capacity;
    for (size_t i = 0; i < most && way != LEVELS_huge; i++) {
        double share = in->steps ? (double)i / (double)in->steps : 0;
        out[i] = in->sigma_max * (1 - share);
        if (way == LEVELS_rises && i == 2) out[i] = out[1] * 1.5;
        if (way == LEVELS_negative && i == 1) out[i] = -out[i] - 1;
        if (way == LEVELS_nan && i == 1) out[i] = NAN;
        if (way == LEVELS_too_high) out[i] *= 1.5;
        if (way == LEVELS_leaves_noise) out[i] += in->sigma_max / 10;
        if (way == LEVELS_changes) out[i] *= 1 - 1e-6 * counter++;
        if (way == LEVELS_equal && i == 2) out[i] = out[1];
    }
    if (way == LEVELS_leaves_noise)
        for (size_t i = 0; i < most; i++) out[i] *= 10.0 / 11;
    if (way == LEVELS_crashes && in->steps == 333) abort();
    return way == LEVELS_deaf_to_room && n > capacity ? capacity : n;
}
#define MAKE(way)                                                                                                      \
    static size_t make_##way(const kiln_schedule_input *in, double *out, size_t capacity)                              \
    {                                                                                                                  \
        return make(in, out, capacity, LEVELS_##way);                                                                  \
    }
LEVELS(MAKE)
#define SCHEDULE(way) {.size = sizeof(kiln_schedule), .name = "bad_" #way, .doc = "Levels.", .make = make_##way},
static const kiln_schedule schedule[] = {LEVELS(SCHEDULE)};

#ifdef ONLY_GOOD
#define IS_WANTED(i) ((i) == WAY_good || (i) == (size_t)WAY_COUNT + LEVELS_even)
#elif defined FEW
#define IS_WANTED(i) ((i) == WAY_too_much_noise || (i) == WAY_exits || (i) == WAY_asks_twice)
#else
#define IS_WANTED(i) 1
#endif

static kiln_status open_plugin(const kiln_host *h)
{
    const kiln_sampler_api *api = h->ability(KILN_SAMPLER_ABILITY);
    if (!api) return KILN_ERR_UNSUPPORTED;
    row[WAY_good].flags = row[WAY_deaf_to_noise].flags = row[WAY_too_much_noise].flags = row[WAY_no_noise].flags =
        KILN_SAMPLER_STOCHASTIC;
    row[WAY_says_unconditional].flags = KILN_SAMPLER_UNCONDITIONAL;
    row[WAY_one_order_less].order = 2, row[WAY_order_0].order = 0, row[WAY_asks_less].evaluations = 1.5;
    row[WAY_order_too_low].run = run_heun, row[WAY_order_too_low].evaluations = 2;
    row[WAY_says_stochastic].flags = KILN_SAMPLER_STOCHASTIC;
    row[WAY_rows_unread].n_param = 0, row[WAY_rows_unread].params_size = 0;
    row[WAY_no_rows].param = NULL, row[WAY_no_rows].n_param = 0, row[WAY_no_rows].params_size = 0;
    for (size_t i = 0; i < WAY_COUNT; i++)
        if (IS_WANTED(i)) TRY(api->register_sampler(&row[i]));
    for (size_t i = 0; i < LEVELS_COUNT; i++)
        if (IS_WANTED(WAY_COUNT + i)) TRY(api->register_schedule(&schedule[i]));
    return KILN_OK;
}
KILN_PLUGIN_WITHOUT_NODES("org.example.bad-sampling", "1.0.0", "MIT", open_plugin);
