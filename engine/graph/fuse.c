/* fuse.c - see fuse.h. Epilogues are merged in place; then one rewrite puts the ops in their new order and stacks the
 * weights of grouped linears.
 */
#include "graph/fuse.h"

#include "base/memory_alloc.h"
#include "graph/expression.h"

#include <string.h>

typedef struct {
    uint32_t n, linear[PARTS_MAX]; /* old ids, in order of recording */
    uint32_t result;               /* new id of the stacked linear   */
    int64_t next_column;
} group;

typedef struct {
    recording *r;
    uint32_t *uses;     /* [n + 1] by id: reads by live ops and outputs */
    uint32_t *in_group; /* [n + 1] by id: index of its group + 1     */
    group *groups;
    size_t n_group;
} fuser;

static op *at(fuser *f, uint32_t id) { return &f->r->op[id - 1]; }

static void count_uses(fuser *f)
{
    memset(f->uses, 0, (f->r->n + 1) * sizeof *f->uses);
    for (size_t i = 0; i < f->r->n; i++) {
        const op *o = &f->r->op[i];
        for (uint32_t k = 0; !o->dead && k < o->n_in; k++) f->uses[o->in[k]]++;
    }
    for (size_t i = 0; i < f->r->n_output; i++) f->uses[f->r->output[i].id]++;
}

/* Ops that nothing reads are dead; from the end, so that whole chains are found. */
static void drop_unused(fuser *f)
{
    count_uses(f);
    for (size_t i = f->r->n; i-- > 0;) {
        op *o = &f->r->op[i];
        if (o->dead || f->uses[i + 1] || o->kind == OP_INPUT || o->kind == OP_STATE_WRITE) continue;
        o->dead = 1;
        for (uint32_t k = 0; k < o->n_in; k++) f->uses[o->in[k]]--;
    }
}

static int plain(const op_epilogue *e) { return !e->act && !e->geglu && !e->residual; }
static int is_product(const op *o) { return o->kind == OP_CONV2D || o->kind == OP_LINEAR; }
static int is_norm(const op *o) { return o->kind == OP_GROUP_NORM || o->kind == OP_LAYER_NORM; }
static int is_leaf(const op *o)
{
    return o->kind == OP_INPUT || o->kind == OP_WEIGHT || o->kind == OP_CONSTANT || o->kind == OP_STATE;
}

/* `from` moves to the place of `to`, which it replaces. It computes in its own precision, and the sum, the activation
 * and the result are what they were. */
static void replace(op *to, op *from)
{
    shape result = to->shape;
    uint32_t dtype = to->dtype, saturate = to->saturate;
    *to = *from;
    to->shape = result;
    to->dtype = dtype;
    to->saturate = saturate;
    from->dead = 1;
}

/* Could a state that it reads be written before the later op that it would move to? */
static int reads_state(fuser *f, const op *o)
{
    for (uint32_t k = 0; k < o->n_in; k++) {
        const op *from = o->in[k] ? at(f, o->in[k]) : NULL;
        while (from && (from->kind == OP_SLICE || from->kind == OP_RESHAPE)) from = at(f, from->in[0]);
        if (from && (from->kind == OP_STATE || from->kind == OP_STATE_WRITE)) return 1;
    }
    return 0;
}

/* The op that makes operand k of o, when o is its only reader and it may be computed where o stands. */
static op *sole_source(fuser *f, const op *o, uint32_t k)
{
    uint32_t id = o->in[k];
    return id && f->uses[id] == 1 && !at(f, id)->dead && !reads_state(f, at(f, id)) ? at(f, id) : NULL;
}

static void fuse_act(fuser *f, op *o)
{
    op *from = sole_source(f, o, 0);
    if (!from || !(is_product(from) || is_norm(from)) || !plain(&from->epilogue)) return;
    uint32_t act = o->attr.act.kind;
    replace(o, from);
    o->epilogue.act = act;
}

static void fuse_geglu(fuser *f, op *o)
{
    op *from = sole_source(f, o, 0);
    if (!from || from->kind != OP_LINEAR || !plain(&from->epilogue)) return;
    replace(o, from);
    o->epilogue.geglu = 1;
}

static void fuse_residual(fuser *f, op *o)
{
    for (uint32_t k = 0; k < 2; k++) {
        op *from = sole_source(f, o, k);
        uint32_t other = o->in[1 - k];
        if (!from || !is_product(from) || !plain(&from->epilogue)) continue;
        if (!other || other == o->in[k] || !shape_equal(&at(f, other)->shape, &o->shape) ||
            !shape_equal(&from->shape, &o->shape))
            continue;
        if (at(f, other)->kind == OP_WEIGHT || at(f, other)->kind == OP_CONSTANT) continue;
        replace(o, from);
        o->epilogue.residual = 1;
        o->in[o->n_in++] = other;
        return;
    }
}

/* ---- upsampled pictures ---- */

enum { ROWS = 1, COLUMNS }; /* of a picture [N,H,W,C] */

static int is_upsampled(const op *o, const shape *from)
{
    return o->kind == OP_UPSAMPLE && from->rank == 4 && o->shape.dim[ROWS] == 2 * from->dim[ROWS] &&
           o->shape.dim[COLUMNS] == 2 * from->dim[COLUMNS];
}

/* The picture that the upsampling behind `id` doubled, or 0. *first: the first of its rows there. */
static uint32_t source_of_upsampled(const recording *r, uint32_t id, int64_t *first)
{
    const op *o = &r->op[id - 1];
    for (*first = 0; o->kind == OP_SLICE && o->shape.rank == 4 && o->attr.slice.axis == ROWS; o = &r->op[o->in[0] - 1])
        *first += o->attr.slice.start;
    return o->kind == OP_UPSAMPLE && is_upsampled(o, &r->op[o->in[0] - 1].shape) ? o->in[0] : 0;
}

/* A state may be written between the upsampling and the convolution. */
static int is_of_state(const recording *r, uint32_t id)
{
    const op *o = &r->op[id - 1];
    while (o->kind == OP_SLICE || o->kind == OP_RESHAPE) o = &r->op[o->in[0] - 1];
    return o->kind == OP_STATE || o->kind == OP_STATE_WRITE;
}

void fuse_upsampled(recording *r, fuse_takes takes, const void *self)
{
    for (size_t i = 0; i < r->n; i++) {
        op o = r->op[i];
        uint32_t from = 0;
        if (o.kind == OP_CONV2D) from = source_of_upsampled(r, o.in[0], &o.attr.conv2d.upsampled.first);
        if (!from || is_of_state(r, from)) continue;
        o.attr.conv2d.upsampled.rows = r->op[o.in[0] - 1].shape.dim[ROWS];
        o.in[0] = from;
        if (takes(self, r, &o)) r->op[i] = o;
    }
}

/* ---- rows that are taken ---- */

void fuse_taken(recording *r, fuse_takes takes, const void *self)
{
    for (size_t i = 0; i < r->n; i++) {
        op o = r->op[i];
        if (o.kind != OP_GROUPED_LINEAR || o.n_in > 4) continue;
        const op *take = &r->op[o.in[0] - 1];
        if (take->kind != OP_TAKE || take->attr.take.axis || r->op[take->in[1] - 1].shape.rank != 1 ||
            is_of_state(r, take->in[0]) || is_of_state(r, take->in[1]))
            continue;
        o.in[0] = take->in[0], o.in[4] = take->in[1], o.n_in = 5;
        if (takes(self, r, &o)) r->op[i] = o;
    }
}

/* ---- expressions of expressions ---- */

/* What an op computes element by element, as an expression of its operands. */
static int as_expression(const op *o, map_attr *out)
{
    static const char *const acts[] = {NULL,      "silu(a)",    "gelu(a)", "gelu_tanh(a)", "quick_gelu(a)",
                                       "relu(a)", "sigmoid(a)", "tanh(a)"};
    const float number[4] = {o->attr.affine.scale, o->attr.affine.shift};
    if (o->kind == OP_MAP) return *out = o->attr.map, 1;
    *out = (map_attr){0};
    if (o->kind == OP_ADD) return expression_compile("a + b", 2, 0, NULL, out, NULL) == KILN_OK;
    if (o->kind == OP_MUL) return expression_compile("a * b", 2, 0, NULL, out, NULL) == KILN_OK;
    if (o->kind == OP_AFFINE) return expression_compile("a * p + q", 1, 0, number, out, NULL) == KILN_OK;
    return o->kind == OP_ACT && expression_compile(acts[o->attr.act.kind], 1, 0, NULL, out, NULL) == KILN_OK;
}

/* Is its result stored in the type it is computed in, so that nobody asked for a rounding between? */
static int is_unrounded(const op *o) { return o->dtype == o->precision || o->dtype == KILN_F32 || o->attr.map.integer; }

/* The operand's place among n; one more where it is not there. OP_MAX_IN: there is no room. */
static uint8_t operand_place(uint32_t *in, uint32_t *n, uint32_t id)
{
    uint32_t i = 0;
    while (i < *n && in[i] != id) i++;
    if (i == KILN_MAP_OPERANDS) return OP_MAX_IN;
    if (i == *n) in[(*n)++] = id;
    return (uint8_t)i;
}

/* Operand k of the map o, when it is computed element by element and nobody else reads it: into o's expression. */
static int fuse_map_operand(fuser *f, op *o, uint32_t k)
{
    op *from = sole_source(f, o, k);
    map_attr inner, outer = o->attr.map;
    uint32_t in[KILN_MAP_OPERANDS] = {0}, n = 0;
    uint8_t outer_place[OP_MAX_IN] = {0}, inner_place[OP_MAX_IN] = {0};
    if (!from || from->n_in > KILN_MAP_OPERANDS || !plain(&from->epilogue) || !shape_equal(&from->shape, &o->shape) ||
        !as_expression(from, &inner) || (from->kind == OP_MAP && !is_unrounded(from)))
        return 0;
    for (uint32_t i = 0; i < o->n_in; i++)
        if (i != k && (outer_place[i] = operand_place(in, &n, o->in[i])) == OP_MAX_IN) return 0;
    for (uint32_t i = 0; i < from->n_in; i++)
        if ((inner_place[i] = operand_place(in, &n, from->in[i])) == OP_MAX_IN) return 0;
    if (!expression_inline(&outer, k, &inner, outer_place, inner_place)) return 0;
    for (uint32_t i = 0; i < o->n_in; i++) f->uses[o->in[i]]--;
    for (uint32_t i = 0; i < from->n_in; i++) f->uses[from->in[i]]--;
    for (uint32_t i = 0; i < n; i++) f->uses[o->in[i] = in[i]]++;
    o->n_in = n;
    o->attr.map = outer;
    from->dead = 1;
    return 1;
}

static void fuse_map(fuser *f, op *o)
{
    for (uint32_t k = 0; k < o->n_in; k++)
        if (fuse_map_operand(f, o, k)) k = (uint32_t)-1; /* its operands are others now: from the first again */
}

/* ---- q, k, v: linears of one x into one attention ---- */

static int sole_weight(fuser *f, uint32_t id) { return id && at(f, id)->kind == OP_WEIGHT && f->uses[id] == 1; }

/* Can this linear be stacked with `like`? Same x, both with or both without bias, nothing else on it. */
static int stackable(fuser *f, uint32_t id, const op *like)
{
    const op *o = id ? at(f, id) : NULL;
    if (!o || o->dead || o->kind != OP_LINEAR || !plain(&o->epilogue) || f->uses[id] != 1 || f->in_group[id]) return 0;
    if (!sole_weight(f, o->in[1]) || (o->in[2] && !sole_weight(f, o->in[2])) || reads_state(f, o)) return 0;
    if (like && (o->in[0] != like->in[0] || !o->in[2] != !like->in[2])) return 0;
    if (like && (o->dtype != like->dtype || o->precision != like->precision || o->saturate != like->saturate)) return 0;
    /* one type of all parts, so that stacking copies and never rounds */
    return !like || (at(f, o->in[1])->dtype == at(f, like->in[1])->dtype &&
                     (!o->in[2] || at(f, o->in[2])->dtype == at(f, like->in[2])->dtype));
}

static void group_from(fuser *f, const op *attention, uint32_t first)
{
    group *g = &f->groups[f->n_group];
    if (!stackable(f, attention->in[first], NULL)) return;
    *g = (group){0};
    for (uint32_t k = first; k < 3; k++) {
        uint32_t id = attention->in[k], place = g->n;
        if (!stackable(f, id, at(f, attention->in[first]))) continue;
        for (; place > 0 && g->linear[place - 1] > id; place--) g->linear[place] = g->linear[place - 1];
        g->linear[place] = id;
        g->n++;
    }
    if (g->n < 2) return;
    f->n_group++;
    for (uint32_t i = 0; i < g->n; i++) f->in_group[g->linear[i]] = (uint32_t)f->n_group;
}

static void fuse_qkv(fuser *f, const op *o)
{
    if (o->in[0] == o->in[1] || o->in[1] == o->in[2] || o->in[0] == o->in[2]) return;
    group_from(f, o, 0);
    if (!f->in_group[o->in[1]]) group_from(f, o, 1); /* cross-attention: k and v alone */
}

/* ---- the rewrite ---- */

typedef struct {
    fuser *f;
    op *out;
    uint32_t n;
    uint32_t *renamed; /* [old n + 1]: new id */
} rewriter;

static uint32_t put(rewriter *w, op o)
{
    for (uint32_t k = 0; k < o.n_in; k++) o.in[k] = w->renamed[o.in[k]];
    o.dead = 0;
    w->out[w->n++] = o;
    return w->n;
}

/* One leaf for the g->n leaves at operand k of the group's linears, stacked along dimension 0. */
static uint32_t put_stack(rewriter *w, const group *g, uint32_t k)
{
    op o = *at(w->f, at(w->f, g->linear[0])->in[k]);
    o.n_part = g->n;
    o.shape.dim[0] = 0;
    for (uint32_t i = 0; i < g->n; i++) {
        uint32_t leaf = at(w->f, g->linear[i])->in[k];
        o.part[i] = w->renamed[leaf];
        o.shape.dim[0] += at(w->f, leaf)->shape.dim[0];
    }
    w->out[w->n++] = o;
    return w->n;
}

static void put_group(rewriter *w, group *g)
{
    op o = *at(w->f, g->linear[0]);
    uint32_t weight = put_stack(w, g, 1), bias = o.in[2] ? put_stack(w, g, 2) : 0, axis = o.shape.rank - 1;
    o.shape.dim[axis] = w->out[weight - 1].shape.dim[0];
    g->result = put(w, o);
    w->out[g->result - 1].in[1] = weight;
    w->out[g->result - 1].in[2] = bias;
}

static uint32_t put_slice(rewriter *w, group *g, uint32_t id)
{
    const op *o = at(w->f, id);
    op slice = {.kind = OP_SLICE,
                .n_in = 1,
                .shape = o->shape,
                .dtype = o->dtype,
                .precision = o->precision,
                .scope = o->scope};
    slice.attr.slice.axis = o->shape.rank - 1;
    slice.attr.slice.start = g->next_column;
    slice.attr.slice.length = o->shape.dim[o->shape.rank - 1];
    g->next_column += slice.attr.slice.length;
    uint32_t new_id = put(w, slice);
    w->out[new_id - 1].in[0] = g->result;
    return new_id;
}

static void rewrite_ops(rewriter *w)
{
    recording *r = w->f->r;
    for (uint32_t id = 1; id <= r->n; id++)
        if (!at(w->f, id)->dead && is_leaf(at(w->f, id))) w->renamed[id] = put(w, *at(w->f, id));
    for (uint32_t id = 1; id <= r->n; id++) {
        const op *o = at(w->f, id);
        uint32_t in_group = w->f->in_group[id];
        if (o->dead || is_leaf(o)) continue;
        group *g = in_group ? &w->f->groups[in_group - 1] : NULL;
        if (g && !g->result) put_group(w, g);
        w->renamed[id] = g ? put_slice(w, g, id) : put(w, *o);
    }
}

static kiln_status rewrite(fuser *f, error *e)
{
    recording *r = f->r;
    size_t capacity = r->n + 3 * f->n_group + 1;
    rewriter w = {
        .f = f, .out = mem_calloc(capacity, sizeof *w.out), .renamed = mem_calloc(r->n + 1, sizeof *w.renamed)};
    kiln_status status = w.out && w.renamed ? KILN_OK : error_set(e, KILN_ERR_NOMEM, "out of memory for planning");
    if (status == KILN_OK) {
        rewrite_ops(&w);
        for (size_t i = 0; i < r->n_output; i++) r->output[i].id = w.renamed[r->output[i].id];
        mem_free(r->op);
        r->op = w.out;
        r->n = w.n;
        r->capacity = capacity;
        w.out = NULL;
    }
    mem_free(w.out);
    mem_free(w.renamed);
    return status;
}

static kiln_status run(recording *r, int fusing, error *e)
{
    fuser f = {.r = r,
               .uses = mem_calloc(r->n + 1, sizeof *f.uses),
               .in_group = mem_calloc(r->n + 1, sizeof *f.in_group),
               .groups = mem_calloc(r->n + 1, sizeof *f.groups)};
    kiln_status status =
        f.uses && f.in_group && f.groups ? KILN_OK : error_set(e, KILN_ERR_NOMEM, "out of memory for planning");
    if (status == KILN_OK) {
        drop_unused(&f);
        for (size_t i = 0; fusing && i < r->n; i++) {
            op *o = &r->op[i];
            if (o->dead) continue;
            if (o->kind == OP_ACT) fuse_act(&f, o);
            if (o->kind == OP_GEGLU) fuse_geglu(&f, o);
            if (o->kind == OP_ADD) fuse_residual(&f, o);
            if (o->kind == OP_MAP) fuse_map(&f, o);
            if (o->kind == OP_ATTENTION) fuse_qkv(&f, o);
        }
        status = rewrite(&f, e);
    }
    mem_free(f.uses);
    mem_free(f.in_group);
    mem_free(f.groups);
    return status;
}

kiln_status fuse(recording *r, error *e) { return run(r, 1, e); }
kiln_status fuse_nothing(recording *r, error *e) { return run(r, 0, e); }
