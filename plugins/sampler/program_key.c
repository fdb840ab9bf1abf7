/* program_key.c - see program_key.h. */
#include "program_key.h"

#include "kiln/kit.h"

#include <stdio.h>

void program_key_put(program_key *k, const char *text)
{
    int n = k->n < sizeof k->text ? snprintf(k->text + k->n, sizeof k->text - k->n, ":%s", text) : 0;
    k->n += n > 0 ? (size_t)n : 0;
}

void program_key_shape(program_key *k, const char *name, uint32_t rank, const int64_t *dim)
{
    char text[300];
    int at = snprintf(text, sizeof text, "%.100s", name);
    for (uint32_t i = 0; i < rank && at < (int)sizeof text; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, "%c%lld", i ? 'x' : '=', (long long)dim[i]);
    program_key_put(k, text);
}

kiln_status program_key_weights(const kiln_call *c, program_key *k, const char *family, const kiln_weights *weights)
{
    const kiln_weights_api *w = c->host->ability(KILN_WEIGHTS_ABILITY);
    const char *identity = w->identity(c->ctx, weights);
    if (!identity) return KILN_ERR_IO;
    program_key_put(k, family);
    program_key_put(k, identity);
    return KILN_OK;
}

kiln_status program_key_check(const kiln_call *c, const program_key *k)
{
    if (k->n < sizeof k->text) return KILN_OK;
    return c->host->fail(c->ctx, KILN_ERR_INVALID, "too many hooks, controls or inputs on this model");
}
