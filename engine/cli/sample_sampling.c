/* sample_sampling.c - see sample_sampling.h.
 *
 * Elements are independent: half of them lie about 1 and half about -1, with deviation DEVIATION. At level s of noise
 * the guess is E[clean | x] = (d^2 x + s^2 tanh(x / v)) / v with v = d^2 + s^2; a flow's x is brought to that by
 * x / (1 - sigma). The probability flow is dx/dsigma = (x - guess) / sigma in both (Karras et al. 2022, eq. 3; Lipman
 * et al. 2023).
 */
#include "cli/sample_sampling.h"

#include "base/memory_alloc.h"
#include "base/memory_guard.h"
#include "cli/sample_latents.h"
#include "cli/sample_values.h"
#include "kiln/denoiser.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEVIATION 0.25
enum { CHANNELS = 4, SLOTS = 64, NUMBERS = 16, NUMBERS_EACH = 64, PATH = 4096, FINE = 32 };

typedef struct {
    char name[64];
    kiln_latent *latent;
} slot;

typedef struct {
    char name[64];
    size_t n;
    double v[NUMBERS_EACH];
} numbers;

/* Slots and scalars. */
typedef struct {
    slot slot[SLOTS];
    numbers number[NUMBERS];
    size_t n_slot, n_number;
} memory_of;

typedef struct rig {
    kiln_sampling api;
    sample_latents latents;
    const sampling_plan *plan;
    sampled *out;
    memory_of *kept;
    void *options;          /* NULL: the row has none */
    kiln_latent *x, *guess; /* of the last denoise() */
    double *exact;          /* [n][count] */
    double *path;           /* Brownian: [n_path][count], at level path_at[] */
    double path_at[PATH];
    size_t n_path;
} rig;

static rig *rig_of(const kiln_sampling *s) { return s->self; }

/* ---- the data ---- */

static double guess_at(uint32_t process, double x, double sigma)
{
    double y = x, s = sigma;
    if (process == KILN_PROCESS_FLOW) {
        if (sigma >= 1) return 0;
        y = x / (1 - sigma), s = sigma / (1 - sigma);
    }
    const double d2 = DEVIATION * DEVIATION, v = d2 + s * s;
    return (d2 * y + s * s * tanh(y / v)) / v;
}

void sampling_moments(double *square, double *fourth)
{
    const double d2 = DEVIATION * DEVIATION;
    *square = 1 + d2, *fourth = 1 + 6 * d2 + 3 * d2 * d2;
}

void sampling_start(uint32_t process, double sigma, uint64_t seed, size_t count, double *out)
{
    uint64_t state = seed ^ 0x5eed;
    for (size_t i = 0; i < count; i++) {
        double clean = (i % 2 ? 1 : -1) + DEVIATION * sample_gaussian(&state), noise = sample_gaussian(&state);
        out[i] = (process == KILN_PROCESS_FLOW ? 1 - sigma : 1) * clean + sigma * noise;
    }
}

static double slope(uint32_t process, double x, double sigma) { return (x - guess_at(process, x, sigma)) / sigma; }

int sampling_exact(uint32_t process, const double *sigma, size_t n, const double *x0, size_t count, double *out)
{
    for (size_t c = 0; c < count; c++) {
        double x = x0[c];
        for (size_t i = 0; i < n; i++) {
            double from = sigma[i], h = (sigma[i + 1] - from) / FINE;
            for (int k = 0; k < FINE && sigma[i + 1] > 0; k++) {
                double at = from + k * h, a = slope(process, x, at), b = slope(process, x + h / 2 * a, at + h / 2),
                       d = slope(process, x + h / 2 * b, at + h / 2), e = slope(process, x + h * d, at + h);
                x += h / 6 * (a + 2 * b + 2 * d + e);
            }
            out[i * count + c] = x;
        }
    }
    return 1;
}

/* ---- what a sampler calls ---- */

static int call_is(rig *r, int fine) { return sample_call_is(&r->latents, fine); }
static kiln_status tell(rig *r, kiln_status status) { return r->latents.told = status; }

static kiln_status denoise(const kiln_sampling *s, const kiln_latent *x, double sigma, kiln_latent *out)
{
    rig *r = rig_of(s);
    if (!call_is(r, sample_same_shape(x, r->guess) && sample_same_shape(out, x))) return tell(r, KILN_ERR_BUG);
    if (r->out->evaluations++ == r->plan->fail_denoise) return tell(r, KILN_ERR_DEVICE);
    if (sigma < r->out->asked_low) r->out->asked_low = sigma;
    if (r->plan->guess) {
        kiln_status status = r->plan->guess(r->plan->self, (kiln_latent *)(uintptr_t)x, sigma, r->guess);
        if (status != KILN_OK) return tell(r, status);
    }
    for (size_t i = 0; i < x->count && !r->plan->guess; i++) r->guess->v[i] = guess_at(s->process, x->v[i], sigma);
    memcpy(out->v, r->guess->v, x->count * sizeof *out->v);
    return KILN_OK;
}

static kiln_status unconditional(const kiln_sampling *s, kiln_latent *out)
{
    rig *r = rig_of(s);
    r->out->unconditionals++;
    if (!call_is(r, sample_same_shape(out, r->guess))) return tell(r, KILN_ERR_BUG);
    memcpy(out->v, r->guess->v, out->count * sizeof *out->v);
    return KILN_OK;
}

static void lincomb(const kiln_sampling *s, kiln_latent *out, size_t n, const double *a, kiln_latent *const *x)
{
    const kiln_latents *l = s->latents;
    if (call_is(rig_of(s), n >= 1)) l->lincomb(l, out, n, a, x);
}
static double norm(const kiln_sampling *s, const kiln_latent *x) { return s->latents->norm(s->latents, x); }

static int draws_path(const rig *r)
{
    return (r->plan->row->flags & (KILN_SAMPLER_BROWNIAN | KILN_SAMPLER_BROWNIAN_CUDA)) != 0;
}

/* The path at a level, made when first asked for: between its neighbours by a Brownian bridge. */
static double *path_at(rig *r, double level)
{
    size_t at = 0, n = r->x->count;
    while (at < r->n_path && r->path_at[at] < level) at++;
    if (at < r->n_path && r->path_at[at] == level) return r->path + at * n;
    double *more = r->n_path < PATH ? realloc(r->path, (r->n_path + 1) * n * sizeof *more) : NULL;
    if (!more) return NULL;
    r->path = more;
    memmove(more + (at + 1) * n, more + at * n, (r->n_path - at) * n * sizeof *more);
    memmove(r->path_at + at + 1, r->path_at + at, (r->n_path - at) * sizeof *r->path_at);
    r->path_at[at] = level, r->n_path++;
    uint64_t state = r->plan->seed ^ (uint64_t)(level * 0x1p40); /* the same whenever it is asked for */
    const double *low = at ? more + (at - 1) * n : NULL, *high = at + 1 < r->n_path ? more + (at + 1) * n : NULL;
    const double from = at ? r->path_at[at - 1] : 0, to = high ? r->path_at[at + 1] : level;
    for (size_t i = 0; i < n; i++) {
        double begin = low ? low[i] : 0, deviation = sqrt(level - from), mean = begin;
        if (high) {
            mean = begin + (high[i] - begin) * (level - from) / (to - from);
            deviation = sqrt((level - from) * (to - level) / (to - from));
        }
        more[at * n + i] = mean + deviation * sample_gaussian(&state);
    }
    return more + at * n;
}

static kiln_status noise(const kiln_sampling *s, double from, double to, kiln_latent *out)
{
    rig *r = rig_of(s);
    if (!call_is(r, out != NULL)) return tell(r, KILN_ERR_BUG);
    if (r->out->draws++ == r->plan->fail_noise) return tell(r, KILN_ERR_DEVICE);
    if (!draws_path(r) || from == to || out->count != r->x->count) {
        for (size_t i = 0; i < out->count; i++) out->v[i] = sample_gaussian(&r->out->generator[0]);
        return KILN_OK;
    }
    size_t n = out->count;
    double *ends = malloc(n * sizeof *ends), *a = path_at(r, from), *b;
    if (!ends || !a) return free(ends), tell(r, KILN_ERR_NOMEM);
    memcpy(ends, a, n * sizeof *ends);
    if ((b = path_at(r, to)))
        for (size_t i = 0; i < n; i++) out->v[i] = (b[i] - ends[i]) / sqrt(fabs(to - from));
    free(ends);
    return b ? KILN_OK : tell(r, KILN_ERR_NOMEM);
}

static kiln_latent *slot_of(const kiln_sampling *s, const char *name)
{
    rig *r = rig_of(s);
    memory_of *m = r->kept;
    for (size_t i = 0; i < m->n_slot; i++)
        if (strcmp(m->slot[i].name, name) == 0) return m->slot[i].latent;
    if (r->latents.memory++ == r->latents.fail_memory || m->n_slot == SLOTS || strlen(name) >= sizeof m->slot[0].name)
        return NULL;
    kiln_latent *made = sample_latent_new(r->x->shape);
    if (!made) return NULL;
    snprintf(m->slot[m->n_slot].name, sizeof m->slot[0].name, "%s", name);
    return m->slot[m->n_slot++].latent = made;
}

static double *scalars(const kiln_sampling *s, const char *name, size_t n)
{
    rig *r = rig_of(s);
    memory_of *m = r->kept;
    for (size_t i = 0; i < m->n_number; i++)
        if (strcmp(m->number[i].name, name) == 0) return n <= m->number[i].n ? m->number[i].v : NULL;
    if (r->latents.memory++ == r->latents.fail_memory || m->n_number == NUMBERS || n > NUMBERS_EACH ||
        strlen(name) >= sizeof m->number[0].name)
        return NULL;
    snprintf(m->number[m->n_number].name, sizeof m->number[0].name, "%s", name);
    m->number[m->n_number].n = n;
    return m->number[m->n_number++].v;
}

static kiln_status step(const kiln_sampling *s, size_t i, const kiln_latent *denoised)
{
    rig *r = rig_of(s);
    sampled *o = r->out;
    if (!call_is(r, denoised != NULL)) return tell(r, KILN_ERR_BUG);
    if ((int64_t)i < o->last_step) o->fell = 1;
    if (i >= s->n) o->beyond = 1;
    o->last_step = (int64_t)i;
    if (i < r->plan->exact && r->exact) memcpy(r->x->v, r->exact + i * r->x->count, r->x->count * sizeof *r->x->v);
    return o->steps++ == r->plan->stop_at ? tell(r, KILN_CANCELLED) : KILN_OK;
}

static kiln_status fail(const kiln_sampling *s, kiln_status status, const char *fmt, ...)
{
    rig *r = rig_of(s);
    va_list args;
    va_start(args, fmt);
    vsnprintf(r->out->failure, sizeof r->out->failure, fmt, args);
    va_end(args);
    return status;
}

/* Of SD1's table, or of a flow that is not shifted. */
static double percent_to_sigma(const kiln_sampling *s, double percent)
{
    if (percent <= 0) return s->process == KILN_PROCESS_FLOW ? 1 : 1e9;
    if (percent >= 1) return 0;
    if (s->process == KILN_PROCESS_FLOW) return 1 - percent;
    return exp(log(14.6146) + percent * (log(0.0292) - log(14.6146)));
}

static double error_of(const kiln_sampling *s, const kiln_latent *a, const kiln_latent *b, const kiln_latent *before,
                       double atol, double rtol)
{
    double sum = 0;
    if (!call_is(rig_of(s), sample_same_shape(a, b) && sample_same_shape(a, before))) return 0;
    for (size_t i = 0; i < a->count; i++) {
        double e = (a->v[i] - b->v[i]) / fmax(atol, rtol * fmax(fabs(a->v[i]), fabs(before->v[i])));
        sum += e * e;
    }
    return sqrt(sum / (double)a->count);
}

static void clip(const kiln_sampling *s, kiln_latent *x, double deviations)
{
    double mean = 0, square = 0;
    if (!call_is(rig_of(s), x != NULL)) return;
    for (size_t i = 0; i < x->count; i++) mean += x->v[i] / (double)x->count;
    for (size_t i = 0; i < x->count; i++) square += (x->v[i] - mean) * (x->v[i] - mean);
    const double most = deviations * sqrt(square / (double)(x->count - 1));
    for (size_t i = 0; i < x->count; i++) x->v[i] = fmin(fmax(x->v[i], -most), most);
}

static int make_side(kiln_latent *l, int64_t side)
{
    kiln_latent_shape s = l->shape;
    s.height = s.width = side;
    kiln_latent *to = sample_latent_new(s);
    if (!to) return 0;
    sample_scale(to, l);
    const kiln_latent was = *l;
    *l = *to, *to = was;
    sample_latent_free(to);
    return 1;
}

static kiln_status resize(const kiln_sampling *s, double by, uint32_t method)
{
    enum { SIDE_MAX = 1024 };
    rig *r = rig_of(s);
    const double side = fmax(1, rint((double)r->plan->side * by));
    (void)method;
    r->out->resizes++;
    int done = side <= SIDE_MAX && make_side(r->x, (int64_t)side) && make_side(r->guess, (int64_t)side);
    for (size_t i = 0; done && i < r->kept->n_slot; i++) done = make_side(r->kept->slot[i].latent, (int64_t)side);
    return done ? KILN_OK : tell(r, KILN_ERR_NOMEM);
}

/* ---- a run ---- */

static void kept_free(memory_of *m)
{
    for (size_t i = 0; m && i < m->n_slot; i++) sample_latent_free(m->slot[i].latent);
    free(m);
}

static memory_of *kept_copy(const memory_of *from)
{
    memory_of *m = malloc(sizeof *m);
    if (!m) return NULL;
    *m = *from, m->n_slot = 0;
    for (size_t i = 0; i < from->n_slot; i++) {
        kiln_latent *to = sample_latent_new(from->slot[i].latent->shape);
        if (!to) return kept_free(m), NULL;
        memcpy(to->v, from->slot[i].latent->v, to->count * sizeof *to->v);
        m->slot[i].latent = to, m->n_slot++;
    }
    return m;
}

void sampled_free(sampled *o)
{
    kept_free(o->kept);
    free(o->x);
    *o = (sampled){0};
}

static void rig_free(rig *r)
{
    sample_latents_free(&r->latents);
    sample_latent_free(r->x), sample_latent_free(r->guess);
    free(r->exact), free(r->path);
    mem_free(r->options);
}

/* As a run gives them: NULL where params_size is 0. What lies behind them cannot be read. */
static int options_ready(rig *r)
{
    const size_t size = r->plan->row->params_size;
    if (!size || !r->plan->options) return !size;
    mem_guard(1, 0xa5);
    r->options = mem_aligned(sizeof(double), size);
    mem_guard(0, 0);
    if (r->options) memcpy(r->options, r->plan->options, size);
    return r->options != NULL;
}

static int rig_ready(rig *r)
{
    const sampling_plan *p = r->plan;
    sample_latents_init(&r->latents, (kiln_latent_shape){1, 1, p->side, p->side, CHANNELS, 4});
    r->latents.fail_memory = p->fail_memory;
    r->x = sample_latent_new(r->latents.shape), r->guess = sample_latent_new(r->latents.shape);
    r->kept = p->resume ? kept_copy(p->resume->kept) : calloc(1, sizeof *r->kept);
    r->out->kept = r->kept;
    if (!r->x || !r->guess || !r->kept || !options_ready(r)) return 0;
    if (p->resume)
        memcpy(r->x->v, p->resume->x, r->x->count * sizeof *r->x->v);
    else if (p->start)
        memcpy(r->x->v, p->start, r->x->count * sizeof *r->x->v);
    else
        sampling_start(p->process, p->sigma[0], p->seed, r->x->count, r->x->v);
    r->exact = p->exact ? malloc(p->n * r->x->count * sizeof *r->exact) : NULL;
    return !p->exact || (r->exact && sampling_exact(p->process, p->sigma, p->n, r->x->v, r->x->count, r->exact));
}

kiln_status sampling_try(const sampling_plan *p, sampled *out)
{
    rig r = {.plan = p, .out = out};
    *out = (sampled){.last_step = -1, .asked_low = INFINITY, .generator = {p->seed ^ 0x9015e, 0}};
    if (p->resume) memcpy(out->generator, p->resume->generator, sizeof out->generator);
    if (!rig_ready(&r)) {
        rig_free(&r);
        return KILN_ERR_NOMEM;
    }
    /* The path is the same wherever a run begins: its levels first, and what is asked for between two of them after. */
    for (size_t i = 0; draws_path(&r) && i <= p->n; i++)
        if (!path_at(&r, p->sigma[i])) {
            rig_free(&r);
            return KILN_ERR_NOMEM;
        }
    r.api = (kiln_sampling){.size = sizeof r.api,
                            .n = p->n,
                            .first = p->first,
                            .sigma = p->sigma,
                            .process = p->process,
                            .options = r.options,
                            .x = r.x,
                            .seed = p->seed,
                            .self = &r,
                            .denoise = denoise,
                            .unconditional = unconditional,
                            .lincomb = lincomb,
                            .norm = norm,
                            .noise = noise,
                            .slot = slot_of,
                            .scalars = scalars,
                            .step = step,
                            .fail = fail,
                            .percent_to_sigma = percent_to_sigma,
                            .error = error_of,
                            .clip = clip,
                            .resize = resize,
                            .latents = &r.latents.api};
    out->status = p->row->run(&r.api);
    out->memory = r.latents.memory, out->after_stop = r.latents.after_stop, out->bad_call = r.latents.bad_call;
    out->count = r.x->count;
    out->x = malloc(r.x->count * sizeof *out->x);
    if (out->x) memcpy(out->x, r.x->v, r.x->count * sizeof *out->x);
    rig_free(&r);
    return out->x ? KILN_OK : KILN_ERR_NOMEM;
}

/* ---- in another process ---- */

static int put(int fd, const void *data, size_t bytes)
{
    for (const char *at = data; bytes;) {
        ssize_t n = write(fd, at, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return 0;
        at += n, bytes -= (size_t)n;
    }
    return 1;
}

static int get(int fd, void *data, size_t bytes)
{
    for (char *at = data; bytes;) {
        ssize_t n = read(fd, at, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return 0;
        at += n, bytes -= (size_t)n;
    }
    return 1;
}

static int put_sampled(int fd, const sampled *o)
{
    const memory_of *m = o->kept;
    int fine = put(fd, o, sizeof *o) && put(fd, o->x, o->count * sizeof *o->x) && put(fd, m, sizeof *m);
    for (size_t i = 0; fine && i < m->n_slot; i++) {
        const kiln_latent *l = m->slot[i].latent;
        fine = put(fd, &l->shape, sizeof l->shape) && put(fd, l->v, l->count * sizeof *l->v);
    }
    return fine;
}

/* The other process's pointers are never looked at. */
static int get_sampled(int fd, sampled *o)
{
    if (!get(fd, o, sizeof *o)) return *o = (sampled){0}, 0;
    memory_of *m = o->kept = calloc(1, sizeof *m);
    o->x = malloc(o->count * sizeof *o->x);
    if (!m || !o->x || !get(fd, o->x, o->count * sizeof *o->x) || !get(fd, m, sizeof *m)) {
        if (m) m->n_slot = 0;
        return 0;
    }
    const size_t n = m->n_slot;
    for (m->n_slot = 0; m->n_slot < n; m->n_slot++) {
        kiln_latent_shape s;
        kiln_latent *l = get(fd, &s, sizeof s) ? sample_latent_new(s) : NULL;
        if (!l) return 0;
        if (!get(fd, l->v, l->count * sizeof *l->v)) return sample_latent_free(l), 0;
        m->slot[m->n_slot].latent = l;
    }
    return 1;
}

kiln_status sampling_elsewhere(const sampling_plan *p, sampled *out)
{
    enum { SECONDS = 20 };
    int fd[2];
    *out = (sampled){0};
    if (pipe(fd) != 0) return KILN_ERR_IO;
    pid_t pid = fork();
    if (pid == 0) {
        close(fd[0]);
        alarm(SECONDS);
        _exit(sampling_try(p, out) != KILN_OK || !put_sampled(fd[1], out));
    }
    close(fd[1]);
    int fine = pid > 0 && get_sampled(fd[0], out);
    close(fd[0]);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR) continue;
    if (!fine) sampled_free(out);
    return fine ? KILN_OK : KILN_ERR_IO;
}
