/* sample_values.h - made-up inputs and parameters for trying a node that nobody has wired. */
#ifndef KILN_CLI_SAMPLE_VALUES_H
#define KILN_CLI_SAMPLE_VALUES_H

#include "base/arena.h"
#include "param/param_rows.h"
#include "tensor/value.h"

/* A value with the structure of the port's type, published; the same every time. NULL when the type is one that only a
 * plugin can make (MODEL, a type of its own), or when there is no memory. */
kiln_value *sample_value(const kiln_port *p);
int sample_known(const kiln_port *p);

/* Every tensor inside v: fn(arg, data). */
void sample_tensors(const kiln_value *v, void (*fn)(void *arg, const void *data), void *arg);

/* A node's parameters. */
kiln_param_table sample_table(const kiln_node *n);

/* Ways to fill parameters: 0 the defaults, 1 the low ends, 2 the high ends (whole numbers: twice the default, at least
 * 8, so that sizes stay small), 3 and on: the defaults with one choice of one ENUM or one flag turned. */
size_t sample_ways(const kiln_param_table *t);
const char *sample_way_name(const kiln_param_table *t, size_t way, char text[160]);
/* Fills `params` (params_size bytes). Text lives in a. 0 when there is no memory. */
int sample_params(const kiln_param_table *t, size_t way, arena *a, void *params);
/* The next number of the splitmix64 sequence (Steele, Lea, Flood 2014), and that as one in [0, 1). */
uint64_t sample_bits(uint64_t *state);
double sample_share(uint64_t *state);
/* Each parameter anywhere in its range, by the seed; whole numbers as small as above. */
int sample_random_params(const kiln_param_table *t, uint64_t seed, arena *a, void *params);

#endif
