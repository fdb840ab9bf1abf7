/* param_rows_kit.h - a struct with a parameter of each type, its rows, and names to choose from. */
#ifndef KILN_TESTS_PARAM_ROWS_KIT_H
#define KILN_TESTS_PARAM_ROWS_KIT_H

#include "kiln/params.h"
#include "param/param.h"

#include <stddef.h>
#include <string.h>

typedef struct {
    int32_t flag, mode;
    int64_t steps, width;
    uint64_t seed;
    double cfg;
    const char *sampler, *text, *file;
} every_type;

static const kiln_choice every_mode[] = {{.name = "fine", .doc = "Slow.", .value = -3},
                                         {.name = "coarse", .doc = "Fast.", .value = 4},
                                         {.name = "12", .doc = "A number as a name.", .value = 12},
                                         {0}};

#define EVERY_ROW(type_, field_) .name = #field_, .doc = "Help.", .type = type_, .offset = offsetof(every_type, field_)
static const kiln_param every_row[] = {
    {EVERY_ROW(KILN_P_BOOL, flag), .def = 1},
    {EVERY_ROW(KILN_P_INT, steps), .def = 20, .min = -5, .max = 10000, .step = 1},
    {EVERY_ROW(KILN_P_INT, width), .flags = KILN_PARAM_FLOORED, .def = 64, .min = 16, .max = 512, .step = 8},
    {EVERY_ROW(KILN_P_SEED, seed), .def = 7},
    {EVERY_ROW(KILN_P_FLOAT, cfg), .def = 7.5, .min = -0.5, .max = 100, .step = 0.1},
    {EVERY_ROW(KILN_P_ENUM, mode), .def = 4, KILN_CHOICES(every_mode)},
    {EVERY_ROW(KILN_P_NAME, sampler), .def_str = "euler", .from = "sampler"},
    {EVERY_ROW(KILN_P_STRING, text), .def_str = "a \"star\""},
    {EVERY_ROW(KILN_P_FILE, file), .def_str = "", .from = "input"},
};
enum { EVERY_N = sizeof every_row / sizeof every_row[0] };

static const char *const every_sampler[] = {"euler", "heun", "dpmpp_2m"};

static inline const char *every_name_at(void *self, const char *from, size_t i)
{
    (void)self;
    return strcmp(from, "sampler") == 0 && i < 3 ? every_sampler[i] : NULL;
}

static inline const char *every_file(void *self, arena *a, const char *from, const char *name, error *e)
{
    (void)self;
    if (strcmp(name, "here.png") == 0) return arena_printf(a, "/data/%s/%s", from, name);
    error_set(e, KILN_ERR_INVALID, "no file '%s' in %s", name, from);
    return NULL;
}

static const param_names every_names = {.name_at = every_name_at, .file = every_file};

static inline const kiln_param *every(const char *name)
{
    for (size_t i = 0; i < EVERY_N; i++)
        if (strcmp(every_row[i].name, name) == 0) return &every_row[i];
    return NULL;
}

#endif
