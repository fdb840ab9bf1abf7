/* made_values.h - inputs that only a plugin can make, made by its own other nodes, and parameters that the user set:
 * what lets `kiln check-plugin` try nodes that made-up data is not enough for.
 */
#ifndef KILN_CLI_MADE_VALUES_H
#define KILN_CLI_MADE_VALUES_H

#include "backend/runtime.h"
#include "base/arena.h"
#include "param/param_rows.h"
#include "tensor/value.h"

typedef struct {
    const char *name, *value; /* --set name=value */
} check_setting;

enum { MADE_MAX = 16 };

typedef struct {
    const struct check_context *of;
    struct {
        const char *type;
        kiln_value *value;
    } made[MADE_MAX];
    size_t n;
    error why; /* of the last node that could not be run */
} made_values;

/* 1: a chain of at most three of the plugin's own nodes, without files that were not set, ends in such a value. */
int made_can(const struct check_context *of, const char *type);
/* Runs that chain, each node at its defaults; nothing where one of them fails. */
void made_make(made_values *m, runtime *rt, const char *type);
/* What was made for the port; a reference of the caller's. NULL: nothing. */
kiln_value *made_value(const made_values *m, const kiln_port *port);
void made_free(made_values *m);

int made_is_set(const struct check_context *of, const char *name); /* 1: --set names it */
/* Puts the settings whose names the table has. 0: one of them is not a value of its row, or there is no memory. */
int made_settings(const check_setting *set, size_t n, const kiln_param_table *t, arena *a, void *params);

#endif
