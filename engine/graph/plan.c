/* plan.c - see plan.h: dtypes, views, lifetimes, memory offsets, in that order. */
#include "graph/plan.h"

#include "base/memory_alloc.h"
#include "graph/shape_rules.h"
#include "tensor/dtype.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 };

static int64_t last_dim(const shape *s) { return s->rank ? s->dim[s->rank - 1] : 1; }
static op *at(const plan *p, uint32_t id)
{
    assert(id >= 1 && id <= p->r->n);
    return &p->r->op[id - 1];
}
static int is_leaf(const op *o)
{
    return o->kind == OP_INPUT || o->kind == OP_WEIGHT || o->kind == OP_CONSTANT || o->kind == OP_STATE;
}

/* ---- dtypes ---- */

static void set_types(plan *p)
{
    for (uint32_t id = 1; id <= p->r->n; id++) {
        const op *o = at(p, id);
        placement *x = &p->place[id];
        x->base = id;
        x->ld = last_dim(&o->shape);
        x->kind = o->kind == OP_INPUT   ? PLACE_INPUT
                  : o->kind == OP_STATE ? PLACE_STATE
                  : is_leaf(o)          ? PLACE_WEIGHT
                                        : PLACE_ARENA;
        x->dtype = o->dtype;
        p->skip[id - 1] = (uint8_t)(is_leaf(o) || o->kind == OP_RESULT);
    }
}

/* ---- views ---- */

static void make_view(plan *p, uint32_t id, uint32_t of, int64_t shift)
{
    assert(of >= 1 && of < id && !p->skip[id - 1]);
    const placement *base = &p->place[of];
    placement *x = &p->place[id];
    x->kind = base->kind;
    x->base = base->base;
    x->shift = base->shift + shift;
    x->ld = base->ld;
    p->skip[id - 1] = 1;
}

static int is_dense(const plan *p, uint32_t id) { return p->place[id].ld == last_dim(&at(p, id)->shape); }

/* Nothing but 1 before the axis: what is kept is one run of rows. */
static int is_outermost(const shape *s, uint32_t axis)
{
    for (uint32_t i = 0; i < axis; i++)
        if (s->dim[i] != 1) return 0;
    return 1;
}

/* The state that a tensor is or shows a part of; 0: none. */
static uint32_t state_of(const plan *p, uint32_t id)
{
    while (at(p, id)->kind == OP_STATE_WRITE || at(p, id)->kind == OP_SLICE || at(p, id)->kind == OP_RESHAPE)
        id = at(p, id)->in[0];
    return at(p, id)->kind == OP_STATE ? id : 0;
}

/* A part of a state that is written after this op: what the op saw has to be copied. */
static int is_written_later(const plan *p, uint32_t id)
{
    uint32_t state = state_of(p, id);
    for (uint32_t i = id + 1; state && i <= p->r->n; i++)
        if (at(p, i)->kind == OP_STATE_WRITE && state_of(p, i) == state) return 1;
    return 0;
}

/* A slice of columns, or of the outermost dimension; a reshape of something dense, or one that keeps the columns. */
static void find_views(plan *p)
{
    for (uint32_t id = 1; id <= p->r->n; id++) {
        const op *o = at(p, id);
        uint32_t from = o->n_in ? o->in[0] : 0;
        if ((o->kind == OP_SLICE || o->kind == OP_RESHAPE) && is_written_later(p, id)) continue;
        if (o->kind == OP_SLICE && o->attr.slice.axis == o->shape.rank - 1) {
            make_view(p, id, from, o->attr.slice.start);
        } else if (o->kind == OP_SLICE && is_outermost(&o->shape, o->attr.slice.axis)) {
            int64_t rows = 1;
            for (uint32_t i = o->attr.slice.axis + 1; i + 1 < o->shape.rank; i++) rows *= o->shape.dim[i];
            make_view(p, id, from, o->attr.slice.start * rows * p->place[from].ld);
        } else if (o->kind == OP_RESHAPE &&
                   (is_dense(p, from) || last_dim(&o->shape) == last_dim(&at(p, from)->shape))) {
            make_view(p, id, from, 0);
            if (is_dense(p, from)) p->place[id].ld = last_dim(&o->shape);
        } else if (o->kind == OP_STATE_WRITE) {
            make_view(p, id, from, 0);
            p->skip[id - 1] = 0;
        }
    }
}

/* Operands of a concatenation of columns that only it reads are written where their columns of it are. */
static void find_concats(plan *p, const uint32_t *uses)
{
    for (uint32_t id = 1; id <= p->r->n; id++) {
        const op *o = at(p, id);
        if (o->kind != OP_CONCAT || o->attr.concat.axis != o->shape.rank - 1) continue;
        int64_t column = 0;
        for (uint32_t k = 0; k < o->n_in; k++) {
            uint32_t from = o->in[k];
            const op *source = at(p, from);
            int writes = !is_leaf(source) && !p->skip[from - 1] && p->place[from].base == from && uses[from] == 1 &&
                         source->kind != OP_CONCAT && source->kind != OP_CUSTOM; /* whose tensors are dense */
            if (writes) {
                p->place[from].base = id;
                p->place[from].shift = column;
                p->place[from].ld = p->place[id].ld;
            }
            column += last_dim(&source->shape);
        }
    }
}

/* ---- lifetimes ---- */

static void touch(plan *p, uint32_t id, uint32_t when)
{
    assert(id >= 1 && id <= p->r->n);
    placement *base = &p->place[p->place[id].base];
    if (when < base->first) base->first = when;
    if (when > base->last) base->last = when;
}

static void find_lifetimes(plan *p)
{
    for (uint32_t id = 1; id <= p->r->n; id++) p->place[id].first = UINT32_MAX;
    for (uint32_t i = 0; i < p->r->n; i++) {
        const op *o = &p->r->op[i];
        if (o->kind == OP_RESULT) touch(p, i + 1, o->in[0] - 1); /* written by the op whose result it is */
        if (p->skip[i]) continue;
        touch(p, i + 1, i);
        for (uint32_t k = 0; k < o->n_in; k++)
            if (o->in[k]) touch(p, o->in[k], i);
    }
    for (size_t i = 0; i < p->r->n_output; i++) touch(p, p->r->output[i].id, (uint32_t)p->r->n);
}

/* Results of step-invariant ops that other ops read outlive the run: nothing else gets their memory. */
static void keep_between_runs(plan *p, uint32_t id)
{
    placement *base = &p->place[p->place[id].base];
    if (base->kind != PLACE_ARENA) return;
    base->first = 0;
    base->last = (uint32_t)p->r->n;
}

static void keep_invariant(plan *p)
{
    for (uint32_t i = 0; p->n_invariant && i < p->r->n; i++) {
        const op *o = &p->r->op[i];
        for (uint32_t k = 0; !p->invariant[i] && !p->skip[i] && k < o->n_in; k++)
            if (o->in[k] && p->invariant[o->in[k] - 1]) keep_between_runs(p, o->in[k]);
    }
    for (size_t i = 0; p->n_invariant && i < p->r->n_output; i++)
        if (p->invariant[p->r->output[i].id - 1]) keep_between_runs(p, p->r->output[i].id);
}

/* An op is step-invariant when everything it reads is a weight or step-invariant, and at least one the latter. */
static void find_invariant(plan *p)
{
    for (uint32_t i = 0; i < p->r->n; i++) {
        const op *o = &p->r->op[i];
        int some = 0, all = 1;
        for (uint32_t k = 0; k < o->n_in; k++) {
            if (!o->in[k]) continue;
            const op *from = at(p, o->in[k]);
            int invariant = from->kind == OP_INPUT ? from->invariant : p->invariant[o->in[k] - 1];
            some |= invariant;
            all &= invariant || from->kind == OP_WEIGHT || from->kind == OP_CONSTANT;
        }
        p->invariant[i] = (uint8_t)(some && all);
        p->n_invariant += p->invariant[i] && !p->skip[i];
    }
}

/* Can the op's result take the memory of operand k: is this its last use, its layout the same, and no other operand in
 * it? Returns the id whose memory it is, or 0. */
static uint32_t root_of_operand(const plan *p, uint32_t id, uint32_t k)
{
    assert(k < at(p, id)->n_in);
    const op *o = at(p, id);
    uint32_t from = o->in[k];
    if (!from) return 0;
    uint32_t root = p->place[from].base;
    const placement *x = &p->place[root], *y = &p->place[from];
    if (x->kind != PLACE_ARENA || x->last != id - 1 || x->dtype != p->place[id].dtype || y->shift != 0 ||
        y->ld != p->place[id].ld)
        return 0;
    if (x->ld != y->ld || shape_count(&at(p, root)->shape) != shape_count(&o->shape) ||
        !shape_equal(&at(p, from)->shape, &o->shape))
        return 0;
    for (uint32_t i = 0; i < o->n_in; i++)
        if (i != k && o->in[i] && p->place[o->in[i]].base == root) return 0;
    return root;
}

/* The residual, or either operand of what works element by element. */
static uint32_t in_place_root(const plan *p, uint32_t id)
{
    const op *o = at(p, id);
    int elementwise =
        o->kind == OP_ADD || o->kind == OP_AFFINE || o->kind == OP_ACT || o->kind == OP_MUL || o->kind == OP_MAP;
    if (p->skip[id - 1] || p->place[id].base != id) return 0;
    if (o->epilogue.residual) return root_of_operand(p, id, o->n_in - 1);
    for (uint32_t k = 0; elementwise && k < o->n_in; k++) {
        uint32_t root = root_of_operand(p, id, k);
        if (root) return root;
    }
    return 0;
}

static void rebase(plan *p, uint32_t old, uint32_t new_base)
{
    for (uint32_t id = 1; id <= p->r->n; id++)
        if (p->place[id].base == old) p->place[id].base = new_base;
}

static void share_places(plan *p)
{
    for (uint32_t id = 1; id <= p->r->n; id++) {
        uint32_t root = in_place_root(p, id);
        if (!root) continue;
        placement *kept = &p->place[root], *gone = &p->place[id];
        if (gone->last > kept->last) kept->last = gone->last;
        rebase(p, id, root);
    }
}

/* ---- offsets ---- */

typedef struct {
    uint32_t id;
    size_t bytes;
} block;

static int larger_first(const void *a, const void *b)
{
    const block *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static int by_offset(const void *a, const void *b)
{
    const placement *x = *(placement *const *)a, *y = *(placement *const *)b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static size_t block_bytes(const plan *p, uint32_t id)
{
    size_t n = (size_t)shape_count(&at(p, id)->shape) * dtype_size(p->place[id].dtype);
    return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Largest first, each at the lowest gap between those already placed that live at the same time. */
static kiln_status lay_out(plan *p, error *e)
{
    size_t n = 0;
    block *blocks = mem_alloc((p->r->n + 1) * sizeof *blocks);
    placement **near = mem_alloc((p->r->n + 1) * sizeof *near);
    size_t *bytes_of = mem_alloc((p->r->n + 1) * sizeof *bytes_of);
    if (!blocks || !near || !bytes_of) {
        mem_free(blocks), mem_free(near), mem_free(bytes_of);
        return error_set(e, KILN_ERR_NOMEM, "out of memory for planning");
    }
    for (uint32_t id = 1; id <= p->r->n; id++)
        if (p->place[id].kind == PLACE_ARENA && p->place[id].base == id && p->place[id].first != UINT32_MAX)
            blocks[n++] = (block){.id = id, .bytes = bytes_of[id] = block_bytes(p, id)};
    qsort(blocks, n, sizeof *blocks, larger_first);
    for (size_t i = 0; i < n; i++) {
        placement *x = &p->place[blocks[i].id];
        size_t n_near = 0, offset = 0;
        for (size_t k = 0; k < i; k++) {
            placement *y = &p->place[blocks[k].id];
            if (y->first <= x->last && x->first <= y->last) near[n_near++] = y;
        }
        qsort(near, n_near, sizeof *near, by_offset);
        for (size_t k = 0; k < n_near; k++) {
            if (near[k]->offset >= offset + blocks[i].bytes) break;
            size_t end = near[k]->offset + bytes_of[(uint32_t)(near[k] - p->place)];
            if (end > offset) offset = end;
        }
        x->offset = offset;
        assert(offset % ALIGNMENT == 0);
        if (offset + blocks[i].bytes > p->arena_bytes) p->arena_bytes = offset + blocks[i].bytes;
    }
    mem_free(blocks), mem_free(near), mem_free(bytes_of);
    return KILN_OK;
}

static void count_work(plan *p)
{
    for (uint32_t i = 0; i < p->r->n; i++) {
        const op *o = &p->r->op[i];
        const shape *in[OP_MAX_IN] = {0};
        if (p->skip[i]) continue;
        for (uint32_t k = 0; k < o->n_in && k < OP_MAX_IN; k++) in[k] = o->in[k] ? &at(p, o->in[k])->shape : NULL;
        uint64_t flops = flops_of_op(o->kind, &o->attr, in, o->n_in < OP_MAX_IN ? o->n_in : OP_MAX_IN, &o->shape);
        p->flops += flops;
        p->invariant_flops += p->invariant[i] ? flops : 0;
        p->n_run++;
    }
}

kiln_status plan_make(plan *p, recording *r, error *e)
{
    *p = (plan){.r = r};
    uint32_t *uses = mem_calloc(r->n + 1, sizeof *uses);
    p->place = mem_calloc(r->n + 1, sizeof *p->place);
    p->skip = mem_calloc(r->n + 1, 1);
    p->invariant = mem_calloc(r->n + 1, 1);
    if (!uses || !p->place || !p->skip || !p->invariant) {
        mem_free(uses);
        plan_free(p);
        return error_set(e, KILN_ERR_NOMEM, "out of memory for planning");
    }
    for (size_t i = 0; i < r->n; i++)
        for (uint32_t k = 0; k < r->op[i].n_in; k++) uses[r->op[i].in[k]]++;
    for (size_t i = 0; i < r->n_output; i++) uses[r->output[i].id]++;
    set_types(p);
    find_views(p);
    find_concats(p, uses);
    find_invariant(p);
    find_lifetimes(p);
    keep_invariant(
        p); /* before, so that no result takes their memory; and after, for those whose result took another's */
    share_places(p);
    keep_invariant(p);
    kiln_status status = lay_out(p, e);
    count_work(p);
    mem_free(uses);
    if (status != KILN_OK) plan_free(p);
    return status;
}

void plan_free(plan *p)
{
    mem_free(p->place);
    mem_free(p->skip);
    mem_free(p->invariant);
    *p = (plan){0};
}
