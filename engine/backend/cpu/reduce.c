/* reduce.c - OP_REDUCE over any axes. Dimensions before the last are split into those that stay and those that go. When
 * the last one goes, a result is a line of rows' numbers; when it stays, a row of results is rows folded column by
 * column. Long lines and columns are cut into pieces by shape alone, whose parts are joined in order, in double.
 */
#include "backend/cpu/cpu.h"

#include "base/memory_alloc.h"

#include <math.h>
#include <string.h>

enum {
    CHUNK = 1024,
    LONG_CHUNK = 4096,
    BLOCK = 8,
    PIECE_ROWS = 256,
    JOINED = 256,
    MOST_PIECES = 64,
    MOST_ROWS = 1 << 20, /* whose number is exact in f32 */
    PIECE_ELEMENTS = 1 << 17,
    TILE_ELEMENTS = 1 << 16
};

/* What a part of a line or column came to: the sum (product, ..), or the greatest; beside it a sum of exponentials, or
 * a place. */
typedef struct {
    double value, beside;
} part;

typedef struct {
    uint32_t kind, n_stay, n_go; /* dimensions before the last, outermost first */
    int64_t stay[KILN_MAX_RANK], stay_step[KILN_MAX_RANK], go[KILN_MAX_RANK], go_step[KILN_MAX_RANK]; /* in rows */
    int64_t kept, gone, columns; /* rows that stay, that go into each of them */
    int line;                    /* 1: the last dimension goes */
    int64_t pieces, per_piece, per_tile;
} plan;

typedef struct {
    const cpu_kernel *c;
    const kernel_args *a;
    const plan *p;
    part *parts; /* [kept][pieces], or [kept][pieces][columns] */
} call;

static int64_t row_at(const int64_t *dim, const int64_t *step, uint32_t n, int64_t i)
{
    int64_t row = 0;
    for (uint32_t d = n; d-- > 1; i /= dim[d]) row += i % dim[d] * step[d]; /* a division takes as long as a line */
    return n ? row + i * step[0] : 0;
}
static int64_t operand_row(const plan *p, int64_t kept, int64_t gone)
{
    return row_at(p->stay, p->stay_step, p->n_stay, kept) + row_at(p->go, p->go_step, p->n_go, gone);
}

static const void *numbers(const call *j, int64_t row, int64_t column)
{
    return place_of(&j->c->op.in[0], j->a->in[0], row, column);
}

/* n of them as floats, where they are or in `room`. */
static const float *floats(const call *j, const void *x, int64_t n, float *room)
{
    uint32_t type = type_of(&j->c->op.in[0]);
    if (type == KILN_F32) return x;
    j->c->k->load(room, x, type, (size_t)n);
    return room;
}

/* ---- parts ---- */

static int is_place(uint32_t kind) { return kind >= KILN_REDUCE_ARGMAX; }

static part start_of(uint32_t kind)
{
    int least = kind == KILN_REDUCE_MIN || kind == KILN_REDUCE_ARGMIN;
    if (kind == KILN_REDUCE_PROD) return (part){1, 0};
    if (kind < KILN_REDUCE_MAX || kind == KILN_REDUCE_L2) return (part){0, 0};
    return (part){least ? (double)INFINITY : -(double)INFINITY, 0};
}

static double finite_or_0(double v) { return isinf(v) ? 0 : v; }

static int is_better(uint32_t kind, double x, double best)
{
    int least = kind == KILN_REDUCE_MIN || kind == KILN_REDUCE_ARGMIN;
    return !isnan(best) && (isnan(x) || (least ? x < best : x > best));
}

static void join(uint32_t kind, part *p, part with)
{
    switch (kind) {
    case KILN_REDUCE_PROD: p->value *= with.value; break;
    case KILN_REDUCE_MAX:
    case KILN_REDUCE_MIN:
    case KILN_REDUCE_ARGMAX:
    case KILN_REDUCE_ARGMIN:
        if (is_better(kind, with.value, p->value)) *p = with;
        break;
    case KILN_REDUCE_LOGSUMEXP: {
        double top = is_better(KILN_REDUCE_MAX, with.value, p->value) ? with.value : p->value, base = finite_or_0(top);
        double own = p->beside == 0 || p->value == base ? p->beside : p->beside * exp(p->value - base); /* also NaN */
        double more = with.beside == 0 || with.value == base ? with.beside : with.beside * exp(with.value - base);
        *p = (part){top, own + more};
        break;
    }
    default: p->value += with.value; break;
    }
}

static double finished(uint32_t kind, part p, double n)
{
    switch (kind) {
    case KILN_REDUCE_MEAN: return p.value / n;
    case KILN_REDUCE_L2: return sqrt(p.value);
    case KILN_REDUCE_LOGSUMEXP: return isfinite(p.value) || isnan(p.beside) ? p.value + log(p.beside) : p.value;
    case KILN_REDUCE_ARGMAX:
    case KILN_REDUCE_ARGMIN: return p.beside;
    default: return p.value;
    }
}

/* ---- results ---- */

static void store_run(const call *j, char *to, const part *p, int64_t n)
{
    const operand_desc *out = &j->c->op.out;
    double count = (double)(j->p->gone * (j->p->line ? j->p->columns : 1));
    float real[CHUNK];
    for (int64_t i = 0; i < n && out->dtype != KILN_I32; i++) real[i] = (float)finished(j->p->kind, p[i], count);
    if (out->dtype != KILN_I32) j->c->k->store(to, out->dtype, real, (size_t)n);
    for (int64_t i = 0; i < n && out->dtype == KILN_I32; i++)
        ((int32_t *)(void *)to)[i] = (int32_t)finished(j->p->kind, p[i], count);
}

/* n results from number `first` on, up to CHUNK. */
static void store_results(const call *j, int64_t first, const part *p, int64_t n)
{
    const operand_desc *out = &j->c->op.out;
    int64_t C = columns_of(out);
    for (int64_t done = 0, now; done < n; done += now) {
        int64_t row = (first + done) / C, column = (first + done) % C;
        now = min64(n - done, C - column);
        store_run(j, (char *)j->a->out + (size_t)(row * out->ld + column) * size_of(out->dtype), p + done, now);
    }
}

/* ---- lines ---- */

/* n numbers, the first of which is number `at` of the line, go into *p. A place is looked for only where it counts. */
static void line_part(const call *j, part *p, const void *x, int64_t at, size_t n)
{
    uint32_t kind = j->p->kind, type = type_of(&j->c->op.in[0]);
    const cpu_kernels *k = j->c->k;
    float room[CHUNK], exps[CHUNK];
    if (kind == KILN_REDUCE_LOGSUMEXP) {
        float top = k->fold_row_stored(KILN_REDUCE_MAX, x, type, n);
        if (isinf(top))
            join(kind, p, (part){(double)top, 0});
        else if (type == KILN_BF16)
            join(kind, p, (part){(double)top, (double)k->exp_half(NULL, x, top, n)});
        else
            join(kind, p, (part){(double)top, (double)k->exp_row(exps, floats(j, x, (int64_t)n, room), top, n)});
    } else if (is_place(kind)) {
        float best = k->fold_row_stored(kind == KILN_REDUCE_ARGMAX ? KILN_REDUCE_MAX : KILN_REDUCE_MIN, x, type, n);
        if (at == 0 || is_better(kind, (double)best, p->value))
            *p = (part){(double)best, (double)at + (double)k->find(floats(j, x, (int64_t)n, room), best, n)};
    } else {
        uint32_t sum = kind == KILN_REDUCE_MEAN ? KILN_REDUCE_SUM : kind;
        join(kind, p, (part){(double)k->fold_row_stored(sum, x, type, n), 0});
    }
}

/* Does line_part() need no room for floats? */
static int reads_stored(const call *j)
{
    return j->p->kind == KILN_REDUCE_LOGSUMEXP && type_of(&j->c->op.in[0]) == KILN_BF16;
}

/* Elements [first, last) of line `kept`. */
static part line_piece(const call *j, int64_t kept, int64_t first, int64_t last)
{
    part p = start_of(j->p->kind);
    int64_t C = j->p->columns;
    for (int64_t i = first; i < last;) {
        int64_t column = i % C, n = min64(min64(reads_stored(j) ? LONG_CHUNK : CHUNK, C - column), last - i);
        line_part(j, &p, numbers(j, operand_row(j->p, kept, i / C), column), i, (size_t)n);
        i += n;
    }
    return p;
}

static kiln_status line_tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const plan *p = j->p;
    int64_t length = p->gone * p->columns, last = min64(p->kept * p->pieces, ((int64_t)index + 1) * p->per_tile);
    (void)slot, (void)e;
    for (int64_t i = (int64_t)index * p->per_tile, n; i < last; i += n) {
        part own[JOINED]; /* lines are short here: their results are stored together */
        n = min64(JOINED, last - i);
        for (int64_t k = 0; k < n; k++) {
            int64_t kept = (i + k) / p->pieces, first = (i + k) % p->pieces * p->per_piece;
            own[k] = line_piece(j, kept, first, min64(length, first + p->per_piece));
        }
        if (p->pieces > 1)
            memcpy(j->parts + i, own, (size_t)n * sizeof *own);
        else
            store_results(j, i, own, n);
    }
    return KILN_OK;
}

/* ---- columns ---- */

static void column_rows(const call *j, float *value, float *beside, const void *const *x, size_t rows, int64_t at,
                        size_t n)
{
    uint32_t kind = j->p->kind, type = type_of(&j->c->op.in[0]);
    const cpu_kernels *k = j->c->k;
    if (kind == KILN_REDUCE_LOGSUMEXP)
        k->fold_exp_stored(value, beside, x, rows, type, n);
    else if (is_place(kind))
        k->fold_place_stored(kind == KILN_REDUCE_ARGMIN, value, beside, x, rows, type, (float)at, n);
    else
        k->fold_stored(kind == KILN_REDUCE_MEAN ? KILN_REDUCE_SUM : kind, value, x, rows, type, n);
}

/* Rows [first, last) that go into row `kept`, columns [column, column + n), n up to CHUNK. */
static void fold_columns(const call *j, int64_t kept, int64_t first, int64_t last, int64_t column, int64_t n,
                         float *value, float *beside)
{
    const void *x[2 * BLOCK];
    part start = start_of(j->p->kind);
    int64_t most = j->p->kind == KILN_REDUCE_LOGSUMEXP ? 2 * BLOCK : BLOCK;
    for (int64_t i = 0; i < n; i++) value[i] = (float)start.value;
    for (int64_t r = first, now; r < last; r += now) {
        now = last - r >= most ? most : min64(BLOCK, last - r);
        for (int64_t i = 0; i < now; i++) x[i] = numbers(j, operand_row(j->p, kept, r + i), column);
        column_rows(j, value, beside, x, (size_t)now, r - first, (size_t)n);
    }
}

/* Is what a column was folded to its result, in one piece? */
static int is_finished(const call *j)
{
    uint32_t kind = j->p->kind;
    return j->p->pieces == 1 && j->c->op.out.dtype != KILN_I32 &&
           (kind == KILN_REDUCE_SUM || kind == KILN_REDUCE_PROD || kind == KILN_REDUCE_MAX || kind == KILN_REDUCE_MIN);
}

static void column_piece(const call *j, int64_t kept, int64_t first, int64_t last, int64_t column, int64_t n, part *to)
{
    float value[CHUNK], beside[CHUNK] = {0};
    fold_columns(j, kept, first, last, column, n, value, beside);
    for (int64_t i = 0; i < n; i++)
        to[i] = (part){(double)value[i], (double)beside[i] + (is_place(j->p->kind) ? (double)first : 0)};
}

static void column_results(const call *j, int64_t kept, int64_t column, int64_t n)
{
    const operand_desc *out = &j->c->op.out;
    float value[CHUNK];
    fold_columns(j, kept, 0, j->p->gone, column, n, value, NULL);
    j->c->k->store((char *)j->a->out + (size_t)(kept * out->ld + column) * size_of(out->dtype), out->dtype, value,
                   (size_t)n);
}

static kiln_status column_tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const plan *p = j->p;
    int64_t strips = (p->columns + CHUNK - 1) / CHUNK,
            last = min64(p->kept * p->pieces * strips, ((int64_t)index + 1) * p->per_tile);
    part own[CHUNK];
    (void)slot, (void)e;
    for (int64_t i = (int64_t)index * p->per_tile; i < last; i++) {
        int64_t column = i % strips * CHUNK, n = min64(CHUNK, p->columns - column), piece = i / strips;
        int64_t kept = piece / p->pieces, first = piece % p->pieces * p->per_piece;
        part *to = p->pieces > 1 ? j->parts + piece * p->columns + column : own;
        if (is_finished(j)) {
            column_results(j, kept, column, n);
            continue;
        }
        column_piece(j, kept, first, min64(p->gone, first + p->per_piece), column, n, to);
        if (p->pieces == 1) store_results(j, kept * p->columns + column, own, n);
    }
    return KILN_OK;
}

/* ---- parts become results ---- */

static int64_t join_strips(const plan *p) { return p->line ? 1 : (p->columns + JOINED - 1) / JOINED; }

/* Some results, piece after piece. */
static kiln_status join_tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const plan *p = j->p;
    int64_t width = p->line ? 1 : p->columns, kept = (int64_t)index / join_strips(p),
            first = (int64_t)index % join_strips(p) * JOINED, n = min64(JOINED, width - first);
    part all[JOINED];
    (void)slot, (void)e;
    for (int64_t c = 0; c < n; c++) all[c] = start_of(p->kind);
    for (int64_t k = 0; k < p->pieces; k++)
        for (int64_t c = 0; c < n; c++) join(p->kind, &all[c], j->parts[(kept * p->pieces + k) * width + first + c]);
    store_results(j, kept * width + first, all, n);
    return KILN_OK;
}

/* ---- whole numbers: exact, sums and products modulo 2^32 ---- */

static int32_t whole_at(const call *j, int64_t row, int64_t column)
{
    int32_t v;
    memcpy(&v, place_of(&j->c->op.in[0], j->a->in[0], row, column), sizeof v);
    return v;
}

static void whole_result(const call *j, int64_t result)
{
    const plan *p = j->p;
    uint32_t wrapped = p->kind == KILN_REDUCE_PROD, exact = p->kind == KILN_REDUCE_SUM || p->kind == KILN_REDUCE_PROD;
    int64_t kept = p->line ? result : result / p->columns, n = p->gone * (p->line ? p->columns : 1);
    part all = start_of(p->kind);
    for (int64_t i = 0; i < n; i++) {
        int32_t v = p->line ? whole_at(j, operand_row(p, kept, i / p->columns), i % p->columns)
                            : whole_at(j, operand_row(p, kept, i), result % p->columns);
        double x = (double)v;
        if (exact)
            wrapped = p->kind == KILN_REDUCE_SUM ? wrapped + (uint32_t)v : wrapped * (uint32_t)v;
        else if (p->kind == KILN_REDUCE_LOGSUMEXP)
            join(p->kind, &all, (part){x, 1});
        else
            join(p->kind, &all, (part){p->kind == KILN_REDUCE_L2 ? x * x : x, (double)i});
    }
    if (exact) all.value = (double)(int32_t)wrapped;
    store_results(j, result, &all, 1);
}

static kiln_status whole_tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    int64_t results = j->p->kept * (j->p->line ? 1 : j->p->columns);
    (void)slot, (void)e;
    for (int64_t i = (int64_t)index * CHUNK; i < min64(results, ((int64_t)index + 1) * CHUNK); i++) whole_result(j, i);
    return KILN_OK;
}

/* ---- the kernel ---- */

static kiln_status run(const cpu_kernel *c, const kernel_args *a, error *e)
{
    const plan *p = c->plan;
    call j = {.c = c, .a = a, .p = p, .parts = a->scratch};
    int64_t items = p->kept * p->pieces * (p->line ? 1 : (p->columns + CHUNK - 1) / CHUNK);
    if (c->op.in[0].dtype == KILN_I32) {
        int64_t results = shape_count(&c->op.out.shape);
        return tiles_run(a->pool, (size_t)((results + CHUNK - 1) / CHUNK), whole_tile, &j, e);
    }
    TRY(tiles_run(a->pool, (size_t)((items + p->per_tile - 1) / p->per_tile), p->line ? line_tile : column_tile, &j,
                  e));
    if (p->pieces == 1) return KILN_OK;
    return tiles_run(a->pool, (size_t)(p->kept * join_strips(p)), join_tile, &j, e);
}

static void add_dimension(int64_t *dim, int64_t *step, uint32_t *n, int64_t size, int64_t rows, int next_to)
{
    if (next_to && *n) { /* it and the one outside it are one */
        dim[*n - 1] *= size;
        step[*n - 1] = rows;
        return;
    }
    dim[*n] = size;
    step[(*n)++] = rows;
}

static void lay_out(plan *p, const shape *s, uint32_t axes)
{
    int64_t rows = 1;
    p->kept = p->gone = 1;
    p->columns = s->dim[s->rank - 1];
    p->line = axes >> (s->rank - 1) & 1;
    for (uint32_t d = 0; d + 1 < s->rank; d++) rows *= s->dim[d];
    for (uint32_t d = 0; d + 1 < s->rank; d++) {
        int goes = axes >> d & 1, same = d && (axes >> (d - 1) & 1) == (uint32_t)goes;
        rows = s->dim[d] ? rows / s->dim[d] : 0;
        if (goes)
            add_dimension(p->go, p->go_step, &p->n_go, s->dim[d], rows, same), p->gone *= s->dim[d];
        else
            add_dimension(p->stay, p->stay_step, &p->n_stay, s->dim[d], rows, same), p->kept *= s->dim[d];
    }
}

/* Of columns. A sum in f32 is to be short; joining exponentials takes long. */
static int64_t rows_of_piece(const plan *p)
{
    int64_t even = (int64_t)round_up((size_t)((p->gone + MOST_PIECES - 1) / MOST_PIECES), BLOCK);
    int sums = p->kind != KILN_REDUCE_LOGSUMEXP && p->kind != KILN_REDUCE_MAX && p->kind != KILN_REDUCE_MIN &&
               !is_place(p->kind);
    return sums || even < PIECE_ROWS ? PIECE_ROWS : min64(even, MOST_ROWS);
}

kiln_status cpu_prepare_reduce(cpu_kernel *c, error *e)
{
    const op_desc *op = &c->op;
    plan *p = mem_calloc(1, sizeof *p);
    if (!p) return error_set(e, KILN_ERR_NOMEM, "out of memory for a kernel");
    c->plan = p, c->plan_free = mem_free, c->body = run;
    p->kind = op->attr.reduce.kind;
    lay_out(p, &op->in[0].shape, op->attr.reduce.axes);
    int64_t length = p->line ? p->gone * p->columns : p->gone, width = p->line ? 1 : p->columns;
    p->per_piece = p->line ? PIECE_ELEMENTS : rows_of_piece(p);
    p->pieces = length ? (length + p->per_piece - 1) / p->per_piece : 1;
    int64_t each = min64(length, p->per_piece) * (p->line ? 1 : min64(CHUNK, p->columns));
    p->per_tile = each >= TILE_ELEMENTS || !each ? 1 : TILE_ELEMENTS / each;
    if (p->pieces > 1) c->base.scratch_bytes = (size_t)(p->kept * p->pieces * width) * sizeof(part);
    c->base.flops = (uint64_t)shape_count(&op->in[0].shape);
    return KILN_OK;
}
