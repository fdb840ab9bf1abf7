/* resolution_selector.c - ResolutionSelector: a width and a height of some proportions and number of pixels, as ComfyUI
 * rounds them: half to even. */
#include "primitive.h"

#include "kiln/kit.h"

#include <math.h>

typedef struct {
    int32_t aspect_ratio;
    double megapixels;
    int64_t multiple;
} resolution_params;

#define RATIO(w, h) ((w)*100 + (h))
static const kiln_choice ratio_choice[] = {{.name = "1:1 (Square)", .value = RATIO(1, 1)},
                                           {.name = "2:3 (Portrait Photo)", .value = RATIO(2, 3)},
                                           {.name = "3:2 (Photo)", .value = RATIO(3, 2)},
                                           {.name = "3:4 (Portrait Standard)", .value = RATIO(3, 4)},
                                           {.name = "4:3 (Standard)", .value = RATIO(4, 3)},
                                           {.name = "9:16 (Portrait Widescreen)", .value = RATIO(9, 16)},
                                           {.name = "16:9 (Widescreen)", .value = RATIO(16, 9)},
                                           {.name = "21:9 (Ultrawide)", .value = RATIO(21, 9)},
                                           {0}};
static const kiln_param resolution_param[] = {
    KIT_ENUM(resolution_params, aspect_ratio, ratio_choice, RATIO(1, 1), "Width to height."),
    KIT_FLOAT(resolution_params, megapixels, 1, 0.1, 16, 0.1, "Times 1024 x 1024."),
    KIT_INT(resolution_params, multiple, 8, 8, 128, "What divides both sides."),
};
static const kiln_port resolution_out[] = {{.name = "width", .type = "INT", .doc = "Pixels."},
                                           {.name = "height", .type = "INT", .doc = "Pixels."}};

static kiln_status resolution_run(const kiln_call *c)
{
    const resolution_params *p = c->params;
    double w = p->aspect_ratio / 100, h = p->aspect_ratio % 100, multiple = (double)p->multiple;
    double scale = sqrt(p->megapixels * 1024 * 1024 / (w * h));
    for (int i = 0; i < 2; i++) {
        int64_t side = (int64_t)rint((i ? h : w) * scale / multiple) * p->multiple;
        if (!(c->out[i] = kit_values(c)->new_int(c->ctx, side))) return KILN_ERR_NOMEM;
    }
    return KILN_OK;
}
const kiln_node node_resolution_selector = {
    KIT_NODE("ResolutionSelector", "Resolution Selector", "utils", "A width and a height of some proportions."),
    KILN_ARRAY(out, resolution_out),
    KIT_PARAMS(resolution_params, resolution_param),
    .run = resolution_run,
};
