/* unet_view.c - see unet_view.h. */
#include "unet_view.h"

#include "kiln/kit.h"
#include "unet_shapes.h"

static kiln_weights *squeezed(const kiln_weights_api *w, kiln_ctx *ctx, kiln_weights *view)
{
    const kiln_weight_rule rules[] = {
        KILN_RULE(.from = "{}.{}.{}.{}.proj_in.weight", .to = "{}.{}.{}.{}.proj_in.weight", .squeeze = 1),
        KILN_RULE(.from = "{}.{}.{}.{}.proj_out.weight", .to = "{}.{}.{}.{}.proj_out.weight", .squeeze = 1),
        KILN_RULE(.from = "{}.{}.{}.proj_in.weight", .to = "{}.{}.{}.proj_in.weight", .squeeze = 1),
        KILN_RULE(.from = "{}.{}.{}.proj_out.weight", .to = "{}.{}.{}.proj_out.weight", .squeeze = 1),
        KILN_RULE(.from = "*", .to = "*")};
    if (!view || !unet_projections_mixed(w, view)) return view;
    kiln_weights *out = w->view(ctx, view, rules, COUNT(rules));
    w->unref(view);
    return out;
}

kiln_weights *unet_view(const kiln_weights_api *w, kiln_ctx *ctx, kiln_weights *set, ldm_rules *rules)
{
    kiln_weights *view = rules->nomem ? NULL : w->view(ctx, set, rules->rule, rules->n);
    ldm_rules_free(rules);
    return squeezed(w, ctx, view);
}
