/* text_plugin.c - the entry table of the text diffusion plugin. */
#include "text_loader.h"
#include "text_nodes.h"
#include "vocabulary_statistics.h"
#include "text_state.h"

static kiln_status open_plugin(const kiln_host *host)
{
    const kiln_store_api *store = host->ability(KILN_STORE_ABILITY);
    td_host = host;
    td_ops = host->ability(KILN_OPS_ABILITY);
    if (!store || !td_ops || !KILN_HAS(kiln_ops, td_ops, arange)) return KILN_ERR_UNSUPPORTED;
    TRY(text_register_families(host));
    TRY(td_ops->register_op(&vocabulary_statistics_kind));
    return store->register_type(&stored_prompt);
}

KILN_PLUGIN_OPEN("org.kiln.text_diffusion", KILN_PLUGIN_VERSION, "MIT", open_plugin, &node_text_diffusion_loader,
                 &node_text_diffusion_encode, &node_text_diffusion_sample, &node_text_diffusion_generate,
                 &node_text_diffusion_noise, &node_save_text, &node_tokenizer_loader, &node_tokenizer_encode,
                 &node_tokenizer_decode, &node_tokenizer_count);
