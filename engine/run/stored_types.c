/* stored_types.c - see stored_types.h. */
#include "run/stored_types.h"

#include "plugin/abilities.h"

static uint32_t revision(void *self, const char *type)
{
    const kiln_stored_type *t = stored_type_find(type);
    return (void)self, t ? t->revision : 0;
}

static kiln_value *to_plain(void *self, const kiln_value *object, error *e)
{
    const kiln_stored_type *t = stored_type_find(value_api.object_type(object));
    (void)self;
    if (t) return stored_type_to_plain(t, object, e);
    error_set(e, KILN_ERR_UNSUPPORTED, "a %s is a handle, which is never stored", value_api.object_type(object));
    return NULL;
}

static kiln_value *from_plain(void *self, const char *type, const kiln_value *plain, error *e)
{
    const kiln_stored_type *t = stored_type_find(type);
    (void)self;
    if (t) return stored_type_from_plain(t, plain, e);
    error_set(e, KILN_ERR_INVALID, "no plugin here knows the type %.128s", type);
    return NULL;
}

const codec_types *stored_types(void)
{
    static const codec_types types = {.revision = revision, .to_plain = to_plain, .from_plain = from_plain};
    return &types;
}
