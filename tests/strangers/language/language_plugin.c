/* language_plugin.c - the plugin's table. */
#include "language.h"

const kiln_host *host;
const kiln_ops *ops;

static kiln_status open_plugin(const kiln_host *h)
{
    const kiln_store_api *store = h->ability(KILN_STORE_ABILITY);
    host = h;
    ops = h->ability(KILN_OPS_ABILITY);
    if (!store || !ops || !KILN_HAS(kiln_ops, ops, custom)) return KILN_ERR_UNSUPPORTED;
    TRY(ops->register_op(&ssd_scan));
    return store->register_type(&stored_state);
}

KILN_PLUGIN_OPEN("org.example.language", "1.0.0", "MIT", open_plugin, &loader_node, &read_node, &score_node,
                 &generate_node);
