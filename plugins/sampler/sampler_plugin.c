/* sampler_plugin.c - the entry table of the sampler plugin: samplers, schedules, KSampler. */
#include "samplers.h"
#include "sampling.h"
#include "schedules.h"

static kiln_status open_plugin(const kiln_host *host)
{
    const kiln_sampler_api *api = host->ability(KILN_SAMPLER_ABILITY);
    if (!api) return KILN_ERR_UNSUPPORTED;
    for (size_t i = 0; i < sampler_row_count; i++) {
        kiln_status status = api->register_sampler(sampler_rows[i]);
        if (status != KILN_OK) return status;
    }
    for (size_t i = 0; i < schedule_row_count; i++) {
        kiln_status status = api->register_schedule(schedule_rows[i]);
        if (status != KILN_OK) return status;
    }
    return KILN_OK;
}

KILN_PLUGIN_OPEN("org.kiln.sampler", KILN_PLUGIN_VERSION, "MIT", open_plugin, &node_ksampler, &node_ksampler_advanced);
