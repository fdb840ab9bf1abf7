/* params.h - "kiln.params/1": a plugin's own structs, filled by name through kiln_param rows.
 *
 * The engine fills the struct of a node. A plugin that has structs of another kind (a sampler's options, the settings
 * of a guider) describes them with the same rows and has them filled by the same rules: defaults, ranges, choices, and
 * the same sentences when something is wrong.
 *
 *     static const kiln_param_table table = {
 *         .size = sizeof table, .noun = "option", .owner = "sampler 'euler'",
 *         KILN_ARRAY(param, rows), .params_size = sizeof(euler_options),
 *     };
 *     kiln_value *map = values->new_map(c->ctx);
 *     TRY(params->parse(c->ctx, &table, "eta=0.5, s_noise=1", map));
 *     euler_options o;
 *     TRY(params->fill(c->ctx, &table, map, &o));     // or fail()s: option 'eta' of sampler 'euler': '7' is not ...
 *
 * A written value is read by the type of its row: 20 and 20.0 are whole numbers and 20.5 is not, `true` and `false` are
 * the only booleans, a choice and a NAME go by name. A value in a map is an int, a float, a bool or a string; a string
 * is never read as a number. A SEED has 64 bits, as an int has: what is 2^63 and more stands in a map as the negative
 * int of the same bits. FILE is for nodes alone, because files are part of a node's key: a table with such a row is
 * KILN_ERR_UNSUPPORTED.
 */
#ifndef KILN_PARAMS_H
#define KILN_PARAMS_H

#include "value.h"

#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_PARAMS_ABILITY "kiln.params/1"

/* Rows and the struct they describe. What is wrong with the rows themselves is KILN_ERR_BUG with a sentence. */
typedef struct {
    uint32_t size;
    const char *noun;  /* what one is called in messages: "option"; NULL: "parameter" */
    const char *owner; /* whose they are: "sampler 'euler'"; NULL: it is not said      */
    const kiln_param *param;
    uint32_t n_param, param_stride;
    size_t params_size;
} kiln_param_table;

typedef struct {
    uint32_t size;
    /* [run] Writes the whole struct: every default, then the entries of `map` (NULL: none). Fails with a sentence
     * for an entry that no row has, with the nearest name if one is near; for a value of another type, outside its
     * range or no choice; for a REQUIRED row that has no entry. Texts in the struct live until the call returns. */
    kiln_status (*fill)(kiln_ctx *, const kiln_param_table *, const kiln_value *map, void *params);
    /* [run] Puts every row's value into a writable map by name: a choice as its name. fill() of that map gives the same
     * struct. */
    kiln_status (*to_map)(kiln_ctx *, const kiln_param_table *, const void *params, kiln_value *map);
    /* [run] "eta=0.5, order=2" into a writable map. Blanks round names and values do not count, a text without anything
     * else is no entry. Each value is read by its row, and checked as fill() does; without a table (NULL) it is a bool,
     * an int, a float or a string, as it looks. The same name twice, also one the map has already, is a failure. */
    kiln_status (*parse)(kiln_ctx *, const kiln_param_table *, const char *text, kiln_value *map);
    /* [any] The candidate that `name` is a misspelling of, NULL: none is near. Case does not count, at most a third of
     * the letters and one may be wrong, and at least half are right. */
    const char *(*nearest)(const char *name, size_t n, const char *(*at)(const void *arg, size_t i), const void *arg);
} kiln_params_api;

/* The i-th choice of an ENUM's row; name NULL: there are no more. What the row's maker did not know of is 0. */
static inline kiln_choice kiln_choice_at(const kiln_param *p, size_t i)
{
    kiln_choice c;
    size_t stride = p->choice_stride, n = stride < sizeof c ? stride : sizeof c;
    memset(&c, 0, sizeof c);
    if (p->choice) memcpy(&c, (const char *)p->choice + i * stride, n);
    return c;
}

#ifdef __cplusplus
}
#endif
#endif
