/* sample_values.c - see sample_values.h. */
#include "cli/sample_values.h"

#include "param/param.h"
#include "plugin/abilities.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FIRST_CHOICE = 3, CHOICES_TRIED = 64 };

/* ---- inputs ---- */

/* Numbers between 0 and 1 that repeat late: multiples of a prime, modulo 1000. */
static kiln_value *tensor(uint32_t rank, const int64_t *dim)
{
    kiln_tensor t = {.size = sizeof t};
    kiln_value *v = value_tensor_new(KILN_F32, KILN_CPU, rank, dim, NULL);
    if (!v || value_view(v, &t, NULL) != KILN_OK) return v;
    size_t n = 1;
    for (uint32_t i = 0; i < rank; i++) n *= (size_t)dim[i];
    for (size_t i = 0; i < n; i++) ((float *)t.data)[i] = (float)(i * 7919 % 1000) / 999.0f;
    return v;
}

static kiln_value *image(void) { return tensor(4, (int64_t[]){1, 64, 65, 3}); }
static kiln_value *mask(void) { return tensor(3, (int64_t[]){1, 64, 65}); }

static kiln_value *sigmas(void)
{
    kiln_tensor t = {.size = sizeof t};
    kiln_value *v = tensor(1, (int64_t[]){5});
    if (v && value_view(v, &t, NULL) == KILN_OK)
        memcpy(t.data, (float[]){14.6f, 5.0f, 1.0f, 0.2f, 0}, 5 * sizeof(float));
    return v;
}

static kiln_value *map_with(const char *key, kiln_value *item)
{
    kiln_value *map = value_map();
    if (!item || !map || value_api.map_set(map, key, item) != KILN_OK) {
        value_unref(map);
        map = NULL;
    }
    value_unref(item);
    return map;
}

static kiln_value *latent(void) { return map_with("samples", tensor(4, (int64_t[]){1, 8, 9, 4})); }

static kiln_value *list_with(kiln_value *item)
{
    kiln_value *list = value_list();
    if (!item || !list || value_api.list_push(list, item) != KILN_OK) {
        value_unref(list);
        list = NULL;
    }
    value_unref(item);
    return list;
}

static kiln_value *conditioning(void) { return list_with(map_with("tokens", tensor(3, (int64_t[]){1, 77, 64}))); }

/* Two entries of a map. */
static kiln_value *map_of_two(const char *one, kiln_value *first, const char *two, kiln_value *second)
{
    kiln_value *map = map_with(one, first);
    if (map && (!second || value_api.map_set(map, two, second) != KILN_OK)) {
        value_unref(map);
        map = NULL;
    }
    value_unref(second);
    return map;
}

static kiln_value *audio(void)
{
    return map_of_two("waveform", tensor(3, (int64_t[]){1, 320, 2}), "sample_rate", value_int(16000));
}
static kiln_value *video(void)
{
    return map_of_two("images", tensor(4, (int64_t[]){5, 32, 33, 3}), "frame_rate", value_float(8));
}
static kiln_value *tokens(void)
{
    kiln_tensor t = {.size = sizeof t};
    kiln_value *ids = value_tensor_new(KILN_I32, KILN_CPU, 2, (int64_t[]){1, 4}, NULL);
    if (ids && value_view(ids, &t, NULL) == KILN_OK) memcpy(t.data, (int32_t[]){1, 7, 5, 2}, 4 * sizeof(int32_t));
    return map_with("ids", ids);
}
static kiln_value *whole(void) { return value_int(3); }
static kiln_value *number(void) { return value_float(0.75); }
static kiln_value *yes(void) { return value_bool(1); }
static kiln_value *words(void) { return value_string("a red circle", 12); }

static const struct {
    const char *type;
    kiln_value *(*make)(void);
} known[] = {
    {"IMAGE", image},   {"MASK", mask},   {"LATENT", latent}, {"CONDITIONING", conditioning},
    {"SIGMAS", sigmas}, {"INT", whole},   {"FLOAT", number},  {"BOOLEAN", yes},
    {"STRING", words},  {"VIDEO", video}, {"AUDIO", audio},   {"TOKENS", tokens},
};

static int fits(const char *type, const kiln_port *p)
{
    return strcmp(type, p->type) == 0 || (p->type[0] == '*' && strcmp(type, "IMAGE") == 0);
}

int sample_known(const kiln_port *p)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (fits(known[i].type, p)) return 1;
    return 0;
}

kiln_value *sample_value(const kiln_port *p)
{
    kiln_value *v = NULL;
    for (size_t i = 0; !v && i < sizeof known / sizeof known[0]; i++)
        if (fits(known[i].type, p)) v = known[i].make();
    if (v && p->flags & KILN_PORT_LIST) v = list_with(v);
    if (v) value_publish(v);
    return v;
}

void sample_tensors(const kiln_value *v, void (*fn)(void *arg, const void *data), void *arg)
{
    kiln_tensor t = {.size = sizeof t};
    uint32_t kind = value_kind(v);
    if (kind == KILN_V_TENSOR && value_view(v, &t, NULL) == KILN_OK) fn(arg, t.data);
    for (size_t i = 0; kind == KILN_V_LIST && i < value_api.count(v); i++)
        sample_tensors(value_api.list_at(v, i), fn, arg);
    for (size_t i = 0; kind == KILN_V_MAP && i < value_api.count(v); i++)
        sample_tensors(value_api.map_at(v, i, NULL), fn, arg);
}

/* ---- parameters ---- */

/* A flag turns once, an ENUM to each of its choices. */
static size_t turns(const kiln_param *p)
{
    size_t n = p->type == KILN_P_BOOL ? 1 : param_choice_count(p);
    return n < CHOICES_TRIED ? n : CHOICES_TRIED;
}

kiln_param_table sample_table(const kiln_node *n)
{
    return (kiln_param_table){.size = sizeof(kiln_param_table),
                              .noun = "parameter",
                              .param = n->param,
                              .n_param = n->n_param,
                              .param_stride = n->param_stride,
                              .params_size = n->params_size};
}

size_t sample_ways(const kiln_param_table *t)
{
    size_t ways = t->n_param ? FIRST_CHOICE : 1;
    for (uint32_t i = 0; i < t->n_param; i++) ways += turns(param_row(t, i));
    return ways;
}

/* The parameter that way number `way` turns, and how. */
static const kiln_param *turned(const kiln_param_table *t, size_t way, size_t *choice)
{
    way -= FIRST_CHOICE;
    for (uint32_t i = 0; i < t->n_param; i++) {
        *choice = way;
        if (way < turns(param_row(t, i))) return param_row(t, i);
        way -= turns(param_row(t, i));
    }
    return NULL;
}

const char *sample_way_name(const kiln_param_table *t, size_t way, char text[160])
{
    static const char *const ends[] = {"at the defaults", "at the low ends", "at the high ends"};
    size_t choice = 0;
    const kiln_param *p = way < FIRST_CHOICE ? NULL : turned(t, way, &choice);
    if (!p)
        snprintf(text, 160, "%s", ends[way < FIRST_CHOICE ? way : 0]);
    else if (p->type == KILN_P_BOOL)
        snprintf(text, 160, "with %s: %s", p->name, p->def != 0 ? "false" : "true");
    else
        snprintf(text, 160, "with %s: %s", p->name, kiln_choice_at(p, choice).name);
    return text;
}

/* For whole numbers the high end is a small one: most are sizes, and a picture of the largest would not fit. */
static kiln_param made_small(const kiln_param *p)
{
    kiln_param small = *p;
    if (p->type == KILN_P_INT) small.max = fmax(p->min, fmin(p->max, fmax(8, 2 * fabs(p->def))));
    return small;
}

static kiln_status set_end(const kiln_param *p, int high, arena *a, void *params)
{
    kiln_param small = made_small(p);
    param_value end;
    return param_end(&small, high, &end) ? param_put(&small, &end, NULL, a, params, NULL) : KILN_OK;
}

/* The row, with a default where a NAME has none. */
static kiln_param row_at(const kiln_param_table *t, uint32_t i)
{
    kiln_param p = *param_row(t, i);
    if (p.type == KILN_P_NAME && !p.def_str) p.def_str = registry_name(p.from, 0);
    return p;
}

int sample_params(const kiln_param_table *t, size_t way, arena *a, void *params)
{
    size_t choice = 0;
    const kiln_param *turn = way >= FIRST_CHOICE ? turned(t, way, &choice) : NULL;
    memset(params, 0, t->params_size);
    for (uint32_t i = 0; i < t->n_param; i++) {
        kiln_param p = row_at(t, i);
        if (param_row(t, i) == turn)
            p.def = p.type == KILN_P_BOOL ? p.def == 0 : (double)kiln_choice_at(&p, choice).value;
        if (param_default(&p, a, params) != KILN_OK) return 0;
        if ((way == 1 || way == 2) && set_end(&p, way == 2, a, params) != KILN_OK) return 0;
    }
    return 1;
}

uint64_t sample_bits(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

double sample_share(uint64_t *state) { return (double)(sample_bits(state) >> 11) * 0x1p-53; }

/* A value of its range; the ends now and then. 0: it has none. */
static int draw(const kiln_param *p, uint64_t *state, param_value *v)
{
    uint64_t bits = sample_bits(state);
    double share = (double)(bits >> 11) * 0x1p-53, steps, at;
    if (bits % 8 < 2) return param_end(p, bits % 2 != 0, v);
    switch (p->type) {
    case KILN_P_BOOL: *v = (param_value){.kind = PARAM_BOOL, .flag = bits % 16 > 8}; return 1;
    case KILN_P_FLOAT:
        *v = (param_value){.kind = PARAM_NUMBER, .number = p->min + share * (p->max - p->min)};
        return isfinite(v->number) && (param_in_range(p, v->number) || param_end(p, share > 0.5, v));
    case KILN_P_INT:
        steps = floor((p->max - p->min) / (p->step > 0 ? p->step : 1));
        at = p->min + floor(share * (steps + 1)) * (p->step > 0 ? p->step : 1);
        *v = (param_value){.kind = PARAM_INT, .whole = (int64_t)at, .bits = (uint64_t)(int64_t)at, .number = at};
        return 1;
    case KILN_P_ENUM:
        *v = (param_value){.kind = PARAM_TEXT, .text = kiln_choice_at(p, bits / 16 % param_choice_count(p)).name};
        return 1;
    default: return 0;
    }
}

int sample_random_params(const kiln_param_table *t, uint64_t seed, arena *a, void *params)
{
    uint64_t state = seed;
    memset(params, 0, t->params_size);
    for (uint32_t i = 0; i < t->n_param; i++) {
        kiln_param p = row_at(t, i), small = made_small(&p);
        param_value v;
        if (param_default(&p, a, params) != KILN_OK) return 0;
        /* what the row does not take after all leaves the default */
        if (draw(&small, &state, &v) && param_put(&small, &v, NULL, a, params, NULL) == KILN_ERR_NOMEM) return 0;
    }
    return 1;
}
