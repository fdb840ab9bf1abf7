/* lora_product.c - LoRA with a middle or with DoRA's norms, LoHa, LoKr, GLoRA; see lora_change.h. */
#include "lora_delta.h"

#include <string.h>

static size_t dim_of(const kiln_weight_factor *f, uint32_t i) { return i < f->rank ? (size_t)f->dim[i] : 1; }

/* All dimensions but the first. */
static size_t columns_of(const kiln_weight_factor *f)
{
    size_t n = 1;
    for (uint32_t i = 1; i < f->rank; i++) n *= (size_t)f->dim[i];
    return n;
}

static size_t count_of(const kiln_weight_factor *f) { return f->rank ? dim_of(f, 0) * columns_of(f) : 0; }

/* to [p, i K + k] = sum over q of t[p,q,k] * b[q,i], t [P,Q,K], b [Q,I]: a Tucker decomposition's core and one side. */
static void core_product(float *to, const kiln_weight_factor *t, const kiln_weight_factor *b)
{
    size_t kernel = columns_of(t) / dim_of(t, 1), inputs = columns_of(b), row = inputs * kernel;
    memset(to, 0, dim_of(t, 0) * row * sizeof *to);
    for (size_t p = 0; p < dim_of(t, 0); p++)
        for (size_t q = 0; q < dim_of(t, 1); q++) {
            const float *core = t->data + (p * dim_of(t, 1) + q) * kernel;
            for (size_t i = 0; i < inputs; i++)
                for (size_t k = 0; k < kernel; k++) to[p * row + i * kernel + k] += core[k] * b->data[q * inputs + i];
        }
}

static size_t core_count(const kiln_weight_factor *t, const kiln_weight_factor *b)
{
    return t->rank ? columns_of(t) / dim_of(t, 1) * dim_of(t, 0) * columns_of(b) : 0;
}

/* to [n,m] = f [m,n] turned over */
static void turn(float *to, const kiln_weight_factor *f)
{
    size_t rows = dim_of(f, 0), columns = columns_of(f);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++) to[j * rows + i] = f->data[i * columns + j];
}

/* Rows [row, row + rows) of a [.., inner] x b [inner, C] onto `to`. */
static void add_rows(const kiln_weight_call *c, float *to, const float *a, size_t inner, const float *b, size_t row,
                     size_t rows)
{
    c->add_product(&(kiln_weight_product){.to = to,
                                          .to_ld = c->columns,
                                          .a = a + row * inner,
                                          .b = b,
                                          .b_ld = c->columns,
                                          .rows = rows,
                                          .columns = c->columns,
                                          .inner = inner,
                                          .factor = 1});
}

/* ---- LoRA ---- */

enum { LORA_UP_AT = 1, LORA_DOWN_AT, LORA_MID_AT };

static size_t lora_prepared(const kiln_weight_call *c)
{
    return core_count(&c->factor[LORA_MID_AT], &c->factor[LORA_DOWN_AT]);
}

static void lora_prepare(const kiln_weight_call *c, float *to)
{
    core_product(to, &c->factor[LORA_MID_AT], &c->factor[LORA_DOWN_AT]);
}

static void lora_rows(const kiln_weight_call *c, const float *w, size_t row, size_t rows, float *to, float *scratch)
{
    const kiln_weight_factor *up = &c->factor[LORA_UP_AT];
    (void)w, (void)scratch;
    add_rows(c, to, up->data, columns_of(up), c->prepared ? c->prepared : c->factor[LORA_DOWN_AT].data, row, rows);
}

/* ---- LoHa ---- */

enum { W1_A = 1, W1_B, W2_A, W2_B, T1, T2 };

/* Of each side with a core: a turned over, the core times b. */
static size_t side_count(const kiln_weight_call *c, int a, int b, int t)
{
    return c->factor[t].rank ? count_of(&c->factor[a]) + core_count(&c->factor[t], &c->factor[b]) : 0;
}

static size_t loha_prepared(const kiln_weight_call *c)
{
    return side_count(c, W1_A, W1_B, T1) + side_count(c, W2_A, W2_B, T2);
}

static float *prepare_side(const kiln_weight_call *c, float *to, int a, int b, int t)
{
    turn(to, &c->factor[a]);
    core_product(to + count_of(&c->factor[a]), &c->factor[t], &c->factor[b]);
    return to + side_count(c, a, b, t);
}

static void loha_prepare(const kiln_weight_call *c, float *to)
{
    prepare_side(c, prepare_side(c, to, W1_A, W1_B, T1), W2_A, W2_B, T2);
}

static void loha_side(const kiln_weight_call *c, float *to, int second, size_t row, size_t rows)
{
    const kiln_weight_factor *a = &c->factor[second ? W2_A : W1_A], *b = &c->factor[second ? W2_B : W1_B];
    if (!c->prepared) {
        add_rows(c, to, a->data, columns_of(a), b->data, row, rows);
        return;
    }
    const float *side = c->prepared + (second ? side_count(c, W1_A, W1_B, T1) : 0);
    add_rows(c, to, side, dim_of(a, 0), side + count_of(a), row, rows);
}

static size_t loha_scratch(const kiln_weight_call *c) { return c->columns; }

static void loha_rows(const kiln_weight_call *c, const float *w, size_t row, size_t rows, float *to, float *scratch)
{
    size_t n = rows * c->columns;
    (void)w;
    memset(scratch, 0, n * sizeof *scratch);
    loha_side(c, to, 0, row, rows);
    loha_side(c, scratch, 1, row, rows);
    for (size_t i = 0; i < n; i++) to[i] *= scratch[i];
}

/* ---- LoKr ---- */

enum { K_W1 = 1, K_W1_A, K_W1_B, K_W2, K_W2_A, K_W2_B, K_T2 };

typedef struct {
    size_t a, b, c, d; /* w1 [a,b], w2 [c,d] */
    const float *w1, *w2;
} kronecker;

static kronecker kronecker_of(const kiln_weight_call *c)
{
    const kiln_weight_factor *f = c->factor;
    kronecker k = {.a = f[K_W1].rank ? dim_of(&f[K_W1], 0) : dim_of(&f[K_W1_A], 0),
                   .b = f[K_W1].rank ? columns_of(&f[K_W1]) : columns_of(&f[K_W1_B])};
    k.c = c->rows / k.a, k.d = c->columns / k.b;
    k.w1 = f[K_W1].rank ? f[K_W1].data : c->prepared;
    k.w2 = f[K_W2].rank ? f[K_W2].data : c->prepared ? c->prepared + (f[K_W1].rank ? 0 : k.a * k.b) : NULL;
    return k;
}

/* w1 and w2 where they are products, and what w2's core takes meanwhile. */
static size_t lokr_prepared(const kiln_weight_call *c)
{
    const kiln_weight_factor *f = c->factor;
    kronecker k = kronecker_of(c);
    size_t n = (f[K_W1].rank ? 0 : k.a * k.b) + (f[K_W2].rank ? 0 : k.c * k.d);
    return n + (f[K_T2].rank ? count_of(&f[K_W2_A]) + core_count(&f[K_T2], &f[K_W2_B]) : 0);
}

static void lokr_prepare(const kiln_weight_call *c, float *to)
{
    const kiln_weight_factor *f = c->factor;
    kronecker k = kronecker_of(c);
    memset(to, 0, lokr_prepared(c) * sizeof *to);
    if (!f[K_W1].rank) {
        c->add_product(&(kiln_weight_product){.to = to,
                                              .to_ld = k.b,
                                              .a = f[K_W1_A].data,
                                              .b = f[K_W1_B].data,
                                              .b_ld = k.b,
                                              .rows = k.a,
                                              .columns = k.b,
                                              .inner = columns_of(&f[K_W1_A]),
                                              .factor = 1});
        to += k.a * k.b;
    }
    if (f[K_W2].rank) return;
    const float *left = f[K_W2_A].data, *right = f[K_W2_B].data;
    size_t inner = columns_of(&f[K_W2_A]);
    if (f[K_T2].rank) {
        float *turned = to + k.c * k.d, *core = turned + count_of(&f[K_W2_A]);
        turn(turned, &f[K_W2_A]);
        core_product(core, &f[K_T2], &f[K_W2_B]);
        left = turned, right = core, inner = dim_of(&f[K_W2_A], 0);
    }
    c->add_product(&(kiln_weight_product){.to = to,
                                          .to_ld = k.d,
                                          .a = left,
                                          .b = right,
                                          .b_ld = k.d,
                                          .rows = k.c,
                                          .columns = k.d,
                                          .inner = inner,
                                          .factor = 1});
}

static void lokr_rows(const kiln_weight_call *c, const float *w, size_t row, size_t rows, float *to, float *scratch)
{
    kronecker k = kronecker_of(c);
    (void)w, (void)scratch;
    for (size_t i = 0; i < rows; i++, to += c->columns) {
        const float *first = k.w1 + (row + i) / k.c * k.b, *second = k.w2 + (row + i) % k.c * k.d;
        for (size_t j = 0; j < k.b; j++)
            for (size_t x = 0; x < k.d; x++) to[j * k.d + x] = first[j] * second[x];
    }
}

/* ---- GLoRA ---- */

enum { G_FIRST = 1, G_SECOND, G_LEFT, G_RIGHT, OF_WHOLE_ROWS = 0 };

static size_t glora_inputs(const kiln_weight_call *c)
{
    return c->option[OF_WHOLE_ROWS] > 0 || c->rank < 2 ? c->columns : (size_t)c->dim[1];
}

static size_t glora_scratch(const kiln_weight_call *c)
{
    return 2 * c->columns + c->columns / glora_inputs(c) * columns_of(&c->factor[G_FIRST]);
}

/* One row, as K rows of I: turned over, through both factors, and back. */
static void glora_row(const kiln_weight_call *c, const float *w, float *to, float *scratch)
{
    size_t inputs = glora_inputs(c), kernel = c->columns / inputs, r = columns_of(&c->factor[G_FIRST]);
    float *turned = scratch, *after = turned + c->columns, *between = after + c->columns;
    for (size_t i = 0; i < inputs; i++)
        for (size_t k = 0; k < kernel; k++) turned[k * inputs + i] = w[i * kernel + k];
    memset(after, 0, (c->columns + kernel * r) * sizeof *after);
    c->add_product(&(kiln_weight_product){.to = between,
                                          .to_ld = r,
                                          .a = turned,
                                          .b = c->factor[G_FIRST].data,
                                          .b_ld = r,
                                          .rows = kernel,
                                          .columns = r,
                                          .inner = inputs,
                                          .factor = 1});
    c->add_product(&(kiln_weight_product){.to = after,
                                          .to_ld = inputs,
                                          .a = between,
                                          .b = c->factor[G_SECOND].data,
                                          .b_ld = inputs,
                                          .rows = kernel,
                                          .columns = inputs,
                                          .inner = r,
                                          .factor = 1});
    for (size_t i = 0; i < inputs; i++)
        for (size_t k = 0; k < kernel; k++) to[i * kernel + k] += after[k * inputs + i];
}

static void glora_rows(const kiln_weight_call *c, const float *w, size_t row, size_t rows, float *to, float *scratch)
{
    size_t inputs = glora_inputs(c), r = columns_of(&c->factor[G_FIRST]), left = columns_of(&c->factor[G_LEFT]);
    if (inputs == c->columns) {
        memset(scratch, 0, rows * r * sizeof *scratch);
        c->add_product(&(kiln_weight_product){.to = scratch,
                                              .to_ld = r,
                                              .a = w,
                                              .b = c->factor[G_FIRST].data,
                                              .b_ld = r,
                                              .rows = rows,
                                              .columns = r,
                                              .inner = inputs,
                                              .factor = 1});
        c->add_product(&(kiln_weight_product){.to = to,
                                              .to_ld = inputs,
                                              .a = scratch,
                                              .b = c->factor[G_SECOND].data,
                                              .b_ld = inputs,
                                              .rows = rows,
                                              .columns = inputs,
                                              .inner = r,
                                              .factor = 1});
    } else {
        for (size_t i = 0; i < rows; i++) glora_row(c, w + i * c->columns, to + i * c->columns, scratch);
    }
    add_rows(c, to, c->factor[G_LEFT].data, left, c->factor[G_RIGHT].data, row, rows);
}

/* ---- the tables ---- */

#define CHANGE(name_, text, scratch_, ...)                                                                             \
    static const delta_kind name_##_delta = {.delta = name_##_rows, .scratch = scratch_};                              \
    static size_t name_##_block(const kiln_weight_call *c, size_t rows)                                                \
    {                                                                                                                  \
        return delta_scratch(c, &name_##_delta, rows);                                                                 \
    }                                                                                                                  \
    static void name_##_apply(const kiln_weight_call *c, float *w, size_t row, size_t rows, float *scratch)            \
    {                                                                                                                  \
        delta_apply(c, &name_##_delta, w, row, rows, scratch);                                                         \
    }                                                                                                                  \
    const kiln_weight_change name_##_change = {.size = sizeof(kiln_weight_change),                                     \
                                               .revision = 1,                                                          \
                                               .name = text,                                                           \
                                               .rows = delta_rows,                                                     \
                                               .scratch = name_##_block,                                               \
                                               .apply = name_##_apply,                                                 \
                                               __VA_ARGS__}

CHANGE(lora, "lora", NULL, .prepared = lora_prepared, .prepare = lora_prepare);
CHANGE(loha, "loha", loha_scratch, .prepared = loha_prepared, .prepare = loha_prepare);
CHANGE(lokr, "lokr", NULL, .prepared = lokr_prepared, .prepare = lokr_prepare);
CHANGE(glora, "glora", glora_scratch, .prepared = NULL);
