/* check_guider.c - see check_guider.h: what a guider asks for, what it makes of the guesses at several levels, of a
 * part of a picture and of a batch, at the ends of its settings, when something fails, in two samplings at once, and in
 * a whole sampling that is stopped and goes on.
 *
 * A set that wants() did not ask for has no guess, as in a run. One is evaluated all the same there: the unconditional
 * one, for samplers and guidance that look at it; so it is tried with other numbers in it.
 */
#include "cli/check_guider.h"

#include "base/arena.h"
#include "base/memory_alloc.h"
#include "base/memory_guard.h"
#include "base/status.h"
#include "cli/check_options.h"
#include "cli/check_sampler_device.h"
#include "cli/sample_guidance.h"
#include "cli/sample_sampling.h"
#include "cli/sample_values.h"
#include "kiln/standard_sampling.h"
#include "param/param_rows.h"
#include "plugin/abilities.h"

#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { LEVELS = 8, TABLE = 1000, FAILURES = 24, STEPS = 6 };

/* What rounding in another order may change, as a share of the result's size: the sums here are doubles'. */
#define ROUNDING 1e-9

static const double diffusion[LEVELS] = {14.6, 7, 3, 1, 0.5, 0.2, 0.1, 0.03}, flow[] = {1, 0.8, 0.4, 0.05};
enum { FLOW_LEVELS = sizeof flow / sizeof *flow };

typedef struct {
    const kiln_guider *row;
    kiln_param_table table;
    arena memory;
    void *params; /* the defaults: read-only, with an unreadable page behind */
    kiln_standard_sampling diffusion, flow;
    double table_of[2][TABLE];
    check_counts counts;
} trial;

kiln_param_table guider_settings(const kiln_guider *row)
{
    return (kiln_param_table){.size = sizeof(kiln_param_table),
                              .noun = "setting",
                              .param = row->param,
                              .n_param = row->n_param,
                              .param_stride = row->param_stride,
                              .params_size = row->params_size};
}

const kiln_guider_model *guider_model_at(const kiln_guider *row, uint32_t i)
{
    return (const void *)((const char *)row->model + (size_t)i * row->model_stride);
}

const kiln_guider_set *guider_set_at(const kiln_guider *row, uint32_t i)
{
    return (const void *)((const char *)row->set + (size_t)i * row->set_stride);
}

/* ---- its settings ---- */

/* One way of them, as a run gives them; mem_free() it. NULL: no memory. */
static void *settings(trial *t, size_t way)
{
    void *filled = arena_alloc(&t->memory, t->table.params_size + 1);
    if (!filled || !sample_params(&t->table, way, &t->memory, filled)) return NULL;
    mem_guard(1, 0xa5);
    void *held = mem_aligned(sizeof(double), t->table.params_size ? t->table.params_size : 1);
    mem_guard(0, 0);
    if (!held) return NULL;
    memcpy(held, filled, t->table.params_size);
    mem_guard_protect(held, 0);
    return held;
}

static guidance_plan plan_of(const trial *t, double sigma)
{
    return GUIDANCE_PLAN(.row = t->row, .params = t->params, .sampling = &t->diffusion.base, .sigma = sigma, .seed = 7,
                         .before = 1e30);
}

/* ---- what has to hold of each evaluation ---- */

/* 1: nothing is wrong. */
static int judge(trial *t, const guided *o, const char *when)
{
    check_counts *c = &t->counts;
    const int of_set = o->wrote >= 0 && o->wrote < GUIDED_WROTE_X;
    int fine = check_found(c, !o->bad_call, "call",
                           "gave a function no latent, one of another shape, or a sum of more than 64, %s; a set that "
                           "wants() did not ask for has no guess (NULL)",
                           when);
    fine &= check_found(c, o->wrote != GUIDED_WROTE_X, "read-only",
                        "changed x, %s; the sampler needs it as it is: latents->create() makes room", when);
    fine &= check_found(c, !of_set, "read-only",
                        "changed the guess under '%s', %s; samplers and guidance on the model look at it too: "
                        "latents->create() makes room",
                        of_set ? guider_set_at(t->row, (uint32_t)o->wrote)->name : "", when);
    return check_found(c, !o->overran, "memory",
                       "wrote behind a latent's numbers, %s; kiln/latent.h's functions alone write them", when) &&
           fine;
}

static int all_finite(const guided *o)
{
    for (size_t i = 0; i < o->count; i++)
        if (!isfinite(o->v[i])) return 0;
    return 1;
}

static int same(const guided *a, const guided *b)
{
    return a->count == b->count && memcmp(a->v, b->v, a->count * sizeof *a->v) == 0;
}

/* As a share of b's size; INFINITY: one of them is not finite. */
static double apart(const double *a, const double *b, size_t n)
{
    double far = 0, size = 0;
    for (size_t i = 0; i < n; i++) far += (a[i] - b[i]) * (a[i] - b[i]), size += b[i] * b[i];
    return isfinite(far) && isfinite(size) ? sqrt(far / (size > 0 ? size : 1)) : INFINITY;
}

/* 1: it ended well, with finite numbers; what else is wrong is said. */
static int ends_well(trial *t, const guided *o, const char *when)
{
    const int fine = judge(t, o, when);
    return check_found(&t->counts, o->status == KILN_OK, "run",
                       "ended with %s, %s; a sampling ends with it, and has no sentence", status_name(o->status),
                       when) &&
           check_found(&t->counts, all_finite(o), "finite", "made a NaN or infinity, %s", when) && fine;
}

/* ---- wants() ---- */

static void judge_wants(trial *t, const void *params, double sigma, const char *when)
{
    const uint32_t wanted = t->row->wants(params, sigma), again = t->row->wants(params, sigma),
                   known = (1u << t->row->n_set) - 1;
    check_counts *c = &t->counts;
    check_found(c, wanted != 0, "wants", "wants() asks for no set at level %g, %s: no model would be evaluated", sigma,
                when);
    check_found(c, !(wanted & ~known), "wants",
                "wants() asks for bits %#x at level %g, %s, and the row lists %u sets: bit k is set k", wanted, sigma,
                when, t->row->n_set);
    check_found(c, wanted == again, "wants", "wants() says %#x at level %g, and %#x the next time, %s", wanted, sigma,
                again, when);
}

/* "positive at 12 of 12 levels, negative at 5" */
static void say_wants(trial *t)
{
    char text[512] = "";
    size_t at = 0;
    for (uint32_t k = 0; k < t->row->n_set && at < sizeof text; k++) {
        unsigned n = 0;
        for (int i = 0; i < LEVELS; i++) n += t->row->wants(t->params, diffusion[i]) >> k & 1;
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s at %u", k ? ", " : "", guider_set_at(t->row, k)->name,
                               n);
    }
    check_holds(&t->counts, "wants", "%s of %d noise levels, at the defaults", text, LEVELS);
    at = 0;
    for (uint32_t m = 0; m < t->row->n_model && at < sizeof text; m++) {
        at += (size_t)snprintf(text + at, sizeof text - at, "%s'%s' for", m ? "; " : "",
                               guider_model_at(t->row, m)->name);
        for (uint32_t k = 0, n = 0; k < t->row->n_set && at < sizeof text; k++)
            if (guider_set_at(t->row, k)->model == m)
                at += (size_t)snprintf(text + at, sizeof text - at, "%s %s", n++ ? "," : "",
                                       guider_set_at(t->row, k)->name);
    }
    check_holds(&t->counts, "models", "%s", text);
}

/* ---- levels ---- */

/* The same the second time, with other bytes in what is not written. */
static int is_same_again(trial *t, const guidance_plan *p, const guided *one, const char *when)
{
    guidance_plan again = *p;
    guided two;
    again.before = -3;
    mallopt(M_PERTURB, 0x5a);
    int tried = guidance_try(&again, &two), held = 1;
    mallopt(M_PERTURB, 0);
    if (tried)
        held = check_found(&t->counts, same(one, &two), "same",
                           "made other numbers the second time, %s: it keeps something in a variable, or leaves "
                           "numbers of out as they were",
                           when);
    guided_free(&two);
    return held;
}

static int try_level(trial *t, const guidance_plan *p, const char *of)
{
    char when[64];
    guided o;
    snprintf(when, sizeof when, "at level %g of %s", p->sigma, of);
    judge_wants(t, p->params, p->sigma, "at the defaults");
    int well = guidance_try(p, &o) && ends_well(t, &o, when) && is_same_again(t, p, &o, when);
    guided_free(&o);
    return well;
}

static void try_levels(trial *t)
{
    int well = 0;
    for (int i = 0; i < LEVELS; i++) {
        const guidance_plan p = plan_of(t, diffusion[i]);
        well += try_level(t, &p, "a diffusion");
    }
    for (int i = 0; i < FLOW_LEVELS; i++) {
        guidance_plan p = plan_of(t, flow[i]);
        p.sampling = &t->flow.base;
        well += try_level(t, &p, "a flow");
    }
    if (well == LEVELS + FLOW_LEVELS)
        check_holds(&t->counts, "run", "finite, and the same again, at %d noise levels", well);
}

/* Tiles are smaller than the picture. */
static void try_part(trial *t)
{
    int well = 0;
    for (int i = 0; i < LEVELS; i++) {
        guidance_plan p = plan_of(t, diffusion[i]);
        guided o;
        p.side = 2, p.whole = 6;
        well += guidance_try(&p, &o) &&
                ends_well(t, &o, "on a part of the picture (latents->shape(x) is its shape, not the sampling's)");
        guided_free(&o);
    }
    if (well == LEVELS) check_holds(&t->counts, "part", "x may be a part of the picture");
}

/* The unconditional set, where it does not matter. */
static void try_also(trial *t)
{
    int tried = 0, held = 1;
    for (int i = 0; i < LEVELS && t->row->unconditional >= 0; i++) {
        guidance_plan p = plan_of(t, diffusion[i]), more = p;
        guided one, two = {0};
        more.also = 1u << t->row->unconditional, more.of_also = 1;
        if (!guidance_try(&p, &one) || one.wanted & more.also || one.status != KILN_OK || !guidance_try(&more, &two)) {
            guided_free(&one), guided_free(&two);
            continue;
        }
        judge(t, &two, "with the guess of a set that wants() did not ask for");
        tried++;
        held &= check_found(&t->counts, two.status == KILN_OK && apart(two.v, one.v, one.count) < ROUNDING, "wants",
                            "at level %g wants() leaves out '%s', and its guess changes the result by %.2g of its "
                            "size; it is there with samplers that look at it",
                            p.sigma, guider_set_at(t->row, (uint32_t)t->row->unconditional)->name,
                            apart(two.v, one.v, one.count));
        guided_free(&one), guided_free(&two);
    }
    if (tried && held)
        check_holds(&t->counts, "unasked", "a guess that is there unasked changes nothing, at %d levels", tried);
}

/* ---- settings ---- */

static void try_settings(trial *t)
{
    const size_t ways = sample_ways(&t->table);
    size_t well = 0;
    for (size_t way = 1; way < ways; way++) {
        char name[160];
        void *params = settings(t, way);
        int fine = params != NULL;
        for (int i = 0; i < LEVELS && params; i++) {
            guidance_plan p = plan_of(t, diffusion[i]);
            guided o;
            p.params = params;
            sample_way_name(&t->table, way, name);
            judge_wants(t, params, p.sigma, name);
            fine &= guidance_try(&p, &o) && ends_well(t, &o, name);
            guided_free(&o);
        }
        well += (size_t)fine;
        mem_free(params);
    }
    if (ways > 1 && well == ways - 1)
        check_holds(&t->counts, "settings", "%zu further ways to set it, at %d levels", well, LEVELS);
}

/* ---- what fails ---- */

static void try_failing(trial *t, int guides)
{
    for (int i = 0; i < LEVELS; i += 3)
        for (int64_t k = 0; k < FAILURES; k++) {
            guidance_plan p = plan_of(t, diffusion[i]);
            guided o;
            const kiln_status wanted = guides ? KILN_ERR_DEVICE : KILN_ERR_NOMEM;
            *(guides ? &p.fail_guided : &p.fail_memory) = k;
            const int tried = guidance_try(&p, &o), happened = tried && (guides ? o.guided : o.memory) > k;
            if (happened)
                check_found(&t->counts, o.status == wanted, "failure", "returned %s when call %lld of %s",
                            status_name(o.status), (long long)k + 1,
                            guides ? "guided() or patch() had failed" : "create() had given NULL: there is no memory");
            guided_free(&o);
            if (!happened) break;
        }
}

/* ---- two pictures in a batch ---- */

static void try_batch(trial *t)
{
    double most = 0;
    int tried = 0;
    for (int i = 0; i < LEVELS; i++) {
        guidance_plan p = plan_of(t, diffusion[i]), first = p, second = p;
        guided both, one = {0}, two = {0};
        p.pictures = 2, second.seed = p.seed + 1;
        if (guidance_try(&p, &both) && guidance_try(&first, &one) && guidance_try(&second, &two) &&
            both.status == KILN_OK && all_finite(&both) && all_finite(&one) && all_finite(&two)) {
            most = fmax(most, fmax(apart(both.v, one.v, one.count), apart(both.v + one.count, two.v, two.count)));
            tried++;
        }
        guided_free(&both), guided_free(&one), guided_free(&two);
    }
    if (tried && check_found(&t->counts, most < ROUNDING, "batch",
                             "what it makes of a picture changes by %.2g of its size when another one is in the batch: "
                             "norm() is over all of them, dot() has a number for each",
                             most))
        check_holds(&t->counts, "batch", "two pictures in a batch are what each is alone");
}

/* A fact, and no rule: what it makes of guesses that agree. */
static void say_equal(trial *t)
{
    double most = 0;
    for (int i = 0; i < LEVELS; i++) {
        guidance_plan p = plan_of(t, diffusion[i]);
        guided o;
        p.equal = 1;
        if (guidance_try(&p, &o) && o.first && o.status == KILN_OK) most = fmax(most, apart(o.v, o.first, o.count));
        guided_free(&o);
    }
    if (most < ROUNDING)
        check_holds(&t->counts, "equal", "guesses that are all the same give that guess back");
    else
        check_holds(&t->counts, "equal",
                    "guesses that are all the same give another result, up to %.2g of their size away (no rule)", most);
}

/* ---- two samplings at once, which a run has where two nodes sample ---- */

/* Whose turn it is: it goes to the other at each call that a guider makes, so what two of them share is found. */
typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    int turn, done[2];
} turns;

typedef struct {
    const trial *of;
    turns *turns; /* NULL: alone */
    int me, whole;
    guided made[LEVELS];
} side;

/* Not for ever: a guider may hold a lock of its own while the other wants it. */
static void wait_for_turn(side *s)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1;
    while (s->turns->turn != s->me && !s->turns->done[!s->me])
        if (pthread_cond_timedwait(&s->turns->moved, &s->turns->lock, &until) != 0) break;
}

static void give_turn(void *self)
{
    side *s = self;
    if (!s->turns) return;
    pthread_mutex_lock(&s->turns->lock);
    s->turns->turn = !s->me;
    pthread_cond_broadcast(&s->turns->moved);
    wait_for_turn(s);
    pthread_mutex_unlock(&s->turns->lock);
}

/* One goes down the levels, the other up. */
static void *sample_side(void *self)
{
    side *s = self;
    s->whole = 1;
    for (int i = 0; i < LEVELS; i++) {
        guidance_plan p = plan_of(s->of, diffusion[s->me ? LEVELS - 1 - i : i]);
        p.seed += (uint64_t)s->me * 100, p.between = give_turn, p.self = s;
        s->whole &= guidance_try(&p, &s->made[i]);
    }
    if (!s->turns) return NULL;
    pthread_mutex_lock(&s->turns->lock);
    s->turns->done[s->me] = 1;
    pthread_cond_broadcast(&s->turns->moved);
    pthread_mutex_unlock(&s->turns->lock);
    return NULL;
}

static void try_threads(trial *t)
{
    turns b = {.lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER};
    side alone[2] = {{.of = t}, {.of = t, .me = 1}};
    side beside[2] = {{.of = t, .turns = &b}, {.of = t, .turns = &b, .me = 1}};
    pthread_t other;
    int differ = 0;
    sample_side(&alone[0]), sample_side(&alone[1]);
    if (pthread_create(&other, NULL, sample_side, &beside[1]) == 0) {
        sample_side(&beside[0]);
        pthread_join(other, NULL);
        for (int k = 0; k < 2; k++)
            for (int i = 0; i < LEVELS && alone[k].whole && beside[k].whole; i++)
                differ += !same(&alone[k].made[i], &beside[k].made[i]);
        if (check_found(&t->counts, !differ, "threads",
                        "made other numbers at %d of %d levels while another sampling ran beside it: both use a static "
                        "or global variable",
                        differ, 2 * LEVELS))
            check_holds(&t->counts, "threads", "two samplings at once have the same numbers as each alone");
    }
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < LEVELS; i++) guided_free(&alone[k].made[i]), guided_free(&beside[k].made[i]);
}

/* ---- a whole sampling, stopped and taken up ---- */

static kiln_status guess(void *self, kiln_latent *x, double sigma, kiln_latent *out)
{
    const trial *t = self;
    guidance_plan p = plan_of(t, sigma);
    guided o;
    p.side = p.whole = x->shape.height, p.x = x;
    kiln_status status = guidance_try(&p, &o) ? o.status : KILN_ERR_NOMEM;
    if (status == KILN_OK) memcpy(out->v, o.v, o.count * sizeof *out->v);
    guided_free(&o);
    return status;
}

static const kiln_sampler *sampler_named(const char *name)
{
    for (size_t i = 0; i < sampler_api.sampler_count(); i++)
        if (strcmp(sampler_api.sampler_at(i)->name, name) == 0) return sampler_api.sampler_at(i);
    return NULL;
}

/* The sampler's defaults; NULL: it has none, or there is no memory. */
static const void *options_of(trial *t, const kiln_sampler *s)
{
    const kiln_param_table table = sampler_options(s);
    void *options = table.params_size ? arena_alloc(&t->memory, table.params_size) : NULL;
    return options && sample_params(&table, 0, &t->memory, options) ? options : NULL;
}

static sampling_plan whole_sampling(trial *t, const kiln_sampler *euler)
{
    static const double sigma[STEPS + 1] = {14.6, 6, 2, 0.6, 0.2, 0.05, 0};
    return SAMPLING_PLAN(.row = euler, .options = options_of(t, euler), .process = KILN_PROCESS_DIFFUSION,
                         .sigma = sigma, .n = STEPS, .side = 4, .seed = 7, .guess = guess, .self = t);
}

static int is_same_sampled(const sampled *a, const sampled *b)
{
    return a->count == b->count && a->status == b->status && memcmp(a->x, b->x, a->count * sizeof *a->x) == 0;
}

/* Each part in a process of its own, which begins before this one has called the guider. The step from which it goes on
 * with other numbers; 0: none; < 0: it cannot be said. */
static int64_t lost_elsewhere(trial *t, const kiln_sampler *euler)
{
    const sampling_plan p = whole_sampling(t, euler);
    sampled whole, part, rest;
    int64_t lost = 0;
    if (sampling_elsewhere(&p, &whole) != KILN_OK || whole.status != KILN_OK) lost = -1;
    for (int64_t stop = 0; stop < STEPS - 1 && !lost; stop++) {
        sampling_plan until = p, from = p;
        until.stop_at = stop;
        if (sampling_elsewhere(&until, &part) != KILN_OK || part.status != KILN_CANCELLED || part.last_step < 0) {
            sampled_free(&part);
            lost = -1;
            break;
        }
        from.resume = &part, from.first = (size_t)(part.last_step + 1);
        if (sampling_elsewhere(&from, &rest) != KILN_OK || !is_same_sampled(&whole, &rest)) lost = part.last_step + 1;
        sampled_free(&rest), sampled_free(&part);
    }
    sampled_free(&whole);
    return lost;
}

static void say_lost(check_counts *c, int64_t lost)
{
    if (lost < 0)
        check_left(c, "resume", "a sampling of %d steps by euler; it did not end well", STEPS);
    else if (check_found(c, !lost, "resume",
                         "a sampling that another process goes on with from step %lld has other numbers: a static or "
                         "global variable has something of the steps before",
                         (long long)lost))
        check_holds(c, "resume", "%d steps of euler, the same from each on in another process", STEPS);
}

/* ---- the whole ---- */

static void make_samplings(trial *t)
{
    kiln_discrete_sigmas("scaled_linear", 0.00085, 0.012, TABLE, t->table_of[0]);
    for (int i = 0; i < TABLE; i++) t->table_of[1][i] = (i + 1) / (double)TABLE;
    kiln_standard_sampling_init(
        &t->diffusion, &(kiln_sampling_row){.prediction = KILN_PREDICT_EPS, .n_sigma = TABLE, .sigma = t->table_of[0]});
    kiln_standard_sampling_init(&t->flow, &(kiln_sampling_row){.prediction = KILN_PREDICT_FLOW,
                                                               .time = KILN_TIME_FLOW,
                                                               .n_sigma = TABLE,
                                                               .sigma = t->table_of[1]});
}

static void try_all(trial *t)
{
    say_wants(t);
    try_levels(t);
    try_part(t);
    try_also(t);
    try_settings(t);
    try_failing(t, 1), try_failing(t, 0);
    try_batch(t);
    say_equal(t);
    try_threads(t);
}

check_counts check_guider(const kiln_guider *row, const char *plugin, const check_device *on)
{
    static trial t;
    error e = {0};
    const kiln_sampler *euler = sampler_named("euler");
    t = (trial){.row = row, .table = guider_settings(row)};
    make_samplings(&t);
    check_found(&t.counts, row->doc && row->doc[0], "docs", "has no doc");
    if (!check_found(&t.counts, param_rows_check(&t.table, &e) == KILN_OK, "table", "%s", e.message)) return t.counts;
    check_rows_filled(&t.counts, &t.table);
    if (!(t.params = settings(&t, 0))) return t.counts;
    const int64_t lost = euler ? lost_elsewhere(&t, euler) : -1;
    check_watch_options(row->params_size, "settings");
    try_all(&t);
    say_lost(&t.counts, lost);
    check_watch_end();
    if (t.counts.failed[CHECK_CONTRACT] || t.counts.failed[CHECK_BEHAVIOUR])
        check_left(&t.counts, "a sampling", "of a network, as KSampler takes it; mend what was found first");
    else
        check_guider_device(row, t.params, plugin, on, &t.counts);
    mem_free(t.params);
    arena_free(&t.memory);
    return t.counts;
}
