/* executor_packing.c - see executor_packing.h.
 *
 * A host device packs weights from the mapped file. For an asynchronous device they are read from the file itself, in
 * parallel and never through the map: straight to where the packed bytes go if packing is a plain copy, else into a
 * buffer from which they are packed.
 */
#include "backend/executor_packing.h"

#include "base/memory_alloc.h"
#include "tensor/dtype.h"
#include "weights/packed_rows.h"

#include <assert.h>
#include <string.h>

typedef struct {
    const executor *x;
    const step *s;
    uint32_t operand;
    const op *leaf;
    pool *pool;
} packing;

static const op *part_of(const packing *p, uint32_t i)
{
    return p->leaf->n_part ? &p->x->r->op[p->leaf->part[i] - 1] : p->leaf;
}
static uint32_t n_parts(const packing *p) { return p->leaf->n_part ? p->leaf->n_part : 1; }

size_t packed_operand_bytes(const step *s, uint32_t k)
{
    assert(k < s->desc.n_in && s->desc.in[k].weight);
    return s->kernel->packed_bytes[k] ? s->kernel->packed_bytes[k]
                                      : (size_t)shape_count(&s->desc.in[k].shape) * dtype_size(s->desc.in[k].dtype);
}

/* The type in which all parts lie in files as they are, and which kernels pack from; or 0: they do not, and are packed
 * from f32. */
static uint32_t stored_type(const packing *p)
{
    uint32_t dtype = 0;
    for (uint32_t i = 0; i < n_parts(p); i++) {
        kiln_weight_info info = {.size = sizeof info};
        if (!weights_bytes(part_of(p, i)->set, part_of(p, i)->name, &info) || (dtype && info.dtype != dtype)) return 0;
        int coded = dtype_is_f8(info.dtype) || dtype_is_block(info.dtype);
        if (coded && p->s->kernel->pack_copies[p->operand] != info.dtype) return 0;
        dtype = info.dtype;
    }
    return dtype;
}

static size_t threads_of(const packing *p) { return p->pool ? pool_threads(p->pool) : 1; }

static size_t row_width(const packing *p) { return (size_t)(shape_count(&p->leaf->shape) / p->leaf->shape.dim[0]); }

/* 1: some of it is computed, each row when it is packed: there is no copy of them all. Not where fewer threads pack
 * than there are, which would have nothing to do meanwhile. */
static int by_rows(const packing *p)
{
    const kernel *k = p->s->kernel;
    if (p->leaf->kind == OP_CONSTANT || !shape_count(&p->leaf->shape) || !k->pack_rows) return 0;
    if (k->pack_tiles[p->operand] < threads_of(p) || (n_parts(p) == 1 && stored_type(p))) return 0;
    for (uint32_t i = 0; i < n_parts(p); i++)
        if (!weights_f32_rows_apart(part_of(p, i)->set, part_of(p, i)->name, row_width(p))) return 0;
    return 1;
}

/* Of n elements of the type, or of f32. */
static size_t bytes_of(uint32_t dtype, size_t n)
{
    size_t bytes = 0;
    dtype_bytes(dtype ? dtype : (uint32_t)KILN_F32, n, &bytes);
    return bytes;
}

/* Host bytes of the copy that packing this leaf makes of its source; 0: it needs none. */
static size_t copy_bytes(const packing *p)
{
    if (p->leaf->kind == OP_CONSTANT || p->s->kernel->pack_rows_as[p->operand] || by_rows(p)) return 0;
    uint32_t dtype = stored_type(p);
    if (dtype && n_parts(p) == 1) return 0;
    return bytes_of(dtype, (size_t)shape_count(&p->leaf->shape));
}

static size_t round_up_64(size_t n) { return (n + 63) & ~(size_t)63; }

/* What the kernel's own packing takes. */
static size_t pack_bytes(const packing *p)
{
    const kernel *k = p->s->kernel;
    size_t workers = threads_of(p);
    if (workers > k->pack_tiles[p->operand]) workers = k->pack_tiles[p->operand];
    return k->packed_bytes[p->operand] ? workers * k->pack_scratch[p->operand] : 0;
}

/* What patches' factors take as f32: of one part after the other while the copy is made, else of all at once. */
static size_t factor_bytes(const packing *p)
{
    size_t most = 0, all = 0;
    if (p->leaf->kind == OP_CONSTANT || p->s->kernel->pack_rows_as[p->operand] || stored_type(p))
        return 0; /* nothing is patched */
    for (uint32_t i = 0; i < n_parts(p); i++) {
        size_t bytes = weights_scratch_bytes(part_of(p, i)->set, part_of(p, i)->name, threads_of(p));
        if (bytes > most) most = bytes;
        all += bytes;
    }
    return by_rows(p) ? all : most;
}

/* All the host bytes that packing it takes beside its source and its result. */
static size_t temporary_bytes(const packing *p) { return round_up_64(copy_bytes(p)) + pack_bytes(p) + factor_bytes(p); }

/* The parts one after the other, as they are stored or as f32. */
static kiln_status gather(const packing *p, char *to, uint32_t dtype, error *e)
{
    for (uint32_t i = 0; i < n_parts(p); i++) {
        kiln_weight_info info = {.size = sizeof info};
        const void *bytes = dtype ? weights_bytes(part_of(p, i)->set, part_of(p, i)->name, &info) : NULL;
        size_t n = bytes_of(dtype, (size_t)shape_count(&part_of(p, i)->shape));
        if (bytes)
            memcpy(to, bytes, n);
        else
            TRY(weights_read_f32_by(part_of(p, i)->set, part_of(p, i)->name, (float *)(void *)to, p->pool, e));
        to += n;
    }
    return KILN_OK;
}

/* ---- from the map ---- */

typedef struct {
    const void *data;
    uint32_t dtype;
    void *scratch; /* pack_bytes() of it */
} source;

static const char *name_of(const packing *p) { return p->leaf->name ? p->leaf->name : "stacked weights"; }

/* Makes the buffer at least `bytes` large; they are on the device's account. */
static kiln_status reserve_on_account(const packing *p, size_t bytes, error *e)
{
    weight_buffer *b = p->x->buffer;
    budget *account = residency_budget(p->x->residency);
    if (b->bytes >= bytes) return KILN_OK;
    weight_buffer_free(b);
    TRY(budget_take(account, MEMORY_STAGING, bytes, name_of(p), e));
    if ((b->data = mem_pages(bytes))) return b->bytes = bytes, b->account = account, KILN_OK;
    budget_give(account, MEMORY_STAGING, bytes);
    return error_set(e, KILN_ERR_NOMEM, "out of memory for packing (%zu bytes)", bytes);
}

/* A weight's elements as they are stored; gathered, and turned into f32, when they do not lie in the file that way. */
static kiln_status leaf_source(const packing *p, source *s, error *e)
{
    size_t copy = round_up_64(copy_bytes(p)), factors = factor_bytes(p);
    budget *account = residency_budget(p->x->residency);
    kiln_weight_info info = {.size = sizeof info};
    TRY(reserve_on_account(p, copy + pack_bytes(p), e));
    s->scratch = (char *)p->x->buffer->data + copy;
    if (!copy) {
        const op *part = part_of(p, 0);
        s->data = weights_bytes(part->set, part->name, &info);
        s->dtype = info.dtype;
        return KILN_OK;
    }
    uint32_t dtype = stored_type(p);
    s->data = p->x->buffer->data;
    s->dtype = dtype ? dtype : KILN_F32;
    TRY(budget_take(account, MEMORY_STAGING, factors, name_of(p), e));
    kiln_status status = gather(p, p->x->buffer->data, dtype, e);
    budget_give(account, MEMORY_STAGING, factors);
    return status;
}

/* ---- by rows ---- */

/* The parts one behind the other. */
typedef struct {
    const packing *p;
    weights_f32_rows *part[PARTS_MAX];
} part_rows;

static kiln_status read_part_rows(const void *self, size_t first, size_t n, float *to, error *e)
{
    const part_rows *rows = self;
    for (uint32_t i = 0; i < n_parts(rows->p) && n; i++) {
        size_t count = (size_t)shape_count(&part_of(rows->p, i)->shape), here = first < count ? count - first : 0;
        if (here > n) here = n;
        if (here) TRY(weights_f32_rows_read(rows->part[i], first, here, to, e));
        first = first < count ? 0 : first - count;
        n -= here, to += here;
    }
    return KILN_OK;
}

static kiln_status pack_part_rows(const packing *p, void *dst, error *e)
{
    const kernel *k = p->s->kernel;
    part_rows rows = {.p = p};
    const row_source src = {read_part_rows, &rows};
    kiln_status status = KILN_OK;
    for (uint32_t i = 0; i < n_parts(p) && status == KILN_OK; i++)
        status = weights_f32_rows_open(part_of(p, i)->set, part_of(p, i)->name, p->pool, &rows.part[i], e);
    if (status == KILN_OK) status = k->pack_rows(k, p->operand, &src, dst, p->x->buffer->data, p->pool, e);
    for (uint32_t i = 0; i < n_parts(p); i++) weights_f32_rows_close(rows.part[i]);
    return status;
}

static kiln_status fill_by_rows(const packing *p, void *dst, error *e)
{
    budget *account = residency_budget(p->x->residency);
    size_t factors = factor_bytes(p);
    TRY(reserve_on_account(p, pack_bytes(p), e));
    TRY(budget_take(account, MEMORY_STAGING, factors, name_of(p), e));
    kiln_status status = pack_part_rows(p, dst, e);
    budget_give(account, MEMORY_STAGING, factors);
    return status;
}

/* ---- the whole ---- */

static kiln_status scan(const packing *p, error *e)
{
    for (uint32_t i = 0; i < n_parts(p); i++)
        TRY(weights_scan_finite_by(part_of(p, i)->set, part_of(p, i)->name, p->pool, e));
    return KILN_OK;
}

static void release_pages(const packing *p)
{
    for (uint32_t i = 0; i < n_parts(p); i++) weights_release_pages(part_of(p, i)->set, part_of(p, i)->name);
}

static packing packing_of(const executor *x, uint32_t op_index, uint32_t operand)
{
    return (packing){.x = x,
                     .s = &x->step[op_index],
                     .operand = operand,
                     .leaf = &x->r->op[x->r->op[op_index].in[operand] - 1],
                     .pool = x->pool};
}

static kiln_status pack_from(const packing *p, const void *src, uint32_t dtype, void *scratch, void *dst, error *e)
{
    const kernel *k = p->s->kernel;
    const operand_desc *d = &p->s->desc.in[p->operand];
    if (k->packed_bytes[p->operand] && k->pack_in && scratch)
        return k->pack_in(k, p->operand, src, dtype, dst, scratch, p->pool, e);
    return k->packed_bytes[p->operand] ? k->pack(k, p->operand, src, dtype, dst, p->pool, e)
                                       : dtype_convert(dst, d->dtype, src, dtype, (size_t)shape_count(&d->shape));
}

/* Rows as they are stored, their scales behind them; see stored_rows. */
static kiln_status fill_rows(const packing *p, int look, void *dst, error *e)
{
    const stored_rows *to = &p->s->desc.in[p->operand].rows;
    char *codes = dst;
    float *scale = (float *)(void *)(codes + stored_rows_scales_at(to));
    if (look) TRY(scan(p, e));
    for (uint32_t i = 0; i < n_parts(p); i++) {
        weights_rows r;
        if (!weights_rows_by(part_of(p, i)->set, part_of(p, i)->name, (size_t)to->columns, &r))
            return error_set(e, KILN_ERR_BUG, "rows are not as they were when the program was planned");
        TRY(weights_rows_read(&r, 0, r.rows, codes, p->pool, e));
        TRY(weights_row_scales(&r, 0, r.rows, scale, e));
        codes += r.rows * r.row_bytes, scale += r.rows * weights_scales_of(&r);
        if (to->coding == WEIGHTS_NIBBLES)
            memcpy((char *)dst + stored_rows_codebook_at(to), r.codebook, sizeof r.codebook);
    }
    return KILN_OK;
}

/* What was packed was read from files that are still what its identity says. */
static kiln_status unchanged(const packing *p, error *e)
{
    for (uint32_t i = 0; i < n_parts(p); i++) TRY(weights_unchanged(part_of(p, i)->set, part_of(p, i)->name, e));
    return KILN_OK;
}

static kiln_status fill_at_once(const packing *p, void *dst, error *e)
{
    source s = {0};
    TRY(leaf_source(p, &s, e));
    return pack_from(p, s.data, s.dtype, s.scratch, dst, e);
}

static kiln_status fill_from_map(const packing *p, int look, void *dst, error *e)
{
    error why = {0};
    kiln_status status = look ? scan(p, &why) : KILN_OK;
    if (status == KILN_OK) status = by_rows(p) ? fill_by_rows(p, dst, &why) : fill_at_once(p, dst, &why);
    release_pages(p);
    TRY(unchanged(p, e)); /* before any fault found in such bytes is reported */
    return status == KILN_OK ? status : error_set(e, status, "%s", why.message);
}

/* ---- from the file itself ---- */

enum { BUFFER_KEPT = 64 << 20 }; /* a larger one is given back after use */

void weight_buffer_free(weight_buffer *b)
{
    if (b->account) budget_give(b->account, MEMORY_STAGING, b->bytes);
    mem_pages_free(b->data);
    *b = (weight_buffer){0};
}

static kiln_status reserve_buffer(weight_buffer *b, size_t bytes, error *e)
{
    if (b->bytes >= bytes) return KILN_OK;
    weight_buffer_free(b);
    if (!(b->data = mem_pages(bytes)))
        return error_set(e, KILN_ERR_NOMEM, "out of memory for packing (%zu bytes)", bytes);
    b->bytes = bytes;
    return KILN_OK;
}

static size_t stored_bytes(const packing *p)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < n_parts(p); i++) bytes += weights_stored_bytes(part_of(p, i)->set, part_of(p, i)->name);
    return bytes;
}

/* The parts' bytes as they are stored, one part behind the other. */
static kiln_status read_parts(const packing *p, int look, char *to, error *e)
{
    for (uint32_t i = 0; i < n_parts(p); i++) {
        const op *part = part_of(p, i);
        TRY(weights_read_stored(part->set, part->name, to, p->pool, e));
        if (look) TRY(weights_scan_stored(part->set, part->name, to, e));
        to += weights_stored_bytes(part->set, part->name);
    }
    return KILN_OK;
}

static kiln_status parts_as_f32(const packing *p, const char *stored, float *to, error *e)
{
    for (uint32_t i = 0; i < n_parts(p); i++) {
        const op *part = part_of(p, i);
        TRY(weights_stored_as_f32(part->set, part->name, stored, to, e));
        stored += weights_stored_bytes(part->set, part->name);
        to += shape_count(&part->shape);
    }
    return KILN_OK;
}

static kiln_status pack_through_buffer(const packing *p, int look, uint32_t dtype, void *dst, error *e)
{
    weight_buffer *b = p->x->buffer;
    size_t stored = stored_bytes(p), behind = (stored + 63) & ~(size_t)63,
           floats = dtype ? 0 : (size_t)shape_count(&p->leaf->shape) * sizeof(float);
    TRY(reserve_buffer(b, behind + floats + 1, e));
    char *data = b->data;
    TRY(read_parts(p, look, data, e));
    if (!dtype) TRY(parts_as_f32(p, data, (float *)(void *)(data + behind), e));
    return pack_from(p, dtype ? data : data + behind, dtype ? dtype : KILN_F32, NULL, dst, e);
}

static kiln_status fill_from_file(const packing *p, int look, void *dst, error *e)
{
    const kernel *k = p->s->kernel;
    uint32_t dtype = stored_type(p),
             copied = k->packed_bytes[p->operand] ? k->pack_copies[p->operand] : p->s->desc.in[p->operand].dtype;
    if (dtype && dtype == copied && stored_bytes(p) == packed_operand_bytes(p->s, p->operand))
        return read_parts(p, look, dst, e);
    kiln_status status = pack_through_buffer(p, look, dtype, dst, e);
    if (p->x->buffer->bytes > BUFFER_KEPT) weight_buffer_free(p->x->buffer);
    return status;
}

static kiln_status fill_rows_checked(const packing *p, int look, void *dst, error *e)
{
    error why = {0};
    kiln_status status = fill_rows(p, look, dst, &why);
    release_pages(p);
    TRY(unchanged(p, e)); /* before any fault found in such bytes is reported */
    return status == KILN_OK ? status : error_set(e, status, "%s", why.message);
}

static kiln_status fill(const packing *p, int look, void *dst, error *e)
{
    if (p->s->kernel->pack_rows_as[p->operand]) return fill_rows_checked(p, look, dst, e);
    if (p->leaf->kind == OP_CONSTANT) return pack_from(p, p->leaf->constant, p->leaf->dtype, NULL, dst, e);
    return residency_device(p->x->residency)->table->asynchronous ? fill_from_file(p, look, dst, e)
                                                                  : fill_from_map(p, look, dst, e);
}

kiln_status packing_fill_use(void *arg, size_t use, void *dst, error *e)
{
    executor *x = arg;
    assert(use < x->n_use && x->use[use].weight < x->n_weight);
    program_weight *w = &x->packed[x->use[use].weight];
    packing p = packing_of(x, w->op, w->operand);
    kiln_status status = fill(&p, !w->scanned, dst, e);
    if (status == KILN_OK) {
        w->scanned = 1;
        return KILN_OK;
    }
    const op *o = &x->r->op[w->op];
    error_prefix(e, "program '%s'%s%s: weight '%s'", x->r->name, at_or_not(o), o->scope,
                 p.leaf->name ? p.leaf->name : "constant");
    return status;
}

void packing_will_need(void *arg, size_t use, page_reader *r)
{
    const executor *x = arg;
    const program_weight *w = &x->packed[x->use[use].weight];
    packing p = packing_of(x, w->op, w->operand);
    for (uint32_t i = 0; p.leaf->kind == OP_WEIGHT && i < n_parts(&p); i++)
        weights_will_need(part_of(&p, i)->set, part_of(&p, i)->name, r);
}

size_t packing_temporary(const executor *x, uint32_t op_index, uint32_t operand)
{
    assert(op_index < x->r->n && operand < x->step[op_index].desc.n_in);
    packing p = packing_of(x, op_index, operand);
    return temporary_bytes(&p);
}
