/* vae_stages.c - see vae_stages.h. */
#include "vae_stages.h"

#include "kiln/kit.h"

#include <stdio.h>

/* Convolutions over rows between two kept tensors: more would have each stripe compute too much of its neighbours. */
enum { DEPTH_MAX = 3 };
enum { H = 1, W, C }; /* of a picture [1,H,W,C] */

typedef struct {
    vae_stages *s;
    const vae_trace *t;
    uint8_t *depth; /* convolutions over rows since what is taken */
    uint8_t *mark;
    uint32_t *owner; /* the stage that has computed it */
} maker;

static const vae_op *op_at(const vae_trace *t, uint32_t i) { return &t->op[i]; }

/* ---- what an op's result is ---- */

static int is_picture(const maker *m, uint32_t i)
{
    const vae_op *o = op_at(m->t, i);
    return m->s->extent[i] > VAE_FREE && o->rank == 4 && o->dim[0] == 1;
}

/* The same in every row when it is added to a picture. */
static int is_rowless(const vae_op *o) { return o->rank < 3 || o->dim[o->rank - 3] == 1; }

/* Rows from the first to the last that a convolution reads for one of its own. */
static int64_t reach_of(const vae_trace *t, const vae_op *o)
{
    int64_t dilation = o->conv2d.dilation[0] ? o->conv2d.dilation[0] : 1;
    return (t->op[o->in[1]].dim[2] - 1) * dilation + 1;
}

/* No row of its result is made of padding alone. */
static int pads_little(const vae_trace *t, const vae_op *o)
{
    int64_t reach = reach_of(t, o);
    return o->conv2d.pad[0] >= 0 && o->conv2d.pad[2] >= 0 && o->conv2d.pad[0] < reach && o->conv2d.pad[2] < reach;
}

/* Operands of an op that goes element by element: rows of the result's, or the same everywhere. */
static int rows_match(const maker *m, const vae_op *o)
{
    for (uint32_t k = 0; k < o->n_in; k++) {
        const vae_op *from = op_at(m->t, o->in[k]);
        int picture = is_picture(m, o->in[k]) && from->dim[H] == o->dim[H];
        if (!picture && (m->s->extent[o->in[k]] != VAE_FREE || !is_rowless(from))) return 0;
    }
    return 1;
}

/* Pictures of the same rows, side by side or channel behind channel. */
static int rows_are_joined(const maker *m, const vae_op *o)
{
    for (uint32_t k = 0; k < o->n_in; k++)
        if (!is_picture(m, o->in[k])) return 0;
    return o->part.axis > H;
}

static int goes_by_rows(const maker *m, const vae_op *o)
{
    uint32_t first = o->n_in ? o->in[0] : 0;
    if (o->rank != 4 || o->dim[0] != 1 || !first) return 0;
    switch (o->kind) {
    case VAE_ADD:
    case VAE_MUL: return rows_match(m, o);
    case VAE_CONCAT: return rows_are_joined(m, o);
    case VAE_SLICE: return is_picture(m, first) && o->part.axis > H;
    case VAE_UPSAMPLE: return is_picture(m, first) && o->dim[H] % op_at(m->t, first)->dim[H] == 0;
    case VAE_CONV2D: return is_picture(m, first) && pads_little(m->t, o);
    case VAE_GROUP_NORM: return is_picture(m, first) && first != 1; /* nobody makes the statistics of what is given */
    case VAE_LINEAR:
    case VAE_LAYER_NORM:
    case VAE_AFFINE:
    case VAE_ACT:
    case VAE_GEGLU: return is_picture(m, first);
    default: return 0;
    }
}

static uint8_t extent_of(const maker *m, uint32_t i)
{
    const vae_op *o = op_at(m->t, i);
    int uses_picture = i == 1;
    for (uint32_t k = 0; k < o->n_in; k++) uses_picture |= o->in[k] && m->s->extent[o->in[k]] > VAE_FREE;
    if (!uses_picture) return VAE_FREE;
    return i == 1 || goes_by_rows(m, o) ? VAE_ROWS : VAE_WHOLE;
}

/* Only of what the results need. */
static void find_extents(const maker *m)
{
    for (int k = 0; k < VAE_OUTS; k++) m->mark[m->t->out[k]] = 1;
    for (uint32_t i = m->t->n; i > 0; i--)
        for (uint32_t k = 0; m->mark[i] && k < op_at(m->t, i)->n_in; k++) m->mark[op_at(m->t, i)->in[k]] = 1;
    for (uint32_t i = 1; i <= m->t->n; i++) m->s->extent[i] = m->mark[i] ? extent_of(m, i) : 0;
}

int vae_is_norm(const vae_stages *s, uint32_t op)
{
    return s->trace->op[op].kind == VAE_GROUP_NORM && s->extent[op] == VAE_ROWS;
}
int vae_is_taken(const vae_stages *s, uint32_t op) { return s->kept[op] || vae_is_norm(s, op); }

uint32_t vae_norm_of(const vae_stages *s, uint32_t kept, uint32_t after)
{
    for (uint32_t i = (after > kept ? after : kept) + 1; i <= s->trace->n; i++)
        if (s->extent[i] && vae_is_norm(s, i) && s->trace->op[i].in[0] == kept) return i;
    return 0;
}

/* ---- what is kept ---- */

/* For what reads it. */
static void keep_operands(const maker *m, uint32_t i)
{
    const vae_op *o = op_at(m->t, i);
    for (uint32_t k = 0; k < o->n_in; k++) {
        uint32_t from = o->in[k];
        int boundary = m->s->extent[i] == VAE_WHOLE ? m->s->extent[from] == VAE_ROWS && !vae_is_norm(m->s, from)
                                                    : m->s->extent[from] == VAE_WHOLE;
        if (from && m->s->extent[i] > VAE_FREE && (boundary || (k == 0 && vae_is_norm(m->s, i)))) m->s->kept[from] = 1;
    }
}

/* What a convolution over rows reads is kept here, where that is too deep: an upsampling is not, what it enlarges is.
 * That is smaller; and a backend may have one kernel for both (graph/fuse.h, fuse_upsampled()), which stripes then take
 * as the whole picture does. No convolution lies between what is kept and such an upsampling: its depth is 0 then. */
static uint32_t place_to_keep(const maker *m, uint32_t i)
{
    for (; m->t->op[i].kind == VAE_UPSAMPLE && !vae_is_taken(m->s, i); i = m->t->op[i].in[0]) m->depth[i] = 0;
    return i;
}

/* How deep an op lies, and where it would be too deep what it takes is kept. */
static void find_depths(const maker *m)
{
    for (uint32_t i = 1; i <= m->t->n; i++) {
        const vae_op *o = op_at(m->t, i);
        uint32_t deepest = 0;
        int over_rows = o->kind == VAE_CONV2D && m->t->op[o->in[1]].dim[2] > 1;
        for (uint32_t k = 0; k < o->n_in; k++) {
            uint32_t from = o->in[k];
            if (m->s->extent[from] != VAE_ROWS || vae_is_taken(m->s, from)) continue;
            if (over_rows && m->depth[from] >= DEPTH_MAX)
                m->s->kept[place_to_keep(m, from)] = 1;
            else if (m->depth[from] > deepest)
                deepest = m->depth[from];
        }
        m->depth[i] = (uint8_t)(m->s->extent[i] == VAE_ROWS ? deepest + (uint32_t)over_rows : 0);
    }
}

/* Marks what is computed for a kept op, and what is taken for that. */
static void mark_stage(const maker *m, uint32_t root)
{
    memset(m->mark, 0, m->t->n + 1);
    m->mark[root] = 1;
    for (uint32_t i = root; i > 0; i--) {
        const vae_op *o = op_at(m->t, i);
        if (!m->mark[i] || (i != root && m->s->kept[i])) continue;
        for (uint32_t k = i != root && vae_is_norm(m->s, i); k < o->n_in; k++) m->mark[o->in[k]] = 1;
    }
    m->mark[0] = 0;
}

/* 1: what two stages would compute, with a convolution over rows in it, is kept now. */
static int keep_shared(const maker *m)
{
    memset(m->owner, 0, (m->t->n + 1) * sizeof *m->owner);
    for (uint32_t root = 2; root <= m->t->n; root++) {
        if (!m->s->kept[root]) continue;
        mark_stage(m, root);
        for (uint32_t i = root - 1; i > 0; i--) {
            if (!m->mark[i] || vae_is_taken(m->s, i) || !m->depth[i]) continue;
            if (m->owner[i]) return m->s->kept[i] = 1;
            m->owner[i] = root;
        }
    }
    return 0;
}

static void find_kept(const maker *m)
{
    m->s->kept[1] = 1;
    for (int k = 0; k < VAE_OUTS; k++) m->s->kept[m->t->out[k]] = 1;
    m->s->kept[0] = 0;
    for (uint32_t i = 1; i <= m->t->n; i++)
        if (m->s->extent[i]) keep_operands(m, i);
    do find_depths(m);
    while (keep_shared(m));
}

/* Every kept tensor is a picture that somebody computes. */
static int can_be_kept(const maker *m)
{
    for (uint32_t i = 1; i <= m->t->n; i++)
        if (m->s->kept[i] && (!is_picture(m, i) || vae_is_norm(m->s, i))) return 0;
    for (int k = 0; k < VAE_OUTS; k++)
        if (m->t->out[k] == 1 || (k && m->t->out[k] == m->t->out[0])) return 0;
    return 1;
}

/* ---- stages ---- */

static kiln_status make_stage(const maker *m, uint32_t root)
{
    vae_stage *g = &m->s->stage[m->s->n_stage];
    uint32_t n = 0;
    mark_stage(m, root);
    for (uint32_t i = 1; i <= root; i++) n += m->mark[i];
    g->member = m->t->call->host->scratch(m->t->call->ctx, n * sizeof *g->member, KILN_CPU);
    if (!g->member) return KILN_ERR_NOMEM;
    for (uint32_t i = 1; i <= root; i++)
        if (m->mark[i]) g->member[g->n_member++] = i;
    g->op = root, g->whole = m->s->extent[root] == VAE_WHOLE;
    m->s->n_stage++;
    return KILN_OK;
}

kiln_status vae_stages_make(const vae_trace *t, vae_stages *out)
{
    const kiln_host *host = t->call->host;
    size_t n = t->n + 1;
    *out = (vae_stages){.trace = t};
    if (t->incomplete) return KILN_OK;
    maker m = {.s = out,
               .t = t,
               .depth = host->scratch(t->call->ctx, n, KILN_CPU),
               .mark = host->scratch(t->call->ctx, n, KILN_CPU),
               .owner = host->scratch(t->call->ctx, n * sizeof *m.owner, KILN_CPU)};
    out->extent = host->scratch(t->call->ctx, n, KILN_CPU);
    out->kept = host->scratch(t->call->ctx, n, KILN_CPU);
    out->dtype = host->scratch(t->call->ctx, n * sizeof *out->dtype, KILN_CPU);
    out->stage = host->scratch(t->call->ctx, n * sizeof *out->stage, KILN_CPU);
    if (!m.depth || !m.mark || !m.owner || !out->extent || !out->kept || !out->dtype || !out->stage)
        return KILN_ERR_NOMEM;
    for (uint32_t i = 0; i < n; i++) out->dtype[i] = KILN_F32;
    find_extents(&m);
    find_kept(&m);
    for (uint32_t i = 2; can_be_kept(&m) && i <= t->n; i++)
        if (out->kept[i]) TRY(make_stage(&m, i));
    return KILN_OK;
}

/* ---- stripes ---- */

enum { FORM_ROWS, FORM_ASKED, FORM_TOP, FORM_BOTTOM, FORM_CROP, FORM_OFFSETS }; /* of a member, then its operands' */

static int is_computed(const vae_stages *s, const vae_stage *g, uint32_t i)
{
    return i == g->op || !vae_is_taken(s, i);
}

kiln_status vae_stripe_new(const vae_stages *s, vae_stripe *out)
{
    const kiln_call *c = s->trace->call;
    size_t most = 0;
    for (uint32_t k = 0; k < s->n_stage; k++) {
        size_t n = 0;
        for (uint32_t j = 0; j < s->stage[k].n_member; j++)
            n += FORM_OFFSETS + s->trace->op[s->stage[k].member[j]].n_in;
        most = n > most ? n : most;
    }
    out->need = c->host->scratch(c->ctx, (s->trace->n + 1) * sizeof *out->need, KILN_CPU);
    out->capacity = most;
    out->form = c->host->scratch(c->ctx, (most + 1) * sizeof *out->form, KILN_CPU);
    return out->need && out->form ? KILN_OK : KILN_ERR_NOMEM;
}

/* The rows that an op reads of its picture to make `of`; how many of them are padding, and for an upsampling how many
 * of its first rows are too much. */
typedef struct {
    vae_rows rows;
    int64_t top, bottom, crop;
} reading;

static reading read_by_conv(const vae_trace *t, const vae_op *o, vae_rows of)
{
    const kiln_conv2d *how = &o->conv2d;
    int64_t stride = how->stride[0] ? how->stride[0] : 1, all = t->op[o->in[0]].dim[H], reach = reach_of(t, o);
    reading r = {.rows = {of.from * stride - how->pad[0], (of.to - 1) * stride - how->pad[0] + reach}};
    if (r.rows.from < 0) r.top = -r.rows.from, r.rows.from = 0;
    if (r.rows.to > all) r.bottom = r.rows.to - all, r.rows.to = all;
    return r;
}

static reading read_by(const vae_trace *t, const vae_op *o, vae_rows of)
{
    if (o->kind == VAE_CONV2D) return read_by_conv(t, o, of);
    if (o->kind != VAE_UPSAMPLE) return (reading){.rows = of};
    int64_t times = o->dim[H] / t->op[o->in[0]].dim[H];
    return (reading){.rows = {of.from / times, (of.to - 1) / times + 1}, .crop = of.from % times};
}

/* Kernels for 3x3 convolutions may make squares of VAE_BAND x VAE_BAND results at once (Winograd's), and the last bits
 * of a square depend on where it begins. So a stripe makes whole bands of rows of the picture, and its bytes are the
 * picture's. All convolutions do: which kernel a backend takes is not known here. And so does what reads them, or a
 * slice would stand between ops that are one in the whole picture's program and round once. */
static vae_rows whole_bands(vae_rows rows, int64_t all)
{
    int64_t to = (rows.to + VAE_BAND - 1) / VAE_BAND * VAE_BAND;
    return (vae_rows){rows.from / VAE_BAND * VAE_BAND, to < all ? to : all};
}

static void widen(vae_rows *need, vae_rows by)
{
    if (need->to == need->from) *need = by;
    if (by.from < need->from) need->from = by.from;
    if (by.to > need->to) need->to = by.to;
}

void vae_stripe_find(const vae_stages *s, const vae_stage *g, vae_rows rows, vae_stripe *out)
{
    const vae_trace *t = s->trace;
    int64_t *form = out->form;
    for (uint32_t j = 0; j < g->n_member; j++) {
        uint32_t i = g->member[j];
        int all = g->whole && s->extent[i] > VAE_FREE;
        out->need[i] = (vae_rows){0, all ? t->op[i].dim[H] : 0};
    }
    out->need[g->op] = rows;
    for (uint32_t j = g->n_member; !g->whole && j-- > 0;) {
        uint32_t i = g->member[j];
        if (s->extent[i] != VAE_ROWS || !is_computed(s, g, i)) continue;
        out->need[i] = whole_bands(out->need[i], t->op[i].dim[H]);
        vae_rows asked = read_by(t, &t->op[i], out->need[i]).rows;
        for (uint32_t k = 0; k < t->op[i].n_in; k++)
            if (s->extent[t->op[i].in[k]] > VAE_FREE) widen(&out->need[t->op[i].in[k]], asked);
    }
    for (uint32_t j = 0; j < g->n_member; j++, form += FORM_OFFSETS) {
        const vae_op *o = &t->op[g->member[j]];
        vae_rows need = out->need[g->member[j]];
        reading r = g->whole || s->extent[g->member[j]] != VAE_ROWS ? (reading){.rows = need} : read_by(t, o, need);
        form[FORM_ROWS] = need.to - need.from, form[FORM_ASKED] = r.rows.to - r.rows.from;
        form[FORM_TOP] = r.top, form[FORM_BOTTOM] = r.bottom, form[FORM_CROP] = r.crop;
        for (uint32_t k = 0; k < o->n_in; k++)
            form[FORM_OFFSETS + k] = s->extent[o->in[k]] > VAE_FREE ? r.rows.from - out->need[o->in[k]].from : 0;
        form += o->n_in;
    }
    out->n_form = (size_t)(form - out->form);
}

/* Rows [from, from + n) of x, which has `have`. */
static kiln_t rows_of(const kiln_ops *ops, kiln_program *p, kiln_t x, int64_t have, int64_t from, int64_t n)
{
    return from || n != have ? ops->slice(p, x, H, from, n) : x;
}

static kiln_t record_rows(const vae_trace *t, const vae_op *o, const int64_t *form, kiln_program *p, kiln_t *in)
{
    vae_op now = *o;
    now.dim[H] = form[FORM_ROWS];
    if (o->kind == VAE_CONV2D)
        now.conv2d.pad[0] = (int32_t)form[FORM_TOP], now.conv2d.pad[2] = (int32_t)form[FORM_BOTTOM];
    if (o->kind != VAE_UPSAMPLE) return vae_op_record(t->ops, p, &now, in);
    now.dim[H] = form[FORM_ASKED] * (o->dim[H] / t->op[o->in[0]].dim[H]);
    return rows_of(t->ops, p, vae_op_record(t->ops, p, &now, in), now.dim[H], form[FORM_CROP], form[FORM_ROWS]);
}

static kiln_t record_input(const vae_stages *s, const char *what, uint32_t i, uint32_t dtype, const int64_t *dim,
                           kiln_program *p)
{
    char name[32];
    snprintf(name, sizeof name, "%s %u", what, i);
    return s->trace->ops->input(p, name, dtype, 4, dim);
}

/* Rows of what the stage takes; those of a norm are made of what it reads. */
static kiln_t record_taken(const vae_stages *s, uint32_t i, int64_t rows, kiln_program *p, const kiln_t *handle)
{
    const vae_op *o = &s->trace->op[i];
    const kiln_ops *ops = s->trace->ops;
    kiln_t x = record_input(s, "taken", i, s->dtype[i], KILN_DIMS(1, rows, o->dim[W], o->dim[C]), p);
    if (!vae_is_norm(s, i)) return x;
    kiln_t stats = record_input(s, "stats", i, KILN_F32, KILN_DIMS(1, o->dim[H], o->norm.groups, VAE_NORM_STATS), p);
    kiln_t gamma = o->in[1] ? handle[o->in[1]] : (kiln_t){0}, beta = o->in[2] ? handle[o->in[2]] : (kiln_t){0};
    if (o->scope[0]) ops->scope_push(p, o->scope);
    x = ops->group_norm_apply(p, x, stats, o->norm.eps, gamma, beta);
    if (o->scope[0]) ops->scope_pop(p);
    return x;
}

/* Of the stage's result, for each norm that reads it. */
static void record_stats(const vae_stages *s, uint32_t kept, kiln_program *p, kiln_t x)
{
    char name[32];
    for (uint32_t i = 0; (i = vae_norm_of(s, kept, i)) != 0;) {
        snprintf(name, sizeof name, "stats %u", i);
        s->trace->ops->output(p, name, s->trace->ops->group_norm_stats(p, x, s->trace->op[i].norm.groups));
    }
}

/* Operands as the op reads them: of pictures the rows that it asks for. */
static void operands(const vae_stages *s, const vae_op *o, const int64_t *form, kiln_program *p, const kiln_t *handle,
                     const vae_rows *need, kiln_t *in)
{
    for (uint32_t k = 0; k < o->n_in; k++) {
        uint32_t from = o->in[k];
        in[k] = from ? handle[from] : (kiln_t){0};
        if (need && from && s->extent[from] > VAE_FREE)
            in[k] = rows_of(s->trace->ops, p, in[k], need[from].to - need[from].from, form[FORM_OFFSETS + k],
                            form[FORM_ASKED]);
    }
}

void vae_stripe_record(const vae_stages *s, const vae_stage *g, const vae_stripe *stripe, kiln_program *p,
                       kiln_t *handle)
{
    const vae_trace *t = s->trace;
    const int64_t *form = stripe->form;
    kiln_t in[VAE_OPERANDS_MAX];
    for (uint32_t j = 0; j < g->n_member; j++) {
        uint32_t i = g->member[j];
        const vae_op *o = &t->op[i];
        int by_rows = !g->whole && s->extent[i] == VAE_ROWS;
        if (!is_computed(s, g, i))
            handle[i] = record_taken(s, i, form[FORM_ROWS], p, handle);
        else {
            operands(s, o, form, p, handle, by_rows ? stripe->need : NULL, in);
            handle[i] = by_rows ? record_rows(t, o, form, p, in) : vae_op_record(t->ops, p, o, in);
        }
        form += FORM_OFFSETS + o->n_in;
    }
    t->ops->output(p, "y", handle[g->op]);
    record_stats(s, g->op, p, handle[g->op]);
}
