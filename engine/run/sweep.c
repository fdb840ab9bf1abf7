/* sweep.c - see sweep.h: axes from --over, --over-file and `matrix:`, and rows from axes. */
#include "run/sweep.h"

#include "base/array.h"
#include "base/checked.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory_alloc.h"
#include "base/str.h"
#include "run/sweep_values.h"

#include <stdio.h>
#include <string.h>

enum { LABEL_VALUE_MAX = 40 };

static kiln_status no_memory(error *e) { return error_set(e, KILN_ERR_NOMEM, "out of memory"); }

/* ---- axes ---- */

/* The last value that --set gives the name; NULL: none. */
static const char *set_value(const sweep_source *from, const char *name)
{
    const char *value = NULL;
    for (size_t i = 0; i < from->n_set; i++)
        if (strcmp(from->set[i].name, name) == 0) value = from->set[i].value;
    return value;
}

static sweep_axis *axis_of(sweep *s, const char *name)
{
    for (size_t a = 0; a < s->n_axis; a++)
        for (size_t k = 0; k < s->axis[a].n_name; k++)
            if (strcmp(s->axis[a].name[k], name) == 0) return &s->axis[a];
    return NULL;
}

/* Takes the gathered values as an axis of n_name names, or in the place of one. */
static kiln_status set_axis(sweep *s, values *v, const char *const *name, size_t n_name, sweep_axis *over, error *e)
{
    if (v->n == 0) return error_set(e, KILN_ERR_INVALID, "%s: there are no values", v->what);
    if (!over && s->n_axis == SWEEP_AXES_MAX)
        return error_set(e, KILN_ERR_INVALID, "%s: more than %d axes", v->what, SWEEP_AXES_MAX);
    const char **value = arena_alloc(&s->memory, v->n * sizeof *value);
    if (!value) return no_memory(e);
    memcpy(value, v->value, v->n * sizeof *value);
    if (!over) over = &s->axis[s->n_axis++];
    *over = (sweep_axis){.n_name = n_name, .n = v->n / n_name, .name = name, .value = value, .word = "--over"};
    return KILN_OK;
}

static const char *const *one_name(sweep *s, const char *name, size_t n)
{
    const char **list = arena_alloc(&s->memory, sizeof *list);
    if (list && !(list[0] = arena_strndup(&s->memory, name, n))) return NULL;
    return list;
}

static kiln_status read_over(sweep *s, const sweep_source *from, const char *text, size_t matrix_axes, error *e)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text || !equals[1])
        return error_set(e, KILN_ERR_INVALID, "--over %.200s: it is NAME=VALUES, as in seed=1..100 or cfg=5,7,9", text);
    if (!utf8_valid(text, strlen(text))) return error_set(e, KILN_ERR_INVALID, "--over: a value is not UTF-8");
    const char *const *name = one_name(s, text, (size_t)(equals - text));
    if (!name) return no_memory(e);
    if (set_value(from, name[0]))
        return error_set(e, KILN_ERR_INVALID, "--over %.100s and --set of the same name: which? Take one of them away",
                         name[0]);
    sweep_axis *other = axis_of(s, name[0]);
    if (other && (size_t)(other - s->axis) >= matrix_axes)
        return error_set(e, KILN_ERR_INVALID, "--over %.200s: '%.100s' already varies by another --over or --over-file",
                         text, name[0]);
    if (other && other->n_name > 1)
        return error_set(
            e, KILN_ERR_INVALID,
            "--over %.200s: the workflow's `matrix` lists whole rows, so one of its names cannot be replaced", text);
    char what[140];
    snprintf(what, sizeof what, "--over %.100s", name[0]);
    values v = {.memory = &s->memory, .what = what};
    kiln_status status = values_read_list(&v, equals + 1, e);
    if (status == KILN_OK && other)
        log_warn("--over %s: what the workflow's `matrix` says of '%s' is not used", name[0], name[0]);
    if (status == KILN_OK) status = set_axis(s, &v, name, 1, other, e);
    mem_free(v.value);
    return status;
}

/* ---- CSV ---- */

static kiln_status take_header(sweep *s, const sweep_source *from, values *v, size_t n, const char *const **out,
                               error *e)
{
    const char **name = arena_alloc(&s->memory, n * sizeof *name);
    if (!name) return no_memory(e);
    if (n > SWEEP_NAMES_MAX)
        return error_set(e, KILN_ERR_INVALID, "%s:1: %zu names; at most %d are allowed", v->what, n, SWEEP_NAMES_MAX);
    if (n == 1 && strchr(v->value[0], ';'))
        return error_set(e, KILN_ERR_INVALID,
                         "%s:1: '%.200s': names are separated by ';'; in kiln's CSV a ',' stands between them", v->what,
                         v->value[0]);
    for (size_t i = 0; i < n; i++) {
        name[i] = v->value[i];
        if (!name[i][0])
            return error_set(e, KILN_ERR_INVALID,
                             "%s:1: column %zu has no name; the first line names what each column sets", v->what,
                             i + 1);
        for (size_t k = 0; k < i; k++)
            if (strcmp(name[i], name[k]) == 0)
                return error_set(e, KILN_ERR_INVALID, "%s:1: '%.100s' stands there twice", v->what, name[i]);
        if (set_value(from, name[i]))
            return error_set(e, KILN_ERR_INVALID, "%s:1: '%.100s' also has a --set: which? Take one of them away",
                             v->what, name[i]);
        if (axis_of(s, name[i]))
            return error_set(e, KILN_ERR_INVALID, "%s:1: '%.100s' already varies by the workflow's `matrix`", v->what,
                             name[i]);
    }
    *out = name;
    v->n = 0;
    return KILN_OK;
}

static kiln_status read_csv(sweep *s, const sweep_source *from, values *v, value_reader *r, error *e)
{
    const char *const *name = NULL;
    size_t n_name = 0, n;
    if (r->at == r->end)
        return error_set(e, KILN_ERR_INVALID, "%s: the file is empty; its first line names what each column sets",
                         v->what);
    TRY(values_read_record(v, r, 1, &n_name, e));
    TRY(take_header(s, from, v, n_name, &name, e));
    while (r->at < r->end) {
        size_t line = r->line;
        if (*r->at == '\n' || *r->at == '\r') { /* an empty line */
            value_line_end(r);
            continue;
        }
        TRY(values_read_record(v, r, 0, &n, e));
        if (n != n_name)
            return error_set(e, KILN_ERR_INVALID,
                             "%s:%zu: %zu values under %zu names; a value with a comma goes in \"quotes\"", v->what,
                             line, n, n_name);
        if (v->n / n_name > SWEEP_ROWS_MAX)
            return error_set(e, KILN_ERR_INVALID, "%s: more than %d rows", v->what, SWEEP_ROWS_MAX);
    }
    return set_axis(s, v, name, n_name, NULL, e);
}

static kiln_status read_over_file(sweep *s, const sweep_source *from, error *e)
{
    const char *path = from->over_file;
    values v = {.memory = &s->memory, .what = path};
    char *data = NULL;
    value_reader r;
    kiln_status status = value_text_open("--over-file", path, &data, &r, e);
    if (status == KILN_OK) status = read_csv(s, from, &v, &r, e);
    mem_free(data);
    mem_free(v.value);
    return status;
}

/* ---- matrix ---- */

static kiln_status matrix_fault(const sweep_source *from, const yaml_node *at, const char *text, error *e)
{
    return error_set(e, KILN_ERR_INVALID, "%s:%u:%u: `matrix`: %s", from->path, at->at.line, at->at.column, text);
}

static kiln_status matrix_lists(sweep *s, const sweep_source *from, const yaml_node *m, error *e)
{
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < m->n && status == KILN_OK; i++) {
        const yaml_node *list = m->item[i];
        const char *const *name = one_name(s, m->key[i]->text, m->key[i]->length);
        char what[160];
        snprintf(what, sizeof what, "`matrix`: %.100s", m->key[i]->text);
        values v = {.memory = &s->memory, .what = what};
        if (!name) return no_memory(e);
        if (list->kind == YAML_SCALAR) {
            status = list->quoted ? values_add(&v, arena_strdup(&s->memory, list->text), e)
                                  : values_read_list(&v, list->text, e);
        } else if (list->kind == YAML_SEQUENCE) {
            for (size_t k = 0; k < list->n && status == KILN_OK; k++)
                status = list->item[k]->kind == YAML_SCALAR
                             ? values_add(&v, arena_strdup(&s->memory, list->item[k]->text), e)
                             : matrix_fault(from, list->item[k], "a value is a single one, not a list or map", e);
        } else {
            status = matrix_fault(from, list, "a name has a list of values, or a text such as 1..100", e);
        }
        if (status == KILN_OK) status = set_axis(s, &v, name, 1, NULL, e);
        mem_free(v.value);
    }
    return status;
}

static size_t name_index(const char *const *name, size_t n, const char *text)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(name[i], text) == 0) return i;
    return n;
}

static kiln_status matrix_rows(sweep *s, const sweep_source *from, const yaml_node *m, error *e)
{
    const char **name = arena_alloc(&s->memory, SWEEP_NAMES_MAX * sizeof *name);
    size_t n = 0;
    if (!name) return no_memory(e);
    if (m->n > SWEEP_ROWS_MAX) return matrix_fault(from, m, "more than 100000 rows", e);
    for (size_t r = 0; r < m->n; r++) {
        if (m->item[r]->kind != YAML_MAP) return matrix_fault(from, m->item[r], "a row is a map of name to value", e);
        for (size_t k = 0; k < m->item[r]->n; k++) {
            const yaml_node *key = m->item[r]->key[k];
            if (m->item[r]->item[k]->kind != YAML_SCALAR)
                return matrix_fault(from, m->item[r]->item[k], "a value is a single one, not a list or map", e);
            if (name_index(name, n, key->text) < n) continue;
            if (n == SWEEP_NAMES_MAX) return matrix_fault(from, key, "more than 64 names", e);
            if (!(name[n++] = arena_strdup(&s->memory, key->text))) return no_memory(e);
        }
    }
    if (n == 0) return matrix_fault(from, m, "there are no rows", e);
    const char **value = arena_alloc(&s->memory, m->n * n * sizeof *value);
    if (!value) return no_memory(e);
    for (size_t r = 0; r < m->n; r++)
        for (size_t k = 0; k < m->item[r]->n; k++)
            if (!(value[r * n + name_index(name, n, m->item[r]->key[k]->text)] =
                      arena_strdup(&s->memory, m->item[r]->item[k]->text)))
                return no_memory(e);
    s->axis[s->n_axis++] = (sweep_axis){.n_name = n, .n = m->n, .name = name, .value = value};
    return KILN_OK;
}

static kiln_status read_matrix(sweep *s, const sweep_source *from, error *e)
{
    const yaml_node *m = from->matrix;
    if (m->kind == YAML_SCALAR || m->n == 0)
        return matrix_fault(from, m, "it is a map of name to a list of values, or a list of maps", e);
    return m->kind == YAML_MAP ? matrix_lists(s, from, m, e) : matrix_rows(s, from, m, e);
}

/* ---- --set of a name that varies ---- */

/* What is asked for on the command line holds; the workflow's own rows give way, and it is said. */
static kiln_status pin_matrix(sweep *s, const sweep_source *from, error *e)
{
    for (size_t a = 0; a < s->n_axis; a++) {
        sweep_axis *x = &s->axis[a];
        for (size_t k = 0; k < x->n_name; k++) {
            const char *value = set_value(from, x->name[k]), *copy = value ? arena_strdup(&s->memory, value) : NULL;
            if (!value) continue;
            if (!copy) return no_memory(e);
            log_warn("--set %s=%.60s holds for every row; what the workflow's `matrix` says of '%s' is not used",
                     x->name[k], value, x->name[k]);
            if (x->n_name == 1) x->n = 1;
            for (size_t i = 0; i < x->n; i++) x->value[i * x->n_name + k] = copy;
        }
    }
    return KILN_OK;
}

/* ---- the whole ---- */

kiln_status sweep_make(sweep *s, const sweep_source *from, error *e)
{
    *s = (sweep){0};
    if (from->matrix) TRY(read_matrix(s, from, e));
    size_t matrix_axes = s->n_axis;
    for (size_t a = 0; a < matrix_axes; a++) s->axis[a].of_file = 1, s->axis[a].word = "`matrix`:";
    TRY(pin_matrix(s, from, e));
    if (from->over_file) {
        TRY(read_over_file(s, from, e));
        s->axis[s->n_axis - 1].word = "--over-file:";
    }
    for (size_t i = 0; i < from->n_over; i++) TRY(read_over(s, from, from->over[i], matrix_axes, e));
    s->n_row = 1;
    for (size_t a = 0; a < s->n_axis; a++) {
        size_t n = s->n_row;
        s->n_name += s->axis[a].n_name;
        if (!checked_mul_size(n, s->axis[a].n, &s->n_row) || s->n_row > SWEEP_ROWS_MAX)
            return error_set(
                e, KILN_ERR_INVALID,
                "the sweep has more than %d rows (%zu times %zu of '%.100s' and maybe more); make it in parts",
                SWEEP_ROWS_MAX, n, s->axis[a].n, s->axis[a].name[0]);
    }
    if (s->n_name > SWEEP_NAMES_MAX)
        return error_set(e, KILN_ERR_INVALID, "the sweep varies %zu names; at most %d are allowed", s->n_name,
                         SWEEP_NAMES_MAX);
    return KILN_OK;
}

void sweep_free(sweep *s)
{
    arena_free(&s->memory);
    *s = (sweep){0};
}

size_t sweep_point(const sweep *s, size_t row, size_t a)
{
    for (size_t k = s->n_axis; --k > a;) row /= s->axis[k].n;
    return row % s->axis[a].n;
}

size_t sweep_settings(const sweep *s, size_t row, set_option *out)
{
    size_t n = 0;
    for (size_t a = 0; a < s->n_axis; a++) {
        const sweep_axis *x = &s->axis[a];
        const char **value = x->value + sweep_point(s, row, a) * x->n_name;
        for (size_t k = 0; k < x->n_name; k++)
            if (value[k])
                out[n++] = (set_option){.name = x->name[k], .value = value[k], .word = x->word, .here = !x->of_file};
    }
    return n;
}

/* A label as it grows in its caller's buffer: memory cannot be short. */
typedef struct {
    char *text;
    size_t n, capacity;
    int full;
} label_buffer;

/* What fits, cut between characters. */
static void put_text(label_buffer *t, const char *text, size_t n)
{
    size_t room = t->capacity - 1 - t->n;
    if (t->full) return;
    if (n > room)
        for (n = room, t->full = 1; n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80;) n--;
    memcpy(t->text + t->n, text, n);
    t->n += n;
    t->text[t->n] = '\0';
}

/* Long values are cut. */
static void put_label(label_buffer *t, const char *name, const char *value)
{
    size_t n = strlen(value), keep = n > LABEL_VALUE_MAX ? LABEL_VALUE_MAX : n;
    while (keep < n && keep > 0 && ((unsigned char)value[keep] & 0xc0) == 0x80) keep--;
    if (t->n) put_text(t, " ", 1);
    put_text(t, name, strlen(name));
    put_text(t, "=", 1);
    put_text(t, value, keep);
    if (keep < n) put_text(t, "...", 3);
}

static void put_point(const sweep *s, size_t a, size_t point, label_buffer *t)
{
    const sweep_axis *x = &s->axis[a];
    for (size_t k = 0; k < x->n_name; k++)
        if (x->value[point * x->n_name + k]) put_label(t, x->name[k], x->value[point * x->n_name + k]);
}

void sweep_label(const sweep *s, size_t row, char *text, size_t capacity)
{
    label_buffer t = {.text = text, .capacity = capacity};
    text[0] = '\0';
    for (size_t a = 0; a < s->n_axis; a++) put_point(s, a, sweep_point(s, row, a), &t);
}

void sweep_point_value(const sweep *s, size_t a, size_t point, char *text, size_t capacity)
{
    label_buffer t = {.text = text, .capacity = capacity};
    const char *value = s->axis[a].n_name == 1 ? s->axis[a].value[point] : NULL;
    text[0] = '\0';
    if (value)
        put_text(&t, value, strlen(value));
    else
        put_point(s, a, point, &t);
}
