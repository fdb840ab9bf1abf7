/* tokenizer_plugin.c - the entry table of the tokenizer plugin: it has no nodes and provides "kiln.tokenizer/1". */
#include "tokenizer_api.h"

static kiln_status open_plugin(const kiln_host *host)
{
    tokenizer_api_host(host);
    return host->provide(KILN_TOKENIZER_ABILITY, &tokenizer_api);
}

KILN_PLUGIN_WITHOUT_NODES("org.kiln.tokenizer", KILN_PLUGIN_VERSION, "MIT", open_plugin);
