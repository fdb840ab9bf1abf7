/* batch_group.c - see batch_group.h. */
#include "batch_group.h"

#include "kiln/kit.h"

#include <string.h>

enum { REPEATS_MAX = 4 };

static int64_t common_multiple(int64_t a, int64_t b)
{
    int64_t x = a, y = b;
    while (y) {
        int64_t rest = x % y;
        x = y, y = rest;
    }
    return a / x * b;
}

/* Dimensions from `from` on are equal. */
static int same_dims(const input_value *a, const input_value *b, uint32_t from)
{
    if (a->rank != b->rank) return 0;
    for (uint32_t i = from; i < a->rank; i++)
        if (a->dim[i] != b->dim[i]) return 0;
    return 1;
}

static size_t bytes_of(const input_value *v)
{
    size_t n = 4;
    for (uint32_t i = 0; i < v->rank; i++) n *= (size_t)v->dim[i];
    return n;
}

static int same_table(const input_value *a, const input_value *b)
{
    if (!same_dims(a, b, 0)) return 0;
    return a->data == b->data || (a->data && b->data && memcmp(a->data, b->data, bytes_of(a)) == 0);
}

static kiln_status refuse(const batch_group *g, const input_value *a, const input_value *b)
{
    return g->call->host->fail(
        g->call->ctx, KILN_ERR_INVALID,
        "two conditionings have '%s' of %lld and %lld rows, and this model takes only equal ones; "
        "make the prompts equally long",
        a->spec.name, (long long)a->dim[1], (long long)b->dim[1]);
}

/* Tokens of other lengths, by their rule. rows: the group's so far, changed to what both need. */
static kiln_status join_tokens(const batch_group *g, const input_value *a, const input_value *b, int64_t *rows,
                               int *fits)
{
    int64_t multiple = common_multiple(*rows, b->dim[1]), least = *rows < b->dim[1] ? *rows : b->dim[1];
    *fits = same_dims(a, b, 2) && a->rank == b->rank;
    if (!*fits || *rows == b->dim[1]) return KILN_OK;
    switch (a->spec.batch) {
    case KILN_BATCH_PAD: *rows = *rows > b->dim[1] ? *rows : b->dim[1]; break;
    case KILN_BATCH_REPEAT:
        *fits = multiple <= REPEATS_MAX * least;
        if (*fits) *rows = multiple;
        break;
    case KILN_BATCH_REFUSE: return refuse(g, a, b);
    default: *fits = 0; break;
    }
    return KILN_OK;
}

static kiln_status join_value(const batch_group *g, const input_value *a, const input_value *b, int64_t *rows,
                              int *fits)
{
    *fits = strcmp(a->name, b->name) == 0 && a->absent == b->absent && a->dtype == b->dtype;
    if (!*fits || a->absent) return KILN_OK;
    if (a->spec.kind == KILN_INPUT_TABLE) return *fits = same_table(a, b), KILN_OK;
    if (a->spec.kind == KILN_INPUT_TOKENS) return join_tokens(g, a, b, rows, fits);
    *fits = input_follows_x(a->spec.kind) ? a->dim[a->rank - 1] == b->dim[b->rank - 1] : same_dims(a, b, 1);
    if (*fits || a->spec.batch != KILN_BATCH_REFUSE) return KILN_OK;
    return refuse(g, a, b);
}

static kiln_status join_values(const batch_group *g, const input_values *a, const input_values *b, int64_t *rows,
                               int *fits)
{
    *fits = a->n == b->n;
    for (size_t i = 0; *fits && i < a->n; i++) TRY(join_value(g, &a->value[i], &b->value[i], rows + i, fits));
    return KILN_OK;
}

/* The next control that acts, from i on. */
static const control_use *acting(const batch_group *g, const condition *c, size_t *i)
{
    while (*i < c->controls.n && !control_acts(&c->controls.use[*i], g->sigma)) ++*i;
    return *i < c->controls.n ? &c->controls.use[(*i)++] : NULL;
}

static kiln_status join_controls(const batch_group *g, const condition *a, const condition *b, int64_t *rows, int *fits)
{
    size_t i = 0, j = 0;
    for (;;) {
        const control_use *x = acting(g, a, &i), *y = acting(g, b, &j);
        *fits = !x == !y && (!x || (x->net->network == y->net->network && x->net->weights == y->net->weights &&
                                    strcmp(x->prefix, y->prefix) == 0));
        if (!*fits || !x) return KILN_OK;
        TRY(join_values(g, &x->inputs, &y->inputs, rows, fits));
        if (!*fits) return KILN_OK;
        rows += x->inputs.n;
    }
}

/* The rows of a first member, as its inputs have them. */
static kiln_status begin(batch_group *g, const condition *c)
{
    size_t n = 0, i = 0;
    const control_use *u;
    const input_values *v = &c->inputs;
    for (u = NULL; v; v = (u = acting(g, c, &i)) ? &u->inputs : NULL)
        for (size_t k = 0; k < v->n; k++, n++) {
            if (n == NETWORK_INPUTS_MAX)
                return g->call->host->fail(g->call->ctx, KILN_ERR_INVALID, "more than %d inputs of one network",
                                           NETWORK_INPUTS_MAX);
            g->rows[n] = v->value[k].rank > 1 ? v->value[k].dim[1] : 0;
        }
    g->member[g->n++] = c;
    return KILN_OK;
}

kiln_status batch_group_add(batch_group *g, const condition *c, int *added)
{
    int64_t rows[NETWORK_INPUTS_MAX];
    *added = 1;
    if (g->n == 0) return begin(g, c);
    const condition *first = g->member[0];
    *added = c->h == first->h && c->w == first->w;
    memcpy(rows, g->rows, sizeof rows);
    if (*added) TRY(join_values(g, &first->inputs, &c->inputs, rows, added));
    if (*added) TRY(join_controls(g, first, c, rows + first->inputs.n, added));
    if (!*added) return KILN_OK;
    memcpy(g->rows, rows, sizeof rows);
    g->member[g->n++] = c;
    return KILN_OK;
}

/* ---- the batch's inputs ---- */

typedef struct {
    const batch_group *g;
    const batch_layout *l;
    network_input *out;
    size_t n;
} writer;

/* Number i of a condition's values: the model's, then those of the controls that act. */
static const input_value *value_at(const batch_group *g, const condition *c, size_t i)
{
    size_t k = 0;
    const input_values *v = &c->inputs;
    for (const control_use *u = NULL; v; v = (u = acting(g, c, &k)) ? &u->inputs : NULL) {
        if (i < v->n) return &v->value[i];
        i -= v->n;
    }
    return NULL;
}

/* One picture's rows: the value's own, repeated or padded up to `rows`. */
static void copy_rows(const input_value *v, const float *from, int64_t rows, float *out)
{
    int64_t own = v->dim[1], width = v->dim[2];
    int64_t whole = v->spec.batch == KILN_BATCH_REPEAT ? rows / own : 1;
    for (int64_t i = 0; i < whole; i++) memcpy(out + i * own * width, from, (size_t)(own * width) * sizeof *out);
    for (int64_t i = whole * own * width; i < rows * width; i++) out[i] = (float)v->spec.fallback;
}

/* The part of a picture's value that the condition speaks for. */
static void copy_part(const batch_layout *l, const condition *c, const input_value *v, const float *from, float *out)
{
    int64_t k = input_cells_per_cell(v->spec.kind, l->format), channels = v->dim[v->rank - 1];
    int64_t height = v->rank > 3 ? v->dim[v->rank - 3] : 1, width = v->dim[v->rank - 2];
    int64_t h = v->rank > 3 ? c->h * k : 1, w = c->w * k, frames = v->rank > 4 ? v->dim[1] : 1;
    for (int64_t t = 0; t < frames; t++)
        for (int64_t y = 0; y < h; y++) {
            int64_t row = t * height + (v->rank > 3 ? c->top * k : 0) + y;
            memcpy(out, from + (row * width + c->left * k) * channels, (size_t)(w * channels) * sizeof *out);
            out += w * channels;
        }
}

static void shape_of(const writer *w, size_t i, const condition *c, const input_value *v, network_input *out)
{
    int64_t k = input_cells_per_cell(v->spec.kind, w->l->format);
    out->name = v->name, out->own = v->spec.name, out->hook = v->hook, out->control = v->control;
    out->dtype = v->dtype, out->device = KILN_CPU, out->rank = v->rank;
    out->changes = (v->spec.flags & KILN_INPUT_CHANGES) != 0;
    memcpy(out->dim, v->dim, sizeof out->dim);
    if (v->spec.kind == KILN_INPUT_TABLE) return;
    out->dim[0] = w->l->pictures * (int64_t)w->g->n;
    if (v->spec.kind == KILN_INPUT_TOKENS) out->dim[1] = w->g->rows[i];
    if (!input_follows_x(v->spec.kind)) return;
    out->dim[v->rank - 2] = c->w * k;
    if (v->rank > 3) out->dim[v->rank - 3] = c->h * k;
}

static void fill(const writer *w, size_t i, size_t one, void *data)
{
    for (size_t m = 0; m < w->g->n; m++) {
        const condition *c = w->g->member[m];
        const input_value *v = value_at(w->g, c, i);
        size_t own = bytes_of(v) / 4 / (size_t)v->dim[0];
        for (int64_t b = 0; b < w->l->pictures; b++) {
            int64_t picture = w->l->picture_of ? w->l->picture_of[b] : b;
            const float *from = (const float *)v->data + (size_t)(picture % v->dim[0]) * own;
            float *to = (float *)data + (m * (size_t)w->l->pictures + (size_t)b) * one;
            if (v->spec.kind == KILN_INPUT_TOKENS)
                copy_rows(v, from, w->g->rows[i], to);
            else if (input_follows_x(v->spec.kind))
                copy_part(w->l, c, v, from, to);
            else
                memcpy(to, from, one * sizeof *to);
        }
    }
}

static kiln_status write_input(writer *w, size_t i)
{
    const condition *first = w->g->member[0];
    const input_value *v = value_at(w->g, first, i);
    if (v->absent || (v->hook >= 0 && !w->l->hook_acts[v->hook])) return KILN_OK;
    if (w->n == NETWORK_INPUTS_MAX)
        return w->g->call->host->fail(w->g->call->ctx, KILN_ERR_INVALID, "more than %d inputs of one network",
                                      NETWORK_INPUTS_MAX);
    network_input *out = &w->out[w->n];
    shape_of(w, i, first, v, out);
    out->data = v->data;
    if (v->spec.kind != KILN_INPUT_TABLE) {
        size_t count = 1;
        for (uint32_t k = 0; k < out->rank; k++) count *= (size_t)out->dim[k];
        void *data = w->l->memory(w->l->self, w->n, count);
        if (!data) return KILN_ERR_NOMEM;
        if (!kit_estimating(w->g->call)) fill(w, i, count / (size_t)out->dim[0], data);
        out->data = data;
    }
    w->n++;
    return KILN_OK;
}

kiln_status batch_group_inputs(const batch_group *g, const batch_layout *l, network_input *out, size_t *n)
{
    writer w = {.g = g, .l = l, .out = out};
    for (size_t i = 0; value_at(g, g->member[0], i); i++) TRY(write_input(&w, i));
    *n = w.n;
    return KILN_OK;
}
