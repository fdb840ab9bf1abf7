/* ability_value.c - "kiln.value/1" as plugins get it: tensor/value.c's table, whose functions that take a kiln_ctx look
 * whether its call is over. The value is made all the same: it does not depend on the call.
 */
#include "plugin/abilities.h"
#include "plugin/ctx.h"
#include "tensor/value.h"

#include <pthread.h>

static kiln_value *new_int(kiln_ctx *c, int64_t v) { return ctx_is_late(c), value_api.new_int(c, v); }
static kiln_value *new_float(kiln_ctx *c, double v) { return ctx_is_late(c), value_api.new_float(c, v); }
static kiln_value *new_bool(kiln_ctx *c, int v) { return ctx_is_late(c), value_api.new_bool(c, v); }
static kiln_value *new_list(kiln_ctx *c) { return ctx_is_late(c), value_api.new_list(c); }
static kiln_value *new_map(kiln_ctx *c) { return ctx_is_late(c), value_api.new_map(c); }
static kiln_value *list_copy(kiln_ctx *c, const kiln_value *v) { return ctx_is_late(c), value_api.list_copy(c, v); }
static kiln_value *map_copy(kiln_ctx *c, const kiln_value *v) { return ctx_is_late(c), value_api.map_copy(c, v); }

static kiln_value *new_string(kiln_ctx *c, const char *bytes, size_t n)
{
    ctx_is_late(c);
    return value_api.new_string(c, bytes, n);
}

static kiln_value *new_object(kiln_ctx *c, const char *type, void *ptr, void (*release)(void *),
                              const char *fingerprint)
{
    ctx_is_late(c);
    return value_api.new_object(c, type, ptr, release, fingerprint);
}

static kiln_value_api table;

static void fill(void)
{
    table = value_api;
    table.new_int = new_int, table.new_float = new_float, table.new_bool = new_bool, table.new_string = new_string;
    table.new_list = new_list, table.new_map = new_map, table.new_object = new_object;
    table.list_copy = list_copy, table.map_copy = map_copy;
}

const kiln_value_api *value_ability(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill);
    return &table;
}
