/* noise_value.c - see noise_value.h. A seed's 64 bits are kept in an INT. */
#include "noise_value.h"

#include "kiln/kit.h"
#include "sizeless.h"

kiln_status noise_copy(const kiln_call *c, const kiln_noise *given, kiln_noise *out)
{
    return KILN_READ(out, given, samples) ? KILN_OK : sizeless(c, "noise", "kiln_noise");
}

kiln_status noise_new(const kiln_call *c, const kiln_noise *given, kiln_value **out)
{
    const kiln_value_api *v = kit_values(c);
    kiln_noise copy, *noise = &copy;
    int64_t bits;
    TRY(noise_copy(c, given, noise));
    memcpy(&bits, &noise->seed, sizeof bits);
    kiln_value *map = v->new_map(c->ctx);
    kiln_status status = map ? kit_set(c, map, "seed", v->new_int(c->ctx, bits)) : KILN_ERR_NOMEM;
    if (status == KILN_OK && noise->none) status = kit_set(c, map, "none", v->new_bool(c->ctx, 1));
    if (status == KILN_OK && noise->source) status = kit_set(c, map, "source", v->new_int(c->ctx, noise->source));
    if (status == KILN_OK && noise->blocks) status = kit_set(c, map, "blocks", v->new_int(c->ctx, noise->blocks));
    if (status == KILN_OK && noise->samples)
        status = v->map_set(map, "samples", (kiln_value *)(uintptr_t)noise->samples);
    if (status == KILN_OK)
        *out = map;
    else
        c->host->unref(map);
    return status;
}

static kiln_status read_source(const kiln_call *c, const kiln_value *value, kiln_noise *out)
{
    const kiln_value_api *v = kit_values(c);
    const kiln_value *source = v->map_get(value, "source"), *blocks = v->map_get(value, "blocks");
    int64_t kind = 0;
    if ((source && (v->get_int(source, &kind) != KILN_OK || kind < KILN_NOISE_AUTO || kind > KILN_NOISE_CUDA_ALL)) ||
        (blocks &&
         (v->get_int(blocks, &out->blocks) != KILN_OK || out->blocks < 0 || out->blocks > KILN_NOISE_BLOCKS_MAX)))
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "a NOISE's 'source' has to be 0 to %d, its 'blocks' 0 to %d",
                             KILN_NOISE_CUDA_ALL, KILN_NOISE_BLOCKS_MAX);
    out->source = (int32_t)kind;
    return KILN_OK;
}

kiln_status noise_read(const kiln_call *c, const kiln_value *value, kiln_noise *given)
{
    const kiln_value_api *v = kit_values(c);
    kiln_noise full = {0}, *out = &full;
    int64_t bits;
    int none = 0;
    if (v->get_int(v->map_get(value, "seed"), &bits) != KILN_OK)
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "a NOISE has to be a map with a 'seed'");
    memcpy(&out->seed, &bits, sizeof bits);
    if (v->map_get(value, "none") && v->get_bool(v->map_get(value, "none"), &none) != KILN_OK)
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "a NOISE's 'none' has to be true or false");
    out->none = none;
    out->samples = v->map_get(value, "samples");
    TRY(read_source(c, value, out));
    return KILN_WRITE(given, &full, samples) ? KILN_OK : sizeless(c, "noise_read()", "kiln_noise");
}
