/* check_sampler.c - see check_sampler.h: a sampler's steps, its flags, what it does when something fails, whether it
 * goes on from a saved state, its order of convergence, what it draws from a known distribution, and whether it draws
 * the same on a device.
 */
#include "cli/check_sampler.h"

#include "base/arena.h"
#include "base/status.h"
#include "cli/check_options.h"
#include "cli/check_sampler_device.h"
#include "cli/sample_sampling.h"
#include "cli/sample_values.h"
#include "kiln/denoiser.h"
#include "param/param.h"
#include "plugin/abilities.h"
#include "tensor/value.h"

#include <malloc.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 12, SMALL = 2, LARGE = 32, FAILURES = 24, ORDER_STEPS = 1280, BEGIN = 3, SPARE = 4 };

typedef struct {
    const kiln_sampler *row;
    kiln_param_table table;
    arena memory;
    void *options; /* the defaults */
    check_counts counts;
    int64_t lost_elsewhere, draws; /* draws: of noise, with any options */
} trial;

/* Levels between two, as Karras et al. 2022 with rho 7, or evenly; `zero`: and 0 behind them. */
static void fill_levels(double *sigma, size_t n, double high, double low, int even, int zero)
{
    const size_t last = zero ? n - 1 : n;
    for (size_t i = 0; i <= last; i++) {
        double way = last ? (double)i / (double)last : 0, rho = even ? 1 : 7;
        sigma[i] = pow(pow(high, 1 / rho) + way * (pow(low, 1 / rho) - pow(high, 1 / rho)), rho);
    }
    if (zero) sigma[n] = 0;
}

/* The levels that the row is given for so many steps of a process. */
static void usual_levels(double *sigma, size_t n, uint32_t process)
{
    if (process == KILN_PROCESS_FLOW)
        fill_levels(sigma, n, 1, 1.0 / (double)n, 1, 1);
    else
        fill_levels(sigma, n, 10, 0.05, 0, 1);
}

static sampling_plan plan_of(const trial *t, const double *sigma, size_t n)
{
    return SAMPLING_PLAN(.row = t->row, .options = t->table.params_size ? t->options : NULL,
                         .process = KILN_PROCESS_DIFFUSION, .sigma = sigma, .n = n, .side = SMALL, .seed = 7);
}

/* The same bits. */
static int same_numbers(const void *a, const void *b, size_t n) { return memcmp(a, b, n * sizeof(double)) == 0; }

static int same(const sampled *a, const sampled *b)
{
    return a->count == b->count && same_numbers(a->x, b->x, a->count);
}

static int is_finite(const sampled *o)
{
    for (size_t i = 0; i < o->count; i++)
        if (!isfinite(o->x[i])) return 0;
    return 1;
}

/* What has to hold whatever happens. */
static void judge(trial *t, const sampled *o, const char *when)
{
    check_counts *c = &t->counts;
    check_found(c, !o->bad_call, "call",
                "gave a function no latent, one of another shape, or a sum of none or of more than 64, %s", when);
    check_found(c, !o->after_stop, "cancel", "went on after a function had told it to return, %s", when);
    check_found(c, !o->fell, "steps", "told step() a lower number than before, %s", when);
    check_found(c, !o->beyond, "steps", "told step() a number that is not below n, %s", when);
}

/* ---- a whole run, its steps and flags ---- */

static void judge_flags(trial *t, const sampled *o)
{
    const uint32_t flags = t->row->flags;
    check_counts *c = &t->counts;
    check_found(c, !o->draws || flags & KILN_SAMPLER_STOCHASTIC, "flags",
                "asks for noise %lld times, and is not said to be KILN_SAMPLER_STOCHASTIC", (long long)o->draws);
    check_found(c, !o->unconditionals || flags & KILN_SAMPLER_UNCONDITIONAL, "flags",
                "calls unconditional(), and is not said to be KILN_SAMPLER_UNCONDITIONAL");
    check_found(c, o->unconditionals || !(flags & KILN_SAMPLER_UNCONDITIONAL), "flags",
                "is said to be KILN_SAMPLER_UNCONDITIONAL, which makes each guess dearer, and never calls "
                "unconditional()");
    check_found(c, !o->resizes || flags & KILN_SAMPLER_RESIZES, "flags",
                "calls resize(), and is not said to be KILN_SAMPLER_RESIZES");
}

/* A step: what STEPS more of them ask, so that the ends, which may need fewer, do not count. */
static void judge_evaluations(trial *t, const sampled *o)
{
    enum { MORE = 2 * STEPS };
    const double told = t->row->evaluations;
    double sigma[MORE + 1], each = (double)o->evaluations / STEPS;
    sampled twice;
    usual_levels(sigma, MORE, KILN_PROCESS_DIFFUSION);
    const sampling_plan p = plan_of(t, sigma, MORE);
    double slack = 0.35; /* with the ends, or where it chooses its own levels */
    if (sampling_try(&p, &twice) == KILN_OK && twice.status == KILN_OK && twice.last_step == MORE - 1 &&
        twice.evaluations > o->evaluations)
        each = (double)(twice.evaluations - o->evaluations) / STEPS, slack = 0.2;
    sampled_free(&twice);
    if (told > 0 && fabs(each - told) <= slack * told)
        check_holds(&t->counts, "evaluations", "%.2f a step (its row says %.2f)", each, told);
    else
        check_found(&t->counts, told <= 0, "evaluations", "asked the model %.2f times a step; its row says %.2f", each,
                    told);
}

static void try_whole(trial *t)
{
    double sigma[STEPS + 1], before[STEPS + 1];
    sampled one, two;
    check_counts *c = &t->counts;
    usual_levels(sigma, STEPS, KILN_PROCESS_DIFFUSION);
    memcpy(before, sigma, sizeof sigma);
    sampling_plan p = plan_of(t, sigma, STEPS);
    if (sampling_try(&p, &one) != KILN_OK) {
        sampled_free(&one);
        return;
    }
    judge(t, &one, "at the defaults");
    check_found(c, same_numbers(before, sigma, STEPS + 1), "read-only", "changed the levels it was given");
    if (check_found(c, one.status == KILN_OK, "run", "ended with %s at the defaults: %s", status_name(one.status),
                    one.failure[0] ? one.failure : "without a message")) {
        check_found(c, one.steps > 0, "steps",
                    "never called step(): no progress, no preview, and it cannot be stopped");
        check_found(c, one.steps <= STEPS || t->row->flags & KILN_SAMPLER_EXTRA_STEP || one.last_step < STEPS, "steps",
                    "called step() %lld times for %d steps", (long long)one.steps, STEPS);
        check_found(c, !one.steps || one.last_step == STEPS - 1, "steps",
                    "told step() %lld last, and not %d: what it ends with is not shown, nor kept",
                    (long long)one.last_step, STEPS - 1);
        check_found(c, one.evaluations > 0, "steps", "never asked the model");
        check_found(c, is_finite(&one), "finite", "made a NaN or infinity at the defaults");
        judge_flags(t, &one);
        t->draws += one.draws;
        judge_evaluations(t, &one);
    }
    mallopt(M_PERTURB, 0x5a); /* what it leaves unwritten has other bytes now */
    if (sampling_try(&p, &two) == KILN_OK)
        check_found(c, same(&one, &two) && one.evaluations == two.evaluations, "same",
                    "made other numbers the second time: it keeps something, or reads what it never wrote");
    mallopt(M_PERTURB, 0);
    sampled_free(&one), sampled_free(&two);
}

/* ---- few steps ---- */

static void try_few(trial *t)
{
    double sigma[] = {10, 2, 0.5, 0.1}, to_zero[] = {2, 0};
    sampled o;
    sampling_plan p = plan_of(t, sigma + 2, 1);
    static const char *const when[] = {"with one step", "with two steps that do not end at 0", "with one step to 0"};
    for (int k = 0; k < 3; k++) {
        if (k == 1) p.sigma = sigma, p.n = 2;
        if (k == 2) p.sigma = to_zero, p.n = 1;
        if (sampling_try(&p, &o) == KILN_OK) {
            judge(t, &o, when[k]);
            check_found(&t->counts, o.status == KILN_OK || o.failure[0], "message", "failed without a message %s",
                        when[k]);
            check_found(&t->counts, o.status != KILN_OK || is_finite(&o), "finite", "made a NaN or infinity %s",
                        when[k]);
        }
        sampled_free(&o);
    }
    /* A saved state behind the last step: there is nothing left to do. */
    double whole[STEPS + 1];
    sampled done, again;
    usual_levels(whole, STEPS, KILN_PROCESS_DIFFUSION);
    p = plan_of(t, whole, STEPS);
    if (sampling_try(&p, &done) == KILN_OK && done.status == KILN_OK && done.last_step == STEPS - 1) {
        p.resume = &done, p.first = STEPS;
        if (sampling_try(&p, &again) == KILN_OK)
            check_found(&t->counts, again.status == KILN_OK && same(&done, &again) && !again.evaluations, "resume",
                        "did something where first is n and nothing is left to do");
        sampled_free(&again);
    }
    sampled_free(&done);
}

/* ---- going on ---- */

/* Stopped after a few steps and taken up by another process, as a run is. Each process begins before this one has
 * sampled, so what lies outside x, slots and scalars is as the plugin's file has it. Returns the step it goes on from
 * with other numbers; 0: it does not; < 0: it cannot be said. */
static int64_t lost_elsewhere(const trial *t)
{
    static const int64_t stop[] = {0, 1, STEPS / 2};
    double sigma[STEPS + 1];
    sampled whole, part, rest;
    int64_t lost = 0;
    usual_levels(sigma, STEPS, KILN_PROCESS_DIFFUSION);
    const sampling_plan p = plan_of(t, sigma, STEPS);
    if (sampling_elsewhere(&p, &whole) != KILN_OK || whole.status != KILN_OK) lost = -1;
    for (size_t k = 0; k < sizeof stop / sizeof *stop && !lost; k++) {
        sampling_plan until = p, from = p;
        until.stop_at = stop[k];
        if (sampling_elsewhere(&until, &part) != KILN_OK || part.status != KILN_CANCELLED || part.last_step < 0) {
            sampled_free(&part);
            lost = -1;
            break;
        }
        from.resume = &part, from.first = (size_t)(part.last_step + 1);
        if (sampling_elsewhere(&from, &rest) == KILN_OK && !same(&whole, &rest)) lost = part.last_step + 1;
        sampled_free(&rest), sampled_free(&part);
    }
    sampled_free(&whole);
    return lost;
}

static void try_resume(trial *t)
{
    double sigma[STEPS + 1];
    int all = 1;
    sampled whole, part, rest;
    usual_levels(sigma, STEPS, KILN_PROCESS_DIFFUSION);
    const sampling_plan p = plan_of(t, sigma, STEPS);
    if (sampling_try(&p, &whole) != KILN_OK || whole.status != KILN_OK) {
        sampled_free(&whole);
        return;
    }
    for (int64_t stop = 0; stop < whole.steps - 1; stop++) {
        sampling_plan until = p, from = p;
        until.stop_at = stop;
        if (sampling_try(&until, &part) != KILN_OK) {
            sampled_free(&part), sampled_free(&whole);
            return;
        }
        check_found(&t->counts, part.status == KILN_CANCELLED, "cancel",
                    "returned %s when step() had said KILN_CANCELLED after %lld steps", status_name(part.status),
                    (long long)stop + 1);
        judge(t, &part, "when it was cancelled");
        from.resume = &part, from.first = (size_t)(part.last_step + 1);
        int fine = part.last_step >= 0 && sampling_try(&from, &rest) == KILN_OK, held = 1;
        if (fine)
            held = check_found(
                &t->counts, same(&whole, &rest), "resume",
                "made other numbers when it went on from step %lld: something of it is neither in x, nor in "
                "slots, nor in scalars",
                (long long)part.last_step + 1);
        if (fine) sampled_free(&rest);
        sampled_free(&part);
        all &= fine && held;
        if (!held) break;
    }
    if (all && t->lost_elsewhere > 0)
        check_found(&t->counts, 0, "resume",
                    "made other numbers when another process went on from step %lld, and the same ones in this one: a "
                    "static or global variable has something that belongs in slots or scalars",
                    (long long)t->lost_elsewhere);
    else if (all && whole.steps > 1)
        check_holds(&t->counts, "resume", "the same numbers from each of %lld steps on%s", (long long)whole.steps - 1,
                    t->lost_elsewhere ? "" : ", and in another process");
    sampled_free(&whole);
}

/* ---- what fails ---- */

static void try_failing(trial *t, const char *what, size_t member, kiln_status wanted)
{
    double sigma[STEPS + 1];
    usual_levels(sigma, STEPS, KILN_PROCESS_DIFFUSION);
    for (int64_t k = 0; k < FAILURES; k++) {
        sampled o;
        sampling_plan p = plan_of(t, sigma, STEPS);
        memcpy((char *)&p + member, &k, sizeof k);
        if (sampling_try(&p, &o) != KILN_OK) {
            sampled_free(&o);
            return;
        }
        const int64_t calls[] = {o.evaluations, o.draws, o.memory};
        const size_t at = member == offsetof(sampling_plan, fail_denoise) ? 0
                          : member == offsetof(sampling_plan, fail_noise) ? 1
                                                                          : 2;
        int happened = calls[at] > k;
        if (happened) {
            check_found(&t->counts, o.status == wanted, "failure", "returned %s when call %lld of %s had failed",
                        status_name(o.status), (long long)k + 1, what);
            judge(t, &o, "when a function had failed");
        }
        sampled_free(&o);
        if (!happened) return;
    }
}

/* ---- options ---- */

static void try_options(trial *t)
{
    double sigma[STEPS + 1];
    char name[160], when[200];
    usual_levels(sigma, STEPS, KILN_PROCESS_DIFFUSION);
    for (size_t way = 1; way < sample_ways(&t->table); way++) {
        arena memory = {0};
        sampled o = {0};
        void *options = arena_alloc(&memory, t->table.params_size + 1);
        sampling_plan p = plan_of(t, sigma, STEPS);
        p.options = options;
        if (options && sample_params(&t->table, way, &memory, options) && sampling_try(&p, &o) == KILN_OK) {
            snprintf(when, sizeof when, "%s", sample_way_name(&t->table, way, name));
            judge(t, &o, when);
            t->draws += o.draws;
            check_found(&t->counts, o.status == KILN_OK || o.failure[0], "message", "failed without a message %s",
                        when);
            check_found(&t->counts, o.status != KILN_OK || o.steps > 0, "steps", "never called step() %s", when);
            check_found(&t->counts, o.status != KILN_OK || is_finite(&o), "finite", "made a NaN or infinity %s", when);
        }
        sampled_free(&o);
        arena_free(&memory);
    }
    check_found(&t->counts, t->draws || !(t->row->flags & KILN_SAMPLER_STOCHASTIC), "asks-noise",
                "is said to be KILN_SAMPLER_STOCHASTIC, and asks for no noise, neither at its defaults nor at the ends "
                "of its options");
}

/* ---- order of convergence ---- */

/* The options without noise: eta 0 is the equation without it in all samplers that have one. 0: it draws all the same.
 */
static int quiet_options(trial *t, void *options)
{
    double sigma[STEPS + 1];
    sampled o;
    const kiln_param *eta = param_row_named(&t->table, "eta");
    const param_value zero = {.kind = PARAM_NUMBER};
    if (t->table.params_size) memcpy(options, t->options, t->table.params_size);
    if (eta && eta->type == KILN_P_FLOAT) param_put(eta, &zero, NULL, &t->memory, options, NULL);
    usual_levels(sigma, STEPS, KILN_PROCESS_DIFFUSION);
    sampling_plan p = plan_of(t, sigma, STEPS);
    p.options = options;
    int quiet = sampling_try(&p, &o) == KILN_OK && o.status == KILN_OK;
    const int64_t draws = o.draws;
    sampled_free(&o);
    if (!quiet || !draws || !eta) return quiet && !draws;
    /* Noise that is asked for and multiplied by 0 is none. */
    sampling_plan other = p;
    sampled one, two;
    double start[SMALL * SMALL * 4];
    sampling_start(p.process, sigma[0], 1, sizeof start / sizeof *start, start);
    p.start = other.start = start, other.seed = 8;
    quiet = sampling_try(&p, &one) == KILN_OK;
    quiet = sampling_try(&other, &two) == KILN_OK && quiet && same(&one, &two);
    sampled_free(&one), sampled_free(&two);
    return quiet;
}

/* The distance from the exact flow a few steps before the end; < 0: it could not be had. */
static double distance(const trial *t, const void *options, size_t n, int even)
{
    double *sigma = malloc((n + 1) * sizeof *sigma), *exact = NULL, sum = -1;
    sampled o = {0};
    const size_t count = SMALL * SMALL * 4, at = n - 1 - SPARE;
    double start[SMALL * SMALL * 4];
    if (sigma) {
        fill_levels(sigma, n, 10, even ? 1 : 0.1, even, 0);
        sampling_start(KILN_PROCESS_DIFFUSION, 10, 3, count, start);
        sampling_plan p = plan_of(t, sigma, n);
        p.options = options, p.start = start, p.exact = BEGIN, p.stop_at = (int64_t)at;
        exact = malloc(n * count * sizeof *exact);
        if (exact && sampling_exact(p.process, sigma, n, start, count, exact) && sampling_try(&p, &o) == KILN_OK &&
            o.status == KILN_CANCELLED && o.last_step == (int64_t)at && o.count == count) {
            sum = 0;
            for (size_t i = 0; i < count; i++) sum += pow(o.x[i] - exact[at * count + i], 2);
            sum = sqrt(sum / (double)count);
        }
    }
    sampled_free(&o);
    free(exact), free(sigma);
    return sum;
}

/* How fast it comes near the exact solution. */
typedef struct {
    double best;   /* order between two numbers of steps; -1: none was had */
    double hoped;  /* where it goes that is still growing at the most steps, and more than that; -1 */
    double surely; /* the least of the last two on each set of levels; 0 where doubles are not fine enough */
} slopes;

/* On levels of one kind, until `wanted` is had; at least up to SURE_STEPS. */
static void find_slopes(const trial *t, const void *options, int even, double wanted, slopes *o)
{
    enum { SURE_STEPS = ORDER_STEPS / 2 };
    double last = -1, was = -1;
    for (size_t n = ORDER_STEPS / 16; n <= ORDER_STEPS && (n <= SURE_STEPS || o->best < wanted); n *= 2) {
        double now = distance(t, options, n, even);
        double slope = now >= 0 && now < 1e-12 ? t->row->order /* as near as double reaches */
                       : now > 0 && last > 0   ? log2(last / now)
                                               : -1;
        o->best = fmax(o->best, slope);
        if (n == ORDER_STEPS && was >= 0 && slope > was + 0.1) o->hoped = fmax(o->hoped, slope + 3 * (slope - was));
        if (n == SURE_STEPS) o->surely = fmin(o->surely, now > 1e-11 ? fmin(slope, was) : 0);
        was = slope, last = now;
    }
}

static void try_order(trial *t)
{
    enum { SLACK_OF_100 = 35 };
    const uint32_t order = t->row->order;
    void *options = arena_alloc(&t->memory, t->table.params_size + 1);
    if (!options) return;
    if (!quiet_options(t, options)) {
        if (order)
            check_left(&t->counts, "order",
                       "it draws noise, and has no option eta, 0 of which is the equation without noise");
        return;
    }
    slopes o = {-1, -1, HUGE_VAL};
    const double wanted = order - SLACK_OF_100 / 100.0, above = order + 0.5;
    for (int even = 0; even < 2 && (o.best < wanted || o.surely >= above); even++)
        find_slopes(t, options, even, wanted, &o);
    if (o.best < 0) {
        if (order) check_left(&t->counts, "order", "it chooses its own levels, or could not be stopped on the way");
        return;
    }
    if (o.surely >= above && o.surely < HUGE_VAL)
        check_found(
            &t->counts, 0, "order-row",
            "twice the steps divide the error by 2^%.2f at least, and its row says order %u%s; people choose by it",
            o.surely, order, order ? "" : ", which is that it solves no equation, so that no law is tried");
    else if (!order)
        return;
    else if (o.best >= wanted)
        check_holds(&t->counts, "order", "%.2f (its row says %u)", o.best, order);
    else if (o.hoped >= wanted)
        check_left(&t->counts, "order", "2^%.2f at %d steps, and still growing", o.best, ORDER_STEPS);
    else
        check_found(&t->counts, 0, "order", "twice the steps divide the error by 2^%.2f; its row says order %u", o.best,
                    order);
}

/* ---- what it draws ---- */

/* Squares and fourth powers of what stands at the end against the mixture's. */
static void try_law(trial *t, uint32_t process, const char *test, const char *of)
{
    enum { MANY = 120 };
    double sigma[MANY + 1], square, fourth, found[2] = {0, 0};
    sampled o;
    usual_levels(sigma, MANY, process);
    sampling_plan p = plan_of(t, sigma, MANY);
    p.side = LARGE, p.process = process;
    if (sampling_try(&p, &o) == KILN_OK && o.status == KILN_OK) {
        sampling_moments(&square, &fourth);
        for (size_t i = 0; i < o.count; i++) found[0] += o.x[i] * o.x[i], found[1] += pow(o.x[i], 4);
        found[0] /= (double)o.count, found[1] /= (double)o.count;
        if (fabs(found[0] / square - 1) < 0.1 && fabs(found[1] / fourth - 1) < 0.25)
            check_holds(&t->counts, test, "of %s: mean square %.3f of %.3f, fourth power %.3f of %.3f, in %d steps", of,
                        found[0], square, found[1], fourth, MANY);
        else
            check_found(&t->counts, 0, test,
                        "of %s with mean square %.3f and fourth power %.3f it draws %.3f and %.3f, in %d steps", of,
                        square, fourth, found[0], found[1], MANY);
    } else if (o.x) {
        check_found(&t->counts, o.failure[0] != 0, "message", "failed without a message on %s", of);
    }
    sampled_free(&o);
}

check_counts check_sampler(const kiln_sampler *row, const char *plugin, const check_device *on)
{
    trial t = {.row = row, .table = sampler_options(row)};
    t.options = arena_alloc(&t.memory, t.table.params_size + 1);
    if (!t.options || !sample_params(&t.table, 0, &t.memory, t.options)) return t.counts;
    check_found(&t.counts, row->doc && row->doc[0], "docs", "has no doc");
    check_rows_filled(&t.counts, &t.table);
    t.lost_elsewhere = lost_elsewhere(&t);
    check_watch_options(row->params_size, "options");
    try_whole(&t);
    try_few(&t);
    try_resume(&t);
    try_failing(&t, "denoise()", offsetof(sampling_plan, fail_denoise), KILN_ERR_DEVICE);
    try_failing(&t, "noise()", offsetof(sampling_plan, fail_noise), KILN_ERR_DEVICE);
    try_failing(&t, "slot(), scalars() or create(), which had no memory,", offsetof(sampling_plan, fail_memory),
                KILN_ERR_NOMEM);
    try_options(&t);
    try_order(&t);
    if (!row->order && !(row->flags & KILN_SAMPLER_STOCHASTIC))
        check_left(&t.counts, "order and law", "its row says order 0: it solves no equation");
    else if (row->order)
        try_law(&t, KILN_PROCESS_DIFFUSION, "law", "data with noise on it");
    if (row->order) try_law(&t, KILN_PROCESS_FLOW, "law-of-flows", "a flow's data");
    double sigma[STEPS + 1];
    usual_levels(sigma, STEPS, KILN_PROCESS_DIFFUSION);
    const sampling_plan p = plan_of(&t, sigma, STEPS);
    check_watch_end();
    check_sampler_device(&p, plugin, on, &t.counts);
    arena_free(&t.memory);
    return t.counts;
}

/* ---- schedules ---- */

enum { TABLE = 1000, ROOM = 4096, BEHIND = 8 };

typedef struct {
    double sigma[ROOM + BEHIND];
    size_t n;
} made_levels;

/* The n levels it makes in room for `capacity`. Numbers behind that have to stay. */
static int make_levels(const kiln_schedule *row, const kiln_schedule_input *in, size_t capacity, made_levels *out)
{
    for (size_t i = 0; i < ROOM + BEHIND; i++) out->sigma[i] = -77;
    out->n = row->make(in, out->sigma, capacity);
    for (size_t i = capacity; i < ROOM + BEHIND; i++)
        if (out->sigma[i] != -77) return 0;
    return 1;
}

static void judge_levels(check_counts *c, const made_levels *m, const kiln_schedule_input *in, const char *of)
{
    size_t rises = 0, last = m->n - 1;
    int finite = 1;
    for (size_t i = 0; i < m->n; i++) {
        finite &= isfinite(m->sigma[i]) && m->sigma[i] >= 0;
        if (i && !(m->sigma[i] < m->sigma[i - 1]) && !rises) rises = i;
    }
    check_found(c, finite, "finite", "a level is negative or not a number, for %zu steps of %s", in->steps, of);
    check_found(c, !finite || !rises, "descends", "level %zu, %.6g, is not below the one before, for %zu steps of %s",
                rises, m->sigma[rises], in->steps, of);
    check_found(c, !finite || m->sigma[0] <= in->sigma_max * 1.01, "ends",
                "begins at %.6g, and the model's highest level is %.6g, for %zu steps of %s", m->sigma[0],
                in->sigma_max, in->steps, of);
    check_found(c, !finite || m->sigma[last] <= in->sigma_min * 1.01, "ends",
                "ends at %.6g, which leaves noise: the model's lowest level is %.6g; for %zu steps of %s",
                m->sigma[last], in->sigma_min, in->steps, of);
}

static double place_of(const void *self, double sigma)
{
    (void)self;
    return sigma * 1000;
}
static double level_of(const void *self, double timestep)
{
    (void)self;
    return timestep / 1000;
}

static void try_schedule(check_counts *c, const kiln_schedule *row, kiln_schedule_input *in, const char *of)
{
    static const size_t steps[] = {1, 2, 3, 4, 10, 20, 50, 333, 999, 1000};
    made_levels *one = malloc(sizeof *one), *two = malloc(sizeof *two);
    for (size_t k = 0; one && two && k < sizeof steps / sizeof *steps; k++) {
        in->steps = steps[k];
        check_found(c, make_levels(row, in, ROOM, one), "memory", "wrote behind its room for %d levels", ROOM);
        if (one->n == 0) continue; /* it has none for so many steps, which whoever asked is told */
        if (!check_found(c, one->n <= ROOM, "memory", "made %zu levels of %zu steps", one->n, steps[k])) continue;
        judge_levels(c, one, in, of);
        check_found(c,
                    make_levels(row, in, ROOM, two) && one->n == two->n && same_numbers(one->sigma, two->sigma, one->n),
                    "same", "made other levels the second time, for %zu steps of %s", steps[k], of);
        check_found(c, make_levels(row, in, 1, two), "memory", "wrote behind its room for one level");
        check_found(c, two->n == one->n || two->n > 1, "room",
                    "with room for one level it says %zu; it has to say that there are more", two->n);
    }
    free(one), free(two);
}

check_counts check_schedule(const kiln_schedule *row)
{
    check_counts c = {0};
    double table[TABLE], product = 1;
    for (int i = 0; i < TABLE; i++) { /* SD1's */
        double root = sqrt(0.00085) + (sqrt(0.012) - sqrt(0.00085)) * i / (TABLE - 1);
        product *= 1 - root * root;
        table[i] = sqrt((1 - product) / product);
    }
    kiln_schedule_input in = {
        .size = sizeof in, .sigma = table, .n_sigma = TABLE, .sigma_min = table[0], .sigma_max = table[TABLE - 1]};
    check_found(&c, row->doc && row->doc[0], "docs", "has no doc");
    try_schedule(&c, row, &in, "a table of 1000 levels");
    in.sigma = NULL, in.n_sigma = 0;
    try_schedule(&c, row, &in, "a range of levels");
    in.sigma_min = 0.001, in.sigma_max = 1, in.timestep = place_of, in.sigma_at = level_of;
    for (int i = 0; i < TABLE; i++) table[i] = (i + 1) / (double)TABLE;
    in.sigma = table, in.n_sigma = TABLE;
    try_schedule(&c, row, &in, "a flow");
    return c;
}
