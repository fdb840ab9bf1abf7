/* lora_module.c - see lora_module.h. Which tensors a kind has, their shapes, alpha, and the form of a DoRA's norms. */
#include "lora_module.h"

#include "kiln/kit.h"
#include "lora_change.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NONE = LORA_FACTORS, UP_AT = LORA_FACTORS + 1, DOWN_AT };

#define FAIL(m, status, ...) (m)->host->fail((m)->ctx, status, __VA_ARGS__)

/* ---- what the file has ---- */

/* A tensor of the module: its name, NULL when the file has none, and its shape. */
typedef struct {
    const char *name;
    uint32_t rank;
    int64_t first, rest; /* dimension 0; the product of the others */
    int64_t dim[2];
    int64_t inner; /* the product of dimensions 2 and on */
} tensor;

static int has(const lora_module *m, const char *name, kiln_weight_info *info)
{
    *info = (kiln_weight_info){.size = sizeof *info};
    return m->w->find(m->file, name, info) == KILN_OK;
}

static tensor tensor_named(const lora_module *m, const char *name)
{
    kiln_weight_info info;
    tensor t = {.first = 1, .rest = 1, .dim = {1, 1}, .inner = 1};
    if (!has(m, name, &info)) return (tensor){0};
    t.name = info.name, t.rank = info.rank; /* the set's own copy of the name */
    for (uint32_t i = 0; i < info.rank; i++) {
        if (i < 2) t.dim[i] = info.dim[i];
        if (i > 1) t.inner *= info.dim[i];
        if (i > 0)
            t.rest *= info.dim[i];
        else
            t.first = info.dim[0];
    }
    return t;
}

static tensor tensor_with(const lora_module *m, const char *suffix)
{
    char name[LORA_NAME_CAPACITY];
    return lora_key_with(m->key, m->k, suffix, name) ? tensor_named(m, name) : (tensor){0};
}

static tensor part(const lora_module *m, lora_factor f) { return tensor_with(m, lora_factor_suffix(f)); }

static const char *name_with(const lora_module *m, const char *suffix, char out[LORA_NAME_CAPACITY])
{
    return lora_key_with(m->key, m->k, suffix, out) ? out : m->key;
}

static kiln_status missing(const lora_module *m, const char *key, const char *suffix)
{
    char other[LORA_NAME_CAPACITY];
    return FAIL(m, KILN_ERR_INVALID, "%s: '%.200s' is half of a pair; '%.200s' is missing", m->path, key,
                name_with(m, suffix, other));
}

/* All of those the file must have, by their suffixes; [n]. */
static kiln_status need(const lora_module *m, const lora_factor *f, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!part(m, f[i]).name) return missing(m, m->key, lora_factor_suffix(f[i]));
    return KILN_OK;
}

/* ---- the weight ---- */

typedef struct {
    tensor t;
    int64_t rows, columns, inputs, kernel;
    char name[LORA_NAME_CAPACITY + 16];
} target;

static kiln_status find_target(const lora_module *m, const char *end, target *out)
{
    kiln_weight_info info = {.size = sizeof info};
    snprintf(out->name, sizeof out->name, "%s.%s", m->module, end);
    if (m->w->find(m->set, out->name, &info) != KILN_OK || info.rank < 1)
        return FAIL(m, KILN_ERR_INVALID, "%s: '%.200s' is for '%.200s', which the model has not", m->path, m->key,
                    out->name);
    out->rows = info.dim[0], out->inputs = info.rank > 1 ? info.dim[1] : 1, out->kernel = 1;
    for (uint32_t i = 2; i < info.rank; i++) out->kernel *= info.dim[i];
    out->columns = out->inputs * out->kernel;
    return KILN_OK;
}

static kiln_status does_not_fit(const lora_module *m, const tensor *t, const target *to, const char *wanted)
{
    return FAIL(m, KILN_ERR_INVALID, "%s: tensor '%.200s' [%lld, %lld] does not fit '%.200s' [%lld,%lld x %lld]: %s",
                m->path, t->name, (long long)t->first, (long long)t->rest, to->name, (long long)to->rows,
                (long long)to->inputs, (long long)to->kernel, wanted);
}

/* ---- alpha ---- */

/* A tensor of one element: an alpha or a switch, which LyCORIS also writes as an integer. */
static kiln_status read_number(const lora_module *m, const kiln_weight_info *info, const char *what, double *out)
{
    float f = 0;
    for (uint32_t i = 0; i < info->rank; i++)
        if (info->dim[i] != 1)
            return FAIL(m, KILN_ERR_INVALID, "%s: '%.300s' has %u dimensions; %s is one number", m->path, info->name,
                        info->rank, what);
    if (info->dtype == KILN_I64 || info->dtype == KILN_I32) {
        const void *bytes = m->w->map(m->ctx, m->file, info->name);
        int64_t wide = 0;
        int32_t narrow = 0;
        if (!bytes) return KILN_ERR_INVALID;
        memcpy(info->dtype == KILN_I64 ? (void *)&wide : (void *)&narrow, bytes, info->bytes);
        *out = (double)(wide + narrow);
        return KILN_OK;
    }
    TRY(m->w->read_f32(m->ctx, m->file, info->name, &f));
    if (!isfinite(f)) return FAIL(m, KILN_ERR_INVALID, "%s: '%.300s' is not a finite number", m->path, info->name);
    *out = (double)f;
    return KILN_OK;
}

static kiln_status scale_of(const lora_module *m, int64_t rank, double *out)
{
    char name[LORA_NAME_CAPACITY];
    kiln_weight_info info;
    double alpha = 0;
    *out = m->alpha > 0 && rank > 0 ? m->alpha / (m->root ? sqrt((double)rank) : (double)rank) : 1;
    if (!lora_key_with(m->key, m->k, ".alpha", name) || !has(m, name, &info)) return KILN_OK;
    TRY(read_number(m, &info, "an alpha", &alpha));
    if (rank > 0) *out = alpha / (double)rank;
    return KILN_OK;
}

/* ---- the norms of a DoRA ---- */

static tensor norms_of(const lora_module *m, unsigned *form)
{
    tensor t = {0};
    const char *suffix;
    for (*form = 0; !t.name && (suffix = lora_dora_suffix(*form)); ++*form) t = tensor_with(m, suffix);
    --*form;
    return t;
}

/* One for each row where there are so many of them, as ComfyUI decides it, and always in peft's names, whose
 * convolutions have them as [1,O,1,1]; else one for each input. */
static kiln_status dora_axis(const lora_module *m, const target *to, const tensor *norms, unsigned form, double *axis)
{
    *axis = DORA_NONE;
    if (!norms->name) return KILN_OK;
    int64_t n = norms->first * norms->rest;
    if (n == to->rows && (form > 0 || norms->first == to->rows))
        *axis = DORA_ROWS;
    else if (form == 0 && norms->first == 1 && n == to->inputs)
        *axis = DORA_COLUMNS;
    else
        return does_not_fit(m, norms, to, "a DoRA has one norm for each output, or for each input");
    return KILN_OK;
}

static kiln_status no_dora(const lora_module *m, const char *what)
{
    unsigned form;
    tensor t = norms_of(m, &form);
    if (!t.name) return KILN_OK;
    return FAIL(m, KILN_ERR_UNSUPPORTED, "%s: '%.300s' makes a DoRA of %s, which nobody has defined", m->path, t.name,
                what);
}

/* ---- the kinds ---- */

/* A patch by one of lora_change.h's tables, filled as its tensors are found. */
typedef struct {
    const kiln_weight_change *change;
    tensor factor[FACTORS_MAX];
    uint32_t n;
    double scale, option[3];
} making;

static kiln_status add_alpha_and_dora(const lora_module *m, const target *to, int64_t rank, making *x)
{
    unsigned form;
    x->factor[FACTOR_DORA] = norms_of(m, &form);
    TRY(dora_axis(m, to, &x->factor[FACTOR_DORA], form, &x->option[DORA_AXIS]));
    return scale_of(m, rank, &x->scale);
}

static kiln_status make_lora(const lora_module *m, const target *to, making *x)
{
    char down_name[LORA_NAME_CAPACITY] = "";
    tensor up = tensor_named(m, m->key), down = {0}, mid = part(m, LORA_MID);
    if (lora_key_other(m->key, m->k, LORA_DOWN, m->k->pair, down_name)) down = tensor_named(m, down_name);
    if (!down.name)
        return FAIL(m, KILN_ERR_INVALID, "%s: '%.200s' is half of a pair; '%.200s' is missing", m->path, m->key,
                    down_name);
    *x = (making){.change = &lora_change, .factor = {[1] = up, [2] = down, [3] = mid}, .n = 4};
    TRY(add_alpha_and_dora(m, to, down.rank ? down.first : 0, x));
    if (!mid.name && !x->factor[FACTOR_DORA].name) return KILN_OK; /* a plain sum, which the engine checks itself */
    if (up.first != to->rows || up.rest < 1) return does_not_fit(m, &up, to, "up has a row for each output");
    if (mid.name && (mid.rank < 2 || mid.dim[0] != up.rest || mid.dim[1] != down.first || mid.inner != to->kernel))
        return does_not_fit(m, &mid, to, "mid leads from down to up");
    if (down.rest != (mid.name ? to->inputs : to->columns) || (!mid.name && down.first != up.rest))
        return does_not_fit(m, &down, to, "down leads from the inputs to up");
    return KILN_OK;
}

/* One side of a LoHa: a [O,r] b [r,C], or a [r,O] b [q,I] with t [r,q,K]. */
static kiln_status check_side(const lora_module *m, const target *to, const tensor *a, const tensor *b, const tensor *t)
{
    if (!t->name) {
        if (a->first != to->rows || a->rest < 1) return does_not_fit(m, a, to, "w_a has a row for each output");
        if (b->first != a->rest || b->rest != to->columns) return does_not_fit(m, b, to, "w_b leads to w_a");
        return KILN_OK;
    }
    if (a->rest != to->rows || a->first < 1) return does_not_fit(m, a, to, "w_a has a column for each output");
    if (b->rest != to->inputs || b->first < 1) return does_not_fit(m, b, to, "w_b has a column for each input");
    if (t->rank < 2 || t->dim[0] != a->first || t->dim[1] != b->first || t->inner != to->kernel)
        return does_not_fit(m, t, to, "t leads from w_b to w_a");
    return KILN_OK;
}

static kiln_status make_loha(const lora_module *m, const target *to, making *x)
{
    static const lora_factor all[] = {HADA_W1_A, HADA_W1_B, HADA_W2_A, HADA_W2_B};
    TRY(need(m, all, COUNT(all)));
    *x = (making){.change = &loha_change, .n = 7};
    for (int i = 0; i < 6; i++) x->factor[1 + i] = part(m, (lora_factor)(HADA_W1_A + i));
    const tensor *f = x->factor;
    if (!f[5].name != !f[6].name)
        return missing(m, f[5].name ? f[5].name : f[6].name, lora_factor_suffix(f[5].name ? HADA_T2 : HADA_T1));
    TRY(add_alpha_and_dora(m, to, f[2].first, x));
    TRY(check_side(m, to, &f[1], &f[2], &f[5]));
    return check_side(m, to, &f[3], &f[4], &f[6]);
}

/* w [rows, columns] itself, or a x b, or a x t x b; the rank of the product, 0 of a whole one. */
static kiln_status lokr_side(const lora_module *m, const target *to, const tensor *f, int64_t kernel, int64_t *rows,
                             int64_t *columns, int64_t *rank)
{
    const tensor *w = &f[0], *a = &f[1], *b = &f[2], *t = kernel ? &f[3] : NULL;
    if (w->name) return *rows = w->first, *columns = w->rest, KILN_OK;
    *rank = b->first;
    if (!t || !t->name) {
        *rows = a->first, *columns = b->rest;
        return a->rest == b->first && a->rest > 0 ? KILN_OK : does_not_fit(m, b, to, "w_b leads to w_a");
    }
    *rows = a->rest, *columns = b->rest * kernel;
    if (t->rank < 2 || t->dim[0] != a->first || t->dim[1] != b->first || t->inner != kernel || a->first < 1)
        return does_not_fit(m, t, to, "t2 leads from w2_b to w2_a");
    return KILN_OK;
}

static kiln_status make_lokr(const lora_module *m, const target *to, making *x)
{
    static const lora_factor first[] = {LOKR_W1_A, LOKR_W1_B}, second[] = {LOKR_W2_A, LOKR_W2_B};
    int64_t a = 0, b = 0, c = 0, d = 0, rank = 0;
    *x = (making){.change = &lokr_change, .n = 8};
    for (int i = 0; i < 7; i++) x->factor[1 + i] = part(m, (lora_factor)(LOKR_W1 + i));
    if (!x->factor[1].name) TRY(need(m, first, 2));
    if (!x->factor[4].name) TRY(need(m, second, 2));
    TRY(lokr_side(m, to, &x->factor[1], 0, &a, &b, &rank));
    TRY(lokr_side(m, to, &x->factor[4], to->kernel, &c, &d, &rank));
    TRY(add_alpha_and_dora(m, to, rank, x));
    if (a < 1 || c < 1 || a * c != to->rows || b * d != to->columns)
        return does_not_fit(m, &x->factor[x->factor[1].name ? 1 : 2], to, "w1 and w2 make up another shape");
    return KILN_OK;
}

/* Both forms, as ComfyUI tells them apart: W a1 a2 + b1 b2; and an early one, W a2 a1 + b2 b1. */
static kiln_status make_glora(const lora_module *m, const target *to, making *x)
{
    static const lora_factor all[] = {GLORA_A1, GLORA_A2, GLORA_B1, GLORA_B2};
    TRY(need(m, all, COUNT(all)));
    tensor a1 = part(m, GLORA_A1), a2 = part(m, GLORA_A2), b1 = part(m, GLORA_B1), b2 = part(m, GLORA_B2);
    int early = b2.rest == b1.first && b1.first == a1.first && a1.first == a2.rest;
    if (b2.first == b1.rest && b1.rest == a1.rest && a1.rest == a2.first)
        early = early && a2.first == to->rows && to->rows == to->inputs;
    int64_t inputs = early ? to->columns : to->inputs, r = early ? a1.first : a1.rest;
    *x = (making){.change = &glora_change, .n = 5, .option = {early}};
    x->factor[1] = early ? a2 : a1, x->factor[2] = early ? a1 : a2;
    x->factor[3] = early ? b2 : b1, x->factor[4] = early ? b1 : b2;
    TRY(add_alpha_and_dora(m, to, r, x));
    const int64_t want[][2] = {{inputs, r}, {r, inputs}, {to->rows, r}, {r, to->columns}};
    for (int i = 0; i < 4; i++)
        if (r < 1 || x->factor[1 + i].first != want[i][0] || x->factor[1 + i].rest != want[i][1])
            return does_not_fit(m, &x->factor[1 + i], to, "the factors of a GLoRA do not follow one another");
    return KILN_OK;
}

/* alpha is the constraint of all blocks together, as a share of the outputs (LyCORIS, kohya). */
static kiln_status make_oft(const lora_module *m, const target *to, making *x)
{
    double alpha = 0;
    char name[LORA_NAME_CAPACITY];
    kiln_weight_info info;
    TRY(no_dora(m, "an OFT"));
    tensor blocks = tensor_named(m, m->key), by = part(m, OFT_RESCALE);
    *x = (making){.change = blocks.rank == 4 ? &boft_change : &oft_change, .factor = {blocks, by}, .n = 2, .scale = 1};
    if (!has(m, m->key, &info) || (info.rank != 3 && info.rank != 4))
        return does_not_fit(m, &blocks, to, "the blocks of an OFT have three dimensions, of a BOFT four");
    int64_t b = info.dim[info.rank - 1], n = info.dim[info.rank - 3], stages = info.rank == 4 ? info.dim[0] : 1;
    int fits = b > 0 && info.dim[info.rank - 2] == b && n == to->rows / b && n * b == to->rows;
    if (info.rank == 4) fits = fits && b % 2 == 0 && stages > 0 && stages < 31 && to->rows % (b << (stages - 1)) == 0;
    if (!fits) return does_not_fit(m, &blocks, to, "its blocks do not make up the outputs");
    if (by.name && by.first * by.rest != to->rows) return does_not_fit(m, &by, to, "it has one number for each output");
    if (lora_key_with(m->key, m->k, ".alpha", name) && has(m, name, &info)) TRY(scale_of(m, 1, &alpha));
    x->option[0] = alpha * (double)to->rows;
    return KILN_OK;
}

/* peft's: the inputs in runs of b, of which the numbers above a diagonal tell the side. */
static kiln_status make_peft_oft(const lora_module *m, const target *to, making *x)
{
    tensor blocks = tensor_named(m, m->key);
    TRY(no_dora(m, "an OFT"));
    int64_t b = 1;
    while (b * (b - 1) / 2 < blocks.rest && b < 1 << 15) b++;
    *x = (making){.change = &peft_rotation_change, .factor = {blocks}, .n = 2, .scale = 1};
    x->option[PEFT_SIDE] = (double)b, x->option[PEFT_TERMS] = m->terms;
    if (blocks.rank != 2 || b * (b - 1) / 2 != blocks.rest || b < 2)
        return does_not_fit(m, &blocks, to,
                            "an OFT as peft trains it has the numbers above a diagonal, block by block");
    if (to->columns % b || (blocks.first != 1 && blocks.first != to->columns / b))
        return does_not_fit(m, &blocks, to, "its blocks do not make up the inputs");
    return KILN_OK;
}

static kiln_status make_peft_boft(const lora_module *m, const target *to, making *x)
{
    tensor blocks = tensor_named(m, m->key), by = part(m, BOFT_S);
    kiln_weight_info info;
    TRY(no_dora(m, "a BOFT"));
    *x = (making){.change = &peft_rotation_change, .factor = {blocks, by}, .n = 2, .scale = 1};
    if (!has(m, m->key, &info) || info.rank != 4 || info.dim[0] != 1)
        return does_not_fit(m, &blocks, to, "of a BOFT as peft trains it, one with a butterfly factor of 1 is known");
    int64_t b = info.dim[3], n = info.dim[1];
    x->option[PEFT_SIDE] = (double)b, x->option[PEFT_BOFT] = 1;
    if (b < 1 || info.dim[2] != b || n != to->columns / b || n * b != to->columns)
        return does_not_fit(m, &blocks, to, "its blocks do not make up the inputs");
    if (by.name && by.first * by.rest != to->rows) return does_not_fit(m, &by, to, "it has one number for each output");
    return KILN_OK;
}

static kiln_status make_ia3(const lora_module *m, const target *to, making *x)
{
    int peft = m->k->factor == IA3_L;
    tensor by = peft ? tensor_named(m, m->key) : tensor_with(m, ".weight");
    double on_input = 0;
    TRY(no_dora(m, "an IA3"));
    if (!by.name) return missing(m, m->key, ".weight");
    kiln_weight_info info;
    if (!peft && has(m, m->key, &info)) TRY(read_number(m, &info, "on_input", &on_input));
    int64_t n = by.first * by.rest;
    if (peft) on_input = by.first == 1 && n != 1; /* [O,1], or [1,I] */
    *x = (making){.change = &ia3_change, .factor = {by}, .n = 1, .scale = 1, .option = {on_input > 0 ? 2 : 1, peft}};
    if (n != (on_input > 0 ? to->inputs : to->rows))
        return does_not_fit(m, &by, to, "an IA3 has one number for each output, or for each input");
    return KILN_OK;
}

static kiln_status make_set(const lora_module *m, const target *to, making *x)
{
    *x = (making){.change = &set_change, .factor = {tensor_named(m, m->key)}, .n = 1, .scale = 1};
    const tensor *t = &x->factor[0];
    if (t->first * t->rest == to->rows * to->columns) return KILN_OK;
    return does_not_fit(m, t, to, "what replaces a weight is of its shape");
}

/* ---- who leads ---- */

/* The tensor that leads the module of this one; NONE: it is on its own. */
static int leader_of(const lora_module *m)
{
    switch (m->k->role) {
    case LORA_DOWN:
    case LORA_UP_BIAS: return UP_AT;
    case LORA_FACTOR: break;
    default: return NONE;
    }
    lora_factor f = m->k->factor;
    if (f <= HADA_T2) return HADA_W1_A;
    if (f <= LOKR_T2) return part(m, LOKR_W1).name ? LOKR_W1 : LOKR_W1_A;
    if (f <= GLORA_B2) return GLORA_A1;
    if (f <= OFT_RESCALE) return OFT_BLOCKS;
    if (f == BOFT_S) return BOFT_R;
    return f == LORA_MID ? UP_AT : (int)f;
}

int lora_module_leads(const lora_module *m)
{
    int leads = m->k->role == LORA_FACTOR && leader_of(m) == (int)m->k->factor;
    return leads || m->k->role == LORA_UP || m->k->role == LORA_WEIGHT || m->k->role == LORA_BIAS ||
           m->k->role == LORA_SET || m->k->role == LORA_UP_BIAS;
}

/* The up of any naming, or the leading factor of any other kind that can have norms. */
static int has_product(const lora_module *m)
{
    static const lora_factor leaders[] = {HADA_W1_A,    LOKR_W1, LOKR_W1_A, GLORA_A1, OFT_BLOCKS,
                                          IA3_ON_INPUT, IA3_L,   OFT_R,     BOFT_R};
    char up[LORA_NAME_CAPACITY];
    for (unsigned i = 0; i < LORA_PAIRS; i++)
        if (lora_key_other(m->key, m->k, LORA_UP, i, up) && tensor_named(m, up).name) return 1;
    for (size_t i = 0; i < COUNT(leaders); i++)
        if (part(m, leaders[i]).name) return 1;
    return 0;
}

kiln_status lora_module_led(const lora_module *m)
{
    char up[LORA_NAME_CAPACITY] = "";
    int leader = leader_of(m);
    if (m->k->role == LORA_DORA)
        return has_product(m) ? KILN_OK
                              : FAIL(m, KILN_ERR_INVALID,
                                     "%s: '%.300s' is half of a DoRA; the file has no product for it", m->path, m->key);
    if (leader == NONE || (m->k->role == LORA_FACTOR && leader == (int)m->k->factor)) return KILN_OK;
    if (leader < LORA_FACTORS)
        return part(m, (lora_factor)leader).name ? KILN_OK
                                                 : missing(m, m->key, lora_factor_suffix((lora_factor)leader));
    if (lora_key_other(m->key, m->k, LORA_UP, m->k->pair, up) && tensor_named(m, up).name) return KILN_OK;
    return FAIL(m, KILN_ERR_INVALID, "%s: '%.200s' is half of a pair; '%.200s' is missing", m->path, m->key, up);
}

/* ---- the patch ---- */

static void *keep(const lora_module *m, const void *data, size_t n)
{
    void *p = m->host->scratch(m->ctx, n, KILN_CPU);
    return p ? memcpy(p, data, n) : NULL;
}

static kiln_status write_patch(const lora_module *m, const making *x, kiln_weight_patch *out)
{
    const char *name[FACTORS_MAX];
    for (uint32_t i = 0; i < x->n; i++) name[i] = x->factor[i].name;
    out->scale = x->scale;
    if (x->change == &lora_change && !x->factor[FACTOR_DORA].name && !x->factor[3].name) {
        out->up = x->factor[1].name, out->down = x->factor[2].name;
        return KILN_OK;
    }
    out->change = x->change, out->n_factor = x->n, out->n_option = COUNT(x->option);
    out->factor = keep(m, name, x->n * sizeof *name);
    out->option = keep(m, x->option, sizeof x->option);
    return out->factor && out->option ? KILN_OK : KILN_ERR_NOMEM;
}

static kiln_status make(const lora_module *m, const target *to, making *x)
{
    if (m->k->role == LORA_UP) return make_lora(m, to, x);
    if (m->k->role == LORA_SET) return make_set(m, to, x);
    lora_factor f = m->k->factor;
    return f <= HADA_T2      ? make_loha(m, to, x)
           : f <= LOKR_T2    ? make_lokr(m, to, x)
           : f <= GLORA_B2   ? make_glora(m, to, x)
           : f == OFT_BLOCKS ? make_oft(m, to, x)
           : f == OFT_R      ? make_peft_oft(m, to, x)
           : f == BOFT_R     ? make_peft_boft(m, to, x)
                             : make_ia3(m, to, x);
}

/* The bias of an up adds to the module's, by the pair's scale. */
static kiln_status bias_scale(const lora_module *m, double *out)
{
    char down[LORA_NAME_CAPACITY];
    tensor t = {0};
    if (lora_key_other(m->key, m->k, LORA_DOWN, m->k->pair, down)) t = tensor_named(m, down);
    return scale_of(m, t.rank ? t.first : 0, out);
}

kiln_status lora_module_patch(const lora_module *m, kiln_weight_patch *out)
{
    lora_role role = m->k->role;
    int bias = role == LORA_BIAS || role == LORA_UP_BIAS;
    target to;
    making x = {0};
    *out = (kiln_weight_patch){.size = sizeof *out, .scale = 1, .from = m->file};
    TRY(find_target(m, bias ? "bias" : "weight", &to));
    if (!(out->name = keep(m, to.name, strlen(to.name) + 1))) return KILN_ERR_NOMEM;
    if (bias || role == LORA_WEIGHT) {
        out->difference = m->key;
        return role == LORA_UP_BIAS ? bias_scale(m, &out->scale) : KILN_OK;
    }
    TRY(make(m, &to, &x));
    return write_patch(m, &x, out);
}

/* ---- for people ---- */

static kiln_status factor_facts(const lora_module *m, lora_facts *out)
{
    static const lora_factor hada[] = {HADA_W1_A, HADA_W1_B, HADA_W2_A, HADA_W2_B}, first[] = {LOKR_W1_A, LOKR_W1_B},
                             second[] = {LOKR_W2_A, LOKR_W2_B}, glora[] = {GLORA_A1, GLORA_A2, GLORA_B1, GLORA_B2};
    lora_factor f = m->k->factor;
    tensor t = {0};
    if (f <= HADA_T2) {
        TRY(need(m, hada, COUNT(hada)));
        t = part(m, HADA_W1_B);
        out->kind = "LoHa", out->tucker = part(m, HADA_T1).name != NULL, out->rank = t.first;
        out->columns = out->tucker ? 0 : t.rest;
    } else if (f <= LOKR_T2) {
        if (!part(m, LOKR_W1).name) TRY(need(m, first, 2));
        if (!part(m, LOKR_W2).name) TRY(need(m, second, 2));
        out->kind = "LoKr", out->tucker = part(m, LOKR_T2).name != NULL;
        t = part(m, LOKR_W2).name ? part(m, LOKR_W1_B) : part(m, LOKR_W2_B);
        out->rank = t.name ? t.first : 0;
    } else if (f <= GLORA_B2) {
        TRY(need(m, glora, COUNT(glora)));
        t = part(m, GLORA_B2);
        out->kind = "GLoRA", out->rank = t.first, out->columns = t.rest;
    } else if (f == OFT_BLOCKS) {
        t = tensor_named(m, m->key);
        out->kind = t.rank == 4 ? "BOFT" : "OFT";
    } else if (f == OFT_R || f == BOFT_R) {
        out->kind = f == OFT_R ? "OFT" : "BOFT";
    } else {
        t = tensor_with(m, ".weight");
        if (f == IA3_ON_INPUT && !t.name) return missing(m, m->key, ".weight");
        if (t.name) m->w->map(NULL, m->file, t.name); /* it is known: marked as used */
        out->kind = "IA3";
    }
    return KILN_OK;
}

kiln_status lora_module_facts(const lora_module *m, lora_facts *out)
{
    char name[LORA_NAME_CAPACITY];
    kiln_weight_info info;
    unsigned form;
    *out = (lora_facts){.kind = m->k->role == LORA_SET ? "replacement" : "difference"};
    if (m->k->role == LORA_FACTOR) TRY(factor_facts(m, out));
    if (m->k->role == LORA_UP) {
        tensor down = {0};
        if (lora_key_other(m->key, m->k, LORA_DOWN, m->k->pair, name)) down = tensor_named(m, name);
        if (!down.name)
            return FAIL(m, KILN_ERR_INVALID, "%s: '%.200s' is half of a pair; '%.200s' is missing", m->path, m->key,
                        name);
        out->kind = "LoRA", out->tucker = part(m, LORA_MID).name != NULL, out->rank = down.first;
        out->columns = down.rest;
    }
    out->dora = norms_of(m, &form).name != NULL;
    if (out->rank && lora_key_with(m->key, m->k, ".alpha", name) && has(m, name, &info))
        return read_number(m, &info, "an alpha", &out->alpha);
    return KILN_OK;
}
