/* box_and_combo.c - PrimitiveBoundingBox, a rectangle as a value, and CustomCombo, a choice of texts that the workflow
 * itself lists. Names and defaults are ComfyUI's.
 */
#include "kiln/kit.h"
#include "primitive.h"

#include <string.h>

/* ---- PrimitiveBoundingBox ---- */

enum { SIDE_MAX = 16384, OPTIONS = 50 };

typedef struct {
    int64_t x, y, width, height;
} box_params;
static const kiln_param box_param[] = {
    KIT_INT(box_params, x, 0, 0, SIDE_MAX, "First column."),
    KIT_INT(box_params, y, 0, 0, SIDE_MAX, "First row."),
    KIT_INT(box_params, width, 512, 1, SIDE_MAX, "Pixels."),
    KIT_INT(box_params, height, 512, 1, SIDE_MAX, "Pixels."),
};
static const kiln_port box_out[] = {
    {.name = "BOUNDING_BOX", .type = "BOUNDING_BOX", .doc = "A map of x, y, width and height."}};

static kiln_status box_run(const kiln_call *c)
{
    const kiln_value_api *v = kit_values(c);
    const box_params *p = c->params;
    if (!(c->out[0] = v->new_map(c->ctx))) return KILN_ERR_NOMEM;
    TRY(kit_set(c, c->out[0], "x", v->new_int(c->ctx, p->x)));
    TRY(kit_set(c, c->out[0], "y", v->new_int(c->ctx, p->y)));
    TRY(kit_set(c, c->out[0], "width", v->new_int(c->ctx, p->width)));
    return kit_set(c, c->out[0], "height", v->new_int(c->ctx, p->height));
}
const kiln_node node_primitive_bounding_box = {
    KIT_NODE("PrimitiveBoundingBox", "Bounding Box", "utils/primitive", "A rectangle, for ImageCropV2."),
    KILN_ARRAY(out, box_out),
    KIT_PARAMS(box_params, box_param),
    .run = box_run,
};

/* ---- CustomCombo ---- */

typedef struct {
    const char *choice;
    int64_t index;
    const char *option[OPTIONS];
} combo_params;
#define OPTION(number_)                                                                                                \
    {                                                                                                                  \
        .name = "option" #number_, .type = KILN_P_STRING, .offset = offsetof(combo_params, option[number_ - 1]),       \
        .def_str = "", .doc = "One of the texts."                                                                      \
    }
static const kiln_param combo_param[] = {
    {.name = "choice",
     .type = KILN_P_STRING,
     .flags = KILN_PARAM_REQUIRED,
     .offset = offsetof(combo_params, choice),
     .doc = "The text that comes out."},
    KIT_INT(combo_params, index, 0, 0, 1e9, "Its number from 0, where it is none of the options."),
    OPTION(1),
    OPTION(2),
    OPTION(3),
    OPTION(4),
    OPTION(5),
    OPTION(6),
    OPTION(7),
    OPTION(8),
    OPTION(9),
    OPTION(10),
    OPTION(11),
    OPTION(12),
    OPTION(13),
    OPTION(14),
    OPTION(15),
    OPTION(16),
    OPTION(17),
    OPTION(18),
    OPTION(19),
    OPTION(20),
    OPTION(21),
    OPTION(22),
    OPTION(23),
    OPTION(24),
    OPTION(25),
    OPTION(26),
    OPTION(27),
    OPTION(28),
    OPTION(29),
    OPTION(30),
    OPTION(31),
    OPTION(32),
    OPTION(33),
    OPTION(34),
    OPTION(35),
    OPTION(36),
    OPTION(37),
    OPTION(38),
    OPTION(39),
    OPTION(40),
    OPTION(41),
    OPTION(42),
    OPTION(43),
    OPTION(44),
    OPTION(45),
    OPTION(46),
    OPTION(47),
    OPTION(48),
    OPTION(49),
    OPTION(50)};
static const kiln_port combo_out[] = {
    {.name = "STRING", .type = "STRING", .doc = "The choice."},
    {.name = "INDEX", .type = "INT", .doc = "Its place among the options, from 0."},
};

static kiln_status combo_run(const kiln_call *c)
{
    const kiln_value_api *v = kit_values(c);
    const combo_params *p = c->params;
    int64_t index = p->index;
    for (int64_t i = OPTIONS; i-- > 0;)
        if (p->option[i][0] && strcmp(p->option[i], p->choice) == 0) index = i;
    if (!(c->out[0] = v->new_string(c->ctx, p->choice, strlen(p->choice)))) return KILN_ERR_NOMEM;
    return (c->out[1] = v->new_int(c->ctx, index)) ? KILN_OK : KILN_ERR_NOMEM;
}
const kiln_node node_custom_combo = {
    KIT_NODE("CustomCombo", "Custom Combo", "utils", "A choice of texts that the workflow lists, and its number."),
    KILN_ARRAY(out, combo_out),
    KIT_PARAMS(combo_params, combo_param),
    .run = combo_run,
};
