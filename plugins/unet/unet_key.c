/* unet_key.c - see unet_key.h. */
#include "unet_key.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    char *out;
    size_t capacity;
} text;

__attribute__((format(printf, 2, 3))) static void say(const text *t, const char *fmt, ...)
{
    size_t at = strlen(t->out);
    va_list args;
    va_start(args, fmt);
    vsnprintf(t->out + at, t->capacity - at, fmt, args);
    va_end(args);
}

void unet_key(const unet_config *c, const char *name, char *out, size_t capacity)
{
    const text t = {out, capacity};
    out[0] = 0;
    say(&t, "%s/%lld.%lld.%lld.%lld.%u.%g.%g", name, (long long)c->in_channels, (long long)c->out_channels,
        (long long)c->context, (long long)c->groups, c->cos_first, c->freq_shift, (double)c->eps);
    say(&t, "/%u.%u.%u.%lld.%lld.%u.%lld", c->linear, c->concat, c->beside, (long long)c->embedded,
        (long long)c->sinusoid, c->n_number, (long long)c->guidance);
    say(&t, "/%u.%u", c->middle, c->middle_depth);
    for (uint32_t i = 0; i < c->levels; i++) {
        say(&t, "/%lld.%lld.%u", (long long)c->channels[i], (long long)c->heads[i], c->context_only[i]);
        for (uint32_t k = 0; k < c->layers[i]; k++) say(&t, ",%u", c->down[i][k]);
        for (uint32_t k = 0; k <= c->layers[c->levels - 1 - i]; k++) say(&t, "%c%u", k ? ',' : '-', c->up[i][k]);
    }
}
