/* upscale_stripes.c - see upscale_stripes.h. */
#include "upscale_stripes.h"

#include "kiln/kit.h"
#include "kiln/precision.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

/* MOST: bytes that go into a stripe, or come out of it; more makes nothing faster. PROGRAMS: of one stage, kept while
 * it runs: top, middle, bottom and one near it. */
enum { MOST = 32 << 20, PROGRAMS = 4 };

/* What a stage gives, and how it goes. */
typedef struct {
    int64_t units;       /* of a stripe, without what it reads around it */
    size_t unit_numbers; /* of what it gives */
    size_t place, bytes; /* in the file; the last stage gives the picture, which does not lie there */
    size_t last;         /* the stage that reads it last */
} kept_stage;

typedef struct {
    kiln_program *program;
    int64_t units;
} stripe_program;

struct upscale_stripes {
    upscale_work *u;
    kept_stage *kept; /* [n_stage] */
    int64_t units;    /* of the picture */
    size_t file_bytes, in_bytes, out_bytes;
    stripe_program program[PROGRAMS];
    size_t next_program;
    int fd;
    char *in, *out; /* what a stripe takes from the file, and what it gives; NULL: not there yet */
};

/* Units [from, to) are given, [first, end) are computed. */
typedef struct {
    int64_t from, to, first, end;
} stripe;

static stripe stripe_at(const upscale_stripes *s, size_t k, int64_t from)
{
    int64_t halo = s->u->stage[k].halo, to = from + s->kept[k].units;
    stripe at = {from, to < s->units ? to : s->units, from > halo ? from - halo : 0, 0};
    at.end = at.to + halo < s->units ? at.to + halo : s->units;
    return at;
}

/* ---- shapes: a unit of a stage's result, or of the picture, has so many rows ---- */

static int64_t rows_of(const upscale_stripes *s, int64_t of) { return of < 0 ? s->u->multiple : s->u->stage[of].rows; }

static int64_t channels_of(const upscale_stripes *s, int64_t of)
{
    return of < 0 ? s->u->channels : s->u->stage[of].channels;
}

static int64_t columns_of(const upscale_stripes *s, int64_t of)
{
    return s->u->width / s->u->multiple * rows_of(s, of);
}

static int unit_numbers(const upscale_stripes *s, int64_t of, size_t *out)
{
    int64_t row;
    return !__builtin_mul_overflow(columns_of(s, of), channels_of(s, of), &row) &&
           !__builtin_mul_overflow((size_t)row, (size_t)rows_of(s, of), out) && *out < SIZE_MAX / sizeof(float);
}

/* ---- the file ---- */

static void find_lives(upscale_stripes *s)
{
    const upscale_work *u = s->u;
    for (size_t k = 0; k < u->n_stage; k++) {
        s->kept[k].last = k;
        for (size_t i = 0; i < u->stage[k].n_takes; i++)
            if (u->stage[k].takes[i] >= 0) s->kept[u->stage[k].takes[i]].last = k;
    }
}

/* The first place where nothing lies that is wanted at the same time. */
static size_t free_place(const upscale_stripes *s, size_t k)
{
    const kept_stage *x = &s->kept[k];
    size_t place = 0;
    for (size_t i = 0; i < k; i++) {
        const kept_stage *y = &s->kept[i];
        if (y->last < k || y->place >= place + x->bytes || place >= y->place + y->bytes) continue;
        place = y->place + y->bytes;
        i = SIZE_MAX; /* from the first one again */
    }
    return place;
}

static kiln_status place_kept(upscale_stripes *s)
{
    const upscale_work *u = s->u;
    find_lives(s);
    for (size_t k = 0; k < u->n_stage; k++) {
        kept_stage *x = &s->kept[k];
        if (!unit_numbers(s, (int64_t)k, &x->unit_numbers) ||
            __builtin_mul_overflow(x->unit_numbers * sizeof(float), (size_t)s->units, &x->bytes))
            return u->call->host->fail(u->call->ctx, KILN_ERR_NOMEM, "the enlarged picture is too large");
        if (k + 1 == u->n_stage) x->bytes = 0;
        x->place = free_place(s, k);
        if (x->place + x->bytes > s->file_bytes) s->file_bytes = x->place + x->bytes;
    }
    return KILN_OK;
}

static kiln_status move_bytes(const upscale_stripes *s, size_t place, char *at, size_t bytes, int writes)
{
    const kiln_call *c = s->u->call;
    while (bytes > 0) {
        ssize_t n = writes ? pwrite(s->fd, at, bytes, (off_t)place) : pread(s->fd, at, bytes, (off_t)place);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            return c->host->fail(c->ctx, KILN_ERR_IO, "cannot %s what is kept of a picture between its stages: %s",
                                 writes ? "write" : "read", n < 0 ? strerror(errno) : "the file ends");
        at += n, place += (size_t)n, bytes -= (size_t)n;
    }
    return KILN_OK;
}

/* ---- programs ---- */

static void forget_programs(upscale_stripes *s)
{
    for (size_t i = 0; i < PROGRAMS; i++)
        if (s->program[i].program) s->u->ops->program_free(s->program[i].program);
    memset(s->program, 0, sizeof s->program);
    s->next_program = 0;
}

static void name_of(int64_t of, char name[32])
{
    if (of < 0)
        snprintf(name, 32, "image");
    else
        snprintf(name, 32, "made.%lld", (long long)of);
}

static void output_result(const kiln_outputs *out, const char *name, kiln_t t)
{
    if (strcmp(name, "image") == 0) *(kiln_t *)out->self = t;
}

/* Stage k on so many units. */
static kiln_status record(const upscale_stripes *s, size_t k, int64_t units, kiln_program *p)
{
    const upscale_work *u = s->u;
    const kiln_network *n = u->net->network;
    const upscale_stage_facts *g = &u->stage[k];
    kiln_named_tensor in[UPSCALE_TAKES_MAX + 1];
    char name[UPSCALE_TAKES_MAX + 1][32];
    kiln_t made = {0};
    const kiln_outputs out = {.size = sizeof out, .self = &made, .add = output_result};
    for (size_t i = 0; i < g->n_takes; i++) {
        int64_t of = g->takes[i];
        name_of(of, name[i]);
        const int64_t dim[] = {1, units * rows_of(s, of), columns_of(s, of), channels_of(s, of)};
        in[i] = (kiln_named_tensor){
            .size = sizeof *in, .name = name[i], .tensor = u->ops->input(p, name[i], KILN_F32, 4, dim)};
    }
    snprintf(name[g->n_takes], sizeof name[0], "stage.%zu", k);
    in[g->n_takes] = (kiln_named_tensor){.size = sizeof *in, .name = name[g->n_takes]};
    n->record(n, u->ops, p, u->net->weights, in, g->n_takes + 1, &out);
    u->ops->output(p, "y", made);
    return u->ops->plan(u->call->ctx, p, NULL);
}

static kiln_status open_program(upscale_stripes *s, size_t k, int64_t units, kiln_program **out)
{
    upscale_work *u = s->u;
    const kiln_program_options options = upscale_options(u);
    for (size_t i = 0; i < PROGRAMS; i++)
        if (s->program[i].program && s->program[i].units == units) return *out = s->program[i].program, KILN_OK;
    stripe_program *p = &s->program[s->next_program++ % PROGRAMS];
    if (p->program) u->ops->program_free(p->program);
    *p = (stripe_program){u->ops->program_new(u->call->ctx, &options), units};
    if (!p->program) return KILN_ERR_NOMEM;
    TRY(record(s, k, units, p->program));
    u->ran = kiln_precision_of(u->ops, p->program);
    *out = p->program;
    return KILN_OK;
}

/* ---- how high a stripe is ---- */

static int64_t most_units(const upscale_stripes *s, size_t k)
{
    const upscale_stage_facts *g = &s->u->stage[k];
    size_t most = s->kept[k].unit_numbers, in = 0;
    for (size_t i = 0; i < g->n_takes; i++) {
        size_t n = 0;
        (void)unit_numbers(s, g->takes[i], &n); /* it fits, or place_kept() had failed */
        in += n;
    }
    if (in > most) most = in;
    int64_t units = (int64_t)((size_t)MOST / sizeof(float) / (most ? most : 1));
    return units < 1 ? 1 : units > s->units ? s->units : units;
}

/* The program of the stage's largest stripe, which lies in the middle. */
static kiln_status try_units(upscale_stripes *s, size_t k, int *fits)
{
    kiln_program *p;
    int64_t units = s->kept[k].units + 2 * s->u->stage[k].halo;
    TRY(open_program(s, k, units < s->units ? units : s->units, &p));
    *fits = !KILN_HAS(kiln_ops, s->u->ops, fits) || s->u->ops->fits(s->u->call->ctx, p);
    return KILN_OK;
}

static kiln_status choose_units(upscale_stripes *s, size_t k)
{
    kept_stage *x = &s->kept[k];
    kiln_status status;
    int fits = 0;
    x->units = most_units(s, k);
    for (;;) {
        status = try_units(s, k, &fits);
        if (status != KILN_OK || fits || x->units == 1) break;
        x->units /= 2;
        forget_programs(s);
    }
    forget_programs(s);
    return status;
}

/* What a stripe takes from the file, and what it gives. */
static void find_buffers(upscale_stripes *s, size_t k)
{
    const upscale_stage_facts *g = &s->u->stage[k];
    int64_t units = s->kept[k].units + 2 * g->halo;
    size_t in = 0, all = (size_t)(units < s->units ? units : s->units) * sizeof(float);
    for (size_t i = 0; i < g->n_takes; i++)
        if (g->takes[i] >= 0) in += s->kept[g->takes[i]].unit_numbers * all;
    if (in > s->in_bytes) s->in_bytes = in;
    if (s->kept[k].unit_numbers * all > s->out_bytes) s->out_bytes = s->kept[k].unit_numbers * all;
}

kiln_status upscale_stripes_new(upscale_work *u, upscale_stripes **out)
{
    const kiln_call *c = u->call;
    upscale_stripes *s = c->host->scratch(c->ctx, sizeof *s, KILN_CPU);
    *out = s;
    if (!s) return KILN_ERR_NOMEM;
    *s = (upscale_stripes){.u = u, .units = u->height / u->multiple, .fd = -1};
    s->kept = c->host->scratch(c->ctx, u->n_stage * sizeof *s->kept, KILN_CPU);
    if (!s->kept) return KILN_ERR_NOMEM;
    memset(s->kept, 0, u->n_stage * sizeof *s->kept);
    TRY(place_kept(s));
    for (size_t k = 0; k < u->n_stage; k++) {
        TRY(choose_units(s, k));
        find_buffers(s, k);
    }
    return KILN_OK;
}

uint64_t upscale_stripes_runs(const upscale_stripes *s)
{
    uint64_t n = 0;
    for (size_t k = 0; k < s->u->n_stage; k++) n += (uint64_t)((s->units + s->kept[k].units - 1) / s->kept[k].units);
    return n;
}

/* ---- a stripe ---- */

typedef struct {
    char name[UPSCALE_TAKES_MAX][32];
    int64_t dim[UPSCALE_TAKES_MAX][4];
    kiln_bind bind[UPSCALE_TAKES_MAX];
} stripe_input;

/* Rows of what the stage takes: those of the picture where they lie, others out of the file. */
static kiln_status bind_taken(const upscale_stripes *s, size_t k, stripe at, const float *x, stripe_input *b)
{
    const upscale_stage_facts *g = &s->u->stage[k];
    char *buffer = s->in;
    for (size_t i = 0; i < g->n_takes; i++) {
        int64_t of = g->takes[i], units = at.end - at.first;
        size_t numbers = 0;
        (void)unit_numbers(s, of, &numbers);
        size_t skip = (size_t)at.first * numbers, bytes = (size_t)units * numbers * sizeof(float);
        void *data = of < 0 ? (void *)(uintptr_t)(x ? x + skip : NULL) : buffer;
        if (of >= 0 && data) {
            TRY(move_bytes(s, s->kept[of].place + skip * sizeof(float), data, bytes, 0));
            buffer += bytes;
        }
        name_of(of, b->name[i]);
        memcpy(b->dim[i], (int64_t[]){1, units * rows_of(s, of), columns_of(s, of), channels_of(s, of)},
               sizeof b->dim[i]);
        b->bind[i] = (kiln_bind)KILN_BIND(b->name[i], kit_window(KILN_F32, KILN_CPU, data, 4, b->dim[i]));
    }
    return KILN_OK;
}

static kiln_status keep(const upscale_stripes *s, size_t k, stripe at, float *y)
{
    size_t numbers = s->kept[k].unit_numbers, bytes = (size_t)(at.to - at.from) * numbers * sizeof(float);
    char *data = s->out + (size_t)(at.from - at.first) * numbers * sizeof(float);
    if (k + 1 < s->u->n_stage)
        return move_bytes(s, s->kept[k].place + (size_t)at.from * numbers * sizeof(float), data, bytes, 1);
    memcpy(y + (size_t)at.from * numbers, data, bytes);
    return KILN_OK;
}

static kiln_status run_stripe(upscale_stripes *s, size_t k, stripe at, const float *x, float *y)
{
    upscale_work *u = s->u;
    const int64_t of = (int64_t)k,
                  dim[] = {1, (at.end - at.first) * rows_of(s, of), columns_of(s, of), channels_of(s, of)};
    stripe_input in;
    kiln_program *p;
    TRY(upscale_progress(u));
    TRY(open_program(s, k, at.end - at.first, &p));
    TRY(bind_taken(s, k, at, x, &in));
    const kiln_bind out = KILN_BIND("y", kit_window(KILN_F32, KILN_CPU, s->out, 4, dim));
    TRY(u->ops->run(u->call->ctx, p, in.bind, u->stage[k].n_takes, &out, 1));
    return kit_estimating(u->call) ? KILN_OK : keep(s, k, at, y);
}

static kiln_status make_buffers(upscale_stripes *s)
{
    const kiln_call *c = s->u->call;
    if (kit_estimating(c) || s->out) return KILN_OK;
    s->in = c->host->scratch(c->ctx, s->in_bytes + 1, KILN_CPU);
    s->out = c->host->scratch(c->ctx, s->out_bytes + 1, KILN_CPU);
    if (!s->in || !s->out) return KILN_ERR_NOMEM;
    if (s->file_bytes && (s->fd = c->host->spill(c->ctx, s->file_bytes)) < 0) return KILN_ERR_IO;
    return KILN_OK;
}

kiln_status upscale_stripes_run(upscale_stripes *s, const float *x, float *y)
{
    kiln_status status = make_buffers(s);
    for (size_t k = 0; status == KILN_OK && k < s->u->n_stage; k++) {
        for (int64_t from = 0; status == KILN_OK && from < s->units; from += s->kept[k].units)
            status = run_stripe(s, k, stripe_at(s, k, from), x, y);
        forget_programs(s);
    }
    return status;
}
