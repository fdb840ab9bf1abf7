/* vae_stripes.c - see vae_stripes.h. */
#include "vae_stripes.h"

#include "kiln/kit.h"
#include "kiln/precision.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

/* MOST, LEAST: bytes of what a stripe's ops give together; more makes nothing faster, below it is a band. PROGRAMS: of
 * one stage, kept while it runs; top, middle, bottom and a few near the edges. TAKEN: what a stage may take.
 * NORMS: that may read one kept tensor. PARTS: of rows on their way to or from the file, at once. */
enum { MOST = 32 << 20, LEAST = 1 << 20, PROGRAMS = 16, TAKEN = 24, NORMS = 4, PARTS = 16 };
enum { H = 1, W, C };

/* Where something lies from the stage that writes it to the one that reads it last; bytes 0: nowhere. */
typedef struct {
    size_t place, bytes;
    uint32_t born, last;
} allocation;

typedef struct {
    kiln_program *program;
    int64_t *form;
    size_t n_form;
} stripe_program;

struct vae_stripes {
    vae_converter *v;
    vae_shape one;
    vae_trace trace;
    vae_stages stages;
    vae_stripe stripe;
    float **memory;    /* [trace.n + 1] the caller's: what is given, and results; NULL: none */
    allocation *kept;  /* [trace.n + 1] in the file, as numbers of `stored` */
    allocation *stats; /* [trace.n + 1] of norms, in `stats_memory` */
    char *stats_memory;
    size_t stats_bytes;
    kiln_t *handle;  /* [trace.n + 1] for recording */
    int64_t *rows;   /* [n_stage] of a stripe */
    uint32_t stored; /* f32, or bf16 where that is what programs give */
    size_t number;   /* bytes of one */
    size_t file_bytes;
    stripe_program program[PROGRAMS];
    size_t next_program;
    size_t in_bytes, out_bytes; /* of the largest stripe */
    uint64_t least;
};

static void *scratch(const vae_stripes *s, size_t bytes)
{
    return s->v->call->host->scratch(s->v->call->ctx, bytes, KILN_CPU);
}

static const vae_op *op_of(const vae_stripes *s, uint32_t i) { return &s->trace.op[i]; }
static size_t row_numbers(const vae_stripes *s, uint32_t i)
{
    return (size_t)(op_of(s, i)->dim[W] * op_of(s, i)->dim[C]);
}
static int is_taken(const vae_stripes *s, const vae_stage *g, uint32_t i)
{
    return i != g->op && vae_is_taken(&s->stages, i);
}
/* The kept tensor that a stage takes as it is, or by way of a norm. */
static uint32_t source_of(const vae_stripes *s, uint32_t i)
{
    return vae_is_norm(&s->stages, i) ? op_of(s, i)->in[0] : i;
}

/* ---- what is kept, and where ---- */

static void find_lives(vae_stripes *s)
{
    for (uint32_t k = 0; k < s->stages.n_stage; k++) {
        const vae_stage *g = &s->stages.stage[k];
        s->kept[g->op].born = s->kept[g->op].last = k;
        for (uint32_t i = 0; (i = vae_norm_of(&s->stages, g->op, i)) != 0;) s->stats[i].born = s->stats[i].last = k;
        for (uint32_t j = 0; j < g->n_member; j++) {
            uint32_t i = g->member[j];
            if (is_taken(s, g, i)) s->kept[source_of(s, i)].last = s->stats[i].last = k;
        }
    }
}

static int is_result(const vae_stripes *s, uint32_t i)
{
    return i == s->trace.out[VAE_OUT_MEAN] || i == s->trace.out[VAE_OUT_VARIANCE];
}

/* The first place where nothing lies that lives at the same time. */
static size_t free_place(const allocation *all, uint32_t i)
{
    const allocation *x = &all[i];
    size_t place = 0;
    for (uint32_t k = 1; k < i; k++) {
        const allocation *y = &all[k];
        int meets = y->bytes && y->born <= x->last && x->born <= y->last && y->place < place + x->bytes &&
                    place < y->place + y->bytes;
        if (meets) place = y->place + y->bytes, k = 0;
    }
    return place;
}

/* One of `all`, for rows of so many bytes each. */
static kiln_status allocate(const vae_stripes *s, allocation *all, uint32_t i, size_t row_bytes, size_t *whole)
{
    allocation *x = &all[i];
    if (__builtin_mul_overflow(row_bytes, (size_t)op_of(s, i)->dim[H], &x->bytes)) return KILN_ERR_NOMEM;
    x->place = free_place(all, i);
    if (x->place + x->bytes > *whole) *whole = x->place + x->bytes;
    return KILN_OK;
}

static size_t stats_row(const vae_stripes *s, uint32_t norm)
{
    return (size_t)op_of(s, norm)->norm.groups * VAE_NORM_STATS * sizeof(float);
}

static kiln_status place_kept(vae_stripes *s)
{
    find_lives(s);
    for (uint32_t i = 2; i <= s->trace.n; i++) {
        if (s->stages.kept[i] && !is_result(s, i))
            TRY(allocate(s, s->kept, i, row_numbers(s, i) * s->number, &s->file_bytes));
        if (s->stages.extent[i] && vae_is_norm(&s->stages, i))
            TRY(allocate(s, s->stats, i, stats_row(s, i), &s->stats_bytes));
    }
    s->stats_memory = scratch(s, s->stats_bytes + 1);
    return s->stats_memory ? KILN_OK : KILN_ERR_NOMEM;
}

static kiln_status make_tables(vae_stripes *s)
{
    size_t n = s->trace.n + 1;
    s->kept = scratch(s, n * sizeof *s->kept), s->stats = scratch(s, n * sizeof *s->stats);
    s->memory = scratch(s, n * sizeof *s->memory);
    s->handle = scratch(s, n * sizeof *s->handle), s->rows = scratch(s, (s->stages.n_stage + 1) * sizeof *s->rows);
    if (!s->kept || !s->stats || !s->memory || !s->handle || !s->rows) return KILN_ERR_NOMEM;
    TRY(vae_stripe_new(&s->stages, &s->stripe));
    for (size_t k = 0; k < PROGRAMS; k++)
        if (!(s->program[k].form = scratch(s, (s->stripe.capacity + 1) * sizeof(int64_t)))) return KILN_ERR_NOMEM;
    TRY(place_kept(s));
    for (uint32_t i = 1; i <= s->trace.n; i++)
        if (vae_is_taken(&s->stages, i) && s->kept[source_of(s, i)].bytes) s->stages.dtype[i] = s->stored;
    return KILN_OK;
}

/* No stage takes more than there is room for in a run. */
static int takes_little(const vae_stripes *s)
{
    for (uint32_t k = 0; k < s->stages.n_stage; k++) {
        const vae_stage *g = &s->stages.stage[k];
        size_t n = s->v->n_bind, norms = 0;
        for (uint32_t j = 0; j < g->n_member; j++) {
            size_t taken = (size_t)is_taken(s, g, g->member[j]);
            n += taken && vae_is_norm(&s->stages, g->member[j]) ? 2 : taken;
        }
        for (uint32_t i = 0; (i = vae_norm_of(&s->stages, g->op, i)) != 0;) norms++;
        if (n > TAKEN || norms > NORMS) return 0;
    }
    return 1;
}

static int has_stripes(const vae_stripes *s)
{
    for (uint32_t k = 0; k < s->stages.n_stage; k++)
        if (!s->stages.stage[k].whole) return 1;
    return 0;
}

kiln_status vae_stripes_new(vae_converter *v, const vae_shape *one, vae_stripes **out)
{
    const kiln_host *host = v->call->host;
    *out = NULL;
    if (v->rank != 4 || one->n != 1 || !KILN_HAS(kiln_ops, v->ops, group_norm_apply)) return KILN_OK;
    vae_stripes *s = host->scratch(v->call->ctx, sizeof *s, KILN_CPU);
    if (!s) return KILN_ERR_NOMEM;
    s->v = v, s->one = *one;
    s->stored = v->program && kiln_precision_of(v->ops, v->program) == KILN_BF16 ? KILN_BF16 : KILN_F32;
    s->number = s->stored == KILN_BF16 ? sizeof(uint16_t) : sizeof(float);
    TRY(vae_trace_make(v, one, &s->trace));
    TRY(vae_stages_make(&s->trace, &s->stages));
    if (!has_stripes(s)) return KILN_OK;
    TRY(make_tables(s));
    if ((!s->file_bytes || KILN_HAS(kiln_host, host, spill)) && takes_little(s)) *out = s;
    return KILN_OK;
}

/* ---- programs ---- */

static void forget_programs(vae_stripes *s)
{
    for (size_t k = 0; k < PROGRAMS; k++) {
        if (s->program[k].program) s->v->ops->program_free(s->program[k].program);
        s->program[k].program = NULL;
    }
    s->next_program = 0;
}

static kiln_status make_program(vae_stripes *s, const vae_stage *g, stripe_program *out)
{
    const kiln_program_options options = vae_program_options(s->v);
    if (out->program) s->v->ops->program_free(out->program);
    out->program = s->v->ops->program_new(s->v->call->ctx, &options);
    if (!out->program) return KILN_ERR_NOMEM;
    out->n_form = s->stripe.n_form;
    memcpy(out->form, s->stripe.form, out->n_form * sizeof *out->form);
    vae_stripe_record(&s->stages, g, &s->stripe, out->program, s->handle);
    return s->v->ops->plan(s->v->call->ctx, out->program, NULL);
}

/* For the stripe that was found last. */
static kiln_status open_program(vae_stripes *s, const vae_stage *g, kiln_program **out)
{
    for (size_t k = 0; k < PROGRAMS; k++) {
        const stripe_program *p = &s->program[k];
        if (p->program && p->n_form == s->stripe.n_form &&
            memcmp(p->form, s->stripe.form, p->n_form * sizeof *p->form) == 0)
            return *out = p->program, KILN_OK;
    }
    stripe_program *p = &s->program[s->next_program++ % PROGRAMS];
    TRY(make_program(s, g, p));
    *out = p->program;
    return KILN_OK;
}

/* ---- how high a stripe is ---- */

/* What the ops of a stage give, for one row of its result. */
static double bytes_a_row(const vae_stripes *s, const vae_stage *g)
{
    double bytes = 0;
    for (uint32_t j = 0; j < g->n_member; j++)
        if (s->stages.extent[g->member[j]] > VAE_FREE)
            bytes += (double)row_numbers(s, g->member[j]) * (double)op_of(s, g->member[j])->dim[H] * (double)s->number;
    return bytes / (double)op_of(s, g->op)->dim[H];
}

/* Multiples of 8, or a band: so that stripes begin alike also where rows are doubled. */
static int64_t even_rows(double rows) { return rows >= 8 ? (int64_t)(rows / 8) * 8 : VAE_BAND; }

static void set_rows(vae_stripes *s, size_t bytes)
{
    for (uint32_t k = 0; k < s->stages.n_stage; k++) {
        const vae_stage *g = &s->stages.stage[k];
        int64_t all = op_of(s, g->op)->dim[H];
        double rows = (double)bytes / bytes_a_row(s, g);
        s->rows[k] = g->whole || rows >= (double)all ? all : even_rows(rows);
    }
}

static vae_rows stripe_at(const vae_stripes *s, uint32_t k, int64_t from)
{
    int64_t all = op_of(s, s->stages.stage[k].op)->dim[H];
    return (vae_rows){from, all - from < s->rows[k] ? all : from + s->rows[k]};
}

static size_t bytes_of(const vae_stripes *s, uint32_t i, vae_rows rows)
{
    size_t n = (size_t)(rows.to - rows.from) * row_numbers(s, i);
    return n * (s->stages.dtype[i] == KILN_BF16 ? sizeof(uint16_t) : sizeof(float));
}

static size_t taken_bytes(const vae_stripes *s, const vae_stage *g)
{
    size_t n = 0;
    for (uint32_t j = 0; j < g->n_member; j++)
        if (is_taken(s, g, g->member[j])) n += bytes_of(s, g->member[j], s->stripe.need[g->member[j]]);
    return n;
}

/* Finds the stage's stripe that takes most. */
static void find_largest(vae_stripes *s, uint32_t k)
{
    const vae_stage *g = &s->stages.stage[k];
    size_t most = 0;
    int64_t at = 0;
    for (int64_t from = 0; from < op_of(s, g->op)->dim[H]; from += s->rows[k]) {
        vae_stripe_find(&s->stages, g, stripe_at(s, k, from), &s->stripe);
        size_t n = taken_bytes(s, g);
        if (n > most) most = n, at = from;
    }
    vae_stripe_find(&s->stages, g, stripe_at(s, k, at), &s->stripe);
}

/* A stage's largest program, and the memory that its stripes pass through. */
static kiln_status try_stage(vae_stripes *s, uint32_t k, int *fits)
{
    const vae_stage *g = &s->stages.stage[k];
    kiln_program *p;
    kiln_program_info info = {.size = sizeof info};
    find_largest(s, k);
    size_t in = taken_bytes(s, g), out = (size_t)s->rows[k] * row_numbers(s, g->op) * s->number;
    if (in > s->in_bytes) s->in_bytes = in;
    if (out > s->out_bytes) s->out_bytes = out;
    TRY(open_program(s, g, &p));
    if (KILN_HAS(kiln_ops, s->v->ops, fits)) *fits &= s->v->ops->fits(s->v->call->ctx, p);
    TRY(s->v->ops->info(p, &info));
    uint64_t bytes = info.arena_bytes + info.scratch_bytes + in;
    if (bytes > s->least) s->least = bytes;
    return KILN_OK;
}

/* *fits: every stage does. Without `all` a stage that does not is the last that is looked at. */
static kiln_status try_rows(vae_stripes *s, int all, int *fits)
{
    kiln_status status = KILN_OK;
    s->in_bytes = s->out_bytes = 0, s->least = 0, *fits = 1;
    for (uint32_t k = 0; status == KILN_OK && (all || *fits) && k < s->stages.n_stage; k++) {
        status = try_stage(s, k, fits);
        forget_programs(s);
    }
    return status;
}

kiln_status vae_stripes_take(vae_stripes *s, size_t bytes, int *fits)
{
    set_rows(s, bytes);
    return try_rows(s, 1, fits);
}

kiln_status vae_stripes_choose(vae_stripes *s, int *fits)
{
    *fits = 0;
    for (size_t bytes = MOST; !*fits && bytes >= LEAST; bytes /= 2) {
        set_rows(s, bytes);
        TRY(try_rows(s, 0, fits));
    }
    return *fits ? KILN_OK : vae_stripes_take(s, 0, fits);
}

int64_t vae_stripes_rows(const vae_stripes *s)
{
    int64_t all = s->v->encode ? s->one.rows : vae_pixels(s->v, &s->one).rows, most = 1;
    for (uint32_t k = 0; k < s->stages.n_stage; k++)
        if (op_of(s, s->stages.stage[k].op)->dim[H] == all) most = s->rows[k] > most ? s->rows[k] : most;
    return most;
}

uint64_t vae_stripes_runs(const vae_stripes *s)
{
    uint64_t n = 0;
    for (uint32_t k = 0; k < s->stages.n_stage; k++)
        n += (uint64_t)((op_of(s, s->stages.stage[k].op)->dim[H] + s->rows[k] - 1) / s->rows[k]);
    return n;
}

uint64_t vae_stripes_least(const vae_stripes *s) { return s->least; }

/* ---- the file ---- */

static kiln_status open_file(vae_stripes *s)
{
    vae_converter *v = s->v;
    if (v->stripe.bytes >= s->file_bytes) return KILN_OK;
    int fd = v->call->host->spill(v->call->ctx, s->file_bytes);
    if (fd < 0) return KILN_ERR_IO;
    v->stripe.fd = fd, v->stripe.bytes = s->file_bytes;
    return KILN_OK;
}

/* Rows on their way to or from the file, in parts and pieces. */
typedef struct {
    const vae_stripes *s;
    char *data;
    size_t place, pixels, pixel_bytes;
    int to_file;
    int failed[PARTS]; /* errno; -1: the file ends */
} rows_moved;

enum { PIECE = 128 << 10 };

/* 0, or why not. */
static int transfer(int fd, size_t place, char *at, size_t bytes, int writes)
{
    while (bytes > 0) {
        ssize_t n = writes ? pwrite(fd, at, bytes, (off_t)place) : pread(fd, at, bytes, (off_t)place);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return n < 0 ? errno : -1;
        at += n, place += (size_t)n, bytes -= (size_t)n;
    }
    return 0;
}

static int move_piece(const rows_moved *m, size_t first, size_t pixels)
{
    size_t at = first * m->pixel_bytes;
    return transfer(m->s->v->stripe.fd, m->place + at, m->data + at, pixels * m->pixel_bytes, m->to_file);
}

static void move_part(void *arg, size_t part)
{
    rows_moved *m = arg;
    size_t end = m->pixels * (part + 1) / PARTS, piece = PIECE / m->pixel_bytes + 1;
    for (size_t p = m->pixels * part / PARTS; p < end && !m->failed[part]; p += piece)
        m->failed[part] = move_piece(m, p, end - p < piece ? end - p : piece);
}

static kiln_status move_rows(rows_moved *m)
{
    const kiln_call *c = m->s->v->call;
    c->host->parallel_for(c->ctx, PARTS, move_part, m);
    for (size_t part = 0; part < PARTS; part++)
        if (m->failed[part])
            return c->host->fail(c->ctx, KILN_ERR_IO, "cannot %s what is kept of a picture between its layers: %s",
                                 m->to_file ? "write" : "read",
                                 m->failed[part] > 0 ? strerror(m->failed[part]) : "the file ends");
    return KILN_OK;
}

/* Rows of an op as they lie in memory of ours, and where they belong in the file. */
static rows_moved moving(const vae_stripes *s, uint32_t i, vae_rows rows, void *data, uint32_t dtype)
{
    size_t number = dtype == KILN_BF16 ? sizeof(uint16_t) : sizeof(float);
    return (rows_moved){.s = s,
                        .data = data,
                        .place = s->kept[source_of(s, i)].place + (size_t)rows.from * row_numbers(s, i) * number,
                        .pixels = (size_t)((rows.to - rows.from) * op_of(s, i)->dim[W]),
                        .pixel_bytes = (size_t)op_of(s, i)->dim[C] * number};
}

/* ---- a stripe ---- */

/* Rows of what the stage takes, which a norm may be made of: where they lie, or in `buffer`. */
static kiln_status take_rows(vae_stripes *s, uint32_t i, vae_rows rows, char *buffer, void **out)
{
    uint32_t from = source_of(s, i);
    *out = s->kept[from].bytes ? (void *)buffer : s->memory[from] + (size_t)rows.from * row_numbers(s, i);
    if (!s->kept[from].bytes) return KILN_OK;
    rows_moved m = moving(s, i, rows, buffer, s->stages.dtype[i]);
    return move_rows(&m);
}

typedef struct {
    char name[TAKEN][32];
    int64_t dim[TAKEN][4];
    kiln_bind bind[TAKEN];
    size_t n;
} stripe_binds;

static void bind_one(stripe_binds *b, const char *name, uint32_t dtype, void *data, const int64_t *dim)
{
    snprintf(b->name[b->n], sizeof b->name[0], "%s", name);
    memcpy(b->dim[b->n], dim, sizeof b->dim[0]);
    b->bind[b->n] = (kiln_bind)KILN_BIND(b->name[b->n], kit_window(dtype, KILN_CPU, data, 4, b->dim[b->n]));
    b->n++;
}

/* Rows of a norm's statistics. */
static void bind_stats(const vae_stripes *s, uint32_t norm, vae_rows rows, stripe_binds *b)
{
    const vae_op *o = op_of(s, norm);
    char name[32], *at = s->stats_memory + s->stats[norm].place + (size_t)rows.from * stats_row(s, norm);
    snprintf(name, sizeof name, "stats %u", norm);
    bind_one(b, name, KILN_F32, at, (int64_t[]){1, rows.to - rows.from, o->norm.groups, VAE_NORM_STATS});
}

/* Binds what the stage takes, and those of the decoder's further inputs that it reads. */
static kiln_status bind_taken(vae_stripes *s, const vae_stage *g, stripe_binds *b)
{
    char *at = s->v->stripe.in, name[32];
    b->n = 0;
    for (uint32_t j = 0; j < g->n_member; j++) {
        uint32_t i = g->member[j];
        const vae_op *o = op_of(s, i);
        for (size_t k = 0; o->kind == VAE_INPUT && !is_taken(s, g, i) && k < s->v->n_bind; k++)
            if (strcmp(s->v->bind[k].name, o->name) == 0) b->bind[b->n++] = s->v->bind[k];
        if (!is_taken(s, g, i)) continue;
        vae_rows rows = s->stripe.need[i];
        void *data = NULL;
        if (!kit_estimating(s->v->call)) TRY(take_rows(s, i, rows, at, &data));
        if (data == at && data) at += bytes_of(s, i, rows);
        snprintf(name, sizeof name, "taken %u", i);
        bind_one(b, name, s->stages.dtype[i], data, (int64_t[]){1, rows.to - rows.from, o->dim[W], o->dim[C]});
        if (vae_is_norm(&s->stages, i)) bind_stats(s, i, (vae_rows){0, o->dim[H]}, b);
    }
    return KILN_OK;
}

/* What becomes of it: its rows, and the statistics of each norm that reads it. */
static void bind_made(const vae_stripes *s, const vae_stage *g, vae_rows rows, void *data, stripe_binds *b)
{
    const vae_op *o = op_of(s, g->op);
    b->n = 0;
    bind_one(b, "y", s->kept[g->op].bytes ? s->stored : KILN_F32, data,
             (int64_t[]){1, rows.to - rows.from, o->dim[W], o->dim[C]});
    for (uint32_t i = 0; (i = vae_norm_of(&s->stages, g->op, i)) != 0;) bind_stats(s, i, rows, b);
}

static kiln_status run_stripe(vae_stripes *s, const vae_stage *g, vae_rows rows)
{
    vae_converter *v = s->v;
    const kiln_call *c = v->call;
    int filed = s->kept[g->op].bytes != 0;
    void *data = filed ? v->stripe.out : (void *)kit_at(s->memory[g->op], (size_t)rows.from * row_numbers(s, g->op));
    stripe_binds in, out;
    kiln_program *p;
    TRY(c->host->progress(c->ctx, v->done++, v->total, v->encode ? "encoding" : "decoding"));
    vae_stripe_find(&s->stages, g, rows, &s->stripe);
    TRY(open_program(s, g, &p));
    TRY(bind_taken(s, g, &in));
    bind_made(s, g, rows, data, &out);
    TRY(v->ops->run(c->ctx, p, in.bind, in.n, out.bind, out.n));
    if (kit_estimating(c) || !filed) return KILN_OK;
    rows_moved m = moving(s, g->op, rows, data, s->stored);
    m.to_file = 1;
    return move_rows(&m);
}

/* ---- a picture ---- */

static kiln_status run_stage(vae_stripes *s, uint32_t k)
{
    const vae_stage *g = &s->stages.stage[k];
    kiln_status status = KILN_OK;
    for (int64_t from = 0; status == KILN_OK && from < op_of(s, g->op)->dim[H]; from += s->rows[k])
        status = run_stripe(s, g, stripe_at(s, k, from));
    forget_programs(s);
    return status;
}

/* At least so many bytes. */
static kiln_status room(const vae_stripes *s, size_t bytes, void **memory, size_t *have)
{
    if (*memory && *have >= bytes) return KILN_OK;
    *memory = scratch(s, bytes + 1), *have = bytes;
    return *memory ? KILN_OK : KILN_ERR_NOMEM;
}

kiln_status vae_stripes_run(vae_stripes *s, float *x, float *y, float *variance)
{
    if (!kit_estimating(s->v->call)) {
        TRY(open_file(s));
        TRY(room(s, s->in_bytes, &s->v->stripe.in, &s->v->stripe.in_bytes));
        TRY(room(s, s->out_bytes, &s->v->stripe.out, &s->v->stripe.out_bytes));
    }
    s->memory[1] = x, s->memory[s->trace.out[VAE_OUT_MEAN]] = y;
    if (s->trace.out[VAE_OUT_VARIANCE]) s->memory[s->trace.out[VAE_OUT_VARIANCE]] = variance;
    for (uint32_t k = 0; k < s->stages.n_stage; k++) TRY(run_stage(s, k));
    return KILN_OK;
}
