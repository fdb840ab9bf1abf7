/* sizeless.h - the sentence for a struct of a plugin's that does not say its size. */
#ifndef KILN_SAMPLER_SIZELESS_H
#define KILN_SAMPLER_SIZELESS_H

#include "kiln/plugin.h"

static inline kiln_status sizeless(const kiln_call *c, const char *where, const char *type)
{
    return c->host->fail(c->ctx, KILN_ERR_BUG, "%s: a %s that does not say its size; set .size = sizeof(%s) first",
                         where, type, type);
}

#endif
