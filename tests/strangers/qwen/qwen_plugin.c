/* qwen_plugin.c - the families and nodes of this plugin. */
#include "qwen.h"

static kiln_status open_plugin(const kiln_host *host)
{
    const kiln_model_api *models = host->ability(KILN_MODEL_ABILITY);
    if (!models) return KILN_ERR_UNSUPPORTED;
    TRY(models->register_family(&qwen_denoiser_family));
    TRY(models->register_family(&qwen_vae_family));
    return models->register_family(&qwen_clip_family);
}

KILN_PLUGIN_OPEN("org.example.qwen", "1.0.0", "MIT", open_plugin, &qwen_scale_node, &qwen_see_node, &qwen_encode_node,
                 &qwen_reference_node, &qwen_edit_node, &qwen_tokens_node, &qwen_true_cfg_node);
