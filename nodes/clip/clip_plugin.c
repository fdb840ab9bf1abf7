/* clip_plugin.c - the entry table of the clip plugin: the text encoders of Stable Diffusion, their loaders, and the
 * nodes that make conditioning of prompts. */
#include "clip_family.h"
#include "clip_loaders.h"
#include "clip_tokenizer.h"
#include "encode_text.h"
#include "text_encode.h"
#include "text_encode_sdxl.h"

static kiln_status open_plugin(const kiln_host *host)
{
    if (KILN_HAS(kiln_host, host, data_folder)) clip_tokenizer_data(host->data_folder());
    const kiln_model_api *api = host->ability(KILN_MODEL_ABILITY);
    if (!api || !KILN_HAS(kiln_host, host, provide)) return KILN_ERR_UNSUPPORTED;
    kiln_status status = host->provide(KILN_TEXT_ABILITY, &text_api);
    return status == KILN_OK ? api->register_family(&clip_family) : status;
}

KILN_PLUGIN_OPEN("org.kiln.clip", KILN_PLUGIN_VERSION, "MIT", open_plugin, &node_clip_text_encode,
                 &node_clip_set_last_layer, &node_clip_text_encode_sdxl, &node_clip_text_encode_sdxl_refiner,
                 &node_clip_loader, &node_dual_clip_loader);
