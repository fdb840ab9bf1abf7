/* control_plugin.c - the entry table: two families of the kind "control", and the nodes around them. */
#include "control.h"

#include <stdio.h>

static const kiln_host *kept;

void control_say_recorded(const char *family, const kiln_ops *ops, kiln_program *p, kiln_t hint)
{
    char text[200];
    snprintf(text, sizeof text, "%.80s: recorded for %lld pictures of %lld x %lld pixels", family,
             (long long)control_dim(ops, p, hint, 0), (long long)control_dim(ops, p, hint, 1),
             (long long)control_dim(ops, p, hint, 2));
    kept->log(KILN_LOG_INFO, text);
}

static kiln_status open_plugin(const kiln_host *host)
{
    kept = host;
    const kiln_model_api *models = host->ability(KILN_MODEL_ABILITY);
    if (!models) return KILN_ERR_UNSUPPORTED;
    TRY(models->register_family(&controlnet_family));
    return models->register_family(&t2i_adapter_family);
}

KILN_PLUGIN_OPEN("org.example.control", "1.0.0", "MIT", open_plugin, &node_control_loader, &node_control_apply,
                 &node_control_apart);
