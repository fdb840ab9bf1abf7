/* product.c - products whose right side is read as it lies, a panel at a time: of two activations, with a transposed
 * weight, by groups of rows, with weights kept as rows (rows.h).
 *
 * A task is some columns of one matrix (or group) of the result and a band of its rows. It widens its panel of the
 * right side to f32 and has oneDNN pack it as a weight (coded rows are widened straight into that: block_panel.h), then
 * runs one GEMM after another over the band; small products go through kernels.h's gemm without packing, a few rows
 * through its dots. A deep product is summed panel by panel, in their order.
 */
#include "backend/cpu/block_panel.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/int8_product.h"
#include "backend/cpu/linear.h"
#include "backend/cpu/row_forms.h"

#include "base/memory_alloc.h"

#include <string.h>

enum { FEW = PRODUCT_FEW, CHUNK = 1024, DEEP = 2048, DIRECT_DEEP = 256, HEIGHT = 256, BAND = 1024 };
static const int64_t SMALL = 1 << 21; /* multiplications of a matrix that are done before a GEMM is packed */

typedef struct {
    uint32_t type;             /* of the arithmetic */
    int columns, direct;       /* the right side is [k][n], not [n][k]; not by oneDNN */
    int64_t matrices, I, J, K; /* of the result: how many, rows (groups: of all), columns; depth */
    int64_t deep, width, band; /* of a panel; columns and rows of a task */
    int64_t height[2];         /* rows of a GEMM */
    int64_t column_tiles, bands;
    gemm *gemms[2][2]; /* [height][a narrower column tile] */
    row_form b;
    block_panel panels[2]; /* of a right side of coded rows: [a narrower column tile] */
    size_t a_bytes, panel_bytes, packed_bytes, c_bytes, part_bytes, slot_bytes;
} product_plan;

typedef struct {
    const cpu_kernel *c;
    const kernel_args *a;
} call;

typedef struct {                      /* rows of a, of b and of the result where a task's begin */
    int64_t a, b, out, rows, bias;    /* bias: where its columns begin */
    int64_t first, width, n, variant; /* columns; n with a geglu's gates */
} task;

typedef struct {
    char *a, *packed, *own;
    float *panel, *c, *part;
} buffers;

static buffers buffers_at(const call *j, unsigned slot)
{
    const product_plan *p = j->c->plan;
    buffers b = {.a = (char *)j->a->scratch + slot * p->slot_bytes};
    char *at = b.a + p->a_bytes;
    b.panel = (float *)(void *)at, at += p->panel_bytes;
    b.packed = at, at += p->packed_bytes;
    b.c = (float *)(void *)at, at += p->c_bytes;
    b.part = (float *)(void *)at, at += p->part_bytes;
    b.own = at;
    return b;
}

/* One panel is all of the depth: sums are finished as they are made. */
static int whole(const product_plan *p) { return p->K <= p->deep; }
static int64_t spread(const product_plan *p, int64_t n) { return p->direct ? (int64_t)round_up((size_t)n, 16) : n; }

/* ---- the right side ---- */

static void read_b(const call *j, int64_t row, int64_t column, float *to, int64_t n)
{
    const product_plan *p = j->c->plan;
    const operand_desc *d = &j->c->op.in[1];
    if (j->c->rows_kept & 2)
        row_form_read(j->c->k, &p->b, j->a->in[1], row, column, to, (size_t)n);
    else
        j->c->k->load(to, place_of(d, j->a->in[1], row, column), type_of(d), (size_t)n);
}

static int by_codes(const call *j) { return (j->c->rows_kept & 2) && ((const product_plan *)j->c->plan)->b.coding; }

/* Row of b that column i of the task is: geglu's gates follow its values. */
static int64_t row_of_b(const call *j, const task *t, int64_t i)
{
    int64_t half = j->c->op.epilogue.geglu ? j->c->op.in[1].shape.dim[0] / 2 : 0;
    return t->b + t->first + (i < t->width ? i : half + i - t->width);
}

/* [n][deep] or [deep][n], zeros behind the depth; direct: always [deep][n filled up]. */
static void load_panel(const call *j, const task *t, int64_t k0, const buffers *b)
{
    const product_plan *p = j->c->plan;
    int64_t deep = min64(p->deep, p->K - k0), wide = spread(p, t->n);
    if (p->columns) {
        for (int64_t i = 0; i < deep; i++) {
            read_b(j, t->b + k0 + i, t->first, b->panel + i * wide, t->n);
            memset(b->panel + i * wide + t->n, 0, (size_t)(wide - t->n) * sizeof(float));
        }
        memset(b->panel + deep * wide, 0, (size_t)((p->deep - deep) * wide) * sizeof(float));
        return;
    }
    float *rows = p->direct ? b->part : b->panel;
    for (int64_t i = 0; i < t->n; i++) {
        read_b(j, row_of_b(j, t, i), k0, rows + i * p->deep, deep);
        memset(rows + i * p->deep + deep, 0, (size_t)(p->deep - deep) * sizeof(float));
    }
    if (!p->direct) return;
    memset(b->panel, 0, (size_t)(p->deep * wide) * sizeof(float));
    j->c->k->transpose(b->panel, (size_t)wide, rows, (size_t)p->deep, (size_t)t->n, (size_t)p->deep);
}

static int into_blocks_panel(const product_plan *p) { return p->b.coding && !p->columns && !p->direct; }

/* The packed panel from k0 on. */
static kiln_status pack_panel(const call *j, const task *t, int64_t k0, const buffers *b, error *e)
{
    const product_plan *p = j->c->plan;
    if (into_blocks_panel(p)) {
        block_rows rows = {.form = &p->b,
                           .data = j->a->in[1],
                           .first = row_of_b(j, t, 0),
                           .half = t->width,
                           .second = row_of_b(j, t, t->width),
                           .from = k0,
                           .inputs = min64(p->deep, p->K - k0)};
        return block_panel_fill(j->c->k, &p->panels[t->variant], &rows, b->packed, b->panel, e);
    }
    load_panel(j, t, k0, b);
    if (p->direct) return KILN_OK;
    return (p->columns ? gemm_pack_columns : gemm_pack)(p->gemms[0][t->variant], b->panel, b->packed, e);
}

/* ---- the left side ---- */

const int32_t *product_taken(const op_desc *op, const kernel_args *a)
{
    return op->kind == OP_GROUPED_LINEAR && op->n_in > 4 && op->in[4].dtype ? a->in[4] : NULL;
}

static const char *row_of_a(const call *j, int64_t row, int64_t k)
{
    const int32_t *taken = product_taken(&j->c->op, j->a);
    return place_of(&j->c->op.in[0], j->a->in[0], taken ? taken[row] : row, k);
}

/* Rows of a, dense and in the type of the arithmetic; zeros fill up a GEMM's. */
static const void *load_a(const call *j, int64_t row, int64_t n, int64_t height, int64_t k0, char *buffer)
{
    const product_plan *p = j->c->plan;
    const operand_desc *d = &j->c->op.in[0];
    int64_t deep = min64(p->deep, p->K - k0);
    size_t size = size_of(p->type);
    if (type_of(d) == p->type && !d->weight && d->ld == p->deep && deep == p->deep && n == height &&
        !product_taken(&j->c->op, j->a))
        return place_of(d, j->a->in[0], row, k0);
    for (int64_t i = 0; i < height; i++) {
        char *to = buffer + (size_t)(i * p->deep) * size;
        size_t there = i < n ? (size_t)deep : 0;
        const char *from = there ? row_of_a(j, row + i, k0) : NULL;
        if (there && type_of(d) == p->type)
            memcpy(to, from, there * size);
        else if (there)
            gemm_convert_row(j->c->k, to, p->type, from, type_of(d), there);
        memset(to + there * size, 0, ((size_t)p->deep - there) * size);
    }
    return buffer;
}

/* ---- sums, and what becomes of them ---- */

static void finish(const call *j, const task *t, float *row, int64_t r)
{
    const op_desc *op = &j->c->op;
    const float *bias = op->kind != OP_MATMUL && op->in[2].dtype ? (const float *)j->a->in[2] + t->bias : NULL;
    if (op->kind == OP_MATMUL && op->attr.matmul.alpha != 1)
        j->c->k->affine(row, op->attr.matmul.alpha, 0, (size_t)t->n);
    if (bias) j->c->k->add(row, bias + t->first, (size_t)t->width);
    if (bias && op->epilogue.geglu)
        j->c->k->add(row + t->width, bias + columns_of(&op->out) + t->first, (size_t)t->width);
    gemm_finish_row(j->c, j->a, row, t->first, t->width, t->out + r);
}

/* A few rows against rows of b: each is read once, in pieces that stay in the nearest cache. */
static void few_rows(const call *j, const task *t, const buffers *b)
{
    const product_plan *p = j->c->plan;
    const operand_desc *d = &j->c->op.in[0];
    float piece[CHUNK];
    float *x = b->panel;
    for (int64_t r = 0; r < t->rows; r++)
        j->c->k->load(x + r * p->K, row_of_a(j, t->a + r, 0), type_of(d), (size_t)p->K);
    for (int64_t i = 0; i < t->n; i++) {
        float sums[FEW] = {0};
        int64_t row = row_of_b(j, t, i);
        if (by_codes(j))
            row_form_dots(j->c->k, &p->b, j->a->in[1], row, sums, x, (size_t)p->K, (size_t)t->rows, (size_t)p->K);
        for (int64_t k = 0; k < p->K && !by_codes(j); k += CHUNK) {
            int64_t n = min64(CHUNK, p->K - k);
            read_b(j, row, k, piece, n);
            j->c->k->dots(sums, piece, x + k, (size_t)p->K, (size_t)t->rows, (size_t)n);
        }
        for (int64_t r = 0; r < t->rows; r++) b->c[r * t->n + i] = sums[r];
    }
    for (int64_t r = 0; r < t->rows; r++) finish(j, t, b->c + r * t->n, r);
}

/* One panel against a band. */
static kiln_status add_panel(const call *j, const task *t, int64_t k0, const buffers *b, error *e)
{
    const product_plan *p = j->c->plan;
    int64_t wide = spread(p, t->n);
    for (int64_t r = 0, v; r < t->rows; r += p->height[v]) {
        v = t->rows - r >= p->height[0] ? 0 : 1;
        int64_t n = min64(p->height[v], t->rows - r);
        float *c = whole(p) ? b->c : b->c + r * wide;
        const void *a = load_a(j, t->a + r, n, p->direct ? n : p->height[v], k0, b->a);
        if (p->direct) {
            j->c->k->gemm((size_t)n, (size_t)wide, (size_t)min64(p->deep, p->K - k0), a, (size_t)p->deep, 1, b->panel,
                          (size_t)wide, c, (size_t)wide, k0 > 0);
        } else {
            TRY(gemm_run(p->gemms[v][t->variant], a, b->packed, NULL, k0 ? b->part : c, b->own, e));
            if (k0) j->c->k->add(c, b->part, (size_t)(n * t->n));
        }
        for (int64_t i = 0; whole(p) && i < n; i++) finish(j, t, c + i * wide, r + i);
    }
    return KILN_OK;
}

static kiln_status run_task(const call *j, const task *t, unsigned slot, error *e)
{
    const product_plan *p = j->c->plan;
    buffers b = buffers_at(j, slot);
    if (t->rows <= FEW && !p->columns) {
        few_rows(j, t, &b);
        return KILN_OK;
    }
    for (int64_t k = 0; k < p->K; k += p->deep) {
        TRY(pack_panel(j, t, k, &b, e));
        TRY(add_panel(j, t, k, &b, e));
    }
    for (int64_t r = 0; !whole(p) && r < t->rows; r++) finish(j, t, b.c + r * spread(p, t->n), r);
    return KILN_OK;
}

static task columns_at(const call *j, int64_t tile)
{
    const product_plan *p = j->c->plan;
    task t = {.first = tile * p->width, .width = min64(p->width, p->J - tile * p->width)};
    t.n = j->c->op.epilogue.geglu ? 2 * t.width : t.width;
    t.variant = t.width != p->width;
    return t;
}

/* Which matrix of an operand belongs to matrix `at` of the result: dimensions aligned at the end, 1 repeats. */
static int64_t matrix_of(const shape *out, const shape *in, int64_t at)
{
    int64_t place = 0, stride = 1;
    for (uint32_t i = 3; i <= in->rank; i++) {
        int64_t size = out->dim[out->rank - i], own = in->dim[in->rank - i];
        place += (own == 1 ? 0 : at % size) * stride;
        stride *= own, at /= size;
    }
    return place;
}

static kiln_status tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const product_plan *p = j->c->plan;
    const op_desc *op = &j->c->op;
    int64_t band = (int64_t)index % p->bands, rest = (int64_t)index / p->bands, matrix = rest / p->column_tiles;
    task t = columns_at(j, rest % p->column_tiles);
    t.rows = min64(p->band, p->I - band * p->band);
    t.a = t.out = band * p->band;
    if (op->kind == OP_MATMUL) {
        t.out += matrix * p->I;
        t.a += matrix_of(&op->out.shape, &op->in[0].shape, matrix) * p->I;
        t.b = matrix_of(&op->out.shape, &op->in[1].shape, matrix) * op->in[1].shape.dim[op->in[1].shape.rank - 2];
    }
    return run_task(j, &t, slot, e);
}

static kiln_status run(const cpu_kernel *c, const kernel_args *a, error *e)
{
    const product_plan *p = c->plan;
    call j = {c, a};
    return tiles_run(a->pool, (size_t)(p->matrices * p->column_tiles * p->bands), tile, &j, e);
}

/* ---- groups ---- */

static int32_t offset_at(const call *j, int64_t g) { return ((const int32_t *)j->a->in[3])[g]; }

kiln_status product_check_groups(const cpu_kernel *c, const kernel_args *a, error *e)
{
    const int32_t *offset = a->in[3], *taken = product_taken(&c->op, a);
    int64_t groups = c->op.in[1].shape.dim[0], rows = rows_of(&c->op.out), places = rows_of(&c->op.in[0]);
    for (int64_t g = 0; g <= groups; g++)
        if (offset[g] < (g ? offset[g - 1] : 0) || offset[g] > rows)
            return error_set(e, KILN_ERR_INVALID, "grouped_linear: offset %d of group %lld; they rise from 0 to %lld",
                             offset[g], (long long)g, (long long)rows);
    for (int64_t r = 0; taken && r < rows; r++)
        if (taken[r] < 0 || taken[r] >= places)
            return error_set(e, KILN_ERR_INVALID, "take: place %d is outside the %lld of its axis", taken[r],
                             (long long)places);
    return KILN_OK;
}

void product_clear_others(const cpu_kernel *c, const kernel_args *a)
{
    const int32_t *offset = a->in[3];
    const operand_desc *out = &c->op.out;
    int64_t groups = c->op.in[1].shape.dim[0], rows = rows_of(out);
    for (int64_t r = 0; r < rows; r++)
        if (r < offset[0] || r >= offset[groups])
            memset((char *)a->out + (size_t)(r * out->ld) * size_of(out->dtype), 0,
                   (size_t)columns_of(out) * size_of(out->dtype));
}

/* One group's rows, band after band; the last task clears the rows of none. */
static kiln_status group_tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const product_plan *p = j->c->plan;
    int64_t g = (int64_t)index / p->column_tiles, end = g < p->matrices ? offset_at(j, g + 1) : 0;
    task t = columns_at(j, (int64_t)index % p->column_tiles);
    t.b = t.bias = g * p->J;
    for (int64_t r = g < p->matrices ? offset_at(j, g) : end; r < end; r += p->band) {
        t.a = t.out = r, t.rows = min64(p->band, end - r);
        TRY(run_task(j, &t, slot, e));
    }
    if (g == p->matrices) product_clear_others(j->c, j->a);
    return KILN_OK;
}

static kiln_status run_groups(const cpu_kernel *c, const kernel_args *a, error *e)
{
    const product_plan *p = c->plan;
    call j = {c, a};
    TRY(product_check_groups(c, a, e));
    return tiles_run(a->pool, (size_t)(p->matrices * p->column_tiles) + 1, group_tile, &j, e);
}

/* ---- preparing ---- */

static void free_plan(void *plan)
{
    product_plan *p = plan;
    for (int i = 0; p && i < 4; i++) gemm_free(p->gemms[i / 2][i % 2]);
    mem_free(p);
}

/* Panels of about a megabyte; enough tasks that every thread has some. By shape alone. */
static void cut(product_plan *p, const op_desc *op)
{
    p->direct =
        p->columns ? p->type == KILN_F32 || p->I <= FEW || p->I * p->J * p->K < SMALL : p->I * p->J * p->K < SMALL;
    int64_t deep = p->direct ? DIRECT_DEEP : DEEP, wide = (1 << 18) / min64(p->K, deep) / 64 * 64;
    p->deep = min64(p->K, deep);
    p->width = p->direct ? 256 : wide < 128 ? 128 : wide > 512 ? 512 : wide;
    if (p->I <= FEW && !p->columns) p->width = 64;
    if (p->columns && p->b.coding) p->width = (int64_t)round_up((size_t)p->width, 256);
    p->width = min64(op->epilogue.geglu ? p->width / 2 : p->width, p->J);
    if (op->kind == OP_LINEAR && p->I > FEW) /* tasks by columns: each panel is widened once */
        p->width = min64(p->width, (int64_t)round_up((size_t)(p->J + 3) / 4, 64));
    p->column_tiles = (p->J + p->width - 1) / p->width;
    p->band = BAND;
    if (op->kind == OP_GROUPED_LINEAR) {
        p->height[0] = 64, p->height[1] = 16, p->bands = 1;
        return;
    }
    if (whole(p)) p->band = (int64_t)round_up((size_t)p->I, HEIGHT);
    if (p->matrices * p->column_tiles < 4) p->band = min64(p->band, (int64_t)round_up((size_t)(p->I + 3) / 4, 64));
    p->height[0] = min64(min64(HEIGHT, p->band), p->I);
    p->band = p->band / p->height[0] * p->height[0];
    p->height[1] = p->I % p->height[0] ? p->I % p->height[0] : p->height[0];
    p->bands = (p->I + p->band - 1) / p->band;
}

static kiln_status make_gemms(product_plan *p, const op_desc *op, error *e)
{
    int64_t last = p->J - (p->column_tiles - 1) * p->width, gates = op->epilogue.geglu ? 2 : 1;
    for (int i = 0; i < 4 && !p->direct; i++) {
        int64_t n = (i % 2 ? last : p->width) * gates;
        if (i % 2 && last == p->width) continue;
        gemm_shape s = {.type = p->type, .m = p->height[i / 2], .k = p->deep, .n = n};
        TRY(gemm_new(&s, i / 2 ? p->gemms[0][i % 2] : NULL, &p->gemms[i / 2][i % 2], e));
        if (i < 2 && into_blocks_panel(p)) block_panel_make(&p->panels[i], p->gemms[0][i], p->type, &p->b, 1);
    }
    return KILN_OK;
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

static void measure(cpu_kernel *c)
{
    product_plan *p = c->plan;
    int64_t n = spread(p, p->width * (c->op.epilogue.geglu ? 2 : 1));
    size_t own = 0, few = p->columns ? 0 : (size_t)(FEW * p->K);
    for (int i = 0; i < 4; i++)
        if (p->gemms[i / 2][i % 2]) {
            own = larger(own, gemm_scratch_bytes(p->gemms[i / 2][i % 2]));
            p->packed_bytes = larger(p->packed_bytes, round_up(gemm_weight_bytes(p->gemms[i / 2][i % 2]), 64));
        }
    p->a_bytes = round_up((size_t)(p->height[0] * p->deep) * sizeof(float), 64);
    p->panel_bytes = round_up(larger(into_blocks_panel(p) ? 0 : (size_t)(n * p->deep), few) * sizeof(float), 64);
    for (int i = 0; i < 2; i++)
        if (p->panels[i].to) p->panel_bytes = larger(p->panel_bytes, block_panel_scratch(&p->panels[i]));
    p->c_bytes = round_up((size_t)(((whole(p) ? 0 : p->band) + p->height[0]) * n) * sizeof(float), 64);
    p->part_bytes =
        round_up(larger((size_t)(p->height[0] * n), p->direct ? (size_t)(n * p->deep) : 0) * sizeof(float), 64);
    p->slot_bytes = p->a_bytes + p->panel_bytes + p->packed_bytes + p->c_bytes + p->part_bytes + round_up(own, 64);
    c->base.scratch_bytes = cpu_slots() * p->slot_bytes;
    c->base.flops = 2u * (uint64_t)(c->op.kind == OP_MATMUL ? p->matrices : 1) * (uint64_t)(p->I * p->J) *
                    (uint64_t)(p->K * (c->op.epilogue.geglu ? 2 : 1));
    c->base.name = p->direct ? "product:direct" : p->I <= FEW && !p->columns ? "product:dots" : "product:onednn";
}

static kiln_status prepare(cpu_kernel *c, const product_plan *sizes, error *e)
{
    if (!sizes->I || !sizes->J || !sizes->K || !sizes->matrices)
        return error_set(e, KILN_ERR_UNSUPPORTED, "%s: an operand without elements", op_name(c->op.kind));
    product_plan *p = mem_calloc(1, sizeof *p);
    if (!p) return error_set(e, KILN_ERR_NOMEM, "out of memory for a kernel");
    *p = *sizes;
    c->plan = p, c->plan_free = free_plan, c->body = c->op.kind == OP_GROUPED_LINEAR ? run_groups : run;
    if (c->op.kind != OP_MATMUL) {
        rows_keep(c, 1);
        p->b = rows_form(&c->op, 1);
    }
    cut(p, &c->op);
    p->type = p->direct ? (uint32_t)KILN_F32 : cpu_gemm_type(c->op.precision);
    if (p->I > FEW || p->columns) TRY(make_gemms(p, &c->op, e));
    measure(c);
    return KILN_OK;
}

kiln_status cpu_prepare_matmul(cpu_kernel *c, error *e)
{
    const shape *s = &c->op.out.shape;
    int64_t I = s->dim[s->rank - 2], J = s->dim[s->rank - 1];
    return prepare(c,
                   &(product_plan){.type = cpu_gemm_type(c->op.precision),
                                   .columns = !c->op.attr.matmul.transpose_b,
                                   .matrices = I && J ? shape_count(s) / I / J : 0,
                                   .I = I,
                                   .J = J,
                                   .K = columns_of(&c->op.in[0]),
                                   .b = {.block = 1}},
                   e);
}

kiln_status cpu_prepare_linear_transposed(cpu_kernel *c, error *e)
{
    return prepare(c,
                   &(product_plan){.type = cpu_gemm_type(c->op.precision),
                                   .columns = 1,
                                   .matrices = 1,
                                   .I = rows_of(&c->op.in[0]),
                                   .J = c->op.in[1].shape.dim[1],
                                   .K = c->op.in[1].shape.dim[0],
                                   .b = rows_form(&c->op, 1)},
                   e);
}

kiln_status cpu_prepare_linear_rows(cpu_kernel *c, error *e)
{
    if (int8_product_fits(&c->op)) return int8_product_prepare(c, e);
    return prepare(c,
                   &(product_plan){.type = cpu_gemm_type(c->op.precision),
                                   .matrices = 1,
                                   .I = rows_of(&c->op.in[0]),
                                   .J = columns_of(&c->op.out),
                                   .K = c->op.in[1].shape.dim[1],
                                   .b = rows_form(&c->op, 1)},
                   e);
}

kiln_status cpu_prepare_grouped_linear(cpu_kernel *c, error *e)
{
    const int64_t *w = c->op.in[1].shape.dim;
    if (int8_product_fits(&c->op)) return int8_product_prepare(c, e);
    return prepare(c,
                   &(product_plan){.type = cpu_gemm_type(c->op.precision),
                                   .matrices = w[0],
                                   .I = rows_of(&c->op.out),
                                   .J = w[1],
                                   .K = w[2],
                                   .b = rows_form(&c->op, 1)},
                   e);
}
